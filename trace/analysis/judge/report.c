#include "trace/analysis/judge/report.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/obj.h"
#include "base/vec.h"
#include "trace/analysis/judge/longest.h"
#include "trace/analysis/launches.h"
#include "trace/model/arg_keys.h"

typedef struct {
    mrd_report_worker pub;
    mrd_worker_time time;
    mrd_queue queue;
    bool mapped;
} worker_state;

/* Proofs that one worker was late in collectives of one group with `parts` participants. They are
 * valid only if the group has exactly this many members, which is not certain before the last
 * event. */
typedef struct {
    uint32_t group, worker, collective; /* worker that began last, and index in `collectives` */
    size_t parts;
    uint64_t count, wait_ns;               /* proofs within one node */
    uint64_t across_count, across_wait_ns; /* proofs that compare clocks of different nodes */
    uint64_t matched;                      /* number of these collectives, proven or not */
} claim;

struct mrd_report {
    const mrd_catalog *cat;
    mrd_workers *who;
    worker_state *all; /* indexed by worker number */
    size_t n_all;
    mrd_report_worker *workers; /* created by mrd_report_finish */
    size_t n_workers;
    mrd_launches *launches, *numbered; /* launches by flow arrow, and by launch number */
    mrd_sid number_key;
    mrd_gather *gather;
    mrd_map by_name; /* maps an operation's name and size to an index in `collectives` */
    /* maps group, number of participants, late worker and index in `collectives` to an index in
     * `claims` */
    mrd_map by_claim;
    claim *claims;
    size_t n_claims, cap_claims;
    mrd_proof *proof;
    mrd_lateness *lateness;
    mrd_host_work *host;
    mrd_steady *steady;
    mrd_kernels *kernels;
    mrd_step_path *path;
    mrd_ev_ns step_end; /* end of the current step of `path`; INT64_MAX if there is none */
    mrd_report_collective *collectives;
    size_t n_collectives, cap_collectives;
    size_t longest;         /* index in `collectives` of totals.longest_name */
    mrd_report_pace *paces; /* indexed by process; mrd_report_finish drops empty ones */
    size_t n_paces;
    mrd_report_pause pauses[MRD_REPORT_PAUSES];
    size_t n_pauses;
    mrd_report_step steps[MRD_REPORT_STEPS];
    size_t n_steps;
    mrd_standstill *standstill;
    mrd_stuck *stuck;
    mrd_credible *credible;
    mrd_ev_ns end;        /* end of the recording, if known */
    mrd_balance *balance; /* comparison of the workers' program phases (trace/analysis/balance.h) */
    mrd_what_if *what_if;
    mrd_absence *absence;
    mrd_report_totals totals;
    /* messages: SendRecv kernels may be single messages instead of all-to-alls */
    bool any, messages;
    mrd_err err; /* first error of a callback of `gather` */
};

uint64_t
mrd_report_window(const mrd_report_worker *w)
{
    return mrd_ev_after(w->first, w->last) ? 0 : (uint64_t) w->last.ns - (uint64_t) w->first.ns;
}

/* Returns the account of a worker's time. The caller then advances it to the time `to`. Before
 * that, this function lets `lateness` read the account at the ends of collectives before `to`. */
static mrd_worker_time *
time_before(mrd_report *r, uint32_t worker, mrd_ev_ns to)
{
    mrd_lateness_leave(r->lateness, worker, &r->all[worker].time, to);
    return &r->all[worker].time;
}

/* Callback of `path`: stores how the worker spent its time up to `at`. */
static void
account_of(void *self, uint32_t worker, mrd_ev_ns at, mrd_step_account *ret)
{
    mrd_report *r = self;
    mrd_worker_time *t = time_before(r, worker, at);

    ret->any = t->any;
    ret->first = t->first;
    ret->device_end = t->device_end;
    mrd_worker_time_read(t, at, ret->part_ns);
    ret->unmet_ns = t->unmet_ns;
}

