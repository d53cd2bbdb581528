#include "aggregator/clock/clock_report.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/obj.h"
#include "base/sys/file.h"
#include "base/vec.h"
#include "timesync/clockplot.h"

/* ---- Reading a session's clocks ---- */

void
mrd_clock_report_fini(mrd_clock_report *report)
{
    for (size_t i = 0; i < report->n; i++) {
        free(report->v[i].id);
        mrd_node_clock_fini(&report->v[i].clock);
    }
    free(report->v);
    *report = (mrd_clock_report){ 0 };
}

static mrd_err
add_node(mrd_clock_report *report, const mrd_strlist *only, mrd_str id)
{
    for (size_t i = 0; i < report->n; i++) {
        if (mrd_str_is(id, report->v[i].id))
            return MRD_OK;
    }
    if (!mrd_instance_id_valid(id) || (only->n > 0 && !mrd_strlist_has(only, id)))
        return MRD_OK;
    if (!MRD_VEC_ROOM(report->v, report->n, report->cap, 1))
        return MRD_NOMEM;
    report->v[report->n] = (mrd_clock_node){ .id = mrd_str_dup(id) };
    return report->v[report->n].id == NULL ? MRD_NOMEM : (report->n++, MRD_OK);
}

/* Adds each node that has an entry in the session's directory `below`. The name of the entry is the
 * node's id followed by `suffix`. Tables of a node's further boots (<id>@<boot>.align) are
 * skipped. */
static mrd_err
list_nodes(mrd_clock_report *report, const mrd_strlist *only, const char *session,
           const char *below, const char *suffix, mrd_why *why)
{
    char *path = NULL;
    const struct dirent *entry;
    mrd_err err = MRD_OK;
    int sys = 0;
    DIR *dir;

    if (asprintf(&path, "%s/%s", session, below) < 0)
        return mrd_why_set(why, MRD_NOMEM, 0, "%s", session);
    if ((dir = opendir(path)) == NULL && errno != ENOENT && errno != ENOTDIR)
        err = mrd_why_set(why, MRD_IO, errno, "cannot read '%s'", path);
    while (dir != NULL && err == MRD_OK && (entry = mrd_dir_next(dir, &sys)) != NULL) {
        mrd_str name = mrd_str_of(entry->d_name);

        if (!mrd_str_ends(name, suffix))
            continue;
        name.len -= strlen(suffix);
        if ((err = add_node(report, only, name)) != MRD_OK)
            mrd_why_set(why, err, 0, "%s", path);
    }
    if (sys != 0)
        err = mrd_why_set(why, MRD_IO, sys, "cannot read all of '%s'", path);
    if (dir != NULL)
        closedir(dir);
    free(path);
    return err;
}

static int
node_order(const void *a, const void *b)
{
    return strcmp(((const mrd_clock_node *) a)->id, ((const mrd_clock_node *) b)->id);
}

/* Returns NOTFOUND if a requested node has no clock. Without this error, the report would look
 * complete although the node is missing. */
static mrd_err
has_all(const mrd_clock_report *report, const mrd_strlist *only, const char *session, mrd_why *why)
{
    for (size_t i = 0; i < only->n; i++) {
        bool found = false;

        for (size_t k = 0; k < report->n && !found; k++)
            found = strcmp(report->v[k].id, only->v[i]) == 0;
        if (!found)
            return mrd_why_set(why, MRD_NOTFOUND, 0,
                               "%s has no clock of node '%s': a session's directory has a journal "
                               "or %s in it, with a node in it",
                               session, only->v[i], MRD_CLOCKS_DIR);
    }
    return MRD_OK;
}

/* Loads the timeline that the merge of the whole session saved, or else computes it from the nodes
 * in the report. Then converts the nodes' clocks to the timeline. */
static mrd_err
link(mrd_clock_report *report, const char *session, bool all)
{
    mrd_node_clock **clocks = calloc(report->n + 1, sizeof(mrd_node_clock *));
    mrd_err err = MRD_OK;
    bool known = true;

    if (clocks == NULL)
        return MRD_NOMEM;
    mrd_timeline_load(&report->timeline, session);
    for (size_t i = 0; i < report->n; i++) {
        clocks[i] = &report->v[i].clock;
        known = known && mrd_timeline_knows(&report->timeline, clocks[i]);
    }
    if (!known || (all && report->timeline.n == 0))
        err = mrd_timeline_solve((const mrd_node_clock *const *) clocks, report->n,
                                 &report->timeline);
    for (size_t i = 0; i < report->n && err == MRD_OK; i++)
        mrd_timeline_apply(&report->timeline, clocks[i]);
    free(clocks);
    return err;
}

