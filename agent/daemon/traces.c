#include "agent/daemon/traces.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/files/folder.h"
#include "base/conf/agent_waits.h"
#include "base/hash.h"
#include "base/obj.h"
#include "base/vec.h"
#include "trace/import/import.h"

#define PART      16384u /* maximum number of events of a file that one step emits */
#define KNOWN_MAX 256u   /* maximum number of remembered processes */
/* bit in the stored positions that distinguishes positions of trace files from positions of
 * rings */
#define IS_FILE   (1ull << 63)
#define RUNTIME   "nrt-sys-trace"
#define FRAMEWORK "trace-event-json"
#define XSPACE    "xplane"
#define NOTHING   1   /* value in the table `known` for a file name from which no event was read */
#define CUT_MAX   64u /* maximum number of files that are remembered because only a part was read */
/* 2001-09-09, in nanoseconds since 1970. Earlier times in a file are not times of the wall
 * clock. */
#define EPOCH_FROM (1000000000 * MRD_SEC)

typedef struct {
    char *path;
    int fd; /* a duplicate of the file's descriptor, only for this reader; file position 0 */
    int64_t uid;
    uint64_t key;
    int64_t pid, container_pid, rank;
    char job[128];
    bool runtime; /* the runtime events of the file's process came through its rings */
    /* The XLA profiler writes the same events into an XSpace file and a JSON file next to it. Both
     * files have the same value here. 0 for other files. */
    uint64_t both;
    uint64_t kind; /* 1 for the XSpace file, 2 for the JSON file */
    /* Key of this file name in the table `known`. The value there says what was read:
     * mrd_read_end.events, or NOTHING. */
    uint64_t name;
    bool grown; /* an earlier version of the file was passed to options.complete */
    uint32_t replaced;
    uint64_t takers[MRD_FILES_SESSIONS];
} waiting;

/* A file that was last reported as read only in part. */
typedef struct {
    uint64_t name;
    uint64_t takers[MRD_FILES_SESSIONS];
} cut_file;

typedef struct {
    /* `given` is an amount or a kind, depending on `key`. For waiting.key it is the number of
     * emitted events, including losses. For waiting.both it is the kind of the file that was read.
     * For waiting.name it is the number of events read, or NOTHING. */
    uint64_t key, given;
} known;

typedef struct {
    int64_t pid, container_pid, rank, uid;
    char job[128];
    bool runtime;
} who;

/* The trace file that is being read, or that is being emitted as events. */
typedef struct {
    waiting file;
    const char *instance_id; /* borrowed from the options, which outlive the thread */
    pthread_t thread;
    /* The thread sets `done` with release order when it has finished. After that it does not access
     * the members below. */
    atomic_bool cancel, done;
    bool started;
    mrd_catalog *cat;
    mrd_store *store;
    mrd_source *source;
    /* the processes in the file, by their id in the catalog; NULL means that a process was not
     * reported yet */
    mrd_drain_process **processes;
    size_t n_processes;
    uint64_t events, bad, given, skip;
    /* number of events in the previous version of this file, from the table `known` */
    uint64_t had;
    mrd_read_end end;
    mrd_ev_ns first, last;
    bool lost; /* a loss event for the `bad` records of the file was already emitted */
    char message[MRD_WHY_MAX];
    bool cut;     /* the file is incomplete or has invalid records */
    bool undated; /* the times in the file are not of the wall clock */
    mrd_err err;
} reading;

struct mrd_traces {
    mrd_traces_options o;
    waiting queue[MRD_TRACES_QUEUE];
    size_t first, n;
    known known[MRD_TRACES_KNOWN]; /* ring buffer of the newest entries */
    size_t n_known, next_known;
    who procs[KNOWN_MAX];
    size_t n_procs, next_proc;
    /* ring buffer of the newest entries; name 0 means that the entry is free */
    cut_file cuts[CUT_MAX];
    size_t next_cut;
    reading *now;
    mrd_traces_stats stats;
};

/* ---- Table of files that were read ---- */

static known *
known_of(mrd_traces *traces, uint64_t key)
{
    for (size_t i = 0; i < traces->n_known; i++)
        if (traces->known[i].key == key)
            return &traces->known[i];
    return NULL;
}

