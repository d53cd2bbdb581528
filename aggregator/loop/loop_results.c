/* Passes the results of other threads to the loop's thread. Each result is an item of the inbox. */
#include "aggregator/loop/loop_int.h"

#include <stdio.h>
#include <stdlib.h>

#include "aggregator/core/common/text.h"
#include "aggregator/core/decide/artifacts.h"
#include "base/vec.h"

/* maximum number of queued manifest writes; a session has at most one */
#define MANIFESTS_MAX 65536

/* A result with up to two numbers and an error. Most kinds of results use this struct. */
typedef struct {
    mrd_loop_item item;
    uint64_t a, b;
    bool failed;
    mrd_why why;
    char sha256[65];
    char instance_id[MRD_NODE_ID_MAX];
} result;

static result *
result_new(void (*run)(mrd_loop *loop, mrd_loop_item *item), uint64_t a, uint64_t b,
           const mrd_why *failed)
{
    result *res = calloc(1, sizeof(*res));

    if (res == NULL)
        abort(); /* without the result of this work, the core would wait for ever */
    res->item.run = run;
    res->a = a;
    res->b = b;
    res->failed = failed != NULL;
    if (failed != NULL)
        res->why = *failed;
    return res;
}

static void
post(void *self, result *res)
{
    mrd_loop *loop = self;

    if (!mrd_loop_post(loop, &res->item))
        free(res);
}

static const mrd_why *
failure(const result *res)
{
    return res->failed ? &res->why : NULL;
}

/* ---- Results of journals ---- */

static void
run_stored(mrd_loop *loop, mrd_loop_item *item)
{
    result *res = (result *) item;

    mrd_core_stored(loop->core, mrd_loop_now(), res->a, failure(res));
    free(res);
}

static void
on_stored(void *self, uint64_t ticket, const mrd_why *failed)
{
    post(self, result_new(run_stored, ticket, 0, failed));
}

void
mrd_loop_stored(mrd_loop *loop, uint64_t ticket, const mrd_why *failed)
{
    on_stored(loop, ticket, failed);
}

static void
run_closed(mrd_loop *loop, mrd_loop_item *item)
{
    result *res = (result *) item;

    mrd_core_closed(loop->core, mrd_loop_now(), res->a);
    free(res);
}

static void
on_closed(void *self, uint64_t session)
{
    post(self, result_new(run_closed, session, 0, NULL));
}

/* ---- Results of manifest writes ---- */

typedef struct {
    mrd_session_view *v;
    uint64_t session, version;
} manifest_job;

static void
run_saved(mrd_loop *loop, mrd_loop_item *item)
{
    result *res = (result *) item;

    mrd_core_saved(loop->core, mrd_loop_now(), res->a, res->b, failure(res));
    free(res);
}

static void
save(void *self, void *arg)
{
    mrd_loop *loop = self;
    manifest_job *job = arg;
    mrd_why why = { 0 };

    if (job->v == NULL)
        mrd_why_set(&why, MRD_NOMEM, 0, "manifest");
    else
        (void) mrd_session_store_save(loop->o.store, job->v, &why);
    post(loop, result_new(run_saved, job->session, job->version, why.err == MRD_OK ? NULL : &why));
    mrd_session_view_unref(job->v);
    free(job);
}

void
mrd_loop_save(mrd_loop *loop, mrd_session_view *view, uint64_t session, uint64_t version)
{
    manifest_job *job = calloc(1, sizeof(*job));
    mrd_why why = { .err = MRD_NOMEM, .text = "out of memory" };

    if (job != NULL) {
        *job = (manifest_job){ .v = view, .session = session, .version = version };
        if (mrd_pool_put(loop->manifests, save, loop, job))
            return;
    }
    post(loop, result_new(run_saved, session, version, &why));
    mrd_session_view_unref(view);
    free(job);
}

typedef struct {
    mrd_buf text;
    bool durable;
} nodes_job;

static void
run_nodes_saved(mrd_loop *loop, mrd_loop_item *item)
{
    result *res = (result *) item;

    mrd_core_nodes_saved(loop->core, mrd_loop_now(), failure(res));
    free(res);
}

static void
save_nodes(void *self, void *arg)
{
    mrd_loop *loop = self;
    nodes_job *job = arg;
    mrd_why why = { 0 };

    (void) mrd_session_store_save_nodes(loop->o.store, &job->text, job->durable, &why);
    post(loop, result_new(run_nodes_saved, 0, 0, why.err == MRD_OK ? NULL : &why));
    mrd_buf_fini(&job->text);
    free(job);
}

