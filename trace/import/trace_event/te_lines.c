#include "trace/import/trace_event/te_lines.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/vec.h"
#include "trace/import/capture_names.h"

/* Returns a temporary core number for line i (a thread or counter) until the file states the real
 * one. The number is negative and contains the input's number, so it is unique in the catalog. */
static int64_t
te_provisional(const te_lines *lines, size_t i)
{
    return -2 - (int64_t) (((uint64_t) lines->imp->input << 32) + i);
}

void
mrd_te_lines_init(te_lines *lines, mrd_import *imp)
{
    *lines = (te_lines){ .imp = imp, .free_async = TE_NONE, .process = TE_NONE };
}

/* Returns the temporary process of the file, which is added at the first call. It is final if the
 * file's path states instance and pid. */
static mrd_proc_id
te_process(te_lines *lines)
{
    const mrd_identity *place = &lines->imp->identity;
    bool has_instance = place->instance_id != MRD_SID_EMPTY;
    mrd_process process;

    if (lines->process != TE_NONE)
        return lines->process;
    mrd_process_init(&process);
    process.instance_id =
        has_instance ? place->instance_id : mrd_catalog_intern(lines->imp->catalog, "unknown");
    process.process_id = place->process_id != MRD_NONE ? place->process_id : 0;
    process.scope = has_instance && place->process_id != MRD_NONE ? 0 : lines->imp->input + 1;
    process.job = place->job;
    lines->process = mrd_catalog_process(lines->imp->catalog, &process);
    return lines->process;
}

void
mrd_te_lines_fini(te_lines *lines)
{
    for (size_t i = 0; i < lines->n_lines; i++) {
        while (lines->lines[i].top != NULL) {
            mrd_open *open = lines->lines[i].top;

            lines->lines[i].top = open->below;
            mrd_open_free(open);
        }
    }
    for (size_t i = 0; i < lines->n_asyncs; i++) {
        while (lines->asyncs[i].top != NULL) {
            mrd_open *open = lines->asyncs[i].top;

            lines->asyncs[i].top = open->below;
            mrd_open_free(open);
        }
    }
    free(lines->procs);
    free(lines->lines);
    free(lines->asyncs);
    free(lines->owners);
    mrd_map_fini(&lines->owner_map);
    mrd_map_fini(&lines->proc_map);
    mrd_map_fini(&lines->line_map);
    mrd_map_fini(&lines->async_map);
}

mrd_err
mrd_te_proc_of(te_lines *lines, te_id pid, uint32_t *ret_i)
{
    mrd_map_key key = { pid.is_word, pid.is_word ? pid.word : (uint64_t) pid.number, 0 };
    uint32_t i = mrd_map_get(&lines->proc_map, key);

    if (i == MRD_MAP_NONE) {
        if (lines->n_procs >= TE_LINES_MAX)
            return MRD_LIMIT;
        i = (uint32_t) lines->n_procs;
        if (!MRD_VEC_ROOM(lines->procs, i, lines->cap_procs, 1))
            return MRD_NOMEM;
        if (mrd_map_put(&lines->proc_map, key, i) != MRD_OK)
            return MRD_NOMEM;
        lines->procs[i] = (te_proc){ .pid = pid, .sort_index = MRD_NONE };
        lines->n_procs++;
    }
    *ret_i = i;
    return MRD_OK;
}

static mrd_err
te_line_of(te_lines *lines, mrd_map_key key, const te_line *like, uint32_t *ret_i)
{
    uint32_t i = mrd_map_get(&lines->line_map, key);

    if (i == MRD_MAP_NONE) {
        if (lines->n_lines >= TE_LINES_MAX)
            return MRD_LIMIT;
        i = (uint32_t) lines->n_lines;
        if (!MRD_VEC_ROOM(lines->lines, i, lines->cap_lines, 1))
            return MRD_NOMEM;
        if (mrd_map_put(&lines->line_map, key, i) != MRD_OK)
            return MRD_NOMEM;
        lines->lines[i] = *like;
        lines->lines[i].sort_index = lines->lines[i].device = lines->lines[i].rank = MRD_NONE;
        lines->n_lines++;
    }
    *ret_i = i;
    return MRD_OK;
}

