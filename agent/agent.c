/* agent/agent.c - the loop: rings, counters and files on one side, spool and aggregator on the
 * other. */
#include "agent/agent.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent_int.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/secret.h"

#define SAY_PERIOD (60 * MRD_SEC)
#define PAUSE_ONCE (50 * MRD_MS)
#define PAUSE_MAX  (10 * MRD_SEC)

/* ---- What the parts tell ---- */

static void
on_trigger(mrd_agent *a, const char *reason)
{
    a->triggers++;
    snprintf(a->trigger_reason, sizeof(a->trigger_reason), "%s", reason);
    a->trigger_at = mrd_local_now().ns;
    mrd_log(MRD_LOG_WARN, "AGT-TRIGGER", "Something to keep happened: reason=%s", reason);
    if (a->publish != NULL)
        mrd_publish_heartbeat_now(a->publish);
}

/* Apart: its buffer would cost every event a stack frame with a guard. */
__attribute__((noinline)) static void
look_for_trigger(mrd_agent *a, mrd_drain_process *process, const mrd_event *ev)
{
    char reason[256];

    if (mrd_trigger_event(a->trigger, process, ev, reason))
        on_trigger(a, reason);
}

static mrd_err
on_event(void *self, mrd_drain_process *process, unsigned clock, const mrd_event *ev)
{
    mrd_agent *a = self;

    if (a->trigger != NULL)
        look_for_trigger(a, process, ev);
    mrd_model_table_name(a->models, process, clock, ev);
    return mrd_record_event(a->record, process, clock, ev);
}

/* A folder, or with `name` one file of it, that a process named; taken only as far as it belongs to
 * the user of its rings. */
static void
watch_named(mrd_agent *a, const mrd_drain_process *process, const char *path, const char *name)
{
    mrd_owned_claim claim = mrd_drain_claim(process);
    char label[2048];
    mrd_files_place place = {
        .path = path, .label = label, .name = name, .pid = process->ident.pid, .claim = &claim
    };
    mrd_err err;

    if (!a->o.watch_inspect)
        return;
    if (mrd_owned_is_our_root(a->proc_root, process->ident.pid))
        snprintf(label, sizeof(label), "%s", path);
    else
        snprintf(label, sizeof(label), "%s/%lld/root%s", a->proc_root,
                 (long long) process->ident.pid, path);
    err = mrd_files_watch(a->files, &place);
    if (err != MRD_OK)
        mrd_log(
            MRD_LOG_WARN, "AGT-WATCH", "Capture directory not watched: path=%s reason=%s", label,
            err == MRD_LIMIT ? "its user has as many as are left for others" : mrd_err_text(err));
}

static void
watch_inspect(mrd_agent *a, const mrd_drain_process *process)
{
    const mrd_ident *id = &process->ident;
    char path[sizeof(id->cwd) + sizeof(id->inspect_dir) + 2];

    if (id->inspect_dir[0] == '\0' || (id->inspect_dir[0] != '/' && id->cwd[0] != '/'))
        return;
    snprintf(path, sizeof(path), "%s%s%s", id->inspect_dir[0] == '/' ? "" : id->cwd,
             id->inspect_dir[0] == '/' ? "" : "/", id->inspect_dir);
    watch_named(a, process, path, NULL);
}

static void
note_process(void *self, mrd_drain_process *process)
{
    mrd_agent *a = self;

    if (a->traces != NULL)
        mrd_traces_process(a->traces, &process->ident, mrd_drain_claim(process).uid,
                           mrd_drain_has_runtime(process));
}

static void
on_process(void *self, mrd_drain_process *process)
{
    mrd_agent *a = self;

    if (process->gone) {
        note_process(a, process);
        mrd_record_process_gone(a->record, process);
        if (a->devprof != NULL)
            mrd_devprof_gone(a->devprof, process);
        if (a->models != NULL)
            mrd_model_table_gone(a->models, process, mrd_local_now().ns);
        if (a->files != NULL)
            mrd_files_gone(a->files, process->ident.pid);
        return;
    }
    (void) mrd_record_process_seen(a->record, process);
    mrd_model_table_seen(a->models, process);
    if (a->devprof != NULL)
        mrd_devprof_seen(a->devprof);
    mrd_log(MRD_LOG_INFO, "AGT-PROCESS", "Process found: pid=%lld name=%s rank=%lld",
            (long long) process->ident.pid, process->ident.comm, (long long) process->ident.rank);
    watch_inspect(a, process);
}

