#include "tests/check.h"

#include <jansson.h>

#include "base/buf.h"
#include "trace/json/json_read.h"

/* A document in a memory block of exactly its size, so that reading beyond its end is detected. It
 * is read in chunks of at most `chunk` bytes. */
typedef struct {
    mrd_in *in;
    mrd_json_reader *r;
} doc;

static doc
doc_open(const char *text, size_t len, size_t chunk)
{
    doc d = { 0 };

    CHECK_ERR("open",
              mrd_in_memory((mrd_bytes){ (const uint8_t *) text, len }, "x.json", &d.in, NULL),
              MRD_OK);
    if (chunk != 0)
        mrd_in_set_chunk(d.in, chunk);
    CHECK_ERR("open", mrd_json_reader_open(d.in, &d.r, NULL), MRD_OK);
    return d;
}

static void
doc_close(doc *d)
{
    mrd_json_reader_close(d->r);
    mrd_in_close(d->in);
}

/* Builds a value of the jansson library from the output of Meridian's reader. Returns NULL after an
 * error. */
static json_t *build(mrd_json_reader *r, mrd_jr_type type, mrd_str text);

static json_t *
build_container(mrd_json_reader *r, bool object)
{
    json_t *c = object ? json_object() : json_array();

    mrd_json_enter(r);
    for (;;) {
        mrd_str key, text;
        mrd_jr_type type = mrd_json_next(r, &key, &text);
        char name[65536];
        json_t *v;

        if (type == MRD_JR_END)
            return c;
        snprintf(name, sizeof(name), "%.*s", (int) key.len, key.p);
        v = type == MRD_JR_ERROR ? NULL : build(r, type, text);
        if (v == NULL) {
            json_decref(c);
            return NULL;
        }
        if (object)
            json_object_set_new(c, name, v);
        else
            json_array_append_new(c, v);
    }
}

static json_t *
build(mrd_json_reader *r, mrd_jr_type type, mrd_str text)
{
    switch (type) {
    case MRD_JR_OBJECT:
    case MRD_JR_ARRAY:
        return build_container(r, type == MRD_JR_OBJECT);
    case MRD_JR_STRING:
        return json_stringn(text.p, text.len);
    case MRD_JR_NUMBER:
        return json_loadb(text.p, text.len, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, NULL);
    case MRD_JR_TRUE:
        return json_true();
    case MRD_JR_FALSE:
        return json_false();
    case MRD_JR_WORD:
    case MRD_JR_NULL:
        return json_null();
    default:
        return NULL;
    }
}

static json_t *
build_document(const char *text, size_t len, size_t chunk, mrd_err *ret_err, uint64_t *ret_lenient)
{
    doc d = doc_open(text, len, chunk);
    mrd_str t;
    mrd_jr_type type = mrd_json_next(d.r, NULL, &t);
    json_t *v = type == MRD_JR_ERROR ? NULL : build(d.r, type, t);

    if (v != NULL && mrd_json_next(d.r, NULL, NULL) != MRD_JR_END) {
        json_decref(v);
        v = NULL;
    }
    *ret_err = mrd_json_reader_err(d.r, NULL);
    *ret_lenient = mrd_json_reader_lenient(d.r) + mrd_json_reader_replaced(d.r);
    doc_close(&d);
    return v;
}

/* Skips the document without reading its values. The returned error must be the same as when the document is read. */
static mrd_err
skip_document(const char *text, size_t len, size_t chunk)
{
    doc d = doc_open(text, len, chunk);
    mrd_err err;

    while (mrd_json_next(d.r, NULL, NULL) > MRD_JR_END)
        ;
    err = mrd_json_reader_err(d.r, NULL);
    doc_close(&d);
    return err;
}

/* Returns true if Meridian's reader and jansson read the same value or both fail. The result must
 * not depend on the size of the chunks in which the document is read. */
