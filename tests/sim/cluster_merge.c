/* Checks merged sessions of real agents. Their files must be complete, even after a crash during a
 * merge or a power failure after it. The profile must have each event once, at its true time within
 * the bound, and the losses. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "aggregator/merge/merge.h"
#include "base/hash.h"
#include "base/obj.h"
#include "base/sys/file.h"
#include "base/sys/out.h"
#include "tests/sim/cluster_node.h"

#define PROFILE "/sim/server/store/sessions/%s/profile"

/* ---- Files ---- */

static bool
is_listed(const char *sums, const char *name)
{
    char line[300];

    snprintf(line, sizeof(line), "  %s\n", name);
    return strcmp(name, "SHA256SUMS") == 0 || strstr(sums, line) != NULL;
}

static void
check_sums(world *w, const mrd_session *s, const char *dir, char *sums)
{
    char *rest = NULL;

    for (const char *line = strtok_r(sums, "\n", &rest); line != NULL && w->r->ok;
         line = strtok_r(NULL, "\n", &rest)) {
        char path[700], hex[MRD_SHA256_HEX] = "";

        if (strlen(line) < 67)
            continue;
        snprintf(path, sizeof(path), "%s/%s", dir, line + 66);
        (void) mrd_sha256_file(path, hex, NULL, NULL);
        if (strncmp(hex, line, 64) != 0)
            sim_fail(w, "session %s is merged, and '%s' of its profile is %s", s->text, line + 66,
                     hex[0] == '\0' ? "not there" : "not what was written");
    }
}

/* A session marked as merged must have all files of the profile, complete, and no partial files. */
static void
check_profile(world *w, const mrd_session *s, const char *dir, const char *where)
{
    mrd_buf sums = { 0 };
    const struct dirent *e;
    char path[300];
    DIR *d;

    snprintf(path, sizeof(path), "%s/SHA256SUMS", dir);
    if (mrd_file_read(path, 1 << 16, &sums, NULL) != MRD_OK || sums.len < 67) {
        sim_fail(w, "session %s is merged and has no sums of its profile%s", s->text, where);
        mrd_buf_fini(&sums);
        return;
    }
    d = opendir(dir);
    while (d != NULL && (e = readdir(d)) != NULL) {
        if (e->d_name[0] != '.' && !is_listed(mrd_buf_cstr(&sums), e->d_name))
            sim_fail(w, "session %s: '%s' is left in its profile%s", s->text, e->d_name, where);
    }
    if (d != NULL)
        closedir(d);
    (void) mrd_buf_cstr(&sums);
    check_sums(w, s, dir, (char *) sums.p);
    mrd_buf_fini(&sums);
}

void
merge_saved(world *w, const mrd_session *s)
{
    disk_session *d = disk_make(w, s->id);
    char path[200];
    sim_disk *copy;

    if (s->deleted || s->job.state != MRD_MERGE_DONE || d->merged)
        return;
    d->merged = true; /* once is enough */
    snprintf(path, sizeof(path), "store/sessions/%s/profile", s->text);
    copy = sim_disk_durable_copy(store_disk(w), path, NULL, "medium");
    check_profile(w, s, "/sim/medium", " on the medium");
    sim_disk_free(copy);
}

/* ---- Events ---- */

static struct {
    world *w;
    const mrd_session *s;
    const mrd_catalog *cat;
    uint8_t *seen[64]; /* for each node and each of its events: how often the profile contains it */
    uint64_t spans[64], lost[64];
} of;

/* Returns the node of a workload's event or of a loss of any kind. */
static sim_node *
node_of(const mrd_event *ev, unsigned *ret_index)
{
    const mrd_track *t = mrd_catalog_borrow_track(of.cat, ev->track);
    const mrd_process *p = mrd_catalog_borrow_process(of.cat, t->process);
    mrd_str id = mrd_catalog_text(of.cat, p->instance_id);

    if ((t->source != MRD_SRC_ANNOTATION && ev->kind != MRD_LOSS) || !mrd_str_starts(id, "i-"))
        return NULL;
    *ret_index = (unsigned) strtoul(id.p + 2, NULL, 10);
    return of.w->agents[*ret_index].node;
}

/* The event's time in the profile must be the true time, within the stated bound. */
static void
check_time(const sim_node *n, const source_event *from, const mrd_event *ev)
{
    const sim_timeline *t = &of.w->timelines[0];
    long double at = sim_clock_true(&n->a->clock, from->ts_ns), off;

    if (ev->bound_ns == MRD_BOUND_UNKNOWN || n->boot != 1 || of.w->n_timelines != 1)
        return;
    at = at * (1.0L + t->server_ppm / 1e6L) + (long double) t->server_offset +
         (long double) t->offset;
    off = (long double) ev->ts.ns - at;
    of.w->r->bounds_checked++;
    if (fabsl(off) > (long double) ev->bound_ns + 2)
        sim_fail(of.w,
                 "session %s node %s: event %llu of the profile, at %.3Lf, is %.0Lf ns from its "
                 "time, bound %u",
                 of.s->text, n->a->id, (unsigned long long) ev->id,
                 sim_clock_true(&n->a->clock, from->ts_ns) / 1e9L, off, ev->bound_ns);
}

