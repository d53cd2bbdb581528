#include "aggregator/api/http_body.h"

#include "aggregator/api/select_check.h"
#include "base/near.h"
#include "base/num.h"
#include "base/obj.h"

#define DAY         (86400 * MRD_SEC)
#define LONGEST     (30 * DAY)
#define MEMBERS_MAX 64

const mrd_body_member mrd_http_session_members[] = {
#define MRD_PARAM(ident, kind, request, ...) { request, MRD_BODY_ANY, 0, 0 },
#include "proto/session_params.def"
#undef MRD_PARAM
    { "select", MRD_BODY_OBJECT, 0, 0 },
    { NULL, MRD_BODY_TEXT, 0, 0 },
};

const mrd_body_member mrd_http_trigger_members[] = {
    { "last", MRD_BODY_DUR, MRD_MS, LONGEST },
    { "reason", MRD_BODY_TEXT, 0, 0 },
    { NULL, MRD_BODY_TEXT, 0, 0 },
};

static const mrd_body_member change_members[] = { { "select", MRD_BODY_OBJECT, 0, 0 },
                                                  { NULL, MRD_BODY_TEXT, 0, 0 } };

const mrd_body_member mrd_http_no_members[] = { { NULL, MRD_BODY_TEXT, 0, 0 } };

/* ---- Checking one member of a body ---- */

static bool
type_fits(mrd_body_type type, mrd_json_type json_type)
{
    switch (type) {
    case MRD_BODY_TEXT:
        return json_type == MRD_JSON_TEXT;
    case MRD_BODY_BOOL:
        return json_type == MRD_JSON_BOOL;
    case MRD_BODY_INT:
        return json_type == MRD_JSON_INT;
    case MRD_BODY_LIST:
        return json_type == MRD_JSON_ARRAY;
    case MRD_BODY_OBJECT:
        return json_type == MRD_JSON_OBJECT;
    case MRD_BODY_ANY:
        return true;
    default:
        return json_type == MRD_JSON_TEXT || json_type == MRD_JSON_INT;
    }
}

static const char *
type_text(mrd_body_type type)
{
    static const char *const texts[] = {
        [MRD_BODY_TEXT] = "text",
        [MRD_BODY_BOOL] = "true or false",
        [MRD_BODY_INT] = "an integer",
        [MRD_BODY_DUR] = "a duration like \"30s\" or a number of nanoseconds",
        [MRD_BODY_LIST] = "a list",
        [MRD_BODY_OBJECT] = "an object",
        [MRD_BODY_ANY] = "of its type",
    };

    return texts[type];
}

static mrd_err
check_dur(const mrd_json *json, const mrd_body_member *member, mrd_why *why)
{
    char scratch[64], low[MRD_DUR_TEXT];
    mrd_str text;
    int64_t dur = -1;

    if (mrd_json_text(json, scratch, &text) != MRD_OK)
        return mrd_why_set(why, MRD_TYPE, 0, "%s must be %s", member->name,
                           type_text(member->type));
    if ((mrd_json_type_of(json) == MRD_JSON_INT ? mrd_num_i64(text, &dur)
                                                : mrd_num_dur(text, &dur)) == MRD_OK &&
        dur >= member->min && dur <= member->max)
        return MRD_OK;
    return mrd_why_set(why, MRD_RANGE, 0, "%s must be %s, at least %s and at most %lld days",
                       member->name, type_text(member->type), mrd_dur_text(member->min, low),
                       (long long) (member->max / DAY));
}

static mrd_err
check_member(const mrd_json *json, const mrd_body_member *member, mrd_why *why)
{
    int64_t number;

    if (!type_fits(member->type, mrd_json_type_of(json)))
        return mrd_why_set(why, MRD_TYPE, 0, "%s must be %s", member->name,
                           type_text(member->type));
    if (member->type == MRD_BODY_DUR)
        return check_dur(json, member, why);
    if (member->type != MRD_BODY_INT)
        return MRD_OK;
    number = mrd_json_int_of(json);
    return number >= member->min && number <= member->max
               ? MRD_OK
               : mrd_why_set(why, MRD_RANGE, 0, "%s must be an integer from %lld to %lld",
                             member->name, (long long) member->min, (long long) member->max);
}

