/*
 * trace/model/event.h - defines the event. One struct is used for all kinds. Attributes that all
 * events of a track share are in its track and process (trace/model/catalog.h).
 *
 * Units      Times are int64 nanoseconds. ts is a time of the clock of the event's stream. After a
 *            source has mapped it (trace/store/merge.h), it is session time. The comment of each
 *            function states which. A duration is never rescaled.
 * Ownership  An event borrows its args and flows. They are valid during the call that passes the
 *            event.
 */
#ifndef MRD_TRACE_EVENT_H
#define MRD_TRACE_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/clock.h"
#include "trace/model/strtab.h"

typedef uint32_t mrd_track_id; /* index into the catalog's tracks */

typedef enum {
    MRD_SPAN = 1,    /* uses ts and dur_ns (MRD_DUR_UNFINISHED if the end is unknown) */
    MRD_INSTANT = 2, /* uses ts */
    /* uses ts and value (double) or ivalue (MRD_EV_INT); the track is a counter track */
    MRD_COUNTER = 3,
    MRD_FLOW = 4, /* a point of an arrow; uses id and flow_dir. mrd_stream binds it to a span. */
    /* Lost events: ivalue is the number of events lost between ts and ts + dur_ns, name is the
     * cause. If the name is "paused", recording was off and ivalue is 0. */
    MRD_LOSS = 5,
} mrd_event_kind;

#define MRD_DUR_UNFINISHED (-1)

enum {
    MRD_EV_INT = 1,       /* counter: ivalue has the exact sample */
    MRD_EV_UNSIGNED = 2,  /* counter: ivalue is the exact sample as a uint64 */
    MRD_EV_NO_START = 4,  /* span: only its end was recorded. ts is the end, dur_ns is 0 */
    MRD_EV_SIMULATED = 8, /* the event comes from simulated hardware */
    MRD_EV_NEXT = 16,     /* flow point: belongs to the next span that begins on its track */
    /* span: stands for two spans on the two physical cores of a logical core (exec_pairs.h) */
    MRD_EV_PAIR = 32,
    /* The time is missing or far from all others (trace/import/import_times.h). Analyses of a time
     * range or of shares of time ignore the event, and so do outputs that draw a time axis. */
    MRD_EV_MISTIMED = 64,
    /* bound_ns includes the error of the device's clock (trace/import/nrt/nrt_clock.h) */
    MRD_EV_DEVICE_BOUND = 128,
};

/* Special values of mrd_event.bound_ns, the largest error of the event's session time in ns. */
#define MRD_BOUND_UNKNOWN UINT32_MAX
#define MRD_BOUND_LOCAL   0u /* the time was never converted between clocks */

#define MRD_FLOW_ENDS_MAX (1u << 16)

typedef enum { MRD_FLOW_START = 1, MRD_FLOW_STEP = 2, MRD_FLOW_END = 3 } mrd_flow_dir;

typedef struct {
    uint64_t id; /* unique in the merged profile, because mrd_flow_id() mixes in the input */
    mrd_flow_dir dir;
    /* For a START: the number of ENDs with this id, at most MRD_FLOW_ENDS_MAX. An arrow leads from
     * the START to each END. The number may be too large by one (stream_fans.c). 0 means that it is
     * 1 or unknown. */
    uint32_t ends;
} mrd_flow;

typedef enum {
    MRD_ARG_INT = 1,    /* value in v.i */
    MRD_ARG_UINT = 2,   /* value in v.u */
    MRD_ARG_DOUBLE = 3, /* value in v.d, finite */
    MRD_ARG_STR = 4,    /* value in v.sid, an interned string */
    /* value in v.text, `len` bytes that are not interned: for values that rarely repeat */
    MRD_ARG_TEXT = 5,
    MRD_ARG_BOOL = 6, /* value in v.u, 0 or 1 */
    MRD_ARG_JSON = 7, /* value in v.text: an object or array, kept as JSON text */
} mrd_arg_type;

#define MRD_ARG_TEXT_MAX ((1u << 24) - 1)

