/* Validates the values of a selection before nodes are asked, and refuses values that no node can
 * match. */
#include "aggregator/api/select_check.h"

#include "base/event_type.h"
#include "base/near.h"
#include "base/num.h"
#include "base/obj.h"
#include "trace/model/filter.h"

static mrd_err
check_keys(const mrd_json *json, mrd_why *why)
{
    static const char *const known[] = {
#define MRD_SELECT(ident, kind, key, ...) key,
#include "proto/session_params.def"
#undef MRD_SELECT
    };
    char near[MRD_NEAR_TEXT];

    for (void *it = mrd_json_iter((mrd_json *) (uintptr_t) json); it != NULL;
         it = mrd_json_iter_next((mrd_json *) (uintptr_t) json, it)) {
        const char *key = mrd_json_iter_key(it);
        size_t i = 0;

        while (i < MRD_COUNT(known) && strcmp(known[i], key) != 0)
            i++;
        if (i < MRD_COUNT(known))
            continue;
        mrd_near_text(key, known, MRD_COUNT(known), "", near);
        return mrd_why_set(why, MRD_INVALID, 0, "select has no member '%.64s'%s", key, near);
    }
    return MRD_OK;
}

static mrd_err
check_numbers(const mrd_strlist *list, const char *what, mrd_why *why)
{
    for (size_t i = 0; i < list->n; i++) {
        int64_t v;

        if (mrd_num_i64(mrd_str_of(list->v[i]), &v) != MRD_OK || v < 0)
            return mrd_why_set(why, MRD_INVALID, 0,
                               "'%.64s' is not a %s: expected a number from 0 on", list->v[i],
                               what);
    }
    return MRD_OK;
}

static mrd_err
check_sources(const mrd_strlist *list, mrd_why *why)
{
    const char *known[MRD_SRC_MERIDIAN + 1];
    char near[MRD_NEAR_TEXT];

    for (size_t k = 0; k < MRD_COUNT(known); k++)
        known[k] = mrd_source_text((mrd_source_kind) k);
    for (size_t i = 0; i < list->n; i++) {
        const char *word = list->v[i] + (list->v[i][0] == '^');
        size_t k = 0;

        while (k < MRD_COUNT(known) && strcmp(known[k], word) != 0)
            k++;
        if (k < MRD_COUNT(known))
            continue;
        mrd_near_text(word, known, MRD_COUNT(known), "", near);
        return mrd_why_set(why, MRD_INVALID, 0,
                           "'%.64s' is not a source of events%s (neuron_rt, neuron_hw, nrt_api, "
                           "annotation, ...: docs/reference/cli.md)",
                           word, near);
    }
    return MRD_OK;
}

mrd_err
mrd_select_check(const mrd_select *selection, const mrd_json *json, mrd_why *why)
{
    mrd_filter numbers = { .cores = selection->cores, .processes = selection->processes };
    mrd_err err = check_keys(json, why);

    if (err == MRD_OK)
        err = check_numbers(&selection->ranks, "rank", why);
    if (err == MRD_OK)
        err = check_numbers(&selection->processes, "process id", why);
    if (err == MRD_OK)
        err = check_numbers(&selection->uids, "uid", why);
    if (err == MRD_OK)
        err = mrd_filter_check(&numbers, why);
    if (err == MRD_OK)
        err = check_sources(&selection->sources, why);
    return err;
}

mrd_err
mrd_select_check_types(const mrd_select *selection, bool (*has)(void *self, const char *type),
                       void *self, mrd_why *why)
{
    mrd_strlist rest = { 0 };
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < selection->types.n && err == MRD_OK; i++) {
        const char *word = selection->types.v[i] + (selection->types.v[i][0] == '^');

        if (has == NULL || !has(self, word))
            err = mrd_strlist_add(&rest, mrd_str_of(selection->types.v[i]));
    }
    if (err != MRD_OK)
        mrd_why_set(why, err, 0, "event types");
    else
        err = mrd_filter_check_types(&rest, NULL, why);
    mrd_strlist_fini(&rest);
    return err;
}
