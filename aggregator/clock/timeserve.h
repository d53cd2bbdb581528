/*
 * aggregator/clock/timeserve.h - the time server. It answers probes on a thread of its own and
 * keeps the aggregator's half of each until the agent's half arrives.
 *
 *   use      open once. Call mrd_timeserve_agent at an agent's hello (its key came over the control
 *            channel), and mrd_timeserve_forget when the agent is removed. For each half in a batch
 *            call mrd_timeserve_join, and pass the result to the agent's mrd_follow and the
 *            journal.
 *   answers  contain no time and have the length of requests. A warm-up packet precedes each
 *            pair. Unknown agents, wrong tags and replays get no answer.
 *   stamps   r2 and r3 are kernel stamps converted to RAW, so a late thread does no harm.
 *
 * Session time = this machine's CLOCK_MONOTONIC_RAW + session_minus_raw.
 *
 * Threads  every function may be called from any thread. join and agent take a lock that the server
 *          thread holds for about a microsecond per packet.
 * Source   docs/reference/timesync.md sections 2 and 3.
 */
#ifndef MRD_AGGREGATOR_CLOCK_TIMESERVE_H
#define MRD_AGGREGATOR_CLOCK_TIMESERVE_H

#include "timesync/probe.h"

#define MRD_TIMESERVE_AGENTS_MAX 65536
#define MRD_TIMESERVE_RING       256 /* requests kept per agent: 2 minutes at one pair a second */

typedef struct {
    const char *host; /* NULL listens on any address */
    uint16_t port;    /* 0 lets the system choose a port */
    uint64_t session; /* session id that requests must contain; 0 accepts any */
    mrd_dur_ns session_minus_raw;
    bool user_stamps; /* for tests: as if the kernel gave no stamps */
    bool unfiltered;  /* for tests: as if the kernel could not drop warm-up packets */
} mrd_timeserve_options;

typedef struct {
    uint64_t requests, answers; /* `requests` counts all packets that were read */
    uint64_t warmups; /* packets among `requests` that are warm-up packets, which need no answer */
    /* dropped by the kernel: warm-up packets, and packets that found the buffer full */
    uint64_t unread;
    uint64_t malformed, unknown_agent,
        forged;               /* dropped: invalid packet, unknown agent, wrong tag */
    uint64_t replayed;        /* dropped as replays of an earlier packet */
    uint64_t unsent;          /* answers not sent because the socket buffer was full */
    uint64_t no_kernel_stamp; /* requests with an arrival stamp (r2) from user space */
    uint64_t stepped;         /* stamps discarded because the wall clock was stepped */
} mrd_timeserve_counts;

typedef struct mrd_timeserve mrd_timeserve;

/* Binds the UDP socket and starts the thread. Errors: errors of mrd_udp_open, NOMEM, IO. */
mrd_err mrd_timeserve_open(const mrd_timeserve_options *options, mrd_timeserve **ret_server,
                           mrd_why *why);
/* waits for the thread to end; does nothing for NULL */
void mrd_timeserve_close(mrd_timeserve *server);
uint16_t mrd_timeserve_port(const mrd_timeserve *server);
/* Adds an agent. If the agent exists, replaces its key and keeps its served requests. Errors:
 * LIMIT, NOMEM. */
mrd_err mrd_timeserve_agent(mrd_timeserve *server, uint64_t agent,
                            const uint8_t key[MRD_PROBE_KEY_LEN]);
void mrd_timeserve_forget(mrd_timeserve *server, uint64_t agent);
/*
 * Joins an agent's half of a probe with the server's half. Do not call it within some milliseconds
 * of the answer. The kernel reports the send time of the answer later than the client may receive
 * it, and an earlier join uses the less precise time before sending. Errors: NOTFOUND (agent or
 * request unknown) and errors of mrd_joiner_sent.
 */
mrd_err mrd_timeserve_join(mrd_timeserve *server, const mrd_probe_sent *sent, mrd_probe *ret_probe);
mrd_timeserve_counts mrd_timeserve_counters(mrd_timeserve *server);
/* Gets how many probes of one agent were joined or failed. Returns false if the agent is
 * unknown. */
bool mrd_timeserve_joined(mrd_timeserve *server, uint64_t agent, mrd_join_counts *ret_counts);

#endif
