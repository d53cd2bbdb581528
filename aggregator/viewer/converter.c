#include "aggregator/viewer/converter.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "aggregator/core/common/text.h"
#include "base/obj.h"
#include "base/sys/out.h"
#include "base/sys/pool.h"
#include "base/vec.h"

#define WAITING_MAX 100000

typedef struct job job;

struct mrd_converter {
    mrd_converter_options o;
    mrd_converter_settings limits;
    mrd_converter_commands commands;
    mrd_pool *worker;
    pthread_mutex_t lock; /* guards `jobs`, the list of queued and running jobs */
    job *jobs;
    /* number of viewer runs, used in the names of their directories; accessed atomically */
    uint64_t runs;
    bool closing; /* mrd_converter_close was called; accessed atomically */
    unsigned at_once;
    /* whether a viewer is installed, and whether a search for one is queued or running; accessed
     * atomically */
    bool there, looking;
};

typedef struct {
    char sha256[65], name[MRD_TEXT_MAX];
} input_file;

struct job {
    mrd_converter *of;
    job *next, **at; /* next job of the list; `at` is the address of the pointer to this job */
    bool cancelled;  /* the session was deleted; accessed atomically */
    mrd_conversion_of which;
    char session[MRD_SESSION_TEXT];
    char process[MRD_NODE_ID_MAX + 32]; /* the converted process, as <instance>_pid_<pid> */
    input_file *inputs;
    size_t n_inputs;
    char *dir, *in; /* directory of this run of the viewer, and its subdirectory `in` */
};

mrd_err
mrd_converter_check(const mrd_converter_settings *settings, unsigned *ret_at_once, mrd_why *why)
{
    mrd_converter_commands commands = { 0 };
    mrd_err err = mrd_converter_commands_make(settings, &commands, why);

    *ret_at_once = err != MRD_OK || commands.v[0].len == 0 ? 0
                   : settings->at_once > 0                 ? settings->at_once
                                                           : 1;
    mrd_converter_commands_fini(&commands);
    return err;
}

static bool
going_on(void *self)
{
    const job *j = self;

    return !__atomic_load_n(&j->of->closing, __ATOMIC_RELAXED) &&
           !__atomic_load_n(&j->cancelled, __ATOMIC_RELAXED);
}

static void
enlist(mrd_converter *converter, job *j)
{
    pthread_mutex_lock(&converter->lock);
    j->next = converter->jobs;
    j->at = &converter->jobs;
    if (j->next != NULL)
        j->next->at = &j->next;
    converter->jobs = j;
    pthread_mutex_unlock(&converter->lock);
}

static void
leave(mrd_converter *converter, job *j)
{
    pthread_mutex_lock(&converter->lock);
    *j->at = j->next;
    if (j->next != NULL)
        j->next->at = j->at;
    pthread_mutex_unlock(&converter->lock);
}

/* ---- The directory of a run ---- */

static mrd_err
link_inputs(const job *j, mrd_why *why)
{
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < j->n_inputs && err == MRD_OK; i++) {
        char *from =
            mrd_session_store_path(j->of->o.store, NULL, "artifacts/%s", j->inputs[i].sha256);
        char *to = NULL, *slash;

        if (asprintf(&to, "%s/%s/%s", j->in, j->process, j->inputs[i].name) < 0)
            to = NULL;
        if (from == NULL || to == NULL) {
            err = mrd_why_set(why, MRD_NOMEM, 0, "viewer");
        } else {
            slash = strrchr(to, '/');
            *slash = '\0';
            err = mrd_make_dirs(to, why);
            *slash = '/';
        }
        if (err == MRD_OK && link(from, to) != 0 && errno != EEXIST && symlink(from, to) != 0)
            err = mrd_why_set(why, MRD_IO, errno, "cannot link %s", to);
        free(from);
        free(to);
    }
    return err;
}

