/* What lies in the store: how much each session occupies, which artifacts nobody lists any more,
 * and what goes when there is too much. The manifests are the truth: what they list is counted when
 * they are read and when they change; a file that none of them lists is rubbish, whoever left it
 * there.
 *
 * What goes is renamed into <store>/removed under the lock, and emptied by a thread of its own: a
 * crash leaves either the whole of it in its place or none, and nobody waits for the disk. */
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "aggregator/hub.h"
#include "base/log.h"
#include "base/obj.h"
#include "base/out.h"

#define SWEEP_NS  (600 * MRD_SEC) /* also without an occasion: abandoned uploads grow old */
#define UPLOAD_NS (600 * MRD_SEC) /* an agent that was cut off comes back within this */
#define FD_MAX    16

struct keeper {
    hub *h;
    pthread_t thread;
    pthread_cond_t news;
    /* Guarded by the hub's lock. */
    bool closing, empty, sweep;
    int64_t next_sweep_ns;
};

/* ---- What is listed ---- */

static mrd_map_key
file_key(const char *sha256)
{
    mrd_map_key key = { 0 };
    uint64_t *to[] = { &key.a, &key.b, &key.c };

    for (size_t i = 0; i < 3; i++) {
        char word[17];

        snprintf(word, sizeof(word), "%.16s", sha256 + 16 * i);
        *to[i] = strtoull(word, NULL, 16);
    }
    return key;
}

static hub_file *
file_of(const hub *h, const char *sha256)
{
    uint32_t at = keep_hash_ok(sha256) ? mrd_map_get(&h->file_at, file_key(sha256)) : MRD_MAP_NONE;

    return at == MRD_MAP_NONE ? NULL : &h->files[at];
}

bool
keep_hash_ok(const char *hex)
{
    return strlen(hex) == 64 && strspn(hex, "0123456789abcdef") == 64;
}

mrd_err
keep_list(hub *h, const char *sha256)
{
    hub_file *f = file_of(h, sha256), *v;

    MRD_ASSERT(keep_hash_ok(sha256));
    if (f == NULL) {
        if ((v = hub_grow(h->files, h->n_files, sizeof(*v))) == NULL)
            return MRD_NOMEM;
        h->files = v;
        if (mrd_map_put(&h->file_at, file_key(sha256), (uint32_t) h->n_files) != MRD_OK)
            return MRD_NOMEM;
        f = &h->files[h->n_files++];
        *f = (hub_file){ .key = file_key(sha256) };
    }
    f->listed++;
    if (f->live++ == 0)
        h->files_bytes += f->bytes;
    return MRD_OK;
}

void
keep_grown(hub *h, const char *sha256, uint64_t bytes)
{
    hub_file *f = file_of(h, sha256);

    if (f == NULL)
        return;
    if (f->live > 0)
        h->files_bytes += bytes - f->bytes;
    f->bytes = bytes;
}

static void
file_drop(hub *h, hub_file *f)
{
    size_t at = (size_t) (f - h->files);

    mrd_map_remove(&h->file_at, f->key);
    if (at != --h->n_files) {
        *f = h->files[h->n_files];
        (void) mrd_map_put(&h->file_at, f->key, (uint32_t) at); /* replaces: cannot fail */
    }
}

void
keep_retire(hub *h, hub_session *s)
{
    if (s->deleted)
        return;
    s->deleted = true; /* the ingest thread removes it */
    for (size_t i = 0; i < s->n_artifacts; i++) {
        hub_file *f = file_of(h, s->artifacts[i].sha256);

        if (f != NULL && f->live > 0 && --f->live == 0)
            h->files_bytes -= f->bytes;
    }
}

void
keep_forget(hub *h, hub_session *s)
{
    keep_retire(h, s);
    for (size_t i = 0; i < s->n_artifacts; i++) {
        hub_file *f = file_of(h, s->artifacts[i].sha256);

        if (f != NULL && --f->listed == 0)
            file_drop(h, f);
    }
    s->n_artifacts = 0;
}

/* ---- How much there is ---- */

uint64_t
keep_bytes(const hub_session *s)
{
    uint64_t sum = 0;

    if (s->closed && s->folder_bytes > 0)
        return s->folder_bytes;
    for (size_t k = 0; k < s->n_parts; k++)
        sum += s->parts[k]->bytes;
    return sum;
}

static uint64_t
folders_bytes(const hub *h)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < h->n_sessions; i++)
        sum += h->sessions[i]->deleted ? 0 : keep_bytes(h->sessions[i]);
    return sum;
}

uint64_t
keep_total(const hub *h)
{
    return folders_bytes(h) + h->files_bytes;
}

static _Thread_local uint64_t walk_sum;

/* Files that are also elsewhere are artifacts, which are counted once for all. */
static int
walk_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void) path;
    (void) ftw;
    if ((type == FTW_F && st->st_nlink == 1) || type == FTW_D)
        walk_sum += (uint64_t) st->st_blocks * 512;
    return 0;
}

