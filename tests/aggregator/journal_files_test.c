/* Tests when the names and contents of a journal's files are durable (survive a power failure), and
 * the effects of disk failures. */
#include "tests/aggregator/journal_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/hash.h"

/* ---- Names and contents are durable after a sync ---- */

TEST(a_sync_reaches_contents_and_every_folder_above)
{
    char dir[300];
    mrd_journal *j = journal_in(folder(dir));

    REQUIRE(j != NULL);
    disk_watch();
    CHECK(!mrd_journal_is_dirty(j));
    CHECK_ERR("nothing to do", mrd_journal_sync(j, NULL), MRD_OK);
    CHECK_TEXT(disk.log, "");
    CHECK_ERR("put", put(j, 0, 10), MRD_OK);
    CHECK(mrd_journal_is_dirty(j));
    CHECK_ERR("sync", mrd_journal_sync(j, NULL), MRD_OK);
    CHECK(!mrd_journal_is_dirty(j));
    CHECK_TEXT(disk.log, "create 000001.mrj\ndata 000001.mrj\nname " INSTANCE
                         "\nname journal\nname session\n");
    forget_log();
    CHECK_ERR("put", put(j, 1, 10), MRD_OK);
    CHECK_ERR("sync", mrd_journal_sync(j, NULL), MRD_OK);
    CHECK_TEXT(disk.log, "data 000001.mrj\n");
    forget_log();
    CHECK_ERR("close", mrd_journal_close(j, NULL), MRD_OK);
    /* no sync: the frames are durable already, and the index need not be */
    CHECK_TEXT(disk.log, "");
    forget_log();
    REQUIRE((j = journal_in(dir)) != NULL);
    CHECK_ERR("put", put(j, 2, 10), MRD_OK);
    CHECK_ERR("close", mrd_journal_close(j, NULL), MRD_OK);
    CHECK_TEXT(disk.log, "create 000002.mrj\ndata 000002.mrj\n");
}

/* Fills the first segment up to `room` bytes below its limit, and syncs it. */
static mrd_journal *
nearly_full(const char *dir, size_t room, uint64_t *ret_seq)
{
    mrd_journal *j = journal_in(dir);
    uint64_t left = MRD_SEGMENT_BYTES - MRD_SEGMENT_HEADER - room, seq = 0;
    mrd_why why = { 0 };

    if (j == NULL)
        return NULL;
    while (left > 0) {
        uint64_t len = left > BODY_MAX + 2 * MRD_FRAME_HEADER ? BODY_MAX + MRD_FRAME_HEADER : left;

        if (len > MRD_FRAME_HEADER + BODY_MAX)
            len -= MRD_FRAME_HEADER;
        CHECK(put(j, seq++, len - MRD_FRAME_HEADER) == MRD_OK);
        left -= len;
    }
    CHECK_ERR("sync", mrd_journal_sync(j, &why), MRD_OK);
    *ret_seq = seq;
    return j;
}

TEST(a_segment_ends_at_its_limit_and_the_next_name_is_synced)
{
    for (size_t over = 0; over < 2; over++) {
        char dir[300];
        uint64_t seq;
        mrd_journal *j;
        bool have[1024];

        snprintf(dir, sizeof(dir), "%s/s%zu/journal/" INSTANCE, test_tmp(), over);
        disk_watch();
        REQUIRE((j = nearly_full(dir, 500 + MRD_FRAME_HEADER, &seq)) != NULL);
        CHECK(seq < 1000);
        forget_log();
        CHECK_ERR("put", put(j, seq, 500 + over), MRD_OK);
        CHECK_TEXT(disk.log, over == 0 ? "" : "create 000002.mrj\n");
        CHECK_ERR("sync", mrd_journal_sync(j, NULL), MRD_OK);
        CHECK_TEXT(disk.log, over == 0 ? "data 000001.mrj\n"
                                       : "create 000002.mrj\ndata 000002.mrj\nname " INSTANCE "\n");
        CHECK_INT(mrd_journal_bytes(j), MRD_SEGMENT_BYTES - MRD_SEGMENT_HEADER + over);
        CHECK_ERR("close", mrd_journal_close(j, NULL), MRD_OK);
        CHECK_INT(scan(dir, have, seq + 2), 0);
        for (uint64_t i = 0; i <= seq; i++)
            CHECK(have[i]);
    }
}

