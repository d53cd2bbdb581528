#include "aggregator/store/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "aggregator/clock/node_clock.h"
#include "aggregator/core/common/text.h"
#include "base/conf/log.h"
#include "base/hash.h"
#include "base/obj.h"
#include "base/sys/file.h"
#include "base/sys/out.h"
#include "proto/api_names.h"

char *
mrd_session_store_path(const mrd_session_store *store, const char *session, const char *format, ...)
{
    char *tail = NULL, *path = NULL;
    va_list args;
    int n;

    va_start(args, format);
    n = vasprintf(&tail, format, args);
    va_end(args);
    if (n < 0)
        return NULL;
    n = session == NULL ? asprintf(&path, "%s/%s", store->dir, tail)
                        : asprintf(&path, "%s/sessions/%s/%s", store->dir, session, tail);
    free(tail);
    return n < 0 ? NULL : path;
}

mrd_err
mrd_session_store_write(const mrd_session_store *store, const char *path, const mrd_buf *text,
                        mrd_why *why)
{
    mrd_bytes bytes = { text->p, text->len };
    mrd_err err = mrd_session_store_check(store, why);

    if (err != MRD_OK)
        return err;
    if (path == NULL || text->err != MRD_OK)
        return mrd_why_set(why, MRD_NOMEM, 0, "%s", path == NULL ? "path" : path);
    return store->sync == MRD_SYNC_GROUP ? mrd_write_file_durable(path, bytes, 0644, why)
                                         : mrd_write_file(path, bytes, 0644, why);
}

mrd_err
mrd_session_store_save(const mrd_session_store *store, const mrd_session_view *view, mrd_why *why)
{
    char *path = mrd_session_store_path(store, view->s->text, "session.json");
    mrd_json *json = mrd_session_view_file(view);
    mrd_buf text = { 0 };
    mrd_err err;

    if (json != NULL)
        mrd_json_write(json, true, &text);
    else
        text.err = MRD_NOMEM;
    mrd_buf_byte(&text, '\n');
    err = mrd_session_store_write(store, path, &text, why);
    mrd_json_free(json);
    mrd_buf_fini(&text);
    free(path);
    return err;
}

mrd_err
mrd_session_store_save_nodes(const mrd_session_store *session_store, const mrd_buf *text,
                             bool durable, mrd_why *why)
{
    mrd_session_store store = *session_store;
    char *path = mrd_session_store_path(session_store, NULL, "nodes.json");
    mrd_err err;

    store.sync = durable ? session_store->sync : MRD_SYNC_NONE;
    err = mrd_session_store_write(&store, path, text, why);
    free(path);
    return err;
}

/* ---- The session timeline ---- */

static void
boot_id_read(char *to, size_t size)
{
    if (!mrd_file_line("/proc/sys/kernel/random/boot_id", to, size))
        mrd_text_set(to, size, "unknown");
}

static mrd_err
timeline_save(const mrd_timescale *timescale, const char *path, int64_t moves, mrd_why *why)
{
    mrd_buf text = { 0 };
    mrd_err err;

    mrd_buf_fmt(&text,
                "{\"boot_id\": \"%s\", \"session_offset_ns\": %lld, \"timeline\": \"%s\", "
                "\"moves\": %lld}\n",
                timescale->boot_id, (long long) timescale->offset, timescale->timeline,
                (long long) moves);
    err = mrd_write_file_durable(path, (mrd_bytes){ text.p, text.len }, 0644, why);
    mrd_buf_fini(&text);
    return err;
}

/* Opens the session timeline. Session time is this machine's CLOCK_MONOTONIC_RAW plus a constant.
 * The first start after a boot chooses the constant so that session time is close to UTC. Later
 * starts use the same constant. If another machine used the store in between, a new timeline
 * begins, because this machine's clock has no relation to the session times of the other
 * machine. */
