/*
 * trace/import/nrt/nrt_ids.c - finds lost events by nc_local_id, the consecutive number that the
 * runtime gives each event of a core. If numbers are missing, the runtime's ring has overwritten
 * these events, or a document with them did not arrive.
 *
 * Numbers may be slightly out of order. A thread of the runtime takes a number before it stores the
 * event, and the documents of two fetching threads may arrive in either order. So a gap is reported
 * only when an event is NRT_IDS_PATIENCE later than the gap, when the caller says that it waited
 * long enough (mrd_nrt_report_gaps), or at a flush. If most numbers of a core are not consecutive,
 * they do not count events, and no losses are reported.
 */
#include <stdlib.h>

#include "base/num.h"
#include "trace/import/nrt/import_nrt_int.h"

#define NRT_IDS_PATIENCE 2000000000LL /* in ns of event time (see the head of this file) */
#define NRT_IDS_STEP     10000000000LL
/* If an event number is this far ahead of the expected number, no events are lost. Instead, the
 * runtime has restarted its numbering. */
#define NRT_IDS_FAR (1ull << 40)
/* Gaps in the event numbers count as losses only if at least this many numbers per gap were
 * consecutive. Otherwise the runtime's numbers do not count events. */
#define NRT_IDS_DENSE 4u

static mrd_err
gap_tell(mrd_nrt *nrt, int64_t nc_idx, const nrt_ids *ids, const nrt_gap *gap)
{
    mrd_event ev = { .kind = MRD_LOSS,
                     .flags = MRD_EV_INT,
                     .name = nrt->cause_ring,
                     .bound_ns = MRD_BOUND_LOCAL,
                     .ts = gap->first,
                     .ivalue = (int64_t) (gap->to - gap->from) };
    mrd_track track;

    if (ids->steps < NRT_IDS_DENSE * ids->jumps)
        return MRD_OK;
    if (mrd_ev_after(gap->last, gap->first))
        ev.dur_ns = mrd_sat_sub(gap->last.ns, gap->first.ns);
    mrd_track_init(&track, nrt->o.process, MRD_SRC_MERIDIAN);
    track.name = mrd_strtab_addz(nrt->strings, "losses");
    track.lnc_idx = nc_idx;
    ev.track = mrd_catalog_track(nrt->o.catalog, &track);
    nrt->counts.lost += gap->to - gap->from;
    if (mrd_ev_after(gap->last, nrt->doubt))
        nrt->doubt = gap->last;
    nrt->told[nrt->n_reported++ % NRT_REPORTED] =
        (nrt_reported){ nc_idx, gap->from, gap->to, gap->first, gap->last };
    return nrt->o.emit(nrt->o.self, &ev);
}

static void
gap_take_out(mrd_nrt *nrt, nrt_ids *ids, size_t i)
{
    nrt->n_gaps--;
    ids->n_gaps--;
    memmove(&ids->gaps[i], &ids->gaps[i + 1], (ids->n_gaps - i) * sizeof(*ids->gaps));
}

/* Reports gaps in a core's event numbers as lost. It reports gaps found at or before `found_by`,
 * and gaps that end NRT_IDS_PATIENCE before `ts`, because no late event will fill those. */
static mrd_err
gaps_look(mrd_nrt *nrt, int64_t nc_idx, mrd_ev_ns ts, mrd_local_ns found_by)
{
    nrt_ids *ids = &nrt->ids[nc_idx];
    mrd_ev_ns due = { INT64_MAX };
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < ids->n_gaps && err == MRD_OK;) {
        nrt_gap gap = ids->gaps[i];

        if (mrd_local_after(gap.found_at, found_by) &&
            (!gap.closed || mrd_sat_sub(ts.ns, gap.last.ns) < NRT_IDS_PATIENCE)) {
            if (gap.closed && mrd_ev_before(gap.last, due))
                due = gap.last;
            i++;
            continue;
        }
        gap_take_out(nrt, ids, i);
        err = gap_tell(nrt, nc_idx, ids, &gap);
    }
    if (err == MRD_OK)
        ids->due = due;
    return err;
}

/* Calls gaps_look() if at least one gap may have to be reported. The test before the call is cheap,
 * because it runs for each event. */
static mrd_err
gaps_tell(mrd_nrt *nrt, int64_t nc_idx, mrd_ev_ns ts, mrd_local_ns found_by)
{
    const nrt_ids *ids = &nrt->ids[nc_idx];

    if (ids->n_gaps == 0 ||
        (found_by.ns == INT64_MIN && mrd_sat_sub(ts.ns, ids->due.ns) < NRT_IDS_PATIENCE))
        return MRD_OK;
    return gaps_look(nrt, nc_idx, ts, found_by);
}

