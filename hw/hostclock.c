#include "hw/hostclock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/ptp_clock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/num.h"
#include "base/sys/file.h"
#include "base/sys/udpstamp.h"

/* maximum number of reads of a page or file that another process is writing */
#define TRIES       100
#define PHC_SAMPLES 3
#define PHC_MAX     8 /* number of clocks that are tried: /dev/ptp0 to /dev/ptp7 */
#define YEARS_MAX   (200LL * 366 * 86400)

/* ---- Little-endian fields ---- */

static uint64_t
get(mrd_bytes bytes, size_t at, size_t len)
{
    uint64_t v = 0;

    for (size_t i = len; i-- > 0;)
        v = v << 8 | bytes.p[at + i];
    return v;
}

/* ---- ClockBound ---- */

#define CB_HEADER 16
#define CB_V1_LEN 72
#define CB_V2_LEN 80

static bool
cb_time(mrd_bytes bytes, size_t at, int64_t *ret_ns)
{
    int64_t s = (int64_t) get(bytes, at, 8), ns = (int64_t) get(bytes, at + 8, 8);

    if (s < 0 || s >= YEARS_MAX || ns < 0 || ns >= MRD_SEC)
        return false;
    *ret_ns = s * MRD_SEC + ns;
    return true;
}

mrd_err
mrd_clockbound_parse(mrd_bytes bytes, mrd_clockbound *ret, mrd_why *why)
{
    static const uint8_t magic[8] = { 0x4e, 0x5a, 0x4d, 0x41, 0x00, 0x02, 0x42, 0x43 };
    static const uint8_t magic_bytes[8] = { 0x41, 0x4d, 0x5a, 0x4e, 0x43, 0x42, 0x02, 0x00 };
    mrd_clockbound clockbound = { 0 };
    unsigned version, generation;
    uint64_t size;

    if (bytes.len < CB_HEADER)
        return mrd_why_set(why, MRD_TRUNCATED, 0, "ClockBound segment of %zu bytes", bytes.len);
    /* The magic number is stored either as two 32-bit numbers in the machine's byte order, or as
     * eight bytes. Both forms exist. */
    if (memcmp(bytes.p, magic, 8) != 0 && memcmp(bytes.p, magic_bytes, 8) != 0)
        return mrd_why_set(why, MRD_FORMAT, 0, "not a ClockBound segment");
    size = get(bytes, 8, 4);
    version = (unsigned) get(bytes, 12, 2);
    generation = (unsigned) get(bytes, 14, 2);
    if (version == 0 || generation == 0 || generation % 2 != 0)
        return mrd_why_set(why, MRD_AGAIN, 0, "the ClockBound segment is being written");
    if (version > 2)
        return mrd_why_set(why, MRD_VERSION, 0,
                           "ClockBound segment of version %u (1 and 2 are known)", version);
    if (size < (version == 1 ? CB_V1_LEN : CB_V2_LEN) || bytes.len < size)
        return mrd_why_set(why, MRD_TRUNCATED, 0, "ClockBound segment of %zu bytes, not %llu",
                           bytes.len, (unsigned long long) size);
    clockbound.bound_ns = (int64_t) get(bytes, 48, 8);
    if (version == 1) {
        clockbound.max_drift_ppb = (uint32_t) get(bytes, 56, 4);
        clockbound.status = (uint32_t) get(bytes, 64, 4);
    } else {
        clockbound.marker = get(bytes, 56, 8);
        clockbound.max_drift_ppb = (uint32_t) get(bytes, 64, 4);
        clockbound.status = (uint32_t) get(bytes, 68, 4);
    }
    if (!cb_time(bytes, 16, &clockbound.as_of.ns) ||
        !cb_time(bytes, 32, &clockbound.void_after.ns) || clockbound.bound_ns < 0 ||
        clockbound.status > MRD_CLOCKBOUND_DISRUPTED)
        return mrd_why_set(why, MRD_CORRUPT, 0, "ClockBound segment with impossible values");
    *ret = clockbound;
    return MRD_OK;
}

int64_t
mrd_clockbound_at(const mrd_clockbound *clockbound, mrd_mono_ns monotonic)
{
    int64_t age = mrd_mono_diff(monotonic, clockbound->as_of);
    __int128 bound;

    if (clockbound->status != MRD_CLOCKBOUND_SYNCHRONIZED &&
        clockbound->status != MRD_CLOCKBOUND_FREE_RUNNING)
        return -1;
    if (mrd_mono_after(monotonic, clockbound->void_after))
        return -1;
    /* the coarse clock may not have ticked since as_of, and then gives a negative age */
    age = age < 0 ? 0 : age;
    bound =
        clockbound->bound_ns + ((__int128) age * clockbound->max_drift_ppb + MRD_SEC - 1) / MRD_SEC;
    return bound > INT64_MAX ? -1 : (int64_t) bound;
}

