/* The periodic work: everything of nodes, surveys, sessions and manifests that is due. */
#include "aggregator/core/model/state.h"

#define SAVE_EVERY   MRD_SEC
#define RETAIN_EVERY (10 * MRD_SEC)

static bool
waits(const mrd_core *c, const mrd_node *n)
{
    for (unsigned i = 0; i < c->n_pending; i++) {
        if (c->pending[i].node == n)
            return true;
    }
    return false;
}

static void
drop_forgotten(mrd_core *c)
{
    for (size_t i = c->nodes.n; i-- > 0;) {
        mrd_node *n = c->nodes.v[i];

        if (n->forget && n->conn == 0 && !waits(c, n) &&
            mrd_effects_room(&c->out, MRD_EFFECTS_ROOM))
            mrd_core_drop_node(c, n);
    }
}

void
mrd_core_tick(mrd_core *c, mrd_core_time now)
{
    mrd_core_enter(c, now);
    drop_forgotten(c);
    mrd_core_surveys_tick(c);
    mrd_core_watch_hangs(c);
    for (size_t i = 0; i < c->n_sessions; i++) {
        if (!c->sessions[i]->deleted && mrd_effects_room(&c->out, MRD_EFFECTS_ROOM))
            mrd_session_run(c, c->sessions[i]);
    }
    mrd_core_remove_deleted(c);
    if (now.local.ns >= c->next_save.ns) {
        c->next_save.ns = now.local.ns + SAVE_EVERY;
        mrd_core_save_round(c);
    }
    if (now.local.ns >= c->next_retain.ns) {
        c->next_retain.ns = now.local.ns + RETAIN_EVERY;
        mrd_core_retain(c);
    }
}
