/*
 * trace/sink/sink_overview_json.c - writes the data for the charts of the web page: the use of each
 * core over time, and how late the last participant of collectives was.
 *
 * Time is divided into at most BUCKETS equal buckets. Their width starts small. When an event lies
 * after the last bucket, the width doubles and pairs of buckets are merged. So memory does not grow
 * with the range of time: at most 24 bytes x BUCKETS per core.
 *
 * trace/analysis/gather.h finds which spans of different cores belong to one collective. It does
 * not count from the begin of the session, so the chart can show any part of a session.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/obj.h"
#include "trace/analysis/gather.h"
#include "trace/analysis/summary.h"
#include "trace/json/catalog_json.h"

enum { BUCKETS = 512, NO_CORE = UINT32_MAX };

typedef struct {
    uint64_t busy_ns, collective_ns;
} cell;

typedef struct {
    cell *cells;        /* BUCKETS entries; NULL until the core has an event */
    mrd_ev_ns busy_end; /* latest end of a span on the core */
    mrd_ev_ns collective_end;
    /* Only collectives that this core entered last, without ties. last_count is their number.
     * late_ns sums the times for which this core was the only one missing. */
    uint64_t last_count, late_ns;
} core_line;

/* The collectives of one time bucket. A collective counts in the bucket in which its last
 * participant began. */
typedef struct {
    uint64_t count, late_ns; /* number of collectives, and their largest lateness in ns */
    uint32_t core;           /* the core with the largest lateness */
} late_cell;

typedef struct {
    const mrd_sink_env *env;
    /* used only for its lists of nodes, processes and cores, and to find the core of a track */
    mrd_summary *rows;
    mrd_collectives *cc;
    core_line *cores;
    size_t n_cores;
    late_cell late[BUCKETS];
    bool any;
    mrd_ev_ns base;
    uint64_t width_ns;
    mrd_gather *gather;
    uint64_t matched, alone;
} overview_sink;

/* ---- Buckets of time ---- */

static void
join_pairs(overview_sink *sink)
{
    for (size_t c = 0; c < sink->n_cores; c++) {
        cell *v = sink->cores[c].cells;

        for (size_t i = 0; i < BUCKETS && v != NULL; i++) {
            cell sum = { 0 };

            for (size_t k = 2 * i; k < 2 * i + 2 && k < BUCKETS; k++) {
                sum.busy_ns += v[k].busy_ns;
                sum.collective_ns += v[k].collective_ns;
            }
            v[i] = sum;
        }
    }
    for (size_t i = 0; i < BUCKETS; i++) {
        late_cell sum = { .core = NO_CORE };

        for (size_t k = 2 * i; k < 2 * i + 2 && k < BUCKETS; k++) {
            sum.count += sink->late[k].count;
            if (sink->late[k].count > 0 && sink->late[k].late_ns >= sum.late_ns) {
                sum.late_ns = sink->late[k].late_ns;
                sum.core = sink->late[k].core;
            }
        }
        sink->late[i] = sum;
    }
    sink->width_ns *= 2;
}

/* Returns the index of the bucket that contains time `at`. `at` must not be before the first
 * event. */
static size_t
bucket_of(overview_sink *sink, mrd_ev_ns at)
{
    uint64_t since = (uint64_t) at.ns - (uint64_t) sink->base.ns;

    while (since / sink->width_ns >= BUCKETS)
        join_pairs(sink);
    return (size_t) (since / sink->width_ns);
}

/* Divides the time from `begin` to `end` among the time buckets that it overlaps. `offset` selects
 * the member of `cell` to which the time is added. */
static void
spread(overview_sink *sink, cell *cells, mrd_ev_ns begin, mrd_ev_ns end, size_t offset)
{
    size_t last = bucket_of(sink, mrd_ev_sub(end, 1));

    for (size_t i = bucket_of(sink, begin); i <= last; i++) {
        uint64_t from = (uint64_t) begin.ns - (uint64_t) sink->base.ns,
                 to = (uint64_t) end.ns - (uint64_t) sink->base.ns;
        uint64_t left = i * sink->width_ns,
                 right = sink->width_ns > UINT64_MAX - left ? UINT64_MAX : left + sink->width_ns;
        uint64_t *sum = (uint64_t *) (void *) ((char *) &cells[i] + offset);

        *sum += (to < right ? to : right) - (from > left ? from : left);
    }
}

/* ---- Collectives ---- */

static void
collective_done(void *self, const mrd_gathered *group)
{
    overview_sink *sink = self;
    const mrd_gather_part *last = &group->parts[group->n - 1];
    uint64_t late = (uint64_t) last->begin.ns - (uint64_t) group->parts[0].begin.ns;
    late_cell *at;

    if (group->n < 2) {
        sink->alone++;
        return;
    }
    sink->matched++;
    if (!group->is_tie) { /* ties have no last core, so they are left out, as in the report */
        sink->cores[last->core].last_count++;
        sink->cores[last->core].late_ns +=
            (uint64_t) last->begin.ns - (uint64_t) group->parts[group->n - 2].begin.ns;
    }
    at = &sink->late[bucket_of(sink, last->begin)];
    at->count++;
    if (at->count == 1 || late > at->late_ns) {
        at->late_ns = late;
        at->core = last->core;
    }
}

