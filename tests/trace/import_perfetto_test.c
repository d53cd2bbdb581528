/* Tests the reader of Perfetto traces with packets in the public format that the test writes, and
 * with traces of Meridian's own writer. */
#include "tests/protobuf.h"
#include "tests/seed.h"
#include "tests/trace/collect.h"
#include "tests/trace/profile.h"

#include <sys/stat.h>
#include <zlib.h>

static const mrd_import_ops *const ops = &mrd_import_perfetto;

enum { BEGIN = 1, END = 2, INSTANT = 3, COUNTER = 4, STATE = 5 };
#define SEQ     7u
#define CLEARED 1u
#define NEEDS   2u

/* ---- Packets ---- */

/* Adds a packet with this body to the trace. Empties the body. */
static void
packet(mrd_buf *trace, mrd_buf *body)
{
    pb_close_into(trace, 1, body);
}

static void
descriptor(mrd_buf *trace, uint64_t uuid, uint64_t parent, const char *name, mrd_buf *more,
           unsigned field)
{
    mrd_buf d = { 0 }, p = { 0 };

    pb_number(&d, 1, uuid);
    if (parent != 0)
        pb_number(&d, 5, parent);
    if (name != NULL)
        pb_text(&d, 2, name);
    if (field != 0)
        pb_close_into(&d, field, more);
    pb_close_into(&p, 60, &d);
    packet(trace, &p);
}

static void
process_row(mrd_buf *trace, uint64_t uuid, int pid, const char *name)
{
    mrd_buf of = { 0 };

    pb_number(&of, 1, (uint64_t) pid);
    pb_text(&of, 6, name);
    descriptor(trace, uuid, 0, NULL, &of, 3);
}

static void
thread_row(mrd_buf *trace, uint64_t uuid, int pid, int tid, const char *name)
{
    mrd_buf of = { 0 };

    pb_number(&of, 1, (uint64_t) pid);
    pb_number(&of, 2, (uint64_t) tid);
    pb_text(&of, 5, name);
    descriptor(trace, uuid, 0, NULL, &of, 4);
}

/* Returns the begin of a message for a track event. The caller adds further fields. */
static mrd_buf
event_of(unsigned type, uint64_t track, const char *name)
{
    mrd_buf e = { 0 };

    pb_number(&e, 9, type);
    pb_number(&e, 11, track);
    if (name != NULL)
        pb_text(&e, 23, name);
    return e;
}

static void
put_event(mrd_buf *trace, uint64_t ts, unsigned flags, mrd_buf *e)
{
    mrd_buf p = { 0 };

    pb_number(&p, 8, ts);
    pb_number(&p, 10, SEQ);
    if (flags != 0)
        pb_number(&p, 13, flags);
    pb_close_into(&p, 11, e);
    packet(trace, &p);
}

static void
event(mrd_buf *trace, unsigned type, uint64_t track, uint64_t ts, const char *name)
{
    mrd_buf e = event_of(type, track, name);

    put_event(trace, ts, 0, &e);
}

static void
clock_reading(mrd_buf *snapshot, unsigned id, uint64_t at, bool incremental, unsigned unit)
{
    mrd_buf c = { 0 };

    pb_number(&c, 1, id);
    pb_number(&c, 2, at);
    if (incremental)
        pb_number(&c, 3, 1);
    if (unit > 1)
        pb_number(&c, 4, unit);
    pb_close_into(snapshot, 1, &c);
}

/* Adds the fixed64 field of an arrow. */
static void
arrow(mrd_buf *e, unsigned field, uint64_t id)
{
    pb_varint(e, field << 3 | 1);
    mrd_buf_add(e, &id, sizeof(id));
}

static void
read_trace(collected *c, const mrd_buf *trace, size_t chunk)
{
    CHECK(mrd_import_detect((mrd_str){ (char *) trace->p, trace->len }, "x") == ops);
    collect_bytes(c, ops, trace->p, trace->len, chunk, NULL);
}

static bool
has_note(const collected *c, const char *words)
{
    for (size_t i = 0; i < mrd_catalog_notes(c->cat); i++)
        if (mrd_str_has(mrd_catalog_note_at(c->cat, i), words))
            return true;
    return false;
}

/* ---- Tracks, names, arguments ---- */

