/* The first sentences of a report: what used the time, which workers were late or hang, and which
 * data is missing for an answer. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/obj.h"
#include "trace/sink/report/report_text.h"
#include "trace/sink/text.h"

#define INPUTS_LISTED 3 /* maximum number of incomplete inputs that are listed */
/* maximum length of three lists: missing ranks, workers that compute more, and labels of spans */
#define RANKS_LISTED 8
#define RANK_LABEL   40 /* columns for a label of spans */
#define NAMED        40 /* columns for the name of a collective */
/* a collective of at least LONG_NS, and of LONG_TIMES its usual time, may have waited for a rank that
 * is not in the profile */
#define LONG_NS    (uint64_t) MRD_SEC
#define LONG_TIMES 8
/* If all workers are inactive for longer than this, the profile probably contains several runs. */
#define APART_NS (3600 * (uint64_t) MRD_SEC)

static const char *
grade(double impact)
{
    return impact < 0.1 ? "minor" : impact < 0.2 ? "worth a look" : "critical";
}

/* Says that a worker was late in some steps, and why this does not prove it to be the cause. */
static void
sometimes_words(const mrd_report_text *text, const mrd_report_worker *worker,
                const mrd_verdict *verdict, mrd_buf *to)
{
    mrd_report_text_label(text, worker, to);
    mrd_buf_fmt(to,
                " was late%s: it came last to %" PRIu64 " of its %" PRIu64
                " collective%s, and %.0f %% of all waiting in collectives was for it (%.1f %% of "
                "the workers' time). This does not show that it is the cause, because ",
                worker->came_last == 1                  ? " once"
                : worker->came_last < worker->took_part ? " now and then"
                                                        : "",
                worker->came_last, worker->took_part, mrd_plural(worker->took_part),
                100 * verdict->share, 100 * verdict->impact);
    if (worker->longest_wait_ns > worker->own_wait_ns / 2)
        mrd_buf_fmt(to, "%.0f %% of this was in one collective.",
                    100 * (double) worker->longest_wait_ns / (double) worker->own_wait_ns);
    else if (worker->steady.p > MRD_VERDICT_P)
        mrd_buf_fmt(to, "by chance some worker has as much with a probability of up to %.1f %%.",
                    100 * worker->steady.p);
    else if (!worker->steady.lasts)
        mrd_buf_text(to, "others were later in parts of the recording.");
    else
        mrd_buf_text(to, "another worker caused more than half as much.");
}

/* Returns how many processes ended like process `one`: inside a span with the same name, or outside
 * any span. */
static size_t
count_alike(const mrd_at_end *end, size_t n, const mrd_at_end *one)
{
    size_t alike = 0;

    for (size_t i = 0; i < n; i++)
        alike += (end[i].open > 0) == (one->open > 0) && end[i].inside == one->inside;
    return alike;
}

/* If most processes ended inside spans with the same name, names this span and lists the other
 * processes. */
static void
elsewhere_words(const mrd_report_text *text, mrd_buf *to)
{
    const mrd_catalog *cat = text->common.env->catalog;
    const mrd_standstill *still = mrd_report_standstill(text->common.report);
    size_t n, most = 0, alike = 0, told = 0;
    const mrd_at_end *end = mrd_standstill_processes(still, &n);
    char dur[MRD_DUR_TEXT];

    for (size_t i = 0; i < n; i++) {
        size_t count = count_alike(end, n, &end[i]);

        most = count > alike ? i : most;
        alike = count > alike ? count : alike;
    }
    if (n < 3 || alike <= n / 2 || alike == n || end[most].open == 0)
        return;
    mrd_buf_fmt(to, " %zu of %zu processes are in " MRD_STR_FMT "; elsewhere", alike, n,
                MRD_STR_ARG(mrd_catalog_text(cat, end[most].inside)));
    for (size_t i = 0; i < n && told < RANKS_LISTED; i++) {
        mrd_report_worker of = { .process = end[i].process,
                                 .lnc_idx = MRD_NONE,
                                 .device_idx = MRD_NONE };
        mrd_ev_ns since = end[i].open > 0 ? end[i].start : end[i].last;

        if (end[i].open > 0 && end[i].inside == end[most].inside)
            continue;
        mrd_buf_text(to, told++ == 0 ? " is " : ", ");
        mrd_report_text_label(text, &of, to);
        mrd_buf_fmt(
            to, " (%s" MRD_STR_FMT ", %s)", end[i].open > 0 ? "in " : "nothing since ",
            MRD_STR_ARG(mrd_catalog_text(cat, end[i].open > 0 ? end[i].name : end[i].last_name)),
            mrd_text_dur((uint64_t) mrd_standstill_end(still).ns - (uint64_t) since.ns, dur));
    }
    mrd_buf_fmt(to, n - alike > told ? " and %zu more." : ".", n - alike - told);
}