static mrd_err
timeline_open(const mrd_session_store *store, mrd_timescale *timescale, mrd_why *why)
{
    char *path = mrd_session_store_path(store, NULL, "clock.json");
    mrd_json *json = NULL;
    mrd_err err = MRD_OK;
    int64_t moves = 0;

    if (path == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "store %s", store->dir);
    (void) mrd_json_load(path, &json, NULL);
    if (strcmp(mrd_json_str(json, "boot_id", ""), timescale->boot_id) == 0 &&
        mrd_json_int(json, "session_offset_ns", 0) != 0) {
        timescale->offset = mrd_json_int(json, "session_offset_ns", 0);
        mrd_text_set(timescale->timeline, sizeof(timescale->timeline),
                     mrd_json_str(json, "timeline", timescale->boot_id));
    } else {
        if (json != NULL)
            moves = mrd_json_int(json, "moves", 0) + 1;
        timescale->offset = mrd_wall_now().ns - mrd_local_now().ns;
        snprintf(timescale->timeline, sizeof(timescale->timeline),
                 moves > 0 ? "%.40s#%lld" : "%.40s", timescale->boot_id, (long long) moves);
        err = timeline_save(timescale, path, moves, why);
    }
    mrd_json_free(json);
    free(path);
    return err;
}

/* Locks the store against other aggregators. Two aggregators with the same store would end, merge
 * and delete each other's sessions. The kernel releases the lock when the process exits. If the
 * file system does not support locks, the store is used without a lock. */
static mrd_err
store_lock(mrd_session_store *store, mrd_why *why)
{
    char *path = mrd_session_store_path(store, NULL, "lock");
    mrd_err err = MRD_OK;

    if (path == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "store %s", store->dir);
    store->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (store->lock_fd < 0 && errno != ENOSPC)
        err = mrd_why_set(why, MRD_IO, errno, "store '%s'", path);
    else if (store->lock_fd >= 0 && flock(store->lock_fd, LOCK_EX | LOCK_NB) != 0 &&
             errno == EWOULDBLOCK)
        err = mrd_why_set(why, MRD_BUSY, 0,
                          "store '%s' is in use by another aggregator: end that one, or give "
                          "another folder with --store",
                          store->dir);
    free(path);
    return err;
}

/* Gets the device and inode numbers of a path. Returns false if the path cannot be read. */
static bool
identity_of(const char *path, uint64_t ret[2])
{
    struct stat info;

    if (stat(path, &info) != 0)
        return false;
    ret[0] = (uint64_t) info.st_dev;
    ret[1] = (uint64_t) info.st_ino;
    return true;
}

static void
identity_take(mrd_session_store *store)
{
    struct stat info;

    (void) identity_of(store->dir, store->folder);
    if (store->lock_fd >= 0 && fstat(store->lock_fd, &info) == 0) {
        store->lock[0] = (uint64_t) info.st_dev;
        store->lock[1] = (uint64_t) info.st_ino;
    }
}

mrd_err
mrd_session_store_check(const mrd_session_store *store, mrd_why *why)
{
    static const char next[] = "put it back, or start the aggregator again to go on with what is "
                               "there now";
    char lock[PATH_MAX];
    uint64_t at[2];

    if (!identity_of(store->dir, at))
        return mrd_why_set(why, MRD_IO, 0, "the store's folder '%s' cannot be found: %s",
                           store->dir, next);
    if (at[0] != store->folder[0] || at[1] != store->folder[1])
        return mrd_why_set(why, MRD_IO, 0,
                           "the store's folder '%s' was replaced, unmounted or mounted over: %s",
                           store->dir, next);
    if (store->lock_fd < 0)
        return MRD_OK;
    snprintf(lock, sizeof(lock), "%s/lock", store->dir);
    if (!identity_of(lock, at) || at[0] != store->lock[0] || at[1] != store->lock[1])
        return mrd_why_set(why, MRD_IO, 0,
                           "the store's folder '%s' was emptied, its file 'lock' is gone or "
                           "another: %s",
                           store->dir, next);
    return MRD_OK;
}

/* Creates the store's directories and syncs their names. Also syncs the names of existing
 * directories, because an earlier process may have created them without a sync. Without this, a
 * power failure could remove the whole store. */
static mrd_err
make_folders(const mrd_session_store *store, const char *path, mrd_why *why)
{
    mrd_err err = mrd_make_dirs_durable(path, why);

    return err != MRD_OK || store->sync == MRD_SYNC_NONE ? err : mrd_sync_dirs_above(path, why);
}

