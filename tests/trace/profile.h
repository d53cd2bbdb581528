/*
 * tests/trace/profile.h - a small invented profile of two nodes with everything that an event can
 * have, and a function that runs a sink on events in memory. For the tests of the outputs.
 */
#ifndef MRD_TESTS_TRACE_PROFILE_H
#define MRD_TESTS_TRACE_PROFILE_H

#include "tests/check.h"
#include "tests/trace/events.h"
#include "trace/sink/group.h"
#include "trace/sink/sinks.h"

#define BASE_NS 1729888371056597613LL

static inline mrd_sink_options
test_sink_options(void)
{
    mrd_sink_options o = { .show_flows = true, .wall_time = true };

    mrd_group_parse(MRD_STR("instance_id,process_id"), &o.primary, NULL);
    mrd_group_parse(MRD_STR("lnc_idx,thread_id"), &o.secondary, NULL);
    return o;
}

static inline bool
test_collect(void *self, const void *data, size_t len)
{
    mrd_buf_add(self, data, len);
    return true;
}

/* Runs the sink on sorted copies of the events. Returns a malloc'd text. */
static inline char *
test_sink_run(const mrd_sink_ops *ops, const mrd_catalog *cat, uint32_t profile,
              const mrd_sink_options *options, const mrd_event *events, size_t n, size_t *ret_len)
{
    mrd_event *sorted = calloc(n + 1, sizeof(*sorted));
    mrd_buf text = { 0 };
    mrd_sink_env env = {
        .catalog = cat, .profile = profile, .first = { 1 }, .last = { 0 }, .options = options
    };
    void *state = calloc(1, ops->state_size + 1);
    mrd_why why = { 0 };

    if (n > 0)
        memcpy(sorted, events, n * sizeof(*sorted));
    for (size_t i = 0; i < n; i++)
        sorted[i].seq = i;
    qsort(sorted, n, sizeof(*sorted), test_compare);
    CHECK_ERR(ops->name, mrd_out_func(test_collect, &text, "memory", &env.out, &why), MRD_OK);
    CHECK_ERR(ops->name, ops->open(state, &env, &why), MRD_OK);
    for (size_t i = 0; i < n; i++)
        CHECK_ERR(ops->name, ops->event(state, &sorted[i]), MRD_OK);
    CHECK_ERR(ops->name, ops->close(state, &why), MRD_OK);
    CHECK_ERR(ops->name, mrd_out_commit(env.out, &why), MRD_OK);
    free(state);
    free(sorted);
    mrd_buf_byte(&text, 0);
    *ret_len = text.len - 1;
    return (char *) text.p;
}

/* ---- The invented profile ---- */

#define PROFILE_EVENTS_MAX 128

typedef struct {
    mrd_catalog *cat;
    mrd_proc_id proc[2], node;
    mrd_track_id thread[2], device[2], framework, cpu, mem_used, mem_percent, power, loss;
    mrd_event v[PROFILE_EVENTS_MAX];
    size_t n;
    mrd_arg args[16];
    mrd_flow flows[2];
} test_profile;

static inline mrd_event *
profile_add(test_profile *p, mrd_event_kind kind, mrd_track_id track, const char *name,
            int64_t at_ns, int64_t dur_ns)
{
    mrd_event *ev = &p->v[p->n++];

    if (p->n > PROFILE_EVENTS_MAX)
        abort();
    *ev = (mrd_event){ .kind = (uint8_t) kind,
                       .track = track,
                       .name = name == NULL ? 0 : mrd_catalog_intern(p->cat, name),
                       .ts = { BASE_NS + at_ns },
                       .dur_ns = dur_ns };
    return ev;
}

static inline mrd_track_id
profile_counter(test_profile *p, mrd_proc_id process, mrd_source_kind source, const char *name,
                mrd_unit unit)
{
    mrd_track t;

    mrd_track_init(&t, process, source);
    t.kind = MRD_TRACK_COUNTER;
    t.name = mrd_catalog_intern(p->cat, name);
    t.unit = unit;
    if (source == MRD_SRC_DEVCTR)
        t.device_idx = 1;
    return mrd_catalog_track(p->cat, &t);
}

