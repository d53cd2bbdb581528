/* Decides which sessions are removed: deleted ones, too old ones, and the oldest if the store is
 * too large. */
#include "aggregator/core/model/state.h"

#include "aggregator/core/common/text.h"
#include "aggregator/core/manifest/conversions.h"
#include "base/num.h"

void
mrd_core_retire(mrd_core *c, mrd_session *s)
{
    if (s->deleted)
        return;
    s->deleted = true;
    if (s->job.after != 0) /* it has not begun */
        s->job = (mrd_merge_job){ .state = MRD_MERGE_CANCELLED };
    for (size_t i = 0; i < s->n_artifacts; i++)
        mrd_stored_files_retire(&c->files, s->artifacts[i].sha256);
    mrd_core_answer_gone(c, s->id);
}

/* the session lists no files any more */
static void
core_unlist(mrd_core *c, mrd_session *s)
{
    mrd_core_retire(c, s);
    for (size_t i = 0; i < s->n_artifacts; i++)
        mrd_stored_files_unlist(&c->files, s->artifacts[i].sha256);
    s->n_artifacts = 0;
}

static uint64_t
folders_bytes(const mrd_core *c)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < c->n_sessions; i++)
        sum += c->sessions[i]->deleted ? 0 : mrd_session_bytes(c->sessions[i]);
    return sum;
}

uint64_t
mrd_core_store_bytes(const mrd_core *c)
{
    return folders_bytes(c) + c->files.bytes;
}

/* A session that runs, is being merged or is being sent stays. */
static bool
may_go(const mrd_session *s)
{
    return !s->deleted && mrd_session_is_over(s) && s->served == 0 && !mrd_session_is_merging(s) &&
           !mrd_session_is_converting(s);
}

/* A session that is to be exported stays until the export is complete. */
static bool
may_be_retired(const mrd_core *c, const mrd_session *s)
{
    return may_go(s) && (!mrd_session_is_exported(s, c->limits.exports) ||
                         s->state != MRD_SESSION_COMPLETE || s->copy.state == MRD_EXPORT_DONE);
}

/* Returns the time from which a session's age counts: its end, so that long and short recordings
 * are kept for the same time. */
static mrd_wall_ns
age_begins(const mrd_session *s)
{
    return s->ended.ns > s->created.ns ? s->ended : s->created;
}

static void
retire(mrd_core *c, mrd_session *s, const char *reason)
{
    mrd_core_retire(c, s);
    mrd_effects_log(&c->out, MRD_LOG_INFO, "AGG-RETAIN",
                    "A session was removed: id=%s hours=%lld bytes=%llu reason=%s", s->text,
                    (long long) ((c->now.wall.ns - age_begins(s).ns) / (3600 * MRD_SEC)),
                    (unsigned long long) mrd_session_bytes(s), reason);
}

static mrd_session *
oldest_that_may_go(const mrd_core *c)
{
    mrd_session *oldest = NULL;

    for (size_t i = 0; i < c->n_sessions; i++) {
        mrd_session *s = c->sessions[i];

        if (may_be_retired(c, s) && (oldest == NULL || age_begins(s).ns < age_begins(oldest).ns))
            oldest = s;
    }
    return oldest;
}

#define WALL_STEP  (60 * MRD_SEC)
#define WALL_TRUST (3600 * MRD_SEC)

/* Returns false for an hour after the wall clock was set. A wrong time would make every session too
 * old, and what is removed does not come back with the right time. */
static bool
age_is_known(mrd_core *c)
{
    int64_t offset = mrd_sat_sub(c->now.wall.ns, c->now.local.ns);
    int64_t step = mrd_sat_sub(offset, c->wall_offset);

    c->wall_offset = offset;
    if (mrd_sat_abs(step) > WALL_STEP) {
        c->age_known = mrd_local_add(c->now.local, WALL_TRUST);
        mrd_effects_log(&c->out, MRD_LOG_WARN, "AGG-WALL-SET",
                        "The wall clock was set or this machine slept, so no session is removed "
                        "for its age in the next hour: seconds=%lld",
                        (long long) (step / MRD_SEC));
    }
    return !mrd_local_before(c->now.local, c->age_known);
}

