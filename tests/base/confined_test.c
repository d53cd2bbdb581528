/* Tests base/sys/confined.h, which runs untrusted programs with limits. tests/fake/viewer.py plays
 * the program. The program and all its children must end, and the result must say how it ended. */
#include "tests/check.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <signal.h>
#include <sys/syscall.h>

#include "base/sys/file.h"
#include "base/sys/out.h"
#include "tests/wait.h"
#include "tests/watcher.h"

#define MIB (1ull << 20)

static char viewer[400], input[400], output[400];

static void
put(const char *path, const char *text)
{
    CHECK_ERR(path,
              mrd_write_file(path, (mrd_bytes){ (const uint8_t *) text, strlen(text) }, 0600, NULL),
              MRD_OK);
}

/* Prepares a copy of the viewer that does `what`, an input, and an empty directory for its
 * results. */
static void
prepare(const char *what)
{
    const char *source = getenv("MERIDIAN_SOURCE");
    mrd_buf text = { 0 };
    char path[500];

    snprintf(path, sizeof(path), "%s/tests/fake/viewer.py", source == NULL ? "." : source);
    CHECK_ERR(path, mrd_file_read(path, MIB, &text, NULL), MRD_OK);
    snprintf(viewer, sizeof(viewer), "%s/viewer", test_tmp());
    CHECK_ERR("viewer", mrd_write_file(viewer, (mrd_bytes){ text.p, text.len }, 0700, NULL),
              MRD_OK);
    mrd_buf_fini(&text);
    snprintf(path, sizeof(path), "%s.does", viewer);
    put(path, what);
    snprintf(output, sizeof(output), "%s/out", test_tmp());
    mrd_remove_tree(output);
    CHECK(mkdir(output, 0700) == 0);
    snprintf(input, sizeof(input), "%s/in", test_tmp());
    (void) mkdir(input, 0700);
    snprintf(path, sizeof(path), "%s/a.ntff", input);
    put(path, "model_id=7\n");
    snprintf(path, sizeof(path), "%s/a.neff", input);
    put(path, "model\n");
}

static mrd_err
run_it(mrd_confined_options *o, mrd_confined_result *ret, mrd_why *why)
{
    const char *argv[] = { viewer, "view", "-d", input, "--output-format", "perfetto", NULL };

    o->argv = argv;
    o->dir = output;
    *why = (mrd_why){ 0 };
    return mrd_confined_run(o, ret, why);
}

static bool
is_there(const char *name)
{
    char path[500];

    snprintf(path, sizeof(path), "%s/%s", output, name);
    return access(path, F_OK) == 0;
}

/* Returns true if no `sleep` process has this argument. */
static bool
nobody_is(const char *word)
{
    char command[200];

    snprintf(command, sizeof(command), "pgrep -f '^sleep %s$' > /dev/null", word);
    return system(command) != 0;
}

/* Returns true if the time ended before the program wrote a line, as on a busy machine. The next
 * attempt has twice the time. */
static bool
has_not_begun(mrd_confined_options *o, const mrd_why *why)
{
    char expected[64];

    snprintf(expected, sizeof(expected), "did not finish within %.1f s", (double) o->time / 1e9);
    if (why->err != MRD_TIMEOUT)
        return false;
    CHECK_ROW(expected, strstr(why->text, expected) != NULL);
    if (strstr(why->text, " s: ") != NULL || o->time > 60 * MRD_SEC)
        return false;
    o->time *= 2;
    return true;
}

