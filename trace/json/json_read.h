/*
 * trace/json/json_read.h - a streaming pull reader for the JSON of traces. It uses one window of
 * constant size.
 *
 * Grammar: strict RFC 8259 with these extras, which traces contain and mrd_json_reader_lenient()
 * counts:
 *   - a bare word as a value (NaN, -inf, N/A, 0x1f; type MRD_JR_WORD)
 *   - extra commas in an array, and one after the last value of an object
 *   - a missing comma before an object in an array
 *   - a byte order mark at the start
 * Text that the caller skips is checked like text that it reads.
 *
 * Damage inside a string affects only that place, and mrd_json_reader_replaced() counts it. U+FFFD
 * replaces each run of invalid UTF-8, each escape of half a surrogate pair or without four digits,
 * and each zero byte. Control characters and unknown escapes stay unchanged. After other damage,
 * mrd_json_resume() continues at the next record.
 *
 * Limits: MRD_JR_DEPTH levels, MRD_JR_STRING_MAX bytes per string, MRD_JR_NUMBER_MAX per number and
 * MRD_JR_WORD_MAX per word. Every error has file, byte offset and reason. Errors: SYNTAX (also for
 * a long word), DEPTH, LIMIT, TRUNCATED (the input ends inside the document), EMPTY (no document),
 * and the errors of trace/json/in.h.
 *
 * Use: next() returns the next value of the current container. enter() enters the container that
 * next() has just returned. Calling next() without enter() skips it. At the end of a container,
 * next() returns MRD_JR_END once and then continues in the parent.
 * Memory: the window of trace/json/in.h, and one key and one string if they contain escapes or
 * cross the window's end. Threads: a reader belongs to one thread.
 */
#ifndef MRD_TRACE_JSON_READ_H
#define MRD_TRACE_JSON_READ_H

#include "trace/json/in.h"

#define MRD_JR_DEPTH      256
#define MRD_JR_STRING_MAX (8u << 20)
#define MRD_JR_NUMBER_MAX 4096u
#define MRD_JR_WORD_MAX   64

typedef enum {
    /* the reader has failed and does not continue; mrd_json_reader_err has the reason */
    MRD_JR_ERROR,
    /* end of the current container, or end of the document at the top level */
    MRD_JR_END,
    MRD_JR_OBJECT,
    MRD_JR_ARRAY,
    MRD_JR_STRING,
    MRD_JR_NUMBER,
    MRD_JR_TRUE,
    MRD_JR_FALSE,
    MRD_JR_NULL,
    MRD_JR_WORD, /* a word without quotes that is not a JSON value */
} mrd_jr_type;

typedef struct mrd_json_reader mrd_json_reader;

/* Creates a reader of `in`, which is borrowed. Errors: NOMEM. */
mrd_err mrd_json_reader_open(mrd_in *in, mrd_json_reader **ret_reader, mrd_why *why);
void mrd_json_reader_close(mrd_json_reader *reader);
/*
 * Allows several documents in the input, with or without white space in between (JSON lines). At
 * the top level next() returns each of them, then MRD_JR_END. Call this before the first next().
 */
void mrd_json_many(mrd_json_reader *reader);

/*
 * Returns the next value of the current container. In an object, *ret_key is its unescaped key.
 * *ret_text is the unescaped text of a STRING, the digits of a NUMBER, or a WORD. Both are borrowed
 * until the next reading call. ret_key and ret_text may be NULL.
 */
mrd_jr_type mrd_json_next(mrd_json_reader *reader, mrd_str *ret_key, mrd_str *ret_text);
/* Enters the OBJECT or ARRAY that mrd_json_next has just returned. */
void mrd_json_enter(mrd_json_reader *reader);
/*
 * Skips the OBJECT or ARRAY that mrd_json_next has just returned, and gets its text. The text is
 * borrowed until the next reading call, and *ret_key of the container becomes invalid. The text is
 * repaired if necessary, so that it is strict JSON. LIMIT means that the text has more than `max`
 * bytes. The container was then skipped, and reading may continue. Other errors are errors of the
 * reader, which cannot continue.
 */
mrd_err mrd_json_raw(mrd_json_reader *reader, size_t max, mrd_str *ret_text);
/*
 * Two functions for a caller that reads a known format faster itself. After OBJECT or ARRAY,
 * mrd_json_ahead() returns the text after the opening bracket, up to the end of the window.
 * MRD_IN_PAD zero bytes follow it, and it is borrowed until the next reading call. If the caller
 * can read the whole container in this text, and the text follows the grammar, it calls
 * mrd_json_passed(). `p` is the position after the closing bracket, where reading continues.
 * Otherwise the caller reads the container with mrd_json_enter(), as usual.
 */
mrd_str mrd_json_ahead(const mrd_json_reader *reader);
void mrd_json_passed(mrd_json_reader *reader, const char *p);
/* Marks the object at `offset`, which is being read, as a record. It is in a container at depth
 * `depth`. If the record is damaged, mrd_json_resume() may search it for the next record. */
void mrd_json_mark(mrd_json_reader *reader, uint64_t offset, unsigned depth);

/* The loss because of damage. */
typedef struct {
    mrd_why why;
    /* number of bytes that were skipped, counted from the begin of the record if one is marked,
     * else from the damage */
    uint64_t skipped;
    /* 1 if the marked record was lost, or an array element that is not a record; else 0 */
    uint64_t records;
} mrd_json_damage;

/*
 * Resumes after a SYNTAX, DEPTH or LIMIT error inside the array at `depth`. The next call of
 * mrd_json_next() returns the array's next record, or its end. A record is an object that begins
 * with a key and follows a comma, a bracket or a line end. If the marked record is damaged, the
 * search begins inside it, because a lost quote or bracket may have hidden the next record. If
 * there is no array at `depth`, the following records are returned at the top level, as with
 * mrd_json_many(). Commas and closing brackets between them are then ignored.
 *
 * Always fills *ret_damage. Returns false and keeps the error if no other record follows, or if the
 * error is of another kind. Returns false with the error CORRUPT if a second document with the same
 * begin follows. Then two programs wrote into one file, and their records cannot be separated.
 */
bool mrd_json_resume(mrd_json_reader *reader, unsigned depth, mrd_json_damage *ret_damage);
/* Returns the reader's error, and copies its message to `why`. MRD_OK if there was none. */
mrd_err mrd_json_reader_err(const mrd_json_reader *reader, mrd_why *why);
/* Returns the byte offset at which the last value begins; after MRD_JR_ERROR, the offset of the
 * error. */
uint64_t mrd_json_reader_offset(const mrd_json_reader *reader);
/* Returns the number of containers that were entered and have not ended. */
unsigned mrd_json_depth(const mrd_json_reader *reader);
uint64_t mrd_json_reader_lenient(const mrd_json_reader *reader);
uint64_t mrd_json_reader_replaced(const mrd_json_reader *reader);

/* Returns the name of a type for messages: "an object", "an array", "a string" and so on. The text
 * is static. */
const char *mrd_jr_type_text(mrd_jr_type type);

#endif
