/*
 * trace/analysis/launches.h - when launches began, by the arrow that leads from them to a device span.
 *
 * The newest MRD_LAUNCHES are remembered, whatever their numbers; of older ones nothing is known.
 *
 * Memory     1 MiB, and 64 bytes for each launch that is remembered.
 * Threads    belongs to one thread.
 */
#ifndef MRD_TRACE_LAUNCHES_H
#define MRD_TRACE_LAUNCHES_H

#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"

#define MRD_LAUNCHES 65536u

typedef struct mrd_launches mrd_launches;

mrd_launches *mrd_launches_new(void); /* NULL: no memory */
void mrd_launches_free(mrd_launches *l);
/* An arrow of this number leaves a span that began at ts; it replaces an earlier one. Errors: NOMEM, and
 * the arrow is not remembered. */
mrd_err mrd_launches_note(mrd_launches *l, uint64_t flow, mrd_ev_ns ts);
/* Borrowed until the next note; NULL: nothing is known of it. */
const mrd_ev_ns *mrd_launches_find(const mrd_launches *l, uint64_t flow);

#endif
