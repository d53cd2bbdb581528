#include "agent/spool/spool.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/spool/spool_int.h"
#include "base/hash.h"

#define SEGMENTS_KEPT 16u /* a segment is this fraction of the whole */
#define NOTES_KEPT    16u /* of removed sessions; each segment begins with all of them */
#define WINDOW_MAX    16u /* concurrent frames in flight: MRD_LINK_WINDOW_MAX */

/* ---- Room ---- */

/* Adds to the sums the answers that only this segment contains, and its dropped frames for which
 * there was no room in a record. While the segment exists, a successor finds these frames again, so
 * the sums leave them out (mrd_spool_known). After its removal the segments must contain these
 * answers as soon as there is room, because a slot of the counts may be torn. Returns true if there
 * were any. number 0 means all segments. */
static bool
add_to_sums(mrd_spool *s, uint64_t number)
{
    uint64_t before = s->unreported;
    bool any = false;

    for (size_t i = 0; i < s->n && s->unreported > 0; i++) {
        entry *e = &s->entries[s->first + i];

        if (e->unreported == 0 || (number != 0 && e->segment != number))
            continue;
        e->unreported = 0;
        s->unreported--;
        mrd_spool_set_behind(s, e->item.session);
    }
    for (size_t i = 0; i < s->n_sequences; i++) { /* of the oldest segment, by drop_oldest */
        sequence *q = &s->sequences[i];

        if (q->there > 0)
            any = q->behind = s->behind = true;
        q->there = 0;
    }
    return any || s->unreported < before;
}

/* The order matters if this process is killed before the removal, or before the sums are written
 * after it. A successor then finds either the frames or the sums that include them, never both or
 * neither. */
static void
remove_oldest(mrd_spool *s)
{
    uint64_t number = s->segments[0].number;
    bool added = add_to_sums(s, number);

    if (added)
        mrd_spool_counts_going(s, number);
    mrd_spool_remove_segment(s, 0);
    if (added)
        mrd_spool_counts_write_all(s);
}

/* Writes answers that had no room, in order, and data that only the counts have, when there is
 * room. */
static void
tell_again(mrd_spool *s)
{
    for (size_t i = 0; i < s->n && s->unreported > 0; i++) {
        entry *e = &s->entries[s->first + i];
        answer_record a = { e->item.epoch,  e->item.session,   e->item.seq,
                            e->item.events, e->unreported - 1, 0 };

        if (e->unreported == 0)
            continue;
        if (!mrd_spool_write_answer(s, &a))
            return;
        e->unreported = 0;
        s->unreported--;
    }
    mrd_spool_catch_up(s);
}

/* The positions of the last commit: a successor continues from them until a later commit is
 * written. */
static bool
holds_positions(const mrd_spool *s)
{
    return s->segments[0].number == s->positions_segment;
}

static void
forget_done(mrd_spool *s)
{
    tell_again(s);
    /* In order, because a segment contains answers to the frames of earlier segments. */
    while (s->n_segments > 1 && s->segments[0].live == 0 && !holds_positions(s))
        remove_oldest(s);
    while (s->n > 0 && s->entries[s->first].done && s->entries[s->first].unreported == 0) {
        s->first++;
        s->n--;
    }
    if (s->n == 0)
        s->first = 0;
    mrd_spool_catch_up(s);
}

/* A frame in flight may be stored already, so it stays in memory. If this process ends, its
 * successor counts it as dropped. */
static bool
rescue(const mrd_spool *s, entry *e)
{
    const segment *seg = mrd_spool_find_segment(s, e->segment);
    uint8_t *copy = e->sent && seg != NULL ? malloc(e->item.len) : NULL;

    if (copy != NULL && pread(seg->fd, copy, e->item.len, (off_t) e->at) != (ssize_t) e->item.len) {
        free(copy);
        copy = NULL;
    }
    e->copy = copy;
    return copy != NULL;
}

static bool
is_clock(const entry *e)
{
    return e->item.type == MRD_FRAME_CLOCK_DATA;
}

/* The counts show which of this epoch's frames were dropped. A frame of an earlier epoch, or of a
 * session without a slot, is completed and counted by one record. So after a kill before the
 * segment's removal neither is found without the other. Without room for the record, the frame is
 * counted when its segment is removed (remove_oldest). */