/* Unsynced frames are synced at the end of a segment. If that fails, the next sync reports it
 * together with the frames of the next segment. */
TEST(a_failed_sync_at_the_end_of_a_segment_is_reported)
{
    char dir[300];
    uint64_t seq;
    mrd_journal *j;
    mrd_why why = { 0 };

    disk_watch();
    REQUIRE((j = nearly_full(folder(dir), 1000, &seq)) != NULL);
    CHECK_ERR("in the first", put(j, seq, 100), MRD_OK);
    forget_log();
    disk_fail(OP_DATA, 1, 1, EIO);
    CHECK_ERR("it does not fit", put(j, seq + 1, 2000), MRD_IO);
    CHECK_TEXT(disk.log, "data 000001.mrj\ncut 000001.mrj\n");
    CHECK(mrd_journal_is_dirty(j));
    CHECK_ERR("again", put(j, seq + 1, 2000), MRD_OK);
    CHECK_ERR("told", mrd_journal_sync(j, &why), MRD_IO);
    CHECK_INT(why.sys, EIO);
    CHECK(!mrd_journal_is_dirty(j));
    CHECK_ERR("again", put(j, seq, 100), MRD_OK);
    CHECK_ERR("again", put(j, seq + 1, 2000), MRD_OK);
    CHECK_ERR("once only", mrd_journal_sync(j, &why), MRD_OK);
    CHECK(strstr(disk.log, "data 000003.mrj\nname " INSTANCE "\n") != NULL);
    CHECK_ERR("close", mrd_journal_close(j, NULL), MRD_OK);
}

/* At the end of a segment its unsynced frames are synced, so they are durable before the next
 * segment begins. */
TEST(the_end_of_a_segment_syncs_what_is_in_it)
{
    char dir[300];
    uint64_t seq;
    mrd_journal *j;

    disk_watch();
    REQUIRE((j = nearly_full(folder(dir), 1000, &seq)) != NULL);
    CHECK_ERR("put", put(j, seq, 100), MRD_OK);
    forget_log();
    CHECK_ERR("put", put(j, seq + 1, 2000), MRD_OK);
    CHECK_TEXT(disk.log, "data 000001.mrj\ncreate 000002.mrj\n");
    CHECK_ERR("sync", mrd_journal_sync(j, NULL), MRD_OK);
    CHECK_ERR("close", mrd_journal_close(j, NULL), MRD_OK);
}

/* ---- Errors by their names ---- */

TEST(a_full_disk_and_a_broken_one_are_distinguished)
{
    static const struct {
        op what;
        int how;
        mrd_err want;
    } rows[] = {
        { OP_WRITE, ENOSPC, MRD_FULL }, { OP_WRITE, EDQUOT, MRD_FULL },
        { OP_WRITE, EFBIG, MRD_FULL },  { OP_WRITE, EIO, MRD_IO },
        { OP_WRITE, NOTHING, MRD_IO },  { OP_OPEN, ENOSPC, MRD_FULL },
        { OP_OPEN, EDQUOT, MRD_FULL },  { OP_OPEN, EACCES, MRD_IO },
        { OP_OPEN, EMFILE, MRD_IO },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        char dir[300];
        mrd_journal *j;
        bool have[2];

        snprintf(dir, sizeof(dir), "%s/e%zu/journal/" INSTANCE, test_tmp(), i);
        REQUIRE((j = journal_in(dir)) != NULL);
        disk_watch();
        disk_fail(rows[i].what, 1, 100, rows[i].how);
        CHECK_ERR("put", put(j, 0, 10), rows[i].want);
        if (rows[i].what == OP_WRITE) /* no file without a header remains */
            CHECK_TEXT(disk.log, "create 000001.mrj\nunlink 000001.mrj\n");
        CHECK(!mrd_journal_is_dirty(j));
        CHECK_INT(mrd_journal_bytes(j), 0);
        disk_fail(OP_NONE, 0, 0, 0);
        forget_log();
        CHECK_ERR("again", put(j, 0, 10), MRD_OK);
        /* the frame goes to a new file, not to the one that lost its name */
        CHECK_TEXT(disk.log, "create 000002.mrj\n");
        disk_fail(OP_DATA, 1, 1, rows[i].how);
        CHECK_ERR("sync", mrd_journal_sync(j, NULL), rows[i].want);
        disk_fail(OP_NONE, 0, 0, 0);
        CHECK_ERR("again", put(j, 1, 10), MRD_OK);
        CHECK_ERR("sync", mrd_journal_sync(j, NULL), MRD_OK);
        CHECK_ERR("close", mrd_journal_close(j, NULL), MRD_OK);
        CHECK_INT(scan(dir, have, 2), 0);
        CHECK(have[1]);
    }
}

