/*
 * agent/spool.h - frames on their way to the aggregator: each is written here before it counts as
 * taken, and kept until it is acknowledged. A bounded queue, oldest dropped and counted.
 *
 * Append-only segment files "spool-<number>.mrs" in a folder of the agent's own
 * as records {magic, kind, length, CRC-32 of kind, length and payload}, each with its payload
 * behind it. Kinds: 1 a frame (behind 8 bytes: how many events it holds, losses not counted), 2 a
 * session: its next sequence number and what became of its events so far, 3 an answer: stored or
 * refused, 4 a commit: the frames before it count, rings were read up to these positions, and these
 * are the sessions' notes, 5 what was not committed before it is void, 6 how many frames of clock
 * data a session lost, 7 the frames before it are of an earlier boot, 8 what was counted of a session
 * when this boot began. After a crash at any byte
 * everything committed is found again; since rings are given back only after the commit, and the
 * successor skips what the commit names, each event is taken exactly once. The page cache holds
 * what is young, so a frame that is acknowledged
 * soon never touches the disk. Not synced: it survives the death of the agent, not of the machine,
 * and neither do the rings. A folder that is removed meanwhile is made again, and what a segment refuses for
 * another reason than want of room goes into the next one. A file "counts" says apart from the segments
 * what was committed and answered, so that what is missing in them is known. A folder that is empty and
 * ours when it is opened gets mode 0700. Without a folder segments are in memory (memfd). Threads: one.
 */
#ifndef MRD_AGENT_SPOOL_H
#define MRD_AGENT_SPOOL_H

#include "proto/frame.h"

#ifndef MRD_SPOOL_MIN_BYTES /* a test has less, so that segments change often */
#define MRD_SPOOL_MIN_BYTES (8u << 20)
#endif

typedef struct mrd_spool mrd_spool;

/* A frame in the queue. */
typedef struct {
    uint64_t id; /* counts up, never reused while the spool is open */
    uint64_t epoch, session, seq;
    uint64_t events; /* losses not counted */
    mrd_ev_ns first, last;
    uint32_t len; /* of the frame */
    uint8_t type, clock;
    bool earlier; /* written in an earlier boot */
    bool known;   /* ... and stored in it: mrd_spool_done_before */
} mrd_spool_item;

/* What became of a session's events, since the folder was made. */
#define MRD_SPOOL_NOTE 1152u
typedef struct {
    uint64_t delivered, refused, forced; /* stored; refused for good; forced out by the bound */
    uint64_t damaged; /* committed, and gone with a segment that was cut or removed */
    mrd_ev_ns damaged_first, damaged_last; /* of frames, in this clock of theirs */
    uint8_t damaged_clock;
    uint32_t note_len;
    uint8_t note[MRD_SPOOL_NOTE]; /* the caller's own counts as of the last commit */
} mrd_spool_tally;

/*
 * What was counted of a session when the first agent of this boot opened the folder. The machine may
 * have lost its power, and with it the youngest part of the page cache: these counts may be older
 * than what the aggregator was told. It is told both them and mrd_spool_since, and finds from them
 * how much was added in this boot, and how much is gone.
 */
typedef struct {
    uint64_t begun; /* committed, as far as is known; what of it is not in the rest is gone */
    uint64_t held;  /* events of frames that were found */
    uint64_t
        known; /* stored in an earlier boot, as their answers told later: mrd_spool_done_before */
    mrd_spool_tally tally;
} mrd_spool_base;

typedef struct {
    uint64_t items, bytes, events; /* held */
    uint64_t file_bytes;           /* of all segments */
    uint64_t recovered_items, recovered_events;
    uint64_t torn_bytes;     /* cut off at open */
    uint64_t damaged_events; /* found missing at open */
    uint64_t failures;       /* frames and commits that could not be written */
    uint64_t
        remade; /* how often its folder was removed and made again, without what others had in it */
} mrd_spool_stats;

typedef struct {
    const char *dir;    /* NULL: in memory */
    uint64_t max_bytes; /* bounds the segments together; at least MRD_SPOOL_MIN_BYTES */
    /* Of this machine's boot: a folder that another one wrote to last may have lost what was given
     * out, and begins a new epoch. NULL or empty: it is not known, and not looked at. */
    const char *boot_id;
    /* Called for each frame that the bound forces out (not for those it re-reads); may be NULL. */
    void (*dropped)(void *self, const mrd_spool_item *item);
    void *self;
} mrd_spool_options;

/* Errors: BUSY (another agent uses the folder), FULL (no room for what a successor must know: nothing is
 * lost, open it again), IO, NOMEM, INVALID (max_bytes). */
mrd_err mrd_spool_open(const mrd_spool_options *options, mrd_spool **ret_spool, mrd_why *why);
void mrd_spool_close(mrd_spool *s);

/* Events that sessions of this folder lost with segments that were cut or removed, as its agent
 * wrote down; changes nothing and may be called beside the agent. */
