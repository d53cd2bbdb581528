#include "trace/analysis/judge/host_work.h"

#include <stdlib.h>

#include "base/map.h"
#include "base/num.h"
#include "base/vec.h"

/* A host span that may cover a pause that has not ended. */
typedef struct {
    mrd_ev_ns begin, end;
    uint32_t row, worker; /* MRD_NO_WORKER: it is of all workers of the process */
} host_span;

typedef struct {
    host_span kept[MRD_HOST_WORK_OPEN]; /* in the order of begins */
    unsigned n;
    uint32_t first, workers; /* from mrd_workers_of_process */
} process_state;

typedef struct {
    mrd_ev_ns device_end, lost_end;
    mrd_ev_ns counted; /* kept spans are counted up to here */
    mrd_host_excess most;
    double most_score;
    bool any;
} worker_state;

/* Spans of one name of a process. */
typedef struct {
    mrd_sid name;
    uint32_t first;  /* worker of its first cell */
    uint32_t n;      /* cells */
    size_t cells;    /* index of the first */
    uint64_t all_ns; /* lengths of all spans */
} name_row;

/* The part of a worker's pauses that spans of one name cover. */
typedef struct {
    uint64_t ns, last_ns; /* of `ns`, the part in the last of these pauses */
    mrd_ev_ns until;      /* counted up to here, because spans of one name can overlap */
} name_cell;

struct mrd_host_work {
    process_state **processes; /* NULL: it has no workers */
    size_t n_processes;
    worker_state *workers;
    size_t n_workers;
    mrd_map by_name; /* process, name -> row */
    name_row *rows;
    size_t n_rows, cap_rows;
    name_cell *cells;
    size_t n_cells, cap_cells;
};

mrd_host_work *
mrd_host_work_new(const mrd_workers *who, size_t processes)
{
    mrd_host_work *h = calloc(1, sizeof(*h));

    if (h == NULL)
        return NULL;
    h->n_workers = mrd_workers_count(who);
    h->workers = calloc(h->n_workers + 1, sizeof(*h->workers));
    h->processes = calloc(processes + 1, sizeof(process_state *));
    h->n_processes = h->processes == NULL ? 0 : processes;
    if (h->workers == NULL || h->processes == NULL)
        goto fail;
    for (size_t i = 0; i < h->n_workers; i++) {
        h->workers[i].device_end = (mrd_ev_ns){ INT64_MIN };
        h->workers[i].lost_end = h->workers[i].counted = h->workers[i].device_end;
    }
    for (mrd_proc_id i = 0; i < processes; i++) {
        uint32_t first, n = mrd_workers_of_process(who, i, &first);

        if (n == 0)
            continue;
        if ((h->processes[i] = calloc(1, sizeof(process_state))) == NULL)
            goto fail;
        h->processes[i]->first = first;
        h->processes[i]->workers = n;
    }
    return h;
fail:
    mrd_host_work_free(h);
    return NULL;
}

void
mrd_host_work_free(mrd_host_work *h)
{
    if (h == NULL)
        return;
    for (size_t i = 0; i < h->n_processes; i++)
        free(h->processes[i]);
    free(h->processes);
    free(h->workers);
    mrd_map_fini(&h->by_name);
    free(h->rows);
    free(h->cells);
    free(h);
}

/* Counts what the kept spans cover of the worker's pause, which has lasted until `to` at least. */
static void
count_pause(mrd_host_work *h, const process_state *p, uint32_t worker, mrd_ev_ns to)
{
    worker_state *w = &h->workers[worker];
    mrd_ev_ns from = mrd_ev_max(w->device_end, w->counted);

    if (!mrd_ev_before(from, to))
        return;
    w->counted = to;
    if (mrd_ev_after(w->lost_end, w->device_end))
        return;
    for (unsigned i = 0; i < p->n; i++) {
        const host_span *s = &p->kept[i];
        mrd_ev_ns begin, end = mrd_ev_min(s->end, to);
        name_cell *cell;

        if (!mrd_ev_after(end, from) || (s->worker != MRD_NO_WORKER && s->worker != worker))
            continue;
        cell = &h->cells[h->rows[s->row].cells + worker - p->first];
        begin = mrd_ev_max(mrd_ev_max(s->begin, from), cell->until);
        if (!mrd_ev_before(begin, end))
            continue;
        if (!mrd_ev_after(cell->until, w->device_end)) /* the first time in this pause */
            cell->last_ns = 0;
        cell->ns += (uint64_t) end.ns - (uint64_t) begin.ns;
        cell->last_ns += (uint64_t) end.ns - (uint64_t) begin.ns;
        cell->until = end;
    }
}

