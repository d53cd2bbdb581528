/* agent/record/record_select.c - decides which events a session takes: by processes, cores,
 * sources, event types and steps, and none during its pauses. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/record/record_int.h"
#include "base/event_type.h"
#include "base/num.h"
#include "base/vec.h"

/* ---- Selection of processes ---- */

bool
mrd_record_takes(const mrd_select *selection, const mrd_ident *id)
{
    return mrd_select_has_number(&selection->ranks, id->rank) &&
           mrd_select_has_number(&selection->processes, id->pid) &&
           mrd_select_takes_job(selection, &id->jobid, id->job);
}

bool
mrd_record_wants_ident(const session *sess, const mrd_ident *id)
{
    return mrd_record_takes(&sess->select, id);
}

/* Returns true if the session selects the process. The process that represents the node is always
 * selected, because counters of a host or device belong to no job, rank or process. */
bool
mrd_record_wants_process(const session *sess, const mrd_drain_process *process)
{
    return (mrd_catalog_borrow_process(process->catalog, process->id)->flags & MRD_PROC_NODE) !=
               0 ||
           mrd_record_wants_ident(sess, &process->ident);
}

static void
note_identity(session *sess, const mrd_jobid *id)
{
    mrd_str text = mrd_str_of(id->text);

    if (text.len == 0 || mrd_strlist_has(&sess->identities, text))
        return;
    if (sess->identities.n == MRD_RECORD_JOBS || mrd_strlist_add(&sess->identities, text) != MRD_OK)
        sess->st.jobs_left_out++;
}

static bool
is_over(const session *sess)
{
    return sess->st.phase == MRD__NODE_PHASE__NODE_FLUSHED ||
           (sess->st.phase == MRD__NODE_PHASE__NODE_STOPPING &&
            mrd_local_after(mrd_local_now(), sess->st.stop));
}

/* Counts the process in the session's number of running processes, and of selected ones if the
 * session selects it. Returns true if the session selects it. */
static bool
tally_selected(session *sess, const rec_process *process)
{
    if (!process->is_ring || is_over(sess))
        return false;
    sess->st.processes++;
    if (!mrd_record_wants_process(sess, process->process))
        return false;
    sess->st.selected++;
    note_identity(sess, &process->process->ident.jobid);
    return true;
}

/* Returns true if the session's status may name this process as unselected. This is allowed if the
 * session records jobs of the same user and namespace, so that the owner of a session learns
 * nothing about other tenants. */
