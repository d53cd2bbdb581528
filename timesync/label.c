#include "timesync/label.h"

#include "base/obj.h"

static const char *
label_text(const char *const *table, unsigned n, unsigned i)
{
    return i < n ? table[i] : "unknown";
}

const char *
mrd_stamp_source_text(unsigned source)
{
    static const char *const table[] = {
#define MRD_STAMP_SOURCE(name, value, text) text,
#include "timesync/label.def"
#undef MRD_STAMP_SOURCE
    };

    return label_text(table, MRD_COUNT(table), source);
}

const char *
mrd_align_quality_text(unsigned quality)
{
    static const char *const table[] = {
#define MRD_ALIGN_QUALITY(name, value, text) text,
#include "timesync/label.def"
#undef MRD_ALIGN_QUALITY
    };

    return label_text(table, MRD_COUNT(table), quality);
}

const char *
mrd_epoch_cause_text(unsigned cause)
{
    static const char *const table[] = {
#define MRD_EPOCH_CAUSE(name, value, text) text,
#include "timesync/label.def"
#undef MRD_EPOCH_CAUSE
    };

    return label_text(table, MRD_COUNT(table), cause);
}
