#include "tests/check.h"

#include <dirent.h>
#include <signal.h>
#include <unistd.h>

#include "tests/fake/hw_fake.h"
#include "tests/wait.h"

static const char script[] = "# simulated\n"
                             "counter fake0.core1.executions count+ 100 110 150\n"
                             "counter fake0.core1.memory bytes 4096 8192\n"
                             "counter fake0.core2.memory bytes 1\n"
                             "counter fake1.core0.busy percent 12.5 ? 99\n";

static const mrd_hw_backend *const only_fake[] = { &mrd_hw_backend_fake };

static mrd_hw *
open_fake(const char *text)
{
    mrd_hw_options options = { 0 };
    mrd_hw *hw = NULL;
    mrd_why why = { 0 };

    mrd_hw_fake_script = text;
    if (mrd_hw_open_list(only_fake, 1, &options, &hw, &why) != MRD_OK)
        fprintf(stderr, "%s\n", why.text);
    return hw;
}

static mrd_hw_session *
session_of(mrd_hw *hw, const char *name)
{
    mrd_hw_session *s = NULL;

    CHECK_ERR(name, mrd_hw_session_create(hw, &name, 1, MRD_HW_SCOPE_ALL, false, &s, NULL), MRD_OK);
    return s;
}

TEST(a_session_counts_since_its_start)
{
    mrd_hw *hw = open_fake(script);
    const char *names[] = { "fake0.core1.*", "fake1.core0.busy" };
    mrd_hw_value v[3], d[3];
    mrd_hw_session *s = NULL;

    REQUIRE(hw != NULL);
    CHECK_ERR("create", mrd_hw_session_create(hw, names, 2, MRD_HW_SCOPE_ALL, false, &s, NULL),
              MRD_OK);
    CHECK_INT(mrd_hw_session_count(s), 3);
    CHECK_ERR("start", mrd_hw_session_start(s, MRD_SEC, NULL), MRD_OK);
    CHECK_ERR("poll", mrd_hw_session_poll(s, MRD_SEC, v, d, 3, NULL), MRD_OK);
    CHECK_INT(v[0].i, 110);
    CHECK_INT(d[0].i, 10);
    CHECK_INT(v[1].i, 8192);
    CHECK_INT(d[1].i, 8192);
    CHECK_INT(v[2].state, MRD_HW_UNKNOWN);
    CHECK_ERR("poll", mrd_hw_session_poll(s, MRD_SEC, v, d, 3, NULL), MRD_OK);
    CHECK_INT(d[0].i, 50);
    CHECK(v[2].state == MRD_HW_OK && v[2].d == 99.0);
    mrd_hw_session_destroy(s);
    mrd_hw_close(hw);
}

/* D-13: the readings of the stop remain available until the next start. */
TEST(readings_stay_after_a_stop)
{
    mrd_hw *hw = open_fake("# simulated\ncounter fake0.n count+ 100 110 150 170 200\n");
    mrd_hw_session *s = session_of(hw, "fake0.n");
    mrd_hw_value v[1], d[1];

    CHECK_ERR("start", mrd_hw_session_start(s, MRD_SEC, NULL), MRD_OK);
    CHECK_ERR("stop", mrd_hw_session_stop(s, NULL), MRD_OK);
    CHECK_ERR("stop twice", mrd_hw_session_stop(s, NULL), MRD_STATE);
    for (int i = 0; i < 2; i++) {
        CHECK_ERR("poll", mrd_hw_session_poll(s, MRD_SEC, v, d, 1, NULL), MRD_OK);
        CHECK(v[0].i == 110 && d[0].i == 10);
    }
    CHECK_ERR("no room", mrd_hw_session_poll(s, MRD_SEC, v, d, 0, NULL), MRD_LIMIT);
    CHECK_ERR("start again", mrd_hw_session_start(s, MRD_SEC, NULL), MRD_OK); /* 150 */
    CHECK_ERR("poll", mrd_hw_session_poll(s, MRD_SEC, v, d, 1, NULL), MRD_OK);
    CHECK(v[0].i == 170 && d[0].i == 20);
    mrd_hw_session_destroy(s);
    mrd_hw_close(hw);
}

