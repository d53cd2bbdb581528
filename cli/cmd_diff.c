/* `meridian diff`: finds the differences between two runs, their size, and whether the data can
 * show them. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/obj.h"
#include "base/plain.h"
#include "base/vec.h"
#include "cli/cli.h"
#include "cli/cluster.h"
#include "cli/diff.h"
#include "trace/sink/text.h"

enum { EXIT_SLOWER = 4, SHOWN = 12 };

typedef struct {
    mrd_view_options view;
    mrd_client_options client;
    mrd_strlist base, now;
    double confidence, threshold; /* percent */
    bool all;
} settings;

static const mrd_opt table[] = {
    { .type = MRD_OPT_HEAD, .help = "Runs" },
    { .name = "base",
      .type = MRD_OPT_LIST,
      .offset = offsetof(settings, base),
      .arg = "RUN",
      .help = "a run to compare with; repeatable: with several, the spread between them counts" },
    { .name = "new",
      .type = MRD_OPT_LIST,
      .offset = offsetof(settings, now),
      .arg = "RUN",
      .help = "a run that is compared; repeatable" },
    { .type = MRD_OPT_HEAD, .help = "Comparison" },
    { .name = "confidence",
      .type = MRD_OPT_DOUBLE,
      .offset = offsetof(settings, confidence),
      .def = "99.9",
      .arg = "PERCENT",
      .help = "how sure a difference must be, all operations taken together" },
    { .name = "threshold",
      .type = MRD_OPT_DOUBLE,
      .offset = offsetof(settings, threshold),
      .def = "0.5",
      .arg = "PERCENT",
      .help = "changes below this share of a step are no difference" },
    { .name = "all",
      .type = MRD_OPT_BOOL,
      .offset = offsetof(settings, all),
      .help = "list every operation, also those without a difference" },
    MRD_VIEW_KIND_ROWS(settings, view),
    MRD_VIEW_CLOCK_ROWS(settings, view),
    MRD_VIEW_RESOURCE_ROWS(settings, view),
    MRD_CLIENT_OPTION_ROWS(settings, client),
};

static const char more[] =
    "A run is a session of the aggregator (its id, the beginning of it, or latest), a trace file, "
    "a\n"
    "folder of traces of one run, or a steps.json (--output-format steps-json of view, fetch and\n"
    "record), which is small enough to be kept as a baseline.\n"
    "\n"
    "With one run a side only large changes can be distinguished from what differs between runs: "
    "a\n"
    "difference counts when it is larger than what the eighths of each run differ by. Three runs "
    "a\n"
    "side or more measure the spread between runs; docs/dev/measurements.md says what they find.\n"
    "The first steps of a run are left out when they are evidently slower (a warm-up).\n"
    "Ranks that a run lacks are named and left out of the comparison.\n"
    "\n"
    "Exit status: 0 no difference that the data can show and that counts, or faster; 4 slower; 3 "
    "as\n"
    "0, but events are missing in a run; 1 failed; 2 wrong usage.\n"
    "\n"
    "Examples\n"
    "  meridian diff 20261121-2140 latest\n"
    "  meridian diff baseline/steps.json ./output\n"
    "  meridian diff --base a.json,b.json,c.json --new latest --threshold 1\n";

/* ---- Getting runs ---- */

/* Parses the whole document in `to`, from its beginning. */
static mrd_err
parse_stream(FILE *to, const char *what, mrd_json **ret_doc, mrd_why *why)
{
    long size = fseek(to, 0, SEEK_END) == 0 ? ftell(to) : -1;
    char *text = size < 0 ? NULL : malloc((size_t) size + 1);
    mrd_err err;

    rewind(to);
    if (text == NULL || fread(text, 1, (size_t) size, to) != (size_t) size)
        err = mrd_why_set(why, text == NULL ? MRD_NOMEM : MRD_IO, 0,
                          "reading what was made of '%s'", what);
    else
        err = mrd_json_parse_up_to((mrd_str){ text, (size_t) size }, MRD_DIFF_FILE_MAX, what,
                                   ret_doc, why);
    free(text);
    return err;
}

