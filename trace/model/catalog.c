#include "trace/model/catalog.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/index.h"
#include "base/num.h"
#include "base/obj.h"
#include "base/vec.h"
#include "trace/model/comm_group.h"

/* A growing array. Its elements all have the same struct type. */
typedef struct {
    void *v;
    size_t n, cap;
} cat_list;

typedef struct {
    mrd_sid key, value;
} cat_fact;

struct mrd_catalog {
    mrd_strtab *strings;
    cat_list processes, tracks, devprofiles, captures, artifacts, groups, inputs, clocks, facts,
        notes;
    mrd_index process_index, track_index;
    size_t processes_max, tracks_max; /* 0 means no limit */
    /* Index of the substitute for all processes (or tracks) beyond the limit. UINT32_MAX if it does
     * not exist yet. */
    uint32_t full_process, full_track;
    /* returned instead of an element if memory ran out before the first one was added */
    mrd_process *no_process;
    mrd_track *no_track;
    mrd_err err;
};

static void *
list_at(const cat_list *list, size_t i, size_t size)
{
    return (char *) list->v + i * size;
}

/* Appends a zeroed element. Returns NULL if out of memory. */
static void *
list_add(mrd_catalog *cat, cat_list *list, size_t size)
{
    void *item, *v = list->v;

    if (list->n == list->cap &&
        (v = mrd_vec_grow(v, size, list->n, &list->cap, 1, UINT32_MAX)) == NULL) {
        cat->err = MRD_NOMEM;
        return NULL;
    }
    list->v = v;
    item = list_at(list, list->n++, size);
    memset(item, 0, size);
    return item;
}

mrd_catalog *
mrd_catalog_new(void)
{
    mrd_catalog *cat = calloc(1, sizeof(*cat));
    mrd_clock_info unaligned = { .estimate_ns = 0, .bound_ns = -1, .noise_ns = -1, .epochs = 0 };
    mrd_devprofile system = { .process_id = MRD_NONE, .nc_idx = MRD_NONE, .session = MRD_NONE };

    if (cat == NULL)
        return NULL;
    cat->full_process = cat->full_track = UINT32_MAX;
    cat->strings = mrd_strtab_new(0);
    cat->no_process = malloc(sizeof(*cat->no_process));
    cat->no_track = malloc(sizeof(*cat->no_track));
    if (cat->strings == NULL || cat->no_process == NULL || cat->no_track == NULL) {
        mrd_catalog_free(cat);
        return NULL;
    }
    mrd_process_init(cat->no_process);
    mrd_track_init(cat->no_track, 0, MRD_SRC_MERIDIAN);
    unaligned.name = unaligned.quality = mrd_catalog_intern(cat, "unaligned");
    unaligned.method = mrd_catalog_intern(cat, "none");
    mrd_catalog_add_clock(cat, &unaligned);
    system.name = mrd_catalog_intern(cat, "system");
    mrd_catalog_add_devprofile(cat, &system);
    return cat;
}

void
mrd_catalog_free(mrd_catalog *cat)
{
    if (cat == NULL)
        return;
    free(cat->no_process);
    free(cat->no_track);
    free(cat->processes.v);
    free(cat->tracks.v);
    free(cat->devprofiles.v);
    free(cat->captures.v);
    free(cat->artifacts.v);
    free(cat->groups.v);
    free(cat->inputs.v);
    free(cat->clocks.v);
    free(cat->facts.v);
    free(cat->notes.v);
    mrd_index_fini(&cat->process_index);
    mrd_index_fini(&cat->track_index);
    mrd_strtab_free(cat->strings);
    free(cat);
}

size_t
mrd_catalog_memory(const mrd_catalog *cat)
{
    return sizeof(*cat) + mrd_strtab_memory(cat->strings) +
           cat->processes.cap * sizeof(mrd_process) + cat->tracks.cap * sizeof(mrd_track) +
           cat->devprofiles.cap * sizeof(mrd_devprofile) +
           cat->captures.cap * sizeof(mrd_device_capture) +
           cat->artifacts.cap * sizeof(mrd_artifact) + cat->groups.cap * sizeof(mrd_comm_group) +
           cat->inputs.cap * sizeof(mrd_input) + cat->clocks.cap * sizeof(mrd_clock_info) +
           cat->facts.cap * sizeof(cat_fact) + cat->notes.cap * sizeof(mrd_sid);
}