static mrd_str
arg_text(const mrd_drain_process *process, const mrd_arg *arg)
{
    if (arg->type == MRD_ARG_TEXT)
        return (mrd_str){ arg->v.text, arg->len };
    if (arg->type == MRD_ARG_STR)
        return mrd_catalog_text(process->catalog, arg->v.sid);
    return (mrd_str){ NULL, 0 };
}

/* A notice that names where the runtime writes: a directory, or a file of its own. */
static void
watch_noticed(mrd_agent *a, const mrd_drain_process *process, const mrd_arg *arg)
{
    mrd_str key = mrd_catalog_text(process->catalog, arg->key), text = arg_text(process, arg);
    bool one_file = mrd_str_is(key, "file");
    char path[1024], *slash;

    if ((!one_file && !mrd_str_is(key, "output_dir")) || text.len == 0 || text.p[0] != '/' ||
        text.len >= sizeof(path) || memchr(text.p, '\0', text.len) != NULL)
        return;
    snprintf(path, sizeof(path), MRD_STR_FMT, MRD_STR_ARG(text));
    if (!one_file) {
        watch_named(a, process, path, NULL);
        return;
    }
    slash = strrchr(path, '/');
    *slash = '\0';
    watch_named(a, process, slash == path ? "/" : path, slash + 1);
}

static void
on_model(void *self, mrd_drain_process *process, uint64_t number, bool load, const mrd_event *ev)
{
    mrd_agent *a = self;

    mrd_model_table_event(a->models, process, number, load, ev);
}

static void
on_notice(void *self, mrd_drain_process *process, const mrd_event *ev)
{
    mrd_agent *a = self;

    for (uint32_t i = 0; i < ev->arg_count; i++)
        watch_noticed(a, process, &ev->args[i]);
    if (mrd_devprof_notice(a->devprof, process, ev, mrd_local_now().ns))
        mrd_files_look(a->files);
    mrd_log(MRD_LOG_INFO, "AGT-NOTICE", "The workload says: pid=%lld text=%s",
            (long long) process->ident.pid, mrd_catalog_text(process->catalog, ev->name).p);
}

static void
on_spool_dropped(void *self, const mrd_spool_item *item)
{
    mrd_agent *a = self;

    a->dropped_spool += item->events;
    a->clock_lost += item->type == MRD_FRAME_CLOCK_DATA;
    if (a->record != NULL)
        mrd_record_dropped(a->record, item, MRD_DROP_SPOOL);
    mrd_log(
        MRD_LOG_WARN, "AGT-SPOOL-FULL", "Oldest %s dropped: session=%" PRIx64 " events=%" PRIu64,
        item->type == MRD_FRAME_CLOCK_DATA ? "clock data" : "batch", item->session, item->events);
}

static void
on_delivered(void *self, const mrd_spool_item *item)
{
    mrd_agent *a = self;

    a->delivered += item->events;
    mrd_record_delivered(a->record, item);
}

static void
on_refused(void *self, const mrd_spool_item *item, const char *message)
{
    mrd_agent *a = self;

    a->dropped_refused += item->events;
    a->clock_lost += item->type == MRD_FRAME_CLOCK_DATA;
    mrd_record_dropped(a->record, item, MRD_DROP_REFUSED);
    mrd_log(MRD_LOG_WARN, "AGT-REFUSED", "Batch refused for good: events=%" PRIu64 " reason=%s",
            item->events, message);
}

static void
on_file(void *self, const char *path, const char *sha256, const char *message)
{
    (void) self;
    if (*message == '\0')
        mrd_log(MRD_LOG_INFO, "AGT-FILE", "File delivered: path=%s sha256=%s", path, sha256);
    else
        mrd_log(MRD_LOG_WARN, "AGT-FILE-FAILED", "File not delivered: path=%s reason=%s", path,
                message);
}

static void
on_complete(void *self, const mrd_files_complete *file)
{
    mrd_agent *a = self;

    mrd_drain_each(a->drain, note_process, a);
    mrd_traces_file(a->traces, file);
}