static mrd_err
session_steps(settings *set, const char *word, FILE *to, mrd_why *why)
{
    mrd_fetch_options whole = { 0 };
    mrd_client *client = NULL;
    mrd_json *doc = NULL;
    char id[MRD_CLUSTER_ID];
    mrd_err err = mrd_client_open(&set->client, &client, why);

    if (err == MRD_OK)
        err = mrd_cluster_find(client, word, MRD_CLUSTER_READ, id, why);
    if (err == MRD_OK)
        err = mrd_cluster_call(client, "GET", id, "", NULL, &doc, why);
    if (err == MRD_OK)
        err = mrd_cluster_check_begun(doc, why);
    if (err == MRD_OK)
        err = mrd_cluster_print_profile(client, id, "steps-json", &whole, to, why);
    if (err != MRD_OK && doc == NULL)
        mrd_why_prefix(why, err, "there is no file '%s'; looking for a session of this name", word);
    mrd_json_free(doc);
    mrd_client_close(client);
    return err;
}

/* Recognizes a steps.json by its first bytes. */
static bool
is_steps_file(const char *path)
{
    char head[257];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : read(fd, head, sizeof(head) - 1);
    size_t kept = 0;

    if (fd >= 0)
        close(fd);
    for (ssize_t i = 0; i < n; i++) /* other programs write white space in between */
        if (strchr(" \t\r\n", head[i]) == NULL)
            head[kept++] = head[i];
    head[kept] = '\0';
    return strstr(head, "\"meridian\"") != NULL && strstr(head, "\"format\":\"steps\"") != NULL;
}

/* Gets the path of the steps.json that the argument means. Returns false for traces. */
static bool
find_steps_file(const char *word, char path[PATH_MAX])
{
    struct stat st;

    if (stat(word, &st) != 0)
        return false;
    if (S_ISDIR(st.st_mode))
        return snprintf(path, PATH_MAX, "%s/steps.json", word) < PATH_MAX && is_steps_file(path);
    return S_ISREG(st.st_mode) && snprintf(path, PATH_MAX, "%s", word) < PATH_MAX &&
           is_steps_file(path);
}

static mrd_err
trace_steps(settings *set, const char *word, FILE *to, mrd_why *why)
{
    mrd_strlist words = { 0 };
    mrd_view_options view = set->view;
    mrd_err err = mrd_strlist_add(&words, mrd_str_of(word));
    int status;

    view.profile = (mrd_profile_options){ .print = true };
    view.ignore_device = true;
    view.to = to;
    if (err == MRD_OK)
        err = mrd_strlist_add(&view.profile.formats, MRD_STR("steps-json"));
    if (err != MRD_OK)
        return mrd_why_set(why, err, 0, "reading '%s'", word);
    status = mrd_view_run("diff", &view, &words);
    mrd_strlist_fini(&view.profile.formats);
    mrd_strlist_fini(&words);
    return status == MRD_EXIT_OK || status == MRD_EXIT_INCOMPLETE
               ? MRD_OK
               : mrd_why_set(why, MRD_STATE, 0, "'%s' gave no profile", word);
}

/* ---- Traces of several runs, each read by a separate process ---- */

typedef enum { SESSION, STEPS_FILE, TRACES } run_kind;

/* One run. */
typedef struct {
    const char *word;
    run_kind kind;
    char path[PATH_MAX]; /* of its steps.json, for STEPS_FILE */
    pid_t pid;           /* the process that reads its traces. 0 means none */
    FILE *to;            /* receives its steps.json */
    FILE *said;          /* its messages, which are printed in the order of the runs */
} reading;

/* All runs; the base's come first. */
typedef struct {
    reading v[2 * MRD_DIFF_RUNS];
    size_t n, begun;
    unsigned at_once; /* available processors, at most the number of traces */
} readings;

static void
plan(const settings *set, readings *all)
{
    const mrd_strlist *lists[] = { &set->base, &set->now };
    unsigned traces = 0;
    cpu_set_t may;

    all->at_once = sched_getaffinity(0, sizeof(may), &may) == 0 ? (unsigned) CPU_COUNT(&may) : 1;
    for (size_t k = 0; k < 2; k++) {
        for (size_t i = 0; i < lists[k]->n && i < MRD_DIFF_RUNS; i++) {
            reading *r = &all->v[all->n++];

            r->word = lists[k]->v[i];
            r->kind = !mrd_cluster_is_path(r->word)       ? SESSION
                      : find_steps_file(r->word, r->path) ? STEPS_FILE
                                                          : TRACES;
            traces += r->kind == TRACES;
        }
    }
    if (all->at_once > traces)
        all->at_once = traces;
}

