/*
 * bench/bench_agent.c - measures the agent's CPU time per ring record for three paths: only
 * draining, draining and batching, and the whole path to the transport. The reference is a memcpy
 * of the same records in the same run.
 *
 * The records are typical of a busy node: spans of 50 names on 4 threads, and one counter in eight
 * records. Records of the runtime's JSON are starts and stops. The transport acknowledges without
 * checking, so only the agent is measured. Prints the CPU time of this thread, as the median of the
 * rounds (default 5), which are interleaved.
 *
 * Then reads a saved runtime trace. Prints the CPU time of the process, with its reading thread,
 * per record of the JSON, from the file to encoded batches.
 *
 *     bench_agent [rounds] [word: runs only the rows that have this word in their name]
 */
#include <stdlib.h>
#include <unistd.h>

#include "agent/daemon/agent.h"
#include "agent/daemon/traces.h"
#include "base/sys/out.h"
#include "bench/runtime_json.h"
#include "tests/agent/ring_make.h"

#define RINGS      4
#define DATA       (8u << 20)
#define ROUNDS_MAX 99

/* Directory of the workload's rings, which are files in memory. */
static char ring_home[] = "/dev/shm/mrd-bench-XXXXXX";

typedef struct {
    mrd_transport pub; /* first */
    uint64_t tags[64];
    unsigned n;
    bool told;
    mrd_buf ack, welcome;
    uint64_t bytes;
} sink;

static mrd_err
sink_submit(mrd_transport *t, uint64_t tag, mrd_bytes frame)
{
    sink *s = (sink *) t;

    s->tags[s->n++] = tag;
    s->bytes += frame.len;
    return MRD_OK;
}

static mrd_err
sink_answer(mrd_transport *t, uint64_t tag, mrd_bytes frame)
{
    (void) t;
    (void) tag;
    (void) frame;
    return MRD_OK;
}

static unsigned
sink_slots(mrd_transport *t)
{
    sink *s = (sink *) t;

    return s->n >= 16 ? 0 : 16 - s->n;
}

static bool
sink_next(mrd_transport *t, int timeout_ms, mrd_link_event *ev)
{
    sink *s = (sink *) t;

    (void) timeout_ms;
    *ev = (mrd_link_event){ .kind = MRD_LINK_UP };
    if (!s->told) {
        s->told = true;
        return true;
    }
    if (s->n == 0)
        return false;
    ev->kind = MRD_LINK_REPLY;
    ev->tag = s->tags[--s->n];
    /* Tag 1 << 61 is the request "hello", which is answered with a welcome. All other requests are
     * answered with an acknowledgement. */
    ev->data = ev->tag == 1ull << 61 ? (mrd_bytes){ s->welcome.p, s->welcome.len }
                                     : (mrd_bytes){ s->ack.p, s->ack.len };
    return true;
}

static void
sink_done(mrd_transport *t, mrd_link_event *ev)
{
    (void) t;
    (void) ev;
}

static int
sink_fd(mrd_transport *t)
{
    (void) t;
    return -1;
}

static void
sink_close(mrd_transport *t)
{
    (void) t;
}

static sink *
make_sink(void)
{
    sink *s = calloc(1, sizeof(*s));
    Mrd__Ack ack = MRD__ACK__INIT;
    Mrd__Welcome welcome = MRD__WELCOME__INIT;
    mrd_frame fa = { .type = MRD_FRAME_ACK }, fw = { .type = MRD_FRAME_WELCOME };

    s->pub = (mrd_transport){ .submit = sink_submit,
                              .submit_urgent = sink_submit,
                              .answer = sink_answer,
                              .free_slots = sink_slots,
                              .next = sink_next,
                              .done = sink_done,
                              .fd = sink_fd,
                              .close = sink_close };
    welcome.heartbeat_ms = 1000;
    if (mrd_msg_pack(&fa, &ack, &s->ack, NULL) != MRD_OK ||
        mrd_msg_pack(&fw, &welcome, &s->welcome, NULL) != MRD_OK)
        abort();
    return s;
}

static double
cpu_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (double) ts.tv_sec * 1e9 + (double) ts.tv_nsec;
}

static mrd_err
drop(void *self, mrd_drain_process *process, unsigned clock, const mrd_event *ev)
{
    (void) process;
    (void) clock;
    *(uint64_t *) self += (uint64_t) ev->ts.ns;
    return MRD_OK;
}

static maker *rings[RINGS];

