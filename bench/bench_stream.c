/*
 * bench/bench_stream.c - measures the path from an application's rings to the journal of an
 * aggregator in another process, over loopback TCP. bench_stream.py runs it and compares it with
 * LTTng.
 *
 *   bench_stream ours EVENTS           Sends EVENTS events. Prints bytes, frames, wall_ns,
 *                                      agent_ns and receiver_ns.
 *   bench_stream copy BYTES BLOCK      Copies BYTES bytes through a plain TCP stream into a file.
 *   bench_stream latency SECONDS FLUSH_MS
 *                                      Records 1,000 events per second, one by one. Prints p50
 *                                      and p99 in us from recording to acknowledgement.
 *   bench_stream lttng EVENTS          Records EVENTS LTTng-UST tracepoints.
 *
 * Each result is a line "name value". The agent and the aggregator are complete, because the
 * libraries of their programs are used. The events are recorded by a thread in the agent's process,
 * and its CPU time is excluded. An event is a span with time, duration, one of 50 names and one of
 * 4 tracks. The tracepoint has the same fields.
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "agent/daemon/agent.h"
#include "bench/served.h"
#include "tests/agent/ring_make.h"
#ifdef MRD_BENCH_LTTNG
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wundef"
#pragma GCC diagnostic ignored "-Wcast-qual"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#include "bench/bench_lttng.h"
#pragma GCC diagnostic pop
#endif

#define RINGS 4
#define DATA  (8u << 20)
#define NAMES 50

/* ---- The events ---- */

typedef struct {
    uint64_t random;
    uint32_t names[RINGS][NAMES];
} events;

static uint64_t
next_random(events *e)
{
    e->random ^= e->random << 13;
    e->random ^= e->random >> 7;
    e->random ^= e->random << 17;
    return e->random;
}

static uint64_t
duration(uint64_t random)
{
    return 100 + (random >> 50);
}

/* ---- The workload: a thread that never overfills a ring ---- */

typedef struct {
    maker *rings[RINGS];
    events e;
    uint64_t wanted;
    _Atomic double cpu_ns; /* CPU time of the thread, stored when it ends */
} workload;

static void
workload_init(workload *w, unsigned rings)
{
    w->e.random = 88172645463325252u;
    for (unsigned r = 0; r < rings; r++) {
        w->rings[r] =
            make_ring(test_tmp(), getpid(), make_start_ticks(getpid()), (int) r + 1, DATA);
        for (int i = 0; i < NAMES; i++) {
            char text[16];

            snprintf(text, sizeof(text), "function_%d", i);
            w->e.names[r][i] = make_text(w->rings[r], text);
        }
    }
}

static void
workload_fini(workload *w)
{
    for (unsigned r = 0; r < RINGS && w->rings[r] != NULL; r++) {
        unlink(w->rings[r]->path);
        make_free(w->rings[r]);
    }
}

static bool
has_room(const maker *m)
{
    return atomic_load(&m->h->head) - atomic_load(&m->h->tail) < m->h->data_len - 4096;
}

