#include "aggregator/core/common/targets.h"

#include <string.h>

bool
mrd_targets_next(const char *list, const char **at, mrd_str *ret_name, mrd_str *ret_target)
{
    const char *p = *at == NULL ? list : *at, *equals;
    size_t n;

    if (p == NULL || *p == '\0')
        return false;
    n = strcspn(p, ",");
    equals = memchr(p, '=', n);
    *ret_name = (mrd_str){ p, equals == NULL ? 0 : (size_t) (equals - p) };
    *ret_target =
        equals == NULL ? (mrd_str){ p, n } : (mrd_str){ equals + 1, n - (size_t) (equals + 1 - p) };
    *at = p + n + (p[n] == ',');
    return true;
}

static bool
is_name(mrd_str name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.p[i];

        if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
            c != '-' && c != '_')
            return false;
    }
    return name.len > 0 && name.len < 64;
}

static bool
is_named(const char *list, mrd_str name, const char *until)
{
    const char *at = NULL;
    mrd_str other, target;

    while (mrd_targets_next(list, &at, &other, &target) && (until == NULL || other.p < until)) {
        if (other.len == name.len && memcmp(other.p, name.p, name.len) == 0)
            return true;
    }
    return false;
}

mrd_err
mrd_targets_check(const char *list, mrd_why *why)
{
    const char *at = NULL;
    mrd_str name, target;

    while (mrd_targets_next(list, &at, &name, &target)) {
        if (!is_name(name) || target.len == 0)
            return mrd_why_set(why, MRD_INVALID, 0,
                               "--export-targets '%s': each is NAME=DIR or "
                               "NAME=s3://BUCKET/PREFIX, with a name of "
                               "letters, digits, - and _",
                               list);
        if (is_named(list, name, name.p))
            return mrd_why_set(why, MRD_INVALID, 0, "--export-targets names " MRD_STR_FMT " twice",
                               MRD_STR_ARG(name));
    }
    return MRD_OK;
}

mrd_err
mrd_targets_has(const char *list, const char *name, mrd_why *why)
{
    const char *at = NULL;
    mrd_str other, target;
    mrd_buf names = { 0 };

    if (is_named(list, mrd_str_of(name), NULL))
        return MRD_OK;
    while (mrd_targets_next(list, &at, &other, &target))
        mrd_buf_fmt(&names, "%s" MRD_STR_FMT, names.len == 0 ? "" : ", ", MRD_STR_ARG(other));
    if (names.len == 0)
        mrd_why_set(
            why, MRD_INVALID, 0,
            "export '%.40s': this aggregator has no targets to choose from (--export-targets)",
            name);
    else
        mrd_why_set(why, MRD_INVALID, 0,
                    "export '%.40s' is none of this aggregator's targets (--export-targets): %s",
                    name, mrd_buf_cstr(&names));
    mrd_buf_fini(&names);
    return MRD_INVALID;
}
