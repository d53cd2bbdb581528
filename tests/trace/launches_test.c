/* Tests the memory of launches (trace/analysis/launches.h), which finds the newest launches by
 * their numbers. The result is compared with a table of the last use of each number. Numbers are in
 * order, random over all 64 bits, and reused. */
#include "trace/analysis/launches.h"

#include <stdlib.h>

#include "tests/check.h"

#define NOTES   300000u
#define NUMBERS 90000u

typedef struct {
    const char *name;
    uint64_t step;    /* between two numbers */
    unsigned numbers; /* that there are */
    bool drawn;       /* else in turn */
} row;

static uint64_t seed;

static uint64_t
roll(uint64_t below)
{
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return (seed >> 33) % below;
}

static unsigned last[NUMBERS]; /* index of the launch that used the number, from 1; 0 for none */

/* Checks that exactly the newest MRD_LAUNCHES launches are remembered, each number with its last
 * use. */
static void
check_all(const row *r, const mrd_launches *l, unsigned noted)
{
    unsigned wrong = 0;

    for (unsigned k = 0; k < r->numbers; k++) {
        const mrd_ev_ns *at = mrd_launches_find(l, k * r->step);
        bool known = last[k] != 0 && noted - last[k] < MRD_LAUNCHES;

        wrong += known != (at != NULL) || (at != NULL && at->ns != (int64_t) last[k]);
    }
    CHECK_ROW(r->name, wrong == 0);
}

TEST(the_newest_are_remembered_and_no_others)
{
    static const row rows[] = {
        { "in turn", 1, NUMBERS, false },
        { "few, again and again", 1, 3, false },
        { "drawn", 1, NUMBERS, true },
        { "multiples of 65,536", MRD_LAUNCHES, NUMBERS, true },
        { "equal in their lower halves", 1ull << 32, NUMBERS, true },
        { "over all 64 bits", 0x9e3779b97f4a7c15ull, NUMBERS, true },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const row *r = &rows[i];
        mrd_launches *l = mrd_launches_new();

        CHECK(l != NULL);
        memset(last, 0, sizeof(last));
        seed = i + 1;
        for (unsigned n = 1; l != NULL && n <= NOTES; n++) {
            unsigned k = (unsigned) (r->drawn ? roll(r->numbers) : n % r->numbers);

            CHECK_ERR(r->name, mrd_launches_note(l, k * r->step, (mrd_ev_ns){ n }), MRD_OK);
            last[k] = n;
            if (n == 1 || n == 1000 || n % 60000 == 0 || n == MRD_LAUNCHES || n == MRD_LAUNCHES + 1)
                check_all(r, l, n);
        }
        mrd_launches_free(l);
    }
}

TEST_MAIN()
