#include "aggregator/export/exporter.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "aggregator/core/common/targets.h"
#include "aggregator/export/export_folder.h"
#include "aggregator/export/s3.h"
#include "base/conf/log.h"
#include "base/num.h"
#include "base/obj.h"
#include "base/sys/file.h"
#include "base/sys/pool.h"
#include "base/vec.h"
#include "trace/sink/sinks.h"

#define WAITING_MAX 100000
#define DEPTH_MAX   24
#define FILES_MAX   200000
#define QUIET_MAX   MRD_EXPORTER_QUIET
#define CLOSE_MAX   (5 * MRD_SEC)

/* A target of exports: a directory or an S3 bucket. Each target has its own thread, so that a
 * target that does not answer does not delay the others. */
typedef struct {
    mrd_exporter *of;
    char *name, *target;
    /* S3: prefix of the object keys. NULL if the target is a directory. */
    char *prefix;
    mrd_s3 *s3;
    mrd_pool *worker;
    /* when the target's thread last made progress; accessed atomically */
    int64_t moved;
    /* true while an export runs. The exporter's lock guards this and the members below. */
    bool busy;
    uint64_t running; /* id of the session being exported */
    /* true if the target was reported as stalled and has not answered since then */
    bool told;
} place;

struct mrd_exporter {
    mrd_exporter_options o;
    char *path, *cluster;
    /* The targets of exports. The default target has the name "". The array does not change while
     * threads run. */
    place **places;
    size_t n, cap;
    pthread_mutex_t lock; /* also held while `began`, `done` and `stalled` are called */
    bool closing;         /* written with the lock held, read atomically without it */
    /* true after mrd_exporter_close has stopped waiting for threads; threads that still run then
     * make no callbacks */
    bool left;
};

typedef struct {
    place *at;
    uint64_t session;
    /* id of the user that gets the copy; -1 means none */
    int64_t uid;
    char text[sizeof(((mrd_session *) 0)->text)]; /* the session's id in messages */
    char *dir, *to; /* the session's directory, and where the copy goes below the target */
    /* three lists of paths below `dir`, copied in this order: files, manifests, session.json */
    mrd_strlist files[3];
    /* directories below `dir` of processes whose device profiles are still to be converted. The
     * subdirectory "viewer" in them is not copied */
    mrd_strlist unmade;
    uint64_t n, bytes;
} job;

static bool
going_on(void *self)
{
    place *p = self;

    __atomic_store_n(&p->moved, mrd_local_now().ns, __ATOMIC_RELAXED);
    return !__atomic_load_n(&p->of->closing, __ATOMIC_RELAXED);
}

/* ---- The path of a copy below its target ---- */

static void
component(mrd_buf *to, const char *text)
{
    size_t from = to->len;

    for (size_t i = 0; i < 120 && text[i] != '\0'; i++) {
        char c = text[i];
        bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    strchr("-_", c) != NULL || (c == '.' && to->len > from);

        mrd_buf_byte(to, fine ? (uint8_t) c : '_');
    }
    if (to->len == from)
        mrd_buf_text(to, "unknown");
}

/* Copies the value of `key` to `to`. `text` is a list of "key=value", which describes a job. */
static void
job_value(const char *text, const char *key, char *to, size_t size)
{
    size_t n = strlen(key);

    to[0] = '\0';
    for (const char *p = text; *p != '\0';) {
        size_t len = strcspn(p, " ,;\n");

        if (len > n + 1 && strncmp(p, key, n) == 0 && p[n] == '=')
            snprintf(to, size, "%.*s", (int) (len - n - 1), p + n + 1);
        p += len + (p[len] != '\0');
    }
}

/* Appends `path` to `ret`. Replaces {cluster}, {user}, {job}, {name}, {date} and {session} by the
 * session's values. Slashes in a value are replaced, so a value is always one path component.
 * Errors: INVALID for an unknown placeholder. */
