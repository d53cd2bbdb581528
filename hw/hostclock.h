/*
 * hw/hostclock.h - reads everything that a node can know about its own clocks.
 *
 * It reads CLOCK_MONOTONIC_RAW (RAW), CLOCK_REALTIME, CLOCK_MONOTONIC and CLOCK_BOOTTIME together.
 * If the machine has them, it also reads the kernel's clock state (adjtimex), AWS ClockBound's
 * shared memory, a PTP hardware clock and the hypervisor's VMClock page. A missing source is not an
 * error.
 *
 * The readings show how good the UTC times of a profile are, and when a clock was disrupted. If two
 * nodes have absolute time with a known error bound, this also limits the offset between their
 * clocks (docs/reference/timesync.md section 4).
 *
 * Units    nanoseconds, ppb.
 * Sign     a bound is the maximum distance of the wall clock from UTC, in either direction.
 * Cost     one mrd_hostclock_read is some 20 clock reads, an adjtimex and, with a PTP clock, one
 *          ioctl of 3 samples (the device allows 125 reads a second).
 * Threads  a mrd_hostclock belongs to one thread; the parsers are stateless.
 * Source   docs/reference/timesync.md section 2 has the facts on Linux clocks. The others are from
 *          docs/PROTOCOL.md of aws/clock-bound (shared memory versions 1 and 2), from
 *          linux/vmclock-abi.h version 1, and from linux/ptp_clock.h.
 */
#ifndef MRD_HW_HOSTCLOCK_H
#define MRD_HW_HOSTCLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/timex.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"

/* ---- Parsers ---- */

typedef enum {
    MRD_CLOCKBOUND_UNKNOWN,
    MRD_CLOCKBOUND_SYNCHRONIZED,
    MRD_CLOCKBOUND_FREE_RUNNING,
    MRD_CLOCKBOUND_DISRUPTED
} mrd_clockbound_status;

typedef struct {
    /* CLOCK_MONOTONIC_COARSE times: when bound_ns was valid, and until when it may be used */
    mrd_mono_ns as_of, void_after;
    mrd_dur_ns bound_ns; /* error bound of the wall clock at as_of */
    /* changes when the clock is disrupted; 0 in version 1 of the segment */
    uint64_t marker;
    uint32_t max_drift_ppb;
    uint32_t status; /* mrd_clockbound_status */
} mrd_clockbound;

/* Parses the shared memory segment of ClockBound. Errors: TRUNCATED, FORMAT (magic number),
 * VERSION, AGAIN (the daemon is writing it, or has not yet written it), CORRUPT (implausible times
 * or bound). */
mrd_err mrd_clockbound_parse(mrd_bytes segment, mrd_clockbound *ret, mrd_why *why);
/* Returns the error bound of the wall clock at a later CLOCK_MONOTONIC_COARSE time. The bound grows
 * by max_drift_ppb. Returns -1 if there is no valid bound. This is the case after void_after, or if
 * the status is neither SYNCHRONIZED nor FREE_RUNNING. */
int64_t mrd_clockbound_at(const mrd_clockbound *clockbound, mrd_mono_ns monotonic);

typedef struct {
    /* changes when the CPU's counter is disrupted, for example by live migration */
    uint64_t marker;
    uint32_t status; /* 0 unknown, 1 initializing, 2 synchronized, 3 free running, 4 unreliable */
    mrd_dur_ns maxerror_ns; /* -1 if the hypervisor does not state it */
} mrd_vmclock;

/* Parses the page of /dev/vmclock0. Errors: TRUNCATED, FORMAT, VERSION, AGAIN (being written). */
mrd_err mrd_vmclock_parse(mrd_bytes page, mrd_vmclock *ret, mrd_why *why);

typedef struct {
    /* system clock before the PTP clock was read: RAW, or the wall clock if the kernel does not
     * support RAW */
    mrd_ev_ns before;
    mrd_phc_ns phc;
    mrd_ev_ns after;
} mrd_phc_sample;

/* Stores the sample with the shortest time between its two system times. Returns false if the
 * system clock ran backward in all samples. */
bool mrd_phc_best(const mrd_phc_sample *samples, size_t n, mrd_phc_sample *ret_best);
/* Parses the error bound in ns that the driver of a PTP clock states, for example "37" or "37\n".
 * Returns -1 if the text is not a number. */
int64_t mrd_phc_error(mrd_str text);

typedef struct {
    int32_t state;   /* state of the kernel's clock, TIME_OK to TIME_ERROR */
    uint32_t status; /* combination of STA_* bits */
    int64_t freq_ppb;
    mrd_dur_ns maxerror_ns, esterror_ns;
    int32_t tai_s;
} mrd_timex;

/* Converts the result of adjtimex(). `state` is its return value. */
mrd_timex mrd_timex_of(const struct timex *tx, int state);

/* ---- Reading ---- */

#define MRD_HOSTCLOCK_NAME 32

typedef struct {
    mrd_local_ns raw; /* middle of the two RAW readings before and after REALTIME */
    mrd_wall_ns realtime;
    mrd_dur_ns bracket_ns;
    mrd_mono_ns monotonic; /* MONOTONIC and BOOTTIME, read right after REALTIME */
    mrd_boot_ns boottime;
    bool has_timex, has_clockbound, has_phc, has_vmclock;
    mrd_timex timex;
    mrd_clockbound clockbound;
    mrd_dur_ns clockbound_ns; /* error bound of the wall clock now; -1 if there is no valid bound */
    char phc_name[MRD_HOSTCLOCK_NAME];
    /* `phc` and `phc_raw` are PTP clock and RAW at the same instant, within phc_bracket_ns */
    mrd_phc_ns phc;
    mrd_local_ns phc_raw;
    mrd_dur_ns phc_bracket_ns;
    mrd_dur_ns phc_error_ns; /* error bound of the PTP clock; -1 if the device states none */
    mrd_vmclock vmclock;
} mrd_hostclock_reading;

typedef struct {
    /* directories of devices, sysfs and runtime files; NULL means /dev, /sys and /var/run */
    const char *dev_root, *sys_root, *run_root;
} mrd_hostclock_options;

typedef struct mrd_hostclock mrd_hostclock;

/* Opens the clock devices that this machine has. Returns NULL if out of memory. */
mrd_hostclock *mrd_hostclock_open(const mrd_hostclock_options *options);
void mrd_hostclock_close(mrd_hostclock *hostclock); /* ignores NULL */
/* Reads ClockBound's segment. Errors: NOTFOUND if there is none, or only one that this release cannot
 * read, and those of mrd_clockbound_parse. *why, which may be NULL, names the file. */
mrd_err mrd_hostclock_clockbound(const mrd_hostclock *hostclock, mrd_clockbound *ret, mrd_why *why);
/* Reads all clocks. A clock that cannot be read is marked as absent. */
void mrd_hostclock_read(mrd_hostclock *hostclock, mrd_hostclock_reading *ret_reading);
/* Reads only the disruption marker of the VMClock page. Returns false if there is no VMClock. */
bool mrd_hostclock_marker(mrd_hostclock *hostclock, uint64_t *ret_marker);

#endif
