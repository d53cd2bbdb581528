/*
 * trace/json/json_read_int.h - private to json_read.c (the grammar) and json_resume.c (resuming
 * after damage): the state of a reader
 */
#ifndef MRD_TRACE_JSON_READ_INT_H
#define MRD_TRACE_JSON_READ_INT_H

#include "trace/json/json_read.h"

/* number of bytes that identify the begin of another document */
#define JR_HEAD 16
#define JR_HOLD (MRD_IN_WINDOW / 4) /* bytes of a marked record that the window keeps */

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
    char pending;    /* '{' or '[': a container was found and neither entered nor skipped */
    bool first;      /* no value was read yet in the current container (or document) */
    bool many;       /* documents may follow each other */
    bool loose;      /* commas and closing brackets between documents are ignored */
    bool key_live;   /* `key` points into the window and must survive a refill */
    bool any;        /* a document was seen */
    const char *raw; /* start of raw text to keep, or NULL */
    /* '{' of the marked record; NULL if there is none or if it left the window */
    const char *mark;
    uint64_t mark_at;     /* offset of the marked record */
    unsigned mark_depth;  /* depth of the container with the marked record, or UINT_MAX */
    char head[JR_HEAD];   /* the first bytes of the first document */
    size_t head_len;      /* JR_HEAD, or 0 if the input is shorter */
    uint64_t tried;       /* before this offset, no record is searched a second time */
    mrd_str key, unasked; /* unasked: for the text that a caller does not want */
    mrd_buf text, key_buf, raw_buf;
    size_t raw_max;
    uint64_t lenient, replaced;
    mrd_why why;
    char stack[MRD_JR_DEPTH + 1]; /* the opening bracket of each level; [0] is 0 */
};

/* Offset in the input of a byte of the window. */
static inline uint64_t
mrd_jr_offset(const mrd_json_reader *reader, const char *at)
{
    return reader->base_offset + (uint64_t) (at - reader->base);
}

/*
 * Reads more input into the window. Keeps the bytes from `keep` on, and reader->p with them. Returns false at
 * the end of the input (reader->p is then reader->end) and after an error, which reader->why holds.
 */
bool mrd_jr_more(mrd_json_reader *reader, const char *keep);

#endif
