/*
 * agent/link/enrol.h - the node's certificate: the agent gets it with an invitation (`meridian
 * invite`) or with the service account of its pod. It renews it with the certificate itself after
 * two thirds of its validity.
 *
 * A new certificate is written next to the old one, tried on a separate connection, and renamed
 * over the old one when the aggregator has accepted it. So an agent that is killed at any time
 * finds a valid certificate, or asks again, with the same key for an invitation. Failed attempts
 * are repeated at intervals between MRD_WAIT_ENROL_MIN and MRD_WAIT_ENROL_MAX. A changed token or
 * certificate file is tried at once.
 *
 * Threads: one, the agent's loop. Requests are made on a separate thread.
 */
#ifndef MRD_AGENT_LINK_ENROL_H
#define MRD_AGENT_LINK_ENROL_H

#include "base/clock.h"
#include "proto/link.h"

typedef struct mrd_enrol mrd_enrol;

/* All texts are borrowed until close. */
typedef struct {
    const char *server; /* https://HOST:PORT of the aggregator */
    /* file with an invitation or the token of a service account; NULL means renewals only */
    const char *token_file;
    const char *instance;
    mrd_link_options
        /* options of the data connection; its certificate and key files are written by this
         * module */
        link;
} mrd_enrol_options;

mrd_err mrd_enrol_open(const mrd_enrol_options *options, mrd_enrol **ret_enrol, mrd_why *why);
void mrd_enrol_close(mrd_enrol *enrol); /* waits for a running request; NULL is fine */
/* Runs one turn. Returns true if a certificate was installed, so that the connection must read its
 * files again. */
bool mrd_enrol_step(mrd_enrol *enrol, mrd_local_ns now);
/* Reports whether the aggregator welcomed this agent, and whether a TLS connection failed since the
 * last turn. If the current certificate is the reason, a new one is requested. */
void mrd_enrol_works(mrd_enrol *enrol, bool welcome, bool failed);
/* Returns why there is no valid certificate; "" if there is one. */
const char *mrd_enrol_lacks(const mrd_enrol *enrol);

/* ---- The next action, without I/O ---- */

typedef struct {
    bool have;            /* a certificate for this key and this instance exists */
    mrd_wall_ns from, to; /* when the certificate was issued; when it expires */
    bool token;           /* the options name a token file */
    bool refused;         /* connections with the certificate fail */
} mrd_enrol_facts;

typedef enum {
    MRD_ENROL_NOTHING,
    MRD_ENROL_JOIN,  /* requests a certificate with the token */
    MRD_ENROL_RENEW, /* renews with the existing certificate */
} mrd_enrol_act;

mrd_enrol_act mrd_enrol_decide(const mrd_enrol_facts *facts, mrd_wall_ns now);
/* Returns the pause after this many consecutive failures. The caller adds or subtracts up to a
 * random quarter of it. */
mrd_dur_ns mrd_enrol_pause(unsigned failures);

#endif
