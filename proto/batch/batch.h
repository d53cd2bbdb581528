/*
 * proto/batch/batch.h - encodes events of one process and one interval as a compressed columnar
 * frame, and decodes such frames.
 *
 * A batch is self-contained. It has its own dictionaries of strings, tracks and forms, the identity
 * of the process, and the clock of its times. A form is the set of properties that many events
 * share, for example kind and argument keys. Times are nanoseconds of the node's clock and are not
 * converted. docs/reference/wire.md section 5 is the specification.
 *
 * Writing   Create one mrd_batch per process and clock. mrd_batch_push adds events, and
 *           mrd_batch_encode writes them as a frame.
 * Reading   mrd_batch_open opens a frame, and mrd_batch_next returns its events one by one in
 *           mrd_event_order. Their tracks and strings are ids of the reader's catalog.
 *
 * Limits: proto/frame.h and MRD_BATCH_* below. The reader checks everything in a frame before it
 * uses it or allocates memory for it. Only one thread at a time may use an object.
 */
#ifndef MRD_PROTO_BATCH_BATCH_H
#define MRD_PROTO_BATCH_BATCH_H

#include "proto/batch/codec.h"
#include "trace/model/catalog.h"
#include "trace/model/source.h"

/* maximum number of entries in each dictionary of a batch: strings, tracks and forms */
#define MRD_BATCH_STRINGS 65536u
#define MRD_BATCH_TRACKS  65536u
#define MRD_BATCH_FORMS   65536u
#define MRD_BATCH_ARGS    4096u        /* maximum number of arguments of one event */
#define MRD_BATCH_BYTES   (768u << 10) /* encoded size at about which mrd_batch_push returns FULL */
/* maximum bytes of text in one event; mrd_batch_push refuses larger events */
#define MRD_BATCH_EVENT_MAX (1u << 20)

/* ---- Writing ---- */

typedef struct mrd_batch mrd_batch;

/* Simultaneous readings of two clocks: when CLOCK_MONOTONIC_RAW showed `raw`, the other clock
 * showed `other`. Both clocks were read within bracket_ns. */
typedef struct {
    mrd_local_ns raw;
    mrd_ev_ns other;
    mrd_dur_ns bracket_ns;
} mrd_cross_read;

/*
 * Creates a batch for events of `process`. `cat` is the catalog with the tracks and strings of the
 * events. It is borrowed, and may grow while the batch exists. `clock` is a Mrd__ClockKind, 0 for
 * CLOCK_MONOTONIC_RAW. max_events is 1 .. MRD_BATCH_EVENTS, or 0 for MRD_BATCH_USUAL. Returns NULL
 * if out of memory.
 */
mrd_batch *mrd_batch_new(const mrd_catalog *cat, mrd_proc_id process, unsigned clock,
                         uint32_t max_events);
void mrd_batch_free(mrd_batch *batch);

/*
 * Copies an event with its arguments and flows into the batch. Events may come in any order,
 * because encoding sorts them. ev->seq is ignored: events that compare equal keep the order in
 * which they were pushed. ev->bound_ns is the maximum error of a device's clock.
 *
 * FULL      the batch has no space; encode it, then push the event again
 * INVALID   kind, negative duration, a track of another process, or a double that is not finite
 * LIMIT     the event has too many arguments or too much text, and can never be sent
 * NOMEM     out of memory
 *
 * After an error the batch is unchanged.
 */
mrd_err mrd_batch_push(mrd_batch *batch, const mrd_event *ev);
/* Adds a simultaneous reading of two clocks to a batch whose times are not of CLOCK_MONOTONIC_RAW.
 * The batch keeps the newest 1024 readings. */
mrd_err mrd_batch_cross(mrd_batch *batch, const mrd_cross_read *read);

uint32_t mrd_batch_events(const mrd_batch *batch);
/* Stores the start of the batch's first event and the latest end of an event. Returns false if the
 * batch is empty. */
