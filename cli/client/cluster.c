#include "cli/client/cluster.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/loss_cause.h"
#include "base/num.h"
#include "base/obj.h"
#include "cli/cli.h"
#include "cli/term/progress.h"

/* A node counts as complete if it missed less than this much of the recording. */
#define COVER_MIN      MRD_SEC
#define POLL_NS        (100 * MRD_MS)
#define START_LEAD_MAX (2 * MRD_SEC)
#define OPTIONS_MAX    128 /* maximum number of options of a command */

/* ---- Interruption ---- */

static volatile sig_atomic_t interrupted;

static void
on_signal(int number)
{
    (void) number;
    interrupted = 1;
}

void
mrd_cluster_catch(void)
{
    struct sigaction end = { .sa_handler = on_signal, .sa_flags = (int) SA_RESETHAND };

    interrupted = 0;
    (void) sigaction(SIGINT, &end, NULL);
    (void) sigaction(SIGTERM, &end, NULL);
}

void
mrd_cluster_catch_all(void)
{
    struct sigaction end = { .sa_handler = on_signal };

    interrupted = 0;
    (void) sigaction(SIGINT, &end, NULL);
    (void) sigaction(SIGTERM, &end, NULL);
    (void) sigaction(SIGHUP, &end, NULL);
}

bool
mrd_cluster_interrupted(void)
{
    return interrupted != 0;
}

void
mrd_cluster_sleep(mrd_dur_ns dur_ns)
{
    struct timespec t = { (time_t) (dur_ns / MRD_SEC), (long) (dur_ns % MRD_SEC) };

    if (!interrupted)
        (void) nanosleep(&t, NULL);
}

/* ---- Running a subcommand ---- */

static int
run_command(void *self, const mrd_strlist *words)
{
    const mrd_cluster_command *command = self;
    mrd_client *client = NULL;
    mrd_why why = { 0 };
    int status = MRD_EXIT_OK;
    mrd_err err = mrd_client_open(command->client, &client, &why);

    if (err == MRD_OK)
        err = command->run(command->settings, client, words->n > 0 ? words->v[0] : NULL, &status,
                           &why);
    if (err != MRD_OK) {
        mrd_cli_error(command->name, &why);
        if (status == MRD_EXIT_OK)
            status = mrd_cli_status(err);
    }
    mrd_client_close(client);
    return status;
}

int
mrd_cluster_main(mrd_cluster_command *command, int argc, char **argv)
{
    mrd_opt table[OPTIONS_MAX];
    mrd_cli_frame frame = { .usage = command->usage,
                            .more = command->more,
                            .table = table,
                            .rows = mrd_session_options(command->table, command->rows, table,
                                                        OPTIONS_MAX),
                            .settings = command->settings,
                            .min_words = command->min_words,
                            .max_words = command->max_words,
                            .wants = "which session? Give its id, the beginning of it, or `latest`",
                            .run = run_command,
                            .self = command };

    mrd_session_options_init(command->table, command->rows, command->settings);
    return mrd_cli_main(&frame, argc, argv);
}

/* ---- Naming a session ---- */

mrd_err
mrd_cluster_call(mrd_client *client, const char *method, const char *id, const char *rest,
                 const mrd_json *body, mrd_json **ret_doc, mrd_why *why)
{
    mrd_buf path = { 0 };
    mrd_err err;

    mrd_buf_text(&path, "/api/v1/sessions/");
    mrd_client_escape(&path, id);
    mrd_buf_text(&path, rest);
    err = path.err != MRD_OK
              ? mrd_why_set(why, MRD_NOMEM, 0, "request")
              : mrd_client_call(client, method, mrd_buf_cstr(&path), body, ret_doc, why);
    mrd_buf_fini(&path);
    return err;
}

bool
mrd_cluster_is_path(const char *word)
{
    return word != NULL && (strchr(word, '/') != NULL || access(word, F_OK) == 0);
}

bool
mrd_cluster_in(const mrd_json *doc, const char *states)
{
    const char *state = mrd_json_str(doc, "state", "");
    size_t len = strlen(state);

    for (const char *p = states; p != NULL; p = strchr(p, '|')) {
        p += *p == '|';
        if (strncmp(p, state, len) == 0 && (p[len] == '|' || p[len] == '\0') && len > 0)
            return true;
    }
    return false;
}

