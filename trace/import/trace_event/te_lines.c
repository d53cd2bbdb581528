#include "trace/import/trace_event/te_lines.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/vec.h"
#include "trace/import/capture_names.h"

/* Returns a provisional attribute that no other track of the catalog has: negative, with the
 * input's number. */
static int64_t
te_provisional(const te_lines *t, size_t i)
{
    return -2 - (int64_t) (((uint64_t) t->imp->input << 32) + i);
}

void
mrd_te_lines_init(te_lines *t, mrd_import *imp)
{
    *t = (te_lines){ .imp = imp, .free_async = TE_NONE, .process = TE_NONE };
}

/* Returns the provisional process. It is final from the start if the file's location states the
 * process. */
static mrd_proc_id
te_process(te_lines *t)
{
    const mrd_identity *place = &t->imp->identity;
    bool has_instance = place->instance_id != MRD_SID_EMPTY;
    mrd_process p;

    if (t->process != TE_NONE)
        return t->process;
    mrd_process_init(&p);
    p.instance_id =
        has_instance ? place->instance_id : mrd_catalog_intern(t->imp->catalog, "unknown");
    p.process_id = place->process_id != MRD_NONE ? place->process_id : 0;
    p.scope = has_instance && place->process_id != MRD_NONE ? 0 : t->imp->input + 1;
    p.job = place->job;
    t->process = mrd_catalog_process(t->imp->catalog, &p);
    return t->process;
}

void
mrd_te_lines_fini(te_lines *t)
{
    for (size_t i = 0; i < t->n_lines; i++) {
        while (t->lines[i].top != NULL) {
            mrd_open *open = t->lines[i].top;

            t->lines[i].top = open->below;
            mrd_open_free(open);
        }
    }
    for (size_t i = 0; i < t->n_asyncs; i++) {
        while (t->asyncs[i].top != NULL) {
            mrd_open *open = t->asyncs[i].top;

            t->asyncs[i].top = open->below;
            mrd_open_free(open);
        }
    }
    free(t->procs);
    free(t->lines);
    free(t->asyncs);
    free(t->owners);
    mrd_map_fini(&t->owner_map);
    mrd_map_fini(&t->proc_map);
    mrd_map_fini(&t->line_map);
    mrd_map_fini(&t->async_map);
}

mrd_err
mrd_te_proc_of(te_lines *t, te_id pid, uint32_t *ret_i)
{
    mrd_map_key key = { pid.is_word, pid.is_word ? pid.word : (uint64_t) pid.number, 0 };
    uint32_t i = mrd_map_get(&t->proc_map, key);

    if (i == MRD_MAP_NONE) {
        if (t->n_procs >= TE_LINES_MAX)
            return MRD_LIMIT;
        i = (uint32_t) t->n_procs;
        if (!MRD_VEC_ROOM(t->procs, i, t->cap_procs, 1))
            return MRD_NOMEM;
        if (mrd_map_put(&t->proc_map, key, i) != MRD_OK)
            return MRD_NOMEM;
        t->procs[i] = (te_proc){ .pid = pid, .sort_index = MRD_NONE };
        t->n_procs++;
    }
    *ret_i = i;
    return MRD_OK;
}

static mrd_err
te_line_of(te_lines *t, mrd_map_key key, const te_line *like, uint32_t *ret_i)
{
    uint32_t i = mrd_map_get(&t->line_map, key);

    if (i == MRD_MAP_NONE) {
        if (t->n_lines >= TE_LINES_MAX)
            return MRD_LIMIT;
        i = (uint32_t) t->n_lines;
        if (!MRD_VEC_ROOM(t->lines, i, t->cap_lines, 1))
            return MRD_NOMEM;
        if (mrd_map_put(&t->line_map, key, i) != MRD_OK)
            return MRD_NOMEM;
        t->lines[i] = *like;
        t->lines[i].sort_index = t->lines[i].device = t->lines[i].rank = MRD_NONE;
        t->n_lines++;
    }
    *ret_i = i;
    return MRD_OK;
}

