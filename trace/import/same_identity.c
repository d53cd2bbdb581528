/* Collects the facts that an input states about its process, and checks whether two inputs
 * contradict each other. */
#include <stdlib.h>
#include <string.h>

#include "base/obj.h"
#include "trace/import/capture_names.h"
#include "trace/import/same_data_int.h"

int
mrd_numbers_order(const int64_t *a, const int64_t *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (a[i] != b[i])
            return a[i] < b[i] ? -1 : 1;
    return 0;
}

mrd_str
mrd_input_path(const mrd_catalog *cat, uint32_t input)
{
    size_t n;
    const mrd_input *inputs = mrd_catalog_inputs(cat, &n);

    return input < n ? mrd_catalog_text(cat, inputs[input].path) : MRD_STR("");
}

uint32_t
mrd_read_index(const mrd_read_once *once, uint32_t input)
{
    size_t from = 0, end = once->n_inputs;

    while (from < end) { /* binary search: inputs are ordered by their number in the catalog */
        size_t middle = from + (end - from) / 2;

        if (once->inputs[middle].input < input)
            from = middle + 1;
        else
            end = middle;
    }
    return from < once->n_inputs && once->inputs[from].input == input ? (uint32_t) from
                                                                      : MRD_NO_INPUT;
}

/* ---- Names ---- */

static void
read_names(mrd_whose *owner, mrd_str path)
{
    static const char *const words[MRD_NAMED] = { "rank", "node", "worker", "host", "job", "run" };

    for (size_t i = 0; i < MRD_NAMED; i++)
        owner->named[i] = mrd_number_after(path, words[i]);
}

/* ---- Processes ---- */

static const mrd_whose nothing = { .rank = MRD_NONE,
                                   .pid = MRD_NONE,
                                   .world_size = MRD_NONE,
                                   .named = { MRD_NONE, MRD_NONE, MRD_NONE, MRD_NONE, MRD_NONE,
                                              MRD_NONE } };

mrd_whose
mrd_whose_process(const mrd_catalog *cat, const mrd_process *process)
{
    mrd_whose owner = nothing;

    owner.rank = process->rank;
    owner.pid = process->flags & MRD_PROC_NO_PID ? MRD_NONE : process->process_id;
    owner.world_size = process->world_size;
    if (!mrd_str_is(mrd_catalog_text(cat, process->instance_id), "unknown"))
        owner.node = process->instance_id;
    owner.job = process->job;
    return owner;
}

/* Adds the facts that a process states, such as its pid, to the facts of its input. A fact becomes
 * unknown if two processes of the input state different values. */
static void
add_process(mrd_whose *w, const mrd_whose *p)
{
    if (w->processes++ == 0) {
        w->rank = p->rank;
        w->pid = p->pid;
        w->world_size = p->world_size;
        w->node = p->node;
        w->job = p->job;
    }
    w->rank = w->rank == p->rank ? w->rank : MRD_NONE;
    w->pid = w->pid == p->pid ? w->pid : MRD_NONE;
    w->world_size = w->world_size == p->world_size ? w->world_size : MRD_NONE;
    w->node = w->node == p->node ? w->node : MRD_SID_EMPTY;
    w->job = w->job == p->job ? w->job : MRD_SID_EMPTY;
}

mrd_whose *
mrd_whose_new(const mrd_read_once *once, const mrd_catalog *cat)
{
    mrd_whose *whose = malloc((once->n_inputs + 1) * sizeof(*whose));

    for (size_t i = 0; i < once->n_inputs && whose != NULL; i++) {
        const mrd_read_input *in = &once->inputs[i];

        whose[i] = nothing;
        whose[i].rank = in->place.rank;
        whose[i].pid = in->place.process_id;
        whose[i].node = in->place.instance_id;
        whose[i].job = in->place.job;
        whose[i].backend = in->backend;
        whose[i].base = in->base;
        read_names(&whose[i], mrd_input_path(cat, in->input));
    }
    for (mrd_proc_id id = 0; id < mrd_catalog_processes(cat) && whose != NULL; id++) {
        const mrd_process *process = mrd_catalog_borrow_process(cat, id);
        uint32_t input =
            process->scope == 0 ? MRD_NO_INPUT : mrd_read_index(once, process->scope - 1);
        mrd_whose stated;

        if (input == MRD_NO_INPUT)
            continue;
        stated = mrd_whose_process(cat, process);
        add_process(&whose[input], &stated);
    }
    return whose;
}

/* ---- Comparison ---- */

static bool
numbers_differ(int64_t a, int64_t b)
{
    return a != MRD_NONE && b != MRD_NONE && a != b;
}

static bool
texts_differ(mrd_sid a, mrd_sid b)
{
    return a != MRD_SID_EMPTY && b != MRD_SID_EMPTY && a != b;
}

static bool
contents_differ(const mrd_whose *a, const mrd_whose *b)
{
    return numbers_differ(a->rank, b->rank) || numbers_differ(a->pid, b->pid) ||
           numbers_differ(a->world_size, b->world_size) || texts_differ(a->node, b->node) ||
           texts_differ(a->job, b->job) || texts_differ(a->backend, b->backend) ||
           (a->base != 0 && b->base != 0 && a->base != b->base);
}

/* Returns true if the numbers after "rank", "node" and so on in the inputs' paths differ. The rank
 * in a path is ignored if the file itself states a rank. */
static bool
names_differ(const mrd_whose *a, const mrd_whose *b)
{
    mrd_whose x = *a, y = *b;

    x.named[MRD_NAMED_RANK] = a->rank != MRD_NONE ? a->rank : a->named[MRD_NAMED_RANK];
    y.named[MRD_NAMED_RANK] = b->rank != MRD_NONE ? b->rank : b->named[MRD_NAMED_RANK];
    for (size_t i = 0; i < MRD_NAMED; i++)
        if (numbers_differ(x.named[i], y.named[i]))
            return true;
    return false;
}

bool
mrd_whose_contradict(const mrd_whose *a, const mrd_whose *b)
{
    return contents_differ(a, b) || names_differ(a, b);
}

bool
mrd_whose_named_apart(const mrd_whose *a, const mrd_whose *b)
{
    return !contents_differ(a, b) && names_differ(a, b);
}

static bool
take_number(int64_t *to, int64_t from)
{
    bool takes = *to == MRD_NONE && from != MRD_NONE;

    *to = takes ? from : *to;
    return takes;
}

static bool
take_text(mrd_sid *to, mrd_sid from)
{
    bool takes = *to == MRD_SID_EMPTY && from != MRD_SID_EMPTY;

    *to = takes ? from : *to;
    return takes;
}

bool
mrd_whose_take(mrd_whose *to, const mrd_whose *from)
{
    bool took = take_number(&to->rank, from->rank);

    took = take_number(&to->pid, from->pid) || took;
    took = take_number(&to->world_size, from->world_size) || took;
    took = take_text(&to->node, from->node) || took;
    took = take_text(&to->job, from->job) || took;
    took = take_text(&to->backend, from->backend) || took;
    took = (to->base == 0 && from->base != 0) || took;
    to->base = to->base != 0 ? to->base : from->base;
    for (size_t i = 0; i < MRD_NAMED; i++)
        took = take_number(&to->named[i], from->named[i]) || took;
    return took;
}

bool
mrd_whose_states_more(const mrd_whose *a, const mrd_whose *b)
{
    mrd_whose both = *b;

    return mrd_whose_take(&both, a);
}