mrd_strtab *
mrd_catalog_strings(const mrd_catalog *cat)
{
    return cat->strings;
}

const char *
mrd_source_text(mrd_source_kind source)
{
    static const char *const names[] = { "neuron_rt",      "neuron_hw",      "framework",
                                         "nrt_api",        "annotation",     "host",
                                         "device_counter", "device_profile", "meridian" };

    return (size_t) source < MRD_COUNT(names) ? names[source] : "unknown";
}

const char *
mrd_source_vendor_text(mrd_source_kind source)
{
    return mrd_source_text(source <= MRD_SRC_FRAMEWORK ? source : MRD_SRC_FRAMEWORK);
}

void
mrd_process_init(mrd_process *process)
{
    *process = (mrd_process){ .container_pid = MRD_NONE,
                              .rank = MRD_NONE,
                              .world_size = MRD_NONE,
                              .worker_gid = MRD_NONE,
                              .sort_index = MRD_NONE };
}

void
mrd_track_init(mrd_track *track, mrd_proc_id process, mrd_source_kind source)
{
    *track = (mrd_track){ .process = process,
                          .source = source,
                          .lnc_idx = MRD_NONE,
                          .pcore_idx = MRD_NONE,
                          .device_idx = MRD_NONE,
                          .thread_id = MRD_NONE,
                          .sort_index = MRD_NONE,
                          .worker_gid = MRD_NONE,
                          .source_pid = MRD_NONE };
}

static uint64_t
process_hash(const void *item)
{
    const mrd_process *process = item;
    int64_t key[4] = { process->instance_id, process->process_id, process->scope,
                       process->profile };

    return mrd_hash64(key, sizeof(key), mrd_hash_seed());
}

static bool
process_same(const void *a, const void *b)
{
    const mrd_process *p = a, *q = b;

    return p->instance_id == q->instance_id && p->process_id == q->process_id &&
           p->scope == q->scope && p->profile == q->profile;
}

static uint64_t
track_hash(const void *item)
{
    const mrd_track *track = item;
    int64_t key[8] = { track->process,   track->source,     track->kind,      track->lnc_idx,
                       track->pcore_idx, track->device_idx, track->thread_id, track->name };

    return mrd_hash64(key, sizeof(key), mrd_hash_seed());
}

static bool
track_same(const void *a, const void *b)
{
    const mrd_track *t = a, *u = b;

    return t->process == u->process && t->source == u->source && t->kind == u->kind &&
           t->lnc_idx == u->lnc_idx && t->pcore_idx == u->pcore_idx &&
           t->device_idx == u->device_idx && t->thread_id == u->thread_id && t->name == u->name;
}

typedef struct {
    size_t size;
    uint64_t (*hash)(const void *item);
    bool (*same)(const void *a, const void *b);
} cat_kind;

static const cat_kind process_kind = { sizeof(mrd_process), process_hash, process_same };
static const cat_kind track_kind = { sizeof(mrd_track), track_hash, track_same };

typedef struct {
    const cat_list *list;
    const cat_kind *kind;
} cat_items;

static bool
item_same(const void *self, uint32_t item, const void *key)
{
    const cat_items *in = self;

    return in->kind->same(list_at(in->list, item, in->kind->size), key);
}

/* Finds or adds an element with the identity of `item`, and returns its index. *ret_new: it was
 * added. Returns MRD_INDEX_NONE if there are `max` elements already (0: no limit). Returns 0 if out
 * of memory, which is stored in cat->err. */
