#include "trace/json/json_write.h"

#include <jansson.h>
#include <math.h>

#include "base/num.h"
#include "tests/check.h"
#include "tests/trace/events.h"
#include "trace/json/spool.h"

static bool
collect(void *self, const void *data, size_t len)
{
    mrd_buf_add(self, data, len);
    return true;
}

typedef struct {
    mrd_buf text;
    mrd_out *out;
    mrd_jw w;
} writing;

static void
begin(writing *x, const mrd_strtab *strings)
{
    *x = (writing){ 0 };
    CHECK_ERR("open", mrd_out_func(collect, &x->text, "memory", &x->out, NULL), MRD_OK);
    mrd_jw_init(&x->w, x->out, strings, false);
}

static const char *
finish(writing *x)
{
    mrd_jw_fini(&x->w);
    CHECK_ERR("commit", mrd_out_commit(x->out, NULL), MRD_OK);
    return mrd_buf_cstr(&x->text);
}

static void
double_text(double v, char text[64])
{
    writing x;

    begin(&x, NULL);
    mrd_jw_double(&x.w, v);
    snprintf(text, 64, "%s", finish(&x));
    mrd_buf_fini(&x.text);
}

TEST(doubles_read_back_as_the_same_double)
{
    static const double fixed[] = {
        0.0,     -0.0,   0.1, 9.728179797845964, 2.3255813,
        1e300,   5e-324, 1.0, 123456789.5,       9007199254740993.0,
        1e15,    1e16,   0.3, -1.5e-7,           2.2250738585072014e-308,
        1.0 / 3, 1e-9,   1e9, 4294967296.25,     1.7976931348623157e308
    };
    uint64_t seed = 42;

    for (size_t i = 0; i < 200000; i++) {
        double v, back;
        uint64_t bits = test_rand(&seed);
        char text[64];

        if (i < MRD_COUNT(fixed))
            v = fixed[i];
        else if (i & 1)
            v = (double) (bits % 1000000000) / (double) ((bits >> 40) % 1000 + 1);
        else
            memcpy(&v, &bits, 8);
        if (!isfinite(v))
            continue;
        double_text(v, text);
        if (mrd_num_double(mrd_str_of(text), &back) != MRD_OK || memcmp(&back, &v, 8) != 0) {
            fprintf(stderr, "%.17g became %s\n", v, text);
            CHECK(false);
        }
        CHECK(strpbrk(text, ".e") != NULL); /* remains a double when it is read */
    }
}

TEST(doubles_are_short)
{
    static const struct {
        double v;
        const char *text;
    } rows[] = { { 0.1, "0.1" },
                 { 3, "3.0" },
                 { -0.0, "-0.0" },
                 { 9.728179797845964, "9.728179797845964" },
                 { 1e22, "1e+22" },
                 { 0.000001, "0.000001" },
                 { 2.3255813, "2.3255813" },
                 { NAN, "\"NaN\"" },
                 { -INFINITY, "\"-Infinity\"" } };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        char text[64];

        double_text(rows[i].v, text);
        CHECK_TEXT(text, rows[i].text);
    }
}

static const struct {
    const char *text;
    bool valid;
} checks[] = {
    { "1", true },
    { "-0.5e+3", true },
    { "\"a\\u00e9\\n\"", true },
    { "[]", true },
    { "{}", true },
    { " [1, {\"a\":[null,true]}] ", true },
    { "", false },
    { "01", false },
    { "1.", false },
    { "-", false },
    { "[1,]", false },
    { "{\"a\"}", false },
    { "{\"a\":1,}", false },
    { "[1}", false },
    { "nul", false },
    { "NaN", false },
    { "\"\\x\"", false },
    { "\"\\ud800\"", false },
    { "\"\\ud83d\\ude80\"", true },
    { "\"\xff\"", false },
    { "\"a\nb\"", false },
    { "1 2", false },
    { "[", false },
    { "\"", false },
    { "{1:2}", false },
    { "1e", false },
    { "+1", false },
    { "[[[[[]]]]]", true },
    { ",", false },
    { "{\"a\":1 \"b\":2}", false },
};