/* Says since when the job stands still. Returns false if it does not. */
static bool
still_words(const mrd_report_text *text, mrd_buf *to)
{
    static const char *const ended[] = { [MRD_ENDED_COLLECTIVE] = "collective",
                                         [MRD_ENDED_DEVICE] = "span of a device",
                                         [MRD_ENDED_ANY] = "span" };
    const mrd_standstill *still = mrd_report_standstill(text->common.report);
    const mrd_report_totals *totals = mrd_report_totals_of(text->common.report);
    mrd_ev_ns since = { 0 }, end = mrd_standstill_end(still);
    mrd_ended kind = MRD_ENDED_ANY;
    char dur[3][MRD_DUR_TEXT];

    if (!mrd_standstill_since(still, &since, &kind))
        return false;
    mrd_buf_fmt(to,
                "the job stands still since %s: in the last %s of %s no %s ended, and %" PRIu64
                " span%s %s open.",
                mrd_text_dur((uint64_t) since.ns - (uint64_t) totals->first.ns, dur[0]),
                mrd_text_dur((uint64_t) end.ns - (uint64_t) since.ns, dur[1]),
                mrd_text_dur((uint64_t) end.ns - (uint64_t) totals->first.ns, dur[2]), ended[kind],
                totals->open, mrd_plural(totals->open), totals->open == 1 ? "is" : "are");
    return true;
}

/* Writes the ranks of a flight recorder's verdict: "ranks 9 and 14". */
static void
stuck_ranks(const mrd_stuck_verdict *stuck, mrd_buf *to)
{
    mrd_buf_text(to, stuck->n == 1 ? "rank" : "ranks");
    for (size_t i = 0; i < stuck->n && i < RANKS_LISTED; i++)
        mrd_buf_fmt(to, "%s %" PRId64,
                    i == 0                                          ? ""
                    : i + 1 == stuck->n && stuck->n <= RANKS_LISTED ? " and"
                                                                    : ",",
                    stuck->ranks[i].rank);
    if (stuck->n > RANKS_LISTED)
        mrd_buf_fmt(to, " and %zu more", stuck->n - RANKS_LISTED);
}

/* Writes the operation that shows why a rank is named. */
static void
stuck_evidence(const mrd_report_text *text, const mrd_stuck_rank *rank, mrd_buf *to)
{
    static const struct {
        const char *before, *after; /* words before and after the operation */
    } words[] = {
        [MRD_STUCK_UNSEEN] = { "has no readable dump, and others wait in", " wait" },
        [MRD_STUCK_OTHER] = { "is not in", " are" },
        [MRD_STUCK_NOT_ENTERED] = { "did not enter", " wait" },
        [MRD_STUCK_INSIDE] = { "does not leave", NULL },
    };
    const mrd_catalog *cat = text->common.env->catalog;

    mrd_buf_fmt(to, " Rank %" PRId64 " %s " MRD_STR_FMT, rank->rank,
                rank->seq == MRD_NONE && rank->cls == MRD_STUCK_NOT_ENTERED
                    ? "did not enter the other end of"
                    : words[rank->cls].before,
                MRD_STR_ARG(mrd_catalog_text(cat, rank->op)));
    if (rank->seq != MRD_NONE)
        mrd_buf_fmt(to, " number %" PRId64, rank->seq);
    mrd_buf_fmt(to, " of group " MRD_STR_FMT "%s" MRD_STR_FMT,
                MRD_STR_ARG(mrd_catalog_text(cat, rank->group)),
                rank->what == MRD_SID_EMPTY ? "" : " ",
                MRD_STR_ARG(mrd_catalog_text(cat, rank->what)));
    if (words[rank->cls].after == NULL)
        mrd_buf_text(to, ", which others left.");
    else
        mrd_buf_fmt(to, ", in which %zu of its %zu ranks%s.", rank->waiting, rank->members,
                    words[rank->cls].after);
}

