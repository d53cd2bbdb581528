/* agent/record/record_session.c - sessions of the node, from arming to their removal; opens and closes the
 * recorder */
#include <stdio.h>
#include <stdlib.h>

#include "agent/record/record_int.h"
#include "base/conf/agent_waits.h"

/* ---- Sessions ---- */

static void
session_free(session *s)
{
    for (size_t i = 0; i < s->n_buffered; i++)
        free(s->buffered[i].frame);
    free(s->buffered);
    free(s->forgotten);
    mrd_select_fini(&s->select);
    mrd_session_params_fini(&s->params);
    mrd_strlist_fini(&s->identities);
    mrd_buf_fini(&s->control);
}

/* A finished session stays for a while, so that heartbeats report its end; for at least two
 * heartbeats if its slot is needed. */
static void
forget_flushed(mrd_record *r)
{
    int64_t before = mrd_local_now().ns - MRD_WAIT_FORGET_SLOT;
    const session *oldest = NULL;

    for (size_t i = 0; i < r->n_sessions; i++) {
        const session *s = &r->sessions[i];

        if (s->st.phase == MRD__NODE_PHASE__NODE_FLUSHED && s->st.flushed.ns < before &&
            (oldest == NULL || mrd_local_before(s->st.flushed, oldest->st.flushed)))
            oldest = s;
    }
    if (oldest != NULL)
        mrd_record_cancel(r, oldest->st.id);
}

mrd_err
mrd_record_arm(mrd_record *r, const Mrd__Control *c, mrd_why *why)
{
    mrd_frame f = { .type = MRD_FRAME_CONTROL, .session = c->session };
    session s = { .st = { .id = c->session,
                          .recorder = c->mode == MRD__SESSION_MODE__MODE_RECORDER,
                          .phase = MRD__NODE_PHASE__NODE_ARMED,
                          .start = { INT64_MAX },
                          .stop = { INT64_MAX },
                          .start_bound_ns = -1 } };
    mrd_err err = MRD_OK;

    if (mrd_record_session_of(r, c->session) != NULL)
        return MRD_EXISTS;
    if (r->n_sessions == MRD_RECORD_SESSIONS)
        forget_flushed(r);
    if (r->n_sessions == MRD_RECORD_SESSIONS)
        return mrd_why_set(why, MRD_LIMIT, 0,
                           "a node takes part in at most %d sessions at one time",
                           MRD_RECORD_SESSIONS);
    if ((err = mrd_session_params_init(&s.params)) != MRD_OK ||
        (err = mrd_session_params_from_wire(&s.params, c, why)) != MRD_OK ||
        (err = mrd_session_params_check(&s.params, why)) != MRD_OK) {
        session_free(&s);
        return err;
    }
    snprintf(s.st.name, sizeof(s.st.name), "%.127s", c->name);
    if (mrd_msg_pack(&f, c, &s.control, NULL) != MRD_OK)
        mrd_buf_reset(&s.control); /* it works, but a successor will not resume it */
    err = mrd_select_from_wire(&s.select, c->select);
    if (err != MRD_OK) {
        session_free(&s);
        return mrd_why_set(why, err, 0, "selection of the session");
    }
    mrd_record_take_tally(r, &s);
    r->sessions[r->n_sessions++] = s;
    mrd_record_tally_session(r, &r->sessions[r->n_sessions - 1]);
    mrd_record_write_notes(r);
    return MRD_OK;
}

mrd_err
mrd_record_go(mrd_record *r, const Mrd__Control *control, mrd_local_ns start, int64_t bound_ns,
              mrd_why *why)
{
    session *s = mrd_record_session_of(r, control->session);
    mrd_err err;

    if (s == NULL && (err = mrd_record_arm(r, control, why)) != MRD_OK)
        return err;
    s = mrd_record_session_of(r, control->session);
    if (s->st.phase == MRD__NODE_PHASE__NODE_RECORDING)
        return MRD_OK; /* said twice */
    if (s->st.phase != MRD__NODE_PHASE__NODE_ARMED)
        return mrd_why_set(why, MRD_STATE, 0, "the session is over on this node");
    s->st.start = start;
    s->st.reported = mrd_local_now();
    s->st.start_bound_ns = bound_ns;
    s->st.phase = MRD__NODE_PHASE__NODE_RECORDING;
    mrd_record_count_late(r, s);
    mrd_drain_tell_again(r->o.drain); /* starts that were passed before it recorded */
    mrd_record_write_notes(r);
    return MRD_OK;
}

