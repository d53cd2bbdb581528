#include "capture/nrt/nrt_wait.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys/threads.h"
#include "capture/api/record.h"
#include "capture/nrt/models.h"
#include "capture/nrt/nrt_settings.h"
#include "capture/process.h"

#define LOOK_PERIOD (100 * MRD_MS)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake; /* initialized with the thread */
static pthread_t thread;
static bool runs, stopping, fork_ready;

/* Reads and applies the settings. The caller holds the lock, and this function releases it
 * meanwhile. If the settings start recording, this thread may be ended by a thread that needs the
 * lock. */
static void
look(mrd_nrt_settings_seen *seen, mrd_nrt_settings *settings)
{
    bool on;

    pthread_mutex_unlock(&lock);
    if (mrd_nrt_settings_poll(seen, settings)) {
        on = mrd_proc_set_asked(settings->recording) && mrd_rec_sources() != 0;
        mrd_models_tell();
        if (on && mrd_proc_late.turned_on != NULL)
            mrd_proc_late.turned_on();
    }
    pthread_mutex_lock(&lock);
}

static void *
work(void *arg)
{
    mrd_nrt_settings settings = { .any_core = true, .recording = -1 };
    mrd_nrt_settings_seen seen = { 0 };

    (void) arg;
    mrd_rec_thread_ring_size(MRD_RING_DATA_MIN);
    (void) mrd_proc_attach();
    pthread_mutex_lock(&lock);
    while (!stopping) {
        struct timespec until;

        look(&seen, &settings);
        until = mrd_cond_deadline(LOOK_PERIOD);
        if (!stopping)
            pthread_cond_timedwait(&wake, &lock, &until);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void
fork_prepare(void)
{
    pthread_mutex_lock(&lock);
}

static void
fork_parent(void)
{
    pthread_mutex_unlock(&lock);
}

static void
fork_child(void)
{
    pthread_mutex_init(&lock, NULL);
    runs = stopping = false;
    /* The agent requested events of the parent process, not of this child. */
    (void) mrd_proc_set_asked(-1);
}

/* Starts the thread. The caller holds the lock. */
static void
start_thread(void)
{
    mrd_cond_init(&wake);
    stopping = false;
    runs = mrd_masked_thread(&thread, NULL, work, NULL) == 0;
}

static bool
is_preloaded(void)
{
    const char *list = getenv("LD_PRELOAD");

    return list != NULL && strstr(list, "libmeridian") != NULL;
}

void
mrd_nrt_wait_begin(void)
{
    if (!mrd_rec_possible() || !is_preloaded() || mrd_rec_on(MRD_CAP_SYS))
        return;
    pthread_mutex_lock(&lock);
    if (!fork_ready) {
        fork_ready = true;
        pthread_atfork(fork_prepare, fork_parent, fork_child);
        atexit(mrd_nrt_wait_end);
    }
    if (!runs)
        start_thread();
    pthread_mutex_unlock(&lock);
}

void
mrd_nrt_wait_end(void)
{
    bool join;

    pthread_mutex_lock(&lock);
    join = runs && !pthread_equal(thread, pthread_self());
    stopping = true;
    if (join)
        pthread_cond_signal(&wake);
    pthread_mutex_unlock(&lock);
    if (!join)
        return;
    pthread_join(thread, NULL);
    pthread_mutex_lock(&lock);
    runs = false;
    pthread_mutex_unlock(&lock);
}
