/*
 * Fills the identity of this process for the header of a ring. It may run in a signal handler, so
 * it makes system calls only, does not allocate, and uses little stack. The caller holds the lock
 * of the process, which guards `scratch`.
 */
#include "capture/identity.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "capture/ring/ring_owner.h"

static union {
    char text[2048];
    struct utsname host;
} scratch;

/* Reads up to size - 1 bytes of a small file into scratch.text and appends a NUL. */
static size_t
slurp(const char *path, size_t size)
{
    char *text = scratch.text;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);

    if (fd >= 0)
        close(fd);
    text[n < 0 ? 0 : n] = '\0';
    return n < 0 ? 0 : (size_t) n;
}

static uint64_t
namespace_inode(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 ? (uint64_t) st.st_ino : 0;
}

/* Returns field 22 of /proc/self/stat, the start time. The fields are counted from the last ')',
 * because the command name (field 2) may contain blanks and brackets. */
static uint64_t
own_start(void)
{
    const char *p;
    int field = 2;

    if (slurp("/proc/self/stat", sizeof(scratch.text)) == 0 ||
        (p = strrchr(scratch.text, ')')) == NULL)
        return 0;
    for (p++; *p != '\0' && field < 22; p++)
        field += *p == ' ';
    return strtoull(p, NULL, 10);
}

static void
own_boot(uint8_t boot_id[16])
{
    const char *text = scratch.text;
    size_t n = slurp("/proc/sys/kernel/random/boot_id", 64), out = 0;

    for (size_t i = 0; i + 1 < n && out < 16; i++) {
        char two[3] = { text[i], text[i + 1], '\0' };

        if (text[i] == '-')
            continue;
        boot_id[out++] = (uint8_t) strtoul(two, NULL, 16);
        i++;
    }
}

/* Adds one "key=value" line if it fits completely. Newlines in the value become blanks. */
static void
add_line(mrd_own_identity *id, const char *key, const char *value, size_t len)
{
    size_t klen = strlen(key), need = klen + 1 + len + 1;
    char *p = id->ident + id->claim.ident_len;

    if (len == 0 || need > sizeof(id->ident) - id->claim.ident_len)
        return;
    memcpy(p, key, klen);
    p[klen] = '=';
    for (size_t i = 0; i < len; i++)
        p[klen + 1 + i] = value[i] == '\n' || value[i] == '\0' ? ' ' : value[i];
    p[need - 1] = '\n';
    id->claim.ident_len += (uint32_t) need;
}

static void
add_text(mrd_own_identity *id, const char *key, const char *value)
{
    if (value != NULL)
        add_line(id, key, value, strlen(value));
}

static void
add_process(mrd_own_identity *id)
{
    char *text = scratch.text;
    ssize_t n = readlink("/proc/self/exe", text, 400);
    size_t len;

    if (n > 0)
        add_line(id, "exe", text, (size_t) n);
    len = slurp("/proc/self/cmdline", 400);
    while (len > 0 && text[len - 1] == '\0')
        len--;
    add_line(id, "cmd", text, len);
    if (uname(&scratch.host) == 0)
        add_text(id, "host", scratch.host.nodename);
    len = slurp("/proc/self/cgroup", 400);
    add_line(id, "cgroup", text, len > 0 && text[len - 1] == '\n' ? len - 1 : len);
}

void
mrd_identity_read(mrd_own_identity *id)
{
    static const char *const keys[] = {
        "RANK",
        "LOCAL_RANK",
        "WORLD_SIZE",
        "SLURM_JOB_ID",
        "SLURM_PROCID",
        "SLURM_LOCALID",
        "SLURM_NTASKS",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "NEURON_RT_VISIBLE_CORES",
        "NEURON_RT_NUM_CORES",
        "NEURON_RT_ROOT_COMM_ID",
        "NEURON_RT_INSPECT_OUTPUT_DIR",
        "MERIDIAN_JOB",
        "POD_NAME",
        "POD_NAMESPACE",
        "POD_UID",
        /* sessions select processes by these variables (base/jobid.h) */
        "MERIDIAN_SESSION",
        "MERIDIAN_JOB_NAME",
        "MERIDIAN_CLUSTER",
        "MERIDIAN_LABELS",
        "SLURM_JOB_NAME",
        "SLURM_JOB_USER",
        "SLURM_JOB_ACCOUNT",
        "SLURM_JOB_PARTITION",
        "SLURM_CLUSTER_NAME",
        "SLURM_ARRAY_JOB_ID",
        "SLURM_ARRAY_TASK_ID",
        "SLURM_STEP_ID",
        "SLURM_RESTART_COUNT",
        "SLURM_JOB_NUM_NODES",
        "JOB_COMPLETION_INDEX",
    };

    id->claim.ident = id->ident;
    id->claim.ident_len = 0;
    id->claim.pid = (int32_t) getpid();
    id->claim.uid = (uint32_t) getuid();
    id->claim.start_ticks = own_start();
    id->claim.pid_ns = namespace_inode("/proc/self/ns/pid");
    id->claim.mnt_ns = namespace_inode("/proc/self/ns/mnt");
    mrd_ring_timens(&id->claim.timens_monotonic_ns, &id->claim.timens_boottime_ns);
    own_boot(id->claim.boot_id);
    add_text(id, "meridian", MRD_RELEASE);
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        add_text(id, keys[i], getenv(keys[i]));
    add_process(id);
}
