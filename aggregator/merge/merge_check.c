#include "aggregator/merge/merge_check.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/obj.h"
#include "base/vec.h"
#include "trace/analysis/collectives.h"
#include "trace/analysis/judge/report.h"

#define PARTS_MAX MRD_COLL_PROCESSES_MAX
#define LONGEST_NS                                                                                 \
    (30 * 86400 * MRD_SEC) /* 30 days in ns; a longer execution counts as this long */
/* maximum difference between the times at which participants leave a collective, including clock
 * errors */
#define SLACK MRD_MS

/* A participant of collectives: a core of a process. Its operations form one sequence, and their
 * times come from one clock. */
typedef struct {
    mrd_proc_id process;
    int64_t lnc, device;
    const mrd_align *table;
    /* true if some times come from a device's clock, and their bounds do not include the error of
     * its conversion */
    bool mapped;
    mrd_dur_ns longest_ns; /* duration of its longest execution, in ns */
} part;

struct merge_check {
    /* must be the first member, because merge_check_wants casts the pointer */
    merge_check_filter filter;
    const mrd_catalog *cat;
    mrd_collectives *cc;
    part *parts;
    size_t n_parts, cap_parts;
    /* indexed by track; index of its participant in `parts` plus 1, or 0 if it has none yet */
    uint32_t *part_of;
    int64_t *longest; /* for each track: duration of the longest execution, in ns */
    /* string id of the name of executions; 0 if the catalog lacks that name */
    mrd_sid execution;
    size_t n_tracks;
    mrd_coll_obs *obs;
    bool *barrier; /* for each observation: true if its operation is a barrier */
    size_t n, cap_obs, cap_barrier;
    mrd_coll_gap *gaps;
    size_t n_gaps, cap_gaps;
    bool full;
    /* memory ran out, so observations are missing and cannot be matched reliably */
    bool starved;
};

merge_check *
mrd_merge_check_new(const mrd_catalog *cat)
{
    merge_check *check = calloc(1, sizeof(*check));

    if (check == NULL)
        return NULL;
    check->cat = cat;
    check->n_tracks = mrd_catalog_tracks(cat);
    check->cc = mrd_collectives_new(cat, NULL);
    check->part_of = calloc(check->n_tracks + 1, sizeof(*check->part_of));
    check->longest = calloc(check->n_tracks + 1, sizeof(*check->longest));
    check->execution = mrd_strtab_find(mrd_catalog_strings(cat), MRD_STR("nc_exec_running"));
    check->filter.n_names = mrd_strtab_count(mrd_catalog_strings(cat));
    check->filter.n_lines = check->n_tracks;
    check->filter.names = malloc(check->filter.n_names + 1);
    check->filter.lines = malloc(check->filter.n_lines + 1);
    if (check->cc == NULL || check->part_of == NULL || check->longest == NULL ||
        check->filter.names == NULL || check->filter.lines == NULL) {
        mrd_merge_check_free(check);
        return NULL;
    }
    for (mrd_sid sid = 0; sid < check->filter.n_names; sid++)
        check->filter.names[sid] = mrd_collectives_named(check->cc, sid) ||
                                   (sid == check->execution && check->execution != 0);
    for (mrd_track_id id = 0; id < check->filter.n_lines; id++)
        check->filter.lines[id] = mrd_device_work_on(mrd_collectives_work(check->cc), id);
    return check;
}

void
mrd_merge_check_free(merge_check *check)
{
    if (check == NULL)
        return;
    mrd_collectives_free(check->cc);
    free(check->filter.names);
    free(check->filter.lines);
    free(check->parts);
    free(check->part_of);
    free(check->longest);
    free(check->obs);
    free(check->barrier);
    free(check->gaps);
    free(check);
}

/* Stores the index of the track's participant, and adds one if needed. Returns false if out of
 * memory, or if there are PARTS_MAX participants. */
static bool
find_part(merge_check *check, mrd_track_id track, const mrd_align *table, uint32_t *ret_part)
{
    const mrd_track *t;

    if (track >= check->n_tracks)
        return false;
    if (check->part_of[track] == 0 || check->parts[check->part_of[track] - 1].table != table) {
        size_t i = 0;

        t = mrd_catalog_borrow_track(check->cat, track);
        while (i < check->n_parts &&
               (check->parts[i].process != t->process || check->parts[i].lnc != t->lnc_idx ||
                check->parts[i].device != t->device_idx || check->parts[i].table != table))
            i++;
        if (i == check->n_parts) {
            if (i == PARTS_MAX)
                return false;
            if (!MRD_VEC_ROOM(check->parts, i, check->cap_parts, 1)) {
                check->starved = true;
                return false;
            }
            check->parts[check->n_parts++] = (part){
                .process = t->process, .lnc = t->lnc_idx, .device = t->device_idx, .table = table
            };
        }
        check->part_of[track] = (uint32_t) i + 1;
    }
    *ret_part = check->part_of[track] - 1;
    return true;
}

