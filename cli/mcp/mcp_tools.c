/* The tools of `meridian mcp`: their table, the check of their arguments, and how their commands run. */
#include "cli/mcp/mcp.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/near.h"
#include "base/obj.h"
#include "base/plain.h"
#include "base/sys/out.h"
#include "cli/cli.h"

#define ARGUMENTS 5  /* maximum number of arguments of a tool */
#define WORDS     24 /* maximum number of words of a command */

typedef enum { TEXT, INTEGER } argument_type;

/* One argument of a tool. */
typedef struct {
    const char *name;
    /* option of the command that gets the value, for example "--job"; "" if the value is a word */
    const char *option;
    argument_type type;
    bool required;
    const char *what;
} argument;

typedef struct {
    const char *name, *what;
    int (*run)(int argc, char **argv);
    const char *fixed[5]; /* words of the command, which begins with its name; NULL ends them */
    argument arguments[ARGUMENTS];
    bool writes; /* the command writes files, into the directory of profiles */
} tool;

#define SESSION_OR_PATH                                                                            \
    "id of a session, the beginning of one, \"latest\", or a folder or file with traces on this "  \
    "machine"
#define TIME_RANGE                                                                                 \
    { "start", "--start", TEXT, false,                                                             \
      "only from here, such as 2.5s after the start, or a UTC time" },                             \
    {                                                                                              \
        "end", "--end", TEXT, false, "only up to here"                                             \
    }

static const tool tools[] = {
    { "list_jobs",
      "Lists the parallel jobs that run now: state (running, standing, slow, finished), owner, "
      "ranks, time of a step now and before, and the verdict with the rank that is the cause. "
      "Begin here.",
      mrd_cmd_jobs,
      { "jobs", "--json" },
      { { 0 } },
      false },
    { "show_job",
      "Shows one job: each rank with its node, state, time of a step and parts of it, and the "
      "verdicts about the job.",
      mrd_cmd_jobs,
      { "jobs", "--json" },
      { { "job", "", TEXT, true, "name of the job, as list_jobs shows it" } },
      false },
    { "list_hangs",
      "Lists jobs that stand still or stood still: which rank is why, since when, in which call, "
      "with the stacks of the threads of that rank and of ranks that wait for it.",
      mrd_cmd_hangs,
      { "hangs", "--all", "--stacks", "--json" },
      { { "job", "--job", TEXT, false, "only this job" } },
      false },
    { "list_sessions",
      "Lists recorded sessions, with their state, duration and number of events.",
      mrd_cmd_sessions,
      { "sessions", "--json" },
      { { 0 } },
      false },
    { "show_session",
      "Shows one session, node by node: events that were recorded, delivered and lost, by cause.",
      mrd_cmd_status,
      { "status", "--json" },
      { { "session", "", TEXT, true, "id of a session, the beginning of one, or \"latest\"" } },
      false },
    { "report",
      "Reports where the time of a session or of trace files went, who was late, by how much, and "
      "whether the bounds of the clocks prove it.",
      mrd_cmd_report,
      { "report" },
      { { "source", "", TEXT, true, SESSION_OR_PATH }, TIME_RANGE },
      false },
    { "diff",
      "Compares two runs: what differs, by how much, and whether the data can show it.",
      mrd_cmd_diff,
      { "diff" },
      { { "base", "", TEXT, true, SESSION_OR_PATH }, { "new", "", TEXT, true, SESSION_OR_PATH } },
      false },
    { "show_clocks",
      "Shows how well the clocks of a session are aligned: for each node the bound of the error.",
      mrd_cmd_clocks,
      { "clocks" },
      { { "session", "", TEXT, true, "id of a session, the beginning of one, or \"latest\"" } },
      false },
    { "list_nodes",
      "Lists the nodes of the cluster with their event rates, losses and clocks.",
      mrd_cmd_nodes,
      { "nodes", "--json" },
      { { 0 } },
      false },
    { "list_models",
      "Lists the models that are loaded now, or that were loaded during a session.",
      mrd_cmd_models,
      { "models", "--json" },
      { { "session", "", TEXT, false, "id of a session, the beginning of one, or \"latest\"" } },
      false },
    { "fetch_profile",
      "Downloads the profile of a session as an SQLite database, and says in which folder it is. "
      "Use the folder as `profile` in `query`.",
      mrd_cmd_fetch,
      { "fetch", "--format", "sqlite", "--force" },
      { { "session", "", TEXT, true, "id of a session, the beginning of one, or \"latest\"" },
        TIME_RANGE },
      true },
    { "list_queries",
      "Lists the queries that are part of Meridian. Their names can be used in `query`.",
      mrd_cmd_sql,
      { "sql", "--list" },
      { { 0 } },
      false },
    { "query",
      "Runs one SQL statement (SQLite), or a query of list_queries, over a profile. It cannot "
      "change the profile. Tables: events, workers, processes, clocks, losses, sessions and more; "
      "SELECT name, sql FROM sqlite_master lists them. Times are integers in ns.",
      mrd_cmd_sql,
      { "sql", "--format", "csv", "--timeout=60s" },
      { { "query", "", TEXT, true, "SQL, or the name of a query" },
        { "profile", "", TEXT, true, "folder that fetch_profile or `meridian view` wrote" } },
      false },
};

