/* A process may be recorded several times, into one input per window of time. Joins the windows of
 * a process. Also gives names to processes that look alike. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/loss_cause.h"
#include "base/num.h"
#include "base/obj.h"
#include "base/vec.h"
#include "trace/import/same_data_int.h"

/* Times above this (September 2001) count from 1970, smaller ones from the start of a program or
 * machine. */
#define EPOCH_NS (1000000000LL * MRD_SEC)

/* ---- Windows of one process ---- */

/* number of facts in window.identity; the numbers from the path follow them */
enum { WINDOW_FACTS = 8 };

typedef struct {
    /* id: the process as this input recorded it. into: the process that gets its tracks. */
    mrd_proc_id id, into;
    const mrd_read_input *input;
    /* facts that identify the process; equal in all inputs that recorded the same process */
    int64_t identity[WINDOW_FACTS + MRD_NAMED];
    mrd_ev_ns first, last;
} window;

/* Compares the identities of two windows. 0 means that both are recordings of the same process. */
static int
identity_order(const window *a, const window *b)
{
    return mrd_numbers_order(a->identity, b->identity, MRD_COUNT(a->identity));
}

static int
window_order(const void *a, const void *b)
{
    const window *x = a, *y = b;
    int order = identity_order(x, y);

    if (order == 0)
        order = mrd_i64_order(x->first.ns, y->first.ns);
    return order != 0 ? order : mrd_i64_order(x->id, y->id);
}

/* Initialises the window of a process. Returns false if the process cannot be identified, because
 * its pid is unknown, or both its rank and its node are. */
static bool
window_init(window *w, const mrd_read_once *once, const mrd_whose *whose, const mrd_catalog *cat,
            mrd_proc_id id)
{
    const mrd_process *process = mrd_catalog_borrow_process(cat, id);
    uint32_t input = process->scope == 0 ? MRD_NO_INPUT : mrd_read_index(once, process->scope - 1);
    const mrd_whose own = mrd_whose_process(cat, process);

    if (input == MRD_NO_INPUT || process->profile != 0 || (process->flags & MRD_PROC_NO_PID) != 0 ||
        (own.rank == MRD_NONE && own.node == MRD_SID_EMPTY))
        return false;
    *w = (window){ .id = id, .into = id, .input = &once->inputs[input] };
    if (w->input->stream == NULL || !mrd_stream_range(w->input->stream, &w->first, &w->last))
        return false;
    memcpy(w->identity,
           (const int64_t[]){ own.node, own.job, own.rank, own.pid, own.world_size,
                              w->input->backend, w->input->base, w->first.ns >= EPOCH_NS },
           WINDOW_FACTS * sizeof(int64_t));
    memcpy(w->identity + WINDOW_FACTS, whose[input].named, sizeof(whose[input].named));
    if (own.rank != MRD_NONE)
        /* the file states a rank, so ignore the rank in the path */
        w->identity[WINDOW_FACTS + MRD_NAMED_RANK] = MRD_NONE;
    return true;
}

/* Collects the windows of all processes, sorted by identity and then by time. Errors: NOMEM. */
static mrd_err
collect_windows(const mrd_read_once *once, const mrd_whose *whose, const mrd_catalog *cat,
                window **ret_windows, size_t *ret_n)
{
    size_t n = 0, processes = mrd_catalog_processes(cat);
    window *v = calloc(processes + 1, sizeof(*v));

    if (v == NULL)
        return MRD_NOMEM;
    for (size_t i = 0; i < processes; i++)
        n += window_init(&v[n], once, whose, cat, (mrd_proc_id) i);
    qsort(v, n, sizeof(*v), window_order);
    *ret_windows = v;
    *ret_n = n;
    return MRD_OK;
}

/* Adds a loss event "paused" for the time between two recordings of a process. */
static mrd_err
put_pause(mrd_catalog *cat, mrd_store *store, const window *from, const window *to)
{
    mrd_stream *stream = mrd_store_stream(store, 0, mrd_stream_label(to->input->stream));
    mrd_event ev = { .kind = MRD_LOSS,
                     .ts = from->last,
                     .dur_ns = to->first.ns - from->last.ns,
                     .name = mrd_catalog_intern(cat, mrd_drop_text(MRD_DROP_PAUSED)) };
    mrd_track track;

    if (stream == NULL)
        return MRD_NOMEM;
    mrd_track_init(&track, from->into, MRD_SRC_MERIDIAN);
    track.name = ev.name;
    ev.track = mrd_catalog_track(cat, &track);
    return mrd_stream_push(stream, &ev);
}

