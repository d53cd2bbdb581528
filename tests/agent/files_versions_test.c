#include <sys/inotify.h>

#include "base/sys/out.h"
#include "tests/agent/files_world.h"

/* Writes JSON of `n` numbers from `first`, after `padding` equal bytes, in place or by renaming. */
static void
put_version(int first, int n, bool rename_it, int padding)
{
    char path[600], part[600];
    mrd_buf text = { 0 };

    mrd_buf_fmt(&text, "{\"traceEvents\": [%*s", padding, "");
    for (int i = 0; i < n; i++)
        mrd_buf_fmt(&text, "{\"ph\": \"X\", \"ts\": %06d},\n", first + i);
    snprintf(path, sizeof(path), "%s/cap/step.json", test_tmp());
    snprintf(part, sizeof(part), "%s/cap/.step", test_tmp());
    CHECK_ERR("write",
              mrd_write_file(rename_it ? part : path, (mrd_bytes){ text.p, text.len }, 0644, NULL),
              MRD_OK);
    CHECK(!rename_it || rename(part, path) == 0);
    mrd_buf_fini(&text);
}

/* Each version is either delivered or counted as replaced. A file that only grows has one
 * version. */
TEST(versions_that_were_replaced_are_counted)
{
    static const struct {
        const char *name;
        /* change of the first number and of the count from each version to the next */
        int first_by, n, n_by;
        bool rename_it;
        unsigned versions;
        int padding;
    } rows[] = {
        { "renamed, other contents", 1000, 50, 0, true, 4, 0 },
        { "written in place, the same size", 1000, 50, 0, false, 4, 0 },
        { "written in place, longer", 1000, 50, 3, false, 4, 0 },
        { "written in place, shorter", 0, 50, -3, false, 4, 0 },
        { "renamed, long", 1000, 5000, 1, true, 4, 0 },
        { "renamed, the same start", 10000, 3000, 10, true, 4, 70000 },
        { "in place, the same start", 10000, 3000, 0, false, 4, 70000 },
        { "renamed, only the end differs", 10, 2400, 0, true, 4, 70000 },
        { "grows in place", 0, 50, 10, false, 1, 0 },
        { "grows by renaming", 0, 50, 10, true, 1, 0 },
        { "grows, long", 0, 3000, 900, false, 1, 70000 },
    };

    stable_ms = 500;
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        world *w;

        tree_file(test_tmp(), "cap/.hidden", "");
        w = new_world(0);
        for (int k = 0; k < 4; k++) {
            put_version(100000 + k * rows[i].first_by, rows[i].n + k * rows[i].n_by,
                        rows[i].rename_it, rows[i].padding);
            run_ms(w, 150); /* long enough for a search */
        }
        until(w, w->finished + w->failed + 1);
        CHECK_ROW(rows[i].name, w->told + w->replaced == rows[i].versions);
        end_world(w);
    }
    stable_ms = 40;
}

/* Counts for each name how often its file was opened since the last call. */
static void
count_opened(int watch, const char *const *names, unsigned *ret_counts, size_t n)
{
    _Alignas(struct inotify_event) char events[4096];
    ssize_t len;

    memset(ret_counts, 0, n * sizeof(*ret_counts));
    while ((len = read(watch, events, sizeof(events))) > 0)
        for (ssize_t at = 0; at < len;) {
            const struct inotify_event *e = (const struct inotify_event *) (events + at);

            for (size_t i = 0; i < n; i++)
                ret_counts[i] += e->len > 0 && strcmp(e->name, names[i]) == 0;
            at += (ssize_t) (sizeof(*e) + e->len);
        }
}

/* A search opens a new trace file, to find out later whether it was replaced, and no other file. */
TEST(a_search_opens_only_trace_files)
{
    static const char *const names[] = { "a.json", "b.xplane.pb", "c.ntff", "d.neff" };
    unsigned opened[MRD_COUNT(names)];
    char path[600];
    world *w;
    int watch;

    tree_file(test_tmp(), "cap/.hidden", "");
    stable_ms = 60000;
    w = new_world(0);
    for (size_t i = 0; i < MRD_COUNT(names); i++) {
        snprintf(path, sizeof(path), "cap/%s", names[i]);
        tree_file(test_tmp(), path, "text");
    }
    snprintf(path, sizeof(path), "%s/cap", test_tmp());
    CHECK((watch = inotify_init1(IN_NONBLOCK)) >= 0);
    CHECK(inotify_add_watch(watch, path, IN_OPEN) >= 0);
    run_ms(w, 150); /* long enough for a search */
    count_opened(watch, names, opened, MRD_COUNT(names));
    CHECK(opened[0] > 0 && opened[1] > 0);
    CHECK_INT(opened[2] + opened[3], 0);
    close(watch);
    end_world(w);
    stable_ms = 40;
}

static void
path_in(char path[600], const char *name)
{
    snprintf(path, 600, "%s/cap/%s", test_tmp(), name);
}

static void
write_in(const char *name, const char *text)
{
    char path[64];

    snprintf(path, sizeof(path), "cap/%s", name);
    tree_file(test_tmp(), path, text);
}

