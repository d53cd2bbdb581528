/*
 * tests/aggregator/journal_disk.h - a disk that a test of the journal watches: every call that changes a
 * file passes through here, is written down, and fails where a case wants it to. From what was
 * written down follows what a power cut leaves: contents up to the last fdatasync, and names whose
 * folder was synced.
 */
#ifndef MRD_TESTS_AGGREGATOR_JOURNAL_DISK_H
#define MRD_TESTS_AGGREGATOR_JOURNAL_DISK_H

#include "tests/check.h"

#include "aggregator/journal.h"
#include "aggregator/segment.h"

#define INSTANCE "i-1"

typedef enum {
    OP_NONE,
    OP_WRITE,
    OP_READ,
    OP_OPEN,
    OP_DATA,
    OP_NAME,
    OP_UNLINK,
    OP_CUT,
    OP_ALL
} op;

/* What becomes of a call: errno, or SHORT for half of what was asked, NOTHING for zero bytes. */
enum { SHORT = -1, NOTHING = -2 };

extern struct disk {
    bool on;
    char log[65536]; /* "data 000001.mrj\n" ..., the last part of each path; not reads and writes */
    unsigned calls;  /* of those that can fail */
    op fail_op;      /* only this one, OP_NONE: any */
    unsigned fail_at, fail_times;
    int fail_how;
    bool group_short; /* the next write of several frames ends in its first one */
    int64_t now, data_cost, all_cost;
} disk;

/* Of the kernel and the file system, as the journal is told them. */
extern const char *kernel_release;
extern long file_system;
extern bool no_uname, no_statfs;

/* Begins to watch, with nothing failing. */
void disk_watch(void);

/* From the call number `at` of this operation (OP_NONE: of any) on, so many fail in this way. */
void disk_fail(op what, unsigned at, unsigned times, int how);
void forget_log(void);

#define BODY_MAX (MRD_FRAME_MSG_MAX / 2)

typedef struct {
    mrd_frame f;
    uint8_t *data;
    size_t len;
} made;

/* Frame number seq with `body` bytes; the content follows from both. The caller frees data. */
made make(uint64_t seq, size_t body);
mrd_err put(mrd_journal *j, uint64_t seq, size_t body);

/* NULL and a message when it cannot be opened. */
mrd_journal *journal_in(const char *dir);
char *folder(char dir[300]);

/* Which numbers below n the folder holds whole, each once; returns the bytes that are damaged. */
uint64_t scan(const char *dir, bool *have, uint64_t n);

/* What a power cut at this moment leaves of the folder, as a folder of its own. */
void power_cut(const char *dir, const char *left);

#endif