static inline void
profile_tracks(test_profile *p)
{
    mrd_process proc;
    mrd_track t;

    for (int i = 0; i < 2; i++) {
        mrd_process_init(&proc);
        proc.instance_id =
            mrd_catalog_intern(p->cat, i == 0 ? "i-0f207fb2a99bd2d08" : "i-0aaaaaaaaaaaaaaa1");
        proc.process_id = 4711;
        proc.rank = i;
        proc.world_size = 2;
        proc.worker_gid = i * 8;
        proc.name = mrd_catalog_intern(p->cat, "train.py");
        p->proc[i] = mrd_catalog_process(p->cat, &proc);
        mrd_track_init(&t, p->proc[i], MRD_SRC_RUNTIME);
        t.lnc_idx = 3;
        t.thread_id = 5000 + i;
        p->thread[i] = mrd_catalog_track(p->cat, &t);
        mrd_track_init(&t, p->proc[i], MRD_SRC_DEVICE);
        t.lnc_idx = 3;
        t.pcore_idx = 6;
        p->device[i] = mrd_catalog_track(p->cat, &t);
    }
    mrd_track_init(&t, p->proc[0], MRD_SRC_FRAMEWORK);
    t.thread_id = 80375131;
    t.name = mrd_catalog_intern(p->cat, "python");
    t.sort_index = 4;
    p->framework = mrd_catalog_track(p->cat, &t);
    mrd_process_init(&proc);
    proc.instance_id = mrd_catalog_intern(p->cat, "i-0f207fb2a99bd2d08");
    proc.flags = MRD_PROC_NODE;
    p->node = mrd_catalog_process(p->cat, &proc);
    p->cpu = profile_counter(p, p->node, MRD_SRC_HOST, "cpu.47.util_percent", MRD_UNIT_PERCENT);
    p->mem_used = profile_counter(p, p->node, MRD_SRC_HOST, "mem.used_bytes", MRD_UNIT_BYTES);
    p->mem_percent =
        profile_counter(p, p->node, MRD_SRC_HOST, "mem.used_percent", MRD_UNIT_PERCENT);
    p->power = profile_counter(p, p->node, MRD_SRC_DEVCTR, "power", MRD_UNIT_NONE);
    mrd_track_init(&t, p->proc[1], MRD_SRC_MERIDIAN);
    t.name = mrd_catalog_intern(p->cat, "ring 5001");
    p->loss = mrd_catalog_track(p->cat, &t);
}

static inline void
profile_arg(test_profile *p, size_t i, const char *key, mrd_arg_type type)
{
    p->args[i].key = mrd_catalog_intern(p->cat, key);
    p->args[i].type = (unsigned) type & 0xf;
}

static inline void
profile_args(test_profile *p)
{
    static const char text[] = "say \"hi\"\n\\ \x01 \xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x9a\x80";
    static const char json[] = "{\"a\": [1, 2.50, null]}";

    profile_arg(p, 0, "size", MRD_ARG_INT);
    p->args[0].v.i = 4;
    profile_arg(p, 1, "tensor_id", MRD_ARG_UINT);
    p->args[1].v.u = UINT64_MAX;
    profile_arg(p, 2, "tensor_name", MRD_ARG_STR);
    p->args[2].v.sid = mrd_catalog_intern(p->cat, "_unknown_");
    profile_arg(p, 3, "above_2_53", MRD_ARG_INT);
    p->args[3].v.i = 9007199254740993;
    profile_arg(p, 4, "least", MRD_ARG_INT);
    p->args[4].v.i = INT64_MIN;
    profile_arg(p, 5, "text", MRD_ARG_TEXT);
    p->args[5].len = sizeof(text) - 1;
    p->args[5].v.text = text;
    profile_arg(p, 6, "ratio", MRD_ARG_DOUBLE);
    p->args[6].v.d = 0.1;
    profile_arg(p, 7, "whole", MRD_ARG_DOUBLE);
    p->args[7].v.d = 3;
    profile_arg(p, 8, "tiny", MRD_ARG_DOUBLE);
    p->args[8].v.d = 5e-324;
    profile_arg(p, 9, "yes", MRD_ARG_BOOL);
    p->args[9].v.u = 1;
    profile_arg(p, 10, "shape \"q\"", MRD_ARG_JSON);
    p->args[10].len = sizeof(json) - 1;
    p->args[10].v.text = json;
    profile_arg(p, 11, "model_id", MRD_ARG_INT);
    p->args[11].v.i = 10001;
    profile_arg(p, 12, "exec_id", MRD_ARG_INT);
    p->args[12].v.i = 7;
}

