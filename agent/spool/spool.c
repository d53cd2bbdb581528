#include "agent/spool/spool.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/spool/spool_int.h"
#include "base/hash.h"

#define SEGMENTS_KEPT 16u /* a segment has at most the spool's size divided by this */
/* removed sessions whose notes are kept; few, because each segment begins with all notes */
#define NOTES_KEPT 16u
#define WINDOW_MAX 16u /* maximum number of frames in flight, as MRD_LINK_WINDOW_MAX */

/* ---- Room ---- */

/* Prepares the sessions' sums of delivered and dropped events for the removal of segment `number`
 * (0 means all segments). A full disk may have prevented the records of some answers and drops.
 * While the segment exists, the written sums leave these out, because the next agent finds the
 * frames (mrd_spool_known). From now on the sums include them, and must soon be written to a
 * segment. Returns true if a sum changed. */
static bool
add_to_sums(mrd_spool *spool, uint64_t number)
{
    uint64_t before = spool->unreported;
    bool any = false;

    for (size_t i = 0; i < spool->n && spool->unreported > 0; i++) {
        entry *ent = &spool->entries[spool->first + i];

        if (ent->unreported == 0 || (number != 0 && ent->segment != number))
            continue;
        ent->unreported = 0;
        spool->unreported--;
        mrd_spool_set_behind(spool, ent->item.session);
    }
    /* only drop_oldest increases `there`, so all frames in it are of the oldest segment */
    for (size_t i = 0; i < spool->n_sequences; i++) {
        sequence *seq = &spool->sequences[i];

        if (seq->there > 0)
            any = seq->behind = spool->behind = true;
        seq->there = 0;
    }
    return any || spool->unreported < before;
}

/* Removes the oldest segment. This process may be killed between any two steps. The next agent must
 * then find either the frames or the sums that include their events, but not both. */
static void
remove_oldest(mrd_spool *spool)
{
    uint64_t number = spool->segments[0].number;
    bool added = add_to_sums(spool, number);

    if (added)
        mrd_spool_counts_going(spool, number);
    mrd_spool_remove_segment(spool, 0);
    if (added)
        mrd_spool_counts_write_all(spool);
}

/* Writes the answers and session states that could not be written while the disk was full. Stops if
 * the disk is full again. */
static void
tell_again(mrd_spool *spool)
{
    for (size_t i = 0; i < spool->n && spool->unreported > 0; i++) {
        entry *ent = &spool->entries[spool->first + i];
        answer_record record = { ent->item.epoch,  ent->item.session,   ent->item.seq,
                                 ent->item.events, ent->unreported - 1, 0 };

        if (ent->unreported == 0)
            continue;
        if (!mrd_spool_write_answer(spool, &record))
            return;
        ent->unreported = 0;
        spool->unreported--;
    }
    mrd_spool_catch_up(spool);
}

/* Returns true if the oldest segment has the ring positions of the last commit. The next agent
 * needs them until there is a later commit. */
static bool
holds_positions(const mrd_spool *spool)
{
    return spool->segments[0].number == spool->positions_segment;
}

static void
forget_done(mrd_spool *spool)
{
    tell_again(spool);
    /* Segments are removed from the oldest on, as each has answers to frames of older ones. */
    while (spool->n_segments > 1 && spool->segments[0].live == 0 && !holds_positions(spool))
        remove_oldest(spool);
    while (spool->n > 0 && spool->entries[spool->first].done &&
           spool->entries[spool->first].unreported == 0) {
        spool->first++;
        spool->n--;
    }
    if (spool->n == 0)
        spool->first = 0;
    mrd_spool_catch_up(spool);
}

/* Copies a sent frame to memory, because its segment is removed before the answer arrives. If this
 * process ends before the answer arrives, the next agent counts the frame as dropped. */
static bool
rescue(const mrd_spool *spool, entry *ent)
{
    const segment *seg = mrd_spool_find_segment(spool, ent->segment);
    uint8_t *copy = ent->sent && seg != NULL ? malloc(ent->item.len) : NULL;

    if (copy != NULL &&
        pread(seg->fd, copy, ent->item.len, (off_t) ent->at) != (ssize_t) ent->item.len) {
        free(copy);
        copy = NULL;
    }
    ent->copy = copy;
    return copy != NULL;
}

