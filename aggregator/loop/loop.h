/*
 * aggregator/loop/loop.h - runs the thread that owns the core. This thread passes frames of agents,
 * commands, and results of other threads to the core. Then it carries out the core's effects.
 *
 * Journals, manifests, merges, artifacts, directories and surveys have threads of their own. They
 * receive work together with all data that it needs, and put the results into the loop's inbox.
 * They never use the core, and the loop never waits for them. HTTP reads copies
 * (aggregator/store/snapshot.h) and puts commands into the inbox.
 *
 * Threads  Any thread may call the functions, unless a comment says otherwise.
 */
#ifndef MRD_AGGREGATOR_LOOP_LOOP_H
#define MRD_AGGREGATOR_LOOP_LOOP_H

#include "aggregator/access/auth.h"
#include "aggregator/store/snapshot.h"
#include "aggregator/store/store.h"
#include "proto/link.h"

typedef struct mrd_loop mrd_loop;

typedef struct {
    mrd_server *server; /* the pointers in these options are borrowed */
    mrd_session_store *store;
    mrd_auth *auth;     /* tokens that agents must send; NULL means that they need none */
    bool cert_identity; /* true if an agent's certificate must contain the id of the agent's node */
    bool cert_alone;    /* an agent with such a certificate needs no token */
    struct mrd_clocks *clocks;
    mrd_core_options core;
    uint64_t merge_split; /* maximum size in bytes of a Perfetto file (mrd_merger_options.split) */
    /* mrd_merger_options.formats; the string must live until mrd_loop_close */
    const char *merge_formats;
    const char *export_targets;
    bool export_owner;
    /* These options are passed on in mrd_exporter_options. Without export_to and export_targets
     * there are no exports. */
    const char *export_to, *export_path, *cluster;
    int64_t export_rate;
    /* settings of the vendor's viewer, which converts device profiles */
    const struct mrd_converter_settings *viewer;
} mrd_loop_options;

/* Reads the store and starts the loop's thread. The server may process at most MRD_PENDING_MAX
 * requests at the same time (contexts). */
mrd_err mrd_loop_open(const mrd_loop_options *options, mrd_loop **ret_loop, mrd_why *why);
/* Closes the loop: makes received frames durable, answers them, closes journals and writes
 * manifests. No other call may run at the same time or follow. Does nothing for NULL. */
void mrd_loop_close(mrd_loop *loop);

/* ---- Commands to the core ---- */

/* Runs fn on the loop's thread and returns after fn has returned. fn may pass `ticket` to one
 * command of the core, which answers it with MRD_DO_ANSWER. */
typedef void mrd_loop_fn(mrd_core *c, mrd_core_time now, uint64_t ticket, void *arg);
void mrd_loop_run(mrd_loop *loop, mrd_loop_fn *fn, void *arg);
/* Runs fn on the loop's thread, waits for the core's answer to fn's command, and returns it.
 * Errors: errors of the command, CLOSED. */
mrd_err mrd_loop_command(mrd_loop *loop, mrd_loop_fn *fn, void *arg, uint64_t *ret_value,
                         mrd_why *why);

/* Reports that a merge found damaged data in its input `in`. `whole` is true if the whole session
 * was merged, false if only a time range. */
struct merge_input;
void mrd_loop_damaged(mrd_loop *loop, uint64_t session, const struct merge_input *in, bool whole);

/* ---- Copies of sessions and nodes for readers, which the caller releases ---- */

/* Returns a copy of the session for readers. NULL if the id is unknown or if out of memory. */
mrd_session_view *mrd_loop_session(mrd_loop *loop, uint64_t id);
mrd_overview *mrd_loop_overview(mrd_loop *loop); /* NULL if out of memory */

const mrd_session_store *mrd_loop_store(const mrd_loop *loop);
mrd_server *mrd_loop_server(const mrd_loop *loop);
/* number of system calls that synced journals since the start */
uint64_t mrd_loop_syncs(const mrd_loop *loop);

#endif
