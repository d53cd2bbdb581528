#include "agent/hang/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/hang/device_time.h"
#include "base/vec.h"
#include "hw/proc.h"

/* shortest time until the next look, and by how much it varies */
#define LOOK        (80 * MRD_MS)
#define LOOK_VARIES (40 * MRD_MS)
/* number of paces without device time after events were lost */
#define LOSS_PACES 3
/* without progress for this time, a process is reported to the aggregator */
#define QUIET MRD_SEC
/* interval after which CPU time and bytes of a process are compared again */
#define WORK_LOOK (500 * MRD_MS)
/* a process is idle if it uses less than 1/WORK_SHARE of a core */
#define WORK_SHARE 20
/* a process that reads and writes this many bytes in the interval is not idle */
#define WORK_BYTES 65536u
/* maximum error when a time in the runtime's trace is compared with the time of a call */
#define TRACE_BOUND MRD_MS
#define KEEP_GONE   (600 * MRD_SEC)

typedef struct {
    mrd_drain_process *process; /* NULL means that the process ended */
    mrd_ident ident;
    mrd_drain_op ops[MRD_DRAIN_OPS];
    size_t n_ops;
    char lost[64], inside[64], running[96];
    bool traced;
    char state;
    mrd_local_ns watched; /* RAW time when the process was added to the table */
    mrd_local_ns progress, idle;
    mrd_local_ns state_at; /* since when `state` is unchanged */
    /* CPU time and bytes of the process until `work_at`. work_at 0 means that they were not read
     * since the last progress. */
    mrd_process_work work;
    mrd_local_ns work_at, inside_at;
    uint32_t op_flags; /* MRD_RING_OPS_* bits */
    bool quiet;

    bool has_job; /* only processes of a job have a pace */
    mrd_rank_pace_tracker pace;
    mrd_thread_work thread; /* CPU times of the main thread when the newest pace was made */
    /* the main thread's ids: as the pace has it, and in proc_root (0: not found) */
    uint32_t own_tid;
    int64_t tid;
    mrd_device_time *device;       /* NULL until the first event of a core */
    mrd_dur_ns device_sum;         /* -1 or the own work of the cores at the pace */
    uint64_t executions;           /* executions in the device time, at the pace */
    uint64_t collectives;          /* events cc_running since the pace */
    unsigned paces_without_device; /* how many further paces have no device time */
} rank;

/* The process of the newest event, so that it is not searched for every event. */
typedef struct {
    const mrd_drain_process *process;
    size_t at, n; /* index of this process among the `n` processes; `n` if it is not one of them */
    size_t texts; /* number of texts in its catalog when the names were looked up */
    mrd_sid execution, collective, barrier;
} event_source;

struct mrd_ranks {
    mrd_drain *drain;
    const char *proc_root;
    rank *v;
    size_t n, cap;
    uint64_t version;
    uint32_t left_out;
    mrd_local_ns next, now;
    /* operations and threads of the process that is looked at */
    mrd_drain_ops_kept ops;
    mrd_drain_threads threads;
    uint64_t paces;
    uint64_t random; /* makes the intervals between looks irregular */
    event_source source;
};

mrd_err
mrd_ranks_open(mrd_drain *drain, const char *proc_root, mrd_ranks **ret_ranks, mrd_why *why)
{
    mrd_ranks *ranks = calloc(1, sizeof(*ranks));

    if (ranks == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "ranks");
    ranks->drain = drain;
    ranks->proc_root = proc_root != NULL ? proc_root : "/proc";
    *ret_ranks = ranks;
    return MRD_OK;
}

void
mrd_ranks_close(mrd_ranks *ranks)
{
    if (ranks == NULL)
        return;
    for (size_t i = 0; i < ranks->n; i++)
        mrd_device_time_free(ranks->v[i].device);
    free(ranks->v);
    free(ranks);
}

/* ---- Open spans of a process ---- */

