#include "tests/check.h"

#include "tests/timesync/rng.h"
#include "timesync/clockplot.h"

#include <math.h>
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
    /* offset: 3600 s, and 37 us for each of 19 bins */
    CHECK(strstr(text, "+3600.000703000 s") != NULL);
    CHECK(strstr(text, "1.60 us") != NULL);
    CHECK(strstr(text, " ppb/s ") != NULL);
    CHECK(strstr(text, "37.000      200 ") != NULL);
    CHECK(strstr(text, "node-w: unaligned") != NULL);
    CHECK(strstr(text, "unknown") != NULL);
    mrd_buf_fini(&buf);
    mrd_align_free(a);
    mrd_align_free(w);
}

/* The text states once, for any number of nodes, what the error bounds of all clocks assume. The
 * row of each epoch (time without a jump of the clock) contains how much the rate may change. */
TEST(assumptions_stand_once)
{
    mrd_align *all[40];
    mrd_buf buf = { 0 };
    size_t said = 0, unaligned = 0;

    for (size_t i = 0; i < MRD_COUNT(all); i++) {
        char name[16];

        snprintf(name, sizeof(name), "node-%zu", i);
        all[i] = i < 2 ? mrd_align_wall(name, 0, (mrd_local_ns){ 0 }, (mrd_wall_ns){ 5 })
                       : table(name, 5);
        REQUIRE(all[i] != NULL);
    }
    mrd_clock_text((const mrd_align *const *) all, MRD_COUNT(all), &buf);
    for (const char *at = mrd_buf_cstr(&buf); (at = strstr(at, "the bound holds if")) != NULL; at++)
        said++;
    for (const char *at = mrd_buf_cstr(&buf); (at = strstr(at, ": unaligned: ")) != NULL; at++)
        unaligned++;
    CHECK(said == 1);
    CHECK(unaligned == 2);
    mrd_buf_fini(&buf);
    mrd_clock_text((const mrd_align *const *) all, 2, &buf);
    /* both clocks are unaligned, so there is no bound that could hold */
    CHECK(strstr(mrd_buf_cstr(&buf), "the bound holds if") == NULL);
    mrd_buf_fini(&buf);
    for (size_t i = 0; i < MRD_COUNT(all); i++)
        mrd_align_free(all[i]);
}

/* A row of the clock table must state half of the median and of the 99th percentile of the widths
 * of the bound. Both are compared with the summary and with a count of this test. */
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

/* The tags of the SVG are balanced, and it has no external links. A node's name cannot inject tags.
 * The size of the SVG does not grow with the session. */
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

/* Many bins are drawn as one point with their extremes, so a single bin above or below its
 * neighbours is visible. */
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

/* ---- Checks of the plot's points: pixels are converted to values by the plot's axes ---- */

/* The scale of an axis of a panel (one chart of the drawing): value = at0 + per * pixel. */
typedef struct {
    double x0, x_per, y0, y_per;
    double left, right, top, bottom; /* of its grid */
    const char *begin, *end;         /* its text */
} read_panel;

/* Returns the panel that begins at the n-th title. */
static read_panel
read_axes(const char *svg, int n)
{
    read_panel p = { .left = 1e9, .top = 1e9 };
    double value[2][2] = { { 0 } }, pixel[2][2] = { { 0 } };
    int ticks[2] = { 0 };

    for (p.begin = svg; n > 0 && p.begin != NULL; n--)
        p.begin = strstr(p.begin + 1, "<text class='t'");
    if (p.begin == NULL) {
        CHECK(p.begin != NULL);
        exit(1);
    }
    p.end = strstr(p.begin + 1, "<text class='t'");
    p.end = p.end == NULL ? p.begin + strlen(p.begin) : p.end;
    for (const char *at = p.begin; (at = strstr(at, "<line class='g'")) != NULL && at < p.end;
         at++) {
        double x1, x2, y1, y2, tx, ty, v;
        char class;
        int way;

        if (sscanf(at,
                   "<line class='g' x1='%lf' x2='%lf' y1='%lf' y2='%lf'/><text class='%c' x='%lf' "
                   "y='%lf'>%lf</text>",
                   &x1, &x2, &y1, &y2, &class, &tx, &ty, &v) != 8)
            continue;
        way = class == 'e'; /* of a level */
        CHECK(way == 1 ? y1 == y2 && tx < x1 && fabs(ty - y1) < 6
                       : x1 == x2 && tx == x1 && ty > y2);
        value[way][ticks[way] > 0] = v;
        pixel[way][ticks[way]++ > 0] = way == 1 ? y1 : x1;
        p.left = fmin(p.left, x1);
        p.right = fmax(p.right, x2);
        p.top = fmin(p.top, y1);
        p.bottom = fmax(p.bottom, y2);
    }
    CHECK(ticks[0] >= 3 && ticks[0] < 20 && ticks[1] >= 3 && ticks[1] < 12);
    p.x_per = (value[0][1] - value[0][0]) / (pixel[0][1] - pixel[0][0]);
    p.x0 = value[0][0] - p.x_per * pixel[0][0];
    p.y_per = (value[1][1] - value[1][0]) / (pixel[1][1] - pixel[1][0]);
    p.y0 = value[1][0] - p.y_per * pixel[1][0];
    CHECK(p.x_per > 0 && p.y_per < 0); /* later is to the right, and larger is higher */
    return p;
}