static mrd_err
see_event(void *state, const mrd_event *ev)
{
    unsigned index = 0;
    const source_event *from;
    sim_node *n;

    (void) state;
    if ((n = node_of(ev, &index)) == NULL || !of.w->r->ok)
        return MRD_OK;
    if (ev->kind == MRD_LOSS)
        of.lost[index] += (uint64_t) ev->ivalue;
    if (ev->kind != MRD_SPAN)
        return MRD_OK;
    of.spans[index]++;
    if (ev->id == 0 || ev->id > n->source.n) {
        sim_fail(of.w, "session %s node %s: the profile has an event that never was", of.s->text,
                 n->a->id);
        return MRD_OK;
    }
    if (of.seen[index] == NULL && (of.seen[index] = calloc(n->source.n, 1)) == NULL)
        abort();
    if (of.seen[index][ev->id - 1]++)
        sim_fail(of.w, "session %s node %s: the profile has event %llu twice", of.s->text, n->a->id,
                 (unsigned long long) ev->id);
    from = &n->source.v[ev->id - 1];
    if (ev->dur_ns != from->dur_ns)
        sim_fail(of.w, "session %s node %s: event %llu of the profile is another", of.s->text,
                 n->a->id, (unsigned long long) ev->id);
    check_time(n, from, ev);
    return MRD_OK;
}

static mrd_err
open_sink(void *state, const mrd_sink_env *env, mrd_why *why)
{
    (void) state;
    (void) why;
    of.cat = env->catalog;
    return MRD_OK;
}

static mrd_err
close_sink(void *state, mrd_why *why)
{
    (void) state;
    (void) why;
    return MRD_OK;
}

static bool
nowhere(void *self, const void *data, size_t len)
{
    (void) self;
    (void) data;
    (void) len;
    return true;
}

static const mrd_sink_ops looker = { .name = "looker",
                                     .stem = "looker",
                                     .suffix = "",
                                     .state_size = 8,
                                     .open = open_sink,
                                     .event = see_event,
                                     .close = close_sink };

/* The profile contains losses with a known time as events. No event may be both in the profile and
 * counted as lost. */
static void
check_losses(world *w, const mrd_session *s, const mrd_part *p)
{
    unsigned i = (unsigned) strtoul(p->instance_id + 2, NULL, 10);

    if (p->state != MRD_PART_FLUSHED || w->agents[i].spools_lost > 0 ||
        of.spans[i] != p->counts.delivered)
        return;
    if (of.spans[i] + of.lost[i] > p->counts.begun)
        sim_fail(w, "session %s node %s: begun %llu, in the profile %llu and lost %llu", s->text,
                 p->instance_id, (unsigned long long) p->counts.begun,
                 (unsigned long long) of.spans[i], (unsigned long long) of.lost[i]);
}

/* The profile must have the same number of spans as the journal. */
static void
check_spans(world *w, const mrd_session *s)
{
    const disk_session *d = disk_of(w, s->id);

    for (unsigned i = 0; i < w->plan->nodes && w->r->ok; i++) {
        uint64_t stored = 0;

        for (size_t k = 0; d != NULL && k < d->n_frames; k++) {
            if (d->frames[k].node == i && d->frames[k].type == MRD_FRAME_BATCH)
                stored += wire_events(w, i, &d->frames[k]);
        }
        if (of.spans[i] != stored)
            sim_fail(w, "session %s node i-%u: %llu events in the journal, %llu in the profile",
                     s->text, i, (unsigned long long) stored, (unsigned long long) of.spans[i]);
    }
}

/* Merges the session again with the code of the aggregator, but into a sink that only counts the
 * events and losses. Compares these counts with the journal. */
static void
look_through(world *w, const mrd_session *s)
{
    mrd_export_target target = { .ops = &looker };
    merge_input *in = mrd_merge_input_new(store_folder(w), &w->core->timescale, s);
    mrd_export_result result = { 0 };
    mrd_why why = { 0 };

    of.w = w;
    of.s = s;
    memset(of.spans, 0, sizeof(of.spans));
    memset(of.lost, 0, sizeof(of.lost));
    if (in == NULL || mrd_out_func(nowhere, NULL, "looker", &target.out, NULL) != MRD_OK)
        abort();
    if (mrd_merge_run(in, &(mrd_merge_order){ .targets = &target, .n_targets = 1 }, &result, NULL,
                      &why) != MRD_OK)
        sim_fail(w, "session %s cannot be merged again: %s", s->text, why.text);
    else if (w->r->ok && result.events != s->job.events)
        sim_fail(w, "session %s: %llu events were merged, and %llu again", s->text,
                 (unsigned long long) s->job.events, (unsigned long long) result.events);
    mrd_merge_input_free(in);
    if (w->r->ok)
        check_spans(w, s);
    for (size_t i = 0; i < s->n_parts && w->r->ok; i++)
        check_losses(w, s, s->parts[i]);
    for (unsigned i = 0; i < w->plan->nodes; i++) {
        free(of.seen[i]);
        of.seen[i] = NULL;
    }
}

void
merge_recovered(world *w)
{
    for (size_t i = 0; i < w->core->n_sessions && w->r->ok; i++) {
        const mrd_session *s = w->core->sessions[i];

        char dir[200];

        snprintf(dir, sizeof(dir), PROFILE, s->text);
        if (!s->deleted && !store_is_gone(w, s->id) && s->job.state == MRD_MERGE_DONE)
            check_profile(w, s, dir, "");
    }
}

void
merge_end(world *w)
{
    merge_recovered(w);
    for (size_t i = 0; i < w->core->n_sessions && w->r->ok; i++) {
        const mrd_session *s = w->core->sessions[i];

        if (!s->deleted && s->job.state == MRD_MERGE_DONE) {
            w->r->merged++;
            look_through(w, s);
        }
    }
}
