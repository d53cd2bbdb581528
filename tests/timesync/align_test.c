#include "tests/check.h"

#include "base/hash.h"
#include "tests/seed.h"
#include "timesync/align_grid.h"
#include "timesync/bytes.h"
#include "timesync/follow.h"

#include <math.h>

static mrd_align_bin
bin_at(int64_t at, double est, double half, double rate)
{
    return (mrd_align_bin){ .at = { at },
                            .lo = est - half,
                            .hi = est + half,
                            .est = est,
                            .rate = (float) rate,
                            .rate_lo = (float) (rate - 100),
                            .rate_hi = (float) (rate + 100),
                            .noise = 20,
                            .quality = MRD_ALIGN_GOOD,
                            .source = MRD_STAMP_UDP_KERNEL };
}

/* Makes two epochs: 37 ppm around a base of 1e18, then a jump of `jump` ns after 10 s and a gap of
 * 1 s. */
static mrd_align *
two_epochs(int64_t base, double jump)
{
    mrd_align *a = mrd_align_new("node-a", 42);

    CHECK(mrd_align_segment_add(a, 0, MRD_EPOCH_START, base, 200) == MRD_OK);
    for (int i = 0; i <= 10; i++) {
        mrd_align_bin b = bin_at(i * MRD_SEC, 37000.0 * i, 1500, 37000);

        CHECK(mrd_align_bin_add(a, &b) == MRD_OK);
    }
    CHECK(mrd_align_segment_add(a, 1, MRD_EPOCH_CONTRADICTION, base, 200) == MRD_OK);
    for (int i = 11; i <= 20; i++) {
        mrd_align_bin b = bin_at(i * MRD_SEC, 37000.0 * i + jump, 1500, 37000);

        CHECK(mrd_align_bin_add(a, &b) == MRD_OK);
    }
    return a;
}

TEST(maps_between_bins_exactly_at_large_offsets)
{
    mrd_align *a = two_epochs(1000000000000000000LL, 1e6);
    mrd_align_cursor c = { 0, 0 };
    mrd_align_bound b;
    mrd_sess_ns s;

    REQUIRE(mrd_align_map(a, &c, (mrd_local_ns){ 2500000000LL }, &s, &b));
    CHECK_INT(s.ns, 1000000000000000000LL + 2500000000LL + 92500);
    /* the bound is 1500 ns at both bins, and wider by w d^2 / 8 = 25 ns in the middle between
     * them */
    CHECK_INT(b.lo.ns, s.ns - 1525);
    CHECK_INT(b.hi.ns, s.ns + 1525);
    CHECK_INT(b.quality, MRD_ALIGN_GOOD);
    CHECK_INT(b.epoch, 0);
    CHECK_INT(mrd_align_radius(s, &b), 1525);
    REQUIRE(mrd_align_map(a, &c, (mrd_local_ns){ 3 * MRD_SEC }, &s, &b));
    CHECK_INT(b.hi.ns - b.lo.ns, 3000);
    mrd_align_free(a);
}

TEST(extrapolation_widens_and_says_so)
{
    mrd_align *a = two_epochs(0, 0);
    mrd_align_cursor c = { 0, 0 };
    mrd_align_bound b;
    mrd_sess_ns s;

    REQUIRE(mrd_align_map(a, &c, (mrd_local_ns){ 30 * MRD_SEC }, &s, &b));
    CHECK_INT(s.ns, 30 * MRD_SEC + 37000 * 30);
    /* bound of the last bin, its uncertain rate over 10 s, and w d^2 / 2 */
    CHECK_INT(b.hi.ns - s.ns, 1500 + 100 * 10 + 100 * 100);
    CHECK_INT(s.ns - b.lo.ns, 1500 + 100 * 10 + 100 * 100);
    CHECK_INT(b.quality, MRD_ALIGN_EXTRAPOLATED);
    REQUIRE(mrd_align_map(a, &c, (mrd_local_ns){ -10 * MRD_SEC }, &s, &b));
    CHECK_INT(s.ns - b.lo.ns, 1500 + 100 * 10 + 100 * 100);
    mrd_align_free(a);
}

/* Far from the last reading, the bound must grow with the maximum rate of a clock and not faster,
 * because no clock drifts faster. The bound that follows from rate changes by w reaches this growth
 * after some time. */