mrd_err
mrd_session_store_open(mrd_session_store *store, const char *dir, mrd_sync sync,
                       mrd_timescale *ret_scale, mrd_why *why)
{
    char *path;
    mrd_err err;

    *store =
        (mrd_session_store){ .dir = mrd_str_dup(mrd_str_of(dir)), .sync = sync, .lock_fd = -1 };
    *ret_scale = (mrd_timescale){ 0 };
    boot_id_read(ret_scale->boot_id, sizeof(ret_scale->boot_id));
    if (store->dir == NULL || (path = mrd_session_store_path(store, NULL, "sessions")) == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "store %s", dir);
    err = make_folders(store, path, why);
    free(path);
    if (err == MRD_OK)
        err = store_lock(store, why);
    if (err == MRD_OK)
        identity_take(store);
    if (err == MRD_OK && (path = mrd_session_store_path(store, NULL, "removed")) != NULL) {
        /* This may fail on a full disk. The cleaner then removes sessions in place. */
        (void) mkdir(path, 0755);
        free(path);
    }
    return err != MRD_OK ? err : timeline_open(store, ret_scale, why);
}

void
mrd_session_store_fini(mrd_session_store *store)
{
    free(store->dir);
    store->dir = NULL;
    if (store->lock_fd >= 0)
        (void) close(store->lock_fd);
    store->lock_fd = -1;
}

/* ---- Loading sessions at the start ---- */

/* State of the recovery of all sessions. All data that is found counts as stored after the
 * recovery. Some of it may exist only in the page cache, so the recovery makes it durable. */
typedef struct {
    const mrd_session_store *st;
    mrd_core *c;
    /* descriptor of the store's directory for syncfs, opened before any file was read */
    int fd;
    /* true if each file is synced, because syncfs does not report every error on this file
     * system */
    bool each;
    bool starved; /* memory ran out, so an unreadable session could not be registered */
} recovery;

static bool
must_last(const recovery *r, const mrd_session *session)
{
    return r->st->sync == MRD_SYNC_GROUP && !mrd_session_is_over(session);
}

static mrd_err
journal_recover(recovery *r, const mrd_session *session, const char *dir,
                mrd_journal_index *ret_index, mrd_why *why)
{
    mrd_err err;

    if (must_last(r, session))
        return mrd_journal_recover(dir, r->each, ret_index, why);
    err = mrd_journal_scan(dir, ret_index, why);
    if (err == MRD_OK && ret_index->refused->err != MRD_OK && !mrd_session_is_over(session)) {
        err = mrd_why_set(why, MRD_IO, 0, "%s", ret_index->refused->text);
        mrd_journal_index_fini(ret_index);
    }
    return err;
}

/* Recovers a node's journal, and counts its frames in `part`. Earlier releases accepted some frames
 * that cannot be counted. Such frames are logged, but are merged like the others. */
static mrd_err
part_recover(recovery *r, mrd_session *session, mrd_part *part, mrd_why *why)
{
    char *dir = mrd_session_store_path(r->st, session->text, "journal/%s", part->instance_id);
    mrd_journal_index journal_index;
    mrd_err err = dir == NULL ? mrd_why_set(why, MRD_NOMEM, 0, "journal of %s", part->instance_id)
                              : journal_recover(r, session, dir, &journal_index, why);
    size_t uncounted = 0;

    free(dir);
    if (err != MRD_OK)
        return err;
    for (size_t i = 0; i < journal_index.n && err == MRD_OK; i++) {
        err = mrd_part_stored(part, &journal_index.entries[i].frame);
        if (err == MRD_NOMEM) {
            mrd_why_set(why, err, 0, "journal of %s", part->instance_id);
        } else if (err != MRD_OK) {
            uncounted++;
            err = MRD_OK;
        }
    }
    if (uncounted > 0)
        mrd_log(MRD_LOG_WARN, "AGG-JOURNAL-UNCOUNTED",
                "Frames beyond the gaps that can be remembered are not counted: session=%s node=%s "
                "frames=%zu",
                session->text, part->instance_id, uncounted);
    if (journal_index.refused->err != MRD_OK) {
        /* This happens only for ended sessions, because the recovery of an open session fails after
         * a read error. The manifest has the number of events of an ended session. */
        mrd_log(MRD_LOG_WARN, "AGG-JOURNAL-UNREAD",
                "A part of a journal cannot be read, and a merge would lack it: session=%s node=%s "
                "reason=%s",
                session->text, part->instance_id, journal_index.refused->text);
        part->events = (uint64_t) (part->manifest_events > 0 ? part->manifest_events : 0);
    }
    part->bytes = journal_index.bytes;
    if (journal_index.bad_bytes > 0)
        mrd_log(MRD_LOG_WARN, "AGG-JOURNAL-DAMAGE",
                "Damaged bytes of a journal were skipped: session=%s node=%s bytes=%llu files=%llu",
                session->text, part->instance_id, (unsigned long long) journal_index.bad_bytes,
                (unsigned long long) journal_index.bad_files);
    if (err == MRD_OK)
        mrd_core_part_read(r->c, session, part);
    mrd_journal_index_fini(&journal_index);
    return err;
}

