/*
 * aggregator/core/model/effects.h - effects, which are the core's requests for work. Each input may
 * leave some effects. The owner of the core carries them out in order before the next input,
 * because they contain pointers into the core.
 *
 * The owner reports the end of the work with another input. For example, mrd_core_stored reports
 * the end of an append, and mrd_core_saved the end of writing a manifest. Until then the core does
 * not answer requests that depend on this work.
 */
#ifndef MRD_AGGREGATOR_CORE_MODEL_EFFECTS_H
#define MRD_AGGREGATOR_CORE_MODEL_EFFECTS_H

#include "aggregator/core/model/session.h"
#include "base/conf/log.h"

typedef enum {
    /* Answers to the request of a node that `ticket` identifies. The comment of each kind lists the
     * members of the effect that are set. */
    MRD_DO_ACK,       /* acknowledge a frame: status, err, text, retry_ms */
    MRD_DO_HEARTBEAT, /* answer a heartbeat: an ack with node, directives and estimate */
    MRD_DO_WELCOME,   /* answer a hello: node, directives. The node receives a new probe key */
    MRD_DO_REFUSE,    /* refuse a request: err, text, final */
    MRD_DO_JOB_REPLY, /* answer a job message: err, text, retry_ms, at most one directive */
    MRD_DO_DROP,      /* send no answer, so that the node's transport repeats the request */
    /* Work for the owner of the core, who reports the end of the work with the named function. */
    /* append a frame to a journal and make it durable: ticket, session, part, node, frame. Ends in
     * mrd_core_stored */
    MRD_DO_APPEND,
    /* ask all nodes about a session: survey, type, trigger. Each answer is passed to
     * mrd_core_answered */
    MRD_DO_ASK,
    MRD_DO_ASK_END,    /* end a survey, because no more answers are expected: survey */
    MRD_DO_SAVE,       /* write the manifest of `session` (version). Ends in mrd_core_saved */
    MRD_DO_SAVE_NODES, /* write the registry of nodes. Ends in mrd_core_nodes_saved */
    MRD_DO_CLOSE,      /* close the journals of `session`. Ends in mrd_core_closed */
    MRD_DO_MERGE,      /* merge `session`. Ends in mrd_core_merged */
    MRD_DO_CANCEL,     /* cancel the merge or the conversions of `session` */
    /* run the conversion with the index `value` of `session`. Ends in mrd_core_conversion_ended */
    MRD_DO_CONVERT,
    MRD_DO_MEASURE, /* measure the size of the directory of `session`. Ends in mrd_core_measured */
    /* copy the directory of `session` to shared storage. Ends in mrd_core_exported */
    MRD_DO_EXPORT,
    MRD_DO_REMOVE, /* remove the directory of `session`. Ends in mrd_core_removed */
    /* Work that the core does not wait for. */
    MRD_DO_ANSWER, /* answer the command of this ticket: err, text, value */
    MRD_DO_FORGET, /* forget a removed node; its key is in `value` */
    MRD_DO_SWEEP,  /* remove artifacts that no session lists */
    MRD_DO_LOG,    /* write a log line: level, id, text */
    MRD_DO_KINDS
} mrd_effect_kind;

/* A command for a node about one of its sessions. */
typedef struct {
    Mrd__ControlType type;
    uint64_t id;                /* id of the session */
    const mrd_session *session; /* NULL if the session is unknown; the node then cancels it */
    size_t trigger; /* 1 + the index of the trigger in session->triggers, if `type` is TRIGGER */
} mrd_directive;

#define MRD_STACK_REQUESTS 8 /* maximum number of requests for stacks in one answer */

typedef struct {
    mrd_effect_kind kind;
    uint64_t ticket;
    Mrd__AckStatus status;
    mrd_err err;
    uint32_t retry_ms;
    bool final;
    mrd_session *session;
    mrd_part *part;
    mrd_node *node;
    mrd_frame frame;
    uint64_t survey, version, value;
    mrd_dur_ns timeout; /* timeout of a survey */
    /* a node that is ready cancels the session if no start arrives within this time */
    mrd_dur_ns give_up;
    /* In a survey, the first directive is the question to the nodes. */
    mrd_directive directives[MRD_DIRECTIVES_MAX];
    unsigned n_directives;
    /* true if `directives` may lack open sessions of the node, because it has no room or they are
     * not on disk yet */
    bool unlisted;
    /* requests for stacks of processes, in the answer to a heartbeat */
    Mrd__StackRequest stacks[MRD_STACK_REQUESTS];
    unsigned n_stacks;
    bool has_estimate;
    Mrd__ClockEstimate estimate;
    char estimate_state[24];
    mrd_local_ns received; /* when a heartbeat was received */
    mrd_log_level level;
    const char *id; /* identifies the kind of a log line, such as "AGG-MANIFEST"; a static string */
    char text[MRD_WHY_MAX];
} mrd_effect;

/* A queue of effects. It is empty when an input begins. */
typedef struct {
    mrd_effect *v; /* an array of MRD_EFFECTS_MAX effects */
    unsigned first, n;
} mrd_effects;

/* Adds an effect of this kind and returns it. Its other members are 0 or empty. The caller must
 * have checked with mrd_effects_room that the queue is not full. */
mrd_effect *mrd_effects_add(mrd_effects *effects, mrd_effect_kind kind);
/* The most effects that one step of a session may add. A loop checks for this much room before each
 * step. */
#define MRD_EFFECTS_ROOM 32
/* Returns true if the queue has room for n more effects. */
bool mrd_effects_room(const mrd_effects *effects, unsigned n);
void mrd_effects_log(mrd_effects *effects, mrd_log_level level, const char *id, const char *format,
                     ...) __attribute__((format(printf, 4, 5)));

#endif
