/*
 * timesync/label.h - stamp sources, qualities and causes of epochs, generated from label.def. Any
 * thread may call these functions.
 */
#ifndef MRD_TIMESYNC_LABEL_H
#define MRD_TIMESYNC_LABEL_H

#include <stdint.h>

typedef enum {
#define MRD_STAMP_SOURCE(name, value, text) MRD_STAMP_##name = value,
#include "timesync/label.def"
#undef MRD_STAMP_SOURCE
    MRD_STAMP_SOURCES
} mrd_stamp_source;

typedef enum {
#define MRD_ALIGN_QUALITY(name, value, text) MRD_ALIGN_##name = value,
#include "timesync/label.def"
#undef MRD_ALIGN_QUALITY
    MRD_ALIGN_QUALITIES
} mrd_align_quality;

typedef enum {
#define MRD_EPOCH_CAUSE(name, value, text) MRD_EPOCH_##name = value,
#include "timesync/label.def"
#undef MRD_EPOCH_CAUSE
    MRD_EPOCH_CAUSES
} mrd_epoch_cause;

/* Return the static text of a value from label.def, or "unknown" for other values. */
const char *mrd_stamp_source_text(unsigned source);
const char *mrd_align_quality_text(unsigned quality);
const char *mrd_epoch_cause_text(unsigned cause);

#endif
