#include "aggregator/exporter.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "aggregator/core/targets.h"
#include "aggregator/pool.h"
#include "aggregator/s3.h"
#include "base/num.h"
#include "base/obj.h"
#include "base/out.h"
#include "base/vec.h"

#define WAITING_MAX 100000
#define DEPTH_MAX   24
#define FILES_MAX   200000

/* Where sessions go. */
typedef struct {
    char *name, *target;
    char *prefix; /* of S3; NULL: a folder */
    mrd_s3 *s3;
} place;

struct mrd_exporter {
    mrd_exporter_options o;
    char *path, *cluster;
    place *places; /* the default one has the name "" */
    size_t n, cap;
    mrd_pool *worker;
    bool closing; /* atomic */
};

typedef struct {
    mrd_exporter *of;
    const place *at;
    uint64_t session;
    int64_t uid;          /* of the job's user, who gets the copy; -1: nobody does */
    char *dir, *to;       /* its folder; where it goes, below the target */
    mrd_strlist files[3]; /* paths below dir: first, manifests, the session's own */
    uint64_t n, bytes;
} job;

static bool
going_on(void *self)
{
    return !__atomic_load_n(&((mrd_exporter *) self)->closing, __ATOMIC_RELAXED);
}

/* ---- Where it goes ---- */

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

/* The value of `key` among "key=value" words of a job's text. */
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

