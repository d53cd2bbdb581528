/* agent/spool_int.h - inside of agent/spool.h: spool.c (the interface), spool_state.c (the queue),
 * spool_segments.c (the files), spool_counts.c, spool_recover.c (what a predecessor left),
 * spool_folder.c. */
#ifndef MRD_AGENT_SPOOL_INT_H
#define MRD_AGENT_SPOOL_INT_H

#include "agent/spool.h"
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
    uint64_t stored, forced; /* enum answer; taken back from `forced`, negative: added */
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
    uint64_t session, lost; /* stands in place of the one before */
} clock_record;

typedef struct {
    uint64_t number;
    int fd;
    uint64_t len;
    uint64_t live; /* items not done */
    bool failed;   /* to write: the next record begins another */
} segment;

typedef struct {
    mrd_spool_item item;
    uint64_t segment; /* number, 0: only the copy is left */
    uint64_t at;      /* of the frame in it */
    uint8_t *copy;
    bool done, sent;
    bool cut;         /* its answer is not in the segments any more */
    uint8_t recorded; /* at open: its answer, enum answer + 1, of a record. 0 means none */
    uint8_t
        unreported; /* the same, and it is not in the segments: there was no room. 0 means it is */
} entry;

typedef struct {
    uint64_t session, next, committed; /* committed: next as of the last commit */
    mrd_spool_tally tally;
    uint64_t events;             /* ever committed, without those found missing */
    uint64_t missing;            /* ... of those, when this boot began */
    mrd_ev_ns last, answered_to; /* youngest time committed; answered, or the first */
    uint64_t found;              /* committed, of the segments at open */
    int64_t ahead; /* forced as the segments tell it, less tally.forced: what had no room */
    uint64_t
        there; /* of tally.forced: a successor finds the frames, and nothing that completes them */
    uint32_t slot;                      /* place in the file of counts, from 1 */
    uint64_t clock_lost, clock_rescued; /* those of them that wait for their answer in memory */
    mrd_spool_base *base;               /* NULL: none */
    uint32_t note_len;
    bool behind;     /* the segments do not tell all of it, and what did is gone */
    bool spanned;    /* frames of it that wait for their commit are before the last segment */
    bool forgotten;  /* nobody asks for it; such are in order */
    bool note_waits; /* a note waits for the commit */
    uint8_t note[MRD_SPOOL_NOTE];
} sequence;

struct mrd_spool {
    char *dir;
    int lock_fd, counts_fd;
    uint64_t counts_used; /* places in the file of counts */
    uint64_t max_bytes, segment_bytes, epoch, origin;
    uint64_t found_epoch; /* of the segments at open */
    bool rebooted;        /* the first to open the folder in this boot */
    bool behind;          /* sessions are */
    bool going;           /* the counts have sums that wait for a segment to go */
    bool cut;             /* at open: the segments end before what the counts know */
    segment *segments;    /* by number */
    size_t n_segments;
    /* The queue: ids are base + index, done ones at the front are taken off. */
    entry *entries;
    size_t first, n, cap;
    uint64_t unreported;            /* of them, counted */
    uint64_t next_id, committed_id; /* ids below it count */
    mrd_spool_position *positions;  /* of the last commit found at open */
    size_t n_positions;
    uint64_t positions_segment; /* the number of the one they are in. 0 means there are none */
    sequence *sequences;
    size_t n_sequences;
    bool notes_wait; /* of any of them */
    mrd_spool_stats stats;
    mrd_why failure; /* the last of a write */
    void (*dropped)(void *self, const mrd_spool_item *item);
    void *self;
};

/* ---- spool_state.c: the queue in memory ---- */

/* Of a record whose payload is in two parts. */
uint32_t mrd_spool_crc_of(uint32_t kind, mrd_bytes a, mrd_bytes b);
sequence *mrd_spool_find_sequence(const mrd_spool *s, uint64_t session);
mrd_err mrd_spool_take_sequence(mrd_spool *s, uint64_t session, sequence **ret);
mrd_err mrd_spool_set_sequence(mrd_spool *s, uint64_t session, uint64_t at_least);
void mrd_spool_set_epoch(mrd_spool *s, uint64_t epoch);
segment *mrd_spool_find_segment(const mrd_spool *s, uint64_t number);
void mrd_spool_path_of(const mrd_spool *s, uint64_t number, char path[1024]);
/* What the frame says of itself. */
void mrd_spool_describe(entry *e, const mrd_frame *frame);
bool mrd_spool_push_entry(mrd_spool *s, const entry *e);
/* NULL: done, or not of the queue. */
entry *mrd_spool_entry(const mrd_spool *s, uint64_t id);
void mrd_spool_complete(mrd_spool *s, entry *e);
void mrd_spool_set_behind(mrd_spool *s, uint64_t session);
void mrd_spool_commit_sequences(mrd_spool *s);
/* Of every session that is known or has frames: what is counted of it now is its base, and the
 * frames are of an earlier boot. Errors: LIMIT, NOMEM. */
