/*
 * capture/record.h - how the rest of libmeridian (hooks, annotation API) records. Internal.
 *
 * Every call is cheap when its source is off, never blocks,
 * never fails visibly: what cannot be recorded is counted in the ring. Safe in signal handlers
 * (a record that interrupts another of the same thread is counted lost, cause NESTED), after fork
 * and while the process exits. errno is preserved.
 *
 * Threads  any; each records into its own ring.
 */
#ifndef MRD_CAPTURE_RECORD_H
#define MRD_CAPTURE_RECORD_H

#include "capture/record_what.h"
#include "capture/ring.h"
#include "capture/sources.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bits of the sources that record now (enabled, running, not paused). One relaxed load. */
unsigned mrd_rec_sources(void);
static inline bool
mrd_rec_on(unsigned source)
{
    return (mrd_rec_sources() & source) != 0;
}
/* Whether this process may ever record: now, paused, or when the program asks. */
bool mrd_rec_possible(void);

/* The id of a name, the same in all rings of the process. 0 without room: the record then carries
 * its name inline when `text` is given to the recording call. Keep it in a static. */
uint32_t mrd_rec_name(const char *text);

/* A track besides the thread's own line; ids are process-wide. 0 without room. Text is copied. */
uint32_t mrd_rec_track(mrd_ring_track_kind kind, const char *name, uint32_t domain, int32_t lnc_idx,
                       int32_t pcore_idx, int32_t device_idx, uint32_t unit);

/* A typed argument. Text needs to live during the call only. */
typedef struct {
    uint32_t key; /* mrd_rec_name, or 0 with key_text */
    uint8_t type; /* mrd_item_type: I64, U64, F64, BOOL, TEXT, JSON */
    const char *key_text;
    union {
        int64_t i;
        uint64_t u;
        double d;
        struct {
            const char *p;
            size_t len;
        } text;
    } v;
} mrd_rec_arg;

/*
 * A scope: one record with its duration when it ends. While it is open it is visible in the ring's
 * header, so a SIGKILL leaves an unfinished span. Scopes of a thread end in reverse order; one that
 * is ended out of order still gives a correct span. Lives on the caller's stack.
 */
typedef struct {
    uint64_t start; /* ticks; 0: not recording, end does nothing */
    uint64_t id;
    mrd_rec_what what;
    uint32_t slot, pid;
} mrd_rec_scoped;
void mrd_rec_scope_open(mrd_rec_scoped *scope); /* begins the one that scope->what says */
static inline void
mrd_rec_scope_begin(mrd_rec_scoped *scope, const mrd_rec_what *what)
{
    scope->what.name = what->name; /* one by one: as a whole they would wait for their last store */
    scope->what.name_text = what->name_text;
    scope->what.domain = what->domain;
    scope->what.track = what->track;
    scope->what.flags = what->flags;
    mrd_rec_scope_open(scope);
}
void mrd_rec_scope_end(mrd_rec_scoped *scope, const mrd_rec_arg *args, size_t arg_count);
/* With arguments that are all numbers, as the ring has them: an item and 64 bits each. */
#define MRD_REC_NUMBERS_MAX 16u
typedef struct {
    uint64_t item, value;
} mrd_rec_numeric;
static inline uint64_t
mrd_rec_numeric_item(uint32_t key, unsigned type) /* as mrd_ring_item; key: not 0 */
{
    return type | 8u << 16 | (uint64_t) key << 32;
}
void mrd_rec_scope_end_numbers(mrd_rec_scoped *scope, const mrd_rec_numeric *numbers, size_t n);
/* Name and domain of the innermost scope that the calling thread has open and that is no call of the
 * runtime; of those deeper than the ring's header shows, the deepest that it shows. Both 0: none. */
void mrd_rec_innermost(uint32_t *ret_name, uint32_t *ret_domain);

/* A span whose both ends are known; ticks of mrd_rec_now. */
void mrd_rec_span(const mrd_rec_what *what, uint64_t start, uint64_t end, const mrd_rec_arg *args,
                  size_t arg_count);
/* A span that may end in another thread. Ids are unique in the process; 0: not recorded. */
uint64_t mrd_rec_begin(const mrd_rec_what *what, const mrd_rec_arg *args, size_t arg_count);
void mrd_rec_end(uint64_t id, const mrd_rec_arg *args, size_t arg_count);
void mrd_rec_instant(const mrd_rec_what *what, uint64_t id, const mrd_rec_arg *args,
                     size_t arg_count);
/* Flags of `what` carry the number type; value holds its bits. */
void mrd_rec_counter(const mrd_rec_what *what, uint64_t value);
/* Counts a span as lost that the caller cannot even begin. */
void mrd_rec_lose(mrd_ring_lost cause);
/* Binds to the span that is open on this thread; flags carry the direction. */
void mrd_rec_flow(const mrd_rec_what *what, uint64_t id);
/* A message or an event about the recording itself ("cannot arm: ..."), with details. */
void mrd_rec_notice(const char *text, const mrd_rec_arg *args, size_t arg_count);
/* A model came or went; keys by convention: model_id, hash, path, size, vnc, vnc_count. number: of
 * this load in this process, from 1; the unload of the same model bears it again, which is what
 * joins the two. */
void mrd_rec_model(bool load, uint64_t number, const char *name, const mrd_rec_arg *args,
                   size_t arg_count);

/*
 * Copies a blob (JSON text of the system trace) into the calling thread's ring, in chunks: what
 * fits now. `at` and `seq` are 0 at first and are kept from call to call. apart: see
 * MRD_RECF_APART.
 */
typedef struct {
    uint32_t name, seq;
    bool apart;
    const void *data;
    size_t len, at;
} mrd_rec_blob;
typedef enum {
    MRD_BLOB_DONE,
    MRD_BLOB_ROOM,   /* the ring has no room for the rest yet */
    MRD_BLOB_SILENT, /* the reader asked for silence: it is to be dropped */
} mrd_blob_step;
mrd_blob_step mrd_rec_blob_put(mrd_rec_blob *blob);
/* Whether all of `len` bytes fits into the calling thread's ring now. False without a ring. */
bool mrd_rec_blob_fits(size_t len);
/* How many bytes may be in one blob of the calling thread's ring at all. */
size_t mrd_rec_blob_max(void);
/* Counts events of such texts as lost in the calling thread's ring; times of the wall clock. */
void mrd_rec_blob_lose(uint64_t count, int64_t first_wall_ns, int64_t last_wall_ns);

/* Name of the calling thread for the picture. Text is copied. */
void mrd_rec_thread_name(const char *name);
/* Data bytes that a further ring of the process may have; 0: none. */
size_t mrd_rec_ring_room(void);
/* Data bytes wanted for the calling thread's ring, before its first record; rounded up to a power
 * of two. For the thread that moves system traces. */
void mrd_rec_thread_ring_size(size_t bytes);
/* The calling thread's ring is new and is read behind all others of the process. */
void mrd_rec_thread_ring_rest(void);

#endif
