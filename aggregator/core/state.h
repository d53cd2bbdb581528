/*
 * aggregator/core/state.h - what the core holds, for its own files, for readers on the same thread
 * (snapshots) and for its recovery at the start.
 */
#ifndef MRD_AGGREGATOR_CORE_STATE_H
#define MRD_AGGREGATOR_CORE_STATE_H

#include "aggregator/core/core.h"
#include "aggregator/core/files.h"

/* Numbers for /metrics. */
typedef struct {
    uint64_t frames, bytes, events, duplicates, refused, slowed, not_stored, hellos, hello_refused,
        heartbeats, bad_frames;
    uint64_t artifacts, artifact_bytes, artifacts_removed;
    uint64_t limited[MRD_LIMIT_KINDS];
    /* checks of clocks, and how many contradicted a bound */
    uint64_t clock_frames, clock_frame_violations, clock_held_out, clock_held_out_violations,
        clock_absolute, clock_absolute_violations, clock_collectives, clock_collective_violations;
} mrd_core_stats;

/* A frame that is being made durable, or a repetition of one that is. */
typedef struct {
    uint64_t ticket,
        first; /* first: the ticket of the frame that this one repeats; its own: none */
    mrd_session *session;
    mrd_part *part;
    mrd_node *node;
    mrd_frame frame;
} mrd_pending;

/* A question to all nodes. */
typedef struct {
    uint64_t id; /* 0: free */
    uint64_t session, trigger;
    Mrd__ControlType type;
    unsigned revision;        /* of a change */
    unsigned asked, answered; /* nodes */
    mrd_local_ns began, last, deadline;
    mrd_map answered_by; /* so that nobody counts twice */
} mrd_survey;

/* A command that is answered when a session's manifest has this version. */
typedef struct {
    uint64_t ticket; /* 0: free */
    uint64_t session, version, value;
    mrd_err err; /* of another session of the same command */
    char text[MRD_TEXT_MAX];
} mrd_waiting_command;

struct mrd_core {
    mrd_core_limits limits;
    mrd_timescale timescale;
    mrd_core_time now, opened;
    uint64_t random;
    unsigned proof_epoch; /* of tokens and authorities: hellos of before count no more */
    mrd_nodes nodes;
    mrd_session **sessions;
    size_t n_sessions;
    mrd_stored_files files;
    unsigned unreadable; /* sessions that may list files nobody knows of */
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
    bool disk_full, manifest_failed; /* the latter: the last one, so that it is logged once */
    /* By a write, as also a quota and a lack of inodes do, of which the free bytes say nothing: it has
     * room again when a frame was stored, or nobody sent one for a while. */
    bool disk_refused, disk_try; /* the latter: one frame may try */
    mrd_local_ns disk_try_since;
    uint64_t disk_trial; /* its ticket */
    char disk_message[MRD_TEXT_MAX];
    bool store_gone; /* its folder was removed or replaced */
    char gone_message[MRD_WHY_MAX];
    int64_t clock_spare; /* bytes of clock data that may still be stored while it is full */
    mrd_dur_ns save_dur; /* how long the last manifest took to be on disk */
    mrd_local_ns next_save, next_retain;
};

/* ---- For the files of the core ---- */

void mrd_core_enter(mrd_core *c, mrd_core_time now); /* first in every input */
mrd_sess_ns mrd_core_session_now(const mrd_core *c);
uint64_t mrd_core_random(mrd_core *c);
mrd_session *mrd_core_session(const mrd_core *c, uint64_t id); /* not a deleted one; NULL: none */
mrd_session *mrd_core_any_session(const mrd_core *c, uint64_t id); /* a deleted one, too */
mrd_err mrd_core_add_session(mrd_core *c, mrd_session *s);         /* takes it on MRD_OK */
/* A part for the node; NULL without memory. */
mrd_part *mrd_core_add_part(mrd_core *c, mrd_session *s, const mrd_node *n);
bool mrd_core_is_alive(const mrd_core *c, const mrd_node *n);
bool mrd_core_is_expected(const mrd_core *c, const mrd_node *n);
void mrd_core_drop_node(mrd_core *c, mrd_node *n);
/* Why nothing is stored now, NULL: it is. */
const char *mrd_core_store_message(const mrd_core *c);
/* ... as an error: FULL, or IO when its folder is gone. */
mrd_err mrd_core_store_check(const mrd_core *c, mrd_why *why);
/* The store is full, or has room again: open sessions note when. */
void mrd_core_disk_is(mrd_core *c, bool full);
void mrd_core_disk_has_room(mrd_core *c); /* ... and says so */

