/* Results of other threads for the loop: each is an item of the inbox. */
#include "aggregator/loop/loop_int.h"

#include <stdio.h>
#include <stdlib.h>

#include "aggregator/core/common/text.h"
#include "aggregator/core/decide/artifacts.h"
#include "base/vec.h"

#define MANIFESTS_MAX 65536 /* one per session at a time */

/* Most of them are this. */
typedef struct {
    mrd_loop_item item;
    uint64_t a, b;
    bool failed;
    mrd_why why;
    char sha256[65];
    char instance_id[MRD_NODE_ID_MAX];
} result;

static result *
result_new(void (*run)(mrd_loop *l, mrd_loop_item *item), uint64_t a, uint64_t b,
           const mrd_why *failed)
{
    result *r = calloc(1, sizeof(*r));

    if (r == NULL)
        abort(); /* otherwise the core would wait for it for ever */
    r->item.run = run;
    r->a = a;
    r->b = b;
    r->failed = failed != NULL;
    if (failed != NULL)
        r->why = *failed;
    return r;
}

static void
post(void *self, result *r)
{
    mrd_loop *l = self;

    if (!mrd_loop_post(l, &r->item))
        free(r);
}

static const mrd_why *
failure(const result *r)
{
    return r->failed ? &r->why : NULL;
}

/* ---- Journals ---- */

static void
run_stored(mrd_loop *l, mrd_loop_item *item)
{
    result *r = (result *) item;

    mrd_core_stored(l->core, mrd_loop_now(), r->a, failure(r));
    free(r);
}

static void
on_stored(void *self, uint64_t ticket, const mrd_why *failed)
{
    post(self, result_new(run_stored, ticket, 0, failed));
}

void
mrd_loop_stored(mrd_loop *l, uint64_t ticket, const mrd_why *failed)
{
    on_stored(l, ticket, failed);
}

static void
run_closed(mrd_loop *l, mrd_loop_item *item)
{
    result *r = (result *) item;

    mrd_core_closed(l->core, mrd_loop_now(), r->a);
    free(r);
}

static void
on_closed(void *self, uint64_t session)
{
    post(self, result_new(run_closed, session, 0, NULL));
}

/* ---- Manifests ---- */

typedef struct {
    mrd_session_view *v;
    uint64_t session, version;
} manifest_job;

static void
run_saved(mrd_loop *l, mrd_loop_item *item)
{
    result *r = (result *) item;

    mrd_core_saved(l->core, mrd_loop_now(), r->a, r->b, failure(r));
    free(r);
}

static void
save(void *self, void *arg)
{
    mrd_loop *l = self;
    manifest_job *j = arg;
    mrd_why why = { 0 };

    if (j->v == NULL)
        mrd_why_set(&why, MRD_NOMEM, 0, "manifest");
    else
        (void) mrd_session_store_save(l->o.store, j->v, &why);
    post(l, result_new(run_saved, j->session, j->version, why.err == MRD_OK ? NULL : &why));
    mrd_session_view_unref(j->v);
    free(j);
}

void
mrd_loop_save(mrd_loop *l, mrd_session_view *v, uint64_t session, uint64_t version)
{
    manifest_job *j = calloc(1, sizeof(*j));
    mrd_why why = { .err = MRD_NOMEM, .text = "out of memory" };

    if (j != NULL) {
        *j = (manifest_job){ .v = v, .session = session, .version = version };
        if (mrd_pool_put(l->manifests, save, l, j))
            return;
    }
    post(l, result_new(run_saved, session, version, &why));
    mrd_session_view_unref(v);
    free(j);
}

typedef struct {
    mrd_buf text;
    bool durable;
} nodes_job;

static void
run_nodes_saved(mrd_loop *l, mrd_loop_item *item)
{
    result *r = (result *) item;

    mrd_core_nodes_saved(l->core, mrd_loop_now(), failure(r));
    free(r);
}

static void
save_nodes(void *self, void *arg)
{
    mrd_loop *l = self;
    nodes_job *j = arg;
    mrd_why why = { 0 };

    (void) mrd_session_store_save_nodes(l->o.store, &j->text, j->durable, &why);
    post(l, result_new(run_nodes_saved, 0, 0, why.err == MRD_OK ? NULL : &why));
    mrd_buf_fini(&j->text);
    free(j);
}

