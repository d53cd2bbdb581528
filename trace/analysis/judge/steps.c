#include "trace/analysis/judge/steps.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/obj.h"
#include "base/vec.h"
#include "trace/analysis/gather.h"

enum { NO_STEP = -1 };

/* The latest step of a process, and the results of the process. */
typedef struct {
    mrd_ev_ns begin, end; /* begin and end of the current or last step */
    int64_t step;         /* number of this step; NO_STEP if there was none */
    bool open;            /* the step has not ended yet */
    /* the process has the workers from first_worker to first_worker + n_workers - 1 in `workers` */
    uint32_t first_worker, n_workers;
    mrd_steps_process *pub; /* results for the user; NULL until the first step of the process */
} process_state;

typedef struct {
    mrd_worker_time time;
    /* time in ns that the worker had spent in each part when the step began */
    uint64_t at_begin[MRD_REPORT_PARTS];
} worker_state;

/* End time of a step that has not ended yet. */
typedef struct {
    mrd_ev_ns end;
    mrd_proc_id process;
} step_end;

struct mrd_steps {
    const mrd_catalog *cat;
    mrd_workers *who;
    mrd_gather *gather;
    bool all_to_all;
    process_state *processes;
    size_t n_processes;
    /* indexed by worker number; the workers of one process follow each other */
    worker_state *workers;
    size_t n_workers;
    step_end *ends; /* a heap with the earliest end first */
    size_t n_ends;
    mrd_map row_of; /* hash of kind, name and size -> index in `rows` */
    mrd_steps_row **rows;
    size_t n_rows, cap_rows, n_host;
    mrd_map place_of; /* hash of row and process -> index in `places` */
    mrd_steps_place *places;
    size_t n_places, cap_places;
    mrd_steps_process *paced; /* results per process; created by mrd_steps_finish */
    size_t n_paced;
    mrd_steps_totals totals;
    mrd_err err; /* first error of a callback of `gather` */
};

const char *
mrd_op_kind_text(mrd_op_kind kind)
{
    static const char *const text[] = {
        [MRD_OP_COMPUTE] = "compute", [MRD_OP_COLLECTIVE] = "collective",
        [MRD_OP_WAITING] = "waiting", [MRD_OP_COPY] = "copy",
        [MRD_OP_RUNTIME] = "runtime", [MRD_OP_HOST] = "host",
        [MRD_OP_PART] = "part",
    };

    return (unsigned) kind < MRD_OP_KINDS ? text[kind] : "?";
}

/* ---- Series ---- */

/* Adds up neighbouring blocks in pairs, which frees the second half of the array. */
static void
halve_ns(uint64_t *ns)
{
    for (size_t i = 0; i < MRD_STEPS_BLOCKS; i++)
        ns[i] = i < MRD_STEPS_BLOCKS / 2 ? ns[2 * i] + ns[2 * i + 1] : 0;
}

static void
halve_counts(uint32_t *counts)
{
    for (size_t i = 0; i < MRD_STEPS_BLOCKS; i++) {
        bool kept = i < MRD_STEPS_BLOCKS / 2;
        uint64_t both = kept ? (uint64_t) counts[2 * i] + counts[2 * i + 1] : 0;

        counts[i] = both > UINT32_MAX ? UINT32_MAX : (uint32_t) both;
    }
}

static void
widen(mrd_steps *steps)
{
    steps->totals.width *= 2;
    for (size_t i = 0; i < steps->n_rows; i++) {
        halve_ns(steps->rows[i]->block_ns);
        halve_counts(steps->rows[i]->block_calls);
    }
    for (size_t i = 0; i < steps->n_processes; i++) {
        mrd_steps_process *pub = steps->processes[i].pub;

        if (pub == NULL)
            continue;
        halve_ns(pub->block_ns);
        halve_counts(pub->block_steps);
        for (unsigned k = 0; k < MRD_REPORT_PARTS; k++)
            halve_ns(pub->own_ns[k]);
        halve_counts(pub->own_steps);
    }
}

static void
put_block(uint64_t *block_ns, uint32_t *block_count, uint64_t ns)
{
    *block_ns += ns;
    *block_count += *block_count < UINT32_MAX;
}