TEST(what_it_does_is_said)
{
    static const struct {
        const char *does;
        mrd_confined_options o;
        mrd_err err;
        const char *says;
    } rows[] = {
        { "good", { .time = 60 * MRD_SEC }, MRD_OK, "" },
        { "bad cannot open NTFF version 115", { 0 }, MRD_IO, "exit status 1: cannot open NTFF" },
        { "kill", { 0 }, MRD_IO, "ended by signal 9" },
        { "half", { 0 }, MRD_IO, "exit status 1: ended in the middle" },
        { "hang", { .time = 500 * MRD_MS }, MRD_TIMEOUT, " s: reading the profile" },
        { "talk", { .time = 500 * MRD_MS }, MRD_TIMEOUT, " s: " },
        { "memory", { .time = 60 * MRD_SEC, .memory = 100 * MIB }, MRD_LIMIT, "of memory, more" },
        { "memory-in-children",
          { .time = 60 * MRD_SEC, .memory = 150 * MIB },
          MRD_LIMIT,
          "of memory, more" },
        { "allocate 4000", { .memory = 200 * MIB }, MRD_IO, "cannot allocate memory" },
        { "write", { .time = 60 * MRD_SEC, .disk = 40 * MIB }, MRD_LIMIT, "wrote " },
        { "write-deep 31", { .time = 60 * MRD_SEC, .disk = 40 * MIB }, MRD_LIMIT, "wrote " },
        { "write-deep 40",
          { .time = 60 * MRD_SEC, .disk = 400 * MIB },
          MRD_LIMIT,
          "more than the 32" },
        { "write-nameless 8", { .time = 60 * MRD_SEC, .disk = 40 * MIB }, MRD_LIMIT, "wrote " },
        { "write-nameless 3", { .time = 60 * MRD_SEC, .disk = 40 * MIB }, MRD_IO, "nobody minds" },
        { "share 60", { .time = 60 * MRD_SEC, .memory = 200 * MIB }, MRD_OK, "" },
        { "colour", { 0 }, MRD_IO, "one [31m two  three  31m four     five\nsix \xc3\xa9" },
        { "write", { .time = 60 * MRD_SEC, .keep_free = 1ull << 60 }, MRD_FULL, "to stay free" },
        { "write-many", { .time = 60 * MRD_SEC, .files = 300 }, MRD_LIMIT, "300 files" },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_confined_options o = rows[i].o;
        mrd_confined_result r;
        mrd_why why;

        do {
            prepare(rows[i].does);
            CHECK_ERR(rows[i].does, run_it(&o, &r, &why), rows[i].err);
        } while (has_not_begun(&o, &why));
        if (strstr(why.text, rows[i].says) == NULL)
            fprintf(stderr, "%s: %s\n", rows[i].does, why.text);
        CHECK_ROW(rows[i].does, strstr(why.text, rows[i].says) != NULL);
        CHECK_ROW(rows[i].does,
                  is_there("device_profile_model_7.pftrace") == (rows[i].err == MRD_OK));
        CHECK_ROW(rows[i].does, r.took > 0 && (rows[i].err != MRD_TIMEOUT || r.took >= o.time));
    }
}

/* A program cannot exceed its limit by much: the size of its file on disk is checked. */
TEST(limits_hold)
{
    mrd_confined_options o = { .time = 60 * MRD_SEC, .disk = 40 * MIB };
    mrd_confined_result r;
    mrd_why why;
    struct stat st;
    char path[500];

    prepare("write");
    CHECK_ERR("write", run_it(&o, &r, &why), MRD_LIMIT);
    snprintf(path, sizeof(path), "%s/big", output);
    REQUIRE(stat(path, &st) == 0);
    CHECK(st.st_size >= (off_t) (39 * MIB) && st.st_size <= (off_t) (41 * MIB));
    o = (mrd_confined_options){ .time = 60 * MRD_SEC, .memory = 100 * MIB };
    prepare("memory");
    CHECK_ERR("memory", run_it(&o, &r, &why), MRD_LIMIT);
    CHECK(r.memory > 100 * MIB && r.memory < 200 * MIB);
}

/* Files in a directory that the program made unreadable for others count too. Root can read
 * everything, so the test runs as another user. */
