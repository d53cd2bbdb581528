/* agent/record/record.c - puts events into open batches of every session that wants them, makes frames of
 * batches, commits the frames, and releases the rings */
#include <stdio.h>
#include <stdlib.h>

#include "agent/record/record_int.h"
#include "base/conf/agent_waits.h"
#include "base/vec.h"
#include "timesync/cross_table.h"

/* ---- Open batches ---- */

static void
add_cross(void *self, const mrd_cross_read *read)
{
    (void) mrd_batch_cross(self, read);
}

/* The first batch of a new process contains more cross-reads: also those before a step of the
 * clock, because its first events may have stamps from before the step. */
static void
add_crosses(mrd_record *r, open_batch *l)
{
    if (l->clock == MRD_DRAIN_RAW)
        return;
    mrd_drain_cross(r->o.drain);
    mrd_drain_crosses_since(r->o.drain, mrd_local_sub(l->opened, MRD_CROSS_LATE), add_cross,
                            l->batch);
}

/* Counts events of the open batch as lost. */
static void
lose(mrd_record *r, open_batch *l, mrd_drop_cause cause, uint64_t n, mrd_local_ns first,
     mrd_local_ns last)
{
    mrd_record_lose(r, l->of, cause, n, first, last);
    l->lost[cause] += n;
}

static void
seal(mrd_record *r, open_batch *l)
{
    session *s = l->of;
    mrd_frame ids = { .agent = r->o.agent,
                      .boot = r->o.boot,
                      .epoch = mrd_spool_epoch(r->o.spool),
                      .session = s->st.id,
                      .seq = mrd_spool_next_seq(r->o.spool, s->st.id) };
    uint64_t events = l->events;
    mrd_local_ns first, last;
    int64_t from = 0, to = 0;
    mrd_err err;

    if (l->batch == NULL || mrd_batch_events(l->batch) == 0)
        return;
    add_crosses(r, l);
    (void) mrd_batch_range(l->batch, &from, &to);
    first = mrd_record_to_raw(r, l->clock, (mrd_ev_ns){ from });
    last = mrd_local_max(mrd_record_to_raw(r, l->clock, (mrd_ev_ns){ to }), l->until);
    l->until = (mrd_local_ns){ 0 };
    mrd_buf_reset(&r->frame);
    err = mrd_batch_encode(l->batch, r->codec, r->o.codec, &ids, &r->frame, NULL);
    l->events = 0;
    l->opened = (mrd_local_ns){ 0 };
    if (err != MRD_OK) {
        mrd_batch_reset(l->batch);
        lose(r, l, err == MRD_NOMEM ? MRD_DROP_MEMORY : MRD_DROP_LIMIT, events, first, last);
        return;
    }
    s->st.batches++;
    s->st.bytes += r->frame.len;
    if (!s->st.recorder) {
        mrd_drop_cause cause = mrd_record_to_spool(r, s, r->frame.p, r->frame.len, events);

        if (cause != MRD_DROP_CAUSES)
            l->lost[cause] += events;
    } else
        mrd_record_buffer(
            r, s, &(buffered_batch){ r->frame.p, (uint32_t) r->frame.len, events, first, last });
}

void
mrd_record_open_batch_free(open_batch *l)
{
    mrd_batch_free(l->batch);
    free(l->tracks.v);
    free(l->names.v);
    free(l);
}

static rec_process *
process_add(mrd_record *r, mrd_drain_process *p)
{
    rec_process *o = calloc(1, sizeof(*o));

    if (o == NULL)
        return NULL;
    o->process = p;
    o->is_ring = (p->ident.start_ticks != MRD_NONE);
    o->next = r->processes;
    r->processes = o;
    p->user = o;
    return o;
}

static inline rec_process *
process_of(mrd_record *r, mrd_drain_process *p)
{
    return p->user != NULL ? p->user : process_add(r, p);
}

static open_batch *
open_batch_add(rec_process *o, session *s, unsigned clock)
{
    open_batch *l = calloc(1, sizeof(*l));

    if (l == NULL)
        return NULL;
    l->of = s;
    l->clock = clock;
    l->wanted = mrd_record_wants_process(s, o->process);
    l->chooses = mrd_record_chooses(s);
    l->next = o->open_batches;
    o->open_batches = l;
    return l;
}

