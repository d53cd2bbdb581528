#include "aggregator/core/node/host_reading.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/timex.h>

#include "base/clock.h"
#include "base/num.h"
#include "base/obj.h"

/* Largest valid error of a clock, and largest valid time between two clock reads, in ns. Larger
 * values are useless, and sums of them could overflow. */
#define ERROR_MAX (1LL << 60)

/* Returns true if the error is in the valid range. A negative error means unknown, and is valid. */
static bool
error_sane(int64_t ns)
{
    return ns > -ERROR_MAX && ns < ERROR_MAX;
}

static bool
reading_sane(const mrd_host_reading *reading)
{
    return mrd_time_sane(reading->raw.ns) && mrd_time_sane(reading->realtime.ns) &&
           mrd_time_sane(reading->monotonic.ns) && mrd_time_sane(reading->boottime.ns) &&
           mrd_time_sane(reading->phc.ns) && mrd_time_sane(reading->phc_raw.ns) &&
           reading->bracket_ns >= 0 && reading->phc_bracket_ns >= 0 &&
           error_sane(reading->bracket_ns) && error_sane(reading->phc_bracket_ns) &&
           error_sane(reading->phc_error_ns) && error_sane(reading->clockbound_ns) &&
           error_sane(reading->maxerror_ns) && error_sane(reading->esterror_ns) &&
           error_sane(reading->vm_maxerror_ns) && error_sane(reading->freq_ppb);
}

bool
mrd_host_reading_take(mrd_host_reading *to, const Mrd__ClockReading *reading)
{
    mrd_host_reading host_reading = { .raw = { reading->raw_ns },
                                      .realtime = { reading->realtime_ns },
                                      .bracket_ns = (int64_t) reading->bracket_ns,
                                      .monotonic = { reading->monotonic_ns },
                                      .boottime = { reading->boottime_ns },
                                      .has_timex = reading->timex != NULL,
                                      .has_clockbound = reading->clockbound != NULL,
                                      .has_phc = reading->phc != NULL,
                                      .has_vmclock = reading->vmclock != NULL };

    if (host_reading.has_timex) {
        host_reading.timex_state = reading->timex->state;
        host_reading.timex_status = reading->timex->status;
        host_reading.freq_ppb = reading->timex->freq_ppb;
        host_reading.maxerror_ns = reading->timex->maxerror_ns;
        host_reading.esterror_ns = reading->timex->esterror_ns;
        host_reading.tai_s = reading->timex->tai_s;
    }
    if (host_reading.has_clockbound) {
        host_reading.clockbound_status = reading->clockbound->status;
        host_reading.clockbound_ns = reading->clockbound->bound_ns;
        host_reading.clockbound_marker = reading->clockbound->marker;
    }
    if (host_reading.has_phc) {
        snprintf(host_reading.phc_name, sizeof(host_reading.phc_name), "%s", reading->phc->name);
        host_reading.phc = (mrd_phc_ns){ reading->phc->phc_ns };
        host_reading.phc_raw = (mrd_local_ns){ reading->phc->raw_ns };
        host_reading.phc_bracket_ns = (int64_t) reading->phc->bracket_ns;
        host_reading.phc_error_ns = reading->phc->error_ns;
    }
    if (host_reading.has_vmclock) {
        host_reading.vm_marker = reading->vmclock->marker;
        host_reading.vm_status = reading->vmclock->status;
        host_reading.vm_maxerror_ns = reading->vmclock->maxerror_ns;
    }
    if (!reading_sane(&host_reading))
        return false;
    *to = host_reading;
    return true;
}

/* Returns the synchronization state of the wall clock by adjtimex: "synchronized", "unsynchronized"
 * or "unknown". */
static const char *
host_reading_state(const mrd_host_reading *reading)
{
    if (!reading->has_timex)
        return "unknown";
    return (reading->timex_status & STA_UNSYNC) != 0 || reading->timex_state == TIME_ERROR
               ? "unsynchronized"
               : "synchronized";
}

int64_t
mrd_host_reading_utc_bound(const mrd_host_reading *reading)
{
    if (reading->has_clockbound && reading->clockbound_ns >= 0)
        return reading->clockbound_ns;
    return reading->has_timex && strcmp(host_reading_state(reading), "synchronized") == 0
               ? reading->maxerror_ns
               : -1;
}

bool
mrd_host_reading_absolute(const mrd_host_reading *reading, mrd_absolute kind, mrd_abs *ret)
{
    if (kind == MRD_ABSOLUTE_PHC && reading->has_phc && reading->phc_error_ns >= 0)
        *ret = (mrd_abs){ { reading->phc_raw.ns },
                          { reading->phc.ns },
                          reading->phc_error_ns + reading->phc_bracket_ns / 2 + 1 };
    else if (kind == MRD_ABSOLUTE_CLOCKBOUND && reading->has_clockbound &&
             reading->clockbound_ns >= 0)
        *ret = (mrd_abs){ { reading->raw.ns },
                          { reading->realtime.ns },
                          reading->clockbound_ns + reading->bracket_ns / 2 + 1 };
    else
        return false;
    /* the values come from a node, so limit them to avoid overflows */
    return ret->e < MRD_SEC && ret->at.ns > INT64_MIN / 4 && ret->at.ns < INT64_MAX / 4 &&
           ret->utc.ns > 0 && ret->utc.ns < INT64_MAX / 2;
}

