#include "aggregator/merge/merge_clocks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "aggregator/clock/clock_report.h"
#include "base/num.h"
#include "base/obj.h"
#include "base/sys/out.h"

/* Finds readings of the node's RAW clock and wall clock at the same moment: the first reading of
 * this boot, or else the node's latest one. Returns false if the values are impossible. */
static bool
wall_reading(const merge_node *node, const mrd_boot_clock *clock, int64_t *ret_local,
             int64_t *ret_wall)
{
    *ret_local = clock->n_readings > 0 ? clock->readings[0].raw.ns : node->local.ns;
    *ret_wall = clock->n_readings > 0 ? clock->readings[0].realtime.ns : node->wall.ns;
    return mrd_time_sane(*ret_local) && mrd_time_sane(*ret_wall);
}

/* Adds a note to the catalog about impossible clock readings of a node, and one about a clock
 * without usable readings. */
static void
note_absurd(const merge_node *node, const mrd_boot_clock *clock, mrd_catalog *cat)
{
    int64_t local, wall;

    if (clock->absurd > 0)
        mrd_catalog_note(cat,
                         "clock of %s: %" PRIu64
                         " of its readings cannot be times of any clock: they are not used",
                         node->instance_id, clock->absurd);
    if (clock->align == NULL && !wall_reading(node, clock, &local, &wall))
        mrd_catalog_note(cat,
                         "clock of %s: unknown: what the node says of it cannot be times of any "
                         "clock; its events are shown in its own local time",
                         node->instance_id);
}

mrd_align *
mrd_merge_clocks_wall(const merge_node *node, const mrd_boot_clock *clock)
{
    int64_t local, wall;

    (void) wall_reading(node, clock, &local, &wall);
    return mrd_align_wall(node->instance_id, clock->boot, (mrd_local_ns){ local },
                          (mrd_wall_ns){ wall });
}

/* Adds an entry to `clock` for each boot that has events in the journal, but no probes. */
static mrd_err
add_boots(mrd_node_clock *clock, const mrd_journal_index *index)
{
    for (size_t i = 0; i < index->n; i++) {
        if (index->entries[i].frame.type == MRD_FRAME_BATCH &&
            mrd_node_clock_of(clock, index->entries[i].frame.boot) == NULL)
            return MRD_NOMEM;
    }
    return MRD_OK;
}

/* Writes the clock table of boot `i` into the session's directory, for `meridian clocks` and other
 * readers. Errors are ignored, because the merge has the table in memory. */
static void
save(const merge_input *in, const merge_node *node, const mrd_node_clock *clock, size_t i)
{
    char *dir = NULL, *path = mrd_node_clock_path(in->dir, node->instance_id, clock, i);

    if (path != NULL && asprintf(&dir, "%s/" MRD_CLOCKS_DIR, in->dir) >= 0) {
        (void) mrd_make_dirs(dir, NULL);
        (void) mrd_align_save(clock->v[i].align, path, NULL);
        free(dir);
    }
    free(path);
}

mrd_err
mrd_merge_clocks_solve(const merge_input *in, const merge_node *node,
                       const mrd_journal_index *index, mrd_catalog *cat, mrd_node_clock *ret_clock,
                       mrd_why *why)
{
    mrd_node_clock clock = { 0 };
    mrd_err err = MRD_OK;

    if (!node->same_clock)
        err = mrd_node_clock_solve(node->instance_id, index, &clock, why);
    if (err == MRD_OK && (add_boots(&clock, index) != MRD_OK ||
                          (clock.n == 0 && mrd_node_clock_of(&clock, 0) == NULL)))
        err = mrd_why_set(why, MRD_NOMEM, 0, "clock of %s", node->instance_id);
    for (size_t i = 0; i < clock.n && err == MRD_OK; i++) {
        mrd_boot_clock *boot_clock = &clock.v[i];

        if (!node->same_clock)
            note_absurd(node, boot_clock, cat);
        if (node->same_clock)
            boot_clock->align =
                mrd_align_constant(node->instance_id, boot_clock->boot, in->reference_ns, 0, 0);
        else if (boot_clock->align == NULL)
            boot_clock->align = mrd_merge_clocks_wall(node, boot_clock);
        if (boot_clock->align == NULL)
            err = mrd_why_set(why, MRD_NOMEM, 0, "clock of %s", node->instance_id);
        else
            save(in, node, &clock, i);
        if (boot_clock->why.text[0] != '\0')
            mrd_catalog_note(cat, "%s", boot_clock->why.text);
    }
    if (err != MRD_OK)
        mrd_node_clock_fini(&clock);
    else
        *ret_clock = clock;
    return err;
}

