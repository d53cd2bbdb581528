#include "aggregator/clock/timeserve.h"

#include "base/map.h"
#include "base/obj.h"
#include "base/sys/udpstamp.h"
#include "base/sys/udpwait.h"
#include "base/vec.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* maximum number of answers that wait for the kernel's transmit stamp; must be a power of two */
#define PENDING 1024
/* A kernel stamp (wall clock) is not used if it says that the packet waited longer than this in the
 * socket buffer. No packet really waits for a second, so the wall clock was set after the stamp. */
#define QUEUED_MAX MRD_SEC

typedef struct {
    uint64_t id;
    mrd_joiner *joiner;
    uint8_t key[MRD_PROBE_KEY_LEN];
} agent_entry;

/* An answer that was sent and waits for the kernel's transmit stamp. The members are needed when
 * the stamp arrives. */
typedef struct {
    bool used;
    uint32_t number;
    /* kernel's wall-clock stamp of the request's arrival; 0 if there was none */
    mrd_wall_ns r2_wall;
    mrd_local_ns sent_raw; /* CLOCK_MONOTONIC_RAW immediately before sending */
    mrd_xread before;
    mrd_probe_served served;
    uint8_t key[MRD_PROBE_KEY_LEN]; /* the agent's key when the request arrived */
} pending;

struct mrd_timeserve {
    int fd;
    mrd_udp_wait *waiting;
    uint64_t session;
    mrd_dur_ns session_minus_raw;
    pthread_t thread;
    bool started;

    /* guards the members below up to `counts`; no other lock is taken while it is held */
    pthread_mutex_t lock;
    agent_entry *agents;
    size_t n_agents, cap_agents;
    mrd_map by_id; /* maps an agent's id to its index in `agents` */
    mrd_timeserve_counts counts;

    /* number of the next packet to send; this member and those below are used only by the server's
     * thread */
    uint32_t number;
    /* true if the socket may still contain packets that arrived before the wall clock was last
     * set */
    bool doubted;
    pending wait[PENDING];
};

/* ---- Agents; the caller holds the lock ---- */

static agent_entry *
known_agent(mrd_timeserve *server, uint64_t id)
{
    uint32_t at = mrd_map_get(&server->by_id, (mrd_map_key){ .a = id });

    return at == MRD_MAP_NONE ? NULL : &server->agents[at];
}

static mrd_err
add_agent(mrd_timeserve *server, uint64_t id, agent_entry **ret_agent)
{
    uint32_t at = (uint32_t) server->n_agents;
    mrd_joiner *joiner;

    if (server->n_agents >= MRD_TIMESERVE_AGENTS_MAX)
        return MRD_LIMIT;
    if (!MRD_VEC_ROOM(server->agents, server->n_agents, server->cap_agents, 1) ||
        (joiner = mrd_joiner_new(MRD_TIMESERVE_RING)) == NULL)
        return MRD_NOMEM;
    if (mrd_map_put(&server->by_id, (mrd_map_key){ .a = id }, at) != MRD_OK) {
        mrd_joiner_free(joiner);
        return MRD_NOMEM;
    }
    server->agents[at] = (agent_entry){ .id = id, .joiner = joiner };
    server->n_agents++;
    *ret_agent = &server->agents[at];
    return MRD_OK;
}

mrd_err
mrd_timeserve_agent(mrd_timeserve *server, uint64_t id, const uint8_t key[MRD_PROBE_KEY_LEN])
{
    mrd_err err = MRD_OK;
    agent_entry *entry;

    pthread_mutex_lock(&server->lock);
    if ((entry = known_agent(server, id)) == NULL)
        err = add_agent(server, id, &entry);
    if (err == MRD_OK)
        memcpy(entry->key, key, MRD_PROBE_KEY_LEN);
    pthread_mutex_unlock(&server->lock);
    return err;
}

