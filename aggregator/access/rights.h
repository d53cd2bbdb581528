/*
 * aggregator/access/rights.h - decides whether a caller may do an action on a session. Unknown cases are
 * refused: a route without an action, a role without a row, and an owner if the session recorded
 * other jobs as well.
 *
 * Threads: stateless.
 */
#ifndef MRD_AGGREGATOR_ACCESS_RIGHTS_H
#define MRD_AGGREGATOR_ACCESS_RIGHTS_H

#include "aggregator/access/auth.h"
#include "base/hash.h"
#include "base/jobid.h"

/* The action of a route. */
typedef enum {
    MRD_ACTION_NONE,    /* not set; always refused */
    MRD_ACTION_OPEN,    /* it has nothing to hide */
    MRD_ACTION_SELF,    /* tells callers their own identity */
    MRD_ACTION_LIST,    /* lists the sessions that the caller may read */
    MRD_ACTION_READ,    /* reads a session: manifest, profile, clocks, artifacts, journal */
    MRD_ACTION_DELETE,  /* deletes a session that is over */
    MRD_ACTION_CONTROL, /* stops, pauses, changes, triggers, merges a session */
    MRD_ACTION_START,   /* starts a session; triggers all flight recorders */
    MRD_ACTION_CLUSTER, /* reads objects that belong to no session: nodes, models, metrics */
    MRD_ACTION_FORGET,  /* forgets a node */
    MRD_ACTION_INVITE,  /* invites a node, which may then get a certificate */
    MRD_ACTION_ENROL,   /* requests the certificate of the caller's own node */
    MRD_ACTIONS
} mrd_action;

/* The caller, with the members that were identified. */
typedef struct {
    mrd_role role;
    /* The attributes that identify an owner's sessions. All attributes that are set must match.
     * Without any it owns nothing. */
    char key[MRD_SHA256_HEX];   /* SHA-256 of its token. "" means none */
    char user[MRD_JOBID_VALUE]; /* user name on the nodes. "" means unknown */
    char space[64];             /* Kubernetes namespace. "" means unknown */
    int64_t uid;                /* user id on the nodes. -1 means unknown */
    /* For an agent: its confirmed node. "" means not confirmed. */
    char node[MRD_JOBID_VALUE];
} mrd_caller;

#define MRD_CALLER(r) ((mrd_caller){ .role = (r), .uid = -1 })

/* The owner of a session. Borrowed. */
typedef struct {
    bool of_job;             /* a job requested it; otherwise it has no owner */
    int64_t uid;             /* of the job */
    const mrd_strlist *keys; /* SHA-256 of the owners' tokens */
    const mrd_strlist *jobs; /* mrd_jobid texts of the recorded jobs */
    unsigned jobs_left_out;  /* ... number of further jobs that were not listed */
} mrd_ownership;

/*
 * Returns true if the caller may do the action on that session. With session NULL: if there can be
 * a session on which the caller may do it, which is decided before the session is looked up.
 */
bool mrd_may(const mrd_caller *who, const mrd_ownership *session, mrd_action action);
/* Returns true if all jobs of the session belong to this owner. */
bool mrd_caller_owns(const mrd_caller *who, const mrd_ownership *session);
const char *mrd_action_text(mrd_action action); /* "read", static */

#endif
