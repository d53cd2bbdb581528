/* Converts the times of events from the node's clock to the clock of the outputs. This is done for
 * each process, before the events are merged. */
#include "aggregator/merge/merge_run_int.h"

#include <stdlib.h>

#include "base/num.h"
#include "base/obj.h"

/* ---- Conversion between clocks ---- */

/* Events with an error bound above 1 ms are not used to check clocks, because the check could
 * hardly find a contradiction with them. */
#define CHECK_DOUBT MRD_MS

static uint32_t
wider(uint32_t bound, mrd_dur_ns by)
{
    return bound == MRD_BOUND_UNKNOWN || by >= (mrd_dur_ns) (MRD_BOUND_UNKNOWN - bound)
               ? MRD_BOUND_UNKNOWN
               : bound + (uint32_t) by;
}

/* Returns the possible error of an event's time, in ns. It exceeds 0 if the runtime converted the
 * time from a device's clock. INT64_MAX if it is unknown. */
static mrd_dur_ns
device_bound(const mrd_event *ev)
{
    return ev->bound_ns == MRD_BOUND_UNKNOWN ? INT64_MAX : ev->bound_ns;
}

/* Converts an event's time to the node's RAW clock. ret->doubt is the possible error. Returns false
 * if no reading relates the event's wall clock to RAW. */
static bool
raw_time(const stream *strm, const mrd_event *ev, mrd_cross_place *ret)
{
    if (strm->clock == MRD__CLOCK_KIND__CLOCK_RAW)
        *ret = (mrd_cross_place){ .raw = { ev->ts.ns } };
    else if (strm->cross != NULL && strm->cross->n > 0)
        /* ev->seq >> 16 is the batch's index in the journal */
        *ret = mrd_cross_table_find(strm->cross, ev->ts.ns, device_bound(ev),
                                    strm->sealed[ev->seq >> 16]);
    else
        return false;
    return true;
}

/* Converts the time of one event, which may be from any kind of clock. If the time cannot be
 * converted, the event's error bound becomes unknown. */
static void
map_doubtful(stream *strm, mrd_event *ev)
{
    mrd_cross_place raw;
    bool is_known = raw_time(strm, ev, &raw);
    mrd_dur_ns device = device_bound(ev), doubt;
    mrd_sess_ns at;
    uint32_t radius;

    ev->bound_ns = MRD_BOUND_UNKNOWN;
    if (!is_known)
        return;
    doubt = mrd_sat_add(raw.doubt, device);
    if (strm->check != NULL && doubt <= CHECK_DOUBT && merge_check_wants(strm->check, ev))
        mrd_merge_check_see(strm->check, ev, raw.raw.ns, doubt, strm->align);
    if (strm->cross != NULL && (strm->cross->step != 0 || strm->cross->doubt > MRD_MS) &&
        ev->kind == MRD_SPAN && ev->dur_ns > 0)
        ev->dur_ns = mrd_cross_table_span(strm->cross, raw.era, ev->ts.ns, ev->dur_ns, device);
    ev->ts = (mrd_ev_ns){ raw.raw.ns };
    if (strm->shown != NULL &&
        mrd_align_grid_map(strm->shown, &strm->grid, raw.raw, &at, &radius)) {
        ev->ts = (mrd_ev_ns){ at.ns };
        ev->bound_ns = wider(radius, doubt);
    }
    /* times must not decrease within a stream, because the merge requires sorted streams */
    if (merge_clock_was_set(strm) && mrd_ev_before(ev->ts, strm->latest)) {
        ev->bound_ns = wider(ev->bound_ns, mrd_sat_sub(strm->latest.ns, ev->ts.ns));
        ev->ts = strm->latest;
    }
    strm->latest = ev->ts;
}