/* ---- VMClock ---- */

#define VM_MAGIC     0x4b4c4356u /* the bytes "VCLK" */
#define VM_LEN       104
#define VM_PAGE      4096
#define VM_MAXERROR  (1u << 6) /* flag: the field time_maxerror_nanosec is valid */
#define VM_STATUS    34
#define VM_MAXERR_AT 96

mrd_err
mrd_vmclock_parse(mrd_bytes bytes, mrd_vmclock *ret, mrd_why *why)
{
    uint64_t maxerror;

    if (bytes.len < VM_LEN)
        return mrd_why_set(why, MRD_TRUNCATED, 0, "VMClock page of %zu bytes", bytes.len);
    if (get(bytes, 0, 4) != VM_MAGIC)
        return mrd_why_set(why, MRD_FORMAT, 0, "not a VMClock page");
    if (get(bytes, 8, 2) != 1)
        return mrd_why_set(why, MRD_VERSION, 0, "VMClock page of version %u (1 is known)",
                           (unsigned) get(bytes, 8, 2));
    if (get(bytes, 4, 4) < VM_LEN)
        return mrd_why_set(why, MRD_TRUNCATED, 0, "VMClock page says it has %u bytes",
                           (unsigned) get(bytes, 4, 4));
    if (get(bytes, 12, 4) % 2 != 0)
        return mrd_why_set(why, MRD_AGAIN, 0, "the VMClock page is being written");
    maxerror = get(bytes, VM_MAXERR_AT, 8);
    *ret = (mrd_vmclock){ .marker = get(bytes, 16, 8),
                          .status = bytes.p[VM_STATUS],
                          .maxerror_ns =
                              (get(bytes, 24, 8) & VM_MAXERROR) != 0 && maxerror <= INT64_MAX
                                  ? (int64_t) maxerror
                                  : -1 };
    return MRD_OK;
}

/* ---- PTP hardware clocks ---- */

bool
mrd_phc_best(const mrd_phc_sample *samples, size_t n, mrd_phc_sample *ret_best)
{
    const mrd_phc_sample *best = NULL;

    for (size_t i = 0; i < n; i++) {
        const mrd_phc_sample *sample = &samples[i];

        if (!mrd_ev_before(sample->after, sample->before) &&
            (best == NULL ||
             mrd_ev_diff(sample->after, sample->before) < mrd_ev_diff(best->after, best->before)))
            best = sample;
    }
    if (best != NULL)
        *ret_best = *best;
    return best != NULL;
}

int64_t
mrd_phc_error(mrd_str text)
{
    int64_t ns;

    while (text.len > 0 && (text.p[text.len - 1] == '\n' || text.p[text.len - 1] == ' '))
        text.len--;
    return mrd_num_i64(text, &ns) == MRD_OK && ns >= 0 ? ns : -1;
}

/* ---- adjtimex ---- */

mrd_timex
mrd_timex_of(const struct timex *tx, int state)
{
    return (mrd_timex){
        .state = state,
        .status = (uint32_t) tx->status,
        .freq_ppb = (int64_t) tx->freq * 1000 / 65536, /* tx->freq is in units of 2^-16 ppm */
        .maxerror_ns = (int64_t) tx->maxerror * MRD_US,
        .esterror_ns = (int64_t) tx->esterror * MRD_US,
        .tai_s = tx->tai,
    };
}

/* ---- Reading all clocks ---- */

struct mrd_hostclock {
    const uint8_t *vm; /* the mapped page, or NULL if absent */
    size_t vm_len;
    char bound_path[256];
    char bound3_path[256]; /* the segment of ClockBound 3, which is not read */
    int phc;               /* descriptor of the PTP clock, or -1 */
    bool phc_raw; /* true if the kernel can read MONOTONIC_RAW before and after the PTP clock */
    char phc_name[MRD_HOSTCLOCK_NAME], phc_error_path[256];
};

/* Maps the page of the hypervisor's VMClock. A real device has a whole page, but the file of a test
 * may be shorter. */
static void
map_vm(mrd_hostclock *hostclock, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    void *p;

    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0)
        hostclock->vm_len =
            S_ISREG(st.st_mode) && st.st_size < VM_PAGE ? (size_t) st.st_size : VM_PAGE;
    if (hostclock->vm_len >= VM_LEN &&
        (p = mmap(NULL, hostclock->vm_len, PROT_READ, MAP_SHARED, fd, 0)) != MAP_FAILED)
        hostclock->vm = p;
    close(fd);
}

