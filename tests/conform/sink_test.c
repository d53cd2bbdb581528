/* Runs the same checks on every output format of trace/sink/sinks.def. */
#include <jansson.h>

#include "tests/trace/profile.h"
#include "trace/json/json_write.h"

static bool
is_json(const mrd_sink_ops *ops)
{
    return mrd_str_ends(mrd_str_of(ops->suffix), ".json");
}

/* jansson must parse it, with integers beyond its range as reals. */
static void
check_json(const char *row, const char *text, size_t len)
{
    json_error_t error;
    json_t *doc = json_loadb(text, len, JSON_DECODE_INT_AS_REAL, &error);

    if (doc == NULL)
        fprintf(stderr, "%s: %s at byte %d: %.80s\n", row, error.text, error.position,
                text + (error.position > 40 ? error.position - 40 : 0));
    CHECK_ROW(row, doc != NULL);
    CHECK_ROW(row, mrd_json_valid((mrd_str){ text, len }));
    CHECK_ROW(row, memmem(text, len < 256 ? len : 256, "\"meridian\"", 10) != NULL);
    json_decref(doc);
}

/* Writes the output twice. The bytes are equal and well-formed. */
static void
check_sink(const mrd_sink_ops *ops, const char *what, const test_profile *p, uint32_t profile,
           const mrd_event *v, size_t n)
{
    for (int variant = 0; variant < 4; variant++) {
        mrd_sink_options options = test_sink_options();
        size_t len, again_len;
        char row[128], *text, *again;

        options.pretty = variant & 1;
        options.json_layout = variant & 2 ? MRD_JSON_EXPLORER : MRD_JSON_GUIDE;
        snprintf(row, sizeof(row), "%s: %s, variant %d", ops->name, what, variant);
        text = test_sink_run(ops, p->cat, profile, &options, v, n, &len);
        again = test_sink_run(ops, p->cat, profile, &options, v, n, &again_len);
        CHECK_ROW(row, len > 0);
        CHECK_ROW(row, len == again_len && memcmp(text, again, len) == 0);
        if (is_json(ops))
            check_json(row, text, len);
        free(text);
        free(again);
    }
}

static void
each_sink(const char *what, const test_profile *p, const mrd_event *v, size_t n)
{
    size_t n_sinks;
    const mrd_sink_ops *const *sinks = mrd_sinks(&n_sinks);

    CHECK(n_sinks >= 5);
    for (size_t i = 0; i < n_sinks; i++)
        check_sink(sinks[i], what, p, 0, v, n);
}

TEST(names_are_found)
{
    size_t n;
    const mrd_sink_ops *const *sinks = mrd_sinks(&n);

    for (size_t i = 0; i < n; i++)
        CHECK_ROW(sinks[i]->name, mrd_sink_find(mrd_str_of(sinks[i]->name)) == sinks[i]);
    CHECK(mrd_sink_find(MRD_STR("db")) == NULL);
}

TEST(empty_profile)
{
    test_profile *p = test_profile_new();
    test_profile bare = { .cat = mrd_catalog_new() };

    each_sink("nothing at all", &bare, NULL, 0);
    each_sink("no events", p, NULL, 0);
    mrd_catalog_free(bare.cat);
    test_profile_free(p);
}

TEST(one_event_of_each_kind)
{
    test_profile *p = test_profile_new();

    for (size_t i = 0; i < p->n; i++)
        each_sink("one event", p, &p->v[i], 1);
    test_profile_free(p);
}

TEST(everything)
{
    test_profile *p = test_profile_new();

    each_sink("everything", p, p->v, p->n);
    test_profile_free(p);
}

TEST(deep_nesting)
{
    enum { DEPTH = 700 };
    test_profile *p = test_profile_new();
    mrd_event *v = calloc(DEPTH, sizeof(*v));

    for (int64_t i = 0; i < DEPTH; i++) {
        v[i] = p->v[1];
        v[i].ts.ns += i;
        v[i].dur_ns = 2 * (DEPTH - i);
    }
    each_sink("deep nesting", p, v, DEPTH);
    free(v);
    test_profile_free(p);
}