static mrd_err
export_path(const char *path, const char *cluster, const mrd_session *session, mrd_buf *ret,
            mrd_why *why)
{
    for (const char *p = path; *p != '\0';) {
        size_t n = strcspn(p, "{");
        char word[32], value[128] = "";
        const char *end;

        mrd_buf_add(ret, p, n);
        p += n;
        if (*p == '\0')
            break;
        if ((end = strchr(p, '}')) == NULL || (size_t) (end - p) >= sizeof(word))
            return mrd_why_set(why, MRD_INVALID, 0, "--export-path %s: a { without its }", path);
        snprintf(word, sizeof(word), "%.*s", (int) (end - p - 1), p + 1);
        p = end + 1;
        if (strcmp(word, "session") == 0 && session != NULL) {
            snprintf(value, sizeof(value), "%s", session->text);
        } else if (strcmp(word, "date") == 0 && session != NULL) {
            time_t at = (time_t) (session->created.ns / MRD_SEC);
            struct tm when;

            if (gmtime_r(&at, &when) != NULL)
                (void) strftime(value, sizeof(value), "%Y-%m-%d", &when);
        } else if (strcmp(word, "name") == 0 && session != NULL) {
            snprintf(value, sizeof(value), "%s", session->params.name);
        } else if (strcmp(word, "cluster") == 0) {
            snprintf(value, sizeof(value), "%s", cluster == NULL ? "" : cluster);
        } else if (strcmp(word, "job") == 0 || strcmp(word, "user") == 0) {
            if (session != NULL && session->jobs.n > 0)
                job_value(session->jobs.v[0], word, value, sizeof(value));
        } else if (session != NULL || (strcmp(word, "session") != 0 && strcmp(word, "date") != 0 &&
                                       strcmp(word, "name") != 0)) {
            return mrd_why_set(why, MRD_INVALID, 0,
                               "--export-path %s: {%s} is none of {cluster}, {user}, {job}, "
                               "{name}, {date}, {session}",
                               path, word);
        }
        component(ret, value);
    }
    return ret->err == MRD_OK ? MRD_OK : mrd_why_set(why, ret->err, 0, "export");
}

/* ---- The files that are copied ---- */

/* Returns true for files that are not copied: journals, clock data, unfinished conversions, hidden
 * files, and temporary files of base/sys/out.h. An artifact may be named like a temporary file. So
 * temporary files are left out only in directories without artifacts. */
static bool
is_left_out(const job *j, const char *below, const char *name)
{
    bool top = *below == '\0',
         ours = top || strcmp(below, "profile") == 0 || strncmp(below, "profile/", 8) == 0;

    for (size_t i = 0; i < j->unmade.n && strcmp(name, "viewer") == 0; i++)
        if (strcmp(j->unmade.v[i], below) == 0)
            return true;
    return name[0] == '.' || (ours && mrd_str_ends(mrd_str_of(name), ".part")) ||
           (top && (strcmp(name, "journal") == 0 || strcmp(name, "clocks") == 0 ||
                    strcmp(name, "artifacts.log") == 0));
}