static _Noreturn void
read_in_child(settings *set, const reading *r, unsigned at_once, pid_t parent)
{
    mrd_why why = { 0 };
    mrd_err err;

    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent ||
        dup2(fileno(r->said), STDERR_FILENO) < 0)
        _exit(MRD_EXIT_FAILED);
    set->view.memory /= at_once; /* --memory is for all of them together */
    err = trace_steps(set, r->word, r->to, &why);
    _exit(err == MRD_OK && fflush(r->to) == 0 ? MRD_EXIT_OK : MRD_EXIT_FAILED);
}

/* Starts reading runs after `from` in advance, one per processor. Runs without a process are read
 * when it is their turn. */
static void
read_ahead(settings *set, readings *all, size_t from)
{
    pid_t self = getpid();

    for (; all->at_once > 1 && all->begun < all->n && all->begun < from + all->at_once;
         all->begun++) {
        reading *r = &all->v[all->begun];

        if (r->kind != TRACES || (r->to = tmpfile()) == NULL || (r->said = tmpfile()) == NULL)
            continue;
        fflush(NULL); /* nothing is printed twice */
        r->pid = fork();
        if (r->pid == 0)
            read_in_child(set, r, all->at_once, self);
        r->pid = r->pid > 0 ? r->pid : 0;
    }
}

/* Waits for the process, and prints its messages. */
static mrd_err
take_read(reading *r, mrd_why *why)
{
    int status = 0, c;
    pid_t got;

    while ((got = waitpid(r->pid, &status, 0)) < 0 && errno == EINTR)
        ;
    r->pid = 0;
    rewind(r->said);
    while ((c = getc(r->said)) != EOF)
        putc(c, stderr);
    if (got > 0 && WIFEXITED(status) && WEXITSTATUS(status) == MRD_EXIT_OK)
        return MRD_OK;
    if (got > 0 && WIFSIGNALED(status))
        return mrd_why_set(why, MRD_STATE, 0, "the process that read '%s' was ended by signal %d",
                           r->word, WTERMSIG(status));
    return mrd_why_set(why, MRD_STATE, 0, "'%s' gave no profile", r->word);
}

static void
readings_fini(readings *all)
{
    for (size_t i = 0; i < all->n; i++) {
        reading *r = &all->v[i];

        if (r->pid > 0) {
            kill(r->pid, SIGKILL);
            while (waitpid(r->pid, NULL, 0) < 0 && errno == EINTR)
                ;
        }
        if (r->to != NULL)
            fclose(r->to);
        if (r->said != NULL)
            fclose(r->said);
    }
    free(all);
}

static mrd_err
get_run(settings *set, reading *r, mrd_diff_side *side, mrd_why *why)
{
    mrd_json *doc = NULL;
    mrd_err err;

    if (r->kind == STEPS_FILE) {
        err = mrd_json_load_up_to(r->path, MRD_DIFF_FILE_MAX, &doc, why);
    } else if (r->to == NULL && (r->to = tmpfile()) == NULL) {
        err = mrd_why_set(why, MRD_IO, errno, "a temporary file");
    } else {
        err = r->pid > 0          ? take_read(r, why)
              : r->kind == TRACES ? trace_steps(set, r->word, r->to, why)
                                  : session_steps(set, r->word, r->to, why);
        if (err == MRD_OK)
            err = parse_stream(r->to, r->word, &doc, why);
    }
    return err == MRD_OK ? mrd_diff_side_add(side, doc, r->word, why) : err;
}