/* {cluster}, {user}, {job}, {name}, {date} and {session} filled in, each as one component. Errors: INVALID for another word. */
static mrd_err
export_path(const char *path, const char *cluster, const mrd_session *s, mrd_buf *ret, mrd_why *why)
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
        if (strcmp(word, "session") == 0 && s != NULL) {
            snprintf(value, sizeof(value), "%s", s->text);
        } else if (strcmp(word, "date") == 0 && s != NULL) {
            time_t at = (time_t) (s->created.ns / MRD_SEC);
            struct tm t;

            if (gmtime_r(&at, &t) != NULL)
                (void) strftime(value, sizeof(value), "%Y-%m-%d", &t);
        } else if (strcmp(word, "name") == 0 && s != NULL) {
            snprintf(value, sizeof(value), "%s", s->params.name);
        } else if (strcmp(word, "cluster") == 0) {
            snprintf(value, sizeof(value), "%s", cluster == NULL ? "" : cluster);
        } else if (strcmp(word, "job") == 0 || strcmp(word, "user") == 0) {
            if (s != NULL && s->jobs.n > 0)
                job_value(s->jobs.v[0], word, value, sizeof(value));
        } else if (s != NULL || (strcmp(word, "session") != 0 && strcmp(word, "date") != 0 &&
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

/* ---- What goes ---- */

static bool
is_left_out(const char *name, bool top)
{
    mrd_str text = mrd_str_of(name);

    return name[0] == '.' || mrd_str_ends(text, ".part") ||
           (top && (strcmp(name, "journal") == 0 || strcmp(name, "clocks") == 0 ||
                    strcmp(name, "artifacts.log") == 0));
}

static mrd_err
list(job *j, const char *below, unsigned depth, mrd_why *why)
{
    mrd_buf path = { 0 };
    struct dirent *entry;
    mrd_err err = MRD_OK;
    DIR *d;

    mrd_buf_fmt(&path, "%s%s%s", j->dir, *below == '\0' ? "" : "/", below);
    if ((d = opendir(mrd_buf_cstr(&path))) == NULL)
        err = mrd_why_set(why, MRD_IO, errno, "cannot read %s", mrd_buf_cstr(&path));
    while (err == MRD_OK && d != NULL && (entry = readdir(d)) != NULL) {
        struct stat st;
        size_t when = strcmp(entry->d_name, "_manifest.json") == 0 ||
                      strcmp(entry->d_name, "SHA256SUMS") == 0;

        if (is_left_out(entry->d_name, depth == 0))
            continue;
        mrd_buf_reset(&path);
        mrd_buf_fmt(&path, "%s%s%s", below, *below == '\0' ? "" : "/", entry->d_name);
        if (fstatat(dirfd(d), entry->d_name, &st, 0) != 0)
            continue; /* it has just gone */
        if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX)
            err = list(j, mrd_buf_cstr(&path), depth + 1, why);
        else if (S_ISREG(st.st_mode))
            err = mrd_strlist_add(
                &j->files[depth == 0 && strcmp(entry->d_name, "session.json") == 0 ? 2 : when],
                mrd_str_of(mrd_buf_cstr(&path)));
        if (j->files[0].n > FILES_MAX)
            err = mrd_why_set(why, MRD_LIMIT, 0, "more than %u files", FILES_MAX);
    }
    if (d != NULL)
        closedir(d);
    mrd_buf_fini(&path);
    return err;
}

/* ---- Into a folder ---- */

/* Missing folders on the way, with the permissions and the owner of `like`. */
static mrd_err
make_way(const char *path, const struct stat *like, mrd_why *why)
{
    char *copy = mrd_str_dup(mrd_str_of(path));
    mrd_err err = MRD_OK;

    if (copy == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "export");
    for (char *p = strchr(copy + 1, '/'); p != NULL && err == MRD_OK; p = strchr(p + 1, '/')) {
        *p = '\0';
        if (mkdir(copy, 0700) == 0) {
            (void) !chown(copy, like->st_uid, like->st_gid); /* root can; others own it already */
            (void) chmod(copy, like->st_mode & 07777);
        } else if (errno != EEXIST) {
            err = mrd_why_set(why, errno == ENOSPC || errno == EDQUOT ? MRD_FULL : MRD_IO, errno,
                              "cannot make the folder %s", copy);
        }
        *p = '/';
    }
    free(copy);
    return err;
}

static mrd_err
write_failed(const char *path, mrd_why *why)
{
    return mrd_why_set(why, errno == ENOSPC || errno == EDQUOT ? MRD_FULL : MRD_IO, errno,
                       "cannot write %s", path);
}

static mrd_err
pump(mrd_exporter *e, int from, int to, const char *path, uint64_t *ret_bytes, mrd_why *why)
{
    char *chunk = malloc(1 << 20);
    struct timespec began, now;
    mrd_err err = chunk == NULL ? MRD_NOMEM : MRD_OK;
    ssize_t n = 0;

    clock_gettime(CLOCK_MONOTONIC, &began);
    while (err == MRD_OK && (n = read(from, chunk, 1 << 20)) > 0) {
        for (ssize_t at = 0, some; at < n && err == MRD_OK; at += some)
            if ((some = write(to, chunk + at, (size_t) (n - at))) <= 0) {
                err = write_failed(path, why);
                break;
            }
        *ret_bytes += (uint64_t) n;
        while (err == MRD_OK && e->o.rate > 0 && going_on(e)) {
            struct timespec t = { .tv_nsec = 10000000 };
            double passed;

            clock_gettime(CLOCK_MONOTONIC, &now);
            passed =
                (double) (now.tv_sec - began.tv_sec) + (double) (now.tv_nsec - began.tv_nsec) / 1e9;
            if ((double) *ret_bytes <= passed * (double) e->o.rate)
                break;
            nanosleep(&t, NULL);
        }
        if (!going_on(e))
            err = mrd_why_set(why, MRD_CANCELLED, 0, "cancelled");
    }
    if (err == MRD_OK && n < 0)
        err = mrd_why_set(why, MRD_IO, errno, "reading for %s", path);
    free(chunk);
    return err;
}

static mrd_err
put_file(mrd_exporter *e, const char *target, const char *from, const char *path,
         uint64_t *ret_bytes, mrd_why *why)
{
    struct stat st, there, like;
    struct timespec times[2];
    char *temporary = NULL;
    int in = open(from, O_RDONLY | O_CLOEXEC), out = -1;
    mrd_err err = MRD_OK;

    if (in < 0 || fstat(in, &st) != 0)
        err = mrd_why_set(why, MRD_IO, errno, "cannot read %s", from);
    else if (stat(target, &like) != 0)
        err = mrd_why_set(why, MRD_IO, errno, "the target %s", target);
    if (err == MRD_OK && stat(path, &there) == 0 && there.st_size == st.st_size &&
        there.st_mtim.tv_sec == st.st_mtim.tv_sec &&
        there.st_mtim.tv_nsec / 1000 == st.st_mtim.tv_nsec / 1000)
        goto out; /* it went before */
    if (err == MRD_OK && asprintf(&temporary, "%s.meridian-part", path) < 0)
        err = mrd_why_set(why, MRD_NOMEM, 0, "export");
    if (err == MRD_OK)
        err = make_way(path, &like, why);
    if (err == MRD_OK &&
        (out = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600)) < 0)
        err = write_failed(temporary, why);
    if (err == MRD_OK)
        err = pump(e, in, out, temporary, ret_bytes, why);
    times[0] = st.st_mtim;
    times[1] = st.st_mtim;
    if (err == MRD_OK && out >= 0) {
        (void) !fchown(out, like.st_uid, like.st_gid);
        if (fchmod(out, like.st_mode & 0666) != 0 || futimens(out, times) != 0 || fsync(out) != 0)
            err = write_failed(temporary, why);
    }
    if (out >= 0 && close(out) != 0 && err == MRD_OK)
        err = write_failed(temporary, why);
    if (err == MRD_OK && rename(temporary, path) != 0)
        err = write_failed(path, why);
    if (err == MRD_OK) {
        *strrchr(temporary, '/') = '\0';
        err = mrd_sync_dir(temporary, why);
    } else if (temporary != NULL) {
        (void) unlink(temporary);
    }
out:
    if (in >= 0)
        close(in);
    free(temporary);
    return err;
}

