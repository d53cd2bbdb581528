#include "trace/analysis/judge/proof.h"

#include <stdlib.h>

struct mrd_proof {
    const mrd_catalog *cat;
    const mrd_workers *who;
    bool same_clock;
    uint64_t *span_ns; /* by worker */
    bool *distrusted;  /* by process: its clock cannot prove anything */
};

/* Returns true if a clock is suspect or a check contradicted it. Then its bound may be wrong. */
static bool
is_distrusted(const mrd_catalog *cat, const mrd_process *p)
{
    size_t n;
    const mrd_clock_info *clocks = mrd_catalog_clocks(cat, &n);

    for (size_t i = 1; i < n; i++) {
        if ((p->clock == i || (clocks[i].node != 0 && clocks[i].node == p->instance_id)) &&
            (clocks[i].violations > 0 ||
             mrd_str_is(mrd_catalog_text(cat, clocks[i].quality), "suspect")))
            return true;
    }
    return false;
}

static void
clocks_judge(mrd_proof *p)
{
    for (mrd_proc_id i = 0; i < mrd_catalog_processes(p->cat); i++)
        p->distrusted[i] = is_distrusted(p->cat, mrd_catalog_borrow_process(p->cat, i));
}

mrd_proof *
mrd_proof_new(const mrd_sink_env *env, const mrd_workers *who)
{
    mrd_proof *p = calloc(1, sizeof(*p));

    if (p == NULL)
        return NULL;
    p->cat = env->catalog;
    p->who = who;
    p->same_clock = env->options->same_clock;
    p->span_ns = calloc(mrd_workers_count(who) + 1, sizeof(*p->span_ns));
    p->distrusted = calloc(mrd_catalog_processes(p->cat) + 1, sizeof(*p->distrusted));
    if (p->span_ns == NULL || p->distrusted == NULL) {
        mrd_proof_free(p);
        return NULL;
    }
    clocks_judge(p);
    return p;
}

void
mrd_proof_free(mrd_proof *p)
{
    if (p == NULL)
        return;
    free(p->span_ns);
    free(p->distrusted);
    free(p);
}

void
mrd_proof_span(mrd_proof *p, uint32_t worker, uint64_t span_ns)
{
    p->span_ns[worker] = span_ns;
}

static const mrd_process *
process_of(const mrd_proof *p, uint32_t worker)
{
    return mrd_catalog_borrow_process(p->cat, mrd_workers_at(p->who, worker)->process);
}

static bool
same_node(const mrd_proof *p, uint32_t a, uint32_t b)
{
    const mrd_process *x = process_of(p, a), *y = process_of(p, b);

    if (x == y || (p->same_clock && x->instance_id == y->instance_id))
        return true;
    return x->instance_id == y->instance_id && x->scope == y->scope &&
           !mrd_str_is(mrd_catalog_text(p->cat, x->instance_id), "unknown");
}

/* Returns true if the part has a clock bound. A bound of 0 without a registered clock means that
 * the time was never converted between clocks. */
static bool
has_bound(const mrd_proof *p, const mrd_gather_part *part)
{
    const mrd_process *of = process_of(p, part->core);
    size_t n;
    const mrd_clock_info *clocks = mrd_catalog_clocks(p->cat, &n);

    if (part->bound_ns != MRD_BOUND_LOCAL)
        return part->bound_ns != MRD_BOUND_UNKNOWN;
    for (size_t i = 1; i < n; i++) {
        if ((of->clock == i || (clocks[i].node != 0 && clocks[i].node == of->instance_id)) &&
            clocks[i].bound_ns >= 0)
            return true;
    }
    return false;
}

/* Returns the assumed error of the runtime's mapping of this core's clock. There is one sync point
 * per execution, and the device's clock drifts in between. */
static uint64_t
mapping_error(const mrd_proof *p, uint32_t worker)
{
    uint64_t span = p->span_ns[worker], seconds = span / MRD_SEC + (span % MRD_SEC != 0);

    return !mrd_workers_at(p->who, worker)->mapped
               ? 0
               : MRD_REPORT_MAPPING * (seconds == 0 ? 1 : seconds);
}

static bool
is_traced(const mrd_proof *p, const mrd_gathered *c)
{
    bool any = false;

    for (size_t i = 0; i < c->n; i++) {
        const mrd_worker *w = mrd_workers_at(p->who, c->parts[i].core);

        any = any || (!w->mapped && w->device_idx != MRD_NONE);
    }
    return any;
}

bool
mrd_proof_of(const mrd_proof *p, const mrd_gathered *c, mrd_doubts *ret)
{
    const mrd_gather_part *last = &c->parts[c->n - 1];
    bool proven = true, by_nodes = true;

    *ret = (mrd_doubts){ 0 };
    for (size_t i = 0; i + 1 < c->n; i++) {
        const mrd_gather_part *other = &c->parts[i];
        uint64_t late = (uint64_t) last->begin.ns - (uint64_t) other->begin.ns,
                 error = MRD_REPORT_NOISE;

        if (!same_node(p, last->core, other->core)) {
            ret->across = true;
            if (p->distrusted[mrd_workers_at(p->who, last->core)->process] ||
                p->distrusted[mrd_workers_at(p->who, other->core)->process]) {
                ret->suspect = true;
                return false;
            }
            if (!has_bound(p, last) || !has_bound(p, other)) {
                ret->no_bound = true;
                return false;
            }
            error += (uint64_t) last->bound_ns + other->bound_ns;
        }
        by_nodes = by_nodes && late > error;
        error += mapping_error(p, last->core) + mapping_error(p, other->core);
        proven = proven && late > error;
    }
    ret->mapped = by_nodes && !proven;
    ret->traced = proven && is_traced(p, c);
    return proven;
}

bool
mrd_proof_fell(const mrd_proof *p)
{
    for (mrd_proc_id i = 0; i < mrd_catalog_processes(p->cat); i++) {
        if (!p->distrusted[i] && is_distrusted(p->cat, mrd_catalog_borrow_process(p->cat, i)))
            return true;
    }
    return false;
}
