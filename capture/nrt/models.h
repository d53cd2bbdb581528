/* capture/nrt/models.h - the list of loaded models, with hashes and times of their loads.
 * Internal. */
#ifndef MRD_CAPTURE_NRT_MODELS_H
#define MRD_CAPTURE_NRT_MODELS_H

#include <stdint.h>

#include "base/clock.h"

#define MRD_MODEL_HASH 65

/* The runtime call (such as nrt_load) that loaded a model. Two loads by one thread do not overlap
 * in time, so thread and times identify the call. */
typedef struct {
    int64_t thread_id; /* gettid() of the thread; 0 if the program itself reported the load */
    /* begin and end of the call, on the wall clock that the runtime's own events use */
    mrd_wall_ns from, to;
} mrd_model_call;

/* Like mrd_model_loaded (meridian.h), for a model that a runtime call loaded from memory. `call`
 * states the thread and the times of this call. */
int mrd_model_loaded_by(uint64_t model_id, const void *data, uint64_t size, int32_t vnc,
                        int32_t vnc_count, const mrd_model_call *call);

/* Called in a child of fork. Removes the models that were loaded by calls of the runtime
 * (call.thread_id is not 0), because they belong to the parent. */
void mrd_models_forked(void);
/* Called when recording was switched on. Records the loaded models that were not recorded yet. Does
 * not compute hashes. Any thread may call it. */
void mrd_models_tell(void);
/* Stores the SHA-256 of a model as text, or "" if it is unknown. Any thread may call it. */
void mrd_model_hash(uint64_t model_id, char ret_hash[MRD_MODEL_HASH]);

#endif