void
mrd_timeserve_forget(mrd_timeserve *server, uint64_t id)
{
    agent_entry *entry;

    pthread_mutex_lock(&server->lock);
    if ((entry = known_agent(server, id)) != NULL) {
        const agent_entry *last = &server->agents[--server->n_agents];

        mrd_joiner_free(entry->joiner);
        mrd_map_remove(&server->by_id, (mrd_map_key){ .a = id });
        /* moves the last agent into the free slot. Replacing an existing map entry cannot fail */
        if (entry != last) {
            *entry = *last;
            (void) mrd_map_put(&server->by_id, (mrd_map_key){ .a = entry->id },
                               (uint32_t) (entry - server->agents));
        }
    }
    pthread_mutex_unlock(&server->lock);
}

mrd_err
mrd_timeserve_join(mrd_timeserve *server, const mrd_probe_sent *sent, mrd_probe *ret_probe)
{
    mrd_err err = MRD_NOTFOUND;
    agent_entry *entry;

    pthread_mutex_lock(&server->lock);
    if ((entry = known_agent(server, sent->id.agent)) != NULL)
        err = mrd_joiner_sent(entry->joiner, sent, ret_probe);
    pthread_mutex_unlock(&server->lock);
    return err;
}

mrd_timeserve_counts
mrd_timeserve_counters(mrd_timeserve *server)
{
    mrd_timeserve_counts counts;

    pthread_mutex_lock(&server->lock);
    counts = server->counts;
    pthread_mutex_unlock(&server->lock);
    counts.unread = mrd_udp_dropped(server->fd);
    return counts;
}

bool
mrd_timeserve_joined(mrd_timeserve *server, uint64_t agent, mrd_join_counts *ret_counts)
{
    agent_entry *entry;

    pthread_mutex_lock(&server->lock);
    if ((entry = known_agent(server, agent)) != NULL)
        *ret_counts = mrd_joiner_counts(entry->joiner);
    pthread_mutex_unlock(&server->lock);
    return entry != NULL;
}

/* ---- The server's thread ---- */

static mrd_xread
cross_read(void)
{
    mrd_xread xread;

    mrd_clock_cross(&xread.raw0, &xread.wall, &xread.raw1);
    return xread;
}

/* Converts the kernel's arrival stamp of a packet to RAW with one reading of both clocks. Returns
 * false if there is no stamp, or if the stamp is implausible because the wall clock was set. */
static bool
arrival(const mrd_xread *now, int64_t wall, mrd_local_ns *ret_r2, mrd_dur_ns *ret_e)
{
    return mrd_stamp_bridge(now, now, wall, ret_r2, ret_e) == MRD_OK &&
           ret_r2->ns <= now->raw1 + *ret_e && ret_r2->ns > now->raw0 - QUEUED_MAX;
}

/*
 * Checks a request and stores its arrival time. Returns true if the request must be answered.
 * Stores the time before sending as a preliminary send time. It is correct but less precise than
 * the kernel's transmit stamp, which replaces it later.
 */
static bool
admit(mrd_timeserve *server, mrd_bytes data, const mrd_xread *now, int64_t wall,
      mrd_probe_packet *ret_packet, pending *ret_wait)
{
    mrd_local_ns r2;
    mrd_dur_ns e = 0;
    agent_entry *entry;
    bool fresh = false, kernel = arrival(now, wall, &r2, &e);
    /* upper limit of the arrival time, used if the kernel gave no stamp */
    int64_t late = now->raw1;

    pthread_mutex_lock(&server->lock);
    server->counts.requests++;
    if (mrd_probe_packet_decode(data, ret_packet) != MRD_OK ||
        ret_packet->kind == MRD_PROBE_ANSWER ||
        (server->session != 0 && ret_packet->session != server->session)) {
        server->counts.malformed++;
    } else if (ret_packet->kind == MRD_PROBE_WARMUP) {
        server->counts.warmups++;
    } else if ((entry = known_agent(server, ret_packet->agent)) == NULL) {
        server->counts.unknown_agent++;
    } else if (!mrd_probe_packet_proven(data, entry->key)) {
        server->counts.forged++;
    } else {
        *ret_wait = (pending){ .used = true, .r2_wall = { kernel ? wall : 0 }, .before = *now };
        ret_wait->served = (mrd_probe_served){
            .id = { ret_packet->agent, ret_packet->agent_epoch, ret_packet->k },
            .r2 = (kernel ? r2.ns : late) + server->session_minus_raw,
            .r3 = late + server->session_minus_raw,
            .e = kernel ? (uint32_t) e : 0,
            .source2 = kernel ? MRD_STAMP_UDP_KERNEL : MRD_STAMP_UDP_USER,
            .source3 = MRD_STAMP_UDP_USER,
        };
        memcpy(ret_wait->key, entry->key, sizeof(ret_wait->key));
        fresh = mrd_joiner_served(entry->joiner, &ret_wait->served);
        server->counts.replayed += !fresh;
        server->counts.no_kernel_stamp += fresh && !kernel;
    }
    pthread_mutex_unlock(&server->lock);
    return fresh;
}

