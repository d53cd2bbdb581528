/* agent/record/record_select.c - what a session takes: of which processes, cores, sources and event types, from which
 * step to which, and in which of its pauses nothing. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/record/record_int.h"
#include "base/event_type.h"
#include "base/num.h"
#include "base/vec.h"

/* ---- Processes ---- */

bool
mrd_record_takes(const mrd_select *s, const mrd_ident *id)
{
    return mrd_select_has_number(&s->ranks, id->rank) &&
           mrd_select_has_number(&s->processes, id->pid) &&
           mrd_select_takes_job(s, &id->jobid, id->job);
}

bool
mrd_record_wants_ident(const session *s, const mrd_ident *id)
{
    return mrd_record_takes(&s->select, id);
}

/* Every session in which the node takes part gets the process that represents the node. Counters of
 * a host or device belong to no job, rank or process. */
bool
mrd_record_wants_process(const session *s, const mrd_drain_process *p)
{
    return (mrd_catalog_borrow_process(p->catalog, p->id)->flags & MRD_PROC_NODE) != 0 ||
           mrd_record_wants_ident(s, &p->ident);
}

static void
note_identity(session *s, const mrd_jobid *id)
{
    mrd_str text = mrd_str_of(id->text);

    if (text.len == 0 || mrd_strlist_has(&s->identities, text))
        return;
    if (s->identities.n == MRD_RECORD_JOBS || mrd_strlist_add(&s->identities, text) != MRD_OK)
        s->st.jobs_left_out++;
}

static bool
is_over(const session *s)
{
    return s->st.phase == MRD__NODE_PHASE__NODE_FLUSHED ||
           (s->st.phase == MRD__NODE_PHASE__NODE_STOPPING &&
            mrd_local_after(mrd_local_now(), s->st.stop));
}

/* Returns true if the session counts the process and selects it. */
static bool
tally_selected(session *s, const rec_process *o)
{
    if (!o->is_ring || is_over(s))
        return false;
    s->st.processes++;
    if (!mrd_record_wants_process(s, o->process))
        return false;
    s->st.selected++;
    note_identity(s, &o->process->ident.jobid);
    return true;
}

/*
 * Returns true if the session must name the process in case no session selects it. This holds if
 * the session records jobs, and the process has the user and the namespace of those jobs. The owner
 * of a session thus learns nothing of other tenants.
 */
static bool
would_name(const session *s, const rec_process *o)
{
    mrd_select who = { .uids = s->select.uids, .namespaces = s->select.namespaces };

    return o->is_ring && s->select.jobs.n > 0 && !is_over(s) &&
           mrd_select_takes_job(&who, &o->process->ident.jobid, NULL);
}

static void
print_process(const mrd_ident *id, char *to, size_t size)
{
    mrd_str job = mrd_jobid_get(&id->jobid, "job");

    if (job.len == 0)
        snprintf(to, size, "%s, pid %" PRId64 ", no job", id->comm, id->pid);
    else
        snprintf(to, size, "%s, pid %" PRId64 ", job %.*s", id->comm, id->pid,
                 (int) (job.len < 60 ? job.len : 60), job.p);
}

static void
add_unselected(session *s, const rec_process *o)
{
    if (!would_name(s, o))
        return;
    if (s->st.unselected++ == 0)
        print_process(&o->process->ident, s->st.unselected_one, sizeof(s->st.unselected_one));
}

/* A later session selects a process that this session counted. */
static void
remove_unselected(session *s, const rec_process *o)
{
    char text[sizeof(s->st.unselected_one)];

    if (!would_name(s, o) || s->st.unselected == 0)
        return;
    s->st.unselected--;
    print_process(&o->process->ident, text, sizeof(text));
    if (strcmp(text, s->st.unselected_one) == 0)
        s->st.unselected_one[0] = '\0';
}

void
mrd_record_tally_process(mrd_record *r, rec_process *o)
{
    for (size_t i = 0; i < r->n_sessions; i++)
        o->selected = tally_selected(&r->sessions[i], o) || o->selected;
    for (size_t i = 0; i < r->n_sessions && !o->selected; i++)
        add_unselected(&r->sessions[i], o);
}

void
mrd_record_tally_session(mrd_record *r, session *s)
{
    for (rec_process *o = r->processes; o != NULL; o = o->next) {
        bool selected = tally_selected(s, o);

        if (!selected && !o->selected)
            add_unselected(s, o);
        for (size_t i = 0; i < r->n_sessions && selected && !o->selected; i++)
            remove_unselected(&r->sessions[i], o);
        o->selected = o->selected || selected;
    }
}

/* ---- Events ---- */

/* "3" or "0-7" */
static bool
core_in(const mrd_strlist *list, int64_t core)
{
    for (size_t i = 0; i < list->n; i++) {
        mrd_str text = mrd_str_of(list->v[i]);
        const char *dash = memchr(text.p, '-', text.len);
        int64_t lo, hi;

        if (mrd_num_i64((mrd_str){ text.p, dash == NULL ? text.len : (size_t) (dash - text.p) },
                        &lo) != MRD_OK)
            continue;
        hi = lo;
        if (dash != NULL &&
            mrd_num_i64((mrd_str){ dash + 1, text.len - (size_t) (dash + 1 - text.p) }, &hi) !=
                MRD_OK)
            continue;
        if (core >= lo && core <= hi)
            return true;
    }
    return list->n == 0;
}

