/*
 * The journal over a disk that this test watches: every call that changes a file passes through
 * here, is written down, and fails where a case wants it to. From what was written down follows
 * what a power cut leaves: contents up to the last fdatasync, and names whose folder was synced.
 */
#undef _FORTIFY_SOURCE /* its inline functions have the names defined here */
#include "tests/check.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <time.h>

#include "aggregator/journal.h"
#include "aggregator/segment.h"

#define INSTANCE "i-1"

/* ---- The disk ---- */

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

static const char *const op_texts[] = { "",     "",       "",    "create", "data",
                                        "name", "unlink", "cut", "syncfs" };

/* What becomes of a call: errno, or SHORT for half of what was asked, NOTHING for zero bytes. */
enum { SHORT = -1, NOTHING = -2 };

static struct {
    bool on;
    char log[65536]; /* "data 000001.mrj\n" ..., the last part of each path; not reads and writes */
    unsigned calls;  /* of those that can fail */
    op fail_op;      /* only this one, OP_NONE: any */
    unsigned fail_at, fail_times;
    int fail_how;
    bool group_short; /* the next write of several frames ends in its first one */
    int64_t now, data_cost, all_cost;
} disk;

/* Per file: how much of it is durable, and whether its name is. */
static struct {
    char name[32];
    uint64_t durable;
    bool named;
} files[64];
static size_t n_files;

static void
fd_path(int fd, char path[512])
{
    char link[64];
    ssize_t n;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = readlink(link, path, 511);
    path[n < 0 ? 0 : n] = '\0';
}

static const char *
last_part(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? path : slash + 1;
}

static void
note(op what, const char *path)
{
    size_t len = strlen(disk.log);

    snprintf(disk.log + len, sizeof(disk.log) - len, "%s %s\n", op_texts[what], last_part(path));
}

static bool
is_segment(const char *path)
{
    return mrd_str_ends(mrd_str_of(path), SEGMENT_SUFFIX);
}

/* 0, or how this call fails. */
static int
verdict(op what)
{
    if (!disk.on || (disk.fail_op != OP_NONE && disk.fail_op != what))
        return 0;
    disk.calls++;
    return disk.calls >= disk.fail_at && disk.calls < disk.fail_at + disk.fail_times ? disk.fail_how
                                                                                     : 0;
}

static size_t
file_of(const char *path)
{
    size_t i = 0;

    while (i < n_files && strcmp(files[i].name, last_part(path)) != 0)
        i++;
    if (i == n_files && n_files < MRD_COUNT(files)) {
        snprintf(files[i].name, sizeof(files[i].name), "%.31s", last_part(path));
        files[i].durable = 0;
        files[i].named = false;
        n_files++;
    }
    return i;
}

int
open(const char *path, int flags, ...)
{
    mode_t mode = 0;
    va_list ap;
    int fd;

    /* A segment that a program inherits stays open behind the journal's back. */
    CHECK(!disk.on || !is_segment(path) || (flags & O_CLOEXEC) != 0);
    va_start(ap, flags);
    if ((flags & O_CREAT) != 0)
        mode = va_arg(ap, mode_t);
    va_end(ap);
    if ((flags & O_CREAT) != 0 && is_segment(path)) {
        int how = verdict(OP_OPEN);

        if (how > 0) {
            errno = how;
            return -1;
        }
    }
    fd = (int) syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    if (fd >= 0 && disk.on && (flags & O_CREAT) != 0 && is_segment(path)) {
        note(OP_OPEN, path);
        (void) file_of(path);
    }
    return fd;
}

static ssize_t
failed_write(int how, size_t len, size_t *ret_len)
{
    *ret_len = how == SHORT ? len / 2 : len;
    if (how > 0)
        errno = how;
    return how > 0 ? -1 : how == NOTHING ? 0 : 1;
}

ssize_t
pwrite(int fd, const void *p, size_t len, off_t at)
{
    ssize_t early;
    char path[512];

    fd_path(fd, path);
    if (is_segment(path)) {
        early = failed_write(verdict(OP_WRITE), len, &len);
        if (early <= 0)
            return early;
    }
    return syscall(SYS_pwrite64, fd, p, len, at);
}

