/* cli/doctor/doctor_node.c - checks the node's identity, a running agent, rings, containers,
 * limits */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "agent/rings/discover.h"
#include "base/obj.h"
#include "base/sys/file.h"
#include "capture/ring/ring_owner.h"
#include "capture/ring/ring_read.h"
#include "cli/cli.h"
#include "cli/doctor/doctor.h"

#define RING_AGE_S     15          /* seconds within which an agent finds a new ring */
#define INITIAL_PID_NS 0xEFFFFFFCu /* inode of the host's pid namespace, fixed in the kernel */
#define RINGS_ROOM     (256LL << 20)
#define TMPFS          0x01021994

/* ---- Identity ---- */

void
mrd_doctor_identity(mrd_doctor *doctor)
{
    mrd_node_options who = { .instance_id = doctor->agent->instance_id,
                             .proc_root = doctor->agent->proc_root,
                             .timeout = doctor->agent->imds ? 0 : -1 };
    char path[1024], vendor[128] = "";
    mrd_why why = { 0 };

    if (mrd_node_identify(&who, &doctor->node, &why) != MRD_OK) {
        mrd_doctor_say(doctor, MRD_DOCTOR_FAILED, "give the agent --instance-id", "%s", why.text);
        return;
    }
    (void) mrd_file_line(mrd_doctor_sys(doctor, "/class/dmi/id/sys_vendor", path), vendor,
                         sizeof(vendor));
    if (strncmp(vendor, "Amazon EC2", 10) == 0 && doctor->agent->imds &&
        doctor->agent->instance_id == NULL && strcmp(doctor->node.source, "imds") != 0)
        mrd_doctor_say(doctor, MRD_DOCTOR_WARNING,
                       "in a container raise the hop limit of the metadata service to 2, or give "
                       "--instance-id",
                       "this is an EC2 instance, but its metadata service does not answer (%s): "
                       "the node is called %s",
                       doctor->node.note, doctor->node.instance_id);
    else
        mrd_doctor_say(doctor, MRD_DOCTOR_OK, NULL, "the node is %s (from %s)%s%s",
                       doctor->node.instance_id, doctor->node.source,
                       doctor->node.note[0] == '\0' ? "" : "; ", doctor->node.note);
}

/* ---- A running agent ---- */

/* Reads the number after `key` in /proc/<pid>/status. `base` is 16 or 10. */
static bool
status_number(const mrd_doctor *doctor, const char *pid, const char *key, int base, uint64_t *ret)
{
    char rest[64], path[1024], line[256];
    size_t n = strlen(key);
    bool found = false;
    FILE *file;

    snprintf(rest, sizeof(rest), "/%s/status", pid);
    if ((file = fopen(mrd_doctor_proc(doctor, rest, path), "re")) == NULL)
        return false;
    while (!found && fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, key, n) == 0 && line[n] == ':') {
            *ret = strtoull(line + n + 1, NULL, base);
            found = true;
        }
    }
    fclose(file);
    return found;
}

enum { CAP_DAC_OVERRIDE_BIT = 1, CAP_FOWNER_BIT = 3, CAP_SYS_PTRACE_BIT = 19 };

/* Lists missing capabilities like "CAP_SYS_PTRACE CAP_FOWNER"; "" if none is missing. */
static void
missing_rights(uint64_t caps, char *to, size_t size)
{
    static const struct {
        int bit;
        const char *name;
    } wanted[] = { { CAP_SYS_PTRACE_BIT, "CAP_SYS_PTRACE" },
                   { CAP_DAC_OVERRIDE_BIT, "CAP_DAC_OVERRIDE" },
                   { CAP_FOWNER_BIT, "CAP_FOWNER" } };

    to[0] = '\0';
    for (size_t i = 0; i < MRD_COUNT(wanted); i++) {
        size_t n = strlen(to);

        if ((caps >> wanted[i].bit & 1) == 0)
            snprintf(to + n, size - n, "%s%s", n > 0 ? " " : "", wanted[i].name);
    }
}

