/* agent/daemon/agent.c - the loop: collectors (agent/daemon/collector.h) on one side, spool and aggregator on the
 * other. */
#include "agent/daemon/agent.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "agent/daemon/agent_int.h"
#include "agent/daemon/collector.h"
#include "base/conf/agent_waits.h"
#include "base/conf/log.h"
#include "base/hash.h"
#include "base/obj.h"
#include "base/sys/file.h"
#include "base/sys/secret.h"

#define SCRIPT_MAX 65536 /* of --advanced.fake-counters */

/* ---- Callbacks of the parts ---- */

static void
on_spool_dropped(void *self, const mrd_spool_item *item)
{
    mrd_agent *a = self;

    a->dropped_spool += item->events;
    a->clock_lost += item->type == MRD_FRAME_CLOCK_DATA;
    if (a->record != NULL)
        mrd_record_dropped(a->record, item, MRD_DROP_SPOOL);
    mrd_log(MRD_LOG_WARN, "AGT-SPOOL-FULL",
            "The spool is full, the oldest %s was dropped: session=%" PRIx64 " events=%" PRIu64,
            item->type == MRD_FRAME_CLOCK_DATA ? "clock data" : "batch", item->session,
            item->events);
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
    mrd_log(MRD_LOG_WARN, "AGT-REFUSED",
            "A batch will never be stored and its events were dropped: events=%" PRIu64
            " reason=%s",
            item->events, message);
}

static void
on_foreign(void *self, uint64_t tag, const mrd_msg *msg)
{
    mrd_agent *a = self;

    if ((tag & MRD_TAG_JOB) != 0)
        mrd_jobs_answer(a->jobs, tag & (MRD_TAG_JOB - 1), msg);
    else if ((tag & ~MRD_PUBLISH_FOREIGN) != MRD_TAG_CLOCK)
        mrd_files_answer(a->files, tag & ~MRD_PUBLISH_FOREIGN, msg);
}

static void
on_sessions_known(void *self)
{
    mrd_agent *a = self;

    a->wait_until = (mrd_local_ns){ 0 };
    mrd_record_sessions_known(a->record, mrd_local_now());
}

bool
mrd_agent_waits(mrd_agent *a, mrd_local_ns now)
{
    if (mrd_record_sessions(a->record) > 0)
        a->wait_until = (mrd_local_ns){ 0 };
    if (a->wait_until.ns == 0)
        return false;
    if (!mrd_local_before(now, a->wait_until)) {
        a->wait_until = (mrd_local_ns){ 0 };
        mrd_log(MRD_LOG_WARN, "AGT-NO-SESSIONS",
                "No aggregator has answered for %lld s, so it is not known which sessions are "
                "under way: "
                "what programs record is read now, and a session that this node joins later counts "
                "it as lost (started-late)",
                (long long) (MRD_WAIT_SESSIONS / MRD_SEC));
    }
    return a->wait_until.ns != 0;
}

uint32_t
mrd_agent_boot_key(const mrd_agent *a)
{
    return mrd_boot_key(mrd_str_of(a->node.boot_id));
}

/* ---- The loop ---- */

static double
cpu_seconds(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double) ts.tv_sec + (double) ts.tv_nsec / 1e9;
}

/* With a CPU limit: pauses after turns, so that the share of all turns stays below the limit. A
 * pause is at most 50 ms, because heartbeats must continue. During longer pauses turns skip the
 * rings. */
static void
cap_cpu(mrd_agent *a, double used)
{
    int64_t pause;
    struct timespec ts;

    a->pause_ns += (int64_t) (used * (100.0 / a->o.cpu_limit - 1.0) * 1e9);
    if (a->pause_ns > MRD_WAIT_PAUSE_MAX)
        a->pause_ns = MRD_WAIT_PAUSE_MAX;
    pause = a->pause_ns < MRD_WAIT_PAUSE_ONCE ? a->pause_ns : MRD_WAIT_PAUSE_ONCE;
    if (pause <= 0)
        return;
    ts = (struct timespec){ 0, (long) pause };
    (void) nanosleep(&ts, NULL);
    a->pause_ns -= pause;
    a->capped_ns += pause;
}

mrd_local_ns
mrd_agent_next_ns(const mrd_agent *a)
{
    mrd_local_ns next = mrd_local_min(mrd_collectors_next_ns(a), mrd_record_next_ns(a->record));

    next = mrd_local_min(next, mrd_agent_reach_next_ns(a));
    return a->publish == NULL ? next : mrd_local_min(next, mrd_publish_next_ns(a->publish));
}