/* ---- One session ---- */

static mrd_err
put(job *j, const char *file, mrd_why *why)
{
    mrd_exporter *e = j->of;
    mrd_buf from = { 0 }, to = { 0 };
    uint64_t sent = 0;
    mrd_err err;

    mrd_buf_fmt(&from, "%s/%s", j->dir, file);
    if (j->at->prefix != NULL)
        mrd_buf_fmt(&to, "%s%s/%s", j->at->prefix, j->to, file);
    else
        mrd_buf_fmt(&to, "%s/%s/%s", j->at->target, j->to, file);
    if (!going_on(e))
        err = MRD_CANCELLED;
    else if (j->at->prefix != NULL)
        err = mrd_s3_put(j->at->s3, mrd_buf_cstr(&to), mrd_buf_cstr(&from), &sent, why);
    else
        err = put_file(e, j->at->target, mrd_buf_cstr(&from), mrd_buf_cstr(&to), &sent, why);
    j->n += err == MRD_OK;
    j->bytes += sent;
    mrd_buf_fini(&from);
    mrd_buf_fini(&to);
    return err;
}

/* ---- Whose it is ---- */

typedef struct {
    uid_t uid;
    gid_t gid;
    const char *failed;
    int sys;
} owner;

static __thread owner *giving; /* nftw has no argument for it */

static int
give_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    mode_t mode = S_ISDIR(st->st_mode) ? 0700 : 0600;

    (void) type;
    (void) ftw;
    if (S_ISLNK(st->st_mode) ||
        (chmod(path, mode) == 0 && lchown(path, giving->uid, giving->gid) == 0))
        return 0;
    giving->sys = errno;
    return 1;
}

/* The session's own folder: what stands above it belongs to the target. */
static bool
is_given(const char *path, const job *j)
{
    struct stat st;

    return lstat(path, &st) == 0 && st.st_uid == (uid_t) j->uid;
}

/* Gives the copy to the job's user, from the leaves up: while any of it is written, its folder is not theirs. */
static mrd_err
give(job *j, const char *path, mrd_why *why)
{
    char buffer[16384];
    struct passwd pw, *found = NULL;
    struct stat st;
    owner o = { .uid = (uid_t) j->uid };

    if (stat(path, &st) != 0)
        return mrd_why_set(why, MRD_IO, errno, "cannot read %s", path);
    o.gid = getpwuid_r(o.uid, &pw, buffer, sizeof(buffer), &found) == 0 && found != NULL
                ? pw.pw_gid
                : st.st_gid; /* a user that this machine does not know */
    giving = &o;
    if (nftw(path, give_entry, 16, FTW_DEPTH | FTW_PHYS) == 0)
        return MRD_OK;
    return mrd_why_set(
        why, MRD_DENIED, o.sys,
        "cannot give %s to user %lld, whose job it is (--export-owner job needs CAP_CHOWN)", path,
        (long long) j->uid);
}

