/* Tests which peers can connect with TLS and which are refused, the messages of both sides, and
 * certificates that change while connections exist. */
#include "proto/link.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <time.h>

#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/sys/out.h"
#include "pki/pki.h"
#include "tests/check.h"
#include "tests/wait.h"

/* ---- Certificates ---- */

static const char *
file_of(const char *dir, const char *name)
{
    static _Thread_local char paths[256][300];
    static _Thread_local unsigned at;
    char *to = paths[at++ % MRD_COUNT(paths)];

    snprintf(to, sizeof(paths[0]), "%s/%s/%s", test_tmp(), dir, name);
    return to;
}

static void
issue(const char *dir, const char *file, const char *name, const char *host, int64_t days,
      bool server)
{
    mrd_strlist hosts = { 0 };
    mrd_pki_request r = { .dir = file_of(dir, ""),
                          .name = name,
                          .file = file,
                          .hosts = host == NULL ? NULL : &hosts,
                          .days = days,
                          .server = server };
    mrd_why why = { 0 };

    if (host != NULL)
        CHECK_ERR(host, mrd_strlist_add(&hosts, mrd_str_of(host)), MRD_OK);
    CHECK_ERR(name, mrd_pki_issue(&r, false, &why), MRD_OK);
    mrd_strlist_fini(&hosts);
}

/* Makes two sets: "ours", the certificates of a cluster, and "theirs", the same names from another
 * authority. */
static void
make_certificates(void)
{
    mrd_why why = { 0 };

    for (int i = 0; i < 2; i++) {
        const char *dir = i == 0 ? "ours" : "theirs";

        CHECK_ERR(dir, mrd_pki_authority(file_of(dir, ""), 30, &why), MRD_OK);
        issue(dir, "server", "aggregator", "localhost", 30, true);
        issue(dir, "agent", "i-1", NULL, 30, false);
    }
    issue("ours", "server-old", "aggregator", "localhost", -1, true);
    issue("ours", "agent-old", "i-1", NULL, -1, false);
    issue("ours", "server-elsewhere", "aggregator", "elsewhere.example", 30, true);
    issue("ours", "server-ip", "aggregator", "127.0.0.1", 30, true);
}

/* ---- Two ends ---- */

typedef struct {
    mrd_server *server;
    mrd_link *link;
    char url[128];
    char server_said[MRD_WHY_MAX], link_said[MRD_WHY_MAX];
    unsigned replies;
} ends;

static mrd_link_tls
server_files(const char *file, bool ask)
{
    char cert[64], key[64];

    snprintf(cert, sizeof(cert), "%s.pem", file);
    snprintf(key, sizeof(key), "%s.key", file);
    return (mrd_link_tls){ .ca_file = ask ? file_of("ours", "ca.pem") : NULL,
                           .cert_file = file_of("ours", cert),
                           .key_file = file_of("ours", key) };
}

static bool
serve(ends *e, const char *scheme, mrd_link_tls tls)
{
    char url[64];
    mrd_why why = { 0 };
    mrd_server_options o = { .data_url = url, .tls = tls };

    snprintf(url, sizeof(url), "%s://127.0.0.1:0", scheme);
    CHECK_ERR(url, mrd_server_open(&o, &e->server, &why), MRD_OK);
    if (e->server == NULL) {
        fprintf(stderr, "%s\n", why.text);
        return false;
    }
    snprintf(e->url, sizeof(e->url), "%s", mrd_server_data_url(e->server));
    return true;
}

static mrd_link *
dial_to(const char *url, mrd_link_tls tls)
{
    mrd_link_options o = { .data_url = url,
                           .tls = tls,
                           .reconnect_min_ns = 20 * MRD_MS,
                           .reconnect_max_ns = 50 * MRD_MS };
    mrd_link *link = NULL;
    mrd_why why = { 0 };

    CHECK_ERR(url, mrd_link_open(&o, &link, &why), MRD_OK);
    return link;
}

