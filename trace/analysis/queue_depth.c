#include "trace/analysis/queue_depth.h"

#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

#define FIRST_ROOM 256u

void
mrd_queue_init(mrd_queue *q)
{
    *q = (mrd_queue){ .n = 0 };
}

void
mrd_queue_fini(mrd_queue *q)
{
    free(q->v);
}

/* Adds up the first n changes. No later change may have the same time as the last of them. */
static void
add_up(mrd_queue *q, size_t n)
{
    if (n == 0)
        return;
    for (size_t i = 0; i < n; i++) {
        uint64_t past = (uint64_t) mrd_ev_diff(q->v[i].at, q->until);

        q->sum.sum_ns += q->depth * past;
        q->sum.empty_ns += q->depth == 0 ? past : 0;
        q->until = q->v[i].at;
        q->depth += (uint64_t) (int64_t) q->v[i].by;
        if ((i + 1 == n || mrd_ev_after(q->v[i + 1].at, q->until)) && q->depth > q->sum.most)
            q->sum.most = q->depth;
    }
    q->n -= n;
    memmove(q->v, q->v + n, q->n * sizeof(*q->v));
}

/* Makes room for two changes. The array grows until it is four times as large as the largest
 * distance of a launch from the newest change. After that, the older half is added up. */
static mrd_err
make_room(mrd_queue *q)
{
    size_t at, room = q->room == 0 ? FIRST_ROOM : 2 * q->room;

    if (q->n + 2 <= q->room)
        return MRD_OK;
    if (q->room == 0 || (q->room < MRD_QUEUE_CHANGES && 4 * q->deepest > q->room))
        return MRD_VEC_ROOM_MAX(q->v, q->n, q->room, room - q->n, MRD_QUEUE_CHANGES) ? MRD_OK
                                                                                     : MRD_NOMEM;
    for (at = q->n / 2; at < q->n && !mrd_ev_after(q->v[at].at, q->v[at - 1].at); at++)
        ;
    add_up(q, at);
    return MRD_OK;
}

static void
insert(mrd_queue *q, mrd_ev_ns at, int32_t by)
{
    size_t i = 0, n = q->n;

    /* the end of an interval is always the newest change */
    if (n > 0 && !mrd_ev_after(q->v[n - 1].at, at)) {
        i = n;
        n = 0;
    }
    while (n > 0) { /* finds the first later change */
        size_t half = n / 2;

        if (mrd_ev_after(q->v[i + half].at, at)) {
            n = half;
        } else {
            i += half + 1;
            n -= half + 1;
        }
    }
    memmove(q->v + i + 1, q->v + i, (q->n - i) * sizeof(*q->v));
    q->v[i] = (mrd_queue_change){ at, by };
    q->n++;
    q->deepest = q->n - i > q->deepest ? q->n - i : q->deepest;
}

mrd_err
mrd_queue_add(mrd_queue *q, mrd_ev_ns launch, bool known, mrd_ev_ns begin)
{
    mrd_err err;

    if (!q->any) {
        q->any = true;
        q->begin = q->until = begin;
    }
    if (!known || mrd_ev_after(launch, begin)) {
        q->sum.unknown++;
        return MRD_OK;
    }
    q->sum.launches++;
    launch = mrd_ev_before(launch, q->begin) ? q->begin : launch;
    if ((err = make_room(q)) != MRD_OK)
        return err;
    if (mrd_ev_before(launch, q->until)) {
        mrd_ev_ns from = mrd_ev_before(begin, q->until) ? begin : q->until;

        q->sum.cut_ns += (uint64_t) mrd_ev_diff(from, launch);
        launch = from;
    }
    if (mrd_ev_before(launch, begin)) {
        insert(q, launch, 1);
        insert(q, begin, -1);
    }
    return MRD_OK;
}

void
mrd_queue_finish(mrd_queue *q, mrd_ev_ns end)
{
    if (!q->any)
        return;
    add_up(q, q->n);
    if (mrd_ev_after(end, q->until))
        q->sum.empty_ns += (uint64_t) mrd_ev_diff(end, q->until);
}