void
mrd_core_retain(mrd_core *c)
{
    uint64_t most = (uint64_t) c->limits.retain_bytes, folders;
    bool by_age = c->limits.retain > 0 && age_is_known(c);

    if (c->store_gone) /* the directory in its path belongs to someone else */
        return;
    for (size_t i = 0; i < c->n_sessions; i++) {
        mrd_session *s = c->sessions[i];

        if (by_age && may_be_retired(c, s) && c->now.wall.ns - age_begins(s).ns > c->limits.retain)
            retire(c, s, "older than --retain");
    }
    folders = folders_bytes(c);
    while (most > 0 && folders + c->files.bytes > most) {
        mrd_session *oldest = oldest_that_may_go(c);

        if (oldest == NULL)
            return;
        folders -= mrd_session_bytes(oldest);
        retire(c, oldest, "the oldest beyond --retain-size");
    }
}

/* ---- Removing ---- */

#define REMOVE_AGAIN (60 * MRD_SEC)

static bool
is_used(const mrd_core *c, const mrd_session *s)
{
    for (unsigned i = 0; i < c->n_pending; i++) {
        if (c->pending[i].session == s)
            return true;
    }
    /* A manifest that is being written would create the directory again. */
    return s->served > 0 || mrd_session_is_merging(s) || s->save.writing != 0 || s->measuring ||
           mrd_session_is_converting(s) || s->copy.state == MRD_EXPORT_PENDING ||
           s->copy.state == MRD_EXPORT_RUNNING;
}

void
mrd_core_remove_deleted(mrd_core *c)
{
    for (size_t i = 0; i < c->n_sessions && mrd_effects_room(&c->out, MRD_EFFECTS_ROOM); i++) {
        mrd_session *s = c->sessions[i];

        if (!s->deleted || s->removing || mrd_local_before(c->now.local, s->remove_at) ||
            is_used(c, s))
            continue;
        if (!s->closed) {
            if (!s->closing)
                mrd_effects_add(&c->out, MRD_DO_CLOSE)->session = s;
            s->closing = true;
            continue;
        }
        s->removing = true;
        mrd_effects_add(&c->out, MRD_DO_REMOVE)->session = s;
    }
}

static void
give_gaps_back(const mrd_core *c, const mrd_session *s)
{
    for (size_t i = 0; i < s->n_parts; i++) {
        mrd_node *n = mrd_nodes_by_id(&c->nodes, s->parts[i]->instance_id);
        uint64_t gaps = mrd_part_gaps(s->parts[i]);

        if (n != NULL)
            n->gaps -= gaps < n->gaps ? gaps : n->gaps;
    }
}

/* The session stays hidden. After a restart it is listed again if the directory still exists. */
static void
remove_later(mrd_core *c, mrd_session *s, const mrd_why *failed)
{
    if (s->remove_at.ns == 0)
        mrd_effects_log(&c->out, MRD_LOG_ERROR, "AGG-REMOVE",
                        "The files of a deleted session cannot be removed, this is tried again "
                        "each minute and needs another deletion after a restart: id=%s reason=%s",
                        s->text, failed->text);
    s->removing = false;
    s->remove_at = mrd_local_add(c->now.local, REMOVE_AGAIN);
}

void
mrd_core_removed(mrd_core *c, mrd_core_time now, uint64_t session, const mrd_why *failed)
{
    mrd_core_enter(c, now);
    for (size_t i = 0; i < c->n_sessions; i++) {
        mrd_session *s = c->sessions[i];

        if (s->id != session || !s->removing)
            continue;
        if (failed != NULL) {
            remove_later(c, s, failed);
            return;
        }
        mrd_effects_log(&c->out, MRD_LOG_INFO, "AGG-SESSION-DELETED",
                        "A session was deleted: id=%s", s->text);
        core_unlist(c, s);
        give_gaps_back(c, s);
        mrd_effects_add(&c->out, MRD_DO_SWEEP);
        mrd_session_free(s);
        c->sessions[i] = c->sessions[--c->n_sessions];
        return;
    }
}
