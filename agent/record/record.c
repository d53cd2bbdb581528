/* agent/record/record.c - puts events into open batches of every session that wants them, makes
 * frames of the batches, commits the frames, and then releases the rings. */
#include <stdio.h>
#include <stdlib.h>

#include "agent/record/record_int.h"
#include "base/conf/agent_waits.h"
#include "base/vec.h"
#include "timesync/cross_table.h"

/* ---- Open batches (collected events of one process and session) ---- */

static void
add_cross(void *self, const mrd_cross_read *read)
{
    (void) mrd_batch_cross(self, read);
}

/* Adds cross-reads (readings of both clocks) to a batch with times of the wall clock. Begins with
 * the cross-reads that were made MRD_CROSS_LATE before the batch was opened, because the batch's
 * events may be older than the batch. */
static void
add_crosses(mrd_record *record, open_batch *batch)
{
    if (batch->clock == MRD_DRAIN_RAW)
        return;
    mrd_drain_cross(record->o.drain);
    mrd_drain_crosses_since(record->o.drain, mrd_local_sub(batch->opened, MRD_CROSS_LATE),
                            add_cross, batch->batch);
}

/* Counts n events of the open batch as lost to its session. */
static void
lose(mrd_record *record, open_batch *batch, mrd_drop_cause cause, uint64_t n, mrd_local_ns first,
     mrd_local_ns last)
{
    mrd_record_lose(record, batch->of, cause, n, first, last);
    batch->lost[cause] += n;
}

static void
seal(mrd_record *record, open_batch *batch)
{
    session *sess = batch->of;
    mrd_frame ids = { .agent = record->o.agent,
                      .boot = record->o.boot,
                      .epoch = mrd_spool_epoch(record->o.spool),
                      .session = sess->st.id,
                      .seq = mrd_spool_next_seq(record->o.spool, sess->st.id) };
    uint64_t events = batch->events;
    mrd_local_ns first, last;
    int64_t from = 0, to = 0;
    mrd_err err;

    if (batch->batch == NULL || mrd_batch_events(batch->batch) == 0)
        return;
    add_crosses(record, batch);
    (void) mrd_batch_range(batch->batch, &from, &to);
    first = mrd_record_to_raw(record, batch->clock, (mrd_ev_ns){ from });
    last = mrd_local_max(mrd_record_to_raw(record, batch->clock, (mrd_ev_ns){ to }), batch->until);
    batch->until = (mrd_local_ns){ 0 };
    mrd_buf_reset(&record->frame);
    err =
        mrd_batch_encode(batch->batch, record->codec, record->o.codec, &ids, &record->frame, NULL);
    batch->events = 0;
    batch->opened = (mrd_local_ns){ 0 };
    if (err != MRD_OK) {
        mrd_batch_reset(batch->batch);
        lose(record, batch, err == MRD_NOMEM ? MRD_DROP_MEMORY : MRD_DROP_LIMIT, events, first,
             last);
        return;
    }
    sess->st.batches++;
    sess->st.bytes += record->frame.len;
    if (!sess->st.recorder) {
        mrd_drop_cause cause =
            mrd_record_to_spool(record, sess, record->frame.p, record->frame.len, events);

        if (cause != MRD_DROP_CAUSES)
            batch->lost[cause] += events;
    } else
        mrd_record_buffer(record, sess,
                          &(buffered_batch){ record->frame.p, (uint32_t) record->frame.len, events,
                                             first, last });
}

void
mrd_record_open_batch_free(open_batch *batch)
{
    mrd_batch_free(batch->batch);
    free(batch->tracks.v);
    free(batch->names.v);
    free(batch);
}

static rec_process *
process_add(mrd_record *record, mrd_drain_process *process)
{
    rec_process *o = calloc(1, sizeof(*o));

    if (o == NULL)
        return NULL;
    o->process = process;
    o->is_ring = (process->ident.start_ticks != MRD_NONE);
    o->next = record->processes;
    record->processes = o;
    process->user = o;
    return o;
}