static void
answer(mrd_timeserve *server, mrd_probe_packet *packet, const mrd_udp_peer *peer, pending *wait)
{
    uint8_t wire[MRD_PROBE_PACKET_LEN];
    mrd_err err;

    packet->kind = MRD_PROBE_ANSWER;
    mrd_probe_packet_encode(packet, wait->key, wire);
    wait->number = server->number;
    wait->sent_raw = mrd_local_now();
    err = mrd_udp_send(server->fd, wire, sizeof(wire), peer);
    pthread_mutex_lock(&server->lock);
    server->counts.answers += err == MRD_OK;
    server->counts.unsent += err != MRD_OK;
    pthread_mutex_unlock(&server->lock);
    if (err == MRD_OK)
        server->wait[server->number++ % PENDING] = *wait;
}

/* Sends a warm-up packet before the answers to a pair of requests. It wakes up the devices on the
 * path, so that the answers travel as fast as the requests did. The packet is a copy of the request
 * with another kind. */
static void
wake(mrd_timeserve *server, mrd_bytes request, const mrd_udp_peer *peer)
{
    uint8_t wire[MRD_PROBE_PACKET_LEN];

    memcpy(wire, request.p, sizeof(wire));
    mrd_probe_packet_begin(MRD_PROBE_WARMUP, wire);
    (void) mrd_udp_send_unstamped(server->fd, wire, sizeof(wire), peer);
}

/* Passes the times of an answer to the joiner. If `ok` is false, the wall clock was set between the
 * request's arrival and now, and none of the times may be used. */
static void
complete(mrd_timeserve *server, pending *w, bool ok)
{
    agent_entry *entry;

    pthread_mutex_lock(&server->lock);
    server->counts.stepped += !ok;
    if (!ok)
        w->served.r2 = w->served.r3 = 0;
    if ((entry = known_agent(server, w->served.id.agent)) != NULL)
        mrd_joiner_answered(entry->joiner, &w->served);
    pthread_mutex_unlock(&server->lock);
    w->used = false;
}

/* Converts the kernel's stamps of the request's arrival and the answer's sending to RAW, and
 * completes the answer. Interpolates between the clock readings at the arrival and now. */
static void
finish(mrd_timeserve *server, pending *w, int64_t r3_wall, const mrd_xread *now)
{
    mrd_probe_served *served = &w->served;
    mrd_local_ns r2, r3;
    mrd_dur_ns e2 = 0, e3 = 0;
    bool ok = true;

    if (w->r2_wall.ns != 0) {
        ok = mrd_stamp_bridge(&w->before, now, w->r2_wall.ns, &r2, &e2) == MRD_OK;
        if (ok)
            served->r2 = r2.ns + server->session_minus_raw;
    }
    if (ok && mrd_stamp_bridge(&w->before, now, r3_wall, &r3, &e3) == MRD_OK) {
        served->r3 = r3.ns + server->session_minus_raw;
        served->source3 = MRD_STAMP_UDP_KERNEL;
        /* the time immediately before sending is used, because the true send time is not earlier */
    } else if (ok) {
        served->r3 = w->sent_raw.ns + server->session_minus_raw;
        served->source3 = MRD_STAMP_UDP_USER;
    }
    served->e = (uint32_t) (e2 > e3 ? e2 : e3);
    complete(server, w, ok);
}

static void
take_sent(mrd_timeserve *server)
{
    mrd_udp_stamp sent[MRD_UDP_BATCH];
    size_t n;

    do {
        mrd_xread now;

        if ((n = mrd_udp_sent_many(server->fd, sent)) > 0)
            now = cross_read();
        for (size_t i = 0; i < n; i++) {
            pending *w = &server->wait[sent[i].number % PENDING];

            if (w->used && w->number == sent[i].number)
                finish(server, w, sent[i].wall, &now);
        }
    } while (n == MRD_UDP_BATCH);
}

