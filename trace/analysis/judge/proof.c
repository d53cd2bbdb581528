#include "trace/analysis/judge/proof.h"

#include <stdlib.h>

struct mrd_proof {
    const mrd_catalog *cat;
    const mrd_workers *who;
    bool same_clock;
    uint64_t *span_ns; /* longest device span in ns, indexed by worker */
    /* indexed by process; true if the clock of the process cannot prove anything */
    bool *distrusted;
};

/* Returns true if the clock of a process is suspect, or if a check contradicted it. Then its bound
 * may be wrong. */
static bool
is_distrusted(const mrd_catalog *cat, const mrd_process *process)
{
    size_t n;
    const mrd_clock_info *clocks = mrd_catalog_clocks(cat, &n);

    for (size_t i = 1; i < n; i++) {
        if ((process->clock == i ||
             (clocks[i].node != 0 && clocks[i].node == process->instance_id)) &&
            (clocks[i].violations > 0 ||
             mrd_str_is(mrd_catalog_text(cat, clocks[i].quality), "suspect")))
            return true;
    }
    return false;
}

static void
clocks_judge(mrd_proof *proof)
{
    for (mrd_proc_id id = 0; id < mrd_catalog_processes(proof->cat); id++)
        proof->distrusted[id] =
            is_distrusted(proof->cat, mrd_catalog_borrow_process(proof->cat, id));
}

mrd_proof *
mrd_proof_new(const mrd_sink_env *env, const mrd_workers *who)
{
    mrd_proof *proof = calloc(1, sizeof(*proof));

    if (proof == NULL)
        return NULL;
    proof->cat = env->catalog;
    proof->who = who;
    proof->same_clock = env->options->same_clock;
    proof->span_ns = calloc(mrd_workers_count(who) + 1, sizeof(*proof->span_ns));
    proof->distrusted = calloc(mrd_catalog_processes(proof->cat) + 1, sizeof(*proof->distrusted));
    if (proof->span_ns == NULL || proof->distrusted == NULL) {
        mrd_proof_free(proof);
        return NULL;
    }
    clocks_judge(proof);
    return proof;
}

void
mrd_proof_free(mrd_proof *proof)
{
    if (proof == NULL)
        return;
    free(proof->span_ns);
    free(proof->distrusted);
    free(proof);
}

void
mrd_proof_span(mrd_proof *proof, uint32_t worker, uint64_t span_ns)
{
    proof->span_ns[worker] = span_ns;
}

static const mrd_process *
process_of(const mrd_proof *proof, uint32_t worker)
{
    return mrd_catalog_borrow_process(proof->cat, mrd_workers_at(proof->who, worker)->process);
}

static bool
same_node(const mrd_proof *proof, uint32_t a, uint32_t b)
{
    const mrd_process *x = process_of(proof, a), *y = process_of(proof, b);

    if (x == y || (proof->same_clock && x->instance_id == y->instance_id))
        return true;
    return x->instance_id == y->instance_id && x->scope == y->scope &&
           !mrd_str_is(mrd_catalog_text(proof->cat, x->instance_id), "unknown");
}

/* Returns true if the part's clock has an error bound. A bound of 0 without a registered clock
 * means that the time was never converted between clocks. */
static bool
has_bound(const mrd_proof *proof, const mrd_gather_part *part)
{
    const mrd_process *of = process_of(proof, part->core);
    size_t n;
    const mrd_clock_info *clocks = mrd_catalog_clocks(proof->cat, &n);

    if (part->bound_ns != MRD_BOUND_LOCAL)
        return part->bound_ns != MRD_BOUND_UNKNOWN;
    for (size_t i = 1; i < n; i++) {
        if ((of->clock == i || (clocks[i].node != 0 && clocks[i].node == of->instance_id)) &&
            clocks[i].bound_ns >= 0)
            return true;
    }
    return false;
}

/* Returns the error of a part's time against its node's clock. Between nodes, an error that the
 * part's bound includes is not counted again. */
static uint64_t
device_error(const mrd_proof *proof, const mrd_gather_part *part, bool is_across)
{
    if (!mrd_workers_at(proof->who, part->core)->mapped)
        return 0;
    if (!part->device_bound)
        return mrd_proof_mapping(proof->span_ns[part->core]);
    if (part->bound_ns == MRD_BOUND_UNKNOWN)
        return INT64_MAX / 2;
    return is_across ? 0 : part->bound_ns;
}

static bool
is_traced(const mrd_proof *proof, const mrd_gathered *group)
{
    bool any = false;

    for (size_t i = 0; i < group->n; i++) {
        const mrd_worker *worker = mrd_workers_at(proof->who, group->parts[i].core);

        any = any || (!worker->mapped && worker->device_idx != MRD_NONE);
    }
    return any;
}

bool
mrd_proof_of(const mrd_proof *proof, const mrd_gathered *group, mrd_doubts *ret)
{
    const mrd_gather_part *last = &group->parts[group->n - 1];
    bool proven = true, by_nodes = true;

    *ret = (mrd_doubts){ 0 };
    for (size_t i = 0; i + 1 < group->n; i++) {
        const mrd_gather_part *other = &group->parts[i];
        uint64_t late = (uint64_t) last->begin.ns - (uint64_t) other->begin.ns,
                 error = MRD_REPORT_NOISE;
        bool is_across = !same_node(proof, last->core, other->core);

        if (is_across) {
            ret->across = true;
            if (proof->distrusted[mrd_workers_at(proof->who, last->core)->process] ||
                proof->distrusted[mrd_workers_at(proof->who, other->core)->process]) {
                ret->suspect = true;
                return false;
            }
            if (!has_bound(proof, last) || !has_bound(proof, other)) {
                ret->no_bound = true;
                return false;
            }
            error += (uint64_t) last->bound_ns + other->bound_ns;
        }
        by_nodes = by_nodes && late > error;
        error += device_error(proof, last, is_across) + device_error(proof, other, is_across);
        proven = proven && late > error;
    }
    ret->mapped = by_nodes && !proven;
    ret->traced = proven && is_traced(proof, group);
    return proven;
}

bool
mrd_proof_fell(const mrd_proof *proof)
{
    for (mrd_proc_id id = 0; id < mrd_catalog_processes(proof->cat); id++) {
        if (!proof->distrusted[id] &&
            is_distrusted(proof->cat, mrd_catalog_borrow_process(proof->cat, id)))
            return true;
    }
    return false;
}
