/*
 * Tests the detection of a file's format by its first bytes. Random texts are made of words by
 * which formats are recognised. For each format the test has a second implementation of its rule.
 * The format with the highest certainty is chosen, and the first of several with the same
 * certainty.
 */
#include <string.h>

#include "base/buf.h"
#include "base/obj.h"
#include "tests/check.h"
#include "tests/seed.h"
#include "trace/import/import.h"

static uint64_t state;

static uint64_t
below(uint64_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
}

typedef struct {
    const char *text;
    size_t len;
} head;

/* Returns true if the word is within the first `most` bytes. */
static bool
says(const head *h, const char *word, size_t most)
{
    return memmem(h->text, h->len < most ? h->len : most, word, strlen(word)) != NULL;
}

static bool
any(const head *h, const char *word)
{
    return says(h, word, h->len);
}

static char
first(const head *h)
{
    size_t blank = 0;

    while (blank < h->len && strchr(" \t\r\n", h->text[blank]) != NULL)
        blank++;
    return blank < h->len ? h->text[blank] : ' ';
}

static int
of_trace(const head *h)
{
    if (first(h) == '[')
        return any(h, "\"ph\"") ? 80 : 0;
    if (first(h) != '{')
        return 0;
    if (any(h, "\"traceEvents\""))
        return 90;
    if (any(h, "\"meridian\":{\"format\":\"chrome\""))
        return 60;
    return any(h, "\"schemaVersion\"") &&
                   (any(h, "\"deviceProperties\"") || any(h, "\"distributedInfo\""))
               ? 60
               : 0;
}

static int
of_runtime(const head *h)
{
    if (first(h) != '{' || !any(h, "\"events\""))
        return 0;
    return any(h, "\"event_type\"") ? 85 : any(h, "\"data_version\"") ? 70 : 0;
}

static int
of_system(const head *h)
{
    if (first(h) != '{')
        return 0;
    if (says(h, "\"meridian\"", 256))
        return says(h, "\"system_profile\"", 256) ? 95 : 0;
    if (any(h, "\"trace_events\"") || any(h, "\"trace_event\""))
        return 88;
    return any(h, "\"cpu_util\"") || any(h, "\"mem_usage\"") || any(h, "\"device_mem_usage\"") ||
                   any(h, "\"system_profile_metadata\"")
               ? 60
               : 0;
}

/* A text is a device profile if it has the section of instructions, or two other sections. */
static int
of_device(const head *h)
{
    static const char *const sections[] = { "\"dma\"",           "\"layer_summary\"",
                                            "\"neff_node\"",     "\"cc_stream\"",
                                            "\"active_time\"",   "\"summary_groups\"",
                                            "\"profile_info\"",  "\"total_time\"",
                                            "\"evt_wait_time\"", "\"opcode\"" };
    unsigned n = 0;

    if (first(h) != '{')
        return 0;
    if (says(h, "\"meridian\"", 256))
        return says(h, "\"device_profile\"", 256) ? 95 : 0;
    for (size_t i = 0; i < MRD_COUNT(sections); i++)
        n += any(h, sections[i]);
    return any(h, "\"instruction\"") || n > 1 ? 80 : 0;
}

static int
of_monitor(const head *h)
{
    if (!any(h, "{"))
        return 0;
    if (any(h, "\"neuron_runtime_data\""))
        return 85;
    return any(h, "\"neuron_hw_counters\"") && any(h, "\"system_data\"") ? 80 : 0;
}

static int
of_space(const head *h)
{
    if (h->len < 8 || h->text[0] != '\n')
        return 0;
    return says(h, "/host:", 64) || says(h, "/device:", 64) || says(h, "Task Environment", 64) ? 92
                                                                                               : 0;
}

/* The random texts contain only one Perfetto packet, one with a time stamp. */
static int
of_perfetto(const head *h)
{
    return says(h, "\n\x04\x40\x01\x50\x01", 6) ? 95 : 0;
}

static int
of_flight(const head *h)
{
    if (first(h) != '{' && !says(h, "\x80\x02", 2))
        return 0;
    return (any(h, "collective_seq_id") && any(h, "profiling_name")) ||
                   (any(h, "pg_config") && any(h, "pg_status"))
               ? 92
               : 0;
}

