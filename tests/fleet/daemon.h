/*
 * tests/fleet/daemon.h - the program meridian-aggregator as a child: start, kill, ask over HTTP,
 * and what it uses. Nothing here forks: the transport may have been used already.
 */
#ifndef MRD_TESTS_FLEET_DAEMON_H
#define MRD_TESTS_FLEET_DAEMON_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/json.h"

typedef struct {
    pid_t pid;
    char dir[256]; /* holds the log and replies; borrowed name */
    char store[300], data[128], control[128];
    uint16_t http_port; /* 0: not up yet */
    unsigned files;     /* open files allowed, 0: as many as we may */
} aggregator_proc;

/* Chooses addresses that were free a moment ago; tls: with "tls+" in front. The store is a folder
 * in dir. */
bool aggregator_prepare(aggregator_proc *d, const char *dir, bool tls);
/* extra: more options, ended by NULL; NULL: none. Waits until it listens, at most 60 s. */
bool aggregator_start(aggregator_proc *d, const char *const *extra);
/* Sends the signal and waits for the end, at most 60 s; true when it ended with status 0. */
bool aggregator_end(aggregator_proc *d, int sig);

/* A request by curl that runs beside us: begin, look until it is over. */
typedef struct {
    pid_t pid;
    char reply[300]; /* file */
} aggregator_request;

bool aggregator_ask(const aggregator_proc *d, const char *method, const char *path,
                    const char *body, aggregator_request *ret_request);
/* False while it runs. *ret_json is NULL when it failed, else to be freed. */
bool aggregator_answered(aggregator_request *r, mrd_json **ret_json);

typedef struct {
    uint64_t rss_kb, threads, files;
    double cpu_s;
} aggregator_usage;

void aggregator_used(const aggregator_proc *d, aggregator_usage *ret_usage);
/* How many lines of the log hold the text. */
unsigned aggregator_log_lines(const aggregator_proc *d, const char *text);

#endif