mrd_err
mrd_record_stop(mrd_record *r, uint64_t id, mrd_local_ns stop)
{
    session *s = mrd_record_session_of(r, id);

    if (s == NULL)
        return MRD_NOTFOUND;
    if (s->st.phase == MRD__NODE_PHASE__NODE_ARMED)
        s->st.start = stop; /* it never began */
    if (s->st.phase == MRD__NODE_PHASE__NODE_ARMED ||
        s->st.phase == MRD__NODE_PHASE__NODE_RECORDING) {
        s->st.stop = stop;
        s->st.phase = MRD__NODE_PHASE__NODE_STOPPING;
        mrd_record_write_notes(r);
    }
    return MRD_OK;
}

static bool
come_earlier(mrd_local_ns *at, mrd_local_ns woke, mrd_dur_ns slept)
{
    if (!mrd_local_after(*at, woke) || at->ns == INT64_MAX)
        return false;
    *at = mrd_local_diff(*at, woke) > slept ? mrd_local_add(*at, -slept) : woke;
    return true;
}

void
mrd_record_slept(mrd_record *r, mrd_local_ns woke, mrd_dur_ns slept)
{
    for (size_t i = 0; i < r->n_sessions; i++) {
        session *s = &r->sessions[i];

        if (come_earlier(&s->st.start, woke, slept))
            s->st.start_bound_ns = -1;
        (void) come_earlier(&s->st.stop, woke, slept);
        for (size_t k = 0; k < s->n_windows; k++) {
            (void) come_earlier(&s->windows[k].from, woke, slept);
            (void) come_earlier(&s->windows[k].to, woke, slept);
        }
        for (size_t k = 0; k < s->n_pauses; k++) {
            (void) come_earlier(&s->pauses[k].from, woke, slept);
            (void) come_earlier(&s->pauses[k].to, woke, slept);
        }
    }
    mrd_record_write_notes(r);
}

/* ---- Changes ---- */

/* Clears cached answers of the old selection. */
static void
choose_again(mrd_record *r, const session *s)
{
    for (rec_process *o = r->processes; o != NULL; o = o->next)
        for (open_batch *l = o->open_batches; l != NULL; l = l->next) {
            if (l->of != s)
                continue;
            l->chooses = mrd_record_chooses(s);
            if (l->tracks.v != NULL)
                memset(l->tracks.v, 0, l->tracks.n);
            if (l->names.v != NULL)
                memset(l->names.v, 0, l->names.n);
        }
}

/* Updates the control message for a successor. */
static void
choose_in_note(session *s, const Mrd__Selection *sel)
{
    mrd_frame f = { .type = MRD_FRAME_CONTROL, .session = s->st.id };
    Mrd__Selection now = MRD__SELECTION__INIT, *before;
    mrd_buf text = { 0 };
    mrd_msg msg = { 0 };

    if (mrd_msg_unpack((mrd_bytes){ s->control.p, s->control.len }, &msg, NULL) != MRD_OK)
        return;
    before = msg.u.control->select;
    if (before != NULL)
        now = *before;
    now.cores = sel == NULL ? NULL : sel->cores;
    now.n_cores = sel == NULL ? 0 : sel->n_cores;
    now.types = sel == NULL ? NULL : sel->types;
    now.n_types = sel == NULL ? 0 : sel->n_types;
    msg.u.control->select = &now;
    if (mrd_msg_pack(&f, msg.u.control, &text, NULL) == MRD_OK) {
        mrd_buf_fini(&s->control);
        s->control = text;
    } else {
        mrd_buf_fini(&text);
    }
    msg.u.control->select = before;
    mrd_msg_free(&msg);
}

mrd_err
mrd_record_change(mrd_record *r, uint64_t id, uint32_t revision, const mrd_record_pause *pauses,
                  size_t n, const Mrd__Selection *sel)
{
    session *s = mrd_record_session_of(r, id);
    Mrd__Selection chosen = MRD__SELECTION__INIT;
    mrd_select to = { 0 };
    mrd_err err = s == NULL                                        ? MRD_NOTFOUND
                  : s->st.phase != MRD__NODE_PHASE__NODE_RECORDING ? MRD_STATE
                                                                   : MRD_OK;

    if (sel != NULL) {
        chosen.cores = sel->cores;
        chosen.n_cores = sel->n_cores;
        chosen.types = sel->types;
        chosen.n_types = sel->n_types;
    }
    if (err == MRD_OK)
        err = mrd_select_from_wire(&to, &chosen);
    if (err != MRD_OK) {
        mrd_select_fini(&to);
        return err;
    }
    mrd_strlist_fini(&s->select.cores);
    mrd_strlist_fini(&s->select.types);
    s->select.cores = to.cores;
    s->select.types = to.types;
    s->n_pauses = n < MRD_RECORD_PAUSES ? n : MRD_RECORD_PAUSES;
    memcpy(s->pauses, pauses, s->n_pauses * sizeof(*pauses));
    s->st.revision = revision;
    choose_again(r, s);
    choose_in_note(s, sel);
    mrd_record_write_notes(r);
    return MRD_OK;
}