/* ---- Operations ---- */

static mrd_steps_row *
row_make(mrd_steps *steps, mrd_map_key key, const mrd_steps_row *like)
{
    mrd_steps_row *row;

    if (!MRD_VEC_ROOM(steps->rows, steps->n_rows, steps->cap_rows, 1) ||
        (row = calloc(1, sizeof(*row))) == NULL)
        return NULL;
    if (mrd_map_put(&steps->row_of, key, (uint32_t) steps->n_rows) != MRD_OK) {
        free(row);
        return NULL;
    }
    row->kind = like->kind;
    row->name = like->name;
    row->part = like->part;
    row->size = like->size;
    row->width = 1;
    steps->rows[steps->n_rows++] = row;
    steps->n_host += like->kind == MRD_OP_HOST;
    return row;
}

/* Returns the row for the operation `like`, and adds it if needed. When the table is full,
 * operations of one kind share a row without a name. Stores the row's index in *ret_at. */
static mrd_steps_row *
row_of(mrd_steps *steps, mrd_steps_row *like, uint32_t *ret_at)
{
    mrd_map_key key = { like->kind, like->kind == MRD_OP_PART ? like->part : like->name,
                        (uint64_t) like->size };
    bool full;

    *ret_at = mrd_map_get(&steps->row_of, key);
    if (*ret_at != MRD_MAP_NONE)
        return steps->rows[*ret_at];
    full = steps->n_rows >= MRD_STEPS_ROWS ||
           (like->kind == MRD_OP_HOST && steps->n_host >= MRD_STEPS_ROWS / 2);
    if (full && like->kind != MRD_OP_PART) {
        steps->totals.rest++;
        like->name = MRD_SID_EMPTY;
        like->size = MRD_NONE;
        key = (mrd_map_key){ like->kind, MRD_SID_EMPTY, (uint64_t) MRD_NONE };
        if ((*ret_at = mrd_map_get(&steps->row_of, key)) != MRD_MAP_NONE)
            return steps->rows[*ret_at];
    }
    *ret_at = (uint32_t) steps->n_rows;
    return row_make(steps, key, like);
}

static mrd_err
place_add(mrd_steps *steps, uint32_t row, mrd_proc_id process, uint64_t ns)
{
    mrd_map_key key = { row, process, 0 };
    uint32_t at = mrd_map_get(&steps->place_of, key);

    if (at == MRD_MAP_NONE) {
        if (steps->n_places == MRD_STEPS_PLACES) {
            steps->totals.unplaced++;
            return MRD_OK;
        }
        if (!MRD_VEC_ROOM(steps->places, steps->n_places, steps->cap_places, 1) ||
            mrd_map_put(&steps->place_of, key, (uint32_t) steps->n_places) != MRD_OK)
            return MRD_NOMEM;
        at = (uint32_t) steps->n_places;
        steps->places[steps->n_places++] = (mrd_steps_place){ .row = row, .process = process };
    }
    steps->places[at].calls++;
    steps->places[at].ns += ns;
    return MRD_OK;
}

static void
put_by_call(mrd_steps_row *row, uint64_t ns)
{
    if (row->calls / row->width == MRD_STEPS_BLOCKS) {
        halve_ns(row->block_ns);
        halve_counts(row->block_calls);
        row->width *= 2;
    }
    put_block(&row->block_ns[row->calls / row->width], &row->block_calls[row->calls / row->width],
              ns);
}

/* Returns the number of the step in which the process is at time `at`; NO_STEP if in none. Times of
 * successive calls never decrease. */
static int64_t
step_of(const process_state *state, mrd_ev_ns at)
{
    return state->step != NO_STEP && mrd_ev_before(at, state->end) ? state->step : NO_STEP;
}

static mrd_err
operation(mrd_steps *steps, mrd_steps_row like, mrd_proc_id process, int64_t step, uint64_t ns)
{
    mrd_steps_row *row;
    uint32_t i;

    if (!steps->totals.by_call && step == NO_STEP) {
        steps->totals.outside_ns += like.kind == MRD_OP_HOST ? 0 : ns;
        return MRD_OK;
    }
    if ((row = row_of(steps, &like, &i)) == NULL)
        return MRD_NOMEM;
    if (steps->totals.by_call)
        put_by_call(row, ns);
    else
        put_block(&row->block_ns[(uint64_t) step / steps->totals.width],
                  &row->block_calls[(uint64_t) step / steps->totals.width], ns);
    row->calls++;
    row->ns += ns;
    return place_add(steps, i, process, ns);
}