mrd_err mrd_spool_begin_boot(mrd_spool *s);
mrd_err mrd_spool_set_base(sequence *q, const mrd_spool_base *base);
mrd_err mrd_spool_count_answer(mrd_spool *s, const answer_record *a);
bool mrd_spool_discard_uncommitted(mrd_spool *s);
#define MRD_SPOOL_TOLD 64u /* numbers from the first that is not answered on */
/* The first number of the session that is not answered, all before it are; the next to be committed
 * when the queue has none of it. *ret_bits: of the MRD_SPOOL_TOLD from there, those answered have one. */
uint64_t mrd_spool_unanswered(const mrd_spool *s, const sequence *q, uint64_t *ret_bits);
/* Of the tally, what a successor sees to be answered: it finds again what the segments do not tell, nor,
 * with `counts`, the counts. */
void mrd_spool_known(const mrd_spool *s, const sequence *q, bool counts, uint64_t *ret_delivered,
                     uint64_t *ret_refused);
/* The same of what its base knows. */
uint64_t mrd_spool_known_before(const mrd_spool *s, const sequence *q);

/* ---- spool_segments.c: the files ---- */

/* The last segment does: its file was not removed, and did not refuse the last record for another reason
 * than want of room. */
bool mrd_spool_takes_records(const mrd_spool *s);
/* Errors: FULL, IO, with errno. */
mrd_err mrd_spool_write_record(segment *seg, uint32_t kind, mrd_bytes a, mrd_bytes b);
mrd_err mrd_spool_write_clock(segment *seg, const sequence *q);
/* The sessions that are behind, into the last segment, up to the available room. */
void mrd_spool_catch_up(mrd_spool *s);
mrd_err mrd_spool_new_segment(mrd_spool *s, mrd_why *why);
void mrd_spool_remove_segment(mrd_spool *s, size_t i);
bool mrd_spool_write_answer(mrd_spool *s, const answer_record *a); /* false: no room */
mrd_err mrd_spool_write_boot(mrd_spool *s);

/* ---- spool_counts.c ---- */

/* Compares what the segments gave with what was counted. Errors: NOMEM. */
mrd_err mrd_spool_counts_open(mrd_spool *s, mrd_why *why);
/* Adds the frames that are about to be committed. */
void mrd_spool_counts_commit(mrd_spool *s);
void mrd_spool_counts_write(mrd_spool *s, sequence *q);
void mrd_spool_counts_write_all(mrd_spool *s);
/* Before a segment is removed: the sums that a successor reads when it does not find it any more, until
 * all places have them. Written over in place, so that a full disk has room. */
void mrd_spool_counts_going(mrd_spool *s, uint64_t number);
void mrd_spool_counts_forget(mrd_spool *s, sequence *q);
/* What the lock file says: "<boot>\n<origin, hex>\n", with zeros behind it. */
#define MRD_SPOOL_BOOT      64u
#define MRD_SPOOL_BOOT_TEXT (MRD_SPOOL_BOOT + 20)
void mrd_spool_counts_name_boot(const mrd_spool *s, const char text[MRD_SPOOL_BOOT_TEXT]);
/* Before they are opened; *text stays where they do not say it. */
void mrd_spool_counts_read_boot(const mrd_spool *s, char text[MRD_SPOOL_BOOT_TEXT]);

/* ---- spool_folder.c ---- */

/* Makes the folder and takes it. Errors: BUSY, IO. */
mrd_err mrd_spool_lock_dir(mrd_spool *s, mrd_why *why);
/* The folder and our lock in it were not removed. */
bool mrd_spool_is_there(const mrd_spool *s);
/* Makes the folder anew and takes it, with lock and counts as they were. Errors: BUSY, IO; the old lock
 * stays. */
mrd_err mrd_spool_folder_again(mrd_spool *s, mrd_why *why);
void mrd_spool_read_boot(mrd_spool *s, const char *boot_id, char boot[MRD_SPOOL_BOOT]);
/* Errors: FULL, IO. */
mrd_err mrd_spool_name_boot(const mrd_spool *s, const char *boot, mrd_why *why);

/* ---- spool_recover.c ---- */

mrd_err mrd_spool_recover(mrd_spool *s, mrd_why *why);

#endif