static bool
is_clock(const entry *ent)
{
    return ent->item.type == MRD_FRAME_CLOCK_DATA;
}

/* Counts the frame as dropped. For a frame of the current epoch, the session's slot in the file
 * "counts" shows that the frame was dropped. For any other frame a record of the drop is written.
 * If the disk has no room for this record, the frame is counted when its segment is removed. */
static void
count_forced(mrd_spool *spool, sequence *seq, const entry *ent)
{
    answer_record record = { ent->item.epoch, ent->item.session,   ent->item.seq, 0,
                             ANSWER_STORED,   0 - ent->item.events };
    bool apart = seq->slot == 0 || ent->item.epoch != spool->epoch;

    seq->tally.forced += ent->item.events;
    if (apart && mrd_spool_write_answer(spool, &record))
        return;
    /* no record in the segments counts this drop until the session's state is written again */
    seq->ahead -= (int64_t) ent->item.events;
    if (apart)
        seq->there += ent->item.events;
}

/* Drops the oldest segment with its frames. The sessions' counts are written first, because the
 * next agent needs them. */
static void
drop_oldest(mrd_spool *spool)
{
    uint64_t number = spool->segments[0].number;

    for (size_t i = 0; i < spool->n; i++) {
        entry *ent = &spool->entries[spool->first + i];
        sequence *seq;

        if (ent->segment != number || ent->done)
            continue;
        seq = mrd_spool_find_sequence(spool, ent->item.session);
        if (seq != NULL) {
            count_forced(spool, seq, ent);
            seq->clock_lost += is_clock(ent);
            seq->behind = spool->behind = true;
        }
        if (rescue(spool, ent)) {
            if (seq != NULL)
                seq->clock_rescued += is_clock(ent);
            spool->segments[0].live--;
            ent->segment = 0;
            continue;
        }
        mrd_spool_complete(spool, ent);
        if (spool->dropped != NULL)
            spool->dropped(spool->self, &ent->item);
    }
    /* Write the counts before the segment is removed. If this process is killed in between, the
     * next agent finds the frames again and must see that they are already counted. */
    mrd_spool_counts_write_all(spool);
    mrd_spool_catch_up(spool);
    if (holds_positions(spool)) /* forget_done would keep this segment, and the disk stays full */
        remove_oldest(spool);
    forget_done(spool);
}

/* Returns true if the oldest segment has frames that are not committed. These must not be counted
 * as dropped, because after a crash the next agent reads their events from the rings again. */
static bool
waits_for_commit(const mrd_spool *spool)
{
    for (size_t i = spool->n; i > 0; i--) {
        const entry *ent = &spool->entries[spool->first + i - 1];

        if (ent->item.id < spool->committed_id)
            return false;
        if (!ent->done && ent->segment == spool->segments[0].number)
            return true;
    }
    return false;
}

/* Makes room for `more` bytes. Begins a new segment if the newest one is full. While the spool
 * exceeds its limit, drops the oldest segment, unless it has frames that are not committed. */
static mrd_err
make_room(mrd_spool *spool, size_t more, mrd_why *why)
{
    mrd_err err;

    if (spool->n_segments == 0 ||
        spool->segments[spool->n_segments - 1].len + more > spool->segment_bytes ||
        !mrd_spool_takes_records(spool)) {
        err = mrd_spool_new_segment(spool, why);
        if (err != MRD_OK)
            return err;
        forget_done(spool);
    }
    while (spool->n_segments > 1 && spool->stats.file_bytes + more > spool->max_bytes &&
           !waits_for_commit(spool))
        drop_oldest(spool);
    return MRD_OK;
}

/* ---- Clock data, and the start ---- */

/* Writes the new number of lost clock frames now, because the next agent needs it. If the write
 * fails, marks the session so that its state is written later (`behind`). */