/* Takes back what was counted for a worker since its last device span. */
static void
drop_pause(mrd_host_work *h, uint32_t worker)
{
    const worker_state *w = &h->workers[worker];

    if (!mrd_ev_after(w->counted, w->device_end))
        return;
    for (size_t i = 0; i < h->n_rows; i++) {
        const name_row *row = &h->rows[i];
        name_cell *cell;

        if (worker < row->first || worker - row->first >= row->n)
            continue;
        cell = &h->cells[row->cells + worker - row->first];
        if (!mrd_ev_after(cell->until, w->device_end))
            continue;
        cell->ns -= cell->last_ns;
        cell->last_ns = 0;
    }
}

/* Spans that have ended are counted for all workers. */
static void
forget_ended(process_state *p, mrd_ev_ns now)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < p->n; i++) {
        if (mrd_ev_after(p->kept[i].end, now))
            p->kept[kept++] = p->kept[i];
    }
    p->n = kept;
}

/* Makes space in the list of kept spans, which is full. */
static void
make_space(mrd_host_work *h, process_state *p, mrd_ev_ns now)
{
    unsigned first = 0;

    for (uint32_t i = 0; i < p->workers; i++)
        count_pause(h, p, p->first + i, now);
    forget_ended(p, now);
    if (p->n < MRD_HOST_WORK_OPEN)
        return;
    for (unsigned i = 1; i < p->n; i++)
        first = mrd_ev_before(p->kept[i].end, p->kept[first].end) ? i : first;
    for (unsigned i = first + 1; i < p->n; i++)
        p->kept[i - 1] = p->kept[i];
    p->n--;
}

/* Returns the row of a name. UINT32_MAX if out of memory. */
static uint32_t
find_row(mrd_host_work *h, mrd_proc_id process, mrd_sid name)
{
    const process_state *p = h->processes[process];
    mrd_map_key key = { process, name, 0 };
    uint32_t i = mrd_map_get(&h->by_name, key);

    if (i != MRD_MAP_NONE)
        return i;
    if (!MRD_VEC_ROOM(h->rows, h->n_rows, h->cap_rows, 1) ||
        !MRD_VEC_ROOM(h->cells, h->n_cells, h->cap_cells, p->workers) ||
        mrd_map_put(&h->by_name, key, (uint32_t) h->n_rows) != MRD_OK)
        return UINT32_MAX;
    h->rows[h->n_rows] =
        (name_row){ .name = name, .first = p->first, .n = p->workers, .cells = h->n_cells };
    for (uint32_t k = 0; k < p->workers; k++)
        h->cells[h->n_cells++] = (name_cell){ .until = { INT64_MIN } };
    return (uint32_t) h->n_rows++;
}

static mrd_err
add_host(mrd_host_work *h, const mrd_work *work, uint32_t worker, const mrd_event *ev)
{
    process_state *p = h->processes[work->process];
    uint32_t row;

    if (p == NULL || ev->dur_ns <= 0)
        return MRD_OK;
    if ((row = find_row(h, work->process, ev->name)) == UINT32_MAX)
        return MRD_NOMEM;
    h->rows[row].all_ns += (uint64_t) ev->dur_ns;
    if (p->n == MRD_HOST_WORK_OPEN)
        make_space(h, p, ev->ts);
    p->kept[p->n++] =
        (host_span){ .begin = ev->ts, .end = mrd_event_end(ev), .row = row, .worker = worker };
    return MRD_OK;
}