static void
job_free(job *j)
{
    for (size_t i = 0; i < MRD_COUNT(j->files); i++)
        mrd_strlist_fini(&j->files[i]);
    free(j->dir);
    free(j->to);
    free(j);
}

static void
run(void *self, void *arg)
{
    mrd_exporter *e = self;
    job *j = arg;
    mrd_why why = { 0 };
    mrd_err err = MRD_CANCELLED;

    mrd_buf own = { 0 };
    bool given = false;

    if (j->uid >= 0)
        mrd_buf_fmt(&own, "%s/%s", j->at->target, j->to);
    if (going_on(e)) {
        e->o.began(e->o.self, j->session);
        given = j->uid >= 0 && is_given(mrd_buf_cstr(&own), j);
        err = given ? MRD_OK : list(j, "", 0, &why);
    }
    for (size_t i = 0; i < MRD_COUNT(j->files); i++) {
        for (size_t k = 0; k < j->files[i].n && err == MRD_OK; k++)
            err = put(j, j->files[i].v[k], &why);
    }
    if (err == MRD_OK && j->uid >= 0 && !given)
        err = own.err != MRD_OK ? own.err : give(j, mrd_buf_cstr(&own), &why);
    mrd_buf_fini(&own);
    if (err != MRD_OK && why.err == MRD_OK)
        mrd_why_set(&why, err, 0, "%s", mrd_err_text(err));
    e->o.done(e->o.self, j->session, j->n, j->bytes, err == MRD_OK ? NULL : &why);
    job_free(j);
}

static const place *
place_of(const mrd_exporter *e, const char *name)
{
    for (size_t i = 0; i < e->n; i++) {
        if (strcmp(e->places[i].name, name == NULL ? "" : name) == 0)
            return &e->places[i];
    }
    return NULL;
}

/* The user to whom the copy is given: that of all the session's jobs, when it is known, and never root. */
static int64_t
owner_of(const mrd_exporter *e, const place *at, const mrd_session *s)
{
    uint64_t all = 0;

    for (size_t i = 0; i < s->jobs.n; i++) {
        char text[24];
        uint64_t uid;

        job_value(s->jobs.v[i], "uid", text, sizeof(text));
        if (mrd_num_u64(mrd_str_of(text), &uid) != MRD_OK || uid == 0 || uid >= UINT32_MAX ||
            (i > 0 && uid != all))
            return -1; /* what is of several users is none of one */
        all = uid;
    }
    return e->o.owner && at->prefix == NULL && all > 0 ? (int64_t) all : -1;
}

bool
mrd_exporter_start(mrd_exporter *e, const mrd_session *s, mrd_why *why)
{
    job *j = calloc(1, sizeof(*j));
    mrd_buf to = { 0 };

    mrd_why_set(why, MRD_BUSY, 0, "too many sessions wait for their export");
    if (j == NULL)
        return false;
    j->of = e;
    if ((j->at = place_of(e, s->params.export_to)) == NULL) {
        mrd_why_set(why, MRD_NOTFOUND, 0,
                    "the session is to be exported to '%.63s', which --export-targets does not "
                    "have any more",
                    s->params.export_to == NULL ? "" : s->params.export_to);
        free(j);
        return false;
    }
    j->uid = owner_of(e, j->at, s);
    j->session = s->id;
    j->dir = mrd_session_store_path(e->o.store, s->text, "%s", "");
    if (j->dir != NULL && strlen(j->dir) > 1 && j->dir[strlen(j->dir) - 1] == '/')
        j->dir[strlen(j->dir) - 1] = '\0';
    if (export_path(e->path, e->cluster, s, &to, NULL) == MRD_OK)
        j->to = mrd_str_dup(mrd_str_of(mrd_buf_cstr(&to)));
    mrd_buf_fini(&to);
    if (j->dir != NULL && j->to != NULL && mrd_pool_put(e->worker, run, e, j))
        return true;
    job_free(j);
    return false;
}

/* ---- Lifecycle ---- */