static bool
workers_make(mrd_report *r, const mrd_sink_env *env)
{
    r->n_all = mrd_workers_count(r->who);
    r->all = calloc(r->n_all + 1, sizeof(*r->all));
    for (uint32_t i = 0; r->all != NULL && i < r->n_all; i++) {
        const mrd_worker *w = mrd_workers_at(r->who, i);

        mrd_worker_time_init(&r->all[i].time);
        mrd_queue_init(&r->all[i].queue);
        r->all[i].mapped = w->mapped;
        r->all[i].pub =
            (mrd_report_worker){ .process = w->process,
                                 .lnc_idx = w->lnc_idx,
                                 .device_idx = w->device_idx,
                                 .worker_gid = w->worker_gid,
                                 .ranks = w->ranks,
                                 .first = { INT64_MAX },
                                 .last = { INT64_MIN },
                                 .unmeasured = (w->waits_known ? 0 : 1u << MRD_REPORT_WAITING) |
                                               (w->host_known ? 0 : 1u << MRD_REPORT_HOST) };
    }
    r->absence = mrd_absence_new(r->cat, r->who, r->gather);
    r->proof = mrd_proof_new(env, r->who);
    r->lateness = mrd_lateness_new(r->n_all);
    r->host = mrd_host_work_new(r->who, r->n_paces);
    r->steady = mrd_steady_new(r->n_all);
    r->kernels = mrd_kernels_new(r->cat, r->n_all);
    r->path = mrd_step_path_new(r->who, account_of, r);
    r->step_end = (mrd_ev_ns){ INT64_MAX };
    r->balance = mrd_balance_new(r->cat, r->n_all, env->first, env->last);
    r->what_if = mrd_what_if_new(r->cat, r->who);
    return r->all != NULL && r->absence != NULL && r->balance != NULL && r->what_if != NULL &&
           r->proof != NULL && r->lateness != NULL && r->host != NULL && r->steady != NULL &&
           r->kernels != NULL && r->path != NULL;
}

/* ---- Time of a worker ---- */

static void
note_launches(mrd_report *r, const mrd_event *ev, const uint64_t *number)
{
    mrd_err err = MRD_OK;

    for (unsigned i = 0; i < ev->flow_count && err == MRD_OK; i++) {
        if (ev->flows[i].dir == MRD_FLOW_START)
            err = mrd_launches_note(r->launches, ev->flows[i].id, ev->ts);
    }
    if (err == MRD_OK && number != NULL && mrd_workers_of(r->who, ev->track) == MRD_NO_WORKER)
        err = mrd_launches_note(r->numbered, *number, ev->ts);
    if (err != MRD_OK)
        r->err = err;
}

/* Returns when a device span was launched; NULL if unknown. */
static const mrd_ev_ns *
launch_of(const mrd_report *r, const mrd_event *ev, const uint64_t *number)
{
    for (unsigned i = 0; i < ev->flow_count; i++) {
        const mrd_ev_ns *launched = ev->flows[i].dir == MRD_FLOW_START
                                        ? NULL
                                        : mrd_launches_find(r->launches, ev->flows[i].id);

        if (launched != NULL)
            return launched;
    }
    return number == NULL ? NULL : mrd_launches_find(r->numbered, *number);
}

static mrd_idle_cause
cause_of(const mrd_ev_ns *launched, const mrd_worker_pause *pause)
{
    return launched == NULL                        ? MRD_IDLE_UNKNOWN
           : mrd_ev_after(*launched, pause->start) ? MRD_IDLE_LAUNCH
           : pause->dur_ns <= MRD_REPORT_SHORT     ? MRD_IDLE_SHORT
                                                   : MRD_IDLE_QUEUED;
}

static void
add_span(mrd_report *r, const mrd_work *work, const mrd_event *ev, const uint64_t *number)
{
    worker_state *w = &r->all[work->worker];
    const mrd_ev_ns *launched = work->device ? launch_of(r, ev, number) : NULL;
    mrd_worker_pause gone;
    mrd_report_pause *pause;

    if (work->device)
        mrd_absence_device(r->absence, work->worker, ev, number);
    if (work->device && mrd_queue_add(&w->queue, launched == NULL ? ev->ts : *launched,
                                      launched != NULL, ev->ts) != MRD_OK)
        r->err = MRD_NOMEM;
    if (work->device &&
        mrd_credible_device(r->credible, work, ev, number, launched != NULL) != MRD_OK)
        r->err = MRD_NOMEM;
    if (!mrd_worker_time_add(time_before(r, work->worker, ev->ts), work->on, work->device, ev,
                             &gone))
        return;
    w->pub.idle_ns[MRD_IDLE_LOADING] += gone.loading_ns;
    w->pub.idle_ns[cause_of(launched, &gone)] += gone.part_ns[MRD_REPORT_IDLE] - gone.loading_ns;
    if (gone.part_ns[MRD_REPORT_UNRECORDED] > 0)
        return;
    pause = MRD_LONGEST(r->pauses, r->n_pauses, MRD_REPORT_PAUSES, gone.dur_ns);
    if (pause != NULL)
        *pause = (mrd_report_pause){ .worker = work->worker,
                                     .start = gone.start,
                                     .dur_ns = gone.dur_ns,
                                     .host_ns = gone.part_ns[MRD_REPORT_HOST] +
                                                gone.part_ns[MRD_REPORT_COPY],
                                     .before = gone.before,
                                     .after = ev->name };
}

