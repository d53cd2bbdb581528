/* Tests how the runtime's event of a model load gets the name of the model (agent/neuron/models.h).
 * libmeridian records the load with the name, and the runtime records it with its own number. Both
 * are joined by thread and times, in any order of arrival. Times that are only close to each other
 * are not sufficient. */
#include "agent/neuron/models.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/check.h"

#define WALL    1700000000000000000
#define THREADS 6
#define LOADS   60

typedef struct {
    mrd_model_table *t;
    mrd_drain_process process;
    mrd_arg args[8];
    uint32_t n;
} fixture;

/* The truth about one load. */
typedef struct {
    int64_t thread, call_from, call_to, from, to, runtime_id;
    uint64_t number;
} truth;

static uint64_t state;

static uint64_t
test_random(void)
{
    if (state == 0) {
        const char *seed = getenv("MRD_SEED");

        state = (seed == NULL ? 1 : strtoull(seed, NULL, 10)) * 0x9e3779b97f4a7c15u + 1;
        printf("seed %s\n", seed == NULL ? "1" : seed);
    }
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state >> 11;
}

static void
set_up(fixture *f)
{
    memset(f, 0, sizeof(*f));
    CHECK_ERR("open", mrd_model_table_open(NULL, "b", "/proc", NULL, &f->t, NULL), MRD_OK);
    f->process.catalog = mrd_catalog_new();
    mrd_ident_init(&f->process.ident);
}

static void
tear_down(fixture *f)
{
    mrd_model_table_close(f->t);
    mrd_catalog_free(f->process.catalog);
}

static void
add_number(fixture *f, const char *key, int64_t v)
{
    f->args[f->n++] = (mrd_arg){ .key = mrd_catalog_intern(f->process.catalog, key),
                                 .type = MRD_ARG_INT,
                                 .v.i = v };
}

/* Adds the records of libmeridian about the load. */
static void
tell_load(fixture *f, const truth *l)
{
    mrd_event ev = { .kind = MRD_INSTANT, .ts = { 1000 + l->call_to - WALL } };

    f->n = 0;
    add_number(f, "model_id", (int64_t) l->number);
    add_number(f, "size", 100);
    if (l->thread != 0) {
        add_number(f, "call_thread_id", l->thread);
        add_number(f, "call_from_ns", l->call_from);
        add_number(f, "call_to_ns", l->call_to);
    }
    ev.args = f->args;
    ev.arg_count = f->n;
    mrd_model_table_event(f->t, &f->process, l->number, true, &ev);
}

/* Adds the runtime's trace event of the load. `shift`: difference of its thread ids from the
 * system's. */
static void
tell_runtime(fixture *f, const truth *l, const char *call, int64_t shift)
{
    mrd_event ev = { .kind = MRD_SPAN, .ts = { l->from }, .dur_ns = l->to - l->from };
    char name[32];
    mrd_track track;

    snprintf(name, sizeof(name), "net%d", (int) (l->runtime_id % 3)); /* names repeat */
    mrd_track_init(&track, f->process.id, MRD_SRC_RUNTIME);
    track.thread_id = l->thread + shift;
    f->n = 0;
    add_number(f, "model_id", l->runtime_id);
    f->args[f->n++] = (mrd_arg){ .key = mrd_catalog_intern(f->process.catalog, "model_name"),
                                 .type = MRD_ARG_STR,
                                 .v.sid = mrd_catalog_intern(f->process.catalog, name) };
    ev.name = mrd_catalog_intern(f->process.catalog, call);
    ev.track = mrd_catalog_track(f->process.catalog, &track);
    ev.args = f->args;
    ev.arg_count = f->n;
    mrd_model_table_name(f->t, &f->process, MRD_DRAIN_REALTIME, &ev);
}

static const mrd_model_load *
load_of(fixture *f, uint64_t number)
{
    static const mrd_model_load *v[MRD_MODELS_MAX];
    uint64_t left_out;
    size_t n = mrd_model_table_get(f->t, 0, v, MRD_MODELS_MAX, &left_out);

    for (size_t i = 0; i < n; i++)
        if (v[i]->number == number)
            return v[i];
    return NULL;
}

