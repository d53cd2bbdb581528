/* Decides which sessions are removed from the store: sessions that a user deleted, sessions that
 * are too old, and the oldest sessions if the store is too large. */
#include "aggregator/core/model/state.h"

#include "aggregator/core/common/text.h"
#include "aggregator/core/manifest/conversions.h"
#include "base/num.h"

void
mrd_core_retire(mrd_core *core, mrd_session *session)
{
    if (session->deleted)
        return;
    session->deleted = true;
    /* a merge that waits for a manifest has not begun, so it is cancelled here */
    if (session->job.after != 0)
        session->job = (mrd_merge_job){ .state = MRD_MERGE_CANCELLED };
    for (size_t i = 0; i < session->n_artifacts; i++)
        mrd_stored_files_retire(&core->files, session->artifacts[i].sha256);
    mrd_core_answer_gone(core, session->id);
}

/* Deletes the session. Also updates, for each of its artifacts, the number of sessions that list
 * the artifact. */
static void
core_unlist(mrd_core *core, mrd_session *session)
{
    mrd_core_retire(core, session);
    for (size_t i = 0; i < session->n_artifacts; i++)
        mrd_stored_files_unlist(&core->files, session->artifacts[i].sha256);
    session->n_artifacts = 0;
}

static uint64_t
folders_bytes(const mrd_core *core)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < core->n_sessions; i++)
        sum += core->sessions[i]->deleted ? 0 : mrd_session_bytes(core->sessions[i]);
    return sum;
}

uint64_t
mrd_core_store_bytes(const mrd_core *core)
{
    return folders_bytes(core) + core->files.bytes;
}

/* Returns true if the session may be removed, because nothing uses it. It has ended, and is not
 * being merged, converted or read. */
static bool
may_go(const mrd_session *session)
{
    return !session->deleted && mrd_session_is_over(session) && session->served == 0 &&
           !mrd_session_is_merging(session) && !mrd_session_is_converting(session);
}

/* Returns true if retention may delete the session. A session that has to be exported stays until
 * its export is complete. */
static bool
may_be_retired(const mrd_core *core, const mrd_session *session)
{
    return may_go(session) &&
           (!mrd_session_is_exported(session, core->limits.exports) ||
            session->state != MRD_SESSION_COMPLETE || session->copy.state == MRD_EXPORT_DONE);
}

/* Returns the time from which the age of a session is measured: its end. So long recordings are
 * kept for the same time as short ones. */
static mrd_wall_ns
age_begins(const mrd_session *session)
{
    return session->ended.ns > session->created.ns ? session->ended : session->created;
}

static void
retire(mrd_core *core, mrd_session *session, const char *reason)
{
    mrd_core_retire(core, session);
    mrd_effects_log(&core->out, MRD_LOG_INFO, "AGG-RETAIN",
                    "A session was removed: id=%s hours=%lld bytes=%llu reason=%s", session->text,
                    (long long) ((core->now.wall.ns - age_begins(session).ns) / (3600 * MRD_SEC)),
                    (unsigned long long) mrd_session_bytes(session), reason);
}

static mrd_session *
oldest_that_may_go(const mrd_core *core)
{
    mrd_session *oldest = NULL;

    for (size_t i = 0; i < core->n_sessions; i++) {
        mrd_session *session = core->sessions[i];

        if (may_be_retired(core, session) &&
            (oldest == NULL || age_begins(session).ns < age_begins(oldest).ns))
            oldest = session;
    }
    return oldest;
}

#define WALL_STEP  (60 * MRD_SEC)
#define WALL_TRUST (3600 * MRD_SEC)

/* Returns false for an hour after the wall clock was set. A wrong wall clock could make every
 * session look too old. A removed session cannot be restored when the clock is corrected. */
static bool
age_is_known(mrd_core *core)
{
    int64_t offset = mrd_sat_sub(core->now.wall.ns, core->now.local.ns);
    int64_t step = mrd_sat_sub(offset, core->wall_offset);

    core->wall_offset = offset;
    if (mrd_sat_abs(step) > WALL_STEP) {
        core->age_known = mrd_local_add(core->now.local, WALL_TRUST);
        mrd_effects_log(&core->out, MRD_LOG_WARN, "AGG-WALL-SET",
                        "The wall clock was set or this machine slept, so no session is removed "
                        "for its age in the next hour: seconds=%lld",
                        (long long) (step / MRD_SEC));
    }
    return !mrd_local_before(core->now.local, core->age_known);
}