TEST(what_is_far_away_is_known_by_the_largest_rate)
{
    mrd_align *a = two_epochs(0, 0);

    for (int64_t away = 3600; away <= 1000 * 3600; away *= 10)
        for (int side = -1; side <= 1; side += 2) {
            int64_t at = side < 0 ? -away * MRD_SEC : (20 + away) * MRD_SEC;
            double known = side < 0 ? 0 : 37000.0 * 20; /* the offset at the nearest reading */
            double most = MRD_ALIGN_RATE_MAX * (double) away + 1500 + 4096;
            mrd_align_cursor c = { 0, 0 };
            mrd_align_bound b;
            mrd_sess_ns s;

            REQUIRE(mrd_align_map(a, &c, (mrd_local_ns){ at }, &s, &b));
            CHECK((double) (b.hi.ns - at) - known <= most);
            CHECK((double) (b.lo.ns - at) - known >= -most);
            /* After 45 minutes of a changing rate, the bound must have reached its largest width. */
            if (away > 3600) {
                CHECK((double) (b.hi.ns - at) - known >= 0.9 * most);
                CHECK((double) (b.lo.ns - at) - known <= -0.9 * most);
            }
        }
    mrd_align_free(a);
}

/* One segment of a table is shifted. Its session times must move by that amount. A later local time
 * must still never get an earlier session time, across all segments. */
TEST(order_holds_across_shifted_segments)
{
    static const int64_t by[] = { 5 * MRD_SEC, -5 * MRD_SEC, 1, 0 };

    for (size_t k = 0; k < MRD_COUNT(by); k++)
        for (size_t first = 0; first < 2; first++) {
            mrd_align *a = two_epochs(0, 0);
            mrd_align_cursor c = { 0, 0 };
            mrd_sess_ns at, last = { INT64_MIN };
            int64_t middle = first == 0 ? 5 * MRD_SEC : 20 * MRD_SEC;
            mrd_align_bound b;

            mrd_align_shift(a, first, first + 1, by[k]);
            REQUIRE(mrd_align_map(a, &c, (mrd_local_ns){ middle }, &at, &b));
            CHECK_INT(at.ns, middle + 37 * (middle / MRD_MS) + by[k]);
            for (int64_t t = -2 * MRD_SEC; t <= 30 * MRD_SEC; t += 50 * MRD_MS) {
                REQUIRE(mrd_align_map(a, &c, (mrd_local_ns){ t }, &at, &b));
                CHECK(at.ns >= last.ns);
                last = at;
            }
            mrd_align_free(a);
        }
}

TEST(gap_is_the_union_of_both_sides)
{
    mrd_align *a = two_epochs(0, 1e6);
    mrd_align_cursor c = { 0, 0 };
    mrd_align_bound b;
    mrd_sess_ns s;

    REQUIRE(mrd_align_map(a, &c, (mrd_local_ns){ 10500000000LL }, &s, &b));
    CHECK_INT(b.quality, MRD_ALIGN_GAP);
    CHECK(b.lo.ns <= 10500000000LL + 388500 - 1500);
    CHECK(b.hi.ns >= 10500000000LL + 1388500 + 1500);
    CHECK(s.ns > b.lo.ns && s.ns < b.hi.ns);
    mrd_align_free(a);
}

/* A later local time is never mapped to an earlier session time, also if the local clock jumped
 * ahead by more than the gap between two segments. */
TEST(never_maps_later_to_earlier)
{
    static const double jumps[] = { 0, 1e6, -1e6, 5e9, -5e9 };

    for (size_t j = 0; j < MRD_COUNT(jumps); j++) {
        mrd_align *a = two_epochs(-77, jumps[j]);
        mrd_align_cursor c = { 0, 0 };
        mrd_sess_ns s, last = { INT64_MIN };
        mrd_align_bound b;

        for (int64_t t = -3 * MRD_SEC; t < 30 * MRD_SEC; t += 7654321) {
            CHECK(mrd_align_map(a, &c, (mrd_local_ns){ t }, &s, &b));
            CHECK(s.ns >= last.ns);
            CHECK(b.lo.ns <= s.ns && s.ns <= b.hi.ns);
            last = s;
        }
        mrd_align_free(a);
    }
}

TEST(cursor_never_changes_the_answer)
{
    mrd_align *a = two_epochs(5, 3e5);
    mrd_align_cursor c = { 0, 0 };
    uint64_t x = 99;

    for (int i = 0; i < 20000; i++) {
        mrd_align_cursor fresh = { 0, 0 };
        mrd_align_bound b1, b2;
        mrd_sess_ns s1, s2;
        mrd_local_ns at;

        x = x * 6364136223846793005u + 1442695040888963407u;
        at.ns = (int64_t) (x >> 29);
        CHECK(mrd_align_map(a, &c, at, &s1, &b1) && mrd_align_map(a, &fresh, at, &s2, &b2));
        CHECK(s1.ns == s2.ns && b1.lo.ns == b2.lo.ns && b1.hi.ns == b2.hi.ns);
    }
    mrd_align_free(a);
}