mrd_err
mrd_clock_report_read(const char *session, const mrd_strlist *only, mrd_clock_report *ret_report,
                      mrd_why *why)
{
    mrd_clock_report report = { 0 };
    mrd_err err = list_nodes(&report, only, session, MRD_CLOCKS_DIR, ".align", why);

    if (err == MRD_OK)
        err = list_nodes(&report, only, session, "journal", "", why);
    if (err == MRD_OK)
        err = has_all(&report, only, session, why);
    if (err == MRD_OK && report.n == 0)
        err =
            mrd_why_set(why, MRD_NOTFOUND, 0,
                        "%s has no clocks: a session's directory has a journal or %s in it, with a "
                        "node in it",
                        session, MRD_CLOCKS_DIR);
    if (report.n > 0)
        qsort(report.v, report.n, sizeof(*report.v), node_order);
    for (size_t i = 0; i < report.n && err == MRD_OK; i++)
        err = mrd_node_clock_load(session, report.v[i].id, &report.v[i].clock, why);
    if (err == MRD_OK && link(&report, session, only->n == 0) != MRD_OK)
        err = mrd_why_set(why, MRD_NOMEM, 0, "timeline of %s", session);
    if (err != MRD_OK)
        mrd_clock_report_fini(&report);
    else
        *ret_report = report;
    return err;
}

uint64_t
mrd_clock_report_violations(const mrd_clock_report *report)
{
    uint64_t n = mrd_timeline_violations(&report->timeline);

    for (size_t i = 0; i < report->n; i++) {
        for (size_t k = 0; k < report->v[i].clock.n; k++)
            n += report->v[i].clock.v[k].violations +
                 mrd_boot_clock_disagreements(&report->v[i].clock.v[k], &(size_t){ 0 });
    }
    return n;
}

/* ---- The report as a table ---- */

static void
text_name(const mrd_clock_node *node, size_t i, mrd_buf *to)
{
    mrd_buf_text(to, node->id);
    if (node->clock.n > 1)
        mrd_buf_fmt(to, " boot %zu", i + 1);
}

/* Appends how well the table of the node's clock agrees with readings of an absolute clock. The
 * node made one reading of each pair, the aggregator the other. */
static void
text_absolute(const mrd_clock_node *node, size_t i, mrd_buf *to)
{
    for (unsigned k = 0; k < MRD_ABSOLUTES; k++) {
        const mrd_absolute_use *use = &node->clock.v[i].absolute[k];
        char by[MRD_DUR_TEXT];

        if (use->pairs == 0)
            continue;
        text_name(node, i, to);
        mrd_buf_fmt(to, ": %zu readings of the %s at both ends", use->pairs,
                    mrd_absolute_text((mrd_absolute) k));
        if (use->contradicting == 0)
            mrd_buf_text(to, " agree with the bound and are in it\n");
        else
            mrd_buf_fmt(to,
                        ", %zu of which exclude what the packets say (by %s at most): one of both "
                        "is wrong, they are NOT USED\n",
                        use->contradicting, mrd_dur_text(use->worst, by));
    }
}

static void
text_checks(const mrd_clock_node *node, size_t i, mrd_buf *to)
{
    const mrd_boot_clock *clock = &node->clock.v[i];
    char most[MRD_DUR_TEXT], widest[MRD_DUR_TEXT] = "unknown";

    text_name(node, i, to);
    if (clock->align == NULL) {
        mrd_buf_fmt(to, ": unaligned: %s\n", clock->why.text);
    } else {
        if (mrd_align_widest(clock->align) >= 0)
            (void) mrd_dur_text(mrd_align_widest(clock->align), widest);
        mrd_buf_fmt(to,
                    ": bound at most %s; %zu probes; %" PRIu64 " packets held out, %" PRIu64
                    " of them reversed in time by the estimate (at most %s), %" PRIu64
                    " violations of the bound%s\n",
                    widest, clock->n_probes, clock->checked, clock->reversed,
                    mrd_dur_text(clock->reversed_max, most), clock->violations,
                    clock->violations > 0 ? ": DO NOT TRUST THIS CLOCK" : "");
    }
    text_absolute(node, i, to);
    if (clock->n_readings > 0) {
        text_name(node, i, to);
        mrd_buf_text(to, ": ");
        mrd_host_reading_text(&clock->readings[clock->n_readings - 1], to);
        mrd_buf_text(to, "\n");
    }
}

void
mrd_clock_report_text(const mrd_clock_report *report, mrd_buf *to)
{
    const mrd_align **tables;
    size_t n = 0, all = 0;

    for (size_t i = 0; i < report->n; i++)
        all += report->v[i].clock.n;
    if ((tables = calloc(all + 1, sizeof(const mrd_align *))) == NULL) {
        to->err = MRD_NOMEM;
        return;
    }
    for (size_t i = 0; i < report->n; i++) {
        for (size_t k = 0; k < report->v[i].clock.n; k++) {
            if (report->v[i].clock.v[k].align != NULL)
                tables[n++] = report->v[i].clock.v[k].align;
        }
    }
    mrd_clock_text(tables, n, to);
    for (size_t i = 0; i < report->n; i++) {
        for (size_t k = 0; k < report->v[i].clock.n; k++)
            text_checks(&report->v[i], k, to);
    }
    for (size_t i = 1; i < report->timeline.n; i++) {
        mrd_timeline_text(&report->timeline, i, to);
        mrd_buf_text(to, "\n");
    }
    free(tables);
}

