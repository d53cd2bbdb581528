#include "aggregator/loop/messages.h"

#include <stdlib.h>

#include "base/num.h"
#include "base/obj.h"

static void
put_numbers(int64_t **numbers, const mrd_strlist *list, size_t *ret_n, int64_t **ret_v)
{
    size_t n = 0;

    if (list->n > 0 && (*numbers = calloc(list->n, sizeof(int64_t))) != NULL) {
        for (size_t k = 0; k < list->n; k++)
            n += mrd_num_i64(mrd_str_of(list->v[k]), &(*numbers)[n]) == MRD_OK;
    }
    *ret_n = n;
    *ret_v = *numbers;
}

static void
put_select(mrd_control_message *m, const mrd_select *from)
{
    Mrd__Selection *to = &m->select;
    size_t n = 0;

    mrd__selection__init(to);
#define PUT_TEXTS(ident)                                                                           \
    to->n_##ident = from->ident.n;                                                                 \
    to->ident = from->ident.v;
#define PUT_NUMBERS(ident)           put_numbers(&m->numbers[n++], &from->ident, &to->n_##ident, &to->ident);
#define MRD_SELECT(ident, kind, ...) PUT_##kind(ident)
#include "proto/session_params.def"
#undef MRD_SELECT
    m->control.select = to;
}

static void
put_trigger(mrd_control_message *message, const mrd_trigger *trigger)
{
    mrd__trigger__init(&message->trigger);
    message->trigger.id = trigger->id;
    message->trigger.from_session_ns = message->trigger.from_wall_ns = trigger->from.ns;
    message->trigger.to_session_ns = message->trigger.to_wall_ns = trigger->to.ns;
    message->trigger.reason = (char *) (uintptr_t) trigger->reason;
    message->control.trigger = &message->trigger;
}

static void
put_changes(mrd_control_message *message, const mrd_session_changes *changes)
{
    for (size_t i = 0; i < changes->n_pauses; i++) {
        mrd__pause__init(&message->pauses[i]);
        message->pauses[i].from_session_ns = changes->pauses[i].from.ns;
        message->pauses[i].to_session_ns = changes->pauses[i].to.ns;
        message->pause_list[i] = &message->pauses[i];
    }
    message->control.pauses = message->pause_list;
    message->control.n_pauses = changes->n_pauses;
    message->control.revision = changes->revision;
}

static void
control_message_init(mrd_control_message *message, const mrd_directive *directive)
{
    memset(message, 0, sizeof(*message));
    mrd__control__init(&message->control);
    message->control.type = directive->type;
    message->control.session = directive->id;
    if (directive->session == NULL)
        return;
    mrd_session_params_put_wire(&directive->session->params, &message->labels, &message->control);
    put_select(message, &directive->session->select);
    if (directive->type == MRD__CONTROL_TYPE__CONTROL_GO ||
        directive->type == MRD__CONTROL_TYPE__CONTROL_CHANGE)
        put_changes(message, &directive->session->changes);
    if (directive->type == MRD__CONTROL_TYPE__CONTROL_GO)
        message->control.at_session_ns = directive->session->go.ns;
    else if (directive->type == MRD__CONTROL_TYPE__CONTROL_STOP)
        message->control.at_session_ns = directive->session->stop.ns;
    /* session time is close to UTC, so it can stand for the wall clock */
    message->control.at_wall_ns = message->control.at_session_ns;
    if (directive->trigger != 0)
        put_trigger(message, &directive->session->triggers[directive->trigger - 1]);
}

static void
control_message_fini(mrd_control_message *message)
{
    for (size_t i = 0; i < MRD_COUNT(message->numbers); i++)
        free(message->numbers[i]);
}

void
mrd_control_messages_init(mrd_control_messages *messages, const mrd_effect *effect)
{
    messages->n = effect->n_directives;
    for (unsigned i = 0; i < messages->n; i++) {
        control_message_init(&messages->v[i], &effect->directives[i]);
        messages->list[i] = &messages->v[i].control;
    }
}

void
mrd_control_messages_fini(mrd_control_messages *messages)
{
    for (unsigned i = 0; i < messages->n; i++)
        control_message_fini(&messages->v[i]);
}

mrd_err
mrd_survey_frame(const mrd_effect *effect, mrd_buf *to)
{
    mrd_frame frame = { .type = MRD_FRAME_CONTROL, .session = effect->directives[0].id };
    mrd_control_message message;
    mrd_err err;

    control_message_init(&message, &effect->directives[0]);
    message.control.deadline_ns = effect->give_up;
    err = mrd_msg_pack(&frame, &message.control, to, NULL);
    control_message_fini(&message);
    return err;
}