const char *
mrd_absolute_text(mrd_absolute kind)
{
    return kind == MRD_ABSOLUTE_PHC ? "PTP clock" : "ClockBound";
}

static const char *const clockbound_names[] = { "unknown", "synchronized", "free running",
                                                "disrupted" };

static const char *
clockbound_text(uint32_t status)
{
    return status < MRD_COUNT(clockbound_names) ? clockbound_names[status] : "unknown";
}

static void
put_marker(mrd_json *json, const char *key, uint64_t marker)
{
    char hex[24];

    snprintf(hex, sizeof(hex), "%016" PRIx64, marker);
    mrd_json_set(json, key, mrd_json_new_str(hex));
}

mrd_json *
mrd_host_reading_json(const mrd_host_reading *reading)
{
    mrd_json *json = mrd_json_new_object(), *p;

    mrd_json_set(json, "local_ns", mrd_json_new_int(reading->raw.ns));
    mrd_json_set(json, "wall_ns", mrd_json_new_int(reading->realtime.ns));
    mrd_json_set(json, "bracket_ns", mrd_json_new_int(reading->bracket_ns));
    mrd_json_set(json, "monotonic_ns", mrd_json_new_int(reading->monotonic.ns));
    mrd_json_set(json, "boottime_ns", mrd_json_new_int(reading->boottime.ns));
    mrd_json_set(json, "wall_state", mrd_json_new_str(host_reading_state(reading)));
    mrd_json_set(json, "utc_bound_ns", mrd_json_new_int(mrd_host_reading_utc_bound(reading)));
    if (reading->has_timex) {
        mrd_json_set(json, "timex", p = mrd_json_new_object());
        mrd_json_set(p, "status", mrd_json_new_int(reading->timex_status));
        mrd_json_set(p, "freq_ppb", mrd_json_new_int(reading->freq_ppb));
        mrd_json_set(p, "maxerror_ns", mrd_json_new_int(reading->maxerror_ns));
        mrd_json_set(p, "esterror_ns", mrd_json_new_int(reading->esterror_ns));
        mrd_json_set(p, "tai_s", mrd_json_new_int(reading->tai_s));
    }
    if (reading->has_clockbound) {
        mrd_json_set(json, "clockbound", p = mrd_json_new_object());
        mrd_json_set(p, "status", mrd_json_new_str(clockbound_text(reading->clockbound_status)));
        mrd_json_set(p, "bound_ns", mrd_json_new_int(reading->clockbound_ns));
        put_marker(p, "marker", reading->clockbound_marker);
    }
    if (reading->has_phc) {
        mrd_json_set(json, "phc", p = mrd_json_new_object());
        mrd_json_set(p, "name", mrd_json_new_str(reading->phc_name));
        mrd_json_set(p, "phc_ns", mrd_json_new_int(reading->phc.ns));
        mrd_json_set(p, "local_ns", mrd_json_new_int(reading->phc_raw.ns));
        mrd_json_set(p, "bracket_ns", mrd_json_new_int(reading->phc_bracket_ns));
        mrd_json_set(p, "error_ns", mrd_json_new_int(reading->phc_error_ns));
    }
    if (reading->has_vmclock) {
        mrd_json_set(json, "vmclock", p = mrd_json_new_object());
        put_marker(p, "marker", reading->vm_marker);
        mrd_json_set(p, "status", mrd_json_new_int(reading->vm_status));
        mrd_json_set(p, "maxerror_ns", mrd_json_new_int(reading->vm_maxerror_ns));
    }
    return json;
}

/* ---- Readings in a manifest ---- */

static uint64_t
get_marker(const mrd_json *json)
{
    return strtoull(mrd_json_str(json, "marker", "0"), NULL, 16);
}

/* Loads the state of adjtimex. The manifest has it as text, not as the kernel's number. */
static void
load_timex(mrd_host_reading *reading, const mrd_json *json, bool unsynchronized)
{
    reading->has_timex = json != NULL;
    reading->timex_status = (uint32_t) mrd_json_int(json, "status", 0);
    reading->timex_state =
        unsynchronized && (reading->timex_status & STA_UNSYNC) == 0 ? TIME_ERROR : TIME_OK;
    reading->freq_ppb = mrd_json_int(json, "freq_ppb", 0);
    reading->maxerror_ns = mrd_json_int(json, "maxerror_ns", 0);
    reading->esterror_ns = mrd_json_int(json, "esterror_ns", 0);
    reading->tai_s = (int32_t) mrd_json_int(json, "tai_s", 0);
}

