/* agent/record/record_frames.c - puts sealed frames into the spool. Frames of a flight recorder
 * stay in memory until a trigger requests their time range. */
#include <stddef.h>
#include <stdlib.h>

#include "agent/record/record_int.h"
#include "base/vec.h"

/* ---- Counting lost events ---- */

session *
mrd_record_session_of(const mrd_record *record, uint64_t id)
{
    for (size_t i = 0; i < record->n_sessions; i++)
        if (record->sessions[i].st.id == id)
            return (session *) (uintptr_t) &record->sessions[i];
    return NULL;
}

void
mrd_record_count_drop(session *sess, mrd_drop_cause cause, uint64_t n, mrd_local_ns first,
                      mrd_local_ns last, bool marked)
{
    mrd_record_drop *drop = &sess->st.drops[cause];
    bool untimed =
        /* true if `drop` has no times: it has no events, or its events were counted in another
         * boot */
        drop->count == 0 || (drop->first.ns == 0 && drop->last.ns == 0);
    mrd_gap gap = { first, last, n, (uint8_t) cause, marked, { 0 } };

    if (n == 0) /* a frame without events has no valid times in `first` and `last` */
        return;
    if (untimed || mrd_local_before(first, drop->first))
        drop->first = first;
    if (untimed || mrd_local_after(last, drop->last))
        drop->last = last;
    drop->count += n;
    mrd_gaps_add(&sess->st.gaps, &gap);
    sess->st.held -= n;
    sess->drops_changed = true;
}

/* Like mrd_record_count_drop, but counts the events as lost in the agent's totals as well. */
void
mrd_record_lose(mrd_record *record, session *sess, mrd_drop_cause cause, uint64_t n,
                mrd_local_ns first, mrd_local_ns last)
{
    mrd_record_count_drop(sess, cause, n, first, last, false);
    record->totals.lost[cause] += n;
}

/* Writes the session's next sequence number into a complete frame and adds the frame to the
 * spool. */
mrd_drop_cause
mrd_record_to_spool(mrd_record *record, session *sess, uint8_t *frame, size_t len, uint64_t events)
{
    mrd_frame f = { 0 };
    mrd_why why = { 0 };
    mrd_err err = mrd_frame_get((mrd_bytes){ frame, len }, &f, &why);
    mrd_drop_cause cause;

    if (err == MRD_OK) {
        f.epoch = mrd_spool_epoch(record->o.spool);
        f.seq = mrd_spool_next_seq(record->o.spool, sess->st.id);
        mrd_frame_stamp(&f, frame);
        err = mrd_spool_add(record->o.spool, (mrd_bytes){ frame, len }, events, &why);
    }
    if (err == MRD_OK)
        return MRD_DROP_CAUSES;
    cause = err == MRD_NOMEM ? MRD_DROP_MEMORY : MRD_DROP_SPOOL;
    mrd_record_lose(record, sess, cause, events, mrd_record_to_raw(record, f.clock, f.first),
                    mrd_record_to_raw(record, f.clock, f.last));
    return cause;
}

/* ---- Counts that are saved for the next agent ---- */

static uint64_t
buffered_events(const session *sess)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < sess->n_buffered; i++)
        sum += sess->buffered[i].events;
    return sum;
}

/* Number of causes of loss that are saved in a session's note. Causes from MRD_DROP_DAMAGED on are
 * left out, because the spool counts them. */
#define NOTE_CAUSES MRD_DROP_DAMAGED

/* The counts of lost events that the spool saves for a session (its note). Earlier releases wrote
 * shorter notes without the last members. */
typedef struct {
    mrd_record_drop drops[NOTE_CAUSES];
    mrd_gaps gaps;
    uint32_t boot; /* mrd_boot_key of the boot in which the times were measured */
    uint32_t zero;
    uint64_t late; /* number of events lost for MRD_DROP_LATE; their times are in `gaps` */
} drop_note;

/* Adds the events in recorder memory to *drop, with their times, because they are lost when this
 * agent ends. */
static void
note_buffered(const session *sess, mrd_record_drop *drop)
{
    for (size_t i = 0; i < sess->n_buffered; i++) {
        const buffered_batch *batch = &sess->buffered[i];

        drop->first = drop->count == 0 || mrd_local_before(batch->first, drop->first) ? batch->first
                                                                                      : drop->first;
        drop->last =
            drop->count == 0 || mrd_local_after(batch->last, drop->last) ? batch->last : drop->last;
        drop->count += batch->events;
    }
}