/* The lock is given up while the folder is walked. */
static bool
measure_one(hub *h)
{
    for (size_t i = 0; i < h->n_sessions; i++) {
        hub_session *s = h->sessions[i];
        uint64_t id = s->id;
        char *dir;

        if (s->measured || s->deleted || !s->closed)
            continue;
        s->measured = true;
        if ((dir = hub_path(h, s, ".")) == NULL)
            return true;
        pthread_mutex_unlock(&h->lock);
        walk_sum = 0;
        (void) nftw(dir, walk_one, FD_MAX, FTW_PHYS);
        free(dir);
        pthread_mutex_lock(&h->lock);
        if ((s = hub_session_by_id(h, id)) != NULL)
            s->folder_bytes = walk_sum;
        return true;
    }
    return false;
}

void
keep_measure(hub *h, hub_session *s)
{
    s->measured = false;
    if (h->keeper != NULL)
        pthread_cond_signal(&h->keeper->news);
}

/* ---- What goes by age and size ---- */

static bool
is_over(const hub_session *s)
{
    return s->state == SESSION_COMPLETE || s->state == SESSION_FAILED;
}

static bool
may_go(const hub_session *s)
{
    job_status job;

    return !s->deleted && is_over(s) && s->served == 0 &&
           (!merger_status(s, &job) || (job.state != JOB_WAITING && job.state != JOB_RUNNING));
}

static void
retire(hub *h, hub_session *s, int64_t now, const char *reason)
{
    keep_retire(h, s);
    mrd_log(MRD_LOG_INFO, "AGG-RETAIN", "Session removed: id=%s hours=%lld bytes=%llu reason=%s",
            s->text, (long long) ((now - s->created_wall_ns) / (3600 * MRD_SEC)),
            (unsigned long long) keep_bytes(s), reason);
}

void
keep_retain(hub *h, int64_t now)
{
    uint64_t most = (uint64_t) h->limits.retain_bytes, folders;

    for (size_t i = 0; i < h->n_sessions; i++) {
        hub_session *s = h->sessions[i];

        if (h->limits.retain_ns > 0 && may_go(s) && now - s->created_wall_ns > h->limits.retain_ns)
            retire(h, s, now, "older than --retain");
    }
    folders = folders_bytes(h);
    while (most > 0 && folders + h->files_bytes > most) {
        hub_session *oldest = NULL;

        for (size_t i = 0; i < h->n_sessions; i++) {
            hub_session *s = h->sessions[i];

            if (may_go(s) && (oldest == NULL || s->created_wall_ns < oldest->created_wall_ns))
                oldest = s;
        }
        if (oldest == NULL)
            return;
        folders -= keep_bytes(oldest);
        retire(h, oldest, now, "the oldest beyond --retain-size");
    }
}

/* ---- Removing ---- */

/* Where nothing can be renamed: without its manifest a session is none. */
static void
remove_in_place(const hub *h, const hub_session *s, const char *dir)
{
    char *manifest = hub_path(h, s, "session.json");

    if (manifest != NULL)
        (void) unlink(manifest);
    free(manifest);
    mrd_remove_tree(dir);
}

void
keep_remove(hub *h, hub_session *s)
{
    char *dir = hub_path(h, s, "."), *to = hub_path(h, NULL, "removed/%s", s->text);

    if (dir != NULL && to != NULL) {
        dir[strlen(dir) - 2] = '\0'; /* without "/." */
        if (rename(dir, to) != 0)
            remove_in_place(h, s, dir);
    }
    free(dir);
    free(to);
    keep_forget(h, s);
    if (h->keeper != NULL) {
        h->keeper->empty = h->keeper->sweep = true;
        pthread_cond_signal(&h->keeper->news);
    }
}

static bool
listed_by_open(const hub *h, const char *sha256)
{
    for (size_t i = 0; i < h->n_sessions; i++) {
        const hub_session *s = h->sessions[i];

        for (size_t k = 0; k < s->n_artifacts && hub_session_open(s); k++) {
            if (strcmp(s->artifacts[k].sha256, sha256) == 0)
                return true;
        }
    }
    return false;
}

/* Of a file that nobody lists, or of a part: that belongs to whoever is sending it, or may go on.
 */
static bool
is_rubbish(hub *h, const char *sha256, bool part, const struct stat *st)
{
    if (artifact_busy(h, sha256, UPLOAD_NS))
        return false;
    return !part || (mrd_wall_now().ns - st->st_mtim.tv_sec * MRD_SEC > UPLOAD_NS &&
                     !listed_by_open(h, sha256));
}

/* Lock held. */
static void
sweep_entry(hub *h, const char *name)
{
    char sha256[65];
    bool part = strcmp(name + strcspn(name, "."), ".part") == 0;
    char *from, *to;
    struct stat st;

    hub_copy(sha256, sizeof(sha256), name);
    if (!keep_hash_ok(sha256) || (!part && name[64] != '\0'))
        return; /* not ours */
    if (!part && file_of(h, sha256) != NULL)
        return; /* nearly always: the disk is not asked */
    from = hub_path(h, NULL, "artifacts/%s", name);
    to = hub_path(h, NULL, "removed/%s", name);
    if (from != NULL && to != NULL && lstat(from, &st) == 0 && S_ISREG(st.st_mode) &&
        is_rubbish(h, sha256, part, &st) && (rename(from, to) == 0 || unlink(from) == 0)) {
        h->stats.artifacts_removed += !part;
        if (part)
            artifact_forget(h, sha256); /* who sent it is to offer it again */
        mrd_log(MRD_LOG_DEBUG, "AGG-ARTIFACT-REMOVED", "No session lists it: name=%s bytes=%lld",
                name, (long long) st.st_size);
        if (h->keeper != NULL)
            h->keeper->empty = true;
    }
    free(from);
    free(to);
}

