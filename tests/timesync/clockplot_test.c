#include "tests/check.h"

#include "timesync/clockplot.h"

#include <stdlib.h>
#include <string.h>

static mrd_align *
table(const char *name, int bins)
{
    mrd_align *a = mrd_align_new(name, 1);

    for (int e = 0; e < 2; e++) {
        CHECK(mrd_align_segment_add(a, (uint32_t) e, e == 0 ? MRD_EPOCH_START : MRD_EPOCH_SUSPEND,
                                    3600 * MRD_SEC, 200) == MRD_OK);
        for (int i = 0; i < bins; i++) {
            double est = 37000.0 * i + e * 2e6;
            mrd_align_bin b = { .at = { (e * bins + i) * MRD_SEC + e * MRD_SEC },
                                .lo = est - 1500,
                                .hi = est + 1700,
                                .est = est,
                                .rate = 37000,
                                .rate_lo = 36900,
                                .rate_hi = 37100,
                                .noise = 21,
                                .quality = MRD_ALIGN_GOOD,
                                .source = MRD_STAMP_UDP_KERNEL };

            CHECK(mrd_align_bin_add(a, &b) == MRD_OK);
        }
    }
    return a;
}

TEST(text_names_every_epoch_and_the_assumptions)
{
    mrd_align *a = table("node-a", 20);
    mrd_align *w = mrd_align_wall("node-w", 0, (mrd_local_ns){ 0 }, (mrd_wall_ns){ 5 });
    const mrd_align *all[2] = { a, w };
    mrd_buf buf = { 0 };
    const char *text;

    mrd_clock_text(all, 2, &buf);
    text = mrd_buf_cstr(&buf);
    CHECK(strstr(text, "suspend") != NULL);
    CHECK(strstr(text, "udp-kernel") != NULL);
    CHECK(strstr(text, "+37.000") != NULL);
    CHECK(strstr(text, "+3600.000703000 s") != NULL); /* 3600 s and 19 bins of 37 us */
    CHECK(strstr(text, "1.60 us") != NULL);
    CHECK(strstr(text, "200 ppb/s") != NULL);
    CHECK(strstr(text, "node-w: unaligned") != NULL);
    CHECK(strstr(text, "unknown") != NULL);
    mrd_buf_fini(&buf);
    mrd_align_free(a);
    mrd_align_free(w);
}

/* Of bins of every width the row has half of the median and of the 99th percentile, as the summary says
 * and as they are counted here. */
TEST(widths_are_halves)
{
    enum { BINS = 200 };
    mrd_align *a = mrd_align_new("node-a", 1);
    const mrd_align *all[1] = { a };
    mrd_align_summary sum;
    mrd_buf buf = { 0 };
    char median[MRD_DUR_TEXT], p99[MRD_DUR_TEXT], both[2 * MRD_DUR_TEXT + 8];

    CHECK_ERR("segment", mrd_align_segment_add(a, 0, MRD_EPOCH_START, 0, 200), MRD_OK);
    for (int i = 0; i < BINS; i++) {
        mrd_align_bin b = { .at = { i * MRD_SEC },
                            .hi = 2000.0 * (1 + i * 7 % BINS), /* 2, 4, ... 400 us, mixed */
                            .est = 5,
                            .quality = MRD_ALIGN_GOOD,
                            .source = MRD_STAMP_UDP_KERNEL };

        CHECK_ERR("bin", mrd_align_bin_add(a, &b), MRD_OK);
    }
    REQUIRE(mrd_align_summarise(a, 0, &sum));
    CHECK(llabs(sum.width_median - 2000LL * BINS / 2) <= 2000);
    CHECK(llabs(sum.width_p99 - 2000LL * BINS * 99 / 100) <= 2000);
    (void) mrd_dur_text(sum.width_median / 2, median);
    (void) mrd_dur_text(sum.width_p99 / 2, p99);
    snprintf(both, sizeof(both), " %12s %12s ", median, p99);
    mrd_clock_text(all, 1, &buf);
    CHECK_ROW(mrd_buf_cstr(&buf), strstr(mrd_buf_cstr(&buf), both) != NULL);
    mrd_buf_fini(&buf);
    mrd_align_free(a);
}