static void
remember(mrd_traces *traces, uint64_t key, uint64_t given)
{
    known *k = known_of(traces, key);

    if (k == NULL) {
        k = &traces->known[traces->next_known];
        traces->next_known = (traces->next_known + 1) % MRD_TRACES_KNOWN;
        traces->n_known += traces->n_known < MRD_TRACES_KNOWN;
    }
    *k = (known){ key, given };
}

void
mrd_traces_resume(mrd_traces *traces, const mrd_spool_position *positions, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((positions[i].read & IS_FILE) != 0)
            remember(traces, positions[i].ring, positions[i].read & ~IS_FILE);
}

void
mrd_traces_positions(const mrd_traces *traces, void (*call)(void *to, uint64_t key, uint64_t value),
                     void *to)
{
    for (size_t i = 0; i < traces->n_known; i++)
        if (traces->known[i].key != 0)
            call(to, traces->known[i].key, traces->known[i].given | IS_FILE);
}

void
mrd_traces_forget(mrd_traces *traces)
{
    if (traces->now != NULL || traces->n > 0)
        return;
    traces->n_known = traces->next_known = 0;
    memset(traces->cuts, 0, sizeof(traces->cuts));
}

static uint64_t
runtime_key(int64_t pid)
{
    return mrd_hash64(&pid, sizeof(pid), 0x72756e74);
}

void
mrd_traces_process(mrd_traces *traces, const mrd_ident *ident, int64_t uid, bool runtime)
{
    who *w = NULL;

    for (size_t i = 0; i < traces->n_procs && w == NULL; i++)
        if (traces->procs[i].pid == ident->pid)
            w = &traces->procs[i];
    if (w == NULL) {
        w = &traces->procs[traces->next_proc];
        traces->next_proc = (traces->next_proc + 1) % KNOWN_MAX;
        traces->n_procs += traces->n_procs < KNOWN_MAX;
    }
    *w = (who){ .pid = ident->pid,
                .container_pid = ident->container_pid,
                .rank = ident->rank,
                .uid = uid,
                .runtime = runtime };
    snprintf(w->job, sizeof(w->job), "%s", ident->job);
    if (runtime && known_of(traces, runtime_key(ident->pid)) == NULL)
        /* remembered, because the next agent must also skip the runtime files of this process */
        remember(traces, runtime_key(ident->pid), 1);
}

/* Finds the process that wrote a directory. `watched` is the pid of the process that told the agent
 * the directory's path. `folder` is the pid in the directory's name, which may be the pid inside a
 * container. MRD_NONE means unknown. Only processes of the user `uid` are found. */
static const who *
find_who(const mrd_traces *traces, int64_t uid, int64_t watched, int64_t folder)
{
    const who *best = NULL;

    for (size_t i = 0; i < traces->n_procs; i++) {
        const who *w = &traces->procs[i];

        if (uid != MRD_OWNED_ANY && w->uid != uid)
            continue;
        if (watched != MRD_NONE && w->pid == watched &&
            (folder == MRD_NONE || folder == w->pid || folder == w->container_pid))
            return w;
        if (folder != MRD_NONE && (w->pid == folder || w->container_pid == folder))
            best = w;
    }
    return best;
}

/* ---- The queue of files ---- */

/* Returns true if the pid belongs to a process of another user than the file. Such a file is
 * ignored, because a user could otherwise add events to another user's process. */
static bool
is_of_another(const mrd_traces *traces, const mrd_files_complete *file, int64_t pid)
{
    for (size_t i = 0; i < traces->n_procs && file->uid != MRD_OWNED_ANY; i++)
        if (traces->procs[i].pid == pid && traces->procs[i].uid != file->uid)
            return true;
    return false;
}

static bool
has_share(const mrd_traces *traces, int64_t uid)
{
    size_t own = 0;

    for (size_t i = 0; i < traces->n && uid != MRD_OWNED_ANY; i++)
        own += traces->queue[(traces->first + i) % MRD_TRACES_QUEUE].uid == uid;
    return traces->n < MRD_TRACES_QUEUE &&
           (uid == MRD_OWNED_ANY || own < MRD_TRACES_QUEUE - traces->n);
}

/* Returns the key for waiting.both of a file. It is equal for <host>.xplane.pb and
 * <host>.trace.json.gz in one directory, which the XLA profiler writes with the same events. It is
 * 0 for other files. Sets *ret_kind to 1 for the first and to 2 for the second. */
