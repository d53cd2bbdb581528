/*
 * aggregator/loop.h - the thread that owns the core: it takes frames of agents, results of other
 * threads and commands, gives them to the core with the time, and carries out what the core wants.
 *
 *   journals, manifests, merges, artifacts, folders, surveys: threads of their own. Each is given
 *   work with all it needs, and leaves its results in the loop's inbox. None of them touches the
 *   core; the loop waits for none of them.
 *   HTTP reads copies (view.h) and leaves commands in the inbox.
 *
 * Threads  every function may be called from any thread unless it says otherwise.
 */
#ifndef MRD_AGGREGATOR_LOOP_H
#define MRD_AGGREGATOR_LOOP_H

#include "aggregator/auth.h"
#include "aggregator/store.h"
#include "aggregator/view.h"
#include "proto/link.h"

typedef struct mrd_loop mrd_loop;

typedef struct {
    mrd_server *server; /* borrowed, as all here */
    mrd_session_store *store;
    mrd_auth *auth;     /* tokens that agents must show; NULL: none */
    bool cert_identity; /* an agent's certificate must name its instance */
    bool cert_alone;    /* ... and then needs no token */
    struct mrd_clocks *clocks;
    mrd_core_options core;
    uint64_t merge_split;      /* mrd_merger_options.split */
    const char *merge_formats; /* mrd_merger_options.formats; text here is borrowed until close */
    const char *export_targets;
    bool export_owner;
    const char *export_to, *export_path,
        *cluster; /* mrd_exporter_options; both NULL: nothing is exported */
    int64_t export_rate;
    const struct mrd_viewer_settings *viewer; /* of device profiles */
} mrd_loop_options;

/* Reads the store and starts. The server's contexts are at most MRD_PENDING_MAX. */
mrd_err mrd_loop_open(const mrd_loop_options *options, mrd_loop **ret_loop, mrd_why *why);
/* Makes durable and answers what it has taken, closes journals, writes manifests. Nobody may call
 * it any more. NULL is fine. */
void mrd_loop_close(mrd_loop *l);

/* ---- Commands ---- */

/* Runs fn on the loop's thread and returns when it has run. `ticket` is for a command of the core
 * that ends in an ANSWER. */
typedef void mrd_loop_fn(mrd_core *c, mrd_core_time now, uint64_t ticket, void *arg);
void mrd_loop_run(mrd_loop *l, mrd_loop_fn *fn, void *arg);
/* Runs fn there and returns with the core's answer to it. Errors: those of the command, CLOSED. */
mrd_err mrd_loop_command(mrd_loop *l, mrd_loop_fn *fn, void *arg, uint64_t *ret_value,
                         mrd_why *why);

/* What a merge or a slice found damaged. */
struct merge_input;
void mrd_loop_damaged(mrd_loop *l, uint64_t session, const struct merge_input *in, bool whole);

/* ---- Views: give them back ---- */

mrd_session_view *mrd_loop_session(mrd_loop *l,
                                   uint64_t id); /* NULL: there is none, or no memory */
mrd_overview *mrd_loop_overview(mrd_loop *l);    /* NULL: no memory */

const mrd_session_store *mrd_loop_store(const mrd_loop *l);
mrd_server *mrd_loop_server(const mrd_loop *l);
uint64_t mrd_loop_syncs(const mrd_loop *l); /* of journals */

#endif
