#include "trace/analysis/worker_time.h"

#include <string.h>

const char *
mrd_report_part_text(mrd_report_part part)
{
    static const char *const text[] = {
        [MRD_REPORT_COMPUTE] = "compute", [MRD_REPORT_BOTH] = "both",
        [MRD_REPORT_EXPOSED] = "exposed", [MRD_REPORT_COPY] = "copy",
        [MRD_REPORT_WAITING] = "waiting", [MRD_REPORT_HOST] = "host",
        [MRD_REPORT_IDLE] = "idle",       [MRD_REPORT_UNRECORDED] = "not_recorded",
    };

    return (unsigned) part < MRD_REPORT_PARTS ? text[part] : "?";
}

void
mrd_worker_time_init(mrd_worker_time *times)
{
    *times = (mrd_worker_time){ 0 };
    for (unsigned k = 0; k < MRD_ONS; k++)
        times->until[k] = (mrd_ev_ns){ INT64_MIN };
    times->met = (mrd_ev_ns){ INT64_MIN };
    times->met_others = (mrd_ev_ns){ INT64_MIN };
    times->met_id = UINT64_MAX;
}

static mrd_report_part
part_of(unsigned on)
{
    if (on & 1u << MRD_ON_BARRIER)
        return MRD_REPORT_WAITING;
    if (on & 1u << MRD_ON_COMPUTE)
        return on & 1u << MRD_ON_COLLECTIVE ? MRD_REPORT_BOTH : MRD_REPORT_COMPUTE;
    if (on & (1u << MRD_ON_PAUSED | 1u << MRD_ON_GAP))
        /* a lost event may have been a computation, which would hide any other activity */
        return MRD_REPORT_UNRECORDED;
    if (on & 1u << MRD_ON_COLLECTIVE)
        return MRD_REPORT_EXPOSED;
    if (on & 1u << MRD_ON_COPY)
        return MRD_REPORT_COPY;
    return on & 1u << MRD_ON_HOST ? MRD_REPORT_HOST : MRD_REPORT_IDLE;
}

/* Adds `ns` of exposed collective time to the list of times that are not yet split into waiting and
 * transfer. */
static void
untold_add(mrd_worker_time *times, uint64_t ns)
{
    unsigned n = times->n_untold;

    if (ns == 0)
        return;
    if (n == 0 || times->untold_to[n - 1] != times->untold_ns) {
        /* the list is full, so drop the oldest interval, which then remains unsplit */
        if (n == MRD_WORKER_TIME_OPEN) {
            n--;
            memmove(times->untold_from, times->untold_from + 1, n * sizeof(times->untold_from[0]));
            memmove(times->untold_to, times->untold_to + 1, n * sizeof(times->untold_to[0]));
        }
        times->untold_from[n] = times->untold_ns;
        times->n_untold = n + 1;
    }
    times->untold_ns += ns;
    times->untold_to[times->n_untold - 1] = times->untold_ns;
}

/* Removes the exposed times that were added after `mark` from the list of times that are not yet
 * split. Returns their sum in ns. */
static uint64_t
untold_since(mrd_worker_time *times, uint64_t mark)
{
    uint64_t ns = 0;

    while (times->n_untold > 0 && times->untold_to[times->n_untold - 1] > mark) {
        unsigned top = times->n_untold - 1;

        if (times->untold_from[top] < mark) {
            ns += times->untold_to[top] - mark;
            times->untold_to[top] = mark;
            break;
        }
        ns += times->untold_to[top] - times->untold_from[top];
        times->n_untold = top;
    }
    return ns;
}

/* Accounts the time from times->now to `to`, in which only collectives run. The time before the end
 * of a collective that all members have begun is transfer. The rest is not split yet into waiting
 * and transfer. */
static void
split_exposed(mrd_worker_time *times, mrd_ev_ns to)
{
    mrd_ev_ns met = mrd_ev_max(mrd_ev_min(times->met, to), times->now),
              own = mrd_ev_min(mrd_ev_max(times->met_others, times->now), met);

    times->transfer_ns += (uint64_t) met.ns - (uint64_t) times->now.ns;
    times->met_own_ns += (uint64_t) met.ns - (uint64_t) own.ns;
    untold_add(times, (uint64_t) to.ns - (uint64_t) met.ns);
}

/* Divides the time from times->now to `to` into parts. The caller has added all spans that begin
 * before `to`, so activities only end in this time. */
