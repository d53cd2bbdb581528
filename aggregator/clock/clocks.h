/*
 * aggregator/clock/clocks.h - the time service. The aggregator and an agent each record half of the
 * times of a clock probe over UDP; this service joins the two halves. It also reads the
 * aggregator's own clocks.
 *
 * Threads: one, the loop's. The UDP server has its own thread.
 */
#ifndef MRD_AGGREGATOR_CLOCK_CLOCKS_H
#define MRD_AGGREGATOR_CLOCK_CLOCKS_H

#include "aggregator/core/node/clock.h"

typedef struct mrd_clocks mrd_clocks;

/* Starts the time server on the host of the data address. Sets same_clock in *scale and starts none
 * if all agents run on this machine. Errors: errors of mrd_timeserve_open. */
mrd_err mrd_clocks_open(const char *data_url, uint16_t port, mrd_timescale *scale,
                        mrd_clocks **ret_clocks, mrd_why *why);
void mrd_clocks_close(mrd_clocks *clocks);          /* does nothing for NULL */
uint16_t mrd_clocks_port(const mrd_clocks *clocks); /* 0 if no time server runs */
/* Sets the key that authenticates an agent's probes. Replaces an earlier key. */
void mrd_clocks_welcome(mrd_clocks *clocks, uint64_t agent, uint8_t key[MRD_PROBE_KEY_LEN]);
void mrd_clocks_forget(mrd_clocks *clocks, uint64_t agent);
/* Prepares a node's clock data for storage: joins its probes and adds the aggregator's readings.
 * The pointers in `data` are valid until the next call. */
void mrd_clocks_take(mrd_clocks *clocks, mrd_node *node, const mrd_timescale *timescale,
                     Mrd__ClockData *data);

#endif