static inline rec_process *
process_of(mrd_record *record, mrd_drain_process *process)
{
    return process->user != NULL ? process->user : process_add(record, process);
}

static open_batch *
open_batch_add(rec_process *process, session *sess, unsigned clock)
{
    open_batch *batch = calloc(1, sizeof(*batch));

    if (batch == NULL)
        return NULL;
    batch->of = sess;
    batch->clock = clock;
    batch->wanted = mrd_record_wants_process(sess, process->process);
    batch->chooses = mrd_record_chooses(sess);
    batch->next = process->open_batches;
    process->open_batches = batch;
    return batch;
}

static inline open_batch *
open_batch_of(rec_process *process, session *sess, unsigned clock)
{
    open_batch *batch = process->open_batches;

    while (batch != NULL && (batch->of != sess || batch->clock != clock))
        batch = batch->next;
    return batch != NULL ? batch : open_batch_add(process, sess, clock);
}

/* Slow path: adds an event that is the first of its batch, or that does not fit into the batch. */
static mrd_err
push_slow(mrd_record *record, rec_process *process, open_batch *batch, const mrd_event *ev)
{
    mrd_err err;

    if (batch->batch == NULL &&
        (batch->batch = mrd_batch_new(process->process->catalog, process->process->id, batch->clock,
                                      record->o.max_events)) == NULL)
        return MRD_NOMEM;
    err = mrd_batch_push(batch->batch, ev);
    if (err == MRD_FULL) {
        seal(record, batch);
        process->sealed = true;
        err = mrd_batch_push(batch->batch, ev);
    }
    if (err == MRD_OK && batch->opened.ns == 0)
        batch->opened = mrd_local_now();
    return err;
}

static inline mrd_err
push(mrd_record *record, rec_process *process, open_batch *batch, const mrd_event *ev)
{
    mrd_err err = batch->opened.ns == 0 ? MRD_FULL : mrd_batch_push(batch->batch, ev);

    return __builtin_expect(err == MRD_FULL, 0) ? push_slow(record, process, batch, ev) : err;
}

static mrd_drop_cause
cause_of(const mrd_drain_process *process, const mrd_event *ev)
{
    mrd_drop_cause cause = mrd_drop_of(mrd_catalog_text(process->catalog, ev->name));

    return cause < MRD_DROP_CAUSES ? cause : MRD_DROP_RING_OTHER;
}

static inline bool
recording(const session *sess, int64_t first_ns, int64_t last_ns)
{
    return mrd_record_is_under_way(sess->st.phase) && last_ns >= sess->st.start.ns &&
           first_ns <= sess->st.stop.ns &&
           (sess->n_pauses == 0 || !mrd_record_in_pause(sess, first_ns, last_ns));
}

static inline void
add_event(mrd_record *record, rec_process *process, open_batch *batch, const mrd_event *ev,
          int64_t raw)
{
    session *sess = batch->of;
    uint64_t n = ev->kind == MRD_LOSS ? (uint64_t) ev->ivalue : 1;
    mrd_err err = push(record, process, batch, ev);

    sess->st.begun += n;
    sess->st.held += n;
    sess->st.chosen += ev->kind != MRD_LOSS && ev->kind != MRD_COUNTER;
    if (ev->kind == MRD_LOSS) {
        mrd_drop_cause cause = cause_of(process->process, ev);

        mrd_record_count_drop(sess, cause, n, (mrd_local_ns){ raw },
                              (mrd_local_ns){ raw + ev->dur_ns }, err == MRD_OK);
        batch->lost[cause] += n;
    } else if (err == MRD_OK) {
        batch->events++;
    } else {
        lose(record, batch, err == MRD_NOMEM ? MRD_DROP_MEMORY : MRD_DROP_LIMIT, 1,
             (mrd_local_ns){ raw }, (mrd_local_ns){ raw });
    }
}

