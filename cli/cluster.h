/*
 * cli/cluster.h - what the cluster's subcommands share: naming a session, asking for one, waiting
 * for its states, printing it, fetching its files. All talk to the aggregator through cli/client.h
 * and are described in docs/http.md.
 *
 * Text from the aggregator is somebody else's: control characters are not passed to the terminal.
 * Threads: one.
 */
#ifndef MRD_CLI_CLUSTER_H
#define MRD_CLI_CLUSTER_H

#include <stdio.h>

#include "cli/client.h"
#include "cli/session_options.h"
#include "cli/table.h"
#include "trace/model/sink.h"

/* ---- The frame of a subcommand ---- */

/* Settings begin zeroed and are freed here; `client` points into them. run prints its result; an
 * error it returns is printed as one message, with the exit status of mrd_cli_status unless it set another. */
typedef struct {
    const char *name, *usage, *more;
    const mrd_opt *table; /* MRD_SESSION_OPTION_ROWS in it becomes those rows */
    size_t rows;
    void *settings;
    const mrd_client_options *client;
    unsigned min_words, max_words; /* 0 or 1: a session */
    mrd_err (*run)(void *settings, mrd_client *client, const char *word, int *ret_status,
                   mrd_why *why);
} mrd_cluster_command;

int mrd_cluster_main(mrd_cluster_command *command, int argc, char **argv);

/* ---- Printing ---- */

/* The members of doc's list `key`: as JSON with the rest of doc, else a row for each, or the
 * message `none` when there are none. */
void mrd_cluster_print_list(const mrd_json *doc, const char *key, bool json,
                            const mrd_text_table_column *columns, size_t n_columns,
                            void (*row)(mrd_text_table *t, const mrd_json *member),
                            const char *none);
/* One line of text from elsewhere, control characters as '?'. */
void mrd_cluster_say(FILE *to, const char *text);
/* Returns a member or an element of an answer for a message, at most 511 bytes, control characters as '?'. The text is valid until
 * seven more were returned. Messages print no other text of an answer (`cli/hostile_text`). */
const char *mrd_cluster_shown(const mrd_json *object, const char *key, const char *def);
const char *mrd_cluster_shown_at(const mrd_json *array, size_t i);
/* Characters that a terminal would obey are escaped. */
void mrd_cluster_print_json(const mrd_json *doc);

/* ---- Interruption ---- */

/* From now on SIGINT and SIGTERM only set a mark, which this clears; a second one ends the program
 * as usual. */
void mrd_cluster_catch(void);
void mrd_cluster_catch_all(void); /* SIGHUP too, and the second one as well */
bool mrd_cluster_interrupted(void);
void mrd_cluster_sleep(mrd_dur_ns dur_ns); /* less when a signal comes */

/* ---- Sessions ---- */

/* A file or folder is meant, not a session: the word has a slash, or something here has that name.
 * NULL: false. */
bool mrd_cluster_is_path(const char *word);

#define MRD_CLUSTER_ID 64

/* Asks for "/api/v1/sessions/<id><rest>". */
mrd_err mrd_cluster_call(mrd_client *client, const char *method, const char *id, const char *rest,
                         const mrd_json *body, mrd_json **ret_doc, mrd_why *why);
/* What a session is wanted for, which says whose turn it is to be "latest". */
typedef enum {
    MRD_CLUSTER_LOOK,    /* the last one that was made */
    MRD_CLUSTER_READ,    /* the last one that began; a failed one has no events */
    MRD_CLUSTER_END,     /* the last one that is open */
    MRD_CLUSTER_TRIGGER, /* the last flight recorder that records */
} mrd_cluster_use;

/*
 * The session that word means: its id, the beginning of one id only, or "latest" (NULL too), which
 * is the last one that suits the use, or else the last one.
 * Errors: NOTFOUND, INVALID (several begin so), those of the client.
 */
mrd_err mrd_cluster_find(mrd_client *client, const char *word, mrd_cluster_use use,
                         char ret_id[MRD_CLUSTER_ID], mrd_why *why);

/* Creates the session and waits until its nodes record. Errors: STATE with the aggregator's reason
 * when it did not start, CANCELLED (it is stopped then), TIMEOUT. */
mrd_err mrd_cluster_start(mrd_client *client, const mrd_session_request *request,
                          mrd_dur_ns patience, char ret_id[MRD_CLUSTER_ID], mrd_json **ret_doc,
                          mrd_why *why);

