/*
 * agent/spool/spool_int.h - internals of agent/spool/spool.h:
 *
 *   spool.c           the interface
 *   spool_state.c     the queue in memory
 *   spool_segments.c  the files
 *   spool_counts.c    the file of counts
 *   spool_recover.c   reads the data of a previous agent
 *   spool_folder.c    the directory
 */
#ifndef MRD_AGENT_SPOOL_SPOOL_INT_H
#define MRD_AGENT_SPOOL_SPOOL_INT_H

#include "agent/spool/spool.h"
#include "base/buf.h"

#define RECORD_MAGIC 0x5053524du /* the bytes "MRSP" */

enum {
    KIND_FRAME = 1,
    KIND_SEQ = 2,
    KIND_ACK = 3,
    KIND_COMMIT = 4,
    KIND_VOID = 5,
    KIND_CLOCK = 6,
    KIND_BOOT = 7,
    KIND_BASE = 8
};

typedef struct {
    uint32_t magic, kind, len, crc;
} record_head;

typedef struct {
    uint64_t epoch, session, next, delivered, refused, forced; /* followed by the session's note */
} session_record;

typedef struct {
    uint64_t epoch, session, seq, events;
    /* `stored` is a value of enum answer. The reader subtracts `forced`, as a signed number, from
     * the dropped events of the session's tally. */
    uint64_t stored, forced;
} answer_record;

enum answer { ANSWER_REFUSED, ANSWER_STORED, ANSWER_BEFORE };

typedef struct {
    uint64_t session, begun, held, known, delivered, refused, forced, damaged;
} base_record; /* followed by the session's note */

typedef struct {
    uint32_t positions, notes;
} commit_head; /* followed by the positions, then by the notes */

typedef struct {
    uint64_t session;
    uint32_t len, zero;
} note_head; /* followed by the bytes of the note */

typedef struct {
    uint64_t session, lost; /* lost: the session's total, which replaces earlier records */
} clock_record;

typedef struct {
    uint64_t number;
    int fd;
    uint64_t len;
    uint64_t live; /* number of the segment's frames that are not yet acknowledged or dropped */
    bool failed;   /* a write failed, so the next record goes to a new segment */
} segment;

typedef struct {
    mrd_spool_item item;
    /* number of the frame's segment; 0 means that only the copy in memory is left */
    uint64_t segment;
    uint64_t at; /* position of the frame in the segment, in bytes */
    uint8_t *copy;
    bool done, sent;
    /* the frame was answered, but the record of the answer was lost with the end of the segments */
    bool cut;
    /* the answer in a record that was found at open, as enum answer + 1; 0 means none */
    uint8_t recorded;
    /* an answer that is in no segment because the disk was full, as enum answer + 1; 0 means
     * none */
    uint8_t unreported;
} entry;

typedef struct {
    uint64_t session, next, committed; /* `committed` is the value of `next` at the last commit */
    mrd_spool_tally tally;
    /* number of committed events, except missing ones */
    uint64_t events;
    uint64_t missing; /* number of events that were missing at the beginning of this boot */
    /* `last` is the latest time in committed frames. `answered_to` is the latest time in answered
     * frames. Before the first answer it is the earliest time in the first frame with events. */
    mrd_ev_ns last, answered_to;
    uint64_t found; /* next sequence number to commit, according to the segments at open */
    /* Number of dropped events that the segments record, minus tally.forced (the number of events
     * that the size limit dropped). */
    int64_t ahead;
    /* Number of events in tally.forced whose frames are still in a segment. They were dropped while
     * the disk had no room to record this, so the next agent would find them again. */
    uint64_t there;
    uint32_t slot; /* number of the session's slot in the file of counts, from 1; 0 means none */
    /* clock_lost counts lost frames of clock data. clock_rescued is the number of these that are
     * still in memory and wait for their answer. */
    uint64_t clock_lost, clock_rescued;
    mrd_spool_base *base; /* counts at the beginning of this boot; NULL means none */
    uint32_t note_len;
    bool behind;  /* the newest segment has no record of the session's current state */
    bool spanned; /* some of the session's uncommitted frames are in earlier segments */
    /* The session was removed. Removed sessions are at the end of the array, in the order of
     * removal. */
    bool forgotten;
    bool note_waits; /* `note` is newer than the last commit */
    /* Used at open: the segments lack some records of answers, but the session's sums include these
     * answers. */
    bool unanswered;
    uint8_t note[MRD_SPOOL_NOTE];
} sequence;