static void
clock_changed(mrd_spool *spool, sequence *seq)
{
    segment *last = spool->n_segments == 0 ? NULL : &spool->segments[spool->n_segments - 1];

    if (spool->dir == NULL || last == NULL)
        return;
    if (mrd_spool_write_clock(last, seq) == MRD_OK)
        spool->stats.file_bytes += sizeof(record_head) + sizeof(clock_record);
    else
        seq->behind = spool->behind = true;
}

/* Counts the answer to a frame of clock data. `stored` is false if the frame was refused
 * permanently. */
static void
count_clock_answer(mrd_spool *spool, uint64_t session, bool rescued, bool stored)
{
    sequence *seq = mrd_spool_find_sequence(spool, session);
    uint64_t before = seq == NULL ? 0 : seq->clock_lost;

    if (seq == NULL)
        return;
    seq->clock_rescued -= rescued;
    seq->clock_lost -= rescued;
    seq->clock_lost += !stored;
    if (seq->clock_lost != before)
        clock_changed(spool, seq);
}

uint64_t
mrd_spool_clock_lost(const mrd_spool *spool, uint64_t session)
{
    const sequence *seq = mrd_spool_find_sequence(spool, session);

    return seq == NULL ? 0 : seq->clock_lost - seq->clock_rescued;
}

void
mrd_spool_lose_clock(mrd_spool *spool, uint64_t session)
{
    sequence *seq;

    if (mrd_spool_take_sequence(spool, session, &seq) != MRD_OK)
        return;
    seq->clock_lost++;
    clock_changed(spool, seq);
}

/* Removes segments that are older than the last commit's positions, if all their frames were
 * acknowledged or dropped. This makes room on a full disk for the records that are written next. */
static void
forget_before_positions(mrd_spool *spool)
{
    while (spool->n_segments > 1 && spool->segments[0].live == 0 &&
           spool->segments[0].number < spool->positions_segment)
        mrd_spool_remove_segment(spool, 0);
}

/* Writes answers again whose records were lost with the end of the segments. The sessions' sums
 * include these answers, but only the file "counts" shows which frames they answer. This must be
 * done before "counts" is rewritten, which can show only one epoch. Errors: FULL, IO. */
static mrd_err
answer_cut(mrd_spool *spool)
{
    segment *last = &spool->segments[spool->n_segments - 1];
    uint64_t before = last->len;
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < spool->n && err == MRD_OK; i++) {
        const entry *ent = &spool->entries[spool->first + i];
        answer_record record = { ent->item.epoch, ent->item.session,
                                 ent->item.seq,   0,
                                 ANSWER_STORED,   0 };

        if (ent->cut && mrd_spool_find_segment(spool, ent->segment) != NULL)
            err = mrd_spool_write_record(last, KIND_ACK,
                                         (mrd_bytes){ (const void *) &record, sizeof(record) },
                                         (mrd_bytes){ 0 });
    }
    spool->stats.file_bytes += last->len - before;
    return err;
}

/* Begins the first segment that this agent writes, with the state that earlier agents left. */
static mrd_err
begin(mrd_spool *spool, mrd_why *why)
{
    bool some = mrd_spool_discard_uncommitted(spool);
    mrd_err err = spool->dir == NULL ? MRD_OK : mrd_spool_counts_open(spool, why);

    if (err == MRD_OK && spool->rebooted)
        err = mrd_spool_begin_boot(spool);
    if (err == MRD_OK)
        err = mrd_spool_new_segment(spool, why);
    if (err == MRD_OK && spool->rebooted)
        err = mrd_spool_write_boot(spool);
    if (err == MRD_OK && some) {
        err = mrd_spool_write_record(&spool->segments[spool->n_segments - 1], KIND_VOID,
                                     (mrd_bytes){ 0 }, (mrd_bytes){ 0 });
        spool->stats.file_bytes += sizeof(record_head);
    }
    if (err == MRD_OK) {
        forget_before_positions(spool);
        err = answer_cut(spool);
    }
    if (err != MRD_OK)
        return mrd_why_set(why, err, errno, "spool folder '%s'", spool->dir);
    mrd_spool_counts_write_all(spool);
    for (size_t i = 0; i < spool->n_sequences; i++)
        /* every session of an earlier agent counts as removed until it is used again */
        spool->sequences[i].forgotten = true;
    /* The previous agent may have sent up to WINDOW_MAX of the oldest frames and got no answer
     * yet. */
    for (size_t i = 0, sent = 0; i < spool->n && sent < WINDOW_MAX; i++)
        if (!spool->entries[spool->first + i].done) {
            mrd_spool_sent(spool, spool->entries[spool->first + i].item.id);
            sent++;
        }
    spool->stats.recovered_items = spool->stats.items;
    spool->stats.recovered_events = spool->stats.events;
    return MRD_OK;
}