ssize_t
pwritev(int fd, const struct iovec *iov, int n, off_t at)
{
    int how = disk.group_short ? SHORT : verdict(OP_WRITE);
    struct iovec first;

    disk.group_short = false;
    if (how > 0) {
        errno = how;
        return -1;
    }
    if (how == NOTHING)
        return 0;
    if (how == SHORT) { /* half of the first one */
        first = (struct iovec){ iov[0].iov_base, iov[0].iov_len / 2 };
        return syscall(SYS_pwritev, fd, &first, 1, at, 0);
    }
    return syscall(SYS_pwritev, fd, iov, n, at, 0);
}

ssize_t
pread(int fd, void *p, size_t len, off_t at)
{
    int how = 0;
    char path[512];

    fd_path(fd, path);
    if (is_segment(path)) {
        how = verdict(OP_READ);
    }
    if (how > 0) {
        errno = how;
        return -1;
    }
    return how == NOTHING ? 0 : syscall(SYS_pread64, fd, p, how == SHORT ? (len + 1) / 2 : len, at);
}

int
ftruncate(int fd, off_t len)
{
    int how = verdict(OP_CUT);
    char path[512];

    fd_path(fd, path);
    note(OP_CUT, path);
    if (how != 0) {
        errno = how > 0 ? how : EIO;
        return -1;
    }
    return (int) syscall(SYS_ftruncate, fd, len);
}

int
unlink(const char *path)
{
    if (is_segment(path))
        note(OP_UNLINK, path);
    return (int) syscall(SYS_unlink, path);
}

int
fdatasync(int fd)
{
    int how = verdict(OP_DATA);
    char path[512];
    struct stat st;

    fd_path(fd, path);
    note(OP_DATA, path);
    disk.now += disk.data_cost;
    if (how != 0) {
        errno = how > 0 ? how : EIO;
        return -1;
    }
    if (fstat(fd, &st) == 0 && is_segment(path))
        files[file_of(path)].durable = (uint64_t) st.st_size;
    return 0;
}

/* Only folders are synced by it here. */
int
fsync(int fd)
{
    char path[512], held[4096];

    fd_path(fd, path);
    note(OP_NAME, path);
    for (size_t i = 0; i < n_files; i++) {
        snprintf(held, sizeof(held), "%s/%s", path, files[i].name);
        files[i].named = files[i].named || access(held, F_OK) == 0;
    }
    return 0;
}

int
syncfs(int fd)
{
    int how = verdict(OP_ALL);

    (void) fd;
    note(OP_ALL, "");
    disk.now += disk.all_cost;
    errno = how;
    return how != 0 ? -1 : 0;
}

/* ---- Time, kernel and file system, where the test says ---- */

static const char *kernel_release;
static long file_system;
static bool no_uname, no_statfs;

int
uname(struct utsname *name)
{
    if (no_uname)
        return -1;
    memset(name, 0, sizeof(*name));
    snprintf(name->release, sizeof(name->release), "%s", kernel_release);
    return 0;
}

int
fstatfs(int fd, struct statfs *fs)
{
    (void) fd;
    memset(fs, 0, sizeof(*fs));
    fs->f_type = (__fsword_t) file_system;
    return no_statfs ? -1 : 0;
}

int
clock_gettime(clockid_t id, struct timespec *ts)
{
    if (disk.now == 0)
        return (int) syscall(SYS_clock_gettime, id, ts);
    *ts = (struct timespec){ disk.now / 1000000000, disk.now % 1000000000 };
    return 0;
}

static void
disk_watch(void)
{
    memset(&disk, 0, sizeof(disk));
    disk.on = true;
    n_files = 0;
}

static void
disk_fail(op what, unsigned at, unsigned times, int how)
{
    disk.calls = 0;
    disk.fail_op = what;
    disk.fail_at = at;
    disk.fail_times = times;
    disk.fail_how = how;
}

static void
forget_log(void)
{
    disk.log[0] = '\0';
}

/* ---- Frames ---- */

#define BODY_MAX (MRD_FRAME_MSG_MAX / 2)

typedef struct {
    mrd_frame f;
    uint8_t *data;
    size_t len;
} made;

