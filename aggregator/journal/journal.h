/*
 * aggregator/journal/journal.h - stores received frames on disk. In each session, each node has a
 * directory with files (segments), which contain the node's frames unchanged.
 * docs/reference/wire.md section 7 specifies the files (.mrj).
 *
 * The writer only appends to files. It uses no mmap and no file locks, and never renames an open
 * file, so it works on any POSIX file system. After a crash, the last segment has no index. The
 * next start does not append to this segment, but begins a new one. Readers accept every frame with
 * valid checksums, also after a damaged part of the file.
 *
 * Threads: only one thread at a time may use a writer, or a reader. Readers may run in parallel
 * with the writer.
 */
#ifndef MRD_AGGREGATOR_JOURNAL_JOURNAL_H
#define MRD_AGGREGATOR_JOURNAL_JOURNAL_H

#include "aggregator/core/common/seqset.h"
#include "proto/batch/batch.h"
#include "proto/frame.h"

#define MRD_SEGMENT_HEADER 256u
#ifndef MRD_SEGMENT_BYTES
/* Size in bytes at which a new segment (file) of the journal begins. tests/sim defines a smaller
 * size. */
#define MRD_SEGMENT_BYTES (64u << 20)
#endif

/* Maximum number of bytes written to a journal between two syncs with MRD_SYNC_GROUP (journals.c
 * keeps this limit). So after a crash, at most this many bytes at the end of an unclosed segment
 * may not be durable. mrd_journal_recover writes these bytes again. */
#define MRD_JOURNAL_TAIL MRD_FRAME_MAX

/* ---- Writing: one journal per node and session ---- */

typedef struct mrd_journal mrd_journal;

typedef enum { MRD_SYNC_GROUP, MRD_SYNC_NONE } mrd_sync;

/* Opens a journal in `dir`, which is <session>/journal/<instance_id>. Creates the directory, but
 * opens no file before the first append. */
mrd_err mrd_journal_open(const char *dir, mrd_str instance_id, uint64_t session,
                         mrd_journal **ret_journal, mrd_why *why);
/* Appends one frame, which the caller has checked. After FULL or IO, the file is truncated to its
 * previous contents, or a new segment begins. So the same frame can safely be appended again. */
mrd_err mrd_journal_append(mrd_journal *journal, const mrd_frame *frame, mrd_bytes data,
                           mrd_why *why);

typedef struct {
    const mrd_frame *frame;
    mrd_bytes data;
} mrd_journal_chunk;

/* Appends several frames with a few large writes. This needs a third of the CPU time of single
 * writes. Returns the number of frames, from the first one on, that were appended. If the number is
 * less than n, `why` is the error of the next frame, and the file is as after a failed
 * mrd_journal_append. */
size_t mrd_journal_append_many(mrd_journal *journal, const mrd_journal_chunk *chunks, size_t n,
                               mrd_why *why);
/* Makes all appended frames durable with fdatasync, including the names of files and directories.
 * Errors: IO, FULL. After an error, only the first mrd_journal_durable frames may be acknowledged.
 * The later frames are truncated, because they may exist only in the page cache, and readers would
 * take them for stored data. */
mrd_err mrd_journal_sync(mrd_journal *journal, mrd_why *why);
/* Return how many frames were appended since the journal was opened, and how many of these are
 * durable. The number of durable frames can grow without a sync by the caller, because a full
 * segment is synced before the next one begins. */
uint64_t mrd_journal_appended(const mrd_journal *journal);
uint64_t mrd_journal_durable(const mrd_journal *journal);
/* returns true if a frame was appended since the last sync */
bool mrd_journal_is_dirty(const mrd_journal *journal);
/* Checks that the open segment's file was not removed or replaced. Callers that sync do not need
 * this function, because a sync checks it as well. Errors: IO. After an error, only the first
 * mrd_journal_durable frames may be acknowledged, and the next append begins another segment. */
mrd_err mrd_journal_check(mrd_journal *journal, mrd_why *why);
/* Records that the caller synced the whole file system. `sys` is the result of that sync: 0 or an
 * errno. Errors: as for mrd_journal_sync. */
mrd_err mrd_journal_synced(mrd_journal *journal, int sys, mrd_why *why);
uint64_t mrd_journal_bytes(const mrd_journal *journal);
/* Syncs the open segment, writes its index and closes it. So all frames of a segment with an index
 * are durable. Frees the journal, also after an error. Ignores NULL. */
mrd_err mrd_journal_close(mrd_journal *journal, mrd_why *why);

/*
 * Syncs many journals at once. A thousand nodes have a thousand files, and each fdatasync commits
 * the file system's log. On ext4, XFS and Btrfs since Linux 5.8, one syncfs makes all of them
 * durable. The syncer measures both methods and uses the faster one. A syncfs also writes the dirty
 * data of other programs on the same file system. So the store should have its own file system.
 */
typedef struct mrd_journal_syncer mrd_journal_syncer;

/* Returns true if syncfs reports every write error on the file system of this descriptor. */
bool mrd_journal_syncfs_tells(int fd);
mrd_err mrd_journal_syncer_open(const char *store, mrd_journal_syncer **ret_syncer, mrd_why *why);
void mrd_journal_syncer_close(mrd_journal_syncer *syncer); /* ignores NULL */
/* Makes `count` different journals durable, which all belong to the store and have frames to sync.
 * Stores the error of journals[i] in ret_whys[i]. Returns the number of system calls. */
