#include "proto/clock_reading.h"

#include <string.h>

void
mrd_clock_reading_fill(mrd_clock_reading *to, const mrd_hostclock_reading *from)
{
    mrd__clock_reading__init(&to->m);
    to->m.raw_ns = from->raw.ns;
    to->m.realtime_ns = from->realtime.ns;
    to->m.bracket_ns = (uint64_t) from->bracket_ns;
    to->m.monotonic_ns = from->monotonic.ns;
    to->m.boottime_ns = from->boottime.ns;
    if (from->has_timex) {
        mrd__clock_timex__init(&to->timex);
        to->timex.state = from->timex.state;
        to->timex.status = from->timex.status;
        to->timex.freq_ppb = from->timex.freq_ppb;
        to->timex.maxerror_ns = from->timex.maxerror_ns;
        to->timex.esterror_ns = from->timex.esterror_ns;
        to->timex.tai_s = from->timex.tai_s;
        to->m.timex = &to->timex;
    }
    if (from->has_clockbound) {
        mrd__clock_bound__init(&to->bound);
        to->bound.status = from->clockbound.status;
        to->bound.bound_ns = from->clockbound_ns;
        to->bound.marker = from->clockbound.marker;
        to->m.clockbound = &to->bound;
    }
    if (from->has_phc) {
        mrd__clock_phc__init(&to->phc);
        memcpy(to->phc_name, from->phc_name, sizeof(to->phc_name));
        to->phc.name = to->phc_name;
        to->phc.phc_ns = from->phc.ns;
        to->phc.raw_ns = from->phc_raw.ns;
        to->phc.bracket_ns = (uint64_t) from->phc_bracket_ns;
        to->phc.error_ns = from->phc_error_ns;
        to->m.phc = &to->phc;
    }
    if (from->has_vmclock) {
        mrd__clock_vm__init(&to->vm);
        to->vm.marker = from->vmclock.marker;
        to->vm.status = from->vmclock.status;
        to->vm.maxerror_ns = from->vmclock.maxerror_ns;
        to->m.vmclock = &to->vm;
    }
}