TEST(rows_of_processes_threads_and_names)
{
    mrd_buf trace = { 0 }, none = { 0 };
    collected c = { 0 };
    const mrd_event *ev;

    event(&trace, BEGIN, 20, 1000, "step"); /* the descriptor follows */
    thread_row(&trace, 20, 42, 43, "main");
    process_row(&trace, 10, 42, "python");
    descriptor(&trace, 30, 10, "Stream 7", &none, 0);
    descriptor(&trace, 31, 30, "copies", &none, 0);
    descriptor(&trace, 40, 0, "the job", &none, 0);
    descriptor(&trace, 41, 40, "queue", &none, 0);
    event(&trace, BEGIN, 20, 1100, "inner");
    event(&trace, END, 20, 1200, NULL);
    event(&trace, INSTANT, 31, 1300, "mark");
    event(&trace, BEGIN, 41, 1400, "wait");
    event(&trace, STATE, 30, 1500, "idle");
    event(&trace, STATE, 30, 1600, "busy");
    event(&trace, END, 20, 1700, NULL);
    event(&trace, STATE, 30, 1800, NULL);
    for (size_t chunk = 1; chunk < 300; chunk += 97) {
        read_trace(&c, &trace, chunk);
        CHECK_ERR("run", c.err, MRD_OK);
        CHECK_INT(c.n, 6);
        ev = collect_named(&c, "step", 0);
        REQUIRE(ev != NULL);
        CHECK_INT(ev->ts.ns, 1000);
        CHECK_INT(ev->dur_ns, 700);
        CHECK_INT(collect_track(&c, ev)->thread_id, 43);
        CHECK_TEXT(collect_str(&c, collect_track(&c, ev)->name), "main");
        CHECK_INT(collect_process(&c, ev)->process_id, 42);
        CHECK_TEXT(collect_str(&c, collect_process(&c, ev)->name), "python");
        CHECK_INT(collect_named(&c, "inner", 0)->dur_ns, 100);
        ev = collect_named(&c, "mark", 0);
        CHECK_INT(ev->kind, MRD_INSTANT);
        CHECK_TEXT(collect_str(&c, collect_track(&c, ev)->name), "Stream 7 / copies");
        CHECK_INT(collect_process(&c, ev)->process_id, 42);
        ev = collect_named(&c, "wait", 0);
        CHECK_INT(ev->dur_ns, MRD_DUR_UNFINISHED);
        CHECK_TEXT(collect_str(&c, collect_process(&c, ev)->name), "the job");
        CHECK_TEXT(collect_str(&c, collect_track(&c, ev)->name), "queue");
        CHECK_INT(collect_named(&c, "idle", 0)->dur_ns, 100);
        CHECK_INT(collect_named(&c, "busy", 0)->dur_ns, 200);
        CHECK_INT(c.input.unfinished, 1);
        CHECK(has_note(&c, "relates its clock to no wall clock"));
        collect_free(&c);
    }
    mrd_buf_fini(&trace);
}

static void
annotation(mrd_buf *e, const char *name, unsigned field, uint64_t v, const char *text)
{
    mrd_buf a = { 0 };

    pb_text(&a, 10, name);
    if (text != NULL)
        pb_text(&a, field, text);
    else
        pb_number(&a, field, v);
    pb_close_into(e, 4, &a);
}

/* Adds the argument {"dims": [[2, 3], []]} as nested values. */
static void
nested(mrd_buf *e)
{
    mrd_buf a = { 0 }, row = { 0 }, v = { 0 }, entry = { 0 };

    for (uint64_t n = 2; n < 4; n++) {
        pb_number(&v, 4, n);
        pb_close_into(&row, 12, &v);
    }
    pb_text(&entry, 10, "dims");
    pb_close_into(&entry, 12, &row);
    pb_text(&v, 6, "say \"x\"");
    pb_close_into(&entry, 12, &v);
    pb_text(&a, 10, "shape");
    pb_close_into(&a, 11, &entry);
    pb_close_into(e, 4, &a);
}

