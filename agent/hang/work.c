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