/* Describes what a process does. `text` has the names of the open spans of the thread that began a
 * span last. `running` has the event types in the runtime's trace that began after `since` and did
 * not end. */
typedef struct {
    const mrd_drain *drain;
    mrd_local_ns since;
    mrd_track_id track;
    mrd_ev_ns last;
    char text[64], running[96];
} chain;

/* Returns true if the name is in the list, which is separated by commas. */
static bool
has_name(const char *list, const char *name)
{
    size_t len = strlen(name);

    for (const char *at = list; (at = strstr(at, name)) != NULL; at++)
        if ((at == list || at[-1] == ',') && (at[len] == '\0' || at[len] == ','))
            return true;
    return false;
}

static void
add_running(chain *c, const mrd_event *ev, const char *name)
{
    size_t len = strlen(c->running);

    if (*name != '\0' && !has_name(c->running, name) &&
        !mrd_local_before(mrd_drain_to_raw(c->drain, (mrd_wall_ns){ ev->ts.ns }), c->since) &&
        len + strlen(name) + 2 <= sizeof(c->running))
        snprintf(c->running + len, sizeof(c->running) - len, "%s%s", len > 0 ? "," : "", name);
}

static void
add_span(void *self, mrd_drain_process *process, unsigned clock, const mrd_event *ev)
{
    chain *c = self;
    const char *name = mrd_catalog_text(process->catalog, ev->name).p;
    size_t n = strlen(c->text);

    if (clock == MRD_DRAIN_REALTIME)
        add_running(c, ev, name);
    if (clock != MRD_DRAIN_RAW ||
        mrd_catalog_borrow_track(process->catalog, ev->track)->thread_id == MRD_NONE)
        return;
    if (ev->track == c->track && n > 0)
        snprintf(c->text + n, sizeof(c->text) - n, " > %s", name);
    else if (ev->ts.ns > c->last.ns)
        snprintf(c->text, sizeof(c->text), "%s", name);
    else
        return;
    c->track = ev->track;
    c->last = ev->ts.ns > c->last.ns ? ev->ts : c->last;
}

/* Finds out which spans and runtime events are open in the process. Returns true if something
 * changed. */
static bool
look_inside(mrd_ranks *ranks, rank *k)
{
    bool changed;
    chain c = { .drain = ranks->drain };

    for (size_t i = 0; i < k->n_ops; i++)
        if (k->ops[i].open > 0 && mrd_local_before(c.since, k->ops[i].begin))
            c.since = k->ops[i].begin;
    c.since = mrd_local_sub(c.since, TRACE_BOUND);
    mrd_drain_in_flight(ranks->drain, k->process, "hang", add_span, &c);
    changed = strcmp(k->inside, c.text) != 0 || strcmp(k->running, c.running) != 0;
    memcpy(k->inside, c.text, sizeof(k->inside));
    memcpy(k->running, c.running, sizeof(k->running));
    k->traced = mrd_drain_has_runtime(k->process);
    k->inside_at = ranks->now;
    return changed;
}

/* ---- State of a process in /proc ---- */

static void
set_state(rank *k, char state, mrd_local_ns now)
{
    if (k->state != state)
        k->state_at = now;
    k->state = state;
}

/* Compares CPU time and bytes of a process with the last reading, at most twice a second. Sets
 * k->idle if the process did not work since then. */
static void
look_at_work(mrd_ranks *ranks, rank *k)
{
    mrd_dur_ns since = mrd_local_diff(ranks->now, k->work_at);
    bool first = k->work_at.ns == 0, works;
    mrd_process_work work;

    if ((!first && since < WORK_LOOK) ||
        mrd_work_read(ranks->proc_root, k->ident.pid, &work) != MRD_OK)
        return;
    works =
        (work.cpu - k->work.cpu) * WORK_SHARE >= since || work.bytes - k->work.bytes >= WORK_BYTES;
    if (!first && works)
        k->idle.ns = 0;
    else if (!first && k->idle.ns == 0)
        k->idle = k->work_at;
    k->work = work;
    k->work_at = ranks->now;
}