void
mrd_loop_save_nodes(mrd_loop *l, mrd_buf *text, bool durable)
{
    nodes_job *j = calloc(1, sizeof(*j));
    mrd_why why = { .err = MRD_NOMEM, .text = "out of memory" };

    if (j != NULL) {
        *j = (nodes_job){ .text = *text, .durable = durable };
        if (mrd_pool_put(l->manifests, save_nodes, l, j))
            return;
    }
    post(l, result_new(run_nodes_saved, 0, 0, &why));
    mrd_buf_fini(text);
    free(j);
}

/* ---- Surveys ---- */

typedef struct {
    mrd_loop_item item;
    uint64_t survey;
    mrd_msg msg;
} answer_item;

static void
run_answered(mrd_loop *l, mrd_loop_item *item)
{
    answer_item *a = (answer_item *) item;

    mrd_core_answered(l->core, mrd_loop_now(), a->survey, a->msg.u.control_reply);
    mrd_msg_free(&a->msg);
    free(a);
}

static bool
on_answered(void *self, uint64_t survey, mrd_msg *reply)
{
    answer_item *a = calloc(1, sizeof(*a));

    if (a != NULL) {
        *a = (answer_item){ .item = { .run = run_answered }, .survey = survey, .msg = *reply };
        if (mrd_loop_post(self, &a->item))
            return true;
    }
    mrd_msg_free(reply);
    free(a);
    return false;
}

/* ---- Merges ---- */

typedef struct {
    mrd_loop_item item;
    uint64_t session, events;
    mrd_merge_state state;
    mrd_clock_verdict verdict;
    bool has_verdict;
    mrd_why why;
} merge_item;

static void
run_merged(mrd_loop *l, mrd_loop_item *item)
{
    merge_item *m = (merge_item *) item;

    mrd_core_merged(l->core, mrd_loop_now(), m->session, m->state, m->events,
                    m->has_verdict ? &m->verdict : NULL, &m->why);
    mrd_clock_verdict_fini(&m->verdict);
    free(m);
}

static void
on_merged(void *self, uint64_t session, mrd_merge_state state, uint64_t events,
          mrd_clock_verdict *verdict, const mrd_why *why)
{
    merge_item *m = calloc(1, sizeof(*m));

    if (m == NULL)
        abort(); /* otherwise the session would be merging for ever */
    *m = (merge_item){ .item = { .run = run_merged },
                       .session = session,
                       .events = events,
                       .state = state,
                       .has_verdict = verdict != NULL,
                       .why = *why };
    if (verdict != NULL) {
        m->verdict = *verdict;
        *verdict = (mrd_clock_verdict){ 0 };
    }
    if (!mrd_loop_post(self, &m->item)) {
        mrd_clock_verdict_fini(&m->verdict);
        free(m);
    }
}

/* ---- Conversions ---- */

typedef struct {
    mrd_loop_item item;
    mrd_conversion_of of;
    mrd_conversion_end end;
    bool began;
    char message[MRD_WHY_MAX];
} conversion_item;

static void
run_conversion(mrd_loop *l, mrd_loop_item *item)
{
    conversion_item *x = (conversion_item *) item;

    if (x->began)
        mrd_core_conversion_began(l->core, mrd_loop_now(), &x->of);
    else
        mrd_core_conversion_ended(l->core, mrd_loop_now(), &x->of, &x->end);
    free(x);
}

static void
post_conversion(void *self, const mrd_conversion_of *of, const mrd_conversion_end *end)
{
    conversion_item *x = calloc(1, sizeof(*x));

    if (x == NULL)
        abort(); /* otherwise the session would be converting for ever */
    *x = (conversion_item){ .item = { .run = run_conversion }, .of = *of, .began = end == NULL };
    if (end != NULL) {
        x->end = *end;
        mrd_text_set(x->message, sizeof(x->message), end->message);
        x->end.message = x->message;
    }
    if (!mrd_loop_post(self, &x->item))
        free(x);
}

typedef struct {
    mrd_loop_item item;
    unsigned at_once;
} viewer_item;

static void
run_viewer_found(mrd_loop *l, mrd_loop_item *item)
{
    viewer_item *x = (viewer_item *) item;

    mrd_core_viewer_found(l->core, mrd_loop_now(), x->at_once);
    free(x);
}

static void
on_viewer_found(void *self, unsigned at_once)
{
    viewer_item *x = calloc(1, sizeof(*x));

    if (x == NULL)
        abort(); /* otherwise there would be no conversions until a restart */
    *x = (viewer_item){ .item = { .run = run_viewer_found }, .at_once = at_once };
    if (!mrd_loop_post(self, &x->item))
        free(x);
}

static void
on_conversion_began(void *self, const mrd_conversion_of *of)
{
    post_conversion(self, of, NULL);
}

