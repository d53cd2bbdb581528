#include "agent/guard/job_thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/conf/agent_waits.h"
#include "base/sys/threads.h"

struct mrd_job_thread {
    pthread_mutex_t lock; /* guards run, arg, done, end; a leaf lock */
    pthread_cond_t cond;
    pthread_t thread;
    bool started, end, done;
    bool posted; /* the poster's */
    void (*run)(void *arg);
    void *arg;
    int fd;
};

static void *
work(void *self)
{
    mrd_job_thread *w = self;
    const uint64_t one = 1;

    pthread_mutex_lock(&w->lock);
    for (;;) {
        void (*run)(void *arg) = w->run;
        void *arg = w->arg;

        if (run == NULL && w->end)
            break;
        if (run == NULL) {
            pthread_cond_wait(&w->cond, &w->lock);
            continue;
        }
        pthread_mutex_unlock(&w->lock);
        run(arg);
        pthread_mutex_lock(&w->lock);
        w->run = NULL;
        w->done = true;
        (void) !write(w->fd, &one, sizeof(one));
        pthread_cond_broadcast(&w->cond);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

mrd_job_thread *
mrd_job_thread_new(void)
{
    mrd_job_thread *w = calloc(1, sizeof(*w));

    if (w == NULL)
        return NULL;
    w->fd = -1;
    pthread_mutex_init(&w->lock, NULL);
    mrd_cond_init(&w->cond);
    return w;
}

static bool
start(mrd_job_thread *w)
{
    if (w->started)
        return true;
    if (w->fd < 0)
        w->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    w->started = w->fd >= 0 && pthread_create(&w->thread, NULL, work, w) == 0;
    return w->started;
}

bool
mrd_job_thread_post(mrd_job_thread *w, void (*run)(void *arg), void *arg)
{
    if (!start(w))
        return false;
    pthread_mutex_lock(&w->lock);
    w->run = run;
    w->arg = arg;
    w->done = false;
    w->posted = true;
    pthread_cond_broadcast(&w->cond);
    pthread_mutex_unlock(&w->lock);
    return true;
}

bool
mrd_job_thread_take(mrd_job_thread *w)
{
    uint64_t n;
    bool done;

    if (!w->posted)
        return false;
    pthread_mutex_lock(&w->lock);
    done = w->done;
    pthread_mutex_unlock(&w->lock);
    if (!done)
        return false;
    (void) !read(w->fd, &n, sizeof(n));
    w->posted = false;
    return true;
}

int
mrd_job_thread_fd(const mrd_job_thread *w)
{
    return w->fd;
}

/* Waits briefly for the running task. */
static bool
ends(mrd_job_thread *w)
{
    struct timespec until = mrd_cond_deadline(MRD_WAIT_END_TASK);
    int rv = 0;

    pthread_mutex_lock(&w->lock);
    w->end = true;
    pthread_cond_broadcast(&w->cond);
    while (w->run != NULL && rv == 0)
        rv = pthread_cond_timedwait(&w->cond, &w->lock, &until);
    pthread_mutex_unlock(&w->lock);
    return rv == 0;
}

bool
mrd_job_thread_free(mrd_job_thread *w)
{
    if (w == NULL)
        return true;
    if (w->started && !ends(w)) {
        pthread_detach(w->thread);
        return false;
    }
    if (w->started)
        pthread_join(w->thread, NULL);
    if (w->fd >= 0)
        close(w->fd);
    pthread_cond_destroy(&w->cond);
    pthread_mutex_destroy(&w->lock);
    free(w);
    return true;
}