/* Answers requests and collects messages. */
static void
turn(ends *e)
{
    mrd_server_request request;
    mrd_link_event event;
    mrd_why why;

    while (e->server != NULL && mrd_server_next(e->server, 0, &request))
        mrd_server_reply(e->server, &request, (mrd_bytes){ (const uint8_t *) "ok", 2 });
    while (e->link != NULL && mrd_link_next(e->link, 0, &event)) {
        e->replies += event.kind == MRD_LINK_REPLY;
        mrd_link_event_done(&event);
    }
    while (e->server != NULL && mrd_server_next_error(e->server, &why))
        snprintf(e->server_said, sizeof(e->server_said), "%s", why.text);
    while (e->link != NULL && mrd_link_next_error(e->link, &why))
        snprintf(e->link_said, sizeof(e->link_said), "%s", why.text);
    test_look_again();
}

#define UNTIL(e, cond)                                                                             \
    do {                                                                                           \
        int64_t end_ = mrd_local_now().ns + 60 * MRD_SEC;                                          \
        while (!(cond) && mrd_local_now().ns < end_)                                               \
            turn(e);                                                                               \
        CHECK(cond);                                                                               \
    } while (0)

/* Sends a request and waits for its reply. */
static void
exchange(ends *e)
{
    unsigned before = e->replies;

    CHECK_ERR("submit", mrd_link_submit(e->link, 1, (mrd_bytes){ (const uint8_t *) "hello", 5 }),
              MRD_OK);
    UNTIL(e, e->replies > before);
}

static void
finish(ends *e)
{
    mrd_link_close(e->link);
    mrd_server_close(e->server);
    memset(e, 0, sizeof(*e));
}

/* ---- The matrix ---- */

static const struct {
    const char *name;
    const char *server_scheme, *server_cert;
    bool ask; /* request a certificate from the agent */
    const char *link_scheme, *trust, *link_dir, *link_cert, *server_name;
    const char *link_says, *server_says; /* part of the message; both NULL if they connect */
} rows[] = {
    { "server proven", "tls+tcp", "server", false, "tls+tcp", "ours", NULL, NULL, "localhost", NULL,
      NULL },
    { "both proven", "tls+tcp", "server", true, "tls+tcp", "ours", "ours", "agent", "localhost",
      NULL, NULL },
    { "address in the certificate", "tls+tcp", "server-ip", true, "tls+tcp", "ours", "ours",
      "agent", NULL, NULL, NULL },
    { "wrong authority", "tls+tcp", "server", false, "tls+tcp", "theirs", NULL, NULL, "localhost",
      "the aggregator's certificate (aggregator localhost) is not signed by an authority in",
      "an agent rejects this aggregator's certificate: it is not signed by an authority" },
    { "server expired", "tls+tcp", "server-old", false, "tls+tcp", "ours", NULL, NULL, "localhost",
      "the aggregator's certificate (aggregator localhost) expired on 2",
      "an agent rejects this aggregator's certificate: it has expired" },
    { "other host", "tls+tcp", "server-elsewhere", false, "tls+tcp", "ours", NULL, NULL,
      "localhost", "names aggregator elsewhere.example and not the host",
      "an agent rejects this aggregator's certificate: its names are not the host" },
    { "other address, from the URL", "tls+tcp", "server", false, "tls+tcp", "ours", NULL, NULL,
      NULL, "names aggregator localhost and not the host",
      "an agent rejects this aggregator's certificate: its names are not the host" },
    { "an agent's certificate on the server", "tls+tcp", "agent", false, "tls+tcp", "ours", NULL,
      NULL, "localhost", "the aggregator's certificate (i-1) is rejected: unsuit",
      "an agent rejects this aggregator's certificate: it is not a server certificate" },
    { "no certificate of the agent", "tls+tcp", "server", true, "tls+tcp", "ours", NULL, NULL,
      "localhost", "the aggregator requires a certificate of this node: --tls-cert and --tls-key",
      "an agent sent no certificate: give it --tls-cert and --tls-key" },
    { "agent of another authority", "tls+tcp", "server", true, "tls+tcp", "ours", "theirs", "agent",
      "localhost",
      "the aggregator rejects this node's certificate: it is not signed by an authority",
      "the agent's certificate (i-1) is not signed by an authority in" },
    { "agent expired", "tls+tcp", "server", true, "tls+tcp", "ours", "ours", "agent-old",
      "localhost", "the aggregator rejects this node's certificate: it has expired",
      "the agent's certificate (i-1) expired on 2" },
    { "TLS to a plain address", "tcp", NULL, false, "tls+tcp", "ours", NULL, NULL, "localhost",
      "the aggregator's address does not use TLS: should it be tcp://?", NULL },
    { "plain to a TLS address", "tls+tcp", "server", false, "tcp", NULL, NULL, NULL, NULL, NULL,
      "a client without TLS connected to this address: agents need tls+tcp://" },
};

