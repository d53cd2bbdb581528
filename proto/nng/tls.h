/*
 * proto/nng/tls.h - TLS for the links: implements NNG's interface for TLS engines with OpenSSL. It
 * replaces the mbed TLS engine that distributions compile into NNG. docs/explanation/security.md
 * says why. Only the files for NNG in proto/ use it, and only proto/nng/tls.c uses libssl.
 *
 * The engine supports TLS 1.2 and 1.3, without session tickets and renegotiation. A client always
 * checks the server's certificate chain and name. A server with a ca_file accepts only clients with
 * a certificate from this authority.
 *
 * Any thread may call these functions. Messages of failed connections are kept in a list
 * (base/error_list.h) for mrd_tls_next_error.
 */
#ifndef MRD_PROTO_TLS_H
#define MRD_PROTO_TLS_H

#include <nng/nng.h>
#include <nng/supplemental/tls/tls.h>

#include "proto/link.h"
#include "proto/nng/unaccepted.h"

/* Certificate, key and authorities of one end of the connections, as last read from their files.
 * Each connection holds a reference, so the owner may release its own reference while connections
 * are still closing. */
typedef struct mrd_tls mrd_tls;

/* Reads the files into a new mrd_tls. Errors: INVALID (a required file is not set), NOTFOUND,
 * DENIED (other users may read the key), AUTH (a file is not PEM, or the key belongs to another
 * certificate). */
mrd_err mrd_tls_open(const mrd_link_tls *files, bool server, mrd_tls **ret_tls, mrd_why *why);
void mrd_tls_unref(mrd_tls *tls); /* ignores NULL */
/* Reads the files again. New connections use the new contents, and existing connections continue.
 * After an error the old certificate, key and authorities stay in use. */
mrd_err mrd_tls_reload(mrd_tls *tls, mrd_why *why);
/* Returns true if a file has changed since it was last read successfully. */
bool mrd_tls_changed(mrd_tls *tls);
/* Starts to count the handshakes of a server in the memory budget `unaccepted`. NULL ends the
 * counting. The budget must exist until this call with NULL. */
void mrd_tls_count_in(mrd_tls *tls, mrd_unaccepted *unaccepted);
/* Takes the next message about a failed connection. Returns false if there is none. */
bool mrd_tls_next_error(mrd_tls *tls, mrd_why *ret_why);
/* Returns how many connections have failed since mrd_tls_open. */
uint64_t mrd_tls_failures(mrd_tls *tls);

/* Creates a TLS configuration for NNG. With it, a client checks that the server's certificate
 * contains `name`. Returns an NNG error. Call it only after a socket was opened, because that
 * initialises NNG. */
int mrd_tls_nng_config(mrd_tls *tls, const char *name, nng_tls_config **ret_config);
/*
 * Stores the names in the verified certificate of the peer of a pipe, separated by newlines
 * (pki/cert.h). Returns false without TLS, without a certificate, or if the certificate has no
 * names.
 */
bool mrd_tls_peer(nng_pipe pipe, char *ret_names, size_t size);

#endif