void
mrd_loop_save_nodes(mrd_loop *loop, mrd_buf *text, bool durable)
{
    nodes_job *job = calloc(1, sizeof(*job));
    mrd_why why = { .err = MRD_NOMEM, .text = "out of memory" };

    if (job != NULL) {
        *job = (nodes_job){ .text = *text, .durable = durable };
        if (mrd_pool_put(loop->manifests, save_nodes, loop, job))
            return;
    }
    post(loop, result_new(run_nodes_saved, 0, 0, &why));
    mrd_buf_fini(text);
    free(job);
}

/* ---- Answers to surveys ---- */

typedef struct {
    mrd_loop_item item;
    uint64_t survey;
    mrd_msg msg;
} answer_item;

static void
run_answered(mrd_loop *loop, mrd_loop_item *item)
{
    answer_item *a = (answer_item *) item;

    mrd_core_answered(loop->core, mrd_loop_now(), a->survey, a->msg.u.control_reply);
    mrd_msg_free(&a->msg);
    free(a);
}

static bool
on_answered(void *self, uint64_t survey, mrd_msg *reply)
{
    answer_item *item = calloc(1, sizeof(*item));

    if (item != NULL) {
        *item = (answer_item){ .item = { .run = run_answered }, .survey = survey, .msg = *reply };
        if (mrd_loop_post(self, &item->item))
            return true;
    }
    mrd_msg_free(reply);
    free(item);
    return false;
}

/* ---- Results of merges ---- */

typedef struct {
    mrd_loop_item item;
    uint64_t session, events;
    mrd_merge_state state;
    mrd_clock_verdict verdict;
    bool has_verdict;
    mrd_why why;
} merge_item;

static void
run_merged(mrd_loop *loop, mrd_loop_item *item)
{
    merge_item *m = (merge_item *) item;

    mrd_core_merged(loop->core, mrd_loop_now(), m->session, m->state, m->events,
                    m->has_verdict ? &m->verdict : NULL, &m->why);
    mrd_clock_verdict_fini(&m->verdict);
    free(m);
}

static void
on_merged(void *self, uint64_t session, mrd_merge_state state, uint64_t events,
          mrd_clock_verdict *verdict, const mrd_why *why)
{
    merge_item *item = calloc(1, sizeof(*item));

    if (item == NULL)
        abort(); /* without this result the state of the session would stay "merging" for ever */
    *item = (merge_item){ .item = { .run = run_merged },
                          .session = session,
                          .events = events,
                          .state = state,
                          .has_verdict = verdict != NULL,
                          .why = *why };
    if (verdict != NULL) {
        item->verdict = *verdict;
        *verdict = (mrd_clock_verdict){ 0 };
    }
    if (!mrd_loop_post(self, &item->item)) {
        mrd_clock_verdict_fini(&item->verdict);
        free(item);
    }
}

/* ---- Results of conversions ---- */

typedef struct {
    mrd_loop_item item;
    mrd_conversion_of of;
    mrd_conversion_end end;
    bool began;
    char message[MRD_WHY_MAX];
} conversion_item;

static void
run_conversion(mrd_loop *loop, mrd_loop_item *item)
{
    conversion_item *x = (conversion_item *) item;

    if (x->began)
        mrd_core_conversion_began(loop->core, mrd_loop_now(), &x->of);
    else
        mrd_core_conversion_ended(loop->core, mrd_loop_now(), &x->of, &x->end);
    free(x);
}

static void
post_conversion(void *self, const mrd_conversion_of *of, const mrd_conversion_end *end)
{
    conversion_item *item = calloc(1, sizeof(*item));

    if (item == NULL)
        abort(); /* without this result the conversion would never end */
    *item = (conversion_item){ .item = { .run = run_conversion }, .of = *of, .began = end == NULL };
    if (end != NULL) {
        item->end = *end;
        mrd_text_set(item->message, sizeof(item->message), end->message);
        item->end.message = item->message;
    }
    if (!mrd_loop_post(self, &item->item))
        free(item);
}

typedef struct {
    mrd_loop_item item;
    unsigned at_once;
} viewer_item;

static void
run_viewer_found(mrd_loop *loop, mrd_loop_item *item)
{
    viewer_item *x = (viewer_item *) item;

    mrd_core_viewer_found(loop->core, mrd_loop_now(), x->at_once);
    free(x);
}

