/*
 * trace/store/stream_int.h - the parts of the event store: blocks of records in memory, chains of sorted
 * records in the temporary file, cursors over both, the binding of flow points and the number of their
 * ends. Private to stream*.c.
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

/* Parts that are one sorted sequence when read one after the other. */
typedef struct {
    mrd_extent *v;
    size_t n, cap;
    mrd_rec last; /* head of the last record: what follows it in order may be appended */
} mrd_chain;

/* Chains read at once; more are merged in levels. */
#define MRD_STORE_FAN_IN 64
/* Bytes per write to the temporary file. */
#define MRD_STORE_WRITE ((size_t) 256 << 10)
/* The largest number of arrows with several ends whose ends a store counts. */
#define MRD_STORE_FANS (1u << 17)

/* The numbers of ends that arrows have. */
typedef struct {
    uint64_t ends;
    uint64_t *one; /* a bit per id with an end, some ids share it; NULL before the first end */
    mrd_map more;  /* id -> ends, of ids with several */
} mrd_fans;

struct mrd_store {
    char *dir;
    size_t budget; /* bytes of blocks; sorting needs the other half of `memory` */
    size_t used, block_size;
    mrd_block *spare; /* of block_size each */
    int fd;           /* -1 until the first spill */
    uint64_t file_len;
    uint8_t *out; /* MRD_STORE_WRITE bytes on their way to the file */
    size_t out_len;
    mrd_stream **streams;
    size_t n, cap;
    bool keep;    /* mrd_store_keep */
    mrd_why full; /* err MRD_OK: it is not */
    mrd_fans fans;
};

struct mrd_stream {
    mrd_store *store;
    char *label;
    uint32_t profile;
    uint64_t count, in_memory;
    mrd_ev_ns earliest, latest;
    mrd_dur_ns shift_ns; /* added to every time on the way out */
    bool has_range, has_flows, finished;
    bool has_mistimed; /* events outside [earliest, latest] are MRD_EV_MISTIMED */
    bool has_starts;   /* of arrows */
    bool hidden;       /* the flow points of another */
    bool ordered;      /* the records in memory came in order */
    mrd_block *head, *tail;
    const mrd_rec *last;   /* in memory */
    const mrd_rec **order; /* after sorting, in_memory of them; NULL when ordered */
    size_t bytes;          /* of the blocks */
    mrd_chain *chains;
    size_t n_chains, cap_chains;
    mrd_stream *bound; /* where the flow points went (stream_bind.c), NULL without flows */
    mrd_err err;
    mrd_why why;
};

/* That much later, saturating. */
static inline mrd_ev_ns
mrd_time_shifted(mrd_ev_ns at, mrd_dur_ns by)
{
    return (mrd_ev_ns){ mrd_sat_add(at.ns, by) };
}

/* Sorts the records of the blocks into *ret_order (malloc'd, n pointers). False without memory. */
bool mrd_rec_sort(const mrd_block *head, size_t n, const mrd_rec ***ret_order);

/* Sources over the two kinds of sorted sequence; what they read must outlive them. */
mrd_err mrd_cursor_memory(const mrd_stream *stream, mrd_source **ret_source, mrd_why *why);
mrd_err mrd_cursor_file(int fd, const char *label, const mrd_chain *chain, size_t buffer,
                        mrd_source **ret_source, mrd_why *why);

/* The temporary file: opened when first needed, records gathered before they are written at its
 * end. Errors: IO, FULL, NOMEM. */
mrd_err mrd_store_open_file(mrd_store *st, mrd_why *why);
mrd_err mrd_store_put(mrd_store *st, const void *rec, size_t len, mrd_why *why);
mrd_err mrd_store_flush(mrd_store *st, mrd_why *why);

void mrd_chain_fini(mrd_chain *c);
/* False without memory. */
bool mrd_chain_append(mrd_chain *c, mrd_extent e);
/* Frees the chain and gives its space back to the disk, where the file system can. */
void mrd_chain_release(mrd_chain *c, int fd);
/* The chain of the stream that a run beginning with `first` continues; NULL without memory. */
mrd_chain *mrd_stream_chain_for(mrd_stream *s, const mrd_rec *first);

/* A stream that mrd_store_at does not show. */
mrd_stream *mrd_stream_new(mrd_store *store, const char *label);
/* A reader of the first n chains, and of the records in memory when asked. */
mrd_err mrd_stream_open_part(mrd_stream *s, size_t n, bool memory, mrd_source **ret_source,
                             mrd_why *why);
/* A reader that knows nothing of flow points. */
mrd_err mrd_stream_open_raw(mrd_stream *stream, mrd_source **ret_source, mrd_why *why);

/* Counts the starts and ends of arrows on an event. Ends are not counted when memory is short. */
void mrd_stream_note_flows(mrd_stream *stream, const mrd_event *ev);
/* Opens a reader that fills in mrd_flow.ends. Owns inner, also on failure. */
mrd_err mrd_stream_open_fans(const mrd_stream *stream, mrd_source *inner, mrd_source **ret_source,
                             mrd_why *why);

/* Reads the stream once and fills stream->bound. */
mrd_err mrd_stream_bind(mrd_stream *stream, mrd_why *why);
/* Owns raw, also on failure. */
mrd_err mrd_stream_open_bound(mrd_stream *stream, mrd_source *raw, mrd_source **ret_source,
                              mrd_why *why);

#endif
