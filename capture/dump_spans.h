/*
 * capture/dump_spans.h - what a dump has to remember between records: spans whose end is another
 * record, maybe in another thread's ring and in a later dump, and how threads are called. Internal;
 * one caller at a time; malloc.
 */
#ifndef MRD_CAPTURE_DUMP_SPANS_H
#define MRD_CAPTURE_DUMP_SPANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MRD_DUMP_SPANS_MAX (1u << 16) /* open ones, and ends without a begin */

/* What begin said. Texts are JSON strings with their quotes; cat may be NULL. */
typedef struct {
    char *name, *cat;
} mrd_dump_span;

/* False without room: its end will find nothing. Copies. */
bool mrd_dump_span_begin(uint64_t id, const char *name, size_t name_len, const char *cat,
                         size_t cat_len);
/* True: *ret_span is the caller's, to be freed with mrd_dump_span_free. */
bool mrd_dump_span_take(uint64_t id, mrd_dump_span *ret_span);
void mrd_dump_span_free(mrd_dump_span *span);

/* An end whose begin was not seen yet: `text` is what follows name and category in its JSON, and is
 * owned from here on. */
typedef struct {
    uint64_t id;
    char *text;
} mrd_dump_end;

/* False without room; text is freed. */
bool mrd_dump_end_keep(uint64_t id, char *text);
/* Those kept, for the caller to remove: set text to NULL, then compact. */
mrd_dump_end *mrd_dump_ends(size_t *ret_n);
void mrd_dump_ends_compact(void);

/* How far the ring of this name was looked at, for one that is only looked at (an agent reads it):
 * the next dump goes on there. NULL without memory. */
uint64_t *mrd_dump_looked(uint64_t ring);

/* Whether this thread has not been called so in the file yet; notes that it is now. */
bool mrd_dump_thread_is_new(int32_t tid, const char *name, size_t len);
void mrd_dump_threads_forget(void); /* another file begins */
void mrd_dump_spans_forget(void);   /* a fork's child begins */

#endif
