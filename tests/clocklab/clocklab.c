/*
 * The clock laboratory: real UDP packets between two network namespaces, real kernel timestamps,
 * the agent's probe client and the aggregator's time server. Both ends share the clock of the
 * machine. A simulated clock (RAW + x(RAW)) replaces the client's timestamps, so the test has the
 * exact true offset.
 *
 *
 *   clocklab NS_CLIENT NS_SERVER SERVER_ADDRESS SCENARIO SECONDS
 *   SCENARIO  idle | busy2 | busy4 | saturated (the caller shapes the router), and the fallbacks,
 *             idle: user (no kernel stamps at either end) | nng (UDP blocked: an own
 *               connection)
 *
 * Exit status: 0 if all goals of docs/dev/clocks.md are met, 1 if an event is outside its bound, 3
 * if another goal is missed, 2 if it could not run. scripts/clocklab.sh creates the namespaces.
 */
#include "tests/sim/judge.h"

#include "agent/clock/linkprobe.h"
#include "agent/clock/timeprobe.h"
#include "aggregator/clock/timeserve.h"
#include "proto/wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PPM        37.0
#define WANDER_PPM 0.3
#define WANDER_S   100.0                   /* 19 ppb/s at most */
#define OFFSET     (-31536000LL * MRD_SEC) /* the node's clock is a year ahead */
/* agent ids: the probes of FIT_AGENT are the input of the fit, the probes of CHECK_AGENT test it */
#define FIT_AGENT   1
#define CHECK_AGENT 2
/* Pairs of probes that CHECK_AGENT sends per second, 39 packets in total. They measure the error of
 * the fit, so the fit must not use them. */
#define CHECK_PAIRS 19.5
#define STREAM_PORT 7799
#define LINK_PORT   7798
#define HALVES      512
#define BATCH_NS    (50 * MRD_MS)
#define BEAT_NS     MRD_SEC /* interval at which the aggregator may request faster probing */
#define PROBES_MAX  400000

/* ---- the simulated clock ---- */

static int64_t zero_raw, session_minus_raw;
static bool user_stamps; /* scenario user */

static int64_t
bend(void *self, int64_t raw)
{
    double t = (double) (raw - zero_raw) * 1e-9, k = 6.283185307179586 / WANDER_S;
    double x = PPM * 1e3 * t + WANDER_PPM * 1e3 / k * (1 - cos(k * t));

    (void) self;
    return raw - OFFSET + llround(x);
}

static int64_t
local_of(void *self, int64_t session_ns)
{
    return bend(self, session_ns - session_minus_raw);
}

/* ---- namespaces and loads ---- */

static void
die(const char *what)
{
    fprintf(stderr, "clocklab: %s: %s\n", what, strerror(errno));
    exit(2);
}

static void
enter(const char *ns)
{
    char path[256];
    int fd;

    snprintf(path, sizeof(path), "/run/netns/%s", ns);
    if ((fd = open(path, O_RDONLY | O_CLOEXEC)) < 0 || setns(fd, CLONE_NEWNET) != 0)
        die(path);
    close(fd);
}

static pid_t children[16];
static size_t child_count;

static pid_t
child(void)
{
    pid_t pid = fork();

    if (pid < 0)
        die("fork");
    if (pid > 0)
        children[child_count++] = pid;
    return pid;
}

static void
stop_children(void)
{
    for (size_t i = 0; i < child_count; i++) {
        kill(children[i], SIGKILL);
        waitpid(children[i], NULL, 0);
    }
    child_count = 0;
}

static void
burn(int n)
{
    for (int i = 0; i < n; i++) {
        if (child() == 0) {
            for (volatile uint64_t x = 0;; x++)
                continue;
        }
    }
}

static void
sink_forever(int fd)
{
    static char junk[1 << 16];
    int c = accept(fd, NULL, NULL);

    while (c >= 0 && read(c, junk, sizeof(junk)) > 0)
        continue;
    _exit(0);
}

