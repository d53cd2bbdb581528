#include "aggregator/core/node/runtime_features.h"

#include <stdlib.h>

#include "aggregator/core/common/text.h"
#include "base/obj.h"

#define NAMES_MAX 256
#define NAME_MAX_ 128

static mrd_json *
names(char *const *from, size_t n)
{
    mrd_json *list = mrd_json_new_array();

    for (size_t i = 0; i < n && i < NAMES_MAX; i++) {
        char cut[NAME_MAX_];

        mrd_text_set(cut, sizeof(cut), from[i]);
        mrd_json_append(list, mrd_json_new_str(cut));
    }
    return list;
}

static mrd_runtime_features *
made(mrd_json *json)
{
    mrd_runtime_features *features = calloc(1, sizeof(*features));

    if (features == NULL) {
        mrd_json_free(json);
        return NULL;
    }
    features->refs = 1;
    features->json = json;
    return features;
}

mrd_runtime_features *
mrd_runtime_features_new(const Mrd__RuntimeFeatures *from)
{
    mrd_json *json;
    char version[64], labels[192];

    if (from == NULL)
        return NULL;
    json = mrd_json_new_object();
    mrd_text_set(version, sizeof(version), from->version);
    mrd_json_set(json, "version", mrd_json_new_str(version));
    mrd_text_set(labels, sizeof(labels), from->labels);
    if (labels[0] != '\0')
        mrd_json_set(json, "labels", mrd_json_new_str(labels));
    mrd_json_set(json, "event_types", names(from->event_types, from->n_event_types));
    mrd_json_set(json, "unknown_functions",
                 names(from->unknown_functions, from->n_unknown_functions));
    return made(json);
}

mrd_runtime_features *
mrd_runtime_features_load(const mrd_json *json)
{
    const mrd_json *there = mrd_json_get(json, "runtime");

    return there == NULL ? NULL : made(mrd_json_copy(there));
}

mrd_runtime_features *
mrd_runtime_features_ref(mrd_runtime_features *features)
{
    if (features != NULL)
        mrd_refs_take(&features->refs);
    return features;
}

void
mrd_runtime_features_unref(mrd_runtime_features *features)
{
    if (features == NULL || !mrd_refs_drop(&features->refs))
        return;
    mrd_json_free(features->json);
    free(features);
}

void
mrd_runtime_features_put(const mrd_runtime_features *features, mrd_json *json)
{
    if (features != NULL)
        mrd_json_set(json, "runtime", mrd_json_copy(features->json));
}

bool
mrd_runtime_features_has(const mrd_runtime_features *features, const char *type)
{
    const mrd_json *types = features == NULL ? NULL : mrd_json_get(features->json, "event_types");

    for (size_t i = 0; types != NULL && i < mrd_json_size(types); i++) {
        char scratch[64];
        mrd_str text;

        if (mrd_json_text(mrd_json_at(types, i), scratch, &text) == MRD_OK &&
            mrd_str_is(text, type))
            return true;
    }
    return false;
}
