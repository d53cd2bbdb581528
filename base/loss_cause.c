#include "base/loss_cause.h"

#include "base/obj.h"

static const struct {
    const char *name, *meaning;
    mrd_loss_effect effect;
} causes[] = {
#define LOSS_CAUSE(name, text, effect, where, meaning) { text, meaning, MRD_LOSS_##effect },
#include "base/loss_cause.def"
#undef LOSS_CAUSE
};

const char *
mrd_drop_text(mrd_drop_cause cause)
{
    return (unsigned) cause < MRD_COUNT(causes) ? causes[cause].name : "unknown";
}

mrd_drop_cause
mrd_drop_of(mrd_str name)
{
    size_t i = 0;

    while (i < MRD_COUNT(causes) && !mrd_str_is(name, causes[i].name))
        i++;
    return (mrd_drop_cause) i;
}

mrd_loss_effect
mrd_drop_effect(mrd_str name)
{
    mrd_drop_cause cause = mrd_drop_of(name);

    return cause == MRD_DROP_ALL ? MRD_LOSS_HOLE : causes[cause].effect;
}

const char *
mrd_drop_meaning(mrd_str name)
{
    mrd_drop_cause cause = mrd_drop_of(name);

    return cause == MRD_DROP_ALL ? NULL : causes[cause].meaning;
}
