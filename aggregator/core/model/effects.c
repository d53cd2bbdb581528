#include "aggregator/core/model/effects.h"

#include "base/obj.h"

bool
mrd_effects_room(const mrd_effects *effects, unsigned n)
{
    return effects->n + n <= MRD_EFFECTS_MAX;
}

/* The large arrays of the effect are not cleared. To clear them would take longer than all other
 * work for an acknowledgement, which is the most frequent effect. */
mrd_effect *
mrd_effects_add(mrd_effects *effects, mrd_effect_kind kind)
{
    mrd_effect *to = &effects->v[effects->n];

    MRD_ASSERT(effects->n < MRD_EFFECTS_MAX);
    effects->n++;
    memset(to, 0, offsetof(mrd_effect, directives));
    memset(&to->n_directives, 0, offsetof(mrd_effect, text) - offsetof(mrd_effect, n_directives));
    to->text[0] = '\0';
    to->kind = kind;
    return to;
}

/* Adds a log line, or drops it if the queue is nearly full. Other effects are never dropped. */
void
mrd_effects_log(mrd_effects *effects, mrd_log_level level, const char *id, const char *format, ...)
{
    mrd_effect *to;
    va_list args;

    if (!mrd_effects_room(effects, MRD_EFFECTS_MAX / 8))
        return;
    to = mrd_effects_add(effects, MRD_DO_LOG);
    to->level = level;
    to->id = id;
    va_start(args, format);
    vsnprintf(to->text, sizeof(to->text), format, args);
    va_end(args);
}
