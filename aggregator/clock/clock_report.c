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

/* ---- Reading ---- */

void
mrd_clock_report_fini(mrd_clock_report *r)
{
    for (size_t i = 0; i < r->n; i++) {
        free(r->v[i].id);
        mrd_node_clock_fini(&r->v[i].clock);
    }
    free(r->v);
    *r = (mrd_clock_report){ 0 };
}

static mrd_err
add_node(mrd_clock_report *r, const mrd_strlist *only, mrd_str id)
{
    for (size_t i = 0; i < r->n; i++) {
        if (mrd_str_is(id, r->v[i].id))
            return MRD_OK;
    }
    if (!mrd_instance_id_valid(id) || (only->n > 0 && !mrd_strlist_has(only, id)))
        return MRD_OK;
    if (!MRD_VEC_ROOM(r->v, r->n, r->cap, 1))
        return MRD_NOMEM;
    r->v[r->n] = (mrd_clock_node){ .id = mrd_str_dup(id) };
    return r->v[r->n].id == NULL ? MRD_NOMEM : (r->n++, MRD_OK);
}

/* Lists the names in a directory below the session that end with `suffix`, without it. A table of a
 * further boot ("node@boot.align") is not a node. */
static mrd_err
list_nodes(mrd_clock_report *r, const mrd_strlist *only, const char *session, const char *below,
           const char *suffix, mrd_why *why)
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
        if ((err = add_node(r, only, name)) != MRD_OK)
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

/* Fails if a requested node has no clock. Without this the report would look complete. */
static mrd_err
has_all(const mrd_clock_report *r, const mrd_strlist *only, const char *session, mrd_why *why)
{
    for (size_t i = 0; i < only->n; i++) {
        bool found = false;

        for (size_t k = 0; k < r->n && !found; k++)
            found = strcmp(r->v[k].id, only->v[i]) == 0;
        if (!found)
            return mrd_why_set(why, MRD_NOTFOUND, 0,
                               "%s has no clock of node '%s': a session's directory has a journal "
                               "or %s in it, with a node in it",
                               session, only->v[i], MRD_CLOCKS_DIR);
    }
    return MRD_OK;
}

/* Gets the links that the merge of the whole session stored, or computes them from the nodes that
 * were read. */
static mrd_err
link(mrd_clock_report *r, const char *session, bool all)
{
    mrd_node_clock **clocks = calloc(r->n + 1, sizeof(mrd_node_clock *));
    mrd_err err = MRD_OK;
    bool known = true;

    if (clocks == NULL)
        return MRD_NOMEM;
    mrd_timeline_load(&r->timeline, session);
    for (size_t i = 0; i < r->n; i++) {
        clocks[i] = &r->v[i].clock;
        known = known && mrd_timeline_knows(&r->timeline, clocks[i]);
    }
    if (!known || (all && r->timeline.n == 0))
        err = mrd_timeline_solve((const mrd_node_clock *const *) clocks, r->n, &r->timeline);
    for (size_t i = 0; i < r->n && err == MRD_OK; i++)
        mrd_timeline_apply(&r->timeline, clocks[i]);
    free(clocks);
    return err;
}

mrd_err
mrd_clock_report_read(const char *session, const mrd_strlist *only, mrd_clock_report *ret_report,
                      mrd_why *why)
{
    mrd_clock_report r = { 0 };
    mrd_err err = list_nodes(&r, only, session, MRD_CLOCKS_DIR, ".align", why);

    if (err == MRD_OK)
        err = list_nodes(&r, only, session, "journal", "", why);
    if (err == MRD_OK)
        err = has_all(&r, only, session, why);
    if (err == MRD_OK && r.n == 0)
        err =
            mrd_why_set(why, MRD_NOTFOUND, 0,
                        "%s has no clocks: a session's directory has a journal or %s in it, with a "
                        "node in it",
                        session, MRD_CLOCKS_DIR);
    if (r.n > 0)
        qsort(r.v, r.n, sizeof(*r.v), node_order);
    for (size_t i = 0; i < r.n && err == MRD_OK; i++)
        err = mrd_node_clock_load(session, r.v[i].id, &r.v[i].clock, why);
    if (err == MRD_OK && link(&r, session, only->n == 0) != MRD_OK)
        err = mrd_why_set(why, MRD_NOMEM, 0, "timeline of %s", session);
    if (err != MRD_OK)
        mrd_clock_report_fini(&r);
    else
        *ret_report = r;
    return err;
}

