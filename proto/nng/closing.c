#include "proto/nng/closing.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/sys/threads.h"
#include "proto/link.h"
#include "proto/nng/nng_common.h"

#define CLOSE_MS 10000
#define AGAIN_MS 1000

/* guards everything in this file; no other lock is taken while it is held */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned abandoned;

typedef struct kept {
    struct kept *next;
    void *p;
} kept;

static kept *kept_first;

/* Data of the thread that calls nng_close and of the thread that waits for it. The thread that ends
 * last frees the struct. */
typedef struct {
    pthread_t thread;
    pthread_cond_t ended;
    nng_socket socket;
    bool done, alone;
} closing;

static void *
close_main(void *arg)
{
    closing *c = arg;
    bool alone;

    nng_close(c->socket);
    pthread_mutex_lock(&lock);
    c->done = true;
    alone = c->alone;
    pthread_cond_signal(&c->ended);
    pthread_mutex_unlock(&lock);
    if (alone) {
        pthread_cond_destroy(&c->ended);
        free(c);
    }
    return NULL;
}

static closing *
closing_new(nng_socket socket)
{
    closing *c = calloc(1, sizeof(*c));

    if (c == NULL)
        return NULL;
    c->socket = socket;
    mrd_cond_init(&c->ended);
    return c;
}

bool
mrd_nng_close(nng_socket socket)
{
    closing *c = closing_new(socket);
    struct timespec end;
    bool done;

    if (c == NULL ||
        /* no thread can be started, so nng_close runs here without a time limit */
        pthread_create(&c->thread, NULL, close_main, c) != 0) {
        if (c != NULL)
            pthread_cond_destroy(&c->ended);
        free(c);
        nng_close(socket);
        return true;
    }
    pthread_mutex_lock(&lock);
    end = mrd_cond_deadline((abandoned > 0 ? AGAIN_MS : CLOSE_MS) * MRD_MS);
    while (!c->done && pthread_cond_timedwait(&c->ended, &lock, &end) != ETIMEDOUT)
        ;
    done = c->done;
    c->alone = !done;
    abandoned += !done;
    /* `alone` was set under the lock, so that from now on the closing thread owns c */
    if (!done)
        pthread_detach(c->thread);
    pthread_mutex_unlock(&lock);
    if (!done)
        return false;
    pthread_join(c->thread, NULL);
    pthread_cond_destroy(&c->ended);
    free(c);
    return true;
}

void
mrd_nng_keep(void *p)
{
    kept *k = malloc(sizeof(*k));

    if (k == NULL) /* out of memory; the only effect is that a leak checker reports the pointer */
        return;
    k->p = p;
    pthread_mutex_lock(&lock);
    k->next = kept_first;
    kept_first = k;
    pthread_mutex_unlock(&lock);
}

unsigned
mrd_link_abandoned(void)
{
    unsigned n;

    pthread_mutex_lock(&lock);
    n = abandoned;
    pthread_mutex_unlock(&lock);
    return n;
}
