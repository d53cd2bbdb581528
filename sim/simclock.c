#include "sim/simclock.h"

#include <math.h>
#include <string.h>

#include "base/num.h"
#include "base/obj.h"

#define PPT 1000000000000LL

static mrd_str
str_of(const char *p, size_t len)
{
    return (mrd_str){ .p = p, .len = len };
}

/* Parses two durations that are separated by `sep`, such as "A/B". */
static mrd_err
pair_of(mrd_str text, char sep, mrd_dur_ns *ret_a, mrd_dur_ns *ret_b)
{
    const char *at = memchr(text.p, sep, text.len);
    mrd_dur_ns a, b;
    mrd_err err;
    size_t len;

    if (at == NULL)
        return MRD_SYNTAX;
    len = (size_t) (at - text.p);
    if ((err = mrd_num_dur(str_of(text.p, len), &a)) != MRD_OK ||
        (err = mrd_num_dur(str_of(at + 1, text.len - len - 1), &b)) != MRD_OK)
        return err;
    if (b < 0)
        return MRD_RANGE;
    *ret_a = a;
    *ret_b = b;
    return MRD_OK;
}

static mrd_err
set_epoch(mrd_simclock *clock, mrd_str str)
{
    return mrd_num_i64(str, &clock->epoch.ns);
}

static mrd_err
set_offset(mrd_simclock *clock, mrd_str str)
{
    return mrd_num_dur(str, &clock->offset_ns);
}

static mrd_err
set_rate(mrd_simclock *clock, mrd_str str)
{
    int64_t ppt;
    mrd_err err = mrd_num_scaled(str, 6, &ppt);

    if (err == MRD_OK && (ppt > PPT / 10 || ppt < -PPT / 10))
        err = MRD_RANGE;
    if (err == MRD_OK)
        clock->rate_ppt = ppt;
    return err;
}

static mrd_err
set_wander(mrd_simclock *clock, mrd_str str)
{
    mrd_err err = pair_of(str, '/', &clock->wander_ns, &clock->wander_period_ns);

    return err == MRD_OK && clock->wander_period_ns <= 0 ? MRD_RANGE : err;
}

static mrd_err
add_step(mrd_simclock_step *steps, size_t *count, mrd_str str)
{
    mrd_err err;

    if (*count == MRD_SIMCLOCK_STEPS)
        return MRD_LIMIT;
    if ((err = pair_of(str, '@', &steps[*count].by, &steps[*count].after)) == MRD_OK)
        ++*count;
    return err;
}

static mrd_err
set_step(mrd_simclock *clock, mrd_str str)
{
    return add_step(clock->steps, &clock->step_count, str);
}

static mrd_err
set_wall_step(mrd_simclock *clock, mrd_str str)
{
    return add_step(clock->wall_steps, &clock->wall_step_count, str);
}

static const struct {
    const char *key;
    bool repeats;
    mrd_err (*set)(mrd_simclock *c, mrd_str v);
} keys[] = {
    { "epoch", false, set_epoch }, { "offset", false, set_offset },
    { "ppm", false, set_rate },    { "wander", false, set_wander },
    { "step", true, set_step },    { "wallstep", true, set_wall_step },
};

static mrd_err
parse_item(mrd_simclock *clock, mrd_str item, unsigned *seen, mrd_why *why)
{
    const char *eq = memchr(item.p, '=', item.len);
    size_t key_len = eq == NULL ? item.len : (size_t) (eq - item.p);

    for (size_t i = 0; eq != NULL && i < MRD_COUNT(keys); i++) {
        mrd_err err;

        if (strlen(keys[i].key) != key_len || memcmp(keys[i].key, item.p, key_len) != 0)
            continue;
        if (!keys[i].repeats && (*seen & 1u << i) != 0)
            return mrd_why_set(why, MRD_EXISTS, 0, "simulated clock: '%s' twice", keys[i].key);
        *seen |= 1u << i;
        if ((err = keys[i].set(clock, str_of(eq + 1, item.len - key_len - 1))) != MRD_OK)
            mrd_why_set(why, err, 0, "simulated clock: '%.*s'", (int) item.len, item.p);
        return err;
    }
    return mrd_why_set(why, eq == NULL ? MRD_SYNTAX : MRD_UNSUPPORTED, 0,
                       "simulated clock: '%.*s' is not one of offset=, ppm=, wander=, step=, "
                       "wallstep=, epoch=",
                       (int) item.len, item.p);
}

mrd_err
mrd_simclock_parse(const char *text, mrd_simclock *ret_clock, mrd_why *why)
{
    mrd_simclock clock = { 0 };
    unsigned seen = 0;

    text = text == NULL ? "" : text;
    while (*text != '\0') {
        size_t len = strcspn(text, ",");
        mrd_err err = parse_item(&clock, str_of(text, len), &seen, why);

        if (err != MRD_OK)
            return err;
        text += len;
        if (*text == ',' && *++text == '\0')
            return mrd_why_set(why, MRD_SYNTAX, 0, "simulated clock: nothing after the last comma");
    }
    *ret_clock = clock;
    return MRD_OK;
}

static mrd_dur_ns
steps_until(const mrd_simclock_step *steps, size_t count, int64_t age)
{
    mrd_dur_ns sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += age >= steps[i].after ? steps[i].by : 0;
    return sum;
}

mrd_dur_ns
mrd_simclock_delta(const mrd_simclock *clock, int64_t raw_ns)
{
    int64_t age = raw_ns - clock->epoch.ns;
    mrd_dur_ns delta = clock->offset_ns;

    delta += (mrd_dur_ns) ((__int128) age * clock->rate_ppt / PPT);
    if (clock->wander_period_ns > 0) {
        /* The remainder is taken in integers, because a double cannot represent times in ns
         * exactly. */
        double phase = (double) (age % clock->wander_period_ns) / (double) clock->wander_period_ns;

        delta += (mrd_dur_ns) lround((double) clock->wander_ns * sin(phase * 6.283185307179586));
    }
    return delta + steps_until(clock->steps, clock->step_count, age);
}

mrd_dur_ns
mrd_simclock_wall_delta(const mrd_simclock *clock, int64_t raw_ns)
{
    return mrd_simclock_delta(clock, raw_ns) +
           steps_until(clock->wall_steps, clock->wall_step_count, raw_ns - clock->epoch.ns);
}

mrd_local_ns
mrd_simclock_local(const mrd_simclock *clock, int64_t raw_ns)
{
    return (mrd_local_ns){ raw_ns + mrd_simclock_delta(clock, raw_ns) };
}

mrd_wall_ns
mrd_simclock_wall(const mrd_simclock *clock, int64_t raw_ns, int64_t wall_ns)
{
    return (mrd_wall_ns){ wall_ns + mrd_simclock_wall_delta(clock, raw_ns) };
}
