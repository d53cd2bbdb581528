#include "aggregator/api/made.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/check.h"
#include "tests/wait.h"

static _Atomic int begun, go, ended, done;
static mrd_made *made;

static void
on_end(void *self)
{
    (void) self;
    ended++;
}

/* Writes "text" once it may continue. Returns an error for "bad", and CANCELLED if the result is no
 * longer wanted. */
static mrd_err
produce(void *self, mrd_out *out, mrd_why *why)
{
    const char *text = self;

    begun++;
    while (go == 0 && mrd_made_wanted(made, "/"))
        test_look_again();
    if (!mrd_made_wanted(made, "/"))
        return MRD_CANCELLED;
    if (strcmp(text, "bad") == 0)
        return mrd_why_set(why, MRD_IO, 0, "as it is meant");
    mrd_out_add(out, text, strlen(text));
    return MRD_OK;
}

static void
on_done(void *self)
{
    (void) self;
    done++;
}

static bool
start(const char *path, const char *text)
{
    return mrd_made_start(made, path,
                          &(mrd_made_order){ produce, on_done, (void *) (uintptr_t) text });
}

static const char *
in(const char *name)
{
    static char path[4][300];
    static unsigned next;
    char *to = path[next++ % 4];

    snprintf(to, 300, "%s/made/%s", test_tmp(), name);
    return to;
}

TEST(a_file_is_there_when_its_end_is_announced)
{
    const char *one = in("3/one"), *bad = in("3/bad"), *later = in("4/one");

    REQUIRE(mrd_made_open(on_end, NULL, 0, &made, NULL) == MRD_OK);
    CHECK(!mrd_made_is_coming(made, one));
    CHECK(start(one, "text") && start(bad, "bad"));
    TEST_UNTIL(begun == 2); /* side by side */
    CHECK(mrd_made_is_coming(made, one) && mrd_made_is_coming(made, bad));
    CHECK(access(one, F_OK) != 0);
    go = 1;
    TEST_UNTIL(ended == 2);
    CHECK(access(one, F_OK) == 0 && access(bad, F_OK) != 0);
    CHECK(!mrd_made_is_coming(made, one) && !mrd_made_is_coming(made, bad));
    CHECK(start(later, "other"));
    TEST_UNTIL(ended == 3);
    CHECK(access(later, F_OK) == 0 && access(one, F_OK) != 0); /* of an earlier state */
    CHECK_INT(done, 3);
    mrd_made_stop(made);
    mrd_made_free(made);
}

static _Atomic bool disk_fails;

int __real_fsync(int fd);
int __wrap_fsync(int fd);

int
__wrap_fsync(int fd)
{
    errno = EIO;
    return disk_fails ? -1 : __real_fsync(fd);
}

/* The sync of a new file fails. The file must be removed, because the system reports some failed
 * writes only at the sync. */
TEST(no_file_is_kept_that_the_disk_refused)
{
    const char *path = in("5/refused");

    REQUIRE(mrd_made_open(on_end, NULL, 0, &made, NULL) == MRD_OK);
    ended = 0;
    go = 1;
    disk_fails = true;
    CHECK(start(path, "text"));
    TEST_UNTIL(ended == 1);
    CHECK(access(path, F_OK) != 0);
    disk_fails = false;
    CHECK(start(path, "text"));
    TEST_UNTIL(ended == 2);
    CHECK(access(path, F_OK) == 0);
    mrd_made_stop(made);
    mrd_made_free(made);
}

TEST(at_the_stop_what_waits_is_done_and_nothing_begins)
{
    REQUIRE(mrd_made_open(on_end, NULL, 0, &made, NULL) == MRD_OK);
    begun = go = ended = done = 0;
    for (int i = 0; i < 9; i++) {
        char name[8];

        snprintf(name, sizeof(name), "3/%d", i);
        CHECK(start(in(name), "text"));
        if (i < 2)
            TEST_UNTIL(begun == i + 1);
    }
    mrd_made_stop(made);
    CHECK_INT(ended, 9);
    CHECK(!start(in("3/late"), "text"));
    CHECK_INT(done, 10);
    for (int i = 0; i < 9; i++) {
        char name[8];

        snprintf(name, sizeof(name), "3/%d", i);
        CHECK(access(in(name), F_OK) != 0);
    }
    mrd_made_free(made);
    mrd_made_stop(NULL);
    mrd_made_free(NULL);
}

/* Requests above the limit are refused, and a full disk accepts none. */
TEST(limits)
{
    int taken = 0;

    REQUIRE(mrd_made_open(on_end, NULL, 0, &made, NULL) == MRD_OK);
    begun = go = ended = done = 0;
    for (int i = 0; i < 20; i++) {
        char name[8];

        snprintf(name, sizeof(name), "3/%d", i);
        taken += start(in(name), "text");
    }
    CHECK(taken >= 8 && taken <= 10);
    go = 1;
    TEST_UNTIL(ended == taken && done == 20);
    mrd_made_stop(made);
    mrd_made_free(made);
    REQUIRE(mrd_made_open(on_end, NULL, INT64_MAX, &made, NULL) == MRD_OK);
    CHECK(!mrd_made_wanted(made, "/"));
    mrd_made_stop(made);
    mrd_made_free(made);
}

TEST_MAIN()