/* "^x" excludes. Without a positive value all others are included. */
static bool
source_in(const mrd_strlist *list, const char *name)
{
    bool positive = false, in = false;

    for (size_t i = 0; i < list->n; i++) {
        const char *w = list->v[i];

        if (*w == '^' && strcmp(name, w + 1) == 0)
            return false;
        positive = positive || *w != '^';
        in = in || (*w != '^' && strcmp(name, w) == 0);
    }
    return in || !positive;
}

/* A cached answer: unknown, wanted, unwanted, or only calls that name a selected core. */
enum { UNKNOWN, WANTED, UNWANTED, WANTED_BY_CORE };

/* A selection of cores applies to events of cores. Counters and events of the program (steps) have
 * no core and stay. Events of the runtime, its calls and the device without a core are excluded. A
 * call names its core in an argument. */
static uint8_t
wants_track(const session *s, const mrd_track *t)
{
    bool of_cores =
        t->source == MRD_SRC_RUNTIME || t->source == MRD_SRC_DEVICE || t->source == MRD_SRC_DEVPROF;

    if (s->select.sources.n > 0 && !source_in(&s->select.sources, mrd_source_text(t->source)))
        return UNWANTED;
    if (s->select.cores.n == 0)
        return WANTED;
    if (t->lnc_idx != MRD_NONE)
        return core_in(&s->select.cores, t->lnc_idx) ? WANTED : UNWANTED;
    if (t->source == MRD_SRC_API)
        return WANTED_BY_CORE;
    return of_cores && t->kind != MRD_TRACK_COUNTER ? UNWANTED : WANTED;
}

/* Returns the cached answer of an index; 0 means unknown. NULL if out of memory. */
static uint8_t *
memo_at(memo *m, size_t at)
{
    return MRD_VEC_REACH(m->v, m->n, at) ? m->v + at : NULL;
}

bool
mrd_record_chooses(const session *s)
{
    return s->select.cores.n + s->select.types.n + s->select.sources.n > 0 ||
           s->params.from_step > 0 || s->params.to_step > 0;
}

mrd_step_gate *
mrd_record_gate(const mrd_record *r, rec_process *o, const session *s)
{
    mrd_step_gate *free_one = NULL;

    if (!o->is_ring || (s->params.from_step == 0 && s->params.to_step == 0))
        return NULL;
    for (size_t i = 0; i < MRD_RECORD_SESSIONS; i++) {
        mrd_step_gate *g = &o->gates[i];

        if (g->session == s->st.id)
            return g;
        if (g->session == 0 || mrd_record_session_of(r, g->session) == NULL)
            free_one = g;
    }
    if (free_one != NULL) /* there is one per session */
        mrd_step_gate_init(free_one, s->st.id, s->params.from_step);
    return free_one;
}

bool
mrd_record_wants_event(open_batch *l, const mrd_drain_process *p, const mrd_event *ev)
{
    const session *s = l->of;
    uint8_t *track, *name;

    if (ev->kind == MRD_LOSS)
        return true;
    if ((track = memo_at(&l->tracks, ev->track)) == NULL)
        return true; /* if out of memory, no events are excluded */
    if (*track == UNKNOWN)
        *track = wants_track(s, mrd_catalog_borrow_track(p->catalog, ev->track));
    if (*track == UNWANTED || (*track == WANTED_BY_CORE &&
                               !core_in(&s->select.cores, mrd_catalog_call_core(p->catalog, ev))))
        return false;
    if (s->select.types.n == 0 || ev->kind == MRD_COUNTER)
        return true; /* a counter has no event type */
    if ((name = memo_at(&l->names, ev->name)) == NULL)
        return true;
    if (*name == UNKNOWN)
        *name = mrd_types_want((const char *const *) s->select.types.v, s->select.types.n,
                               mrd_catalog_text(p->catalog, ev->name))
                    ? WANTED
                    : UNWANTED;
    return *name == WANTED;
}

/* ---- Pauses ---- */

bool
mrd_record_in_pause(const session *s, int64_t first_ns, int64_t last_ns)
{
    for (size_t i = s->n_pauses; i-- > 0;)
        if (first_ns >= s->pauses[i].from.ns && last_ns < s->pauses[i].to.ns)
            return true;
    return false;
}

bool
mrd_record_is_paused(const mrd_record *r, uint64_t id, mrd_local_ns at)
{
    const session *s = mrd_record_session_of(r, id);

    return s != NULL && mrd_record_in_pause(s, at.ns, at.ns);
}

/* ---- For collectors ---- */

bool
mrd_record_selects(const mrd_record *r, uint64_t id, const mrd_drain_process *process)
{
    const session *s = mrd_record_session_of(r, id);

    return s != NULL && mrd_record_wants_process(s, process);
}

bool
mrd_record_selects_ident(const mrd_record *r, uint64_t id, const mrd_ident *ident)
{
    const session *s = mrd_record_session_of(r, id);

    return s != NULL && mrd_record_wants_ident(s, ident);
}
