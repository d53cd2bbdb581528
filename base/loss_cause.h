/*
 * base/loss_cause.h - the causes of lost events, their names, and which data each cause makes
 * incomplete. The table is base/loss_cause.def. Threads: stateless.
 */
#ifndef MRD_BASE_LOSS_CAUSE_H
#define MRD_BASE_LOSS_CAUSE_H

#include "base/buf.h"

typedef enum {
#define LOSS_CAUSE(name, text, effect, where, sentence) MRD_DROP_##name,
#include "base/loss_cause.def"
#undef LOSS_CAUSE
    MRD_DROP_ALL,
    MRD_DROP_CAUSES = MRD_DROP_LATE_AT_MOST /* number of causes that an agent counts */
} mrd_drop_cause;

/* What a loss makes unknown. */
typedef enum {
    MRD_LOSS_HOLE,     /* events that a session requested, so the node's recording has a gap */
    MRD_LOSS_THREAD,   /* annotations and runtime calls of one thread, but no event of a core */
    MRD_LOSS_UNWANTED, /* nothing: no user requested the events */
    MRD_LOSS_NONE      /* nothing: no event was lost */
} mrd_loss_effect;

/* Returns the name, for example "ring-full", or "unknown" if the table has no such cause. The text
 * is static. */
const char *mrd_drop_text(mrd_drop_cause cause);
/* Returns the cause with this name, or MRD_DROP_ALL if the table has none. */
mrd_drop_cause mrd_drop_of(mrd_str name);
/* Returns the effect of the cause with this name. Returns MRD_LOSS_HOLE for a name that is not in
 * the table, which a newer agent or another program may use. */
mrd_loss_effect mrd_drop_effect(mrd_str name);
/* Returns the description of this cause in the table, without a period. Returns NULL if the table
 * has no such name. */
const char *mrd_drop_meaning(mrd_str name);

#endif