/* ---- The session's timeline ---- */

static bool
knows_all(const mrd_timeline *timeline, mrd_node_clock *const *clocks, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!mrd_timeline_knows(timeline, clocks[i]))
            return false;
    }
    return true;
}

/* Computes the timeline of the whole session, for a merge of only some nodes. The clocks of all
 * other nodes are read for this. */
static mrd_err
timeline_of_session(const merge_input *in, mrd_node_clock *const *clocks, size_t n,
                    mrd_timeline *ret, mrd_why *why)
{
    mrd_clock_report all = { 0 };
    mrd_strlist everybody = { 0 };
    mrd_err err;

    mrd_timeline_load(ret, in->dir);
    if (in->one_incarnation || (ret->n > 0 && knows_all(ret, clocks, n)))
        return MRD_OK;
    *ret = (mrd_timeline){ .n = 0 };
    if ((err = mrd_clock_report_read(in->dir, &everybody, &all, why)) == MRD_OK)
        *ret = all.timeline;
    mrd_clock_report_fini(&all);
    /* MRD_NOTFOUND means that nothing was recorded, so no node has a clock */
    return err == MRD_NOTFOUND ? MRD_OK : err;
}

mrd_err
mrd_merge_clocks_link(const merge_input *in, bool all, mrd_node_clock *const *clocks, size_t n,
                      mrd_catalog *cat, mrd_timeline *ret_timeline, mrd_why *why)
{
    mrd_err err = all ? mrd_timeline_solve((const mrd_node_clock *const *) clocks, n, ret_timeline)
                      : timeline_of_session(in, clocks, n, ret_timeline, why);
    mrd_buf text = { 0 };
    char key[32];

    if (err != MRD_OK)
        return mrd_why_set(why, err, 0, "timeline of session %s", in->id);
    for (size_t i = 0; i < n; i++)
        mrd_timeline_apply(ret_timeline, clocks[i]);
    for (size_t i = 1; i < ret_timeline->n; i++) {
        mrd_buf_reset(&text);
        mrd_timeline_text(ret_timeline, i, &text);
        snprintf(key, sizeof(key), "clock.link.%zu", i + 1);
        mrd_catalog_set(cat, key, mrd_buf_cstr(&text));
        mrd_catalog_note(cat, "%s", mrd_buf_cstr(&text));
    }
    mrd_buf_fini(&text);
    return MRD_OK;
}

/* ---- Rows of clocks in the catalog ---- */

static void
row_name(const merge_node *node, const mrd_node_clock *clock, size_t i, size_t segment,
         const mrd_align_summary *sum, char *to, size_t size)
{
    size_t len;

    snprintf(to, size, "%s RAW", node->instance_id);
    if (clock->n > 1) {
        len = strlen(to);
        snprintf(to + len, size - len, " boot %zu", i + 1);
    }
    if (mrd_align_segment_count(clock->v[i].align) > 1) {
        len = strlen(to);
        snprintf(to + len, size - len, " epoch %zu (%s)", segment + 1,
                 mrd_epoch_cause_text(sum->cause));
    }
}