/* Reads the process's state from /proc, and finds out whether the process is idle. Returns true if
 * one of the two changed. */
static bool
look_at_kernel(mrd_ranks *ranks, rank *k)
{
    char state = k->state;
    bool idle = k->idle.ns != 0;
    mrd_proc_stat st;

    if (mrd_proc_read(ranks->proc_root, k->ident.pid, &st, NULL) != MRD_OK ||
        (st.start_ticks != k->ident.start_ticks && k->ident.timens_boottime_ns == 0)) {
        set_state(k, '?', ranks->now);
        return state != '?';
    }
    /* a process changes between R and S all the time, so both are stored as S */
    set_state(k, st.state == 'R' ? 'S' : st.state, ranks->now);
    look_at_work(ranks, k);
    return state != k->state || idle != (k->idle.ns != 0);
}

/* ---- The pace ---- */

/* Reads what the scheduler says about the main thread. */
static void
look_at_thread(const mrd_ranks *ranks, rank *k, uint32_t own_tid)
{
    if (k->own_tid != own_tid) {
        k->own_tid = own_tid;
        k->tid =
            mrd_work_find_thread(ranks->proc_root, k->ident.pid, k->ident.container_pid, own_tid);
    }
    if (k->tid == 0 ||
        mrd_work_thread(ranks->proc_root, k->ident.pid, k->tid, &k->thread) != MRD_OK)
        k->thread = (mrd_thread_work){ -1, -1 };
}

/* Stores the own work of the cores, if all of it is known. Without the collectives in the trace,
 * waiting for other ranks would count as own work. */
static void
look_at_device(rank *k)
{
    uint64_t executions = 0;
    mrd_dur_ns sum = k->device != NULL ? mrd_device_time_take(k->device, &executions) : -1;
    bool complete = k->paces_without_device == 0 && executions > k->executions &&
                    (k->collectives > 0 || k->ident.world_size == 1);

    k->device_sum = complete ? sum : -1;
    k->executions = executions;
    k->collectives = 0;
    k->paces_without_device -= k->paces_without_device > 0;
}

static void
look_at_pace(mrd_ranks *ranks, rank *k)
{
    const mrd_rank_pace *pace;

    if (!k->has_job || !mrd_rank_pace_look(&k->pace, &ranks->ops, &ranks->threads, ranks->now))
        return;
    ranks->paces++;
    if ((pace = mrd_rank_pace_of(&k->pace)) == NULL)
        return;
    look_at_thread(ranks, k, pace->thread);
    look_at_device(k);
}

/* Finds the process of an event in the table, and the names of events in its catalog. */
static bool
find_source(mrd_ranks *ranks, const mrd_drain_process *process)
{
    event_source *s = &ranks->source;
    const mrd_strtab *texts;

    if (s->process != process || s->n != ranks->n ||
        (s->at < s->n && ranks->v[s->at].process != process)) {
        *s = (event_source){ .process = process, .n = ranks->n };
        while (s->at < s->n && ranks->v[s->at].process != process)
            s->at++;
    }
    if (s->at == s->n || !ranks->v[s->at].has_job)
        return false;
    texts = mrd_catalog_strings(process->catalog);
    if ((s->execution == 0 || s->collective == 0 || s->barrier == 0) &&
        s->texts != mrd_strtab_count(texts)) {
        s->texts = mrd_strtab_count(texts);
        s->execution = mrd_strtab_find(texts, MRD_STR("nc_exec_running"));
        s->collective = mrd_strtab_find(texts, MRD_STR("cc_running"));
        s->barrier = mrd_strtab_find(texts, MRD_STR("cc_exec_barrier"));
    }
    return true;
}