mrd_err
mrd_record_trigger(mrd_record *r, uint64_t id, uint64_t trigger, mrd_local_ns from, mrd_local_ns to)
{
    session *s = mrd_record_session_of(r, id);
    size_t left = 0;

    if (s == NULL)
        return MRD_NOTFOUND;
    if (!s->st.recorder)
        return MRD_STATE;
    for (size_t i = 0; i < s->n_seen; i++)
        if (s->seen_triggers[i] == trigger)
            return MRD_EXISTS;
    if (s->n_windows == MRD_RECORD_TRIGGERS)
        return MRD_LIMIT;
    mrd_record_flush(r); /* events in open batches belong to the window as well */
    s->windows[s->n_windows++] = (window){ trigger, from, to };
    mrd_record_missed(s, from, to);
    if (s->n_seen == MRD_RECORD_TRIGGERS) {
        memmove(s->seen_triggers, s->seen_triggers + 1, (--s->n_seen) * sizeof(uint64_t));
    }
    s->seen_triggers[s->n_seen++] = trigger;
    for (size_t i = 0; i < s->n_buffered; i++) {
        buffered_batch *k = &s->buffered[i];

        if (!mrd_record_in_window(s, k->first, k->last)) {
            s->buffered[left++] = *k;
            continue;
        }
        mrd_record_to_spool(r, s, k->frame, k->len, k->events);
        s->st.recorder_bytes -= k->len;
        free(k->frame);
    }
    s->n_buffered = left;
    mrd_record_note_drops(r);
    (void) mrd_record_commit(r, false); /* else with the next turn */
    return MRD_OK;
}

void
mrd_record_report(mrd_record *r, uint64_t id, const mrd_drain_process *process, const char *reason)
{
    for (size_t i = 0; i < r->n_sessions; i++) {
        session *s = &r->sessions[i];

        if ((id != 0 && s->st.id != id) || !s->st.recorder ||
            s->st.phase != MRD__NODE_PHASE__NODE_RECORDING || !mrd_record_wants_process(s, process))
            continue;
        snprintf(s->st.report, sizeof(s->st.report), "%s", reason);
        s->st.report_at = mrd_local_now();
    }
}

void
mrd_record_whole(mrd_record *r, uint64_t id, mrd_local_ns from)
{
    session *s = mrd_record_session_of(r, id);

    if (s == NULL || !mrd_local_before(from, s->st.reported))
        return;
    s->st.reported = mrd_local_before(from, s->st.start) ? s->st.start : from;
    mrd_record_write_notes(r);
}

void
mrd_record_cancel(mrd_record *r, uint64_t id)
{
    session *s = mrd_record_session_of(r, id);
    size_t at;

    if (s == NULL)
        return;
    at = (size_t) (s - r->sessions);
    for (rec_process *o = r->processes; o != NULL; o = o->next)
        for (open_batch **l = &o->open_batches; *l != NULL;) {
            open_batch *gone = *l;

            if (gone->of == s) {
                *l = gone->next;
                r->totals.unwanted += gone->events;
                mrd_record_open_batch_free(gone);
                continue;
            }
            if (gone->of > s)
                gone->of--; /* later sessions move up by one */
            l = &gone->next;
        }
    for (size_t i = 0; i < s->n_buffered; i++)
        r->totals.unwanted += s->buffered[i].events;
    mrd_spool_forget(r->o.spool, id);
    session_free(s);
    memmove(s, s + 1, (r->n_sessions - at - 1) * sizeof(*s));
    r->n_sessions--;
    mrd_record_write_notes(r);
}

/* ---- Getters ---- */

const mrd_strlist *
mrd_record_counters(const mrd_record *r, uint64_t id, mrd_dur_ns *ret_period)
{
    static const mrd_strlist none;
    const session *s = mrd_record_session_of(r, id);

    *ret_period = s == NULL ? 0 : s->params.counter_period;
    return s == NULL ? &none : &s->params.counters;
}

