/* Turns the readings of a process into slots, which hold the means of about 2 s. */
#include "aggregator/core/slow/slow_int.h"

#include <stdlib.h>
#include <string.h>

/* After a longer time without a reading the series begins again. */
#define LONGEST_GAP (600 * MRD_SEC)
/* A count may exceed the time between two readings by this time. The clocks of the counts differ,
 * and the kernel's counters have coarse units. */
#define SLACK (20 * MRD_MS)

typedef enum { EXECUTES, COLLECTIVE, OTHER } op_kind;

/* Returns whether the operation waits for other ranks. */
static op_kind
kind_of(const char *name)
{
    static const char *const collectives[] = { "barrier",    "all_gather", "all_reduce", "reduce",
                                               "all_to_all", "broadcast",  "send",       "recv",
                                               "comm",       "collectives" };

    if (strstr(name, "execute") != NULL)
        return EXECUTES;
    for (size_t i = 0; i < sizeof(collectives) / sizeof(collectives[0]); i++)
        if (strstr(name, collectives[i]) != NULL)
            return COLLECTIVE;
    return OTHER;
}

static bool
is_same_op(const mrd_slow_op *a, const mrd_slow_op *b)
{
    return a->group == b->group && strcmp(a->name, b->name) == 0;
}

/* Returns the counts of the operation `like`, or NULL. Looks at index `hint` first. */
static const mrd_slow_op *
find_op(const mrd_slow_reading *reading, const mrd_slow_op *like, size_t hint)
{
    if (hint < reading->n_ops && is_same_op(&reading->ops[hint], like))
        return &reading->ops[hint];
    for (size_t i = 0; i < reading->n_ops; i++)
        if (is_same_op(&reading->ops[i], like))
            return &reading->ops[i];
    return NULL;
}

/* Returns false if the reading contradicts itself. */
static bool
is_sane(const mrd_slow_reading *reading)
{
    if (reading->n_ops > MRD_HANG_OPS || reading->lead >= reading->n_ops || reading->at.ns <= 0 ||
        reading->at.ns > INT64_MAX / 4 || reading->outside < 0 || reading->outside > INT64_MAX / 4)
        return false;
    for (size_t i = 0; i < reading->n_ops; i++)
        if (reading->ops[i].inside < 0 || reading->ops[i].inside > INT64_MAX / 4 ||
            reading->ops[i].entered > INT64_MAX / 4)
            return false;
    return reading->device <= INT64_MAX / 4 && reading->cpu_wait <= INT64_MAX / 4 &&
           reading->executions <= INT64_MAX / 4;
}

/* Differences of two readings. Times are in ns. */
typedef struct {
    double span, steps, outside, runtime, execution, collective, executes;
} slow_delta;

/* Stores how much a time grew. The agent converts times from ticks, and estimates their length again
 * and again. So a time may become smaller by a millionth. Returns false if it became smaller by
 * more. */
static bool
growth(mrd_dur_ns from, mrd_dur_ns to, double *ret_growth)
{
    if (to < from - from / 1000000 - 10 * MRD_US)
        return false;
    *ret_growth = to > from ? (double) (to - from) : 0;
    return true;
}

/* Adds the calls of the operation between the readings. Returns false if its counts went
 * backwards. */
static bool
add_op(slow_delta *delta, const mrd_slow_reading *from, const mrd_slow_op *op, size_t i)
{
    const mrd_slow_op *before = find_op(from, op, i);
    double inside;

    if (!growth(before != NULL ? before->inside : 0, op->inside, &inside) ||
        (before != NULL && op->entered < before->entered))
        return false;
    /* An operation that the earlier reading lacks may have been left out of it. Its time counts
     * only if it fits into the time between the readings. */
    if (before == NULL && inside > delta->span)
        return true;
    switch (kind_of(op->name)) {
    case EXECUTES:
        delta->execution += inside;
        delta->executes += (double) (op->entered - (before != NULL ? before->entered : 0));
        break;
    case COLLECTIVE:
        delta->collective += inside;
        break;
    case OTHER:
        delta->runtime += inside;
        break;
    }
    return true;
}

static bool
subtract(const mrd_slow_reading *from, const mrd_slow_reading *to, slow_delta *ret_delta)
{
    const mrd_slow_op *lead = &to->ops[to->lead], *before = find_op(from, lead, from->lead);
    slow_delta delta = { .span = (double) mrd_local_diff(to->at, from->at) };
    double most;

    if (before == NULL || lead->entered <= before->entered || delta.span <= 0 ||
        !growth(from->outside, to->outside, &delta.outside))
        return false;
    delta.steps = (double) (lead->entered - before->entered);
    for (size_t i = 0; i < to->n_ops; i++)
        if (!add_op(&delta, from, &to->ops[i], i))
            return false;
    most = delta.span * 1.05 + (double) SLACK + 2 * (double) (to->bound + from->bound);
    if (delta.outside + delta.runtime + delta.execution + delta.collective > most ||
        delta.steps > delta.span / 1000)
        return false;
    *ret_delta = delta;
    return true;
}

/* Returns the mean of a count that may be unknown, per step. Negative if unknown. */
static float
optional(mrd_dur_ns from, mrd_dur_ns to, const slow_delta *delta)
{
    if (from < 0 || to < from || (double) (to - from) > delta->span * 1.05 + (double) SLACK)
        return -1;
    return (float) ((double) (to - from) / delta->steps);
}