static void *
produce(void *arg)
{
    workload *w = arg;
    struct timespec nap = { 0, 200000 }, cpu;
    uint64_t done = 0;

    while (done < w->wanted) {
        bool any = false;

        for (int r = 0; r < RINGS; r++)
            for (int i = 0; i < 64 && done < w->wanted && has_room(w->rings[r]); i++, done++) {
                uint64_t random = next_random(&w->e);

                make_span(w->rings[r], w->e.names[r][(random >> 20) % NAMES], mrd_local_now().ns,
                          (int64_t) duration(random));
                any = true;
            }
        if (!any)
            nanosleep(&nap, NULL);
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
    w->cpu_ns = (double) cpu.tv_sec * 1e9 + (double) cpu.tv_nsec;
    return NULL;
}

/* ---- Agent and aggregator ---- */

typedef struct {
    served server;
    mrd_agent *agent;
    uint64_t session;
} pair;

static void
pair_open(pair *p, mrd_dur_ns flush)
{
    mrd_agent_options o = { .ring_dir = (char *) (uintptr_t) test_tmp(),
                            .flush = flush,
                            .spool_bytes = 256 << 20,
                            .recorder_bytes = 1 << 20 };
    mrd_node_identity node = { .instance_id = "i-bench", .source = "option" };
    mrd_link_options lo = { .window = 8 };
    mrd_transport *transport = NULL;
    mrd_agent_counts counts;
    mrd_record_status st;
    struct pollfd pfd;
    mrd_why why = { 0 };

    served_begin(&p->server);
    lo.data_url = p->server.data_url;
    lo.control_url = p->server.control_url;
    if (mrd_transport_link(&lo, &transport, &why) != MRD_OK ||
        mrd_agent_open(&o, &node, transport, &p->agent, &why) != MRD_OK) {
        fprintf(stderr, "%s\n", why.text);
        exit(1);
    }
    do {
        mrd_agent_step(p->agent, 10);
        mrd_agent_counters(p->agent, &counts);
    } while (!counts.connected);
    served_start(&p->server);
    pfd = (struct pollfd){ p->server.from, POLLIN, 0 };
    while (poll(&pfd, 1, 0) == 0)
        mrd_agent_step(p->agent, 10);
    p->session = served_session(&p->server);
    do
        mrd_agent_step(p->agent, 10);
    while (!mrd_record_find(mrd_agent_borrow_record(p->agent), p->session, &st) ||
           mrd_local_now().ns < st.start.ns);
}

static void
pair_close(pair *p)
{
    mrd_agent_close(p->agent);
    served_end(&p->server);
}

static uint64_t
delivered(const pair *p)
{
    mrd_record_status st;

    if (!mrd_record_find(mrd_agent_borrow_record(p->agent), p->session, &st))
        exit(1);
    if (st.begun > st.delivered + st.held) {
        fprintf(stderr, "bench_stream: events were lost, the figures mean nothing\n");
        exit(1);
    }
    return st.delivered;
}

static void
ours(uint64_t n)
{
    static workload w;
    mrd_agent_counts before, after;
    double agent_ns, receiver_ns;
    int64_t begun_ns;
    pthread_t thread;
    pair p;

    workload_init(&w, RINGS);
    w.wanted = n;
    pair_open(&p, 200 * MRD_MS);
    mrd_agent_counters(p.agent, &before);
    receiver_ns = served_get(&p.server).cpu_ns;
    agent_ns = served_process_cpu();
    begun_ns = mrd_local_now().ns;
    if (pthread_create(&thread, NULL, produce, &w) != 0)
        abort();
    while (delivered(&p) < n)
        mrd_agent_step(p.agent, 100);
    pthread_join(thread, NULL);
    printf("wall_ns %" PRId64 "\n", mrd_local_now().ns - begun_ns);
    agent_ns = served_process_cpu() - agent_ns - w.cpu_ns;
    receiver_ns = served_get(&p.server).cpu_ns - receiver_ns;
    mrd_agent_counters(p.agent, &after);
    printf("bytes %" PRIu64 "\nframes %" PRIu64 "\nagent_ns %.0f\nreceiver_ns %.0f\n",
           after.bytes_sent - before.bytes_sent, after.frames_acked - before.frames_acked, agent_ns,
           receiver_ns);
    pair_close(&p);
    workload_fini(&w);
}

/* ---- Latency ---- */

static int
by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *) a, y = *(const int64_t *) b;

    return (x > y) - (x < y);
}

static void
latency(unsigned seconds, mrd_dur_ns flush)
{
    static workload w;
    size_t n = (size_t) seconds * 1000, made = 0, done = 0;
    int64_t *at = calloc(n, sizeof(*at)), next;
    pair p;

    workload_init(&w, 1);
    pair_open(&p, flush);
    next = mrd_local_now().ns;
    while (done < n) {
        int64_t now = mrd_local_now().ns;
        uint64_t known;

        for (; made < n && next <= now; next += MRD_MS, made++) {
            at[made] = now;
            make_span(w.rings[0], w.e.names[0][made % NAMES], now, 100);
        }
        mrd_agent_step(p.agent, 1);
        known = delivered(&p);
        now = mrd_local_now().ns;
        /* one ring and one batch in flight keep the events in order, so the oldest were
         * delivered */
        for (; done < known && done < n; done++)
            at[done] = now - at[done];
    }
    qsort(at, n, sizeof(*at), by_value);
    printf("p50_us %" PRId64 "\np99_us %" PRId64 "\n", at[n / 2] / 1000, at[n * 99 / 100] / 1000);
    pair_close(&p);
    workload_fini(&w);
    free(at);
}

