#include "aggregator/core/hang/hang_int.h"

#include <stdlib.h>
#include <string.h>

#include "aggregator/core/common/text.h"
#include "base/obj.h"
#include "base/vec.h"

#define FORGET_GONE (600 * MRD_SEC) /* of the processes of a node that left */

const char *
mrd_hang_class_text(mrd_hang_class c)
{
    static const char *const texts[MRD_HANG_CLASSES] = {
        "none",   "dead",      "unseen",     "stopped", "not entered", "other operation",
        "inside", "all stuck", "cannot tell"
    };

    return texts[c];
}

const char *
mrd_hang_state_text(mrd_hang_state s)
{
    static const char *const texts[MRD_HANG_STATES] = { "running",   "sleeping", "stopped",
                                                        "disk wait", "zombie",   "gone",
                                                        "unknown" };

    return texts[s];
}

mrd_hang_state
mrd_hang_state_of(char letter)
{
    switch (letter) {
    case 'R':
        return MRD_HANG_RUNNING;
    case 'S':
    case 'I':
        return MRD_HANG_SLEEPING;
    case 'T':
    case 't':
        return MRD_HANG_STOPPED;
    case 'D':
        return MRD_HANG_DISK_WAIT;
    case 'Z':
    case 'X':
        return MRD_HANG_ZOMBIE;
    default:
        return MRD_HANG_UNKNOWN;
    }
}

/* ---- What was reported ---- */

mrd_hang *
mrd_hang_new(const mrd_hang_options *options)
{
    mrd_hang *h = calloc(1, sizeof(*h));

    if (h == NULL || (h->history = calloc(MRD_HANG_HISTORY, sizeof(*h->history))) == NULL) {
        free(h);
        return NULL;
    }
    h->o = *options;
    h->o.confirm = h->o.confirm != 0 ? h->o.confirm : 500 * MRD_MS;
    h->o.stale = h->o.stale != 0 ? h->o.stale : 2 * MRD_SEC;
    h->o.unseen = h->o.unseen != 0 ? h->o.unseen : 5 * MRD_SEC;
    h->o.busy = h->o.busy != 0 ? h->o.busy : 1800 * MRD_SEC;
    h->o.unlearned = h->o.unlearned != 0 ? h->o.unlearned : 1800 * MRD_SEC;
    return h;
}

static void
free_job(hang_job *j)
{
    free(j->nodes);
    free(j);
}

void
mrd_hang_free(mrd_hang *h)
{
    if (h == NULL)
        return;
    for (size_t i = 0; i < h->n_jobs; i++)
        free_job(h->jobs[i]);
    for (size_t i = 0; i < h->n_nodes; i++)
        free(h->nodes[i].processes);
    mrd_map_fini(&h->node_by_key);
    free(h->jobs);
    free(h->nodes);
    free(h->members);
    free(h->history);
    free(h->changed);
    free(h);
}

static hang_node *
find_node(const mrd_hang *h, uint64_t key)
{
    uint32_t i = mrd_map_get(&h->node_by_key, (mrd_map_key){ key, 0, 0 });

    return i == MRD_MAP_NONE ? NULL : &h->nodes[i];
}

void
mrd_hang_node_seen(mrd_hang *h, uint64_t node, mrd_local_ns at)
{
    hang_node *n = find_node(h, node);

    if (n == NULL)
        return; /* it reported no process */
    n->seen = at;
    n->gone = false;
}

void
mrd_hang_node_gone(mrd_hang *h, uint64_t node)
{
    hang_node *n = find_node(h, node);

    if (n != NULL)
        n->gone = true;
}

/* The job's list of nodes keeps the node, so that the order of reports does not matter. */
static void
forget_processes(mrd_hang *h, hang_node *n)
{
    for (size_t i = 0; i < n->n; i++)
        n->processes[i].job->n--;
    h->counts.ranks -= n->n;
    n->n = 0;
}

