/* Creates and destroys the core. Keeps its time, its tables of sessions, and the state of the
 * disk. */
#include "aggregator/core/model/state.h"

#include <stdio.h>

#include "aggregator/core/common/text.h"
#include "base/num.h"
#include "base/obj.h"
#include "base/vec.h"

#define CLOCK_SPARE_MAX (64 << 20)
/* How long a full disk is tested. An agent whose frame was refused because of a full disk sends the
 * frame again within this time. If no agent does, the disk counts as usable again. */
#define DISK_TRY_LONGEST (5 * MRD_SEC)

mrd_core *
mrd_core_new(const mrd_core_options *options, mrd_core_time now)
{
    mrd_core *core = calloc(1, sizeof(*core));

    mrd_hang_options hang = { .unseen = options->limits.node_timeout,
                              .unlearned = options->limits.hang_wait };

    if (core == NULL || (core->out.v = malloc(MRD_EFFECTS_MAX * sizeof(*core->out.v))) == NULL ||
        (core->hang = mrd_hang_new(&hang)) == NULL || (core->slow = mrd_slow_new()) == NULL) {
        if (core != NULL) {
            free(core->out.v);
            mrd_hang_free(core->hang);
        }
        free(core);
        return NULL;
    }
    core->limits = options->limits;
    core->timescale = options->timescale;
    core->random = options->seed;
    core->now = core->opened = now;
    core->wall_offset = mrd_sat_sub(now.wall.ns, now.local.ns);
    core->bucket.at = now.local;
    return core;
}

void
mrd_core_free(mrd_core *core)
{
    if (core == NULL)
        return;
    for (size_t i = 0; i < core->n_sessions; i++)
        mrd_session_free(core->sessions[i]);
    free(core->sessions);
    free(core->unreadables);
    for (size_t i = 0; i < MRD_SURVEYS_MAX; i++)
        mrd_map_fini(&core->surveys[i].answered_by);
    mrd_nodes_fini(&core->nodes);
    mrd_hang_free(core->hang);
    mrd_slow_free(core->slow);
    mrd_stored_files_fini(&core->files);
    free(core->out.v);
    free(core);
}

mrd_effect *
mrd_core_effect(mrd_core *core)
{
    if (core->out.first < core->out.n)
        return &core->out.v[core->out.first++];
    core->out.first = core->out.n = 0;
    return NULL;
}

/* Begins the processing of an input. The caller must have carried out all effects of the previous
 * input, because they are discarded here. */
void
mrd_core_enter(mrd_core *core, mrd_core_time now)
{
    MRD_ASSERT(core->out.first == core->out.n);
    core->out.first = core->out.n = 0;
    core->now = now;
}

mrd_sess_ns
mrd_core_session_now(const mrd_core *core)
{
    return (mrd_sess_ns){ core->now.local.ns + core->timescale.offset };
}

