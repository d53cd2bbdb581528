/*
 * Tests the functions of meridian.h that write the recorded events to a file (a dump), in the real
 * libmeridian.so: the file, its contents, and what the next dump adds. Comments such as C-09 name
 * the rows of docs/dev/seeds.md that a test covers.
 */
#include <fcntl.h>
#include <locale.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include "capture/ring/ring_read.h"
#include "tests/capture/api_start.h"

/* C-15, C-30 */
TEST(dump_file)
{
    char path[300], text[4096] = "";
    FILE *f;
    size_t n;

    start();
    snprintf(path, sizeof(path), "%s/profile.json", test_tmp());
    CHECK_INT(mrd_set_config("filename", path), MERIDIAN_OK);
    {
        MRD_SCOPE(domain, "first \"quoted\"");
    }
    CHECK_INT(mrd_dump(0), MERIDIAN_OK);
    {
        MRD_SCOPE(domain, "second");
    }
    CHECK_INT(mrd_dump(1), MERIDIAN_OK);
    f = fopen(path, "r");
    REQUIRE(f != NULL);
    n = fread(text, 1, sizeof(text) - 1, f);
    fclose(f);
    text[n] = '\0';
    CHECK(strstr(text, "\"name\":\"first \\\"quoted\\\"\",\"cat\":\"test\"") != NULL);
    CHECK(strstr(text, "second") != NULL);
    CHECK(strstr(text, "\"lost\":0,\"rings_read_by_agent\":0") != NULL);
    CHECK_INT(text[n - 2], '}');
    CHECK_INT(mrd_set_config("filename", "/nonexistent/x"), MERIDIAN_OK);
    CHECK_INT(mrd_dump(1), MERIDIAN_IO);
}

/* Processes with the same working directory and no configured name write different files. */
TEST(dump_has_a_name_of_its_own)
{
    struct utsname host;
    char name[400];
    int status;

    REQUIRE(uname(&host) == 0 && chdir(test_tmp()) == 0);
    unsetenv("MERIDIAN_PROFILE_FILE");
    for (int i = 0; i < 3; i++) {
        pid_t pid = fork();

        if (pid == 0) {
            start(); /* the library is loaded in this process, and has no state of the parent */
            {
                MRD_SCOPE(domain, "work");
            }
            _exit(mrd_dump(1) == MERIDIAN_OK ? 0 : 1);
        }
        REQUIRE(waitpid(pid, &status, 0) == pid);
        CHECK_INT(status, 0);
        snprintf(name, sizeof(name), "profile.%s.%d.json", host.nodename, (int) pid);
        CHECK_ROW(name, access(name, R_OK) == 0);
    }
    start();
    CHECK_INT(mrd_set_config("filename", "of%p/%h%%p.%x.json"), MERIDIAN_OK);
    snprintf(name, sizeof(name), "of%d", (int) getpid());
    CHECK(mkdir(name, 0700) == 0);
    CHECK_INT(mrd_dump(1), MERIDIAN_OK);
    snprintf(name, sizeof(name), "of%d/%s%%%d.%%x.json", (int) getpid(), host.nodename,
             (int) getpid());
    CHECK_ROW(name, access(name, R_OK) == 0);
}

/* Returns the whole file as text, in static memory. */
static const char *
slurp(const char *path)
{
    static char text[65536];
    FILE *f = fopen(path, "r");
    size_t n = f == NULL ? 0 : fread(text, 1, sizeof(text) - 1, f);

    if (f != NULL)
        fclose(f);
    text[n] = '\0';
    return text;
}

static size_t
occurs(const char *text, const char *what)
{
    size_t n = 0;

    for (const char *p = text; (p = strstr(p, what)) != NULL; p++)
        n++;
    return n;
}

static void *
end_elsewhere(void *span)
{
    mrd_thread_name("the other one");
    mrd_span_end(*(uint64_t *) span, NULL, 0);
    return NULL;
}

