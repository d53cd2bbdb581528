#include "aggregator/store/snapshot.h"

#include <stdio.h>
#include <stdlib.h>

#include "aggregator/core/common/text.h"
#include "base/obj.h"

mrd_session_view *
mrd_session_view_new(const mrd_core *c, const mrd_session *s)
{
    mrd_session_view *v = calloc(1, sizeof(*v));

    if (v == NULL || (v->s = mrd_session_copy(s)) == NULL) {
        free(v);
        return NULL;
    }
    v->refs = 1;
    v->x = mrd_core_manifest_context(c);
    v->timescale = c->timescale;
    v->made = c->now.local;
    if (v->x.store_message != NULL) {
        mrd_text_set(v->store_message, sizeof(v->store_message), v->x.store_message);
        v->x.store_message = v->store_message;
    }
    return v;
}

/* relaxed, because the caller already holds a reference */
mrd_session_view *
mrd_session_view_ref(mrd_session_view *v)
{
    mrd_refs_take(&v->refs);
    return v;
}

void
mrd_session_view_unref(mrd_session_view *v)
{
    if (v == NULL || !mrd_refs_drop(&v->refs))
        return;
    mrd_session_free((mrd_session *) (uintptr_t) v->s);
    free(v);
}

mrd_json *
mrd_session_view_json(const mrd_session_view *v)
{
    return mrd_session_json(v->s, &v->x);
}

mrd_json *
mrd_session_view_file(const mrd_session_view *v)
{
    mrd_manifest_context x = v->x;

    x.of_file = true;
    return mrd_session_json(v->s, &x);
}

/* ---- Overview ---- */

/* Returns the elapsed part of the duration, or the merged part of the events. */
static double
progress(const mrd_core *c, const mrd_session *s)
{
    double part;

    if (s->state == MRD_SESSION_RECORDING && s->params.duration > 0 && s->go.ns > 0)
        part = (double) (mrd_core_session_now(c).ns - s->go.ns) / (double) s->params.duration;
    else if (s->job.state == MRD_MERGE_RUNNING)
        part = s->job.total == 0 ? 0 : (double) s->job.events / (double) s->job.total;
    else
        return -1;
    return part < 0 ? 0 : part > 1 ? 1 : part;
}