void
mrd_doctor_process(mrd_doctor *doctor)
{
    char path[1024], proc[1024], pids[128] = "", missing[128];
    DIR *dir = opendir(mrd_doctor_proc(doctor, "", path));
    uint64_t uid = 0, caps = 0;
    unsigned count = 0;
    const struct dirent *entry;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        size_t len = strlen(pids);

        if (entry->d_name[0] < '1' || entry->d_name[0] > '9' ||
            !mrd_doctor_is_agent(mrd_doctor_proc(doctor, "", proc), entry->d_name))
            continue;
        snprintf(pids + len, sizeof(pids) - len, "%s%.20s", count > 0 ? ", " : "", entry->d_name);
        if (count++ == 0 && (!status_number(doctor, entry->d_name, "Uid", 10, &uid) ||
                             !status_number(doctor, entry->d_name, "CapEff", 16, &caps)))
            caps = UINT64_MAX;
    }
    if (dir != NULL)
        closedir(dir);
    doctor->agent_runs = count > 0;
    if (count == 0) {
        mrd_doctor_say(
            doctor, MRD_DOCTOR_WARNING,
            "start it: systemctl start meridian-agent, or the DaemonSet",
            "no meridian-agent runs here: rings fill up, then events are lost and counted");
        return;
    }
    if (count > 1) {
        mrd_doctor_say(doctor, MRD_DOCTOR_WARNING,
                       "one per node is enough, and each ring has one reader",
                       "%u agents run here: pids %s", count, pids);
        return;
    }
    missing_rights(caps, missing, sizeof(missing));
    if (missing[0] == '\0' || (uid == 0 && strcmp(missing, "CAP_FOWNER") == 0))
        mrd_doctor_say(doctor, MRD_DOCTOR_OK, NULL,
                       "meridian-agent runs: pid %s, uid %" PRIu64 "%s", pids, uid,
                       doctor->source == MRD_DOCTOR_AGENT ? "; its settings are checked" : "");
    else
        mrd_doctor_say(doctor, MRD_DOCTOR_WARNING,
                       "give it these capabilities (deploy/systemd), or accept that it serves its "
                       "own user only",
                       "meridian-agent (pid %s, uid %" PRIu64
                       ") has not %s: it cannot read the rings of other users' processes",
                       pids, uid, missing);
}

/* ---- Rings ---- */

typedef struct {
    unsigned all, old; /* all rings; rings from before the last boot */
    /* rings that have a reader; rings older than RING_AGE_S without a reader */
    unsigned read, unread;
} ring_count;

/* Counts the ring in `read` if a reader holds its lock, otherwise in `unread`. A new ring without a
 * reader is not counted, because an agent needs some seconds to find it. */
static void
count_reader(ring_count *count, int dir_fd, const char *name)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    struct stat st;

    if (fd < 0)
        return; /* this user may not read the ring */
    if (fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK)
        count->read++;
    else if (fstat(fd, &st) == 0 && time(NULL) - st.st_ctime > RING_AGE_S)
        count->unread++;
    close(fd);
}

static mrd_err
count_ring(void *self, unsigned dir, int dir_fd, const char *name)
{
    ring_count *count = self;
    mrd_ring_name ring;
    uint8_t boot[16];
    bool old;

    (void) dir;
    count->all++;
    old = mrd_ring_boot_id("/proc", boot) && mrd_ring_name_parse(name, &ring) &&
          memcmp(ring.boot_id, boot, sizeof(boot)) != 0;
    count->old += old;
    if (!old)
        count_reader(count, dir_fd, name);
    return MRD_OK;
}

static const char *
ring_dir_of(const mrd_doctor *doctor)
{
    return doctor->agent->ring_dir == NULL ? mrd_ring_dir() : doctor->agent->ring_dir;
}

/* Returns true if `dir` belongs to this container only: the node has another directory at the same
 * path. Returns false if the agent does not serve other containers. */