struct mrd_spool {
    char *dir;
    int lock_fd, counts_fd;
    uint64_t counts_used; /* bit mask of the used slots in the file of counts */
    uint64_t max_bytes, segment_bytes, epoch, origin;
    uint64_t found_epoch; /* epoch of the segments found at open */
    /* This agent is the first after a boot to open the directory, or must behave as if it were. */
    bool rebooted;
    bool holed;  /* used at open: records are missing before the record that is being read */
    bool behind; /* `behind` is set in at least one sequence */
    bool going;  /* the file of counts has the sums of a segment that is about to be removed */
    /* the file of counts shows that the end of the segments was lost before the open */
    bool cut;
    segment *segments; /* segments of the spool, in ascending order of their numbers */
    size_t n_segments;
    /* The queue. entries[first] is the oldest entry, and the ids are consecutive. Completed entries
     * at the front are removed. */
    entry *entries;
    size_t first, n, cap;
    uint64_t unreported;            /* number of entries with `unreported` set */
    uint64_t next_id, committed_id; /* frames with ids below committed_id are committed */
    mrd_spool_position *positions;  /* ring positions in the last commit that was found at open */
    size_t n_positions;
    /* number of the segment with the last committed positions; 0 means none */
    uint64_t positions_segment;
    sequence *sequences;
    size_t n_sequences;
    bool notes_wait; /* `note_waits` is set in at least one sequence */
    mrd_spool_stats stats;
    mrd_why failure; /* reason of the last failed write */
    void (*dropped)(void *self, const mrd_spool_item *item);
    void *self;
};

/* ---- spool_state.c: the queue in memory ---- */

/* Computes the checksum of a record. Its payload is `a` followed by `b`. */
uint32_t mrd_spool_crc_of(uint32_t kind, mrd_bytes a, mrd_bytes b);
sequence *mrd_spool_find_sequence(const mrd_spool *spool, uint64_t session);
mrd_err mrd_spool_take_sequence(mrd_spool *spool, uint64_t session, sequence **ret);
mrd_err mrd_spool_set_sequence(mrd_spool *spool, uint64_t session, uint64_t at_least);
void mrd_spool_set_epoch(mrd_spool *spool, uint64_t epoch);
segment *mrd_spool_find_segment(const mrd_spool *spool, uint64_t number);
void mrd_spool_path_of(const mrd_spool *spool, uint64_t number, char path[1024]);
/* Fills the entry from the frame's header. */
void mrd_spool_describe(entry *ent, const mrd_frame *frame);
bool mrd_spool_push_entry(mrd_spool *spool, const entry *ent);
/* Returns the entry of a frame. NULL if the frame is complete or not in the queue. */
entry *mrd_spool_entry(const mrd_spool *spool, uint64_t id);
void mrd_spool_complete(mrd_spool *spool, entry *ent);
void mrd_spool_set_behind(mrd_spool *spool, uint64_t session);
void mrd_spool_commit_sequences(mrd_spool *spool);
/* Call this at the first open after a reboot. Makes the current counts of every session its base,
 * and marks all frames as frames of an earlier boot. Errors: LIMIT, NOMEM. */
mrd_err mrd_spool_begin_boot(mrd_spool *spool);
mrd_err mrd_spool_set_base(sequence *seq, const mrd_spool_base *base);
mrd_err mrd_spool_count_answer(mrd_spool *spool, const answer_record *record);
bool mrd_spool_discard_uncommitted(mrd_spool *spool);
/* number of sequence numbers for which *ret_bits of mrd_spool_unanswered has a bit */
#define MRD_SPOOL_TOLD 64u
/* Returns the first unanswered sequence number of the session. If all are answered, returns the
 * next number to commit. Bit i of *ret_bits is set if the number i after that one is answered. */
uint64_t mrd_spool_unanswered(const mrd_spool *spool, const sequence *seq, uint64_t *ret_bits);
/* Gets the numbers of a session's stored and refused events. Leaves out frames whose answers are in
 * no segment and, if `counts` is true, not in the file of counts. The next agent would send these
 * frames again. */
