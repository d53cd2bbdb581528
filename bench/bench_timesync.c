/*
 * bench/bench_timesync.c - measures the cost of clock alignment: solving live and offline, mapping
 * times, and sending and answering probes.
 *
 *   bench_timesync [AGENTS]
 *
 * The solvers run on simulated probes (70 us round trip time, congestion in one direction for 20 %
 * of the time). Sending and answering use real UDP packets over the loopback interface. Prints CPU
 * times. The reference is one clock_gettime of CLOCK_MONOTONIC_RAW in the same run.
 */
#include "tests/sim/clocksim.h"

#include "agent/clock/timeprobe.h"
#include "aggregator/clock/timeserve.h"
#include "timesync/follow.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static double
cpu_ns(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return (double) ts.tv_sec * 1e9 + (double) ts.tv_nsec;
}

static double
bench_reference(void)
{
    double from = cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
    volatile int64_t sink = 0;

    for (int i = 0; i < 1000000; i++)
        sink = mrd_local_now().ns;
    (void) sink;
    return (cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - from) / 1e6;
}

static sim
hour(double seconds)
{
    static const sim_config c = { .name = "bench",
                                  .seed = 1,
                                  .ppm = 37,
                                  .wave_ppm = 0.3,
                                  .wave_period_s = 100,
                                  .rtt_us = 70,
                                  .jitter_us = 3,
                                  .wake_us = 10,
                                  .load = 0.2,
                                  .queue_us = 200,
                                  .pairs_per_s = 1,
                                  .burst = 16,
                                  .e = 60 };
    sim_config config = c;
    sim s;

    config.duration_s = seconds;
    sim_init(&s, &config);
    return s;
}

static void
bench_live(size_t agents, const sim *s, double seconds, double reference)
{
    mrd_follow **tracks = calloc(agents, sizeof(*tracks));
    double from, ns;

    if (tracks == NULL)
        abort();
    for (size_t i = 0; i < agents; i++) {
        if ((tracks[i] = mrd_follow_new("n", i, &mrd_follow_defaults)) == NULL)
            abort();
    }
    from = cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
    /* one probe of each agent in turn, because an aggregator receives them mixed */
    for (size_t k = 0; k < s->n; k++) {
        for (size_t i = 0; i < agents; i++)
            mrd_follow_probe(tracks[i], &s->probes[k]);
    }
    ns = cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - from;
    printf("live, %zu agents: %.0f ns per inequality (%.0fx reference), %.2f %% of a core at 1 "
           "pair/s (goal 1 %%)\n",
           agents, ns / (double) (2 * s->n * agents), ns / (double) (2 * s->n * agents) / reference,
           100 * ns / (seconds * 1e9));
    for (size_t i = 0; i < agents; i++)
        mrd_follow_free(tracks[i]);
    free(tracks);
}

static mrd_align *
bench_offline(const sim *s, double seconds, double reference)
{
    mrd_align *align = NULL;
    mrd_why why;
    double from = cpu_ns(CLOCK_PROCESS_CPUTIME_ID), ns;
    int rounds = 5;

    for (int i = 0; i < rounds; i++) {
        mrd_align_free(align);
        align = NULL;
        if (mrd_follow_offline(
                &(mrd_follow_input){
                    .name = "n", .clock_id = 1, .probes = s->probes, .n_probes = s->n },
                &align, NULL, &why) != MRD_OK) {
            fprintf(stderr, "%s\n", why.text);
            exit(1);
        }
    }
    ns = (cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - from) / rounds;
    printf("offline: %.0f ns per inequality (%.0fx reference), %.1f ms per agent-hour, %.1f s per "
           "session-hour of 1,000 agents on one core (goal 60 s)\n",
           ns / (double) (2 * s->n), ns / (double) (2 * s->n) / reference,
           ns * 1e-6 * 3600 / seconds, ns * 1e-6 * 3600 / seconds);
    return align;
}

static void
bench_map(const mrd_align *align, const sim *s, double seconds, double reference)
{
    mrd_align_cursor c = { 0, 0 };
    mrd_align_bound b;
    mrd_sess_ns at;
    double from, ns;
    int64_t first = s->probes[0].a1, step = (int64_t) (seconds * 1e9 / 5e6), sum = 0;

    from = cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
    for (int64_t i = 0; i < 5000000; i++) {
        (void) mrd_align_map(align, &c, (mrd_local_ns){ first + i * step }, &at, &b);
        sum += at.ns ^ b.lo.ns;
    }
    ns = (cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - from) / 5e6;
    printf("mapping ascending times, bound included: %.1f ns an event (%.1fx reference)%s\n", ns,
           ns / reference, sum == 42 ? " " : "");
}

