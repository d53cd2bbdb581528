#include "trace/import/import_times.h"

#include <stdlib.h>

#include "base/num.h"

#define MRD_TIMES_SHIFT 40                     /* 18 minutes */
#define EPOCH_FROM      (1000000000 * MRD_SEC) /* 2001; later times count from 1970 */

static void
slot_add(mrd_times_slot *to, const mrd_times_slot *from)
{
    to->first = mrd_ev_min(to->first, from->first);
    to->last = mrd_ev_max(to->last, from->last);
    to->end = mrd_ev_max(to->end, from->end);
    to->count += from->count;
}

/* Doubles the length of an interval until at most half of the slots are in use. */
static void
make_coarser(mrd_times *t)
{
    do {
        unsigned n = 0;

        t->coarser++;
        for (unsigned i = 0; i < t->n; i++) {
            mrd_times_slot slot = t->slots[i];
            unsigned k = 0;

            slot.number >>= 1;
            while (k < n && t->slots[k].number != slot.number)
                k++;
            if (k == n)
                t->slots[n++] = slot;
            else
                slot_add(&t->slots[k], &slot);
        }
        t->n = n;
    } while (t->n > MRD_TIMES_SLOTS / 2);
}

/* Returns the slot of the event's begin, if the latest slot does not fit. */
static __attribute__((noinline)) mrd_times_slot *
find_slot(mrd_times *t, const mrd_event *ev)
{
    if (t->n == MRD_TIMES_SLOTS)
        make_coarser(t);
    for (t->at = 0; t->at < t->n; t->at++)
        if (t->slots[t->at].number == ev->ts.ns >> (MRD_TIMES_SHIFT + t->coarser))
            return &t->slots[t->at];
    t->slots[t->n] = (mrd_times_slot){ .number = ev->ts.ns >> (MRD_TIMES_SHIFT + t->coarser),
                                       .first = ev->ts,
                                       .last = ev->ts,
                                       .end = ev->ts,
                                       .name = ev->name };
    return &t->slots[t->n++];
}

void
mrd_times_add(mrd_times *t, const mrd_event *ev)
{
    mrd_times_slot *slot = &t->slots[t->at];
    mrd_ev_ns end = mrd_event_end(ev);

    if (ev->kind == MRD_FLOW)
        return;
    if (t->n == 0 || slot->number != ev->ts.ns >> (MRD_TIMES_SHIFT + t->coarser))
        slot = find_slot(t, ev);
    slot->count++;
    slot->first = mrd_ev_min(slot->first, ev->ts);
    slot->last = mrd_ev_max(slot->last, ev->ts);
    t->count++;
    if (end.ns == INT64_MAX)
        return;
    if (ev->dur_ns >= MRD_TIMES_APART && t->n_longs < MRD_TIMES_FEW) {
        t->longs[t->n_longs].end = end;
        t->longs[t->n_longs++].name = ev->name;
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

/* Joins slots that have no gap of MRD_TIMES_APART between them. */
static void
join_slots(mrd_times *t)
{
    unsigned n = 0;

    qsort(t->slots, t->n, sizeof(t->slots[0]), slot_order);
    for (unsigned i = 0; i < t->n; i++) {
        if (n > 0 && mrd_sat_sub(t->slots[i].first.ns, t->slots[n - 1].end.ns) < MRD_TIMES_APART)
            slot_add(&t->slots[n - 1], &t->slots[i]);
        else
            t->slots[n++] = t->slots[i];
    }
    t->n = n;
}

/* The state of removing wrong slots from both ends. */
typedef struct {
    mrd_times_verdict *said;
    uint64_t most;    /* limit of records that may be far away */
    mrd_dur_ns apart; /* the distance that counts as far away */
    bool of_epoch;    /* most times count from 1970 */
} judging;

static void
note_far(judging *j, uint64_t count, mrd_ev_ns at, mrd_sid name, mrd_dur_ns by)
{
    j->said->far += count;
    if (by < j->said->far_by)
        return;
    j->said->far_by = by;
    j->said->far_at = at;
    j->said->far_name = name;
}

/* Returns true if the outermost slot is wrong. `gap` lies between this slot and the next. */
static bool
take_off(judging *j, const mrd_times_slot *slot, mrd_dur_ns gap)
{
    if (j->of_epoch && slot->first.ns > -MRD_TIMES_APART && slot->last.ns < MRD_TIMES_APART) {
        j->said->without += slot->count;
        return true;
    }
    if (gap < j->apart || j->said->far + slot->count > j->most)
        return false;
    note_far(j, slot->count, slot->first, slot->name, gap);
    return true;
}

/* Returns the distance from these records at which others are far away. */
static mrd_dur_ns
apart_of(const mrd_times_slot *slot)
{
    mrd_dur_ns extent = mrd_sat_sub(slot->end.ns, slot->first.ns);

    if (extent > INT64_MAX / MRD_TIMES_EXTENTS)
        return INT64_MAX;
    return extent < MRD_TIMES_APART / MRD_TIMES_EXTENTS ? MRD_TIMES_APART
                                                        : extent * MRD_TIMES_EXTENTS;
}

/* Returns how many records may be far away. Two windows of similar size are both correct. */
static uint64_t
most_far(uint64_t all, uint64_t main_part)
{
    uint64_t few = all / 100 > MRD_TIMES_FEW ? all / 100 : MRD_TIMES_FEW;

    return few < main_part / MRD_TIMES_PART ? few : main_part / MRD_TIMES_PART;
}

static mrd_dur_ns
gap_before(const mrd_times *t, unsigned i)
{
    return mrd_sat_sub(t->slots[i].first.ns, t->slots[i - 1].end.ns);
}

bool
mrd_times_judge(mrd_times *t, mrd_times_verdict *ret)
{
    judging j = { .said = ret };
    unsigned low = 0, high, most = 0;
    mrd_ev_ns end = { INT64_MIN };

    *ret = (mrd_times_verdict){ 0 };
    if (t->n == 0)
        return false;
    join_slots(t);
    high = t->n - 1;
    for (unsigned i = 0; i < t->n; i++) {
        j.of_epoch = j.of_epoch || t->slots[i].first.ns > EPOCH_FROM;
        if (t->slots[i].count > t->slots[most].count)
            most = i;
    }
    if (j.of_epoch && t->slots[most].first.ns == 0 && t->slots[most].last.ns == 0)
        most = high; /* most records have no time */
    j.of_epoch = t->slots[most].first.ns > EPOCH_FROM;
    j.apart = apart_of(&t->slots[most]);
    j.most = most_far(t->count, t->slots[most].count);
    while (low < most && take_off(&j, &t->slots[low], gap_before(t, low + 1)))
        low++;
    while (high > most && take_off(&j, &t->slots[high], gap_before(t, high)))
        high--;
    ret->first = t->slots[low].first;
    for (unsigned i = low; i <= high; i++)
        end = mrd_ev_max(end, t->slots[i].end);
    ret->end = end;
    for (unsigned i = 0; i < t->n_longs; i++) {
        mrd_dur_ns by = mrd_sat_sub(t->longs[i].end.ns, end.ns);

        if (by >= j.apart && ret->far < j.most)
            note_far(&j, 1, t->longs[i].end, t->longs[i].name, by);
        else
            ret->end = mrd_ev_max(ret->end, t->longs[i].end);
    }
    return ret->without + ret->far > 0;
}