mrd_err
mrd_http_body_check(mrd_json *body, const mrd_body_member *members, mrd_why *why)
{
    const char *names[MEMBERS_MAX];
    mrd_err err = MRD_OK;
    size_t count = 0;

    for (; members[count].name != NULL; count++) {
        MRD_ASSERT(count < MEMBERS_MAX);
        names[count] = members[count].name;
    }
    for (void *it = mrd_json_iter(body); it != NULL && err == MRD_OK;
         it = mrd_json_iter_next(body, it)) {
        const char *key = mrd_json_iter_key(it), *near;
        size_t i = 0;

        while (i < count && strcmp(names[i], key) != 0)
            i++;
        if (i < count) {
            err = check_member(mrd_json_iter_value(it), &members[i], why);
            continue;
        }
        near = count == 0 ? NULL : mrd_nearest(key, names, count);
        err = mrd_why_set(why, MRD_INVALID, 0, "unknown member '%.64s'%s%s%s", key,
                          near == NULL ? "" : ": did you mean '", near == NULL ? "" : near,
                          near == NULL ? "" : "'?");
    }
    return err;
}

mrd_dur_ns
mrd_http_body_dur(const mrd_json *json, const char *key, mrd_dur_ns def)
{
    const char *text = mrd_json_str(json, key, NULL);
    mrd_dur_ns dur = def;

    if (text == NULL)
        return mrd_json_int(json, key, def);
    return mrd_num_dur(mrd_str_of(text), &dur) == MRD_OK ? dur : def;
}

/* ---- The body that starts a session ---- */

mrd_err
mrd_http_session_request(mrd_json *json, mrd_session_request *request, mrd_why *why)
{
    const mrd_json *select = mrd_json_get(json, "select");
    mrd_err err = mrd_http_body_check(json, mrd_http_session_members, why);

    if (err == MRD_OK && mrd_session_params_init(&request->params) != MRD_OK)
        err = mrd_why_set(why, MRD_NOMEM, 0, "session");
    if (err == MRD_OK)
        err = mrd_session_params_from_json(&request->params, json, why);
    if (err == MRD_OK && select != NULL)
        err = mrd_select_from_json(&request->select, select, why);
    if (err == MRD_OK && select != NULL)
        err = mrd_select_check(&request->select, select, why);
    return err;
}

/* ---- The body that changes a session ---- */

mrd_err
mrd_http_change_request(mrd_json *body, mrd_session_change *change, mrd_why *why)
{
    static const char *const members[] = { "event_type", "core" };
    mrd_err err = mrd_http_body_check(body, change_members, why);
    const mrd_json *select = mrd_json_get(body, "select");

    if (err != MRD_OK)
        return err;
    change->types = select != NULL && mrd_json_get(select, members[0]) != NULL;
    change->cores = select != NULL && mrd_json_get(select, members[1]) != NULL;
    if (select == NULL || mrd_json_size(select) == 0 ||
        mrd_json_size(select) != (size_t) change->types + (size_t) change->cores)
        return mrd_why_set(why, MRD_INVALID, 0,
                           "select must have event_type, core or both: nothing else of a session "
                           "changes while it records");
    if ((err = mrd_select_from_json(&change->select, select, why)) != MRD_OK)
        return err;
    return mrd_select_check(&change->select, select, why);
}

/* ---- The body of a trigger ---- */

mrd_err
mrd_http_trigger_request(mrd_json *body, mrd_dur_ns *ret_last, const char **ret_reason,
                         mrd_why *why)
{
    mrd_err err = mrd_http_body_check(body, mrd_http_trigger_members, why);

    if (err != MRD_OK)
        return err;
    *ret_last = mrd_http_body_dur(body, "last", 20 * MRD_SEC);
    *ret_reason = mrd_json_str(body, "reason", "http");
    if (strlen(*ret_reason) >= MRD_TEXT_MAX)
        return mrd_why_set(why, MRD_LIMIT, 0, "reason must be shorter than %d bytes", MRD_TEXT_MAX);
    return MRD_OK;
}
