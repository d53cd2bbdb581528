/*
 * tests/aggregator/journal_disk.h - a simulated disk for tests of the journal. Every call that
 * changes a file passes through here, is logged, and fails if a case requests it. The log
 * determines the state after a power failure: contents until the last fdatasync, and names in
 * synced directories.
 */
#ifndef MRD_TESTS_AGGREGATOR_JOURNAL_DISK_H
#define MRD_TESTS_AGGREGATOR_JOURNAL_DISK_H

#include "tests/check.h"

#include "aggregator/journal/journal.h"
#include "aggregator/journal/segment.h"

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

/* Failure of a call: an errno, SHORT for half of the request, or NOTHING for zero bytes. */
enum { SHORT = -1, NOTHING = -2 };

extern struct disk {
    bool on;
    /* "data 000001.mrj\n" ..., with the last component of each path; reads and writes are not
     * logged */
    char log[65536];
    unsigned calls; /* number of calls that can fail */
    op fail_op;     /* the kind of operation that fails; OP_NONE means any kind */
    unsigned fail_at, fail_times;
    int fail_how;
    bool group_short; /* the next write of several frames stops in the middle of the first frame */
    int64_t now, data_cost, all_cost;
} disk;

/* The kernel release and file system type that the journal sees. */
extern const char *kernel_release;
extern long file_system;
extern bool no_uname, no_statfs;

/* Starts logging, without failures. */
void disk_watch(void);

/* Makes `times` calls of this operation (OP_NONE for any) fail, beginning with call number `at`. */
void disk_fail(op what, unsigned at, unsigned times, int how);
void forget_log(void);

#define BODY_MAX (MRD_FRAME_MSG_MAX / 2)

typedef struct {
    mrd_frame f;
    uint8_t *data;
    size_t len;
} made;

/* Makes frame number seq with `body` bytes. The contents depend only on both. The caller frees
 * data. */
made make(uint64_t seq, size_t body);
mrd_err put(mrd_journal *j, uint64_t seq, size_t body);

/* Opens a journal. On failure prints a message and returns NULL. */
mrd_journal *journal_in(const char *dir);
char *folder(char dir[300]);

/* Marks the numbers below n that are complete in the directory, each once. Returns the number of
 * damaged bytes. */
uint64_t scan(const char *dir, bool *have, uint64_t n);

/* Copies to `left` the state of the directory that a power failure would leave now. */
void power_cut(const char *dir, const char *left);

#endif
