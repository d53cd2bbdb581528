/*
 * capture/ring/ring_read.h - reads a ring: opens and validates it, returns its records, releases
 * their space to the workload, and removes the ring.
 *
 * A ring is untrusted data that may change while it is read. Normally a chunk is read with pread,
 * and the copy is validated. If the file is mapped (mrd_ring_in_place), each word of a record is
 * loaded once and validated in registers, and a record with a body is copied first. This code does
 * not assert, and does not use more memory or time than the limits of ring.h allow.
 *
 * Units    ts_ns is CLOCK_MONOTONIC_RAW of this machine in nanoseconds, as are durations.
 * Order    records come in the order in which they were written. A complete span is written when
 *          it ends, so the records of a thread are sorted by their ends, not by their starts.
 * Memory   one reader needs opts.chunk (at most the ring's data) and the ring's dictionary.
 * Threads  a mrd_ring_reader belongs to one thread. One reader per ring: the file is locked (OFD
 *          lock) unless opened with MRD_RING_PEEK.
 *
 * The usual loop, every 1 to 5 ms over all rings:
 *
 *     while ((step = mrd_ring_next(r, &ev, &why)) == MRD_RING_MORE || step == MRD_RING_LOST)
 *         take(&ev);               // LOST: ev describes lost events: gap, cause and count
 *     mrd_ring_release(r);         // events are stored, so the workload may overwrite them
 *     // END: the owner exited and everything was read. Call mrd_ring_remove and mrd_ring_close.
 *     // BAD: the ring is invalid. Report why.text and close. Events returned before stay valid.
 */
#ifndef MRD_CAPTURE_RING_RING_READ_H
#define MRD_CAPTURE_RING_RING_READ_H

#include "base/buf.h"
#include "base/clock.h"
#include "capture/ring/ring_item.h"
#include "capture/ring/ring_name.h"
#include "capture/ring/ring_plain.h"
#include "capture/ring/ring_types.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

typedef struct mrd_ring_reader mrd_ring_reader;

enum {
    /* read without the lock and release nothing, so that another reader is not disturbed */
    MRD_RING_PEEK = 1,
};

typedef struct {
    unsigned flags;       /* MRD_RING_PEEK or 0 */
    int64_t expect_uid;   /* uid that must own the file, else MRD_DENIED; -1 accepts any user */
    size_t chunk;         /* bytes copied at once; values below 128 KiB count as 128 KiB */
    const char *proc_dir; /* used to check whether the owner exists; NULL means "/proc" */
} mrd_ring_opts;

#define MRD_RING_OPTS_DEFAULT ((mrd_ring_opts){ 0, -1, 0, NULL })

/* Contents of the header, validated against the file's name and size and the limits of ring.h. */
typedef struct {
    mrd_ring_name name;
    uint32_t file_uid; /* uid of the file's owner, which the process cannot forge */
    uint64_t inode, device;
    uint64_t pid_ns, mnt_ns;
    /* by how much the owner's clocks are ahead of the machine's; 0 if equal or unknown */
    mrd_dur_ns timens_monotonic_ns;
    uint64_t data_len, dict_len;
    mrd_local_ns created; /* when the ring was created, CLOCK_MONOTONIC_RAW */
    bool rest;            /* this ring is read after all other rings of the process */
    uint64_t head;        /* number of data bytes that were committed when the ring was opened */
    /* The previous reader stored these with mrd_ring_release_to. `done` is 0 if it was invalid. */
    uint64_t done, gaps_done, open_lost;
    mrd_wall_ns oldest_open;
    mrd_ring_clock_id clock;
    mrd_str ident; /* "key=value\n" lines; borrowed from the reader */
} mrd_ring_info;

/*
 * Opens `file_name` in dir_fd (AT_FDCWD for a path). Does not follow a link at the last component.
 * Errors:
 *   AGAIN      the ring is being created and has no header yet. Try again later.
 *   DENIED     no permission, not a regular file, or expect_uid differs.
 *   BUSY       another reader has the ring.
 *   STATE      the ring is of another boot, so its clock has no meaning now.
 *   others     NOTFOUND, VERSION (other abi), TRUNCATED, CORRUPT (with the reason), NOMEM, IO.
 */
mrd_err mrd_ring_open(int dir_fd, const char *file_name, const mrd_ring_opts *opts,
                      mrd_ring_reader **ret_reader, mrd_why *why);
/* Opens a ring in this process's memory, for tests, fuzzing and dumps of the own process. The
 * caller keeps `mem` until the reader is closed. */
mrd_err mrd_ring_open_mem(void *mem, size_t len, const mrd_ring_opts *opts,
                          mrd_ring_reader **ret_reader, mrd_why *why);
