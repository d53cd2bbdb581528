#include "agent/rings/ring_memory.h"

#include <malloc.h>

#define MEMORY_DEFAULT ((size_t) 256 << 20)

static size_t
most(const mrd_drain *drain)
{
    return drain->o.memory == 0 ? MEMORY_DEFAULT : drain->o.memory;
}

static size_t
index_bytes(const mrd_index *index)
{
    return index->places == NULL ? 0 : (index->mask + 1) * sizeof(*index->places);
}

static size_t
ring_bytes(const ring *r)
{
    return sizeof(*r) + mrd_ring_memory(r->reader) + r->blob.cap + r->n_names * sizeof(*r->names) +
           r->cap_tracks * sizeof(*r->tracks) + index_bytes(&r->by_line) +
           r->cap_texts * sizeof(*r->texts);
}

static size_t
proc_bytes(const mrd_drain *drain, const proc *pr)
{
    return sizeof(*pr) + mrd_open_spans_memory(&pr->open) + mrd_drain_runtime_memory(pr) +
           (pr->pub.catalog == drain->o.catalog ? 0 : mrd_catalog_memory(pr->pub.catalog));
}

bool
mrd_drain_memory_fits(const mrd_drain *drain, const ring *r, size_t more)
{
    size_t own = drain->users[r->user].bytes,
           left = drain->bytes < most(drain) ? most(drain) - drain->bytes : 0;

    return more <= left && own <= left - more && more <= left - more - own;
}

bool
mrd_drain_memory_is_short(const mrd_drain *drain)
{
    return drain->bytes > most(drain) / 4;
}

bool
mrd_drain_memory_note(mrd_drain *drain, ring *r)
{
    size_t before = r->charged;

    r->charged = ring_bytes(r) + (r->proc->rings == r ? proc_bytes(drain, r->proc) : 0);
    drain->bytes += r->charged - before;
    drain->users[r->user].bytes += r->charged - before;
    return r->charged <= before || mrd_drain_memory_fits(drain, r, 0);
}

void
mrd_drain_memory_forget(mrd_drain *drain, ring *r)
{
    drain->bytes -= r->charged;
    drain->users[r->user].bytes -= r->charged;
    r->charged = 0;
}

void
mrd_drain_memory_goes_back(void)
{
    (void) mallopt(M_MMAP_THRESHOLD, 1 << 20);
}
