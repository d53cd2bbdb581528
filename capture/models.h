/*
 * capture/models.h - what libmeridian knows of a model that is loaded. Internal.
 */
#ifndef MRD_CAPTURE_MODELS_H
#define MRD_CAPTURE_MODELS_H

#include <stdint.h>

#include "base/clock.h"

#define MRD_MODEL_HASH 65

/* The call that loaded a model: on one thread such calls do not overlap, so thread and times name it. */
typedef struct {
    int64_t thread_id;    /* as gettid says; 0: the load is not a call of the runtime */
    mrd_wall_ns from, to; /* host's wall clock, which the runtime's own events use */
} mrd_model_call;

/* As mrd_model_loaded (meridian.h), for a load by that call. */
int mrd_model_loaded_by(uint64_t model_id, const void *data, uint64_t size, int32_t vnc,
                        int32_t vnc_count, const mrd_model_call *call);

/* In a fork's child: loads by calls of the runtime (call.thread_id) were its parent's. */
void mrd_models_forked(void);
/* Recording was turned on: tells the models that are loaded and were not told. Those that were loaded
 * before have no hash. Any thread. */
void mrd_models_tell(void);
/* SHA-256 as text; "": it is not known. Any thread. */
void mrd_model_hash(uint64_t model_id, char ret_hash[MRD_MODEL_HASH]);

#endif
