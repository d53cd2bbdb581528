/* with _FORTIFY_SOURCE, the C library defines inline functions with the names defined here */
#undef _FORTIFY_SOURCE
#include "tests/aggregator/journal_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <time.h>

/* ---- The disk ---- */

static const char *const op_texts[] = { "",     "",       "",    "create", "data",
                                        "name", "unlink", "cut", "syncfs" };

struct disk disk;

/* State of each file: its durable length, and whether its name is durable. */
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

/* Returns 0, or how this call fails. */
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

    /* A child process must not inherit a segment, because it would keep the file open. */
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

/* The journal uses fsync for directories only. */
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

/* ---- Clock, kernel release and file system type that the tests choose ---- */

const char *kernel_release;
long file_system;
bool no_uname, no_statfs;

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

void
disk_watch(void)
{
    memset(&disk, 0, sizeof(disk));
    disk.on = true;
    n_files = 0;
}

void
disk_fail(op what, unsigned at, unsigned times, int how)
{
    disk.calls = 0;
    disk.fail_op = what;
    disk.fail_at = at;
    disk.fail_times = times;
    disk.fail_how = how;
}

void
forget_log(void)
{
    disk.log[0] = '\0';
}

/* ---- Frames ---- */

/* Makes frame number seq with `body` bytes. The contents depend only on both. */
made
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

mrd_err
put(mrd_journal *j, uint64_t seq, size_t body)
{
    made m = make(seq, body);
    mrd_why why = { 0 };
    mrd_err err = mrd_journal_append(j, &m.f, (mrd_bytes){ m.data, m.len }, &why);

    CHECK(err == MRD_OK || (why.err == err && why.text[0] != '\0'));
    free(m.data);
    return err;
}

mrd_journal *
journal_in(const char *dir)
{
    mrd_journal *j = NULL;
    mrd_why why = { 0 };

    if (mrd_journal_open(dir, MRD_STR(INSTANCE), 3, &j, &why) != MRD_OK)
        fprintf(stderr, "%s\n", why.text);
    return j;
}

char *
folder(char dir[300])
{
    snprintf(dir, 300, "%s/session/journal/" INSTANCE, test_tmp());
    return dir;
}

/* Marks the numbers below n that are complete in the directory, each once. Returns the damaged
 * bytes. */
uint64_t
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

/* Copies to `left` the state of the directory that a power failure would leave now. */
void
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
