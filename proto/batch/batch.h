/*
 * proto/batch/batch.h - encodes events of one process and one interval as a compressed columnar frame,
 * and decodes such frames.
 *
 * A batch is self-contained. It has its own dictionaries of strings, tracks and forms, the identity
 * of the process, and the clock of its times. Times are unconverted nanoseconds of the node's
 * clock. docs/reference/wire.md section 5 is the specification.
 *
 * Writing: one mrd_batch per process and clock collects events, and mrd_batch_encode turns it into
 * a frame. Reading: mrd_batch_open gives the events of a frame one by one in mrd_event_order, with
 * tracks and strings of the reader's catalog. Limits: proto/frame.h and MRD_BATCH_* below. The
 * reader checks everything in a frame before it uses it or allocates memory for it. Threads: an
 * object belongs to one thread at a time.
 */
#ifndef MRD_PROTO_BATCH_BATCH_H
#define MRD_PROTO_BATCH_BATCH_H

#include "proto/batch/codec.h"
#include "trace/model/catalog.h"
#include "trace/model/source.h"

#define MRD_BATCH_STRINGS 65536u /* maximum number of dictionary entries */
#define MRD_BATCH_TRACKS  65536u
#define MRD_BATCH_FORMS   65536u
#define MRD_BATCH_ARGS    4096u        /* arguments of one event */
#define MRD_BATCH_BYTES   (768u << 10) /* a batch is FULL at about this encoded size */
/* maximum bytes of text in one event; longer events are refused */
#define MRD_BATCH_EVENT_MAX (1u << 20)

/* ---- Writing ---- */

typedef struct mrd_batch mrd_batch;

/* Simultaneous readings of two clocks: at RAW time `raw` the other clock showed other_ns. Both
 * readings lie within bracket_ns. */
typedef struct {
    mrd_local_ns raw;
    mrd_ev_ns other;
    mrd_dur_ns bracket_ns;
} mrd_cross_read;

/*
 * Creates a batch for events of `process`. `cat` is borrowed, and may grow while the batch exists.
 * Events refer to its tracks and strings. `clock` is a Mrd__ClockKind, 0 for CLOCK_MONOTONIC_RAW.
 * max_events is 1 .. MRD_BATCH_EVENTS, or 0 for MRD_BATCH_USUAL. NULL if out of memory.
 */
mrd_batch *mrd_batch_new(const mrd_catalog *cat, mrd_proc_id process, unsigned clock,
                         uint32_t max_events);
void mrd_batch_free(mrd_batch *batch);

/*
 * Copies an event with its arguments and flows. Events may come in any order, because encoding
 * sorts them. ev->seq is ignored: events that compare equal keep the order of their pushes.
 * ev->bound_ns is the maximum error of a device's clock. Errors: FULL (encode, then push again),
 * INVALID (kind, negative duration, a track of another process, a double that is not finite),
 * LIMIT, NOMEM. LIMIT means that the event has too many arguments or too much text and can never be
 * sent. On an error the batch is unchanged.
 */
mrd_err mrd_batch_push(mrd_batch *batch, const mrd_event *ev);
/* Adds a reading of both clocks, for batches with a clock other than RAW. The batch keeps the
 * newest 1024. */
mrd_err mrd_batch_cross(mrd_batch *batch, const mrd_cross_read *read);

uint32_t mrd_batch_events(const mrd_batch *batch);
/* Stores the start of the first event and the latest end. Returns false if the batch is empty. */
bool mrd_batch_range(const mrd_batch *batch, int64_t *ret_first_ns, int64_t *ret_last_ns);
/* Makes the batch end at last_ns or later, so that readers know until when its unfinished spans
 * were open. */
void mrd_batch_reach(mrd_batch *batch, int64_t last_ns);

/*
 * Appends all pushed events as a frame to `to` and empties the batch. The caller sets agent, epoch,
 * session and seq in *ids; on success it holds the complete header. Batches with fewer than
 * MRD_BATCH_COMPRESS_MIN events are never compressed. Errors: EMPTY, NOMEM, LIMIT. On an error the
 * batch is unchanged.
 */
#define MRD_BATCH_COMPRESS_MIN 256
mrd_err mrd_batch_encode(mrd_batch *batch, mrd_codec *codec, mrd_codec_id codec_id, mrd_frame *ids,
                         mrd_buf *to, mrd_why *why);
/* Removes all events, and frees memory above the usual amount. */
void mrd_batch_reset(mrd_batch *batch);

/* ---- Reading ---- */

typedef struct {
    mrd_proc_id process;
    unsigned clock; /* Mrd__ClockKind */
    uint32_t events;
    bool foreign;                /* the head names another node than mrd_batch_reader_of did */
    const mrd_cross_read *cross; /* owned by the reader, until the next open */
    size_t n_cross;
} mrd_batch_info;

typedef struct mrd_batch_reader mrd_batch_reader;

/* Creates a reader without a batch. `codec` is borrowed. NULL if out of memory. */
mrd_batch_reader *mrd_batch_reader_new(mrd_codec *codec);
void mrd_batch_reader_free(mrd_batch_reader *reader);

/*
 * Sets the node of all further batches (borrowed), because the receiver knows the sender better
 * than the batch's head does. Processes are then attributed to this node whatever the head says.
 * mrd_batch_info.foreign reports a difference. NULL means that the head decides.
 */
void mrd_batch_reader_of(mrd_batch_reader *reader, const char *instance_id);
/*
 * Reads only the head of a checked frame, and adds its process, tracks and strings to `cat`. `body`
 * may be cut after frame->head_len bytes. Errors: TRUNCATED, CORRUPT, LIMIT, TYPE, NOMEM. After an
 * error `cat` may hold a part of them.
 */
mrd_err mrd_batch_scan(mrd_batch_reader *reader, const mrd_frame *frame, mrd_bytes body,
                       mrd_catalog *cat, mrd_batch_info *ret_info, mrd_why *why);
/* Opens a batch for mrd_batch_next. The body is decompressed, so it need not outlive the call. The
 * length of every column is checked. Errors: as mrd_batch_scan. */
mrd_err mrd_batch_open(mrd_batch_reader *reader, const mrd_frame *frame, mrd_bytes body,
                       mrd_catalog *cat, mrd_batch_info *ret_info, mrd_why *why);
/*
 * Returns the next event, borrowed until the next call. ts_ns is in the batch's clock. seq is
 * frame.seq << 16 | position, which is unique within (agent, epoch, session). Events with equal
 * ts_ns come in mrd_event_order of the reader's catalog. Returns BAD if an id is not in its
 * dictionary. The rest of the batch is then unreadable.
 */
mrd_step mrd_batch_next(mrd_batch_reader *reader, const mrd_event **ret_event, mrd_why *why);
/*
 * As mrd_batch_next, for many events at once. mrd_batch_peek returns the next *ret_n (at least 1)
 * decoded events. The caller may change them, and they are borrowed until the next call.
 * mrd_batch_take consumes the first n of them.
 */
mrd_step mrd_batch_peek(mrd_batch_reader *reader, mrd_event **ret_events, uint32_t *ret_n,
                        mrd_why *why);
void mrd_batch_take(mrd_batch_reader *reader, uint32_t n);

#endif
