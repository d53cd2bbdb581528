/*
 * trace/sink/sink_overview_json.c - data for the charts of the web page: the use of each core over
 * time, and the lateness of the last participant of collectives.
 *
 * Time is divided into at most BUCKETS equal buckets. Their width starts small. When an event lies
 * after the last bucket, the width doubles and pairs of buckets are merged. So memory does not grow
 * with the range of time: at most 24 bytes x BUCKETS per core.
 *
 * Lateness: trace/analysis/gather.h matches the parts of a collective, so counting need not begin
 * with the session, and any slice can be drawn.
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
    cell *cells;        /* BUCKETS; NULL while there are no events */
    mrd_ev_ns busy_end; /* latest end of a span */
    mrd_ev_ns collective_end;
    uint64_t last_count, late_ns; /* how often it was the last; its total lateness */
} core_line;

/* Collectives, by the bucket in which their last part began. */
typedef struct {
    uint64_t count, late_ns; /* the largest */
    uint32_t core;           /* the late core */
} late_cell;

typedef struct {
    const mrd_sink_env *env;
    mrd_summary *rows; /* only its rows are used: nodes, processes, cores, and each track's core */
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

/* ---- Time ---- */

static void
join_pairs(overview_sink *s)
{
    for (size_t c = 0; c < s->n_cores; c++) {
        cell *v = s->cores[c].cells;

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
            sum.count += s->late[k].count;
            if (s->late[k].count > 0 && s->late[k].late_ns >= sum.late_ns) {
                sum.late_ns = s->late[k].late_ns;
                sum.core = s->late[k].core;
            }
        }
        s->late[i] = sum;
    }
    s->width_ns *= 2;
}

/* Returns the bucket of `at`, which is not before the first event. */
static size_t
bucket_of(overview_sink *s, mrd_ev_ns at)
{
    uint64_t since = (uint64_t) at.ns - (uint64_t) s->base.ns;

    while (since / s->width_ns >= BUCKETS)
        join_pairs(s);
    return (size_t) (since / s->width_ns);
}

/* Adds [begin, end) to the buckets that it overlaps. */
static void
spread(overview_sink *s, cell *cells, mrd_ev_ns begin, mrd_ev_ns end, size_t offset)
{
    size_t last = bucket_of(s, mrd_ev_sub(end, 1));

    for (size_t i = bucket_of(s, begin); i <= last; i++) {
        uint64_t from = (uint64_t) begin.ns - (uint64_t) s->base.ns,
                 to = (uint64_t) end.ns - (uint64_t) s->base.ns;
        uint64_t left = i * s->width_ns,
                 right = s->width_ns > UINT64_MAX - left ? UINT64_MAX : left + s->width_ns;
        uint64_t *sum = (uint64_t *) (void *) ((char *) &cells[i] + offset);

        *sum += (to < right ? to : right) - (from > left ? from : left);
    }
}

/* ---- Collectives ---- */

static void
collective_done(void *self, const mrd_gathered *c)
{
    overview_sink *s = self;
    const mrd_gather_part *last = &c->parts[c->n - 1];
    uint64_t late = (uint64_t) last->begin.ns - (uint64_t) c->parts[0].begin.ns;
    late_cell *at;

    if (c->n < 2) {
        s->alone++;
        return;
    }
    s->matched++;
    s->cores[last->core].last_count++;
    s->cores[last->core].late_ns += late;
    at = &s->late[bucket_of(s, last->begin)];
    at->count++;
    if (at->count == 1 || late > at->late_ns) {
        at->late_ns = late;
        at->core = last->core;
    }
}

/* ---- The sink ---- */

static void
overview_free(overview_sink *s)
{
    for (size_t i = 0; i < s->n_cores && s->cores != NULL; i++)
        free(s->cores[i].cells);
    free(s->cores);
    mrd_gather_free(s->gather);
    mrd_collectives_free(s->cc);
    mrd_summary_free(s->rows);
}

