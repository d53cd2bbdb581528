/*
 * capture/nrt/nrt_text.h - texts of the system trace on their way into the ring. Internal.
 *
 * No text is dropped because of a full ring: it waits here, and the runtime's own rings keep the
 * texts that were not fetched. At the end of the process, texts that do not fit into the ring get a
 * ring of their own, as large as needed and allowed by MERIDIAN_RING_TOTAL. Texts that do not fit
 * there either are counted as lost, by events and times. Threads: one fills the ring. The caller's
 * lock protects the queue.
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
    size_t len, at; /* at: of it is in the ring */
    uint32_t seq;   /* of the blob under way */
    bool wanted;    /* recording was on when it was taken */
    char p[];
} mrd_sys_text;

/* Texts in order. */
typedef struct {
    mrd_sys_text *first, **last;
    size_t bytes;
} mrd_sys_texts;

/* Takes a copy, which is recorded if recording is on now. Returns false if out of memory. */
bool mrd_sys_texts_add(mrd_sys_texts *texts, const char *p, size_t len);
void mrd_sys_texts_drop_first(mrd_sys_texts *texts);

/* Called by the thread that fills the ring. Returns true if the text is finished: it is in the
 * ring, or was dropped because the reader asked for silence. Returns false if the ring has no room
 * now. */
bool mrd_sys_text_put(mrd_sys_text *text);
/* The same for a text that is not in a queue. False means that none of it was written. */
bool mrd_sys_text_put_whole(const char *p, size_t len);
/* Marks the next text as separate from the previous ones: the texts between them were not
 * requested. */
void mrd_sys_text_apart(void);
/* Counts the events of all texts in texts as lost and empties texts. */
void mrd_sys_texts_lose(mrd_sys_texts *texts);
/* Texts for which there is no room, at the end: rings of their own, then losses. Empties texts. */
void mrd_sys_texts_rest(mrd_sys_texts *texts);

/* The content of a text: the number of its events, and their first and last wall-clock time. */
typedef struct {
    uint64_t events;
    mrd_wall_ns first, last; /* 0 if no event has a time of the host's clock */
    bool numbered;           /* events have nc_local_id, so missing ones are noticed */
} mrd_sys_sum;

#endif