/* ---- The sink ---- */

static void
overview_free(overview_sink *sink)
{
    for (size_t i = 0; i < sink->n_cores && sink->cores != NULL; i++)
        free(sink->cores[i].cells);
    free(sink->cores);
    mrd_gather_free(sink->gather);
    mrd_collectives_free(sink->cc);
    mrd_summary_free(sink->rows);
}

static mrd_err
overview_open(void *state, const mrd_sink_env *env, mrd_why *why)
{
    overview_sink *sink = state;

    sink->env = env;
    sink->width_ns = 1000;
    sink->rows = mrd_summary_new(env);
    sink->cc = mrd_collectives_new(env->catalog, env->options->classify);
    sink->gather = mrd_gather_new(env->catalog, collective_done, sink);
    if (sink->rows != NULL) {
        mrd_summary_cores(sink->rows, &sink->n_cores);
        sink->cores = calloc(sink->n_cores + 1, sizeof(*sink->cores));
    }
    if (sink->rows == NULL || sink->cc == NULL || sink->gather == NULL || sink->cores == NULL) {
        overview_free(sink);
        return mrd_why_set(why, MRD_NOMEM, 0, "overview");
    }
    for (size_t i = 0; i < BUCKETS; i++)
        sink->late[i].core = NO_CORE;
    return MRD_OK;
}

/* Adds [begin, end) to the core's time buckets, without the time that earlier spans cover. Spans
 * come in order of begin, so *reached, the latest end of a span, is enough to tell that time. */
static void
add_union(overview_sink *sink, core_line *line, mrd_ev_ns *reached, mrd_ev_ns begin, mrd_ev_ns end,
          size_t offset)
{
    mrd_ev_ns from = mrd_ev_max(begin, *reached);

    if (!mrd_ev_after(end, from))
        return;
    spread(sink, line->cells, from, end, offset);
    *reached = end;
}

static mrd_err
overview_event(void *state, const mrd_event *ev)
{
    overview_sink *sink = state;
    uint32_t core = mrd_summary_core_of(sink->rows, ev->track);
    const mrd_track *track;
    core_line *line;
    mrd_cc_kind kind;
    mrd_cc what;
    mrd_ev_ns end;

    /* the track is not of this profile, or the catalog did not have it when the sink was opened */
    if (core == NO_CORE)
        return MRD_STATE;
    if (ev->kind != MRD_SPAN || ev->dur_ns <= 0 || (ev->flags & MRD_EV_MISTIMED) != 0)
        return MRD_OK;
    track = mrd_catalog_borrow_track(sink->env->catalog, ev->track);
    if (track->lnc_idx == MRD_NONE || (end = mrd_event_end(ev)).ns == INT64_MAX)
        return MRD_OK;
    line = &sink->cores[core];
    if (line->cells == NULL) {
        if ((line->cells = calloc(BUCKETS, sizeof(*line->cells))) == NULL)
            return MRD_NOMEM;
        line->busy_end = line->collective_end = (mrd_ev_ns){ INT64_MIN };
    }
    if (!sink->any)
        sink->base = ev->ts;
    sink->any = true;
    add_union(sink, line, &line->busy_end, ev->ts, end, offsetof(cell, busy_ns));
    if ((kind = mrd_collectives_see(sink->cc, ev, &what)) == MRD_CC_NO)
        return MRD_OK;
    add_union(sink, line, &line->collective_end, ev->ts, end, offsetof(cell, collective_ns));
    return mrd_gather_add(sink->gather, kind, &what, ev, core, 0);
}

/* Writes one number per time bucket: the member of `cell` at `offset`, in thousandths of the
 * bucket's length. */
static void
put_line(mrd_jw *jw, const overview_sink *sink, const cell *cells, size_t n, size_t offset)
{
    mrd_jw_open(jw, '[');
    for (size_t i = 0; i < n; i++) {
        const uint64_t *ns = (const uint64_t *) (const void *) ((const char *) &cells[i] + offset);

        mrd_jw_u64(jw, sink->width_ns > UINT64_MAX / 1000 ? *ns / (sink->width_ns / 1000)
                                                          : *ns * 1000 / sink->width_ns);
    }
    mrd_jw_close(jw, ']');
}