static uint64_t
both_key(const mrd_files_complete *file, uint64_t *ret_kind)
{
    static const char *const ends[] = { ".xplane.pb", ".trace.json.gz", ".trace.json" };
    mrd_str name =
        /* hash the whole path, because processes that start in the same second may use the same
         * names in their directories */
        mrd_str_of(file->path);

    for (size_t i = 0; i < MRD_COUNT(ends); i++) {
        size_t n = strlen(ends[i]);

        if (!mrd_str_ends(name, ends[i]) || name.len == n || name.p[name.len - n - 1] == '/')
            continue;
        *ret_kind = i == 0 ? 1 : 2;
        return mrd_hash64(name.p, name.len - n, 0x58537061 ^ (uint64_t) file->uid);
    }
    return 0;
}

static void
fail(mrd_traces *traces, const mrd_files_complete *file, const char *message)
{
    traces->stats.failed++;
    traces->o.finished(traces->o.self, file, MRD_TRACE_CUT, 0, message);
}

void
mrd_traces_file(mrd_traces *traces, const mrd_files_complete *file)
{
    uint64_t kind = 0, both;
    int64_t folder, nc;
    const who *w;
    waiting *to;

    if (!mrd_folder_is_trace(file->rel))
        return;
    both = both_key(file, &kind);
    mrd_files_names(file->rel, &folder, &nc);
    w = find_who(traces, file->uid, file->pid, folder);
    if (!has_share(traces, file->uid)) {
        fail(traces, file, "too many trace files wait to be read");
        return;
    }
    to = &traces->queue[(traces->first + traces->n) % MRD_TRACES_QUEUE];
    *to =
        (waiting){ .path = strdup(file->path),
                   .uid = file->uid,
                   .replaced = file->replaced,
                   .pid = w != NULL                                                    ? w->pid
                          : folder != MRD_NONE && !is_of_another(traces, file, folder) ? folder
                                                                                       : file->pid,
                   .container_pid = w != NULL ? w->container_pid : MRD_NONE,
                   .rank = w != NULL ? w->rank : MRD_NONE };
    if (to->path == NULL || (to->fd = fcntl(file->fd, F_DUPFD_CLOEXEC, 3)) < 0) {
        free(to->path);
        fail(traces, file, "too many files are open");
        return;
    }
    snprintf(to->job, sizeof(to->job), "%s",
             w != NULL               ? w->job
             : traces->o.job != NULL ? traces->o.job
                                     : "");
    to->key = mrd_hash64(file->sha256, strlen(file->sha256), 0x66696c65) ^
              mrd_hash64(file->rel, strlen(file->rel), 0x6e616d65);
    to->name = mrd_hash64(file->path, strlen(file->path), 0x67726f77 ^ (uint64_t) file->uid);
    to->grown = file->grown;
    to->runtime = (w != NULL && w->runtime) ||
                  (to->pid != MRD_NONE && known_of(traces, runtime_key(to->pid)) != NULL);
    to->both = both;
    to->kind = kind;
    memcpy(to->takers, file->takers, sizeof(to->takers));
    traces->n++;
}

/* ---- The thread that reads files ---- */

static bool
is_cancelled(void *self)
{
    return atomic_load(&((reading *) self)->cancel);
}

/* Detects the format of the file. Returns an error with the reason if the file is skipped. */
static mrd_err
detect(const reading *r, mrd_why *why)
{
    const mrd_import_ops *ops = NULL;
    mrd_in *in = NULL;
    mrd_bytes data;
    mrd_err err = mrd_in_fd(r->file.fd, r->file.path, &in, why);

    if (err == MRD_OK && (err = mrd_in_fill(in, MRD_PROBE_BYTES, &data, why)) == MRD_OK)
        ops = mrd_import_detect((mrd_str){ (const char *) data.p, data.len }, r->file.path);
    mrd_in_close(in);
    if (err != MRD_OK)
        return err;
    if (ops == NULL || (strcmp(ops->name, RUNTIME) != 0 && strcmp(ops->name, FRAMEWORK) != 0 &&
                        strcmp(ops->name, XSPACE) != 0))
        return mrd_why_set(why, MRD_UNSUPPORTED, 0,
                           "it is not a trace of the runtime or of a framework");
    if (strcmp(ops->name, RUNTIME) == 0 && r->file.runtime)
        return mrd_why_set(why, MRD_EXISTS, 0,
                           "the runtime's events of this process came through its rings already");
    return MRD_OK;
}

