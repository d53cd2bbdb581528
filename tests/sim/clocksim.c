#include "tests/sim/clocksim.h"

#include <stdlib.h>
#include <string.h>

int64_t
sim_local_of(void *self, int64_t session_ns)
{
    return sim_local(self, session_ns);
}

double
sim_x(const sim *s, double t)
{
    const sim_config *c = &s->c;
    double x = c->ppm * 1e3 * t, f;
    size_t i = t < 0 ? 0 : (size_t) t;

    if (c->wave_period_s > 0) {
        double k = 6.283185307179586 / c->wave_period_s, phase = 6.283185307179586 * c->wave_phase;

        x += c->wave_ppm * 1e3 / k * (cos(phase) - cos(phase + k * t));
    }
    for (int j = 0; j < c->step_count; j++) {
        if (t >= c->steps[j].at_s)
            x += c->steps[j].jump + c->steps[j].ppb * (t - c->steps[j].at_s);
    }
    if (i + 1 >= s->grid)
        i = s->grid - 2;
    f = t - (double) i;
    x += s->x[i] + f * s->rate[i] + f * f / 2 * (s->rate[i + 1] - s->rate[i]);
    return x;
}

int64_t
sim_local(const sim *s, int64_t session_ns)
{
    double t = (double) (session_ns - SIM_SESSION_ZERO) * 1e-9;

    return session_ns - s->c.offset - (int64_t) floor(sim_x(s, t) + 0.5);
}

/* Returns the direction of the path that is congested at second `t`. Congestion has episodes of
 * about 10 s, each in one direction. */
static int
congested(const sim *s, double t)
{
    rng r = rng_new(s->c.seed ^ (uint64_t) (int64_t) (t / 10 + 1e6));

    if (rng_unit(&r) >= s->c.load)
        return 0;
    return rng_unit(&r) < 0.7 ? 1 : 2;
}

static double
delay_s(sim *s, double t, int direction, int position)
{
    const sim_config *c = &s->c;
    double us = c->rtt_us / 2 + (direction == 1 ? 0.5 : -0.5) * c->asymmetry_us;

    us += rng_exp(&s->r, c->jitter_us);
    if (position == 0)
        us += rng_exp(&s->r, c->wake_us);
    if (congested(s, t) == direction)
        us += rng_exp(&s->r, c->queue_us);
    if (rng_unit(&s->r) < c->reorder)
        us += rng_exp(&s->r, 3000);
    return us * 1e-6;
}

static bool
lost(sim *s, double t)
{
    return rng_unit(&s->r) < s->c.loss || (t >= s->c.dark_from_s && t < s->c.dark_to_s);
}

static int64_t
session_at(double t)
{
    return SIM_SESSION_ZERO + (int64_t) floor(t * 1e9 + 0.5);
}

static void
corrupt(sim *s, mrd_probe_sent *sent, mrd_probe_served *served)
{
    /* Errors below the round trip contradict nothing and cannot be detected, so draw larger
     * ones. */
    int64_t by = (int64_t) rng_between(&s->r, 2e5, 1e7) * (rng_unit(&s->r) < 0.5 ? -1 : 1);

    if (s->c.random_stamps) {
        sent->a1 += (int64_t) rng_between(&s->r, -1e9, 1e9);
        sent->a4 = sent->a1 + (int64_t) rng_between(&s->r, 0, 1e9);
        return;
    }
    if (rng_unit(&s->r) >= s->c.corrupt)
        return;
    switch (rng_next(&s->r) % 8) {
    case 0:
        sent->a1 += by;
        break;
    case 1:
        sent->a4 += by;
        break;
    case 2:
        served->r2 += by;
        break;
    case 3:
        served->r3 += by;
        break;
    default: /* equal errors of both time stamps of the node leave the round trip time unchanged */
        sent->a1 += by;
        sent->a4 += by;
    }
}

