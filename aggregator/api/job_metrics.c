/* Writes the metrics of jobs: verdicts about slow ranks, and step times of the most urgent jobs. */
#include "aggregator/api/http.h"

#include <stdio.h>

#include "base/obj.h"

/* Maximum numbers of jobs with metrics of their own, and of samples of these jobs. */
#define JOBS_MAX 200
/* maximum samples about jobs; with the samples that belong to no job, there are fewer than 2,000 */
#define SAMPLES_MAX 1960

#define LABELS_MAX (2 * MRD_JOB_KEY_MAX + 160)

/* Copies text into the value of a label, without its end if there is no room. */
static void
escape(const char *text, char *to, size_t size)
{
    size_t n = 0;

    for (; *text != '\0' && n + 3 < size; text++) {
        if (*text == '"' || *text == '\\')
            to[n++] = '\\';
        to[n++] = *text;
    }
    to[n] = '\0';
}

/* Writes the labels of a job. `more` is another label, or "". The user and `confirmed` are labels,
 * because two jobs with the same key may differ only in them. */
static const char *
labels_of(const mrd_job_line *line, const char *more, char text[LABELS_MAX])
{
    char key[2 * MRD_JOB_KEY_MAX];

    escape(line->job.key.text, key, sizeof(key));
    snprintf(text, LABELS_MAX, "job_key=\"%s\",uid=\"%lld\",confirmed=\"%s\"%s%s", key,
             (long long) line->job.key.uid, line->job.confirmed ? "true" : "false",
             *more == '\0' ? "" : ",", more);
    return text;
}

/* Returns how many samples the job has. */
static size_t
samples_of(const mrd_job_line *line)
{
    size_t n = 2u + (line->job.step > 0) + (line->slow != NULL); /* 2: the state and the age */

    for (mrd_hang_state i = 0; i < MRD_HANG_STATES; i++)
        n += line->job.by_state[i] > 0;
    for (mrd_slow_part i = 0; i < MRD_SLOW_PARTS; i++)
        n += line->job.step > 0 && line->job.part[i] >= 0;
    return n;
}

/* Returns how many jobs at the begin of the list have metrics of their own. */
static size_t
shown(const mrd_overview *overview)
{
    size_t n = 0, samples = 0;

    for (; n < overview->jobs.n && n < JOBS_MAX; n++)
        if ((samples += samples_of(&overview->jobs.v[n])) > SAMPLES_MAX)
            break;
    return n;
}

static void
slow_counts(const mrd_slow_counts *counts, mrd_metrics_text *text)
{
    char label[48];

    mrd_metrics_text_one(text, MRD_METRICS_GAUGE, "meridian_slow_ranks",
                         "Processes whose steps the watch for slow ranks compares.", counts->paced);
    mrd_metrics_text_family(text, MRD_METRICS_COUNTER, "meridian_slow_verdicts_total",
                            "Verdicts about slow ranks.");
    for (mrd_slow_class i = MRD_SLOW_NO_VERDICT + 1; i < MRD_SLOW_CLASSES; i++) {
        snprintf(label, sizeof(label), "verdict=\"%s\"", mrd_slow_class_text(i));
        mrd_metrics_text_u64(text, label, counts->given[i]);
    }
    mrd_metrics_text_one(text, MRD_METRICS_COUNTER, "meridian_slow_over_total",
                         "Verdicts about slow ranks that were withdrawn because the delay was over "
                         "or the job ended.",
                         counts->withdrawn);
    mrd_metrics_text_one(text, MRD_METRICS_COUNTER, "meridian_slow_left_out_total",
                         "Reports of processes beyond the limits of the watch for slow ranks.",
                         counts->left_out);
    mrd_metrics_text_one(text, MRD_METRICS_COUNTER, "meridian_slow_refused_total",
                         "Readings of processes whose counts cannot be true.", counts->refused);
}