static void
add_loading(mrd_report *r, mrd_proc_id process, const mrd_event *ev)
{
    uint32_t first, n = mrd_workers_of_process(r->who, process, &first);

    for (uint32_t i = first; i < first + n; i++)
        mrd_worker_time_load(time_before(r, i, ev->ts), ev);
}

/* ---- Collectives ---- */

static mrd_report_collective *
collective_row(mrd_report *r, const mrd_gathered *c)
{
    mrd_map_key key = { c->name, (uint64_t) c->size, 0 };
    uint32_t i = mrd_map_get(&r->by_name, key);

    if (i != MRD_MAP_NONE)
        return &r->collectives[i];
    if (!MRD_VEC_ROOM(r->collectives, r->n_collectives, r->cap_collectives, 1))
        return NULL;
    if (mrd_map_put(&r->by_name, key, (uint32_t) r->n_collectives) != MRD_OK)
        return NULL;
    r->collectives[r->n_collectives] = (mrd_report_collective){ .name = c->name, .size = c->size };
    return &r->collectives[r->n_collectives++];
}

/* Returns the usual time of a collective with this name and size: the median spread of begins plus
 * the median shortest part. 0 if there was none before. */
static uint64_t
usual_ns(const mrd_report *r, const mrd_gathered *c)
{
    uint32_t i = mrd_map_get(&r->by_name, (mrd_map_key){ c->name, (uint64_t) c->size, 0 });

    return i == MRD_MAP_NONE ? 0
                             : mrd_hist_quantile(&r->collectives[i].latency, 0.5) +
                                   mrd_hist_quantile(&r->collectives[i].spread, 0.5);
}

/* Returns the claim for this collective's late worker, group, size of the group and operation. Adds
 * the claim if it is new. NULL if out of memory. */
static claim *
claim_of(mrd_report *r, const mrd_gathered *c, uint32_t collective)
{
    uint32_t worker = c->parts[c->n - 1].core;
    mrd_map_key key = { (uint64_t) c->group << 32 | c->n, worker, collective };
    uint32_t i = mrd_map_get(&r->by_claim, key);

    if (i != MRD_MAP_NONE)
        return &r->claims[i];
    if (!MRD_VEC_ROOM(r->claims, r->n_claims, r->cap_claims, 1))
        return NULL;
    if (mrd_map_put(&r->by_claim, key, (uint32_t) r->n_claims) != MRD_OK)
        return NULL;
    r->claims[r->n_claims] =
        (claim){ .group = c->group, .worker = worker, .collective = collective, .parts = c->n };
    return &r->claims[r->n_claims++];
}

/* Adds the proofs of claims to the totals if the group has as many members as the claim assumes.
 * Call at the end, when group sizes and clock errors are final. */
static void
judge_claims(mrd_report *r)
{
    bool fell = mrd_proof_fell(r->proof);

    for (size_t i = 0; i < r->n_claims; i++) {
        claim *c = &r->claims[i];
        mrd_report_worker *late = &r->all[c->worker].pub;
        uint32_t members, takers = mrd_gather_takers(r->gather, c->group, &members);

        if (fell)
            r->totals.suspect += c->across_count;
        c->count += fell ? 0 : c->across_count;
        c->wait_ns += fell ? 0 : c->across_wait_ns;
        if (members > 0 && takers > members) {
            r->totals.mixed += c->matched;
        } else if (c->parts < takers || takers < members) {
            r->totals.partial += c->matched;
        } else {
            late->proven += c->count;
            late->proven_ns += c->wait_ns;
            r->collectives[c->collective].proven += c->count;
            r->totals.proven += c->count;
            r->totals.proven_unsized += members == 0 ? c->count : 0;
        }
    }
}

static void
add_bytes(mrd_report_collective *row, const mrd_gathered *c, uint64_t latency)
{
    if (c->bytes == 0 || latency == 0)
        return;
    row->sized++;
    row->bytes += c->bytes;
    row->bus_bytes += mrd_cc_bus_bytes(c->traffic, c->bytes, c->members);
    row->sized_ns += latency;
}

/* Callback of `gather` when the last known member has begun. From now on, the time of the members
 * in this collective is transfer and no longer waiting. */
static void
collective_met(void *self, const mrd_gathered *c)
{
    mrd_report *r = self;

    for (size_t i = 0; i < c->n; i++)
        mrd_worker_time_meet(time_before(r, c->parts[i].core, c->parts[c->n - 1].begin), c, i);
    mrd_step_path_meet(r->path, c);
    if (mrd_lateness_met(r->lateness, c) != MRD_OK)
        r->err = MRD_NOMEM;
}

/* Adds a collective to the totals of the worker that began last. `waits` is the time in ns for
 * which all others waited. */