static bool
agree(const char *text, size_t len)
{
    static const size_t chunks[] = { 0, 1, 3, 16 };
    char *exact = malloc(len + !len);
    json_error_t why;
    json_t *want;
    bool ok = true, comparable = true;

    memcpy(exact, text, len);
    want = json_loadb(exact, len, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, &why);
    if (want == NULL && (json_error_code(&why) == json_error_numeric_overflow ||
                         json_error_code(&why) == json_error_null_byte_in_key))
        comparable = false; /* what jansson cannot hold */
    for (size_t i = 0; i < MRD_COUNT(chunks) && comparable; i++) {
        mrd_err err;
        uint64_t lenient;
        json_t *got = build_document(exact, len, chunks[i], &err, &lenient);

        ok = ok && err == skip_document(exact, len, chunks[i]);
        if (err == MRD_DEPTH || (lenient > 0 && want == NULL))
            ok = ok && true;
        else
            ok = ok && (got != NULL) == (want != NULL) && (got != NULL) == (err == MRD_OK) &&
                 (got == NULL || json_equal(got, want));
        if (!ok) {
            fprintf(stderr, "chunk %zu: ours %s, jansson %s: %.*s\n", chunks[i], mrd_err_name(err),
                    want == NULL ? why.text : "accepts", (int) len, exact);
            json_decref(got);
            break;
        }
        json_decref(got);
    }
    json_decref(want);
    free(exact);
    return ok;
}

static const char *const samples[] = {
    "{}",
    "[]",
    " [ ] ",
    "0",
    "-0.5e+10",
    "\"\"",
    "true",
    "null",
    "[1,2.5,-3e-2,1E5,0.0,18446744073709551615,-9223372036854775808]",
    "{\"a\":{\"b\":[{},[],\"x\"]},\"c\":null}",
    "[\"\\u0041\\n\\\"\\\\\\/\\b\\f\\r\\t\\ud83d\\ude00\\u00e9\\u20ac\\u0000\"]",
    "[\"gr\xc3\xbc\xc3\x9f\x65 \xe2\x82\xac \xf0\x9f\x98\x80 and some text longer than a vector\"]",
    "{\"k\xc3\xa9y with \\u00e9scape that is longer than sixteen\":[true,false]}",
    ("\n{\n    \"ph\": \"X\",\n    \"args\": {\n\t\t\"External id\": 7\r\n    }\n                  "
     " "
     "   }\n"),
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]",
};

TEST(samples_agree_with_jansson)
{
    for (size_t i = 0; i < MRD_COUNT(samples); i++)
        CHECK_ROW(samples[i], agree(samples[i], strlen(samples[i])));
}

static uint64_t
rnd(uint64_t *seed, uint64_t n)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (*seed >> 33) % n;
}

TEST(mutations_agree_with_jansson)
{
    /* The bytes of random documents. The zero byte is left out, because jansson treats it as the
     * end of the document. */
    static const char alphabet[] = "{}[]\",:\\u0123456789abcdefE+-.tnrflse \n\x01\x80\xc3\xed\xff";
    uint64_t seed = 20260301;

    for (int round = 0; round < 8000; round++) {
        const char *from = samples[rnd(&seed, MRD_COUNT(samples))];
        char text[256];
        size_t len = strlen(from), edits = 1 + rnd(&seed, 3);

        memcpy(text, from, len);
        for (size_t e = 0; e < edits; e++) {
            size_t at = len == 0 ? 0 : rnd(&seed, len);
            char c = alphabet[rnd(&seed, sizeof(alphabet) - 1)];

            if (rnd(&seed, 3) == 0 && len > 0) {
                memmove(text + at, text + at + 1, len - at - 1);
                len--;
            } else if (rnd(&seed, 2) == 0 && len < sizeof(text)) {
                memmove(text + at + 1, text + at, len - at);
                text[at] = c;
                len++;
            } else if (len > 0) {
                text[at] = c;
            }
        }
        if (!agree(text, len)) {
            test_check(false, __FILE__, __LINE__, "mutation", "agrees");
            return;
        }
    }
}

/* Appends a random valid document. */
static void
generate(mrd_buf *to, uint64_t *seed, unsigned depth)
{
    static const char *const scalars[] = {
        "1712195495406752.8", "\"a b\\tc\"", "true", "-1e-7", "null", "\"\\u00fc\xc3\xbc\"", "0",
        "12345678901234567"
    };
    size_t n = rnd(seed, 6);
    bool object = rnd(seed, 2) == 0;

    if (depth == 0 || rnd(seed, 3) == 0) {
        mrd_buf_text(to, scalars[rnd(seed, MRD_COUNT(scalars))]);
        return;
    }
    mrd_buf_text(to, object ? "{ " : "[\n");
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            mrd_buf_text(to, rnd(seed, 2) == 0 ? "," : " ,\r\n                    ");
        if (object)
            mrd_buf_fmt(to, "\"key%zu %.*s\" : ", i, (int) rnd(seed, 40),
                        "........................................");
        generate(to, seed, depth - 1);
    }
    mrd_buf_text(to, object ? "}" : "\t]");
}

