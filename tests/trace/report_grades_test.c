/* Tests the texts of a report at the values where they change, such as from minor to critical, or
 * from one span to several. */
#include <jansson.h>

#include "base/buf.h"
#include "tests/trace/profile.h"
#include "trace/analysis/gather.h"

static char *
text_of(const test_profile *p, const mrd_event *v, size_t n)
{
    mrd_sink_options options = test_sink_options();
    mrd_buf words = { 0 };
    size_t len;
    char *text =
        test_sink_run(mrd_sink_find(MRD_STR("report-text")), p->cat, 0, &options, v, n, &len);

    for (const char *c = text; *c != '\0'; c++) { /* paragraphs are broken into lines */
        if (*c != ' ' && *c != '\n')
            mrd_buf_byte(&words, (uint8_t) *c);
        else if (words.len > 0 && words.p[words.len - 1] != ' ')
            mrd_buf_byte(&words, ' ');
    }
    free(text);
    mrd_buf_byte(&words, 0);
    return (char *) words.p;
}

/* Returns the span of a collective of group `gid`. */
static mrd_event
running(test_profile *p, mrd_track_id track, int64_t gid, int64_t at, int64_t dur, mrd_arg args[2])
{
    args[0] =
        (mrd_arg){ .key = mrd_catalog_intern(p->cat, "gid"), .type = MRD_ARG_INT, .v.i = gid };
    args[1] =
        (mrd_arg){ .key = mrd_catalog_intern(p->cat, "op_id"), .type = MRD_ARG_INT, .v.i = 1 };
    return (mrd_event){ .kind = MRD_SPAN,
                        .track = track,
                        .name = mrd_catalog_intern(p->cat, "cc_running"),
                        .ts = { BASE_NS + at },
                        .dur_ns = dur,
                        .bound_ns = 5,
                        .args = args,
                        .arg_count = 2 };
}

/* Rank 1 is late by a part of the two windows of 10,000,000 ns each, in twelve equal
 * collectives. */
TEST(a_grade_begins_at_its_number)
{
    static const struct {
        int64_t late;
        const char *says;
    } rows[] = { { 1000000, "5.0 % of the workers' time (minor)" },
                 { 1999999, "10.0 % of the workers' time (minor)" },
                 { 2000000, "10.0 % of the workers' time (worth a look)" },
                 { 3999999, "20.0 % of the workers' time (worth a look)" },
                 { 4000000, "20.0 % of the workers' time (critical)" } };
    enum { TIMES = 12 };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        test_profile *p = test_profile_new();
        mrd_arg args[2 * TIMES][2];
        mrd_event v[2 * TIMES + 1];
        char *text;

        for (size_t k = 0; k < TIMES; k++) {
            int64_t at = (int64_t) k * 10000000;

            v[2 * k] = running(p, p->device[0], 1, at, 10000000, args[2 * k]);
            v[2 * k + 1] = running(p, p->device[1], 1, at + rows[i].late, 10000000 - rows[i].late,
                                   args[2 * k + 1]);
        }
        p->n = 0;
        v[2 * TIMES] =
            *profile_add(p, MRD_SPAN, p->device[1], "nc_exec_running", 0, rows[i].late / 2);
        text = text_of(p, v, 2 * TIMES + 1);
        if (strstr(text, rows[i].says) == NULL)
            CHECK_TEXT(text, rows[i].says);
        free(text);
        test_profile_free(p);
    }
}

/* If no rank waited in a collective, the shares of the waiting are 0, not a division by 0. */
TEST(nothing_is_shared_where_nobody_waited)
{
    test_profile *p = test_profile_new();
    mrd_sink_options options = test_sink_options();
    mrd_arg args[2][2];
    mrd_event v[2] = { running(p, p->device[0], 1, 0, 5000, args[0]),
                       running(p, p->device[1], 1, 0, 5000, args[1]) };
    size_t len;
    char *text =
        test_sink_run(mrd_sink_find(MRD_STR("report-json")), p->cat, 0, &options, v, 2, &len);
    json_t *doc = json_loadb(text, len, 0, NULL), *share, *verdict;

    REQUIRE(doc != NULL);
    verdict = json_object_get(json_object_get(doc, "report"), "verdict");
    CHECK_TEXT(json_string_value(json_object_get(verdict, "kind")), "none");
    share = json_object_get(verdict, "share");
    CHECK(json_is_number(share) && json_number_value(share) == 0);
    share = json_object_get(verdict, "impact");
    CHECK(json_is_number(share) && json_number_value(share) == 0);
    json_decref(doc);
    free(text);
    test_profile_free(p);
}

/* The recording has 0, 1 and 2 groups of collectives more than the limit, with one span each. The
 * report states in words how many spans it left out. */
TEST(what_is_left_out_is_counted_in_words)
{
    static const char *const says[] = {
        NULL, " 1 span of collectives was left out, because there are too many groups.",
        " 2 spans of collectives were left out, because there are too many groups."
    };

    for (size_t more = 0; more < MRD_COUNT(says); more++) {
        size_t n = MRD_GATHER_GROUPS + more;
        test_profile *p = test_profile_new();
        mrd_event *v = calloc(n, sizeof(*v));
        mrd_arg(*args)[2] = calloc(n, sizeof(*args));
        char *text;

        REQUIRE(v != NULL && args != NULL);
        for (size_t i = 0; i < n; i++)
            v[i] = running(p, p->device[0], (int64_t) i, (int64_t) i * 100, 50, args[i]);
        text = text_of(p, v, n);
        CHECK((strstr(text, "left out") != NULL) == (more > 0));
        if (says[more] != NULL)
            CHECK(strstr(text, says[more]) != NULL);
        CHECK(strstr(text, "65536 spans of collectives could not be matched") != NULL);
        free(text);
        free(v);
        free(args);
        test_profile_free(p);
    }
}

TEST_MAIN()
