/*
 * proto/nng/nng_common.h - helpers for NNG that the agent's link and the aggregator's server share.
 * Internal to proto/.
 */
#ifndef MRD_PROTO_NNG_COMMON_H
#define MRD_PROTO_NNG_COMMON_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include <nng/nng.h>

#include "base/err.h"
#include "proto/link.h"
#include "proto/nng/tls.h"

/* Sets the message "cannot WHAT URL: reason" and returns the mrd_err for NNG's error `rv`. */
mrd_err mrd_nng_why(mrd_why *why, int rv, const char *what, const char *url);
/* Returns whether the URL begins with tls+tcp:// or a similar scheme with TLS. False for NULL. */
bool mrd_nng_wants_tls(const char *url);
/* Opens one mrd_tls for both URLs. *ret_tls stays NULL if neither URL uses TLS. */
mrd_err mrd_nng_tls_for(const char *data_url, const char *control_url, const mrd_link_tls *files,
                        bool server, mrd_tls **ret_tls, mrd_why *why);
/* Returns an NNG message with a copy of the frame, or NULL if out of memory. */
nng_msg *mrd_nng_msg(mrd_bytes frame);
/* Waits for a signal of `cond` (base/sys/threads.h) until the time `end`. If timeout_ms is 0, does
 * not wait; if it is -1, ignores `end`. Returns false if the time is over. */
bool mrd_nng_wait(pthread_cond_t *cond, pthread_mutex_t *lock, int timeout_ms,
                  const struct timespec *end);

#endif
