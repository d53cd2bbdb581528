/*
 * aggregator/clock/clocks.h - the aggregator's time service. For each clock probe over UDP, the
 * agent records two times (sending and arrival), and so does the aggregator. This service joins
 * these two halves of the probe. It also reads the aggregator's own clocks.
 *
 * Threads: only the thread of the loop (loop/loop.h) calls the functions. The UDP server has its
 * own thread.
 */
#ifndef MRD_AGGREGATOR_CLOCK_CLOCKS_H
#define MRD_AGGREGATOR_CLOCK_CLOCKS_H

#include "aggregator/core/node/clock.h"

typedef struct mrd_clocks mrd_clocks;

/* Starts the time server on the host in `data_url`. If all agents run on this machine, starts no
 * server and sets scale->same_clock. Errors: errors of mrd_timeserve_open. */
mrd_err mrd_clocks_open(const char *data_url, uint16_t port, mrd_timescale *scale,
                        mrd_clocks **ret_clocks, mrd_why *why);
void mrd_clocks_close(mrd_clocks *clocks); /* does nothing for NULL */
/* Returns the UDP port of the time server, 0 if none runs. */
uint16_t mrd_clocks_port(const mrd_clocks *clocks);
/* Creates a random key, which authenticates the agent's probes, and stores it in `key`. Replaces an
 * earlier key of the agent. */
void mrd_clocks_welcome(mrd_clocks *clocks, uint64_t agent, uint8_t key[MRD_PROBE_KEY_LEN]);
void mrd_clocks_forget(mrd_clocks *clocks, uint64_t agent);
/* Completes a node's clock data before the journal stores it. Joins the halves of its probes, and
 * adds a reading of the aggregator's clocks. The pointers in `data` are valid until the next
 * call. */
void mrd_clocks_take(mrd_clocks *clocks, mrd_node *node, const mrd_timescale *timescale,
                     Mrd__ClockData *data);

#endif