size_t mrd_journal_sync_many(mrd_journal_syncer *syncer, mrd_journal *const *journals, size_t count,
                             mrd_why *ret_whys);

/* ---- Reading a journal ---- */

typedef struct {
    mrd_frame frame;
    uint32_t segment; /* index of the segment in `files` of mrd_journal_index */
    uint64_t offset;  /* offset of the frame in the segment's file */
} mrd_journal_entry;

/* A list of all valid frames in the journal of one node. */
typedef struct {
    mrd_strlist files; /* paths of the segments, in the order of their numbers */
    /* for each file: true if the file has an index, which means that all its frames were synced */
    bool *closed;
    mrd_journal_entry *entries;
    size_t n, cap;
    uint64_t bytes; /* total size of the valid frames */
    /* number of repeated frames, which are not listed. A node sends a frame again if it got no
     * acknowledgement */
    uint64_t duplicates;
    uint64_t bad_bytes; /* bytes that were skipped because they are damaged or incomplete */
    uint64_t bad_files; /* number of files without a valid segment header */
    /* Error of the first failed open or read of a segment; MRD_OK if there is none. The unread data
     * is counted as damaged, but may be readable later. mrd_journal_scan and mrd_journal_read set
     * the error. The pointer is never NULL. */
    mrd_why *refused;
} mrd_journal_index;

/*
 * Lists the frames of a journal without decoding them. For a closed segment, reads the index.
 * Otherwise reads the whole file and checks all checksums. Damage is not an error, and is counted
 * in the index. A failed read is not an error either, and is stored in `refused`. A missing
 * directory gives an empty list. Errors: IO (a file or directory cannot be opened), NOMEM.
 */
mrd_err mrd_journal_scan(const char *dir, mrd_journal_index *ret_index, mrd_why *why);
/*
 * Lists the frames like mrd_journal_scan, and also makes them durable. A starting aggregator uses
 * this function, because it counts all found frames as stored. An earlier process may have been
 * killed before a sync, or a sync may have failed. Then some frames exist only in the page cache.
 * Another sync alone does not write these frames, because Linux marks pages as clean after a failed
 * write. Each descriptor reports a failed write only once, and a descriptor opened later may not
 * report it.
 *
 * If a page is written again, it is dirty again. If writing it to disk then fails, the next
 * fdatasync of a descriptor that was already open reports the error (Linux 4.13). The next syncfs
 * of an open descriptor of the file system also reports it (Linux 5.8). So this function checks the
 * header and the last MRD_JOURNAL_TAIL bytes of frames of each unclosed segment once more, and
 * writes them again in place.
 *
 * If `each` is true, the function then syncs each of these segments with fdatasync. If that fails,
 * it writes and syncs the data once more, because the error may be from an earlier failure. If
 * `each` is false, the caller must call syncfs on a descriptor that was opened before this call. In
 * both cases, the caller must sync the directories. Errors: errors of mrd_journal_scan, IO (also
 * for a failed read), FULL. After an error, no frame may be counted as stored.
 */
mrd_err mrd_journal_recover(const char *dir, bool each, mrd_journal_index *ret_index, mrd_why *why);
void mrd_journal_index_fini(mrd_journal_index *index);
/* Reads and checks one frame. *ret_body points into *buf, which the caller may reuse for the next
 * frame. If `head_only` is true, reads only the head of a batch, and does not check the batch's
 * checksum. Errors: IO, TRUNCATED, CORRUPT, NOMEM. */
mrd_err mrd_journal_read(const mrd_journal_index *index, const mrd_journal_entry *entry,
                         bool head_only, mrd_buf *buf, mrd_frame *ret_frame, mrd_bytes *ret_body,
                         mrd_why *why);

/* Counts batches that a source of events could not decode completely. */
typedef struct {
    uint64_t events, batches;
    mrd_why first; /* error of the first damaged batch; MRD_OK if there is none */
} mrd_journal_bad;

/*
 * Options of mrd_journal_source, which merges the batches of one node, process and clock into one
 * source. The source returns events sorted by the time of this clock. It skips batches that lie
 * completely outside of start..end, but returns all events of other batches.
 *
 * At most `open_max` batches (0 means 8) are decoded in memory at the same time. If more batches
 * overlap in time, some are dropped from memory and decoded again later. The source uses `index`,
 * which must outlive it. Damaged frames are skipped and counted in *bad. `bad` may be NULL, and
 * must outlive the source.
 */
typedef struct {
    const mrd_journal_index *index;
    int64_t process_id;
    unsigned clock;
    uint32_t boot; /* key of the boot that the frames must have (mrd_boot_key) */
    mrd_ev_ns start, end;
    unsigned open_max;
    uint64_t key; /* an id by which the caller distinguishes the sources of a merge */
    mrd_journal_bad *bad;
    /* id of the journal's node. If not NULL, it replaces the node id that each process states */
    const char *instance_id;
    /* the catalog refused some names of these batches, so decoding must not add them */
    bool names_refused;
    /* Memory for opening a batch. All sources of a thread share it, so that it stays in the CPU
     * cache. `codec` and `frame` must outlive the source. */
    mrd_codec *codec;
    mrd_buf *frame;
} mrd_journal_source_options;

mrd_err mrd_journal_source(const mrd_journal_source_options *options, mrd_catalog *cat,
                           mrd_source **ret_source, mrd_why *why);

#endif
