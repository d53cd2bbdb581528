#include "aggregator/merge/merge_check.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/obj.h"
#include "base/vec.h"
#include "trace/analysis/collectives.h"
#include "trace/analysis/judge/report.h"

#define PARTS_MAX MRD_COLL_PROCESSES_MAX
#define LONGEST_S (30 * 86400) /* of an execution */
/* between the first and the last participant to leave, including errors of the clocks */
#define SLACK MRD_MS

/* A core of a process, which runs one sequence of operations on one clock. */
typedef struct {
    mrd_proc_id process;
    int64_t lnc, device;
    const mrd_align *table;
    bool mapped;           /* its clock is a device's, as mapped by the runtime */
    mrd_dur_ns longest_ns; /* its longest span */
} part;

struct merge_check {
    merge_check_filter filter; /* first, see merge_check_wants */
    const mrd_catalog *cat;
    mrd_collectives *cc;
    part *parts;
    size_t n_parts, cap_parts;
    uint32_t *part_of; /* index by track, plus one. 0 means unknown */
    int64_t *longest;  /* execution, by track */
    mrd_sid execution; /* name of executions. 0 means there are none */
    size_t n_tracks;
    mrd_coll_obs *obs;
    bool *barrier; /* by observation */
    size_t n, cap_obs, cap_barrier;
    mrd_coll_gap *gaps;
    size_t n_gaps, cap_gaps;
    bool full;
    bool starved; /* observations were dropped for lack of memory, so a match may be wrong */
};

merge_check *
mrd_merge_check_new(const mrd_catalog *cat)
{
    merge_check *c = calloc(1, sizeof(*c));

    if (c == NULL)
        return NULL;
    c->cat = cat;
    c->n_tracks = mrd_catalog_tracks(cat);
    c->cc = mrd_collectives_new(cat, NULL);
    c->part_of = calloc(c->n_tracks + 1, sizeof(*c->part_of));
    c->longest = calloc(c->n_tracks + 1, sizeof(*c->longest));
    c->execution = mrd_strtab_find(mrd_catalog_strings(cat), MRD_STR("nc_exec_running"));
    c->filter.n_names = mrd_strtab_count(mrd_catalog_strings(cat));
    c->filter.n_lines = c->n_tracks;
    c->filter.names = malloc(c->filter.n_names + 1);
    c->filter.lines = malloc(c->filter.n_lines + 1);
    if (c->cc == NULL || c->part_of == NULL || c->longest == NULL || c->filter.names == NULL ||
        c->filter.lines == NULL) {
        mrd_merge_check_free(c);
        return NULL;
    }
    for (mrd_sid i = 0; i < c->filter.n_names; i++)
        c->filter.names[i] =
            mrd_collectives_named(c->cc, i) || (i == c->execution && c->execution != 0);
    for (mrd_track_id i = 0; i < c->filter.n_lines; i++)
        c->filter.lines[i] = mrd_device_work_on(mrd_collectives_work(c->cc), i);
    return c;
}

void
mrd_merge_check_free(merge_check *c)
{
    if (c == NULL)
        return;
    mrd_collectives_free(c->cc);
    free(c->filter.names);
    free(c->filter.lines);
    free(c->parts);
    free(c->part_of);
    free(c->longest);
    free(c->obs);
    free(c->barrier);
    free(c->gaps);
    free(c);
}

/* Finds or adds the participant of a track. Returns false if there is no room. */
static bool
find_part(merge_check *c, mrd_track_id track, const mrd_align *table, uint32_t *ret_part)
{
    const mrd_track *t;

    if (track >= c->n_tracks)
        return false;
    if (c->part_of[track] == 0 || c->parts[c->part_of[track] - 1].table != table) {
        size_t i = 0;

        t = mrd_catalog_borrow_track(c->cat, track);
        while (i < c->n_parts &&
               (c->parts[i].process != t->process || c->parts[i].lnc != t->lnc_idx ||
                c->parts[i].device != t->device_idx || c->parts[i].table != table))
            i++;
        if (i == c->n_parts) {
            if (i == PARTS_MAX)
                return false;
            if (!MRD_VEC_ROOM(c->parts, i, c->cap_parts, 1)) {
                c->starved = true;
                return false;
            }
            c->parts[c->n_parts++] = (part){ .process = t->process,
                                             .lnc = t->lnc_idx,
                                             .device = t->device_idx,
                                             .table = table,
                                             .mapped = t->source == MRD_SRC_DEVICE };
        }
        c->part_of[track] = (uint32_t) i + 1;
    }
    *ret_part = c->part_of[track] - 1;
    return true;
}

