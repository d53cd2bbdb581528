/* `meridian watch [JOB]`: follows jobs, and prints a line when the state of one changes. */
#include <stdio.h>
#include <string.h>

#include "base/obj.h"
#include "cli/cli.h"
#include "cli/client/cluster.h"
#include "cli/client/job_list.h"

typedef struct {
    mrd_client_options client;
    bool first;
} settings;

static const mrd_opt table[] = {
    { .name = "first",
      .type = MRD_OPT_BOOL,
      .offset = offsetof(settings, first),
      .help = "end when a job stands still or is slow" },
    MRD_CLIENT_OPTION_ROWS(settings, client),
};

typedef struct {
    const settings *set;
    const char *word;
    mrd_json *known; /* last printed signature of each job, by its id */
    mrd_json *last;  /* list of jobs of the last answer; NULL before the first one */
    bool silent;     /* the aggregator does not answer, and a message said so */
    bool waits;      /* the job is not listed yet, and a message said so */
} watcher;

/* Writes what must change for a new line: the state and the number of the verdict. */
static void
signature(const mrd_json *job, char text[96])
{
    const mrd_json *verdict = mrd_job_list_verdict(job);

    snprintf(text, 96, "%.40s %lld %lld", mrd_json_str(job, "state", ""),
             (long long) mrd_json_int(verdict, "id", 0),
             (long long) (mrd_json_int(verdict, "since_ns", 0) / (60 * MRD_SEC)));
}

/* Prints one line about a job. `before` is true if an earlier line was about another state. */
static void
print_line(const watcher *w, const mrd_json *job, bool before)
{
    const mrd_json *verdict = mrd_job_list_verdict(job);
    const char *name = mrd_cluster_shown(mrd_json_get(job, "job"), "job", "-");
    char now[MRD_TIME_TEXT], step[MRD_DUR_TEXT], line[2 * MRD_JOB_LIST_TEXT];
    char verdict_text[MRD_JOB_LIST_TEXT];
    long long ranks = mrd_json_int(job, "ranks", 0);

    if (w->set->client.json) {
        mrd_buf text = { 0 };

        mrd_json_write(job, false, &text);
        mrd_text_show_json((mrd_str){ (const char *) text.p, text.len }, stdout);
        putchar('\n');
        mrd_buf_fini(&text);
        fflush(stdout);
        return;
    }
    mrd_wall_text(mrd_wall_now(), now);
    mrd_job_list_text(job, verdict_text);
    mrd_dur_text(mrd_json_int(job, "step_ns", 0), step);
    if (mrd_job_list_is(job, "standing"))
        snprintf(line, sizeof(line), "%.19sZ job %s stands still since %.19sZ: %s", now, name,
                 mrd_json_str(verdict, "since", "-"), verdict_text);
    else if (mrd_job_list_is(job, "slow"))
        snprintf(line, sizeof(line), "%.19sZ job %s is slow since %.19sZ: %s", now, name,
                 mrd_json_str(verdict, "since", "-"), verdict_text);
    else if (mrd_job_list_is(job, "finished"))
        snprintf(line, sizeof(line), "%.19sZ job %s has ended", now, name);
    else if (mrd_json_get(job, "step_ns") != NULL)
        snprintf(line, sizeof(line), "%.19sZ job %s %s: %lld ranks, %s a step", now, name,
                 before ? "goes on" : "runs", ranks, step);
    else
        snprintf(line, sizeof(line), "%.19sZ job %s %s: %lld ranks", now, name,
                 before ? "goes on" : "runs", ranks);
    mrd_cluster_say(stdout, line);
    fflush(stdout);
}

static void
look_at(watcher *w, const mrd_json *job)
{
    const char *id = mrd_json_str(job, "id", "-");
    const char *known = mrd_json_str(w->known, id, NULL);
    char text[96];

    signature(job, text);
    if (known != NULL && strcmp(known, text) == 0)
        return;
    print_line(w, job, known != NULL);
    mrd_json_set(w->known, id, mrd_json_new_str(text));
}

