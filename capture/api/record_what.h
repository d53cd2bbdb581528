/*
 * capture/api/record_what.h - the common arguments of all recording calls, and the clock of their
 * times. Internal.
 *
 * Threads  any.
 */
#ifndef MRD_CAPTURE_API_RECORD_WHAT_H
#define MRD_CAPTURE_API_RECORD_WHAT_H

#include <stdint.h>

/* Name and track of what is recorded. */
typedef struct {
    uint32_t name;         /* id from mrd_rec_name; 0 if name_text has the name */
    const char *name_text; /* used when name is 0 */
    uint32_t domain;       /* id of the domain's name, 0 for none */
    uint32_t track;        /* id from mrd_rec_track, 0 for the thread's own track */
    /* MRD_RECF_API, MRD_RECF_FRAME, or type, scope or direction << MRD_RECF_SHIFT */
    uint8_t flags;
} mrd_rec_what;

/* mrd_rec_now returns the time in ticks of the ring clock. mrd_rec_raw_ns converts such a time to
 * nanoseconds of CLOCK_MONOTONIC_RAW. */
uint64_t mrd_rec_now(void);
int64_t mrd_rec_raw_ns(uint64_t ticks);

#endif
