/*
 * aggregator/core/effects.h - what the core wants done. Every input may leave some; the owner takes
 * them in order and carries them out before the next input, because they borrow from the core.
 *
 * What an effect starts ends in an input: an append in mrd_core_stored, a manifest in
 * mrd_core_saved, and so on. Until then the core answers nobody who waits for it.
 */
#ifndef MRD_AGGREGATOR_CORE_EFFECTS_H
#define MRD_AGGREGATOR_CORE_EFFECTS_H

#include "aggregator/core/session.h"
#include "base/log.h"

typedef enum {
    /* Answers to a request of a node, by its ticket. */
    MRD_DO_ACK,       /* status, err, text, retry_ms */
    MRD_DO_HEARTBEAT, /* an ack with directives and estimate; node */
    MRD_DO_WELCOME,   /* node, directives: it gets a new probe key */
    MRD_DO_REFUSE,    /* err, text, final */
    MRD_DO_JOB_REPLY, /* err, text, retry_ms, directives: at most one */
    MRD_DO_DROP,      /* no answer: the node's transport repeats the request */
    /* Work that ends in an input. */
    MRD_DO_APPEND,     /* ticket, session, part, node, frame: into the journal, durable; ends in
                          mrd_core_stored */
    MRD_DO_ASK,        /* survey, type, trigger: ask all nodes about the session; every answer is a
                          mrd_core_answered */
    MRD_DO_ASK_END,    /* survey: nobody waits for more answers */
    MRD_DO_SAVE,       /* session, version: its manifest; ends in mrd_core_saved */
    MRD_DO_SAVE_NODES, /* the registry of nodes; ends in mrd_core_nodes_saved */
    MRD_DO_CLOSE,      /* session: its journals; ends in mrd_core_closed */
    MRD_DO_MERGE,      /* session: merge it; ends in mrd_core_merged */
    MRD_DO_CANCEL,     /* session: stop that merge, or conversions */
    MRD_DO_CONVERT,    /* session, value: which of its conversions; ends in
                          mrd_core_conversion_ended */
    MRD_DO_MEASURE,    /* session: its folder; ends in mrd_core_measured */
    MRD_DO_EXPORT,     /* session: its folder to shared storage; ends in mrd_core_exported */
    MRD_DO_REMOVE,     /* session: its folder; ends in mrd_core_removed */
    /* For good. */
    MRD_DO_ANSWER, /* the command of this ticket: err, text, value */
    MRD_DO_FORGET, /* value: key of a node that is gone */
    MRD_DO_SWEEP,  /* files that nobody lists may be there */
    MRD_DO_LOG,    /* level, id, text */
    MRD_DO_KINDS
} mrd_effect_kind;

/* What a node should know about a session of its own. */
typedef struct {
    Mrd__ControlType type;
    uint64_t id;                /* of the session */
    const mrd_session *session; /* NULL: cancel one that is unknown */
    size_t trigger; /* of a TRIGGER: its place in session->triggers, which may move, plus one */
} mrd_directive;

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
    mrd_dur_ns timeout; /* of a survey, and for getting ready the time until an armed node */
    mrd_dur_ns give_up; /* ... forgets the session by itself */
    mrd_directive directives[MRD_DIRECTIVES_MAX]; /* the first one is the question of a survey */
    unsigned n_directives;
    bool has_estimate;
    Mrd__ClockEstimate estimate;
    char estimate_state[24];
    mrd_local_ns received; /* of a heartbeat */
    mrd_log_level level;
    const char *id; /* of a log line; static */
    char text[MRD_WHY_MAX];
} mrd_effect;

/* A queue that is empty between inputs. */
typedef struct {
    mrd_effect *v; /* MRD_EFFECTS_MAX */
    unsigned first, n;
} mrd_effects;

/* The next effect, zeroed but for its kind. There must be room. */
mrd_effect *mrd_effects_add(mrd_effects *e, mrd_effect_kind kind);
/* What one thing may leave: whoever does one after the other makes sure of so much before each. */
#define MRD_EFFECTS_ROOM 32
/* Room for so many more. */
bool mrd_effects_room(const mrd_effects *e, unsigned n);
void mrd_effects_log(mrd_effects *e, mrd_log_level level, const char *id, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