mrd_err
mrd_te_line_new(te_lines *lines, te_line_kind kind, uint32_t *ret_i)
{
    if (lines->n_lines >= TE_LINES_MAX)
        return MRD_LIMIT;
    if (!MRD_VEC_ROOM(lines->lines, lines->n_lines, lines->cap_lines, 1))
        return MRD_NOMEM;
    lines->lines[lines->n_lines] =
        (te_line){ .kind = kind, .sort_index = MRD_NONE, .device = MRD_NONE, .rank = MRD_NONE };
    *ret_i = (uint32_t) lines->n_lines++;
    return MRD_OK;
}

mrd_err
mrd_te_thread_of(te_lines *lines, uint32_t proc, te_id tid, uint32_t *ret_i)
{
    te_line like = { .kind = TE_THREAD, .proc = proc, .tid = tid };
    mrd_map_key key = { (uint64_t) proc << 8 | TE_THREAD << 1 | tid.is_word,
                        tid.is_word ? tid.word : (uint64_t) tid.number, 0 };

    return te_line_of(lines, key, &like, ret_i);
}

mrd_err
mrd_te_named_line(te_lines *lines, te_line_kind kind, uint32_t proc, mrd_sid name, mrd_sid category,
                  uint32_t *ret_i)
{
    te_line like = { .kind = kind, .proc = proc, .name = name };
    mrd_map_key key = { (uint64_t) proc << 8 | (uint64_t) kind << 1, name, category };

    return te_line_of(lines, key, &like, ret_i);
}

mrd_err
mrd_te_owner_of(te_lines *lines, uint32_t proc, mrd_sid scope, bool global, uint32_t *ret_i)
{
    mrd_map_key key = { (uint64_t) proc << 1 | global, scope, 0 };
    uint32_t i = mrd_map_get(&lines->owner_map, key);

    if (i == MRD_MAP_NONE) {
        if (lines->n_owners >= TE_LINES_MAX)
            return MRD_LIMIT;
        i = (uint32_t) lines->n_owners;
        if (!MRD_VEC_ROOM(lines->owners, i, lines->cap_owners, 1))
            return MRD_NOMEM;
        if (mrd_map_put(&lines->owner_map, key, i) != MRD_OK)
            return MRD_NOMEM;
        lines->owners[i] = (te_owner){ .proc = proc, .global = global, .scope = scope };
        lines->n_owners++;
    }
    *ret_i = i;
    return MRD_OK;
}

uint64_t
mrd_te_owner_key(const te_lines *lines, uint32_t owner)
{
    const te_owner *o = &lines->owners[owner];

    return (o->global ? 0 : (uint64_t) o->proc + 1) << 32 | o->scope;
}

mrd_track_id
mrd_te_track(te_lines *lines, uint32_t line)
{
    te_line *l = &lines->lines[line];
    mrd_track track;

    l->events++;
    if (l->has_track)
        return l->track;
    mrd_track_init(&track, te_process(lines), MRD_SRC_FRAMEWORK);
    track.kind = l->kind == TE_COUNTER ? MRD_TRACK_COUNTER : MRD_TRACK_SPANS;
    track.pcore_idx = te_provisional(lines, line);
    l->track = mrd_catalog_track(lines->imp->catalog, &track);
    l->has_track = true;
    return l->track;
}

void
mrd_te_saw(te_lines *lines, uint32_t line, mrd_activity where, int64_t device)
{
    te_line *l = &lines->lines[line];

    l->any_host = l->any_host || where == MRD_ACTIVITY_HOST;
    l->any_device = l->any_device || where == MRD_ACTIVITY_DEVICE;
    if (where == MRD_ACTIVITY_DEVICE && l->device == MRD_NONE && device >= 0)
        l->device = device;
}

/* Combines the ranks that two spans or lines state. The result is TE_RANKS if they are
 * different. */
static int64_t
te_common_rank(int64_t a, int64_t b)
{
    return a == MRD_NONE || a == b ? b : b == MRD_NONE ? a : TE_RANKS;
}

void
mrd_te_saw_rank(te_lines *lines, uint32_t line, int64_t rank)
{
    lines->lines[line].rank = te_common_rank(lines->lines[line].rank, rank);
}

uint32_t
mrd_te_async_get(const te_lines *lines, mrd_map_key key)
{
    return mrd_map_get(&lines->async_map, key);
}

