#include "aggregator/core/node/models.h"

#include <stdio.h>
#include <stdlib.h>

#include "aggregator/core/common/limits.h"
#include "aggregator/core/common/text.h"
#include "base/obj.h"

static bool
same_text(const mrd_json *a, const mrd_json *b, const char *key)
{
    return strcmp(mrd_json_str(a, key, ""), mrd_json_str(b, key, "")) == 0;
}

/* Two models are equal if their hashes are. Without a hash their other members are compared. */
static bool
same_model(const mrd_json *a, const mrd_json *b)
{
    if (!same_text(a, b, "sha256"))
        return false;
    return *mrd_json_str(a, "sha256", "") != '\0' ||
           (same_text(a, b, "name") && same_text(a, b, "path") &&
            mrd_json_int(a, "size", 0) == mrd_json_int(b, "size", 0));
}

static mrd_json *
find(const mrd_json *models, const mrd_json *model)
{
    for (size_t i = 0; i < mrd_json_size(models); i++)
        if (same_model(mrd_json_at(models, i), model))
            return mrd_json_at(models, i);
    return NULL;
}

static void
put_text(mrd_json *o, const char *key, const char *text, size_t max)
{
    char cut[MRD_TEXT_MAX];

    mrd_text_set(cut, max < sizeof(cut) ? max : sizeof(cut), text);
    if (*cut != '\0')
        mrd_json_set(o, key, mrd_json_new_str(cut));
}

/* Adds the name of the same model if it was unknown. */
static void
put_name(mrd_json *to, const mrd_json *from)
{
    if (mrd_json_get(to, "name") == NULL && mrd_json_get(from, "name") != NULL)
        mrd_json_set(to, "name", mrd_json_copy(mrd_json_get(from, "name")));
}

/* Takes ownership of `model` and `load`. */
static void
add(mrd_json *models, mrd_json *model, mrd_json *load)
{
    mrd_json *there = find(models, model);

    if (there == NULL) {
        mrd_json_set(model, "loads", mrd_json_new_array());
        mrd_json_append(models, model);
        there = model;
    } else {
        put_name(there, model);
        mrd_json_free(model);
    }
    mrd_json_append(mrd_json_get(there, "loads"), load);
}

static mrd_json *
model_json(const Mrd__ModelLoad *m)
{
    mrd_json *o = mrd_json_new_object();

    put_text(o, "sha256", m->sha256, 65);
    put_text(o, "name", m->name, MRD_TEXT_MAX);
    put_text(o, "path", m->path, MRD_TEXT_MAX);
    mrd_json_set(o, "size", mrd_json_new_count(m->size));
    return o;
}

static void
put_times(mrd_json *o, const char *key, int64_t local_ns, int64_t wall_minus_local)
{
    char name[32];

    if (local_ns == 0)
        return;
    snprintf(name, sizeof(name), "%s_local_ns", key);
    mrd_json_set(o, name, mrd_json_new_int(local_ns));
    mrd_json_put_instant(o, key, mrd_time_checked(local_ns + wall_minus_local));
}

static mrd_json *
load_json(const Mrd__ModelLoad *m, int64_t wall_minus_local)
{
    mrd_json *o = mrd_json_new_object();

    mrd_json_set(o, "process_id", mrd_json_new_int(m->process_id));
    mrd_json_set(o, "model_id", mrd_json_new_count(m->model_id));
    if (m->runtime_id >= 0)
        mrd_json_set(o, "runtime_id", mrd_json_new_int(m->runtime_id));
    if (m->lnc_idx >= 0)
        mrd_json_set(o, "lnc_idx", mrd_json_new_int(m->lnc_idx));
    if (m->lnc_count > 0)
        mrd_json_set(o, "lnc_count", mrd_json_new_int(m->lnc_count));
    mrd_json_set(o, "kept", mrd_json_new_bool(m->kept));
    put_times(o, "loaded", mrd_time_checked(m->loaded_local_ns), wall_minus_local);
    put_times(o, "unloaded", mrd_time_checked(m->unloaded_local_ns), wall_minus_local);
    return o;
}

mrd_node_models *
mrd_node_models_new(const Mrd__ModelList *from, mrd_local_ns local, mrd_wall_ns wall)
{
    mrd_node_models *l = from == NULL ? NULL : calloc(1, sizeof(*l));
    size_t n = from == NULL ? 0 : from->n_loads;

    if (l == NULL)
        return NULL;
    l->refs = 1;
    l->models = mrd_json_new_array();
    l->left_out = mrd_count_checked(from->left_out);
    if (n > MRD_LOADS_MAX) {
        l->left_out += n - MRD_LOADS_MAX;
        n = MRD_LOADS_MAX;
    }
    for (size_t i = 0; i < n; i++)
        add(l->models, model_json(from->loads[i]), load_json(from->loads[i], wall.ns - local.ns));
    return l;
}

mrd_node_models *
mrd_node_models_load(const mrd_json *o)
{
    const mrd_json *models = mrd_json_get(o, "models");
    mrd_node_models *l;

    if (!mrd_json_is_array(models) || (l = calloc(1, sizeof(*l))) == NULL)
        return NULL;
    l->refs = 1;
    l->models = mrd_json_new_array();
    l->left_out = mrd_count_checked((uint64_t) mrd_json_int(o, "models_left_out", 0));
    for (size_t i = 0; i < mrd_json_size(models); i++)
        if (mrd_json_is_array(mrd_json_get(mrd_json_at(models, i), "loads")))
            mrd_json_append(l->models, mrd_json_copy(mrd_json_at(models, i)));
    return l;
}

mrd_node_models *
mrd_node_models_ref(mrd_node_models *l)
{
    if (l != NULL)
        mrd_refs_take(&l->refs);
    return l;
}

void
mrd_node_models_unref(mrd_node_models *l)
{
    if (l == NULL || !mrd_refs_drop(&l->refs))
        return;
    mrd_json_free(l->models);
    free(l);
}

void
mrd_node_models_put(const mrd_node_models *l, mrd_json *o)
{
    if (l == NULL)
        return;
    mrd_json_set(o, "models", mrd_json_copy(l->models));
    mrd_json_set(o, "models_left_out", mrd_json_new_count(l->left_out));
}

void
mrd_node_models_gather(const mrd_node_models *l, const char *instance_id, mrd_json *models)
{
    for (size_t i = 0; l != NULL && i < mrd_json_size(l->models); i++) {
        const mrd_json *from = mrd_json_at(l->models, i), *loads = mrd_json_get(from, "loads");
        mrd_json *there = find(models, from);

        if (there == NULL) {
            there = mrd_json_copy(from);
            mrd_json_set(there, "loads", mrd_json_new_array());
            mrd_json_append(models, there);
        }
        put_name(there, from);
        for (size_t j = 0; j < mrd_json_size(loads); j++) {
            mrd_json *load = mrd_json_copy(mrd_json_at(loads, j));

            mrd_json_set(load, "instance_id", mrd_json_new_str(instance_id));
            mrd_json_append(mrd_json_get(there, "loads"), load);
        }
    }
}
