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
put_trigger(mrd_control_message *m, const mrd_trigger *t)
{
    mrd__trigger__init(&m->trigger);
    m->trigger.id = t->id;
    m->trigger.from_session_ns = m->trigger.from_wall_ns = t->from.ns;
    m->trigger.to_session_ns = m->trigger.to_wall_ns = t->to.ns;
    m->trigger.reason = (char *) (uintptr_t) t->reason;
    m->control.trigger = &m->trigger;
}

static void
put_changes(mrd_control_message *m, const mrd_session_changes *k)
{
    for (size_t i = 0; i < k->n_pauses; i++) {
        mrd__pause__init(&m->pauses[i]);
        m->pauses[i].from_session_ns = k->pauses[i].from.ns;
        m->pauses[i].to_session_ns = k->pauses[i].to.ns;
        m->pause_list[i] = &m->pauses[i];
    }
    m->control.pauses = m->pause_list;
    m->control.n_pauses = k->n_pauses;
    m->control.revision = k->revision;
}

static void
control_message_init(mrd_control_message *m, const mrd_directive *d)
{
    memset(m, 0, sizeof(*m));
    mrd__control__init(&m->control);
    m->control.type = d->type;
    m->control.session = d->id;
    if (d->session == NULL)
        return;
    mrd_session_params_put_wire(&d->session->params, &m->labels, &m->control);
    put_select(m, &d->session->select);
    if (d->type == MRD__CONTROL_TYPE__CONTROL_GO || d->type == MRD__CONTROL_TYPE__CONTROL_CHANGE)
        put_changes(m, &d->session->changes);
    if (d->type == MRD__CONTROL_TYPE__CONTROL_GO)
        m->control.at_session_ns = d->session->go.ns;
    else if (d->type == MRD__CONTROL_TYPE__CONTROL_STOP)
        m->control.at_session_ns = d->session->stop.ns;
    m->control.at_wall_ns = m->control.at_session_ns; /* session time reads as UTC */
    if (d->trigger != 0)
        put_trigger(m, &d->session->triggers[d->trigger - 1]);
}

static void
control_message_fini(mrd_control_message *m)
{
    for (size_t i = 0; i < MRD_COUNT(m->numbers); i++)
        free(m->numbers[i]);
}

void
mrd_control_messages_init(mrd_control_messages *m, const mrd_effect *e)
{
    m->n = e->n_directives;
    for (unsigned i = 0; i < m->n; i++) {
        control_message_init(&m->v[i], &e->directives[i]);
        m->list[i] = &m->v[i].control;
    }
}

void
mrd_control_messages_fini(mrd_control_messages *m)
{
    for (unsigned i = 0; i < m->n; i++)
        control_message_fini(&m->v[i]);
}

mrd_err
mrd_survey_frame(const mrd_effect *e, mrd_buf *to)
{
    mrd_frame f = { .type = MRD_FRAME_CONTROL, .session = e->directives[0].id };
    mrd_control_message m;
    mrd_err err;

    control_message_init(&m, &e->directives[0]);
    m.control.deadline_ns = e->give_up;
    err = mrd_msg_pack(&f, &m.control, to, NULL);
    control_message_fini(&m);
    return err;
}