static void
count_forced(mrd_spool *s, sequence *q, const entry *e)
{
    answer_record a = { e->item.epoch, e->item.session,   e->item.seq, 0,
                        ANSWER_STORED, 0 - e->item.events };
    bool apart = q->slot == 0 || e->item.epoch != s->epoch;

    q->tally.forced += e->item.events;
    if (apart && mrd_spool_write_answer(s, &a))
        return;
    q->ahead -= (int64_t) e->item.events; /* the session's record counts it */
    if (apart)
        q->there += e->item.events;
}

/* Drops the oldest segment with its frames. Tallies are written first because a successor needs
 * them. On a full disk there is room only afterwards. */
static void
drop_oldest(mrd_spool *s)
{
    uint64_t number = s->segments[0].number;

    for (size_t i = 0; i < s->n; i++) {
        entry *e = &s->entries[s->first + i];
        sequence *q;

        if (e->segment != number || e->done)
            continue;
        q = mrd_spool_find_sequence(s, e->item.session);
        if (q != NULL) {
            count_forced(s, q, e);
            q->clock_lost += is_clock(e);
            q->behind = s->behind = true;
        }
        if (rescue(s, e)) {
            if (q != NULL)
                q->clock_rescued += is_clock(e);
            s->segments[0].live--;
            e->segment = 0;
            continue;
        }
        mrd_spool_complete(s, e);
        if (s->dropped != NULL)
            s->dropped(s->self, &e->item);
    }
    /* First, because after a kill before the segment's removal a successor finds its frames again
     * and must see that they are counted. */
    mrd_spool_counts_write_all(s);
    mrd_spool_catch_up(s);
    if (holds_positions(s)) /* no other segment can make room */
        remove_oldest(s);
    forget_done(s);
}

/* Frames of the oldest segment are not committed. If dropped they would be counted, and a successor
 * would read them again from their rings. */
static bool
waits_for_commit(const mrd_spool *s)
{
    for (size_t i = s->n; i > 0; i--) {
        const entry *e = &s->entries[s->first + i - 1];

        if (e->item.id < s->committed_id)
            return false;
        if (!e->done && e->segment == s->segments[0].number)
            return true;
    }
    return false;
}

/* Makes room for `more` bytes: a segment that is not full, and a sum below the limit unless the
 * oldest segment waits for its commit. */
static mrd_err
make_room(mrd_spool *s, size_t more, mrd_why *why)
{
    mrd_err err;

    if (s->n_segments == 0 || s->segments[s->n_segments - 1].len + more > s->segment_bytes ||
        !mrd_spool_takes_records(s)) {
        err = mrd_spool_new_segment(s, why);
        if (err != MRD_OK)
            return err;
        forget_done(s);
    }
    while (s->n_segments > 1 && s->stats.file_bytes + more > s->max_bytes && !waits_for_commit(s))
        drop_oldest(s);
    return MRD_OK;
}

/* ---- Clock data, and the start ---- */

/* The count is written at once if there is room, because a successor needs it. */
static void
clock_changed(mrd_spool *s, sequence *q)
{
    segment *last = s->n_segments == 0 ? NULL : &s->segments[s->n_segments - 1];

    if (s->dir == NULL || last == NULL)
        return;
    if (mrd_spool_write_clock(last, q) == MRD_OK)
        s->stats.file_bytes += sizeof(record_head) + sizeof(clock_record);
    else
        q->behind = s->behind = true;
}

/* A frame of clock data was stored, or refused for good. */
static void
count_clock_answer(mrd_spool *s, uint64_t session, bool rescued, bool stored)
{
    sequence *q = mrd_spool_find_sequence(s, session);
    uint64_t before = q == NULL ? 0 : q->clock_lost;

    if (q == NULL)
        return;
    q->clock_rescued -= rescued;
    q->clock_lost -= rescued;
    q->clock_lost += !stored;
    if (q->clock_lost != before)
        clock_changed(s, q);
}

uint64_t
mrd_spool_clock_lost(const mrd_spool *s, uint64_t session)
{
    const sequence *q = mrd_spool_find_sequence(s, session);

    return q == NULL ? 0 : q->clock_lost - q->clock_rescued;
}

void
mrd_spool_lose_clock(mrd_spool *s, uint64_t session)
{
    sequence *q;

    if (mrd_spool_take_sequence(s, session, &q) != MRD_OK)
        return;
    q->clock_lost++;
    clock_changed(s, q);
}

