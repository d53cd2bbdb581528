/*
 * aggregator/core/host_reading.h - what a node said about its own clocks (hw/hostclock.h), as the
 * aggregator keeps and shows it: the quality of its wall clock. What states a bound of its own may
 * be an inequality (node_absolute.c) or a timescale link (timeline.h), nothing is ever averaged into a clock.
 *
 * Units nanoseconds. Threads: plain values.
 */
#ifndef MRD_AGGREGATOR_CORE_HOST_READING_H
#define MRD_AGGREGATOR_CORE_HOST_READING_H

#include "base/json.h"
#include "proto/wire.h"
#include "timesync/absolute.h"
#include "timesync/epoch.h"

/* What knows absolute time within a bound that it states. Never compared with each other. */
typedef enum { MRD_ABSOLUTE_PHC, MRD_ABSOLUTE_CLOCKBOUND, MRD_ABSOLUTES } mrd_absolute;

typedef struct {
    mrd_local_ns raw;
    mrd_wall_ns realtime;
    mrd_dur_ns bracket_ns;
    mrd_mono_ns monotonic;
    mrd_boot_ns boottime;
    bool has_timex, has_clockbound, has_phc, has_vmclock;
    int32_t timex_state, tai_s;
    uint32_t timex_status, clockbound_status, vm_status;
    int64_t freq_ppb;
    mrd_dur_ns maxerror_ns, esterror_ns;
    mrd_dur_ns clockbound_ns; /* -1: void */
    uint64_t clockbound_marker, vm_marker;
    char phc_name[32];
    mrd_phc_ns phc;
    mrd_local_ns phc_raw;
    mrd_dur_ns phc_bracket_ns, phc_error_ns; /* error -1: not stated */
    mrd_dur_ns vm_maxerror_ns;               /* -1: not stated */
} mrd_host_reading;

/* False: a number in it cannot be a time or an error of any clock; *to is then as it was. */
bool mrd_host_reading_take(mrd_host_reading *to, const Mrd__ClockReading *from);
/* How far the wall clock may be from UTC by the best that the node has: ClockBound, else adjtimex's
 * maxerror; -1 unknown. */
int64_t mrd_host_reading_utc_bound(const mrd_host_reading *r);
/* Absolute time by one source, at a RAW time of the node; false when it has none, or no bound. */
bool mrd_host_reading_absolute(const mrd_host_reading *r, mrd_absolute kind, mrd_abs *ret);
const char *mrd_absolute_text(mrd_absolute kind);           /* for people; static */
mrd_json *mrd_host_reading_json(const mrd_host_reading *r); /* NULL without memory */
/* The same back from JSON; false when it is none. */
bool mrd_host_reading_load(mrd_host_reading *to, const mrd_json *o);
/* Appends one line for people, without its end. */
void mrd_host_reading_text(const mrd_host_reading *r, mrd_buf *to);

/* Its times can be times. */
bool mrd_clock_break_sane(const Mrd__ClockBreak *b);
/* A break of a node's clock as it travels. A cause of a newer agent is "unknown": whatever it was, the clock
 * has no line across it. */
mrd_epoch_break mrd_clock_break_of(const Mrd__ClockBreak *b);

#endif
