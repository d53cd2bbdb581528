/*
 * tests/fleet/daemon.h - runs the program meridian-aggregator as a child: start, kill, HTTP
 * requests, and its resource usage. Nothing here forks, because the transport may have been used
 * already.
 */
#ifndef MRD_TESTS_FLEET_DAEMON_H
#define MRD_TESTS_FLEET_DAEMON_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/conf/json.h"

typedef struct {
    pid_t pid;
    char dir[256]; /* directory of the log and replies; borrowed name */
    char store[300], data[128], control[128];
    uint16_t http_port; /* 0: not up yet */
    unsigned files;     /* limit of open files; 0 for the limit of this process */
} aggregator_proc;

/* Chooses addresses that were free a moment ago, with "tls+" in front if `tls`. The store is a
 * directory in dir. */
bool aggregator_prepare(aggregator_proc *d, const char *dir, bool tls);
/* Starts the program and waits until it listens, at most 60 s. `extra` has further options, ended
 * by NULL, and may be NULL. */
bool aggregator_start(aggregator_proc *d, const char *const *extra);
/* Sends the signal and waits for the end, at most 60 s. Returns true if the status was 0. */
bool aggregator_end(aggregator_proc *d, int sig);

/* A request by a curl process in the background: begin it, then poll until it is complete. */
typedef struct {
    pid_t pid;
    char reply[300]; /* file */
} aggregator_request;

bool aggregator_ask(const aggregator_proc *d, const char *method, const char *path,
                    const char *body, aggregator_request *ret_request);
/* Returns false while it runs. *ret_json is NULL if it failed; otherwise the caller frees it. */
bool aggregator_answered(aggregator_request *r, mrd_json **ret_json);

typedef struct {
    uint64_t rss_kb, threads, files;
    double cpu_s;
} aggregator_usage;

void aggregator_used(const aggregator_proc *d, aggregator_usage *ret_usage);
/* Counts the lines of the log that contain the text. */
unsigned aggregator_log_lines(const aggregator_proc *d, const char *text);

#endif
