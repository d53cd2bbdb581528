#include "trace/analysis/judge/host_work.h"

#include <stdlib.h>

#include "base/map.h"
#include "base/num.h"
#include "base/vec.h"

/* A host span that may overlap a worker's current pause. A pause is a time in which the worker's
 * device runs nothing. */
typedef struct {
    mrd_ev_ns begin, end;
    /* index of the name's row in `rows`, and the span's worker; MRD_NO_WORKER means all workers of
     * the process */
    uint32_t row, worker;
} host_span;

typedef struct {
    /* host spans that have not ended yet or are not fully counted, ordered by begin */
    host_span kept[MRD_HOST_WORK_OPEN];
    unsigned n;
    /* first worker of the process and number of workers, from mrd_workers_of_process */
    uint32_t first, workers;
} process_state;

typedef struct {
    mrd_ev_ns device_end, lost_end;
    mrd_ev_ns counted; /* time up to which the worker's pauses are counted */
    mrd_host_excess most;
    double most_score;
    bool any;
} worker_state;

/* All host spans of one name in a process. */
typedef struct {
    mrd_sid name;
    uint32_t first;  /* worker that the row's first cell belongs to */
    uint32_t n;      /* number of cells, one per worker */
    size_t cells;    /* index in `cells` of the row's first cell */
    uint64_t all_ns; /* sum of the lengths of all spans of this name */
} name_row;

/* How much of a worker's pauses the spans of one name cover. */
typedef struct {
    /* ns is the covered time of all pauses. last_ns is the part of ns that lies in the last
     * pause. */
    uint64_t ns, last_ns;
    /* end of the time counted for this name, so that overlapping spans count once */
    mrd_ev_ns until;
} name_cell;

struct mrd_host_work {
    process_state **processes; /* indexed by process; NULL for a process without workers */
    size_t n_processes;
    worker_state *workers;
    size_t n_workers;
    bool on_host;    /* computation runs on the host, between collectives */
    mrd_map by_name; /* hash of process and name -> index in `rows` */
    name_row *rows;
    size_t n_rows, cap_rows;
    name_cell *cells;
    size_t n_cells, cap_cells;
};

mrd_host_work *
mrd_host_work_new(const mrd_workers *who, size_t processes)
{
    mrd_host_work *work = calloc(1, sizeof(*work));

    if (work == NULL)
        return NULL;
    work->n_workers = mrd_workers_count(who);
    work->on_host = mrd_workers_are_hosts(who);
    work->workers = calloc(work->n_workers + 1, sizeof(*work->workers));
    work->processes = calloc(processes + 1, sizeof(process_state *));
    work->n_processes = work->processes == NULL ? 0 : processes;
    if (work->workers == NULL || work->processes == NULL)
        goto fail;
    for (size_t i = 0; i < work->n_workers; i++) {
        work->workers[i].device_end = (mrd_ev_ns){ INT64_MIN };
        work->workers[i].lost_end = work->workers[i].counted = work->workers[i].device_end;
    }
    for (mrd_proc_id id = 0; id < processes; id++) {
        uint32_t first, n = mrd_workers_of_process(who, id, &first);

        if (n == 0)
            continue;
        if ((work->processes[id] = calloc(1, sizeof(process_state))) == NULL)
            goto fail;
        work->processes[id]->first = first;
        work->processes[id]->workers = n;
    }
    return work;
fail:
    mrd_host_work_free(work);
    return NULL;
}

void
mrd_host_work_free(mrd_host_work *work)
{
    if (work == NULL)
        return;
    for (size_t i = 0; i < work->n_processes; i++)
        free(work->processes[i]);
    free(work->processes);
    free(work->workers);
    mrd_map_fini(&work->by_name);
    free(work->rows);
    free(work->cells);
    free(work);
}

/* Counts how much of the worker's current pause, up to `to`, is covered by the spans in `kept`.
 * Later calls continue from `to`. */
