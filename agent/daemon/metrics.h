/*
 * agent/daemon/metrics.h - GET /metrics, /healthz and /readyz of a node, inside the agent's loop: a few
 * concurrent connections with one exchange each. The loop never waits for them. Internal to agent/.
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
    const char *address; /* numeric. NULL means 127.0.0.1 */
    uint16_t port;       /* 0: any free one */
    const char *token;   /* bearer token for /metrics. NULL means none */
    /* Appends the metrics, as OpenMetrics if `open`. */
    void (*write)(void *self, bool open, mrd_buf *to);
    /* For /readyz: the text says what is the matter when false. NULL: always ready. */
    bool (*ready)(void *self, char text[MRD_WHY_MAX]);
    void *self;
} mrd_metrics_options;

/* Errors: INVALID (address), NET (port in use), NOMEM. Borrows the options' texts. */
mrd_err mrd_metrics_open(const mrd_metrics_options *options, mrd_metrics **ret_metrics,
                         mrd_why *why);
void mrd_metrics_close(mrd_metrics *metrics); /* NULL is fine */
int mrd_metrics_fd(
    const mrd_metrics *metrics); /* readable when step has something to do; -1 for NULL */
/* Takes what came and answers whole requests. Never waits; NULL is fine. */
void mrd_metrics_step(mrd_metrics *metrics, mrd_local_ns now);
/* The answer to one request head (ends with an empty line), for step and for the fuzzer. */
void mrd_metrics_answer(const mrd_metrics_options *options, mrd_str head, mrd_buf *to);

#endif
