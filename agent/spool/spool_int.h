/* agent/spool/spool_int.h - internals of agent/spool/spool.h: spool.c (the interface), spool_state.c (the
 * queue), spool_segments.c (the files), spool_counts.c, spool_recover.c (data of a predecessor),
 * spool_folder.c */
#ifndef MRD_AGENT_SPOOL_SPOOL_INT_H
#define MRD_AGENT_SPOOL_SPOOL_INT_H

#include "agent/spool/spool.h"
#include "base/buf.h"

#define RECORD_MAGIC 0x5053524du /* "MRSP" */

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
    uint64_t epoch, session, next, delivered, refused, forced; /* then the note */
} session_record;

typedef struct {
    uint64_t epoch, session, seq, events;
    uint64_t stored, forced; /* enum answer; withdrawn from `forced`, negative if added */
} answer_record;

enum answer { ANSWER_REFUSED, ANSWER_STORED, ANSWER_BEFORE };

typedef struct {
    uint64_t session, begun, held, known, delivered, refused, forced, damaged;
} base_record; /* then the note */

typedef struct {
    uint32_t positions, notes;
} commit_head; /* then the positions, then the notes */

typedef struct {
    uint64_t session;
    uint32_t len, zero;
} note_head; /* then its bytes */

typedef struct {
    uint64_t session, lost; /* replaces the previous one */
} clock_record;

typedef struct {
    uint64_t number;
    int fd;
    uint64_t len;
    uint64_t live; /* items not done */
    bool failed;   /* cannot be written: the next record begins another segment */
} segment;

typedef struct {
    mrd_spool_item item;
    uint64_t segment; /* number; 0 means that only the copy in memory is left */
    uint64_t at;      /* of the frame in it */
    uint8_t *copy;
    bool done, sent;
    bool cut;           /* its answer is not in the segments any more */
    uint8_t recorded;   /* at open: its answer in a record, enum answer + 1. 0 means none */
    uint8_t unreported; /* the same, but missing in the segments for lack of room. 0 means none */
} entry;

typedef struct {
    uint64_t session, next, committed; /* `committed` is `next` at the last commit */
    mrd_spool_tally tally;
    uint64_t events;             /* committed up to now, without events that were found missing */
    uint64_t missing;            /* ... of those, at the beginning of this boot */
    mrd_ev_ns last, answered_to; /* latest committed time; latest answered time, or the first */
    uint64_t found;              /* committed, in the segments found at open */
    /* `forced` according to the segments minus tally.forced: drops that had no room */
    int64_t ahead;
    uint64_t there; /* of tally.forced: a successor finds the frames, but no record of their end */
    uint32_t slot;  /* index in the file of counts, from 1 */
    uint64_t clock_lost, clock_rescued; /* of those, frames that wait for their answer in memory */
    mrd_spool_base *base;               /* NULL: none */
    uint32_t note_len;
    bool behind;     /* the segments lack a part of it, and its earlier records were removed */
    bool spanned;    /* frames that wait for their commit are in earlier segments */
    bool forgotten;  /* no session has it any more; sorted by time */
    bool note_waits; /* a note waits for the commit */
    uint8_t note[MRD_SPOOL_NOTE];
} sequence;

struct mrd_spool {
    char *dir;
    int lock_fd, counts_fd;
    uint64_t counts_used; /* slots in the file of counts */
    uint64_t max_bytes, segment_bytes, epoch, origin;
    uint64_t found_epoch; /* of the segments at open */
    bool rebooted;        /* the first to open the folder in this boot */
    bool behind;          /* sessions are */
    bool going;           /* the counts have sums that wait for the removal of a segment */
    bool cut;             /* at open: the segments end before the counts */
    segment *segments;    /* by number */
    size_t n_segments;
    /* The queue: ids are base + index. Completed entries at the front are removed. */
    entry *entries;
    size_t first, n, cap;
    uint64_t unreported;            /* of them, counted */
    uint64_t next_id, committed_id; /* ids below it count */
    mrd_spool_position *positions;  /* of the last commit that was found at open */
    size_t n_positions;
    uint64_t positions_segment; /* number of the segment with them. 0 means none */
    sequence *sequences;
    size_t n_sequences;
    bool notes_wait; /* of any of them */
    mrd_spool_stats stats;
    mrd_why failure; /* the last of a write */
    void (*dropped)(void *self, const mrd_spool_item *item);
    void *self;
};

/* ---- spool_state.c: the queue in memory ---- */