/* Returns the file's descriptor, owned by the reader (-1 for a ring in memory), and its length. */
int mrd_ring_file(const mrd_ring_reader *reader, uint64_t *ret_len);
/*
 * Makes the reader read records in place from now on. `mapping` is a shared, writable mapping of
 * the whole file. The caller keeps it until the reader is closed. The owner can truncate the file,
 * which causes SIGBUS here. The caller's SIGBUS handler must then map a page of zeros in place of
 * the missing page and set `*cut`. After that, the reader returns BAD (TRUNCATED). See
 * agent/rings/ring_map.h.
 */
void mrd_ring_in_place(mrd_ring_reader *reader, void *mapping, const volatile sig_atomic_t *cut);
/* Closes the reader. The file is kept, and its next reader starts at `tail`. Ignores NULL. */
void mrd_ring_close(mrd_ring_reader *reader);

const mrd_ring_info *mrd_ring_borrow_info(const mrd_ring_reader *reader);
/* Returns the value of a key of the owner's identity, for example "exe", "cmd" or "RANK". Returns
 * an empty text if the key is absent. */
mrd_str mrd_ring_ident(const mrd_ring_reader *reader, const char *key);

typedef enum {
    MRD_RING_MORE,  /* *ret_event is the next record */
    MRD_RING_AGAIN, /* all records so far were returned; more may follow */
    MRD_RING_END,   /* the owner exited (or closed the ring) and everything was read */
    MRD_RING_LOST,  /* *ret_event reports lost events: flags is the cause, value the number */
    MRD_RING_BAD,   /* the ring is invalid, `why` has the position; later calls return BAD, too */
} mrd_ring_step;

#define MRD_RING_DUR_NONE (-1) /* value of dur_ns for a span without an end */

/* One record, decoded. Pointers are valid until the next call on this reader. */
typedef struct {
    /* The first four fields are laid out as in mrd_ring_rec, so that one copy fills them. `kind`
     * is a mrd_rec_kind, but never PAD, CLOCK or an unknown kind. */
    uint8_t kind;
    uint8_t flags; /* MRD_RECF_*; for LOSS the cause */
    uint16_t units;
    uint32_t name;          /* dictionary id for mrd_ring_text, 0 for none */
    uint32_t domain, track; /* dictionary ids; mrd_ring_track_of looks up the track */
    uint64_t value;         /* meaning by kind as in ring.h; for BEGIN and END the span id */
    mrd_local_ns ts;
    mrd_dur_ns dur_ns; /* SPAN: MRD_RING_DUR_NONE if it has no end. LOSS: length of the gap */
    int32_t tid;       /* the thread that recorded the event, in the owner's namespace */
    uint32_t body_len;
    const uint8_t *body; /* items for mrd_ring_item_next; for BLOB the bytes */
    mrd_str name_text;   /* the record's name if `name` is 0, else empty */
} mrd_ring_event;

mrd_ring_step mrd_ring_next_slow(mrd_ring_reader *reader, mrd_ring_event *ret_event, mrd_why *why);

static inline mrd_ring_window *
mrd_ring_borrow_window(mrd_ring_reader *reader)
{
    return (mrd_ring_window *) (void *) reader;
}

/*
 * Stores the next record in *ret_event. When the owner has exited and all records were read, it
 * returns the spans that are still open (with dur_ns MRD_RING_DUR_NONE), then the losses not yet
 * reported, then END. `why` may be NULL and is filled on BAD only. The inline part handles plain
 * records, which are nearly all. Other records take a slow path that validates them.
 */
static inline mrd_ring_step
mrd_ring_next(mrd_ring_reader *reader, mrd_ring_event *ret_event, mrd_why *why)
{
    mrd_ring_window *w = mrd_ring_borrow_window(reader);
    int64_t ts_ns, dur_ns;
    mrd_ring_rec rec;

    if (__builtin_expect(!mrd_ring_plain(w, &rec, &ts_ns, &dur_ns), 0))
        return mrd_ring_next_slow(reader, ret_event, why);
    memcpy(ret_event, &rec, 8); /* kind, flags, units, name */
    memcpy(&ret_event->domain, &rec.domain, 8);
    ret_event->value = rec.value;
    ret_event->ts = (mrd_local_ns){ ts_ns };
    ret_event->dur_ns = dur_ns;
    ret_event->tid = w->tid;
    ret_event->body_len = 0;
    ret_event->body = NULL;
    ret_event->name_text = (mrd_str){ NULL, 0 };
    return MRD_RING_MORE;
}
/* Gets the open scopes of a running owner as SPANs with dur_ns MRD_RING_DUR_NONE, and returns their
 * number. mrd_ring_next returns the record of such a scope after the scope has ended. */