void
mrd_nrt_doubt(mrd_nrt *nrt)
{
    if (nrt->clock.has_host)
        nrt->doubt = (mrd_ev_ns){ nrt->clock.host.ns };
}

static mrd_err
gap_add(mrd_nrt *nrt, int64_t nc_idx, uint64_t from, uint64_t to)
{
    nrt_ids *ids = &nrt->ids[nc_idx];
    nrt_gap gap = { .from = from, .to = to, .found_at = nrt->now };
    mrd_err err = MRD_OK;

    if (nrt->gaps_reported) {
        mrd_nrt_doubt(nrt);
        return MRD_OK;
    }
    gap.mark = nrt->mark;
    gap.before = nrt->mark_before;
    if (ids->n_gaps == NRT_GAPS) {
        nrt_gap oldest = ids->gaps[0];

        gap_take_out(nrt, ids, 0);
        err = gap_tell(nrt, nc_idx, ids, &oldest);
    }
    gap.first = gap.last = ids->has_ts ? ids->newest : (mrd_ev_ns){ nrt->o.since.ns };
    if (ids->n_gaps == 0)
        ids->due.ns = INT64_MAX;
    ids->any_open = true;
    ids->gaps[ids->n_gaps++] = gap;
    nrt->n_gaps++;
    return err;
}

/* Returns true if the record's event number lies in a gap that was already reported as lost. If the
 * record is later than the gap, the runtime has restarted its numbering, and the result is
 * false. */
static bool
was_reported(const mrd_nrt *nrt, int64_t nc_idx, const nrt_record *rec, bool host_time)
{
    const nrt_ids *ids = &nrt->ids[nc_idx];

    if (nrt->again || (ids->has_anew && rec->local_id == ids->anew))
        return false;
    for (size_t i = 0; i < nrt->n_reported && i < NRT_REPORTED; i++) {
        const nrt_reported *told = &nrt->told[i];

        if (told->nc_idx == nc_idx && rec->local_id >= told->from && rec->local_id < told->to &&
            (!host_time || !mrd_ev_after(rec->ts, told->last)))
            return true;
    }
    return false;
}

static void
forget_reported(mrd_nrt *nrt, int64_t nc_idx)
{
    for (size_t i = 0; i < nrt->n_reported && i < NRT_REPORTED; i++)
        if (nrt->told[i].nc_idx == nc_idx)
            nrt->told[i].to = nrt->told[i].from;
}

/* Handles an event number below the expected one. Either the event fills a gap, or the runtime
 * restarted its numbering. Returns EXISTS if the number was reported as lost before. */
static mrd_err
id_behind(mrd_nrt *nrt, const nrt_record *rec, bool host_time)
{
    nrt_ids *ids = &nrt->ids[rec->nc_idx];
    uint64_t id = rec->local_id;

    for (size_t i = ids->n_gaps; i > 0; i--) {
        nrt_gap *gap = &ids->gaps[i - 1], rest;

        if (id < gap->from || id >= gap->to)
            continue;
        rest = *gap;
        rest.from = id + 1;
        gap->to = id;
        if (gap->from < gap->to && rest.from < rest.to && ids->n_gaps < NRT_GAPS) {
            memmove(gap + 2, gap + 1, (ids->n_gaps - i) * sizeof(*gap));
            gap[1] = rest;
            ids->n_gaps++;
            nrt->n_gaps++;
        } else if (gap->from < gap->to && rest.from < rest.to) {
            /* The number splits the gap in two, and the table has room for only one. So the lower
             * gap is reported as lost now. Events that still arrive for it are ignored. */
            nrt_gap told = *gap;

            *gap = rest;
            return gap_tell(nrt, rec->nc_idx, ids, &told);
        } else if (gap->from == gap->to && rest.from < rest.to) {
            *gap = rest;
        } else if (gap->from == gap->to) {
            gap_take_out(nrt, ids, i - 1);
            /* the gap came only from events out of order, so it does not count as a jump of the
             * numbers */
            ids->jumps -= ids->jumps > 0;
        }
        return MRD_OK;
    }
    if (was_reported(nrt, rec->nc_idx, rec, host_time))
        return MRD_EXISTS;
    if (ids->has_anew && id == ids->anew) {
        ids->next = id + 1;
        forget_reported(nrt, rec->nc_idx);
    }
    ids->has_anew = id != ids->next - 1;
    ids->anew = id + 1;
    return MRD_OK;
}

