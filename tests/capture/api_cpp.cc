// The header from C++: scopes that end with their objects, also when an exception flies.
#include <stdexcept>
#include <string>

#include "capture/meridian.h"

extern "C" int api_from_cpp(mrd_domain *domain, mrd_region *region);

static void
throws(mrd_domain *domain)
{
    meridian::Scope scope(domain, std::string("cpp throws").c_str());

    throw std::runtime_error("on purpose");
}

int
api_from_cpp(mrd_domain *domain, mrd_region *region)
{
    int caught = 0;

    MRD_SCOPE(domain, "cpp macro");
    meridian::Scope named("cpp object");
    meridian::RegionScope inside(*region);
    try {
        throws(domain);
    } catch (const std::runtime_error &) {
        caught = 1;
    }
    mrd_kv args[] = { mrd_kv_i64("a", -1), mrd_kv_bool("b", 1) };
    mrd_instant(domain, "cpp instant", MRD_SCOPE_GLOBAL, args, 2);
    return caught;
}
