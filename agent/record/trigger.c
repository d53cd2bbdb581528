#include "agent/record/trigger.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/conf/agent_waits.h"
#include "base/hash.h"
#include "base/obj.h"
#include "trace/model/arg_keys.h"

typedef struct {
    /* Identity of the process. The pointer is only compared, never dereferenced. pid and
     * start_ticks are compared too, because another process may get the same address later. */
    const void *process;
    int64_t pid, start_ticks;
    mrd_sid name;
    mrd_dur_ns history[MRD_TRIGGER_HISTORY];
    unsigned n, at;
    uint64_t used; /* value of the watch's counter of uses when the entry was last used */
} steps;

/* number of recent session starts that are remembered */
#define STARTS 16
/* number of tenants that are remembered; a further tenant replaces the oldest */
#define TENANTS         64
#define QUEUE_FULL      7
#define PENDING         1100
#define EXECUTIONS_FROM 1000
#define EXECUTIONS_TO   10000

enum { CAUSE_STATUS, CAUSE_NUMERICAL, CAUSE_STEP, CAUSE_COLLECTIVE, CAUSES };

/* When each cause was last reported for one tenant (job or user). Reports are limited per tenant,
 * so that one tenant cannot suppress the reports of another. */
typedef struct {
    uint64_t tenant;
    mrd_local_ns at[CAUSES];
} told_causes;

struct mrd_trigger_watch {
    mrd_trigger_options o;
    steps steps[MRD_TRIGGER_STEPS];
    uint64_t turn;
    told_causes told[TENANTS];
    /* number of tenants (jobs or users) up to now; if it exceeds TENANTS, the oldest were
     * replaced */
    unsigned n_told;
    mrd_local_ns starts[STARTS]; /* start times of recent sessions; 0 means none */
    unsigned n_starts;
};

static const struct {
    int64_t value;
    const char *text;
} statuses[] = {
    { 1, "failure" },
    { 4, "out of resources" },
    { 5, "time-out" },
    { 6, "hardware error" },
    { QUEUE_FULL, "queue full" },
    { 9, "not enough cores to load the model" },
    { 10, "unsupported NEFF version" },
    { 11, "out of host memory" },
    { 101, "execution unit unrecoverable" },
    { 1002, "bad input" },
    { 1003, "completed with numerical errors" },
    { 1004, "completed with errors" },
    { 1005, "core busy" },
    { 1006, "out of bounds" },
    { 1200, "collective stuck" },
    { 1201, "uncorrectable HBM error" },
    { 1202, "uncorrectable core error" },
    { 1203, "DMA abort" },
    { 1204, "notification queue overflow" },
    { 1205, "repairable HBM error" },
    { 1206, "network proxy failure" },
};

static const char unknown[] = "unknown status";

/* Returns the name of a status that is a fault, NULL for other statuses. These are no faults: wrong
 * calls (2, 3, 13, 14), replies to a query (15, 1100), unused numbers. A status from 1000 on says
 * how an execution ended. If our table does not have this status, a newer runtime added it, and
 * `unknown` is returned. */
static const char *
trigger_status_text(int64_t status)
{
    for (size_t i = 0; i < MRD_COUNT(statuses); i++)
        if (statuses[i].value == status)
            return statuses[i].text;
    return status >= EXECUTIONS_FROM && status < EXECUTIONS_TO && status != PENDING ? unknown
                                                                                    : NULL;
}

/* Returns true if the status is a fault. NRT_QUEUE_FULL from a schedule call (nrta_...) is only
 * back-pressure and no fault. */
static bool
trigger_status_is_fault(const char *function, int64_t status)
{
    if (status == QUEUE_FULL && strncmp(function, "nrta_", 5) == 0)
        return false;
    return trigger_status_text(status) != NULL;
}

/* Returns the name of a status from the table `statuses`. If the table does not have it, returns
 * the name that the runtime gave. */
static mrd_str
status_name(const mrd_drain_process *process, const mrd_event *ev, int64_t status)
{
    const char *known = trigger_status_text(status);

    for (uint32_t i = 0; i < ev->arg_count && known == unknown; i++) {
        const mrd_arg *arg = &ev->args[i];

        if (!mrd_str_is(mrd_catalog_text(process->catalog, arg->key),
                        mrd_arg_key_text(MRD_KEY_STATUS_TEXT)))
            continue;
        if (arg->type == MRD_ARG_STR)
            return mrd_catalog_text(process->catalog, arg->v.sid);
        if (arg->type == MRD_ARG_TEXT)
            return (mrd_str){ arg->v.text, arg->len };
    }
    return (mrd_str){ known, strlen(known) };
}

