/* Makes random requests of users to the aggregator of the simulated cluster: start, stop, trigger,
 * delete and merge sessions. */
#include "base/obj.h"
#include "tests/sim/cluster_node.h"

static void
command(world *w, mrd_loop_fn *fn, void *arg, size_t len)
{
    if (w->loop != NULL) {
        loop_command(w, fn, arg, len);
        return;
    }
    fn(w->core, server_now(w), ++w->last_ticket, arg);
    server_carry(w);
}

static void
start_session(mrd_core *c, mrd_core_time now, uint64_t ticket, void *arg)
{
    mrd_core_start(c, now, ticket, arg);
}

static void
stop_session(mrd_core *c, mrd_core_time now, uint64_t ticket, void *arg)
{
    mrd_core_stop(c, now, ticket, *(const uint64_t *) arg);
}

static void
trigger_all(mrd_core *c, mrd_core_time now, uint64_t ticket, void *arg)
{
    mrd_core_trigger(c, now, ticket, 0, *(const mrd_dur_ns *) arg, "sim");
}

static void
delete_session(mrd_core *c, mrd_core_time now, uint64_t ticket, void *arg)
{
    mrd_core_delete(c, now, ticket, *(const uint64_t *) arg);
}

static void
merge_session(mrd_core *c, mrd_core_time now, uint64_t ticket, void *arg)
{
    mrd_core_merge(c, now, ticket, *(const uint64_t *) arg);
}

void
server_begin(world *w, bool recorder, mrd_dur_ns duration)
{
    bool all = sim_chance(w, 300), merge = sim_chance(w, 700);
    mrd_session_request r = { 0 };

    if (!w->up)
        return;
    MRD_ASSERT(mrd_session_params_init(&r.params) == MRD_OK &&
               mrd_session_params_set(&r.params, "name", "sim", NULL) == MRD_OK &&
               mrd_session_params_set(&r.params, "require", all ? "all" : "any", NULL) == MRD_OK);
    r.params.mode = recorder ? MRD_MODE_RECORDER : MRD_MODE_STREAM;
    r.params.duration = duration;
    r.params.merge = merge;
    limits_ask(w, &r.params);
    w->r->sessions++;
    command(w, start_session, &r, sizeof(r));
}

static mrd_session *
some_session(world *w, bool open)
{
    mrd_session *s;

    if (!w->up || w->core->n_sessions == 0)
        return NULL;
    s = w->core->sessions[sim_below(w, w->core->n_sessions)];
    return s->deleted || mrd_session_is_over(s) == open ? NULL : s;
}

void
server_stop(world *w)
{
    for (size_t i = 0; w->up && w->healing && i < w->core->n_sessions; i++) { /* all of them */
        if (w->core->sessions[i]->deleted || w->core->sessions[i]->stop_requested)
            continue;
        command(w, stop_session, &w->core->sessions[i]->id, sizeof(uint64_t));
    }
    if (!w->healing) {
        mrd_session *s = some_session(w, true);

        if (s == NULL)
            return;
        command(w, stop_session, &s->id, sizeof(s->id));
    }
}

void
server_trigger(world *w)
{
    mrd_dur_ns window = 20 * MRD_SEC;

    if (!w->up)
        return;
    w->r->triggers++;
    command(w, trigger_all, &window, sizeof(window));
}

void
server_delete(world *w)
{
    mrd_session *s = some_session(w, sim_chance(w, 500));

    if (s == NULL || sim_chance(w, 300))
        return;
    if (sim_chance(w, 300))
        command(w, merge_session, &s->id, sizeof(s->id));
    if (s->state >= MRD_SESSION_MERGING)
        disk_make(w, s->id)->deleted_by_people = true;
    command(w, delete_session, &s->id, sizeof(s->id));
}

void
server_merge(world *w)
{
    const mrd_session *s = some_session(w, false);

    if (s != NULL) {
        uint64_t id = s->id;

        command(w, merge_session, &id, sizeof(id));
    }
}
