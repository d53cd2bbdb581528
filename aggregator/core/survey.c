/* Questions to all nodes: any number of sessions ask at one time, and none waits for another's
 * answers. */
#include "aggregator/core/state.h"

#include "aggregator/core/planted.h"
#include "aggregator/core/text.h"

static unsigned
nodes_alive(const mrd_core *c)
{
    unsigned n = 0;

    for (size_t i = 0; i < c->nodes.n; i++)
        n += mrd_core_is_alive(c, c->nodes.v[i]);
    return n;
}

mrd_survey *
mrd_core_survey(mrd_core *c, uint64_t id)
{
    for (size_t i = 0; i < MRD_SURVEYS_MAX && id != 0; i++) {
        if (c->surveys[i].id == id)
            return &c->surveys[i];
    }
    return NULL;
}

static mrd_survey *
free_survey(mrd_core *c)
{
    for (size_t i = 0; i < MRD_SURVEYS_MAX; i++) {
        if (c->surveys[i].id == 0)
            return &c->surveys[i];
    }
    return NULL;
}

uint64_t
mrd_core_ask(mrd_core *c, const mrd_session *s, Mrd__ControlType type, const mrd_trigger *t,
             mrd_dur_ns timeout, mrd_dur_ns give_up)
{
    mrd_survey *v = free_survey(c);
    mrd_effect *e;

    if (v == NULL || !mrd_effects_room(&c->out, 1))
        return 0;
    *v = (mrd_survey){ .id = ++c->last_survey,
                       .session = s->id,
                       .trigger = t == NULL ? 0 : t->id,
                       .type = type,
                       .revision = s->changes.revision,
                       .asked = nodes_alive(c),
                       .began = c->now.local,
                       .last = c->now.local,
                       .deadline = { c->now.local.ns + timeout } };
    if (v->asked == 0) /* over at once */
        v->deadline = c->now.local;
    e = mrd_effects_add(&c->out, MRD_DO_ASK);
    e->survey = v->id;
    e->timeout = timeout;
    e->give_up = give_up;
    e->session = mrd_core_session(c, s->id);
    e->directives[0] = (mrd_directive){
        .type = type,
        .id = s->id,
        .session = s,
        .trigger = t == NULL ? 0 : (size_t) (t - s->triggers) + 1,
    };
    e->n_directives = 1;
    e->value = v->asked;
    return v->id;
}

void
mrd_core_survey_end(mrd_core *c, mrd_survey *v)
{
    mrd_effects_add(&c->out, MRD_DO_ASK_END)->survey = v->id;
    mrd_map_fini(&v->answered_by);
    *v = (mrd_survey){ 0 };
}

/* A session takes its own survey down when it has seen what came of it. */
static bool
is_awaited(const mrd_core *c, const mrd_survey *v)
{
    const mrd_session *s = mrd_core_session(c, v->session);

    return s != NULL && s->survey == v->id;
}

void
mrd_core_surveys_tick(mrd_core *c)
{
    for (size_t i = 0; i < MRD_SURVEYS_MAX; i++) {
        mrd_survey *v = &c->surveys[i];

        if (v->id != 0 && !MRD_PLANTED(MRD_PLANT_LEFT_SURVEY) &&
            c->now.local.ns >= v->deadline.ns && !is_awaited(c, v) &&
            mrd_effects_room(&c->out, MRD_EFFECTS_ROOM))
            mrd_core_survey_end(c, v);
    }
}

static void
take_answer(mrd_core *c, mrd_session *s, const mrd_survey *v, const mrd_node *n,
            const Mrd__ControlReply *r)
{
    mrd_part *p = mrd_session_part(s, n->instance_id);

    if (p == NULL && r->selected)
        p = mrd_core_add_part(c, s, n);
    if (p != NULL && r->type == MRD__CONTROL_TYPE__CONTROL_ARM && s->state == MRD_SESSION_ARMING) {
        bool refused = r->phase == MRD__NODE_PHASE__NODE_REFUSED || r->err != 0;

        p->state = refused ? MRD_PART_REFUSED : MRD_PART_ARMED;
        p->err = (mrd_err) r->err;
        mrd_text_set(p->message, sizeof(p->message), r->message);
        mrd_clock_quality_take(&p->clock, r->clock);
    }
    if (p != NULL && r->type == MRD__CONTROL_TYPE__CONTROL_TRIGGER && r->err == 0)
        mrd_session_acknowledge_ids(s, p, &v->trigger, 1);
    if (p != NULL && r->type == MRD__CONTROL_TYPE__CONTROL_CHANGE && r->err == 0 &&
        v->revision > p->revision)
        p->revision = v->revision;
    if (p != NULL && r->type == MRD__CONTROL_TYPE__CONTROL_CHANGE && r->err != 0) {
        p->unchangeable = r->err == MRD_UNSUPPORTED ? n->run : 0;
        mrd_text_set(p->message, sizeof(p->message), r->message);
    }
    mrd_session_touch(s);
}

void
mrd_core_answered(mrd_core *c, mrd_core_time now, uint64_t survey, const Mrd__ControlReply *r)
{
    mrd_survey *v;
    mrd_session *s;
    const mrd_node *n;

    mrd_core_enter(c, now);
    v = mrd_core_survey(c, survey);
    n = mrd_nodes_by_id(&c->nodes, r->instance_id);
    if (v == NULL || n == NULL || n->run != r->run || r->type != v->type ||
        mrd_map_get(&v->answered_by, mrd_id_key(n->instance_id)) != MRD_MAP_NONE ||
        (s = mrd_core_session(c, v->session)) == NULL)
        return;
    (void) mrd_map_put(&v->answered_by, mrd_id_key(n->instance_id), 1);
    v->last = now.local;
    v->answered++;
    take_answer(c, s, v, n, r);
    if (v->answered < v->asked)
        return;
    if (s->survey == v->id)
        mrd_session_run(c, s);
    else
        mrd_core_survey_end(c, v);
}
