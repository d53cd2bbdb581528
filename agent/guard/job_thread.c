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
    /* guards run, arg, done and end; no other lock is taken while this one is held */
    pthread_mutex_t lock;
    pthread_cond_t cond;
    pthread_t thread;
    bool started, end, done;
    bool posted; /* used only by the caller's thread, without the lock */
    void (*run)(void *arg);
    void *arg;
    int fd;
};

static void *
work(void *self)
{
    mrd_job_thread *thread = self;
    const uint64_t one = 1;

    pthread_mutex_lock(&thread->lock);
    for (;;) {
        void (*run)(void *arg) = thread->run;
        void *arg = thread->arg;

        if (run == NULL && thread->end)
            break;
        if (run == NULL) {
            pthread_cond_wait(&thread->cond, &thread->lock);
            continue;
        }
        pthread_mutex_unlock(&thread->lock);
        run(arg);
        pthread_mutex_lock(&thread->lock);
        thread->run = NULL;
        thread->done = true;
        (void) !write(thread->fd, &one, sizeof(one));
        pthread_cond_broadcast(&thread->cond);
    }
    pthread_mutex_unlock(&thread->lock);
    return NULL;
}

mrd_job_thread *
mrd_job_thread_new(void)
{
    mrd_job_thread *thread = calloc(1, sizeof(*thread));

    if (thread == NULL)
        return NULL;
    thread->fd = -1;
    pthread_mutex_init(&thread->lock, NULL);
    mrd_cond_init(&thread->cond);
    return thread;
}

static bool
start(mrd_job_thread *thread)
{
    if (thread->started)
        return true;
    if (thread->fd < 0)
        thread->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    thread->started = thread->fd >= 0 && pthread_create(&thread->thread, NULL, work, thread) == 0;
    return thread->started;
}

bool
mrd_job_thread_post(mrd_job_thread *thread, void (*run)(void *arg), void *arg)
{
    if (!start(thread))
        return false;
    pthread_mutex_lock(&thread->lock);
    thread->run = run;
    thread->arg = arg;
    thread->done = false;
    thread->posted = true;
    pthread_cond_broadcast(&thread->cond);
    pthread_mutex_unlock(&thread->lock);
    return true;
}

bool
mrd_job_thread_take(mrd_job_thread *thread)
{
    uint64_t n;
    bool done;

    if (!thread->posted)
        return false;
    pthread_mutex_lock(&thread->lock);
    done = thread->done;
    pthread_mutex_unlock(&thread->lock);
    if (!done)
        return false;
    (void) !read(thread->fd, &n, sizeof(n));
    thread->posted = false;
    return true;
}

int
mrd_job_thread_fd(const mrd_job_thread *thread)
{
    return thread->fd;
}

/* Waits up to MRD_WAIT_END_TASK for the running task. Returns true if the task ends in this
 * time. */
static bool
ends(mrd_job_thread *thread)
{
    struct timespec until = mrd_cond_deadline(MRD_WAIT_END_TASK);
    int rv = 0;

    pthread_mutex_lock(&thread->lock);
    thread->end = true;
    pthread_cond_broadcast(&thread->cond);
    while (thread->run != NULL && rv == 0)
        rv = pthread_cond_timedwait(&thread->cond, &thread->lock, &until);
    pthread_mutex_unlock(&thread->lock);
    return rv == 0;
}

bool
mrd_job_thread_free(mrd_job_thread *thread)
{
    if (thread == NULL)
        return true;
    if (thread->started && !ends(thread)) {
        pthread_detach(thread->thread);
        return false;
    }
    if (thread->started)
        pthread_join(thread->thread, NULL);
    if (thread->fd >= 0)
        close(thread->fd);
    pthread_cond_destroy(&thread->cond);
    pthread_mutex_destroy(&thread->lock);
    free(thread);
    return true;
}
