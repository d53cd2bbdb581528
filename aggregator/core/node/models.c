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

/* Returns true if both models have the same SHA-256. Models without a SHA-256 are compared by their
 * other members. */
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
put_text(mrd_json *json, const char *key, const char *text, size_t max)
{
    char cut[MRD_TEXT_MAX];

    mrd_text_set(cut, max < sizeof(cut) ? max : sizeof(cut), text);
    if (*cut != '\0')
        mrd_json_set(json, key, mrd_json_new_str(cut));
}

/* Copies the name of the model `from` to `to`, if `to` has none. */
static void
put_name(mrd_json *to, const mrd_json *from)
{
    if (mrd_json_get(to, "name") == NULL && mrd_json_get(from, "name") != NULL)
        mrd_json_set(to, "name", mrd_json_copy(mrd_json_get(from, "name")));
}

/* Adds `load` to the list of loads of its model. If `models` lacks the model, adds the model first.
 * Takes ownership of `model` and `load`. */
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
model_json(const Mrd__ModelLoad *load)
{
    mrd_json *json = mrd_json_new_object();

    put_text(json, "sha256", load->sha256, 65);
    put_text(json, "name", load->name, MRD_TEXT_MAX);
    put_text(json, "path", load->path, MRD_TEXT_MAX);
    mrd_json_set(json, "size", mrd_json_new_count(load->size));
    return json;
}

static void
put_times(mrd_json *json, const char *key, int64_t local_ns, int64_t wall_minus_local)
{
    char name[32];

    if (local_ns == 0)
        return;
    snprintf(name, sizeof(name), "%s_local_ns", key);
    mrd_json_set(json, name, mrd_json_new_int(local_ns));
    mrd_json_put_instant(json, key, mrd_time_checked(local_ns + wall_minus_local));
}

static mrd_json *
load_json(const Mrd__ModelLoad *load, int64_t wall_minus_local)
{
    mrd_json *json = mrd_json_new_object();

    mrd_json_set(json, "process_id", mrd_json_new_int(load->process_id));
    mrd_json_set(json, "model_id", mrd_json_new_count(load->model_id));
    if (load->runtime_id >= 0)
        mrd_json_set(json, "runtime_id", mrd_json_new_int(load->runtime_id));
    if (load->lnc_idx >= 0)
        mrd_json_set(json, "lnc_idx", mrd_json_new_int(load->lnc_idx));
    if (load->lnc_count > 0)
        mrd_json_set(json, "lnc_count", mrd_json_new_int(load->lnc_count));
    mrd_json_set(json, "kept", mrd_json_new_bool(load->kept));
    put_times(json, "loaded", mrd_time_checked(load->loaded_local_ns), wall_minus_local);
    put_times(json, "unloaded", mrd_time_checked(load->unloaded_local_ns), wall_minus_local);
    return json;
}

mrd_node_models *
mrd_node_models_new(const Mrd__ModelList *from, mrd_local_ns local, mrd_wall_ns wall)
{
    mrd_node_models *list = from == NULL ? NULL : calloc(1, sizeof(*list));
    size_t n = from == NULL ? 0 : from->n_loads;

    if (list == NULL)
        return NULL;
    list->refs = 1;
    list->models = mrd_json_new_array();
    list->left_out = mrd_count_checked(from->left_out);
    if (n > MRD_LOADS_MAX) {
        list->left_out += n - MRD_LOADS_MAX;
        n = MRD_LOADS_MAX;
    }
    for (size_t i = 0; i < n; i++)
        add(list->models, model_json(from->loads[i]),
            load_json(from->loads[i], wall.ns - local.ns));
    return list;
}

mrd_node_models *
mrd_node_models_load(const mrd_json *json)
{
    const mrd_json *models = mrd_json_get(json, "models");
    mrd_node_models *list;

    if (!mrd_json_is_array(models) || (list = calloc(1, sizeof(*list))) == NULL)
        return NULL;
    list->refs = 1;
    list->models = mrd_json_new_array();
    list->left_out = mrd_count_checked((uint64_t) mrd_json_int(json, "models_left_out", 0));
    for (size_t i = 0; i < mrd_json_size(models); i++)
        if (mrd_json_is_array(mrd_json_get(mrd_json_at(models, i), "loads")))
            mrd_json_append(list->models, mrd_json_copy(mrd_json_at(models, i)));
    return list;
}

mrd_node_models *
mrd_node_models_ref(mrd_node_models *list)
{
    if (list != NULL)
        mrd_refs_take(&list->refs);
    return list;
}

void
mrd_node_models_unref(mrd_node_models *list)
{
    if (list == NULL || !mrd_refs_drop(&list->refs))
        return;
    mrd_json_free(list->models);
    free(list);
}

void
mrd_node_models_put(const mrd_node_models *list, mrd_json *json)
{
    if (list == NULL)
        return;
    mrd_json_set(json, "models", mrd_json_copy(list->models));
    mrd_json_set(json, "models_left_out", mrd_json_new_count(list->left_out));
}

void
mrd_node_models_gather(const mrd_node_models *list, const char *instance_id, mrd_json *models)
{
    for (size_t i = 0; list != NULL && i < mrd_json_size(list->models); i++) {
        const mrd_json *from = mrd_json_at(list->models, i), *loads = mrd_json_get(from, "loads");
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
