/* The clocks of the simulated machines. A clock consists of segments with a constant rate, and is
 * computed from the true time. clock_gettime, random numbers and a node's own readings return the
 * values of the machine whose program runs. */
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "base/vec.h"
#include "hw/hostclock.h"
#include "tests/sim/cluster_node.h"

#define WALL_0 (1750000000LL * MRD_SEC)

/* ---- Segments ---- */

int64_t
sim_clock_local(const sim_clock *c, int64_t now)
{
    const clock_segment *p = &c->v[c->n - 1];

    while (p > c->v && p->from > now)
        p--;
    if (p->stands)
        return p->local;
    return p->local + (now - p->from) + (int64_t) ((long double) (now - p->from) * p->ppm / 1e6L);
}

/* Returns the true time at which the clock showed `local`. Uses the last segment of the clock that
 * had begun when it showed this time. */
long double
sim_clock_true(const sim_clock *c, int64_t local)
{
    const clock_segment *p = &c->v[c->n - 1];

    while (p > c->v && (p->local > local || p->stands))
        p--;
    return (long double) p->from + (long double) (local - p->local) / (1.0L + p->ppm / 1e6L);
}

void
sim_clock_begin(sim_clock *c, int64_t now, int64_t local, double ppm)
{
    c->n = 0;
    if (!MRD_VEC_ROOM(c->v, c->n, c->cap, 1))
        abort();
    c->v[c->n++] = (clock_segment){ now, local, ppm, false };
}

void
sim_clock_bend(sim_clock *c, int64_t now, double ppm, bool stands)
{
    clock_segment p = { now, sim_clock_local(c, now), ppm, stands };

    if (!MRD_VEC_ROOM(c->v, c->n, c->cap, 1))
        abort();
    c->v[c->n++] = p;
}

/* ---- Functions of the operating system that are replaced: clocks, random numbers, memory ---- */

static world *of_world; /* NULL means that programs get the real machine's values */
static sim_node *of_node;

void
turn_of(world *w, sim_node *n)
{
    of_world = w;
    of_node = n;
}

sim_node *
node_of_turn(void)
{
    return of_node;
}

int64_t
node_now(const sim_node *n)
{
    return n->cpu_at > n->w->now ? n->cpu_at : n->w->now;
}

static int64_t
read_clock(clockid_t id)
{
    sim_node *n = of_node;
    int64_t local, now;

    if (n == NULL)
        return id == CLOCK_REALTIME ? server_now(of_world).wall.ns : server_now(of_world).local.ns;
    now = node_now(n);
    if (n->reading_takes > 0)
        n->cpu_at = now += n->reading_takes;
    local = agent_local(n->a, now);
    if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)
        return WALL_0 + now + n->wall_off;
    return id == CLOCK_BOOTTIME ? local + n->slept : local;
}

extern int __real_clock_gettime(clockid_t id, struct timespec *ts);
extern int __wrap_clock_gettime(clockid_t id, struct timespec *ts);
int
__wrap_clock_gettime(clockid_t id, struct timespec *ts)
{
    int64_t ns;

    if (of_world == NULL || id == CLOCK_PROCESS_CPUTIME_ID || id == CLOCK_THREAD_CPUTIME_ID)
        return __real_clock_gettime(id, ts);
    ns = read_clock(id);
    *ts = (struct timespec){ ns / MRD_SEC, ns % MRD_SEC };
    return 0;
}

extern ssize_t __wrap_getrandom(void *to, size_t len, unsigned flags);
ssize_t
__wrap_getrandom(void *to, size_t len, unsigned flags)
{
    uint8_t *p = to;

    (void) flags;
    /* outside of a run, these are the bytes of the seed of hash tables, which is drawn once */
    for (size_t i = 0; i < len; i++)
        p[i] = of_world == NULL ? (uint8_t) (i + 1) : (uint8_t) (sim_random(of_world) >> 24);
    return (ssize_t) len;
}

/* Agents report their memory in heartbeats. All simulated agents share one process, so its real size
 * would be wrong for each. */
extern uint64_t __wrap_mrd_resident_bytes(void);
uint64_t
__wrap_mrd_resident_bytes(void)
{
    return 1 << 20;
}

/* The simulated machine has no sources of time information except its clocks. */
struct mrd_hostclock {
    char nothing;
};

extern mrd_hostclock *__wrap_mrd_hostclock_open(const mrd_hostclock_options *options);
mrd_hostclock *
__wrap_mrd_hostclock_open(const mrd_hostclock_options *options)
{
    (void) options;
    return calloc(1, sizeof(mrd_hostclock));
}

extern void __wrap_mrd_hostclock_close(mrd_hostclock *h);
void
__wrap_mrd_hostclock_close(mrd_hostclock *h)
{
    free(h);
}

extern void __wrap_mrd_hostclock_read(mrd_hostclock *h, mrd_hostclock_reading *ret);
void
__wrap_mrd_hostclock_read(mrd_hostclock *h, mrd_hostclock_reading *ret)
{
    (void) h;
    *ret = (mrd_hostclock_reading){ .raw = { read_clock(CLOCK_MONOTONIC_RAW) },
                                    .realtime = { read_clock(CLOCK_REALTIME) },
                                    .bracket_ns = 100,
                                    .monotonic = { read_clock(CLOCK_MONOTONIC) },
                                    .boottime = { read_clock(CLOCK_BOOTTIME) } };
}

extern bool __wrap_mrd_hostclock_marker(mrd_hostclock *h, uint64_t *ret_marker);
bool
__wrap_mrd_hostclock_marker(mrd_hostclock *h, uint64_t *ret_marker)
{
    (void) h;
    (void) ret_marker;
    return false;
}
