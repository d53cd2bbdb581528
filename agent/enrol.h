/*
 * agent/enrol.h - the node's own certificate: the agent gets it with an invitation (`meridian invite`)
 * or with the service account of its pod, and renews it with itself when two thirds of its time
 * are over.
 *
 * A new certificate is written beside the old one, tried on a connection of its own, and takes the old one's
 * place (a rename) when the aggregator has accepted it. So whoever is killed in between finds a
 * certificate that counts, and asks again: for an invitation with the same key. What fails is tried again,
 * at most once in MRD_ENROL_EACH_NS and at least once in MRD_ENROL_LAST_NS; a changed token or
 * certificate file is tried at once.
 *
 * Threads: one, the agent's loop; requests are made in a thread of its own.
 */
#ifndef MRD_AGENT_ENROL_H
#define MRD_AGENT_ENROL_H

#include "base/clock.h"
#include "proto/link.h"

#define MRD_ENROL_EACH_NS (5 * MRD_SEC)
#define MRD_ENROL_LAST_NS (1800 * MRD_SEC)

typedef struct mrd_enrol mrd_enrol;

/* All borrowed until close. */
typedef struct {
    const char *server; /* https://HOST:PORT of the aggregator */
    const char
        *token_file; /* an invitation, or the token of a service account; NULL: renewals only */
    const char *instance;
    mrd_link_options
        link; /* of the data connection: its certificate and key are the files written */
} mrd_enrol_options;

mrd_err mrd_enrol_open(const mrd_enrol_options *options, mrd_enrol **ret_enrol, mrd_why *why);
void mrd_enrol_close(mrd_enrol *enrol); /* waits for a request under way; NULL is fine */
/* A turn; true when a certificate was installed: the connection's files are to be read again. */
bool mrd_enrol_step(mrd_enrol *enrol, mrd_local_ns now);
/* Whether the aggregator welcomed this agent, and whether a connection failed over TLS since the last
 * turn: if the certificate in use is the reason, another one helps. */
void mrd_enrol_works(mrd_enrol *enrol, bool welcome, bool failed);
/* Why there is no certificate that counts; "": there is one. */
const char *mrd_enrol_lacks(const mrd_enrol *enrol);

/* ---- What is to be done, without I/O ---- */

typedef struct {
    bool have;            /* a certificate for this key and this instance */
    mrd_wall_ns from, to; /* when it came; its end */
    bool token;           /* a token file is given */
    bool refused;         /* connections with it fail */
} mrd_enrol_facts;

typedef enum {
    MRD_ENROL_NOTHING,
    MRD_ENROL_JOIN,  /* with the token */
    MRD_ENROL_RENEW, /* with the certificate that there is */
} mrd_enrol_act;

mrd_enrol_act mrd_enrol_decide(const mrd_enrol_facts *facts, mrd_wall_ns now);
/* How long to wait after so many failures in a row, before a random quarter more or less. */
mrd_dur_ns mrd_enrol_pause(unsigned failures);

#endif