static bool
fill_line(const mrd_core *c, const mrd_session *s, mrd_session_line *to)
{
    *to = (mrd_session_line){ .id = s->id,
                              .recorder = mrd_session_is_recorder(s),
                              .state = s->state,
                              .copy = s->copy.state,
                              .created = s->created,
                              .parts = s->n_parts,
                              .store_bytes = mrd_session_bytes(s),
                              .artifact_bytes = s->artifact_bytes,
                              .jobs_left_out = mrd_session_is_of_one_job(s) ? 0 : s->jobs_left_out,
                              .of_job = mrd_session_has_owner(s),
                              .uid = s->of_job.key.uid,
                              .progress = progress(c, s) };
    mrd_text_set(to->text, sizeof(to->text), s->text);
    mrd_text_set(to->name, sizeof(to->name), s->params.name);
    mrd_text_set(to->message, sizeof(to->message), s->message);
    for (size_t i = 0; i < s->n_parts; i++) {
        const mrd_part *p = s->parts[i];

        to->events += p->events;
        to->bytes += p->bytes;
        to->lost += mrd_part_lost(p) - mrd_counts_unwanted(&p->counts);
        to->lost += p->damage.events;
        to->without += mrd_part_is_without(p);
    }
    for (size_t i = 0; i < s->conversions.n; i++)
        to->conversions[s->conversions.v[i].state]++;
    return mrd_strings_copy(&to->jobs, &s->jobs) == MRD_OK &&
           mrd_strings_copy(&to->owner_keys, &s->of_job.owner_keys) == MRD_OK;
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
copy_nodes(const mrd_core *c, mrd_overview *v)
{
    for (size_t i = 0; i < c->nodes.n; i++) {
        if (c->nodes.v[i]->forget)
            continue;
        if ((v->nodes[v->n_nodes] = mrd_node_copy(c->nodes.v[i])) == NULL)
            return false;
        v->n_nodes++;
    }
    qsort(v->nodes, v->n_nodes, sizeof(*v->nodes), by_name);
    return true;
}

/* The message of the store, or of the first session that cannot be read or stored. */
static void
fill_store_message(const mrd_core *c, mrd_overview *v)
{
    const char *all = mrd_core_store_message(c);

    if (all != NULL)
        mrd_text_set(v->store_message, sizeof(v->store_message), all);
    for (unsigned i = 0; i < c->unreadable && v->store_message[0] == '\0'; i++) {
        char id[MRD_SESSION_TEXT];

        mrd_session_id_text(c->unreadables[i].id, id);
        snprintf(v->store_message, sizeof(v->store_message), "session %s cannot be read%s: %s", id,
                 c->unreadables[i].may_pass ? " now" : "", c->unreadables[i].why);
    }
    for (size_t i = 0; i < c->n_sessions && v->store_message[0] == '\0'; i++) {
        const mrd_session *s = c->sessions[i];

        if (mrd_session_is_open(s) && !s->deleted && s->unstored[0] != '\0')
            snprintf(v->store_message, sizeof(v->store_message),
                     "events of session %s cannot be stored: %s", s->text, s->unstored);
    }
}

static bool
copy_hang(const mrd_core *c, const mrd_hang_verdict *from, mrd_hang_line *to)
{
    to->v = *from;
    if (mrd_strlist_add(&to->jobs, mrd_str_of(from->identity)) != MRD_OK)
        return false;
    for (size_t i = 0; i < c->n_sessions; i++) {
        const mrd_session *s = c->sessions[i];

        if (mrd_job_key_equal(&s->of_job.key, &from->job) && mrd_session_has_owner(s) &&
            to->owner_keys.n == 0)
            return mrd_strings_copy(&to->owner_keys, &s->of_job.owner_keys) == MRD_OK;
    }
    return true;
}

static bool
copy_hangs(const mrd_core *c, mrd_overview *v)
{
    const mrd_hang_verdict *from;
    size_t n = 0;

    mrd_hang_get_counts(c->hang, &v->hang);
    while (mrd_hang_get(c->hang, n) != NULL)
        n++;
    if ((v->hangs = calloc(n + 1, sizeof(*v->hangs))) == NULL)
        return false;
    while ((from = mrd_hang_get(c->hang, v->n_hangs)) != NULL)
        if (!copy_hang(c, from, &v->hangs[v->n_hangs++]))
            return false;
    return true;
}

mrd_overview *
mrd_overview_new(const mrd_core *c)
{
    mrd_overview *v = calloc(1, sizeof(*v));

    if (v == NULL)
        return NULL;
    v->refs = 1;
    v->made = c->now.local;
    v->made_wall = c->now.wall;
    v->limits = c->limits;
    v->stats = c->stats;
    v->unreadable = c->unreadable;
    v->disk_full = c->disk_full;
    v->store_gone = c->store_gone;
    fill_store_message(c, v);
    v->store_bytes = mrd_core_store_bytes(c);
    v->nodes_known = c->nodes.n;
    if ((v->nodes = calloc(c->nodes.n + 1, sizeof(*v->nodes))) == NULL ||
        (v->sessions = calloc(c->n_sessions + 1, sizeof(*v->sessions))) == NULL ||
        !copy_nodes(c, v) || !copy_hangs(c, v)) {
        mrd_overview_unref(v);
        return NULL;
    }
    for (size_t i = 0; i < c->n_sessions; i++) {
        if (!c->sessions[i]->deleted &&
            !fill_line(c, c->sessions[i], &v->sessions[v->n_sessions++])) {
            mrd_overview_unref(v);
            return NULL;
        }
    }
    /* Sessions are found on disk in any order, and free slots are filled with the last one. */
    qsort(v->sessions, v->n_sessions, sizeof(*v->sessions), by_age);
    return v;
}

mrd_overview *
mrd_overview_ref(mrd_overview *v)
{
    mrd_refs_take(&v->refs);
    return v;
}

void
mrd_overview_unref(mrd_overview *v)
{
    if (v == NULL || !mrd_refs_drop(&v->refs))
        return;
    for (size_t i = 0; i < v->n_nodes; i++)
        mrd_node_free(v->nodes[i]);
    free(v->nodes);
    for (size_t i = 0; i < v->n_sessions; i++) {
        mrd_strlist_fini(&v->sessions[i].jobs);
        mrd_strlist_fini(&v->sessions[i].owner_keys);
    }
    for (size_t i = 0; i < v->n_hangs; i++) {
        mrd_strlist_fini(&v->hangs[i].jobs);
        mrd_strlist_fini(&v->hangs[i].owner_keys);
    }
    free(v->hangs);
    free(v->sessions);
    free(v);
}

const mrd_node *
mrd_overview_node(const mrd_overview *v, mrd_str instance_id)
{
    for (size_t i = 0; i < v->n_nodes; i++) {
        if (mrd_str_is(instance_id, v->nodes[i]->instance_id))
            return v->nodes[i];
    }
    return NULL;
}