/* Appends two frames to a segment. The first write ends in the middle of the first of them, and
 * then each may fail. The file contains the acknowledged frames and no further byte. */
TEST(a_file_ends_with_the_last_frame_that_was_acknowledged)
{
    for (unsigned fails = 0; fails <= 2; fails++) {
        size_t want = fails == 0 ? 2 : fails - 1, size = MRD_SEGMENT_HEADER;
        char dir[300], path[400];
        mrd_journal_chunk chunks[4];
        mrd_why why = { 0 };
        mrd_journal *j;
        struct stat st;
        made m[4];

        snprintf(dir, sizeof(dir), "%s/t%u", test_tmp(), fails);
        REQUIRE((j = journal_in(dir)) != NULL);
        for (unsigned i = 0; i < 4; i++) {
            m[i] = make(i, 100 + 50 * i);
            chunks[i] = (mrd_journal_chunk){ &m[i].f, { m[i].data, m[i].len } };
        }
        CHECK_INT(mrd_journal_append_many(j, chunks, 1, &why), 1);
        disk_watch();
        disk.group_short = true;
        disk_fail(OP_WRITE, fails, fails == 0 ? 0 : 1, ENOSPC);
        CHECK_INT(mrd_journal_append_many(j, chunks + 1, 2, &why), want);
        CHECK_ERR("why", why.err, want == 2 ? MRD_OK : MRD_FULL);
        for (size_t i = 0; i < 1 + want; i++)
            size += m[i].len;
        snprintf(path, sizeof(path), "%s/000001.mrj", dir);
        CHECK(stat(path, &st) == 0);
        CHECK_INT(st.st_size, size);
        disk.on = false;
        CHECK_ERR("close", mrd_journal_close(j, NULL), MRD_OK);
        for (int i = 0; i < 4; i++)
            free(m[i].data);
    }
}

/* If a number is taken, the next one is used. A call interrupted by a signal is repeated. */
TEST(what_is_no_error_is_tried_again)
{
    char dir[300], path[400];
    mrd_journal *j = journal_in(folder(dir));
    bool have[1];
    int fd;

    REQUIRE(j != NULL);
    snprintf(path, sizeof(path), "%s/000001.mrj", dir);
    fd = open(path, O_WRONLY | O_CREAT, 0600);
    close(fd);
    disk_watch();
    disk_fail(OP_WRITE, 1, 1, EINTR);
    CHECK_ERR("put", put(j, 0, 10), MRD_OK);
    CHECK_TEXT(disk.log, "create 000002.mrj\n");
    CHECK_ERR("close", mrd_journal_close(j, NULL), MRD_OK);
    unlink(path);
    CHECK_INT(scan(dir, have, 1), 0);
    CHECK(have[0]);
    /* A short or interrupted read is repeated, too, because a file ends only when a read returns
     * zero bytes. */
    for (int how = SHORT; how <= EINTR; how += EINTR - SHORT) {
        disk_fail(OP_READ, 1, how == EINTR ? 1 : 1000, how);
        CHECK_INT(scan(dir, have, 1), 0);
        CHECK(have[0]);
    }
}