static mrd_err
list(job *j, const char *below, unsigned depth, mrd_why *why)
{
    mrd_buf path = { 0 };
    const struct dirent *entry;
    mrd_err err = MRD_OK;
    int sys = 0;
    DIR *dir;

    mrd_buf_fmt(&path, "%s%s%s", j->dir, *below == '\0' ? "" : "/", below);
    if ((dir = opendir(mrd_buf_cstr(&path))) == NULL)
        err = mrd_why_set(why, MRD_IO, errno, "cannot read %s", mrd_buf_cstr(&path));
    while (err == MRD_OK && dir != NULL && (entry = mrd_dir_next(dir, &sys)) != NULL) {
        struct stat st;
        size_t when = strcmp(entry->d_name, "_manifest.json") == 0 ||
                      strcmp(entry->d_name, "SHA256SUMS") == 0;

        if (is_left_out(j, below, entry->d_name))
            continue;
        mrd_buf_reset(&path);
        mrd_buf_fmt(&path, "%s%s%s", below, *below == '\0' ? "" : "/", entry->d_name);
        if (path.err != MRD_OK)
            err = mrd_why_set(why, path.err, 0, "export");
        else if (fstatat(dirfd(dir), entry->d_name, &st, 0) != 0) {
            /* ENOENT is no error, because the file was removed in the meantime */
            if (errno != ENOENT)
                err = mrd_why_set(why, MRD_IO, errno, "cannot look at %s/%s", j->dir,
                                  mrd_buf_cstr(&path));
        } else if (S_ISDIR(st.st_mode) && depth >= DEPTH_MAX)
            err = mrd_why_set(why, MRD_LIMIT, 0, "folders below %s are more than %d deep", j->dir,
                              DEPTH_MAX);
        else if (S_ISDIR(st.st_mode))
            err = list(j, mrd_buf_cstr(&path), depth + 1, why);
        else if (S_ISREG(st.st_mode))
            err = mrd_strlist_add(
                &j->files[depth == 0 && strcmp(entry->d_name, "session.json") == 0 ? 2 : when],
                mrd_str_of(mrd_buf_cstr(&path)));
        if (err == MRD_OK && j->files[0].n + j->files[1].n > FILES_MAX)
            err = mrd_why_set(why, MRD_LIMIT, 0, "more than %u files", FILES_MAX);
    }
    if (sys != 0)
        err = mrd_why_set(why, MRD_IO, sys, "cannot list all of %s/%s", j->dir, below);
    if (dir != NULL)
        closedir(dir);
    mrd_buf_fini(&path);
    return err;
}

/* ---- Copying one session ---- */

static mrd_err
put(job *j, mrd_export_folder *folder, const char *file, mrd_why *why)
{
    place *at = j->at;
    mrd_buf from = { 0 }, to = { 0 };
    uint64_t sent = 0;
    mrd_err err;

    mrd_buf_fmt(&from, "%s/%s", j->dir, file);
    mrd_buf_fmt(&to, "%s%s/%s", at->prefix == NULL ? "" : at->prefix, j->to, file);
    if (!going_on(at))
        err = MRD_CANCELLED;
    else if (from.err != MRD_OK || to.err != MRD_OK)
        err = mrd_why_set(why, MRD_NOMEM, 0, "export");
    else if (folder == NULL)
        err = mrd_s3_put(at->s3, mrd_buf_cstr(&to), mrd_buf_cstr(&from), &sent, why);
    else
        err = mrd_export_folder_put(folder, file, mrd_buf_cstr(&from), &sent, why);
    j->n += err == MRD_OK;
    j->bytes += sent;
    mrd_buf_fini(&from);
    mrd_buf_fini(&to);
    return err;
}

/* Copies all files of a session to its target. */
static mrd_err
carry(job *j, mrd_why *why)
{
    mrd_export_folder_options options = { .target = j->at->target,
                                          .below = j->to,
                                          .owner = j->uid,
                                          .rate = j->at->of->o.rate,
                                          .going_on = going_on,
                                          .self = j->at };
    mrd_export_folder *folder = NULL;
    mrd_err err = list(j, "", 0, why);

    if (err == MRD_OK && j->files[2].n == 0)
        err = mrd_why_set(why, MRD_NOTFOUND, 0, "%s has no session.json", j->dir);
    if (err == MRD_OK && j->at->prefix == NULL)
        err = mrd_export_folder_open(&options, &folder, why);
    for (size_t i = 0; i < MRD_COUNT(j->files); i++) {
        for (size_t k = 0; k < j->files[i].n && err == MRD_OK; k++)
            err = put(j, folder, j->files[i].v[k], why);
    }
    if (err == MRD_OK && folder != NULL)
        err = mrd_export_folder_finish(folder, j->files, MRD_COUNT(j->files), why);
    mrd_export_folder_close(folder);
    return err;
}

/* Logs which formats the session does not have. It lacks them if it was merged before they were
 * configured. */
