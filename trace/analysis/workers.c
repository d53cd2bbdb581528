#include "trace/analysis/workers.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/loss_cause.h"
#include "base/num.h"
#include "base/obj.h"

/* The kind of a name, determined once per name. */
typedef enum { NAME_UNSEEN, NAME_OTHER, NAME_STEP, NAME_LOADING } name_class;

typedef struct {
    uint32_t worker;
    mrd_proc_id process;
    bool mine;   /* belongs to the profile */
    bool device; /* its spans are the device's own */
} track_state;

/* The workers of a process have successive numbers. */
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
    uint8_t *classes; /* by name */
    size_t n_names;
    mrd_collectives *see;
    mrd_device_work *work; /* borrowed from `see` */
    bool phases;           /* the workers come from program phases */
    const mrd_kernel_rules *rules;
    uint32_t *labels; /* spans by category or name; NULL if the profile has cores or devices */
    /* By name or category: a mrd_kernel_class + 1, or 0 if not classified yet. */
    uint8_t *phase_classes;
};

/* ---- Tracks ---- */

typedef struct {
    mrd_track_id track;
    mrd_worker worker;
} track_of;

/* Users think in ranks, so ranks come first. */
int
mrd_workers_process_order(const mrd_catalog *cat, mrd_proc_id a, mrd_proc_id b)
{
    int order = mrd_i64_order(mrd_catalog_borrow_process(cat, a)->rank & INT64_MAX,
                              mrd_catalog_borrow_process(cat, b)->rank & INT64_MAX);

    return order != 0 ? order : mrd_catalog_process_order(cat, a, b);
}

/* Returns the ranks in the name of a process with phases; empty if its rank is known otherwise. */
static mrd_str
ranks_of_process(const mrd_workers *w, mrd_proc_id id)
{
    const mrd_process *p = mrd_catalog_borrow_process(w->cat, id);

    return w->phases && p->rank == MRD_NONE ? mrd_phase_ranks(mrd_catalog_text(w->cat, p->name))
                                            : MRD_STR("");
}