static mrd_err
get_runs(settings *set, mrd_diff_side sides[2], mrd_why *why)
{
    readings *all = calloc(1, sizeof(*all));
    mrd_err err = MRD_OK;

    if (all == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "runs");
    if (set->base.n > MRD_DIFF_RUNS || set->now.n > MRD_DIFF_RUNS) {
        free(all);
        return mrd_why_set(why, MRD_LIMIT, 0, "more than %u runs on a side", MRD_DIFF_RUNS);
    }
    plan(set, all);
    for (size_t i = 0; i < all->n && err == MRD_OK; i++) {
        read_ahead(set, all, i);
        err = get_run(set, &all->v[i], &sides[i < set->base.n ? 0 : 1], why);
    }
    readings_fini(all);
    return err;
}

/* ---- Verdict ---- */

typedef enum { NO_DIFFERENCE, OPERATIONS_DIFFER, DRIFTING, TOO_FEW, SLOWER, FASTER } verdict;

static const char *const verdict_words[] = {
    [NO_DIFFERENCE] = "no difference",
    [OPERATIONS_DIFFER] = "operations differ",
    [DRIFTING] = "drifting steps",
    [TOO_FEW] = "too few steps",
    [SLOWER] = "slower",
    [FASTER] = "faster",
};

static verdict
verdict_of(const mrd_diff *d)
{
    if (d->by_call)
        return d->cause == NULL ? NO_DIFFERENCE : OPERATIONS_DIFFER;
    if (d->step.is.drifts)
        return DRIFTING;
    if (isinf(d->step.half))
        return TOO_FEW;
    return !d->step.differs ? NO_DIFFERENCE : d->step.is.change > 0 ? SLOWER : FASTER;
}

/* ---- Printing ---- */

static const char *
time_text(double ns, char text[MRD_DUR_TEXT])
{
    return mrd_text_dur(ns > 0 ? (uint64_t) llround(ns) : 0, text);
}

static void
print_change(double ns)
{
    char text[MRD_DUR_TEXT];

    printf("%s%s", ns < 0 ? "-" : "+", time_text(fabs(ns), text));
}

