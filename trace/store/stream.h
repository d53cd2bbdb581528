/*
 * trace/store/stream.h - a store of event streams: events are pushed in any order and read back
 * sorted, in bounded memory.
 *
 * A stream has the events of one input (or one recorder) for one profile. Events are read back in
 * mrd_event_order. The store keeps at most `memory` bytes in memory and writes sorted runs to an
 * unlinked temporary file in `dir`. Input that is nearly sorted needs one run. Input that is
 * sorted, or consists of sorted parts, is written without sorting.
 *
 * Flow points are bound when events are read. Each one is attached to the innermost span or instant
 * of its track that contains its time, and returned in that event's `flows`. An event that begins
 * exactly at this time is preferred. A start at the very end of a span belongs to that span, unless
 * an event that was pushed earlier begins there. A point with MRD_EV_NEXT belongs to the first span
 * that begins at its time or later. A point without such an event, or beyond the 255 points of an
 * event, is returned as an event of kind MRD_FLOW.
 *
 * Memory: `memory` for the store, including sorting. In addition a block of at most 64 KiB per
 * stream if there are very many, and at most 1 MiB per open reader. Disk: 40 bytes per event, 16
 * per argument, and the text. Twice this is used for a short time if a stream has more than 64
 * sorted runs. Threads: a store belongs to one thread.
 */
#ifndef MRD_TRACE_STREAM_H
#define MRD_TRACE_STREAM_H

#include "trace/model/event.h"
#include "trace/model/source.h"

typedef struct mrd_store mrd_store;
typedef struct mrd_stream mrd_stream;

/* Creates a store. `memory` is for the events of all streams, in bytes, at least 1 MiB. If `dir` is
 * NULL, $TMPDIR or /tmp is used. */
mrd_store *mrd_store_new(size_t memory, const char *dir); /* returns NULL if out of memory */
/* Makes the store keep its events if the disk is full or fails. Used for events that cannot be read
 * again from their source. The store then keeps the events that it has in memory and on disk, and
 * accepts no more. mrd_stream_push returns FULL, and the streams do not fail. Flow points that
 * cannot be bound are then returned as events. Must be called before the first push. */
void mrd_store_keep(mrd_store *store);
/* Returns why the store accepts no more events; NULL if it accepts events. Borrowed. */
const mrd_why *mrd_store_full(const mrd_store *store);
/* Returns true if some mrd_flow.ends of arrows with several ends may be 0. The store then had too
 * many arrows to count the ends of each. */
bool mrd_store_lacks_ends(const mrd_store *store);
void mrd_store_free(mrd_store *store); /* frees the store and its streams */
/* Adds a stream. `profile` is 0 for the system profile, else the device profile's number. `label`
 * is used in errors and is copied. Returns NULL if out of memory. */
mrd_stream *mrd_store_stream(mrd_store *store, uint32_t profile, const char *label);
size_t mrd_store_streams(const mrd_store *store);
mrd_stream *mrd_store_at(const mrd_store *store, size_t i);

/* Copies the event with its args and flows. Sets seq. Errors: NOMEM, IO, FULL (disk), LIMIT (more
 * than 256 MiB of arguments), STATE (finished). The stream keeps its first error; a failed stream
 * cannot be read. */
mrd_err mrd_stream_push(mrd_stream *stream, const mrd_event *ev);
/* Returns why push failed; NULL if no push failed. Borrowed. */
const mrd_why *mrd_stream_failure(const mrd_stream *stream);
/* Adds delta_ns to the times of all pushed events (saturating), without changing their order. Used
 * if an input states only at its end when its times begin. */
void mrd_stream_shift(mrd_stream *stream, mrd_dur_ns delta_ns);
/* Ends the pushing: sorts the remaining records and binds flow points. Called once, before reading.
 * Errors: the first error of push with its message, and IO if the file cannot be read. */
mrd_err mrd_stream_finish(mrd_stream *stream, mrd_why *why);
uint32_t mrd_stream_profile(const mrd_stream *stream);
const char *mrd_stream_label(const mrd_stream *stream);
uint64_t mrd_stream_count(const mrd_stream *stream); /* number of events that were pushed */
/*
 * Sets the range of times that are trusted. Readers return events that begin before `first` or end
 * after `end` with MRD_EV_MISTIMED. Such events do not count in mrd_stream_range. Both are times
 * before mrd_stream_shift. Must be called after the last push.
 */
void mrd_stream_trust(mrd_stream *stream, mrd_ev_ns first, mrd_ev_ns end);
/* Discards all events that were pushed. Must be called before mrd_stream_finish. */
void mrd_stream_clear(mrd_stream *stream);
/* Stores the first and the last time of the pushed events. Returns false if there are none. */
bool mrd_stream_range(const mrd_stream *stream, mrd_ev_ns *ret_first, mrd_ev_ns *ret_last);
/*
 * Opens a reader of the pushed events before mrd_stream_finish. Events come in order, with the
 * times as they were pushed, and without bound flow points. The stream then accepts no more events.
 * No event may be pushed to any stream of the store while the reader is open.
 */
mrd_err mrd_stream_open_pushed(mrd_stream *stream, mrd_source **ret_source, mrd_why *why);
/* Opens a reader of all events, in order. May be called repeatedly. */
mrd_err mrd_stream_open(mrd_stream *stream, mrd_source **ret_source, mrd_why *why);

#endif