static inline void
profile_events(test_profile *p)
{
    mrd_event *ev;

    ev = profile_add(p, MRD_SPAN, p->thread[0], "nrt_tensor_write", 0, 27094);
    ev->id = 1;
    ev->args = p->args;
    ev->arg_count = 11;
    for (int i = 0; i < 2; i++) {
        int64_t at = 100000 + i * 250;

        ev = profile_add(p, MRD_SPAN, p->thread[i], "nrt_execute", at, 900000);
        ev->args = p->args + 11;
        ev->arg_count = 1;
        p->flows[i] =
            (mrd_flow){ .id = 0xfeedfacecafebeef, .dir = i == 0 ? MRD_FLOW_START : MRD_FLOW_END };
        ev->flows = &p->flows[i];
        ev->flow_count = 1;
        ev->bound_ns = i == 0 ? MRD_BOUND_LOCAL : 1850;
        profile_add(p, MRD_SPAN, p->thread[i], "kbl_exec_pre", at + 1000, 50000);
        /* Two physical cores overlap without nesting. */
        ev = profile_add(p, MRD_SPAN, p->device[i], "nc_exec_running", at + 60000, 700000);
        ev->args = p->args + 11;
        ev->arg_count = 2;
        profile_add(p, MRD_SPAN, p->device[i], "nc_exec_running", at + 61000, 700000);
        profile_add(p, MRD_SPAN, p->device[i], "cc_running", at + 200000, 9500);
    }
    profile_add(p, MRD_SPAN, p->framework, "PjitFunction(f)", 50000, 3758079);
    ev = profile_add(p, MRD_INSTANT, p->framework, "step \"1\"", 70000, 0);
    ev->category = mrd_catalog_intern(p->cat, "user");
    profile_add(p, MRD_SPAN, p->thread[1], "nrt_infer", 1200000, MRD_DUR_UNFINISHED);
    ev = profile_add(p, MRD_SPAN, p->thread[0], "nrt_unload", 1300000, 0);
    ev->flags = MRD_EV_NO_START;
    for (int i = 0; i < 2; i++) {
        ev = profile_add(p, MRD_COUNTER, p->mem_used, NULL, 500000 * i, 0);
        ev->flags = MRD_EV_INT;
        ev->ivalue = 51805806592 + i;
        ev = profile_add(p, MRD_COUNTER, p->mem_percent, NULL, 500000 * i, 0);
        ev->value = 9.728179797845964;
        ev = profile_add(p, MRD_COUNTER, p->cpu, NULL, 500000 * i, 0);
        ev->value = 2.3255813 + i;
        ev = profile_add(p, MRD_COUNTER, p->power, NULL, 500000 * i, 0);
        ev->flags = MRD_EV_INT | MRD_EV_UNSIGNED;
        ev->ivalue = i == 0 ? 12 : -1;
    }
    ev = profile_add(p, MRD_LOSS, p->loss, "ring full", 300000, 40000);
    ev->ivalue = 17;
}

static inline void
profile_catalog(test_profile *p)
{
    mrd_clock_info clock = { .name = mrd_catalog_intern(p->cat, "i-0aaaaaaaaaaaaaaa1 RAW"),
                             .node = mrd_catalog_intern(p->cat, "i-0aaaaaaaaaaaaaaa1"),
                             .quality = mrd_catalog_intern(p->cat, "aligned"),
                             .method = mrd_catalog_intern(p->cat, "udp-kernel"),
                             .estimate_ns = -123456789,
                             .bound_ns = 1850,
                             .noise_ns = 210,
                             .epochs = 1 };
    mrd_input in = { .path = mrd_catalog_intern(p->cat, "a/trace.json"),
                     .format = mrd_catalog_intern(p->cat, "nrt"),
                     .bytes = 4000,
                     .records = 20,
                     .events = 20 };
    mrd_artifact a = { .path = mrd_catalog_intern(p->cat, "a/model.neff"),
                       .kind = mrd_catalog_intern(p->cat, "NEFF"),
                       .sha256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
                       .size = 0,
                       .process_id = MRD_NONE,
                       .nc_idx = MRD_NONE };

    mrd_catalog_set(p->cat, "meridian.version", "0.1.0");
    mrd_catalog_add_clock(p->cat, &clock);
    mrd_catalog_borrow_process(p->cat, p->proc[1])->clock = 1;
    mrd_catalog_add_input(p->cat, &in);
    in.path = mrd_catalog_intern(p->cat, "b/trace.json");
    in.state = MRD_INPUT_INCOMPLETE;
    in.error = mrd_catalog_intern(p->cat, "byte 812: the input ends inside the document");
    in.unfinished = 1;
    mrd_catalog_add_input(p->cat, &in);
    mrd_catalog_add_artifact(p->cat, &a);
    mrd_catalog_note(p->cat, "1 NEFF file was not decoded");
}

static inline test_profile *
test_profile_new(void)
{
    test_profile *p = calloc(1, sizeof(*p));

    p->cat = mrd_catalog_new();
    profile_tracks(p);
    profile_args(p);
    profile_events(p);
    profile_catalog(p);
    return p;
}

static inline void
test_profile_free(test_profile *p)
{
    mrd_catalog_free(p->cat);
    free(p);
}

#endif
