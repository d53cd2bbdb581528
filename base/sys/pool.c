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
    pthread_mutex_t lock;     /* guards all members below; a leaf lock */
    pthread_cond_t news, end; /* a new job or the end; a thread has ended */
    pthread_t *threads;
    unsigned n_threads, max_threads, idle, ended;
    entry *queue;
    size_t first, n, capacity;
    bool closing;
};

static void *
run(void *arg)
{
    mrd_pool *w = arg;

    pthread_mutex_lock(&w->lock);
    for (;;) {
        entry e;

        w->idle++;
        while (w->n == 0 && !w->closing)
            pthread_cond_wait(&w->news, &w->lock);
        w->idle--;
        if (w->n == 0)
            break;
        e = w->queue[w->first];
        w->first = (w->first + 1) % w->capacity;
        w->n--;
        pthread_mutex_unlock(&w->lock);
        e.work(e.self, e.job);
        pthread_mutex_lock(&w->lock);
    }
    w->ended++;
    pthread_cond_signal(&w->end);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static int
start_thread(mrd_pool *w)
{
    int err = pthread_create(&w->threads[w->n_threads], NULL, run, w);

    w->n_threads += err == 0;
    return err;
}

mrd_err
mrd_pool_open(const char *what, unsigned threads, size_t capacity, mrd_pool **ret_worker,
              mrd_why *why)
{
    mrd_pool *w = calloc(1, sizeof(*w));
    int err;

    if (w == NULL || (w->threads = calloc(threads, sizeof(*w->threads))) == NULL ||
        (w->queue = calloc(capacity, sizeof(*w->queue))) == NULL) {
        if (w != NULL)
            free(w->threads);
        free(w);
        return mrd_why_set(why, MRD_NOMEM, 0, "%s", what);
    }
    w->max_threads = threads;
    w->capacity = capacity;
    pthread_mutex_init(&w->lock, NULL);
    mrd_cond_init(&w->news);
    mrd_cond_init(&w->end);
    pthread_mutex_lock(&w->lock);
    err = start_thread(w);
    pthread_mutex_unlock(&w->lock);
    if (err != 0) {
        mrd_pool_close(w);
        return mrd_why_set(why, MRD_IO, err, "cannot start the thread of %s", what);
    }
    *ret_worker = w;
    return MRD_OK;
}

bool
mrd_pool_put(mrd_pool *w, mrd_pool_work *work, void *self, void *job)
{
    bool fits;

    pthread_mutex_lock(&w->lock);
    fits = w->n < w->capacity;
    if (fits) {
        w->queue[(w->first + w->n++) % w->capacity] = (entry){ work, self, job };
        if (w->n > w->idle && w->n_threads < w->max_threads)
            (void) start_thread(w); /* without a new thread the job waits for one of the others */
        pthread_cond_signal(&w->news);
    }
    pthread_mutex_unlock(&w->lock);
    return fits;
}

/* Returns true if all threads have ended. False: they will end on their own. */
static bool
wait_for_end(mrd_pool *w, mrd_dur_ns within)
{
    struct timespec end = mrd_cond_deadline(within);
    bool over;

    pthread_mutex_lock(&w->lock);
    while (w->ended < w->n_threads && pthread_cond_timedwait(&w->end, &w->lock, &end) != ETIMEDOUT)
        ;
    over = w->ended == w->n_threads;
    for (unsigned i = 0; i < w->n_threads && !over; i++)
        pthread_detach(w->threads[i]);
    pthread_mutex_unlock(&w->lock);
    return over;
}

static void
tell_end(mrd_pool *w)
{
    pthread_mutex_lock(&w->lock);
    w->closing = true;
    pthread_cond_broadcast(&w->news);
    pthread_mutex_unlock(&w->lock);
}

bool
mrd_pool_close_within(mrd_pool *w, mrd_dur_ns within)
{
    if (w == NULL)
        return true;
    tell_end(w);
    if (!wait_for_end(w, within))
        return false;
    mrd_pool_close(w);
    return true;
}

void
mrd_pool_close(mrd_pool *w)
{
    if (w == NULL)
        return;
    tell_end(w);
    for (unsigned i = 0; i < w->n_threads; i++)
        pthread_join(w->threads[i], NULL);
    pthread_cond_destroy(&w->news);
    pthread_cond_destroy(&w->end);
    pthread_mutex_destroy(&w->lock);
    free(w->threads);
    free(w->queue);
    free(w);
}
