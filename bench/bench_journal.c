/*
 * bench/bench_journal.c - generates the journal of a session of many nodes, and the same events in
 * CTF (LTTng's format). bench_journal.py runs it and compares the merging of both.
 *
 *   bench_journal make DIR NODES EVENTS   Writes a session's journal: EVENTS spans over NODES
 *                                         nodes with 16 threads each.
 *   bench_journal merge DIR NODES OUT EVENTS   Merges the journal into one Perfetto file, as a
 *                                         session of EVENTS events (trace/model/sink.h). Prints
 *                                         events, wall_ns, cpu_ns, peak_kib (of this process) and
 *                                         bytes.
 *   bench_journal ctf DIR STREAMS EVENTS  Writes EVENTS spans as STREAMS traces of one stream each
 *                                         (CTF 1.8).
 *
 * Spans have a time, a duration, one of 50 names, and one of 16 tracks per node. Nodes record at
 * the same time, so streams interleave event by event, which is the worst case for every merge.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "aggregator/merge/merge.h"
#include "base/obj.h"
#include "proto/batch/batch.h"
#include "trace/sink/sinks.h"

enum { NAMES = 50, TRACKS = 16, BATCH = 8192 };

#define EPOCH   INT64_C(1700000000000000000)
#define SESSION UINT64_C(1)

static void
fail(const char *what)
{
    fprintf(stderr, "bench_journal: %s\n", what);
    exit(1);
}

static void *
must(void *p)
{
    if (p == NULL)
        fail("out of memory");
    return p;
}

/* ---- The events ---- */

typedef struct {
    uint64_t random;
    int64_t ts_ns;
    uint64_t dur_ns;
    uint32_t name, track;
} generator;

/* About `gap_ns` apart. */
static void
next_span(generator *g, uint64_t gap_ns)
{
    g->random ^= g->random << 13;
    g->random ^= g->random >> 7;
    g->random ^= g->random << 17;
    g->ts_ns += 1 + (int64_t) (g->random % (2 * gap_ns));
    g->dur_ns = 100 + (g->random >> 50);
    g->name = (uint32_t) (g->random >> 20) % NAMES;
    g->track = (uint32_t) (g->random >> 32) % TRACKS;
}

static generator
generator_of(size_t stream)
{
    return (generator){ .random = 88172645463325252u + stream * 0x9e3779b97f4a7c15u,
                        .ts_ns = EPOCH + (int64_t) stream };
}

static void
node_id(char id[32], size_t node)
{
    snprintf(id, 32, "i-%04zu", node);
}

/* ---- The journal ---- */

typedef struct {
    mrd_catalog *cat;
    mrd_proc_id process;
    mrd_track_id tracks[TRACKS];
    mrd_sid names[NAMES];
} world;

static world
world_of(const char *id, size_t node)
{
    world w = { .cat = must(mrd_catalog_new()) };
    mrd_process p;
    mrd_track t;
    char text[32];

    mrd_process_init(&p);
    p.instance_id = mrd_catalog_intern(w.cat, id);
    p.process_id = 1000 + (int64_t) node;
    p.flags = MRD_PROC_SIMULATED;
    w.process = mrd_catalog_process(w.cat, &p);
    for (int i = 0; i < TRACKS; i++) {
        mrd_track_init(&t, w.process, MRD_SRC_RUNTIME);
        t.thread_id = 100 + i;
        w.tracks[i] = mrd_catalog_track(w.cat, &t);
    }
    for (int i = 0; i < NAMES; i++) {
        snprintf(text, sizeof(text), "nrt_operation_%d", i);
        w.names[i] = mrd_catalog_intern(w.cat, text);
    }
    return w;
}

