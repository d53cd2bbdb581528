#include "trace/import/import_times.h"

#include <stdlib.h>

#include "base/num.h"

#define MRD_TIMES_SHIFT 40                     /* intervals of about 18 minutes */
#define EPOCH_FROM      (1000000000 * MRD_SEC) /* 2001-09-09; larger times count from 1970 */

static void
slot_add(mrd_times_slot *to, const mrd_times_slot *from)
{
    to->first = mrd_ev_min(to->first, from->first);
    to->last = mrd_ev_max(to->last, from->last);
    to->end = mrd_ev_max(to->end, from->end);
    to->count += from->count;
}

/* Doubles the length of the slots' time intervals until at most half of the slots are in use. */
static void
make_coarser(mrd_times *times)
{
    do {
        unsigned n = 0;

        times->coarser++;
        for (unsigned i = 0; i < times->n; i++) {
            mrd_times_slot slot = times->slots[i];
            unsigned k = 0;

            slot.number >>= 1;
            while (k < n && times->slots[k].number != slot.number)
                k++;
            if (k == n)
                times->slots[n++] = slot;
            else
                slot_add(&times->slots[k], &slot);
        }
        times->n = n;
    } while (times->n > MRD_TIMES_SLOTS / 2);
}

/* Returns the slot for the interval in which the event begins, and adds it if needed. Kept out of
 * line, because mrd_times_add() nearly always finds the latest slot. */
static __attribute__((noinline)) mrd_times_slot *
find_slot(mrd_times *times, const mrd_event *ev)
{
    if (times->n == MRD_TIMES_SLOTS)
        make_coarser(times);
    for (times->at = 0; times->at < times->n; times->at++)
        if (times->slots[times->at].number == ev->ts.ns >> (MRD_TIMES_SHIFT + times->coarser))
            return &times->slots[times->at];
    times->slots[times->n] =
        (mrd_times_slot){ .number = ev->ts.ns >> (MRD_TIMES_SHIFT + times->coarser),
                          .first = ev->ts,
                          .last = ev->ts,
                          .end = ev->ts,
                          .name = ev->name };
    return &times->slots[times->n++];
}

void
mrd_times_add(mrd_times *times, const mrd_event *ev)
{
    mrd_times_slot *slot = &times->slots[times->at];
    mrd_ev_ns end = mrd_event_end(ev);

    if (ev->kind == MRD_FLOW)
        return;
    if (times->n == 0 || slot->number != ev->ts.ns >> (MRD_TIMES_SHIFT + times->coarser))
        slot = find_slot(times, ev);
    slot->count++;
    slot->first = mrd_ev_min(slot->first, ev->ts);
    slot->last = mrd_ev_max(slot->last, ev->ts);
    times->count++;
    if (end.ns == INT64_MAX)
        return;
    if (ev->dur_ns >= MRD_TIMES_APART && times->n_longs < MRD_TIMES_FEW) {
        times->longs[times->n_longs].end = end;
        times->longs[times->n_longs++].name = ev->name;
        return;
    }
    slot->end = mrd_ev_max(slot->end, end);
}

static int
slot_order(const void *a, const void *b)
{
    const mrd_times_slot *x = a, *y = b;

    return mrd_i64_order(x->first.ns, y->first.ns);
}

/* Sorts the slots by time, and joins slots that are less than MRD_TIMES_APART from each other. */
static void
join_slots(mrd_times *times)
{
    unsigned n = 0;

    qsort(times->slots, times->n, sizeof(times->slots[0]), slot_order);
    for (unsigned i = 0; i < times->n; i++) {
        if (n > 0 &&
            mrd_sat_sub(times->slots[i].first.ns, times->slots[n - 1].end.ns) < MRD_TIMES_APART)
            slot_add(&times->slots[n - 1], &times->slots[i]);
        else
            times->slots[n++] = times->slots[i];
    }
    times->n = n;
}

/* State of mrd_times_judge(). It removes slots with wrong times, first from the begin of the sorted
 * slots, then from their end. */
