/*
 * hw/hw_host.c - the backend for counters of the operating system.
 *
 * It reads CPUs, memory, load, network, disks and pressure from /proc. Counters of a process or a
 * control group are available by name. The root directories are options, so that an agent in a
 * container can read the host's files, and tests can provide their own.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/num.h"
#include "base/obj.h"
#include "base/vec.h"
#include "hw/hw_table.h"
#include "hw/proc.h"

/* Groups of counters. The key of a row in the table is group << 56 | instance << 16 | field. */
enum { CPU = 1, MEM, LOAD, NET, DISK, PSI, PROCESS, CGROUP, KERNEL, GROUPS };

#define CPU_FIELDS 10
#define CPU_UTIL   CPU_FIELDS
#define CPUS_MAX   8192
/* Minimum interval for a utilisation. The kernel counts ticks of 10 ms, so a shorter interval is
 * too coarse. */
#define UTIL_MIN (50 * MRD_MS)

/* A reading of one CPU's times since the boot, in ns. host.older and host.newer have the last two
 * readings of each CPU, and of all CPUs together at index 0. The utilisation is computed from these
 * two. */
typedef struct {
    mrd_local_ns at;
    int64_t busy, total;
} cpu_snap;

typedef struct {
    char *proc, *cgroup;
    mrd_dur_ns tick_ns;
    mrd_hw_table table;
    mrd_buf text;
    cpu_snap *older, *newer; /* arrays that grow on demand to at most CPUS_MAX + 1 entries */
    size_t cpus;
    bool listing; /* true while row_for() may add counters */
} host;

static uint64_t
key_of(unsigned group, uint64_t instance, unsigned field)
{
    return (uint64_t) group << 56 | instance << 16 | field;
}

static unsigned
group_of(uint64_t key)
{
    return (unsigned) (key >> 56);
}

/* Returns the row of the counter with this key. If there is none and h->listing is set, adds a row
 * with the formatted name. */
