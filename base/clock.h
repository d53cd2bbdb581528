/*
 * base/clock.h - time types that the compiler refuses to mix, and the clocks of this machine.
 *
 * Units    int64 nanoseconds everywhere. An instant is a one-member struct named after its clock; a
 *          duration is a plain mrd_dur_ns and may be negative.
 * Sign     clock offset = session - local: positive when the local clock is behind the session's.
 * Threads  the read functions may be called from any thread and are async-signal-safe.
 */
#ifndef MRD_BASE_CLOCK_H
#define MRD_BASE_CLOCK_H

#include <stdint.h>

typedef int64_t mrd_dur_ns; /* a length of time */

typedef struct {
    int64_t ns; /* CLOCK_MONOTONIC_RAW of one node */
} mrd_local_ns;

typedef struct {
    int64_t ns; /* CLOCK_REALTIME of one node: UTC epoch, may step */
} mrd_wall_ns;

typedef struct {
    int64_t ns; /* the aligned timeline of one session */
} mrd_sess_ns;

typedef struct {
    int64_t ns; /* CLOCK_MONOTONIC_RAW of another node, or of this one in another boot */
} mrd_peer_ns;

typedef struct {
    int64_t ns; /* CLOCK_MONOTONIC of one node: as RAW, at the rate that NTP gives it */
} mrd_mono_ns;

typedef struct {
    int64_t ns; /* CLOCK_BOOTTIME of one node: with the time it was suspended */
} mrd_boot_ns;

typedef struct {
    int64_t ns; /* a network card's or the hypervisor's clock (PTP), on the scale that it keeps */
} mrd_phc_ns;

typedef struct {
    int64_t ns; /* the clock of one NeuronCore, in ns of an origin of its own */
} mrd_nc_ns;

typedef struct {
    int64_t ns; /* of an event or frame: on the clock or timeline that its stream names */
} mrd_ev_ns;

typedef struct {
    uint64_t ticks; /* a device's own counter; its rate and origin are the device's */
} mrd_dev_ticks;

/*
 * What instants of one clock can be asked: the names carry the clock, so that two clocks do not mix.
 *   mrd_local_add(at, dur)  mrd_local_sub(at, dur)     an instant that much later, earlier
 *   mrd_local_diff(a, b)                               the duration a - b
 *   mrd_local_before(a, b)  mrd_local_after(a, b)      a < b, a > b
 *   mrd_local_min(a, b)     mrd_local_max(a, b)        the earlier, the later
 * and so for the others. Nothing here guards against overflow.
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

mrd_local_ns mrd_local_now(void); /* CLOCK_MONOTONIC_RAW, 24 ns a call where measured */
mrd_wall_ns mrd_wall_now(void);   /* CLOCK_REALTIME */
/* How long this machine was suspended since it booted, while CLOCK_MONOTONIC and its RAW stood:
 * CLOCK_BOOTTIME - CLOCK_MONOTONIC, in a time namespace plus a constant. At most what it is, and
 * less by no more than a few us, because a reading that was interrupted is taken again. */
mrd_dur_ns mrd_asleep_now(void);

/*
 * Writes ns as UTC "2026-03-01T12:34:56.123456789Z" (integer arithmetic; years 1678 to 2262) and
 * returns text, which must hold MRD_TIME_TEXT bytes.
 */
#define MRD_TIME_TEXT 32
char *mrd_wall_text(mrd_wall_ns at, char text[MRD_TIME_TEXT]);
/* Writes a duration for people: "412 ns", "3.21 us", "12.5 ms", "1.250 s", "3 min 05 s", "2.5 hours",
 * "40 days", "55 years". */
#define MRD_DUR_TEXT 32
char *mrd_dur_text(mrd_dur_ns dur, char text[MRD_DUR_TEXT]);

#endif