/*
 * Asks again and again until done says so, an interruption, or `limit` passed. An aggregator that
 * does not answer is asked on for `patience`. *ret_doc is the last answer (also after TIMEOUT and
 * CANCELLED, when there was one), owned by the caller.
 */
typedef bool mrd_cluster_done(void *self, const mrd_json *doc);
mrd_err mrd_cluster_wait(mrd_client *client, const char *id, mrd_dur_ns limit, mrd_dur_ns patience,
                         mrd_cluster_done *done, void *self, mrd_json **ret_doc, mrd_why *why);
/* Waits until the session is over, showing progress on a terminal. */
mrd_err mrd_cluster_finish(mrd_client *client, const char *id, mrd_dur_ns limit,
                           mrd_dur_ns patience, mrd_json **ret_doc, mrd_why *why);
bool mrd_cluster_in(const mrd_json *doc, const char *states); /* "complete|failed" */

/* Events lost, of a "counters" member: without those that no session wanted and those that a flight
 * recorder let go as its window passed. */
int64_t mrd_cluster_lost(const mrd_json *counters);
void mrd_cluster_print_session(const mrd_json *doc, FILE *to);
/* "3 of 4 nodes": those that take part, and those that refused, were lost or are missing. */
char *mrd_cluster_nodes_text(const mrd_json *doc, char text[64]);
/* The session as it is now, in place of *doc: making a profile finds out what is damaged. Errors:
 * those of the call; *doc is then as it was. */
mrd_err mrd_cluster_again(mrd_client *client, const char *id, mrd_json **doc, mrd_why *why);
/* True when every node was flushed and nothing was lost; else says on stderr what is missing. While
 * the session is open, what is still to come is not missing. */
bool mrd_cluster_whole(const mrd_json *doc, const char *command);

/* The session as it is, or with `wait` as it ends up within so long; *ret_doc as of mrd_cluster_wait. */
mrd_err mrd_cluster_end(mrd_client *client, mrd_dur_ns patience, const char *id, mrd_dur_ns wait,
                        mrd_json **ret_doc, mrd_why *why);
/* The exit status of a command for a session: FAILED, or mrd_cluster_whole. */
int mrd_cluster_status(const mrd_json *doc, const char *command);
/* The session as it is, or with `wait` as it ends up within so long; printed, JSON when the
 * client's options say so. Sets the exit status of `command` by what is missing; *ret_over: it is
 * complete. */
mrd_err mrd_cluster_show(mrd_client *client, const mrd_client_options *options, const char *id,
                         mrd_dur_ns wait, const char *command, bool *ret_over, int *ret_status,
                         mrd_why *why);

/* ---- Files ---- */

typedef struct {
    mrd_strlist formats;
    int64_t split; /* bytes of a Perfetto file that is merged for us */
    char *dir;     /* NULL: meridian-<id> */
    bool force, artifacts;
    int clock; /* 0 aligned, 1 utc, 2 raw */
    char *start, *end;
    mrd_strlist instances, processes, cores, types;
    char *primary, *secondary; /* groups of rows of a Perfetto file; NULL: as by default */
} mrd_fetch_options;

/* Rows of an option table: how the rows of a Perfetto file are grouped. */
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

/* Fetches into options->dir; appends {"file", "bytes", ...} to list. Errors: EXISTS without force,
 * INVALID (format), CANCELLED (what is there is continued next time), those of the client. */
mrd_err mrd_cluster_fetch(mrd_client *client, const char *id, const mrd_fetch_options *options,
                          mrd_json *list, mrd_why *why);
/* Writes the profile, or the slice of it, to a stream. Errors: as above, without EXISTS. */
mrd_err mrd_cluster_print_profile(mrd_client *client, const char *id, const char *format,
                                  const mrd_fetch_options *options, FILE *to, mrd_why *why);
mrd_err mrd_cluster_check_formats(const mrd_strlist *formats, mrd_why *why);
/* Before a recording: a later fetch can write there, by what is known now. Leaves nothing behind.
 * Errors: INVALID (format), EXISTS, IO. */
mrd_err mrd_cluster_check_output(const mrd_fetch_options *options, mrd_why *why);
/* STATE for a session that failed or has not begun: there is nothing to show of it. */
mrd_err mrd_cluster_check_begun(const mrd_json *doc, mrd_why *why);
/* A line for each file, and how to look at it. */
void mrd_cluster_print_files(const mrd_json *list, FILE *to);

#endif
