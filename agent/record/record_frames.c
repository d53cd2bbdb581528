/* agent/record/record_frames.c - sealed frames: into the spool, or into recorder memory until a window
 * wants them */
#include <stddef.h>
#include <stdlib.h>

#include "agent/record/record_int.h"
#include "base/vec.h"

/* ---- Frames ---- */

session *
mrd_record_session_of(const mrd_record *r, uint64_t id)
{
    for (size_t i = 0; i < r->n_sessions; i++)
        if (r->sessions[i].st.id == id)
            return (session *) (uintptr_t) &r->sessions[i];
    return NULL;
}

void
mrd_record_count_drop(session *s, mrd_drop_cause cause, uint64_t n, mrd_local_ns first,
                      mrd_local_ns last, bool marked)
{
    mrd_record_drop *d = &s->st.drops[cause];
    bool untimed = d->count == 0 || (d->first.ns == 0 && d->last.ns == 0); /* of another boot */
    mrd_gap gap = { first, last, n, (uint8_t) cause, marked, { 0 } };

    if (n == 0) /* a frame without events has no meaningful times */
        return;
    if (untimed || mrd_local_before(first, d->first))
        d->first = first;
    if (untimed || mrd_local_after(last, d->last))
        d->last = last;
    d->count += n;
    mrd_gaps_add(&s->st.gaps, &gap);
    s->st.held -= n;
    s->drops_changed = true;
}

/* The same for events that the agent as a whole loses here. */
void
mrd_record_lose(mrd_record *r, session *s, mrd_drop_cause cause, uint64_t n, mrd_local_ns first,
                mrd_local_ns last)
{
    mrd_record_count_drop(s, cause, n, first, last, false);
    r->totals.lost[cause] += n;
}

/* Gives a complete frame its number and adds it to the spool. */
mrd_drop_cause
mrd_record_to_spool(mrd_record *r, session *s, uint8_t *frame, size_t len, uint64_t events)
{
    mrd_frame f = { 0 };
    mrd_why why = { 0 };
    mrd_err err = mrd_frame_get((mrd_bytes){ frame, len }, &f, &why);
    mrd_drop_cause cause;

    if (err == MRD_OK) {
        f.epoch = mrd_spool_epoch(r->o.spool);
        f.seq = mrd_spool_next_seq(r->o.spool, s->st.id);
        mrd_frame_stamp(&f, frame);
        err = mrd_spool_add(r->o.spool, (mrd_bytes){ frame, len }, events, &why);
    }
    if (err == MRD_OK)
        return MRD_DROP_CAUSES;
    cause = err == MRD_NOMEM ? MRD_DROP_MEMORY : MRD_DROP_SPOOL;
    mrd_record_lose(r, s, cause, events, mrd_record_to_raw(r, f.clock, f.first),
                    mrd_record_to_raw(r, f.clock, f.last));
    return cause;
}

/* ---- Counts for a successor ---- */

static uint64_t
buffered_events(const session *s)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < s->n_buffered; i++)
        sum += s->buffered[i].events;
    return sum;
}

/* causes in a note, without MRD_DROP_DAMAGED, which the spool counts */
#define NOTE_CAUSES MRD_DROP_DAMAGED

/* The contents of a session's note. Shorter notes are from earlier releases. */
typedef struct {
    mrd_record_drop drops[NOTE_CAUSES];
    mrd_gaps gaps;
    uint32_t boot; /* mrd_boot_key of the clock of the times */
    uint32_t zero;
    uint64_t late; /* MRD_DROP_LATE; its times are in the gaps */
} drop_note;

/* Adds the times of events in recorder memory to the times of the cause. */
static void
note_buffered(const session *s, mrd_record_drop *d)
{
    for (size_t i = 0; i < s->n_buffered; i++) {
        const buffered_batch *k = &s->buffered[i];

        d->first = d->count == 0 || mrd_local_before(k->first, d->first) ? k->first : d->first;
        d->last = d->count == 0 || mrd_local_after(k->last, d->last) ? k->last : d->last;
        d->count += k->events;
    }
}

/* Leaves out losses with times in the spool. Events in recorder memory are lost with this agent, so
 * they are included. */
