/*
 * cli/demo/demo.h - the machinery of `meridian demo`: the programs that it starts and reliably ends, and
 * the nodes that they run on. Internal to cli/.
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
    pid_t pid; /* 0: ended and reaped */
    int status;
    char name[48];
    char log[PATH_MAX];
} mrd_demo_program;

typedef struct {
    mrd_demo_program v[2 * DEMO_NODES_MAX + 4];
    size_t n;
} mrd_demo_programs;

/* argv[0] is a path. env entries "NAME=value" replace inherited ones. Inherited settings of
 * Meridian, of the runtime and of launchers are removed. Output goes to the log file. */
mrd_err mrd_demo_start(mrd_demo_programs *programs, const char *name, const char *log,
                       const mrd_strlist *argv, const mrd_strlist *env, mrd_why *why);
/* Returns a program that ended by itself, NULL if all run. */
const mrd_demo_program *mrd_demo_ended(mrd_demo_programs *programs);
/* Sends SIGTERM to all programs from `first` on, and SIGKILL after `patience`, also to their
 * descendants. */
void mrd_demo_end(mrd_demo_programs *programs, size_t first, mrd_dur_ns patience);
/* Prints the last lines of a log on stderr. */
void mrd_demo_show_log(const mrd_demo_program *program);
/* Runs words[0] (found on PATH) to its end. Errors: IO with its last line of output. */
mrd_err mrd_demo_run(mrd_why *why, const char *const *words);

/* ---- Nodes ---- */

typedef struct {
    char id[32];        /* "i-sim0001" */
    char address[32];   /* address for other nodes */
    char space[32];     /* network namespace, "" for none */
    char error[160];    /* error of its clock in the format of sim/simclock.h, without the epoch */
    char setting[256];  /* MERIDIAN_SIM_CLOCK=... */
    mrd_simclock clock; /* the truth */
    char dir[PATH_MAX]; /* rings, spool, logs */
    char rings[PATH_MAX]; /* a folder in dir */
} mrd_demo_node;

typedef struct {
    mrd_demo_node v[DEMO_NODES_MAX];
    size_t n;
    bool spaces;
    char home[32];      /* namespace of the aggregator and, from then on, of this process */
    char address[32];   /* of the aggregator, for the nodes */
    char outside[32];   /* and for other programs on this machine; "" means unreachable */
    char note[256];     /* why there are no namespaces */
    mrd_local_ns epoch; /* when the clocks begin to be wrong, in true raw time */
    mrd_local_ns step;  /* when a wall clock is stepped, in true raw time; 0 means never */
} mrd_demo_nodes;

/* Makes count nodes with directories below `dir`. `spaces` false disables namespaces. If namespaces are
 * not available, there are none, and `note` says why. Errors: IO. */
mrd_err mrd_demo_nodes_open(mrd_demo_nodes *nodes, size_t count, const char *dir, bool spaces,
                            mrd_why *why);
/* Removes the namespaces; partly opened nodes are fine. */
void mrd_demo_nodes_close(mrd_demo_nodes *nodes);
/* Appends the arguments before a program's path that make it run on the node. */
mrd_err mrd_demo_node_prefix(const mrd_demo_node *node, mrd_strlist *argv);
/* Returns a free port of the loopback address, which another program may take before it is used. 0
 * means none. */
uint16_t mrd_demo_free_port(int type);

/* ---- Reports, on stdout ---- */

/* Compares the events in the journal with the counts of the agents. Returns false if they do not
 * match. */
bool mrd_demo_print_accounting(const mrd_demo_nodes *nodes, const mrd_json *session);
/* Prints per node the clock's true error and the merge's tables in `store`. Returns false if a
 * bound is wrong. */
bool mrd_demo_print_clocks(const mrd_demo_nodes *nodes, const char *store, const mrd_json *session);
/* Prints collectives by the nodes' wall clocks and as merged, from a profile that contains only
 * their barriers. Returns false, with a message, if it cannot be read. */
bool mrd_demo_print_order(const mrd_demo_nodes *nodes, size_t cores, const char *store,
                          const char *profile);
/* Prints a text file up to its first empty line, and its name. */
void mrd_demo_print_head(const char *path);

#endif