/* Returns true if the event is a span of the program. Such a span may have an argument that looks
 * like a status of the runtime but is none. */
static bool
of_program(const mrd_drain_process *process, const mrd_event *ev)
{
    return strncmp(mrd_catalog_text(process->catalog, ev->name).p, "nrt", 3) != 0 &&
           mrd_catalog_borrow_track(process->catalog, ev->track)->source == MRD_SRC_ANNOTATION;
}

mrd_err
mrd_trigger_open(const mrd_trigger_options *options, mrd_trigger_watch **ret_trigger, mrd_why *why)
{
    mrd_trigger_watch *watch = calloc(1, sizeof(*watch));

    if (watch == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "triggers");
    watch->o = *options;
    if (watch->o.quiet_ns == 0)
        watch->o.quiet_ns = MRD_WAIT_TRIGGER_QUIET;
    if (watch->o.step_name == NULL || *watch->o.step_name == '\0')
        watch->o.step_name = "*step*";
    *ret_trigger = watch;
    return MRD_OK;
}

void
mrd_trigger_close(mrd_trigger_watch *watch)
{
    free(watch);
}

void
mrd_trigger_session(mrd_trigger_watch *watch, mrd_local_ns start)
{
    watch->starts[watch->n_starts++ % STARTS] = start;
}

/* Returns true if a session started after the time `told` of the last report, so that the session
 * did not receive the report. */
static bool
started_since(const mrd_trigger_watch *watch, mrd_local_ns told, mrd_local_ns now)
{
    for (size_t i = 0; i < STARTS; i++)
        if (watch->starts[i].ns != 0 && !mrd_local_before(watch->starts[i], told) &&
            !mrd_local_after(watch->starts[i], now))
            return true;
    return false;
}

/* Returns the times of the last reports for the process's tenant. The tenant is the job of the
 * process, or its user if it has no job. */
static told_causes *
told_of(mrd_trigger_watch *watch, const mrd_drain_process *process)
{
    mrd_str uid = mrd_jobid_get(&process->ident.jobid, "uid");
    mrd_job_key key;
    uint64_t tenant;

    mrd_job_key_of(&process->ident.jobid, 0, &key);
    tenant = mrd_hash64(key.text, strlen(key.text), mrd_hash64(uid.p, uid.len, 0));
    for (size_t i = 0; i < TENANTS && i < watch->n_told; i++)
        if (watch->told[i].tenant == tenant)
            return &watch->told[i];
    watch->told[watch->n_told % TENANTS] = (told_causes){ .tenant = tenant };
    return &watch->told[watch->n_told++ % TENANTS];
}

static bool
tell(mrd_trigger_watch *watch, const mrd_drain_process *process, unsigned cause)
{
    mrd_local_ns now = mrd_local_now(), *told = &told_of(watch, process)->at[cause];

    if (told->ns != 0 && mrd_local_diff(now, *told) < watch->o.quiet_ns &&
        !started_since(watch, *told, now))
        return false;
    *told = now;
    return true;
}

/* ---- Error statuses of the runtime ---- */

static bool
bad_status(mrd_trigger_watch *watch, const mrd_drain_process *process, const mrd_event *ev,
           char reason[256])
{
    for (uint32_t i = 0; i < ev->arg_count; i++) {
        const mrd_arg *arg = &ev->args[i];
        const char *name = mrd_catalog_text(process->catalog, ev->name).p;
        mrd_str said;

        if (!mrd_arg_is_int(arg))
            continue;
        if (!mrd_str_is(mrd_catalog_text(process->catalog, arg->key),
                        mrd_arg_key_text(MRD_KEY_STATUS)) ||
            !trigger_status_is_fault(name, arg->v.i) || !tell(watch, process, CAUSE_STATUS))
            continue;
        said = status_name(process, ev, arg->v.i);
        snprintf(reason, 256, "%.100s returned %lld (%.*s)", name, (long long) arg->v.i,
                 (int) (said.len < 100 ? said.len : 100), said.p);
        return true;
    }
    return false;
}

/* ---- Slow steps ---- */

static int
by_length(const void *a, const void *b)
{
    mrd_dur_ns x = *(const mrd_dur_ns *) a, y = *(const mrd_dur_ns *) b;

    return (x > y) - (x < y);
}

