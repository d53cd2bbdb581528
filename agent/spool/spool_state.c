/* agent/spool/spool_state.c - the queue of a spool in memory: entries, sequences of sessions, and their
 * sums. Reads and writes no files. */
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
mrd_spool_find_sequence(const mrd_spool *s, uint64_t session)
{
    for (size_t i = 0; i < s->n_sequences; i++)
        if (s->sequences[i].session == session)
            return &s->sequences[i];
    return NULL;
}

/* Finds or adds the session's entry. Errors: LIMIT, NOMEM. */
mrd_err
mrd_spool_take_sequence(mrd_spool *s, uint64_t session, sequence **ret)
{
    sequence *q = mrd_spool_find_sequence(s, session);

    if (q == NULL) {
        if (s->n_sequences >= SESSIONS_MAX)
            return MRD_LIMIT;
        if (!MRD_VEC_NEXT(s->sequences, s->n_sequences))
            return MRD_NOMEM;
        q = &s->sequences[s->n_sequences++];
        *q = (sequence){ .session = session };
    }
    *ret = q;
    return MRD_OK;
}

mrd_err
mrd_spool_set_sequence(mrd_spool *s, uint64_t session, uint64_t at_least)
{
    sequence *q;
    mrd_err err = mrd_spool_take_sequence(s, session, &q);

    if (err == MRD_OK && q->next < at_least)
        q->next = at_least;
    return err;
}

/* Starts new sequence numbers, because the used ones are not known any more. */
void
mrd_spool_set_epoch(mrd_spool *s, uint64_t epoch)
{
    if (epoch == s->epoch)
        return;
    s->epoch = epoch;
    for (size_t i = 0; i < s->n_sequences; i++)
        s->sequences[i].next = s->sequences[i].committed = 0;
}

segment *
mrd_spool_find_segment(const mrd_spool *s, uint64_t number)
{
    for (size_t i = 0; i < s->n_segments; i++)
        if (s->segments[i].number == number)
            return &s->segments[i];
    return NULL;
}

void
mrd_spool_path_of(const mrd_spool *s, uint64_t number, char path[1024])
{
    snprintf(path, 1024, "%s/spool-%016" PRIx64 ".mrs", s->dir == NULL ? "memory" : s->dir, number);
}

void
mrd_spool_describe(entry *e, const mrd_frame *frame)
{
    e->item.epoch = frame->epoch;
    e->item.session = frame->session;
    e->item.seq = frame->seq;
    e->item.first = frame->first;
    e->item.last = frame->last;
    e->item.type = frame->type;
    e->item.clock = frame->clock;
}

bool
mrd_spool_push_entry(mrd_spool *s, const entry *e)
{
    if (s->first + s->n == s->cap && s->first > s->cap / 2) {
        memmove(s->entries, s->entries + s->first, s->n * sizeof(*s->entries));
        s->first = 0;
    }
    if (!MRD_VEC_ROOM(s->entries, s->first + s->n, s->cap, 1))
        return false;
    s->entries[s->first + s->n++] = *e;
    s->stats.items++;
    s->stats.bytes += e->item.len;
    s->stats.events += e->item.events;
    return true;
}

/* ids in the queue are consecutive. */
entry *
mrd_spool_entry(const mrd_spool *s, uint64_t id)
{
    uint64_t base = s->n == 0 ? 0 : s->entries[s->first].item.id;
    entry *e;

    if (s->n == 0 || id < base || id - base >= s->n)
        return NULL;
    e = &s->entries[s->first + (size_t) (id - base)];
    return e->done ? NULL : e;
}

void
mrd_spool_set_behind(mrd_spool *s, uint64_t session)
{
    sequence *q = mrd_spool_find_sequence(s, session);

    if (q != NULL)
        q->behind = s->behind = true;
}

void
mrd_spool_complete(mrd_spool *s, entry *e)
{
    segment *seg = mrd_spool_find_segment(s, e->segment);

    free(e->copy);
    e->copy = NULL;
    e->done = true;
    s->stats.items--;
    s->stats.bytes -= e->item.len;
    s->stats.events -= e->item.events;
    if (seg != NULL)
        seg->live--;
}

void
mrd_spool_commit_sequences(mrd_spool *s)
{
    for (size_t i = 0; i < s->n_sequences; i++)
        s->sequences[i].committed = s->sequences[i].next;
    s->committed_id = s->next_id;
}

/* Frames after the last commit were never sent, and their rings were not released, so they are read
 * again from there. Returns true if there were any. */
bool
mrd_spool_discard_uncommitted(mrd_spool *s)
{
    bool any = s->next_id != s->committed_id;

    while (s->n > 0 && s->entries[s->first + s->n - 1].item.id >= s->committed_id) {
        entry *e = &s->entries[s->first + --s->n];
        segment *seg = mrd_spool_find_segment(s, e->segment);

        if (e->done) /* there is an answer to it, but its commit was lost */
            continue;
        s->stats.items--;
        s->stats.bytes -= e->item.len;
        s->stats.events -= e->item.events;
        if (seg != NULL)
            seg->live--;
    }
    s->next_id = s->committed_id;
    for (size_t i = 0; i < s->n_sequences; i++)
        s->sequences[i].next = s->sequences[i].committed;
    return any;
}