/* Frame number seq with `body` bytes; the content follows from both. */
static made
make(uint64_t seq, size_t body)
{
    made m = {
        .f = { .type = MRD_FRAME_CLOCK_DATA, .agent = 7, .epoch = 2, .session = 3, .seq = seq },
        .data = malloc(MRD_FRAME_HEADER + body + 1),
        .len = MRD_FRAME_HEADER + body
    };

    for (size_t i = 0; i < body; i++)
        m.data[MRD_FRAME_HEADER + i] = (uint8_t) (seq * 31 + i * 7);
    mrd_frame_put(&m.f, (mrd_bytes){ m.data + MRD_FRAME_HEADER, body }, m.data);
    return m;
}

static mrd_err
put(mrd_journal *j, uint64_t seq, size_t body)
{
    made m = make(seq, body);
    mrd_why why = { 0 };
    mrd_err err = mrd_journal_append(j, &m.f, (mrd_bytes){ m.data, m.len }, &why);

    CHECK(err == MRD_OK || (why.err == err && why.text[0] != '\0'));
    free(m.data);
    return err;
}

static mrd_journal *
journal_in(const char *dir)
{
    mrd_journal *j = NULL;
    mrd_why why = { 0 };

    if (mrd_journal_open(dir, MRD_STR(INSTANCE), 3, &j, &why) != MRD_OK)
        fprintf(stderr, "%s\n", why.text);
    return j;
}

static char *
folder(char dir[300])
{
    snprintf(dir, 300, "%s/session/journal/" INSTANCE, test_tmp());
    return dir;
}

/* Which numbers below n the folder holds whole, each once; what is damaged. */
static uint64_t
scan(const char *dir, bool *have, uint64_t n)
{
    mrd_journal_index x;
    mrd_buf buf = { 0 };
    uint64_t bad;
    mrd_why why = { 0 };

    memset(have, 0, n * sizeof(*have));
    CHECK_ERR("scan", mrd_journal_scan(dir, &x, &why), MRD_OK);
    for (size_t i = 0; i < x.n; i++) {
        mrd_bytes body;
        mrd_frame f;
        made m;

        CHECK_ERR("read", mrd_journal_read(&x, &x.entries[i], false, &buf, &f, &body, &why),
                  MRD_OK);
        CHECK(f.seq < n && !have[f.seq]);
        m = make(f.seq, body.len);
        CHECK(memcmp(m.data + MRD_FRAME_HEADER, body.p, body.len) == 0);
        free(m.data);
        if (f.seq < n)
            have[f.seq] = true;
    }
    bad = x.bad_bytes;
    mrd_buf_fini(&buf);
    mrd_journal_index_fini(&x);
    return bad;
}

/* What a power cut at this moment leaves of the folder, as a folder of its own. */
static void
power_cut(const char *dir, const char *left)
{
    disk.on = false;
    mkdir(left, 0700);
    for (size_t i = 0; i < n_files; i++) {
        char from[4096], to[4096];
        uint8_t *data = malloc(files[i].durable + 1);
        int fd;

        snprintf(from, sizeof(from), "%s/%s", dir, files[i].name);
        snprintf(to, sizeof(to), "%s/%s", left, files[i].name);
        if (files[i].named && (fd = open(from, O_RDONLY)) >= 0) {
            ssize_t n = pread(fd, data, files[i].durable, 0);

            close(fd);
            fd = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
            CHECK(pwrite(fd, data, (size_t) n, 0) == n);
            close(fd);
        }
        free(data);
    }
}

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
    CHECK_TEXT(disk.log, ""); /* what was acknowledged is durable; its index need not be */
    forget_log();
    REQUIRE((j = journal_in(dir)) != NULL);
    CHECK_ERR("put", put(j, 2, 10), MRD_OK);
    CHECK_ERR("close", mrd_journal_close(j, NULL), MRD_OK);
    CHECK_TEXT(disk.log, "create 000002.mrj\ndata 000002.mrj\n");
}

/* Fills the first segment to `room` bytes before its limit, synced. */
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

/* What was not synced when a segment ends is synced then; when that fails, the next sync says so,
 * with the frames of the next segment beside. */
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

