/*
 * base/json.h - small JSON documents (configuration, manifests, HTTP bodies, replies) over jansson.
 *
 * Not for traces: a document is held in memory whole, at about ten times its text. Bulk trace JSON
 * goes through trace/json/json_read.h. Documents are limited to MRD_JSON_MAX bytes, or to what the caller
 * of an _up_to function says, and to 64 levels.
 * Integers are exact 64-bit signed; larger unsigned ones must travel as text.
 * Ownership: a mrd_json obtained by load, parse or new_* is freed with mrd_json_free; a value
 * handed to set or append is owned by the container even when that fails; at/get borrow.
 */
#ifndef MRD_BASE_JSON_H
#define MRD_BASE_JSON_H

#include "base/buf.h"

#define MRD_JSON_MAX      (16u << 20)
#define MRD_JSON_MANIFEST (512u << 20) /* a session with all nodes and artifacts that it may have */

typedef struct json_t mrd_json;

mrd_err mrd_json_load(const char *path, mrd_json **ret_doc, mrd_why *why);
mrd_err mrd_json_load_up_to(const char *path, size_t max, mrd_json **ret_doc, mrd_why *why);
/* `what` names the text in errors ("request body"). Errors: SYNTAX with line and column, LIMIT. */
mrd_err mrd_json_parse(mrd_str text, const char *what, mrd_json **ret_doc, mrd_why *why);
mrd_err mrd_json_parse_up_to(mrd_str text, size_t max, const char *what, mrd_json **ret_doc,
                             mrd_why *why);
void mrd_json_free(mrd_json *doc);

typedef enum {
    MRD_JSON_NULL, /* also of a NULL pointer */
    MRD_JSON_BOOL,
    MRD_JSON_INT,
    MRD_JSON_REAL,
    MRD_JSON_TEXT,
    MRD_JSON_ARRAY,
    MRD_JSON_OBJECT
} mrd_json_type;

mrd_json_type mrd_json_type_of(const mrd_json *v);
int64_t mrd_json_int_of(const mrd_json *v); /* 0 for another type */
bool mrd_json_is_object(const mrd_json *v);
bool mrd_json_is_array(const mrd_json *v);
size_t mrd_json_size(const mrd_json *v);                         /* of an array or object */
mrd_json *mrd_json_at(const mrd_json *array, size_t i);          /* NULL outside */
mrd_json *mrd_json_get(const mrd_json *object, const char *key); /* NULL when absent */
void *mrd_json_iter(mrd_json *object);
void *mrd_json_iter_next(mrd_json *object, void *it);
const char *mrd_json_iter_key(void *it);
mrd_json *mrd_json_iter_value(void *it);

/* Typed members; `def` when absent or of another type. Text is borrowed from the document. */
const char *mrd_json_str(const mrd_json *object, const char *key, const char *def);
int64_t mrd_json_int(const mrd_json *object, const char *key, int64_t def);
double mrd_json_num(const mrd_json *object, const char *key, double def);
bool mrd_json_bool(const mrd_json *object, const char *key, bool def);
/* A scalar as text (scratch holds numbers); MRD_TYPE for containers and null. */
mrd_err mrd_json_text(const mrd_json *v, char scratch[64], mrd_str *ret_text);

mrd_json *mrd_json_new_object(void);
mrd_json *mrd_json_new_array(void);
/* Each byte that is no UTF-8 becomes U+FFFD. NULL: null. */
mrd_json *mrd_json_new_str(const char *text);
mrd_json *mrd_json_new_int(int64_t v);
mrd_json *mrd_json_new_num(double v);
mrd_json *mrd_json_new_bool(bool v);
mrd_json *mrd_json_copy(const mrd_json *v); /* deep */
/* Add to a container; a NULL value (no memory) is remembered as a missing member and gives NOMEM.
 */
mrd_err mrd_json_set(mrd_json *object, const char *key, mrd_json *value);
mrd_err mrd_json_append(mrd_json *array, mrd_json *value);
/* A member that had another name in the release before. */
typedef struct {
    const char *old, *name;
} mrd_json_renamed;
/* In every object of the document, a member `old` without a member `name` beside it gets that
 * name. Errors: NOMEM: some have it. */
mrd_err mrd_json_rename(mrd_json *doc, const mrd_json_renamed *table, size_t n);
/* Appends the document as text; pretty has two-space indents. Key order is insertion order. */
void mrd_json_write(const mrd_json *doc, bool pretty, mrd_buf *to);

/* Writing without a document: appends text as a quoted JSON string, escaping what must be. Bytes
 * that are not UTF-8 become U+FFFD. */
void mrd_json_quote(mrd_buf *to, mrd_str text);

#endif