static inline open_batch *
open_batch_of(rec_process *o, session *s, unsigned clock)
{
    open_batch *l = o->open_batches;

    while (l != NULL && (l->of != s || l->clock != clock))
        l = l->next;
    return l != NULL ? l : open_batch_add(o, s, clock);
}

/* Handles the first event of an open batch, or an event for which the batch has no room. */
static mrd_err
push_slow(mrd_record *r, rec_process *o, open_batch *l, const mrd_event *ev)
{
    mrd_err err;

    if (l->batch == NULL && (l->batch = mrd_batch_new(o->process->catalog, o->process->id, l->clock,
                                                      r->o.max_events)) == NULL)
        return MRD_NOMEM;
    err = mrd_batch_push(l->batch, ev);
    if (err == MRD_FULL) {
        seal(r, l);
        o->sealed = true;
        err = mrd_batch_push(l->batch, ev);
    }
    if (err == MRD_OK && l->opened.ns == 0)
        l->opened = mrd_local_now();
    return err;
}

static inline mrd_err
push(mrd_record *r, rec_process *o, open_batch *l, const mrd_event *ev)
{
    mrd_err err = l->opened.ns == 0 ? MRD_FULL : mrd_batch_push(l->batch, ev);

    return __builtin_expect(err == MRD_FULL, 0) ? push_slow(r, o, l, ev) : err;
}

static mrd_drop_cause
cause_of(const mrd_drain_process *p, const mrd_event *ev)
{
    mrd_drop_cause cause = mrd_drop_of(mrd_catalog_text(p->catalog, ev->name));

    return cause < MRD_DROP_CAUSES ? cause : MRD_DROP_RING_OTHER;
}

static inline bool
recording(const session *s, int64_t first_ns, int64_t last_ns)
{
    return mrd_record_is_under_way(s->st.phase) && last_ns >= s->st.start.ns &&
           first_ns <= s->st.stop.ns &&
           (s->n_pauses == 0 || !mrd_record_in_pause(s, first_ns, last_ns));
}

static inline void
add_event(mrd_record *r, rec_process *o, open_batch *l, const mrd_event *ev, int64_t raw)
{
    session *s = l->of;
    uint64_t n = ev->kind == MRD_LOSS ? (uint64_t) ev->ivalue : 1;
    mrd_err err = push(r, o, l, ev);

    s->st.begun += n;
    s->st.held += n;
    s->st.chosen += ev->kind != MRD_LOSS && ev->kind != MRD_COUNTER;
    if (ev->kind == MRD_LOSS) {
        mrd_drop_cause cause = cause_of(o->process, ev);

        mrd_record_count_drop(s, cause, n, (mrd_local_ns){ raw },
                              (mrd_local_ns){ raw + ev->dur_ns }, err == MRD_OK);
        l->lost[cause] += n;
    } else if (err == MRD_OK) {
        l->events++;
    } else {
        lose(r, l, err == MRD_NOMEM ? MRD_DROP_MEMORY : MRD_DROP_LIMIT, 1, (mrd_local_ns){ raw },
             (mrd_local_ns){ raw });
    }
}

/* If a loss began before the session or ended after it, only the session's part of the time is
 * marked. The number of events in that part is unknown, so all of them count. */
static void
add_loss(mrd_record *r, rec_process *o, open_batch *l, const mrd_event *ev, int64_t raw)
{
    const mrd_record_status *st = &l->of->st;
    int64_t end = raw + ev->dur_ns, first = raw < st->start.ns ? st->start.ns : raw;
    mrd_event part = *ev;

    end = end > st->stop.ns ? st->stop.ns : end;
    part.ts.ns += first - raw;
    part.dur_ns = end > first ? end - first : 0;
    add_event(r, o, l, &part, first);
}

/* Returns until when an unfinished span was open. */
static int64_t
open_until(const mrd_record *r, const mrd_drain_process *process, int64_t begin)
{
    mrd_local_ns end = process->open_until.ns == 0
                           ? ((mrd_local_ns){ INT64_MAX })
                           : mrd_record_to_raw(r, process->open_until_clock, process->open_until);

    return end.ns > begin ? end.ns : begin;
}