static void
make_node(const char *dir, size_t node, uint64_t n, size_t nodes)
{
    char id[32], path[4096];
    generator g = generator_of(node);
    mrd_codec *codec = must(mrd_codec_new());
    mrd_journal *journal = NULL;
    mrd_frame f = { .epoch = 1, .session = SESSION };
    mrd_buf frame = { 0 };
    mrd_batch *batch;
    mrd_why why = { 0 };
    world w;

    node_id(id, node);
    w = world_of(id, node);
    batch = must(mrd_batch_new(w.cat, w.process, 0, BATCH));
    f.agent = mrd_agent_key(mrd_str_of(id));
    snprintf(path, sizeof(path), "%s/journal/%s", dir, id);
    if (mrd_journal_open(path, mrd_str_of(id), SESSION, &journal, &why) != MRD_OK)
        fail(why.text);
    for (uint64_t i = 0; i < n; i++) {
        mrd_event ev = { .kind = MRD_SPAN };

        next_span(&g, 200 * nodes);
        ev.ts = (mrd_ev_ns){ g.ts_ns };
        ev.dur_ns = (int64_t) g.dur_ns;
        ev.name = w.names[g.name];
        ev.track = w.tracks[g.track];
        if (mrd_batch_push(batch, &ev) != MRD_OK)
            fail("push");
        if (mrd_batch_events(batch) < BATCH && i + 1 < n)
            continue;
        mrd_buf_reset(&frame);
        if (mrd_batch_encode(batch, codec, MRD_CODEC_ZSTD, &f, &frame, &why) != MRD_OK ||
            mrd_journal_append(journal, &f, (mrd_bytes){ frame.p, frame.len }, &why) != MRD_OK)
            fail(why.text);
        f.seq++;
    }
    if (mrd_journal_close(journal, &why) != MRD_OK)
        fail(why.text);
    mrd_buf_fini(&frame);
    mrd_batch_free(batch);
    mrd_codec_free(codec);
    mrd_catalog_free(w.cat);
}

static double
clock_ns(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (double) t.tv_sec * 1e9 + (double) t.tv_nsec;
}

/* Returns the peak memory of this program in KiB. ru_maxrss is not used, because it also counts the
 * process before its exec. */
static long
peak_kib(void)
{
    FILE *f = fopen("/proc/self/status", "r");
    char line[128];
    long kib = 0;

    while (f != NULL && kib == 0 && fgets(line, sizeof(line), f) != NULL)
        (void) sscanf(line, "VmHWM: %ld", &kib);
    if (f == NULL || kib == 0)
        fail("cannot read its own memory");
    fclose(f);
    return kib;
}

static int
merge(char *dir, size_t nodes, const char *out, uint64_t events)
{
    merge_input in = {
        .dir = dir, .id = "bench", .n_nodes = nodes, .events = events, .simulated = true
    };
    mrd_export_target target = { .ops = mrd_sink_find(MRD_STR("perfetto")) };
    mrd_export_result result = { 0 };
    struct stat st;
    mrd_why why = { 0 };
    double wall, cpu;

    in.nodes = must(calloc(nodes, sizeof(*in.nodes)));
    for (size_t i = 0; i < nodes; i++) {
        node_id(in.nodes[i].instance_id, i);
        in.nodes[i].same_clock = true;
    }
    if (mrd_out_file(out, &target.out, &why) != MRD_OK)
        fail(why.text);
    wall = clock_ns(CLOCK_MONOTONIC);
    cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    if (mrd_merge_run(&in, &(mrd_merge_order){ .targets = &target, .n_targets = 1 }, &result, NULL,
                      &why) != MRD_OK)
        fail(why.text);
    wall = clock_ns(CLOCK_MONOTONIC) - wall;
    cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    if (stat(out, &st) != 0)
        fail("no output");
    printf("events %" PRIu64 "\nwall_ns %.0f\ncpu_ns %.0f\npeak_kib %ld\nbytes %lld\n",
           result.events, wall, cpu, peak_kib(), (long long) st.st_size);
    return 0;
}

/* ---- CTF 1.8 as LTTng-UST writes it, with packets of 4 MiB and compact event headers ---- */