static void
collective_done(void *self, const mrd_gathered *group)
{
    mrd_steps *steps = self;
    mrd_ev_ns last = group->parts[group->n - 1].begin;

    for (size_t i = 0; i < group->n; i++) {
        const mrd_gather_part *part = &group->parts[i];
        mrd_proc_id process = mrd_workers_at(steps->who, part->core)->process;
        mrd_ev_ns met = mrd_ev_before(last, part->end)
                            ? last
                            /* with clock errors, a part can end before the last one begins */
                            : part->end;
        mrd_steps_row like = { .kind = MRD_OP_COLLECTIVE,
                               .name = group->name,
                               .size = group->size };
        mrd_err err = operation(steps, like, process, part->mark,
                                (uint64_t) part->end.ns - (uint64_t) met.ns);

        like.kind = MRD_OP_WAITING;
        if (err == MRD_OK && group->n > 1)
            err = operation(steps, like, process, part->mark,
                            (uint64_t) met.ns - (uint64_t) part->begin.ns);
        steps->err = steps->err != MRD_OK ? steps->err : err;
    }
}

/* ---- Steps ---- */

static void
heap_down(mrd_steps *steps, size_t i)
{
    step_end end = steps->ends[i];

    for (size_t child; (child = 2 * i + 1) < steps->n_ends; i = child) {
        if (child + 1 < steps->n_ends &&
            mrd_ev_before(steps->ends[child + 1].end, steps->ends[child].end))
            child++;
        if (!mrd_ev_before(steps->ends[child].end, end.end))
            break;
        steps->ends[i] = steps->ends[child];
    }
    steps->ends[i] = end;
}

static void
heap_push(mrd_steps *steps, step_end end)
{
    size_t i = steps->n_ends++;

    for (; i > 0 && mrd_ev_after(steps->ends[(i - 1) / 2].end, end.end); i = (i - 1) / 2)
        steps->ends[i] = steps->ends[(i - 1) / 2];
    steps->ends[i] = end;
}

static mrd_err
part_add(mrd_steps *steps, mrd_report_part part, uint64_t block, uint64_t ns)
{
    mrd_steps_row like = { .kind = MRD_OP_PART, .part = part, .size = MRD_NONE }, *row;
    uint32_t at;

    if ((row = row_of(steps, &like, &at)) == NULL)
        return MRD_NOMEM;
    put_block(&row->block_ns[block], &row->block_calls[block], ns);
    row->calls++;
    row->ns += ns;
    return MRD_OK;
}

/* Returns true for parts that are a worker's own time: they do not grow while it waits for
 * others. */
static bool
is_own(mrd_report_part part)
{
    return part == MRD_REPORT_COMPUTE || part == MRD_REPORT_BOTH || part == MRD_REPORT_COPY ||
           part == MRD_REPORT_HOST || part == MRD_REPORT_IDLE;
}

/* Adds the time of one step's busiest worker, split into parts. */
static void
own_add(mrd_steps_process *pub, const uint64_t parts[MRD_REPORT_PARTS], uint64_t block)
{
    for (unsigned k = 0; k < MRD_REPORT_PARTS; k++)
        pub->own_ns[k][block] += is_own((mrd_report_part) k) ? parts[k] : 0;
    pub->own_steps[block] += pub->own_steps[block] < UINT32_MAX;
}