uint64_t mrd_spool_damage_in(const char *dir);

/* The sequence epoch: random, new with a new folder, kept as long as the folder is. */
uint64_t mrd_spool_epoch(const mrd_spool *s);
/* Names the folder in this boot: another number means that counts of sessions may have gone back to
 * their bases, or to nothing. 1: of a folder that an earlier release made. */
uint64_t mrd_spool_since(const mrd_spool *s);
/* NULL: the session began in this boot. Borrowed until the next call that changes the spool. */
const mrd_spool_base *mrd_spool_get_base(const mrd_spool *s, uint64_t session);
/* The next number of a session, from 0; taken when the frame is added. */
uint64_t mrd_spool_next_seq(const mrd_spool *s, uint64_t session);
/* Nobody asks for the session any more: its frames stay. So do its number and tally as long as there
 * is room (MRD_SPOOL_FORGOTTEN, the newest), because it may be told once more, after a crash of the
 * aggregator: a number that was given out before would be taken for a frame sent twice. */
#define MRD_SPOOL_FORGOTTEN 256u
void mrd_spool_forget(mrd_spool *s, uint64_t session);
/* The session is there (again). */
void mrd_spool_recall(mrd_spool *s, uint64_t session);

/* How far a ring was read: the hash of its file name, and bytes. */
typedef struct {
    uint64_t ring, read;
} mrd_spool_position;

#define MRD_SPOOL_POSITIONS 65536u /* of one commit */

/*
 * Appends a frame whose header holds this epoch and the session's next number; counts that up.
 * It counts, and is shown by peek, from the next commit on.
 * Errors: FULL (the disk, or the oldest frames wait for a commit: nothing was written), LIMIT (more
 * than MRD_FRAME_MAX), STATE (wrong number), IO, NOMEM and those of mrd_frame_get.
 */
mrd_err mrd_spool_add(mrd_spool *s, mrd_bytes frame, uint64_t events, mrd_why *why);

/* Makes the frames added so far count, together with the positions of the rings they came from. The oldest
 * are forced out where the disk has no room for it, in the last resort such as wait for this commit.
 * Errors: FULL, IO, LIMIT, NOMEM: the frames stay as they are, commit again. */
mrd_err mrd_spool_commit(mrd_spool *s, const mrd_spool_position *positions, size_t n, mrd_why *why);
bool mrd_spool_uncommitted(const mrd_spool *s);
/* Bytes of the caller for a session that count from the next commit on, in place of the last ones;
 * len <= MRD_SPOOL_NOTE. Errors: LIMIT, NOMEM. */
mrd_err mrd_spool_note(mrd_spool *s, uint64_t session, const void *note, size_t len);
/* All zero for a session that is not known; without what mrd_spool_done_before was told. */
void mrd_spool_get_tally(const mrd_spool *s, uint64_t session, mrd_spool_tally *ret_tally);
/* All positions of the last commit that a predecessor left; borrowed. */
const mrd_spool_position *mrd_spool_recovered(const mrd_spool *s, size_t *ret_n);
/* How far the last commit before a crash had read this ring. 0 means it does not say. */
uint64_t mrd_spool_resume(const mrd_spool *s, uint64_t ring);

/* The oldest item with id >= from; false when there is none. */
bool mrd_spool_peek(const mrd_spool *s, uint64_t from, mrd_spool_item *ret_item);
/* Its bytes into *to (reset first). Errors: NOTFOUND (acknowledged or dropped meanwhile), NOMEM, IO (also
 * where the file was cut under us). */
mrd_err mrd_spool_read(mrd_spool *s, uint64_t id, mrd_buf *to, mrd_why *why);
/* It is on its way: until its answer nobody knows whether it is stored, so when the bound forces
 * out its segment it is kept in memory. */
void mrd_spool_sent(mrd_spool *s, uint64_t id);
/* It is stored, or given up: gone from the queue, for good. False when it was not there. */
bool mrd_spool_done(mrd_spool *s, uint64_t id, bool stored);
/* The same of a frame of an earlier boot that the aggregator had already: it was counted as delivered
 * then, and the machine forgot it. It is no event of this boot. */
bool mrd_spool_done_before(mrd_spool *s, uint64_t id);
/* Frames of clock data of the session that were forced out, refused or never taken: they hold no
 * event, so no other count knows of them. Since the folder was made. */
uint64_t mrd_spool_clock_lost(const mrd_spool *s, uint64_t session);
/* One more: mrd_spool_add did not take it. */
void mrd_spool_lose_clock(mrd_spool *s, uint64_t session);
/* Items of a session still held; their events too when ret_events is not NULL. */
uint64_t mrd_spool_held(const mrd_spool *s, uint64_t session, uint64_t *ret_events);
/* Why the last of `failures` was; "" at first. Borrowed until the next. */
const char *mrd_spool_failure(const mrd_spool *s);
void mrd_spool_get_stats(const mrd_spool *s, mrd_spool_stats *ret_stats);

#endif