static int
worker_order(const mrd_workers *w, const mrd_worker *a, const mrd_worker *b)
{
    int order = 0;

    if (a->process != b->process) {
        mrd_str x = ranks_of_process(w, a->process), y = ranks_of_process(w, b->process);

        order = (x.len == 0) - (y.len == 0);
        if (order == 0)
            order = mrd_phase_ranks_order(x, y);
        if (order == 0)
            order = mrd_workers_process_order(w->cat, a->process, b->process);
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

/* Finds the worker of a line of spans. Returns false if there is none. */
static bool
worker_of(const mrd_workers *w, mrd_track_id id, track_of *ret)
{
    const mrd_track *t = mrd_catalog_borrow_track(w->cat, id);
    bool by_core = t->lnc_idx != MRD_NONE;
    bool by_device = t->source == MRD_SRC_FRAMEWORK && t->device_idx != MRD_NONE;

    if (mrd_catalog_profile_of(w->cat, id) != w->profile || t->kind != MRD_TRACK_SPANS ||
        (!by_core && !by_device && !(w->phases && t->source == MRD_SRC_FRAMEWORK)))
        return false;
    *ret = (track_of){
        .track = id,
        .worker = { .process = t->process,
                    .lnc_idx = t->lnc_idx,
                    .device_idx = by_core ? MRD_NONE : t->device_idx,
                    .ranks = w->phases ? mrd_phase_ranks(mrd_catalog_text(w->cat, t->name))
                                       : MRD_STR(""),
                    .worker_gid = t->worker_gid },
    };
    if (ret->worker.ranks.len == 0)
        ret->worker.ranks = ranks_of_process(w, t->process);
    return true;
}

/* Prepares for a profile without cores and devices. Returns false when out of memory. */
static bool
look_for_phases(mrd_workers *w)
{
    w->phases = mrd_phase_any(w->cat, w->rules);
    w->labels = calloc(w->n_names + 1, sizeof(*w->labels));
    w->phase_classes = calloc(w->n_names + 1, sizeof(*w->phase_classes));
    return w->labels != NULL && w->phase_classes != NULL;
}

static bool
workers_make(mrd_workers *w)
{
    size_t n = mrd_catalog_tracks(w->cat), kept = 0;
    track_of *order = malloc((n + 1) * sizeof(*order));

    w->n_tracks = n;
    w->tracks = calloc(n + 1, sizeof(*w->tracks));
    w->all = calloc(n + 1, sizeof(*w->all));
    w->n_processes = mrd_catalog_processes(w->cat);
    w->processes = calloc(w->n_processes + 1, sizeof(*w->processes));
    if (order == NULL || w->tracks == NULL || w->all == NULL || w->processes == NULL) {
        free(order);
        return false;
    }
    for (mrd_track_id i = 0; i < n; i++) {
        w->tracks[i] = (track_state){ .worker = MRD_NO_WORKER,
                                      .process = mrd_catalog_borrow_track(w->cat, i)->process,
                                      .mine = mrd_catalog_profile_of(w->cat, i) == w->profile };
        kept += worker_of(w, i, &order[kept]);
    }
    if (kept == 0 && !look_for_phases(w)) {
        free(order);
        return false;
    }
    for (mrd_track_id i = 0; i < n && w->phases; i++)
        kept += worker_of(w, i, &order[kept]);
    qsort_r(order, kept, sizeof(*order), track_order, w);
    for (size_t i = 0; i < kept; i++) {
        const mrd_track *t = mrd_catalog_borrow_track(w->cat, order[i].track);
        mrd_worker *last = w->n_all == 0 ? NULL : &w->all[w->n_all - 1];
        track_state *state;

        if (last == NULL || worker_order(w, last, &order[i].worker) != 0) {
            last = &w->all[w->n_all++];
            *last = order[i].worker;
            if (w->processes[t->process].n++ == 0)
                w->processes[t->process].first = (uint32_t) w->n_all - 1;
        }
        last->mapped = last->mapped || t->source == MRD_SRC_DEVICE;
        if (t->source == MRD_SRC_DEVICE)
            last->waits_known = true;
        else if (t->source != MRD_SRC_FRAMEWORK)
            last->host_known = true;
        if (last->worker_gid == MRD_NONE)
            last->worker_gid = t->worker_gid;
        state = &w->tracks[order[i].track];
        state->worker = (uint32_t) w->n_all - 1;
        state->device = t->source == MRD_SRC_DEVICE || t->source == MRD_SRC_FRAMEWORK;
    }
    free(order);
    return true;
}

/* ---- Spans ---- */

/* Accepts "step", "Step 12", "step_12", "train_step", "iteration-7", "ProfilerStep#12". */
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

/* Accepts PyTorch's "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", and common names
 * of users. */
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

static name_class
classify(mrd_str name)
{
    return is_step(name) ? NAME_STEP : is_loading(name) ? NAME_LOADING : NAME_OTHER;
}

/* The first use of a name is rare, so its code is kept out of line. */
static __attribute__((noinline)) name_class
class_first(mrd_workers *w, mrd_sid name)
{
    if (name >= w->n_names)
        return NAME_OTHER;
    w->classes[name] = (uint8_t) classify(mrd_catalog_text(w->cat, name));
    return (name_class) w->classes[name];
}

static inline name_class
class_of(mrd_workers *w, mrd_sid name)
{
    return name < w->n_names && w->classes[name] != NAME_UNSEEN ? (name_class) w->classes[name]
                                                                : class_first(w, name);
}

/* Classifies a span on a worker's track. Returns false if it is not part of the worker's time. */
static bool
see_worker(mrd_workers *w, const track_state *track, const mrd_event *ev, mrd_work *ret)
{
    bool framework = mrd_device_work_on(w->work, ev->track);

    ret->on = MRD_ON_HOST;
    ret->class = MRD_CLASS_COMPUTE;
    if (track->device) {
        ret->what = (mrd_cc){ 0 };
        ret->kind = mrd_collectives_see_class(w->see, ev, &ret->class, &ret->what);
        if (ret->kind == MRD_CC_SAYS_ALL || ret->kind == MRD_CC_SAYS_SINGLE ||
            ret->class == MRD_CLASS_NOTHING)
            return false;
        ret->on = ret->kind == MRD_CC_BARRIER    ? MRD_ON_BARRIER
                  : ret->kind != MRD_CC_NO       ? MRD_ON_COLLECTIVE
                  : ret->class == MRD_CLASS_COPY ? MRD_ON_COPY
                                                 : MRD_ON_COMPUTE;
    }
    /* These are Neuron's names, so patterns of other libraries are not tried. */
    if (!framework && (ret->on == MRD_ON_HOST || ret->on == MRD_ON_COMPUTE) &&
        mrd_device_work_name_class(w->work, ev->name) == MRD_CLASS_COPY)
        ret->on = MRD_ON_COPY;
    return true;
}

static mrd_kernel_class
phase_class(mrd_workers *w, mrd_sid label)
{
    if (label == MRD_SID_EMPTY || label >= w->n_names)
        return MRD_CLASS_UNKNOWN;
    if (w->phase_classes[label] == 0)
        w->phase_classes[label] =
            (uint8_t) (mrd_phase_class(w->rules, mrd_catalog_text(w->cat, label)) + 1);
    return (mrd_kernel_class) (w->phase_classes[label] - 1);
}

/* Classifies a program phase. Returns false if it is no work. */
static bool
see_phase(mrd_workers *w, const mrd_event *ev, mrd_work *ret)
{
    ret->class = phase_class(w, ev->name);
    if (ret->class == MRD_CLASS_UNKNOWN)
        ret->class = phase_class(w, ev->category);
    if (ret->class == MRD_CLASS_UNKNOWN || ret->class == MRD_CLASS_NOTHING)
        return false;
    ret->device = true;
    ret->what = (mrd_cc){ 0 };
    if (mrd_class_communicates(ret->class))
        ret->kind = MRD_CC_LOOSE; /* no event shows which workers communicate */
    ret->on = ret->kind != MRD_CC_NO         ? MRD_ON_COLLECTIVE
              : ret->class == MRD_CLASS_COPY ? MRD_ON_COPY
                                             : MRD_ON_COMPUTE;
    return true;
}

mrd_work_kind
mrd_workers_see(mrd_workers *w, const mrd_event *ev, mrd_work *ret)
{
    const track_state *track = &w->tracks[ev->track];

    if (ev->track >= w->n_tracks || !track->mine || ev->kind != MRD_SPAN || ev->dur_ns < 0 ||
        (ev->flags & (MRD_EV_NO_START | MRD_EV_MISTIMED)) != 0 || mrd_event_end(ev).ns == INT64_MAX)
        return MRD_WORK_NONE;
    ret->process = track->process;
    ret->worker = track->worker;
    ret->device = track->device;
    ret->kind = MRD_CC_NO;
    if (w->phases && track->worker != MRD_NO_WORKER && see_phase(w, ev, ret))
        return MRD_WORK_WORKER;
    if (w->labels != NULL) {
        mrd_sid label = ev->category != MRD_SID_EMPTY ? ev->category : ev->name;

        if (label < w->n_names && w->labels[label] < UINT32_MAX)
            w->labels[label]++;
        ret->worker = MRD_NO_WORKER;
        ret->device = false;
    } else if (track->worker != MRD_NO_WORKER)
        return see_worker(w, track, ev, ret) ? MRD_WORK_WORKER : MRD_WORK_BESIDE;
    if (mrd_device_work_is_beside(w->work, ev->category))
        return MRD_WORK_BESIDE;
    switch (class_of(w, ev->name)) {
    case NAME_STEP:
        return MRD_WORK_STEP;
    case NAME_LOADING:
        return MRD_WORK_LOADING;
    default:
        return MRD_WORK_HOST;
    }
}

bool
mrd_workers_are_phases(const mrd_workers *w)
{
    return w->phases;
}

size_t
mrd_workers_labels(const mrd_workers *w, mrd_sid *ret_labels, size_t most)
{
    size_t n = 0;

    for (mrd_sid label = 1; w->labels != NULL && label < w->n_names; label++) {
        size_t at = n;

        while (at > 0 && w->labels[ret_labels[at - 1]] < w->labels[label])
            at--;
        if (w->labels[label] == 0 || at == most)
            continue;
        n += n < most;
        memmove(ret_labels + at + 1, ret_labels + at, (n - at - 1) * sizeof(*ret_labels));
        ret_labels[at] = label;
    }
    return n;
}

uint32_t
mrd_workers_of(const mrd_workers *w, mrd_track_id track)
{
    return track < w->n_tracks ? w->tracks[track].worker : MRD_NO_WORKER;
}

uint32_t
mrd_workers_of_process(const mrd_workers *w, mrd_proc_id process, uint32_t *ret_first)
{
    process_state p = process < w->n_processes ? w->processes[process] : (process_state){ 0 };

    *ret_first = p.first;
    return p.n;
}

bool
mrd_workers_lost(const mrd_workers *w, const mrd_event *ev, uint32_t worker, mrd_work_on *ret_on)
{
    const mrd_track *t = mrd_catalog_borrow_track(w->cat, ev->track);
    const mrd_worker *mine = &w->all[worker];
    const mrd_process *lost = mrd_catalog_borrow_process(w->cat, t->process);

    mrd_loss_effect effect = mrd_drop_effect(mrd_catalog_text(w->cat, ev->name));
    bool paused = effect == MRD_LOSS_NONE;

    if ((ev->ivalue <= 0 && !paused) || effect == MRD_LOSS_THREAD)
        return false;
    *ret_on = paused ? MRD_ON_PAUSED : MRD_ON_GAP;
    if (t->process != mine->process) /* a loss of the whole node */
        return (lost->flags & MRD_PROC_NODE) != 0 &&
               lost->instance_id == mrd_catalog_borrow_process(w->cat, mine->process)->instance_id;
    return t->lnc_idx == MRD_NONE || t->lnc_idx == mine->lnc_idx;
}

/* ---- Lifecycle ---- */

mrd_workers *
mrd_workers_new(const mrd_sink_env *env)
{
    mrd_workers *w = calloc(1, sizeof(*w));

    if (w == NULL)
        return NULL;
    w->cat = env->catalog;
    w->profile = env->profile;
    w->n_names = mrd_strtab_count(mrd_catalog_strings(w->cat));
    w->classes = calloc(w->n_names + 1, sizeof(*w->classes));
    w->rules = env->options->classify;
    w->see = mrd_collectives_new(w->cat, w->rules);
    if (w->classes == NULL || w->see == NULL || !workers_make(w)) {
        mrd_workers_free(w);
        return NULL;
    }
    w->work = mrd_collectives_work(w->see);
    return w;
}

void
mrd_workers_free(mrd_workers *w)
{
    if (w == NULL)
        return;
    free(w->tracks);
    free(w->all);
    free(w->processes);
    free(w->classes);
    free(w->labels);
    free(w->phase_classes);
    mrd_collectives_free(w->see);
    free(w);
}

size_t
mrd_workers_count(const mrd_workers *w)
{
    return w->n_all;
}

const mrd_worker *
mrd_workers_at(const mrd_workers *w, uint32_t i)
{
    return &w->all[i];
}

bool
mrd_workers_knows(const mrd_workers *w, mrd_track_id track)
{
    return track < w->n_tracks && w->tracks[track].mine;
}
