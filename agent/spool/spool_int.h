/* agent/spool/spool_int.h - internals of agent/spool/spool.h: spool.c (the interface),
 * spool_state.c (the queue), spool_segments.c (the files), spool_counts.c, spool_recover.c (data of
 * a previous agent), spool_folder.c */
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
    /* stored: an enum answer. forced: subtracted from `forced`, added if negative */
    uint64_t stored, forced;
} answer_record;

enum answer { ANSWER_REFUSED, ANSWER_STORED, ANSWER_BEFORE };

typedef struct {
    uint64_t session, begun, held, known, delivered, refused, forced, damaged;
} base_record; /* followed by the session's note */

typedef struct {
    uint32_t positions, notes;
} commit_head; /* followed by the positions, then the notes */

typedef struct {
    uint64_t session;
    uint32_t len, zero;
} note_head; /* followed by the bytes of the note */

typedef struct {
    uint64_t session, lost; /* lost: replaces the value of the session's previous record */
} clock_record;

typedef struct {
    uint64_t number;
    int fd;
    uint64_t len;
    uint64_t live; /* number of its frames that are still in the queue */
    bool failed;   /* the segment cannot be written, so the next record begins another segment */
} segment;

typedef struct {
    mrd_spool_item item;
    uint64_t segment; /* number of its segment; 0 means that only the copy in memory is left */
    uint64_t at;      /* position of the frame in the segment */
    uint8_t *copy;
    bool done, sent;
    bool cut; /* the record of its answer was lost with the end of the segments */
    /* answer to the frame in a record found at open, as enum answer + 1; 0 means none */
    uint8_t recorded;
    /* answer that no segment contains for lack of room, as enum answer + 1; 0 means none */
    uint8_t unreported;
} entry;

typedef struct {
    uint64_t session, next, committed; /* `committed` is `next` at the last commit */
    mrd_spool_tally tally;
    uint64_t events;  /* events committed up to now, without events that were found missing */
    uint64_t missing; /* number of events that were missing at the beginning of this boot */
    /* last: latest time in committed frames. answered_to: latest time in answered frames, or the
     * first time of the first frame with events if none is answered. */
    mrd_ev_ns last, answered_to;
    uint64_t found; /* sequence number after the last committed one in the segments found at open */
    /* `forced` as the segments count it, minus tally.forced. Negative if there was no room to
     * record drops. */
    int64_t ahead;
    /* the part of tally.forced in frames that the next agent would find again, because there was no
     * room to record that they were dropped */
    uint64_t there;
    uint32_t slot; /* slot in the file of counts, counted from 1; 0 means none */
    /* the part of clock_lost in frames that wait in memory for their answer */
    uint64_t clock_lost, clock_rescued;
    mrd_spool_base *base; /* counts at the beginning of this boot; NULL means none */
    uint32_t note_len;
    bool behind;    /* the newest segment lacks the session's current state */
    bool spanned;   /* some of its uncommitted frames are in earlier segments */
    bool forgotten; /* the session was removed; these entries are last, sorted by time of removal */
    bool note_waits; /* `note` is newer than the last commit */
    bool unanswered; /* at open: the segments lack records of answers that their sums include */
    uint8_t note[MRD_SPOOL_NOTE];
} sequence;

struct mrd_spool {
    char *dir;
    int lock_fd, counts_fd;
    uint64_t counts_used; /* bits of the used slots in the file of counts */
    uint64_t max_bytes, segment_bytes, epoch, origin;
    uint64_t found_epoch; /* epoch of the segments found at open */
    /* this agent is the first to open the directory in this boot, or has to count as if it were */
    bool rebooted;
    bool holed; /* at open: records are missing before the current one */
    bool behind;       /* some session has `behind` set */
    bool going;        /* the file of counts holds sums for a segment that is to be removed */
    bool cut;          /* at open: the end of the segments was lost, compared with the counts */
    segment *segments; /* in ascending order of their numbers */
    size_t n_segments;
    /* The queue: ids are base + index. Completed entries at the front are removed. */
    entry *entries;
    size_t first, n, cap;
    uint64_t unreported;            /* number of entries with `unreported` set */
    uint64_t next_id, committed_id; /* frames with ids below committed_id are committed */
    mrd_spool_position *positions;  /* positions in the last commit that was found at open */
    size_t n_positions;
    uint64_t positions_segment; /* number of the segment with the positions; 0 means none */
    sequence *sequences;
    size_t n_sequences;
    bool notes_wait; /* some sequence has note_waits set */
    mrd_spool_stats stats;
    mrd_why failure; /* reason of the last failed write */
    void (*dropped)(void *self, const mrd_spool_item *item);
    void *self;
};

/* ---- spool_state.c: the queue in memory ---- */

/* Computes the checksum of a record with a payload in two parts. */
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
/* Returns the entry of a frame. NULL if the frame is completed or not in the queue. */
entry *mrd_spool_entry(const mrd_spool *spool, uint64_t id);
void mrd_spool_complete(mrd_spool *spool, entry *ent);
void mrd_spool_set_behind(mrd_spool *spool, uint64_t session);
void mrd_spool_commit_sequences(mrd_spool *spool);
/* Begins a new boot: the current counts of every session in the spool become its base, and all
 * frames are marked as of an earlier boot. Errors: LIMIT, NOMEM. */
