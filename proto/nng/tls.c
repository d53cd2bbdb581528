#include "proto/nng/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <nng/supplemental/tls/engine.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "base/error_list.h"
#include "base/obj.h"
#include "base/sys/secret.h"
#include "pki/cert.h"
#include "proto/nng/refused.h"

#define TLS_MAGIC 0x4d4c544cu

/* Maximum plain text of a TLS record in bytes. NNG passes 16 KiB at a time, and a record with its
 * overhead should fit into this size. */
#define FRAGMENT (16384 - 256)

struct mrd_tls {
    uint32_t magic;
    bool server;
    char *ca, *cert, *key;
    /* guards the members below; the lock of unaccepted.c may be taken while it is held, and no
     * other */
    pthread_mutex_t lock;
    /* the budget that counts handshakes; NULL if they are not counted */
    mrd_unaccepted *unaccepted;
    unsigned refs;
    SSL_CTX *ctx;
    uint64_t stamp;
    mrd_error_list errors; /* has a lock of its own */
};

/* These two structs hold the engine's data in NNG's objects: one per configuration, one per
 * connection. */
struct nng_tls_engine_config {
    /* NULL in the configuration that NNG creates by default, which is replaced before use */
    mrd_tls *tls;
    char name[256];
};

struct nng_tls_engine_conn {
    void *nng;    /* NNG's handle of the connection, for sending and receiving */
    mrd_tls *tls; /* NULL if the handshake was never started */
    SSL *ssl;
    nng_stream *tcp; /* TCP stream, if the memory budget counts its handshake; otherwise NULL */
    bool up, failed, received;
    bool answered; /* after the handshake, the peer has sent data */
    char names[MRD_CERT_NAMES];
    char refused[MRD_WHY_MAX]; /* reason why the peer's certificate was refused */
};

/* NNG's interface can pass only texts to an engine, and returns only yes or no. The functions of
 * this file pass other data in these variables. NNG calls the engine on the same thread, so the
 * variables are thread-local. */
static _Thread_local mrd_tls *adopting;
static _Thread_local char *asking;
static _Thread_local size_t asking_size;

/* ---- Errors ---- */

static void
add_error(mrd_tls *tls, const char *message)
{
    mrd_error_list_add(&tls->errors, MRD_AUTH, message);
}

void
mrd_tls_count_in(mrd_tls *tls, mrd_unaccepted *unaccepted)
{
    pthread_mutex_lock(&tls->lock);
    tls->unaccepted = unaccepted;
    pthread_mutex_unlock(&tls->lock);
}

bool
mrd_tls_next_error(mrd_tls *tls, mrd_why *ret_why)
{
    return mrd_error_list_take(&tls->errors, ret_why);
}

uint64_t
mrd_tls_failures(mrd_tls *tls)
{
    return mrd_error_list_total(&tls->errors);
}

static void
cert_time(const ASN1_TIME *when, char to[32])
{
    struct tm tm;

    to[0] = '\0';
    if (ASN1_TIME_to_tm(when, &tm) == 1)
        strftime(to, 32, "%Y-%m-%d %H:%M UTC", &tm);
}

/* Receives OpenSSL's verdict on one certificate of the peer's chain. If the certificate is refused,
 * stores the reason as a readable message. */