TEST(overlapping_spans)
{
    enum { SPANS = 100 };
    test_profile *p = test_profile_new();
    mrd_event *v = calloc(SPANS, sizeof(*v));

    for (int64_t i = 0; i < SPANS; i++) {
        v[i] = p->v[2];
        v[i].ts.ns += i * 10;
        v[i].dur_ns = 1000;
    }
    each_sink("overlapping spans", p, v, SPANS);
    free(v);
    test_profile_free(p);
}

TEST(extreme_times)
{
    static const int64_t at[] = { INT64_MIN, -1, 0, 1, INT64_MAX - 1, INT64_MAX };
    test_profile *p = test_profile_new();
    mrd_event v[24];
    size_t n = 0;

    for (size_t i = 0; i < MRD_COUNT(at); i++) {
        for (size_t k = 0; k < 4; k++) {
            v[n] = p->v[2];
            v[n].ts = (mrd_ev_ns){ at[i] };
            v[n].id = UINT64_MAX;
            v[n].dur_ns = k == 0   ? 0
                          : k == 1 ? INT64_MAX
                          : k == 2 ? MRD_DUR_UNFINISHED
                                   : 9007199254740993;
            n++;
        }
    }
    each_sink("extreme times", p, v, n);
    test_profile_free(p);
}

/* Events of device profiles reach only the sinks that declare support. */
TEST(device_profile)
{
    test_profile *p = test_profile_new();
    mrd_devprofile d = { .name = mrd_catalog_intern(p->cat, "p"),
                         .model = mrd_catalog_intern(p->cat, "10001"),
                         .process_id = 4711,
                         .nc_idx = 3,
                         .session = MRD_NONE };
    mrd_process proc;
    mrd_track t;
    mrd_event v[6];
    size_t n_sinks;
    const mrd_sink_ops *const *sinks = mrd_sinks(&n_sinks);

    mrd_process_init(&proc);
    proc.process_id = 4711;
    proc.profile = mrd_catalog_add_devprofile(p->cat, &d);
    mrd_track_init(&t, mrd_catalog_process(p->cat, &proc), MRD_SRC_DEVPROF);
    t.name = mrd_catalog_intern(p->cat, "TensorE");
    for (size_t i = 0; i < MRD_COUNT(v); i++) {
        v[i] = p->v[0];
        v[i].track = mrd_catalog_track(p->cat, &t);
        v[i].category = mrd_catalog_intern(p->cat, i < 3 ? "instruction" : i < 5 ? "dma" : "");
        v[i].ts = (mrd_ev_ns){ (int64_t) i * 100 };
        v[i].dur_ns = 150;
    }
    for (size_t i = 0; i < n_sinks; i++) {
        if (sinks[i]->device_too)
            check_sink(sinks[i], "device profile", p, 1, v, MRD_COUNT(v));
    }
    test_profile_free(p);
}

static bool
refuse(void *self, const void *data, size_t len)
{
    (void) self;
    (void) data;
    return len == 0;
}

/* A reader that closes its end causes an error at commit, but no crash. */
TEST(output_that_fails)
{
    test_profile *p = test_profile_new();
    mrd_sink_options options = test_sink_options();
    size_t n_sinks;
    const mrd_sink_ops *const *sinks = mrd_sinks(&n_sinks);

    for (size_t i = 0; i < n_sinks; i++) {
        mrd_sink_env env = {
            .catalog = p->cat, .first = { 1 }, .last = { 0 }, .options = &options
        };
        void *state = calloc(1, sinks[i]->state_size + 1);

        CHECK_ERR(sinks[i]->name, mrd_out_func(refuse, NULL, "gone", &env.out, NULL), MRD_OK);
        CHECK_ERR(sinks[i]->name, sinks[i]->open(state, &env, NULL), MRD_OK);
        for (size_t k = 0; k < p->n; k++)
            sinks[i]->event(state, &p->v[k]);
        sinks[i]->close(state, NULL);
        CHECK_ERR(sinks[i]->name, mrd_out_commit(env.out, NULL), MRD_CANCELLED);
        free(state);
    }
    test_profile_free(p);
}

TEST_MAIN()
