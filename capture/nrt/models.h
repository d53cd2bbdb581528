/* capture/nrt/models.h - what libmeridian knows about a loaded model. Internal. */
#ifndef MRD_CAPTURE_NRT_MODELS_H
#define MRD_CAPTURE_NRT_MODELS_H

#include <stdint.h>

#include "base/clock.h"

#define MRD_MODEL_HASH 65

/* The call that loaded a model. Such calls of one thread do not overlap, so thread and times
 * identify it. */
typedef struct {
    int64_t thread_id;    /* as gettid returns it; 0 if the load is not a call of the runtime */
    mrd_wall_ns from, to; /* host's wall clock, which the runtime's own events use */
} mrd_model_call;

/* As mrd_model_loaded (meridian.h), for a model that this call loaded. */
int mrd_model_loaded_by(uint64_t model_id, const void *data, uint64_t size, int32_t vnc,
                        int32_t vnc_count, const mrd_model_call *call);

/* Called in a child of fork: loads by calls of the runtime (call.thread_id) belong to its parent. */
void mrd_models_forked(void);
/* Recording was turned on: records the loaded models that were not recorded yet. Models that were
 * loaded before have no hash. Any thread. */
void mrd_models_tell(void);
/* Gets the SHA-256 as text, "" if it is unknown. Any thread. */
void mrd_model_hash(uint64_t model_id, char ret_hash[MRD_MODEL_HASH]);

#endif