/* Adds a loss event to the batch, limited to the part of its time range that lies in the session.
 * It is unknown how many of the lost events are in that part, so all of them count. */
static void
add_loss(mrd_record *record, rec_process *process, open_batch *batch, const mrd_event *ev,
         int64_t raw)
{
    const mrd_record_status *st = &batch->of->st;
    int64_t end = raw + ev->dur_ns, first = raw < st->start.ns ? st->start.ns : raw;
    mrd_event part = *ev;

    end = end > st->stop.ns ? st->stop.ns : end;
    part.ts.ns += first - raw;
    part.dur_ns = end > first ? end - first : 0;
    add_event(record, process, batch, &part, first);
}

/* Returns the time until which an unfinished span that began at `begin` was open. */
static int64_t
open_until(const mrd_record *record, const mrd_drain_process *process, int64_t begin)
{
    mrd_local_ns end =
        process->open_until.ns == 0
            ? ((mrd_local_ns){ INT64_MAX })
            : mrd_record_to_raw(record, process->open_until_clock, process->open_until);

    return end.ns > begin ? end.ns : begin;
}

static bool
passes_gate(const mrd_record *record, rec_process *process, const session *sess,
            const mrd_event *ev, mrd_local_ns first, mrd_local_ns last)
{
    mrd_step_gate *gate = mrd_record_gate(record, process, sess);

    if (gate == NULL)
        return true;
    mrd_step_gate_see(gate, process->process, ev, first, last,
                      sess->params.steps == STEPS_EXECUTION, sess->params.from_step,
                      sess->params.to_step);
    return mrd_step_gate_passes(gate, first, last);
}

/* Counts the event in the process's histogram of event times. If a session arrives after its start,
 * its losses are computed from this histogram. Samples of host counters are left out, because a new
 * session gets new samples at once. */
static inline void
note(rec_process *process, const mrd_event *ev, int64_t raw, int64_t end)
{
    const mrd_catalog *cat = process->process->catalog;

    if ((!process->is_ring && !process->is_file) ||
        (ev->kind == MRD_COUNTER &&
         mrd_catalog_borrow_track(cat, ev->track)->source == MRD_SRC_HOST))
        return;
    mrd_late_histogram_add(&process->passed[0], (mrd_local_ns){ end == INT64_MAX ? raw : end },
                           ev->kind == MRD_LOSS ? (uint64_t) ev->ivalue : 1);
}

/* Passes an event to the sessions that want it. If `only` is not 0, passes it only to the session
 * with this id. */
static inline mrd_err
take(mrd_record *record, uint64_t only, mrd_drain_process *process, unsigned clock,
     const mrd_event *ev)
{
    rec_process *o = process_of(record, process);
    int64_t raw = clock == MRD_DRAIN_RAW ? ev->ts.ns : mrd_record_to_raw(record, clock, ev->ts).ns;
    int64_t end = ev->dur_ns < 0 ? open_until(record, process, raw) : raw + ev->dur_ns;
    unsigned wanted = 0;

    if (o == NULL)
        return MRD_NOMEM;
    o->dirty = true;
    if (only == 0)
        note(o, ev, raw, end);
    for (size_t i = 0; i < record->n_sessions; i++) {
        session *sess = &record->sessions[i];
        open_batch *batch;

        if (!recording(sess, raw, end) || (only != 0 && sess->st.id != only))
            continue;
        if ((batch = open_batch_of(o, sess, clock)) == NULL)
            return MRD_NOMEM;
        if (!batch->wanted ||
            (batch->chooses &&
             !passes_gate(record, o, sess, ev, (mrd_local_ns){ raw }, (mrd_local_ns){ end })) ||
            (batch->chooses && !mrd_record_wants_event(batch, process, ev))) {
            sess->st.left_out += ev->kind != MRD_LOSS && ev->kind != MRD_COUNTER;
            continue;
        }
        wanted++;
        if (ev->kind == MRD_LOSS)
            add_loss(record, o, batch, ev, raw);
        else
            add_event(record, o, batch, ev, raw);
    }
    if (ev->kind != MRD_LOSS && wanted == 0)
        record->totals.unwanted++;
    else if (ev->kind != MRD_LOSS)
        record->totals.copies += wanted - 1;
    return MRD_OK;
}