/* D-06: wrong use that the reference implementation does not check is an error here. */
TEST(wrong_use_is_an_error)
{
    mrd_hw *hw = open_fake(script);
    const char *unknown = "fake0.core1.memry";
    mrd_hw_session *s = NULL;
    mrd_hw_value v[1];
    mrd_why why = { 0 };
    char longer[5000] = "";

    CHECK_ERR("unknown counter",
              mrd_hw_session_create(hw, &unknown, 1, MRD_HW_SCOPE_ALL, false, &s, &why),
              MRD_NOTFOUND);
    CHECK(strstr(why.text, "fake0.core1.memry") != NULL);
    CHECK(strstr(why.text, "'fake0.core1.memory'") != NULL);
    memset(longer, 'x', sizeof(longer) - 1);
    memcpy(longer, "fake0.core1.memory", strlen("fake0.core1.memory"));
    unknown = longer;
    CHECK_ERR("longer than any name",
              mrd_hw_session_create(hw, &unknown, 1, MRD_HW_SCOPE_ALL, false, &s, &why),
              MRD_NOTFOUND);
    CHECK(strstr(why.text, "fake0.core1.memoryxxx") != NULL);
    s = session_of(hw, "fake0.core1.memory");
    CHECK_ERR("poll before start", mrd_hw_session_poll(s, MRD_SEC, v, NULL, 1, NULL), MRD_STATE);
    CHECK_ERR("stop before start", mrd_hw_session_stop(s, NULL), MRD_STATE);
    CHECK_ERR("start", mrd_hw_session_start(s, MRD_SEC, NULL), MRD_OK);
    CHECK_ERR("double start", mrd_hw_session_start(s, MRD_SEC, NULL), MRD_STATE);
    CHECK_ERR("no room", mrd_hw_session_poll(s, MRD_SEC, v, NULL, 0, NULL), MRD_LIMIT);
    CHECK_ERR("stop", mrd_hw_session_stop(s, NULL), MRD_OK);
    CHECK_ERR("start again", mrd_hw_session_start(s, MRD_SEC, NULL), MRD_OK);
    mrd_hw_session_destroy(s);
    mrd_hw_session_destroy(NULL);
    mrd_hw_close(hw);
}

TEST(a_scope_selects_device_and_core)
{
    mrd_hw *hw = open_fake(script);
    const char *name = "fake*", *other = "fake0.core1.memory";
    mrd_hw_session *s = NULL;

    CHECK_ERR("scope", mrd_hw_session_create(hw, &name, 1, (mrd_hw_scope){ 0, 2 }, false, &s, NULL),
              MRD_OK);
    CHECK_INT(mrd_hw_session_count(s), 1);
    CHECK_TEXT(mrd_hw_session_counter(s, 0)->name, "fake0.core2.memory");
    mrd_hw_session_destroy(s);
    s = NULL;
    CHECK_ERR("outside",
              mrd_hw_session_create(hw, &other, 1, (mrd_hw_scope){ 1, MRD_NONE }, false, &s, NULL),
              MRD_NOTFOUND);
    other = "GRBM_COUNT";
    for (int64_t device = 1; device <= 7; device += 6) {
        mrd_why why = { 0 };

        CHECK_ERR("no such counter, or no such device",
                  mrd_hw_session_create(hw, &other, 1, (mrd_hw_scope){ device, MRD_NONE }, false,
                                        &s, &why),
                  MRD_NOTFOUND);
        CHECK(strstr(why.text, "'meridian doctor --counters' lists") != NULL);
        CHECK((strstr(why.text, "'GRBM_COUNT': no counters on device 7 here;") != NULL) ==
              (device == 7));
        CHECK((strstr(why.text, "'GRBM_COUNT' is unknown on device 1;") != NULL) == (device == 1));
    }
    CHECK_ERR("no such core",
              mrd_hw_session_create(hw, &name, 1, (mrd_hw_scope){ 1, 2 }, false, &s, NULL),
              MRD_NOTFOUND);
    CHECK_ERR("lenient",
              mrd_hw_session_create(hw, &other, 1, (mrd_hw_scope){ 1, MRD_NONE }, true, &s, NULL),
              MRD_OK);
    CHECK_INT(mrd_hw_session_count(s), 0);
    mrd_hw_session_destroy(s);
    mrd_hw_close(hw);
}

static unsigned
threads_now(void)
{
    DIR *tasks = opendir("/proc/self/task");
    unsigned n = 0;

    while (tasks != NULL && readdir(tasks) != NULL)
        n++;
    if (tasks != NULL)
        closedir(tasks);
    return n;
}

TEST(a_hanging_device_is_a_time_out_and_closing_does_not_wait)
{
    unsigned threads = threads_now();
    mrd_hw *hw = open_fake("counter fake0.core0.x count 1 2 3\nstall 2 3000\n");
    mrd_hw_session *s = session_of(hw, "fake0.core0.x");
    mrd_local_ns before;
    mrd_hw_value v[1] = { { .i = 77 } };

    CHECK_ERR("start", mrd_hw_session_start(s, 60 * MRD_SEC, NULL), MRD_OK);
    before = mrd_local_now();
    CHECK_ERR("hangs", mrd_hw_session_poll(s, 20 * MRD_MS, v, NULL, 1, NULL), MRD_TIMEOUT);
    CHECK_ERR("still", mrd_hw_session_poll(s, 20 * MRD_MS, v, NULL, 1, NULL), MRD_TIMEOUT);
    CHECK(mrd_local_now().ns - before.ns < 2500 * MRD_MS);
    CHECK_INT(v[0].i, 77);
    CHECK_ERR("back", mrd_hw_session_poll(s, 60 * MRD_SEC, v, NULL, 1, NULL), MRD_OK);
    CHECK_INT(v[0].i, 3);
    mrd_hw_session_destroy(s);
    mrd_hw_close(hw);

    hw = open_fake("counter fake0.core0.x count 1\nstall 1 3000\n");
    s = session_of(hw, "fake0.core0.x");
    CHECK_ERR("hangs at start", mrd_hw_session_start(s, 5 * MRD_MS, NULL), MRD_TIMEOUT);
    before = mrd_local_now();
    mrd_hw_session_destroy(s);
    mrd_hw_close(hw);
    CHECK(mrd_local_now().ns - before.ns < 2500 * MRD_MS);
    /* The abandoned helper threads end. The leak checker sees that they freed their memory. */
    TEST_UNTIL(threads_now() == threads);
}