TEST(validity_agrees_with_jansson)
{
    uint64_t seed = 7;

    for (size_t i = 0; i < MRD_COUNT(checks); i++) {
        json_t *doc = json_loads(checks[i].text, JSON_DECODE_ANY, NULL);

        CHECK_ROW(checks[i].text, (doc != NULL) == checks[i].valid);
        CHECK_ROW(checks[i].text, mrd_json_valid(mrd_str_of(checks[i].text)) == checks[i].valid);
        json_decref(doc);
    }
    /* Damages the document at random. Both programs must accept it or both refuse it. */
    for (int i = 0; i < 100000; i++) {
        char text[] =
            "{\"a\": [1, -2.5e3, \"x\\u00e9\\\\\", null], \"b\": {\"c\": true}, \"d\": 0}";
        json_t *doc;

        for (uint64_t n = test_rand(&seed) % 3; n > 0; n--)
            text[test_rand(&seed) % (sizeof(text) - 1)] =
                "{}[]:,\"\\ 0e-.tu\x01\xc3"[test_rand(&seed) % 17];
        doc = json_loadb(text, sizeof(text) - 1, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        if ((doc != NULL) != mrd_json_valid((mrd_str){ text, sizeof(text) - 1 })) {
            fprintf(stderr, "jansson %s: %s\n", doc != NULL ? "takes" : "refuses", text);
            CHECK(false);
        }
        json_decref(doc);
    }
}

TEST(strings_are_always_json)
{
    mrd_strtab *strings = mrd_strtab_new(0);
    uint64_t seed = 3;

    for (int i = 0; i < 2000; i++) {
        char raw[5000];
        size_t len = test_rand(&seed) % (i % 50 == 0 ? sizeof(raw) : 40);
        writing x;

        for (size_t k = 0; k < len; k++)
            raw[k] = (char) (test_rand(&seed) >> (i & 1 ? 8 : 7));
        begin(&x, strings);
        mrd_jw_open(&x.w, '[');
        mrd_jw_str(&x.w, (mrd_str){ raw, len });
        mrd_jw_sid(&x.w, mrd_strtab_add(strings, (mrd_str){ raw, len }));
        mrd_jw_arg(&x.w, &(mrd_arg){ .type = MRD_ARG_JSON, .v.text = raw, .len = len & 0xffff });
        mrd_jw_close(&x.w, ']');
        finish(&x);
        CHECK(mrd_json_valid((mrd_str){ (const char *) x.text.p, x.text.len }));
        mrd_buf_fini(&x.text);
    }
    mrd_strtab_free(strings);
}

/* A spool keeps data in memory and, if this is exceeded, in a file. All data is returned
 * unchanged. */
TEST(a_spool_gives_back_what_it_took)
{
    enum { ELEMENTS = 400000 };
    mrd_jw_spool s = { 0 };
    writing x;
    const char *text;

    for (uint64_t i = 0; i < ELEMENTS; i++) {
        mrd_jw *w = mrd_jw_spool_writer(&s, NULL, false, 2);

        REQUIRE(w != NULL);
        mrd_jw_u64(w, i * 1000000);
    }
    CHECK(s.file_bytes > 0);
    begin(&x, NULL);
    mrd_jw_open(&x.w, '{');
    mrd_jw_key(&x.w, MRD_STR("a"));
    mrd_jw_open(&x.w, '[');
    CHECK_ERR("drain", mrd_jw_spool_drain(&s, &x.w, NULL), MRD_OK);
    mrd_jw_close(&x.w, ']');
    mrd_jw_close(&x.w, '}');
    text = finish(&x);
    CHECK(mrd_json_valid(mrd_str_of(text)));
    text = strchr(text, '[') + 1;
    for (uint64_t i = 0; i < ELEMENTS; i++) {
        char want[40];
        int n = snprintf(want, sizeof(want), "%s\n%" PRIu64, i == 0 ? "" : ",", i * 1000000);

        REQUIRE(strncmp(text, want, (size_t) n) == 0);
        text += n;
    }
    mrd_buf_fini(&x.text);
}

TEST_MAIN()