static void
count_pause(mrd_host_work *work, const process_state *state, uint32_t worker, mrd_ev_ns to)
{
    worker_state *w = &work->workers[worker];
    mrd_ev_ns from = mrd_ev_max(w->device_end, w->counted);

    if (!mrd_ev_before(from, to))
        return;
    w->counted = to;
    if (mrd_ev_after(w->lost_end, w->device_end))
        return;
    for (unsigned i = 0; i < state->n; i++) {
        const host_span *span = &state->kept[i];
        mrd_ev_ns begin, end = mrd_ev_min(span->end, to);
        name_cell *cell;

        if (!mrd_ev_after(end, from) || (span->worker != MRD_NO_WORKER && span->worker != worker))
            continue;
        cell = &work->cells[work->rows[span->row].cells + worker - state->first];
        begin = mrd_ev_max(mrd_ev_max(span->begin, from), cell->until);
        if (!mrd_ev_before(begin, end))
            continue;
        if (!mrd_ev_after(cell->until, w->device_end)) /* first span of this name in this pause */
            cell->last_ns = 0;
        cell->ns += (uint64_t) end.ns - (uint64_t) begin.ns;
        cell->last_ns += (uint64_t) end.ns - (uint64_t) begin.ns;
        cell->until = end;
    }
}

/* Subtracts the host time that was counted for the worker's current pause (no device span runs).
 * The pause is not used, because no device span follows it or events in it were lost. */
static void
drop_pause(mrd_host_work *work, uint32_t worker)
{
    const worker_state *state = &work->workers[worker];

    if (!mrd_ev_after(state->counted, state->device_end))
        return;
    for (size_t i = 0; i < work->n_rows; i++) {
        const name_row *row = &work->rows[i];
        name_cell *cell;

        if (worker < row->first || worker - row->first >= row->n)
            continue;
        cell = &work->cells[row->cells + worker - row->first];
        if (!mrd_ev_after(cell->until, state->device_end))
            continue;
        cell->ns -= cell->last_ns;
        cell->last_ns = 0;
    }
}

/* Drops the spans that ended by `now`. They have been counted for all workers. */
static void
forget_ended(process_state *state, mrd_ev_ns now)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < state->n; i++) {
        if (mrd_ev_after(state->kept[i].end, now))
            state->kept[kept++] = state->kept[i];
    }
    state->n = kept;
}

/* Makes space in the list of kept spans when it is full. */
static void
make_space(mrd_host_work *work, process_state *state, mrd_ev_ns now)
{
    unsigned first = 0;

    for (uint32_t i = 0; i < state->workers; i++)
        count_pause(work, state, state->first + i, now);
    forget_ended(state, now);
    if (state->n < MRD_HOST_WORK_OPEN)
        return;
    for (unsigned i = 1; i < state->n; i++)
        first = mrd_ev_before(state->kept[i].end, state->kept[first].end) ? i : first;
    for (unsigned i = first + 1; i < state->n; i++)
        state->kept[i - 1] = state->kept[i];
    state->n--;
}

/* Returns the row of a name. UINT32_MAX if out of memory. */
static uint32_t
find_row(mrd_host_work *work, mrd_proc_id process, mrd_sid name)
{
    const process_state *state = work->processes[process];
    mrd_map_key key = { process, name, 0 };
    uint32_t i = mrd_map_get(&work->by_name, key);

    if (i != MRD_MAP_NONE)
        return i;
    if (!MRD_VEC_ROOM(work->rows, work->n_rows, work->cap_rows, 1) ||
        !MRD_VEC_ROOM(work->cells, work->n_cells, work->cap_cells, state->workers) ||
        mrd_map_put(&work->by_name, key, (uint32_t) work->n_rows) != MRD_OK)
        return UINT32_MAX;
    work->rows[work->n_rows] = (name_row){
        .name = name, .first = state->first, .n = state->workers, .cells = work->n_cells
    };
    for (uint32_t k = 0; k < state->workers; k++)
        work->cells[work->n_cells++] = (name_cell){ .until = { INT64_MIN } };
    return (uint32_t) work->n_rows++;
}

static mrd_err
add_host(mrd_host_work *host_work, const mrd_work *work, uint32_t worker, const mrd_event *ev)
{
    process_state *state = host_work->processes[work->process];
    uint32_t row;

    if (state == NULL || ev->dur_ns <= 0)
        return MRD_OK;
    if ((row = find_row(host_work, work->process, ev->name)) == UINT32_MAX)
        return MRD_NOMEM;
    host_work->rows[row].all_ns += (uint64_t) ev->dur_ns;
    if (state->n == MRD_HOST_WORK_OPEN)
        make_space(host_work, state, ev->ts);
    state->kept[state->n++] =
        (host_span){ .begin = ev->ts, .end = mrd_event_end(ev), .row = row, .worker = worker };
    return MRD_OK;
}