/* Files with other names and numbers do not disturb the numbering. */
TEST(the_next_number_is_beyond_all_that_are_there)
{
    static const struct {
        const char *there[3], *want;
    } rows[] = {
        { { "000007.mrj", "000003.mrj", "x.mrj" }, "create 000008.mrj\n" },
        { { ".mrj", "12", "000012.mr" }, "create 000001.mrj\n" },
        { { "000001.mrj", "000001.mrj.old", "-4.mrj" }, "create 000002.mrj\n" },
        { { "4294967294.mrj", "1.mrj", "2.mrj" }, "create 4294967295.mrj\n" },
        { { "4294967295.mrj", "1.mrj", "2.mrj" }, "create 000003.mrj\n" },
        { { "99999999999999999999.mrj", "1", "2" }, "create 000001.mrj\n" },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        char dir[300], path[400];
        mrd_journal *j;

        snprintf(dir, sizeof(dir), "%s/n%zu", test_tmp(), i);
        mkdir(dir, 0700);
        for (int k = 0; k < 3; k++) {
            snprintf(path, sizeof(path), "%s/%s", dir, rows[i].there[k]);
            close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        }
        REQUIRE((j = journal_in(dir)) != NULL);
        disk_watch();
        CHECK_ERR("put", put(j, 0, 10), MRD_OK);
        CHECK_TEXT(disk.log, rows[i].want);
        CHECK_ERR("close", mrd_journal_close(j, NULL), MRD_OK);
    }
}

TEST(what_cannot_be_opened_says_so)
{
    char dir[300];
    mrd_journal *j = NULL;
    mrd_why why = { 0 };

    snprintf(dir, sizeof(dir), "%s/file", test_tmp());
    close(open(dir, O_WRONLY | O_CREAT, 0600));
    CHECK_ERR("a file", mrd_journal_open(dir, MRD_STR(INSTANCE), 3, &j, &why), MRD_IO);
    CHECK_ERR("name", mrd_journal_open(test_tmp(), MRD_STR("../x"), 3, &j, &why), MRD_INVALID);
    CHECK(j == NULL);
    CHECK_ERR("nothing", mrd_journal_close(NULL, NULL), MRD_OK);
}

/* ---- The bytes ---- */

/* The file has header, frames, index and trailer as described in docs/reference/wire.md, section
 * 7. */
TEST(a_closed_segment_has_the_documented_bytes)
{
    enum { N = 300 }; /* an index of this number of frames needs several writes and several reads */
    char dir[300], path[400];
    mrd_journal *j = journal_in(folder(dir));
    uint8_t *p = calloc(1, 1 << 20);
    uint64_t at = 256, offsets[N];
    size_t len;
    int fd;

    REQUIRE(j != NULL);
    for (uint64_t i = 0; i < N; i++) {
        offsets[i] = at;
        at += MRD_FRAME_HEADER + i * 3;
        CHECK_ERR("put", put(j, i, i * 3), MRD_OK);
    }
    CHECK_ERR("close", mrd_journal_close(j, NULL), MRD_OK);
    snprintf(path, sizeof(path), "%s/000001.mrj", dir);
    fd = open(path, O_RDONLY);
    len = (size_t) pread(fd, p, 1 << 20, 0);
    close(fd);
    CHECK_INT(len, at + N * (8 + 96) + 32);
    CHECK(memcmp(p, "MRDJRNL1", 8) == 0 && memcmp(p + len - 32, "MRDJEND1", 8) == 0);
    CHECK_INT(p[8] + p[9] + p[10] + p[11], 1);
    CHECK_INT(p[12] + 256 * p[13], 256);
    CHECK_INT(p[16], 3);
    CHECK_INT(p[24], 7);
    CHECK_INT(p[40], strlen(INSTANCE));
    CHECK(memcmp(p + 41, INSTANCE, strlen(INSTANCE)) == 0);
    CHECK_INT((uint64_t) p[len - 24] | (uint64_t) p[len - 23] << 8 | (uint64_t) p[len - 22] << 16,
              at);
    CHECK_INT(p[len - 16] + 256 * p[len - 15], N);
    for (uint64_t i = 0; i < N; i++) {
        const uint8_t *row = p + at + i * (8 + 96);

        CHECK_INT(row[0] + 256 * row[1] + 65536 * row[2], offsets[i]);
        CHECK(memcmp(row + 8, p + offsets[i], 96) == 0);
    }
    free(p);
}

/* An index with a valid checksum and an offset outside of the frames is not used. The frames are
 * scanned instead. A frame with a damaged body shows the difference: the index lists it, but a scan
 * does not. */
