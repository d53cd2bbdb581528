/* The output of timesync for random recordings (scenes.h) must be equal to tests/golden/timesync/.
 * The numbers and bounds are checked elsewhere. This test detects unintended changes.
 * MRD_GOLDEN_UPDATE=1 writes the files again. */
#include "base/sys/file.h"
#include "base/sys/out.h"
#include "tests/check.h"
#include "tests/timesync/scenes.h"

static void
compare(const char *name, const mrd_buf *got)
{
    const char *source = getenv("MERIDIAN_SOURCE");
    mrd_buf want = { 0 };
    char path[1024];
    size_t at = 0, line = 1;

    REQUIRE(source != NULL);
    CHECK_ERR(name, got->err, MRD_OK);
    snprintf(path, sizeof(path), "%s/tests/golden/timesync/%s", source, name);
    if (getenv("MRD_GOLDEN_UPDATE") != NULL)
        mrd_write_file(path, (mrd_bytes){ got->p, got->len }, 0644, NULL);
    CHECK_ERR(name, mrd_file_read(path, 4 << 20, &want, NULL), MRD_OK);
    for (; at < got->len && at < want.len && got->p[at] == want.p[at]; at++)
        line += got->p[at] == '\n';
    if (at < got->len || at < want.len) {
        fprintf(stderr, "%s differs from line %zu on: ...%.150s\n", name, line,
                (const char *) got->p + at);
        CHECK_ROW(name, false);
    }
    mrd_buf_fini(&want);
}

TEST(tables_of_finished_sessions)
{
    mrd_buf all = { 0 };

    for (size_t i = 0; i < MRD_COUNT(scenes); i++)
        CHECK_ERR(scenes[i].name, scene_offline(&scenes[i], &all), MRD_OK);
    compare("offline.txt", &all);
    mrd_buf_fini(&all);
}

TEST(clocks_that_are_followed)
{
    mrd_buf all = { 0 };

    for (size_t i = 0; i < MRD_COUNT(scenes); i++)
        CHECK_ERR(scenes[i].name, scene_live(&scenes[i], &all), MRD_OK);
    compare("live.txt", &all);
    mrd_buf_fini(&all);
}

TEST(pictures)
{
    mrd_buf all = { 0 };

    for (size_t i = 2; i < MRD_COUNT(scenes); i += 4)
        CHECK_ERR(scenes[i].name, scene_plot(&scenes[i], &all), MRD_OK);
    compare("plot.txt", &all);
    mrd_buf_fini(&all);
}

TEST(collectives)
{
    mrd_buf all = { 0 };

    for (size_t i = 0; i < MRD_COUNT(meeting_scenes); i++)
        CHECK_ERR(meeting_scenes[i].name, scene_meetings(&meeting_scenes[i], &all), MRD_OK);
    compare("collectives.txt", &all);
    mrd_buf_fini(&all);
}

TEST(links_and_other_clocks)
{
    static const int64_t steps[] = { 0, 40000, 3 * MRD_SEC, -2 * MRD_SEC, -200 * MRD_MS };
    mrd_buf all = { 0 };

    for (size_t liars = 0; liars < 6; liars++)
        CHECK_ERR("link", scene_link(liars, &all), MRD_OK);
    for (size_t i = 0; i < MRD_COUNT(steps); i++)
        CHECK_ERR("cross", scene_cross(steps[i], &all), MRD_OK);
    compare("links.txt", &all);
    mrd_buf_fini(&all);
}

TEST_MAIN()