static int
on_verify(int ok, X509_STORE_CTX *store)
{
    SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    nng_tls_engine_conn *conn = SSL_get_app_data(ssl);
    X509 *cert = X509_STORE_CTX_get_current_cert(store);
    int err = X509_STORE_CTX_get_error(store);
    const char *whose = conn->tls->server ? "agent" : "aggregator";
    char names[300] = "", when[32] = "";

    if (ok)
        return 1;
    if (cert != NULL)
        mrd_cert_names(cert, ' ', names, sizeof(names));
    switch (err) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
        cert_time(X509_get0_notAfter(cert), when);
        snprintf(conn->refused, sizeof(conn->refused),
                 "the %s's certificate (%s) expired on %s: renew it (meridian certs renew)", whose,
                 names, when);
        break;
    case X509_V_ERR_CERT_NOT_YET_VALID:
        cert_time(X509_get0_notBefore(cert), when);
        snprintf(conn->refused, sizeof(conn->refused),
                 "the %s's certificate (%s) is valid only from %s on: check the wall clock of this "
                 "machine",
                 whose, names, when);
        break;
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        snprintf(conn->refused, sizeof(conn->refused),
                 "the %s's certificate names %s and not the host that was asked for: use one of "
                 "these names, --tls-name, or issue it again with --host",
                 whose, names[0] == '\0' ? "nothing" : names);
        break;
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
        snprintf(conn->refused, sizeof(conn->refused),
                 "the %s's certificate (%s) is not signed by an authority in %s", whose, names,
                 conn->tls->ca);
        break;
    case X509_V_ERR_CERT_REVOKED:
        snprintf(conn->refused, sizeof(conn->refused),
                 "the %s's certificate (%s) is revoked by the list in %s", whose, names,
                 conn->tls->ca);
        break;
    default:
        snprintf(conn->refused, sizeof(conn->refused), "the %s's certificate (%s) is rejected: %s",
                 whose, names, X509_verify_cert_error_string(err));
    }
    return 0;
}

/* Writes a readable message about the TLS alert that the peer sent, or about a local TLS error. */
static void
explain(const nng_tls_engine_conn *conn, unsigned long code, char *to, size_t size)
{
    static const struct {
        int reason;
        const char *client, *server; /* messages for the log of the client and of the server */
    } known[] = {
#define MINE "the aggregator rejects this node's certificate: "
#define ITS  "an agent rejects this aggregator's certificate: "
        { SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED, MINE "it has expired (meridian certs renew)",
          ITS "it has expired (meridian certs renew)" },
        { SSL_R_TLSV1_ALERT_UNKNOWN_CA,
          MINE "it is not signed by an authority that the aggregator trusts",
          ITS "it is not signed by an authority in the agent's --tls-ca" },
        { SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED, MINE "it is revoked", ITS "it is revoked" },
        { SSL_R_SSLV3_ALERT_BAD_CERTIFICATE, MINE "it is not valid",
          ITS "its names are not the host that the agent asked for, or it is not valid" },
        { SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN, MINE "it is not valid",
          ITS "it is not valid, or does not name the host that the agent asked for" },
        { SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE, MINE "it is not a client certificate",
          ITS "it is not a server certificate" },
#undef MINE
#undef ITS
        { SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED,
          "the aggregator requires a certificate of this node: --tls-cert and --tls-key",
          "an agent requires a certificate" },
        { SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE,
          "the aggregator refused the handshake: it may require a certificate of this node "
          "(--tls-cert, --tls-key)",
          "an agent refused the handshake" },
        { SSL_R_TLSV1_ALERT_PROTOCOL_VERSION, "the aggregator supports neither TLS 1.2 nor 1.3",
          "an agent supports neither TLS 1.2 nor 1.3" },
        { SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE, "the aggregator sent no certificate",
          "an agent sent no certificate: give it --tls-cert and --tls-key" },
        { SSL_R_UNSUPPORTED_PROTOCOL, "the aggregator supports only TLS older than 1.2",
          "an agent supports only TLS older than 1.2" },
        { SSL_R_VERSION_TOO_LOW, "the aggregator supports only TLS older than 1.2",
          "an agent supports only TLS older than 1.2" },
        { SSL_R_WRONG_VERSION_NUMBER,
          "the aggregator's address does not use TLS: should it be tcp://?",
          "a client without TLS connected to this address: agents need tls+tcp://" },
        { SSL_R_PACKET_LENGTH_TOO_LONG,
          "the aggregator's address does not use TLS: should it be tcp://?",
          "a client without TLS connected to this address: agents need tls+tcp://" },
        { SSL_R_HTTP_REQUEST, "the aggregator's address answers with HTTP: give its data port",
          "a client sent HTTP to this address: use the HTTP port" },
        { SSL_R_NO_SHARED_CIPHER, "no common cipher", "no common cipher with an agent" },
    };
    const char *reason = ERR_reason_error_string(code);

    for (size_t i = 0; i < MRD_COUNT(known); i++) {
        if (ERR_GET_LIB(code) == ERR_LIB_SSL && ERR_GET_REASON(code) == known[i].reason) {
            snprintf(to, size, "%s", conn->tls->server ? known[i].server : known[i].client);
            return;
        }
    }
    snprintf(to, size, "%s: %s",
             conn->tls->server ? "TLS with an agent failed" : "TLS with the aggregator failed",
             reason == NULL ? "broken off" : reason);
}