void mrd_core_name_session(mrd_core *c, mrd_session *s); /* a new id, the time, the timeline */

/* save.c: manifests and who waits for them */
void mrd_core_save(mrd_core *c, mrd_session *s); /* now, or when the one under way is written */
void mrd_core_save_round(mrd_core *c);           /* what changed, about once a second */
/* Answers the command when the session was written as it is now. Errors: LIMIT. */
mrd_err mrd_core_await(mrd_core *c, uint64_t ticket, const mrd_session *s, uint64_t value);
/* Something of a command failed whose answer waits: it says so. */
void mrd_core_await_failed(mrd_core *c, uint64_t ticket, const mrd_why *why);
/* An answer to a command; why may be NULL. */
void mrd_core_answer(mrd_core *c, uint64_t ticket, const mrd_why *why, uint64_t value);
/* To those who wait for this version of the session, or an earlier one. */
void mrd_core_answer_waiting(mrd_core *c, uint64_t session, uint64_t version,
                             const mrd_why *failed);
void mrd_core_answer_gone(mrd_core *c, uint64_t session); /* it was deleted meanwhile */

/* survey.c. Returns its id, 0: as many as there may be. */
uint64_t mrd_core_ask(mrd_core *c, const mrd_session *s, Mrd__ControlType type,
                      const mrd_trigger *t, mrd_dur_ns timeout, mrd_dur_ns give_up);
mrd_survey *mrd_core_survey(mrd_core *c, uint64_t id); /* NULL: it is over */
void mrd_core_survey_end(mrd_core *c, mrd_survey *v);
void mrd_core_surveys_tick(mrd_core *c);

/* directives.c: what the node does not know of its sessions. hb: NULL at hello. */
void mrd_core_directives(mrd_core *c, const mrd_node *n, const Mrd__Heartbeat *hb, mrd_effect *to);

/* Takes what was found damaged, and says so in the log. */
void mrd_core_part_damaged(mrd_core *c, mrd_session *s, mrd_part *p, const mrd_damage *found,
                           bool whole);

/* steps.c: moves the session on as far as it goes now. */
void mrd_session_run(mrd_core *c, mrd_session *s);
void mrd_session_join(mrd_core *c, mrd_session *s);     /* the job it waits for has begun */
void mrd_core_merge_again(mrd_core *c, mrd_session *s); /* of one that was complete */

/* triggers.c */
mrd_err mrd_session_add_trigger(mrd_session *s, const mrd_trigger *t, mrd_why *why);
/* Makes the session's flight recorder, if it is one that the node records, keep a window soon. */
void mrd_session_report(mrd_core *c, mrd_session *s, const mrd_node *n, const char *reason);
void mrd_session_gather_reports(mrd_core *c, mrd_session *s);
void mrd_session_send_triggers(mrd_core *c, mrd_session *s); /* those that are on disk */
void mrd_session_send_change(mrd_core *c, mrd_session *s);   /* the last one, when it is on disk */

/* retention.c */
void mrd_core_retire(mrd_core *c, mrd_session *s); /* deleted; removed when nobody reads it */
void mrd_core_retain(mrd_core *c);                 /* by age and size */
void mrd_core_remove_deleted(mrd_core *c);
uint64_t mrd_core_store_bytes(const mrd_core *c); /* of all sessions, each artifact once */

#endif