/* Handles a loss event: adds a gap for each core of the process, because operations of any core may
 * be missing then. */
static void
see_gap(merge_check *check, const mrd_event *ev, int64_t raw_ns)
{
    mrd_proc_id process;

    if (ev->track >= check->n_tracks)
        return;
    process = mrd_catalog_borrow_track(check->cat, ev->track)->process;
    for (size_t i = 0; i < check->n_parts; i++) {
        if (check->parts[i].process != process)
            continue;
        if (!MRD_VEC_ROOM(check->gaps, check->n_gaps, check->cap_gaps, 1)) {
            check->starved = true;
            return;
        }
        check->gaps[check->n_gaps++] =
            (mrd_coll_gap){ (uint32_t) i, { raw_ns }, { raw_ns + ev->dur_ns } };
    }
}

void
mrd_merge_check_see(merge_check *check, const mrd_event *ev, int64_t raw_ns, mrd_dur_ns doubt,
                    const mrd_align *table)
{
    mrd_cc_kind kind;
    uint32_t who;
    mrd_cc cc;

    if (ev->kind == MRD_LOSS) {
        see_gap(check, ev, raw_ns);
        return;
    }
    if (ev->kind == MRD_SPAN && ev->track < check->n_tracks &&
        ev->dur_ns > check->longest[ev->track])
        check->longest[ev->track] = ev->dur_ns;
    kind = mrd_collectives_see(check->cc, ev, &cc);
    if ((kind != MRD_CC_SYNC && kind != MRD_CC_BARRIER) || check->full || raw_ns < doubt ||
        raw_ns > MRD_COLL_TIME_MAX - doubt - ev->dur_ns ||
        !find_part(check, ev->track, table, &who))
        return;
    if (check->n == MERGE_CHECK_MAX) {
        check->full = true;
        return;
    }
    if (!MRD_VEC_ROOM(check->barrier, check->n, check->cap_barrier, 1) ||
        !MRD_VEC_ROOM(check->obs, check->n, check->cap_obs, 1)) {
        check->starved = true;
        return;
    }
    mrd_collectives_remember(check->cc, ev, &cc);
    if (mrd_catalog_borrow_track(check->cat, ev->track)->source == MRD_SRC_DEVICE &&
        (ev->flags & MRD_EV_DEVICE_BOUND) == 0)
        check->parts[who].mapped = true;
    check->barrier[check->n] = kind == MRD_CC_BARRIER;
    check->obs[check->n++] = (mrd_coll_obs){ .process = who,
                                             .group = cc.group,
                                             .op = cc.op,
                                             .size = cc.size,
                                             .seq = -1,
                                             .members = cc.members,
                                             .begin = { raw_ns - doubt },
                                             .end = { raw_ns + ev->dur_ns + doubt } };
}

/* Drops the observations of barriers if there are other operations. Barriers differ in nothing but
 * their times, so observations of the same barrier on different nodes are matched less reliably. */
static void
keep_telling(merge_check *check)
{
    bool telling = false;
    size_t n = 0;

    for (size_t i = 0; i < check->n; i++)
        telling = telling || !check->barrier[i];
    for (size_t i = 0; i < check->n; i++) {
        if (!telling || !check->barrier[i])
            check->obs[n++] = check->obs[i];
    }
    check->n = n;
}

static bool
several_clocks(const merge_check *check)
{
    for (size_t i = 1; i < check->n_parts; i++) {
        if (check->parts[i].table != check->parts[0].table)
            return true;
    }
    return false;
}

/* ---- Leaving out operations that not all participants recorded ---- */

static int
obs_order(const void *x, const void *y)
{
    const mrd_coll_obs *a = x, *b = y;

    if (a->group != b->group)
        return a->group < b->group ? -1 : 1;
    if (a->process != b->process)
        return a->process < b->process ? -1 : 1;
    return mrd_local_before(a->end, b->end) ? -1 : mrd_local_after(a->end, b->end);
}

/* Converts the time when a participant left an operation to session time. Returns false if the
 * alignment table has no estimate for this time. */
static bool
ended(const merge_check *check, const mrd_coll_obs *obs, int64_t *ret_ns)
{
    mrd_align_cursor cursor = { 0 };
    mrd_sess_ns at;

    if (!mrd_align_map(check->parts[obs->process].table, &cursor, obs->end, &at, NULL))
        return false;
    *ret_ns = at.ns;
    return true;
}

/* Finds the time range in which all participants of a group were recorded. obs[from] to obs[to - 1]
 * are the observations of this group. */