/* Removes empty segments up to the one with the positions of the last commit, before anything is
 * written. On a full disk this makes room for answers. */
static void
forget_before_positions(mrd_spool *s)
{
    while (s->n_segments > 1 && s->segments[0].live == 0 &&
           s->segments[0].number < s->positions_segment)
        mrd_spool_remove_segment(s, 0);
}

/* Writes answers again that were lost with the end of the segments, for a successor. They are
 * already counted. Until all are written, only the counts have them, and the counts must not be
 * written before, because they name the frames of one epoch. Errors: FULL, IO. */
static mrd_err
answer_cut(mrd_spool *s)
{
    segment *last = &s->segments[s->n_segments - 1];
    uint64_t before = last->len;
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < s->n && err == MRD_OK; i++) {
        const entry *e = &s->entries[s->first + i];
        answer_record a = { e->item.epoch, e->item.session, e->item.seq, 0, ANSWER_STORED, 0 };

        if (e->cut && mrd_spool_find_segment(s, e->segment) != NULL)
            err = mrd_spool_write_record(
                last, KIND_ACK, (mrd_bytes){ (const void *) &a, sizeof(a) }, (mrd_bytes){ 0 });
    }
    s->stats.file_bytes += last->len - before;
    return err;
}

/* Begins the first segment of this run of the agent, with the state of earlier ones. */
static mrd_err
begin(mrd_spool *s, mrd_why *why)
{
    bool some = mrd_spool_discard_uncommitted(s);
    mrd_err err = s->dir == NULL ? MRD_OK : mrd_spool_counts_open(s, why);

    if (err == MRD_OK && s->rebooted)
        err = mrd_spool_begin_boot(s);
    if (err == MRD_OK)
        err = mrd_spool_new_segment(s, why);
    if (err == MRD_OK && s->rebooted)
        err = mrd_spool_write_boot(s);
    if (err == MRD_OK && some) {
        err = mrd_spool_write_record(&s->segments[s->n_segments - 1], KIND_VOID, (mrd_bytes){ 0 },
                                     (mrd_bytes){ 0 });
        s->stats.file_bytes += sizeof(record_head);
    }
    if (err == MRD_OK) {
        forget_before_positions(s);
        err = answer_cut(s);
    }
    if (err != MRD_OK)
        return mrd_why_set(why, err, errno, "spool folder '%s'", s->dir);
    mrd_spool_counts_write_all(s);
    for (size_t i = 0; i < s->n_sequences; i++)
        s->sequences[i].forgotten = true; /* until it is requested again */
    /* The predecessor may have sent this many of the oldest frames without receiving an answer. */
    for (size_t i = 0, sent = 0; i < s->n && sent < WINDOW_MAX; i++)
        if (!s->entries[s->first + i].done) {
            mrd_spool_sent(s, s->entries[s->first + i].item.id);
            sent++;
        }
    s->stats.recovered_items = s->stats.items;
    s->stats.recovered_events = s->stats.events;
    return MRD_OK;
}

/* Sequence numbers that were used and then lost, with a torn end or with the page cache of an
 * earlier boot, must not be reused. Such a directory starts a new epoch. */
static void
judge_epoch(mrd_spool *s)
{
    uint64_t fresh;

    s->found_epoch = s->epoch;
    for (size_t i = 0; i < s->n_sequences; i++)
        s->sequences[i].found = s->sequences[i].committed;
    if (s->rebooted)
        mrd_random(&s->origin, sizeof(s->origin));
    if (s->stats.torn_bytes == 0 && !s->rebooted)
        return;
    mrd_random(&fresh, sizeof(fresh));
    mrd_spool_set_epoch(s, fresh);
}

/* ---- Commits ---- */

/* Assembles the commit's payload after the record's head. */
static mrd_err
commit_payload(mrd_spool *s, const mrd_spool_position *positions, size_t n, mrd_buf *to)
{
    commit_head h = { (uint32_t) n, 0 };

    for (size_t i = 0; i < s->n_sequences; i++)
        h.notes += s->sequences[i].note_waits;
    mrd_buf_add(to, &h, sizeof(h));
    mrd_buf_add(to, positions, n * sizeof(*positions));
    for (size_t i = 0; i < s->n_sequences; i++) {
        const sequence *q = &s->sequences[i];
        note_head note = { q->session, q->note_len, 0 };

        if (!q->note_waits)
            continue;
        mrd_buf_add(to, &note, sizeof(note));
        mrd_buf_add(to, q->note, q->note_len);
    }
    return to->err;
}