size_t mrd_ring_open_scopes(mrd_ring_reader *reader, mrd_ring_event ret_scopes[MRD_RING_OPEN_MAX]);
/* Allows the workload to overwrite all records that were already returned. Errors: IO. */
mrd_err mrd_ring_release(mrd_ring_reader *reader);
/*
 * Like mrd_ring_release, but the workload must not overwrite the data from position `keep` on. The
 * next reader finds this data, the position of this reader (`done`) and the other values of the
 * struct. With these it can complete spans that are still open.
 */
typedef struct {
    uint64_t keep, gaps_done, open_lost;
    mrd_wall_ns oldest_open;
} mrd_ring_left;
mrd_err mrd_ring_release_to(mrd_ring_reader *reader, const mrd_ring_left *left);

typedef struct {
    uint64_t head, tail; /* positions in bytes; `head` as it was last read */
    uint64_t read;       /* bytes; position after the last record returned */
    uint64_t records;    /* records returned, without losses */
    /* the workload's counts of lost events since the ring was made */
    uint64_t lost[MRD_RING_LOST_CAUSES];
    uint64_t lost_total;
    uint64_t reported;         /* the part of lost_total that was already returned as LOST */
    uint64_t skipped;          /* records of an unknown kind */
    mrd_dur_ns clock_error_ns; /* largest possible error of a converted time at the newest record */
    uint32_t clock_steps;      /* number of jumps of the TSC or RAW relative to the other clock */
    mrd_local_ns newest;       /* latest time in a record that was returned; 0 if none */
} mrd_ring_stats;

/* Returns true if all records were read and the owner's open spans and last losses are being
 * returned. END follows soon. */
bool mrd_ring_is_ending(const mrd_ring_reader *reader);
/* Call it after END. Returns true if the thread `tid` was the last user of the ring and was still
 * running when its process ended. */
bool mrd_ring_was_left(const mrd_ring_reader *reader, int32_t tid);
/* Gets the counters as of the last call of mrd_ring_next. */
void mrd_ring_get_stats(const mrd_ring_reader *reader, mrd_ring_stats *ret_stats);
/* Returns how many events of a cause were lost since the last LOSS record, as of the last call of
 * mrd_ring_next. Stores the times of the first and the last one. Returns 0 if no event was lost or
 * if the times are invalid. A later LOSS record will report the same events. */
uint64_t mrd_ring_unreported(mrd_ring_reader *reader, unsigned cause, int64_t *ret_first_ns,
                             int64_t *ret_last_ns);

/* Look up the text or the track of an id. For an unknown id, they return an empty text or NULL.
 * Results are valid until the reader is closed. */
mrd_str mrd_ring_text(const mrd_ring_reader *reader, uint32_t id);
const mrd_ring_track_info *mrd_ring_track_of(const mrd_ring_reader *reader, uint32_t id);
/* Returns the bytes of memory that the reader uses, without the mapping of the file. */
size_t mrd_ring_memory(const mrd_ring_reader *reader);
/* Returns the name of a thread of this ring, or an empty text. */
mrd_str mrd_ring_thread_name(const mrd_ring_reader *reader, int32_t tid);

/* ---- the owner: the process that made the ring ----------------------------------------------- */

/*
 * Checks whether the process that made the ring can still add to it. A process with this pid and
 * start time must exist, must not be a zombie, and must still map the file (an exec ends the
 * mapping). An owner in another pid namespace is found by searching the maps of all processes for
 * the inode. This search takes milliseconds, so call the function once a second, not at every poll.
 * *ret_host_pid receives the owner's pid in the reader's namespace, or 0 if it was not found.
 * ret_host_pid may be NULL. The result is UNKNOWN if no process is seen to map the file, but some
 * processes could not be checked for lack of permission. While a ring has no new records,
 * mrd_ring_next makes this check itself, at most once a second.
 */
mrd_owner mrd_ring_owner(mrd_ring_reader *reader, int32_t *ret_host_pid);
/* Makes the reader assume that the owner has exited, so that it reaches END without a look into
 * /proc. For tests and simulations. */
void mrd_ring_assume_dead(mrd_ring_reader *reader);

/* Requests that the workload pauses recording (true) or continues (false). The request takes effect
 * at the workload's next event. Errors: IO. */
mrd_err mrd_ring_set_pause(mrd_ring_reader *reader, bool pause);

/* Unlinks the file if it is still the opened file (same inode). A missing file is no error. */
mrd_err mrd_ring_remove(mrd_ring_reader *reader, int dir_fd, const char *file_name, mrd_why *why);
/* Unlinks a ring file that never got its header. Errors: BUSY if the process in the file's name may
 * still exist. A name of an earlier boot is never busy. */
mrd_err mrd_ring_remove_stale(int dir_fd, const char *file_name, const char *proc_dir,
                              mrd_why *why);

#endif
