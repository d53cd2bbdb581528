/*
 * Measures the cost per event of encoding, compressing and decoding batches. Also measures the cost
 * of sending frames from one process to an aggregator in another one.
 *
 * The reference batch has 8192 events with exponential gaps of 2 us and log-normal durations. It
 * has 50 names (Zipf distribution), 64 tracks, ids that mostly increase by 1, and 0 to 2 arguments
 * per event. It is compared with the same rows as protobuf submessages, and with copying the rows
 * by memcpy. Prints the median CPU time of ROUNDS rounds.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "aggregator/aggregator.h"
#include "base/obj.h"
#include "bench/row.pb-c.h"
#include "bench/served.h"
#include "proto/batch/batch.h"
#include "proto/link.h"
#include "proto/wire.h"

enum {
    EVENTS = 8192,
    BATCHES = 16,
    ROUNDS = 7,
    KEYS = 8,
    NAMES = 50,
    TRACKS = 64,
    STORED = 200,
    SENT = 1500
};

typedef struct {
    mrd_event ev;
    mrd_arg args[2];
} made;

static uint64_t state = 88172645463325252u;
static mrd_catalog *cat;
static mrd_track_id tracks[TRACKS];
static mrd_sid names[NAMES], keys[KEYS];
static made *batches[BATCHES];
static mrd_buf frames[BATCHES];

static uint64_t
rnd(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static double
uniform(void)
{
    return ((double) (rnd() >> 11) + 0.5) / 9007199254740992.0;
}

static size_t
zipf(size_t n, double s)
{
    double sum = 0, at;

    for (size_t i = 1; i <= n; i++)
        sum += pow((double) i, -s);
    at = uniform() * sum;
    for (size_t i = 1; i < n; i++) {
        if ((at -= pow((double) i, -s)) <= 0)
            return i - 1;
    }
    return n - 1;
}

static void
make_world(void)
{
    mrd_process p;
    mrd_track t;
    char text[32];

    cat = mrd_catalog_new();
    mrd_process_init(&p);
    p.instance_id = mrd_catalog_intern(cat, "i-0123456789abcdef0");
    p.process_id = 4711;
    mrd_track_init(&t, mrd_catalog_process(cat, &p), MRD_SRC_RUNTIME);
    for (int i = 0; i < TRACKS; i++) {
        t.lnc_idx = i % 4;
        t.thread_id = 5000 + i;
        tracks[i] = mrd_catalog_track(cat, &t);
    }
    for (int i = 0; i < NAMES; i++) {
        snprintf(text, sizeof(text), "nrt_function_name_%d", i);
        names[i] = mrd_catalog_intern(cat, text);
    }
    for (int i = 0; i < KEYS; i++) {
        snprintf(text, sizeof(text), "argument_%d", i);
        keys[i] = mrd_catalog_intern(cat, text);
    }
}

static void
make_event(made *m, int64_t *ts, uint64_t *id)
{
    double gauss = sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
    unsigned pick = (unsigned) (rnd() % 10);

    *ts += 1 + (int64_t) (-2000 * log(uniform()));
    *id += 1;
    m->ev = (mrd_event){ .kind = MRD_SPAN,
                         .ts = { *ts },
                         .dur_ns = (int64_t) (4900 * exp(gauss)),
                         .id = rnd() % 8 == 0 ? *id - rnd() % 32 : *id,
                         .track = tracks[zipf(TRACKS, 0.5)],
                         .name = names[zipf(NAMES, 1)],
                         .args = m->args,
                         .arg_count = pick < 4   ? 0
                                      : pick < 8 ? 1
                                                 : 2 };
    for (uint32_t i = 0; i < m->ev.arg_count; i++)
        m->args[i] =
            (mrd_arg){ .key = keys[rnd() % KEYS],
                       .type = MRD_ARG_INT,
                       .v.i = rnd() % 2 == 0 ? (int64_t) (rnd() % 100) : INT64_C(1) << rnd() % 30 };
}

static void
make_batches(void)
{
    int64_t ts = 1000000000000;
    uint64_t id = 1000000;

    for (int b = 0; b < BATCHES; b++) {
        batches[b] = calloc(EVENTS, sizeof(made));
        for (int i = 0; i < EVENTS; i++)
            make_event(&batches[b][i], &ts, &id);
    }
}

static double
cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double) t.tv_sec * 1e9 + (double) t.tv_nsec;
}

static int
by_value(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;

    return x < y ? -1 : x > y;
}

static double
median(double *v, int n)
{
    qsort(v, (size_t) n, sizeof(*v), by_value);
    return v[n / 2];
}

/* ---- One round of each measured function; each returns ns per event ---- */