/* Reads artifacts.log, with the artifacts that were completed after the manifest was written. Skips
 * lines that cannot be parsed, because a crash can leave an incomplete last line. */
static mrd_err
artifact_log_read(const mrd_session_store *st, const char *session, mrd_json **ret_list,
                  mrd_why *why)
{
    char *path = mrd_session_store_path(st, session, "artifacts.log"), *line = NULL;
    FILE *file = path == NULL ? NULL : fopen(path, "re");
    bool unread = path == NULL || (file == NULL && errno != ENOENT);
    mrd_json *list = mrd_json_new_array();
    mrd_err err = MRD_OK;
    size_t cap = 0;
    ssize_t len;

    while (file != NULL && (len = getline(&line, &cap, file)) > 0) {
        mrd_json *json = NULL;

        if (mrd_json_parse((mrd_str){ line, (size_t) len }, "artifact", &json, NULL) == MRD_OK)
            mrd_json_append(list, json);
    }
    if (unread || (file != NULL && !feof(file)))
        err = mrd_why_set(why, MRD_IO, errno, "cannot read %s", path == NULL ? session : path);
    if (err == MRD_OK)
        *ret_list = list;
    else
        mrd_json_free(list);
    if (file != NULL)
        fclose(file);
    free(line);
    free(path);
    return err;
}

/* Reports the sizes of the session's incomplete artifacts to the core, because their bytes count
 * for the storage limits. */
static void
parts_measure(const mrd_session_store *st, mrd_core *core, const mrd_session *session)
{
    for (size_t i = 0; i < session->n_artifacts; i++) {
        const mrd_listed_artifact *artifact = &session->artifacts[i];
        char *part = artifact->complete
                         ? NULL
                         : mrd_session_store_path(st, NULL, "artifacts/%s.part", artifact->sha256);
        struct stat info;

        if (part != NULL && stat(part, &info) == 0)
            mrd_stored_files_grown(&core->files, artifact->sha256, (uint64_t) info.st_size);
        free(part);
    }
}

/* Adds parts to the session for nodes that have a journal but are not in the manifest yet. The
 * journals may contain acknowledged frames. */
static mrd_err
parts_found(const mrd_session_store *st, mrd_core *core, mrd_session *session, mrd_why *why)
{
    char *path = mrd_session_store_path(st, session->text, "journal");
    DIR *dir = path == NULL ? NULL : opendir(path);
    int sys = dir == NULL && path != NULL && errno != ENOENT ? errno : 0;
    const struct dirent *entry;
    mrd_err err = MRD_OK;

    while (dir != NULL && (entry = mrd_dir_next(dir, &sys)) != NULL) {
        if (mrd_session_part(session, entry->d_name) == NULL)
            (void) mrd_core_found_part(core, session, entry->d_name);
    }
    if (path == NULL)
        err = mrd_why_set(why, MRD_NOMEM, 0, "session %s", session->text);
    else if (sys != 0)
        err = mrd_why_set(why, MRD_IO, sys, "cannot list all of %s", path);
    if (dir != NULL)
        closedir(dir);
    free(path);
    return err;
}

