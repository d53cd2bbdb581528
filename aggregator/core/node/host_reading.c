#include "aggregator/core/node/host_reading.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/timex.h>

#include "base/clock.h"
#include "base/num.h"
#include "base/obj.h"

/* Errors and brackets wider than this say nothing about a clock. The limit also keeps their sums
 * from overflowing. */
#define ERROR_MAX (1LL << 60)

/* -1 and lower values mean "unknown". */
static bool
error_sane(int64_t ns)
{
    return ns > -ERROR_MAX && ns < ERROR_MAX;
}

static bool
reading_sane(const mrd_host_reading *r)
{
    return mrd_time_sane(r->raw.ns) && mrd_time_sane(r->realtime.ns) &&
           mrd_time_sane(r->monotonic.ns) && mrd_time_sane(r->boottime.ns) &&
           mrd_time_sane(r->phc.ns) && mrd_time_sane(r->phc_raw.ns) && r->bracket_ns >= 0 &&
           r->phc_bracket_ns >= 0 && error_sane(r->bracket_ns) && error_sane(r->phc_bracket_ns) &&
           error_sane(r->phc_error_ns) && error_sane(r->clockbound_ns) &&
           error_sane(r->maxerror_ns) && error_sane(r->esterror_ns) &&
           error_sane(r->vm_maxerror_ns) && error_sane(r->freq_ppb);
}

bool
mrd_host_reading_take(mrd_host_reading *to, const Mrd__ClockReading *m)
{
    mrd_host_reading r = { .raw = { m->raw_ns },
                           .realtime = { m->realtime_ns },
                           .bracket_ns = (int64_t) m->bracket_ns,
                           .monotonic = { m->monotonic_ns },
                           .boottime = { m->boottime_ns },
                           .has_timex = m->timex != NULL,
                           .has_clockbound = m->clockbound != NULL,
                           .has_phc = m->phc != NULL,
                           .has_vmclock = m->vmclock != NULL };

    if (r.has_timex) {
        r.timex_state = m->timex->state;
        r.timex_status = m->timex->status;
        r.freq_ppb = m->timex->freq_ppb;
        r.maxerror_ns = m->timex->maxerror_ns;
        r.esterror_ns = m->timex->esterror_ns;
        r.tai_s = m->timex->tai_s;
    }
    if (r.has_clockbound) {
        r.clockbound_status = m->clockbound->status;
        r.clockbound_ns = m->clockbound->bound_ns;
        r.clockbound_marker = m->clockbound->marker;
    }
    if (r.has_phc) {
        snprintf(r.phc_name, sizeof(r.phc_name), "%s", m->phc->name);
        r.phc = (mrd_phc_ns){ m->phc->phc_ns };
        r.phc_raw = (mrd_local_ns){ m->phc->raw_ns };
        r.phc_bracket_ns = (int64_t) m->phc->bracket_ns;
        r.phc_error_ns = m->phc->error_ns;
    }
    if (r.has_vmclock) {
        r.vm_marker = m->vmclock->marker;
        r.vm_status = m->vmclock->status;
        r.vm_maxerror_ns = m->vmclock->maxerror_ns;
    }
    if (!reading_sane(&r))
        return false;
    *to = r;
    return true;
}

/* "synchronized", "unsynchronized" (by adjtimex), "unknown". Static. */
static const char *
host_reading_state(const mrd_host_reading *r)
{
    if (!r->has_timex)
        return "unknown";
    return (r->timex_status & STA_UNSYNC) != 0 || r->timex_state == TIME_ERROR ? "unsynchronized"
                                                                               : "synchronized";
}

int64_t
mrd_host_reading_utc_bound(const mrd_host_reading *r)
{
    if (r->has_clockbound && r->clockbound_ns >= 0)
        return r->clockbound_ns;
    return r->has_timex && strcmp(host_reading_state(r), "synchronized") == 0 ? r->maxerror_ns : -1;
}

