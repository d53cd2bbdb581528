/* Reports of a generated training of two nodes must be equal to the files in tests/golden/. The
 * training is made so that its report contains everything that a report can state. report_test.c
 * and steps_test.c check the numbers. MRD_GOLDEN_UPDATE=1 writes the files again. */
#include "base/sys/out.h"
#include "tests/trace/profile.h"

#define US 1000LL

static void
args_of(test_profile *p, mrd_event *ev, int64_t group, int64_t op)
{
    mrd_arg *args = calloc(2, sizeof(*args));

    args[0] =
        (mrd_arg){ .key = mrd_catalog_intern(p->cat, "gid"), .type = MRD_ARG_INT, .v.i = group };
    args[1] =
        (mrd_arg){ .key = mrd_catalog_intern(p->cat, "op_id"), .type = MRD_ARG_INT, .v.i = op };
    ev->args = args;
    ev->arg_count = 2;
    ev->bound_ns = 400;
}

/* One step of a process: it loads data, launches, computes, meets the other process, and copies. */
static void
one_step(test_profile *p, mrd_track_id host, int who, int64_t number, int64_t at)
{
    static mrd_flow flows[2][8][2];
    mrd_flow *f = flows[who][number];
    int64_t late = who == 1 ? 150 * US : 0, launched = number % 2 == 0 ? 105 : 60;
    mrd_event *ev;

    profile_add(p, MRD_SPAN, host, number == 1 ? "step 1" : "step", at, (900 + number) * US);
    if (who == 0)
        profile_add(p, MRD_SPAN, host, "DataLoader", at + 10 * US, 80 * US);
    f[0] = (mrd_flow){ .id = 100 + (uint64_t) (number * 2 + who), .dir = MRD_FLOW_START };
    f[1] = (mrd_flow){ .id = 100 + (uint64_t) (number * 2 + who), .dir = MRD_FLOW_END };
    ev = profile_add(p, MRD_SPAN, p->thread[who], "nrt_execute", at + launched * US, 30 * US);
    ev->flows = &f[0];
    ev->flow_count = 1;
    ev =
        profile_add(p, MRD_SPAN, p->device[who], "nc_exec_running", at + 200 * US, 400 * US + late);
    ev->flows = &f[1];
    ev->flow_count = 1;
    ev = profile_add(p, MRD_SPAN, p->device[who], "cc_running", at + 250 * US + late,
                     250 * US - late);
    args_of(p, ev, 1, number);
    profile_add(p, MRD_SPAN, p->device[who], "cc_exec_barrier", at + 220 * US, 10 * US);
    profile_add(p, MRD_SPAN, p->thread[who], "nrt_tensor_read", at + 760 * US, 40 * US);
}

static test_profile *
training(void)
{
    test_profile *p = test_profile_new();
    mrd_track_id host[2] = { p->framework, 0 };
    mrd_event *ev;
    mrd_track t;

    p->n = 0;
    mrd_track_init(&t, p->proc[1], MRD_SRC_FRAMEWORK);
    t.thread_id = 17;
    host[1] = mrd_catalog_track(p->cat, &t);
    for (int64_t i = 0; i < 4; i++)
        for (int who = 0; who < 2; who++)
            one_step(p, host[who], who, i, i * 1000 * US + who * 7);
    ev = profile_add(p, MRD_LOSS, p->loss, "runtime-ring", 2770 * US, 100 * US);
    ev->ivalue = 12;
    profile_add(p, MRD_SPAN, p->thread[1], "nrt_infer", 3900 * US, MRD_DUR_UNFINISHED);
    for (int who = 0; who < 2; who++) {
        ev = profile_add(p, MRD_SPAN, p->device[who], "cc_running", 3700 * US, 50 * US);
        args_of(p, ev, 2, 99);
    }
    profile_add(p, MRD_SPAN, p->device[0], "nc_exec_running", 5100 * US, 40 * US);
    return p;
}

/* Frees the profile of the training and the arguments of its events. */
static void
training_free(test_profile *p)
{
    for (size_t i = 0; i < p->n; i++)
        free((void *) (uintptr_t) p->v[i].args);
    test_profile_free(p);
}

static char *
load(const char *path)
{
    FILE *f = fopen(path, "rb");
    mrd_buf text = { 0 };
    char part[4096];
    size_t n;

    if (f == NULL)
        return NULL;
    while ((n = fread(part, 1, sizeof(part), f)) > 0)
        mrd_buf_add(&text, part, n);
    fclose(f);
    mrd_buf_byte(&text, 0);
    return (char *) text.p;
}