static uint32_t
index_put(mrd_catalog *cat, mrd_index *index, cat_list *list, const cat_kind *kind, size_t max,
          const void *item, bool *ret_new)
{
    const cat_items in = { list, kind };
    uint64_t hash = kind->hash(item);
    uint32_t id = mrd_index_find(index, hash, item_same, &in, item);
    void *copy;

    *ret_new = false;
    if (id != MRD_INDEX_NONE)
        return id;
    if (max > 0 && list->n >= max)
        return MRD_INDEX_NONE;
    id = (uint32_t) list->n;
    if ((copy = list_add(cat, list, kind->size)) == NULL)
        return 0;
    if (mrd_index_add(index, hash, id) != MRD_OK) {
        list->n--;
        cat->err = MRD_NOMEM;
        return 0;
    }
    memcpy(copy, item, kind->size);
    *ret_new = true;
    return id;
}

#define FILL(have, got, none)                                                                      \
    do {                                                                                           \
        if ((have) == (none))                                                                      \
            (have) = (got);                                                                        \
    } while (0)

/* Returns the process that replaces all processes beyond the limit. full_track() returns such a
 * track. */
static uint32_t
full_process(mrd_catalog *cat)
{
    mrd_process process;
    bool added;

    if (cat->full_process != UINT32_MAX)
        return cat->full_process;
    mrd_process_init(&process);
    process.instance_id = mrd_catalog_intern(cat, "(too many processes)");
    process.scope = UINT32_MAX;
    cat->full_process =
        index_put(cat, &cat->process_index, &cat->processes, &process_kind, 0, &process, &added);
    return cat->full_process;
}

static uint32_t
full_track(mrd_catalog *cat)
{
    mrd_track track;
    bool added;

    if (cat->full_track != UINT32_MAX)
        return cat->full_track;
    mrd_track_init(&track, full_process(cat), MRD_SRC_MERIDIAN);
    cat->full_track =
        index_put(cat, &cat->track_index, &cat->tracks, &track_kind, 0, &track, &added);
    return cat->full_track;
}

static size_t
most(size_t have, size_t n)
{
    return n == MRD_CATALOG_ANY ? 0 : MRD_CATALOG_MOST - 1 - n < have ? MRD_CATALOG_MOST : have + n;
}

void
mrd_catalog_allow(mrd_catalog *cat, size_t n)
{
    cat->processes_max = most(cat->processes.n, n);
    cat->tracks_max = most(cat->tracks.n, n);
}

bool
mrd_catalog_is_full(const mrd_catalog *cat, mrd_track_id id)
{
    return id == cat->full_track && id != UINT32_MAX;
}

/* Sets the worker of a process. If its cores belong to different workers, it gets MRD_NONE. */
static void
set_worker(mrd_process *process, int64_t worker_gid)
{
    if (process->worker_gid == MRD_NONE)
        process->worker_gid = worker_gid;
    else if (worker_gid != MRD_NONE && worker_gid != process->worker_gid)
        process->flags |= MRD_PROC_WORKERS;
    if ((process->flags & MRD_PROC_WORKERS) != 0)
        process->worker_gid = MRD_NONE;
}

mrd_proc_id
mrd_catalog_process(mrd_catalog *cat, const mrd_process *process)
{
    bool added;
    mrd_process key = *process, *have;
    uint32_t id;

    if (key.instance_id == MRD_SID_EMPTY)
        key.instance_id = mrd_catalog_intern(cat, "unknown");
    id = index_put(cat, &cat->process_index, &cat->processes, &process_kind, cat->processes_max,
                   &key, &added);
    if (id == MRD_INDEX_NONE)
        return full_process(cat);
    if (added || cat->processes.n == 0)
        return id;
    have = mrd_catalog_borrow_process(cat, id);
    FILL(have->container_pid, process->container_pid, MRD_NONE);
    FILL(have->name, process->name, MRD_SID_EMPTY);
    FILL(have->job, process->job, MRD_SID_EMPTY);
    FILL(have->pod, process->pod, MRD_SID_EMPTY);
    /* A process gets further labels when it opens a runtime, so the longer text is newer. */
    if (mrd_catalog_text(cat, process->labels).len > mrd_catalog_text(cat, have->labels).len)
        have->labels = process->labels;
    FILL(have->rank, process->rank, MRD_NONE);
    FILL(have->world_size, process->world_size, MRD_NONE);
    FILL(have->sort_index, process->sort_index, MRD_NONE);
    FILL(have->clock, process->clock, 0);
    have->flags |= process->flags;
    set_worker(have, process->worker_gid);
    return id;
}

