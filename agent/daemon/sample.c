#include "agent/daemon/sample.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/conf/agent_waits.h"
#include "base/obj.h"
#include "hw/proc.h"

#define REPEAT        10 /* an unchanged value is emitted only in every tenth round */
#define TIMEOUT_SHARE 10

typedef struct {
    mrd_track_id track;
    mrd_hw_value last;
    unsigned silent; /* number of sampling rounds since the counter was last emitted */
} line;

struct mrd_sample {
    mrd_hw *hw;
    mrd_sample_options o;
    mrd_drain_process node;
    mrd_hw_session *session;
    line *lines;
    mrd_hw_value *values;
    size_t n;
    mrd_local_ns due, process_due, refresh_at;
    bool always; /* unchanged values are emitted in every sampling round */
    mrd_sample_stats stats;
};

static void
give(mrd_sample *sample, mrd_drain_process *process, const mrd_event *ev)
{
    sample->stats.begun++;
    if (sample->o.event(sample->o.self, process, MRD_DRAIN_RAW, ev) == MRD_OK)
        sample->stats.samples++;
    else
        sample->stats.refused++;
}

/* ---- Counters of the node ---- */

static mrd_track_id
track_of(mrd_sample *sample, const mrd_hw_counter *counter)
{
    mrd_track track;

    mrd_track_init(&track, sample->node.id,
                   counter->device_idx != MRD_NONE || counter->core_idx != MRD_NONE ||
                           strncmp(counter->name, "runtime.", 8) == 0
                       ? MRD_SRC_DEVCTR
                       : MRD_SRC_HOST);
    track.kind = MRD_TRACK_COUNTER;
    track.device_idx = counter->device_idx;
    track.pcore_idx = counter->core_idx;
    track.unit = counter->unit;
    track.name = mrd_catalog_intern(sample->node.catalog, counter->name);
    return mrd_catalog_track(sample->node.catalog, &track);
}

static mrd_err
open_session(mrd_sample *sample, mrd_why *why)
{
    mrd_hw_session *fresh = NULL;
    size_t count;
    line *lines;
    mrd_hw_value *values;
    mrd_err err = mrd_hw_session_create(sample->hw, sample->o.patterns, sample->o.n_patterns,
                                        MRD_HW_SCOPE_ALL, !sample->o.strict, &fresh, why);

    if (err != MRD_OK)
        return err;
    count = mrd_hw_session_count(fresh);
    lines = calloc(count + 1, sizeof(*lines));
    values = calloc(count + 1, sizeof(*values));
    if (lines == NULL || values == NULL) {
        free(lines);
        free(values);
        mrd_hw_session_destroy(fresh);
        return mrd_why_set(why, MRD_NOMEM, 0, "counters");
    }
    mrd_hw_session_destroy(sample->session);
    free(sample->lines);
    free(sample->values);
    sample->session = fresh;
    sample->lines = lines;
    sample->values = values;
    sample->n = sample->stats.counters = count;
    for (size_t i = 0; i < count; i++) {
        sample->lines[i].track = track_of(sample, mrd_hw_session_counter(fresh, i));
        sample->lines[i].silent = REPEAT;
    }
    err = mrd_hw_session_start(fresh, sample->o.period / TIMEOUT_SHARE + MRD_MS, why);
    /* these two errors are ignored here, because the next poll reports them again */
    return err == MRD_TIMEOUT || err == MRD_CLOSED ? MRD_OK : err;
}

/* Opens the hardware counters again if there are new devices or interfaces. */
static void
refresh(mrd_sample *sample, mrd_local_ns now)
{
    mrd_hw_session *probe = NULL;

    sample->refresh_at = mrd_local_add(now, MRD_WAIT_COUNTER_LIST);
    if (mrd_hw_refresh(sample->hw, NULL) != MRD_OK ||
        mrd_hw_session_create(sample->hw, sample->o.patterns, sample->o.n_patterns,
                              MRD_HW_SCOPE_ALL, true, &probe, NULL) != MRD_OK)
        return;
    if (mrd_hw_session_count(probe) != sample->n)
        (void) open_session(sample, NULL);
    mrd_hw_session_destroy(probe);
}

static void
give_value(mrd_sample *sample, size_t i)
{
    const mrd_hw_counter *counter = mrd_hw_session_counter(sample->session, i);
    const mrd_hw_value *value = &sample->values[i];
    line *l = &sample->lines[i];
    bool is_double = (counter->flags & MRD_HW_DOUBLE) != 0;
    mrd_event ev = { .kind = MRD_COUNTER, .ts = { value->at.ns }, .track = l->track };

    if (value->state != MRD_HW_OK)
        return; /* emits no event, because an unknown value must not appear as 0 */
    if (!sample->always && l->silent < REPEAT && l->last.state == MRD_HW_OK &&
        (is_double ? l->last.d == value->d : l->last.i == value->i)) {
        l->silent++;
        return;
    }
    l->silent = 0;
    l->last = *value;
    if (is_double) {
        ev.value = value->d;
    } else {
        ev.ivalue = value->i;
        ev.flags = MRD_EV_INT;
    }
    if (sample->o.simulated)
        ev.flags |= MRD_EV_SIMULATED;
    give(sample, &sample->node, &ev);
}

static void
sample_counters(mrd_sample *sample)
{
    mrd_why why = { 0 };
    mrd_err err;

    err = mrd_hw_session_poll(sample->session, sample->o.period / TIMEOUT_SHARE + MRD_MS,
                              sample->values, NULL, sample->n, &why);
    /* MRD_STATE means that an earlier start of the session failed; start it again */
    if (err == MRD_STATE)
        err =
            mrd_hw_session_start(sample->session, sample->o.period / TIMEOUT_SHARE + MRD_MS, &why);
    snprintf(sample->stats.message, sizeof(sample->stats.message), "%s",
             err == MRD_OK ? "" : why.text);
    sample->stats.failed += err != MRD_OK;
    for (size_t i = 0; err == MRD_OK && i < sample->n; i++)
        give_value(sample, i);
}

