#include "sim/simclock.h"

#include "tests/check.h"

static const struct {
    const char *text;
    int64_t at_ns; /* true time */
    mrd_dur_ns want;
} deltas[] = {
    { "", 5 * MRD_SEC, 0 },
    { "offset=5ms", 5 * MRD_SEC, 5 * MRD_MS },
    { "offset=-300us", 1, -300 * MRD_US },
    { "ppm=20", 10 * MRD_SEC, 200 * MRD_US },
    { "ppm=-0.5,epoch=1000000000", 3 * MRD_SEC, -1 * MRD_US },
    { "ppm=0.000001", 1000000 * MRD_SEC, 1 * MRD_US },
    { "wander=100us/60s", 15 * MRD_SEC, 100 * MRD_US },
    { "wander=100us/60s", 45 * MRD_SEC, -100 * MRD_US },
    { "step=2ms@10s", 10 * MRD_SEC - 1, 0 },
    { "step=2ms@10s", 10 * MRD_SEC, 2 * MRD_MS },
    { "step=2ms@10s,step=-1ms@20s", 21 * MRD_SEC, 1 * MRD_MS },
    { "wallstep=2ms@10s", 21 * MRD_SEC, 0 },
    { "offset=1s,ppm=100000", 100 * MRD_SEC, 11 * MRD_SEC },
    /* Nothing overflows far from the epoch: 50 years at 1 ppm. */
    { "ppm=1", 1577836800 * MRD_SEC, 1577836800 * MRD_US },
};

TEST(simclock_deltas)
{
    for (size_t i = 0; i < MRD_COUNT(deltas); i++) {
        mrd_simclock clock;

        CHECK_ERR(deltas[i].text, mrd_simclock_parse(deltas[i].text, &clock, NULL), MRD_OK);
        CHECK_INT(mrd_simclock_delta(&clock, deltas[i].at_ns), deltas[i].want);
        CHECK_INT(mrd_simclock_local(&clock, deltas[i].at_ns).ns, deltas[i].at_ns + deltas[i].want);
    }
}

TEST(simclock_wall_step_moves_only_the_wall)
{
    mrd_simclock clock;

    CHECK_ERR("", mrd_simclock_parse("offset=1us,wallstep=2ms@10s", &clock, NULL), MRD_OK);
    CHECK_INT(mrd_simclock_local(&clock, 11 * MRD_SEC).ns, 11 * MRD_SEC + MRD_US);
    CHECK_INT(mrd_simclock_wall(&clock, 11 * MRD_SEC, 1700000000 * MRD_SEC).ns,
              1700000000 * MRD_SEC + 2 * MRD_MS + MRD_US);
}

static const struct {
    const char *text;
    mrd_err want;
    const char *says;
} bad[] = {
    { "offset", MRD_SYNTAX, "offset" },
    { "offset=", MRD_SYNTAX, "offset=" },
    { "offset=5parsecs", MRD_SYNTAX, "5parsecs" },
    { "drift=5ms", MRD_UNSUPPORTED, "drift" },
    { "offset=1ms,offset=2ms", MRD_EXISTS, "offset" },
    { "ppm=200000", MRD_RANGE, "200000" },
    { "wander=1ms", MRD_SYNTAX, "wander" },
    { "wander=1ms/0s", MRD_RANGE, "wander" },
    { "step=1ms", MRD_SYNTAX, "step" },
    { "step=1ms@-1s", MRD_RANGE, "step" },
    { "offset=1ms,", MRD_SYNTAX, "comma" },
    { ",", MRD_SYNTAX, "" },
};

TEST(simclock_refuses)
{
    for (size_t i = 0; i < MRD_COUNT(bad); i++) {
        mrd_simclock clock = { .offset_ns = 77 };
        mrd_why why = { 0 };

        CHECK_ERR(bad[i].text, mrd_simclock_parse(bad[i].text, &clock, &why), bad[i].want);
        CHECK_ROW(bad[i].text, strstr(why.text, bad[i].says) != NULL);
        CHECK_INT(clock.offset_ns, 77);
    }
}

TEST_MAIN()
