/* agent/rings/drain_processes.c - keeps the list of processes with rings. A process is listed from
 * its first ring until its last ring is removed. */
#include "agent/rings/drain_processes.h"

#include <stdio.h>
#include <stdlib.h>

#include "agent/rings/drain_int.h"
#include "agent/rings/loss_count.h"
#include "base/hash.h"

void
mrd_drain_proc_free(mrd_drain *drain, proc *pr)
{
    mrd_open_spans_fini(&pr->open);
    mrd_drain_runtime_free(pr);
    if (pr->pub.catalog != drain->o.catalog) {
        if (drain->args_catalog == pr->pub.catalog) {
            mrd_args_free(drain->args);
            drain->args = NULL;
            drain->args_catalog = NULL;
        }
        mrd_catalog_free(pr->pub.catalog);
    }
    free(pr);
}

static mrd_sid
intern(mrd_catalog *cat, const char *text)
{
    return *text == '\0' ? MRD_SID_EMPTY : mrd_catalog_intern(cat, text);
}

/* Appends ",key=value" to the labels for each key of the job identity that has no member in
 * mrd_ident. */
static void
add_jobid(const mrd_ident *id, char *labels, size_t size)
{
    const char *at = id->jobid.text;
    mrd_str key, value;
    size_t n = strlen(labels);

    while (n < size && mrd_jobid_next(&at, &key, &value)) {
        if (mrd_str_is(key, "job") || mrd_str_is(key, "pod"))
            continue;
        n += (size_t) snprintf(labels + n, size - n, "%s" MRD_STR_FMT "=" MRD_STR_FMT,
                               n == 0 ? "" : ",", MRD_STR_ARG(key), MRD_STR_ARG(value));
    }
}

static void
register_process(mrd_drain *drain, proc *pr)
{
    mrd_catalog *cat = pr->pub.catalog;
    const mrd_ident *id = &pr->pub.ident;
    mrd_process mp;
    char labels[MRD_JOBID_MAX + 256];

    mrd_process_init(&mp);
    mp.instance_id = mrd_catalog_intern(cat, drain->instance_id);
    mp.process_id = id->pid;
    mp.container_pid = id->container_pid;
    mp.name = intern(cat, id->process_tag[0] != '\0' ? id->process_tag
                          : id->comm[0] != '\0'      ? id->comm
                                                     : id->command);
    mp.job = intern(cat, id->job);
    mp.pod = intern(cat, id->pod_name[0] != '\0' ? id->pod_name : id->pod_uid);
    snprintf(labels, sizeof(labels), "%s%s%s%s%s", id->container_id[0] != '\0' ? "container=" : "",
             id->container_id,
             id->container_id[0] != '\0' && id->visible_cores[0] != '\0' ? "," : "",
             id->visible_cores[0] != '\0' ? "cores=" : "", id->visible_cores);
    add_jobid(id, labels, sizeof(labels));
    mp.labels = intern(cat, labels);
    mp.rank = id->rank;
    mp.world_size = id->world_size;
    if (drain->o.simulated)
        mp.flags |= MRD_PROC_SIMULATED;
    pr->pub.id = mrd_catalog_process(cat, &mp);
}

proc *
mrd_drain_proc_find(mrd_drain *drain, int64_t pid, uint64_t start)
{
    proc *pr = drain->procs;

    while (pr != NULL && (pr->pub.ident.pid != pid || pr->start_ticks != start))
        pr = pr->next;
    return pr;
}

proc *
mrd_drain_proc_new(mrd_drain *drain, const mrd_ident *id, const mrd_ring_info *info)
{
    uint64_t start = info->name.start_ticks;
    proc *pr = calloc(1, sizeof(*pr));
    uint64_t scope[3] = { (uint64_t) id->pid, start, 0 };

    if (pr == NULL)
        return NULL;
    pr->pub.catalog = drain->o.catalog != NULL ? drain->o.catalog : mrd_catalog_new();
    if (pr->pub.catalog == NULL) {
        free(pr);
        return NULL;
    }
    pr->pub.ident = *id;
    pr->start_ticks = start;
    pr->first = (mrd_safe_open_claim){ id->pid, info->file_uid, info->device, info->inode };
    pr->uid = id->uid == MRD_NONE ? info->file_uid : (uint32_t) id->uid;
    scope[2] = mrd_hash64(drain->instance_id, strlen(drain->instance_id), 0);
    pr->flow_scope = mrd_hash64(scope, sizeof(scope), 1);
    pr->shift_ns = drain->timens_ns - (info->timens_monotonic_ns != 0 ? info->timens_monotonic_ns
                                                                      : id->timens_monotonic_ns);
    register_process(drain, pr);
    pr->next = drain->procs;
    drain->procs = pr;
    drain->counts.processes++;
    drain->counts.processes_seen++;
    mrd_drain_open_adopt(drain, pr, info);
    if (drain->o.process != NULL)
        drain->o.process(drain->o.self, &pr->pub);
    return pr;
}

static void
end_process(mrd_drain *drain, proc *pr)
{
    proc **at = &drain->procs;
    bool saved;

    pr->pub.open_until = (mrd_ev_ns){ pr->seen_alive      ? mrd_local_now().ns
                                      : pr->newest.ns > 0 ? pr->newest.ns
                                                          : 1 };
    mrd_drain_runtime_flush(drain, pr);
    saved = pr->open.n_saved + pr->open.n_taken > 0;
    mrd_drain_flush_open(drain, pr);
    if (saved)
        mrd_drain_open_gone(drain, pr);
    while (*at != pr)
        at = &(*at)->next;
    *at = pr->next;
    drain->counts.processes--;
    pr->pub.gone = true;
    if (drain->o.process != NULL)
        drain->o.process(drain->o.self, &pr->pub);
    mrd_drain_proc_free(drain, pr);
}

void
mrd_drain_proc_unused(mrd_drain *drain, proc *pr)
{
    if (pr->n_rings == 0 && pr->n_notes == 0)
        end_process(drain, pr);
}

/* Adds a process that has no rings but has open spans in the log of a previous agent, and ends
 * these spans. */
void
mrd_drain_proc_orphan(mrd_drain *drain, int64_t pid, const mrd_ring_info *info, uint64_t key,
                      const void *records)
{
    mrd_ident id;
    proc *pr;
    const mrd_process *mp;

    mrd_ident_init(&id);
    id.pid = pid;
    id.start_ticks = (int64_t) info->name.start_ticks;
    if ((pr = mrd_drain_proc_new(drain, &id, info)) == NULL)
        return;
    mrd_drain_open_replay(drain, pr, key, records);
    mp = mrd_catalog_borrow_process(pr->pub.catalog, pr->pub.id);
    pr->pub.ident.rank = mp->rank;
    snprintf(pr->pub.ident.job, sizeof(pr->pub.ident.job), "%.127s",
             mrd_catalog_text(pr->pub.catalog, mp->job).p);
    end_process(drain, pr);
}
