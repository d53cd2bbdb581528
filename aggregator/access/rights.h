/*
 * aggregator/access/rights.h - decides whether a caller may do an action on a session. An action
 * that is not explicitly allowed is refused. This includes routes without an action, roles without
 * a row in the table, and owners of a session that also recorded jobs of others.
 *
 * Threads  Any thread may call the functions.
 */
#ifndef MRD_AGGREGATOR_ACCESS_RIGHTS_H
#define MRD_AGGREGATOR_ACCESS_RIGHTS_H

#include "aggregator/access/auth.h"
#include "base/hash.h"
#include "base/jobid.h"

/* The action of an HTTP route on sessions or the cluster. */
typedef enum {
    MRD_ACTION_NONE,    /* no action was set for the route; always refused */
    MRD_ACTION_OPEN,    /* needs no token, because the answer is public */
    MRD_ACTION_SELF,    /* returns the caller's own identity */
    MRD_ACTION_LIST,    /* gets the list of the sessions that the caller may read */
    MRD_ACTION_READ,    /* reads a session: manifest, profile, clocks, artifacts, journal */
    MRD_ACTION_DELETE,  /* deletes a session that is over */
    MRD_ACTION_CONTROL, /* stops, pauses, changes, triggers or merges a session */
    MRD_ACTION_START,   /* starts a session, or triggers all flight recorders */
    MRD_ACTION_CLUSTER, /* reads cluster data that belongs to no session: nodes, models, metrics */
    MRD_ACTION_FORGET,  /* forgets a node */
    MRD_ACTION_INVITE,  /* creates an invitation, with which a node gets a certificate */
    MRD_ACTION_ENROL,   /* requests the certificate for the caller's own node */
    MRD_ACTIONS
} mrd_action;

/* The caller of a request. Attributes that are unknown have the empty value that their comment
 * names. */
typedef struct {
    mrd_role role;
    /* The attributes by which an owner's sessions are found. A session belongs to the caller if it
     * matches all attributes that are set. If none is set, the caller owns no session. */
    char key[MRD_SHA256_HEX];   /* SHA-256 of the caller's token; "" means none */
    char user[MRD_JOBID_VALUE]; /* user name of the caller on the nodes; "" means unknown */
    char space[64];             /* Kubernetes namespace of the caller; "" means unknown */
    int64_t uid;                /* user id of the caller on the nodes; -1 means unknown */
    /* The node of an agent, if another server confirmed that the agent runs there; otherwise "". */
    char node[MRD_JOBID_VALUE];
} mrd_caller;

#define MRD_CALLER(r) ((mrd_caller){ .role = (r), .uid = -1 })

/* The owner of a session. The lists belong to the session. */
typedef struct {
    /* true if a job requested the session; otherwise the session has no owner */
    bool of_job;
    int64_t uid;             /* user id of the job */
    const mrd_strlist *keys; /* SHA-256 of the owners' tokens */
    const mrd_strlist *jobs; /* mrd_jobid texts of the recorded jobs */
    unsigned jobs_left_out;  /* number of further jobs that `jobs` does not list */
} mrd_ownership;

/*
 * Returns true if the caller may do the action on the session. If `session` is NULL, returns true
 * if there may be a session on which the caller may do the action. The HTTP server checks this
 * before it looks up the session.
 */
bool mrd_may(const mrd_caller *who, const mrd_ownership *session, mrd_action action);
/* Returns true if all jobs of the session belong to this caller. */
bool mrd_caller_owns(const mrd_caller *who, const mrd_ownership *session);
/* the name of the action, such as "read"; a static string */
const char *mrd_action_text(mrd_action action);

#endif
