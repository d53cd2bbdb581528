#include "aggregator/core/common/limits.h"

const char *
mrd_limit_text(mrd_limit_kind kind)
{
    static const char *const names[MRD_LIMIT_KINDS] = {
        "none",         "agent-rate",        "total-rate",   "max-connections", "max-nodes",
        "max-sessions", "max-open-sessions", "session-size", "disk-reserve",    "uploads",
        "epochs",       "node-gaps"
    };

    return kind < MRD_LIMIT_KINDS ? names[kind] : "unknown";
}

uint32_t
mrd_bucket_take(mrd_bucket *bucket, int64_t rate, mrd_local_ns now, uint64_t want)
{
    int64_t since = now.ns - bucket->at.ns;

    if (rate <= 0)
        return 0;
    since = since > MRD_SEC ? MRD_SEC : since < 0 ? 0 : since;
    bucket->bytes += (int64_t) ((__int128) rate * since / MRD_SEC);
    bucket->bytes = bucket->bytes > rate ? rate : bucket->bytes;
    bucket->at = now;
    if (bucket->bytes <= 0) {
        int64_t ms = -bucket->bytes / (rate / 1000 + 1) + 10;

        return ms > 5000 ? 5000 : (uint32_t) ms;
    }
    bucket->bytes -= (int64_t) want;
    return 0;
}