/* Returns true if the panel has these values at these pixels, within one pixel. */
static bool
shows(const read_panel *p, double x, double y, double want_x, double want_y)
{
    return fabs(p->x0 + p->x_per * x - want_x) < p->x_per &&
           fabs(p->y0 + p->y_per * y - want_y) < -p->y_per && x >= p->left - 1 &&
           x <= p->right + 1 && y >= p->top - 1 && y <= p->bottom + 1;
}

/* Reads the pixels of all points of a path. */
static size_t
read_path(const char *at, double (*to)[2], char *letters, size_t most)
{
    size_t n = 0;
    int len;

    at = strstr(at, " d='") + 4;
    while (n < most && sscanf(at, "%c%lf %lf%n", &letters[n], &to[n][0], &to[n][1], &len) == 3) {
        at += len;
        n++;
    }
    return n;
}

enum { SEGMENTS = 2, EACH = 40, ALL = SEGMENTS * EACH };

/* Makes two epochs with different clock rates and a gap between them. The bounds of all bins
 * differ. */
static mrd_align *
drawn_table(rng *r, mrd_align_bin bins[ALL])
{
    mrd_align *a = mrd_align_new("node", 1);
    double est = 0;

    for (int s = 0; s < SEGMENTS; s++) {
        CHECK(mrd_align_segment_add(a, (uint32_t) s, s == 0 ? MRD_EPOCH_START : MRD_EPOCH_SUSPEND,
                                    (s + 5) * MRD_SEC, 200) == MRD_OK);
        est = 1e5;
        for (int i = 0; i < EACH; i++) {
            mrd_align_bin *b = &bins[s * EACH + i];

            est += (s == 0 ? 30000 : -9000) + rng_between(r, -30, 30);
            *b = (mrd_align_bin){ .at = { 77 * MRD_SEC + (s * (EACH + 20) + i) * MRD_SEC },
                                  .lo = est - rng_between(r, 1400, 1500),
                                  .hi = est + rng_between(r, 1400, 1500),
                                  .est = est,
                                  .rate_lo = -100000,
                                  .rate_hi = 100000,
                                  .quality = MRD_ALIGN_GOOD };
            CHECK(mrd_align_bin_add(a, b) == MRD_OK);
        }
    }
    return a;
}