static void
add_late(mrd_report *r, const mrd_gathered *c, claim *held, uint64_t waits)
{
    const mrd_gather_part *last = &c->parts[c->n - 1];
    mrd_report_worker *late = &r->all[last->core].pub;
    uint64_t brought = mrd_lateness_done(r->lateness, c), own,
             alone = (uint64_t) last->begin.ns - (uint64_t) c->parts[c->n - 2].begin.ns;
    mrd_doubts why;

    if (mrd_proof_of(r->proof, c, &why)) {
        r->totals.any_traced = r->totals.any_traced || why.traced;
        *(why.across ? &held->across_count : &held->count) += 1;
        *(why.across ? &held->across_wait_ns : &held->wait_ns) += waits;
    }
    r->totals.no_bound += why.no_bound;
    r->totals.suspect += why.suspect;
    r->totals.mapped += why.mapped;
    own = (alone - (brought < alone ? brought : alone)) * (c->n - 1);
    late->came_last++;
    late->alone_ns += alone;
    late->alone_wait_ns += alone * (c->n - 1);
    late->own_wait_ns += own;
    late->longest_wait_ns = own > late->longest_wait_ns ? own : late->longest_wait_ns;
    late->caused_ns += waits;
    mrd_steady_add(r->steady, last->begin, last->core, own);
}

static void
collective_done(void *self, const mrd_gathered *c)
{
    mrd_report *r = self;
    const mrd_gather_part *last = &c->parts[c->n - 1];
    uint64_t waits = 0, spread = (uint64_t) last->begin.ns - (uint64_t) c->parts[0].begin.ns;
    uint64_t shortest = UINT64_MAX;
    mrd_report_collective *row;
    mrd_doubts why;
    claim *held;

    if (c->is_left && mrd_absence_note(r->absence, c, usual_ns(r, c),
                                       c->n > 1 && mrd_proof_of(r->proof, c, &why)) != MRD_OK)
        r->err = MRD_NOMEM;
    if (c->n < 2 || c->n_open > 0) {
        r->totals.alone += c->n_open == 0;
        return;
    }
    if ((row = collective_row(r, c)) == NULL ||
        (held = claim_of(r, c, (uint32_t) (row - r->collectives))) == NULL) {
        r->err = MRD_NOMEM;
        return;
    }
    for (size_t i = 0; i < c->n; i++) {
        const mrd_gather_part *p = &c->parts[i];
        uint64_t wait = (uint64_t) last->begin.ns - (uint64_t) p->begin.ns,
                 dur = (uint64_t) p->end.ns - (uint64_t) p->begin.ns;

        r->all[p->core].pub.took_part++;
        r->totals.any_mapped = r->totals.any_mapped || (r->all[p->core].mapped && !p->device_bound);
        r->all[p->core].pub.wait_ns += wait;
        mrd_proof_span(r->proof, p->core, r->all[p->core].time.span_ns);
        waits += wait;
        shortest = dur < shortest ? dur : shortest;
    }
    add_bytes(row, c, shortest);
    if (c->absent > 0 && shortest > r->totals.longest_ns) {
        r->totals.longest_ns = shortest;
        r->totals.longest_name = c->name;
        r->longest = (size_t) (row - r->collectives);
    }
    held->matched++;
    if (c->is_tie) {
        r->totals.ties++;
        mrd_steady_add(r->steady, last->begin, last->core, 0);
    } else {
        add_late(r, c, held, waits);
    }
    row->count++;
    row->parts += c->n;
    row->wait_ns += waits;
    row->spread_max_ns = spread > row->spread_max_ns ? spread : row->spread_max_ns;
    if (mrd_hist_add(&row->latency, shortest) != MRD_OK ||
        mrd_hist_add(&row->spread, spread) != MRD_OK)
        r->err = MRD_NOMEM;
    r->totals.matched++;
    r->totals.wait_ns += waits;
}

/* ---- Steps ---- */

static __attribute__((noinline)) void
steps_over(mrd_report *r)
{
    mrd_step_path_over(r->path);
    r->step_end = mrd_step_path_end(r->path);
}