/* Fills the free part of a ring. */
static uint64_t
fill(maker *m, uint64_t *random)
{
    static uint32_t names[RINGS][50];
    size_t r = 0;
    uint64_t n = 0;
    mrd_local_ns ts = mrd_local_now();

    while (rings[r] != m)
        r++;
    for (int i = 0; names[r][i % 50] == 0 && i < 50; i++) {
        char text[16];

        snprintf(text, sizeof(text), "function_%d", i);
        names[r][i] = make_text(m, text);
    }
    for (;; n++) {
        mrd_ring_rec rec = { .kind = MRD_REC_SPAN };

        *random = *random * 6364136223846793005u + 1442695040888963407u;
        ts.ns += 500 + (int64_t) (*random >> 54);
        rec.ts = (uint64_t) ts.ns;
        rec.name = names[r][(*random >> 33) % 50];
        rec.value = 100 + (*random >> 50);
        if (n % 8 == 0)
            rec.kind = MRD_REC_COUNTER;
        if (!make_rec(m, rec, NULL, 0))
            break;
    }
    return n;
}

typedef double (*kernel)(uint64_t *ret_records);

static uint64_t seed = 1;

static uint64_t
fill_all(void)
{
    uint64_t n = 0;

    for (int i = 0; i < RINGS; i++)
        n += fill(rings[i], &seed);
    return n;
}

static double
bench_copy(uint64_t *ret_records)
{
    uint8_t *to = malloc(DATA);
    double before;

    *ret_records = fill_all();
    memset(to, 1, DATA);
    before = cpu_now();
    for (int i = 0; i < RINGS; i++) {
        memcpy(to, rings[i]->data, DATA);
        __asm__ volatile("" : : "r"(to) : "memory");
    }
    before = cpu_now() - before;
    for (int i = 0; i < RINGS; i++) { /* give it back */
        atomic_store(&rings[i]->h->tail, atomic_load(&rings[i]->h->head));
        atomic_store(&rings[i]->h->tail_check, ~atomic_load(&rings[i]->h->head));
    }
    free(to);
    return before;
}

static bool
all_read(void)
{
    for (int i = 0; i < RINGS; i++)
        if (atomic_load(&rings[i]->h->tail) != atomic_load(&rings[i]->h->head))
            return false;
    return true;
}

static double
bench_drain(uint64_t *ret_records)
{
    uint64_t sum = 0;
    mrd_drain_options o = {
        .instance_id = "i-bench", .ring_dir = ring_home, .only_uid = -1, .event = drop, .self = &sum
    };
    mrd_drain *p = NULL;
    double before;

    if (mrd_drain_open(&o, &p, NULL) != MRD_OK)
        abort();
    mrd_drain_step(p);
    while (!all_read())
        mrd_drain_step(p);
    *ret_records = fill_all();
    before = cpu_now();
    while (!all_read())
        mrd_drain_step(p);
    before = cpu_now() - before;
    mrd_drain_close(p);
    return before;
}

/* Writes the runtime's JSON to a ring in chunks, as libmeridian does. One record of this workload
 * is one record of the JSON. */
static void
fill_json(maker *m, const char *text, size_t len)
{
    const size_t chunk = 32768;
    size_t sent = 0;

    while (sent < len) {
        size_t n = len - sent < chunk ? len - sent : chunk;
        mrd_ring_rec rec = { .kind = MRD_REC_BLOB,
                             .ts = (uint64_t) mrd_local_now().ns,
                             .value = sent,
                             .domain = 1,
                             .track = (uint32_t) n };

        rec.flags =
            (uint8_t) ((sent == 0 ? MRD_RECF_FIRST : 0) | (sent + n == len ? MRD_RECF_LAST : 0));
        if (!make_rec(m, rec, text + sent, n))
            abort();
        sent += n;
    }
}

static double
bench_json(uint64_t *ret_records)
{
    enum { PAIRS = 500, DOCUMENTS = 30 };
    uint64_t sum = 0;
    mrd_drain_options o = {
        .instance_id = "i-bench", .ring_dir = ring_home, .only_uid = -1, .event = drop, .self = &sum
    };
    mrd_drain *p = NULL;
    mrd_drain_tally before, after;
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);
    double cpu;

    if (f == NULL || mrd_drain_open(&o, &p, NULL) != MRD_OK)
        abort();
    write_runtime(f, 2 * PAIRS);
    fclose(f);
    mrd_drain_step(p);
    while (!all_read())
        mrd_drain_step(p);
    for (int i = 0; i < RINGS * DOCUMENTS; i++)
        fill_json(rings[i % RINGS], text, len);
    mrd_drain_counts(p, &before);
    cpu = cpu_now();
    while (!all_read())
        mrd_drain_step(p);
    cpu = cpu_now() - cpu;
    mrd_drain_counts(p, &after);
    if (after.begun - before.begun != PAIRS * DOCUMENTS * RINGS)
        abort();
    *ret_records = 2 * PAIRS * DOCUMENTS * RINGS;
    mrd_drain_close(p);
    free(text);
    return cpu;
}

