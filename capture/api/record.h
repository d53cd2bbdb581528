/*
 * capture/api/record.h - the functions with which hooks and the annotation API of libmeridian
 * record events. Internal.
 *
 * Every call is cheap while its source is off, never blocks and never returns an error. Events that
 * cannot be recorded are counted in the ring. Calls are safe in signal handlers, after fork and
 * while the process exits. A signal handler cannot record if it interrupted its thread in the
 * middle of writing a record. Its event is then counted as lost (cause NESTED). errno is preserved.
 *
 * Threads  any. Each thread records into its own ring.
 */
#ifndef MRD_CAPTURE_API_RECORD_H
#define MRD_CAPTURE_API_RECORD_H

#include "capture/api/record_what.h"
#include "capture/ring/ring.h"
#include "capture/sources.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the bits of the sources (MRD_CAP_*) that record now, which is 0 while recording is off or
 * paused. The call costs one relaxed load. */
unsigned mrd_rec_sources(void);
static inline bool
mrd_rec_on(unsigned source)
{
    return (mrd_rec_sources() & source) != 0;
}
/* Returns true if this process records now or may record later, for example after a pause or if the
 * program switches recording on. */
bool mrd_rec_possible(void);

/* Returns the id of a name, which is the same in all rings of the process. The caller should keep
 * the id in a static variable. Returns 0 if there is no room. The recording calls then need the
 * text itself (name_text), which they copy into the record. */
uint32_t mrd_rec_name(const char *text);

/* Returns the id of a new track (one row of the timeline) in addition to the thread's own track.
 * The id is valid in the whole process. Returns 0 if there is no room. Copies the text. */
uint32_t mrd_rec_track(mrd_ring_track_kind kind, const char *name, uint32_t domain, int32_t lnc_idx,
                       int32_t pcore_idx, int32_t device_idx, uint32_t unit);

/* A typed argument. A text must be valid during the call only. */
typedef struct {
    uint32_t key; /* id from mrd_rec_name, or 0 if key_text has the key */
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
 * A scope: one record with its duration, written when it ends. While the scope is open, the ring's
 * header shows it, so that the reader sees an unfinished span after a SIGKILL. Scopes of a thread
 * should end in reverse order. A scope that ends out of order still gives a correct span. The
 * struct lives on the caller's stack.
 */
typedef struct {
    /* start of the scope in ticks; 0 if the scope is not recorded, and then its end does nothing */
    uint64_t start;
    uint64_t id;
    mrd_rec_what what;
    uint32_t slot, pid;
} mrd_rec_scoped;
void mrd_rec_scope_open(mrd_rec_scoped *scope); /* Begins the scope that scope->what describes. */
static inline void
mrd_rec_scope_begin(mrd_rec_scoped *scope, const mrd_rec_what *what)
{
    /* copied member by member, because a copy of the structure would wait for the caller's last
     * store to it */
    scope->what.name = what->name;
    scope->what.name_text = what->name_text;
    scope->what.domain = what->domain;
    scope->what.track = what->track;
    scope->what.flags = what->flags;
    mrd_rec_scope_open(scope);
}
void mrd_rec_scope_end(mrd_rec_scoped *scope, const mrd_rec_arg *args, size_t arg_count);
/* Arguments of a record that has numbers only. Each is laid out as in the ring: an item header and
 * a 64-bit value. */
#define MRD_REC_NUMBERS_MAX 16u
typedef struct {
    uint64_t item, value;
} mrd_rec_numeric;
static inline uint64_t
/* returns a mrd_ring_item as one 64-bit word; key must not be 0 */
mrd_rec_numeric_item(uint32_t key, unsigned type)
{
    return type | 8u << 16 | (uint64_t) key << 32;
}
void mrd_rec_scope_end_numbers(mrd_rec_scoped *scope, const mrd_rec_numeric *numbers, size_t n);
/* Stores the ids of the name and domain of the calling thread's innermost open scope, or 0 if there
 * is none. It skips scopes of runtime calls. If scopes are nested deeper than the slots of the
 * ring's header, only scopes with a slot count. */
void mrd_rec_innermost(uint32_t *ret_name, uint32_t *ret_domain);

/* Records a span that has already ended. `start` and `end` are results of mrd_rec_now. */
void mrd_rec_span(const mrd_rec_what *what, uint64_t start, uint64_t end, const mrd_rec_arg *args,
                  size_t arg_count);
/* Begins a span that may end in another thread. Returns its id, which is unique in the process, or
 * 0 if the span is not recorded. */
uint64_t mrd_rec_begin(const mrd_rec_what *what, const mrd_rec_arg *args, size_t arg_count);
void mrd_rec_end(uint64_t id, const mrd_rec_arg *args, size_t arg_count);
void mrd_rec_instant(const mrd_rec_what *what, uint64_t id, const mrd_rec_arg *args,
                     size_t arg_count);
/* Records a sample of a counter. The flags of `what` contain the number type, and `value` contains
 * the bits of the number. */
void mrd_rec_counter(const mrd_rec_what *what, uint64_t value);
/* Counts a span as lost, for callers that could not begin the span. */
void mrd_rec_lose(mrd_ring_lost cause);
/* Records a point of a flow, which is tied to the thread's open span. The flags of `what` contain
 * the direction. */
void mrd_rec_flow(const mrd_rec_what *what, uint64_t id);
/* Records a message about the recording itself, such as "cannot arm the system trace: ...". `args`
 * has details. */
void mrd_rec_notice(const char *text, const mrd_rec_arg *args, size_t arg_count);
/* Records that a model was loaded or unloaded. The keys of the arguments are model_id, hash, path,
 * size, vnc and vnc_count. `number` counts the loads in this process from 1; the unload of the same
 * model has the same number. */
void mrd_rec_model(bool load, uint64_t number, const char *name, const mrd_rec_arg *args,
                   size_t arg_count);

/*
 * A blob is JSON text of the runtime's system trace. mrd_rec_blob_put copies the part that fits now
 * into the calling thread's ring, in chunks. The caller sets `at` and `seq` to 0 before the first
 * call and keeps them from call to call. For `apart` see MRD_RECF_APART.
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
    MRD_BLOB_SILENT, /* the reader requested a pause, so the caller drops the blob */
} mrd_blob_step;
mrd_blob_step mrd_rec_blob_put(mrd_rec_blob *blob);
/* Returns true if all `len` bytes fit into the calling thread's ring now, false without a ring. */
bool mrd_rec_blob_fits(size_t len);
/* Returns the maximum number of bytes in one blob of the calling thread's ring. */
size_t mrd_rec_blob_max(void);
/* Counts `count` events of a blob as lost in the calling thread's ring. The two times are of the
 * wall clock. */
void mrd_rec_blob_lose(uint64_t count, int64_t first_wall_ns, int64_t last_wall_ns);

/* Sets the name that timelines show for the calling thread. Copies the text. */
void mrd_rec_thread_name(const char *name);
/* Returns how many data bytes the next ring of the process may have, or 0 if it may make no more
 * rings. */
size_t mrd_rec_ring_room(void);
/* Sets the size of the calling thread's ring in data bytes, which is rounded up to a power of two.
 * Call it before the thread's first record. The thread that copies system traces uses it. */
void mrd_rec_thread_ring_size(size_t bytes);
/* Declares that readers must read the calling thread's new ring after all other rings of the
 * process. */
void mrd_rec_thread_ring_rest(void);

#endif
