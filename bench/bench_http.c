/*
 * Compares the HTTP server with nginx (Debian package nginx-light) in the same run on loopback.
 * Measures downloads of a large finished file, and small replies over 1 to 512 connections. For
 * small replies it also prints the longest time without any reply. The server is a separate process
 * (this program with the argument `serve`).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/obj.h"
#include "httpd/httpd.h"

enum { FILE_MIB = 256, ROUNDS = 31, CHUNK = 1 << 20, CONNECTIONS_MAX = 512 };

#define SMALL_SECONDS 1.0

static char dir[256];

/* ---- The server ---- */

static mrd_err
get_file(void *self, mrd_http_request *req, mrd_why *why)
{
    (void) self;
    return mrd_http_reply_file(req, "large.bin", "application/octet-stream", NULL, why);
}

static mrd_err
get_small(void *self, mrd_http_request *req, mrd_why *why)
{
    static const uint8_t body[1024] = { 'm' };

    (void) self;
    (void) why;
    return mrd_http_reply_static(req, "application/octet-stream", "\"1\"",
                                 (mrd_bytes){ body, sizeof(body) });
}

static int
serve(void)
{
    static const mrd_http_route routes[] = {
        { "GET", "/large.bin", MRD_ACTION_OPEN, get_file, "", NULL },
        { "GET", "/small.bin", MRD_ACTION_OPEN, get_small, "", NULL },
    };
    mrd_httpd_options options = { .address = "127.0.0.1", .max_connections = 1024 };
    mrd_httpd *h = NULL;
    mrd_why why = { 0 };

    if (mrd_httpd_start(&options, routes, MRD_COUNT(routes), NULL, &h, &why) != MRD_OK) {
        fprintf(stderr, "%s\n", why.text);
        return 1;
    }
    printf("%u\n", mrd_httpd_port(h));
    fflush(stdout);
    (void) !read(0, dir, 1); /* until the other end closes */
    mrd_httpd_stop(h);
    return 0;
}

/* ---- Starting both ---- */

typedef struct {
    const char *name;
    pid_t pid, worker;
    int in, port;
} server;

static bool
start_own(server *s)
{
    int in[2], out[2];
    char text[32] = "";

    *s = (server){ .name = "meridian" };
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0 || (s->pid = fork()) < 0)
        return false;
    if (s->pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        if (chdir(dir) == 0)
            execl("/proc/self/exe", "bench_http", "serve", (char *) NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    (void) !read(out[0], text, sizeof(text) - 1);
    close(out[0]);
    s->in = in[1];
    s->worker = s->pid;
    s->port = atoi(text);
    return s->port > 0;
}

static int
free_port(void)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t len = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM, 0), port = 0;

    if (bind(fd, (struct sockaddr *) &at, sizeof(at)) == 0 &&
        getsockname(fd, (struct sockaddr *) &at, &len) == 0)
        port = ntohs(at.sin_port);
    close(fd);
    return port;
}

static int
dial(int port)
{
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons((uint16_t) port),
                              .sin_addr = { htonl(INADDR_LOOPBACK) } };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (connect(fd, (struct sockaddr *) &to, sizeof(to)) == 0)
        return fd;
    close(fd);
    return -1;
}

static bool
start_nginx(server *s)
{
    char path[512], children[64] = "";
    FILE *f;

    *s = (server){ .name = "nginx", .port = free_port() };
    if (access("/usr/sbin/nginx", X_OK) != 0)
        return false;
    snprintf(path, sizeof(path), "%s/nginx.conf", dir);
    if ((f = fopen(path, "w")) == NULL)
        return false;
    fprintf(f,
            "%sworker_processes 1; daemon off; pid %s/pid; error_log %s/error.log crit;\n"
            "events { worker_connections 2048; }\n"
            "http { access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000000;\n"
            "client_body_temp_path %s/b; proxy_temp_path %s/p; fastcgi_temp_path %s/f;\n"
            "uwsgi_temp_path %s/u; scgi_temp_path %s/s;\n"
            "server { listen 127.0.0.1:%d; root %s; } }\n",
            getuid() == 0 ? "user root; " : "", dir, dir, dir, dir, dir, dir, dir, s->port, dir);
    fclose(f);
    if ((s->pid = fork()) == 0) {
        execl("/usr/sbin/nginx", "nginx", "-p", dir, "-c", path, (char *) NULL);
        _exit(127);
    }
    for (int i = 0; i < 500; i++) {
        int fd = dial(s->port);

        if (fd >= 0) {
            close(fd);
            break;
        }
        poll(NULL, 0, 10);
    }
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", s->pid, s->pid);
    if ((f = fopen(path, "r")) != NULL) {
        (void) !fgets(children, sizeof(children), f);
        fclose(f);
    }
    s->worker = atoi(children);
    return s->worker > 0;
}

