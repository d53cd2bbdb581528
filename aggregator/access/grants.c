#include "aggregator/access/grants.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/near.h"
#include "base/obj.h"
#include "proto/fetch.h"

#define SETTINGS_MAX (1u << 20)

static const mrd_role roles_of_files[] = { MRD_ROLE_ADMIN, MRD_ROLE_OPERATOR, MRD_ROLE_READ };

static mrd_err
known_members(mrd_json *json, const char *const *members, size_t n, const char *path, mrd_why *why)
{
    for (void *it = mrd_json_iter(json); it != NULL; it = mrd_json_iter_next(json, it)) {
        const char *key = mrd_json_iter_key(it), *near;
        bool known = false;

        for (size_t i = 0; i < n; i++)
            known |= strcmp(key, members[i]) == 0;
        near = known ? NULL : mrd_nearest(key, members, n);
        if (!known)
            return mrd_why_set(why, MRD_INVALID, 0, "%s: unknown member '%.64s'%s%s", path, key,
                               near == NULL ? "" : ": did you mean ", near == NULL ? "" : near);
    }
    return MRD_OK;
}

mrd_err
mrd_grants_load(const char *option, const char *path, const char *const *members, size_t count,
                mrd_json **ret_doc, mrd_why *why)
{
    mrd_json *doc = NULL;
    struct stat st;
    mrd_err err;

    if (stat(path, &st) != 0)
        return mrd_why_set(why, MRD_NOTFOUND, errno, "%s %s", option, path);
    if ((st.st_uid != 0 && st.st_uid != geteuid()) || (st.st_mode & 022) != 0)
        return mrd_why_set(why, MRD_DENIED, 0,
                           "%s %s decides who may do what, but others than root and this user may "
                           "write it",
                           option, path);
    if ((err = mrd_json_load_up_to(path, SETTINGS_MAX, &doc, why)) != MRD_OK)
        return err;
    err = mrd_json_is_object(doc) ? known_members(doc, members, count, path, why)
                                  : mrd_why_set(why, MRD_TYPE, 0, "%s: expected an object", path);
    if (err != MRD_OK)
        mrd_json_free(doc);
    else
        *ret_doc = doc;
    return err;
}

mrd_err
mrd_grants_text(const mrd_json *doc, const char *name, bool must, const char *path,
                const char **ret_text, mrd_why *why)
{
    *ret_text = mrd_json_str(doc, name, NULL);
    if (mrd_json_get(doc, name) == NULL ? must : *ret_text == NULL || **ret_text == '\0')
        return mrd_why_set(why, MRD_INVALID, 0, "%s: '%s' must be text", path, name);
    return MRD_OK;
}

mrd_err
mrd_grants_object(const mrd_json *doc, const char *name, const char *path,
                  const mrd_json **ret_object, mrd_why *why)
{
    *ret_object = mrd_json_get(doc, name);
    if (*ret_object != NULL && !mrd_json_is_object(*ret_object))
        return mrd_why_set(why, MRD_INVALID, 0, "%s: '%s' must be an object", path, name);
    return MRD_OK;
}

mrd_err
mrd_grants_roles(const mrd_json *doc, const char *path, const mrd_json **ret_roles, mrd_why *why)
{
    const char *names[MRD_COUNT(roles_of_files)];
    mrd_err err = mrd_grants_object(doc, "roles", path, ret_roles, why);

    if (err != MRD_OK || *ret_roles == NULL)
        return err;
    for (size_t i = 0; i < MRD_COUNT(names); i++) {
        const mrd_json *list =
            mrd_json_get(*ret_roles, names[i] = mrd_role_text(roles_of_files[i]));

        if (list != NULL && !mrd_json_is_array(list))
            return mrd_why_set(why, MRD_INVALID, 0, "%s: role '%s' must be a list of names", path,
                               names[i]);
    }
    return known_members(mrd_json_get(doc, "roles"), names, MRD_COUNT(names), path, why);
}

mrd_err
mrd_grants_url(const char *url, const char *name, const char *path, mrd_why *why)
{
    if (mrd_fetch_url_safe(url))
        return MRD_OK;
    return mrd_why_set(why, MRD_INVALID, 0,
                       "%s: '%s' must be an address with https:// (http:// to this machine)", path,
                       name);
}

bool
mrd_grants_has(const mrd_json *claim, const mrd_json *names)
{
    bool list = mrd_json_is_array(claim);
    size_t n = list ? mrd_json_size(claim) : 1;
    char scratch[64], other[64];
    mrd_str have, want;

    for (size_t i = 0; i < n && claim != NULL && mrd_json_is_array(names); i++) {
        const mrd_json *json = list ? mrd_json_at(claim, i) : claim;

        if (mrd_json_type_of(json) != MRD_JSON_TEXT ||
            mrd_json_text(json, scratch, &have) != MRD_OK)
            continue;
        for (size_t k = 0; k < mrd_json_size(names); k++)
            if (mrd_json_text(mrd_json_at(names, k), other, &want) == MRD_OK &&
                mrd_str_eq(have, want))
                return true;
    }
    return false;
}

mrd_role
mrd_grants_role(const mrd_json *roles, const mrd_json *claim)
{
    for (size_t i = 0; claim != NULL && roles != NULL && i < MRD_COUNT(roles_of_files); i++)
        if (mrd_grants_has(claim, mrd_json_get(roles, mrd_role_text(roles_of_files[i]))))
            return roles_of_files[i];
    return MRD_ROLE_NONE;
}

bool
mrd_grants_name(const char *text, char *to, size_t size)
{
    size_t n = text == NULL ? 0 : strlen(text);

    if (n == 0 || n >= size)
        return false;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char) text[i] <= ' ' || text[i] == 0x7f)
            return false;
    memcpy(to, text, n + 1);
    return true;
}

bool
mrd_grants_namespace(const char *subject, char *to, size_t size)
{
    static const char prefix[] = "system:serviceaccount:";
    const char *space = subject + sizeof(prefix) - 1, *colon;
    char name[64];

    if (strncmp(subject, prefix, sizeof(prefix) - 1) != 0 || (colon = strchr(space, ':')) == NULL ||
        colon[1] == '\0' || strchr(colon + 1, ':') != NULL ||
        (size_t) (colon - space) >= sizeof(name))
        return false;
    memcpy(name, space, (size_t) (colon - space));
    name[colon - space] = '\0';
    return mrd_grants_name(name, to, size);
}