static void
name_missing(const job *j)
{
    mrd_buf names = { 0 }, path = { 0 };
    size_t n;
    const mrd_sink_ops *const *sinks = mrd_sinks(&n);

    for (size_t i = 0; i < n; i++) {
        if (!mrd_sink_is_named(j->at->of->o.formats, sinks[i]))
            continue;
        mrd_buf_reset(&path);
        mrd_buf_fmt(&path, "%s/", j->dir);
        mrd_sink_profile_path(sinks[i], &path);
        if (path.err == MRD_OK && access(mrd_buf_cstr(&path), F_OK) != 0)
            mrd_buf_fmt(&names, "%s%s", names.len > 0 ? "," : "", sinks[i]->name);
    }
    if (names.len > 0 && names.err == MRD_OK)
        mrd_log(MRD_LOG_WARN, "AGG-EXPORT-FORMATS",
                "An exported session was merged before these formats were configured, its copy "
                "lacks them (meridian fetch makes them): id=%s missing=%s",
                j->text, mrd_buf_cstr(&names));
    mrd_buf_fini(&names);
    mrd_buf_fini(&path);
}

static void
job_free(job *j)
{
    for (size_t i = 0; i < MRD_COUNT(j->files); i++)
        mrd_strlist_fini(&j->files[i]);
    mrd_strlist_fini(&j->unmade);
    free(j->dir);
    free(j->to);
    free(j);
}

static void
run(void *self, void *arg)
{
    mrd_exporter *exporter = self;
    job *j = arg;
    place *at = j->at;
    mrd_why why = { 0 };
    mrd_err err = MRD_CANCELLED;

    pthread_mutex_lock(&exporter->lock);
    if (!exporter->closing) {
        at->busy = true;
        at->running = j->session;
        at->told = false;
        going_on(at);
        exporter->o.began(exporter->o.self, j->session);
        err = MRD_OK;
    }
    pthread_mutex_unlock(&exporter->lock);
    if (err == MRD_OK)
        err = carry(j, &why);
    if (err == MRD_OK)
        name_missing(j);
    if (err != MRD_OK && why.err == MRD_OK)
        mrd_why_set(&why, err, 0, "%s", mrd_err_text(err));
    pthread_mutex_lock(&exporter->lock);
    at->busy = false;
    if (!exporter->left)
        exporter->o.done(exporter->o.self, j->session, j->n, j->bytes, err == MRD_OK ? NULL : &why);
    pthread_mutex_unlock(&exporter->lock);
    job_free(j);
}

void
mrd_exporter_watch(mrd_exporter *exporter)
{
    int64_t now = mrd_local_now().ns;

    pthread_mutex_lock(&exporter->lock);
    for (size_t i = 0; i < exporter->n; i++) {
        place *p = exporter->places[i];
        int64_t quiet = now - __atomic_load_n(&p->moved, __ATOMIC_RELAXED);

        if (!p->busy || p->told == (quiet >= QUIET_MAX))
            continue;
        p->told = !p->told;
        exporter->o.stalled(exporter->o.self, p->running, p->told ? p->target : NULL, quiet);
    }
    pthread_mutex_unlock(&exporter->lock);
}

static place *
place_of(mrd_exporter *exporter, const char *name)
{
    for (size_t i = 0; i < exporter->n; i++) {
        if (strcmp(exporter->places[i]->name, name == NULL ? "" : name) == 0)
            return exporter->places[i];
    }
    return NULL;
}

/* Returns the id of the user that gets the copy, which is the user of all jobs of the session.
 * Returns -1 if there are several users, if it is root, or if copies are not given to users. */
static int64_t
owner_of(const mrd_exporter *exporter, const place *at, const mrd_session *session)
{
    uint64_t all = 0;

    for (size_t i = 0; i < session->jobs.n; i++) {
        char text[24];
        uint64_t uid;

        job_value(session->jobs.v[i], "uid", text, sizeof(text));
        if (mrd_num_u64(mrd_str_of(text), &uid) != MRD_OK || uid == 0 || uid >= UINT32_MAX ||
            (i > 0 && uid != all))
            return -1; /* the session belongs to several users, or to none */
        all = uid;
    }
    return exporter->o.owner && at->prefix == NULL && all > 0 ? (int64_t) all : -1;
}

