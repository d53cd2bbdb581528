/* Tests files with secrets, memory that other processes must not read, and dropping privileges. */
#include "base/sys/secret.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

#include "base/clock.h"
#include "base/sys/out.h"
#include "base/sys/user.h"
#include "tests/check.h"
#include "tests/wait.h"

static const char *
put(const char *name, const void *text, size_t len, mode_t mode)
{
    static char path[200];
    mrd_why why = { 0 };

    snprintf(path, sizeof(path), "%s/%s", test_tmp(), name);
    CHECK_ERR(name, mrd_write_file(path, (mrd_bytes){ text, len }, 0600, &why), MRD_OK);
    CHECK(chmod(path, mode) == 0);
    return path;
}

static const struct {
    const char *name, *text;
    size_t len;
    mode_t mode;
    mrd_err want;
    const char *says; /* the token, or part of the message */
} rows[] = {
    { "plain", "secret-0123456789", 17, 0600, MRD_OK, "secret-0123456789" },
    { "with a line end", "secret-0123456789\r\n", 19, 0600, MRD_OK, "secret-0123456789" },
    { "for the group", "secret", 6, 0640, MRD_OK, "secret" },
    { "read only", "secret", 6, 0400, MRD_OK, "secret" },
    { "for everybody", "secret", 6, 0604, MRD_DENIED, "chmod 600" },
    { "written by the group", "secret", 6, 0660, MRD_DENIED, "chmod 600" },
    { "run by everybody", "secret", 6, 0601, MRD_DENIED, "chmod 600" },
    { "empty", "", 0, 0600, MRD_EMPTY, "is empty" },
    { "only a line end", "\n", 1, 0600, MRD_EMPTY, "is empty" },
    { "cut by a NUL", "sec\0ret", 7, 0600, MRD_SYNTAX, "NUL" },
};

TEST(a_secret_file_is_private)
{
    static char big[70000];
    mrd_why why = { 0 };
    char *text = NULL;

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        const char *path = put("file", rows[i].text, rows[i].len, rows[i].mode);

        text = NULL;
        CHECK_ERR(rows[i].name, mrd_secret_read("token file", path, &text, &why), rows[i].want);
        if (rows[i].want == MRD_OK)
            CHECK_TEXT(text, rows[i].says);
        else
            CHECK_ROW(rows[i].name, text == NULL && strstr(why.text, rows[i].says) != NULL &&
                                        strstr(why.text, path) != NULL &&
                                        strstr(why.text, "secret") == NULL);
        mrd_secret_free(text);
    }
    memset(big, 'x', sizeof(big));
    CHECK_ERR("big",
              mrd_secret_read("token file", put("file", big, sizeof(big), 0600), &text, &why),
              MRD_LIMIT);
    CHECK_ERR("absent", mrd_secret_read("token file", "/nowhere/x", &text, &why), MRD_NOTFOUND);
    CHECK(strstr(why.text, "/nowhere/x") != NULL);
}

TEST(a_secret_in_place_of_its_file_is_not_repeated)
{
    mrd_why why = { 0 };
    char *text = NULL;

    CHECK_ERR("token",
              mrd_secret_read("token file", "0123456789abcdef0123456789abcdef", &text, &why),
              MRD_NOTFOUND);
    CHECK(strstr(why.text, "0123") == NULL && strstr(why.text, "the name of a token file") != NULL);
}

TEST(equal_looks_at_everything)
{
    char a[64], b[64];

    memset(a, 'a', sizeof(a));
    memcpy(b, a, sizeof(a));
    CHECK(mrd_secret_equal(a, b, sizeof(a)) && mrd_secret_equal(a, b, 0));
    for (size_t i = 0; i < sizeof(a); i++) {
        b[i] ^= 1;
        CHECK(!mrd_secret_equal(a, b, sizeof(a)));
        CHECK(mrd_secret_equal(a, b, i));
        b[i] ^= 1;
    }
}

/* The time of the comparison must not depend on the first difference, so the loop has no early
 * exit. A count of instructions would be exact. Here the two extreme cases are interleaved and
 * their sums compared. */
TEST(equal_takes_as_long_for_any_difference)
{
    enum { LEN = 65536, ROUNDS = 200 };
    static char a[LEN], first[LEN], last[LEN];
    int64_t best_first = INT64_MAX, best_last = INT64_MAX;

    first[0] = 1;
    last[LEN - 1] = 1;
    for (int i = 0; i < ROUNDS; i++) {
        int64_t t0 = mrd_local_now().ns, t1, t2;

        CHECK(!mrd_secret_equal(a, first, LEN));
        t1 = mrd_local_now().ns;
        CHECK(!mrd_secret_equal(a, last, LEN));
        t2 = mrd_local_now().ns;
        best_first = t1 - t0 < best_first ? t1 - t0 : best_first;
        best_last = t2 - t1 < best_last ? t2 - t1 : best_last;
    }
    /* with an early exit, the comparison that differs first would be about 10,000 times faster */
    CHECK(best_first * 10 > best_last);
}