/* Makes loads of several threads, all within about a millisecond. The loads of one thread do not
 * overlap. */
static void
make_loads(truth *l, size_t n)
{
    int64_t free_at[THREADS] = { 0 };

    for (size_t i = 0; i < n; i++) {
        size_t thread = (size_t) test_random() % THREADS;
        int64_t from = free_at[thread] + (int64_t) (test_random() % 3000);
        int64_t to = from + 3000 + (int64_t) (test_random() % 60000);

        l[i] = (truth){ .thread = 500 + (int64_t) thread,
                        .call_from = WALL + from,
                        .call_to = WALL + to,
                        .from = WALL + from + 200 + (int64_t) (test_random() % 300),
                        .to = WALL + to - 200 - (int64_t) (test_random() % 1000),
                        /* the runtime's ids are not in the order of the loads */
                        .runtime_id = 9000 - (int64_t) i * 7,
                        .number = i + 1 };
        free_at[thread] = to;
    }
}

TEST(loads_of_one_millisecond_keep_their_own_names)
{
    for (int turn = 0; turn < 50; turn++) {
        truth l[LOADS];
        size_t order[2 * LOADS];
        fixture f;

        set_up(&f);
        make_loads(l, LOADS);
        for (size_t i = 0; i < 2 * LOADS; i++)
            order[i] = i;
        for (size_t i = 2 * LOADS; i-- > 1;) {
            size_t j = (size_t) test_random() % (i + 1), was = order[i];

            order[i] = order[j];
            order[j] = was;
        }
        for (size_t i = 0; i < 2 * LOADS; i++)
            if (order[i] < LOADS)
                tell_load(&f, &l[order[i]]);
            else
                tell_runtime(&f, &l[order[i] - LOADS], "nrt_load", 0);
        for (size_t i = 0; i < LOADS; i++) {
            char name[32];

            snprintf(name, sizeof(name), "net%d", (int) (l[i].runtime_id % 3));
            CHECK_INT(load_of(&f, i + 1)->runtime_id, l[i].runtime_id);
            CHECK_TEXT(load_of(&f, i + 1)->name, name);
        }
        tear_down(&f);
    }
}

/* The runtime uses thread ids of its own. A load that could be another's gets no name, and none
 * gets a wrong name. */
TEST(without_a_common_thread_only_what_is_alone_is_joined)
{
    size_t joined = 0;

    for (int turn = 0; turn < 50; turn++) {
        truth l[12];
        fixture f;

        set_up(&f);
        make_loads(l, 12);
        for (size_t i = 0; i < 12; i++) {
            tell_runtime(&f, &l[i], "nrt_load", 100000);
            tell_load(&f, &l[i]);
        }
        for (size_t i = 0; i < 12; i++)
            CHECK_INT(load_of(&f, i + 1)->runtime_id, MRD_NONE);
        mrd_model_table_step(f.t, mrd_local_add(mrd_local_now(), 10 * MRD_SEC));
        for (size_t i = 0; i < 12; i++) {
            int64_t id = load_of(&f, i + 1)->runtime_id;
            bool alone = true;

            CHECK(id == MRD_NONE || id == l[i].runtime_id);
            joined += id != MRD_NONE;
            for (size_t j = 0; j < 12; j++)
                alone = alone &&
                        (j == i || l[j].call_to < l[i].call_from || l[j].call_from > l[i].call_to);
            CHECK(!alone || id == l[i].runtime_id);
        }
        tear_down(&f);
    }
    CHECK(joined > 0);
}

/* A load that libmeridian did not record leaves its event without a model. No other load gets this
 * event. */
