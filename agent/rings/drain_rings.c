/* agent/rings/drain_rings.c - opens, lists and removes the rings that the drain reads. */
#include "agent/rings/drain_rings.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "agent/guard/dir_name.h"
#include "agent/rings/drain_int.h"
#include "agent/rings/drain_processes.h"
#include "agent/rings/identify.h"
#include "agent/rings/loss_count.h"
#include "agent/rings/ring_memory.h"
#include "agent/rings/ring_tracks.h"
#include "base/conf/agent_waits.h"
#include "base/vec.h"

static bool
same_ring(const void *self, uint32_t at, const void *key)
{
    const mrd_drain *drain = self;

    return mrd_dir_name_is(key, drain->rings[at]->dir, drain->rings[at]->file_name);
}

static bool
has_ring(const mrd_drain *drain, unsigned dir, const char *file_name)
{
    const mrd_dir_name key = { dir, file_name };

    return mrd_index_find(&drain->by_name, mrd_dir_name_hash(dir, file_name), same_ring, drain,
                          &key) != MRD_INDEX_NONE;
}

/* Adds the ring to the list and the index. */
static bool
list_ring(mrd_drain *drain, ring *r)
{
    r->at = drain->n_rings;
    if (!MRD_VEC_ROOM_MAX(drain->rings, drain->n_rings, drain->cap_rings, 1, drain->rings_max) ||
        mrd_index_add(&drain->by_name, mrd_dir_name_hash(r->dir, r->file_name), (uint32_t) r->at) !=
            MRD_OK)
        return false;
    drain->rings[drain->n_rings++] = r;
    return true;
}

static void
unlist_ring(mrd_drain *drain, const ring *r)
{
    ring *last = drain->rings[--drain->n_rings];

    mrd_index_remove(&drain->by_name, mrd_dir_name_hash(r->dir, r->file_name), (uint32_t) r->at);
    if (last == r)
        return;
    mrd_index_move(&drain->by_name, mrd_dir_name_hash(last->dir, last->file_name),
                   (uint32_t) last->at, (uint32_t) r->at);
    last->at = r->at;
    drain->rings[last->at] = last;
}

/* Returns the index of the user's slot, which is added if needed. Returns -1 if out of memory, or
 * if the user has its full share of rings. */
static int
user_of(mrd_drain *drain, uint32_t uid)
{
    unsigned at = drain->n_users;

    for (unsigned i = 0; i < drain->n_users; i++)
        if (drain->users[i].rings > 0 && drain->users[i].uid == uid)
            return drain->users[i].rings < drain->rings_max - drain->n_rings ? (int) i : -1;
    for (unsigned i = 0; i < drain->n_users; i++)
        if (drain->users[i].rings == 0)
            at = i;
    if (at == drain->n_users) {
        if (!MRD_VEC_NEXT(drain->users, at))
            return -1;
        drain->n_users++;
    }
    drain->users[at] = (ring_user){ .uid = uid };
    return (int) at;
}

static int32_t
host_pid_of(mrd_drain *drain, mrd_ring_reader *reader)
{
    const mrd_ring_info *info = mrd_ring_borrow_info(reader);
    int32_t host_pid = 0;

    if (info->pid_ns == 0 || info->pid_ns == drain->pid_ns)
        return info->name.pid;
    (void) mrd_ring_owner(reader, &host_pid);
    return host_pid;
}

/* Refuses a ring with a false claim about its process, and removes the file. If the file stayed, it
 * could be accepted after the claimed process ended. */
static void
refuse(mrd_drain *drain, unsigned dir, const char *file_name, mrd_ring_reader *reader)
{
    drain->foreign_uid++;
    drain->counts.rings_refused++;
    if (!drain->o.keep_rings)
        (void) mrd_ring_remove(reader, mrd_discover_dir_fd(drain->discover, dir), file_name, NULL);
}

static void
leave_out(mrd_drain *drain, unsigned dir, const char *file_name)
{
    mrd_drain_unread(drain, dir, file_name, MRD_UNREAD_BEYOND);
    drain->counts.rings_refused++;
    drain->rings_beyond++;
    drain->beyond_at = mrd_local_now();
}

