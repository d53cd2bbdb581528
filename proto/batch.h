/*
 * proto/batch.h - events of one process and one interval as one compressed columnar frame, and
 * back.
 *
 * A batch is self-contained: own dictionaries of strings, tracks and forms, the identity of the
 * process, the clock its times are in. Times are raw local nanoseconds. docs/wire.md section 5 is
 * the specification.
 *
 * Writing: one mrd_batch per process (and clock) collects events and becomes a frame by
 * mrd_batch_encode. Reading: mrd_batch_open gives the events of a frame one by one, in
 * mrd_event_order, with tracks and strings of the reader's catalog.
 * Limits: proto/frame.h; MRD_BATCH_* below. Everything in a received frame is checked before it is
 * used and before memory is taken for it.
 * Threads: every object belongs to one thread at a time.
 */
#ifndef MRD_PROTO_BATCH_H
#define MRD_PROTO_BATCH_H

#include "proto/codec.h"
#include "trace/model/catalog.h"
#include "trace/model/source.h"

#define MRD_BATCH_STRINGS   65536u /* dictionary entries of a batch */
#define MRD_BATCH_TRACKS    65536u
#define MRD_BATCH_FORMS     65536u
#define MRD_BATCH_ARGS      4096u        /* arguments of one event */
#define MRD_BATCH_BYTES     (768u << 10) /* a batch is FULL at about this many encoded bytes */
#define MRD_BATCH_EVENT_MAX (1u << 20)   /* text bytes of one event; longer is refused */

/* ---- Writing ---- */

typedef struct mrd_batch mrd_batch;

/* At RAW time raw_ns the other clock read other_ns; both inside bracket_ns. */
typedef struct {
    mrd_local_ns raw;
    mrd_ev_ns other;
    mrd_dur_ns bracket_ns;
} mrd_cross_read;

/*
 * A batch of events of `process`. cat is borrowed and may grow while the batch exists; events refer
 * to its tracks and strings. clock: a Mrd__ClockKind (0: CLOCK_MONOTONIC_RAW).
 * max_events: 1 .. MRD_BATCH_EVENTS, 0: MRD_BATCH_USUAL. NULL without memory.
 */
mrd_batch *mrd_batch_new(const mrd_catalog *cat, mrd_proc_id process, unsigned clock,
                         uint32_t max_events);
void mrd_batch_free(mrd_batch *b);

/*
 * Copies an event with args and flows. Any order: encoding sorts. ev->seq is not used: events with
 * equal order keep the order of their pushes. bound_ns is kept when it is neither 0 nor unknown.
 * Errors: FULL (encode first, then push again), INVALID (kind, negative duration, a track of
 * another process, non-finite double), LIMIT (more args or text than an event may have; the event
 * can never be sent), NOMEM. On every error the batch is as before.
 */
mrd_err mrd_batch_push(mrd_batch *b, const mrd_event *ev);
/* A reading of both clocks, for batches whose clock is not RAW. At most 1024 are kept, the newest.
 */
mrd_err mrd_batch_cross(mrd_batch *b, const mrd_cross_read *read);

uint32_t mrd_batch_events(const mrd_batch *b);
/* Start of the first and latest end; false when empty. */
bool mrd_batch_range(const mrd_batch *b, int64_t *ret_first_ns, int64_t *ret_last_ns);
/* The batch reaches to that time at least: an unfinished span in it was open until then. */
void mrd_batch_reach(mrd_batch *b, int64_t last_ns);

/*
 * Appends the frame of everything pushed so far to `to` and empties the batch. ids supplies agent,
 * epoch, session and seq; on success *ids holds the whole header as written. Fewer than
 * MRD_BATCH_COMPRESS_MIN events are not compressed whatever `codec_id` says.
 * Errors: EMPTY, NOMEM, LIMIT. After an error the batch is as before.
 */
#define MRD_BATCH_COMPRESS_MIN 256
mrd_err mrd_batch_encode(mrd_batch *b, mrd_codec *codec, mrd_codec_id codec_id, mrd_frame *ids,
                         mrd_buf *to, mrd_why *why);
/* Forgets what was pushed, gives back memory beyond the usual. */
void mrd_batch_reset(mrd_batch *b);

/* ---- Reading ---- */

typedef struct {
    mrd_proc_id process;
    unsigned clock; /* Mrd__ClockKind */
    uint32_t events;
    bool foreign;                /* its head names another node than mrd_batch_reader_of */
    const mrd_cross_read *cross; /* owned by the reader, until the next open */
    size_t n_cross;
} mrd_batch_info;

typedef struct mrd_batch_reader mrd_batch_reader;

/* Holds no batch yet. codec is borrowed. NULL without memory. */
mrd_batch_reader *mrd_batch_reader_new(mrd_codec *codec);
void mrd_batch_reader_free(mrd_batch_reader *r);

/*
 * Whose batches the reader opens from now on (borrowed; NULL: as each head says): a head is bytes of
 * the sender, and where it came from is known better. Processes are then of this node whatever the
 * head claims; mrd_batch_info.foreign says when it claimed another.
 */
void mrd_batch_reader_of(mrd_batch_reader *r, const char *instance_id);
/*
 * Reads only the head of a checked frame: process, tracks and strings go into cat. body may be cut
 * after frame->head_len bytes. Errors: TRUNCATED, CORRUPT, LIMIT, TYPE, NOMEM; cat may then hold a
 * part.
 */
mrd_err mrd_batch_scan(mrd_batch_reader *r, const mrd_frame *frame, mrd_bytes body,
                       mrd_catalog *cat, mrd_batch_info *ret_info, mrd_why *why);
/* Opens a batch for mrd_batch_next; the body is decompressed, so it need not outlive the call.
 * Every column is checked for length. Errors: as scan. */
mrd_err mrd_batch_open(mrd_batch_reader *r, const mrd_frame *frame, mrd_bytes body,
                       mrd_catalog *cat, mrd_batch_info *ret_info, mrd_why *why);
/*
 * The next event, borrowed until the next call. ts_ns is in the batch's clock; seq is
 * frame.seq << 16 | position, unique inside (agent, epoch, session). Events with equal ts_ns come
 * in mrd_event_order of the reader's catalog. BAD: an id points outside its dictionary; the rest of
 * the batch cannot be read.
 */
mrd_step mrd_batch_next(mrd_batch_reader *r, const mrd_event **ret_event, mrd_why *why);
/*
 * The same in two steps, for many events at once: the *ret_n (at least 1) next ones that are
 * decoded, which the caller may change, borrowed until the next call; the first n of them are given
 * by take.
 */
mrd_step mrd_batch_peek(mrd_batch_reader *r, mrd_event **ret_events, uint32_t *ret_n, mrd_why *why);
void mrd_batch_take(mrd_batch_reader *r, uint32_t n);

#endif