bool mrd_batch_range(const mrd_batch *batch, int64_t *ret_first_ns, int64_t *ret_last_ns);
/* Extends the batch to last_ns, unless it already ends later. Readers take the end of a batch as
 * the time until which unfinished spans were open. */
void mrd_batch_reach(mrd_batch *batch, int64_t last_ns);

/*
 * Appends all pushed events as a frame to `to` and empties the batch. The caller sets agent, epoch,
 * session and seq in *ids. On success *ids is the complete header. Batches with fewer than
 * MRD_BATCH_COMPRESS_MIN events are never compressed. Errors: EMPTY, NOMEM, LIMIT. On an error the
 * batch is unchanged.
 */
#define MRD_BATCH_COMPRESS_MIN 256
mrd_err mrd_batch_encode(mrd_batch *batch, mrd_codec *codec, mrd_codec_id codec_id, mrd_frame *ids,
                         mrd_buf *to, mrd_why *why);
/* Removes all events, and frees memory beyond what a batch usually needs. */
void mrd_batch_reset(mrd_batch *batch);

/* ---- Reading ---- */

typedef struct {
    mrd_proc_id process;
    unsigned clock; /* clock of the events' times, a Mrd__ClockKind */
    uint32_t events;
    /* true if the batch names another node than the caller has set with mrd_batch_reader_of */
    bool foreign;
    /* simultaneous readings of two clocks; owned by the reader, valid until it opens another
     * batch */
    const mrd_cross_read *cross;
    size_t n_cross;
} mrd_batch_info;

typedef struct mrd_batch_reader mrd_batch_reader;

/* Creates a reader without a batch. `codec` is borrowed. NULL if out of memory. */
mrd_batch_reader *mrd_batch_reader_new(mrd_codec *codec);
void mrd_batch_reader_free(mrd_batch_reader *reader);

/*
 * Sets the node to which all processes of further batches are attributed. `instance_id` is
 * borrowed. NULL means the node that the head of each batch names. A receiver should set the node,
 * because the connection identifies the sender more reliably than the head. mrd_batch_info.foreign
 * reports that a head names another node.
 */
void mrd_batch_reader_of(mrd_batch_reader *reader, const char *instance_id);
/*
 * Reads only the head of a checked frame, and adds its process, tracks and strings to `cat`. `body`
 * may be cut after frame->head_len bytes. Errors: TRUNCATED, CORRUPT, LIMIT, TYPE, NOMEM. After an
 * error `cat` may hold some of the head's process, tracks and strings.
 */
mrd_err mrd_batch_scan(mrd_batch_reader *reader, const mrd_frame *frame, mrd_bytes body,
                       mrd_catalog *cat, mrd_batch_info *ret_info, mrd_why *why);
/* Opens a batch for mrd_batch_next, and checks the length of every column. `body` is
 * decompressed into memory of the reader, so the caller may free it after the call. Errors: as
 * mrd_batch_scan. */
mrd_err mrd_batch_open(mrd_batch_reader *reader, const mrd_frame *frame, mrd_bytes body,
                       mrd_catalog *cat, mrd_batch_info *ret_info, mrd_why *why);
/*
 * Returns the next event, which is valid until the next call. ts_ns is a time of the batch's clock.
 * seq is frame.seq << 16 | position, which is unique within (agent, epoch, session). Events with
 * equal ts_ns come in mrd_event_order of the reader's catalog. Returns BAD if an event refers to an
 * entry that a dictionary does not have. The rest of the batch is then unreadable.
 */
mrd_step mrd_batch_next(mrd_batch_reader *reader, const mrd_event **ret_event, mrd_why *why);
/*
 * Reads many events at once instead of mrd_batch_next. mrd_batch_peek returns an array of the next
 * *ret_n (at least 1) decoded events, which the caller may change. The array is valid until the
 * next call. mrd_batch_take then consumes the first n of these events.
 */
mrd_step mrd_batch_peek(mrd_batch_reader *reader, mrd_event **ret_events, uint32_t *ret_n,
                        mrd_why *why);
void mrd_batch_take(mrd_batch_reader *reader, uint32_t n);

#endif
