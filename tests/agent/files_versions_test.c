#include <sys/inotify.h>

#include "base/out.h"
#include "tests/agent/files_world.h"

/* Writes JSON of `n` numbers from `first` with this name, in place or by renaming. */
static void
put_version(int first, int n, bool rename_it)
{
    char path[600], part[600];
    mrd_buf text = { 0 };

    mrd_buf_text(&text, "{\"traceEvents\": [");
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

/* Each version is either delivered or counted as replaced. A file that only grows has one version. */
TEST(versions_that_were_replaced_are_counted)
{
    static const struct {
        const char *name;
        int first_by, n, n_by; /* from each version to the next */
        bool rename_it;
        unsigned versions;
    } rows[] = {
        { "renamed, other contents", 1000, 50, 0, true, 4 },
        { "written in place, the same size", 1000, 50, 0, false, 4 },
        { "written in place, longer", 1000, 50, 3, false, 4 },
        { "written in place, shorter", 0, 50, -3, false, 4 },
        { "renamed, long", 1000, 5000, 1, true, 4 },
        { "grows in place", 0, 50, 10, false, 1 },
        { "grows by renaming", 0, 50, 10, true, 1 },
    };

    stable_ms = 500;
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        world *w;

        tree_file(test_tmp(), "cap/.hidden", "");
        w = new_world(0);
        for (int k = 0; k < 4; k++) {
            put_version(100000 + k * rows[i].first_by, rows[i].n + k * rows[i].n_by,
                        rows[i].rename_it);
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

TEST_MAIN()
