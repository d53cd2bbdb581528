/*
 * capture/api/dump_spans.h - what a dump remembers between records: the names of threads, and spans
 * with their end in another record. The end may be in another thread's ring or in a later dump.
 * Internal, one caller at a time, uses malloc.
 */
#ifndef MRD_CAPTURE_API_DUMP_SPANS_H
#define MRD_CAPTURE_API_DUMP_SPANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MRD_DUMP_SPANS_MAX (1u << 16) /* open spans, and ends without a begin */

/* The content of a begin. Texts are JSON strings with their quotes. `cat` may be NULL. */
typedef struct {
    char *name, *cat;
} mrd_dump_span;

/* Copies the texts. Returns false if there is no room; the end of this span then finds no begin. */
bool mrd_dump_span_begin(uint64_t id, const char *name, size_t name_len, const char *cat,
                         size_t cat_len);
/* Returns true if the span was found. The caller then frees *ret_span with mrd_dump_span_free. */
bool mrd_dump_span_take(uint64_t id, mrd_dump_span *ret_span);
void mrd_dump_span_free(mrd_dump_span *span);

/* An end without a begin yet. `text` is the JSON after name and category, and is owned by this
 * table. */
typedef struct {
    uint64_t id;
    char *text;
} mrd_dump_end;

/* Keeps an end and takes `text`. If there is no room, frees `text` and returns false. */
bool mrd_dump_end_keep(uint64_t id, char *text);
/* Returns the ends that are kept. To remove some, the caller sets their text to NULL and then calls
 * mrd_dump_ends_compact. */
mrd_dump_end *mrd_dump_ends(size_t *ret_n);
void mrd_dump_ends_compact(void);

/* Returns the position up to which the ring of this name was read. It is for rings that an agent
 * reads, so that the next dump continues there. Returns NULL if out of memory. */
uint64_t *mrd_dump_looked(uint64_t ring);

/* Returns true if the file does not have this name for this thread yet, and remembers the name. */
bool mrd_dump_thread_is_new(int32_t tid, const char *name, size_t len);
void mrd_dump_threads_forget(void); /* another file begins */
void mrd_dump_spans_forget(void);   /* a fork's child begins */

#endif