/* The grid (align_grid.h) interpolates the table. Its times must differ from the table by at most 1
 * ns and keep their order, and its error radius must not be smaller. The result must not depend on
 * earlier reads. */
TEST(grid_follows_the_table)
{
    static const double jumps[] = { 0, 1e6, -1e6, 5e9, -5e9 };

    for (size_t j = 0; j < MRD_COUNT(jumps); j++) {
        mrd_align *a = two_epochs(1000000000000000000LL, jumps[j]);
        mrd_align_cursor c = { 0, 0 };
        mrd_align_grid g = { 0 };
        mrd_sess_ns last = { INT64_MIN };

        for (int64_t t = -3 * MRD_SEC; t < 30 * MRD_SEC; t += 7654321) {
            mrd_align_grid fresh = { 0 };
            mrd_sess_ns exact, s, again;
            mrd_align_bound b;
            uint32_t radius, other;

            REQUIRE(mrd_align_map(a, &c, (mrd_local_ns){ t }, &exact, &b));
            REQUIRE(mrd_align_grid_map(a, &g, (mrd_local_ns){ t }, &s, &radius));
            REQUIRE(mrd_align_grid_map(a, &fresh, (mrd_local_ns){ t }, &again, &other));
            CHECK(s.ns - exact.ns <= 1 && exact.ns - s.ns <= 1);
            CHECK(radius >= mrd_align_radius(s, &b));
            CHECK(s.ns >= last.ns && s.ns == again.ns && radius == other);
            last = s;
        }
        mrd_align_free(a);
    }
}

/* ---- Random tables ---- */

#define DRAWN_SEGMENTS 5u
#define DRAWN_BINS     3u

static uint64_t
draw(uint64_t *x, uint64_t n)
{
    *x = *x * 6364136223846793005u + 1442695040888963407u;
    return (*x >> 33) % n;
}

typedef struct {
    mrd_align *all, *alone[DRAWN_SEGMENTS]; /* the table, and a table for each of its segments */
    size_t n;
    int64_t edges[DRAWN_SEGMENTS *
                  /* times at which another rule gives the result: borders of bins, segments and
                   * gaps */
                  (DRAWN_BINS + 2)];
    size_t n_edges;
} drawn_table;

static void
drawn_bin(drawn_table *d, const mrd_align_bin *b)
{
    CHECK(mrd_align_bin_add(d->all, b) == MRD_OK);
    CHECK(mrd_align_bin_add(d->alone[d->n], b) == MRD_OK);
    d->edges[d->n_edges++] = b->at.ns;
}

/* Draws segments of one to three bins at the middles of half seconds, as the solver makes them.
 * Their evidence ends before or after the last bin. Gaps last from 1 ns to seconds, and offsets
 * step in either direction. */
static void
drawn_table_new(drawn_table *d, uint64_t *x)
{
    int64_t at = 0, to = 0;

    *d = (drawn_table){ .all = mrd_align_new("node-a", 42) };
    for (size_t left = 1 + draw(x, DRAWN_SEGMENTS); left > 0; left--, d->n++) {
        double est = ((double) draw(x, 2000001) - 1e6) * (draw(x, 2) == 0 ? 1 : 5000);
        int64_t from, base = 1000000000000000000LL;

        d->alone[d->n] = mrd_align_new("node-a", 42);
        CHECK(mrd_align_segment_add(d->all, (uint32_t) d->n, MRD_EPOCH_SUSPEND, base, 200) ==
              MRD_OK);
        CHECK(mrd_align_segment_add(d->alone[d->n], (uint32_t) d->n, MRD_EPOCH_SUSPEND, base,
                                    200) == MRD_OK);
        at += 500 * MRD_MS * (int64_t) (1 + draw(x, 4));
        from = at - 250 * MRD_MS + (int64_t) draw(x, 500 * MRD_MS);
        if (from <= to)
            from = to + 1 + (int64_t) draw(x, 30 * MRD_MS);
        for (size_t k = 1 + draw(x, DRAWN_BINS);; k--) {
            mrd_align_bin b = bin_at(at, est, 1500, 0);

            drawn_bin(d, &b);
            est += (double) draw(x, 40); /* as the rates say */
            to = at - 250 * MRD_MS + (int64_t) draw(x, 500 * MRD_MS);
            if (k == 1)
                break;
            at += 500 * MRD_MS * (int64_t) (1 + draw(x, 3));
        }
        to = to < from ? from : to;
        CHECK(mrd_align_segment_extent(d->all, from, to) == MRD_OK);
        CHECK(mrd_align_segment_extent(d->alone[d->n], from, to) == MRD_OK);
        d->edges[d->n_edges++] = from;
        d->edges[d->n_edges++] = to;
    }
}