static mrd_err
add_step(mrd_report *r, const mrd_event *ev)
{
    mrd_proc_id process = mrd_catalog_borrow_track(r->cat, ev->track)->process;
    mrd_report_pace *pace = &r->paces[process];
    mrd_report_step *slow;

    mrd_step_path_begin(r->path, process, ev->name, ev->ts, mrd_event_end(ev));
    r->step_end = mrd_step_path_end(r->path);
    if (pace->count == 0)
        *pace = (mrd_report_pace){ .process = process, .min_ns = INT64_MAX, .end = { INT64_MIN } };
    /* Two sources may show the same steps: the program's own ranges, and those of its profiler. */
    if (ev->dur_ns <= 0 || mrd_ev_before(ev->ts, pace->end))
        return MRD_OK;
    pace->end = mrd_event_end(ev);
    pace->count++;
    pace->total_ns += (uint64_t) ev->dur_ns;
    pace->min_ns = ev->dur_ns < pace->min_ns ? ev->dur_ns : pace->min_ns;
    pace->max_ns = ev->dur_ns > pace->max_ns ? ev->dur_ns : pace->max_ns;
    if ((slow = MRD_LONGEST(r->steps, r->n_steps, MRD_REPORT_STEPS, ev->dur_ns)) != NULL)
        *slow = (mrd_report_step){
            .process = process, .name = ev->name, .start = ev->ts, .dur_ns = ev->dur_ns
        };
    return mrd_hist_add(&pace->hist, (uint64_t) ev->dur_ns);
}

/* ---- Adding ---- */

static mrd_err
add_to_worker(mrd_report *r, const mrd_work *work, const mrd_event *ev, const uint64_t *number)
{
    add_span(r, work, ev, number);
    if (work->device)
        mrd_kernels_add(r->kernels, work, ev->name, (uint64_t) ev->dur_ns);
    if (work->on == MRD_ON_COMPUTE && mrd_workers_are_phases(r->who))
        r->err = mrd_balance_add(r->balance, work->worker, ev) != MRD_OK ? MRD_NOMEM : r->err;
    r->totals.loose += work->kind == MRD_CC_LOOSE || (work->kind == MRD_CC_SENDRECV && r->messages);
    if (work->kind != MRD_CC_NO)
        mrd_lateness_begin(r->lateness, work->worker, &r->all[work->worker].time,
                           mrd_event_end(ev));
    return work->kind == MRD_CC_NO
               ? MRD_OK
               : mrd_gather_add(r->gather, work->kind, &work->what, ev, work->worker,
                                mrd_worker_time_mark(&r->all[work->worker].time));
}

static void
add_gap(mrd_report *r, const mrd_event *ev)
{
    mrd_work_on on;

    for (uint32_t i = 0; i < r->n_all; i++) {
        if (!mrd_workers_lost(r->who, ev, i, &on))
            continue;
        r->all[i].pub.lost += ev->ivalue > 0 ? (uint64_t) ev->ivalue : 0;
        mrd_worker_time_lose(time_before(r, i, ev->ts), on, ev);
        mrd_standstill_lost(r->standstill, ev);
        mrd_host_work_lose(r->host, i, ev);
        mrd_absence_lost(r->absence, i, ev);
    }
}

/* Adds a span without an end. Its collective may be stuck because a member is absent. */
static mrd_err
add_open(mrd_report *r, const mrd_event *ev)
{
    mrd_event until_end = *ev;
    mrd_work work;
    uint64_t id;

    r->totals.open++;
    until_end.dur_ns = mrd_ev_after(r->end, ev->ts) ? mrd_ev_diff(r->end, ev->ts) : 0;
    if (mrd_workers_see(r->who, &until_end, &work) != MRD_WORK_WORKER)
        work = (mrd_work){ .kind = MRD_CC_NO };
    mrd_standstill_open(r->standstill, ev, work.kind != MRD_CC_NO);
    if (work.device)
        mrd_absence_device(r->absence, work.worker, ev,
                           mrd_credible_number(r->cat, r->number_key, ev, &id) ? &id : NULL);
    if (work.kind == MRD_CC_NO)
        return MRD_OK;
    return mrd_gather_add(r->gather, work.kind, &work.what, &until_end, work.worker,
                          MRD_GATHER_OPEN);
}

/* Adds an event that is not a finished span. */
static __attribute__((noinline)) mrd_err
add_other(mrd_report *r, const mrd_event *ev)
{
    if (!mrd_workers_knows(r->who, ev->track))
        return MRD_STATE;
    if (ev->kind == MRD_LOSS)
        add_gap(r, ev);
    else if (mrd_absence_event(r->absence, ev, NULL) != MRD_OK)
        r->err = MRD_NOMEM;
    return ev->kind == MRD_SPAN && ev->dur_ns < 0 && (ev->flags & MRD_EV_MISTIMED) == 0
               ? add_open(r, ev)
               : MRD_OK;
}