static mrd_err
write_commit(mrd_spool *s, const mrd_spool_position *positions, size_t n, mrd_why *why)
{
    mrd_buf payload = { 0 };
    mrd_err err = commit_payload(s, positions, n, &payload);

    if (err == MRD_OK)
        err = make_room(s, sizeof(record_head) + payload.len, why);
    if (err == MRD_OK) {
        err = mrd_spool_write_record(&s->segments[s->n_segments - 1], KIND_COMMIT,
                                     (mrd_bytes){ payload.p, payload.len }, (mrd_bytes){ 0 });
        if (err == MRD_OK)
            s->stats.file_bytes += sizeof(record_head) + payload.len;
        else
            mrd_why_set(why, err, errno, "spool: commit of %zu rings", n);
    }
    mrd_buf_fini(&payload);
    return err;
}

/* `n` positions were written with it. */
static void
count_commit(mrd_spool *s, size_t n)
{
    for (size_t i = 0; i < s->n_sequences && s->notes_wait; i++) {
        sequence *q = &s->sequences[i];

        if (!q->note_waits)
            continue;
        memcpy(q->tally.note, q->note, q->note_len);
        q->tally.note_len = q->note_len;
        q->note_waits = false;
    }
    s->notes_wait = false;
    mrd_spool_counts_commit(s);
    mrd_spool_commit_sequences(s);
    if (s->dir != NULL)
        s->positions_segment = n == 0 ? 0 : s->segments[s->n_segments - 1].number;
    for (size_t i = 0; i < s->n_sequences; i++) { /* the last segment does not have their numbers */
        sequence *q = &s->sequences[i];

        if (q->spanned)
            q->behind = s->behind = true;
        q->spanned = false;
    }
    forget_done(s); /* the segment with the previous positions */
    mrd_spool_counts_write_all(s);
}

/* Writes the positions of a predecessor, for which no frames are dropped. */
static mrd_err
commit_found(mrd_spool *s, mrd_why *why)
{
    mrd_err err = write_commit(s, s->positions, s->n_positions, why);

    if (err != MRD_OK)
        return mrd_why_set(why, err, errno, "spool folder '%s'", s->dir);
    count_commit(s, s->n_positions);
    return MRD_OK;
}

/* ---- The interface ---- */

mrd_err
mrd_spool_open(const mrd_spool_options *o, mrd_spool **ret_spool, mrd_why *why)
{
    char boot[MRD_SPOOL_BOOT] = "";
    mrd_spool *s;
    mrd_err err = MRD_OK;

    if (o->max_bytes < MRD_SPOOL_MIN_BYTES)
        return mrd_why_set(why, MRD_INVALID, 0,
                           "a spool of %" PRIu64 " bytes is too small; %u at least", o->max_bytes,
                           MRD_SPOOL_MIN_BYTES);
    if ((s = calloc(1, sizeof(*s))) == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "spool");
    s->lock_fd = s->counts_fd = -1;
    s->max_bytes = o->max_bytes;
    s->segment_bytes = o->max_bytes / SEGMENTS_KEPT;
    s->dropped = o->dropped;
    s->self = o->self;
    s->next_id = s->committed_id = 1;
    mrd_random(&s->epoch, sizeof(s->epoch));
    if (o->dir != NULL) {
        s->dir = strdup(o->dir);
        err = s->dir == NULL ? mrd_why_set(why, MRD_NOMEM, 0, "spool") : mrd_spool_lock_dir(s, why);
        if (err == MRD_OK)
            mrd_spool_read_boot(s, o->boot_id, boot);
        if (err == MRD_OK)
            err = mrd_spool_recover(s, why);
        if (err == MRD_OK)
            judge_epoch(s);
    }
    if (err == MRD_OK)
        err = begin(s, why);
    /* first, because the segment with the positions may be removed now */
    if (err == MRD_OK && s->n_positions > 0)
        err = commit_found(s, why);
    if (err == MRD_OK)
        forget_done(s);
    if (err == MRD_OK &&
        /* without it the next agent assumes that our frames are from an earlier boot */
        boot[0] != '\0')
        err = mrd_spool_name_boot(s, boot, why);
    if (err != MRD_OK) {
        mrd_spool_close(s);
        return err;
    }
    *ret_spool = s;
    return MRD_OK;
}