static void
on_trace_process(void *self, mrd_drain_process *process)
{
    mrd_agent *a = self;

    if (process->gone)
        mrd_record_process_gone(a->record, process);
    else
        (void) mrd_record_file_seen(a->record, process);
}

static void
on_trace(void *self, const char *path, uint64_t events, const char *message)
{
    (void) self;
    mrd_log(*message == '\0' ? MRD_LOG_INFO : MRD_LOG_WARN, "AGT-TRACE",
            "Trace file: path=%s events=%" PRIu64 " remark=%s", path, events, message);
}

static void
trace_positions(void *self, void (*call)(void *to, uint64_t key, uint64_t value), void *to)
{
    const mrd_agent *a = self;

    if (a->traces != NULL)
        mrd_traces_positions(a->traces, call, to);
}

static mrd_err
send_file(void *self, uint64_t tag, mrd_bytes frame)
{
    mrd_agent *a = self;

    return a->publish == NULL ? MRD_AGAIN : mrd_publish_foreign(a->publish, tag, frame);
}

static void
on_foreign(void *self, uint64_t tag, const mrd_msg *msg)
{
    mrd_agent *a = self;

    if ((tag & ~MRD_PUBLISH_FOREIGN) != MRD_TAG_CLOCK)
        mrd_files_answer(a->files, tag & ~MRD_PUBLISH_FOREIGN, msg);
}

/* ---- The clock ---- */

static uint32_t
boot_key(const mrd_agent *a)
{
    return mrd_boot_key(mrd_str_of(a->node.boot_id));
}

/* Probes go to the sessions that record; without one they keep the aggregator's estimate alive. */
static void
ship_clock(mrd_agent *a, const Mrd__ClockData *data)
{
    mrd_frame f = { .type = MRD_FRAME_CLOCK_DATA, .agent = a->key, .boot = boot_key(a) };
    mrd_record_status st;
    mrd_buf frame = { 0 };
    bool stored = false;

    for (size_t i = 0; i < mrd_record_sessions(a->record); i++) {
        mrd_record_get(a->record, i, &st);
        if (st.phase == MRD__NODE_PHASE__NODE_RECORDING ||
            st.phase == MRD__NODE_PHASE__NODE_STOPPING) {
            if (mrd_record_message(a->record, st.id, MRD_FRAME_CLOCK_DATA, data, NULL) == MRD_OK)
                stored = true;
            else
                a->clock_lost++;
        }
    }
    if (!stored && mrd_msg_pack(&f, data, &frame, NULL) == MRD_OK)
        (void) mrd_publish_foreign(a->publish, MRD_TAG_CLOCK, (mrd_bytes){ frame.p, frame.len });
    mrd_buf_fini(&frame);
}

static void
clock_step(mrd_agent *a, int64_t now)
{
    Mrd__ClockData data;
    mrd_record_status st;
    bool recording = false, ended = false;

    if (a->publish == NULL)
        return;
    for (size_t i = 0; i < mrd_record_sessions(a->record); i++) {
        mrd_record_get(a->record, i, &st);
        recording = recording || st.phase == MRD__NODE_PHASE__NODE_RECORDING;
        ended = ended || (st.phase == MRD__NODE_PHASE__NODE_STOPPING && now > st.stop_ns);
    }
    if (ended && !a->ended) /* behind the last event, before the last upload */
        mrd_clock_sync_burst(a->clock);
    a->ended = ended;
    mrd_clock_sync_step(a->clock, recording || ended);
    if (mrd_clock_sync_take(a->clock, ended, &data))
        ship_clock(a, &data);
}

/* ---- The loop ---- */

static double
cpu_seconds(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double) ts.tv_sec + (double) ts.tv_nsec / 1e9;
}

/* With a cap: pauses so long that the share of all turns stays below it. At most 50 ms at one time,
 * because the aggregator wants to hear of us; meanwhile turns go without the rings. */
static void
cap_cpu(mrd_agent *a, double used)
{
    int64_t pause;
    struct timespec ts;

    a->pause_ns += (int64_t) (used * (100.0 / a->o.cpu_limit - 1.0) * 1e9);
    if (a->pause_ns > PAUSE_MAX)
        a->pause_ns = PAUSE_MAX;
    pause = a->pause_ns < PAUSE_ONCE ? a->pause_ns : PAUSE_ONCE;
    if (pause <= 0)
        return;
    ts = (struct timespec){ 0, (long) pause };
    (void) nanosleep(&ts, NULL);
    a->pause_ns -= pause;
    a->capped_ns += pause;
}

