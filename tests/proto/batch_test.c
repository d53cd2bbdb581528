#include "tests/check.h"

#include <float.h>
#include <math.h>

#include "proto/batch/batch.h"
#include "proto/batch/columns.h"
#include "proto/wire.h"

/* ---- Random events ---- */

static uint64_t seed;

static uint64_t
rnd(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static uint64_t
below(uint64_t n)
{
    return rnd() % n;
}

static int64_t
extreme(void)
{
    static const int64_t v[] = { 0,    1,         -1,        127,       128,
                                 -128, INT64_MAX, INT64_MIN, 1LL << 53, -(1LL << 53) - 1 };

    return below(3) == 0 ? (int64_t) rnd() : v[below(MRD_COUNT(v))];
}

typedef struct {
    mrd_catalog *cat;
    mrd_proc_id process;
    mrd_track_id tracks[8];
    mrd_sid names[20];
} world;

static world
world_new(void)
{
    world w = { .cat = mrd_catalog_new() };
    mrd_process p;

    mrd_process_init(&p);
    p.instance_id = mrd_catalog_intern(w.cat, "i-0abc");
    p.process_id = 4711;
    p.name = mrd_catalog_intern(w.cat, "python");
    p.rank = 3;
    p.world_size = 64;
    p.flags = MRD_PROC_SIMULATED;
    w.process = mrd_catalog_process(w.cat, &p);
    for (int i = 0; i < 20; i++) {
        char text[32];

        snprintf(text, sizeof(text), "name %d \xc3\xa9", i);
        w.names[i] = mrd_catalog_intern(w.cat, text);
    }
    for (int i = 0; i < 8; i++) {
        mrd_track t;

        mrd_track_init(&t, w.process, i < 6 ? MRD_SRC_RUNTIME : MRD_SRC_HOST);
        t.kind = i < 6 ? MRD_TRACK_SPANS : MRD_TRACK_COUNTER;
        t.lnc_idx = i % 3 == 0 ? MRD_NONE : i;
        t.thread_id = 100 + i;
        t.name = i % 2 == 0 ? 0 : w.names[i];
        t.unit = i < 6 ? MRD_UNIT_NONE : MRD_UNIT_BYTES;
        w.tracks[i] = mrd_catalog_track(w.cat, &t);
    }
    return w;
}

static void
world_end(world *w, mrd_batch *b)
{
    mrd_batch_free(b);
    mrd_catalog_free(w->cat);
}

typedef struct {
    mrd_event ev;
    mrd_arg args[6];
    mrd_flow flows[3];
} made;

static const char long_text[] = "a text that is not interned, {\"k\": [1, 2, 3]}";

static mrd_arg
make_arg(const world *w)
{
    static const double d[] = { 0.0, -0.0, 1.5, DBL_MAX, -DBL_MIN, 0.1 };
    mrd_arg a = { .key = w->names[below(8)], .type = (1 + below(7)) & 15 };

    switch ((mrd_arg_type) a.type) {
    case MRD_ARG_DOUBLE:
        a.v.d = d[below(MRD_COUNT(d))];
        break;
    case MRD_ARG_STR:
        a.v.sid = below(5) == 0 ? 0 : w->names[below(20)];
        break;
    case MRD_ARG_TEXT:
    case MRD_ARG_JSON:
        a.v.text = long_text;
        a.len = (unsigned) below(sizeof(long_text)) & MRD_ARG_TEXT_MAX;
        break;
    case MRD_ARG_BOOL:
        a.v.u = below(2);
        break;
    default:
        a.v.i = extreme();
    }
    return a;
}

static void
make_event(const world *w, made *m, int64_t base, uint64_t spread)
{
    mrd_event *ev = &m->ev;

    *ev = (mrd_event){ .kind = 1 + (uint8_t) below(5),
                       .ts = { base + (int64_t) below(spread) },
                       .name = w->names[below(20)],
                       .category = below(3) == 0 ? 0 : w->names[below(3)],
                       .flags = below(4) == 0 ? MRD_EV_SIMULATED : 0 };
    ev->track = w->tracks[ev->kind == MRD_COUNTER ? 6 + below(2) : below(6)];
    if (ev->kind == MRD_SPAN)
        ev->dur_ns = below(8) == 0    ? MRD_DUR_UNFINISHED
                     : below(50) == 0 ? INT64_MAX
                                      : (int64_t) below(1000000);
    if (ev->kind == MRD_LOSS) {
        ev->dur_ns = (int64_t) below(1000);
        ev->ivalue = extreme();
    }
    if (ev->kind == MRD_COUNTER && below(2) == 0) {
        ev->flags |= MRD_EV_INT;
        ev->ivalue = extreme();
        ev->name = 0;
    } else if (ev->kind == MRD_COUNTER) {
        ev->value = below(2) == 0 ? -0.0 : 12.25 * (double) below(1000);
    }
    if (ev->kind == MRD_FLOW) {
        ev->id = rnd();
        ev->flow_dir = 1 + (uint8_t) below(3);
    } else if (below(2) == 0) {
        ev->id = below(2) == 0 ? rnd() : below(100);
    }
    if (below(10) == 0)
        ev->bound_ns = below(4) == 0 ? MRD_BOUND_UNKNOWN : (uint32_t) rnd() | 1;
    ev->arg_count = (uint32_t) (below(3) == 0 ? below(7) : 0);
    for (uint32_t i = 0; i < ev->arg_count; i++)
        m->args[i] = make_arg(w);
    ev->args = m->args;
    ev->flow_count = (uint8_t) (ev->kind != MRD_FLOW && below(10) == 0 ? below(4) : 0);
    for (uint32_t i = 0; i < ev->flow_count; i++)
        m->flows[i] = (mrd_flow){ .id = rnd(), .dir = (mrd_flow_dir) (1 + below(3)) };
    ev->flows = m->flows;
}

/* ---- Round trip ---- */

static bool
same_arg(const mrd_arg *x, const mrd_arg *y)
{
    if (x->type != y->type || x->key != y->key)
        return false;
    if (x->type == MRD_ARG_STR)
        return x->v.sid == y->v.sid;
    if (x->type == MRD_ARG_TEXT || x->type == MRD_ARG_JSON)
        return x->len == y->len && (x->len == 0 || memcmp(x->v.text, y->v.text, x->len) == 0);
    return x->v.u == y->v.u;
}

static bool
same_event(const mrd_event *x, const mrd_event *y)
{
    bool same = x->kind == y->kind && x->flags == y->flags && x->ts.ns == y->ts.ns &&
                x->dur_ns == y->dur_ns && x->id == y->id && x->bound_ns == y->bound_ns &&
                x->arg_count == y->arg_count && x->flow_count == y->flow_count &&
                x->flow_dir == y->flow_dir && x->ivalue == y->ivalue && x->name == y->name &&
                x->category == y->category && x->track == y->track;

    for (uint32_t i = 0; i < x->arg_count && same; i++)
        same = same_arg(&x->args[i], &y->args[i]);
    for (uint32_t i = 0; i < x->flow_count && same; i++)
        same = x->flows[i].id == y->flows[i].id && x->flows[i].dir == y->flows[i].dir;
    return same;
}

static int
event_order(const void *a, const void *b)
{
    return mrd_event_order(a, b);
}

static int
made_order(const void *a, const void *b)
{
    return mrd_event_order(&((const made *) a)->ev, &((const made *) b)->ev);
}

/* Encodes the batch and opens the frame with a new reader. */
typedef struct {
    mrd_codec *codec;
    mrd_batch_reader *reader;
    mrd_buf wire;
    mrd_frame frame;
    mrd_batch_info info;
    mrd_err err;
} trip;

static trip
trip_open(mrd_batch *b, mrd_codec_id codec_id, mrd_catalog *into)
{
    trip t = { .codec = mrd_codec_new() };
    mrd_frame f = { .agent = 7, .epoch = 8, .session = 9, .seq = 10 };
    mrd_bytes body;
    mrd_why why = { 0 };

    t.reader = mrd_batch_reader_new(t.codec);
    CHECK_ERR("encode", mrd_batch_encode(b, t.codec, codec_id, &f, &t.wire, &why), MRD_OK);
    CHECK_ERR("check", mrd_frame_check((mrd_bytes){ t.wire.p, t.wire.len }, &t.frame, &body, &why),
              MRD_OK);
    CHECK(f.body_crc == t.frame.body_crc && f.cols_raw == t.frame.cols_raw &&
          f.last.ns == t.frame.last.ns);
    t.err = mrd_batch_open(t.reader, &t.frame, body, into, &t.info, &why);
    CHECK_ERR(why.text, t.err, MRD_OK);
    return t;
}

static void
trip_close(trip *t)
{
    mrd_batch_reader_free(t->reader);
    mrd_codec_free(t->codec);
    mrd_buf_fini(&t->wire);
}

/* Returns the end of an event, at most the largest time. An unfinished event ends at its start. */
static int64_t
end_of(const mrd_event *ev)
{
    if (ev->dur_ns < 0)
        return ev->ts.ns;
    return ev->ts.ns > INT64_MAX - ev->dur_ns ? INT64_MAX : ev->ts.ns + ev->dur_ns;
}

/* Sends n events through a frame. All are returned, in order and equal. */
static void
round_trip(uint32_t n, mrd_codec_id codec_id, int64_t base, uint64_t spread)
{
    world w = world_new();
    made *all = calloc(n, sizeof(*all));
    mrd_batch *b = mrd_batch_new(w.cat, w.process, 0, n);
    mrd_cross_read cross = { { INT64_MIN }, { INT64_MAX }, 77 };
    mrd_why why = { 0 };
    const mrd_event *ev;
    uint32_t seen = 0;
    int64_t first, last, begin = INT64_MAX, end = INT64_MIN;
    trip t;

    CHECK(mrd_batch_cross(b, &cross) == MRD_OK);
    CHECK(mrd_batch_cross(b, &(mrd_cross_read){ { 5 }, { -6 }, 7 }) == MRD_OK);
    for (uint32_t i = 0; i < n; i++) {
        make_event(&w, &all[i], base, spread);
        all[i].ev.seq = i;
        begin = all[i].ev.ts.ns < begin ? all[i].ev.ts.ns : begin;
        end = end_of(&all[i].ev) > end ? end_of(&all[i].ev) : end;
        CHECK_ERR("push", mrd_batch_push(b, &all[i].ev), MRD_OK);
    }
    CHECK_ERR("one more", mrd_batch_push(b, &all[0].ev), MRD_FULL);
    CHECK(mrd_batch_range(b, &first, &last));
    CHECK(first == begin && last == end);
    t = trip_open(b, codec_id, w.cat);
    CHECK(t.frame.first.ns == first && t.frame.last.ns == last);
    CHECK(t.frame.events == n && t.frame.seq == 10 && t.frame.agent == 7);
    CHECK(mrd_batch_events(b) == 0);
    REQUIRE(t.info.n_cross == 2);
    CHECK(t.info.cross[0].raw.ns == INT64_MIN && t.info.cross[0].bracket_ns == 77);
    CHECK(t.info.cross[1].raw.ns == 5 && t.info.cross[1].other.ns == -6 &&
          t.info.cross[1].bracket_ns == 7);
    CHECK_INT(t.info.process, w.process);
    qsort(all, n, sizeof(*all), made_order);
    while (mrd_batch_next(t.reader, &ev, &why) == MRD_MORE && seen < n) {
        all[seen].ev.args = all[seen].args;
        all[seen].ev.flows = all[seen].flows;
        if (!same_event(&all[seen].ev, ev)) {
            fprintf(stderr, "event %u of %u differs (kind %u)\n", seen, n, ev->kind);
            CHECK(false);
            break;
        }
        CHECK(ev->seq == (10u << 16 | seen) || ev->seq >> 16 == 10);
        seen++;
    }
    CHECK_INT(seen, n);
    CHECK(mrd_catalog_tracks(w.cat) == 8 && mrd_catalog_processes(w.cat) == 1);
    trip_close(&t);
    world_end(&w, b);
    free(all);
}

TEST(round_trips)
{
    static const uint32_t sizes[] = { 1, 2, 3, 60, 255, 256, 1000, 8192 };

    for (uint64_t round = 1; round <= 24; round++) {
        for (size_t i = 0; i < MRD_COUNT(sizes); i++) {
            seed = round * 0x9e3779b97f4a7c15u + sizes[i];
            if (sizes[i] >= 1000 && round > 6)
                continue;
            round_trip(sizes[i], round % 2 == 0 ? MRD_CODEC_NONE : MRD_CODEC_ZSTD,
                       round % 4 == 0   ? INT64_MIN
                       : round % 4 == 1 ? INT64_MAX - 5000
                                        : 1000,
                       round % 5 == 0   ? 3 /* nearly all times equal */
                       : round % 4 == 2 ? 1ull << 40
                                        : 5000);
            if (test_failures > 0) {
                fprintf(stderr, "round %d, %u events\n", (int) round, sizes[i]);
                return;
            }
        }
    }
}

/* Spans with up to five integers of every length, names with two-byte numbers, equal times, and
 * sometimes another event. The fast and the general path of the decoder alternate, and each must
 * continue at the state of the other. */
TEST(plain_spans)
{
    enum { SPANS = 6000 };
    world w = world_new();
    mrd_batch *b = mrd_batch_new(w.cat, w.process, 0, SPANS);
    static mrd_arg args[SPANS][5];
    static mrd_event spans[SPANS];
    const mrd_event *ev;
    mrd_why why;
    trip t;

    seed = 11;
    for (uint32_t i = 0; i < SPANS; i++) {
        char name[16];

        snprintf(name, sizeof(name), "span %u", (unsigned) below(i < SPANS / 2 ? 100 : 300));
        for (int k = 0; k < 5; k++)
            args[i][k] = (mrd_arg){ .key = w.names[k],
                                    .type = MRD_ARG_INT,
                                    .v.i = (int64_t) (rnd() >> below(64)) };
        spans[i] = (mrd_event){ .kind = below(50) == 0 ? MRD_INSTANT : MRD_SPAN,
                                .ts = { (int64_t) (i - i % (1 + below(3))) },
                                .dur_ns = (int64_t) (rnd() >> (1 + below(63))),
                                .id = below(3) * rnd(),
                                .track = w.tracks[0],
                                .name = mrd_catalog_intern(w.cat, name),
                                .arg_count = (uint32_t) below(6),
                                .args = args[i] };
        if (i > 0 && mrd_ev_before(spans[i].ts, spans[i - 1].ts))
            spans[i].ts = spans[i - 1].ts;
        if (spans[i].kind == MRD_INSTANT)
            spans[i].dur_ns = 0;
        REQUIRE(mrd_batch_push(b, &spans[i]) == MRD_OK);
    }
    t = trip_open(b, MRD_CODEC_NONE, w.cat);
    for (uint32_t i = 0; i < SPANS; i++)
        spans[i].seq = i;
    qsort(spans, SPANS, sizeof(*spans), event_order);
    for (uint32_t i = 0; i < SPANS; i++) {
        REQUIRE(mrd_batch_next(t.reader, &ev, &why) == MRD_MORE);
        if (!same_event(ev, &spans[i])) {
            CHECK_INT(i, -1);
            break;
        }
    }
    trip_close(&t);
    world_end(&w, b);
}

/* Encodes numbers of every length. The portable loop and the loop with special instructions write
 * the same bytes. */
TEST(varints_of_every_length)
{
    enum { MANY_VARINTS = 64 * 3 + 2 };
    uint64_t v[MANY_VARINTS];
    uint8_t plain[MANY_VARINTS * 10 + VARINT_ROOM] = { 0 }, fast[sizeof(plain)] = { 0 };
    const uint8_t *at = plain;
    uint8_t *end;

    for (uint32_t bit = 0; bit < 64; bit++) {
        v[3 * bit] = (uint64_t) 1 << bit;
        v[3 * bit + 1] = ((uint64_t) 1 << bit) - 1;
        v[3 * bit + 2] = ((uint64_t) 1 << bit) | 1;
    }
    v[3 * 64] = UINT64_MAX;
    v[3 * 64 + 1] = 0;
    end = mrd_batch_varints(true)(plain, v, MANY_VARINTS);
    CHECK(mrd_batch_varints(false)(fast, v, MANY_VARINTS) - fast == end - plain);
    CHECK(memcmp(plain, fast, (size_t) (end - plain)) == 0);
    for (uint32_t i = 0; i < MANY_VARINTS; i++)
        CHECK(varint_get(&at) == v[i]);
    CHECK(at == end);
}

/* Short columns before, between and after long ones are packed together. None is lost, whichever
 * columns are long. */
TEST(short_columns_stand_anywhere)
{
    for (unsigned which = 0; which < 16; which++) {
        enum { N = 6000 };
        world w = world_new();
        mrd_batch *b = mrd_batch_new(w.cat, w.process, 0, N);
        mrd_arg text = { .key = w.names[1], .type = MRD_ARG_TEXT, .len = 9, .v.text = long_text };
        const mrd_event *ev;
        mrd_why why = { 0 };
        uint32_t n = 0;
        trip t;

        for (uint32_t i = 0; i < N; i++) {
            bool rare = i % 1000 == 999;
            mrd_event e = { .kind = MRD_SPAN,
                            .ts = { (int64_t) i * 3 },
                            .dur_ns = which & 1 ? (int64_t) i * 7919 : 1,
                            .track = w.tracks[0],
                            .name = w.names[0] };

            if (rare || (which & 2) != 0) {
                e.arg_count = 1;
                e.args = &text;
            }
            if (rare && (which & 4) != 0) {
                e.kind = MRD_COUNTER;
                e.track = w.tracks[6];
                e.value = 0.5 * i;
                e.dur_ns = 0;
                e.name = 0;
            }
            e.id = which & 8 ? 1 + i * 131ull : 0;
            REQUIRE(mrd_batch_push(b, &e) == MRD_OK);
        }
        t = trip_open(b, MRD_CODEC_ZSTD, w.cat);
        for (; mrd_batch_next(t.reader, &ev, &why) == MRD_MORE; n++) {
            bool rare = n % 1000 == 999, sample = rare && (which & 4) != 0;

            CHECK(ev->ts.ns == (int64_t) n * 3 && ev->kind == (sample ? MRD_COUNTER : MRD_SPAN));
            CHECK(sample ? ev->value == 0.5 * n
                         : ev->dur_ns == (which & 1 ? (int64_t) n * 7919 : 1));
            CHECK(ev->id == (which & 8 ? 1 + n * 131ull : 0));
            if (rare || (which & 2) != 0)
                CHECK(ev->arg_count == 1 && ev->args[0].len == 9 &&
                      memcmp(ev->args[0].v.text, long_text, 9) == 0);
            else
                CHECK_INT(ev->arg_count, 0);
        }
        CHECK_INT(n, N);
        trip_close(&t);
        world_end(&w, b);
    }
}

/* Several frames of one batch object. The encoder remembers the best packing of each column, and
 * the data changes meanwhile. A column of three bytes per event exceeds one block of a stored
 * frame. */
enum { MANY = 45000 };

TEST(columns_are_packed_each_in_its_way)
{
    static const uint64_t spreads[] = { 1u << 20, 1u << 20, 1u << 20, 1, 1, 1u << 20, 1u << 20, 1 };
    world w = world_new();
    mrd_batch *b = mrd_batch_new(w.cat, w.process, 0, MANY);
    int64_t *dur = calloc(MANY, sizeof(*dur));

    seed = 7;
    for (size_t k = 0; k < MRD_COUNT(spreads); k++) {
        const mrd_event *ev;
        mrd_why why;
        trip t;

        for (uint32_t i = 0; i < MANY; i++) {
            mrd_event e = { .kind = MRD_SPAN,
                            .ts = { (int64_t) i },
                            .dur_ns = dur[i] = (int64_t) (below(spreads[k]) + i % 100),
                            .track = w.tracks[i % 3],
                            .name = w.names[i % 2] };

            REQUIRE(mrd_batch_push(b, &e) == MRD_OK);
        }
        t = trip_open(b, MRD_CODEC_ZSTD, w.cat);
        for (uint32_t i = 0; i < MANY; i++) {
            REQUIRE(mrd_batch_next(t.reader, &ev, &why) == MRD_MORE);
            if (ev->ts.ns != (int64_t) i || ev->dur_ns != dur[i] || ev->track != w.tracks[i % 3] ||
                ev->name != w.names[i % 2])
                CHECK_INT(i, -1);
        }
        CHECK(mrd_batch_next(t.reader, &ev, &why) == MRD_END);
        CHECK(t.wire.len < 3u * MANY + 20000u);       /* 20 random bits: three bytes */
        CHECK(k > 0 || t.wire.len > 29u * MANY / 10); /* stored: packing would save too little */
        trip_close(&t);
    }
    free(dur);
    world_end(&w, b);
}

TEST(whole_range_of_times)
{
    world w = world_new();
    mrd_batch *b = mrd_batch_new(w.cat, w.process, 1, 0);
    mrd_event lo = {
        .kind = MRD_INSTANT, .ts = { INT64_MIN }, .track = w.tracks[0], .name = w.names[0]
    };
    mrd_event hi = {
        .kind = MRD_INSTANT, .ts = { INT64_MAX }, .track = w.tracks[0], .name = w.names[0]
    };
    const mrd_event *ev;
    mrd_why why;
    trip t;

    /* The times of a batch span at most 2^63 ns. If they span more, the reader must return an error
     * and not compute wrapped times. */
    hi.ts = (mrd_ev_ns){ -1 };
    CHECK_ERR("hi", mrd_batch_push(b, &hi), MRD_OK);
    CHECK_ERR("lo", mrd_batch_push(b, &lo), MRD_OK);
    t = trip_open(b, MRD_CODEC_ZSTD, w.cat);
    CHECK_INT(t.info.clock, 1);
    REQUIRE(mrd_batch_next(t.reader, &ev, &why) == MRD_MORE);
    CHECK_INT(ev->ts.ns, INT64_MIN);
    REQUIRE(mrd_batch_next(t.reader, &ev, &why) == MRD_MORE);
    CHECK_INT(ev->ts.ns, -1);
    CHECK(mrd_batch_next(t.reader, &ev, &why) == MRD_END);
    trip_close(&t);
    hi.ts = (mrd_ev_ns){ INT64_MAX };
    CHECK_ERR("lo", mrd_batch_push(b, &lo), MRD_OK);
    CHECK_ERR("too far apart", mrd_batch_push(b, &hi), MRD_FULL);
    world_end(&w, b);
}

/* A reader that numbers tracks differently returns events of equal times in its own order. */
TEST(ties_in_the_readers_order)
{
    world w = world_new();
    mrd_catalog *other = mrd_catalog_new();
    mrd_batch *b = mrd_batch_new(w.cat, w.process, 0, 0);
    mrd_process p = *mrd_catalog_borrow_process(w.cat, w.process);
    const mrd_event *ev;
    mrd_track_id last = 0;
    mrd_why why;
    unsigned n = 0;
    trip t;

    p.instance_id = mrd_catalog_intern(other, "i-0abc");
    p.name = p.job = p.pod = p.labels = 0;
    mrd_catalog_process(other, &p);
    for (int i = 5; i >= 0; i--) {
        mrd_track u = *mrd_catalog_borrow_track(w.cat, w.tracks[i]);

        u.name = mrd_catalog_intern(other, mrd_catalog_text(w.cat, u.name).p);
        mrd_catalog_track(other, &u);
    }
    for (int i = 0; i < 6; i++) {
        mrd_event e = {
            .kind = MRD_SPAN, .ts = { 5 }, .dur_ns = i, .track = w.tracks[i], .name = w.names[i]
        };

        CHECK_ERR("push", mrd_batch_push(b, &e), MRD_OK);
    }
    t = trip_open(b, MRD_CODEC_NONE, other);
    while (mrd_batch_next(t.reader, &ev, &why) == MRD_MORE) {
        CHECK(n == 0 || ev->track > last);
        last = ev->track;
        CHECK_INT(ev->dur_ns, 5 - (int64_t) ev->track);
        n++;
    }
    CHECK_INT(n, 6);
    CHECK_INT(mrd_catalog_tracks(other), 6);
    CHECK(
        mrd_str_is(mrd_catalog_text(other, mrd_catalog_borrow_process(other, 0)->name), "python"));
    trip_close(&t);
    world_end(&w, b);
    mrd_catalog_free(other);
}

/* ---- Events that push refuses ---- */

TEST(push_refuses)
{
    world w = world_new();
    mrd_batch *b = mrd_batch_new(w.cat, w.process, 0, 0);
    mrd_arg bad_double = { .key = w.names[0], .type = MRD_ARG_DOUBLE, .v.d = INFINITY };
    mrd_arg bad_type = { .key = w.names[0], .type = 9 };
    char *big = calloc(1, MRD_BATCH_EVENT_MAX + 1);
    mrd_arg huge = {
        .key = w.names[0], .type = MRD_ARG_TEXT, .len = MRD_BATCH_EVENT_MAX, .v.text = big
    };
    const mrd_track_id t = w.tracks[0];
    const struct {
        const char *name;
        mrd_event ev;
        mrd_err want;
    } rows[] = {
        { "kind 0", { .kind = 0, .track = t }, MRD_INVALID },
        { "kind 6", { .kind = 6, .track = t }, MRD_INVALID },
        { "negative duration", { .kind = MRD_SPAN, .track = t, .dur_ns = -2 }, MRD_INVALID },
        { "unknown track", { .kind = MRD_SPAN, .track = 8 }, MRD_INVALID },
        { "counter is not a number",
          { .kind = MRD_COUNTER, .track = t, .value = NAN },
          MRD_INVALID },
        { "flow without direction", { .kind = MRD_FLOW, .track = t }, MRD_INVALID },
        { "infinite argument",
          { .kind = MRD_SPAN, .track = t, .arg_count = 1, .args = &bad_double },
          MRD_INVALID },
        { "argument of type 9",
          { .kind = MRD_SPAN, .track = t, .arg_count = 1, .args = &bad_type },
          MRD_INVALID },
        { "too many arguments", { .kind = MRD_SPAN, .track = t, .arg_count = 4097 }, MRD_LIMIT },
        { "too much text",
          { .kind = MRD_SPAN, .track = t, .arg_count = 1, .args = &huge },
          MRD_LIMIT },
        { "good", { .kind = MRD_SPAN, .track = t }, MRD_OK },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++)
        CHECK_ERR(rows[i].name, mrd_batch_push(b, &rows[i].ev), rows[i].want);
    CHECK_INT(mrd_batch_events(b), 1);
    free(big);
    world_end(&w, b);
}

TEST(closes_by_bytes)
{
    world w = world_new();
    mrd_batch *b = mrd_batch_new(w.cat, w.process, 0, MRD_BATCH_EVENTS);
    char *text = calloc(1, 10000);
    mrd_arg a = { .key = w.names[0], .type = MRD_ARG_TEXT, .len = 10000, .v.text = text };
    mrd_event ev = { .kind = MRD_INSTANT, .track = w.tracks[0], .arg_count = 1, .args = &a };
    uint32_t n = 0;
    trip t;

    memset(text, 'x', 10000);
    while (mrd_batch_push(b, &ev) == MRD_OK)
        n++;
    CHECK(n > 60 && n < 90);
    t = trip_open(b, MRD_CODEC_ZSTD, w.cat);
    CHECK_INT(t.frame.events, n);
    trip_close(&t);
    free(text);
    world_end(&w, b);
}

/* ---- The encoder does not use protobuf-c. protobuf-c must be able to read its output ---- */

/* Makes a different text of at most three letters for each number. */
static mrd_sid
short_text(mrd_catalog *cat, uint32_t n)
{
    char text[4];

    snprintf(text, sizeof(text), "%c%c%c", 'A' + (char) (n % 41), 'A' + (char) (n / 41 % 41),
             'A' + (char) (n / 1681));
    return mrd_catalog_intern(cat, text);
}

/* The dictionary also holds the names of tracks. If the arguments use the maximum number of
 * strings, a new track closes the batch, because a reader would refuse it otherwise. */
TEST(names_of_tracks_are_counted)
{
    enum { EVENTS = 7, ARGS = MRD_BATCH_ARGS };
    world w = world_new();
    mrd_batch *b = mrd_batch_new(w.cat, w.process, 0, 20000);
    static mrd_arg args[ARGS];
    const mrd_event *ev;
    mrd_err err = MRD_OK;
    uint32_t n = 0, texts = 0, given = 0;
    mrd_why why = { 0 };
    trip t;

    for (; err == MRD_OK; n++) {
        mrd_event e = { .kind = MRD_SPAN, .ts = { (int64_t) n }, .name = w.names[0] };
        mrd_track track;

        mrd_track_init(&track, w.process, MRD_SRC_RUNTIME);
        track.thread_id = (int64_t) n;
        if (n < EVENTS) {
            e.args = args;
            e.arg_count = ARGS;
            for (uint32_t i = 0; i < ARGS; i++) {
                args[i] = (mrd_arg){ .key = short_text(w.cat, texts++), .type = MRD_ARG_STR };
                args[i].v.sid = short_text(w.cat, texts++);
            }
        } else {
            track.name = short_text(w.cat, texts++);
            track.unit_name = short_text(w.cat, texts++);
        }
        e.track = mrd_catalog_track(w.cat, &track);
        err = mrd_batch_push(b, &e);
    }
    CHECK_ERR("full", err, MRD_FULL);
    CHECK(texts > 60000 && n > EVENTS + 1000);
    t = trip_open(b, MRD_CODEC_ZSTD, w.cat);
    while (mrd_batch_next(t.reader, &ev, &why) == MRD_MORE)
        given++;
    CHECK_INT(given, n - 1);
    trip_close(&t);
    world_end(&w, b);
}

TEST(protobuf_reads_the_columns)
{
    world w = world_new();
    mrd_batch *b = mrd_batch_new(w.cat, w.process, 0, 0);
    Mrd__BatchColumns *c;
    Mrd__BatchHead *h;
    made m;
    trip t;

    seed = 42;
    for (int i = 0; i < 200; i++) { /* fewer than are compressed */
        make_event(&w, &m, 1000, 5000);
        CHECK_ERR("push", mrd_batch_push(b, &m.ev), MRD_OK);
    }
    t = trip_open(b, MRD_CODEC_ZSTD, w.cat);
    h = mrd__batch_head__unpack(NULL, t.frame.head_len, t.wire.p + MRD_FRAME_HEADER);
    c = mrd__batch_columns__unpack(NULL, t.frame.body_len - t.frame.head_len,
                                   t.wire.p + MRD_FRAME_HEADER + t.frame.head_len);
    REQUIRE(h != NULL && c != NULL);
    CHECK_INT(h->events, 200);
    CHECK_TEXT(h->process->instance_id, "i-0abc");
    CHECK(c->n_ts == 200 && c->n_form == 200 && c->n_track == 200 && c->n_name == 200);
    CHECK_INT(c->ts[0], 0);
    for (size_t i = 0; i < c->n_form; i++)
        CHECK(c->form[i] < h->n_form_bits && c->track[i] < h->n_track_source &&
              c->name[i] <= h->n_strings);
    mrd__batch_head__free_unpacked(h, NULL);
    mrd__batch_columns__free_unpacked(c, NULL);
    trip_close(&t);
    world_end(&w, b);
}

/* A batch without events is not sent, even if it has readings of a clock. */
TEST(an_empty_batch_is_not_sent)
{
    world w = world_new();
    mrd_batch *b = mrd_batch_new(w.cat, w.process, 0, 0);
    mrd_codec *codec = mrd_codec_new();
    mrd_cross_read cross = { { 1 }, { 2 }, 3 };
    mrd_frame f = { .seq = 10 };
    mrd_buf wire = { 0 };
    mrd_why why = { 0 };
    int64_t first, last;

    CHECK(!mrd_batch_range(b, &first, &last));
    CHECK(mrd_batch_cross(b, &cross) == MRD_OK);
    CHECK_ERR("empty", mrd_batch_encode(b, codec, MRD_CODEC_ZSTD, &f, &wire, &why), MRD_EMPTY);
    CHECK_INT(wire.len, 0);
    CHECK(why.text[0] != '\0');
    mrd_buf_fini(&wire);
    mrd_codec_free(codec);
    mrd_batch_free(b);
    mrd_batch_free(NULL);
    mrd_catalog_free(w.cat);
}

/* A batch ends at its latest event, or later if a span in it was open until then. An empty one has
 * no range. */
TEST(a_batch_reaches_as_far_as_it_is_told)
{
    world w = world_new();
    mrd_batch *b = mrd_batch_new(w.cat, w.process, 0, 0);
    int64_t first, last;

    mrd_batch_reach(b, 1000);
    CHECK(!mrd_batch_range(b, &first, &last));
    for (int64_t n = 1; n <= 3; n++) {
        mrd_event e = { .kind = MRD_SPAN,
                        .ts = { 100 * n },
                        .dur_ns = 10,
                        .track = w.tracks[0],
                        .name = w.names[0] };

        CHECK_ERR("push", mrd_batch_push(b, &e), MRD_OK);
        CHECK(mrd_batch_range(b, &first, &last) && first == 100 && last == 100 * n + 10);
        mrd_batch_reach(b, 100 * n + 9);
        CHECK(mrd_batch_range(b, &first, &last) && first == 100 && last == 100 * n + 10);
        mrd_batch_reach(b, 100 * n + 50);
        CHECK(mrd_batch_range(b, &first, &last) && first == 100 && last == 100 * n + 50);
    }
    mrd_batch_free(b);
    mrd_catalog_free(w.cat);
}

/* A batch carries only its own names and tracks, not those from before in the same object. */
TEST(nothing_of_the_batch_before_travels_again)
{
    world w = world_new();
    mrd_batch *b = mrd_batch_new(w.cat, w.process, 0, 0);

    for (unsigned round = 0; round < 3; round++) {
        Mrd__BatchHead *h;
        trip t;

        for (unsigned i = 0; i < 1 + 3 * (round == 0); i++) {
            mrd_event e = { .kind = MRD_SPAN,
                            .ts = { i },
                            .track = w.tracks[(round * 2 + i) % 6],
                            .name = w.names[round * 5 + i],
                            .category = w.names[round * 5 + i] };

            CHECK_ERR("push", mrd_batch_push(b, &e), MRD_OK);
        }
        t = trip_open(b, MRD_CODEC_NONE, w.cat);
        h = mrd__batch_head__unpack(NULL, t.frame.head_len, t.wire.p + MRD_FRAME_HEADER);
        REQUIRE(h != NULL);
        CHECK_INT(h->n_track_source, round == 0 ? 4 : 1);
        CHECK_INT(h->n_form_bits, round == 0 ? 4 : 1);
        CHECK(h->n_strings <= (round == 0 ? 4 + 4 : 1 + 1)); /* with names of tracks */
        mrd__batch_head__free_unpacked(h, NULL);
        trip_close(&t);
    }
    world_end(&w, b);
}

/* ---- Damage ---- */

/* Opens a frame with one damaged byte and a corrected header. Any result is allowed except a crash
 * or more events than the header says. */
static mrd_err
open_damaged(const trip *t, size_t at, uint8_t with, mrd_catalog *cat)
{
    uint8_t *exact = malloc(t->wire.len);
    mrd_batch_reader *r = mrd_batch_reader_new(t->codec);
    mrd_frame f = t->frame;
    mrd_bytes body = { exact + MRD_FRAME_HEADER, t->wire.len - MRD_FRAME_HEADER };
    mrd_batch_info info;
    const mrd_event *ev;
    mrd_why why = { 0 };
    mrd_err err;
    uint32_t n = 0;

    memcpy(exact, t->wire.p, t->wire.len);
    exact[at] ^= with;
    err = mrd_batch_open(r, &f, body, cat, &info, &why);
    if (err == MRD_OK) {
        while (mrd_batch_next(r, &ev, &why) == MRD_MORE)
            n++;
        CHECK(n <= f.events);
    } else {
        CHECK(why.text[0] != '\0');
    }
    mrd_batch_reader_free(r);
    free(exact);
    return err;
}

TEST(damage_is_refused_or_harmless)
{
    world w = world_new();
    mrd_batch *b = mrd_batch_new(w.cat, w.process, 0, 0);
    mrd_catalog *cat = mrd_catalog_new();
    mrd_frame f;
    mrd_bytes body;
    size_t refused = 0;
    made m;
    trip t;

    seed = 7;
    for (int i = 0; i < 120; i++) {
        make_event(&w, &m, 1000, 5000);
        CHECK_ERR("push", mrd_batch_push(b, &m.ev), MRD_OK);
    }
    t = trip_open(b, MRD_CODEC_NONE, w.cat);
    for (size_t at = 0; at < t.wire.len; at++) { /* with checksums: always refused */
        uint8_t *exact = malloc(t.wire.len);

        memcpy(exact, t.wire.p, t.wire.len);
        exact[at] = (uint8_t) (exact[at] ^ 1u << at % 8);
        if (mrd_frame_check((mrd_bytes){ exact, t.wire.len }, &f, &body, NULL) == MRD_OK)
            fprintf(stderr, "byte %zu passes\n", at), CHECK(false);
        CHECK(mrd_frame_check((mrd_bytes){ exact, at }, &f, &body, NULL) != MRD_OK);
        free(exact);
    }
    for (size_t at = MRD_FRAME_HEADER; at < t.wire.len; at++) { /* damage with right checksums */
        for (int k = 0; k < 3; k++)
            refused += open_damaged(&t, at,
                                    (uint8_t) (k == 0   ? 0x80
                                               : k == 1 ? 1
                                                        : rnd() | 2),
                                    cat) != MRD_OK;
    }
    CHECK(refused > t.wire.len / 4);
    trip_close(&t);
    mrd_batch_free(b);
    mrd_catalog_free(cat);
    mrd_catalog_free(w.cat);
}

TEST_MAIN()
