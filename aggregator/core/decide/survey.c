/* The table of surveys. A survey sends a question to all connected nodes and collects their
 * answers. Several surveys may run at the same time. */
#include "aggregator/core/model/state.h"

static unsigned
nodes_alive(const mrd_core *core)
{
    unsigned n = 0;

    for (size_t i = 0; i < core->nodes.n; i++)
        n += mrd_core_is_alive(core, core->nodes.v[i]);
    return n;
}

mrd_survey *
mrd_core_survey(mrd_core *core, uint64_t id)
{
    for (size_t i = 0; i < MRD_SURVEYS_MAX && id != 0; i++) {
        if (core->surveys[i].id == id)
            return &core->surveys[i];
    }
    return NULL;
}

static mrd_survey *
free_survey(mrd_core *core)
{
    for (size_t i = 0; i < MRD_SURVEYS_MAX; i++) {
        if (core->surveys[i].id == 0)
            return &core->surveys[i];
    }
    return NULL;
}

uint64_t
mrd_core_ask(mrd_core *core, const mrd_session *session, Mrd__ControlType type,
             const mrd_trigger *trigger, mrd_dur_ns timeout, mrd_dur_ns give_up)
{
    mrd_survey *survey = free_survey(core);
    mrd_effect *effect;

    if (survey == NULL || !mrd_effects_room(&core->out, 1))
        return 0;
    *survey = (mrd_survey){ .id = ++core->last_survey,
                            .session = session->id,
                            .trigger = trigger == NULL ? 0 : trigger->id,
                            .type = type,
                            .revision = session->changes.revision,
                            .asked = nodes_alive(core),
                            .began = core->now.local,
                            .last = core->now.local,
                            .deadline = { core->now.local.ns + timeout } };
    if (survey->asked == 0) /* no node can answer, so the survey ends at once */
        survey->deadline = core->now.local;
    effect = mrd_effects_add(&core->out, MRD_DO_ASK);
    effect->survey = survey->id;
    effect->timeout = timeout;
    effect->give_up = give_up;
    effect->session = mrd_core_session(core, session->id);
    effect->directives[0] = (mrd_directive){
        .type = type,
        .id = session->id,
        .session = session,
        .trigger = trigger == NULL ? 0 : (size_t) (trigger - session->triggers) + 1,
    };
    effect->n_directives = 1;
    effect->value = survey->asked;
    return survey->id;
}

void
mrd_core_survey_end(mrd_core *core, mrd_survey *survey)
{
    mrd_effects_add(&core->out, MRD_DO_ASK_END)->survey = survey->id;
    mrd_map_fini(&survey->answered_by);
    *survey = (mrd_survey){ 0 };
}

/* Returns true while a session waits for the end of this survey. The session then has the survey's
 * id in its member `survey`. */
static bool
is_awaited(const mrd_core *core, const mrd_survey *survey)
{
    const mrd_session *session = mrd_core_session(core, survey->session);

    return session != NULL && session->survey == survey->id;
}

void
mrd_core_surveys_tick(mrd_core *core)
{
    for (size_t i = 0; i < MRD_SURVEYS_MAX; i++) {
        mrd_survey *survey = &core->surveys[i];

        if (survey->id != 0 && core->now.local.ns >= survey->deadline.ns &&
            !is_awaited(core, survey) && mrd_effects_room(&core->out, MRD_EFFECTS_ROOM))
            mrd_core_survey_end(core, survey);
    }
}
