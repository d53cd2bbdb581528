/*
 * cli/client/cluster.h - shared by the subcommands for clusters: finds a session by name, requests
 * one, waits for its states, prints it, fetches its files. All use the aggregator through
 * cli/client/client.h. docs/reference/http.md describes the API.
 *
 * Text from the aggregator is not trusted: control characters are not printed on the terminal.
 * Threads: one.
 */
#ifndef MRD_CLI_CLIENT_CLUSTER_H
#define MRD_CLI_CLIENT_CLUSTER_H

#include <stdio.h>

#include "cli/client/client.h"
#include "cli/client/session_options.h"
#include "cli/term/table.h"
#include "trace/model/sink.h"

/* ---- The frame of a subcommand ---- */

/* Describes a subcommand that talks to the aggregator. `settings` are zeroed at first, and
 * mrd_cluster_main() frees them. `client` points into the settings. `run` prints the result. If
 * `run` returns an error, mrd_cluster_main() prints its message. The exit status then comes from
 * mrd_cli_status, unless `run` set another one. */
typedef struct {
    const char *name, *usage, *more;
    /* option table; a MRD_SESSION_OPTION_ROWS row in it is replaced by the options of a session */
    const mrd_opt *table;
    size_t rows;
    void *settings;
    const mrd_client_options *client;
    unsigned min_words, max_words; /* 0 or 1; a word is the name of a session */
    mrd_err (*run)(void *settings, mrd_client *client, const char *word, int *ret_status,
                   mrd_why *why);
} mrd_cluster_command;

int mrd_cluster_main(mrd_cluster_command *command, int argc, char **argv);

/* ---- Printing ---- */

/* Prints the list `key` of the answer `doc`. With `json`, prints all of doc as JSON. Otherwise
 * prints a row for each member, or the message `none` if the list is empty. */
void mrd_cluster_print_list(const mrd_json *doc, const char *key, bool json,
                            const mrd_text_table_column *columns, size_t n_columns,
                            void (*row)(mrd_text_table *texts, const mrd_json *member),
                            const char *none);
/* Prints one line of untrusted text. Control characters become '?'. */
void mrd_cluster_say(FILE *to, const char *text);
/* Returns a member or an element of an answer as text for a message. The text has at most 511
 * bytes, and control characters become '?'. It is valid until the seventh further call. Messages
 * must not print text of an answer in any other way (test cli/hostile_text). */
const char *mrd_cluster_shown(const mrd_json *object, const char *key, const char *def);
const char *mrd_cluster_shown_at(const mrd_json *array, size_t i);
/* Prints an answer as JSON. Characters that a terminal would interpret are escaped. */
void mrd_cluster_print_json(const mrd_json *doc);

/* ---- Interruption ---- */

/* Installs handlers of SIGINT and SIGTERM that only set a flag, and clears the flag. A second
 * signal ends the program as usual. */
void mrd_cluster_catch(void);
/* like mrd_cluster_catch, also for SIGHUP; a second signal does not end the program */
void mrd_cluster_catch_all(void);
bool mrd_cluster_interrupted(void);
void mrd_cluster_sleep(mrd_dur_ns dur_ns); /* sleeps for dur_ns, or until a signal arrives */

/* ---- Sessions ---- */

/* Returns true if the argument is a file or directory rather than a session: it has a slash, or a
 * file of this name exists here. NULL returns false. */
bool mrd_cluster_is_path(const char *word);

#define MRD_CLUSTER_ID 64

/* Sends a request to the path "/api/v1/sessions/<id><rest>". */
mrd_err mrd_cluster_call(mrd_client *client, const char *method, const char *id, const char *rest,
                         const mrd_json *body, mrd_json **ret_doc, mrd_why *why);
/* How a command uses a session, which decides what "latest" means. */
typedef enum {
    MRD_CLUSTER_LOOK, /* shows the session: "latest" is the session that was created last */
    /* reads the session's events: "latest" is the last session that began, because others have no
     * events */
    MRD_CLUSTER_READ,
    MRD_CLUSTER_END, /* ends the session: "latest" is the last open session */
    /* triggers the session: "latest" is the last flight recorder that is recording */
    MRD_CLUSTER_TRIGGER,
} mrd_cluster_use;

/* Adds to the front of an error's message that there is no file `word`. Call it if `word` is
 * neither a file nor a session. */
mrd_err mrd_cluster_no_file(const char *word, mrd_err err, mrd_why *why);

/*
 * Finds the session that `word` means: its id, the unique beginning of an id, or "latest" (or
 * NULL). "latest" is the last session that suits `use` or, if there is none, the last session.
 * Errors: NOTFOUND, INVALID (several ids have this beginning), errors of the client.
 */
mrd_err mrd_cluster_find(mrd_client *client, const char *word, mrd_cluster_use use,
                         char ret_id[MRD_CLUSTER_ID], mrd_why *why);

/* Creates a session and waits until its nodes record. Errors: STATE with the aggregator's reason if
 * the session did not start, CANCELLED after an interruption (the session is stopped), TIMEOUT. */
mrd_err mrd_cluster_start(mrd_client *client, const mrd_session_request *request,
                          mrd_dur_ns patience, char ret_id[MRD_CLUSTER_ID], mrd_json **ret_doc,
                          mrd_why *why);

/*
 * Polls the session until `done` returns true, the user interrupts, or `limit` has passed. If the
 * aggregator does not answer, retries for at most `patience`. *ret_doc is the last answer, which
 * the caller owns, also after TIMEOUT and CANCELLED.
 */
