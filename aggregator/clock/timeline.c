#include "aggregator/clock/timeline.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/num.h"
#include "base/obj.h"
#include "base/sys/out.h"
#include "proto/api_names.h"
#include "timesync/follow.h"

/* Maximum number of clock readings that are used before a gap between two incarnations of the
 * aggregator, and after it. The nearest readings are used. */
#define UTC_READINGS 64

static const char *const by_text[] = { "first", "nodes", "utc", "none" };

/* ---- The order of the aggregator's incarnations ---- */

/* Returns the index of the incarnation with this id, or timeline->n if there is none. */
static size_t
find_incarnation(const mrd_timeline *timeline, const char *id)
{
    size_t i = 0;

    while (i < timeline->n && strcmp(timeline->v[i].id, id) != 0)
        i++;
    return i;
}

typedef struct {
    const mrd_node_clock *const *clocks;
    size_t n;
} nodes;

typedef void each_incarnation(void *self, const mrd_boot_clock *c, size_t incarnation);

static void
for_incarnations(const nodes *all, each_incarnation *see, void *self)
{
    for (size_t i = 0; i < all->n; i++) {
        for (size_t k = 0; k < all->clocks[i]->n; k++) {
            const mrd_boot_clock *clock = &all->clocks[i]->v[k];

            for (size_t l = 0; l < clock->n_incarnations; l++)
                see(self, clock, l);
        }
    }
}

typedef struct {
    mrd_timeline incarnations; /* all incarnations, in the order in which they were found */
    mrd_sess_ns began[MRD_INCARNATIONS_MAX], ended[MRD_INCARNATIONS_MAX];
    /* before[i][k] is true if the probes of some node show incarnation i directly before
     * incarnation k */
    bool before[MRD_INCARNATIONS_MAX][MRD_INCARNATIONS_MAX];
} census;

static void
count_incarnation(void *self, const mrd_boot_clock *clock, size_t incarnation)
{
    const mrd_clock_incarnation *l = &clock->incarnations[incarnation];
    census *all = self;
    size_t i = find_incarnation(&all->incarnations, l->id), last;

    if (i == MRD_INCARNATIONS_MAX)
        return;
    if (i == all->incarnations.n) {
        all->incarnations.n++;
        all->incarnations.v[i] = (mrd_incarnation){ .by = MRD_LINKED_NONE };
        memcpy(all->incarnations.v[i].id, l->id, sizeof(l->id));
        all->began[i] = l->began;
        all->ended[i] = l->ended;
    } else {
        all->began[i] = mrd_sess_min(l->began, all->began[i]);
        all->ended[i] = mrd_sess_max(l->ended, all->ended[i]);
    }
    if (incarnation > 0 &&
        (last = find_incarnation(&all->incarnations, clock->incarnations[incarnation - 1].id)) <
            all->incarnations.n)
        all->before[last][i] = true;
}

/* Returns the incarnation that comes next in the timeline: one for which all incarnations before it
 * are taken already. If there are several, returns the one that began first. */
static size_t
next_incarnation(const census *all, const bool *taken)
{
    size_t best = SIZE_MAX, any = SIZE_MAX;

    for (size_t i = 0; i < all->incarnations.n; i++) {
        bool free = !taken[i];

        for (size_t k = 0; k < all->incarnations.n && free; k++)
            free = taken[k] || k == i || !all->before[k][i];
        if (!taken[i] && (any == SIZE_MAX || mrd_sess_before(all->began[i], all->began[any])))
            any = i;
        if (free && (best == SIZE_MAX || mrd_sess_before(all->began[i], all->began[best])))
            best = i;
    }
    /* If there is no such incarnation, the order is circular, because a node was connected to an
     * earlier incarnation again. */
    return best != SIZE_MAX ? best : any;
}

/* ---- Links by the clocks of nodes ---- */

/* Returns the index of the aggregator's incarnation to which a segment of the table belongs.
 * Segments before the first probe belong to the first incarnation. Returns 0 if there is no
 * incarnation. */