/* Ends the current step of a process. The caller has added all events before state->end. */
static mrd_err
step_over(mrd_steps *steps, process_state *state)
{
    uint64_t block = (uint64_t) state->step / steps->totals.width,
             dur = (uint64_t) state->end.ns - (uint64_t) state->begin.ns, most = 0;
    uint64_t busiest[MRD_REPORT_PARTS] = { 0 };
    bool any = false;
    mrd_err err = MRD_OK;

    state->open = false;
    state->pub->steps++;
    state->pub->ns += dur;
    put_block(&state->pub->block_ns[block], &state->pub->block_steps[block], dur);
    for (uint32_t i = 0; i < state->n_workers && err == MRD_OK; i++) {
        worker_state *w = &steps->workers[state->first_worker + i];
        uint64_t now[MRD_REPORT_PARTS], parts[MRD_REPORT_PARTS], own = 0;

        if (!w->time.any || mrd_ev_after(w->time.first, state->begin))
            continue; /* the worker's first device span came after the step began */
        mrd_worker_time_read(&w->time, state->end, now);
        for (unsigned k = 0; k < MRD_REPORT_PARTS && err == MRD_OK; k++) {
            parts[k] = now[k] - w->at_begin[k];
            own += is_own((mrd_report_part) k) ? parts[k] : 0;
            err = part_add(steps, (mrd_report_part) k, block, parts[k]);
        }
        if (err == MRD_OK && own >= most) {
            most = own;
            memcpy(busiest, parts, sizeof(busiest));
            any = true;
        }
    }
    if (any)
        own_add(state->pub, busiest, block);
    return err;
}

static mrd_err
steps_over(mrd_steps *steps, mrd_ev_ns now)
{
    mrd_err err = MRD_OK;

    while (err == MRD_OK && steps->n_ends > 0 && !mrd_ev_after(steps->ends[0].end, now)) {
        mrd_proc_id process = steps->ends[0].process;

        steps->ends[0] = steps->ends[--steps->n_ends];
        if (steps->n_ends > 0)
            heap_down(steps, 0);
        err = step_over(steps, &steps->processes[process]);
    }
    return err;
}

/* Called at the first step. Operations that were counted before it lie in no step, so their time
 * moves to outside_ns. */
static void
steps_begin(mrd_steps *steps)
{
    steps->totals.by_call = false;
    for (size_t i = 0; i < steps->n_rows; i++) {
        steps->totals.outside_ns += steps->rows[i]->kind == MRD_OP_HOST ? 0 : steps->rows[i]->ns;
        free(steps->rows[i]);
    }
    mrd_map_fini(&steps->row_of);
    mrd_map_fini(&steps->place_of);
    steps->n_rows = steps->n_host = steps->n_places = 0;
    steps->totals.rest = steps->totals.unplaced = 0;
}

static mrd_err
step_add(mrd_steps *steps, mrd_proc_id process, const mrd_event *ev)
{
    process_state *state = &steps->processes[process];

    if (state->open) {
        steps->totals.nested++;
        return MRD_OK;
    }
    if (ev->dur_ns == 0)
        return MRD_OK;
    if (steps->totals.by_call)
        steps_begin(steps);
    if (state->pub == NULL && (state->pub = calloc(1, sizeof(*state->pub))) == NULL)
        return MRD_NOMEM;
    state->pub->process = process;
    state->begin = ev->ts;
    state->end = mrd_event_end(ev);
    state->open = true;
    state->step++;
    if ((uint64_t) state->step / steps->totals.width == MRD_STEPS_BLOCKS)
        widen(steps);
    for (uint32_t i = 0; i < state->n_workers; i++) {
        worker_state *w = &steps->workers[state->first_worker + i];

        mrd_worker_time_read(&w->time, state->begin, w->at_begin);
    }
    heap_push(steps, (step_end){ .end = state->end, .process = process });
    return MRD_OK;
}

/* ---- Adding ---- */

static mrd_err
worker_add(mrd_steps *steps, const mrd_work *work, const mrd_event *ev)
{
    mrd_steps_row like = { .name = ev->name, .size = MRD_NONE };
    int64_t step = step_of(&steps->processes[work->process], ev->ts);
    mrd_worker_pause pause;

    mrd_worker_time_add(&steps->workers[work->worker].time, work->on, work->device, ev, &pause);
    if (work->kind == MRD_CC_SYNC || work->kind == MRD_CC_BARRIER ||
        (work->kind == MRD_CC_SENDRECV && steps->all_to_all)) {
        mrd_err err =
            mrd_gather_add(steps->gather, work->kind, &work->what, ev, work->worker, step);

        return err != MRD_OK ? err : steps->err;
    }
    if (work->kind != MRD_CC_NO)
        like.size = work->what.size;
    like.kind = work->on == MRD_ON_COPY      ? MRD_OP_COPY
                : work->on == MRD_ON_COMPUTE ? MRD_OP_COMPUTE
                : work->on == MRD_ON_HOST    ? MRD_OP_RUNTIME
                : work->on == MRD_ON_BARRIER ? MRD_OP_WAITING
                                             : MRD_OP_COLLECTIVE;
    return operation(steps, like, work->process, step, (uint64_t) ev->dur_ns);
}

