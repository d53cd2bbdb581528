/*
 * Tests operations on feasible sets (the offsets and rates of a clock that its packets allow). The
 * results are compared with those for random points. Every failing case prints its seed, and
 * MRD_SEED=n repeats it.
 */
#include "tests/check.h"
#include "tests/timesync/rng.h"

#include "timesync/feasible.h"

#include <math.h>

static mrd_poly
random_poly(rng *r)
{
    mrd_poly p;
    double x = rng_between(r, -1e6, 1e6), y = rng_between(r, -4e5, 4e5);

    mrd_poly_box(&p, x, x + rng_between(r, 1, 5e4), y, y + rng_between(r, 1, 2e4));
    for (int i = 0; i < 12; i++) {
        double a = rng_between(r, -1, 1), b = rng_between(r, -1, 1);
        mrd_poly_range e = mrd_poly_extent(&p);
        double cx = (e.lo + e.hi) / 2, cy = (e.rate_lo + e.rate_hi) / 2;

        mrd_poly keep = p;
        if (!mrd_poly_clip(&p, a, b, a * cx + b * cy + rng_between(r, 0, 3e3)))
            p = keep;
    }
    return p;
}

/* Returns a random point of the set, as a convex combination of its vertices. */
static mrd_vertex
sample(rng *r, const mrd_poly *p)
{
    mrd_vertex at = { 0, 0 };
    double sum = 0, weight[64];

    for (int i = 0; i < p->n; i++)
        sum += weight[i] = rng_unit(r) < 0.3 ? 0 : -log(rng_unit(r) + 1e-12);
    if (sum == 0)
        return p->c[0];
    for (int i = 0; i < p->n; i++) {
        at.x += p->c[i].x * weight[i] / sum;
        at.y += p->c[i].y * weight[i] / sum;
    }
    return at;
}

static bool
convex(const mrd_poly *p)
{
    for (int i = 0; p->n > 2 && i < p->n; i++) {
        mrd_vertex a = p->c[i], b = p->c[(i + 1) % p->n], c = p->c[(i + 2) % p->n];

        if ((b.x - a.x) * (c.y - b.y) - (b.y - a.y) * (c.x - b.x) < -1e-3)
            return false;
    }
    return p->n <= MRD_POLY_VERTICES;
}

TEST(clip_keeps_exactly_the_half_plane)
{
    uint64_t first = rng_seed();

    for (uint64_t seed = first; seed < first + 3000; seed++) {
        rng r = rng_new(seed);
        mrd_poly p = random_poly(&r), q = p;
        double a = rng_between(&r, -1, 1), b = rng_between(&r, -1, 1);
        mrd_vertex through = sample(&r, &p);
        double c = a * through.x + b * through.y;
        bool ok = mrd_poly_clip(&q, a, b, c) && convex(&q);

        for (int i = 0; i < 40 && ok; i++) {
            mrd_vertex s = sample(&r, &p);

            if (a * s.x + b * s.y <= c)
                ok = mrd_poly_holds(&q, s.x, s.y, 1e-3);
            s = sample(&r, &q);
            ok = ok && (a * s.x + b * s.y <= c + 1 || q.n == MRD_POLY_VERTICES);
        }
        if (!ok) {
            fprintf(stderr, "seed %" PRIu64 "\n", seed);
            CHECK(ok);
            return;
        }
    }
}

/* A set of possible offsets and rates is moved ahead in time. It must contain every state that an
 * allowed change of rate can reach, and must not be much larger. */
TEST(advance_holds_every_allowed_motion)
{
    uint64_t first = rng_seed();

    for (uint64_t seed = first; seed < first + 3000; seed++) {
        rng r = rng_new(seed);
        mrd_poly p = random_poly(&r), q = p;
        double dt = rng_between(&r, -3, 3), w = rng_unit(&r) < 0.1 ? 0 : rng_between(&r, 0, 3000);
        mrd_poly_range before = mrd_poly_extent(&p), after;
        bool ok;

        mrd_poly_advance(&q, dt, w);
        ok = convex(&q);
        for (int i = 0; i < 40 && ok; i++) {
            mrd_vertex s = sample(&r, &p);
            /* the extreme change of a clock: its rate changes by +w for a share of the time and by
             * -w for the rest, in either order */
            double f = rng_unit(&r), u = (rng_unit(&r) < 0.5 ? -1 : 1) * w * (dt < 0 ? -1 : 1);
            double t1 = fabs(dt) * f, t2 = fabs(dt) - t1, sign = dt < 0 ? -1 : 1;
            double y1 = s.y + u * t1, y2 = y1 - u * t2;
            double x = s.x + sign * (s.y * t1 + u * t1 * t1 / 2 + y1 * t2 - u * t2 * t2 / 2);

            ok = mrd_poly_holds(&q, x, y2, 1e-3);
        }
        after = mrd_poly_extent(&q);
        ok = ok && after.rate_hi >= before.rate_hi - 1e-6 &&
             (w == 0 || p.n > 8 || after.rate_hi <= before.rate_hi + w * fabs(dt) + 1e-6);
        if (!ok) {
            fprintf(stderr, "seed %" PRIu64 " dt %g w %g\n", seed, dt, w);
            CHECK(ok);
            return;
        }
    }
}

TEST(trim_and_intersect_go_outward)
{
    uint64_t first = rng_seed();

    for (uint64_t seed = first; seed < first + 3000; seed++) {
        rng r = rng_new(seed);
        mrd_poly p = random_poly(&r), q = p, both, other;
        int vertices = 4 + (int) (rng_unit(&r) * 8);
        bool ok = true;

        mrd_poly_trim(&q, vertices);
        for (int i = 0; i < 20 && ok; i++) {
            mrd_vertex s = sample(&r, &p);

            ok = mrd_poly_holds(&q, s.x, s.y, 1e-3);
        }
        double shift = rng_between(&r, -500, 500);

        other = p;
        for (int i = 0; i < other.n; i++)
            other.c[i].x += shift;
        both = p;
        (void) mrd_poly_intersect(&both, &other);
        for (int i = 0; i < 20 && ok; i++) {
            mrd_vertex s = sample(&r, &p);

            if (mrd_poly_holds(&other, s.x, s.y, 0))
                ok = mrd_poly_holds(&both, s.x, s.y, 1e-3);
        }
        if (!ok) {
            fprintf(stderr, "seed %" PRIu64 "\n", seed);
            CHECK(ok);
            return;
        }
    }
}

TEST(empty_and_degenerate_sets)
{
    mrd_poly p, line;

    mrd_poly_box(&p, 0, 10, 0, 10);
    CHECK(!mrd_poly_clip(&p, 1, 0, -1));
    CHECK_INT(p.n, 0);
    mrd_poly_advance(&p, 1, 100);
    CHECK_INT(p.n, 0);
    mrd_poly_box(&line, 5, 5, -10, 10); /* a line: the offset is exact */
    CHECK(mrd_poly_clip(&line, 1, 0, 5));
    CHECK(mrd_poly_clip(&line, -1, 0, -5));
    mrd_poly_advance(&line, 1, 0);
    CHECK(mrd_poly_holds(&line, 5 + 10, 10, 0.1));
    mrd_poly_box(&p, 7, 7, 3, 3); /* a point */
    mrd_poly_advance(&p, 2, 100);
    CHECK(mrd_poly_holds(&p, 7 + 6, 3, 0.1));
    CHECK(mrd_poly_holds(&p, 7 + 6 + 200, 203, 0.1));
    CHECK(!mrd_poly_holds(&p, 7 + 6, 210, 0.1));
}

TEST_MAIN()