TEST(random_documents_agree_with_jansson)
{
    uint64_t seed = 7;

    for (int round = 0; round < 3000; round++) {
        mrd_buf text = { 0 };

        generate(&text, &seed, 6);
        if (!agree((const char *) text.p, text.len)) {
            test_check(false, __FILE__, __LINE__, "random document", "agrees");
            return;
        }
        mrd_buf_fini(&text);
    }
}

/* Documents with damage inside strings, the text that must be read, and the number of characters
 * that are replaced by U+FFFD. */
static const struct {
    const char *name, *text;
    size_t len; /* 0: strlen */
    const char *want;
    uint64_t replaced;
} damaged[] = {
#define R "\xef\xbf\xbd"
    { "a byte that begins nothing",
      "[\"ab\xff"
      "c\"]",
      0, "ab" R "c", 1 },
    { "two of them", "[\"\xff\x80\"]", 0, R R, 2 },
    { "a character cut short",
      "[\"\xe6\xbc"
      "x\"]",
      0, R "x", 1 },
    { "cut short by the quote", "[\"a\\nb\xc3\"]", 0, "a\nb" R, 1 },
    { "overlong", "[\"\xc0\xaf\"]", 0, R R, 2 },
    { "a surrogate in bytes", "[\"\xed\xa0\x80\"]", 0, R R R, 3 },
    { "beyond Unicode", "[\"\xf4\x90\x80\x80\"]", 0, R R R R, 4 },
    { "cut behind three of four", "[\"\xf0\x9f\x9a\xc3\xa9\"]", 0, R "\xc3\xa9", 1 },
    { "the low half alone", "[\"\\udc00x\"]", 0, R "x", 1 },
    { "the high half alone", "[\"\\ud83dx\"]", 0, R "x", 1 },
    { "the high half twice", "[\"\\ud83d\\ud83d\\ude80\"]", 0, R "\xf0\x9f\x9a\x80", 1 },
    { "the high half before an escape", "[\"\\ud83d\\n\"]", 0, R "\n", 1 },
    { "two digits", "[\"\\u12\"]", 0, R, 1 },
    { "no digits", "[\"\\uzz\"]", 0, R "zz", 1 },
    { "unknown escape", "[\"\\x41\"]", 0, "\\x41", 1 },
    { "newline in string", "[\"a\nb\"]", 0, "a\nb", 1 },
    { "zero byte in string", "[\"a\0b\"]", 7, "a" R "b", 1 },
    { "byte order mark", "\xef\xbb\xbf[\"a\"]", 0, "a", 0 },
#undef R
};

TEST(damage_in_a_string_costs_that_place)
{
    static const size_t chunks[] = { 0, 1, 3, 16 };

    for (size_t i = 0; i < MRD_COUNT(damaged); i++) {
        size_t len = damaged[i].len > 0 ? damaged[i].len : strlen(damaged[i].text);

        for (size_t k = 0; k < MRD_COUNT(chunks); k++) {
            doc d = doc_open(damaged[i].text, len, chunks[k]);
            mrd_str text = { "", 0 };

            CHECK_ROW(damaged[i].name, mrd_json_next(d.r, NULL, NULL) == MRD_JR_ARRAY);
            mrd_json_enter(d.r);
            CHECK_ROW(damaged[i].name, mrd_json_next(d.r, NULL, &text) == MRD_JR_STRING);
            CHECK_ROW(damaged[i].name, mrd_str_is(text, damaged[i].want));
            CHECK_ROW(damaged[i].name, mrd_json_next(d.r, NULL, NULL) == MRD_JR_END);
            CHECK_ROW(damaged[i].name, mrd_json_next(d.r, NULL, NULL) == MRD_JR_END);
            CHECK_ROW(damaged[i].name, mrd_json_reader_replaced(d.r) == damaged[i].replaced);
            doc_close(&d);
        }
    }
}

/* The reader can return an object or array as text instead of entering it. This text is valid JSON,
 * with the same replaced characters as if the container were entered. */