/* Writes what the dumps of a flight recorder show. */
static void
stuck_words(const mrd_report_text *text, mrd_buf *to)
{
    const mrd_stuck_verdict *stuck = mrd_report_stuck(text->common.report);

    if (stuck->n > 0) {
        mrd_buf_text(to, "the job waits for ");
        stuck_ranks(stuck, to);
        mrd_buf_fmt(to, " (%s).", mrd_stuck_class_text(stuck->cls));
        for (size_t i = 0; i < stuck->n && i < RANKS_LISTED; i++)
            stuck_evidence(text, &stuck->ranks[i], to);
        mrd_buf_byte(to, ' ');
    } else if (stuck->open > 0) {
        mrd_buf_fmt(to, "no rank is named (%s): %s. ", mrd_stuck_class_text(stuck->cls),
                    stuck->reason);
    }
    mrd_buf_fmt(to, "%zu of %zu ranks with a dump have open operations", stuck->open, stuck->dumps);
    if (stuck->n_missing == 1)
        mrd_buf_fmt(to, "; rank %" PRId64 " has no readable dump", stuck->missing);
    else if (stuck->n_missing > 1)
        mrd_buf_fmt(to, "; rank %" PRId64 " and %zu more have no readable dump", stuck->missing,
                    stuck->n_missing - 1);
}

/* Returns a kernel's name without its parameters. */
static mrd_str
shortened(mrd_str name)
{
    const char *end = memchr(name.p, '(', name.len);

    return end == NULL || end == name.p ? name : (mrd_str){ name.p, (size_t) (end - name.p) };
}

/* Writes the absent workers of one kind, which begin at *at, and what the recording shows of them.
 * Advances *at to the next kind. */
static void
absent_kind(const mrd_report_text *text, uint32_t *at, mrd_buf *to)
{
    static const char *const how[] = {
        [MRD_ABSENT_NEVER] = "did not come to",
        [MRD_ABSENT_OTHER] = "did not come to",
        [MRD_ABSENT_LATE] = "came last to",
        [MRD_ABSENT_UNSEEN] = "was not seen in",
    };
    const mrd_report_absence *absence = &mrd_report_totals_of(text->common.report)->absence;
    uint64_t first = (uint64_t) mrd_report_totals_of(text->common.report)->first.ns;
    const mrd_absent *one = &absence->absents[*at];
    size_t n;
    const mrd_report_worker *worker = mrd_report_workers(text->common.report, &n);
    uint32_t listed = absence->workers < MRD_REPORT_ABSENTS ? absence->workers : MRD_REPORT_ABSENTS,
             begin = *at;
    char dur[2][MRD_DUR_TEXT];

    for (; *at < listed && absence->absents[*at].kind == one->kind; ++*at) {
        mrd_buf_text(to, *at > begin ? "; " : "");
        mrd_report_text_label(text, &worker[absence->absents[*at].worker], to);
    }
    if (*at == listed && absence->workers > listed)
        mrd_buf_fmt(to, " and %" PRIu32 " more", absence->workers - listed);
    mrd_buf_fmt(to, " %s the last " MRD_STR_FMT ", which began at %s: ", how[one->kind],
                MRD_STR_ARG(shortened(mrd_catalog_text(text->common.env->catalog, absence->name))),
                mrd_text_dur((uint64_t) absence->begin.ns - first, dur[0]));
    mrd_text_dur((uint64_t) one->seen.ns - first, dur[1]);
    if (one->kind == MRD_ABSENT_NEVER)
        mrd_buf_fmt(to, "other events were recorded there until %s. ", dur[1]);
    else if (one->kind == MRD_ABSENT_OTHER)
        mrd_buf_text(to, "another operation of the group was begun there. ");
    else if (one->kind == MRD_ABSENT_LATE)
        mrd_buf_fmt(to, "%s after the others. ", mrd_text_dur(one->later_ns, dur[0]));
    else
        mrd_buf_fmt(to,
                    "the last event was recorded there at %s. Either it did not come, or its "
                    "part was not recorded. ",
                    dur[1]);
}