static mrd_err
adopt(mrd_drain *drain, unsigned dir, const char *file_name, mrd_ring_reader *reader)
{
    const mrd_ring_info *info = mrd_ring_borrow_info(reader);
    int32_t host_pid = host_pid_of(drain, reader);
    ring *r;
    int user = user_of(drain, info->file_uid);
    mrd_ident id;
    mrd_err err;
    proc *pr;

    if (user < 0) {
        leave_out(drain, dir, file_name);
        return MRD_LIMIT;
    }
    if ((err = mrd_drain_identify(drain, dir, info, reader, host_pid, &id)) != MRD_OK) {
        refuse(drain, dir, file_name, reader);
        return err;
    }
    pr = mrd_drain_proc_find(drain, id.pid, info->name.start_ticks);
    if (pr == NULL)
        pr = mrd_drain_proc_new(drain, &id, info);
    r = pr == NULL ? NULL : calloc(1, sizeof(*r));
    if (r == NULL)
        return MRD_NOMEM;
    r->dir = dir;
    snprintf(r->file_name, sizeof(r->file_name), "%s", file_name);
    if (!list_ring(drain, r)) {
        free(r);
        return MRD_NOMEM;
    }
    r->reader = reader;
    mrd_ring_map_open(&r->map, reader);
    r->device = info->device;
    r->inode = info->inode;
    r->proc = pr;
    r->next_of_proc = pr->rings;
    pr->rings = r;
    pr->n_rings++;
    r->poll_ns = MRD_WAIT_POLL_FIRST;
    pr->active_at = r->read_at = mrd_local_now();
    for (ring *other = pr->rings; other != NULL && info->rest; other = other->next_of_proc)
        /* this ring continues older rings of the process, so first read the older rings to their
         * ends */
        other->caught_up = false;
    if (drain->o.resume != NULL && drain->o.hold)
        r->gaps_safe =
            drain->o.resume(drain->o.self, mrd_drain_ring_hash(file_name) ^ MRD_DRAIN_GAPS);
    mrd_drain_text_resume(drain, r,
                          drain->o.resume == NULL || !drain->o.hold
                              ? 0
                              : drain->o.resume(drain->o.self, mrd_drain_ring_hash(file_name)));
    mrd_discover_hold(drain->discover, dir, 1);
    r->user = (unsigned) user;
    drain->users_now += drain->users[user].rings++ == 0;
    drain->counts.rings++;
    drain->counts.rings_seen++;
    return MRD_OK;
}

