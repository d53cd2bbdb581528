/*
 * agent/rings/text_checkpoint.c - keeps a part of a ring in the ring, because an agent that is
 * started later must read it again: texts of the runtime's trace with pending events. An event is
 * pending while it waits for the event of its end, for a sync point or for a missing sequence
 * number. The newest text is kept too, because the next text continues its sequence numbers.
 *
 * `tail` in the ring's header is the position from which on the writer must not overwrite records.
 * It stays before these texts. `done` is the position up to which all other records were processed.
 * The next agent reads the part in between without emitting events, and then has the same pending
 * events. At most a quarter of the ring is kept.
 *
 * Pending events of older texts exist only in this agent's memory. If such an event is the start of
 * a span, the span is emitted twice: in advance as in flight, and completely when it ends
 * (mrd_drain_long_open). An agent that ends emits all other pending events as they are. For an
 * agent that is killed, they are counted in the ring's header (open_lost).
 */
#include <stdlib.h>

#include "agent/rings/drain_int.h"
#include "agent/rings/loss_count.h"
#include "base/vec.h"

#define KEEP_SHARE 4u /* at most 1/KEEP_SHARE of a ring is kept for the next agent */

bool
mrd_drain_text_seen(mrd_drain *drain, ring *r, uint64_t pos)
{
    drain->text_mark++;
    if (!drain->o.hold)
        return true; /* no text must be kept, because no other agent reads the ring later */
    if (!MRD_VEC_ROOM(r->texts, r->n_texts, r->cap_texts, 1))
        return false;
    r->texts[r->n_texts++] = (ring_text){ drain->text_mark, pos };
    return true;
}

static void
forget(ring *r, size_t n)
{
    memmove(r->texts, r->texts + n, (r->n_texts - n) * sizeof(*r->texts));
    r->n_texts -= n;
}

/* Forgets texts that the next agent does not need, and texts that would make the kept part larger
 * than a quarter of the ring. Returns the mark of the first text that is kept, or UINT64_MAX if
 * there is none. */
static uint64_t
keep_texts(ring *r, uint64_t read)
{
    uint64_t most = mrd_ring_borrow_info(r->reader)->data_len / KEEP_SHARE, before;
    uint64_t need = mrd_drain_runtime_needs(r->proc, &before);
    size_t n = 0;

    need = before < need ? before : need;
    while (n + 1 < r->n_texts && r->texts[n].mark < need)
        n++;
    while (n < r->n_texts && read - r->texts[n].pos > most)
        n++;
    forget(r, n);
    return r->n_texts == 0 ? UINT64_MAX : r->texts[0].mark;
}

/* Returns the ring position up to which all gaps in the sequence numbers of runtime events were
 * reported. */
static uint64_t
gaps_done(const ring *r, uint64_t read)
{
    uint64_t before, mark = mrd_drain_runtime_gaps(r->proc, &before);

    for (size_t i = 0; i < r->n_texts; i++)
        if (r->texts[i].mark >= mark)
            return r->texts[i].pos;
    return read;
}

/* Adds the process's open spans that are not in the log of open spans (open_log.c) to `left`: their
 * number and the oldest start. */
static void
add_unsaved(const mrd_drain *drain, const proc *pr, mrd_ring_left *left)
{
    int64_t oldest;
    uint64_t n = mrd_drain_open_unsaved(pr, &oldest);

    if (n == 0)
        return;
    oldest = mrd_drain_raw_to_wall(drain, (mrd_local_ns){ oldest }).ns;
    if (left->open_lost == 0 || oldest < left->oldest_open.ns)
        left->oldest_open = (mrd_wall_ns){ oldest };
    left->open_lost += n;
    if (left->open_lost > MRD_OPEN_SPANS_MAX)
        left->open_lost = MRD_OPEN_SPANS_MAX;
}

void
mrd_drain_text_left(const mrd_drain *drain, ring *r, mrd_ring_left *ret_left, uint64_t *ret_read)
{
    uint64_t most = mrd_ring_borrow_info(r->reader)->data_len / KEEP_SHARE, first;
    mrd_ring_left left = { .keep = UINT64_MAX };
    mrd_ring_stats st;

    mrd_ring_get_stats(r->reader, &st);
    *ret_read = st.read;
    if (r->texts != NULL && !r->ended) {
        first = keep_texts(r, st.read);
        left.keep = r->n_texts == 0 ? st.read : r->texts[0].pos;
        left.gaps_done = gaps_done(r, st.read);
        if (!mrd_ring_borrow_info(r->reader)->rest)
            left.open_lost = mrd_drain_runtime_waiting(r->proc, first, &left.oldest_open);
    }
    if (r->next_of_proc == NULL)
        add_unsaved(drain, r->proc, &left);
    if (r->blob.open && st.read - r->blob.pos <= most && r->blob.pos < left.keep)
        left.keep = r->blob.pos; /* keep the ring from the first chunk of the incomplete text on */
    *ret_left = left;
}

uint64_t
mrd_drain_text_first(ring *r)
{
    mrd_ring_stats st;

    mrd_ring_get_stats(r->reader, &st);
    return keep_texts(r, st.read);
}

void
mrd_drain_text_release(const mrd_drain *drain, ring *r)
{
    mrd_ring_left left;
    uint64_t read;

    mrd_drain_text_left(drain, r, &left, &read);
    r->given_back = read;
    (void) mrd_ring_release_to(r->reader, &left);
    if (r->next_of_proc == NULL)
        r->proc->reported_unsaved = r->proc->open.n - r->proc->open.n_saved;
}

void
mrd_drain_text_end(mrd_drain *drain, ring *r)
{
    mrd_ring_left left;
    uint64_t read;

    if (r->texts == NULL)
        return;
    mrd_drain_text_left(drain, r, &left, &read);
    mrd_drain_runtime_flush_before(drain, r->proc, r->n_texts == 0 ? UINT64_MAX : r->texts[0].mark);
}

void
mrd_drain_text_resume(mrd_drain *drain, ring *r, uint64_t safe)
{
    const mrd_ring_info *info = mrd_ring_borrow_info(r->reader);
    mrd_ring_stats st;

    mrd_ring_get_stats(r->reader, &st);
    if (safe <= st.tail || safe > info->head || safe % MRD_RING_UNIT != 0)
        /* ignore a position outside of the ring's records, which belongs to an earlier ring of this
         * name */
        safe = 0;
    r->safe = safe > info->done ? safe : info->done;
    r->gaps_safe = r->gaps_safe > info->gaps_done ? r->gaps_safe : info->gaps_done;
    if (info->open_lost > 0 && info->open_lost <= MRD_OPEN_SPANS_MAX) {
        mrd_local_ns at = mrd_drain_to_raw(drain, info->oldest_open);

        mrd_drain_lost(drain, r->proc, MRD_DROP_RESTART, info->open_lost, at, at);
        r->waits = true; /* set, so that the next release writes the ring's header */
    }
}