typedef bool mrd_cluster_done(void *self, const mrd_json *doc);
mrd_err mrd_cluster_wait(mrd_client *client, const char *id, mrd_dur_ns limit, mrd_dur_ns patience,
                         mrd_cluster_done *done, void *self, mrd_json **ret_doc, mrd_why *why);
/* Waits until the session is over, and shows progress on a terminal. */
mrd_err mrd_cluster_finish(mrd_client *client, const char *id, mrd_dur_ns limit,
                           mrd_dur_ns patience, mrd_json **ret_doc, mrd_why *why);
/* returns true if the state of doc is in a list like "complete|failed" */
bool mrd_cluster_in(const mrd_json *doc, const char *states);

/* Returns the number of lost events in a "counters" member. Events that no session wanted do not
 * count, and neither do events that a flight recorder dropped after its window passed. */
int64_t mrd_cluster_lost(const mrd_json *counters);
void mrd_cluster_print_session(const mrd_json *doc, FILE *to);
/* Formats "3 of 4 nodes": the number of nodes that take part, and of all nodes including refused,
 * lost and missing ones. */
char *mrd_cluster_nodes_text(const mrd_json *doc, char text[64]);
/* Requests the state of the session again and replaces *doc by it. Making a profile may have found
 * damaged data since the last request. On errors of the call *doc is unchanged. */
mrd_err mrd_cluster_again(mrd_client *client, const char *id, mrd_json **doc, mrd_why *why);
/* Returns true if every node was flushed and no events were lost. Otherwise prints what is missing
 * on stderr. Pending data of an open session does not count as missing. */
bool mrd_cluster_whole(const mrd_json *doc, const char *command);

/* Gets the state of the session now. With `wait`, waits until the session is over, but at most for
 * this time. *ret_doc as in mrd_cluster_wait. */
mrd_err mrd_cluster_end(mrd_client *client, mrd_dur_ns patience, const char *id, mrd_dur_ns wait,
                        mrd_json **ret_doc, mrd_why *why);
/* Returns the exit status of a command for a session: failed if the session failed, incomplete if
 * mrd_cluster_whole returns false. */
int mrd_cluster_status(const mrd_json *doc, const char *command);
/* Gets the session as mrd_cluster_end does and prints it, as JSON if the client's options request
 * it. Sets *ret_status to `incomplete` or `failed` as mrd_cluster_status does. *ret_over is true if
 * the session is complete. */
mrd_err mrd_cluster_show(mrd_client *client, const mrd_client_options *options, const char *id,
                         mrd_dur_ns wait, const char *command, bool *ret_over, int *ret_status,
                         mrd_why *why);

/* ---- Files ---- */

typedef struct {
    mrd_strlist formats;
    int64_t split; /* maximum bytes of each Perfetto file that is made for this request */
    char *dir;     /* directory for the files; NULL means meridian-<id> */
    bool force, artifacts;
    int clock; /* which clock times are given in: 0 aligned, 1 utc, 2 raw */
    char *start, *end;
    mrd_strlist instances, processes, cores, types;
    /* how the tracks of a Perfetto file are grouped; NULL means the default */
    char *primary, *secondary;
} mrd_fetch_options;

/* Rows of an option table, for the options that group the tracks of a Perfetto file. */
#define MRD_FETCH_GROUP_ROWS(settings, member)                                                     \
    { .name = "system-trace-primary-group",                                                        \
      .type = MRD_OPT_STR,                                                                         \
      .offset = offsetof(settings, member.primary),                                                \
      .arg = "LIST",                                                                               \
      .help =                                                                                      \
          "Perfetto: groups of rows: instance_id, process_id, lnc_idx, thread_id, worker_gid, "    \
          "cpu_device (default instance_id,process_id)" },                                         \
    {                                                                                              \
        .name = "system-trace-secondary-group", .type = MRD_OPT_STR,                               \
        .offset = offsetof(settings, member.secondary), .arg = "LIST",                             \
        .help = "Perfetto: rows inside a group, by the same fields (default lnc_idx,thread_id)"    \
    }

/* Fetches the session's files into options->dir, and appends {"file", "bytes", ...} to `list` for
 * each. Errors: EXISTS without force, INVALID (format), CANCELLED (the next call continues the
 * partial file), errors of the client. */
mrd_err mrd_cluster_fetch(mrd_client *client, const char *id, const mrd_fetch_options *options,
                          mrd_json *list, mrd_why *why);
/* Writes the profile, or a slice of it, to the stream `to`. Errors: as mrd_cluster_fetch, without
 * EXISTS. */
mrd_err mrd_cluster_print_profile(mrd_client *client, const char *id, const char *format,
                                  const mrd_fetch_options *options, FILE *to, mrd_why *why);
mrd_err mrd_cluster_check_formats(const mrd_strlist *formats, mrd_why *why);
/* Checks that a later fetch can write its files, as far as this can be checked now. Call it before
 * a recording. Leaves no files behind. Errors: INVALID (format), EXISTS, IO. */
mrd_err mrd_cluster_check_output(const mrd_fetch_options *options, mrd_why *why);
/* Checks that a session has data to show. Errors: STATE for a session that failed or has not
 * begun. */
mrd_err mrd_cluster_check_begun(const mrd_json *doc, mrd_why *why);
/* Prints each fetched file on a line, and how to open it. */
void mrd_cluster_print_files(const mrd_json *list, FILE *to);

#endif