/* Opens the first PTP clock of an Elastic Network Adapter (ENA), or else the first PTP clock. */
static void
find_phc(mrd_hostclock *hostclock, const char *dev, const char *sys)
{
    int found = -1;

    for (int i = 0; i < PHC_MAX; i++) {
        char path[256], name[MRD_HOSTCLOCK_NAME];

        snprintf(path, sizeof(path), "%s/ptp%d", dev, i);
        if (access(path, R_OK) != 0)
            continue;
        snprintf(path, sizeof(path), "%s/class/ptp/ptp%d/clock_name", sys, i);
        (void) mrd_file_line(path, name, sizeof(name));
        if (found >= 0 && strncmp(name, "ena", 3) != 0)
            continue;
        found = i;
        memcpy(hostclock->phc_name, name, sizeof(name));
        if (strncmp(name, "ena", 3) == 0)
            break;
    }
    if (found >= 0) {
        char path[256];

        snprintf(path, sizeof(path), "%s/ptp%d", dev, found);
        hostclock->phc = open(path, O_RDONLY | O_CLOEXEC);
        snprintf(hostclock->phc_error_path, sizeof(hostclock->phc_error_path),
                 "%s/class/ptp/ptp%d/device/phc_error_bound", sys, found);
        hostclock->phc_raw = true; /* assume that it can, until the kernel refuses */
    }
}

mrd_hostclock *
mrd_hostclock_open(const mrd_hostclock_options *options)
{
    mrd_hostclock *hostclock = calloc(1, sizeof(*hostclock));
    const char *dev = options->dev_root == NULL ? "/dev" : options->dev_root;
    const char *sys = options->sys_root == NULL ? "/sys" : options->sys_root;
    const char *run = options->run_root == NULL ? "/var/run" : options->run_root;
    char path[256];

    if (hostclock == NULL)
        return NULL;
    hostclock->phc = -1;
    snprintf(path, sizeof(path), "%s/vmclock0", dev);
    map_vm(hostclock, path);
    snprintf(hostclock->bound_path, sizeof(hostclock->bound_path), "%s/clockbound/shm0", run);
    snprintf(hostclock->bound3_path, sizeof(hostclock->bound3_path), "%s/clockbound/shm1", run);
    find_phc(hostclock, dev, sys);
    return hostclock;
}

void
mrd_hostclock_close(mrd_hostclock *hostclock)
{
    if (hostclock == NULL)
        return;
    if (hostclock->vm != NULL)
        munmap((void *) (uintptr_t) hostclock->vm, hostclock->vm_len);
    if (hostclock->phc >= 0)
        close(hostclock->phc);
    free(hostclock);
}

/* Copies the VMClock page until a copy is consistent, because the hypervisor may be updating it.
 * Returns false after TRIES attempts. */
static bool
read_vm(const mrd_hostclock *hostclock, mrd_vmclock *ret)
{
    uint8_t copy[VM_LEN];

    for (int i = 0; hostclock->vm != NULL && i < TRIES; i++) {
        uint32_t seq = __atomic_load_n((const uint32_t *) (const void *) (hostclock->vm + 12),
                                       __ATOMIC_ACQUIRE);

        memcpy(copy, hostclock->vm, sizeof(copy));
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (seq == __atomic_load_n((const uint32_t *) (const void *) (hostclock->vm + 12),
                                   __ATOMIC_RELAXED) &&
            mrd_vmclock_parse((mrd_bytes){ copy, sizeof(copy) }, ret, NULL) == MRD_OK)
            return true;
    }
    return false;
}

bool
mrd_hostclock_marker(mrd_hostclock *hostclock, uint64_t *ret_marker)
{
    mrd_vmclock vm;

    if (!read_vm(hostclock, &vm))
        return false;
    *ret_marker = vm.marker;
    return true;
}

/* The file is opened each time, because the daemon may start, stop or replace it. The daemon marks
 * an incomplete file by an odd generation. The file is read twice. If both copies are equal, the
 * daemon did not change it in between. */
mrd_err
mrd_hostclock_clockbound(const mrd_hostclock *hostclock, mrd_clockbound *ret, mrd_why *why)
{
    uint8_t first[CB_V2_LEN], second[CB_V2_LEN];
    int fd = open(hostclock->bound_path, O_RDONLY | O_CLOEXEC);
    mrd_err err = MRD_AGAIN;

    if (fd < 0 && access(hostclock->bound3_path, F_OK) == 0)
        return mrd_why_set(why, MRD_NOTFOUND, 0,
                           "%s is of ClockBound 3; this release reads the layouts 1 and 2, in %s",
                           hostclock->bound3_path, hostclock->bound_path);
    if (fd < 0)
        return mrd_why_set(why, MRD_NOTFOUND, 0, "%s: %s", hostclock->bound_path, strerror(errno));
    for (int i = 0; err == MRD_AGAIN && i < TRIES; i++) {
        ssize_t n = pread(fd, first, sizeof(first), 0), m = pread(fd, second, sizeof(second), 0);

        if (n > 0 && n == m && memcmp(first, second, (size_t) n) == 0)
            err = mrd_clockbound_parse((mrd_bytes){ first, (size_t) n }, ret, why);
    }
    close(fd);
    return err;
}