TEST(an_index_that_points_elsewhere_is_not_used)
{
    enum { N = 5, BODY = 40, WHOLE = MRD_FRAME_HEADER + BODY, END = 256 + N * WHOLE };
    static const struct {
        const char *name;
        uint64_t row, offset;
        bool used;
    } rows[] = {
        { "as it was", 0, 256, true },
        { "the header", 0, 255, false },
        { "the beginning", 0, 0, false },
        { "the last place where it fits", N - 1, END - WHOLE, true },
        { "a byte too far", N - 1, END - WHOLE + 1, false },
        { "a header that ends at the index", 1, END - MRD_FRAME_HEADER, false },
        { "the index", 2, END, false },
        { "behind it", 2, END + 1, false },
        { "beyond the file", 3, 1 << 20, false },
        { "beyond all files", 3, UINT64_MAX, false },
        { "beyond all files with its frame", 3, UINT64_MAX - WHOLE + 1, false },
    };
    char dir[300], path[400];
    mrd_journal *j = journal_in(folder(dir));
    uint8_t whole[END + N * SEGMENT_ENTRY + SEGMENT_TRAILER], *index = whole + END;
    uint8_t *trailer = index + N * SEGMENT_ENTRY;
    int fd;

    REQUIRE(j != NULL);
    for (uint64_t i = 0; i < N; i++)
        CHECK_ERR("put", put(j, i, BODY), MRD_OK);
    CHECK_ERR("close", mrd_journal_close(j, NULL), MRD_OK);
    snprintf(path, sizeof(path), "%s/000001.mrj", dir);
    REQUIRE((fd = open(path, O_RDWR)) >= 0);
    REQUIRE(pread(fd, whole, sizeof(whole), 0) == sizeof(whole));
    whole[256 + 2 * WHOLE + MRD_FRAME_HEADER] ^= 1; /* in the body of the third frame */
    for (size_t i = 0; i < 2 * MRD_COUNT(rows); i++) {
        /* The first half of the rounds damages the offset in an index entry, the second half the
         * copy of the frame's header there. */
        bool header = i >= MRD_COUNT(rows);
        size_t k = i % MRD_COUNT(rows);
        uint8_t *row = index + rows[k].row * SEGMENT_ENTRY;
        uint64_t was = seg_get(row, 8);
        mrd_journal_index x;

        if (header)
            row[8 + k] ^= 4;
        else
            seg_put(row, rows[k].offset, 8);
        seg_put(trailer + 20, mrd_crc32c(0, index, N * SEGMENT_ENTRY), 4);
        seg_put(trailer + 28, mrd_crc32c(0, trailer, 28), 4);
        CHECK(pwrite(fd, whole, sizeof(whole), 0) == sizeof(whole));
        CHECK_ERR(rows[k].name, mrd_journal_scan(dir, &x, NULL), MRD_OK);
        CHECK_ROW(rows[k].name, x.n == (!header && rows[k].used ? N : N - 1));
        CHECK_ROW(rows[k].name, x.bytes == x.n * WHOLE);
        CHECK_ROW(rows[k].name, (x.bad_bytes == 0) == (!header && rows[k].used));
        for (size_t e = 0; e < x.n; e++)
            CHECK_ROW(rows[k].name, x.entries[e].offset == 256 + x.entries[e].frame.seq * WHOLE);
        mrd_journal_index_fini(&x);
        if (header)
            row[8 + k] ^= 4;
        seg_put(row, was, 8);
    }
    seg_put(trailer + 20, mrd_crc32c(0, index, N * SEGMENT_ENTRY), 4);
    seg_put(trailer + 28, mrd_crc32c(0, trailer, 28), 4);
    /* an index with a damaged trailer is not used either */
    for (size_t i = 0; i < SEGMENT_TRAILER; i++) {
        mrd_journal_index x;

        trailer[i] ^= 1;
        CHECK(pwrite(fd, whole, sizeof(whole), 0) == sizeof(whole));
        CHECK_ERR("trailer", mrd_journal_scan(dir, &x, NULL), MRD_OK);
        CHECK_INT(x.n, N - 1);
        CHECK(x.bad_bytes > 0);
        mrd_journal_index_fini(&x);
        trailer[i] ^= 1;
    }
    close(fd);
}

