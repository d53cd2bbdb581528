#include "aggregator/api/made.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/conf/log.h"
#include "base/obj.h"
#include "base/sys/pool.h"
#include "base/sys/threads.h"

#define AT_ONCE     2u /* each of them reads a whole session */
#define WAITING_MAX 8u

typedef struct made_file made_file;
struct made_file {
    mrd_made_order order;
    char *path;
    made_file *next, **link;
};

struct mrd_made {
    void (*ended)(void *self);
    void *self;
    int64_t disk_reserve;
    mrd_pool *workers;
    bool stopping;        /* atomic; written with the lock held */
    pthread_mutex_t lock; /* guards the list and the count; a leaf lock */
    pthread_cond_t idle;  /* the count is 0 */
    made_file *files;     /* queued files and files that are being made */
    size_t orders;        /* orders without a reported end */
};

/* Drops an order that was reported or never started. */
static void
drop_order(mrd_made *m)
{
    pthread_mutex_lock(&m->lock);
    if (--m->orders == 0)
        pthread_cond_broadcast(&m->idle);
    pthread_mutex_unlock(&m->lock);
}

static void
unlist(mrd_made *m, made_file *f)
{
    pthread_mutex_lock(&m->lock);
    *f->link = f->next;
    if (f->next != NULL)
        f->next->link = f->link;
    pthread_mutex_unlock(&m->lock);
}

static void
file_free(made_file *f)
{
    if (f->order.done != NULL)
        f->order.done(f->order.self);
    free(f->path);
    free(f);
}

bool
mrd_made_wanted(const mrd_made *m, const char *dir)
{
    struct statvfs fs;

    return !__atomic_load_n(&m->stopping, __ATOMIC_RELAXED) &&
           (statvfs(dir, &fs) != 0 ||
            (int64_t) fs.f_bavail * (int64_t) fs.f_frsize > m->disk_reserve);
}

static mrd_err
write_file(const made_file *f, mrd_why *why)
{
    mrd_out *out = NULL;
    mrd_err err;

    mrd_remove_parts_of(f->path); /* left by an aggregator that was killed */
    if ((err = mrd_out_file(f->path, &out, why)) != MRD_OK)
        return err;
    if ((err = f->order.produce(f->order.self, out, why)) == MRD_OK)
        return mrd_out_commit(out, why);
    mrd_out_abort(out);
    return err;
}

static void
make(void *self, void *job)
{
    mrd_made *m = self;
    made_file *f = job;
    mrd_why why = { 0 };
    mrd_err err =
        __atomic_load_n(&m->stopping, __ATOMIC_RELAXED) ? MRD_CANCELLED : write_file(f, &why);

    if (err != MRD_OK && !__atomic_load_n(&m->stopping, __ATOMIC_RELAXED))
        mrd_log(
            MRD_LOG_WARN, "AGG-HTTP-FILE",
            "A profile is not kept as a file, it is made anew for each request: file=%s reason=%s",
            f->path, why.text[0] != '\0' ? why.text : mrd_err_text(err));
    unlist(m, f);
    file_free(f);
    m->ended(m->self);
    drop_order(m);
}

bool
mrd_made_is_coming(mrd_made *m, const char *path)
{
    const made_file *f;

    pthread_mutex_lock(&m->lock);
    for (f = m->files; f != NULL && strcmp(f->path, path) != 0; f = f->next)
        ;
    pthread_mutex_unlock(&m->lock);
    return f != NULL;
}

/* Removes files of an earlier state, which are next to the directory of this file. */
static void
drop_others(const char *path)
{
    char *dir = mrd_str_dup((mrd_str){ path, (size_t) (strrchr(path, '/') - path) });

    if (dir != NULL && access(dir, F_OK) != 0) {
        *strrchr(dir, '/') = '\0';
        mrd_remove_tree(dir);
    }
    free(dir);
}

/* False after the stop. */
static bool
list(mrd_made *m, made_file *f)
{
    bool ok;

    pthread_mutex_lock(&m->lock);
    ok = !m->stopping;
    if (ok) {
        f->next = m->files;
        f->link = &m->files;
        if (f->next != NULL)
            f->next->link = &f->next;
        m->files = f;
        m->orders++;
    }
    pthread_mutex_unlock(&m->lock);
    return ok;
}

bool
mrd_made_start(mrd_made *m, const char *path, const mrd_made_order *order)
{
    made_file *f = calloc(1, sizeof(*f));
    bool listed;

    if (f == NULL || (f->path = mrd_str_dup(mrd_str_of(path))) == NULL) {
        free(f);
        if (order->done != NULL)
            order->done(order->self);
        return false;
    }
    f->order = *order;
    if ((listed = list(m, f))) {
        drop_others(path);
        if (mrd_pool_put(m->workers, make, m, f))
            return true;
        unlist(m, f);
    }
    file_free(f);
    if (listed)
        drop_order(m);
    return false;
}

mrd_err
mrd_made_open(void (*ended)(void *self), void *self, int64_t disk_reserve, mrd_made **ret_made,
              mrd_why *why)
{
    mrd_made *m = calloc(1, sizeof(*m));
    mrd_err err;

    if (m == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "http");
    *m = (mrd_made){ .ended = ended, .self = self, .disk_reserve = disk_reserve };
    pthread_mutex_init(&m->lock, NULL);
    mrd_cond_init(&m->idle);
    if ((err = mrd_pool_open("profiles", AT_ONCE, WAITING_MAX, &m->workers, why)) != MRD_OK) {
        pthread_cond_destroy(&m->idle);
        pthread_mutex_destroy(&m->lock);
        free(m);
        return err;
    }
    *ret_made = m;
    return MRD_OK;
}

void
mrd_made_stop(mrd_made *m)
{
    if (m == NULL)
        return;
    pthread_mutex_lock(&m->lock);
    __atomic_store_n(&m->stopping, true, __ATOMIC_RELAXED);
    while (m->orders > 0)
        pthread_cond_wait(&m->idle, &m->lock);
    pthread_mutex_unlock(&m->lock);
}

void
mrd_made_free(mrd_made *m)
{
    if (m == NULL)
        return;
    mrd_pool_close(m->workers);
    pthread_cond_destroy(&m->idle);
    pthread_mutex_destroy(&m->lock);
    free(m);
}