static mrd_err
session_recover(recovery *r, const char *name, uint64_t id, mrd_why *why)
{
    const mrd_session_store *st = r->st;
    mrd_core *core = r->c;
    char *path = mrd_session_store_path(st, name, "session.json");
    mrd_json *manifest = NULL, *log = NULL;
    mrd_session *session = NULL;
    mrd_err err = MRD_NOMEM;

    if (path != NULL)
        err = mrd_json_load_up_to(path, MRD_JSON_MANIFEST, &manifest, why);
    if (err == MRD_OK)
        err = artifact_log_read(st, name, &log, why);
    if (err == MRD_OK)
        err = mrd_api_present_names(manifest, why);
    if (err == MRD_OK)
        err = mrd_core_load_session(core, id, manifest, log, &session, why);
    if (err == MRD_OK)
        err = parts_found(st, core, session, why);
    for (size_t i = 0; session != NULL && i < session->n_parts && err == MRD_OK; i++)
        err = part_recover(r, session, session->parts[i], why);
    if (err == MRD_OK)
        parts_measure(st, core, session);
    else if (session != NULL)
        mrd_core_unload_session(core, session);
    if (err != MRD_OK &&
        (path == NULL || access(path, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR))) {
        bool may_pass = err == MRD_IO || err == MRD_FULL || err == MRD_NOMEM;

        if (mrd_core_unreadable(core, id, may_pass, why->text) != MRD_OK)
            /* Out of memory. It is then unknown which artifacts this session lists, so no artifact
             * may be removed. */
            r->starved = true;
    } else {
        mrd_core_readable(core, id);
    }
    mrd_json_free(manifest);
    mrd_json_free(log);
    free(path);
    return err;
}

static void
nodes_recover(const mrd_session_store *st, mrd_core *core)
{
    char *path = mrd_session_store_path(st, NULL, "nodes.json");
    mrd_json *json = NULL;
    mrd_why why = { 0 };
    mrd_err err = path == NULL ? mrd_why_set(&why, MRD_NOMEM, 0, "list of nodes") : MRD_OK;

    if (err == MRD_OK && access(path, F_OK) == 0)
        err = mrd_json_load_up_to(path, MRD_JSON_MANIFEST, &json, &why);
    if (err == MRD_OK && json != NULL)
        err = mrd_core_load_registry(core, json, &why);
    if (err != MRD_OK)
        mrd_log(
            MRD_LOG_WARN, "AGG-NODES-UNREADABLE",
            "The list of nodes cannot be read, nodes are known again when they connect: reason=%s",
            why.text);
    mrd_json_free(json);
    free(path);
}

/* Removes incomplete files that a killed aggregator left. This is safe, because the starting
 * aggregator does not write any files yet. */
static void
remove_parts(const mrd_session_store *st, const char *session, const char *below)
{
    char *path = session == NULL ? mrd_str_dup(mrd_str_of(st->dir))
                                 : mrd_session_store_path(st, session, "%s", below);

    if (path != NULL)
        mrd_remove_parts(path);
    free(path);
}

/* Syncs the directories of a session's recovered files, so that the files' names are durable. */
static mrd_err
sync_names(const recovery *r, const mrd_session *session, mrd_why *why)
{
    static const char *const above[] = { "journal", "." };
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < session->n_parts + MRD_COUNT(above) && err == MRD_OK; i++) {
        char *path =
            i < session->n_parts
                ? mrd_session_store_path(r->st, session->text, "journal/%s",
                                         session->parts[i]->instance_id)
                : mrd_session_store_path(r->st, session->text, "%s", above[i - session->n_parts]);

        if (path == NULL)
            err = mrd_why_set(why, MRD_NOMEM, 0, "session %s", session->text);
        else if (access(path, F_OK) == 0)
            err = mrd_sync_dir(path, why);
        free(path);
    }
    return err;
}

/* Makes the data of the recovered sessions durable with one syncfs. If syncfs does not report
 * errors, also syncs the directories. The files are durable already: mrd_journal_recover synced the
 * journals, and each manifest was synced before it was renamed to its final name. */
static mrd_err
make_durable(recovery *r, const char *root, mrd_why *why)
{
    mrd_err err = MRD_OK;
    bool any = false;

    for (size_t i = 0; i < r->c->n_sessions && err == MRD_OK; i++) {
        if (!must_last(r, r->c->sessions[i]))
            continue;
        any = true;
        if (r->each)
            err = sync_names(r, r->c->sessions[i], why);
    }
    if (err == MRD_OK && any && r->each && (err = mrd_sync_dir(root, why)) == MRD_OK)
        err = mrd_sync_dir(r->st->dir, why);
    if (err == MRD_OK && any && syncfs(r->fd) != 0)
        err = mrd_why_set(why, MRD_IO, errno, "cannot make durable what '%s' holds", r->st->dir);
    return err;
}

