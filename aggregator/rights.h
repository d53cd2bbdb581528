/*
 * aggregator/rights.h - who asks, what is asked for, whose a session is, and the one function that
 * decides. What it does not know it refuses: a route without an action, a role without a row, an
 * owner whose jobs are not all that a session recorded.
 *
 * Threads: stateless.
 */
#ifndef MRD_AGGREGATOR_RIGHTS_H
#define MRD_AGGREGATOR_RIGHTS_H

#include "aggregator/auth.h"
#include "base/hash.h"
#include "base/jobid.h"

/* What a route does. */
typedef enum {
    MRD_ACTION_NONE,    /* nobody has said: nobody may */
    MRD_ACTION_OPEN,    /* it has nothing to hide */
    MRD_ACTION_SELF,    /* tells callers who they are */
    MRD_ACTION_LIST,    /* lists the sessions that the caller may read */
    MRD_ACTION_READ,    /* reads a session: manifest, profile, clocks, artifacts, journal */
    MRD_ACTION_DELETE,  /* deletes a session that is over */
    MRD_ACTION_CONTROL, /* stops, pauses, changes, triggers, merges a session */
    MRD_ACTION_START,   /* starts a session; triggers all flight recorders */
    MRD_ACTION_CLUSTER, /* reads what is of no session: nodes, models, metrics */
    MRD_ACTION_FORGET,  /* forgets a node */
    MRD_ACTION_INVITE,  /* invites a node: it may have a certificate */
    MRD_ACTION_ENROL,   /* asks for the certificate of the caller's own node */
    MRD_ACTIONS
} mrd_action;

/* Who asks, as far as it was proven. */
typedef struct {
    mrd_role role;
    /* Of an owner, what its sessions are found by; all that are set must fit. Without any it owns
     * nothing. */
    char key[MRD_SHA256_HEX];   /* SHA-256 of its token, "": it has none */
    char user[MRD_JOBID_VALUE]; /* name on the nodes, "": not known */
    char space[64];             /* Kubernetes namespace, "": not known */
    int64_t uid;                /* number on the nodes, -1: not known */
    /* Of an agent: the node whose it is, and no other's; "": not proven. */
    char node[MRD_JOBID_VALUE];
} mrd_caller;

#define MRD_CALLER(r) ((mrd_caller){ .role = (r), .uid = -1 })

/* Whose a session is. Borrowed. */
typedef struct {
    bool of_job;             /* a job asked for it; else it is of no owner */
    int64_t uid;             /* of the job */
    const mrd_strlist *keys; /* SHA-256 of tokens of owners */
    const mrd_strlist *jobs; /* mrd_jobid texts of what it recorded */
    unsigned jobs_left_out;  /* ... and so many more, of which nothing is known */
} mrd_ownership;

/*
 * Whether the caller may do it to that session. NULL: whether there can be a session with which it
 * may, which is known before one is looked for.
 */
bool mrd_may(const mrd_caller *who, const mrd_ownership *session, mrd_action action);
/* Whether the jobs of the session are those of this owner, all of them. */
bool mrd_caller_owns(const mrd_caller *who, const mrd_ownership *session);
const char *mrd_action_text(mrd_action action); /* "read", static */

#endif
