#include "aggregator/core/common/json.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/jobid.h"
#include "base/num.h"

void
mrd_json_put_instant(mrd_json *json, const char *key, int64_t ns)
{
    char text[MRD_TIME_TEXT], number[64];

    if (ns == 0)
        return;
    mrd_json_set(json, key, mrd_json_new_str(mrd_wall_text((mrd_wall_ns){ ns }, text)));
    snprintf(number, sizeof(number), "%s_ns", key);
    mrd_json_set(json, number, mrd_json_new_int(ns));
}

mrd_json *
mrd_json_new_count(uint64_t n)
{
    return mrd_json_new_int(n > INT64_MAX ? INT64_MAX : (int64_t) n);
}

uint32_t
mrd_json_get_u32(const mrd_json *json, const char *key)
{
    int64_t v = mrd_json_int(json, key, 0);

    return v < 0 || v > UINT32_MAX ? 0 : (uint32_t) v;
}

void
mrd_json_put_hex(mrd_json *json, const char *key, uint64_t v)
{
    char hex[24];

    snprintf(hex, sizeof(hex), "%016llx", (unsigned long long) v);
    mrd_json_set(json, key, mrd_json_new_str(hex));
}

uint64_t
mrd_json_get_hex(const mrd_json *json, const char *key)
{
    char hex[24];
    uint64_t v = 0;

    snprintf(hex, sizeof(hex), "0x%.16s", mrd_json_str(json, key, "0"));
    (void) mrd_num_u64(mrd_str_of(hex), &v);
    return v;
}

mrd_json *
mrd_jobid_json(const char *at)
{
    mrd_json *json = mrd_json_new_object();
    mrd_str key, value;

    while (mrd_jobid_next(&at, &key, &value)) {
        char name[MRD_JOBID_VALUE + 1], text[MRD_JOBID_VALUE + 1];

        snprintf(name, sizeof(name), MRD_STR_FMT, MRD_STR_ARG(key));
        snprintf(text, sizeof(text), MRD_STR_FMT, MRD_STR_ARG(value));
        mrd_json_set(json, name, mrd_json_new_str(text));
    }
    return json;
}