static void
note_gaps(const session *s, mrd_gaps *to)
{
    *to = (mrd_gaps){ .merged = s->st.gaps.merged };
    for (size_t i = 0; i < s->st.gaps.n; i++)
        if (s->st.gaps.v[i].cause != MRD_DROP_DAMAGED)
            mrd_gaps_add(to, &s->st.gaps.v[i]);
    if (s->n_buffered > 0) {
        mrd_record_drop d = { 0 };

        note_buffered(s, &d);
        mrd_gaps_add(to, &(mrd_gap){ d.first, d.last, d.count, MRD_DROP_RESTART, false, { 0 } });
    }
}

static bool
drops_wait(const session *s)
{
    return s->drops_changed || buffered_events(s) != s->buffered_reported;
}

bool
mrd_record_drops_wait(const mrd_record *r)
{
    for (size_t i = 0; i < r->n_sessions; i++) {
        if (drops_wait(&r->sessions[i]))
            return true;
    }
    return false;
}

/* Notes the drops of sessions in the spool, for the commit with the read positions. Excludes losses
 * of rings that are not released now, because a successor would count them again. Includes events
 * in recorder memory, which a successor will not have. */
void
mrd_record_note_drops(mrd_record *r)
{
    _Static_assert(sizeof(drop_note) <= MRD_SPOOL_NOTE, "room for a note");
    for (size_t i = 0; i < r->n_sessions; i++) {
        session *s = &r->sessions[i];
        drop_note note = { .boot = r->o.boot };
        mrd_record_drop *drops = note.drops;
        mrd_spool_tally tally;

        if (!drops_wait(s))
            continue;
        s->drops_changed = false;
        s->buffered_reported = buffered_events(s);
        memcpy(drops, s->st.drops, sizeof(note.drops));
        note.late = s->st.drops[MRD_DROP_LATE].count;
        mrd_spool_get_tally(r->o.spool, s->st.id, &tally);
        drops[MRD_DROP_SPOOL].count -= tally.forced; /* the spool counts these */
        drops[MRD_DROP_REFUSED].count -= tally.refused;
        note_buffered(s, &drops[MRD_DROP_RESTART]);
        note_gaps(s, &note.gaps);
        for (const rec_process *o = r->processes; o != NULL; o = o->next)
            for (const open_batch *l = o->open_batches; l != NULL; l = l->next)
                for (int c = 0; c < NOTE_CAUSES && l->of == s && !o->releasing; c++) {
                    drops[c].count -= l->lost[c];
                    s->drops_changed = s->drops_changed || l->lost[c] > 0;
                }
        (void) mrd_spool_note(r->o.spool, s->st.id, &note, sizeof(note));
    }
}

/* Returns true if the times of the note belong to this boot's clock. Times of another boot cannot
 * be converted, so the losses count without times. */
static bool
take_gaps(const mrd_record *r, session *s, const mrd_spool_tally *tally)
{
    /* Notes of releases without these members. */
    const size_t without_boot = offsetof(drop_note, boot), without_late = offsetof(drop_note, late);
    mrd_record_drop *late = &s->st.drops[MRD_DROP_LATE];
    drop_note note = { .boot = r->o.boot };

    if (tally->note_len != sizeof(note) && tally->note_len != without_late &&
        tally->note_len != without_boot)
        return true;
    memcpy(&note, tally->note, tally->note_len);
    late->count = note.late;
    if (note.boot != r->o.boot)
        return false;
    if (note.gaps.n <= MRD_GAPS_MAX)
        s->st.gaps = note.gaps;
    for (size_t i = 0; i < s->st.gaps.n; i++) {
        const mrd_gap *g = &s->st.gaps.v[i];

        if (g->cause != MRD_DROP_LATE)
            continue;
        late->first = late->first.ns == 0 ? g->first : mrd_local_min(late->first, g->first);
        late->last = mrd_local_max(late->last, g->last);
    }
    return true;
}

bool
mrd_record_base(const mrd_record *r, uint64_t id, mrd_record_status *ret_base)
{
    const mrd_spool_base *base = mrd_spool_get_base(r->o.spool, id);

    *ret_base = (mrd_record_status){ .id = id };
    if (base == NULL)
        return false;
    if (base->tally.note_len >= NOTE_CAUSES * sizeof(*ret_base->drops))
        memcpy(ret_base->drops, base->tally.note, NOTE_CAUSES * sizeof(*ret_base->drops));
    if (base->tally.note_len == sizeof(drop_note))
        memcpy(&ret_base->drops[MRD_DROP_LATE].count, base->tally.note + offsetof(drop_note, late),
               sizeof(uint64_t));
    for (int c = 0; c < MRD_DROP_CAUSES; c++) {
        ret_base->drops[c].first = ret_base->drops[c].last =
            (mrd_local_ns){ 0 }; /* another clock's */
        ret_base->begun += ret_base->drops[c].count;
    }
    ret_base->drops[MRD_DROP_SPOOL].count += base->tally.forced;
    ret_base->drops[MRD_DROP_REFUSED].count += base->tally.refused;
    ret_base->drops[MRD_DROP_DAMAGED].count = base->tally.damaged;
    ret_base->begun += base->begun;
    ret_base->delivered = base->tally.delivered;
    ret_base->held = base->held;
    return true;
}