/* Stores in j->unmade the directories of processes with an unfinished conversion, because the
 * results do not belong to the session yet. If nodes themselves sent files below viewer/, the list
 * stays empty, so that these files are copied. Returns false if out of memory. */
static bool
find_unmade(job *j, const mrd_session *session)
{
    for (size_t i = 0; i < session->n_artifacts; i++)
        if (strncmp(session->artifacts[i].name, "viewer/", 7) == 0 &&
            !mrd_kind_is_converted(session->artifacts[i].kind))
            return true;
    for (size_t i = 0; i < session->conversions.n; i++) {
        const mrd_conversion *conversion = &session->conversions.v[i];
        char process[MRD_NODE_ID_MAX + 32];

        if (conversion->state == MRD_CONVERT_DONE)
            continue;
        snprintf(process, sizeof(process), "%s_pid_%lld", conversion->instance_id,
                 (long long) conversion->process_id);
        if (mrd_strlist_add(&j->unmade, mrd_str_of(process)) != MRD_OK)
            return false;
    }
    return true;
}

bool
mrd_exporter_start(mrd_exporter *exporter, const mrd_session *session, mrd_why *why)
{
    job *j = calloc(1, sizeof(*j));
    mrd_buf to = { 0 };

    mrd_why_set(why, MRD_BUSY, 0, "too many sessions wait for their export");
    if (j == NULL)
        return false;
    if ((j->at = place_of(exporter, session->params.export_to)) == NULL) {
        mrd_why_set(why, MRD_NOTFOUND, 0,
                    "the session is to be exported to '%.63s', which --export-targets does not "
                    "have any more",
                    session->params.export_to == NULL ? "" : session->params.export_to);
        free(j);
        return false;
    }
    j->uid = owner_of(exporter, j->at, session);
    j->session = session->id;
    memcpy(j->text, session->text, sizeof(j->text));
    j->dir = mrd_session_store_path(exporter->o.store, session->text, "%s", "");
    if (j->dir != NULL && strlen(j->dir) > 1 && j->dir[strlen(j->dir) - 1] == '/')
        j->dir[strlen(j->dir) - 1] = '\0';
    if (export_path(exporter->path, exporter->cluster, session, &to, NULL) == MRD_OK)
        j->to = mrd_str_dup(mrd_str_of(mrd_buf_cstr(&to)));
    mrd_buf_fini(&to);
    if (j->dir != NULL && j->to != NULL && find_unmade(j, session) &&
        mrd_pool_put(j->at->worker, run, exporter, j))
        return true;
    job_free(j);
    return false;
}

/* ---- Opening and closing ---- */

static mrd_err
target_s3(mrd_exporter *exporter, place *p, mrd_why *why)
{
    const char *bucket = p->target + 5, *slash = strchr(bucket, '/');
    mrd_s3_options options = { .rate = exporter->o.rate, .going_on = going_on, .self = p };
    char name[256];
    mrd_err err;

    snprintf(name, sizeof(name), "%.*s", (int) strcspn(bucket, "/"), bucket);
    if (name[0] == '\0')
        return mrd_why_set(why, MRD_INVALID, 0, "--export %s names no bucket", p->target);
    options.bucket = name;
    p->prefix = slash == NULL || slash[1] == '\0' ? mrd_str_dup(MRD_STR("")) : NULL;
    if (p->prefix == NULL &&
        asprintf(&p->prefix, "%s%s", slash + 1, slash[strlen(slash) - 1] == '/' ? "" : "/") < 0)
        p->prefix = NULL;
    err = p->prefix == NULL ? mrd_why_set(why, MRD_NOMEM, 0, "export") : MRD_OK;
    return err == MRD_OK ? mrd_s3_open(&options, &p->s3, why) : err;
}