/* Begins a new epoch if the spool may have lost which sequence numbers were used, because no number
 * may be used twice in one epoch. This is possible after a reboot, and if the segments end with an
 * incomplete record. */
static void
judge_epoch(mrd_spool *spool)
{
    uint64_t fresh;

    spool->found_epoch = spool->epoch;
    for (size_t i = 0; i < spool->n_sequences; i++)
        spool->sequences[i].found = spool->sequences[i].committed;
    if (spool->rebooted)
        mrd_random(&spool->origin, sizeof(spool->origin));
    if (spool->stats.torn_bytes == 0 && !spool->rebooted)
        return;
    mrd_random(&fresh, sizeof(fresh));
    mrd_spool_set_epoch(spool, fresh);
}

/* ---- Commits ---- */

/* Appends the payload of a commit record to *to: positions of rings, and notes of sessions. */
static mrd_err
commit_payload(mrd_spool *spool, const mrd_spool_position *positions, size_t n, mrd_buf *to)
{
    commit_head head = { (uint32_t) n, 0 };

    for (size_t i = 0; i < spool->n_sequences; i++)
        head.notes += spool->sequences[i].note_waits;
    mrd_buf_add(to, &head, sizeof(head));
    mrd_buf_add(to, positions, n * sizeof(*positions));
    for (size_t i = 0; i < spool->n_sequences; i++) {
        const sequence *seq = &spool->sequences[i];
        note_head note = { seq->session, seq->note_len, 0 };

        if (!seq->note_waits)
            continue;
        mrd_buf_add(to, &note, sizeof(note));
        mrd_buf_add(to, seq->note, seq->note_len);
    }
    return to->err;
}

static mrd_err
write_commit(mrd_spool *spool, const mrd_spool_position *positions, size_t n, mrd_why *why)
{
    mrd_buf payload = { 0 };
    mrd_err err = commit_payload(spool, positions, n, &payload);

    if (err == MRD_OK)
        err = make_room(spool, sizeof(record_head) + payload.len, why);
    if (err == MRD_OK) {
        err = mrd_spool_write_record(&spool->segments[spool->n_segments - 1], KIND_COMMIT,
                                     (mrd_bytes){ payload.p, payload.len }, (mrd_bytes){ 0 });
        if (err == MRD_OK)
            spool->stats.file_bytes += sizeof(record_head) + payload.len;
        else
            mrd_why_set(why, err, errno, "spool: commit of %zu rings", n);
    }
    mrd_buf_fini(&payload);
    return err;
}

/* Updates the state after a commit with `n` ring positions was written. */
static void
count_commit(mrd_spool *spool, size_t n)
{
    for (size_t i = 0; i < spool->n_sequences && spool->notes_wait; i++) {
        sequence *seq = &spool->sequences[i];

        if (!seq->note_waits)
            continue;
        memcpy(seq->tally.note, seq->note, seq->note_len);
        seq->tally.note_len = seq->note_len;
        seq->note_waits = false;
    }
    spool->notes_wait = false;
    mrd_spool_counts_commit(spool);
    mrd_spool_commit_sequences(spool);
    if (spool->dir != NULL)
        spool->positions_segment = n == 0 ? 0 : spool->segments[spool->n_segments - 1].number;
    /* the newest segment does not have the sequence numbers of frames in earlier segments */
    for (size_t i = 0; i < spool->n_sequences; i++) {
        sequence *seq = &spool->sequences[i];

        if (seq->spanned)
            seq->behind = spool->behind = true;
        seq->spanned = false;
    }
    forget_done(spool); /* may remove the segment with the previous commit's positions */
    mrd_spool_counts_write_all(spool);
}

