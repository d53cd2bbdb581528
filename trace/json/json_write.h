/*
 * trace/json/json_write.h - writes large JSON directly into the buffer of a mrd_out, without a
 * document in memory and without printf. Integers are exact.
 *
 * The caller opens and closes containers and writes keys and values in order. The writer adds
 * commas and line ends. Compact text has one line per element of the arrays below the top level.
 * Pretty text is indented by two spaces. The output is always valid JSON. Bytes that are not UTF-8
 * become U+FFFD, and invalid raw JSON is written as a string. A writer uses the buffer of its
 * mrd_out until mrd_jw_flush. Errors are kept by the mrd_out. Threads: belongs to one thread.
 */
#ifndef MRD_TRACE_JSON_WRITE_H
#define MRD_TRACE_JSON_WRITE_H

#include "base/sys/out.h"
#include "trace/model/event.h"

#define MRD_JW_DEPTH 64 /* maximum depth of open containers */

typedef struct {
    mrd_out *out;
    uint8_t *start, *p, *end;
    const mrd_strtab *strings; /* texts for mrd_jw_sid; may be NULL */
    uint8_t *plain; /* per string of `strings`: 0 unknown, 1 needs no escape, 2 needs an escape */
    size_t n_plain;
    unsigned depth;
    bool pretty;
    uint8_t state;
} mrd_jw;

void mrd_jw_init(mrd_jw *jw, mrd_out *out, const mrd_strtab *strings, bool pretty);
/* Begins a part of a document that mrd_jw_members() inserts later. The writer assumes that `depth`
 * containers are open, and that the innermost one already has a value. */
void mrd_jw_inside(mrd_jw *jw, unsigned depth);
/* Passes the written text to the mrd_out. Required before another writer uses that mrd_out. */
void mrd_jw_flush(mrd_jw *jw);
void mrd_jw_fini(mrd_jw *jw); /* flushes the text and frees the writer's memory */

void mrd_jw_open(mrd_jw *jw, char bracket);  /* bracket is '{' or '[' */
void mrd_jw_close(mrd_jw *jw, char bracket); /* bracket is '}' or ']' */
void mrd_jw_end(mrd_jw *jw); /* call it after the whole document; writes the last line end */
/* writes a key of at most 1,024 bytes that needs no escapes */
void mrd_jw_key(mrd_jw *jw, mrd_str plain);
void mrd_jw_key_sid(mrd_jw *jw, mrd_sid key);

void mrd_jw_i64(mrd_jw *jw, int64_t v);
void mrd_jw_u64(mrd_jw *jw, uint64_t v);
void mrd_jw_i64_text(mrd_jw *jw, int64_t v); /* writes an integer in quotes */
void mrd_jw_u64_text(mrd_jw *jw, uint64_t v);
/* Writes a short decimal text with a point or an exponent. Reading it gives the same double. NaN
 * and infinities become strings. */
void mrd_jw_double(mrd_jw *jw, double value);
void mrd_jw_bool(mrd_jw *jw, bool v);
void mrd_jw_null(mrd_jw *jw);
void mrd_jw_str(mrd_jw *jw, mrd_str text);
void mrd_jw_sid(mrd_jw *jw, mrd_sid sid);
/* Writes a time in nanoseconds as microseconds with three decimals: 1234 becomes 1.234. */
void mrd_jw_us(mrd_jw *jw, int64_t ns);
/* Inserts members that another writer has rendered after mrd_jw_inside. The open object must have
 * at least one member already. */
void mrd_jw_members(mrd_jw *jw, mrd_str text);
void mrd_jw_arg(mrd_jw *jw, const mrd_arg *arg); /* writes the value of an argument */

/* These functions write a member. They write nothing if the value is MRD_NONE, "" or false. */
void mrd_jw_put_i64(mrd_jw *jw, mrd_str key, int64_t v);
void mrd_jw_put_sid(mrd_jw *jw, mrd_str key, mrd_sid sid);
void mrd_jw_put_flag(mrd_jw *jw, mrd_str key, bool v);
/* Writes a member; the value is null for MRD_NONE. */
void mrd_jw_put_i64_or_null(mrd_jw *jw, mrd_str key, int64_t v);

/* MRD_JW_KEY writes a literal key. It is fast in the usual case: compact text, and the key follows
 * another member. */
enum { MRD_JW_OPENED, MRD_JW_KEYED, MRD_JW_VALUED }; /* the kind of the last output */
static inline void
mrd_jw_key_fast(mrd_jw *jw, const char *token, size_t len)
{
    if (!jw->pretty && jw->state == MRD_JW_VALUED && jw->depth > 1 &&
        (size_t) (jw->end - jw->p) >= len) {
        memcpy(jw->p, token, len);
        jw->p += len;
        jw->state = MRD_JW_KEYED;
    } else {
        mrd_jw_key(jw, (mrd_str){ token + 2, len - 4 });
    }
}
#define MRD_JW_KEY(w, literal) mrd_jw_key_fast((w), ",\"" literal "\":", sizeof(literal) - 1 + 4)
/* Writes a member with a literal key. `type` names the function that writes its value:
 * MRD_JW_PUT(jw, "count", u64, n) calls mrd_jw_u64(jw, n). For the type `open`, the value is the
 * bracket. */
#define MRD_JW_PUT(w, literal, type, ...)                                                          \
    do {                                                                                           \
        MRD_JW_KEY(w, literal);                                                                    \
        mrd_jw_##type(w, __VA_ARGS__);                                                             \
    } while (0)

/* Returns true if the text is one complete JSON value by RFC 8259, nested at most
 * MRD_JSON_VALID_DEPTH deep. */
#define MRD_JSON_VALID_DEPTH 240
bool mrd_json_valid(mrd_str text);

#endif