mrd_err
mrd_te_line_new(te_lines *t, te_line_kind kind, uint32_t *ret_i)
{
    if (t->n_lines >= TE_LINES_MAX)
        return MRD_LIMIT;
    if (!MRD_VEC_ROOM(t->lines, t->n_lines, t->cap_lines, 1))
        return MRD_NOMEM;
    t->lines[t->n_lines] =
        (te_line){ .kind = kind, .sort_index = MRD_NONE, .device = MRD_NONE, .rank = MRD_NONE };
    *ret_i = (uint32_t) t->n_lines++;
    return MRD_OK;
}

mrd_err
mrd_te_thread_of(te_lines *t, uint32_t proc, te_id tid, uint32_t *ret_i)
{
    te_line like = { .kind = TE_THREAD, .proc = proc, .tid = tid };
    mrd_map_key key = { (uint64_t) proc << 8 | TE_THREAD << 1 | tid.is_word,
                        tid.is_word ? tid.word : (uint64_t) tid.number, 0 };

    return te_line_of(t, key, &like, ret_i);
}

mrd_err
mrd_te_named_line(te_lines *t, te_line_kind kind, uint32_t proc, mrd_sid name, mrd_sid category,
                  uint32_t *ret_i)
{
    te_line like = { .kind = kind, .proc = proc, .name = name };
    mrd_map_key key = { (uint64_t) proc << 8 | (uint64_t) kind << 1, name, category };

    return te_line_of(t, key, &like, ret_i);
}

mrd_err
mrd_te_owner_of(te_lines *t, uint32_t proc, mrd_sid scope, bool global, uint32_t *ret_i)
{
    mrd_map_key key = { (uint64_t) proc << 1 | global, scope, 0 };
    uint32_t i = mrd_map_get(&t->owner_map, key);

    if (i == MRD_MAP_NONE) {
        if (t->n_owners >= TE_LINES_MAX)
            return MRD_LIMIT;
        i = (uint32_t) t->n_owners;
        if (!MRD_VEC_ROOM(t->owners, i, t->cap_owners, 1))
            return MRD_NOMEM;
        if (mrd_map_put(&t->owner_map, key, i) != MRD_OK)
            return MRD_NOMEM;
        t->owners[i] = (te_owner){ .proc = proc, .global = global, .scope = scope };
        t->n_owners++;
    }
    *ret_i = i;
    return MRD_OK;
}

uint64_t
mrd_te_owner_key(const te_lines *t, uint32_t owner)
{
    const te_owner *o = &t->owners[owner];

    return (o->global ? 0 : (uint64_t) o->proc + 1) << 32 | o->scope;
}

mrd_track_id
mrd_te_track(te_lines *t, uint32_t line)
{
    te_line *l = &t->lines[line];
    mrd_track track;

    l->events++;
    if (l->has_track)
        return l->track;
    mrd_track_init(&track, te_process(t), MRD_SRC_FRAMEWORK);
    track.kind = l->kind == TE_COUNTER ? MRD_TRACK_COUNTER : MRD_TRACK_SPANS;
    track.pcore_idx = te_provisional(t, line);
    l->track = mrd_catalog_track(t->imp->catalog, &track);
    l->has_track = true;
    return l->track;
}

void
mrd_te_saw(te_lines *t, uint32_t line, mrd_activity where, int64_t device)
{
    te_line *l = &t->lines[line];

    l->any_host = l->any_host || where == MRD_ACTIVITY_HOST;
    l->any_device = l->any_device || where == MRD_ACTIVITY_DEVICE;
    if (where == MRD_ACTIVITY_DEVICE && l->device == MRD_NONE && device >= 0)
        l->device = device;
}

/* Combines what two spans or lines state about their rank. */
static int64_t
te_common_rank(int64_t a, int64_t b)
{
    return a == MRD_NONE || a == b ? b : b == MRD_NONE ? a : TE_RANKS;
}

void
mrd_te_saw_rank(te_lines *t, uint32_t line, int64_t rank)
{
    t->lines[line].rank = te_common_rank(t->lines[line].rank, rank);
}

uint32_t
mrd_te_async_get(const te_lines *t, mrd_map_key key)
{
    return mrd_map_get(&t->async_map, key);
}