TEST(damaged_containers_are_kept_as_json)
{
    static const struct {
        const char *text, *want;
    } rows[] = {
        { "{\"a\":[\"\xff\",1,]}", "[\"\xef\xbf\xbd\",1]" },
        { "{\"a\":[\"\\ud83d\",NaN,-Infinity]}", "[\"\\ufffd\",\"NaN\",\"-Infinity\"]" },
        { "{\"a\":{\"k\":\"\\ud83d\\ude80\\x\tz\\u12\"}}",
          "{\"k\":\"\\ud83d\\ude80\\\\x\\u0009z\\ufffd\"}" },
        { "{\"a\":[\"NaN\",\",]\"]}", "[\"NaN\",\",]\"]" },
        { "{\"a\":[ ,N/A,,01 ,-1.5e+3,0, true,nul,, ]}",
          "[ \"N/A\",\"01\" ,-1.5e+3,0, true,\"nul\" ]" },
        { "{\"a\":{\"k\":[{\"n\":-0,},{}, , ,],}}", "{\"k\":[{\"n\":-0},{}  ]}" },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        for (size_t chunk = 0; chunk < 3; chunk++) {
            doc d = doc_open(rows[i].text, strlen(rows[i].text), chunk);
            mrd_str text = { "", 0 };

            mrd_json_next(d.r, NULL, NULL);
            mrd_json_enter(d.r);
            mrd_json_next(d.r, NULL, NULL);
            CHECK_ERR(rows[i].text, mrd_json_raw(d.r, 1000, &text), MRD_OK);
            CHECK_ROW(rows[i].text, mrd_str_is(text, rows[i].want));
            doc_close(&d);
        }
    }
}

static const struct {
    const char *name, *text;
    size_t len; /* 0: strlen */
    mrd_err err;
    const char *why;
} bad[] = {
    { "zero bytes", "", 0, MRD_EMPTY, "'x.json': byte 0: the input holds no JSON value" },
    { "blanks only", " \n", 0, MRD_EMPTY, "'x.json': byte 2: the input holds no JSON value" },
    { "zero byte", "[1,\0]", 5, MRD_SYNTAX,
      "'x.json': byte 3: byte 0x00 where a value is expected" },
    { "cut in string", "[\"abc", 0, MRD_TRUNCATED,
      "'x.json': byte 5: the input ends inside a string" },
    { "cut in number", "[-", 0, MRD_TRUNCATED, "'x.json': byte 2: the input ends inside a number" },
    { "cut in word", "[tru", 0, MRD_TRUNCATED, "'x.json': byte 4: the input ends inside a word" },
    { "cut in array", "[1", 0, MRD_TRUNCATED,
      "'x.json': byte 2: the input ends where ',' or ']' is expected" },
    { "cut in object", "{\"a\":1,", 0, MRD_TRUNCATED,
      "'x.json': byte 7: the input ends where a key in quotes is expected" },
    { "cut behind colon", "{\"a\":", 0, MRD_TRUNCATED,
      "'x.json': byte 5: the input ends where a value is expected" },
    { "single quotes", "{'a':1}", 0, MRD_SYNTAX,
      "'x.json': byte 1: ''' where a key in quotes is expected" },
    { "colon", "[:1]", 0, MRD_SYNTAX, "'x.json': byte 1: ':' where a value is expected" },
    { "word and quote", "[1.\"2\"]", 0, MRD_SYNTAX,
      "'x.json': byte 3: '\"' where ',' or ']' is expected" },
    { "two words", "[N A]", 0, MRD_SYNTAX, "'x.json': byte 3: 'A' where ',' or ']' is expected" },
    { "two commas in object", "{\"a\":1,,}", 0, MRD_SYNTAX,
      "'x.json': byte 7: ',' where a key in quotes is expected" },
    { "crossed", "[1}", 0, MRD_SYNTAX, "'x.json': byte 2: '}' where ',' or ']' is expected" },
    { "text behind", "{} x", 0, MRD_SYNTAX,
      "'x.json': byte 3: 'x' where the end of the document is expected" },
};

TEST(errors_name_offset_and_reason)
{
    static const size_t chunks[] = { 0, 1, 2 };

    for (size_t i = 0; i < MRD_COUNT(bad); i++) {
        size_t len = bad[i].len == 0 ? strlen(bad[i].text) : bad[i].len;

        for (size_t k = 0; k < MRD_COUNT(chunks); k++) {
            doc d = doc_open(bad[i].text, len, chunks[k]);
            mrd_why why = { 0 };

            while (mrd_json_next(d.r, NULL, NULL) > MRD_JR_END)
                ;
            CHECK_ERR(bad[i].name, mrd_json_reader_err(d.r, &why), bad[i].err);
            CHECK_TEXT(why.text, bad[i].why);
            CHECK_ROW(bad[i].name, mrd_json_next(d.r, NULL, NULL) == MRD_JR_ERROR);
            doc_close(&d);
        }
    }
}