static size_t
segment_incarnation(const mrd_boot_clock *clock, const mrd_align_segment *seg)
{
    size_t incarnation = 0;

    for (size_t i = 0;
         i < clock->n_incarnations && !mrd_local_after(clock->incarnations[i].from, seg->from); i++)
        incarnation = i;
    return incarnation;
}

/* Returns true if the node's clock had a break, for example a suspend, in the gap between two
 * segments. Such a clock cannot link the incarnations before and after the gap. */
static bool
disturbed(const mrd_boot_clock *clock, const mrd_align_segment *a, const mrd_align_segment *b)
{
    for (size_t i = 0; i < clock->n_breaks; i++) {
        if (clock->breaks[i].cause != MRD_EPOCH_AGGREGATOR &&
            !mrd_local_before(clock->breaks[i].before, a->to) &&
            !mrd_local_after(clock->breaks[i].after, b->from))
            return true;
    }
    return b->cause != MRD_EPOCH_AGGREGATOR;
}

static bool
spans(const mrd_boot_clock *clock, const char *old, const char *new, mrd_link_clock *ret)
{
    size_t n =
        clock->align == NULL || clock->violations > 0 ? 0 : mrd_align_segment_count(clock->align);
    const mrd_align_bin *bins = n == 0 ? NULL : mrd_align_borrow_bins(clock->align);

    for (size_t i = 1; i < n; i++) {
        const mrd_align_segment *a = mrd_align_borrow_segment(clock->align, i - 1), *b = a + 1;
        size_t la = segment_incarnation(clock, a), lb = segment_incarnation(clock, b);

        if (la == lb || la == clock->n_incarnations ||
            strcmp(clock->incarnations[la].id, old) != 0 ||
            strcmp(clock->incarnations[lb].id, new) != 0)
            continue;
        *ret = (mrd_link_clock){ clock->align, i - 1, i };
        return !disturbed(clock, a, b) &&
               bins[a->first + a->count - 1].quality > MRD_ALIGN_SUSPECT &&
               bins[b->first].quality > MRD_ALIGN_SUSPECT;
    }
    return false;
}

static mrd_err
link_by_nodes(const nodes *all, const char *old, mrd_incarnation *incarnation)
{
    mrd_link_clock *clock;
    size_t boots = 0, n = 0;
    mrd_err err;

    for (size_t i = 0; i < all->n; i++)
        boots += all->clocks[i]->n;
    if ((clock = malloc((boots + 1) * sizeof(*clock))) == NULL)
        return MRD_NOMEM;
    for (size_t i = 0; i < all->n; i++) {
        for (size_t k = 0; k < all->clocks[i]->n; k++)
            n += spans(&all->clocks[i]->v[k], old, incarnation->id, &clock[n]);
    }
    err = mrd_timescale_link_solve(clock, n, &incarnation->link);
    if (err == MRD_OK)
        incarnation->by = MRD_LINKED_NODES;
    else
        incarnation->link.contradicting = n; /* the nodes contradict each other about the shift */
    free(clock);
    return err == MRD_NOMEM ? err : MRD_OK;
}

/* ---- Links by UTC ---- */

static int
reading_order(const void *a, const void *b)
{
    const mrd_server_reading *x = *(const mrd_server_reading *const *) a,
                             *y = *(const mrd_server_reading *const *) b;

    return mrd_local_before(x->r.raw, y->r.raw) ? -1 : mrd_local_after(x->r.raw, y->r.raw);
}

/* Gets the readings that the aggregator made with the timeline `id` and a known error from UTC,
 * sorted by time. Gets at most UTC_READINGS: the last ones if `end` is true, otherwise the first
 * ones. Returns their number, or a negative number if out of memory. */