mrd_err
mrd_spool_count_answer(mrd_spool *s, const answer_record *a)
{
    sequence *q;
    mrd_err err = mrd_spool_take_sequence(s, a->session, &q);

    if (err != MRD_OK)
        return err;
    *(a->stored != ANSWER_REFUSED ? &q->tally.delivered : &q->tally.refused) += a->events;
    /* Earlier agents also withdrew events that the segments had never counted. */
    if ((int64_t) a->forced < 0)
        q->tally.forced += 0 - a->forced;
    else
        q->tally.forced -= a->forced < q->tally.forced ? a->forced : q->tally.forced;
    if (a->stored == ANSWER_BEFORE && q->base != NULL)
        q->base->known += a->events;
    return MRD_OK;
}

mrd_err
mrd_spool_set_base(sequence *q, const mrd_spool_base *base)
{
    if (q->base == NULL && (q->base = malloc(sizeof(*q->base))) == NULL)
        return MRD_NOMEM;
    *q->base = *base;
    return MRD_OK;
}

uint64_t
mrd_spool_held(const mrd_spool *s, uint64_t session, uint64_t *ret_events)
{
    uint64_t n = 0, events = 0;

    for (size_t i = 0; i < s->n; i++) {
        const entry *e = &s->entries[s->first + i];

        if (e->done || e->item.session != session)
            continue;
        n++;
        events += e->item.events;
    }
    if (ret_events != NULL)
        *ret_events = events;
    return n;
}

mrd_err
mrd_spool_begin_boot(mrd_spool *s)
{
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < s->n && err == MRD_OK; i++) {
        sequence *q;

        s->entries[s->first + i].item.earlier = true;
        err = mrd_spool_take_sequence(s, s->entries[s->first + i].item.session, &q);
    }
    for (size_t i = 0; i < s->n_sequences && err == MRD_OK; i++) {
        sequence *q = &s->sequences[i];
        mrd_spool_base base = { 0 };

        base.known = q->base == NULL ? 0 : q->base->known;
        base.tally = q->tally;
        base.tally.delivered -= base.known;
        (void) mrd_spool_held(s, q->session, &base.held);
        base.begun = base.held + base.tally.delivered + q->tally.refused + q->tally.forced +
                     q->tally.damaged + q->missing;
        q->missing = 0;
        err = mrd_spool_set_base(q, &base);
    }
    return err;
}

/* ---- Answers ---- */

/* Returns true if its segment was removed: it is counted as dropped, and only this process still
 * waits for its answer. */
static bool
is_forced_out(const entry *e)
{
    return e->segment == 0;
}

uint64_t
mrd_spool_unanswered(const mrd_spool *s, const sequence *q, uint64_t *ret_bits)
{
    uint64_t first = q->committed;
    bool any = false;

    *ret_bits = 0;
    for (size_t i = 0; i < s->n; i++) {
        const entry *e = &s->entries[s->first + i];

        if (e->item.session != q->session || e->item.epoch != s->epoch || e->done ||
            is_forced_out(e))
            continue;
        if (!any) {
            any = true;
            first = e->item.seq;
            *ret_bits = UINT64_MAX;
        }
        if (e->item.seq - first >= MRD_SPOOL_TOLD)
            break;
        *ret_bits &= ~(1ull << (e->item.seq - first));
    }
    return first;
}

void
mrd_spool_known(const mrd_spool *s, const sequence *q, bool counts, uint64_t *ret_delivered,
                uint64_t *ret_refused)
{
    uint64_t left = s->unreported, bits;
    uint64_t first = left > 0 ? mrd_spool_unanswered(s, q, &bits) : 0;

    *ret_delivered = q->tally.delivered;
    *ret_refused = q->tally.refused;
    for (size_t i = 0; i < s->n && left > 0; i++) {
        const entry *e = &s->entries[s->first + i];

        left -= e->unreported != 0;
        if (e->unreported == 0 || e->item.session != q->session ||
            (counts && e->item.epoch == s->epoch && /* they tell it */
             (e->item.seq < first || e->item.seq - first < MRD_SPOOL_TOLD)))
            continue;
        *(e->unreported == ANSWER_REFUSED + 1 ? ret_refused : ret_delivered) -= e->item.events;
    }
}

uint64_t
mrd_spool_known_before(const mrd_spool *s, const sequence *q)
{
    uint64_t known = q->base->known;

    for (size_t i = 0; i < s->n && s->unreported > 0; i++) {
        const entry *e = &s->entries[s->first + i];

        if (e->unreported == ANSWER_BEFORE + 1 && e->item.session == q->session)
            known -= e->item.events;
    }
    return known;
}
