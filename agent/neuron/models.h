/*
 * agent/neuron/models.h - keeps a table of the models that processes of this node have loaded.
 * libmeridian reports each nrt_load and nrt_unload. The table is also kept without a session, so
 * that a session has the models that were loaded before it began. A file (the note) saves the table
 * for the next agent.
 *
 * Names    libmeridian reports size and hash of a model. The model's name and the runtime's own
 *          number come from an event of the runtime: the outermost load event on the thread that
 *          called nrt_load. The event must lie inside the time of this call (both times are of the
 *          host's wall clock). If a runtime numbers threads differently, the event is only used if
 *          exactly one call and one event match. Otherwise the load has no name, which is reported.
 *          No name is guessed.
 * Times    All times are of the node's CLOCK_MONOTONIC_RAW.
 * Memory   The table has MRD_MODELS_MAX loads. If it is full, the oldest load that was unloaded is
 *          dropped, and counted if a session wants it. If none is unloaded, new loads are only
 *          counted. The table also keeps the same number of load events of the runtime.
 * Threads  Only the agent's loop calls these functions.
 */
#ifndef MRD_AGENT_NEURON_MODELS_H
#define MRD_AGENT_NEURON_MODELS_H

#include "agent/record/record.h"

#define MRD_MODELS_MAX 4096 /* maximum number of model loads in the table of a node */
/* maximum number of model loads in one heartbeat, per session and for the node */
#define MRD_MODELS_SENT 512

typedef struct mrd_model_table mrd_model_table;

typedef struct {
    int64_t pid, start_ticks;
    uint64_t number;   /* number that the process gave to this load */
    uint64_t model_id; /* the model's id in spans of API calls */
    /* the model's number in events of the runtime; MRD_NONE means not reported */
    int64_t runtime_id;
    /* First core and number of cores, as the program requested them. A first core of -1 means that
     * the runtime chooses. */
    int64_t core, cores;
    uint64_t size;
    int64_t call_thread_id;
    /* start and end of the call that loaded the model; 0 means unknown */
    mrd_wall_ns call_from, call_to;
    mrd_local_ns load;
    /* when the model was unloaded, or when the end of its process was detected; 0 means still
     * loaded */
    mrd_local_ns unload;
    /* `path` is the path of the model's file; "" means unknown */
    char sha256[65], name[128], path[192];
    /* file in which the process keeps a copy of the model's contents; "" means none */
    char kept[512];
} mrd_model_load;

/* Opens the table. `record` is borrowed. `note` is the path of the file that saves the table for
 * the next agent; NULL means none. `boot_id` is the id of this boot. */
mrd_err mrd_model_table_open(const char *note, const char *boot_id, const char *proc_root,
                             mrd_record *record, mrd_model_table **ret_table, mrd_why *why);
void mrd_model_table_close(mrd_model_table *models); /* NULL is ignored. */
/* Restores the loads of a process that a previous agent saved. Must be called when the process was
 * found. */
void mrd_model_table_seen(mrd_model_table *models, const mrd_drain_process *process);
/* Adds a load or unload of a model by a process, as libmeridian reports it. */
void mrd_model_table_event(mrd_model_table *models, const mrd_drain_process *process,
                           uint64_t number, bool load, const mrd_event *ev);
/* Gives a load the name of its model, from an event of the process. Uses only the events nrt_load
 * and nrt_load_collectives of the runtime, with times of the host's wall clock. Ignores all
 * others. */
void mrd_model_table_name(mrd_model_table *models, const mrd_drain_process *process, unsigned clock,
                          const mrd_event *ev);
void mrd_model_table_gone(mrd_model_table *models, const mrd_drain_process *process,
                          mrd_local_ns now);
/* Calls `call` for each load of a model that a session wants, if the process keeps the model's
 * contents in a file. Each load is passed once per session. */
void mrd_model_table_ship(mrd_model_table *models,
                          void (*call)(void *self, const mrd_drain_process *process,
                                       const char *kept),
                          void *self);
/* Writes the file for the next agent if something changed, and removes loads that no session can
 * want. */
void mrd_model_table_step(mrd_model_table *models, mrd_local_ns now);
/* Returns a number that changes whenever the result of mrd_model_table_get changes. */
uint64_t mrd_model_table_version(const mrd_model_table *models);
/* Gets the models that were loaded at some time of the session, on processes that the session
 * selects. For session 0, gets the models that are loaded now. Returns their number, at most `max`.
 * *ret_left_out is how many more there are. The pointers are valid until the next call of this
 * module, except another get. */
size_t mrd_model_table_get(const mrd_model_table *models, uint64_t session,
                           const mrd_model_load **ret, size_t max, uint64_t *ret_left_out);

#endif
