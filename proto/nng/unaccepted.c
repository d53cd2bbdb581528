#include "proto/nng/unaccepted.h"

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/map.h"
#include "base/obj.h"
#include "base/sys/threads.h"
#include "base/vec.h"

/* bytes of a request in addition to its body: a length field of eight bytes and a request id of
 * four bytes */
#define FRAMED       12
#define AGE_MS       100
#define SHAKING_MS   1000
#define GIVE_BACK_MS 500

/* A counted connection. It is identified by its TCP stream during a TLS handshake, and by its pipe
 * afterwards. With TLS, each connection has two NNG streams, for the encrypted and the plain data,
 * and the received bytes of both are counted. The stream of encrypted data receives a few bytes
 * more. */
typedef struct {
    mrd_unaccepted *of;
    /* TCP stream if the TLS handshake has not ended, or NULL if there is a pipe */
    nng_stream *shaking;
    nng_aio *waits; /* aio of the receive that waits for bytes of the handshake's peer */
    nng_pipe pipe;
    mrd_map_key ends;
    size_t each; /* the fixed part of the connection's cost */
    nng_stream *streams[2];
    int64_t received[2]; /* bytes that each of the connection's two streams has received */
    int64_t complete;    /* bytes of whole messages that were received */
    int64_t answered;    /* bytes of messages that were answered or dropped */
    size_t cost;         /* cost of this connection that is included in the server's `held` */
    /* time at which the connection was made, or later began to hold bytes or to wait for its
     * peer */
    mrd_local_ns since;
    mrd_local_ns began;
    bool holds, closing;
} entry;

struct mrd_unaccepted {
    size_t budget;
    mrd_dur_ns handshake;
    size_t held;    /* cost of all entries, in bytes */
    size_t closing; /* part of `held` that belongs to connections that are being closed */
    size_t shaking; /* number of entries that are in their TLS handshake */
    uint64_t closed;
    bool ending;
    pthread_t thread;
    pthread_cond_t over;
};

/* Tables that all servers of the process share. A stream knows its two addresses but not its
 * server. */
/* Guards the tables below and every mrd_unaccepted. No other lock is taken while it is held. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static entry *entries;
static size_t n_entries, cap_entries;
/* by_ends maps the two addresses of a connection, and by_key its pipe or stream, to indexes of
 * `entries` */
static mrd_map by_ends, by_key;
static uint64_t seed;
static atomic_size_t counted; /* copy of n_entries, to read without the lock */

/* ---- Peers by address ---- */

static mrd_map_key
pipe_key(nng_pipe pipe)
{
    return (mrd_map_key){ .a = (uint64_t) nng_pipe_id(pipe) };
}