/* ---- Starting a session ---- */

/* Returns true if the session has started. Prints once why a session that waits for a job has not
 * begun. */
static bool
has_started(void *self, const mrd_json *doc)
{
    const char *message = mrd_json_str(doc, "message", "");
    bool *said = self, arming = mrd_cluster_in(doc, "arming");

    if (arming && *message != '\0' && !*said) {
        fprintf(stderr, "meridian: session %s: ", mrd_cluster_shown(doc, "id", "?"));
        mrd_cluster_say(stderr, message);
        *said = true;
    }
    return !arming;
}

/* Waits until the common start of all nodes, slightly in the future. Session time is UTC, so this
 * machine's wall clock tells how long that is. The clock may be wrong, so the wait is at most
 * START_LEAD_MAX. */
static void
await_go(const mrd_json *doc)
{
    mrd_dur_ns left = mrd_sat_sub(mrd_json_int(doc, "go_ns", 0), mrd_wall_now().ns);

    if (left > 0)
        mrd_cluster_sleep(left < START_LEAD_MAX ? left : START_LEAD_MAX);
}

mrd_err
mrd_cluster_start(mrd_client *client, const mrd_session_request *request, mrd_dur_ns patience,
                  char ret_id[MRD_CLUSTER_ID], mrd_json **ret_doc, mrd_why *why)
{
    mrd_json *body = mrd_session_request_json(request), *doc = NULL;
    bool said = false;
    mrd_err err = mrd_client_call(client, "POST", "/api/v1/sessions", body, &doc, why);

    mrd_json_free(body);
    if (err != MRD_OK)
        return err;
    snprintf(ret_id, MRD_CLUSTER_ID, "%s", mrd_cluster_shown(doc, "id", ""));
    mrd_json_free(doc);
    doc = NULL;
    /* a job may start at any time later, and the user can interrupt the wait */
    err = mrd_cluster_wait(client, ret_id,
                           request->select.jobs.n == 1 ? INT64_MAX / 2 : patience + 30 * MRD_SEC,
                           patience, has_started, &said, &doc, why);
    if (err == MRD_CANCELLED)
        (void) mrd_cluster_call(client, "POST", ret_id, "/stop", NULL, NULL, NULL);
    else if (err == MRD_OK && mrd_cluster_in(doc, "failed"))
        err = mrd_why_set(why, MRD_STATE, 0, "session %s did not start: %s", ret_id,
                          mrd_json_str(doc, "message", "the aggregator gives no reason"));
    if (err == MRD_OK) {
        await_go(doc);
        *ret_doc = doc;
    } else {
        mrd_json_free(doc);
    }
    return err;
}

/* ---- Waiting for a session ---- */

mrd_err
mrd_cluster_wait(mrd_client *client, const char *id, mrd_dur_ns limit, mrd_dur_ns patience,
                 mrd_cluster_done *done, void *self, mrd_json **ret_doc, mrd_why *why)
{
    int64_t start = mrd_local_now().ns, reached = start, now = start;
    mrd_err err;

    for (;; mrd_cluster_sleep(POLL_NS)) {
        mrd_json *doc = NULL;

        if (mrd_cluster_interrupted())
            return mrd_why_set(why, MRD_CANCELLED, 0, "interrupted");
        err = mrd_cluster_call(client, "GET", id, "", NULL, &doc, why);
        now = mrd_local_now().ns;
        if (err == MRD_OK) {
            reached = now;
            mrd_json_free(*ret_doc);
            *ret_doc = doc;
            if (done(self, doc))
                return MRD_OK;
        } else if ((err != MRD_NET && err != MRD_TIMEOUT) || now - reached > patience) {
            return err;
        }
        if (now - start > limit) {
            char text[MRD_DUR_TEXT];

            return mrd_why_set(
                why, MRD_TIMEOUT, 0,
                "session %s is still %s after %s: `meridian status %s` shows "
                "what it waits for",
                id, *ret_doc == NULL ? "unknown" : mrd_json_str(*ret_doc, "state", "unknown"),
                mrd_dur_text(limit, text), id);
        }
    }
}