/* The session that files of this moment belong to: one that asked for device profiles, else the
 * oldest that is open. */
static bool
session_of_files(const mrd_agent *a, mrd_record_status *ret_st)
{
    mrd_record_status st;
    bool found = false;

    for (size_t i = 0; i < mrd_record_sessions(a->record); i++) {
        const mrd_strlist *cores;
        bool asks;

        mrd_record_get(a->record, i, &st);
        if (st.phase != MRD__NODE_PHASE__NODE_RECORDING &&
            st.phase != MRD__NODE_PHASE__NODE_STOPPING)
            continue;
        asks = mrd_record_profiles(a->record, st.id, &cores) != MRD_PROFILES_NONE;
        if (!found || asks)
            *ret_st = st;
        found = true;
        if (asks)
            break;
    }
    return found;
}

static void
files_session(mrd_agent *a)
{
    mrd_record_status st;
    int64_t since, told, start;
    bool busy;

    if (!session_of_files(a, &st)) {
        mrd_files_session(a->files, 0, 0);
        if (mrd_record_sessions(a->record) == 0)
            mrd_traces_forget(a->traces);
        return;
    }
    start = mrd_drain_raw_to_wall(a->drain, st.start_ns);
    busy = mrd_devprof_pending(a->devprof, st.id, &told);
    since = st.stop_ns == INT64_MAX ? 0 : st.stop_ns > told ? st.stop_ns : told;
    /* What a node flushes at the end belongs to the session: it is not over before. */
    busy = busy || !mrd_files_idle(a->files, since) || !mrd_traces_idle(a->traces);
    mrd_record_hold_flush(a->record, st.id, busy);
    if (busy && mrd_local_now().ns > st.stop_ns)
        mrd_files_look(a->files);
    mrd_files_session(a->files, st.id, start);
}

/* A file can wait where events of rings cannot: it does not fill the spool. */
static bool
traces_room(const mrd_agent *a)
{
    mrd_spool_stats st;

    mrd_spool_get_stats(a->spool, &st);
    return st.file_bytes < (uint64_t) a->o.spool_bytes / 4;
}

static void
say(void *self, const char *message)
{
    (void) self;
    mrd_log(MRD_LOG_WARN, "AGT-LIMITED", "Not everything can be read: reason=%s", message);
}

static int64_t
sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t
mrd_agent_next_ns(const mrd_agent *a)
{
    int64_t next = mrd_local_now().ns + mrd_drain_wait_ns(a->drain);

    next = sooner(next, mrd_record_next_ns(a->record));
    next = sooner(next, mrd_sample_next_ns(a->sample));
    next = sooner(next, mrd_agent_sample_begun_ns(a));
    next = sooner(next, mrd_agent_counters_next_ns(a));
    next = sooner(next, mrd_files_next_ns(a->files));
    next = sooner(next, mrd_traces_next_ns(a->traces));
    next = sooner(next, mrd_clock_sync_next_ns(a->clock));
    next = sooner(next, mrd_agent_reach_next_ns(a));
    return a->publish == NULL ? next : sooner(next, mrd_publish_next_ns(a->publish));
}

size_t
mrd_agent_fds(const mrd_agent *a, int fds[MRD_AGENT_FDS])
{
    const int all[MRD_AGENT_FDS] = { mrd_drain_fd(a->drain),
                                     mrd_files_fd(a->files),
                                     a->transport == NULL ? -1 : a->transport->fd(a->transport),
                                     mrd_clock_sync_fd(a->clock),
                                     mrd_clock_sync_link_fd(a->clock),
                                     mrd_metrics_fd(a->metrics) };
    size_t n = 0;

    for (size_t i = 0; i < MRD_AGENT_FDS; i++)
        if (all[i] >= 0)
            fds[n++] = all[i];
    return n;
}