TEST(a_cut_at_every_byte_is_truncated)
{
    const char *text = "{\"a\":[1.5,true,\"x\\u00e9\xc3\xa9\",null],\"b\":{\"c\":-1e5}}";

    for (size_t cut = 1; cut < strlen(text); cut++) {
        for (size_t chunk = 0; chunk < 4; chunk++)
            CHECK_ERR("cut", skip_document(text, cut, chunk), MRD_TRUNCATED);
    }
}

TEST(depth_is_limited)
{
    char text[2 * MRD_JR_DEPTH + 2];

    memset(text, '[', MRD_JR_DEPTH);
    memset(text + MRD_JR_DEPTH, ']', MRD_JR_DEPTH);
    CHECK_ERR("deepest", skip_document(text, 2 * MRD_JR_DEPTH, 0), MRD_OK);
    memset(text, '[', MRD_JR_DEPTH + 1);
    memset(text + MRD_JR_DEPTH + 1, ']', MRD_JR_DEPTH + 1);
    CHECK_ERR("deeper", skip_document(text, sizeof(text), 0), MRD_DEPTH);
}

TEST(strings_and_numbers_of_any_length_up_to_the_limit)
{
    static const size_t sizes[] = { MRD_IN_WINDOW - 2, MRD_IN_WINDOW,     MRD_IN_WINDOW + 1,
                                    3 * MRD_IN_WINDOW, MRD_JR_STRING_MAX, MRD_JR_STRING_MAX + 1 };

    for (size_t i = 0; i < MRD_COUNT(sizes); i++) {
        size_t len = sizes[i];
        char *text = malloc(len + 4);
        mrd_str got;
        doc d;

        memset(text, 'z', len + 4);
        text[0] = '[';
        text[1] = '"';
        text[len + 2] = '"';
        text[len + 3] = ']';
        d = doc_open(text, len + 4, 0);
        CHECK_INT(mrd_json_next(d.r, NULL, NULL), MRD_JR_ARRAY);
        mrd_json_enter(d.r);
        if (len <= MRD_JR_STRING_MAX) {
            CHECK_INT(mrd_json_next(d.r, NULL, &got), MRD_JR_STRING);
            CHECK_INT(got.len, len);
            CHECK(memcmp(got.p, text + 2, len) == 0);
            CHECK_INT(mrd_json_next(d.r, NULL, NULL), MRD_JR_END);
        } else {
            CHECK_INT(mrd_json_next(d.r, NULL, &got), MRD_JR_ERROR);
            CHECK_ERR("string", mrd_json_reader_err(d.r, NULL), MRD_LIMIT);
        }
        doc_close(&d);
        free(text);
    }
    for (size_t len = MRD_JR_NUMBER_MAX - 1; len <= MRD_JR_NUMBER_MAX + 1; len++) {
        char *text = malloc(len);

        memset(text, '7', len);
        for (size_t chunk = 0; chunk < 3; chunk++)
            CHECK_ERR("number", skip_document(text, len, chunk * 100),
                      len <= MRD_JR_NUMBER_MAX ? MRD_OK : MRD_LIMIT);
        free(text);
    }
}

TEST(key_and_text_live_together_across_the_window)
{
    const char *text = "{\"a key of some length\":\"and a text of some length\",\"n\":123456789}";

    for (size_t chunk = 1; chunk < 60; chunk++) {
        doc d = doc_open(text, strlen(text), chunk);
        mrd_str key, value;

        CHECK_INT(mrd_json_next(d.r, NULL, NULL), MRD_JR_OBJECT);
        mrd_json_enter(d.r);
        CHECK_INT(mrd_json_next(d.r, &key, &value), MRD_JR_STRING);
        CHECK(mrd_str_is(key, "a key of some length"));
        CHECK(mrd_str_is(value, "and a text of some length"));
        CHECK_INT(mrd_json_reader_offset(d.r), 24);
        CHECK_INT(mrd_json_next(d.r, &key, &value), MRD_JR_NUMBER);
        CHECK(mrd_str_is(key, "n"));
        CHECK(mrd_str_is(value, "123456789"));
        CHECK_INT(mrd_json_next(d.r, &key, &value), MRD_JR_END);
        CHECK_INT(mrd_json_next(d.r, &key, &value), MRD_JR_END);
        doc_close(&d);
    }
}

