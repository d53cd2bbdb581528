#include "trace/analysis/judge/steps.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/obj.h"
#include "base/vec.h"
#include "trace/analysis/gather.h"

enum { NO_STEP = -1 };

/* The state of a process within its steps. */
typedef struct {
    mrd_ev_ns begin, end;             /* of the current or last step */
    int64_t step;                     /* number of this step; NO_STEP if there was none */
    bool open;                        /* its end was not reached yet */
    uint32_t first_worker, n_workers; /* in `workers` */
    mrd_steps_process *pub;           /* NULL until its first step */
} process_state;

typedef struct {
    mrd_worker_time time;
    uint64_t at_begin[MRD_REPORT_PARTS]; /* the account at the begin of the step */
} worker_state;

/* A step that has not ended. */
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
    /* by worker number, so workers of a process are neighbours */
    worker_state *workers;
    size_t n_workers;
    step_end *ends; /* a heap with the earliest end first */
    size_t n_ends;
    mrd_map row_of; /* kind, name, size -> row */
    mrd_steps_row **rows;
    size_t n_rows, cap_rows, n_host;
    mrd_map place_of; /* row, process -> place */
    mrd_steps_place *places;
    size_t n_places, cap_places;
    mrd_steps_process *paced; /* made by finish */
    size_t n_paced;
    mrd_steps_totals totals;
    mrd_err err; /* error of a callback of gather */
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