TEST(arguments_of_each_type)
{
    mrd_buf trace = { 0 }, e;
    collected c = { 0 };
    const mrd_event *ev;

    e = event_of(INSTANT, 1, "i");
    pb_text(&e, 22, "a");
    pb_text(&e, 22, "b");
    annotation(&e, "bool", 2, 1, NULL);
    annotation(&e, "uint", 3, UINT64_MAX, NULL);
    annotation(&e, "int", 4, (uint64_t) -5, NULL);
    annotation(&e, "text", 6, 0, "words");
    annotation(&e, "not utf-8", 6, 0, "a\xff");
    annotation(&e, "pointer", 7, 255, NULL);
    annotation(&e, "json", 9, 0, "{\"k\": [1]}");
    nested(&e);
    put_event(&trace, 5000, 0, &e);
    read_trace(&c, &trace, 0);
    CHECK_ERR("run", c.err, MRD_OK);
    REQUIRE(c.n == 1);
    ev = &c.v[0]->ev;
    CHECK_TEXT(collect_str(&c, ev->category), "a,b");
    CHECK_TEXT(collect_arg_text(&c, ev, "bool"), "true");
    CHECK_TEXT(collect_arg_text(&c, ev, "uint"), "18446744073709551615");
    CHECK_TEXT(collect_arg_text(&c, ev, "int"), "-5");
    CHECK_TEXT(collect_arg_text(&c, ev, "text"), "words");
    CHECK_TEXT(collect_arg_text(&c, ev, "not utf-8"), "a\xef\xbf\xbd");
    CHECK_TEXT(collect_arg_text(&c, ev, "pointer"), "0xff");
    CHECK_TEXT(collect_arg_text(&c, ev, "json"), "{\"k\": [1]}");
    CHECK_INT(collect_arg(&c, ev, "json")->type, MRD_ARG_JSON);
    CHECK_TEXT(collect_arg_text(&c, ev, "shape"), "{\"dims\":[[2,3],\"say \\\"x\\\"\"]}");
    collect_free(&c);
    mrd_buf_fini(&trace);
}

/* ---- State of a sequence ---- */

static void
intern(mrd_buf *p, uint64_t iid, const char *name)
{
    mrd_buf entry = { 0 }, data = { 0 };

    pb_number(&entry, 1, iid);
    pb_text(&entry, 2, name);
    pb_close_into(&data, 2, &entry);
    pb_close_into(p, 12, &data);
}

/* Adds an instant that is named by number 1 of its sequence. `name` defines this number in the same
 * packet. */
static void
numbered(mrd_buf *trace, unsigned seq, unsigned flags, uint64_t ts, const char *name, bool dropped)
{
    mrd_buf p = { 0 }, e = event_of(INSTANT, 1, NULL);

    pb_number(&e, 10, 1);
    pb_number(&p, 8, ts);
    pb_number(&p, 10, seq);
    pb_number(&p, 13, flags);
    if (dropped)
        pb_number(&p, 42, 1);
    if (name != NULL)
        intern(&p, 1, name);
    pb_close_into(&p, 11, &e);
    packet(trace, &p);
}

TEST(names_belong_to_a_sequence)
{
    mrd_buf trace = { 0 };
    collected c = { 0 };

    numbered(&trace, 1, CLEARED, 1000, "one", false);
    numbered(&trace, 2, CLEARED, 1001, "two", false);
    numbered(&trace, 1, NEEDS, 1002, NULL, false);
    numbered(&trace, 2, NEEDS, 1003, NULL, false);
    numbered(&trace, 1, CLEARED | NEEDS, 1004, "three", false);
    numbered(&trace, 1, NEEDS, 1005, NULL, false);
    /* the begin of this sequence is missing, so the packet is dropped */
    numbered(&trace, 3, NEEDS, 1006, NULL, false);
    /* packets before this one are missing, so it is dropped */
    numbered(&trace, 2, NEEDS, 1007, NULL, true);
    /* dropped too, because the names of the sequence are unknown */
    numbered(&trace, 2, NEEDS, 1008, NULL, false);
    /* clears the state of the sequence, so its names are valid again */
    numbered(&trace, 2, CLEARED, 1009, "again", false);
    numbered(&trace, 4, CLEARED, 1010, NULL, false); /* the name of this event is missing */
    read_trace(&c, &trace, 0);
    CHECK_ERR("run", c.err, MRD_OK);
    CHECK(collect_named(&c, "one", 1) != NULL && collect_named(&c, "one", 2) == NULL);
    CHECK(collect_named(&c, "two", 1) != NULL && collect_named(&c, "two", 2) == NULL);
    CHECK(collect_named(&c, "three", 1) != NULL);
    CHECK(collect_named(&c, "again", 0) != NULL);
    CHECK(collect_named(&c, "(name 1 is missing)", 0) != NULL);
    CHECK_INT(c.input.dropped, 3);
    CHECK(has_note(&c, "its writer lost packets in 1 place;"));
    CHECK(has_note(&c, "1 name is missing"));
    collect_free(&c);
    mrd_buf_fini(&trace);
}

