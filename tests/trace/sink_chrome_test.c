/* Tests that the importer of Trace Events reads Chrome output as the same spans, samples, arrows
 * and arguments that were written. */
#include "tests/trace/collect.h"
#include "tests/trace/profile.h"

static const mrd_import_ops *const ops = &mrd_import_trace_event;

/* Returns the read event with this name, start and length. The name of a sample is its track's. */
static const mrd_event *
find(const collected *c, const char *name, const mrd_event *like)
{
    for (size_t i = 0; i < c->n; i++) {
        const mrd_event *ev = &c->v[i]->ev;

        if (ev->kind == like->kind && ev->ts.ns == like->ts.ns && ev->dur_ns == like->dur_ns &&
            strcmp(collect_str(c, ev->name), name) == 0)
            return ev;
    }
    return NULL;
}

static bool
same_arg(const test_profile *p, const mrd_arg *want, const collected *c, const mrd_arg *got)
{
    mrd_str a, b;

    if (want->type == MRD_ARG_STR || want->type == MRD_ARG_TEXT) {
        a = want->type == MRD_ARG_STR ? mrd_catalog_text(p->cat, want->v.sid)
                                      : (mrd_str){ want->v.text, want->len };
        b = got->type == MRD_ARG_STR ? mrd_catalog_text(c->cat, got->v.sid)
                                     : (mrd_str){ got->v.text, got->len };
        return mrd_str_eq(a, b);
    }
    if (want->type != got->type)
        return false;
    if (want->type == MRD_ARG_JSON)
        return want->len == got->len && memcmp(want->v.text, got->v.text, got->len) == 0;
    return want->v.u == got->v.u;
}

static void
check_event(const test_profile *p, const mrd_event *want, const collected *c)
{
    const char *name = mrd_catalog_text(p->cat, want->name).p;
    const mrd_event *got = find(c, name, want);

    CHECK_ROW(name, got != NULL);
    if (got == NULL)
        return;
    CHECK_ROW(name, got->flow_count == want->flow_count);
    for (uint8_t i = 0; i < want->flow_count && i < got->flow_count; i++)
        CHECK_ROW(name, got->flows[i].dir == want->flows[i].dir);
    for (uint32_t i = 0; i < want->arg_count; i++) {
        const mrd_arg *arg = collect_arg(c, got, mrd_catalog_text(p->cat, want->args[i].key).p);

        CHECK_ROW(name, arg != NULL && same_arg(p, &want->args[i], c, arg));
    }
}

TEST(events_come_back)
{
    test_profile *p = test_profile_new();
    mrd_sink_options options = test_sink_options();
    size_t len, samples = 0, losses = 0;
    collected c = { 0 };
    char *text = test_sink_run(&mrd_sink_chrome, p->cat, 0, &options, p->v, p->n, &len);

    CHECK(ops->probe((mrd_str){ text, len < 64 << 10 ? len : 64 << 10 }, "x") > 50);
    collect_bytes(&c, ops, text, len, 0, NULL);
    CHECK_ERR("import", c.err, MRD_OK);
    CHECK_INT(c.input.dropped, 0);
    for (size_t i = 0; i < p->n; i++) {
        if (p->v[i].kind == MRD_SPAN || p->v[i].kind == MRD_INSTANT) {
            /* Arrows are bound by the store, which is not in this test. */
            p->v[i].flow_count = 0;
            check_event(p, &p->v[i], &c);
        }
        samples += p->v[i].kind == MRD_COUNTER;
        losses += p->v[i].kind == MRD_LOSS;
    }
    for (size_t i = 0; i < c.n; i++) {
        samples -= c.v[i]->ev.kind == MRD_COUNTER;
        losses -= strcmp(collect_str(&c, c.v[i]->ev.name), "ring full") == 0;
    }
    CHECK_INT(samples, 0);
    CHECK_INT(losses, 0);
    free(text);
    collect_free(&c);
    test_profile_free(p);
}

/* Times are exact to the nanosecond, however far from the epoch. */
TEST(times_are_exact)
{
    static const int64_t step[] = {
        0, 1, 999, 1000, 1001, 999999999, 86400000000001, 9007199254740993
    };
    test_profile *p = test_profile_new();
    mrd_sink_options options = test_sink_options();
    mrd_event v[MRD_COUNT(step)];
    collected c = { 0 };
    size_t len;
    char *text;

    for (size_t i = 0; i < MRD_COUNT(step); i++) {
        v[i] = p->v[2];
        v[i].ts = (mrd_ev_ns){ BASE_NS + step[i] };
        v[i].dur_ns = step[i];
        v[i].flow_count = 0;
    }
    text = test_sink_run(&mrd_sink_chrome, p->cat, 0, &options, v, MRD_COUNT(v), &len);
    collect_bytes(&c, ops, text, len, 0, NULL);
    CHECK_ERR("import", c.err, MRD_OK);
    for (size_t i = 0; i < MRD_COUNT(v); i++)
        check_event(p, &v[i], &c);
    free(text);
    collect_free(&c);
    test_profile_free(p);
}

TEST_MAIN()
