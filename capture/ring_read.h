/*
 * capture/ring_read.h - the reader's end of a ring: open, validate, read, release, remove.
 *
 * A ring is bytes from outside, which may change while they are read. It is read with pread, and
 * every chunk is validated in the copy; or in place (mrd_ring_in_place): then each word of a record
 * is loaded once and validated in registers, and a record with a body is copied first. Nothing here
 * asserts, allocates by a size the ring claims beyond the limits of ring.h, or loops longer than
 * the bytes at hand.
 *
 * Units    ts_ns is CLOCK_MONOTONIC_RAW of this machine in nanoseconds, durations likewise.
 * Order    records come as committed: a complete span comes when it ended, so starts are not
 *          sorted. Committed order of ends is the order of one thread.
 * Memory   one reader holds opts.chunk (at most the ring's data) + the ring's dictionary.
 * Threads  a mrd_ring_reader belongs to one thread. One reader per ring: the file is locked (OFD
 *          lock) unless opened with MRD_RING_PEEK.
 *
 * The usual loop, every 1 to 5 ms over all rings:
 *
 *     while ((step = mrd_ring_next(r, &ev, &why)) == MRD_RING_MORE || step == MRD_RING_LOST)
 *         take(&ev);               // LOST: ev is a loss with its gap, cause and count
 *     mrd_ring_release(r);         // after the events are safe: the workload may overwrite
 *     // AGAIN: caught up. END: owner gone and everything read: mrd_ring_remove, close.
 *     // BAD: retire it (close, note why.text); what was read before stays valid.
 */
#ifndef MRD_CAPTURE_RING_READ_H
#define MRD_CAPTURE_RING_READ_H

#include "base/buf.h"
#include "base/clock.h"
#include "capture/ring_item.h"
#include "capture/ring_name.h"
#include "capture/ring_plain.h"
#include "capture/ring_types.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

typedef struct mrd_ring_reader mrd_ring_reader;

enum {
    MRD_RING_PEEK = 1, /* look only: no lock, no release; the owner's real reader is undisturbed */
};

typedef struct {
    unsigned flags;       /* MRD_RING_PEEK */
    int64_t expect_uid;   /* -1: any; else a file of another user is refused with MRD_DENIED */
    size_t chunk;         /* bytes copied out at once; less than 128 KiB counts as that */
    const char *proc_dir; /* to judge whether the owner lives; NULL: "/proc" */
} mrd_ring_opts;

#define MRD_RING_OPTS_DEFAULT ((mrd_ring_opts){ 0, -1, 0, NULL })

/* What the header claims; it was validated against the file's name, size and the limits. */
typedef struct {
    mrd_ring_name name;
    uint32_t file_uid; /* owner of the file: the only claim that cannot lie */
    uint64_t inode, device;
    uint64_t pid_ns, mnt_ns;
    mrd_dur_ns timens_monotonic_ns; /* its times are ahead of the machine's; 0: no, or not said */
    uint64_t data_len, dict_len;
    mrd_local_ns created; /* RAW */
    bool rest;            /* of the process's rings it is to be read last */
    /* What the reader before left (mrd_ring_release_to); done is 0 where it makes no sense. */
    uint64_t head; /* when it was opened */
    uint64_t done, gaps_done, open_lost;
    mrd_wall_ns oldest_open;
    mrd_dur_ns wall_offset_ns; /* wall - RAW at the newest cross-reading of the ring */
    mrd_ring_clock_id clock;
    mrd_str ident; /* "key=value\n" lines; borrowed from the reader */
} mrd_ring_info;

/*
 * Opens `file_name` inside dir_fd (AT_FDCWD: a path). Never follows a link at the last component.
 * Errors: AGAIN  being created, has no header yet (try again; mrd_ring_remove_stale if it stays so)
 *         NOTFOUND, DENIED (permission, not a regular file, expect_uid), BUSY (another reader),
 *         VERSION (other abi), TRUNCATED, CORRUPT (with the reason), STATE (of another boot: its
 *         clock means nothing here), NOMEM, IO.
 */
mrd_err mrd_ring_open(int dir_fd, const char *file_name, const mrd_ring_opts *opts,
                      mrd_ring_reader **ret_reader, mrd_why *why);