static void
on_conversion_ended(void *self, const mrd_conversion_of *of, const mrd_conversion_end *end)
{
    post_conversion(self, of, end);
}

typedef struct {
    const mrd_conversion_results *results;
    bool listed;
} listing;

static void
run_conversion_list(mrd_core *c, mrd_core_time now, uint64_t ticket, void *arg)
{
    listing *to = arg;

    (void) ticket;
    to->listed = mrd_core_conversion_list(c, now, to->results);
}

static bool
on_conversion_list(void *self, const mrd_conversion_results *results)
{
    listing to = { .results = results };

    mrd_loop_run(self, run_conversion_list, &to);
    return to.listed;
}

void
mrd_loop_not_converted(mrd_loop *l, const mrd_conversion_of *of)
{
    post_conversion(l, of,
                    &(mrd_conversion_end){ .state = MRD_CONVERT_FAILED,
                                           .message = "out of memory, or too many wait" });
}

/* ---- Exports ---- */

typedef struct {
    mrd_loop_item item;
    uint64_t session, files, bytes;
    bool began, failed;
    mrd_why why;
} export_item;

static void
run_exported(mrd_loop *l, mrd_loop_item *item)
{
    export_item *x = (export_item *) item;

    if (x->began)
        mrd_core_export_began(l->core, mrd_loop_now(), x->session);
    else
        mrd_core_exported(l->core, mrd_loop_now(), x->session, x->files, x->bytes,
                          x->failed ? &x->why : NULL);
    free(x);
}

static void
post_export(void *self, const export_item *from)
{
    export_item *x = malloc(sizeof(*x));

    if (x == NULL)
        abort(); /* otherwise the session's export would never end */
    *x = *from;
    x->item.run = run_exported;
    if (!mrd_loop_post(self, &x->item))
        free(x);
}

static void
on_export_began(void *self, uint64_t session)
{
    post_export(self, &(export_item){ .session = session, .began = true });
}

static void
on_exported(void *self, uint64_t session, uint64_t files, uint64_t bytes, const mrd_why *failed)
{
    export_item x = {
        .session = session, .files = files, .bytes = bytes, .failed = failed != NULL
    };

    if (failed != NULL)
        x.why = *failed;
    post_export(self, &x);
}

static void
on_export_stalled(void *self, uint64_t session, const char *target, mrd_dur_ns quiet)
{
    mrd_loop *l = self;

    mrd_core_export_stalled(l->core, mrd_loop_now(), session, target, quiet);
    mrd_loop_carry(l);
}

void
mrd_loop_exported(mrd_loop *l, uint64_t session, const mrd_why *failed)
{
    on_exported(l, session, 0, 0, failed);
}

typedef struct {
    const merge_input *in;
    uint64_t session;
    bool whole;
} damage_found;

static void
run_damaged(mrd_core *c, mrd_core_time now, uint64_t ticket, void *arg)
{
    const damage_found *d = arg;

    (void) ticket;
    for (size_t i = 0; i < d->in->n_nodes; i++) {
        mrd_core_damaged(c, now, d->session, d->in->nodes[i].instance_id, &d->in->damage[i],
                         d->whole);
        mrd_loop_carry_logs(c);
    }
}

void
mrd_loop_damaged(mrd_loop *l, uint64_t session, const struct merge_input *in, bool whole)
{
    damage_found d = { .in = in, .session = session, .whole = whole };

    mrd_loop_run(l, run_damaged, &d);
}

static void
on_damaged(void *self, uint64_t session, const merge_input *in, bool whole)
{
    mrd_loop_damaged(self, session, in, whole);
}

void
mrd_loop_not_merged(mrd_loop *l, uint64_t session)
{
    mrd_why why = { .err = MRD_NOMEM, .text = "out of memory" };

    on_merged(l, session, MRD_MERGE_FAILED, 0, NULL, &why);
}

static void
run_progress(mrd_loop *l, mrd_loop_item *item)
{
    result *r = (result *) item;

    mrd_core_merge_progress(l->core, mrd_loop_now(), r->a, r->b);
    free(r);
}

static void
on_progress(void *self, uint64_t session, uint64_t events)
{
    post(self, result_new(run_progress, session, events, NULL));
}

/* ---- Folders ---- */

static void
run_measured(mrd_loop *l, mrd_loop_item *item)
{
    result *r = (result *) item;

    mrd_core_measured(l->core, mrd_loop_now(), r->a, r->b);
    free(r);
}

