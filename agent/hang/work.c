#include "agent/hang/work.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/num.h"
#include "hw/proc.h"

#define TASKS_MAX    32 /* maximum number of threads of a process for which children are searched */
#define THREADS_MAX  1024 /* maximum number of threads among which one is searched */
#define CHILDREN_MAX 64
#define DEPTH_MAX    4

static size_t
read_text(const char *path, char *to, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, to, size - 1);

    if (fd >= 0)
        close(fd);
    to[n > 0 ? n : 0] = '\0';
    return n > 0 ? (size_t) n : 0;
}

static uint64_t
bytes_of(const char *proc_root, int64_t pid)
{
    static const char *const keys[] = { "rchar: ", "wchar: ", "read_bytes: ", "write_bytes: " };
    char path[300], text[512];
    uint64_t sum = 0;

    snprintf(path, sizeof(path), "%s/%" PRId64 "/io", proc_root, pid);
    if (read_text(path, text, sizeof(text)) == 0)
        return 0;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        const char *at = strstr(text, keys[i]);
        uint64_t n;

        if (at == NULL)
            continue;
        at += strlen(keys[i]);
        if (mrd_num_u64((mrd_str){ at, strspn(at, "0123456789") }, &n) == MRD_OK)
            sum += n;
    }
    return sum;
}

typedef struct {
    const char *proc_root;
    mrd_dur_ns cpu;
    unsigned left; /* number of children that may still be read */
} tree;

static void add_children(tree *t, int64_t pid, unsigned depth);

static void
add_list(tree *t, const char *text, unsigned depth)
{
    mrd_proc_stat st;

    for (int64_t pid; *text != '\0' && t->left > 0; text += strspn(text, " \n")) {
        size_t n = strcspn(text, " \n");

        if (mrd_num_i64((mrd_str){ text, n }, &pid) == MRD_OK &&
            mrd_proc_read(t->proc_root, pid, &st, NULL) == MRD_OK) {
            t->left--;
            t->cpu += st.cpu_user_ns + st.cpu_system_ns;
            add_children(t, pid, depth + 1);
        }
        text += n;
    }
}

static void
add_children(tree *t, int64_t pid, unsigned depth)
{
    char path[340], text[1024];
    const struct dirent *entry;
    unsigned tasks = 0;
    DIR *dir;

    snprintf(path, sizeof(path), "%s/%" PRId64 "/task", t->proc_root, pid);
    if (depth == DEPTH_MAX || (dir = opendir(path)) == NULL)
        return;
    while (tasks < TASKS_MAX && t->left > 0 && (entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        tasks++;
        snprintf(path, sizeof(path), "%s/%" PRId64 "/task/%.20s/children", t->proc_root, pid,
                 entry->d_name);
        if (read_text(path, text, sizeof(text)) > 0)
            add_list(t, text, depth);
    }
    closedir(dir);
}

mrd_err
mrd_work_read(const char *proc_root, int64_t pid, mrd_process_work *ret_work)
{
    tree t = { .proc_root = proc_root, .left = CHILDREN_MAX };
    mrd_proc_stat st;
    mrd_err err = mrd_proc_read(proc_root, pid, &st, NULL);

    if (err != MRD_OK)
        return err;
    add_children(&t, pid, 0);
    *ret_work = (mrd_process_work){ .cpu = st.cpu_user_ns + st.cpu_system_ns + t.cpu,
                                    .bytes = bytes_of(proc_root, pid) };
    return MRD_OK;
}

/* ---- Threads ---- */

/* Returns the innermost of the ids in the line NSpid, or 0. */
static int64_t
innermost_id(const char *status)
{
    const char *at = strstr(status, "\nNSpid:");
    int64_t id = 0;

    if (at == NULL)
        return 0;
    for (at += strlen("\nNSpid:"); *at == '\t' || *at == ' ';) {
        size_t n;

        at += strspn(at, "\t ");
        n = strspn(at, "0123456789");
        if (mrd_num_i64((mrd_str){ at, n }, &id) != MRD_OK)
            return 0;
        at += n;
    }
    return id;
}

int64_t
mrd_work_find_thread(const char *proc_root, int64_t pid, int64_t own_pid, int64_t tid)
{
    char path[340], text[4096];
    const struct dirent *entry;
    int64_t found = 0, id;
    unsigned tasks = 0;
    DIR *dir;

    if (own_pid == MRD_NONE)
        return tid;
    if (tid == own_pid) /* the first thread has the ids of its process */
        return pid;
    snprintf(path, sizeof(path), "%s/%" PRId64 "/task", proc_root, pid);
    if ((dir = opendir(path)) == NULL)
        return 0;
    while (found == 0 && tasks++ < THREADS_MAX && (entry = readdir(dir)) != NULL) {
        snprintf(path, sizeof(path), "%s/%" PRId64 "/task/%.20s/status", proc_root, pid,
                 entry->d_name);
        if (entry->d_name[0] != '.' && read_text(path, text, sizeof(text)) > 0 &&
            innermost_id(text) == tid && mrd_num_i64(mrd_str_of(entry->d_name), &id) == MRD_OK)
            found = id;
    }
    closedir(dir);
    return found;
}

mrd_err
mrd_work_thread(const char *proc_root, int64_t pid, int64_t tid, mrd_thread_work *ret_work)
{
    char path[340], text[128];
    size_t first, second;
    int64_t on_cpu, cpu_wait;

    snprintf(path, sizeof(path), "%s/%" PRId64 "/task/%" PRId64 "/schedstat", proc_root, pid, tid);
    if (read_text(path, text, sizeof(text)) == 0)
        return MRD_NOTFOUND;
    first = strspn(text, "0123456789");
    second = text[first] == ' ' ? strspn(text + first + 1, "0123456789") : 0;
    if (mrd_num_i64((mrd_str){ text, first }, &on_cpu) != MRD_OK ||
        mrd_num_i64((mrd_str){ text + first + 1, second }, &cpu_wait) != MRD_OK)
        return MRD_NOTFOUND;
    *ret_work = (mrd_thread_work){ .on_cpu = on_cpu, .cpu_wait = cpu_wait };
    return MRD_OK;
}
