/* Simulates device clocks, writes traces with them, and reads these with the reader of the
 * runtime's trace. The true time of each start and end of a hardware event must lie within its
 * stated bound. If the wall clock was set, estimates must be good even where the bound is
 * unknown. */
#include <math.h>

#include "base/buf.h"
#include "tests/seed.h"
#include "tests/timesync/rng.h"
#include "tests/trace/nrt_feed.h"

enum { EXECUTIONS = 40, INNER = 3, SPANS_MAX = EXECUTIONS * 2 * (1 + INNER) };

#define MAX(a, b) ((a) > (b) ? (a) : (b))

typedef enum { SYNC_FIRST, SYNC_LAST, SYNC_AT_THE_END, SYNC_BACKWARD } sync_order;

/* A simulated device clock. Lengths are ns of true time. 0 turns an optional property off. */
typedef struct {
    const char *name;
    double exec, idle;   /* lengths of an execution, and of the pause after it */
    double ppm;          /* largest rate error of the device */
    double noise;        /* largest error of a sync point, evenly distributed */
    double wave, period; /* a sine of this height in the device clock */
    double step;         /* largest step of the device clock, forward or backward */
    int step_every;      /* executions; 0: once */
    bool resets;         /* each step is backwards, by `step` */
    double slew_ppm;     /* rate error of the host's wall clock during four of the executions */
    int sync_until;      /* number of the execution from which on there are no sync points */
    double outlier;      /* largest error of one sync point in 20, never of two in succession */
    double narrow;       /* 75 % of one core's bounds must be below this; 0: not checked */
    double jump;         /* the host's wall clock is set by this within an execution, either way */
    int jump_back;       /* number of executions after which it is set back, or 0 for never */
} scene;

#define US 1e3
#define MS 1e6
#define S  1e9

static const scene scenes[] = {
    { "short", 10 * MS, MS, 20, 500, .narrow = 10 * US },
    { "100 ms", 100 * MS, MS, 20, 500, .narrow = 10 * US },
    { "1 s", S, 5 * MS, 20, 500, .narrow = 10 * US },
    { "4 s", 4 * S, 5 * MS, 20, 500, .narrow = 10 * US },
    { "1 s, 200 ppm", S, 5 * MS, 200, 500, .narrow = 10 * US },
    { "exact sync points", 100 * MS, MS, 50, 0, .narrow = 10 * US },
    { "coarse sync points", 10 * MS, MS, 20, 8 * US, .narrow = 200 * US },
    { "long pauses", 10 * MS, 20 * S, 100, 500, .narrow = 0 },
    { "wander", S, 10 * MS, 20, 500, 3 * US, 60 * S, .narrow = 10 * US },
    { "one step of 300 us", 100 * MS, MS, 20, 500, .step = 300 * US, .narrow = 0 },
    { "one step of 5 us", S, MS, 20, 500, .step = 5 * US, .narrow = 0 },
    { "steps, each 10th", 100 * MS, MS, 20, 500, .step = 300 * US, .step_every = 10, .narrow = 0 },
    { "steps of 1 s", 10 * MS, MS, 20, 500, .step = S, .narrow = 0 },
    { "steps of 5 ms in executions of 10", 10 * MS, MS, 20, 500, .step = 5 * MS, .step_every = 5 },
    { "one reset", 100 * MS, MS, 20, 500, .step = 90 * S, .resets = true },
    { "resets", 100 * MS, MS, 20, 500, .step = 20 * S, .step_every = 15, .resets = true },
    { "slewed wall clock", 50 * MS, 5 * MS, 20, 500, .slew_ppm = 80000, .narrow = 0 },
    { "NTP slews", S, 5 * MS, 20, 500, .slew_ppm = 500, .narrow = 0 },
    { "no sync points from the 5th", 100 * MS, MS, 20, 500, .sync_until = 5, .narrow = 0 },
    { "no sync points from the 5th, 1 s, 200 ppm", S, MS, 200, 500, .sync_until = 5, .narrow = 0 },
    { "no sync points from the 30th, steps before", 100 * MS, MS, 20, 500, .step = 300 * US,
      .step_every = 7, .sync_until = 30, .narrow = 0 },
    { "two sync points", S, MS, 200, 500, .sync_until = 2, .narrow = 0 },
    { "no sync point", S, MS, 200, 500, .sync_until = -1, .narrow = 0 },
    { "outliers", 100 * MS, 5 * MS, 20, 300, .outlier = 60 * US, .narrow = 0 },
    { "wall clock set by an hour", 20 * MS, 2 * MS, 20, 300, .jump = 3600 * S, .narrow = 0 },
    { "set by an hour, and back", 20 * MS, 2 * MS, 20, 300, .jump = 3600 * S, .jump_back = 4 },
    { "set by 5 s", 20 * MS, 2 * MS, 20, 300, .jump = 5 * S, .narrow = 0 },
    { "set by 50 ms", 20 * MS, 2 * MS, 20, 300, .jump = 50 * MS, .narrow = 0 },
};

