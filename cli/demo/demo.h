/*
 * cli/demo/demo.h - the machinery of `meridian demo`: the programs that it starts and reliably
 * ends, and the nodes that they run on. Internal to cli/.
 *
 * For root a node is a network namespace. Otherwise it is a directory, and all nodes share this
 * machine's network. In both cases libsimclock.so gives its programs a clock with a known error.
 * Threads: one, and no other thread may exist before mrd_demo_nodes_open.
 */
#ifndef MRD_CLI_DEMO_DEMO_H
#define MRD_CLI_DEMO_DEMO_H

#include <limits.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/conf/json.h"
#include "sim/simclock.h"

#define DEMO_NODES_MAX 32

/* ---- Programs ---- */

typedef struct {
    pid_t pid; /* process id; 0 if the program has ended and was reaped */
    int status;
    char name[48];
    char log[PATH_MAX];
} mrd_demo_program;

typedef struct {
    mrd_demo_program v[2 * DEMO_NODES_MAX + 4];
    size_t n;
} mrd_demo_programs;

/* Starts a program. argv[0] is its path. Each env entry "NAME=value" replaces an inherited one.
 * Inherited settings of Meridian, of the runtime and of launchers are removed. The program's output
 * goes to the log file. */
mrd_err mrd_demo_start(mrd_demo_programs *programs, const char *name, const char *log,
                       const mrd_strlist *argv, const mrd_strlist *env, mrd_why *why);
/* Returns a program that ended by itself, or NULL if all are running. */
const mrd_demo_program *mrd_demo_ended(mrd_demo_programs *programs);
/* Sends SIGTERM to all programs from `first` on, and SIGKILL after `patience`, also to their
 * descendants. */
void mrd_demo_end(mrd_demo_programs *programs, size_t first, mrd_dur_ns patience);
/* Prints the last lines of a log on stderr. */
void mrd_demo_show_log(const mrd_demo_program *program);
/* Runs words[0] (found on PATH) and waits for its end. Errors: IO with the program's last line of
 * output. */
mrd_err mrd_demo_run(mrd_why *why, const char *const *words);

/* ---- Nodes ---- */

typedef struct {
    char id[32];        /* instance id, such as "i-sim0001" */
    char address[32];   /* IP address under which other nodes reach this one */
    char space[32];     /* name of the network namespace, "" for none */
    char error[160];    /* error of its clock in the format of sim/simclock.h, without the epoch */
    char setting[256];  /* environment entry MERIDIAN_SIM_CLOCK=... for programs of this node */
    mrd_simclock clock; /* the simulated clock, with its true error */
    char dir[PATH_MAX]; /* directory of the node's rings, spool and logs */
    char rings[PATH_MAX]; /* directory of the node's rings, below `dir` */
} mrd_demo_node;

typedef struct {
    mrd_demo_node v[DEMO_NODES_MAX];
    size_t n;
    bool spaces;
    /* namespace of the aggregator; mrd_demo_nodes_open() also moves this process into it */
    char home[32];
    char address[32]; /* address at which nodes reach the aggregator */
    /* address at which other programs on this machine reach it; "" means unreachable */
    char outside[32];
    char note[256]; /* why the nodes have no network namespaces */
    /* when the clocks begin to be wrong, by the raw clock without simulated error */
    mrd_local_ns epoch;
    /* when a wall clock is stepped, by the raw clock without simulated error; 0 means never */
    mrd_local_ns step;
} mrd_demo_nodes;

/* Makes count nodes with directories below `dir`. `spaces` false disables network namespaces. If
 * namespaces are not available, nodes have none, and `note` says why. Errors: IO. */
mrd_err mrd_demo_nodes_open(mrd_demo_nodes *nodes, size_t count, const char *dir, bool spaces,
                            mrd_why *why);
/* Removes the namespaces. Also accepts nodes that failed to open. */
void mrd_demo_nodes_close(mrd_demo_nodes *nodes);
/* Appends the words that must precede a program's path to run it on the node. */
mrd_err mrd_demo_node_prefix(const mrd_demo_node *node, mrd_strlist *argv);
/* Returns a port of the loopback address that is free now, or 0 if none is. Another program may
 * take the port before it is used. */
uint16_t mrd_demo_free_port(int type);

/* ---- Reports on stdout ---- */

/* Compares the events in the journal with the counts of the agents. Returns false if they do not
 * match. */
bool mrd_demo_print_accounting(const mrd_demo_nodes *nodes, const mrd_json *session);
/* Prints for each node the clock's true error and the estimate in the merge's tables in `store`.
 * Returns false if the true error is outside of a bound. */
bool mrd_demo_print_clocks(const mrd_demo_nodes *nodes, const char *store, const mrd_json *session);
/* Prints in which order participants left collectives, once by the nodes' wall clocks and once by
 * the merged times. The file `profile` contains only barriers. Prints a message and returns false
 * if the file cannot be read. */
bool mrd_demo_print_order(const mrd_demo_nodes *nodes, size_t cores, const char *store,
                          const char *profile);
/* Prints the name of a text file and its lines up to the first empty one. */
void mrd_demo_print_head(const char *path);

#endif
