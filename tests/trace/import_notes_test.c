/* Errors in the text of a file are counted and reported once, and only the reported values change.
 * Texts are random mixtures of valid and invalid spellings, in a file of each JSON format. */
#include "tests/seed.h"
#include "tests/trace/collect.h"

static uint64_t state;

static uint64_t
below(uint64_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
}

#define CHARACTER "\xef\xbf\xbd" /* U+FFFD */

static const struct {
    const char *text;
    size_t len;
    const char *becomes;
    unsigned bad;
} spellings[] = {
    { "a", 1, "a", 0 },
    { "\xc3\xa9", 2, "\xc3\xa9", 0 },
    { "\\u0041", 6, "A", 0 },
    { "\\ud83d\\ude80", 12, "\xf0\x9f\x9a\x80", 0 },
    { "\xff.", 2, CHARACTER ".", 1 },
    { "\xc3:", 2, CHARACTER ":", 1 },
    { "\0", 1, CHARACTER, 1 },
    { "\\ud83d,", 7, CHARACTER ",", 1 },
    { "\\ude80", 6, CHARACTER, 1 },
    { "\\ug", 3, CHARACTER "g", 1 },
    { "\x01", 1, "\x01", 1 },
    { "\\q", 2, "\\q", 1 },
};

/* The text is between begin and rest. A comma after rest is an error. */
static const struct {
    const mrd_import_ops *ops;
    const char *begin, *rest, *end;
} formats[] = {
    { &mrd_import_trace_event, "[{\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":2,\"name\":\"",
      "\"}", "]" },
    { &mrd_import_nrt,
      "{\"data_version\":2,\"events\":[{\"phase\":\"instant\",\"timestamp_ns\":5,\"event_type\":\"",
      "\"}", "]}" },
    { &mrd_import_sysprof,
      "{\"trace_event\":[{\"timestamp\":5,\"duration\":5,\"timestamp_unit\":\"ns\",\"name\":\"",
      "\"}", "]}" },
    { &mrd_import_devprof,
      "{\"summary\":[{\"total_time\":0.001}],\"instruction\":[{\"timestamp\":0,\"duration\":"
      "1000000,"
      "\"engine\":\"Tensor\",\"opcode\":\"",
      "\"}", "]}" },
    { &mrd_import_monitor,
      "{\"system_data\":{\"memory_info\":{\"a\":1}},\"neuron_runtime_data\":[{\"report\":{"
      "\"execution_stats\":{\"period\":1,\"b\":2}},\"pid\":9,\"neuron_runtime_tag\":\"",
      "\"}", "]}" },
};

/* Returns true if the text is the name of an event or, in a report of the monitor, of its process. */
static bool
is_named(const collected *c, const mrd_import_ops *ops, const char *name)
{
    for (size_t i = 0; i < c->n; i++) {
        const mrd_event *ev = &c->v[i]->ev;

        if (strcmp(collect_str(c, ops == &mrd_import_monitor ? collect_process(c, ev)->name
                                                             : ev->name),
                   name) == 0)
            return true;
    }
    return false;
}

static size_t
notes_with(const collected *c, const char *words)
{
    size_t n = 0;

    for (size_t i = 0; i < mrd_catalog_notes(c->cat); i++)
        n += strstr(mrd_catalog_note_at(c->cat, i).p, words) != NULL;
    return n;
}

static void
check_note(const collected *c, unsigned count, const char *one, const char *many)
{
    char want[128];

    snprintf(want, sizeof(want), "'x.json': %u %s", count, count == 1 ? one : many);
    CHECK_INT(notes_with(c, count == 1 ? one : many), count > 0);
    CHECK_INT(notes_with(c, count == 1 ? many : one), 0);
    if (count > 0)
        CHECK_INT(notes_with(c, want), 1);
}

TEST(what_is_wrong_in_a_text_is_counted)
{
    unsigned most = 0;

    state = test_seed();
    for (size_t round = 0; round < 4000; round++) {
        size_t f = round % MRD_COUNT(formats);
        mrd_buf text = { 0 }, name = { 0 };
        bool mark = below(2) == 0, comma = below(2) == 0;
        unsigned bad = 0;
        collected c = { 0 };

        mrd_buf_text(&text, mark ? "\xef\xbb\xbf" : "");
        mrd_buf_text(&text, formats[f].begin);
        mrd_buf_text(&text, "n");
        mrd_buf_text(&name, "n");
        for (uint64_t n = below(6); n > 0; n--) {
            size_t k = below(3) == 0 ? below(MRD_COUNT(spellings)) : below(4);

            mrd_buf_add(&text, spellings[k].text, spellings[k].len);
            mrd_buf_text(&name, spellings[k].becomes);
            bad += spellings[k].bad;
        }
        mrd_buf_text(&text, formats[f].rest);
        mrd_buf_text(&text, comma ? "," : "");
        mrd_buf_text(&text, formats[f].end);
        collect_bytes(&c, formats[f].ops, text.p, text.len, below(3) == 0 ? 1 + below(40) : 0,
                      NULL);
        CHECK_ERR(formats[f].ops->name, c.err, MRD_OK);
        if (!is_named(&c, formats[f].ops, mrd_buf_cstr(&name)))
            CHECK_TEXT(formats[f].ops->name, mrd_buf_cstr(&name));
        check_note(&c, (unsigned) mark + comma, "place was accepted that JSON",
                   "places were accepted that JSON");
        check_note(&c, bad, "damaged place in texts: ", "damaged places in texts: ");
        most = bad > most ? bad : most;
        mrd_buf_fini(&text);
        mrd_buf_fini(&name);
        collect_free(&c);
    }
    CHECK(most > 2);
}

TEST_MAIN()
