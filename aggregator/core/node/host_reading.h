/*
 * aggregator/core/node/host_reading.h - a node's readings of the clocks of its machine
 * (hw/hostclock.h), as the aggregator stores and shows them.
 *
 * If a clock source states its error bound, its reading may narrow the estimate of the node's clock
 * (aggregator/clock/node_absolute.c) or link two timescales (aggregator/clock/timeline.h). Readings
 * are never averaged into a clock.
 *
 * Units    Times are nanoseconds.
 * Threads  The structs are plain values without locks, so each one belongs to one thread.
 */
#ifndef MRD_AGGREGATOR_CORE_NODE_HOST_READING_H
#define MRD_AGGREGATOR_CORE_NODE_HOST_READING_H

#include "base/conf/json.h"
#include "proto/wire.h"
#include "timesync/absolute.h"
#include "timesync/epoch.h"

/* Sources of absolute time that state a bound. They are never compared with each other. */
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
    mrd_dur_ns clockbound_ns; /* error bound of ClockBound; -1 if it has no valid value */
    uint64_t clockbound_marker, vm_marker;
    char phc_name[32];
    mrd_phc_ns phc;
    mrd_local_ns phc_raw;
    /* time that reading the PTP clock took, and its stated error; phc_error_ns is -1 if none is
     * stated */
    mrd_dur_ns phc_bracket_ns, phc_error_ns;
    mrd_dur_ns vm_maxerror_ns; /* error that the hypervisor states; -1 if none */
} mrd_host_reading;

/* Takes a reading from a message. Returns false, and leaves *to unchanged, if a number in `from` is
 * not a possible time or error. */
bool mrd_host_reading_take(mrd_host_reading *to, const Mrd__ClockReading *from);
/* Returns the largest possible difference between the wall clock and UTC in ns, -1 if unknown. This
 * is the bound that ClockBound states if it runs on the node, otherwise the maxerror of
 * adjtimex. */
int64_t mrd_host_reading_utc_bound(const mrd_host_reading *reading);
/* Gets the node's RAW clock and the absolute time of one source at the same moment. Returns false
 * if the node does not have this source or the source states no bound. */
bool mrd_host_reading_absolute(const mrd_host_reading *reading, mrd_absolute kind, mrd_abs *ret);
/* name of the source for messages; a static string */
const char *mrd_absolute_text(mrd_absolute kind);
mrd_json *
mrd_host_reading_json(const mrd_host_reading *reading); /* Returns NULL if out of memory. */
/* Loads the clock reading from JSON. Returns false if the JSON is not valid. */
bool mrd_host_reading_load(mrd_host_reading *to, const mrd_json *json);
/* Appends the clock reading as one line of text, without a line end. */
void mrd_host_reading_text(const mrd_host_reading *reading, mrd_buf *to);

/* Returns true if the times of a clock's break are possible times of a clock. */
bool mrd_clock_break_sane(const Mrd__ClockBreak *clock_break);
/* Decodes a break of a node's clock. Times before and after a break have no continuous relation to
 * session time. A cause that only a newer agent knows becomes "unknown". */
mrd_epoch_break mrd_clock_break_of(const Mrd__ClockBreak *clock_break);

#endif