/* ---- A plain copy of the bytes ---- */

static void
receive(int listener)
{
    char path[] = "/tmp/mrd-bench-XXXXXX";
    size_t cap = 1 << 20;
    char *buf = malloc(cap);
    int from = accept(listener, NULL, NULL), to = mkstemp(path);
    ssize_t n;

    if (from < 0 || to < 0 || buf == NULL)
        _exit(1);
    unlink(path);
    while ((n = recv(from, buf, cap, 0)) > 0) {
        if (write(to, buf, (size_t) n) != n)
            _exit(1);
    }
    if (n < 0 || write(from, "k", 1) != 1)
        _exit(1);
    _exit(0);
}

static void
copy(uint64_t bytes, size_t block)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(at);
    int listener = socket(AF_INET, SOCK_STREAM, 0), to = socket(AF_INET, SOCK_STREAM, 0), status;
    char *buf = calloc(1, block), ok;
    struct rusage used;
    double sender_ns;
    int64_t begun_ns;
    pid_t pid;

    if (buf == NULL || listener < 0 || to < 0 ||
        bind(listener, (struct sockaddr *) &at, sizeof(at)) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *) &at, &len) != 0 || (pid = fork()) < 0)
        abort();
    if (pid == 0)
        receive(listener);
    if (connect(to, (struct sockaddr *) &at, sizeof(at)) != 0)
        abort();
    sender_ns = served_process_cpu();
    begun_ns = mrd_local_now().ns;
    for (uint64_t sent = 0; sent < bytes;) {
        size_t want = bytes - sent < block ? (size_t) (bytes - sent) : block;
        ssize_t n = send(to, buf, want, 0);

        if (n <= 0)
            abort();
        sent += (uint64_t) n;
    }
    shutdown(to, SHUT_WR);
    if (recv(to, &ok, 1, 0) != 1)
        abort();
    sender_ns = served_process_cpu() - sender_ns;
    printf("wall_ns %" PRId64 "\nagent_ns %.0f\n", mrd_local_now().ns - begun_ns, sender_ns);
    if (wait4(pid, &status, 0, &used) != pid || status != 0)
        abort();
    printf("receiver_ns %.0f\n",
           ((double) used.ru_utime.tv_sec + (double) used.ru_stime.tv_sec) * 1e9 +
               ((double) used.ru_utime.tv_usec + (double) used.ru_stime.tv_usec) * 1e3);
    free(buf);
}

/* ---- The same events as LTTng-UST tracepoints ---- */

static int
lttng(uint64_t n)
{
#ifdef MRD_BENCH_LTTNG
    static events e = { .random = 88172645463325252u };

    for (uint64_t i = 0; i < n; i++) {
        uint64_t random = next_random(&e);

        lttng_ust_tracepoint(meridian_bench, slice, duration(random),
                             (uint32_t) ((random >> 20) % NAMES), (uint32_t) (i / 64 % RINGS));
    }
    return 0;
#else
    (void) n;
    fprintf(stderr, "bench_stream: built without LTTng-UST (package liblttng-ust-dev)\n");
    return 77;
#endif
}

int
main(int argc, char **argv)
{
    uint64_t n = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;

    /* test_last is part of the test harness, of which only the directory is used here */
    (void) test_last;
    if (argc == 3 && strcmp(argv[1], "ours") == 0)
        ours(n);
    else if (argc == 4 && strcmp(argv[1], "copy") == 0)
        copy(n, strtoull(argv[3], NULL, 10));
    else if (argc == 4 && strcmp(argv[1], "latency") == 0)
        latency((unsigned) n, (mrd_dur_ns) strtoull(argv[3], NULL, 10) * MRD_MS);
    else if (argc == 3 && strcmp(argv[1], "lttng") == 0)
        return lttng(n);
    else
        return fprintf(stderr, "bench_stream: run bench/bench_stream.py\n"), 2;
    return 0;
}