static uint32_t
add_row(const merge_node *node, const mrd_node_clock *clock, size_t i, size_t segment,
        mrd_catalog *cat)
{
    const mrd_boot_clock *boot_clock = &clock->v[i];
    mrd_clock_info info = { .bound_ns = -1, .noise_ns = -1 };
    mrd_align_summary sum = { 0 };
    char name[MRD_NODE_ID_MAX + 64];
    size_t pairs;

    (void) mrd_align_summarise(boot_clock->align, segment, &sum);
    row_name(node, clock, i, segment, &sum, name, sizeof(name));
    info.name = mrd_catalog_intern(cat, name);
    info.node = mrd_catalog_intern(cat, node->instance_id);
    info.quality = mrd_catalog_intern(cat, mrd_align_quality_text(sum.quality));
    info.method = mrd_catalog_intern(cat, node->same_clock ? "aggregator's own clock"
                                                           : mrd_stamp_source_text(sum.source));
    info.epochs = (uint32_t) mrd_align_segment_count(boot_clock->align);
    info.estimate_ns = sum.offset;
    info.bound_ns = mrd_align_segment_widest(boot_clock->align, segment);
    info.noise_ns = sum.quality == MRD_ALIGN_UNALIGNED ? -1 : sum.noise_median;
    info.violations = boot_clock->violations + mrd_boot_clock_disagreements(boot_clock, &pairs);
    return mrd_catalog_add_clock(cat, &info);
}

/* Adds a row for a clock that is not aligned. The row has no error bound, because times of this
 * clock cannot be compared with times of other nodes. */
static uint32_t
add_unaligned(const merge_node *node, const mrd_node_clock *clock, size_t i, merge_times times,
              mrd_catalog *cat)
{
    mrd_clock_info info = { .bound_ns = -1, .noise_ns = -1, .epochs = 1 };
    char name[MRD_NODE_ID_MAX + 32];

    snprintf(name, sizeof(name), clock->n > 1 ? "%s %s boot %zu" : "%s %s", node->instance_id,
             times == MERGE_RAW ? "RAW" : "wall clock", i + 1);
    info.name = mrd_catalog_intern(cat, name);
    info.node = mrd_catalog_intern(cat, node->instance_id);
    info.quality = mrd_catalog_intern(cat, "unaligned");
    info.method = mrd_catalog_intern(cat, times == MERGE_RAW ? "raw" : "wall clock");
    info.violations = clock->v[i].violations;
    return mrd_catalog_add_clock(cat, &info);
}

uint32_t
mrd_merge_clocks_describe(const merge_node *node, const mrd_node_clock *clock, size_t i,
                          merge_times times, mrd_catalog *cat)
{
    const mrd_boot_clock *boot_clock = &clock->v[i];
    uint32_t first;

    if (boot_clock->violations > 0)
        mrd_catalog_note(cat,
                         "clock of %s: %" PRIu64 " held-out packets contradict the bound, which "
                         "must not happen: do not trust it",
                         node->instance_id, boot_clock->violations);
    for (unsigned k = 0; k < MRD_ABSOLUTES; k++) {
        const mrd_absolute_use *use = &boot_clock->absolute[k];

        if (use->contradicting > 0)
            mrd_catalog_note(cat,
                             "clock of %s: %zu of %zu readings of the %s at both ends exclude what "
                             "the packets say: one of both is wrong, the readings are not used",
                             node->instance_id, use->contradicting, use->pairs,
                             mrd_absolute_text((mrd_absolute) k));
    }
    if (times != MERGE_ALIGNED)
        return add_unaligned(node, clock, i, times, cat);
    first = add_row(node, clock, i, 0, cat);
    for (size_t k = 1; k < mrd_align_segment_count(boot_clock->align); k++) {
        uint32_t row = add_row(node, clock, i, k, cat);

        /* The segment before a suspend (index 0) may have no bound. Then the next segment describes
         * the clock better. */
        if (k == 1 && mrd_align_segment_widest(boot_clock->align, 0) < 0)
            first = row;
    }
    return first;
}
