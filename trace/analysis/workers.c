#include "trace/analysis/workers.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/loss_cause.h"
#include "base/num.h"
#include "base/obj.h"
#include "trace/model/arg_keys.h"

/* The class of a span's name. Each name is classified once. */
typedef enum { NAME_UNSEEN, NAME_OTHER, NAME_STEP, NAME_LOADING, NAME_OPERATOR } name_class;

typedef struct {
    uint32_t worker;
    mrd_proc_id process;
    bool mine;   /* the track belongs to this profile */
    bool device; /* the spans on the track come from the device itself */
} track_state;

/* The workers of a process: they have the numbers first to first + n - 1. */
typedef struct {
    uint32_t first, n;
} process_state;

struct mrd_workers {
    const mrd_catalog *cat;
    uint32_t profile;
    track_state *tracks;
    size_t n_tracks;
    mrd_worker *all;
    size_t n_all;
    process_state *processes;
    size_t n_processes;
    uint8_t *classes; /* name_class, indexed by name */
    size_t n_names;
    mrd_collectives *see;
    mrd_device_work *work; /* classifier of device work, borrowed from `see` */
    bool phases;           /* the workers come from program phases */
    bool hosts;            /* the workers are processes with collectives on their host */
    mrd_sid step_num;      /* key of an argument that only steps have; MRD_SID_EMPTY if unused */
    mrd_sid cpu_op;        /* category of operators on the host; MRD_SID_EMPTY if there are none */
    const mrd_kernel_rules *rules;
    /* Number of spans that are no work, indexed by the id of their category or name. NULL if the
     * profile has cores or devices. */
    uint32_t *labels;
    /* Indexed by name or category: a mrd_kernel_class plus 1, or 0 if not classified yet. */
    uint8_t *phase_classes;
};

/* ---- Tracks ---- */

typedef struct {
    mrd_track_id track;
    mrd_worker worker;
} track_of;

/* Sorts by rank first, because users know processes by their rank. */
int
mrd_workers_process_order(const mrd_catalog *cat, mrd_proc_id a, mrd_proc_id b)
{
    int order = mrd_i64_order(mrd_catalog_borrow_process(cat, a)->rank & INT64_MAX,
                              mrd_catalog_borrow_process(cat, b)->rank & INT64_MAX);

    return order != 0 ? order : mrd_catalog_process_order(cat, a, b);
}

/* Returns the text with the ranks from a process's name, for program phases. Empty if the process
 * has a rank of its own. */
static mrd_str
ranks_of_process(const mrd_workers *workers, mrd_proc_id id)
{
    const mrd_process *process = mrd_catalog_borrow_process(workers->cat, id);

    return workers->phases && process->rank == MRD_NONE
               ? mrd_phase_ranks(mrd_catalog_text(workers->cat, process->name))
               : MRD_STR("");
}

static int
worker_order(const mrd_workers *workers, const mrd_worker *a, const mrd_worker *b)
{
    int order = 0;

    if (a->process != b->process) {
        mrd_str str = ranks_of_process(workers, a->process),
                y = ranks_of_process(workers, b->process);

        order = (str.len == 0) - (y.len == 0);
        if (order == 0)
            order = mrd_phase_ranks_order(str, y);
        if (order == 0)
            order = mrd_workers_process_order(workers->cat, a->process, b->process);
    }
    if (order == 0)
        order = mrd_phase_ranks_order(a->ranks, b->ranks);
    if (order == 0)
        order = mrd_i64_order(a->lnc_idx, b->lnc_idx);
    return order != 0 ? order : mrd_i64_order(a->device_idx, b->device_idx);
}

static int
track_order(const void *a, const void *b, void *self)
{
    const track_of *x = a, *y = b;
    int order = worker_order(self, &x->worker, &y->worker);

    return order != 0 ? order : mrd_i64_order(x->track, y->track);
}