typedef struct {
    const scene *s;
    rng r;
    double rate[2], phase, step[EXECUTIONS], slew_at[4], slew_rate[4];
    int64_t origin[2];
    double times[EXECUTIONS]; /* when executions begin */
    double jump, jump_at[2];  /* the wall clock is set by `jump` at jump_at[0], and back at [1] */
} world;

typedef struct {
    double at[2]; /* begin and end by the host's clock, relative to NRT_T0 */
    /* by how much the host's clock was set between at[i] and the sync point of the device clock */
    double jumped[2];
} truth;

/* How far the host's wall clock was set at a true time. */
static double
jump_at(const world *w, double t)
{
    return t >= w->jump_at[0] && t < w->jump_at[1] ? w->jump : 0;
}

/* The time of the host's wall clock at a true time, relative to NRT_T0. */
static double
host_at(const world *w, double t)
{
    double host = t + jump_at(w, t);

    for (size_t i = 0; i < MRD_COUNT(w->slew_at); i++)
        host += w->slew_rate[i] * fmax(0, fmin(t - w->slew_at[i], w->s->exec * 0.7));
    return host;
}

static int64_t
device_at(const world *w, int half, double t)
{
    double d = t * (1 + w->rate[half]);

    if (w->s->period > 0)
        d += w->s->wave * sin(6.283185307179586 * t / w->s->period + w->phase);
    for (int i = 0; i < EXECUTIONS; i++)
        d += t >= w->times[i] - w->s->idle / 2 ? w->step[i] : 0;
    return w->origin[half] + llround(d);
}

static world
draw(const scene *s, uint64_t seed)
{
    world w = { .s = s, .r = rng_new(seed) };
    int once = (int) rng_between(&w.r, 1, EXECUTIONS);
    double t = 0;

    for (int h = 0; h < 2; h++) {
        w.rate[h] = rng_between(&w.r, -s->ppm, s->ppm) * 1e-6;
        w.origin[h] = (int64_t) rng_between(&w.r, 100 * S, 20000 * S);
    }
    w.phase = rng_between(&w.r, 0, 6.28);
    for (int i = 0; i < EXECUTIONS; i++) {
        bool hit = s->step_every == 0 ? i == once : i > 0 && i % s->step_every == 0;

        t += s->idle * rng_between(&w.r, 0.2, 1.8);
        w.times[i] = t;
        t += s->exec * rng_between(&w.r, 0.8, 1.2);
        if (hit &&
            s->step !=
                0) /* smaller than the execution, so that no time occurs twice between executions */
            w.step[i] = s->resets              ? -s->step
                        : rng_unit(&w.r) < 0.5 ? -fmin(s->step, s->exec / 2)
                                               : s->step;
    }
    for (int i = 0; i < 2; i++) {
        int at = i == 0 ? once : s->jump_back == 0 ? EXECUTIONS : once + s->jump_back;

        w.jump_at[i] =
            at < EXECUTIONS ? w.times[at] + s->exec * rng_between(&w.r, 0.1, 0.6) : INFINITY;
    }
    w.jump = rng_unit(&w.r) < 0.5 ? -s->jump : s->jump;
    for (size_t i = 0; i < MRD_COUNT(w.slew_at) && s->slew_ppm > 0; i++) {
        w.slew_at[i] = (rng_between(&w.r, 0.2, 0.8) + (double) i) * t / 4;
        w.slew_rate[i] = rng_between(&w.r, -s->slew_ppm, s->slew_ppm) * 1e-6;
    }
    return w;
}

