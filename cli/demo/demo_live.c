/* The part of `meridian demo` that shows verdicts while the job runs: the rank that makes it slow,
 * then a rank that is stopped. */
#include <signal.h>
#include <stdio.h>

#include "base/obj.h"
#include "cli/client/cluster.h"
#include "cli/client/job_list.h"
#include "cli/demo/demo.h"

#define POLL (200 * MRD_MS)

/* Gets the job of the demo with its ranks. NULL if it is not listed. */
static mrd_json *
get_job(const mrd_demo_live *live)
{
    mrd_json *doc = NULL, *job = NULL;
    char path[96];

    if (mrd_job_list_get(live->client, live->job, &doc, NULL) != MRD_OK)
        return NULL;
    if (mrd_json_size(mrd_json_get(doc, "jobs")) > 0) {
        snprintf(path, sizeof(path), "/api/v1/jobs/%s",
                 mrd_cluster_shown(mrd_json_at(mrd_json_get(doc, "jobs"), 0), "id", "-"));
        (void) mrd_client_call(live->client, "GET", path, NULL, &job, NULL);
    }
    mrd_json_free(doc);
    return job;
}

/* Waits until the job has the state. *ret_job is NULL if it has not after the time `limit`. */
static mrd_err
wait_for(const mrd_demo_live *live, const char *state, mrd_dur_ns limit, mrd_json **ret_job,
         mrd_why *why)
{
    mrd_local_ns until = mrd_local_add(mrd_local_now(), limit);
    mrd_err err;

    *ret_job = NULL;
    while ((err = live->look(live->self, why)) == MRD_OK) {
        mrd_json *job = get_job(live);

        if (mrd_job_list_is(job, state)) {
            *ret_job = job;
            break;
        }
        mrd_json_free(job);
        if (mrd_local_after(mrd_local_now(), until))
            break;
        mrd_cluster_sleep(POLL);
    }
    return err;
}

static void
print_verdict(const char *what, const mrd_json *job)
{
    char verdict_text[MRD_JOB_LIST_TEXT];

    printf("%-12s", what);
    mrd_cluster_say(stdout, mrd_job_list_text(job, verdict_text));
    fflush(stdout);
}

/* Returns the process id of a rank in the answer about the job, or 0. */
static pid_t
pid_of(const mrd_json *job, int64_t rank)
{
    const mrd_json *list = mrd_json_get(job, "rank_list");

    for (size_t i = 0; i < mrd_json_size(list); i++)
        if (mrd_json_int(mrd_json_at(list, i), "rank", -1) == rank)
            return (pid_t) mrd_json_int(mrd_json_at(list, i), "process_id", 0);
    return 0;
}

/* Stops a rank, waits for the verdict, and lets the rank continue. */
static mrd_err
stop_rank(const mrd_demo_live *live, pid_t pid, bool *ret_named, mrd_why *why)
{
    mrd_json *job = NULL, *after = NULL;
    mrd_err err;

    printf("            rank %lld is stopped (SIGSTOP)\n", (long long) live->stopped_rank);
    fflush(stdout);
    if (kill(pid, SIGSTOP) != 0)
        return MRD_OK; /* the job has ended; the next look reports this */
    err = wait_for(live, "standing", live->timeout, &job, why);
    (void) kill(pid, SIGCONT);
    if (job == NULL)
        return err;
    *ret_named = true;
    print_verdict("stands", job);
    mrd_json_free(job);
    if ((err = wait_for(live, "running", 5 * MRD_SEC, &after, why)) == MRD_OK && after == NULL)
        err = wait_for(live, "slow", live->timeout, &after, why);
    if (after != NULL)
        printf("            the rank continues, and so does the job\n");
    mrd_json_free(after);
    return err;
}

mrd_err
mrd_demo_show_live(const mrd_demo_live *live, bool *ret_whole, mrd_why *why)
{
    mrd_json *job = NULL;
    bool slow = true, stopped = false;
    mrd_err err = MRD_OK;
    pid_t pid;

    if (live->slow_rank >= 0) {
        if ((err = wait_for(live, "slow", live->timeout, &job, why)) != MRD_OK)
            return err;
        slow = job != NULL;
        if (slow)
            print_verdict("slow", job);
        mrd_json_free(job);
    }
    if (live->stopped_rank >= 0) {
        job = get_job(live);
        pid = pid_of(job, live->stopped_rank);
        mrd_json_free(job);
        if (pid > 0)
            err = stop_rank(live, pid, &stopped, why);
    } else {
        stopped = true;
    }
    if (err == MRD_OK && (!slow || !stopped))
        printf("live        no verdict about a %s rank: the machine is too busy, try again\n",
               slow ? "stopped" : "slow");
    *ret_whole = slow && stopped;
    return err;
}