/* Fast path of take() for most events. The event must be of clock RAW. There must be exactly one
 * session, which takes all events of the process, and the session must have an open batch.
 * Otherwise returns false without an effect. */
static inline bool
take_plain(mrd_record *record, const mrd_drain_process *process, const mrd_event *ev)
{
    rec_process *o = process->user;
    open_batch *batch = o == NULL ? NULL : o->open_batches;
    session *sess = record->sessions;

    if (batch == NULL || record->n_sessions != 1 || batch->of != sess ||
        batch->clock != MRD_DRAIN_RAW || batch->opened.ns == 0 || !batch->wanted ||
        batch->chooses || ev->kind == MRD_LOSS || ev->dur_ns < 0 ||
        !recording(sess, ev->ts.ns, ev->ts.ns + ev->dur_ns) ||
        mrd_batch_push(batch->batch, ev) != MRD_OK)
        return false;
    o->dirty = true;
    note(o, ev, ev->ts.ns, ev->ts.ns + ev->dur_ns);
    sess->st.begun++;
    sess->st.held++;
    sess->st.chosen += ev->kind != MRD_COUNTER;
    batch->events++;
    return true;
}

mrd_err
mrd_record_event(mrd_record *record, mrd_drain_process *process, unsigned clock,
                 const mrd_event *ev)
{
    if (clock == MRD_DRAIN_RAW && take_plain(record, process, ev))
        return MRD_OK;
    return take(record, 0, process, clock, ev);
}

mrd_err
mrd_record_event_of(mrd_record *record, uint64_t id, mrd_drain_process *process, unsigned clock,
                    const mrd_event *ev)
{
    return take(record, id, process, clock, ev);
}

/* ---- Spans that are open at a trigger or stop ---- */

typedef struct {
    mrd_record *r;
    session *s;
    mrd_local_ns until;
} in_flight;

/* Passes a copy of an open span to one session, if the span began before the trigger or stop. If
 * the span ends later, the session gets the complete span as well. */
static void
take_open(void *self, mrd_drain_process *process, unsigned clock, const mrd_event *ev)
{
    const in_flight *flight = self;
    mrd_record *record = flight->r;
    rec_process *o = process->user;
    open_batch *batch = open_batch_of(o, flight->s, clock);
    mrd_local_ns raw = mrd_record_to_raw(record, clock, ev->ts);
    const mrd_step_gate *gate = mrd_record_gate(record, o, flight->s);

    if (batch == NULL || (gate != NULL && !mrd_step_gate_passes(gate, raw, flight->until)) ||
        mrd_local_after(raw, flight->until) || !batch->wanted ||
        (batch->chooses && !mrd_record_wants_event(batch, process, ev)))
        return;
    add_event(record, o, batch, ev, raw.ns);
    if (mrd_local_after(flight->until, batch->until))
        batch->until = flight->until;
    if (batch->batch != NULL)
        mrd_batch_reach(batch->batch, mrd_record_from_raw(record, clock, flight->until).ns);
    record->totals.copies++;
    flight->s->st.in_flight++;
}

/* Passes the open spans of the session's processes to the session, if they began at or before
 * `until`. Closes the batches that contain these spans. */
static void
tell_in_flight(mrd_record *record, session *sess, const char *at, mrd_local_ns until)
{
    in_flight flight = { record, sess, until };

    for (rec_process *process = record->processes; process != NULL; process = process->next) {
        if (!process->is_ring || !mrd_record_wants_process(sess, process->process))
            continue;
        process->dirty = true;
        mrd_drain_in_flight(record->o.drain, process->process, at, take_open, &flight);
        for (open_batch *batch = process->open_batches; batch != NULL; batch = batch->next)
            if (batch->of == sess && batch->until.ns != 0)
                seal(record, batch);
    }
}