TEST(a_stamp_tells_of_every_change)
{
    char path[200];
    const char *paths[] = { path, NULL };
    uint64_t absent, first, second;

    snprintf(path, sizeof(path), "%s/file", test_tmp());
    absent = mrd_files_stamp(paths, 2);
    put("file", "one", 3, 0600);
    first = mrd_files_stamp(paths, 2);
    CHECK(first != absent && first == mrd_files_stamp(paths, 2));
    /* replaces the file by one of the same size, perhaps within the same second */
    put("file", "two", 3, 0600);
    second = mrd_files_stamp(paths, 2);
    CHECK(second != first);
    put("file", "two", 3, 0640);
    first = mrd_files_stamp(paths, 2);
    CHECK(first != second);
    if (geteuid() == 0) {
        CHECK(chown(path, 65534, 0) == 0);
        second = mrd_files_stamp(paths, 2);
        CHECK(second != first);
        CHECK(chown(path, 65534, 65534) == 0);
        CHECK(mrd_files_stamp(paths, 2) != second);
    }
}

TEST(nobody_reads_this_memory)
{
    struct rlimit core = { 1, 1 };

    mrd_secret_process();
    CHECK(prctl(PR_GET_DUMPABLE) == 0);
    CHECK(getrlimit(RLIMIT_CORE, &core) == 0 && core.rlim_cur == 0 && core.rlim_max == 0);
}

/* ---- Another user ---- */

TEST(users_by_name_and_number)
{
    mrd_user u = { 0 };
    mrd_why why = { 0 };

    CHECK_ERR("number", mrd_user_find("991", &u, &why), MRD_OK);
    CHECK(u.uid == 991 && u.gid == 991 && u.name[0] == '\0');
    CHECK_ERR("both", mrd_user_find("991:992", &u, &why), MRD_OK);
    CHECK(u.uid == 991 && u.gid == 992);
    CHECK_ERR("name", mrd_user_find("nobody", &u, &why), MRD_OK);
    CHECK_TEXT(u.name, "nobody");
    CHECK_ERR("root", mrd_user_find("root", &u, &why), MRD_INVALID);
    CHECK_ERR("0", mrd_user_find("0", &u, &why), MRD_INVALID);
    CHECK_ERR("group 0", mrd_user_find("991:0", &u, &why), MRD_INVALID);
    CHECK_ERR("nobody has it", mrd_user_find("no-such-user", &u, &why), MRD_NOTFOUND);
    CHECK_ERR("trailing", mrd_user_find("991:", &u, &why), MRD_INVALID);
    CHECK_ERR("huge", mrd_user_find("4294967295", &u, &why), MRD_INVALID);
}

/* CapEff of a thread, from /proc. */
static uint64_t
caps_of(long tid)
{
    char path[64], line[256];
    uint64_t caps = UINT64_MAX;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/self/task/%ld/status", tid);
    if ((f = fopen(path, "r")) == NULL)
        return caps;
    while (fgets(line, sizeof(line), f) != NULL) {
        if (strncmp(line, "CapEff:", 7) == 0)
            caps = strtoull(line + 7, NULL, 16);
    }
    fclose(f);
    return caps;
}

static _Atomic long other_tid;
static _Atomic bool other_ends;

static void *
other_thread(void *self)
{
    (void) self;
    other_tid = (long) gettid();
    TEST_UNTIL(other_ends);
    CHECK(getuid() == 65534 && setuid(0) != 0);
    return NULL;
}

TEST(root_becomes_somebody_else)
{
    mrd_user u = { .uid = 65534, .gid = 65534 };
    mrd_why why = { 0 };
    pthread_t thread;
    char path[200];
    struct stat st;
    uint64_t had;

    if (getuid() != 0)
        SKIP("only root can become somebody else");
    had = caps_of((long) gettid());
    REQUIRE(pthread_create(&thread, NULL, other_thread, NULL) == 0);
    TEST_UNTIL(other_tid != 0);
    put("mine", "x", 1, 0600);
    snprintf(path, sizeof(path), "%s/link", test_tmp());
    REQUIRE(symlink("/etc/passwd", path) == 0);
    CHECK_ERR("hand over", mrd_user_hand_over(&u, test_tmp(), &why), MRD_OK);
    CHECK_ERR("nothing there", mrd_user_hand_over(&u, "/nowhere", &why), MRD_OK);
    CHECK(stat("/etc/passwd", &st) == 0 && st.st_uid == 0);
    CHECK_ERR("become", mrd_user_become(&u, MRD_RIGHT_LOOK_INTO | MRD_RIGHT_READ_OTHERS, &why),
              MRD_OK);
    CHECK_INT(caps_of((long) gettid()), had & (MRD_RIGHT_LOOK_INTO | MRD_RIGHT_READ_OTHERS));
    CHECK_INT(caps_of(other_tid), 0);
    CHECK(getuid() == 65534 && geteuid() == 65534 && getgid() == 65534 && setuid(0) != 0);
    CHECK(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
    CHECK(stat(test_tmp(), &st) == 0 && st.st_uid == 65534);
    put("mine", "y", 1, 0600); /* its own now */
    CHECK_ERR("again", mrd_user_become(&u, 0, &why), MRD_OK);
    u.uid = 65533;
    CHECK_ERR("no way on", mrd_user_become(&u, 0, &why), MRD_DENIED);
    other_ends = true;
    pthread_join(thread, NULL);
}

TEST_MAIN()
