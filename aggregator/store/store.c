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
mrd_session_store_path(const mrd_session_store *s, const char *session, const char *format, ...)
{
    char *tail = NULL, *path = NULL;
    va_list args;
    int n;

    va_start(args, format);
    n = vasprintf(&tail, format, args);
    va_end(args);
    if (n < 0)
        return NULL;
    n = session == NULL ? asprintf(&path, "%s/%s", s->dir, tail)
                        : asprintf(&path, "%s/sessions/%s/%s", s->dir, session, tail);
    free(tail);
    return n < 0 ? NULL : path;
}

mrd_err
mrd_session_store_write(const mrd_session_store *s, const char *path, const mrd_buf *text,
                        mrd_why *why)
{
    mrd_bytes bytes = { text->p, text->len };
    mrd_err err = mrd_session_store_check(s, why);

    if (err != MRD_OK)
        return err;
    if (path == NULL || text->err != MRD_OK)
        return mrd_why_set(why, MRD_NOMEM, 0, "%s", path == NULL ? "path" : path);
    return s->sync == MRD_SYNC_GROUP ? mrd_write_file_durable(path, bytes, 0644, why)
                                     : mrd_write_file(path, bytes, 0644, why);
}

mrd_err
mrd_session_store_save(const mrd_session_store *s, const mrd_session_view *v, mrd_why *why)
{
    char *path = mrd_session_store_path(s, v->s->text, "session.json");
    mrd_json *o = mrd_session_view_file(v);
    mrd_buf text = { 0 };
    mrd_err err;

    if (o != NULL)
        mrd_json_write(o, true, &text);
    else
        text.err = MRD_NOMEM;
    mrd_buf_byte(&text, '\n');
    err = mrd_session_store_write(s, path, &text, why);
    mrd_json_free(o);
    mrd_buf_fini(&text);
    free(path);
    return err;
}

mrd_err
mrd_session_store_save_nodes(const mrd_session_store *s, const mrd_buf *text, bool durable,
                             mrd_why *why)
{
    mrd_session_store store = *s;
    char *path = mrd_session_store_path(s, NULL, "nodes.json");
    mrd_err err;

    store.sync = durable ? s->sync : MRD_SYNC_NONE;
    err = mrd_session_store_write(&store, path, text, why);
    free(path);
    return err;
}

/* ---- The timeline ---- */

static void
boot_id_read(char *to, size_t size)
{
    if (!mrd_file_line("/proc/sys/kernel/random/boot_id", to, size))
        mrd_text_set(to, size, "unknown");
}

static mrd_err
timeline_save(const mrd_timescale *t, const char *path, int64_t moves, mrd_why *why)
{
    mrd_buf text = { 0 };
    mrd_err err;

    mrd_buf_fmt(&text,
                "{\"boot_id\": \"%s\", \"session_offset_ns\": %lld, \"timeline\": \"%s\", "
                "\"moves\": %lld}\n",
                t->boot_id, (long long) t->offset, t->timeline, (long long) moves);
    err = mrd_write_file_durable(path, (mrd_bytes){ text.p, text.len }, 0644, why);
    mrd_buf_fini(&text);
    return err;
}

/* The session timeline is this machine's RAW clock plus a constant. The constant is chosen once per
 * boot, so that session time reads as UTC, and a restarted aggregator continues with it. A store
 * that was moved to another machine and back begins a new timeline, because this machine's clock
 * does not cover the time in between. */
static mrd_err
timeline_open(const mrd_session_store *s, mrd_timescale *t, mrd_why *why)
{
    char *path = mrd_session_store_path(s, NULL, "clock.json");
    mrd_json *o = NULL;
    mrd_err err = MRD_OK;
    int64_t moves = 0;

    if (path == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "store %s", s->dir);
    (void) mrd_json_load(path, &o, NULL);
    if (strcmp(mrd_json_str(o, "boot_id", ""), t->boot_id) == 0 &&
        mrd_json_int(o, "session_offset_ns", 0) != 0) {
        t->offset = mrd_json_int(o, "session_offset_ns", 0);
        mrd_text_set(t->timeline, sizeof(t->timeline), mrd_json_str(o, "timeline", t->boot_id));
    } else {
        if (o != NULL)
            moves = mrd_json_int(o, "moves", 0) + 1;
        t->offset = mrd_wall_now().ns - mrd_local_now().ns;
        snprintf(t->timeline, sizeof(t->timeline), moves > 0 ? "%.40s#%lld" : "%.40s", t->boot_id,
                 (long long) moves);
        err = timeline_save(t, path, moves, why);
    }
    mrd_json_free(o);
    free(path);
    return err;
}

