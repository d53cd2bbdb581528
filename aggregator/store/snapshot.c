#include "aggregator/store/snapshot.h"

#include <stdio.h>
#include <stdlib.h>

#include "aggregator/core/common/text.h"
#include "base/obj.h"

mrd_session_view *
mrd_session_view_new(const mrd_core *core, const mrd_session *session)
{
    mrd_session_view *view = calloc(1, sizeof(*view));

    if (view == NULL || (view->s = mrd_session_copy(session)) == NULL) {
        free(view);
        return NULL;
    }
    view->refs = 1;
    view->x = mrd_core_manifest_context(core);
    view->timescale = core->timescale;
    view->made = core->now.local;
    if (view->x.store_message != NULL) {
        mrd_text_set(view->store_message, sizeof(view->store_message), view->x.store_message);
        view->x.store_message = view->store_message;
    }
    return view;
}

/* Relaxed memory order is sufficient, because the caller already holds a reference. */
mrd_session_view *
mrd_session_view_ref(mrd_session_view *view)
{
    mrd_refs_take(&view->refs);
    return view;
}

void
mrd_session_view_unref(mrd_session_view *view)
{
    if (view == NULL || !mrd_refs_drop(&view->refs))
        return;
    mrd_session_free((mrd_session *) (uintptr_t) view->s);
    free(view);
}

mrd_json *
mrd_session_view_json(const mrd_session_view *view)
{
    return mrd_session_json(view->s, &view->x);
}

mrd_json *
mrd_session_view_file(const mrd_session_view *view)
{
    mrd_manifest_context context = view->x;

    context.of_file = true;
    return mrd_session_json(view->s, &context);
}

/* ---- Copy of all nodes and summaries ---- */

/* Returns the session's progress from 0 to 1: the elapsed part of a recording with a duration, or
 * the merged part of the session's events. Returns -1 in all other cases. */
static double
progress(const mrd_core *core, const mrd_session *session)
{
    double part;

    if (session->state == MRD_SESSION_RECORDING && session->params.duration > 0 &&
        session->go.ns > 0)
        part = (double) (mrd_core_session_now(core).ns - session->go.ns) /
               (double) session->params.duration;
    else if (session->job.state == MRD_MERGE_RUNNING)
        part = session->job.total == 0 ? 0
                                       : (double) session->job.events / (double) session->job.total;
    else
        return -1;
    return part < 0 ? 0 : part > 1 ? 1 : part;
}

static bool
fill_line(const mrd_core *core, const mrd_session *session, mrd_session_line *to)
{
    *to = (mrd_session_line){ .id = session->id,
                              .recorder = mrd_session_is_recorder(session),
                              .state = session->state,
                              .copy = session->copy.state,
                              .created = session->created,
                              .parts = session->n_parts,
                              .store_bytes = mrd_session_bytes(session),
                              .artifact_bytes = session->artifact_bytes,
                              .jobs_left_out =
                                  mrd_session_is_of_one_job(session) ? 0 : session->jobs_left_out,
                              .of_job = mrd_session_has_owner(session),
                              .uid = session->of_job.key.uid,
                              .progress = progress(core, session) };
    mrd_text_set(to->text, sizeof(to->text), session->text);
    mrd_text_set(to->name, sizeof(to->name), session->params.name);
    mrd_text_set(to->message, sizeof(to->message), session->message);
    for (size_t i = 0; i < session->n_parts; i++) {
        const mrd_part *part = session->parts[i];

        to->events += part->events;
        to->bytes += part->bytes;
        to->lost += mrd_part_lost(part) - mrd_counts_unwanted(&part->counts);
        to->lost += part->damage.events;
        to->without += mrd_part_is_without(part);
    }
    for (size_t i = 0; i < session->conversions.n; i++)
        to->conversions[session->conversions.v[i].state]++;
    return mrd_strings_copy(&to->jobs, &session->jobs) == MRD_OK &&
           mrd_strings_copy(&to->owner_keys, &session->of_job.owner_keys) == MRD_OK;
}

static int
by_name(const void *a, const void *b)
{
    const mrd_node *const *x = a, *const *y = b;

    return strcmp((*x)->instance_id, (*y)->instance_id);
}

static int
by_age(const void *a, const void *b)
{
    const mrd_session_line *x = a, *y = b;
    int later = mrd_wall_before(y->created, x->created) - mrd_wall_before(x->created, y->created);

    return later != 0 ? later : (x->id > y->id) - (x->id < y->id);
}

static bool
copy_nodes(const mrd_core *core, mrd_overview *overview)
{
    for (size_t i = 0; i < core->nodes.n; i++) {
        if (core->nodes.v[i]->forget)
            continue;
        if ((overview->nodes[overview->n_nodes] = mrd_node_copy(core->nodes.v[i])) == NULL)
            return false;
        overview->n_nodes++;
    }
    qsort(overview->nodes, overview->n_nodes, sizeof(*overview->nodes), by_name);
    return true;
}

/* Sets the message about the store: the reason why nothing can be stored, or else the problem of
 * the first session that cannot be read or stored. */
