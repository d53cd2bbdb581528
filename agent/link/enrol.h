/*
 * agent/link/enrol.h - obtains and renews the node's certificate. The agent gets it with an
 * invitation (`meridian invite`) or with the service account of its pod. After two thirds of the
 * certificate's validity, the agent renews it, and authenticates with the certificate itself.
 *
 * A new certificate is written next to the old one, tested on a separate connection, and renamed
 * over the old one when the aggregator has accepted it. So if the agent is killed at any time, the
 * next agent finds a valid certificate, or requests a new certificate. An invitation is bound to
 * the key of the first request, so the next agent uses the same key. Failed attempts are repeated
 * after between MRD_WAIT_ENROL_MIN and MRD_WAIT_ENROL_MAX. After a change of the token or
 * certificate file, the next attempt is made at once.
 *
 * Only the agent's loop calls these functions. Requests are made on a separate thread.
 */
#ifndef MRD_AGENT_LINK_ENROL_H
#define MRD_AGENT_LINK_ENROL_H

#include "base/clock.h"
#include "proto/link.h"

typedef struct mrd_enrol mrd_enrol;

/* All texts are borrowed until mrd_enrol_close. */
typedef struct {
    const char *server; /* https://HOST:PORT of the aggregator */
    /* File with an invitation or with the token of a service account. NULL means that the agent
     * only renews existing certificates. */
    const char *token_file;
    const char *instance;
    /* Options of the data connection. This module writes the certificate and key files that they
     * name. */
    mrd_link_options link;
} mrd_enrol_options;

mrd_err mrd_enrol_open(const mrd_enrol_options *options, mrd_enrol **ret_enrol, mrd_why *why);
/* waits for a request that is still running; ignores NULL */
void mrd_enrol_close(mrd_enrol *enrol);
/* Continues to obtain or renew the certificate, without blocking. Called in every turn of the
 * agent's loop. Returns true if a certificate was installed. The caller must then make the
 * connection reload its certificate files. */
bool mrd_enrol_step(mrd_enrol *enrol, mrd_local_ns now);
/* Tells this module whether connections to the aggregator work. `welcome` is true if the aggregator
 * accepted this agent. `failed` is true if a TLS connection failed since the last turn. If the
 * certificate is the reason, a new one is requested. */
void mrd_enrol_works(mrd_enrol *enrol, bool welcome, bool failed);
/* Returns why the node has no valid certificate; "" if it has one. */
const char *mrd_enrol_lacks(const mrd_enrol *enrol);

/* ---- Decisions about the certificate, without I/O ---- */

typedef struct {
    bool have;            /* a certificate exists for this key and this instance */
    mrd_wall_ns from, to; /* start and end of the certificate's validity */
    bool token;           /* the options name a token file */
    bool refused;         /* connections with the certificate fail */
} mrd_enrol_facts;

typedef enum {
    MRD_ENROL_NOTHING,
    MRD_ENROL_JOIN,  /* requests a certificate with the token */
    MRD_ENROL_RENEW, /* renews with the existing certificate */
} mrd_enrol_act;

mrd_enrol_act mrd_enrol_decide(const mrd_enrol_facts *facts, mrd_wall_ns now);
/* Returns how long to wait before the next attempt to get a certificate, after this number of
 * consecutive failed attempts. The caller adds a random variation of up to a quarter. */
mrd_dur_ns mrd_enrol_pause(unsigned failures);

#endif