/* The same where it does not fail: the frames before are durable before the next segment begins. */
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
        if (rows[i].what == OP_WRITE) /* no file without header stays behind */
            CHECK_TEXT(disk.log, "create 000001.mrj\nunlink 000001.mrj\n");
        CHECK(!mrd_journal_is_dirty(j));
        CHECK_INT(mrd_journal_bytes(j), 0);
        disk_fail(OP_NONE, 0, 0, 0);
        forget_log();
        CHECK_ERR("again", put(j, 0, 10), MRD_OK);
        CHECK_TEXT(disk.log, "create 000002.mrj\n"); /* not into the file that lost its name */
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

/* Two frames behind one that is there, in a write that ends in the middle of the first of them;
 * then each may fail: the file holds the frames that were told, and not a byte more. */
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

/* The number is taken: the next one. A call that a signal ended is made again. */
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
    /* Reading too: the end of a file comes only when a read gives nothing. */
    for (int how = SHORT; how <= EINTR; how += EINTR - SHORT) {
        disk_fail(OP_READ, 1, how == EINTR ? 1 : 1000, how);
        CHECK_INT(scan(dir, have, 1), 0);
        CHECK(have[0]);
    }
}

/* Files of other names and numbers do not confuse the count. */
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

/* Header, frames, index and trailer, as docs/wire.md section 7 has them. */
TEST(a_closed_segment_has_the_documented_bytes)
{
    enum { N = 300 }; /* more than the index is written of at one time, and its window holds */
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

/* An index that cannot be written, or not read back, is no loss: the frames are scanned. */
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

/* Appends and syncs with the disk failing at its at-th call; in the end everything that a sync
 * answered for is there, once, and so it is after a power cut at any of the syncs. */
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
        } else { /* nothing since the last sync may be acknowledged: all of it again */
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

/* ---- Many journals at one time ---- */

enum { MANY = 6 };

static mrd_journal *many[MANY + 4];

static void
many_open(const char *what, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char dir[300];

        snprintf(dir, sizeof(dir), "%s/%s%zu", test_tmp(), what, i);
        many[i] = journal_in(dir);
        CHECK(many[i] != NULL);
    }
}

static void
many_dirty(size_t n, uint64_t seq)
{
    for (size_t i = 0; i < n; i++)
        CHECK_ERR("put", put(many[i], seq, 10), MRD_OK);
}

static void
many_close(size_t n)
{
    for (size_t i = 0; i < n; i++)
        CHECK_ERR("close", mrd_journal_close(many[i], NULL), MRD_OK);
}

/* How many calls the n dirty journals took. */
static size_t
sync_all(mrd_journal_syncer *s, size_t n, mrd_err want)
{
    mrd_why whys[MANY + 4];
    size_t calls;

    memset(whys, 0, sizeof(whys));
    calls = mrd_journal_sync_many(s, many, n, whys);
    for (size_t i = 0; i < n; i++) {
        CHECK_ERR("each", whys[i].err, want);
        CHECK(!mrd_journal_is_dirty(many[i]));
    }
    return calls;
}

TEST(syncfs_stands_for_all_only_where_it_is_sound)
{
    static const struct {
        const char *release;
        long fs;
        bool no_uname, no_statfs, sound;
    } rows[] = {
        { "5.8.0", EXT4_SUPER_MAGIC, false, false, true },
        { "5.10.1-x", BTRFS_SUPER_MAGIC, false, false, true },
        { "6.0", 0x58465342, false, false, true },
        { "7.1", EXT4_SUPER_MAGIC, false, false, true },
        { "5.7.99", EXT4_SUPER_MAGIC, false, false, false },
        { "4.19", EXT4_SUPER_MAGIC, false, false, false },
        { "5", EXT4_SUPER_MAGIC, false, false, false },
        { "linux", EXT4_SUPER_MAGIC, false, false, false },
        { "6.1", TMPFS_MAGIC, false, false, false },
        { "6.1", EXT4_SUPER_MAGIC, true, false, false },
        { "6.1", EXT4_SUPER_MAGIC, false, true, false },
    };

    many_open("k", MANY);
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_journal_syncer *s;

        disk_watch();
        disk.now = 1000 * MRD_SEC;
        kernel_release = rows[i].release;
        file_system = rows[i].fs;
        no_uname = rows[i].no_uname;
        no_statfs = rows[i].no_statfs;
        REQUIRE(mrd_journal_syncer_open(test_tmp(), &s, NULL) == MRD_OK);
        many_dirty(MANY, i);
        CHECK_ROW(rows[i].release, sync_all(s, MANY, MRD_OK) == (rows[i].sound ? 1 : MANY));
        CHECK_ROW(rows[i].release, (strstr(disk.log, "syncfs") != NULL) == rows[i].sound);
        CHECK_ROW(rows[i].release, (strstr(disk.log, "data") != NULL) == !rows[i].sound);
        mrd_journal_syncer_close(s);
    }
    mrd_journal_syncer_close(NULL);
    many_close(MANY);
}