/* Returns the peak resident memory of a process in MiB. */
static double
peak(pid_t pid)
{
    char path[64], line[256];
    long kib = 0;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    if ((f = fopen(path, "r")) == NULL)
        return 0;
    while (fgets(line, sizeof(line), f) != NULL)
        sscanf(line, "VmHWM: %ld", &kib);
    fclose(f);
    return (double) kib / 1024;
}

/* Returns the CPU time of a process, user and system, in seconds. */
static double
cpu_of(pid_t pid)
{
    char path[64], line[1024] = "", *at;
    unsigned long user = 0, kernel = 0;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    if ((f = fopen(path, "r")) == NULL)
        return 0;
    if (fgets(line, sizeof(line), f) == NULL)
        line[0] = '\0';
    fclose(f);
    if ((at = strrchr(line, ')')) == NULL ||
        sscanf(at, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel) != 2)
        return 0;
    return (double) (user + kernel) / (double) sysconf(_SC_CLK_TCK);
}

/* ---- The large file ---- */

static bool
write_files(void)
{
    uint64_t *chunk = malloc(CHUNK), x = 88172645463325252ull;
    char path[300];
    int fd;
    bool ok = chunk != NULL;

    snprintf(path, sizeof(path), "%s/large.bin", dir);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    for (int i = 0; ok && i < FILE_MIB; i++) {
        for (size_t k = 0; k < CHUNK / 8; k++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            chunk[k] = x;
        }
        ok = write(fd, chunk, CHUNK) == CHUNK;
    }
    close(fd);
    snprintf(path, sizeof(path), "%s/small.bin", dir);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    ok = ok && write(fd, chunk, 1024) == 1024;
    close(fd);
    free(chunk);
    return ok;
}

static double
seconds(void)
{
    return (double) mrd_local_now().ns / 1e9;
}

/* Downloads the large file once. Returns the speed in MB/s, or 0 if the download was incomplete. */
static double
download(int port)
{
    static const char request[] = "GET /large.bin HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    static char *chunk;
    double start = seconds();
    size_t got = 0;
    ssize_t n;
    int fd = dial(port);

    if (chunk == NULL)
        chunk = malloc(CHUNK);
    if (fd < 0 || write(fd, request, strlen(request)) < 0)
        return 0;
    while ((n = recv(fd, chunk, CHUNK, 0)) > 0)
        got += (size_t) n;
    close(fd);
    return got < (size_t) FILE_MIB << 20 ? 0 : (double) got / 1e6 / (seconds() - start);
}

static int
by_value(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;

    return x < y ? -1 : x > y;
}

static void
bench_file(server *servers, size_t n)
{
    double rate[2][ROUNDS], ratio[ROUNDS], cpu[2];

    for (size_t s = 0; s < n; s++)
        download(servers[s].port); /* warm-up */
    for (size_t s = 0; s < n; s++)
        cpu[s] = -cpu_of(servers[s].worker);
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t s = 0; s < n; s++)
            rate[s][round] = download(servers[s].port);
        ratio[round] = n == 2 && rate[1][round] > 0 ? rate[0][round] / rate[1][round] : 0;
    }
    qsort(ratio, ROUNDS, sizeof(double), by_value);
    for (size_t s = 0; s < n; s++) {
        cpu[s] += cpu_of(servers[s].worker);
        qsort(rate[s], ROUNDS, sizeof(double), by_value);
        printf("  %-9s %6.0f MB/s (median of %d; best %.0f), %.0f ms of CPU a GiB, peak memory "
               "%.1f MiB\n",
               servers[s].name, rate[s][ROUNDS / 2], ROUNDS, rate[s][ROUNDS - 1],
               cpu[s] * 1e3 / ((double) ROUNDS * FILE_MIB / 1024), peak(servers[s].worker));
    }
    if (n == 2)
        printf(
            "  %.2f x nginx by the medians (goal 0.95), %.2f x by the best; %.2f x in the median "
            "round (half of the rounds: %.2f to %.2f)\n",
            rate[0][ROUNDS / 2] / rate[1][ROUNDS / 2], rate[0][ROUNDS - 1] / rate[1][ROUNDS - 1],
            ratio[ROUNDS / 2], ratio[ROUNDS / 4], ratio[ROUNDS * 3 / 4]);
}

/* ---- Small replies ---- */

static bool
say(int fd)
{
    static const char request[] = "GET /small.bin HTTP/1.1\r\nHost: x\r\n\r\n";

    return write(fd, request, sizeof(request) - 1) == (ssize_t) sizeof(request) - 1;
}

