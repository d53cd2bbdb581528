#include "tests/fleet/workload.h"

#include <stddef.h>

#include "base/obj.h"

static const char *const names[] = {
    "nrt_execute",   "kmgr_exec_core",  "nrt_model_submit", "kbl_exec_pre",
    "kbl_exec_wait", "kbl_exec_post",   "cc_exec_barrier",  "nc_exec_running",
    "cc_running",    "dmem_buf_copyin", "nrt_tensor_free",  "exec_consume_cc_core_notifications",
};

enum { TRACK_API, TRACK_CORE0, TRACK_CORE1, TRACK_CC, TRACK_DMA };

/* The events of one period of the simulated workload. Each row stands for `count` events, the first
 * at at_ns, the others every step_ns. */
static const struct {
    unsigned count;
    int64_t at_ns, dur_ns, step_ns;
    unsigned name, track;
    bool instant, sized;
} rows[] = {
    { 1, 0, 11450000, 0, 0, TRACK_API, false, false },
    { 1, 20000, 11400000, 0, 1, TRACK_API, false, false },
    { 1, 5000, 10000, 0, 2, TRACK_API, false, false },
    { 1, 30000, 159000, 0, 3, TRACK_API, false, false },
    { 1, 190000, 11100000, 0, 4, TRACK_API, false, false },
    { 1, 11300000, 68000, 0, 5, TRACK_API, false, false },
    { 1, 200000, 66000, 0, 6, TRACK_CC, false, false },
    { 1, 270000, 10900000, 0, 7, TRACK_CORE0, false, false },
    { 1, 272000, 10900000, 0, 7, TRACK_CORE1, false, false },
    { 98, 280000, 9500, 110000, 8, TRACK_CC, false, true },
    { 17, 40000, 3600, 8000, 9, TRACK_DMA, false, true },
    { 99, 11375000, 100, 400, 10, TRACK_API, false, false },
    { 1, 11440000, 0, 0, 11, TRACK_API, true, false },
};

const work_event *
work_events(void)
{
    static work_event table[WORK_EVENTS];
    static bool made;
    unsigned n = 0;

    for (size_t i = 0; i < MRD_COUNT(rows) && !made; i++) {
        for (unsigned k = 0; k < rows[i].count; k++)
            table[n++] = (work_event){ .at_ns = rows[i].at_ns + k * rows[i].step_ns,
                                       .dur_ns = rows[i].dur_ns,
                                       .name = rows[i].name,
                                       .track = rows[i].track,
                                       .instant = rows[i].instant,
                                       .sized = rows[i].sized };
    }
    MRD_ASSERT(made || n == WORK_EVENTS);
    made = true;
    return table;
}

bool
work_catalog_open(work_catalog *c, const char *instance_id)
{
    mrd_process p;

    if ((c->cat = mrd_catalog_new()) == NULL)
        return false;
    mrd_process_init(&p);
    p.instance_id = mrd_catalog_intern(c->cat, instance_id);
    p.process_id = 4711;
    p.name = mrd_catalog_intern(c->cat, "train.py");
    p.rank = 0;
    p.flags = MRD_PROC_SIMULATED;
    c->process = mrd_catalog_process(c->cat, &p);
    for (int i = 0; i < WORK_TRACKS; i++) {
        mrd_track t;

        mrd_track_init(&t, c->process, i == TRACK_API ? MRD_SRC_RUNTIME : MRD_SRC_DEVICE);
        t.thread_id = i == TRACK_API ? 4712 : MRD_NONE;
        t.lnc_idx = i;
        c->tracks[i] = mrd_catalog_track(c->cat, &t);
    }
    for (size_t i = 0; i < MRD_COUNT(names); i++)
        c->names[i] = mrd_catalog_intern(c->cat, names[i]);
    c->key = mrd_catalog_intern(c->cat, "bytes");
    return true;
}

void
work_make(const work_catalog *c, uint64_t execution, unsigned k, int64_t end_ns, mrd_arg *arg,
          mrd_event *ev)
{
    const work_event *w = &work_events()[k];

    *ev = (mrd_event){ .kind = w->instant ? MRD_INSTANT : MRD_SPAN,
                       .ts = { end_ns - WORK_LENGTH + w->at_ns },
                       .dur_ns = w->dur_ns,
                       .id = execution << 8 | k,
                       .track = c->tracks[w->track],
                       .name = c->names[w->name],
                       .flags = MRD_EV_SIMULATED };
    if (!w->sized)
        return;
    *arg = (mrd_arg){ .key = c->key, .type = MRD_ARG_INT, .v.i = INT64_C(1) << (10 + k % 14) };
    ev->args = arg;
    ev->arg_count = 1;
}