static bool
passes_gate(const mrd_record *r, rec_process *o, const session *s, const mrd_event *ev,
            mrd_local_ns first, mrd_local_ns last)
{
    mrd_step_gate *g = mrd_record_gate(r, o, s);

    if (g == NULL)
        return true;
    mrd_step_gate_see(g, o->process, ev, first, last, s->params.steps == STEPS_EXECUTION,
                      s->params.from_step, s->params.to_step);
    return mrd_step_gate_passes(g, first, last);
}

/* Counts the event for sessions that arrive later. Counters are not counted, because they are
 * sampled again for such a session. */
static inline void
note(rec_process *o, const mrd_event *ev, int64_t raw, int64_t end)
{
    const mrd_catalog *cat = o->process->catalog;

    if ((!o->is_ring && !o->is_file) ||
        (ev->kind == MRD_COUNTER &&
         mrd_catalog_borrow_track(cat, ev->track)->source == MRD_SRC_HOST))
        return;
    mrd_late_histogram_add(&o->passed[0], (mrd_local_ns){ end == INT64_MAX ? raw : end },
                           ev->kind == MRD_LOSS ? (uint64_t) ev->ivalue : 1);
}

/* `only` is 0, or the single session that gets the event. */
static inline mrd_err
take(mrd_record *r, uint64_t only, mrd_drain_process *process, unsigned clock, const mrd_event *ev)
{
    rec_process *o = process_of(r, process);
    int64_t raw = clock == MRD_DRAIN_RAW ? ev->ts.ns : mrd_record_to_raw(r, clock, ev->ts).ns;
    int64_t end = ev->dur_ns < 0 ? open_until(r, process, raw) : raw + ev->dur_ns;
    unsigned wanted = 0;

    if (o == NULL)
        return MRD_NOMEM;
    o->dirty = true;
    if (only == 0)
        note(o, ev, raw, end);
    for (size_t i = 0; i < r->n_sessions; i++) {
        session *s = &r->sessions[i];
        open_batch *l;

        if (!recording(s, raw, end) || (only != 0 && s->st.id != only))
            continue;
        if ((l = open_batch_of(o, s, clock)) == NULL)
            return MRD_NOMEM;
        if (!l->wanted ||
            (l->chooses &&
             !passes_gate(r, o, s, ev, (mrd_local_ns){ raw }, (mrd_local_ns){ end })) ||
            (l->chooses && !mrd_record_wants_event(l, process, ev))) {
            s->st.left_out += ev->kind != MRD_LOSS && ev->kind != MRD_COUNTER;
            continue;
        }
        wanted++;
        if (ev->kind == MRD_LOSS)
            add_loss(r, o, l, ev, raw);
        else
            add_event(r, o, l, ev, raw);
    }
    if (ev->kind != MRD_LOSS && wanted == 0)
        r->totals.unwanted++;
    else if (ev->kind != MRD_LOSS)
        r->totals.copies += wanted - 1;
    return MRD_OK;
}

/* Fast path for an event of the node's own clock, which is nearly always taken. It needs exactly
 * one recording session, which takes all events of the process into an open batch. Returns false,
 * without effect, if it is not. */
static inline bool
take_plain(mrd_record *r, const mrd_drain_process *process, const mrd_event *ev)
{
    rec_process *o = process->user;
    open_batch *l = o == NULL ? NULL : o->open_batches;
    session *s = r->sessions;

    if (l == NULL || r->n_sessions != 1 || l->of != s || l->clock != MRD_DRAIN_RAW ||
        l->opened.ns == 0 || !l->wanted || l->chooses || ev->kind == MRD_LOSS || ev->dur_ns < 0 ||
        !recording(s, ev->ts.ns, ev->ts.ns + ev->dur_ns) || mrd_batch_push(l->batch, ev) != MRD_OK)
        return false;
    o->dirty = true;
    note(o, ev, ev->ts.ns, ev->ts.ns + ev->dur_ns);
    s->st.begun++;
    s->st.held++;
    s->st.chosen += ev->kind != MRD_COUNTER;
    l->events++;
    return true;
}