/* The end of a span is written with the data of its begin, in any ring and any dump. */
TEST(dump_joins_ends)
{
    mrd_kv arg = mrd_kv_i64("left", 3);
    uint64_t here, later, other, never;
    mrd_frame *frame;
    pthread_t t;
    char path[300];
    const char *text;

    start();
    snprintf(path, sizeof(path), "%s/profile.json", test_tmp());
    CHECK_INT(mrd_set_config("filename", path), MERIDIAN_OK);
    mrd_thread_name("main thread");
    frame = mrd_frame_create(domain, "frame");
    CHECK_INT(mrd_frame_start(frame), MERIDIAN_OK);
    CHECK_INT(mrd_frame_stop(frame), MERIDIAN_OK);
    here = mrd_span_begin(domain, "here", NULL, 0);
    later = mrd_span_begin(NULL, "later", NULL, 0);
    other = mrd_span_begin(domain, "other \"thread\"", NULL, 0);
    never = mrd_span_begin(domain, "never", NULL, 0);
    CHECK(never != 0);
    mrd_span_end(here, &arg, 1);
    pthread_create(&t, NULL, end_elsewhere, &other);
    pthread_join(t, NULL);
    CHECK_INT(mrd_dump(0), MERIDIAN_OK);
    mrd_span_end(later, NULL, 0);
    CHECK_INT(mrd_dump(1), MERIDIAN_OK);
    text = slurp(path);
    CHECK_INT(occurs(text, "{\"ph\":\"b\","), 5);
    CHECK_INT(occurs(text, "{\"ph\":\"e\","), 4);
    CHECK_INT(occurs(text, "unnamed"), 0);
    CHECK_INT(occurs(text, "{\"ph\":\"b\",\"name\":\"frame\",\"cat\":\"test\","), 1);
    CHECK_INT(occurs(text, "{\"ph\":\"e\",\"name\":\"frame\",\"cat\":\"test\","), 1);
    CHECK_INT(occurs(text, "{\"ph\":\"e\",\"name\":\"here\",\"cat\":\"test\","), 1);
    CHECK_INT(occurs(text, "{\"ph\":\"e\",\"name\":\"later\",\"pid\":"), 1);
    CHECK_INT(occurs(text, "{\"ph\":\"e\",\"name\":\"other \\\"thread\\\"\",\"cat\":\"test\","), 1);
    CHECK_INT(occurs(text, "\"args\":{\"left\":3}"), 1);
    CHECK_INT(occurs(text, "\"name\":\"process_name\""), 1);
    CHECK_INT(occurs(text, "\"args\":{\"name\":\"test_capture_dump\"}"), 1);
    CHECK_INT(occurs(text, "\"args\":{\"name\":\"main thread\"}"), 1);
    CHECK_INT(occurs(text, "\"args\":{\"name\":\"the other one\"}"), 1);
    CHECK_INT(occurs(text, "\"ends_without_begin\":0"), 1);
    mrd_frame_destroy(frame);
}

/* A dump after the final one loses no events. Without new events the file is not changed, otherwise
 * it is continued. */
TEST(dump_again)
{
    char path[300], first[65536];

    start();
    snprintf(path, sizeof(path), "%s/profile.json", test_tmp());
    CHECK_INT(mrd_set_config("filename", path), MERIDIAN_OK);
    {
        MRD_SCOPE(domain, "one");
    }
    CHECK_INT(mrd_dump(1), MERIDIAN_OK);
    snprintf(first, sizeof(first), "%s", slurp(path));
    CHECK_INT(occurs(first, "\"one\""), 1);
    CHECK_INT(mrd_dump(1), MERIDIAN_OK);
    CHECK_TEXT(slurp(path), first);
    {
        MRD_SCOPE(domain, "two");
    }
    CHECK_INT(mrd_dump(1), MERIDIAN_OK);
    CHECK_INT(occurs(slurp(path), "\"one\""), 1);
    CHECK_INT(occurs(slurp(path), "\"two\""), 1);
    CHECK_INT(occurs(slurp(path), "otherData"), 1);
    CHECK_INT(truncate(path, 3), 0); /* the file has changed, so a new one is written */
    {
        MRD_SCOPE(domain, "three");
    }
    CHECK_INT(mrd_dump(1), MERIDIAN_OK);
    CHECK_INT(occurs(slurp(path), "\"three\""), 1);
    CHECK_INT(occurs(slurp(path), "{\"displayTimeUnit"), 1);
    CHECK_INT(occurs(slurp(path), "\"two\""), 0);
}

/* If an agent reads a ring too, the dump reads the ring without releasing its records, and has each
 * event once. */
TEST(dump_beside_an_agent)
{
    char path[300], command[400], line[400], ring[800];
    mrd_ring_reader *agent = NULL;
    FILE *list;

    start();
    snprintf(path, sizeof(path), "%s/profile.json", test_tmp());
    CHECK_INT(mrd_set_config("filename", path), MERIDIAN_OK);
    {
        MRD_SCOPE(domain, "one");
    }
    snprintf(command, sizeof(command), "ls '%s' | grep '[.]%d[.][0-9]*[.][0-9]*[.]ring'",
             getenv("MERIDIAN_RING_DIR"), (int) getpid());
    REQUIRE((list = popen(command, "r")) != NULL && fgets(line, sizeof(line), list) != NULL);
    pclose(list);
    line[strcspn(line, "\n")] = '\0';
    snprintf(ring, sizeof(ring), "%s/%s", getenv("MERIDIAN_RING_DIR"), line);
    CHECK_ERR("agent", mrd_ring_open(AT_FDCWD, ring, NULL, &agent, NULL), MRD_OK);
    CHECK_INT(mrd_dump(0), MERIDIAN_OK);
    {
        MRD_SCOPE(domain, "two");
    }
    CHECK_INT(mrd_dump(1), MERIDIAN_OK);
    CHECK_INT(mrd_dump(1), MERIDIAN_OK);
    CHECK_INT(occurs(slurp(path), "\"one\""), 1);
    CHECK_INT(occurs(slurp(path), "\"two\""), 1);
    mrd_ring_close(agent);
}

