/*
 * agent/daemon/metrics.h - GET /metrics, /healthz and /readyz of a node, inside the agent's loop: a
 * few concurrent connections with one exchange each. The loop never waits for them. Internal to
 * agent/.
 *
 * If it listens on more than the loopback address, a token is required (main.c refuses otherwise).
 * The metrics name no workload, but should not be public by default.
 */
#ifndef MRD_AGENT_DAEMON_METRICS_H
#define MRD_AGENT_DAEMON_METRICS_H

#include "base/buf.h"
#include "base/clock.h"

typedef struct mrd_metrics mrd_metrics;

typedef struct {
    const char *address; /* numeric IP address to listen on; NULL means 127.0.0.1 */
    uint16_t port;       /* 0 means any free port */
    const char *token;   /* bearer token for /metrics. NULL means none */
    /* Appends the metrics, as OpenMetrics if `open`. */
    void (*write)(void *self, bool open, mrd_buf *to);
    /* Answers /readyz. If it returns false, the text has the reason. NULL means always ready. */
    bool (*ready)(void *self, char text[MRD_WHY_MAX]);
    void *self;
} mrd_metrics_options;

/* Listens on the address. Errors: INVALID (address), NET (port in use), NOMEM. Borrows the options'
 * texts. */
mrd_err mrd_metrics_open(const mrd_metrics_options *options, mrd_metrics **ret_metrics,
                         mrd_why *why);
void mrd_metrics_close(mrd_metrics *metrics); /* Does nothing for NULL. */
int mrd_metrics_fd(
    /* Returns a descriptor that is readable when step has something to do; -1 for NULL. */
    const mrd_metrics *metrics);
/* Reads received data and answers complete requests. Never waits; NULL is fine. */
void mrd_metrics_step(mrd_metrics *metrics, mrd_local_ns now);
/* Appends the answer to one request head (which ends with an empty line), for step and for the
 * fuzzer. */
void mrd_metrics_answer(const mrd_metrics_options *options, mrd_str head, mrd_buf *to);

#endif
