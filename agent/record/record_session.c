/* agent/record/record_session.c - opens and closes the recorder, and handles its sessions from
 * arming to removal. */
#include <stdio.h>
#include <stdlib.h>

#include "agent/record/record_int.h"
#include "base/conf/agent_waits.h"

/* ---- Sessions ---- */

static void
session_free(session *sess)
{
    for (size_t i = 0; i < sess->n_buffered; i++)
        free(sess->buffered[i].frame);
    free(sess->buffered);
    free(sess->forgotten);
    mrd_select_fini(&sess->select);
    mrd_session_params_fini(&sess->params);
    mrd_strlist_fini(&sess->identities);
    mrd_buf_fini(&sess->control);
}

/* Frees the slot of the finished session that ended first. A finished session stays for at least
 * two heartbeats, which report its end to the aggregator. */
static void
forget_flushed(mrd_record *record)
{
    int64_t before = mrd_local_now().ns - MRD_WAIT_FORGET_SLOT;
    const session *oldest = NULL;

    for (size_t i = 0; i < record->n_sessions; i++) {
        const session *sess = &record->sessions[i];

        if (sess->st.phase == MRD__NODE_PHASE__NODE_FLUSHED && sess->st.flushed.ns < before &&
            (oldest == NULL || mrd_local_before(sess->st.flushed, oldest->st.flushed)))
            oldest = sess;
    }
    if (oldest != NULL)
        mrd_record_cancel(record, oldest->st.id);
}

mrd_err
mrd_record_arm(mrd_record *record, const Mrd__Control *control, mrd_why *why)
{
    mrd_frame frame = { .type = MRD_FRAME_CONTROL, .session = control->session };
    session sess = { .st = { .id = control->session,
                             .recorder = control->mode == MRD__SESSION_MODE__MODE_RECORDER,
                             .phase = MRD__NODE_PHASE__NODE_ARMED,
                             .start = { INT64_MAX },
                             .stop = { INT64_MAX },
                             .start_bound_ns = -1 } };
    mrd_err err = MRD_OK;

    if (mrd_record_session_of(record, control->session) != NULL)
        return MRD_EXISTS;
    if (record->n_sessions == MRD_RECORD_SESSIONS)
        forget_flushed(record);
    if (record->n_sessions == MRD_RECORD_SESSIONS)
        return mrd_why_set(why, MRD_LIMIT, 0,
                           "a node takes part in at most %d sessions at one time",
                           MRD_RECORD_SESSIONS);
    if ((err = mrd_session_params_init(&sess.params)) != MRD_OK ||
        (err = mrd_session_params_from_wire(&sess.params, control, why)) != MRD_OK ||
        (err = mrd_session_params_check(&sess.params, why)) != MRD_OK) {
        session_free(&sess);
        return err;
    }
    snprintf(sess.st.name, sizeof(sess.st.name), "%.127s", control->name);
    if (mrd_msg_pack(&frame, control, &sess.control, NULL) != MRD_OK)
        /* If this fails, the session is recorded, but the next agent cannot resume it. */
        mrd_buf_reset(&sess.control);
    err = mrd_select_from_wire(&sess.select, control->select);
    if (err != MRD_OK) {
        session_free(&sess);
        return mrd_why_set(why, err, 0, "selection of the session");
    }
    mrd_record_take_tally(record, &sess);
    record->sessions[record->n_sessions++] = sess;
    mrd_record_tally_session(record, &record->sessions[record->n_sessions - 1]);
    mrd_record_write_notes(record);
    return MRD_OK;
}

mrd_err
mrd_record_go(mrd_record *record, const Mrd__Control *control, mrd_local_ns start, int64_t bound_ns,
              mrd_why *why)
{
    session *sess = mrd_record_session_of(record, control->session);
    mrd_err err;

    if (sess == NULL && (err = mrd_record_arm(record, control, why)) != MRD_OK)
        return err;
    sess = mrd_record_session_of(record, control->session);
    if (sess->st.phase == MRD__NODE_PHASE__NODE_RECORDING)
        return MRD_OK; /* nothing to do, because the start directive arrived twice */
    if (sess->st.phase != MRD__NODE_PHASE__NODE_ARMED)
        return mrd_why_set(why, MRD_STATE, 0, "the session is over on this node");
    sess->st.start = start;
    sess->st.reported = mrd_local_now();
    sess->st.start_bound_ns = bound_ns;
    sess->st.phase = MRD__NODE_PHASE__NODE_RECORDING;
    mrd_record_count_late(record, sess);
    /* The drain normally passes the start of an open span only once. Request these starts again for
     * this session. */
    mrd_drain_tell_again(record->o.drain);
    mrd_record_write_notes(record);
    return MRD_OK;
}