/* Marks the connection as failed because of TLS. The first call adds the reason to the list of
 * errors. */
static int
conn_failed(nng_tls_engine_conn *conn)
{
    char message[MRD_WHY_MAX];

    if (!conn->failed) {
        conn->failed = true;
        if (conn->refused[0] != '\0')
            add_error(conn->tls, conn->refused);
        else {
            explain(conn, ERR_peek_error(), message, sizeof(message));
            add_error(conn->tls, message);
        }
    }
    ERR_clear_error();
    return NNG_EPEERAUTH;
}

/* ---- Data from and to NNG's socket ---- */

static int
bio_write(BIO *bio, const char *data, int len)
{
    nng_tls_engine_conn *conn = BIO_get_data(bio);
    size_t n = (size_t) len;
    int rv;

    BIO_clear_retry_flags(bio);
    rv = nng_tls_engine_send(conn->nng, (const uint8_t *) data, &n);
    if (rv == NNG_EAGAIN)
        BIO_set_retry_write(bio);
    return rv == 0 ? (int) n : -1;
}

/* Counts the connection's handshake, which waits for bytes of its peer, in the memory budget. */
static void
count_wait(nng_tls_engine_conn *conn, const mrd_nng_receive *wait)
{
    pthread_mutex_lock(&conn->tls->lock);
    if (conn->tls->unaccepted != NULL) {
        mrd_unaccepted_waits(conn->tls->unaccepted, wait->stream, wait->aio);
        conn->tcp = wait->stream;
    }
    pthread_mutex_unlock(&conn->tls->lock);
}

static int
bio_read(BIO *bio, char *data, int len)
{
    nng_tls_engine_conn *conn = BIO_get_data(bio);
    mrd_nng_receive wait = { 0 };
    size_t n = (size_t) len;
    int rv;

    BIO_clear_retry_flags(bio);
    mrd_nng_receiving = &wait;
    rv = nng_tls_engine_recv(conn->nng, (uint8_t *) data, &n);
    mrd_nng_receiving = NULL;
    if (wait.stream != NULL && !conn->up)
        count_wait(conn, &wait);
    if (rv == NNG_EAGAIN)
        BIO_set_retry_read(bio);
    conn->received = conn->received || rv == 0;
    return rv == 0 ? (int) n : -1;
}

static long
bio_ctrl(BIO *bio, int what, long number, void *p)
{
    (void) bio;
    (void) number;
    (void) p;
    return what == BIO_CTRL_FLUSH; /* NNG sends at once */
}

static BIO_METHOD *bio_method; /* created once, and never freed */

/* ---- Connections ---- */

/* Converts the result `ret` of an OpenSSL call to 0, to NNG_EAGAIN, or to an error after which NNG
 * closes the connection. */
static int
conn_result(nng_tls_engine_conn *conn, int ret)
{
    switch (SSL_get_error(conn->ssl, ret)) {
    case SSL_ERROR_NONE:
        return 0;
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        return NNG_EAGAIN;
    case SSL_ERROR_ZERO_RETURN:
        return NNG_ECLOSED;
    /* if the peer closed the socket, this is no TLS error, and NNG detects the end itself */
    case SSL_ERROR_SYSCALL:
        if (ERR_peek_error() == 0)
            return NNG_ECLOSED;
        return conn_failed(conn);
    default:
        return conn_failed(conn);
    }
}