static mrd_err
read_all(reading *r, const mrd_identity *who_, mrd_why *why)
{
    mrd_read_options options = { .fd = &r->file.fd,
                                 .catalog = r->cat,
                                 .store = r->store,
                                 .system = true,
                                 .part_max = MRD_TRACES_PART,
                                 .vendor_tool = "",
                                 .had = r->had == NOTHING ? 0 : r->had,
                                 .ret_end = &r->end,
                                 .cancelled = is_cancelled,
                                 .self = r };
    const mrd_input *input;
    mrd_stream *stream;
    size_t n;
    mrd_err err = mrd_read_file(&options, r->file.path, who_, why);

    if (err != MRD_OK)
        return err;
    input = mrd_catalog_inputs(r->cat, &n);
    if (r->file.grown && r->had != NOTHING && !r->end.continued)
        return mrd_why_set(why, MRD_STATE, 0,
                           "it grew after it was read, and its new events are not known: write "
                           "it at once, or keep it open until it is complete");
    r->bad = input[0].dropped - r->end.dropped;
    r->cut = input[0].state == MRD_INPUT_INCOMPLETE || input[0].state == MRD_INPUT_FAILED;
    if (input[0].error != MRD_SID_EMPTY)
        snprintf(r->message, sizeof(r->message), "%s", mrd_catalog_text(r->cat, input[0].error).p);
    if (mrd_store_streams(r->store) == 0)
        return mrd_why_set(why, MRD_EMPTY, 0, "%s",
                           r->message[0] != '\0' ? r->message : "it holds no events");
    stream = mrd_store_at(r->store, 0);
    r->events = mrd_stream_count(stream);
    if (mrd_stream_range(stream, &r->first, &r->last) && r->last.ns < EPOCH_FROM) {
        static const char says[] = "its times are since its profile began, and it does not say "
                                   "when that was";

        /* skip this file and read the other one with the same events, because its times are of the
         * wall clock */
        if (r->file.both != 0)
            return mrd_why_set(why, MRD_UNSUPPORTED, 0, "%s", says);
        if (!r->cut)
            snprintf(r->message, sizeof(r->message), "%s", says);
        r->undated = true;
    }
    if ((err = mrd_stream_finish(stream, why)) == MRD_OK)
        err = mrd_stream_open(stream, &r->source, why);
    return err;
}

static void *
run(void *arg)
{
    reading *r = arg;
    mrd_why why = { 0 };
    mrd_identity id = { .process_id = r->file.pid,
                        .nc_idx = MRD_NONE,
                        .model = MRD_NONE,
                        .session = MRD_NONE,
                        .rank = r->file.rank };

    r->err = detect(r, &why);
    if (r->err == MRD_OK) {
        id.instance_id = mrd_catalog_intern(r->cat, r->instance_id);
        id.job = r->file.job[0] == '\0' ? MRD_SID_EMPTY : mrd_catalog_intern(r->cat, r->file.job);
        r->err = read_all(r, &id, &why);
    }
    if (r->err != MRD_OK)
        snprintf(r->message, sizeof(r->message), "%s", why.text);
    atomic_store_explicit(&r->done, true, memory_order_release);
    return NULL;
}

/* ---- Emitting the events ---- */

static void
finish(mrd_traces *traces)
{
    reading *r = traces->now;

    if (r->started)
        pthread_join(r->thread, NULL);
    for (size_t i = 0; i < r->n_processes; i++) {
        if (r->processes[i] == NULL)
            continue;
        r->processes[i]->gone = true;
        traces->o.process(traces->o.self, r->processes[i]);
        free(r->processes[i]);
    }
    if (r->source != NULL)
        r->source->close(r->source);
    free(r->processes);
    mrd_store_free(r->store);
    mrd_catalog_free(r->cat);
    close(r->file.fd);
    free(r->file.path);
    free(r);
    traces->now = NULL;
}

static cut_file *
cut_of(mrd_traces *traces, uint64_t name)
{
    for (size_t i = 0; i < CUT_MAX; i++)
        if (traces->cuts[i].name == name)
            return &traces->cuts[i];
    return NULL;
}

/* Remembers how a version of the file was read. If an earlier version was reported as read in part,
 * and this version contains all its events, withdraws that report. */
