/*
 * agent/spool/spool.h - the queue of frames for the aggregator. Each frame is written here before
 * its events count as read from the rings, and stays until the aggregator acknowledges it. The
 * queue is bounded. If it is full, the oldest frames are dropped and counted.
 *
 * Files    are append-only segments "spool-<number>.mrs" in a directory of the agent's own. A
 *          record is {magic, kind, length, CRC-32 of kind, length and payload} and its payload.
 * Crash    All committed records are found again after a crash at any byte. Space in the rings is
 *          released only after the commit. After a crash, the next agent continues to read the
 *          rings where the last commit says, so each event is read exactly once.
 * Sync     The files are never synced. Recent data is in the page cache, so a frame that is soon
 *          acknowledged never reaches the disk. Like the rings, the spool survives the end of the
 *          agent, but not the end of the machine.
 * Errors   A directory that was removed is created again. If a segment cannot be written for
 *          another reason than a full disk, the next segment is used. The file "counts" also states
 *          what was committed and answered, so that missing parts of segments are noticed. If
 *          neither the segments nor "counts" have the answers to frames, the agent sends these
 *          frames again, and the aggregator says which of them it already has.
 *
 * Kinds of records:
 *
 *   1  a frame, after 8 bytes with its number of events without loss events
 *   2  a session: its next sequence number, and how many of its events were stored, refused or
 *      dropped
 *   3  the aggregator's answer to a frame: the frame was stored or refused
 *   4  a commit: the frames before it are valid. It contains the positions up to which the rings
 *      were read, and notes of sessions.
 *   5  the uncommitted records before this record are void
 *   6  how many frames of clock data a session lost
 *   7  the frames before this record are of an earlier boot
 *   8  the counts of a session at the beginning of this boot
 *
 * If the directory is empty and belongs to the agent's user, mrd_spool_open gives it mode 0700.
 * Without a directory, segments are in memory (memfd). All functions must be called by one thread.
 */
#ifndef MRD_AGENT_SPOOL_SPOOL_H
#define MRD_AGENT_SPOOL_SPOOL_H

#include "proto/frame.h"

#ifndef MRD_SPOOL_MIN_BYTES /* tests use a smaller value, so that segments change often */
#define MRD_SPOOL_MIN_BYTES (8u << 20)
#endif

typedef struct mrd_spool mrd_spool;

/* A frame in the queue. */
typedef struct {
    uint64_t id; /* id of the frame; ids increase and are never reused while the spool is open */
    uint64_t epoch, session, seq;
    uint64_t events; /* number of events in the frame, without loss events */
    mrd_ev_ns first, last;
    uint32_t len; /* length of the frame in bytes */
    uint8_t type, clock;
    bool earlier; /* the frame was written before the last reboot */
    /* The frame was written before the last reboot, and the aggregator answered that it stored the
     * frame before the reboot (mrd_spool_done_before). */
    bool known;
} mrd_spool_item;

/* Numbers of a session's events by what happened to them, since the spool's directory was
 * created. */
#define MRD_SPOOL_NOTE 1152u
typedef struct {
    /* numbers of events that the aggregator stored, that it refused permanently, and that the size
     * limit dropped */
    uint64_t delivered, refused, forced;
    /* number of committed events that were lost because something else truncated or removed a
     * segment file */
    uint64_t damaged;
    /* time range of the frames with damaged events, in the clock damaged_clock */
    mrd_ev_ns damaged_first, damaged_last;
    uint8_t damaged_clock;
    uint32_t note_len;
    uint8_t note[MRD_SPOOL_NOTE]; /* the caller's data as of the last commit */
} mrd_spool_tally;

/*
 * The counts of a session when an agent first opened the directory after the machine booted.
 *
 * A power failure may have lost the latest part of the page cache, so these counts may be older
 * than the aggregator's. The aggregator receives these counts and mrd_spool_since. From these and
 * its own counts, the aggregator computes how many events were added in this boot, and how many
 * were lost.
 */
