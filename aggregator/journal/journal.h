/*
 * aggregator/journal/journal.h - stores received frames on disk. Each node of a session has one
 * directory, with files (segments) of unchanged frames. docs/reference/wire.md section 7 specifies
 * the files (.mrj).
 *
 * The writer only appends. It uses no mmap, no locks, and no rename of open files, so that any
 * POSIX file system will do. A segment that was not closed because of a crash is never appended to:
 * the next start opens a new one. Readers take every frame with valid checksums, also after a
 * damaged part.
 *
 * Threads: a writer and a reader belong to one thread each. Readers may run in parallel with the
 * writer.
 */
#ifndef MRD_AGGREGATOR_JOURNAL_JOURNAL_H
#define MRD_AGGREGATOR_JOURNAL_JOURNAL_H

#include "aggregator/core/common/seqset.h"
#include "proto/batch/batch.h"
#include "proto/frame.h"

#define MRD_SEGMENT_HEADER 256u
#ifndef MRD_SEGMENT_BYTES
/* Size at which a new segment begins. tests/sim defines a smaller size. */
#define MRD_SEGMENT_BYTES (64u << 20)
#endif

/* Maximum number of bytes written since the last sync, with group commits (journals.c ensures
 * this). So recovery after a crash makes at most this many bytes of each unclosed segment durable
 * again. */
#define MRD_JOURNAL_TAIL MRD_FRAME_MAX

/* ---- Writing: one per node and session ---- */

typedef struct mrd_journal mrd_journal;

typedef enum { MRD_SYNC_GROUP, MRD_SYNC_NONE } mrd_sync;

/* `dir` is <session>/journal/<instance_id>, which is created. Opens no file before the first
 * append. */
mrd_err mrd_journal_open(const char *dir, mrd_str instance_id, uint64_t session,
                         mrd_journal **ret_journal, mrd_why *why);
/* Appends one checked frame. After FULL or IO the file is truncated to its previous contents (or
 * abandoned, and a new segment begins), so a later append of the same frame is safe. */
mrd_err mrd_journal_append(mrd_journal *journal, const mrd_frame *frame, mrd_bytes data,
                           mrd_why *why);

typedef struct {
    const mrd_frame *frame;
    mrd_bytes data;
} mrd_journal_chunk;

/* Appends several frames with a few large writes, which take a third of the CPU time of single
 * writes. Returns how many of them, from the first on, are in the journal. If that is less than n,
 * `why` has the error of the next one, and the file is as after a failed append. */
size_t mrd_journal_append_many(mrd_journal *journal, const mrd_journal_chunk *chunks, size_t n,
                               mrd_why *why);
/* Makes all appended frames durable (fdatasync), including names and directories. Errors: IO, FULL.
 * After an error no frame after the first mrd_journal_durable frames may be acknowledged. These
 * frames are truncated, so that readers do not take their remains in the page cache for stored
 * data. */
mrd_err mrd_journal_sync(mrd_journal *journal, mrd_why *why);
/* Return how many frames were appended since the journal was opened, and how many of these are
 * durable. A full segment is synced before the next one begins. Its frames stay if the next
 * segment's sync fails. */
uint64_t mrd_journal_appended(const mrd_journal *journal);
uint64_t mrd_journal_durable(const mrd_journal *journal);
/* true if a frame was appended since the last sync */
bool mrd_journal_is_dirty(const mrd_journal *journal);
/* Checks that the open segment still exists under its name. A sync checks this, too; this function
 * is for callers that do not sync. Errors: IO if it was removed or replaced. After an error no
 * frame after the first mrd_journal_durable frames may be acknowledged, and the next append begins
 * another segment. */
mrd_err mrd_journal_check(mrd_journal *journal, mrd_why *why);
/* Notes that the caller synced the whole file system. `sys` is 0 or the errno of that sync. Errors:
 * errors of mrd_journal_sync. */
mrd_err mrd_journal_synced(mrd_journal *journal, int sys, mrd_why *why);
uint64_t mrd_journal_bytes(const mrd_journal *journal);
/* Syncs the open segment, writes its index and closes it, so a segment with an index is durable.
 * Frees the journal, also after an error. Does nothing for NULL. */
mrd_err mrd_journal_close(mrd_journal *journal, mrd_why *why);

/*
 * Syncs many journals at once. Each fdatasync costs a commit of the file system's log, and a
 * thousand nodes have a thousand files. On ext4, XFS and Btrfs since Linux 5.8 one syncfs gives the
 * same guarantee. It is used while measurements show that it is faster. A syncfs also writes the
 * dirty data of other programs on that file system, so a store should have a file system of its
 * own.
 */
typedef struct mrd_journal_syncer mrd_journal_syncer;

/* Returns true if syncfs reports every error on the file system of this descriptor. */
bool mrd_journal_syncfs_tells(int fd);
mrd_err mrd_journal_syncer_open(const char *store, mrd_journal_syncer **ret_syncer, mrd_why *why);
void mrd_journal_syncer_close(mrd_journal_syncer *syncer); /* does nothing for NULL */
/* Makes `count` different dirty journals of the store durable. Stores the error of journals[i] in
 * ret_whys[i]. Returns the number of system calls. */
