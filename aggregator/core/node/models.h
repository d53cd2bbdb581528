/*
 * aggregator/core/node/models.h - the models loaded on a node, as its agent reported. The list of a
 * session has all models that were loaded at some time during the session. The list of a node has
 * the models that are loaded now. A list is immutable, so that copies of nodes and sessions share
 * it.
 *
 * In JSON, each model is one object with sha256, name, path (each if recorded), size, and loads. A
 * load has process_id, model_id, runtime_id, lnc_idx (if recorded), lnc_count, loaded_local_ns,
 * unloaded_local_ns (absent if still loaded), and the same times by the node's wall clock (loaded,
 * loaded_ns, ...).
 *
 * Threads: one thread makes a list. Then any thread may read, reference and release it.
 */
#ifndef MRD_AGGREGATOR_CORE_NODE_MODELS_H
#define MRD_AGGREGATOR_CORE_NODE_MODELS_H

#include "aggregator/core/common/json.h"
#include "base/clock.h"
#include "proto/wire.h"

typedef struct {
    unsigned refs;    /* reference count, accessed atomically */
    mrd_json *models; /* JSON array of models */
    uint64_t left_out;
} mrd_node_models;

/* Makes a list from a message. `local` and `wall` are readings of the node's two clocks at the same
 * moment. Returns NULL if out of memory or `from` is NULL. */
mrd_node_models *mrd_node_models_new(const Mrd__ModelList *from, mrd_local_ns local,
                                     mrd_wall_ns wall);
/* Reads the list that mrd_node_models_put wrote. Returns NULL if there is none. */
mrd_node_models *mrd_node_models_load(const mrd_json *json);
mrd_node_models *mrd_node_models_ref(mrd_node_models *list); /* returns NULL for NULL */
void mrd_node_models_unref(mrd_node_models *list);           /* does nothing for NULL */
/* Puts "models" and "models_left_out" into *json. Puts nothing for NULL. */
void mrd_node_models_put(const mrd_node_models *list, mrd_json *json);
/* Adds the models that are loaded on a node to `models`, a list over all nodes. A model occurs once
 * in that list, and each of its loads has an instance_id. */
void mrd_node_models_gather(const mrd_node_models *list, const char *instance_id, mrd_json *models);

#endif