static int
conn_init(nng_tls_engine_conn *conn, void *nng, nng_tls_engine_config *config)
{
    mrd_tls *tls = config->tls;
    unsigned char raw[16];
    BIO *bio;
    bool ok;

    if (tls == NULL)
        return NNG_ECRYPTO;
    conn->nng = nng;
    pthread_mutex_lock(&tls->lock);
    tls->refs++;
    conn->tls = tls;
    if (tls->unaccepted == NULL || mrd_unaccepted_has_room(tls->unaccepted))
        conn->ssl = SSL_new(tls->ctx);
    pthread_mutex_unlock(&tls->lock);
    if (conn->ssl == NULL || (bio = BIO_new(bio_method)) == NULL)
        return NNG_ENOMEM;
    BIO_set_data(bio, conn);
    BIO_set_init(bio, 1);
    SSL_set_bio(conn->ssl, bio, bio);
    SSL_set_app_data(conn->ssl, conn);
    if (tls->server) {
        SSL_set_accept_state(conn->ssl);
        return 0;
    }
    SSL_set_connect_state(conn->ssl);
    if (inet_pton(AF_INET, config->name, raw) == 1 || inet_pton(AF_INET6, config->name, raw) == 1)
        ok = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(conn->ssl), config->name) == 1;
    else
        ok = SSL_set1_host(conn->ssl, config->name) == 1 &&
             SSL_set_tlsext_host_name(conn->ssl, config->name) == 1;
    return ok ? 0 : NNG_ECRYPTO;
}

static void
conn_fini(nng_tls_engine_conn *conn)
{
    if (conn->tcp != NULL)
        mrd_unaccepted_stream_gone(conn->tcp);
    conn->tcp = NULL;
    SSL_free(conn->ssl);
    conn->ssl = NULL;
    mrd_tls_unref(conn->tls);
    conn->tls = NULL;
}

static void
conn_close(nng_tls_engine_conn *conn)
{
    if (conn->ssl == NULL || conn->failed)
        return;
    if (conn->up && !conn->tls->server && !conn->answered) {
        conn->failed = true;
        add_error(conn->tls,
                  "the aggregator closed the connection after the handshake: its log says "
                  "why (AGG-TLS)");
    } else if (conn->up) {
        (void) SSL_shutdown(conn->ssl);
        ERR_clear_error();
    } else if (!conn->tls->server && conn->received) {
        /* The peer sent data and then disconnected without an alert. It may support only older TLS
         * versions, or the port belongs to another service. */
        conn->failed = true;
        add_error(conn->tls, "the aggregator closed the connection in the middle of the handshake");
    }
}

static int
conn_handshake(nng_tls_engine_conn *conn)
{
    X509 *peer;
    int rv;

    if (conn->up)
        return 0;
    if (conn->failed)
        return NNG_EPEERAUTH;
    ERR_clear_error();
    if ((rv = conn_result(conn, SSL_do_handshake(conn->ssl))) != 0)
        return rv;
    conn->up = true;
    if ((peer = SSL_get1_peer_certificate(conn->ssl)) != NULL)
        mrd_cert_names(peer, '\n', conn->names, sizeof(conn->names));
    X509_free(peer);
    return 0;
}

static int
conn_recv(nng_tls_engine_conn *conn, uint8_t *to, size_t *size)
{
    int rv = conn_handshake(conn);

    if (rv != 0)
        return rv;
    ERR_clear_error();
    return conn_result(conn, SSL_read_ex(conn->ssl, to, *size, size));
}

/*
 * Makes the client wait for the server's first bytes after the handshake. In TLS 1.3 a client
 * completes its handshake before the server has verified the client's certificate. If the client
 * sent data at once and the server had refused the certificate, the data would reach a closed
 * socket. The resulting reset would then hide the server's alert with the reason. NNG's protocol
 * always sends bytes at the start, so the wait ends.
 */
static int
await_answer(nng_tls_engine_conn *conn)
{
    uint8_t byte;
    size_t n;
    int rv;

    ERR_clear_error();
    rv = conn_result(conn, SSL_peek_ex(conn->ssl, &byte, 1, &n));
    conn->answered = rv == 0;
    return rv;
}