static void
absent_words(const mrd_report_text *text, mrd_buf *to)
{
    const mrd_report_totals *totals = mrd_report_totals_of(text->common.report);
    const mrd_report_absence *absence = &totals->absence;
    char dur[MRD_DUR_TEXT], share[MRD_TEXT_SHARE];

    for (uint32_t at = 0; at < absence->workers && at < MRD_REPORT_ABSENTS;)
        absent_kind(text, &at, to);
    mrd_buf_fmt(to, "The other%s waited %s in it", absence->parts == 1 ? "" : "s",
                mrd_text_dur(absence->spent_ns, dur));
    if (!absence->is_open)
        mrd_buf_fmt(to, " (%s of the workers' time)",
                    mrd_text_share(absence->spent_ns, totals->window_ns, share));
    mrd_buf_text(to, absence->is_open ? ", and none has left it." : ".");
}

/* Returns a pipeline stage if the workers that compute more are exactly the workers of this stage.
 * Else MRD_NONE. */
static int64_t
stage_of_more(const mrd_report_worker *worker, size_t n, const mrd_report_worker *one)
{
    int64_t stage = mrd_phase_stage(one->ranks);

    for (size_t i = 0; i < n; i++) {
        if ((mrd_phase_stage(worker[i].ranks) == stage) != worker[i].more_work)
            return MRD_NONE;
    }
    return stage;
}

static void
more_work_words(const mrd_report_text *text, const mrd_verdict *verdict, mrd_buf *to)
{
    const mrd_imbalance *more = &mrd_report_totals_of(text->common.report)->imbalance;
    size_t n, told = 0;
    const mrd_report_worker *worker = mrd_report_workers(text->common.report, &n);
    int64_t stage =
        more->workers > 1 ? stage_of_more(worker, n, worker + verdict->worker) : MRD_NONE;
    char dur[2][MRD_DUR_TEXT];

    if (stage != MRD_NONE)
        mrd_buf_fmt(to, "pipeline stage %" PRId64 " computes more than the others (", stage);
    for (size_t i = 0; i < n && told < RANKS_LISTED; i++) {
        if (!worker[i].more_work)
            continue;
        mrd_buf_text(to, told++ > 0 ? "; " : "");
        mrd_report_text_label(text, &worker[i], to);
    }
    if (more->workers > told)
        mrd_buf_fmt(to, " and %zu more", more->workers - told);
    mrd_buf_fmt(to,
                "%s: %s%s of computation in the mean %s, %.0f %% more than the median worker (%s), "
                "and more in %zu of %zu. Workers that communicate with it wait for it.",
                stage != MRD_NONE    ? ")"
                : more->workers == 1 ? " computes more than the others"
                                     : " compute more than the others",
                more->workers > 1 ? "up to " : "", mrd_text_dur(more->ns / more->steps, dur[0]),
                more->by_step ? "step" : "eighth of the recording",
                100 * ((double) more->ns / (double) more->median_ns - 1),
                mrd_text_dur(more->median_ns / more->steps, dur[1]), more->over, more->steps);
}

/* Says what spans a profile has if it has no work of any core or device. */
static void
no_work_words(const mrd_report_text *text, mrd_buf *to)
{
    mrd_sid labels[RANKS_LISTED];
    size_t n = mrd_report_labels(text->common.report, labels, RANKS_LISTED);

    mrd_buf_text(to, "the profile has no work of any core or device");
    for (size_t i = 0; i < n; i++) {
        mrd_buf_text(to, i == 0 ? ". Its spans are labelled " : ", ");
        mrd_text_cell(to, mrd_catalog_text(text->common.env->catalog, labels[i]), RANK_LABEL,
                      false);
    }
    if (n > 0)
        mrd_buf_text(to, ". If some of them are work of workers, a file for --classify can say so");
}

