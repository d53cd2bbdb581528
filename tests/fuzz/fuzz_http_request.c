/*
 * Fuzzes a whole aggregator with HTTP requests, as bytes on a connection. The HTTP library, the
 * routing and every handler process them. SESSION in the input is replaced by the id of an existing
 * session.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "aggregator/aggregator.h"
#include "base/conf/log.h"
#include "base/obj.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static mrd_aggregator *aggregator;
static char store[64], session[64];

static int
dial(void)
{
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons(mrd_aggregator_http_port(aggregator)),
                              .sin_addr = { htonl(INADDR_LOOPBACK) } };
    struct timeval patience = { .tv_sec = 20 };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    MRD_ASSERT(connect(fd, (struct sockaddr *) &to, sizeof(to)) == 0);
    return fd;
}

/* Reads until the server closes the connection, which it must. */
static void
exchange(const void *data, size_t size, mrd_buf *answer)
{
    char chunk[16384];
    int fd = dial();
    ssize_t n;

    (void) !send(fd, data, size, MSG_NOSIGNAL);
    shutdown(fd, SHUT_WR);
    while ((n = recv(fd, chunk, sizeof(chunk), 0)) > 0)
        mrd_buf_add(answer, chunk, (size_t) n);
    MRD_ASSERT(n == 0 || errno != EAGAIN);
    close(fd);
}

static void
end(void)
{
    char command[128];

    mrd_aggregator_close(aggregator);
    snprintf(command, sizeof(command), "rm -rf '%s'", store);
    (void) !system(command);
}

/* Makes a session that failed because there are no nodes. Requests handle it like any other. */
static void
begin(void)
{
    static const char start[] =
        "POST /api/v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
        "application/json\r\nConnection: close\r\n"
        "Content-Length: 2\r\n\r\n{}";
    mrd_aggregator_options o = { .store = store,
                                 .data_url = "inproc://fuzz-d",
                                 .control_url = "inproc://fuzz-c",
                                 .http_address = "127.0.0.1",
                                 .http_names = "x",
                                 .disk_reserve = -1,
                                 .arm_timeout_ns = 50 * MRD_MS,
                                 .max_sessions = 50 };
    mrd_buf answer = { 0 };
    mrd_why why = { 0 };
    const char *at;

    snprintf(store, sizeof(store), "/tmp/mrd-fuzz-http-XXXXXX");
    MRD_ASSERT(mkdtemp(store) != NULL);
    mrd_log_init("fuzz", 2, MRD_LOG_ERROR, false);
    MRD_ASSERT(mrd_aggregator_open(&o, &aggregator, &why) == MRD_OK);
    atexit(end);
    exchange(start, strlen(start), &answer);
    at = strstr(mrd_buf_cstr(&answer), "\"id\":\"");
    MRD_ASSERT(at != NULL);
    snprintf(session, sizeof(session), "%.*s", (int) strcspn(at + 6, "\""), at + 6);
    mrd_buf_fini(&answer);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mrd_buf request = { 0 }, answer = { 0 };

    if (aggregator == NULL)
        begin();
    for (size_t i = 0; i < size;) {
        if (size - i >= 7 && memcmp(data + i, "SESSION", 7) == 0) {
            mrd_buf_text(&request, session);
            i += 7;
        } else {
            mrd_buf_byte(&request, data[i++]);
        }
    }
    exchange(request.p, request.len, &answer);
    MRD_ASSERT(answer.len == 0 || (answer.len > 9 && memcmp(answer.p, "HTTP/1.", 7) == 0));
    mrd_buf_fini(&request);
    mrd_buf_fini(&answer);
    return 0;
}
