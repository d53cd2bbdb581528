/* Simulates tensors and tensor sets. Device memory is simulated by host memory, and its use is
 * counted. */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TENSOR_MAX (1ull << 36)

/* Emits the event for an allocation or release of device memory. It contains the bytes that are
 * then in use in the core's HBM. */
static void
tell_memory(sim_core *core, sim_type type, uint64_t bytes, uint64_t address)
{
    uint32_t i = sim_hbm(core);
    uint64_t dma[5] = { i % sim_hbms(), 1, 1, sim_device(core), 0 };
    uint64_t end[5] = { bytes, atomic_load(&sim.hbm_bytes[i]), atomic_load(&sim.hbm_tensors[i]), 0,
                        address };
    uint64_t id = sim_begin(core, type, NULL, 0, dma, 5);

    sim_end(core, type, id, 0, end, type == SIM_EV_nrt_dma_mem_alloc ? 5 : 3);
}

static void
storage_drop(sim_storage *storage)
{
    if (storage == NULL || atomic_fetch_sub(&storage->refs, 1) > 1)
        return;
    if (storage->core != NULL) {
        sim_hbm_add(storage->core, -(int64_t) storage->size, true);
        if (sim_check() == NRT_SUCCESS)
            tell_memory(storage->core, SIM_EV_nrt_dma_mem_dealloc, storage->size, 0);
    }
    if (storage->owned)
        free(storage->bytes);
    free(storage);
}

static sim_storage *
storage_new(uint8_t *bytes, size_t size, bool owned, sim_core *core)
{
    sim_storage *storage = calloc(1, sizeof(*storage));

    if (storage == NULL)
        return NULL;
    *storage =
        (sim_storage){ .refs = 1, .bytes = bytes, .size = size, .owned = owned, .core = core };
    if (core != NULL)
        sim_hbm_add(core, (int64_t) size, true);
    return storage;
}

static nrt_tensor_t *
tensor_new(const char *name)
{
    nrt_tensor_t *tensor = calloc(1, sizeof(*tensor));

    if (tensor == NULL)
        return NULL;
    tensor->magic = SIM_TENSOR_MAGIC;
    tensor->id = atomic_fetch_add(&sim.tensor_next, 1) + 1;
    if (name != NULL)
        snprintf(tensor->name, sizeof(tensor->name), "%s", name);
    return tensor;
}

static bool
name_fits(const char *name)
{
    return name == NULL || strlen(name) < NRT_TENSOR_NAME_MAX;
}

NRT_STATUS
sim_tensor_check(const nrt_tensor_t *tensor)
{
    if (tensor == NULL)
        return NRT_INVALID;
    return tensor->magic == SIM_TENSOR_MAGIC ? NRT_SUCCESS : NRT_INVALID_HANDLE;
}

static sim_core *
tensor_core(const nrt_tensor_t *tensor)
{
    return tensor->storage != NULL && tensor->storage->core != NULL ? tensor->storage->core
                                                                    : &sim.core[0];
}

NRT_STATUS
nrt_tensor_allocate(nrt_tensor_placement_t placement, int vnc, size_t size, const char *name,
                    nrt_tensor_t **tensor)
{
    bool device = placement == NRT_TENSOR_PLACEMENT_DEVICE;
    sim_core *core = NULL;
    uint64_t arg[2], track;
    nrt_tensor_t *t;
    uint8_t *bytes;

    SIM_NEEDS_OPEN();
    if (tensor == NULL || size == 0 || size > TENSOR_MAX || !name_fits(name) ||
        (int) placement < 0 || placement > NRT_TENSOR_PLACEMENT_VIRTUAL ||
        (device && (vnc < 0 || (uint32_t) vnc >= sim.core_count)))
        return NRT_INVALID;
    if (device)
        core = &sim.core[vnc];
    if (core != NULL && atomic_load(&core->bytes) + size > sim.instance->hbm_bytes)
        return NRT_RESOURCE;
    t = tensor_new(name);
    bytes = t == NULL ? NULL : calloc(1, size);
    if (bytes == NULL || (t->storage = storage_new(bytes, size, true, core)) == NULL) {
        free(bytes);
        free(t);
        return NRT_RESOURCE;
    }
    t->size = size;
    arg[0] = t->id;
    arg[1] = size;
    track = sim_begin(tensor_core(t), SIM_EV_nrt_tensor_allocate, NULL, 0, arg, 2);
    if (device)
        tell_memory(core, SIM_EV_nrt_dma_mem_alloc, size, (uint64_t) (uintptr_t) bytes);
    sim_end(tensor_core(t), SIM_EV_nrt_tensor_allocate, track, 0, NULL, 0);
    *tensor = t;
    return NRT_SUCCESS;
}

