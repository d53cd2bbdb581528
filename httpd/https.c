#include "httpd/https.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <linux/tcp.h> /* the C library's own struct tcp_info lacks newer members */

#include <gnutls/gnutls.h>

/* Progress of a TLS handshake. The database pointer of the GnuTLS session points to this struct.
 * GnuTLS itself uses that pointer only for a session cache, which this server does not have. The
 * ordinary user pointer cannot be used, because libmicrohttpd needs it. */
typedef struct {
    bool greeted; /* the client's hello was received */
    bool done;    /* the client's last message of the handshake was received, too */
} progress;

static int
on_message(gnutls_session_t session, unsigned type, unsigned when, unsigned incoming,
           const gnutls_datum_t *message)
{
    progress *p = gnutls_db_get_ptr(session);

    (void) when;
    (void) message;
    if (p != NULL && incoming) {
        p->greeted = p->greeted || type == GNUTLS_HANDSHAKE_CLIENT_HELLO;
        p->done = p->done || type == GNUTLS_HANDSHAKE_FINISHED;
    }
    return 0;
}

void *
mrd_https_started(void *session)
{
    progress *p = calloc(1, sizeof(*p));

    if (p == NULL)
        return NULL;
    gnutls_db_set_ptr(session, p);
    gnutls_handshake_set_hook_function(session, GNUTLS_HANDSHAKE_ANY, GNUTLS_HOOK_POST, on_message);
    return p;
}

/* Returns true if the client has sent any bytes. A client that only checks whether the port is open
 * sends none. */
static bool
has_spoken(int fd)
{
    struct tcp_info info;
    socklen_t len = sizeof(info);

    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0 || info.tcpi_bytes_received > 0;
}

void
mrd_https_closed(void *started, int fd, mrd_error_list *errors)
{
    progress *p = started;

    if (p == NULL)
        return;
    if (!p->done && p->greeted)
        mrd_error_list_add(errors, MRD_AUTH,
                           "an HTTPS client broke off the handshake: it rejected this server's "
                           "certificate (does not trust the authority, or it has expired), or did "
                           "not wait for the end");
    else if (!p->done && has_spoken(fd))
        mrd_error_list_add(errors, MRD_AUTH,
                           "an HTTPS client connected without TLS (http:// instead of https://?), "
                           "or supports only TLS older than 1.2");
    free(p);
}