/* Each tool has this argument too. It is for this program, not for the command. */
static const argument offset = { "offset", NULL, INTEGER, false,
                                 "skip so many bytes of the answer; the last line of a cut answer "
                                 "says the value for the rest" };

/* ---- The list of tools ---- */

static void
add_argument(mrd_json *properties, mrd_json *required, const argument *a)
{
    mrd_json *property = mrd_json_new_object();

    mrd_json_set(property, "type", mrd_json_new_str(a->type == TEXT ? "string" : "integer"));
    mrd_json_set(property, "description", mrd_json_new_str(a->what));
    mrd_json_set(properties, a->name, property);
    if (a->required)
        mrd_json_append(required, mrd_json_new_str(a->name));
}

static mrd_json *
describe(const tool *t)
{
    mrd_json *one = mrd_json_new_object(), *schema = mrd_json_new_object();
    mrd_json *properties = mrd_json_new_object(), *required = mrd_json_new_array();
    mrd_json *annotations = mrd_json_new_object();

    for (size_t i = 0; i < ARGUMENTS && t->arguments[i].name != NULL; i++)
        add_argument(properties, required, &t->arguments[i]);
    add_argument(properties, required, &offset);
    mrd_json_set(schema, "type", mrd_json_new_str("object"));
    mrd_json_set(schema, "properties", properties);
    mrd_json_set(schema, "required", required);
    mrd_json_set(schema, "additionalProperties", mrd_json_new_bool(false));
    mrd_json_set(annotations, "readOnlyHint", mrd_json_new_bool(!t->writes));
    mrd_json_set(annotations, "destructiveHint", mrd_json_new_bool(false));
    mrd_json_set(one, "name", mrd_json_new_str(t->name));
    mrd_json_set(one, "description", mrd_json_new_str(t->what));
    mrd_json_set(one, "inputSchema", schema);
    mrd_json_set(one, "annotations", annotations);
    return one;
}

mrd_json *
mrd_mcp_tools(void)
{
    mrd_json *list = mrd_json_new_array();

    for (size_t i = 0; i < MRD_COUNT(tools); i++)
        mrd_json_append(list, describe(&tools[i]));
    return list;
}

/* ---- Arguments of a call ---- */

/* The words of the command. Each is allocated. */
typedef struct {
    char *v[WORDS + 1];
    int n;
    bool failed; /* out of memory */
} words;

/* Adds one word, which is joined from three parts. */
static void
add_word(words *w, const char *first, const char *middle, const char *last)
{
    mrd_buf text = { 0 };

    mrd_buf_fmt(&text, "%s%s%s", first, middle, last);
    if (w->n == WORDS || (w->v[w->n] = strdup(mrd_buf_cstr(&text))) == NULL)
        w->failed = true;
    else
        w->n++;
    mrd_buf_fini(&text);
}

static void
free_words(words *w)
{
    for (int i = 0; i < w->n; i++)
        free(w->v[i]);
}