/* Passes the start of a span that is still open to all recording sessions. If this agent ends, the
 * next agent could not read the start from the ring again. Flight recorders do not get the start,
 * because their memory is lost when this agent ends. */
static void
take_long_open(void *self, mrd_drain_process *process, unsigned clock, const mrd_event *ev)
{
    in_flight flight = { .r = self };
    mrd_local_ns now = mrd_local_now();

    for (size_t i = 0; i < flight.r->n_sessions; i++) {
        flight.s = &flight.r->sessions[i];
        flight.until = mrd_local_after(now, flight.s->st.start) ? now : flight.s->st.start;
        if (flight.s->st.phase == MRD__NODE_PHASE__NODE_RECORDING && !flight.s->st.recorder &&
            mrd_record_wants_process(flight.s, process))
            take_open(&flight, process, clock, ev);
    }
}

static void
seal_process(mrd_record *record, rec_process *process)
{
    for (open_batch *batch = process->open_batches; batch != NULL; batch = batch->next)
        seal(record, batch);
    process->sealed = process->dirty = false;
}

mrd_err
mrd_record_process_seen(mrd_record *record, mrd_drain_process *process)
{
    rec_process *o = process_of(record, process);

    if (o == NULL)
        return MRD_NOMEM;
    mrd_record_tally_process(record, o);
    return MRD_OK;
}

mrd_err
mrd_record_file_seen(mrd_record *record, mrd_drain_process *process)
{
    rec_process *o = process_of(record, process);

    if (o == NULL)
        return MRD_NOMEM;
    o->is_file = true;
    return MRD_OK;
}

void
mrd_record_process_gone(mrd_record *record, mrd_drain_process *process)
{
    rec_process *o = process->user, **at = &record->processes;

    if (o == NULL)
        return;
    seal_process(record, o);
    mrd_record_note_gone(record, o);
    while (*at != o)
        at = &(*at)->next;
    *at = o->next;
    for (open_batch *batch = o->open_batches, *next; batch != NULL; batch = next) {
        next = batch->next;
        mrd_record_open_batch_free(batch);
    }
    free(o);
    process->user = NULL;
}

/* ---- Turns: closing batches and commits ---- */

/* Closes the trigger windows of a flight recorder that ended some time ago. After the end of a
 * window, late events of the window are still accepted for this time. */
static void
close_windows(mrd_record *record, session *sess, mrd_local_ns now)
{
    for (size_t i = 0; i < sess->n_windows;)
        if (mrd_local_after(now,
                            mrd_local_add(mrd_local_add(sess->windows[i].to, record->o.flush_ns),
                                          MRD_WAIT_STOP_GRACE))) {
            tell_in_flight(record, sess, "trigger", sess->windows[i].to);
            sess->windows[i] = sess->windows[--sess->n_windows];
        } else {
            i++;
        }
}

static bool
has_open(const mrd_record *record, const session *sess)
{
    for (const rec_process *process = record->processes; process != NULL; process = process->next)
        for (const open_batch *batch = process->open_batches; batch != NULL; batch = batch->next)
            if (batch->of == sess && batch->batch != NULL && mrd_batch_events(batch->batch) > 0)
                return true;
    return false;
}

static void
add_unreported(void *self, mrd_drop_cause cause, uint64_t n, mrd_local_ns first, mrd_local_ns last)
{
    session *sess = self;

    if (mrd_local_before(last, sess->st.start) || mrd_local_after(first, sess->st.stop))
        return;
    first = mrd_local_before(first, sess->st.start) ? sess->st.start : first;
    last = mrd_local_after(last, sess->st.stop) ? sess->st.stop : last;
    sess->st.begun += n;
    sess->st.held += n;
    mrd_record_count_drop(sess, cause, n, first, last, false);
}