/* Returns the device's own time per step. The runtime's trace may lack executions, so the mean of an
 * execution is multiplied by the executions of a step. */
static float
device_of(const mrd_slow_reading *from, const mrd_slow_reading *to, const slow_delta *delta)
{
    double executions, device;

    if (from->device < 0 || to->device < from->device || to->executions <= from->executions)
        return -1;
    executions = (double) (to->executions - from->executions);
    device = (double) (to->device - from->device) / executions * delta->executes / delta->steps;
    /* a process may have many cores that work at the same time */
    return device >= 0 && device < 256 * delta->span ? (float) device : -1;
}

static void
make_slot(const mrd_slow_reading *from, const mrd_slow_reading *to, const slow_delta *delta,
          slow_slot *slot)
{
    double known = delta->outside + delta->runtime + delta->execution + delta->collective;

    *slot = (slow_slot){ .steps = (uint32_t) (delta->steps < 1e9 ? delta->steps : 1e9),
                         .step = (float) (delta->span / delta->steps),
                         .collective = (float) (delta->collective / delta->steps) };
    /* The times of the main thread add up to the time between the readings. Their sum is exact,
     * because it does not depend on the conversion between clocks. */
    if (known > delta->span * 0.98 && known < delta->span * 1.02)
        slot->step = (float) (known / delta->steps);
    slot->part[MRD_SLOW_HOST] = (float) (delta->outside / delta->steps);
    slot->part[MRD_SLOW_RUNTIME] = (float) (delta->runtime / delta->steps);
    slot->part[MRD_SLOW_EXECUTION] = (float) (delta->execution / delta->steps);
    slot->part[MRD_SLOW_DEVICE] = device_of(from, to, delta);
    slot->cpu_wait = optional(from->cpu_wait, to->cpu_wait, delta);
}

static void
restart(slow_series *series, const mrd_slow_reading *reading)
{
    series->interrupted = false;
    series->last = series->base = *reading;
    series->oldest_slot = reading->at.ns / MRD_SLOW_SLOT;
    series->newest_slot = series->oldest_slot - 1;
}

/* Stores the values in the slots `from` to `to`. The reading is in slot `to`. */
static void
fill(slow_series *series, const slow_slot *values, int64_t from, int64_t to)
{
    int64_t gap = series->newest_slot + 1;
    uint32_t end = (uint32_t) (series->last.at.ns - to * MRD_SLOW_SLOT);

    if (gap < to - MRD_SLOW_SLOTS + 1)
        gap = to - MRD_SLOW_SLOTS + 1;
    for (; gap < from; gap++)
        series->slots[gap % MRD_SLOW_SLOTS].steps = 0;
    if (from < to - MRD_SLOW_SLOTS + 1)
        from = to - MRD_SLOW_SLOTS + 1;
    for (int64_t slot = from; slot <= to; slot++) {
        series->slots[slot % MRD_SLOW_SLOTS] = *values;
        series->slots[slot % MRD_SLOW_SLOTS].fresh = slot == to;
        series->slots[slot % MRD_SLOW_SLOTS].end = end;
    }
    series->newest_slot = to;
}

/* The series has at most the slots that the ring can store. */
static void
trim(slow_series *series)
{
    if (series->oldest_slot < series->newest_slot - MRD_SLOW_SLOTS + 1)
        series->oldest_slot = series->newest_slot - MRD_SLOW_SLOTS + 1;
}

void
mrd_slow_take(mrd_slow *slow, slow_process *process, const mrd_slow_reading *reading)
{
    slow_series *series = process->series;
    int64_t slot = reading->at.ns / MRD_SLOW_SLOT, base, filled;
    slow_delta delta;
    slow_slot values;

    if (!is_sane(reading)) {
        slow->counts.refused++;
        return;
    }
    if (series == NULL) {
        if ((series = process->series = calloc(1, sizeof(*series))) == NULL)
            return;
        slow->counts.paced++;
        restart(series, reading);
        return;
    }
    if (!is_same_op(&reading->ops[reading->lead], &series->last.ops[series->last.lead]) ||
        reading->lost || series->last.lost ||
        mrd_local_diff(reading->at, series->last.at) > LONGEST_GAP) {
        restart(series, reading);
        return;
    }
    if (series->interrupted) {
        series->interrupted = false;
        series->last = series->base = *reading;
        return;
    }
    /* The report repeats the call. Its time may differ, because the node's clock was estimated
     * again. */
    if (reading->ops[reading->lead].entered == series->last.ops[series->last.lead].entered)
        return;
    base = series->last.at.ns / MRD_SLOW_SLOT;
    if (slot > base)
        series->base = series->last;
    if (!subtract(&series->base, reading, &delta)) {
        slow->counts.refused++;
        restart(series, reading);
        return;
    }
    series->last = *reading;
    make_slot(&series->base, reading, &delta, &values);
    filled = series->base.at.ns / MRD_SLOW_SLOT + 1;
    fill(series, &values, filled > slot ? slot : filled, slot);
    trim(series);
    if (process->job->medians_from > filled)
        process->job->medians_from = filled;
}

const slow_slot *
mrd_slow_slot_of(const slow_process *process, int64_t slot)
{
    const slow_series *series = process->series;

    if (series == NULL || slot < series->oldest_slot || slot > series->newest_slot ||
        series->slots[slot % MRD_SLOW_SLOTS].steps == 0)
        return NULL;
    return &series->slots[slot % MRD_SLOW_SLOTS];
}