mrd_err
mrd_report_add(mrd_report *r, const mrd_event *ev)
{
    mrd_work_kind kind;
    mrd_work work;
    mrd_ev_ns end;
    uint64_t id;
    const uint64_t *number;

    if (mrd_stuck_add(r->stuck, ev) != MRD_OK)
        r->err = MRD_NOMEM;
    /* this must precede the adding of a loss, because a loss advances the accounts of time */
    if (!mrd_ev_before(ev->ts, r->step_end))
        steps_over(r);
    if ((kind = mrd_workers_see(r->who, ev, &work)) == MRD_WORK_NONE)
        return add_other(r, ev);
    if (!r->any || mrd_ev_before(ev->ts, r->totals.first))
        r->totals.first = ev->ts;
    if (mrd_ev_after((end = mrd_event_end(ev)), r->totals.last) || !r->any)
        r->totals.last = end;
    r->any = true;
    number = mrd_credible_number(r->cat, r->number_key, ev, &id) ? &id : NULL;
    note_launches(r, ev, number);
    if ((kind != MRD_WORK_WORKER && mrd_credible_other(r->credible, ev, number) != MRD_OK) ||
        mrd_absence_event(r->absence, ev, kind == MRD_WORK_WORKER ? NULL : number) != MRD_OK ||
        mrd_host_work_add(r->host, kind, &work, ev) != MRD_OK)
        r->err = MRD_NOMEM;
    if (kind != MRD_WORK_BESIDE)
        mrd_standstill_ended(r->standstill, work.process,
                             work.kind != MRD_CC_NO                   ? MRD_ENDED_COLLECTIVE
                             : kind == MRD_WORK_WORKER && work.device ? MRD_ENDED_DEVICE
                                                                      : MRD_ENDED_ANY,
                             ev);
    if (mrd_workers_are_phases(r->who) && mrd_what_if_add(r->what_if, r->balance, ev) != MRD_OK)
        r->err = MRD_NOMEM;
    if (kind == MRD_WORK_WORKER)
        return add_to_worker(r, &work, ev, number);
    if (mrd_workers_are_phases(r->who))
        mrd_balance_around(r->balance, r->who, ev, kind == MRD_WORK_STEP);
    if (kind == MRD_WORK_LOADING)
        add_loading(r, work.process, ev);
    return kind == MRD_WORK_STEP ? add_step(r, ev) : MRD_OK;
}

/* ---- Lifecycle ---- */

/* Returns the time of the last event of the recording; INT64_MIN if it is unknown. */
static mrd_ev_ns
end_of(const mrd_sink_env *env)
{
    if (mrd_ev_after(env->first, env->last) || env->last.ns == INT64_MAX)
        return (mrd_ev_ns){ INT64_MIN };
    return env->last;
}

mrd_report *
mrd_report_new(const mrd_sink_env *env)
{
    mrd_report *r = calloc(1, sizeof(*r));

    if (r == NULL)
        return NULL;
    r->cat = env->catalog;
    r->who = mrd_workers_new(env);
    r->n_paces = mrd_catalog_processes(r->cat);
    r->paces = calloc(r->n_paces + 1, sizeof(*r->paces));
    r->gather = mrd_gather_new(r->cat, collective_done, r);
    r->standstill = mrd_standstill_new(r->cat);
    r->stuck = mrd_stuck_new(r->cat);
    r->credible = mrd_credible_new(r->cat);
    r->end = end_of(env);
    r->launches = mrd_launches_new();
    r->numbered = mrd_launches_new();
    r->messages = !mrd_collectives_all_to_all(r->cat);
    r->totals.on_host = r->who != NULL && mrd_workers_are_hosts(r->who);
    r->number_key = mrd_arg_key_find(mrd_catalog_strings(r->cat), MRD_KEY_CORRELATION);
    if (r->who == NULL || r->standstill == NULL || r->stuck == NULL || r->credible == NULL ||
        r->launches == NULL || r->numbered == NULL || r->paces == NULL || r->gather == NULL ||
        !workers_make(r, env)) {
        mrd_report_free(r);
        return NULL;
    }
    mrd_gather_on_met(r->gather, collective_met);
    return r;
}

void
mrd_report_free(mrd_report *r)
{
    if (r == NULL)
        return;
    for (size_t i = 0; i < r->n_collectives; i++) {
        mrd_hist_fini(&r->collectives[i].latency);
        mrd_hist_fini(&r->collectives[i].spread);
    }
    for (size_t i = 0; i < r->n_paces && r->paces != NULL; i++)
        mrd_hist_fini(&r->paces[i].hist);
    for (size_t i = 0; i < r->n_all && r->all != NULL; i++)
        mrd_queue_fini(&r->all[i].queue);
    free(r->collectives);
    free(r->paces);
    free(r->all);
    free(r->workers);
    mrd_map_fini(&r->by_name);
    mrd_map_fini(&r->by_claim);
    free(r->claims);
    mrd_proof_free(r->proof);
    mrd_lateness_free(r->lateness);
    mrd_host_work_free(r->host);
    mrd_steady_free(r->steady);
    mrd_absence_free(r->absence);
    mrd_balance_free(r->balance);
    mrd_what_if_free(r->what_if);
    mrd_standstill_free(r->standstill);
    mrd_stuck_free(r->stuck);
    mrd_credible_free(r->credible);
    mrd_kernels_free(r->kernels);
    mrd_step_path_free(r->path);
    mrd_launches_free(r->launches);
    mrd_launches_free(r->numbered);
    mrd_workers_free(r->who);
    mrd_gather_free(r->gather);
    free(r);
}

