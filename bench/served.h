/*
 * bench/served.h - runs an aggregator in a child process, so that benchmarks can measure its CPU
 * time separately. Start it before this process uses the transport, because it forks.
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
    double cpu_ns; /* CPU time of the whole process since its start */
    double events; /* stored */
} served_counts;

/* Starts the aggregator in a child process. Exits the program on failure. */
void served_begin(served *s);
/* Begins a session without waiting for it. Connected agents must answer the aggregator before the
 * session exists. served_session() then returns the session's id. The aggregator writes the id to
 * s->from (8 bytes), so a caller can also poll this descriptor. */
void served_start(served *s);
uint64_t served_session(served *s);
served_counts served_get(served *s);
void served_end(served *s);

/* Returns the CPU time of this process with all its threads, in ns. */
double served_process_cpu(void);

#endif
