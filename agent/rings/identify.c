/*
 * agent/rings/identify.c - finds the process of a ring, and verifies the ring's claims about it
 * with the kernel. The file's owner is part of a process's identity. So no user can write events
 * into the profile of another user's process.
 *
 *   confirmed   The process exists, began at the claimed time, and owns the file. A process must
 *               map the file instead if root owns the file or if the file is in a container.
 *   refused     The process exists and began at that time, but belongs to another user. The claim
 *               is false. The file is removed, and the table of users remembers that the pid
 *               belongs to that other user.
 *   apart       Nothing can be confirmed, because the process ended or its namespace is not
 *               readable. The pid belongs or belonged to another user, or is of another namespace.
 *               The process gets a number that no process of this node can have.
 *   believed    The process has ended. Nothing can be confirmed, but nothing contradicts the claim.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/rings/identify.h"
#include "base/hash.h"

#define PIDS_MAX   (1u << 22) /* the kernel's PID_MAX_LIMIT on 64 bits */
#define APART_MASK ((1u << 30) - 1)

/* ---- The users to which pids belong or belonged ---- */

mrd_err
mrd_drain_owners_init(mrd_drain *drain)
{
    /* reserves 16 MiB of address space; a page of memory is only used when one of its 1,024 pids
     * is */
    drain->owners = mmap(NULL, PIDS_MAX * sizeof(*drain->owners), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (drain->owners == MAP_FAILED)
        drain->owners = NULL;
    return drain->owners == NULL ? MRD_NOMEM : MRD_OK;
}

void
mrd_drain_owners_fini(mrd_drain *drain)
{
    if (drain->owners != NULL)
        (void) munmap(drain->owners, PIDS_MAX * sizeof(*drain->owners));
}

static void
note_owner(mrd_drain *drain, int64_t pid, int64_t uid)
{
    if (pid > 0 && pid < PIDS_MAX && uid >= 0 && uid < UINT32_MAX)
        drain->owners[pid] = (uint32_t) uid + 1;
}

/* Returns true if the pid belongs or belonged to a user other than `uid`. */
static bool
is_anothers(const mrd_drain *drain, int64_t pid, uint32_t uid)
{
    if (pid > 0 && pid < PIDS_MAX && drain->owners[pid] != 0 && drain->owners[pid] != uid + 1)
        return true;
    for (const proc *pr = drain->procs; pr != NULL; pr = pr->next)
        if (pr->pub.ident.pid == pid && pr->uid != uid)
            return true;
    return false;
}

/* ---- Claims of a ring ---- */

/* Fills in the members of the identity that could not be read from /proc, from the ring's own
 * text. */
static void
ident_from_ring(mrd_ident *id, mrd_str text)
{
    mrd_str cgroup = mrd_ring_ident_value(text, "cgroup"), cmd = mrd_ring_ident_value(text, "cmd");
    mrd_str exe = mrd_ring_ident_value(text, "exe");
    char lines[MRD_RING_IDENT_MAX];

    memcpy(lines, text.p, text.len);
    for (size_t i = 0; i < text.len; i++)
        if (lines[i] == '\n')
            lines[i] = '\0';
    mrd_ident_environ(id, (mrd_str){ lines, text.len });
    if (cgroup.len > 0 && id->container_id[0] == '\0' && id->pod_uid[0] == '\0')
        mrd_ident_cgroup(id, cgroup);
    if (id->command[0] == '\0')
        mrd_ident_cmdline(id, cmd);
    if (id->comm[0] == '\0' && exe.len > 0) {
        for (size_t i = exe.len; i > 0; i--)
            if (exe.p[i - 1] == '/') {
                exe = (mrd_str){ exe.p + i, exe.len - i };
                break;
            }
        snprintf(id->comm, sizeof(id->comm), "%.*s", (int) (exe.len < 63 ? exe.len : 63), exe.p);
    }
}

/* Returns a number above all pids, for a process in state `apart`. All rings with the same claim
 * get the same number. */
static int64_t
apart_pid(const mrd_ring_info *info)
{
    uint64_t claim[4] = { info->pid_ns, (uint64_t) info->name.pid, info->name.start_ticks,
                          info->file_uid };

    return (int64_t) PIDS_MAX + 1 +
           (int64_t) (mrd_hash64(claim, sizeof(claim), 0x41504152) & APART_MASK);
}

/* Returns true if the process maps the file. A user cannot make another user's process map a
 * file. */
static bool
maps_it(mrd_ring_reader *reader)
{
    return reader != NULL && mrd_ring_owner(reader, NULL) == MRD_OWNER_ALIVE;
}

/* Copies uid, job and pod of the identity into its job identity (id->jobid), where they replace
 * what the process itself claimed. */
static void
say_owner(mrd_ident *id, const mrd_ring_info *info)
{
    char uid[24];

    snprintf(uid, sizeof(uid), "%lld",
             (long long) (id->uid == MRD_NONE ? (int64_t) info->file_uid : id->uid));
    (void) mrd_jobid_set(&id->jobid, MRD_STR("uid"), mrd_str_of(uid));
    (void) mrd_jobid_set(&id->jobid, MRD_STR("job"), mrd_str_of(id->job));
    (void) mrd_jobid_set(&id->jobid, MRD_STR("pod_uid"), mrd_str_of(id->pod_uid));
    (void) mrd_jobid_set(&id->jobid, MRD_STR("pod"), mrd_str_of(id->pod_name));
}

/* Replaces pod and namespace by those in the kubelet's directory of pods, if there is one. A
 * process's environment is not trusted, because the process can change it. If the process is not
 * confirmed, the directory of its ring determines the pod. */
static void
correct_pod(const mrd_drain *drain, mrd_ident *id, bool confirmed, unsigned dir)
{
    static const char *const words[] = { "namespace", "pod", "pod_uid", NULL };
    mrd_jobid told = { "" };
    struct stat st;
    char uid[64];

    if (drain->o.pod_dir == NULL || stat(drain->o.pod_dir, &st) != 0 ||
        (st.st_uid != 0 && st.st_uid != geteuid()) || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return;
    if (confirmed)
        mrd_pod_of(drain->proc_root, id->pid, uid);
    else
        snprintf(uid, sizeof(uid), "%s", mrd_discover_dir_pod(drain->discover, dir));
    id->pod_confirmed = mrd_pod_find(drain->o.pod_dir, uid, &told) == MRD_OK;
    mrd_jobid_correct(&id->jobid, &told, words);
    snprintf(id->pod_uid, sizeof(id->pod_uid), "%s", uid);
    snprintf(id->pod_name, sizeof(id->pod_name), MRD_STR_FMT,
             MRD_STR_ARG(mrd_jobid_get(&told, "pod")));
}

mrd_err
mrd_drain_identify(mrd_drain *drain, unsigned dir, const mrd_ring_info *info,
                   mrd_ring_reader *reader, int32_t host_pid, mrd_ident *ret_id)
{
    bool ours = info->pid_ns == 0 || info->pid_ns == drain->pid_ns, apart;
    /* a ring in a container's directory that claims a pid of the agent's pid namespace must be
     * confirmed */
    bool claims = ours && dir != 0;
    bool confirmed = false;
    mrd_ident id;

    mrd_ident_init(&id);
    if (host_pid > 0 && mrd_ident_read(drain->proc_root, host_pid, &id, NULL) == MRD_OK) {
        bool same = id.start_ticks == (int64_t) info->name.start_ticks ||
                    /* the process sees another start time, because it is in a time namespace */
                    id.timens_boottime_ns != 0;
        bool owned = id.uid == MRD_NONE || id.uid == (int64_t) info->file_uid;

        confirmed = same && ((owned && !claims) || maps_it(reader));

        if (same && !confirmed && !owned && info->file_uid != 0) {
            note_owner(drain, host_pid, id.uid);
            return MRD_DENIED;
        }
        /* If only the start time differs, the claimed process ended and its pid was reused, so the
         * claim may be true. */
        apart = !confirmed && (same || !owned || claims);
        if (confirmed)
            note_owner(drain, host_pid, id.uid == MRD_NONE ? (int64_t) info->file_uid : id.uid);
        else
            mrd_ident_init(&id);
        apart = apart || (!same && is_anothers(drain, host_pid, info->file_uid));
    } else {
        apart = host_pid <= 0 || claims || is_anothers(drain, host_pid, info->file_uid);
    }
    id.pid = apart ? apart_pid(info) : host_pid;
    id.start_ticks = (int64_t) info->name.start_ticks;
    if (id.pid != info->name.pid || !ours)
        id.container_pid = info->name.pid;
    ident_from_ring(&id, info->ident);
    if (id.job[0] == '\0') /* a process without a job of its own gets the agent's default job */
        snprintf(id.job, sizeof(id.job), "%.127s", drain->job);
    say_owner(&id, info);
    correct_pod(drain, &id, confirmed, dir);
    if (drain->o.correct != NULL)
        drain->o.correct(drain->o.self, &id);
    *ret_id = id;
    return MRD_OK;
}