static const mrd_json *
find(const mrd_json *doc, const char *id)
{
    const mrd_json *list = mrd_json_get(doc, "jobs");

    for (size_t i = 0; i < mrd_json_size(list); i++)
        if (strcmp(mrd_json_str(mrd_json_at(list, i), "id", ""), id) == 0)
            return mrd_json_at(list, i);
    return NULL;
}

/* Prints the jobs of the last answer that the new answer does not list any more as finished. */
static void
look_for_ended(watcher *w, const mrd_json *doc)
{
    const mrd_json *list = mrd_json_get(w->last, "jobs");

    for (size_t i = 0; i < mrd_json_size(list); i++) {
        const mrd_json *job = mrd_json_at(list, i);
        mrd_json *ended;

        if (find(doc, mrd_json_str(job, "id", "-")) != NULL || mrd_job_list_is(job, "finished"))
            continue;
        if ((ended = mrd_json_copy(job)) == NULL)
            continue;
        mrd_json_set(ended, "state", mrd_json_new_str("finished"));
        look_at(w, ended);
        mrd_json_free(ended);
    }
}

/* Takes an answer of the aggregator. Returns false if the command is done. */
static bool
take(watcher *w, mrd_json *doc)
{
    const mrd_json *list = mrd_json_get(doc, "jobs");
    bool ended = true, had_jobs = w->last != NULL && mrd_json_size(mrd_json_get(w->last, "jobs"));

    look_for_ended(w, doc);
    for (size_t i = mrd_json_size(list); i-- > 0;) {
        look_at(w, mrd_json_at(list, i));
        ended = ended && mrd_job_list_is(mrd_json_at(list, i), "finished");
    }
    mrd_json_free(w->last);
    w->last = doc;
    if (w->word == NULL)
        return !w->set->first || mrd_job_list_status(doc) == MRD_EXIT_OK;
    if (mrd_json_size(list) == 0 && !had_jobs) {
        if (!w->waits)
            fprintf(stderr,
                    "meridian: no watched job has the number, name or id '%s' yet; waiting\n",
                    w->word);
        w->waits = true;
        return true;
    }
    return !ended && (!w->set->first || mrd_job_list_status(doc) == MRD_EXIT_OK);
}

static mrd_err
follow(watcher *w, mrd_client *client, mrd_why *why)
{
    mrd_err err = MRD_OK;

    mrd_cluster_catch();
    while (!mrd_cluster_interrupted()) {
        mrd_json *doc = NULL;

        err = mrd_job_list_get(client, w->word, &doc, why);
        if (err == MRD_OK) {
            w->silent = false;
            if (!take(w, doc))
                break;
        } else if (w->last == NULL || (err != MRD_NET && err != MRD_TIMEOUT)) {
            break;
        } else if (!w->silent) {
            fprintf(stderr, "meridian: the aggregator does not answer; trying again\n");
            w->silent = true;
        }
        mrd_cluster_sleep(MRD_SEC);
    }
    if (w->last != NULL && mrd_cluster_interrupted())
        err = MRD_OK;
    return err;
}

static mrd_err
watch(void *self, mrd_client *client, const char *word, int *ret_status, mrd_why *why)
{
    watcher w = { .set = self, .word = word, .known = mrd_json_new_object() };
    mrd_err err = follow(&w, client, why);

    if (err == MRD_OK && w.last != NULL)
        *ret_status = mrd_job_list_status(w.last);
    mrd_json_free(w.known);
    mrd_json_free(w.last);
    return err;
}

int
mrd_cmd_watch(int argc, char **argv)
{
    settings set = { 0 };
    mrd_cluster_command command = {
        .name = "watch",
        .usage = "[options] [JOB]",
        .more = "Follows all jobs, or JOB: the number, the name or the id of a job. Prints a line "
                "for each job\nat first, then when one becomes slow, stands still, goes on or "
                "ends. With JOB, the command\nwaits until the job appears, and ends with the "
                "job. With --json, each line is a job as in\n`meridian jobs --json`.\n\nExit "
                "status, of the last state: 0 if all jobs are healthy, 3 if one stands still, 4 if "
                "one is\nslow.\n",
        .table = table,
        .rows = MRD_COUNT(table),
        .settings = &set,
        .client = &set.client,
        .max_words = 1,
        .run = watch
    };

    return mrd_cluster_main(&command, argc, argv);
}
