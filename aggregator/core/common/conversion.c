#include "aggregator/core/common/conversion.h"

#include <string.h>

static const char *const texts[MRD_CONVERT_STATES] = {
    [MRD_CONVERT_WAITING] = "waiting",
    [MRD_CONVERT_RUNNING] = "running",
    [MRD_CONVERT_DONE] = "done",
    [MRD_CONVERT_FAILED] = "failed",
    [MRD_CONVERT_NOT_INSTALLED] = "not-installed",
};

const char *
mrd_convert_state_text(mrd_convert_state state)
{
    return (unsigned) state < MRD_CONVERT_STATES ? texts[state] : texts[MRD_CONVERT_FAILED];
}

mrd_convert_state
mrd_convert_state_of(const char *text)
{
    for (unsigned i = 0; i < MRD_CONVERT_STATES; i++) {
        if (strcmp(text, texts[i]) == 0)
            return (mrd_convert_state) i;
    }
    return MRD_CONVERT_WAITING;
}

bool
mrd_conversions_are_open(const mrd_session_conversions *conversions)
{
    for (size_t i = 0; i < conversions->n; i++) {
        if (conversions->v[i].state <= MRD_CONVERT_RUNNING)
            return true;
    }
    return false;
}

mrd_conversion *
mrd_conversions_find(const mrd_session_conversions *conversions, const char *instance_id,
                     int64_t process_id)
{
    for (size_t i = 0; i < conversions->n; i++) {
        if (conversions->v[i].process_id == process_id &&
            strcmp(conversions->v[i].instance_id, instance_id) == 0)
            return &conversions->v[i];
    }
    return NULL;
}

bool
mrd_kind_is_converted(const char *kind)
{
    return strcmp(kind, MRD_KIND_DEVICE_PROFILE) == 0 || strcmp(kind, MRD_KIND_DEVICE_TABLE) == 0;
}
