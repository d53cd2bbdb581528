/* Manifests that are being written, and the commands that wait for them. */
#include "aggregator/core/model/state.h"

#include "aggregator/core/common/text.h"

#define NODES_EVERY (30 * MRD_SEC) /* if nothing changed except when the nodes were seen */

static void
write_now(mrd_core *c, mrd_session *s)
{
    mrd_effect *e = mrd_effects_add(&c->out, MRD_DO_SAVE);

    s->save.urgent = false;
    s->save.writing = s->save.version;
    s->save.began = c->now.local;
    e->session = s;
    e->version = s->save.version;
}

void
mrd_core_save(mrd_core *c, mrd_session *s)
{
    s->save.urgent = true;
    if (s->save.writing == 0 && mrd_effects_room(&c->out, 1))
        write_now(c, s);
}

static void
save_nodes(mrd_core *c)
{
    int64_t now = c->now.local.ns;

    if (c->registry.writing || c->nodes.n == 0 ||
        (!c->registry.changed && now < c->registry.saved.ns + NODES_EVERY))
        return;
    c->registry.writing = true;
    c->registry.saved = c->now.local;
    mrd_effects_add(&c->out, MRD_DO_SAVE_NODES)->final = c->registry.changed;
    c->registry.changed = false;
}

void
mrd_core_save_round(mrd_core *c)
{
    for (size_t i = 0; i < c->n_sessions && mrd_effects_room(&c->out, MRD_EFFECTS_ROOM); i++) {
        mrd_session *s = c->sessions[i];

        if (!s->deleted && s->save.writing == 0 && s->step != MRD_STEP_NEW &&
            s->save.durable < s->save.version &&
            (s->save.urgent || c->now.local.ns >= s->save.next.ns))
            write_now(c, s);
    }
    save_nodes(c);
}

void
mrd_core_nodes_saved(mrd_core *c, mrd_core_time now, const mrd_why *failed)
{
    mrd_core_enter(c, now);
    if (failed != NULL && !c->registry.failed) /* logged once; retried every second */
        mrd_effects_log(&c->out, MRD_LOG_WARN, "AGG-NODES",
                        "The list of nodes was not written, after a restart missing nodes would "
                        "not be reported: reason=%s",
                        failed->text);
    c->registry.writing = false;
    c->registry.failed = failed != NULL;
    c->registry.changed = c->registry.changed || failed != NULL;
}

/* ---- Who waits ---- */

void
mrd_core_answer(mrd_core *c, uint64_t ticket, const mrd_why *why, uint64_t value)
{
    mrd_effect *e = mrd_effects_add(&c->out, MRD_DO_ANSWER);

    e->ticket = ticket;
    e->value = value;
    if (why == NULL)
        return;
    e->err = why->err;
    mrd_text_set(e->text, sizeof(e->text), why->text);
}

mrd_err
mrd_core_await(mrd_core *c, uint64_t ticket, const mrd_session *s, uint64_t value)
{
    for (size_t i = 0; i < MRD_COMMANDS_MAX; i++) {
        mrd_waiting_command *w = &c->commands[i];

        if (w->ticket != 0)
            continue;
        *w = (mrd_waiting_command){
            .ticket = ticket, .session = s->id, .version = s->save.version, .value = value
        };
        return MRD_OK;
    }
    return MRD_LIMIT;
}

void
mrd_core_await_failed(mrd_core *c, uint64_t ticket, const mrd_why *why)
{
    for (size_t i = 0; i < MRD_COMMANDS_MAX; i++) {
        if (c->commands[i].ticket != ticket)
            continue;
        c->commands[i].err = why->err;
        mrd_text_set(c->commands[i].text, sizeof(c->commands[i].text), why->text);
    }
}

/* The other sessions of the command remember the failure. The last one answers. */
static void
finish(mrd_core *c, mrd_waiting_command *w, mrd_err err, const char *text)
{
    mrd_waiting_command done = *w;
    mrd_why why = { 0 };

    if (done.err == MRD_OK && err != MRD_OK) {
        done.err = err;
        mrd_text_set(done.text, sizeof(done.text), text);
    }
    w->ticket = 0;
    for (size_t i = 0; i < MRD_COMMANDS_MAX; i++) {
        if (c->commands[i].ticket != done.ticket)
            continue;
        c->commands[i].err = done.err;
        mrd_text_set(c->commands[i].text, sizeof(c->commands[i].text), done.text);
        return;
    }
    if (done.err != MRD_OK)
        mrd_why_set(&why, done.err, 0, "%s", done.text);
    mrd_core_answer(c, done.ticket, done.err == MRD_OK ? NULL : &why, done.value);
}

void
mrd_core_answer_waiting(mrd_core *c, uint64_t session, uint64_t version, const mrd_why *failed)
{
    for (size_t i = 0; i < MRD_COMMANDS_MAX; i++) {
        mrd_waiting_command *w = &c->commands[i];

        if (w->ticket != 0 && w->session == session && w->version <= version)
            finish(c, w, failed == NULL ? MRD_OK : failed->err, failed == NULL ? "" : failed->text);
    }
}

void
mrd_core_answer_gone(mrd_core *c, uint64_t session)
{
    mrd_why why = { 0 };

    mrd_why_set(&why, MRD_NOTFOUND, 0, "the session was deleted meanwhile");
    mrd_core_answer_waiting(c, session, UINT64_MAX, &why);
}
