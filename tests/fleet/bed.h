/*
 * tests/fleet/bed.h - a fleet and its aggregator, put together: for the test and the benchmark.
 * Every call that waits plays the agents meanwhile.
 */
#ifndef MRD_TESTS_FLEET_BED_H
#define MRD_TESTS_FLEET_BED_H

#include "tests/fleet/daemon.h"
#include "tests/fleet/fleet.h"

#define BED_PATIENCE (120 * MRD_SEC)

typedef struct {
    /* set before */
    unsigned agents;
    unsigned files;  /* that the aggregator may open, 0: no limit of ours */
    bool tls;        /* with certificates for everybody */
    fleet_options o; /* period, flush, reconnect */
    /* read after */
    aggregator_proc d;
    fleet *f;
    int64_t opened_ns; /* when the agents began to dial */
    char session[64];
    char certs[300], tls_options[3][400]; /* for `extra` of bed_open */
    /* its own */
    aggregator_request request;
    mrd_json *reply;
} bed;

/* Everything in `dir`. extra: more options of the aggregator, ended by NULL; may be NULL. */
bool bed_open(bed *b, const char *dir, const char *const *extra);
bool bed_close(bed *b); /* true when the aggregator ended well */
/* For fleet_play, self is the bed: all agents are welcome. */
bool bed_welcomed(void *self);
/* One request over HTTP; NULL when it failed, else to be freed. */
mrd_json *bed_ask(bed *b, const char *method, const char *path, const char *body);
mrd_json *bed_manifest(bed *b);
bool bed_state_is(bed *b, const char *want); /* of the session */
bool bed_state_becomes(bed *b, const char *want);
/* A session of so many agents, begun again until they are ready. ("all" would be those that are
 * seen at that moment, which on a busy machine may be fewer.) */
bool bed_start(bed *b, unsigned agents);
bool bed_stop(bed *b);
/* One line about both ends. */
void bed_print(const bed *b, const char *what, int64_t since_ns);

#endif
