/*
 * cli/client/cluster.h - shared by the subcommands for clusters: finds a session by name, requests one,
 * waits for its states, prints it, fetches its files. All use the aggregator through cli/client/client.h.
 * docs/reference/http.md describes the API.
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

/* Settings begin zeroed and are freed here. `client` points into them. `run` prints its result. An
 * error that it returns is printed as one message, with the exit status of mrd_cli_status unless
 * `run` set another one. */
typedef struct {
    const char *name, *usage, *more;
    const mrd_opt *table; /* MRD_SESSION_OPTION_ROWS in it is replaced by those rows */
    size_t rows;
    void *settings;
    const mrd_client_options *client;
    unsigned min_words, max_words; /* 0 or 1: a session */
    mrd_err (*run)(void *settings, mrd_client *client, const char *word, int *ret_status,
                   mrd_why *why);
} mrd_cluster_command;

int mrd_cluster_main(mrd_cluster_command *command, int argc, char **argv);

/* ---- Printing ---- */

/* Prints the members of doc's list `key`: as JSON with the rest of doc, otherwise as a row for
 * each, or the message `none` if the list is empty. */
void mrd_cluster_print_list(const mrd_json *doc, const char *key, bool json,
                            const mrd_text_table_column *columns, size_t n_columns,
                            void (*row)(mrd_text_table *texts, const mrd_json *member),
                            const char *none);
/* Prints one line of external text, with control characters as '?'. */
void mrd_cluster_say(FILE *to, const char *text);
/* Returns a member or an element of an answer for a message, at most 511 bytes, control characters as '?'. The text is valid until
 * seven more were returned. Messages print no other text of an answer (`cli/hostile_text`). */
const char *mrd_cluster_shown(const mrd_json *object, const char *key, const char *def);
const char *mrd_cluster_shown_at(const mrd_json *array, size_t i);
/* Characters that a terminal would obey are escaped. */
void mrd_cluster_print_json(const mrd_json *doc);

/* ---- Interruption ---- */

/* From now on SIGINT and SIGTERM only set a flag, which this call clears. A second signal ends the
 * program as usual. */
void mrd_cluster_catch(void);
void mrd_cluster_catch_all(void); /* SIGHUP as well, and further signals */
bool mrd_cluster_interrupted(void);
void mrd_cluster_sleep(mrd_dur_ns dur_ns); /* less when a signal comes */

/* ---- Sessions ---- */

/* Returns true if the argument is a file or directory rather than a session: it has a slash, or a
 * file of this name exists here. NULL returns false. */
bool mrd_cluster_is_path(const char *word);

#define MRD_CLUSTER_ID 64

/* Requests "/api/v1/sessions/<id><rest>". */
mrd_err mrd_cluster_call(mrd_client *client, const char *method, const char *id, const char *rest,
                         const mrd_json *body, mrd_json **ret_doc, mrd_why *why);
/* The purpose of a session, which decides what "latest" means. */
typedef enum {
    MRD_CLUSTER_LOOK,    /* the latest one that was created */
    MRD_CLUSTER_READ,    /* the latest one that began, because a failed one has no events */
    MRD_CLUSTER_END,     /* the latest open one */
    MRD_CLUSTER_TRIGGER, /* the latest recording flight recorder */
} mrd_cluster_use;

/* Prefixes the error of a search for the session of `word` with the sentence that there is no such
 * file. */
mrd_err mrd_cluster_no_file(const char *word, mrd_err err, mrd_why *why);

/*
 * Finds the session of `word`: its id, the unique beginning of an id, or "latest" (or NULL).
 * "latest" is the latest session that suits the purpose, or else the latest one. Errors: NOTFOUND,
 * INVALID (several ids begin so), errors of the client.
 */
mrd_err mrd_cluster_find(mrd_client *client, const char *word, mrd_cluster_use use,
                         char ret_id[MRD_CLUSTER_ID], mrd_why *why);

/* Creates the session and waits until its nodes record. Errors: STATE with the aggregator's reason
 * if it did not start, CANCELLED (the session is stopped), TIMEOUT. */
mrd_err mrd_cluster_start(mrd_client *client, const mrd_session_request *request,
                          mrd_dur_ns patience, char ret_id[MRD_CLUSTER_ID], mrd_json **ret_doc,
                          mrd_why *why);