/* Returns true if the message is as expected. If the socket closes before the TLS alert with the
 * reason arrives, a general message is accepted too. */
static bool
says(const char *said, const char *wanted)
{
    return strstr(said, wanted) != NULL ||
           (strstr(wanted, "the aggregator") != NULL &&
            strstr(said, "closed the connection after the handshake") != NULL);
}

TEST(who_gets_through)
{
    make_certificates();
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        bool up = rows[i].link_says == NULL && rows[i].server_says == NULL;
        mrd_link_tls tls = { .server_name = rows[i].server_name }, none = { 0 };
        char url[160], cert[64], key[64];
        ends e = { 0 };

        if (rows[i].trust != NULL)
            tls.ca_file = file_of(rows[i].trust, "ca.pem");
        if (rows[i].link_cert != NULL) {
            snprintf(cert, sizeof(cert), "%s.pem", rows[i].link_cert);
            snprintf(key, sizeof(key), "%s.key", rows[i].link_cert);
            tls.cert_file = file_of(rows[i].link_dir, cert);
            tls.key_file = file_of(rows[i].link_dir, key);
        }
        REQUIRE(serve(
            &e, rows[i].server_scheme,
            rows[i].server_cert == NULL ? none : server_files(rows[i].server_cert, rows[i].ask)));
        snprintf(url, sizeof(url), "%s%s", rows[i].link_scheme, strstr(e.url, "://"));
        REQUIRE((e.link = dial_to(url, tls)) != NULL);
        if (up) {
            UNTIL(&e, mrd_link_is_up(e.link));
            exchange(&e);
            CHECK_ROW(rows[i].name, e.link_said[0] == '\0' && e.server_said[0] == '\0');
        } else {
            UNTIL(&e, (rows[i].link_says == NULL || e.link_said[0] != '\0') &&
                          (rows[i].server_says == NULL || e.server_said[0] != '\0'));
            CHECK_ROW(rows[i].name,
                      !mrd_link_is_up(e.link) && mrd_server_connections(e.server) == 0);
            if (rows[i].link_says != NULL && !says(e.link_said, rows[i].link_says))
                CHECK_TEXT(e.link_said, rows[i].link_says);
            if (rows[i].server_says != NULL && strstr(e.server_said, rows[i].server_says) == NULL)
                CHECK_TEXT(e.server_said, rows[i].server_says);
        }
        finish(&e);
    }
}

/* ---- Peers that are not ours ---- */

static int
plain_socket(const char *url)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    to.sin_port = htons((uint16_t) atoi(strrchr(url, ':') + 1));
    CHECK(connect(fd, (struct sockaddr *) &to, sizeof(to)) == 0);
    return fd;
}

/* Starts a handshake limited to a version, as a foreign client. Returns true if it succeeded. */
static bool
shake_with(int fd, int version)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    SSL *ssl;
    bool ok;

    SSL_CTX_set_security_level(ctx, 0);
    CHECK(SSL_CTX_set_min_proto_version(ctx, version) == 1);
    CHECK(SSL_CTX_set_max_proto_version(ctx, version) == 1);
    SSL_CTX_set_cipher_list(ctx, "ALL:@SECLEVEL=0");
    ssl = SSL_new(ctx);
    SSL_set_fd(ssl, fd);
    ok = SSL_connect(ssl) == 1;
    SSL_free(ssl);
    SSL_CTX_free(ctx);
    return ok;
}

TEST(old_versions_are_refused)
{
    static const struct {
        const char *name;
        int version;
        bool taken;
    } versions[] = { { "TLS 1.0", TLS1_VERSION, false },
                     { "TLS 1.1", TLS1_1_VERSION, false },
                     { "TLS 1.2", TLS1_2_VERSION, true },
                     { "TLS 1.3", TLS1_3_VERSION, true } };
    ends e = { 0 };

    make_certificates();
    REQUIRE(serve(&e, "tls+tcp", server_files("server", false)));
    for (size_t i = 0; i < MRD_COUNT(versions); i++) {
        int fd = plain_socket(e.url);

        e.server_said[0] = '\0';
        CHECK_ROW(versions[i].name, shake_with(fd, versions[i].version) == versions[i].taken);
        if (!versions[i].taken) {
            UNTIL(&e, e.server_said[0] != '\0');
            CHECK_TEXT(e.server_said, "an agent supports only TLS older than 1.2");
        }
        close(fd);
    }
    finish(&e);
}