/* Stores the worker of a track in *ret. Returns false if the track belongs to no worker. */
static bool
worker_of(const mrd_workers *workers, mrd_track_id id, track_of *ret)
{
    const mrd_track *track = mrd_catalog_borrow_track(workers->cat, id);
    bool by_core = track->lnc_idx != MRD_NONE;
    bool by_device = track->source == MRD_SRC_FRAMEWORK && track->device_idx != MRD_NONE;

    if (mrd_catalog_profile_of(workers->cat, id) != workers->profile ||
        track->kind != MRD_TRACK_SPANS ||
        (!by_core && !by_device &&
         !((workers->phases || workers->hosts) && track->source == MRD_SRC_FRAMEWORK)))
        return false;
    *ret = (track_of){
        .track = id,
        .worker = { .process = track->process,
                    .lnc_idx = track->lnc_idx,
                    .device_idx = by_core ? MRD_NONE : track->device_idx,
                    .ranks = workers->phases
                                 ? mrd_phase_ranks(mrd_catalog_text(workers->cat, track->name))
                                 : MRD_STR(""),
                    .worker_gid = track->worker_gid },
    };
    if (ret->worker.ranks.len == 0 && workers->phases)
        ret->worker.ranks = ranks_of_process(workers, track->process);
    return true;
}

/* In a profile without cores and devices, tests for program phases and for collectives on the host.
 * Allocates the tables of phases. Returns false when out of memory. */
static bool
look_on_host(mrd_workers *workers)
{
    workers->phases = mrd_phase_any(workers->cat, workers->rules);
    workers->hosts = !workers->phases && mrd_collectives_on_host(workers->see);
    if (workers->hosts) {
        workers->cpu_op = mrd_strtab_find(mrd_catalog_strings(workers->cat), MRD_STR("cpu_op"));
        return true;
    }
    workers->labels = calloc(workers->n_names + 1, sizeof(*workers->labels));
    workers->phase_classes = calloc(workers->n_names + 1, sizeof(*workers->phase_classes));
    return workers->labels != NULL && workers->phase_classes != NULL;
}

static bool
workers_make(mrd_workers *workers)
{
    size_t count = mrd_catalog_tracks(workers->cat), kept = 0;
    track_of *order = malloc((count + 1) * sizeof(*order));

    workers->n_tracks = count;
    workers->tracks = calloc(count + 1, sizeof(*workers->tracks));
    workers->all = calloc(count + 1, sizeof(*workers->all));
    workers->n_processes = mrd_catalog_processes(workers->cat);
    workers->processes = calloc(workers->n_processes + 1, sizeof(*workers->processes));
    if (order == NULL || workers->tracks == NULL || workers->all == NULL ||
        workers->processes == NULL) {
        free(order);
        return false;
    }
    for (mrd_track_id id = 0; id < count; id++) {
        workers->tracks[id] =
            (track_state){ .worker = MRD_NO_WORKER,
                           .process = mrd_catalog_borrow_track(workers->cat, id)->process,
                           .mine = mrd_catalog_profile_of(workers->cat, id) == workers->profile };
        kept += worker_of(workers, id, &order[kept]);
    }
    if (kept == 0 && !look_on_host(workers)) {
        free(order);
        return false;
    }
    for (mrd_track_id id = 0; id < count && (workers->phases || workers->hosts); id++)
        kept += worker_of(workers, id, &order[kept]);
    qsort_r(order, kept, sizeof(*order), track_order, workers);
    for (size_t i = 0; i < kept; i++) {
        const mrd_track *track = mrd_catalog_borrow_track(workers->cat, order[i].track);
        mrd_worker *last = workers->n_all == 0 ? NULL : &workers->all[workers->n_all - 1];
        track_state *state;

        if (last == NULL || worker_order(workers, last, &order[i].worker) != 0) {
            last = &workers->all[workers->n_all++];
            *last = order[i].worker;
            if (workers->processes[track->process].n++ == 0)
                workers->processes[track->process].first = (uint32_t) workers->n_all - 1;
        }
        last->mapped = last->mapped || track->source == MRD_SRC_DEVICE;
        if (track->source == MRD_SRC_DEVICE)
            last->waits_known = true;
        else if (track->source != MRD_SRC_FRAMEWORK)
            last->host_known = true;
        if (last->worker_gid == MRD_NONE)
            last->worker_gid = track->worker_gid;
        state = &workers->tracks[order[i].track];
        state->worker = (uint32_t) workers->n_all - 1;
        state->device = track->source == MRD_SRC_DEVICE || track->source == MRD_SRC_FRAMEWORK;
    }
    free(order);
    return true;
}

/* ---- Spans ---- */

/* Returns true if a name is that of a training step: "step", "Step 12", "step_12", "train_step",
 * "iteration-7", "ProfilerStep#12". */
