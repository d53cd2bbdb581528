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

/* A span that has begun. Texts are JSON strings with their quotes. `cat` may be NULL. */
typedef struct {
    char *name, *cat;
} mrd_dump_span;

/* Remembers the begin of a span and copies the texts. Returns false if there is no room. The dump
 * then cannot complete this span at its end. */
bool mrd_dump_span_begin(uint64_t id, const char *name, size_t name_len, const char *cat,
                         size_t cat_len);
/* Returns true if the span was found. The caller then frees *ret_span with mrd_dump_span_free. */
bool mrd_dump_span_take(uint64_t id, mrd_dump_span *ret_span);
void mrd_dump_span_free(mrd_dump_span *span);

/* An end with a begin that was not read yet. `text` is the JSON after name and category, and is
 * owned by this table. */
typedef struct {
    uint64_t id;
    char *text;
} mrd_dump_end;

/* Remembers an end with a begin that was not read yet, and takes ownership of `text`. If there is
 * no room, frees `text` and returns false. */
bool mrd_dump_end_keep(uint64_t id, char *text);
/* Returns the remembered ends. To remove some, the caller sets their text to NULL and then calls
 * mrd_dump_ends_compact. */
mrd_dump_end *mrd_dump_ends(size_t *ret_n);
void mrd_dump_ends_compact(void);

/* Returns the position up to which the ring of this name was read. It is for rings that an agent
 * reads, so that the next dump continues there. Returns NULL if out of memory. */
uint64_t *mrd_dump_looked(uint64_t ring);

/* Returns true if the dump's file does not yet contain this name of the thread, and remembers the
 * name. */
bool mrd_dump_thread_is_new(int32_t tid, const char *name, size_t len);
void mrd_dump_threads_forget(void); /* call it when another file begins */
void mrd_dump_spans_forget(void);   /* call it in the child of a fork */

#endif