/* ---- Clocks ---- */

static void
timed(mrd_buf *trace, unsigned clock, uint64_t ts, const char *name)
{
    mrd_buf p = { 0 }, e = event_of(INSTANT, 1, name);

    pb_number(&p, 8, ts);
    pb_number(&p, 58, clock);
    pb_number(&p, 10, SEQ);
    pb_close_into(&p, 11, &e);
    packet(trace, &p);
}

TEST(clocks_become_one)
{
    static const struct {
        const char *name;
        int64_t ns; /* expected time on the trace clock; 0 means that the event is dropped */
        uint32_t bound_ns;
    } rows[] = { { "boot", 1500, MRD_BOUND_LOCAL },       { "mono early", 900, MRD_BOUND_UNKNOWN },
                 { "mono", 1150, MRD_BOUND_UNKNOWN },     { "delta 1", 4000, MRD_BOUND_LOCAL },
                 { "delta 2", 6000, MRD_BOUND_LOCAL },    { "unknown", 0, 0 },
                 { "mono late", 3060, MRD_BOUND_UNKNOWN } };
    mrd_buf trace = { 0 }, snapshot = { 0 }, p = { 0 };
    collected c = { 0 };
    const int64_t wall = 1700000000000000000;

    clock_reading(&snapshot, 6, 1000, false, 1);
    clock_reading(&snapshot, 3, 500, false, 1);
    clock_reading(&snapshot, 1, (uint64_t) wall + 1000, false, 1);
    clock_reading(&snapshot, 64, 3, true, 1000);
    pb_number(&p, 10, SEQ);
    pb_close_into(&p, 6, &snapshot);
    packet(&trace, &p);
    timed(&trace, 6, 1500, "boot");
    timed(&trace, 3, 400, "mono early");
    timed(&trace, 3, 650, "mono");
    timed(&trace, 64, 3, "delta 1"); /* 3 + 3 us are 3 us after the snapshot */
    timed(&trace, 64, 2, "delta 2");
    timed(&trace, 99, 2, "unknown");
    clock_reading(&snapshot, 6, 3000, false, 1);
    clock_reading(&snapshot, 3, 2440, false, 1); /* has drifted */
    pb_close_into(&p, 6, &snapshot);
    packet(&trace, &p);
    timed(&trace, 3, 2500, "mono late");
    read_trace(&c, &trace, 0);
    CHECK_ERR("run", c.err, MRD_OK);
    CHECK_INT(c.shift_ns, wall);
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        const mrd_event *ev = collect_named(&c, rows[i].name, 0);

        CHECK_ROW(rows[i].name, (ev == NULL) == (rows[i].ns == 0));
        CHECK_ROW(rows[i].name, ev == NULL || ev->ts.ns == wall + rows[i].ns);
    }
    CHECK_INT(c.input.dropped, 1);
    CHECK(strstr(collect_str(&c, c.input.error), "of a clock that no snapshot") != NULL);
    collect_free(&c);
    mrd_buf_fini(&trace);
}

/* ---- Counters and arrows ---- */