static void
on_measured(void *self, uint64_t session, uint64_t bytes)
{
    post(self, result_new(run_measured, session, bytes, NULL));
}

static void
run_removed(mrd_loop *l, mrd_loop_item *item)
{
    result *r = (result *) item;

    mrd_core_removed(l->core, mrd_loop_now(), r->a, r->failed ? &r->why : NULL);
    free(r);
}

static void
on_removed(void *self, uint64_t session, const mrd_why *failed)
{
    post(self, result_new(run_removed, session, 0, failed));
}

static void
run_disk(mrd_loop *l, mrd_loop_item *item)
{
    result *r = (result *) item;

    mrd_core_disk(l->core, mrd_loop_now(), (int64_t) r->a);
    free(r);
}

static void
on_disk(void *self, int64_t free_bytes)
{
    post(self, result_new(run_disk, (uint64_t) free_bytes, 0, NULL));
}

static void
run_gone(mrd_loop *l, mrd_loop_item *item)
{
    result *r = (result *) item;

    mrd_core_store_gone(l->core, mrd_loop_now(), failure(r));
    free(r);
}

static void
on_gone(void *self, const mrd_why *why)
{
    post(self, result_new(run_gone, 0, 0, why));
}

/* ---- Artifacts ---- */

static void
run_grown(mrd_loop *l, mrd_loop_item *item)
{
    result *r = (result *) item;

    mrd_core_enter(l->core, mrd_loop_now());
    mrd_stored_files_grown(&l->core->files, r->sha256, r->a);
    l->core->stats.artifact_bytes += r->b;
    free(r);
}

static void
on_grown(void *self, const char *sha256, uint64_t bytes, uint64_t more)
{
    result *r = result_new(run_grown, bytes, more, NULL);

    mrd_text_set(r->sha256, sizeof(r->sha256), sha256);
    post(self, r);
}

static void
run_logged(mrd_loop *l, mrd_loop_item *item)
{
    result *r = (result *) item;

    mrd_core_artifact_logged(l->core, mrd_loop_now(), r->a, r->sha256);
    free(r);
}

static void
on_logged(void *self, uint64_t session, const char *sha256)
{
    result *r = result_new(run_logged, session, 0, NULL);

    mrd_text_set(r->sha256, sizeof(r->sha256), sha256);
    post(self, r);
}

typedef struct {
    const char *sha256;
    mrd_artifact_note *v;
    size_t n;
    bool part, listed, proven;
} notes;

static mrd_artifact_note *
note_of(notes *to, const mrd_session *s)
{
    mrd_artifact_note *v;

    if (to->n > 0 && to->v[to->n - 1].session == s->id)
        return &to->v[to->n - 1];
    if (!MRD_VEC_NEXT(to->v, to->n))
        return NULL; /* not logged: the next answer about this file tries again */
    v = &to->v[to->n++];
    *v = (mrd_artifact_note){ .session = s->id };
    mrd_text_set(v->text, sizeof(v->text), s->text);
    mrd_buf_byte(&v->lines, '\n'); /* terminates a line that a crash tore */
    return v;
}

static void
add_link(mrd_artifact_note *n, const mrd_listed_artifact *a)
{
    if (!MRD_VEC_NEXT(n->links, n->n_links))
        return;
    if (asprintf(&n->links[n->n_links], "%s_pid_%lld/%s", a->instance_id, (long long) a->process_id,
                 a->name) >= 0)
        n->n_links++;
}

static void
add_note(void *self, const mrd_session *s, const mrd_listed_artifact *a, bool is_new)
{
    mrd_artifact_note *n = note_of(self, s);
    mrd_json *line;

    (void) is_new; /* an existing link stays */
    if (n == NULL)
        return;
    if ((line = mrd_listed_artifact_json(a)) == NULL)
        n->lines.err = MRD_NOMEM;
    else
        mrd_json_write(line, false, &n->lines);
    mrd_buf_byte(&n->lines, '\n');
    mrd_json_free(line);
    add_link(n, a);
}

static void
run_complete(mrd_core *c, mrd_core_time now, uint64_t ticket, void *arg)
{
    notes *to = arg;

    (void) ticket;
    mrd_core_artifact_complete(c, now, to->sha256, add_note, to);
    c->stats.artifacts += to->proven;
}

static size_t
on_complete(void *self, const char *sha256, bool proven, mrd_artifact_note **ret_notes)
{
    notes to = { .sha256 = sha256, .proven = proven };

    mrd_loop_run(self, run_complete, &to);
    *ret_notes = to.v;
    return to.n;
}

