/*
 * aggregator/core/runtime_features.h - what the Neuron runtimes of a node can do, as its agent reported. It never changes
 * once it is made, so copies of nodes and sessions share it. As JSON: version, event_types,
 * unknown_functions. Threads: made on one, read, referenced and given back on any.
 */
#ifndef MRD_AGGREGATOR_CORE_RUNTIME_FEATURES_H
#define MRD_AGGREGATOR_CORE_RUNTIME_FEATURES_H

#include "aggregator/core/json.h"
#include "proto/wire.h"

typedef struct {
    unsigned refs;  /* atomic */
    mrd_json *json; /* an object */
} mrd_runtime_features;

/* NULL without memory, or `from` NULL. */
mrd_runtime_features *mrd_runtime_features_new(const Mrd__RuntimeFeatures *from);
/* As it was written under "runtime"; NULL: there is none. */
mrd_runtime_features *mrd_runtime_features_load(const mrd_json *o);
mrd_runtime_features *mrd_runtime_features_ref(mrd_runtime_features *r); /* NULL is fine */
void mrd_runtime_features_unref(mrd_runtime_features *r);                /* NULL is fine */
void mrd_runtime_features_put(const mrd_runtime_features *r, mrd_json *o);
/* An event type of its trace. */
bool mrd_runtime_features_has(const mrd_runtime_features *r, const char *type);

#endif