/* Commits the previous agent's ring positions again, in the new segment, so that older segments can
 * be removed. Does not drop frames to make room. */
static mrd_err
commit_found(mrd_spool *spool, mrd_why *why)
{
    mrd_err err = write_commit(spool, spool->positions, spool->n_positions, why);

    if (err != MRD_OK)
        return mrd_why_set(why, err, errno, "spool folder '%s'", spool->dir);
    count_commit(spool, spool->n_positions);
    return MRD_OK;
}

/* ---- The interface ---- */

mrd_err
mrd_spool_open(const mrd_spool_options *options, mrd_spool **ret_spool, mrd_why *why)
{
    char boot[MRD_SPOOL_BOOT] = "";
    mrd_spool *spool;
    mrd_err err = MRD_OK;

    if (options->max_bytes < MRD_SPOOL_MIN_BYTES)
        return mrd_why_set(why, MRD_INVALID, 0,
                           "a spool of %" PRIu64 " bytes is too small; %u at least",
                           options->max_bytes, MRD_SPOOL_MIN_BYTES);
    if ((spool = calloc(1, sizeof(*spool))) == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "spool");
    spool->lock_fd = spool->counts_fd = -1;
    spool->max_bytes = options->max_bytes;
    spool->segment_bytes = options->max_bytes / SEGMENTS_KEPT;
    spool->dropped = options->dropped;
    spool->self = options->self;
    spool->next_id = spool->committed_id = 1;
    mrd_random(&spool->epoch, sizeof(spool->epoch));
    if (options->dir != NULL) {
        spool->dir = strdup(options->dir);
        err = spool->dir == NULL ? mrd_why_set(why, MRD_NOMEM, 0, "spool")
                                 : mrd_spool_lock_dir(spool, why);
        if (err == MRD_OK)
            mrd_spool_read_boot(spool, options->boot_id, boot);
        if (err == MRD_OK)
            err = mrd_spool_recover(spool, why);
        /* If answers were lost, the answered frames are sent again. As after a reboot, the
         * aggregator then says which frames it already had, so each counts as delivered once. */
        if (err == MRD_OK && boot[0] != '\0' && mrd_spool_counts_lack(spool))
            spool->rebooted = true;
        if (err == MRD_OK)
            judge_epoch(spool);
    }
    if (err == MRD_OK)
        err = begin(spool, why);
    /* commit before forget_done, which may remove the segment with the positions */
    if (err == MRD_OK && spool->n_positions > 0)
        err = commit_found(spool, why);
    if (err == MRD_OK)
        forget_done(spool);
    if (err == MRD_OK &&
        /* without this id in the lock file, the next agent would assume that our frames are of an
         * earlier boot */
        boot[0] != '\0')
        err = mrd_spool_name_boot(spool, boot, why);
    if (err != MRD_OK) {
        mrd_spool_close(spool);
        return err;
    }
    *ret_spool = spool;
    return MRD_OK;
}

void
mrd_spool_close(mrd_spool *spool)
{
    if (spool == NULL)
        return;
    for (size_t i = 0; i < spool->n_segments; i++)
        close(spool->segments[i].fd);
    for (size_t i = 0; i < spool->n; i++)
        free(spool->entries[spool->first + i].copy);
    if (spool->lock_fd >= 0)
        close(spool->lock_fd);
    if (spool->counts_fd >= 0)
        close(spool->counts_fd);
    for (size_t i = 0; i < spool->n_sequences; i++)
        free(spool->sequences[i].base);
    free(spool->segments);
    free(spool->entries);
    free(spool->sequences);
    free(spool->positions);
    free(spool->dir);
    free(spool);
}

uint64_t
mrd_spool_epoch(const mrd_spool *spool)
{
    return spool->epoch;
}

uint64_t
mrd_spool_since(const mrd_spool *spool)
{
    return spool->origin;
}

const mrd_spool_base *
mrd_spool_get_base(const mrd_spool *spool, uint64_t session)
{
    const sequence *seq = mrd_spool_find_sequence(spool, session);

    return seq == NULL ? NULL : seq->base;
}