/* Returns how many events the nodes have recorded and not dropped, as an estimate of how many the
 * aggregator will store. It is far too high for a flight recorder, whose nodes keep events in
 * memory and send them only after a trigger. */
static uint64_t
expected(const mrd_json *doc)
{
    int64_t n = mrd_sat_sub(mrd_json_int(doc, "begun", 0), mrd_json_int(doc, "dropped", 0));

    return n > 0 ? (uint64_t) n : 0;
}

static bool
is_over(void *self, const mrd_json *doc)
{
    mrd_progress *progress = self;
    const mrd_json *job = mrd_json_get(doc, "profile");

    if (mrd_cluster_in(doc, "merging") && job != NULL)
        mrd_progress_show(progress, (uint64_t) mrd_json_int(job, "events", 0),
                          (uint64_t) mrd_json_int(job, "total", 0), "events", "merged");
    else
        mrd_progress_show(progress, (uint64_t) mrd_json_int(doc, "events", 0), expected(doc),
                          "events", mrd_json_str(doc, "state", ""));
    return mrd_cluster_in(doc, "complete|failed");
}

mrd_err
mrd_cluster_finish(mrd_client *client, const char *id, mrd_dur_ns limit, mrd_dur_ns patience,
                   mrd_json **ret_doc, mrd_why *why)
{
    mrd_progress progress;
    mrd_err err;

    mrd_progress_start(&progress, "arrived");
    err = mrd_cluster_wait(client, id, limit, patience, is_over, &progress, ret_doc, why);
    mrd_progress_end(&progress);
    return err;
}

mrd_err
mrd_cluster_check_begun(const mrd_json *doc, mrd_why *why)
{
    const char *message = mrd_json_str(doc, "message", NULL);

    if (!mrd_cluster_in(doc, "arming|failed"))
        return MRD_OK;
    return mrd_why_set(why, MRD_STATE, 0, "session %s %s and has no events%s%s",
                       mrd_json_str(doc, "id", "?"),
                       mrd_cluster_in(doc, "failed") ? "failed" : "is arming",
                       message == NULL ? "" : ": ", message == NULL ? "" : message);
}

/* ---- Showing a session ---- */

int64_t
mrd_cluster_lost(const mrd_json *counters)
{
    return mrd_sat_sub(mrd_json_int(counters, "dropped", 0), mrd_json_int(counters, "unwanted", 0));
}

static const mrd_text_table_column part_columns[] = {
    { "node", false },       { "state", false },      { "events", true },
    { "dropped", true },     { "held", true },        { "clock", false },
    { "clock error", true }, { "start error", true }, { "remark", false },
};

/* Returns true if no more events will arrive. */
static bool
is_ending(const mrd_json *doc)
{
    return mrd_cluster_in(doc, "merging|complete|failed");
}

/* Returns a text about stored events that could not be read when the profile was merged, or "" if
 * there are none. */
static const char *
damage_text(const mrd_json *node, char *text, size_t size)
{
    int64_t events = mrd_json_int(node, "damaged_events", 0);
    int64_t frames = mrd_json_int(node, "damaged_frames", 0);

    *text = '\0';
    if (events > 0 || frames > 0)
        snprintf(text, size,
                 "the aggregator's journal is damaged: %" PRId64 " stored events and %" PRId64
                 " frames cannot be read back",
                 events, frames);
    return text;
}

/* Returns a text that says how much time a flight recorder on the node has in memory, which a
 * trigger can save. "" if the node runs no recorder. */
static const char *
recorder_text(const mrd_json *node, char *text, size_t size)
{
    const mrd_json *recorder = mrd_json_get(node, "recorder");
    char held[MRD_SIZE_TEXT], reach[MRD_DUR_TEXT];

    *text = '\0';
    if (recorder != NULL)
        snprintf(text, size, "holds %s of the last %s",
                 mrd_cli_size((uint64_t) mrd_json_int(recorder, "bytes", 0), held),
                 mrd_dur_text(mrd_json_int(recorder, "reach_ns", 0), reach));
    return text;
}

