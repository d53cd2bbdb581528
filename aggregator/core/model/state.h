/*
 * aggregator/core/model/state.h - the state of the core. Only the files of the core, snapshots on
 * the core's thread, and the recovery at the start may use it.
 */
#ifndef MRD_AGGREGATOR_CORE_MODEL_STATE_H
#define MRD_AGGREGATOR_CORE_MODEL_STATE_H

#include "aggregator/core/hang/hang.h"
#include "aggregator/core/model/core.h"
#include "aggregator/core/model/files.h"
#include "aggregator/core/slow/slow.h"

/* Counters since the start of the aggregator, for /metrics. */
typedef struct {
    uint64_t frames, bytes, events, duplicates, refused, slowed, not_stored, hellos, hello_refused,
        heartbeats, bad_frames;
    uint64_t artifacts, artifact_bytes, artifacts_removed;
    uint64_t limited[MRD_LIMIT_KINDS];
    /* numbers of clock checks, and how many of them contradicted a bound */
    uint64_t clock_frames, clock_frame_violations, clock_held_out, clock_held_out_violations,
        clock_absolute, clock_absolute_violations, clock_collectives, clock_collective_violations;
} mrd_core_stats;

/* A frame that is being written to disk, or a repetition of such a frame by its agent. */
typedef struct {
    /* `first` is the ticket of the frame that this frame repeats, or its own ticket */
    uint64_t ticket, first;
    mrd_session *session;
    mrd_part *part;
    mrd_node *node;
    mrd_frame frame;
} mrd_pending;

/* A survey: a question to all nodes. */
typedef struct {
    uint64_t id; /* id of the survey; 0 if the entry is free */
    uint64_t session, trigger;
    Mrd__ControlType type;
    /* revision of the session's change that the survey sends; see mrd_session.changes */
    unsigned revision;
    unsigned asked, answered; /* numbers of nodes that were asked and that answered */
    mrd_local_ns began, last, deadline;
    /* ids of the nodes that answered, so that a repeated answer is not counted */
    mrd_map answered_by;
} mrd_survey;

/* A command that is answered when the session's manifest with this version is on disk. */
typedef struct {
    uint64_t ticket; /* ticket of the command; 0 if the entry is free */
    uint64_t session, version, value;
    mrd_err err; /* error in another session that the same command affects */
    char text[MRD_TEXT_MAX];
} mrd_waiting_command;

/* A session in the store that cannot be read. Its artifacts are kept, because it may list them. */
typedef struct {
    uint64_t id;
    /* True if a system error prevented the read, so that the session may become readable later.
     * Until then its nodes keep its events. */
    bool may_pass;
    char why[MRD_WHY_MAX];
} mrd_unreadable;

struct mrd_core {
    mrd_core_limits limits;
    mrd_timescale timescale;
    mrd_core_time now, opened;
    uint64_t random;
    /* A number that increases when tokens or certificate authorities change. A node that sent its
     * hello before the change must authenticate again. */
    unsigned proof_epoch;
    mrd_nodes nodes;
    mrd_hang *hang;
    mrd_slow *slow;
    mrd_session **sessions;
    size_t n_sessions;
    mrd_stored_files files;
    mrd_unreadable *unreadables;
    unsigned unreadable; /* number of entries in `unreadables` */
    mrd_core_stats stats;
    mrd_pending pending[MRD_PENDING_MAX];
    unsigned n_pending;
    mrd_survey surveys[MRD_SURVEYS_MAX];
    uint64_t last_survey;
    mrd_waiting_command commands[MRD_COMMANDS_MAX];
    mrd_effects out;
    mrd_bucket bucket;
    uint64_t last_part;
    struct {
        bool changed, writing, failed;
        mrd_local_ns saved;
    } registry;
    /* `manifest_failed` is true if the last manifest could not be written. Only the first failure
     * is logged. */
    bool disk_full, manifest_failed;
    /* True if a write failed because the disk was full. Free bytes alone do not prove that the next
     * write succeeds, because a quota or a lack of inodes has the same effect. The store has room
     * again when a frame was stored, or when no node sent a frame for a while. */
    bool disk_refused, disk_try; /* `disk_try` allows one frame to test the disk */
    mrd_local_ns disk_try_since;
    uint64_t disk_trial; /* ticket of the frame that tests the disk */
    char disk_message[MRD_TEXT_MAX];
    bool store_gone; /* the store's directory was removed or replaced */
    char gone_message[MRD_WHY_MAX];
    int64_t clock_spare; /* while the store is full: bytes of clock data that may still be stored */
    mrd_dur_ns save_dur; /* time that the last manifest took to be durable */
    mrd_local_ns next_save, next_retain;
    /* Wall clock minus CLOCK_MONOTONIC_RAW when retention last searched for old sessions. A
     * difference shows that the wall clock was set. */
    int64_t wall_offset;
    /* Before this time no session is removed for its age, because the wall clock was set. */
    mrd_local_ns age_known;
};

