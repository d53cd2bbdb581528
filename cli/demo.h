/*
 * cli/demo.h - the machinery of `meridian demo`: programs it starts and ends for certain, and the
 * nodes they run on. Inside cli/ only.
 *
 * A node is, as root, a network namespace; otherwise it is a folder, and all nodes share this
 * machine's network. Either way libsimclock.so puts a clock under its programs that is wrong by a
 * known amount. Threads: one, and none may exist before mrd_demo_nodes_open.
 */
#ifndef MRD_CLI_DEMO_H
#define MRD_CLI_DEMO_H

#include <limits.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "hw/simclock.h"

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

/* argv[0] is a path. env entries "NAME=value" replace inherited ones; inherited settings of
 * Meridian, of the runtime and of launchers are left out. Output goes to the log file. */
mrd_err mrd_demo_start(mrd_demo_programs *programs, const char *name, const char *log,
                       const mrd_strlist *argv, const mrd_strlist *env, mrd_why *why);
/* A program that ended by itself, NULL when all run. */
const mrd_demo_program *mrd_demo_ended(mrd_demo_programs *programs);
/* SIGTERM to all from `first` on, SIGKILL after patience, to their descendants too. */
void mrd_demo_end(mrd_demo_programs *programs, size_t first, mrd_dur_ns patience);
/* The last lines of a log on stderr. */
void mrd_demo_show_log(const mrd_demo_program *program);
/* Runs words[0] (found on PATH) to its end; IO with its last line of output when it fails. */
mrd_err mrd_demo_run(mrd_why *why, const char *const *words);

/* ---- Nodes ---- */

typedef struct {
    char id[32];          /* "i-sim0001" */
    char address[32];     /* where other nodes reach it */
    char space[32];       /* network namespace, "" for none */
    char error[160];      /* of its clock, as hw/simclock.h writes it, without the epoch */
    char setting[256];    /* MERIDIAN_SIM_CLOCK=... */
    mrd_simclock clock;   /* the truth */
    char dir[PATH_MAX];   /* rings, spool, logs */
    char rings[PATH_MAX]; /* a folder in dir */
} mrd_demo_node;

typedef struct {
    mrd_demo_node v[DEMO_NODES_MAX];
    size_t n;
    bool spaces;
    char home[32];      /* namespace of the aggregator, and of this process from then on */
    char address[32];   /* of the aggregator, for the nodes */
    char outside[32];   /* and for everybody else on this machine; "": it cannot be reached */
    char note[256];     /* why there are no namespaces */
    mrd_local_ns epoch; /* when the clocks begin to be wrong, true raw time */
    mrd_local_ns step;  /* when a wall clock is stepped, true raw time; 0: none is */
} mrd_demo_nodes;

/* n nodes with folders below dir. spaces false: never namespaces. Without the means for namespaces
 * they are done without, and `note` says why. Errors: IO. */
mrd_err mrd_demo_nodes_open(mrd_demo_nodes *nodes, size_t n, const char *dir, bool spaces,
                            mrd_why *why);
/* Removes the namespaces; nodes that were opened in part are fine. */
void mrd_demo_nodes_close(mrd_demo_nodes *nodes);
/* Appends what must stand before a program's path for it to run on the node. */
mrd_err mrd_demo_node_prefix(const mrd_demo_node *node, mrd_strlist *argv);
/* A free port of the loopback address; it may be taken until it is used. 0: none. */
uint16_t mrd_demo_free_port(int type);

/* ---- Reports, on stdout ---- */

/* What lies in the journal beside what the agents say they began. False when that does not add up. */
bool mrd_demo_print_accounting(const mrd_demo_nodes *nodes, const mrd_json *session);
/* Per node the clock's true error beside the merge's tables in `store`. False when a bound does not
 * hold the truth. */
bool mrd_demo_print_clocks(const mrd_demo_nodes *nodes, const char *store, const mrd_json *session);
/* Collectives by the nodes' wall clocks and as merged, from a profile with their barriers only. False
 * when it cannot be read, with a message. */
bool mrd_demo_print_order(const mrd_demo_nodes *nodes, size_t cores, const char *store,
                          const char *profile);
/* A text file up to its first empty line, and its name. */
void mrd_demo_print_head(const char *path);

#endif
