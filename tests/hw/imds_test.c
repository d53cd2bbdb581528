#include "tests/check.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <strings.h>
#include <sys/socket.h>

#include "hw/identity.h"

typedef struct {
    const char *id;    /* answer to the request of instance-id, or NULL for status 404 */
    int token_status;  /* of the PUT */
    bool silent;       /* accepts and never answers */
    bool token_needed; /* a GET request without the session token gets status 401 */
} behaviour;

static behaviour now;
static char endpoint[64];

static void
answer(int fd, int status, const char *body)
{
    char text[512];
    int n = snprintf(text, sizeof(text),
                     "HTTP/1.1 %d X\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%s", status,
                     strlen(body), body);

    CHECK(write(fd, text, (size_t) n) == n);
}

static void
serve_one(int fd)
{
    char text[4096];
    size_t n = 0;

    while (n < sizeof(text) - 1) {
        ssize_t got = read(fd, text + n, sizeof(text) - 1 - n);

        if (got <= 0)
            return;
        n += (size_t) got;
        text[n] = '\0';
        if (strstr(text, "\r\n\r\n") != NULL)
            break;
    }
    if (now.silent) {
        char rest[64];

        (void) !read(fd, rest, sizeof(rest)); /* until the client's timeout */
    } else if (strncmp(text, "PUT /latest/api/token ", 22) == 0) {
        bool ttl = strcasestr(text, "x-aws-ec2-metadata-token-ttl-seconds: 60") != NULL;

        answer(fd, ttl ? now.token_status : 400, now.token_status == 200 ? "TOK" : "");
    } else if (strcasestr(text, "x-aws-ec2-metadata-token: TOK") == NULL) {
        answer(fd, 401, "");
    } else if (strstr(text, "GET /latest/meta-data/instance-id ") != NULL && now.id != NULL) {
        answer(fd, 200, now.id);
    } else if (strstr(text, "GET /latest/meta-data/instance-type ") != NULL) {
        answer(fd, 200, "trn2.48xlarge");
    } else {
        answer(fd, 404, "");
    }
}

static void *
serve(void *arg)
{
    int listener = *(int *) arg, fd;

    while ((fd = accept(listener, NULL, NULL)) >= 0) {
        serve_one(fd);
        close(fd);
    }
    return NULL;
}

static void
start_server(void)
{
    static int listener;
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t len = sizeof(at);
    pthread_t thread;

    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(listener, (struct sockaddr *) &at, sizeof(at)) == 0 && listen(listener, 8) == 0);
    CHECK(getsockname(listener, (struct sockaddr *) &at, &len) == 0);
    snprintf(endpoint, sizeof(endpoint), "http://127.0.0.1:%d/", ntohs(at.sin_port));
    CHECK(pthread_create(&thread, NULL, serve, &listener) == 0);
    pthread_detach(thread);
}

TEST(answers_and_refusals)
{
    static const struct {
        const char *name;
        behaviour how;
        mrd_err err;
    } rows[] = {
        { "good", { "i-0123456789abcdef0", 200, false, true }, MRD_OK },
        { "old id", { "i-0123abcd", 200, false, true }, MRD_OK },
        { "no id", { NULL, 200, false, true }, MRD_NET },
        { "id that climbs", { "../../etc/passwd", 200, false, true }, MRD_FORMAT },
        { "id with a blank", { "i-1 x", 200, false, true }, MRD_NET },
        { "disabled", { "i-1", 403, false, true }, MRD_DENIED },
        { "no such service", { "i-1", 404, false, true }, MRD_NET },
        { "broken", { "i-1", 500, false, true }, MRD_NET },
        { "token dies at the hop limit", { "i-1", 200, true, true }, MRD_TIMEOUT },
    };

    start_server();
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        /* Only a silent server makes the client wait until its timeout. */
        mrd_dur_ns patience = rows[i].how.silent ? 300 * MRD_MS : 60 * MRD_SEC;
        mrd_local_ns before = mrd_local_now();
        mrd_imds got = { 0 };
        mrd_why why = { 0 };

        now = rows[i].how;
        CHECK_ERR(rows[i].name, mrd_imds_read(endpoint, patience, &got, &why), rows[i].err);
        CHECK_ROW(rows[i].name, mrd_local_now().ns - before.ns < 30 * MRD_SEC);
        CHECK_ROW(rows[i].name, rows[i].err == MRD_OK || why.text[0] != '\0');
        if (rows[i].err == MRD_OK) {
            CHECK_TEXT(got.instance_id, rows[i].how.id);
            CHECK_TEXT(got.instance_type, "trn2.48xlarge");
            CHECK_TEXT(got.zone, "");
        }
    }
}

TEST(nobody_there_and_switched_off)
{
    mrd_imds got;
    mrd_node_identity node;
    mrd_node_options o = { .endpoint = "http://127.0.0.1:1", .timeout = 200 * MRD_MS };

    CHECK_ERR("refused", mrd_imds_read("http://127.0.0.1:1", 200 * MRD_MS, &got, NULL), MRD_NET);
    setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
    CHECK_ERR("off", mrd_imds_read(NULL, 200 * MRD_MS, &got, NULL), MRD_UNSUPPORTED);
    CHECK_ERR("fall back", mrd_node_identify(&o, &node, NULL), MRD_OK);
    CHECK(strcmp(node.source, "imds") != 0 && strstr(node.note, "switched off") != NULL);
}

TEST(environment_names_the_endpoint)
{
    mrd_node_options o = { 0 };
    mrd_node_identity node;

    start_server();
    now = (behaviour){ "i-0feedbeef", 200, false, true };
    setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", endpoint, 1);
    CHECK_ERR("identify", mrd_node_identify(&o, &node, NULL), MRD_OK);
    CHECK_TEXT(node.instance_id, "i-0feedbeef");
    CHECK_TEXT(node.source, "imds");
}

TEST_MAIN()