static void
bench_file(const mrd_align *align, double seconds)
{
    mrd_buf buf = { 0 };

    if (mrd_align_encode(align, &buf) == MRD_OK)
        printf("table file: %zu bytes for %zu bins, %.0f kB per agent-hour\n", buf.len,
               mrd_align_bin_count(align), (double) buf.len * 3.6 / seconds);
    mrd_buf_fini(&buf);
}

/* Sends probes from one client to one server at full speed for `seconds`. Only the server has its
 * own thread, so the CPU times of both can be separated. */
static void
bench_packets(double seconds)
{
    mrd_timeserve_options so = { .host = "127.0.0.1" };
    mrd_timeprobe_options co = { .host = "127.0.0.1", .agent = 1, .pairs_per_s = 1500 };
    mrd_timeserve *server = NULL;
    mrd_timeprobe *client = NULL;
    mrd_timeprobe_counts counts;
    mrd_probe_sent sent;
    mrd_probe p;
    mrd_why why;
    double mine, all, packets;
    int64_t end;
    uint64_t joined = 0, probes;

    if (mrd_timeserve_open(&so, &server, &why) != MRD_OK) {
        fprintf(stderr, "%s\n", why.text);
        return;
    }
    co.port = mrd_timeserve_port(server);
    if (mrd_timeserve_agent(server, 1, co.key) != MRD_OK ||
        mrd_timeprobe_open(&co, &client, &why) != MRD_OK)
        abort();
    all = cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
    mine = cpu_ns(CLOCK_THREAD_CPUTIME_ID);
    end = mrd_local_now().ns + (int64_t) (seconds * 1e9);
    while (mrd_local_now().ns < end) {
        struct pollfd fd = { mrd_timeprobe_fd(client), POLLIN, 0 };
        int64_t wait = mrd_timeprobe_deadline(client).ns - mrd_local_now().ns;
        struct timespec ts = { .tv_nsec = wait < 0 ? 0 : wait > 100000000 ? 100000000 : wait };

        (void) ppoll(&fd, 1, &ts, NULL);
        mrd_timeprobe_step(client);
        while (mrd_timeprobe_take(client, &sent))
            joined += mrd_timeserve_join(server, &sent, &p) == MRD_OK;
    }
    mine = cpu_ns(CLOCK_THREAD_CPUTIME_ID) - mine;
    all = cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - all;
    probes = mrd_timeserve_counters(server).answers;
    counts = mrd_timeprobe_counters(client);
    /* Packets per pair: two warm-up packets and two requests are sent, and one warm-up packet and
     * two answers are received. Each postponement of a pair adds two warm-up packets. */
    packets = 7 + 2 * (double) counts.postponed / (double) counts.pairs;
    printf(
        "asking (agent): %.1f us a probe, %.4f %% of a core at 1 pair/s (goal 0.02 %%); %d B a "
        "packet with UDP, IP and Ethernet headers, both ways, warm-up packets included: %.2f kB/s "
        "(goal 1)\n",
        mine * 1e-3 / (double) probes, 2 * mine / (double) probes * 1e-7, MRD_PROBE_PACKET_LEN + 42,
        packets * (MRD_PROBE_PACKET_LEN + 42) * 1e-3);
    printf(
        "answering (aggregator): %.1f us a probe, %.2f %% of a core for 1,000 agents at 1 pair/s "
        "(goal 3 %%); %llu answered, %llu joined\n",
        (all - mine) * 1e-3 / (double) probes, 2000 * (all - mine) / (double) probes * 1e-7,
        (unsigned long long) probes, (unsigned long long) joined);
    mrd_timeprobe_close(client);
    mrd_timeserve_close(server);
}

int
main(int argc, char **argv)
{
    size_t agents = argc > 1 ? (size_t) atol(argv[1]) : 1000;
    double reference = bench_reference();
    mrd_align *align;
    sim s;

    printf("reference: %.1f ns for one clock_gettime(CLOCK_MONOTONIC_RAW)\n", reference);
    s = hour(120);
    bench_live(agents, &s, 120, reference);
    sim_fini(&s);
    s = hour(3600);
    align = bench_offline(&s, 3600, reference);
    bench_map(align, &s, 3600, reference);
    bench_file(align, 3600);
    mrd_align_free(align);
    sim_fini(&s);
    bench_packets(3);
    return 0;
}
