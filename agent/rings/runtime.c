/* agent/rings/runtime.c - converts the runtime's JSON to events with wall clock times. The rings
 * contain this JSON in chunks. */
#include <stdlib.h>

#include "agent/rings/drain_int.h"
#include "agent/rings/loss_count.h"
#include "base/conf/agent_waits.h"
#include "base/num.h"
#include "trace/import/nrt/import_nrt.h"

typedef struct {
    mrd_drain *p;
    proc *pr;
    mrd_nrt *nrt;
    mrd_nrt_counts seen; /* counts of the JSON reader that the drain's counts already include */
} runtime;

/* Maximum number of starts without an end per process. The reader of trace files allows more. In a
 * ring, the end of a span normally follows its start within seconds. */
#define OPEN_MAX (1u << 15)

static mrd_err
emit(void *self, const mrd_event *ev)
{
    runtime *rt = self;

    if (rt->p->again) /* not emitted, because a previous agent already did */
        return MRD_OK;
    if (ev->kind == MRD_LOSS) {
        rt->p->counts.begun += (uint64_t) ev->ivalue;
        rt->p->counts.dropped[MRD_DROP_RUNTIME] += (uint64_t) ev->ivalue;
    }
    mrd_drain_give(rt->p, rt->pr, MRD_DRAIN_REALTIME, ev);
    return MRD_OK;
}

/* Returns the reader of the process's runtime JSON, which is created on first use. `whole` means
 * that the next text is the first text of the process, so no earlier events are missing. */
static runtime *
runtime_of(mrd_drain *drain, proc *pr, bool whole, mrd_wall_ns since)
{
    runtime *rt = pr->nrt;
    mrd_nrt_options options = { .catalog = pr->pub.catalog,
                                .process = pr->pub.id,
                                .flow_scope = pr->flow_scope,
                                .max_open = OPEN_MAX,
                                .simulated = drain->o.simulated,
                                .whole = whole,
                                .since = since,
                                .emit = emit };

    if (rt != NULL || (rt = calloc(1, sizeof(*rt))) == NULL)
        return rt;
    rt->p = drain;
    rt->pr = pr;
    options.self = rt;
    if (mrd_nrt_new(&options, &rt->nrt, NULL) != MRD_OK) {
        free(rt);
        return NULL;
    }
    pr->nrt = rt;
    return rt;
}

/* Adds the reader's new counts to the drain's counts. Does not add emitted events, which were
 * counted when they were emitted. */
static void
count(mrd_drain *drain, runtime *rt)
{
    const mrd_nrt_counts *now = mrd_nrt_count(rt->nrt);

    drain->counts.begun += now->records - rt->seen.records;
    /* The previous agent has counted the events that it emitted or dropped. Only pending events
     * count as begun in this agent. */
    if (drain->again)
        drain->counts.begun -= now->events - rt->seen.events + now->dropped - rt->seen.dropped;
    else
        drain->counts.dropped[MRD_DROP_JSON] += now->dropped - rt->seen.dropped;
    rt->seen = *now;
}

size_t
mrd_drain_runtime_memory(const proc *pr)
{
    const runtime *rt = pr->nrt;

    return rt == NULL ? 0 : sizeof(*rt) + mrd_nrt_memory_used(rt->nrt);
}

void
mrd_drain_runtime(mrd_drain *drain, ring *r, mrd_str text, bool cut)
{
    proc *pr = r->proc;
    const mrd_ring_info *info = mrd_ring_borrow_info(r->reader);
    mrd_local_ns since = { mrd_sat_add(info->created.ns, pr->shift_ns) };
    runtime *rt = runtime_of(drain, pr, r->blob.number == 1 && !info->rest,
                             mrd_drain_raw_to_wall(drain, since));
    mrd_bytes bytes = { (const uint8_t *) text.p, text.len };
    mrd_local_ns now = mrd_local_now();
    mrd_in *in = NULL;
    mrd_err err = MRD_NOMEM;

    if (rt != NULL) {
        mrd_nrt_now(rt->nrt, now);
        mrd_nrt_mark(rt->nrt, drain->text_mark, drain->again, r->blob.pos < r->gaps_safe);
    }
    if (rt != NULL && r->blob.apart)
        mrd_nrt_apart(rt->nrt);
    if (rt != NULL && cut)
        mrd_nrt_doubt(rt->nrt);
    if (rt != NULL && (err = mrd_in_borrow(bytes, "runtime trace", &in, NULL)) == MRD_OK)
        err = mrd_nrt_parse(rt->nrt, in, NULL);
    mrd_in_close(in);
    if (rt != NULL)
        count(drain, rt);
    /* libmeridian has already counted a truncated text as lost. A complete text that cannot be
     * parsed as a trace is counted here. */
    if (err != MRD_OK && !cut && !drain->again)
        mrd_drain_lost(drain, pr, MRD_DROP_JSON, 1, now, now);
}