/* Collects the times of lost events that are saved in the session's note. Leaves out losses by
 * damage, because the spool has their times. Includes the events in recorder memory, because they
 * are lost when this agent ends. */
static void
note_gaps(const session *sess, mrd_gaps *to)
{
    *to = (mrd_gaps){ .merged = sess->st.gaps.merged };
    for (size_t i = 0; i < sess->st.gaps.n; i++)
        if (sess->st.gaps.v[i].cause != MRD_DROP_DAMAGED)
            mrd_gaps_add(to, &sess->st.gaps.v[i]);
    if (sess->n_buffered > 0) {
        mrd_record_drop drop = { 0 };

        note_buffered(sess, &drop);
        mrd_gaps_add(
            to, &(mrd_gap){ drop.first, drop.last, drop.count, MRD_DROP_RESTART, false, { 0 } });
    }
}

static bool
drops_wait(const session *sess)
{
    return sess->drops_changed || buffered_events(sess) != sess->buffered_reported;
}

bool
mrd_record_drops_wait(const mrd_record *record)
{
    for (size_t i = 0; i < record->n_sessions; i++) {
        if (drops_wait(&record->sessions[i]))
            return true;
    }
    return false;
}

/* Writes the drops of sessions into their notes in the spool, which become valid with the next
 * commit. Leaves out losses in rings that this commit does not release, because the next agent will
 * count them. Includes the events in recorder memory, because the next agent will not have them. */
void
mrd_record_note_drops(mrd_record *record)
{
    _Static_assert(sizeof(drop_note) <= MRD_SPOOL_NOTE, "room for a note");
    for (size_t i = 0; i < record->n_sessions; i++) {
        session *sess = &record->sessions[i];
        drop_note note = { .boot = record->o.boot };
        mrd_record_drop *drops = note.drops;
        mrd_spool_tally tally;

        if (!drops_wait(sess))
            continue;
        sess->drops_changed = false;
        sess->buffered_reported = buffered_events(sess);
        memcpy(drops, sess->st.drops, sizeof(note.drops));
        note.late = sess->st.drops[MRD_DROP_LATE].count;
        mrd_spool_get_tally(record->o.spool, sess->st.id, &tally);
        /* leave out the drops that the spool counts itself */
        drops[MRD_DROP_SPOOL].count -= tally.forced;
        drops[MRD_DROP_REFUSED].count -= tally.refused;
        note_buffered(sess, &drops[MRD_DROP_RESTART]);
        note_gaps(sess, &note.gaps);
        for (const rec_process *process = record->processes; process != NULL;
             process = process->next)
            for (const open_batch *batch = process->open_batches; batch != NULL;
                 batch = batch->next)
                for (int c = 0; c < NOTE_CAUSES && batch->of == sess && !process->releasing; c++) {
                    drops[c].count -= batch->lost[c];
                    sess->drops_changed = sess->drops_changed || batch->lost[c] > 0;
                }
        (void) mrd_spool_note(record->o.spool, sess->st.id, &note, sizeof(note));
    }
}

/* Reads the times of losses from the session's note. Returns false if they were measured in another
 * boot. Such times cannot be converted, so the losses then have no times. */
static bool
take_gaps(const mrd_record *record, session *sess, const mrd_spool_tally *tally)
{
    /* A note of an earlier release ends at one of these offsets. */
    const size_t without_boot = offsetof(drop_note, boot), without_late = offsetof(drop_note, late);
    mrd_record_drop *late = &sess->st.drops[MRD_DROP_LATE];
    drop_note note = { .boot = record->o.boot };

    if (tally->note_len != sizeof(note) && tally->note_len != without_late &&
        tally->note_len != without_boot)
        return true;
    memcpy(&note, tally->note, tally->note_len);
    late->count = note.late;
    if (note.boot != record->o.boot)
        return false;
    if (note.gaps.n <= MRD_GAPS_MAX)
        sess->st.gaps = note.gaps;
    for (size_t i = 0; i < sess->st.gaps.n; i++) {
        const mrd_gap *gap = &sess->st.gaps.v[i];

        if (gap->cause != MRD_DROP_LATE)
            continue;
        late->first = late->first.ns == 0 ? gap->first : mrd_local_min(late->first, gap->first);
        late->last = mrd_local_max(late->last, gap->last);
    }
    return true;
}

