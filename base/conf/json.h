/*
 * base/conf/json.h - small JSON documents (configuration, manifests, HTTP bodies, replies), on top
 * of jansson.
 *
 * Do not use it for traces, because a whole document is in memory and takes about ten times the
 * size of its text. trace/json/json_read.h reads the JSON of traces. A document may have 64 levels
 * and MRD_JSON_MAX bytes. The _up_to functions take another limit for the bytes. Integers are exact
 * 64-bit signed numbers. Larger unsigned numbers must be passed as text.
 *
 * Ownership: mrd_json_free frees the result of load, parse and new_*. set and append take ownership
 * of the value, even if they fail. at and get borrow.
 */
#ifndef MRD_BASE_CONF_JSON_H
#define MRD_BASE_CONF_JSON_H

#include "base/buf.h"

#define MRD_JSON_MAX (16u << 20)
/* maximum bytes of a session's manifest (session.json), enough for the maximum numbers of nodes and
 * stored files */
#define MRD_JSON_MANIFEST (512u << 20)

typedef struct json_t mrd_json;

mrd_err mrd_json_load(const char *path, mrd_json **ret_doc, mrd_why *why);
mrd_err mrd_json_load_up_to(const char *path, size_t max, mrd_json **ret_doc, mrd_why *why);
/* Parse a document. `what` describes the text in error messages, for example "request body".
 * Errors: SYNTAX with line and column, LIMIT. */
mrd_err mrd_json_parse(mrd_str text, const char *what, mrd_json **ret_doc, mrd_why *why);
mrd_err mrd_json_parse_up_to(mrd_str text, size_t max, const char *what, mrd_json **ret_doc,
                             mrd_why *why);
void mrd_json_free(mrd_json *doc);

typedef enum {
    MRD_JSON_NULL, /* also returned for a NULL pointer */
    MRD_JSON_BOOL,
    MRD_JSON_INT,
    MRD_JSON_REAL,
    MRD_JSON_TEXT,
    MRD_JSON_ARRAY,
    MRD_JSON_OBJECT
} mrd_json_type;

mrd_json_type mrd_json_type_of(const mrd_json *json);
int64_t mrd_json_int_of(const mrd_json *json); /* Returns 0 if the value has another type. */
bool mrd_json_is_object(const mrd_json *json);
bool mrd_json_is_array(const mrd_json *json);
/* Returns the number of members of an array or object. */
size_t mrd_json_size(const mrd_json *json);
/* Returns element i, counted from 0, or NULL if there is no such element. */
mrd_json *mrd_json_at(const mrd_json *array, size_t i);
/* Returns the member with this key, or NULL if there is none. */
mrd_json *mrd_json_get(const mrd_json *object, const char *key);
void *mrd_json_iter(mrd_json *object);
void *mrd_json_iter_next(mrd_json *object, void *it);
const char *mrd_json_iter_key(void *it);
mrd_json *mrd_json_iter_value(void *it);

/* Return a member of this type, or `def` if the member is missing or has another type. Text is
 * borrowed from the document. */
const char *mrd_json_str(const mrd_json *object, const char *key, const char *def);
int64_t mrd_json_int(const mrd_json *object, const char *key, int64_t def);
double mrd_json_num(const mrd_json *object, const char *key, double def);
bool mrd_json_bool(const mrd_json *object, const char *key, bool def);
/* Returns a scalar as text. Numbers are written to `scratch`. Errors: MRD_TYPE for containers and
 * null. */
mrd_err mrd_json_text(const mrd_json *json, char scratch[64], mrd_str *ret_text);

mrd_json *mrd_json_new_object(void);
mrd_json *mrd_json_new_array(void);
/* Makes a JSON string. Each byte that is not valid UTF-8 becomes U+FFFD. NULL becomes null. */
mrd_json *mrd_json_new_str(const char *text);
mrd_json *mrd_json_new_int(int64_t v);
mrd_json *mrd_json_new_num(double v);
mrd_json *mrd_json_new_bool(bool v);
mrd_json *mrd_json_copy(const mrd_json *json); /* Returns a deep copy. */
/* Add a member to a container. If `value` is NULL, because it could not be allocated, they return
 * NOMEM. */
mrd_err mrd_json_set(mrd_json *object, const char *key, mrd_json *value);
mrd_err mrd_json_append(mrd_json *array, mrd_json *value);
/* `old` is the name of a member in the previous release, `name` is its name now. */
typedef struct {
    const char *old, *name;
} mrd_json_renamed;
/* Renames members in every object of the document to their new names. An object that already has
 * the new name is not changed. Errors: NOMEM. Then some members are renamed and others not. */
mrd_err mrd_json_rename(mrd_json *doc, const mrd_json_renamed *table, size_t n);
/* Appends the document as text. `pretty` indents by two spaces. Members appear in the order in
 * which they were added. */
void mrd_json_write(const mrd_json *doc, bool pretty, mrd_buf *to);

/* Appends text as a JSON string with quotes and escapes. Bytes that are not valid UTF-8 become
 * U+FFFD. */
void mrd_json_quote(mrd_buf *to, mrd_str text);

#endif
