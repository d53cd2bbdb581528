#include "agent/hang/device_time.h"

#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/vec.h"

typedef struct {
    mrd_ev_ns from, to;
} interval;

typedef struct {
    uint64_t key;
    interval execution; /* the newest execution, which does not count yet */
    bool pending;       /* `execution` is valid */
    unsigned skips;     /* the number of executions, from `execution` on, that do not count */
    /* own work and number of the executions that counted since the last mrd_device_time_take */
    mrd_dur_ns sum;
    uint64_t executions;
    /* collectives that do not overlap, in order of time */
    interval *waits;
    size_t n_waits, cap_waits;
} core;

struct mrd_device_time {
    core *cores;
    size_t n_cores, cap_cores;
    mrd_dur_ns sum;
    uint64_t executions;
};

mrd_device_time *
mrd_device_time_new(void)
{
    return calloc(1, sizeof(mrd_device_time));
}

void
mrd_device_time_free(mrd_device_time *device)
{
    if (device == NULL)
        return;
    for (size_t i = 0; i < device->n_cores; i++)
        free(device->cores[i].waits);
    free(device->cores);
    free(device);
}

static core *
core_of(mrd_device_time *device, uint64_t key)
{
    for (size_t i = 0; i < device->n_cores; i++)
        if (device->cores[i].key == key)
            return &device->cores[i];
    if (!MRD_VEC_ROOM_MAX(device->cores, device->n_cores, device->cap_cores, 1, MRD_DEVICE_CORES))
        return NULL;
    device->cores[device->n_cores] = (core){ .key = key };
    return &device->cores[device->n_cores++];
}

/* Makes the pending execution and the one that now runs not count. */
static void
skip(core *c)
{
    c->skips = c->pending ? 2 : 1;
}

/* Adds a collective, and joins it with those that it overlaps. Collectives arrive nearly in order
 * of time, so the search begins at the end. */
static void
add_wait(core *c, interval wait)
{
    size_t end = c->n_waits, begin;

    while (end > 0 && c->waits[end - 1].from.ns > wait.to.ns)
        end--;
    for (begin = end; begin > 0 && c->waits[begin - 1].to.ns >= wait.from.ns; begin--) {
        wait.from = mrd_ev_min(wait.from, c->waits[begin - 1].from);
        wait.to = mrd_ev_max(wait.to, c->waits[begin - 1].to);
    }
    if (begin == end &&
        !MRD_VEC_ROOM_MAX(c->waits, c->n_waits, c->cap_waits, 1, MRD_DEVICE_WAITS)) {
        skip(c);
        c->n_waits = 0;
        return;
    }
    /* entries begin .. end - 1 become one entry */
    memmove(&c->waits[begin + 1], &c->waits[end], (c->n_waits - end) * sizeof(wait));
    c->waits[begin] = wait;
    c->n_waits = c->n_waits - (end - begin) + 1;
}

/* Returns the time of collectives inside the execution, and forgets the collectives that ended
 * before its end. */
static mrd_dur_ns
take_waits(core *c, interval execution)
{
    mrd_dur_ns sum = 0;
    size_t done = 0, n = 0;

    for (; n < c->n_waits && mrd_ev_before(c->waits[n].from, execution.to); n++) {
        mrd_ev_ns from = mrd_ev_max(c->waits[n].from, execution.from);
        mrd_ev_ns to = mrd_ev_min(c->waits[n].to, execution.to);

        sum += mrd_ev_before(from, to) ? mrd_ev_diff(to, from) : 0;
        done = n + 1;
    }
    if (done > 0 && mrd_ev_before(execution.to, c->waits[done - 1].to))
        done--; /* the next execution may begin inside this one */
    c->n_waits -= done;
    if (done > 0)
        memmove(c->waits, c->waits + done, c->n_waits * sizeof(c->waits[0]));
    return sum;
}

/* Returns true if both are parts of one execution, on two physical cores of one logical core. Two
 * executions follow each other, and overlap at most by the error of their times. */
static bool
is_same(interval a, interval b)
{
    mrd_dur_ns overlap = mrd_ev_diff(mrd_ev_min(a.to, b.to), mrd_ev_max(a.from, b.from));
    mrd_dur_ns len_a = mrd_ev_diff(a.to, a.from), len_b = mrd_ev_diff(b.to, b.from);

    return overlap > (len_a < len_b ? len_a : len_b) / 2;
}

/* Counts the pending execution, and makes `execution` pending. */
static void
add_execution(core *c, interval execution)
{
    mrd_dur_ns waits;

    if (c->pending && is_same(c->execution, execution)) {
        c->execution.from = mrd_ev_min(c->execution.from, execution.from);
        c->execution.to = mrd_ev_max(c->execution.to, execution.to);
        return;
    }
    if (c->pending && mrd_ev_before(execution.from, c->execution.to))
        execution.from = c->execution.to;
    if (!mrd_ev_before(execution.from, execution.to))
        return;
    if (c->pending) {
        waits = take_waits(c, c->execution);
        if (c->skips == 0) {
            c->sum = mrd_sat_add(c->sum, mrd_ev_diff(c->execution.to, c->execution.from) - waits);
            c->executions++;
        } else {
            c->skips--;
        }
    }
    c->pending = true;
    c->execution = execution;
}

void
mrd_device_time_add(mrd_device_time *device, uint64_t key, bool wait, mrd_ev_ns start,
                    mrd_dur_ns dur)
{
    core *c = core_of(device, key);
    interval span = { start, mrd_ev_add(start, dur) };

    if (c == NULL || dur < 0)
        return;
    if (wait)
        add_wait(c, span);
    else
        add_execution(c, span);
}

void
mrd_device_time_lost(mrd_device_time *device)
{
    for (size_t i = 0; i < device->n_cores; i++)
        skip(&device->cores[i]);
}

/* Returns true if an execution of core `a` takes longer than one of core `b`. */
static bool
is_slower(const core *a, const core *b)
{
    if (a->executions == 0 || b->executions == 0)
        return a->executions > 0;
    return (double) a->sum / (double) a->executions > (double) b->sum / (double) b->executions;
}

mrd_dur_ns
mrd_device_time_take(mrd_device_time *device, uint64_t *ret_executions)
{
    const core *slowest = NULL;

    for (size_t i = 0; i < device->n_cores; i++)
        if (slowest == NULL || is_slower(&device->cores[i], slowest))
            slowest = &device->cores[i];
    if (slowest != NULL) {
        device->sum = mrd_sat_add(device->sum, slowest->sum);
        device->executions += slowest->executions;
    }
    for (size_t i = 0; i < device->n_cores; i++) {
        device->cores[i].sum = 0;
        device->cores[i].executions = 0;
    }
    *ret_executions = device->executions;
    return device->sum;
}