/* Tags balance, nothing points outside, the name cannot break out, and size does not grow with the
 * session. */
TEST(svg_is_self_contained)
{
    mrd_align *a = table("a<script>&b", 50000);
    mrd_probe probes[40] = { { .a1 = 0 } };
    mrd_buf buf = { 0 };
    int depth = 0;
    const char *text;

    for (int i = 0; i < 40; i++)
        probes[i] = (mrd_probe){ .a1 = i * MRD_SEC,
                                 .a4 = i * MRD_SEC + 5000,
                                 .r2 = 3600 * MRD_SEC + i * MRD_SEC + 37000 * i + 2000,
                                 .r3 = 3600 * MRD_SEC + i * MRD_SEC + 37000 * i + 3000,
                                 .up = true,
                                 .down = true };
    REQUIRE(mrd_clock_svg(a, probes, 40, &buf) == MRD_OK);
    text = mrd_buf_cstr(&buf);
    CHECK(strncmp(text, "<svg ", 5) == 0);
    CHECK(strstr(text, "<script") == NULL && strstr(text, "href") == NULL);
    CHECK(strstr(text, "a&#60;script&#62;&#38;b") != NULL);
    CHECK(strstr(text, "prefers-color-scheme:dark") != NULL);
    CHECK(strstr(text, "Width of the bound") != NULL && strstr(text, ">us<") != NULL);
    CHECK(strstr(text, "nan") == NULL && strstr(text, "inf") == NULL);
    CHECK(buf.len < 400000);
    for (const char *p = text; *p != '\0'; p++) {
        if (p[0] == '<')
            depth += p[1] == '/' ? -1 : 1;
        if (p[0] == '/' && p[1] == '>')
            depth--;
        CHECK(depth >= 0);
    }
    CHECK_INT(depth, 0);
    mrd_buf_fini(&buf);
    mrd_align_free(a);
}

/* Of many bins one point is drawn, with their extremes: one bin above or below its neighbours shows. */
TEST(a_point_of_many_bins_has_their_extremes)
{
    static const double by[] = { 0, 400, -400 };
    char *drawn[MRD_COUNT(by)];

    for (size_t k = 0; k < MRD_COUNT(by); k++) {
        mrd_align *a = mrd_align_new("node", 1);
        mrd_buf buf = { 0 };

        CHECK(mrd_align_segment_add(a, 0, MRD_EPOCH_START, 0, 200) == MRD_OK);
        for (int i = 0; i < 12000; i++) { /* ten to a point */
            double est = i == 6005 ? by[k] : 0;
            mrd_align_bin b = { .at = { i * MRD_SEC },
                                .lo = est - 1000,
                                .hi = est + 1000,
                                .est = est,
                                .rate_lo = -100,
                                .rate_hi = 100,
                                .noise = 21,
                                .quality = MRD_ALIGN_GOOD,
                                .source = MRD_STAMP_UDP_KERNEL };

            CHECK(mrd_align_bin_add(a, &b) == MRD_OK);
        }
        REQUIRE(mrd_clock_svg(a, NULL, 0, &buf) == MRD_OK);
        REQUIRE((drawn[k] = strdup(mrd_buf_cstr(&buf))) != NULL);
        mrd_buf_fini(&buf);
        mrd_align_free(a);
    }
    CHECK(strcmp(drawn[0], drawn[1]) != 0);
    CHECK(strcmp(drawn[0], drawn[2]) != 0);
    CHECK(strcmp(drawn[1], drawn[2]) != 0);
    for (size_t k = 0; k < MRD_COUNT(by); k++)
        free(drawn[k]);
}

TEST(small_and_empty_tables)
{
    mrd_align *a = mrd_align_constant("c", 0, 5, -10, 10), *empty = mrd_align_new("e", 0);
    mrd_buf buf = { 0 };

    CHECK_ERR("one bin", mrd_clock_svg(a, NULL, 0, &buf), MRD_OK);
    CHECK(strstr(mrd_buf_cstr(&buf), "nan") == NULL);
    CHECK_ERR("no bins", mrd_clock_svg(empty, NULL, 0, &buf), MRD_EMPTY);
    mrd_buf_fini(&buf);
    mrd_align_free(a);
    mrd_align_free(empty);
}

TEST_MAIN()