void
mrd_spool_close(mrd_spool *s)
{
    if (s == NULL)
        return;
    for (size_t i = 0; i < s->n_segments; i++)
        close(s->segments[i].fd);
    for (size_t i = 0; i < s->n; i++)
        free(s->entries[s->first + i].copy);
    if (s->lock_fd >= 0)
        close(s->lock_fd);
    if (s->counts_fd >= 0)
        close(s->counts_fd);
    for (size_t i = 0; i < s->n_sequences; i++)
        free(s->sequences[i].base);
    free(s->segments);
    free(s->entries);
    free(s->sequences);
    free(s->positions);
    free(s->dir);
    free(s);
}

uint64_t
mrd_spool_epoch(const mrd_spool *s)
{
    return s->epoch;
}

uint64_t
mrd_spool_since(const mrd_spool *s)
{
    return s->origin;
}

const mrd_spool_base *
mrd_spool_get_base(const mrd_spool *s, uint64_t session)
{
    const sequence *q = mrd_spool_find_sequence(s, session);

    return q == NULL ? NULL : q->base;
}

uint64_t
mrd_spool_next_seq(const mrd_spool *s, uint64_t session)
{
    const sequence *q = mrd_spool_find_sequence(s, session);

    return q == NULL ? 0 : q->next;
}

static bool
has_frames(const mrd_spool *s, uint64_t session)
{
    for (size_t i = 0; i < s->n; i++)
        if (!s->entries[s->first + i].done && s->entries[s->first + i].item.session == session)
            return true;
    return false;
}

/* Removes sessions beyond the limit, the longest forgotten first. The next ones lose their notes. */
static void
trim_forgotten(mrd_spool *s)
{
    size_t n = 0;

    for (size_t i = 0; i < s->n_sequences; i++)
        n += s->sequences[i].forgotten;
    for (size_t i = 0; i < s->n_sequences && n > NOTES_KEPT;) {
        sequence *q = &s->sequences[i];

        i++;
        if (!q->forgotten)
            continue;
        q->tally.note_len = 0;
        q->note_waits = false;
        n--;
        if (n < MRD_SPOOL_FORGOTTEN || has_frames(s, q->session))
            continue;
        mrd_spool_counts_forget(s, q);
        free(q->base);
        memmove(q, q + 1, (s->n_sequences - i) * sizeof(*q));
        s->n_sequences--;
        i--;
    }
}

void
mrd_spool_forget(mrd_spool *s, uint64_t session)
{
    sequence *q = mrd_spool_find_sequence(s, session), copy;

    if (q == NULL)
        return;
    /* Otherwise only its slot has answers that had no room, or missing events. */
    if (!q->behind && s->unreported == 0 && q->tally.damaged == 0)
        mrd_spool_counts_forget(s, q);
    copy = *q;
    copy.forgotten = true;
    memmove(q, q + 1, (size_t) (s->sequences + s->n_sequences - q - 1) * sizeof(*q));
    s->sequences[s->n_sequences - 1] = copy; /* the last forgotten */
    trim_forgotten(s);
}

void
mrd_spool_recall(mrd_spool *s, uint64_t session)
{
    sequence *q = mrd_spool_find_sequence(s, session);

    if (q != NULL)
        q->forgotten = false;
}