/* Two aggregators on one store would end, merge and delete each other's sessions. The kernel
 * releases the lock when the process ends, however it ends. A file system without locks is used
 * without this protection. */
static mrd_err
store_lock(mrd_session_store *s, mrd_why *why)
{
    char *path = mrd_session_store_path(s, NULL, "lock");
    mrd_err err = MRD_OK;

    if (path == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "store %s", s->dir);
    s->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (s->lock_fd < 0 && errno != ENOSPC)
        err = mrd_why_set(why, MRD_IO, errno, "store '%s'", path);
    else if (s->lock_fd >= 0 && flock(s->lock_fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        err = mrd_why_set(why, MRD_BUSY, 0,
                          "store '%s' is in use by another aggregator: end that one, or give "
                          "another folder with --store",
                          s->dir);
    free(path);
    return err;
}

/* Gets device and inode of a path. Returns false if it does not exist. */
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
identity_take(mrd_session_store *s)
{
    struct stat info;

    (void) identity_of(s->dir, s->folder);
    if (s->lock_fd >= 0 && fstat(s->lock_fd, &info) == 0) {
        s->lock[0] = (uint64_t) info.st_dev;
        s->lock[1] = (uint64_t) info.st_ino;
    }
}

mrd_err
mrd_session_store_check(const mrd_session_store *s, mrd_why *why)
{
    static const char next[] = "put it back, or start the aggregator again to go on with what is "
                               "there now";
    char lock[PATH_MAX];
    uint64_t at[2];

    if (!identity_of(s->dir, at))
        return mrd_why_set(why, MRD_IO, 0, "the store's folder '%s' cannot be found: %s", s->dir,
                           next);
    if (at[0] != s->folder[0] || at[1] != s->folder[1])
        return mrd_why_set(why, MRD_IO, 0,
                           "the store's folder '%s' was replaced, unmounted or mounted over: %s",
                           s->dir, next);
    if (s->lock_fd < 0)
        return MRD_OK;
    snprintf(lock, sizeof(lock), "%s/lock", s->dir);
    if (!identity_of(lock, at) || at[0] != s->lock[0] || at[1] != s->lock[1])
        return mrd_why_set(why, MRD_IO, 0,
                           "the store's folder '%s' was emptied, its file 'lock' is gone or "
                           "another: %s",
                           s->dir, next);
    return MRD_OK;
}

/* Syncs the names even if the directories exist. An earlier start may have failed both to sync the
 * name of a new directory and to remove it. Without its name the whole store would be lost in a
 * power failure. */
static mrd_err
make_folders(const mrd_session_store *s, const char *path, mrd_why *why)
{
    mrd_err err = mrd_make_dirs_durable(path, why);

    return err != MRD_OK || s->sync == MRD_SYNC_NONE ? err : mrd_sync_dirs_above(path, why);
}

mrd_err
mrd_session_store_open(mrd_session_store *s, const char *dir, mrd_sync sync,
                       mrd_timescale *ret_scale, mrd_why *why)
{
    char *path;
    mrd_err err;

    *s = (mrd_session_store){ .dir = mrd_str_dup(mrd_str_of(dir)), .sync = sync, .lock_fd = -1 };
    *ret_scale = (mrd_timescale){ 0 };
    boot_id_read(ret_scale->boot_id, sizeof(ret_scale->boot_id));
    if (s->dir == NULL || (path = mrd_session_store_path(s, NULL, "sessions")) == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "store %s", dir);
    err = make_folders(s, path, why);
    free(path);
    if (err == MRD_OK)
        err = store_lock(s, why);
    if (err == MRD_OK)
        identity_take(s);
    if (err == MRD_OK && (path = mrd_session_store_path(s, NULL, "removed")) != NULL) {
        (void) mkdir(path, 0755); /* fails on a full disk; sessions are then removed in place */
        free(path);
    }
    return err != MRD_OK ? err : timeline_open(s, ret_scale, why);
}

void
mrd_session_store_fini(mrd_session_store *s)
{
    free(s->dir);
    s->dir = NULL;
    if (s->lock_fd >= 0)
        (void) close(s->lock_fd);
    s->lock_fd = -1;
}

/* ---- Recovery ---- */

/* Makes recovered data durable. Data that was read may exist in the page cache only, and it counts
 * as stored from now on. */
typedef struct {
    const mrd_session_store *st;
    mrd_core *c;
    int fd;       /* of the store, opened before anything was read */
    bool each;    /* syncfs does not report errors here */
    bool starved; /* no memory to note an unreadable session */
} recovery;

static bool
must_last(const recovery *r, const mrd_session *s)
{
    return r->st->sync == MRD_SYNC_GROUP && !mrd_session_is_over(s);
}

static mrd_err
journal_recover(recovery *r, const mrd_session *s, const char *dir, mrd_journal_index *ret_index,
                mrd_why *why)
{
    mrd_err err;

    if (must_last(r, s))
        return mrd_journal_recover(dir, r->each, ret_index, why);
    err = mrd_journal_scan(dir, ret_index, why);
    if (err == MRD_OK && ret_index->refused->err != MRD_OK && !mrd_session_is_over(s)) {
        err = mrd_why_set(why, MRD_IO, 0, "%s", ret_index->refused->text);
        mrd_journal_index_fini(ret_index);
    }
    return err;
}

/* Recovers the journal of this node: stored numbers, counts, range. A frame that cannot be counted
 * (earlier releases accepted some) is still merged and does no further harm. */
static mrd_err
part_recover(recovery *r, mrd_session *s, mrd_part *p, mrd_why *why)
{
    char *dir = mrd_session_store_path(r->st, s->text, "journal/%s", p->instance_id);
    mrd_journal_index x;
    mrd_err err = dir == NULL ? mrd_why_set(why, MRD_NOMEM, 0, "journal of %s", p->instance_id)
                              : journal_recover(r, s, dir, &x, why);
    size_t uncounted = 0;

    free(dir);
    if (err != MRD_OK)
        return err;
    for (size_t i = 0; i < x.n && err == MRD_OK; i++) {
        err = mrd_part_stored(p, &x.entries[i].frame);
        if (err == MRD_NOMEM) {
            mrd_why_set(why, err, 0, "journal of %s", p->instance_id);
        } else if (err != MRD_OK) {
            uncounted++;
            err = MRD_OK;
        }
    }
    if (uncounted > 0)
        mrd_log(MRD_LOG_WARN, "AGG-JOURNAL-UNCOUNTED",
                "Frames beyond the gaps that can be remembered are not counted: session=%s node=%s "
                "frames=%zu",
                s->text, p->instance_id, uncounted);
    if (x.refused->err !=
        MRD_OK) { /* of a session that is over: its counts stand in the manifest */
        mrd_log(MRD_LOG_WARN, "AGG-JOURNAL-UNREAD",
                "A part of a journal cannot be read, and a merge would lack it: session=%s node=%s "
                "reason=%s",
                s->text, p->instance_id, x.refused->text);
        p->events = (uint64_t) (p->manifest_events > 0 ? p->manifest_events : 0);
    }
    p->bytes = x.bytes;
    if (x.bad_bytes > 0)
        mrd_log(MRD_LOG_WARN, "AGG-JOURNAL-DAMAGE",
                "Damaged bytes of a journal were skipped: session=%s node=%s bytes=%llu files=%llu",
                s->text, p->instance_id, (unsigned long long) x.bad_bytes,
                (unsigned long long) x.bad_files);
    if (err == MRD_OK)
        mrd_core_part_read(r->c, s, p);
    mrd_journal_index_fini(&x);
    return err;
}

/* Reads the artifact entries that were logged after the manifest was written. The last line may be
 * torn. */
static mrd_err
artifact_log_read(const mrd_session_store *st, const char *session, mrd_json **ret_list,
                  mrd_why *why)
{
    char *path = mrd_session_store_path(st, session, "artifacts.log"), *line = NULL;
    FILE *f = path == NULL ? NULL : fopen(path, "re");
    bool unread = path == NULL || (f == NULL && errno != ENOENT);
    mrd_json *list = mrd_json_new_array();
    mrd_err err = MRD_OK;
    size_t cap = 0;
    ssize_t len;

    while (f != NULL && (len = getline(&line, &cap, f)) > 0) {
        mrd_json *o = NULL;

        if (mrd_json_parse((mrd_str){ line, (size_t) len }, "artifact", &o, NULL) == MRD_OK)
            mrd_json_append(list, o);
    }
    if (unread || (f != NULL && !feof(f)))
        err = mrd_why_set(why, MRD_IO, errno, "cannot read %s", path == NULL ? session : path);
    if (err == MRD_OK)
        *ret_list = list;
    else
        mrd_json_free(list);
    if (f != NULL)
        fclose(f);
    free(line);
    free(path);
    return err;
}

/* Measures incomplete files, because their existing bytes count. */
static void
parts_measure(const mrd_session_store *st, mrd_core *c, const mrd_session *s)
{
    for (size_t i = 0; i < s->n_artifacts; i++) {
        const mrd_listed_artifact *a = &s->artifacts[i];
        char *part =
            a->complete ? NULL : mrd_session_store_path(st, NULL, "artifacts/%s.part", a->sha256);
        struct stat info;

        if (part != NULL && stat(part, &info) == 0)
            mrd_stored_files_grown(&c->files, a->sha256, (uint64_t) info.st_size);
        free(part);
    }
}

/* Finds nodes that joined too late for the manifest, but have acknowledged frames. */
static mrd_err
parts_found(const mrd_session_store *st, mrd_core *c, mrd_session *s, mrd_why *why)
{
    char *path = mrd_session_store_path(st, s->text, "journal");
    DIR *dir = path == NULL ? NULL : opendir(path);
    int sys = dir == NULL && path != NULL && errno != ENOENT ? errno : 0;
    const struct dirent *entry;
    mrd_err err = MRD_OK;

    while (dir != NULL && (entry = mrd_dir_next(dir, &sys)) != NULL) {
        if (mrd_session_part(s, entry->d_name) == NULL)
            (void) mrd_core_found_part(c, s, entry->d_name);
    }
    if (path == NULL)
        err = mrd_why_set(why, MRD_NOMEM, 0, "session %s", s->text);
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
    mrd_core *c = r->c;
    char *path = mrd_session_store_path(st, name, "session.json");
    mrd_json *manifest = NULL, *log = NULL;
    mrd_session *s = NULL;
    mrd_err err = MRD_NOMEM;

    if (path != NULL)
        err = mrd_json_load_up_to(path, MRD_JSON_MANIFEST, &manifest, why);
    if (err == MRD_OK)
        err = artifact_log_read(st, name, &log, why);
    if (err == MRD_OK)
        err = mrd_api_present_names(manifest, why);
    if (err == MRD_OK)
        err = mrd_core_load_session(c, id, manifest, log, &s, why);
    if (err == MRD_OK)
        err = parts_found(st, c, s, why);
    for (size_t i = 0; s != NULL && i < s->n_parts && err == MRD_OK; i++)
        err = part_recover(r, s, s->parts[i], why);
    if (err == MRD_OK)
        parts_measure(st, c, s);
    else if (s != NULL)
        mrd_core_unload_session(c, s);
    if (err != MRD_OK &&
        (path == NULL || access(path, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR))) {
        bool may_pass = err == MRD_IO || err == MRD_FULL || err == MRD_NOMEM;

        if (mrd_core_unreadable(c, id, may_pass, why->text) != MRD_OK)
            r->starved = true; /* it may list artifacts */
    } else {
        mrd_core_readable(c, id);
    }
    mrd_json_free(manifest);
    mrd_json_free(log);
    free(path);
    return err;
}

static void
nodes_recover(const mrd_session_store *st, mrd_core *c)
{
    char *path = mrd_session_store_path(st, NULL, "nodes.json");
    mrd_json *o = NULL;
    mrd_why why = { 0 };
    mrd_err err = path == NULL ? mrd_why_set(&why, MRD_NOMEM, 0, "list of nodes") : MRD_OK;

    if (err == MRD_OK && access(path, F_OK) == 0)
        err = mrd_json_load_up_to(path, MRD_JSON_MANIFEST, &o, &why);
    if (err == MRD_OK && o != NULL)
        err = mrd_core_load_registry(c, o, &why);
    if (err != MRD_OK)
        mrd_log(
            MRD_LOG_WARN, "AGG-NODES-UNREADABLE",
            "The list of nodes cannot be read, nodes are known again when they connect: reason=%s",
            why.text);
    mrd_json_free(o);
    free(path);
}

/* Removes incomplete files of a killed process. No writer is active yet. */
static void
remove_parts(const mrd_session_store *st, const char *session, const char *below)
{
    char *path = session == NULL ? mrd_str_dup(mrd_str_of(st->dir))
                                 : mrd_session_store_path(st, session, "%s", below);

    if (path != NULL)
        mrd_remove_parts(path);
    free(path);
}

/* Syncs the names that lead to the recovered data. */
static mrd_err
sync_names(const recovery *r, const mrd_session *s, mrd_why *why)
{
    static const char *const above[] = { "journal", "." };
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < s->n_parts + MRD_COUNT(above) && err == MRD_OK; i++) {
        char *path =
            i < s->n_parts
                ? mrd_session_store_path(r->st, s->text, "journal/%s", s->parts[i]->instance_id)
                : mrd_session_store_path(r->st, s->text, "%s", above[i - s->n_parts]);

        if (path == NULL)
            err = mrd_why_set(why, MRD_NOMEM, 0, "session %s", s->text);
        else if (access(path, F_OK) == 0)
            err = mrd_sync_dir(path, why);
        free(path);
    }
    return err;
}

/* Makes recovered data durable. Journals were written again (mrd_journal_recover), and a manifest's
 * bytes were synced before its name. */
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
mrd_session_store_recover(const mrd_session_store *s, mrd_core *c, mrd_why *why)
{
    char *root = mrd_session_store_path(s, NULL, "sessions");
    recovery r = { .st = s, .c = c, .fd = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) };
    DIR *dir = root == NULL || r.fd < 0 ? NULL : opendir(root);
    const struct dirent *entry;
    mrd_err err = MRD_OK;
    int sys = 0;

    r.each = r.fd >= 0 && !mrd_journal_syncfs_tells(r.fd);
    if (dir == NULL)
        err = mrd_why_set(why, MRD_IO, errno, "cannot list %s", root == NULL ? "the store" : root);
    else
        nodes_recover(s, c);
    remove_parts(s, NULL, NULL);
    while (err == MRD_OK && (entry = mrd_dir_next(dir, &sys)) != NULL) {
        uint64_t id;
        mrd_why one = { 0 };

        if (mrd_session_id_parse(mrd_str_of(entry->d_name), &id) != MRD_OK)
            continue;
        remove_parts(s, entry->d_name, ".");
        remove_parts(s, entry->d_name, MRD_CLOCKS_DIR);
        if (session_recover(&r, entry->d_name, id, &one) == MRD_OK)
            continue;
        if (r.starved)
            err = mrd_why_set(why, MRD_NOMEM, 0, "session %s", entry->d_name);
        else /* the others are fine */
            mrd_log(MRD_LOG_ERROR, "AGG-SESSION-UNREADABLE",
                    "A session cannot be read and is left as it is%s: id=%s reason=%s",
                    mrd_core_withheld(c, id) != NULL
                        ? ". Its nodes keep its events, and it is tried again every 10 s"
                        : "",
                    entry->d_name, one.text);
    }
    if (sys != 0) /* an unreadable session would look removed, and its artifacts unlisted */
        err = mrd_why_set(why, MRD_IO, sys, "cannot list all of %s", root);
    if (err == MRD_OK && c->unreadable > 0)
        mrd_log(MRD_LOG_WARN, "AGG-ARTIFACTS-KEPT",
                "No artifact is removed while sessions cannot be read, because they may list it: "
                "sessions=%u",
                c->unreadable);
    if (err == MRD_OK)
        err = make_durable(&r, root, why);
    if (dir != NULL)
        closedir(dir);
    if (r.fd >= 0)
        close(r.fd);
    free(root);
    return err;
}

/* Reads a session that could not be read at the start. */
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
mrd_session_store_recover_again(const mrd_session_store *s, mrd_core *c)
{
    char *root = mrd_session_store_path(s, NULL, "sessions");
    recovery r = { .st = s, .c = c, .fd = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) };

    r.each = r.fd >= 0 && !mrd_journal_syncfs_tells(r.fd);
    for (unsigned i = c->unreadable; root != NULL && r.fd >= 0 && i-- > 0;) {
        if (i < c->unreadable && c->unreadables[i].may_pass)
            session_again(&r, root, c->unreadables[i].id);
    }
    if (r.fd >= 0)
        close(r.fd);
    free(root);
}
