#include "base/sys/pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/sys/threads.h"

typedef struct {
    mrd_pool_work *work;
    void *self, *job;
} entry;

struct mrd_pool {
    pthread_mutex_t lock; /* guards all members below; no other lock is taken while it is held */
    /* `news` is signalled when a job was queued or the pool must end. `end` is signalled when a
     * thread has ended. */
    pthread_cond_t news, end;
    pthread_t *threads;
    unsigned n_threads, max_threads, idle, ended;
    entry *queue;
    size_t first, n, capacity;
    bool closing;
};

static void *
run(void *arg)
{
    mrd_pool *pool = arg;

    pthread_mutex_lock(&pool->lock);
    for (;;) {
        entry item;

        pool->idle++;
        while (pool->n == 0 && !pool->closing)
            pthread_cond_wait(&pool->news, &pool->lock);
        pool->idle--;
        if (pool->n == 0)
            break;
        item = pool->queue[pool->first];
        pool->first = (pool->first + 1) % pool->capacity;
        pool->n--;
        pthread_mutex_unlock(&pool->lock);
        item.work(item.self, item.job);
        pthread_mutex_lock(&pool->lock);
    }
    pool->ended++;
    pthread_cond_signal(&pool->end);
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static int
start_thread(mrd_pool *pool)
{
    int err = pthread_create(&pool->threads[pool->n_threads], NULL, run, pool);

    pool->n_threads += err == 0;
    return err;
}

mrd_err
mrd_pool_open(const char *what, unsigned threads, size_t capacity, mrd_pool **ret_worker,
              mrd_why *why)
{
    mrd_pool *pool = calloc(1, sizeof(*pool));
    int err;

    if (pool == NULL || (pool->threads = calloc(threads, sizeof(*pool->threads))) == NULL ||
        (pool->queue = calloc(capacity, sizeof(*pool->queue))) == NULL) {
        if (pool != NULL)
            free(pool->threads);
        free(pool);
        return mrd_why_set(why, MRD_NOMEM, 0, "%s", what);
    }
    pool->max_threads = threads;
    pool->capacity = capacity;
    pthread_mutex_init(&pool->lock, NULL);
    mrd_cond_init(&pool->news);
    mrd_cond_init(&pool->end);
    pthread_mutex_lock(&pool->lock);
    err = start_thread(pool);
    pthread_mutex_unlock(&pool->lock);
    if (err != 0) {
        mrd_pool_close(pool);
        return mrd_why_set(why, MRD_IO, err, "cannot start the thread of %s", what);
    }
    *ret_worker = pool;
    return MRD_OK;
}

bool
mrd_pool_put(mrd_pool *pool, mrd_pool_work *work, void *self, void *job)
{
    bool fits;

    pthread_mutex_lock(&pool->lock);
    fits = pool->n < pool->capacity;
    if (fits) {
        pool->queue[(pool->first + pool->n++) % pool->capacity] = (entry){ work, self, job };
        if (pool->n > pool->idle && pool->n_threads < pool->max_threads)
            /* if no thread can be started, an existing thread runs the job later */
            (void) start_thread(pool);
        pthread_cond_signal(&pool->news);
    }
    pthread_mutex_unlock(&pool->lock);
    return fits;
}

/* Waits at most `within` ns for the end of all threads. Returns false if some threads still run.
 * Each of them ends by itself after its job. */
static bool
wait_for_end(mrd_pool *pool, mrd_dur_ns within)
{
    struct timespec end = mrd_cond_deadline(within);
    bool over;

    pthread_mutex_lock(&pool->lock);
    while (pool->ended < pool->n_threads &&
           pthread_cond_timedwait(&pool->end, &pool->lock, &end) != ETIMEDOUT)
        ;
    over = pool->ended == pool->n_threads;
    for (unsigned i = 0; i < pool->n_threads && !over; i++)
        pthread_detach(pool->threads[i]);
    pthread_mutex_unlock(&pool->lock);
    return over;
}

static void
tell_end(mrd_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->closing = true;
    pthread_cond_broadcast(&pool->news);
    pthread_mutex_unlock(&pool->lock);
}

bool
mrd_pool_close_within(mrd_pool *pool, mrd_dur_ns within)
{
    if (pool == NULL)
        return true;
    tell_end(pool);
    if (!wait_for_end(pool, within))
        return false;
    mrd_pool_close(pool);
    return true;
}

void
mrd_pool_close(mrd_pool *pool)
{
    if (pool == NULL)
        return;
    tell_end(pool);
    for (unsigned i = 0; i < pool->n_threads; i++)
        pthread_join(pool->threads[i], NULL);
    pthread_cond_destroy(&pool->news);
    pthread_cond_destroy(&pool->end);
    pthread_mutex_destroy(&pool->lock);
    free(pool->threads);
    free(pool->queue);
    free(pool);
}
