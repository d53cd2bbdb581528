/*
 * aggregator/clock/clocks.h - the time service: joins probes over UDP with the halves that agents send,
 * and reads the aggregator's own clocks
 *
 * Threads: one, the loop's. The UDP server has its own thread.
 */
#ifndef MRD_AGGREGATOR_CLOCK_CLOCKS_H
#define MRD_AGGREGATOR_CLOCK_CLOCKS_H

#include "aggregator/core/node/clock.h"

typedef struct mrd_clocks mrd_clocks;

/* Listens on the host of the data address. Sets same_clock in *scale if agents need no probes.
 * Errors: errors of mrd_timeserve_open. */
mrd_err mrd_clocks_open(const char *data_url, uint16_t port, mrd_timescale *scale,
                        mrd_clocks **ret_clocks, mrd_why *why);
void mrd_clocks_close(mrd_clocks *clocks);          /* NULL is fine */
uint16_t mrd_clocks_port(const mrd_clocks *clocks); /* 0: no time server */
/* Sets a new key for an agent's probes. */
void mrd_clocks_welcome(mrd_clocks *clocks, uint64_t agent, uint8_t key[MRD_PROBE_KEY_LEN]);
void mrd_clocks_forget(mrd_clocks *clocks, uint64_t agent);
/* Joins the probes in a node's clock data and adds the aggregator's data, ready for storage. The
 * pointers in `data` are valid until the next call. */
void mrd_clocks_take(mrd_clocks *clocks, mrd_node *node, const mrd_timescale *timescale,
                     Mrd__ClockData *data);

#endif
