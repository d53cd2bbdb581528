/*
 * hw/identity.h - identifies this node, and finds the process, rank, job and pod of a pid.
 *
 * The data comes from the environment, command line and control group path of processes. Other
 * programs control these, so their size is limited and they are not trusted. A value that is
 * unreadable or invalid is unknown.
 */
#ifndef MRD_HW_IDENTITY_H
#define MRD_HW_IDENTITY_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/jobid.h"
#include "hw/imds.h"
#include "trace/model/catalog.h" /* MRD_NONE */

typedef struct {
    /* id given by --instance-id; NULL or "" means that the id is detected */
    const char *instance_id;
    const char *proc_root;  /* root of procfs; NULL means "/proc" */
    const char *machine_id; /* file with the machine id; NULL means /etc/machine-id */
    /* address of the metadata service, or NULL for the address in the environment */
    const char *endpoint;
    /* time limit for the metadata service; 0 means MRD_IMDS_TIMEOUT, negative disables it */
    mrd_dur_ns timeout;
} mrd_node_options;

typedef struct {
    char instance_id[129];
    /* a static text: "option", "imds", "machine-id" or "host name" */
    const char *source;
    char host_name[256];
    char boot_id[64]; /* the kernel's boot id; empty if unreadable */
    mrd_imds imds;    /* members are empty if the service did not answer */
    char note[256];   /* why the metadata service was not the source, or empty */
} mrd_node_identity;

/* Determines the id of this node from the first source that has one. The order is: the explicit id,
 * the metadata service, "m-" with 17 digits of a hash of the machine id, the host name. Errors:
 * INVALID (the explicit id has characters that are not allowed in an id), NOTFOUND (no source). */
mrd_err mrd_node_identify(const mrd_node_options *options, mrd_node_identity *ret_node,
                          mrd_why *why);

typedef struct {
    int64_t pid; /* pid in the /proc that this program reads */
    /* pid in the innermost pid namespace, or MRD_NONE if the process is not in a nested one */
    int64_t container_pid;
    /* start time in USER_HZ since boot, or MRD_NONE if unknown; unique together with pid until
     * reboot */
    int64_t start_ticks;
    int64_t rank, world_size; /* rank of the process and number of ranks; MRD_NONE if unknown */
    int64_t uid;              /* real user id; MRD_NONE if unknown */
    char comm[64];
    char command[512]; /* arguments separated by spaces, cut if too long */
    char job[128];     /* job id from MERIDIAN_JOB, SLURM_JOB_ID or the control group */
    mrd_jobid jobid;   /* job, step, pod and labels, as the environment states them */
    /* MERIDIAN_SESSION, with which a job requests a recording; empty if it is not set */
    char session[256];
    char pod_uid[64], pod_name[128], container_id[80];
    char inspect_dir[512];   /* NEURON_RT_INSPECT_OUTPUT_DIR, which may be relative to cwd */
    char cwd[512];           /* working directory; empty if not readable */
    char visible_cores[128]; /* value of NEURON_RT_VISIBLE_CORES */
    char process_tag[256];   /* value of NEURON_PROCESS_TAG */
    /* Difference of a clock in the process's time namespace and in the initial one: process minus
     * initial. */
    mrd_dur_ns timens_monotonic_ns;
    mrd_dur_ns timens_boottime_ns;
    bool env_denied; /* the environment could not be read, so that rank and job may be missing */
    /* the pod and its namespace were read from the names of the kubelet's log directories */
    bool pod_confirmed;
} mrd_ident;

/* Reads the identity of a process. Values that cannot be read are unknown. Errors: NOTFOUND if the
 * process does not exist. */
mrd_err mrd_ident_read(const char *proc_root, int64_t pid, mrd_ident *ret_ident, mrd_why *why);

/* Stores the uid of the pod to which the control group of a process belongs, or "" if it belongs to
 * none. The kernel assigns the control group. */
void mrd_pod_of(const char *proc_root, int64_t pid, char ret_uid[64]);
/*
 * Finds namespace and name of the pod with this uid, and stores the keys namespace, pod and
 * pod_uid. The kubelet keeps the logs of a pod in the directory pod_dir/NAMESPACE_NAME_UID. Errors:
 * NOTFOUND if there is no such directory or the uid is empty.
 */
mrd_err mrd_pod_find(const char *pod_dir, const char *uid, mrd_jobid *ret_words);

/* These functions parse one source each, and are public for tests and fuzzing. They only add to
 * *id. */
void mrd_ident_init(mrd_ident *id);
/* `text` is a sequence of "NAME=value", each ending with NUL */
void mrd_ident_environ(mrd_ident *id, mrd_str text);
void mrd_ident_cgroup(mrd_ident *id, mrd_str path);
void mrd_ident_status(mrd_ident *id, mrd_str text);
void mrd_ident_cmdline(mrd_ident *id, mrd_str text);
void mrd_ident_timens(mrd_ident *id, mrd_str text);

#endif
