/*
 * proto/nng/tls.h - TLS of the links: OpenSSL behind NNG's engine interface, in place of the mbed
 * TLS that the distribution compiles in. docs/explanation/security.md says why. Only the files for NNG in
 * proto/ use it; libssl lives in proto/nng/tls.c only.
 *
 * It speaks TLS 1.2 and 1.3, no session tickets, no renegotiation. A client always checks the
 * server's chain and name. A server with a ca_file takes only clients with a certificate of it.
 *
 * Threads: all functions from any thread. Errors wait as messages (base/error_list.h).
 */
#ifndef MRD_PROTO_TLS_H
#define MRD_PROTO_TLS_H

#include <nng/nng.h>
#include <nng/supplemental/tls/tls.h>

#include "proto/link.h"
#include "proto/nng/unaccepted.h"

/* One end's certificate, key and authorities, as they are on disk or were at the last reload.
 * Connections hold a reference, so it may be released while some are still closing. */
typedef struct mrd_tls mrd_tls;

/* Errors: INVALID (a file is missing from the settings), NOTFOUND, DENIED (a key that others may
 * read), AUTH (not PEM, key of another certificate). */
mrd_err mrd_tls_open(const mrd_link_tls *files, bool server, mrd_tls **ret_tls, mrd_why *why);
void mrd_tls_unref(mrd_tls *tls); /* NULL is fine */
/* Reads the files again: new connections use them, existing ones continue. After an error the old
 * ones stay. */
mrd_err mrd_tls_reload(mrd_tls *tls, mrd_why *why);
/* True when a file has changed since it was last read with success. */
bool mrd_tls_changed(mrd_tls *tls);
/* Counts the handshakes of a server in `unaccepted` from now on. NULL ends that; `unaccepted` must live until then. */
void mrd_tls_count_in(mrd_tls *tls, mrd_unaccepted *unaccepted);
/* The next message about a connection that failed; false when there is none. */
bool mrd_tls_next_error(mrd_tls *tls, mrd_why *ret_why);
/* Connections that failed, ever. */
uint64_t mrd_tls_failures(mrd_tls *tls);

/* A configuration for NNG; a client checks that the server's certificate names `name`. Returns
 * an NNG error. Call only after a socket was opened: NNG starts itself there. */
int mrd_tls_nng_config(mrd_tls *tls, const char *name, nng_tls_config **ret_config);
/*
 * The names of the certificate that the other end of a pipe has proven, with newlines between them
 * (pki/cert.h). False without TLS, without a certificate, or when it has no names.
 */
bool mrd_tls_peer(nng_pipe pipe, char *ret_names, size_t size);

#endif