static bool
is_step(mrd_str name)
{
    static const char *const words[] = { "step",        "train_step", "training_step",
                                         "global_step", "iteration",  "train_iteration",
                                         "iter" };
    static const char marks[] = " _-#:";

    if (mrd_str_starts(name, "ProfilerStep#"))
        return true;
    for (size_t i = 0; i < MRD_COUNT(words); i++) {
        const char *word = words[i];
        size_t at = 0, number;

        for (; at < name.len && word[at] != '\0'; at++) {
            if (word[at] !=
                (word[at] == '_' && name.p[at] != '\0' && strchr(marks, name.p[at]) != NULL
                     ? '_'
                     : tolower((unsigned char) name.p[at])))
                break;
        }
        if (word[at] != '\0')
            continue;
        while (at < name.len && name.p[at] != '\0' && strchr(marks, name.p[at]) != NULL)
            at++;
        number = at;
        while (at < name.len && name.p[at] >= '0' && name.p[at] <= '9')
            at++;
        if (at == name.len && (at > number || strcmp(word, "iter") != 0))
            return true;
    }
    return false;
}

/* Returns true for names of loading data: PyTorch's
 * "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", and common names in users'
 * programs. */
static bool
is_loading(mrd_str name)
{
    static const char *const words[] = { "DataLoader",     "dataloader", "data_loader",
                                         "data_loading",   "load_data",  "next_batch",
                                         "batch-generator" };

    for (size_t i = 0; i < MRD_COUNT(words); i++) {
        if (memmem(name.p, name.len, words[i], strlen(words[i])) != NULL)
            return true;
    }
    return false;
}

/* Returns true for an operator that computes, such as "aten::mm". The names of autograd and of
 * communication enclose other operators or wait for other ranks. */
static bool
is_operator(mrd_str name)
{
    static const char *const others[] = { "autograd::", "torch::", "c10d::", "c10d_functional::",
                                          "_c10d_functional::" };

    for (size_t i = 0; i < MRD_COUNT(others); i++) {
        if (mrd_str_starts(name, others[i]))
            return false;
    }
    return memmem(name.p, name.len, "::", 2) != NULL;
}

static name_class
classify(mrd_str name)
{
    return is_step(name)       ? NAME_STEP
           : is_loading(name)  ? NAME_LOADING
           : is_operator(name) ? NAME_OPERATOR
                               : NAME_OTHER;
}

/* Classifies a name at its first use. This is rare, so noinline keeps it out of the hot path. */
static __attribute__((noinline)) name_class
class_first(mrd_workers *workers, mrd_sid name)
{
    if (name >= workers->n_names)
        return NAME_OTHER;
    workers->classes[name] = (uint8_t) classify(mrd_catalog_text(workers->cat, name));
    return (name_class) workers->classes[name];
}

static inline name_class
class_of(mrd_workers *workers, mrd_sid name)
{
    return name < workers->n_names && workers->classes[name] != NAME_UNSEEN
               ? (name_class) workers->classes[name]
               : class_first(workers, name);
}

/* Classifies a span on a worker's track. Returns false if the span does not count as the worker's
 * time. */
static bool
see_worker(mrd_workers *workers, const track_state *track, const mrd_event *ev, mrd_work *ret)
{
    bool framework = mrd_device_work_on(workers->work, ev->track);

    ret->on = MRD_ON_HOST;
    ret->class = MRD_CLASS_COMPUTE;
    if (track->device) {
        ret->what = (mrd_cc){ 0 };
        ret->kind = mrd_collectives_see_class(workers->see, ev, &ret->class, &ret->what);
        if (ret->kind == MRD_CC_SAYS_ALL || ret->kind == MRD_CC_SAYS_SINGLE ||
            ret->class == MRD_CLASS_NOTHING)
            return false;
        ret->on = ret->kind == MRD_CC_BARRIER    ? MRD_ON_BARRIER
                  : ret->kind != MRD_CC_NO       ? MRD_ON_COLLECTIVE
                  : ret->class == MRD_CLASS_COPY ? MRD_ON_COPY
                                                 : MRD_ON_COMPUTE;
    }
    /* For a span of Neuron's runtime, the name is only checked for copies. The other patterns fit
     * the names of other libraries. */
    if (!framework && (ret->on == MRD_ON_HOST || ret->on == MRD_ON_COMPUTE) &&
        mrd_device_work_name_class(workers->work, ev->name) == MRD_CLASS_COPY)
        ret->on = MRD_ON_COPY;
    return true;
}