/* The thread of a server of another program, which supports TLS 1.1 at most. It serves one
 * connection at a time. */
static void *
old_server(void *self)
{
    int listener = *(int *) self, fd;
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());

    SSL_CTX_set_security_level(ctx, 0);
    SSL_CTX_set_min_proto_version(ctx, TLS1_VERSION);
    SSL_CTX_set_max_proto_version(ctx, TLS1_1_VERSION);
    SSL_CTX_set_cipher_list(ctx, "ALL:@SECLEVEL=0");
    CHECK(SSL_CTX_use_certificate_file(ctx, file_of("ours", "server.pem"), SSL_FILETYPE_PEM) == 1);
    CHECK(SSL_CTX_use_PrivateKey_file(ctx, file_of("ours", "server.key"), SSL_FILETYPE_PEM) == 1);
    while ((fd = accept(listener, NULL, NULL)) >= 0) {
        SSL *ssl = SSL_new(ctx);

        SSL_set_fd(ssl, fd);
        (void) SSL_accept(ssl);
        SSL_free(ssl);
        close(fd);
    }
    SSL_CTX_free(ctx);
    return NULL;
}

TEST(old_servers_are_refused)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(at);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char url[64];
    pthread_t thread;
    ends e = { 0 };

    make_certificates();
    REQUIRE(bind(listener, (struct sockaddr *) &at, sizeof(at)) == 0 && listen(listener, 8) == 0 &&
            getsockname(listener, (struct sockaddr *) &at, &len) == 0);
    snprintf(url, sizeof(url), "tls+tcp://127.0.0.1:%u", ntohs(at.sin_port));
    REQUIRE(pthread_create(&thread, NULL, old_server, &listener) == 0);
    e.link = dial_to(
        url, (mrd_link_tls){ .ca_file = file_of("ours", "ca.pem"), .server_name = "localhost" });
    UNTIL(&e, e.link_said[0] != '\0');
    CHECK(!mrd_link_is_up(e.link));
    CHECK_TEXT(e.link_said, "the aggregator supports neither TLS 1.2 nor 1.3");
    finish(&e);
    shutdown(listener, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(listener);
}