void mrd_spool_known(const mrd_spool *spool, const sequence *seq, bool counts,
                     uint64_t *ret_delivered, uint64_t *ret_refused);
/* Like mrd_spool_known, for the member `known` of the session's mrd_spool_base. */
uint64_t mrd_spool_known_before(const mrd_spool *spool, const sequence *seq);

/* ---- spool_segments.c: the files ---- */

/* Returns true if the newest segment can take records: its file exists, and no write to it has
 * failed except for a full disk. */
bool mrd_spool_takes_records(const mrd_spool *spool);
/* Appends one record to the segment. On an error, errno has the reason. Errors: FULL, IO. */
mrd_err mrd_spool_write_record(segment *seg, uint32_t kind, mrd_bytes a, mrd_bytes b);
mrd_err mrd_spool_write_clock(segment *seg, const sequence *seq);
/* Writes the states of all sessions with `behind` into the newest segment, if there is room. */
void mrd_spool_catch_up(mrd_spool *spool);
mrd_err mrd_spool_new_segment(mrd_spool *spool, mrd_why *why);
void mrd_spool_remove_segment(mrd_spool *spool, size_t i);
/* Writes an answer. Returns false if there was no room for the record. */
bool mrd_spool_write_answer(mrd_spool *spool, const answer_record *a);
mrd_err mrd_spool_write_boot(mrd_spool *spool);

/* ---- spool_counts.c ---- */

/* Returns true if records of answers were lost, and the file of counts does not have these answers
 * either. Call it before mrd_spool_counts_open. */
bool mrd_spool_counts_lack(const mrd_spool *spool);
/* Opens the file of counts and compares it with the segments. Errors: NOMEM. */
mrd_err mrd_spool_counts_open(mrd_spool *spool, mrd_why *why);
/* Adds the frames that are about to be committed to the file of counts. */
void mrd_spool_counts_commit(mrd_spool *spool);
void mrd_spool_counts_write(mrd_spool *spool, sequence *seq);
void mrd_spool_counts_write_all(mrd_spool *spool);
/* Saves the sums that the next agent will need if segment `number` is missing. Call this before the
 * removal of the segment. The sums stay in the file until the slots of all sessions contain them.
 * Overwrites in place, which works on a full disk. */
void mrd_spool_counts_going(mrd_spool *spool, uint64_t number);
void mrd_spool_counts_forget(mrd_spool *spool, sequence *seq);
/* Sizes of the lock file's contents: "<boot>\n<origin, hex>\n", followed by zeros. */
#define MRD_SPOOL_BOOT      64u
#define MRD_SPOOL_BOOT_TEXT (MRD_SPOOL_BOOT + 20)
void mrd_spool_counts_name_boot(const mrd_spool *spool, const char text[MRD_SPOOL_BOOT_TEXT]);
/* Reads the copy of the lock file's contents from the file of counts. May be called before the file
 * is opened. *text is unchanged if there is no copy. */
void mrd_spool_counts_read_boot(const mrd_spool *spool, char text[MRD_SPOOL_BOOT_TEXT]);

/* ---- spool_folder.c ---- */

/* Creates the directory if needed, and locks it for this agent. Errors: BUSY, IO. */
mrd_err mrd_spool_lock_dir(mrd_spool *spool, mrd_why *why);
/* Returns true if the directory and our lock file in it still exist. */
bool mrd_spool_is_there(const mrd_spool *spool);
/* Creates a removed directory again and locks it. Copies the old contents of the lock file and the
 * counts into it. On an error the old lock remains. Errors: BUSY, IO. */
mrd_err mrd_spool_folder_again(mrd_spool *spool, mrd_why *why);
void mrd_spool_read_boot(mrd_spool *spool, const char *boot_id, char boot[MRD_SPOOL_BOOT]);
/* Writes the id of the boot into the lock file. Errors: FULL, IO. */
mrd_err mrd_spool_name_boot(const mrd_spool *spool, const char *boot, mrd_why *why);

/* ---- spool_recover.c ---- */

mrd_err mrd_spool_recover(mrd_spool *spool, mrd_why *why);

#endif