static void
wait_for_news(mrd_agent *a, int timeout_ms)
{
    int64_t now = mrd_local_now().ns;
    int64_t next = sooner(now + timeout_ms * MRD_MS, mrd_agent_next_ns(a));
    struct timespec ts = { (next - now) / MRD_SEC, (next - now) % MRD_SEC };
    struct pollfd polled[MRD_AGENT_FDS];
    int fds[MRD_AGENT_FDS];
    size_t n = mrd_agent_fds(a, fds);

    if (next <= now)
        return;
    for (size_t i = 0; i < n; i++)
        polled[i] = (struct pollfd){ fds[i], POLLIN, 0 };
    (void) ppoll(polled, n, &ts, NULL);
}

void
mrd_agent_step(mrd_agent *a, int timeout_ms)
{
    double before = a->o.cpu_limit > 0 ? cpu_seconds() : 0;
    int64_t now = mrd_local_now().ns;

    if (a->pause_ns <= 0) {
        (void) mrd_drain_step(a->drain);
        mrd_agent_sample_begun(a, now);
        mrd_sample_step(a->sample, a->drain, now);
        mrd_agent_counters_step(a, now);
    }
    clock_step(a, now);
    mrd_devprof_step(a->devprof, now);
    mrd_model_table_step(a->models, now);
    files_session(a);
    if (a->pause_ns <= 0)
        mrd_traces_step(a->traces, traces_room(a));
    mrd_record_step(a->record, now);
    mrd_files_step(a->files, now);
    if (a->publish != NULL)
        mrd_publish_step(a->publish, now);
    mrd_agent_reach_step(a, now);
    mrd_agent_secrets_step(a, now);
    mrd_agent_forget_flushed(a, now);
    mrd_metrics_step(a->metrics, now);
    if (now - a->said_at > SAY_PERIOD || (mrd_drain_leaves_out(a->drain) && !a->said_left_out)) {
        a->said_at = now;
        a->said_left_out = mrd_drain_leaves_out(a->drain);
        mrd_drain_say(a->drain, say, a);
    }
    if (a->o.cpu_limit > 0)
        cap_cpu(a, cpu_seconds() - before);
    if (timeout_ms > 0)
        wait_for_news(a, timeout_ms);
}

bool
mrd_agent_drain(mrd_agent *a, mrd_dur_ns patience)
{
    int64_t end = mrd_local_now().ns + patience;
    mrd_spool_stats st;

    mrd_drain_finish(a->drain);
    do {
        mrd_record_flush(a->record);
        mrd_agent_step(a, 5);
        mrd_spool_get_stats(a->spool, &st);
    } while ((st.items > 0 || !mrd_traces_idle(a->traces)) && mrd_local_now().ns < end);
    return st.items == 0;
}

/* ---- Open and close ---- */

static mrd_err
open_publish(mrd_agent *a, mrd_why *why)
{
    mrd_publish_options o = { .transport = a->transport,
                              .spool = a->spool,
                              .agent = a->key,
                              .hello = mrd_agent_hello,
                              .heartbeat = mrd_agent_heartbeat,
                              .welcome = mrd_agent_welcome,
                              .directive = mrd_agent_directive,
                              .control = mrd_agent_survey,
                              .delivered = on_delivered,
                              .refused = on_refused,
                              .foreign = on_foreign,
                              .clock = mrd_agent_clock,
                              .self = a };

    return a->transport == NULL ? MRD_OK : mrd_publish_open(&o, &a->publish, why);
}

static uint64_t
on_resume(void *self, uint64_t ring)
{
    const mrd_agent *a = self;

    return mrd_spool_resume(a->spool, ring);
}

static mrd_err
open_drain(mrd_agent *a, mrd_why *why)
{
    mrd_drain_options o = { .instance_id = a->node.instance_id,
                            .job = a->o.job,
                            .ring_dir = a->o.ring_dir,
                            .exclusive = true,
                            .proc_root = a->o.proc_root,
                            .containers = a->o.containers,
                            .simulated = a->o.simulated,
                            .only_uid = -1,
                            .hold = true,
                            .resume = on_resume,
                            .event = on_event,
                            .process = on_process,
                            .notice = on_notice,
                            .model = on_model,
                            .self = a };

    if (a->o.spool_dir != NULL) {
        snprintf(a->open_path, sizeof(a->open_path), "%s/open", a->o.spool_dir);
        o.open_path = a->open_path;
        o.boot_id = a->node.boot_id;
    }
    return mrd_drain_open(&o, &a->drain, why);
}