mrd_err
mrd_record_event(mrd_record *r, mrd_drain_process *process, unsigned clock, const mrd_event *ev)
{
    if (clock == MRD_DRAIN_RAW && take_plain(r, process, ev))
        return MRD_OK;
    return take(r, 0, process, clock, ev);
}

mrd_err
mrd_record_event_of(mrd_record *r, uint64_t id, mrd_drain_process *process, unsigned clock,
                    const mrd_event *ev)
{
    return take(r, id, process, clock, ev);
}

/* ---- Open spans at a trigger or stop ---- */

typedef struct {
    mrd_record *r;
    session *s;
    mrd_local_ns until;
} in_flight;

/* Passes a span that began by then to that session only. It is a copy, and the span itself follows
 * when it ends. */
static void
take_open(void *self, mrd_drain_process *process, unsigned clock, const mrd_event *ev)
{
    const in_flight *f = self;
    mrd_record *r = f->r;
    rec_process *o = process->user;
    open_batch *l = open_batch_of(o, f->s, clock);
    mrd_local_ns raw = mrd_record_to_raw(r, clock, ev->ts);
    const mrd_step_gate *g = mrd_record_gate(r, o, f->s);

    if (l == NULL || (g != NULL && !mrd_step_gate_passes(g, raw, f->until)) ||
        mrd_local_after(raw, f->until) || !l->wanted ||
        (l->chooses && !mrd_record_wants_event(l, process, ev)))
        return;
    add_event(r, o, l, ev, raw.ns);
    if (mrd_local_after(f->until, l->until))
        l->until = f->until;
    if (l->batch != NULL)
        mrd_batch_reach(l->batch, mrd_record_from_raw(r, clock, f->until).ns);
    r->totals.copies++;
    f->s->st.in_flight++;
}

/* Passes the open spans of its processes that began by until_ns to the session, and closes the
 * batches with them. */
static void
tell_in_flight(mrd_record *r, session *s, const char *at, mrd_local_ns until)
{
    in_flight f = { r, s, until };

    for (rec_process *o = r->processes; o != NULL; o = o->next) {
        if (!o->is_ring || !mrd_record_wants_process(s, o->process))
            continue;
        o->dirty = true;
        mrd_drain_in_flight(r->o.drain, o->process, at, take_open, &f);
        for (open_batch *l = o->open_batches; l != NULL; l = l->next)
            if (l->of == s && l->until.ns != 0)
                seal(r, l);
    }
}

/* Passes starts that a successor could not read to all recording sessions, except flight recorders,
 * because their memory is lost with this agent. */
static void
take_long_open(void *self, mrd_drain_process *process, unsigned clock, const mrd_event *ev)
{
    in_flight f = { .r = self };
    mrd_local_ns now = mrd_local_now();

    for (size_t i = 0; i < f.r->n_sessions; i++) {
        f.s = &f.r->sessions[i];
        f.until = mrd_local_after(now, f.s->st.start) ? now : f.s->st.start;
        if (f.s->st.phase == MRD__NODE_PHASE__NODE_RECORDING && !f.s->st.recorder &&
            mrd_record_wants_process(f.s, process))
            take_open(&f, process, clock, ev);
    }
}

static void
seal_process(mrd_record *r, rec_process *o)
{
    for (open_batch *l = o->open_batches; l != NULL; l = l->next)
        seal(r, l);
    o->sealed = o->dirty = false;
}

mrd_err
mrd_record_process_seen(mrd_record *r, mrd_drain_process *process)
{
    rec_process *o = process_of(r, process);

    if (o == NULL)
        return MRD_NOMEM;
    mrd_record_tally_process(r, o);
    return MRD_OK;
}

mrd_err
mrd_record_file_seen(mrd_record *r, mrd_drain_process *process)
{
    rec_process *o = process_of(r, process);

    if (o == NULL)
        return MRD_NOMEM;
    o->is_file = true;
    return MRD_OK;
}