mrd_err
mrd_host_work_add(mrd_host_work *h, mrd_work_kind kind, const mrd_work *work, const mrd_event *ev)
{
    process_state *p;
    worker_state *w;

    if (kind == MRD_WORK_HOST || kind == MRD_WORK_LOADING)
        return add_host(h, work, MRD_NO_WORKER, ev);
    if (kind != MRD_WORK_WORKER)
        return MRD_OK;
    if (!work->device)
        return add_host(h, work, work->worker, ev);
    w = &h->workers[work->worker];
    p = h->processes[work->process];
    count_pause(h, p, work->worker, ev->ts);
    if (p->workers == 1)
        forget_ended(p, ev->ts);
    w->any = true;
    w->device_end = mrd_ev_max(w->device_end, mrd_event_end(ev));
    return MRD_OK;
}

void
mrd_host_work_lose(mrd_host_work *h, uint32_t worker, const mrd_event *ev)
{
    worker_state *w = &h->workers[worker];
    mrd_ev_ns end = mrd_ev_max(w->lost_end, mrd_event_end(ev));

    if (mrd_ev_after(end, w->device_end) && !mrd_ev_after(w->lost_end, w->device_end))
        drop_pause(h, worker);
    w->lost_end = end;
}

static int
row_order(const void *a, const void *b)
{
    const name_row *x = a, *y = b;

    return x->name != y->name ? (x->name < y->name ? -1 : 1)
                              : (x->first < y->first ? -1 : x->first > y->first);
}

/* Returns the lower median of what the rows of one name cover, over `workers` workers. Those without a
 * cell have 0. `values` has space for them. */
static uint64_t
median_of(const mrd_host_work *h, const name_row *row, size_t rows, size_t workers,
          uint64_t *values)
{
    size_t n = 0, middle = (workers - 1) / 2;

    for (size_t i = 0; i < rows; i++) {
        for (uint32_t k = 0; k < row[i].n; k++) {
            if (h->workers[row[i].first + k].any && h->cells[row[i].cells + k].ns > 0)
                values[n++] = h->cells[row[i].cells + k].ns;
        }
    }
    if (middle < workers - n)
        return 0;
    qsort(values, n, sizeof(*values), mrd_u64_order);
    return values[middle - (workers - n)];
}

/* Keeps a name as the answer of the workers to which it fits better than those before. */
static void
judge_name(mrd_host_work *h, const name_row *row, uint64_t median_ns)
{
    for (uint32_t k = 0; k < row->n; k++) {
        worker_state *w = &h->workers[row->first + k];
        uint64_t ns = h->cells[row->cells + k].ns;
        double excess = ns > median_ns ? (double) (ns - median_ns) : 0,
               score = excess * excess / (double) row->all_ns;

        if (score <= w->most_score)
            continue;
        w->most = (mrd_host_excess){ .name = row->name, .ns = ns, .median_ns = median_ns };
        w->most_score = score;
    }
}

mrd_err
mrd_host_work_finish(mrd_host_work *h)
{
    uint64_t *values = calloc(h->n_workers + 1, sizeof(*values));
    size_t workers = 0, next;

    if (values == NULL)
        return MRD_NOMEM;
    for (uint32_t i = 0; i < h->n_workers; i++) {
        workers += h->workers[i].any;
        drop_pause(h, i);
    }
    if (h->n_rows > 0)
        qsort(h->rows, h->n_rows, sizeof(*h->rows), row_order);
    for (size_t i = 0; i < h->n_rows && workers > 1; i = next) {
        uint64_t median_ns;

        for (next = i + 1; next < h->n_rows && h->rows[next].name == h->rows[i].name; next++)
            continue;
        median_ns = median_of(h, &h->rows[i], next - i, workers, values);
        for (size_t k = i; k < next; k++)
            judge_name(h, &h->rows[k], median_ns);
    }
    free(values);
    return MRD_OK;
}

mrd_host_excess
mrd_host_work_of(const mrd_host_work *h, uint32_t worker, const mrd_lateness_sum *late)
{
    const mrd_host_excess *most = &h->workers[worker].most;
    int64_t idle_ns = late->part_ns[MRD_REPORT_IDLE] + late->part_ns[MRD_REPORT_HOST];

    idle_ns = (idle_ns > 0 ? idle_ns : 0) + (late->began_ns > 0 ? late->began_ns : 0);
    return idle_ns > 0 && most->ns - most->median_ns >= (uint64_t) idle_ns / 4
               ? *most
               : (mrd_host_excess){ 0 };
}