mrd_track_id
mrd_catalog_track(mrd_catalog *cat, const mrd_track *track)
{
    bool added;
    uint32_t id = cat->full_process != UINT32_MAX && track->process == cat->full_process
                      ? MRD_INDEX_NONE
                      : index_put(cat, &cat->track_index, &cat->tracks, &track_kind,
                                  cat->tracks_max, track, &added);
    mrd_track *have;

    if (id == MRD_INDEX_NONE)
        return full_track(cat);
    if (track->worker_gid != MRD_NONE)
        set_worker(mrd_catalog_borrow_process(cat, track->process), track->worker_gid);
    if (added || cat->tracks.n == 0)
        return id;
    have = mrd_catalog_borrow_track(cat, id);
    FILL(have->unit, track->unit, MRD_UNIT_NONE);
    FILL(have->unit_name, track->unit_name, MRD_SID_EMPTY);
    FILL(have->sort_index, track->sort_index, MRD_NONE);
    FILL(have->worker_gid, track->worker_gid, MRD_NONE);
    return id;
}

mrd_process *
mrd_catalog_borrow_process(const mrd_catalog *cat, mrd_proc_id id)
{
    if (cat->processes.n == 0 && cat->err != MRD_OK)
        return cat->no_process;
    MRD_ASSERT(id < cat->processes.n);
    return list_at(&cat->processes, id, sizeof(mrd_process));
}

mrd_track *
mrd_catalog_borrow_track(const mrd_catalog *cat, mrd_track_id id)
{
    if (cat->tracks.n == 0 && cat->err != MRD_OK)
        return cat->no_track;
    MRD_ASSERT(id < cat->tracks.n);
    return list_at(&cat->tracks, id, sizeof(mrd_track));
}

int64_t
mrd_catalog_call_core(const mrd_catalog *cat, const mrd_event *ev)
{
    for (uint32_t i = 0; i < ev->arg_count; i++) {
        const mrd_arg *arg = &ev->args[i];

        if (mrd_arg_is_int(arg) && mrd_str_is(mrd_catalog_text(cat, arg->key), "lnc_idx"))
            return arg->v.i < 0 ? MRD_NONE : arg->v.i;
    }
    return MRD_NONE;
}

size_t
mrd_catalog_processes(const mrd_catalog *cat)
{
    return cat->processes.n;
}

int
mrd_catalog_process_order(const mrd_catalog *cat, mrd_proc_id a, mrd_proc_id b)
{
    const mrd_process *p = mrd_catalog_borrow_process(cat, a),
                      *q = mrd_catalog_borrow_process(cat, b);
    int order = p->instance_id == q->instance_id ? 0
                                                 : strcmp(mrd_catalog_text(cat, p->instance_id).p,
                                                          mrd_catalog_text(cat, q->instance_id).p);

    /* the mask turns -1 (unknown) into the largest number, which sorts last */
    if (order == 0)
        order = mrd_i64_order(p->rank & INT64_MAX, q->rank & INT64_MAX);
    if (order == 0)
        order = mrd_i64_order(p->process_id, q->process_id);
    return order != 0 ? order : mrd_i64_order(a, b);
}

size_t
mrd_catalog_tracks(const mrd_catalog *cat)
{
    return cat->tracks.n;
}

uint32_t
mrd_catalog_profile_of(const mrd_catalog *cat, mrd_track_id id)
{
    return mrd_catalog_borrow_process(cat, mrd_catalog_borrow_track(cat, id)->process)->profile;
}

