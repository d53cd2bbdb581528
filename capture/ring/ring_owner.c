#include "capture/ring/ring_owner.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/num.h"

/* Bytes of /proc/<pid>/stat up to field 22 (start time), with a command name of up to 64 bytes. */
#define STAT_TEXT 640

typedef enum { SEEN_NO, SEEN_YES, SEEN_DENIED } owner_seen;

/* Reads up to size - 1 bytes of a small file. Returns -1 with errno if it cannot be read. */
static ssize_t
slurp(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n;
    int saved;

    if (fd < 0)
        return -1;
    n = read(fd, text, size - 1);
    saved = errno;
    close(fd);
    errno = saved;
    if (n >= 0)
        text[n] = '\0';
    return n;
}

bool
mrd_ring_boot_id(const char *proc_dir, uint8_t ret_boot_id[16])
{
    char path[512], text[64];
    uint8_t id[16];
    const char *p = text;

    snprintf(path, sizeof(path), "%s/sys/kernel/random/boot_id", proc_dir);
    if (slurp(path, text, sizeof(text)) < 36)
        return false;
    for (size_t i = 0; i < 16; i++) {
        unsigned v;

        if (*p == '-')
            p++;
        if (!isxdigit((unsigned char) p[0]) || !isxdigit((unsigned char) p[1]) ||
            sscanf(p, "%2x", &v) != 1)
            return false;
        id[i] = (uint8_t) v;
        p += 2;
    }
    memcpy(ret_boot_id, id, 16);
    return true;
}

/* Returns the next word of *text and advances *text past the word. Returns an empty text at the
 * end. */
static mrd_str
next_word(const char **text)
{
    const char *from = *text + strspn(*text, " \t\n");

    *text = from + strcspn(from, " \t\n");
    return (mrd_str){ from, (size_t) (*text - from) };
}

/* Reads the offsets of the time namespace from lines "monotonic <seconds> <nanoseconds>". The file
 * describes the namespace of future children. Between a call of unshare and the first fork, this is
 * not the process's own namespace. */
void
mrd_ring_timens(int64_t *ret_monotonic_ns, int64_t *ret_boottime_ns)
{
    struct stat own, next;
    char text[256];
    const char *p = text;
    int64_t value[2] = { 0, 0 };

    text[0] = '\0';
    if (stat("/proc/self/ns/time", &own) == 0 &&
        stat("/proc/self/ns/time_for_children", &next) == 0 && own.st_ino == next.st_ino)
        (void) slurp("/proc/self/timens_offsets", text, sizeof(text));
    for (mrd_str name; (name = next_word(&p)).len > 0;) {
        mrd_str seconds = next_word(&p), rest = next_word(&p);
        int64_t s, ns;

        if (mrd_num_i64(seconds, &s) == MRD_OK && mrd_num_i64(rest, &ns) == MRD_OK &&
            s > -MRD_RING_TIMENS_MAX / 1000000000 && s < MRD_RING_TIMENS_MAX / 1000000000)
            value[mrd_str_is(name, "boottime")] = s * 1000000000 + ns;
    }
    *ret_monotonic_ns = value[0];
    *ret_boottime_ns = value[1];
}

/* Returns true if `seen` is the start time of the owner, with a tolerance because both times are
 * rounded to ticks. */
static bool
began_at(const mrd_ring_owner_id *id, uint64_t seen)
{
    int64_t ahead = id->start_ahead_ns / (1000000000 / sysconf(_SC_CLK_TCK));
    int64_t miss = (int64_t) (id->start_ticks - seen - (uint64_t) ahead);

    return id->start_ahead_ns == 0 ? seen == id->start_ticks : miss >= -1 && miss <= 1;
}

/* Returns the part of a /proc stat file after the command: the text after the last ')', because the
 * command may contain any character. Returns NULL if the text is invalid. */
static const char *
behind_command(const char *text)
{
    const char *p = strrchr(text, ')');

    return p == NULL || p[1] != ' ' ? NULL : p + 1;
}

static bool
has_ended(const char *state)
{
    return state[1] == 'Z' || state[1] == 'X';
}

/* Returns the tid of a running thread of the process, or 0 if there is none. It is rarely called,
 * so noinline keeps its buffers out of the caller's stack frame. */
static __attribute__((noinline)) int32_t
live_thread(const char *proc_dir, int32_t pid)
{
    char path[512], text[STAT_TEXT];
    const struct dirent *entry;
    int32_t found = 0;
    DIR *dir;

    snprintf(path, sizeof(path), "%s/%" PRId32 "/task", proc_dir, pid);
    dir = opendir(path);
    while (dir != NULL && found == 0 && (entry = readdir(dir)) != NULL) {
        int32_t tid = (int32_t) strtol(entry->d_name, NULL, 10);
        const char *state;

        snprintf(path, sizeof(path), "%s/%" PRId32 "/task/%" PRId32 "/stat", proc_dir, pid, tid);
        if (tid > 0 && slurp(path, text, sizeof(text)) > 0 &&
            (state = behind_command(text)) != NULL && !has_ended(state))
            found = tid;
    }
    if (dir != NULL)
        closedir(dir);
    return found;
}

