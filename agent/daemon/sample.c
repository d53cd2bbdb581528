#include "agent/daemon/sample.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/conf/agent_waits.h"
#include "base/obj.h"
#include "hw/proc.h"

#define REPEAT        10 /* an unchanged value is emitted every this many rounds */
#define TIMEOUT_SHARE 10

typedef struct {
    mrd_track_id track;
    mrd_hw_value last;
    unsigned silent; /* rounds since it was last emitted */
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
    bool always; /* unchanged values too */
    mrd_sample_stats stats;
};

static void
give(mrd_sample *s, mrd_drain_process *p, const mrd_event *ev)
{
    s->stats.begun++;
    if (s->o.event(s->o.self, p, MRD_DRAIN_RAW, ev) == MRD_OK)
        s->stats.samples++;
    else
        s->stats.refused++;
}

/* ---- Counters of the node ---- */

static mrd_track_id
track_of(mrd_sample *s, const mrd_hw_counter *c)
{
    mrd_track t;

    mrd_track_init(&t, s->node.id,
                   c->device_idx != MRD_NONE || c->core_idx != MRD_NONE ||
                           strncmp(c->name, "runtime.", 8) == 0
                       ? MRD_SRC_DEVCTR
                       : MRD_SRC_HOST);
    t.kind = MRD_TRACK_COUNTER;
    t.device_idx = c->device_idx;
    t.pcore_idx = c->core_idx;
    t.unit = c->unit;
    t.name = mrd_catalog_intern(s->node.catalog, c->name);
    return mrd_catalog_track(s->node.catalog, &t);
}

static mrd_err
open_session(mrd_sample *s, mrd_why *why)
{
    mrd_hw_session *fresh = NULL;
    size_t n;
    line *lines;
    mrd_hw_value *values;
    mrd_err err = mrd_hw_session_create(s->hw, s->o.patterns, s->o.n_patterns, MRD_HW_SCOPE_ALL,
                                        !s->o.strict, &fresh, why);

    if (err != MRD_OK)
        return err;
    n = mrd_hw_session_count(fresh);
    lines = calloc(n + 1, sizeof(*lines));
    values = calloc(n + 1, sizeof(*values));
    if (lines == NULL || values == NULL) {
        free(lines);
        free(values);
        mrd_hw_session_destroy(fresh);
        return mrd_why_set(why, MRD_NOMEM, 0, "counters");
    }
    mrd_hw_session_destroy(s->session);
    free(s->lines);
    free(s->values);
    s->session = fresh;
    s->lines = lines;
    s->values = values;
    s->n = s->stats.counters = n;
    for (size_t i = 0; i < n; i++) {
        s->lines[i].track = track_of(s, mrd_hw_session_counter(fresh, i));
        s->lines[i].silent = REPEAT;
    }
    err = mrd_hw_session_start(fresh, s->o.period / TIMEOUT_SHARE + MRD_MS, why);
    return err == MRD_TIMEOUT || err == MRD_CLOSED ? MRD_OK : err; /* said again by poll */
}

/* Creates a new session if there are new devices or interfaces. */
static void
refresh(mrd_sample *s, mrd_local_ns now)
{
    mrd_hw_session *probe = NULL;

    s->refresh_at = mrd_local_add(now, MRD_WAIT_COUNTER_LIST);
    if (mrd_hw_refresh(s->hw, NULL) != MRD_OK ||
        mrd_hw_session_create(s->hw, s->o.patterns, s->o.n_patterns, MRD_HW_SCOPE_ALL, true, &probe,
                              NULL) != MRD_OK)
        return;
    if (mrd_hw_session_count(probe) != s->n)
        (void) open_session(s, NULL);
    mrd_hw_session_destroy(probe);
}

static void
give_value(mrd_sample *s, size_t i)
{
    const mrd_hw_counter *c = mrd_hw_session_counter(s->session, i);
    const mrd_hw_value *v = &s->values[i];
    line *l = &s->lines[i];
    bool is_double = (c->flags & MRD_HW_DOUBLE) != 0;
    mrd_event ev = { .kind = MRD_COUNTER, .ts = { v->at.ns }, .track = l->track };

    if (v->state != MRD_HW_OK)
        return; /* unknown is not zero, so there is no sample */
    if (!s->always && l->silent < REPEAT && l->last.state == MRD_HW_OK &&
        (is_double ? l->last.d == v->d : l->last.i == v->i)) {
        l->silent++;
        return;
    }
    l->silent = 0;
    l->last = *v;
    if (is_double) {
        ev.value = v->d;
    } else {
        ev.ivalue = v->i;
        ev.flags = MRD_EV_INT;
    }
    if ((c->flags & MRD_HW_SIMULATED) != 0 || s->o.simulated)
        ev.flags |= MRD_EV_SIMULATED;
    give(s, &s->node, &ev);
}

static void
sample_counters(mrd_sample *s)
{
    mrd_why why = { 0 };
    mrd_err err;

    s->stats.rounds++;
    err = mrd_hw_session_poll(s->session, s->o.period / TIMEOUT_SHARE + MRD_MS, s->values, NULL,
                              s->n, &why);
    if (err == MRD_STATE) /* the start had failed: try again */
        err = mrd_hw_session_start(s->session, s->o.period / TIMEOUT_SHARE + MRD_MS, &why);
    snprintf(s->stats.message, sizeof(s->stats.message), "%s", err == MRD_OK ? "" : why.text);
    s->stats.failed += err != MRD_OK;
    for (size_t i = 0; err == MRD_OK && i < s->n; i++)
        give_value(s, i);
}

