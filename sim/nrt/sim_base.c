/* Functions that all other files of the simulated runtime use: its state, true time and the clocks
 * derived from it, and a hash. */
#include "sim.h"

#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

sim_state sim = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- true time and the clocks derived from it ------------------------------------------------ */

/* Reads true time. Defined only if libsimclock.so is preloaded, which replaces clock_gettime() by a
 * simulated clock. */
extern int simclock_true_gettime(clockid_t id, struct timespec *ts) __attribute__((weak));

static int64_t
read_clock(clockid_t id)
{
    struct timespec ts = { 0 };

    (simclock_true_gettime != NULL ? simclock_true_gettime : clock_gettime)(id, &ts);
    return (int64_t) ts.tv_sec * MRD_SEC + ts.tv_nsec;
}

int64_t
sim_raw(void)
{
    return read_clock(CLOCK_MONOTONIC_RAW);
}

/*
 * Returns the wall clock minus RAW in ns. The offset is measured again every millisecond. Several
 * readings of the wall clock are each taken between two readings of RAW, and the reading with the
 * shortest time between these two counts. If the thread was interrupted, this time is long, and
 * stamps would move back and forth by microseconds.
 */
static int64_t
wall_offset(void)
{
    static _Atomic int64_t offset, read_at;
    int64_t now = sim_raw(), best = INT64_MAX, found = 0;

    if (now - atomic_load(&read_at) <= MRD_MS)
        return atomic_load(&offset);
    for (int i = 0; i < 8 && best > 200; i++) {
        int64_t before = sim_raw(), wall = read_clock(CLOCK_REALTIME), after = sim_raw();

        if (after - before < best) {
            best = after - before;
            found = wall - (before + (after - before) / 2);
        }
    }
    atomic_store(&offset, found);
    atomic_store(&read_at, now);
    return found;
}

int64_t
sim_wall(int64_t raw)
{
    return mrd_simclock_wall(&sim.set.clock, raw, raw + wall_offset()).ns;
}

uint64_t
sim_dev(const sim_core *core, unsigned pcore, int64_t raw)
{
    __int128 drift = (__int128) raw * core->rate_ppt[pcore] / 1000000000000LL;

    return (uint64_t) (core->origin[pcore] + raw + (int64_t) drift + atomic_load(&core->step));
}

void
sim_sleep_until(int64_t raw)
{
    int64_t left;

    while ((left = raw - sim_raw()) > 0) {
        struct timespec ts = { left / MRD_SEC, left % MRD_SEC };

        nanosleep(&ts, NULL);
    }
}

uint64_t
sim_mix(uint64_t a, uint64_t b)
{
    uint64_t x = a * 0x9e3779b97f4a7c15u + b + 0x632be59bd9b4e019u;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

int64_t
sim_scaled(int64_t ns, uint64_t salt)
{
    double unit = (double) (sim_mix((uint64_t) sim.set.seed, salt) >> 11) / 9007199254740992.0;

    return (int64_t) ((double) ns * sim.set.time_scale *
                      (1.0 + sim.set.jitter * (2.0 * unit - 1.0)));
}

uint64_t
sim_thread_id(void)
{
    static _Thread_local pid_t tid, of_pid;
    pid_t pid = getpid();

    if (of_pid != pid) {
        of_pid = pid;
        tid = (pid_t) syscall(SYS_gettid);
    }
    return (uint64_t) tid;
}

/* ---- numbers of cores and devices, and memory in use ----------------------------------------- */

uint32_t
sim_pcore(const sim_core *core, unsigned pcore)
{
    return (core->global * core->lnc + pcore) % sim.instance->cores_per_device;
}

uint32_t
sim_device(const sim_core *core)
{
    return core->global * core->lnc / sim.instance->cores_per_device;
}

/* Returns how many physical cores share an HBM: two on devices with eight cores. */
static uint32_t
hbm_cores(void)
{
    return sim.instance->cores_per_device > 2 ? 2 : 1;
}

uint32_t
sim_hbm(const sim_core *core)
{
    return core->global * core->lnc / hbm_cores();
}

uint32_t
sim_hbms(void)
{
    return sim.instance->cores_per_device / hbm_cores();
}

void
sim_hbm_add(sim_core *core, int64_t bytes, bool tensor)
{
    uint32_t i = sim_hbm(core);

    atomic_fetch_add(&core->bytes, (uint64_t) bytes);
    atomic_fetch_add(&sim.hbm_bytes[i], (uint64_t) bytes);
    if (tensor)
        atomic_fetch_add(&sim.hbm_tensors[i], (uint64_t) bytes);
}

NRT_STATUS
sim_check(void)
{
    int phase = atomic_load_explicit(&sim.phase, memory_order_acquire);

    return phase == SIM_OPEN ? NRT_SUCCESS : phase == SIM_CLOSED ? NRT_CLOSED : NRT_UNINITIALIZED;
}