uint64_t
mrd_spool_next_seq(const mrd_spool *spool, uint64_t session)
{
    const sequence *seq = mrd_spool_find_sequence(spool, session);

    return seq == NULL ? 0 : seq->next;
}

static bool
has_frames(const mrd_spool *spool, uint64_t session)
{
    for (size_t i = 0; i < spool->n; i++)
        if (!spool->entries[spool->first + i].done &&
            spool->entries[spool->first + i].item.session == session)
            return true;
    return false;
}

/* Limits the data about removed sessions: the last NOTES_KEPT keep their notes, and the last
 * MRD_SPOOL_FORGOTTEN keep their sequences. */
static void
trim_forgotten(mrd_spool *spool)
{
    size_t n = 0;

    for (size_t i = 0; i < spool->n_sequences; i++)
        n += spool->sequences[i].forgotten;
    for (size_t i = 0; i < spool->n_sequences && n > NOTES_KEPT;) {
        sequence *seq = &spool->sequences[i];

        i++;
        if (!seq->forgotten)
            continue;
        seq->tally.note_len = 0;
        seq->note_waits = false;
        n--;
        if (n < MRD_SPOOL_FORGOTTEN || has_frames(spool, seq->session))
            continue;
        mrd_spool_counts_forget(spool, seq);
        free(seq->base);
        memmove(seq, seq + 1, (spool->n_sequences - i) * sizeof(*seq));
        spool->n_sequences--;
        i--;
    }
}

void
mrd_spool_forget(mrd_spool *spool, uint64_t session)
{
    sequence *seq = mrd_spool_find_sequence(spool, session), copy;

    if (seq == NULL)
        return;
    /* Keep the slot if only it has some of the answers, or if it counts missing events. */
    if (!seq->behind && spool->unreported == 0 && seq->tally.damaged == 0)
        mrd_spool_counts_forget(spool, seq);
    copy = *seq;
    copy.forgotten = true;
    memmove(seq, seq + 1,
            (size_t) (spool->sequences + spool->n_sequences - seq - 1) * sizeof(*seq));
    /* removed sessions are sorted by the time of removal, so this one comes last */
    spool->sequences[spool->n_sequences - 1] = copy;
    trim_forgotten(spool);
}

void
mrd_spool_recall(mrd_spool *spool, uint64_t session)
{
    sequence *seq = mrd_spool_find_sequence(spool, session);

    if (seq != NULL)
        seq->forgotten = false;
}

static mrd_err
add_frame(mrd_spool *spool, mrd_bytes frame, uint64_t events, mrd_why *why)
{
    size_t whole = sizeof(record_head) + 8 + frame.len;
    entry ent = { .item = { .id = spool->next_id, .events = events, .len = (uint32_t) frame.len } };
    segment *seg;
    mrd_frame f;
    mrd_err err;

    if (frame.len > MRD_FRAME_MAX)
        return mrd_why_set(why, MRD_LIMIT, 0, "frame of %zu bytes", frame.len);
    if ((err = mrd_frame_get(frame, &f, why)) != MRD_OK)
        return err;
    if (f.epoch != spool->epoch || f.seq != mrd_spool_next_seq(spool, f.session))
        return mrd_why_set(why, MRD_STATE, 0, "frame number %" PRIu64 " is not the next", f.seq);
    if ((err = make_room(spool, whole, why)) != MRD_OK)
        return err;
    if (spool->n_segments > 1 && spool->stats.file_bytes + whole > spool->max_bytes)
        return mrd_why_set(why, MRD_FULL, 0, "spool: the oldest frames wait for their commit");
    if ((err = mrd_spool_set_sequence(spool, f.session, f.seq)) != MRD_OK)
        return mrd_why_set(why, err, 0, "spool: sessions");
    mrd_spool_recall(spool, f.session);
    seg = &spool->segments[spool->n_segments - 1];
    ent.segment = seg->number;
    ent.at = seg->len + sizeof(record_head) + 8;
    mrd_spool_describe(&ent, &f);
    if (!mrd_spool_push_entry(spool, &ent))
        return mrd_why_set(why, MRD_NOMEM, 0, "spool");
    if ((err = mrd_spool_write_record(seg, KIND_FRAME, (mrd_bytes){ (const void *) &events, 8 },
                                      frame)) != MRD_OK) {
        spool->n--;
        spool->stats.items--;
        spool->stats.bytes -= ent.item.len;
        spool->stats.events -= events;
        return mrd_why_set(why, err, errno, "spool");
    }
    spool->next_id++;
    seg->live++;
    spool->stats.file_bytes += whole;
    return mrd_spool_set_sequence(spool, f.session, f.seq + 1);
}

