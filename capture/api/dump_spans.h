/*
 * capture/api/dump_spans.h - tables that a dump keeps between records: the names of threads, and
 * the spans that have separate BEGIN and END records. The END may be in another thread's ring or in
 * a later dump. Internal. Only one thread may call it at a time. It uses malloc.
 */
#ifndef MRD_CAPTURE_API_DUMP_SPANS_H
#define MRD_CAPTURE_API_DUMP_SPANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* maximum number of open spans and of ends that were read before their begin */
#define MRD_DUMP_SPANS_MAX (1u << 16)

/* A span that has begun. `name` and `cat` (category) are JSON strings with their quotes. `cat` may
 * be NULL. */
typedef struct {
    char *name, *cat;
} mrd_dump_span;

/* Adds a span that has begun to the table. Copies the texts. Returns false if there is no room. The
 * dump then cannot complete this span at its end. */
bool mrd_dump_span_begin(uint64_t id, const char *name, size_t name_len, const char *cat,
                         size_t cat_len);
/* Removes a span from the table and stores it in *ret_span, which the caller frees with
 * mrd_dump_span_free. Returns false if there is no span with this id. */
bool mrd_dump_span_take(uint64_t id, mrd_dump_span *ret_span);
void mrd_dump_span_free(mrd_dump_span *span);

/* The end of a span, read before the begin of the span. `text` is the JSON after name and category.
 * The table owns it. */
typedef struct {
    uint64_t id;
    char *text;
} mrd_dump_end;

/* Adds the end of a span that was read before its begin. Takes ownership of `text`. If there is no
 * room, frees `text` and returns false. */
bool mrd_dump_end_keep(uint64_t id, char *text);
/* Returns the ends that mrd_dump_end_keep added. To remove some, the caller sets their `text` to
 * NULL and then calls mrd_dump_ends_compact. */
mrd_dump_end *mrd_dump_ends(size_t *ret_n);
void mrd_dump_ends_compact(void);

/* Returns the position up to which dumps have read this ring, which an agent reads too. The next
 * dump continues there. The caller may change the value. `ring` identifies the ring. Returns NULL
 * if out of memory. */
uint64_t *mrd_dump_looked(uint64_t ring);

/* Returns true if the dump's file does not yet have this name for the thread. Later calls for the
 * same name return false. */
bool mrd_dump_thread_is_new(int32_t tid, const char *name, size_t len);
void mrd_dump_threads_forget(void); /* call it when another file begins */
void mrd_dump_spans_forget(void);   /* call it in the child of a fork */

#endif
