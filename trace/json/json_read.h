/*
 * trace/json/json_read.h - a streaming pull reader for bulk trace JSON, in one window whatever the size.
 *
 * Grammar: RFC 8259, strict, with these extras for traces in the wild, each counted in
 * mrd_json_reader_lenient(): a bare word as a value (NaN, -inf, N/A, 0x1f; type MRD_JR_WORD), extra commas in an array, one behind the last value of an object, no comma before an object of an array, and a byte
 * order mark in front. Text that the caller passes over is checked like text that it reads.
 * Damage inside a string costs that place only, counted in mrd_json_reader_replaced(): U+FFFD stands
 * for each run of bytes that is not UTF-8, for an escape of half a surrogate pair or without four
 * digits, and for a zero byte; control characters and unknown escapes stay as they are.
 * Behind other damage mrd_json_resume() goes on at the next record.
 * Limits: MRD_JR_DEPTH levels, MRD_JR_STRING_MAX bytes for one string, MRD_JR_NUMBER_MAX for one
 * number, MRD_JR_WORD_MAX for one word; more is DEPTH, LIMIT or, for a word, SYNTAX.
 * Every error names file, byte offset and reason: SYNTAX, DEPTH, LIMIT, TRUNCATED (the input
 * ends inside the document), EMPTY (no document at all), and those of trace/json/in.h.
 *
 * Use: next() steps over values of the current container; enter() goes into the container just met;
 * leaving happens by itself: next() at the end of a container returns MRD_JR_END once and continues
 * in the parent. skip is implicit: calling next() without enter() passes over the container.
 * Memory: the window of trace/json/in.h, and one key and one string where they carry escapes or meet the
 * window's end. Threads: belongs to one thread.
 */
#ifndef MRD_TRACE_JSON_READ_H
#define MRD_TRACE_JSON_READ_H

#include "trace/json/in.h"

#define MRD_JR_DEPTH      256
#define MRD_JR_STRING_MAX (8u << 20)
#define MRD_JR_NUMBER_MAX 4096u
#define MRD_JR_WORD_MAX   64

typedef enum {
    MRD_JR_ERROR, /* why says so; the reader stays there */
    MRD_JR_END,   /* of the container entered last; at the top level: end of the document */
    MRD_JR_OBJECT,
    MRD_JR_ARRAY,
    MRD_JR_STRING,
    MRD_JR_NUMBER,
    MRD_JR_TRUE,
    MRD_JR_FALSE,
    MRD_JR_NULL,
    MRD_JR_WORD, /* a word without quotes that is no JSON value */
} mrd_jr_type;

typedef struct mrd_json_reader mrd_json_reader;

/* Borrows `in`. Errors: NOMEM. */
mrd_err mrd_json_reader_open(mrd_in *in, mrd_json_reader **ret_reader, mrd_why *why);
void mrd_json_reader_close(mrd_json_reader *r);
/*
 * Several documents may follow one another, with or without blanks between them (JSON lines): at
 * the top level next() gives one after the other, then MRD_JR_END. Call before the first next().
 */
void mrd_json_many(mrd_json_reader *r);

/*
 * The next value of the current container. In an object *ret_key is its unescaped key. For STRING
 * the unescaped text, for NUMBER its digits (valid by the grammar), for WORD the word, is
 * *ret_text. Both borrow until the next call that reads; key and text of one call are valid
 * together. ret_key and ret_text may be NULL.
 */
mrd_jr_type mrd_json_next(mrd_json_reader *r, mrd_str *ret_key, mrd_str *ret_text);
/* After OBJECT or ARRAY: go inside. */
void mrd_json_enter(mrd_json_reader *r);
/*
 * After OBJECT or ARRAY: pass over it and give its raw text, borrowed until the next call that
 * reads (the key of the container is not valid any more). Repaired where it had to be, so that it is
 * JSON. LIMIT when it is longer than `max` bytes:
 * it was passed over and the reader goes on. Other errors are the reader's and stay.
 */
mrd_err mrd_json_raw(mrd_json_reader *r, size_t max, mrd_str *ret_text);
/*
 * For a caller that reads what it knows faster. After OBJECT or ARRAY: the text behind its bracket
 * as far as the window holds it, MRD_IN_PAD zero bytes behind; borrowed until the next call that
 * reads. passed: the caller has read up to p, behind the closing bracket, and vouches for the
 * grammar; the next call goes on there. A caller that does not call it has read nothing.
 */
mrd_str mrd_json_ahead(const mrd_json_reader *r);
void mrd_json_passed(mrd_json_reader *r, const char *p);
/* The object at `offset`, which is being read in a container that lies `depth` deep, is a record: if it is
 * damaged, mrd_json_resume() may search it again. */
void mrd_json_mark(mrd_json_reader *r, uint64_t offset, unsigned depth);

/* What was lost when the reader met damage. */
typedef struct {
    mrd_why why;
    uint64_t skipped; /* bytes, from the begin of the record or else from the damage */
    uint64_t records; /* 1: the marked record, or what stood in the place of one; 0: none */
} mrd_json_damage;

/*
 * Goes on behind damage, after a SYNTAX, DEPTH or LIMIT error inside the array that lies `depth` deep.
 * The next call of mrd_json_next() gives the array's next record, or its end. A record is an object that
 * begins with a key and follows a comma, a bracket or a line end; if the marked record is damaged, the search begins inside
 * it, since a lost quote or bracket may have hidden the next one. If no array lies `depth` deep, the
 * records that follow are given at the top level, as with mrd_json_many(); commas and closing brackets
 * between them mean nothing.
 *
 * Fills *ret_damage, also on failure. Returns false if the input ends before another record, and after
 * errors of other kinds: the error stays. Returns false with the error CORRUPT if the array's record is
 * followed by the begin of another document, one that starts like the first: two programs wrote into one
 * file, and their records cannot be told apart.
 */
bool mrd_json_resume(mrd_json_reader *r, unsigned depth, mrd_json_damage *ret_damage);
/* After ERROR: code and message; also available later. MRD_OK when there was none. */
mrd_err mrd_json_reader_err(const mrd_json_reader *r, mrd_why *why);
/* Byte offset of the value given last (its first byte); after ERROR, of the error. */
uint64_t mrd_json_reader_offset(const mrd_json_reader *r);
unsigned mrd_json_depth(const mrd_json_reader *r); /* containers entered */
uint64_t mrd_json_reader_lenient(const mrd_json_reader *r);
uint64_t mrd_json_reader_replaced(const mrd_json_reader *r);

/* "object", "array", "string", ...: for messages. Static. */
const char *mrd_jr_type_text(mrd_jr_type type);

#endif