void
mrd_worker_time_advance(mrd_worker_time *times, mrd_ev_ns to)
{
    while (mrd_ev_before(times->now, to)) {
        bool inside = mrd_ev_before(times->now, times->device_end);
        mrd_ev_ns next = inside && mrd_ev_before(times->device_end, to) ? times->device_end : to;
        unsigned on = 0;

        for (unsigned k = 0; k < MRD_ONS; k++) {
            if (!mrd_ev_after(times->until[k], times->now))
                continue;
            on |= 1u << k;
            next = mrd_ev_min(times->until[k], next);
        }
        *(inside ? &times->part_ns[part_of(on)] : &times->pending[part_of(on)]) +=
            (uint64_t) next.ns - (uint64_t) times->now.ns;
        if (part_of(on) == MRD_REPORT_UNRECORDED && (on & 1u << MRD_ON_PAUSED) != 0)
            *(inside ? &times->paused_ns : &times->pending_paused) +=
                (uint64_t) next.ns - (uint64_t) times->now.ns;
        if (part_of(on) == MRD_REPORT_EXPOSED || part_of(on) == MRD_REPORT_WAITING)
            times->unmet_ns += (uint64_t) next.ns -
                               (uint64_t) mrd_ev_max(mrd_ev_min(times->met, next), times->now).ns;
        if (part_of(on) == MRD_REPORT_EXPOSED)
            split_exposed(times, next);
        if (on == 1u << MRD_ON_LOADING)
            times->loading_ns += (uint64_t) next.ns - (uint64_t) times->now.ns;
        times->now = next;
    }
}

static void
end_pause(mrd_worker_time *times, const mrd_event *ev, mrd_worker_pause *ret_pause)
{
    ret_pause->start = times->device_end;
    ret_pause->dur_ns = mrd_ev_diff(ev->ts, times->device_end);
    ret_pause->before = times->device_last;
    memcpy(ret_pause->part_ns, times->pending, sizeof(times->pending));
    for (unsigned k = 0; k < MRD_REPORT_PARTS; k++)
        times->part_ns[k] += times->pending[k];
    memset(times->pending, 0, sizeof(times->pending));
    ret_pause->loading_ns = times->loading_ns;
    times->loading_ns = 0;
    times->paused_ns += times->pending_paused;
    times->pending_paused = 0;
}

bool
mrd_worker_time_add(mrd_worker_time *times, mrd_work_on on, bool device, const mrd_event *ev,
                    mrd_worker_pause *ret_pause)
{
    mrd_ev_ns end = mrd_event_end(ev);
    bool paused = false;

    if (times->any)
        mrd_worker_time_advance(times, ev->ts);
    if (device && !times->any) {
        times->any = true;
        times->now = times->device_end = times->first = ev->ts;
    } else if (device && !mrd_ev_before(ev->ts, times->device_end)) {
        end_pause(times, ev, ret_pause);
        paused = ret_pause->dur_ns > 0;
    }
    if (on == MRD_ON_COLLECTIVE && mrd_ev_before(times->until[on], ev->ts))
        times->n_untold = 0;
    times->until[on] = mrd_ev_after(end, times->until[on]) ? end : times->until[on];
    if (device && (uint64_t) end.ns - (uint64_t) ev->ts.ns > times->span_ns)
        times->span_ns = (uint64_t) end.ns - (uint64_t) ev->ts.ns;
    if (device && !mrd_ev_before(end, times->device_end)) {
        times->device_end = end;
        times->device_last = ev->name;
    }
    return paused;
}

static void
go_on_until(mrd_worker_time *times, mrd_work_on on, const mrd_event *ev)
{
    mrd_ev_ns end = mrd_event_end(ev);

    if (times->any)
        mrd_worker_time_advance(times, ev->ts);
    times->until[on] = mrd_ev_after(end, times->until[on]) ? end : times->until[on];
}

void
mrd_worker_time_load(mrd_worker_time *times, const mrd_event *ev)
{
    go_on_until(times, MRD_ON_LOADING, ev);
}

void
mrd_worker_time_lose(mrd_worker_time *times, mrd_work_on on, const mrd_event *ev)
{
    go_on_until(times, on, ev);
}

int64_t
mrd_worker_time_mark(const mrd_worker_time *times)
{
    return (int64_t) times->untold_ns;
}

void
mrd_worker_time_meet(mrd_worker_time *times, const mrd_gathered *group, size_t part)
{
    mrd_ev_ns at = group->parts[group->n - 1].begin, end = group->parts[part].end;

    mrd_worker_time_advance(times, at);
    /* By its own clock, the worker left before the last one began. This is a clock error, so its
     * time cannot be split. */
    if (mrd_ev_before(end, at))
        return;
    if (times->met_id == group->id) {
        times->wait_ns += times->met_own_ns;
        times->transfer_ns -= times->met_own_ns;
        times->met_own_ns = 0;
    }
    times->wait_ns += untold_since(times, (uint64_t) group->parts[part].mark);
    if (group->absent > 0)
        return;
    if (times->met_id != group->id) {
        times->met_id = group->id;
        times->met_others = times->met;
        times->met_own_ns = 0;
    }
    if (mrd_ev_after(end, times->met))
        times->met = end;
}

void
mrd_worker_time_read(mrd_worker_time *times, mrd_ev_ns at, uint64_t ret_part_ns[MRD_REPORT_PARTS])
{
    if (times->any)
        mrd_worker_time_advance(times, at);
    /* `pending` is the time after the latest device span; it belongs to the window only if `at` is
     * after it */
    for (unsigned k = 0; k < MRD_REPORT_PARTS; k++)
        ret_part_ns[k] =
            times->part_ns[k] + (mrd_ev_after(at, times->device_end) ? times->pending[k] : 0);
}
