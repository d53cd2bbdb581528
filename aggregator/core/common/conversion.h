/*
 * aggregator/core/common/conversion.h - conversions of a session. A conversion is a run of the
 * vendor's viewer, which makes readable files of the device profiles of one process.
 *
 * aggregator/core/manifest/conversions.h decides when a conversion runs.
 */
#ifndef MRD_AGGREGATOR_CORE_COMMON_CONVERSION_H
#define MRD_AGGREGATOR_CORE_COMMON_CONVERSION_H

#include <stddef.h>

#include "aggregator/core/common/limits.h"
#include "base/err.h"

/* maximum number of conversions per session; each conversion is for one process */
#define MRD_CONVERSIONS_MAX 4096
/* Maximum number of runs of a conversion. If the aggregator ends during a run, it repeats the
 * conversion after its restart. After this many interrupted runs, the conversion has failed. */
#define MRD_CONVERSION_RUNS 3

/* Kinds of artifacts that the viewer makes from a device profile. */
#define MRD_KIND_DEVICE_PROFILE "device-profile"
#define MRD_KIND_DEVICE_TABLE   "device-table"

typedef enum {
    MRD_CONVERT_WAITING,
    MRD_CONVERT_RUNNING,
    MRD_CONVERT_DONE,
    MRD_CONVERT_FAILED,
    MRD_CONVERT_NOT_INSTALLED, /* this aggregator has no viewer; another program may run it */
    MRD_CONVERT_STATES
} mrd_convert_state;

typedef struct {
    char instance_id[MRD_NODE_ID_MAX];
    int64_t process_id;
    mrd_convert_state state;
    /* the conversion was passed to the viewer of this aggregator and has not ended yet */
    bool sent;
    unsigned runs; /* number of runs of the viewer that the end of an aggregator interrupted */
    uint64_t files, bytes;
    mrd_dur_ns took;
    uint64_t memory; /* highest memory use of the viewer, in bytes */
    /* why the conversion failed; if DONE, which results are missing, or empty */
    char message[MRD_WHY_MAX];
} mrd_conversion;

/* The conversions of all processes of one session that have device profiles. */
typedef struct {
    bool planned; /* true after the list `v` was made from the session's device profiles */
    mrd_conversion *v;
    size_t n;
    size_t left_out; /* number of processes beyond MRD_CONVERSIONS_MAX, which are not converted */
} mrd_session_conversions;

/* Returns true if a conversion is waiting or running. */
bool mrd_conversions_are_open(const mrd_session_conversions *conversions);
/* Returns the conversion of this process, NULL if there is none. */
mrd_conversion *mrd_conversions_find(const mrd_session_conversions *conversions,
                                     const char *instance_id, int64_t process_id);
/* Returns the name of the state, such as "not-installed". The string is static. */
const char *mrd_convert_state_text(mrd_convert_state state);
mrd_convert_state mrd_convert_state_of(const char *text); /* returns WAITING for an unknown text */
/* Returns true if a viewer made artifacts of this kind. */
bool mrd_kind_is_converted(const char *kind);

#endif