static const tool *
find_tool(const char *name, mrd_why *why)
{
    const char *names[MRD_COUNT(tools)];
    char guess[MRD_NEAR_TEXT];

    for (size_t i = 0; i < MRD_COUNT(tools); i++) {
        names[i] = tools[i].name;
        if (strcmp(name, names[i]) == 0)
            return &tools[i];
    }
    mrd_near_text(name, names, MRD_COUNT(tools), "", guess);
    mrd_why_set(why, MRD_NOTFOUND, 0, "there is no tool '%.60s'%s", name,
                *guess == '\0' ? " (tools/list names them)" : guess);
    return NULL;
}

static mrd_err
check_names(const tool *t, const mrd_json *given, mrd_why *why)
{
    mrd_json *object = (mrd_json *) (uintptr_t) given; /* an iterator changes nothing */

    for (void *it = given == NULL ? NULL : mrd_json_iter(object); it != NULL;
         it = mrd_json_iter_next(object, it)) {
        const char *name = mrd_json_iter_key(it);
        bool known = strcmp(name, offset.name) == 0;

        for (size_t i = 0; i < ARGUMENTS && t->arguments[i].name != NULL; i++)
            known = known || strcmp(name, t->arguments[i].name) == 0;
        if (!known)
            return mrd_why_set(why, MRD_INVALID, 0, "%s has no argument '%.60s'", t->name, name);
    }
    return MRD_OK;
}

static mrd_err
add_value(words *w, const tool *t, const argument *a, const mrd_json *given, mrd_why *why)
{
    const mrd_json *value = given == NULL ? NULL : mrd_json_get(given, a->name);
    const char *text = given == NULL ? NULL : mrd_json_str(given, a->name, NULL);

    if (value == NULL && !a->required)
        return MRD_OK;
    if (value == NULL)
        return mrd_why_set(why, MRD_INVALID, 0, "%s needs the argument '%s': %s", t->name, a->name,
                           a->what);
    if (text == NULL || *text == '\0')
        return mrd_why_set(why, MRD_INVALID, 0, "%s: '%s' has to be a text: %s", t->name, a->name,
                           a->what);
    /* The command would take such a word as an option. */
    if (*a->option == '\0' && *text == '-')
        return mrd_why_set(why, MRD_INVALID, 0, "%s: '%s' must not begin with '-'", t->name,
                           a->name);
    if (*a->option == '\0')
        add_word(w, text, "", "");
    else
        add_word(w, a->option, "=", text);
    return MRD_OK;
}

static mrd_err
make_words(const tool *t, const mrd_json *given, const char *dir, words *w, mrd_why *why)
{
    mrd_err err = check_names(t, given, why);

    for (size_t i = 0; i < MRD_COUNT(t->fixed) && t->fixed[i] != NULL; i++)
        add_word(w, t->fixed[i], "", "");
    for (size_t i = 0; err == MRD_OK && i < ARGUMENTS && t->arguments[i].name != NULL; i++)
        err = add_value(w, t, &t->arguments[i], given, why);
    /* The name of a session may contain no '/', so the profile stays below `dir`. */
    if (err == MRD_OK && t->writes) {
        const char *session = mrd_json_str(given, "session", "");
        mrd_buf path = { 0 };

        if (strchr(session, '/') != NULL)
            return mrd_why_set(why, MRD_INVALID, 0, "'%.60s' is not the id of a session", session);
        if ((err = mrd_make_dirs(dir, why)) != MRD_OK)
            return err;
        mrd_buf_fmt(&path, "--output-dir=%s/%s", dir, session);
        add_word(w, mrd_buf_cstr(&path), "", "");
        mrd_buf_fini(&path);
    }
    if (err == MRD_OK && w->failed)
        err = mrd_why_set(why, MRD_NOMEM, 0, "arguments of %s", t->name);
    return err;
}

/* ---- Running the command ---- */

/* Runs the command in a child process. Its output goes to the files `out` and `messages`. Stores
 * the exit status, or -1 if a signal ended the child. */
