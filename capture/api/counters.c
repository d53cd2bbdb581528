/* Implements the device counter sessions of meridian.h with hw/hw.h. */
#include "capture/api/api.h"

#include <stdlib.h>

#include "capture/process.h"
#include "hw/hw.h"

#define COUNTERS_MAGIC 0x636e7472u

struct mrd_counters {
    uint32_t magic;
    mrd_hw *hw;
    mrd_hw_session *session;
    mrd_hw_value *values, *since; /* one element for each counter */
    size_t n;
};

/* Returns the MERIDIAN_ code of an mrd_err and stores its message. Both have the same numbers. A
 * code that meridian.h does not have becomes MERIDIAN_IO. */
static int
fail_why(mrd_err err, const mrd_why *why)
{
    static const mrd_err ours[] = { MRD_NOMEM,   MRD_IO,          MRD_NOTFOUND,
                                    MRD_INVALID, MRD_LIMIT,       MRD_TIMEOUT,
                                    MRD_CLOSED,  MRD_UNSUPPORTED, MRD_STATE };

    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
        if (err == ours[i])
            return mrd_fail((int) err, "%s", why->text);
    return mrd_fail(MERIDIAN_IO, "%s", why->text);
}

static bool
valid(const mrd_counters *counters)
{
    return counters != NULL && counters->magic == COUNTERS_MAGIC;
}

static mrd_err
counters_open(mrd_counters *counters, const char *const *names, size_t count, int device, int core,
              mrd_why *why)
{
    static const mrd_hw_backend *const backends[] = { &mrd_hw_backend_host,
                                                      &mrd_hw_backend_neuron };
    mrd_hw_options options = { .proc_root = mrd_proc_settings.proc_dir,
                               .sys_root = mrd_proc_settings.sys_dir,
                               .monitor = "" };
    mrd_hw_scope scope = { device < 0 ? MRD_NONE : device, core < 0 ? MRD_NONE : core };
    mrd_err err = mrd_hw_open_list(backends, 2, &options, &counters->hw, why);

    if (err != MRD_OK)
        return err;
    err = mrd_hw_session_create(counters->hw, names, count, scope, false, &counters->session, why);
    if (err != MRD_OK)
        return err;
    counters->n = mrd_hw_session_count(counters->session);
    counters->values = calloc(counters->n + 1, sizeof(*counters->values));
    counters->since = calloc(counters->n + 1, sizeof(*counters->since));
    return counters->values == NULL || counters->since == NULL
               ? mrd_why_set(why, MRD_NOMEM, 0, "no memory for a counter session")
               : MRD_OK;
}

int
mrd_counters_create(const char *const *names, size_t count, int device, int core,
                    mrd_counters **ret_counters)
{
    mrd_counters *counters;
    mrd_why why = { .text = "" };
    mrd_err err;

    if (names == NULL || count == 0 || ret_counters == NULL)
        return mrd_fail(MERIDIAN_INVALID, "no counters named");
    for (size_t i = 0; i < count; i++)
        if (names[i] == NULL)
            return mrd_fail(MERIDIAN_INVALID, "name %zu of a counter is missing", i);
    if ((counters = calloc(1, sizeof(*counters))) == NULL)
        return mrd_fail(MERIDIAN_NOMEM, "no memory for a counter session");
    counters->magic = COUNTERS_MAGIC;
    if ((err = counters_open(counters, names, count, device, core, &why)) != MRD_OK) {
        mrd_counters_destroy(counters);
        return fail_why(err, &why);
    }
    *ret_counters = counters;
    return MERIDIAN_OK;
}

size_t
mrd_counters_count(const mrd_counters *counters)
{
    return valid(counters) ? counters->n : 0;
}

int
mrd_counters_start(mrd_counters *counters, int64_t timeout_ns)
{
    mrd_why why = { .text = "" };
    mrd_err err;

    if (!valid(counters))
        return mrd_fail(MERIDIAN_INVALID, "no such counter session");
    err = mrd_hw_session_start(counters->session, timeout_ns, &why);
    return err == MRD_OK ? MERIDIAN_OK : fail_why(err, &why);
}

static mrd_counter_value
value_of(const mrd_hw_counter *counter, const mrd_hw_value *value)
{
    mrd_counter_value to = { .name = counter->name, .valid = value->state == MRD_HW_OK };

    to.is_double = (counter->flags & MRD_HW_DOUBLE) != 0;
    to.raw_ns = value->at.ns;
    if (to.is_double)
        to.value.d = value->d;
    else
        to.value.i = value->i;
    return to;
}

int
mrd_counters_poll(mrd_counters *counters, int since_start, int64_t timeout_ns,
                  mrd_counter_value *values, size_t count)
{
    mrd_why why = { .text = "" };
    mrd_err err;

    if (!valid(counters) || values == NULL)
        return mrd_fail(MERIDIAN_INVALID, "no such counter session, or no room for values");
    if (count < counters->n)
        return mrd_fail(MERIDIAN_LIMIT, "room for %zu values, the session has %zu", count,
                        counters->n);
    err = mrd_hw_session_poll(counters->session, timeout_ns, counters->values, counters->since,
                              counters->n, &why);
    if (err != MRD_OK)
        return fail_why(err, &why);
    for (size_t i = 0; i < counters->n; i++)
        values[i] = value_of(mrd_hw_session_counter(counters->session, i),
                             since_start ? &counters->since[i] : &counters->values[i]);
    return MERIDIAN_OK;
}

int
mrd_counters_stop(mrd_counters *counters)
{
    mrd_why why = { .text = "" };
    mrd_err err;

    if (!valid(counters))
        return mrd_fail(MERIDIAN_INVALID, "no such counter session");
    err = mrd_hw_session_stop(counters->session, &why);
    return err == MRD_OK ? MERIDIAN_OK : fail_why(err, &why);
}

void
mrd_counters_destroy(mrd_counters *counters)
{
    if (!valid(counters))
        return;
    mrd_hw_session_destroy(counters->session);
    mrd_hw_close(counters->hw);
    free(counters->values);
    free(counters->since);
    counters->magic = 0;
    free(counters);
}