/* ---- Text ---- */

typedef struct {
    mrd_buf text, later;
    size_t syncs[EXECUTIONS * 2], n_syncs; /* where sync points begin in `later` */
    truth truths[SPANS_MAX];
    size_t n;
    bool raw;
    int64_t moved[2]; /* offset of each core that the runtime adds, from its newest sync point */
} trace;

/* Reads the clocks of host and device at `t` and writes a sync point, unless the scene has no more
 * sync points. Updates the offset that the runtime adds to device times. */
static void
put_sync(trace *to, world *w, int exec, int half, double t, sync_order order)
{
    double off = rng_between(&w->r, -w->s->noise, w->s->noise);
    int64_t cpu, device = device_at(w, half, t);

    if (w->s->sync_until != 0 && exec > w->s->sync_until)
        return;
    if (w->s->outlier > 0 && exec > 6 && exec % 2 == 0 && rng_unit(&w->r) < 0.1)
        off = rng_between(&w->r, -w->s->outlier, w->s->outlier);
    cpu = NRT_T0 + llround(host_at(w, t) + off);
    to->moved[half] = cpu - device;
    to->syncs[to->n_syncs++] = to->later.len;
    mrd_buf_fmt(order == SYNC_FIRST ? &to->text : &to->later,
                ",{\"event_type\":\"timestamp_sync_point\",\"phase\":\"instant\",\"nc_idx\":0,"
                "\"timestamp_ns\":%lld,\"data\":{\"exec_id\":%d,\"nc_timestamp_ns\":%lld,"
                "\"cpu_timestamp_ns\":%lld}}",
                NRT_T0 + llround(host_at(w, t)), exec, (long long) device, (long long) cpu);
}

/* Writes a span on the device. Its times are host times, which the runtime computed with the sync
 * point at `sync`, or device times if to->raw is set. */
static void
put_span(trace *to, const world *w, const char *type, int exec, int half, double from, double to_t,
         double sync)
{
    double times[2] = { from, to_t };
    truth *t = &to->truths[to->n];

    for (int end = 0; end < 2; end++) {
        int64_t nc = device_at(w, half, times[end]);

        mrd_buf_fmt(&to->text,
                    ",{\"event_type\":\"%s\",\"phase\":\"%s\",\"id\":%zu,\"nc_idx\":0,"
                    "\"tracking_id\":%zu,\"timestamp_ns\":%lld,\"data\":{%s\"exec_id\":%d,"
                    "\"nc_timestamp_ns\":%lld}}",
                    type, end ? "stop" : "start", to->n + 1, to->n + 1,
                    (long long) (to->raw ? nc : nc + to->moved[half]),
                    type[0] != 'n' ? ""
                    : half         ? "\"device_core_idx\":1,"
                                   : "\"device_core_idx\":0,",
                    exec, (long long) nc);
        t->at[end] = host_at(w, times[end]);
        t->jumped[end] = jump_at(w, sync) - jump_at(w, times[end]);
    }
    to->n++;
}

static void
put_trace(trace *to, world *w, int halves, sync_order order)
{
    mrd_buf_text(&to->text,
                 HEAD "{\"event_type\":\"x\",\"phase\":\"instant\",\"timestamp_ns\":" T0 "00000}");
    for (int i = 0; i < EXECUTIONS; i++) {
        double from = w->times[i], end = from + w->s->exec * rng_between(&w->r, 0.7, 0.8);

        for (int h = 0; h < halves; h++)
            put_sync(to, w, i + 1, h, end, order);
        for (int h = 0; h < halves; h++) {
            for (int k = 0; k < INNER; k++)
                put_span(to, w, "cc_running", i + 1, h, from + (end - from) * (k + 0.3) / INNER,
                         from + (end - from) * (k + 0.7) / INNER, end);
            put_span(to, w, "nc_exec_running", i + 1, h, from, end, end);
        }
        if (order == SYNC_LAST) {
            mrd_buf_add(&to->text, to->later.p, to->later.len);
            to->later.len = 0;
        }
    }
    for (size_t n = to->n_syncs; order == SYNC_BACKWARD && n-- > 0; to->later.len = to->syncs[n])
        mrd_buf_add(&to->text, to->later.p + to->syncs[n], to->later.len - to->syncs[n]);
    mrd_buf_add(&to->text, to->later.p, to->later.len);
    mrd_buf_text(&to->text, TAIL);
}

