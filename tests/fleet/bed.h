/*
 * tests/fleet/bed.h - runs many agents (fleet.h) with an aggregator, for the test and the
 * benchmark. Every call that waits runs the agents while it waits.
 */
#ifndef MRD_TESTS_FLEET_BED_H
#define MRD_TESTS_FLEET_BED_H

#include "tests/fleet/daemon.h"
#include "tests/fleet/fleet.h"

#define BED_PATIENCE (120 * MRD_SEC)

typedef struct {
    /* set before */
    unsigned agents;
    unsigned files;  /* open files of the aggregator; 0 for no limit */
    bool tls;        /* with certificates for all */
    fleet_options o; /* period, flush, reconnect */
    /* read after */
    aggregator_proc d;
    fleet *f;
    int64_t opened_ns; /* when the agents started to dial */
    char session[64];
    char certs[300], tls_options[3][400]; /* for `extra` of bed_open */
    /* its own */
    aggregator_request request;
    mrd_json *reply;
} bed;

/* Starts everything in `dir`. `extra` has further options of the aggregator, ended by NULL, and may
 * be NULL. */
bool bed_open(bed *b, const char *dir, const char *const *extra);
bool bed_close(bed *b); /* true if the aggregator ended with success */
/* For fleet_play, with the bed as self: true if all agents are welcome. */
bool bed_welcomed(void *self);
/* Sends one HTTP request. Returns NULL if it failed; otherwise the caller frees the result. */
mrd_json *bed_ask(bed *b, const char *method, const char *path, const char *body);
mrd_json *bed_manifest(bed *b);
bool bed_state_is(bed *b, const char *want); /* of the session */
bool bed_state_becomes(bed *b, const char *want);
/* Starts a session of this number of agents, and retries until they are ready. "all" would mean the
 * agents seen at that moment, which may be fewer on a busy machine. */
bool bed_start(bed *b, unsigned agents);
bool bed_stop(bed *b);
/* Prints one line with the counts of the agents and of the aggregator. */
void bed_print(const bed *b, const char *what, int64_t since_ns);

#endif
