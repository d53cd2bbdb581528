/* Does the periodic work of the core: everything that is due for nodes, surveys, sessions and
 * manifests. */
#include "aggregator/core/model/state.h"

#define SAVE_EVERY   MRD_SEC
#define RETAIN_EVERY (10 * MRD_SEC)

static bool
waits(const mrd_core *core, const mrd_node *node)
{
    for (unsigned i = 0; i < core->n_pending; i++) {
        if (core->pending[i].node == node)
            return true;
    }
    return false;
}

static void
drop_forgotten(mrd_core *core)
{
    for (size_t i = core->nodes.n; i-- > 0;) {
        mrd_node *node = core->nodes.v[i];

        if (node->forget && node->conn == 0 && !waits(core, node) &&
            mrd_effects_room(&core->out, MRD_EFFECTS_ROOM))
            mrd_core_drop_node(core, node);
    }
}

void
mrd_core_tick(mrd_core *core, mrd_core_time now)
{
    mrd_core_enter(core, now);
    drop_forgotten(core);
    mrd_core_surveys_tick(core);
    mrd_core_watch_jobs(core);
    for (size_t i = 0; i < core->n_sessions; i++) {
        if (!core->sessions[i]->deleted && mrd_effects_room(&core->out, MRD_EFFECTS_ROOM))
            mrd_session_run(core, core->sessions[i]);
    }
    mrd_core_remove_deleted(core);
    if (now.local.ns >= core->next_save.ns) {
        core->next_save.ns = now.local.ns + SAVE_EVERY;
        mrd_core_save_round(core);
    }
    if (now.local.ns >= core->next_retain.ns) {
        core->next_retain.ns = now.local.ns + RETAIN_EVERY;
        mrd_core_retain(core);
    }
}