/* Says since when the worker of the verdict is late. */
static void
since_words(const mrd_report_text *text, mrd_buf *to)
{
    static const char *const words[][2] = {
        [MRD_ONSET_UNKNOWN] = { "", "" },
        [MRD_ONSET_ALWAYS] = { " It is late during the whole recording.", "" },
        [MRD_ONSET_SINCE] = { " It is late since ", "." },
        [MRD_ONSET_UNTIL] = { " It was late until ", "." },
        [MRD_ONSET_BETWEEN] = { " It was late from ", "." },
        [MRD_ONSET_PAUSED] = { " It was late except from ", "." },
        [MRD_ONSET_OFTEN] = { " Its lateness changed several times, first at ", "." },
    };
    const mrd_report_totals *totals = mrd_report_totals_of(text->common.report);
    const mrd_step_path *path = mrd_report_path(text->common.report);
    const mrd_onset_result *since = &totals->late_since;
    size_t n = since->kind == MRD_ONSET_BETWEEN || since->kind == MRD_ONSET_PAUSED ? 2
               : since->kind <= MRD_ONSET_ALWAYS                                   ? 0
                                                                                   : 1;
    char dur[MRD_DUR_TEXT];

    mrd_buf_text(to, words[since->kind][0]);
    for (size_t i = 0; i < n; i++) {
        uint64_t at = (uint64_t) since->change[i].at.ns - (uint64_t) totals->first.ns;

        mrd_buf_text(to, i > 0 ? " to " : "");
        if (mrd_step_path_totals(path)->steps > 0)
            mrd_buf_fmt(to, "step %" PRIu64 " (at %s)", mrd_step_path_at(path, since->change[i].at),
                        mrd_text_dur(at, dur));
        else
            mrd_buf_text(to, mrd_text_dur(at, dur));
    }
    mrd_buf_text(to, words[since->kind][1]);
}

/* Lists the ranks of the job that the profile lacks, such as "rank 3" or "ranks 3 and 5". Writes
 * only their number if they are many. */
static void
put_missing(const mrd_report_text *text, const mrd_report_totals *totals, mrd_buf *to)
{
    const mrd_catalog *cat = text->common.env->catalog;
    uint64_t missing = totals->world_size - totals->ranks, listed = 0;
    size_t workers, processes, next = 0;
    const mrd_report_worker *worker = mrd_report_workers(text->common.report, &workers);
    const mrd_at_end *end =
        mrd_standstill_processes(mrd_report_standstill(text->common.report), &processes);

    if (missing > RANKS_LISTED)
        mrd_buf_fmt(to, "%" PRIu64 " ranks", missing);
    for (int64_t rank = 0; missing <= RANKS_LISTED && listed < missing; rank++) {
        int64_t known = -1; /* the profile's first rank that is at least `rank` */

        for (; next < (workers > 0 ? workers : processes) && known < rank; next++)
            known = mrd_catalog_borrow_process(cat, workers > 0 ? worker[next].process
                                                                : end[next].process)
                        ->rank;
        next -= known > rank;
        if (known == rank)
            continue;
        mrd_buf_fmt(to, "%s%" PRId64,
                    listed == 0             ? missing == 1 ? "rank " : "ranks "
                    : listed + 1 == missing ? " and "
                                            : ", ",
                    rank);
        listed++;
    }
}

/* Says which ranks of the job the profile lacks. */
static void
missing_words(const mrd_report_text *text, const mrd_report_totals *totals, mrd_buf *to)
{
    uint64_t missing = totals->world_size - totals->ranks;
    size_t workers;

    (void) mrd_report_workers(text->common.report, &workers);
    mrd_buf_fmt(to, "Of the job's %" PRIu64 " ranks, %" PRIu64 " %s in this profile",
                totals->world_size, totals->ranks,
                workers == 0         ? totals->ranks == 1 ? "is" : "are"
                : totals->on_host    ? totals->ranks == 1 ? "has collectives" : "have collectives"
                : totals->ranks == 1 ? "has device work"
                                     : "have device work");
    if (missing <= RANKS_LISTED) {
        mrd_buf_text(to, ", but not ");
        put_missing(text, totals, to);
    }
    mrd_buf_fmt(to, workers > 0 ? ": whether %s came late, it cannot tell. " : ". ",
                missing == 1 ? "this one" : "one of these");
}

/* Says that all recorded ranks spent a long time in one collective, for which a rank outside the
 * profile may be the cause. Writes nothing if no collective took far longer than usual. */
static void
longest_words(const mrd_report_text *text, const mrd_report_totals *totals, mrd_buf *to)
{
    char dur[MRD_DUR_TEXT];

    if (totals->ranks >= totals->world_size || totals->longest_ns < LONG_NS ||
        totals->longest_ns / LONG_TIMES < totals->usual_ns)
        return;
    mrd_buf_text(to, ". But all recorded ranks spent ");
    mrd_buf_fmt(to, "%s in one ", mrd_text_dur(totals->longest_ns, dur));
    mrd_text_cell(to, mrd_catalog_text(text->common.env->catalog, totals->longest_name), NAMED,
                  false);
    mrd_buf_fmt(to, ", which usually takes %s, and ", mrd_text_dur(totals->usual_ns, dur));
    put_missing(text, totals, to);
    mrd_buf_fmt(to, " of the job %s not in this profile: look there first",
                totals->world_size - totals->ranks == 1 ? "is" : "are");
}