/* Appends a copy of the element. Returns its index; 0 after a failure. */
static uint32_t
list_put(mrd_catalog *cat, cat_list *list, const void *item, size_t size)
{
    void *copy = list_add(cat, list, size);

    if (copy == NULL)
        return 0;
    memcpy(copy, item, size);
    return (uint32_t) list->n - 1;
}

uint32_t
mrd_catalog_add_devprofile(mrd_catalog *cat, const mrd_devprofile *devprofile)
{
    return list_put(cat, &cat->devprofiles, devprofile, sizeof(*devprofile));
}

uint32_t
mrd_catalog_add_capture(mrd_catalog *cat, const mrd_device_capture *capture)
{
    return list_put(cat, &cat->captures, capture, sizeof(*capture));
}

void
mrd_catalog_add_group(mrd_catalog *cat, const mrd_comm_group *group)
{
    list_put(cat, &cat->groups, group, sizeof(*group));
}

/* Returns the session's number in a name, such as 1 in "profile_nc_3_session_1". MRD_NONE if there
 * is none. */
static int64_t
session_in(mrd_str name)
{
    static const char word[] = "_session_";
    const char *at = memmem(name.p, name.len, word, sizeof(word) - 1);
    const char *from = at == NULL ? NULL : at + sizeof(word) - 1, *end = from;
    int64_t number;

    while (end != NULL && end < name.p + name.len && *end >= '0' && *end <= '9')
        end++;
    return end != from && mrd_num_i64((mrd_str){ from, (size_t) (end - from) }, &number) == MRD_OK
               ? number
               : MRD_NONE;
}

static mrd_str
last_part(mrd_str path)
{
    const char *slash = memrchr(path.p, '/', path.len);

    return slash == NULL ? path : (mrd_str){ slash + 1, path.len - (size_t) (slash + 1 - path.p) };
}

/* Returns the index of an artifact with the same content, name and identity. UINT32_MAX if there is
 * none. A file can be found twice: in a directory with a capture, and in the list of files of an
 * earlier result. */
static uint32_t
find_artifact(const mrd_catalog *cat, const mrd_artifact *artifact)
{
    size_t n;
    const mrd_artifact *have = mrd_catalog_artifacts(cat, &n);
    mrd_str name = last_part(mrd_catalog_text(cat, artifact->path));

    for (size_t i = 0; i < n; i++) {
        if (have[i].size == artifact->size && have[i].kind == artifact->kind &&
            artifact->sha256[0] != '\0' && strcmp(have[i].sha256, artifact->sha256) == 0 &&
            have[i].instance_id == artifact->instance_id &&
            have[i].process_id == artifact->process_id && have[i].nc_idx == artifact->nc_idx &&
            mrd_str_eq(last_part(mrd_catalog_text(cat, have[i].path)), name))
            return (uint32_t) i;
    }
    return UINT32_MAX;
}

uint32_t
mrd_catalog_add_artifact(mrd_catalog *cat, const mrd_artifact *artifact)
{
    static const char ending[] = ".ntff";
    mrd_artifact added = *artifact;
    uint32_t have = find_artifact(cat, artifact);

    if (have != UINT32_MAX)
        return have;
    added.profile = MRD_SID_EMPTY;
    added.session = MRD_NONE;
    if (mrd_str_is(mrd_catalog_text(cat, artifact->kind), "NTFF")) {
        mrd_str name = last_part(mrd_catalog_text(cat, artifact->path));

        if (mrd_str_ends(name, ending))
            name.len -= sizeof(ending) - 1;
        added.session = session_in(name);
        added.profile = mrd_strtab_add(mrd_catalog_strings(cat), name);
    }
    return list_put(cat, &cat->artifacts, &added, sizeof(added));
}

bool
mrd_catalog_is_only_carried(const mrd_catalog *cat, const mrd_artifact *artifact)
{
    return artifact->profile != MRD_SID_EMPTY && artifact->decoded_by == MRD_SID_EMPTY &&
           cat->devprofiles.n <= 1;
}