static mrd_err
add_place(mrd_exporter *exporter, mrd_str name, mrd_str target, mrd_why *why)
{
    mrd_err err;
    place *p;

    if (!MRD_VEC_ROOM(exporter->places, exporter->n, exporter->cap, 1) ||
        (p = malloc(sizeof(*p))) == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "export");
    exporter->places[exporter->n++] = p;
    *p = (place){ .of = exporter, .name = mrd_str_dup(name), .target = mrd_str_dup(target) };
    if (p->name == NULL || p->target == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "export");
    if (strncmp(p->target, "s3://", 5) == 0 && (err = target_s3(exporter, p, why)) != MRD_OK)
        return err;
    return mrd_pool_open("exports", 1, WAITING_MAX, &p->worker, why);
}

static mrd_err
add_places(mrd_exporter *exporter, const mrd_exporter_options *options, mrd_why *why)
{
    const char *at = NULL;
    mrd_str name, target;
    mrd_err err = mrd_targets_check(options->targets, why);

    if (err == MRD_OK && options->target != NULL)
        err = add_place(exporter, MRD_STR(""), mrd_str_of(options->target), why);
    while (err == MRD_OK && mrd_targets_next(options->targets, &at, &name, &target))
        err = add_place(exporter, name, target, why);
    return err;
}

mrd_err
mrd_exporter_open(const mrd_exporter_options *options, mrd_exporter **ret_exporter, mrd_why *why)
{
    mrd_exporter *exporter = calloc(1, sizeof(*exporter));
    mrd_buf tried = { 0 };
    mrd_err err = MRD_OK;

    if (exporter == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "export");
    exporter->o = *options;
    pthread_mutex_init(&exporter->lock, NULL);
    exporter->path =
        mrd_str_dup(mrd_str_of(options->path == NULL ? "{date}/{session}" : options->path));
    exporter->cluster = mrd_str_dup(mrd_str_of(options->cluster == NULL ? "" : options->cluster));
    if (exporter->path == NULL || exporter->cluster == NULL)
        err = mrd_why_set(why, MRD_NOMEM, 0, "export");
    if (err == MRD_OK)
        err = export_path(exporter->path, exporter->cluster, NULL, &tried, why);
    if (err == MRD_OK &&
        (strstr(exporter->path, "{session}") == NULL || strstr(exporter->path, "..") != NULL))
        err = mrd_why_set(why, MRD_INVALID, 0, "--export-path %s needs {session}, and no ..",
                          exporter->path);
    mrd_buf_fini(&tried);
    if (err == MRD_OK)
        err = add_places(exporter, options, why);
    if (err == MRD_OK)
        *ret_exporter = exporter;
    else
        mrd_exporter_close(exporter);
    return err;
}

/* Stops the target's thread and frees the target. If the thread has not ended at the time `until`,
 * leaves the target's memory allocated and returns false. */
static bool
end_place(place *p, int64_t until)
{
    mrd_dur_ns left = until - mrd_local_now().ns;

    if (p->worker != NULL && !mrd_pool_close_within(p->worker, left < MRD_SEC ? MRD_SEC : left)) {
        mrd_log(MRD_LOG_WARN, "AGG-EXPORT-LEFT",
                "A target of exports does not answer, its export is not waited for: target=%s",
                p->target);
        return false;
    }
    mrd_s3_close(p->s3);
    free(p->prefix);
    free(p->target);
    free(p->name);
    free(p);
    return true;
}

void
mrd_exporter_close(mrd_exporter *exporter)
{
    int64_t until = mrd_local_now().ns + CLOSE_MAX;
    bool left = false;

    if (exporter == NULL)
        return;
    pthread_mutex_lock(&exporter->lock);
    __atomic_store_n(&exporter->closing, true, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&exporter->lock);
    for (size_t i = 0; i < exporter->n; i++)
        left = !end_place(exporter->places[i], until) || left;
    pthread_mutex_lock(&exporter->lock);
    exporter->left = true;
    pthread_mutex_unlock(&exporter->lock);
    if (left)
        return; /* a thread still uses the exporter, so its memory is not freed */
    pthread_mutex_destroy(&exporter->lock);
    free(exporter->places);
    free(exporter->path);
    free(exporter->cluster);
    free(exporter);
}
