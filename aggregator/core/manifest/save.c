/* Lets the loop write manifests and the registry of nodes. Answers the commands that wait for a
 * manifest. */
#include "aggregator/core/model/state.h"

#include "aggregator/core/common/text.h"

/* interval of writing nodes.json if nothing has changed in it except the times when nodes were last
 * seen */
#define NODES_EVERY (30 * MRD_SEC)

static void
write_now(mrd_core *core, mrd_session *session)
{
    mrd_effect *effect = mrd_effects_add(&core->out, MRD_DO_SAVE);

    session->save.urgent = false;
    session->save.writing = session->save.version;
    session->save.began = core->now.local;
    effect->session = session;
    effect->version = session->save.version;
}

void
mrd_core_save(mrd_core *core, mrd_session *session)
{
    session->save.urgent = true;
    if (session->save.writing == 0 && mrd_effects_room(&core->out, 1))
        write_now(core, session);
}

static void
save_nodes(mrd_core *core)
{
    int64_t now = core->now.local.ns;

    if (core->registry.writing || core->nodes.n == 0 ||
        (!core->registry.changed && now < core->registry.saved.ns + NODES_EVERY))
        return;
    core->registry.writing = true;
    core->registry.saved = core->now.local;
    mrd_effects_add(&core->out, MRD_DO_SAVE_NODES)->final = core->registry.changed;
    core->registry.changed = false;
}

void
mrd_core_save_round(mrd_core *core)
{
    for (size_t i = 0; i < core->n_sessions && mrd_effects_room(&core->out, MRD_EFFECTS_ROOM);
         i++) {
        mrd_session *session = core->sessions[i];

        if (!session->deleted && session->save.writing == 0 && session->step != MRD_STEP_NEW &&
            session->save.durable < session->save.version &&
            (session->save.urgent || core->now.local.ns >= session->save.next.ns))
            write_now(core, session);
    }
    save_nodes(core);
}

void
mrd_core_nodes_saved(mrd_core *core, mrd_core_time now, const mrd_why *failed)
{
    mrd_core_enter(core, now);
    /* the write is retried every second, so only the first failure is logged */
    if (failed != NULL && !core->registry.failed)
        mrd_effects_log(&core->out, MRD_LOG_WARN, "AGG-NODES",
                        "The list of nodes was not written, after a restart missing nodes would "
                        "not be reported: reason=%s",
                        failed->text);
    core->registry.writing = false;
    core->registry.failed = failed != NULL;
    core->registry.changed = core->registry.changed || failed != NULL;
}

/* ---- Commands that wait for a manifest ---- */

void
mrd_core_answer(mrd_core *core, uint64_t ticket, const mrd_why *why, uint64_t value)
{
    mrd_effect *effect = mrd_effects_add(&core->out, MRD_DO_ANSWER);

    effect->ticket = ticket;
    effect->value = value;
    if (why == NULL)
        return;
    effect->err = why->err;
    mrd_text_set(effect->text, sizeof(effect->text), why->text);
}

mrd_err
mrd_core_await(mrd_core *core, uint64_t ticket, const mrd_session *session, uint64_t value)
{
    for (size_t i = 0; i < MRD_COMMANDS_MAX; i++) {
        mrd_waiting_command *command = &core->commands[i];

        if (command->ticket != 0)
            continue;
        *command = (mrd_waiting_command){ .ticket = ticket,
                                          .session = session->id,
                                          .version = session->save.version,
                                          .value = value };
        return MRD_OK;
    }
    return MRD_LIMIT;
}

void
mrd_core_await_failed(mrd_core *core, uint64_t ticket, const mrd_why *why)
{
    for (size_t i = 0; i < MRD_COMMANDS_MAX; i++) {
        if (core->commands[i].ticket != ticket)
            continue;
        core->commands[i].err = why->err;
        mrd_text_set(core->commands[i].text, sizeof(core->commands[i].text), why->text);
    }
}

/* Ends one entry of a command. A command has one entry for each session that it changes. If an
 * entry has failed, its error is copied to the command's other entries. The command is answered
 * when its last entry ends. */
static void
finish(mrd_core *core, mrd_waiting_command *command, mrd_err err, const char *text)
{
    mrd_waiting_command done = *command;
    mrd_why why = { 0 };

    if (done.err == MRD_OK && err != MRD_OK) {
        done.err = err;
        mrd_text_set(done.text, sizeof(done.text), text);
    }
    command->ticket = 0;
    for (size_t i = 0; i < MRD_COMMANDS_MAX; i++) {
        if (core->commands[i].ticket != done.ticket)
            continue;
        core->commands[i].err = done.err;
        mrd_text_set(core->commands[i].text, sizeof(core->commands[i].text), done.text);
        return;
    }
    if (done.err != MRD_OK)
        mrd_why_set(&why, done.err, 0, "%s", done.text);
    mrd_core_answer(core, done.ticket, done.err == MRD_OK ? NULL : &why, done.value);
}

void
mrd_core_answer_waiting(mrd_core *core, uint64_t session, uint64_t version, const mrd_why *failed)
{
    for (size_t i = 0; i < MRD_COMMANDS_MAX; i++) {
        mrd_waiting_command *command = &core->commands[i];

        if (command->ticket != 0 && command->session == session && command->version <= version)
            finish(core, command, failed == NULL ? MRD_OK : failed->err,
                   failed == NULL ? "" : failed->text);
    }
}

void
mrd_core_answer_gone(mrd_core *core, uint64_t session)
{
    mrd_why why = { 0 };

    mrd_why_set(&why, MRD_NOTFOUND, 0, "the session was deleted meanwhile");
    mrd_core_answer_waiting(core, session, UINT64_MAX, &why);
}