/* A session of a predecessor continues with its counts. */
void
mrd_record_take_tally(mrd_record *r, session *s)
{
    mrd_spool_tally tally;

    mrd_spool_recall(r->o.spool, s->st.id);
    mrd_spool_get_tally(r->o.spool, s->st.id, &tally);
    if (tally.note_len >= NOTE_CAUSES * sizeof(*s->st.drops))
        memcpy(s->st.drops, tally.note, NOTE_CAUSES * sizeof(*s->st.drops));
    if (!take_gaps(r, s, &tally)) {
        for (int c = 0; c < NOTE_CAUSES; c++)
            s->st.drops[c].first = s->st.drops[c].last = (mrd_local_ns){ 0 };
        tally.damaged_first = tally.damaged_last = (mrd_ev_ns){ 0 };
        tally.damaged_clock = MRD_DRAIN_RAW;
    }
    s->st.drops[MRD_DROP_SPOOL].count += tally.forced;
    s->st.drops[MRD_DROP_REFUSED].count += tally.refused;
    s->st.drops[MRD_DROP_DAMAGED] =
        (mrd_record_drop){ tally.damaged,
                           mrd_record_to_raw(r, tally.damaged_clock, tally.damaged_first),
                           mrd_record_to_raw(r, tally.damaged_clock, tally.damaged_last) };
    if (s->st.drops[MRD_DROP_DAMAGED].last.ns != 0)
        mrd_gaps_add(&s->st.gaps, &(mrd_gap){ s->st.drops[MRD_DROP_DAMAGED].first,
                                              s->st.drops[MRD_DROP_DAMAGED].last,
                                              tally.damaged,
                                              MRD_DROP_DAMAGED,
                                              false,
                                              { 0 } });
    s->st.delivered = tally.delivered;
    (void) mrd_spool_held(r->o.spool, s->st.id, &s->st.held);
    s->st.begun = s->st.delivered + s->st.held;
    for (int c = 0; c < MRD_DROP_CAUSES; c++)
        s->st.begun += s->st.drops[c].count;
}

/* ---- The recorder ---- */

mrd_local_ns
mrd_record_to_raw(const mrd_record *r, unsigned clock, mrd_ev_ns at)
{
    return clock == MRD_DRAIN_REALTIME ? mrd_drain_to_raw(r->o.drain, (mrd_wall_ns){ at.ns })
                                       : (mrd_local_ns){ at.ns };
}

mrd_ev_ns
mrd_record_from_raw(const mrd_record *r, unsigned clock, mrd_local_ns raw)
{
    return (mrd_ev_ns){ clock == MRD_DRAIN_REALTIME ? mrd_drain_raw_to_wall(r->o.drain, raw).ns
                                                    : raw.ns };
}

static uint64_t
buffered_all(const mrd_record *r)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < r->n_sessions; i++)
        sum += r->sessions[i].st.recorder_bytes;
    return sum;
}

void
mrd_record_forget_oldest(mrd_record *r, session *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        mrd_record_lose(r, s, MRD_DROP_WINDOW, s->buffered[i].events, s->buffered[i].first,
                        s->buffered[i].last);
        s->st.recorder_bytes -= s->buffered[i].len;
        free(s->buffered[i].frame);
    }
    memmove(s->buffered, s->buffered + n, (s->n_buffered - n) * sizeof(*s->buffered));
    s->n_buffered -= n;
}

static void
remember_forgotten(session *s, const buffered_batch *k)
{
    forgotten f = { k->first, k->last, k->events }, *v;

    if (!MRD_VEC_ROOM_MAX(s->forgotten, s->n_forgotten, s->cap_forgotten, 1, FORGOTTEN_MAX)) {
        if ((v = s->forgotten) == NULL || s->n_forgotten < 2)
            return;
        v[1].first = mrd_local_min(v[0].first, v[1].first);
        v[1].events += v[0].events;
        memmove(v, v + 1, --s->n_forgotten * sizeof(*v));
    }
    s->forgotten[s->n_forgotten++] = f;
}