static int
utc_readings(const nodes *all, const char *id, bool end,
             const mrd_server_reading *ret[UTC_READINGS])
{
    const mrd_server_reading **readings;
    size_t cap = 0, n = 0, from, count;

    for (size_t i = 0; i < all->n; i++)
        cap += all->clocks[i]->n_server;
    if ((readings = malloc((cap + 1) * sizeof(*readings))) == NULL)
        return -1;
    for (size_t i = 0; i < all->n; i++) {
        for (size_t k = 0; k < all->clocks[i]->n_server; k++) {
            const mrd_server_reading *reading = &all->clocks[i]->server[k];

            if (strcmp(reading->id, id) == 0 && mrd_host_reading_utc_bound(&reading->r) >= 0)
                readings[n++] = reading;
        }
    }
    qsort(readings, n, sizeof(*readings), reading_order);
    /* duplicates are removed, because the journals of several nodes can contain the same reading */
    for (size_t i = cap = 0; i < n; i++) {
        if (cap == 0 || readings[cap - 1]->r.raw.ns != readings[i]->r.raw.ns)
            readings[cap++] = readings[i];
    }
    count = cap < UTC_READINGS ? cap : UTC_READINGS;
    from = end ? cap - count : 0;
    memcpy(ret, readings + from, count * sizeof(*readings));
    free(readings);
    return (int) count;
}

/* Makes two inequalities for the offset between session time and UTC. The solver was made for the
 * offset between session time and a node's clock. Here it gets UTC instead of the node's clock. */
static void
utc_ineqs(const mrd_server_reading *reading, mrd_ineq ret[2])
{
    int64_t utc = reading->r.realtime.ns,
            e = mrd_host_reading_utc_bound(&reading->r) + reading->r.bracket_ns / 2 + 1;
    int64_t offset = mrd_sat_sub(mrd_sat_add(reading->r.raw.ns, reading->session_offset_ns), utc);

    /* adds the possible change of the offset within `e` ns, at a rate error of 1000 ppm */
    e += e / 1000 + 1;
    ret[0] = (mrd_ineq){ .t = utc, .v = offset + e };
    ret[1] = (mrd_ineq){ .t = utc, .v = offset - e, .lower = true };
}

static mrd_err
link_by_utc(const nodes *all, const char *old, mrd_incarnation *incarnation)
{
    const mrd_server_reading *a[UTC_READINGS], *b[UTC_READINGS];
    int na = utc_readings(all, old, true, a), nb = utc_readings(all, incarnation->id, false, b);
    mrd_ineq ineqs[4 * UTC_READINGS];
    mrd_epoch_break gap = { .cause = MRD_EPOCH_AGGREGATOR };
    mrd_align *utc = NULL;
    size_t count = 0, odd = incarnation->link.contradicting;
    mrd_err err;

    if (na < 0 || nb < 0)
        return MRD_NOMEM;
    if (na == 0 || nb == 0 || !mrd_wall_after(b[0]->r.realtime, a[na - 1]->r.realtime))
        return MRD_OK;
    for (int i = 0; i < na; i++, count += 2)
        utc_ineqs(a[i], ineqs + count);
    for (int i = 0; i < nb; i++, count += 2)
        utc_ineqs(b[i], ineqs + count);
    /* The solver expects the limits of the gap by the node's clock, instead of which UTC is used
     * here. */
    gap.after.ns = a[na - 1]->r.realtime.ns;
    gap.before.ns = b[0]->r.realtime.ns;
    err = mrd_follow_solve(
        &(mrd_follow_input){
            .name = "UTC", .ineqs = ineqs, .n_ineqs = count, .breaks = &gap, .n_breaks = 1 },
        &utc, NULL, NULL);
    if (err != MRD_OK) /* Too few readings are not an error, but there is no link. */
        return err == MRD_NOMEM ? err : MRD_OK;
    for (size_t i = 1; i < mrd_align_segment_count(utc) && err != MRD_NOMEM; i++) {
        const mrd_align_segment *segment = mrd_align_borrow_segment(utc, i);

        if (mrd_local_after(segment[-1].to, gap.after) ||
            mrd_local_before(segment->from, gap.before))
            continue;
        err = mrd_timescale_link_solve(&(mrd_link_clock){ utc, i - 1, i }, 1, &incarnation->link);
        if (err == MRD_OK)
            incarnation->by = MRD_LINKED_UTC;
    }
    incarnation->link.contradicting = odd;
    mrd_align_free(utc);
    return err == MRD_NOMEM ? err : MRD_OK;
}