/* Returns the next random number, by the splitmix64 generator. */
uint64_t
mrd_core_random(mrd_core *core)
{
    uint64_t z = core->random += 0x9e3779b97f4a7c15;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/* ---- Tables of sessions ---- */

mrd_session *
mrd_core_any_session(const mrd_core *core, uint64_t id)
{
    for (size_t i = 0; i < core->n_sessions; i++) {
        if (core->sessions[i]->id == id)
            return core->sessions[i];
    }
    return NULL;
}

mrd_session *
mrd_core_session(const mrd_core *core, uint64_t id)
{
    mrd_session *session = mrd_core_any_session(core, id);

    return session == NULL || session->deleted ? NULL : session;
}

static mrd_unreadable *
unreadable_of(const mrd_core *core, uint64_t session)
{
    for (unsigned i = 0; i < core->unreadable; i++) {
        if (core->unreadables[i].id == session)
            return &core->unreadables[i];
    }
    return NULL;
}

const char *
mrd_core_withheld(const mrd_core *core, uint64_t session)
{
    const mrd_unreadable *unreadable = unreadable_of(core, session);

    return unreadable == NULL || !unreadable->may_pass ? NULL : unreadable->why;
}

bool
mrd_core_withholds(const mrd_core *core)
{
    bool any = false;

    for (unsigned i = 0; i < core->unreadable && !any; i++)
        any = core->unreadables[i].may_pass;
    return any;
}

mrd_err
mrd_core_unreadable(mrd_core *core, uint64_t session, bool may_pass, const char *why)
{
    mrd_unreadable *unreadable = unreadable_of(core, session);

    if (unreadable == NULL && !MRD_VEC_NEXT(core->unreadables, core->unreadable))
        return MRD_NOMEM;
    if (unreadable == NULL)
        unreadable = &core->unreadables[core->unreadable++];
    *unreadable = (mrd_unreadable){ .id = session, .may_pass = may_pass };
    mrd_text_set(unreadable->why, sizeof(unreadable->why), why);
    return MRD_OK;
}

void
mrd_core_readable(mrd_core *core, uint64_t session)
{
    mrd_unreadable *unreadable = unreadable_of(core, session);

    if (unreadable != NULL)
        *unreadable = core->unreadables[--core->unreadable];
}

mrd_err
mrd_core_add_session(mrd_core *core, mrd_session *session)
{
    if (!MRD_VEC_NEXT(core->sessions, core->n_sessions))
        return MRD_NOMEM;
    core->sessions[core->n_sessions++] = session;
    return MRD_OK;
}

static bool
id_is_taken(const mrd_core *core, uint64_t id)
{
    /* deleted sessions count, because their directories still exist */
    for (size_t i = 0; i < core->n_sessions; i++) {
        if (core->sessions[i]->id == id)
            return true;
    }
    return false;
}

void
mrd_core_name_session(mrd_core *core, mrd_session *session)
{
    session->created = core->now.wall;
    do
        session->id = mrd_session_id_new(session->created.ns, (uint16_t) mrd_core_random(core));
    while (id_is_taken(core, session->id));
    mrd_session_id_text(session->id, session->text);
    mrd_text_set(session->timeline, sizeof(session->timeline), core->timescale.timeline);
}

mrd_part *
mrd_core_add_part(mrd_core *core, mrd_session *session, const mrd_node *node)
{
    mrd_part *part;

    if (!MRD_VEC_NEXT(session->parts, session->n_parts))
        return NULL;
    if ((part = mrd_part_new(node, ++core->last_part)) == NULL ||
        mrd_id_put(&session->part_by_id, node->instance_id, session->n_parts) != MRD_OK) {
        mrd_part_free(part);
        return NULL;
    }
    session->parts[session->n_parts++] = part;
    mrd_session_touch(session);
    return part;
}

bool
mrd_core_is_alive(const mrd_core *core, const mrd_node *node)
{
    return mrd_node_is_alive(node, core->now.local, &core->limits);
}

bool
mrd_core_is_expected(const mrd_core *core, const mrd_node *node)
{
    return mrd_node_is_expected(node, core->now.local, &core->limits);
}

void
mrd_core_drop_node(mrd_core *core, mrd_node *node)
{
    core->registry.changed = true;
    mrd_effects_add(&core->out, MRD_DO_FORGET)->value = node->key;
    mrd_nodes_remove(&core->nodes, node);
}

/* ---- The disk ---- */

void
mrd_core_disk_is(mrd_core *core, bool full)
{
    core->disk_full = full;
    core->disk_refused = core->disk_try = false;
    core->clock_spare = core->limits.disk_reserve / 16;
    core->clock_spare = core->clock_spare > CLOCK_SPARE_MAX ? CLOCK_SPARE_MAX : core->clock_spare;
    for (size_t i = 0; i < core->n_sessions; i++) {
        mrd_session *session = core->sessions[i];

        if (!mrd_session_is_open(session))
            continue;
        if (full)
            session->full = session->full.ns == 0 ? core->now.wall : session->full;
        else
            session->room = core->now.wall;
        mrd_session_touch(session);
    }
}

void
mrd_core_disk_has_room(mrd_core *core)
{
    mrd_core_disk_is(core, false);
    mrd_effects_log(&core->out, MRD_LOG_INFO, "AGG-DISK-ROOM",
                    "The disk has room again, events are stored");
}

/* Handles that the disk has enough free space again. If a write failed before because the disk was
 * full, a single frame has to be written as a test first. */
static void
seems_to_have_room(mrd_core *core)
{
    if (!core->disk_refused ||
        (core->disk_try &&
         mrd_local_diff(core->now.local, core->disk_try_since) >= DISK_TRY_LONGEST)) {
        mrd_core_disk_has_room(core);
        return;
    }
    if (!core->disk_try)
        core->disk_try_since = core->now.local;
    core->disk_try = true;
}

static void
touch_open(mrd_core *core)
{
    for (size_t i = 0; i < core->n_sessions; i++) {
        if (mrd_session_is_open(core->sessions[i]))
            mrd_session_touch(core->sessions[i]);
    }
}

const char *
mrd_core_store_message(const mrd_core *core)
{
    return core->store_gone ? core->gone_message : core->disk_full ? core->disk_message : NULL;
}

mrd_err
mrd_core_store_check(const mrd_core *core, mrd_why *why)
{
    const char *message = mrd_core_store_message(core);

    return message == NULL
               ? MRD_OK
               : mrd_why_set(why, core->store_gone ? MRD_IO : MRD_FULL, 0, "%s", message);
}

void
mrd_core_store_gone(mrd_core *core, mrd_core_time now, const mrd_why *gone)
{
    mrd_core_enter(core, now);
    if (!core->store_gone) {
        mrd_effects_log(&core->out, MRD_LOG_ERROR, "AGG-STORE-GONE",
                        "Events cannot be stored and are not acknowledged: reason=%s", gone->text);
        touch_open(core);
    }
    core->store_gone = true;
    mrd_text_set(core->gone_message, sizeof(core->gone_message), gone->text);
}

void
mrd_core_disk(mrd_core *core, mrd_core_time now, int64_t free_bytes)
{
    int64_t reserve = core->limits.disk_reserve;

    mrd_core_enter(core, now);
    if (core->store_gone) {
        core->store_gone = false;
        touch_open(core);
        mrd_effects_log(&core->out, MRD_LOG_INFO, "AGG-STORE-BACK",
                        "The store is there again, events are stored");
    }
    if (!core->disk_full && free_bytes < reserve) {
        mrd_core_disk_is(core, true);
        snprintf(core->disk_message, sizeof(core->disk_message),
                 "the store has %lld MB free, less than the %lld MB of --disk-reserve: delete "
                 "sessions or enlarge it",
                 (long long) (free_bytes >> 20), (long long) (reserve >> 20));
        mrd_effects_log(&core->out, MRD_LOG_ERROR, "AGG-DISK-FULL",
                        "Events cannot be stored and are not acknowledged: reason=%s",
                        core->disk_message);
    } else if (core->disk_full && free_bytes > reserve + reserve / 16 + MRD_FRAME_MAX) {
        seems_to_have_room(core);
    }
}