TEST(counters)
{
    mrd_buf trace = { 0 }, of = { 0 }, e;
    collected c = { 0 };
    const mrd_event *ev;
    double half = 0.5;

    process_row(&trace, 10, 42, "python");
    pb_number(&of, 3, 3);
    pb_number(&of, 4, 1024);
    pb_number(&of, 5, 1);
    descriptor(&trace, 11, 10, "memory", &of, 8);
    pb_text(&of, 6, "W");
    descriptor(&trace, 12, 10, "power", &of, 8);
    for (uint64_t i = 1; i < 3; i++) {
        e = event_of(COUNTER, 11, NULL);
        pb_number(&e, 30, i);
        put_event(&trace, i * 1000, 0, &e);
    }
    e = event_of(COUNTER, 12, NULL);
    pb_varint(&e, 44 << 3 | 1);
    mrd_buf_add(&e, &half, sizeof(half));
    put_event(&trace, 3000, 0, &e);
    e = event_of(BEGIN, 20, "with a value");
    pb_number(&e, 31, 11);
    pb_number(&e, 12, (uint64_t) -3);
    put_event(&trace, 4000, 0, &e);
    e = event_of(COUNTER, 20, NULL); /* of a row of spans */
    pb_number(&e, 30, 1);
    put_event(&trace, 5000, 0, &e);
    read_trace(&c, &trace, 0);
    CHECK_ERR("run", c.err, MRD_OK);
    CHECK_INT(collect_named(&c, "memory", 0)->ivalue, 1024);
    CHECK_INT(collect_named(&c, "memory", 1)->ivalue, 3072);
    CHECK_INT(collect_named(&c, "memory", 2)->ivalue, 0);
    ev = collect_named(&c, "power", 0);
    REQUIRE(ev != NULL);
    CHECK(ev->value == 0.5 && ev->kind == MRD_COUNTER);
    CHECK_INT(collect_track(&c, ev)->kind, MRD_TRACK_COUNTER);
    CHECK_TEXT(collect_str(&c, collect_track(&c, ev)->unit_name), "W");
    CHECK_INT(collect_track(&c, collect_named(&c, "memory", 0))->unit, MRD_UNIT_BYTES);
    CHECK(collect_named(&c, "with a value", 0) != NULL);
    CHECK_INT(c.input.dropped, 1);
    collect_free(&c);
    mrd_buf_fini(&trace);
}

static void
with_arrow(mrd_buf *trace, unsigned type, uint64_t ts, const char *name, unsigned field,
           uint64_t id)
{
    mrd_buf e = event_of(type, 1, name);

    arrow(&e, field, id);
    put_event(trace, ts, 0, &e);
}

TEST(arrows_get_directions_by_time)
{
    static const struct {
        const char *name;
        mrd_flow_dir dir;
    } rows[] = { { "launch", MRD_FLOW_START },     { "kernel 1", MRD_FLOW_END },
                 { "kernel 2", MRD_FLOW_END },     { "send", MRD_FLOW_START },
                 { "receive", MRD_FLOW_END },      { "send again", MRD_FLOW_START },
                 { "receive again", MRD_FLOW_END } };
    mrd_buf trace = { 0 };
    collected c = { 0 };

    with_arrow(&trace, INSTANT, 3000, "kernel 2", 47, 5); /* not in order */
    with_arrow(&trace, INSTANT, 1000, "launch", 47, 5);
    with_arrow(&trace, INSTANT, 2000, "kernel 1", 47, 5);
    with_arrow(&trace, INSTANT, 4000, "send", 47, 6);
    event(&trace, BEGIN, 1, 4500, "receive");
    with_arrow(&trace, END, 5000, NULL, 48, 6); /* the end has the arrow */
    with_arrow(&trace, INSTANT, 6000, "send again", 47, 6);
    with_arrow(&trace, INSTANT, 7000, "receive again", 48, 6);
    read_trace(&c, &trace, 0);
    CHECK_ERR("run", c.err, MRD_OK);
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        const mrd_event *ev = collect_named(&c, rows[i].name, 0);

        CHECK_ROW(rows[i].name, ev != NULL && ev->flow_count == 1);
        CHECK_ROW(rows[i].name,
                  ev != NULL && ev->flow_count == 1 && ev->flows[0].dir == rows[i].dir);
    }
    collect_free(&c);
    mrd_buf_fini(&trace);
}

/* ---- What is not read ---- */