static double wire_bytes;

static double
bench_agent(uint64_t *ret_records)
{
    mrd_agent_options o = { .ring_dir = ring_home,
                            .spool_bytes = 256 << 20,
                            .recorder_bytes = 1 << 20 };
    mrd_node_identity node = { .instance_id = "i-bench", .source = "option" };
    Mrd__Control c = MRD__CONTROL__INIT;
    Mrd__ControlReply reply = MRD__CONTROL_REPLY__INIT;
    char message[MRD_WHY_MAX];
    sink *s = make_sink();
    mrd_agent *a = NULL;
    uint64_t bytes;
    double before;

    if (mrd_agent_open(&o, &node, &s->pub, &a, NULL) != MRD_OK)
        abort();
    c.type = MRD__CONTROL_TYPE__CONTROL_GO;
    c.session = 1;
    c.at_wall_ns = 1;
    mrd_agent_control(a, &c, &reply, message);
    mrd_agent_step(a, 0);
    while (!all_read())
        mrd_agent_step(a, 0);
    *ret_records = fill_all();
    bytes = s->bytes;
    before = cpu_now();
    while (!all_read())
        mrd_agent_step(a, 0);
    before = cpu_now() - before;
    wire_bytes = (double) (s->bytes - bytes) / (double) *ret_records;
    mrd_agent_close(a);
    mrd_buf_fini(&s->ack);
    mrd_buf_fini(&s->welcome);
    free(s);
    return before;
}

static int
by_value(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;

    return (x > y) - (x < y);
}

/* ---- A trace file ---- */

#define SPANS 500000

typedef struct {
    mrd_codec *codec;
    mrd_batch *batch;
    mrd_buf frame;
    uint64_t events, seq, bytes;
} json_sink;

static void
json_seal(json_sink *j)
{
    mrd_frame f = { .seq = j->seq++ };

    if (mrd_batch_events(j->batch) == 0)
        return;
    mrd_buf_reset(&j->frame);
    if (mrd_batch_encode(j->batch, j->codec, MRD_CODEC_ZSTD, &f, &j->frame, NULL) != MRD_OK)
        abort();
    j->bytes += j->frame.len;
}

static mrd_err
json_event(void *self, mrd_drain_process *p, unsigned clock, const mrd_event *ev)
{
    json_sink *j = self;
    mrd_err err;

    if (j->batch == NULL)
        j->batch = mrd_batch_new(p->catalog, p->id, clock, 0);
    err = mrd_batch_push(j->batch, ev);
    if (err == MRD_FULL) {
        json_seal(j);
        err = mrd_batch_push(j->batch, ev);
    }
    j->events++;
    return err;
}

static void
json_process(void *self, mrd_drain_process *p)
{
    json_sink *j = self;

    if (!p->gone)
        return;
    json_seal(j);
    mrd_batch_free(j->batch);
    j->batch = NULL;
}

static void
json_finished(void *self, const mrd_files_complete *file, mrd_trace_end end, uint64_t events,
              const char *message)
{
    (void) self, (void) end;
    if (events < SPANS)
        fprintf(stderr, "%s: %llu events: %s\n", file->path, (unsigned long long) events, message);
}

static double
process_cpu(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double) ts.tv_sec * 1e9 + (double) ts.tv_nsec;
}

static void
json_write(const char *path)
{
    static const char *const types[] = { "nrt_execute", "kbl_exec_pre", "nc_exec_running",
                                         "dmem_buf_copyin", "nrt_tensor_write" };
    mrd_buf text = { 0 };
    uint64_t random = 1;

    mrd_buf_text(&text, "{\"data_version\": 2, \"events\": [\n");
    for (int i = 0; i < SPANS; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        for (int stop = 0; stop < 2; stop++)
            mrd_buf_fmt(&text,
                        "%s{\"id\": %d, \"event_type\": \"%s\", \"phase\": \"%s\", \"nc_idx\": "
                        "%d, \"nc_local_id\": %d, \"tracking_id\": %d, \"worker_gid\": 3, "
                        "\"thread_id\": %d, \"timestamp_ns\": %lld, \"data\": {\"model_id\": "
                        "%d, \"exec_id\": %d}}",
                        i + stop == 0 ? "" : ",\n", 2 * i + stop, types[random >> 33 & 3],
                        stop ? "stop" : "start", i & 3, i, i, 100 + (i & 3),
                        1700000000000000000LL + i * 5000LL + (long long) (random >> 52) +
                            stop * 900,
                        10001 + (i & 7), i / 8);
    }
    mrd_buf_text(&text, "]}\n");
    if (text.err != MRD_OK ||
        mrd_write_file(path, (mrd_bytes){ text.p, text.len }, 0600, NULL) != MRD_OK)
        abort();
    mrd_buf_fini(&text);
}