/* Moves the tracks of all windows of a process to the process of its earliest window. */
static mrd_err
join_processes(mrd_catalog *cat, const window *v, size_t n)
{
    size_t processes = mrd_catalog_processes(cat);
    mrd_proc_id *into = malloc((processes + 1) * sizeof(*into));

    if (into == NULL)
        return MRD_NOMEM;
    for (mrd_proc_id id = 0; id < processes; id++)
        into[id] = id;
    for (size_t i = 0; i < n; i++) {
        if (v[i].into == v[i].id)
            continue;
        into[v[i].id] = v[i].into;
        mrd_catalog_borrow_process(cat, v[i].id)->profile = MRD_PROFILE_NONE;
    }
    for (mrd_track_id id = 0; id < mrd_catalog_tracks(cat); id++) {
        mrd_track *track = mrd_catalog_borrow_track(cat, id);

        track->process = into[track->process];
    }
    free(into);
    return MRD_OK;
}

mrd_err
mrd_windows_join(const mrd_read_once *once, const mrd_whose *whose, mrd_catalog *cat,
                 mrd_store *store)
{
    window *v = NULL;
    size_t count = 0, joined = 0, apart = 0, first_joined = 0, first_apart = 0;
    mrd_err err = collect_windows(once, whose, cat, &v, &count);
    size_t last = 0; /* index of the window of the current process with the latest end */

    for (size_t i = 1; i < count && err == MRD_OK; i++) {
        if (identity_order(&v[last], &v[i]) != 0 || v[last].input == v[i].input) {
            last = i;
        } else if (mrd_ev_after(v[i].first, v[last].last)) {
            first_joined = joined++ == 0 ? i : first_joined;
            err = put_pause(cat, store, &v[last], &v[i]);
            v[i].into = v[last].into;
            last = i;
        } else {
            first_apart = apart++ == 0 ? i : first_apart;
            last = mrd_ev_after(v[i].last, v[last].last) ? i : last;
        }
    }
    if (joined > 0 && err == MRD_OK)
        err = join_processes(cat, v, count);
    if (joined > 0)
        mrd_catalog_note(cat,
                         "%zu input%s a further window of a process that an earlier input has "
                         "(first: '" MRD_STR_FMT "'): the process was not recorded in between",
                         joined, joined == 1 ? " is" : "s are",
                         MRD_STR_ARG(mrd_input_path(cat, v[first_joined].input->input)));
    if (apart > 0)
        mrd_catalog_note(cat,
                         "%zu input%s the rank and pid of another input whose times overlap "
                         "(first: '" MRD_STR_FMT "'): they are shown as different processes",
                         apart, apart == 1 ? " states" : "s state",
                         MRD_STR_ARG(mrd_input_path(cat, v[first_apart].input->input)));
    free(v);
    return err;
}

/* ---- Names of processes ---- */

/* Returns the index in `once` of the process's input. MRD_NO_INPUT if it has none, or if the
 * input's events are not used. */
static uint32_t
input_of_process(const mrd_read_once *once, const mrd_process *process)
{
    return process->scope == 0 || process->profile != 0 ? MRD_NO_INPUT
                                                        : mrd_read_index(once, process->scope - 1);
}

/* Finds ranks in paths. Stores for each input the number after `word` in its path. It is MRD_NONE
 * if the input states a rank itself or is not used. Returns true if at least two inputs have such
 * numbers, and no rank, found or stated, occurs twice. `sorted` is scratch space, one element per
 * input. */
static bool
number_files(const mrd_read_once *once, const mrd_whose *whose, mrd_catalog *cat, unsigned word,
             int64_t *ret_numbers, uint64_t *sorted)
{
    size_t count = 0, numbers = 0;

    for (size_t i = 0; i < once->n_inputs; i++)
        ret_numbers[i] = whose[i].named[word];
    for (mrd_proc_id id = 0; id < mrd_catalog_processes(cat); id++) {
        const mrd_process *process = mrd_catalog_borrow_process(cat, id);
        uint32_t input = input_of_process(once, process);

        if (input != MRD_NO_INPUT && process->rank != MRD_NONE)
            ret_numbers[input] = MRD_NONE;
    }
    for (size_t i = 0; i < once->n_inputs; i++) {
        ret_numbers[i] = once->inputs[i].is_dropped ? MRD_NONE : ret_numbers[i];
        numbers += ret_numbers[i] != MRD_NONE;
        sorted[count] = (uint64_t) (ret_numbers[i] != MRD_NONE ? ret_numbers[i] : whose[i].rank);
        count += sorted[count] != (uint64_t) MRD_NONE && !once->inputs[i].is_dropped;
    }
    qsort(sorted, count, sizeof(*sorted), mrd_u64_order);
    for (size_t i = 1; i < count; i++)
        if (sorted[i - 1] == sorted[i])
            return false;
    return numbers > 1;
}