TEST(an_event_of_another_load_is_not_taken)
{
    truth noted = { 500, WALL, WALL + 100000, WALL + 10, WALL + 99000, 1, 1 };
    truth other = { 501, 0, 0, WALL + 20, WALL + 98000, 2, 2 };
    truth later = { 500, 0, 0, WALL + 100500, WALL + 101500, 3, 3 };
    fixture f;

    set_up(&f);
    tell_load(&f, &noted);
    tell_runtime(&f, &later, "nrt_load", 0);
    mrd_model_table_step(f.t, mrd_local_add(mrd_local_now(), 10 * MRD_SEC));
    CHECK_INT(load_of(&f, 1)->runtime_id, MRD_NONE);
    tell_runtime(&f, &noted, "nrt_load", 0);
    tell_runtime(&f, &other, "nrt_load", 0);
    mrd_model_table_step(f.t, mrd_local_add(mrd_local_now(), 20 * MRD_SEC));
    CHECK_INT(load_of(&f, 1)->runtime_id, 1);
    tear_down(&f);
}

/* nrt_load_collectives calls nrt_load. The model is named by the outer call, which the program
 * made. */
TEST(of_nested_loads_the_outermost_names_it)
{
    truth outer = { 500, WALL, WALL + 100000, WALL + 10, WALL + 99000, 1, 1 };
    truth inner = { 500, 0, 0, WALL + 20, WALL + 98000, 2, 0 };

    for (int turn = 0; turn < 2; turn++) {
        fixture f;

        set_up(&f);
        tell_load(&f, &outer);
        tell_runtime(&f, turn == 0 ? &inner : &outer, "nrt_load", 0);
        tell_runtime(&f, turn == 0 ? &outer : &inner, "nrt_load_collectives", 0);
        CHECK_INT(load_of(&f, 1)->runtime_id, 1);
        tear_down(&f);
    }
}

TEST(a_load_that_is_no_call_has_no_name)
{
    truth by_program = { 0, WALL, WALL + 100000, WALL + 10, WALL + 99000, 1, 1 };
    fixture f;

    set_up(&f);
    tell_load(&f, &by_program);
    tell_runtime(&f, &by_program, "nrt_load", 77);
    mrd_model_table_step(f.t, mrd_local_add(mrd_local_now(), 10 * MRD_SEC));
    CHECK_INT(load_of(&f, 1)->runtime_id, MRD_NONE);
    tear_down(&f);
}

/* exec keeps the process, but libmeridian numbers its loads from 1 again. */
TEST(another_program_of_the_same_process_has_loads_of_its_own)
{
    truth before = { 500, WALL, WALL + 100000, WALL + 10, WALL + 99000, 1, 1 };
    truth behind = { 500,
                     WALL + MRD_SEC,
                     WALL + MRD_SEC + 100000,
                     WALL + MRD_SEC + 10,
                     WALL + MRD_SEC + 99000,
                     2,
                     1 };
    const mrd_model_load *v[4];
    uint64_t left_out;
    fixture f;

    set_up(&f);
    tell_load(&f, &before);
    tell_runtime(&f, &before, "nrt_load", 0);
    tell_load(&f, &before); /* its ring is read again */
    CHECK_INT(mrd_model_table_get(f.t, 0, v, MRD_COUNT(v), &left_out), 1);
    tell_load(&f, &behind);
    tell_runtime(&f, &behind, "nrt_load", 0);
    REQUIRE(mrd_model_table_get(f.t, 0, v, MRD_COUNT(v), &left_out) == 1);
    CHECK_INT(v[0]->runtime_id, 2);
    tear_down(&f);
}

/* If more events of loads arrive than are kept, only the newest are kept, and memory stays
 * limited. */
TEST(many_events_without_a_load)
{
    truth l = { 500, WALL, WALL + 1000, WALL + 100, WALL + 900, 1, 1 };
    fixture f;

    set_up(&f);
    for (int64_t i = 0; i < 3 * MRD_MODELS_MAX; i++) {
        l.runtime_id = i + 1;
        l.from = WALL + i * 10000 + 100;
        l.to = l.from + 800;
        tell_runtime(&f, &l, "nrt_load", 0);
    }
    l.call_from = l.from - 100;
    l.call_to = l.to + 100;
    tell_load(&f, &l);
    CHECK_INT(load_of(&f, 1)->runtime_id, 3 * MRD_MODELS_MAX);
    tear_down(&f);
}

TEST_MAIN()