static mrd_err
make_folder(job *j, mrd_why *why)
{
    unsigned long long run = __atomic_add_fetch(&j->of->runs, 1, __ATOMIC_RELAXED);

    j->dir = mrd_session_store_path(j->of->o.store, NULL, "converting/%s.%d.%llu", j->session,
                                    (int) getpid(), run);
    if (j->dir == NULL || asprintf(&j->in, "%s/in", j->dir) < 0)
        j->in = NULL;
    if (j->in == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "viewer");
    return link_inputs(j, why);
}

/* ---- Results of the viewer ---- */

/* Moves a result file into the artifact store, where its name is its hash. Then links it into the
 * session's directory. */
static mrd_err
keep(const job *j, const mrd_converter_result *result, mrd_why *why)
{
    const mrd_session_store *st = j->of->o.store;
    char *to = mrd_session_store_path(st, NULL, "artifacts/%s", result->sha256);
    char *at = mrd_session_store_path(st, j->session, "%s/%s", j->process, result->name), *slash;
    int fd = open(result->file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    mrd_err err = MRD_OK;

    if (to == NULL || at == NULL)
        err = mrd_why_set(why, MRD_NOMEM, 0, "viewer");
    else if (fd < 0 || fchmod(fd, 0600) != 0 || (st->sync == MRD_SYNC_GROUP && fsync(fd) != 0) ||
             rename(result->file, to) != 0)
        err = mrd_why_set(why, MRD_IO, errno, "cannot keep the result %s", result->name);
    if (fd >= 0)
        close(fd);
    if (err == MRD_OK) {
        slash = strrchr(at, '/');
        *slash = '\0';
        err = mrd_make_dirs(at, why);
        *slash = '/';
    }
    /* a link of an earlier attempt would make link() fail */
    if (err == MRD_OK && unlink(at) != 0 && errno != ENOENT)
        err = mrd_why_set(why, MRD_IO, errno, "cannot replace the result %s", at);
    if (err == MRD_OK && link(to, at) != 0 && symlink(to, at) != 0)
        err = mrd_why_set(why, MRD_IO, errno, "cannot link the result %s", at);
    free(to);
    free(at);
    return err;
}

/* Removes the results of an earlier attempt from the session's directory. */
static void
remove_results(const job *j)
{
    char *at = mrd_session_store_path(j->of->o.store, j->session, "%s/viewer", j->process);

    if (at != NULL)
        mrd_remove_tree(at);
    free(at);
}

/* Adds the results to the session's list of artifacts, and then moves the files into the artifact
 * store. The store removes files that no session lists, so the list must come first. */
static mrd_err
take_results(const job *j, const mrd_converter_made *made, mrd_why *why)
{
    mrd_conversion_results results = { .of = &j->which, .n = made->n };
    mrd_err err = MRD_OK;

    if ((results.files = calloc(made->n + 1, sizeof(*results.files))) == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "viewer");
    for (size_t i = 0; i < made->n; i++) {
        mrd_listed_artifact *artifact = &results.files[i];

        *artifact = (mrd_listed_artifact){ .size = made->v[i].size,
                                           .process_id = j->which.process_id,
                                           .nc_idx = -1 };
        mrd_text_set(artifact->sha256, sizeof(artifact->sha256), made->v[i].sha256);
        mrd_text_set(artifact->name, sizeof(artifact->name), made->v[i].name);
        mrd_text_set(artifact->kind, sizeof(artifact->kind), made->v[i].kind);
        mrd_text_set(artifact->instance_id, sizeof(artifact->instance_id), j->which.instance_id);
    }
    if (!j->of->o.list(j->of->o.self, &results))
        err = mrd_why_set(why, MRD_LIMIT, 0, "the session cannot list %zu more artifacts", made->n);
    for (size_t i = 0; i < made->n && err == MRD_OK; i++)
        err = keep(j, &made->v[i], why);
    if (err == MRD_OK && j->of->o.store->sync == MRD_SYNC_GROUP) {
        char *dir = mrd_session_store_path(j->of->o.store, NULL, "artifacts");

        err = dir == NULL ? MRD_NOMEM : mrd_sync_dir(dir, why);
        free(dir);
    }
    free(results.files);
    return err;
}

/* ---- Converting the profiles of one process ---- */

static mrd_err
convert(job *j, mrd_converter_made *ret_made, mrd_why *why)
{
    mrd_converter_work work = { .commands = &j->of->commands,
                                .settings = &j->of->limits,
                                .keep_free = (uint64_t) j->of->o.disk_reserve,
                                .going_on = going_on,
                                .self = j };
    mrd_err err = make_folder(j, why);

    work.in = j->in;
    work.work = j->dir;
    if (err == MRD_OK)
        err = mrd_converter_run(&work, ret_made, why);
    return err == MRD_OK ? take_results(j, ret_made, why) : err;
}

static void
job_free(job *j)
{
    free(j->inputs);
    free(j->dir);
    free(j->in);
    free(j);
}

static void
run(void *self, void *arg)
{
    mrd_converter *converter = self;
    job *j = arg;
    mrd_converter_made made = { 0 };
    mrd_conversion_end end = { .state = MRD_CONVERT_FAILED };
    mrd_why why = { 0 };
    mrd_err err = MRD_CANCELLED;

    if (going_on(j)) {
        converter->o.began(converter->o.self, &j->which);
        remove_results(j);
        err = convert(j, &made, &why);
    }
    if (err != MRD_OK)
        remove_results(j);
    end.took = made.took;
    end.memory = made.memory;
    end.message = why.text[0] != '\0' ? why.text : mrd_err_text(err);
    if (err == MRD_OK) {
        end.state = MRD_CONVERT_DONE;
        end.message = made.note;
        end.files = made.n;
        for (size_t i = 0; i < made.n; i++)
            end.bytes += made.v[i].size;
    } else if (!going_on(j)) {
        end.state = MRD_CONVERT_WAITING;
        end.message = "";
    }
    if (j->dir != NULL)
        /* the directory is removed first, because the job counts as ended after the next call */
        mrd_remove_tree(j->dir);
    converter->o.ended(converter->o.self, &j->which, &end);
    mrd_converter_made_fini(&made);
    leave(converter, j);
    job_free(j);
}

/* Collects the complete artifacts of the process, for example its device profiles. If none is a
 * NEFF file (compiled model), adds the NEFF files of other processes on the node. Returns false if
 * out of memory. */
static bool
take_inputs(job *j, const mrd_session *session)
{
    bool has_model = false;

    for (unsigned look = 0; look < 2 && !has_model; look++) {
        for (size_t i = 0; i < session->n_artifacts; i++) {
            const mrd_listed_artifact *artifact = &session->artifacts[i];
            bool model = strcmp(artifact->kind, "NEFF") == 0;
            bool own = artifact->process_id == j->which.process_id;

            if (!artifact->complete || strcmp(artifact->instance_id, j->which.instance_id) != 0 ||
                mrd_kind_is_converted(artifact->kind) || (look == 0 ? !own : own || !model))
                continue;
            if (!MRD_VEC_NEXT(j->inputs, j->n_inputs))
                return false;
            memcpy(j->inputs[j->n_inputs].sha256, artifact->sha256, sizeof(artifact->sha256));
            memcpy(j->inputs[j->n_inputs].name, artifact->name, sizeof(artifact->name));
            j->n_inputs++;
            has_model = has_model || (own && model);
        }
    }
    return true;
}

bool
mrd_converter_start(mrd_converter *converter, const mrd_session *session, size_t conversion)
{
    const mrd_conversion *c = &session->conversions.v[conversion];
    job *j = calloc(1, sizeof(*j));

    if (j == NULL)
        return false;
    j->of = converter;
    j->which = (mrd_conversion_of){ .session = session->id, .process_id = c->process_id };
    mrd_text_set(j->which.instance_id, sizeof(j->which.instance_id), c->instance_id);
    mrd_text_set(j->session, sizeof(j->session), session->text);
    snprintf(j->process, sizeof(j->process), "%s_pid_%lld", c->instance_id,
             (long long) c->process_id);
    if (take_inputs(j, session)) {
        enlist(converter, j);
        if (mrd_pool_put(converter->worker, run, converter, j))
            return true;
        leave(converter, j);
    }
    job_free(j);
    return false;
}

void
mrd_converter_cancel(mrd_converter *converter, uint64_t session)
{
    if (converter == NULL)
        return;
    pthread_mutex_lock(&converter->lock);
    for (job *j = converter->jobs; j != NULL; j = j->next) {
        if (j->which.session == session)
            __atomic_store_n(&j->cancelled, true, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&converter->lock);
}

/* ---- Viewers that are installed after the start ---- */

static void
look(void *self, void *arg)
{
    mrd_converter *converter = self;
    mrd_converter_commands commands = { 0 };
    mrd_why why;

    (void) arg;
    if (mrd_converter_commands_make(&converter->limits, &commands, &why) == MRD_OK &&
        commands.v[0].len > 0) {
        /* The assignment needs no lock, because only jobs read the commands, and no job starts
         * before `found` was called. */
        converter->commands = commands;
        __atomic_store_n(&converter->there, true, __ATOMIC_RELEASE);
        converter->o.found(converter->o.self, converter->at_once);
    } else {
        mrd_converter_commands_fini(&commands);
    }
    __atomic_store_n(&converter->looking, false, __ATOMIC_RELEASE);
}

void
mrd_converter_look(mrd_converter *converter)
{
    if (converter == NULL || __atomic_load_n(&converter->there, __ATOMIC_ACQUIRE) ||
        __atomic_exchange_n(&converter->looking, true, __ATOMIC_ACQ_REL))
        return;
    if (!mrd_pool_put(converter->worker, look, converter, NULL))
        __atomic_store_n(&converter->looking, false, __ATOMIC_RELEASE);
}

/* ---- Opening and closing ---- */

static bool
is_wanted(const mrd_converter_settings *settings)
{
    return settings->command != NULL && *settings->command != '\0' &&
           strcmp(settings->command, "none") != 0;
}

mrd_err
mrd_converter_open(const mrd_converter_options *options, mrd_converter **ret_viewer, mrd_why *why)
{
    char *left = mrd_session_store_path(options->store, NULL, "converting");
    mrd_converter *converter = calloc(1, sizeof(*converter));
    mrd_err err = MRD_OK;

    if (left == NULL || converter == NULL)
        err = mrd_why_set(why, MRD_NOMEM, 0, "viewer");
    else
        mrd_remove_tree(left);
    if (converter != NULL)
        pthread_mutex_init(&converter->lock, NULL);
    free(left);
    if (err == MRD_OK && is_wanted(options->settings)) {
        converter->o = *options;
        converter->limits = *options->settings;
        converter->o.settings = NULL;
        converter->there = options->there;
        converter->at_once = options->settings->at_once > 0 ? options->settings->at_once : 1;
        if (options->there)
            err = mrd_converter_commands_make(options->settings, &converter->commands, why);
        if (err == MRD_OK)
            err =
                mrd_pool_open("viewers", converter->at_once, WAITING_MAX, &converter->worker, why);
        if (err == MRD_OK) {
            *ret_viewer = converter;
            return MRD_OK;
        }
    }
    mrd_converter_close(converter);
    return err;
}

void
mrd_converter_close(mrd_converter *converter)
{
    if (converter == NULL)
        return;
    __atomic_store_n(&converter->closing, true, __ATOMIC_RELAXED);
    mrd_pool_close(converter->worker);
    mrd_converter_commands_fini(&converter->commands);
    pthread_mutex_destroy(&converter->lock);
    free(converter);
}