size_t mrd_journal_sync_many(mrd_journal_syncer *syncer, mrd_journal *const *journals, size_t count,
                             mrd_why *ret_whys);

/* ---- Reading ---- */

typedef struct {
    mrd_frame frame;
    uint32_t segment; /* index into mrd_journal_index's files */
    uint64_t offset;  /* offset of the frame in the file */
} mrd_journal_entry;

/* A list of all valid frames in the journal of one node. */
typedef struct {
    mrd_strlist files; /* paths of the segments, in the order of their numbers */
    bool *closed;      /* for each file, true if it has an index, so all its frames were synced */
    mrd_journal_entry *entries;
    size_t n, cap;
    uint64_t bytes; /* bytes of valid frames */
    /* repeated frames, not listed; a node sends a frame again if no ack came before a crash */
    uint64_t duplicates;
    uint64_t bad_bytes; /* bytes that were skipped because they are damaged or incomplete */
    uint64_t bad_files; /* files without a valid segment header */
    /* Error of the first read that the system refused, in mrd_journal_scan or mrd_journal_read;
     * MRD_OK if none. The unread data looks like damage, but may be readable later. The pointer is
     * never NULL. */
    mrd_why *refused;
} mrd_journal_index;

/*
 * Lists the frames of a directory without decoding them. Closed segments are listed by their index,
 * others by a scan that checks all checksums. Damage is counted and is not an error, and neither is
 * a refused read. Errors: IO (a file or directory cannot be opened), NOMEM. A missing directory is
 * an empty index.
 */
mrd_err mrd_journal_scan(const char *dir, mrd_journal_index *ret_index, mrd_why *why);
/*
 * Like mrd_journal_scan, but also makes the frames durable. It is for an aggregator that starts and
 * counts the frames that it finds as stored. A predecessor may have been killed before a sync, or a
 * sync may have failed. Then the page cache shows frames that the medium does not have. A sync
 * alone does not help, because pages are clean after a failed write. A failure is reported once per
 * descriptor, or never if it was reported before the descriptor was opened.
 *
 * A page that is written again is dirty again. If writing it to disk then fails, the next fdatasync
 * of a descriptor that was already open reports the error (Linux 4.13). The next syncfs of an open
 * descriptor of the file system also reports it (Linux 5.8). So the header and the last
 * MRD_JOURNAL_TAIL bytes of frames of each unclosed segment are checked once more and written again
 * in place.
 *
 * With `each` each segment is then synced by fdatasync. If fdatasync fails, the data is written and
 * synced once more, because the error may be from an earlier failure. Otherwise the caller must
 * call syncfs on a descriptor that was opened before this call. In both cases the caller syncs the
 * names. Errors: errors of mrd_journal_scan, IO (also for a refused read), FULL. After an error no
 * frame may be counted as stored.
 */
mrd_err mrd_journal_recover(const char *dir, bool each, mrd_journal_index *ret_index, mrd_why *why);
void mrd_journal_index_fini(mrd_journal_index *index);
/* Reads and checks one frame. *ret_body points into *buf, which the caller may reuse for the next
 * frame. With `head_only` the function reads at most the head of a batch, and does not check the
 * batch's checksum. Errors: IO, TRUNCATED, CORRUPT, NOMEM. */
mrd_err mrd_journal_read(const mrd_journal_index *index, const mrd_journal_entry *entry,
                         bool head_only, mrd_buf *buf, mrd_frame *ret_frame, mrd_bytes *ret_body,
                         mrd_why *why);

/* Batches that a source could not decode, either the whole batch or its end. */
typedef struct {
    uint64_t events, batches;
    mrd_why first; /* error of the first damaged batch; MRD_OK if there is none */
} mrd_journal_bad;

/*
 * Merges the batches of one node, process and clock into one source, sorted by local time. Batches
 * completely outside of start_ns .. end_ns (local time of that clock) are skipped; other batches
 * keep all their events. Memory: at most `open_max` decoded batches (0 means 8). If more batches
 * overlap in time, some are dropped from memory and decoded again later. Shares `index`, which must
 * outlive the source. Damaged frames are skipped and added to *bad (may be NULL, outlives the
 * source).
 */
typedef struct {
    const mrd_journal_index *index;
    int64_t process_id;
    unsigned clock;
    uint32_t boot; /* boot key that the frames must have */
    mrd_ev_ns start, end;
    unsigned open_max;
    uint64_t key; /* identifies the source in the merge */
    mrd_journal_bad *bad;
    /* the node of the journal. It overrides the node that each process names; NULL means no
     * override */
    const char *instance_id;
    /* the catalog refused names from these batches, so these names stay unknown */
    bool names_refused;
    /* Scratch memory for opening a batch. All sources of one thread share it, so that it stays in
     * the cache. Both outlive the source. */
    mrd_codec *codec;
    mrd_buf *frame;
} mrd_journal_source_options;

mrd_err mrd_journal_source(const mrd_journal_source_options *options, mrd_catalog *cat,
                           mrd_source **ret_source, mrd_why *why);

#endif