/* Counts losses that only the header of a ring reports. The process has written no event since the
 * loss, so no record in the ring reports the loss. */
static void
count_unreported(mrd_record *record, session *sess)
{
    for (const rec_process *process = record->processes; process != NULL; process = process->next)
        if (process->is_ring && mrd_record_wants_process(sess, process->process))
            mrd_drain_unreported(record->o.drain, process->process, add_unreported, sess);
}

static void
session_step(mrd_record *record, session *sess, mrd_local_ns now)
{
    if (sess->st.recorder) {
        mrd_record_bound(record, sess, now);
        close_windows(record, sess, now);
    }
    if (sess->st.phase != MRD__NODE_PHASE__NODE_STOPPING ||
        mrd_local_before(now, mrd_local_add(sess->st.stop, MRD_WAIT_STOP_GRACE)) ||
        has_open(record, sess) || sess->n_windows > 0 || sess->hold)
        return;
    if (!sess->reported_in_flight && !sess->st.recorder)
        tell_in_flight(record, sess, "stop", sess->st.stop);
    sess->reported_in_flight = true;
    if (sess->n_buffered > 0)
        mrd_record_forget_oldest(record, sess, sess->n_buffered);
    if (mrd_spool_held(record->o.spool, sess->st.id, NULL) > 0)
        return;
    count_unreported(record, sess);
    sess->st.phase = MRD__NODE_PHASE__NODE_FLUSHED;
    sess->st.flushed = now;
    mrd_record_write_notes(record);
}

static mrd_local_ns
oldest_open(const rec_process *process)
{
    mrd_local_ns oldest = { INT64_MAX };

    for (const open_batch *batch = process->open_batches; batch != NULL; batch = batch->next)
        if (batch->opened.ns != 0 && mrd_local_before(batch->opened, oldest))
            oldest = batch->opened;
    return oldest;
}

static void
add_position(void *self, uint64_t ring, uint64_t read)
{
    mrd_record *record = self;

    if (!MRD_VEC_ROOM(record->positions, record->n_positions, record->cap_positions, 1))
        /* Out of memory. If this agent crashes, the next agent reads the records of this ring
         * again. */
        return;
    if (record->n_positions < MRD_SPOOL_POSITIONS)
        record->positions[record->n_positions++] = (mrd_spool_position){ ring, read };
}

/* Returns true if the process is running and no session wants its events. Commits for such a
 * process can be rare, because they only save how far its rings were read. */
static bool
is_idle(const rec_process *process)
{
    return process->is_ring && mrd_drain_is_unwanted(process->process) &&
           oldest_open(process).ns == INT64_MAX;
}

static mrd_dur_ns
flush_of(const mrd_record *record, const rec_process *process)
{
    return is_idle(process) ? MRD_WAIT_IDLE_COMMIT : record->o.flush_ns;
}

static bool
due(mrd_record *record, rec_process *process, mrd_local_ns now)
{
    mrd_local_ns oldest = oldest_open(process);
    double pressure = process->is_ring ? mrd_drain_pressure(record->o.drain, process->process) : 0;
    bool news = process->is_ring && mrd_drain_open_news(record->o.drain, process->process);

    if (!process->dirty && pressure == 0 && !news)
        return false;
    if (process->sealed || pressure >= PRESSURE)
        return true;
    if (oldest.ns == INT64_MAX && !news && !is_idle(process))
        return true;
    /* Spans often open and end within a short time. So changes of open spans are collected for up
     * to flush_of() before they are written. */
    if ((news || is_idle(process)) && process->news.ns == 0)
        process->news = now;
    return mrd_local_diff(now, oldest.ns == INT64_MAX ? process->news : oldest) >=
           flush_of(record, process);
}

