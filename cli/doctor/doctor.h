/*
 * cli/doctor/doctor.h - `meridian doctor`: checks what an agent with these settings would find on this
 * node, and reports problems with remedies. cmd_doctor.c has the list of checks and prints.
 * doctor_*.c contain the checks, with helpers of doctor.c.
 *
 * Changes nothing on the node, except that a test file is created and removed where writing is
 * checked, and that the aggregator sees a connection without data. Threads: one.
 */
#ifndef MRD_CLI_DOCTOR_DOCTOR_H
#define MRD_CLI_DOCTOR_DOCTOR_H

#include "agent/daemon/agent.h"
#include "base/conf/json.h"

typedef enum {
    MRD_DOCTOR_OK,
    MRD_DOCTOR_WARNING, /* the agent works, but less well or not for long */
    MRD_DOCTOR_FAILED,  /* a requested function will not work */
    MRD_DOCTOR_LEVELS
} mrd_doctor_level;

typedef struct {
    mrd_agent_options *agent;
    mrd_node_identity node; /* set by the first check */
    bool agent_runs;        /* found by the check of the process */
    const char *check;      /* the current check */
    mrd_json *findings;     /* {"check", "level", "message", "fix"} in order */
    unsigned counts[MRD_DOCTOR_LEVELS];
} mrd_doctor;

const char *mrd_doctor_level_text(mrd_doctor_level level); /* as in JSON */
/* Adds a finding. `fix` is the remedy, NULL if there is none. */
void mrd_doctor_say(mrd_doctor *doctor, mrd_doctor_level level, const char *fix, const char *format,
                    ...) __attribute__((format(printf, 4, 5)));
/* Returns a path below --advanced.proc-root or --sys-root in `to`. */
const char *mrd_doctor_proc(const mrd_doctor *doctor, const char *rest, char to[1024]);
const char *mrd_doctor_sys(const mrd_doctor *doctor, const char *rest, char to[1024]);
/* Returns where an agent with these settings finds counters. */
mrd_hw_options mrd_doctor_hw(const mrd_agent_options *agent);
/* Reports a directory that is not writable. *ret_free are the free bytes for this user. */
bool mrd_doctor_writable(mrd_doctor *doctor, const char *what, const char *dir, int64_t *ret_free);

/* ---- The checks, in their order ---- */

void mrd_doctor_identity(mrd_doctor *doctor); /* doctor_node.c */
void
mrd_doctor_process(mrd_doctor *doctor); /* whether an agent runs, and with which capabilities */
void mrd_doctor_rings(mrd_doctor *doctor);
void mrd_doctor_containers(mrd_doctor *doctor); /* other processes, other namespaces */
void mrd_doctor_limits(mrd_doctor *doctor);
void mrd_doctor_clock(mrd_doctor *doctor); /* doctor_clock.c */
void mrd_doctor_wall(mrd_doctor *doctor);
void mrd_doctor_stamps(mrd_doctor *doctor);
void mrd_doctor_spool(mrd_doctor *doctor); /* doctor_link.c */
void mrd_doctor_tls(mrd_doctor *doctor);
void mrd_doctor_token(mrd_doctor *doctor);
void mrd_doctor_aggregator(mrd_doctor *doctor);
void mrd_doctor_metrics(mrd_doctor *doctor);
void mrd_doctor_neuron(mrd_doctor *doctor); /* doctor_neuron.c */
void mrd_doctor_runtime(mrd_doctor *doctor);

#endif