mrd_err
mrd_te_async_open(te_lines *t, mrd_map_key key, uint32_t line, uint32_t *ret_i)
{
    uint32_t i = t->free_async;

    if (i != TE_NONE) {
        t->free_async = t->asyncs[i].next_free;
    } else {
        if (t->n_asyncs >= TE_ASYNCS_MAX)
            return MRD_LIMIT;
        i = (uint32_t) t->n_asyncs;
        if (!MRD_VEC_ROOM(t->asyncs, i, t->cap_asyncs, 1))
            return MRD_NOMEM;
        t->n_asyncs++;
    }
    t->asyncs[i] = (te_async){ .key = key, .line = line, .next_free = TE_NONE };
    if (mrd_map_put(&t->async_map, key, i) != MRD_OK) {
        t->asyncs[i].next_free = t->free_async;
        t->free_async = i;
        return MRD_NOMEM;
    }
    *ret_i = i;
    return MRD_OK;
}

void
mrd_te_async_close(te_lines *t, uint32_t async)
{
    mrd_map_remove(&t->async_map, t->asyncs[async].key);
    t->asyncs[async].next_free = t->free_async;
    t->free_async = async;
}

/* ---- The end of the file ---- */

/* Returns true if the file is one of torch_npu: one rank, with one device that has several pids. */
static bool
te_is_ascend(const te_lines *t)
{
    size_t n = 0;

    for (size_t i = 0; i < t->n_procs; i++)
        n += mrd_str_is(mrd_catalog_text(t->imp->catalog, t->procs[i].name), "Ascend Hardware");
    return n == 1;
}

/* Returns true if the pid is labelled or named as a device. Sets *ret_number to the device's
 * number. */
static bool
te_proc_is_device(const te_lines *t, const te_proc *p, bool is_ascend, int64_t *ret_number)
{
    const mrd_catalog *cat = t->imp->catalog;
    mrd_str name = mrd_catalog_text(cat, p->name);

    /* the summary of the device's lines that torch_npu writes */
    if (mrd_str_is(name, "Overlap Analysis"))
        return false;
    if (mrd_str_is(name, "Ascend Hardware") ||
        (is_ascend && (mrd_str_is(name, "HCCL") || mrd_str_is(name, "Communication"))) ||
        mrd_str_is(mrd_catalog_text(cat, p->labels), "NPU")) {
        *ret_number = 0; /* a trace of torch_npu has one device and does not state its number */
        return true;
    }
    if (p->labels != MRD_SID_EMPTY)
        return mrd_activity_is_device(mrd_catalog_text(cat, p->labels), ret_number);
    if (p->name != MRD_SID_EMPTY && mrd_activity_is_device(name, ret_number))
        return true;
    return p->pid.is_word && mrd_activity_is_device(mrd_catalog_text(cat, p->pid.word), ret_number);
}

/* The kind of each pid, from its label and its lines. */
typedef struct {
    bool is_device, has_host, has_device, has_streams;
    int64_t number; /* of the device, or MRD_NONE */
} te_kind;

static te_kind *
te_kinds(const te_lines *t)
{
    te_kind *kinds = calloc(t->n_procs + 1, sizeof(*kinds));
    bool is_ascend = te_is_ascend(t);

    if (kinds == NULL)
        return NULL;
    for (size_t i = 0; i < t->n_procs; i++) {
        kinds[i].number = MRD_NONE;
        kinds[i].is_device = te_proc_is_device(t, &t->procs[i], is_ascend, &kinds[i].number);
    }
    for (size_t i = 0; i < t->n_lines; i++) {
        const te_line *l = &t->lines[i];
        te_kind *k = &kinds[l->proc];

        k->has_host = k->has_host || l->any_host;
        k->has_device = k->has_device || l->any_device;
        if (l->kind == TE_THREAD && l->has_track)
            k->has_streams = k->has_streams ||
                             mrd_str_starts(mrd_catalog_text(t->imp->catalog, l->name), "Stream");
    }
    return kinds;
}