static mrd_err
open_counters(mrd_agent *a, mrd_why *why)
{
    mrd_hw_options ho = { .proc_root = a->o.proc_root,
                          .sys_root = a->o.sys_root,
                          .cgroup_root = a->o.cgroup_root,
                          .monitor = a->o.monitor,
                          .monitor_period = a->o.sample_period,
                          .fake_script = a->fake_script };
    mrd_sample_options so = { .instance_id = a->node.instance_id,
                              .proc_root = a->o.proc_root,
                              .simulated = a->o.simulated,
                              .period = a->o.sample_period,
                              .process_period = a->o.process_period,
                              .patterns = (const char *const *) a->o.counters.v,
                              .n_patterns = a->o.counters.n,
                              .event = on_event,
                              .self = a };
    mrd_err err = mrd_hw_open(&ho, &a->hw, why);

    return err != MRD_OK ? err : mrd_sample_open(a->hw, &so, &a->sample, why);
}

static mrd_err
open_files(mrd_agent *a, mrd_why *why)
{
    mrd_files_options o = { .proc_root = a->proc_root,
                            .stable = a->o.stable,
                            .max_bytes = (uint64_t) a->o.artifact_max,
                            .max_files = (size_t) a->o.files_max,
                            .agent = a->key,
                            .send = send_file,
                            .settled = on_file,
                            .complete = on_complete,
                            .self = a };
    mrd_err err = mrd_files_open(&o, &a->files, why);

    for (size_t i = 0; i < a->o.watch.n && err == MRD_OK; i++)
        err = mrd_files_watch(a->files,
                              &(mrd_files_place){ .path = a->o.watch.v[i], .pid = MRD_NONE });
    return err;
}

static mrd_err
open_traces(mrd_agent *a, mrd_why *why)
{
    mrd_traces_options o = { .instance_id = a->node.instance_id,
                             .dir = a->o.spool_dir,
                             .job = a->o.job,
                             .simulated = a->o.simulated,
                             .event = on_event,
                             .process = on_trace_process,
                             .settled = on_trace,
                             .self = a };
    const mrd_spool_position *positions;
    size_t n;
    mrd_err err = mrd_traces_open(&o, &a->traces, why);

    if (err != MRD_OK)
        return err;
    positions = mrd_spool_recovered(a->spool, &n);
    mrd_traces_resume(a->traces, positions, n);
    return MRD_OK;
}

static mrd_err
open_trigger(mrd_agent *a, mrd_why *why)
{
    mrd_trigger_options o = { .errors = mrd_strlist_has(&a->o.trigger_types, MRD_STR("errors")),
                              .slow_step = a->o.slow_step,
                              .step_name = a->o.slow_step_name,
                              .collective_ns = a->o.pending_collective };

    if (!o.errors && o.slow_step <= 0 && o.collective_ns <= 0)
        return MRD_OK;
    return mrd_trigger_open(&o, &a->trigger, why);
}

/* A connection that nothing but probes travels on. */
static mrd_err
connect_probes(void *self, mrd_transport **ret_transport, mrd_why *why)
{
    const mrd_agent *a = self;
    mrd_link_options o = { .data_url = a->o.data_url,
                           .tls = { a->o.tls_ca, a->o.tls_cert, a->o.tls_key, a->o.tls_name },
                           .window = 1,
                           .reply_ns = 5 * MRD_SEC };

    return mrd_transport_link(&o, ret_transport, why);
}

