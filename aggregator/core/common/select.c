#include "aggregator/core/common/select.h"

#include "base/obj.h"

static mrd_strlist *
select_list(const mrd_select *s, size_t i)
{
    return (mrd_strlist *) ((uintptr_t) s + mrd_select_table[i].offset);
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
mrd_select_matches(const mrd_select *s, const char *instance_id)
{
    return s->instances.n == 0 || mrd_strlist_has(&s->instances, mrd_str_of(instance_id));
}

mrd_json *
mrd_strings_json(const mrd_strlist *list)
{
    mrd_json *a = mrd_json_new_array();

    for (size_t i = 0; i < list->n; i++)
        mrd_json_append(a, mrd_json_new_str(list->v[i]));
    return a;
}

mrd_json *
mrd_select_json(const mrd_select *s)
{
    mrd_json *o = mrd_json_new_object();

    for (size_t i = 0; i < mrd_select_rows; i++) {
        if (select_list(s, i)->n > 0)
            mrd_json_set(o, mrd_select_table[i].key, mrd_strings_json(select_list(s, i)));
    }
    return o;
}

static bool
is_word(const mrd_json *v)
{
    return mrd_json_type_of(v) == MRD_JSON_TEXT || mrd_json_type_of(v) == MRD_JSON_INT;
}

/* Returns true for keys where an empty text means that the process has no such value. */
static bool
may_be_empty(const char *key)
{
    return strcmp(key, "namespace") == 0 || strcmp(key, "cluster") == 0;
}

mrd_err
mrd_select_from_json(mrd_select *s, const mrd_json *o, mrd_why *why)
{
    if (!mrd_json_is_object(o))
        return mrd_why_set(why, MRD_TYPE, 0, "select must be an object");
    for (size_t i = 0; i < mrd_select_rows; i++) {
        const char *key = mrd_select_table[i].key;
        const mrd_json *a = mrd_json_get(o, key);

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
            if (mrd_strlist_add(select_list(s, i), text) != MRD_OK)
                return mrd_why_set(why, MRD_NOMEM, 0, "selection");
        }
    }
    return MRD_OK;
}
