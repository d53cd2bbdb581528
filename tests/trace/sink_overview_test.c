/* Tests the overview, a JSON file with each core's busy time per bucket of time. Overlapping spans
 * count once, and buckets become wider as the recording grows. It also names the rank that was last
 * in collectives. */
#include <jansson.h>

#include "tests/trace/profile.h"

static json_t *
overview(const test_profile *p)
{
    mrd_sink_options options = test_sink_options();
    size_t len;
    char *text = test_sink_run(mrd_sink_find(MRD_STR("overview-json")), p->cat, 0, &options, p->v,
                               p->n, &len);
    json_t *doc = json_loadb(text, len, 0, NULL), *o;

    CHECK(doc != NULL);
    o = json_incref(json_object_get(doc, "overview"));
    CHECK(o != NULL);
    json_decref(doc);
    free(text);
    return o;
}

static int64_t
number(const json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

/* Returns the sum of a core's values in ns. Each value is in thousandths of a bucket's length. */
static int64_t
line_ns(const json_t *o, size_t core, const char *key)
{
    const json_t *line = json_object_get(json_array_get(json_object_get(o, "cores"), core), key);
    int64_t sum = 0;

    for (size_t i = 0; i < json_array_size(line); i++)
        sum += json_integer_value(json_array_get(line, i));
    return sum * (number(o, "bucket_ns") / 1000);
}

static const json_t *
core_of_rank(const json_t *o, int64_t rank)
{
    const json_t *cores = json_object_get(o, "cores");

    for (size_t i = 0; i < json_array_size(cores); i++) {
        if (number(json_array_get(cores, i), "rank") == rank)
            return json_array_get(cores, i);
    }
    return NULL;
}

TEST(the_last_to_come_is_named)
{
    test_profile *p = test_profile_new();
    const json_t *late;
    json_t *o;

    p->n = 0;
    /* Rank 1 is late in two barriers and computes in between. In the third barrier rank 0 is
     * alone. */
    profile_add(p, MRD_SPAN, p->device[0], "cc_exec_barrier", 0, 1000000);
    profile_add(p, MRD_SPAN, p->device[1], "matmul", 0, 900000);
    profile_add(p, MRD_SPAN, p->device[1], "cc_exec_barrier", 900000, 100000);
    profile_add(p, MRD_SPAN, p->device[0], "cc_exec_barrier", 2000000, 1000000);
    profile_add(p, MRD_SPAN, p->device[1], "cc_exec_barrier", 2500000, 500000);
    profile_add(p, MRD_SPAN, p->device[0], "cc_exec_barrier", 4000000, 1000);
    /* The begins differ by too little to call a rank the last one. */
    profile_add(p, MRD_SPAN, p->device[0], "cc_exec_barrier", 6000000, 1000);
    profile_add(p, MRD_SPAN, p->device[1], "cc_exec_barrier", 6000050, 1000);
    o = overview(p);
    CHECK(number(o, "collectives") == 3);
    CHECK(number(o, "without_partner") == 1);
    CHECK(number(core_of_rank(o, 1), "last_count") == 2);
    CHECK(number(core_of_rank(o, 1), "late_ns") == 1400000);
    CHECK(number(core_of_rank(o, 0), "last_count") == 0);
    late =
        json_array_get(json_object_get(o, "lateness"), (size_t) (2500000 / number(o, "bucket_ns")));
    CHECK(number(late, "late_ns") == 500000);
    CHECK(json_array_get(json_object_get(o, "cores"), (size_t) number(late, "core")) ==
          core_of_rank(o, 1));
    json_decref(o);
    test_profile_free(p);
}

/* A much later event makes all buckets wider. The sums of busy time stay the same, except for
 * rounding errors below a thousandth. */
TEST(widening_keeps_the_sums)
{
    for (int64_t far = 1000; far < INT64_C(1000000000000000); far *= 7) {
        test_profile *p = test_profile_new();
        json_t *o;
        int64_t busy, slack;

        p->n = 0;
        profile_add(p, MRD_SPAN, p->device[0], "matmul", 0, 700);
        profile_add(p, MRD_SPAN, p->device[0], "nested", 100, 300);
        profile_add(p, MRD_SPAN, p->device[0], "matmul", far, far);
        o = overview(p);
        busy = line_ns(o, 0, "busy");
        slack = number(o, "bucket_ns");
        CHECK(number(o, "buckets") <= 512 && number(o, "buckets") * slack >= 2 * far);
        CHECK(busy <= 700 + far && busy >= 700 + far - slack);
        CHECK(line_ns(o, 0, "collective") == 0);
        json_decref(o);
        test_profile_free(p);
    }
}

TEST_MAIN()