size_t
mrd_agent_fds(const mrd_agent *a, int fds[MRD_AGENT_FDS])
{
    const int own[] = { a->transport == NULL ? -1 : a->transport->fd(a->transport),
                        mrd_metrics_fd(a->metrics) };
    size_t n = mrd_collectors_fds(a, fds, MRD_AGENT_FDS - MRD_COUNT(own));

    for (size_t i = 0; i < MRD_COUNT(own); i++) {
        if (own[i] >= 0)
            fds[n++] = own[i];
    }
    return n;
}

static void
wait_for_news(mrd_agent *a, int timeout_ms)
{
    mrd_local_ns now = mrd_local_now();
    mrd_local_ns next =
        mrd_local_min(mrd_local_add(now, timeout_ms * MRD_MS), mrd_agent_next_ns(a));
    mrd_dur_ns left = mrd_local_diff(next, now);
    struct timespec ts = { left / MRD_SEC, left % MRD_SEC };
    struct pollfd polled[MRD_AGENT_FDS];
    int fds[MRD_AGENT_FDS];
    size_t n = mrd_agent_fds(a, fds);

    if (left <= 0)
        return;
    for (size_t i = 0; i < n; i++)
        polled[i] = (struct pollfd){ fds[i], POLLIN, 0 };
    (void) ppoll(polled, n, &ts, NULL);
}

/* Logs failed writes. Their events stay in the rings or are dropped, and the operator should not
 * have to find that in counts. */
static void
watch_spool(mrd_agent *a, mrd_local_ns now)
{
    mrd_spool_stats stats;

    mrd_spool_get_stats(a->spool, &stats);
    if (stats.failures != a->spool_failures) {
        if (a->spool_failed.ns == 0)
            mrd_log(MRD_LOG_ERROR, "AGT-SPOOL-FAILS",
                    "Events cannot be written to the spool: they wait in the rings until these are "
                    "full, and are dropped and counted: reason=%s",
                    mrd_spool_failure(a->spool));
        a->spool_failures = stats.failures;
        a->spool_failed = now;
    } else if (a->spool_failed.ns != 0 &&
               mrd_local_diff(now, a->spool_failed) >= MRD_WAIT_SPOOL_CALM) {
        a->spool_failed = (mrd_local_ns){ 0 };
        mrd_log(MRD_LOG_INFO, "AGT-SPOOL-WRITES", "Events are written to the spool again");
    }
}

void
mrd_agent_step(mrd_agent *a, int timeout_ms)
{
    double before = a->o.cpu_limit > 0 ? cpu_seconds() : 0;
    mrd_local_ns now = mrd_local_now();

    mrd_collectors_step(a, now);
    mrd_record_step(a->record, now);
    watch_spool(a, now);
    if (a->publish != NULL)
        mrd_publish_step(a->publish, now);
    mrd_agent_reach_step(a, now);
    mrd_agent_secrets_step(a, now);
    mrd_agent_forget_flushed(a, now);
    mrd_metrics_step(a->metrics, now);
    if (a->o.cpu_limit > 0)
        cap_cpu(a, cpu_seconds() - before);
    if (timeout_ms > 0)
        wait_for_news(a, timeout_ms);
}

bool
mrd_agent_drain(mrd_agent *a, mrd_dur_ns patience)
{
    mrd_local_ns end = mrd_local_add(mrd_local_now(), patience);
    mrd_spool_stats st;

    mrd_collectors_finish(a);
    do {
        mrd_record_flush(a->record);
        mrd_agent_step(a, 5);
        mrd_spool_get_stats(a->spool, &st);
    } while ((st.items > 0 || !mrd_collectors_idle(a)) && mrd_local_before(mrd_local_now(), end));
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
                              .sessions_known = on_sessions_known,
                              .control = mrd_agent_survey,
                              .delivered = on_delivered,
                              .refused = on_refused,
                              .foreign = on_foreign,
                              .clock = mrd_agent_clock,
                              .self = a };

    return a->transport == NULL ? MRD_OK : mrd_publish_open(&o, &a->publish, why);
}