static void
drawn_table_free(drawn_table *d)
{
    mrd_align_free(d->all);
    for (size_t i = 0; i < d->n; i++)
        mrd_align_free(d->alone[i]);
}

/* Checks one mapped time. Within the measured time of a segment, and before the first or after the
 * last one, the result must be that of the segment alone. Between two segments it must agree with
 * both. */
static void
check_place(const drawn_table *d, int64_t at, mrd_sess_ns got, const mrd_align_bound *b)
{
    const int64_t slack =
        /* difference between a bound from one bin and one between two bins: 200 ppb/s (1.5 s)^2
         * / 8 */
        60;
    size_t i = 0;

    while (i + 1 < d->n && at > mrd_align_borrow_segment(d->all, i)->to.ns)
        i++;
    for (size_t k = i > 0 && at < mrd_align_borrow_segment(d->all, i)->from.ns ? i - 1 : i; k <= i;
         k++) {
        mrd_align_cursor c = { 0, 0 };
        mrd_align_bound own;
        mrd_sess_ns s;

        REQUIRE(mrd_align_map(d->alone[k], &c, (mrd_local_ns){ at }, &s, &own));
        CHECK(b->lo.ns <= own.lo.ns + slack && b->hi.ns >= own.hi.ns - slack);
        if (k == i && at >= mrd_align_borrow_segment(d->all, i)->from.ns)
            CHECK_INT(got.ns, s.ns > mrd_align_borrow_segment(d->all, i)->floor
                                  ? s.ns
                                  : mrd_align_borrow_segment(d->all, i)->floor);
    }
}