/* Removes a file that its process never completed as a ring, or a ring of an earlier boot. */
static void
remove_stale(mrd_drain *drain, int dir_fd, const char *file_name)
{
    struct stat st;
    struct timespec now;

    if (drain->o.keep_rings || fstatat(dir_fd, file_name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
        clock_gettime(CLOCK_REALTIME, &now) != 0 ||
        (now.tv_sec - st.st_mtim.tv_sec) * MRD_SEC < MRD_WAIT_RING_STALE)
        return;
    (void) mrd_ring_remove_stale(dir_fd, file_name, drain->proc_root, NULL);
}

uint64_t
mrd_drain_ring_hash(const char *file_name)
{
    return mrd_hash64(file_name, strlen(file_name), 0x52494e47);
}

/* Returns true if a previous agent emitted everything in this ring, with open spans and losses,
 * and was killed before it removed the file. This agent must not emit the open spans and losses
 * again. */
bool
mrd_drain_was_ended(const mrd_drain *drain, const char *file_name)
{
    return drain->o.hold && !drain->o.keep_rings && drain->o.resume != NULL &&
           drain->o.resume(drain->o.self, mrd_drain_ring_hash(file_name) ^ MRD_DRAIN_ENDED) != 0;
}

/* Returns true if a container's directory belongs to the user of the process that wrote the ring.
 * In its own mount namespace, a user can mount another user's directory at /dev/shm. Without this
 * check, the agent would read that other user's rings. The agent's own ring directory is not
 * checked, because the operator chose it. */
static bool
may_read_folder(const mrd_drain *drain, unsigned dir, int dir_fd, const char *file_name,
                mrd_why *why)
{
    struct stat folder, st;
    uint32_t user;

    if (dir == 0 || fstat(dir_fd, &folder) != 0 || folder.st_uid == 0 ||
        (folder.st_mode & S_IWOTH) != 0)
        return true;
    user = mrd_discover_dir_user(drain->discover, dir);
    if (user != 0 && user != folder.st_uid) {
        mrd_why_set(why, MRD_DENIED, 0,
                    "a process of user %u has the folder of user %u in the place of its /dev/shm",
                    (unsigned) user, (unsigned) folder.st_uid);
        return false;
    }
    if (fstatat(dir_fd, file_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_uid != folder.st_uid) {
        mrd_why_set(why, MRD_DENIED, 0, "it belongs to user %u and its folder to user %u",
                    (unsigned) st.st_uid, (unsigned) folder.st_uid);
        return false;
    }
    return true;
}

/* Returns true if the file is not a ring, or if this agent must not read it. After any other error,
 * the file may become readable later, or was already removed. */
static bool
is_refusal(mrd_err err)
{
    return err != MRD_OK && err != MRD_AGAIN && err != MRD_NOTFOUND && err != MRD_NOMEM &&
           err != MRD_BUSY && err != MRD_STATE;
}

mrd_err
mrd_drain_ring_found(void *self, unsigned dir, int dir_fd, const char *file_name)
{
    mrd_drain *drain = self;
    mrd_ring_opts opts = { 0, drain->o.only_uid, 0, drain->proc_root };
    mrd_ring_reader *reader = NULL;
    mrd_why why = { 0 };
    mrd_err err;

    if (has_ring(drain, dir, file_name))
        return MRD_OK;
    if (drain->stands_back) {
        mrd_drain_unread(drain, dir, file_name, MRD_UNREAD_HELD);
        return MRD_AGAIN;
    }
    if (!may_read_folder(drain, dir, dir_fd, file_name, &why)) {
        mrd_drain_refused(drain, dir, file_name, why.text);
        return MRD_OK;
    }
    if (!mrd_str_ends(mrd_str_of(file_name), ".ring"))
        return MRD_UNSUPPORTED;
    if (drain->n_rings >= drain->rings_max) {
        leave_out(drain, dir, file_name);
        return MRD_OK;
    }
    err = mrd_ring_open(dir_fd, file_name, &opts, &reader, &why);
    if (err == MRD_OK && mrd_drain_was_ended(drain, file_name)) {
        (void) mrd_ring_remove(reader, dir_fd, file_name, NULL);
        mrd_ring_close(reader);
        drain->counts.rings_removed++;
        return MRD_OK;
    }
    if (err == MRD_OK) {
        err = adopt(drain, dir, file_name, reader);
        if (err == MRD_OK)
            mrd_drain_is_read(drain, dir, file_name);
        if (err != MRD_OK)
            mrd_ring_close(reader);
        return err == MRD_NOMEM ? MRD_AGAIN : MRD_OK;
    }
    if (err == MRD_BUSY || err == MRD_STATE)
        mrd_drain_unread(drain, dir, file_name,
                         err == MRD_BUSY ? MRD_UNREAD_HELD : MRD_UNREAD_OTHER_BOOT);
    if (is_refusal(err) && drain->o.only_uid < 0)
        mrd_drain_refused(drain, dir, file_name, why.text);
    if (err == MRD_AGAIN || err == MRD_STATE)
        remove_stale(drain, dir_fd, file_name);
    return err;
}

/* Removes a ring from the list. If it is the last ring of its process, removes the process too. */
static void
drop_ring(mrd_drain *drain, ring *r)
{
    proc *pr = r->proc;
    ring **at = &pr->rings;

    mrd_drain_ops_add(&pr->ops, NULL, r->reader, pr->shift_ns);
    unlist_ring(drain, r);
    mrd_drain_memory_forget(drain, r);
    drain->users_now -= --drain->users[r->user].rings == 0;
    while (*at != r)
        at = &(*at)->next_of_proc;
    *at = r->next_of_proc;
    mrd_discover_hold(drain->discover, r->dir, -1);
    mrd_ring_close(r->reader);
    mrd_ring_map_close(&r->map);
    mrd_drain_ring_forget(r);
    free(r);
    drain->counts.rings--;
    pr->n_rings--;
    mrd_drain_proc_unused(drain, pr);
}

/* Removes a ring after all its records were read and are durable. */
void
mrd_drain_ring_remove(mrd_drain *drain, ring *r)
{
    (void) mrd_ring_release(r->reader);
    if (!drain->o.keep_rings)
        (void) mrd_ring_remove(r->reader, mrd_discover_dir_fd(drain->discover, r->dir),
                               r->file_name, NULL);
    drain->counts.rings_removed++;
    drop_ring(drain, r);
}

/* Retires an inconsistent ring. Reports the losses that the ring itself counted. Removes the file,
 * because every later agent would find it again. */
void
mrd_drain_ring_retire(mrd_drain *drain, ring *r, const mrd_why *why)
{
    mrd_ring_stats st;
    mrd_local_ns now = mrd_local_now();

    mrd_ring_get_stats(r->reader, &st);
    drain->counts.rings_bad++;
    if (drain->first_bad[0] == '\0')
        snprintf(drain->first_bad, sizeof(drain->first_bad), "%.255s", why->text);
    if (r->blob.open)
        mrd_drain_lost(drain, r->proc, MRD_DROP_BLOB, 1, now, now);
    mrd_drain_lost(drain, r->proc, MRD_DROP_BAD_RING,
                   st.lost_total > st.reported && st.lost_total - st.reported < 1u << 31
                       ? st.lost_total - st.reported
                       : 1,
                   now, now);
    if (!drain->o.keep_rings)
        (void) mrd_ring_remove(r->reader, mrd_discover_dir_fd(drain->discover, r->dir),
                               r->file_name, NULL);
    drop_ring(drain, r);
}