mrd_err mrd_spool_begin_boot(mrd_spool *spool);
mrd_err mrd_spool_set_base(sequence *seq, const mrd_spool_base *base);
mrd_err mrd_spool_count_answer(mrd_spool *spool, const answer_record *record);
bool mrd_spool_discard_uncommitted(mrd_spool *spool);
#define MRD_SPOOL_TOLD 64u /* number of sequence numbers that *ret_bits covers */
/* Returns the first unanswered number of the session, or the next one to commit if the queue has
 * none. *ret_bits has a bit for each answered number among the MRD_SPOOL_TOLD numbers from
 * there. */
uint64_t mrd_spool_unanswered(const mrd_spool *spool, const sequence *seq, uint64_t *ret_bits);
/* Gets the sums of answers that the next agent will know from the files. The next agent finds
 * frames again if their answer is not in the segments and, with `counts`, not in the counts. */
void mrd_spool_known(const mrd_spool *spool, const sequence *seq, bool counts,
                     uint64_t *ret_delivered, uint64_t *ret_refused);
/* As mrd_spool_known, for `known` of the session's base. */
uint64_t mrd_spool_known_before(const mrd_spool *spool, const sequence *seq);

/* ---- spool_segments.c: the files ---- */

/* Returns true if the last segment accepts records: its file was not removed, and no write failed
 * for another reason than a full disk. */
bool mrd_spool_takes_records(const mrd_spool *spool);
/* Appends one record to the segment. Errors: FULL, IO, with errno. */
mrd_err mrd_spool_write_record(segment *seg, uint32_t kind, mrd_bytes a, mrd_bytes b);
mrd_err mrd_spool_write_clock(segment *seg, const sequence *seq);
/* Writes the sessions that are behind into the last segment, up to the available room. */
void mrd_spool_catch_up(mrd_spool *spool);
mrd_err mrd_spool_new_segment(mrd_spool *spool, mrd_why *why);
void mrd_spool_remove_segment(mrd_spool *spool, size_t i);
/* Returns false if there was no room for the record. */
bool mrd_spool_write_answer(mrd_spool *spool, const answer_record *a);
mrd_err mrd_spool_write_boot(mrd_spool *spool);

/* ---- spool_counts.c ---- */

/* Returns true if the records of some answers are lost, and the file of counts does not have them,
 * either. To be called before mrd_spool_counts_open. */
bool mrd_spool_counts_lack(const mrd_spool *spool);
/* Compares the contents of the segments with the counts. Errors: NOMEM. */
mrd_err mrd_spool_counts_open(mrd_spool *spool, mrd_why *why);
/* Adds the frames that are about to be committed to the counts. */
void mrd_spool_counts_commit(mrd_spool *spool);
void mrd_spool_counts_write(mrd_spool *spool, sequence *seq);
void mrd_spool_counts_write_all(mrd_spool *spool);
/* Called before a segment is removed: writes the sums that the next agent needs without it, until
 * all slots have them. Overwrites in place, which works on a full disk. */
void mrd_spool_counts_going(mrd_spool *spool, uint64_t number);
void mrd_spool_counts_forget(mrd_spool *spool, sequence *seq);
/* Contents of the lock file: "<boot>\n<origin, hex>\n", followed by zeros. */
#define MRD_SPOOL_BOOT      64u
#define MRD_SPOOL_BOOT_TEXT (MRD_SPOOL_BOOT + 20)
void mrd_spool_counts_name_boot(const mrd_spool *spool, const char text[MRD_SPOOL_BOOT_TEXT]);
/* Reads the file of counts' copy of that text, before the counts are opened. *text is unchanged if
 * there is no copy. */
void mrd_spool_counts_read_boot(const mrd_spool *spool, char text[MRD_SPOOL_BOOT_TEXT]);

/* ---- spool_folder.c ---- */

/* Creates the directory if needed, and locks it for this agent. Errors: BUSY, IO. */
mrd_err mrd_spool_lock_dir(mrd_spool *spool, mrd_why *why);
/* Returns true if the directory and our lock file in it still exist. */
bool mrd_spool_is_there(const mrd_spool *spool);
/* Creates a removed directory again and locks it, with the same contents of lock file and counts.
 * The old lock is kept. Errors: BUSY, IO. */
mrd_err mrd_spool_folder_again(mrd_spool *spool, mrd_why *why);
void mrd_spool_read_boot(mrd_spool *spool, const char *boot_id, char boot[MRD_SPOOL_BOOT]);
/* Writes the boot into the lock file. Errors: FULL, IO. */
mrd_err mrd_spool_name_boot(const mrd_spool *spool, const char *boot, mrd_why *why);

/* ---- spool_recover.c ---- */

mrd_err mrd_spool_recover(mrd_spool *spool, mrd_why *why);

#endif