static void
states(const mrd_overview *overview, size_t n, mrd_metrics_text *text)
{
    char labels[LABELS_MAX], label[48];

    mrd_metrics_text_family(text, MRD_METRICS_GAUGE, "meridian_jobs", "Jobs by state.");
    for (mrd_job_state i = 0; i < MRD_JOB_STATES; i++) {
        snprintf(label, sizeof(label), "state=\"%s\"", mrd_job_state_text(i));
        mrd_metrics_text_u64(text, label, overview->jobs.by_state[i]);
    }
    mrd_metrics_text_one(text, MRD_METRICS_GAUGE, "meridian_jobs_left_out",
                         "Jobs without metrics of their own, because other jobs are more urgent.",
                         overview->jobs.n - n + overview->jobs.left_out);
    mrd_metrics_text_family(text, MRD_METRICS_GAUGE, "meridian_job_state",
                            "1 for the state of the job.");
    for (size_t i = 0; i < n; i++) {
        const mrd_job_line *line = &overview->jobs.v[i];

        snprintf(label, sizeof(label), "state=\"%s\"", mrd_job_state_text(line->state));
        mrd_metrics_text_u64(text, labels_of(line, label, labels), 1);
    }
    mrd_metrics_text_family(text, MRD_METRICS_GAUGE, "meridian_job_ranks",
                            "Processes of the job by the state of the process.");
    for (size_t i = 0; i < n; i++) {
        const mrd_job_line *line = &overview->jobs.v[i];

        for (mrd_hang_state k = 0; k < MRD_HANG_STATES; k++) {
            if (line->job.by_state[k] == 0)
                continue;
            snprintf(label, sizeof(label), "state=\"%s\"", mrd_hang_state_text(k));
            mrd_metrics_text_u64(text, labels_of(line, label, labels), line->job.by_state[k]);
        }
    }
}

/* Writes the times of steps. A time that is unknown has no sample. */
static void
times(const mrd_overview *overview, size_t n, mrd_metrics_text *text)
{
    char labels[LABELS_MAX], label[48];

    mrd_metrics_text_family(text, MRD_METRICS_GAUGE, "meridian_job_step_seconds",
                            "Median time of a step of the job in the last 10 seconds.");
    for (size_t i = 0; i < n; i++)
        if (overview->jobs.v[i].job.step > 0)
            mrd_metrics_text_seconds(text, labels_of(&overview->jobs.v[i], "", labels),
                                     overview->jobs.v[i].job.step);
    mrd_metrics_text_family(text, MRD_METRICS_GAUGE, "meridian_job_part_seconds",
                            "Median over the ranks of a part of the step.");
    for (size_t i = 0; i < n; i++) {
        const mrd_job_line *line = &overview->jobs.v[i];

        for (mrd_slow_part part = 0; part < MRD_SLOW_PARTS; part++) {
            if (line->job.step <= 0 || line->job.part[part] < 0)
                continue;
            snprintf(label, sizeof(label), "part=\"%s\"", mrd_slow_part_text(part));
            mrd_metrics_text_seconds(text, labels_of(line, label, labels), line->job.part[part]);
        }
    }
    mrd_metrics_text_family(text, MRD_METRICS_GAUGE, "meridian_job_slow_loss_seconds",
                            "How much shorter each step would be without the slow ranks.");
    for (size_t i = 0; i < n; i++)
        if (overview->jobs.v[i].slow != NULL)
            mrd_metrics_text_seconds(text, labels_of(&overview->jobs.v[i], "", labels),
                                     overview->jobs.v[i].slow->loss);
    mrd_metrics_text_family(text, MRD_METRICS_GAUGE, "meridian_job_last_step_age_seconds",
                            "Time since the newest step of any rank of a job that runs.");
    for (size_t i = 0; i < n; i++) {
        const mrd_job_line *line = &overview->jobs.v[i];
        mrd_dur_ns age = mrd_local_diff(overview->made, line->job.last_step);

        if (line->job.last_step.ns != 0 && line->state != MRD_JOB_FINISHED)
            mrd_metrics_text_seconds(text, labels_of(line, "", labels), age > 0 ? age : 0);
    }
}

void
mrd_http_job_metrics(const mrd_overview *overview, mrd_metrics_text *text)
{
    size_t n = shown(overview);

    slow_counts(&overview->jobs.counts, text);
    states(overview, n, text);
    times(overview, n, text);
}
