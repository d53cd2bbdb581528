#include "proto/selection.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/obj.h"

void
mrd_select_fini(mrd_select *s)
{
#define MRD_SELECT(ident, ...) mrd_strlist_fini(&s->ident);
#include "proto/session_params.def"
#undef MRD_SELECT
}

static mrd_err
copy_TEXTS(mrd_strlist *to, char *const *from, size_t n)
{
    mrd_err err = n > MRD_SELECT_WORDS ? MRD_LIMIT : MRD_OK;

    for (size_t i = 0; i < n && err == MRD_OK; i++)
        err = mrd_strlist_add(to, mrd_str_of(from[i]));
    return err;
}

static mrd_err
copy_NUMBERS(mrd_strlist *to, const int64_t *from, size_t n)
{
    mrd_err err = n > MRD_SELECT_NUMBERS ? MRD_LIMIT : MRD_OK;
    char text[24];

    for (size_t i = 0; i < n && err == MRD_OK; i++) {
        snprintf(text, sizeof(text), "%" PRId64, from[i]);
        err = mrd_strlist_add(to, mrd_str_of(text));
    }
    return err;
}

mrd_err
mrd_select_from_wire(mrd_select *to, const Mrd__Selection *from)
{
    mrd_err err = MRD_OK;

#define MRD_SELECT(ident, kind, ...)                                                               \
    if (err == MRD_OK && from != NULL)                                                             \
        err = copy_##kind(&to->ident, from->ident, from->n_##ident);
#include "proto/session_params.def"
#undef MRD_SELECT
    return err;
}

bool
mrd_select_is_partial(const mrd_select *selection)
{
    return selection->jobs.n > 0 || selection->ranks.n > 0 || selection->processes.n > 0 ||
           selection->uids.n > 0 || selection->namespaces.n > 0 || selection->clusters.n > 0 ||
           selection->restarts.n > 0;
}

static bool
takes_word(const mrd_strlist *list, const mrd_jobid *id, mrd_str key)
{
    for (size_t i = 0; i < list->n; i++)
        if (mrd_jobid_matches(id, key, mrd_str_of(list->v[i])))
            return true;
    return list->n == 0;
}

bool
mrd_select_takes_job(const mrd_select *selection, const mrd_jobid *id, const char *also)
{
    return (takes_word(&selection->jobs, id, MRD_STR("job")) ||
            (also != NULL && mrd_strlist_has(&selection->jobs, mrd_str_of(also)))) &&
           takes_word(&selection->uids, id, MRD_STR("uid")) &&
           takes_word(&selection->namespaces, id, MRD_STR("namespace")) &&
           takes_word(&selection->clusters, id, MRD_STR("cluster")) &&
           takes_word(&selection->restarts, id, MRD_STR("restart"));
}

bool
mrd_select_has_number(const mrd_strlist *list, int64_t number)
{
    char text[24];

    snprintf(text, sizeof(text), "%" PRId64, number);
    return list->n == 0 || mrd_strlist_has(list, mrd_str_of(text));
}