TEST(other_packets_are_counted_and_named)
{
    mrd_buf trace = { 0 }, p = { 0 }, packed = { 0 };
    mrd_buf inner = { 0 };
    collected c = { 0 };
    uLongf len;

    for (int i = 0; i < 3; i++) {
        pb_text(&p, i < 2 ? 1 : 37, "bytes"); /* a counter of the kernel, or of a heap profile */
        pb_number(&p, 10, 3);
        packet(&trace, &p);
    }
    pb_text(&p, 45, "x"); /* about the system: no events */
    packet(&trace, &p);
    event(&inner, INSTANT, 1, 1000, "inside");
    len = compressBound(inner.len);
    REQUIRE(mrd_buf_room(&packed, len));
    CHECK_INT(compress(packed.p, &len, inner.p, inner.len), Z_OK);
    pb_bytes(&p, 50, packed.p, len);
    packet(&trace, &p);
    read_trace(&c, &trace, 0);
    CHECK_ERR("run", c.err, MRD_OK);
    CHECK(collect_named(&c, "inside", 0) != NULL);
    CHECK(has_note(&c, "3 packets of kinds that are not read were left out (2 x kernel events "
                       "(ftrace), 1 x heap profiles)"));
    collect_free(&c);
    mrd_buf_fini(&packed);
    mrd_buf_fini(&inner);
    mrd_buf_fini(&trace);
}

TEST(what_is_no_perfetto_trace)
{
    static const struct {
        const char *what;
        mrd_str head;
    } rows[] = { { "an XSpace", MRD_STR("\x0a\x0d\x08\x01\x12\x09/host:CPU") },
                 { "text", MRD_STR("\nhello, this is text of no format\n") },
                 { "a pprof profile", MRD_STR("\x0a\x04\x08\x01\x10\x02\x12\x04\x0a\x02\x01\x02") },
                 { "JSON with such a name", MRD_STR("{\"traceEvents\": []}") } };

    for (size_t i = 0; i < MRD_COUNT(rows); i++)
        CHECK_ROW(rows[i].what, mrd_import_detect(rows[i].head, "x.pftrace") != ops);
}

/* ---- Damage ---- */

#define SPANS 30

/* Returns a trace of SPANS spans with different names. Each span has two packets. */
static mrd_buf
spans(void)
{
    mrd_buf trace = { 0 };
    char name[32];

    thread_row(&trace, 1, 42, 43, "main");
    for (uint64_t i = 0; i < SPANS; i++) {
        snprintf(name, sizeof(name), "span %u", (unsigned) i);
        event(&trace, BEGIN, 1, 1000 + i * 100, name);
        event(&trace, END, 1, 1050 + i * 100, NULL);
    }
    return trace;
}

static size_t
whole_spans(const collected *c)
{
    size_t n = 0;

    for (size_t i = 0; i < c->n; i++)
        n += c->v[i]->ev.dur_ns == 50;
    return n;
}

TEST(a_cut_trace_keeps_what_is_before)
{
    mrd_buf trace = spans();
    size_t told = 0;

    for (size_t n = 8; n < trace.len; n++) {
        collected c = { 0 };

        collect_bytes(&c, ops, trace.p, n, 0, NULL);
        CHECK(c.err == MRD_OK || c.err == MRD_TRUNCATED);
        CHECK(c.err == MRD_OK || strstr(c.why.text, "ends inside the packet at byte") != NULL);
        CHECK(c.err == MRD_OK || (c.input.skipped > 0 && c.input.skipped < 24));
        CHECK_INT(c.input.dropped, 0);
        told += c.err == MRD_TRUNCATED;
        collect_free(&c);
    }
    CHECK(told > trace.len / 2);
    mrd_buf_fini(&trace);
}

/* If one byte of a trace is changed, at most the span that contains it and the two spans next to it
 * are lost. Missing packets are reported. */
TEST(a_damaged_byte_costs_a_packet)
{
    mrd_buf trace = spans();

    for (size_t i = 40; i < trace.len; i++) {
        collected c = { 0 };

        trace.p[i] ^= 0xff;
        collect_bytes(&c, ops, trace.p, trace.len, 0, NULL);
        trace.p[i] ^= 0xff;
        CHECK(c.err == MRD_OK || c.err == MRD_TRUNCATED);
        CHECK(whole_spans(&c) + 3 >= SPANS);
        CHECK(c.n >= SPANS - 2);
        collect_free(&c);
    }
    mrd_buf_fini(&trace);
}

