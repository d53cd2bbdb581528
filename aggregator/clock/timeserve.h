/*
 * aggregator/clock/timeserve.h - the time server, which answers clock probes on its own thread. For
 * each probe, it keeps the aggregator's two times until the agent sends its own two times.
 *
 *   use      open the server once. Call mrd_timeserve_agent when an agent says hello (the control
 *            channel carries its key), and mrd_timeserve_forget when the agent is removed. For each
 *            agent's half of a probe call mrd_timeserve_join, and pass the result to the agent's
 *            mrd_follow and the journal.
 *   answers  contain no time and are as long as requests. A warm-up packet precedes each pair of
 *            answers. Unknown agents, wrong tags and replays get no answer.
 *   stamps   the arrival time r2 and the send time r3 are kernel stamps, converted to RAW. So a
 *            delay of the thread does not change them.
 *
 * Session time = this machine's CLOCK_MONOTONIC_RAW + session_minus_raw.
 *
 * Threads  any thread may call the functions. mrd_timeserve_join and mrd_timeserve_agent take a
 *          lock, which the server's thread holds for about a microsecond per packet.
 * Source   docs/reference/timesync.md sections 2 and 3.
 */
#ifndef MRD_AGGREGATOR_CLOCK_TIMESERVE_H
#define MRD_AGGREGATOR_CLOCK_TIMESERVE_H

#include "timesync/probe.h"

#define MRD_TIMESERVE_AGENTS_MAX 65536
/* number of answered requests that are kept for each agent: 2 minutes at one pair a second */
#define MRD_TIMESERVE_RING 256

typedef struct {
    const char *host; /* NULL listens on any address */
    uint16_t port;    /* 0 lets the system choose a port */
    /* id of the session that requests must name; 0 accepts requests for any session */
    uint64_t session;
    mrd_dur_ns session_minus_raw;
    bool user_stamps; /* for tests: behave as if the kernel gave no time stamps */
    bool unfiltered;  /* for tests: behave as if the kernel could not drop warm-up packets */
} mrd_timeserve_options;

typedef struct {
    uint64_t requests, answers; /* `requests` counts all packets that were read */
    uint64_t warmups; /* number of warm-up packets among `requests`; they need no answer */
    /* packets that the kernel dropped before they were read: warm-up packets, and packets that
     * arrived while the socket's buffer was full */
    uint64_t unread;
    uint64_t malformed, unknown_agent,
        forged;               /* packets dropped for this reason; `forged` means a wrong tag */
    uint64_t replayed;        /* packets dropped because they repeat an earlier packet */
    uint64_t unsent;          /* answers not sent because the socket buffer was full */
    uint64_t no_kernel_stamp; /* answered requests without a kernel stamp of their arrival */
    /* answers that are not used, because the wall clock was set and their kernel stamps are
     * wrong */
    uint64_t stepped;
} mrd_timeserve_counts;

typedef struct mrd_timeserve mrd_timeserve;

/* Binds the UDP socket and starts the thread. Errors: errors of mrd_udp_open, NOMEM, IO. */
mrd_err mrd_timeserve_open(const mrd_timeserve_options *options, mrd_timeserve **ret_server,
                           mrd_why *why);
/* stops the thread and waits for its end; ignores NULL */
void mrd_timeserve_close(mrd_timeserve *server);
uint16_t mrd_timeserve_port(const mrd_timeserve *server);
/* Adds an agent with the key that authenticates its probes. If the agent exists, replaces the key
 * and keeps the agent's answered requests. Errors: LIMIT, NOMEM. */
mrd_err mrd_timeserve_agent(mrd_timeserve *server, uint64_t agent,
                            const uint8_t key[MRD_PROBE_KEY_LEN]);
void mrd_timeserve_forget(mrd_timeserve *server, uint64_t agent);
/*
 * Joins an agent's half of a probe with the server's half. Call it some milliseconds after the
 * answer: the agent may receive the answer before the kernel reports its send time. An earlier call
 * uses the less precise time before sending. Errors: NOTFOUND (agent or request unknown) and errors
 * of mrd_joiner_sent.
 */
mrd_err mrd_timeserve_join(mrd_timeserve *server, const mrd_probe_sent *sent, mrd_probe *ret_probe);
mrd_timeserve_counts mrd_timeserve_counters(mrd_timeserve *server);
/* Gets how many probes of an agent were joined, and how many joins failed. Returns false if the
 * agent is unknown. */
bool mrd_timeserve_joined(mrd_timeserve *server, uint64_t agent, mrd_join_counts *ret_counts);

#endif