/* Events after the last period are written when the program exits by itself. A child of fork does
 * not overwrite the file. */
TEST(continuous_dump_at_exit)
{
    char path[300], child[340];
    pid_t pid, inner;
    int status;

    snprintf(path, sizeof(path), "%s/profile.json", test_tmp());
    if ((pid = fork()) == 0) {
        start();
        mrd_set_config("filename", path);
        mrd_set_config("dump_period", "3600");
        mrd_set_config("continuous_dump", "1");
        for (int i = 0; i < 100; i++) {
            MRD_SCOPE(domain, "tick");
        }
        if ((inner = fork()) == 0) {
            {
                MRD_SCOPE(domain, "child's");
            }
            exit(0);
        }
        waitpid(inner, &status, 0);
        snprintf(child, sizeof(child), "%s/profile.%d.json", test_tmp(), (int) inner);
        if (occurs(slurp(child), "\"child's\"") != 1)
            _exit(9);
        exit(0);
    }
    waitpid(pid, &status, 0);
    CHECK_INT(WEXITSTATUS(status), 0);
    CHECK_INT(occurs(slurp(path), "\"tick\""), 100);
    CHECK_INT(occurs(slurp(path), "otherData"), 1);
    CHECK_INT(occurs(slurp(path), "child's"), 0);
}

/* Continuous dumps are written by the thread that records events, because the library has no thread
 * for them. */
TEST(continuous_dump)
{
    char path[300];

    start();
    snprintf(path, sizeof(path), "%s/profile.json", test_tmp());
    mrd_set_config("filename", path);
    mrd_set_config("dump_period", "0.01");
    mrd_set_config("continuous_dump", "1");
    for (int i = 0; i < 30 && access(path, R_OK) != 0; i++) {
        MRD_SCOPE(domain, "tick");
        spin_ns(2000000);
    }
    CHECK(access(path, R_OK) == 0);
    CHECK_INT(mrd_dump(1), MERIDIAN_OK);
}

/* Makes a glibc locale in DIR/comma that writes numbers with a comma, because the system has none
 * installed. */
static bool
has_comma(const char *dir)
{
    /* The contents of a LC_NUMERIC file: its magic number, the number of items (six) and their
     * offsets. Then the items follow: decimal point, thousands separator, grouping, the first two
     * as wide characters, and the code set. */
    static const struct {
        uint32_t magic, n, at[6];
        char point[2], thousands[2], grouping[4];
        uint32_t wide_point, wide_thousands;
        char code[8];
    } numeric = { 0x20031114, 6, { 32, 34, 36, 40, 44, 48 }, ",", ".", "\3\3", ',', '.', "UTF-8" };
    char path[400];
    FILE *f;
    size_t n;

    snprintf(path, sizeof(path), "%s/comma", dir);
    (void) mkdir(path, 0700);
    strcat(path, "/LC_NUMERIC");
    if ((f = fopen(path, "w")) == NULL)
        return false;
    n = fwrite(&numeric, sizeof(numeric), 1, f);
    setenv("LOCPATH", dir, 1);
    return fclose(f) == 0 && n == 1 && setlocale(LC_NUMERIC, "comma") != NULL;
}

/* The program keeps its locale, but JSON and settings use a point. */
TEST(numbers_of_a_program_with_a_comma)
{
    char number[16], path[300], *text = NULL;
    mrd_counter *counter;

    if (!has_comma(test_tmp()))
        SKIP("this C library does not read a locale from a file");
    snprintf(number, sizeof(number), "%.1f", 1.5);
    CHECK_TEXT(number, "1,5");
    start();
    snprintf(path, sizeof(path), "%s/profile.json", test_tmp());
    CHECK_INT(mrd_set_config("filename", path), MERIDIAN_OK);
    CHECK_INT(mrd_set_config("aggregate_stats", "1"), MERIDIAN_OK);
    CHECK_INT(mrd_set_config("dump_period", "0.5"), MERIDIAN_OK);
    CHECK_INT(mrd_set_config("dump_period", "0,5"), MERIDIAN_INVALID);
    counter = mrd_counter_create(domain, "counter", "count", 0);
    CHECK_INT(mrd_counter_sample(counter, 1.5), MERIDIAN_OK);
    CHECK_INT(mrd_dumps(0, "json", "total", 0, &text), MERIDIAN_OK);
    CHECK(strstr(text, "\"Last\":1.5000,") != NULL);
    mrd_free(text);
    CHECK_INT(mrd_dump(1), MERIDIAN_OK);
    CHECK(strstr(slurp(path), "\"value\":1.5}") != NULL);
    snprintf(number, sizeof(number), "%.1f", 1.5); /* the program's locale must be unchanged */
    CHECK_TEXT(number, "1,5");
}

int
main(int argc, char **argv)
{
    return api_main(argc, argv);
}
