/*
 * aggregator/journal/journal.h - stores received frames on disk: segments of unchanged frames, in one
 * directory per node of a session. docs/reference/wire.md section 7 specifies the files (.mrj).
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
/* size at which a new segment begins; tests/sim uses shorter ones */
#define MRD_SEGMENT_BYTES (64u << 20)
#endif

/* Maximum bytes written since the last sync, with group commits (ensured by journals.c). So a start
 * makes this much of each unclosed segment durable. */
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

/* Appends several frames by few large writes, which cost the system a third of single writes.
 * Returns how many of them, from the first on, are in the journal. If that is less than n, `why`
 * has the error of the next one, and the file is as after a failed append. */
size_t mrd_journal_append_many(mrd_journal *journal, const mrd_journal_chunk *chunks, size_t n,
                               mrd_why *why);
/* Makes all appended frames durable (fdatasync), including names and directories. Errors: IO, FULL.
 * Then nothing after mrd_journal_durable may be acknowledged. It is truncated, so that readers do
 * not take its remains in the page cache for stored data. */
mrd_err mrd_journal_sync(mrd_journal *journal, mrd_why *why);
/* Frames since it was opened: how many were appended, and how many of them are durable. A full
 * segment is synced before the next one begins. Its frames stay if the next segment's sync fails. */
uint64_t mrd_journal_appended(const mrd_journal *journal);
uint64_t mrd_journal_durable(const mrd_journal *journal);
bool mrd_journal_is_dirty(const mrd_journal *journal); /* appended since the last sync */
/* Checks that the open segment still exists under its name. A sync checks this, too; this function
 * is for callers that do not sync. Errors: IO if it was removed or replaced. Then nothing after
 * mrd_journal_durable may be acknowledged, and the next append begins another segment. */
mrd_err mrd_journal_check(mrd_journal *journal, mrd_why *why);
/* The whole file system was synced. `sys` is 0 or the errno of the failure. Errors: as sync. */
mrd_err mrd_journal_synced(mrd_journal *journal, int sys, mrd_why *why);
uint64_t mrd_journal_bytes(const mrd_journal *journal);
/* Syncs, writes the segment's index and closes. So a segment with an index is durable. NULL is
 * fine. The journal is freed also on failure. */
mrd_err mrd_journal_close(mrd_journal *journal, mrd_why *why);

/*
 * Syncs many journals at once. Each fdatasync costs a commit of the file system's log, and a
 * thousand nodes have a thousand files. Where one syncfs gives the same guarantee (ext4, XFS, Btrfs
 * since Linux 5.8), it replaces them while it is faster, which is measured. It also writes the
 * dirty data of other programs on that file system, so a store should have a file system of its
 * own.
 */
typedef struct mrd_journal_syncer mrd_journal_syncer;

/* Returns true if syncfs on the file system of this descriptor reports every error. */
bool mrd_journal_syncfs_tells(int fd);
mrd_err mrd_journal_syncer_open(const char *store, mrd_journal_syncer **ret_syncer, mrd_why *why);
void mrd_journal_syncer_close(mrd_journal_syncer *syncer); /* NULL is fine */
/* Makes count different dirty journals of the store durable. ret_whys[i] has the error of each. Returns
 * the number of system calls. */
size_t mrd_journal_sync_many(mrd_journal_syncer *syncer, mrd_journal *const *journals, size_t count,
                             mrd_why *ret_whys);

/* ---- Reading ---- */

typedef struct {
    mrd_frame frame;
    uint32_t segment; /* index into mrd_journal_index's files */
    uint64_t offset;  /* of the frame in the file */
} mrd_journal_entry;

/* All valid frames of one directory. */
typedef struct {
    mrd_strlist files; /* paths in order */
    bool *closed;      /* per file: it has its index, so all its frames were synced */
    mrd_journal_entry *entries;
    size_t n, cap;
    uint64_t bytes;      /* of valid frames */
    uint64_t duplicates; /* frames stored twice (crash between write and ack); not in the list */
    uint64_t bad_bytes;  /* skipped: damaged or torn */
    uint64_t bad_files;  /* without a valid segment header */
    /* The first read that the system refused, by scan or mrd_journal_read. MRD_OK: none. What it
     * hid looks like damage, but may be readable later. Not NULL. */
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
 * The same for an aggregator that starts and counts the frames that it finds as stored. A
 * predecessor may have been killed before a sync, or a sync may have failed. Then the page cache
 * shows frames that the medium does not have. A sync alone does not help, because pages are clean
 * after a failed write. A failure is reported once per descriptor, or never if it was reported
 * before the descriptor was opened.
 *
 * A page that is written again is dirty again. A failure to write it is then reported by the next
 * fdatasync of a descriptor that was open then (Linux 4.13). The next syncfs of a descriptor of the
 * file system (5.8) reports it, too. So the header and the last MRD_JOURNAL_TAIL bytes of frames of
 * each unclosed segment are checked once more and written again in place.
 *
 * With `each` they are then synced by fdatasync. If that fails, they are written and synced once
 * more, because it may report an earlier failure. Otherwise the caller must call syncfs on a
 * descriptor that was opened before this call. In both cases the caller syncs the names. Errors:
 * errors of scan, and IO (also for a refused read), FULL. Then nothing may be counted.
 */
mrd_err mrd_journal_recover(const char *dir, bool each, mrd_journal_index *ret_index, mrd_why *why);
void mrd_journal_index_fini(mrd_journal_index *index);
/* Reads and checks one frame. *buf is reused and holds the body. With `head_only` reads at most the
 * head of a batch, and does not check the batch's checksum. Errors: IO, TRUNCATED, CORRUPT, NOMEM. */
mrd_err mrd_journal_read(const mrd_journal_index *index, const mrd_journal_entry *entry,
                         bool head_only, mrd_buf *buf, mrd_frame *ret_frame, mrd_bytes *ret_body,
                         mrd_why *why);

/* Batches that a source could not read, completely or from some event on. */
typedef struct {
    uint64_t events, batches;
    mrd_why first; /* err MRD_OK: no batch was damaged */
} mrd_journal_bad;

/*
 * Merges the batches of one node, process and clock into one source, sorted by local time. start_ns
 * and end_ns (local time of that clock) skip batches outside; events of other batches are not cut.
 * Memory: at most `open_max` decoded batches (0 means 8). If more overlap, the others are parked
 * and decoded again. Shares `index`, which must outlive the source. Damaged frames are skipped and
 * added to *bad (may be NULL, outlives the source).
 */
typedef struct {
    const mrd_journal_index *index;
    int64_t process_id;
    unsigned clock;
    uint32_t boot; /* of the frames */
    mrd_ev_ns start, end;
    unsigned open_max;
    uint64_t key; /* of the source */
    mrd_journal_bad *bad;
    /* the node of the journal, which overrides the node that each process names. NULL means no
     * override */
    const char *instance_id;
    bool names_refused; /* the catalog refused names of these batches, so they stay unknown */
    /* Scratch memory for opening a batch. All sources of one thread share it, so that it stays in
     * the cache. Both outlive the source. */
    mrd_codec *codec;
    mrd_buf *frame;
} mrd_journal_source_options;

mrd_err mrd_journal_source(const mrd_journal_source_options *options, mrd_catalog *cat,
                           mrd_source **ret_source, mrd_why *why);

#endif
