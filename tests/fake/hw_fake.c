#include "tests/fake/hw_fake.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/num.h"
#include "base/obj.h"
#include "base/vec.h"
#include "hw/hw_table.h"
#include "tests/wait.h"

#define STALLS 16

const char *mrd_hw_fake_script;

typedef struct {
    double v[MRD_HW_FAKE_VALUES];
    bool unknown[MRD_HW_FAKE_VALUES];
    size_t n;
} series;

typedef struct {
    mrd_hw_table table;
    series *series; /* indexed by row of the table */
    size_t series_cap;
    struct {
        uint64_t at;
        int64_t ms;
    } stalls[STALLS];
    size_t n_stalls;
    uint64_t die_at; /* number of the sampling at which the device fails; 0 for never */
    uint64_t samplings;
} fake;

static mrd_err
bad(mrd_why *why, unsigned line, const char *what)
{
    return mrd_why_set(why, MRD_SYNTAX, 0, "script of simulated counters, line %u: %s", line, what);
}

static bool
unit_of(mrd_str word, mrd_hw_counter *counter)
{
    static const struct {
        const char *name;
        mrd_unit unit;
    } units[] = { { "count", MRD_UNIT_COUNT },
                  { "bytes", MRD_UNIT_BYTES },
                  { "ns", MRD_UNIT_NS },
                  { "percent", MRD_UNIT_PERCENT } };

    if (word.len > 0 && word.p[word.len - 1] == '+') {
        counter->flags |= MRD_HW_CUMULATIVE;
        word.len--;
    }
    for (size_t i = 0; i < MRD_COUNT(units); i++)
        if (mrd_str_is(word, units[i].name)) {
            counter->unit = units[i].unit;
            if (counter->unit == MRD_UNIT_PERCENT)
                counter->flags |= MRD_HW_DOUBLE;
            return true;
        }
    return false;
}

static mrd_err
add_counter(fake *f, mrd_str rest, unsigned line, mrd_why *why)
{
    mrd_hw_counter counter = { .device_idx = MRD_NONE, .core_idx = MRD_NONE, .pid = MRD_NONE };
    mrd_str name = mrd_hw_word(&rest), word;
    long long device, core;
    series *s;
    size_t row;

    if (name.len == 0 || name.len >= sizeof(counter.name) || !unit_of(mrd_hw_word(&rest), &counter))
        return bad(why, line, "expected: counter NAME count|bytes|ns|percent[+] VALUES");
    memcpy(counter.name, name.p, name.len);
    if (sscanf(counter.name, "fake%lld.", &device) == 1)
        counter.device_idx = device;
    if (sscanf(counter.name, "fake%lld.core%lld.", &device, &core) == 2)
        counter.core_idx = core;
    if (mrd_hw_table_find(&f->table, name) != MRD_HW_NO_ROW)
        return bad(why, line, "this counter is there already");
    if ((row = mrd_hw_table_add(&f->table, &counter, 0)) == MRD_HW_NO_ROW)
        return mrd_why_set(why, MRD_NOMEM, 0, "simulated counters");
    if (!MRD_VEC_ROOM(f->series, row, f->series_cap, 1)) {
        mrd_hw_table_drop_last(&f->table);
        return mrd_why_set(why, MRD_NOMEM, 0, "simulated counters");
    }
    s = &f->series[row];
    s->n = 0;
    while ((word = mrd_hw_word(&rest)).len > 0) {
        bool unknown = mrd_str_is(word, "?");

        if (s->n == MRD_HW_FAKE_VALUES)
            return bad(why, line, "too many values");
        s->unknown[s->n] = unknown;
        s->v[s->n] = 0;
        if (!unknown && mrd_num_double(word, &s->v[s->n]) != MRD_OK)
            return bad(why, line, "a value is not a number");
        s->n++;
    }
    return s->n > 0 ? MRD_OK : bad(why, line, "a counter needs a value");
}

