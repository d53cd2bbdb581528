/* After a crash, an aggregator writes the last frames of the journal again, because they may not be
 * on the disk itself. The test computes from the appended frames which ones must be written, and
 * checks the effect of each disk failure. */
#include "tests/aggregator/journal_disk.h"

#include <errno.h>

enum { MOST = 60 };

/* The appended frames. All segments except the last one were closed. */
typedef struct {
    char dir[300];
    uint64_t frames;
    uint64_t
        in_tail; /* frames of the open segment that end within its last MRD_JOURNAL_TAIL bytes */
    mrd_journal *open;
} left;

/* Appends frames of `body` bytes: some in a closed segment, `more` in an open one. */
static left
leave(unsigned closed, unsigned more, size_t body)
{
    left l = { .frames = closed + more };
    uint64_t whole = MRD_FRAME_HEADER + body, size = MRD_SEGMENT_HEADER + more * whole, seq = 0;
    mrd_journal *j;

    folder(l.dir);
    j = journal_in(l.dir);
    for (; seq < closed; seq++)
        CHECK_ERR("closed", put(j, seq, body), MRD_OK);
    CHECK_ERR("close", mrd_journal_close(j, NULL), MRD_OK);
    l.open = journal_in(l.dir);
    for (; seq < closed + more; seq++)
        CHECK_ERR("open", put(l.open, seq, body), MRD_OK);
    for (uint64_t i = 0; i < more; i++)
        l.in_tail += size <= MRD_JOURNAL_TAIL ||
                     MRD_SEGMENT_HEADER + (i + 1) * whole > size - MRD_JOURNAL_TAIL;
    disk_watch();
    return l;
}

/* Checks that all appended frames are present and undamaged. */
static void
check_left(left *l)
{
    bool have[MOST];

    disk_fail(OP_NONE, 0, 0, 0);
    CHECK_INT(scan(l->dir, have, l->frames), 0);
    for (uint64_t i = 0; i < l->frames; i++)
        CHECK(have[i]);
    disk.on = false;
    CHECK_ERR("close", mrd_journal_close(l->open, NULL), MRD_OK);
}

/* Counts the calls of one kind during recovery. *ret_err: its result. */
static unsigned
calls_of(const left *l, op what, bool each, mrd_err *ret_err)
{
    mrd_journal_index x = { 0 };
    mrd_why why = { 0 };

    disk_fail(what, 100000, 1, EIO);
    *ret_err = mrd_journal_recover(l->dir, each, &x, &why);
    if (*ret_err == MRD_OK) {
        CHECK_INT(x.n, l->frames);
        mrd_journal_index_fini(&x);
    }
    return disk.calls;
}

/* Counts the calls of one kind during the scan, which precedes the recovery. In the scan, bytes
 * that cannot be read count as damage. */
static unsigned
calls_of_scan(const left *l, op what)
{
    mrd_journal_index x = { 0 };

    disk_fail(what, 100000, 1, EIO);
    CHECK_ERR("scan", mrd_journal_scan(l->dir, &x, NULL), MRD_OK);
    mrd_journal_index_fini(&x);
    return disk.calls;
}

TEST(what_may_be_lost_is_written_again)
{
    static const struct {
        const char *name;
        unsigned closed, more;
        size_t body;
    } rows[] = {
        { "nothing", 0, 0, 100 },
        { "closed", 5, 0, 100 },
        { "open", 0, 7, 100 },
        { "both", 5, 7, 100 },
        { "beyond the tail", 3, 50, 100000 },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        for (int each = 0; each < 2; each++) {
            char command[400];
            left l = leave(rows[i].closed, rows[i].more, rows[i].body);
            unsigned writes, syncs;
            mrd_err err;

            writes = calls_of(&l, OP_WRITE, each != 0, &err);
            CHECK_ERR(rows[i].name, err, MRD_OK);
            /* The frames, and the header, which is needed to find them. */
            CHECK_ROW(rows[i].name, writes == l.in_tail + (l.in_tail > 0));
            CHECK(i != 4 || (l.in_tail > 30 && l.in_tail < 50));
            syncs = calls_of(&l, OP_DATA, each != 0, &err);
            CHECK_ROW(rows[i].name, syncs == (each != 0 && l.in_tail > 0));
            check_left(&l);
            snprintf(command, sizeof(command), "rm -r '%s'", l.dir);
            REQUIRE(system(command) == 0);
        }
    }
}

/* Any write or read fails in any way. Either an error is returned, or everything is present. */
TEST(a_fault_while_writing_again_is_an_error)
{
    static const struct {
        op what;
        int how;
        mrd_err err;
    } rows[] = {
        { OP_WRITE, EIO, MRD_IO },   { OP_WRITE, ENOSPC, MRD_FULL }, { OP_WRITE, EDQUOT, MRD_FULL },
        { OP_WRITE, EINTR, MRD_OK }, { OP_WRITE, SHORT, MRD_OK },    { OP_WRITE, NOTHING, MRD_IO },
        { OP_READ, EIO, MRD_IO },    { OP_READ, EINTR, MRD_OK },     { OP_READ, SHORT, MRD_OK },
    };
    left l = leave(4, 6, 5000);

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_err err;
        unsigned all = calls_of(&l, rows[i].what, true, &err);

        CHECK(all > calls_of_scan(&l, rows[i].what));
        for (unsigned at = calls_of_scan(&l, rows[i].what) + 1; at <= all; at++) {
            mrd_journal_index x = { 0 };
            mrd_why why = { 0 };
            char row[80];

            snprintf(row, sizeof(row), "op %d number %u of %u, %d", (int) rows[i].what, at, all,
                     rows[i].how);
            disk_fail(rows[i].what, at, 1, rows[i].how);
            err = mrd_journal_recover(l.dir, true, &x, &why);
            CHECK_ERR(row, err, rows[i].err);
            if (err == MRD_OK)
                mrd_journal_index_fini(&x);
            else
                CHECK_ROW(row, why.err == err && strstr(why.text, "0000") != NULL);
        }
    }
    check_left(&l);
}

/* A failed sync may report an earlier error, so the frames are written and synced once more, but
 * only once. */
TEST(a_failed_sync_is_tried_once_more)
{
    left l = leave(0, 6, 100);

    for (unsigned times = 0; times < 4; times++) {
        for (int full = 0; full < 2; full++) {
            mrd_journal_index x = { 0 };
            mrd_why why = { 0 };
            mrd_err err;

            disk_fail(OP_DATA, 1, times, full ? ENOSPC : EIO);
            err = mrd_journal_recover(l.dir, true, &x, &why);
            CHECK_ERR("sync", err, times < 2 ? MRD_OK : full ? MRD_FULL : MRD_IO);
            CHECK_INT(disk.calls, times == 0 ? 1 : 2);
            if (err == MRD_OK)
                mrd_journal_index_fini(&x);
            else
                CHECK(strstr(why.text, "cannot sync") != NULL);
        }
    }
    check_left(&l);
}

TEST_MAIN()