/* Passes collectives to the clock check, then converts the times of all events. */
void
mrd_merge_map_times(void *self, mrd_event *events, size_t n)
{
    stream *strm = self;
    mrd_dur_ns device;
    mrd_sess_ns at;
    uint32_t radius;

    strm->before = strm->given;
    strm->given += n;
    for (mrd_event *ev = events; ev < events + n; ev++) {
        if (strm->clock != MRD__CLOCK_KIND__CLOCK_RAW || strm->shown == NULL) {
            map_doubtful(strm, ev);
            continue;
        }
        if (strm->check != NULL && merge_check_wants(strm->check, ev))
            mrd_merge_check_see(strm->check, ev, ev->ts.ns, 0, strm->align);
        device = device_bound(ev);
        ev->bound_ns = MRD_BOUND_UNKNOWN;
        if (mrd_align_grid_map(strm->shown, &strm->grid, (mrd_local_ns){ ev->ts.ns }, &at,
                               &radius)) {
            ev->ts = (mrd_ev_ns){ at.ns };
            ev->bound_ns = wider(radius, device);
        }
    }
}

/* ---- Dropping events before their times are converted ---- */

/* A source that drops two kinds of events:
 * - Events outside the requested window of session time, if the outputs use another clock. The
 *   outputs could not compare their own times with the window.
 * - Events of other eras. An era is the time between two settings of a wall clock, and each era
 *   has a stream of its own. */
typedef struct {
    mrd_source base;
    mrd_source *inner;
    const stream *s;
    mrd_align_cursor seen;
    const mrd_filter *window; /* range of session time to keep; NULL keeps all events */
} tap;

static bool
passes(tap *t, const mrd_event *ev)
{
    mrd_cross_place raw;
    mrd_sess_ns at;
    int64_t end;

    if (!raw_time(t->s, ev, &raw))
        return true;
    if (merge_clock_was_set(t->s) && (raw.era < ERAS_MAX ? raw.era : ERAS_MAX - 1) != t->s->era)
        return false;
    if (t->window == NULL || !mrd_align_map(t->s->align, &t->seen, raw.raw, &at, NULL))
        return true;
    end = ev->dur_ns < 0 || __builtin_add_overflow(at.ns, ev->dur_ns, &end) ? INT64_MAX
                                                                            : at.ns + ev->dur_ns;
    return at.ns < t->window->end.ns && end >= t->window->start.ns;
}

static mrd_step
tap_next(mrd_source *self, const mrd_event **ret_event, mrd_why *why)
{
    tap *t = (tap *) self;
    mrd_step step;

    do
        step = t->inner->next(t->inner, ret_event, why);
    while (step == MRD_MORE && !passes(t, *ret_event));
    return step;
}

static void
tap_close(mrd_source *self)
{
    tap *t = (tap *) self;

    t->inner->close(t->inner);
    free(t);
}

mrd_err
mrd_merge_tap(const plan *p, const stream *strm, mrd_source *inner, mrd_source **ret_source,
              mrd_why *why)
{
    bool cut = p->times != MERGE_ALIGNED &&
               (p->window.start.ns != INT64_MIN || p->window.end.ns != INT64_MAX);
    tap *t;

    *ret_source = inner;
    if (!cut && !merge_clock_was_set(strm))
        return MRD_OK;
    if ((t = calloc(1, sizeof(*t))) == NULL) {
        inner->close(inner);
        return mrd_why_set(why, MRD_NOMEM, 0, "merge");
    }
    *t = (tap){ .base = { .next = tap_next, .close = tap_close, .key = inner->key },
                .inner = inner,
                .s = strm,
                .window = cut ? &p->window : NULL };
    *ret_source = &t->base;
    return MRD_OK;
}

/* Adds a row to the catalog for each boot of the node. Also computes the table of the wall clock if
 * the outputs use wall clocks. */
mrd_err
mrd_merge_part_clocks(plan *p, merge_part *part, mrd_why *why)
{
    part->infos = calloc(part->clock.n, sizeof(*part->infos));
    part->walls = calloc(part->clock.n, sizeof(*part->walls));
    if (part->infos == NULL || part->walls == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "merge");
    for (size_t i = 0; i < part->clock.n; i++) {
        part->infos[i] = mrd_merge_clocks_describe(part->node, &part->clock, i, p->times, p->cat);
        if (p->times == MERGE_UTC &&
            (part->walls[i] = mrd_merge_clocks_wall(part->node, &part->clock.v[i])) == NULL)
            return mrd_why_set(why, MRD_NOMEM, 0, "merge");
    }
    return MRD_OK;
}