static void
fill_store_message(const mrd_core *core, mrd_overview *overview)
{
    const char *all = mrd_core_store_message(core);

    if (all != NULL)
        mrd_text_set(overview->store_message, sizeof(overview->store_message), all);
    for (unsigned i = 0; i < core->unreadable && overview->store_message[0] == '\0'; i++) {
        char id[MRD_SESSION_TEXT];

        mrd_session_id_text(core->unreadables[i].id, id);
        snprintf(overview->store_message, sizeof(overview->store_message),
                 "session %s cannot be read%s: %s", id, core->unreadables[i].may_pass ? " now" : "",
                 core->unreadables[i].why);
    }
    for (size_t i = 0; i < core->n_sessions && overview->store_message[0] == '\0'; i++) {
        const mrd_session *session = core->sessions[i];

        if (mrd_session_is_open(session) && !session->deleted && session->unstored[0] != '\0')
            snprintf(overview->store_message, sizeof(overview->store_message),
                     "events of session %s cannot be stored: %s", session->text, session->unstored);
    }
}

static bool
copy_hang(const mrd_core *core, const mrd_hang_verdict *from, mrd_hang_line *to)
{
    to->v = *from;
    for (size_t i = 0; i < to->v.n_stacks; i++)
        (void) mrd_hang_text_ref(to->v.stacks[i].text);
    if (mrd_strlist_add(&to->jobs, mrd_str_of(from->identity)) != MRD_OK)
        return false;
    return mrd_job_owner_keys(core, &from->job, &to->owner_keys);
}

static bool
copy_hangs(const mrd_core *core, mrd_overview *overview)
{
    const mrd_hang_verdict *from;
    size_t n = 0;

    mrd_hang_get_counts(core->hang, &overview->hang);
    while (mrd_hang_get(core->hang, n) != NULL)
        n++;
    if ((overview->hangs = calloc(n + 1, sizeof(*overview->hangs))) == NULL)
        return false;
    while ((from = mrd_hang_get(core->hang, overview->n_hangs)) != NULL)
        if (!copy_hang(core, from, &overview->hangs[overview->n_hangs++]))
            return false;
    return true;
}

mrd_overview *
mrd_overview_new(const mrd_core *core)
{
    mrd_overview *overview = calloc(1, sizeof(*overview));

    if (overview == NULL)
        return NULL;
    overview->refs = 1;
    overview->made = core->now.local;
    overview->made_wall = core->now.wall;
    overview->limits = core->limits;
    overview->stats = core->stats;
    overview->unreadable = core->unreadable;
    overview->disk_full = core->disk_full;
    overview->store_gone = core->store_gone;
    fill_store_message(core, overview);
    overview->store_bytes = mrd_core_store_bytes(core);
    overview->nodes_known = core->nodes.n;
    if ((overview->nodes = calloc(core->nodes.n + 1, sizeof(*overview->nodes))) == NULL ||
        (overview->sessions = calloc(core->n_sessions + 1, sizeof(*overview->sessions))) == NULL ||
        !copy_nodes(core, overview) || !copy_hangs(core, overview) ||
        !mrd_job_lines_fill(&overview->jobs, core)) {
        mrd_overview_unref(overview);
        return NULL;
    }
    for (size_t i = 0; i < core->n_sessions; i++) {
        if (!core->sessions[i]->deleted &&
            !fill_line(core, core->sessions[i], &overview->sessions[overview->n_sessions++])) {
            mrd_overview_unref(overview);
            return NULL;
        }
    }
    /* The core's list of sessions is unsorted: directories are read in any order, and a removed
     * entry is replaced by the last one. */
    qsort(overview->sessions, overview->n_sessions, sizeof(*overview->sessions), by_age);
    return overview;
}

mrd_overview *
mrd_overview_ref(mrd_overview *overview)
{
    mrd_refs_take(&overview->refs);
    return overview;
}

void
mrd_overview_unref(mrd_overview *overview)
{
    if (overview == NULL || !mrd_refs_drop(&overview->refs))
        return;
    for (size_t i = 0; i < overview->n_nodes; i++)
        mrd_node_free(overview->nodes[i]);
    free(overview->nodes);
    for (size_t i = 0; i < overview->n_sessions; i++) {
        mrd_strlist_fini(&overview->sessions[i].jobs);
        mrd_strlist_fini(&overview->sessions[i].owner_keys);
    }
    for (size_t i = 0; i < overview->n_hangs; i++) {
        for (size_t k = 0; k < overview->hangs[i].v.n_stacks; k++)
            mrd_hang_text_unref(overview->hangs[i].v.stacks[k].text);
        mrd_strlist_fini(&overview->hangs[i].jobs);
        mrd_strlist_fini(&overview->hangs[i].owner_keys);
    }
    mrd_job_lines_fini(&overview->jobs);
    free(overview->hangs);
    free(overview->sessions);
    free(overview);
}

const mrd_node *
mrd_overview_node(const mrd_overview *overview, mrd_str instance_id)
{
    for (size_t i = 0; i < overview->n_nodes; i++) {
        if (mrd_str_is(instance_id, overview->nodes[i]->instance_id))
            return overview->nodes[i];
    }
    return NULL;
}
