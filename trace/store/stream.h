/*
 * trace/store/stream.h - a store of event streams: push in any order, read back sorted, in bounded
 * memory.
 *
 * A stream is what one input (or one recorder) produced for one profile. Events are pushed in the
 * order the source has them and come back in mrd_event_order. The store keeps what fits into
 * `memory` bytes and spills sorted runs to an unlinked temporary file in `dir`; input that is
 * nearly sorted costs one run. Flow points are bound on the way out: each is attached to the
 * innermost span or instant of its track that contains its time (one that begins exactly there
 * first), and comes back in that event's `flows`. A start at the very end of a span is that span's,
 * unless an event that was pushed before it begins there. A point with MRD_EV_NEXT belongs to the
 * first span that begins at its time or later. A point without such an event, or beyond the 255
 * that one event holds, comes back as an event of kind MRD_FLOW. Input that arrives in order, or as
 * ordered parts one after the other, is never sorted, only written.
 *
 * Memory: `memory` for the store, which includes sorting, one block (at most 64 KiB) more per
 * stream when there are very many, and at most 1 MiB per open reader. Disk: 40 bytes per event, 16
 * more per argument, the text; twice that for a moment when a stream has more than 64 sorted runs.
 * Threads: a store belongs to one thread.
 */
#ifndef MRD_TRACE_STREAM_H
#define MRD_TRACE_STREAM_H

#include "trace/model/event.h"
#include "trace/model/source.h"

typedef struct mrd_store mrd_store;
typedef struct mrd_stream mrd_stream;

/* memory: bytes for events of all streams together, at least 1 MiB; dir: NULL means $TMPDIR or
 * /tmp. */
mrd_store *mrd_store_new(size_t memory, const char *dir); /* NULL without memory */
/* For events that cannot be had again: when its disk is full, or fails, the store keeps what it has, in
 * memory and on disk, and takes no more: push returns FULL, and no stream has failed. Flow points that
 * cannot be bound then come back as events. To be called before the first push. */
void mrd_store_keep(mrd_store *store);
/* Why it takes no more; NULL: it does. Borrowed. */
const mrd_why *mrd_store_full(const mrd_store *store);
void mrd_store_free(mrd_store *store); /* and its streams */
/* profile: 0 the system profile, else the device profile's number. label: for errors, copied. NULL
 * without memory. */
mrd_stream *mrd_store_stream(mrd_store *store, uint32_t profile, const char *label);
size_t mrd_store_streams(const mrd_store *store);
mrd_stream *mrd_store_at(const mrd_store *store, size_t i);

/* Copies the event with its args and flows. Sets seq. Errors: NOMEM, IO, FULL (disk), LIMIT (more
 * than 256 MiB of arguments), STATE (finished), remembered by the stream. What the store still has
 * of a failed stream is gone: it cannot be read. */
mrd_err mrd_stream_push(mrd_stream *stream, const mrd_event *ev);
/* Why push failed; NULL: it did not. Borrowed. */
const mrd_why *mrd_stream_failure(const mrd_stream *stream);
/* Moves the events pushed so far by delta_ns (saturating): for sources whose epoch is known only at
 * their end. The order stays. */
void mrd_stream_shift(mrd_stream *stream, mrd_dur_ns delta_ns);
/* No more pushes; sorts what is open, binds flow points. Call once, before reading. Errors: those
 * of push, with the message; IO when the file cannot be read back. */
mrd_err mrd_stream_finish(mrd_stream *stream, mrd_why *why);
uint32_t mrd_stream_profile(const mrd_stream *stream);
const char *mrd_stream_label(const mrd_stream *stream);
uint64_t mrd_stream_count(const mrd_stream *stream); /* events pushed */
/*
 * Events that begin before `first`, or end after `end`, come back with MRD_EV_MISTIMED, and do not count
 * in the stream's range. Both are times as they were pushed. To be called after the last push.
 */
void mrd_stream_trust(mrd_stream *stream, mrd_ev_ns first, mrd_ev_ns end);
/* Discards all events that were pushed. To be called before mrd_stream_finish. */
void mrd_stream_clear(mrd_stream *stream);
/* First and last time of pushed events; false when there is none. */
bool mrd_stream_range(const mrd_stream *stream, mrd_ev_ns *ret_first, mrd_ev_ns *ret_last);
/* A reader from the start, in order. Several may be open in turn. */
mrd_err mrd_stream_open(mrd_stream *stream, mrd_source **ret_source, mrd_why *why);

#endif