/* Stores the reason of a failed write and counts the failure. */
static mrd_err
end_write(mrd_spool *spool, mrd_err err, const mrd_why *how, mrd_why *why)
{
    if (err == MRD_OK)
        return MRD_OK;
    if ((err == MRD_FULL || err == MRD_IO) && how->sys != 0) {
        spool->failure = *how;
        spool->stats.failures++;
    }
    if (why != NULL)
        *why = *how;
    return err;
}

const char *
mrd_spool_failure(const mrd_spool *spool)
{
    return spool->failure.text;
}

mrd_err
mrd_spool_add(mrd_spool *spool, mrd_bytes frame, uint64_t events, mrd_why *ret_why)
{
    mrd_why how = { 0 }, *why = &how;
    mrd_err err = add_frame(spool, frame, events, why);

    if (err == MRD_IO && !mrd_spool_takes_records(spool)) /* the next segment may be writable */
        err = add_frame(spool, frame, events, why);
    /* The disk is full although the spool is below its limit, so drop the oldest frames. */
    while (err == MRD_FULL && spool->n_segments > 1 && !waits_for_commit(spool)) {
        drop_oldest(spool);
        err = add_frame(spool, frame, events, why);
    }
    return end_write(spool, err, why, ret_why);
}

mrd_err
mrd_spool_commit(mrd_spool *spool, const mrd_spool_position *positions, size_t count,
                 mrd_why *ret_why)
{
    mrd_why how = { 0 }, *why = &how;
    mrd_err err = count > MRD_SPOOL_POSITIONS ? MRD_LIMIT : MRD_OK;

    if (err == MRD_OK && spool->dir != NULL)
        err = write_commit(spool, positions, count, why);
    if (err == MRD_IO && !mrd_spool_takes_records(spool))
        err = write_commit(spool, positions, count, why);
    /* only this makes room for the commit, so drop even frames that the commit would cover */
    while (err == MRD_FULL && spool->n_segments > 1) {
        drop_oldest(spool);
        err = write_commit(spool, positions, count, why);
    }
    if (err != MRD_OK)
        return end_write(spool, err, why, ret_why);
    count_commit(spool, count);
    return MRD_OK;
}

mrd_err
mrd_spool_note(mrd_spool *spool, uint64_t session, const void *note, size_t len)
{
    sequence *seq;
    mrd_err err = len > MRD_SPOOL_NOTE ? MRD_LIMIT : mrd_spool_take_sequence(spool, session, &seq);

    if (err != MRD_OK)
        return err;
    memcpy(seq->note, note, len);
    seq->note_len = (uint32_t) len;
    seq->note_waits = spool->notes_wait = true;
    return MRD_OK;
}

void
mrd_spool_get_tally(const mrd_spool *spool, uint64_t session, mrd_spool_tally *ret_tally)
{
    const sequence *seq = mrd_spool_find_sequence(spool, session);

    *ret_tally = (mrd_spool_tally){ 0 };
    if (seq != NULL)
        *ret_tally = seq->tally;
    if (seq != NULL && seq->base != NULL)
        ret_tally->delivered -= seq->base->known;
    /* a frame with a copy in memory does not count as dropped: its answer may still arrive */
    for (size_t i = 0; i < spool->n; i++) {
        const entry *ent = &spool->entries[spool->first + i];

        if (ent->copy != NULL && ent->item.session == session)
            ret_tally->forced -= ent->item.events;
    }
}

bool
mrd_spool_uncommitted(const mrd_spool *spool)
{
    return spool->committed_id != spool->next_id || spool->notes_wait;
}

