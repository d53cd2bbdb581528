/* Tests which collectives of different processes are matched. Jobs have regular or irregular
 * intervals. One process may lack the first collective and the others the last, so that a match by
 * count is wrong by one. An accepted match must be true. Jobs that can be decided must be accepted,
 * and all others refused. */
#include "tests/check.h"
#include "tests/timesync/rng.h"

#include "timesync/collective/collective.h"

#include <math.h>

enum { RANKS = 4, ENDS = 40 };

/* Whether operation and size distinguish collectives: all are equal, they repeat in a cycle, or each
 * is unique. */
typedef enum { ALIKE, CYCLE, DISTINCT, KINDS } kinds;

typedef struct {
    bool regular, shifted, numbered, leave_out;
    kinds kind;
    mrd_dur_ns trust;
    /* index of the collective that the last process missed instead of the first; 0 for none */
    int hole;
    double step; /* ns that its clock was set ahead in the middle */
    double offset[RANKS], ppm[RANKS];
    mrd_coll_obs obs[RANKS * ENDS];
    size_t n;
} job;

#define BASE (1700000000LL * MRD_SEC)

static int64_t
local_of(const job *j, int rank, double t)
{
    bool late = rank == RANKS - 1 && t > 1e9 * (ENDS / 2 + 0.5);

    return BASE + llround(t * (1 + j->ppm[rank] * 1e-6) + j->offset[rank] + (late ? j->step : 0));
}

static void
draw(rng *r, job *j)
{
    j->n = 0;
    for (int p = 0; p < RANKS; p++) {
        j->offset[p] = rng_between(r, -40e6, 40e6);
        j->ppm[p] = rng_between(r, -50, 50);
    }
    for (int i = 0; i < ENDS; i++) {
        double end = 1e9 * (i + 1 + (j->regular ? 0 : rng_between(r, -0.2, 0.2)));
        uint64_t mixed = rng_next(r) % 1000;

        for (int p = 0; p < RANKS; p++) {
            bool missed = j->shifted && (p == RANKS - 1 ? i == j->hole : i == ENDS - 1);

            if (missed)
                continue;
            j->obs[j->n++] =
                (mrd_coll_obs){ .process = (uint32_t) p,
                                .group = 5,
                                .op = j->kind == CYCLE ? (uint32_t) (i % 3) : 1,
                                .size = j->kind == DISTINCT ? (int64_t) mixed : 64,
                                .seq = j->numbered ? i : -1,
                                .lasting = j->numbered,
                                .begin = { local_of(j, p, end - rng_between(r, 5e4, 2e6)) },
                                .end = { local_of(j, p, end + rng_between(r, 0, 5e3)) } };
        }
    }
}

/* Returns true if every bound contains the true time. */
static bool
is_true(const job *j, const mrd_coll_solution *s)
{
    bool ok = true;

    for (int p = 0; p < RANKS; p++) {
        mrd_align *a = mrd_coll_align(s, (size_t) p, "r");
        mrd_align_cursor c = { 0, 0 };

        for (int i = 0; a != NULL && i <= 40; i++) {
            double t = 1e9 * (1 + (ENDS - 1) * i / 40.0);
            int64_t local = local_of(j, p, t), truth = local_of(j, (int) s->reference, t);
            mrd_align_bound b;
            mrd_sess_ns at;

            if (mrd_coll_knows(&s->process[p], local) &&
                mrd_align_map(a, &c, (mrd_local_ns){ local }, &at, &b))
                ok = ok && b.lo.ns <= truth + 1 && truth - 1 <= b.hi.ns;
        }
        mrd_align_free(a);
    }
    return ok;
}

static mrd_err
solve(const job *j, bool *ret_true, mrd_why *why)
{
    mrd_coll_options options = { .trust_ns = j->trust, .leave_out = j->leave_out };
    mrd_coll_match *m = NULL;
    mrd_coll_solution s = { 0 };
    mrd_err err = mrd_coll_match_new(j->obs, j->n, RANKS, NULL, 0, &options, &m, why);

    *ret_true = false;
    if (err == MRD_OK && (err = mrd_coll_solve(m, &options, &s, why)) == MRD_OK) {
        *ret_true = is_true(j, &s);
        mrd_coll_solution_fini(&s);
    }
    mrd_coll_match_free(m);
    return err;
}

/* Returns the number of matching positions that the message of a refusal states. 0 means another
 * reason. */