static int
collective_order(const void *a, const void *b, void *self)
{
    const mrd_report_collective *x = a, *y = b;
    const mrd_catalog *cat = self;
    int order = x->wait_ns > y->wait_ns ? -1 : x->wait_ns < y->wait_ns;

    if (order == 0)
        order = strcmp(mrd_catalog_text(cat, x->name).p, mrd_catalog_text(cat, y->name).p);
    return order != 0 ? order : x->size < y->size ? -1 : x->size > y->size;
}

static int
pace_order(const void *a, const void *b, void *self)
{
    const mrd_report_pace *x = a, *y = b;

    return mrd_workers_process_order(self, x->process, y->process);
}

/* Drops workers without a device span and processes without a step. Renumbers the workers. */
static mrd_err
drop_empty(mrd_report *r)
{
    uint32_t *place = calloc(r->n_all + 1, sizeof(*place));
    size_t kept = 0;
    mrd_err err;

    r->workers = calloc(r->n_all + 1, sizeof(*r->workers));
    if (place == NULL || r->workers == NULL) {
        free(place);
        return MRD_NOMEM;
    }
    for (size_t i = 0; i < r->n_all; i++) {
        place[i] = (uint32_t) r->n_workers;
        r->all[i].pub.more_work = mrd_balance_is_over(r->balance, (uint32_t) i);
        if (r->all[i].time.any)
            r->workers[r->n_workers++] = r->all[i].pub;
    }
    for (size_t i = 0; i < r->n_pauses; i++)
        r->pauses[i].worker = place[r->pauses[i].worker];
    for (size_t i = 0; i < MRD_REPORT_ABSENTS; i++)
        r->totals.absence.absents[i].worker = place[r->totals.absence.absents[i].worker];
    r->totals.imbalance.worker = place[r->totals.imbalance.worker];
    r->totals.slowdown.worker = place[r->totals.slowdown.worker];
    mrd_step_path_renumber(r->path, place);
    err = mrd_kernels_finish(r->kernels, place);
    free(place);
    for (size_t i = 0; i < r->n_paces; i++) {
        if (r->paces[i].count > 0)
            r->paces[kept++] = r->paces[i];
    }
    r->n_paces = kept;
    return err;
}

/* Counts the different ranks that have workers (or spans, in a profile without workers). Leaves the
 * total at 0 if a rank is unknown, or if there are several jobs. */
static void
count_ranks(mrd_report *r)
{
    const mrd_process *last = NULL;
    size_t processes;
    const mrd_at_end *of = mrd_standstill_processes(r->standstill, &processes);
    uint64_t n = 0;

    for (size_t i = 0; i < (r->n_workers > 0 ? r->n_workers : processes); i++) {
        const mrd_process *p = mrd_catalog_borrow_process(
            r->cat, r->n_workers > 0 ? r->workers[i].process : of[i].process);

        if (p->rank == MRD_NONE || p->world_size <= 0 ||
            (last != NULL && (p->world_size != last->world_size || p->job != last->job)))
            return;
        n += last == NULL || p->rank != last->rank;
        last = p;
    }
    r->totals.ranks = n;
    r->totals.world_size = last == NULL ? 0 : (uint64_t) last->world_size;
}

/* Finds the worker that made the others wait longest by its own work, and tests whether it is late
 * throughout the recording. */
static mrd_err
judge_steady(mrd_report *r)
{
    size_t took_part = 0, most = 0;

    for (size_t i = 0; i < r->n_all; i++) {
        took_part += r->all[i].pub.took_part > 0;
        r->all[i].pub.steady.p = 1;
        if (r->all[i].pub.own_wait_ns > r->all[most].pub.own_wait_ns)
            most = i;
    }
    if (took_part == 0)
        return MRD_OK;
    r->all[most].pub.steady = mrd_steady_of(r->steady, (uint32_t) most, took_part);
    return mrd_steady_since(r->steady, (uint32_t) most, &r->totals.late_since);
}

