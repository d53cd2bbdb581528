/*
 * cli/doctor/doctor.h - `meridian doctor`: checks what an agent with these settings would find on
 * this node, and reports problems with remedies. cmd_doctor.c lists the checks and prints the
 * findings. doctor_*.c contain the checks, and doctor.c their helpers.
 *
 * Nothing on the node changes, with two exceptions: a test file is created and removed in
 * directories that must be writable, and the aggregator sees a connection without data. Threads:
 * one.
 */
#ifndef MRD_CLI_DOCTOR_DOCTOR_H
#define MRD_CLI_DOCTOR_DOCTOR_H

#include "agent/daemon/agent.h"
#include "base/conf/conf.h"
#include "base/conf/json.h"

typedef enum {
    MRD_DOCTOR_OK,
    MRD_DOCTOR_WARNING, /* the agent works, but some functions are limited or will soon fail */
    MRD_DOCTOR_FAILED,  /* a function that the settings request will not work */
    MRD_DOCTOR_LEVELS
} mrd_doctor_level;

/* Where the agent's settings come from. */
typedef enum {
    MRD_DOCTOR_OWN,   /* options, variables and files of `meridian doctor` itself */
    MRD_DOCTOR_AGENT, /* the agent that runs on this node */
    MRD_DOCTOR_HIDDEN, /* as OWN, because this user cannot read the settings of the agent that runs */
} mrd_doctor_source;

typedef struct {
    mrd_agent_options *agent;
    mrd_doctor_source source;
    mrd_node_identity node; /* identity of this node, set by the first check */
    bool agent_runs;        /* true if an agent runs on this node, set by mrd_doctor_process */
    const char *check;      /* name of the current check */
    mrd_json *findings;     /* {"check", "level", "message", "fix"} of each finding, in order */
    unsigned counts[MRD_DOCTOR_LEVELS];
} mrd_doctor;

/* Returns the name of the level in the JSON output. */
const char *mrd_doctor_level_text(mrd_doctor_level level);
/* Adds a finding. `fix` is the remedy, NULL if there is none. */
void mrd_doctor_say(mrd_doctor *doctor, mrd_doctor_level level, const char *fix, const char *format,
                    ...) __attribute__((format(printf, 4, 5)));
/* Return a path below --advanced.proc-root or --sys-root in `to`. */
const char *mrd_doctor_proc(const mrd_doctor *doctor, const char *rest, char to[1024]);
const char *mrd_doctor_sys(const mrd_doctor *doctor, const char *rest, char to[1024]);
/* Returns where an agent with these settings searches for hardware counters. */
mrd_hw_options mrd_doctor_hw(const mrd_agent_options *agent);
/* Checks whether a directory is writable, and reports a finding if it is not. Returns true if it
 * is. Stores the number of bytes that this user can still write there in *ret_free. */
bool mrd_doctor_writable(mrd_doctor *doctor, const char *what, const char *dir, int64_t *ret_free);

/* Returns true if the process below `proc`, such as "/proc", is an agent. */
bool mrd_doctor_is_agent(const char *proc, const char *pid);
/* Takes the variables and options of the agent that runs, if exactly one runs, and enters its
 * working directory. The variables are set in this process, unless they are set already. */
mrd_doctor_source mrd_doctor_take(const mrd_opt *table, size_t rows, void *settings);

/* ---- The checks in the order in which they run ---- */

void mrd_doctor_identity(mrd_doctor *doctor); /* checks of the node, in doctor_node.c */
/* checks whether an agent runs, and with which capabilities */
void mrd_doctor_process(mrd_doctor *doctor);
void mrd_doctor_rings(mrd_doctor *doctor);
/* checks whether the agent reaches processes in other containers and namespaces */
void mrd_doctor_containers(mrd_doctor *doctor);
void mrd_doctor_limits(mrd_doctor *doctor);
void mrd_doctor_clock(mrd_doctor *doctor); /* checks of clocks, in doctor_clock.c */
void mrd_doctor_wall(mrd_doctor *doctor);
void mrd_doctor_absolute(mrd_doctor *doctor);
void mrd_doctor_stamps(mrd_doctor *doctor);
/* checks of the connection to the aggregator, in doctor_link.c */
void mrd_doctor_spool(mrd_doctor *doctor);
void mrd_doctor_tls(mrd_doctor *doctor);
void mrd_doctor_token(mrd_doctor *doctor);
void mrd_doctor_aggregator(mrd_doctor *doctor);
void mrd_doctor_metrics(mrd_doctor *doctor);
/* checks of the vendor's software, in doctor_neuron.c */
void mrd_doctor_neuron(mrd_doctor *doctor);
void mrd_doctor_runtime(mrd_doctor *doctor);

#endif
