#include "tests/check.h"

#include "timesync/epoch.h"

static mrd_epoch_reading
reading(int64_t raw)
{
    return (mrd_epoch_reading){ .raw = { raw },
                                .monotonic = raw + 50,
                                .boottime = raw + 1000050,
                                .boot_id = 11,
                                .session_boot_id = 22,
                                .vm_marker = 3,
                                .has_vm_marker = true };
}

static void
nothing(mrd_epoch_reading *r)
{
    (void) r;
}
static void
suspended(mrd_epoch_reading *r)
{
    r->boottime += 20 * MRD_SEC;
}
static void
jittered(mrd_epoch_reading *r)
{
    r->boottime += 900000;
}
static void
rebooted(mrd_epoch_reading *r)
{
    r->boot_id = 12;
    r->boottime += 20 * MRD_SEC;
}
static void
moved(mrd_epoch_reading *r)
{
    r->session_boot_id = 23;
}
static void
migrated(mrd_epoch_reading *r)
{
    r->vm_marker = 4;
    r->boottime += 20 * MRD_SEC;
}
static void
unknown_id(mrd_epoch_reading *r)
{
    r->boot_id = 0;
    r->session_boot_id = 0;
}
static void
no_marker(mrd_epoch_reading *r)
{
    r->has_vm_marker = false;
    r->vm_marker = 0;
}
static void
slewed(mrd_epoch_reading *r)
{
    r->monotonic += 40 * MRD_MS;
    r->boottime += 40 * MRD_MS;
}

TEST(each_cause_is_distinguished)
{
    static const struct {
        const char *name;
        void (*change)(mrd_epoch_reading *r);
        int cause; /* -1 none */
        bool keep_rate;
    } rows[] = {
        { "nothing", nothing, -1, false },
        { "suspend", suspended, MRD_EPOCH_SUSPEND, true },
        { "reading jitter", jittered, -1, false },
        { "reboot wins over suspend", rebooted, MRD_EPOCH_REBOOT, false },
        { "aggregator moved", moved, MRD_EPOCH_AGGREGATOR, false },
        { "migration wins over suspend", migrated, MRD_EPOCH_MIGRATION, false },
        { "ids unknown", unknown_id, -1, false },
        { "marker gone", no_marker, -1, false },
        { "a time daemon slews both", slewed, -1, false },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_epoch_watch w = { .started = false };
        mrd_epoch_reading a = reading(1000), b = reading(5000);
        mrd_epoch_break brk;
        bool broke;

        CHECK(!mrd_epoch_watch_add(&w, &a, &brk));
        rows[i].change(&b);
        broke = mrd_epoch_watch_add(&w, &b, &brk);
        CHECK_ROW(rows[i].name, broke == (rows[i].cause >= 0));
        if (!broke)
            continue;
        CHECK_ROW(rows[i].name,
                  (int) brk.cause == rows[i].cause && brk.keep_rate == rows[i].keep_rate);
        CHECK(brk.after.ns == 1000 && brk.before.ns == 5000);
        CHECK(brk.cause != MRD_EPOCH_SUSPEND || brk.lost == 20 * MRD_SEC);
        b.raw.ns += 10;
        b.monotonic += 10;
        b.boottime += 10;
        CHECK_ROW(rows[i].name, !mrd_epoch_watch_add(&w, &b, &brk)); /* reported once */
    }
}

TEST(cusum_hears_small_shifts_and_ignores_noise)
{
    mrd_cusum c = { 0, 0 };
    int alarms = 0, when = -1;

    for (int i = 0; i < 1000; i++)
        alarms += mrd_cusum_add(&c, i % 2 == 0 ? 0.9 : -0.9);
    CHECK_INT(alarms, 0);
    for (int i = 0; i < 20 && when < 0; i++)
        when = mrd_cusum_add(&c, -1.5) ? i : -1;
    CHECK(when >= 3 && when <= 6);
}

TEST_MAIN()