static int
conn_send(nng_tls_engine_conn *conn, const uint8_t *from, size_t *size)
{
    int rv = conn_handshake(conn);

    if (rv == 0 && !conn->tls->server && !conn->answered)
        rv = await_answer(conn);
    if (rv != 0)
        return rv;
    ERR_clear_error();
    return conn_result(conn, SSL_write_ex(conn->ssl, from, *size, size));
}

static bool
conn_verified(nng_tls_engine_conn *conn)
{
    if (asking != NULL)
        snprintf(asking, asking_size, "%s", conn->names);
    return conn->up && conn->names[0] != '\0';
}

bool
mrd_tls_peer(nng_pipe pipe, char *ret_names, size_t size)
{
    bool verified = false;

    ret_names[0] = '\0';
    asking = ret_names;
    asking_size = size;
    if (nng_pipe_get_bool(pipe, NNG_OPT_TLS_VERIFIED, &verified) != 0)
        verified = false;
    asking = NULL;
    return verified;
}

/* ---- Configurations ---- */

static int
config_init(nng_tls_engine_config *config, nng_tls_mode mode)
{
    (void) mode;
    if (adopting != NULL) {
        pthread_mutex_lock(&adopting->lock);
        adopting->refs++;
        pthread_mutex_unlock(&adopting->lock);
        config->tls = adopting;
    }
    return 0;
}

static void
config_fini(nng_tls_engine_config *config)
{
    mrd_tls_unref(config->tls);
    config->tls = NULL;
}

static int
config_server(nng_tls_engine_config *config, const char *name)
{
    if (strlen(name) >= sizeof(config->name))
        return NNG_EINVAL;
    snprintf(config->name, sizeof(config->name), "%s", name);
    return 0;
}

/* Refuses NNG's functions that set files, authorities and versions, because mrd_tls has all of
 * these. They are allowed only in a configuration that NNG created for itself. */
static int
config_auth(nng_tls_engine_config *config, nng_tls_auth_mode mode)
{
    (void) mode;
    return config->tls == NULL ? 0 : NNG_ENOTSUP;
}

static int
config_ca_chain(nng_tls_engine_config *config, const char *certs, const char *crl)
{
    (void) certs;
    (void) crl;
    return config->tls == NULL ? 0 : NNG_ENOTSUP;
}

static int
config_own_cert(nng_tls_engine_config *config, const char *cert, const char *key, const char *pass)
{
    (void) cert;
    (void) key;
    (void) pass;
    return config->tls == NULL ? 0 : NNG_ENOTSUP;
}

static int
config_version(nng_tls_engine_config *config, nng_tls_version min, nng_tls_version max)
{
    (void) min;
    (void) max;
    return config->tls == NULL ? 0 : NNG_ENOTSUP;
}

static nng_tls_engine_config_ops config_ops = {
    .size = sizeof(nng_tls_engine_config),
    .init = config_init,
    .fini = config_fini,
    .server = config_server,
    .auth = config_auth,
    .ca_chain = config_ca_chain,
    .own_cert = config_own_cert,
    .version = config_version,
};

static nng_tls_engine_conn_ops conn_ops = {
    .size = sizeof(nng_tls_engine_conn),
    .init = conn_init,
    .fini = conn_fini,
    .close = conn_close,
    .handshake = conn_handshake,
    .recv = conn_recv,
    .send = conn_send,
    .verified = conn_verified,
};

static const nng_tls_engine engine = {
    .version = NNG_TLS_ENGINE_VERSION,
    .config_ops = &config_ops,
    .conn_ops = &conn_ops,
    .name = "openssl",
    .description = "OpenSSL by Meridian",
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int registered;

/* Prevents OpenSSL from cleaning up at exit, because NNG's threads close connections until the
 * process has ended. This must be the first OpenSSL call of the process, because later calls cannot
 * request this. */
__attribute__((constructor)) static void
stay(void)
{
    (void) OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
}

static void
register_engine(void)
{
    nng_tls_config *first = NULL;

    /* Creating the first configuration makes NNG initialise itself and register its own engine. Do
     * it here, so that the engine of this file is registered later and replaces NNG's. */
    if (nng_tls_config_alloc(&first, NNG_TLS_MODE_CLIENT) == 0)
        nng_tls_config_free(first);
    bio_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "nng");
    registered = bio_method != NULL && BIO_meth_set_write(bio_method, bio_write) == 1 &&
                         BIO_meth_set_read(bio_method, bio_read) == 1 &&
                         BIO_meth_set_ctrl(bio_method, bio_ctrl) == 1
                     ? nng_tls_engine_register(&engine)
                     : NNG_ENOMEM;
}