void
mrd_core_retain(mrd_core *core)
{
    uint64_t most = (uint64_t) core->limits.retain_bytes, folders;
    bool by_age = core->limits.retain > 0 && age_is_known(core);

    /* nothing is removed, because the store's path may lead to another directory */
    if (core->store_gone)
        return;
    for (size_t i = 0; i < core->n_sessions; i++) {
        mrd_session *session = core->sessions[i];

        if (by_age && may_be_retired(core, session) &&
            core->now.wall.ns - age_begins(session).ns > core->limits.retain)
            retire(core, session, "older than --retain");
    }
    folders = folders_bytes(core);
    while (most > 0 && folders + core->files.bytes > most) {
        mrd_session *oldest = oldest_that_may_go(core);

        if (oldest == NULL)
            return;
        folders -= mrd_session_bytes(oldest);
        retire(core, oldest, "the oldest beyond --retain-size");
    }
}

/* ---- Removing the directories of sessions ---- */

#define REMOVE_AGAIN (60 * MRD_SEC)

static bool
is_used(const mrd_core *core, const mrd_session *session)
{
    for (unsigned i = 0; i < core->n_pending; i++) {
        if (core->pending[i].session == session)
            return true;
    }
    /* Waits while the directory is being read, or while work in it is running. For example, a
     * manifest that is written after the removal would create the directory again. */
    return session->served > 0 || mrd_session_is_merging(session) || session->save.writing != 0 ||
           session->measuring || mrd_session_is_converting(session) ||
           session->copy.state == MRD_EXPORT_PENDING || session->copy.state == MRD_EXPORT_RUNNING;
}

void
mrd_core_remove_deleted(mrd_core *core)
{
    for (size_t i = 0; i < core->n_sessions && mrd_effects_room(&core->out, MRD_EFFECTS_ROOM);
         i++) {
        mrd_session *session = core->sessions[i];

        if (!session->deleted || session->removing ||
            mrd_local_before(core->now.local, session->remove_at) || is_used(core, session))
            continue;
        if (!session->closed) {
            if (!session->closing)
                mrd_effects_add(&core->out, MRD_DO_CLOSE)->session = session;
            session->closing = true;
            continue;
        }
        session->removing = true;
        mrd_effects_add(&core->out, MRD_DO_REMOVE)->session = session;
    }
}

static void
give_gaps_back(const mrd_core *core, const mrd_session *session)
{
    for (size_t i = 0; i < session->n_parts; i++) {
        mrd_node *node = mrd_nodes_by_id(&core->nodes, session->parts[i]->instance_id);
        uint64_t gaps = mrd_part_gaps(session->parts[i]);

        if (node != NULL)
            node->gaps -= gaps < node->gaps ? gaps : node->gaps;
    }
}

/* Retries a failed removal of a session's directory later. The session is hidden until then, but is
 * listed again if the aggregator restarts before. */
static void
remove_later(mrd_core *core, mrd_session *session, const mrd_why *failed)
{
    if (session->remove_at.ns == 0)
        mrd_effects_log(&core->out, MRD_LOG_ERROR, "AGG-REMOVE",
                        "The files of a deleted session cannot be removed, this is tried again "
                        "each minute and needs another deletion after a restart: id=%s reason=%s",
                        session->text, failed->text);
    session->removing = false;
    session->remove_at = mrd_local_add(core->now.local, REMOVE_AGAIN);
}

void
mrd_core_removed(mrd_core *core, mrd_core_time now, uint64_t session, const mrd_why *failed)
{
    mrd_core_enter(core, now);
    for (size_t i = 0; i < core->n_sessions; i++) {
        mrd_session *s = core->sessions[i];

        if (s->id != session || !s->removing)
            continue;
        if (failed != NULL) {
            remove_later(core, s, failed);
            return;
        }
        mrd_effects_log(&core->out, MRD_LOG_INFO, "AGG-SESSION-DELETED",
                        "A session was deleted: id=%s", s->text);
        core_unlist(core, s);
        give_gaps_back(core, s);
        mrd_effects_add(&core->out, MRD_DO_SWEEP);
        mrd_session_free(s);
        core->sessions[i] = core->sessions[--core->n_sessions];
        return;
    }
}
