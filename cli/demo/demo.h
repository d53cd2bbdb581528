/*
 * cli/demo/demo.h - internals of `meridian demo`: the programs that it starts and always ends, and
 * the simulated nodes on which they run.
 *
 * If the demo runs as root, a node is a network namespace. Otherwise it is only a directory, and
 * all nodes share this machine's network. In both cases libsimclock.so gives the programs of a node
 * a clock with a known error.
 *
 * Threads: one. No other thread may exist before mrd_demo_nodes_open.
 */
#ifndef MRD_CLI_DEMO_DEMO_H
#define MRD_CLI_DEMO_DEMO_H

#include <limits.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/conf/json.h"
#include "cli/client/client.h"
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
/* Ends all programs from index `first` on, and their descendants. Sends SIGTERM first, and SIGKILL
 * to all that still run after `patience`. */
void mrd_demo_end(mrd_demo_programs *programs, size_t first, mrd_dur_ns patience);
/* Prints the last lines of a log on stderr. */
void mrd_demo_show_log(const mrd_demo_program *program);
/* Runs words[0] (found on PATH) and waits for its end. Errors: IO with the program's last line of
 * output. */
mrd_err mrd_demo_run(mrd_why *why, const char *const *words);

/* Stores the path of the first candidate that exists. Candidates are relative to the directory of
 * this program. Errors: NOTFOUND, with the name `what` in the message. */
mrd_err mrd_demo_locate(const char *what, const char *const *candidates, char path[PATH_MAX],
                        mrd_why *why);

/* ---- Verdicts while the job runs ---- */

typedef struct {
    mrd_client *client;
    const char *job;      /* number of the job in the list of jobs */
    int64_t slow_rank;    /* rank that makes the job slow; -1 if there is none */
    int64_t stopped_rank; /* rank that is stopped for a moment; -1 for none */
    mrd_dur_ns timeout;   /* maximum wait for each verdict */
    /* called while waiting; an error ends the wait */
    mrd_err (*look)(void *self, mrd_why *why);
    void *self;
} mrd_demo_live;

/* Waits for the verdict about the slow rank and prints it. Then stops a rank, prints the verdict,
 * and lets the rank continue. *ret_whole is false if a verdict is missing after the timeout. Errors:
 * those of `look`. */
mrd_err mrd_demo_show_live(const mrd_demo_live *live, bool *ret_whole, mrd_why *why);

/* ---- Nodes ---- */

typedef struct {
    char id[32];      /* instance id, such as "i-sim0001" */
    char address[32]; /* IP address under which other nodes reach this one */
    char space[32];   /* name of the network namespace, "" for none */
    /* error of the node's clock in the format of sim/simclock.h, without the epoch */
    char error[160];
    char setting[256];    /* environment entry MERIDIAN_SIM_CLOCK=... for programs of this node */
    mrd_simclock clock;   /* the simulated clock, which knows its true error */
    char dir[PATH_MAX];   /* directory of the node's rings, spool and logs */
    char rings[PATH_MAX]; /* directory of the node's rings, below `dir` */
} mrd_demo_node;

typedef struct {
    mrd_demo_node v[DEMO_NODES_MAX];
    size_t n;
    bool spaces;
    /* namespace of the aggregator; mrd_demo_nodes_open() also moves this process into this
     * namespace */
    char home[32];
    char address[32]; /* address at which nodes reach the aggregator */
    /* address at which programs outside of the namespaces reach the aggregator; "" if they
     * cannot */
    char outside[32];
    char note[256]; /* why the nodes have no network namespaces; "" if they have */
    /* When the simulated clock errors begin. A time of CLOCK_MONOTONIC_RAW without simulated
     * error. */
    mrd_local_ns epoch;
    /* When a node's wall clock jumps, in the same clock as `epoch`. 0 means never. */
    mrd_local_ns step;
} mrd_demo_nodes;

/* Makes `count` nodes with directories below `dir`. Network namespaces are used if `spaces` is set
 * and this process may create them. Otherwise `note` says why they are not used. Errors: IO. */
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

/* Prints how many events of each node are in the journal and how many its agent counted. Returns
 * false if the numbers differ. */
bool mrd_demo_print_accounting(const mrd_demo_nodes *nodes, const mrd_json *session);
/* Prints for each node the true error of its clock, and the estimate from the merge's tables in
 * `store`. Returns false if a true error lies outside of the estimate's bound. */
bool mrd_demo_print_clocks(const mrd_demo_nodes *nodes, const char *store, const mrd_json *session);
/* Prints in which order participants left collectives: by the nodes' wall clocks, and by the merged
 * times. `profile` must contain only barriers. Prints a message and returns false if it cannot be
 * read. */
bool mrd_demo_print_order(const mrd_demo_nodes *nodes, size_t cores, const char *store,
                          const char *profile);
/* Prints the address of the web page, and how to reach it if it stays (`keep`). `certs` is the
 * directory of the certificates and tokens. */
void mrd_demo_print_page(const char *page, const char *certs, bool keep);
/* Prints the name of a text file and its lines up to the first empty one. */
void mrd_demo_print_head(const char *path);

#endif