/* Writes the notes of sessions again if the spool's directory was removed and created again. */
static void
follow_folder(mrd_record *record)
{
    mrd_spool_stats stats;

    mrd_spool_get_stats(record->o.spool, &stats);
    if (stats.remade == record->spool_remade)
        return;
    record->spool_remade = stats.remade;
    mrd_record_write_notes(record);
}

/* Commits all frames since the last commit, together with record->positions and the positions of
 * trace files. */
mrd_err
mrd_record_commit(mrd_record *record, bool all)
{
    uint64_t number = mrd_drain_open_number(record->o.drain);
    mrd_err err;

    if (record->n_positions == MRD_SPOOL_POSITIONS)
        /* Make room for the position that is added below. If this agent crashes, the next agent
         * reads the records of the removed ring again. */
        record->n_positions--;
    if (number != 0)
        add_position(record, MRD_DRAIN_OPEN_KEY, number);
    if (record->o.files != NULL)
        record->o.files(record->o.files_self, add_position, record);
    err = mrd_spool_commit(record->o.spool, record->positions, record->n_positions, NULL);
    record->n_positions = 0;
    follow_folder(record);
    if (err == MRD_OK)
        mrd_drain_open_committed(record->o.drain, all);
    return err;
}

static bool
waits_for_commit(const mrd_record *record)
{
    return mrd_spool_uncommitted(record->o.spool) || mrd_drain_open_changed(record->o.drain);
}

/* If this turn will commit, marks the processes of trace files so that their batches are closed.
 * The commit contains how far each file was processed, so all events before these positions must be
 * in frames. */
static void
with_files(mrd_record *record)
{
    bool any = waits_for_commit(record) || mrd_record_drops_wait(record);

    for (const rec_process *process = record->processes; process != NULL && !any;
         process = process->next)
        any = process->releasing;
    for (rec_process *process = record->processes; process != NULL && any; process = process->next)
        process->releasing = process->releasing || process->is_file;
}

/* Closes the batches of the processes that are due, or of all. Commits them together with the read
 * positions of the rings, and only then releases the rings. */
static void
turn(mrd_record *record, mrd_local_ns now, bool all)
{
    record->n_positions = 0;
    all = all || mrd_drain_open_wants_all(record->o.drain);
    for (rec_process *process = record->processes; process != NULL; process = process->next)
        process->releasing = all || due(record, process, now);
    with_files(record);
    for (rec_process *process = record->processes; process != NULL; process = process->next) {
        if (!process->releasing)
            continue;
        if (process->is_ring)
            mrd_drain_long_open(record->o.drain, process->process, take_long_open, record);
        seal_process(record, process);
        if (!process->is_ring)
            continue;
        mrd_drain_positions(record->o.drain, process->process, add_position, record);
        mrd_drain_note_open(record->o.drain, process->process);
        process->news = (mrd_local_ns){ 0 };
    }
    mrd_record_note_drops(record);
    if (waits_for_commit(record) && mrd_record_commit(record, all) != MRD_OK)
        return; /* the disk is full: the records stay in the rings, and the next turn tries again */
    for (rec_process *process = record->processes, *next; process != NULL; process = next) {
        next = process->next;
        if (!process->releasing)
            continue;
        for (open_batch *batch = process->open_batches; batch != NULL; batch = batch->next)
            memset(batch->lost, 0, sizeof(batch->lost));
        process->releasing = false;
        if (!process->is_ring)
            continue;
        mrd_drain_release(record->o.drain, process->process); /* this call may free `process` */
    }
    /* The release may have ended processes and emitted their open spans, which need another
     * commit. */
    if (waits_for_commit(record))
        (void) mrd_record_commit(record, false);
}

void
mrd_record_step(mrd_record *record, mrd_local_ns now)
{
    turn(record, now, false);
    for (size_t i = 0; i < record->n_sessions; i++)
        session_step(record, &record->sessions[i], now);
}

void
mrd_record_flush(mrd_record *record)
{
    turn(record, (mrd_local_ns){ 0 }, true);
}