/* Adds a cell that joins the remarks that are not empty. */
static void
remark_cell(mrd_text_table *texts, const char *const *remarks, size_t n)
{
    char all[900] = "";
    size_t len = 0;

    for (size_t i = 0; i < n && len < sizeof(all); i++) {
        if (*remarks[i] != '\0')
            len += (size_t) snprintf(all + len, sizeof(all) - len, "%s%.400s", len > 0 ? "; " : "",
                                     remarks[i]);
    }
    mrd_text_table_cell(texts, "%s", all);
}

static void
part_row(mrd_text_table *texts, const mrd_json *json, bool over)
{
    const mrd_json *counters = mrd_json_get(json, "counters"), *clock = mrd_json_get(json, "clock");
    int64_t missing = mrd_json_int(json, "missing_batches", 0);
    char batches[64] = "", damage[160], recorder[80];

    if (missing > 0)
        snprintf(batches, sizeof(batches), "%" PRId64 " batch%s %s", missing,
                 missing == 1 ? "" : "es", over ? "missing" : "on their way");
    mrd_text_table_cell(texts, "%s", mrd_json_str(json, "instance_id", "?"));
    mrd_text_table_cell(texts, "%s", mrd_json_str(json, "state", "?"));
    mrd_text_table_count(texts, mrd_json_int(json, "events", 0));
    mrd_text_table_count(texts, mrd_cluster_lost(counters));
    mrd_text_table_count(texts, mrd_json_int(counters, "held", 0));
    mrd_text_table_cell(texts, "%s", mrd_json_str(clock, "state", "?"));
    mrd_text_table_dur(texts, mrd_json_int(clock, "bound_ns", -1));
    mrd_text_table_dur(texts, mrd_json_int(json, "started_local_ns", 0) == 0
                                  ? -1
                                  : mrd_json_int(json, "start_bound_ns", -1));
    remark_cell(texts,
                (const char *[]){ batches, damage_text(json, damage, sizeof(damage)),
                                  mrd_json_str(json, "message", ""),
                                  recorder_text(json, recorder, sizeof(recorder)),
                                  mrd_json_bool(json, "simulated", false) ? "simulated" : "" },
                5);
}

/* Context for sorting nodes by name. The manifest lists nodes in order of arrival, but users search
 * for names. */
typedef struct {
    const mrd_json **v;
    size_t n;
} node_list;

static int
by_name(const void *a, const void *b)
{
    return strcmp(mrd_json_str(*(const mrd_json *const *) a, "instance_id", ""),
                  mrd_json_str(*(const mrd_json *const *) b, "instance_id", ""));
}

static node_list
nodes_of(const mrd_json *doc)
{
    const mrd_json *list = mrd_json_get(doc, "nodes");
    node_list nodes = { calloc(mrd_json_size(list) + 1, sizeof(*nodes.v)), 0 };

    for (size_t i = 0; nodes.v != NULL && i < mrd_json_size(list); i++)
        nodes.v[nodes.n++] = mrd_json_at(list, i);
    if (nodes.n > 1)
        qsort(nodes.v, nodes.n, sizeof(*nodes.v), by_name);
    return nodes;
}

static void
print_parts(const node_list *nodes, bool over, FILE *to)
{
    mrd_text_table texts = { part_columns, MRD_COUNT(part_columns), { 0 } };

    if (nodes->n == 0)
        return;
    for (size_t i = 0; i < nodes->n; i++)
        part_row(&texts, nodes->v[i], over);
    fputc('\n', to);
    mrd_text_table_print(&texts, to);
    mrd_text_table_fini(&texts);
}

static void
print_drops(const node_list *nodes, FILE *to)
{
    for (size_t i = 0; i < nodes->n; i++) {
        const mrd_json *node = nodes->v[i];
        const mrd_json *drops = mrd_json_get(mrd_json_get(node, "counters"), "drops");

        for (size_t k = 0; k < mrd_json_size(drops); k++) {
            const mrd_json *json = mrd_json_at(drops, k);
            const char *meaning = mrd_drop_meaning(mrd_str_of(mrd_json_str(json, "cause", "")));
            int64_t count = mrd_json_int(json, "count", 0);

            fprintf(to, "dropped on %s: %" PRId64 " event%s, cause %s%s%s\n",
                    mrd_cluster_shown(node, "instance_id", "?"), count,
                    mrd_plural((uint64_t) count), mrd_cluster_shown(json, "cause", "?"),
                    meaning == NULL ? "" : ": ", meaning == NULL ? "" : meaning);
        }
    }
}

