/*
 * aggregator/journal/segment.h - the layout of a journal file, for its writer and readers.
 * docs/reference/wire.md section 7 specifies it. Internal to aggregator/.
 *
 *   header 256 | frames as received ... | index: (offset u64, frame header 96) each | trailer 32
 *
 * Index and trailer exist if the segment was closed normally.
 */
#ifndef MRD_AGGREGATOR_JOURNAL_SEGMENT_H
#define MRD_AGGREGATOR_JOURNAL_SEGMENT_H

#include "proto/frame.h"

#define SEGMENT_MAGIC   "MRDJRNL1"
#define SEGMENT_END     "MRDJEND1"
#define SEGMENT_VERSION 1u
#define SEGMENT_TRAILER 32u
#define SEGMENT_ENTRY   (8u + MRD_FRAME_HEADER)
#define SEGMENT_SUFFIX  ".mrj"

static inline void
seg_put(uint8_t *p, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        p[i] = (uint8_t) (v >> 8 * i);
}

static inline uint64_t
seg_get(const uint8_t *p, int bytes)
{
    uint64_t v = 0;

    for (int i = 0; i < bytes; i++)
        v |= (uint64_t) p[i] << 8 * i;
    return v;
}

#endif