const mrd_spool_position *
mrd_spool_recovered(const mrd_spool *spool, size_t *ret_n)
{
    *ret_n = spool->n_positions;
    return spool->positions;
}

uint64_t
mrd_spool_resume(const mrd_spool *spool, uint64_t ring)
{
    for (size_t i = 0; i < spool->n_positions; i++)
        if (spool->positions[i].ring == ring)
            return spool->positions[i].read;
    return 0;
}

bool
mrd_spool_peek(const mrd_spool *spool, uint64_t from, mrd_spool_item *ret_item)
{
    uint64_t base = spool->n == 0 ? 0 : spool->entries[spool->first].item.id;

    for (size_t i = from > base ? (size_t) (from - base) : 0; i < spool->n; i++)
        if (!spool->entries[spool->first + i].done) {
            if (spool->entries[spool->first + i].item.id >= spool->committed_id)
                return false;
            *ret_item = spool->entries[spool->first + i].item;
            return true;
        }
    return false;
}

void
mrd_spool_sent(mrd_spool *spool, uint64_t id)
{
    entry *item = mrd_spool_entry(spool, id);

    if (item != NULL)
        item->sent = true;
}

static void
note_answered(mrd_spool *spool, const mrd_spool_item *item)
{
    sequence *seq = mrd_spool_find_sequence(spool, item->session);

    if (seq == NULL)
        return;
    if (item->events > 0 && item->clock == seq->tally.damaged_clock &&
        mrd_ev_after(item->last, seq->answered_to))
        seq->answered_to = item->last;
    mrd_spool_counts_write(spool, seq);
}

/* Records the answer to a frame. If the frame was already counted as dropped, the drop is undone.
 * The file "counts" is corrected at once, and the segments by the record of the answer. Until that
 * record is written, "counts" states by how many events the segments count too many drops. */
static bool
write_answer(mrd_spool *spool, const mrd_spool_item *item, answer_record *record)
{
    sequence *seq = mrd_spool_find_sequence(spool, record->session);

    if (seq == NULL)
        return mrd_spool_write_answer(spool, record);
    seq->ahead += (int64_t) record->forced;
    if (record->forced > 0)
        note_answered(spool, item);
    if (seq->ahead < (int64_t) record->forced)
        record->forced = (uint64_t) seq->ahead;
    if (!mrd_spool_write_answer(spool, record))
        return false;
    seq->ahead -= (int64_t) record->forced;
    return true;
}

static bool
done(mrd_spool *spool, uint64_t id, enum answer answer)
{
    entry *ent = mrd_spool_entry(spool, id);
    bool clock, rescued;
    answer_record record;

    if (ent == NULL)
        return false;
    clock = is_clock(ent);
    rescued = ent->copy != NULL;
    record = (answer_record){ ent->item.epoch, ent->item.session,
                              ent->item.seq,   ent->item.events,
                              answer,          rescued ? ent->item.events : 0 };
    mrd_spool_complete(spool, ent);
    if (clock)
        count_clock_answer(spool, record.session, rescued, answer != ANSWER_REFUSED);
    if (mrd_spool_find_sequence(spool, record.session) !=
        NULL) /* NULL if the session was removed */
        (void) mrd_spool_count_answer(spool, &record);
    if (!write_answer(spool, &ent->item, &record)) {
        if (rescued)
            mrd_spool_set_behind(spool, record.session);
        /* remember the answer in memory, because a slot in the file "counts" only shows the answers
         * to 64 sequence numbers, beginning with the oldest unanswered one */
        ent->unreported = rescued ? 0 : (uint8_t) (answer + 1);
        spool->unreported += !rescued;
    }
    note_answered(spool, &ent->item);
    forget_done(spool);
    return true;
}

bool
mrd_spool_done(mrd_spool *spool, uint64_t id, bool stored)
{
    return done(spool, id, stored ? ANSWER_STORED : ANSWER_REFUSED);
}

bool
mrd_spool_done_before(mrd_spool *spool, uint64_t id)
{
    return done(spool, id, ANSWER_BEFORE);
}

void
mrd_spool_get_stats(const mrd_spool *spool, mrd_spool_stats *ret_stats)
{
    *ret_stats = spool->stats;
}