/* Requests one small reply, and returns its length with head and body in bytes. The length is the
 * same for all small replies. */
static size_t
reply_len(int port)
{
    char text[4096] = "", *end;
    size_t got = 0, len = 0;
    int fd = dial(port);

    say(fd);
    while (got < sizeof(text) - 1 && (len == 0 || got < len)) {
        ssize_t n = recv(fd, text + got, sizeof(text) - 1 - got, 0);

        if (n <= 0)
            break;
        got += (size_t) n;
        end = memmem(text, got, "\r\n\r\n", 4);
        len = end == NULL ? 0 : (size_t) (end + 4 - text) + 1024;
    }
    close(fd);
    return len;
}

/* Requests small replies over this number of connections, each with one request in flight. Returns
 * the replies per second. *ret_stall is the longest time without any reply. */
static double
small(int port, int connections, double *ret_stall)
{
    struct epoll_event ev[64];
    size_t got[CONNECTIONS_MAX] = { 0 }, whole = reply_len(port);
    int fds[CONNECTIONS_MAX], ep = epoll_create1(EPOLL_CLOEXEC);
    double start, last, now;
    uint64_t replies = 0;
    char chunk[4096];

    for (int i = 0; i < connections; i++) {
        fds[i] = dial(port);
        ev[0] = (struct epoll_event){ .events = EPOLLIN, .data.u32 = (uint32_t) i };
        epoll_ctl(ep, EPOLL_CTL_ADD, fds[i], &ev[0]);
    }
    *ret_stall = 0;
    start = last = seconds();
    for (int i = 0; i < connections; i++)
        say(fds[i]);
    do {
        int n = epoll_wait(ep, ev, 64, 100);

        now = seconds();
        for (int k = 0; k < n; k++) {
            uint32_t i = ev[k].data.u32;
            ssize_t len = recv(fds[i], chunk, sizeof(chunk), MSG_DONTWAIT);

            got[i] += len > 0 ? (size_t) len : 0;
            if (got[i] < whole)
                continue;
            got[i] -= whole;
            replies++;
            *ret_stall = now - last > *ret_stall ? now - last : *ret_stall;
            last = now;
            say(fds[i]);
        }
    } while (now - start < SMALL_SECONDS);
    *ret_stall = now - last > *ret_stall ? now - last : *ret_stall;
    for (int i = 0; i < connections; i++)
        close(fds[i]);
    close(ep);
    return (double) replies / (now - start);
}

static void
bench_small(server *servers, size_t n)
{
    static const int connections[] = { 1, 64, 128, 256, 512 };

    printf("  %-11s", "connections");
    for (size_t s = 0; s < n; s++)
        printf("  %9s replies/s, longest pause", servers[s].name);
    printf("\n");
    for (size_t i = 0; i < MRD_COUNT(connections); i++) {
        printf("  %11d", connections[i]);
        for (size_t s = 0; s < n; s++) {
            double stall, rate = small(servers[s].port, connections[i], &stall);

            printf("  %19.0f, %11.1f ms", rate, stall * 1e3);
        }
        printf("\n");
    }
    for (size_t s = 0; s < n; s++)
        printf("  %-9s peak memory %.1f MiB\n", servers[s].name, peak(servers[s].worker));
}

int
main(int argc, char **argv)
{
    server servers[2] = { 0 };
    struct rlimit files = { 4096, 4096 };
    char command[300];
    size_t n = 1;

    if (argc > 1 && strcmp(argv[1], "serve") == 0)
        return serve();
    signal(SIGPIPE, SIG_IGN);
    (void) setrlimit(RLIMIT_NOFILE, &files);
    snprintf(dir, sizeof(dir), "%s/mrd-bench-http-XXXXXX",
             getenv("TMPDIR") == NULL ? "/tmp" : getenv("TMPDIR"));
    if (mkdtemp(dir) == NULL || !write_files() || !start_own(&servers[0])) {
        fprintf(stderr, "bench_http: cannot prepare %s: %s\n", dir, strerror(errno));
        return 1;
    }
    if (start_nginx(&servers[1]))
        n = 2;
    else
        printf("  skipped: nginx to compare with (Debian package nginx-light)\n");
    printf("a finished file of %d MiB, one client on loopback:\n", FILE_MIB);
    bench_file(servers, n);
    printf("replies of 1 KiB, %g s each:\n", SMALL_SECONDS);
    bench_small(servers, n);
    close(servers[0].in);
    waitpid(servers[0].pid, NULL, 0);
    if (servers[1].pid > 0) {
        kill(servers[1].pid, SIGTERM);
        waitpid(servers[1].pid, NULL, 0);
    }
    snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    return system(command) == 0 ? 0 : 1;
}