/* Returns a 64-bit key of an address and port, or 0 if the address does not belong to TCP. */
static uint64_t
addr_word(const nng_sockaddr *sockaddr)
{
    uint8_t v6[18];

    if (sockaddr->s_family == NNG_AF_INET)
        return 1ull << 63 | (uint64_t) sockaddr->s_in.sa_addr << 16 | sockaddr->s_in.sa_port;
    if (sockaddr->s_family != NNG_AF_INET6)
        return 0;
    memcpy(v6, sockaddr->s_in6.sa_addr, 16);
    memcpy(v6 + 16, &sockaddr->s_in6.sa_port, 2);
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

/* ---- Counting the bytes of connections (callers hold the lock) ---- */

static int64_t
received(const entry *item)
{
    return item->received[0] > item->received[1] ? item->received[0] : item->received[1];
}

static size_t
cost_of(const entry *item)
{
    int64_t got = received(item), kept = got > item->answered ? got - item->answered : 0,
            begun = got > item->complete ? got - item->complete : 0,
            body = (int64_t) MRD_UNACCEPTED_BODY;

    return item->each +
           (size_t) (kept +
                     (item->shaking == NULL && begun > 0 && begun < body ? body - begun : 0));
}

static bool
is_over(const mrd_unaccepted *unaccepted)
{
    return unaccepted->held > unaccepted->budget + unaccepted->budget / 2;
}

/* Updates the cost of a connection, and the server's total, after the numbers of bytes changed. */
static void
count(entry *item)
{
    mrd_unaccepted *unaccepted = item->of;
    size_t cost = cost_of(item);
    bool holds = cost > item->each + MRD_UNACCEPTED_EACH;

    unaccepted->held += cost - item->cost;
    unaccepted->closing += item->closing ? cost - item->cost : 0;
    item->cost = cost;
    if (holds && !item->holds)
        item->since = mrd_local_now();
    item->holds = holds;
    if (unaccepted->held > unaccepted->budget)
        pthread_cond_signal(&unaccepted->over);
}

static void
mark_closing(entry *item)
{
    item->closing = true;
    item->of->closing += item->cost;
    item->of->closed++;
}

/* Returns the key of an entry in by_key: its pipe, or the stream while it has no pipe. */
static mrd_map_key
key_of(const entry *item)
{
    return item->shaking == NULL
               ? pipe_key(item->pipe)
               : (mrd_map_key){ .a = (uint64_t) (uintptr_t) item->shaking, .c = 2 };
}

static void
forget(entry *item)
{
    entry *last = &entries[--n_entries];

    item->of->held -= item->cost;
    item->of->closing -= item->closing ? item->cost : 0;
    item->of->shaking -= item->shaking != NULL;
    mrd_map_remove(&by_key, key_of(item));
    if (mrd_map_get(&by_ends, item->ends) == (uint32_t) (item - entries))
        mrd_map_remove(&by_ends, item->ends);
    /* move the last entry into the free slot; only existing keys of the maps change, so no map
     * grows */
    if (last != item) {
        if (mrd_map_get(&by_ends, last->ends) == (uint32_t) (last - entries))
            (void) mrd_map_put(&by_ends, last->ends, (uint32_t) (item - entries));
        (void) mrd_map_put(&by_key, key_of(last), (uint32_t) (item - entries));
        *item = *last;
    }
    atomic_store_explicit(&counted, n_entries, memory_order_relaxed);
}

static bool
insert(const entry *item)
{
    uint32_t at = (uint32_t) n_entries;

    if (!MRD_VEC_ROOM(entries, n_entries, cap_entries, 1) ||
        mrd_map_put(&by_key, key_of(item), at) != MRD_OK)
        return false;
    if (mrd_map_put(&by_ends, item->ends, at) != MRD_OK) {
        mrd_map_remove(&by_key, key_of(item));
        return false;
    }
    entries[n_entries++] = *item;
    atomic_store_explicit(&counted, n_entries, memory_order_relaxed);
    count(&entries[at]);
    if (item->shaking != NULL && item->of->shaking++ == 0)
        pthread_cond_signal(&item->of->over);
    return true;
}

/* Stores a key of the connection's two addresses. Returns false if it is not a TCP connection. */
static bool
pipe_ends(nng_pipe pipe, mrd_map_key *ret)
{
    nng_sockaddr remote, local;

    return nng_pipe_get_addr(pipe, NNG_OPT_REMADDR, &remote) == 0 &&
           nng_pipe_get_addr(pipe, NNG_OPT_LOCADDR, &local) == 0 && ends_of(&remote, &local, ret);
}

/* Removes the entry of the connection with these addresses if it is a handshake. Returns true if
 * so. */
static bool
end_handshake(mrd_map_key ends)
{
    entry *item = entry_at(mrd_map_get(&by_ends, ends));

    if (item == NULL || item->shaking == NULL)
        return false;
    forget(item);
    return true;
}

bool
mrd_unaccepted_add(mrd_unaccepted *unaccepted, nng_pipe pipe)
{
    entry item = {
        .of = unaccepted, .pipe = pipe, .each = MRD_UNACCEPTED_EACH, .since = mrd_local_now()
    };
    bool ok;

    if (!pipe_ends(pipe, &item.ends))
        return true;
    pthread_mutex_lock(&lock);
    if (end_handshake(item.ends))
        item.each = MRD_UNACCEPTED_TLS;
    ok = insert(&item);
    pthread_mutex_unlock(&lock);
    return ok;
}

void
mrd_unaccepted_end_handshake(mrd_unaccepted *unaccepted, nng_pipe pipe)
{
    mrd_map_key ends;

    (void) unaccepted;
    if (!pipe_ends(pipe, &ends))
        return;
    pthread_mutex_lock(&lock);
    (void) end_handshake(ends);
    pthread_mutex_unlock(&lock);
}

void
mrd_unaccepted_remove(mrd_unaccepted *unaccepted, nng_pipe pipe)
{
    entry *item;

    (void) unaccepted;
    pthread_mutex_lock(&lock);
    if ((item = entry_at(mrd_map_get(&by_key, pipe_key(pipe)))) != NULL)
        forget(item);
    pthread_mutex_unlock(&lock);
}

/* Adds the message's bytes to the `answered` or the `complete` bytes of its connection, if the
 * connection is counted. */
static void
count_message(const nng_msg *msg, bool is_answered)
{
    entry *item;

    if (atomic_load_explicit(&counted, memory_order_relaxed) == 0)
        return;
    pthread_mutex_lock(&lock);
    if ((item = entry_at(mrd_map_get(&by_key, pipe_key(nng_msg_get_pipe(msg))))) != NULL) {
        *(is_answered ? &item->answered : &item->complete) += (int64_t) nng_msg_len(msg) + FRAMED;
        count(item);
    }
    pthread_mutex_unlock(&lock);
}

void
mrd_unaccepted_complete(mrd_unaccepted *unaccepted, const nng_msg *msg)
{
    (void) unaccepted;
    count_message(msg, false);
}

void
mrd_unaccepted_answered(mrd_unaccepted *unaccepted, const nng_msg *msg)
{
    (void) unaccepted;
    count_message(msg, true);
}

/* ---- Streams in their handshake ---- */

static int64_t *
counter_of(entry *item, nng_stream *stream)
{
    for (unsigned i = 0; i < MRD_COUNT(item->streams); i++) {
        if (item->streams[i] == NULL)
            item->streams[i] = stream;
        if (item->streams[i] == stream)
            return &item->received[i];
    }
    return NULL;
}

static bool
stream_ends(nng_stream *stream, mrd_map_key *ret)
{
    nng_sockaddr remote, local;

    return nng_stream_get_addr(stream, NNG_OPT_REMADDR, &remote) == 0 &&
           nng_stream_get_addr(stream, NNG_OPT_LOCADDR, &local) == 0 &&
           ends_of(&remote, &local, ret);
}

bool
mrd_unaccepted_received(nng_stream *stream, nng_aio *aio)
{
    size_t bytes;
    mrd_map_key ends;
    int64_t *counter;
    bool may = true;
    entry *item;

    if (atomic_load_explicit(&counted, memory_order_relaxed) == 0 ||
        (bytes = nng_aio_count(aio)) == 0 || !stream_ends(stream, &ends))
        return true;
    pthread_mutex_lock(&lock);
    if ((item = entry_at(mrd_map_get(&by_ends, ends))) != NULL &&
        (counter = counter_of(item, stream)) != NULL) {
        *counter += (int64_t) bytes;
        count(item);
        may = !item->holds || !is_over(item->of);
        if (!may && !item->closing)
            mark_closing(item);
    }
    pthread_mutex_unlock(&lock);
    return may;
}

bool
mrd_unaccepted_has_room(mrd_unaccepted *unaccepted)
{
    bool has_room;

    pthread_mutex_lock(&lock);
    has_room = !is_over(unaccepted);
    pthread_mutex_unlock(&lock);
    return has_room;
}

/* Ends a connection in its handshake by aborting the aio with which it waits. The caller holds the
 * lock, so that the aio cannot be freed. The error must not be NNG_ECLOSED, because NNG's listener
 * would then stop accepting connections. */
static void
end_wait(entry *item)
{
    nng_aio_abort(item->waits, NNG_ETIMEDOUT);
}

void
mrd_unaccepted_waits(mrd_unaccepted *unaccepted, nng_stream *stream, nng_aio *aio)
{
    mrd_local_ns now = mrd_local_now();
    entry item = { .of = unaccepted,
                   .shaking = stream,
                   .waits = aio,
                   .each = MRD_UNACCEPTED_HANDS,
                   .since = now,
                   .began = now };
    entry *known;

    if (!stream_ends(stream, &item.ends))
        return;
    pthread_mutex_lock(&lock);
    if ((known = entry_at(mrd_map_get(&by_key, key_of(&item)))) == NULL)
        (void) insert(&item);
    else if (known->closing)
        /* the connection was chosen for closing earlier, when there was no receive to abort */
        end_wait(known);
    else
        known->since = now;
    pthread_mutex_unlock(&lock);
}

void
mrd_unaccepted_stream_gone(nng_stream *stream)
{
    const entry key = { .shaking = stream };
    entry *item;

    pthread_mutex_lock(&lock);
    if ((item = entry_at(mrd_map_get(&by_key, key_of(&key)))) != NULL)
        forget(item);
    pthread_mutex_unlock(&lock);
}

size_t
mrd_unaccepted_bytes(mrd_unaccepted *unaccepted)
{
    size_t held;

    pthread_mutex_lock(&lock);
    held = unaccepted->held;
    pthread_mutex_unlock(&lock);
    return held;
}

uint64_t
mrd_unaccepted_closed(mrd_unaccepted *unaccepted)
{
    uint64_t closed;

    pthread_mutex_lock(&lock);
    closed = unaccepted->closed;
    pthread_mutex_unlock(&lock);
    return closed;
}

/* ---- Closing connections when the budget is exceeded ---- */

/* Returns the priority for closing. Entries with a higher rank are closed first. */
static unsigned
rank_of(const entry *item)
{
    return item->holds ? 2 : item->shaking != NULL ? 1 : 0;
}

/* Returns true if `a` must be closed before `b`, or if `b` is NULL. The connection with the higher
 * rank is closed first. If the ranks are equal, the older connection is closed first. */
static bool
sooner(const entry *a, const entry *b)
{
    if (b == NULL || rank_of(a) != rank_of(b))
        return b == NULL || rank_of(a) > rank_of(b);
    return mrd_local_before(a->since, b->since);
}

static bool
is_old(const entry *item, mrd_local_ns now)
{
    return mrd_local_diff(now, item->since) >=
           (item->shaking != NULL ? MRD_UNACCEPTED_SHAKE : MRD_UNACCEPTED_OLD);
}

static bool
is_overdue(const entry *item, mrd_local_ns now)
{
    return item->shaking != NULL && mrd_local_diff(now, item->began) >= item->of->handshake;
}

/* Returns the connection to close next, and marks it as closing. Returns NULL if none has to be
 * closed now. */
static entry *
take_victim(mrd_unaccepted *unaccepted)
{
    mrd_local_ns now = mrd_local_now();
    size_t stays = unaccepted->held - unaccepted->closing;
    bool hard = stays > unaccepted->budget + unaccepted->budget / 2;
    entry *victim = NULL;

    if (stays <= unaccepted->budget && unaccepted->shaking == 0)
        return NULL;
    for (size_t i = 0; i < n_entries; i++) {
        entry *item = &entries[i];

        if (item->of == unaccepted && !item->closing &&
            (hard || (stays > unaccepted->budget && is_old(item, now)) || is_overdue(item, now)) &&
            sooner(item, victim))
            victim = item;
    }
    if (victim == NULL)
        return NULL;
    mark_closing(victim);
    return victim;
}

/* Waits up to timeout_ms for a signal that there is more to close. Releases the lock meanwhile. */
static void
wait_ms(mrd_unaccepted *unaccepted, int timeout_ms)
{
    struct timespec end = mrd_cond_deadline(timeout_ms * MRD_MS);

    pthread_cond_timedwait(&unaccepted->over, &lock, &end);
}

/* Waits for a short time, because NNG frees the messages of closed connections with a delay. Then
 * returns free memory to the kernel. */
static void
give_back(mrd_unaccepted *unaccepted)
{
    wait_ms(unaccepted, GIVE_BACK_MS);
    pthread_mutex_unlock(&lock);
    malloc_trim(0);
    pthread_mutex_lock(&lock);
}

static void *
close_over_budget(void *arg)
{
    mrd_unaccepted *unaccepted = arg;
    bool closed = false;
    entry *victim;
    nng_pipe pipe;

    pthread_mutex_lock(&lock);
    while (!unaccepted->ending) {
        if ((victim = take_victim(unaccepted)) != NULL) {
            closed = true;
            if (victim->shaking != NULL) {
                end_wait(victim);
                continue;
            }
            pipe = victim->pipe;
            pthread_mutex_unlock(&lock);
            nng_pipe_close(pipe);
            pthread_mutex_lock(&lock);
            /* no connection is old enough to be closed; try again soon */
        } else if (unaccepted->held > unaccepted->budget) {
            wait_ms(unaccepted, AGE_MS);
        } else if (closed) {
            closed = false;
            give_back(unaccepted);
        } else if (unaccepted->shaking > 0) {
            wait_ms(unaccepted, SHAKING_MS);
        } else {
            pthread_cond_wait(&unaccepted->over, &lock);
        }
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

mrd_err
mrd_unaccepted_new(size_t budget, mrd_dur_ns handshake, mrd_unaccepted **ret_u, mrd_why *why)
{
    mrd_unaccepted *unaccepted = calloc(1, sizeof(*unaccepted));
    int no;

    if (unaccepted == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "connections that are not accepted");
    unaccepted->budget = budget == 0 ? MRD_UNACCEPTED_BUDGET : budget;
    unaccepted->handshake = handshake == 0 ? MRD_UNACCEPTED_SHAKEN : handshake;
    pthread_mutex_lock(&lock);
    if (seed == 0)
        mrd_random(&seed, sizeof(seed));
    pthread_mutex_unlock(&lock);
    /* malloc maps large blocks from now on; proto/nng/unaccepted.h gives the reason */
    (void) mallopt(M_MMAP_THRESHOLD, (int) MRD_UNACCEPTED_BODY);
    mrd_cond_init(&unaccepted->over);
    if ((no = pthread_create(&unaccepted->thread, NULL, close_over_budget, unaccepted)) != 0) {
        pthread_cond_destroy(&unaccepted->over);
        free(unaccepted);
        return mrd_why_set(why, MRD_IO, no,
                           "cannot start the thread that watches connections not accepted");
    }
    *ret_u = unaccepted;
    return MRD_OK;
}

void
mrd_unaccepted_free(mrd_unaccepted *unaccepted)
{
    if (unaccepted == NULL)
        return;
    pthread_mutex_lock(&lock);
    unaccepted->ending = true;
    pthread_cond_signal(&unaccepted->over);
    pthread_mutex_unlock(&lock);
    pthread_join(unaccepted->thread, NULL);
    pthread_mutex_lock(&lock);
    for (size_t i = n_entries; i-- > 0;) {
        if (entries[i].of == unaccepted)
            forget(&entries[i]);
    }
    if (n_entries == 0) {
        mrd_map_fini(&by_ends);
        mrd_map_fini(&by_key);
        free(entries);
        entries = NULL;
        cap_entries = 0;
    }
    pthread_mutex_unlock(&lock);
    pthread_cond_destroy(&unaccepted->over);
    free(unaccepted);
}