static mrd_kernel_class
phase_class(mrd_workers *workers, mrd_sid label)
{
    if (label == MRD_SID_EMPTY || label >= workers->n_names)
        return MRD_CLASS_UNKNOWN;
    if (workers->phase_classes[label] == 0)
        workers->phase_classes[label] =
            (uint8_t) (mrd_phase_class(workers->rules, mrd_catalog_text(workers->cat, label)) + 1);
    return (mrd_kernel_class) (workers->phase_classes[label] - 1);
}

/* Classifies a span as a program phase. Returns false if it is no phase. */
static bool
see_phase(mrd_workers *workers, const mrd_event *ev, mrd_work *ret)
{
    ret->class = phase_class(workers, ev->name);
    if (ret->class == MRD_CLASS_UNKNOWN)
        ret->class = phase_class(workers, ev->category);
    if (ret->class == MRD_CLASS_UNKNOWN || ret->class == MRD_CLASS_NOTHING)
        return false;
    ret->device = true;
    ret->what = (mrd_cc){ 0 };
    if (mrd_class_communicates(ret->class))
        /* The phase of a program names no group. So in traces with only program phases, no event
         * shows which workers communicate with each other. */
        ret->kind = MRD_CC_LOOSE;
    ret->on = ret->kind != MRD_CC_NO         ? MRD_ON_COLLECTIVE
              : ret->class == MRD_CLASS_COPY ? MRD_ON_COPY
                                             : MRD_ON_COMPUTE;
    return true;
}

/* Classifies a span of a process whose collectives ran on its host. Collectives take the place of
 * device spans, so that the host's work between them explains why a process came late. Returns false
 * if the span is neither a collective nor an operator. */
static bool
see_on_host(mrd_workers *workers, const mrd_event *ev, mrd_work *ret)
{
    ret->what = (mrd_cc){ 0 };
    ret->class = MRD_CLASS_COMPUTE;
    ret->kind = mrd_collectives_see_class(workers->see, ev, &ret->class, &ret->what);
    if (ret->kind == MRD_CC_SYNC || ret->kind == MRD_CC_LOOSE) {
        ret->device = true;
        ret->on = MRD_ON_COLLECTIVE;
        return true;
    }
    ret->kind = MRD_CC_NO;
    ret->on = MRD_ON_COMPUTE;
    return workers->cpu_op != MRD_SID_EMPTY && ev->category == workers->cpu_op &&
           class_of(workers, ev->name) == NAME_OPERATOR;
}

mrd_work_kind
mrd_workers_see(mrd_workers *workers, const mrd_event *ev, mrd_work *ret)
{
    const track_state *track = &workers->tracks[ev->track];

    if (ev->track >= workers->n_tracks || !track->mine || ev->kind != MRD_SPAN || ev->dur_ns < 0 ||
        (ev->flags & (MRD_EV_NO_START | MRD_EV_MISTIMED)) != 0 || mrd_event_end(ev).ns == INT64_MAX)
        return MRD_WORK_NONE;
    ret->process = track->process;
    ret->worker = track->worker;
    ret->device = track->device;
    ret->kind = MRD_CC_NO;
    if (workers->phases && track->worker != MRD_NO_WORKER && see_phase(workers, ev, ret))
        return MRD_WORK_WORKER;
    if (workers->hosts) {
        ret->device = false;
        if (track->worker != MRD_NO_WORKER && see_on_host(workers, ev, ret))
            return MRD_WORK_WORKER;
        ret->worker = MRD_NO_WORKER;
    } else if (workers->labels != NULL) {
        mrd_sid label = ev->category != MRD_SID_EMPTY ? ev->category : ev->name;

        if (label < workers->n_names && workers->labels[label] < UINT32_MAX)
            workers->labels[label]++;
        ret->worker = MRD_NO_WORKER;
        ret->device = false;
    } else if (track->worker != MRD_NO_WORKER)
        return see_worker(workers, track, ev, ret) ? MRD_WORK_WORKER : MRD_WORK_BESIDE;
    if (mrd_device_work_is_beside(workers->work, ev->category))
        return MRD_WORK_BESIDE;
    if (workers->step_num != MRD_SID_EMPTY && mrd_arg_is_int(mrd_event_arg(ev, workers->step_num)))
        return MRD_WORK_STEP;
    switch (class_of(workers, ev->name)) {
    case NAME_STEP:
        return MRD_WORK_STEP;
    case NAME_LOADING:
        return MRD_WORK_LOADING;
    default:
        return MRD_WORK_HOST;
    }
}