/* ---- Processes ---- */

static void
process_value(mrd_sample *sample, mrd_drain_process *process, const char *name, mrd_unit unit,
              int64_t v, mrd_local_ns at)
{
    mrd_event ev = { .kind = MRD_COUNTER, .ts = { at.ns }, .ivalue = v, .flags = MRD_EV_INT };
    mrd_track track;

    if (v == MRD_NONE)
        return;
    mrd_track_init(&track, process->id, MRD_SRC_HOST);
    track.kind = MRD_TRACK_COUNTER;
    track.unit = unit;
    track.name = mrd_catalog_intern(process->catalog, name);
    ev.track = mrd_catalog_track(process->catalog, &track);
    if (sample->o.simulated)
        ev.flags |= MRD_EV_SIMULATED;
    give(sample, process, &ev);
}

static void
sample_process(void *self, mrd_drain_process *process)
{
    mrd_sample *sample = self;
    mrd_local_ns at = mrd_local_now();
    mrd_proc_stat st;

    if (mrd_proc_read(sample->o.proc_root, process->ident.pid, &st, NULL) != MRD_OK ||
        (process->ident.start_ticks != st.start_ticks && process->ident.timens_boottime_ns == 0))
        return;
    process_value(sample, process, "process.cpu_ns", MRD_UNIT_NS, st.cpu_user_ns + st.cpu_system_ns,
                  at);
    process_value(sample, process, "process.rss_bytes", MRD_UNIT_BYTES, st.rss_bytes, at);
    process_value(sample, process, "process.threads", MRD_UNIT_COUNT, st.threads, at);
}

/* ---- The interface ---- */

mrd_err
mrd_sample_open(mrd_hw *hw, const mrd_sample_options *options, mrd_sample **ret_sample,
                mrd_why *why)
{
    mrd_sample *sample = calloc(1, sizeof(*sample));
    mrd_process node;
    mrd_err err = MRD_OK;

    if (sample == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "counters");
    sample->o = *options;
    if (sample->o.proc_root == NULL)
        sample->o.proc_root = "/proc";
    sample->hw = hw;
    mrd_ident_init(&sample->node.ident);
    sample->node.catalog = options->catalog != NULL ? options->catalog : mrd_catalog_new();
    if (sample->node.catalog == NULL) {
        free(sample);
        return mrd_why_set(why, MRD_NOMEM, 0, "counters");
    }
    mrd_process_init(&node);
    node.instance_id = mrd_catalog_intern(sample->node.catalog, options->instance_id);
    node.name = mrd_catalog_intern(sample->node.catalog, "node");
    node.process_id = 0;
    node.flags = MRD_PROC_NODE | (options->simulated ? MRD_PROC_SIMULATED : 0);
    sample->node.id = mrd_catalog_process(sample->node.catalog, &node);
    if (hw == NULL)
        sample->o.period = 0;
    if (sample->o.period > 0)
        err = open_session(sample, why);
    if (err != MRD_OK) {
        mrd_sample_close(sample);
        return err;
    }
    *ret_sample = sample;
    return MRD_OK;
}

void
mrd_sample_close(mrd_sample *sample)
{
    if (sample == NULL)
        return;
    mrd_hw_session_destroy(sample->session);
    if (sample->node.catalog != sample->o.catalog)
        mrd_catalog_free(sample->node.catalog);
    free(sample->lines);
    free(sample->values);
    free(sample);
}

void
mrd_sample_step(mrd_sample *sample, const mrd_drain *drain, mrd_local_ns now)
{
    if (sample->o.period > 0 && !mrd_local_before(now, sample->due)) {
        sample->due = sample->due.ns == 0 || mrd_local_diff(now, sample->due) > sample->o.period
                          ? mrd_local_add(now, sample->o.period)
                          : mrd_local_add(sample->due, sample->o.period);
        if (!mrd_local_before(now, sample->refresh_at))
            refresh(sample, now);
        if (sample->n > 0)
            sample_counters(sample);
    }
    if (sample->o.process_period > 0 && !mrd_local_before(now, sample->process_due)) {
        sample->process_due = mrd_local_add(now, sample->o.process_period);
        if (drain != NULL)
            mrd_drain_each(drain, sample_process, sample);
    }
}

mrd_local_ns
mrd_sample_next_ns(const mrd_sample *sample)
{
    mrd_local_ns next = sample->o.period > 0 ? sample->due : (mrd_local_ns){ INT64_MAX };

    return sample->o.process_period > 0 && mrd_local_before(sample->process_due, next)
               ? sample->process_due
               : next;
}

void
mrd_sample_all_now(mrd_sample *sample)
{
    for (size_t i = 0; i < sample->n; i++)
        sample->lines[i].silent = REPEAT;
    sample->due = sample->process_due = (mrd_local_ns){ 0 };
}

void
mrd_sample_repeat(mrd_sample *sample, bool always)
{
    sample->always = always;
}

mrd_drain_process *
mrd_sample_node(mrd_sample *sample)
{
    return &sample->node;
}

void
mrd_sample_get_stats(const mrd_sample *sample, mrd_sample_stats *ret_stats)
{
    *ret_stats = (mrd_sample_stats){ 0 };
    if (sample != NULL)
        *ret_stats = sample->stats;
}