mrd_local_ns
mrd_record_next_ns(const mrd_record *record)
{
    mrd_local_ns next = { INT64_MAX };

    for (const rec_process *process = record->processes; process != NULL; process = process->next) {
        mrd_local_ns oldest = oldest_open(process);

        if (oldest.ns != INT64_MAX &&
            mrd_local_before(mrd_local_add(oldest, record->o.flush_ns), next))
            next = mrd_local_add(oldest, record->o.flush_ns);
        if (process->news.ns != 0 &&
            mrd_local_before(mrd_local_add(process->news, flush_of(record, process)), next))
            next = mrd_local_add(process->news, flush_of(record, process));
    }
    return next;
}

mrd_err
mrd_record_message(mrd_record *record, uint64_t id, uint8_t type, const void *message, mrd_why *why)
{
    mrd_frame frame = { .type = type,
                        .agent = record->o.agent,
                        .boot = record->o.boot,
                        .epoch = mrd_spool_epoch(record->o.spool),
                        .session = id,
                        .seq = mrd_spool_next_seq(record->o.spool, id) };
    mrd_err err;

    mrd_buf_reset(&record->frame);
    err = mrd_msg_pack(&frame, message, &record->frame, why);
    if (err == MRD_OK)
        err = mrd_spool_add(record->o.spool, (mrd_bytes){ record->frame.p, record->frame.len }, 0,
                            why);
    if (err != MRD_OK && type == MRD_FRAME_CLOCK_DATA)
        mrd_spool_lose_clock(record->o.spool, id);
    /* the frame becomes valid with the next commit of this turn, which also contains the positions
     * of the rings */
    return err;
}

void
mrd_record_delivered(mrd_record *record, const mrd_spool_item *item)
{
    session *sess = mrd_record_session_of(record, item->session);

    if (sess == NULL)
        return;
    /* the events of this frame were already counted as delivered before the last reboot */
    if (item->known)
        sess->st.begun -= item->events;
    else
        sess->st.delivered += item->events;
    sess->st.held -= item->events;
}

void
mrd_record_dropped(mrd_record *record, const mrd_spool_item *item, mrd_drop_cause cause)
{
    session *sess = mrd_record_session_of(record, item->session);

    if (sess != NULL)
        mrd_record_count_drop(sess, cause, item->events,
                              mrd_record_to_raw(record, item->clock, item->first),
                              mrd_record_to_raw(record, item->clock, item->last), false);
}

void
mrd_record_get_totals(const mrd_record *record, mrd_record_totals *ret_totals)
{
    *ret_totals = record->totals;
    for (const rec_process *process = record->processes; process != NULL; process = process->next)
        for (const open_batch *batch = process->open_batches; batch != NULL; batch = batch->next)
            ret_totals->open += batch->events;
    for (size_t i = 0; i < record->n_sessions; i++)
        for (size_t k = 0; k < record->sessions[i].n_buffered; k++)
            ret_totals->buffered += record->sessions[i].buffered[k].events;
}

void
mrd_record_note_cut(mrd_record *record, uint64_t id, unsigned n, const char *text)
{
    session *sess = mrd_record_session_of(record, id);

    if (sess == NULL)
        return;
    sess->st.cut_files += n;
    snprintf(sess->st.cut_file, sizeof(sess->st.cut_file), "%s", text);
}

void
mrd_record_withdraw_cut(mrd_record *record, uint64_t id)
{
    session *sess = mrd_record_session_of(record, id);

    if (sess == NULL || sess->st.cut_files == sess->st.cut_files_later)
        return;
    sess->st.cut_files_later++;
    snprintf(sess->st.cut_file, sizeof(sess->st.cut_file), "the agent's log names it");
}

void
mrd_record_hold_flush(mrd_record *record, uint64_t id, bool hold)
{
    session *sess = mrd_record_session_of(record, id);

    if (sess != NULL)
        sess->hold = hold;
}
