/*
 * trace/json/json_read_int.h - private to json_read.c (the grammar) and json_resume.c (resuming
 * after damage): the state of a reader
 */
#ifndef MRD_TRACE_JSON_READ_INT_H
#define MRD_TRACE_JSON_READ_INT_H

#include "trace/json/json_read.h"

/* number of bytes at the begin of a document by which a second one is recognized */
#define JR_HEAD 16
#define JR_HOLD (MRD_IN_WINDOW / 4) /* bytes of a marked record that are kept in the window */

/*
 * The window is [base, end), followed by zero bytes, so every scan stops there. Only then does the
 * reader check whether it reached the end of the window. Strings across the end are collected in
 * `text` (or `key_buf`). Numbers and words are moved to the front of the window and scanned again.
 */
struct mrd_json_reader {
    const char *p, *end, *base;
    uint64_t base_offset, value_at;
    mrd_in *in;
    unsigned depth;
    /* '{' or '[' if this container was returned and neither entered nor skipped; otherwise 0 */
    char pending;
    bool first;      /* no value was read yet in the current container (or document) */
    bool many;       /* the input may contain several documents */
    bool loose;      /* commas and closing brackets between documents are ignored */
    bool key_live;   /* `key` points into the window and must survive a refill */
    bool any;        /* at least one document was seen */
    const char *raw; /* start of the raw text that must be kept; NULL if none is requested */
    /* '{' of the marked record; NULL if there is none or if it left the window */
    const char *mark;
    uint64_t mark_at;    /* offset in the input of the marked record */
    unsigned mark_depth; /* depth of the container with the marked record, or UINT_MAX */
    char head[JR_HEAD];  /* the first bytes of the first document */
    size_t head_len;     /* JR_HEAD, or 0 if the input is shorter */
    /* the search for a record has reached this offset; records before it are not tried again */
    uint64_t tried;
    /* unasked receives text that the caller of mrd_json_next did not request */
    mrd_str key, unasked;
    mrd_buf text, key_buf, raw_buf;
    size_t raw_max;
    uint64_t lenient, replaced;
    mrd_why why;
    /* the opening bracket of each open level; [0] is 0 for the top level */
    char stack[MRD_JR_DEPTH + 1];
};

/* Returns the offset in the input of a byte of the window. */
static inline uint64_t
mrd_jr_offset(const mrd_json_reader *reader, const char *at)
{
    return reader->base_offset + (uint64_t) (at - reader->base);
}

/*
 * Reads more input into the window. Keeps the bytes from `keep` on, and reader->p with them.
 * Returns false at the end of the input (reader->p is then reader->end) and after an error, which
 * reader->why holds.
 */
bool mrd_jr_more(mrd_json_reader *reader, const char *keep);

#endif
