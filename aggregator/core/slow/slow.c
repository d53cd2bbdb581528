#include "aggregator/core/slow/slow_int.h"

#include <stdlib.h>
#include <string.h>

#include "aggregator/core/common/text.h"
#include "base/vec.h"

/* if a node sends no message for this time, its processes are removed */
#define FORGET_GONE (600 * MRD_SEC)
#define JUDGE_EVERY MRD_SEC

const char *
mrd_slow_class_text(mrd_slow_class slow_class)
{
    static const char *const texts[MRD_SLOW_CLASSES] = { "none",   "starved", "host",
                                                         "device", "runtime", "execution" };

    return texts[slow_class];
}

const char *
mrd_slow_part_text(mrd_slow_part part)
{
    static const char *const texts[MRD_SLOW_PARTS] = { "host", "device", "runtime", "execution" };

    return texts[part];
}

mrd_slow *
mrd_slow_new(void)
{
    mrd_slow *slow = calloc(1, sizeof(*slow));

    if (slow == NULL ||
        (slow->history = calloc(MRD_SLOW_HISTORY, sizeof(*slow->history))) == NULL) {
        free(slow);
        return NULL;
    }
    return slow;
}

static void
free_job(slow_job *job)
{
    free(job->members);
    free(job);
}

static void
free_process(slow_process *process)
{
    free(process->series);
    free(process);
}

void
mrd_slow_free(mrd_slow *slow)
{
    if (slow == NULL)
        return;
    for (size_t i = 0; i < slow->n_nodes; i++) {
        for (size_t k = 0; k < slow->nodes[i].n; k++)
            free_process(slow->nodes[i].processes[k]);
        free(slow->nodes[i].processes);
    }
    for (size_t i = 0; i < slow->n_jobs; i++)
        free_job(slow->jobs[i]);
    mrd_map_fini(&slow->node_by_key);
    mrd_map_fini(&slow->job_by_key);
    free(slow->nodes);
    free(slow->jobs);
    free(slow->history);
    free(slow->changed);
    free(slow->scratch);
    free(slow->peers);
    free(slow->findings);
    free(slow);
}

/* ---- Nodes ---- */

static slow_node *
find_node(const mrd_slow *slow, uint64_t key)
{
    uint32_t i = mrd_map_get(&slow->node_by_key, (mrd_map_key){ key, 0, 0 });

    return i == MRD_MAP_NONE ? NULL : &slow->nodes[i];
}

void
mrd_slow_node_seen(mrd_slow *slow, uint64_t node, mrd_local_ns at)
{
    slow_node *n = find_node(slow, node);

    if (n == NULL)
        return; /* ignored, because the node has never reported a process */
    n->seen = at;
    n->gone.ns = 0;
}

void
mrd_slow_node_gone(mrd_slow *slow, uint64_t node, mrd_local_ns at)
{
    slow_node *n = find_node(slow, node);

    if (n != NULL)
        n->gone = at;
}

bool
mrd_slow_node_begin(mrd_slow *slow, uint64_t node, const char *name, mrd_local_ns at)
{
    slow_node *n = find_node(slow, node);

    if (n == NULL) {
        if (!MRD_VEC_ROOM(slow->nodes, slow->n_nodes, slow->cap_nodes, 1) ||
            mrd_map_put(&slow->node_by_key, (mrd_map_key){ node, 0, 0 },
                        (uint32_t) slow->n_nodes) != MRD_OK)
            return false;
        n = &slow->nodes[slow->n_nodes++];
        *n = (slow_node){ .key = node };
        mrd_text_set(n->name, sizeof(n->name), name);
    }
    for (size_t i = 0; i < n->n; i++)
        n->processes[i]->reported = false;
    n->changed = true;
    n->next = 0;
    n->seen = at;
    n->gone.ns = 0;
    return true;
}

/* Removes a process from its job and frees it. */
static void
drop_process(mrd_slow *slow, slow_process *process)
{
    slow_job *job = process->job;

    job->members[process->member] = job->members[--job->n];
    job->members[process->member]->member = process->member;
    job->unsorted = true;
    slow->counts.ranks--;
    slow->counts.paced -= process->series != NULL;
    free_process(process);
}

