#include "hw/proc.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include "base/obj.h"
#include "hw/hw_table.h"

static int64_t
ticks_to_ns(int64_t ticks)
{
    long hz = sysconf(_SC_CLK_TCK);
    int64_t ns;

    return __builtin_mul_overflow(ticks, MRD_SEC / (hz > 0 ? hz : 100), &ns) ? INT64_MAX : ns;
}

static mrd_err
gone(mrd_why *why, int64_t pid)
{
    int sys = errno;

    return mrd_why_set(why, sys == EACCES || sys == EPERM ? MRD_DENIED : MRD_NOTFOUND, sys,
                       "process %lld", (long long) pid);
}

mrd_err
mrd_proc_parse_stat(mrd_str text, mrd_proc_stat *ret_stat)
{
    const char *open = memchr(text.p, '(', text.len), *close = NULL;
    int64_t field[25];
    mrd_proc_stat st = { .swap_bytes = MRD_NONE,
                         .switches_voluntary = MRD_NONE,
                         .switches_involuntary = MRD_NONE };
    size_t comm;
    mrd_str rest, word;

    for (size_t i = text.len; open != NULL && i > 0 && close == NULL; i--)
        if (text.p[i - 1] == ')')
            close = text.p + i - 1;
    if (open == NULL || close == NULL || close < open)
        return MRD_CORRUPT;
    comm = (size_t) (close - open - 1);
    if (comm >= sizeof(st.comm))
        comm = sizeof(st.comm) - 1;
    memcpy(st.comm, open + 1, comm);
    rest = (mrd_str){ close + 1, text.len - (size_t) (close + 1 - text.p) };
    if ((word = mrd_hw_word(&rest)).len != 1)
        return MRD_CORRUPT;
    st.state = word.p[0];
    for (size_t i = 4; i <= 24; i++) /* field numbers are those of proc(5) */
        if (!mrd_hw_int(mrd_hw_word(&rest), &field[i]))
            return MRD_CORRUPT;
    st.ppid = field[4];
    st.minor_faults = field[10];
    st.major_faults = field[12];
    st.cpu_user_ns = ticks_to_ns(field[14]);
    st.cpu_system_ns = ticks_to_ns(field[15]);
    st.threads = field[20];
    st.start_ticks = field[22];
    st.virtual_bytes = field[23];
    if (__builtin_mul_overflow(field[24], (int64_t) sysconf(_SC_PAGESIZE), &st.rss_bytes))
        return MRD_CORRUPT;
    *ret_stat = st;
    return MRD_OK;
}

static void
parse_status(mrd_str text, mrd_proc_stat *st)
{
    static const struct {
        const char *key;
        size_t offset;
        int64_t scale;
    } rows[] = {
        { "VmSwap:", offsetof(mrd_proc_stat, swap_bytes), 1024 },
        { "VmRSS:", offsetof(mrd_proc_stat, rss_bytes), 1024 },
        { "voluntary_ctxt_switches:", offsetof(mrd_proc_stat, switches_voluntary), 1 },
        { "nonvoluntary_ctxt_switches:", offsetof(mrd_proc_stat, switches_involuntary), 1 },
    };
    mrd_str line;

    while (mrd_hw_line(&text, &line)) {
        mrd_str key = mrd_hw_word(&line);
        int64_t v;

        for (size_t i = 0; i < MRD_COUNT(rows); i++)
            if (mrd_str_is(key, rows[i].key) && mrd_hw_int(mrd_hw_word(&line), &v) &&
                !__builtin_mul_overflow(v, rows[i].scale, &v))
                memcpy((char *) st + rows[i].offset, &v, sizeof(v));
    }
}

mrd_err
mrd_proc_read(const char *proc_root, int64_t pid, mrd_proc_stat *ret_stat, mrd_why *why)
{
    mrd_buf text = { 0 };
    mrd_proc_stat st;
    char rel[64], who[24] = "self";
    mrd_err err;

    if (pid != 0)
        snprintf(who, sizeof(who), "%lld", (long long) pid);
    snprintf(rel, sizeof(rel), "%s/stat", who);
    if (!mrd_hw_read(proc_root, rel, &text)) {
        err = gone(why, pid);
    } else if ((err = mrd_proc_parse_stat((mrd_str){ (char *) text.p, text.len }, &st)) != MRD_OK) {
        err = mrd_why_set(why, err, 0, "%s/%s is not in the form of proc(5)", proc_root, rel);
    } else {
        snprintf(rel, sizeof(rel), "%s/status", who);
        if (mrd_hw_read(proc_root, rel, &text))
            parse_status((mrd_str){ (char *) text.p, text.len }, &st);
        *ret_stat = st;
    }
    mrd_buf_fini(&text);
    return err;
}