static void
store(sim *s, const mrd_probe *p, int64_t known)
{
    size_t i = s->n;

    if (s->n == s->cap) {
        s->cap = s->cap == 0 ? 1024 : s->cap * 2;
        s->probes = realloc(s->probes, s->cap * sizeof(*s->probes));
        s->known = realloc(s->known, s->cap * sizeof(*s->known));
        if (s->probes == NULL || s->known == NULL)
            abort();
    }
    for (; i > 0 && s->known[i - 1] > known; i--) {
        s->probes[i] = s->probes[i - 1];
        s->known[i] = s->known[i - 1];
    }
    s->probes[i] = *p;
    s->known[i] = known;
    s->n++;
}

static int64_t
stamp_error(sim *s)
{
    double e = s->c.e / 2.0;

    return (int64_t) floor(rng_between(&s->r, -e, e));
}

/* Returns true if the agent's process is stopped at time `t`. Its kernel still stamps an answer on
 * arrival. */
static bool
frozen(const sim *s, double t)
{
    return t >= s->c.frozen_from_s && t < s->c.frozen_to_s;
}

#define AGENT 7
#define WALL  1234567890123456789LL /* offset of the node's wall clock from its RAW */

/* Reads RAW, wall, RAW at session second t. */
static mrd_xread
cross(const sim *s, double t)
{
    int64_t raw = sim_local(s, session_at(t));
    bool set = s->wall_step_at > 0 && t >= s->wall_step_at;

    return (mrd_xread){ raw - 25, raw + WALL + (set ? s->c.wall_step : 0), raw + 25 };
}

/* Converts a kernel stamp, taken on the wall clock at second t, to RAW with readings before and
 * after the probe. Returns false if the wall clock moved in between. */
static bool
bridged(const sim *s, double t, double before, double after, int64_t *raw, uint32_t *e)
{
    mrd_xread b = cross(s, before), a = cross(s, after);
    bool set = s->wall_step_at > 0 && t >= s->wall_step_at;
    mrd_local_ns to;
    mrd_dur_ns own;

    if (mrd_stamp_bridge(&b, &a, *raw + WALL + (set ? s->c.wall_step : 0), &to, &own) != MRD_OK)
        return false;
    *raw = to.ns;
    *e += (uint32_t) own;
    return true;
}

/* Converts both time stamps of the node's half of a probe to RAW. Drops the half if that is
 * impossible. */
static bool
bridge_half(sim *s, mrd_probe_sent *sent, double t1, double t4)
{
    uint32_t e = 0;

    if (s->c.wall_step == 0)
        return true;
    if (!bridged(s, t1, t1 - 2e-6, t4 + 2e-6, &sent->a1, &e) ||
        (sent->a4 != 0 && !bridged(s, t4, t1 - 2e-6, t4 + 2e-6, &sent->a4, &e))) {
        s->voided++;
        return false;
    }
    sent->e += e;
    return true;
}

/* Sends an old probe request to the aggregator again, and delivers the node's half of the probe
 * again in a batch. The code under test must refuse both. */
static void
replay(sim *s, double t)
{
    mrd_probe_served again = { .id = s->last.id, .r2 = session_at(t) };
    mrd_probe p;

    if (s->c.replay <= 0 || s->last.a1 == 0 || rng_unit(&s->r) >= s->c.replay)
        return;
    if (mrd_joiner_served(s->joiner, &again) || mrd_joiner_sent(s->joiner, &s->last, &p) == MRD_OK)
        abort();
    s->replayed++;
}