static void
verdict_words(const mrd_report_text *text, const mrd_verdict *verdict, mrd_buf *to)
{
    size_t n;
    const mrd_report_worker *worker = mrd_report_workers(text->common.report, &n) + verdict->worker;
    const mrd_report_totals *totals = mrd_report_totals_of(text->common.report);
    const mrd_imbalance *more = &mrd_report_totals_of(text->common.report)->imbalance;
    const mrd_stuck_verdict *stuck = mrd_report_stuck(text->common.report);

    if (stuck->n > 0 || (stuck->dumps > 0 && verdict->kind == MRD_VERDICT_NOTHING)) {
        stuck_words(text, to);
        return;
    }
    switch (verdict->kind) {
    case MRD_VERDICT_NOTHING:
        if (n == 0)
            no_work_words(text, to);
        /* the workers come from program phases, and were compared by computation */
        else if (more->steps > 1)
            mrd_buf_fmt(to,
                        "no worker computes at least %.0f %% more than the median worker in most "
                        "of %zu %s. The trace does not show who waits for whom",
                        100 * MRD_BALANCE_EXCESS, more->steps,
                        more->by_step ? "steps" : "parts of the recording");
        else
            mrd_buf_text(
                to, totals->loose > 0 && totals->alone == 0
                        ? "workers cannot be compared: none has to wait for the others "
                          "in their communication (single messages, broadcast)"
                        : "workers cannot be compared: no collective has spans of two workers");
        return;
    case MRD_VERDICT_STILL:
        still_words(text, to);
        elsewhere_words(text, to);
        return;
    case MRD_VERDICT_ABSENT:
        if (totals->absence.is_open && still_words(text, to))
            mrd_buf_byte(to, ' ');
        absent_words(text, to);
        return;
    case MRD_VERDICT_MORE_WORK:
        more_work_words(text, verdict, to);
        return;
    case MRD_VERDICT_NONE:
        mrd_buf_fmt(to, "no worker stands out in %" PRIu64 " collective%s", totals->matched,
                    mrd_plural(totals->matched));
        longest_words(text, totals, to);
        return;
    case MRD_VERDICT_SOMETIMES:
        sometimes_words(text, worker, verdict, to);
        if (totals->late_since.kind > MRD_ONSET_ALWAYS)
            since_words(text, to);
        return;
    case MRD_VERDICT_UNPROVEN:
    case MRD_VERDICT_LATE:
        break;
    }
    mrd_report_text_label(text, worker, to);
    mrd_buf_fmt(
        to,
        " came last to %" PRIu64 " of its %" PRIu64 " collective%s (%" PRIu64
        " proven). Of all waiting in collectives, %.0f %% was for it (%.0f %% proven). The waiting "
        "that only it caused is %.1f %% of the workers' time (%s).",
        worker->came_last, worker->took_part, mrd_plural(worker->took_part), worker->proven,
        100 * verdict->share, 100 * (double) worker->proven_ns / (double) totals->wait_ns,
        100 * verdict->impact, grade(verdict->impact));
    since_words(text, to);
    if (verdict->kind == MRD_VERDICT_LATE)
        return;
    if (totals->no_bound + totals->suspect + totals->mapped > 0 &&
        totals->partial + totals->mixed > 0)
        mrd_buf_text(to, " This is not proven: in some collectives the clocks leave open who came "
                         "last, and in some the parts of other workers are not in this profile.");
    else if (totals->partial + totals->mixed > 0)
        mrd_buf_text(to, " This is not proven: who else took part is not in this profile, and may "
                         "have come later.");
    else
        mrd_buf_text(to, " The clocks do not prove this: within their bounds it is "
                         "indistinguishable from other workers.");
}

/* Returns the reason why the report cannot divide exposed communication into waiting and
 * transfer. */
static const char *
why_untold(const mrd_report_text *text)
{
    const mrd_report_totals *totals = mrd_report_totals_of(text->common.report);
    bool lacks_parts = totals->alone + totals->partial > 0 || totals->ranks < totals->world_size;

    return totals->loose == 0 ? "parts of other workers are missing"
           : lacks_parts ? "parts of other workers are missing, or a worker need not wait for the "
                           "others (single messages, broadcast)"
                         : "a worker need not wait for the others in these operations (single "
                           "messages, broadcast)";
}

