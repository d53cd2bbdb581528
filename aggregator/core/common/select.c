#include "aggregator/core/common/select.h"

#include "base/obj.h"

static mrd_strlist *
select_list(const mrd_select *selection, size_t i)
{
    return (mrd_strlist *) ((uintptr_t) selection + mrd_select_table[i].offset);
}

mrd_err
mrd_strings_copy(mrd_strlist *to, const mrd_strlist *from)
{
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < from->n && err == MRD_OK; i++)
        err = mrd_strlist_add(to, mrd_str_of(from->v[i]));
    return err;
}

mrd_err
mrd_select_copy(mrd_select *to, const mrd_select *from)
{
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < mrd_select_rows && err == MRD_OK; i++)
        err = mrd_strings_copy(select_list(to, i), select_list(from, i));
    return err;
}

bool
mrd_select_matches(const mrd_select *selection, const char *instance_id)
{
    return selection->instances.n == 0 ||
           mrd_strlist_has(&selection->instances, mrd_str_of(instance_id));
}

mrd_json *
mrd_strings_json(const mrd_strlist *list)
{
    mrd_json *json = mrd_json_new_array();

    for (size_t i = 0; i < list->n; i++)
        mrd_json_append(json, mrd_json_new_str(list->v[i]));
    return json;
}

mrd_json *
mrd_select_json(const mrd_select *selection)
{
    mrd_json *json = mrd_json_new_object();

    for (size_t i = 0; i < mrd_select_rows; i++) {
        if (select_list(selection, i)->n > 0)
            mrd_json_set(json, mrd_select_table[i].key,
                         mrd_strings_json(select_list(selection, i)));
    }
    return json;
}

static bool
is_word(const mrd_json *json)
{
    return mrd_json_type_of(json) == MRD_JSON_TEXT || mrd_json_type_of(json) == MRD_JSON_INT;
}

/* Returns true for keys of a selection that accept the value "". This value selects processes that
 * have no namespace or cluster. */
static bool
may_be_empty(const char *key)
{
    return strcmp(key, "namespace") == 0 || strcmp(key, "cluster") == 0;
}

mrd_err
mrd_select_from_json(mrd_select *selection, const mrd_json *json, mrd_why *why)
{
    if (!mrd_json_is_object(json))
        return mrd_why_set(why, MRD_TYPE, 0, "select must be an object");
    for (size_t i = 0; i < mrd_select_rows; i++) {
        const char *key = mrd_select_table[i].key;
        const mrd_json *a = mrd_json_get(json, key);

        if (a != NULL && !mrd_json_is_array(a))
            return mrd_why_set(why, MRD_TYPE, 0, "select.%s must be a list", key);
        for (size_t k = 0; a != NULL && k < mrd_json_size(a); k++) {
            char scratch[64];
            mrd_str text;

            if (k >= 4096 || !is_word(mrd_json_at(a, k)) ||
                mrd_json_text(mrd_json_at(a, k), scratch, &text) != MRD_OK ||
                (text.len == 0 && !may_be_empty(key)) || text.len > 255)
                return mrd_why_set(why, MRD_TYPE, 0,
                                   "select.%s must be a list of at most 4096 words or numbers, "
                                   "each of 1 to 255 bytes",
                                   key);
            if (mrd_strlist_add(select_list(selection, i), text) != MRD_OK)
                return mrd_why_set(why, MRD_NOMEM, 0, "selection");
        }
    }
    return MRD_OK;
}