/* A closed segment without frames has its header and the trailer of an empty index. */
TEST(a_closed_segment_may_be_empty)
{
    char dir[300], path[400];
    mrd_journal *j = journal_in(folder(dir));
    uint8_t trailer[SEGMENT_TRAILER];
    mrd_journal_index x;
    struct stat st;
    int fd;

    REQUIRE(j != NULL);
    CHECK_ERR("put", put(j, 0, 10), MRD_OK);
    CHECK_ERR("close", mrd_journal_close(j, NULL), MRD_OK);
    snprintf(path, sizeof(path), "%s/000001.mrj", dir);
    REQUIRE((fd = open(path, O_RDWR)) >= 0 && fstat(fd, &st) == 0);
    REQUIRE(pread(fd, trailer, sizeof(trailer), st.st_size - (off_t) sizeof(trailer)) ==
            sizeof(trailer));
    seg_put(trailer + 8, MRD_SEGMENT_HEADER, 8);
    seg_put(trailer + 16, 0, 4);
    seg_put(trailer + 20, mrd_crc32c(0, "", 0), 4);
    seg_put(trailer + 28, mrd_crc32c(0, trailer, 28), 4);
    CHECK(ftruncate(fd, MRD_SEGMENT_HEADER) == 0 &&
          pwrite(fd, trailer, sizeof(trailer), MRD_SEGMENT_HEADER) == sizeof(trailer));
    close(fd);
    CHECK_ERR("scan", mrd_journal_scan(dir, &x, NULL), MRD_OK);
    CHECK_INT(x.n, 0);
    CHECK_INT(x.bad_files, 0);
    CHECK_INT(x.bad_bytes, 0);
    mrd_journal_index_fini(&x);
}

/* A damaged header costs only its own frame, even if the next frame crosses the end of the search
 * window (256 KiB). */
TEST(a_frame_is_found_wherever_it_begins)
{
    enum { SEARCHED = 256 << 10 };

    for (unsigned i = 0; i < 8; i++) {
        size_t whole = SEARCHED + i - 3;
        char dir[300], path[400];
        mrd_journal_index x;
        mrd_journal *j;
        int fd;

        snprintf(dir, sizeof(dir), "%s/at%u", test_tmp(), i);
        REQUIRE((j = journal_in(dir)) != NULL);
        CHECK_ERR("put", put(j, 0, whole - MRD_FRAME_HEADER), MRD_OK);
        CHECK_ERR("put", put(j, 1, 10), MRD_OK);
        CHECK_ERR("sync", mrd_journal_sync(j, NULL), MRD_OK);
        snprintf(path, sizeof(path), "%s/000001.mrj", dir);
        REQUIRE((fd = open(path, O_RDWR)) >= 0);
        CHECK(pwrite(fd, "X", 1, MRD_SEGMENT_HEADER) == 1);
        close(fd);
        CHECK_ERR("scan", mrd_journal_scan(dir, &x, NULL), MRD_OK);
        CHECK_INT(x.n, 1);
        CHECK_INT(x.bad_bytes, whole);
        CHECK(x.n == 1 && x.entries[0].frame.seq == 1);
        mrd_journal_index_fini(&x);
        CHECK_ERR("close", mrd_journal_close(j, NULL), MRD_FORMAT);
    }
}