bool
mrd_record_base(const mrd_record *record, uint64_t id, mrd_record_status *ret_base)
{
    const mrd_spool_base *base = mrd_spool_get_base(record->o.spool, id);

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
            /* no times, because the losses were measured by the clock of another boot */
            (mrd_local_ns){ 0 };
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

/* Initialises the session's counts from the spool. They are not zero if the session was already
 * recorded on this node, for example by a previous agent. */
void
mrd_record_take_tally(mrd_record *record, session *sess)
{
    mrd_spool_tally tally;

    mrd_spool_recall(record->o.spool, sess->st.id);
    mrd_spool_get_tally(record->o.spool, sess->st.id, &tally);
    if (tally.note_len >= NOTE_CAUSES * sizeof(*sess->st.drops))
        memcpy(sess->st.drops, tally.note, NOTE_CAUSES * sizeof(*sess->st.drops));
    if (!take_gaps(record, sess, &tally)) {
        for (int c = 0; c < NOTE_CAUSES; c++)
            sess->st.drops[c].first = sess->st.drops[c].last = (mrd_local_ns){ 0 };
        tally.damaged_first = tally.damaged_last = (mrd_ev_ns){ 0 };
        tally.damaged_clock = MRD_DRAIN_RAW;
    }
    sess->st.drops[MRD_DROP_SPOOL].count += tally.forced;
    sess->st.drops[MRD_DROP_REFUSED].count += tally.refused;
    sess->st.drops[MRD_DROP_DAMAGED] =
        (mrd_record_drop){ tally.damaged,
                           mrd_record_to_raw(record, tally.damaged_clock, tally.damaged_first),
                           mrd_record_to_raw(record, tally.damaged_clock, tally.damaged_last) };
    if (sess->st.drops[MRD_DROP_DAMAGED].last.ns != 0)
        mrd_gaps_add(&sess->st.gaps, &(mrd_gap){ sess->st.drops[MRD_DROP_DAMAGED].first,
                                                 sess->st.drops[MRD_DROP_DAMAGED].last,
                                                 tally.damaged,
                                                 MRD_DROP_DAMAGED,
                                                 false,
                                                 { 0 } });
    sess->st.delivered = tally.delivered;
    (void) mrd_spool_held(record->o.spool, sess->st.id, &sess->st.held);
    sess->st.begun = sess->st.delivered + sess->st.held;
    for (int c = 0; c < MRD_DROP_CAUSES; c++)
        sess->st.begun += sess->st.drops[c].count;
}

/* ---- The memory of flight recorders ---- */

mrd_local_ns
mrd_record_to_raw(const mrd_record *record, unsigned clock, mrd_ev_ns at)
{
    return clock == MRD_DRAIN_REALTIME ? mrd_drain_to_raw(record->o.drain, (mrd_wall_ns){ at.ns })
                                       : (mrd_local_ns){ at.ns };
}

mrd_ev_ns
mrd_record_from_raw(const mrd_record *record, unsigned clock, mrd_local_ns raw)
{
    return (mrd_ev_ns){ clock == MRD_DRAIN_REALTIME ? mrd_drain_raw_to_wall(record->o.drain, raw).ns
                                                    : raw.ns };
}

static uint64_t
buffered_all(const mrd_record *record)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < record->n_sessions; i++)
        sum += record->sessions[i].st.recorder_bytes;
    return sum;
}

void
mrd_record_forget_oldest(mrd_record *record, session *sess, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        mrd_record_lose(record, sess, MRD_DROP_WINDOW, sess->buffered[i].events,
                        sess->buffered[i].first, sess->buffered[i].last);
        sess->st.recorder_bytes -= sess->buffered[i].len;
        free(sess->buffered[i].frame);
    }
    memmove(sess->buffered, sess->buffered + n, (sess->n_buffered - n) * sizeof(*sess->buffered));
    sess->n_buffered -= n;
}

static void
remember_forgotten(session *sess, const buffered_batch *batch)
{
    forgotten f = { batch->first, batch->last, batch->events }, *v;

    if (!MRD_VEC_ROOM_MAX(sess->forgotten, sess->n_forgotten, sess->cap_forgotten, 1,
                          FORGOTTEN_MAX)) {
        if ((v = sess->forgotten) == NULL || sess->n_forgotten < 2)
            return;
        v[1].first = mrd_local_min(v[0].first, v[1].first);
        v[1].events += v[0].events;
        memmove(v, v + 1, --sess->n_forgotten * sizeof(*v));
    }
    sess->forgotten[sess->n_forgotten++] = f;
}

