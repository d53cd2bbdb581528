/*
 * aggregator/core/decide/jobs.h - sessions that belong to jobs: creates them and decides when each
 * is over.
 *
 * A node requests a session with the message Job, and the options in mrd_core_limits decide whether
 * it gets one. The first node of a job creates the session, and the end of the job on its last node
 * ends it. A node that has been away for 12 x --advanced.node-timeout is not awaited if the job
 * ended on the others.
 */
#ifndef MRD_AGGREGATOR_CORE_DECIDE_JOBS_H
#define MRD_AGGREGATOR_CORE_DECIDE_JOBS_H

#include "aggregator/core/model/state.h"

/* Validates the job that a request waits for. Errors: INVALID. */
mrd_err mrd_job_request_check(const mrd_session_request *request, mrd_why *why);
/* Returns true if the job ended on all nodes that record it. */
bool mrd_job_is_over(const mrd_core *core, const mrd_session *session);
/* Returns true if the node of `part` has been disconnected too long for the end of the job to wait
 * for it. */
bool mrd_job_part_is_gone(const mrd_core *core, const mrd_session *session, const mrd_part *part);

#endif
