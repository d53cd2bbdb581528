#include "aggregator/core/hang/hang_int.h"

#include <stdlib.h>
#include <string.h>

#include "aggregator/core/common/text.h"
#include "base/buf.h"
#include "base/obj.h"
#include "base/vec.h"

/* if a node sends no message for this time, its processes are removed */
#define FORGET_GONE (600 * MRD_SEC)

const char *
mrd_hang_class_text(mrd_hang_class hang_class)
{
    static const char *const texts[MRD_HANG_CLASSES] = {
        "none",   "dead",      "unseen",     "stopped", "not entered", "other operation",
        "inside", "all stuck", "cannot tell"
    };

    return texts[hang_class];
}

const char *
mrd_hang_state_text(mrd_hang_state state)
{
    static const char *const texts[MRD_HANG_STATES] = { "running",   "sleeping", "stopped",
                                                        "disk wait", "zombie",   "gone",
                                                        "unknown" };

    return texts[state];
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

/* ---- Reports of nodes about their processes ---- */

mrd_hang *
mrd_hang_new(const mrd_hang_options *options)
{
    mrd_hang *hang = calloc(1, sizeof(*hang));

    if (hang == NULL ||
        (hang->history = calloc(MRD_HANG_HISTORY, sizeof(*hang->history))) == NULL) {
        free(hang);
        return NULL;
    }
    hang->o = *options;
    hang->o.confirm = hang->o.confirm != 0 ? hang->o.confirm : 500 * MRD_MS;
    hang->o.stale = hang->o.stale != 0 ? hang->o.stale : 2 * MRD_SEC;
    hang->o.unseen = hang->o.unseen != 0 ? hang->o.unseen : 5 * MRD_SEC;
    hang->o.busy = hang->o.busy != 0 ? hang->o.busy : 1800 * MRD_SEC;
    hang->o.unlearned = hang->o.unlearned != 0 ? hang->o.unlearned : 1800 * MRD_SEC;
    return hang;
}

mrd_hang_text *
mrd_hang_text_ref(mrd_hang_text *text)
{
    if (text != NULL)
        mrd_refs_take(&text->refs);
    return text;
}

void
mrd_hang_text_unref(mrd_hang_text *text)
{
    if (text != NULL && mrd_refs_drop(&text->refs))
        free(text);
}

/* Frees the texts with the stacks of a verdict that is replaced or removed. */
static void
drop_stacks(mrd_hang *hang, mrd_hang_verdict *verdict)
{
    for (size_t i = 0; i < verdict->n_stacks; i++) {
        hang->n_texts -= verdict->stacks[i].text != NULL;
        mrd_hang_text_unref(verdict->stacks[i].text);
    }
    verdict->n_stacks = 0;
}

static void
free_job(mrd_hang *hang, hang_job *job)
{
    drop_stacks(hang, &job->verdict);
    free(job->nodes);
    free(job);
}

void
mrd_hang_free(mrd_hang *hang)
{
    if (hang == NULL)
        return;
    for (size_t i = 0; i < hang->n_jobs; i++)
        free_job(hang, hang->jobs[i]);
    for (size_t i = 0; i < hang->n_history; i++)
        drop_stacks(hang, &hang->history[i]);
    for (size_t i = 0; i < hang->n_nodes; i++)
        free(hang->nodes[i].processes);
    mrd_map_fini(&hang->node_by_key);
    free(hang->jobs);
    free(hang->nodes);
    free(hang->members);
    free(hang->history);
    free(hang->changed);
    free(hang);
}

static hang_node *
find_node(const mrd_hang *hang, uint64_t key)
{
    uint32_t i = mrd_map_get(&hang->node_by_key, (mrd_map_key){ key, 0, 0 });

    return i == MRD_MAP_NONE ? NULL : &hang->nodes[i];
}

void
mrd_hang_node_seen(mrd_hang *hang, uint64_t node, mrd_local_ns at)
{
    hang_node *n = find_node(hang, node);

    if (n == NULL)
        return; /* ignored, because the node has never reported a process */
    n->seen = at;
    n->gone.ns = 0;
}

void
mrd_hang_node_gone(mrd_hang *hang, uint64_t node, mrd_local_ns at)
{
    hang_node *n = find_node(hang, node);

    if (n != NULL)
        n->gone = at;
}

/* Removes the processes of a node. The lists of nodes in the jobs still contain the node, because
 * its next report usually has the same jobs. */
static void
forget_processes(mrd_hang *hang, hang_node *node)
{
    for (size_t i = 0; i < node->n; i++)
        node->processes[i].job->n--;
    hang->counts.ranks -= node->n;
    hang->counts.unnamed -= node->unnamed;
    node->n = node->unnamed = 0;
}

bool
mrd_hang_node_begin(mrd_hang *hang, uint64_t node, const char *name, bool left_out, mrd_local_ns at)
{
    hang_node *n = find_node(hang, node);

    if (n == NULL) {
        if (!MRD_VEC_ROOM(hang->nodes, hang->n_nodes, hang->cap_nodes, 1) ||
            mrd_map_put(&hang->node_by_key, (mrd_map_key){ node, 0, 0 },
                        (uint32_t) hang->n_nodes) != MRD_OK)
            return false;
        n = &hang->nodes[hang->n_nodes++];
        *n = (hang_node){ .key = node };
        mrd_text_set(n->name, sizeof(n->name), name);
    }
    forget_processes(hang, n);
    n->seen = n->reported = at;
    n->gone.ns = 0;
    n->left_out = left_out;
    return true;
}

/* Finds a job by its key. Processes without a confirmation that they belong to the job are kept as
 * a separate job with the same key. */
static hang_job *
find_job(const mrd_hang *hang, const mrd_job_key *key, bool confirmed)
{
    for (size_t i = 0; i < hang->n_jobs; i++)
        if (hang->jobs[i]->confirmed == confirmed && mrd_job_key_equal(&hang->jobs[i]->key, key))
            return hang->jobs[i];
    return NULL;
}

static hang_job *
job_of(mrd_hang *hang, const mrd_job_key *key, bool confirmed)
{
    hang_job *job = find_job(hang, key, confirmed);

    if (job != NULL || hang->n_jobs == MRD_HANG_JOBS_MAX)
        return job;
    if (!MRD_VEC_ROOM(hang->jobs, hang->n_jobs, hang->cap_jobs, 1) ||
        (job = calloc(1, sizeof(*job))) == NULL)
        return NULL;
    job->key = *key;
    job->confirmed = confirmed;
    hang->jobs[hang->n_jobs++] = job;
    return job;
}

static bool
join(hang_job *job, size_t node)
{
    for (size_t i = 0; i < job->n_nodes; i++)
        if (job->nodes[i] == node)
            return true;
    if (!MRD_VEC_ROOM(job->nodes, job->n_nodes, job->cap_nodes, 1))
        return false;
    job->nodes[job->n_nodes++] = node;
    return true;
}

void
mrd_hang_report(mrd_hang *hang, uint64_t node, const mrd_jobid *job, int64_t uid, bool confirmed,
                const mrd_hang_rank *rank)
{
    hang_node *n = find_node(hang, node);
    mrd_job_key key;
    hang_job *j;

    mrd_job_key_of(job, uid, &key);
    if (n == NULL)
        return;
    if (key.text[0] == '\0') { /* not compared with other ranks, because the process names no job */
        n->unnamed++;
        hang->counts.unnamed++;
        return;
    }
    if (hang->counts.ranks >= MRD_HANG_RANKS_MAX || (j = job_of(hang, &key, confirmed)) == NULL ||
        !join(j, (size_t) (n - hang->nodes)) || !MRD_VEC_ROOM(n->processes, n->n, n->cap, 1)) {
        n->left_out = true;
        hang->counts.left_out++;
        return;
    }
    /* Processes with the same job key may differ in other pairs of the job's identity, such as
     * `user`, which decides who may read the verdict. */
    if (j->n++ == 0)
        j->identity = *job;
    else
        mrd_jobid_keep_common(&j->identity, job);
    hang->counts.ranks++;
    n->processes[n->n] = (hang_process){ .r = *rank, .job = j };
    if (rank->n_ops > MRD_HANG_OPS)
        n->processes[n->n].r.n_ops = MRD_HANG_OPS;
    n->n++;
}

/* ---- Giving and withdrawing verdicts ---- */

static void
note(mrd_hang *hang, const mrd_hang_verdict *verdict)
{
    if (MRD_VEC_ROOM(hang->changed, hang->n_changed, hang->cap_changed, 1))
        hang->changed[hang->n_changed++] = *verdict;
}

static void
withdraw(mrd_hang *hang, hang_job *job, mrd_local_ns now)
{
    job->verdict.withdrawn = now;
    hang->counts.withdrawn++;
    note(hang, &job->verdict);
    drop_stacks(hang, &hang->history[hang->history_at]);
    hang->history[hang->history_at] = job->verdict;
    job->verdict.n_stacks = 0; /* the stacks belong to the history of verdicts now */
    hang->history_at = (hang->history_at + 1) % MRD_HANG_HISTORY;
    hang->n_history += hang->n_history < MRD_HANG_HISTORY;
    job->verdict.cls = MRD_HANG_NO_VERDICT;
}

static bool
is_same(const mrd_hang_verdict *verdict, const mrd_hang_verdict *hang_verdict)
{
    if (verdict->cls != hang_verdict->cls || verdict->n_culprits != hang_verdict->n_culprits ||
        verdict->n_named != hang_verdict->n_named || strcmp(verdict->op, hang_verdict->op) != 0 ||
        verdict->entered != hang_verdict->entered ||
        strcmp(verdict->reason, hang_verdict->reason) != 0)
        return false;
    for (size_t i = 0; i < verdict->n_named; i++)
        if (verdict->named[i].rank != hang_verdict->named[i].rank ||
            verdict->named[i].pid != hang_verdict->named[i].pid)
            return false;
    return true;
}

static void
give(mrd_hang *hang, hang_job *job, mrd_local_ns now)
{
    uint64_t id = job->verdict.cls != MRD_HANG_NO_VERDICT ? job->verdict.id : ++hang->last_id;

    drop_stacks(hang, &job->verdict);
    job->verdict = job->candidate;
    job->verdict.id = id;
    job->verdict.job = job->key;
    memcpy(job->verdict.identity, job->identity.text, sizeof(job->verdict.identity));
    job->verdict.confirmed = job->confirmed;
    job->verdict.told = now;
    hang->counts.told[job->verdict.cls]++;
    note(hang, &job->verdict);
}

/* Returns true if a new verdict may replace the old one. The first verdict stays until the job
 * makes progress, because later events, such as exits after a timeout, may be consequences of the
 * hang. A verdict "cannot tell" is replaced if its reason changes, or if a call is found that a
 * rank did not enter or does not leave. */
static bool
may_replace(const mrd_hang_verdict *old, const mrd_hang_verdict *verdict)
{
    return old->cls == MRD_HANG_NO_VERDICT ||
           (old->cls == MRD_HANG_CANNOT_TELL && verdict->cls >= MRD_HANG_NOT_ENTERED &&
            verdict->cls != MRD_HANG_ALL_STUCK && !is_same(old, verdict));
}

static void
step_job(mrd_hang *hang, hang_job *job, mrd_local_ns now)
{
    mrd_hang_verdict verdict = { 0 };

    if (!mrd_hang_judge(hang, job, now, &verdict))
        return;
    if (verdict.cls == MRD_HANG_NO_VERDICT) {
        job->candidate.cls = MRD_HANG_NO_VERDICT;
        if (job->verdict.cls != MRD_HANG_NO_VERDICT)
            withdraw(hang, job, now);
        return;
    }
    if (!is_same(&verdict, &job->candidate)) {
        job->candidate = verdict;
        job->candidate_at = now;
    }
    if (mrd_local_diff(now, job->candidate_at) >= hang->o.confirm &&
        may_replace(&job->verdict, &verdict))
        give(hang, job, now);
}

/* Removes the processes of nodes that have sent no message for FORGET_GONE, and jobs without
 * processes. */
static void
forget(mrd_hang *hang, mrd_local_ns now)
{
    for (size_t i = 0; i < hang->n_nodes; i++)
        if (hang->nodes[i].n > 0 && mrd_local_diff(now, hang->nodes[i].seen) > FORGET_GONE)
            forget_processes(hang, &hang->nodes[i]);
    for (size_t i = hang->n_jobs; i-- > 0;) {
        hang_job *job = hang->jobs[i];

        if (job->n > 0)
            continue;
        if (job->verdict.cls != MRD_HANG_NO_VERDICT)
            withdraw(hang, job, now);
        free_job(hang, job);
        hang->jobs[i] = hang->jobs[--hang->n_jobs];
    }
}

size_t
mrd_hang_step(mrd_hang *hang, mrd_local_ns now)
{
    hang->n_changed = 0;
    for (size_t i = 0; i < hang->n_jobs; i++)
        step_job(hang, hang->jobs[i], now);
    forget(hang, now);
    return hang->n_changed;
}

const mrd_hang_verdict *
mrd_hang_get(const mrd_hang *hang, size_t i)
{
    for (size_t k = 0; k < hang->n_jobs; k++)
        if (hang->jobs[k]->verdict.cls != MRD_HANG_NO_VERDICT && i-- == 0)
            return &hang->jobs[k]->verdict;
    if (i >= hang->n_history)
        return NULL;
    return &hang->history[(hang->history_at + 2 * MRD_HANG_HISTORY - 1 - i) % MRD_HANG_HISTORY];
}

const mrd_hang_verdict *
mrd_hang_changed(const mrd_hang *hang, size_t i)
{
    return i < hang->n_changed ? &hang->changed[i] : NULL;
}

/* ---- Stacks of processes ---- */

const mrd_hang_stack *
mrd_hang_wants_stack(const mrd_hang *hang, uint64_t node, size_t i, uint64_t *ret_verdict)
{
    for (size_t k = 0; k < hang->n_jobs && hang->n_texts < MRD_HANG_TEXTS_MAX; k++) {
        const mrd_hang_verdict *verdict = &hang->jobs[k]->verdict;

        for (size_t m = 0; verdict->cls != MRD_HANG_NO_VERDICT && m < verdict->n_stacks; m++)
            if (verdict->stacks[m].node == node && verdict->stacks[m].text == NULL && i-- == 0) {
                *ret_verdict = verdict->id;
                return &verdict->stacks[m];
            }
    }
    return NULL;
}

/* Returns the stack that the verdict needs of this process, or NULL. */
static mrd_hang_stack *
needed_stack(const mrd_hang *hang, uint64_t node, uint64_t verdict, int64_t pid,
             int64_t start_ticks)
{
    for (size_t k = 0; k < hang->n_jobs; k++) {
        mrd_hang_verdict *v = &hang->jobs[k]->verdict;

        if (v->id != verdict || v->cls == MRD_HANG_NO_VERDICT)
            continue;
        for (size_t m = 0; m < v->n_stacks; m++)
            if (v->stacks[m].node == node && v->stacks[m].pid == pid &&
                v->stacks[m].start_ticks == start_ticks && v->stacks[m].text == NULL)
                return &v->stacks[m];
        return NULL;
    }
    return NULL;
}

void
mrd_hang_take_stack(mrd_hang *hang, uint64_t node, uint64_t verdict, int64_t pid,
                    int64_t start_ticks, const char *text)
{
    size_t len = strnlen(text, MRD_HANG_STACK_TEXT), bad;
    mrd_hang_stack *stack = needed_stack(hang, node, verdict, pid, start_ticks);

    if (stack == NULL || hang->n_texts >= MRD_HANG_TEXTS_MAX ||
        (stack->text = malloc(sizeof(*stack->text) + len + 1)) == NULL)
        return; /* no memory; the next answer to the node requests the stacks again */
    if (!mrd_utf8_valid((mrd_str){ text, len }, &bad))
        len = bad;
    stack->text->refs = 1;
    memcpy(stack->text->text, text, len);
    stack->text->text[len] = '\0';
    hang->n_texts++;
}

bool
mrd_hang_is_on(const mrd_hang *hang, const mrd_job_key *job, uint64_t node)
{
    const hang_node *n = find_node(hang, node);

    for (size_t i = 0; n != NULL && i < n->n; i++)
        if (mrd_job_key_equal(&n->processes[i].job->key, job))
            return true;
    return false;
}

void
mrd_hang_get_counts(const mrd_hang *hang, mrd_hang_counts *ret_counts)
{
    *ret_counts = hang->counts;
    ret_counts->jobs = hang->n_jobs;
    ret_counts->standing = 0;
    for (size_t i = 0; i < hang->n_jobs; i++)
        ret_counts->standing += hang->jobs[i]->verdict.cls != MRD_HANG_NO_VERDICT;
}
