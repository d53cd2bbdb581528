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
mrd_bucket_take(mrd_bucket *b, int64_t rate, mrd_local_ns now, uint64_t want)
{
    int64_t since = now.ns - b->at.ns;

    if (rate <= 0)
        return 0;
    since = since > MRD_SEC ? MRD_SEC : since < 0 ? 0 : since;
    b->bytes += (int64_t) ((__int128) rate * since / MRD_SEC);
    b->bytes = b->bytes > rate ? rate : b->bytes;
    b->at = now;
    if (b->bytes <= 0) {
        int64_t ms = -b->bytes / (rate / 1000 + 1) + 10;

        return ms > 5000 ? 5000 : (uint32_t) ms;
    }
    b->bytes -= (int64_t) want;
    return 0;
}