static size_t row_for(host *h, uint64_t key, mrd_unit unit, uint32_t flags, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

static size_t
row_for(host *h, uint64_t key, mrd_unit unit, uint32_t flags, const char *format, ...)
{
    mrd_hw_counter counter = {
        .unit = unit, .flags = flags, .device_idx = MRD_NONE, .core_idx = MRD_NONE, .pid = MRD_NONE
    };
    size_t row = mrd_hw_table_find_key(&h->table, key);
    va_list args;

    if (row != MRD_HW_NO_ROW || !h->listing)
        return row;
    va_start(args, format);
    vsnprintf(counter.name, sizeof(counter.name), format, args);
    va_end(args);
    return mrd_hw_table_add(&h->table, &counter, key);
}

static uint64_t
text_instance(mrd_str name)
{
    uint64_t h = 1469598103934665603u;

    for (size_t i = 0; i < name.len; i++)
        h = (h ^ (uint8_t) name.p[i]) * 1099511628211u;
    return (h ^ h >> 40) & 0xffffffffff;
}

/* ---- /proc/stat ---- */

static bool
cpu_room(host *h, size_t cpus)
{
    size_t older = h->cpus, newer = older;

    if (cpus <= h->cpus)
        return true;
    if (!MRD_VEC_REACH(h->older, older, cpus - 1) || !MRD_VEC_REACH(h->newer, newer, cpus - 1))
        return false;
    h->cpus = cpus;
    return true;
}

/* Sets the utilisation of a CPU: the percentage of busy time between its last two snapshots. Takes
 * a new snapshot if the last one is UTIL_MIN old. */
static void
cpu_util(host *h, size_t slot, size_t row, int64_t busy, int64_t total, mrd_local_ns at)
{
    cpu_snap *snap = &h->older[slot], *n = &h->newer[slot];

    if (n->at.ns == 0 || at.ns - n->at.ns >= UTIL_MIN) {
        *snap = *n;
        *n = (cpu_snap){ at, busy, total };
    }
    if (snap->at.ns != 0 && n->total > snap->total && n->busy >= snap->busy)
        mrd_hw_table_set_d(
            &h->table, row,
            100.0 * (double) (n->busy - snap->busy) / (double) (n->total - snap->total), at);
    else if (row < h->table.n) {
        mrd_hw_table_set_d(&h->table, row, 0, at);
        h->table.rows[row].value.state = MRD_HW_UNKNOWN; /* utilisation needs two snapshots */
    }
}

static void
cpu_line(host *h, mrd_str label, mrd_str rest, mrd_local_ns at)
{
    static const char *const field[CPU_FIELDS] = { "user",   "nice",      "system",  "idle",
                                                   "iowait", "irq",       "softirq", "steal",
                                                   "guest",  "guest_nice" };
    int64_t cpu = -1, value, busy = 0, total = 0;
    char name[24] = "all";
    size_t slot;

    if (label.len > 3 &&
        (!mrd_hw_int((mrd_str){ label.p + 3, label.len - 3 }, &cpu) || cpu < 0 || cpu >= CPUS_MAX))
        return;
    slot = (size_t) (cpu + 1);
    if (cpu >= 0)
        snprintf(name, sizeof(name), "%lld", (long long) cpu);
    for (unsigned i = 0; i < CPU_FIELDS && mrd_hw_int(mrd_hw_word(&rest), &value); i++) {
        if (__builtin_mul_overflow(value, h->tick_ns, &value))
            value = INT64_MAX;
        mrd_hw_table_set_i(&h->table,
                           row_for(h, key_of(CPU, slot, i), MRD_UNIT_NS, MRD_HW_CUMULATIVE,
                                   "cpu.%s.%s_ns", name, field[i]),
                           value, at);
        if (i < 8 && !__builtin_add_overflow(total, value, &total) && i != 3 && i != 4)
            /* user and nice already include the guest times. The sum cannot overflow, because busy
             * <= total. */
            busy += value;
    }
    if (cpu_room(h, slot + 1))
        cpu_util(h, slot,
                 row_for(h, key_of(CPU, slot, CPU_UTIL), MRD_UNIT_PERCENT, MRD_HW_DOUBLE,
                         "cpu.%s.util_percent", name),
                 busy, total, at);
}

static void
read_stat(host *h, mrd_local_ns at)
{
    static const struct {
        const char *key, *name;
        uint32_t flags;
    } rows[] = { { "ctxt", "kernel.context_switches", MRD_HW_CUMULATIVE },
                 { "intr", "kernel.interrupts", MRD_HW_CUMULATIVE },
                 { "processes", "kernel.forks", MRD_HW_CUMULATIVE },
                 { "procs_running", "kernel.runnable", 0 },
                 { "procs_blocked", "kernel.blocked", 0 } };
    mrd_str text, line;
    int64_t value;

    if (!mrd_hw_read(h->proc, "stat", &h->text))
        return;
    text = (mrd_str){ (char *) h->text.p, h->text.len };
    while (mrd_hw_line(&text, &line)) {
        mrd_str key = mrd_hw_word(&line);

        if (mrd_str_starts(key, "cpu")) {
            cpu_line(h, key, line, at);
            continue;
        }
        for (unsigned i = 0; i < MRD_COUNT(rows); i++)
            if (mrd_str_is(key, rows[i].key) && mrd_hw_int(mrd_hw_word(&line), &value))
                mrd_hw_table_set_i(&h->table,
                                   row_for(h, key_of(KERNEL, 0, i), MRD_UNIT_COUNT, rows[i].flags,
                                           "%s", rows[i].name),
                                   value, at);
    }
}

/* ---- meminfo, loadavg ---- */

static void
read_mem(host *h, mrd_local_ns at)
{
    int64_t total = -1, available = -1, value;
    mrd_str text, line;

    if (!mrd_hw_read(h->proc, "meminfo", &h->text))
        return;
    text = (mrd_str){ (char *) h->text.p, h->text.len };
    while (mrd_hw_line(&text, &line)) {
        mrd_str key = mrd_hw_word(&line);
        bool bytes;

        if (key.len < 2 || key.len > 64 || key.p[key.len - 1] != ':' ||
            !mrd_hw_int(mrd_hw_word(&line), &value))
            continue;
        key.len--;
        bytes = mrd_str_is(mrd_hw_word(&line), "kB");
        if (bytes && __builtin_mul_overflow(value, 1024, &value))
            continue;
        if (mrd_str_is(key, "MemTotal"))
            total = value;
        if (mrd_str_is(key, "MemAvailable"))
            available = value;
        mrd_hw_table_set_i(
            &h->table,
            row_for(h, key_of(MEM, text_instance(key), 0), bytes ? MRD_UNIT_BYTES : MRD_UNIT_COUNT,
                    0, "mem." MRD_STR_FMT "%s", MRD_STR_ARG(key), bytes ? "_bytes" : ""),
            value, at);
    }
    if (total <= 0 || available < 0 || available > total)
        return;
    mrd_hw_table_set_i(&h->table,
                       row_for(h, key_of(MEM, 0, 1), MRD_UNIT_BYTES, 0, "mem.used_bytes"),
                       total - available, at);
    mrd_hw_table_set_d(
        &h->table,
        row_for(h, key_of(MEM, 0, 2), MRD_UNIT_PERCENT, MRD_HW_DOUBLE, "mem.used_percent"),
        100.0 * (double) (total - available) / (double) total, at);
}

static void
read_load(host *h, mrd_local_ns at)
{
    static const char *const name[] = { "load.1min", "load.5min", "load.15min" };
    mrd_str text;
    double v;

    if (!mrd_hw_read(h->proc, "loadavg", &h->text))
        return;
    text = (mrd_str){ (char *) h->text.p, h->text.len };
    for (unsigned i = 0; i < 3 && mrd_num_double(mrd_hw_word(&text), &v) == MRD_OK; i++)
        mrd_hw_table_set_d(
            &h->table, row_for(h, key_of(LOAD, 0, i), MRD_UNIT_COUNT, MRD_HW_DOUBLE, "%s", name[i]),
            v, at);
}

/* ---- Interfaces and disks: a name, followed by columns ---- */

typedef struct {
    unsigned column;
    const char *name;
    mrd_unit unit;
    int64_t scale;
    uint32_t flags;
} column;

static void
columns(host *h, unsigned group, const char *prefix, mrd_str name, mrd_str rest, const column *want,
        size_t n, mrd_local_ns at)
{
    int64_t v;
    size_t k = 0;

    for (unsigned i = 0; k < n && mrd_hw_int(mrd_hw_word(&rest), &v); i++) {
        if (i != want[k].column)
            continue;
        if (__builtin_mul_overflow(v, want[k].scale, &v))
            v = INT64_MAX;
        mrd_hw_table_set_i(&h->table,
                           row_for(h, key_of(group, text_instance(name), (unsigned) k),
                                   want[k].unit, want[k].flags, "%s." MRD_STR_FMT ".%s", prefix,
                                   MRD_STR_ARG(name), want[k].name),
                           v, at);
        k++;
    }
}

static void
read_net(host *h, mrd_local_ns at)
{
    static const column want[] = {
        { 0, "rx_bytes", MRD_UNIT_BYTES, 1, MRD_HW_CUMULATIVE },
        { 1, "rx_packets", MRD_UNIT_COUNT, 1, MRD_HW_CUMULATIVE },
        { 2, "rx_errors", MRD_UNIT_COUNT, 1, MRD_HW_CUMULATIVE },
        { 3, "rx_dropped", MRD_UNIT_COUNT, 1, MRD_HW_CUMULATIVE },
        { 8, "tx_bytes", MRD_UNIT_BYTES, 1, MRD_HW_CUMULATIVE },
        { 9, "tx_packets", MRD_UNIT_COUNT, 1, MRD_HW_CUMULATIVE },
        { 10, "tx_errors", MRD_UNIT_COUNT, 1, MRD_HW_CUMULATIVE },
        { 11, "tx_dropped", MRD_UNIT_COUNT, 1, MRD_HW_CUMULATIVE },
    };
    mrd_str text, line;

    /* /proc/net shows the network of this process's namespace. The namespace of process 1 is the
     * node's, so read its file. */
    if (!mrd_hw_read(h->proc, "1/net/dev", &h->text) && !mrd_hw_read(h->proc, "net/dev", &h->text))
        return;
    text = (mrd_str){ (char *) h->text.p, h->text.len };
    while (mrd_hw_line(&text, &line)) {
        const char *colon = memchr(line.p, ':', line.len);
        mrd_str name;

        if (colon == NULL)
            continue;
        name = (mrd_str){ line.p, (size_t) (colon - line.p) };
        name = mrd_hw_word(&name);
        line.len -= (size_t) (colon + 1 - line.p);
        line.p = colon + 1;
        if (name.len > 0 && name.len <= 32)
            columns(h, NET, "net", name, line, want, MRD_COUNT(want), at);
    }
}

static void
read_disk(host *h, mrd_local_ns at)
{
    static const column want[] = {
        { 0, "reads", MRD_UNIT_COUNT, 1, MRD_HW_CUMULATIVE },
        { 2, "read_bytes", MRD_UNIT_BYTES, 512, MRD_HW_CUMULATIVE },
        { 3, "read_ns", MRD_UNIT_NS, MRD_MS, MRD_HW_CUMULATIVE },
        { 4, "writes", MRD_UNIT_COUNT, 1, MRD_HW_CUMULATIVE },
        { 6, "write_bytes", MRD_UNIT_BYTES, 512, MRD_HW_CUMULATIVE },
        { 7, "write_ns", MRD_UNIT_NS, MRD_MS, MRD_HW_CUMULATIVE },
        { 8, "in_flight", MRD_UNIT_COUNT, 1, 0 },
        { 9, "busy_ns", MRD_UNIT_NS, MRD_MS, MRD_HW_CUMULATIVE },
    };
    mrd_str text, line;

    if (!mrd_hw_read(h->proc, "diskstats", &h->text))
        return;
    text = (mrd_str){ (char *) h->text.p, h->text.len };
    while (mrd_hw_line(&text, &line)) {
        mrd_str name;

        mrd_hw_word(&line); /* major */
        mrd_hw_word(&line); /* minor */
        name = mrd_hw_word(&line);
        if (name.len > 0 && name.len <= 32 && !mrd_str_starts(name, "loop") &&
            !mrd_str_starts(name, "ram"))
            columns(h, DISK, "disk", name, line, want, MRD_COUNT(want), at);
    }
}

/* ---- Pressure stall information ---- */

static void
read_psi(host *h, mrd_local_ns at)
{
    static const char *const what[] = { "cpu", "memory", "io" };
    char rel[32];

    for (unsigned i = 0; i < MRD_COUNT(what); i++) {
        mrd_str text, line;

        snprintf(rel, sizeof(rel), "pressure/%s", what[i]);
        if (!mrd_hw_read(h->proc, rel, &h->text))
            continue;
        text = (mrd_str){ (char *) h->text.p, h->text.len };
        while (mrd_hw_line(&text, &line)) {
            mrd_str kind = mrd_hw_word(&line), word;
            bool full = mrd_str_is(kind, "full");
            int64_t v;
            double d;

            if (!full && !mrd_str_is(kind, "some"))
                continue;
            while ((word = mrd_hw_word(&line)).len > 0)
                if (mrd_str_starts(word, "total=") &&
                    mrd_hw_int((mrd_str){ word.p + 6, word.len - 6 }, &v) &&
                    !__builtin_mul_overflow(v, MRD_US, &v))
                    mrd_hw_table_set_i(&h->table,
                                       row_for(h, key_of(PSI, i, full * 2u), MRD_UNIT_NS,
                                               MRD_HW_CUMULATIVE, "pressure.%s.%s_ns", what[i],
                                               full ? "full" : "some"),
                                       v, at);
                else if (mrd_str_starts(word, "avg10=") &&
                         mrd_num_double((mrd_str){ word.p + 6, word.len - 6 }, &d) == MRD_OK)
                    mrd_hw_table_set_d(&h->table,
                                       row_for(h, key_of(PSI, i, full * 2u + 1), MRD_UNIT_PERCENT,
                                               MRD_HW_DOUBLE, "pressure.%s.%s_avg10_percent",
                                               what[i], full ? "full" : "some"),
                                       d, at);
        }
    }
}

/* ---- A process, and its control group ---- */

typedef struct {
    const char *name;
    size_t offset;
    mrd_unit unit;
    uint32_t flags;
} member;

static const member process_members[] = {
    { "cpu_user_ns", offsetof(mrd_proc_stat, cpu_user_ns), MRD_UNIT_NS, MRD_HW_CUMULATIVE },
    { "cpu_system_ns", offsetof(mrd_proc_stat, cpu_system_ns), MRD_UNIT_NS, MRD_HW_CUMULATIVE },
    { "rss_bytes", offsetof(mrd_proc_stat, rss_bytes), MRD_UNIT_BYTES, 0 },
    { "virtual_bytes", offsetof(mrd_proc_stat, virtual_bytes), MRD_UNIT_BYTES, 0 },
    { "swap_bytes", offsetof(mrd_proc_stat, swap_bytes), MRD_UNIT_BYTES, 0 },
    { "threads", offsetof(mrd_proc_stat, threads), MRD_UNIT_COUNT, 0 },
    { "minor_faults", offsetof(mrd_proc_stat, minor_faults), MRD_UNIT_COUNT, MRD_HW_CUMULATIVE },
    { "major_faults", offsetof(mrd_proc_stat, major_faults), MRD_UNIT_COUNT, MRD_HW_CUMULATIVE },
    { "switches_voluntary", offsetof(mrd_proc_stat, switches_voluntary), MRD_UNIT_COUNT,
      MRD_HW_CUMULATIVE },
    { "switches_involuntary", offsetof(mrd_proc_stat, switches_involuntary), MRD_UNIT_COUNT,
      MRD_HW_CUMULATIVE },
};

static const member cgroup_members[] = {
    { "cpu_ns", offsetof(mrd_cgroup_stat, cpu_ns), MRD_UNIT_NS, MRD_HW_CUMULATIVE },
    { "cpu_user_ns", offsetof(mrd_cgroup_stat, cpu_user_ns), MRD_UNIT_NS, MRD_HW_CUMULATIVE },
    { "cpu_system_ns", offsetof(mrd_cgroup_stat, cpu_system_ns), MRD_UNIT_NS, MRD_HW_CUMULATIVE },
    { "throttled_ns", offsetof(mrd_cgroup_stat, throttled_ns), MRD_UNIT_NS, MRD_HW_CUMULATIVE },
    { "throttled", offsetof(mrd_cgroup_stat, throttled), MRD_UNIT_COUNT, MRD_HW_CUMULATIVE },
    { "memory_bytes", offsetof(mrd_cgroup_stat, memory_bytes), MRD_UNIT_BYTES, 0 },
    { "memory_limit_bytes", offsetof(mrd_cgroup_stat, memory_limit_bytes), MRD_UNIT_BYTES, 0 },
    { "memory_peak_bytes", offsetof(mrd_cgroup_stat, memory_peak_bytes), MRD_UNIT_BYTES, 0 },
    { "pids", offsetof(mrd_cgroup_stat, pids), MRD_UNIT_COUNT, 0 },
    { "oom_kills", offsetof(mrd_cgroup_stat, oom_kills), MRD_UNIT_COUNT, MRD_HW_CUMULATIVE },
};

static void
set_members(host *h, unsigned group, int64_t pid, const void *st, const member *m, size_t n,
            mrd_local_ns at)
{
    for (unsigned i = 0; i < n; i++) {
        size_t row = mrd_hw_table_find_key(&h->table, key_of(group, (uint64_t) pid, i));
        int64_t v;

        memcpy(&v, (const char *) st + m[i].offset, sizeof(v));
        if (row == MRD_HW_NO_ROW)
            continue;
        mrd_hw_table_set_i(&h->table, row, v, at);
        if (v == MRD_NONE)
            h->table.rows[row].value.state = MRD_HW_UNKNOWN;
    }
}

static void
read_process(host *h, int64_t pid, mrd_local_ns at)
{
    mrd_proc_stat st;

    if (mrd_proc_read(h->proc, pid, &st, NULL) == MRD_OK)
        set_members(h, PROCESS, pid, &st, process_members, MRD_COUNT(process_members), at);
}

static void
read_cgroup(host *h, int64_t pid, mrd_local_ns at)
{
    mrd_cgroup_stat st;
    char path[1024];
    bool v2;

    if (mrd_cgroup_of(h->proc, pid, path, &v2, NULL) == MRD_OK &&
        mrd_cgroup_read(h->cgroup, path, v2, &st, NULL) == MRD_OK)
        set_members(h, CGROUP, pid, &st, cgroup_members, MRD_COUNT(cgroup_members), at);
}

/* Finds or adds the counter "process.<pid>.<member>" or "cgroup.<pid>.<member>". As pid, "self"
 * means this process. */
static mrd_err
host_resolve(void *state, mrd_str name, size_t *ret_index)
{
    host *h = state;
    bool process = mrd_str_starts(name, "process."), cgroup = mrd_str_starts(name, "cgroup.");
    const member *m = process ? process_members : cgroup_members;
    size_t count = process ? MRD_COUNT(process_members) : MRD_COUNT(cgroup_members);
    mrd_hw_counter counter = { .device_idx = MRD_NONE, .core_idx = MRD_NONE };
    const char *dot;
    mrd_str who, what;
    int64_t pid = 0;
    size_t row;

    if (!process && !cgroup)
        return MRD_NOTFOUND;
    who.p = name.p + (process ? 8 : 7);
    what.len = name.len - (size_t) (who.p - name.p);
    if ((dot = memchr(who.p, '.', what.len)) == NULL)
        return MRD_NOTFOUND;
    who.len = (size_t) (dot - who.p);
    what = (mrd_str){ dot + 1, what.len - who.len - 1 };
    if (!mrd_str_is(who, "self") && (!mrd_hw_int(who, &pid) || pid <= 0 || pid > INT32_MAX))
        return MRD_NOTFOUND;
    for (unsigned i = 0; i < count; i++) {
        if (!mrd_str_is(what, m[i].name))
            continue;
        counter.unit = m[i].unit;
        counter.flags = m[i].flags;
        counter.pid = pid == 0 ? getpid() : pid;
        snprintf(counter.name, sizeof(counter.name), MRD_STR_FMT, MRD_STR_ARG(name));
        row = mrd_hw_table_add(&h->table, &counter,
                               key_of(process ? PROCESS : CGROUP, (uint64_t) pid, i));
        if (row == MRD_HW_NO_ROW)
            return MRD_LIMIT;
        *ret_index = row;
        return MRD_OK;
    }
    return MRD_NOTFOUND;
}

/* ---- The backend ---- */

static void (*const readers[GROUPS])(host *h, mrd_local_ns at) = {
    [CPU] = read_stat, [MEM] = read_mem,   [LOAD] = read_load,
    [NET] = read_net,  [DISK] = read_disk, [PSI] = read_psi,
};

static bool
host_probe(const mrd_hw_options *options, mrd_why *why)
{
    const char *proc = options->proc_root == NULL ? "/proc" : options->proc_root;
    mrd_buf text = { 0 };
    bool there = mrd_hw_read(proc, "stat", &text);

    if (!there)
        (void) mrd_why_set(why, MRD_NOTFOUND, errno, "%s/stat cannot be read", proc);
    mrd_buf_fini(&text);
    return there;
}

static void
host_close(void *state)
{
    host *h = state;

    if (h == NULL)
        return;
    mrd_hw_table_fini(&h->table);
    mrd_buf_fini(&h->text);
    free(h->older);
    free(h->newer);
    free(h->proc);
    free(h->cgroup);
    free(h);
}

static mrd_err
host_refresh(void *state, mrd_why *why)
{
    host *h = state;
    mrd_local_ns at = mrd_local_now();

    h->table.round++;
    h->listing = true;
    for (unsigned g = 0; g < GROUPS; g++)
        if (readers[g] != NULL)
            readers[g](h, at);
    h->listing = false;
    return h->text.err == MRD_NOMEM ? mrd_why_set(why, MRD_NOMEM, 0, "host counters") : MRD_OK;
}

static mrd_err
host_open(const mrd_hw_options *options, void **ret_state, mrd_why *why)
{
    const char *sys = options->sys_root == NULL ? "/sys" : options->sys_root;
    host *h = calloc(1, sizeof(*h));
    long hz = sysconf(_SC_CLK_TCK);
    char cgroup[1024];
    mrd_err err = MRD_NOMEM;

    if (h == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "host counters");
    h->tick_ns = MRD_SEC / (hz > 0 ? hz : 100);
    snprintf(cgroup, sizeof(cgroup), "%s/fs/cgroup", sys);
    h->proc = strdup(options->proc_root == NULL ? "/proc" : options->proc_root);
    h->cgroup = strdup(options->cgroup_root == NULL ? cgroup : options->cgroup_root);
    if (h->proc != NULL && h->cgroup != NULL)
        err = host_refresh(h, why);
    if (err != MRD_OK) {
        host_close(h);
        return mrd_why_set(why, err, 0, "host counters");
    }
    *ret_state = h;
    return MRD_OK;
}

static size_t
host_count(const void *state)
{
    return ((const host *) state)->table.n;
}

static const mrd_hw_counter *
host_at(const void *state, size_t i)
{
    return &((const host *) state)->table.rows[i].counter;
}

/* Reads the wanted counters. A file with several of them is read only once. */
static mrd_err
host_sample(void *state, const uint32_t *want, size_t count, mrd_hw_value *ret_values,
            mrd_local_ns deadline, mrd_why *why)
{
    host *h = state;
    bool done[GROUPS] = { false };
    mrd_local_ns at = mrd_local_now();
    int64_t process = -1, cgroup = -1;

    h->table.round++;
    for (size_t i = 0; i < count; i++) {
        uint64_t key = h->table.rows[want[i]].key;
        unsigned g = group_of(key) == KERNEL ? CPU : group_of(key);
        int64_t pid = (int64_t) (key >> 16 & 0xffffffffff);

        if (mrd_local_now().ns > deadline.ns)
            return mrd_why_set(why, MRD_TIMEOUT, 0, "host counters: no answer in time");
        if (g == PROCESS && pid != process)
            read_process(h, process = pid, at);
        else if (g == CGROUP && pid != cgroup)
            read_cgroup(h, cgroup = pid, at);
        else if (readers[g] != NULL && !done[g])
            readers[g](h, at);
        done[g] = true;
    }
    mrd_hw_table_take(&h->table, want, count, ret_values, at);
    return MRD_OK;
}

const mrd_hw_backend mrd_hw_backend_host = {
    .name = "host",
    .what = "/proc and the control groups: CPU, memory, load, network, disks, pressure, processes",
    .probe = host_probe,
    .open = host_open,
    .refresh = host_refresh,
    .count = host_count,
    .at = host_at,
    .resolve = host_resolve,
    .sample = host_sample,
    .close = host_close,
};