/* Returns the device of a line, MRD_NONE if it does not belong to a device. */
static int64_t
te_line_device(const te_lines *t, const te_line *l, const te_kind *kind)
{
    const te_proc *p = &t->procs[l->proc];
    mrd_str name = mrd_catalog_text(t->imp->catalog, l->name);
    int64_t number = kind->number;

    if (number == MRD_NONE && !p->pid.is_word && p->pid.number >= 0)
        number = p->pid.number;
    if (l->kind != TE_THREAD)
        return MRD_NONE;
    if (l->any_device)
        return l->device != MRD_NONE ? l->device : number;
    if (l->any_host || !kind->is_device || mrd_activity_is_overlay(name))
        return MRD_NONE;
    /* XLA writes streams, and above them lines that are derived from them. */
    return kind->has_streams && !mrd_str_starts(name, "Stream") ? MRD_NONE : number;
}

/* Returns the pid that is the file's process. Preferred is a pid labelled "CPU", then one with
 * spans of the host, then one that is not a device, then a number over a word. Of equal ones the
 * one with the most events wins. */
static uint32_t
te_main_proc(const te_lines *t, const te_kind *kinds)
{
    mrd_sid cpu = mrd_strtab_find(mrd_catalog_strings(t->imp->catalog), MRD_STR("CPU"));
    uint32_t best = 0;
    int best_rank = -1;

    for (uint32_t i = 0; i < t->n_procs; i++) {
        const te_proc *p = &t->procs[i];
        int rank = p->events == 0 ? 0 : p->pid.is_word ? 2 : 3;

        if (rank > 0 && (kinds[i].is_device || (kinds[i].has_device && !kinds[i].has_host)))
            rank = 1;
        if (rank == 3 && kinds[i].has_host && !kinds[i].has_device)
            rank = 4;
        if (rank > 0 && cpu != MRD_SID_EMPTY && p->labels == cpu)
            rank = 5;
        if (rank > best_rank || (rank == best_rank && p->events > t->procs[best].events)) {
            best = i;
            best_rank = rank;
        }
    }
    return best;
}

static mrd_sid
te_id_text(const te_lines *t, te_id id)
{
    char text[32];

    if (id.is_word)
        return id.word;
    snprintf(text, sizeof(text), "%lld", (long long) id.number);
    return mrd_catalog_intern(t->imp->catalog, text);
}

/* Joins the words by a blank, without empty ones. */
static mrd_sid
te_words(te_lines *t, mrd_sid a, mrd_sid b)
{
    mrd_buf buf = { 0 };
    mrd_sid sid;

    if (a == MRD_SID_EMPTY || b == MRD_SID_EMPTY)
        return a == MRD_SID_EMPTY ? b : a;
    mrd_buf_str(&buf, mrd_catalog_text(t->imp->catalog, a));
    mrd_buf_byte(&buf, ' ');
    mrd_buf_str(&buf, mrd_catalog_text(t->imp->catalog, b));
    t->err = buf.err != MRD_OK ? buf.err : t->err;
    sid = mrd_strtab_add(mrd_catalog_strings(t->imp->catalog),
                         (mrd_str){ (const char *) buf.p, buf.err != MRD_OK ? 0 : buf.len });
    mrd_buf_fini(&buf);
    return sid;
}

static void
te_fill_process(const te_lines *t, mrd_process *p, const te_facts *facts)
{
    const mrd_identity *place = &t->imp->identity;

    if (place->instance_id == MRD_SID_EMPTY && facts->host != MRD_SID_EMPTY && p->scope != 0)
        p->instance_id = facts->host;
    if (p->rank == MRD_NONE)
        p->rank = place->rank != MRD_NONE ? place->rank : facts->rank;
    if (p->world_size == MRD_NONE)
        p->world_size = facts->world_size;
}

