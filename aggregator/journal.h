/*
 * aggregator/journal.h - what was received, on disk: segments of frames as they came, one folder
 * per node of a session. docs/wire.md section 7 is the specification of the files (.mrj).
 *
 * Writing only appends; no mmap, no locks, no rename of files in use, so any POSIX file system will
 * do. A segment that was not closed (crash) is never appended to again: the next start opens a new
 * one, and readers take every frame of the old one whose checksums hold, also behind a damaged
 * part. Threads: a writer and a reader belong to one thread each; readers may run beside the
 * writer.
 */
#ifndef MRD_AGGREGATOR_JOURNAL_H
#define MRD_AGGREGATOR_JOURNAL_H

#include "aggregator/core/seqset.h"
#include "proto/batch.h"
#include "proto/frame.h"

#define MRD_SEGMENT_HEADER 256u
#ifndef MRD_SEGMENT_BYTES
#define MRD_SEGMENT_BYTES (64u << 20) /* a new one is begun beyond; tests/sim has shorter ones */
#endif

/* With group commits no more than this was written since the last sync (journals.c sees to it), so
 * that is what a start makes durable of each segment that was not closed. */
#define MRD_JOURNAL_TAIL MRD_FRAME_MAX

/* ---- Writing: one per node and session ---- */

typedef struct mrd_journal mrd_journal;

typedef enum { MRD_SYNC_GROUP, MRD_SYNC_NONE } mrd_sync;

/* dir: <session>/journal/<instance_id>, created. No file is opened before the first append. */
mrd_err mrd_journal_open(const char *dir, mrd_str instance_id, uint64_t session,
                         mrd_journal **ret_journal, mrd_why *why);
/* Appends one checked frame. After FULL or IO the file is cut back to what it held before (or given
 * up and a new segment begun), so a later append of the same frame is safe. */
mrd_err mrd_journal_append(mrd_journal *j, const mrd_frame *frame, mrd_bytes data, mrd_why *why);

typedef struct {
    const mrd_frame *frame;
    mrd_bytes data;
} mrd_journal_chunk;

/* Several in a row, by few and large writes, which cost the system two thirds of single ones.
 * Returns how many of them are in the journal, from the first on; when that is less than n, why
 * says what the next one failed with, and the file is as after a failed append. */
size_t mrd_journal_append_many(mrd_journal *j, const mrd_journal_chunk *chunks, size_t n,
                               mrd_why *why);
/* Makes everything appended durable (fdatasync), names and folders included. Errors: IO, FULL:
 * nothing behind mrd_journal_durable may be acknowledged; it is cut off, so that no reader takes what
 * is left of it in the cache for stored. */
mrd_err mrd_journal_sync(mrd_journal *j, mrd_why *why);
/* Frames since it was opened: appended, and so many of the first of them that are durable. A segment that
 * is full is synced before the next one begins: its frames stay, also when that one's sync fails. */
uint64_t mrd_journal_appended(const mrd_journal *j);
uint64_t mrd_journal_durable(const mrd_journal *j);
bool mrd_journal_is_dirty(const mrd_journal *j); /* appended since the last sync */
/* Whether the open segment is still found under its name. A sync looks too; this is for who does
 * without it. Errors: IO: it was removed or replaced, nothing behind mrd_journal_durable may be
 * acknowledged, and the next append begins another segment. */
mrd_err mrd_journal_check(mrd_journal *j, mrd_why *why);
/* The whole file system was synced; sys: 0, or the errno it failed with. Errors: as sync. */
mrd_err mrd_journal_synced(mrd_journal *j, int sys, mrd_why *why);
uint64_t mrd_journal_bytes(const mrd_journal *j);
/* Syncs, writes the segment's index and closes, so that a segment with an index is durable. NULL is
 * fine. The journal is freed also on failure. */
mrd_err mrd_journal_close(mrd_journal *j, mrd_why *why);

/*
 * Many journals at one time: each file costs a commit of the file system's log, and a thousand
 * nodes are a thousand files. Where it is sound (ext4, XFS, Btrfs since Linux 5.8) one syncfs
 * stands for all of them as long as it takes less time than they would, which is measured. It also
 * writes what other programs left unwritten on that file system, so a store likes one of its own.
 */
typedef struct mrd_journal_syncer mrd_journal_syncer;

