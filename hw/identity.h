/*
 * hw/identity.h - which node this is, and which process, rank, job, pod a pid belongs to.
 *
 * Everything read here was written by others (environment, command line, cgroup paths): it is
 * bounded, never trusted, and a part that cannot be read or makes no sense is simply unknown.
 */
#ifndef MRD_HW_IDENTITY_H
#define MRD_HW_IDENTITY_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/jobid.h"
#include "hw/imds.h"
#include "trace/model/catalog.h" /* MRD_NONE */

typedef struct {
    const char *instance_id; /* --instance-id; NULL or "": ask the machine */
    const char *proc_root;   /* NULL: "/proc" */
    const char *machine_id;  /* file; NULL: /etc/machine-id */
    const char *endpoint;    /* of the metadata service, NULL: as the environment says */
    mrd_dur_ns timeout;      /* 0: MRD_IMDS_TIMEOUT; negative: do not ask */
} mrd_node_options;

typedef struct {
    char instance_id[129];
    const char *source; /* "option", "imds", "machine-id", "host name": static */
    char host_name[256];
    char boot_id[64]; /* of the kernel; empty when unreadable */
    mrd_imds imds;    /* members empty when the service did not answer */
    char note[256];   /* why the metadata service was not the source; empty when it was */
} mrd_node_identity;

/* An explicit id wins, then the metadata service, then "m-" and 17 digits of the machine-id's hash,
 * then the host name. Errors: INVALID (the explicit id is no plain name), NOTFOUND (nothing). */
mrd_err mrd_node_identify(const mrd_node_options *options, mrd_node_identity *ret_node,
                          mrd_why *why);

typedef struct {
    int64_t pid;           /* as this reader's /proc counts */
    int64_t container_pid; /* innermost namespace; MRD_NONE when it has none of its own */
    int64_t start_ticks;   /* with pid names one process until reboot; MRD_NONE */
    int64_t rank, world_size, local_rank; /* MRD_NONE */
    int64_t uid;                          /* real user; MRD_NONE */
    char comm[64];
    char command[512]; /* arguments, blanks between them; cut */
    char job[128];     /* MERIDIAN_JOB, SLURM_JOB_ID, job of the cgroup */
    mrd_jobid jobid;   /* job, step, pod and labels in full, as the environment says */
    char session[256]; /* MERIDIAN_SESSION: how its job asks to be recorded; empty: it does not */
    char pod_uid[64], pod_name[128], container_id[80];
    char inspect_dir[512];          /* NEURON_RT_INSPECT_OUTPUT_DIR as given, may be relative */
    char cwd[512];                  /* empty when not readable */
    char visible_cores[128];        /* NEURON_RT_VISIBLE_CORES */
    char process_tag[256];          /* NEURON_PROCESS_TAG */
    mrd_dur_ns timens_monotonic_ns; /* its clock minus the initial namespace's */
    mrd_dur_ns timens_boottime_ns;
    bool env_denied;    /* the environment could not be read: rank and job may be missing */
    bool pod_confirmed; /* the kubelet says in which pod and namespace it runs */
} mrd_ident;

/* Errors: NOTFOUND (no such process); everything else is left unknown. */
mrd_err mrd_ident_read(const char *proc_root, int64_t pid, mrd_ident *ret_ident, mrd_why *why);

/* Stores the uid of the pod whose cgroup the process is in, as the kernel says; empty if it is in none. */
void mrd_pod_of(const char *proc_root, int64_t pid, char ret_uid[64]);
/*
 * Stores the words namespace, pod and pod_uid of this pod, by the folder in which the kubelet keeps the
 * logs of each pod: NAMESPACE_NAME_UID. Errors: NOTFOUND: there is no such folder, or the uid is empty.
 */
mrd_err mrd_pod_find(const char *pod_dir, const char *uid, mrd_jobid *ret_words);

/* The parsers, for tests and fuzzing; each only adds what it finds to *id. */
void mrd_ident_init(mrd_ident *id);
void mrd_ident_environ(mrd_ident *id, mrd_str text); /* NAME=value NUL ... */
void mrd_ident_cgroup(mrd_ident *id, mrd_str path);
void mrd_ident_status(mrd_ident *id, mrd_str text);
void mrd_ident_cmdline(mrd_ident *id, mrd_str text);
void mrd_ident_timens(mrd_ident *id, mrd_str text);

#endif
