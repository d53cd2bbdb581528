/*
 * aggregator/core/conversions.h - device profiles of sessions that are over are given to the vendor's
 * viewer, process by process; what it makes is listed with the session's artifacts.
 *
 * Promise  results of a process are listed as complete all at once, when all of them are in the
 *          store; after a restart those of a conversion that was not done are listed no more, and it
 *          is made again.
 */
#ifndef MRD_AGGREGATOR_CORE_CONVERSIONS_H
#define MRD_AGGREGATOR_CORE_CONVERSIONS_H

#include "aggregator/core/state.h"

/* What is to be converted of a session that is over, as many at a time as the limits allow. */
void mrd_session_convert(mrd_core *c, mrd_session *s);
/* One of them was given to the viewer, and has not come back. */
bool mrd_session_is_converting(const mrd_session *s);

/* Whose device profiles: of one process in a session. */
typedef struct {
    uint64_t session;
    char instance_id[MRD_NODE_ID_MAX];
    int64_t process_id;
} mrd_conversion_of;

/* What the viewer made: sizes and hashes, names below the folder of the process. */
typedef struct {
    const mrd_conversion_of *of;
    mrd_listed_artifact *files;
    size_t n;
} mrd_conversion_results;

/* The viewer runs. */
void mrd_core_conversion_began(mrd_core *c, mrd_core_time now, const mrd_conversion_of *of);
/* Its results are about to go into the store, and are listed, not as complete. False: the session is
 * gone, or cannot list so many; then nothing is. */
bool mrd_core_conversion_list(mrd_core *c, mrd_core_time now, const mrd_conversion_results *r);
/* How it ended: CANCELLED (by the aggregator's own end; it waits again), DONE, FAILED. */
typedef struct {
    mrd_convert_state state; /* WAITING: cancelled */
    uint64_t files, bytes, memory;
    mrd_dur_ns took;
    const char *message;
} mrd_conversion_end;
void mrd_core_conversion_ended(mrd_core *c, mrd_core_time now, const mrd_conversion_of *of,
                               const mrd_conversion_end *end);
/* There was no viewer, and now is one: so many conversions there may be at one time. What is not-installed
 * waits again. */
void mrd_core_viewer_found(mrd_core *c, mrd_core_time now, int64_t at_once);
/* Those that failed, or had no viewer, wait again. Answered. Errors: NOTFOUND, STATE. */
void mrd_core_convert_again(mrd_core *c, mrd_core_time now, uint64_t ticket, uint64_t session);

/* For the manifest. */
mrd_json *mrd_conversions_json(const mrd_session *s);
void mrd_conversions_load(mrd_core *c, mrd_session *s, const mrd_json *list);

#endif