static mrd_err
target_s3(mrd_exporter *e, place *p, mrd_why *why)
{
    const char *bucket = p->target + 5, *slash = strchr(bucket, '/');
    mrd_s3_options o = { .rate = e->o.rate, .going_on = going_on, .self = e };
    char name[256];
    mrd_err err;

    snprintf(name, sizeof(name), "%.*s", (int) strcspn(bucket, "/"), bucket);
    if (name[0] == '\0')
        return mrd_why_set(why, MRD_INVALID, 0, "--export %s names no bucket", p->target);
    o.bucket = name;
    p->prefix = slash == NULL || slash[1] == '\0' ? mrd_str_dup(MRD_STR("")) : NULL;
    if (p->prefix == NULL &&
        asprintf(&p->prefix, "%s%s", slash + 1, slash[strlen(slash) - 1] == '/' ? "" : "/") < 0)
        p->prefix = NULL;
    err = p->prefix == NULL ? mrd_why_set(why, MRD_NOMEM, 0, "export") : MRD_OK;
    return err == MRD_OK ? mrd_s3_open(&o, &p->s3, why) : err;
}

static mrd_err
add_place(mrd_exporter *e, mrd_str name, mrd_str target, mrd_why *why)
{
    place *p;

    if (!MRD_VEC_ROOM(e->places, e->n, e->cap, 1))
        return mrd_why_set(why, MRD_NOMEM, 0, "export");
    p = &e->places[e->n++];
    *p = (place){ .name = mrd_str_dup(name), .target = mrd_str_dup(target) };
    if (p->name == NULL || p->target == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "export");
    return strncmp(p->target, "s3://", 5) == 0 ? target_s3(e, p, why) : MRD_OK;
}

static mrd_err
add_places(mrd_exporter *e, const mrd_exporter_options *o, mrd_why *why)
{
    const char *at = NULL;
    mrd_str name, target;
    mrd_err err = mrd_targets_check(o->targets, why);

    if (err == MRD_OK && o->target != NULL)
        err = add_place(e, MRD_STR(""), mrd_str_of(o->target), why);
    while (err == MRD_OK && mrd_targets_next(o->targets, &at, &name, &target))
        err = add_place(e, name, target, why);
    return err;
}

mrd_err
mrd_exporter_open(const mrd_exporter_options *o, mrd_exporter **ret_exporter, mrd_why *why)
{
    mrd_exporter *e = calloc(1, sizeof(*e));
    mrd_buf tried = { 0 };
    mrd_err err = MRD_OK;

    if (e == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "export");
    e->o = *o;
    e->path = mrd_str_dup(mrd_str_of(o->path == NULL ? "{date}/{session}" : o->path));
    e->cluster = mrd_str_dup(mrd_str_of(o->cluster == NULL ? "" : o->cluster));
    if (e->path == NULL || e->cluster == NULL)
        err = mrd_why_set(why, MRD_NOMEM, 0, "export");
    if (err == MRD_OK)
        err = export_path(e->path, e->cluster, NULL, &tried, why);
    if (err == MRD_OK && (strstr(e->path, "{session}") == NULL || strstr(e->path, "..") != NULL))
        err = mrd_why_set(why, MRD_INVALID, 0, "--export-path %s needs {session}, and no ..",
                          e->path);
    mrd_buf_fini(&tried);
    if (err == MRD_OK)
        err = add_places(e, o, why);
    if (err == MRD_OK)
        err = mrd_pool_open("exports", 1, WAITING_MAX, &e->worker, why);
    if (err == MRD_OK)
        *ret_exporter = e;
    else
        mrd_exporter_close(e);
    return err;
}

void
mrd_exporter_close(mrd_exporter *e)
{
    if (e == NULL)
        return;
    __atomic_store_n(&e->closing, true, __ATOMIC_RELAXED);
    mrd_pool_close(e->worker);
    for (size_t i = 0; i < e->n; i++) {
        mrd_s3_close(e->places[i].s3);
        free(e->places[i].prefix);
        free(e->places[i].target);
        free(e->places[i].name);
    }
    free(e->places);
    free(e->path);
    free(e->cluster);
    free(e);
}
