/* Maps model handles to numbers. Calls of the runtime read the table without a lock. */
#include "capture/nrt/nrt_hook.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "capture/api/ops.h"
#include "capture/meridian.h"
#include "capture/nrt/models.h"
#include "capture/ring/ring_clock.h"

#define SLOT_BITS 16
/* maximum number of models that are loaded at once; unused pages of the table use no memory */
#define SLOTS (1u << SLOT_BITS)

typedef struct {
    _Atomic uintptr_t handle; /* 0 if never used, 1 if free again */
    _Atomic uint64_t id;
    _Atomic int32_t vnc;
    /* hash of the NEFF (compiled model file), the same on all ranks that load this file */
    _Atomic uint64_t kind;
} slot;

static slot slots[SLOTS];
static _Atomic uint64_t next_id;

static uint32_t
start_of(uintptr_t handle)
{
    return (uint32_t) ((handle >> 4) * 0x9e3779b97f4a7c15u >> (64 - SLOT_BITS));
}

static slot *
find(uintptr_t handle)
{
    uint32_t at = start_of(handle);

    for (uint32_t i = 0; i < SLOTS; i++) {
        slot *s = &slots[(at + i) & (SLOTS - 1)];
        uintptr_t there = atomic_load_explicit(&s->handle, memory_order_acquire);

        if (there == handle)
            return s;
        if (there == 0)
            return NULL;
    }
    return NULL;
}

static void
insert(uintptr_t handle, uint64_t id, int32_t vnc, uint64_t kind)
{
    uint32_t at = start_of(handle);
    /* a freed model may have had the same handle, because the runtime reuses addresses */
    slot *s = find(handle);

    for (uint32_t i = 0; s == NULL && i < SLOTS; i++) {
        slot *t = &slots[(at + i) & (SLOTS - 1)];
        uintptr_t there = atomic_load_explicit(&t->handle, memory_order_relaxed);

        if (there <= 1 && atomic_compare_exchange_strong(&t->handle, &there, handle))
            s = t;
    }
    if (s == NULL)
        return; /* the table is full; the model then has no id */
    atomic_store_explicit(&s->id, id, memory_order_release);
    atomic_store_explicit(&s->vnc, vnc, memory_order_release);
    atomic_store_explicit(&s->kind, kind, memory_order_release);
}

/* Hashes the size and the first bytes of a NEFF. These contain a hash that the compiler
 * computed. */
static uint64_t
kind_of(const uint8_t *neff, size_t size)
{
    uint64_t h = 0xcbf29ce484222325u ^ size;

    for (size_t i = 0; neff != NULL && i < size && i < 4096; i++)
        h = (h ^ neff[i]) * 0x100000001b3u;
    return h;
}

uint64_t
mrd_nrt_model_loaded(const nrt_model_t *model, const void *neff, size_t size, int32_t vnc,
                     int32_t vnc_count, int64_t from_ns)
{
    mrd_model_call call = { .thread_id = syscall(SYS_gettid),
                            .from = { from_ns },
                            .to = { mrd_ring_clock_gettime(CLOCK_REALTIME) } };
    uint64_t id = atomic_fetch_add(&next_id, 1) + 1;

    insert((uintptr_t) model, id, vnc, kind_of(neff, size));
    (void) mrd_model_loaded_by(id, neff, size, vnc, vnc_count, &call);
    return id;
}

uint64_t
mrd_nrt_model_id(const nrt_model_t *model, int32_t *ret_vnc)
{
    const slot *s = model == NULL ? NULL : find((uintptr_t) model);

    *ret_vnc = s == NULL ? -1 : atomic_load_explicit(&s->vnc, memory_order_acquire);
    return s == NULL ? 0 : atomic_load_explicit(&s->id, memory_order_acquire);
}

uint64_t
mrd_nrt_model_kind(const nrt_model_t *model)
{
    const slot *s = model == NULL ? NULL : find((uintptr_t) model);

    return s == NULL ? 0 : atomic_load_explicit(&s->kind, memory_order_acquire);
}

void
mrd_nrt_model_cores(bool *used, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        used[i] = false;
    for (uint32_t i = 0; i < SLOTS; i++) {
        int32_t vnc = atomic_load_explicit(&slots[i].vnc, memory_order_acquire);

        if (atomic_load_explicit(&slots[i].handle, memory_order_acquire) > 1 && vnc >= 0 && vnc < n)
            used[vnc] = true;
    }
}

void
mrd_nrt_models_closed(void)
{
    for (uint32_t i = 0; i < SLOTS; i++) {
        uintptr_t handle = atomic_load_explicit(&slots[i].handle, memory_order_acquire);

        if (handle > 1 && atomic_compare_exchange_strong(&slots[i].handle, &handle, 1))
            (void) mrd_model_unloaded(atomic_load_explicit(&slots[i].id, memory_order_acquire));
    }
}

void
mrd_nrt_models_forked(void)
{
    for (uint32_t i = 0; i < SLOTS; i++)
        if (atomic_load_explicit(&slots[i].handle, memory_order_relaxed) != 0)
            atomic_store_explicit(&slots[i].handle, 0, memory_order_relaxed);
    atomic_store(&next_id, 0);
    mrd_models_forked();
    mrd_rec_ops_forked();
}

void
mrd_nrt_model_unloaded(uint64_t id, const nrt_model_t *model)
{
    slot *s = find((uintptr_t) model);

    /* Another thread may have loaded a model at the same address meanwhile. The slot then has the
     * new model's id and must stay. */
    if (s != NULL && atomic_load_explicit(&s->id, memory_order_acquire) == id)
        atomic_store_explicit(&s->handle, 1, memory_order_release);
    if (id != 0)
        (void) mrd_model_unloaded(id);
}
