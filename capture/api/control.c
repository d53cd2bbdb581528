/* Implements the configuration, state and statistics functions of meridian.h. */
#include "capture/api/api.h"

#include <errno.h>
#include <stdlib.h>

#include "base/num.h"
#include "capture/api/dump.h"
#include "capture/api/memory.h"
#include "capture/process.h"

#define ANNOTATIONS_SYMBOLIC   1u
#define ANNOTATIONS_IMPERATIVE 2u

/* Starts the runtime's system trace, which runs only while recording is on. */
static void
turned_on(void)
{
    int saved = errno;

    if (mrd_proc_late.turned_on != NULL && mrd_rec_sources() != 0)
        mrd_proc_late.turned_on();
    errno = saved;
}

/* Fetches the events that are still in the runtime, because they would be dropped once recording is
 * off. */
static void
turning_off(void)
{
    int saved = errno;

    if (mrd_proc_late.turning_off != NULL)
        mrd_proc_late.turning_off();
    errno = saved;
}

static uint32_t annotations = ANNOTATIONS_SYMBOLIC | ANNOTATIONS_IMPERATIVE;

static void
set_source(unsigned bits, bool on)
{
    unsigned now = mrd_proc_get_sources();

    mrd_proc_set_sources(on ? now | bits : now & ~bits);
}

static void
set_annotations(uint32_t bit, bool on)
{
    annotations = on ? annotations | bit : annotations & ~bit;
    set_source(MRD_CAP_ANNOTATE, annotations != 0);
}

static int
set_symbolic(bool on)
{
    set_annotations(ANNOTATIONS_SYMBOLIC, on);
    return MERIDIAN_OK;
}

static int
set_imperative(bool on)
{
    set_annotations(ANNOTATIONS_IMPERATIVE, on);
    return MERIDIAN_OK;
}

static int
set_memory(bool on)
{
    mrd_memory_want(on);
    set_source(MRD_CAP_MODEL, on);
    return MERIDIAN_OK;
}

static int
set_api(bool on)
{
    if (!on)
        turning_off();
    set_source(MRD_CAP_API | MRD_CAP_SYS, on);
    if (on)
        turned_on();
    return MERIDIAN_OK;
}

static int
set_all(bool on)
{
    (void) set_symbolic(on);
    (void) set_imperative(on);
    (void) set_memory(on);
    return set_api(on);
}

static int
set_continuous(bool on)
{
    mrd_extra_set(MRD_EXTRA_DUMPS, on);
    return MERIDIAN_OK;
}

static int
set_aggregate(bool on)
{
    if (on && (mrd_extra_now() & MRD_EXTRA_STATS) == 0)
        mrd_stats_reset();
    mrd_extra_set(MRD_EXTRA_STATS, on);
    return MERIDIAN_OK;
}

static int
set_period(const char *key, const char *value)
{
    double s;

    if (mrd_num_double(mrd_str_of(value), &s) != MRD_OK || !(s > 0) || s > 1e6)
        return mrd_fail(MERIDIAN_INVALID, "%s='%.100s': seconds above 0 expected", key, value);
    mrd_dump_set_period((int64_t) (s * 1e9));
    return MERIDIAN_OK;
}

static int
set_process(const char *value)
{
    if (strcmp(value, "worker") == 0)
        return MERIDIAN_OK;
    if (strcmp(value, "server") == 0)
        return mrd_fail(MERIDIAN_UNSUPPORTED, "other processes are controlled from outside: "
                                              "`meridian start` and `meridian record`");
    return mrd_fail(MERIDIAN_INVALID, "profile_process='%.100s': worker or server expected", value);
}

static int
parse_switch(const char *key, const char *value, bool *ret_on)
{
    static const struct {
        const char *text;
        bool on;
    } words[] = { { "1", true },  { "true", true },   { "True", true },
                  { "0", false }, { "false", false }, { "False", false } };

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(value, words[i].text) == 0) {
            *ret_on = words[i].on;
            return MERIDIAN_OK;
        }
    return mrd_fail(MERIDIAN_INVALID, "%s='%.100s': 0 or 1 expected", key, value);
}

int
mrd_set_config(const char *key, const char *value)
{
    static const struct {
        const char *key;
        int (*set)(bool on);
    } switches[] = {
        { "profile_all", set_all },
        { "profile_symbolic", set_symbolic },
        { "profile_imperative", set_imperative },
        { "profile_memory", set_memory },
        { "profile_api", set_api },
        { "continuous_dump", set_continuous },
        { "aggregate_stats", set_aggregate },
    };
    bool on = false;
    int err;

    if (key == NULL || value == NULL)
        return mrd_fail(MERIDIAN_INVALID, "key or value missing");
    for (size_t i = 0; i < sizeof(switches) / sizeof(switches[0]); i++)
        if (strcmp(key, switches[i].key) == 0)
            return (err = parse_switch(key, value, &on)) != MERIDIAN_OK ? err : switches[i].set(on);
    if (strcmp(key, "filename") == 0)
        return mrd_dump_set_file(value);
    if (strcmp(key, "dump_period") == 0)
        return set_period(key, value);
    if (strcmp(key, "profile_process") == 0)
        return set_process(value);
    return mrd_fail(MERIDIAN_INVALID, "unknown key '%.100s'", key);
}

/* ---- starting, pausing and stopping the recording -------------------------------------------- */

int
mrd_set_state(int run)
{
    if (run && mrd_proc_gave_up())
        return mrd_fail(MERIDIAN_STATE, "capture is %s", mrd_proc_status());
    if (!run)
        turning_off();
    mrd_proc_set_running(run != 0);
    if (run) {
        mrd_proc_set_paused(false);
        turned_on();
    }
    return MERIDIAN_OK;
}

int
mrd_pause(void)
{
    turning_off();
    mrd_proc_set_paused(true);
    return MERIDIAN_OK;
}

int
mrd_resume(void)
{
    mrd_proc_set_paused(false);
    turned_on();
    return MERIDIAN_OK;
}

const char *
mrd_status_text(void)
{
    return mrd_proc_status();
}

int
mrd_dump(int finished)
{
    return mrd_dump_now(finished != 0);
}

/* ---- printing statistics --------------------------------------------------------------------- */

int
mrd_dumps(int reset, const char *format, const char *sort_by, int ascending, char **ret_text)
{
    static const char *const sorts[] = { "total", "avg", "min", "max", "count" };
    size_t sort = 0;
    bool json;
    char *text;

    if (format == NULL || sort_by == NULL || ret_text == NULL)
        return mrd_fail(MERIDIAN_INVALID, "format, order or result missing");
    json = strcmp(format, "json") == 0;
    if (!json && strcmp(format, "table") != 0)
        return mrd_fail(MERIDIAN_INVALID, "format '%.100s': table or json expected", format);
    while (sort < 5 && strcmp(sort_by, sorts[sort]) != 0)
        sort++;
    if (sort == 5)
        return mrd_fail(MERIDIAN_INVALID, "order '%.100s': total, avg, min, max or count expected",
                        sort_by);
    if ((text = mrd_stats_print(json, (mrd_stat_sort) sort, ascending != 0)) == NULL)
        return mrd_fail(MERIDIAN_NOMEM, "no memory for the statistics");
    if (reset)
        mrd_stats_reset();
    *ret_text = text;
    return MERIDIAN_OK;
}

__attribute__((constructor(103))) static void
begin(void)
{
    (void) mrd_dump_set_file(mrd_proc_settings.profile_file);
    if (mrd_proc_settings.aggregate == 1)
        (void) set_aggregate(true);
}
