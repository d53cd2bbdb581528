/*
 * bench/served.h - an aggregator in a child process, for benchmarks that measure its CPU time
 * separately. Fork it before this process uses the transport.
 */
#ifndef MRD_BENCH_SERVED_H
#define MRD_BENCH_SERVED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct {
    pid_t pid;
    int to, from;
    char data_url[128], control_url[128];
} served;

typedef struct {
    double cpu_ns; /* of the whole process since its start */
    double events; /* stored */
} served_counts;

/* Starts the aggregator. Exits the program if that fails. */
void served_begin(served *s);
/* Begins a session. Connected agents must be able to answer meanwhile. When the session exists, its
 * id can be read from s->from (8 bytes); served_session waits for it. */
void served_start(served *s);
uint64_t served_session(served *s);
served_counts served_get(served *s);
void served_end(served *s);

/* Returns the CPU time of this process, of all its threads, in ns. */
double served_process_cpu(void);

#endif