typedef struct {
    mrd_sid key;
    uint32_t type : 4; /* type of the value, an mrd_arg_type */
    uint32_t len : 28; /* length of v.text in bytes, for TEXT and JSON */
    union {
        int64_t i;
        uint64_t u;
        double d;
        mrd_sid sid;
        const char *text;
    } v;
} mrd_arg;

typedef struct mrd_event {
    mrd_ev_ns ts;
    mrd_dur_ns dur_ns; /* duration of a SPAN or LOSS; else 0 */
    /* number in the order of arrival, unique in its stream; orders events with equal times */
    uint64_t seq;
    uint64_t id; /* flow id of a FLOW; for other kinds an id that the source states, or 0 */
    union {
        double value;   /* sample of a COUNTER */
        int64_t ivalue; /* value of a LOSS, or of a COUNTER with MRD_EV_INT */
    };
    mrd_track_id track;
    mrd_sid name;     /* name of the event; 0 only for COUNTER */
    mrd_sid category; /* category of the event; 0 if the source has none */
    uint32_t bound_ns;
    uint8_t kind; /* kind of the event, an mrd_event_kind */
    uint8_t flags;
    uint8_t flow_dir;   /* direction of a FLOW */
    uint8_t flow_count; /* number of arrows at this span or instant */
    uint32_t arg_count;
    const mrd_arg *args;
    const mrd_flow *flows;
} mrd_event;

/* Returns the end of the event. An unfinished span ends at INT64_MAX. */
static inline mrd_ev_ns
mrd_event_end(const mrd_event *ev)
{
    int64_t end;

    if (ev->kind != MRD_SPAN && ev->kind != MRD_LOSS)
        return ev->ts;
    if (ev->dur_ns < 0 || __builtin_add_overflow(ev->ts.ns, ev->dur_ns, &end))
        return (mrd_ev_ns){ INT64_MAX };
    return (mrd_ev_ns){ end };
}

/* Returns true if the argument is an integer. `arg` may be NULL. v.i or v.u has the value. */
static inline bool
mrd_arg_is_int(const mrd_arg *arg)
{
    return arg != NULL && (arg->type == MRD_ARG_INT || arg->type == MRD_ARG_UINT);
}

/* Returns true if the value is a text that is not interned: `len` bytes at v.text. */
static inline bool
mrd_arg_has_text(const mrd_arg *arg)
{
    return arg->type == MRD_ARG_TEXT || arg->type == MRD_ARG_JSON;
}

/* Returns the text of an argument, or "" if `arg` is NULL or no text. */
static inline mrd_str
mrd_arg_text(const mrd_strtab *strings, const mrd_arg *arg)
{
    if (arg != NULL && arg->type == MRD_ARG_STR)
        return mrd_strtab_get(strings, arg->v.sid);
    return arg != NULL && mrd_arg_has_text(arg) ? (mrd_str){ arg->v.text, arg->len } : MRD_STR("");
}

/* Returns the first argument with this key; NULL if there is none or the key is empty. */
static inline const mrd_arg *
mrd_event_arg(const mrd_event *ev, mrd_sid key)
{
    for (uint32_t i = 0; i < ev->arg_count && key != MRD_SID_EMPTY; i++)
        if (ev->args[i].key == key)
            return &ev->args[i];
    return NULL;
}

/* Returns a flow id that is unique in a merged profile. Mixes `id` with the number of the input, so
 * that files with the same ids are never linked. If ids are unique only within a category or name,
 * `scope_hash` is the hash of this text. Never returns 0. */
uint64_t mrd_flow_id(uint64_t input, uint64_t scope_hash, uint64_t id);

/*
 * Returns an id for one end of an arrow with several ends. It is for file formats whose readers
 * draw a chain through all points of one id, so each end needs its own id. n counts down from
 * mrd_flow.ends - 1. The last end, n = 0, has the id of the arrow. Never returns 0.
 */
uint64_t mrd_flow_end_id(uint64_t id, uint32_t n);

/*
 * Compares events by ts, track, kind (flow points, losses, others), end (later ends first), and
 * seq. So parents come before children, and unfinished spans come first. This order is used
 * everywhere, and is total inside a stream. Returns <0, 0, >0.
 */
int mrd_event_order(const mrd_event *a, const mrd_event *b);

#endif