size_t
mrd_record_sessions(const mrd_record *r)
{
    return r->n_sessions;
}

void
mrd_record_get(const mrd_record *r, size_t i, mrd_record_status *ret_status)
{
    const session *s = &r->sessions[i];

    *ret_status = s->st;
    ret_status->last_seq = mrd_spool_next_seq(r->o.spool, s->st.id);
    ret_status->late_at_most = mrd_record_chooses(s);
    ret_status->clock_lost = mrd_spool_clock_lost(r->o.spool, s->st.id);
    ret_status->recorder_first = s->n_buffered == 0 ? ((mrd_local_ns){ 0 }) : s->buffered[0].first;
    ret_status->jobs = &s->identities;
    ret_status->running = 0;
    for (const rec_process *o = r->processes; o != NULL; o = o->next)
        ret_status->running += o->is_ring && mrd_record_wants_process(s, o->process);
    ret_status->triggers = s->seen_triggers;
    ret_status->n_triggers = s->n_seen;
}

bool
mrd_record_find(const mrd_record *r, uint64_t id, mrd_record_status *ret_status)
{
    const session *s = mrd_record_session_of(r, id);

    if (s != NULL)
        mrd_record_get(r, (size_t) (s - r->sessions), ret_status);
    return s != NULL;
}

bool
mrd_record_asks_runtime(const mrd_record *r, uint64_t id)
{
    const session *s = mrd_record_session_of(r, id);

    return s != NULL && mrd_session_params_ask_runtime(&s->params);
}

const mrd_session_params *
mrd_record_params(const mrd_record *r, uint64_t id)
{
    const session *s = mrd_record_session_of(r, id);

    return s == NULL ? NULL : &s->params;
}

void
mrd_record_choice(const mrd_record *r, uint64_t id, const mrd_strlist **ret_cores,
                  const mrd_strlist **ret_types)
{
    static const mrd_strlist none;
    const session *s = mrd_record_session_of(r, id);

    *ret_cores = s == NULL ? &none : &s->select.cores;
    *ret_types = s == NULL ? &none : &s->select.types;
}

bool
mrd_record_wants_neffs(const mrd_record *r, uint64_t id)
{
    const session *s = mrd_record_session_of(r, id);

    return s != NULL && (s->params.neffs || mrd_session_params_ask_runtime(&s->params));
}

/* ---- Open and close ---- */

/* Resumes a session that a predecessor noted. */
static void
resume(mrd_record *r, const mrd_record_note *n)
{
    session *s;

    if (mrd_record_arm(r, n->control, NULL) != MRD_OK || !mrd_record_is_under_way(n->phase) ||
        (s = mrd_record_session_of(r, n->session)) == NULL)
        return;
    s->st.start = n->start;
    s->st.reported = n->reported;
    s->st.stop = n->stop;
    s->st.start_bound_ns = n->bound_ns;
    s->st.phase = n->phase;
    s->st.revision = n->revision;
    s->n_pauses = n->n_pauses;
    memcpy(s->pauses, n->pauses, n->n_pauses * sizeof(*n->pauses));
}

mrd_err
mrd_record_open(const mrd_record_options *options, mrd_record **ret_record, mrd_why *why)
{
    mrd_record *r = calloc(1, sizeof(*r));

    if (r == NULL || (r->codec = mrd_codec_new()) == NULL) {
        free(r);
        return mrd_why_set(why, MRD_NOMEM, 0, "sessions");
    }
    r->o = *options;
    if (r->o.flush_ns == 0)
        r->o.flush_ns = FLUSH_DEFAULT;
    if (r->o.boot_id == NULL)
        r->o.boot_id = "";
    mrd_record_read_notes(r, resume);
    *ret_record = r;
    return MRD_OK;
}

void
mrd_record_close(mrd_record *r)
{
    if (r == NULL)
        return;
    while (r->processes != NULL) {
        rec_process *o = r->processes;

        r->processes = o->next;
        o->process->user = NULL;
        for (open_batch *l = o->open_batches, *next; l != NULL; l = next) {
            next = l->next;
            mrd_record_open_batch_free(l);
        }
        free(o);
    }
    for (size_t i = 0; i < r->n_sessions; i++)
        session_free(&r->sessions[i]);
    mrd_codec_free(r->codec);
    mrd_buf_fini(&r->frame);
    free(r->positions);
    free(r->gone);
    free(r);
}
