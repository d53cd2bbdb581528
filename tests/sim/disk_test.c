/* Tests the simulated disk itself: the guarantees of POSIX, their limits, and the effects of
 * faults. */
#include "tests/sim/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <time.h>

#include "base/sys/file.h"
#include "base/sys/out.h"
#include "tests/check.h"

#define MAX 100000u

/* A fault for the next calls of one kind. The first `pass` calls succeed, then calls end as `v`
 * says. */
typedef struct {
    sim_disk_call call; /* this kind only */
    unsigned pass;      /* number of calls that succeed before this fault */
    sim_disk_verdict v;
    unsigned asked;
} fault;

static void
before(void *self, const sim_disk_op *op, sim_disk_verdict *v)
{
    fault *f = self;

    if (op->call != f->call)
        return;
    if (f->asked++ == f->pass)
        *v = f->v;
}

static sim_disk *
disk(uint64_t seed)
{
    return sim_disk_new("a", &(sim_disk_options){ .seed = seed });
}

static void
put(const char *path, const char *text, bool sync)
{
    int fd = open(path, O_WRONLY | O_CREAT, 0600);

    CHECK(fd >= 0);
    CHECK_INT(pwrite(fd, text, strlen(text), 0), strlen(text));
    CHECK(!sync || fsync(fd) == 0);
    close(fd);
}

static const char *
get(const char *path)
{
    static char text[2000];
    int fd = open(path, O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    if (fd >= 0)
        close(fd);
    text[n < 0 ? 0 : n] = '\0';
    return n < 0 ? NULL : text;
}

static void
sync_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY);

    CHECK(fd >= 0 && fsync(fd) == 0);
    close(fd);
}

