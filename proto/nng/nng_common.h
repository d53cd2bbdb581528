/*
 * proto/nng/nng_common.h - what both ends of a link over NNG share. Internal to proto/.
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

/* "cannot WHAT URL: reason" and our error for NNG's. */
mrd_err mrd_nng_why(mrd_why *why, int rv, const char *what, const char *url);
/* True for tls+tcp:// and the like; NULL is fine. */
bool mrd_nng_wants_tls(const char *url);
/* One mrd_tls for both addresses of an end; *ret_tls stays NULL when neither asks for TLS. */
mrd_err mrd_nng_tls_for(const char *data_url, const char *control_url, const mrd_link_tls *files,
                        bool server, mrd_tls **ret_tls, mrd_why *why);
/* A message with a copy of the frame; NULL if out of memory. */
nng_msg *mrd_nng_msg(mrd_bytes frame);
/* Waits on cond (base/sys/threads.h) until end. timeout_ms is 0 for no wait, -1 for no limit. False
 * when it is over. */
bool mrd_nng_wait(pthread_cond_t *cond, pthread_mutex_t *lock, int timeout_ms,
                  const struct timespec *end);

#endif
