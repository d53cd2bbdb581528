/*
 * agent/neuron/models.h - the models that processes of this node have loaded. libmeridian reports each
 * nrt_load and nrt_unload. They are kept without a session, too, so that a session has the
 * models that were loaded before it began. A successor of a killed agent reads them from a
 * separate note.
 *
 * Names    libmeridian knows size and hash; the name and the runtime's own number of a model come
 *          from the runtime's event of the same load: the one inside the call that loaded it, on
 *          the call's thread (a thread makes one call at a time), both by the host's wall clock.
 *          The outermost when a load makes others. A runtime that numbers threads in a way of its
 *          own is understood where only one call and only one event fit; else the load has no name,
 *          which is said as such: none is guessed.
 * Times    RAW of the node.
 * Memory   MRD_MODELS_MAX loads; beyond that the first unloaded one goes, counted when a session
 *          wants it, then new ones are only counted. As many of the runtime's events, the newest.
 * Threads  one.
 */
#ifndef MRD_AGENT_NEURON_MODELS_H
#define MRD_AGENT_NEURON_MODELS_H

#include "agent/record/record.h"

#define MRD_MODELS_MAX  4096 /* known on a node */
#define MRD_MODELS_SENT 512  /* of a session, or of the node, in one heartbeat */

typedef struct mrd_model_table mrd_model_table;

typedef struct {
    int64_t pid, start_ticks;
    uint64_t number;     /* number of the load in its process */
    uint64_t model_id;   /* as in spans of calls */
    int64_t runtime_id;  /* as in the runtime's events. MRD_NONE means not reported */
    int64_t core, cores; /* as the program requested. core -1 means the runtime's choice */
    uint64_t size;
    int64_t call_thread_id;
    mrd_wall_ns call_from, call_to; /* times of that call. 0 means unknown */
    mrd_local_ns load;
    mrd_local_ns unload; /* 0 means loaded. If the process ended: when that was detected */
    char sha256[65], name[128], path[192]; /* "" means unknown; path of a file */
    /* where the process keeps the model's bytes, "" means nowhere */
    char kept[512];
} mrd_model_load;

/* `record` is borrowed. `note` is a file for a successor, NULL means none. `boot_id` is of this
 * boot. */
mrd_err mrd_model_table_open(const char *note, const char *boot_id, const char *proc_root,
                             mrd_record *record, mrd_model_table **ret_table, mrd_why *why);
void mrd_model_table_close(mrd_model_table *models); /* NULL is fine */
/* A process was found, and a predecessor may have saved loads of it. */
void mrd_model_table_seen(mrd_model_table *models, const mrd_drain_process *process);
/* A process loaded or unloaded a model. */
void mrd_model_table_event(mrd_model_table *models, const mrd_drain_process *process,
                           uint64_t number, bool load, const mrd_event *ev);
/* Takes any event. nrt_load and nrt_load_collectives of the runtime give a model its name. `ev`
 * uses the host's wall clock, as the runtime's events do; other events are ignored. */
void mrd_model_table_name(mrd_model_table *models, const mrd_drain_process *process, unsigned clock,
                          const mrd_event *ev);
void mrd_model_table_gone(mrd_model_table *models, const mrd_drain_process *process,
                          mrd_local_ns now);
/* Calls back for each load with kept bytes that a session wants, once for each session. */
void mrd_model_table_ship(mrd_model_table *models,
                          void (*call)(void *self, const mrd_drain_process *process,
                                       const char *kept),
                          void *self);
/* Writes the note if something changed, and drops loads that no session can want. */
void mrd_model_table_step(mrd_model_table *models, mrd_local_ns now);
/* Changes whenever the result of mrd_model_table_get changes. */
uint64_t mrd_model_table_version(const mrd_model_table *models);
/* Gets the loads that were resident at some time of the session on processes that it selects, or
 * for session 0 the loads that are resident now. Returns their number, at most max, and counts the
 * rest. Pointers are valid until the next call of this module except get. */
size_t mrd_model_table_get(const mrd_model_table *models, uint64_t session,
                           const mrd_model_load **ret, size_t max, uint64_t *ret_left_out);

#endif