static void
rename_in(const char *from, const char *to)
{
    char a[600], b[600];

    path_in(a, from);
    path_in(b, to);
    CHECK(rename(a, b) == 0);
}

/* Removes the files that an earlier row of the test's table left in the directory. */
static void
empty(void)
{
    static const char *const names[] = { "step.json", "step.json.gz", "other.json" };
    char path[600];

    for (size_t i = 0; i < MRD_COUNT(names); i++) {
        path_in(path, names[i]);
        (void) remove(path);
    }
}

#define TRACE "{\"traceEvents\": [{\"ph\": \"X\", \"ts\": 1}]}"

static void
remove_it(void)
{
    char path[600];

    path_in(path, "step.json");
    CHECK(unlink(path) == 0);
}

static void
put_link(void)
{
    char path[600];

    path_in(path, ".link");
    CHECK(symlink("/etc/passwd", path) == 0);
    rename_in(".link", "step.json");
}

static void
put_folder(void)
{
    char path[600];

    remove_it();
    path_in(path, "step.json");
    CHECK(mkdir(path, 0700) == 0);
}

static void
rename_it(void)
{
    rename_in("step.json", "other.json");
}

static void
compress_it(void)
{
    /* imitates gzip, which writes step.json.gz and then removes step.json */
    write_in("step.json.gz", TRACE);
    remove_it();
}

static void
put_another(void)
{
    write_in(".other", "{\"traceEvents\": [{\"ph\": \"X\", \"ts\": 2}]}");
    rename_in(".other", "step.json");
}

/* Replaces the file by another one with the same size and date. */
static void
put_another_of_its_date(void)
{
    char path[600];
    struct stat st;

    path_in(path, "step.json");
    CHECK(stat(path, &st) == 0);
    put_another();
    CHECK(utimensat(AT_FDCWD, path, (struct timespec[2]){ st.st_mtim, st.st_mtim }, 0) == 0);
}

/* A trace file was found, but is removed or replaced before the agent reads it. Its events are then
 * counted as missing, unless another file has the same contents. */
TEST(trace_files_that_are_gone_are_missed)
{
    static const struct {
        const char *name, *text;
        void (*act)(void);
        unsigned told, missed, replaced;
    } rows[] = {
        { "removed", TRACE, remove_it, 0, 1, 0 },
        { "replaced by a link", TRACE, put_link, 0, 1, 0 },
        { "replaced by a folder", TRACE, put_folder, 0, 1, 0 },
        { "renamed", TRACE, rename_it, 1, 0, 0 },
        { "compressed", TRACE, compress_it, 1, 0, 0 },
        { "replaced", TRACE, put_another, 1, 0, 1 },
        { "replaced, the same date", TRACE, put_another_of_its_date, 1, 0, 1 },
        { "removed, no trace", "{\"a\": 1}", remove_it, 0, 0, 0 },
        { "removed, empty", "", remove_it, 0, 0, 0 },
    };

    stable_ms = 600;
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_files_stats st;
        world *w;

        empty();
        write_in(".hidden", "");
        w = new_world(0);
        write_in("step.json", rows[i].text);
        for (int64_t end = test_deadline();
             mrd_files_get_stats(w->f, &st), st.found == 0 && test_in_time(end);)
            step(w);
        rows[i].act();
        for (int64_t end = test_deadline();
             mrd_files_get_stats(w->f, &st), st.waiting > 0 && test_in_time(end);)
            step(w);
        CHECK_ROW(rows[i].name, w->told == rows[i].told);
        CHECK_ROW(rows[i].name, w->missed == rows[i].missed);
        CHECK_ROW(rows[i].name, w->replaced == rows[i].replaced);
        CHECK_ROW(rows[i].name, w->missed == 0 || strstr(w->reason, "before it could be read"));
        end_world(w);
    }
    stable_ms = 40;
}

/* Other limits than time. */
TEST(trace_files_that_cannot_be_read_are_missed)
{
    world *w;

    empty();
    write_in(".hidden", "");
    w = new_world(10);
    write_in("step.json", TRACE);
    until(w, 1);
    CHECK_INT(w->failed, 1);
    CHECK_INT(w->missed, 1);
    CHECK_ROW(w->reason, strstr(w->reason, "--advanced.artifact-max") != NULL);
    end_world(w);
}

/* The agent tells a file that grew from a new file of the same name. The first new version begins
 * with the old contents, so the file grew. The second one has other contents. */
TEST(a_complete_file_that_grows_is_known)
{
    world *w;

    empty();
    write_in(".hidden", "");
    w = new_world(0);
    put_version(100000, 50, false, 0);
    until(w, 1);
    put_version(100000, 60, true, 0);
    until(w, 2);
    CHECK_INT(w->grown, 1);
    put_version(200000, 70, true, 0);
    until(w, 3);
    CHECK_INT(w->grown, 1);
    CHECK_INT(w->told, 3);
    CHECK_INT(w->replaced, 0);
    end_world(w);
}

TEST_MAIN()
