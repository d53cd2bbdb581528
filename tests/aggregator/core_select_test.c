/* Tests a session's selection of events and nodes: its JSON in requests and manifests, refused
 * values, and which nodes are selected. */
#include "aggregator/core/common/select.h"
#include "base/buf.h"
#include "base/obj.h"
#include "tests/check.h"

static mrd_err
load(mrd_select *s, const char *text, mrd_why *why)
{
    mrd_json *o = NULL;
    mrd_err err;

    CHECK_ERR(text, mrd_json_parse(mrd_str_of(text), "select", &o, NULL), MRD_OK);
    err = mrd_select_from_json(s, o, why);
    mrd_json_free(o);
    return err;
}

TEST(a_selection_comes_back_as_it_was)
{
    static const char text[] =
        "{\"instance_id\":[\"i-1\",\"i-2\"],\"job\":[\"7\"],\"rank\":[\"0\",\"-1\"],\"process_id\":"
        "[\"9\"],\"uid\":[\"5\"],\"namespace\":[\"\"],\"cluster\":[\"c\"],\"restart\":[\"1\"],"
        "\"core\":[\"0-3\"],\"event_type\":[\"^x\"],\"source\":[\"host\"]}";
    mrd_select s = { 0 }, copy = { 0 };
    mrd_buf got = { 0 };
    mrd_json *o;

    CHECK_ERR("load", load(&s, text, NULL), MRD_OK);
    CHECK_ERR("copy", mrd_select_copy(&copy, &s), MRD_OK);
    mrd_select_fini(&s);
    CHECK(copy.instances.n == 2 && copy.ranks.n == 2 && copy.types.n == 1);
    o = mrd_select_json(&copy);
    CHECK_INT(mrd_json_size(o), mrd_select_rows);
    CHECK_TEXT(mrd_json_str(o, "job", "a list"), "a list");
    mrd_json_write(o, false, &got);
    CHECK(strstr(mrd_buf_cstr(&got), "\"instance_id\":[\"i-1\",\"i-2\"]") != NULL);
    CHECK(strstr(mrd_buf_cstr(&got), "\"rank\":[\"0\",\"-1\"]") != NULL);
    CHECK(strstr(mrd_buf_cstr(&got), "\"source\":[\"host\"]") != NULL);
    mrd_json_free(o);
    mrd_select_fini(&copy);
    mrd_buf_fini(&got);
    o = mrd_select_json(&s); /* of nothing: everything */
    CHECK_INT(mrd_json_size(o), 0);
    mrd_json_free(o);
}

TEST(what_a_selection_may_hold)
{
    static const struct {
        const char *text;
        mrd_err err;
    } rows[] = {
        { "{}", MRD_OK },
        { "{\"rank\":[0,1,\"2\"]}", MRD_OK },
        { "{\"unknown\":7}", MRD_OK },
        { "[]", MRD_TYPE },
        { "{\"rank\":0}", MRD_TYPE },
        { "{\"rank\":{}}", MRD_TYPE },
        { "{\"rank\":null}", MRD_TYPE },
        { "{\"rank\":[true]}", MRD_TYPE },
        { "{\"rank\":[1.5]}", MRD_TYPE },
        { "{\"rank\":[null]}", MRD_TYPE },
        { "{\"rank\":[[]]}", MRD_TYPE },
        { "{\"rank\":[0,\"\"]}", MRD_TYPE },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_select s = { 0 };
        mrd_why why = { 0 };

        CHECK_ERR(rows[i].text, load(&s, rows[i].text, &why), rows[i].err);
        CHECK_ROW(rows[i].text, rows[i].err == MRD_OK || strstr(why.text, "select") != NULL);
        CHECK_ROW(rows[i].text, i < 4 || strstr(why.text, "select.rank must be a list") != NULL);
        mrd_select_fini(&s);
    }
}

/* Loads {"job": ["xxx...", 0, 1, ...]} with a text of `bytes` bytes and `numbers` numbers. */
static mrd_err
load_long(size_t bytes, size_t numbers, size_t *ret_n)
{
    mrd_buf text = { 0 };
    mrd_select s = { 0 };
    mrd_err err;

    mrd_buf_text(&text, "{\"job\":[\"");
    for (size_t i = 0; i < bytes; i++)
        mrd_buf_text(&text, "x");
    mrd_buf_text(&text, "\"");
    for (size_t i = 0; i < numbers; i++)
        mrd_buf_fmt(&text, ",%zu", i);
    mrd_buf_text(&text, "]}");
    err = load(&s, mrd_buf_cstr(&text), NULL);
    *ret_n = s.jobs.n;
    mrd_select_fini(&s);
    mrd_buf_fini(&text);
    return err;
}

TEST(words_and_lists_are_bounded)
{
    size_t n;

    CHECK_ERR("255 bytes", load_long(255, 0, &n), MRD_OK);
    CHECK_INT(n, 1);
    CHECK_ERR("256 bytes", load_long(256, 0, &n), MRD_TYPE);
    CHECK_ERR("4096 words", load_long(1, 4095, &n), MRD_OK);
    CHECK_INT(n, 4096);
    CHECK_ERR("4097 words", load_long(1, 4096, &n), MRD_TYPE);
}

TEST(whom_a_selection_means)
{
    static const struct {
        const char *text;
        bool here, there, partial;
    } rows[] = {
        { "{}", true, true, false },
        { "{\"instance_id\":[\"here\"]}", true, false, false },
        { "{\"instance_id\":[\"other\",\"here\"]}", true, false, false },
        { "{\"job\":[\"7\"]}", true, true, true },
        { "{\"rank\":[\"7\"]}", true, true, true },
        { "{\"process_id\":[\"7\"]}", true, true, true },
        { "{\"uid\":[\"7\"]}", true, true, true },
        { "{\"core\":[\"7\"],\"event_type\":[\"t\"],\"source\":[\"host\"]}", true, true, false },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_select s = { 0 };

        CHECK_ERR(rows[i].text, load(&s, rows[i].text, NULL), MRD_OK);
        CHECK_ROW(rows[i].text, mrd_select_matches(&s, "here") == rows[i].here);
        CHECK_ROW(rows[i].text, mrd_select_matches(&s, "there") == rows[i].there);
        CHECK_ROW(rows[i].text, mrd_select_is_partial(&s) == rows[i].partial);
        mrd_select_fini(&s);
    }
}

TEST_MAIN()