static void
load_clockbound(mrd_host_reading *reading, const mrd_json *json)
{
    const char *status = mrd_json_str(json, "status", "");

    reading->has_clockbound = json != NULL;
    for (uint32_t i = 0; i < MRD_COUNT(clockbound_names); i++) {
        if (strcmp(status, clockbound_names[i]) == 0)
            reading->clockbound_status = i;
    }
    reading->clockbound_ns = mrd_json_int(json, "bound_ns", -1);
    reading->clockbound_marker = get_marker(json);
}

static void
load_phc(mrd_host_reading *reading, const mrd_json *json)
{
    reading->has_phc = json != NULL;
    snprintf(reading->phc_name, sizeof(reading->phc_name), "%s", mrd_json_str(json, "name", ""));
    reading->phc = (mrd_phc_ns){ mrd_json_int(json, "phc_ns", 0) };
    reading->phc_raw = (mrd_local_ns){ mrd_json_int(json, "local_ns", 0) };
    reading->phc_bracket_ns = mrd_json_int(json, "bracket_ns", 0);
    reading->phc_error_ns = mrd_json_int(json, "error_ns", -1);
}

bool
mrd_host_reading_load(mrd_host_reading *to, const mrd_json *json)
{
    const mrd_json *vm = mrd_json_get(json, "vmclock");

    if (!mrd_json_is_object(json))
        return false;
    *to = (mrd_host_reading){ .raw = { mrd_json_int(json, "local_ns", 0) },
                              .realtime = { mrd_json_int(json, "wall_ns", 0) },
                              .bracket_ns = mrd_json_int(json, "bracket_ns", 0),
                              .monotonic = { mrd_json_int(json, "monotonic_ns", 0) },
                              .boottime = { mrd_json_int(json, "boottime_ns", 0) },
                              .has_vmclock = vm != NULL,
                              .vm_marker = get_marker(vm),
                              .vm_status = (uint32_t) mrd_json_int(vm, "status", 0),
                              .vm_maxerror_ns = mrd_json_int(vm, "maxerror_ns", -1) };
    load_timex(to, mrd_json_get(json, "timex"),
               strcmp(mrd_json_str(json, "wall_state", ""), "unsynchronized") == 0);
    load_clockbound(to, mrd_json_get(json, "clockbound"));
    load_phc(to, mrd_json_get(json, "phc"));
    if (!reading_sane(to)) {
        *to = (mrd_host_reading){ 0 };
        return false;
    }
    return true;
}

void
mrd_host_reading_text(const mrd_host_reading *reading, mrd_buf *to)
{
    char text[MRD_DUR_TEXT];
    int64_t bound = mrd_host_reading_utc_bound(reading);

    mrd_buf_fmt(to, "wall clock %s", host_reading_state(reading));
    if (bound >= 0)
        mrd_buf_fmt(to, ", within %s of UTC by %s", mrd_dur_text(bound, text),
                    reading->has_clockbound && reading->clockbound_ns >= 0 ? "ClockBound"
                                                                           : "adjtimex");
    if (reading->has_clockbound)
        mrd_buf_fmt(to, "; ClockBound %s", clockbound_text(reading->clockbound_status));
    if (reading->has_phc) {
        mrd_buf_fmt(to, "; PTP clock %s read within %s", reading->phc_name,
                    mrd_dur_text(reading->phc_bracket_ns, text));
        if (reading->phc_error_ns >= 0)
            mrd_buf_fmt(to, ", its error at most %s", mrd_dur_text(reading->phc_error_ns, text));
    }
    if (reading->has_vmclock)
        mrd_buf_fmt(to, "; VMClock marker %016" PRIx64, reading->vm_marker);
    if (!reading->has_clockbound && !reading->has_phc && !reading->has_vmclock)
        mrd_buf_text(to, "; no ClockBound, PTP clock or VMClock here");
}

mrd_epoch_break
mrd_clock_break_of(const Mrd__ClockBreak *clock_break)
{
    bool known = clock_break->cause < MRD_EPOCH_CAUSES;

    return (mrd_epoch_break){ .cause =
                                  known ? (mrd_epoch_cause) clock_break->cause : MRD_EPOCH_UNKNOWN,
                              .after = { clock_break->after_ns },
                              .before = { clock_break->before_ns },
                              .keep_rate = known && clock_break->keep_rate,
                              .lost = known ? clock_break->lost_ns : 0 };
}

bool
mrd_clock_break_sane(const Mrd__ClockBreak *clock_break)
{
    return mrd_time_sane(clock_break->after_ns) && mrd_time_sane(clock_break->before_ns) &&
           mrd_time_sane(clock_break->lost_ns);
}