static void
common_time(const merge_check *check, size_t from, size_t to, int64_t *ret_first, int64_t *ret_last)
{
    *ret_first = INT64_MIN;
    *ret_last = INT64_MAX;
    for (size_t i = from, end; i < to; i = end) {
        int64_t first, last;

        for (end = i; end < to && check->obs[end].process == check->obs[i].process;)
            end++;
        if (!ended(check, &check->obs[i], &first) || !ended(check, &check->obs[end - 1], &last))
            continue;
        *ret_first = first > *ret_first ? first : *ret_first;
        *ret_last = last < *ret_last ? last : *ret_last;
    }
}

/*
 * Drops operations that some participants may not have recorded, because nodes begin and end a
 * session at slightly different times. All participants leave an operation at about the same time.
 * So operations that ended outside the time range that all participants recorded are dropped.
 */
static void
trim(merge_check *check)
{
    size_t n = 0;

    if (check->n > 0)
        qsort(check->obs, check->n, sizeof(*check->obs), obs_order);
    for (size_t i = 0, end; i < check->n; i = end) {
        int64_t first, last, at;

        for (end = i; end < check->n && check->obs[end].group == check->obs[i].group;)
            end++;
        common_time(check, i, end, &first, &last);
        for (size_t k = i; k < end; k++) {
            if (ended(check, &check->obs[k], &at) && at >= first - SLACK && at <= last + SLACK)
                check->obs[n++] = check->obs[k];
        }
    }
    check->n = n;
}

/* ---- Errors of clocks of devices ---- */

/* Computes longest_ns of each participant from all tracks of its core. */
static void
find_longest(merge_check *check)
{
    for (size_t i = 0; i < check->n_tracks; i++) {
        const mrd_track *track =
            check->longest[i] == 0 ? NULL : mrd_catalog_borrow_track(check->cat, (mrd_track_id) i);

        for (size_t k = 0; track != NULL && track->source == MRD_SRC_DEVICE && k < check->n_parts;
             k++) {
            part *p = &check->parts[k];

            if (p->process == track->process && p->lnc == track->lnc_idx &&
                p->device == track->device_idx && check->longest[i] > p->longest_ns)
                p->longest_ns = check->longest[i];
        }
    }
}

/* Adds the possible conversion error to times that the runtime converted from a device's clock, if
 * their bounds do not include it. The begin becomes earlier and the end later. */
static void
allow_for_mapping(merge_check *check)
{
    find_longest(check);
    for (size_t i = 0; i < check->n; i++) {
        mrd_coll_obs *obs = &check->obs[i];
        const part *p = &check->parts[obs->process];
        int64_t longest = p->longest_ns < LONGEST_NS ? p->longest_ns : LONGEST_NS,
                error = (int64_t) mrd_proof_mapping((uint64_t) longest);

        if (!p->mapped)
            continue;
        obs->begin = (mrd_local_ns){ obs->begin.ns < error ? 0 : obs->begin.ns - error };
        obs->end = (mrd_local_ns){ obs->end.ns > MRD_COLL_TIME_MAX - error ? MRD_COLL_TIME_MAX
                                                                           : obs->end.ns + error };
    }
}

/* ---- Checking all observations ---- */

static mrd_err
match_seen(merge_check *check, mrd_coll_match **ret_match, mrd_why *why)
{
    mrd_coll_options options = { .text = mrd_collectives_text, .self = check->cc };
    mrd_err err = mrd_coll_match_new(check->obs, check->n, check->n_parts, check->gaps,
                                     check->n_gaps, &options, ret_match, why);

    if (err != MRD_CLOCK)
        return err;
    trim(check);
    return mrd_coll_match_new(check->obs, check->n, check->n_parts, check->gaps, check->n_gaps,
                              &options, ret_match, why);
}

bool
mrd_merge_check_run(merge_check *check, mrd_coll_check *ret_check, char message[MRD_WHY_MAX])
{
    mrd_coll_match *match = NULL;
    const mrd_align **tables = calloc(check->n_parts + 1, sizeof(*tables));
    mrd_why why = { 0 };
    mrd_err err;

    *message = '\0';
    keep_telling(check);
    if (tables == NULL || check->starved) {
        snprintf(message, MRD_WHY_MAX, "not checked for lack of memory");
        free(tables);
        return false;
    }
    if (!several_clocks(check)) {
        free(tables);
        return false;
    }
    for (size_t i = 0; i < check->n_parts; i++)
        tables[i] = check->parts[i].table;
    allow_for_mapping(check);
    if ((err = match_seen(check, &match, &why)) == MRD_OK) {
        mrd_coll_check_run(match, tables, ret_check);
        if (check->full)
            snprintf(message, MRD_WHY_MAX, "only the first %u are checked", MERGE_CHECK_MAX);
    } else if (err != MRD_EMPTY) {
        snprintf(message, MRD_WHY_MAX, "%.*s", MRD_WHY_MAX - 1, why.text);
    }
    mrd_coll_match_free(match);
    free(tables);
    return err == MRD_OK;
}
