/* Surveys: questions to all nodes. Any number of sessions may ask at the same time without waiting
 * for each other. */
#include "aggregator/core/model/state.h"

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

/* Returns true while the session still needs the survey. The session removes its survey after it
 * used the result. */
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

        if (v->id != 0 && c->now.local.ns >= v->deadline.ns && !is_awaited(c, v) &&
            mrd_effects_room(&c->out, MRD_EFFECTS_ROOM))
            mrd_core_survey_end(c, v);
    }
}