void
mrd_ranks_event(mrd_ranks *ranks, const mrd_drain_process *process, unsigned clock,
                const mrd_event *ev)
{
    const event_source *s = &ranks->source;
    bool collective;
    rank *k;

    if ((ev->kind != MRD_LOSS && (clock != MRD_DRAIN_REALTIME || ev->kind != MRD_SPAN)) ||
        !find_source(ranks, process))
        return;
    k = &ranks->v[s->at];
    if (ev->kind == MRD_LOSS) {
        k->paces_without_device = LOSS_PACES;
        if (k->device != NULL)
            mrd_device_time_lost(k->device);
        return;
    }
    collective = ev->name == s->collective && s->collective != 0;
    if (!collective && (ev->name == 0 || (ev->name != s->execution && ev->name != s->barrier)))
        return;
    if (k->device == NULL && (k->device = mrd_device_time_new()) == NULL)
        return;
    k->collectives += collective;
    mrd_device_time_add(k->device,
                        (uint64_t) mrd_catalog_borrow_track(process->catalog, ev->track)->lnc_idx,
                        ev->name != s->execution, ev->ts, ev->dur_ns);
}

/* ---- The table of processes ---- */

static rank *
find(mrd_ranks *ranks, const mrd_drain_process *process)
{
    for (size_t i = 0; i < ranks->n; i++)
        if (ranks->v[i].process == process)
            return &ranks->v[i];
    return NULL;
}

/* Reads how often the process entered and left its operations. Returns true if it entered or left
 * one since the last call. */
static bool
look_at_ops(mrd_ranks *ranks, rank *k)
{
    mrd_drain_ops_kept *ops = &ranks->ops;
    const char *lost = mrd_drain_ops(ranks->drain, k->process, ops, &ranks->threads);
    bool moved = ops->n != k->n_ops;

    for (size_t i = 0; i < ops->n && !moved; i++)
        moved = ops->v[i].entered != k->ops[i].entered || ops->v[i].open != k->ops[i].open;
    memcpy(k->ops, ops->v, ops->n * sizeof(ops->v[0]));
    k->n_ops = ops->n;
    k->op_flags = ops->flags;
    snprintf(k->lost, sizeof(k->lost), "%s", lost);
    return moved;
}

static rank *
add(mrd_ranks *ranks, mrd_drain_process *process)
{
    mrd_job_key key;
    rank *k;

    (void) mrd_drain_ops(ranks->drain, process, &ranks->ops, &ranks->threads);
    if (ranks->ops.n == 0)
        /* a process without such operations is not added; most helper processes have none */
        return NULL;
    if (!MRD_VEC_ROOM_MAX(ranks->v, ranks->n, ranks->cap, 1, MRD_RANKS_MAX)) {
        ranks->left_out++;
        return NULL;
    }
    k = &ranks->v[ranks->n++];
    *k = (rank){ .process = process,
                 .ident = process->ident,
                 .state = '?',
                 .watched = ranks->now,
                 .progress = ranks->now,
                 .thread = { -1, -1 },
                 .device_sum = -1 };
    mrd_job_key_of(&k->ident.jobid, k->ident.uid, &key);
    k->has_job = key.text[0] != '\0';
    ranks->source.process = NULL; /* the process may have the address of an earlier one */
    ranks->version++;
    return k;
}

static void
look(void *self, mrd_drain_process *process)
{
    mrd_ranks *ranks = self;
    rank *k = find(ranks, process);
    bool was = k != NULL && k->quiet, changed = false;

    if (k == NULL && (k = add(ranks, process)) == NULL)
        return;
    if (look_at_ops(ranks, k)) {
        set_state(k, 'S', ranks->now); /* it runs */
        k->progress = ranks->now;
        k->idle = k->work_at = (mrd_local_ns){ 0 };
        k->quiet = false;
    } else {
        changed = look_at_kernel(ranks, k);
        k->quiet = mrd_local_diff(ranks->now, k->progress) >= QUIET;
    }
    look_at_pace(ranks, k);
    /* Read again while the process makes no progress, because the runtime's trace arrives in
     * parts. */
    if (k->quiet && (!was || mrd_local_diff(ranks->now, k->inside_at) >= WORK_LOOK))
        changed = look_inside(ranks, k) || changed;
    if (k->quiet != was || (k->quiet && changed))
        ranks->version++;
}