static void
check_picture(const char *row, const char *svg, const mrd_align *a, const mrd_align_bin *bins,
              const mrd_probe *probes, size_t n_probes)
{
    const read_panel offset = read_axes(svg, 1), width = read_axes(svg, 2);
    static double at[3 * ALL][2];
    static char letters[3 * ALL];
    size_t n = read_path(strstr(offset.begin, "<path class='l'"), at, letters, MRD_COUNT(at));
    const char *band = offset.begin;

    CHECK(offset.bottom < width.top && offset.left == width.left && offset.right == width.right);
    CHECK_INT(n, ALL);
    for (size_t i = 0; i < ALL; i++) {
        const mrd_align_bin *b = &bins[i], *first = &bins[i / EACH * EACH],
                            *last = first + EACH - 1;
        double t = (double) (b->at.ns - bins[0].at.ns) * 1e-9;
        double along = (double) (b->at.ns - first->at.ns) / (double) (last->at.ns - first->at.ns);
        double line = first->est + (last->est - first->est) * along;
        size_t of = i % EACH, lower = 2 * EACH - 1 - of;

        CHECK_ROW(row, shows(&offset, at[i][0], at[i][1], t, (b->est - line) / 1000));
        CHECK_ROW(row, letters[i] == (of == 0 ? 'M' : 'L'));
        if (of == 0) { /* an area for each epoch: along its upper side and back along the lower */
            static double area[3 * ALL][2];
            static char how[3 * ALL];

            band = strstr(band + 1, "<path class='b'");
            REQUIRE(band != NULL && band < offset.end);
            CHECK_INT(read_path(band, area, how, MRD_COUNT(area)), 2 * EACH);
            for (size_t k = 0; k < EACH; k++) {
                double x = (double) (first[k].at.ns - bins[0].at.ns) * 1e-9;
                double mean = first->est + (last->est - first->est) * (double) k / (EACH - 1);

                CHECK_ROW(row,
                          shows(&offset, area[k][0], area[k][1], x, (first[k].hi - mean) / 1000));
                lower = 2 * EACH - 1 - k;
                CHECK_ROW(row, shows(&offset, area[lower][0], area[lower][1], x,
                                     (first[k].lo - mean) / 1000));
                CHECK(how[k] == (k == 0 ? 'M' : 'L') && how[lower] == 'L');
            }
        }
    }
    n = read_path(strstr(width.begin, "<path class='l'"), at, letters, MRD_COUNT(at));
    CHECK_INT(n, ALL);
    for (size_t i = 0; i < ALL; i++)
        CHECK_ROW(row,
                  shows(&width, at[i][0], at[i][1], (double) (bins[i].at.ns - bins[0].at.ns) * 1e-9,
                        (bins[i].hi - bins[i].lo) / 1000));
    if (n_probes > 0) {
        const read_panel packets = read_axes(svg, 3);
        const char *circle = packets.begin;
        mrd_align_cursor cursor = { 0 };

        CHECK(width.bottom < packets.top);
        for (size_t i = 0; i < n_probes; i++) {
            mrd_ineq q[2];
            size_t k = mrd_probe_ineqs(&probes[i], q);

            CHECK_INT(k, 2);
            for (size_t j = 0; j < k; j++) {
                double x, y;
                mrd_sess_ns sess;
                char class;

                circle = strstr(circle + 1, "<circle");
                REQUIRE(circle != NULL &&
                        sscanf(circle, "<circle class='%c' cx='%lf' cy='%lf' r='1.6'/>", &class, &x,
                               &y) == 3);
                CHECK(class == (q[j].lower ? 'd' : 'u'));
                CHECK(mrd_align_map(a, &cursor, (mrd_local_ns){ q[j].t }, &sess, NULL));
                CHECK_ROW(row, shows(&packets, x, y, (double) (q[j].t - bins[0].at.ns) * 1e-9,
                                     (double) (q[j].v - (sess.ns - q[j].t)) / 1000));
            }
        }
    }
}

TEST(the_picture_shows_what_the_table_has)
{
    const uint64_t first = rng_seed();

    for (uint64_t seed = first; seed < first + 20; seed++) {
        rng r = rng_new(seed);
        mrd_align_bin bins[ALL];
        mrd_probe probes[30] = { { .a1 = 0 } };
        mrd_align *a = drawn_table(&r, bins);
        size_t n = seed % 2 == 0 ? 0 : MRD_COUNT(probes);
        mrd_buf svg = { 0 };
        char row[32];

        snprintf(row, sizeof(row), "seed %d", (int) seed);
        for (size_t i = 0; i < n; i++) {
            const mrd_align_bin *b = &bins[i];
            int64_t a1 = b->at.ns, sess = a1 + 5 * MRD_SEC + (int64_t) b->est;

            probes[i] = (mrd_probe){ .a1 = a1,
                                     .r2 = sess + (int64_t) rng_between(&r, 500, 2000),
                                     .r3 = sess + 2000,
                                     .a4 = a1 + 2000 + (int64_t) rng_between(&r, 500, 2000),
                                     .up = true,
                                     .down = true };
        }
        CHECK_ERR(row, mrd_clock_svg(a, probes, n, &svg), MRD_OK);
        check_picture(row, mrd_buf_cstr(&svg), a, bins, probes, n);
        mrd_buf_fini(&svg);
        mrd_align_free(a);
    }
}

TEST(small_and_empty_tables)
{
    mrd_align *a = mrd_align_constant("c", 0, 5, -10, 10), *empty = mrd_align_new("e", 0);
    mrd_buf buf = { 0 };

    CHECK_ERR("one bin", mrd_clock_svg(a, NULL, 0, &buf), MRD_OK);
    CHECK(strstr(mrd_buf_cstr(&buf), "nan") == NULL);
    CHECK_ERR("no bins", mrd_clock_svg(empty, NULL, 0, &buf), MRD_EMPTY);
    for (int s = 0; s < 2; s++) { /* there is nothing to draw for times without measurements */
        mrd_align_bin b = { .at = { s * MRD_SEC }, .quality = MRD_ALIGN_UNALIGNED };

        CHECK_ERR("segment", mrd_align_segment_add(empty, 0, MRD_EPOCH_START, 0, 0), MRD_OK);
        CHECK_ERR("bin", mrd_align_bin_add(empty, &b), MRD_OK);
    }
    mrd_buf_reset(&buf);
    CHECK_ERR("unaligned", mrd_clock_svg(empty, NULL, 0, &buf), MRD_EMPTY);
    CHECK_INT(buf.len, 0);
    mrd_buf_fini(&buf);
    mrd_align_free(a);
    mrd_align_free(empty);
}

TEST_MAIN()