TEST(bytes_are_golden)
{
    static const struct {
        const char *sink, *file;
    } rows[] = { { "report-text", "report.txt" },
                 { "report-json", "report.json" },
                 { "steps-json", "steps.json" } };
    const char *source = getenv("MERIDIAN_SOURCE");
    test_profile *p;

    if (source == NULL)
        SKIP("MERIDIAN_SOURCE is not set");
    p = training();
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_sink_options options = test_sink_options();
        char path[1024], *got, *want;
        size_t n, at = 0;

        options.pretty = true;
        got = test_sink_run(mrd_sink_find(mrd_str_of(rows[i].sink)), p->cat, 0, &options, p->v,
                            p->n, &n);
        snprintf(path, sizeof(path), "%s/tests/golden/%s", source, rows[i].file);
        if (getenv("MRD_GOLDEN_UPDATE") != NULL)
            mrd_write_file(path, (mrd_bytes){ (const uint8_t *) got, n }, 0644, NULL);
        want = load(path);
        CHECK_ROW(rows[i].file, want != NULL);
        while (want != NULL && got[at] != '\0' && got[at] == want[at])
            at++;
        if (want == NULL || strcmp(got, want) != 0) {
            fprintf(stderr, "%s differs at byte %zu: ...%.120s\n", rows[i].file, at, got + at);
            CHECK_ROW(rows[i].file, false);
        }
        free(got);
        free(want);
    }
    training_free(p);
}

/* The page has a column for each step, with the duration of the step. */
TEST(the_page_shows_how_long_each_step_took)
{
    mrd_sink_options options = test_sink_options();
    test_profile *p = training();
    size_t n;
    char *got =
        test_sink_run(mrd_sink_find(MRD_STR("report-html")), p->cat, 0, &options, p->v, p->n, &n);

    for (int i = 0; i < 4; i++) {
        char title[80];

        snprintf(title, sizeof(title), "<title>steps %d to %d: %d.00 us each</title>", i + 1, i + 1,
                 900 + i);
        CHECK_ROW(title, strstr(got, title) != NULL);
    }
    free(got);
    training_free(p);
}

/* Checks that the legend of a section explains each colour of the bars with the name that the bars
 * have. Returns the number of bars. */
static unsigned
check_colours(char *section)
{
    unsigned bars = 0;

    for (char *at = section; (at = strstr(at, "<rect class=\"")) != NULL; at++) {
        char class[40], mean[80], key[200];
        const char *title = strstr(at, "<title>"), *end = strstr(at, "/>");

        CHECK(sscanf(at, "<rect class=\"%39[^\"]", class) == 1);
        if (title == NULL || (end != NULL && end < title)) /* the key's own */
            continue;
        if (sscanf(title, "<title>%79[^:]: ", mean) != 1 || strncmp(mean, "steps ", 6) == 0)
            continue;
        snprintf(key, sizeof(key), "<rect class=\"%s\" width=\"1\" height=\"1\"/></svg>%s", class,
                 strcmp(class, "path") == 0 ? "share of a worker" : mean);
        if (strstr(section, key) == NULL)
            fprintf(stderr, "no key says: %s\n", key);
        CHECK(strstr(section, key) != NULL);
        bars++;
    }
    return bars;
}

TEST(a_colour_means_one_thing)
{
    mrd_sink_options options = test_sink_options();
    test_profile *p = training();
    size_t n;
    char *page =
        test_sink_run(mrd_sink_find(MRD_STR("report-html")), p->cat, 0, &options, p->v, p->n, &n);
    unsigned bars = 0;

    for (char *at = strstr(page, "<h2>"), *next; at != NULL; at = next) {
        if ((next = strstr(at + 1, "<h2>")) != NULL)
            next[-1] = '\0';
        bars += check_colours(at);
    }
    CHECK(bars > 8);
    free(page);
    training_free(p);
}

/* The page ends with the whole text report, escaped. */
TEST(the_page_has_the_whole_text)
{
    static const struct {
        const char *as, *is;
    } escapes[] = {
        { "&amp;", "&" }, { "&lt;", "<" }, { "&gt;", ">" }, { "&quot;", "\"" }, { "&#39;", "'" }
    };
    mrd_sink_options options = test_sink_options();
    test_profile *p = training();
    size_t n;
    char *page =
        test_sink_run(mrd_sink_find(MRD_STR("report-html")), p->cat, 0, &options, p->v, p->n, &n);
    char *text =
        test_sink_run(mrd_sink_find(MRD_STR("report-text")), p->cat, 0, &options, p->v, p->n, &n);
    char *in = strstr(page, "<pre>"), *to;

    REQUIRE(in != NULL);
    for (to = in += 5; strncmp(in, "</pre>", 6) != 0 && *in != '\0'; to++) {
        size_t len = 1;

        *to = *in;
        for (size_t i = 0; i < MRD_COUNT(escapes); i++)
            if (strncmp(in, escapes[i].as, strlen(escapes[i].as)) == 0) {
                *to = *escapes[i].is;
                len = strlen(escapes[i].as);
            }
        in += len;
    }
    *to = '\0';
    CHECK(strlen(text) > 500);
    CHECK_TEXT(strstr(page, "<pre>") + 5, text);
    free(page);
    free(text);
    training_free(p);
}

TEST_MAIN()