/* ---- Computing the whole timeline ---- */

static mrd_err
link_incarnation(const nodes *all, mrd_timeline *timeline, size_t i, mrd_sess_ns ended,
                 mrd_sess_ns began)
{
    mrd_incarnation *incarnation = &timeline->v[i];
    const mrd_incarnation *last = &timeline->v[i - 1];
    mrd_err err = link_by_nodes(all, last->id, incarnation);

    if (err == MRD_OK && incarnation->by == MRD_LINKED_NONE)
        err = link_by_utc(all, last->id, incarnation);
    if (incarnation->by == MRD_LINKED_NONE) {
        /* The session time of both incarnations follows the wall clocks of their machines, so
         * usually no shift is needed. If the new wall clock is behind the old one, the new timeline
         * is shifted, so that later events have later times. */
        int64_t end = mrd_sat_add(ended.ns, last->shift_ns);

        incarnation->link.gap_ns = began.ns > end ? mrd_sat_add(began.ns, -end) : 0;
        incarnation->shift_ns = began.ns > end ? 0 : mrd_sat_add(mrd_sat_add(end, -began.ns), 1);
        incarnation->link.at = (mrd_sess_ns){ end };
        return err;
    }
    incarnation->shift_ns = mrd_sat_add(last->shift_ns, -incarnation->link.ahead_ns);
    incarnation->link.at = (mrd_sess_ns){ mrd_sat_add(incarnation->link.at.ns, last->shift_ns) };
    return err;
}

mrd_err
mrd_timeline_solve(const mrd_node_clock *const *clocks, size_t n, mrd_timeline *ret_timeline)
{
    nodes all = { clocks, n };
    mrd_timeline timeline = { .n = 0 };
    bool taken[MRD_INCARNATIONS_MAX] = { false };
    census *c = calloc(1, sizeof(*c));
    mrd_err err = c == NULL ? MRD_NOMEM : MRD_OK;
    size_t at, last = 0;

    if (err == MRD_OK)
        for_incarnations(&all, count_incarnation, c);
    for (; err == MRD_OK && timeline.n < c->incarnations.n; last = at) {
        at = next_incarnation(c, taken);
        taken[at] = true;
        timeline.v[timeline.n++] = c->incarnations.v[at];
        if (timeline.n == 1)
            timeline.v[0].by = MRD_LINKED_FIRST;
        else
            err = link_incarnation(&all, &timeline, timeline.n - 1, c->ended[last], c->began[at]);
    }
    free(c);
    if (err == MRD_OK)
        *ret_timeline = timeline;
    return err;
}

bool
mrd_timeline_knows(const mrd_timeline *timeline, const mrd_node_clock *clock)
{
    for (size_t i = 0; i < clock->n; i++) {
        for (size_t l = 0; l < clock->v[i].n_incarnations; l++) {
            if (find_incarnation(timeline, clock->v[i].incarnations[l].id) == timeline->n)
                return false;
        }
    }
    return true;
}

static void
shift_probes(mrd_boot_clock *clock, size_t first, size_t end, int64_t by)
{
    for (size_t i = first; i < end; i++) {
        clock->probes[i].r2 = mrd_sat_add(clock->probes[i].r2, clock->probes[i].r2 == 0 ? 0 : by);
        clock->probes[i].r3 = mrd_sat_add(clock->probes[i].r3, clock->probes[i].r3 == 0 ? 0 : by);
    }
}