NRT_STATUS
nrt_tensor_allocate_empty(const char *name, nrt_tensor_t **tensor)
{
    nrt_tensor_t *t;

    SIM_NEEDS_OPEN();
    if (tensor == NULL || !name_fits(name))
        return NRT_INVALID;
    if ((t = tensor_new(name)) == NULL)
        return NRT_RESOURCE;
    *tensor = t;
    return NRT_SUCCESS;
}

NRT_STATUS
nrt_tensor_allocate_slice(const nrt_tensor_t *source, size_t offset, size_t size, const char *name,
                          nrt_tensor_t **slice)
{
    NRT_STATUS status;
    nrt_tensor_t *tensor;

    SIM_NEEDS_OPEN();
    if ((status = sim_tensor_check(source)) != NRT_SUCCESS)
        return status;
    if (slice == NULL || size == 0 || source->storage == NULL || offset > source->size ||
        size > source->size - offset || !name_fits(name))
        return NRT_INVALID;
    if ((tensor = tensor_new(name)) == NULL)
        return NRT_RESOURCE;
    tensor->storage = source->storage;
    atomic_fetch_add(&tensor->storage->refs, 1);
    tensor->offset = source->offset + offset;
    tensor->size = size;
    *slice = tensor;
    return NRT_SUCCESS;
}

NRT_STATUS
nrt_tensor_attach_buffer(nrt_tensor_t *tensor, void *buffer, size_t size)
{
    sim_storage *storage;
    NRT_STATUS status;

    SIM_NEEDS_OPEN();
    if ((status = sim_tensor_check(tensor)) != NRT_SUCCESS)
        return status;
    if (buffer == NULL || size == 0)
        return NRT_INVALID;
    if ((storage = storage_new(buffer, size, false, NULL)) == NULL)
        return NRT_RESOURCE;
    storage_drop(tensor->storage);
    tensor->storage = storage;
    tensor->offset = 0;
    tensor->size = size;
    return NRT_SUCCESS;
}

void
nrt_tensor_free(nrt_tensor_t **tensor)
{
    nrt_tensor_t *t;
    uint64_t arg[3], track;

    if (tensor == NULL || sim_tensor_check(*tensor) != NRT_SUCCESS)
        return;
    t = *tensor;
    *tensor = NULL;
    arg[0] = t->id;
    arg[1] = t->size;
    arg[2] = t->storage == NULL ? 0 : atomic_load(&t->storage->refs) - 1;
    if (sim_check() == NRT_SUCCESS) {
        sim_core *core = tensor_core(t);

        track = sim_begin(core, SIM_EV_nrt_tensor_free, NULL, 0, arg, 3);
        storage_drop(t->storage);
        sim_end(core, SIM_EV_nrt_tensor_free, track, 0, NULL, 0);
    } else
        storage_drop(t->storage);
    t->magic = 0;
    free(t);
}

NRT_STATUS
sim_tensor_move(const nrt_tensor_t *tensor, void *to, const void *from, uint64_t offset,
                uint64_t size)
{
    NRT_STATUS status = sim_tensor_check(tensor);

    if (status != NRT_SUCCESS)
        return status;
    if ((to == NULL && from == NULL) || tensor->storage == NULL || offset > tensor->size ||
        size > tensor->size - offset)
        return NRT_INVALID;
    if (to != NULL)
        memcpy(to, tensor->storage->bytes + tensor->offset + offset, size);
    else
        memcpy(tensor->storage->bytes + tensor->offset + offset, from, size);
    return NRT_SUCCESS;
}

/* Copies between a tensor and host memory synchronously. Emits a span of the runtime's call
 * (`type`), and inside it a span of the driver's copy (`below`). */
static NRT_STATUS
transfer(sim_type type, sim_type below, const nrt_tensor_t *tensor, void *to, const void *from,
         size_t offset, size_t size)
{
    uint64_t arg[2] = { 0, size }, copy[4] = { 0, 0, offset, size }, track, copy_track;
    NRT_STATUS status = sim_tensor_check(tensor);
    sim_core *core;

    if (status != NRT_SUCCESS)
        return status;
    core = tensor_core(tensor);
    arg[0] = copy[1] = tensor->id;
    track = sim_begin(core, type, NULL, 0, arg, 2);
    copy_track = sim_begin(core, below, NULL, 0, copy, 4);
    status = sim_tensor_move(tensor, to, from, offset, size);
    sim_end(core, below, copy_track, 0, NULL, 0);
    sim_end(core, type, track, 0, NULL, 0);
    return status;
}

