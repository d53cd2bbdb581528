/*
 * base/clock.h - time types that the compiler does not let you mix, and the clocks of this machine.
 *
 * Units     int64 nanoseconds everywhere. Each clock has a type for its instants: a struct with one
 *           member. A duration is a plain mrd_dur_ns and may be negative.
 * Sign      An offset is the time of the session's reference clock minus the local time. It is
 *           positive if the session's clock is ahead.
 * Threads   Functions that read a clock may be called from any thread and from signal handlers.
 */
#ifndef MRD_BASE_CLOCK_H
#define MRD_BASE_CLOCK_H

#include <stdint.h>

typedef int64_t mrd_dur_ns; /* a length of time */

typedef struct {
    int64_t ns; /* CLOCK_MONOTONIC_RAW of one node */
} mrd_local_ns;

typedef struct {
    int64_t ns; /* CLOCK_REALTIME of one node, UTC since 1970; it jumps when it is set */
} mrd_wall_ns;

typedef struct {
    int64_t ns; /* time on the timeline that all nodes of one session share */
} mrd_sess_ns;

typedef struct {
    int64_t ns; /* CLOCK_MONOTONIC_RAW of another node, or of this node in another boot */
} mrd_peer_ns;

typedef struct {
    /* CLOCK_MONOTONIC of one node. NTP adjusts its rate, unlike the rate of CLOCK_MONOTONIC_RAW. */
    int64_t ns;
} mrd_mono_ns;

typedef struct {
    int64_t ns; /* CLOCK_BOOTTIME of one node; it continues while the machine is suspended */
} mrd_boot_ns;

typedef struct {
    /* The clock of a network card or hypervisor (PTP), in the device's own time scale. */
    int64_t ns;
} mrd_phc_ns;

typedef struct {
    int64_t ns; /* The clock of one NeuronCore, in ns since an origin of that core. */
} mrd_nc_ns;

typedef struct {
    int64_t ns; /* The time of an event or frame, on the clock that its stream uses. */
} mrd_ev_ns;

typedef struct {
    uint64_t ticks; /* A device's counter. The device defines its rate and origin. */
} mrd_dev_ticks;

/*
 * Arithmetic for each type of instant. The function names contain the clock, so that instants of
 * two clocks cannot be mixed. For mrd_local_ns:
 *   mrd_local_add(at, dur)  mrd_local_sub(at, dur)     the instant `dur` later, earlier
 *   mrd_local_diff(a, b)                               the duration a - b
 *   mrd_local_before(a, b)  mrd_local_after(a, b)      a < b, a > b
 *   mrd_local_min(a, b)     mrd_local_max(a, b)        the earlier, the later
 * The caller must rule out overflow.
 */
#define MRD_CLOCK_ARITHMETIC(clock, type)                                                          \
    static inline type clock##_add(type at, mrd_dur_ns dur)                                        \
    {                                                                                              \
        return (type){ at.ns + dur };                                                              \
    }                                                                                              \
    static inline type clock##_sub(type at, mrd_dur_ns dur)                                        \
    {                                                                                              \
        return (type){ at.ns - dur };                                                              \
    }                                                                                              \
    static inline mrd_dur_ns clock##_diff(type a, type b)                                          \
    {                                                                                              \
        return a.ns - b.ns;                                                                        \
    }                                                                                              \
    static inline _Bool clock##_before(type a, type b)                                             \
    {                                                                                              \
        return a.ns < b.ns;                                                                        \
    }                                                                                              \
    static inline _Bool clock##_after(type a, type b)                                              \
    {                                                                                              \
        return a.ns > b.ns;                                                                        \
    }                                                                                              \
    static inline type clock##_min(type a, type b)                                                 \
    {                                                                                              \
        return b.ns < a.ns ? b : a;                                                                \
    }                                                                                              \
    static inline type clock##_max(type a, type b)                                                 \
    {                                                                                              \
        return b.ns > a.ns ? b : a;                                                                \
    }
MRD_CLOCK_ARITHMETIC(mrd_local, mrd_local_ns)
MRD_CLOCK_ARITHMETIC(mrd_wall, mrd_wall_ns)
MRD_CLOCK_ARITHMETIC(mrd_sess, mrd_sess_ns)
MRD_CLOCK_ARITHMETIC(mrd_peer, mrd_peer_ns)
MRD_CLOCK_ARITHMETIC(mrd_mono, mrd_mono_ns)
MRD_CLOCK_ARITHMETIC(mrd_boot, mrd_boot_ns)
MRD_CLOCK_ARITHMETIC(mrd_phc, mrd_phc_ns)
MRD_CLOCK_ARITHMETIC(mrd_nc, mrd_nc_ns)
MRD_CLOCK_ARITHMETIC(mrd_ev, mrd_ev_ns)

#define MRD_US  1000LL
#define MRD_MS  1000000LL
#define MRD_SEC 1000000000LL

mrd_local_ns mrd_local_now(void); /* Reads CLOCK_MONOTONIC_RAW. */
mrd_wall_ns mrd_wall_now(void);   /* Reads CLOCK_REALTIME. */
/* Returns how long this machine has been suspended since boot: CLOCK_BOOTTIME - CLOCK_MONOTONIC. In
 * a time namespace the result also contains the constant offset of the namespace. The result is
 * never too high, and at most a few us too low, because an interrupted reading is repeated. */
mrd_dur_ns mrd_asleep_now(void);

/*
 * Writes an instant as UTC, "2026-03-01T12:34:56.123456789Z", and returns `text`. Uses integer
 * arithmetic and covers the years 1678 to 2262. `text` must have MRD_TIME_TEXT bytes.
 */
#define MRD_TIME_TEXT 32
char *mrd_wall_text(mrd_wall_ns at, char text[MRD_TIME_TEXT]);
/* Writes a duration for people, for example "412 ns", "3.21 us", "12.5 ms", "1.250 s",
 * "3 min 05 s", "2.5 hours", "40 days" or "55 years". */
#define MRD_DUR_TEXT 32
char *mrd_dur_text(mrd_dur_ns dur, char text[MRD_DUR_TEXT]);

#endif