static void
apply_boot(const mrd_timeline *timeline, mrd_boot_clock *clock)
{
    bool solved = clock->align != NULL && mrd_align_bin_count(clock->align) > 0 &&
                  mrd_align_borrow_bins(clock->align)[0].quality != MRD_ALIGN_UNALIGNED;

    for (size_t l = 0; l < clock->n_incarnations; l++) {
        size_t incarnation = find_incarnation(timeline, clock->incarnations[l].id);
        int64_t by = incarnation == timeline->n ? 0 : timeline->v[incarnation].shift_ns;

        shift_probes(
            clock, clock->incarnations[l].first,
            l + 1 < clock->n_incarnations ? clock->incarnations[l + 1].first : clock->n_probes, by);
        for (size_t i = 0; solved && by != 0 && i < mrd_align_segment_count(clock->align); i++) {
            if (segment_incarnation(clock, mrd_align_borrow_segment(clock->align, i)) == l)
                mrd_align_shift(clock->align, i, i + 1, by);
        }
    }
}

void
mrd_timeline_apply(const mrd_timeline *timeline, mrd_node_clock *clock)
{
    for (size_t i = 0; i < clock->n; i++)
        apply_boot(timeline, &clock->v[i]);
}

mrd_dur_ns
mrd_incarnation_bound(const mrd_incarnation *incarnation)
{
    if (incarnation->by != MRD_LINKED_NODES && incarnation->by != MRD_LINKED_UTC)
        return incarnation->by == MRD_LINKED_FIRST ? 0 : -1;
    return -incarnation->link.lo > incarnation->link.hi ? -incarnation->link.lo
                                                        : incarnation->link.hi;
}

size_t
mrd_timeline_violations(const mrd_timeline *timeline)
{
    size_t n = 0;

    for (size_t i = 0; i < timeline->n; i++)
        n += timeline->v[i].link.contradicting;
    return n;
}

/* ---- The timeline as text ---- */

void
mrd_timeline_text(const mrd_timeline *timeline, size_t i, mrd_buf *to)
{
    const mrd_incarnation *incarnation = &timeline->v[i];
    char gap[MRD_DUR_TEXT], bound[MRD_DUR_TEXT];

    mrd_dur_text(incarnation->link.gap_ns, gap);
    mrd_dur_text(mrd_incarnation_bound(incarnation), bound);
    mrd_buf_fmt(to, "the aggregator's clock changed (incarnation %zu of %zu): ", i + 1,
                timeline->n);
    if (incarnation->by == MRD_LINKED_NODES)
        mrd_buf_fmt(to,
                    "times after it are linked to those before within +-%s by %zu clock%s that ran "
                    "on over the %s between",
                    bound, incarnation->link.clocks, mrd_plural(incarnation->link.clocks), gap);
    else if (incarnation->by == MRD_LINKED_UTC)
        mrd_buf_fmt(
            to,
            "no node's clock ran on over the %s between; times after it are linked to those "
            "before within +-%s by UTC, as far as both aggregators' wall clocks know it",
            gap, bound);
    else
        mrd_buf_text(to,
                     "times after it are NOT linked to those before: no node's clock ran on, and "
                     "the wall clocks of both aggregators state no bound");
    if (incarnation->link.contradicting > 0)
        mrd_buf_fmt(to, "; %zu clock%s contradict%s that: DO NOT TRUST IT",
                    incarnation->link.contradicting, mrd_plural(incarnation->link.contradicting),
                    incarnation->link.contradicting == 1 ? "s" : "");
}

mrd_json *
mrd_timeline_json(const mrd_timeline *timeline)
{
    mrd_json *json = mrd_json_new_array();

    for (size_t i = 0; i < timeline->n; i++) {
        const mrd_incarnation *incarnation = &timeline->v[i];
        mrd_json *o = mrd_json_new_object();

        mrd_json_set(o, "timeline", mrd_json_new_str(incarnation->id));
        mrd_json_set(o, "linked_by", mrd_json_new_str(by_text[incarnation->by]));
        mrd_json_set(o, "shift_ns", mrd_json_new_int(incarnation->shift_ns));
        mrd_json_set(o, "at_ns", mrd_json_new_int(incarnation->link.at.ns));
        mrd_json_set(o, "bound_ns", mrd_json_new_int(mrd_incarnation_bound(incarnation)));
        mrd_json_set(o, "bound_lo_ns", mrd_json_new_int(incarnation->link.lo));
        mrd_json_set(o, "bound_hi_ns", mrd_json_new_int(incarnation->link.hi));
        mrd_json_set(o, "gap_ns", mrd_json_new_int(incarnation->link.gap_ns));
        mrd_json_set(o, "clocks", mrd_json_new_int((int64_t) incarnation->link.clocks));
        mrd_json_set(o, "contradicting",
                     mrd_json_new_int((int64_t) incarnation->link.contradicting));
        mrd_json_append(json, o);
    }
    return json;
}

