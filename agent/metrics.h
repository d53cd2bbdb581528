/*
 * agent/metrics.h - GET /metrics, /healthz and /readyz of a node, inside the agent's loop: a few connections
 * at one time, one exchange each, none of which the loop ever waits for. Inside agent/ only.
 *
 * Where it listens on more than this machine's own address a token is needed (main.c refuses
 * otherwise): the numbers name no workload, but nobody's business is a good default.
 */
#ifndef MRD_AGENT_METRICS_H
#define MRD_AGENT_METRICS_H

#include "base/buf.h"
#include "base/clock.h"

typedef struct mrd_metrics mrd_metrics;

typedef struct {
    const char *address; /* numeric; NULL: 127.0.0.1 */
    uint16_t port;       /* 0: any free one */
    const char *token;   /* bearer token that /metrics wants; NULL: none */
    /* Appends the metrics; open: as OpenMetrics. */
    void (*write)(void *self, bool open, mrd_buf *to);
    /* For /readyz: the text says what is the matter when false. NULL: always ready. */
    bool (*ready)(void *self, char text[MRD_WHY_MAX]);
    void *self;
} mrd_metrics_options;

/* Errors: INVALID (address), NET (port in use), NOMEM. Borrows the options' texts. */
mrd_err mrd_metrics_open(const mrd_metrics_options *options, mrd_metrics **ret_metrics,
                         mrd_why *why);
void mrd_metrics_close(mrd_metrics *m);   /* NULL is fine */
int mrd_metrics_fd(const mrd_metrics *m); /* readable when step has something to do; -1 for NULL */
/* Takes what came and answers whole requests. Never waits; NULL is fine. */
void mrd_metrics_step(mrd_metrics *m, mrd_local_ns now);
/* The answer to one request head (ends with an empty line), for step and for the fuzzer. */
void mrd_metrics_answer(const mrd_metrics_options *options, mrd_str head, mrd_buf *to);

#endif