TEST(garbage_is_skipped_and_counted)
{
    mrd_buf trace = spans(), more = spans();
    size_t clean = trace.len;
    collected c = { 0 };
    uint64_t r = test_seed();

    for (int i = 0; i < 100000; i++)
        mrd_buf_byte(&trace, (uint8_t) (test_rand(&r) | 0x80));
    mrd_buf_add(&trace, more.p, more.len);
    read_trace(&c, &trace, 0);
    CHECK_ERR("run", c.err, MRD_OK);
    CHECK_INT(c.input.skipped, 100000);
    CHECK_INT(c.input.dropped, 1);
    CHECK_INT(whole_spans(&c), 2 * SPANS);
    snprintf(c.why.text, sizeof(c.why.text), "byte %zu: a damaged packet", clean);
    CHECK_TEXT(collect_str(&c, c.input.error), c.why.text);
    collect_free(&c);
    mrd_buf_fini(&trace);
    mrd_buf_fini(&more);
}

/* ---- Meridian's own ---- */

static bool
same_text(const collected *c, mrd_sid got, const mrd_catalog *cat, mrd_sid want)
{
    return mrd_str_eq(mrd_catalog_text(c->cat, got), mrd_catalog_text(cat, want));
}

static bool
same_args(const collected *c, const mrd_event *got, const mrd_catalog *cat, const mrd_event *want)
{
    bool same = got->arg_count == want->arg_count;

    for (uint32_t i = 0; i < want->arg_count && same; i++) {
        const mrd_arg *a = &got->args[i], *b = &want->args[i];
        bool texts = b->type == MRD_ARG_STR || b->type == MRD_ARG_TEXT;
        mrd_str s = a->type == MRD_ARG_STR ? mrd_catalog_text(c->cat, a->v.sid)
                                           : (mrd_str){ a->v.text, a->len },
                t = b->type == MRD_ARG_STR ? mrd_catalog_text(cat, b->v.sid)
                                           : (mrd_str){ b->v.text, b->len };

        same = same_text(c, a->key, cat, b->key) &&
               (texts ? a->type == MRD_ARG_STR || a->type == MRD_ARG_TEXT : a->type == b->type) &&
               (texts || b->type == MRD_ARG_JSON ? mrd_str_eq(s, t) : a->v.u == b->v.u);
    }
    return same;
}

/* Returns true if both events are equal and are on equal tracks of equal processes. */
static bool
same_event(const collected *c, const mrd_event *got, const mrd_catalog *cat, const mrd_event *want)
{
    const mrd_track *t = collect_track(c, got), *u = mrd_catalog_borrow_track(cat, want->track);
    const mrd_process *p = collect_process(c, got),
                      *q = mrd_catalog_borrow_process(cat, u->process);
    bool counter = want->kind == MRD_COUNTER;

    return got->kind == want->kind && got->ts.ns == want->ts.ns && got->dur_ns == want->dur_ns &&
           (counter || same_text(c, got->name, cat, want->name)) &&
           same_text(c, got->category, cat, want->category) && got->id == want->id &&
           (!(counter || want->kind == MRD_LOSS) ||
            ((want->flags & MRD_EV_UNSIGNED) != 0 && want->ivalue < 0
                 ? got->value == (double) (uint64_t) want->ivalue
                 : got->ivalue == want->ivalue)) &&
           (got->flags & MRD_EV_NO_START) == (want->flags & MRD_EV_NO_START) &&
           got->flow_count == want->flow_count &&
           (want->flow_count == 0 || got->flows[0].dir == want->flows[0].dir) &&
           same_args(c, got, cat, want) && t->source == u->source && t->kind == u->kind &&
           t->lnc_idx == u->lnc_idx && t->pcore_idx == u->pcore_idx &&
           t->device_idx == u->device_idx && t->thread_id == u->thread_id && t->unit == u->unit &&
           same_text(c, t->name, cat, u->name) &&
           same_text(c, p->instance_id, cat, q->instance_id) && p->process_id == q->process_id &&
           p->rank == q->rank && p->world_size == q->world_size && p->flags == q->flags;
}

static const struct {
    const char *name;
    bool compress, identity, wall;
    int64_t shift_ns; /* is added to all times; the writer itself shifts negative times */
} ways[] = { { "plain", false, false, true, 0 },
             { "compressed", true, false, true, 0 },
             { "with identities", false, true, true, 0 },
             { "compressed with identities", true, true, true, 0 },
             { "not of the epoch", false, true, false, 5 - BASE_NS },
             { "before zero", false, true, false, -7000 - BASE_NS } };

