/*
 * capture/nrt/nrt_text.h - queues texts of the runtime's system trace until they fit into the ring.
 * Internal.
 *
 * A full ring drops no text. Fetched texts wait in this queue, and the runtime's own rings keep
 * texts that were not fetched yet. At the end of the process, texts that do not fit into the ring
 * get a ring of their own, as large as needed and allowed by MERIDIAN_RING_TOTAL. Texts that do not
 * fit there either are counted as lost, with the number and times of their events. Threads: one
 * thread fills the ring. The caller's lock protects the queue.
 */
#ifndef MRD_CAPTURE_NRT_NRT_TEXT_H
#define MRD_CAPTURE_NRT_NRT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"

#define MRD_NRT_TEXT_THREAD "meridian system trace"
#define MRD_NRT_REST_THREAD "meridian system trace, rest"

typedef struct mrd_sys_text {
    struct mrd_sys_text *next;
    /* length of the text, and how much of it is already in the ring, both in bytes */
    size_t len, at;
    uint32_t seq; /* number of the text's blob in the ring, set when writing begins */
    bool wanted;  /* recording was on when the text was fetched */
    char p[];
} mrd_sys_text;

/* A queue of texts, oldest first. */
typedef struct {
    mrd_sys_text *first, **last;
    size_t bytes;
} mrd_sys_texts;

/* Appends a copy of a text. The text will be recorded if recording is on now. Returns false if out
 * of memory. */
bool mrd_sys_texts_add(mrd_sys_texts *texts, const char *p, size_t len);
void mrd_sys_texts_drop_first(mrd_sys_texts *texts);

/* Writes the text, or the rest of it, to the ring. Only the thread that fills the ring may call it.
 * Returns false if the ring has no room now. Returns true if the whole text was written, or dropped
 * because the reader requested a pause. */
bool mrd_sys_text_put(mrd_sys_text *text);
/* Like mrd_sys_text_put, for a text that is not in a queue. If it returns false, nothing was
 * written. */
bool mrd_sys_text_put_whole(const char *p, size_t len);
/* Marks the next text as separate from the previous ones, because no session requested the texts
 * between them (MRD_RECF_APART). */
void mrd_sys_text_apart(void);
/* Counts the events of all queued texts as lost and empties the queue. */
void mrd_sys_texts_lose(mrd_sys_texts *texts);
/* Called at the end for texts that still wait. Writes them to an extra ring, counts texts that do
 * not fit there as lost, and empties the queue. */
void mrd_sys_texts_rest(mrd_sys_texts *texts);

/* The content of a text: the number of its events, and their first and last wall-clock time. */
typedef struct {
    uint64_t events;
    /* times of the first and last event, or 0 if no event has a time of the host's clock */
    mrd_wall_ns first, last;
    /* the events have sequence numbers (nc_local_id), so the reader detects missing events */
    bool numbered;
} mrd_sys_sum;

#endif
