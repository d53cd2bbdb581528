/* Finds the process of each input, and inputs that are windows of one process. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/loss_cause.h"
#include "base/num.h"
#include "base/obj.h"
#include "base/vec.h"
#include "trace/import/same_data_int.h"

/* Later times (from September 2001) count from 1970 and not from a start. */
#define EPOCH_NS (1000000000LL * MRD_SEC)

static bool
has_node(const mrd_catalog *cat, const mrd_process *p)
{
    return !mrd_str_is(mrd_catalog_text(cat, p->instance_id), "unknown");
}

/* ---- The process of an input ---- */

static int64_t
agreed_number(bool is_first, int64_t have, int64_t got)
{
    return is_first || have == got ? got : MRD_NONE;
}

static mrd_sid
agreed_text(bool is_first, mrd_sid have, mrd_sid got)
{
    return is_first || have == got ? got : MRD_SID_EMPTY;
}

static void
add_process(mrd_whose *w, const mrd_catalog *cat, const mrd_process *p)
{
    bool is_first = w->processes++ == 0;

    w->rank = agreed_number(is_first, w->rank, p->rank);
    w->pid = agreed_number(is_first, w->pid, p->flags & MRD_PROC_NO_PID ? MRD_NONE : p->process_id);
    w->node = agreed_text(is_first, w->node, has_node(cat, p) ? p->instance_id : MRD_SID_EMPTY);
    w->job = agreed_text(is_first, w->job, p->job);
}

mrd_whose *
mrd_whose_new(const mrd_read_once *once, const mrd_catalog *cat)
{
    size_t n_inputs;
    (void) mrd_catalog_inputs(cat, &n_inputs);
    mrd_whose *whose = malloc((once->n_inputs + 1) * sizeof(*whose));
    uint32_t *index = malloc((n_inputs + 1) * sizeof(*index)); /* by input of the catalog */

    if (whose == NULL || index == NULL) {
        free(whose);
        free(index);
        return NULL;
    }
    memset(index, 0xff, (n_inputs + 1) * sizeof(*index));
    for (uint32_t i = 0; i < once->n_inputs; i++) {
        const mrd_read_input *in = &once->inputs[i];

        index[in->input] = i;
        whose[i] = (mrd_whose){ .rank = in->place.rank,
                                .pid = in->place.process_id,
                                .node = in->place.instance_id,
                                .job = in->place.job,
                                .base = in->base };
    }
    for (mrd_proc_id i = 0; i < mrd_catalog_processes(cat); i++) {
        const mrd_process *p = mrd_catalog_borrow_process(cat, i);
        uint32_t input = p->scope == 0 || p->scope > n_inputs ? MRD_NO_INPUT : index[p->scope - 1];

        if (input != MRD_NO_INPUT)
            add_process(&whose[input], cat, p);
    }
    free(index);
    return whose;
}

static bool
texts_differ(mrd_sid a, mrd_sid b)
{
    return a != MRD_SID_EMPTY && b != MRD_SID_EMPTY && a != b;
}

bool
mrd_whose_contradict(const mrd_whose *whose, uint32_t a, uint32_t b)
{
    const mrd_whose *x = &whose[a], *y = &whose[b];

    return (x->rank != MRD_NONE && y->rank != MRD_NONE && x->rank != y->rank) ||
           (x->pid != MRD_NONE && y->pid != MRD_NONE && x->pid != y->pid) ||
           (x->base != 0 && y->base != 0 && x->base != y->base) || texts_differ(x->node, y->node) ||
           texts_differ(x->job, y->job);
}

bool
mrd_whose_agree(const mrd_whose *whose, uint32_t a, uint32_t b)
{
    const mrd_whose *x = &whose[a], *y = &whose[b];

    return !mrd_whose_contradict(whose, a, b) && x->pid != MRD_NONE && x->pid == y->pid &&
           ((x->rank != MRD_NONE && x->rank == y->rank) ||
            (x->node != MRD_SID_EMPTY && x->node == y->node));
}