/* If an index cannot be written or read back, nothing is lost: the frames are scanned. */
TEST(an_index_that_fails_is_taken_away)
{
    static const struct {
        op what;
        unsigned at;
        int how;
    } rows[] = { { OP_WRITE, 1, ENOSPC }, { OP_WRITE, 2, ENOSPC }, { OP_WRITE, 2, EIO },
                 { OP_READ, 1, EIO },     { OP_READ, 1, NOTHING }, { OP_READ, 2, EIO } };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        char dir[300], path[400];
        bool have[200];
        struct stat st;
        mrd_journal *j;
        uint64_t bytes;

        snprintf(dir, sizeof(dir), "%s/x%zu", test_tmp(), i);
        REQUIRE((j = journal_in(dir)) != NULL);
        for (uint64_t k = 0; k < 200; k++)
            CHECK_ERR("put", put(j, k, 200), MRD_OK);
        CHECK_ERR("sync", mrd_journal_sync(j, NULL), MRD_OK);
        bytes = mrd_journal_bytes(j);
        disk_watch();
        disk_fail(rows[i].what, rows[i].at, 100, rows[i].how);
        CHECK(mrd_journal_close(j, NULL) != MRD_OK);
        CHECK(strstr(disk.log, "cut 000001.mrj\n") != NULL);
        disk.on = false;
        snprintf(path, sizeof(path), "%s/000001.mrj", dir);
        CHECK(stat(path, &st) == 0 && (uint64_t) st.st_size == MRD_SEGMENT_HEADER + bytes);
        CHECK_INT(scan(dir, have, 200), 0);
        for (int k = 0; k < 200; k++)
            CHECK(have[k]);
    }
}

/* ---- Any call fails, at any moment ---- */

enum { STEPS = 24 };

/* Appends and syncs while the disk fails at call number `at`. At the end every acknowledged frame
 * is present once. The same holds after a power failure at any of the syncs. */
static void
run_with_fault(const char *dir, const char *left, unsigned at, unsigned times, int how)
{
    bool stored[STEPS] = { false }, synced[STEPS] = { false }, have[STEPS];
    mrd_journal *j = journal_in(dir);
    made m[STEPS];
    mrd_journal_chunk chunks[STEPS];
    unsigned next = 0;

    REQUIRE(j != NULL);
    disk_watch();
    disk_fail(OP_NONE, at, times, how);
    for (unsigned i = 0; i < STEPS; i++) {
        m[i] = make(i, 20 + 13 * i);
        chunks[i] = (mrd_journal_chunk){ &m[i].f, { m[i].data, m[i].len } };
    }
    for (int turn = 0; turn < 60 && next < STEPS; turn++) {
        size_t want = 1 + (size_t) turn % 5, done;
        mrd_why why = { 0 };
        mrd_err err;

        want = want < STEPS - next ? want : STEPS - next;
        done = mrd_journal_append_many(j, chunks + next, want, &why);
        CHECK(done == want ? why.err == MRD_OK || done > 0
                           : why.err == MRD_IO || why.err == MRD_FULL);
        for (size_t i = 0; i < done; i++)
            stored[next + i] = true;
        err = mrd_journal_sync(j, NULL);
        if (err == MRD_OK) {
            for (unsigned i = 0; i < STEPS; i++)
                synced[i] = synced[i] || stored[i];
            next += (unsigned) done;
        } else { /* no frame since the last sync may be acknowledged, so all are appended again */
            memset(stored, 0, sizeof(stored));
        }
        while (next > 0 && !synced[next - 1])
            next--;
    }
    CHECK_INT(next, STEPS);
    power_cut(dir, left);
    scan(left, have, STEPS);
    for (unsigned i = 0; i < STEPS; i++)
        CHECK(!synced[i] || have[i]);
    disk.on = true; /* closing may fail, too */
    (void) mrd_journal_close(j, NULL);
    disk.on = false;
    scan(dir, have, STEPS);
    for (unsigned i = 0; i < STEPS; i++) {
        CHECK(!synced[i] || have[i]);
        free(m[i].data);
    }
}

TEST(what_a_sync_answered_for_survives_every_fault_and_a_power_cut)
{
    static const int hows[] = { ENOSPC, EIO, SHORT, NOTHING, EINTR };

    for (size_t h = 0; h < MRD_COUNT(hows); h++) {
        for (unsigned at = 1; at < 40; at++) {
            for (unsigned times = 1; times <= 3; times++) {
                char dir[300], left[300];

                snprintf(dir, sizeof(dir), "%s/f%zu-%u-%u/journal/" INSTANCE, test_tmp(), h, at,
                         times);
                snprintf(left, sizeof(left), "%s/l%zu-%u-%u", test_tmp(), h, at, times);
                run_with_fault(dir, left, at, times, hows[h]);
                if (test_failures > 0) {
                    fprintf(stderr, "how %d, call %u, %u times\n%s", hows[h], at, times, disk.log);
                    return;
                }
            }
        }
    }
}

TEST_MAIN()