/* ---- Control groups ---- */

/* Returns true if a path has a component "..". Paths from /proc/<pid>/cgroup are appended to a root
 * directory and must not lead out of it. */
static bool
climbs(mrd_str path)
{
    for (size_t i = 0; i + 1 < path.len; i++)
        if (path.p[i] == '.' && path.p[i + 1] == '.' && (i == 0 || path.p[i - 1] == '/') &&
            (i + 2 == path.len || path.p[i + 2] == '/'))
            return true;
    return memchr(path.p, '\0', path.len) != NULL;
}

static bool
has_controller(mrd_str list, const char *name)
{
    size_t len = strlen(name);

    while (list.len >= len) {
        const char *comma = memchr(list.p, ',', list.len);
        size_t n = comma == NULL ? list.len : (size_t) (comma - list.p);

        if (n == len && memcmp(list.p, name, len) == 0)
            return true;
        if (comma == NULL)
            return false;
        list.p += n + 1;
        list.len -= n + 1;
    }
    return false;
}

mrd_err
mrd_cgroup_parse(mrd_str text, char path[1024], bool *ret_v2)
{
    mrd_str line, best = { NULL, 0 };
    bool v2 = false;

    while (mrd_hw_line(&text, &line)) {
        const char *a = memchr(line.p, ':', line.len), *b;
        mrd_str controllers, found;
        bool unified;

        if (a == NULL)
            continue;
        a++;
        b = memchr(a, ':', line.len - (size_t) (a - line.p));
        if (b == NULL)
            continue;
        controllers = (mrd_str){ a, (size_t) (b - a) };
        found = (mrd_str){ b + 1, line.len - (size_t) (b + 1 - line.p) };
        unified = controllers.len == 0;
        /* The path of cgroup v1's memory controller identifies the container best. Else use the
         * path of cgroup v2. If v2 has only the root "/", another path of v1 is better. */
        if ((unified && (best.p == NULL || found.len > 1)) ||
            has_controller(controllers, "memory")) {
            best = found;
            v2 = unified;
        }
    }
    if (best.p == NULL)
        return MRD_NOTFOUND;
    if (best.len >= 1024)
        return MRD_LIMIT;
    if (climbs(best))
        return MRD_INVALID;
    memcpy(path, best.p, best.len);
    path[best.len] = '\0';
    *ret_v2 = v2;
    return MRD_OK;
}

mrd_err
mrd_cgroup_of(const char *proc_root, int64_t pid, char path[1024], bool *ret_v2, mrd_why *why)
{
    mrd_buf text = { 0 };
    char rel[64] = "self/cgroup";
    mrd_err err;

    if (pid != 0)
        snprintf(rel, sizeof(rel), "%lld/cgroup", (long long) pid);
    if (!mrd_hw_read(proc_root, rel, &text))
        err = gone(why, pid);
    else if ((err = mrd_cgroup_parse((mrd_str){ (char *) text.p, text.len }, path, ret_v2)) !=
             MRD_OK)
        err = mrd_why_set(why, err, 0, "%s/%s names no usable control group", proc_root, rel);
    mrd_buf_fini(&text);
    return err;
}

/* Returns the number in a file. Returns INT64_MAX for the text "max", and MRD_NONE if there is no
 * number. */
static int64_t
one_number(const char *dir, const char *file, mrd_buf *text)
{
    mrd_str rest, word;
    int64_t v;

    if (!mrd_hw_read(dir, file, text))
        return MRD_NONE;
    rest = (mrd_str){ (char *) text->p, text->len };
    word = mrd_hw_word(&rest);
    if (mrd_str_is(word, "max"))
        return INT64_MAX;
    return mrd_hw_int(word, &v) && v >= 0 ? v : MRD_NONE;
}

/* Returns the number after `key` in a text with lines "key number", multiplied by `scale`. Returns
 * MRD_NONE if the key is missing or has no valid number. */
