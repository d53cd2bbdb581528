/*
 * aggregator/https.h - why TLS connections of the HTTP server failed. libmicrohttpd does not report
 * it, so this looks at the GnuTLS sessions below it; GnuTLS's header is included in https.c only.
 *
 * Threads: of the server, for each connection its own.
 */
#ifndef MRD_AGGREGATOR_HTTPS_H
#define MRD_AGGREGATOR_HTTPS_H

#include "base/error_list.h"

/* TLS 1.2 and 1.3, with the ciphers that the distribution holds good. */
#define HTTPS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

/* session: a gnutls_session_t before its handshake; it is not used for anything else that wants its
 * database pointer. */
void *mrd_https_started(void *session); /* for _closed; NULL: without memory */
/* Adds a message when the handshake failed, and frees what _started returned (NULL is fine). The
 * session may be gone, as libmicrohttpd tells of the end after it; fd, its socket, is still open. */
void mrd_https_closed(void *started, int fd, mrd_error_list *errors);

#endif