void
keep_sweep(hub *h)
{
    char *path = hub_path(h, NULL, "artifacts");
    DIR *dir = path == NULL ? NULL : opendir(path);
    struct dirent *entry;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        pthread_mutex_lock(&h->lock);
        if (h->unreadable == 0)
            sweep_entry(h, entry->d_name);
        pthread_mutex_unlock(&h->lock);
    }
    if (dir != NULL)
        closedir(dir);
    free(path);
}

static _Thread_local struct keeper *emptied_by;

static int
empty_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void) st;
    (void) type;
    if (__atomic_load_n(&emptied_by->closing, __ATOMIC_RELAXED))
        return 1; /* the next start goes on */
    return ftw->level == 0 || remove(path) == 0 || errno == ENOENT ? 0 : 1;
}

/* Lock not held. */
static void
empty_removed(struct keeper *k)
{
    char *path = hub_path(k->h, NULL, "removed");

    emptied_by = k;
    if (path != NULL)
        (void) nftw(path, empty_one, FD_MAX, FTW_DEPTH | FTW_PHYS);
    free(path);
}

/* Lock not held. The artifacts of a session go after it, also when the power fails in between. */
static void
sync_sessions(const hub *h)
{
    char *path = hub_path(h, NULL, "sessions");

    if (path != NULL && h->sync == MRD_SYNC_GROUP)
        mrd_sync_dir(path);
    free(path);
}

/* ---- The thread ---- */

static void
wait_news(struct keeper *k, int64_t now)
{
    int64_t wait = k->next_sweep_ns - now;
    struct timespec end;

    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += wait <= 0 ? 0 : (time_t) (wait / MRD_SEC) + 1;
    pthread_cond_timedwait(&k->news, &k->h->lock, &end);
}

/* One thing that is to be done; false: nothing is. Lock held, given up meanwhile. */
static bool
keep_step(struct keeper *k, int64_t now)
{
    hub *h = k->h;

    if (now >= k->next_sweep_ns) {
        k->sweep = true;
        k->next_sweep_ns = now + SWEEP_NS;
    }
    if (k->sweep) {
        k->sweep = false;
        pthread_mutex_unlock(&h->lock);
        sync_sessions(h);
        keep_sweep(h);
        pthread_mutex_lock(&h->lock);
        return true;
    }
    if (k->empty) {
        k->empty = false;
        pthread_mutex_unlock(&h->lock);
        empty_removed(k);
        pthread_mutex_lock(&h->lock);
        return true;
    }
    return measure_one(h);
}

static void *
keep_run(void *arg)
{
    struct keeper *k = arg;
    hub *h = k->h;

    pthread_mutex_lock(&h->lock);
    while (!k->closing) {
        int64_t now = mrd_local_now().ns;

        if (!keep_step(k, now))
            wait_news(k, now);
    }
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

mrd_err
keep_open(hub *h, mrd_why *why)
{
    struct keeper *k = calloc(1, sizeof(*k));
    char *path = hub_path(h, NULL, "removed");

    if (path != NULL)
        (void) mkdir(path,
                     0755); /* on a full disk there is none: sessions go in their place then */
    free(path);
    if (k == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "store %s", h->store);
    if (h->unreadable > 0)
        mrd_log(MRD_LOG_WARN, "AGG-ARTIFACTS-KEPT",
                "No artifact is removed while sessions cannot be read, they may list it: "
                "sessions=%u",
                h->unreadable);
    k->h = h;
    k->empty = true; /* what the last run left */
    pthread_cond_init(&k->news, NULL);
    if ((errno = pthread_create(&k->thread, NULL, keep_run, k)) != 0) {
        mrd_why_set(why, MRD_IO, errno, "cannot start the thread that keeps the store");
        pthread_cond_destroy(&k->news);
        free(k);
        return MRD_IO;
    }
    h->keeper = k;
    return MRD_OK;
}

void
keep_close(hub *h)
{
    struct keeper *k = h->keeper;

    if (k == NULL)
        return;
    pthread_mutex_lock(&h->lock);
    __atomic_store_n(&k->closing, true, __ATOMIC_RELAXED);
    pthread_cond_signal(&k->news);
    pthread_mutex_unlock(&h->lock);
    pthread_join(k->thread, NULL);
    pthread_cond_destroy(&k->news);
    free(k);
    h->keeper = NULL;
}

void
keep_fini(hub *h)
{
    free(h->files);
    mrd_map_fini(&h->file_at);
}