/* Measures the reading of a saved runtime trace. Returns ns per record of its JSON, the minimum of
 * the rounds. */
static double
bench_trace_file(int rounds, double *ret_bytes)
{
    char path[512];
    double best = 1e18;

    snprintf(path, sizeof(path), "%s/trace.json", test_tmp());
    json_write(path);
    for (int round = 0; round < rounds; round++) {
        json_sink j = { .codec = mrd_codec_new() };
        mrd_traces_options o = { .instance_id = "i-bench",
                                 .dir = test_tmp(),
                                 .event = json_event,
                                 .process = json_process,
                                 .finished = json_finished,
                                 .self = &j };
        mrd_files_complete file = { .path = path,
                                    .rel = "trace.json",
                                    .sha256 = "0",
                                    .pid = 5,
                                    .uid = MRD_OWNED_ANY,
                                    .fd = open(path, O_RDONLY | O_CLOEXEC) };
        mrd_traces *t = NULL;
        double cpu = process_cpu();

        if (mrd_traces_open(&o, &t, NULL) != MRD_OK)
            abort();
        mrd_traces_file(t, &file);
        close(file.fd);
        while (!mrd_traces_idle(t)) {
            mrd_traces_step(t, true);
            nanosleep(&(struct timespec){ 0, 100000 }, NULL);
        }
        mrd_traces_close(t);
        cpu = (process_cpu() - cpu) / (2.0 * SPANS);
        best = cpu < best ? cpu : best;
        *ret_bytes = (double) j.bytes / (2.0 * SPANS);
        mrd_codec_free(j.codec);
        mrd_buf_fini(&j.frame);
    }
    unlink(path);
    return best;
}

int
main(int argc, char **argv)
{
    static const struct {
        const char *name;
        kernel run;
    } rows[] = {
        { "memcpy of the records (limit)", bench_copy },
        { "drain to events", bench_drain },
        { "drain, encode, spool, send", bench_agent },
        { "runtime JSON, drain to events", bench_json },
    };
    static const char trace_file[] = "runtime JSON file to batches: zstd 1";
    int rounds = argc > 1 ? atoi(argv[1]) : 5;
    const char *word = argc > 2 ? argv[2] : "";
    double ns[MRD_COUNT(rows)][ROUNDS_MAX], bytes[MRD_COUNT(rows)] = { 0 };

    if (rounds < 1 || rounds > ROUNDS_MAX) {
        fprintf(stderr, "usage: bench_agent [rounds, 1 to %d] [word]\n", ROUNDS_MAX);
        return 2;
    }
    /* test_last is part of the test harness, of which only the directory is used here */
    (void) test_last;
    if (mkdtemp(ring_home) == NULL) {
        perror(ring_home);
        return 1;
    }
    for (int i = 0; i < RINGS; i++)
        rings[i] = make_ring(ring_home, getpid(), make_start_ticks(getpid()), i + 1, DATA);
    for (int round = 0; round < rounds; round++)
        for (size_t k = 0; k < MRD_COUNT(rows); k++) {
            uint64_t n = 0;
            double cpu;

            if (k > 0 && strstr(rows[k].name, word) == NULL)
                continue;
            cpu = rows[k].run(&n);

            ns[k][round] = cpu / (double) n;
            bytes[k] = wire_bytes;
        }
    printf("%-36s %9s %12s %8s %9s\n", "agent, one core", "ns/record", "M records/s", "x limit",
           "B/record");
    for (size_t k = 0; k < MRD_COUNT(rows); k++) {
        double m;

        if (k > 0 && strstr(rows[k].name, word) == NULL)
            continue;
        qsort(ns[k], (size_t) rounds, sizeof(double), by_value);
        m = ns[k][rounds / 2];
        printf("%-36s %9.1f %12.1f %8.1f ", rows[k].name, m, 1e3 / m, m / ns[0][rounds / 2]);
        if (k < 2 || rows[k].run == bench_json)
            printf("%9s\n", "-");
        else
            printf("%9.2f\n", bytes[k]);
    }
    if (strstr(trace_file, word) != NULL) {
        double bytes_each, m = bench_trace_file(rounds, &bytes_each);

        printf("%-36s %9.1f %12.1f %8s %9.2f\n", trace_file, m, 1e3 / m, "-", bytes_each);
    }
    for (int i = 0; i < RINGS; i++) {
        unlink(rings[i]->path);
        make_free(rings[i]);
    }
    rmdir(ring_home);
    return 0;
}
