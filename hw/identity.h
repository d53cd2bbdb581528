/*
 * hw/identity.h - identifies this node, and the process, rank, job and pod of a pid.
 *
 * Other programs write the data that is read here (environment, command line, cgroup paths). It is
 * limited in size and not trusted. A part that is unreadable or invalid is unknown.
 */
#ifndef MRD_HW_IDENTITY_H
#define MRD_HW_IDENTITY_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/jobid.h"
#include "hw/imds.h"
#include "trace/model/catalog.h" /* MRD_NONE */

typedef struct {
    const char *instance_id; /* --instance-id; NULL or "" to detect it */
    const char *proc_root;   /* NULL for "/proc" */
    const char *machine_id;  /* path of the file; NULL for /etc/machine-id */
    /* address of the metadata service; NULL to take it from the environment */
    const char *endpoint;
    mrd_dur_ns timeout; /* 0 for MRD_IMDS_TIMEOUT; negative to skip the service */
} mrd_node_options;

typedef struct {
    char instance_id[129];
    const char *source; /* "option", "imds", "machine-id" or "host name"; static */
    char host_name[256];
    char boot_id[64]; /* the kernel's boot id; empty if unreadable */
    mrd_imds imds;    /* members are empty if the service did not answer */
    char note[256];   /* why the metadata service was not the source, or empty */
} mrd_node_identity;

/* Identifies this node. An explicit id has priority, then the metadata service, then "m-" with 17
 * digits of the machine id's hash, then the host name. Errors: INVALID (the explicit id has other
 * characters than a plain name), NOTFOUND (no source). */
mrd_err mrd_node_identify(const mrd_node_options *options, mrd_node_identity *ret_node,
                          mrd_why *why);

typedef struct {
    int64_t pid; /* as seen in this reader's /proc */
    /* pid in the innermost namespace, or MRD_NONE if the process is not in a nested one */
    int64_t container_pid;
    /* together with pid it identifies a process until reboot; MRD_NONE if unknown */
    int64_t start_ticks;
    int64_t rank, world_size; /* MRD_NONE */
    int64_t uid;              /* real user; MRD_NONE */
    char comm[64];
    char command[512]; /* arguments separated by spaces, may be cut */
    char job[128];     /* job id from MERIDIAN_JOB, SLURM_JOB_ID or the cgroup */
    mrd_jobid jobid;   /* complete job, step, pod and labels from the environment */
    /* MERIDIAN_SESSION, by which the job requests a recording; empty if it does not */
    char session[256];
    char pod_uid[64], pod_name[128], container_id[80];
    char inspect_dir[512];          /* NEURON_RT_INSPECT_OUTPUT_DIR as given, may be relative */
    char cwd[512];                  /* working directory; empty if not readable */
    char visible_cores[128];        /* NEURON_RT_VISIBLE_CORES */
    char process_tag[256];          /* NEURON_PROCESS_TAG */
    mrd_dur_ns timens_monotonic_ns; /* clock of its time namespace minus clock of the initial one */
    mrd_dur_ns timens_boottime_ns;
    bool env_denied;    /* the environment was not readable, so rank and job may be missing */
    bool pod_confirmed; /* the kubelet's files confirm pod and namespace */
} mrd_ident;

/* Reads the identity of a process. Errors: NOTFOUND if it does not exist. Other parts that cannot
 * be read are unknown. */
mrd_err mrd_ident_read(const char *proc_root, int64_t pid, mrd_ident *ret_ident, mrd_why *why);

/* Stores the uid of the pod to which the kernel assigns the process by its cgroup. Empty if there
 * is none. */
void mrd_pod_of(const char *proc_root, int64_t pid, char ret_uid[64]);
/*
 * Stores the keys namespace, pod and pod_uid of a pod. They come from the name of the directory in
 * which the kubelet keeps the pod's logs, NAMESPACE_NAME_UID. Errors: NOTFOUND if there is no such
 * directory or the uid is empty.
 */
mrd_err mrd_pod_find(const char *pod_dir, const char *uid, mrd_jobid *ret_words);

/* The parsers, for tests and fuzzing. Each of them only adds to *id. */
void mrd_ident_init(mrd_ident *id);
void mrd_ident_environ(mrd_ident *id, mrd_str text); /* NAME=value NUL ... */
void mrd_ident_cgroup(mrd_ident *id, mrd_str path);
void mrd_ident_status(mrd_ident *id, mrd_str text);
void mrd_ident_cmdline(mrd_ident *id, mrd_str text);
void mrd_ident_timens(mrd_ident *id, mrd_str text);

#endif