TEST(a_closed_folder_counts)
{
    mrd_confined_options o = { .time = 60 * MRD_SEC, .disk = 20 * MIB };
    mrd_confined_result r;
    mrd_why why;
    char path[500];
    struct stat st;
    pid_t pid;
    int status = -1;

    prepare("write-closed");
    snprintf(path, sizeof(path), "%s.does", viewer);
    CHECK(chmod(test_tmp(), 0711) == 0 && chmod(input, 0755) == 0);
    CHECK(chmod(viewer, 0755) == 0 && chmod(path, 0644) == 0);
    REQUIRE(geteuid() != 0 || chown(output, 65534, 65534) == 0);
    if ((pid = fork()) == 0) {
        if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0)
            _exit(9);
        _exit(run_it(&o, &r, &why) == MRD_LIMIT ? 0 : 1);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK_INT(WEXITSTATUS(status), 0);
    snprintf(path, sizeof(path), "%s/closed/file0", output);
    CHECK(stat(path, &st) == 0);
}

/* Children in sessions of their own are ended and counted too. */
TEST(children_are_ended)
{
    mrd_confined_options o = { .time = 60 * MRD_SEC };
    mrd_confined_result r;
    mrd_why why;
    char word[64], does[100];

    snprintf(word, sizeof(word), "98765.%d", (int) getpid());
    snprintf(does, sizeof(does), "children %s", word);
    prepare(does);
    CHECK_ERR("children", run_it(&o, &r, &why), MRD_OK);
    CHECK(is_there("children.txt") && is_there("device_profile_model_7.pftrace"));
    CHECK(r.left == 3);
    CHECK(nobody_is(word));
}

static bool
goes_on(void *self)
{
    return ++*(int *) self < 5;
}

TEST(the_caller_ends_it)
{
    int asked = 0;
    mrd_confined_options o = { .time = 60 * MRD_SEC, .going_on = goes_on, .self = &asked };
    mrd_confined_result r;
    mrd_why why;

    prepare("hang");
    CHECK_ERR("cancelled", run_it(&o, &r, &why), MRD_CANCELLED);
    CHECK(r.took < 30 * MRD_SEC);
}

static bool
interrupts(void *self)
{
    ++*(int *) self;
    errno = EINTR; /* as a signal leaves it */
    return true;
}

/* The caller does not wait for a watcher that ended without a report. */
TEST(the_watcher_is_killed)
{
    int asked = 0;
    mrd_confined_options o = { .time = 60 * MRD_SEC, .going_on = interrupts, .self = &asked };
    mrd_confined_result r;
    mrd_why why;

    prepare("kill-watcher");
    CHECK_ERR("killed", run_it(&o, &r, &why), MRD_IO);
    CHECK(strstr(why.text, "ended without a report (signal 9)") != NULL);
    CHECK(asked < 1000);
}

/* The children of the program are also ended, even in sessions of their own. */
TEST(the_watcher_of_many_is_killed)
{
    mrd_confined_options o = { .time = 60 * MRD_SEC };
    mrd_confined_result r;
    char word[64], does[100];
    mrd_why why;

    snprintf(word, sizeof(word), "98764.%d", (int) getpid());
    snprintf(does, sizeof(does), "children %s kill-watcher", word);
    prepare(does);
    CHECK_ERR("killed", run_it(&o, &r, &why), MRD_IO);
    CHECK(strstr(why.text, "ended without a report (signal 9)") != NULL);
    CHECK(is_there("children.txt"));
    CHECK(nobody_is(word));
}

static bool
holds(const char *file, const char *line)
{
    char path[500];
    mrd_buf text = { 0 };
    bool found;

    snprintf(path, sizeof(path), "%s/%s", output, file);
    CHECK_ERR(path, mrd_file_read(path, MIB, &text, NULL), MRD_OK);
    found = strstr(mrd_buf_cstr(&text), line) != NULL;
    mrd_buf_fini(&text);
    return found;
}