/* Removes entries of sess->forgotten that are too old for any trigger window. */
static void
prune_forgotten(session *sess, mrd_local_ns now)
{
    size_t n = 0;

    while (n < sess->n_forgotten && sess->params.recorder_ns > 0 &&
           sess->forgotten[n].last.ns < now.ns - sess->params.recorder_ns)
        n++;
    if (n > 0)
        memmove(sess->forgotten, sess->forgotten + n,
                (sess->n_forgotten -= n) * sizeof(*sess->forgotten));
}

/* Subtracts n lost events from the gaps of this cause, beginning with the newest gap. */
static void
lessen_gaps(mrd_gaps *gaps, mrd_drop_cause cause, uint64_t n)
{
    for (size_t i = gaps->n; i-- > 0 && n > 0;) {
        uint64_t take = gaps->v[i].count < n ? gaps->v[i].count : n;

        if (gaps->v[i].cause != cause)
            continue;
        gaps->v[i].count -= take;
        n -= take;
    }
}

void
mrd_record_missed(session *sess, mrd_local_ns from, mrd_local_ns to)
{
    mrd_local_ns first = { INT64_MAX }, last = { INT64_MIN };
    mrd_record_drop *let_go = &sess->st.drops[MRD_DROP_WINDOW];
    uint64_t count = 0;
    size_t left = 0;

    for (size_t i = 0; i < sess->n_forgotten; i++) {
        const forgotten *f = &sess->forgotten[i];

        if (mrd_local_before(f->last, from) || mrd_local_after(f->first, to)) {
            sess->forgotten[left++] = *f;
            continue;
        }
        first = mrd_local_min(f->first, first);
        last = mrd_local_max(f->last, last);
        count += f->events;
    }
    sess->n_forgotten = left;
    count = count > let_go->count ? let_go->count : count;
    if (count == 0)
        return;
    from = mrd_local_before(from, sess->st.start) ? sess->st.start : from;
    /* Until now these events counted as outside of all trigger windows (MRD_DROP_WINDOW). From now
     * on they count as missing in this window (MRD_DROP_RECORDER). */
    let_go->count -= count;
    lessen_gaps(&sess->st.gaps, MRD_DROP_WINDOW, count);
    sess->st.held += count;
    mrd_record_count_drop(sess, MRD_DROP_RECORDER, count,
                          mrd_local_before(first, from) ? from : first,
                          mrd_local_after(last, to) ? to : last, false);
}

/* Drops events that are older than the flight recorder's time limit, or that exceed its memory.
 * This does not affect a trigger window that is still open, because its older events were sent at
 * the trigger. */
void
mrd_record_bound(mrd_record *record, session *sess, mrd_local_ns now)
{
    size_t count = 0;
    uint64_t bytes = sess->st.recorder_bytes, all = buffered_all(record);

    prune_forgotten(sess, now);
    while (count < sess->n_buffered) {
        bool old = sess->params.recorder_ns > 0 &&
                   sess->buffered[count].last.ns < now.ns - sess->params.recorder_ns;

        if (!old &&
            (sess->params.recorder_bytes == 0 || bytes <= (uint64_t) sess->params.recorder_bytes) &&
            all <= record->o.recorder_max)
            break;
        if (!old)
            remember_forgotten(sess, &sess->buffered[count]);
        bytes -= sess->buffered[count].len;
        all -= sess->buffered[count].len;
        count++;
    }
    if (count > 0)
        mrd_record_forget_oldest(record, sess, count);
}

bool
mrd_record_in_window(const session *sess, mrd_local_ns first, mrd_local_ns last)
{
    for (size_t i = 0; i < sess->n_windows; i++)
        if (!mrd_local_before(last, sess->windows[i].from) &&
            !mrd_local_after(first, sess->windows[i].to))
            return true;
    return false;
}

void
mrd_record_buffer(mrd_record *record, session *sess, const buffered_batch *batch)
{
    uint8_t *copy;

    if (mrd_record_in_window(sess, batch->first, batch->last)) {
        mrd_record_to_spool(record, sess, batch->frame, batch->len, batch->events);
        return;
    }
    if (!MRD_VEC_ROOM(sess->buffered, sess->n_buffered, sess->cap_buffered, 1)) {
        mrd_record_lose(record, sess, MRD_DROP_MEMORY, batch->events, batch->first, batch->last);
        return;
    }
    if ((copy = malloc(batch->len)) == NULL) {
        mrd_record_lose(record, sess, MRD_DROP_MEMORY, batch->events, batch->first, batch->last);
        return;
    }
    memcpy(copy, batch->frame, batch->len);
    sess->buffered[sess->n_buffered] = *batch;
    sess->buffered[sess->n_buffered++].frame = copy;
    sess->st.recorder_bytes += batch->len;
}