/* Returns true if every other thread has the signal blocked. */
static bool
others_block(int sig, unsigned *ret_others)
{
    DIR *tasks = opendir("/proc/self/task");
    bool all = tasks != NULL;
    struct dirent *d;

    *ret_others = 0;
    while (tasks != NULL && (d = readdir(tasks)) != NULL) {
        char path[300], line[200];
        unsigned long long blocked = 0;
        FILE *f;

        snprintf(path, sizeof(path), "/proc/self/task/%s/status", d->d_name);
        if (d->d_name[0] == '.' || atoi(d->d_name) == getpid() || (f = fopen(path, "r")) == NULL)
            continue;
        while (fgets(line, sizeof(line), f) != NULL)
            (void) sscanf(line, "SigBlk: %llx", &blocked);
        fclose(f);
        ++*ret_others;
        all = all && (blocked >> (sig - 1) & 1) != 0;
    }
    if (tasks != NULL)
        closedir(tasks);
    return all;
}

TEST(the_thread_of_a_device_handles_no_signal)
{
    mrd_hw *hw = open_fake("counter fake0.core0.x count 1 2\nstall 2 200\n");
    mrd_hw_session *s = session_of(hw, "fake0.core0.x");
    mrd_hw_value v[1];
    unsigned others;

    CHECK_ERR("start", mrd_hw_session_start(s, MRD_SEC, NULL), MRD_OK);
    CHECK(others_block(SIGTERM, &others));
    CHECK_INT(others, 1);
    CHECK_ERR("poll", mrd_hw_session_poll(s, 5 * MRD_SEC, v, NULL, 1, NULL), MRD_OK);
    mrd_hw_session_destroy(s);
    mrd_hw_close(hw);
}

TEST(a_dead_device_is_closed)
{
    mrd_hw *hw = open_fake("counter fake0.core0.x count 1\ndie 2\n");
    mrd_hw_session *s = session_of(hw, "fake0.core0.x");
    mrd_why why = { 0 };
    mrd_hw_value v[1];

    CHECK_ERR("start", mrd_hw_session_start(s, MRD_SEC, NULL), MRD_OK);
    CHECK_ERR("dead", mrd_hw_session_poll(s, MRD_SEC, v, NULL, 1, &why), MRD_CLOSED);
    CHECK(strstr(why.text, "dead") != NULL);
    mrd_hw_session_destroy(s);
    mrd_hw_close(hw);
}

TEST(scripts_are_checked)
{
    static const struct {
        const char *name, *text;
    } rows[] = {
        { "unknown verb", "frob 1 2\n" },
        { "no value", "counter a count\n" },
        { "bad unit", "counter a apples 1\n" },
        { "bad value", "counter a count x\n" },
        { "twice", "counter a count 1\ncounter a count 2\n" },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_hw_options options = { 0 };
        mrd_hw *hw = NULL;
        mrd_why why = { 0 };

        mrd_hw_fake_script = rows[i].text;
        CHECK_ERR(rows[i].name, mrd_hw_open_list(only_fake, 1, &options, &hw, &why), MRD_SYNTAX);
        CHECK_ROW(rows[i].name, strstr(why.text, "line ") != NULL);
        CHECK_ROW(rows[i].name, hw == NULL);
    }
}

static void
count_absent(void *self, const char *name, bool present, const char *text)
{
    (void) name;
    CHECK(*text != '\0');
    *(int *) self += !present;
}

TEST(absent_backends_are_no_error)
{
    mrd_hw_options options = { .sys_root = "/nonexistent", .monitor = "" };
    mrd_hw *hw = NULL;
    int absent = 0;

    CHECK_ERR("open", mrd_hw_open(&options, &hw, NULL), MRD_OK);
    mrd_hw_report(hw, count_absent, &absent);
    CHECK_INT(absent, 2); /* neuron and monitor; the host backend is always present */
    mrd_hw_close(hw);
}

TEST_MAIN()