static mrd_codec *codec;
static mrd_batch *batch;
static mrd_batch_reader *reader;
static size_t wire_bytes;
static volatile uint64_t sink;

static double
encode(mrd_codec_id id)
{
    double t = cpu_ns();

    wire_bytes = 0;
    for (int b = 0; b < BATCHES; b++) {
        mrd_frame f = { .agent = 1, .epoch = 2, .session = 3, .seq = (uint64_t) b };

        mrd_buf_reset(&frames[b]);
        for (int i = 0; i < EVENTS; i++) {
            if (mrd_batch_push(batch, &batches[b][i].ev) != MRD_OK)
                abort();
        }
        if (mrd_batch_encode(batch, codec, id, &f, &frames[b], NULL) != MRD_OK)
            abort();
        wire_bytes += frames[b].len;
    }
    return (cpu_ns() - t) / (EVENTS * BATCHES);
}

static uint64_t
sum_of(const mrd_event *ev, uint32_t n)
{
    uint64_t sum = 0;

    for (const mrd_event *end = ev + n; ev < end; ev++) {
        sum += (uint64_t) ev->ts.ns + (uint64_t) ev->dur_ns + ev->id + ev->name + ev->track;
        for (uint32_t i = 0; i < ev->arg_count; i++)
            sum += ev->args[i].v.u + ev->args[i].key;
    }
    return sum;
}

static double
decode(void)
{
    double t = cpu_ns();
    uint64_t sum = 0;

    for (int b = 0; b < BATCHES; b++) {
        mrd_event *run;
        uint32_t n;
        mrd_batch_info info;
        mrd_bytes body;
        mrd_frame f;

        if (mrd_frame_check((mrd_bytes){ frames[b].p, frames[b].len }, &f, &body, NULL) != MRD_OK ||
            mrd_batch_open(reader, &f, body, cat, &info, NULL) != MRD_OK)
            abort();
        for (; mrd_batch_peek(reader, &run, &n, NULL) == MRD_MORE; mrd_batch_take(reader, n))
            sum += sum_of(run, n);
    }
    sink = sum;
    return (cpu_ns() - t) / (EVENTS * BATCHES);
}

static double
copy(void)
{
    static made to[EVENTS];
    double t = cpu_ns();

    for (int b = 0; b < BATCHES; b++) {
        memcpy(to, batches[b], sizeof(to));
        sink += to[b].ev.id;
    }
    return (cpu_ns() - t) / (EVENTS * BATCHES);
}

static double rows_decode_ns, rows_bytes;

static double
rows(void)
{
    static Bench__Row row[EVENTS], *list[EVENTS];
    static Bench__Arg arg[EVENTS][2], *args[EVENTS][2];
    uint8_t *wire = malloc(EVENTS * 128);
    double t = cpu_ns(), decoded = 0;
    size_t bytes = 0;

    for (int b = 0; b < BATCHES; b++) {
        Bench__Rows all = BENCH__ROWS__INIT, *back;
        size_t len;
        double u;

        for (int i = 0; i < EVENTS; i++) {
            const mrd_event *ev = &batches[b][i].ev;

            row[i] = (Bench__Row) BENCH__ROW__INIT;
            row[i].ts = (uint64_t) ev->ts.ns;
            row[i].dur = (uint64_t) ev->dur_ns;
            row[i].name = ev->name;
            row[i].track = ev->track;
            row[i].id = ev->id;
            row[i].n_args = ev->arg_count;
            row[i].args = args[i];
            for (uint32_t k = 0; k < ev->arg_count; k++) {
                arg[i][k] = (Bench__Arg) BENCH__ARG__INIT;
                arg[i][k].key = ev->args[k].key;
                arg[i][k].value = ev->args[k].v.i;
                args[i][k] = &arg[i][k];
            }
            list[i] = &row[i];
        }
        all.n_rows = EVENTS;
        all.rows = list;
        len = bench__rows__pack(&all, wire);
        bytes += len;
        u = cpu_ns();
        back = bench__rows__unpack(NULL, len, wire);
        sink += back->rows[5]->id;
        bench__rows__free_unpacked(back, NULL);
        decoded += cpu_ns() - u;
    }
    t = cpu_ns() - t - decoded;
    rows_decode_ns = decoded / (EVENTS * BATCHES);
    rows_bytes = (double) bytes / (EVENTS * BATCHES);
    free(wire);
    return t / (EVENTS * BATCHES);
}

