/*
 * agent/spool/spool.h - the queue of frames for the aggregator. Each frame is written here before
 * its events count as read, and stays until it is acknowledged. The queue is bounded; the oldest
 * frames are dropped and counted.
 *
 * Files    append-only segments "spool-<number>.mrs" in a directory of the agent's own. A record is
 *          {magic, kind, length, CRC-32 of kind, length and payload} and its payload.
 * Kinds    1 a frame, after 8 bytes with its number of events without losses. 2 a session: its next
 *          sequence number and the fate of its events up to now. 3 an answer: stored or refused.
 *          4 a commit: the frames before it count, rings were read up to these positions, and
 *          these are the sessions' notes. 5 uncommitted records before it are void. 6 how many
 *          frames of clock data a session lost. 7 the frames before it are of an earlier boot. 8
 *          the counts of a session at the beginning of this boot.
 * Crash    at any byte, all committed records are found again. Rings are released only after the
 *          commit, and the next agent skips what the commit names, so each event is taken once.
 * Sync     none. Recent data is in the page cache, so a frame that is soon acknowledged never
 *          reaches the disk. The spool survives the end of the agent, but not of the machine, as
 *          the rings do.
 * Errors   a directory that was removed is created again. If a segment cannot be written for
 *          another reason than a full disk, the next segment is used. A file "counts" has what was
 *          committed and answered, so that missing parts of segments are noticed. If both lack
 *          answers of frames that exist, the spool counts like one of an earlier boot: the
 *          aggregator says which of these frames it has.
 *
 * A directory that is empty and ours at open gets mode 0700. Without a directory segments are in
 * memory (memfd). Threads: one.
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
    uint64_t id; /* number of the frame; increases and is never reused while the spool is open */
    uint64_t epoch, session, seq;
    uint64_t events; /* number of events in the frame, without loss events */
    mrd_ev_ns first, last;
    uint32_t len; /* length of the frame in bytes */
    uint8_t type, clock;
    bool earlier; /* the frame was written in an earlier boot */
    /* the frame is of an earlier boot, and the aggregator stored it then; see
     * mrd_spool_done_before */
    bool known;
} mrd_spool_item;

/* The fate of a session's events since the directory was created. */
#define MRD_SPOOL_NOTE 1152u
typedef struct {
    /* events that were stored, were refused for good, or were dropped because of the size limit */
    uint64_t delivered, refused, forced;
    /* events that were committed, and lost with a segment that others truncated or removed */
    uint64_t damaged;
    /* time range of the frames with damaged events, in the clock damaged_clock */
    mrd_ev_ns damaged_first, damaged_last;
    uint8_t damaged_clock;
    uint32_t note_len;
    uint8_t note[MRD_SPOOL_NOTE]; /* the caller's data as of the last commit */
} mrd_spool_tally;

/*
 * The counts of a session when the first agent of this boot opened the directory. A power failure
 * may have lost the latest part of the page cache, so these counts may be older than the
 * aggregator's. The aggregator receives both them and mrd_spool_since, and computes from them how
 * much was added in this boot, and how much was lost.
 */
typedef struct {
    /* events that were at least committed; events in no other count were lost */
    uint64_t begun;
    uint64_t held; /* events of the frames that were found at open */
    /* events stored in an earlier boot, as later answers showed; see mrd_spool_done_before */
    uint64_t known;
    mrd_spool_tally tally;
} mrd_spool_base;

typedef struct {
    uint64_t items, bytes, events; /* frames in the queue, their bytes and their events */
    uint64_t file_bytes;           /* size of all segments together */
    uint64_t recovered_items, recovered_events;
    uint64_t torn_bytes;     /* bytes of incomplete records that were cut off at open */
    uint64_t damaged_events; /* events that were committed but missing at open */
    uint64_t failures;       /* number of frames and commits that could not be written */
    /* how often the directory was removed by others and created again by this agent */
    uint64_t remade;
} mrd_spool_stats;

typedef struct {
    const char *dir;    /* directory of the segments; NULL keeps them in memory */
    uint64_t max_bytes; /* maximum bytes of all segments together; at least MRD_SPOOL_MIN_BYTES */
    /* The id of this machine's boot. A directory that another boot wrote to last may have lost
     * records, and begins a new epoch. NULL or empty means unknown, so that this is not checked. */
    const char *boot_id;
    /* Called for each frame that the size limit drops (except frames that are re-read); may be
     * NULL. */
    void (*dropped)(void *self, const mrd_spool_item *item);
    void *self;
} mrd_spool_options;

/* Errors: BUSY (another agent uses the directory), FULL (no room for data that the next agent
 * needs), IO, NOMEM, INVALID (max_bytes). After FULL nothing is lost. Open the spool again. */
mrd_err mrd_spool_open(const mrd_spool_options *options, mrd_spool **ret_spool, mrd_why *why);
void mrd_spool_close(mrd_spool *spool);

/* Returns the events that sessions of this directory lost with truncated or removed segments, as
 * its agent recorded. Changes nothing and may be called while the agent runs. */
uint64_t mrd_spool_damage_in(const char *dir);

/* Returns the sequence epoch: random, new for a new directory, and constant while the directory
 * exists. */