/*
 * Polls until `done` returns true, an interruption, or `limit`. Retries an aggregator that does not
 * answer for `patience`. *ret_doc is the last answer (also after TIMEOUT and CANCELLED, if there
 * was one), which the caller owns.
 */
typedef bool mrd_cluster_done(void *self, const mrd_json *doc);
mrd_err mrd_cluster_wait(mrd_client *client, const char *id, mrd_dur_ns limit, mrd_dur_ns patience,
                         mrd_cluster_done *done, void *self, mrd_json **ret_doc, mrd_why *why);
/* Waits until the session is over, and shows progress on a terminal. */
mrd_err mrd_cluster_finish(mrd_client *client, const char *id, mrd_dur_ns limit,
                           mrd_dur_ns patience, mrd_json **ret_doc, mrd_why *why);
bool mrd_cluster_in(const mrd_json *doc, const char *states); /* "complete|failed" */

/* Returns the lost events of a "counters" member, without events that no session wanted and events
 * that a flight recorder dropped after its window passed. */
int64_t mrd_cluster_lost(const mrd_json *counters);
void mrd_cluster_print_session(const mrd_json *doc, FILE *to);
/* "3 of 4 nodes": nodes that take part, of all nodes including refused, lost and missing ones. */
char *mrd_cluster_nodes_text(const mrd_json *doc, char text[64]);
/* Replaces *doc by the current state of the session, because making a profile finds damage. On
 * errors of the call *doc is unchanged. */
mrd_err mrd_cluster_again(mrd_client *client, const char *id, mrd_json **doc, mrd_why *why);
/* Returns true if every node was flushed and no events were lost. Otherwise prints what is missing
 * on stderr. Pending data of an open session does not count as missing. */
bool mrd_cluster_whole(const mrd_json *doc, const char *command);

/* Gets the session now or, with `wait`, when it is over, but at most after this time. *ret_doc as
 * in mrd_cluster_wait. */
mrd_err mrd_cluster_end(mrd_client *client, mrd_dur_ns patience, const char *id, mrd_dur_ns wait,
                        mrd_json **ret_doc, mrd_why *why);
/* Returns the exit status of a command for a session, by FAILED and mrd_cluster_whole. */
int mrd_cluster_status(const mrd_json *doc, const char *command);
/* Prints the session now or, with `wait`, when it is over; as JSON if the client's options request
 * it. Sets the exit status of `command` if something is missing. *ret_over: it is complete. */
mrd_err mrd_cluster_show(mrd_client *client, const mrd_client_options *options, const char *id,
                         mrd_dur_ns wait, const char *command, bool *ret_over, int *ret_status,
                         mrd_why *why);

/* ---- Files ---- */

typedef struct {
    mrd_strlist formats;
    int64_t split; /* maximum bytes of a Perfetto file that is merged for this request */
    char *dir;     /* NULL: meridian-<id> */
    bool force, artifacts;
    int clock; /* 0 aligned, 1 utc, 2 raw */
    char *start, *end;
    mrd_strlist instances, processes, cores, types;
    char *primary, *secondary; /* groups of rows of a Perfetto file. NULL means the default */
} mrd_fetch_options;

/* Rows of an option table for grouping the rows of a Perfetto file. */
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

/* Fetches files into options->dir, and appends {"file", "bytes", ...} to `list`. Errors: EXISTS
 * without force, INVALID (format), CANCELLED (the next call continues the partial file), errors of
 * the client. */
mrd_err mrd_cluster_fetch(mrd_client *client, const char *id, const mrd_fetch_options *options,
                          mrd_json *list, mrd_why *why);
/* Writes the profile, or a slice of it, to a stream. Errors: as above, without EXISTS. */
mrd_err mrd_cluster_print_profile(mrd_client *client, const char *id, const char *format,
                                  const mrd_fetch_options *options, FILE *to, mrd_why *why);
mrd_err mrd_cluster_check_formats(const mrd_strlist *formats, mrd_why *why);
/* Before a recording: checks that a later fetch can write its files, if this can be checked now.
 * Leaves no files behind. Errors: INVALID (format), EXISTS, IO. */
mrd_err mrd_cluster_check_output(const mrd_fetch_options *options, mrd_why *why);
/* Errors: STATE for a session that failed or has not begun, so that it has nothing to show. */
mrd_err mrd_cluster_check_begun(const mrd_json *doc, mrd_why *why);
/* Prints a line for each file, and how to open it. */
void mrd_cluster_print_files(const mrd_json *list, FILE *to);

#endif
