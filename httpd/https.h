/*
 * httpd/https.h - finds out why TLS connections of the HTTP server failed. libmicrohttpd does
 * not report it, so this module reads the GnuTLS sessions. Only https.c includes GnuTLS's header.
 *
 * Threads: the server's threads. Each connection has its own data.
 */
#ifndef MRD_HTTPD_HTTPS_H
#define MRD_HTTPD_HTTPS_H

#include "base/error_list.h"

/* TLS 1.2 and 1.3, with the ciphers that the system's GnuTLS configuration considers secure. */
#define HTTPS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

/* Begins to observe a handshake. `session` is a gnutls_session_t before its handshake; nothing else
 * may use its database pointer. Returns an argument for _closed, or NULL if out of memory. */
void *mrd_https_started(void *session);
/* Adds a message to `errors` if the handshake failed, and frees the result of mrd_https_started
 * (NULL is fine). The GnuTLS session may be freed already, because libmicrohttpd calls this late.
 * The socket `fd` is still open. */
void mrd_https_closed(void *started, int fd, mrd_error_list *errors);

#endif