static mrd_err
run_child(const tool *t, words *w, int out, int messages, int *ret_status, mrd_why *why)
{
    int status, null;
    pid_t pid;

    fflush(stdout);
    if ((pid = fork()) == 0) {
        /* The commands keep their state in this process's memory, so exec is not needed. */
        if ((null = open("/dev/null", O_RDONLY)) >= 0 && dup2(null, 0) == 0 && dup2(out, 1) == 1 &&
            dup2(messages, 2) == 2) {
            status = t->run(w->n, w->v);
            _exit(fflush(stdout) == 0 ? status : MRD_EXIT_FAILED);
        }
        _exit(MRD_EXIT_FAILED);
    }
    if (pid < 0)
        return mrd_why_set(why, MRD_IO, errno, "%s: fork", t->name);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    *ret_status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return MRD_OK;
}

/* Appends at most `most` bytes of a file, from `from` on, without control characters. A text that
 * is cut ends with a whole line where it has one. Returns the offset of the rest, or 0 if nothing
 * follows. */
static int64_t
add_file(int fd, int64_t from, size_t most, mrd_buf *to)
{
    int64_t size = lseek(fd, 0, SEEK_END);
    char *text = malloc(most + 1), *end;
    mrd_str part = { text, 0 };
    ssize_t n = text == NULL ? -1 : pread(fd, text, most, from);
    bool cut = n > 0 && from + n < size;

    if (n > 0) {
        part.len = (size_t) n;
        if (cut && (end = memrchr(text, '\n', part.len)) != NULL)
            part.len = (size_t) (end - text) + 1;
        for (size_t i = 0, line; i < part.len; i += line + 1) {
            end = memchr(text + i, '\n', part.len - i);
            line = end == NULL ? part.len - i : (size_t) (end - text) - i;
            mrd_plain_text(to, (mrd_str){ text + i, line });
            mrd_buf_byte(to, '\n');
        }
    }
    free(text);
    return cut ? from + (int64_t) part.len : 0;
}

mrd_err
mrd_mcp_call(const char *name, const mrd_json *arguments, const char *dir, mrd_buf *ret_text,
             bool *ret_failed, mrd_why *why)
{
    const tool *t = find_tool(name, why);
    int64_t from = arguments == NULL ? 0 : mrd_json_int(arguments, offset.name, 0), rest;
    int out = -1, messages = -1, status = -1;
    words w = { .n = 0 };
    mrd_err err;

    if (t == NULL)
        return MRD_NOTFOUND;
    err = make_words(t, arguments, dir, &w, why);
    if (err == MRD_OK && from < 0)
        err = mrd_why_set(why, MRD_INVALID, 0, "%s: 'offset' is at least 0", t->name);
    if (err == MRD_OK && ((out = memfd_create("out", MFD_CLOEXEC)) < 0 ||
                          (messages = memfd_create("messages", MFD_CLOEXEC)) < 0))
        err = mrd_why_set(why, MRD_IO, errno, "%s: memory for the answer", t->name);
    if (err == MRD_OK)
        err = run_child(t, &w, out, messages, &status, why);
    if (err == MRD_OK) {
        *ret_failed = status == MRD_EXIT_FAILED || status == MRD_EXIT_USAGE || status < 0;
        if ((rest = add_file(out, from, MRD_MCP_TEXT, ret_text)) > 0)
            mrd_buf_fmt(ret_text, "(cut: %lld of %lld bytes; the rest with offset %lld)\n",
                        (long long) rest, (long long) lseek(out, 0, SEEK_END), (long long) rest);
        if (status < 0)
            mrd_buf_fmt(ret_text, "the command ended unexpectedly\n");
        if (from == 0)
            (void) add_file(messages, 0, MRD_MCP_NOTES, ret_text);
        if (t->writes && !*ret_failed)
            mrd_buf_fmt(ret_text, "The profile is in %s\n", strchr(w.v[w.n - 1], '=') + 1);
        if (ret_text->len == 0)
            mrd_buf_text(ret_text, "(the answer is empty)\n");
        err = ret_text->err != MRD_OK ? mrd_why_set(why, MRD_NOMEM, 0, "%s", t->name) : MRD_OK;
    }
    if (out >= 0)
        close(out);
    if (messages >= 0)
        close(messages);
    free_words(&w);
    return err;
}
