/* `meridian diff`: finds the differences between two runs and their size, and says whether the data
 * can show them. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/obj.h"
#include "cli/cli.h"
#include "cli/client/cluster.h"
#include "cli/view/diff.h"

enum { EXIT_SLOWER = 4 };

typedef struct {
    mrd_view_options view;
    mrd_client_options client;
    mrd_strlist base, now;
    mrd_diff_shown shown;
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
      .offset = offsetof(settings, shown.confidence),
      .def = "99.9",
      .arg = "PERCENT",
      .help = "how sure a difference must be, all operations taken together" },
    { .name = "threshold",
      .type = MRD_OPT_DOUBLE,
      .offset = offsetof(settings, shown.threshold),
      .def = "0.5",
      .arg = "PERCENT",
      .help = "changes below this share of a step are no difference" },
    { .name = "all",
      .type = MRD_OPT_BOOL,
      .offset = offsetof(settings, shown.all),
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

/* Parses a whole stream as JSON, from its beginning. */
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
        mrd_cluster_no_file(word, err, why);
    mrd_json_free(doc);
    mrd_client_close(client);
    return err;
}

/* Returns true if a file is a steps.json, which is recognized by its first bytes. */
static bool
is_steps_file(const char *path)
{
    char head[257];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : read(fd, head, sizeof(head) - 1);
    size_t kept = 0;

    if (fd >= 0)
        close(fd);
    /* compare without white space, because another program may have reformatted the file */
    for (ssize_t i = 0; i < n; i++)
        if (strchr(" \t\r\n", head[i]) == NULL)
            head[kept++] = head[i];
    head[kept] = '\0';
    return strstr(head, "\"meridian\"") != NULL && strstr(head, "\"format\":\"steps\"") != NULL;
}

/* Gets the path of the steps.json that an argument names. Returns false if the argument names
 * traces, which must be read first. */
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

    view.profile =
        (mrd_profile_options){ .print = true, .same_clock = set->view.profile.same_clock };
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

/* One run that is compared. */
typedef struct {
    const char *word;
    run_kind kind;
    char path[PATH_MAX]; /* path of the steps.json, for STEPS_FILE */
    pid_t pid;           /* process that reads the run's traces; 0 means none */
    FILE *to;            /* file that receives the run's steps.json */
    /* temporary file with the messages of `pid`; they are printed later, in the order of the
     * runs */
    FILE *said;
} reading;

/* All runs of both sides; the runs of the base are first. */
typedef struct {
    reading v[2 * MRD_DIFF_RUNS];
    size_t n, begun;
    /* number of runs that are read at once: one per processor, but not more than the runs of kind
     * TRACES */
    unsigned at_once;
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
    set->view.memory /= at_once; /* the limit --memory is shared by all processes that read */
    err = trace_steps(set, r->word, r->to, &why);
    _exit(err == MRD_OK && fflush(r->to) == 0 ? MRD_EXIT_OK : MRD_EXIT_FAILED);
}

/* Starts processes that read traces in advance, for at most at_once runs from number `from` on. A
 * run without such a process is read when its result is needed. */
static void
read_ahead(settings *set, readings *all, size_t from)
{
    pid_t self = getpid();

    for (; all->at_once > 1 && all->begun < all->n && all->begun < from + all->at_once;
         all->begun++) {
        reading *r = &all->v[all->begun];

        if (r->kind != TRACES || (r->to = tmpfile()) == NULL || (r->said = tmpfile()) == NULL)
            continue;
        fflush(NULL); /* otherwise the child would print buffered text a second time */
        r->pid = fork();
        if (r->pid == 0)
            read_in_child(set, r, all->at_once, self);
        r->pid = r->pid > 0 ? r->pid : 0;
    }
}

/* Waits for the process that reads a run, and prints its messages. */
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

/* ---- Comparing the runs ---- */

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
    mrd_diff diff;
    int status;

    if (mrd_diff_make(base, now, set->shown.confidence / 100, set->shown.threshold / 100, &diff,
                      why) != MRD_OK) {
        mrd_cli_error("diff", why);
        return MRD_EXIT_FAILED;
    }
    if (set->client.json)
        mrd_diff_print_json(&set->shown, base, now, &diff);
    else
        mrd_diff_print_text(&set->shown, base, now, &diff);
    status = mrd_diff_verdict_of(&diff) == MRD_DIFF_SLOWER ? EXIT_SLOWER
             : any_incomplete(base) || any_incomplete(now) ? MRD_EXIT_INCOMPLETE
                                                           : MRD_EXIT_OK;
    mrd_diff_fini(&diff);
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

    if (!(set->shown.confidence >= 50 && set->shown.confidence < 100) ||
        !(set->shown.threshold >= 0 && set->shown.threshold <= 100)) {
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
