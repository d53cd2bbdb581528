/* The core as a whole: creation and destruction, time, tables, and the disk. */
#include "aggregator/core/model/state.h"

#include <stdio.h>

#include "aggregator/core/common/text.h"
#include "base/num.h"
#include "base/obj.h"
#include "base/vec.h"

#define CLOCK_SPARE_MAX (64 << 20)
/* an agent has sent a refused frame again by then */
#define DISK_TRY_LONGEST (5 * MRD_SEC)

mrd_core *
mrd_core_new(const mrd_core_options *o, mrd_core_time now)
{
    mrd_core *c = calloc(1, sizeof(*c));

    mrd_hang_options hang = { .unseen = o->limits.node_timeout, .unlearned = o->limits.hang_wait };

    if (c == NULL || (c->out.v = malloc(MRD_EFFECTS_MAX * sizeof(*c->out.v))) == NULL ||
        (c->hang = mrd_hang_new(&hang)) == NULL) {
        if (c != NULL)
            free(c->out.v);
        free(c);
        return NULL;
    }
    c->limits = o->limits;
    c->timescale = o->timescale;
    c->random = o->seed;
    c->now = c->opened = now;
    c->wall_offset = mrd_sat_sub(now.wall.ns, now.local.ns);
    c->bucket.at = now.local;
    return c;
}

void
mrd_core_free(mrd_core *c)
{
    if (c == NULL)
        return;
    for (size_t i = 0; i < c->n_sessions; i++)
        mrd_session_free(c->sessions[i]);
    free(c->sessions);
    free(c->unreadables);
    for (size_t i = 0; i < MRD_SURVEYS_MAX; i++)
        mrd_map_fini(&c->surveys[i].answered_by);
    mrd_nodes_fini(&c->nodes);
    mrd_hang_free(c->hang);
    mrd_stored_files_fini(&c->files);
    free(c->out.v);
    free(c);
}

mrd_effect *
mrd_core_effect(mrd_core *c)
{
    if (c->out.first < c->out.n)
        return &c->out.v[c->out.first++];
    c->out.first = c->out.n = 0;
    return NULL;
}

/* The owner has carried out all effects of the previous input. Effects that remain are lost, which
 * is a bug of the owner. */
void
mrd_core_enter(mrd_core *c, mrd_core_time now)
{
    MRD_ASSERT(c->out.first == c->out.n);
    c->out.first = c->out.n = 0;
    c->now = now;
}

mrd_sess_ns
mrd_core_session_now(const mrd_core *c)
{
    return (mrd_sess_ns){ c->now.local.ns + c->timescale.offset };
}