static bool
would_name(const session *sess, const rec_process *process)
{
    mrd_select who = { .uids = sess->select.uids, .namespaces = sess->select.namespaces };

    return process->is_ring && sess->select.jobs.n > 0 && !is_over(sess) &&
           mrd_select_takes_job(&who, &process->process->ident.jobid, NULL);
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
add_unselected(session *sess, const rec_process *process)
{
    if (!would_name(sess, process))
        return;
    if (sess->st.unselected++ == 0)
        print_process(&process->process->ident, sess->st.unselected_one,
                      sizeof(sess->st.unselected_one));
}

/* Removes a process from the session's count of unselected processes, because a later session
 * selects the process. */
static void
remove_unselected(session *sess, const rec_process *process)
{
    char text[sizeof(sess->st.unselected_one)];

    if (!would_name(sess, process) || sess->st.unselected == 0)
        return;
    sess->st.unselected--;
    print_process(&process->process->ident, text, sizeof(text));
    if (strcmp(text, sess->st.unselected_one) == 0)
        sess->st.unselected_one[0] = '\0';
}

void
mrd_record_tally_process(mrd_record *record, rec_process *process)
{
    for (size_t i = 0; i < record->n_sessions; i++)
        process->selected = tally_selected(&record->sessions[i], process) || process->selected;
    for (size_t i = 0; i < record->n_sessions && !process->selected; i++)
        add_unselected(&record->sessions[i], process);
}

void
mrd_record_tally_session(mrd_record *record, session *sess)
{
    for (rec_process *process = record->processes; process != NULL; process = process->next) {
        bool selected = tally_selected(sess, process);

        if (!selected && !process->selected)
            add_unselected(sess, process);
        for (size_t i = 0; i < record->n_sessions && selected && !process->selected; i++)
            remove_unselected(&record->sessions[i], process);
        process->selected = process->selected || selected;
    }
}

/* ---- Selection of events ---- */

/* Returns true if the session's list contains the core. Each entry of the list is like "3" or
 * "0-7". */
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

/* Returns true if the session's list selects the source of an event. An entry "^x" excludes x. If
 * the list has only such entries, all other sources are selected. */
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

/* Cached answer to the question whether a session wants the events of a track or name.
 * WANTED_BY_CORE means that only calls with a selected core in their arguments are wanted. */
enum { UNKNOWN, WANTED, UNWANTED, WANTED_BY_CORE };

/*
 * Returns whether the session wants events of a track (one row of the timeline).
 *
 * A selection of cores applies to tracks of cores. Counters and steps of the program have no core
 * and are wanted. Tracks of the runtime or the device without a core are unwanted. For calls of the
 * runtime the answer is WANTED_BY_CORE, because each call names its core in an argument.
 */
static uint8_t
wants_track(const session *sess, const mrd_track *track)
{
    bool of_cores = track->source == MRD_SRC_RUNTIME || track->source == MRD_SRC_DEVICE ||
                    track->source == MRD_SRC_DEVPROF;

    if (sess->select.sources.n > 0 &&
        !source_in(&sess->select.sources, mrd_source_text(track->source)))
        return UNWANTED;
    if (sess->select.cores.n == 0)
        return WANTED;
    if (track->lnc_idx != MRD_NONE)
        return core_in(&sess->select.cores, track->lnc_idx) ? WANTED : UNWANTED;
    if (track->source == MRD_SRC_API)
        return WANTED_BY_CORE;
    return of_cores && track->kind != MRD_TRACK_COUNTER ? UNWANTED : WANTED;
}

/* Returns the cached answer for this index, which is UNKNOWN at first. NULL if out of memory. */
static uint8_t *
memo_at(memo *m, size_t at)
{
    return MRD_VEC_REACH(m->v, m->n, at) ? m->v + at : NULL;
}

bool
mrd_record_chooses(const session *sess)
{
    return sess->select.cores.n + sess->select.types.n + sess->select.sources.n > 0 ||
           sess->params.from_step > 0 || sess->params.to_step > 0;
}

mrd_step_gate *
mrd_record_gate(const mrd_record *record, rec_process *process, const session *sess)
{
    mrd_step_gate *free_one = NULL;

    if (!process->is_ring || (sess->params.from_step == 0 && sess->params.to_step == 0))
        return NULL;
    for (size_t i = 0; i < MRD_RECORD_SESSIONS; i++) {
        mrd_step_gate *gate = &process->gates[i];

        if (gate->session == sess->st.id)
            return gate;
        if (gate->session == 0 || mrd_record_session_of(record, gate->session) == NULL)
            free_one = gate;
    }
    /* A free slot always exists, because `gates` has a slot for each possible session. */
    if (free_one != NULL)
        mrd_step_gate_init(free_one, sess->st.id, sess->params.from_step);
    return free_one;
}

bool
mrd_record_wants_event(open_batch *batch, const mrd_drain_process *process, const mrd_event *ev)
{
    const session *sess = batch->of;
    uint8_t *track, *name;

    if (ev->kind == MRD_LOSS)
        return true;
    if ((track = memo_at(&batch->tracks, ev->track)) == NULL)
        return true; /* if out of memory, the event is recorded rather than lost */
    if (*track == UNKNOWN)
        *track = wants_track(sess, mrd_catalog_borrow_track(process->catalog, ev->track));
    if (*track == UNWANTED ||
        (*track == WANTED_BY_CORE &&
         !core_in(&sess->select.cores, mrd_catalog_call_core(process->catalog, ev))))
        return false;
    if (sess->select.types.n == 0 || ev->kind == MRD_COUNTER)
        return true; /* a counter has no event type */
    if ((name = memo_at(&batch->names, ev->name)) == NULL)
        return true;
    if (*name == UNKNOWN)
        *name = mrd_types_want((const char *const *) sess->select.types.v, sess->select.types.n,
                               mrd_catalog_text(process->catalog, ev->name))
                    ? WANTED
                    : UNWANTED;
    return *name == WANTED;
}

/* ---- Pauses of a session ---- */

bool
mrd_record_in_pause(const session *sess, int64_t first_ns, int64_t last_ns)
{
    for (size_t i = sess->n_pauses; i-- > 0;)
        if (first_ns >= sess->pauses[i].from.ns && last_ns < sess->pauses[i].to.ns)
            return true;
    return false;
}

bool
mrd_record_is_paused(const mrd_record *record, uint64_t id, mrd_local_ns at)
{
    const session *sess = mrd_record_session_of(record, id);

    return sess != NULL && mrd_record_in_pause(sess, at.ns, at.ns);
}

/* ---- Functions that collectors call ---- */

bool
mrd_record_selects(const mrd_record *record, uint64_t id, const mrd_drain_process *process)
{
    const session *sess = mrd_record_session_of(record, id);

    return sess != NULL && mrd_record_wants_process(sess, process);
}

bool
mrd_record_selects_ident(const mrd_record *record, uint64_t id, const mrd_ident *ident)
{
    const session *sess = mrd_record_session_of(record, id);

    return sess != NULL && mrd_record_wants_ident(sess, ident);
}