/* ---- Windows of one process ---- */

typedef struct {
    const mrd_catalog *cat;
    mrd_proc_id id;
    const mrd_read_input *input;
    mrd_ev_ns first, last;
} window;

/* Orders by identity. Returns 0 for windows of one process. */
static int
identity_order(const window *a, const window *b)
{
    const mrd_process *p = mrd_catalog_borrow_process(a->cat, a->id);
    const mrd_process *q = mrd_catalog_borrow_process(b->cat, b->id);
    const int64_t x[] = { p->instance_id, p->job, p->rank, p->process_id, a->first.ns >= EPOCH_NS };
    const int64_t y[] = { q->instance_id, q->job, q->rank, q->process_id, b->first.ns >= EPOCH_NS };

    for (size_t i = 0; i < MRD_COUNT(x); i++)
        if (x[i] != y[i])
            return x[i] < y[i] ? -1 : 1;
    return 0;
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

/* Returns true if pid and rank, or pid and node, identify the process. */
static bool
is_identified(const mrd_catalog *cat, const mrd_process *p)
{
    return p->scope != 0 && p->profile == 0 && (p->flags & MRD_PROC_NO_PID) == 0 &&
           (p->rank != MRD_NONE || has_node(cat, p));
}

/* Collects the windows, ordered by identity and time. Errors: NOMEM. */
static mrd_err
collect_windows(const mrd_read_once *once, const mrd_catalog *cat, window **ret_windows,
                size_t *ret_n)
{
    size_t n = 0, processes = mrd_catalog_processes(cat);
    window *v = calloc(processes + 1, sizeof(*v));

    if (v == NULL)
        return MRD_NOMEM;
    for (size_t k = 0, i = 0; i < processes; i++) {
        const mrd_process *p = mrd_catalog_borrow_process(cat, (mrd_proc_id) i);
        window w = { .cat = cat, .id = (mrd_proc_id) i };

        if (!is_identified(cat, p))
            continue;
        /* Both lists are nearly always in the order of the inputs. */
        for (size_t tries = 0; tries < once->n_inputs && w.input == NULL; tries++) {
            if (once->inputs[k].input + 1 == p->scope)
                w.input = &once->inputs[k];
            else
                k = (k + 1) % once->n_inputs;
        }
        if (w.input != NULL && w.input->stream != NULL &&
            mrd_stream_range(w.input->stream, &w.first, &w.last))
            v[n++] = w;
    }
    qsort(v, n, sizeof(*v), window_order);
    *ret_windows = v;
    *ret_n = n;
    return MRD_OK;
}

static mrd_str
window_path(const window *w, mrd_catalog *cat)
{
    size_t n;

    return mrd_catalog_text(cat, mrd_catalog_inputs(cat, &n)[w->input->input].path);
}

/* Adds an event for the pause between two windows, in which the process was not recorded. */
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
    mrd_track_init(&track, from->id, MRD_SRC_MERIDIAN);
    track.name = ev.name;
    ev.track = mrd_catalog_track(cat, &track);
    return mrd_stream_push(stream, &ev);
}

/* Moves the lines of process `to` to process `into`. */
static void
join_process(mrd_catalog *cat, mrd_proc_id to, mrd_proc_id into)
{
    for (mrd_track_id i = 0; i < mrd_catalog_tracks(cat); i++) {
        mrd_track *t = mrd_catalog_borrow_track(cat, i);

        t->process = t->process == to ? into : t->process;
    }
    mrd_catalog_borrow_process(cat, to)->profile = MRD_PROFILE_NONE;
}