static void
pour_forever(const struct sockaddr_in *to)
{
    static char junk[1 << 16];
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (connect(fd, (const struct sockaddr *) to, sizeof(*to)) != 0)
        die("stream");
    while (write(fd, junk, sizeof(junk)) > 0)
        continue;
    _exit(0);
}

static void
stream(const char *ns_from, const char *ns_to, const char *address)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(STREAM_PORT) };
    int fd, one = 1;

    inet_pton(AF_INET, address, &a.sin_addr);
    enter(ns_to);
    fd = socket(AF_INET, SOCK_STREAM, 0);
    (void) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (fd < 0 || bind(fd, (struct sockaddr *) &a, sizeof(a)) != 0 || listen(fd, 1) != 0)
        die("stream listener");
    if (child() == 0)
        sink_forever(fd);
    close(fd);
    enter(ns_from);
    if (child() == 0)
        pour_forever(&a);
}

/* ---- collecting ---- */

typedef struct {
    mrd_probe *probes;
    int64_t *known;
    size_t n;
    int64_t least_trip;
    mrd_probe_sent halves[HALVES];
    int64_t since[HALVES];
    size_t in, out;
    mrd_follow *follow; /* the aggregator's live view of the clock, NULL without one */
    int64_t beat_at;
} take;

static take
take_new(void)
{
    take t = { .probes = malloc(PROBES_MAX * sizeof(mrd_probe)),
               .known = malloc(PROBES_MAX * sizeof(int64_t)),
               .least_trip = INT64_MAX };

    if (t.probes == NULL || t.known == NULL)
        die("memory");
    return t;
}

/* Holds each half of a probe for the time of a batch, because the server learns the departure time
 * of its answer shortly after the client has the answer. */
static void
drain(mrd_timeprobe *client, mrd_timeserve *server, take *t)
{
    int64_t now = mrd_local_now().ns;
    mrd_probe p;

    while (t->in - t->out < HALVES && mrd_timeprobe_take(client, &t->halves[t->in % HALVES]))
        t->since[t->in++ % HALVES] = now;
    while (t->out < t->in && now - t->since[t->out % HALVES] >= BATCH_NS) {
        const mrd_probe_sent *sent = &t->halves[t->out++ % HALVES];

        if (t->n == PROBES_MAX || mrd_timeserve_join(server, sent, &p) != MRD_OK)
            continue;
        t->known[t->n] = mrd_local_now().ns + session_minus_raw;
        t->probes[t->n++] = p;
        if (t->follow != NULL)
            mrd_follow_probe(t->follow, &p);
        if (p.up && p.down && (p.a4 - p.a1) - (p.r3 - p.r2) < t->least_trip)
            t->least_trip = (p.a4 - p.a1) - (p.r3 - p.r2);
    }
}

/* Applies the pace of the aggregator's heartbeat reply, as aggregator/clock/clocks.c computes it. */
static void
hear_pace(mrd_timeprobe *client, take *t)
{
    int64_t now = mrd_local_now().ns;
    mrd_dur_ns width, best;

    if (t->follow == NULL || now < t->beat_at)
        return;
    t->beat_at = now + BEAT_NS;
    mrd_follow_width(t->follow, &width, &best);
    mrd_timeprobe_pace(client, best > 0 && width > 2 * best ? MRD_PACE_FAST : MRD_PACE_RUN);
}

static mrd_timeprobe *
client_open(const char *address, uint16_t port, uint64_t agent, double pairs, mrd_timeserve *server)
{
    mrd_timeprobe_options o = { .host = address,
                                .port = port,
                                .session = 1,
                                .agent = agent,
                                .agent_epoch = 1,
                                .bend = bend,
                                .user_stamps = user_stamps,
                                .pairs_per_s = pairs };
    mrd_timeprobe *c = NULL;
    mrd_why why;

    o.key[0] = (uint8_t) agent;
    if (mrd_timeserve_agent(server, agent, o.key) != MRD_OK ||
        mrd_timeprobe_open(&o, &c, &why) != MRD_OK) {
        fprintf(stderr, "clocklab: %s\n", why.text);
        exit(2);
    }
    return c;
}