static double
percent(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

/* `warmup` is per run, as in mrd_diff. */
static void
print_side(const char *name, const mrd_diff_side *side, const uint64_t *warmup)
{
    for (size_t i = 0; i < side->n; i++) {
        const mrd_diff_run *r = &side->run[i];
        mrd_buf label = { 0 };

        mrd_plain_text(&label, mrd_str_of(r->label));
        printf("%-5s %s", i == 0 ? name : "", mrd_buf_cstr(&label));
        mrd_buf_fini(&label);
        if (r->by_call)
            printf(" (no training steps: operations are compared call by call)");
        else
            printf(" (%" PRIu64 " %s of %" PRIu64 " %s)", r->n_steps,
                   r->n_steps == 1 ? "step" : "steps", r->n_processes,
                   r->n_processes == 1 ? "process" : "processes");
        if (warmup[i] > 0)
            printf(", the first %" PRIu64 " of each process left out: a warm-up", warmup[i]);
        printf("%s%s\n", r->simulated ? ", simulated" : "",
               r->incomplete ? ", incomplete: events are missing" : "");
    }
}

static int
order_ranks(const void *a, const void *b)
{
    int64_t x = *(const int64_t *) a, y = *(const int64_t *) b;

    return x < y ? -1 : x > y;
}

/* Returns the ranks that another run of the two sides has and this one lacks, in order. The caller
 * frees them. NULL: there are none, or out of memory. */
static int64_t *
find_missing_ranks(const mrd_diff_side *const sides[2], const mrd_diff_run *run, size_t *ret_n)
{
    int64_t *ranks = NULL;
    size_t n = 0, cap = 0, kept = 0;

    for (size_t k = 0; k < 2; k++) {
        for (size_t i = 0; i < sides[k]->n; i++) {
            const mrd_diff_run *other = &sides[k]->run[i];

            for (size_t p = 0; p < other->n_listed; p++) {
                int64_t rank = other->listed[p].rank;

                if (rank != MRD_NONE && mrd_diff_has_rank(other, rank) &&
                    !mrd_diff_has_rank(run, rank) && MRD_VEC_ROOM(ranks, n, cap, 1))
                    ranks[n++] = rank;
            }
        }
    }
    if (n > 0)
        qsort(ranks, n, sizeof(*ranks), order_ranks);
    for (size_t i = 0; i < n; i++) {
        if (kept == 0 || ranks[i] != ranks[kept - 1])
            ranks[kept++] = ranks[i];
    }
    *ret_n = kept;
    return ranks;
}

/* Prints which ranks a run lacks. Returns true if it lacks any. */
static bool
print_missing_ranks(const mrd_diff_side *const sides[2], const mrd_diff_run *run)
{
    size_t n;
    int64_t *ranks = find_missing_ranks(sides, run, &n);
    mrd_buf label = { 0 };

    mrd_plain_text(&label, mrd_str_of(run->label));
    for (size_t i = 0; i < n && i < SHOWN; i++)
        printf("%s%" PRId64, i == 0 ? (n == 1 ? "\nRank " : "\nRanks ") : ", ", ranks[i]);
    if (n > SHOWN)
        printf(" and %zu more", n - SHOWN);
    if (n > 0)
        printf(" of the other runs %s missing in %s.", n == 1 ? "is" : "are", mrd_buf_cstr(&label));
    mrd_buf_fini(&label);
    free(ranks);
    return n > 0;
}

/* Says which ranks some runs lack, and what is compared instead of all ranks. */
static void
print_rank_sets(const mrd_diff_side *base, const mrd_diff_side *now)
{
    const mrd_diff_side *const sides[2] = { base, now };
    bool some_missing = false, numbers_differ = false;

    for (size_t k = 0; k < 2; k++) {
        for (size_t i = 0; i < sides[k]->n; i++) {
            some_missing = print_missing_ranks(sides, &sides[k]->run[i]) || some_missing;
            numbers_differ =
                numbers_differ || sides[k]->run[i].n_processes != base->run[0].n_processes;
        }
    }
    if (base->some_left_out)
        printf("\nOnly the ranks that all runs have are compared. Their operations are compared by "
               "the mean of each run.\n");
    else if (some_missing)
        printf("\nNo rank is in all runs: the comparison is one of different ranks.\n");
    else if (numbers_differ)
        printf("\nThe runs have different numbers of processes, and no ranks say which of them "
               "belong together.\n");
}

/* Smallest visible difference: half the width of the interval, in percent. */
static void
print_no_difference(const settings *set, const mrd_diff *d)
{
    const mrd_compared *is = &d->step.is;
    double seen = percent(d->step.half, is->base);
    char a[MRD_DUR_TEXT], b[MRD_DUR_TEXT];
    /* a significant difference below the threshold */
    bool small = is->p <= 1 - set->confidence / 100;

    printf("\n%s: a step takes %s and %s%s; ",
           small ? "A difference too small to count" : "No difference that the data can show",
           time_text(is->base, a), time_text(is->now, b), is->median ? " (median)" : "");
    if (small) {
        print_change(is->change);
        printf(" (%+.2f %%) is not chance, but below %g %% (--threshold)",
               percent(is->change, is->base), set->threshold);
    } else {
        printf("a change below %.2f %% cannot be distinguished from chance", seen);
        if (seen < set->threshold)
            printf(", and one below %g %% does not count (--threshold)", set->threshold);
    }
    printf(".\n");
}

static void
print_verdict(const settings *set, const mrd_diff *d)
{
    const mrd_compared *is = &d->step.is;
    char a[MRD_DUR_TEXT], b[MRD_DUR_TEXT];

    switch (verdict_of(d)) {
    case DRIFTING:
        printf("\nThe steps of a run drift (%s and %s in the mean): a difference cannot be "
               "distinguished from that with fewer than %d runs a side (--base, --new).\n",
               time_text(is->base, a), time_text(is->now, b), MRD_COMPARE_RUNS);
        break;
    case TOO_FEW:
        printf(
            "\nToo few steps to say anything: %d on each side are needed, and with fewer than %d "
            "runs a side %d of each run.\n",
            MRD_COMPARE_LEAST, MRD_COMPARE_RUNS, MRD_COMPARE_RUN);
        break;
    case NO_DIFFERENCE:
        if (!d->by_call)
            print_no_difference(set, d);
        break;
    case OPERATIONS_DIFFER:
        break;
    case SLOWER:
    case FASTER:
        printf("\n%s: a step takes %s instead of %s%s, ", is->change > 0 ? "SLOWER" : "FASTER",
               time_text(is->now, a), time_text(is->base, b), is->median ? " (median)" : "");
        print_change(is->change);
        printf(" (%+.2f %%; between %+.2f and %+.2f %% with %g %% confidence)\n",
               percent(is->change, is->base), percent(is->change - d->step.half, is->base),
               percent(is->change + d->step.half, is->base), set->confidence);
        break;
    }
}

/* Prints the operation in at most this many columns. */
static void
print_name(const mrd_diff_row *row, size_t width, bool pad)
{
    mrd_buf name = { 0 }, cell = { 0 };
    char size[32] = "";

    if (row->size != MRD_NONE)
        snprintf(size, sizeof(size), " %" PRId64, row->size);
    mrd_buf_str(&name, mrd_str_of(*row->name == '\0' ? "(all others)" : row->name));
    mrd_buf_str(&name, mrd_str_of(size));
    mrd_text_cell(&cell, (mrd_str){ (const char *) name.p, name.len }, width, pad);
    fwrite(cell.p, 1, cell.len, stdout);
    mrd_buf_fini(&name);
    mrd_buf_fini(&cell);
}

static void
print_cause(const mrd_diff *d)
{
    const mrd_diff_row *c = d->cause;

    if (c == NULL) {
        if (d->step.differs)
            printf("No single operation explains it.\n");
        return;
    }
    printf("%s: %s ", d->step.differs ? "Mainly" : "The largest difference", c->kind);
    print_name(c, 90, false);
    printf(", ");
    print_change(c->is.change);
    printf(" per %s", d->by_call ? "call" : "step");
    if (c->in_base && c->in_now)
        printf(" (%+.1f %%)", percent(c->is.change, c->is.base));
    else
        printf(" (%s)", c->in_now ? "only in the new run" : "only in the base");
    if (c->rank != MRD_NONE) {
        printf(", most of it on rank %" PRId64 " (", c->rank);
        print_change(c->rank_change);
        printf(")");
    }
    printf("\n");
}

static void
print_rows(const settings *set, const mrd_diff *d)
{
    size_t shown = 0, left = 0;

    for (size_t i = 0; i < d->n_rows; i++) {
        const mrd_diff_row *r = &d->rows[i];
        char a[MRD_DUR_TEXT], b[MRD_DUR_TEXT], change[MRD_DUR_TEXT + 1];

        if (!set->all && (!r->differs || shown == SHOWN)) {
            left += r->differs;
            continue;
        }
        if (shown++ == 0)
            printf("\n%-10s %-40s %12s %12s %12s %9s\n", d->by_call ? "per call" : "per step",
                   "operation", "base", "new", "change", "");
        printf("%-10s ", r->kind);
        print_name(r, 40, true);
        printf(" %12s %12s ", r->in_base ? time_text(r->is.base, a) : "-",
               r->in_now ? time_text(r->is.now, b) : "-");
        snprintf(change, sizeof(change), "%s%s", r->is.change < 0 ? "-" : "+",
                 time_text(fabs(r->is.change), a));
        printf("%12s", change);
        if (r->is.base > 0 && r->in_base)
            printf(" %+8.1f%%", percent(r->is.change, r->is.base));
        printf("%s\n", set->all && r->differs ? " *" : "");
    }
    if (left > 0)
        printf("... and %zu more (--all)\n", left);
}

static void
print_ranks(const mrd_diff *d)
{
    for (size_t i = 0; i < d->n_ranks; i++) {
        const mrd_diff_rank *r = &d->ranks[i];

        if (r->differs)
            printf("Rank %" PRId64
                   " changed differently from all ranks together: %+.1f %% (all: %+.1f %%)\n",
                   r->rank, percent(r->is.change, r->is.base),
                   percent(d->step.is.change, d->step.is.base));
    }
}

static void
print_text(const settings *set, const mrd_diff_side *base, const mrd_diff_side *now,
           const mrd_diff *d)
{
    print_side("base", base, d->warmup[0]);
    print_side("new", now, d->warmup[1]);
    print_rank_sets(base, now);
    print_verdict(set, d);
    print_cause(d);
    print_rows(set, d);
    print_ranks(d);
    if (d->by_call && d->cause == NULL)
        printf("\nNo difference that the data can show.\n");
    if (base->n == 1 && now->n == 1)
        printf(
            "\nOne run on each side: the confidence knows how much parts of a run differ from each "
            "other, not what\nis constant in a run and differs between runs for other causes "
            "(another machine, another placement).\nGive --base and --new at least %d runs each "
            "to measure that.\n",
            MRD_COMPARE_RUNS);
}

/* ---- JSON ---- */

static mrd_json *
compared_json(const mrd_compared *is, double half, bool differs)
{
    mrd_json *o = mrd_json_new_object();

    mrd_json_set(o, "base_ns", mrd_json_new_num(is->base));
    mrd_json_set(o, "new_ns", mrd_json_new_num(is->now));
    mrd_json_set(o, "change_ns", mrd_json_new_num(is->change));
    mrd_json_set(o, "half_width_ns", isinf(half) ? mrd_json_new_str(NULL) : mrd_json_new_num(half));
    mrd_json_set(o, "p", mrd_json_new_num(is->p));
    mrd_json_set(o, "mean", mrd_json_new_str(is->median ? "median" : "trimmed"));
    mrd_json_set(o, "differs", mrd_json_new_bool(differs));
    return o;
}

static mrd_json *
row_json(const mrd_diff_row *r)
{
    mrd_json *o = compared_json(&r->is, r->half, r->differs);

    mrd_json_set(o, "kind", mrd_json_new_str(r->kind));
    mrd_json_set(o, "name", mrd_json_new_str(r->name));
    mrd_json_set(o, "size",
                 r->size == MRD_NONE ? mrd_json_new_str(NULL) : mrd_json_new_int(r->size));
    mrd_json_set(o, "in_base", mrd_json_new_bool(r->in_base));
    mrd_json_set(o, "in_new", mrd_json_new_bool(r->in_now));
    mrd_json_set(o, "rank",
                 r->rank == MRD_NONE ? mrd_json_new_str(NULL) : mrd_json_new_int(r->rank));
    return o;
}

static mrd_json *
side_json(const mrd_diff_side *const sides[2], size_t k, const uint64_t *warmup)
{
    mrd_json *list = mrd_json_new_array();

    for (size_t i = 0; i < sides[k]->n; i++) {
        const mrd_diff_run *r = &sides[k]->run[i];
        mrd_json *o = mrd_json_new_object(), *missing = mrd_json_new_array();
        size_t n;
        int64_t *ranks = find_missing_ranks(sides, r, &n);

        mrd_json_set(o, "run", mrd_json_new_str(r->label));
        mrd_json_set(o, "steps", mrd_json_new_int((int64_t) r->n_steps));
        mrd_json_set(o, "warmup_steps", mrd_json_new_int((int64_t) warmup[i]));
        mrd_json_set(o, "processes", mrd_json_new_int((int64_t) r->n_processes));
        mrd_json_set(o, "incomplete", mrd_json_new_bool(r->incomplete));
        mrd_json_set(o, "simulated", mrd_json_new_bool(r->simulated));
        for (size_t m = 0; m < n; m++)
            mrd_json_append(missing, mrd_json_new_int(ranks[m]));
        free(ranks);
        mrd_json_set(o, "missing_ranks", missing);
        mrd_json_append(list, o);
    }
    return list;
}

static void
print_json(const settings *set, const mrd_diff_side *base, const mrd_diff_side *now,
           const mrd_diff *d)
{
    mrd_json *doc = mrd_json_new_object(), *rows = mrd_json_new_array(),
             *ranks = mrd_json_new_array();
    const mrd_diff_side *const sides[2] = { base, now };

    mrd_json_set(doc, "verdict", mrd_json_new_str(verdict_words[verdict_of(d)]));
    mrd_json_set(doc, "unit", mrd_json_new_str(d->by_call ? "call" : "step"));
    mrd_json_set(doc, "confidence_percent", mrd_json_new_num(set->confidence));
    mrd_json_set(doc, "threshold_percent", mrd_json_new_num(set->threshold));
    mrd_json_set(doc, "base", side_json(sides, 0, d->warmup[0]));
    mrd_json_set(doc, "new", side_json(sides, 1, d->warmup[1]));
    if (!d->by_call)
        mrd_json_set(doc, "step", compared_json(&d->step.is, d->step.half, d->step.differs));
    mrd_json_set(doc, "cause", d->cause == NULL ? mrd_json_new_str(NULL) : row_json(d->cause));
    for (size_t i = 0; i < d->n_rows; i++)
        mrd_json_append(rows, row_json(&d->rows[i]));
    mrd_json_set(doc, "operations", rows);
    for (size_t i = 0; i < d->n_ranks; i++) {
        const mrd_diff_rank *r = &d->ranks[i];
        mrd_json *o = compared_json(&r->is, r->half, r->differs);

        mrd_json_set(o, "rank", mrd_json_new_int(r->rank));
        mrd_json_append(ranks, o);
    }
    mrd_json_set(doc, "ranks", ranks);
    mrd_cluster_print_json(doc);
    mrd_json_free(doc);
}

/* ---- Running ---- */

static bool
any_incomplete(const mrd_diff_side *side)
{
    bool any = false;

    for (size_t i = 0; i < side->n; i++)
        any = any || side->run[i].incomplete;
    return any;
}

static int
compare(const settings *set, const mrd_diff_side *base, const mrd_diff_side *now, mrd_why *why)
{
    mrd_diff d;
    int status;

    if (mrd_diff_make(base, now, set->confidence / 100, set->threshold / 100, &d, why) != MRD_OK) {
        mrd_cli_error("diff", why);
        return MRD_EXIT_FAILED;
    }
    if (set->client.json)
        print_json(set, base, now, &d);
    else
        print_text(set, base, now, &d);
    status = verdict_of(&d) == SLOWER                      ? EXIT_SLOWER
             : any_incomplete(base) || any_incomplete(now) ? MRD_EXIT_INCOMPLETE
                                                           : MRD_EXIT_OK;
    mrd_diff_fini(&d);
    return status;
}

static int
run(void *self, const mrd_strlist *words)
{
    settings *set = self;
    mrd_diff_side *sides = calloc(2, sizeof(*sides));
    mrd_why why = { 0 };
    mrd_err err = sides == NULL ? MRD_NOMEM : MRD_OK;
    int status = MRD_EXIT_FAILED;

    if (!(set->confidence >= 50 && set->confidence < 100) ||
        !(set->threshold >= 0 && set->threshold <= 100)) {
        fprintf(stderr,
                "meridian diff: --confidence is from 50 to below 100, --threshold from 0 to "
                "100 percent\n");
        free(sides);
        return MRD_EXIT_USAGE;
    }
    if (words->n == 2 && set->base.n + set->now.n == 0) {
        err = mrd_strlist_add(&set->base, mrd_str_of(words->v[0]));
        if (err == MRD_OK)
            err = mrd_strlist_add(&set->now, mrd_str_of(words->v[1]));
    } else if (words->n > 0 || set->base.n == 0 || set->now.n == 0) {
        fprintf(stderr,
                "meridian diff: give two runs, BASE and NEW, or --base and --new with one or "
                "more runs each\n");
        free(sides);
        return MRD_EXIT_USAGE;
    }
    if (err == MRD_OK)
        err = get_runs(set, sides, &why);
    if (err == MRD_OK)
        err = mrd_diff_match_ranks(sides, &why);
    if (err == MRD_OK)
        status = compare(set, &sides[0], &sides[1], &why);
    else
        mrd_cli_error("diff", &why);
    for (size_t i = 0; sides != NULL && i < 2; i++)
        mrd_diff_side_fini(&sides[i]);
    free(sides);
    return status;
}

int
mrd_cmd_diff(int argc, char **argv)
{
    settings set = { 0 };
    mrd_cli_frame frame = { .usage = "BASE NEW | --base RUN... --new RUN... [options]",
                            .more = more,
                            .table = table,
                            .rows = MRD_COUNT(table),
                            .settings = &set,
                            .max_words = 2,
                            .run = run };

    return mrd_cli_main(&frame, argc, argv);
}
