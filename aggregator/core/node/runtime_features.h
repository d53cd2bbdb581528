/*
 * aggregator/core/node/runtime_features.h - which features the Neuron runtimes on a node have, as
 * its agent reported. The struct is immutable, so that copies of nodes and sessions can share it.
 * Its JSON object has version, labels, event_types and unknown_functions.
 *
 * Threads  One thread creates a struct. Any thread may read, reference and release it.
 */
#ifndef MRD_AGGREGATOR_CORE_NODE_RUNTIME_FEATURES_H
#define MRD_AGGREGATOR_CORE_NODE_RUNTIME_FEATURES_H

#include "aggregator/core/common/json.h"
#include "proto/wire.h"

typedef struct {
    unsigned refs;  /* reference count, accessed atomically */
    mrd_json *json; /* JSON object with the features */
} mrd_runtime_features;

/* Converts the features in a message to a struct. Returns NULL if out of memory or `from` is
 * NULL. */
mrd_runtime_features *mrd_runtime_features_new(const Mrd__RuntimeFeatures *from);
/* Reads the JSON object that was written under "runtime". Returns NULL if there is none. */
mrd_runtime_features *mrd_runtime_features_load(const mrd_json *json);
/* returns NULL for NULL */
mrd_runtime_features *mrd_runtime_features_ref(mrd_runtime_features *features);
void mrd_runtime_features_unref(mrd_runtime_features *features); /* does nothing for NULL */
void mrd_runtime_features_put(const mrd_runtime_features *features, mrd_json *json);
/* Returns true if the trace of this runtime can contain the event type. */
bool mrd_runtime_features_has(const mrd_runtime_features *features, const char *type);

#endif
