/* Implements the regions of meridian.h. A region has its own totals, and each run is also recorded
 * as a span. */
#include "capture/api/api.h"

#include <inttypes.h>
#include <stdlib.h>

#include "capture/process.h"
#include "capture/text.h"

static mrd_rec_what
region_what(mrd_region *region)
{
    uint32_t id = __atomic_load_n(&region->id, __ATOMIC_RELAXED);

    if (id == 0)
        id = mrd_api_name_once(region->name, &region->id);
    return (mrd_rec_what){ .name = id };
}

int
mrd_region_init(mrd_region *region, const char *name)
{
    char made[40];

    if (region == NULL)
        return mrd_fail(MERIDIAN_INVALID, "region does not exist");
    if (name == NULL || *name == '\0') {
        snprintf(made, sizeof(made), "region-%p", (void *) region);
        name = made;
    }
    *region = (mrd_region){ .name = strdup(name), .owned = 1 };
    if (region->name == NULL) {
        region->owned = 0;
        return mrd_fail(MERIDIAN_NOMEM, "no memory for region '%s'", name);
    }
    return MERIDIAN_OK;
}

int
mrd_region_release(mrd_region *region)
{
    if (region == NULL)
        return MERIDIAN_OK;
    if (region->owned) {
        union {
            const char *in;
            char *out;
        } name = { region->name };

        free(name.out);
    }
    *region = (mrd_region){ .name = NULL };
    return MERIDIAN_OK;
}

int
mrd_region_start_(mrd_region *region)
{
    mrd_rec_what what;

    if (!mrd_on())
        return MERIDIAN_OK;
    if (region == NULL || region->name == NULL)
        return mrd_fail(MERIDIAN_INVALID, "region is not initialised");
    what = region_what(region);
    if (!mrd_thread_begin(region, &what))
        return mrd_fail(MERIDIAN_NOMEM, "no memory to start region '%s'", region->name);
    __atomic_add_fetch(&region->entries, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&region->running, 1, __ATOMIC_RELAXED);
    return MERIDIAN_OK;
}

int
mrd_region_stop_(mrd_region *region)
{
    mrd_rec_what what;
    mrd_ring_cal now;
    uint64_t ticks;

    if (!mrd_was_on())
        return MERIDIAN_OK;
    if (region == NULL || region->name == NULL)
        return mrd_on() ? mrd_fail(MERIDIAN_INVALID, "region is not initialised") : MERIDIAN_OK;
    if (!mrd_thread_end(region, NULL, 0, &ticks, &what))
        return mrd_on() ? mrd_fail(MERIDIAN_NOTFOUND, "region '%s' was not started in this thread",
                                   region->name)
                        : MERIDIAN_OK;
    now.ticks = mrd_rec_now();
    now.raw_ns = mrd_ring_clock_gettime(CLOCK_MONOTONIC_RAW);
    __atomic_add_fetch(&region->total_ns, (uint64_t) mrd_proc_ticks_ns((int64_t) ticks, &now),
                       __ATOMIC_RELAXED);
    __atomic_sub_fetch(&region->running, 1, __ATOMIC_RELAXED);
    if (what.name != 0)
        mrd_api_finished(&what, ticks);
    return MERIDIAN_OK;
}

/* ---- printing regions ------------------------------------------------------------------------ */

static void
region_line(mrd_text *text, const mrd_region *region)
{
    mrd_text_fmt(text, "[prof] %s: total_time: %" PRIu64 " nsec nr_entries: %" PRIu64 "\n",
                 region->name == NULL ? "(not initialised)" : region->name,
                 __atomic_load_n(&region->total_ns, __ATOMIC_RELAXED),
                 __atomic_load_n(&region->entries, __ATOMIC_RELAXED));
}

int
mrd_region_print(const mrd_region *region, FILE *out)
{
    return mrd_regions_print_all(region, 1, out);
}