static int
places_of(const mrd_why *why)
{
    const char *at = strstr(why->text, " fit as well ");
    int n = 0;

    return at != NULL && sscanf(at, " fit as well %d places ", &n) == 1 ? n : 0;
}

TEST(pairs_are_true_or_refused)
{
    const uint64_t first = rng_seed();
    size_t ambiguous = 0, accepted = 0;

    for (uint64_t seed = first; seed < first + 30; seed++) {
        for (unsigned what = 0; what < 8 * 4 * KINDS; what++) {
            rng r = rng_new(seed);
            static job j;
            mrd_why why = { 0 };
            bool is_right, told;
            mrd_err err;
            char row[100];

            j = (job){ .regular = what % 2 == 0,
                       .shifted = what / 2 % 2 != 0,
                       .numbered = what / 4 % 2 != 0,
                       .trust = what / 8 % 2 != 0 ? 100 * MRD_MS : 0,
                       .leave_out = what / 16 % 2 != 0,
                       .kind = (kinds) (what / 32) };
            draw(&r, &j);
            snprintf(row, sizeof(row), "seed %d%s%s%s%s%s kinds %d", (int) seed,
                     j.regular ? " regular" : "", j.shifted ? " shifted" : "",
                     j.numbered ? " numbered" : "", j.trust > 0 ? " trust" : "",
                     j.leave_out ? " leave out" : "", (int) j.kind);
            err = solve(&j, &is_right, &why);
            CHECK_ROW(row, err == MRD_OK ? is_right : err == MRD_CLOCK && why.text[0] != '\0');
            /* Each of these is sufficient to match the collectives: sequence numbers, unique
             * operations, irregular intervals, and trusted clocks. */
            told = j.numbered || j.kind == DISTINCT || !j.regular || j.trust > 0;
            if (told && (!j.shifted || j.leave_out))
                CHECK_ROW(row, err == MRD_OK);
            if (j.regular && j.shifted && !told && j.kind == ALIKE)
                CHECK_ROW(row, err == MRD_CLOCK);
            /* otherwise the operations differ from the first collective on */
            if (!told && (!j.shifted || j.kind == ALIKE)) {
                int places = places_of(&why);

                CHECK_ROW(row, err == MRD_CLOCK);
                CHECK_ROW(why.text, places > 0 && places <= (j.leave_out ? 2 * ENDS : ENDS / 2));
                CHECK_ROW(why.text, j.kind != CYCLE || places % 3 == 0);
                ambiguous++;
            }
            accepted += err == MRD_OK;
        }
    }
    CHECK(ambiguous == 180 && accepted > 1000);
}

/* A missing collective in the middle of a process looks like a clock that was set by one interval,
 * so the job must be refused. If the clock was set by another amount, or if the collectives have
 * numbers, the job must be aligned. */
TEST(a_hole_is_no_step)
{
    const uint64_t first = rng_seed();
    size_t followed = 0, refused = 0;

    for (uint64_t seed = first; seed < first + 40; seed++) {
        for (unsigned what = 0; what < 16; what++) {
            rng r = rng_new(seed);
            static job j;
            mrd_why why = { 0 };
            bool is_right, is_step = what % 2 != 0;
            mrd_err err;
            char row[100];

            j = (job){ .regular = what / 2 % 2 != 0,
                       .numbered = what / 4 % 2 != 0,
                       .leave_out = what / 8 != 0,
                       .shifted = !is_step,
                       .hole = ENDS / 2 + 1,
                       .step = is_step ? rng_between(&r, 0.2e9, 0.4e9) : 0,
                       .trust = is_step ? 600 * MRD_MS : 0 };
            draw(&r, &j);
            snprintf(row, sizeof(row), "seed %d%s%s%s", (int) seed, j.regular ? " regular" : "",
                     j.numbered ? " numbered" : "", is_step ? " step" : " hole");
            err = solve(&j, &is_right, &why);
            CHECK_ROW(row, err == MRD_OK ? is_right : err == MRD_CLOCK && why.text[0] != '\0');
            CHECK_ROW(why.text, err == MRD_OK || !(is_step || j.numbered));
            if (!is_step && j.regular && !j.numbered && !j.leave_out) {
                CHECK_ROW(row, strstr(why.text, "of process 3 its clock was stepped by ") != NULL);
                CHECK_ROW(row, strstr(why.text, " ns, or 1 collectives are missing") != NULL);
                refused++;
            }
            followed += err == MRD_OK && is_step;
        }
    }
    CHECK_INT(refused, 40);
    CHECK_INT(followed, 8 * 40);
}

TEST_MAIN()