NRT_STATUS
nrt_tensor_read(const nrt_tensor_t *tensor, void *buf, size_t offset, size_t size)
{
    SIM_NEEDS_OPEN();
    if (buf == NULL)
        return NRT_INVALID;
    return transfer(SIM_EV_nrt_tensor_read, SIM_EV_dmem_buf_copyout, tensor, buf, NULL, offset,
                    size);
}

NRT_STATUS
nrt_tensor_write(nrt_tensor_t *tensor, const void *buf, size_t offset, size_t size)
{
    SIM_NEEDS_OPEN();
    if (buf == NULL)
        return NRT_INVALID;
    return transfer(SIM_EV_nrt_tensor_write, SIM_EV_dmem_buf_copyin, tensor, NULL, buf, offset,
                    size);
}

static NRT_STATUS
batch(sim_type type, const nrt_tensor_batch_t *batches, uint64_t n, bool reads)
{
    NRT_STATUS status = NRT_SUCCESS;
    uint64_t track;

    SIM_NEEDS_OPEN();
    if (batches == NULL || n == 0)
        return NRT_INVALID;
    track = sim_begin(&sim.core[0], type, NULL, 0, &n, 1);
    for (uint64_t i = 0; i < n && status == NRT_SUCCESS; i++) {
        if (batches[i].ops == NULL)
            status = NRT_INVALID;
        for (uint32_t k = 0; k < batches[i].num_ops && status == NRT_SUCCESS; k++) {
            const nrt_tensor_batch_op_t *op = &batches[i].ops[k];

            status = sim_tensor_move(batches[i].tensor, reads ? op->buffer : NULL,
                                     reads ? NULL : op->buffer, op->offset, op->size);
        }
    }
    sim_end(&sim.core[0], type, track, 0, NULL, 0);
    return status;
}

NRT_STATUS
nrt_tensor_read_batch(const nrt_tensor_batch_t *batches, uint64_t num_batches, bool unsafe)
{
    (void) unsafe;
    return batch(SIM_EV_nrt_tensor_read_batch, batches, num_batches, true);
}

NRT_STATUS
nrt_tensor_write_batch(const nrt_tensor_batch_t *batches, uint64_t num_batches, bool unsafe)
{
    (void) unsafe;
    return batch(SIM_EV_nrt_tensor_write_batch, batches, num_batches, false);
}

NRT_STATUS
nrt_tensor_copy(const nrt_tensor_t *src, size_t src_offset, nrt_tensor_t *dst, size_t dst_offset,
                size_t size)
{
    NRT_STATUS status;

    SIM_NEEDS_OPEN();
    if ((status = sim_tensor_check(src)) != NRT_SUCCESS ||
        (status = sim_tensor_check(dst)) != NRT_SUCCESS)
        return status;
    if (src->storage == NULL || dst->storage == NULL || src_offset > src->size ||
        size > src->size - src_offset || dst_offset > dst->size || size > dst->size - dst_offset)
        return NRT_INVALID;
    if (src->storage->core != NULL && dst->storage->core != NULL &&
        src->storage->core != dst->storage->core)
        return NRT_INVALID;
    memmove(dst->storage->bytes + dst->offset + dst_offset,
            src->storage->bytes + src->offset + src_offset, size);
    return NRT_SUCCESS;
}

size_t
nrt_tensor_get_size(const nrt_tensor_t *tensor)
{
    return sim_tensor_check(tensor) == NRT_SUCCESS ? tensor->size : 0;
}

NRT_STATUS
nrt_tensor_memset(nrt_tensor_t *tensor, uint64_t offset, int value, size_t size)
{
    NRT_STATUS status;

    SIM_NEEDS_OPEN();
    if ((status = sim_tensor_check(tensor)) != NRT_SUCCESS)
        return status;
    if (tensor->storage == NULL || offset > tensor->size || size > tensor->size - offset)
        return NRT_INVALID;
    memset(tensor->storage->bytes + tensor->offset + offset, value, size);
    return NRT_SUCCESS;
}

void *
nrt_tensor_get_va(const nrt_tensor_t *tensor)
{
    if (sim_tensor_check(tensor) != NRT_SUCCESS || tensor->storage == NULL)
        return NULL;
    return tensor->storage->bytes + tensor->offset;
}

NRT_STATUS
nrt_tensor_get_device_allocation_info(const nrt_tensor_t *tensor,
                                      nrt_tensor_device_allocation_info_t *info)
{
    NRT_STATUS status;

    SIM_NEEDS_OPEN();
    if (info == NULL)
        return NRT_INVALID;
    if ((status = sim_tensor_check(tensor)) != NRT_SUCCESS)
        return status;
    if (tensor->storage == NULL || tensor->storage->core == NULL)
        return NRT_INVALID; /* fails, because the tensor is not on a device */
    info->physical_address = (uint64_t) (uintptr_t) (tensor->storage->bytes + tensor->offset);
    info->size = tensor->storage->size;
    info->hbm_index = (int) (tensor->storage->core->global / 2 % 4);
    return NRT_SUCCESS;
}