TEST(unauthenticated_peers_at_the_port)
{
    static const char get[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    uint8_t noise[600];
    ends e = { 0 };
    int fd;

    make_certificates();
    REQUIRE(serve(&e, "tls+tcp", server_files("server", true)));
    fd = plain_socket(e.url); /* a health check connects and disconnects */
    close(fd);
    fd = plain_socket(e.url);
    CHECK(write(fd, get, sizeof(get) - 1) == (ssize_t) sizeof(get) - 1);
    UNTIL(&e, e.server_said[0] != '\0');
    CHECK_TEXT(e.server_said, "a client sent HTTP to this address: use the HTTP port");
    close(fd);
    e.server_said[0] = '\0';
    memset(noise, 0xa5, sizeof(noise));
    fd = plain_socket(e.url);
    CHECK(write(fd, noise, sizeof(noise)) == (ssize_t) sizeof(noise));
    UNTIL(&e, e.server_said[0] != '\0');
    close(fd);
    /* agents are still served */
    e.link = dial_to(e.url, (mrd_link_tls){ .ca_file = file_of("ours", "ca.pem"),
                                            .cert_file = file_of("ours", "agent.pem"),
                                            .key_file = file_of("ours", "agent.key"),
                                            .server_name = "localhost" });
    UNTIL(&e, mrd_link_is_up(e.link));
    exchange(&e);
    finish(&e);
}

/* ---- Handshakes that do not end ---- */

#define SILENT 200

static bool
serve_briefly(ends *e, size_t budget, mrd_dur_ns handshake)
{
    mrd_server_options o = { .data_url = "tls+tcp://127.0.0.1:0",
                             .control_url = "tls+tcp://127.0.0.1:0",
                             .tls = server_files("server", true),
                             .unaccepted_bytes = budget,
                             .handshake = handshake };
    mrd_why why = { 0 };

    make_certificates();
    CHECK_ERR("server", mrd_server_open(&o, &e->server, &why), MRD_OK);
    if (e->server != NULL)
        snprintf(e->url, sizeof(e->url), "%s", mrd_server_data_url(e->server));
    return e->server != NULL;
}

/* Connects clients that never send anything, half of them to the control address. */
static void
stay_silent(const ends *e, int *fd, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        fd[i] = plain_socket(i % 2 == 0 ? e->url : mrd_server_control_url(e->server));
}

static void
hang_up(const int *fd, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        close(fd[i]);
}

static void
check_served(ends *e)
{
    e->link = dial_to(e->url, (mrd_link_tls){ .ca_file = file_of("ours", "ca.pem"),
                                              .cert_file = file_of("ours", "agent.pem"),
                                              .key_file = file_of("ours", "agent.key"),
                                              .server_name = "localhost" });
    UNTIL(e, mrd_link_is_up(e->link));
    exchange(e);
}

/* NNG's own timeout does not end the TLS handshake of a silent client (proto/nng/README.md). */
TEST(a_handshake_has_a_deadline)
{
    ends e = { 0 };
    int fd[SILENT];

    REQUIRE(serve_briefly(&e, 0, 200 * MRD_MS));
    stay_silent(&e, fd, 8);
    UNTIL(&e, mrd_server_unaccepted_closed(e.server) == 8);
    UNTIL(&e, mrd_server_unaccepted_bytes(e.server) == 0);
    for (unsigned i = 0; i < 8; i++) { /* NNG closes its end a moment later */
        char c;

        CHECK(recv(fd[i], &c, 1, 0) <= 0);
    }
    check_served(&e);
    finish(&e);
    hang_up(fd, 8);
}

/* Handshakes share the budget of connections that are not accepted, and an agent still connects. */
TEST(handshakes_are_bounded_together)
{
    size_t budget = (size_t) 2 << 20;
    ends e = { 0 };
    int fd[SILENT];

    REQUIRE(serve_briefly(&e, budget, 0));
    stay_silent(&e, fd, SILENT);
    check_served(&e);
    UNTIL(&e, mrd_server_unaccepted_bytes(e.server) <= budget);
    /* no more connections are closed than needed */
    CHECK(mrd_server_unaccepted_bytes(e.server) > budget / 2);
    hang_up(fd, SILENT);
    mrd_link_close(e.link);
    e.link = NULL;
    UNTIL(&e, mrd_server_unaccepted_bytes(e.server) == 0);
    finish(&e);
}

/* ---- Identity of the peer, from its certificate ---- */

TEST(the_certificate_names_the_agent)
{
    mrd_server_request request;
    char names[256];
    ends e = { 0 };

    make_certificates();
    issue("ours", "many", "i-7", "i-8", 30, false); /* a common name and a DNS name */
    REQUIRE(serve(&e, "tls+tcp", server_files("server", true)));
    e.link = dial_to(e.url, (mrd_link_tls){ .ca_file = file_of("ours", "ca.pem"),
                                            .cert_file = file_of("ours", "many.pem"),
                                            .key_file = file_of("ours", "many.key"),
                                            .server_name = "localhost" });
    UNTIL(&e, mrd_link_is_up(e.link));
    CHECK_ERR("submit", mrd_link_submit(e.link, 1, (mrd_bytes){ (const uint8_t *) "x", 1 }),
              MRD_OK);
    REQUIRE(mrd_server_next(e.server, 60000, &request));
    CHECK(mrd_server_peer_is(e.server, request.conn, "i-7", names, sizeof(names)));
    CHECK_TEXT(names, "i-7 i-8");
    CHECK(mrd_server_peer_is(e.server, request.conn, "i-8", names, sizeof(names)));
    CHECK(!mrd_server_peer_is(e.server, request.conn, "i-", names, sizeof(names)));
    CHECK(!mrd_server_peer_is(e.server, request.conn, "i-7 i-8", names, sizeof(names)));
    CHECK(!mrd_server_peer_is(e.server, request.conn, "i-70", names, sizeof(names)));
    CHECK(!mrd_server_peer_is(e.server, request.conn, "", names, sizeof(names)));
    mrd_server_drop(e.server, &request);
    finish(&e);
    REQUIRE(serve(&e, "tcp", (mrd_link_tls){ 0 }));
    e.link = dial_to(e.url, (mrd_link_tls){ 0 });
    UNTIL(&e, mrd_link_is_up(e.link));
    CHECK_ERR("submit", mrd_link_submit(e.link, 1, (mrd_bytes){ (const uint8_t *) "x", 1 }),
              MRD_OK);
    REQUIRE(mrd_server_next(e.server, 60000, &request));
    CHECK(!mrd_server_peer_is(e.server, request.conn, "i-7", names, sizeof(names)));
    CHECK_TEXT(names, "");
    mrd_server_drop(e.server, &request);
    finish(&e);
}

/* ---- Files that change ---- */

static void
copy(const char *from, const char *to)
{
    char name[64], text[8192], path[300];
    static const char *const suffixes[] = { ".pem", ".key" };
    mrd_why why = { 0 };

    for (size_t i = 0; i < MRD_COUNT(suffixes); i++) {
        FILE *f;
        size_t n;

        snprintf(name, sizeof(name), "%s%s", from, suffixes[i]);
        REQUIRE((f = fopen(file_of("ours", name), "r")) != NULL);
        n = fread(text, 1, sizeof(text), f);
        fclose(f);
        snprintf(name, sizeof(name), "%s%s", to, suffixes[i]);
        snprintf(path, sizeof(path), "%s", file_of("ours", name));
        CHECK_ERR(path, mrd_write_file(path, (mrd_bytes){ (uint8_t *) text, n }, 0600, &why),
                  MRD_OK);
    }
}

TEST(new_certificates_without_a_restart)
{
    mrd_link_tls trust;
    mrd_link *second;
    mrd_why why = { 0 };
    ends e = { 0 };

    make_certificates();
    copy("server", "live");
    trust = (mrd_link_tls){ .ca_file = file_of("ours", "ca.pem"), .server_name = "localhost" };
    REQUIRE(serve(&e, "tls+tcp", server_files("live", false)));
    e.link = dial_to(e.url, trust);
    UNTIL(&e, mrd_link_is_up(e.link));
    exchange(&e);
    CHECK(!mrd_server_changed(e.server));
    copy("server-old", "live");
    CHECK(mrd_server_changed(e.server));
    CHECK_ERR("expired, which a server cannot know", mrd_server_reload(e.server, &why), MRD_OK);
    CHECK(!mrd_server_changed(e.server));
    exchange(&e); /* existing connections stay up */
    second = e.link;
    e.link = dial_to(e.url, trust);
    UNTIL(&e, e.link_said[0] != '\0');
    CHECK(strstr(e.link_said, "expired on") != NULL && !mrd_link_is_up(e.link));
    copy("server", "live");
    CHECK_ERR("good again", mrd_server_reload(e.server, &why), MRD_OK);
    UNTIL(&e, mrd_link_is_up(e.link)); /* by itself */
    exchange(&e);
    mrd_link_close(e.link);
    e.link = second;
    exchange(&e);
    /* Unusable files leave the present certificates in use. */
    issue("ours", "live", "aggregator", "localhost", 30, true);
    copy("server", "mixed");
    REQUIRE(rename(file_of("ours", "mixed.key"), file_of("ours", "live.key")) == 0);
    CHECK_ERR("key of another certificate", mrd_server_reload(e.server, &why), MRD_AUTH);
    CHECK(strstr(why.text, "live.key") != NULL && mrd_server_changed(e.server));
    REQUIRE(chmod(file_of("ours", "live.key"), 0644) == 0);
    CHECK_ERR("key for everybody", mrd_server_reload(e.server, &why), MRD_DENIED);
    CHECK(strstr(why.text, "chmod 600") != NULL);
    exchange(&e);
    mrd_link_close(e.link);
    e.link = dial_to(e.url, trust);
    UNTIL(&e, mrd_link_is_up(e.link));
    exchange(&e);
    finish(&e);
}

/* Adds a revocation list with this certificate to the authority's file. */
static void
put_on_list(const char *victim)
{
    FILE *f = fopen(file_of("ours", "ca.key"), "r");
    EVP_PKEY *key = PEM_read_PrivateKey(f, NULL, NULL, NULL);
    X509_CRL *list = X509_CRL_new();
    X509_REVOKED *entry = X509_REVOKED_new();
    ASN1_TIME *when = X509_gmtime_adj(NULL, -60), *next = X509_gmtime_adj(NULL, 86400);
    X509 *ca, *cert;

    fclose(f);
    f = fopen(file_of("ours", "ca.pem"), "r");
    ca = PEM_read_X509(f, NULL, NULL, NULL);
    fclose(f);
    f = fopen(file_of("ours", victim), "r");
    cert = PEM_read_X509(f, NULL, NULL, NULL);
    fclose(f);
    X509_CRL_set_version(list, 1);
    X509_CRL_set_issuer_name(list, X509_get_subject_name(ca));
    X509_CRL_set1_lastUpdate(list, when);
    X509_CRL_set1_nextUpdate(list, next);
    X509_REVOKED_set_serialNumber(entry, X509_get_serialNumber(cert));
    X509_REVOKED_set_revocationDate(entry, when);
    CHECK(X509_CRL_add0_revoked(list, entry) == 1);
    CHECK(X509_CRL_sign(list, key, EVP_sha256()) > 0);
    f = fopen(file_of("ours", "ca.pem"), "a");
    CHECK(PEM_write_X509_CRL(f, list) == 1);
    fclose(f);
    ASN1_TIME_free(when);
    ASN1_TIME_free(next);
    X509_CRL_free(list);
    X509_free(ca);
    X509_free(cert);
    EVP_PKEY_free(key);
}

TEST(a_revoked_agent_stays_out)
{
    mrd_link_tls agent;
    mrd_why why = { 0 };
    ends e = { 0 };

    make_certificates();
    issue("ours", "thief", "i-9", NULL, 30, false);
    REQUIRE(serve(&e, "tls+tcp", server_files("server", true)));
    put_on_list("thief.pem");
    CHECK(mrd_server_changed(e.server));
    CHECK_ERR("list", mrd_server_reload(e.server, &why), MRD_OK);
    agent = (mrd_link_tls){ .ca_file = file_of("ours", "ca.pem"),
                            .cert_file = file_of("ours", "thief.pem"),
                            .key_file = file_of("ours", "thief.key"),
                            .server_name = "localhost" };
    e.link = dial_to(e.url, agent);
    UNTIL(&e, e.server_said[0] != '\0' && e.link_said[0] != '\0');
    CHECK(strstr(e.server_said, "the agent's certificate (i-9) is revoked") != NULL);
    CHECK(says(e.link_said, "the aggregator rejects this node's certificate: it is revoked"));
    mrd_link_close(e.link);
    agent.cert_file = file_of("ours", "agent.pem");
    agent.key_file = file_of("ours", "agent.key");
    e.link = dial_to(e.url, agent);
    UNTIL(&e, mrd_link_is_up(e.link));
    exchange(&e);
    finish(&e);
}

/* ---- Settings that cannot work ---- */

TEST(unusable_files_are_named)
{
    mrd_link_options o = { .data_url = "tls+tcp://127.0.0.1:1" };
    mrd_server_options s = { .data_url = "tls+tcp://127.0.0.1:0" };
    mrd_server *server = NULL;
    mrd_link *link = NULL;
    mrd_why why = { 0 };

    make_certificates();
    CHECK_ERR("no authority", mrd_link_open(&o, &link, &why), MRD_INVALID);
    CHECK(strstr(why.text, "--tls-ca") != NULL);
    o.tls.ca_file = file_of("ours", "server.key");
    CHECK_ERR("an authority that is none", mrd_link_open(&o, &link, &why), MRD_AUTH);
    CHECK(strstr(why.text, "server.key") != NULL);
    o.tls.ca_file = file_of("ours", "absent.pem");
    CHECK_ERR("absent", mrd_link_open(&o, &link, &why), MRD_AUTH);
    o.tls = (mrd_link_tls){ .ca_file = file_of("ours", "ca.pem"),
                            .cert_file = file_of("ours", "agent.pem") };
    CHECK_ERR("half", mrd_link_open(&o, &link, &why), MRD_INVALID);
    o.tls.key_file = file_of("theirs", "agent.key");
    CHECK_ERR("key of another", mrd_link_open(&o, &link, &why), MRD_AUTH);
    REQUIRE(chmod(file_of("ours", "agent.key"), 0644) == 0);
    o.tls.key_file = file_of("ours", "agent.key");
    CHECK_ERR("key for everybody", mrd_link_open(&o, &link, &why), MRD_DENIED);
    CHECK_ERR("no certificate", mrd_server_open(&s, &server, &why), MRD_INVALID);
    CHECK(strstr(why.text, "--tls-cert") != NULL);
}

TEST_MAIN()