TEST(our_own_trace_is_read_as_it_was)
{
    for (size_t i = 0; i < MRD_COUNT(ways); i++) {
        test_profile *p = test_profile_new();
        mrd_sink_options o = test_sink_options();
        collected c = { 0 };
        size_t len, found = 0;
        char *trace;

        o.compress = ways[i].compress;
        o.identity = ways[i].identity;
        o.wall_time = ways[i].wall;
        for (size_t k = 0; k < p->n; k++)
            p->v[k].ts.ns += ways[i].shift_ns;
        trace = test_sink_run(&mrd_sink_perfetto, p->cat, 0, &o, p->v, p->n, &len);
        CHECK_ROW(ways[i].name, mrd_import_is_own_perfetto((mrd_str){ trace, len }));
        CHECK_ROW(ways[i].name, mrd_import_detect((mrd_str){ trace, len }, "x") == ops);
        collect_bytes(&c, ops, trace, len, 0, NULL);
        CHECK_ERR(ways[i].name, c.err, MRD_OK);
        CHECK_ROW(ways[i].name, c.n == p->n);
        for (size_t k = 0; k < p->n; k++) {
            size_t at = 0;

            while (at < c.n && !same_event(&c, &c.v[at]->ev, p->cat, &p->v[k]))
                at++;
            if (at == c.n)
                fprintf(stderr, "%s: missing event %zu '%s' of kind %d at %lld\n", ways[i].name, k,
                        mrd_catalog_text(p->cat, p->v[k].name).p, p->v[k].kind,
                        (long long) p->v[k].ts.ns);
            found += at < c.n;
        }
        CHECK_ROW(ways[i].name, found == p->n);
        for (size_t k = 0; k < c.n; k++)
            CHECK_ROW(
                ways[i].name,
                c.v[k]->ev.kind == MRD_COUNTER ||
                    c.v[k]->ev.bound_ns ==
                        (collect_process(&c, &c.v[k]->ev)->rank == 1 ? 1850u : MRD_BOUND_UNKNOWN));
        collect_free(&c);
        free(trace);
        test_profile_free(p);
    }
}

/* Damages the length of the packet that defines this name. Returns false if there is no such
 * packet. */
static bool
damage_name(char *trace, size_t len, const char *name)
{
    char *at = memmem(trace, len, name, strlen(name));

    at = at == NULL ? NULL : memrchr(at - 20, 0x62, 20); /* the field of names */
    if (at != NULL)
        at[1] = 0x7f;
    return at != NULL;
}

/* Packets have times as differences from the packet before, so a lost packet makes later times too
 * early. The writer repeats the absolute time regularly, which corrects them. */
TEST(damage_in_our_own_trace)
{
    enum { MARKS = 120000 };
    test_profile *p = test_profile_new();
    mrd_sink_options o = test_sink_options();
    mrd_event *v = calloc(MARKS, sizeof(*v));
    size_t len, late = 0, wrong = 0;
    collected c = { 0 };
    char *trace;

    for (int64_t i = 0; i < MARKS; i++)
        v[i] = (mrd_event){ .kind = MRD_INSTANT,
                            .track = p->framework,
                            .ts = { BASE_NS + i * 1000 },
                            .name = mrd_catalog_intern(p->cat, i == 500 ? "odd" : "even") };
    trace = test_sink_run(&mrd_sink_perfetto, p->cat, 0, &o, v, MARKS, &len);
    REQUIRE(damage_name(trace, len, "odd"));
    collect_bytes(&c, ops, trace, len, 0, NULL);
    CHECK_ERR("run", c.err, MRD_OK);
    CHECK_INT(c.input.dropped, 1);
    CHECK_INT(c.n, MARKS - 1);
    for (size_t i = 0; i < c.n; i++) {
        int64_t at = (int64_t) (i < 500 ? i : i + 1) * 1000;

        late += c.v[i]->ev.ts.ns == BASE_NS + at - 1000 && c.v[i]->ev.bound_ns == MRD_BOUND_UNKNOWN;
        wrong += c.v[i]->ev.ts.ns != BASE_NS + at && c.v[i]->ev.ts.ns != BASE_NS + at - 1000;
    }
    CHECK_INT(wrong, 0);
    CHECK(late > 90000 && late < 100000);
    CHECK(has_note(&c, "events after damage are too early"));
    collect_free(&c);
    free(trace);
    free(v);
    test_profile_free(p);
}

TEST_MAIN()
