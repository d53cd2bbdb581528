/*
 * trace/store/stream_int.h - declares the parts of the event store. These are blocks of records in
 * memory, chains of sorted records in the temporary file, cursors over both, the binding of flow
 * points and the number of their ends. Private to stream*.c.
 */
#ifndef MRD_TRACE_STREAM_INT_H
#define MRD_TRACE_STREAM_INT_H

#include "base/map.h"
#include "base/num.h"
#include "trace/store/stream.h"
#include "trace/store/stream_rec.h"

typedef struct mrd_block {
    struct mrd_block *next;
    size_t used, size;
    _Alignas(8) uint8_t data[];
} mrd_block;

/* A part of the temporary file that holds whole records. */
typedef struct {
    uint64_t at, len;
} mrd_extent;

/* A chain: parts of the file that form one sorted sequence. */
typedef struct {
    mrd_extent *v;
    size_t n, cap;
    mrd_rec last; /* head of the last record; records that sort after it may be appended */
} mrd_chain;

/* Maximum number of chains that are read simultaneously. If there are more, some are merged
 * first. */
#define MRD_STORE_FAN_IN 64
/* Bytes per write to the temporary file. */
#define MRD_STORE_WRITE ((size_t) 256 << 10)
/* Maximum number of arrows for which a store counts the ends. Some arrows with only one end use an
 * entry, too (stream_fans.c): about 4,000 of a million arrows, and 100,000 of three million. So
 * from 3.3 million arrows on, new arrows with several ends may not be counted. */
#define MRD_STORE_FANS (1u << 17)

/* Counts the ends of each arrow. */
typedef struct {
    uint64_t ends;
    /* A bit set with two bits for each id that has an end. Ids may share bits. NULL before the
     * first end. */
    uint64_t *one;
    mrd_map more; /* maps each id with several ends to their number */
    /* the ends of some ids were not counted, because `more` had MRD_STORE_FANS ids already */
    bool is_full;
} mrd_fans;

struct mrd_store {
    char *dir;
    /* maximum bytes of blocks, which is half of `memory`; sorting needs the other half */
    size_t budget;
    size_t used, block_size;
    mrd_block *spare; /* unused blocks of block_size bytes each */
    int fd;           /* the temporary file; -1 until records are first written to it */
    uint64_t file_len;
    uint8_t *out; /* a buffer of MRD_STORE_WRITE bytes for the file */
    size_t out_len;
    mrd_stream **streams;
    size_t n, cap;
    bool keep;    /* the store keeps its events if the disk is full (mrd_store_keep) */
    mrd_why full; /* why the store is full; err is MRD_OK if it is not */
    mrd_fans fans;
};

struct mrd_stream {
    mrd_store *store;
    char *label;
    uint32_t profile;
    uint64_t count, in_memory;
    mrd_ev_ns earliest, latest;
    mrd_dur_ns shift_ns; /* added to all times when they are read */
    bool has_range, has_flows, finished;
    bool has_mistimed; /* events outside [earliest, latest] get MRD_EV_MISTIMED */
    bool has_starts;   /* an arrow starts in this stream */
    bool hidden;       /* the stream is internal: it has the flow points of another stream */
    bool ordered;      /* the records in memory are in order */
    mrd_block *head, *tail;
    const mrd_rec *last; /* last record in memory */
    /* in_memory pointers to the records in memory, sorted; NULL if they are `ordered`, or not
     * sorted yet */
    const mrd_rec **order;
    size_t bytes; /* size of the stream's blocks */
    mrd_chain *chains;
    size_t n_chains, cap_chains;
    /* hidden stream of the flow points (stream_bind.c); NULL without flow points */
    mrd_stream *bound;
    mrd_err err;
    mrd_why why;
};

/* Returns a time moved by a duration, saturating. */
static inline mrd_ev_ns
mrd_time_shifted(mrd_ev_ns at, mrd_dur_ns by)
{
    return (mrd_ev_ns){ mrd_sat_add(at.ns, by) };
}

/* Sorts the records of the blocks into *ret_order (malloc'd, count pointers). Returns false if out
 * of memory. */
bool mrd_rec_sort(const mrd_block *head, size_t count, const mrd_rec ***ret_order);

/* Open sources (readers in order of time). The first one reads the stream's sorted records in
 * memory, the second one a chain of records in the temporary file. The records must outlive the
 * source. */
mrd_err mrd_cursor_memory(const mrd_stream *stream, mrd_source **ret_source, mrd_why *why);
mrd_err mrd_cursor_file(int fd, const char *label, const mrd_chain *chain, size_t buffer,
                        mrd_source **ret_source, mrd_why *why);

/* Manage the temporary file, which is opened when it is first needed. Records are buffered and then
 * appended. Errors: IO, FULL, NOMEM. */
mrd_err mrd_store_open_file(mrd_store *st, mrd_why *why);
mrd_err mrd_store_put(mrd_store *st, const void *rec, size_t len, mrd_why *why);
mrd_err mrd_store_flush(mrd_store *st, mrd_why *why);

void mrd_chain_fini(mrd_chain *chain);
/* Appends an extent to the chain. Returns false if out of memory. */
bool mrd_chain_append(mrd_chain *chain, mrd_extent extent);
/* Frees the chain and its disk space, if the file system can do so. */
void mrd_chain_release(mrd_chain *chain, int fd);
/* Returns a chain to which a sorted run that begins with `first` may be appended. Adds a new chain
 * if there is none. Returns NULL if out of memory. */
mrd_chain *mrd_stream_chain_for(mrd_stream *stream, const mrd_rec *first);

/* Creates an internal stream, which mrd_store_at does not return. */
mrd_stream *mrd_stream_new(mrd_store *store, const char *label);
/* Opens a reader of the first n chains, and of the records in memory if `memory` is set. */
mrd_err mrd_stream_open_part(mrd_stream *stream, size_t n, bool memory, mrd_source **ret_source,
                             mrd_why *why);
/* Opens a reader that does not attach flow points to the events. */
mrd_err mrd_stream_open_raw(mrd_stream *stream, mrd_source **ret_source, mrd_why *why);

/* Counts the starts and ends of arrows in an event. Returns false if out of memory. */
bool mrd_stream_note_flows(mrd_stream *stream, const mrd_event *ev);
/* Opens a reader that fills in mrd_flow.ends. Owns inner, also on failure. */
mrd_err mrd_stream_open_fans(const mrd_stream *stream, mrd_source *inner, mrd_source **ret_source,
                             mrd_why *why);

/* Binds flow points: reads the stream once and fills stream->bound. */
mrd_err mrd_stream_bind(mrd_stream *stream, mrd_why *why);
/* Opens a reader that attaches bound flow points to the events of `raw`. Owns raw, also on
 * failure. */
mrd_err mrd_stream_open_bound(mrd_stream *stream, mrd_source *raw, mrd_source **ret_source,
                              mrd_why *why);

#endif