static int64_t
ptp_ns(const struct ptp_clock_time *t)
{
    return (int64_t) t->sec * MRD_SEC + t->nsec;
}

/* Reads the PTP clock PHC_SAMPLES times, each time between two readings of a system clock. That is
 * MONOTONIC_RAW if the kernel supports it, otherwise the wall clock. Returns the number of samples,
 * or 0 if the PTP clock cannot be read. rsv[0] is the member that newer kernel headers call
 * `clockid`. */
static size_t
phc_samples(mrd_hostclock *hostclock, mrd_phc_sample to[PHC_SAMPLES])
{
    struct ptp_sys_offset_extended extended = { .n_samples = PHC_SAMPLES };

    if (hostclock->phc_raw) {
        extended.rsv[0] = CLOCK_MONOTONIC_RAW;
        if (ioctl(hostclock->phc, PTP_SYS_OFFSET_EXTENDED, &extended) != 0) {
            hostclock->phc_raw = false;
            extended = (struct ptp_sys_offset_extended){ .n_samples = PHC_SAMPLES };
        }
    }
    if (!hostclock->phc_raw && ioctl(hostclock->phc, PTP_SYS_OFFSET_EXTENDED, &extended) != 0)
        return 0;
    for (unsigned i = 0; i < PHC_SAMPLES; i++)
        to[i] = (mrd_phc_sample){ { ptp_ns(&extended.ts[i][0]) },
                                  { ptp_ns(&extended.ts[i][1]) },
                                  { ptp_ns(&extended.ts[i][2]) } };
    return PHC_SAMPLES;
}

static void
read_phc(mrd_hostclock *hostclock, mrd_hostclock_reading *reading)
{
    mrd_phc_sample samples[PHC_SAMPLES], best;
    char text[32];
    size_t n = hostclock->phc < 0 ? 0 : phc_samples(hostclock, samples);
    int64_t to_raw = hostclock->phc_raw ? 0 : reading->raw.ns - reading->realtime.ns;

    if (n == 0 || !mrd_phc_best(samples, n, &best))
        return;
    reading->has_phc = true;
    memcpy(reading->phc_name, hostclock->phc_name, sizeof(reading->phc_name));
    reading->phc = best.phc;
    reading->phc_bracket_ns =
        mrd_ev_diff(best.after, best.before) + (hostclock->phc_raw ? 0 : reading->bracket_ns);
    reading->phc_raw =
        (mrd_local_ns){ best.before.ns + mrd_ev_diff(best.after, best.before) / 2 + to_raw };
    (void) mrd_file_line(hostclock->phc_error_path, text, sizeof(text));
    reading->phc_error_ns = mrd_phc_error(mrd_str_of(text));
}

static int64_t
read_clock(clockid_t id)
{
    struct timespec ts;

    return clock_gettime(id, &ts) == 0 ? ts.tv_sec * MRD_SEC + ts.tv_nsec : 0;
}

void
mrd_hostclock_read(mrd_hostclock *hostclock, mrd_hostclock_reading *ret)
{
    mrd_hostclock_reading reading = { .clockbound_ns = -1, .phc_error_ns = -1 };
    struct timex tx = { .modes = 0 };
    int64_t raw0, raw1;
    int state;

    mrd_clock_cross(&raw0, &reading.realtime.ns, &raw1);
    reading.raw = (mrd_local_ns){ raw0 + (raw1 - raw0) / 2 };
    reading.bracket_ns = raw1 - raw0;
    reading.monotonic = (mrd_mono_ns){ read_clock(CLOCK_MONOTONIC) };
    reading.boottime = (mrd_boot_ns){ reading.monotonic.ns + mrd_asleep_now() };
    if ((state = adjtimex(&tx)) >= 0) {
        reading.has_timex = true;
        reading.timex = mrd_timex_of(&tx, state);
    }
    if ((reading.has_clockbound =
             mrd_hostclock_clockbound(hostclock, &reading.clockbound, NULL) == MRD_OK))
        reading.clockbound_ns = mrd_clockbound_at(
            &reading.clockbound, (mrd_mono_ns){ read_clock(CLOCK_MONOTONIC_COARSE) });
    reading.has_vmclock = read_vm(hostclock, &reading.vmclock);
    read_phc(hostclock, &reading);
    *ret = reading;
}