uint64_t mrd_spool_epoch(const mrd_spool *spool);
/* Identifies the directory in this boot. If the number changed, counts of sessions may have fallen
 * back to their bases, or to nothing. 1 means that an earlier release created the directory. */
uint64_t mrd_spool_since(const mrd_spool *spool);
/* Returns the base of a session. NULL if the session began in this boot. Borrowed until the next
 * call that changes the spool. */
const mrd_spool_base *mrd_spool_get_base(const mrd_spool *spool, uint64_t session);
/* Returns the next sequence number of a session, from 0. It is used up when the frame is added. */
uint64_t mrd_spool_next_seq(const mrd_spool *spool, uint64_t session);
/* Call it when a session is removed. Its frames stay. Its number and tally stay while there is room
 * (the newest MRD_SPOOL_FORGOTTEN), because the session may return after a crash of the aggregator.
 * A reused number would look like a repeated frame. */
#define MRD_SPOOL_FORGOTTEN 256u
void mrd_spool_forget(mrd_spool *spool, uint64_t session);
/* Call it when a removed session returns. */
void mrd_spool_recall(mrd_spool *spool, uint64_t session);

/* The read position of a ring: the hash of its file name, and bytes. */
typedef struct {
    uint64_t ring, read;
} mrd_spool_position;

#define MRD_SPOOL_POSITIONS 65536u /* maximum number of positions in one commit */

/*
 * Appends a frame with this epoch in its header and the session's next number, and increments the
 * number. The frame counts, and peek returns it, from the next commit on. Errors: FULL (the disk is
 * full, or the oldest frames wait for a commit, nothing was written), LIMIT (more than
 * MRD_FRAME_MAX), STATE (wrong number), IO, NOMEM and errors of mrd_frame_get.
 */
mrd_err mrd_spool_add(mrd_spool *spool, mrd_bytes frame, uint64_t events, mrd_why *why);

/* Commits the frames added up to now, together with the positions of their rings. If the disk has
 * no room for it, drops the oldest frames, in the last resort even frames of this commit. Errors:
 * FULL, IO, LIMIT, NOMEM. Nothing changed then, commit again. */
mrd_err mrd_spool_commit(mrd_spool *spool, const mrd_spool_position *positions, size_t count,
                         mrd_why *why);
bool mrd_spool_uncommitted(const mrd_spool *spool);
/* Sets the caller's data of a session from the next commit on; len <= MRD_SPOOL_NOTE. Errors:
 * LIMIT, NOMEM. */
mrd_err mrd_spool_note(mrd_spool *spool, uint64_t session, const void *note, size_t len);
/* Gets the tally of a session without frames of mrd_spool_done_before. All values are zero for an
 * unknown session. */
void mrd_spool_get_tally(const mrd_spool *spool, uint64_t session, mrd_spool_tally *ret_tally);
/* Returns all positions in the last commit of the previous agent; borrowed. */
const mrd_spool_position *mrd_spool_recovered(const mrd_spool *spool, size_t *ret_n);
/* Returns the read position of this ring in the last commit before a crash. 0 means unknown. */
uint64_t mrd_spool_resume(const mrd_spool *spool, uint64_t ring);

/* Gets the oldest item with id >= from. Returns false if there is none. */
bool mrd_spool_peek(const mrd_spool *spool, uint64_t from, mrd_spool_item *ret_item);
/* Reads the bytes of the frame `id` into *to, which is reset first. Errors: NOTFOUND
 * (acknowledged or dropped meanwhile), TRUNCATED (the file was cut meanwhile), and NOMEM and IO,
 * which may pass. */
mrd_err mrd_spool_read(mrd_spool *spool, uint64_t id, mrd_buf *to, mrd_why *why);
/* Notes that the frame was sent. The aggregator may store it before its answer arrives, so the
 * frame is kept in memory if the size limit drops its segment. */
void mrd_spool_sent(mrd_spool *spool, uint64_t id);
/* Removes the frame from the queue for good, because the aggregator stored or refused it. Returns
 * false if the frame was not in the queue. */
bool mrd_spool_done(mrd_spool *spool, uint64_t id, bool stored);
/* As mrd_spool_done, for a frame of an earlier boot that the aggregator already had. It was counted
 * as delivered then, and the machine lost that record. Its events do not count in this boot. */
bool mrd_spool_done_before(mrd_spool *spool, uint64_t id);
/* Returns how many frames of clock data of the session were dropped, refused or never accepted
 * since the directory was created. They hold no events, so no other count contains them. */
uint64_t mrd_spool_clock_lost(const mrd_spool *spool, uint64_t session);
/* Adds one to the count of mrd_spool_clock_lost, for a frame that mrd_spool_add did not accept. */
void mrd_spool_lose_clock(mrd_spool *spool, uint64_t session);
/* Returns the number of the session's items in the queue; also their events if ret_events is not
 * NULL. */
uint64_t mrd_spool_held(const mrd_spool *spool, uint64_t session, uint64_t *ret_events);
/* Returns the reason of the last failure that mrd_spool_stats.failures counts; "" at first.
 * Borrowed until the next failure. */
const char *mrd_spool_failure(const mrd_spool *spool);
void mrd_spool_get_stats(const mrd_spool *spool, mrd_spool_stats *ret_stats);

#endif