NRT_STATUS
nrt_tensor_check_output_completion(const nrt_tensor_t *tensor, int64_t timeout_us,
                                   uint64_t expected_count)
{
    int64_t deadline = sim_raw() + timeout_us * 1000;
    NRT_STATUS status;

    SIM_NEEDS_OPEN();
    if ((status = sim_tensor_check(tensor)) != NRT_SUCCESS)
        return status;
    while (atomic_load(&tensor->completions) < expected_count) {
        if (timeout_us >= 0 && sim_raw() >= deadline)
            return NRT_TIMEOUT;
        sim_sleep_until(sim_raw() + 20 * MRD_US);
    }
    return NRT_SUCCESS;
}

NRT_STATUS
nrt_tensor_reset_output_completion(nrt_tensor_t *tensor)
{
    NRT_STATUS status;

    SIM_NEEDS_OPEN();
    if ((status = sim_tensor_check(tensor)) == NRT_SUCCESS)
        atomic_store(&tensor->completions, 0);
    return status;
}

/* ---- sets of tensors ------------------------------------------------------------------------- */

typedef struct {
    char name[NRT_TENSOR_NAME_MAX];
    nrt_tensor_t *tensor;
} set_entry;

typedef struct {
    uint32_t magic;
    size_t count, room;
    set_entry *entry;
} tensor_set;

NRT_STATUS
sim_set_check(const nrt_tensor_set_t *set)
{
    if (set == NULL)
        return NRT_INVALID;
    return ((const tensor_set *) set)->magic == SIM_SET_MAGIC ? NRT_SUCCESS : NRT_INVALID_HANDLE;
}

void
sim_set_complete(nrt_tensor_set_t *set)
{
    tensor_set *s = set;

    for (size_t i = 0; s != NULL && i < s->count; i++)
        atomic_fetch_add(&s->entry[i].tensor->completions, 1);
}

NRT_STATUS
nrt_allocate_tensor_set(nrt_tensor_set_t **set)
{
    tensor_set *s;

    SIM_NEEDS_OPEN();
    if (set == NULL)
        return NRT_INVALID;
    if ((s = calloc(1, sizeof(*s))) == NULL)
        return NRT_RESOURCE;
    s->magic = SIM_SET_MAGIC;
    *set = s;
    return NRT_SUCCESS;
}

void
nrt_destroy_tensor_set(nrt_tensor_set_t **set)
{
    tensor_set *s;

    if (set == NULL || sim_set_check(*set) != NRT_SUCCESS)
        return;
    s = *set;
    s->magic = 0;
    free(s->entry);
    free(s);
    *set = NULL;
}

static set_entry *
set_find(tensor_set *set, const char *name)
{
    for (size_t i = 0; i < set->count; i++)
        if (strcmp(set->entry[i].name, name) == 0)
            return &set->entry[i];
    return NULL;
}

NRT_STATUS
nrt_add_tensor_to_tensor_set(nrt_tensor_set_t *set, const char *name, nrt_tensor_t *tensor)
{
    tensor_set *s = set;
    NRT_STATUS status;
    set_entry *entry;

    SIM_NEEDS_OPEN();
    if ((status = sim_set_check(set)) != NRT_SUCCESS ||
        (status = sim_tensor_check(tensor)) != NRT_SUCCESS)
        return status;
    if (name == NULL || *name == '\0' || !name_fits(name))
        return NRT_INVALID;
    if ((entry = set_find(s, name)) == NULL) {
        if (s->count == s->room) {
            size_t room = s->room == 0 ? 8 : s->room * 2;
            set_entry *grown = realloc(s->entry, room * sizeof(*grown));

            if (grown == NULL)
                return NRT_RESOURCE;
            s->entry = grown;
            s->room = room;
        }
        entry = &s->entry[s->count++];
        snprintf(entry->name, sizeof(entry->name), "%s", name);
    }
    entry->tensor = tensor;
    return NRT_SUCCESS;
}

NRT_STATUS
nrt_get_tensor_from_tensor_set(nrt_tensor_set_t *set, const char *name, nrt_tensor_t **tensor)
{
    NRT_STATUS status;
    set_entry *entry;

    SIM_NEEDS_OPEN();
    if ((status = sim_set_check(set)) != NRT_SUCCESS)
        return status;
    if (name == NULL || tensor == NULL)
        return NRT_INVALID;
    if ((entry = set_find(set, name)) == NULL)
        return NRT_FAILURE;
    *tensor = entry->tensor;
    return NRT_SUCCESS;
}