void
mrd_ranks_step(mrd_ranks *ranks, mrd_local_ns now)
{
    if (mrd_local_before(now, ranks->next))
        return;
    ranks->random =
        (ranks->random ^ (uint64_t) now.ns) * 6364136223846793005u + 1442695040888963407u;
    ranks->next = mrd_local_add(now, LOOK + (mrd_dur_ns) ((ranks->random >> 33) % LOOK_VARIES));
    ranks->now = now;
    ranks->left_out = 0;
    mrd_drain_each(ranks->drain, look, ranks);
    for (size_t i = ranks->n; i-- > 0;)
        if (ranks->v[i].process == NULL && mrd_local_diff(now, ranks->v[i].state_at) > KEEP_GONE)
            ranks->v[i] = ranks->v[--ranks->n];
}

void
mrd_ranks_gone(mrd_ranks *ranks, mrd_drain_process *process, mrd_local_ns now)
{
    rank *k;

    ranks->now = now;
    if ((k = find(ranks, process)) == NULL && (k = add(ranks, process)) == NULL)
        return;
    (void) look_at_ops(ranks, k);
    mrd_device_time_free(k->device);
    k->device = NULL;
    k->process = NULL;
    set_state(k, 'X', now);
    k->quiet = true;
    ranks->version++;
}

mrd_local_ns
mrd_ranks_next_ns(const mrd_ranks *ranks)
{
    return ranks->next;
}

uint64_t
mrd_ranks_version(const mrd_ranks *ranks)
{
    return ranks->version;
}

uint64_t
mrd_ranks_paces(const mrd_ranks *ranks)
{
    return ranks->paces;
}

bool
mrd_ranks_stands(const mrd_ranks *ranks, int64_t pid, int64_t start_ticks, int64_t *ret_ticks,
                 int64_t *ret_uid)
{
    *ret_ticks = -1;
    for (size_t i = 0; i < ranks->n; i++) {
        const rank *k = &ranks->v[i];

        if (k->process == NULL || !k->quiet || k->ident.pid != pid ||
            k->ident.start_ticks != start_ticks)
            continue;
        if (k->ident.timens_boottime_ns == 0)
            *ret_ticks = start_ticks;
        *ret_uid = k->ident.uid;
        return true;
    }
    return false;
}

uint32_t
mrd_ranks_left_out(const mrd_ranks *ranks)
{
    return ranks->left_out;
}

bool
mrd_ranks_get(const mrd_ranks *ranks, size_t i, mrd_rank_state *ret_state)
{
    const rank *k = &ranks->v[i];

    if (i >= ranks->n)
        return false;
    *ret_state = (mrd_rank_state){ .ident = &k->ident,
                                   .gone = k->process == NULL,
                                   /* without progress, R and S mean the same */
                                   .state = k->state == 'S' && !k->quiet ? 'R' : k->state,
                                   .quiet = { k->quiet ? k->progress.ns : 0 },
                                   .idle = k->idle,
                                   .state_at = k->state_at,
                                   .watched = k->watched,
                                   .lost = k->lost,
                                   .failed = (k->op_flags & MRD_RING_OPS_FAILED) != 0,
                                   .partial = (k->op_flags & MRD_RING_OPS_EVICTED) != 0,
                                   .inside = k->inside,
                                   .traced = k->traced,
                                   .running = k->running,
                                   .ops = k->ops,
                                   .n_ops = k->n_ops,
                                   .pace = mrd_rank_pace_of(&k->pace),
                                   .thread = k->thread,
                                   .device = k->device_sum,
                                   .executions = k->executions };
    return true;
}