bool
mrd_workers_are_phases(const mrd_workers *workers)
{
    return workers->phases;
}

bool
mrd_workers_are_hosts(const mrd_workers *workers)
{
    return workers->hosts;
}

size_t
mrd_workers_labels(const mrd_workers *workers, mrd_sid *ret_labels, size_t most)
{
    size_t n = 0;

    for (mrd_sid label = 1; workers->labels != NULL && label < workers->n_names; label++) {
        size_t at = n;

        while (at > 0 && workers->labels[ret_labels[at - 1]] < workers->labels[label])
            at--;
        if (workers->labels[label] == 0 || at == most)
            continue;
        n += n < most;
        memmove(ret_labels + at + 1, ret_labels + at, (n - at - 1) * sizeof(*ret_labels));
        ret_labels[at] = label;
    }
    return n;
}

uint32_t
mrd_workers_of(const mrd_workers *workers, mrd_track_id track)
{
    return track < workers->n_tracks ? workers->tracks[track].worker : MRD_NO_WORKER;
}

uint32_t
mrd_workers_of_process(const mrd_workers *workers, mrd_proc_id process, uint32_t *ret_first)
{
    process_state state =
        process < workers->n_processes ? workers->processes[process] : (process_state){ 0 };

    *ret_first = state.first;
    return state.n;
}

bool
mrd_workers_lost(const mrd_workers *workers, const mrd_event *ev, uint32_t worker,
                 mrd_work_on *ret_on)
{
    const mrd_track *track = mrd_catalog_borrow_track(workers->cat, ev->track);
    const mrd_worker *mine = &workers->all[worker];
    const mrd_process *lost = mrd_catalog_borrow_process(workers->cat, track->process);

    mrd_loss_effect effect = mrd_drop_effect(mrd_catalog_text(workers->cat, ev->name));
    bool paused = effect == MRD_LOSS_NONE;

    if ((ev->ivalue <= 0 && !paused) || effect == MRD_LOSS_THREAD)
        return false;
    *ret_on = paused ? MRD_ON_PAUSED : MRD_ON_GAP;
    /* a loss on a node's own track concerns all workers of the node */
    if (track->process != mine->process)
        return (lost->flags & MRD_PROC_NODE) != 0 &&
               lost->instance_id ==
                   mrd_catalog_borrow_process(workers->cat, mine->process)->instance_id;
    return track->lnc_idx == MRD_NONE || track->lnc_idx == mine->lnc_idx;
}

/* ---- Lifecycle ---- */

mrd_workers *
mrd_workers_new(const mrd_sink_env *env)
{
    mrd_workers *workers = calloc(1, sizeof(*workers));

    if (workers == NULL)
        return NULL;
    workers->cat = env->catalog;
    workers->profile = env->profile;
    workers->n_names = mrd_strtab_count(mrd_catalog_strings(workers->cat));
    workers->classes = calloc(workers->n_names + 1, sizeof(*workers->classes));
    workers->rules = env->options->classify;
    workers->step_num = mrd_arg_key_find(mrd_catalog_strings(workers->cat), MRD_KEY_STEP_NUM);
    workers->see = mrd_collectives_new(workers->cat, workers->rules);
    if (workers->classes == NULL || workers->see == NULL || !workers_make(workers)) {
        mrd_workers_free(workers);
        return NULL;
    }
    workers->work = mrd_collectives_work(workers->see);
    return workers;
}

void
mrd_workers_free(mrd_workers *workers)
{
    if (workers == NULL)
        return;
    free(workers->tracks);
    free(workers->all);
    free(workers->processes);
    free(workers->classes);
    free(workers->labels);
    free(workers->phase_classes);
    mrd_collectives_free(workers->see);
    free(workers);
}

size_t
mrd_workers_count(const mrd_workers *workers)
{
    return workers->n_all;
}

const mrd_worker *
mrd_workers_at(const mrd_workers *workers, uint32_t i)
{
    return &workers->all[i];
}

bool
mrd_workers_knows(const mrd_workers *workers, mrd_track_id track)
{
    return track < workers->n_tracks && workers->tracks[track].mine;
}