static mrd_err
add_frame(mrd_spool *s, mrd_bytes frame, uint64_t events, mrd_why *why)
{
    size_t whole = sizeof(record_head) + 8 + frame.len;
    entry e = { .item = { .id = s->next_id, .events = events, .len = (uint32_t) frame.len } };
    segment *seg;
    mrd_frame f;
    mrd_err err;

    if (frame.len > MRD_FRAME_MAX)
        return mrd_why_set(why, MRD_LIMIT, 0, "frame of %zu bytes", frame.len);
    if ((err = mrd_frame_get(frame, &f, why)) != MRD_OK)
        return err;
    if (f.epoch != s->epoch || f.seq != mrd_spool_next_seq(s, f.session))
        return mrd_why_set(why, MRD_STATE, 0, "frame number %" PRIu64 " is not the next", f.seq);
    if ((err = make_room(s, whole, why)) != MRD_OK)
        return err;
    if (s->n_segments > 1 && s->stats.file_bytes + whole > s->max_bytes)
        return mrd_why_set(why, MRD_FULL, 0, "spool: the oldest frames wait for their commit");
    if ((err = mrd_spool_set_sequence(s, f.session, f.seq)) != MRD_OK)
        return mrd_why_set(why, err, 0, "spool: sessions");
    mrd_spool_recall(s, f.session);
    seg = &s->segments[s->n_segments - 1];
    e.segment = seg->number;
    e.at = seg->len + sizeof(record_head) + 8;
    mrd_spool_describe(&e, &f);
    if (!mrd_spool_push_entry(s, &e))
        return mrd_why_set(why, MRD_NOMEM, 0, "spool");
    if ((err = mrd_spool_write_record(seg, KIND_FRAME, (mrd_bytes){ (const void *) &events, 8 },
                                      frame)) != MRD_OK) {
        s->n--;
        s->stats.items--;
        s->stats.bytes -= e.item.len;
        s->stats.events -= events;
        return mrd_why_set(why, err, errno, "spool");
    }
    s->next_id++;
    seg->live++;
    s->stats.file_bytes += whole;
    return mrd_spool_set_sequence(s, f.session, f.seq + 1);
}

/* Notes the failed write and its reason. */
static mrd_err
end_write(mrd_spool *s, mrd_err err, const mrd_why *how, mrd_why *why)
{
    if (err == MRD_OK)
        return MRD_OK;
    if ((err == MRD_FULL || err == MRD_IO) && how->sys != 0) {
        s->failure = *how;
        s->stats.failures++;
    }
    if (why != NULL)
        *why = *how;
    return err;
}

const char *
mrd_spool_failure(const mrd_spool *s)
{
    return s->failure.text;
}

mrd_err
mrd_spool_add(mrd_spool *s, mrd_bytes frame, uint64_t events, mrd_why *ret_why)
{
    mrd_why how = { 0 }, *why = &how;
    mrd_err err = add_frame(s, frame, events, why);

    if (err == MRD_IO && !mrd_spool_takes_records(s)) /* another segment may */
        err = add_frame(s, frame, events, why);
    /* The disk is full before the spool's own limit, so the oldest frames make room here as well. */
    while (err == MRD_FULL && s->n_segments > 1 && !waits_for_commit(s)) {
        drop_oldest(s);
        err = add_frame(s, frame, events, why);
    }
    return end_write(s, err, why, ret_why);
}

mrd_err
mrd_spool_commit(mrd_spool *s, const mrd_spool_position *positions, size_t n, mrd_why *ret_why)
{
    mrd_why how = { 0 }, *why = &how;
    mrd_err err = n > MRD_SPOOL_POSITIONS ? MRD_LIMIT : MRD_OK;

    if (err == MRD_OK && s->dir != NULL)
        err = write_commit(s, positions, n, why);
    if (err == MRD_IO && !mrd_spool_takes_records(s))
        err = write_commit(s, positions, n, why);
    /* also frames that wait for this commit, because nothing else makes room */
    while (err == MRD_FULL && s->n_segments > 1) {
        drop_oldest(s);
        err = write_commit(s, positions, n, why);
    }
    if (err != MRD_OK)
        return end_write(s, err, why, ret_why);
    count_commit(s, n);
    return MRD_OK;
}

mrd_err
mrd_spool_note(mrd_spool *s, uint64_t session, const void *note, size_t len)
{
    sequence *q;
    mrd_err err = len > MRD_SPOOL_NOTE ? MRD_LIMIT : mrd_spool_take_sequence(s, session, &q);

    if (err != MRD_OK)
        return err;
    memcpy(q->note, note, len);
    q->note_len = (uint32_t) len;
    q->note_waits = s->notes_wait = true;
    return MRD_OK;
}

void
mrd_spool_get_tally(const mrd_spool *s, uint64_t session, mrd_spool_tally *ret_tally)
{
    const sequence *q = mrd_spool_find_sequence(s, session);

    *ret_tally = (mrd_spool_tally){ 0 };
    if (q != NULL)
        *ret_tally = q->tally;
    if (q != NULL && q->base != NULL)
        ret_tally->delivered -= q->base->known;
    for (size_t i = 0; i < s->n; i++) { /* not while this process lives */
        const entry *e = &s->entries[s->first + i];

        if (e->copy != NULL && e->item.session == session)
            ret_tally->forced -= e->item.events;
    }
}

