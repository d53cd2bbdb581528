/*
 * capture/record_what.h - what every recording call is given, and its clock. Internal.
 *
 * Threads  any.
 */
#ifndef MRD_CAPTURE_RECORD_WHAT_H
#define MRD_CAPTURE_RECORD_WHAT_H

#include <stdint.h>

/* Name and place of what is recorded. */
typedef struct {
    uint32_t name;         /* mrd_rec_name; 0: name_text */
    const char *name_text; /* used when name is 0 */
    uint32_t domain;       /* mrd_rec_name of the domain, 0 none */
    uint32_t track;        /* mrd_rec_track, 0: this thread */
    uint8_t flags;         /* MRD_RECF_API, MRD_RECF_FRAME, or <kind's number> << MRD_RECF_SHIFT */
} mrd_rec_what;

/* Ticks of the ring clock. Raw nanoseconds of such a tick: mrd_rec_raw_ns. */
uint64_t mrd_rec_now(void);
int64_t mrd_rec_raw_ns(uint64_t ticks);

#endif
