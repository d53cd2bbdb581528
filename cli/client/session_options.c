#include "cli/client/session_options.h"

#include <string.h>

#include "base/obj.h"

static mrd_opt_type
type_of(mrd_param_kind kind)
{
    switch (kind) {
    case MRD_PARAM_TEXT:
        return MRD_OPT_STR;
    case MRD_PARAM_CHOICE:
        return MRD_OPT_CHOICE;
    case MRD_PARAM_BOOL:
        return MRD_OPT_BOOL;
    case MRD_PARAM_DUR:
        return MRD_OPT_DUR;
    case MRD_PARAM_SIZE:
        return MRD_OPT_SIZE;
    case MRD_PARAM_LIST:
        break;
    }
    return MRD_OPT_LIST;
}

static bool
has_option(const mrd_opt *table, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (table[i].type != MRD_OPT_HEAD && strcmp(table[i].name, name) == 0)
            return true;
    }
    return false;
}

static mrd_opt
param_option(const mrd_session_param *row, size_t base)
{
    bool number = row->kind == MRD_PARAM_DUR || row->kind == MRD_PARAM_SIZE;

    return (mrd_opt){ .name = row->option,
                      .letter = row->letter,
                      .type = type_of(row->kind),
                      .offset = base + offsetof(mrd_session_request, params) + row->offset,
                      .def = row->def,
                      .min = number ? mrd_session_param_min(row) : 0,
                      .max = number ? row->max : 0,
                      .arg = row->arg,
                      .help = row->help };
}

static mrd_opt
select_option(const mrd_select_row *row, size_t base)
{
    return (mrd_opt){ .name = row->option,
                      .type = MRD_OPT_LIST,
                      .offset = base + offsetof(mrd_session_request, select) + row->offset,
                      .arg = row->arg,
                      .help = row->help };
}

size_t
mrd_session_options(const mrd_opt *table, size_t count, mrd_opt *ret_table, size_t room)
{
    size_t at = 0;

    for (size_t i = 0; i < count; i++) {
        const mrd_opt *own = &table[i];
        mrd_opt select = { .type = MRD_OPT_HEAD, .help = "Selection (everything when not given)" };
        size_t more = own->type == MRD_OPT_HEAD && own->name != NULL
                          ? MRD_SESSION_PARAMS + mrd_select_rows + 1
                          : 0;

        /* the caller's array must have room for all rows */
        MRD_ASSERT(at + 1 + more <= room);
        ret_table[at++] = *own;
        if (more == 0)
            continue;
        for (size_t k = 0; k < MRD_SESSION_PARAMS; k++) {
            const mrd_session_param *row = &mrd_session_param_table[k];

            if ((row->commands & own->flags) != 0 && !has_option(table, count, row->option))
                ret_table[at++] = param_option(row, own->offset);
        }
        ret_table[at++] = select;
        for (size_t k = 0; k < mrd_select_rows; k++)
            ret_table[at++] = select_option(&mrd_select_table[k], own->offset);
    }
    return at;
}

void
mrd_session_options_init(const mrd_opt *table, size_t n, void *settings)
{
    for (size_t i = 0; i < n; i++) {
        mrd_session_request *request =
            (mrd_session_request *) ((uintptr_t) settings + table[i].offset);

        if (table[i].type == MRD_OPT_HEAD && table[i].name != NULL)
            mrd_session_params_init_numbers(&request->params);
    }
}

static mrd_json *
select_json(const mrd_select *selection)
{
    mrd_json *json = mrd_json_new_object();

    for (size_t i = 0; i < mrd_select_rows; i++) {
        const mrd_strlist *list =
            (const mrd_strlist *) ((uintptr_t) selection + mrd_select_table[i].offset);
        mrd_json *a = list->n > 0 ? mrd_json_new_array() : NULL;

        for (size_t k = 0; k < list->n; k++)
            mrd_json_append(a, mrd_json_new_str(list->v[k]));
        if (a != NULL)
            mrd_json_set(json, mrd_select_table[i].key, a);
    }
    return json;
}

mrd_json *
mrd_session_request_json(const mrd_session_request *request)
{
    mrd_json *json = mrd_json_new_object(), *select = select_json(&request->select);

    mrd_session_params_put_json(&request->params, json);
    if (mrd_json_size(select) > 0)
        mrd_json_set(json, "select", select);
    else
        mrd_json_free(select);
    return json;
}
