/*
 * capture/nrt_text.h - texts of the system trace on their way into the ring. Internal.
 *
 * Nothing is thrown away for want of room: a text waits here, and the runtime's own rings keep what
 * was not fetched. At the end of the process what does not fit into the ring gets a ring of its own,
 * as large as it needs and MERIDIAN_RING_TOTAL allows; what finds no room even there is counted, in
 * events and with their times.
 * Threads: one fills the ring; the queue is guarded by the caller's lock.
 */
#ifndef MRD_CAPTURE_NRT_TEXT_H
#define MRD_CAPTURE_NRT_TEXT_H

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
bool mrd_sys_texts_add(mrd_sys_texts *q, const char *p, size_t len);
void mrd_sys_texts_drop_first(mrd_sys_texts *q);

/* By the thread that fills the ring. True: the text is done with (in the ring, or dropped as
 * asked); false: there is no room for it now. */
bool mrd_sys_text_put(mrd_sys_text *t);
/* The same for a text that is not in a queue; false: nothing of it was taken. */
bool mrd_sys_text_put_whole(const char *p, size_t len);
/* What comes next stands apart from what was before: texts between were not asked for. */
void mrd_sys_text_apart(void);
/* Counts the events of all texts in q as lost and empties q. */
void mrd_sys_texts_lose(mrd_sys_texts *q);
/* Texts for which there is no room, at the end: rings of their own, then losses. Empties q. */
void mrd_sys_texts_rest(mrd_sys_texts *q);

/* What is in a text: events, and between which times of the wall clock. */
typedef struct {
    uint64_t events;
    mrd_wall_ns first, last; /* 0: none of the host's clock */
    bool numbered;           /* nc_local_id: what is missing shows */
} mrd_sys_sum;

#endif
