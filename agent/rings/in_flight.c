/*
 * agent/rings/in_flight.c - calls back for each open span of a running process: open scopes in the
 * headers of its rings, spans whose end is another record, and starts in the runtime's trace. Also
 * gets the operations that the process enters together with other ranks.
 */
#include <stdlib.h>
#include <string.h>

#include "agent/rings/drain_int.h"
#include "base/vec.h"

typedef struct {
    mrd_drain *p;
    proc *pr;
    mrd_arg at; /* the argument "in_flight" that each span gets */
    mrd_arg *args;
    size_t cap;
    void (*call)(void *self, mrd_drain_process *process, unsigned clock, const mrd_event *ev);
    void *self;
} look;

static mrd_err
tell(look *l, unsigned clock, const mrd_event *ev)
{
    size_t n = ev->arg_count;
    mrd_event open = *ev;

    if (!MRD_VEC_ROOM(l->args, n, l->cap, 1))
        return MRD_NOMEM;
    if (n > 0)
        memcpy(l->args, ev->args, n * sizeof(*l->args));
    l->args[n] = l->at;
    open.dur_ns = MRD_DUR_UNFINISHED;
    open.args = l->args;
    open.arg_count = (uint32_t) n + 1;
    open.flows = NULL;
    open.flow_count = 0;
    l->call(l->self, &l->pr->pub, clock, &open);
    return MRD_OK;
}

static void
look_at_scopes(look *l, ring *r)
{
    mrd_ring_event scopes[MRD_RING_OPEN_MAX];
    size_t n = mrd_ring_open_scopes(r->reader, scopes);

    for (size_t i = 0; i < n; i++) {
        mrd_event ev;

        mrd_drain_scope(l->p, r, &scopes[i], &ev);
        (void) tell(l, MRD_DRAIN_RAW, &ev);
    }
}

/* Returns true if a ring of the process has counted losses that no record reports yet. A thread
 * reports losses together with its next event. Until then, the ends of open spans may be among the
 * lost events. */
static bool
loses_unreported(const proc *pr)
{
    for (const ring *r = pr->rings; r != NULL; r = r->next_of_proc) {
        mrd_ring_stats st;

        mrd_ring_get_stats(r->reader, &st);
        if (st.lost_total > st.reported)
            return true;
    }
    return false;
}

static void
look_at_begun(look *l, const proc *pr)
{
    for (size_t i = 0; i < pr->open.n_slots && !loses_unreported(pr); i++)
        for (const mrd_open_span *span = pr->open.slots[i]; span != NULL; span = span->next)
            if (!span->early && !span->left && !span->model && span->lost == pr->lost)
                (void) tell(l, MRD_DRAIN_RAW, &span->ev);
}

static mrd_err
look_at_start(void *self, const mrd_event *ev)
{
    return tell(self, MRD_DRAIN_REALTIME, ev);
}

static look
look_of(mrd_drain *drain, proc *pr, const char *at)
{
    mrd_catalog *cat = pr->pub.catalog;

    return (look){ .p = drain,
                   .pr = pr,
                   .at = { .key = mrd_catalog_intern(cat, "in_flight"),
                           .type = MRD_ARG_STR,
                           .v.sid = mrd_catalog_intern(cat, at) } };
}

void
mrd_drain_long_open(mrd_drain *drain, mrd_drain_process *process,
                    void (*call)(void *self, mrd_drain_process *process, unsigned clock,
                                 const mrd_event *ev),
                    void *self)
{
    proc *pr = (proc *) (void *) process; /* pub is the first member of proc */
    uint64_t first = UINT64_MAX, of_ring;
    bool any = false;
    look l;

    if (!drain->o.hold || pr->nrt == NULL)
        return;
    /* Leave out starts in texts that stay in the rings, because a later agent can read these texts
     * again. */
    for (ring *r = pr->rings; r != NULL; r = r->next_of_proc)
        if (r->texts != NULL && !r->ended && !mrd_ring_borrow_info(r->reader)->rest) {
            of_ring = mrd_drain_text_first(r);
            first = of_ring < first ? of_ring : first;
            any = true;
        }
    if (!any)
        return;
    l = look_of(drain, pr, "long");
    l.call = call;
    l.self = self;
    mrd_drain_runtime_tell(drain, pr, first, look_at_start, &l);
    free(l.args);
}

void
mrd_drain_tell_again(mrd_drain *drain)
{
    for (proc *pr = drain->procs; pr != NULL; pr = pr->next)
        mrd_drain_runtime_tell_again(pr);
}

void
mrd_drain_in_flight(mrd_drain *drain, mrd_drain_process *process, const char *at,
                    void (*call)(void *self, mrd_drain_process *process, unsigned clock,
                                 const mrd_event *ev),
                    void *self)
{
    proc *pr = (proc *) (void *) process; /* pub is the first member of proc */
    look l = look_of(drain, pr, at);

    l.call = call;
    l.self = self;
    for (ring *r = pr->rings; r != NULL; r = r->next_of_proc)
        if (!r->ended)
            look_at_scopes(&l, r);
    look_at_begun(&l, pr);
    mrd_drain_runtime_in_flight(pr, look_at_start, &l);
    free(l.args);
}

/* Returns the reason why the counts of the process's operations may be incomplete, or "" if they
 * are complete. */
static const char *
incomplete(const mrd_drain *drain, const proc *pr, uint32_t flags)
{
    mrd_ring_stats st;

    if ((flags & MRD_RING_OPS_LEFT_OUT) != 0)
        return "it enters more kinds of operations than are counted";
    if ((flags & MRD_RING_OPS_FAILED) != 0)
        return "a call of it failed";
    if (mrd_drain_leaves_out(drain))
        return "the agent does not read all rings of the node";
    for (const ring *r = pr->rings; r != NULL; r = r->next_of_proc) {
        mrd_ring_get_stats(r->reader, &st);
        if (st.lost[MRD_RING_LOST_NORING] > 0)
            return "a thread of it could not get a ring";
        if (st.lost[MRD_RING_LOST_SWITCHED] > 0)
            return "its recording switched itself off";
    }
    return pr->n_notes > 0 ? "it could not make rings for a while" : "";
}

const char *
mrd_drain_ops(const mrd_drain *drain, mrd_drain_process *process, mrd_drain_ops_kept *ret_ops,
              mrd_drain_threads *ret_threads)
{
    proc *pr = (proc *) (void *) process; /* pub is the first member of proc */

    *ret_ops = pr->ops;
    ret_threads->n = 0;
    for (ring *r = pr->rings; r != NULL; r = r->next_of_proc)
        mrd_drain_ops_add(ret_ops, ret_threads, r->reader, pr->shift_ns);
    return incomplete(drain, pr, ret_ops->flags);
}