/* Events of all cores of a process were lost. */
static void
see_gap(merge_check *c, const mrd_event *ev, int64_t raw_ns)
{
    mrd_proc_id process;

    if (ev->track >= c->n_tracks)
        return;
    process = mrd_catalog_borrow_track(c->cat, ev->track)->process;
    for (size_t i = 0; i < c->n_parts; i++) {
        if (c->parts[i].process != process)
            continue;
        if (!MRD_VEC_ROOM(c->gaps, c->n_gaps, c->cap_gaps, 1)) {
            c->starved = true;
            return;
        }
        c->gaps[c->n_gaps++] = (mrd_coll_gap){ (uint32_t) i, { raw_ns }, { raw_ns + ev->dur_ns } };
    }
}

void
mrd_merge_check_see(merge_check *c, const mrd_event *ev, int64_t raw_ns, mrd_dur_ns doubt,
                    const mrd_align *table)
{
    mrd_cc_kind kind;
    uint32_t who;
    mrd_cc cc;

    if (ev->kind == MRD_LOSS) {
        see_gap(c, ev, raw_ns);
        return;
    }
    if (ev->kind == MRD_SPAN && ev->track < c->n_tracks && ev->dur_ns > c->longest[ev->track])
        c->longest[ev->track] = ev->dur_ns;
    kind = mrd_collectives_see(c->cc, ev, &cc);
    if ((kind != MRD_CC_SYNC && kind != MRD_CC_BARRIER) || c->full || raw_ns < doubt ||
        raw_ns > MRD_COLL_TIME_MAX - doubt - ev->dur_ns || !find_part(c, ev->track, table, &who))
        return;
    if (c->n == MERGE_CHECK_MAX) {
        c->full = true;
        return;
    }
    if (!MRD_VEC_ROOM(c->barrier, c->n, c->cap_barrier, 1) ||
        !MRD_VEC_ROOM(c->obs, c->n, c->cap_obs, 1)) {
        c->starved = true;
        return;
    }
    mrd_collectives_remember(c->cc, ev, &cc);
    c->barrier[c->n] = kind == MRD_CC_BARRIER;
    c->obs[c->n++] = (mrd_coll_obs){ .process = who,
                                     .group = cc.group,
                                     .op = cc.op,
                                     .size = cc.size,
                                     .seq = -1,
                                     .members = cc.members,
                                     .begin = { raw_ns - doubt },
                                     .end = { raw_ns + ev->dur_ns + doubt } };
}

/* Barriers are all alike, so they are ignored if there are operations with more information. */
static void
keep_telling(merge_check *c)
{
    bool telling = false;
    size_t n = 0;

    for (size_t i = 0; i < c->n; i++)
        telling = telling || !c->barrier[i];
    for (size_t i = 0; i < c->n; i++) {
        if (!telling || !c->barrier[i])
            c->obs[n++] = c->obs[i];
    }
    c->n = n;
}

static bool
several_clocks(const merge_check *c)
{
    for (size_t i = 1; i < c->n_parts; i++) {
        if (c->parts[i].table != c->parts[0].table)
            return true;
    }
    return false;
}

/* ---- Trimming ---- */

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

/* Gets the end of the operation by the estimate. Returns false if there is no estimate. */
static bool
ended(const merge_check *c, const mrd_coll_obs *o, int64_t *ret_ns)
{
    mrd_align_cursor cursor = { 0 };
    mrd_sess_ns at;

    if (!mrd_align_map(c->parts[o->process].table, &cursor, o->end, &at, NULL))
        return false;
    *ret_ns = at.ns;
    return true;
}

/* Gets the time in which all participants of one group, obs[from, to), were being recorded. */
static void
common_time(const merge_check *c, size_t from, size_t to, int64_t *ret_first, int64_t *ret_last)
{
    *ret_first = INT64_MIN;
    *ret_last = INT64_MAX;
    for (size_t i = from, end; i < to; i = end) {
        int64_t first, last;

        for (end = i; end < to && c->obs[end].process == c->obs[i].process;)
            end++;
        if (!ended(c, &c->obs[i], &first) || !ended(c, &c->obs[end - 1], &last))
            continue;
        *ret_first = first > *ret_first ? first : *ret_first;
        *ret_last = last < *ret_last ? last : *ret_last;
    }
}

