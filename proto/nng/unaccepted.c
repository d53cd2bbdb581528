#include "proto/nng/unaccepted.h"

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/map.h"
#include "base/obj.h"
#include "base/threads.h"
#include "base/vec.h"
#include "proto/nng/nng_common.h"

#define HARD         4  /* times the budget */
#define FRAMED       12 /* bytes around a request's body: its length and one request id */
#define AGE_MS       100
#define GIVE_BACK_MS 500

/* A connection. Over TLS two streams of it receive: the one inside sees a little more. */
typedef struct {
    mrd_unaccepted *of;
    nng_pipe pipe;
    mrd_map_key ends;
    nng_stream *streams[2];
    int64_t received[2]; /* bytes, by stream */
    int64_t answered;    /* bytes of messages that are done with */
    mrd_local_ns since;  /* it holds something, or exists */
    bool holds, closing;
} entry;

struct mrd_unaccepted {
    size_t budget, held;
    uint64_t closed;
    bool ending;
    pthread_t thread;
    pthread_cond_t over;
};

/* Of all servers of the process: a stream does not know whose it is, only its two addresses. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all of it; innermost */
static entry *entries;
static size_t n_entries, cap_entries;
static mrd_map by_ends, by_pipe; /* -> entries */
static uint64_t seed;
static atomic_size_t counted; /* n_entries, to look at without the lock */

/* ---- Who is who ---- */

static mrd_map_key
pipe_key(nng_pipe p)
{
    return (mrd_map_key){ .a = (uint64_t) nng_pipe_id(p) };
}

/* 0 when it is not of TCP. */
static uint64_t
addr_word(const nng_sockaddr *a)
{
    uint8_t v6[18];

    if (a->s_family == NNG_AF_INET)
        return 1ull << 63 | (uint64_t) a->s_in.sa_addr << 16 | a->s_in.sa_port;
    if (a->s_family != NNG_AF_INET6)
        return 0;
    memcpy(v6, a->s_in6.sa_addr, 16);
    memcpy(v6 + 16, &a->s_in6.sa_port, 2);
    return mrd_hash64(v6, sizeof(v6), seed) | 1;
}

static bool
ends_of(const nng_sockaddr *remote, const nng_sockaddr *local, mrd_map_key *ret)
{
    *ret = (mrd_map_key){ .a = addr_word(remote), .b = addr_word(local), .c = 1 };
    return ret->a != 0 && ret->b != 0;
}

static entry *
entry_at(uint32_t i)
{
    return i == MRD_MAP_NONE ? NULL : &entries[i];
}

/* ---- Counting; all under the lock ---- */

static int64_t
outstanding(const entry *e)
{
    int64_t most = e->received[0] > e->received[1] ? e->received[0] : e->received[1];

    return most > e->answered ? most - e->answered : 0;
}

/* What it holds changes by what `received` or `answered` changes. */
static void
add_bytes(entry *e, int64_t *counter, int64_t bytes)
{
    int64_t before = outstanding(e), after;
    bool holds;

    *counter += bytes;
    after = outstanding(e);
    if (e->closing)
        return;
    e->of->held += (size_t) after - (size_t) before;
    holds = after > (int64_t) MRD_UNACCEPTED_EACH;
    if (holds && !e->holds)
        e->since = mrd_local_now();
    e->holds = holds;
    if (e->of->held > e->of->budget)
        pthread_cond_signal(&e->of->over);
}

static void
forget(entry *e)
{
    entry *last = &entries[--n_entries];

    if (!e->closing)
        e->of->held -= (size_t) outstanding(e) + MRD_UNACCEPTED_EACH;
    mrd_map_remove(&by_pipe, pipe_key(e->pipe));
    if (mrd_map_get(&by_ends, e->ends) == (uint32_t) (e - entries))
        mrd_map_remove(&by_ends, e->ends);
    if (last != e) { /* takes its place; neither map grows by that */
        if (mrd_map_get(&by_ends, last->ends) == (uint32_t) (last - entries))
            (void) mrd_map_put(&by_ends, last->ends, (uint32_t) (e - entries));
        (void) mrd_map_put(&by_pipe, pipe_key(last->pipe), (uint32_t) (e - entries));
        *e = *last;
    }
    atomic_store_explicit(&counted, n_entries, memory_order_relaxed);
}