mrd_err
mrd_te_async_open(te_lines *lines, mrd_map_key key, uint32_t line, uint32_t *ret_i)
{
    uint32_t i = lines->free_async;

    if (i != TE_NONE) {
        lines->free_async = lines->asyncs[i].next_free;
    } else {
        if (lines->n_asyncs >= TE_ASYNCS_MAX)
            return MRD_LIMIT;
        i = (uint32_t) lines->n_asyncs;
        if (!MRD_VEC_ROOM(lines->asyncs, i, lines->cap_asyncs, 1))
            return MRD_NOMEM;
        lines->n_asyncs++;
    }
    lines->asyncs[i] = (te_async){ .key = key, .line = line, .next_free = TE_NONE };
    if (mrd_map_put(&lines->async_map, key, i) != MRD_OK) {
        lines->asyncs[i].next_free = lines->free_async;
        lines->free_async = i;
        return MRD_NOMEM;
    }
    *ret_i = i;
    return MRD_OK;
}

void
mrd_te_async_close(te_lines *lines, uint32_t async)
{
    mrd_map_remove(&lines->async_map, lines->asyncs[async].key);
    lines->asyncs[async].next_free = lines->free_async;
    lines->free_async = async;
}

/* ---- The end of the file ---- */

/* Returns true if torch_npu wrote the file. It then has one rank and one device, but several pids
 * for the device. */
static bool
te_is_ascend(const te_lines *lines)
{
    size_t n = 0;

    for (size_t i = 0; i < lines->n_procs; i++)
        n += mrd_str_is(mrd_catalog_text(lines->imp->catalog, lines->procs[i].name),
                        "Ascend Hardware");
    return n == 1;
}

/* Returns true if the label or name of a pid, or a word in its place, is the name of a device.
 * Stores the device's number in *ret_number. */
static bool
te_proc_is_device(const te_lines *lines, const te_proc *proc, bool is_ascend, int64_t *ret_number)
{
    const mrd_catalog *cat = lines->imp->catalog;
    mrd_str name = mrd_catalog_text(cat, proc->name);

    /* this pid of torch_npu only summarises the device's lines */
    if (mrd_str_is(name, "Overlap Analysis"))
        return false;
    if (mrd_str_is(name, "Ascend Hardware") ||
        (is_ascend && (mrd_str_is(name, "HCCL") || mrd_str_is(name, "Communication"))) ||
        mrd_str_is(mrd_catalog_text(cat, proc->labels), "NPU")) {
        /* a trace of torch_npu has only one device, and no number for it */
        *ret_number = 0;
        return true;
    }
    if (proc->labels != MRD_SID_EMPTY)
        return mrd_activity_is_device(mrd_catalog_text(cat, proc->labels), ret_number);
    if (proc->name != MRD_SID_EMPTY && mrd_activity_is_device(name, ret_number))
        return true;
    return proc->pid.is_word &&
           mrd_activity_is_device(mrd_catalog_text(cat, proc->pid.word), ret_number);
}

/* Properties of a pid, from its label and its lines. */
typedef struct {
    bool is_device, has_host, has_device, has_streams;
    int64_t number; /* number of the device, or MRD_NONE */
} te_kind;

static te_kind *
te_kinds(const te_lines *lines)
{
    te_kind *kinds = calloc(lines->n_procs + 1, sizeof(*kinds));
    bool is_ascend = te_is_ascend(lines);

    if (kinds == NULL)
        return NULL;
    for (size_t i = 0; i < lines->n_procs; i++) {
        kinds[i].number = MRD_NONE;
        kinds[i].is_device =
            te_proc_is_device(lines, &lines->procs[i], is_ascend, &kinds[i].number);
    }
    for (size_t i = 0; i < lines->n_lines; i++) {
        const te_line *line = &lines->lines[i];
        te_kind *kind = &kinds[line->proc];

        kind->has_host = kind->has_host || line->any_host;
        kind->has_device = kind->has_device || line->any_device;
        if (line->kind == TE_THREAD && line->has_track)
            kind->has_streams =
                kind->has_streams ||
                mrd_str_starts(mrd_catalog_text(lines->imp->catalog, line->name), "Stream");
    }
    return kinds;
}

/* Returns the number of the device on which a line's spans ran; MRD_NONE if the line belongs to no
 * device. */