void
mrd_record_process_gone(mrd_record *r, mrd_drain_process *process)
{
    rec_process *o = process->user, **at = &r->processes;

    if (o == NULL)
        return;
    seal_process(r, o);
    mrd_record_note_gone(r, o);
    while (*at != o)
        at = &(*at)->next;
    *at = o->next;
    for (open_batch *l = o->open_batches, *next; l != NULL; l = next) {
        next = l->next;
        mrd_record_open_batch_free(l);
    }
    free(o);
    process->user = NULL;
}

/* ---- Turns ---- */

/* Closes windows that have ended, with time for late events. */
static void
close_windows(mrd_record *r, session *s, mrd_local_ns now)
{
    for (size_t i = 0; i < s->n_windows;)
        if (mrd_local_after(now, mrd_local_add(mrd_local_add(s->windows[i].to, r->o.flush_ns),
                                               MRD_WAIT_STOP_GRACE))) {
            tell_in_flight(r, s, "trigger", s->windows[i].to);
            s->windows[i] = s->windows[--s->n_windows];
        } else {
            i++;
        }
}

static bool
has_open(const mrd_record *r, const session *s)
{
    for (const rec_process *o = r->processes; o != NULL; o = o->next)
        for (const open_batch *l = o->open_batches; l != NULL; l = l->next)
            if (l->of == s && l->batch != NULL && mrd_batch_events(l->batch) > 0)
                return true;
    return false;
}

static void
add_unreported(void *self, mrd_drop_cause cause, uint64_t n, mrd_local_ns first, mrd_local_ns last)
{
    session *s = self;

    if (mrd_local_before(last, s->st.start) || mrd_local_after(first, s->st.stop))
        return;
    first = mrd_local_before(first, s->st.start) ? s->st.start : first;
    last = mrd_local_after(last, s->st.stop) ? s->st.stop : last;
    s->st.begun += n;
    s->st.held += n;
    mrd_record_count_drop(s, cause, n, first, last, false);
}

/* Counts losses of a process that wrote no event after them. */
static void
count_unreported(mrd_record *r, session *s)
{
    for (const rec_process *o = r->processes; o != NULL; o = o->next)
        if (o->is_ring && mrd_record_wants_process(s, o->process))
            mrd_drain_unreported(r->o.drain, o->process, add_unreported, s);
}

static void
session_step(mrd_record *r, session *s, mrd_local_ns now)
{
    if (s->st.recorder) {
        mrd_record_bound(r, s, now);
        close_windows(r, s, now);
    }
    if (s->st.phase != MRD__NODE_PHASE__NODE_STOPPING ||
        mrd_local_before(now, mrd_local_add(s->st.stop, MRD_WAIT_STOP_GRACE)) || has_open(r, s) ||
        s->n_windows > 0 || s->hold)
        return;
    if (!s->reported_in_flight && !s->st.recorder)
        tell_in_flight(r, s, "stop", s->st.stop);
    s->reported_in_flight = true;
    if (s->n_buffered > 0)
        mrd_record_forget_oldest(r, s, s->n_buffered);
    if (mrd_spool_held(r->o.spool, s->st.id, NULL) > 0)
        return;
    count_unreported(r, s);
    s->st.phase = MRD__NODE_PHASE__NODE_FLUSHED;
    s->st.flushed = now;
    mrd_record_write_notes(r);
}

static mrd_local_ns
oldest_open(const rec_process *o)
{
    mrd_local_ns oldest = { INT64_MAX };

    for (const open_batch *l = o->open_batches; l != NULL; l = l->next)
        if (l->opened.ns != 0 && mrd_local_before(l->opened, oldest))
            oldest = l->opened;
    return oldest;
}

static void
add_position(void *self, uint64_t ring, uint64_t read)
{
    mrd_record *r = self;

    if (!MRD_VEC_ROOM(r->positions, r->n_positions, r->cap_positions, 1))
        return; /* after a crash at this time a successor would read this ring's part twice */
    if (r->n_positions < MRD_SPOOL_POSITIONS)
        r->positions[r->n_positions++] = (mrd_spool_position){ ring, read };
}