/* Removes the processes that the node's last report does not have. */
static void
drop_unreported(mrd_slow *slow, slow_node *node)
{
    size_t kept = 0;

    for (size_t i = 0; i < node->n; i++)
        if (node->processes[i]->reported)
            node->processes[kept++] = node->processes[i];
        else
            drop_process(slow, node->processes[i]);
    node->n = kept;
    node->changed = false;
}

/* ---- Jobs ---- */

/* The key of a job in job_by_key. Unconfirmed processes are kept as a separate job. */
static mrd_map_key
map_key(const mrd_job_key *key, bool confirmed)
{
    mrd_map_key map_key = mrd_id_key(key->text);

    map_key.b ^= (uint64_t) key->uid;
    map_key.c = map_key.c << 1 | confirmed;
    return map_key;
}

slow_job *
mrd_slow_find_job(const mrd_slow *slow, const mrd_job_key *key, bool confirmed)
{
    uint32_t i = mrd_map_get(&slow->job_by_key, map_key(key, confirmed));

    /* two keys with the same hash are practically impossible, but must not mix two jobs */
    return i != MRD_MAP_NONE && mrd_job_key_equal(&slow->jobs[i]->key, key) ? slow->jobs[i] : NULL;
}

static slow_job *
job_of(mrd_slow *slow, const mrd_job_key *key, bool confirmed, mrd_local_ns now)
{
    slow_job *job = mrd_slow_find_job(slow, key, confirmed);
    mrd_map_key hash = map_key(key, confirmed);

    if (job != NULL)
        return job;
    if (slow->n_jobs == MRD_HANG_JOBS_MAX || mrd_map_get(&slow->job_by_key, hash) != MRD_MAP_NONE ||
        !MRD_VEC_ROOM(slow->jobs, slow->n_jobs, slow->cap_jobs, 1) ||
        (job = calloc(1, sizeof(*job))) == NULL)
        return NULL;
    if (mrd_map_put(&slow->job_by_key, hash, (uint32_t) slow->n_jobs) != MRD_OK) {
        free(job);
        return NULL;
    }
    job->key = *key;
    job->confirmed = confirmed;
    job->first_seen = now;
    for (size_t i = 0; i < MRD_SLOW_PARTS; i++)
        job->part[i] = -1;
    slow->jobs[slow->n_jobs++] = job;
    return job;
}

static void
drop_job(mrd_slow *slow, size_t i)
{
    slow_job *job = slow->jobs[i];

    mrd_map_remove(&slow->job_by_key, map_key(&job->key, job->confirmed));
    free_job(job);
    slow->jobs[i] = slow->jobs[--slow->n_jobs];
    /* the key exists, so that this cannot fail for lack of memory */
    if (i < slow->n_jobs)
        (void) mrd_map_put(&slow->job_by_key,
                           map_key(&slow->jobs[i]->key, slow->jobs[i]->confirmed), (uint32_t) i);
}

/* ---- Reports about processes ---- */

static slow_process *
find_process(slow_node *node, const slow_job *job, const mrd_slow_reading *reading)
{
    /* a node reports its processes in the same order each time, so the first look succeeds */
    for (size_t k = 0; k < node->n; k++) {
        size_t i = (node->next + k) % node->n;
        slow_process *process = node->processes[i];

        if (process->pid == reading->pid && process->start_ticks == reading->start_ticks &&
            process->job == job && !process->reported) {
            node->next = i + 1;
            return process;
        }
    }
    return NULL;
}

static slow_process *
new_process(mrd_slow *slow, slow_node *node, slow_job *job, const mrd_slow_reading *reading)
{
    slow_process *process;

    if (slow->counts.ranks >= MRD_HANG_RANKS_MAX ||
        !MRD_VEC_ROOM(job->members, job->n, job->cap, 1) ||
        !MRD_VEC_ROOM(node->processes, node->n, node->cap, 1) ||
        (process = calloc(1, sizeof(*process))) == NULL)
        return NULL;
    process->pid = reading->pid;
    process->start_ticks = reading->start_ticks;
    process->job = job;
    process->member = job->n;
    process->node = (size_t) (node - slow->nodes);
    job->members[job->n++] = process;
    job->unsorted = true;
    node->processes[node->n++] = process;
    slow->counts.ranks++;
    return process;
}