mrd_err
mrd_host_work_add(mrd_host_work *host_work, mrd_work_kind kind, const mrd_work *work,
                  const mrd_event *ev)
{
    process_state *state;
    worker_state *w;

    if (kind == MRD_WORK_HOST || kind == MRD_WORK_LOADING)
        return add_host(host_work, work, MRD_NO_WORKER, ev);
    if (kind != MRD_WORK_WORKER)
        return MRD_OK;
    if (!work->device)
        return add_host(host_work, work, work->worker, ev);
    w = &host_work->workers[work->worker];
    state = host_work->processes[work->process];
    count_pause(host_work, state, work->worker, ev->ts);
    if (state->workers == 1)
        forget_ended(state, ev->ts);
    w->any = true;
    w->device_end = mrd_ev_max(w->device_end, mrd_event_end(ev));
    return MRD_OK;
}

void
mrd_host_work_lose(mrd_host_work *work, uint32_t worker, const mrd_event *ev)
{
    worker_state *state = &work->workers[worker];
    mrd_ev_ns end = mrd_ev_max(state->lost_end, mrd_event_end(ev));

    if (mrd_ev_after(end, state->device_end) && !mrd_ev_after(state->lost_end, state->device_end))
        drop_pause(work, worker);
    state->lost_end = end;
}

static int
row_order(const void *a, const void *b)
{
    const name_row *x = a, *y = b;

    return x->name != y->name ? (x->name < y->name ? -1 : 1)
                              : (x->first < y->first ? -1 : x->first > y->first);
}

/* Returns the median, over all workers, of the time that one name covers. `row` is the first of
 * `rows` rows with this name, one per process. A worker without a cell counts as 0. `values` has
 * room for one value per worker. For an even number of workers, the lower of both middle values is
 * returned. */
static uint64_t
median_of(const mrd_host_work *work, const name_row *row, size_t rows, size_t workers,
          uint64_t *values)
{
    size_t n = 0, middle = (workers - 1) / 2;

    for (size_t i = 0; i < rows; i++) {
        for (uint32_t k = 0; k < row[i].n; k++) {
            if (work->workers[row[i].first + k].any && work->cells[row[i].cells + k].ns > 0)
                values[n++] = work->cells[row[i].cells + k].ns;
        }
    }
    if (middle < workers - n)
        return 0;
    qsort(values, n, sizeof(*values), mrd_u64_order);
    return values[middle - (workers - n)];
}

/* Makes this name the answer for each worker for which the name's score exceeds the scores of all
 * names before it. */
static void
judge_name(mrd_host_work *work, const name_row *row, uint64_t median_ns)
{
    for (uint32_t k = 0; k < row->n; k++) {
        worker_state *state = &work->workers[row->first + k];
        uint64_t ns = work->cells[row->cells + k].ns;
        double excess = ns > median_ns ? (double) (ns - median_ns) : 0,
               score = excess * excess / (double) row->all_ns;

        if (score <= state->most_score)
            continue;
        state->most = (mrd_host_excess){ .name = row->name, .ns = ns, .median_ns = median_ns };
        state->most_score = score;
    }
}

mrd_err
mrd_host_work_finish(mrd_host_work *work)
{
    uint64_t *values = calloc(work->n_workers + 1, sizeof(*values));
    size_t workers = 0, next;

    if (values == NULL)
        return MRD_NOMEM;
    for (uint32_t i = 0; i < work->n_workers; i++) {
        workers += work->workers[i].any;
        drop_pause(work, i);
    }
    if (work->n_rows > 0)
        qsort(work->rows, work->n_rows, sizeof(*work->rows), row_order);
    for (size_t i = 0; i < work->n_rows && workers > 1; i = next) {
        uint64_t median_ns;

        for (next = i + 1; next < work->n_rows && work->rows[next].name == work->rows[i].name;
             next++)
            continue;
        median_ns = median_of(work, &work->rows[i], next - i, workers, values);
        for (size_t k = i; k < next; k++)
            judge_name(work, &work->rows[k], median_ns);
    }
    free(values);
    return MRD_OK;
}

mrd_host_excess
mrd_host_work_of(const mrd_host_work *work, uint32_t worker, const mrd_lateness_sum *late)
{
    const mrd_host_excess *most = &work->workers[worker].most;
    int64_t idle_ns = late->part_ns[MRD_REPORT_IDLE] + late->part_ns[MRD_REPORT_HOST] +
                      (work->on_host ? late->part_ns[MRD_REPORT_COMPUTE] : 0);

    idle_ns = (idle_ns > 0 ? idle_ns : 0) + (late->began_ns > 0 ? late->began_ns : 0);
    return idle_ns > 0 && most->ns - most->median_ns >= (uint64_t) idle_ns / 4
               ? *most
               : (mrd_host_excess){ 0 };
}
