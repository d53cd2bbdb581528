/* Tests which addresses of aggregators an agent accepts with which TLS options. */
#include "agent/daemon/agent.h"
#include "tests/check.h"

static char *
text(const char *s)
{
    return (char *) (uintptr_t) s;
}

typedef struct {
    const char *url, *control, *ca, *cert, *key, *name, *token, *server, *spool;
    bool insecure;
    mrd_err want;
    const char *says;
} row;

static const row rows[] = {
    { .url = "tcp://127.0.0.1:7770" },
    { .url = "tcp://10.0.0.7:7770", .insecure = true },
    { .url = "tls+tcp://10.0.0.7:7770", .ca = "ca.pem", .cert = "c.pem", .key = "c.key" },
    { .url = "10.0.0.7:7770", .want = MRD_INVALID, .says = "expected tcp://HOST:7770" },
    { .url = "http://10.0.0.7:7780", .want = MRD_INVALID, .says = "expected tcp://HOST:7770" },
    { .url = "tcp://10.0.0.7:7770", .want = MRD_AUTH, .says = "--aggregator" },
    /* The token is sent over the control connection too. */
    { .url = "tls+tcp://10.0.0.7:7770",
      .control = "tcp://10.0.0.7:7771",
      .ca = "ca.pem",
      .want = MRD_AUTH,
      .says = "--control" },
    { .url = "tls+tcp://10.0.0.7:7770",
      .control = "tcp://10.0.0.7:7771",
      .ca = "ca.pem",
      .insecure = true },
    { .url = "tcp://127.0.0.1:7770", .control = "tls+tcp://127.0.0.1:7771", .ca = "ca.pem" },
    { .url = "tcp://127.0.0.1:7770", .ca = "ca.pem", .want = MRD_INVALID, .says = "--tls-ca is" },
    { .url = "tcp://127.0.0.1:7770",
      .cert = "c.pem",
      .want = MRD_INVALID,
      .says = "--tls-cert is" },
    { .url = "tcp://127.0.0.1:7770", .key = "c.key", .want = MRD_INVALID, .says = "--tls-key is" },
    { .url = "tcp://127.0.0.1:7770", .name = "agg", .want = MRD_INVALID, .says = "--tls-name is" },
    { .url = "tcp://10.0.0.7:7770",
      .cert = "c.pem",
      .insecure = true,
      .want = MRD_INVALID,
      .says = "write tls+tcp://" },
    /* With a token and a spool, the agent requests its own certificate, so these options need not name one. */
    { .url = "tls+tcp://10.0.0.7:7770", .ca = "ca.pem", .token = "t", .spool = "/s" },
    { .url = "tls+tcp://10.0.0.7:7770", .ca = "ca.pem", .token = "t", .cert = "c", .key = "k" },
    { .url = "tls+tcp://10.0.0.7:7770", .ca = "c", .server = "https://h:1///", .spool = "/s" },
    { .url = "tcp://127.0.0.1:7770",
      .token = "t",
      .spool = "/s",
      .want = MRD_INVALID,
      .says = "--join-token-file is given" },
    { .url = "tcp://127.0.0.1:7770",
      .server = "https://h:1",
      .spool = "/s",
      .want = MRD_INVALID,
      .says = "--join-server is given" },
    { .url = "tls+tcp://10.0.0.7:7770",
      .ca = "ca.pem",
      .token = "t",
      .want = MRD_INVALID,
      .says = "--spool-dir" },
    { .url = "tls+tcp://10.0.0.7:7770",
      .ca = "ca.pem",
      .token = "t",
      .key = "k",
      .spool = "/s",
      .want = MRD_INVALID,
      .says = "go together" },
    { .url = "tls+tcp://10.0.0.7:7770",
      .ca = "ca.pem",
      .server = "http://10.0.0.7:7780",
      .spool = "/s",
      .want = MRD_INVALID,
      .says = "expected https://" },
};

TEST(addresses_without_tls)
{
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        const row *r = &rows[i];
        mrd_agent_options o = { .data_url = text(r->url),
                                .control_url = text(r->control),
                                .tls_ca = text(r->ca),
                                .tls_cert = text(r->cert),
                                .tls_key = text(r->key),
                                .tls_name = text(r->name),
                                .join_token_file = text(r->token),
                                .join_server = r->server == NULL ? NULL : strdup(r->server),
                                .spool_dir = text(r->spool),
                                .insecure = r->insecure };
        mrd_link_options link = { 0 };
        mrd_why why = { 0 };
        char name[32];

        snprintf(name, sizeof(name), "row %zu", i);
        CHECK_ERR(name, mrd_agent_link_options(&o, &link, &why), r->want);
        CHECK_ROW(name, r->says == NULL || strstr(why.text, r->says) != NULL);
        CHECK_ROW(name, r->want != MRD_OK ||
                            (link.data_url == o.data_url && link.control_url == o.control_url));
        if (o.control_url != r->control)
            free(o.control_url);
        if (o.tls_cert != r->cert)
            free(o.tls_cert);
        if (o.tls_key != r->key)
            free(o.tls_key);
        free(o.join_server);
    }
}

TEST(an_agent_that_joins_by_itself)
{
    static const char *const hosts[][2] = {
        { "tls+tcp://10.0.0.7:7770", "https://10.0.0.7:7780" },
        { "tls+tcp://head.example:9000", "https://head.example:7780" },
        { "tls+tcp://[fd00::7]:7770", "https://[fd00::7]:7780" },
    };

    for (size_t i = 0; i < MRD_COUNT(hosts); i++) {
        mrd_agent_options o = { .data_url = text(hosts[i][0]),
                                .tls_ca = text("ca.pem"),
                                .join_token_file = text("t"),
                                .spool_dir = text("/var/lib/x") };
        mrd_link_options link = { 0 };
        mrd_why why = { 0 };

        CHECK_ERR(hosts[i][0], mrd_agent_link_options(&o, &link, &why), MRD_OK);
        CHECK_ROW(o.join_server, strcmp(o.join_server, hosts[i][1]) == 0);
        CHECK(strcmp(link.tls.cert_file, "/var/lib/x/agent.pem") == 0 &&
              strcmp(link.tls.key_file, "/var/lib/x/agent.key") == 0);
        free(o.join_server);
        free(o.tls_cert);
        free(o.tls_key);
        free(o.control_url);
    }
}

TEST(the_control_port_is_the_data_port_plus_one)
{
    mrd_agent_options o = { .data_url = text("tcp://127.0.0.1:7770") };
    mrd_link_options link = { 0 };
    mrd_why why = { 0 };

    CHECK_ERR("", mrd_agent_link_options(&o, &link, &why), MRD_OK);
    CHECK(link.control_url != NULL && strcmp(link.control_url, "tcp://127.0.0.1:7771") == 0);
    free(o.control_url);
}

TEST_MAIN()