static void
wait_and_step(mrd_timeprobe *const c[2])
{
    struct pollfd fds[2] = { { mrd_timeprobe_fd(c[0]), POLLIN, 0 },
                             { mrd_timeprobe_fd(c[1]), POLLIN, 0 } };
    int64_t a = mrd_timeprobe_deadline(c[0]).ns, b = mrd_timeprobe_deadline(c[1]).ns;
    int64_t wait = (a < b ? a : b) - mrd_local_now().ns;
    struct timespec ts = { .tv_nsec = wait < 0 ? 0 : wait > 100000000 ? 100000000 : wait };

    (void) ppoll(fds, 2, &ts, NULL);
    mrd_timeprobe_step(c[0]);
    mrd_timeprobe_step(c[1]);
}

static void
probe_for(int64_t seconds, mrd_timeprobe *const c[2], mrd_timeserve *server, take t[2])
{
    int64_t end = mrd_local_now().ns + seconds * MRD_SEC;
    bool last_burst = false;

    for (;;) {
        wait_and_step(c);
        for (int i = 0; i < 2; i++)
            drain(c[i], server, &t[i]);
        if (mrd_local_now().ns < end) {
            hear_pace(c[0], &t[0]);
            continue;
        }
        if (!last_burst) { /* after the last events, before the last upload */
            mrd_timeprobe_pace(c[0], MRD_PACE_STOP);
            mrd_timeprobe_pace(c[1], MRD_PACE_STOP);
            mrd_timeprobe_burst(c[0]);
            last_burst = true;
        } else if (!mrd_timeprobe_bursting(c[0]) && t[0].in == t[0].out) {
            return;
        }
    }
}

/* ---- without UDP ---- */

/* The aggregator's side runs in its own process, because NNG's threads stay in their first
 * namespace. */
static void
answer_forever(const char *url)
{
    mrd_server_options o = { .data_url = url };
    mrd_server *server = NULL;
    mrd_server_request r;
    mrd_buf out = { 0 };
    mrd_why why = { 0 };

    if (mrd_server_open(&o, &server, &why) != MRD_OK) {
        fprintf(stderr, "clocklab: %s\n", why.text);
        _exit(2);
    }
    for (;;) {
        mrd_frame f = { .type = MRD_FRAME_PROBE_REPLY };
        Mrd__ProbeReply m = MRD__PROBE_REPLY__INIT;
        mrd_msg msg;

        if (!mrd_server_next(server, -1, &r))
            _exit(0);
        if (mrd_msg_unpack(r.data, &msg, NULL) != MRD_OK || msg.frame.type != MRD_FRAME_PROBE)
            _exit(2);
        m.k = msg.u.probe->k;
        m.r2 = r.at.ns + session_minus_raw;
        mrd_msg_free(&msg);
        mrd_buf_reset(&out);
        m.r3 = mrd_local_now().ns + session_minus_raw;
        if (mrd_msg_pack(&f, &m, &out, NULL) != MRD_OK)
            _exit(2);
        mrd_server_reply(server, &r, (mrd_bytes){ out.p, out.len });
    }
}

static mrd_linkprobe *
link_open(const char *url)
{
    mrd_link_options o = { .data_url = url, .window = 1, .reconnect_max_ns = 200 * MRD_MS };
    mrd_transport *t = NULL;
    mrd_why why = { 0 };
    mrd_linkprobe *p;

    if (mrd_transport_link(&o, &t, &why) != MRD_OK ||
        (p = mrd_linkprobe_open(t, FIT_AGENT, 1, "")) == NULL) {
        fprintf(stderr, "clocklab: %s\n", why.text);
        exit(2);
    }
    return p;
}

static void
link_drain(mrd_linkprobe *p, take *t)
{
    mrd_probe probe;

    while (t->n < PROBES_MAX && mrd_linkprobe_take(p, &probe)) {
        probe.a1 = bend(NULL, probe.a1);
        probe.a4 = bend(NULL, probe.a4);
        t->known[t->n] = mrd_local_now().ns + session_minus_raw;
        t->probes[t->n++] = probe;
        if ((probe.a4 - probe.a1) - (probe.r3 - probe.r2) < t->least_trip)
            t->least_trip = (probe.a4 - probe.a1) - (probe.r3 - probe.r2);
    }
}