static void
loss_add(mrd_steps *steps, const mrd_event *ev)
{
    mrd_work_on on;

    for (uint32_t i = 0; i < steps->n_workers; i++) {
        if (mrd_workers_lost(steps->who, ev, i, &on))
            mrd_worker_time_lose(&steps->workers[i].time, on, ev);
    }
}

mrd_err
mrd_steps_add(mrd_steps *steps, const mrd_event *ev)
{
    mrd_steps_row like = { .kind = MRD_OP_HOST, .name = ev->name, .size = MRD_NONE };
    mrd_work work;
    mrd_err err;

    if (!mrd_workers_knows(steps->who, ev->track))
        return MRD_STATE;
    if ((err = steps_over(steps, ev->ts)) != MRD_OK)
        return err;
    if (ev->kind == MRD_LOSS)
        loss_add(steps, ev);
    switch (mrd_workers_see(steps->who, ev, &work)) {
    case MRD_WORK_WORKER:
        return worker_add(steps, &work, ev);
    case MRD_WORK_STEP:
        return step_add(steps, work.process, ev);
    case MRD_WORK_LOADING:
    case MRD_WORK_HOST:
        return operation(steps, like, work.process,
                         step_of(&steps->processes[work.process], ev->ts), (uint64_t) ev->dur_ns);
    case MRD_WORK_NONE:
    case MRD_WORK_BESIDE:
        break;
    }
    return MRD_OK;
}

/* ---- Lifecycle ---- */

static void
workers_make(mrd_steps *steps)
{
    for (uint32_t i = 0; i < steps->n_workers; i++) {
        process_state *state = &steps->processes[mrd_workers_at(steps->who, i)->process];

        mrd_worker_time_init(&steps->workers[i].time);
        if (state->n_workers++ == 0)
            state->first_worker = i;
    }
}

mrd_steps *
mrd_steps_new(const mrd_sink_env *env)
{
    mrd_steps *steps = calloc(1, sizeof(*steps));

    if (steps == NULL)
        return NULL;
    steps->cat = env->catalog;
    steps->totals.by_call = true;
    steps->totals.width = 1;
    steps->who = mrd_workers_new(env);
    steps->gather = mrd_gather_new(steps->cat, collective_done, steps);
    steps->all_to_all = mrd_collectives_all_to_all(steps->cat);
    steps->n_processes = mrd_catalog_processes(steps->cat);
    steps->processes = calloc(steps->n_processes + 1, sizeof(*steps->processes));
    steps->ends = calloc(steps->n_processes + 1, sizeof(*steps->ends));
    steps->n_workers = steps->who == NULL ? 0 : mrd_workers_count(steps->who);
    steps->workers = calloc(steps->n_workers + 1, sizeof(*steps->workers));
    if (steps->who == NULL || steps->gather == NULL || steps->processes == NULL ||
        steps->ends == NULL || steps->workers == NULL) {
        mrd_steps_free(steps);
        return NULL;
    }
    for (size_t i = 0; i < steps->n_processes; i++)
        steps->processes[i].step = NO_STEP;
    workers_make(steps);
    return steps;
}

void
mrd_steps_free(mrd_steps *steps)
{
    if (steps == NULL)
        return;
    for (size_t i = 0; i < steps->n_rows; i++)
        free(steps->rows[i]);
    for (size_t i = 0; steps->processes != NULL && i < steps->n_processes; i++)
        free(steps->processes[i].pub);
    free(steps->rows);
    free(steps->places);
    free(steps->paced);
    free(steps->processes);
    free(steps->workers);
    free(steps->ends);
    mrd_map_fini(&steps->row_of);
    mrd_map_fini(&steps->place_of);
    mrd_gather_free(steps->gather);
    mrd_workers_free(steps->who);
    free(steps);
}

