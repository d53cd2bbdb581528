/*
 * agent/daemon/metrics.h - serves GET /metrics, /healthz and /readyz of a node in the agent's loop,
 * for a few concurrent connections with one request each. The agent's loop never waits for a
 * client. Internal to agent/.
 *
 * If the port is open on more than the loopback address, a token is required (main.c checks this).
 * The metrics do not name workloads, but should not be public by default.
 */
#ifndef MRD_AGENT_DAEMON_METRICS_H
#define MRD_AGENT_DAEMON_METRICS_H

#include "base/buf.h"
#include "base/clock.h"

typedef struct mrd_metrics mrd_metrics;

typedef struct {
    const char *address; /* numeric IP address to listen on; NULL means 127.0.0.1 */
    uint16_t port;       /* 0 means any free port */
    const char *token;   /* bearer token that /metrics requires; NULL means none */
    /* Appends the metrics to *to, as OpenMetrics if `open` is true. */
    void (*write)(void *self, bool open, mrd_buf *to);
    /* Returns true if /readyz should succeed. Otherwise stores the reason in `text`. NULL means
     * always ready. */
    bool (*ready)(void *self, char text[MRD_WHY_MAX]);
    void *self;
} mrd_metrics_options;

/* Listens on the address. Errors: INVALID (address), NET (port in use), NOMEM. Borrows the options'
 * texts. */
mrd_err mrd_metrics_open(const mrd_metrics_options *options, mrd_metrics **ret_metrics,
                         mrd_why *why);
/* closes the port and all connections; NULL is ignored */
void mrd_metrics_close(mrd_metrics *metrics);
int mrd_metrics_fd(
    /* Returns a descriptor that is readable when mrd_metrics_step has something to do; -1 if
     * `metrics` is NULL. */
    const mrd_metrics *metrics);
/* Reads received data and answers complete requests. Never waits. `metrics` may be NULL. */
void mrd_metrics_step(mrd_metrics *metrics, mrd_local_ns now);
/* Appends the answer to one request to *to. `head` is the request's head, which ends with an empty
 * line. Used by mrd_metrics_step and the fuzzer. */
void mrd_metrics_answer(const mrd_metrics_options *options, mrd_str head, mrd_buf *to);

#endif