/* ---- The work of an aggregator for one frame, without a network ---- */

static double
store(int sync_every)
{
    char dir[] = "/tmp/mrd-bench-XXXXXX", command[64];
    mrd_journal *j = NULL;
    double t;

    if (mkdtemp(dir) == NULL || mrd_journal_open(dir, MRD_STR("i-1"), 3, &j, NULL) != MRD_OK)
        abort();
    t = cpu_ns();
    for (int i = 0; i < STORED; i++) {
        mrd_bytes data = { frames[i % BATCHES].p, frames[i % BATCHES].len }, body;
        mrd_frame f;

        if (mrd_frame_check(data, &f, &body, NULL) != MRD_OK ||
            mrd_journal_append(j, &f, data, NULL) != MRD_OK ||
            (i % sync_every == 0 && mrd_journal_sync(j, NULL) != MRD_OK))
            abort();
    }
    t = cpu_ns() - t;
    mrd_journal_close(j, NULL);
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    if (system(command) != 0)
        abort();
    return t / ((double) STORED * EVENTS);
}

/* ---- Frames to an aggregator in another process, over loopback ---- */

static char node_id[] = "i-0123456789abcdef0";

static void
answer(mrd_link *link, const mrd_link_event *ev)
{
    Mrd__ControlReply r = MRD__CONTROL_REPLY__INIT;
    mrd_frame f = { .type = MRD_FRAME_CONTROL_REPLY };
    mrd_buf wire = { 0 };
    mrd_msg msg;

    if (mrd_msg_unpack(ev->data, &msg, NULL) == MRD_OK) {
        r.instance_id = node_id;
        r.session = msg.u.control->session;
        r.type = msg.u.control->type;
        r.phase = MRD__NODE_PHASE__NODE_ARMED;
        r.selected = true;
        r.run = 1;
        mrd_msg_pack(&f, &r, &wire, NULL);
        mrd_msg_free(&msg);
    }
    mrd_link_answer(link, ev->tag, (mrd_bytes){ wire.p, wire.len });
    mrd_buf_fini(&wire);
}

static void
say_hello(mrd_link *link)
{
    Mrd__Hello h = MRD__HELLO__INIT;
    mrd_frame f = { .type = MRD_FRAME_HELLO, .agent = mrd_agent_key(mrd_str_of(node_id)) };
    mrd_buf wire = { 0 };

    h.wire_major = MRD_WIRE_MAJOR;
    h.instance_id = node_id;
    h.run = 1;
    mrd_msg_pack(&f, &h, &wire, NULL);
    mrd_link_submit_urgent(link, UINT64_MAX, (mrd_bytes){ wire.p, wire.len });
    mrd_buf_fini(&wire);
}

/* Handles events of the link until `replies` answers have arrived. After it has answered a survey,
 * it sets *ret_control and returns at once. Returns false if no event arrives for 5 s. */
static bool
drain(mrd_link *link, unsigned replies, bool *ret_control)
{
    mrd_link_event ev;

    while (replies > 0) {
        if (!mrd_link_next(link, 5000, &ev))
            return false;
        if (ev.kind == MRD_LINK_CONTROL) {
            answer(link, &ev);
            *ret_control = true;
            replies = 1;
        }
        if (ev.kind == MRD_LINK_REPLY || ev.kind == MRD_LINK_CONTROL)
            replies--;
        mrd_link_event_done(&ev);
    }
    return true;
}

/* Sends SENT batches with new headers, and waits for their answers. The aggregator in the child
 * process counts the batches that it stores. */
static void
send_all(mrd_link *link, uint64_t session)
{
    mrd_buf wire = { 0 };
    bool control = false;
    unsigned flying = 0;

    for (int i = 0; i < SENT; i++) {
        const mrd_buf *from = &frames[i % BATCHES];
        mrd_bytes body = { from->p + MRD_FRAME_HEADER, from->len - MRD_FRAME_HEADER };
        mrd_frame f;

        mrd_frame_get((mrd_bytes){ from->p, from->len }, &f, NULL);
        f.agent = mrd_agent_key(mrd_str_of(node_id));
        f.session = session;
        f.seq = (uint64_t) i;
        mrd_buf_reset(&wire);
        mrd_buf_room(&wire, from->len);
        mrd_frame_stamp(&f, wire.p);
        memcpy(wire.p + MRD_FRAME_HEADER, body.p, body.len);
        while (mrd_link_submit(link, (uint64_t) i, (mrd_bytes){ wire.p, from->len }) == MRD_AGAIN) {
            drain(link, 1, &control);
            flying--;
        }
        flying++;
    }
    while (flying-- > 0 && drain(link, 1, &control))
        ;
    mrd_buf_fini(&wire);
}