static bool
due(mrd_record *r, rec_process *o, mrd_local_ns now)
{
    mrd_local_ns oldest = oldest_open(o);
    double pressure = o->is_ring ? mrd_drain_pressure(r->o.drain, o->process) : 0;
    bool news = o->is_ring && mrd_drain_open_news(r->o.drain, o->process);

    if (!o->dirty && pressure == 0 && !news)
        return false;
    if (o->sealed || pressure >= PRESSURE)
        return true;
    if (oldest.ns == INT64_MAX && !news)
        return true;
    /* many spans open and end at once, so changes are collected before they are written */
    if (news && o->news.ns == 0)
        o->news = now;
    return mrd_local_diff(now, oldest.ns == INT64_MAX ? o->news : oldest) >= r->o.flush_ns;
}

/* If the directory was removed, the file of sessions must be written again. */
static void
follow_folder(mrd_record *r)
{
    mrd_spool_stats stats;

    mrd_spool_get_stats(r->o.spool, &stats);
    if (stats.remade == r->spool_remade)
        return;
    r->spool_remade = stats.remade;
    mrd_record_write_notes(r);
}

/* Commits the frames up to now with r->positions and the positions of trace files. */
mrd_err
mrd_record_commit(mrd_record *r, bool all)
{
    uint64_t number = mrd_drain_open_number(r->o.drain);
    mrd_err err;

    if (r->n_positions == MRD_SPOOL_POSITIONS)
        /* after a crash at this time a successor would read that ring's part twice */
        r->n_positions--;
    if (number != 0)
        add_position(r, MRD_DRAIN_OPEN_KEY, number);
    if (r->o.files != NULL)
        r->o.files(r->o.files_self, add_position, r);
    err = mrd_spool_commit(r->o.spool, r->positions, r->n_positions, NULL);
    r->n_positions = 0;
    follow_folder(r);
    if (err == MRD_OK)
        mrd_drain_open_committed(r->o.drain, all);
    return err;
}

static bool
waits_for_commit(const mrd_record *r)
{
    return mrd_spool_uncommitted(r->o.spool) || mrd_drain_open_changed(r->o.drain);
}

/* A commit contains the positions of trace files, so the events up to them must be in frames, even
 * if the commit is only for a note of losses. */
static void
with_files(mrd_record *r)
{
    bool any = waits_for_commit(r) || mrd_record_drops_wait(r);

    for (const rec_process *o = r->processes; o != NULL && !any; o = o->next)
        any = o->releasing;
    for (rec_process *o = r->processes; o != NULL && any; o = o->next)
        o->releasing = o->releasing || o->is_file;
}

/* Closes the batches of the due processes (or all), commits them together with the read positions
 * of their rings, and only then releases the rings. */
static void
turn(mrd_record *r, mrd_local_ns now, bool all)
{
    r->n_positions = 0;
    all = all || mrd_drain_open_wants_all(r->o.drain);
    for (rec_process *o = r->processes; o != NULL; o = o->next)
        o->releasing = all || due(r, o, now);
    with_files(r);
    for (rec_process *o = r->processes; o != NULL; o = o->next) {
        if (!o->releasing)
            continue;
        if (o->is_ring)
            mrd_drain_long_open(r->o.drain, o->process, take_long_open, r);
        seal_process(r, o);
        if (!o->is_ring)
            continue;
        mrd_drain_positions(r->o.drain, o->process, add_position, r);
        mrd_drain_note_open(r->o.drain, o->process);
        o->news = (mrd_local_ns){ 0 };
    }
    mrd_record_note_drops(r);
    if (waits_for_commit(r) && mrd_record_commit(r, all) != MRD_OK)
        return; /* the disk is full: rings keep their records, and the next turn tries again */
    for (rec_process *o = r->processes, *next; o != NULL; o = next) {
        next = o->next;
        if (!o->releasing)
            continue;
        for (open_batch *l = o->open_batches; l != NULL; l = l->next)
            memset(l->lost, 0, sizeof(l->lost));
        o->releasing = false;
        if (!o->is_ring)
            continue;
        mrd_drain_release(r->o.drain, o->process); /* may free o */
    }
    /* Processes that ended with the release have emitted their open spans. */
    if (waits_for_commit(r))
        (void) mrd_record_commit(r, false);
}