/* ---- Processes ---- */

static void
process_value(mrd_sample *s, mrd_drain_process *p, const char *name, mrd_unit unit, int64_t v,
              mrd_local_ns at)
{
    mrd_event ev = { .kind = MRD_COUNTER, .ts = { at.ns }, .ivalue = v, .flags = MRD_EV_INT };
    mrd_track t;

    if (v == MRD_NONE)
        return;
    mrd_track_init(&t, p->id, MRD_SRC_HOST);
    t.kind = MRD_TRACK_COUNTER;
    t.unit = unit;
    t.name = mrd_catalog_intern(p->catalog, name);
    ev.track = mrd_catalog_track(p->catalog, &t);
    if (s->o.simulated)
        ev.flags |= MRD_EV_SIMULATED;
    give(s, p, &ev);
}

static void
sample_process(void *self, mrd_drain_process *p)
{
    mrd_sample *s = self;
    mrd_local_ns at = mrd_local_now();
    mrd_proc_stat st;

    if (mrd_proc_read(s->o.proc_root, p->ident.pid, &st, NULL) != MRD_OK ||
        (p->ident.start_ticks != st.start_ticks && p->ident.timens_boottime_ns == 0))
        return;
    process_value(s, p, "process.cpu_ns", MRD_UNIT_NS, st.cpu_user_ns + st.cpu_system_ns, at);
    process_value(s, p, "process.rss_bytes", MRD_UNIT_BYTES, st.rss_bytes, at);
    process_value(s, p, "process.threads", MRD_UNIT_COUNT, st.threads, at);
}

/* ---- The interface ---- */

mrd_err
mrd_sample_open(mrd_hw *hw, const mrd_sample_options *options, mrd_sample **ret_sample,
                mrd_why *why)
{
    mrd_sample *s = calloc(1, sizeof(*s));
    mrd_process node;
    mrd_err err = MRD_OK;

    if (s == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "counters");
    s->o = *options;
    if (s->o.proc_root == NULL)
        s->o.proc_root = "/proc";
    s->hw = hw;
    mrd_ident_init(&s->node.ident);
    s->node.catalog = options->catalog != NULL ? options->catalog : mrd_catalog_new();
    if (s->node.catalog == NULL) {
        free(s);
        return mrd_why_set(why, MRD_NOMEM, 0, "counters");
    }
    mrd_process_init(&node);
    node.instance_id = mrd_catalog_intern(s->node.catalog, options->instance_id);
    node.name = mrd_catalog_intern(s->node.catalog, "node");
    node.process_id = 0;
    node.flags = MRD_PROC_NODE | (options->simulated ? MRD_PROC_SIMULATED : 0);
    s->node.id = mrd_catalog_process(s->node.catalog, &node);
    if (hw == NULL)
        s->o.period = 0;
    if (s->o.period > 0)
        err = open_session(s, why);
    if (err != MRD_OK) {
        mrd_sample_close(s);
        return err;
    }
    *ret_sample = s;
    return MRD_OK;
}

void
mrd_sample_close(mrd_sample *s)
{
    if (s == NULL)
        return;
    mrd_hw_session_destroy(s->session);
    if (s->node.catalog != s->o.catalog)
        mrd_catalog_free(s->node.catalog);
    free(s->lines);
    free(s->values);
    free(s);
}

void
mrd_sample_step(mrd_sample *s, const mrd_drain *drain, mrd_local_ns now)
{
    if (s->o.period > 0 && !mrd_local_before(now, s->due)) {
        s->due = s->due.ns == 0 || mrd_local_diff(now, s->due) > s->o.period
                     ? mrd_local_add(now, s->o.period)
                     : mrd_local_add(s->due, s->o.period);
        if (!mrd_local_before(now, s->refresh_at))
            refresh(s, now);
        if (s->n > 0)
            sample_counters(s);
    }
    if (s->o.process_period > 0 && !mrd_local_before(now, s->process_due)) {
        s->process_due = mrd_local_add(now, s->o.process_period);
        if (drain != NULL)
            mrd_drain_each(drain, sample_process, s);
    }
}

mrd_local_ns
mrd_sample_next_ns(const mrd_sample *s)
{
    mrd_local_ns next = s->o.period > 0 ? s->due : (mrd_local_ns){ INT64_MAX };

    return s->o.process_period > 0 && mrd_local_before(s->process_due, next) ? s->process_due
                                                                             : next;
}

void
mrd_sample_all_now(mrd_sample *s)
{
    for (size_t i = 0; i < s->n; i++)
        s->lines[i].silent = REPEAT;
    s->due = s->process_due = (mrd_local_ns){ 0 };
}

void
mrd_sample_repeat(mrd_sample *s, bool always)
{
    s->always = always;
}

mrd_drain_process *
mrd_sample_node(mrd_sample *s)
{
    return &s->node;
}

void
mrd_sample_get_stats(const mrd_sample *s, mrd_sample_stats *ret_stats)
{
    *ret_stats = (mrd_sample_stats){ 0 };
    if (s != NULL)
        *ret_stats = s->stats;
}