static bool
of_this_container(const mrd_doctor *doctor, const char *dir)
{
    char first[1024], path[2048];
    struct stat here, there;

    snprintf(path, sizeof(path), "%s%s", mrd_doctor_proc(doctor, "/1/root", first), dir);
    return doctor->agent->containers && stat(dir, &here) == 0 && stat(path, &there) == 0 &&
           here.st_dev != there.st_dev;
}

void
mrd_doctor_rings(mrd_doctor *doctor)
{
    const char *dir = ring_dir_of(doctor);
    char room[MRD_SIZE_TEXT];
    mrd_discover *look = NULL;
    int64_t avail = 0;
    ring_count rings = { 0 };
    struct statfs fs;
    struct stat st;

    if (!mrd_doctor_writable(doctor, "ring directory", dir, &avail))
        return;
    mrd_cli_size((uint64_t) avail, room);
    if (mrd_discover_open(dir, NULL, false, &look, NULL) == MRD_OK)
        mrd_discover_all(look, count_ring, &rings);
    mrd_discover_close(look);
    if (of_this_container(doctor, dir))
        mrd_doctor_say(doctor, MRD_DOCTOR_OK, NULL,
                       "%s is of this container only; workloads have their rings in their own",
                       dir);
    else if (stat(dir, &st) == 0 && (st.st_mode & 0002) == 0 && st.st_uid != getuid())
        mrd_doctor_say(doctor, MRD_DOCTOR_WARNING, "chmod 1777 it, or set MERIDIAN_RING_DIR",
                       "%s is not writable for everybody: other users' programs cannot record",
                       dir);
    else if (avail < RINGS_ROOM)
        mrd_doctor_say(doctor, MRD_DOCTOR_WARNING,
                       "remove what fills it; in a container give /dev/shm more room (an emptyDir "
                       "with medium Memory, docker --shm-size)",
                       "%s has only %s free: a process may want 256 MB, smaller rings lose sooner",
                       dir, room);
    else if (statfs(dir, &fs) == 0 && fs.f_type != TMPFS)
        mrd_doctor_say(doctor, MRD_DOCTOR_WARNING, "use /dev/shm",
                       "%s is not in memory: writing rings may wait for a disk", dir);
    else
        mrd_doctor_say(doctor, MRD_DOCTOR_OK, NULL,
                       "%s: %s free, %u ring%s, %u of them read by an agent", dir, room, rings.all,
                       mrd_plural(rings.all), rings.read);
    if (rings.unread > 0 && doctor->agent_runs)
        mrd_doctor_say(doctor, MRD_DOCTOR_WARNING,
                       "allow the agent more open files (ulimit -n), give it the rights of "
                       "deploy/systemd, or the same --ring-dir; `meridian nodes` says how many it "
                       "leaves out",
                       "%u of the rings in %s are not read, though an agent runs", rings.unread,
                       dir);
    if (rings.old > 0)
        mrd_doctor_say(doctor, MRD_DOCTOR_WARNING,
                       "remove them, or run an agent that may remove them: it does after 10 s",
                       "%u of the rings in %s are of another boot and cannot be read", rings.old,
                       dir);
}

/* ---- Containers ---- */

/* Returns true if /proc is mounted with hidepid, which hides processes of other users. */
static bool
proc_hides(const mrd_doctor *doctor)
{
    char path[1024], line[1024];
    FILE *file = fopen(mrd_doctor_proc(doctor, "/self/mounts", path), "re");
    bool hides = false;

    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        const char *at = strstr(line, " proc rw"), *option = strstr(line, "hidepid=");

        hides = hides || (at != NULL && option != NULL && option[8] != '0' && option[8] != 'o');
    }
    if (file != NULL)
        fclose(file);
    return hides;
}

static bool
in_container(const mrd_doctor *doctor)
{
    char path[1024];
    struct stat st;

    return stat(mrd_doctor_proc(doctor, "/self/ns/pid", path), &st) == 0 &&
           (uint64_t) st.st_ino != INITIAL_PID_NS;
}