static int64_t
te_line_device(const te_lines *lines, const te_line *line, const te_kind *kind)
{
    const te_proc *proc = &lines->procs[line->proc];
    mrd_str name = mrd_catalog_text(lines->imp->catalog, line->name);
    int64_t number = kind->number;

    if (number == MRD_NONE && !proc->pid.is_word && proc->pid.number >= 0)
        number = proc->pid.number;
    if (line->kind != TE_THREAD)
        return MRD_NONE;
    if (line->any_device)
        return line->device != MRD_NONE ? line->device : number;
    if (line->any_host || !kind->is_device || mrd_activity_is_overlay(name))
        return MRD_NONE;
    /* besides streams, XLA writes lines derived from them, which repeat their work */
    return kind->has_streams && !mrd_str_starts(name, "Stream") ? MRD_NONE : number;
}

/* Chooses the pid that becomes the file's process. It prefers, in this order, a pid with the label
 * "CPU", one with host spans, one that is no device, and a number instead of a word. If that does
 * not decide, the pid with the most events wins. */
static uint32_t
te_main_proc(const te_lines *lines, const te_kind *kinds)
{
    mrd_sid cpu = mrd_strtab_find(mrd_catalog_strings(lines->imp->catalog), MRD_STR("CPU"));
    uint32_t best = 0;
    int best_rank = -1;

    for (uint32_t i = 0; i < lines->n_procs; i++) {
        const te_proc *proc = &lines->procs[i];
        int rank = proc->events == 0 ? 0 : proc->pid.is_word ? 2 : 3;

        if (rank > 0 && (kinds[i].is_device || (kinds[i].has_device && !kinds[i].has_host)))
            rank = 1;
        if (rank == 3 && kinds[i].has_host && !kinds[i].has_device)
            rank = 4;
        if (rank > 0 && cpu != MRD_SID_EMPTY && proc->labels == cpu)
            rank = 5;
        if (rank > best_rank || (rank == best_rank && proc->events > lines->procs[best].events)) {
            best = i;
            best_rank = rank;
        }
    }
    return best;
}

static mrd_sid
te_id_text(const te_lines *lines, te_id id)
{
    char text[32];

    if (id.is_word)
        return id.word;
    snprintf(text, sizeof(text), "%lld", (long long) id.number);
    return mrd_catalog_intern(lines->imp->catalog, text);
}

/* Joins two words with a blank. If one is empty, returns the other. */
static mrd_sid
te_words(te_lines *lines, mrd_sid a, mrd_sid b)
{
    mrd_buf buf = { 0 };
    mrd_sid sid;

    if (a == MRD_SID_EMPTY || b == MRD_SID_EMPTY)
        return a == MRD_SID_EMPTY ? b : a;
    mrd_buf_str(&buf, mrd_catalog_text(lines->imp->catalog, a));
    mrd_buf_byte(&buf, ' ');
    mrd_buf_str(&buf, mrd_catalog_text(lines->imp->catalog, b));
    lines->err = buf.err != MRD_OK ? buf.err : lines->err;
    sid = mrd_strtab_add(mrd_catalog_strings(lines->imp->catalog),
                         (mrd_str){ (const char *) buf.p, buf.err != MRD_OK ? 0 : buf.len });
    mrd_buf_fini(&buf);
    return sid;
}

static void
te_fill_process(const te_lines *lines, mrd_process *process, const te_facts *facts)
{
    const mrd_identity *place = &lines->imp->identity;

    if (place->instance_id == MRD_SID_EMPTY && facts->host != MRD_SID_EMPTY && process->scope != 0)
        process->instance_id = facts->host;
    if (process->rank == MRD_NONE)
        process->rank = place->rank != MRD_NONE ? place->rank : facts->rank;
    if (process->world_size == MRD_NONE)
        process->world_size = facts->world_size;
    if (facts->groups > 1)
        process->flags |= MRD_PROC_GROUPS;
}

/* Returns a prefix such as "GPU 0", "Spans" or "pid 7" for the track names of a pid that is not the
 * file's main process. */
static mrd_sid
te_proc_prefix(te_lines *lines, const te_proc *proc)
{
    if (proc->labels != MRD_SID_EMPTY)
        return proc->labels;
    if (proc->pid.is_word)
        return proc->pid.word;
    if (proc->name != MRD_SID_EMPTY)
        return proc->name;
    return te_words(lines, mrd_catalog_intern(lines->imp->catalog, "pid"),
                    te_id_text(lines, proc->pid));
}

typedef struct {
    int64_t proc_sort, line_sort;
    uint32_t line;
} te_order;