/* Whether syncfs on the file system of this descriptor tells of every error. */
bool mrd_journal_syncfs_tells(int fd);
mrd_err mrd_journal_syncer_open(const char *store, mrd_journal_syncer **ret_syncer, mrd_why *why);
void mrd_journal_syncer_close(mrd_journal_syncer *s); /* NULL is fine */
/* Makes n different dirty journals of the store durable; ret_whys[i] says what failed for each.
 * Returns how many calls of the system that were. */
size_t mrd_journal_sync_many(mrd_journal_syncer *s, mrd_journal *const *journals, size_t n,
                             mrd_why *ret_whys);

/* ---- Reading ---- */

typedef struct {
    mrd_frame frame;
    uint32_t segment; /* index into mrd_journal_index's files */
    uint64_t offset;  /* of the frame in the file */
} mrd_journal_entry;

/* Everything valid in one folder. */
typedef struct {
    mrd_strlist files; /* paths in order */
    bool *closed;      /* each of them: it has its index, so all its frames were synced */
    mrd_journal_entry *entries;
    size_t n, cap;
    uint64_t bytes;      /* of valid frames */
    uint64_t duplicates; /* frames stored twice (crash between write and ack), left out */
    uint64_t bad_bytes;  /* passed over: damaged or torn */
    uint64_t bad_files;  /* without a valid segment header */
} mrd_journal_index;

/*
 * Lists the frames of a folder without decoding them; closed segments by their index, others by
 * scanning with full checksums. Damage is counted, never an error. Errors: IO, NOMEM.
 * A missing folder is an empty index.
 */
mrd_err mrd_journal_scan(const char *dir, mrd_journal_index *ret_index, mrd_why *why);
/*
 * The same for an aggregator that starts and counts what it finds as stored. A predecessor may have
 * been killed before a sync, or a sync may have failed: then the cache shows frames that the medium
 * does not have, and a sync alone proves nothing, because pages whose write failed are clean and each
 * descriptor is told of a failure once, or never when another was told before it was opened. What
 * proves it: a page that is written again is dirty again, whatever became of it before, and a failure
 * to write it is told by the next fdatasync of a descriptor that was open by then (Linux 4.13), and by
 * the next syncfs of one of the file system (5.8). So the header and the last MRD_JOURNAL_TAIL bytes of
 * frames of each segment that was not closed are checked once more and written again in their place.
 * each: then synced by fdatasync, written and synced once more where that fails, because it may tell
 * of an earlier failure; else the caller's syncfs follows, of a descriptor opened before this call. The names are the caller's in both cases. Errors: those of scan, and IO, FULL: nothing may be
 * counted.
 */
mrd_err mrd_journal_recover(const char *dir, bool each, mrd_journal_index *ret_index, mrd_why *why);
void mrd_journal_index_fini(mrd_journal_index *index);
/* Reads one frame whole and checks it; *buf is reused and holds the body. head_only: no more than
 * the head of a batch, whose checksum is then not checked. Errors: IO, TRUNCATED, CORRUPT, NOMEM.
 */
mrd_err mrd_journal_read(const mrd_journal_index *index, const mrd_journal_entry *entry,
                         bool head_only, mrd_buf *buf, mrd_frame *ret_frame, mrd_bytes *ret_body,
                         mrd_why *why);

/* What a source could not read: whole batches or their ends. */
typedef struct {
    uint64_t events, batches;
    mrd_why first; /* err MRD_OK: nothing was bad */
} mrd_journal_bad;

/*
 * The batches of one node, process and clock as one sorted source in local time. start_ns, end_ns
 * (local time of that clock) leave out batches outside; events of the others are not cut.
 * Memory: at most `open_max` decoded batches (0: 8); more overlapping ones are parked and decoded
 * again. Shares `index` (must outlive the source). Frames that turn out bad are passed over and
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
    const char *instance_id; /* whose journal it is: the node of every process; NULL: as it says */
    bool names_refused; /* names of these batches were: a name that the catalog has not stays so */
    /* What opening a batch needs: of all sources of one thread, so that it is in the cache whoever
     * opens one. Both outlive the source. */
    mrd_codec *codec;
    mrd_buf *frame;
} mrd_journal_source_options;

mrd_err mrd_journal_source(const mrd_journal_source_options *options, mrd_catalog *cat,
                           mrd_source **ret_source, mrd_why *why);

#endif