static void
print_triggers(const mrd_json *list, FILE *to)
{
    for (size_t i = 0; i < mrd_json_size(list); i++) {
        const mrd_json *json = mrd_json_at(list, i);

        fprintf(to, "trigger %s: %s to %s, %" PRId64 " node%s answered",
                mrd_cluster_shown(json, "id", "?"), mrd_cluster_shown(json, "from", "?"),
                mrd_cluster_shown(json, "to", "?"), mrd_json_int(json, "answered", 0),
                mrd_plural((uint64_t) mrd_json_int(json, "answered", 0)));
        if (mrd_json_size(mrd_json_get(json, "unacknowledged")) > 0)
            fprintf(to, ", %zu did not acknowledge it",
                    mrd_json_size(mrd_json_get(json, "unacknowledged")));
        fputs(": ", to);
        mrd_cluster_say(to, mrd_json_str(json, "reason", ""));
    }
}

static void
print_profile(const mrd_json *doc, FILE *to)
{
    const mrd_json *job = mrd_json_get(doc, "profile");
    const char *state = mrd_cluster_shown(job, "state", "none");

    if (strcmp(state, "none") == 0)
        return;
    fprintf(to, "profile %s", state);
    if (strcmp(state, "running") == 0)
        fprintf(to, ": %" PRId64 " of %" PRId64 " event%s", mrd_json_int(job, "events", 0),
                mrd_json_int(job, "total", 0),
                mrd_plural((uint64_t) mrd_json_int(job, "total", 0)));
    if (mrd_json_str(job, "message", NULL) != NULL)
        fputs(": ", to);
    mrd_cluster_say(to, mrd_json_str(job, "message", ""));
}

/* Prints where a device profile was requested, like "i-0abc pid 77 core 3". */
static void
say_profile(const mrd_json *node, const mrd_json *profile, FILE *to)
{
    fprintf(to, "%s pid %" PRId64, mrd_cluster_shown(node, "instance_id", "?"),
            mrd_json_int(profile, "process_id", 0));
    if (mrd_json_get(profile, "lnc_idx") != NULL)
        fprintf(to, " core %" PRId64, mrd_json_int(profile, "lnc_idx", 0));
}

/* Returns true if a model of the node cannot be sent, because the process that loaded it keeps no
 * copy. */
static bool
lacks_neff(const mrd_json *node)
{
    const mrd_json *models = mrd_json_get(node, "models");

    for (size_t i = 0; i < mrd_json_size(models); i++) {
        const mrd_json *loads = mrd_json_get(mrd_json_at(models, i), "loads");

        for (size_t k = 0; k < mrd_json_size(loads); k++) {
            if (!mrd_json_bool(mrd_json_at(loads, k), "kept", true))
                return true;
        }
    }
    return false;
}

static void
print_device_profiles(const mrd_json *doc, const node_list *nodes, FILE *to)
{
    bool by_model = strcmp(mrd_json_str(doc, "device_profiles", ""), "model") == 0, lacks = false;

    for (size_t i = 0; i < nodes->n; i++) {
        const mrd_json *node = nodes->v[i], *list = mrd_json_get(node, "device_profiles");

        for (size_t k = 0; k < mrd_json_size(list); k++) {
            const mrd_json *json = mrd_json_at(list, k);

            fputs("device profile of ", to);
            say_profile(node, json, to);
            fprintf(to, ": %s%s", mrd_cluster_shown(json, "state", "?"),
                    *mrd_json_str(json, "message", "") == '\0' ? "" : ": ");
            mrd_cluster_say(to, mrd_json_str(json, "message", ""));
            lacks = lacks || (by_model && mrd_json_int(json, "written", 0) > 0 && lacks_neff(node));
        }
    }
    if (lacks)
        fprintf(to, "their NEFFs are not kept, and viewers need them: start the program with "
                    "MERIDIAN_NEFFS=1G in its environment\n");
}