int
mrd_regions_print_all(const mrd_region *regions, size_t count, FILE *out)
{
    mrd_text t = { 0 };
    char *text;
    bool written;

    if ((regions == NULL && count > 0) || out == NULL)
        return mrd_fail(MERIDIAN_INVALID, "nothing to print, or nowhere");
    for (size_t i = 0; i < count; i++)
        region_line(&t, &regions[i]);
    if ((text = mrd_text_take(&t)) == NULL)
        return mrd_fail(MERIDIAN_NOMEM, "no memory to print regions");
    written = fputs(text, out) >= 0;
    free(text);
    return written ? MERIDIAN_OK : mrd_fail(MERIDIAN_IO, "cannot write regions");
}

size_t
mrd_regions_print_to_buf(char *buf, size_t size, const mrd_region *regions, size_t count)
{
    mrd_text t = { 0 };
    size_t len, n;
    char *text;

    for (size_t i = 0; regions != NULL && i < count; i++)
        region_line(&t, &regions[i]);
    len = t.len;
    text = mrd_text_take(&t);
    if (buf != NULL && size > 0) {
        n = text == NULL ? 0 : len < size ? len : size - 1;
        if (n > 0)
            memcpy(buf, text, n);
        buf[n] = '\0';
    }
    free(text);
    return len;
}

/* ---- functions for arrays of regions --------------------------------------------------------- */

int
mrd_regions_init(mrd_region *regions, size_t count, const char *const *names)
{
    for (size_t i = 0; i < count; i++) {
        int err = mrd_region_init(&regions[i], names == NULL ? NULL : names[i]);

        if (err != MERIDIAN_OK) {
            (void) mrd_regions_release(regions, i);
            return err;
        }
    }
    return MERIDIAN_OK;
}

int
mrd_regions_release(mrd_region *regions, size_t count)
{
    for (size_t i = 0; regions != NULL && i < count; i++)
        (void) mrd_region_release(&regions[i]);
    return MERIDIAN_OK;
}

int
mrd_regions_clear(mrd_region *regions, size_t count)
{
    if (regions == NULL && count > 0)
        return mrd_fail(MERIDIAN_INVALID, "regions missing");
    for (size_t i = 0; i < count; i++) {
        uint64_t running = __atomic_load_n(&regions[i].running, __ATOMIC_RELAXED);

        __atomic_store_n(&regions[i].total_ns, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&regions[i].entries, running, __ATOMIC_RELAXED);
    }
    return MERIDIAN_OK;
}

/* Calls fn for every region with this name. A call that returns NOTFOUND is ignored, because the
 * calling thread had not started that region. Returns NOTFOUND if all calls were ignored, otherwise
 * the last error, or OK if there was none. */
static int
each_named(mrd_region *regions, size_t count, const char *name, int (*fn)(mrd_region *))
{
    int failed = MERIDIAN_OK, err;
    bool found = false;

    if (regions == NULL || name == NULL)
        return mrd_fail(MERIDIAN_INVALID, "regions or name missing");
    for (size_t i = 0; i < count; i++) {
        if (regions[i].name == NULL || strcmp(regions[i].name, name) != 0)
            continue;
        if ((err = fn(&regions[i])) == MERIDIAN_NOTFOUND)
            continue;
        found = true;
        failed = err != MERIDIAN_OK ? err : failed;
    }
    if (!found)
        return mrd_fail(MERIDIAN_NOTFOUND, "no region '%s' here, or it was not started", name);
    return failed;
}

int
mrd_regions_start_by_name(mrd_region *regions, size_t count, const char *name)
{
    return mrd_on() ? each_named(regions, count, name, mrd_region_start) : MERIDIAN_OK;
}

int
mrd_regions_stop_by_name(mrd_region *regions, size_t count, const char *name)
{
    return mrd_was_on() ? each_named(regions, count, name, mrd_region_stop) : MERIDIAN_OK;
}