uint64_t
mrd_clock_report_violations(const mrd_clock_report *r)
{
    uint64_t n = mrd_timeline_violations(&r->timeline);

    for (size_t i = 0; i < r->n; i++) {
        for (size_t k = 0; k < r->v[i].clock.n; k++)
            n += r->v[i].clock.v[k].violations +
                 mrd_boot_clock_disagreements(&r->v[i].clock.v[k], &(size_t){ 0 });
    }
    return n;
}

/* ---- Table ---- */

static void
text_name(const mrd_clock_node *n, size_t i, mrd_buf *to)
{
    mrd_buf_text(to, n->id);
    if (n->clock.n > 1)
        mrd_buf_fmt(to, " boot %zu", i + 1);
}

/* Appends the comparison with absolute time at both ends. */
static void
text_absolute(const mrd_clock_node *n, size_t i, mrd_buf *to)
{
    for (unsigned k = 0; k < MRD_ABSOLUTES; k++) {
        const mrd_absolute_use *u = &n->clock.v[i].absolute[k];
        char by[MRD_DUR_TEXT];

        if (u->pairs == 0)
            continue;
        text_name(n, i, to);
        mrd_buf_fmt(to, ": %zu readings of the %s at both ends", u->pairs,
                    mrd_absolute_text((mrd_absolute) k));
        if (u->contradicting == 0)
            mrd_buf_text(to, " agree with the bound and are in it\n");
        else
            mrd_buf_fmt(to,
                        ", %zu of which exclude what the packets say (by %s at most): one of both "
                        "is wrong, they are NOT USED\n",
                        u->contradicting, mrd_dur_text(u->worst, by));
    }
}

static void
text_checks(const mrd_clock_node *n, size_t i, mrd_buf *to)
{
    const mrd_boot_clock *c = &n->clock.v[i];
    char most[MRD_DUR_TEXT], widest[MRD_DUR_TEXT] = "unknown";

    text_name(n, i, to);
    if (c->align == NULL) {
        mrd_buf_fmt(to, ": unaligned: %s\n", c->why.text);
    } else {
        if (mrd_align_widest(c->align) >= 0)
            (void) mrd_dur_text(mrd_align_widest(c->align), widest);
        mrd_buf_fmt(to,
                    ": bound at most %s; %zu probes; %" PRIu64 " packets held out, %" PRIu64
                    " of them reversed in time by the estimate (at most %s), %" PRIu64
                    " violations of the bound%s\n",
                    widest, c->n_probes, c->checked, c->reversed,
                    mrd_dur_text(c->reversed_max, most), c->violations,
                    c->violations > 0 ? ": DO NOT TRUST THIS CLOCK" : "");
    }
    text_absolute(n, i, to);
    if (c->n_readings > 0) {
        text_name(n, i, to);
        mrd_buf_text(to, ": ");
        mrd_host_reading_text(&c->readings[c->n_readings - 1], to);
        mrd_buf_text(to, "\n");
    }
}

void
mrd_clock_report_text(const mrd_clock_report *r, mrd_buf *to)
{
    const mrd_align **tables;
    size_t n = 0, all = 0;

    for (size_t i = 0; i < r->n; i++)
        all += r->v[i].clock.n;
    if ((tables = calloc(all + 1, sizeof(const mrd_align *))) == NULL) {
        to->err = MRD_NOMEM;
        return;
    }
    for (size_t i = 0; i < r->n; i++) {
        for (size_t k = 0; k < r->v[i].clock.n; k++) {
            if (r->v[i].clock.v[k].align != NULL)
                tables[n++] = r->v[i].clock.v[k].align;
        }
    }
    mrd_clock_text(tables, n, to);
    for (size_t i = 0; i < r->n; i++) {
        for (size_t k = 0; k < r->v[i].clock.n; k++)
            text_checks(&r->v[i], k, to);
    }
    for (size_t i = 1; i < r->timeline.n; i++) {
        mrd_timeline_text(&r->timeline, i, to);
        mrd_buf_text(to, "\n");
    }
    free(tables);
}

/* ---- JSON ---- */