typedef struct {
    mrd_times_verdict *said;
    uint64_t most;    /* maximum number of records with wrong times */
    mrd_dur_ns apart; /* distance in ns from which a record is far away */
    bool of_epoch;    /* the times of most records count from 1970 */
} judging;

static void
note_far(judging *j, uint64_t count, mrd_sid name, mrd_dur_ns by)
{
    j->said->far += count;
    if (by < j->said->far_by)
        return;
    j->said->far_by = by;
    j->said->far_name = name;
}

/* Decides whether the first or the last slot has wrong times. `gap` is the slot's distance to the
 * next slot in ns. If the times are wrong, counts the slot's records and returns true. */
static bool
take_off(judging *j, const mrd_times_slot *slot, mrd_dur_ns gap)
{
    if (j->of_epoch && slot->first.ns > -MRD_TIMES_APART && slot->last.ns < MRD_TIMES_APART) {
        j->said->without += slot->count;
        return true;
    }
    if (gap < j->apart || j->said->far + slot->count > j->most)
        return false;
    note_far(j, slot->count, slot->name, gap);
    return true;
}

/* Returns the distance in ns from which on records count as far away. `slot` has the main part of
 * the records. */
static mrd_dur_ns
apart_of(const mrd_times_slot *slot)
{
    mrd_dur_ns extent = mrd_sat_sub(slot->end.ns, slot->first.ns);

    if (extent > INT64_MAX / MRD_TIMES_EXTENTS)
        return INT64_MAX;
    return extent < MRD_TIMES_APART / MRD_TIMES_EXTENTS ? MRD_TIMES_APART
                                                        : extent * MRD_TIMES_EXTENTS;
}

/* Returns the maximum number of records that may count as far away and wrong. If more lie far away,
 * the input probably contains two recordings, and both are correct. */
static uint64_t
most_far(uint64_t all, uint64_t main_part)
{
    uint64_t few = all / 100 > MRD_TIMES_FEW ? all / 100 : MRD_TIMES_FEW;

    return few < main_part / MRD_TIMES_PART ? few : main_part / MRD_TIMES_PART;
}

static mrd_dur_ns
gap_before(const mrd_times *times, unsigned i)
{
    return mrd_sat_sub(times->slots[i].first.ns, times->slots[i - 1].end.ns);
}

bool
mrd_times_judge(mrd_times *times, mrd_times_verdict *ret)
{
    judging j = { .said = ret };
    unsigned low = 0, high, most = 0;
    mrd_ev_ns end = { INT64_MIN };

    *ret = (mrd_times_verdict){ 0 };
    if (times->n == 0)
        return false;
    join_slots(times);
    high = times->n - 1;
    for (unsigned i = 0; i < times->n; i++) {
        j.of_epoch = j.of_epoch || times->slots[i].first.ns > EPOCH_FROM;
        if (times->slots[i].count > times->slots[most].count)
            most = i;
    }
    if (j.of_epoch && times->slots[most].first.ns == 0 && times->slots[most].last.ns == 0)
        /* most records have no time (0), so take the last slot as the main part */
        most = high;
    j.of_epoch = times->slots[most].first.ns > EPOCH_FROM;
    j.apart = apart_of(&times->slots[most]);
    j.most = most_far(times->count, times->slots[most].count);
    while (low < most && take_off(&j, &times->slots[low], gap_before(times, low + 1)))
        low++;
    while (high > most && take_off(&j, &times->slots[high], gap_before(times, high)))
        high--;
    ret->first = times->slots[low].first;
    for (unsigned i = low; i <= high; i++)
        end = mrd_ev_max(end, times->slots[i].end);
    ret->end = end;
    for (unsigned i = 0; i < times->n_longs; i++) {
        mrd_dur_ns by = mrd_sat_sub(times->longs[i].end.ns, end.ns);

        if (by >= j.apart && ret->far < j.most)
            note_far(&j, 1, times->longs[i].name, by);
        else
            ret->end = mrd_ev_max(ret->end, times->longs[i].end);
    }
    return ret->without + ret->far > 0;
}