static mrd_err
id_see(mrd_nrt *nrt, const nrt_record *rec, bool host_time)
{
    nrt_ids *ids = &nrt->ids[rec->nc_idx];
    uint64_t next = ids->next, id = rec->local_id;

    if (!ids->known) {
        ids->known = true;
        /* It is not documented whether numbers begin at 0 or 1. So 0 is not missing if 1 comes
         * first. */
        next = nrt->o.whole && id != 1 && id < NRT_IDS_FAR ? 0 : id;
    }
    if (id < next)
        return id_behind(nrt, rec, host_time);
    ids->next = id + 1;
    ids->has_anew = false;
    if (id == next)
        ids->steps++;
    else if (id - next < NRT_IDS_FAR) {
        ids->jumps++;
        return gap_add(nrt, rec->nc_idx, next, id);
    }
    return MRD_OK;
}

/* Stores the host time of an event of the core. The event ends all gaps that had no event after
 * them. */
static void
time_see(nrt_ids *ids, mrd_ev_ns ts)
{
    if (ids->has_ts && !mrd_ev_after(ts, ids->newest) &&
        mrd_sat_sub(ids->newest.ns, ts.ns) < NRT_IDS_STEP)
        return;
    ids->has_ts = true;
    ids->newest = ts;
    if (!ids->any_open)
        return;
    ids->any_open = false;
    ids->due = mrd_ev_before(ts, ids->due) ? ts : ids->due;
    for (size_t i = 0; i < ids->n_gaps; i++)
        if (!ids->gaps[i].closed) {
            ids->gaps[i].closed = true;
            ids->gaps[i].last = ts;
            /* the gap precedes all events, so its begin is unknown */
            if (ids->gaps[i].first.ns == 0)
                ids->gaps[i].first = ts;
        }
}

mrd_err
mrd_nrt_ids_see(mrd_nrt *nrt, const nrt_record *rec, bool host_time)
{
    nrt_ids *ids;
    mrd_err err;

    if (!rec->has_local || rec->nc_idx < 0 || rec->nc_idx >= (int64_t) NRT_CORES)
        return MRD_OK;
    ids = &nrt->ids[rec->nc_idx];
    if (__builtin_expect(ids->known && rec->local_id == ids->next, 1)) {
        ids->next++;
        ids->steps++;
        err = MRD_OK;
    } else {
        err = id_see(nrt, rec, host_time);
        if (err == MRD_EXISTS) {
            nrt->counts.late++;
            return err;
        }
    }
    if (host_time)
        time_see(ids, rec->ts);
    return err != MRD_OK
               ? err
               : gaps_tell(nrt, rec->nc_idx, host_time ? rec->ts : (mrd_ev_ns){ INT64_MIN },
                           (mrd_local_ns){ INT64_MIN });
}

mrd_err
mrd_nrt_report_gaps(mrd_nrt *nrt, mrd_local_ns found_by)
{
    mrd_err err = MRD_OK;

    for (int64_t i = 0; i < (int64_t) NRT_CORES && err == MRD_OK && nrt->n_gaps > 0; i++)
        err = gaps_tell(nrt, i, (mrd_ev_ns){ INT64_MIN }, found_by);
    return err;
}

bool
mrd_nrt_has_gaps(const mrd_nrt *nrt)
{
    return nrt->n_gaps > 0;
}

uint64_t
mrd_nrt_oldest_gap(const mrd_nrt *nrt, uint64_t *ret_before)
{
    uint64_t mark = UINT64_MAX;

    *ret_before = UINT64_MAX;
    for (int64_t c = 0; c < (int64_t) NRT_CORES && nrt->n_gaps > 0; c++)
        for (size_t i = 0; i < nrt->ids[c].n_gaps; i++) {
            const nrt_gap *gap = &nrt->ids[c].gaps[i];

            mark = gap->mark < mark ? gap->mark : mark;
            *ret_before = gap->before < *ret_before ? gap->before : *ret_before;
        }
    return mark;
}

void
mrd_nrt_apart(mrd_nrt *nrt)
{
    nrt->o.whole = false;
    mrd_nrt_doubt(nrt);
    for (size_t c = 0; c < NRT_CORES; c++)
        nrt->ids[c].known = nrt->ids[c].has_anew = false;
}

void
mrd_nrt_now(mrd_nrt *nrt, mrd_local_ns now)
{
    nrt->now = now;
}

mrd_ev_ns
mrd_nrt_ids_doubt(const mrd_nrt *nrt)
{
    mrd_ev_ns doubt = nrt->doubt;

    for (size_t c = 0; c < NRT_CORES && nrt->n_gaps > 0; c++)
        for (size_t i = 0; i < nrt->ids[c].n_gaps; i++) {
            const nrt_gap *gap = &nrt->ids[c].gaps[i];
            mrd_ev_ns end = gap->closed ? gap->last : (mrd_ev_ns){ INT64_MAX };

            doubt = mrd_ev_after(end, doubt) ? end : doubt;
        }
    return doubt;
}