void
mrd_cluster_print_session(const mrd_json *doc, FILE *to)
{
    const char *message = mrd_json_str(doc, "message", "");
    const char *store = mrd_json_str(doc, "store_message", "");
    const char *name = mrd_json_str(doc, "name", "");
    int64_t go = mrd_json_int(doc, "go_ns", 0), stop = mrd_json_int(doc, "stop_ns", 0);
    node_list nodes = nodes_of(doc);
    char size[MRD_SIZE_TEXT], count[MRD_COUNT_TEXT], length[MRD_DUR_TEXT];

    fprintf(to, "session %s%s", mrd_cluster_shown(doc, "id", "?"), *name == '\0' ? "" : " ");
    mrd_cluster_say(to, name);
    fprintf(to, "%s, %s", mrd_cluster_shown(doc, "state", "?"),
            mrd_cluster_shown(doc, "mode", "?"));
    if (strcmp(mrd_json_str(doc, "event_set", "all"), "all") != 0)
        fprintf(to, ", event types: %s", mrd_cluster_shown(doc, "event_set", "?"));
    if (go != 0)
        fprintf(to, ", began %s", mrd_cluster_shown(doc, "go", "?"));
    if (go != 0 && stop > go)
        fprintf(to, ", %s long", mrd_dur_text(stop - go, length));
    fprintf(to, ", %s event%s in %s\n", mrd_cli_count(mrd_json_int(doc, "events", 0), count),
            mrd_plural((uint64_t) mrd_json_int(doc, "events", 0)),
            mrd_cli_size((uint64_t) mrd_json_int(doc, "bytes", 0), size));
    if (*message != '\0')
        mrd_cluster_say(to, message);
    if (*store != '\0') {
        fputs("nothing is stored now: ", to);
        mrd_cluster_say(to, store);
    }
    print_profile(doc, to);
    print_parts(&nodes, is_ending(doc), to);
    print_drops(&nodes, to);
    print_triggers(mrd_json_get(doc, "triggers"), to);
    print_device_profiles(doc, &nodes, to);
    free(nodes.v);
}

/* Prints the device profiles that were requested and refused. Returns true if there are none. */
static bool
profiles_whole(const mrd_json *node, const char *command)
{
    const mrd_json *list = mrd_json_get(node, "device_profiles");
    bool whole = true;

    for (size_t i = 0; i < mrd_json_size(list); i++) {
        const mrd_json *json = mrd_json_at(list, i);

        if (strcmp(mrd_json_str(json, "state", ""), "refused") != 0)
            continue;
        whole = false;
        fprintf(stderr, "meridian %s: no device profile of ", command);
        say_profile(node, json, stderr);
        fputs(": ", stderr);
        mrd_cluster_say(stderr, mrd_json_str(json, "message", "no reason given"));
    }
    return whole;
}

/* Prints how much of the session's time the node has not recorded. Returns true if that is
 * negligible. Flight recorders are not checked, because they send only the times around
 * triggers. */
static bool
coverage_whole(const mrd_json *doc, const mrd_json *node, const char *command)
{
    int64_t window = mrd_json_int(node, "window_ns", 0);
    int64_t covered = mrd_json_int(node, "covered_ns", 0);
    int64_t paused = mrd_json_int(node, "paused_ns", 0);
    char part[MRD_DUR_TEXT], all[MRD_DUR_TEXT];

    if (paused > 0) /* a pause was requested, so the session counts as complete */
        fprintf(stderr, "meridian %s: node %s: not recorded (paused): %s of %s\n", command,
                mrd_cluster_shown(node, "instance_id", "?"), mrd_dur_text(paused, part),
                mrd_dur_text(window, all));
    /* a message about a refused or missing node was printed before */
    if (mrd_sat_sub(mrd_sat_sub(window, covered), paused) <= COVER_MIN ||
        strcmp(mrd_json_str(doc, "mode", ""), "stream") != 0 ||
        mrd_cluster_in(node, "refused|missing"))
        return true;
    fprintf(stderr, "meridian %s: incomplete: node %s covers %s of %s\n", command,
            mrd_cluster_shown(node, "instance_id", "?"), mrd_dur_text(covered, part),
            mrd_dur_text(window, all));
    return false;
}

