#include "trace/model/lanes.h"

#include "tests/trace/events.h"

/* Returns true if the spans may be in one lane: they are separate, or one contains the other. */
static bool
nest(const mrd_event *a, const mrd_event *b) /* a comes before b in order */
{
    return !mrd_ev_after(mrd_event_end(a), b->ts) ||
           !mrd_ev_before(mrd_event_end(a), mrd_event_end(b));
}

static void
make_spans(mrd_event *v, size_t n, uint64_t seed, int64_t range, int64_t longest)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t r = test_rand(&seed);

        v[i] = (mrd_event){ .kind = MRD_SPAN,
                            .ts = { (int64_t) (r % (uint64_t) range) },
                            .dur_ns = (int64_t) ((r >> 32) % (uint64_t) longest),
                            .seq = i };
        if (longest > 40 && r % 53 == 0)
            v[i].dur_ns = MRD_DUR_UNFINISHED;
    }
    qsort(v, n, sizeof(*v), test_compare);
}

/* Returns the lane of span i by the definition in lanes.h: the first lane in which the span nests
 * with all earlier spans. Compares with every earlier span, which is slow but simple. */
static uint32_t
brute_lane(const mrd_event *v, const uint32_t *lane, size_t i)
{
    for (uint32_t l = 0;; l++) {
        bool fits = true;

        for (size_t k = 0; k < i && fits; k++)
            fits = lane[k] != l || nest(&v[k], &v[i]);
        if (fits)
            return l;
    }
}

static void
check_against_brute(uint64_t seed, size_t n, int64_t range, int64_t longest)
{
    mrd_event *v = calloc(n, sizeof(*v));
    uint32_t *lane = calloc(n, sizeof(*lane));
    mrd_lanes *lanes = mrd_lanes_new(1);

    make_spans(v, n, seed, range, longest);
    for (size_t i = 0; i < n; i++) {
        uint32_t want = brute_lane(v, lane, i);

        lane[i] = mrd_lanes_put(lanes, &v[i]);
        if (lane[i] != want)
            CHECK_INT(lane[i], want);
    }
    CHECK_ERR("lanes", mrd_lanes_err(lanes), MRD_OK);
    mrd_lanes_free(lanes);
    free(lane);
    free(v);
}

TEST(every_lane_nests_and_is_the_first_that_does)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        check_against_brute(seed * 77, 300, 1000, 30);  /* few lanes */
        check_against_brute(seed * 99, 300, 300, 200);  /* dozens: through the tree */
        check_against_brute(seed * 13, 200, 20, 10000); /* nearly all open at once */
        check_against_brute(seed * 31, 300, 9000, 50);  /* mostly free */
    }
}

TEST(equal_lengths_take_as_many_lanes_as_overlap)
{
    for (int64_t dur = 1; dur < 300; dur = dur * 3 + 1) {
        mrd_lanes *lanes = mrd_lanes_new(0);
        mrd_event v[500];
        size_t most = 0, used = 0;

        make_spans(v, 500, 4242 + (uint64_t) dur, 1000000, 1);
        for (size_t i = 0; i < 500; i++) {
            v[i].ts = (mrd_ev_ns){ v[i].ts.ns / 500 +
                                   (int64_t) i }; /* distinct starts: none contains another */
            v[i].dur_ns = dur;
        }
        for (size_t i = 0; i < 500; i++) {
            size_t open = 0, lane;

            for (size_t k = 0; k <= i; k++)
                open += mrd_ev_after(mrd_event_end(&v[k]), v[i].ts);
            most = open > most ? open : most;
            lane = mrd_lanes_put(lanes, &v[i]);
            used = lane + 1 > used ? lane + 1 : used;
        }
        CHECK_INT(used, most);
        mrd_lanes_free(lanes);
    }
}

TEST(touching_spans_and_equal_spans_share_a_lane)
{
    static const mrd_event v[] = {
        { .kind = MRD_SPAN, .ts = { 0 }, .dur_ns = 10 },
        { .kind = MRD_SPAN, .ts = { 0 }, .dur_ns = 10 },
        { .kind = MRD_SPAN, .ts = { 10 }, .dur_ns = 5 },
        { .kind = MRD_SPAN, .ts = { 15 } },
        { .kind = MRD_INSTANT, .ts = { 15 } },
        { .kind = MRD_SPAN, .ts = { 15 } },
    };
    mrd_lanes *lanes = mrd_lanes_new(1);

    for (size_t i = 0; i < MRD_COUNT(v); i++)
        CHECK_INT(mrd_lanes_put(lanes, &v[i]), 0);
    mrd_lanes_free(lanes);
}

TEST(depth_is_limited_and_tracks_are_apart)
{
    mrd_lanes *lanes = mrd_lanes_new(1);
    mrd_event ev = { .kind = MRD_SPAN };

    for (int i = 0; i < 2 * MRD_LANE_DEPTH_MAX; i++) {
        ev.ts = (mrd_ev_ns){ i };
        ev.dur_ns = 100000 - 2 * i;
        CHECK_INT(mrd_lanes_put(lanes, &ev), i / MRD_LANE_DEPTH_MAX);
    }
    ev.track = 1000;
    CHECK_INT(mrd_lanes_put(lanes, &ev), 0);
    mrd_lanes_free(lanes);
}

TEST_MAIN()