void
mrd_record_step(mrd_record *r, mrd_local_ns now)
{
    turn(r, now, false);
    for (size_t i = 0; i < r->n_sessions; i++)
        session_step(r, &r->sessions[i], now);
}

void
mrd_record_flush(mrd_record *r)
{
    turn(r, (mrd_local_ns){ 0 }, true);
}

mrd_local_ns
mrd_record_next_ns(const mrd_record *r)
{
    mrd_local_ns next = { INT64_MAX };

    for (const rec_process *o = r->processes; o != NULL; o = o->next) {
        mrd_local_ns oldest = oldest_open(o);

        if (oldest.ns != INT64_MAX && mrd_local_before(mrd_local_add(oldest, r->o.flush_ns), next))
            next = mrd_local_add(oldest, r->o.flush_ns);
        if (o->news.ns != 0 && mrd_local_before(mrd_local_add(o->news, r->o.flush_ns), next))
            next = mrd_local_add(o->news, r->o.flush_ns);
    }
    return next;
}

mrd_err
mrd_record_message(mrd_record *r, uint64_t id, uint8_t type, const void *message, mrd_why *why)
{
    mrd_frame f = { .type = type,
                    .agent = r->o.agent,
                    .boot = r->o.boot,
                    .epoch = mrd_spool_epoch(r->o.spool),
                    .session = id,
                    .seq = mrd_spool_next_seq(r->o.spool, id) };
    mrd_err err;

    mrd_buf_reset(&r->frame);
    err = mrd_msg_pack(&f, message, &r->frame, why);
    if (err == MRD_OK)
        err = mrd_spool_add(r->o.spool, (mrd_bytes){ r->frame.p, r->frame.len }, 0, why);
    if (err != MRD_OK && type == MRD_FRAME_CLOCK_DATA)
        mrd_spool_lose_clock(r->o.spool, id);
    return err; /* counts from this turn's commit on, together with its rings */
}

void
mrd_record_delivered(mrd_record *r, const mrd_spool_item *item)
{
    session *s = mrd_record_session_of(r, item->session);

    if (s == NULL)
        return;
    if (item->known) /* counted in the boot that sent it */
        s->st.begun -= item->events;
    else
        s->st.delivered += item->events;
    s->st.held -= item->events;
}

void
mrd_record_dropped(mrd_record *r, const mrd_spool_item *item, mrd_drop_cause cause)
{
    session *s = mrd_record_session_of(r, item->session);

    if (s != NULL)
        mrd_record_count_drop(s, cause, item->events,
                              mrd_record_to_raw(r, item->clock, item->first),
                              mrd_record_to_raw(r, item->clock, item->last), false);
}

void
mrd_record_get_totals(const mrd_record *r, mrd_record_totals *ret_totals)
{
    *ret_totals = r->totals;
    for (const rec_process *o = r->processes; o != NULL; o = o->next)
        for (const open_batch *l = o->open_batches; l != NULL; l = l->next)
            ret_totals->open += l->events;
    for (size_t i = 0; i < r->n_sessions; i++)
        for (size_t k = 0; k < r->sessions[i].n_buffered; k++)
            ret_totals->buffered += r->sessions[i].buffered[k].events;
}

void
mrd_record_note_cut(mrd_record *r, uint64_t id, unsigned n, const char *text)
{
    session *s = mrd_record_session_of(r, id);

    if (s == NULL)
        return;
    s->st.cut_files += n;
    snprintf(s->st.cut_file, sizeof(s->st.cut_file), "%s", text);
}

void
mrd_record_withdraw_cut(mrd_record *r, uint64_t id)
{
    session *s = mrd_record_session_of(r, id);

    if (s == NULL || s->st.cut_files == s->st.cut_files_later)
        return;
    s->st.cut_files_later++;
    snprintf(s->st.cut_file, sizeof(s->st.cut_file), "the agent's log names it");
}

void
mrd_record_hold_flush(mrd_record *r, uint64_t id, bool hold)
{
    session *s = mrd_record_session_of(r, id);

    if (s != NULL)
        s->hold = hold;
}