mrd_err
mrd_record_stop(mrd_record *record, uint64_t id, mrd_local_ns stop)
{
    session *sess = mrd_record_session_of(record, id);

    if (sess == NULL)
        return MRD_NOTFOUND;
    if (sess->st.phase == MRD__NODE_PHASE__NODE_ARMED)
        sess->st.start = stop; /* the session never began */
    if (sess->st.phase == MRD__NODE_PHASE__NODE_ARMED ||
        sess->st.phase == MRD__NODE_PHASE__NODE_RECORDING) {
        sess->st.stop = stop;
        sess->st.phase = MRD__NODE_PHASE__NODE_STOPPING;
        mrd_record_write_notes(record);
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
mrd_record_slept(mrd_record *record, mrd_local_ns woke, mrd_dur_ns slept)
{
    for (size_t i = 0; i < record->n_sessions; i++) {
        session *sess = &record->sessions[i];

        if (come_earlier(&sess->st.start, woke, slept))
            sess->st.start_bound_ns = -1;
        (void) come_earlier(&sess->st.stop, woke, slept);
        for (size_t k = 0; k < sess->n_windows; k++) {
            (void) come_earlier(&sess->windows[k].from, woke, slept);
            (void) come_earlier(&sess->windows[k].to, woke, slept);
        }
        for (size_t k = 0; k < sess->n_pauses; k++) {
            (void) come_earlier(&sess->pauses[k].from, woke, slept);
            (void) come_earlier(&sess->pauses[k].to, woke, slept);
        }
    }
    mrd_record_write_notes(record);
}

/* ---- Changes of a session's selection and pauses ---- */

/* Clears the cached answers in the session's open batches, because the session's selection
 * changed. */
static void
choose_again(mrd_record *record, const session *sess)
{
    for (rec_process *process = record->processes; process != NULL; process = process->next)
        for (open_batch *batch = process->open_batches; batch != NULL; batch = batch->next) {
            if (batch->of != sess)
                continue;
            batch->chooses = mrd_record_chooses(sess);
            if (batch->tracks.v != NULL)
                memset(batch->tracks.v, 0, batch->tracks.n);
            if (batch->names.v != NULL)
                memset(batch->names.v, 0, batch->names.n);
        }
}

/* Updates the selection in the saved control message. The next agent resumes the session from this
 * message. */
static void
choose_in_note(session *sess, const Mrd__Selection *sel)
{
    mrd_frame frame = { .type = MRD_FRAME_CONTROL, .session = sess->st.id };
    Mrd__Selection now = MRD__SELECTION__INIT, *before;
    mrd_buf text = { 0 };
    mrd_msg msg = { 0 };

    if (mrd_msg_unpack((mrd_bytes){ sess->control.p, sess->control.len }, &msg, NULL) != MRD_OK)
        return;
    before = msg.u.control->select;
    if (before != NULL)
        now = *before;
    now.cores = sel == NULL ? NULL : sel->cores;
    now.n_cores = sel == NULL ? 0 : sel->n_cores;
    now.types = sel == NULL ? NULL : sel->types;
    now.n_types = sel == NULL ? 0 : sel->n_types;
    msg.u.control->select = &now;
    if (mrd_msg_pack(&frame, msg.u.control, &text, NULL) == MRD_OK) {
        mrd_buf_fini(&sess->control);
        sess->control = text;
    } else {
        mrd_buf_fini(&text);
    }
    msg.u.control->select = before;
    mrd_msg_free(&msg);
}

mrd_err
mrd_record_change(mrd_record *record, uint64_t id, uint32_t revision,
                  const mrd_record_pause *pauses, size_t count, const Mrd__Selection *sel)
{
    session *sess = mrd_record_session_of(record, id);
    Mrd__Selection chosen = MRD__SELECTION__INIT;
    mrd_select to = { 0 };
    mrd_err err = sess == NULL                                        ? MRD_NOTFOUND
                  : sess->st.phase != MRD__NODE_PHASE__NODE_RECORDING ? MRD_STATE
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
    mrd_strlist_fini(&sess->select.cores);
    mrd_strlist_fini(&sess->select.types);
    sess->select.cores = to.cores;
    sess->select.types = to.types;
    sess->n_pauses = count < MRD_RECORD_PAUSES ? count : MRD_RECORD_PAUSES;
    memcpy(sess->pauses, pauses, sess->n_pauses * sizeof(*pauses));
    sess->st.revision = revision;
    choose_again(record, sess);
    choose_in_note(sess, sel);
    mrd_record_write_notes(record);
    return MRD_OK;
}

mrd_err
mrd_record_trigger(mrd_record *record, uint64_t id, uint64_t trigger, mrd_local_ns from,
                   mrd_local_ns to)
{
    session *sess = mrd_record_session_of(record, id);
    size_t left = 0;

    if (sess == NULL)
        return MRD_NOTFOUND;
    if (!sess->st.recorder)
        return MRD_STATE;
    for (size_t i = 0; i < sess->n_seen; i++)
        if (sess->seen_triggers[i] == trigger)
            return MRD_EXISTS;
    if (sess->n_windows == MRD_RECORD_TRIGGERS)
        return MRD_LIMIT;
    /* closes the open batches, because the window also includes their events */
    mrd_record_flush(record);
    sess->windows[sess->n_windows++] = (window){ trigger, from, to };
    mrd_record_missed(sess, from, to);
    if (sess->n_seen == MRD_RECORD_TRIGGERS) {
        memmove(sess->seen_triggers, sess->seen_triggers + 1, (--sess->n_seen) * sizeof(uint64_t));
    }
    sess->seen_triggers[sess->n_seen++] = trigger;
    for (size_t i = 0; i < sess->n_buffered; i++) {
        buffered_batch *batch = &sess->buffered[i];

        if (!mrd_record_in_window(sess, batch->first, batch->last)) {
            sess->buffered[left++] = *batch;
            continue;
        }
        mrd_record_to_spool(record, sess, batch->frame, batch->len, batch->events);
        sess->st.recorder_bytes -= batch->len;
        free(batch->frame);
    }
    sess->n_buffered = left;
    mrd_record_note_drops(record);
    (void) mrd_record_commit(record, false); /* if this fails, the next turn commits again */
    return MRD_OK;
}

void
mrd_record_report(mrd_record *record, uint64_t id, const mrd_drain_process *process,
                  const char *reason)
{
    for (size_t i = 0; i < record->n_sessions; i++) {
        session *sess = &record->sessions[i];

        if ((id != 0 && sess->st.id != id) || !sess->st.recorder ||
            sess->st.phase != MRD__NODE_PHASE__NODE_RECORDING ||
            !mrd_record_wants_process(sess, process))
            continue;
        snprintf(sess->st.report, sizeof(sess->st.report), "%s", reason);
        sess->st.report_at = mrd_local_now();
    }
}

void
mrd_record_whole(mrd_record *record, uint64_t id, mrd_local_ns from)
{
    session *sess = mrd_record_session_of(record, id);

    if (sess == NULL || !mrd_local_before(from, sess->st.reported))
        return;
    sess->st.reported = mrd_local_before(from, sess->st.start) ? sess->st.start : from;
    mrd_record_write_notes(record);
}

void
mrd_record_cancel(mrd_record *record, uint64_t id)
{
    session *sess = mrd_record_session_of(record, id);
    size_t at;

    if (sess == NULL)
        return;
    at = (size_t) (sess - record->sessions);
    for (rec_process *process = record->processes; process != NULL; process = process->next)
        for (open_batch **batches = &process->open_batches; *batches != NULL;) {
            open_batch *gone = *batches;

            if (gone->of == sess) {
                *batches = gone->next;
                record->totals.unwanted += gone->events;
                mrd_record_open_batch_free(gone);
                continue;
            }
            if (gone->of > sess)
                /* the sessions after the removed one move down by one place in the array */
                gone->of--;
            batches = &gone->next;
        }
    for (size_t i = 0; i < sess->n_buffered; i++)
        record->totals.unwanted += sess->buffered[i].events;
    mrd_spool_forget(record->o.spool, id);
    session_free(sess);
    memmove(sess, sess + 1, (record->n_sessions - at - 1) * sizeof(*sess));
    record->n_sessions--;
    mrd_record_write_notes(record);
}

/* ---- Getters ---- */

const mrd_strlist *
mrd_record_counters(const mrd_record *record, uint64_t id, mrd_dur_ns *ret_period)
{
    static const mrd_strlist none;
    const session *sess = mrd_record_session_of(record, id);

    *ret_period = sess == NULL ? 0 : sess->params.counter_period;
    return sess == NULL ? &none : &sess->params.counters;
}

size_t
mrd_record_sessions(const mrd_record *record)
{
    return record->n_sessions;
}

void
mrd_record_get(const mrd_record *record, size_t i, mrd_record_status *ret_status)
{
    const session *sess = &record->sessions[i];

    *ret_status = sess->st;
    ret_status->last_seq = mrd_spool_next_seq(record->o.spool, sess->st.id);
    ret_status->late_at_most = mrd_record_chooses(sess);
    ret_status->clock_lost = mrd_spool_clock_lost(record->o.spool, sess->st.id);
    ret_status->recorder_first =
        sess->n_buffered == 0 ? ((mrd_local_ns){ 0 }) : sess->buffered[0].first;
    ret_status->jobs = &sess->identities;
    ret_status->running = 0;
    for (const rec_process *process = record->processes; process != NULL; process = process->next)
        ret_status->running += process->is_ring && mrd_record_wants_process(sess, process->process);
    ret_status->triggers = sess->seen_triggers;
    ret_status->n_triggers = sess->n_seen;
}

bool
mrd_record_find(const mrd_record *record, uint64_t id, mrd_record_status *ret_status)
{
    const session *sess = mrd_record_session_of(record, id);

    if (sess != NULL)
        mrd_record_get(record, (size_t) (sess - record->sessions), ret_status);
    return sess != NULL;
}

bool
mrd_record_asks_runtime(const mrd_record *record, uint64_t id)
{
    const session *sess = mrd_record_session_of(record, id);

    return sess != NULL && mrd_session_params_ask_runtime(&sess->params);
}

const mrd_session_params *
mrd_record_params(const mrd_record *record, uint64_t id)
{
    const session *sess = mrd_record_session_of(record, id);

    return sess == NULL ? NULL : &sess->params;
}

void
mrd_record_choice(const mrd_record *record, uint64_t id, const mrd_strlist **ret_cores,
                  const mrd_strlist **ret_types)
{
    static const mrd_strlist none;
    const session *sess = mrd_record_session_of(record, id);

    *ret_cores = sess == NULL ? &none : &sess->select.cores;
    *ret_types = sess == NULL ? &none : &sess->select.types;
}

bool
mrd_record_wants_neffs(const mrd_record *record, uint64_t id)
{
    const session *sess = mrd_record_session_of(record, id);

    return sess != NULL && (sess->params.neffs || mrd_session_params_ask_runtime(&sess->params));
}

/* ---- Open and close ---- */

/* Resumes a session that a previous agent saved. */
static void
resume(mrd_record *record, const mrd_record_note *note)
{
    session *sess;

    if (mrd_record_arm(record, note->control, NULL) != MRD_OK ||
        !mrd_record_is_under_way(note->phase) ||
        (sess = mrd_record_session_of(record, note->session)) == NULL)
        return;
    sess->st.start = note->start;
    sess->st.reported = note->reported;
    sess->st.stop = note->stop;
    sess->st.start_bound_ns = note->bound_ns;
    sess->st.phase = note->phase;
    sess->st.revision = note->revision;
    sess->n_pauses = note->n_pauses;
    memcpy(sess->pauses, note->pauses, note->n_pauses * sizeof(*note->pauses));
}

mrd_err
mrd_record_open(const mrd_record_options *options, mrd_record **ret_record, mrd_why *why)
{
    mrd_record *record = calloc(1, sizeof(*record));

    if (record == NULL || (record->codec = mrd_codec_new()) == NULL) {
        free(record);
        return mrd_why_set(why, MRD_NOMEM, 0, "sessions");
    }
    record->o = *options;
    if (record->o.flush_ns == 0)
        record->o.flush_ns = FLUSH_DEFAULT;
    if (record->o.boot_id == NULL)
        record->o.boot_id = "";
    mrd_record_read_notes(record, resume);
    *ret_record = record;
    return MRD_OK;
}

void
mrd_record_close(mrd_record *record)
{
    if (record == NULL)
        return;
    while (record->processes != NULL) {
        rec_process *process = record->processes;

        record->processes = process->next;
        process->process->user = NULL;
        for (open_batch *batch = process->open_batches, *next; batch != NULL; batch = next) {
            next = batch->next;
            mrd_record_open_batch_free(batch);
        }
        free(process);
    }
    for (size_t i = 0; i < record->n_sessions; i++)
        session_free(&record->sessions[i]);
    mrd_codec_free(record->codec);
    mrd_buf_fini(&record->frame);
    free(record->positions);
    free(record->gone);
    free(record);
}
