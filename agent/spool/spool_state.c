/* agent/spool/spool_state.c - keeps a spool's queue in memory: the entries of frames, the sequences
 * of sessions, and their sums. Accesses no files. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/spool/spool_int.h"
#include "base/hash.h"
#include "base/vec.h"

#define SESSIONS_MAX 4096u

uint32_t
mrd_spool_crc_of(uint32_t kind, mrd_bytes a, mrd_bytes b)
{
    uint32_t head[2] = { kind, (uint32_t) (a.len + b.len) };

    return mrd_crc32(mrd_crc32(mrd_crc32(0, head, sizeof(head)), a.p, a.len), b.p, b.len);
}

sequence *
mrd_spool_find_sequence(const mrd_spool *spool, uint64_t session)
{
    for (size_t i = 0; i < spool->n_sequences; i++)
        if (spool->sequences[i].session == session)
            return &spool->sequences[i];
    return NULL;
}

/* Finds the session's sequence, or adds a new one. Errors: LIMIT, NOMEM. */
mrd_err
mrd_spool_take_sequence(mrd_spool *spool, uint64_t session, sequence **ret)
{
    sequence *seq = mrd_spool_find_sequence(spool, session);

    if (seq == NULL) {
        if (spool->n_sequences >= SESSIONS_MAX)
            return MRD_LIMIT;
        if (!MRD_VEC_NEXT(spool->sequences, spool->n_sequences))
            return MRD_NOMEM;
        seq = &spool->sequences[spool->n_sequences++];
        *seq = (sequence){ .session = session };
    }
    *ret = seq;
    return MRD_OK;
}

mrd_err
mrd_spool_set_sequence(mrd_spool *spool, uint64_t session, uint64_t at_least)
{
    sequence *seq;
    mrd_err err = mrd_spool_take_sequence(spool, session, &seq);

    if (err == MRD_OK && seq->next < at_least)
        seq->next = at_least;
    return err;
}

/* Sets the epoch. If it is a new epoch, the sequence numbers of all sessions restart, because it is
 * unknown which numbers were used before. */
void
mrd_spool_set_epoch(mrd_spool *spool, uint64_t epoch)
{
    if (epoch == spool->epoch)
        return;
    spool->epoch = epoch;
    for (size_t i = 0; i < spool->n_sequences; i++)
        spool->sequences[i].next = spool->sequences[i].committed = 0;
}

segment *
mrd_spool_find_segment(const mrd_spool *spool, uint64_t number)
{
    for (size_t i = 0; i < spool->n_segments; i++)
        if (spool->segments[i].number == number)
            return &spool->segments[i];
    return NULL;
}

void
mrd_spool_path_of(const mrd_spool *spool, uint64_t number, char path[1024])
{
    snprintf(path, 1024, "%s/spool-%016" PRIx64 ".mrs", spool->dir == NULL ? "memory" : spool->dir,
             number);
}

void
mrd_spool_describe(entry *ent, const mrd_frame *frame)
{
    ent->item.epoch = frame->epoch;
    ent->item.session = frame->session;
    ent->item.seq = frame->seq;
    ent->item.first = frame->first;
    ent->item.last = frame->last;
    ent->item.type = frame->type;
    ent->item.clock = frame->clock;
}

bool
mrd_spool_push_entry(mrd_spool *spool, const entry *ent)
{
    if (spool->first + spool->n == spool->cap && spool->first > spool->cap / 2) {
        memmove(spool->entries, spool->entries + spool->first, spool->n * sizeof(*spool->entries));
        spool->first = 0;
    }
    if (!MRD_VEC_ROOM(spool->entries, spool->first + spool->n, spool->cap, 1))
        return false;
    spool->entries[spool->first + spool->n++] = *ent;
    spool->stats.items++;
    spool->stats.bytes += ent->item.len;
    spool->stats.events += ent->item.events;
    return true;
}

/* Returns the entry of a frame that is not done. Ids in the queue are consecutive, so the id gives
 * the index. */
entry *
mrd_spool_entry(const mrd_spool *spool, uint64_t id)
{
    uint64_t base = spool->n == 0 ? 0 : spool->entries[spool->first].item.id;
    entry *ent;

    if (spool->n == 0 || id < base || id - base >= spool->n)
        return NULL;
    ent = &spool->entries[spool->first + (size_t) (id - base)];
    return ent->done ? NULL : ent;
}

void
mrd_spool_set_behind(mrd_spool *spool, uint64_t session)
{
    sequence *seq = mrd_spool_find_sequence(spool, session);

    if (seq != NULL)
        seq->behind = spool->behind = true;
}

void
mrd_spool_complete(mrd_spool *spool, entry *ent)
{
    segment *seg = mrd_spool_find_segment(spool, ent->segment);

    free(ent->copy);
    ent->copy = NULL;
    ent->done = true;
    spool->stats.items--;
    spool->stats.bytes -= ent->item.len;
    spool->stats.events -= ent->item.events;
    if (seg != NULL)
        seg->live--;
}

void
mrd_spool_commit_sequences(mrd_spool *spool)
{
    for (size_t i = 0; i < spool->n_sequences; i++)
        spool->sequences[i].committed = spool->sequences[i].next;
    spool->committed_id = spool->next_id;
}

/* Removes the frames after the last commit. They were never sent, and their events are read from
 * the rings again, because the rings were not released. Returns true if there were any. */
