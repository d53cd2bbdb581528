/*
 * cli/client/cluster.h - functions that the subcommands for clusters share. They find a session by
 * its name, request a new session, wait for its states, print it, and fetch its files. They reach
 * the aggregator through cli/client/client.h. docs/reference/http.md describes the API.
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

/* ---- Running a subcommand ---- */

/* Describes a subcommand that talks to the aggregator. mrd_cluster_main() parses the options into
 * `settings`, connects and calls `run`, which prints the result. `settings` are zero at first, and
 * mrd_cluster_main() frees them. `client` points into `settings`.
 *
 * If `run` returns an error, its message is printed. The exit status is that of mrd_cli_status(),
 * unless `run` stored another one. */
typedef struct {
    const char *name, *usage, *more;
    /* option table; a MRD_SESSION_OPTION_ROWS row in it is replaced by the options of a session */
    const mrd_opt *table;
    size_t rows;
    void *settings;
    const mrd_client_options *client;
    /* limits of the number of words on the command line, 0 or 1; the word names a session */
    unsigned min_words, max_words;
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
 * bytes, and control characters become '?'. It stays valid during the next seven calls of these
 * functions. Messages must print text of an answer only through these functions (test
 * cli/hostile_text). */
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
    /* reads the session's events: "latest" is the last session that has begun to record, because
     * other sessions have no events */
    MRD_CLUSTER_READ,
    MRD_CLUSTER_END, /* ends the session: "latest" is the last open session */
    /* triggers the session: "latest" is the last recording flight recorder, which is a session that
     * keeps events in memory until a trigger */
    MRD_CLUSTER_TRIGGER,
} mrd_cluster_use;

/* Puts "there is no file `word`" in front of an error's message. For a word that is neither a file
 * nor a session. */
mrd_err mrd_cluster_no_file(const char *word, mrd_err err, mrd_why *why);

/*
 * Finds the id of a session. `word` is an id, the beginning of exactly one id, or "latest". NULL
 * means "latest" too. "latest" is the last session that suits `use` or, if none does, the last
 * session. Errors: NOTFOUND, INVALID (several ids have this beginning), errors of the client.
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
 * aggregator does not answer, retries for at most `patience`. Stores the last answer in *ret_doc,
 * also with TIMEOUT and CANCELLED. The caller owns *ret_doc.
 */
typedef bool mrd_cluster_done(void *self, const mrd_json *doc);
mrd_err mrd_cluster_wait(mrd_client *client, const char *id, mrd_dur_ns limit, mrd_dur_ns patience,
                         mrd_cluster_done *done, void *self, mrd_json **ret_doc, mrd_why *why);
/* Waits until the session is over, and shows progress on a terminal. */
mrd_err mrd_cluster_finish(mrd_client *client, const char *id, mrd_dur_ns limit,
                           mrd_dur_ns patience, mrd_json **ret_doc, mrd_why *why);
/* returns true if the state of doc is in a list like "complete|failed" */
bool mrd_cluster_in(const mrd_json *doc, const char *states);

/* Returns the number of lost events in a "counters" member. It excludes events that no session
 * wanted, and events that a flight recorder dropped because they had become too old. */
int64_t mrd_cluster_lost(const mrd_json *counters);
void mrd_cluster_print_session(const mrd_json *doc, FILE *to);
/* Formats a text like "3 of 4 nodes". The first number counts the nodes that take part. The second
 * one also counts refused, lost and missing nodes. */
char *mrd_cluster_nodes_text(const mrd_json *doc, char text[64]);
/* Requests the session's state again and replaces *doc, because making a profile may have found
 * damaged data. If the request fails, *doc stays unchanged. */
mrd_err mrd_cluster_again(mrd_client *client, const char *id, mrd_json **doc, mrd_why *why);
/* Returns true if every node was flushed and no events were lost. Otherwise prints what is missing
 * on stderr. Pending data of an open session does not count as missing. */
bool mrd_cluster_whole(const mrd_json *doc, const char *command);

/* Gets the state of the session. If `wait` is above 0, first waits until the session is over, but
 * at most for this time. Stores the answer in *ret_doc like mrd_cluster_wait. */
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
    int clock; /* clock of the times in the files: 0 aligned, 1 utc, 2 raw */
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

/* Fetches the session's files into options->dir. Appends an object {"file", "bytes", ...} to `list`
 * for each file. Errors: EXISTS without `force`, INVALID (format), CANCELLED (the next call
 * continues the partial file), errors of the client. */
mrd_err mrd_cluster_fetch(mrd_client *client, const char *id, const mrd_fetch_options *options,
                          mrd_json *list, mrd_why *why);
/* Writes the profile, or a slice of it, to the stream `to`. Errors: as mrd_cluster_fetch, without
 * EXISTS. */
mrd_err mrd_cluster_print_profile(mrd_client *client, const char *id, const char *format,
                                  const mrd_fetch_options *options, FILE *to, mrd_why *why);
mrd_err mrd_cluster_check_formats(const mrd_strlist *formats, mrd_why *why);
/* Checks before a recording that a later fetch will be able to write its files, as far as this is
 * known now. Leaves no files behind. Errors: INVALID (format), EXISTS, IO. */
mrd_err mrd_cluster_check_output(const mrd_fetch_options *options, mrd_why *why);
/* Checks that a session has data to show. Errors: STATE for a session that failed or has not
 * begun. */
mrd_err mrd_cluster_check_begun(const mrd_json *doc, mrd_why *why);
/* Prints each fetched file on a line, and how to open it. */
void mrd_cluster_print_files(const mrd_json *list, FILE *to);

#endif