/* Writes what takes the largest part of the time, then the other large parts. */
void
mrd_report_text_bound(const mrd_report_text *text, mrd_buf *to)
{
    static const struct {
        const char *name, *what;
    } words[] = {
        [MRD_BOUND_COMPUTE] = { "compute-bound", "computation" },
        [MRD_BOUND_SKEW] = { "skew-bound", "waiting in collectives for the last worker" },
        [MRD_BOUND_TRANSFER] = { "transfer-bound", "transfer (collectives without computation "
                                                   "beside them, copies)" },
        [MRD_BOUND_COMMUNICATION] = { "communication-bound",
                                      "collectives without computation beside them; the share of "
                                      "waiting is unknown, because " },
        [MRD_BOUND_HOST] = { "host-bound", "waiting for the host (late launches, runtime calls)" },
        [MRD_BOUND_LOADING] = { "data-loading-bound", "idle while data was loaded" },
        [MRD_BOUND_IDLE] = { "idle", "idle, for causes that the trace does not show" },
        [MRD_BOUND_UNRECORDED] = { "not recorded",
                                   "not recorded (events were lost, or the session was paused)" },
    };
    uint64_t ns[MRD_BOUNDS], window = mrd_report_totals_of(text->common.report)->window_ns;
    bool told[MRD_BOUNDS] = { false };
    size_t count;
    char dur[MRD_DUR_TEXT], share[MRD_TEXT_SHARE];
    mrd_bound_by first = mrd_report_bottleneck(text->common.report);
    mrd_report_most who;

    if (mrd_report_is_hidden(text->common.report)) {
        mrd_buf_text(to, "unknown: the trace has impossible records, or lacks those of device work "
                         "(see Coverage)");
        return;
    }
    mrd_report_bounds(text->common.report, ns);
    for (unsigned round = 0; round < 3 && window > 0; round++) {
        unsigned most = round == 0 ? first : 0;

        for (unsigned k = 1; k < MRD_BOUNDS && round > 0; k++)
            most = told[most] || (!told[k] && ns[k] > ns[most]) ? k : most;
        /* parts below 1 % are not mentioned */
        if (round > 0 && ns[most] * 100 < window)
            break;
        told[most] = true;
        mrd_buf_text(to, round == 0 ? words[most].name : ",");
        mrd_buf_fmt(to, "%s %s (%s) %s", round == 0 ? ":" : "",
                    mrd_text_share(ns[most], window, share), mrd_text_dur(ns[most], dur),
                    words[most].what);
        if (most == MRD_BOUND_COMMUNICATION)
            mrd_buf_text(to, why_untold(text));
    }
    if (first == MRD_BOUNDS || first == MRD_BOUND_SKEW || first == MRD_BOUND_COMMUNICATION ||
        !mrd_report_stands_out(text->common.report, first, &who))
        return;
    mrd_buf_text(to, ". Most of it is at ");
    mrd_report_text_label(text, mrd_report_workers(text->common.report, &count) + who.worker, to);
    mrd_buf_fmt(to, ": %.1f %% of its time; of the median worker's time %.1f %%", 100 * who.share,
                100 * who.middle);
}

void
mrd_report_text_verdict(const mrd_report_text *text, mrd_buf *to)
{
    mrd_verdict verdict = mrd_report_verdict(text->common.report);

    verdict_words(text, &verdict, to);
}

/* For traces without clock bounds: returns a text that says how to get them. */
static const char *
bounds_from(const mrd_report_text *text)
{
    const mrd_catalog *cat = text->common.env->catalog;
    const char *align = mrd_catalog_get(cat, "clock.align");
    size_t n;
    const mrd_report_worker *worker = mrd_report_workers(text->common.report, &n);
    bool files = false;

    for (size_t i = 0; i < n; i++)
        files =
            files ||
            mrd_str_is(mrd_catalog_text(
                           cat, mrd_catalog_borrow_process(cat, worker[i].process)->instance_id),
                       "unknown");
    return !files || text->common.env->options->same_clock ? ""
           : align != NULL && strcmp(align, "none") != 0
               ? "Traces of one machine need no bound with --same-clock. "
               : "Traces of one machine need no bound with --same-clock, those of several get one "
                 "by "
                 "--align collectives. ";
}

