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

/* maximum number of files that are made at the same time. It is small, because a whole session is
 * read for each file */
#define AT_ONCE     2u
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
    /* true after the cache was stopped; written with the lock held, and read atomically without
     * it */
    bool stopping;
    pthread_mutex_t lock; /* guards `files` and `orders`; no other lock is taken while it is held */
    pthread_cond_t idle;  /* signalled when `orders` becomes 0, which mrd_made_stop waits for */
    made_file *files;     /* files that are queued or being made */
    size_t orders;        /* number of orders that were not reported as ended yet */
};

/* Decrements the number of orders, because an order's end was reported or because an order could
 * not be queued. */
static void
drop_order(mrd_made *made)
{
    pthread_mutex_lock(&made->lock);
    if (--made->orders == 0)
        pthread_cond_broadcast(&made->idle);
    pthread_mutex_unlock(&made->lock);
}

static void
unlist(mrd_made *made, made_file *file)
{
    pthread_mutex_lock(&made->lock);
    *file->link = file->next;
    if (file->next != NULL)
        file->next->link = file->link;
    pthread_mutex_unlock(&made->lock);
}

static void
file_free(made_file *file)
{
    if (file->order.done != NULL)
        file->order.done(file->order.self);
    free(file->path);
    free(file);
}

bool
mrd_made_wanted(const mrd_made *made, const char *dir)
{
    struct statvfs fs;

    return !__atomic_load_n(&made->stopping, __ATOMIC_RELAXED) &&
           (statvfs(dir, &fs) != 0 ||
            (int64_t) fs.f_bavail * (int64_t) fs.f_frsize > made->disk_reserve);
}

static mrd_err
write_file(const made_file *file, mrd_why *why)
{
    mrd_out *out = NULL;
    mrd_err err;

    mrd_remove_parts_of(file->path); /* removes incomplete files that a killed aggregator left */
    /* The file must be durable before it gets its final name. Otherwise a failed write could leave
     * an incomplete file under this name. */
    if ((err = mrd_out_file_durable(file->path, &out, why)) != MRD_OK)
        return err;
    if ((err = file->order.produce(file->order.self, out, why)) == MRD_OK)
        return mrd_out_commit(out, why);
    mrd_out_abort(out);
    return err;
}

static void
make(void *self, void *job)
{
    mrd_made *made = self;
    made_file *file = job;
    mrd_why why = { 0 };
    mrd_err err =
        __atomic_load_n(&made->stopping, __ATOMIC_RELAXED) ? MRD_CANCELLED : write_file(file, &why);

    if (err != MRD_OK && !__atomic_load_n(&made->stopping, __ATOMIC_RELAXED))
        mrd_log(
            MRD_LOG_WARN, "AGG-HTTP-FILE",
            "A profile is not kept as a file, it is made anew for each request: file=%s reason=%s",
            file->path, why.text[0] != '\0' ? why.text : mrd_err_text(err));
    unlist(made, file);
    file_free(file);
    made->ended(made->self);
    drop_order(made);
}

bool
mrd_made_is_coming(mrd_made *made, const char *path)
{
    const made_file *file;

    pthread_mutex_lock(&made->lock);
    for (file = made->files; file != NULL && strcmp(file->path, path) != 0; file = file->next)
        ;
    pthread_mutex_unlock(&made->lock);
    return file != NULL;
}

/* If the file's directory does not exist yet, removes the parent directory with all files in it.
 * The directory of a file is named after the state of the session, so all these files are
 * outdated. */
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

/* Adds the file to `files`. Returns false if the cache was stopped. */
static bool
list(mrd_made *made, made_file *file)
{
    bool ok;

    pthread_mutex_lock(&made->lock);
    ok = !made->stopping;
    if (ok) {
        file->next = made->files;
        file->link = &made->files;
        if (file->next != NULL)
            file->next->link = &file->next;
        made->files = file;
        made->orders++;
    }
    pthread_mutex_unlock(&made->lock);
    return ok;
}

bool
mrd_made_start(mrd_made *made, const char *path, const mrd_made_order *order)
{
    made_file *file = calloc(1, sizeof(*file));
    bool listed;

    if (file == NULL || (file->path = mrd_str_dup(mrd_str_of(path))) == NULL) {
        free(file);
        if (order->done != NULL)
            order->done(order->self);
        return false;
    }
    file->order = *order;
    if ((listed = list(made, file))) {
        drop_others(path);
        if (mrd_pool_put(made->workers, make, made, file))
            return true;
        unlist(made, file);
    }
    file_free(file);
    if (listed)
        drop_order(made);
    return false;
}

mrd_err
mrd_made_open(void (*ended)(void *self), void *self, int64_t disk_reserve, mrd_made **ret_made,
              mrd_why *why)
{
    mrd_made *made = calloc(1, sizeof(*made));
    mrd_err err;

    if (made == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "http");
    *made = (mrd_made){ .ended = ended, .self = self, .disk_reserve = disk_reserve };
    pthread_mutex_init(&made->lock, NULL);
    mrd_cond_init(&made->idle);
    if ((err = mrd_pool_open("profiles", AT_ONCE, WAITING_MAX, &made->workers, why)) != MRD_OK) {
        pthread_cond_destroy(&made->idle);
        pthread_mutex_destroy(&made->lock);
        free(made);
        return err;
    }
    *ret_made = made;
    return MRD_OK;
}

void
mrd_made_stop(mrd_made *made)
{
    if (made == NULL)
        return;
    pthread_mutex_lock(&made->lock);
    __atomic_store_n(&made->stopping, true, __ATOMIC_RELAXED);
    while (made->orders > 0)
        pthread_cond_wait(&made->idle, &made->lock);
    pthread_mutex_unlock(&made->lock);
}

void
mrd_made_free(mrd_made *made)
{
    if (made == NULL)
        return;
    mrd_pool_close(made->workers);
    pthread_cond_destroy(&made->idle);
    pthread_mutex_destroy(&made->lock);
    free(made);
}
