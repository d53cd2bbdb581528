/* Tests a spool (agent/spool/spool.h) with records that another program could have written, and
 * with failing system calls. Existing data must stay, and errors and counts must state what
 * happened. */
#include "tests/check.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "agent/spool/spool.h"
#include "base/hash.h"

/* ---- Calls that fail ---- */

static int fail_create, fail_write, fail_list,
    fail_remove; /* an errno; fail_write -1 writes half */

int
open(const char *path, int flags, ...)
{
    mode_t mode = 0;
    va_list ap;

    va_start(ap, flags);
    if ((flags & O_CREAT) != 0)
        mode = va_arg(ap, mode_t);
    va_end(ap);
    if (fail_create != 0 && (flags & O_CREAT) != 0 && strstr(path, "/spool-") != NULL) {
        errno = fail_create;
        return -1;
    }
    return (int) syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int
unlink(const char *path)
{
    if (fail_remove != 0 && strstr(path, "/spool-") != NULL) {
        errno = fail_remove;
        return -1;
    }
    return (int) syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

ssize_t
pwritev(int fd, const struct iovec *iov, int n, off_t at)
{
    if (fail_write > 0) {
        errno = fail_write;
        return -1;
    }
    return syscall(SYS_pwritev, fd, iov, fail_write < 0 ? 1 : n, at, 0);
}

int
scandir(const char *path, struct dirent ***names, int (*filter)(const struct dirent *),
        int (*order)(const struct dirent **, const struct dirent **))
{
    DIR *dir = opendir(path);
    struct dirent *e;
    int n = 0;

    (void) order;
    if (fail_list != 0 || dir == NULL) {
        if (dir != NULL)
            closedir(dir);
        errno = fail_list;
        return -1;
    }
    *names = calloc(64, sizeof(**names));
    while ((e = readdir(dir)) != NULL && n < 64) {
        if (!filter(e))
            continue;
        (*names)[n] = malloc(sizeof(*e));
        memcpy((*names)[n++], e, e->d_reclen);
    }
    closedir(dir);
    for (int i = 1; i < n; i++) /* by name */
        for (int k = i; k > 0 && strcmp((*names)[k - 1]->d_name, (*names)[k]->d_name) > 0; k--) {
            struct dirent *swap = (*names)[k];

            (*names)[k] = (*names)[k - 1];
            (*names)[k - 1] = swap;
        }
    return n;
}

/* ---- Frames ---- */

static mrd_err
open_in(const char *dir, mrd_spool **ret, mrd_why *why)
{
    return mrd_spool_open(&(mrd_spool_options){ .dir = dir, .max_bytes = MRD_SPOOL_MIN_BYTES }, ret,
                          why);
}

static mrd_spool *
spool_in(const char *dir)
{
    mrd_spool *s = NULL;
    mrd_why why = { 0 };

    CHECK_ERR("open", open_in(dir, &s, &why), MRD_OK);
    if (s == NULL)
        fprintf(stderr, "%s\n", why.text);
    return s;
}

static mrd_err
add_to(mrd_spool *s, uint64_t session, size_t len, mrd_why *why)
{
    mrd_frame f = { .type = MRD_FRAME_CLOCK_DATA,
                    .epoch = mrd_spool_epoch(s),
                    .session = session,
                    .seq = mrd_spool_next_seq(s, session) };
    uint8_t *frame = calloc(1, MRD_FRAME_HEADER + len);
    mrd_err err;

    mrd_frame_put(&f, (mrd_bytes){ frame + MRD_FRAME_HEADER, len }, frame);
    err = mrd_spool_add(s, (mrd_bytes){ frame, MRD_FRAME_HEADER + len }, 3, why);
    free(frame);
    return err;
}

static mrd_err
add(mrd_spool *s, size_t len, mrd_why *why)
{
    return add_to(s, 7, len, why);
}

static void
check_held(const char *row, const mrd_spool *s, uint64_t items)
{
    mrd_spool_stats st;
    uint64_t events;

    mrd_spool_get_stats(s, &st);
    CHECK_ROW(row, mrd_spool_held(s, 7, &events) == items && events == 3 * items);
    CHECK_ROW(row, st.items == items && st.events == 3 * items);
    CHECK_ROW(row, mrd_spool_next_seq(s, 7) == items);
}

static void
check_left(const char *row, const mrd_spool *s, uint64_t items)
{
    uint64_t events;

    CHECK_ROW(row, mrd_spool_held(s, 7, &events) == items && events == 3 * items);
}

/* The next segment cannot be created, or the disk fails, or it writes half of a record. Nothing is
 * counted, and the same frame can be added when the disk works again. */
TEST(a_frame_that_could_not_be_written_is_not_there)
{
    static const struct {
        const char *name;
        int create, write;
        mrd_err want;
    } rows[] = {
        { "no file", EMFILE, 0, MRD_IO },   { "no room for a file", ENOSPC, 0, MRD_FULL },
        { "no room", 0, ENOSPC, MRD_FULL }, { "over the quota", 0, EDQUOT, MRD_FULL },
        { "a bad disk", 0, EIO, MRD_IO },   { "half of it", 0, -1, MRD_FULL },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        char dir[300];
        mrd_spool *s;
        mrd_why why = { 0 };
        uint64_t n = 0;

        snprintf(dir, sizeof(dir), "%s/w%zu", test_tmp(), i);
        REQUIRE((s = spool_in(dir)) != NULL);
        /* Enough data that the next frame needs a new segment, for the rows in which that fails. */
        while (n < (rows[i].create != 0 ? 3 : 1)) {
            CHECK_ERR(rows[i].name, add(s, 150000, &why), MRD_OK);
            n++;
        }
        CHECK_ERR("commit", mrd_spool_commit(s, NULL, 0, NULL), MRD_OK);
        fail_create = rows[i].create;
        fail_write = rows[i].write;
        CHECK_ERR(rows[i].name, add(s, 150000, &why), rows[i].want);
        CHECK_ROW(rows[i].name, why.err == rows[i].want && why.text[0] != '\0');
        check_held(rows[i].name, s, n);
        if (rows[i].write != 0)
            CHECK_ROW(rows[i].name, mrd_spool_commit(s, NULL, 0, &why) == rows[i].want);
        fail_create = fail_write = 0;
        CHECK_ERR(rows[i].name, add(s, 150000, &why), MRD_OK);
        CHECK_ERR("commit", mrd_spool_commit(s, NULL, 0, NULL), MRD_OK);
        check_held(rows[i].name, s, n + 1);
        mrd_spool_close(s);
        REQUIRE((s = spool_in(dir)) != NULL);
        check_held(rows[i].name, s, n + 1);
        mrd_spool_close(s);
    }
}

/* Counts the segments in the directory, and the non-empty ones. */
static void
count_segments(const char *dir, size_t *ret_files, size_t *ret_filled)
{
    DIR *d = opendir(dir);
    struct dirent *e;

    *ret_files = *ret_filled = 0;
    REQUIRE(d != NULL);
    while ((e = readdir(d)) != NULL) {
        struct stat st;

        if (strncmp(e->d_name, "spool-", 6) != 0)
            continue;
        CHECK(fstatat(dirfd(d), e->d_name, &st, 0) == 0);
        ++*ret_files;
        *ret_filled += st.st_size > 0;
    }
    closedir(d);
}

/* A segment that cannot be removed is truncated to zero. A successor finds none of its frames
 * again. */
TEST(what_cannot_be_removed_holds_nothing)
{
    char dir[300];
    mrd_spool_item item;
    mrd_spool *s;
    size_t files, filled, before;

    snprintf(dir, sizeof(dir), "%s/stuck", test_tmp());
    REQUIRE((s = spool_in(dir)) != NULL);
    for (int i = 0; i < 7; i++)
        CHECK_ERR("add", add(s, 150000, NULL), MRD_OK);
    CHECK_ERR("commit", mrd_spool_commit(s, NULL, 0, NULL), MRD_OK);
    count_segments(dir, &before, &filled);
    CHECK(before >= 3 && filled == before);
    fail_remove = EACCES;
    for (int i = 0; i < 6; i++) {
        REQUIRE(mrd_spool_peek(s, 0, &item));
        CHECK(mrd_spool_done(s, item.id, true));
        CHECK_ERR("commit", mrd_spool_commit(s, NULL, 0, NULL), MRD_OK);
    }
    count_segments(dir, &files, &filled);
    CHECK(files == before && filled <= before - 2 && filled >= 1);
    check_left("stuck", s, 1);
    mrd_spool_close(s);
    fail_remove = 0;
    REQUIRE((s = spool_in(dir)) != NULL);
    check_left("again", s, 1);
    mrd_spool_close(s);
}

TEST(a_folder_that_cannot_be_read_is_said)
{
    char dir[300];
    mrd_spool *s;
    mrd_why why = { 0 };

    snprintf(dir, sizeof(dir), "%s/list", test_tmp());
    REQUIRE((s = spool_in(dir)) != NULL);
    CHECK_ERR("add", add(s, 10, &why), MRD_OK);
    CHECK_ERR("commit", mrd_spool_commit(s, NULL, 0, NULL), MRD_OK);
    mrd_spool_close(s);
    fail_list = EACCES; /* a directory that cannot be listed must not be started again from empty */
    CHECK_ERR("list", open_in(dir, &s, &why), MRD_IO);
    CHECK(strstr(why.text, dir) != NULL && why.sys == EACCES);
    fail_list = 0;
    REQUIRE((s = spool_in(dir)) != NULL);
    check_held("again", s, 1);
    mrd_spool_close(s);
}

/* Counts the open descriptors. The lowest free descriptor would not show those above it. */
static int
open_descriptors(void)
{
    int n = 0;

    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* A file that is not a regular file has a segment's name. The open reports it, does not remove it,
 * and leaves no descriptor open. */
TEST(a_segment_that_is_no_file_is_said)
{
    char dir[300], path[400];
    mrd_spool *s;
    mrd_why why = { 0 };
    struct stat st;
    int before;

    snprintf(dir, sizeof(dir), "%s/fifo", test_tmp());
    snprintf(path, sizeof(path), "%s/spool-0000000000000001.mrs", dir);
    CHECK(mkdir(dir, 0700) == 0 && mkfifo(path, 0600) == 0);
    before = open_descriptors();
    CHECK_ERR("open", open_in(dir, &s, &why), MRD_IO);
    CHECK(strstr(why.text, path) != NULL);
    CHECK_INT(open_descriptors(), before);
    CHECK(lstat(path, &st) == 0 && S_ISFIFO(st.st_mode));
    CHECK(unlink(path) == 0);
    REQUIRE((s = spool_in(dir)) != NULL);
    mrd_spool_close(s);
    CHECK_INT(open_descriptors(), before);
}

/* ---- Records ---- */

typedef struct {
    const char *name;
    uint32_t kind, len;
    uint32_t words[8]; /* the first words of the payload; the rest is zero */
    bool ok;
} record;

static void
append(const char *dir, const record *r)
{
    uint32_t head[4] = { 0x5053524d, r->kind, r->len, 0 };
    uint8_t *payload = calloc(1, r->len + sizeof(r->words));
    char path[400];
    FILE *f;

    memcpy(payload, r->words, sizeof(r->words));
    head[3] = mrd_crc32(mrd_crc32(0, head + 1, 8), payload, r->len);
    snprintf(path, sizeof(path), "%s/spool-0000000000000001.mrs", dir);
    REQUIRE((f = fopen(path, "a")) != NULL);
    CHECK(fwrite(head, sizeof(head), 1, f) == 1 && fwrite(payload, 1, r->len, f) == r->len);
    fclose(f);
    free(payload);
}

/* A record has a correct checksum and invalid contents. The segment is cut before this record, so
 * that all later records are removed too. */
TEST(records_are_checked)
{
    static const record rows[] = {
        { "an answer", 3, 48, { 0 }, true },
        { "a short answer", 3, 47, { 0 }, false },
        { "a long answer", 3, 49, { 0 }, false },
        { "no answer", 3, 0, { 0 }, false },
        { "clock data lost", 6, 16, { 0 }, true },
        { "too short for it", 6, 15, { 0 }, false },
        { "too long for it", 6, 17, { 0 }, false },
        { "a session", 2, 48, { 1 }, true },
        { "a session with the longest note", 2, 48 + MRD_SPOOL_NOTE, { 1 }, true },
        { "with a longer one", 2, 49 + MRD_SPOOL_NOTE, { 1 }, false },
        { "half a session", 2, 47, { 1 }, false },
        { "an empty commit", 4, 8, { 0 }, true },
        { "half a commit", 4, 7, { 0 }, false },
        { "a byte behind a commit", 4, 9, { 0 }, false },
        { "a position", 4, 8 + 16, { 1 }, true },
        { "half a position", 4, 8 + 15, { 1 }, false },
        { "two positions in the room of one", 4, 8 + 16, { 2 }, false },
        { "more than are allowed", 4, 8 + 16 * 65537, { 65537 }, false },
        { "a note", 4, 8 + 16 + 4, { 0, 1, 7, 0, 4, 0, 0x65746f6e }, true },
        { "an empty note", 4, 8 + 16, { 0, 1, 7 }, true },
        { "a note that ends too early", 4, 8 + 16 + 3, { 0, 1, 7, 0, 4 }, false },
        { "half a note's head", 4, 8 + 15, { 0, 1 }, false },
        { "one of two notes", 4, 8 + 16, { 0, 2 }, false },
        { "too long a note", 4, 8 + 16 + 1153, { 0, 1, 7, 0, 1153 }, false },
        { "nothing before counts", 5, 0, { 0 }, true },
        { "half a frame", 1, 7, { 0 }, false },
        { "no frame", 1, 8, { 0 }, false },
        { "a frame of zeros", 1, 8 + 96, { 0 }, false },
        { "another boot", 7, 0, { 0 }, true },
        { "a base", 8, 64, { 7 }, true },
        { "a base with the longest note", 8, 64 + MRD_SPOOL_NOTE, { 7 }, true },
        { "with a longer one", 8, 65 + MRD_SPOOL_NOTE, { 7 }, false },
        { "half a base", 8, 63, { 7 }, false },
        { "an unknown kind", 9, 0, { 0 }, false },
        { "kind 0", 0, 48, { 0 }, false },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        static const record behind = { "clock data lost", 6, 16, { 7, 0, 5 }, true };
        char dir[300];
        mrd_spool *s;
        mrd_spool_stats st;
        mrd_spool_tally t;

        snprintf(dir, sizeof(dir), "%s/r%zu", test_tmp(), i);
        REQUIRE((s = spool_in(dir)) != NULL);
        CHECK_ERR("add", add(s, 10, NULL), MRD_OK);
        CHECK_ERR("commit", mrd_spool_commit(s, NULL, 0, NULL), MRD_OK);
        mrd_spool_close(s);
        append(dir, &rows[i]);
        append(dir, &behind);
        REQUIRE((s = spool_in(dir)) != NULL);
        mrd_spool_get_stats(s, &st);
        CHECK_ROW(rows[i].name, mrd_spool_held(s, 7, NULL) == 1);
        CHECK_ROW(rows[i].name, st.torn_bytes == (rows[i].ok ? 0 : 16 + rows[i].len + 16 + 16));
        CHECK_ROW(rows[i].name, mrd_spool_clock_lost(s, 7) == (rows[i].ok ? 5 : 0));
        mrd_spool_get_tally(s, 7, &t);
        CHECK_ROW(rows[i].name, rows[i].ok || t.note_len == 0); /* nothing of it is taken */
        mrd_spool_get_tally(s, 6ull << 32 | 0x5053524d, &t);
        /* nor is the following part read as a session's record */
        CHECK_ROW(rows[i].name, t.note_len == 0);
        mrd_spool_close(s);
    }
}

/* ---- Sessions ---- */

/* Notes and frames of sessions above the limit are refused. Other sessions are not affected. */
TEST(sessions_are_bounded)
{
    enum { MOST = 4096 };
    mrd_spool *s = spool_in(NULL);
    mrd_why why = { 0 };
    mrd_spool_stats st;

    REQUIRE(s != NULL);
    for (uint64_t i = 1; i <= MOST; i++)
        CHECK_ERR("note", mrd_spool_note(s, i, "x", 1), MRD_OK);
    CHECK_ERR("one more", mrd_spool_note(s, MOST + 1, "x", 1), MRD_LIMIT);
    CHECK_ERR("a frame", add_to(s, MOST + 1, 10, &why), MRD_LIMIT);
    CHECK(strstr(why.text, "sessions") != NULL && mrd_spool_next_seq(s, MOST + 1) == 0);
    mrd_spool_get_stats(s, &st);
    CHECK(st.items == 0 && st.events == 0);
    CHECK_ERR("of one that is known", add_to(s, MOST, 10, &why), MRD_OK);
    CHECK_INT(mrd_spool_held(s, MOST, NULL), 1);
    mrd_spool_lose_clock(s, MOST + 1);
    CHECK_INT(mrd_spool_clock_lost(s, MOST + 1), 0);
    for (uint64_t i = 1; i <= MOST; i++)
        CHECK(mrd_spool_clock_lost(s, i) == 0);
    mrd_spool_lose_clock(s, MOST);
    CHECK_INT(mrd_spool_clock_lost(s, MOST), 1);
    mrd_spool_close(s);
}

/* A directory without sessions has only the records of its epoch: 16 and 48 bytes. */
TEST(no_session_costs_nothing)
{
    for (int life = 0; life < 3; life++) {
        mrd_spool *s = spool_in(test_tmp());
        mrd_spool_stats st;

        REQUIRE(s != NULL);
        mrd_spool_get_stats(s, &st);
        CHECK_INT(st.file_bytes, 64);
        mrd_spool_close(s);
    }
}

/* A new frame makes a forgotten session active again, so its events are recorded in the counts
 * again. */
TEST(a_frame_recalls_a_forgotten_session)
{
    char dir[300], path[400];
    mrd_spool *s;
    mrd_spool_tally t;

    snprintf(dir, sizeof(dir), "%s/recall", test_tmp());
    REQUIRE((s = spool_in(dir)) != NULL);
    CHECK_ERR("add", add(s, 10, NULL), MRD_OK);
    CHECK_ERR("commit", mrd_spool_commit(s, NULL, 0, NULL), MRD_OK);
    mrd_spool_forget(s, 7);
    CHECK_ERR("add", add(s, 10, NULL), MRD_OK);
    CHECK_ERR("commit", mrd_spool_commit(s, NULL, 0, NULL), MRD_OK);
    mrd_spool_close(s);
    snprintf(path, sizeof(path), "%s/spool-0000000000000001.mrs", dir);
    CHECK(unlink(path) == 0);
    REQUIRE((s = spool_in(dir)) != NULL);
    mrd_spool_get_tally(s, 7, &t);
    CHECK_INT(t.damaged, 6);
    mrd_spool_close(s);
}

/* Another program has created links with the names of the next segments. The spool must not write
 * through them. */
TEST(another_name_in_the_place_of_a_segment)
{
    static const char *const names[] = { "a symbolic link", "a hard link", "a file", "a folder" };

    for (size_t how = 0; how < MRD_COUNT(names); how++) {
        char dir[300], path[400], theirs[400], text[16] = "";
        mrd_why why = { 0 };
        mrd_err err = MRD_OK;
        struct stat st;
        mrd_spool *s;
        uint64_t n = 0;
        FILE *f;

        snprintf(dir, sizeof(dir), "%s/name%zu", test_tmp(), how);
        snprintf(path, sizeof(path), "%s/spool-0000000000000002.mrs", dir);
        snprintf(theirs, sizeof(theirs), "%s/theirs%zu", test_tmp(), how);
        REQUIRE((s = spool_in(dir)) != NULL && (f = fopen(theirs, "w")) != NULL);
        CHECK(fputs("theirs", f) >= 0 && fclose(f) == 0);
        CHECK((how == 0   ? symlink(theirs, path)
               : how == 1 ? link(theirs, path)
               : how == 2 ? rename(theirs, path)
                          : mkdir(path, 0700)) == 0);
        while (stat(path, &st) == 0 && err == MRD_OK && n < 4) { /* the fourth needs it */
            err = add(s, 150000, &why);
            n += err == MRD_OK;
        }
        if (how == 3) {
            CHECK_ERR(names[how], err, MRD_IO);
            CHECK(strstr(why.text, path) != NULL && n == 3 && rmdir(path) == 0);
            CHECK_ERR(names[how], add(s, 150000, &why), MRD_OK);
            n++;
        } else {
            CHECK_ERR(names[how], err, MRD_OK);
            CHECK(lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1);
            CHECK_INT(st.st_mode & 0777, 0600);
        }
        if (how < 2) {
            REQUIRE((f = fopen(theirs, "r")) != NULL);
            CHECK(fread(text, 1, sizeof(text) - 1, f) == 6 && strcmp(text, "theirs") == 0);
            fclose(f);
        }
        CHECK_ERR("commit", mrd_spool_commit(s, NULL, 0, NULL), MRD_OK);
        mrd_spool_close(s);
        REQUIRE((s = spool_in(dir)) != NULL);
        CHECK_INT(mrd_spool_held(s, 7, NULL), n);
        mrd_spool_close(s);
    }
}

/* A cleanup job or a user removes the directory or its files while the agent runs. The agent
 * continues in a new directory with the same lock. The frames that it holds open are still
 * readable. */
TEST(a_folder_that_is_removed_is_made_again)
{
    static const char *const names[] = { "all of it", "its files", "renamed" };

    for (size_t how = 0; how < MRD_COUNT(names); how++) {
        char dir[300], text[700];
        mrd_spool *s, *second = NULL;
        size_t files, filled;
        mrd_why why = { 0 };
        mrd_spool_item item = { 0 };
        mrd_buf data = { 0 };
        mrd_spool_stats st;

        snprintf(dir, sizeof(dir), "%s/gone%zu", test_tmp(), how);
        REQUIRE((s = spool_in(dir)) != NULL);
        for (int i = 0; i < 2; i++)
            CHECK_ERR(names[how], add(s, 50000, &why), MRD_OK);
        CHECK_ERR("commit", mrd_spool_commit(s, NULL, 0, NULL), MRD_OK);
        snprintf(text, sizeof(text),
                 how == 0   ? "rm -r '%s'"
                 : how == 1 ? "rm '%s'/*"
                            : "mv '%s' '%s.old'",
                 dir, dir);
        REQUIRE(system(text) == 0);
        /* more than fits into the renamed segment, which is filled first */
        for (int i = 0; i < 6; i++)
            CHECK_ERR(names[how], add(s, 150000, &why), MRD_OK);
        CHECK_ERR("commit", mrd_spool_commit(s, NULL, 0, NULL), MRD_OK);
        check_held(names[how], s, 8);
        count_segments(dir, &files, &filled);
        CHECK_ROW(names[how], files >= 2 && filled == files);
        CHECK_ERR(names[how], open_in(dir, &second, &why), MRD_BUSY);
        for (int i = 0; i < 8; i++) {
            CHECK_ROW(names[how], mrd_spool_peek(s, item.id + 1, &item));
            CHECK_ERR(names[how], mrd_spool_read(s, item.id, &data, &why), MRD_OK);
        }
        mrd_buf_fini(&data);
        mrd_spool_get_stats(s, &st);
        CHECK_INT(st.failures, 0);
        CHECK_INT(st.remade, 1);
        mrd_spool_close(s);
        REQUIRE((s = spool_in(dir)) != NULL); /* the removed frames are counted as missing */
        mrd_spool_get_stats(s, &st);
        CHECK_ROW(names[how], st.items > 0 && st.items < 8);
        CHECK_INT(st.events + st.damaged_events, 3 * 8);
        mrd_spool_close(s);
    }
}

/* After a file size limit or a bad disk block, the rest of the segment is not used. */
TEST(a_segment_that_refuses_is_left)
{
    struct rlimit limit, small;
    size_t files, filled;
    char dir[300];
    mrd_why why = { 0 };
    mrd_spool_stats st;
    mrd_spool *s;

    snprintf(dir, sizeof(dir), "%s/refuses", test_tmp());
    REQUIRE((s = spool_in(dir)) != NULL);
    CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0 && signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    small = (struct rlimit){ 200000, limit.rlim_max };
    CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
    for (int i = 0; i < 7; i++) {
        CHECK_ERR("add", add(s, 90000, &why), MRD_OK);
        CHECK_ERR("commit", mrd_spool_commit(s, NULL, 0, NULL), MRD_OK);
    }
    small.rlim_cur = 50000;
    CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
    CHECK_ERR("in none", add(s, 90000, &why), MRD_IO);
    mrd_spool_get_stats(s, &st);
    CHECK_INT(st.failures, 1);
    CHECK(strstr(mrd_spool_failure(s), "File too large") != NULL);
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    check_held("refused", s, 7);
    count_segments(dir, &files, &filled);
    CHECK(files >= 4);
    mrd_spool_close(s);
    REQUIRE((s = spool_in(dir)) != NULL);
    check_left("refused", s, 7);
    mrd_spool_close(s);
}

/* A commit has notes of more sessions than a spool allows, so no spool has written it. The
 * directory is not opened. */
TEST(too_many_sessions_in_a_segment)
{
    enum { MOST = 4096 };

    for (int more = 0; more < 2; more++) {
        uint32_t n = MOST + (uint32_t) more, size = 8 + n * 16,
                 head[4] = { 0x5053524d, 4, size, 0 };
        uint8_t *payload = calloc(1, size);
        char dir[300], path[400];
        mrd_why why = { 0 };
        mrd_spool *s = NULL;
        FILE *f;

        snprintf(dir, sizeof(dir), "%s/notes%d", test_tmp(), more);
        REQUIRE((s = spool_in(dir)) != NULL);
        mrd_spool_close(s);
        s = NULL;
        memcpy(payload + 4, &n, sizeof(n));
        for (uint64_t i = 0; i < n; i++)
            memcpy(payload + 8 + i * 16, &(uint64_t){ 100 + i }, 8);
        head[3] = mrd_crc32(mrd_crc32(0, head + 1, 8), payload, size);
        snprintf(path, sizeof(path), "%s/spool-0000000000000001.mrs", dir);
        REQUIRE((f = fopen(path, "a")) != NULL);
        CHECK(fwrite(head, sizeof(head), 1, f) == 1 && fwrite(payload, 1, size, f) == size);
        fclose(f);
        free(payload);
        CHECK_ERR("open", open_in(dir, &s, &why), more ? MRD_LIMIT : MRD_OK);
        CHECK(!more || strstr(why.text, path) != NULL);
        mrd_spool_close(s);
    }
}

TEST_MAIN()