bool
mrd_hang_node_begin(mrd_hang *h, uint64_t node, const char *name, bool left_out, mrd_local_ns at)
{
    hang_node *n = find_node(h, node);

    if (n == NULL) {
        if (!MRD_VEC_ROOM(h->nodes, h->n_nodes, h->cap_nodes, 1) ||
            mrd_map_put(&h->node_by_key, (mrd_map_key){ node, 0, 0 }, (uint32_t) h->n_nodes) !=
                MRD_OK)
            return false;
        n = &h->nodes[h->n_nodes++];
        *n = (hang_node){ 0 };
        mrd_text_set(n->name, sizeof(n->name), name);
    }
    forget_processes(h, n);
    n->seen = at;
    n->gone = false;
    n->left_out = left_out;
    return true;
}

/* What processes only claim is never mixed with what is confirmed. */
static hang_job *
find_job(const mrd_hang *h, const mrd_job_key *key, bool confirmed)
{
    for (size_t i = 0; i < h->n_jobs; i++)
        if (h->jobs[i]->confirmed == confirmed && mrd_job_key_equal(&h->jobs[i]->key, key))
            return h->jobs[i];
    return NULL;
}

static hang_job *
job_of(mrd_hang *h, const mrd_job_key *key, const mrd_jobid *identity, bool confirmed)
{
    hang_job *j = find_job(h, key, confirmed);

    if (j != NULL || h->n_jobs == MRD_HANG_JOBS_MAX)
        return j;
    if (!MRD_VEC_ROOM(h->jobs, h->n_jobs, h->cap_jobs, 1) || (j = calloc(1, sizeof(*j))) == NULL)
        return NULL;
    j->key = *key;
    j->identity = *identity;
    j->confirmed = confirmed;
    h->jobs[h->n_jobs++] = j;
    return j;
}

static bool
join(hang_job *j, size_t node)
{
    for (size_t i = 0; i < j->n_nodes; i++)
        if (j->nodes[i] == node)
            return true;
    if (!MRD_VEC_ROOM(j->nodes, j->n_nodes, j->cap_nodes, 1))
        return false;
    j->nodes[j->n_nodes++] = node;
    return true;
}

void
mrd_hang_report(mrd_hang *h, uint64_t node, const mrd_jobid *job, int64_t uid, bool confirmed,
                const mrd_hang_rank *rank)
{
    hang_node *n = find_node(h, node);
    mrd_job_key key;
    hang_job *j;

    mrd_job_key_of(job, uid, &key);
    if (n == NULL || key.text[0] == '\0')
        return; /* which ranks belong together is not known */
    if (h->counts.ranks >= MRD_HANG_RANKS_MAX || (j = job_of(h, &key, job, confirmed)) == NULL ||
        !join(j, (size_t) (n - h->nodes)) || !MRD_VEC_ROOM(n->processes, n->n, n->cap, 1)) {
        n->left_out = true;
        h->counts.left_out++;
        return;
    }
    j->n++;
    h->counts.ranks++;
    n->processes[n->n] = (hang_process){ .r = *rank, .job = j };
    if (rank->n_ops > MRD_HANG_OPS)
        n->processes[n->n].r.n_ops = MRD_HANG_OPS;
    n->n++;
}

/* ---- Verdicts ---- */

static void
note(mrd_hang *h, const mrd_hang_verdict *v)
{
    if (MRD_VEC_ROOM(h->changed, h->n_changed, h->cap_changed, 1))
        h->changed[h->n_changed++] = *v;
}

static void
withdraw(mrd_hang *h, hang_job *j, mrd_local_ns now)
{
    j->verdict.withdrawn = now;
    h->counts.withdrawn++;
    note(h, &j->verdict);
    h->history[h->history_at] = j->verdict;
    h->history_at = (h->history_at + 1) % MRD_HANG_HISTORY;
    h->n_history += h->n_history < MRD_HANG_HISTORY;
    j->verdict.cls = MRD_HANG_NO_VERDICT;
}

static bool
is_same(const mrd_hang_verdict *a, const mrd_hang_verdict *b)
{
    if (a->cls != b->cls || a->n_culprits != b->n_culprits || a->n_named != b->n_named ||
        strcmp(a->op, b->op) != 0 || a->entered != b->entered || strcmp(a->reason, b->reason) != 0)
        return false;
    for (size_t i = 0; i < a->n_named; i++)
        if (a->named[i].rank != b->named[i].rank || a->named[i].pid != b->named[i].pid)
            return false;
    return true;
}