static mrd_err
overview_open(void *state, const mrd_sink_env *env, mrd_why *why)
{
    overview_sink *s = state;

    s->env = env;
    s->width_ns = 1000;
    s->rows = mrd_summary_new(env);
    s->cc = mrd_collectives_new(env->catalog, env->options->classify);
    s->gather = mrd_gather_new(env->catalog, collective_done, s);
    if (s->rows != NULL) {
        mrd_summary_cores(s->rows, &s->n_cores);
        s->cores = calloc(s->n_cores + 1, sizeof(*s->cores));
    }
    if (s->rows == NULL || s->cc == NULL || s->gather == NULL || s->cores == NULL) {
        overview_free(s);
        return mrd_why_set(why, MRD_NOMEM, 0, "overview");
    }
    for (size_t i = 0; i < BUCKETS; i++)
        s->late[i].core = NO_CORE;
    return MRD_OK;
}

/* Adds the part of [begin, end) after the union's end. Begins never decrease. */
static void
add_union(overview_sink *s, core_line *line, mrd_ev_ns *reached, mrd_ev_ns begin, mrd_ev_ns end,
          size_t offset)
{
    mrd_ev_ns from = mrd_ev_max(begin, *reached);

    if (!mrd_ev_after(end, from))
        return;
    spread(s, line->cells, from, end, offset);
    *reached = end;
}

static mrd_err
overview_event(void *state, const mrd_event *ev)
{
    overview_sink *s = state;
    uint32_t core = mrd_summary_core_of(s->rows, ev->track);
    const mrd_track *t;
    core_line *line;
    mrd_cc_kind kind;
    mrd_cc what;
    mrd_ev_ns end;

    if (core == NO_CORE)
        return MRD_STATE; /* not a track of this profile when the catalog was complete */
    if (ev->kind != MRD_SPAN || ev->dur_ns <= 0 || (ev->flags & MRD_EV_MISTIMED) != 0)
        return MRD_OK;
    t = mrd_catalog_borrow_track(s->env->catalog, ev->track);
    if (t->lnc_idx == MRD_NONE || (end = mrd_event_end(ev)).ns == INT64_MAX)
        return MRD_OK;
    line = &s->cores[core];
    if (line->cells == NULL) {
        if ((line->cells = calloc(BUCKETS, sizeof(*line->cells))) == NULL)
            return MRD_NOMEM;
        line->busy_end = line->collective_end = (mrd_ev_ns){ INT64_MIN };
    }
    if (!s->any)
        s->base = ev->ts;
    s->any = true;
    add_union(s, line, &line->busy_end, ev->ts, end, offsetof(cell, busy_ns));
    if ((kind = mrd_collectives_see(s->cc, ev, &what)) == MRD_CC_NO)
        return MRD_OK;
    add_union(s, line, &line->collective_end, ev->ts, end, offsetof(cell, collective_ns));
    return mrd_gather_add(s->gather, kind, &what, ev, core, 0);
}

/* Writes one number per bucket, in thousandths of its width. */
static void
put_line(mrd_jw *w, const overview_sink *s, const cell *cells, size_t n, size_t offset)
{
    mrd_jw_open(w, '[');
    for (size_t i = 0; i < n; i++) {
        const uint64_t *ns = (const uint64_t *) (const void *) ((const char *) &cells[i] + offset);

        mrd_jw_u64(w, s->width_ns > UINT64_MAX / 1000 ? *ns / (s->width_ns / 1000)
                                                      : *ns * 1000 / s->width_ns);
    }
    mrd_jw_close(w, ']');
}

static void
put_core(mrd_jw *w, const overview_sink *s, uint32_t core, size_t buckets)
{
    size_t n;
    const core_line *line = &s->cores[core];
    const mrd_summary_row *row = &mrd_summary_cores(s->rows, &n)[core];
    const mrd_process *p = mrd_catalog_borrow_process(
        s->env->catalog, mrd_summary_processes(s->rows, &n)[row->parent].process);

    mrd_jw_open(w, '{');
    MRD_JW_KEY(w, "instance_id");
    mrd_jw_sid(w, p->instance_id);
    mrd_jw_put_i64_or_null(w, MRD_STR("process_id"), p->process_id);
    mrd_jw_put_i64_or_null(w, MRD_STR("rank"), p->rank);
    mrd_jw_put_i64_or_null(w, MRD_STR("lnc_idx"), row->lnc_idx);
    mrd_jw_put_i64_or_null(w, MRD_STR("last_count"), (int64_t) line->last_count);
    mrd_jw_put_i64_or_null(w, MRD_STR("late_ns"), (int64_t) line->late_ns);
    MRD_JW_KEY(w, "busy");
    put_line(w, s, line->cells, buckets, offsetof(cell, busy_ns));
    MRD_JW_KEY(w, "collective");
    put_line(w, s, line->cells, buckets, offsetof(cell, collective_ns));
    mrd_jw_close(w, '}');
}