/* A ring in this process's memory (tests, fuzzing, in-process dumps). `mem` must outlive it. */
mrd_err mrd_ring_open_mem(void *mem, size_t len, const mrd_ring_opts *opts,
                          mrd_ring_reader **ret_reader, mrd_why *why);
/* The reader's descriptor, borrowed (-1: a ring in memory), and the length of the file. */
int mrd_ring_file(const mrd_ring_reader *reader, uint64_t *ret_len);
/*
 * From now on records are read where they lie: `mapping` is the whole file, shared and writable,
 * and stays until the reader is closed. Its owner can shorten the file, which is a SIGBUS here, so
 * the caller has a handler that puts a page of zeros in the place of the missing one and stores
 * `cut`: the ring is then BAD (TRUNCATED). See agent/ring_map.h.
 */
void mrd_ring_in_place(mrd_ring_reader *reader, void *mapping, const volatile sig_atomic_t *cut);
/* NULL is fine. The file stays; tail says how far the next reader may start. */
void mrd_ring_close(mrd_ring_reader *reader);

const mrd_ring_info *mrd_ring_borrow_info(const mrd_ring_reader *reader);
/* The value of a key in the identity, empty when absent: "exe", "cmd", "RANK", ... */
mrd_str mrd_ring_ident(const mrd_ring_reader *reader, const char *key);

typedef enum {
    MRD_RING_MORE,  /* *ret_event is the next record */
    MRD_RING_AGAIN, /* caught up; more may come */
    MRD_RING_END,   /* the owner is gone (or closed the ring) and everything was read */
    MRD_RING_LOST,  /* *ret_event is a loss: kind MRD_REC_LOSS, flags cause, value count, ts, dur */
    MRD_RING_BAD,   /* the ring contradicts itself; why says where. Every later call repeats it */
} mrd_ring_step;

#define MRD_RING_DUR_NONE (-1) /* dur_ns of an unfinished span */

/* One record, decoded. Pointers are valid until the next call on this reader. */
typedef struct {
    /* as in mrd_ring_rec, so that they are copied together */
    uint8_t kind;  /* mrd_rec_kind: SPAN, BEGIN, END, INSTANT, COUNTER, FLOW, LOSS, BLOB, MODEL,
                      NOTICE. PAD, CLOCK and unknown kinds never come out */
    uint8_t flags; /* MRD_RECF_*; LOSS: the cause */
    uint16_t units;
    uint32_t name;          /* dictionary id, 0 none: mrd_ring_text */
    uint32_t domain, track; /* likewise; mrd_ring_track_of */
    uint64_t value;         /* by kind, as in ring.h; END and BEGIN: span id */
    mrd_local_ns ts;
    mrd_dur_ns dur_ns; /* SPAN: MRD_RING_DUR_NONE when the owner died inside it. LOSS: the gap */
    int32_t tid;       /* whose record it is, in the owner's namespace */
    uint32_t body_len;
    const uint8_t *body; /* items for mrd_ring_item_next; BLOB: the bytes */
    mrd_str name_text;   /* when name is 0: the inline name, else empty */
} mrd_ring_event;

mrd_ring_step mrd_ring_next_slow(mrd_ring_reader *reader, mrd_ring_event *ret_event, mrd_why *why);

static inline mrd_ring_window *
mrd_ring_borrow_window(mrd_ring_reader *reader)
{
    return (mrd_ring_window *) (void *) reader;
}

/*
 * The next record. Copies out in large chunks; the file is touched once per chunk.
 * When the owner is gone, spans still open are returned last (dur_ns NONE), then a pending gap,
 * then END. why (may be NULL) is filled on BAD only.
 *
 * Inline for plain records, which are nearly all; the others go the slow way, which validates them.
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
/* The scopes that a living owner is inside of now, as SPANs with dur_ns NONE; how many. Their records
 * come when they end. */
size_t mrd_ring_open_scopes(mrd_ring_reader *reader, mrd_ring_event ret_scopes[MRD_RING_OPEN_MAX]);
/* Tells the workload that everything returned so far may be overwritten. Errors: IO. */
mrd_err mrd_ring_release(mrd_ring_reader *reader);
/*
 * The same, but what lies behind `keep` stays: the next reader finds it again with how far this one
 * came (done), so that it can make up what was left open there, and with what is told besides.
 */