static int
te_order_cmp(const void *a, const void *b)
{
    const te_order *x = a, *y = b;

    if (x->proc_sort != y->proc_sort)
        return x->proc_sort < y->proc_sort ? -1 : 1;
    if (x->line_sort != y->line_sort)
        return x->line_sort < y->line_sort ? -1 : 1;
    return x->line < y->line ? -1 : x->line > y->line;
}

/* Sorts the lines of a file that becomes one process. The file's own order has priority. Otherwise
 * the main pid comes first, and lines of a pid are ordered by tid. */
static mrd_err
te_sort_lines(te_lines *lines, uint32_t main)
{
    te_order *order = malloc((lines->n_lines + 1) * sizeof(*order));

    if (order == NULL)
        return MRD_NOMEM;
    for (uint32_t i = 0; i < lines->n_lines; i++) {
        const te_line *line = &lines->lines[i];
        const te_proc *proc = &lines->procs[line->proc];
        int64_t unsorted = proc->pid.is_word ? INT64_MAX : INT64_MAX - 1;

        order[i] = (te_order){ line->proc == main             ? INT64_MIN
                               : proc->sort_index != MRD_NONE ? proc->sort_index
                                                              : unsorted,
                               line->sort_index != MRD_NONE ? line->sort_index
                               : line->kind != TE_THREAD    ? INT64_MAX
                               : line->tid.is_word          ? INT64_MAX - 1
                                                            : line->tid.number,
                               i };
    }
    qsort(order, lines->n_lines, sizeof(*order), te_order_cmp);
    for (uint32_t i = 0; i < lines->n_lines; i++)
        lines->lines[order[i].line].sort_index = i;
    free(order);
    return MRD_OK;
}

static void
te_finish_line(te_lines *lines, const te_line *line, mrd_proc_id process, bool foreign,
               const te_kind *kinds)
{
    mrd_track *track;
    mrd_sid name = line->name;

    if (!line->has_track || line->is_placed)
        return;
    track = mrd_catalog_borrow_track(lines->imp->catalog, line->track);
    track->process = process;
    track->pcore_idx = MRD_NONE;
    track->sort_index = line->sort_index;
    if (line->kind == TE_THREAD) {
        track->thread_id = line->tid.is_word ? MRD_NONE : line->tid.number;
        if (name == MRD_SID_EMPTY && (line->tid.is_word || foreign))
            name = te_id_text(lines, line->tid);
    }
    if (foreign) {
        const te_id *pid = &lines->procs[line->proc].pid;

        track->source_pid = pid->is_word ? MRD_NONE - 1 - (int64_t) pid->word : pid->number;
        name = te_words(lines, te_proc_prefix(lines, &lines->procs[line->proc]), name);
    }
    track->device_idx = te_line_device(lines, line, &kinds[line->proc]);
    track->name = name;
}

static mrd_err
te_finish_folded(te_lines *lines, const te_facts *facts, const te_kind *kinds)
{
    uint32_t main = te_main_proc(lines, kinds);
    mrd_process *process = mrd_catalog_borrow_process(lines->imp->catalog, lines->process);

    te_fill_process(lines, process, facts);
    if (lines->n_procs > 0) {
        const te_proc *own = &lines->procs[main];

        if (lines->imp->identity.process_id == MRD_NONE) {
            process->process_id = own->pid.is_word ? 0 : own->pid.number;
            process->flags |= own->pid.is_word ? MRD_PROC_NO_PID : 0;
        } else if (!own->pid.is_word && own->pid.number != process->process_id) {
            process->container_pid = own->pid.number;
        }
        if (process->name == MRD_SID_EMPTY)
            process->name = own->name != MRD_SID_EMPTY ? own->name
                            : own->pid.is_word         ? own->pid.word
                                                       : MRD_SID_EMPTY;
        if (process->labels == MRD_SID_EMPTY)
            process->labels = own->labels;
    }
    if (process->sort_index == MRD_NONE)
        process->sort_index = process->rank;
    if (te_sort_lines(lines, main) != MRD_OK)
        return MRD_NOMEM;
    for (size_t i = 0; i < lines->n_lines; i++)
        te_finish_line(lines, &lines->lines[i], lines->process, lines->lines[i].proc != main,
                       kinds);
    return MRD_OK;
}

/* Returns a number for a process that has a word as its pid. No pid of the file has this number. */
static int64_t
te_made_up_pid(const te_lines *lines, uint32_t i)
{
    int64_t pid = 1000000000 + (int64_t) i;
    mrd_map_key key = { 0, (uint64_t) pid, 0 };

    while (mrd_map_get(&lines->proc_map, key) != MRD_MAP_NONE)
        key.b = (uint64_t) ++pid;
    return pid;
}

