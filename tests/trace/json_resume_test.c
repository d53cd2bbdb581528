#include "tests/check.h"

#include "base/buf.h"
#include "trace/json/json_read.h"

/*
 * Reads a document as a list of records: objects in the array "e", or at the top level. For each
 * complete record appends its member "n" ("a", "b" ...), and for each damage "!".
 */
typedef struct {
    mrd_buf got;
    uint64_t skipped;
    uint64_t records;
    mrd_err err;
} reading;

/* Appends the value of "n" in the record. Stops at an error. */
static void
read_record(mrd_json_reader *r, unsigned depth, mrd_buf *got)
{
    mrd_str key, text;
    mrd_jr_type type;
    char name = '?';

    mrd_json_mark(r, mrd_json_reader_offset(r), depth);
    mrd_json_enter(r);
    while ((type = mrd_json_next(r, &key, &text)) > MRD_JR_END)
        if (mrd_str_is(key, "n") && type == MRD_JR_STRING && text.len == 1)
            name = text.p[0];
    if (type == MRD_JR_END)
        mrd_buf_byte(got, (uint8_t) name);
}

/* Reads the elements of the container at `depth` and resumes after damage. Returns false if the
 * reader cannot resume. */
static bool
read_elements(mrd_json_reader *r, unsigned depth, reading *to)
{
    mrd_jr_type type;

    while ((type = mrd_json_next(r, NULL, NULL)) != MRD_JR_END) {
        mrd_json_damage damage;

        if (type == MRD_JR_OBJECT)
            read_record(r, depth, &to->got);
        if (mrd_json_reader_err(r, NULL) == MRD_OK)
            continue;
        if (!mrd_json_resume(r, depth, &damage)) {
            to->skipped += damage.skipped;
            to->records += damage.records;
            return false;
        }
        to->skipped += damage.skipped;
        to->records += damage.records;
        mrd_buf_byte(&to->got, '!');
    }
    return true;
}

static void
read_all(const char *text, size_t len, size_t chunk, reading *to)
{
    mrd_in *in = NULL;
    mrd_json_reader *r = NULL;

    *to = (reading){ 0 };
    CHECK_ERR("open", mrd_in_memory((mrd_bytes){ (const uint8_t *) text, len }, "x", &in, NULL),
              MRD_OK);
    if (chunk > 0)
        mrd_in_set_chunk(in, chunk);
    CHECK_ERR("open", mrd_json_reader_open(in, &r, NULL), MRD_OK);
    if (mrd_json_next(r, NULL, NULL) == MRD_JR_ARRAY) {
        mrd_json_enter(r);
        if (read_elements(r, 1, to))
            read_elements(r, 0, to);
    }
    to->err = mrd_json_reader_err(r, NULL);
    mrd_json_reader_close(r);
    mrd_in_close(in);
    mrd_buf_cstr(&to->got);
}

#define R(n) "{\"n\":\"" n "\"}"

static const struct {
    const char *text, *got;
    uint64_t skipped;
    mrd_err err;
} rows[] = {
    { "[" R("a") "," R("b") "]", "ab", 0, MRD_OK },
    /* a damaged record costs only itself */
    { "[" R("a") ",{\"n\" \"x\"}," R("b") "]", "a!b", 10, MRD_OK },
    { "[" R("a") ",{\"s\":\"a \"quoted\" word\",\"n\":\"x\"}," R("b") "]", "a!b", 32, MRD_OK },
    { "[" R("a") ",{\"k\":{\"l\":[1,{\"m\":2},x y]}} ," R("b") "]", "a!?!b", 19, MRD_OK },
    /* a lost quote or bracket hides the begin of the next record */
    { "[" R("a") ",{\"n\":\"x}," R("b") "," R("c") "]", "a!bc", 9, MRD_OK },
    { "[" R("a") ",{\"n\":\"x\"," R("b") "," R("c") "]", "a!bc", 9, MRD_OK },
    { "[" R("a") ",{\"k\":[1,2,\"n\":\"x\"}," R("b") "]", "a!b", 19, MRD_OK },
    { "[" R("a") ",{\"k\":{\"l\":1,\"n\":\"x\"}," R("b") "]", "a!b", 21, MRD_OK },
    /* between records */
    { "[" R("a") R("b") "]", "ab", 0, MRD_OK },
    { "[" R("a") ",\x01\x02 junk : \"," R("b") "]", "a!b", 12, MRD_OK },
    { "[" R("a") ",[1," R("b") "]", "a", 0, MRD_TRUNCATED },
    { "[" R("a") ",\"n\":\"x\"}," R("b") "]", "a!b", 6, MRD_OK },
    /* The last record is damaged. The end of the array is still found. */
    { "[" R("a") ",{\"n\":x y} ]", "a!", 10, MRD_OK },
    { "[" R("a") ",{\"n\":x y", "a", 8, MRD_SYNTAX },
    { "[" R("a") ",{\"n\":\"x", "a", 7, MRD_TRUNCATED },
    /* damage after the document */
    { "[" R("a") "] ; \n" R("b") "\n" R("c") ",\n" R("d") "]}", "a!bcd", 3, MRD_OK },
    { "[" R("a") "]}}", "a", 2, MRD_SYNTAX },
    /* JSON in a text */
    { "[" R("a") ",{\"n\":\"[{\"b\":1}]\"}," R("b") "]", "a!?!b", 10, MRD_OK },
    /* After damage a new document follows that begins in the same way. Its records must not count as records of the first document. */
    { "[{\"n\":\"a\",\"m\":1},{\"n\":12[{\"n\":\"a\",\"m\":1}," R("c") "]", "a", 34, MRD_CORRUPT },
    { "[{\"n\":\"a\",\"m\":1},{\"n\":12,[{\"n\":\"a\",\"m\":2}," R("c") "]", "a!ac", 9, MRD_OK },
};

TEST(reading_goes_on_behind_damage)
{
    static const size_t chunks[] = { 0, 1, 2, 3, 7, 16 };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        for (size_t k = 0; k < MRD_COUNT(chunks); k++) {
            reading got;

            read_all(rows[i].text, strlen(rows[i].text), chunks[k], &got);
            CHECK_TEXT((const char *) got.got.p, rows[i].got);
            CHECK_ERR(rows[i].text, got.err, rows[i].err);
            if (got.skipped != rows[i].skipped)
                fprintf(stderr, "%s: skipped %d\n", rows[i].text, (int) got.skipped);
            CHECK_INT(got.skipped, rows[i].skipped);
            mrd_buf_fini(&got.got);
        }
    }
}

TEST_MAIN()