/* splitmix64 */
uint64_t
mrd_core_random(mrd_core *c)
{
    uint64_t z = c->random += 0x9e3779b97f4a7c15;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/* ---- Tables ---- */

mrd_session *
mrd_core_any_session(const mrd_core *c, uint64_t id)
{
    for (size_t i = 0; i < c->n_sessions; i++) {
        if (c->sessions[i]->id == id)
            return c->sessions[i];
    }
    return NULL;
}

mrd_session *
mrd_core_session(const mrd_core *c, uint64_t id)
{
    mrd_session *s = mrd_core_any_session(c, id);

    return s == NULL || s->deleted ? NULL : s;
}

static mrd_unreadable *
unreadable_of(const mrd_core *c, uint64_t session)
{
    for (unsigned i = 0; i < c->unreadable; i++) {
        if (c->unreadables[i].id == session)
            return &c->unreadables[i];
    }
    return NULL;
}

const char *
mrd_core_withheld(const mrd_core *c, uint64_t session)
{
    const mrd_unreadable *u = unreadable_of(c, session);

    return u == NULL || !u->may_pass ? NULL : u->why;
}

mrd_err
mrd_core_unreadable(mrd_core *c, uint64_t session, bool may_pass, const char *why)
{
    mrd_unreadable *u = unreadable_of(c, session);

    if (u == NULL && !MRD_VEC_NEXT(c->unreadables, c->unreadable))
        return MRD_NOMEM;
    if (u == NULL)
        u = &c->unreadables[c->unreadable++];
    *u = (mrd_unreadable){ .id = session, .may_pass = may_pass };
    mrd_text_set(u->why, sizeof(u->why), why);
    return MRD_OK;
}

void
mrd_core_readable(mrd_core *c, uint64_t session)
{
    mrd_unreadable *u = unreadable_of(c, session);

    if (u != NULL)
        *u = c->unreadables[--c->unreadable];
}

mrd_err
mrd_core_add_session(mrd_core *c, mrd_session *s)
{
    if (!MRD_VEC_NEXT(c->sessions, c->n_sessions))
        return MRD_NOMEM;
    c->sessions[c->n_sessions++] = s;
    return MRD_OK;
}

static bool
id_is_taken(const mrd_core *c, uint64_t id)
{
    /* includes deleted sessions, because their directories still exist */
    for (size_t i = 0; i < c->n_sessions; i++) {
        if (c->sessions[i]->id == id)
            return true;
    }
    return false;
}

void
mrd_core_name_session(mrd_core *c, mrd_session *s)
{
    s->created = c->now.wall;
    do
        s->id = mrd_session_id_new(s->created.ns, (uint16_t) mrd_core_random(c));
    while (id_is_taken(c, s->id));
    mrd_session_id_text(s->id, s->text);
    mrd_text_set(s->timeline, sizeof(s->timeline), c->timescale.timeline);
}

mrd_part *
mrd_core_add_part(mrd_core *c, mrd_session *s, const mrd_node *n)
{
    mrd_part *p;

    if (!MRD_VEC_NEXT(s->parts, s->n_parts))
        return NULL;
    if ((p = mrd_part_new(n, ++c->last_part)) == NULL ||
        mrd_id_put(&s->part_by_id, n->instance_id, s->n_parts) != MRD_OK) {
        mrd_part_free(p);
        return NULL;
    }
    s->parts[s->n_parts++] = p;
    mrd_session_touch(s);
    return p;
}

bool
mrd_core_is_alive(const mrd_core *c, const mrd_node *n)
{
    return mrd_node_is_alive(n, c->now.local, &c->limits);
}

bool
mrd_core_is_expected(const mrd_core *c, const mrd_node *n)
{
    return mrd_node_is_expected(n, c->now.local, &c->limits);
}

void
mrd_core_drop_node(mrd_core *c, mrd_node *n)
{
    c->registry.changed = true;
    mrd_effects_add(&c->out, MRD_DO_FORGET)->value = n->key;
    mrd_nodes_remove(&c->nodes, n);
}

/* ---- The disk ---- */

void
mrd_core_disk_is(mrd_core *c, bool full)
{
    c->disk_full = full;
    c->disk_refused = c->disk_try = false;
    c->clock_spare = c->limits.disk_reserve / 16;
    c->clock_spare = c->clock_spare > CLOCK_SPARE_MAX ? CLOCK_SPARE_MAX : c->clock_spare;
    for (size_t i = 0; i < c->n_sessions; i++) {
        mrd_session *s = c->sessions[i];

        if (!mrd_session_is_open(s))
            continue;
        if (full)
            s->full = s->full.ns == 0 ? c->now.wall : s->full;
        else
            s->room = c->now.wall;
        mrd_session_touch(s);
    }
}

void
mrd_core_disk_has_room(mrd_core *c)
{
    mrd_core_disk_is(c, false);
    mrd_effects_log(&c->out, MRD_LOG_INFO, "AGG-DISK-ROOM",
                    "The disk has room again, events are stored");
}

/* The disk has the required number of free bytes. */
static void
seems_to_have_room(mrd_core *c)
{
    if (!c->disk_refused ||
        (c->disk_try && mrd_local_diff(c->now.local, c->disk_try_since) >= DISK_TRY_LONGEST)) {
        mrd_core_disk_has_room(c);
        return;
    }
    if (!c->disk_try)
        c->disk_try_since = c->now.local;
    c->disk_try = true;
}

static void
touch_open(mrd_core *c)
{
    for (size_t i = 0; i < c->n_sessions; i++) {
        if (mrd_session_is_open(c->sessions[i]))
            mrd_session_touch(c->sessions[i]);
    }
}

const char *
mrd_core_store_message(const mrd_core *c)
{
    return c->store_gone ? c->gone_message : c->disk_full ? c->disk_message : NULL;
}

mrd_err
mrd_core_store_check(const mrd_core *c, mrd_why *why)
{
    const char *message = mrd_core_store_message(c);

    return message == NULL ? MRD_OK
                           : mrd_why_set(why, c->store_gone ? MRD_IO : MRD_FULL, 0, "%s", message);
}

void
mrd_core_store_gone(mrd_core *c, mrd_core_time now, const mrd_why *gone)
{
    mrd_core_enter(c, now);
    if (!c->store_gone) {
        mrd_effects_log(&c->out, MRD_LOG_ERROR, "AGG-STORE-GONE",
                        "Events cannot be stored and are not acknowledged: reason=%s", gone->text);
        touch_open(c);
    }
    c->store_gone = true;
    mrd_text_set(c->gone_message, sizeof(c->gone_message), gone->text);
}

void
mrd_core_disk(mrd_core *c, mrd_core_time now, int64_t free_bytes)
{
    int64_t reserve = c->limits.disk_reserve;

    mrd_core_enter(c, now);
    if (c->store_gone) {
        c->store_gone = false;
        touch_open(c);
        mrd_effects_log(&c->out, MRD_LOG_INFO, "AGG-STORE-BACK",
                        "The store is there again, events are stored");
    }
    if (!c->disk_full && free_bytes < reserve) {
        mrd_core_disk_is(c, true);
        snprintf(c->disk_message, sizeof(c->disk_message),
                 "the store has %lld MB free, less than the %lld MB of --disk-reserve: delete "
                 "sessions or enlarge it",
                 (long long) (free_bytes >> 20), (long long) (reserve >> 20));
        mrd_effects_log(&c->out, MRD_LOG_ERROR, "AGG-DISK-FULL",
                        "Events cannot be stored and are not acknowledged: reason=%s",
                        c->disk_message);
    } else if (c->disk_full && free_bytes > reserve + reserve / 16 + MRD_FRAME_MAX) {
        seems_to_have_room(c);
    }
}