static mrd_json *
json_segment(const mrd_align_summary *s)
{
    mrd_json *o = mrd_json_new_object();

    mrd_json_set(o, "epoch", mrd_json_new_int(s->epoch));
    mrd_json_set(o, "began_by", mrd_json_new_str(mrd_epoch_cause_text(s->cause)));
    mrd_json_set(o, "first_local_ns", mrd_json_new_int(s->first.ns));
    mrd_json_set(o, "last_local_ns", mrd_json_new_int(s->last.ns));
    mrd_json_set(o, "estimate_ns", mrd_json_new_int(s->offset));
    mrd_json_set(o, "rate_ppb", mrd_json_new_num(s->rate));
    mrd_json_set(o, "bound_ns",
                 mrd_json_new_int(s->width_median < 0 ? -1 : (s->width_median + 1) / 2));
    mrd_json_set(o, "bound_p99_ns",
                 mrd_json_new_int(s->width_p99 < 0 ? -1 : (s->width_p99 + 1) / 2));
    mrd_json_set(o, "noise_ns", mrd_json_new_int(s->noise_median));
    mrd_json_set(o, "stamps", mrd_json_new_str(mrd_stamp_source_text(s->source)));
    mrd_json_set(o, "quality", mrd_json_new_str(mrd_align_quality_text(s->quality)));
    mrd_json_set(o, "bins", mrd_json_new_int((int64_t) s->bins));
    return o;
}

static mrd_json *
json_clock(const mrd_clock_node *n, size_t at)
{
    const mrd_boot_clock *c = &n->clock.v[at];
    size_t pairs, odd = mrd_boot_clock_disagreements(c, &pairs);
    mrd_json *o = mrd_json_new_object(), *segments = mrd_json_new_array();
    mrd_buf said = { 0 };
    mrd_align_summary s;

    mrd_json_set(o, "instance_id", mrd_json_new_str(n->id));
    mrd_json_set(o, "boot", mrd_json_new_int((int64_t) at + 1));
    for (size_t i = 0; c->align != NULL && i < mrd_align_segment_count(c->align); i++) {
        if (mrd_align_summarise(c->align, i, &s))
            mrd_json_append(segments, json_segment(&s));
    }
    if (c->align == NULL)
        mrd_buf_fmt(&said, "unaligned: %s", c->why.text);
    else
        mrd_clock_assumptions(c->align, &said);
    mrd_json_set(o, "segments", segments);
    mrd_json_set(o, "bound_ns",
                 mrd_json_new_int(c->align == NULL ? -1 : mrd_align_widest(c->align)));
    mrd_json_set(o, "probes", mrd_json_new_int((int64_t) c->n_probes));
    mrd_json_set(o, "checked", mrd_json_new_int((int64_t) c->checked));
    mrd_json_set(o, "reversed", mrd_json_new_int((int64_t) c->reversed));
    mrd_json_set(o, "reversed_max_ns", mrd_json_new_int(c->reversed_max));
    mrd_json_set(o, "violations", mrd_json_new_int((int64_t) c->violations));
    mrd_json_set(o, "absolute_checked", mrd_json_new_int((int64_t) pairs));
    mrd_json_set(o, "absolute_violations", mrd_json_new_int((int64_t) odd));
    mrd_json_set(o, "assumptions", mrd_json_new_str(mrd_buf_cstr(&said)));
    if (c->n_readings > 0)
        mrd_json_set(o, "host", mrd_host_reading_json(&c->readings[c->n_readings - 1]));
    mrd_buf_fini(&said);
    return o;
}

mrd_json *
mrd_clock_report_json(const mrd_clock_report *r)
{
    mrd_json *doc = mrd_json_new_object(), *list = mrd_json_new_array();
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < r->n && err == MRD_OK; i++) {
        for (size_t k = 0; k < r->v[i].clock.n && err == MRD_OK; k++)
            err = mrd_json_append(list, json_clock(&r->v[i], k));
    }
    mrd_json_set(doc, "violations", mrd_json_new_int((int64_t) mrd_clock_report_violations(r)));
    mrd_json_set(doc, "timeline", mrd_timeline_json(&r->timeline));
    if (mrd_json_set(doc, "nodes", list) != MRD_OK || err != MRD_OK) {
        mrd_json_free(doc);
        return NULL;
    }
    return doc;
}