/* ---- Checking ---- */

typedef struct {
    const trace *trace;
    uint32_t bounds[SPANS_MAX];
    size_t seen, out;
    double worst;
    double off; /* the largest error of an estimate */
} checked;

/* Returns the error of the begin or end of a span. If the host's clock was set between it and the
 * sync point, the time may be by the clock before or after that, whichever is nearer. */
static double
error_of(const truth *t, int end, int64_t time)
{
    double off = (double) (time - NRT_T0) - t->at[end];

    return fmin(fabs(off), fabs(off - t->jumped[end]));
}

static mrd_err
check_event(void *self, const mrd_event *ev)
{
    checked *c = self;
    const truth *t;
    double off;

    if (ev->kind != MRD_SPAN)
        return MRD_OK;
    t = &c->trace->truths[ev->id - 1];
    off = fmax(error_of(t, 0, ev->ts.ns), error_of(t, 1, ev->ts.ns + ev->dur_ns));
    c->off = fmax(c->off, off);
    c->bounds[c->seen++] = ev->bound_ns;
    if (ev->bound_ns != MRD_BOUND_UNKNOWN && off > (double) ev->bound_ns + 1) {
        c->out++;
        c->worst = fmax(c->worst, off - ev->bound_ns);
    }
    return MRD_OK;
}

static int
order_bound(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

static checked
run(const scene *s, uint64_t seed, int halves, sync_order order, bool raw, bool patient)
{
    static trace t;
    checked c = { .trace = &t };
    mrd_nrt_options o = {
        .catalog = mrd_catalog_new(), .patient = patient, .emit = check_event, .self = &c
    };
    world w = draw(s, seed);
    mrd_nrt *nrt = nrt_open(&o);

    t = (trace){ .raw = raw };
    put_trace(&t, &w, halves, order);
    nrt_feed(nrt, mrd_buf_cstr(&t.text));
    CHECK_ERR("flush", mrd_nrt_flush(nrt), MRD_OK);
    CHECK_INT(c.seen, t.n);
    qsort(c.bounds, c.seen, sizeof(*c.bounds), order_bound);
    mrd_nrt_free(nrt);
    mrd_catalog_free(o.catalog);
    mrd_buf_fini(&t.text);
    mrd_buf_fini(&t.later);
    return c;
}

TEST(true_times_are_within_the_bound)
{
    uint64_t seed = test_seed();

    for (size_t i = 0; i < MRD_COUNT(scenes); i++) {
        const scene *s = &scenes[i];
        size_t out = 0;
        double worst = 0, off = 0;
        uint32_t wide = 0;

        for (uint64_t k = 0; k < 32; k++) {
            int halves = 1 + (int) (k % 2);
            sync_order order = (sync_order) (k / 2 % 4);
            bool raw = k / 8 % 2 == 1, patient = k / 16 % 2 == 1;
            checked c = run(s, seed * 32 + k, halves, order, raw, patient);

            out += c.out;
            worst = fmax(worst, c.worst);
            off = fmax(off, c.off);
            if (halves == 1 && (order == SYNC_FIRST || patient))
                wide = MAX(wide, c.bounds[c.seen * 3 / 4]);
        }
        if (out > 0)
            printf("%zu times are outside their bound, by up to %.0f ns\n", out, worst);
        CHECK_ROW(s->name, out == 0);
        CHECK_ROW(s->name, s->narrow == 0 || wide < s->narrow);
        CHECK_ROW(s->name, s->jump == 0 || off < 100 * US);
    }
}

TEST_MAIN()
