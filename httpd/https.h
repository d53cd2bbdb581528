/*
 * httpd/https.h - finds out why TLS connections of the HTTP server failed.
 *
 * libmicrohttpd does not report the reason, so this module reads it from the GnuTLS sessions. Only
 * https.c includes GnuTLS's header. Threads: the threads of the HTTP server. Each connection has
 * its own data.
 */
#ifndef MRD_HTTPD_HTTPS_H
#define MRD_HTTPD_HTTPS_H

#include "base/error_list.h"

/* GnuTLS priorities: TLS 1.2 and 1.3, with the ciphers that the system's configuration considers
 * secure. */
#define HTTPS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

/* Starts observing a TLS handshake. `session` is a gnutls_session_t before its handshake, and
 * nothing else may use its database pointer. Returns the argument for mrd_https_closed, or NULL if
 * out of memory. */
void *mrd_https_started(void *session);
/* Adds a message to `errors` if the handshake failed. Frees `started`, the result of
 * mrd_https_started, which may be NULL. The socket `fd` must still be open. The GnuTLS session may
 * already be freed, because libmicrohttpd calls this late. */
void mrd_https_closed(void *started, int fd, mrd_error_list *errors);

#endif