bool
mrd_drain_has_runtime(const mrd_drain_process *process)
{
    return ((const proc *) process)->nrt != NULL;
}

void
mrd_drain_runtime_report_gaps(proc *pr, mrd_local_ns now)
{
    runtime *rt = pr->nrt;

    if (rt == NULL || !mrd_nrt_has_gaps(rt->nrt))
        return;
    for (const ring *r = pr->rings; r != NULL; r = r->next_of_proc)
        if (!r->caught_up)
            return; /* the missing sequence numbers may be in the incomplete text */
    (void) mrd_nrt_report_gaps(rt->nrt, mrd_local_sub(now, MRD_WAIT_RUNTIME_GAP));
}

uint64_t
mrd_drain_runtime_held(const proc *pr)
{
    const runtime *rt = pr->nrt;

    return rt == NULL ? 0 : rt->seen.records - rt->seen.events - rt->seen.dropped;
}

void
mrd_drain_runtime_flush(mrd_drain *drain, proc *pr)
{
    runtime *rt = pr->nrt;

    if (rt == NULL)
        return;
    (void) mrd_nrt_flush(rt->nrt);
    count(drain, rt);
}

void
mrd_drain_runtime_in_flight(const proc *pr, mrd_err (*call)(void *self, const mrd_event *ev),
                            void *self)
{
    const runtime *rt = pr->nrt;

    if (rt != NULL)
        mrd_nrt_in_flight(rt->nrt, call, self);
}

void
mrd_drain_runtime_tell(mrd_drain *drain, proc *pr, uint64_t before,
                       mrd_err (*call)(void *self, const mrd_event *ev), void *self)
{
    runtime *rt = pr->nrt;

    if (rt == NULL)
        return;
    (void) mrd_nrt_tell_before(rt->nrt, before, call, self);
    count(drain, rt);
}

void
mrd_drain_runtime_tell_again(proc *pr)
{
    runtime *rt = pr->nrt;

    if (rt != NULL)
        mrd_nrt_tell_again(rt->nrt);
}

void
mrd_drain_runtime_free(proc *pr)
{
    runtime *rt = pr->nrt;

    if (rt != NULL)
        mrd_nrt_free(rt->nrt);
    free(rt);
    pr->nrt = NULL;
}

uint64_t
mrd_drain_runtime_gaps(const proc *pr, uint64_t *ret_before)
{
    const runtime *rt = pr->nrt;

    *ret_before = UINT64_MAX;
    return rt == NULL ? UINT64_MAX : mrd_nrt_oldest_gap(rt->nrt, ret_before);
}

uint64_t
mrd_drain_runtime_needs(const proc *pr, uint64_t *ret_before)
{
    const runtime *rt = pr->nrt;

    (void) mrd_drain_runtime_gaps(pr, ret_before);
    return rt == NULL ? UINT64_MAX : mrd_nrt_oldest(rt->nrt);
}

uint64_t
mrd_drain_runtime_waiting(const proc *pr, uint64_t before, mrd_wall_ns *ret_oldest)
{
    const runtime *rt = pr->nrt;

    *ret_oldest = (mrd_wall_ns){ 0 };
    return rt == NULL ? 0 : mrd_nrt_waiting_before(rt->nrt, before, ret_oldest);
}

void
mrd_drain_runtime_flush_before(mrd_drain *drain, proc *pr, uint64_t mark)
{
    runtime *rt = pr->nrt;

    if (rt == NULL)
        return;
    (void) mrd_nrt_flush_before(rt->nrt, mark);
    count(drain, rt);
}