void
mrd_slow_report(mrd_slow *slow, uint64_t node, const mrd_jobid *job, int64_t uid, bool confirmed,
                const mrd_slow_reading *reading)
{
    slow_node *n = find_node(slow, node);
    slow_process *process;
    mrd_job_key key;
    slow_job *j;

    mrd_job_key_of(job, uid, &key);
    if (n == NULL || key.text[0] == '\0')
        return;
    if ((j = job_of(slow, &key, confirmed, n->seen)) == NULL ||
        ((process = find_process(n, j, reading)) == NULL &&
         (process = new_process(slow, n, j, reading)) == NULL)) {
        slow->counts.left_out++;
        return;
    }
    /* The pair `user` decides about the rights to read a verdict, and may differ between processes
     * with the same key. Only common pairs are kept. */
    if (j->identity.text[0] == '\0')
        j->identity = *job;
    else
        mrd_jobid_keep_common(&j->identity, job);
    if (process->rank != reading->rank)
        j->unsorted = true;
    process->rank = reading->rank;
    process->world = reading->world;
    process->state = reading->state;
    process->lost = reading->lost;
    process->reported = true;
    if (reading->at.ns != 0)
        mrd_slow_take(slow, process, reading);
    else if (process->series != NULL)
        process->series->interrupted = true;
}

/* ---- Verdicts ---- */

size_t
mrd_slow_step(mrd_slow *slow, mrd_local_ns now)
{
    slow->n_changed = 0;
    for (size_t i = 0; i < slow->n_nodes; i++) {
        slow_node *node = &slow->nodes[i];

        if (node->n > 0 && mrd_local_diff(now, node->seen) > FORGET_GONE) {
            for (size_t k = 0; k < node->n; k++)
                node->processes[k]->reported = false;
            node->changed = true;
        }
        if (node->changed)
            drop_unreported(slow, node);
    }
    for (size_t i = slow->n_jobs; i-- > 0;)
        if (slow->jobs[i]->n == 0) {
            mrd_slow_withdraw(slow, slow->jobs[i], now);
            drop_job(slow, i);
        }
    if (slow->stepped.ns != 0 && mrd_local_diff(now, slow->stepped) < JUDGE_EVERY)
        return slow->n_changed;
    slow->stepped = now;
    for (size_t i = 0; i < slow->n_jobs; i++) {
        mrd_slow_refresh(slow, slow->jobs[i]);
        mrd_slow_judge(slow, slow->jobs[i], now);
    }
    return slow->n_changed;
}

const mrd_slow_verdict *
mrd_slow_get(const mrd_slow *slow, size_t i)
{
    for (size_t k = 0; k < slow->n_jobs; k++)
        if (slow->jobs[k]->verdict.cls != MRD_SLOW_NO_VERDICT && i-- == 0)
            return &slow->jobs[k]->verdict;
    if (i >= slow->n_history)
        return NULL;
    return &slow->history[(slow->history_at + 2 * MRD_SLOW_HISTORY - 1 - i) % MRD_SLOW_HISTORY];
}

const mrd_slow_verdict *
mrd_slow_changed(const mrd_slow *slow, size_t i)
{
    return i < slow->n_changed ? &slow->changed[i] : NULL;
}

void
mrd_slow_get_counts(const mrd_slow *slow, mrd_slow_counts *ret_counts)
{
    *ret_counts = slow->counts;
    ret_counts->jobs = slow->n_jobs;
    ret_counts->slow = 0;
    for (size_t i = 0; i < slow->n_jobs; i++)
        ret_counts->slow += slow->jobs[i]->verdict.cls != MRD_SLOW_NO_VERDICT;
}