/* Computes the checksum of a record with a payload in two parts. */
uint32_t mrd_spool_crc_of(uint32_t kind, mrd_bytes bytes, mrd_bytes b);
sequence *mrd_spool_find_sequence(const mrd_spool *spool, uint64_t session);
mrd_err mrd_spool_take_sequence(mrd_spool *spool, uint64_t session, sequence **ret);
mrd_err mrd_spool_set_sequence(mrd_spool *spool, uint64_t session, uint64_t at_least);
void mrd_spool_set_epoch(mrd_spool *spool, uint64_t epoch);
segment *mrd_spool_find_segment(const mrd_spool *spool, uint64_t number);
void mrd_spool_path_of(const mrd_spool *spool, uint64_t number, char path[1024]);
/* Fills the entry from the frame's header. */
void mrd_spool_describe(entry *ent, const mrd_frame *frame);
bool mrd_spool_push_entry(mrd_spool *spool, const entry *ent);
/* Returns NULL if it is completed or not in the queue. */
entry *mrd_spool_entry(const mrd_spool *spool, uint64_t id);
void mrd_spool_complete(mrd_spool *spool, entry *ent);
void mrd_spool_set_behind(mrd_spool *spool, uint64_t session);
void mrd_spool_commit_sequences(mrd_spool *spool);
/* For every recorded session and every session with frames: its current counts become its base, and
 * its frames are of an earlier boot. Errors: LIMIT, NOMEM. */
mrd_err mrd_spool_begin_boot(mrd_spool *spool);
mrd_err mrd_spool_set_base(sequence *seq, const mrd_spool_base *base);
mrd_err mrd_spool_count_answer(mrd_spool *spool, const answer_record *record);
bool mrd_spool_discard_uncommitted(mrd_spool *spool);
#define MRD_SPOOL_TOLD 64u /* numbers from the first unanswered one on */
/* Returns the first unanswered number of the session, or the next one to commit if the queue has
 * none. *ret_bits has a bit for each answered number among the MRD_SPOOL_TOLD numbers from there. */
uint64_t mrd_spool_unanswered(const mrd_spool *spool, const sequence *seq, uint64_t *ret_bits);
/* Gets the answers that a successor will know. It sees frames again if their answer is not in the
 * segments and, with `counts`, not in the counts. */
void mrd_spool_known(const mrd_spool *spool, const sequence *seq, bool counts,
                     uint64_t *ret_delivered, uint64_t *ret_refused);
/* The same for its base. */
uint64_t mrd_spool_known_before(const mrd_spool *spool, const sequence *seq);

/* ---- spool_segments.c: the files ---- */

/* Returns true if the last segment accepts records: its file was not removed, and no write failed
 * for another reason than a full disk. */
bool mrd_spool_takes_records(const mrd_spool *spool);
/* Errors: FULL, IO, with errno. */
mrd_err mrd_spool_write_record(segment *seg, uint32_t kind, mrd_bytes bytes, mrd_bytes b);
mrd_err mrd_spool_write_clock(segment *seg, const sequence *seq);
/* Writes the sessions that are behind into the last segment, up to the available room. */
void mrd_spool_catch_up(mrd_spool *spool);
mrd_err mrd_spool_new_segment(mrd_spool *spool, mrd_why *why);
void mrd_spool_remove_segment(mrd_spool *spool, size_t i);
bool mrd_spool_write_answer(mrd_spool *spool, const answer_record *a); /* false: no room */
mrd_err mrd_spool_write_boot(mrd_spool *spool);

/* ---- spool_counts.c ---- */

/* Compares the contents of the segments with the counts. Errors: NOMEM. */
mrd_err mrd_spool_counts_open(mrd_spool *spool, mrd_why *why);
/* Adds the frames that are about to be committed. */
void mrd_spool_counts_commit(mrd_spool *spool);
void mrd_spool_counts_write(mrd_spool *spool, sequence *seq);
void mrd_spool_counts_write_all(mrd_spool *spool);
/* Called before a segment is removed: writes the sums that a successor needs without it, until all
 * slots have them. Overwrites in place, which works on a full disk. */
void mrd_spool_counts_going(mrd_spool *spool, uint64_t number);
void mrd_spool_counts_forget(mrd_spool *spool, sequence *seq);
/* Contents of the lock file: "<boot>\n<origin, hex>\n", followed by zeros. */
#define MRD_SPOOL_BOOT      64u
#define MRD_SPOOL_BOOT_TEXT (MRD_SPOOL_BOOT + 20)
void mrd_spool_counts_name_boot(const mrd_spool *spool, const char text[MRD_SPOOL_BOOT_TEXT]);
/* Before they are opened; *text stays where they do not say it. */
void mrd_spool_counts_read_boot(const mrd_spool *spool, char text[MRD_SPOOL_BOOT_TEXT]);

/* ---- spool_folder.c ---- */

/* Makes the folder and takes it. Errors: BUSY, IO. */
mrd_err mrd_spool_lock_dir(mrd_spool *spool, mrd_why *why);
/* The folder and our lock in it were not removed. */
bool mrd_spool_is_there(const mrd_spool *spool);
/* Creates the directory again and locks it, with lock and counts as before. Errors: BUSY, IO. The
 * old lock stays. */
mrd_err mrd_spool_folder_again(mrd_spool *spool, mrd_why *why);
void mrd_spool_read_boot(mrd_spool *spool, const char *boot_id, char boot[MRD_SPOOL_BOOT]);
/* Errors: FULL, IO. */
mrd_err mrd_spool_name_boot(const mrd_spool *spool, const char *boot, mrd_why *why);

/* ---- spool_recover.c ---- */

mrd_err mrd_spool_recover(mrd_spool *spool, mrd_why *why);

#endif
