/*
 * aggregator/core/offer.h - what the Neuron runtimes of a node offer, as its agent told. It never changes
 * once it is made, so copies of nodes and sessions share it. As JSON: version, event_types,
 * unknown_functions. Threads: made on one, read, referenced and given back on any.
 */
#ifndef MRD_AGGREGATOR_CORE_OFFER_H
#define MRD_AGGREGATOR_CORE_OFFER_H

#include "aggregator/core/json.h"
#include "proto/wire.h"

typedef struct {
    unsigned refs;  /* atomic */
    mrd_json *json; /* an object */
} mrd_runtime_offer;

/* NULL without memory, or `from` NULL. */
mrd_runtime_offer *mrd_runtime_offer_new(const Mrd__RuntimeOffer *from);
/* As it was written under "runtime"; NULL: there is none. */
mrd_runtime_offer *mrd_runtime_offer_load(const mrd_json *o);
mrd_runtime_offer *mrd_runtime_offer_ref(mrd_runtime_offer *r); /* NULL is fine */
void mrd_runtime_offer_unref(mrd_runtime_offer *r);             /* NULL is fine */
void mrd_runtime_offer_put(const mrd_runtime_offer *r, mrd_json *o);
/* An event type of its trace. */
bool mrd_runtime_offer_has(const mrd_runtime_offer *r, const char *type);

#endif