/*
 * Nodes begin and end a session at slightly different times, so one may have recorded an operation
 * that others did not. All participants leave at about the same time, so operations that ended
 * outside of the common time are ignored.
 */
static void
trim(merge_check *c)
{
    size_t n = 0;

    if (c->n > 0)
        qsort(c->obs, c->n, sizeof(*c->obs), obs_order);
    for (size_t i = 0, end; i < c->n; i = end) {
        int64_t first, last, at;

        for (end = i; end < c->n && c->obs[end].group == c->obs[i].group;)
            end++;
        common_time(c, i, end, &first, &last);
        for (size_t k = i; k < end; k++) {
            if (ended(c, &c->obs[k], &at) && at >= first - SLACK && at <= last + SLACK)
                c->obs[n++] = c->obs[k];
        }
    }
    c->n = n;
}

/* ---- Clocks of devices ---- */

/* The longest span of each core, over all of its tracks. */
static void
find_longest(merge_check *c)
{
    for (size_t i = 0; i < c->n_tracks; i++) {
        const mrd_track *t =
            c->longest[i] == 0 ? NULL : mrd_catalog_borrow_track(c->cat, (mrd_track_id) i);

        for (size_t k = 0; t != NULL && t->source == MRD_SRC_DEVICE && k < c->n_parts; k++) {
            part *p = &c->parts[k];

            if (p->process == t->process && p->lnc == t->lnc_idx && p->device == t->device_idx &&
                c->longest[i] > p->longest_ns)
                p->longest_ns = c->longest[i];
        }
    }
}

/* Widens times of a device's clock by the error of their mapping. */
static void
allow_for_mapping(merge_check *c)
{
    find_longest(c);
    for (size_t i = 0; i < c->n; i++) {
        mrd_coll_obs *o = &c->obs[i];
        const part *p = &c->parts[o->process];
        int64_t seconds = p->longest_ns / MRD_SEC + (p->longest_ns % MRD_SEC != 0), error;

        if (!p->mapped)
            continue;
        seconds = seconds < 1 ? 1 : seconds > LONGEST_S ? LONGEST_S : seconds;
        error = seconds * MRD_REPORT_MAPPING;
        o->begin = (mrd_local_ns){ o->begin.ns < error ? 0 : o->begin.ns - error };
        o->end = (mrd_local_ns){ o->end.ns > MRD_COLL_TIME_MAX - error ? MRD_COLL_TIME_MAX
                                                                       : o->end.ns + error };
    }
}

/* ---- The check ---- */

static mrd_err
match_seen(merge_check *c, mrd_coll_match **ret_match, mrd_why *why)
{
    mrd_coll_options options = { .text = mrd_collectives_text, .self = c->cc };
    mrd_err err =
        mrd_coll_match_new(c->obs, c->n, c->n_parts, c->gaps, c->n_gaps, &options, ret_match, why);

    if (err != MRD_CLOCK)
        return err;
    trim(c);
    return mrd_coll_match_new(c->obs, c->n, c->n_parts, c->gaps, c->n_gaps, &options, ret_match,
                              why);
}

bool
mrd_merge_check_run(merge_check *c, mrd_coll_check *ret_check, char message[MRD_WHY_MAX])
{
    mrd_coll_match *match = NULL;
    const mrd_align **tables = calloc(c->n_parts + 1, sizeof(*tables));
    mrd_why why = { 0 };
    mrd_err err;

    *message = '\0';
    keep_telling(c);
    if (tables == NULL || c->starved) {
        snprintf(message, MRD_WHY_MAX, "not checked for lack of memory");
        free(tables);
        return false;
    }
    if (!several_clocks(c)) {
        free(tables);
        return false;
    }
    for (size_t i = 0; i < c->n_parts; i++)
        tables[i] = c->parts[i].table;
    allow_for_mapping(c);
    if ((err = match_seen(c, &match, &why)) == MRD_OK) {
        mrd_coll_check_run(match, tables, ret_check);
        if (c->full)
            snprintf(message, MRD_WHY_MAX, "only the first %u are checked", MERGE_CHECK_MAX);
    } else if (err != MRD_EMPTY) {
        snprintf(message, MRD_WHY_MAX, "%.*s", MRD_WHY_MAX - 1, why.text);
    }
    mrd_coll_match_free(match);
    free(tables);
    return err == MRD_OK;
}