mrd_err
mrd_session_store_recover(const mrd_session_store *store, mrd_core *core, mrd_why *why)
{
    char *root = mrd_session_store_path(store, NULL, "sessions");
    recovery r = { .st = store,
                   .c = core,
                   .fd = open(store->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) };
    DIR *dir = root == NULL || r.fd < 0 ? NULL : opendir(root);
    const struct dirent *entry;
    mrd_err err = MRD_OK;
    int sys = 0;

    r.each = r.fd >= 0 && !mrd_journal_syncfs_tells(r.fd);
    if (dir == NULL)
        err = mrd_why_set(why, MRD_IO, errno, "cannot list %s", root == NULL ? "the store" : root);
    else
        nodes_recover(store, core);
    remove_parts(store, NULL, NULL);
    while (err == MRD_OK && (entry = mrd_dir_next(dir, &sys)) != NULL) {
        uint64_t id;
        mrd_why one = { 0 };

        if (mrd_session_id_parse(mrd_str_of(entry->d_name), &id) != MRD_OK)
            continue;
        remove_parts(store, entry->d_name, ".");
        remove_parts(store, entry->d_name, MRD_CLOCKS_DIR);
        if (session_recover(&r, entry->d_name, id, &one) == MRD_OK)
            continue;
        if (r.starved)
            err = mrd_why_set(why, MRD_NOMEM, 0, "session %s", entry->d_name);
        else /* logs the error and continues, so that other sessions are loaded */
            mrd_log(MRD_LOG_ERROR, "AGG-SESSION-UNREADABLE",
                    "A session cannot be read and is left as it is%s: id=%s reason=%s",
                    mrd_core_withheld(core, id) != NULL
                        ? ". Its nodes keep its events, and it is tried again every 10 s"
                        : "",
                    entry->d_name, one.text);
    }
    /* After an error here the aggregator must not start. The sessions that were not listed would
     * count as removed, and their artifacts would be deleted. */
    if (sys != 0)
        err = mrd_why_set(why, MRD_IO, sys, "cannot list all of %s", root);
    if (err == MRD_OK && core->unreadable > 0)
        mrd_log(MRD_LOG_WARN, "AGG-ARTIFACTS-KEPT",
                "No artifact is removed while sessions cannot be read, because they may list it: "
                "sessions=%u",
                core->unreadable);
    if (err == MRD_OK)
        err = make_durable(&r, root, why);
    if (dir != NULL)
        closedir(dir);
    if (r.fd >= 0)
        close(r.fd);
    free(root);
    return err;
}

/* Tries again to load one session that could not be read at the start. */
static void
session_again(recovery *r, const char *root, uint64_t id)
{
    char text[MRD_SESSION_TEXT];
    mrd_why why = { 0 };
    mrd_err err;

    mrd_session_id_text(id, text);
    err = session_recover(r, text, id, &why);
    if (err == MRD_OK && (err = make_durable(r, root, &why)) != MRD_OK) {
        mrd_core_unload_session(r->c, mrd_core_any_session(r->c, id));
        (void) mrd_core_unreadable(r->c, id, true, why.text);
    }
    if (mrd_core_withheld(r->c, id) != NULL)
        return;
    mrd_log(err == MRD_OK ? MRD_LOG_INFO : MRD_LOG_ERROR, "AGG-SESSION-READ",
            "A session that could not be read was tried again: id=%s result=%s", text,
            err == MRD_OK ? "it is read" : why.text);
}

void
mrd_session_store_recover_again(const mrd_session_store *store, mrd_core *core)
{
    char *root = mrd_session_store_path(store, NULL, "sessions");
    recovery r = { .st = store,
                   .c = core,
                   .fd = open(store->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) };

    r.each = r.fd >= 0 && !mrd_journal_syncfs_tells(r.fd);
    for (unsigned i = core->unreadable; root != NULL && r.fd >= 0 && i-- > 0;) {
        if (i < core->unreadable && core->unreadables[i].may_pass)
            session_again(&r, root, core->unreadables[i].id);
    }
    if (r.fd >= 0)
        close(r.fd);
    free(root);
}