bool
mrd_spool_uncommitted(const mrd_spool *s)
{
    return s->committed_id != s->next_id || s->notes_wait;
}

const mrd_spool_position *
mrd_spool_recovered(const mrd_spool *s, size_t *ret_n)
{
    *ret_n = s->n_positions;
    return s->positions;
}

uint64_t
mrd_spool_resume(const mrd_spool *s, uint64_t ring)
{
    for (size_t i = 0; i < s->n_positions; i++)
        if (s->positions[i].ring == ring)
            return s->positions[i].read;
    return 0;
}

bool
mrd_spool_peek(const mrd_spool *s, uint64_t from, mrd_spool_item *ret_item)
{
    uint64_t base = s->n == 0 ? 0 : s->entries[s->first].item.id;

    for (size_t i = from > base ? (size_t) (from - base) : 0; i < s->n; i++)
        if (!s->entries[s->first + i].done) {
            if (s->entries[s->first + i].item.id >= s->committed_id)
                return false;
            *ret_item = s->entries[s->first + i].item;
            return true;
        }
    return false;
}

void
mrd_spool_sent(mrd_spool *s, uint64_t id)
{
    entry *e = mrd_spool_entry(s, id);

    if (e != NULL)
        e->sent = true;
}

static void
note_answered(mrd_spool *s, const mrd_spool_item *item)
{
    sequence *q = mrd_spool_find_sequence(s, item->session);

    if (q == NULL)
        return;
    if (item->events > 0 && item->clock == q->tally.damaged_clock &&
        mrd_ev_after(item->last, q->answered_to))
        q->answered_to = item->last;
    mrd_spool_counts_write(s, q);
}

/* For the answer of a dropped frame: the segments may count it as dropped, but the counts do not
 * any more. Before the answer is written, or while it has no room, the counts contain the excess of
 * the segments. An answer withdraws no more than the segments count, and adds the part that they do
 * not count yet. */
static bool
write_answer(mrd_spool *s, const mrd_spool_item *item, answer_record *a)
{
    sequence *q = mrd_spool_find_sequence(s, a->session);

    if (q == NULL)
        return mrd_spool_write_answer(s, a);
    q->ahead += (int64_t) a->forced;
    if (a->forced > 0)
        note_answered(s, item);
    if (q->ahead < (int64_t) a->forced)
        a->forced = (uint64_t) q->ahead;
    if (!mrd_spool_write_answer(s, a))
        return false;
    q->ahead -= (int64_t) a->forced;
    return true;
}

static bool
done(mrd_spool *s, uint64_t id, enum answer answer)
{
    entry *e = mrd_spool_entry(s, id);
    bool clock, rescued;
    answer_record a;

    if (e == NULL)
        return false;
    clock = is_clock(e);
    rescued = e->copy != NULL;
    a = (answer_record){ e->item.epoch,  e->item.session, e->item.seq,
                         e->item.events, answer,          rescued ? e->item.events : 0 };
    mrd_spool_complete(s, e);
    if (clock)
        count_clock_answer(s, a.session, rescued, answer != ANSWER_REFUSED);
    if (mrd_spool_find_sequence(s, a.session) != NULL) /* otherwise the session was removed */
        (void) mrd_spool_count_answer(s, &a);
    if (!write_answer(s, &e->item, &a)) {
        if (rescued)
            mrd_spool_set_behind(s, a.session);
        /* first, because the counts hold only the 64 numbers after the oldest */
        e->unreported = rescued ? 0 : (uint8_t) (answer + 1);
        s->unreported += !rescued;
    }
    note_answered(s, &e->item);
    forget_done(s);
    return true;
}

bool
mrd_spool_done(mrd_spool *s, uint64_t id, bool stored)
{
    return done(s, id, stored ? ANSWER_STORED : ANSWER_REFUSED);
}

bool
mrd_spool_done_before(mrd_spool *s, uint64_t id)
{
    return done(s, id, ANSWER_BEFORE);
}

void
mrd_spool_get_stats(const mrd_spool *s, mrd_spool_stats *ret_stats)
{
    *ret_stats = s->stats;
}
