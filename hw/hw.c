#include "hw/hw_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/obj.h"

mrd_hw *
mrd_hw_ref(mrd_hw *hw)
{
    atomic_fetch_add(&hw->refs, 1);
    return hw;
}

void
mrd_hw_close(mrd_hw *hw)
{
    if (hw == NULL || atomic_fetch_sub(&hw->refs, 1) != 1)
        return;
    for (size_t i = 0; i < hw->n; i++) {
        if (hw->at[i].ops != NULL)
            hw->at[i].ops->close(hw->at[i].state);
        pthread_mutex_destroy(&hw->at[i].lock);
    }
    free(hw);
}

static mrd_err
open_one(mrd_hw_unit *unit, const mrd_hw_backend *ops, const mrd_hw_options *options, mrd_why *why)
{
    mrd_why absent = { 0 };
    mrd_err err;

    unit->name = ops->name;
    if (!ops->probe(options, &absent)) {
        snprintf(unit->text, sizeof(unit->text), "%.255s", absent.text);
        return MRD_OK;
    }
    if ((err = ops->open(options, &unit->state, why)) != MRD_OK)
        return mrd_why_prefix(why, err, "counters of '%s'", ops->name);
    unit->ops = ops;
    snprintf(unit->text, sizeof(unit->text), "%.255s", ops->what);
    return MRD_OK;
}

mrd_err
mrd_hw_open_list(const mrd_hw_backend *const *list, size_t n, const mrd_hw_options *options,
                 mrd_hw **ret_hw, mrd_why *why)
{
    static const mrd_hw_options none;
    mrd_hw *hw;
    mrd_err err = MRD_OK;

    if (n > MRD_HW_UNITS)
        return mrd_why_set(why, MRD_LIMIT, 0, "more than %d counter backends", MRD_HW_UNITS);
    if ((hw = calloc(1, sizeof(*hw))) == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "hardware counters");
    atomic_init(&hw->refs, 1);
    for (size_t i = 0; i < n; i++)
        pthread_mutex_init(&hw->at[i].lock, NULL);
    hw->n = n;
    for (size_t i = 0; i < n && err == MRD_OK; i++)
        err = open_one(&hw->at[i], list[i], options == NULL ? &none : options, why);
    if (err != MRD_OK) {
        mrd_hw_close(hw);
        return err;
    }
    *ret_hw = hw;
    return MRD_OK;
}

mrd_err
mrd_hw_refresh(mrd_hw *hw, mrd_why *why)
{
    mrd_err first = MRD_OK;

    for (size_t i = 0; i < hw->n; i++) {
        mrd_hw_unit *unit = &hw->at[i];
        mrd_err err;

        if (unit->ops == NULL)
            continue;
        if (pthread_mutex_trylock(&unit->lock) != 0) {
            err = mrd_why_set(first == MRD_OK ? why : NULL, MRD_BUSY, 0,
                              "counters of '%s': a read is still under way", unit->name);
        } else {
            err = unit->ops->refresh(unit->state, first == MRD_OK ? why : NULL);
            pthread_mutex_unlock(&unit->lock);
        }
        if (first == MRD_OK)
            first = err;
    }
    return first;
}

void
mrd_hw_report(const mrd_hw *hw,
              void (*say)(void *self, const char *name, bool present, const char *text), void *self)
{
    for (size_t i = 0; i < hw->n; i++)
        say(self, hw->at[i].name, hw->at[i].ops != NULL, hw->at[i].text);
}

void
mrd_hw_each(const mrd_hw *hw, void (*call)(void *self, const mrd_hw_counter *counter), void *self)
{
    for (size_t i = 0; i < hw->n; i++)
        if (hw->at[i].ops != NULL)
            for (size_t k = 0; k < hw->at[i].ops->count(hw->at[i].state); k++)
                call(self, hw->at[i].ops->at(hw->at[i].state, k));
}
