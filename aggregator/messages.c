#include "aggregator/messages.h"

#include <stdlib.h>

#include "base/num.h"

static void
put_numbers(mrd_control_message *m, unsigned i, const mrd_strlist *list, size_t *ret_n,
            int64_t **ret_v)
{
    size_t n = 0;

    if (list->n > 0 && (m->numbers[i] = calloc(list->n, sizeof(int64_t))) != NULL) {
        for (size_t k = 0; k < list->n; k++)
            n += mrd_num_i64(mrd_str_of(list->v[k]), &m->numbers[i][n]) == MRD_OK;
    }
    *ret_n = n;
    *ret_v = m->numbers[i];
}

static void
put_option(mrd_control_message *m, const char *key, const char *value)
{
    Mrd__Label *l = &m->labels[m->control.n_options];

    mrd__label__init(l); /* packing only reads */
    l->key = (char *) (uintptr_t) key;
    l->value = (char *) (uintptr_t) value;
    m->options[m->control.n_options++] = l;
}

static void
put_select(mrd_control_message *m, const mrd_select *from)
{
    Mrd__Selection *to = &m->select;

    mrd__selection__init(to);
    to->n_instances = from->instances.n;
    to->instances = from->instances.v;
    to->n_jobs = from->jobs.n;
    to->jobs = from->jobs.v;
    to->n_cores = from->cores.n;
    to->cores = from->cores.v;
    to->n_types = from->types.n;
    to->types = from->types.v;
    to->n_sources = from->sources.n;
    to->sources = from->sources.v;
    put_numbers(m, 0, &from->ranks, &to->n_ranks, &to->ranks);
    put_numbers(m, 1, &from->processes, &to->n_processes, &to->processes);
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
put_session(mrd_control_message *m, const mrd_session *s)
{
    Mrd__Control *to = &m->control;

    put_select(m, &s->select);
    to->name = (char *) (uintptr_t) s->name;
    to->mode = s->recorder ? MRD__SESSION_MODE__MODE_RECORDER : MRD__SESSION_MODE__MODE_STREAM;
    to->recorder_ns = s->recorder_dur;
    to->recorder_bytes = s->recorder_bytes;
    to->options = m->options;
    if (s->device_profiles[0] != '\0')
        put_option(m, "device_profiles", s->device_profiles);
    for (size_t i = 0; i < s->counters.n && i < MRD_COUNTERS_MAX; i++)
        put_option(m, "counter", s->counters.v[i]);
    if (s->counters.n > 0)
        put_option(m, "counter_period", s->counter_period);
}

void
mrd_control_message_init(mrd_control_message *m, const mrd_directive *d)
{
    memset(m, 0, sizeof(*m));
    mrd__control__init(&m->control);
    m->control.type = d->type;
    m->control.session = d->id;
    if (d->session == NULL)
        return;
    put_session(m, d->session);
    if (d->type == MRD__CONTROL_TYPE__CONTROL_GO)
        m->control.at_session_ns = d->session->go.ns;
    else if (d->type == MRD__CONTROL_TYPE__CONTROL_STOP)
        m->control.at_session_ns = d->session->stop.ns;
    m->control.at_wall_ns = m->control.at_session_ns; /* session time reads as UTC */
    if (d->trigger != NULL)
        put_trigger(m, d->trigger);
}

void
mrd_control_message_fini(mrd_control_message *m)
{
    free(m->numbers[0]);
    free(m->numbers[1]);
}

void
mrd_control_messages_init(mrd_control_messages *m, const mrd_effect *e)
{
    m->n = e->n_directives;
    for (unsigned i = 0; i < m->n; i++) {
        mrd_control_message_init(&m->v[i], &e->directives[i]);
        m->list[i] = &m->v[i].control;
    }
}

void
mrd_control_messages_fini(mrd_control_messages *m)
{
    for (unsigned i = 0; i < m->n; i++)
        mrd_control_message_fini(&m->v[i]);
}

mrd_err
mrd_survey_frame(const mrd_effect *e, mrd_buf *to)
{
    mrd_frame f = { .type = MRD_FRAME_CONTROL, .session = e->directives[0].id };
    mrd_control_message m;
    mrd_err err;

    mrd_control_message_init(&m, &e->directives[0]);
    m.control.deadline_ns = e->give_up;
    err = mrd_msg_pack(&f, &m.control, to, NULL);
    mrd_control_message_fini(&m);
    return err;
}