bool
mrd_spool_discard_uncommitted(mrd_spool *spool)
{
    bool any = spool->next_id != spool->committed_id;

    while (spool->n > 0 &&
           spool->entries[spool->first + spool->n - 1].item.id >= spool->committed_id) {
        entry *ent = &spool->entries[spool->first + --spool->n];
        segment *seg = mrd_spool_find_segment(spool, ent->segment);

        /* this frame is already complete: its answer was found, although its commit record was
         * lost */
        if (ent->done)
            continue;
        spool->stats.items--;
        spool->stats.bytes -= ent->item.len;
        spool->stats.events -= ent->item.events;
        if (seg != NULL)
            seg->live--;
    }
    spool->next_id = spool->committed_id;
    for (size_t i = 0; i < spool->n_sequences; i++)
        spool->sequences[i].next = spool->sequences[i].committed;
    return any;
}

mrd_err
mrd_spool_count_answer(mrd_spool *spool, const answer_record *record)
{
    sequence *seq;
    mrd_err err = mrd_spool_take_sequence(spool, record->session, &seq);

    if (err != MRD_OK)
        return err;
    *(record->stored != ANSWER_REFUSED ? &seq->tally.delivered : &seq->tally.refused) +=
        record->events;
    /* A negative number adds to the drops. A positive number subtracts from them, but not below 0,
     * because an agent of an earlier release may have written too large a number. */
    if ((int64_t) record->forced < 0)
        seq->tally.forced += 0 - record->forced;
    else
        seq->tally.forced -=
            record->forced < seq->tally.forced ? record->forced : seq->tally.forced;
    if (record->stored == ANSWER_BEFORE && seq->base != NULL)
        seq->base->known += record->events;
    return MRD_OK;
}

mrd_err
mrd_spool_set_base(sequence *seq, const mrd_spool_base *base)
{
    if (seq->base == NULL && (seq->base = malloc(sizeof(*seq->base))) == NULL)
        return MRD_NOMEM;
    *seq->base = *base;
    return MRD_OK;
}

uint64_t
mrd_spool_held(const mrd_spool *spool, uint64_t session, uint64_t *ret_events)
{
    uint64_t n = 0, events = 0;

    for (size_t i = 0; i < spool->n; i++) {
        const entry *ent = &spool->entries[spool->first + i];

        if (ent->done || ent->item.session != session)
            continue;
        n++;
        events += ent->item.events;
    }
    if (ret_events != NULL)
        *ret_events = events;
    return n;
}

mrd_err
mrd_spool_begin_boot(mrd_spool *spool)
{
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < spool->n && err == MRD_OK; i++) {
        sequence *seq;

        spool->entries[spool->first + i].item.earlier = true;
        err = mrd_spool_take_sequence(spool, spool->entries[spool->first + i].item.session, &seq);
    }
    for (size_t i = 0; i < spool->n_sequences && err == MRD_OK; i++) {
        sequence *seq = &spool->sequences[i];
        mrd_spool_base base = { 0 };

        base.known = seq->base == NULL ? 0 : seq->base->known;
        base.tally = seq->tally;
        base.tally.delivered -= base.known;
        (void) mrd_spool_held(spool, seq->session, &base.held);
        base.begun = base.held + base.tally.delivered + seq->tally.refused + seq->tally.forced +
                     seq->tally.damaged + seq->missing;
        seq->missing = 0;
        err = mrd_spool_set_base(seq, &base);
    }
    return err;
}

/* ---- Answers ---- */

/* Returns true if the frame's segment was removed and only the copy in memory is left. If this
 * process ends before the frame is answered, the frame counts as dropped. */
static bool
is_forced_out(const entry *item)
{
    return item->segment == 0;
}

uint64_t
mrd_spool_unanswered(const mrd_spool *spool, const sequence *seq, uint64_t *ret_bits)
{
    uint64_t first = seq->committed;
    bool any = false;

    *ret_bits = 0;
    for (size_t i = 0; i < spool->n; i++) {
        const entry *ent = &spool->entries[spool->first + i];

        if (ent->item.session != seq->session || ent->item.epoch != spool->epoch || ent->done ||
            is_forced_out(ent))
            continue;
        if (!any) {
            any = true;
            first = ent->item.seq;
            *ret_bits = UINT64_MAX;
        }
        if (ent->item.seq - first >= MRD_SPOOL_TOLD)
            break;
        *ret_bits &= ~(1ull << (ent->item.seq - first));
    }
    return first;
}

void
mrd_spool_known(const mrd_spool *spool, const sequence *seq, bool counts, uint64_t *ret_delivered,
                uint64_t *ret_refused)
{
    uint64_t left = spool->unreported, bits;
    uint64_t first = left > 0 ? mrd_spool_unanswered(spool, seq, &bits) : 0;

    *ret_delivered = seq->tally.delivered;
    *ret_refused = seq->tally.refused;
    for (size_t i = 0; i < spool->n && left > 0; i++) {
        const entry *ent = &spool->entries[spool->first + i];

        left -= ent->unreported != 0;
        if (ent->unreported == 0 || ent->item.session != seq->session ||
            (counts && ent->item.epoch == spool->epoch && /* the file "counts" has this answer */
             (ent->item.seq < first || ent->item.seq - first < MRD_SPOOL_TOLD)))
            continue;
        *(ent->unreported == ANSWER_REFUSED + 1 ? ret_refused : ret_delivered) -= ent->item.events;
    }
}

uint64_t
mrd_spool_known_before(const mrd_spool *spool, const sequence *seq)
{
    uint64_t known = seq->base->known;

    for (size_t i = 0; i < spool->n && spool->unreported > 0; i++) {
        const entry *ent = &spool->entries[spool->first + i];

        if (ent->unreported == ANSWER_BEFORE + 1 && ent->item.session == seq->session)
            known -= ent->item.events;
    }
    return known;
}
