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
mrd_worker_time_init(mrd_worker_time *t)
{
    *t = (mrd_worker_time){ 0 };
    for (unsigned k = 0; k < MRD_ONS; k++)
        t->until[k] = (mrd_ev_ns){ INT64_MIN };
    t->met = (mrd_ev_ns){ INT64_MIN };
    t->met_others = (mrd_ev_ns){ INT64_MIN };
    t->met_id = UINT64_MAX;
}

static mrd_report_part
part_of(unsigned on)
{
    if (on & 1u << MRD_ON_BARRIER)
        return MRD_REPORT_WAITING;
    if (on & 1u << MRD_ON_COMPUTE)
        return on & 1u << MRD_ON_COLLECTIVE ? MRD_REPORT_BOTH : MRD_REPORT_COMPUTE;
    if (on & (1u << MRD_ON_PAUSED | 1u << MRD_ON_GAP))
        return MRD_REPORT_UNRECORDED; /* whatever else runs */
    if (on & 1u << MRD_ON_COLLECTIVE)
        return MRD_REPORT_EXPOSED;
    if (on & 1u << MRD_ON_COPY)
        return MRD_REPORT_COPY;
    return on & 1u << MRD_ON_HOST ? MRD_REPORT_HOST : MRD_REPORT_IDLE;
}

/* Adds `ns` of exposed time that is not split yet. */
static void
untold_add(mrd_worker_time *t, uint64_t ns)
{
    unsigned n = t->n_untold;

    if (ns == 0)
        return;
    if (n == 0 || t->untold_to[n - 1] != t->untold_ns) {
        if (n == MRD_WORKER_TIME_OPEN) { /* the oldest interval is never split */
            n--;
            memmove(t->untold_from, t->untold_from + 1, n * sizeof(t->untold_from[0]));
            memmove(t->untold_to, t->untold_to + 1, n * sizeof(t->untold_to[0]));
        }
        t->untold_from[n] = t->untold_ns;
        t->n_untold = n + 1;
    }
    t->untold_ns += ns;
    t->untold_to[t->n_untold - 1] = t->untold_ns;
}

/* Removes and returns the time since the mark that is not split yet. */
static uint64_t
untold_since(mrd_worker_time *t, uint64_t mark)
{
    uint64_t ns = 0;

    while (t->n_untold > 0 && t->untold_to[t->n_untold - 1] > mark) {
        unsigned top = t->n_untold - 1;

        if (t->untold_from[top] < mark) {
            ns += t->untold_to[top] - mark;
            t->untold_to[top] = mark;
            break;
        }
        ns += t->untold_to[top] - t->untold_from[top];
        t->n_untold = top;
    }
    return ns;
}

/* Splits exposed time: only a collective runs from t->now to `to`. */
static void
split_exposed(mrd_worker_time *t, mrd_ev_ns to)
{
    mrd_ev_ns met = mrd_ev_max(mrd_ev_min(t->met, to), t->now),
              own = mrd_ev_min(mrd_ev_max(t->met_others, t->now), met);

    t->transfer_ns += (uint64_t) met.ns - (uint64_t) t->now.ns;
    t->met_own_ns += (uint64_t) met.ns - (uint64_t) own.ns;
    untold_add(t, (uint64_t) to.ns - (uint64_t) met.ns);
}

/* No span begins inside [now, to), so activities only end. */
void
mrd_worker_time_advance(mrd_worker_time *t, mrd_ev_ns to)
{
    while (mrd_ev_before(t->now, to)) {
        bool inside = mrd_ev_before(t->now, t->device_end);
        mrd_ev_ns next = inside && mrd_ev_before(t->device_end, to) ? t->device_end : to;
        unsigned on = 0;

        for (unsigned k = 0; k < MRD_ONS; k++) {
            if (!mrd_ev_after(t->until[k], t->now))
                continue;
            on |= 1u << k;
            next = mrd_ev_min(t->until[k], next);
        }
        *(inside ? &t->part_ns[part_of(on)] : &t->pending[part_of(on)]) +=
            (uint64_t) next.ns - (uint64_t) t->now.ns;
        if (part_of(on) == MRD_REPORT_UNRECORDED && (on & 1u << MRD_ON_PAUSED) != 0)
            *(inside ? &t->paused_ns : &t->pending_paused) +=
                (uint64_t) next.ns - (uint64_t) t->now.ns;
        if (part_of(on) == MRD_REPORT_EXPOSED || part_of(on) == MRD_REPORT_WAITING)
            t->unmet_ns +=
                (uint64_t) next.ns - (uint64_t) mrd_ev_max(mrd_ev_min(t->met, next), t->now).ns;
        if (part_of(on) == MRD_REPORT_EXPOSED)
            split_exposed(t, next);
        if (on == 1u << MRD_ON_LOADING)
            t->loading_ns += (uint64_t) next.ns - (uint64_t) t->now.ns;
        t->now = next;
    }
}