static bool
insert(const entry *e)
{
    uint32_t at = (uint32_t) n_entries;

    if (seed == 0)
        mrd_random(&seed, sizeof(seed));
    if (!MRD_VEC_ROOM(entries, n_entries, cap_entries, 1) ||
        mrd_map_put(&by_pipe, pipe_key(e->pipe), at) != MRD_OK)
        return false;
    if (mrd_map_put(&by_ends, e->ends, at) != MRD_OK) {
        mrd_map_remove(&by_pipe, pipe_key(e->pipe));
        return false;
    }
    entries[n_entries++] = *e;
    atomic_store_explicit(&counted, n_entries, memory_order_relaxed);
    e->of->held += MRD_UNACCEPTED_EACH;
    if (e->of->held > e->of->budget)
        pthread_cond_signal(&e->of->over);
    return true;
}

bool
mrd_unaccepted_add(mrd_unaccepted *u, nng_pipe p)
{
    entry e = { .of = u, .pipe = p, .since = mrd_local_now() };
    nng_sockaddr remote, local;
    bool ok;

    if (nng_pipe_get_addr(p, NNG_OPT_REMADDR, &remote) != 0 ||
        nng_pipe_get_addr(p, NNG_OPT_LOCADDR, &local) != 0 ||
        (remote.s_family != NNG_AF_INET && remote.s_family != NNG_AF_INET6))
        return true;
    pthread_mutex_lock(&lock);
    ok = !ends_of(&remote, &local, &e.ends) || insert(&e);
    pthread_mutex_unlock(&lock);
    return ok;
}

void
mrd_unaccepted_remove(mrd_unaccepted *u, nng_pipe p)
{
    entry *e;

    (void) u;
    pthread_mutex_lock(&lock);
    if ((e = entry_at(mrd_map_get(&by_pipe, pipe_key(p)))) != NULL)
        forget(e);
    pthread_mutex_unlock(&lock);
}

void
mrd_unaccepted_answered(mrd_unaccepted *u, const nng_msg *msg)
{
    entry *e;

    (void) u;
    if (atomic_load_explicit(&counted, memory_order_relaxed) == 0)
        return;
    pthread_mutex_lock(&lock);
    if ((e = entry_at(mrd_map_get(&by_pipe, pipe_key(nng_msg_get_pipe(msg))))) != NULL)
        add_bytes(e, &e->answered, (int64_t) nng_msg_len(msg) + FRAMED);
    pthread_mutex_unlock(&lock);
}

static int64_t *
counter_of(entry *e, nng_stream *s)
{
    for (unsigned i = 0; i < MRD_COUNT(e->streams); i++) {
        if (e->streams[i] == NULL)
            e->streams[i] = s;
        if (e->streams[i] == s)
            return &e->received[i];
    }
    return NULL;
}

void
mrd_unaccepted_received(nng_stream *s, nng_aio *aio)
{
    size_t bytes;
    nng_sockaddr remote, local;
    mrd_map_key ends;
    int64_t *counter;
    entry *e;

    if (atomic_load_explicit(&counted, memory_order_relaxed) == 0 ||
        (bytes = nng_aio_count(aio)) == 0 ||
        nng_stream_get_addr(s, NNG_OPT_REMADDR, &remote) != 0 ||
        nng_stream_get_addr(s, NNG_OPT_LOCADDR, &local) != 0)
        return;
    pthread_mutex_lock(&lock);
    if (ends_of(&remote, &local, &ends) && (e = entry_at(mrd_map_get(&by_ends, ends))) != NULL &&
        (counter = counter_of(e, s)) != NULL)
        add_bytes(e, counter, (int64_t) bytes);
    pthread_mutex_unlock(&lock);
}

size_t
mrd_unaccepted_bytes(mrd_unaccepted *u)
{
    size_t held;

    pthread_mutex_lock(&lock);
    held = u->held;
    pthread_mutex_unlock(&lock);
    return held;
}