/* Adds up neighbours, so that half of the blocks become free. */
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
widen(mrd_steps *s)
{
    s->totals.width *= 2;
    for (size_t i = 0; i < s->n_rows; i++) {
        halve_ns(s->rows[i]->block_ns);
        halve_counts(s->rows[i]->block_calls);
    }
    for (size_t i = 0; i < s->n_processes; i++) {
        mrd_steps_process *pub = s->processes[i].pub;

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
row_make(mrd_steps *s, mrd_map_key key, const mrd_steps_row *like)
{
    mrd_steps_row *row;

    if (!MRD_VEC_ROOM(s->rows, s->n_rows, s->cap_rows, 1) ||
        (row = calloc(1, sizeof(*row))) == NULL)
        return NULL;
    if (mrd_map_put(&s->row_of, key, (uint32_t) s->n_rows) != MRD_OK) {
        free(row);
        return NULL;
    }
    row->kind = like->kind;
    row->name = like->name;
    row->part = like->part;
    row->size = like->size;
    row->width = 1;
    s->rows[s->n_rows++] = row;
    s->n_host += like->kind == MRD_OP_HOST;
    return row;
}

/* Returns the row of an operation, or the row for the rest of its kind. Stores its number in
 * *ret_at. */
static mrd_steps_row *
row_of(mrd_steps *s, mrd_steps_row *like, uint32_t *ret_at)
{
    mrd_map_key key = { like->kind, like->kind == MRD_OP_PART ? like->part : like->name,
                        (uint64_t) like->size };
    bool full;

    *ret_at = mrd_map_get(&s->row_of, key);
    if (*ret_at != MRD_MAP_NONE)
        return s->rows[*ret_at];
    full = s->n_rows >= MRD_STEPS_ROWS ||
           (like->kind == MRD_OP_HOST && s->n_host >= MRD_STEPS_ROWS / 2);
    if (full && like->kind != MRD_OP_PART) {
        s->totals.rest++;
        like->name = MRD_SID_EMPTY;
        like->size = MRD_NONE;
        key = (mrd_map_key){ like->kind, MRD_SID_EMPTY, (uint64_t) MRD_NONE };
        if ((*ret_at = mrd_map_get(&s->row_of, key)) != MRD_MAP_NONE)
            return s->rows[*ret_at];
    }
    *ret_at = (uint32_t) s->n_rows;
    return row_make(s, key, like);
}

static mrd_err
place_add(mrd_steps *s, uint32_t row, mrd_proc_id process, uint64_t ns)
{
    mrd_map_key key = { row, process, 0 };
    uint32_t at = mrd_map_get(&s->place_of, key);

    if (at == MRD_MAP_NONE) {
        if (s->n_places == MRD_STEPS_PLACES) {
            s->totals.unplaced++;
            return MRD_OK;
        }
        if (!MRD_VEC_ROOM(s->places, s->n_places, s->cap_places, 1) ||
            mrd_map_put(&s->place_of, key, (uint32_t) s->n_places) != MRD_OK)
            return MRD_NOMEM;
        at = (uint32_t) s->n_places;
        s->places[s->n_places++] = (mrd_steps_place){ .row = row, .process = process };
    }
    s->places[at].calls++;
    s->places[at].ns += ns;
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

/* Returns the step of this process at time `at`, NO_STEP if there is none. `at` is at or after all
 * earlier events. */
static int64_t
step_of(const process_state *p, mrd_ev_ns at)
{
    return p->step != NO_STEP && mrd_ev_before(at, p->end) ? p->step : NO_STEP;
}

static mrd_err
operation(mrd_steps *s, mrd_steps_row like, mrd_proc_id process, int64_t step, uint64_t ns)
{
    mrd_steps_row *row;
    uint32_t i;

    if (!s->totals.by_call && step == NO_STEP) {
        s->totals.outside_ns += like.kind == MRD_OP_HOST ? 0 : ns;
        return MRD_OK;
    }
    if ((row = row_of(s, &like, &i)) == NULL)
        return MRD_NOMEM;
    if (s->totals.by_call)
        put_by_call(row, ns);
    else
        put_block(&row->block_ns[(uint64_t) step / s->totals.width],
                  &row->block_calls[(uint64_t) step / s->totals.width], ns);
    row->calls++;
    row->ns += ns;
    return place_add(s, i, process, ns);
}

static void
collective_done(void *self, const mrd_gathered *c)
{
    mrd_steps *s = self;
    mrd_ev_ns last = c->parts[c->n - 1].begin;

    for (size_t i = 0; i < c->n; i++) {
        const mrd_gather_part *p = &c->parts[i];
        mrd_proc_id process = mrd_workers_at(s->who, p->core)->process;
        mrd_ev_ns met = mrd_ev_before(last, p->end)
                            ? last
                            : p->end; /* clocks may place an end before the last begin */
        mrd_steps_row like = { .kind = MRD_OP_COLLECTIVE, .name = c->name, .size = c->size };
        mrd_err err =
            operation(s, like, process, p->mark, (uint64_t) p->end.ns - (uint64_t) met.ns);

        like.kind = MRD_OP_WAITING;
        if (err == MRD_OK && c->n > 1)
            err = operation(s, like, process, p->mark, (uint64_t) met.ns - (uint64_t) p->begin.ns);
        s->err = s->err != MRD_OK ? s->err : err;
    }
}

/* ---- Steps ---- */

static void
heap_down(mrd_steps *s, size_t i)
{
    step_end v = s->ends[i];

    for (size_t child; (child = 2 * i + 1) < s->n_ends; i = child) {
        if (child + 1 < s->n_ends && mrd_ev_before(s->ends[child + 1].end, s->ends[child].end))
            child++;
        if (!mrd_ev_before(s->ends[child].end, v.end))
            break;
        s->ends[i] = s->ends[child];
    }
    s->ends[i] = v;
}

static void
heap_push(mrd_steps *s, step_end v)
{
    size_t i = s->n_ends++;

    for (; i > 0 && mrd_ev_after(s->ends[(i - 1) / 2].end, v.end); i = (i - 1) / 2)
        s->ends[i] = s->ends[(i - 1) / 2];
    s->ends[i] = v;
}

static mrd_err
part_add(mrd_steps *s, mrd_report_part part, uint64_t block, uint64_t ns)
{
    mrd_steps_row like = { .kind = MRD_OP_PART, .part = part, .size = MRD_NONE }, *row;
    uint32_t at;

    if ((row = row_of(s, &like, &at)) == NULL)
        return MRD_NOMEM;
    put_block(&row->block_ns[block], &row->block_calls[block], ns);
    row->calls++;
    row->ns += ns;
    return MRD_OK;
}

/* Returns true if a worker that only waits for others has no more of this part. */
static bool
is_own(mrd_report_part part)
{
    return part == MRD_REPORT_COMPUTE || part == MRD_REPORT_BOTH || part == MRD_REPORT_COPY ||
           part == MRD_REPORT_HOST || part == MRD_REPORT_IDLE;
}

/* Adds the step of the busiest worker of the process. */
static void
own_add(mrd_steps_process *pub, const uint64_t parts[MRD_REPORT_PARTS], uint64_t block)
{
    for (unsigned k = 0; k < MRD_REPORT_PARTS; k++)
        pub->own_ns[k][block] += is_own((mrd_report_part) k) ? parts[k] : 0;
    pub->own_steps[block] += pub->own_steps[block] < UINT32_MAX;
}

/* Ends a step. All events before p->end have come. */
static mrd_err
step_over(mrd_steps *s, process_state *p)
{
    uint64_t block = (uint64_t) p->step / s->totals.width,
             dur = (uint64_t) p->end.ns - (uint64_t) p->begin.ns, most = 0;
    uint64_t busiest[MRD_REPORT_PARTS] = { 0 };
    bool any = false;
    mrd_err err = MRD_OK;

    p->open = false;
    p->pub->steps++;
    p->pub->ns += dur;
    put_block(&p->pub->block_ns[block], &p->pub->block_steps[block], dur);
    for (uint32_t i = 0; i < p->n_workers && err == MRD_OK; i++) {
        worker_state *w = &s->workers[p->first_worker + i];
        uint64_t now[MRD_REPORT_PARTS], parts[MRD_REPORT_PARTS], own = 0;

        if (!w->time.any || mrd_ev_after(w->time.first, p->begin))
            continue; /* the account was unknown at the begin of the step */
        mrd_worker_time_read(&w->time, p->end, now);
        for (unsigned k = 0; k < MRD_REPORT_PARTS && err == MRD_OK; k++) {
            parts[k] = now[k] - w->at_begin[k];
            own += is_own((mrd_report_part) k) ? parts[k] : 0;
            err = part_add(s, (mrd_report_part) k, block, parts[k]);
        }
        if (err == MRD_OK && own >= most) {
            most = own;
            memcpy(busiest, parts, sizeof(busiest));
            any = true;
        }
    }
    if (any)
        own_add(p->pub, busiest, block);
    return err;
}

static mrd_err
steps_over(mrd_steps *s, mrd_ev_ns now)
{
    mrd_err err = MRD_OK;

    while (err == MRD_OK && s->n_ends > 0 && !mrd_ev_after(s->ends[0].end, now)) {
        mrd_proc_id process = s->ends[0].process;

        s->ends[0] = s->ends[--s->n_ends];
        if (s->n_ends > 0)
            heap_down(s, 0);
        err = step_over(s, &s->processes[process]);
    }
    return err;
}

/* Begins the first step. All counts by call began before it, so their time becomes outside time. */
static void
steps_begin(mrd_steps *s)
{
    s->totals.by_call = false;
    for (size_t i = 0; i < s->n_rows; i++) {
        s->totals.outside_ns += s->rows[i]->kind == MRD_OP_HOST ? 0 : s->rows[i]->ns;
        free(s->rows[i]);
    }
    mrd_map_fini(&s->row_of);
    mrd_map_fini(&s->place_of);
    s->n_rows = s->n_host = s->n_places = 0;
    s->totals.rest = s->totals.unplaced = 0;
}

static mrd_err
step_add(mrd_steps *s, mrd_proc_id process, const mrd_event *ev)
{
    process_state *p = &s->processes[process];

    if (p->open) {
        s->totals.nested++;
        return MRD_OK;
    }
    if (ev->dur_ns == 0)
        return MRD_OK;
    if (s->totals.by_call)
        steps_begin(s);
    if (p->pub == NULL && (p->pub = calloc(1, sizeof(*p->pub))) == NULL)
        return MRD_NOMEM;
    p->pub->process = process;
    p->begin = ev->ts;
    p->end = mrd_event_end(ev);
    p->open = true;
    p->step++;
    if ((uint64_t) p->step / s->totals.width == MRD_STEPS_BLOCKS)
        widen(s);
    for (uint32_t i = 0; i < p->n_workers; i++) {
        worker_state *w = &s->workers[p->first_worker + i];

        mrd_worker_time_read(&w->time, p->begin, w->at_begin);
    }
    heap_push(s, (step_end){ .end = p->end, .process = process });
    return MRD_OK;
}

/* ---- Adding ---- */

static mrd_err
worker_add(mrd_steps *s, const mrd_work *work, const mrd_event *ev)
{
    mrd_steps_row like = { .name = ev->name, .size = MRD_NONE };
    int64_t step = step_of(&s->processes[work->process], ev->ts);
    mrd_worker_pause pause;

    mrd_worker_time_add(&s->workers[work->worker].time, work->on, work->device, ev, &pause);
    if (work->kind == MRD_CC_SYNC || work->kind == MRD_CC_BARRIER ||
        (work->kind == MRD_CC_SENDRECV && s->all_to_all)) {
        mrd_err err = mrd_gather_add(s->gather, work->kind, &work->what, ev, work->worker, step);

        return err != MRD_OK ? err : s->err;
    }
    if (work->kind != MRD_CC_NO)
        like.size = work->what.size;
    like.kind = work->on == MRD_ON_COPY      ? MRD_OP_COPY
                : work->on == MRD_ON_COMPUTE ? MRD_OP_COMPUTE
                : work->on == MRD_ON_HOST    ? MRD_OP_RUNTIME
                : work->on == MRD_ON_BARRIER ? MRD_OP_WAITING
                                             : MRD_OP_COLLECTIVE;
    return operation(s, like, work->process, step, (uint64_t) ev->dur_ns);
}

static void
loss_add(mrd_steps *s, const mrd_event *ev)
{
    mrd_work_on on;

    for (uint32_t i = 0; i < s->n_workers; i++) {
        if (mrd_workers_lost(s->who, ev, i, &on))
            mrd_worker_time_lose(&s->workers[i].time, on, ev);
    }
}

mrd_err
mrd_steps_add(mrd_steps *s, const mrd_event *ev)
{
    mrd_steps_row like = { .kind = MRD_OP_HOST, .name = ev->name, .size = MRD_NONE };
    mrd_work work;
    mrd_err err;

    if (!mrd_workers_knows(s->who, ev->track))
        return MRD_STATE;
    if ((err = steps_over(s, ev->ts)) != MRD_OK)
        return err;
    if (ev->kind == MRD_LOSS)
        loss_add(s, ev);
    switch (mrd_workers_see(s->who, ev, &work)) {
    case MRD_WORK_WORKER:
        return worker_add(s, &work, ev);
    case MRD_WORK_STEP:
        return step_add(s, work.process, ev);
    case MRD_WORK_LOADING:
    case MRD_WORK_HOST:
        return operation(s, like, work.process, step_of(&s->processes[work.process], ev->ts),
                         (uint64_t) ev->dur_ns);
    case MRD_WORK_NONE:
    case MRD_WORK_BESIDE:
        break;
    }
    return MRD_OK;
}

/* ---- Lifecycle ---- */

static void
workers_make(mrd_steps *s)
{
    for (uint32_t i = 0; i < s->n_workers; i++) {
        process_state *p = &s->processes[mrd_workers_at(s->who, i)->process];

        mrd_worker_time_init(&s->workers[i].time);
        if (p->n_workers++ == 0)
            p->first_worker = i;
    }
}

mrd_steps *
mrd_steps_new(const mrd_sink_env *env)
{
    mrd_steps *s = calloc(1, sizeof(*s));

    if (s == NULL)
        return NULL;
    s->cat = env->catalog;
    s->totals.by_call = true;
    s->totals.width = 1;
    s->who = mrd_workers_new(env);
    s->gather = mrd_gather_new(s->cat, collective_done, s);
    s->all_to_all = mrd_collectives_all_to_all(s->cat);
    s->n_processes = mrd_catalog_processes(s->cat);
    s->processes = calloc(s->n_processes + 1, sizeof(*s->processes));
    s->ends = calloc(s->n_processes + 1, sizeof(*s->ends));
    s->n_workers = s->who == NULL ? 0 : mrd_workers_count(s->who);
    s->workers = calloc(s->n_workers + 1, sizeof(*s->workers));
    if (s->who == NULL || s->gather == NULL || s->processes == NULL || s->ends == NULL ||
        s->workers == NULL) {
        mrd_steps_free(s);
        return NULL;
    }
    for (size_t i = 0; i < s->n_processes; i++)
        s->processes[i].step = NO_STEP;
    workers_make(s);
    return s;
}

void
mrd_steps_free(mrd_steps *s)
{
    if (s == NULL)
        return;
    for (size_t i = 0; i < s->n_rows; i++)
        free(s->rows[i]);
    for (size_t i = 0; s->processes != NULL && i < s->n_processes; i++)
        free(s->processes[i].pub);
    free(s->rows);
    free(s->places);
    free(s->paced);
    free(s->processes);
    free(s->workers);
    free(s->ends);
    mrd_map_fini(&s->row_of);
    mrd_map_fini(&s->place_of);
    mrd_gather_free(s->gather);
    mrd_workers_free(s->who);
    free(s);
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

/* Sorts rows as the header describes. Places follow their rows. */
static mrd_err
sort_rows(mrd_steps *s)
{
    numbered *order = calloc(s->n_rows + 1, sizeof(*order));
    uint32_t *now = calloc(s->n_rows + 1, sizeof(*now));

    if (order != NULL && now != NULL) {
        for (uint32_t i = 0; i < s->n_rows; i++)
            order[i] = (numbered){ s->rows[i], i };
        qsort_r(order, s->n_rows, sizeof(*order), numbered_order, (void *) (uintptr_t) s->cat);
        for (uint32_t i = 0; i < s->n_rows; i++) {
            s->rows[i] = order[i].row;
            now[order[i].was] = i;
        }
        for (size_t i = 0; i < s->n_places; i++)
            s->places[i].row = now[s->places[i].row];
        if (s->n_places > 0)
            qsort(s->places, s->n_places, sizeof(*s->places), place_order);
    }
    free(order);
    free(now);
    return order == NULL || now == NULL ? MRD_NOMEM : MRD_OK;
}

mrd_err
mrd_steps_finish(mrd_steps *s)
{
    mrd_err err;

    mrd_gather_finish(s->gather);
    if ((err = s->err) != MRD_OK || (err = steps_over(s, (mrd_ev_ns){ INT64_MAX })) != MRD_OK ||
        (err = sort_rows(s)) != MRD_OK)
        return err;
    if ((s->paced = calloc(s->n_processes + 1, sizeof(*s->paced))) == NULL)
        return MRD_NOMEM;
    for (size_t i = 0; i < s->n_processes; i++) {
        if (s->processes[i].pub != NULL)
            s->paced[s->n_paced++] = *s->processes[i].pub;
    }
    if (s->n_paced > 0)
        qsort_r(s->paced, s->n_paced, sizeof(*s->paced), paced_order, (void *) (uintptr_t) s->cat);
    return MRD_OK;
}

/* ---- Results ---- */

const mrd_steps_totals *
mrd_steps_totals_of(const mrd_steps *s)
{
    return &s->totals;
}

size_t
mrd_steps_rows(const mrd_steps *s)
{
    return s->n_rows;
}

const mrd_steps_row *
mrd_steps_row_at(const mrd_steps *s, size_t i)
{
    return s->rows[i];
}

const mrd_steps_process *
mrd_steps_processes(const mrd_steps *s, size_t *ret_n)
{
    *ret_n = s->n_paced;
    return s->paced;
}

const mrd_steps_place *
mrd_steps_places(const mrd_steps *s, size_t *ret_n)
{
    *ret_n = s->n_places;
    return s->places;
}