typedef struct {
    /* Number of events that were known to be committed before this boot. It may be too low after a
     * power failure. Events that are in none of the other counts were lost. */
    uint64_t begun;
    uint64_t held; /* number of events in the frames that were found at open */
    /* Number of the events in `held` that the aggregator already had, as its later answers showed
     * (mrd_spool_done_before). */
    uint64_t known;
    mrd_spool_tally tally;
} mrd_spool_base;

typedef struct {
    /* numbers of frames in the queue, of their bytes, and of their events */
    uint64_t items, bytes, events;
    uint64_t file_bytes; /* size of all segments together */
    uint64_t recovered_items, recovered_events;
    uint64_t torn_bytes;     /* number of bytes of incomplete records that were cut off at open */
    uint64_t damaged_events; /* number of events that were committed but missing at open */
    uint64_t failures;       /* number of frames and commits that could not be written */
    /* how often the directory was removed by something else and created again by this agent */
    uint64_t remade;
} mrd_spool_stats;

typedef struct {
    const char *dir;    /* directory of the segments; NULL keeps them in memory */
    uint64_t max_bytes; /* maximum bytes of all segments together; at least MRD_SPOOL_MIN_BYTES */
    /* The id of this machine's boot. If another boot wrote to the directory last, records may be
     * lost, so a new epoch begins. NULL or empty means that the boot is unknown and not
     * compared. */
    const char *boot_id;
    /* Called for each frame that the size limit drops, except when a copy of the frame stays in
     * memory. May be NULL. */
    void (*dropped)(void *self, const mrd_spool_item *item);
    void *self;
} mrd_spool_options;

/* Opens the spool, and finds the frames of a previous agent. Errors: BUSY (another agent uses the
 * directory), FULL (no room for data that the next agent needs), IO, NOMEM, INVALID (max_bytes).
 * After FULL nothing is lost, and the caller may try again. */
mrd_err mrd_spool_open(const mrd_spool_options *options, mrd_spool **ret_spool, mrd_why *why);
void mrd_spool_close(mrd_spool *spool);

/* Returns how many events the sessions of this directory lost with truncated or removed segments.
 * Reads the counts of the agent that owns the directory and changes nothing, so the agent may be
 * running. */
uint64_t mrd_spool_damage_in(const char *dir);

/* Returns the epoch, a random number that marks this series of sequence numbers. A new epoch begins
 * in a new directory. It also begins if the spool is opened and it may have lost which sequence
 * numbers were used. */
uint64_t mrd_spool_epoch(const mrd_spool *spool);
/* Returns a number that identifies the directory in this boot. When this number changes, the counts
 * of sessions may be smaller than before. They then restart at the values of mrd_spool_get_base, or
 * at 0. 1 means that an earlier release of the agent created the directory. */
uint64_t mrd_spool_since(const mrd_spool *spool);
/* Returns the counts of a session at the beginning of this boot. NULL if the session began in this
 * boot. The pointer is valid until the next call that changes the spool. */
const mrd_spool_base *mrd_spool_get_base(const mrd_spool *spool, uint64_t session);
/* Returns the next sequence number of a session, from 0. mrd_spool_add increments it. */
uint64_t mrd_spool_next_seq(const mrd_spool *spool, uint64_t session);
/* Removes a session, but not its frames. The sequence numbers and tallies of the last
 * MRD_SPOOL_FORGOTTEN removed sessions are kept, because a restarted aggregator may request a
 * removed session again. If a sequence number were used twice, the aggregator would discard the
 * second frame as a duplicate. */
#define MRD_SPOOL_FORGOTTEN 256u
void mrd_spool_forget(mrd_spool *spool, uint64_t session);
/* Restores a session that was removed with mrd_spool_forget. Call this when the aggregator requests
 * the session again. */
void mrd_spool_recall(mrd_spool *spool, uint64_t session);

/* The read position of a ring: the hash of its file name, and the position in bytes. */
typedef struct {
    uint64_t ring, read;
} mrd_spool_position;

#define MRD_SPOOL_POSITIONS 65536u /* maximum number of positions in one commit */