/* Says why some collectives do not prove which worker was late. */
static void
put_doubts(const mrd_report_text *text, const mrd_report_totals *totals, mrd_buf *to)
{
    const struct {
        uint64_t n;
        const char *what;
    } rows[] = {
        { totals->no_bound, "because the bound of a clock is unknown" },
        { totals->suspect, "because a clock is suspect, or observations contradict it" },
        { totals->mapped, "because the runtime maps the clocks of the cores too coarsely" },
        { totals->partial, "because the part of a worker of its group is missing, or may be" },
        { totals->mixed, "because several groups have the same name: more members took part than "
                         "the group has" },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        if (rows[i].n > 0)
            mrd_buf_fmt(to, "In %" PRIu64 " collective%s the last worker is not proven, %s. ",
                        rows[i].n, rows[i].n == 1 ? "" : "s", rows[i].what);
    }
    if (totals->no_bound > 0)
        mrd_buf_text(to, bounds_from(text));
}

/* Returns the longest time in ns between the end of one worker's activity and the begin of the
 * next, with no worker active. With very many workers, returns 0, because the search is
 * quadratic. */
static uint64_t
widest_gap(const mrd_report_worker *worker, size_t n)
{
    uint64_t widest = 0;

    for (size_t i = 0; i < n && n <= 4096; i++) {
        int64_t next = INT64_MAX;
        bool covered = false;

        for (size_t k = 0; k < n; k++) {
            covered = covered || (!mrd_ev_after(worker[k].first, worker[i].last) &&
                                  mrd_ev_after(worker[k].last, worker[i].last));
            if (mrd_ev_after(worker[k].first, worker[i].last) && worker[k].first.ns < next)
                next = worker[k].first.ns;
        }
        if (!covered && next != INT64_MAX &&
            (uint64_t) next - (uint64_t) worker[i].last.ns > widest)
            widest = (uint64_t) next - (uint64_t) worker[i].last.ns;
    }
    return widest;
}

void
mrd_report_text_coverage(const mrd_report_text *text, mrd_buf *to)
{
    const mrd_catalog *cat = text->common.env->catalog;
    const mrd_report_totals *totals = mrd_report_totals_of(text->common.report);
    size_t workers, inputs, bad = 0;
    const mrd_report_worker *worker = mrd_report_workers(text->common.report, &workers);
    const mrd_input *in = mrd_catalog_inputs(cat, &inputs);
    char dur[MRD_DUR_TEXT];
    unsigned told = 0;
    uint64_t gap = widest_gap(worker, workers);

    mrd_report_text_impossible(text, to);
    for (size_t i = 0; i < inputs; i++)
        bad += (in[i].state != MRD_INPUT_OK && in[i].state != MRD_INPUT_SKIPPED) ||
               in[i].dropped > 0 || in[i].lost > 0;
    if (bad > 0)
        mrd_buf_fmt(to, "%zu of %zu input%s %s incomplete: see the summary. ", bad, inputs,
                    mrd_plural(inputs), bad == 1 ? "is" : "are");
    for (size_t i = 0; i < inputs; i++)
        if (in[i].state == MRD_INPUT_INCOMPLETE && in[i].error != 0 && told++ < INPUTS_LISTED)
            mrd_buf_fmt(to, MRD_STR_FMT ": " MRD_STR_FMT ". ",
                        MRD_STR_ARG(mrd_catalog_text(cat, in[i].path)),
                        MRD_STR_ARG(mrd_catalog_text(cat, in[i].error)));
    if (gap >= APART_NS)
        mrd_buf_fmt(to,
                    "Between workers that ended and those that began later lie %s: they may be of "
                    "several runs, or of times with different origins. ",
                    mrd_text_long(gap, dur));
    if (totals->ranks < totals->world_size && mrd_report_stuck(text->common.report)->dumps == 0)
        missing_words(text, totals, to);
    mrd_report_text_unclear(text, to);
    put_doubts(text, totals, to);
    if (totals->alone > 0)
        mrd_buf_fmt(
            to, "%" PRIu64 " span%s of collectives could not be matched with another worker's. ",
            totals->alone, mrd_plural(totals->alone));
    if (totals->left_out > 0)
        mrd_buf_fmt(
            to, "%" PRIu64 " span%s of collectives %s left out, because there are too many groups.",
            totals->left_out, mrd_plural(totals->left_out), totals->left_out == 1 ? "was" : "were");
}