static void
link_probe_for(int64_t seconds, mrd_linkprobe *p, take *t)
{
    int64_t end = mrd_local_now().ns + seconds * MRD_SEC, now;
    bool last_burst = false;

    while ((now = mrd_local_now().ns) < end + MRD_SEC) {
        struct pollfd fd = { mrd_linkprobe_fd(p), POLLIN, 0 };
        int64_t wait = mrd_linkprobe_next_ns(p).ns - now;
        struct timespec ts = { .tv_nsec = wait < 0 ? 0 : wait > 100000000 ? 100000000 : wait };

        (void) ppoll(&fd, 1, &ts, NULL);
        mrd_linkprobe_step(p);
        link_drain(p, t);
        if (now >= end && !last_burst) {
            mrd_linkprobe_pace(p, MRD_PACE_STOP);
            mrd_linkprobe_burst(p);
            last_burst = true;
        }
    }
}

/* ---- goals ---- */

static int missed_goals;

static void
row(const char *what, double goal, double got, const char *unit)
{
    bool ok = got <= goal;

    missed_goals += !ok;
    printf("  %-52s %10.4g | %10.4g %-4s %s\n", what, goal, got, unit, ok ? "ok" : "MISSED");
}

static double
coverage(const verdict *v)
{
    size_t n = v->n + v->gap;

    return n == 0 ? 0 : (double) (n - v->missed) / (double) n;
}

static void
print_goals(bool saturated, outcome *o, const mrd_follow_report *check, double trip_us)
{
    row("offline error, median", 0.1, verdict_error(&o->offline, 0.5), "us");
    row("offline error, p99", saturated ? 3 : 0.5, verdict_error(&o->offline, 0.99), "us");
    row("live error after 30 s, p99", saturated ? 1.5 : 0.5, verdict_error(&o->late, 0.99), "us");
    row("bound width offline, median, of least round trip", saturated ? 2 : 1.25,
        verdict_width(&o->offline, 0.5) / trip_us, "x");
    row("bound width offline, p99, of least round trip", saturated ? 10 : 1.5,
        verdict_width(&o->offline, 0.99) / trip_us, "x");
    row("held-out packets reversed in time", 0.1,
        check->checked == 0 ? NAN : 100.0 * (double) check->reversed / (double) check->checked,
        "%");
    row("worst of them", 0.5, (double) check->reversed_max * 1e-3, "us");
    row("held-out packets outside the bound", 0, (double) check->violations, "");
    printf("  %-52s %10s | live %.4f, offline %.4f of %zu events each\n", "bound coverage",
           "1.0000", coverage(&o->live), coverage(&o->offline), o->offline.n + o->offline.gap);
}

/* A fallback must keep its bound. Over a connection it must also reach the goal for its error. */
static void
print_fallback(bool nng, outcome *o, const mrd_follow_report *check)
{
    row("offline error, median", nng ? 40 : 10, verdict_error(&o->offline, 0.5), "us");
    row("offline error, p99", nng ? 80 : 20, verdict_error(&o->offline, 0.99), "us");
    if (check->checked > 0)
        row("held-out packets outside the bound", 0, (double) check->violations, "");
    printf("  %-52s %10s | live %.4f, offline %.4f of %zu events each\n", "bound coverage",
           "1.0000", coverage(&o->live), coverage(&o->offline), o->offline.n + o->offline.gap);
}

static int
order_double(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;

    return x < y ? -1 : x > y;
}

/* Inverts `bend` by iteration. */
static double
true_offset(int64_t local)
{
    int64_t raw = local + OFFSET; /* a sufficient first guess, because x changes by 37 ppm only */

    for (int i = 0; i < 4; i++)
        raw -= bend(NULL, raw) - local;
    return (double) (raw - local + OFFSET) - (double) OFFSET;
}