static const char metadata[] =
    "/* CTF 1.8 */\n"
    "typealias integer { size = 8; align = 8; signed = false; } := uint8_t;\n"
    "typealias integer { size = 32; align = 8; signed = false; } := uint32_t;\n"
    "typealias integer { size = 64; align = 8; signed = false; } := uint64_t;\n"
    "trace {\n"
    "    major = 1; minor = 8; byte_order = le;\n"
    "    packet.header := struct { uint32_t magic; uint32_t stream_id; };\n"
    "};\n"
    "clock { name = monotonic; freq = 1000000000; offset = 0; };\n"
    "typealias integer { size = 64; align = 8; signed = false; map = clock.monotonic.value; }\n"
    "    := time_t;\n"
    "stream {\n"
    "    id = 0;\n"
    "    packet.context := struct {\n"
    "        time_t timestamp_begin; time_t timestamp_end;\n"
    "        uint64_t content_size; uint64_t packet_size;\n"
    "    };\n"
    "    event.header := struct { uint8_t id; time_t timestamp; };\n"
    "};\n"
    "event {\n"
    "    name = \"meridian_bench:slice\"; id = 0; stream_id = 0;\n"
    "    fields := struct { uint64_t dur; uint32_t name; uint32_t track; };\n"
    "};\n";

enum { CTF_HEAD = 8 + 32, CTF_EVENT = 1 + 8 + 16, CTF_PACKET = 4 << 20 };

static void
put(uint8_t **p, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        *(*p)++ = (uint8_t) (v >> 8 * i);
}

static void
write_packet(FILE *f, uint8_t *packet, size_t len, uint64_t first, uint64_t last)
{
    uint8_t *p = packet;

    put(&p, 0xC1FC1FC1u, 4);
    put(&p, 0, 4);
    put(&p, first, 8);
    put(&p, last, 8);
    put(&p, len * 8, 8);
    put(&p, len * 8, 8);
    if (fwrite(packet, 1, len, f) != len)
        fail("cannot write the trace");
}

static void
make_ctf(const char *dir, size_t stream, uint64_t n, size_t streams)
{
    static uint8_t packet[CTF_PACKET];
    uint8_t *p = packet + CTF_HEAD;
    generator g = generator_of(stream);
    uint64_t first = 0;
    char path[4096];
    FILE *f;

    snprintf(path, sizeof(path), "%s/trace-%04zu", dir, stream);
    if (mkdir(path, 0700) != 0)
        fail("cannot make a folder");
    snprintf(path, sizeof(path), "%s/trace-%04zu/metadata", dir, stream);
    if ((f = fopen(path, "w")) == NULL || fputs(metadata, f) < 0 || fclose(f) != 0)
        fail("cannot write the metadata");
    snprintf(path, sizeof(path), "%s/trace-%04zu/stream", dir, stream);
    if ((f = fopen(path, "w")) == NULL)
        fail("cannot write the trace");
    for (uint64_t i = 0; i < n; i++) {
        next_span(&g, 200 * streams);
        if (p == packet + CTF_HEAD)
            first = (uint64_t) g.ts_ns;
        put(&p, 0, 1);
        put(&p, (uint64_t) g.ts_ns, 8);
        put(&p, g.dur_ns, 8);
        put(&p, g.name, 4);
        put(&p, g.track, 4);
        if (p + CTF_EVENT > packet + CTF_PACKET || i + 1 == n) {
            write_packet(f, packet, (size_t) (p - packet), first, (uint64_t) g.ts_ns);
            p = packet + CTF_HEAD;
        }
    }
    if (fclose(f) != 0)
        fail("cannot write the trace");
}

int
main(int argc, char **argv)
{
    size_t n = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
    uint64_t events = argc > 4 ? strtoull(argv[argc - 1], NULL, 10) : 0;

    if (argc == 6 && strcmp(argv[1], "merge") == 0)
        return merge(argv[2], n, argv[4], events);
    if (argc != 5 || n == 0 || (strcmp(argv[1], "make") != 0 && strcmp(argv[1], "ctf") != 0))
        return fprintf(stderr, "bench_journal: run bench/bench_journal.py\n"), 2;
    for (size_t i = 0; i < n; i++) {
        if (strcmp(argv[1], "make") == 0)
            make_node(argv[2], i, events / n, n);
        else
            make_ctf(argv[2], i, events / n, n);
    }
    return 0;
}