static void
give(mrd_hang *h, hang_job *j, mrd_local_ns now)
{
    uint64_t id = j->verdict.cls != MRD_HANG_NO_VERDICT ? j->verdict.id : ++h->last_id;

    j->verdict = j->candidate;
    j->verdict.id = id;
    j->verdict.job = j->key;
    memcpy(j->verdict.identity, j->identity.text, sizeof(j->verdict.identity));
    j->verdict.confirmed = j->confirmed;
    j->verdict.told = now;
    h->counts.told[j->verdict.cls]++;
    note(h, &j->verdict);
}

/* A verdict that names ranks stays until the job goes on. What happens during a standstill, such as
 * exits after a time-out or a debugger that stops a process, is a consequence of it. */
static bool
may_replace(const mrd_hang_verdict *old, const mrd_hang_verdict *v)
{
    return old->cls == MRD_HANG_NO_VERDICT ||
           (old->cls == MRD_HANG_CANNOT_TELL && v->cls >= MRD_HANG_NOT_ENTERED &&
            v->cls != MRD_HANG_ALL_STUCK && !is_same(old, v));
}

static void
step_job(mrd_hang *h, hang_job *j, mrd_local_ns now)
{
    mrd_hang_verdict v = { 0 };

    if (!mrd_hang_judge(h, j, now, &v))
        return;
    if (v.cls == MRD_HANG_NO_VERDICT) {
        j->candidate.cls = MRD_HANG_NO_VERDICT;
        if (j->verdict.cls != MRD_HANG_NO_VERDICT)
            withdraw(h, j, now);
        return;
    }
    if (!is_same(&v, &j->candidate)) {
        j->candidate = v;
        j->candidate_at = now;
    }
    if (mrd_local_diff(now, j->candidate_at) >= h->o.confirm && may_replace(&j->verdict, &v))
        give(h, j, now);
}

/* Nodes that left long ago, and jobs without processes, are removed. */
static void
forget(mrd_hang *h, mrd_local_ns now)
{
    for (size_t i = 0; i < h->n_nodes; i++)
        if (h->nodes[i].n > 0 && mrd_local_diff(now, h->nodes[i].seen) > FORGET_GONE)
            forget_processes(h, &h->nodes[i]);
    for (size_t i = h->n_jobs; i-- > 0;) {
        hang_job *j = h->jobs[i];

        if (j->n > 0)
            continue;
        if (j->verdict.cls != MRD_HANG_NO_VERDICT)
            withdraw(h, j, now);
        free_job(j);
        h->jobs[i] = h->jobs[--h->n_jobs];
    }
}

size_t
mrd_hang_step(mrd_hang *h, mrd_local_ns now)
{
    h->n_changed = 0;
    for (size_t i = 0; i < h->n_jobs; i++)
        step_job(h, h->jobs[i], now);
    forget(h, now);
    return h->n_changed;
}

const mrd_hang_verdict *
mrd_hang_get(const mrd_hang *h, size_t i)
{
    for (size_t k = 0; k < h->n_jobs; k++)
        if (h->jobs[k]->verdict.cls != MRD_HANG_NO_VERDICT && i-- == 0)
            return &h->jobs[k]->verdict;
    if (i >= h->n_history)
        return NULL;
    return &h->history[(h->history_at + 2 * MRD_HANG_HISTORY - 1 - i) % MRD_HANG_HISTORY];
}

const mrd_hang_verdict *
mrd_hang_changed(const mrd_hang *h, size_t i)
{
    return i < h->n_changed ? &h->changed[i] : NULL;
}

bool
mrd_hang_is_on(const mrd_hang *h, const mrd_job_key *job, uint64_t node)
{
    const hang_node *n = find_node(h, node);

    for (size_t i = 0; n != NULL && i < n->n; i++)
        if (mrd_job_key_equal(&n->processes[i].job->key, job))
            return true;
    return false;
}

void
mrd_hang_get_counts(const mrd_hang *h, mrd_hang_counts *ret_counts)
{
    *ret_counts = h->counts;
    ret_counts->jobs = h->n_jobs;
    ret_counts->standing = 0;
    for (size_t i = 0; i < h->n_jobs; i++)
        ret_counts->standing += h->jobs[i]->verdict.cls != MRD_HANG_NO_VERDICT;
}