bool
mrd_host_reading_absolute(const mrd_host_reading *r, mrd_absolute kind, mrd_abs *ret)
{
    if (kind == MRD_ABSOLUTE_PHC && r->has_phc && r->phc_error_ns >= 0)
        *ret = (mrd_abs){ { r->phc_raw.ns },
                          { r->phc.ns },
                          r->phc_error_ns + r->phc_bracket_ns / 2 + 1 };
    else if (kind == MRD_ABSOLUTE_CLOCKBOUND && r->has_clockbound && r->clockbound_ns >= 0)
        *ret = (mrd_abs){ { r->raw.ns },
                          { r->realtime.ns },
                          r->clockbound_ns + r->bracket_ns / 2 + 1 };
    else
        return false;
    /* Both values come from a node, so they must not overflow a sum. */
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
put_marker(mrd_json *o, const char *key, uint64_t marker)
{
    char hex[24];

    snprintf(hex, sizeof(hex), "%016" PRIx64, marker);
    mrd_json_set(o, key, mrd_json_new_str(hex));
}

mrd_json *
mrd_host_reading_json(const mrd_host_reading *r)
{
    mrd_json *o = mrd_json_new_object(), *p;

    mrd_json_set(o, "local_ns", mrd_json_new_int(r->raw.ns));
    mrd_json_set(o, "wall_ns", mrd_json_new_int(r->realtime.ns));
    mrd_json_set(o, "bracket_ns", mrd_json_new_int(r->bracket_ns));
    mrd_json_set(o, "monotonic_ns", mrd_json_new_int(r->monotonic.ns));
    mrd_json_set(o, "boottime_ns", mrd_json_new_int(r->boottime.ns));
    mrd_json_set(o, "wall_state", mrd_json_new_str(host_reading_state(r)));
    mrd_json_set(o, "utc_bound_ns", mrd_json_new_int(mrd_host_reading_utc_bound(r)));
    if (r->has_timex) {
        mrd_json_set(o, "timex", p = mrd_json_new_object());
        mrd_json_set(p, "status", mrd_json_new_int(r->timex_status));
        mrd_json_set(p, "freq_ppb", mrd_json_new_int(r->freq_ppb));
        mrd_json_set(p, "maxerror_ns", mrd_json_new_int(r->maxerror_ns));
        mrd_json_set(p, "esterror_ns", mrd_json_new_int(r->esterror_ns));
        mrd_json_set(p, "tai_s", mrd_json_new_int(r->tai_s));
    }
    if (r->has_clockbound) {
        mrd_json_set(o, "clockbound", p = mrd_json_new_object());
        mrd_json_set(p, "status", mrd_json_new_str(clockbound_text(r->clockbound_status)));
        mrd_json_set(p, "bound_ns", mrd_json_new_int(r->clockbound_ns));
        put_marker(p, "marker", r->clockbound_marker);
    }
    if (r->has_phc) {
        mrd_json_set(o, "phc", p = mrd_json_new_object());
        mrd_json_set(p, "name", mrd_json_new_str(r->phc_name));
        mrd_json_set(p, "phc_ns", mrd_json_new_int(r->phc.ns));
        mrd_json_set(p, "local_ns", mrd_json_new_int(r->phc_raw.ns));
        mrd_json_set(p, "bracket_ns", mrd_json_new_int(r->phc_bracket_ns));
        mrd_json_set(p, "error_ns", mrd_json_new_int(r->phc_error_ns));
    }
    if (r->has_vmclock) {
        mrd_json_set(o, "vmclock", p = mrd_json_new_object());
        put_marker(p, "marker", r->vm_marker);
        mrd_json_set(p, "status", mrd_json_new_int(r->vm_status));
        mrd_json_set(p, "maxerror_ns", mrd_json_new_int(r->vm_maxerror_ns));
    }
    return o;
}

/* ---- Reading a manifest ---- */

static uint64_t
get_marker(const mrd_json *o)
{
    return strtoull(mrd_json_str(o, "marker", "0"), NULL, 16);
}

/* The manifest has the meaning of the kernel's state, not its number. */
static void
load_timex(mrd_host_reading *r, const mrd_json *o, bool unsynchronized)
{
    r->has_timex = o != NULL;
    r->timex_status = (uint32_t) mrd_json_int(o, "status", 0);
    r->timex_state = unsynchronized && (r->timex_status & STA_UNSYNC) == 0 ? TIME_ERROR : TIME_OK;
    r->freq_ppb = mrd_json_int(o, "freq_ppb", 0);
    r->maxerror_ns = mrd_json_int(o, "maxerror_ns", 0);
    r->esterror_ns = mrd_json_int(o, "esterror_ns", 0);
    r->tai_s = (int32_t) mrd_json_int(o, "tai_s", 0);
}

static void
load_clockbound(mrd_host_reading *r, const mrd_json *o)
{
    const char *status = mrd_json_str(o, "status", "");

    r->has_clockbound = o != NULL;
    for (uint32_t i = 0; i < MRD_COUNT(clockbound_names); i++) {
        if (strcmp(status, clockbound_names[i]) == 0)
            r->clockbound_status = i;
    }
    r->clockbound_ns = mrd_json_int(o, "bound_ns", -1);
    r->clockbound_marker = get_marker(o);
}

static void
load_phc(mrd_host_reading *r, const mrd_json *o)
{
    r->has_phc = o != NULL;
    snprintf(r->phc_name, sizeof(r->phc_name), "%s", mrd_json_str(o, "name", ""));
    r->phc = (mrd_phc_ns){ mrd_json_int(o, "phc_ns", 0) };
    r->phc_raw = (mrd_local_ns){ mrd_json_int(o, "local_ns", 0) };
    r->phc_bracket_ns = mrd_json_int(o, "bracket_ns", 0);
    r->phc_error_ns = mrd_json_int(o, "error_ns", -1);
}

bool
mrd_host_reading_load(mrd_host_reading *to, const mrd_json *o)
{
    const mrd_json *vm = mrd_json_get(o, "vmclock");

    if (!mrd_json_is_object(o))
        return false;
    *to = (mrd_host_reading){ .raw = { mrd_json_int(o, "local_ns", 0) },
                              .realtime = { mrd_json_int(o, "wall_ns", 0) },
                              .bracket_ns = mrd_json_int(o, "bracket_ns", 0),
                              .monotonic = { mrd_json_int(o, "monotonic_ns", 0) },
                              .boottime = { mrd_json_int(o, "boottime_ns", 0) },
                              .has_vmclock = vm != NULL,
                              .vm_marker = get_marker(vm),
                              .vm_status = (uint32_t) mrd_json_int(vm, "status", 0),
                              .vm_maxerror_ns = mrd_json_int(vm, "maxerror_ns", -1) };
    load_timex(to, mrd_json_get(o, "timex"),
               strcmp(mrd_json_str(o, "wall_state", ""), "unsynchronized") == 0);
    load_clockbound(to, mrd_json_get(o, "clockbound"));
    load_phc(to, mrd_json_get(o, "phc"));
    if (!reading_sane(to)) {
        *to = (mrd_host_reading){ 0 };
        return false;
    }
    return true;
}

void
mrd_host_reading_text(const mrd_host_reading *r, mrd_buf *to)
{
    char text[MRD_DUR_TEXT];
    int64_t bound = mrd_host_reading_utc_bound(r);

    mrd_buf_fmt(to, "wall clock %s", host_reading_state(r));
    if (bound >= 0)
        mrd_buf_fmt(to, ", within %s of UTC by %s", mrd_dur_text(bound, text),
                    r->has_clockbound && r->clockbound_ns >= 0 ? "ClockBound" : "adjtimex");
    if (r->has_clockbound)
        mrd_buf_fmt(to, "; ClockBound %s", clockbound_text(r->clockbound_status));
    if (r->has_phc) {
        mrd_buf_fmt(to, "; PTP clock %s read within %s", r->phc_name,
                    mrd_dur_text(r->phc_bracket_ns, text));
        if (r->phc_error_ns >= 0)
            mrd_buf_fmt(to, ", its error at most %s", mrd_dur_text(r->phc_error_ns, text));
    }
    if (r->has_vmclock)
        mrd_buf_fmt(to, "; VMClock marker %016" PRIx64, r->vm_marker);
    if (!r->has_clockbound && !r->has_phc && !r->has_vmclock)
        mrd_buf_text(to, "; no ClockBound, PTP clock or VMClock here");
}

mrd_epoch_break
mrd_clock_break_of(const Mrd__ClockBreak *b)
{
    bool known = b->cause < MRD_EPOCH_CAUSES;

    return (mrd_epoch_break){ .cause = known ? (mrd_epoch_cause) b->cause : MRD_EPOCH_UNKNOWN,
                              .after = { b->after_ns },
                              .before = { b->before_ns },
                              .keep_rate = known && b->keep_rate,
                              .lost = known ? b->lost_ns : 0 };
}

bool
mrd_clock_break_sane(const Mrd__ClockBreak *b)
{
    return mrd_time_sane(b->after_ns) && mrd_time_sane(b->before_ns) && mrd_time_sane(b->lost_ns);
}
