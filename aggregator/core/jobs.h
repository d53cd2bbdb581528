/*
 * aggregator/core/jobs.h - sessions that belong to a job: which of them there are, and when each is
 * over. A node asks (message Job), the policy in mrd_core_limits decides, the first node of a job
 * makes its session, and the end on its last node ends it; a node that vanished for 12 x --node-timeout is not
 * waited for when others have ended.
 */
#ifndef MRD_AGGREGATOR_CORE_JOBS_H
#define MRD_AGGREGATOR_CORE_JOBS_H

#include "aggregator/core/state.h"

/* What a request says of a job to wait for. Errors: INVALID. */
mrd_err mrd_job_request_check(const mrd_session_request *r, mrd_why *why);
/* No node records it any more. */
bool mrd_job_is_over(const mrd_core *c, const mrd_session *s);
/* The part's node is away for longer than the end of a job waits for it. */
bool mrd_job_part_is_gone(const mrd_core *c, const mrd_session *s, const mrd_part *p);

#endif