static mrd_err
open_parts(mrd_agent *a, mrd_why *why)
{
    mrd_record_options ro = { .agent = a->key,
                              .codec = (mrd_codec_id) a->o.codec,
                              .flush_ns = a->o.flush,
                              .recorder_max = (uint64_t) a->o.recorder_bytes,
                              .boot = boot_key(a) };
    mrd_clock_sync_options co = { .data_url = a->o.data_url,
                                  .boot_id = a->node.boot_id,
                                  .agent = a->key,
                                  .transport = (mrd_probes_transport) a->o.clock_probes,
                                  .connect = a->transport == NULL ? NULL : connect_probes,
                                  .connect_self = a };
    mrd_spool_stats st;
    mrd_err err = mrd_spool_open(a->o.spool_dir, (uint64_t) a->o.spool_bytes, on_spool_dropped, a,
                                 &a->spool, why);

    if (err != MRD_OK)
        return err;
    mrd_spool_get_stats(a->spool, &st);
    a->recovered = st.recovered_events;
    if (st.damaged_events > 0)
        mrd_log(MRD_LOG_WARN, "AGT-SPOOL-DAMAGED",
                "The spool was cut or parts of it removed while no agent ran; what was in them is "
                "counted as lost: dir=%s events=%" PRIu64,
                a->o.spool_dir, st.damaged_events);
    if ((err = open_traces(a, why)) != MRD_OK || (err = open_drain(a, why)) != MRD_OK)
        return err;
    if (a->o.spool_dir != NULL) {
        snprintf(a->state_path, sizeof(a->state_path), "%s/sessions", a->o.spool_dir);
        ro.state_path = a->state_path;
        ro.boot_id = a->node.boot_id;
        snprintf(a->models_path, sizeof(a->models_path), "%s/models", a->o.spool_dir);
    }
    ro.files = trace_positions;
    ro.files_self = a;
    ro.spool = a->spool;
    ro.drain = a->drain;
    if ((err = mrd_record_open(&ro, &a->record, why)) != MRD_OK ||
        (err = mrd_devprof_open(a->record, a->drain, &a->devprof, why)) != MRD_OK ||
        (err = mrd_model_table_open(a->models_path[0] == '\0' ? NULL : a->models_path,
                                    a->node.boot_id, a->proc_root, a->record, a->drain, &a->models,
                                    why)) != MRD_OK ||
        (err = mrd_clock_sync_open(&co, &a->clock, why)) != MRD_OK ||
        (err = open_counters(a, why)) != MRD_OK || (err = open_files(a, why)) != MRD_OK ||
        (err = open_trigger(a, why)) != MRD_OK || (err = open_publish(a, why)) != MRD_OK)
        return err;
    return mrd_agent_open_metrics(a, why);
}

mrd_err
mrd_agent_open(const mrd_agent_options *options, const mrd_node *node, mrd_transport *transport,
               mrd_agent **ret_agent, mrd_why *why)
{
    mrd_agent *a = calloc(1, sizeof(*a));
    mrd_err err = MRD_OK;

    if (a == NULL) {
        if (transport != NULL)
            transport->close(transport);
        return mrd_why_set(why, MRD_NOMEM, 0, "agent");
    }
    a->o = *options;
    a->node = *node;
    a->transport = transport;
    a->proc_root = options->proc_root == NULL ? "/proc" : options->proc_root;
    a->key = mrd_agent_key(mrd_str_of(node->instance_id));
    mrd_random(&a->run, sizeof(a->run));
    if (options->fake_counters != NULL)
        err = mrd_agent_read_file(options->fake_counters, &a->fake_script, why);
    if (err == MRD_OK && options->token_file != NULL)
        err = mrd_agent_token_load(a, why);
    if (err == MRD_OK)
        err = open_parts(a, why);
    if (err != MRD_OK) {
        mrd_agent_close(a);
        return err;
    }
    mrd_agent_counters_resume(a);
    *ret_agent = a;
    return MRD_OK;
}

void
mrd_agent_close(mrd_agent *a)
{
    if (a == NULL)
        return;
    /* The connection first: nothing arrives any more. Then the mirror image of opening. */
    if (a->transport != NULL)
        a->transport->close(a->transport);
    mrd_metrics_close(a->metrics);
    mrd_secret_free(a->metrics_token);
    mrd_publish_close(a->publish);
    mrd_trigger_close(a->trigger);
    mrd_files_close(a->files);
    a->files = NULL; /* processes go later */
    mrd_devprof_close(a->devprof);
    a->devprof = NULL;
    mrd_model_table_close(a->models);
    a->models = NULL; /* processes go later */
    mrd_traces_close(a->traces);
    a->traces = NULL; /* processes go later */
    mrd_clock_sync_close(a->clock);
    mrd_agent_counters_close(a);
    mrd_record_close(a->record);
    mrd_sample_close(a->sample);
    mrd_hw_close(a->hw);
    mrd_drain_close(a->drain);
    mrd_spool_close(a->spool);
    free(a->fake_script);
    mrd_secret_free(a->token);
    free(a);
}

mrd_record *
mrd_agent_borrow_record(const mrd_agent *a)
{
    return a->record;
}

mrd_drain *
mrd_agent_borrow_drain(const mrd_agent *a)
{
    return a->drain;
}