static void
end_pause(mrd_worker_time *t, const mrd_event *ev, mrd_worker_pause *ret_pause)
{
    ret_pause->start = t->device_end;
    ret_pause->dur_ns = mrd_ev_diff(ev->ts, t->device_end);
    ret_pause->before = t->device_last;
    memcpy(ret_pause->part_ns, t->pending, sizeof(t->pending));
    for (unsigned k = 0; k < MRD_REPORT_PARTS; k++)
        t->part_ns[k] += t->pending[k];
    memset(t->pending, 0, sizeof(t->pending));
    ret_pause->loading_ns = t->loading_ns;
    t->loading_ns = 0;
    t->paused_ns += t->pending_paused;
    t->pending_paused = 0;
}

bool
mrd_worker_time_add(mrd_worker_time *t, mrd_work_on on, bool device, const mrd_event *ev,
                    mrd_worker_pause *ret_pause)
{
    mrd_ev_ns end = mrd_event_end(ev);
    bool paused = false;

    if (t->any)
        mrd_worker_time_advance(t, ev->ts);
    if (device && !t->any) {
        t->any = true;
        t->now = t->device_end = t->first = ev->ts;
    } else if (device && !mrd_ev_before(ev->ts, t->device_end)) {
        end_pause(t, ev, ret_pause);
        paused = ret_pause->dur_ns > 0;
    }
    if (on == MRD_ON_COLLECTIVE && mrd_ev_before(t->until[on], ev->ts))
        t->n_untold = 0;
    t->until[on] = mrd_ev_after(end, t->until[on]) ? end : t->until[on];
    if (device && (uint64_t) end.ns - (uint64_t) ev->ts.ns > t->span_ns)
        t->span_ns = (uint64_t) end.ns - (uint64_t) ev->ts.ns;
    if (device && !mrd_ev_before(end, t->device_end)) {
        t->device_end = end;
        t->device_last = ev->name;
    }
    return paused;
}

static void
go_on_until(mrd_worker_time *t, mrd_work_on on, const mrd_event *ev)
{
    mrd_ev_ns end = mrd_event_end(ev);

    if (t->any)
        mrd_worker_time_advance(t, ev->ts);
    t->until[on] = mrd_ev_after(end, t->until[on]) ? end : t->until[on];
}

void
mrd_worker_time_load(mrd_worker_time *t, const mrd_event *ev)
{
    go_on_until(t, MRD_ON_LOADING, ev);
}

void
mrd_worker_time_lose(mrd_worker_time *t, mrd_work_on on, const mrd_event *ev)
{
    go_on_until(t, on, ev);
}

int64_t
mrd_worker_time_mark(const mrd_worker_time *t)
{
    return (int64_t) t->untold_ns;
}

void
mrd_worker_time_meet(mrd_worker_time *t, const mrd_gathered *c, size_t part)
{
    mrd_ev_ns at = c->parts[c->n - 1].begin, end = c->parts[part].end;

    mrd_worker_time_advance(t, at);
    /* by its clock it left before all had begun, so the split is unknown */
    if (mrd_ev_before(end, at))
        return;
    if (t->met_id == c->id) {
        t->wait_ns += t->met_own_ns;
        t->transfer_ns -= t->met_own_ns;
        t->met_own_ns = 0;
    }
    t->wait_ns += untold_since(t, (uint64_t) c->parts[part].mark);
    if (c->absent > 0)
        return;
    if (t->met_id != c->id) {
        t->met_id = c->id;
        t->met_others = t->met;
        t->met_own_ns = 0;
    }
    if (mrd_ev_after(end, t->met))
        t->met = end;
}

void
mrd_worker_time_read(mrd_worker_time *t, mrd_ev_ns at, uint64_t ret_part_ns[MRD_REPORT_PARTS])
{
    if (t->any)
        mrd_worker_time_advance(t, at);
    for (unsigned k = 0; k < MRD_REPORT_PARTS; k++) /* pending is the time after device_end */
        ret_part_ns[k] = t->part_ns[k] + (mrd_ev_after(at, t->device_end) ? t->pending[k] : 0);
}