/*
 * Appends a frame and increments the session's next sequence number. The header of the frame must
 * have this epoch and that number. The frame becomes valid, and is returned by peek, with the next
 * commit.
 *
 * Errors: FULL (nothing was written, because the disk is full, or because the oldest frames wait
 * for a commit), LIMIT (longer than MRD_FRAME_MAX), STATE (wrong number), IO, NOMEM and errors of
 * mrd_frame_get.
 */
mrd_err mrd_spool_add(mrd_spool *spool, mrd_bytes frame, uint64_t events, mrd_why *why);

/* Commits all frames since the last commit, together with the positions of their rings. If the disk
 * has no room, drops the oldest frames, in the last resort even frames of this commit. Errors:
 * FULL, IO, LIMIT, NOMEM. After an error nothing is committed, and the caller must call this
 * again. */
mrd_err mrd_spool_commit(mrd_spool *spool, const mrd_spool_position *positions, size_t count,
                         mrd_why *why);
bool mrd_spool_uncommitted(const mrd_spool *spool);
/* Sets the caller's note of a session, which is valid from the next commit on. At most
 * MRD_SPOOL_NOTE bytes. Errors: LIMIT, NOMEM. */
mrd_err mrd_spool_note(mrd_spool *spool, uint64_t session, const void *note, size_t len);
/* Gets the tally of a session. Frames that mrd_spool_done_before removed are not in its counts. All
 * values are zero if the session is unknown. */
void mrd_spool_get_tally(const mrd_spool *spool, uint64_t session, mrd_spool_tally *ret_tally);
/* Returns all positions in the last commit of the previous agent; borrowed. */
const mrd_spool_position *mrd_spool_recovered(const mrd_spool *spool, size_t *ret_n);
/* Returns the read position of this ring in the last commit of the previous agent. 0 means
 * unknown. */
uint64_t mrd_spool_resume(const mrd_spool *spool, uint64_t ring);

/* Gets the oldest frame in the queue with an id of at least `from`. Returns false if there is
 * none. */
bool mrd_spool_peek(const mrd_spool *spool, uint64_t from, mrd_spool_item *ret_item);
/* Reads the bytes of the frame `id` into *to, which is reset first. Errors: NOTFOUND (acknowledged
 * or dropped meanwhile), TRUNCATED (the file was cut meanwhile), NOMEM and IO (a retry may
 * succeed). */
mrd_err mrd_spool_read(mrd_spool *spool, uint64_t id, mrd_buf *to, mrd_why *why);
/* Notes that the frame was sent. The aggregator may have stored it although no answer has arrived.
 * So if the size limit drops the frame's segment, the spool keeps a copy of the frame in memory
 * until the answer. */
void mrd_spool_sent(mrd_spool *spool, uint64_t id);
/* Removes the frame from the queue. `stored` is true if the aggregator stored the frame, false if
 * it refused the frame permanently. Returns false if the frame was not in the queue. */
bool mrd_spool_done(mrd_spool *spool, uint64_t id, bool stored);
/* Like mrd_spool_done, for a frame of an earlier boot that the aggregator already had. The frame
 * was counted as delivered in that boot, but the machine lost the record of it. Its events do not
 * count as delivered in this boot. */
bool mrd_spool_done_before(mrd_spool *spool, uint64_t id);
/* Returns how many frames of clock data of the session were dropped, refused or never accepted
 * since the directory was created. No other count includes them, because they contain no events. */
uint64_t mrd_spool_clock_lost(const mrd_spool *spool, uint64_t session);
/* Adds one to mrd_spool_clock_lost, for a frame of clock data that mrd_spool_add did not accept. */
void mrd_spool_lose_clock(mrd_spool *spool, uint64_t session);
/* Returns the number of the session's frames in the queue. Stores the number of their events in
 * *ret_events if ret_events is not NULL. */
uint64_t mrd_spool_held(const mrd_spool *spool, uint64_t session, uint64_t *ret_events);
/* Returns the reason of the last failure that mrd_spool_stats.failures counts; "" if there was
 * none. The text is valid until the next failure. */
const char *mrd_spool_failure(const mrd_spool *spool);
void mrd_spool_get_stats(const mrd_spool *spool, mrd_spool_stats *ret_stats);

#endif