mrd_err
mrd_report_finish(mrd_report *r)
{
    mrd_err err;

    mrd_gather_finish(r->gather);
    r->totals.absence = mrd_absence_worst(r->absence, r->totals.first);
    judge_claims(r);
    mrd_step_path_finish(r->path);
    if ((err = judge_steady(r)) != MRD_OK ||
        (err = mrd_step_path_changes(r->path, &r->totals.step_changes)) != MRD_OK ||
        (err = mrd_balance_judge(r->balance, &r->totals.imbalance)) != MRD_OK ||
        (err = mrd_what_if_judge(r->what_if, &r->totals.slowdown)) != MRD_OK ||
        (err = mrd_host_work_finish(r->host)) != MRD_OK ||
        (err = mrd_stuck_finish(r->stuck)) != MRD_OK)
        return err;
    mrd_standstill_finish(r->standstill, r->totals.first, r->end);
    mrd_credible_finish(r->credible);
    r->totals.left_out = mrd_gather_left_out(r->gather);
    for (size_t i = 0; i < r->n_all; i++) {
        worker_state *w = &r->all[i];
        const mrd_credible_row *row = mrd_credible_of(r->credible, w->pub.process);

        if (!w->time.any)
            continue;
        mrd_worker_time_advance(&w->time, w->time.device_end);
        w->pub.first = w->time.first;
        w->pub.last = w->time.device_end;
        memcpy(w->pub.part_ns, w->time.part_ns, sizeof(w->pub.part_ns));
        w->pub.paused_ns = w->time.paused_ns;
        w->pub.exposed_wait_ns = w->time.wait_ns;
        w->pub.exposed_transfer_ns = w->time.transfer_ns;
        mrd_queue_finish(&w->queue, w->time.device_end);
        w->pub.queue = w->queue.sum;
        if (mrd_credible_hides(row))
            w->pub.unmeasured |= (1u << MRD_REPORT_PARTS) - 1;
        if (row->early > 0)
            w->pub.queue = (mrd_queue_sum){ 0 };
        w->pub.late = *mrd_lateness_of(r->lateness, (uint32_t) i);
        w->pub.host_work = mrd_host_work_of(r->host, (uint32_t) i, &w->pub.late);
        r->totals.window_ns += mrd_report_window(&w->pub);
    }
    if ((err = drop_empty(r)) != MRD_OK)
        return err;
    count_ranks(r);
    if (r->totals.longest_ns > 0)
        r->totals.usual_ns = mrd_hist_quantile(&r->collectives[r->longest].latency, 0.5);
    if (r->n_collectives > 0)
        qsort_r(r->collectives, r->n_collectives, sizeof(*r->collectives), collective_order,
                (void *) (uintptr_t) r->cat);
    if (r->n_paces > 0)
        qsort_r(r->paces, r->n_paces, sizeof(*r->paces), pace_order, (void *) (uintptr_t) r->cat);
    return r->err;
}

/* ---- Results ---- */

const mrd_stuck_verdict *
mrd_report_stuck(const mrd_report *r)
{
    return mrd_stuck_verdict_of(r->stuck);
}

size_t
mrd_report_labels(const mrd_report *r, mrd_sid *ret_labels, size_t most)
{
    return mrd_workers_labels(r->who, ret_labels, most);
}

uint64_t
mrd_report_steps_of(const mrd_report *r, mrd_proc_id process)
{
    for (size_t i = 0; i < r->n_paces; i++) {
        if (r->paces[i].process == process)
            return r->paces[i].count;
    }
    return 0;
}

const mrd_step_path *
mrd_report_path(const mrd_report *r)
{
    return r->path;
}

const mrd_kernels *
mrd_report_kernels(const mrd_report *r)
{
    return r->kernels;
}

const mrd_report_totals *
mrd_report_totals_of(const mrd_report *r)
{
    return &r->totals;
}

const mrd_report_worker *
mrd_report_workers(const mrd_report *r, size_t *ret_n)
{
    *ret_n = r->n_workers;
    return r->workers;
}

const mrd_report_collective *
mrd_report_collectives(const mrd_report *r, size_t *ret_n)
{
    *ret_n = r->n_collectives;
    return r->collectives;
}

const mrd_report_pace *
mrd_report_paces(const mrd_report *r, size_t *ret_n)
{
    *ret_n = r->n_paces;
    return r->paces;
}

const mrd_report_pause *
mrd_report_pauses(const mrd_report *r, size_t *ret_n)
{
    *ret_n = r->n_pauses;
    return r->pauses;
}

const mrd_standstill *
mrd_report_standstill(const mrd_report *r)
{
    return r->standstill;
}

const mrd_report_step *
mrd_report_slow_steps(const mrd_report *r, size_t *ret_n)
{
    *ret_n = r->n_steps;
    return r->steps;
}

const mrd_credible_row *
mrd_report_credible(const mrd_report *r, mrd_proc_id process)
{
    return mrd_credible_of(r->credible, process);
}