static void
put_core(mrd_jw *jw, const overview_sink *sink, uint32_t core, size_t buckets)
{
    size_t n;
    const core_line *line = &sink->cores[core];
    const mrd_summary_row *row = &mrd_summary_cores(sink->rows, &n)[core];
    const mrd_process *process = mrd_catalog_borrow_process(
        sink->env->catalog, mrd_summary_processes(sink->rows, &n)[row->parent].process);

    mrd_jw_open(jw, '{');
    MRD_JW_PUT(jw, "instance_id", sid, process->instance_id);
    mrd_jw_put_i64_or_null(jw, MRD_STR("process_id"), process->process_id);
    mrd_jw_put_i64_or_null(jw, MRD_STR("rank"), process->rank);
    mrd_jw_put_i64_or_null(jw, MRD_STR("lnc_idx"), row->lnc_idx);
    mrd_jw_put_i64_or_null(jw, MRD_STR("last_count"), (int64_t) line->last_count);
    mrd_jw_put_i64_or_null(jw, MRD_STR("late_ns"), (int64_t) line->late_ns);
    MRD_JW_KEY(jw, "busy");
    put_line(jw, sink, line->cells, buckets, offsetof(cell, busy_ns));
    MRD_JW_KEY(jw, "collective");
    put_line(jw, sink, line->cells, buckets, offsetof(cell, collective_ns));
    mrd_jw_close(jw, '}');
}

/* Writes the largest lateness of a core in each time bucket, or null for a bucket without
 * collectives. Member "core" is an index into the array "cores". */
static void
put_late(mrd_jw *jw, const overview_sink *sink, const uint32_t *place, size_t buckets)
{
    MRD_JW_PUT(jw, "lateness", open, '[');
    for (size_t i = 0; i < buckets; i++) {
        if (sink->late[i].count == 0) {
            mrd_jw_null(jw);
            continue;
        }
        mrd_jw_open(jw, '{');
        mrd_jw_put_i64_or_null(jw, MRD_STR("count"), (int64_t) sink->late[i].count);
        mrd_jw_put_i64_or_null(jw, MRD_STR("late_ns"), (int64_t) sink->late[i].late_ns);
        mrd_jw_put_i64_or_null(jw, MRD_STR("core"), place[sink->late[i].core]);
        mrd_jw_close(jw, '}');
    }
    mrd_jw_close(jw, ']');
}

/* Returns the number of buckets, without the empty ones at the end. */
static size_t
buckets_used(overview_sink *sink)
{
    mrd_ev_ns last = sink->base;

    for (size_t c = 0; c < sink->n_cores && sink->any; c++) {
        if (sink->cores[c].cells != NULL && mrd_ev_after(sink->cores[c].busy_end, last))
            last = sink->cores[c].busy_end;
    }
    return sink->any ? bucket_of(sink, mrd_ev_sub(last, mrd_ev_after(last, sink->base))) + 1 : 0;
}

static void
put_all(mrd_jw *jw, overview_sink *sink, uint32_t *place)
{
    size_t buckets = buckets_used(sink);
    uint32_t shown = 0;

    mrd_jw_open(jw, '{');
    mrd_catalog_json(jw, sink->env->catalog, sink->env->profile, "overview");
    MRD_JW_PUT(jw, "overview", open, '{');
    mrd_jw_key(jw, MRD_STR("start_ns"));
    mrd_jw_i64_text(jw, sink->base.ns);
    mrd_jw_put_i64_or_null(jw, MRD_STR("bucket_ns"), (int64_t) sink->width_ns);
    mrd_jw_put_i64_or_null(jw, MRD_STR("buckets"), (int64_t) buckets);
    mrd_jw_put_i64_or_null(jw, MRD_STR("collectives"), (int64_t) sink->matched);
    mrd_jw_put_i64_or_null(jw, MRD_STR("without_partner"), (int64_t) sink->alone);
    mrd_jw_put_i64_or_null(jw, MRD_STR("left_out"), (int64_t) mrd_gather_left_out(sink->gather));
    MRD_JW_PUT(jw, "cores", open, '[');
    for (uint32_t c = 0; c < sink->n_cores; c++) {
        if (sink->cores[c].cells == NULL)
            continue;
        place[c] = shown++;
        put_core(jw, sink, c, buckets);
    }
    mrd_jw_close(jw, ']');
    put_late(jw, sink, place, buckets);
    mrd_jw_close(jw, '}');
    mrd_jw_close(jw, '}');
    mrd_jw_end(jw);
}

static mrd_err
overview_close(void *state, mrd_why *why)
{
    overview_sink *sink = state;
    uint32_t *place = NULL;
    mrd_err err = MRD_NOMEM;
    mrd_jw jw;

    if (sink->rows != NULL && sink->cc != NULL && sink->gather != NULL && sink->cores != NULL &&
        (place = calloc(sink->n_cores + 1, sizeof(*place))) != NULL) {
        mrd_gather_finish(sink->gather);
        mrd_jw_init(&jw, sink->env->out, mrd_catalog_strings(sink->env->catalog), false);
        put_all(&jw, sink, place);
        mrd_jw_fini(&jw);
        err = MRD_OK;
    }
    free(place);
    overview_free(sink);
    return err == MRD_OK ? MRD_OK : mrd_why_set(why, err, 0, "overview: %s", mrd_err_text(err));
}

const mrd_sink_ops mrd_sink_overview_json = {
    .name = "overview-json",
    .stem = "system_profile",
    .suffix = ".overview.json",
    .media_type = "application/json",
    .what = "busy time of cores and lateness in collectives over time, for the web page",
    .state_size = sizeof(overview_sink),
    .open = overview_open,
    .event = overview_event,
    .close = overview_close,
};