void
mrd_timeline_of_json(mrd_timeline *to, const mrd_json *array)
{
    size_t n = array == NULL ? 0 : mrd_json_size(array);

    *to = (mrd_timeline){ .n = n < MRD_INCARNATIONS_MAX ? n : MRD_INCARNATIONS_MAX };
    for (size_t i = 0; i < to->n; i++) {
        const mrd_json *json = mrd_json_at(array, i);
        const char *by = mrd_json_str(json, "linked_by", "none");
        mrd_incarnation *incarnation = &to->v[i];

        snprintf(incarnation->id, sizeof(incarnation->id), "%s",
                 mrd_json_str(json, "timeline", ""));
        incarnation->by = MRD_LINKED_NONE;
        for (unsigned k = 0; k < MRD_COUNT(by_text); k++) {
            if (strcmp(by, by_text[k]) == 0)
                incarnation->by = (mrd_linked_by) k;
        }
        incarnation->shift_ns = mrd_json_int(json, "shift_ns", 0);
        incarnation->link.at = (mrd_sess_ns){ mrd_json_int(json, "at_ns", 0) };
        incarnation->link.lo = mrd_json_int(json, "bound_lo_ns", 0);
        incarnation->link.lo =
            incarnation->link.lo < -INT64_MAX ? -INT64_MAX : incarnation->link.lo;
        incarnation->link.hi = mrd_json_int(json, "bound_hi_ns", 0);
        incarnation->link.gap_ns = mrd_json_int(json, "gap_ns", 0);
        incarnation->link.clocks = (size_t) mrd_json_int(json, "clocks", 0);
        incarnation->link.contradicting = (size_t) mrd_json_int(json, "contradicting", 0);
    }
}

/* ---- The timeline's file ---- */

static char *
timeline_path(const char *session_dir)
{
    char *path;

    return asprintf(&path, "%s/" MRD_CLOCKS_DIR "/timeline.json", session_dir) < 0 ? NULL : path;
}

mrd_err
mrd_timeline_save(const mrd_timeline *timeline, const char *session_dir, mrd_why *why)
{
    char *path = timeline_path(session_dir);
    mrd_json *doc = mrd_json_new_object();
    mrd_buf text = { 0 };
    mrd_err err = MRD_NOMEM;

    if (path != NULL && mrd_json_set(doc, "incarnations", mrd_timeline_json(timeline)) == MRD_OK) {
        mrd_json_write(doc, true, &text);
        err = text.err;
    }
    err = err == MRD_OK ? mrd_write_file(path, (mrd_bytes){ text.p, text.len }, 0644, why)
                        : mrd_why_set(why, err, 0, "timeline of %s", session_dir);
    mrd_buf_fini(&text);
    mrd_json_free(doc);
    free(path);
    return err;
}

void
mrd_timeline_load(mrd_timeline *to, const char *session_dir)
{
    char *path = timeline_path(session_dir);
    mrd_json *doc = NULL;

    *to = (mrd_timeline){ .n = 0 };
    if (path != NULL && mrd_json_load(path, &doc, NULL) == MRD_OK &&
        mrd_api_present_names(doc, NULL) == MRD_OK)
        mrd_timeline_of_json(to, mrd_json_get(doc, "incarnations"));
    mrd_json_free(doc);
    free(path);
}