mrd_err
mrd_windows_join(mrd_read_once *once, mrd_catalog *cat, mrd_store *store)
{
    window *v = NULL;
    size_t n = 0, joined = 0, apart = 0, first_joined = 0, first_apart = 0;
    mrd_err err = collect_windows(once, cat, &v, &n);
    size_t last = 0; /* the window of the process that ends last */

    for (size_t i = 1; i < n && err == MRD_OK; i++) {
        if (identity_order(&v[last], &v[i]) != 0 || v[last].input == v[i].input) {
            last = i;
        } else if (mrd_ev_after(v[i].first, v[last].last)) {
            first_joined = joined++ == 0 ? i : first_joined;
            err = put_pause(cat, store, &v[last], &v[i]);
            join_process(cat, v[i].id, v[last].id);
            v[i].id = v[last].id;
            last = i;
        } else {
            first_apart = apart++ == 0 ? i : first_apart;
            last = mrd_ev_after(v[i].last, v[last].last) ? i : last;
        }
    }
    if (joined > 0)
        mrd_catalog_note(cat,
                         "%zu input%s a further window of a process that an earlier input has "
                         "(first: '" MRD_STR_FMT "'): the process was not recorded in between",
                         joined, joined == 1 ? " is" : "s are",
                         MRD_STR_ARG(window_path(&v[first_joined], cat)));
    if (apart > 0)
        mrd_catalog_note(cat,
                         "%zu input%s the rank and pid of another input whose times overlap "
                         "(first: '" MRD_STR_FMT "'): they are shown as different processes",
                         apart, apart == 1 ? " states" : "s state",
                         MRD_STR_ARG(window_path(&v[first_apart], cat)));
    free(v);
    return err;
}

/* ---- Names ---- */

typedef struct {
    const mrd_process *p;
    mrd_proc_id id;
} named;

static int
look_order(const void *a, const void *b)
{
    const mrd_process *p = ((const named *) a)->p, *q = ((const named *) b)->p;
    const int64_t x[] = { p->instance_id, p->rank, p->process_id, p->scope };
    const int64_t y[] = { q->instance_id, q->rank, q->process_id, q->scope };

    for (size_t i = 0; i < MRD_COUNT(x); i++)
        if (x[i] != y[i])
            return x[i] < y[i] ? -1 : 1;
    return 0;
}

static bool
look_alike(const mrd_process *p, const mrd_process *q)
{
    return p->instance_id == q->instance_id && p->rank == q->rank && p->process_id == q->process_id;
}

/* Returns the length of the directories that the paths have in common. */
static size_t
common_folders(mrd_str a, mrd_str b)
{
    size_t n = 0;

    for (size_t i = 0; i < a.len && i < b.len && a.p[i] == b.p[i]; i++)
        n = a.p[i] == '/' ? i + 1 : n;
    return n;
}

static mrd_str
path_of_process(const mrd_catalog *cat, const mrd_process *p)
{
    size_t n;
    const mrd_input *inputs = mrd_catalog_inputs(cat, &n);

    return p->scope == 0 || p->scope > n ? MRD_STR("")
                                         : mrd_catalog_text(cat, inputs[p->scope - 1].path);
}

/* Names the processes v[0 .. n), which look alike, after their files, instead of or after their own
 * name. Errors: NOMEM. */
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
        mrd_process *p = mrd_catalog_borrow_process(cat, v[i].id);
        mrd_str path = path_of_process(cat, p);

        if (path.len <= folders)
            continue;
        mrd_buf_reset(&name);
        if (!one_name && p->name != MRD_SID_EMPTY) {
            mrd_buf_str(&name, mrd_catalog_text(cat, p->name));
            mrd_buf_byte(&name, ' ');
        }
        mrd_buf_str(&name, (mrd_str){ path.p + folders, path.len - folders });
        p->name = mrd_catalog_intern(cat, mrd_buf_cstr(&name));
        p->flags |= MRD_PROC_ALIKE;
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

    for (mrd_proc_id i = 0; i < all && err == MRD_OK; i++) {
        const mrd_process *p = mrd_catalog_borrow_process(cat, i);

        if (p->profile == 0)
            v[n++] = (named){ p, i };
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