/* Returns true if the wall clock may have been set after the `n` packets of the last read arrived
 * and before the clocks were read. The kernel stamps of these packets are then not used. After a
 * full batch, the socket may contain more such packets, so the result stays true for the next
 * batch. */
static bool
are_doubted(mrd_timeserve *server, size_t n)
{
    bool stepped = mrd_udp_wait_stepped(server->waiting);

    for (size_t i = 0; i < PENDING && stepped; i++)
        if (server->wait[i].used)
            complete(server, &server->wait[i], false);
    stepped = stepped || server->doubted;
    server->doubted = stepped && n == MRD_UDP_BATCH;
    return stepped;
}

/* Reads and answers at most MRD_UDP_BATCH packets. All of them share one reading of the clocks. */
static void
serve_some(mrd_timeserve *server)
{
    mrd_udp_packet in[MRD_UDP_BATCH];
    size_t n = mrd_udp_recv_many(server->fd, in);
    mrd_xread now;
    bool doubted;

    if (n > 0)
        now = cross_read();
    doubted = are_doubted(server, n);
    for (size_t i = 0; i < n; i++) {
        mrd_bytes data = { in[i].data,
                           in[i].len < sizeof(in[i].data) ? in[i].len : sizeof(in[i].data) };
        mrd_probe_packet packet;
        pending w;

        if (!admit(server, data, &now, doubted ? 0 : in[i].wall, &packet, &w))
            continue;
        if (packet.position == 0)
            wake(server, data, &in[i].peer);
        answer(server, &packet, &in[i].peer, &w);
    }
    take_sent(server);
}

static void *
serve(void *arg)
{
    mrd_timeserve *server = arg;

    while (mrd_udp_wait_next(server->waiting))
        serve_some(server);
    return NULL;
}

/* ---- Opening and closing ---- */

mrd_err
mrd_timeserve_open(const mrd_timeserve_options *options, mrd_timeserve **ret_server, mrd_why *why)
{
    mrd_timeserve *server = calloc(1, sizeof(*server));
    uint8_t warmup[MRD_PROBE_BEGIN_LEN];
    mrd_err err;
    int rc;

    if (server == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "time server");
    server->fd = -1;
    server->session = options->session;
    server->session_minus_raw = options->session_minus_raw;
    pthread_mutex_init(&server->lock, NULL);
    if ((err = mrd_udp_open(options->host, options->port, true, &server->fd, why)) != MRD_OK)
        goto out;
    if (options->user_stamps)
        mrd_udp_unstamped(server->fd);
    mrd_probe_packet_begin(MRD_PROBE_WARMUP, warmup);
    if (!options->unfiltered)
        /* If the kernel cannot filter warm-up packets, the thread reads and ignores them. */
        (void) mrd_udp_drop(server->fd, warmup);
    if ((err = mrd_udp_wait_open(server->fd, &server->waiting, why)) != MRD_OK)
        goto out;
    if ((rc = pthread_create(&server->thread, NULL, serve, server)) != 0) {
        err = mrd_why_set(why, MRD_IO, rc, "time server: thread");
        goto out;
    }
    server->started = true;
    *ret_server = server;
    server = NULL;
out:
    mrd_timeserve_close(server);
    return err;
}

void
mrd_timeserve_close(mrd_timeserve *server)
{
    if (server == NULL)
        return;
    if (server->started) {
        mrd_udp_wait_end(server->waiting);
        pthread_join(server->thread, NULL);
    }
    for (size_t i = 0; i < server->n_agents; i++)
        mrd_joiner_free(server->agents[i].joiner);
    free(server->agents);
    mrd_map_fini(&server->by_id);
    mrd_udp_wait_close(server->waiting);
    mrd_udp_close(server->fd);
    pthread_mutex_destroy(&server->lock);
    free(server);
}

uint16_t
mrd_timeserve_port(const mrd_timeserve *server)
{
    return mrd_udp_port(server->fd);
}