static void
end_to_end(void)
{
    bool control = false;
    mrd_link_options o = { .window = 8 };
    mrd_link *link = NULL;
    served_counts before, after;
    struct timespec t0, t1;
    double wall, cpu, receiver;
    uint64_t session;
    served s;

    served_begin(&s);
    o.data_url = s.data_url;
    o.control_url = s.control_url;
    if (mrd_link_open(&o, &link, NULL) != MRD_OK)
        abort();
    say_hello(link);
    drain(link, 1, &control);
    usleep(200000); /* wait until the control connection is open, too */
    served_start(&s);
    while (!control && drain(link, 1, &control))
        ;
    session = served_session(&s);
    drain(link, 1, &control); /* go */
    before = served_get(&s);
    clock_gettime(CLOCK_MONOTONIC, &t0);
    cpu = served_process_cpu();
    send_all(link, session);
    cpu = served_process_cpu() - cpu;
    clock_gettime(CLOCK_MONOTONIC, &t1);
    wall = (double) (t1.tv_sec - t0.tv_sec) * 1e9 + (double) (t1.tv_nsec - t0.tv_nsec);
    after = served_get(&s);
    receiver = after.cpu_ns - before.cpu_ns;
    printf("\nOver loopback TCP to an aggregator, zstd 1, window 8, synced groups: %.1f M events "
           "stored\n"
           "  aggregator %.1f ns of CPU per event (%.0f M events/s/core), sender %.1f ns, "
           "%.1f M events/s wall\n",
           after.events / 1e6, receiver / after.events, 1e3 * after.events / receiver,
           cpu / after.events, 1e3 * after.events / wall);
    mrd_link_close(link);
    served_end(&s);
}

/* ---- The table ---- */

int
main(void)
{
    static const struct {
        const char *name;
        mrd_codec_id id;
    } codecs[] = { { "none", MRD_CODEC_NONE }, { "zstd 1", MRD_CODEC_ZSTD } };
    double v[ROUNDS], d[ROUNDS], base;

    make_world();
    make_batches();
    codec = mrd_codec_new();
    batch = mrd_batch_new(cat, 0, 0, EVENTS);
    reader = mrd_batch_reader_new(codec);
    for (int i = 0; i < ROUNDS; i++)
        v[i] = copy();
    base = median(v, ROUNDS);
    printf("Reference batch, %d events, CPU ns per event, median of %d rounds\n", EVENTS, ROUNDS);
    printf("%-34s %8s %8s %8s %10s\n", "", "B/event", "encode", "decode", "x memcpy");
    printf("%-34s %8zu %8.1f %8s %10.1f\n", "memcpy of the structs", sizeof(made), base, "", 1.0);
    for (int i = 0; i < ROUNDS; i++) {
        v[i] = rows();
        d[i] = rows_decode_ns;
    }
    printf("%-34s %8.2f %8.1f %8.1f %10.1f\n", "protobuf-c, one submessage per event", rows_bytes,
           median(v, ROUNDS), median(d, ROUNDS), median(v, ROUNDS) / base);
    for (size_t c = 0; c < MRD_COUNT(codecs); c++) {
        for (int i = 0; i < ROUNDS; i++) {
            v[i] = encode(codecs[c].id);
            d[i] = decode();
        }
        printf("batch, codec %-21s %8.2f %8.1f %8.1f %10.1f\n", codecs[c].name,
               (double) wire_bytes / (EVENTS * BATCHES), median(v, ROUNDS), median(d, ROUNDS),
               median(v, ROUNDS) / base);
    }
    for (int i = 0; i < ROUNDS; i++) {
        v[i] = store(STORED * 2);
        d[i] = store(8);
    }
    printf("\nCheck and append to the journal: %.2f ns per event (%.0f M events/s/core); synced "
           "every 8 "
           "frames: %.2f ns\n",
           median(v, ROUNDS), 1e3 / median(v, ROUNDS), median(d, ROUNDS));
    fflush(stdout);
    end_to_end();
    mrd_batch_reader_free(reader);
    mrd_batch_free(batch);
    mrd_codec_free(codec);
    return 0;
}