/* Prints the true one-way delays at 1 pair/s, without bursts. The clock of one machine stamped both
 * ends. */
static void
print_delays(const take *all)
{
    size_t burst = 2 * MRD_TIMEPROBE_BURST, n = all->n > 2 * burst ? all->n - 2 * burst : 0;
    take part = { .probes = all->probes + (n > 0 ? burst : 0), .n = n };
    const take *t = &part;
    double *v = malloc((t->n + 1) * sizeof(*v));

    for (int position = 0; position < 2 && v != NULL; position++) {
        for (int down = 0; down < 2; down++) {
            size_t k = 0;

            for (size_t i = 0; i < t->n; i++) {
                const mrd_probe *p = &t->probes[i];
                int64_t local = down ? p->a4 : p->a1, sess = down ? p->r3 : p->r2;
                double d = (double) (sess - session_minus_raw - local) - true_offset(local);

                if (p->position == position && (down ? p->down : p->up))
                    v[k++] = down ? -d : d;
            }
            qsort(v, k, sizeof(*v), order_double);
            if (k > 0)
                printf("  one way %s, packet %d of its pair: least %.2f median %.2f p90 %.2f us\n",
                       down ? "back " : "there", position + 1, v[0] * 1e-3, v[k / 2] * 1e-3,
                       v[k * 9 / 10] * 1e-3);
        }
    }
    for (size_t i = 0; i < t->n && v != NULL; i++)
        v[i] = (double) t->probes[i].e;
    if (v != NULL && t->n > 0) {
        qsort(v, t->n, sizeof(*v), order_double);
        printf(
            "  stated uncertainty of the stamps, both ends: least %.0f median %.0f p90 %.0f ns\n",
            v[0], v[t->n / 2], v[t->n * 9 / 10]);
    }
    free(v);
}

static void
print_baselines(const take *fit, const judge_input *in)
{
    for (int b = 0; b < BASE_COUNT; b++) {
        verdict v = { 0 };
        baseline_fit f;

        baseline_solve((baseline) b, fit->probes, fit->n, &f);
        for (int i = 0; i < 20000 && f.ok; i++) {
            int64_t at = in->from + (in->to - in->from) / 20000 * i, local = local_of(NULL, at);

            verdict_add(&v, (mrd_sess_ns){ local + baseline_offset(&f, local) }, NULL, at);
        }
        if (f.ok)
            printf("  %-22s error %10.3f / %10.3f us\n", baseline_names[b], verdict_error(&v, 0.5),
                   verdict_error(&v, 0.99));
        else
            printf("  %-22s no single line fits the packets\n", baseline_names[b]);
        verdict_fini(&v);
        baseline_fini(&f);
    }
}

static int
report(const char *scenario, take t[2], int64_t from, int64_t to)
{
    mrd_follow_report check = { 0 };
    outcome o;
    judge_input in = { .probes = t[0].probes,
                       .known = t[0].known,
                       .n = t[0].n,
                       .from = from,
                       .to = to,
                       .local_of = local_of,
                       .events = 25000,
                       .seed = 1,
                       .ordered = true };
    double trip_us = (double) t[t[1].n > 0].least_trip * 1e-3;

    judge(&in, &o);
    if (o.err != MRD_OK) {
        fprintf(stderr, "clocklab: %s\n", o.why.text);
        return 2;
    }
    for (size_t i = 0; i < t[1].n; i++)
        t[1].probes[i].held_out = true;
    mrd_follow_check(o.align, t[1].probes, t[1].n, &check);
    printf("%s: %.0f s, %zu probes in the fit, %zu packets held out, least round trip %.2f us, "
           "w %.0f ppb/s, epochs %u\n",
           scenario, (double) (to - from) * 1e-9, t[0].n, (size_t) check.checked, trip_us,
           o.report.w, o.report.bound.epochs);
    printf("  %-52s %10s | %10s\n", "", "goal", "measured");
    if (strcmp(scenario, "user") == 0 || strcmp(scenario, "nng") == 0)
        print_fallback(strcmp(scenario, "nng") == 0, &o, &check);
    else
        print_goals(strcmp(scenario, "saturated") == 0, &o, &check, trip_us);
    printf("  ours, all answers (median / p99):\n");
    verdict_print("live", &o.live);
    verdict_print("offline", &o.offline);
    print_delays(&t[0]);
    printf("  others, on the same packets (median / p99):\n");
    print_baselines(&t[0], &in);
    fflush(stdout);
    if (o.live.missed + o.offline.missed > 0 || o.disorder)
        return 1;
    outcome_fini(&o);
    return missed_goals > 0 ? 3 : 0;
}