/* ---- The report as JSON ---- */

static mrd_json *
json_segment(const mrd_align_summary *summary)
{
    mrd_json *json = mrd_json_new_object();

    mrd_json_set(json, "epoch", mrd_json_new_int(summary->epoch));
    mrd_json_set(json, "began_by", mrd_json_new_str(mrd_epoch_cause_text(summary->cause)));
    mrd_json_set(json, "first_local_ns", mrd_json_new_int(summary->first.ns));
    mrd_json_set(json, "last_local_ns", mrd_json_new_int(summary->last.ns));
    mrd_json_set(json, "estimate_ns", mrd_json_new_int(summary->offset));
    mrd_json_set(json, "rate_ppb", mrd_json_new_num(summary->rate));
    mrd_json_set(
        json, "bound_ns",
        mrd_json_new_int(summary->width_median < 0 ? -1 : (summary->width_median + 1) / 2));
    mrd_json_set(json, "bound_p99_ns",
                 mrd_json_new_int(summary->width_p99 < 0 ? -1 : (summary->width_p99 + 1) / 2));
    mrd_json_set(json, "noise_ns", mrd_json_new_int(summary->noise_median));
    mrd_json_set(json, "stamps", mrd_json_new_str(mrd_stamp_source_text(summary->source)));
    mrd_json_set(json, "quality", mrd_json_new_str(mrd_align_quality_text(summary->quality)));
    mrd_json_set(json, "bins", mrd_json_new_int((int64_t) summary->bins));
    return json;
}

static mrd_json *
json_clock(const mrd_clock_node *node, size_t at)
{
    const mrd_boot_clock *clock = &node->clock.v[at];
    size_t pairs, odd = mrd_boot_clock_disagreements(clock, &pairs);
    mrd_json *json = mrd_json_new_object(), *segments = mrd_json_new_array();
    mrd_buf said = { 0 };
    mrd_align_summary summary;

    mrd_json_set(json, "instance_id", mrd_json_new_str(node->id));
    mrd_json_set(json, "boot", mrd_json_new_int((int64_t) at + 1));
    for (size_t i = 0; clock->align != NULL && i < mrd_align_segment_count(clock->align); i++) {
        if (mrd_align_summarise(clock->align, i, &summary))
            mrd_json_append(segments, json_segment(&summary));
    }
    if (clock->align == NULL)
        mrd_buf_fmt(&said, "unaligned: %s", clock->why.text);
    else
        mrd_clock_assumptions(clock->align, &said);
    mrd_json_set(json, "segments", segments);
    mrd_json_set(json, "bound_ns",
                 mrd_json_new_int(clock->align == NULL ? -1 : mrd_align_widest(clock->align)));
    mrd_json_set(json, "probes", mrd_json_new_int((int64_t) clock->n_probes));
    mrd_json_set(json, "checked", mrd_json_new_int((int64_t) clock->checked));
    mrd_json_set(json, "reversed", mrd_json_new_int((int64_t) clock->reversed));
    mrd_json_set(json, "reversed_max_ns", mrd_json_new_int(clock->reversed_max));
    mrd_json_set(json, "violations", mrd_json_new_int((int64_t) clock->violations));
    mrd_json_set(json, "absolute_checked", mrd_json_new_int((int64_t) pairs));
    mrd_json_set(json, "absolute_violations", mrd_json_new_int((int64_t) odd));
    mrd_json_set(json, "assumptions", mrd_json_new_str(mrd_buf_cstr(&said)));
    if (clock->n_readings > 0)
        mrd_json_set(json, "host", mrd_host_reading_json(&clock->readings[clock->n_readings - 1]));
    mrd_buf_fini(&said);
    return json;
}

mrd_json *
mrd_clock_report_json(const mrd_clock_report *report)
{
    mrd_json *doc = mrd_json_new_object(), *list = mrd_json_new_array();
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < report->n && err == MRD_OK; i++) {
        for (size_t k = 0; k < report->v[i].clock.n && err == MRD_OK; k++)
            err = mrd_json_append(list, json_clock(&report->v[i], k));
    }
    mrd_json_set(doc, "violations",
                 mrd_json_new_int((int64_t) mrd_clock_report_violations(report)));
    mrd_json_set(doc, "timeline", mrd_timeline_json(&report->timeline));
    if (mrd_json_set(doc, "nodes", list) != MRD_OK || err != MRD_OK) {
        mrd_json_free(doc);
        return NULL;
    }
    return doc;
}