TEST(raw_gives_the_text_and_goes_on)
{
    const char *text = "[{ \"a\" : [1, \"\\u0041\"] },[],7]";

    for (size_t chunk = 0; chunk < 20; chunk++) {
        doc d = doc_open(text, strlen(text), chunk);
        mrd_str raw;

        CHECK_INT(mrd_json_next(d.r, NULL, NULL), MRD_JR_ARRAY);
        mrd_json_enter(d.r);
        CHECK_INT(mrd_json_next(d.r, NULL, NULL), MRD_JR_OBJECT);
        CHECK_ERR("raw", mrd_json_raw(d.r, 100, &raw), MRD_OK);
        CHECK(mrd_str_is(raw, "{ \"a\" : [1, \"\\u0041\"] }"));
        CHECK_INT(mrd_json_next(d.r, NULL, NULL), MRD_JR_ARRAY);
        CHECK_ERR("raw", mrd_json_raw(d.r, 2, &raw), MRD_OK);
        CHECK(mrd_str_is(raw, "[]"));
        CHECK_INT(mrd_json_next(d.r, NULL, &raw), MRD_JR_NUMBER);
        CHECK(mrd_str_is(raw, "7"));
        doc_close(&d);
        d = doc_open(text, strlen(text), chunk);
        mrd_json_next(d.r, NULL, NULL);
        mrd_json_enter(d.r);
        mrd_json_next(d.r, NULL, NULL);
        CHECK_ERR("too long", mrd_json_raw(d.r, 10, &raw), MRD_LIMIT);
        CHECK_INT(mrd_json_next(d.r, NULL, NULL), MRD_JR_ARRAY);
        doc_close(&d);
    }
}

TEST(words_and_extra_commas_cost_nothing)
{
    static const struct {
        const char *text, *words[4];
        uint64_t lenient;
    } rows[] = {
        { "[N/A,-inf,0x262ca50,nan]", { "N/A", "-inf", "0x262ca50", "nan" }, 4 },
        { "[1.,01,+5,.5]", { "1.", "01", "+5", ".5" }, 4 },
        { "[1-2, 1.2.3 ,12ab\n,-]", { "1-2", "1.2.3", "12ab", "-" }, 4 },
        { "[tru, nulls,TRUE,None]", { "tru", "nulls", "TRUE", "None" }, 4 },
        { "[ ,a,,b,c , ,\n,d,]", { "a", "b", "c", "d" }, 9 },
        { "[,,]", { NULL }, 2 },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        for (size_t chunk = 0; chunk < 12; chunk++) {
            doc d = doc_open(rows[i].text, strlen(rows[i].text), chunk);
            mrd_str text;

            mrd_json_next(d.r, NULL, NULL);
            mrd_json_enter(d.r);
            for (size_t k = 0; k < 4 && rows[i].words[k] != NULL; k++) {
                CHECK_INT(mrd_json_next(d.r, NULL, &text), MRD_JR_WORD);
                CHECK_ROW(rows[i].text, mrd_str_is(text, rows[i].words[k]));
            }
            CHECK_INT(mrd_json_next(d.r, NULL, NULL), MRD_JR_END);
            CHECK_INT(mrd_json_next(d.r, NULL, NULL), MRD_JR_END);
            CHECK_INT(mrd_json_reader_lenient(d.r), rows[i].lenient);
            doc_close(&d);
        }
    }
}

TEST(many_documents_and_lenient_extras)
{
    const char *text = "{\"a\":1}\n{\"b\":2}[3,]4 NaN [-Infinity,Infinity]";

    for (size_t chunk = 0; chunk < 12; chunk++) {
        static const mrd_jr_type want[] = { MRD_JR_OBJECT, MRD_JR_OBJECT, MRD_JR_ARRAY,
                                            MRD_JR_NUMBER, MRD_JR_WORD,   MRD_JR_ARRAY,
                                            MRD_JR_END,    MRD_JR_END };
        doc d = doc_open(text, strlen(text), chunk);

        mrd_json_many(d.r);
        for (size_t i = 0; i < MRD_COUNT(want); i++)
            CHECK_INT(mrd_json_next(d.r, NULL, NULL), want[i]);
        CHECK_INT(mrd_json_reader_lenient(d.r), 4);
        doc_close(&d);
    }
}

TEST_MAIN()