static void
note_version(mrd_traces *traces, const reading *r, bool is_cut)
{
    cut_file *cut = cut_of(traces, r->file.name);

    if (r->err == MRD_OK && r->end.events != 0)
        remember(traces, r->file.name, r->end.events);
    else if (r->had == 0)
        remember(traces, r->file.name, NOTHING);
    if (cut != NULL && (r->end.continued || r->file.grown) && traces->o.withdraw != NULL)
        traces->o.withdraw(traces->o.self, cut->takers);
    if (cut != NULL)
        cut->name = 0;
    if (!is_cut)
        return;
    cut = &traces->cuts[traces->next_cut];
    traces->next_cut = (traces->next_cut + 1) % CUT_MAX;
    cut->name = r->file.name;
    memcpy(cut->takers, r->file.takers, sizeof(cut->takers));
}

static void
conclude(mrd_traces *traces)
{
    reading *r = traces->now;
    mrd_files_complete file = {
        .path = r->file.path, .pid = r->file.pid, .uid = r->file.uid, .replaced = r->file.replaced
    };
    mrd_trace_end end = MRD_TRACE_CUT;

    memcpy(file.takers, r->file.takers, sizeof(file.takers));
    if (r->err == MRD_UNSUPPORTED || r->err == MRD_EXISTS) {
        traces->stats.left_alone++;
        end = MRD_TRACE_LEFT;
    } else if (r->err != MRD_OK) {
        traces->stats.failed++;
    } else {
        traces->stats.files++;
        end = r->cut ? MRD_TRACE_CUT : r->undated ? MRD_TRACE_UNDATED : MRD_TRACE_WHOLE;
    }
    note_version(traces, r, end == MRD_TRACE_CUT);
    traces->o.finished(traces->o.self, &file, end, r->given, r->message);
    finish(traces);
}

static mrd_drain_process *
process_of(mrd_traces *traces, reading *r, mrd_track_id track)
{
    mrd_proc_id id = mrd_catalog_borrow_track(r->cat, track)->process;
    const mrd_process *process = mrd_catalog_borrow_process(r->cat, id);
    mrd_drain_process *pp;

    if (!MRD_VEC_REACH(r->processes, r->n_processes, id))
        return NULL;
    if (r->processes[id] != NULL || (pp = calloc(1, sizeof(*pp))) == NULL)
        return r->processes[id];
    pp->catalog = r->cat;
    pp->id = id;
    /* open spans end here, because the file says nothing about later times */
    pp->open_until_clock = MRD_DRAIN_REALTIME;
    pp->open_until = r->last;
    mrd_ident_init(&pp->ident);
    pp->ident.pid = process->process_id;
    pp->ident.container_pid = r->file.container_pid;
    pp->ident.rank = process->rank != MRD_NONE ? process->rank : r->file.rank;
    snprintf(pp->ident.job, sizeof(pp->ident.job), "%s", r->file.job);
    r->processes[id] = pp;
    traces->o.process(traces->o.self, pp);
    return pp;
}

/* Emits an event, unless a previous agent already emitted it. r->given counts the event in both
 * cases. */
static void
give(mrd_traces *traces, reading *r, const mrd_event *ev)
{
    mrd_drain_process *process;
    mrd_event copy = *ev;

    if (r->given++ < r->skip)
        return;
    traces->stats.begun += ev->kind == MRD_LOSS ? 0 : 1;
    if (traces->o.simulated)
        copy.flags |= MRD_EV_SIMULATED;
    process = process_of(traces, r, ev->track);
    if (process == NULL ||
        traces->o.event(traces->o.self, process, MRD_DRAIN_REALTIME, &copy) != MRD_OK)
        traces->stats.refused += ev->kind == MRD_LOSS ? 0 : 1;
}

/* Emits one loss event, which counts all records of the file that are not valid events. */
static void
give_bad(mrd_traces *traces, reading *r)
{
    mrd_event ev = { .kind = MRD_LOSS,
                     .ts = r->first,
                     .dur_ns = mrd_ev_diff(r->last, r->first),
                     .ivalue = (int64_t) r->bad,
                     .flags = MRD_EV_INT };
    mrd_track track;

    r->lost = true;
    if (r->bad == 0 || mrd_catalog_tracks(r->cat) == 0)
        return;
    track = *mrd_catalog_borrow_track(r->cat, 0);
    mrd_track_init(&track, track.process, MRD_SRC_MERIDIAN);
    ev.track = mrd_catalog_track(r->cat, &track);
    ev.name = mrd_catalog_intern(r->cat, mrd_drop_text(MRD_DROP_JSON));
    if (r->given >= r->skip)
        traces->stats.dropped += r->bad;
    give(traces, r, &ev);
}