static int64_t
keyed(mrd_buf *text, const char *key, int64_t scale)
{
    mrd_str rest = { (char *) text->p, text->len }, line;
    int64_t v;

    while (mrd_hw_line(&rest, &line))
        if (mrd_str_is(mrd_hw_word(&line), key))
            return mrd_hw_int(mrd_hw_word(&line), &v) && v >= 0 &&
                           !__builtin_mul_overflow(v, scale, &v)
                       ? v
                       : MRD_NONE;
    return MRD_NONE;
}

static void
read_v2(const char *dir, mrd_buf *text, mrd_cgroup_stat *st)
{
    if (mrd_hw_read(dir, "cpu.stat", text)) {
        st->cpu_ns = keyed(text, "usage_usec", MRD_US);
        st->cpu_user_ns = keyed(text, "user_usec", MRD_US);
        st->cpu_system_ns = keyed(text, "system_usec", MRD_US);
        st->throttled_ns = keyed(text, "throttled_usec", MRD_US);
        st->throttled = keyed(text, "nr_throttled", 1);
    }
    st->memory_bytes = one_number(dir, "memory.current", text);
    st->memory_limit_bytes = one_number(dir, "memory.max", text);
    st->memory_peak_bytes = one_number(dir, "memory.peak", text);
    st->pids = one_number(dir, "pids.current", text);
    if (mrd_hw_read(dir, "memory.events", text))
        st->oom_kills = keyed(text, "oom_kill", 1);
}

/* Reads the counters of a control group in cgroup v1. Each controller has a directory tree of its
 * own, but cpu and cpuacct often share one. */
static void
read_v1(const char *root, const char *path, mrd_buf *text, mrd_cgroup_stat *st)
{
    static const char *const cpu[] = { "cpu,cpuacct", "cpuacct", "cpu" };
    char dir[2560];

    for (size_t i = 0; i < MRD_COUNT(cpu); i++) {
        snprintf(dir, sizeof(dir), "%s/%s%s", root, cpu[i], path);
        if (st->cpu_ns == MRD_NONE)
            st->cpu_ns = one_number(dir, "cpuacct.usage", text);
        if (mrd_hw_read(dir, "cpu.stat", text)) {
            st->throttled_ns = keyed(text, "throttled_time", 1);
            st->throttled = keyed(text, "nr_throttled", 1);
        }
    }
    snprintf(dir, sizeof(dir), "%s/memory%s", root, path);
    st->memory_bytes = one_number(dir, "memory.usage_in_bytes", text);
    st->memory_limit_bytes = one_number(dir, "memory.limit_in_bytes", text);
    if (st->memory_limit_bytes >= INT64_MAX - (int64_t) (2 << 20))
        /* without a limit, v1 writes INT64_MAX rounded down to a page */
        st->memory_limit_bytes = INT64_MAX;
    st->memory_peak_bytes = one_number(dir, "memory.max_usage_in_bytes", text);
    if (mrd_hw_read(dir, "memory.oom_control", text))
        st->oom_kills = keyed(text, "oom_kill", 1);
    snprintf(dir, sizeof(dir), "%s/pids%s", root, path);
    st->pids = one_number(dir, "pids.current", text);
}

mrd_err
mrd_cgroup_read(const char *cgroup_root, const char *path, bool v2, mrd_cgroup_stat *ret_stat,
                mrd_why *why)
{
    mrd_cgroup_stat st = { MRD_NONE, MRD_NONE, MRD_NONE, MRD_NONE, MRD_NONE,
                           MRD_NONE, MRD_NONE, MRD_NONE, MRD_NONE, MRD_NONE };
    mrd_buf text = { 0 };
    char dir[2560];

    if (v2) {
        snprintf(dir, sizeof(dir), "%s%s", cgroup_root, path);
        /* on a node that mounts both versions, v2 is in `unified`, next to v1's controllers */
        if (access(dir, F_OK) != 0)
            snprintf(dir, sizeof(dir), "%s/unified%s", cgroup_root, path);
        read_v2(dir, &text, &st);
    } else {
        read_v1(cgroup_root, path, &text, &st);
    }
    mrd_buf_fini(&text);
    if (st.cpu_ns == MRD_NONE && st.memory_bytes == MRD_NONE)
        return mrd_why_set(why, MRD_NOTFOUND, 0, "control group '%s' has no counters under %s",
                           path, cgroup_root);
    *ret_stat = st;
    return MRD_OK;
}