void
mrd_doctor_containers(mrd_doctor *doctor)
{
    mrd_discover *look = NULL;
    ring_count rings = { 0 };
    unsigned denied, dirs;
    char missing[128] = "";
    uint64_t caps = 0;

    if (!doctor->agent->containers) {
        mrd_doctor_say(doctor, MRD_DOCTOR_OK, NULL,
                       "containers are not looked into (--no-containers): only rings in the ring "
                       "directory count");
        return;
    }
    if (in_container(doctor))
        mrd_doctor_say(doctor, MRD_DOCTOR_WARNING,
                       "run the agent with hostPID: true (docker --pid=host)",
                       "this is a pid namespace of its own: processes of the node and of other "
                       "containers cannot be seen");
    if (proc_hides(doctor) && geteuid() != 0)
        mrd_doctor_say(doctor, MRD_DOCTOR_WARNING,
                       "mount /proc without hidepid, or put the agent's user into its gid= group",
                       "/proc is mounted with hidepid: other users' processes cannot be seen");
    if (mrd_discover_open(ring_dir_of(doctor), doctor->agent->proc_root, true, &look, NULL) !=
        MRD_OK)
        return;
    mrd_discover_all(look, count_ring, &rings);
    denied = mrd_discover_denied(look);
    dirs = mrd_discover_dirs(look);
    mrd_discover_close(look);
    if (denied == 0) {
        mrd_doctor_say(doctor, MRD_DOCTOR_OK, NULL,
                       "the root of every process can be looked into: %u ring director%s, %u "
                       "ring%s",
                       dirs, dirs == 1 ? "y" : "ies", rings.all, mrd_plural(rings.all));
        return;
    }
    if (status_number(doctor, "self", "CapEff", 16, &caps))
        missing_rights(caps, missing, sizeof(missing));
    mrd_doctor_say(
        doctor, MRD_DOCTOR_WARNING,
        missing[0] == '\0'
            ? "a security module (AppArmor, SELinux) forbids it: its policy must allow "
              "ptrace read of other processes"
            : "run the doctor as the agent runs; the agent needs CAP_SYS_PTRACE and "
              "CAP_DAC_OVERRIDE (deploy/systemd, deploy/k8s)",
        "the root folder%s of %u process%s cannot be read%s%s: rings in containers there "
        "are not recorded",
        mrd_plural(denied), denied, denied == 1 ? "" : "es",
        missing[0] == '\0' ? "" : ", this user has not ", missing);
}

/* ---- Limits ---- */

void
mrd_doctor_limits(mrd_doctor *doctor)
{
    char path[1024], text[256] = "";
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_max < 4096)
        mrd_doctor_say(doctor, MRD_DOCTOR_WARNING,
                       "LimitNOFILE=65536 in the unit, or ulimits of the container",
                       "at most %llu files may be open: each ring takes one",
                       (unsigned long long) files.rlim_max);
    else
        mrd_doctor_say(doctor, MRD_DOCTOR_OK, NULL, "open files: up to %llu",
                       (unsigned long long) files.rlim_max);
    if (mrd_file_line(mrd_doctor_proc(doctor, "/sys/kernel/yama/ptrace_scope", path), text,
                      sizeof(text)))
        mrd_doctor_say(doctor, MRD_DOCTOR_OK, NULL,
                       "ptrace_scope is %s, which does not matter: the agent reads other processes "
                       "and attaches to none",
                       text);
    if (mrd_file_line(mrd_doctor_proc(doctor, "/self/attr/current", path), text, sizeof(text)) &&
        strstr(text, "(enforce)") != NULL)
        mrd_doctor_say(
            doctor, MRD_DOCTOR_WARNING,
            "if the agent does not find rings, run it unconfined or allow it `ptrace (read)`",
            "AppArmor confines this process: %s", text);
    if (mrd_file_line(mrd_doctor_proc(doctor, "/sys/kernel/perf_event_paranoid", path), text,
                      sizeof(text)))
        mrd_doctor_say(doctor, MRD_DOCTOR_OK, NULL,
                       "perf_event_paranoid is %s, which does not matter: no perf events are used",
                       text);
}