static int
by_time(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

/* For random segments, a later local time must never get an earlier session time. Each result must
 * come from the nearest segments, and the grid must give the same result. */
TEST(drawn_tables_keep_order_and_bounds)
{
    uint64_t x = test_seed();

    for (int round = 0; round < 3000 && test_failures == 0; round++) {
        int64_t times[400];
        mrd_align_cursor c = { 0, 0 };
        mrd_align_grid g = { 0 };
        mrd_sess_ns last = { INT64_MIN }, last_grid = last;
        drawn_table d;

        drawn_table_new(&d, &x);
        for (size_t i = 0; i < MRD_COUNT(times); i++)
            times[i] = i % 2 == 0 ? (int64_t) draw(&x, 28000) * MRD_MS - MRD_SEC
                                  : d.edges[draw(&x, d.n_edges)] + (int64_t) draw(&x, 5) - 2;
        qsort(times, MRD_COUNT(times), sizeof(times[0]), by_time);
        for (size_t i = 0; i < MRD_COUNT(times); i++) {
            mrd_sess_ns s, near;
            mrd_align_bound b;
            uint32_t radius;

            REQUIRE(mrd_align_map(d.all, &c, (mrd_local_ns){ times[i] }, &s, &b));
            REQUIRE(mrd_align_grid_map(d.all, &g, (mrd_local_ns){ times[i] }, &near, &radius));
            CHECK(s.ns >= last.ns);
            CHECK(b.lo.ns <= s.ns && s.ns <= b.hi.ns);
            check_place(&d, times[i], s, &b);
            CHECK(near.ns >= last_grid.ns);
            CHECK(near.ns - s.ns <= 1 && s.ns - near.ns <= 1);
            CHECK(radius >= mrd_align_radius(near, &b));
            last = s;
            last_grid = near;
        }
        drawn_table_free(&d);
    }
}

TEST(grid_of_a_constant_table_is_exact)
{
    mrd_align *a = mrd_align_constant("node-a", 42, 1000000007, 0, 0);
    mrd_align_grid g = { 0 };
    uint32_t radius;
    mrd_sess_ns s;

    for (int64_t t = -MRD_SEC; t < 25 * MRD_SEC; t += 123456789) {
        REQUIRE(mrd_align_grid_map(a, &g, (mrd_local_ns){ t }, &s, &radius));
        CHECK_INT(s.ns, t + 1000000007);
        CHECK_INT(radius, 0);
    }
    REQUIRE(mrd_align_grid_map(a, &g, (mrd_local_ns){ INT64_MAX }, &s, &radius));
    mrd_align_free(a);
}

TEST(unmap_is_the_inverse)
{
    mrd_align *a = two_epochs(1000000000000000000LL, -2e6);
    mrd_align_cursor c = { 0, 0 };

    for (int64_t t = -MRD_SEC; t < 25 * MRD_SEC; t += 123456789) {
        mrd_sess_ns s, back;
        mrd_local_ns at;

        CHECK(mrd_align_map(a, &c, (mrd_local_ns){ t }, &s, NULL));
        CHECK(mrd_align_unmap(a, s, &at));
        CHECK(at.ns <= t);
        CHECK(mrd_align_map(a, &c, at, &back, NULL) && back.ns == s.ns);
        at.ns--;
        CHECK(mrd_align_map(a, &c, at, &back, NULL) && back.ns < s.ns);
    }
    mrd_align_free(a);
}

TEST(constant_and_wall)
{
    mrd_align *a = mrd_align_constant("n", 0, -500, -7, 9);
    mrd_align_cursor c = { 0, 0 };
    mrd_align_bound b, other;
    mrd_sess_ns s;

    REQUIRE(mrd_align_map(a, &c, (mrd_local_ns){ 3600 * MRD_SEC }, &s, &b));
    CHECK_INT(s.ns, 3600 * MRD_SEC - 500);
    CHECK_INT(b.lo.ns, s.ns - 7);
    CHECK_INT(b.hi.ns, s.ns + 9);
    CHECK_INT(b.quality, MRD_ALIGN_GOOD);
    mrd_align_free(a);

    a = mrd_align_wall("n", 0, (mrd_local_ns){ 1000 }, (mrd_wall_ns){ 1792000000000000000LL });
    REQUIRE(mrd_align_map(a, &c, (mrd_local_ns){ 2000 }, &s, &other));
    CHECK_INT(s.ns, 1792000000000001000LL);
    CHECK(other.lo.ns == INT64_MIN && other.hi.ns == INT64_MAX);
    CHECK_INT(other.quality, MRD_ALIGN_UNALIGNED);
    CHECK_INT(mrd_align_radius(s, &other), UINT32_MAX);
    mrd_align_free(a);
}

/* Updates the length and checksum in a table's file. */
static void
seal(mrd_buf *file)
{
    uint64_t len = file->len - 24;
    uint32_t crc = mrd_crc32(0, file->p + 24, len);

    memcpy(file->p + 12, &crc, 4);
    memcpy(file->p + 16, &len, 8);
}

TEST(refuses_bad_bins)
{
    mrd_align *a = mrd_align_new("n", 1);
    mrd_align_bin ok = bin_at(0, 0, 10, 0), bad;
    mrd_align_cursor c = { 0, 0 };
    mrd_sess_ns s;

    CHECK_ERR("no segment", mrd_align_bin_add(a, &ok), MRD_INVALID);
    CHECK(!mrd_align_map(a, &c, (mrd_local_ns){ 0 }, &s, NULL));
    CHECK_ERR("segment", mrd_align_segment_add(a, 0, MRD_EPOCH_START, 0, 200), MRD_OK);
    CHECK_ERR("first", mrd_align_bin_add(a, &ok), MRD_OK);
    CHECK_ERR("same time", mrd_align_bin_add(a, &ok), MRD_INVALID);
    bad = bin_at(1000, 600, 10, 0);
    CHECK_ERR("too fast", mrd_align_bin_add(a, &bad), MRD_INVALID);
    bad = bin_at(1000, 0, -10, 0);
    CHECK_ERR("lo > hi", mrd_align_bin_add(a, &bad), MRD_INVALID);
    bad = bin_at(1000, NAN, 10, 0);
    CHECK_ERR("nan", mrd_align_bin_add(a, &bad), MRD_INVALID);
    CHECK_ERR("w", mrd_align_segment_add(a, 0, MRD_EPOCH_START, 0, NAN), MRD_INVALID);
    CHECK_INT(mrd_align_bin_count(a), 1);
    mrd_align_free(a);
}

/* In a file with a right checksum any byte may change. Either it is refused with a reason, or the
 * table can be written and read back unchanged. An epoch of more than 32 bits and a segment without
 * bins are refused. */
TEST(changed_files_are_refused_or_whole)
{
    mrd_align *a = two_epochs(1000000000000000000LL, -3e6);
    mrd_buf one = { 0 };
    size_t refused = 0, taken = 0;

    CHECK_ERR("encode", mrd_align_encode(a, &one), MRD_OK);
    for (size_t at = 24; at < one.len; at++)
        for (int k = 0; k < 10; k++) {
            uint8_t was = one.p[at];
            mrd_align *b = NULL, *c = NULL;
            mrd_buf two = { 0 }, three = { 0 };
            mrd_why why = { 0 };
            mrd_err err;

            one.p[at] = (uint8_t) (k < 8 ? was ^ 1 << k : k == 8 ? 0 : 255);
            seal(&one);
            err = mrd_align_decode((mrd_bytes){ one.p, one.len }, &b, &why);
            one.p[at] = was;
            refused += err != MRD_OK;
            taken += err == MRD_OK;
            if (err != MRD_OK) {
                CHECK(b == NULL && why.text[0] != '\0');
                continue;
            }
            CHECK_ERR("encode", mrd_align_encode(b, &two), MRD_OK);
            CHECK_ERR("again", mrd_align_decode((mrd_bytes){ two.p, two.len }, &c, &why), MRD_OK);
            CHECK_ERR("encode", mrd_align_encode(c, &three), MRD_OK);
            CHECK(two.len == three.len && memcmp(two.p, three.p, two.len) == 0);
            mrd_buf_fini(&two);
            mrd_buf_fini(&three);
            mrd_align_free(b);
            mrd_align_free(c);
        }
    CHECK(refused > 100 && taken > 100);
    mrd_buf_fini(&one);
    mrd_align_free(a);
}

/* Tests the limits of two numbers in an alignment file: the number of bins and the epoch of the
 * first segment. */
TEST(counts_of_a_file_at_their_limits)
{
    static const struct {
        const char *name;
        uint64_t epoch, bins;
        mrd_err err;
    } rows[] = {
        { "as it is", 7, 1, MRD_OK },
        { "the last epoch", UINT32_MAX, 1, MRD_OK },
        { "an epoch too many", (uint64_t) UINT32_MAX + 1, 1, MRD_CORRUPT },
        { "an epoch that comes round to 7", ((uint64_t) 1 << 32) + 7, 1, MRD_CORRUPT },
        { "no bin", 7, 0, MRD_CORRUPT },
        { "more bins than bytes", 7, (uint64_t) 1 << 40, MRD_CORRUPT },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_align *a = mrd_align_new("n", 1), *b = NULL;
        mrd_align_bin bin = bin_at(0, 0, 10, 0);
        mrd_buf plain = { 0 }, file = { 0 };
        size_t at = 24 + 1 + 1 + 8 + 1, rest; /* header, name, clock, number of segments */

        CHECK_ERR("segment", mrd_align_segment_add(a, 7, MRD_EPOCH_START, 0, 200), MRD_OK);
        CHECK_ERR("bin", mrd_align_bin_add(a, &bin), MRD_OK);
        CHECK_ERR("encode", mrd_align_encode(a, &plain), MRD_OK);
        CHECK_INT(plain.p[at], 7);
        rest = at + 1 + 1 + 8 + 8 + 8 + 8; /* epoch, cause, base, w, extent */
        CHECK_INT(plain.p[rest], 1);
        mrd_buf_add(&file, plain.p, at);
        mrd_put_varint(&file, rows[i].epoch);
        mrd_buf_add(&file, plain.p + at + 1, rest - at - 1);
        mrd_put_varint(&file, rows[i].bins);
        mrd_buf_add(&file, plain.p + rest + 1, plain.len - rest - 1);
        seal(&file);
        CHECK_ERR(rows[i].name, mrd_align_decode((mrd_bytes){ file.p, file.len }, &b, NULL),
                  rows[i].err);
        mrd_buf_fini(&plain);
        mrd_buf_fini(&file);
        mrd_align_free(a);
        mrd_align_free(b);
    }
}

/* A bin's members are accepted up to their limits, and refused beyond them. */
TEST(bins_at_their_limits)
{
    static const double far = 4503599627370496.0; /* 2^52 */
    static const struct {
        const char *name;
        double lo, hi;
        float rate_lo, rate_hi, noise;
        mrd_err err;
    } rows[] = {
        { "plain", -10, 10, 0, 0, 1, MRD_OK },
        { "a point", 10, 10, 0, 0, 1, MRD_OK },
        { "the wrong way round", 11, 10, 0, 0, 1, MRD_INVALID },
        { "hi at the limit", 0, far, 0, 0, 1, MRD_INVALID },
        { "hi below it", far - 100, far - 1, 0, 0, 1, MRD_OK },
        { "lo at the limit", -far, 0, 0, 0, 1, MRD_INVALID },
        { "lo above it", 1 - far, 100 - far, 0, 0, 1, MRD_OK },
        { "both beyond it", far, far, 0, 0, 1, MRD_INVALID },
        { "a rate's point", 0, 10, 5, 5, 1, MRD_OK },
        { "rates the wrong way round", 0, 10, 6, 5, 1, MRD_INVALID },
        { "the highest rate", 0, 10, 0, 2 * MRD_ALIGN_RATE_MAX, 1, MRD_OK },
        { "above it", 0, 10, 0, 2 * MRD_ALIGN_RATE_MAX + 1, 1, MRD_INVALID },
        { "the lowest rate", 0, 10, -2 * MRD_ALIGN_RATE_MAX, 0, 1, MRD_OK },
        { "below it", 0, 10, -2 * MRD_ALIGN_RATE_MAX - 1, 0, 1, MRD_INVALID },
        { "no noise", 0, 10, 0, 0, 0, MRD_OK },
        { "less noise", 0, 10, 0, 0, -1, MRD_INVALID },
        { "no number", 0, 10, 0, 0, NAN, MRD_INVALID },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_align *a = mrd_align_new("n", 1);
        mrd_align_bin b = bin_at(0, 0, 10, 0);

        CHECK_ERR("segment", mrd_align_segment_add(a, 0, MRD_EPOCH_START, 0, 200), MRD_OK);
        b.lo = rows[i].lo;
        b.hi = rows[i].hi;
        b.est = rows[i].lo;
        b.rate_lo = rows[i].rate_lo;
        b.rate_hi = rows[i].rate_hi;
        b.rate = rows[i].rate_lo;
        b.noise = rows[i].noise;
        CHECK_ERR(rows[i].name, mrd_align_bin_add(a, &b), rows[i].err);
        CHECK_INT(mrd_align_bin_count(a), rows[i].err == MRD_OK);
        mrd_align_free(a);
    }
}

/* The measured time of a segment must lie within a second of its first and last bin, and after the
 * previous segment. Every pair of times near these limits is compared with the rule in the
 * header. */
TEST(extents_at_their_limits)
{
    static const int64_t off[] = { -MRD_SEC - 1, -MRD_SEC, -1, 0, 1, MRD_SEC, MRD_SEC + 1 };
    const int64_t first = 10 * MRD_SEC, last = 11 * MRD_SEC;

    /* 0 for no previous segment, otherwise its distance from the first bin */
    for (int before = 0; before < 4; before++)
        for (size_t i = 0; i < MRD_COUNT(off); i++)
            for (size_t k = 0; k < MRD_COUNT(off); k++) {
                const int64_t end = first - MRD_SEC - 1 + before;
                int64_t from = first + off[i], to = last + off[k];
                bool fine = llabs(off[i]) <= MRD_SEC && llabs(off[k]) <= MRD_SEC && from <= to &&
                            (before == 0 || from > end);
                mrd_align *a = mrd_align_new("n", 1);
                mrd_align_bin b = bin_at(end - MRD_SEC / 2, 0, 10, 0);

                CHECK_ERR("nothing", mrd_align_segment_extent(a, 0, 0), MRD_INVALID);
                if (before > 0) {
                    CHECK_ERR("segment", mrd_align_segment_add(a, 0, MRD_EPOCH_START, 0, 200),
                              MRD_OK);
                    CHECK_ERR("no bin", mrd_align_segment_extent(a, 0, 0), MRD_INVALID);
                    CHECK_ERR("bin", mrd_align_bin_add(a, &b), MRD_OK);
                    CHECK_ERR("extent", mrd_align_segment_extent(a, b.at.ns, end), MRD_OK);
                }
                CHECK_ERR("segment", mrd_align_segment_add(a, 1, MRD_EPOCH_SUSPEND, 0, 200),
                          MRD_OK);
                b = bin_at(first, 0, 10, 0);
                CHECK_ERR("bin", mrd_align_bin_add(a, &b), MRD_OK);
                b = bin_at(last, 0, 10, 0);
                CHECK_ERR("bin", mrd_align_bin_add(a, &b), MRD_OK);
                CHECK_ERR("extent", mrd_align_segment_extent(a, from, to),
                          fine ? MRD_OK : MRD_INVALID);
                mrd_align_free(a);
            }
}

TEST(file_round_trip)
{
    mrd_align *a = two_epochs(1000000000000000000LL, -3e6), *b = NULL;
    mrd_buf one = { 0 }, two = { 0 };
    mrd_align_summary sum;
    mrd_why why;

    CHECK_ERR("encode", mrd_align_encode(a, &one), MRD_OK);
    REQUIRE(mrd_align_decode((mrd_bytes){ one.p, one.len }, &b, &why) == MRD_OK);
    CHECK_TEXT(mrd_align_name(b), "node-a");
    CHECK_INT(mrd_align_clock_id(b), 42);
    CHECK_ERR("again", mrd_align_encode(b, &two), MRD_OK);
    CHECK(one.len == two.len && memcmp(one.p, two.p, one.len) == 0);
    for (int64_t t = 0; t < 25 * MRD_SEC; t += 98765432) {
        mrd_align_cursor ca = { 0, 0 }, cb = { 0, 0 };
        mrd_align_bound ba, bb;
        mrd_sess_ns sa, sb;

        CHECK(mrd_align_map(a, &ca, (mrd_local_ns){ t }, &sa, &ba));
        CHECK(mrd_align_map(b, &cb, (mrd_local_ns){ t }, &sb, &bb));
        CHECK(sa.ns == sb.ns && ba.lo.ns == bb.lo.ns && ba.hi.ns == bb.hi.ns);
    }
    REQUIRE(mrd_align_summarise(b, 1, &sum));
    CHECK_INT(sum.width_median, 3000);
    CHECK_INT(sum.bins, 10);
    CHECK_INT(sum.cause, MRD_EPOCH_CONTRADICTION);
    CHECK(!mrd_align_summarise(b, 2, &sum));
    mrd_align_free(a);
    mrd_align_free(b);
    mrd_buf_fini(&one);
    mrd_buf_fini(&two);
}

/* Decodes each prefix of a file, and the file with each bit flipped. The result is an error, never
 * a table. The input is in a block of exactly its size, so that a sanitizer detects a read after
 * it. */
TEST(file_refuses_damage)
{
    mrd_align *a = two_epochs(0, 1e6), *b = NULL;
    mrd_buf buf = { 0 };
    mrd_why why;

    CHECK_ERR("encode", mrd_align_encode(a, &buf), MRD_OK);
    for (size_t n = 0; n < buf.len; n++) {
        uint8_t *exact = malloc(n == 0 ? 1 : n);

        memcpy(exact, buf.p, n);
        CHECK_ERR("cut", mrd_align_decode((mrd_bytes){ exact, n }, &b, &why), MRD_TRUNCATED);
        free(exact);
        buf.p[n] ^= 0x41;
        CHECK(mrd_align_decode((mrd_bytes){ buf.p, buf.len }, &b, &why) != MRD_OK);
        buf.p[n] ^= 0x41;
    }
    CHECK(b == NULL);
    mrd_align_free(a);
    mrd_buf_fini(&buf);
}

TEST(file_on_disk)
{
    char path[512];
    mrd_align *a = two_epochs(0, 0), *b = NULL;
    mrd_why why;

    snprintf(path, sizeof(path), "%s/x/align.mra", test_tmp());
    CHECK_ERR("save", mrd_align_save(a, path, &why), MRD_OK);
    CHECK_ERR("load", mrd_align_load(path, &b, &why), MRD_OK);
    CHECK_INT(mrd_align_bin_count(b), 21);
    strcat(path, "-absent");
    mrd_align_free(b);
    b = NULL;
    CHECK_ERR("absent", mrd_align_load(path, &b, &why), MRD_NOTFOUND);
    mrd_align_free(a);
}

/* A packet that arrives at its sending time contradicts nothing. Each ns earlier is an error of the
 * estimate, and beyond its bound a violation. Only held-out packets are compared. */
TEST(a_packet_cannot_arrive_before_it_was_sent)
{
    enum { BOUND = 40 };
    static const struct {
        int64_t early; /* ns by which the packet arrives before it was sent, by the true offset */
        unsigned reversed, violations;
    } rows[] = { { -1, 0, 0 }, { 0, 0, 0 }, { 1, 1, 0 }, { BOUND, 1, 0 }, { BOUND + 1, 1, 1 } };
    mrd_align *a = mrd_align_constant("node", 1, 5000, -BOUND, BOUND);

    for (size_t i = 0; i < MRD_COUNT(rows); i++)
        for (int up = 0; up < 2; up++) {
            mrd_probe p = { .a1 = 1000, .r2 = 6000, .r3 = 6000, .a4 = 1000, .held_out = true };
            mrd_follow_report report = { .checked = 0 };
            int64_t early = rows[i].early;

            p.up = up == 1;
            p.down = up == 0;
            p.r2 -= early;
            p.a4 -= early;
            mrd_follow_check(a, &p, 1, &report);
            CHECK_INT(report.checked, 1);
            CHECK_INT(report.reversed, rows[i].reversed);
            CHECK_INT(report.reversed_max, early > 0 ? early : 0);
            CHECK_INT(report.violations, rows[i].violations);
            p.held_out = false;
            mrd_follow_check(a, &p, 1, &report);
            CHECK_INT(report.checked, 1);
        }
    mrd_align_free(a);
}

TEST_MAIN()