typedef struct {
    uint64_t keep, gaps_done, open_lost;
    mrd_wall_ns oldest_open;
} mrd_ring_left;
mrd_err mrd_ring_release_to(mrd_ring_reader *reader, const mrd_ring_left *left);

typedef struct {
    uint64_t head, tail;                 /* bytes; head as last seen */
    uint64_t read;                       /* bytes; behind the last record returned */
    uint64_t records;                    /* returned, losses not counted */
    uint64_t lost[MRD_RING_LOST_CAUSES]; /* the workload's counters: all ever lost */
    uint64_t lost_total;
    uint64_t reported;         /* of lost_total, already returned as LOST */
    uint64_t skipped;          /* records of an unknown kind */
    mrd_dur_ns clock_error_ns; /* bound of the tick to RAW conversion at the newest record */
    uint32_t clock_steps;      /* times the two clocks jumped against each other */
    mrd_local_ns newest; /* the latest time in a record returned, as of mrd_ring_next; 0: none */
} mrd_ring_stats;

/* All records were read, and what its owner left open and lost last is being told: END is near. */
bool mrd_ring_is_ending(const mrd_ring_reader *reader);
/* After END: thread `tid` recorded last and did not end by itself, but with its process. */
bool mrd_ring_was_left(const mrd_ring_reader *reader, int32_t tid);
/* Counters as of the last call of mrd_ring_next. */
void mrd_ring_get_stats(const mrd_ring_reader *reader, mrd_ring_stats *ret_stats);
/* Events of a cause lost since the last LOSS record, as of the last call of mrd_ring_next, and
 * their gap: the next event tells them, if there is one. 0: none, or the gap's times make no sense.
 */
uint64_t mrd_ring_unreported(mrd_ring_reader *reader, unsigned cause, int64_t *ret_first_ns,
                             int64_t *ret_last_ns);

/* Dictionary. An id that was never defined gives an empty text or NULL. Borrowed until close. */
mrd_str mrd_ring_text(const mrd_ring_reader *reader, uint32_t id);
const mrd_ring_track_info *mrd_ring_track_of(const mrd_ring_reader *reader, uint32_t id);
/* Bytes of memory that the reader takes, the copy of the dictionary included; a mapping is not counted. */
size_t mrd_ring_memory(const mrd_ring_reader *reader);
/* Name of a thread of this ring, empty when it has none. */
mrd_str mrd_ring_thread_name(const mrd_ring_reader *reader, int32_t tid);

/* ---- the owner ------------------------------------------------------------------------------- */

/*
 * Whether the process that made the ring can still add to it: its pid and start time exist, it is
 * no zombie, and (after an exec) it still maps the file. In another pid namespace the owner is
 * found by searching the maps of all processes for the inode, which costs milliseconds: ask once a
 * second, not per poll. *ret_host_pid (may be NULL) is its pid in the reader's namespace, 0 when
 * not found. UNKNOWN: no process maps it but some could not be looked at (permission).
 * mrd_ring_next asks by itself, at most once a second, when a ring brings nothing new.
 */
mrd_owner mrd_ring_owner(mrd_ring_reader *reader, int32_t *ret_host_pid);
/* For tests and simulations: END is then reached without asking /proc. */
void mrd_ring_assume_dead(mrd_ring_reader *reader);

/* Asks the workload to pause (true) or go on; it obeys at its next event. Errors: IO. */
mrd_err mrd_ring_set_pause(mrd_ring_reader *reader, bool pause);

/* Unlinks the file if it is still the one that was opened (same inode). NOTFOUND is success. */
mrd_err mrd_ring_remove(mrd_ring_reader *reader, int dir_fd, const char *file_name, mrd_why *why);
/* Unlinks a ring that never got its header, when the process its name tells is gone, or that is of
 * another boot. Errors: BUSY when it may be alive. */
mrd_err mrd_ring_remove_stale(int dir_fd, const char *file_name, const char *proc_dir,
                              mrd_why *why);

#endif