int
mrd_tls_nng_config(mrd_tls *tls, const char *name, nng_tls_config **ret_config)
{
    nng_tls_config *config = NULL;
    int rv;

    pthread_once(&once, register_engine);
    if (registered != 0)
        return registered;
    adopting = tls;
    rv = nng_tls_config_alloc(&config, tls->server ? NNG_TLS_MODE_SERVER : NNG_TLS_MODE_CLIENT);
    adopting = NULL;
    if (rv == 0 && name != NULL && (rv = nng_tls_config_server_name(config, name)) != 0)
        nng_tls_config_free(config);
    else if (rv == 0)
        *ret_config = config;
    return rv;
}

/* ---- Files ---- */

static int
no_passphrase(char *to, int size, int writing, void *self)
{
    (void) to;
    (void) size;
    (void) writing;
    (void) self;
    return -1; /* a key with a passphrase is refused, because there is no user to ask */
}

static mrd_err
ssl_why(mrd_why *why, const char *what, const char *path)
{
    unsigned long code = ERR_peek_last_error();
    const char *reason = access(path, R_OK) != 0 ? strerror(errno) : ERR_reason_error_string(code);

    ERR_clear_error();
    return mrd_why_set(why, MRD_AUTH, 0, "%s %s: %s", what, path,
                       reason == NULL ? "cannot be read" : reason);
}

/* Loads the certificate authorities from a PEM file, and revocation lists if the file has any. */
static mrd_err
load_ca(SSL_CTX *ctx, const char *path, bool server, mrd_why *why)
{
    X509_STORE *store = SSL_CTX_get_cert_store(ctx);
    X509_LOOKUP *lookup = X509_STORE_add_lookup(store, X509_LOOKUP_file());
    STACK_OF(X509_OBJECT) * objects;
    STACK_OF(X509_NAME) * names;
    bool lists = false;

    if (lookup == NULL || X509_load_cert_crl_file(lookup, path, X509_FILETYPE_PEM) <= 0)
        return ssl_why(why, "authorities", path);
    objects = X509_STORE_get0_objects(store);
    for (int i = 0; i < sk_X509_OBJECT_num(objects); i++)
        lists = lists || X509_OBJECT_get_type(sk_X509_OBJECT_value(objects, i)) == X509_LU_CRL;
    if (lists)
        X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK);
    if (server && (names = SSL_load_client_CA_file(path)) != NULL)
        SSL_CTX_set_client_CA_list(ctx, names);
    return MRD_OK;
}

static mrd_err
load_own(SSL_CTX *ctx, const mrd_tls *tls, mrd_why *why)
{
    mrd_err err = mrd_secret_check("key file", tls->key, why);

    if (err != MRD_OK)
        return err;
    if (SSL_CTX_use_certificate_chain_file(ctx, tls->cert) != 1)
        return ssl_why(why, "certificate", tls->cert);
    if (SSL_CTX_use_PrivateKey_file(ctx, tls->key, SSL_FILETYPE_PEM) != 1)
        return ssl_why(why, "key file", tls->key);
    if (SSL_CTX_check_private_key(ctx) != 1)
        return ssl_why(why, "key file", tls->key);
    return MRD_OK;
}