/* The program gets no environment variable that may be a secret and no file descriptor of its
 * caller, and it has its own session. */
TEST(what_it_gets)
{
    mrd_confined_options o = { .time = 60 * MRD_SEC };
    mrd_confined_result r;
    mrd_why why;
    char line[2000];
    int leaked = open("/etc/passwd", O_RDONLY), high = fcntl(leaked, F_DUPFD, 77);

    CHECK(leaked > 2 && high >= 77);
    setenv("AWS_SECRET_ACCESS_KEY", "x", 1);
    setenv("MERIDIAN_TOKEN", "x", 1);
    setenv("LANG", "C.UTF-8", 1);
    unsetenv("LC_CTYPE");
    prepare("tell");
    CHECK_ERR("tell", run_it(&o, &r, &why), MRD_OK);
    CHECK(holds("told.txt", "\nfds 0 1 2\n"));
    CHECK(holds("told.txt", "\nsid True\ncore 0\n"));
    snprintf(line, sizeof(line),
             "\ncwd %s\nhome %s\ntmp %s\nargv view -d %s --output-format perfetto\n", output,
             output, output, input);
    CHECK(holds("told.txt", line));
    CHECK(holds("told.txt", "env HOME LANG "));
    CHECK(!holds("told.txt", "AWS_SECRET") && !holds("told.txt", "MERIDIAN_TOKEN"));
    close(high);
    close(leaked);
}

TEST(it_writes_into_its_folder_only)
{
    mrd_confined_options o = { .time = 60 * MRD_SEC };
    mrd_confined_result r;
    mrd_why why;
    char does[1600], path[500];
    struct stat st;

    if (syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) < 1)
        SKIP("no Landlock in this kernel");
    prepare("");
    snprintf(path, sizeof(path), "%s/elsewhere", test_tmp());
    put(path, "");
    snprintf(does, sizeof(does), "escape %s/own %s/a.ntff %s", output, input, path);
    prepare(does);
    CHECK_ERR("escape", run_it(&o, &r, &why), MRD_OK);
    CHECK(is_there("own"));
    CHECK(stat(path, &st) == 0 && st.st_size == 0);
    snprintf(path, sizeof(path), "%s/a.ntff", input);
    CHECK(stat(path, &st) == 0 && st.st_size == 11);
}

/* If the caller is killed, the program, its children and its watcher end, and the directory is
 * removed. */
TEST(the_caller_is_killed)
{
    mrd_confined_options o = { .time = 600 * MRD_SEC, .remove = true };
    mrd_confined_result r;
    mrd_why why;
    char does[100], word[64];
    pid_t pid;

    snprintf(word, sizeof(word), "98764.%d", (int) getpid());
    snprintf(does, sizeof(does), "children %s hang", word);
    prepare(does);
    if ((pid = fork()) == 0)
        _exit(run_it(&o, &r, &why) == MRD_OK);
    TEST_UNTIL(!nobody_is(word));
    (void) kill(pid, SIGKILL);
    CHECK(waitpid(pid, NULL, 0) == pid);
    TEST_UNTIL(nobody_is(word) && !is_there("."));
}

TEST(what_is_not_there)
{
    mrd_confined_options o = { .time = 60 * MRD_SEC };
    mrd_confined_result r;
    mrd_why why;

    prepare("good");
    CHECK(unlink(viewer) == 0);
    CHECK_ERR("program", run_it(&o, &r, &why), MRD_NOTFOUND);
    CHECK(strstr(why.text, viewer) != NULL);
    o.watcher = "/nonexistent/watcher";
    CHECK_ERR("watcher", run_it(&o, &r, &why), MRD_NOTFOUND);
    CHECK(strstr(why.text, o.watcher) != NULL);
    o.watcher = "/bin/true";
    CHECK_ERR("no watcher", run_it(&o, &r, &why), MRD_IO);
    CHECK(strstr(why.text, "without a report") != NULL);
}

TEST_MAIN()