static mrd_journal_syncer *
sound_syncer(int64_t data_cost, int64_t all_cost)
{
    mrd_journal_syncer *s = NULL;

    disk_watch();
    disk.now = 1000 * MRD_SEC;
    disk.data_cost = data_cost;
    disk.all_cost = all_cost;
    kernel_release = "6.1";
    file_system = EXT4_SUPER_MAGIC;
    no_uname = no_statfs = false;
    CHECK_ERR("syncer", mrd_journal_syncer_open(test_tmp(), &s, NULL), MRD_OK);
    return s;
}

static size_t
turn(mrd_journal_syncer *s, size_t n)
{
    static uint64_t seq = 1000;

    many_dirty(n, seq++);
    return sync_all(s, n, MRD_OK);
}

/* Few files teach what one costs; from then on the cheaper way is taken, and a cost that was not
 * seen for a minute is learned anew. */
TEST(the_cheaper_way_is_learned)
{
    mrd_journal_syncer *s;

    many_open("c", MANY);
    /* One file costs 10, all together 35. */
    REQUIRE((s = sound_syncer(10 * MRD_MS, 35 * MRD_MS)) != NULL);
    CHECK_INT(turn(s, 4), 4); /* few: one by one */
    CHECK_INT(turn(s, 5), 1); /* the other way is not known: it is tried */
    CHECK_INT(turn(s, 4), 1); /* 35 < 40 */
    CHECK_INT(turn(s, 3), 3); /* 35 > 30 */
    CHECK_INT(turn(s, 1), 1);
    CHECK(strstr(disk.log, "data 000001.mrj\n") != NULL);
    forget_log();
    CHECK_INT(turn(s, 1), 1); /* one alone never takes syncfs */
    CHECK_TEXT(disk.log, "data 000001.mrj\n");
    /* It becomes dear: a quarter of the difference each time, (3 * 35 + 99) / 4 = 51 ... */
    disk.all_cost = 99 * MRD_MS;
    CHECK_INT(turn(s, 6), 1); /* 35 < 60 */
    CHECK_INT(turn(s, 6), 1); /* 51 < 60; then 63 */
    CHECK_INT(turn(s, 6), 6); /* 63 > 60 */
    disk.now += 59 * MRD_SEC;
    CHECK_INT(turn(s, 6), 6); /* not yet forgotten */
    disk.now += 2 * MRD_SEC;
    CHECK_INT(turn(s, 6), 1); /* forgotten: tried again */
    disk.now += 61 * MRD_SEC;
    CHECK_INT(turn(s, 4), 4); /* both forgotten: as at first */
    mrd_journal_syncer_close(s);
    many_close(MANY);
}

TEST(a_failed_syncfs_is_every_journals_error)
{
    mrd_journal_syncer *s = sound_syncer(10 * MRD_MS, 10 * MRD_MS);

    REQUIRE(s != NULL);
    many_open("e", MANY);
    many_dirty(MANY, 0);
    disk_fail(OP_ALL, 1, 1, ENOSPC);
    CHECK_INT(sync_all(s, MANY, MRD_FULL), 1);
    many_dirty(MANY, 0);
    forget_log();
    CHECK_INT(sync_all(s, MANY, MRD_OK), 1);
    CHECK_TEXT(disk.log, "syncfs \n");
    many_dirty(MANY, 1);
    CHECK_INT(sync_all(s, MANY, MRD_OK), 1);
    mrd_journal_syncer_close(s);
    many_close(MANY);
}

TEST(a_syncer_of_no_folder_says_so)
{
    mrd_journal_syncer *s = NULL;
    mrd_why why = { 0 };

    CHECK_ERR("none", mrd_journal_syncer_open("/nowhere/at/all", &s, &why), MRD_IO);
    CHECK(s == NULL && why.sys == ENOENT);
}

TEST_MAIN()