static mrd_err
open_parts(mrd_agent *a, mrd_why *why)
{
    mrd_record_options ro = { .agent = a->key,
                              .codec = MRD_CODEC_ZSTD,
                              .flush_ns = a->o.flush,
                              .recorder_max = (uint64_t) a->o.recorder_bytes,
                              .boot = mrd_agent_boot_key(a) };
    mrd_spool_options so = { .dir = a->o.spool_dir,
                             .max_bytes = (uint64_t) a->o.spool_bytes,
                             .boot_id = a->node.boot_id,
                             .dropped = on_spool_dropped,
                             .self = a };
    mrd_spool_stats st;
    mrd_err err = mrd_spool_open(&so, &a->spool, why);

    if (err != MRD_OK)
        return err;
    mrd_spool_get_stats(a->spool, &st);
    a->recovered = st.recovered_events;
    if (st.damaged_events > 0)
        mrd_log(MRD_LOG_WARN, "AGT-SPOOL-DAMAGED",
                "The spool was cut, or segments of it were removed, while no agent ran; their "
                "events are counted as lost: dir=%s events=%" PRIu64,
                a->o.spool_dir, st.damaged_events);
    if ((err = mrd_collectors_open(a, why)) != MRD_OK)
        return err;
    if (a->o.spool_dir != NULL) {
        snprintf(a->state_path, sizeof(a->state_path), "%s/sessions", a->o.spool_dir);
        ro.state_path = a->state_path;
        ro.boot_id = a->node.boot_id;
    }
    ro.files = mrd_collectors_positions;
    ro.files_self = a;
    ro.spool = a->spool;
    ro.drain = a->drain;
    if ((err = mrd_record_open(&ro, &a->record, why)) != MRD_OK ||
        (err = mrd_collectors_start(a, why)) != MRD_OK ||
        (err = mrd_trigger_open(&(mrd_trigger_options){ .errors = true }, &a->errors, why)) !=
            MRD_OK ||
        (err = open_publish(a, why)) != MRD_OK)
        return err;
    return mrd_agent_open_metrics(a, why);
}

/* Resumes the sessions that a predecessor saved. */
static void
resume_sessions(mrd_agent *a)
{
    for (size_t i = 0; i < mrd_record_sessions(a->record); i++) {
        mrd_record_status st;
        mrd_why why = { 0 };

        mrd_record_get(a->record, i, &st);
        if (mrd_collectors_begin(a, st.id, &why) != MRD_OK)
            mrd_log(MRD_LOG_WARN, "AGT-COUNTERS",
                    "The counters of a session are not sampled: session=%s reason=%s", st.name,
                    why.text);
    }
}

static mrd_err
read_script(const char *path, char **ret_text, mrd_why *why)
{
    mrd_buf text = { 0 };
    mrd_err err = mrd_file_read(path, SCRIPT_MAX, &text, why);

    if (err == MRD_OK && !mrd_buf_room(&text, 1))
        err = mrd_why_set(why, MRD_NOMEM, 0, "%s", path);
    if (err != MRD_OK) {
        mrd_buf_fini(&text);
        return err;
    }
    *ret_text = (char *) (uintptr_t) mrd_buf_cstr(&text);
    return MRD_OK;
}

mrd_err
mrd_agent_open(const mrd_agent_options *options, const mrd_node_identity *node,
               mrd_transport *transport, mrd_agent **ret_agent, mrd_why *why)
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
        err = read_script(options->fake_counters, &a->fake_script, why);
    if (err == MRD_OK && options->token_file != NULL)
        err = mrd_agent_token_load(a, why);
    if (err == MRD_OK)
        err = open_parts(a, why);
    if (err == MRD_OK)
        err = mrd_agent_open_enrol(a, why);
    if (err != MRD_OK) {
        mrd_agent_close(a);
        return err;
    }
    resume_sessions(a);
    if (a->publish != NULL)
        a->wait_until = mrd_local_add(mrd_local_now(), MRD_WAIT_SESSIONS);
    mrd_drain_hold(a->drain, mrd_agent_waits(a, mrd_local_now()));
    *ret_agent = a;
    return MRD_OK;
}

void
mrd_agent_close(mrd_agent *a)
{
    if (a == NULL)
        return;
    /* Closes the connection first, so that no message arrives any more. Then the reverse order of
     * opening. */
    if (a->transport != NULL)
        a->transport->close(a->transport);
    mrd_enrol_close(a->enrol);
    mrd_metrics_close(a->metrics);
    mrd_secret_free(a->metrics_token);
    mrd_publish_close(a->publish);
    mrd_trigger_close(a->errors);
    mrd_collectors_stop(a);
    mrd_record_close(a->record);
    mrd_collectors_close(a);
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