/* Older ones lie outside of all windows. */
static void
prune_forgotten(session *s, mrd_local_ns now)
{
    size_t n = 0;

    while (n < s->n_forgotten && s->params.recorder_ns > 0 &&
           s->forgotten[n].last.ns < now.ns - s->params.recorder_ns)
        n++;
    if (n > 0)
        memmove(s->forgotten, s->forgotten + n, (s->n_forgotten -= n) * sizeof(*s->forgotten));
}

/* Subtracts n events from the gaps of the cause, the newest first. */
static void
lessen_gaps(mrd_gaps *g, mrd_drop_cause cause, uint64_t n)
{
    for (size_t i = g->n; i-- > 0 && n > 0;) {
        uint64_t take = g->v[i].count < n ? g->v[i].count : n;

        if (g->v[i].cause != cause)
            continue;
        g->v[i].count -= take;
        n -= take;
    }
}

void
mrd_record_missed(session *s, mrd_local_ns from, mrd_local_ns to)
{
    mrd_local_ns first = { INT64_MAX }, last = { INT64_MIN };
    mrd_record_drop *let_go = &s->st.drops[MRD_DROP_WINDOW];
    uint64_t n = 0;
    size_t left = 0;

    for (size_t i = 0; i < s->n_forgotten; i++) {
        const forgotten *f = &s->forgotten[i];

        if (mrd_local_before(f->last, from) || mrd_local_after(f->first, to)) {
            s->forgotten[left++] = *f;
            continue;
        }
        first = mrd_local_min(f->first, first);
        last = mrd_local_max(f->last, last);
        n += f->events;
    }
    s->n_forgotten = left;
    n = n > let_go->count ? let_go->count : n;
    if (n == 0)
        return;
    from = mrd_local_before(from, s->st.start) ? s->st.start : from;
    let_go->count -= n; /* they were already counted, and belong to no window */
    lessen_gaps(&s->st.gaps, MRD_DROP_WINDOW, n);
    s->st.held += n;
    mrd_record_count_drop(s, MRD_DROP_RECORDER, n, mrd_local_before(first, from) ? from : first,
                          mrd_local_after(last, to) ? to : last, false);
}

/* Drops events that are older than the recorder's time, or exceed its memory. Pending windows keep
 * theirs, because those events were sent at the trigger. */
void
mrd_record_bound(mrd_record *r, session *s, mrd_local_ns now)
{
    size_t n = 0;
    uint64_t bytes = s->st.recorder_bytes, all = buffered_all(r);

    prune_forgotten(s, now);
    while (n < s->n_buffered) {
        bool old =
            s->params.recorder_ns > 0 && s->buffered[n].last.ns < now.ns - s->params.recorder_ns;

        if (!old &&
            (s->params.recorder_bytes == 0 || bytes <= (uint64_t) s->params.recorder_bytes) &&
            all <= r->o.recorder_max)
            break;
        if (!old)
            remember_forgotten(s, &s->buffered[n]);
        bytes -= s->buffered[n].len;
        all -= s->buffered[n].len;
        n++;
    }
    if (n > 0)
        mrd_record_forget_oldest(r, s, n);
}

bool
mrd_record_in_window(const session *s, mrd_local_ns first, mrd_local_ns last)
{
    for (size_t i = 0; i < s->n_windows; i++)
        if (!mrd_local_before(last, s->windows[i].from) &&
            !mrd_local_after(first, s->windows[i].to))
            return true;
    return false;
}

void
mrd_record_buffer(mrd_record *r, session *s, const buffered_batch *k)
{
    uint8_t *copy;

    if (mrd_record_in_window(s, k->first, k->last)) {
        mrd_record_to_spool(r, s, k->frame, k->len, k->events);
        return;
    }
    if (!MRD_VEC_ROOM(s->buffered, s->n_buffered, s->cap_buffered, 1)) {
        mrd_record_lose(r, s, MRD_DROP_MEMORY, k->events, k->first, k->last);
        return;
    }
    if ((copy = malloc(k->len)) == NULL) {
        mrd_record_lose(r, s, MRD_DROP_MEMORY, k->events, k->first, k->last);
        return;
    }
    memcpy(copy, k->frame, k->len);
    s->buffered[s->n_buffered] = *k;
    s->buffered[s->n_buffered++].frame = copy;
    s->st.recorder_bytes += k->len;
}