uint32_t
mrd_catalog_add_input(mrd_catalog *cat, const mrd_input *in)
{
    return list_put(cat, &cat->inputs, in, sizeof(*in));
}

uint32_t
mrd_catalog_add_clock(mrd_catalog *cat, const mrd_clock_info *info)
{
    return list_put(cat, &cat->clocks, info, sizeof(*info));
}

mrd_devprofile *
mrd_catalog_devprofiles(const mrd_catalog *cat, size_t *ret_n)
{
    *ret_n = cat->devprofiles.n;
    return cat->devprofiles.v;
}

mrd_device_capture *
mrd_catalog_captures(const mrd_catalog *cat, size_t *ret_n)
{
    *ret_n = cat->captures.n;
    return cat->captures.v;
}

const mrd_comm_group *
mrd_catalog_groups(const mrd_catalog *cat, size_t *ret_n)
{
    *ret_n = cat->groups.n;
    return cat->groups.v;
}

mrd_artifact *
mrd_catalog_artifacts(const mrd_catalog *cat, size_t *ret_n)
{
    *ret_n = cat->artifacts.n;
    return cat->artifacts.v;
}

mrd_input *
mrd_catalog_inputs(const mrd_catalog *cat, size_t *ret_n)
{
    *ret_n = cat->inputs.n;
    return cat->inputs.v;
}

mrd_clock_info *
mrd_catalog_clocks(const mrd_catalog *cat, size_t *ret_n)
{
    *ret_n = cat->clocks.n;
    return cat->clocks.v;
}

static cat_fact *
fact_find(const mrd_catalog *cat, mrd_sid key)
{
    for (size_t i = 0; i < cat->facts.n; i++) {
        cat_fact *fact = list_at(&cat->facts, i, sizeof(*fact));

        if (fact->key == key)
            return fact;
    }
    return NULL;
}

void
mrd_catalog_set(mrd_catalog *cat, const char *key, const char *value)
{
    mrd_sid sid = mrd_catalog_intern(cat, key);
    cat_fact *fact = fact_find(cat, sid);

    if (fact == NULL && (fact = list_add(cat, &cat->facts, sizeof(*fact))) == NULL)
        return;
    *fact = (cat_fact){ sid, mrd_catalog_intern(cat, value) };
}

const char *
mrd_catalog_get(const mrd_catalog *cat, const char *key)
{
    mrd_sid sid = mrd_strtab_find(cat->strings, mrd_str_of(key));
    const cat_fact *fact = sid == 0 ? NULL : fact_find(cat, sid);

    return fact == NULL ? NULL : mrd_catalog_text(cat, fact->value).p;
}

size_t
mrd_catalog_facts(const mrd_catalog *cat)
{
    return cat->facts.n;
}

void
mrd_catalog_fact(const mrd_catalog *cat, size_t i, mrd_str *ret_key, mrd_str *ret_value)
{
    const cat_fact *fact = list_at(&cat->facts, i, sizeof(*fact));

    *ret_key = mrd_catalog_text(cat, fact->key);
    *ret_value = mrd_catalog_text(cat, fact->value);
}

void
mrd_catalog_note(mrd_catalog *cat, const char *format, ...)
{
    char text[1024];
    va_list args;
    mrd_sid sid, *note;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    sid = mrd_catalog_intern(cat, text);
    for (size_t i = 0; i < cat->notes.n; i++) {
        if (*(mrd_sid *) list_at(&cat->notes, i, sizeof(sid)) == sid)
            return;
    }
    if ((note = list_add(cat, &cat->notes, sizeof(*note))) != NULL)
        *note = sid;
}

size_t
mrd_catalog_notes(const mrd_catalog *cat)
{
    return cat->notes.n;
}

mrd_str
mrd_catalog_note_at(const mrd_catalog *cat, size_t i)
{
    return mrd_catalog_text(cat, *(mrd_sid *) list_at(&cat->notes, i, sizeof(mrd_sid)));
}

mrd_err
mrd_catalog_err(const mrd_catalog *cat)
{
    return cat->err;
}