/* ---- For the files of the core ---- */

void mrd_core_enter(mrd_core *core, mrd_core_time now); /* every input calls this first */
mrd_sess_ns mrd_core_session_now(const mrd_core *core);
uint64_t mrd_core_random(mrd_core *core);
/* Returns the session with this id, NULL if it does not exist or is deleted. */
mrd_session *mrd_core_session(const mrd_core *core, uint64_t id);
/* Returns the session with this id, also if it is deleted. */
mrd_session *mrd_core_any_session(const mrd_core *core, uint64_t id);
/* takes ownership of the session if it returns MRD_OK */
mrd_err mrd_core_add_session(mrd_core *core, mrd_session *session);
/* Adds the session to the list of unreadable sessions, with the reason `why`. If `may_pass` is
 * true, the session's nodes keep their events, and the caller tries to read it again later. Errors:
 * NOMEM. */
mrd_err mrd_core_unreadable(mrd_core *core, uint64_t session, bool may_pass, const char *why);
/* Removes the session from the list of unreadable sessions, because it was loaded or no longer
 * exists. */
void mrd_core_readable(mrd_core *core, uint64_t session);
/* If the session cannot be read now, but perhaps later (`may_pass`), returns why. Otherwise returns
 * NULL. */
const char *mrd_core_withheld(const mrd_core *core, uint64_t session);
/* Returns true if there is a session that cannot be read now, but perhaps later. */
bool mrd_core_withholds(const mrd_core *core);
/* Adds a part for the node. Returns NULL if out of memory. */
mrd_part *mrd_core_add_part(mrd_core *core, mrd_session *session, const mrd_node *node);
bool mrd_core_is_alive(const mrd_core *core, const mrd_node *node);
bool mrd_core_is_expected(const mrd_core *core, const mrd_node *node);
void mrd_core_drop_node(mrd_core *core, mrd_node *node);
/* Returns why the store accepts no data now, NULL if it does. */
const char *mrd_core_store_message(const mrd_core *core);
/* Checks that the store accepts data. Errors: FULL, or IO if its directory is missing. */
mrd_err mrd_core_store_check(const mrd_core *core, mrd_why *why);
/* Sets whether the store is full. Stores the time of the change in open sessions. */
void mrd_core_disk_is(mrd_core *core, bool full);
/* calls mrd_core_disk_is(core, false), and logs that there is room again */
void mrd_core_disk_has_room(mrd_core *core);

/* Sets the id of a new session, the time of its creation, and the name of the aggregator's
 * timeline. */
void mrd_core_name_session(mrd_core *core, mrd_session *session);

/* The following functions are in manifest/save.c. */
/* Requests to write the session's manifest now, or when the current write ends. */
void mrd_core_save(mrd_core *core, mrd_session *session);
void mrd_core_save_round(mrd_core *core); /* saves changed sessions, about once a second */
/* Answers the command `ticket` with `value` when the current state of the session is on disk.
 * Errors: LIMIT. */
mrd_err mrd_core_await(mrd_core *core, uint64_t ticket, const mrd_session *session, uint64_t value);
/* Records that a command failed for one of its sessions while it waits for others. The final answer
 * reports this error. */