static void
on_viewer_found(void *self, unsigned at_once)
{
    viewer_item *item = calloc(1, sizeof(*item));

    if (item == NULL)
        abort(); /* without this result there would be no conversions until a restart */
    *item = (viewer_item){ .item = { .run = run_viewer_found }, .at_once = at_once };
    if (!mrd_loop_post(self, &item->item))
        free(item);
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
run_conversion_list(mrd_core *core, mrd_core_time now, uint64_t ticket, void *arg)
{
    listing *to = arg;

    (void) ticket;
    to->listed = mrd_core_conversion_list(core, now, to->results);
}

static bool
on_conversion_list(void *self, const mrd_conversion_results *results)
{
    listing to = { .results = results };

    mrd_loop_run(self, run_conversion_list, &to);
    return to.listed;
}

void
mrd_loop_not_converted(mrd_loop *loop, const mrd_conversion_of *of)
{
    post_conversion(loop, of,
                    &(mrd_conversion_end){ .state = MRD_CONVERT_FAILED,
                                           .message = "out of memory, or too many wait" });
}

/* ---- Results of exports ---- */

typedef struct {
    mrd_loop_item item;
    uint64_t session, files, bytes;
    bool began, failed;
    mrd_why why;
} export_item;

static void
run_exported(mrd_loop *loop, mrd_loop_item *item)
{
    export_item *x = (export_item *) item;

    if (x->began)
        mrd_core_export_began(loop->core, mrd_loop_now(), x->session);
    else
        mrd_core_exported(loop->core, mrd_loop_now(), x->session, x->files, x->bytes,
                          x->failed ? &x->why : NULL);
    free(x);
}

static void
post_export(void *self, const export_item *from)
{
    export_item *item = malloc(sizeof(*item));

    if (item == NULL)
        abort(); /* without this result the session's export would never end */
    *item = *from;
    item->item.run = run_exported;
    if (!mrd_loop_post(self, &item->item))
        free(item);
}

static void
on_export_began(void *self, uint64_t session)
{
    post_export(self, &(export_item){ .session = session, .began = true });
}

static void
on_exported(void *self, uint64_t session, uint64_t files, uint64_t bytes, const mrd_why *failed)
{
    export_item item = {
        .session = session, .files = files, .bytes = bytes, .failed = failed != NULL
    };

    if (failed != NULL)
        item.why = *failed;
    post_export(self, &item);
}

static void
on_export_stalled(void *self, uint64_t session, const char *target, mrd_dur_ns quiet)
{
    mrd_loop *loop = self;

    mrd_core_export_stalled(loop->core, mrd_loop_now(), session, target, quiet);
    mrd_loop_carry(loop);
}

void
mrd_loop_exported(mrd_loop *loop, uint64_t session, const mrd_why *failed)
{
    on_exported(loop, session, 0, 0, failed);
}

typedef struct {
    const merge_input *in;
    uint64_t session;
    bool whole;
} damage_found;

static void
run_damaged(mrd_core *core, mrd_core_time now, uint64_t ticket, void *arg)
{
    const damage_found *found = arg;

    (void) ticket;
    for (size_t i = 0; i < found->in->n_nodes; i++) {
        mrd_core_damaged(core, now, found->session, found->in->nodes[i].instance_id,
                         &found->in->damage[i], found->whole);
        mrd_loop_carry_logs(core);
    }
}

void
mrd_loop_damaged(mrd_loop *loop, uint64_t session, const struct merge_input *in, bool whole)
{
    damage_found found = { .in = in, .session = session, .whole = whole };

    mrd_loop_run(loop, run_damaged, &found);
}

static void
on_damaged(void *self, uint64_t session, const merge_input *in, bool whole)
{
    mrd_loop_damaged(self, session, in, whole);
}

void
mrd_loop_not_merged(mrd_loop *loop, uint64_t session)
{
    mrd_why why = { .err = MRD_NOMEM, .text = "out of memory" };

    on_merged(loop, session, MRD_MERGE_FAILED, 0, NULL, &why);
}

static void
run_progress(mrd_loop *loop, mrd_loop_item *item)
{
    result *res = (result *) item;

    mrd_core_merge_progress(loop->core, mrd_loop_now(), res->a, res->b);
    free(res);
}

static void
on_progress(void *self, uint64_t session, uint64_t events)
{
    post(self, result_new(run_progress, session, events, NULL));
}

/* ---- Directories of sessions, and the disk ---- */

static void
run_measured(mrd_loop *loop, mrd_loop_item *item)
{
    result *res = (result *) item;

    mrd_core_measured(loop->core, mrd_loop_now(), res->a, res->b);
    free(res);
}

static void
on_measured(void *self, uint64_t session, uint64_t bytes)
{
    post(self, result_new(run_measured, session, bytes, NULL));
}

static void
run_removed(mrd_loop *loop, mrd_loop_item *item)
{
    result *res = (result *) item;

    mrd_core_removed(loop->core, mrd_loop_now(), res->a, res->failed ? &res->why : NULL);
    free(res);
}

static void
on_removed(void *self, uint64_t session, const mrd_why *failed)
{
    post(self, result_new(run_removed, session, 0, failed));
}

static void
run_disk(mrd_loop *loop, mrd_loop_item *item)
{
    result *res = (result *) item;

    mrd_core_disk(loop->core, mrd_loop_now(), (int64_t) res->a);
    free(res);
}

static void
on_disk(void *self, int64_t free_bytes)
{
    post(self, result_new(run_disk, (uint64_t) free_bytes, 0, NULL));
}

static void
run_gone(mrd_loop *loop, mrd_loop_item *item)
{
    result *res = (result *) item;

    mrd_core_store_gone(loop->core, mrd_loop_now(), failure(res));
    free(res);
}

static void
on_gone(void *self, const mrd_why *why)
{
    post(self, result_new(run_gone, 0, 0, why));
}

/* ---- Stored artifacts ---- */

static void
run_grown(mrd_loop *loop, mrd_loop_item *item)
{
    result *res = (result *) item;

    mrd_core_enter(loop->core, mrd_loop_now());
    mrd_stored_files_grown(&loop->core->files, res->sha256, res->a);
    loop->core->stats.artifact_bytes += res->b;
    free(res);
}

static void
on_grown(void *self, const char *sha256, uint64_t bytes, uint64_t more)
{
    result *res = result_new(run_grown, bytes, more, NULL);

    mrd_text_set(res->sha256, sizeof(res->sha256), sha256);
    post(self, res);
}

static void
run_logged(mrd_loop *loop, mrd_loop_item *item)
{
    result *res = (result *) item;

    mrd_core_artifact_logged(loop->core, mrd_loop_now(), res->a, res->sha256);
    free(res);
}

static void
on_logged(void *self, uint64_t session, const char *sha256)
{
    result *res = result_new(run_logged, session, 0, NULL);

    mrd_text_set(res->sha256, sizeof(res->sha256), sha256);
    post(self, res);
}

typedef struct {
    const char *sha256;
    mrd_artifact_note *v;
    size_t n;
    bool part, listed, proven;
} notes;

static mrd_artifact_note *
note_of(notes *to, const mrd_session *session)
{
    mrd_artifact_note *note;

    if (to->n > 0 && to->v[to->n - 1].session == session->id)
        return &to->v[to->n - 1];
    if (!MRD_VEC_NEXT(to->v, to->n))
        /* Out of memory, so the file gets no log entry now. When an agent announces the file again,
         * the entry is tried again. */
        return NULL;
    note = &to->v[to->n++];
    *note = (mrd_artifact_note){ .session = session->id };
    mrd_text_set(note->text, sizeof(note->text), session->text);
    mrd_buf_byte(&note->lines, '\n'); /* ends a line that was left incomplete by a crash */
    return note;
}

static void
add_link(mrd_artifact_note *note, const mrd_listed_artifact *artifact)
{
    if (!MRD_VEC_NEXT(note->links, note->n_links))
        return;
    if (asprintf(&note->links[note->n_links], "%s_pid_%lld/%s", artifact->instance_id,
                 (long long) artifact->process_id, artifact->name) >= 0)
        note->n_links++;
}

static void
add_note(void *self, const mrd_session *session, const mrd_listed_artifact *artifact, bool is_new)
{
    mrd_artifact_note *note = note_of(self, session);
    mrd_json *line;

    /* A hard link that already exists stays unchanged, so new and old files are handled in the same
     * way. */
    (void) is_new;
    if (note == NULL)
        return;
    if ((line = mrd_listed_artifact_json(artifact)) == NULL)
        note->lines.err = MRD_NOMEM;
    else
        mrd_json_write(line, false, &note->lines);
    mrd_buf_byte(&note->lines, '\n');
    mrd_json_free(line);
    add_link(note, artifact);
}

static void
run_complete(mrd_core *core, mrd_core_time now, uint64_t ticket, void *arg)
{
    notes *to = arg;

    (void) ticket;
    mrd_core_artifact_complete(core, now, to->sha256, add_note, to);
    core->stats.artifacts += to->proven;
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
run_listed(mrd_core *core, mrd_core_time now, uint64_t ticket, void *arg)
{
    notes *to = arg;

    (void) ticket;
    mrd_core_enter(core, now);
    to->listed =
        core->unreadable > 0 || (to->part ? mrd_core_artifact_is_open(core, to->sha256)
                                          : mrd_stored_files_has(&core->files, to->sha256));
}

static bool
on_listed(void *self, const char *sha256, bool part)
{
    notes to = { .sha256 = sha256, .part = part, .listed = true };

    mrd_loop_run(self, run_listed, &to);
    return to.listed;
}

static void
run_removed_file(mrd_loop *loop, mrd_loop_item *item)
{
    result *res = (result *) item;

    mrd_core_enter(loop->core, mrd_loop_now());
    loop->core->stats.artifacts_removed += res->a;
    if (!loop->draining)
        mrd_cleaner_empty(loop->cleaner);
    free(res);
}

static void
on_removed_file(void *self, bool part)
{
    post(self, result_new(run_removed_file, !part, 0, NULL));
}

static void
run_limited(mrd_loop *loop, mrd_loop_item *item)
{
    result *res = (result *) item;
    mrd_node *node = mrd_nodes_by_id(&loop->core->nodes, res->instance_id);

    if (node != NULL)
        mrd_core_limited(loop->core, mrd_loop_now(), node, MRD_LIMIT_UPLOADS);
    free(res);
}

static void
on_limited(void *self, const char *instance_id)
{
    result *res = result_new(run_limited, 0, 0, NULL);

    mrd_text_set(res->instance_id, sizeof(res->instance_id), instance_id);
    post(self, res);
}

/* ---- Starting the services ---- */

mrd_err
mrd_loop_open_services(mrd_loop *loop, mrd_why *why)
{
    mrd_journals_options journals = {
        .store = loop->o.store, .stored = on_stored, .closed = on_closed, .self = loop
    };
    mrd_merger_options merger = { .progress = on_progress,
                                  .done = on_merged,
                                  .damaged = on_damaged,
                                  .self = loop,
                                  .split = loop->o.merge_split,
                                  .formats = loop->o.merge_formats };
    mrd_artifacts_options artifacts = { .store = loop->o.store,
                                        .server = loop->o.server,
                                        .grown = on_grown,
                                        .complete = on_complete,
                                        .logged = on_logged,
                                        .listed = on_listed,
                                        .removed = on_removed_file,
                                        .limited = on_limited,
                                        .self = loop };
    mrd_cleaner_options cleaner = { .store = loop->o.store,
                                    .measured = on_measured,
                                    .removed = on_removed,
                                    .disk = on_disk,
                                    .gone = on_gone,
                                    .self = loop };
    mrd_surveys_options surveys = { .server = loop->o.server,
                                    .answered = on_answered,
                                    .self = loop };
    mrd_exporter_options exporter = { .store = loop->o.store,
                                      .target = loop->o.export_to,
                                      .targets = loop->o.export_targets,
                                      .owner = loop->o.export_owner,
                                      .path = loop->o.export_path,
                                      .formats = loop->o.merge_formats,
                                      .cluster = loop->o.cluster,
                                      .rate = loop->o.export_rate,
                                      .began = on_export_began,
                                      .done = on_exported,
                                      .stalled = on_export_stalled,
                                      .self = loop };
    mrd_converter_options viewer = { .store = loop->o.store,
                                     .settings = loop->o.viewer,
                                     .disk_reserve = loop->o.core.limits.disk_reserve,
                                     .began = on_conversion_began,
                                     .list = on_conversion_list,
                                     .ended = on_conversion_ended,
                                     .found = on_viewer_found,
                                     .there = loop->o.core.limits.conversions > 0,
                                     .self = loop };
    mrd_err err;

    if (loop->o.viewer != NULL && (err = mrd_converter_open(&viewer, &loop->viewer, why)) != MRD_OK)
        return err;
    if ((loop->o.export_to != NULL || loop->o.export_targets != NULL) &&
        (err = mrd_exporter_open(&exporter, &loop->exporter, why)) != MRD_OK)
        return err;
    if ((err = mrd_journals_open(&journals, &loop->journals, why)) != MRD_OK ||
        (err = mrd_pool_open("manifests", 1, MANIFESTS_MAX, &loop->manifests, why)) != MRD_OK ||
        (err = mrd_merger_open(&merger, &loop->merger, why)) != MRD_OK ||
        (err = mrd_artifacts_open(&artifacts, &loop->artifacts, why)) != MRD_OK ||
        (err = mrd_cleaner_open(&cleaner, &loop->cleaner, why)) != MRD_OK)
        return err;
    return mrd_surveys_open(&surveys, &loop->surveys, why);
}