static void
give_part(mrd_traces *traces)
{
    reading *r = traces->now;
    const mrd_event *ev;
    mrd_why why = { 0 };
    mrd_step step = MRD_MORE;

    for (unsigned i = 0; i < PART && step == MRD_MORE; i++)
        if ((step = r->source->next(r->source, &ev, &why)) == MRD_MORE)
            give(traces, r, ev);
    if (step == MRD_BAD) {
        r->err = why.err;
        snprintf(r->message, sizeof(r->message), "%s", why.text);
    }
    if (step != MRD_MORE && !r->lost)
        give_bad(traces, r);
    if (r->given >= r->skip)
        remember(traces, r->file.key, r->given);
    if (r->given > 0 && r->file.both != 0)
        remember(traces, r->file.both, r->file.kind);
    if (step != MRD_MORE)
        conclude(traces);
}

/* ---- The interface ---- */

/* Returns true if the agent already emitted the same events from the file in the other format
 * (waiting.both). May be called only after all earlier files in the queue were read. */
static bool
is_second(mrd_traces *traces, const waiting *file)
{
    const known *k = file->both == 0 ? NULL : known_of(traces, file->both);

    return k != NULL && k->given != file->kind;
}

static void
start(mrd_traces *traces)
{
    reading *r = calloc(1, sizeof(*r));
    const known *k;

    if (r == NULL)
        return; /* out of memory, so the next step tries again */
    r->file = traces->queue[traces->first];
    k = known_of(traces, r->file.key);
    r->skip = k == NULL ? 0 : k->given;
    k = known_of(traces, r->file.name);
    r->had = k == NULL ? 0 : k->given;
    r->instance_id = traces->o.instance_id;
    r->cat = mrd_catalog_new();
    r->store = mrd_store_new(MRD_TRACES_MEMORY, traces->o.dir);
    traces->now = r;
    traces->first = (traces->first + 1) % MRD_TRACES_QUEUE;
    traces->n--;
    if (is_second(traces, &r->file)) {
        r->err = MRD_EXISTS;
        snprintf(r->message, sizeof(r->message),
                 "the file of the other format beside it has the same events and was read");
        conclude(traces);
        return;
    }
    if (r->cat != NULL && r->store != NULL && pthread_create(&r->thread, NULL, run, r) == 0) {
        r->started = true;
        return;
    }
    r->err = MRD_NOMEM;
    snprintf(r->message, sizeof(r->message), "out of memory");
    conclude(traces);
}

void
mrd_traces_step(mrd_traces *traces, bool room)
{
    if (traces->now == NULL && traces->n > 0)
        start(traces);
    if (traces->now == NULL || !atomic_load_explicit(&traces->now->done, memory_order_acquire))
        return;
    if (traces->now->err != MRD_OK)
        conclude(traces);
    else if (room)
        give_part(traces);
}

bool
mrd_traces_idle(const mrd_traces *traces)
{
    return traces->now == NULL && traces->n == 0;
}

mrd_local_ns
mrd_traces_next_ns(const mrd_traces *traces)
{
    return mrd_traces_idle(traces) ? ((mrd_local_ns){ INT64_MAX })
                                   : mrd_local_add(mrd_local_now(), MRD_WAIT_TRACE_POLL);
}

void
mrd_traces_get_stats(const mrd_traces *traces, mrd_traces_stats *ret_stats)
{
    *ret_stats = (mrd_traces_stats){ 0 };
    if (traces != NULL)
        *ret_stats = traces->stats;
}

mrd_err
mrd_traces_open(const mrd_traces_options *options, mrd_traces **ret_traces, mrd_why *why)
{
    mrd_traces *traces = calloc(1, sizeof(*traces));

    if (traces == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "trace files");
    traces->o = *options;
    *ret_traces = traces;
    return MRD_OK;
}

void
mrd_traces_close(mrd_traces *traces)
{
    if (traces == NULL)
        return;
    if (traces->now != NULL) {
        atomic_store(&traces->now->cancel, true);
        finish(traces);
    }
    for (; traces->n > 0; traces->n--) {
        free(traces->queue[traces->first].path);
        close(traces->queue[traces->first].fd);
        traces->first = (traces->first + 1) % MRD_TRACES_QUEUE;
    }
    free(traces);
}
