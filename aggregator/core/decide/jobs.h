/*
 * aggregator/core/decide/jobs.h - creates the sessions of jobs, and decides when each session is
 * over.
 *
 * A node requests a session with the message Job, and the options in mrd_core_limits decide whether
 * it gets one. The first node of a job creates the session, and the end of the job on its last node
 * ends it. If the job ended on all other nodes, a node that was not seen for 12 times
 * --advanced.node-timeout no longer delays the end.
 */
#ifndef MRD_AGGREGATOR_CORE_DECIDE_JOBS_H
#define MRD_AGGREGATOR_CORE_DECIDE_JOBS_H

#include "aggregator/core/model/state.h"

/* Checks the members of a session request that concern a job, such as `wait`. Errors: INVALID. */
mrd_err mrd_job_request_check(const mrd_session_request *request, mrd_why *why);
/* Returns true if the job ended on all nodes that record it. */
bool mrd_job_is_over(const mrd_core *core, const mrd_session *session);
/* Returns true if the node of `part` has been disconnected for more than 12 times node_timeout. The
 * session then does not wait for the end of its job on this node. */
bool mrd_job_part_is_gone(const mrd_core *core, const mrd_session *session, const mrd_part *part);

#endif