static int
row_order(const mrd_catalog *cat, const mrd_steps_row *x, const mrd_steps_row *y)
{
    int order = x->kind != y->kind ? (x->kind < y->kind ? -1 : 1) : 0;

    if (order == 0 && x->kind == MRD_OP_PART)
        return x->part < y->part ? -1 : x->part > y->part;
    if (order == 0)
        order = strcmp(mrd_catalog_text(cat, x->name).p, mrd_catalog_text(cat, y->name).p);
    return order != 0 ? order : x->size < y->size ? -1 : x->size > y->size;
}

typedef struct {
    mrd_steps_row *row;
    uint32_t was;
} numbered;

static int
numbered_order(const void *a, const void *b, void *self)
{
    const numbered *x = a, *y = b;

    return row_order(self, x->row, y->row);
}

static int
place_order(const void *a, const void *b)
{
    const mrd_steps_place *x = a, *y = b;

    if (x->row != y->row)
        return x->row < y->row ? -1 : 1;
    return x->process < y->process ? -1 : x->process > y->process;
}

static int
paced_order(const void *a, const void *b, void *self)
{
    const mrd_steps_process *x = a, *y = b;

    return mrd_workers_process_order(self, x->process, y->process);
}

/* Sorts rows and places as the header describes. `row` in the places is updated to the new
 * order. */
static mrd_err
sort_rows(mrd_steps *steps)
{
    numbered *order = calloc(steps->n_rows + 1, sizeof(*order));
    uint32_t *now = calloc(steps->n_rows + 1, sizeof(*now));

    if (order != NULL && now != NULL) {
        for (uint32_t i = 0; i < steps->n_rows; i++)
            order[i] = (numbered){ steps->rows[i], i };
        qsort_r(order, steps->n_rows, sizeof(*order), numbered_order,
                (void *) (uintptr_t) steps->cat);
        for (uint32_t i = 0; i < steps->n_rows; i++) {
            steps->rows[i] = order[i].row;
            now[order[i].was] = i;
        }
        for (size_t i = 0; i < steps->n_places; i++)
            steps->places[i].row = now[steps->places[i].row];
        if (steps->n_places > 0)
            qsort(steps->places, steps->n_places, sizeof(*steps->places), place_order);
    }
    free(order);
    free(now);
    return order == NULL || now == NULL ? MRD_NOMEM : MRD_OK;
}

mrd_err
mrd_steps_finish(mrd_steps *steps)
{
    mrd_err err;

    mrd_gather_finish(steps->gather);
    if ((err = steps->err) != MRD_OK ||
        (err = steps_over(steps, (mrd_ev_ns){ INT64_MAX })) != MRD_OK ||
        (err = sort_rows(steps)) != MRD_OK)
        return err;
    if ((steps->paced = calloc(steps->n_processes + 1, sizeof(*steps->paced))) == NULL)
        return MRD_NOMEM;
    for (size_t i = 0; i < steps->n_processes; i++) {
        if (steps->processes[i].pub != NULL)
            steps->paced[steps->n_paced++] = *steps->processes[i].pub;
    }
    if (steps->n_paced > 0)
        qsort_r(steps->paced, steps->n_paced, sizeof(*steps->paced), paced_order,
                (void *) (uintptr_t) steps->cat);
    return MRD_OK;
}

/* ---- Results ---- */

const mrd_steps_totals *
mrd_steps_totals_of(const mrd_steps *steps)
{
    return &steps->totals;
}

size_t
mrd_steps_rows(const mrd_steps *steps)
{
    return steps->n_rows;
}

const mrd_steps_row *
mrd_steps_row_at(const mrd_steps *steps, size_t i)
{
    return steps->rows[i];
}

const mrd_steps_process *
mrd_steps_processes(const mrd_steps *steps, size_t *ret_n)
{
    *ret_n = steps->n_paced;
    return steps->paced;
}

const mrd_steps_place *
mrd_steps_places(const mrd_steps *steps, size_t *ret_n)
{
    *ret_n = steps->n_places;
    return steps->places;
}
