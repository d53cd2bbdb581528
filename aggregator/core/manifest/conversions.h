/*
 * aggregator/core/manifest/conversions.h - decides when the vendor's viewer converts the device
 * profiles of a finished session, and adds the results to the session's artifacts. Each process has
 * one conversion.
 *
 * Promise  The results for a process become complete at the same time, when all of them are in the
 *          store. After a restart the results of an unfinished conversion are removed from the
 *          list, and the conversion runs again.
 */
#ifndef MRD_AGGREGATOR_CORE_MANIFEST_CONVERSIONS_H
#define MRD_AGGREGATOR_CORE_MANIFEST_CONVERSIONS_H

#include "aggregator/core/model/state.h"

/* Starts the pending conversions of a finished session, up to the limit of concurrent
 * conversions. */
void mrd_session_convert(mrd_core *core, mrd_session *session);
/* Returns true if the viewer works on a conversion of the session. */
bool mrd_session_is_converting(const mrd_session *session);

/* Identifies a conversion by its session and process. */
typedef struct {
    uint64_t session;
    char instance_id[MRD_NODE_ID_MAX];
    int64_t process_id;
} mrd_conversion_of;

/* The files that the viewer made in a conversion, with sizes and hashes. Names are relative to the
 * directory of the process. */
typedef struct {
    const mrd_conversion_of *of;
    mrd_listed_artifact *files;
    size_t n;
} mrd_conversion_results;

/* Records that the viewer has started to convert the device profiles of this process. */
void mrd_core_conversion_began(mrd_core *core, mrd_core_time now, const mrd_conversion_of *of);
/* Lists the results of a conversion as incomplete artifacts of the session, before they are stored.
 * Returns false, and lists nothing, if the session no longer exists or its list is full. */
bool mrd_core_conversion_list(mrd_core *core, mrd_core_time now,
                              const mrd_conversion_results *results);
/* The outcome of a conversion. */
typedef struct {
    /* DONE, FAILED, or WAITING if it was cancelled because the aggregator is shutting down */
    mrd_convert_state state;
    uint64_t files, bytes, memory;
    mrd_dur_ns took;
    const char *message;
} mrd_conversion_end;
void mrd_core_conversion_ended(mrd_core *core, mrd_core_time now, const mrd_conversion_of *of,
                               const mrd_conversion_end *end);
/* Handles that a viewer was installed while the aggregator runs. `at_once` is the maximum number of
 * concurrent conversions. Conversions in state "not-installed" wait for the viewer again. */
void mrd_core_viewer_found(mrd_core *core, mrd_core_time now, int64_t at_once);
/* Makes conversions of a session pending again if they failed, had no viewer, or are done with a
 * message. Answers the command `ticket`. Errors: NOTFOUND, STATE. */
void mrd_core_convert_again(mrd_core *core, mrd_core_time now, uint64_t ticket, uint64_t session);

/* Write and read the session's list of conversions in its manifest. */
mrd_json *mrd_conversions_json(const mrd_session *session);
void mrd_conversions_load(mrd_core *core, mrd_session *session, const mrd_json *list);

#endif