static mrd_err
context_new(const mrd_tls *tls, SSL_CTX **ret_ctx, mrd_why *why)
{
    SSL_CTX *ctx = SSL_CTX_new(tls->server ? TLS_server_method() : TLS_client_method());
    mrd_err err = MRD_OK;

    if (ctx == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "TLS");
    SSL_CTX_set_default_passwd_cb(ctx, no_passphrase);
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_RELEASE_BUFFERS);
    if (SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1 ||
        SSL_CTX_set_num_tickets(ctx, 0) != 1 || SSL_CTX_set_max_send_fragment(ctx, FRAGMENT) != 1)
        err = ssl_why(why, "TLS", "settings");
    if (err == MRD_OK && tls->ca != NULL) {
        err = load_ca(ctx, tls->ca, tls->server, why);
        SSL_CTX_set_verify(
            ctx, SSL_VERIFY_PEER | (tls->server ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0), on_verify);
    }
    if (err == MRD_OK && tls->cert != NULL)
        err = load_own(ctx, tls, why);
    if (err != MRD_OK)
        SSL_CTX_free(ctx);
    else
        *ret_ctx = ctx;
    return err;
}

static uint64_t
stamp_of(const mrd_tls *tls)
{
    const char *files[] = { tls->ca, tls->cert, tls->key };

    return mrd_files_stamp(files, MRD_COUNT(files));
}

mrd_err
mrd_tls_reload(mrd_tls *tls, mrd_why *why)
{
    uint64_t stamp = stamp_of(tls);
    SSL_CTX *ctx = NULL, *old;
    mrd_err err = context_new(tls, &ctx, why);

    if (err != MRD_OK)
        return err;
    pthread_mutex_lock(&tls->lock);
    old = tls->ctx;
    tls->ctx = ctx;
    tls->stamp = stamp;
    pthread_mutex_unlock(&tls->lock);
    SSL_CTX_free(old); /* safe, because open connections have their own references */
    return MRD_OK;
}

bool
mrd_tls_changed(mrd_tls *tls)
{
    uint64_t now = stamp_of(tls);
    bool changed;

    pthread_mutex_lock(&tls->lock);
    changed = now != tls->stamp;
    pthread_mutex_unlock(&tls->lock);
    return changed;
}

static char *
copy_of(const char *text)
{
    return text == NULL ? NULL : mrd_str_dup(mrd_str_of(text));
}

mrd_err
mrd_tls_open(const mrd_link_tls *files, bool server, mrd_tls **ret_tls, mrd_why *why)
{
    mrd_tls *tls;
    mrd_err err;

    if (server && (files->cert_file == NULL || files->key_file == NULL))
        return mrd_why_set(why, MRD_INVALID, 0,
                           "an address with TLS needs a certificate and a key (--tls-cert, "
                           "--tls-key)");
    if (!server && files->ca_file == NULL)
        return mrd_why_set(why, MRD_INVALID, 0,
                           "an aggregator with TLS needs the authority to trust (--tls-ca)");
    if ((files->cert_file == NULL) != (files->key_file == NULL))
        return mrd_why_set(why, MRD_INVALID, 0, "--tls-cert and --tls-key go together");
    if ((tls = calloc(1, sizeof(*tls))) == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "TLS");
    tls->magic = TLS_MAGIC;
    tls->server = server;
    tls->refs = 1;
    pthread_mutex_init(&tls->lock, NULL);
    mrd_error_list_init(&tls->errors);
    tls->ca = copy_of(files->ca_file);
    tls->cert = copy_of(files->cert_file);
    tls->key = copy_of(files->key_file);
    if ((err = mrd_tls_reload(tls, why)) != MRD_OK)
        mrd_tls_unref(tls);
    else
        *ret_tls = tls;
    return err;
}

void
mrd_tls_unref(mrd_tls *tls)
{
    bool last;

    if (tls == NULL)
        return;
    MRD_CHECK_MAGIC(tls, TLS_MAGIC);
    pthread_mutex_lock(&tls->lock);
    last = --tls->refs == 0;
    pthread_mutex_unlock(&tls->lock);
    if (!last)
        return;
    SSL_CTX_free(tls->ctx);
    pthread_mutex_destroy(&tls->lock);
    mrd_error_list_fini(&tls->errors);
    free(tls->ca);
    free(tls->cert);
    free(tls->key);
    tls->magic = 0;
    free(tls);
}