/* Prints how many stored events of the node cannot be read. Returns true if there are none. */
static bool
journal_whole(const mrd_json *node, const char *command)
{
    char text[160];

    if (*damage_text(node, text, sizeof(text)) == '\0')
        return true;
    fprintf(stderr, "meridian %s: incomplete: node %s: %s\n", command,
            mrd_cluster_shown(node, "instance_id", "?"), text);
    return false;
}

/* Prints files of the node that the aggregator will never receive. Returns true if there are
 * none. */
static bool
files_whole(const mrd_json *node, const char *command)
{
    int64_t n = mrd_json_int(node, "refused_files", 0);

    if (n <= 0)
        return true;
    fprintf(stderr,
            "meridian %s: incomplete: node %s: %" PRId64 " file%s refused, the last: ", command,
            mrd_cluster_shown(node, "instance_id", "?"), n, n == 1 ? " was" : "s were");
    mrd_cluster_say(stderr, mrd_json_str(node, "refused_file", ""));
    return false;
}

/* Prints which data of the node the agent could not read. Returns true if the agent read
 * everything. */
static bool
unread_whole(const mrd_json *node, const char *command)
{
    const char *what = mrd_json_str(mrd_json_get(node, "unread"), "message", NULL);

    if (what == NULL)
        return true;
    fprintf(stderr, "meridian %s: incomplete: node %s: ", command,
            mrd_cluster_shown(node, "instance_id", "?"));
    mrd_cluster_say(stderr, what);
    return false;
}

/* Prints the message of `remark`, if there is one. A remark says that data may be missing, but not
 * for sure, so it does not change the exit status. */
static void
say_remark(const mrd_json *node, const mrd_json *remark, const char *command)
{
    const char *what = mrd_json_str(remark, "message", NULL);

    if (what == NULL)
        return;
    fprintf(stderr, "meridian %s: node %s: ", command, mrd_cluster_shown(node, "instance_id", "?"));
    mrd_cluster_say(stderr, what);
}

static bool
is_without(const mrd_json *node)
{
    return mrd_cluster_in(node, "refused|lost|missing");
}

char *
mrd_cluster_nodes_text(const mrd_json *doc, char text[64])
{
    const mrd_json *nodes = mrd_json_get(doc, "nodes");
    size_t all = mrd_json_size(nodes), n = all;

    for (size_t i = 0; i < all; i++)
        n -= is_without(mrd_json_at(nodes, i));
    if (n == all)
        snprintf(text, 64, "%zu node%s", n, mrd_plural(n));
    else
        snprintf(text, 64, "%zu of %zu node%s", n, all, mrd_plural(all));
    return text;
}

/* Prints what is missing of a node. Returns true if nothing is missing. While the session is open,
 * data that has not arrived yet does not count as missing. */
static bool
node_whole(const mrd_json *doc, const mrd_json *node, const char *command)
{
    const mrd_json *json = mrd_json_get(node, "counters");
    bool over = is_ending(doc);
    int64_t missing = over ? mrd_json_int(node, "missing_batches", 0) : 0;
    int64_t dropped = mrd_cluster_lost(json), clock = mrd_json_int(json, "clock_frames_lost", 0);

    if (missing == 0 && dropped == 0 && clock == 0 && !is_without(node) &&
        (!over || mrd_cluster_in(node, "flushed")))
        return true;
    fprintf(stderr, "meridian %s: incomplete: node %s is %s", command,
            mrd_cluster_shown(node, "instance_id", "?"), mrd_cluster_shown(node, "state", "?"));
    if (dropped > 0 || missing > 0 || !is_without(node))
        fprintf(stderr, ", %" PRId64 " event%s dropped, %" PRId64 " batch%s missing", dropped,
                mrd_plural((uint64_t) dropped), missing, missing == 1 ? "" : "es");
    if (clock > 0)
        fprintf(stderr, ", %" PRId64 " frame%s of clock data lost", clock,
                mrd_plural((uint64_t) clock));
    if (mrd_json_str(node, "message", NULL) != NULL)
        fputs(": ", stderr);
    mrd_cluster_say(stderr, mrd_json_str(node, "message", ""));
    return false;
}

