/*
 * trace/json/json_read_int.h - the state of a reader. Private to json_read.c (the grammar) and
 * json_resume.c (resuming after damage).
 */
#ifndef MRD_TRACE_JSON_READ_INT_H
#define MRD_TRACE_JSON_READ_INT_H

#include "trace/json/json_read.h"

/* number of bytes at the begin of a document by which a second one is recognized */
#define JR_HEAD 16
/* maximum number of bytes of a marked record that are kept in the window */
#define JR_HOLD (MRD_IN_WINDOW / 4)

/*
 * The window is [base, end). Zero bytes follow it, so every scan stops there. Only then does the
 * reader check whether it is at the end of the window. If a string crosses the end, its parts are
 * collected in `text` (or `key_buf` for a key). If a number or word crosses the end, it is moved to
 * the front of the window and scanned again.
 */
struct mrd_json_reader {
    const char *p, *end, *base;
    uint64_t base_offset, value_at;
    mrd_in *in;
    unsigned depth;
    /* opening bracket of the container that was returned last, if it is neither entered nor skipped
     * yet; else 0 */
    char pending;
    bool first; /* no value was read yet in the current container, or at the top level */
    bool many;  /* the input may contain several documents */
    bool loose; /* commas and closing brackets between documents are ignored */
    /* true if `key` points into the window; it must then be copied before the window moves */
    bool key_live;
    bool any; /* at least one document was seen */
    /* start of the text for mrd_json_raw() in the window; NULL if none is requested */
    const char *raw;
    /* opening bracket of the marked record in the window; NULL if it is not there */
    const char *mark;
    uint64_t mark_at; /* offset in the input of the marked record */
    /* depth of the container that has the marked record; UINT_MAX if no record is marked */
    unsigned mark_depth;
    char head[JR_HEAD]; /* the first bytes of the first document */
    size_t head_len;    /* JR_HEAD; 0 if the input is shorter than that */
    /* mrd_json_resume() has searched up to this offset; marked records before it are not searched
     * again */
    uint64_t tried;
    /* `unasked` receives a text that the caller of mrd_json_next() does not want */
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
 * Reads more input into the window. The bytes from `keep` on stay in the window, and reader->p
 * moves with them. Returns false at the end of the input (reader->p is then reader->end), and after
 * an error, which is in reader->why.
 */
bool mrd_jr_more(mrd_json_reader *reader, const char *keep);

#endif