/* Stores the rank of each process: a number in its name, else the rank that its lines state. */
static void
te_ranks(const te_lines *lines, int64_t *ret_ranks)
{
    for (size_t i = 0; i < lines->n_procs; i++)
        ret_ranks[i] = MRD_NONE;
    for (size_t i = 0; i < lines->n_lines; i++) {
        int64_t *rank = &ret_ranks[lines->lines[i].proc];

        *rank = te_common_rank(*rank, lines->lines[i].rank);
    }
    for (size_t i = 0; i < lines->n_procs; i++) {
        const te_proc *proc = &lines->procs[i];
        mrd_sid name =
            proc->name == MRD_SID_EMPTY && proc->pid.is_word ? proc->pid.word : proc->name;
        int64_t named = mrd_number_after(mrd_catalog_text(lines->imp->catalog, name), "rank");

        ret_ranks[i] = named != MRD_NONE ? named : ret_ranks[i];
    }
}

/* Puts the rank of a line before the name of its track, unless the name already contains a rank. */
static void
te_name_rank(te_lines *lines, te_line *line)
{
    char text[32];

    if (line->rank < 0 ||
        mrd_number_after(mrd_catalog_text(lines->imp->catalog, line->name), "rank") != MRD_NONE)
        return;
    snprintf(text, sizeof(text), "rank %lld", (long long) line->rank);
    line->name = te_words(lines, mrd_catalog_intern(lines->imp->catalog, text), line->name);
}

static mrd_err
te_finish_apart(te_lines *lines, const te_facts *facts, const te_kind *kinds)
{
    mrd_catalog *cat = lines->imp->catalog;
    mrd_proc_id *ids = malloc((lines->n_procs + 1) * sizeof(*ids));
    int64_t *ranks = malloc((lines->n_procs + 1) * sizeof(*ranks));
    bool first = true;

    if (ids == NULL || ranks == NULL) {
        free(ids);
        free(ranks);
        return MRD_NOMEM;
    }
    te_ranks(lines, ranks);
    for (uint32_t i = 0; i < lines->n_procs; i++) {
        const te_proc *own = &lines->procs[i];
        mrd_process *borrowed = mrd_catalog_borrow_process(cat, lines->process),
                    process = *borrowed;

        ids[i] = lines->process;
        if (own->events == 0)
            continue;
        process.process_id = own->pid.is_word ? te_made_up_pid(lines, i) : own->pid.number;
        process.flags = own->pid.is_word ? MRD_PROC_NO_PID : 0;
        process.name = own->name != MRD_SID_EMPTY || !own->pid.is_word ? own->name : own->pid.word;
        process.labels = own->labels;
        process.sort_index = own->sort_index;
        process.rank = ranks[i] != TE_RANKS ? ranks[i] : MRD_NONE;
        te_fill_process(lines, &process, facts);
        if (first)
            *borrowed = process;
        else
            ids[i] = mrd_catalog_process(cat, &process);
        first = false;
    }
    for (size_t i = 0; i < lines->n_lines; i++) {
        if (ranks[lines->lines[i].proc] == TE_RANKS)
            te_name_rank(lines, &lines->lines[i]);
        te_finish_line(lines, &lines->lines[i], ids[lines->lines[i].proc], false, kinds);
    }
    free(ids);
    free(ranks);
    return MRD_OK;
}

mrd_err
mrd_te_lines_finish(te_lines *lines, const te_facts *facts)
{
    const mrd_identity *place = &lines->imp->identity;
    te_kind *kinds;
    mrd_err err;

    if (lines->process == TE_NONE)
        return MRD_OK; /* a file without events has no process */
    for (size_t i = 0; i < lines->n_lines; i++)
        if (!lines->lines[i].is_placed)
            lines->procs[lines->lines[i].proc].events += lines->lines[i].events;
    if ((kinds = te_kinds(lines)) == NULL)
        return MRD_NOMEM;
    if (facts->kineto || te_is_ascend(lines) || facts->rank != MRD_NONE ||
        place->rank != MRD_NONE || place->process_id != MRD_NONE)
        err = te_finish_folded(lines, facts, kinds);
    else
        err = te_finish_apart(lines, facts, kinds);
    free(kinds);
    return err != MRD_OK ? err : lines->err;
}
