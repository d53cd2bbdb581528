/* Changes of a recording session: pauses, cores and event types. A change is sent when it is on
 * disk, first by a survey. Then it is sent with heartbeats to nodes that report an older revision,
 * and by further surveys until each node has answered. The surveys are needed because only their
 * answers say that an agent cannot do it. */
#include "aggregator/core/model/state.h"

#include "base/obj.h"

/* a node that misses the survey receives the change with its heartbeats */
#define ASK_TIMEOUT   MRD_SEC
#define AGAIN_TIMEOUT (5 * MRD_SEC)
/* longer than both, so that a session has one survey at a time */
#define AGAIN (6 * MRD_SEC)

static mrd_err
pause_now(mrd_core *c, mrd_session *s, mrd_why *why)
{
    mrd_session_changes *k = &s->changes;

    if (mrd_session_is_paused(s))
        return mrd_why_set(why, MRD_STATE, 0, "session %s is paused already", s->text);
    if (k->n_pauses == MRD_PAUSES_MAX)
        return mrd_why_set(why, MRD_LIMIT, 0, "session %s was paused %d times: start a new one",
                           s->text, MRD_PAUSES_MAX);
    k->pauses[k->n_pauses++] = (mrd_pause){ .from = { mrd_core_session_now(c).ns + c->limits.lead },
                                            .from_revision = k->revision + 1 };
    return MRD_OK;
}

static mrd_err
resume_now(mrd_core *c, mrd_session *s, mrd_why *why)
{
    mrd_session_changes *k = &s->changes;
    int64_t at = mrd_core_session_now(c).ns + c->limits.lead;
    mrd_pause *last;

    if (!mrd_session_is_paused(s))
        return mrd_why_set(why, MRD_STATE, 0, "session %s is not paused", s->text);
    last = &k->pauses[k->n_pauses - 1];
    last->to.ns = at > last->from.ns ? at : last->from.ns + 1;
    last->to_revision = k->revision + 1;
    return MRD_OK;
}

/* Swaps the session's list with the new one. The caller frees the old list together with the
 * change. */
static void
choose(mrd_strlist *of, mrd_strlist *fresh)
{
    mrd_strlist old = *of;

    *of = *fresh;
    *fresh = old;
}

static mrd_err
change(mrd_core *c, mrd_session *s, mrd_session_change *k, mrd_why *why)
{
    mrd_err err = MRD_OK;

    if (s->state != MRD_SESSION_RECORDING || s->stop_requested)
        return mrd_why_set(why, MRD_STATE, 0,
                           "session %s is %s: only one that records can be changed", s->text,
                           s->stop_requested ? "stopping" : mrd_session_state_text(s->state));
    if (k->paused == 1)
        err = pause_now(c, s, why);
    else if (k->paused == 0)
        err = resume_now(c, s, why);
    if (err != MRD_OK)
        return err;
    if (k->types)
        choose(&s->select.types, &k->select.types);
    if (k->cores)
        choose(&s->select.cores, &k->select.cores);
    s->changes.revision++;
    mrd_session_touch(s);
    s->changes.version = s->save.version;
    return MRD_OK;
}

void
mrd_core_change(mrd_core *c, mrd_core_time now, uint64_t ticket, uint64_t id, mrd_session_change *k)
{
    mrd_why why = { 0 };
    mrd_session *s;

    mrd_core_enter(c, now);
    if ((s = mrd_core_session(c, id)) == NULL)
        mrd_why_set(&why, MRD_NOTFOUND, 0, "there is no such session");
    else if (change(c, s, k, &why) == MRD_OK && mrd_core_await(c, ticket, s, 0) != MRD_OK)
        mrd_why_set(&why, MRD_LIMIT, 0,
                    "too many commands wait for the disk: the session changes, but the answer does "
                    "not wait for it");
    if (why.err != MRD_OK)
        mrd_core_answer(c, ticket, &why, 0);
    else
        mrd_effects_log(&c->out, MRD_LOG_INFO, "AGG-CHANGE",
                        "A session is changed: id=%s revision=%u paused=%s", s->text,
                        s->changes.revision, mrd_session_is_paused(s) ? "yes" : "no");
    if (s != NULL)
        mrd_core_save(c, s);
    mrd_select_fini(&k->select);
}

/* Returns true if the node is connected, records, and has not reported the result of the last
 * change. */
static bool
is_awaited(const mrd_core *c, const mrd_session *s)
{
    for (size_t i = 0; i < s->n_parts; i++) {
        const mrd_part *p = s->parts[i];
        const mrd_node *n;

        if (p->state == MRD_PART_RECORDING && p->revision < s->changes.revision &&
            (n = mrd_nodes_by_id(&c->nodes, p->instance_id)) != NULL && mrd_core_is_alive(c, n) &&
            p->unchangeable != n->run)
            return true;
    }
    return false;
}

void
mrd_session_send_change(mrd_core *c, mrd_session *s)
{
    bool again = s->changes.sent == s->changes.revision;

    if (s->step != MRD_STEP_RECORD || s->changes.revision == 0 ||
        s->changes.version > s->save.durable || !mrd_effects_room(&c->out, MRD_EFFECTS_ROOM) ||
        (again && (c->now.local.ns < s->changes.again.ns || !is_awaited(c, s))))
        return;
    s->changes.sent = s->changes.revision;
    s->changes.again.ns = c->now.local.ns + AGAIN;
    (void) mrd_core_ask(c, s, MRD__CONTROL_TYPE__CONTROL_CHANGE, NULL,
                        again ? AGAIN_TIMEOUT : ASK_TIMEOUT, 0);
}