static mrd_dur_ns
median(const steps *s)
{
    mrd_dur_ns sorted[MRD_TRIGGER_HISTORY];

    memcpy(sorted, s->history, s->n * sizeof(*sorted));
    qsort(sorted, s->n, sizeof(*sorted), by_length);
    return sorted[s->n / 2];
}

/* Returns the durations of earlier steps with this name. If all slots are in use, reuses the slot
 * that was unused for the longest time. */
static steps *
steps_of(mrd_trigger_watch *watch, const mrd_drain_process *process, mrd_sid name)
{
    steps *oldest = &watch->steps[0];

    for (size_t i = 0; i < MRD_TRIGGER_STEPS; i++) {
        if (watch->steps[i].process == process && watch->steps[i].name == name &&
            watch->steps[i].pid == process->ident.pid &&
            watch->steps[i].start_ticks == process->ident.start_ticks)
            return &watch->steps[i];
        if (watch->steps[i].used < oldest->used)
            oldest = &watch->steps[i];
    }
    *oldest = (steps){ .process = process,
                       .pid = process->ident.pid,
                       .start_ticks = process->ident.start_ticks,
                       .name = name };
    return oldest;
}

static bool
slow_step(mrd_trigger_watch *watch, const mrd_drain_process *process, const mrd_event *ev,
          char reason[256])
{
    const char *name = mrd_catalog_text(process->catalog, ev->name).p;
    char took[MRD_DUR_TEXT], usual[MRD_DUR_TEXT];
    mrd_dur_ns middle;
    bool slow = false;
    steps *s;

    if (ev->dur_ns <= 0 || fnmatch(watch->o.step_name, name, 0) != 0)
        return false;
    s = steps_of(watch, process, ev->name);
    s->used = ++watch->turn;
    if (s->n >= MRD_TRIGGER_LEARN) {
        middle = median(s);
        slow = (double) ev->dur_ns * 100 > (double) watch->o.slow_step_percent * (double) middle &&
               tell(watch, process, CAUSE_STEP);
        if (slow)
            snprintf(reason, 256, "%.80s took %s, its median is %s", name,
                     mrd_dur_text(ev->dur_ns, took), mrd_dur_text(middle, usual));
    }
    s->history[s->at++ % MRD_TRIGGER_HISTORY] = ev->dur_ns;
    if (s->n < MRD_TRIGGER_HISTORY)
        s->n++;
    return slow;
}

/* ---- Slow collectives ---- */

static bool
stuck_collective(mrd_trigger_watch *watch, const mrd_drain_process *process, const mrd_event *ev,
                 char reason[256])
{
    const char *name = mrd_catalog_text(process->catalog, ev->name).p;
    char took[MRD_DUR_TEXT];

    if (strncmp(name, "cc_", 3) != 0 && strncmp(name, "nrt_all_gather", 14) != 0 &&
        strcmp(name, "nrt_barrier") != 0 && strcmp(name, "enc_barrier") != 0)
        return false;
    if ((ev->dur_ns >= 0 && ev->dur_ns < watch->o.collective_ns) ||
        !tell(watch, process, CAUSE_COLLECTIVE))
        return false;
    if (ev->dur_ns < 0)
        snprintf(reason, 256, "%.80s did not end", name);
    else
        snprintf(reason, 256, "%.80s took %s", name, mrd_dur_text(ev->dur_ns, took));
    return true;
}

bool
mrd_trigger_event(mrd_trigger_watch *watch, const mrd_drain_process *process, const mrd_event *ev,
                  char reason[256])
{
    if (watch->o.errors && ev->arg_count > 0 && ev->kind == MRD_SPAN && !of_program(process, ev) &&
        bad_status(watch, process, ev, reason))
        return true;
    if (watch->o.errors && ev->kind == MRD_INSTANT &&
        mrd_str_is(mrd_catalog_text(process->catalog, ev->name), "numerical_err") &&
        tell(watch, process, CAUSE_NUMERICAL)) {
        snprintf(reason, 256, "the runtime reported a numerical error");
        return true;
    }
    if (ev->kind != MRD_SPAN)
        return false;
    return (watch->o.slow_step_percent > 0 && slow_step(watch, process, ev, reason)) ||
           (watch->o.collective_ns > 0 && stuck_collective(watch, process, ev, reason));
}