/* Prints triggers that did not reach a node in time. Returns true if there are none. */
static bool
triggers_whole(const mrd_json *doc, const char *command)
{
    const mrd_json *list = mrd_json_get(doc, "triggers");
    bool whole = true;

    for (size_t i = 0; is_ending(doc) && i < mrd_json_size(list); i++) {
        const mrd_json *json = mrd_json_at(list, i),
                       *missing = mrd_json_get(json, "unacknowledged");

        for (size_t k = 0; k < mrd_json_size(missing); k++) {
            whole = false;
            fprintf(stderr, "meridian %s: incomplete: node %s did not acknowledge trigger %s\n",
                    command, mrd_cluster_shown_at(missing, k), mrd_cluster_shown(json, "id", "?"));
        }
    }
    return whole;
}

mrd_err
mrd_cluster_again(mrd_client *client, const char *id, mrd_json **doc, mrd_why *why)
{
    mrd_json *now = NULL;
    mrd_err err = mrd_cluster_call(client, "GET", id, "", NULL, &now, why);

    if (err != MRD_OK)
        return err;
    mrd_json_free(*doc);
    *doc = now;
    return MRD_OK;
}

static bool
is_recorder(const mrd_json *json)
{
    return strcmp(mrd_json_str(json, "mode", ""), "recorder") == 0;
}

/* Returns true if events were recorded. Otherwise prints why there are none, and returns false. A
 * flight recorder without a trigger is expected to have no events, so for it the function still
 * returns true. */
static bool
holds_events(const mrd_json *doc, const char *command)
{
    const char *why = mrd_json_str(doc, "empty", NULL);

    if (why == NULL)
        return true;
    fprintf(stderr, "meridian %s: nothing was recorded: ", command);
    mrd_cluster_say(stderr, why);
    return is_recorder(doc) && mrd_json_size(mrd_json_get(doc, "triggers")) == 0;
}

bool
mrd_cluster_whole(const mrd_json *doc, const char *command)
{
    const mrd_json *nodes = mrd_json_get(doc, "nodes");
    bool whole = triggers_whole(doc, command);

    whole = holds_events(doc, command) && whole;

    for (size_t i = 0; i < mrd_json_size(nodes); i++) {
        const mrd_json *json = mrd_json_at(nodes, i);

        whole = coverage_whole(doc, json, command) && whole;
        whole = profiles_whole(json, command) && whole;
        whole = journal_whole(json, command) && whole;
        whole = files_whole(json, command) && whole;
        whole = unread_whole(json, command) && whole;
        whole = node_whole(doc, json, command) && whole;
        say_remark(json, mrd_json_get(json, "uncounted"), command);
        say_remark(json, mrd_json_get(mrd_json_get(json, "tally"), "unselected"), command);
    }
    return whole;
}

int
mrd_cluster_status(const mrd_json *doc, const char *command)
{
    if (mrd_cluster_in(doc, "failed"))
        return MRD_EXIT_FAILED;
    return mrd_cluster_whole(doc, command) ? MRD_EXIT_OK : MRD_EXIT_INCOMPLETE;
}

mrd_err
mrd_cluster_end(mrd_client *client, mrd_dur_ns patience, const char *id, mrd_dur_ns wait,
                mrd_json **ret_doc, mrd_why *why)
{
    return wait > 0 ? mrd_cluster_finish(client, id, wait, patience, ret_doc, why)
                    : mrd_cluster_call(client, "GET", id, "", NULL, ret_doc, why);
}

mrd_err
mrd_cluster_show(mrd_client *client, const mrd_client_options *options, const char *id,
                 mrd_dur_ns wait, const char *command, bool *ret_over, int *ret_status,
                 mrd_why *why)
{
    mrd_json *doc = NULL;
    mrd_err err = mrd_cluster_end(client, options->timeout, id, wait, &doc, why);

    if (doc != NULL && options->json)
        mrd_cluster_print_json(doc);
    else if (doc != NULL)
        mrd_cluster_print_session(doc, stdout);
    if (err == MRD_OK)
        *ret_status = mrd_cluster_status(doc, command);
    *ret_over = err == MRD_OK && mrd_cluster_in(doc, "complete");
    mrd_json_free(doc);
    return err;
}
