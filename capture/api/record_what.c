#include "capture/api/record_what.h"

#include "capture/process.h"
#include "capture/ring/ring_clock.h"
#include "capture/ring/ring_write.h"

uint64_t
mrd_rec_now(void)
{
    return mrd_ring_ticks(mrd_proc_clock);
}

int64_t
mrd_rec_raw_ns(uint64_t ticks)
{
    mrd_ring_cal now;
    int64_t diff;

    if (mrd_proc_clock == MRD_RING_CLOCK_RAW)
        return (int64_t) ticks;
    mrd_ring_cal_read(mrd_proc_clock, &now);
    diff = (int64_t) (ticks - now.ticks);
    return now.raw_ns + mrd_proc_ticks_ns(diff, &now);
}
