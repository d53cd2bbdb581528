#include "timesync/epoch.h"

#include <math.h>

static bool
differs(uint64_t a, uint64_t b)
{
    return a != 0 && b != 0 && a != b;
}

static mrd_dur_ns
asleep(const mrd_epoch_reading *reading)
{
    return reading->boottime - reading->monotonic;
}

bool
mrd_epoch_watch_add(mrd_epoch_watch *watch, const mrd_epoch_reading *reading,
                    mrd_epoch_break *ret_break)
{
    mrd_epoch_reading last = watch->last;
    mrd_epoch_break epoch_break = { .after = last.raw, .before = reading->raw };
    mrd_dur_ns slept = asleep(reading) - asleep(&last);
    bool first = !watch->started;

    watch->last = *reading;
    watch->started = true;
    if (first)
        return false;
    if (differs(last.boot_id, reading->boot_id)) {
        epoch_break.cause = MRD_EPOCH_REBOOT;
    } else if (differs(last.session_boot_id, reading->session_boot_id)) {
        epoch_break.cause = MRD_EPOCH_AGGREGATOR;
    } else if (last.has_vm_marker && reading->has_vm_marker &&
               last.vm_marker != reading->vm_marker) {
        epoch_break.cause = MRD_EPOCH_MIGRATION;
    } else if (slept > MRD_EPOCH_SUSPEND_MIN) {
        epoch_break.cause = MRD_EPOCH_SUSPEND;
        epoch_break.keep_rate = true;
        epoch_break.lost = slept;
    } else {
        return false;
    }
    *ret_break = epoch_break;
    return true;
}

bool
mrd_cusum_add(mrd_cusum *cusum, double surprise)
{
    cusum->up = fmax(0, cusum->up + surprise - MRD_CUSUM_DRIFT);
    cusum->down = fmax(0, cusum->down - surprise - MRD_CUSUM_DRIFT);
    if (cusum->up <= MRD_CUSUM_LIMIT && cusum->down <= MRD_CUSUM_LIMIT)
        return false;
    cusum->up = cusum->down = 0;
    return true;
}