/* Gets the start time of a process and the tid of one of its running threads. This is the first
 * thread, unless the first thread has already ended by pthread_exit. Returns SEEN_NO if the process
 * has exited or is a zombie. */
static owner_seen
proc_start(const char *proc_dir, int32_t pid, uint64_t *ret_start, int32_t *ret_tid)
{
    char path[512], text[STAT_TEXT];
    const char *p;
    int field = 2;

    snprintf(path, sizeof(path), "%s/%" PRId32 "/stat", proc_dir, pid);
    if (slurp(path, text, sizeof(text)) <= 0)
        return errno == EACCES || errno == EPERM ? SEEN_DENIED : SEEN_NO;
    if ((p = behind_command(text)) == NULL)
        return SEEN_NO;
    *ret_tid = has_ended(p) ? live_thread(proc_dir, pid) : pid;
    if (*ret_tid == 0)
        return SEEN_NO;
    for (; *p != '\0' && field < 22; p++)
        field += *p == ' ';
    return mrd_num_u64(next_word(&p), ret_start) == MRD_OK ? SEEN_YES : SEEN_NO;
}

/* Returns true if a line of /proc/<pid>/maps has this inode and this file name. The line has the
 * form "from-to perms offset dev inode path". */
static bool
maps_line_is(const char *line, uint64_t inode, const char *file_name)
{
    const char *p = line;
    uint64_t seen;

    for (int i = 0; i < 4; i++)
        (void) next_word(&p);
    return mrd_num_u64(next_word(&p), &seen) == MRD_OK && seen == inode &&
           strstr(line, file_name) != NULL;
}

static owner_seen
proc_maps(const mrd_ring_owner_id *id, int32_t pid, int32_t tid)
{
    char path[512], line[1024];
    owner_seen seen = SEEN_NO;
    FILE *file;

    if (tid == pid)
        snprintf(path, sizeof(path), "%s/%" PRId32 "/maps", id->proc_dir, pid);
    else
        snprintf(path, sizeof(path), "%s/%" PRId32 "/task/%" PRId32 "/maps", id->proc_dir, pid,
                 tid);
    if ((file = fopen(path, "re")) == NULL)
        return errno == ENOENT || errno == ESRCH ? SEEN_NO : SEEN_DENIED;
    while (seen == SEEN_NO && fgets(line, sizeof(line), file) != NULL)
        if (maps_line_is(line, id->inode, id->file_name))
            seen = SEEN_YES;
    if (ferror(file))
        seen = errno == ESRCH ? SEEN_NO : SEEN_DENIED;
    fclose(file);
    return seen;
}

/* Finds an owner in another pid namespace: the process that maps the file. The start time is
 * compared too, because a forked child may also have the mapping for a moment. */
static mrd_owner
owner_search(mrd_ring_owner_id *id)
{
    DIR *dir = opendir(id->proc_dir);
    struct dirent *entry;
    bool denied = dir == NULL;

    while (dir != NULL && (entry = readdir(dir)) != NULL && id->host_pid == 0) {
        int32_t pid = (int32_t) strtol(entry->d_name, NULL, 10);
        uint64_t start;
        owner_seen seen;
        int32_t tid;

        if (!isdigit((unsigned char) entry->d_name[0]))
            continue;
        if (proc_start(id->proc_dir, pid, &start, &tid) != SEEN_YES || !began_at(id, start))
            continue;
        seen = proc_maps(id, pid, tid);
        denied = denied || seen == SEEN_DENIED;
        if (seen == SEEN_YES) {
            id->host_pid = pid;
        }
    }
    if (dir != NULL)
        closedir(dir);
    return id->host_pid != 0 ? MRD_OWNER_ALIVE : denied ? MRD_OWNER_UNKNOWN : MRD_OWNER_DEAD;
}

static bool
same_pid_namespace(const mrd_ring_owner_id *id)
{
    char path[512];
    struct stat st;

    snprintf(path, sizeof(path), "%s/self/ns/pid", id->proc_dir);
    return id->pid_ns == 0 || stat(path, &st) != 0 || (uint64_t) st.st_ino == id->pid_ns;
}

mrd_owner
mrd_ring_owner_check(mrd_ring_owner_id *id, bool maps)
{
    uint64_t start;
    owner_seen seen;
    int32_t tid;

    if (id->host_pid == 0) {
        if (!same_pid_namespace(id))
            return owner_search(id);
        id->host_pid = id->pid;
    }
    seen = proc_start(id->proc_dir, id->host_pid, &start, &tid);
    if (seen == SEEN_DENIED)
        return MRD_OWNER_UNKNOWN;
    if (seen == SEEN_NO || !began_at(id, start))
        return MRD_OWNER_DEAD;
    if (!maps)
        return MRD_OWNER_ALIVE;
    seen = proc_maps(id, id->host_pid, tid);
    return seen == SEEN_YES  ? MRD_OWNER_ALIVE
           : seen == SEEN_NO ? MRD_OWNER_DEAD
                             : MRD_OWNER_UNKNOWN;
}