uint64_t
mrd_unaccepted_closed(mrd_unaccepted *u)
{
    uint64_t closed;

    pthread_mutex_lock(&lock);
    closed = u->closed;
    pthread_mutex_unlock(&lock);
    return closed;
}

/* ---- Closing ---- */

/* Whether a is to be closed rather than b: who holds bytes before who does not, then the older. */
static bool
sooner(const entry *a, const entry *b)
{
    if (b == NULL || a->holds != b->holds)
        return b == NULL || a->holds;
    return mrd_local_before(a->since, b->since);
}

/* The next to close, already counted as gone; NULL: none now. */
static entry *
take_victim(mrd_unaccepted *u)
{
    mrd_local_ns old = mrd_local_sub(mrd_local_now(), MRD_UNACCEPTED_OLD);
    bool hard = u->held > HARD * u->budget;
    entry *victim = NULL;

    if (u->held <= u->budget)
        return NULL;
    for (size_t i = 0; i < n_entries; i++) {
        entry *e = &entries[i];

        if (e->of == u && !e->closing && (hard || !mrd_local_after(e->since, old)) &&
            sooner(e, victim))
            victim = e;
    }
    if (victim == NULL)
        return NULL;
    u->held -= (size_t) outstanding(victim) + MRD_UNACCEPTED_EACH;
    u->closed++;
    victim->closing = true;
    return victim;
}

/* Under the lock, which is given up meanwhile. */
static void
wait_ms(mrd_unaccepted *u, int timeout_ms)
{
    struct timespec end = mrd_cond_deadline(timeout_ms * MRD_MS);

    pthread_cond_timedwait(&u->over, &lock, &end);
}

/* NNG frees what closed connections held a little later, and malloc keeps it for itself. */
static void
give_back(mrd_unaccepted *u)
{
    wait_ms(u, GIVE_BACK_MS);
    pthread_mutex_unlock(&lock);
    malloc_trim(0);
    pthread_mutex_lock(&lock);
}

static void *
close_over_budget(void *arg)
{
    mrd_unaccepted *u = arg;
    bool closed = false;
    entry *victim;
    nng_pipe p;

    pthread_mutex_lock(&lock);
    while (!u->ending) {
        if ((victim = take_victim(u)) != NULL) {
            p = victim->pipe;
            closed = true;
            pthread_mutex_unlock(&lock);
            nng_pipe_close(p);
            pthread_mutex_lock(&lock);
        } else if (u->held > u->budget) { /* until one is old enough */
            wait_ms(u, AGE_MS);
        } else if (closed) {
            closed = false;
            give_back(u);
        } else {
            pthread_cond_wait(&u->over, &lock);
        }
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

mrd_err
mrd_unaccepted_new(size_t budget, mrd_unaccepted **ret_u, mrd_why *why)
{
    mrd_unaccepted *u = calloc(1, sizeof(*u));
    int no;

    if (u == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "connections that are not accepted");
    u->budget = budget == 0 ? MRD_UNACCEPTED_BUDGET : budget;
    mrd_cond_init(&u->over);
    if ((no = pthread_create(&u->thread, NULL, close_over_budget, u)) != 0) {
        pthread_cond_destroy(&u->over);
        free(u);
        return mrd_why_set(why, MRD_IO, no,
                           "cannot start the thread that watches connections not accepted");
    }
    *ret_u = u;
    return MRD_OK;
}

void
mrd_unaccepted_free(mrd_unaccepted *u)
{
    if (u == NULL)
        return;
    pthread_mutex_lock(&lock);
    u->ending = true;
    pthread_cond_signal(&u->over);
    pthread_mutex_unlock(&lock);
    pthread_join(u->thread, NULL);
    pthread_mutex_lock(&lock);
    for (size_t i = n_entries; i-- > 0;) {
        if (entries[i].of == u)
            forget(&entries[i]);
    }
    if (n_entries == 0) {
        mrd_map_fini(&by_ends);
        mrd_map_fini(&by_pipe);
        free(entries);
        entries = NULL;
        cap_entries = 0;
    }
    pthread_mutex_unlock(&lock);
    pthread_cond_destroy(&u->over);
    free(u);
}
