#include "trace/analysis/queue_depth.h"

#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

#define FIRST_ROOM 256u

void
mrd_queue_init(mrd_queue *queue)
{
    *queue = (mrd_queue){ .n = 0 };
}

void
mrd_queue_fini(mrd_queue *queue)
{
    free(queue->v);
}

/* Adds the oldest n changes of the queue's depth to the sums and removes them from the array. A
 * later change must not have the same time as the n-th. */
static void
add_up(mrd_queue *queue, size_t n)
{
    if (n == 0)
        return;
    for (size_t i = 0; i < n; i++) {
        uint64_t past = (uint64_t) mrd_ev_diff(queue->v[i].at, queue->until);

        queue->sum.sum_ns += queue->depth * past;
        queue->sum.empty_ns += queue->depth == 0 ? past : 0;
        queue->until = queue->v[i].at;
        queue->depth += (uint64_t) (int64_t) queue->v[i].by;
        if ((i + 1 == n || mrd_ev_after(queue->v[i + 1].at, queue->until)) &&
            queue->depth > queue->sum.most)
            queue->sum.most = queue->depth;
    }
    queue->n -= n;
    memmove(queue->v, queue->v + n, queue->n * sizeof(*queue->v));
}

/* Makes room for two more changes of the queue's depth. The array grows while it is shorter than
 * four times `deepest`. A longer array is not enlarged. Instead, its older half is added to the
 * sums and removed. */
static mrd_err
make_room(mrd_queue *queue)
{
    size_t at, room = queue->room == 0 ? FIRST_ROOM : 2 * queue->room;

    if (queue->n + 2 <= queue->room)
        return MRD_OK;
    if (queue->room == 0 || (queue->room < MRD_QUEUE_CHANGES && 4 * queue->deepest > queue->room))
        return MRD_VEC_ROOM_MAX(queue->v, queue->n, queue->room, room - queue->n, MRD_QUEUE_CHANGES)
                   ? MRD_OK
                   : MRD_NOMEM;
    for (at = queue->n / 2; at < queue->n && !mrd_ev_after(queue->v[at].at, queue->v[at - 1].at);
         at++)
        ;
    add_up(queue, at);
    return MRD_OK;
}

static void
insert(mrd_queue *queue, mrd_ev_ns at, int32_t by)
{
    size_t i = 0, n = queue->n;

    /* a device span begins at or after the newest change, so it is appended without a search */
    if (n > 0 && !mrd_ev_after(queue->v[n - 1].at, at)) {
        i = n;
        n = 0;
    }
    while (n > 0) { /* binary search for the first change that is later than `at` */
        size_t half = n / 2;

        if (mrd_ev_after(queue->v[i + half].at, at)) {
            n = half;
        } else {
            i += half + 1;
            n -= half + 1;
        }
    }
    memmove(queue->v + i + 1, queue->v + i, (queue->n - i) * sizeof(*queue->v));
    queue->v[i] = (mrd_queue_change){ at, by };
    queue->n++;
    queue->deepest = queue->n - i > queue->deepest ? queue->n - i : queue->deepest;
}

mrd_err
mrd_queue_add(mrd_queue *queue, mrd_ev_ns launch, bool known, mrd_ev_ns begin)
{
    mrd_err err;

    if (!queue->any) {
        queue->any = true;
        queue->begin = queue->until = begin;
    }
    if (!known || mrd_ev_after(launch, begin)) {
        queue->sum.unknown++;
        return MRD_OK;
    }
    queue->sum.launches++;
    launch = mrd_ev_before(launch, queue->begin) ? queue->begin : launch;
    if ((err = make_room(queue)) != MRD_OK)
        return err;
    if (mrd_ev_before(launch, queue->until)) {
        mrd_ev_ns from = mrd_ev_before(begin, queue->until) ? begin : queue->until;

        queue->sum.cut_ns += (uint64_t) mrd_ev_diff(from, launch);
        launch = from;
    }
    if (mrd_ev_before(launch, begin)) {
        insert(queue, launch, 1);
        insert(queue, begin, -1);
    }
    return MRD_OK;
}

void
mrd_queue_finish(mrd_queue *queue, mrd_ev_ns end)
{
    if (!queue->any)
        return;
    add_up(queue, queue->n);
    if (mrd_ev_after(end, queue->until))
        queue->sum.empty_ns += (uint64_t) mrd_ev_diff(end, queue->until);
}
