/*
 * tests/check.h - the test harness: TEST(name) { ... CHECK(...) ... } and TEST_MAIN() at the end.
 *
 * Every case runs in a process of its own, so a crash fails only this case. `test_x NAME...` runs
 * only the named cases. With MRD_TEST_NOFORK=1 all cases run in one process, which is easier to
 * debug. A case that cannot run on this machine calls SKIP("why"). If all cases were skipped, the
 * program exits with 77, which ctest shows as skipped.
 */
#ifndef MRD_TESTS_CHECK_H
#define MRD_TESTS_CHECK_H

#include <ftw.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/obj.h"

typedef struct test_case {
    const char *name;
    void (*run)(void);
    struct test_case *next;
} test_case;

/* Shared by all source files of a test program, so that a failed check in a helper's own source
 * file counts too. */
#define TEST_SHARED __attribute__((weak))
TEST_SHARED test_case *test_first, **test_last = &test_first;
TEST_SHARED int test_failures;

#define TEST(ident)                                                                                \
    static void test_run_##ident(void);                                                            \
    static test_case test_case_##ident = { #ident, test_run_##ident, NULL };                       \
    __attribute__((constructor)) static void test_add_##ident(void)                                \
    {                                                                                              \
        *test_last = &test_case_##ident;                                                           \
        test_last = &test_case_##ident.next;                                                       \
    }                                                                                              \
    static void test_run_##ident(void)

/* CHECK reports a failure and the case continues. REQUIRE ends the case. */
#define CHECK(cond)          (void) test_check((cond), __FILE__, __LINE__, "", #cond)
#define CHECK_ROW(row, cond) (void) test_check((cond), __FILE__, __LINE__, (row), #cond)
#define REQUIRE(cond)                                                                              \
    do {                                                                                           \
        if (!test_check((cond), __FILE__, __LINE__, "", #cond))                                    \
            return;                                                                                \
    } while (0)
#define CHECK_ERR(row, got, want)                                                                  \
    do {                                                                                           \
        mrd_err got_ = (got), want_ = (want);                                                      \
        if (got_ != want_) {                                                                       \
            fprintf(stderr, "%s:%d: %s: %s, expected %s\n", __FILE__, __LINE__, (row),             \
                    mrd_err_name(got_), mrd_err_name(want_));                                      \
            test_failures++;                                                                       \
        }                                                                                          \
    } while (0)
#define CHECK_INT(got, want)                                                                       \
    do {                                                                                           \
        int64_t got_ = (int64_t) (got), want_ = (int64_t) (want);                                  \
        if (got_ != want_) {                                                                       \
            fprintf(stderr, "%s:%d: %s is %" PRId64 ", expected %" PRId64 "\n", __FILE__,          \
                    __LINE__, #got, got_, want_);                                                  \
            test_failures++;                                                                       \
        }                                                                                          \
    } while (0)
#define CHECK_TEXT(got, want)                                                                      \
    do {                                                                                           \
        const char *got_ = (got), *want_ = (want);                                                 \
        if (got_ == NULL || strcmp(got_, want_) != 0) {                                            \
            fprintf(stderr, "%s:%d: %s is '%s', expected '%s'\n", __FILE__, __LINE__, #got,        \
                    got_ == NULL ? "(null)" : got_, want_);                                        \
            test_failures++;                                                                       \
        }                                                                                          \
    } while (0)
#define SKIP(why)                                                                                  \
    do {                                                                                           \
        fprintf(stderr, "skipped: %s\n", (why));                                                   \
        fflush(NULL);                                                                              \
        _exit(77);                                                                                 \
    } while (0)

static inline bool
test_check(bool ok, const char *file, int line, const char *row, const char *text)
{
    if (!ok) {
        fprintf(stderr, "%s:%d: %s%scheck failed: %s\n", file, line, row, *row ? ": " : "", text);
        test_failures++;
    }
    return ok;
}

/* Returns the directory of recorded real traces, or NULL if it is absent. */
static inline const char *
test_data_dir(void)
{
    static char path[1024];
    const char *dir = getenv("MERIDIAN_TEST_DATA"), *source = getenv("MERIDIAN_SOURCE");

    if (dir == NULL || *dir == '\0') {
        snprintf(path, sizeof(path), "%s/../shared/data", source == NULL ? "." : source);
        dir = path;
    }
    return access(dir, R_OK) == 0 ? dir : NULL;
}

TEST_SHARED char test_tmp_path[64];
TEST_SHARED pid_t test_tmp_owner;

static inline int
test_tmp_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void) st;
    (void) type;
    (void) ftw;
    return remove(path);
}

static inline void
test_tmp_remove(void)
{
    if (getpid() == test_tmp_owner)
        nftw(test_tmp_path, test_tmp_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* Returns a new directory. It stays the same for the whole case and is removed when the case's
 * process exits. It is in TMPDIR only if that path is short, because the path of a Unix socket has
 * a maximum length. */
static inline const char *
test_tmp(void)
{
    if (test_tmp_path[0] == '\0') {
        const char *top = getenv("TMPDIR");

        snprintf(test_tmp_path, sizeof(test_tmp_path), "%s/mrd-test-XXXXXX",
                 top == NULL || *top == '\0' || strlen(top) > 20 ? "/tmp" : top);
        if (mkdtemp(test_tmp_path) == NULL)
            abort();
        test_tmp_owner = getpid();
        atexit(test_tmp_remove);
    }
    return test_tmp_path;
}

static inline int
test_one(const test_case *t)
{
    int status;
    pid_t pid;

    if (getenv("MRD_TEST_NOFORK") != NULL) {
        t->run();
        return test_failures > 0;
    }
    fflush(NULL);
    if ((pid = fork()) == 0) {
        t->run();
        fflush(NULL);
        exit(test_failures > 0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return 1;
    if (WIFSIGNALED(status))
        fprintf(stderr, "%s: killed by signal %d\n", t->name, WTERMSIG(status));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static inline int
test_main(int argc, char **argv)
{
    int ran = 0, failed = 0, skipped = 0;

    for (const test_case *t = test_first; t != NULL; t = t->next) {
        bool wanted = argc < 2;
        int code;

        for (int i = 1; i < argc; i++)
            wanted = wanted || strcmp(argv[i], t->name) == 0;
        if (!wanted)
            continue;
        ran++;
        code = test_one(t);
        if (code == 77)
            skipped++;
        else if (code != 0) {
            failed++;
            fprintf(stderr, "FAILED %s\n", t->name);
        }
    }
    printf("%d passed, %d failed, %d skipped\n", ran - failed - skipped, failed, skipped);
    return failed > 0 || ran == 0 ? 1 : skipped == ran ? 77 : 0;
}

#define TEST_MAIN()                                                                                \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        return test_main(argc, argv);                                                              \
    }

#endif