static void
run_listed(mrd_core *c, mrd_core_time now, uint64_t ticket, void *arg)
{
    notes *to = arg;

    (void) ticket;
    mrd_core_enter(c, now);
    to->listed = c->unreadable > 0 || (to->part ? mrd_core_artifact_is_open(c, to->sha256)
                                                : mrd_stored_files_has(&c->files, to->sha256));
}

static bool
on_listed(void *self, const char *sha256, bool part)
{
    notes to = { .sha256 = sha256, .part = part, .listed = true };

    mrd_loop_run(self, run_listed, &to);
    return to.listed;
}

static void
run_removed_file(mrd_loop *l, mrd_loop_item *item)
{
    result *r = (result *) item;

    mrd_core_enter(l->core, mrd_loop_now());
    l->core->stats.artifacts_removed += r->a;
    if (!l->draining)
        mrd_cleaner_empty(l->cleaner);
    free(r);
}

static void
on_removed_file(void *self, bool part)
{
    post(self, result_new(run_removed_file, !part, 0, NULL));
}

static void
run_limited(mrd_loop *l, mrd_loop_item *item)
{
    result *r = (result *) item;
    mrd_node *n = mrd_nodes_by_id(&l->core->nodes, r->instance_id);

    if (n != NULL)
        mrd_core_limited(l->core, mrd_loop_now(), n, MRD_LIMIT_UPLOADS);
    free(r);
}

static void
on_limited(void *self, const char *instance_id)
{
    result *r = result_new(run_limited, 0, 0, NULL);

    mrd_text_set(r->instance_id, sizeof(r->instance_id), instance_id);
    post(self, r);
}

/* ---- All of them ---- */

mrd_err
mrd_loop_open_services(mrd_loop *l, mrd_why *why)
{
    mrd_journals_options journals = {
        .store = l->o.store, .stored = on_stored, .closed = on_closed, .self = l
    };
    mrd_merger_options merger = { .progress = on_progress,
                                  .done = on_merged,
                                  .damaged = on_damaged,
                                  .self = l,
                                  .split = l->o.merge_split,
                                  .formats = l->o.merge_formats };
    mrd_artifacts_options artifacts = { .store = l->o.store,
                                        .server = l->o.server,
                                        .grown = on_grown,
                                        .complete = on_complete,
                                        .logged = on_logged,
                                        .listed = on_listed,
                                        .removed = on_removed_file,
                                        .limited = on_limited,
                                        .self = l };
    mrd_cleaner_options cleaner = { .store = l->o.store,
                                    .measured = on_measured,
                                    .removed = on_removed,
                                    .disk = on_disk,
                                    .gone = on_gone,
                                    .self = l };
    mrd_surveys_options surveys = { .server = l->o.server, .answered = on_answered, .self = l };
    mrd_exporter_options exporter = { .store = l->o.store,
                                      .target = l->o.export_to,
                                      .targets = l->o.export_targets,
                                      .owner = l->o.export_owner,
                                      .path = l->o.export_path,
                                      .cluster = l->o.cluster,
                                      .rate = l->o.export_rate,
                                      .began = on_export_began,
                                      .done = on_exported,
                                      .stalled = on_export_stalled,
                                      .self = l };
    mrd_converter_options viewer = { .store = l->o.store,
                                     .settings = l->o.viewer,
                                     .disk_reserve = l->o.core.limits.disk_reserve,
                                     .began = on_conversion_began,
                                     .list = on_conversion_list,
                                     .ended = on_conversion_ended,
                                     .found = on_viewer_found,
                                     .there = l->o.core.limits.conversions > 0,
                                     .self = l };
    mrd_err err;

    if (l->o.viewer != NULL && (err = mrd_converter_open(&viewer, &l->viewer, why)) != MRD_OK)
        return err;
    if ((l->o.export_to != NULL || l->o.export_targets != NULL) &&
        (err = mrd_exporter_open(&exporter, &l->exporter, why)) != MRD_OK)
        return err;
    if ((err = mrd_journals_open(&journals, &l->journals, why)) != MRD_OK ||
        (err = mrd_pool_open("manifests", 1, MANIFESTS_MAX, &l->manifests, why)) != MRD_OK ||
        (err = mrd_merger_open(&merger, &l->merger, why)) != MRD_OK ||
        (err = mrd_artifacts_open(&artifacts, &l->artifacts, why)) != MRD_OK ||
        (err = mrd_cleaner_open(&cleaner, &l->cleaner, why)) != MRD_OK)
        return err;
    return mrd_surveys_open(&surveys, &l->surveys, why);
}