/* The rules in the order of trace/import/importers.def, which decides between equals. */
static const struct {
    const mrd_import_ops *ops;
    int (*rule)(const head *h);
} rules[] = { { &mrd_import_trace_event, of_trace }, { &mrd_import_nrt, of_runtime },
              { &mrd_import_sysprof, of_system },    { &mrd_import_devprof, of_device },
              { &mrd_import_monitor, of_monitor },   { &mrd_import_xplane, of_space },
              { &mrd_import_perfetto, of_perfetto }, { &mrd_import_flight, of_flight } };

static void
draw(mrd_buf *to)
{
    static const char *const begins[] = { "{",         "{", "{",      " \n{",
                                          "\t[",       "[", "x",      "\n",
                                          "\n\x12",    "",  "\r\n {", "\n\x04\x40\x01\x50\x01",
                                          "\x80\x02}(" };
    static const char *const words[] = { "\"ph\"",
                                         "\"traceEvents\"",
                                         "\"meridian\":{\"format\":\"chrome\"",
                                         "\"schemaVersion\"",
                                         "\"deviceProperties\"",
                                         "\"distributedInfo\"",
                                         "\"events\"",
                                         "\"event_type\"",
                                         "\"data_version\"",
                                         "\"meridian\"",
                                         "\"system_profile\"",
                                         "\"trace_events\"",
                                         "\"trace_event\"",
                                         "\"cpu_util\"",
                                         "\"mem_usage\"",
                                         "\"device_mem_usage\"",
                                         "\"system_profile_metadata\"",
                                         "\"dma\"",
                                         "\"layer_summary\"",
                                         "\"neff_node\"",
                                         "\"cc_stream\"",
                                         "\"active_time\"",
                                         "\"summary_groups\"",
                                         "\"profile_info\"",
                                         "\"total_time\"",
                                         "\"evt_wait_time\"",
                                         "\"opcode\"",
                                         "\"instruction\"",
                                         "\"device_profile\"",
                                         "\"neuron_runtime_data\"",
                                         "\"neuron_hw_counters\"",
                                         "\"system_data\"",
                                         "/host:",
                                         "/device:",
                                         "Task Environment",
                                         "collective_seq_id",
                                         "profiling_name",
                                         "pg_config",
                                         "pg_status",
                                         "{",
                                         "ph",
                                         "events" };
    uint64_t near = below(MRD_COUNT(words)); /* words of one format are neighbours in the table */

    mrd_buf_text(to, begins[below(MRD_COUNT(begins))]);
    for (uint64_t n = below(5); n > 0; n--) {
        for (uint64_t pad = below(4) == 0 ? below(300) : below(6); pad > 0; pad--)
            mrd_buf_byte(to, ' ');
        mrd_buf_text(
            to,
            words[below(2) == 0 ? below(MRD_COUNT(words)) : (near + below(5)) % MRD_COUNT(words)]);
    }
}

TEST(each_format_knows_its_own)
{
    unsigned taken[MRD_COUNT(rules)] = { 0 };

    state = test_seed();
    for (int i = 0; i < 60000; i++) {
        const mrd_import_ops *best = NULL, *got;
        mrd_buf text = { 0 };
        int sure = 0;
        head h;

        draw(&text);
        h = (head){ mrd_buf_cstr(&text), text.len };
        for (size_t k = 0; k < MRD_COUNT(rules); k++) {
            int want = rules[k].rule(&h);

            if (rules[k].ops->probe((mrd_str){ h.text, h.len }, "a file") != want) {
                fprintf(stderr, "%s: %s\n", rules[k].ops->name, h.text);
                CHECK(false);
            }
            if (want > sure) {
                sure = want;
                best = rules[k].ops;
            }
        }
        got = mrd_import_detect((mrd_str){ h.text, h.len }, "a file");
        CHECK(got == best);
        for (size_t k = 0; k < MRD_COUNT(rules); k++)
            taken[k] += got == rules[k].ops;
        mrd_buf_fini(&text);
    }
    for (size_t k = 0; k < MRD_COUNT(rules); k++)
        CHECK(taken[k] > 100);
}

/* A byte order mark before the text is skipped. An incomplete one is not skipped. */
TEST(a_byte_order_mark_is_passed_over)
{
    CHECK(mrd_import_detect(MRD_STR("\xef\xbb\xbf{\"traceEvents\""), "") ==
          &mrd_import_trace_event);
    CHECK(mrd_import_detect(MRD_STR("\xef\xbb{\"traceEvents\""), "") == NULL);
    CHECK(mrd_import_detect(MRD_STR("\xef\xbb\xbf"), "") == NULL);
    CHECK(mrd_import_detect(MRD_STR(""), "") == NULL);
}

TEST_MAIN()