static void
probe_once(sim *s, uint32_t k, int position, double t)
{
    mrd_probe_sent sent = { .id = { AGENT, s->agent_epoch, k },
                            .e = s->c.e / 2,
                            .position = (uint8_t) position,
                            .source1 = MRD_STAMP_UDP_KERNEL,
                            .source4 = MRD_STAMP_UDP_KERNEL };
    mrd_probe_served served = { .id = sent.id,
                                .e = s->c.e - s->c.e / 2,
                                .source2 = MRD_STAMP_UDP_KERNEL,
                                .source3 = MRD_STAMP_UDP_KERNEL };
    double t2, t3, t4;
    mrd_probe p;

    sent.a1 = sim_local(s, session_at(t)) + stamp_error(s);
    if (lost(s, t))
        return;
    t2 = t + delay_s(s, t, 1, position);
    t3 = t2 + (8 + rng_exp(&s->r, 4)) * 1e-6;
    served.r2 = session_at(t2);
    served.r3 = session_at(t3);
    t4 = t3 + delay_s(s, t3, 2, position);
    if (!lost(s, t3))
        sent.a4 = sim_local(s, session_at(t4)) + stamp_error(s);
    (void) mrd_joiner_served(s->joiner, &served);
    if (rng_unit(&s->r) < s->c.duplicate) {
        mrd_probe_served copy = served;

        copy.r2 += 50000;
        (void) mrd_joiner_served(s->joiner, &copy);
    }
    if (sent.a4 != 0 || s->c.random_stamps)
        corrupt(s, &sent, &served);
    mrd_joiner_answered(s->joiner, &served);
    if (!bridge_half(s, &sent, t, t4))
        return;
    if (mrd_joiner_sent(s->joiner, &sent, &p) == MRD_OK) {
        store(s, &p, session_at(t4));
        s->last = sent;
    }
    replay(s, t4);
}

static void
pair(sim *s, uint32_t *k, double t)
{
    if (frozen(s, t))
        return;
    if (s->c.agent_restart_s > 0 && t >= s->c.agent_restart_s && s->agent_epoch == 1) {
        s->agent_epoch = 2;
        *k = 0;
    }
    if (s->c.server_restart_s > 0 && t >= s->c.server_restart_s) {
        mrd_joiner_free(s->joiner);
        s->joiner = mrd_joiner_new(256);
        s->c.server_restart_s = 0;
    }
    if (s->c.wall_step != 0 && *k == 2 * s->c.wall_step_pair)
        s->wall_step_at = t + 40e-6; /* between sending and the answer */
    probe_once(s, *k, 0, t);
    probe_once(s, *k + 1, 1, t + 15e-6);
    *k += 2;
}

static void
walk(sim *s)
{
    s->grid = (size_t) s->c.duration_s + 12;
    s->rate = calloc(s->grid, sizeof(double));
    s->x = calloc(s->grid, sizeof(double));
    if (s->rate == NULL || s->x == NULL)
        abort();
    for (size_t i = 1; i < s->grid; i++) {
        s->rate[i] = s->rate[i - 1] + rng_between(&s->r, -s->c.walk, s->c.walk);
        s->x[i] = s->x[i - 1] + (s->rate[i] + s->rate[i - 1]) / 2;
    }
}

/* Returns the interval until the next pair of probes, computed as in agent/clock/probe_pace.c. */
static double
interval(sim *s, uint32_t next_k)
{
    mrd_probe_id next = { AGENT, s->agent_epoch, next_k };
    double wait = rng_between(&s->r, 0.5, 1.5) / 0.9 / s->c.pairs_per_s;

    return mrd_probe_beside_held_out(next) ? wait / 2 : wait;
}

void
sim_init(sim *s, const sim_config *config)
{
    uint32_t k = 0;
    double t = 0.01, end = config->duration_s;

    memset(s, 0, sizeof(*s));
    s->c = *config;
    s->agent_epoch = 1;
    s->r = rng_new(config->seed);
    if ((s->joiner = mrd_joiner_new(256)) == NULL)
        abort();
    walk(s);
    for (int i = 0; i < config->burst; i++, t += rng_between(&s->r, 0.002, 0.01))
        pair(s, &k, t);
    while ((t += interval(s, k)) < end - 0.5)
        pair(s, &k, t);
    t = end - 0.4;
    for (int i = 0; i < config->burst; i++, t += rng_between(&s->r, 0.002, 0.01))
        pair(s, &k, t);
}

void
sim_fini(sim *s)
{
    free(s->rate);
    free(s->x);
    free(s->probes);
    free(s->known);
    mrd_joiner_free(s->joiner);
    memset(s, 0, sizeof(*s));
}