/* Returns the prefix for lines of another pid than the main process: "GPU 0", "Spans", "pid 7". */
static mrd_sid
te_proc_prefix(te_lines *t, const te_proc *p)
{
    if (p->labels != MRD_SID_EMPTY)
        return p->labels;
    if (p->pid.is_word)
        return p->pid.word;
    if (p->name != MRD_SID_EMPTY)
        return p->name;
    return te_words(t, mrd_catalog_intern(t->imp->catalog, "pid"), te_id_text(t, p->pid));
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

/* Sorts the lines of a combined process in the order of pids and tids in the source. */
static mrd_err
te_sort_lines(te_lines *t, uint32_t main)
{
    te_order *order = malloc((t->n_lines + 1) * sizeof(*order));

    if (order == NULL)
        return MRD_NOMEM;
    for (uint32_t i = 0; i < t->n_lines; i++) {
        const te_line *l = &t->lines[i];
        const te_proc *p = &t->procs[l->proc];
        int64_t unsorted = p->pid.is_word ? INT64_MAX : INT64_MAX - 1;

        order[i] = (te_order){ l->proc == main             ? INT64_MIN
                               : p->sort_index != MRD_NONE ? p->sort_index
                                                           : unsorted,
                               l->sort_index != MRD_NONE ? l->sort_index
                               : l->kind != TE_THREAD    ? INT64_MAX
                               : l->tid.is_word          ? INT64_MAX - 1
                                                         : l->tid.number,
                               i };
    }
    qsort(order, t->n_lines, sizeof(*order), te_order_cmp);
    for (uint32_t i = 0; i < t->n_lines; i++)
        t->lines[order[i].line].sort_index = i;
    free(order);
    return MRD_OK;
}

static void
te_finish_line(te_lines *t, const te_line *l, mrd_proc_id process, bool foreign,
               const te_kind *kinds)
{
    mrd_track *track;
    mrd_sid name = l->name;

    if (!l->has_track || l->is_placed)
        return;
    track = mrd_catalog_borrow_track(t->imp->catalog, l->track);
    track->process = process;
    track->pcore_idx = MRD_NONE;
    track->sort_index = l->sort_index;
    if (l->kind == TE_THREAD) {
        track->thread_id = l->tid.is_word ? MRD_NONE : l->tid.number;
        if (name == MRD_SID_EMPTY && (l->tid.is_word || foreign))
            name = te_id_text(t, l->tid);
    }
    if (foreign) {
        const te_id *pid = &t->procs[l->proc].pid;

        track->source_pid = pid->is_word ? MRD_NONE - 1 - (int64_t) pid->word : pid->number;
        name = te_words(t, te_proc_prefix(t, &t->procs[l->proc]), name);
    }
    track->device_idx = te_line_device(t, l, &kinds[l->proc]);
    track->name = name;
}

static mrd_err
te_finish_folded(te_lines *t, const te_facts *facts, const te_kind *kinds)
{
    uint32_t main = te_main_proc(t, kinds);
    mrd_process *p = mrd_catalog_borrow_process(t->imp->catalog, t->process);

    te_fill_process(t, p, facts);
    if (t->n_procs > 0) {
        const te_proc *own = &t->procs[main];

        if (t->imp->identity.process_id == MRD_NONE) {
            p->process_id = own->pid.is_word ? 0 : own->pid.number;
            p->flags |= own->pid.is_word ? MRD_PROC_NO_PID : 0;
        } else if (!own->pid.is_word && own->pid.number != p->process_id) {
            p->container_pid = own->pid.number;
        }
        if (p->name == MRD_SID_EMPTY)
            p->name = own->name != MRD_SID_EMPTY ? own->name
                      : own->pid.is_word         ? own->pid.word
                                                 : MRD_SID_EMPTY;
        if (p->labels == MRD_SID_EMPTY)
            p->labels = own->labels;
    }
    if (p->sort_index == MRD_NONE)
        p->sort_index = p->rank;
    if (te_sort_lines(t, main) != MRD_OK)
        return MRD_NOMEM;
    for (size_t i = 0; i < t->n_lines; i++)
        te_finish_line(t, &t->lines[i], t->process, t->lines[i].proc != main, kinds);
    return MRD_OK;
}

/* Returns a number for a process without one that no other pid of the file uses. */
static int64_t
te_made_up_pid(const te_lines *t, uint32_t i)
{
    int64_t pid = 1000000000 + (int64_t) i;
    mrd_map_key key = { 0, (uint64_t) pid, 0 };

    while (mrd_map_get(&t->proc_map, key) != MRD_MAP_NONE)
        key.b = (uint64_t) ++pid;
    return pid;
}

/* Stores in ret_ranks what the names of the processes state about their ranks, else what their
 * lines state. */
static void
te_ranks(const te_lines *t, int64_t *ret_ranks)
{
    for (size_t i = 0; i < t->n_procs; i++)
        ret_ranks[i] = MRD_NONE;
    for (size_t i = 0; i < t->n_lines; i++) {
        int64_t *rank = &ret_ranks[t->lines[i].proc];

        *rank = te_common_rank(*rank, t->lines[i].rank);
    }
    for (size_t i = 0; i < t->n_procs; i++) {
        const te_proc *p = &t->procs[i];
        mrd_sid name = p->name == MRD_SID_EMPTY && p->pid.is_word ? p->pid.word : p->name;
        int64_t named = mrd_number_after(mrd_catalog_text(t->imp->catalog, name), "rank");

        ret_ranks[i] = named != MRD_NONE ? named : ret_ranks[i];
    }
}

/* Adds its rank to the name of a line that has no number of a rank. */
static void
te_name_rank(te_lines *t, te_line *l)
{
    char text[32];

    if (l->rank < 0 ||
        mrd_number_after(mrd_catalog_text(t->imp->catalog, l->name), "rank") != MRD_NONE)
        return;
    snprintf(text, sizeof(text), "rank %lld", (long long) l->rank);
    l->name = te_words(t, mrd_catalog_intern(t->imp->catalog, text), l->name);
}

static mrd_err
te_finish_apart(te_lines *t, const te_facts *facts, const te_kind *kinds)
{
    mrd_catalog *cat = t->imp->catalog;
    mrd_proc_id *ids = malloc((t->n_procs + 1) * sizeof(*ids));
    int64_t *ranks = malloc((t->n_procs + 1) * sizeof(*ranks));
    bool first = true;

    if (ids == NULL || ranks == NULL) {
        free(ids);
        free(ranks);
        return MRD_NOMEM;
    }
    te_ranks(t, ranks);
    for (uint32_t i = 0; i < t->n_procs; i++) {
        const te_proc *own = &t->procs[i];
        mrd_process *borrowed = mrd_catalog_borrow_process(cat, t->process), p = *borrowed;

        ids[i] = t->process;
        if (own->events == 0)
            continue;
        p.process_id = own->pid.is_word ? te_made_up_pid(t, i) : own->pid.number;
        p.flags = own->pid.is_word ? MRD_PROC_NO_PID : 0;
        p.name = own->name != MRD_SID_EMPTY || !own->pid.is_word ? own->name : own->pid.word;
        p.labels = own->labels;
        p.sort_index = own->sort_index;
        p.rank = ranks[i] != TE_RANKS ? ranks[i] : MRD_NONE;
        te_fill_process(t, &p, facts);
        if (first)
            *borrowed = p;
        else
            ids[i] = mrd_catalog_process(cat, &p);
        first = false;
    }
    for (size_t i = 0; i < t->n_lines; i++) {
        if (ranks[t->lines[i].proc] == TE_RANKS)
            te_name_rank(t, &t->lines[i]);
        te_finish_line(t, &t->lines[i], ids[t->lines[i].proc], false, kinds);
    }
    free(ids);
    free(ranks);
    return MRD_OK;
}

mrd_err
mrd_te_lines_finish(te_lines *t, const te_facts *facts)
{
    const mrd_identity *place = &t->imp->identity;
    te_kind *kinds;
    mrd_err err;

    if (t->process == TE_NONE)
        return MRD_OK; /* without events there is no process */
    for (size_t i = 0; i < t->n_lines; i++)
        if (!t->lines[i].is_placed)
            t->procs[t->lines[i].proc].events += t->lines[i].events;
    if ((kinds = te_kinds(t)) == NULL)
        return MRD_NOMEM;
    if (facts->kineto || te_is_ascend(t) || facts->rank != MRD_NONE || place->rank != MRD_NONE ||
        place->process_id != MRD_NONE)
        err = te_finish_folded(t, facts, kinds);
    else
        err = te_finish_apart(t, facts, kinds);
    free(kinds);
    return err != MRD_OK ? err : t->err;
}
