/*
 * aggregator/core/models.h - which models were loaded on a node, as its agent told: of a session those
 * resident at some time of it, of a node those resident now. A list never changes once it is made, so
 * copies of nodes and sessions share it.
 *
 * As JSON, one member for each model: sha256, name, path (each when known), size, and loads: process_id,
 * model_id, runtime_id, lnc_idx (when known), lnc_count, loaded_local_ns, unloaded_local_ns (absent:
 * still loaded), and the same by the node's wall clock (loaded, loaded_ns, ...).
 * Threads: a list is made on one, read, referenced and given back on any.
 */
#ifndef MRD_AGGREGATOR_CORE_MODELS_H
#define MRD_AGGREGATOR_CORE_MODELS_H

#include "aggregator/core/json.h"
#include "base/clock.h"
#include "proto/wire.h"

typedef struct {
    unsigned refs;    /* atomic */
    mrd_json *models; /* an array */
    uint64_t left_out;
} mrd_node_models;

/* local and wall: one reading of both clocks of the node. NULL without memory, or `from` NULL. */
mrd_node_models *mrd_node_models_new(const Mrd__ModelList *from, mrd_local_ns local,
                                     mrd_wall_ns wall);
/* As mrd_node_models_put wrote it; NULL: there is none. */
mrd_node_models *mrd_node_models_load(const mrd_json *o);
mrd_node_models *mrd_node_models_ref(mrd_node_models *l); /* NULL is fine */
void mrd_node_models_unref(mrd_node_models *l);           /* NULL is fine */
/* "models" and "models_left_out" of *o; nothing for NULL. */
void mrd_node_models_put(const mrd_node_models *l, mrd_json *o);
/* Adds the models of a node to a list over nodes, where each is one member and loads have instance_id. */
void mrd_node_models_gather(const mrd_node_models *l, const char *instance_id, mrd_json *models);

#endif