static mrd_err
add_statement(fake *f, mrd_str rest, unsigned line, mrd_why *why)
{
    mrd_str verb = mrd_hw_word(&rest);
    int64_t a, b;

    if (verb.len == 0 || verb.p[0] == '#')
        return MRD_OK;
    if (mrd_str_is(verb, "counter"))
        return add_counter(f, rest, line, why);
    if (!mrd_hw_int(mrd_hw_word(&rest), &a) || a < 0)
        return bad(why, line, "unknown statement, or its number is missing");
    if (mrd_str_is(verb, "die")) {
        f->die_at = (uint64_t) a;
        return MRD_OK;
    }
    if (!mrd_hw_int(mrd_hw_word(&rest), &b))
        return bad(why, line, "a second number is missing");
    if (mrd_str_is(verb, "stall") && f->n_stalls < STALLS && b >= 0 && b <= 60000) {
        f->stalls[f->n_stalls].at = (uint64_t) a;
        f->stalls[f->n_stalls++].ms = b;
        return MRD_OK;
    }
    return bad(why, line, "unknown statement");
}

static bool
fake_probe(const mrd_hw_options *options, mrd_why *why)
{
    (void) options;
    if (mrd_hw_fake_script != NULL)
        return true;
    (void) mrd_why_set(why, MRD_NOTFOUND, 0, "no simulated counters were asked for");
    return false;
}

static void
fake_close(void *state)
{
    fake *f = state;

    if (f == NULL)
        return;
    mrd_hw_table_fini(&f->table);
    free(f->series);
    free(f);
}

static mrd_err
fake_open(const mrd_hw_options *options, void **ret_state, mrd_why *why)
{
    fake *f = calloc(1, sizeof(*f));
    mrd_str text = mrd_str_of(mrd_hw_fake_script), line;
    mrd_err err = f == NULL ? mrd_why_set(why, MRD_NOMEM, 0, "simulated counters") : MRD_OK;

    (void) options;
    for (unsigned n = 1; err == MRD_OK && mrd_hw_line(&text, &line); n++)
        err = add_statement(f, line, n, why);
    if (err != MRD_OK) {
        fake_close(f);
        return err;
    }
    *ret_state = f;
    return MRD_OK;
}

static mrd_err
fake_refresh(void *state, mrd_why *why)
{
    (void) state;
    (void) why;
    return MRD_OK;
}

static size_t
fake_count(const void *state)
{
    return ((const fake *) state)->table.n;
}

static const mrd_hw_counter *
fake_at(const void *state, size_t i)
{
    return &((const fake *) state)->table.rows[i].counter;
}

static mrd_err
fake_sample(void *state, const uint32_t *want, size_t count, mrd_hw_value *ret_values,
            mrd_local_ns deadline, mrd_why *why)
{
    fake *f = state;
    mrd_local_ns at;

    (void) deadline; /* hangs like a real device; the session enforces the deadline */
    f->samplings++;
    f->table.round++;
    for (size_t i = 0; i < f->n_stalls; i++)
        if (f->stalls[i].at == f->samplings)
            test_let_it_run(f->stalls[i].ms);
    if (f->die_at != 0 && f->samplings >= f->die_at)
        return mrd_why_set(why, MRD_CLOSED, 0, "the simulated device is dead");
    at = mrd_local_now();
    for (size_t i = 0; i < count; i++) {
        const series *s = &f->series[want[i]];
        size_t k = f->samplings <= s->n ? (size_t) f->samplings - 1 : s->n - 1;

        if ((f->table.rows[want[i]].counter.flags & MRD_HW_DOUBLE) != 0)
            mrd_hw_table_set_d(&f->table, want[i], s->v[k], at);
        else
            mrd_hw_table_set_i(&f->table, want[i], (int64_t) s->v[k], at);
        if (s->unknown[k])
            f->table.rows[want[i]].value.state = MRD_HW_UNKNOWN;
    }
    mrd_hw_table_take(&f->table, want, count, ret_values, at);
    return MRD_OK;
}

const mrd_hw_backend mrd_hw_backend_fake = {
    .name = "fake",
    .what = "simulated counters from a script",
    .may_block = true,
    .probe = fake_probe,
    .open = fake_open,
    .refresh = fake_refresh,
    .count = fake_count,
    .at = fake_at,
    .sample = fake_sample,
    .close = fake_close,
};