/* UDP is not used at all. */
static int
run_link(char **argv)
{
    take t[2] = { take_new(), take_new() };
    char url[128];
    mrd_linkprobe *p;
    int64_t from;
    int code;

    snprintf(url, sizeof(url), "tcp://%s:%d", argv[3], LINK_PORT);
    enter(argv[2]);
    if (child() == 0)
        answer_forever(url);
    enter(argv[1]);
    from = mrd_local_now().ns + session_minus_raw;
    p = link_open(url);
    link_probe_for(atoi(argv[5]), p, &t[0]);
    stop_children();
    code = report(argv[4], t, from, mrd_local_now().ns + session_minus_raw);
    mrd_linkprobe_close(p);
    for (int i = 0; i < 2; i++) {
        free(t[i].probes);
        free(t[i].known);
    }
    return code;
}

int
main(int argc, char **argv)
{
    mrd_timeserve_options so = { 0 };
    mrd_timeserve *server = NULL;
    mrd_timeprobe *clients[2];
    take t[2];
    int64_t from;
    mrd_why why;
    int code;

    if (argc != 6) {
        fprintf(stderr, "usage: clocklab NS_CLIENT NS_SERVER SERVER_ADDRESS SCENARIO SECONDS\n");
        return 2;
    }
    zero_raw = mrd_local_now().ns;
    session_minus_raw = mrd_wall_now().ns - zero_raw;
    if (strncmp(argv[4], "busy", 4) == 0)
        burn(atoi(argv[4] + 4));
    else if (strcmp(argv[4], "saturated") == 0)
        stream(argv[1], argv[2], argv[3]);
    atexit(stop_children);
    if (strcmp(argv[4], "nng") == 0)
        return run_link(argv);
    user_stamps = strcmp(argv[4], "user") == 0;
    so.session_minus_raw = session_minus_raw;
    so.user_stamps = user_stamps;
    enter(argv[2]);
    if (mrd_timeserve_open(&so, &server, &why) != MRD_OK) {
        fprintf(stderr, "clocklab: %s\n", why.text);
        return 2;
    }
    enter(argv[1]);
    from = mrd_local_now().ns + session_minus_raw;
    for (int i = 0; i < 2; i++)
        t[i] = take_new();
    if ((t[0].follow = mrd_follow_new("node", 1, &mrd_follow_defaults)) == NULL)
        die("memory");
    clients[0] = client_open(argv[3], mrd_timeserve_port(server), FIT_AGENT, 1, server);
    clients[1] = client_open(argv[3], mrd_timeserve_port(server), CHECK_AGENT, CHECK_PAIRS, server);
    probe_for(atoi(argv[5]), clients, server, t);
    stop_children();
    code = report(argv[4], t, from, mrd_local_now().ns + session_minus_raw);
    for (int i = 0; i < 2; i++) {
        mrd_timeprobe_counts c = mrd_timeprobe_counters(clients[i]);

        printf("  %s client: pairs %llu, postponed %llu times, lost %llu, user-space stamps %llu, "
               "voided by the wall clock %llu\n",
               i == 0 ? "fit" : "check", (unsigned long long) c.pairs,
               (unsigned long long) c.postponed, (unsigned long long) c.lost,
               (unsigned long long) c.no_kernel_stamp, (unsigned long long) c.stepped);
        mrd_timeprobe_close(clients[i]);
        mrd_follow_free(t[i].follow);
        free(t[i].probes);
        free(t[i].known);
    }
    mrd_timeserve_close(server);
    return code;
}