TEST(files_are_as_posix_has_them)
{
    sim_disk *d = disk(1);
    char text[16] = "";
    struct stat a, b;
    struct iovec v[2] = { { text, 3 }, { text + 3, 3 } };
    int fd;

    CHECK(open("/sim/a/x", O_RDONLY) < 0 && errno == ENOENT);
    CHECK(open("/sim/a/no/x", O_RDWR | O_CREAT, 0600) < 0 && errno == ENOENT);
    put("/sim/a/x", "hello", false);
    CHECK_TEXT(get("/sim/a/x"), "hello");
    CHECK(open("/sim/a/x", O_RDWR | O_CREAT | O_EXCL, 0600) < 0 && errno == EEXIST);
    CHECK(open("/sim/a/x/y", O_RDONLY) < 0 && errno == ENOTDIR);
    CHECK((fd = open("/sim/a/x", O_RDWR)) >= 0);
    memcpy(text, "abcdef", 6);
    CHECK_INT(pwritev(fd, v, 2, 8), 6); /* after a hole */
    CHECK_INT(fstat(fd, &a), 0);
    CHECK_INT(a.st_size, 14);
    CHECK(memcmp(get("/sim/a/x"), "hello\0\0\0abcdef", 14) == 0);
    CHECK(ftruncate(fd, 2) == 0 && ftruncate(fd, 4) == 0);
    CHECK_INT(lseek(fd, 0, SEEK_END), 4);
    CHECK_INT(write(fd, "z", 1), 1);
    CHECK(memcmp(get("/sim/a/x"), "he\0\0z", 5) == 0);
    CHECK(mmap(NULL, 1, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED && errno == ENODEV);
    CHECK_INT(unlink("/sim/a/x"), 0);
    CHECK(stat("/sim/a/x", &b) < 0 && errno == ENOENT);
    CHECK_INT(pread(fd, text, sizeof(text), 0), 5); /* still open */
    CHECK(fstat(fd, &b) == 0 && b.st_ino == a.st_ino && b.st_nlink == 0);
    CHECK_INT(close(fd), 0);
    CHECK(close(fd) < 0 && errno == EBADF);
    CHECK_INT(sim_disk_used(d), 0);
    CHECK_INT(sim_disk_open_files(d), 0);
    sim_disk_free(d);
}

TEST(names_are_as_posix_has_them)
{
    sim_disk *d = disk(1);
    struct stat a, b;
    struct dirent *e;
    char names[100] = "";
    DIR *dir;

    CHECK(mkdir("/sim/a/d", 0755) == 0 && mkdir("/sim/a/d", 0755) < 0 && errno == EEXIST);
    put("/sim/a/d/x", "x", false);
    put("/sim/a/d/y", "y", false);
    CHECK(rmdir("/sim/a/d") < 0 && errno == ENOTEMPTY);
    CHECK(unlink("/sim/a/d") < 0 && errno == EISDIR);
    CHECK(rename("/sim/a/d/x", "/sim/a/d/y") == 0);
    CHECK_TEXT(get("/sim/a/d/y"), "x");
    CHECK(rename("/sim/a/d/y", "/tmp/y") < 0 && errno == EXDEV);
    CHECK(link("/sim/a/d/y", "/sim/a/z") == 0);
    CHECK(stat("/sim/a/z", &a) == 0 && stat("/sim/a/./d//y", &b) == 0 && a.st_ino == b.st_ino);
    CHECK_INT(a.st_nlink, 2);
    CHECK(symlink("d/y", "/sim/a/s") == 0 && lstat("/sim/a/s", &a) == 0 && S_ISLNK(a.st_mode));
    CHECK((dir = opendir("/sim/a")) != NULL);
    while ((e = readdir(dir)) != NULL) {
        strcat(names, e->d_name);
        strcat(names, " ");
        if (strcmp(e->d_name, "z") == 0)
            unlink("/sim/a/z"); /* while it is read */
    }
    closedir(dir);
    CHECK_TEXT(names, "d z s ");
    mrd_remove_tree("/sim/a/d");
    CHECK(stat("/sim/a/d", &a) < 0 && errno == ENOENT);
    /* no simulated machine has the name "b", so the kernel handles the call */
    CHECK(opendir("/sim/b") == NULL);
    sim_disk_free(d);
}

TEST(locks_are_given_back_by_the_death_of_a_process)
{
    sim_disk *d = disk(1);
    int a = open("/sim/a/lock", O_RDWR | O_CREAT, 0600), b = open("/sim/a/lock", O_RDWR);

    CHECK(flock(a, LOCK_EX | LOCK_NB) == 0);
    CHECK(flock(b, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK);
    sim_disk_kill(d);
    CHECK(close(a) < 0 && errno == EBADF);
    b = open("/sim/a/lock", O_RDWR);
    CHECK(flock(b, LOCK_EX | LOCK_NB) == 0);
    close(b);
    sim_disk_free(d);
}

TEST(what_was_not_synced_goes_with_the_power)
{
    sim_disk *d = disk(1);
    struct stat st;

    put("/sim/a/named", "one", true);
    sync_folder("/sim/a");
    put("/sim/a/named", "two", false);
    put("/sim/a/unnamed", "synced", true); /* the bytes are durable, but not the name */
    mkdir("/sim/a/d", 0755);
    put("/sim/a/d/x", "x", true);
    sync_folder("/sim/a/d"); /* the name of d itself is not durable */
    sim_disk_kill(d);        /* only the process ends, so nothing is lost */
    CHECK_TEXT(get("/sim/a/named"), "two");
    CHECK_TEXT(get("/sim/a/d/x"), "x");
    sim_disk_cut_power(d, SIM_DISK_NOTHING);
    CHECK_TEXT(get("/sim/a/named"), "one");
    CHECK(stat("/sim/a/unnamed", &st) < 0 && stat("/sim/a/d", &st) < 0);
    CHECK_INT(sim_disk_used(d), 256 + 3);
    sim_disk_free(d);
}

TEST(a_rename_is_whole_or_not_there)
{
    sim_disk *d = disk(1);

    mkdir("/sim/a/from", 0755);
    mkdir("/sim/a/to", 0755);
    put("/sim/a/from/x", "new", true);
    put("/sim/a/to/x", "old", true);
    sync_folder("/sim/a");
    sync_folder("/sim/a/from");
    sync_folder("/sim/a/to");
    CHECK(rename("/sim/a/from/x", "/sim/a/to/x") == 0);
    sim_disk_cut_power(d, SIM_DISK_NOTHING);
    CHECK_TEXT(get("/sim/a/from/x"), "new");
    CHECK_TEXT(get("/sim/a/to/x"), "old");
    CHECK(rename("/sim/a/from/x", "/sim/a/to/x") == 0);
    sync_folder("/sim/a/to");
    sim_disk_cut_power(d, SIM_DISK_NOTHING);
    CHECK(get("/sim/a/from/x") == NULL);
    CHECK_TEXT(get("/sim/a/to/x"), "new");
    sim_disk_free(d);
}

/* A power failure keeps a random part of the unsynced data. Over many seeds, every possible result
 * must occur, and no impossible one. */
TEST(a_cut_keeps_any_part_that_the_seed_says)
{
    unsigned named = 0, whole = 0, torn = 0, none = 0, holes = 0;
    static char want[2048], block[2048];

    memset(want, 'b', sizeof(want));
    memset(block, 'a', sizeof(block));
    for (uint64_t seed = 0; seed < 200; seed++) {
        sim_disk *d = disk(seed);
        mrd_buf got = { 0 };
        size_t kept = 0, zeros = 0;
        int fd = open("/sim/a/x", O_RDWR | O_CREAT, 0600);

        CHECK(pwrite(fd, block, 1000, 0) == 1000 && fsync(fd) == 0);
        sync_folder("/sim/a");
        CHECK(pwrite(fd, want, sizeof(want), 1000) == sizeof(want));
        put("/sim/a/y", "", false);
        sim_disk_cut_power(d, seed % 2 == 0 ? SIM_DISK_ANY : SIM_DISK_PREFIX);
        CHECK_ERR("x", mrd_file_read("/sim/a/x", MAX, &got, NULL), MRD_OK);
        CHECK(got.len >= 1000 && got.len <= 1000 + sizeof(want));
        CHECK(got.len >= 1000 && memcmp(got.p, block, 1000) == 0);
        for (size_t i = 1000; i < got.len; i++) {
            kept += got.p[i] == 'b';
            zeros += got.p[i] == 0;
        }
        CHECK(kept + zeros + 1000 == got.len);
        CHECK(seed % 2 == 0 || zeros == 0);
        named += get("/sim/a/y") != NULL;
        whole += kept == sizeof(want);
        none += got.len == 1000;
        torn += zeros == 0 && kept > 0 && kept < sizeof(want) && (1000 + kept) % 512 != 0;
        holes += zeros > 0 && kept > 0;
        mrd_buf_fini(&got);
        sim_disk_free(d);
    }
    CHECK(named > 50 && named < 150 && whole > 0 && torn > 20 && none > 0 && holes > 20);
}

TEST(what_a_failed_sync_lost_is_not_found_by_the_next)
{
    fault f = { .call = SIM_DISK_SYNC, .v = { .err = EIO } };
    unsigned gone = 0, there = 0;

    for (uint64_t seed = 0; seed < 50; seed++) {
        sim_disk *d =
            sim_disk_new("a", &(sim_disk_options){ .seed = seed, .before = before, .self = &f });
        int fd = open("/sim/a/x", O_RDWR | O_CREAT, 0600);

        sync_folder("/sim/a");
        f.asked = 0;
        CHECK_INT(write(fd, "lost", 4), 4);
        CHECK(fsync(fd) < 0 && errno == EIO);
        CHECK_INT(fsync(fd), 0);
        CHECK_TEXT(get("/sim/a/x"), "lost"); /* the cache has it */
        sim_disk_cut_power(d, SIM_DISK_ALL);
        gone += get("/sim/a/x") == NULL || strcmp(get("/sim/a/x"), "lost") != 0;
        there += get("/sim/a/x") != NULL && strcmp(get("/sim/a/x"), "lost") == 0;
        sim_disk_free(d);
    }
    CHECK(gone > 10 && there > 0);
}

TEST(what_a_failed_syncfs_lost_is_told_by_each_descriptor_once)
{
    fault f = { .call = SIM_DISK_SYNC_ALL, .v = { .err = ENOSPC } };
    sim_disk *d = sim_disk_new("a", &(sim_disk_options){ .seed = 1, .before = before, .self = &f });
    int fd[3];

    fd[0] = open("/sim/a/x", O_RDWR | O_CREAT, 0600);
    fd[1] = open("/sim/a/x", O_RDONLY);
    CHECK_INT(write(fd[0], "lost", 4), 4);
    CHECK(syncfs(fd[0]) < 0 && errno == ENOSPC);
    /* this descriptor must get the error, which was not reported yet */
    fd[2] = open("/sim/a/x", O_RDONLY);
    for (unsigned i = 0; i < 3; i++) {
        CHECK(fsync(fd[i]) < 0 && errno == EIO);
        CHECK_INT(fsync(fd[i]), 0);
        close(fd[i]);
    }
    fd[0] = open("/sim/a/x", O_RDONLY);
    CHECK_INT(fsync(fd[0]), 0);
    CHECK_INT(syncfs(fd[0]), 0);
    close(fd[0]);
    sim_disk_free(d);
}

TEST(a_full_disk_takes_what_has_room)
{
    sim_disk *d = sim_disk_new("a", &(sim_disk_options){ .quota = 1000 });
    static const char block[2000];
    struct statvfs fs;
    mrd_why why = { 0 };
    int fd = open("/sim/a/x", O_RDWR | O_CREAT, 0600);

    CHECK_INT(pwrite(fd, block, 700, 0), 700);
    CHECK_INT(pwrite(fd, block, 100, 700), 44); /* short, then none */
    CHECK(pwrite(fd, block, 100, 744) < 0 && errno == ENOSPC);
    CHECK_INT(pwrite(fd, block, 700, 0), 700); /* existing bytes can be written again */
    CHECK(open("/sim/a/y", O_RDWR | O_CREAT, 0600) < 0 && errno == ENOSPC);
    CHECK(mkdir("/sim/a/d", 0755) < 0 && errno == ENOSPC);
    CHECK(statvfs("/sim/a", &fs) == 0 && fs.f_bavail == 0);
    CHECK_ERR("whole file", mrd_write_file("/sim/a/z", (mrd_bytes){ NULL, 0 }, 0600, &why), MRD_IO);
    CHECK_INT(ftruncate(fd, 100), 0);
    put("/sim/a/y", "y", false);
    unlink("/sim/a/x");
    CHECK_INT(sim_disk_used(d), 100 + 256 + 1); /* it is open */
    close(fd);
    CHECK_INT(sim_disk_used(d), 256 + 1);
    sim_disk_set_quota(d, 0);
    CHECK(statvfs("/sim/a", &fs) == 0 && fs.f_bavail > 1000);
    sim_disk_free(d);
}

TEST(a_machine_dies_in_any_call)
{
    for (unsigned pass = 0; pass < 6; pass++) {
        fault f = { .call = SIM_DISK_WRITE,
                    .pass = pass,
                    .v = { .dies = true, .limited = true, .at_most = 3 } };
        sim_disk *d = sim_disk_new("a", &(sim_disk_options){ .before = before, .self = &f });
        int fd = open("/sim/a/x", O_RDWR | O_CREAT, 0600);
        unsigned done = 0;

        while (done < 6 && write(fd, "12345", 5) == 5)
            done++;
        CHECK_INT(done, pass);
        CHECK(sim_disk_is_dead(d));
        CHECK(fsync(fd) < 0 && errno == EIO);
        CHECK(open("/sim/a/x", O_RDONLY) < 0 && errno == EIO);
        CHECK_INT(close(fd), 0);
        sim_disk_kill(d);
        CHECK_INT(strlen(get("/sim/a/x")), 5 * pass + 3);
        sim_disk_free(d);
    }
}

TEST(writes_are_short_and_syncs_lie_when_asked)
{
    fault f = { .call = SIM_DISK_WRITE, .v = { .limited = true, .at_most = 2 } };
    sim_disk *d = sim_disk_new("a", &(sim_disk_options){ .before = before, .self = &f });
    int fd = open("/sim/a/x", O_RDWR | O_CREAT, 0600);

    sync_folder("/sim/a");
    CHECK_INT(write(fd, "12345", 5), 2);
    f = (fault){ .call = SIM_DISK_SYNC, .v = { .lies = true } };
    CHECK_INT(fsync(fd), 0);
    sim_disk_cut_power(d, SIM_DISK_NOTHING);
    CHECK_TEXT(get("/sim/a/x"), "");
    sim_disk_free(d);
}

/* The two functions of base/sys/out.h that replace a file, with the process killed at each of their
 * disk calls. The file must then have the old or the new contents, never a part. */
TEST(files_that_are_written_whole_are_whole)
{
    for (unsigned call = 0; call < SIM_DISK_CALLS; call++) {
        for (uint64_t seed = 0; seed < 40; seed++) {
            fault f = { .call = call,
                        .v = { .dies = true, .limited = true, .at_most = (size_t) seed } };
            sim_disk *d = disk(seed);
            sim_disk *copy;
            mrd_err err;
            const char *now;

            CHECK_ERR("before",
                      mrd_write_file_durable("/sim/a/d/x",
                                             (mrd_bytes){ (const uint8_t *) "old", 3 }, 0600, NULL),
                      MRD_OK);
            copy = sim_disk_durable_copy(d, "", NULL, "b");
            CHECK_TEXT(get("/sim/b/d/x"), "old");
            sim_disk_free(copy);
            copy = sim_disk_durable_copy(d, "d", NULL, "b");
            CHECK_TEXT(get("/sim/b/x"), "old");
            sim_disk_free(copy);
            sim_disk_set_before(d, before, &f);
            err = mrd_write_file_durable("/sim/a/d/x", (mrd_bytes){ (const uint8_t *) "newer", 5 },
                                         0600, NULL);
            CHECK(err != MRD_OK || f.asked == 0 || call == SIM_DISK_SYNC_FOLDER);
            sim_disk_cut_power(d, (sim_disk_keep) (seed % SIM_DISK_KEEPS));
            now = get("/sim/a/d/x");
            CHECK(now != NULL &&
                  (strcmp(now, "newer") == 0 || (f.asked > 0 && strcmp(now, "old") == 0)));
            sim_disk_free(d);
        }
    }
}

/* The copy of a file from the medium has neither unsynced names nor unsynced bytes. */
TEST(one_file_of_the_medium_is_copied_alone)
{
    sim_disk *d = disk(1), *copy;
    const char *name;

    CHECK(mkdir("/sim/a/e", 0700) == 0);
    put("/sim/a/e/1", "one", true);
    put("/sim/a/e/2", "two", true);
    sync_folder("/sim/a/e");
    sync_folder("/sim/a");
    put("/sim/a/e/3", "three", true);
    CHECK_TEXT(name = sim_disk_durable_name(d, "e", NULL), "2");
    CHECK_TEXT(name = sim_disk_durable_name(d, "e", name), "1");
    CHECK(sim_disk_durable_name(d, "e", name) == NULL);
    CHECK(sim_disk_durable_name(d, "f", NULL) == NULL);
    put("/sim/a/e/2", "more", false);
    copy = sim_disk_durable_copy(d, "e", "2", "b");
    CHECK_TEXT(get("/sim/b/2"), "two");
    CHECK(get("/sim/b/1") == NULL);
    sim_disk_free(copy);
    copy = sim_disk_durable_copy(d, "e", "3", "b");
    CHECK(get("/sim/b/3") == NULL);
    sim_disk_free(copy);
    sim_disk_free(d);
}

TEST(a_path_of_the_system_leads_elsewhere)
{
    sim_disk *d = disk(1);
    char line[64];

    put("/sim/a/boot", "another boot\n", false);
    sim_disk_redirect("/proc/sys/kernel/random/boot_id", "/sim/a/boot");
    CHECK(mrd_file_line("/proc/sys/kernel/random/boot_id", line, sizeof(line)));
    CHECK_TEXT(line, "another boot");
    sim_disk_redirect(NULL, NULL);
    CHECK(mrd_file_line("/proc/sys/kernel/random/boot_id", line, sizeof(line)));
    CHECK(strcmp(line, "another boot") != 0);
    sim_disk_free(d);
}

TEST(all_is_repeated_by_its_seed)
{
    uint64_t hash[2];

    for (unsigned i = 0; i < 2; i++) {
        sim_disk *d = disk(7);

        put("/sim/a/x", "one", true);
        put("/sim/a/y", "two", false);
        sync_folder("/sim/a");
        sim_disk_cut_power(d, SIM_DISK_ANY);
        put("/sim/a/z", get("/sim/a/y"), true);
        hash[i] = sim_disk_hash(d);
        put("/sim/a/z", "more", true);
        CHECK(sim_disk_hash(d) != hash[i]);
        sim_disk_free(d);
    }
    CHECK(hash[0] == hash[1]);
}

/* Uses the disk like a program that walks through directories while others may change them. */
TEST(descriptors_lead_to_their_files)
{
    sim_disk *d = sim_disk_new("fd", &(sim_disk_options){ .seed = 1 });
    char path[64], text[8] = "";
    struct stat before, after;
    struct timespec now;
    int fd, again, copy;

    CHECK(mkdir("/sim/fd/a", 0755) == 0);
    CHECK((fd = open("/sim/fd/a/x", O_RDWR | O_CREAT, 0600)) >= 0);
    CHECK(write(fd, "one", 3) == 3 && fstat(fd, &before) == 0);
    clock_gettime(CLOCK_REALTIME, &now);
    CHECK(before.st_mtim.tv_sec <= now.tv_sec && before.st_mtim.tv_sec + 60 > now.tv_sec);
    CHECK_INT(before.st_uid, getuid());
    CHECK(rename("/sim/fd/a/x", "/sim/fd/a/y") == 0);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    CHECK((again = open(path, O_RDONLY)) >= 0 && read(again, text, sizeof(text)) == 3);
    CHECK_TEXT(text, "one");
    CHECK(fstat(again, &after) == 0 && after.st_ino == before.st_ino);
    CHECK(open(path, O_RDONLY | O_DIRECTORY) < 0 && errno == ENOTDIR);
    CHECK((copy = fcntl(again, F_DUPFD_CLOEXEC, 3)) >= 0 && copy != again);
    CHECK(close(again) == 0 && pread(copy, text, 1, 2) == 1 && text[0] == 'e');
    CHECK(write(fd, "!", 1) == 1 && fstat(copy, &after) == 0);
    CHECK(after.st_mtim.tv_sec * 1000000000 + after.st_mtim.tv_nsec >=
          before.st_mtim.tv_sec * 1000000000 + before.st_mtim.tv_nsec);
    sim_disk_die(d);
    CHECK(open(path, O_RDONLY) < 0 && errno == EIO);
    sim_disk_kill(d);
    CHECK(open(path, O_RDONLY) < 0 && errno == EBADF);
    sim_disk_free(d);
}

/* Used like a program that copies files: a name below a descriptor, and the time of another
 * file. */
TEST(a_copy_has_its_name_and_its_time)
{
    const struct timespec times[2] = { { 7, 8 }, { 5, 6 } };
    sim_disk *d = sim_disk_new("copy", &(sim_disk_options){ .seed = 1 });
    struct stat st;
    int dir, fd;

    CHECK(mkdir("/sim/copy/a", 0755) == 0);
    CHECK((dir = open("/sim/copy/a", O_RDONLY | O_DIRECTORY)) >= 0);
    CHECK((fd = openat(dir, ".part", O_RDWR | O_CREAT | O_EXCL, 0600)) >= 0);
    CHECK(write(fd, "one", 3) == 3 && futimens(fd, times) == 0);
    CHECK(renameat(dir, ".part", dir, "x") == 0);
    CHECK(fstatat(dir, "x", &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size == 3);
    CHECK(st.st_mtim.tv_sec == 5 && st.st_mtim.tv_nsec == 6);
    CHECK(fstatat(dir, ".part", &st, 0) != 0 && errno == ENOENT);
    CHECK(renameat(dir, "x", AT_FDCWD, "/tmp/x") != 0 && errno == EXDEV);
    CHECK(close(fd) == 0 && futimens(fd, times) != 0);
    sim_disk_free(d);
}

TEST_MAIN()
