/*
 * bench/bench_fleet.c - runs many agents in one process against the program meridian-aggregator,
 * over loopback. Measures CPU and memory of the aggregator per event and per agent. Also measures
 * the time from an event's end to its acknowledgement, which means "on disk".
 *
 * Two parts of this time are unavoidable and measured in the same run. A batch waits for
 * --advanced.flush, and 4 KiB are appended to a file and synced. Environment variables:
 * BENCH_FLEET_AGENTS (default 200), BENCH_FLEET_SECONDS (default 8).
 */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/check.h"
#include "tests/fleet/bed.h"

#define SYNCS 200

typedef struct {
    double cpu_us, rss_mib, per_agent_kib, p50_ms, p99_ms, events, dial_s, dial_cpu_ms;
} figures;

static unsigned
setting(const char *name, unsigned def)
{
    const char *text = getenv(name);

    return text == NULL ? def : (unsigned) atoi(text);
}

static int
by_value(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;

    return (x > y) - (x < y);
}

/* Measures appending 4 KiB to a file and syncing it. Stores the median and the 99 % quantile in
 * ms. */
static void
sync_alone(const char *dir, double *ret_p50, double *ret_p99)
{
    static uint8_t block[4096];
    double ms[SYNCS];
    char path[300];
    int fd;

    snprintf(path, sizeof(path), "%s/reference", dir);
    if ((fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)) < 0)
        abort();
    for (int i = 0; i < SYNCS; i++) {
        int64_t start = mrd_local_now().ns;

        if (write(fd, block, sizeof(block)) != sizeof(block) || fdatasync(fd) != 0)
            abort();
        ms[i] = (double) (mrd_local_now().ns - start) / 1e6;
    }
    close(fd);
    qsort(ms, SYNCS, sizeof(*ms), by_value);
    *ret_p50 = ms[SYNCS / 2];
    *ret_p99 = ms[SYNCS * 99 / 100];
}

static bool
measure(unsigned agents, mrd_dur_ns flush, bool tls, figures *f)
{
    static unsigned runs;
    bed b = { .agents = agents, .tls = tls, .o = { .period = 200 * MRD_MS, .flush = flush } };
    const char *options[] = { b.tls_options[0], b.tls_options[1], b.tls_options[2], NULL };
    aggregator_usage empty, idle, before, after;
    fleet_counts c, from;
    char dir[300];
    bool ok;

    snprintf(dir, sizeof(dir), "%s/%u", test_tmp(), runs++);
    if (mkdir(dir, 0700) != 0 || !bed_open(&b, dir, tls ? options : NULL))
        return false;
    aggregator_used(&b.d, &empty);
    ok = fleet_play(b.f, BED_PATIENCE, bed_welcomed, &b);
    f->dial_s = (double) (mrd_local_now().ns - b.opened_ns) / 1e9;
    aggregator_used(&b.d, &idle);
    f->dial_cpu_ms = (idle.cpu_s - empty.cpu_s) * 1e3 / agents;
    f->per_agent_kib = (double) (idle.rss_kb - 10240) / agents;
    ok = ok && bed_start(&b, b.agents);
    (void) fleet_play(b.f, 2 * MRD_SEC, NULL, NULL);
    aggregator_used(&b.d, &before);
    fleet_count(b.f, &from);
    fleet_latency_reset(b.f);
    (void) fleet_play(b.f, setting("BENCH_FLEET_SECONDS", 8) * MRD_SEC, NULL, NULL);
    aggregator_used(&b.d, &after);
    fleet_count(b.f, &c);
    f->events = (double) (c.delivered - from.delivered);
    f->cpu_us = (after.cpu_s - before.cpu_s) * 1e6 / f->events;
    f->rss_mib = (double) after.rss_kb / 1024;
    f->p50_ms = (double) fleet_latency(&c, 0.5) / 1e6;
    f->p99_ms = (double) fleet_latency(&c, 0.99) / 1e6;
    ok = ok && bed_stop(&b);
    return bed_close(&b) && ok;
}

int
main(void)
{
    static const struct {
        const char *name;
        mrd_dur_ns flush;
        bool tls;
    } rows[] = {
        { "flush 200 ms", 200 * MRD_MS, false },
        { "flush 10 ms", 10 * MRD_MS, false },
        { "flush 200 ms, TLS", 200 * MRD_MS, true },
    };
    unsigned agents = setting("BENCH_FLEET_AGENTS", 200);
    double p50, p99;

    /* test_last is part of the test harness, of which only the directory is used here */
    (void) test_last;
    if (system("curl --version >/dev/null 2>&1") != 0) {
        printf("skipped: it needs curl (Debian package curl)\n");
        return 0;
    }
    printf("%u agents to one aggregator, all on this machine; CPU is the aggregator's\n", agents);
    printf("%-20s %11s %9s %10s %9s %9s %9s %9s %10s\n", "", "CPU s/M ev", "events/s", "RSS MiB",
           "KiB/agent", "dial s", "CPU ms", "ack p50", "ack p99 ms");
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        figures f;

        if (!measure(agents, rows[i].flush, rows[i].tls, &f)) {
            printf("%-20s failed\n", rows[i].name);
            return 1;
        }
        printf("%-20s %11.3f %9.0f %10.1f %9.1f %9.2f %9.2f %9.1f %10.1f\n", rows[i].name, f.cpu_us,
               f.events / setting("BENCH_FLEET_SECONDS", 8), f.rss_mib, f.per_agent_kib, f.dial_s,
               f.dial_cpu_ms, f.p50_ms, f.p99_ms);
    }
    sync_alone(test_tmp(), &p50, &p99);
    printf("%-20s %71s %9.1f %10.1f\n", "append + sync alone", "(limit)", p50, p99);
    return 0;
}
