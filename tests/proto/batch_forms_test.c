/* Tests batches whose events have many forms. A form is a set of properties that several events
 * share, and the forms here differ in only one property. Events are also far apart in time and in
 * any order. Each event must be decoded unchanged. */
#include "base/obj.h"
#include "proto/batch/batch.h"
#include "tests/check.h"
#include "tests/trace/events.h"

enum { KEYS = 24, EVENTS = 1600, ARGS = 5 };

typedef struct {
    mrd_catalog *cat;
    mrd_batch *b;
    mrd_track_id track;
    mrd_sid keys[KEYS];
} world;

static world
world_new(void)
{
    world w = { .cat = mrd_catalog_new() };
    mrd_process p;
    mrd_track t;

    mrd_process_init(&p);
    p.instance_id = mrd_catalog_intern(w.cat, "i-1");
    mrd_track_init(&t, mrd_catalog_process(w.cat, &p), MRD_SRC_RUNTIME);
    w.track = mrd_catalog_track(w.cat, &t);
    for (int i = 0; i < KEYS; i++) {
        char name[16];

        snprintf(name, sizeof(name), "key %d", i);
        w.keys[i] = mrd_catalog_intern(w.cat, name);
    }
    w.b = mrd_batch_new(w.cat, t.process, 0, 0);
    return w;
}

static void
world_end(world *w)
{
    mrd_batch_free(w->b);
    mrd_catalog_free(w->cat);
}

static bool
same(const mrd_event *x, const mrd_event *y)
{
    bool ok = x->kind == y->kind && x->ts.ns == y->ts.ns && x->dur_ns == y->dur_ns &&
              x->name == y->name && x->category == y->category && x->track == y->track &&
              x->id == y->id && x->bound_ns == y->bound_ns && x->arg_count == y->arg_count;

    for (uint32_t i = 0; ok && i < x->arg_count; i++)
        ok = x->args[i].key == y->args[i].key && x->args[i].type == y->args[i].type &&
             x->args[i].v.i == y->args[i].v.i;
    return ok;
}

/* Writes the batch, reads it with a new reader and compares. The reader returns the events in the
 * order of time. */
static void
check_batch(world *w, const mrd_event *want, size_t n)
{
    mrd_codec *codec = mrd_codec_new();
    mrd_batch_reader *reader = mrd_batch_reader_new(codec);
    mrd_frame f = { .session = 9, .seq = 10 };
    mrd_batch_info info;
    const mrd_event *ev;
    mrd_bytes body;
    mrd_buf wire = { 0 };
    mrd_why why = { 0 };
    size_t seen = 0;

    CHECK_ERR("encode", mrd_batch_encode(w->b, codec, MRD_CODEC_ZSTD, &f, &wire, &why), MRD_OK);
    CHECK_ERR("check", mrd_frame_check((mrd_bytes){ wire.p, wire.len }, &f, &body, &why), MRD_OK);
    CHECK_ERR("open", mrd_batch_open(reader, &f, body, w->cat, &info, &why), MRD_OK);
    while (mrd_batch_next(reader, &ev, &why) == MRD_MORE && seen < n) {
        if (!same(ev, &want[seen])) {
            fprintf(stderr, "event %zu of %zu differs\n", seen, n);
            CHECK(false);
            break;
        }
        seen++;
    }
    CHECK_INT(seen, n);
    mrd_batch_reader_free(reader);
    mrd_codec_free(codec);
    mrd_buf_fini(&wire);
}

/* Draws one element of each event from a few values: both arguments, one argument, the category or
 * the kind. Each batch has hundreds of forms, so every pair that differs in one element occurs many
 * times. */
TEST(forms_that_differ_in_one_place_are_apart)
{
    static const unsigned types[] = { MRD_ARG_INT, MRD_ARG_UINT, MRD_ARG_BOOL };
    uint64_t seed = 20261123;

    for (int differs = 0; differs < ARGS + 3; differs++) {
        static mrd_arg args[EVENTS][ARGS];
        static mrd_event v[EVENTS];
        world w = world_new();

        for (size_t i = 0; i < EVENTS; i++) {
            for (int k = 0; k < ARGS; k++)
                args[i][k] = (mrd_arg){ .key = w.keys[k],
                                        .type = MRD_ARG_INT,
                                        .v.i = (int64_t) (test_rand(&seed) % 100) };
            v[i] = (mrd_event){ .kind = MRD_SPAN,
                                .ts = { (int64_t) i },
                                .track = w.track,
                                .name = w.keys[0],
                                .args = args[i],
                                .arg_count = differs < 2           ? 2
                                             : differs == ARGS + 1 ? 1
                                                                   : ARGS };
            if (differs < ARGS) {
                mrd_arg *a = &args[i][differs];

                a->key = w.keys[test_rand(&seed) % KEYS];
                a->type = types[test_rand(&seed) % MRD_COUNT(types)] & 15u;
                a->v.i = a->type == MRD_ARG_BOOL ? a->v.i & 1 : a->v.i;
            } else if (differs == ARGS) {
                v[i].category = test_rand(&seed) % 4 == 0 ? 0 : w.keys[test_rand(&seed) % KEYS];
            } else if (differs == ARGS + 1) {
                v[i].kind = test_rand(&seed) % 2 == 0 ? MRD_SPAN : MRD_INSTANT;
                v[i].bound_ns = test_rand(&seed) % 2 == 0 ? 0 : (uint32_t) (1 + i);
                v[i].id = test_rand(&seed) % 2 == 0 ? 0 : 1 + i;
                v[i].dur_ns = v[i].kind == MRD_INSTANT    ? 0
                              : test_rand(&seed) % 2 == 0 ? MRD_DUR_UNFINISHED
                                                          : 5;
            } else {
                v[i].arg_count = (uint32_t) (test_rand(&seed) % (ARGS + 1));
            }
            CHECK_ERR("push", mrd_batch_push(w.b, &v[i]), MRD_OK);
        }
        check_batch(&w, v, EVENTS);
        world_end(&w);
    }
}

/* The events span the longest time that one batch may cover, and any smaller power of two. */
TEST(events_far_apart_come_in_order)
{
    uint64_t seed = 20261123;

    for (int bits = 1; bits <= 62; bits++) {
        static mrd_event v[200];
        world w = world_new();

        for (size_t i = 0; i < MRD_COUNT(v); i++) {
            v[i] = (mrd_event){ .kind = MRD_INSTANT,
                                .ts = { (int64_t) (test_rand(&seed) >> (64 - bits)) -
                                        (1ll << (bits - 1)) },
                                .track = w.track,
                                .name = w.keys[0] };
            CHECK_ERR("push", mrd_batch_push(w.b, &v[i]), MRD_OK);
        }
        qsort(v, MRD_COUNT(v), sizeof(v[0]), test_compare);
        check_batch(&w, v, MRD_COUNT(v));
        world_end(&w);
    }
}

TEST_MAIN()
