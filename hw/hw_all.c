/* hw/hw_all.c - defines mrd_hw_open, which opens all backends of backends.def. libmeridian does not
 * link this file. */
#include "hw/hw.h"

#include "base/obj.h"

static const mrd_hw_backend *const all[] = {
#define MRD_HW_BACKEND(ident) &mrd_hw_backend_##ident,
#include "hw/backends.def"
#undef MRD_HW_BACKEND
};

mrd_err
mrd_hw_open(const mrd_hw_options *options, mrd_hw **ret_hw, mrd_why *why)
{
    return mrd_hw_open_list(all, MRD_COUNT(all), options, ret_hw, why);
}
