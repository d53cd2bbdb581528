/*
 * trace/json/json_read_int.h - private to json_read.c (the grammar) and json_resume.c (going on behind
 * damage): the state of a reader.
 */
#ifndef MRD_TRACE_JSON_READ_INT_H
#define MRD_TRACE_JSON_READ_INT_H

#include "trace/json/json_read.h"

#define JR_HEAD 16                  /* bytes by which the begin of another document is known */
#define JR_HOLD (MRD_IN_WINDOW / 4) /* bytes of a marked record that the window keeps */

/*
 * The window is [base, end) with zero bytes behind it, so every scan ends by itself at a byte it
 * does not accept; only then is it asked whether that was the end of the window. Strings that meet
 * the end are collected in `text` (or `key_buf`), numbers and words are moved to the front of the
 * window and scanned again.
 */
struct mrd_json_reader {
    const char *p, *end, *base;
    uint64_t base_offset, value_at;
    mrd_in *in;
    unsigned depth;
    char pending;         /* '{' or '[': a container was met and neither entered nor passed over */
    bool first;           /* nothing was read yet in the current container (or document) */
    bool many;            /* documents may follow one another */
    bool loose;           /* commas and closing brackets between documents mean nothing */
    bool key_live;        /* `key` points into the window and must survive a refill */
    bool any;             /* a document was seen */
    const char *raw;      /* raw text is being kept from here on; NULL: not */
    const char *mark;     /* '{' of the marked record; NULL: none, or no longer in the window */
    uint64_t mark_at;     /* offset of the marked record */
    unsigned mark_depth;  /* of the container of the marked record; UINT_MAX: none was marked */
    char head[JR_HEAD];   /* the first bytes of the first document */
    size_t head_len;      /* JR_HEAD, or 0: the input is shorter */
    uint64_t tried;       /* before this offset, no record is searched a second time */
    mrd_str key, unasked; /* unasked: the text that a caller does not take */
    mrd_buf text, key_buf, raw_buf;
    size_t raw_max;
    uint64_t lenient, replaced;
    mrd_why why;
    char stack[MRD_JR_DEPTH + 1]; /* the opening bracket of each level; [0] is 0 */
};

/* Offset in the input of a byte of the window. */
static inline uint64_t
mrd_jr_offset(const mrd_json_reader *r, const char *at)
{
    return r->base_offset + (uint64_t) (at - r->base);
}

/*
 * Reads more input into the window. Keeps the bytes from `keep` on, and r->p with them. Returns false at
 * the end of the input (r->p is then r->end) and after an error, which r->why holds.
 */
bool mrd_jr_more(mrd_json_reader *r, const char *keep);

#endif