mrd_err
mrd_files_rank(const mrd_read_once *once, const mrd_whose *whose, mrd_catalog *cat)
{
    int64_t *numbers = malloc((once->n_inputs + 1) * sizeof(*numbers));
    uint64_t *sorted = malloc((once->n_inputs + 1) * sizeof(*sorted));
    mrd_err err = numbers == NULL || sorted == NULL ? MRD_NOMEM : MRD_OK;

    if (err == MRD_OK && (number_files(once, whose, cat, MRD_NAMED_RANK, numbers, sorted) ||
                          number_files(once, whose, cat, MRD_NAMED_WORKER, numbers, sorted))) {
        for (mrd_proc_id id = 0; id < mrd_catalog_processes(cat); id++) {
            mrd_process *process = mrd_catalog_borrow_process(cat, id);
            uint32_t input = input_of_process(once, process);

            if (input == MRD_NO_INPUT || numbers[input] == MRD_NONE)
                continue;
            process->rank = numbers[input];
            process->sort_index =
                process->sort_index == MRD_NONE ? process->rank : process->sort_index;
        }
    }
    free(numbers);
    free(sorted);
    return err;
}

typedef struct {
    const mrd_process *p;
    mrd_proc_id id;
} named;

static int
look_order(const void *a, const void *b)
{
    const mrd_process *p = ((const named *) a)->p, *q = ((const named *) b)->p;

    return mrd_numbers_order((const int64_t[]){ p->instance_id, p->rank, p->process_id, p->scope },
                             (const int64_t[]){ q->instance_id, q->rank, q->process_id, q->scope },
                             4);
}

static bool
look_alike(const mrd_process *p, const mrd_process *q)
{
    return p->instance_id == q->instance_id && p->rank == q->rank && p->process_id == q->process_id;
}

/* Returns the length of the directories that both paths have in common at their beginning. */
static size_t
common_folders(mrd_str a, mrd_str b)
{
    size_t n = 0;

    for (size_t i = 0; i < a.len && i < b.len && a.p[i] == b.p[i]; i++)
        n = a.p[i] == '/' ? i + 1 : n;
    return n;
}

static mrd_str
path_of_process(const mrd_catalog *cat, const mrd_process *process)
{
    return process->scope == 0 ? MRD_STR("") : mrd_input_path(cat, process->scope - 1);
}

/* Names n processes that look alike after the paths of their files. If their own names differ, the
 * path is appended to the name. Errors: NOMEM. */
static mrd_err
name_alike(mrd_catalog *cat, const named *v, size_t n)
{
    size_t folders = SIZE_MAX;
    bool one_name = true;
    mrd_buf name = { 0 };

    for (size_t i = 1; i < n; i++) {
        size_t common =
            common_folders(path_of_process(cat, v[i - 1].p), path_of_process(cat, v[i].p));

        folders = common < folders ? common : folders;
        one_name = one_name && v[i].p->name == v[0].p->name;
    }
    for (size_t i = 0; i < n; i++) {
        mrd_process *process = mrd_catalog_borrow_process(cat, v[i].id);
        mrd_str path = path_of_process(cat, process);

        if (path.len <= folders)
            continue;
        mrd_buf_reset(&name);
        if (!one_name && process->name != MRD_SID_EMPTY) {
            mrd_buf_str(&name, mrd_catalog_text(cat, process->name));
            mrd_buf_byte(&name, ' ');
        }
        mrd_buf_str(&name, (mrd_str){ path.p + folders, path.len - folders });
        process->name = mrd_catalog_intern(cat, mrd_buf_cstr(&name));
        process->flags |= MRD_PROC_ALIKE;
    }
    mrd_buf_fini(&name);
    return name.err;
}

mrd_err
mrd_files_name(mrd_catalog *cat)
{
    size_t n = 0, all = mrd_catalog_processes(cat);
    named *v = malloc((all + 1) * sizeof(*v));
    mrd_err err = v == NULL ? MRD_NOMEM : MRD_OK;

    for (mrd_proc_id id = 0; id < all && err == MRD_OK; id++) {
        const mrd_process *process = mrd_catalog_borrow_process(cat, id);

        if (process->profile == 0)
            v[n++] = (named){ process, id };
    }
    qsort(v, n, sizeof(*v), look_order);
    for (size_t i = 0, end; i < n && err == MRD_OK; i = end) {
        for (end = i + 1; end < n && look_alike(v[i].p, v[end].p); end++)
            ;
        if (v[i].p->scope != v[end - 1].p->scope)
            err = name_alike(cat, &v[i], end - i);
    }
    free(v);
    return err;
}
