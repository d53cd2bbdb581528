/*
 * trace/import/nrt/nrt_memory.c - derives counters of device memory from events of the runtime. An
 * nrt_dma_mem_alloc or _dealloc that states totals gives one sample for its category and one for
 * all categories, in bytes. Copies get direction and bandwidth as arguments.
 */
#include "trace/import/nrt/import_nrt_int.h"

#include <inttypes.h>
#include <stdio.h>

static bool
is_number(const mrd_arg *arg)
{
    return mrd_arg_is_int(arg) && arg->v.i >= 0;
}

/* Emits a sample of a counter in bytes, and counts it as a record. */
static mrd_err
give_bytes(mrd_nrt *nrt, const mrd_event *from, int64_t device, const char *name, int64_t value)
{
    const mrd_track *of = mrd_catalog_borrow_track(nrt->o.catalog, from->track);
    mrd_event ev = { .ts = mrd_ev_add(from->ts, from->dur_ns),
                     .kind = MRD_COUNTER,
                     .flags = (uint8_t) (MRD_EV_INT | (from->flags & MRD_EV_SIMULATED)),
                     .bound_ns = from->bound_ns,
                     .ivalue = value };
    mrd_track track;

    mrd_track_init(&track, of->process, MRD_SRC_DEVCTR);
    track.kind = MRD_TRACK_COUNTER;
    track.unit = MRD_UNIT_BYTES;
    track.device_idx = device;
    track.name = ev.name = mrd_strtab_addz(nrt->strings, name);
    ev.track = mrd_catalog_track(nrt->o.catalog, &track);
    nrt->counts.records++;
    nrt->counts.events++;
    return nrt->o.emit(nrt->o.self, &ev);
}

mrd_err
mrd_nrt_memory(mrd_nrt *nrt, const mrd_event *ev)
{
    const mrd_arg *hbm, *of, *type, *total, *all;
    mrd_str category;
    int64_t device;
    char name[96];
    mrd_err err = MRD_OK;

    if ((ev->name != nrt->type_alloc && ev->name != nrt->type_dealloc) || ev->dur_ns < 0)
        return MRD_OK;
    hbm = mrd_event_arg(ev, nrt->key_hbm);
    type = mrd_event_arg(ev, nrt->key_usage);
    total = mrd_event_arg(ev, nrt->key_usage_total);
    all = mrd_event_arg(ev, nrt->key_total);
    of = mrd_event_arg(ev, nrt->key_device);
    device = is_number(of) ? of->v.i : MRD_NONE;
    if (!is_number(hbm))
        return MRD_OK;
    if (type != NULL && type->type == MRD_ARG_STR && is_number(total)) {
        category = mrd_strtab_get(nrt->strings, type->v.sid);
        snprintf(name, sizeof(name), "hbm.%" PRId64 ".%.*s", hbm->v.i,
                 category.len > 60 ? 60 : (int) category.len, category.p);
        err = give_bytes(nrt, ev, device, name, total->v.i);
    }
    if (err == MRD_OK && is_number(all)) {
        snprintf(name, sizeof(name), "hbm.%" PRId64 ".total", hbm->v.i);
        err = give_bytes(nrt, ev, device, name, all->v.i);
    }
    return err;
}

bool
mrd_nrt_transfer(mrd_nrt *nrt, mrd_event *ev, mrd_arg *args)
{
    bool in = ev->name == nrt->type_copyin;
    const mrd_arg *size;
    uint32_t n = ev->arg_count;

    if ((!in && ev->name != nrt->type_copyout) || n + 2 > NRT_TRANSFER_ARGS)
        return false;
    size = mrd_event_arg(ev, nrt->key_size);
    if (n > 0)
        memcpy(args, ev->args, n * sizeof(*args));
    args[n++] = (mrd_arg){ .key = nrt->key_direction,
                           .type = MRD_ARG_STR,
                           .v.sid = in ? nrt->to_device : nrt->to_host };
    if (is_number(size) && ev->dur_ns > 0)
        args[n++] = (mrd_arg){ .key = nrt->key_bandwidth,
                               .type = MRD_ARG_INT,
                               .v.i = (int64_t) ((double) size->v.i * 1e9 / (double) ev->dur_ns) };
    ev->args = args;
    ev->arg_count = n;
    return true;
}
