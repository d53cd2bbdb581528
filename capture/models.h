/*
 * capture/models.h - what libmeridian knows of a model that is loaded. Internal.
 */
#ifndef MRD_CAPTURE_MODELS_H
#define MRD_CAPTURE_MODELS_H

#include <stdint.h>

#define MRD_MODEL_HASH 65

/* Recording was turned on: tells the models that are loaded and were not told. Those that were loaded
 * before have no hash. Any thread. */
void mrd_models_tell(void);
/* SHA-256 as text; "": it is not known. Any thread. */
void mrd_model_hash(uint64_t model_id, char ret_hash[MRD_MODEL_HASH]);

#endif