/* "core" is an index into "cores"; null if no collective ended in this bucket. */
static void
put_late(mrd_jw *w, const overview_sink *s, const uint32_t *place, size_t buckets)
{
    MRD_JW_KEY(w, "lateness");
    mrd_jw_open(w, '[');
    for (size_t i = 0; i < buckets; i++) {
        if (s->late[i].count == 0) {
            mrd_jw_null(w);
            continue;
        }
        mrd_jw_open(w, '{');
        mrd_jw_put_i64_or_null(w, MRD_STR("count"), (int64_t) s->late[i].count);
        mrd_jw_put_i64_or_null(w, MRD_STR("late_ns"), (int64_t) s->late[i].late_ns);
        mrd_jw_put_i64_or_null(w, MRD_STR("core"), place[s->late[i].core]);
        mrd_jw_close(w, '}');
    }
    mrd_jw_close(w, ']');
}

/* Returns the number of buckets up to the last non-empty one. */
static size_t
buckets_used(overview_sink *s)
{
    mrd_ev_ns last = s->base;

    for (size_t c = 0; c < s->n_cores && s->any; c++) {
        if (s->cores[c].cells != NULL && mrd_ev_after(s->cores[c].busy_end, last))
            last = s->cores[c].busy_end;
    }
    return s->any ? bucket_of(s, mrd_ev_sub(last, mrd_ev_after(last, s->base))) + 1 : 0;
}

static void
put_all(mrd_jw *w, overview_sink *s, uint32_t *place)
{
    size_t buckets = buckets_used(s);
    uint32_t shown = 0;

    mrd_jw_open(w, '{');
    mrd_catalog_json(w, s->env->catalog, s->env->profile, "overview");
    MRD_JW_KEY(w, "overview");
    mrd_jw_open(w, '{');
    mrd_jw_key(w, MRD_STR("start_ns"));
    mrd_jw_i64_text(w, s->base.ns);
    mrd_jw_put_i64_or_null(w, MRD_STR("bucket_ns"), (int64_t) s->width_ns);
    mrd_jw_put_i64_or_null(w, MRD_STR("buckets"), (int64_t) buckets);
    mrd_jw_put_i64_or_null(w, MRD_STR("collectives"), (int64_t) s->matched);
    mrd_jw_put_i64_or_null(w, MRD_STR("without_partner"), (int64_t) s->alone);
    mrd_jw_put_i64_or_null(w, MRD_STR("left_out"), (int64_t) mrd_gather_left_out(s->gather));
    MRD_JW_KEY(w, "cores");
    mrd_jw_open(w, '[');
    for (uint32_t c = 0; c < s->n_cores; c++) {
        if (s->cores[c].cells == NULL)
            continue;
        place[c] = shown++;
        put_core(w, s, c, buckets);
    }
    mrd_jw_close(w, ']');
    put_late(w, s, place, buckets);
    mrd_jw_close(w, '}');
    mrd_jw_close(w, '}');
    mrd_jw_end(w);
}

static mrd_err
overview_close(void *state, mrd_why *why)
{
    overview_sink *s = state;
    uint32_t *place = NULL;
    mrd_err err = MRD_NOMEM;
    mrd_jw w;

    if (s->rows != NULL && s->cc != NULL && s->gather != NULL && s->cores != NULL &&
        (place = calloc(s->n_cores + 1, sizeof(*place))) != NULL) {
        mrd_gather_finish(s->gather);
        mrd_jw_init(&w, s->env->out, mrd_catalog_strings(s->env->catalog), false);
        put_all(&w, s, place);
        mrd_jw_fini(&w);
        err = MRD_OK;
    }
    free(place);
    overview_free(s);
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