void mrd_core_await_failed(mrd_core *core, uint64_t ticket, const mrd_why *why);
/* Answers a command at once. `why` is the error, or NULL. */
void mrd_core_answer(mrd_core *core, uint64_t ticket, const mrd_why *why, uint64_t value);
/* Answers the commands that wait for manifest `version` of the session, or for an earlier one. */
void mrd_core_answer_waiting(mrd_core *core, uint64_t session, uint64_t version,
                             const mrd_why *failed);
/* Answers all commands that wait for the session, because it was deleted. */
void mrd_core_answer_gone(mrd_core *core, uint64_t session);

/* Takes the reports about ranks from a heartbeat of the node, for the watches of
 * hangs and of slow ranks (decide/hangs.c). */
void mrd_core_take_ranks(mrd_core *core, const mrd_node *node, const Mrd__Heartbeat *hb,
                         mrd_local_ns received);
/* adds requests for stacks to the answer to a heartbeat */
void mrd_core_want_stacks(const mrd_core *core, const mrd_node *node, mrd_effect *effect);
/* judges the jobs, and publishes the verdicts about hangs and slow ranks */
void mrd_core_watch_jobs(mrd_core *core);

/* Starts a survey about the session, a question to all nodes (decide/survey.c). Returns the id of
 * the survey, 0 if all slots are in use. */
uint64_t mrd_core_ask(mrd_core *core, const mrd_session *session, Mrd__ControlType type,
                      const mrd_trigger *trigger, mrd_dur_ns timeout, mrd_dur_ns give_up);
mrd_survey *mrd_core_survey(mrd_core *core, uint64_t id); /* returns NULL if the survey is over */
void mrd_core_survey_end(mrd_core *core, mrd_survey *survey);
void mrd_core_surveys_tick(mrd_core *core);

/* Adds to *to the commands that the node still needs (decide/directives.c). `hb` is NULL if the
 * node sent a hello. */
void mrd_core_directives(mrd_core *core, const mrd_node *node, const Mrd__Heartbeat *hb,
                         mrd_effect *to);

/* Stores and logs the damage that a merge found. `whole` is true for a merge of the whole
 * session. */
void mrd_core_part_damaged(mrd_core *core, mrd_session *session, mrd_part *part,
                           const mrd_damage *found, bool whole);

/* Performs all steps that are possible for the session now (decide/steps.c). */
void mrd_session_run(mrd_core *core, mrd_session *session);
/* Begins a session that waited for its job, because the job has begun. */
void mrd_session_join(mrd_core *core, mrd_session *session);
/* Merges a complete session again. */
void mrd_core_merge_again(mrd_core *core, mrd_session *session);

/* The following functions are in decide/triggers.c. */
mrd_err mrd_session_add_trigger(mrd_session *session, const mrd_trigger *trigger, mrd_why *why);
/* Requests a trigger of the session because this node reported an incident. Does nothing if the
 * session is not a running flight recorder or does not record the node. */
void mrd_session_report(mrd_core *core, mrd_session *session, const mrd_node *node,
                        const char *reason);
void mrd_session_gather_reports(mrd_core *core, mrd_session *session);
/* Sends the triggers that are in the manifest on disk to the nodes. */
void mrd_session_send_triggers(mrd_core *core, mrd_session *session);
/* Sends the last change to the nodes if it is in the manifest on disk. */
void mrd_session_send_change(mrd_core *core, mrd_session *session);

/* The following functions are in decide/retention.c. */
/* Deletes the session. Its directory is removed when no reader has it open. */
void mrd_core_retire(mrd_core *core, mrd_session *session);
void mrd_core_retain(mrd_core *core); /* deletes old sessions by the limits of age and size */
void mrd_core_remove_deleted(mrd_core *core);
/* Returns the bytes that all sessions use in the store. An artifact of several sessions counts
 * once. */
uint64_t mrd_core_store_bytes(const mrd_core *core);

#endif
