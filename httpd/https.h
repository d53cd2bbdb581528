/*
 * httpd/https.h - finds out why TLS connections of the HTTP server failed. libmicrohttpd does
 * not report it, so this module reads the GnuTLS sessions. Only https.c includes GnuTLS's header.
 *
 * Threads: the server's threads. Each connection has its own data.
 */
#ifndef MRD_HTTPD_HTTPS_H
#define MRD_HTTPD_HTTPS_H

#include "base/error_list.h"

/* TLS 1.2 and 1.3, with the ciphers that the distribution considers secure. */
#define HTTPS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

/* `session` is a gnutls_session_t before its handshake; its database pointer has no other use. */
void *mrd_https_started(void *session); /* argument for _closed; NULL if out of memory */
/* Adds a message if the handshake failed, and frees what _started returned (NULL is fine). The
 * session may be freed already, because libmicrohttpd calls this after the end. `fd`, its socket,
 * is still open. */
void mrd_https_closed(void *started, int fd, mrd_error_list *errors);

#endif
