/*
 * Tests every function of meridian.h in the real libmeridian.so. Comments such as C-16 name the
 * rows of docs/dev/seeds.md that a test covers. The library uses the RAW clock here, so that
 * printed statistics can be compared exactly.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "capture/ring/ring_read.h"
#include "tests/capture/api_start.h"

int api_from_cpp(mrd_domain *domain, mrd_region *region);

#define EVENTS_MAX 1024

typedef struct {
    uint8_t kind, flags;
    uint64_t value;
    int64_t ts, dur;
    char name[96], domain[64], track[64], args[256];
} seen;
static seen events[EVENTS_MAX];
static size_t event_count;

static void
text_to(char *to, size_t size, mrd_str s)
{
    snprintf(to, size, MRD_STR_FMT, MRD_STR_ARG(s));
}

static void
args_to(char *to, size_t size, const mrd_ring_reader *r, const mrd_ring_event *ev)
{
    mrd_ring_items items = { ev->body, ev->body_len };
    mrd_ring_arg a;
    size_t at = 0;

    while (mrd_ring_item_next(&items, &a) && at < size) {
        mrd_str key = a.key != 0 ? mrd_ring_text(r, a.key) : a.key_text;

        at += (size_t) snprintf(to + at, size - at, MRD_STR_FMT "=", MRD_STR_ARG(key));
        if (a.type == MRD_ITEM_TEXT)
            at += (size_t) snprintf(to + at, size - at, MRD_STR_FMT " ", MRD_STR_ARG(a.v.text));
        else if (a.type == MRD_ITEM_F64)
            at += (size_t) snprintf(to + at, size - at, "%g ", a.v.d);
        else
            at += (size_t) snprintf(to + at, size - at, "%" PRId64 " ", a.v.i);
    }
}

static void
keep(const mrd_ring_reader *r, const mrd_ring_event *ev)
{
    seen *s = &events[event_count];
    const mrd_ring_track_info *track = mrd_ring_track_of(r, ev->track);

    if (event_count == EVENTS_MAX)
        return;
    memset(s, 0, sizeof(*s));
    s->kind = ev->kind;
    s->flags = ev->flags;
    s->value = ev->value;
    s->ts = ev->ts.ns;
    s->dur = ev->dur_ns;
    text_to(s->name, sizeof(s->name), ev->name != 0 ? mrd_ring_text(r, ev->name) : ev->name_text);
    text_to(s->domain, sizeof(s->domain), mrd_ring_text(r, ev->domain));
    if (track != NULL)
        text_to(s->track, sizeof(s->track), track->name);
    args_to(s->args, sizeof(s->args), r, ev);
    event_count++;
}

/* Reads all rings of this process and releases the records. */
static void
collect(void)
{
    const char *dir = getenv("MERIDIAN_RING_DIR");
    char command[400], path[600], line[400];
    FILE *list;

    event_count = 0;
    snprintf(command, sizeof(command), "ls '%s' | grep '[.]%d[.][0-9]*[.][0-9]*[.]ring'", dir,
             (int) getpid());
    list = popen(command, "r");
    while (fgets(line, sizeof(line), list) != NULL) {
        mrd_ring_reader *r = NULL;
        mrd_ring_event ev;
        mrd_why why = { .text = "" };

        line[strcspn(line, "\n")] = '\0';
        snprintf(path, sizeof(path), "%s/%s", dir, line);
        CHECK_ERR(why.text, mrd_ring_open(AT_FDCWD, path, NULL, &r, &why), MRD_OK);
        while (r != NULL && mrd_ring_next(r, &ev, &why) == MRD_RING_MORE)
            keep(r, &ev);
        if (r != NULL)
            CHECK_ERR("release", mrd_ring_release(r), MRD_OK);
        mrd_ring_close(r);
    }
    pclose(list);
}

/* Returns the first collected event with this name and kind (0 means any kind). The result has kind
 * 0 if there is none. */
__attribute__((noinline)) static const seen *
find(const char *name, unsigned kind)
{
    static const seen none;

    for (size_t i = 0; i < event_count; i++)
        if (strcmp(events[i].name, name) == 0 && (kind == 0 || events[i].kind == kind))
            return &events[i];
    return &none;
}

static size_t
count(const char *name)
{
    size_t n = 0;

    for (size_t i = 0; i < event_count; i++)
        n += strcmp(events[i].name, name) == 0;
    return n;
}

TEST(nothing_happens_while_off)
{
    mrd_region region = MRD_REGION_INIT("off");
    mrd_task *task = mrd_task_create(NULL, "off");

    CHECK_TEXT(mrd_status_text(), "stopped");
    CHECK(!mrd_on());
    {
        MRD_SCOPE(NULL, "off");
    }
    mrd_push(NULL, "off");
    mrd_pop();
    mrd_instant(NULL, "off", MRD_SCOPE_THREAD, NULL, 0);
    CHECK_INT(mrd_span_begin(NULL, "off", NULL, 0), 0);
    CHECK_INT(mrd_task_start(task), MERIDIAN_OK);
    CHECK_INT(mrd_task_stop(task), MERIDIAN_OK); /* E-01: while off, a call returns OK */
    CHECK_INT(mrd_region_start(&region), MERIDIAN_OK);
    CHECK_INT(mrd_region_stop(&region), MERIDIAN_OK);
    CHECK_INT(region.entries, 0);
    CHECK_INT(mrd_dump(1), MERIDIAN_STATE); /* C-15 */
    collect();
    CHECK_INT(event_count, 0);
    mrd_task_destroy(task);
}

TEST(spans_instants_flows)
{
    char label[16] = "step 1";
    mrd_kv kv[] = { mrd_kv_i64("i", -3), mrd_kv_u64("u", 1ull << 60), mrd_kv_f64("f", 0.5),
                    mrd_kv_bool("b", 7), mrd_kv_text("t", "word") };
    uint64_t id, flow = mrd_flow_new(), t0;
    mrd_scope s;

    start();
    {
        MRD_SCOPE(domain, "outer");
        MRD_SCOPE(domain, "inner");
        mrd_flow_begin(domain, "arrow", flow);
    }
    mrd_scope_begin(&s, domain, label);
    label[5] = '2'; /* the same address with another text: names are compared by content */
    mrd_scope_end_args(&s, kv, 5);
    mrd_scope_begin(&s, domain, label);
    mrd_flow_step(domain, "arrow", flow);
    mrd_scope_end(&s);
    mrd_push(domain, "pushed");
    mrd_push(NULL, "pushed inside");
    mrd_pop();
    mrd_pop_args(kv, 1);
    mrd_pop(); /* one too many */
    id = mrd_span_begin(domain, "async", kv, 1);
    CHECK(id != 0);
    mrd_span_end(id, NULL, 0);
    t0 = mrd_now();
    mrd_span(domain, "measured", t0 - 5000, t0, NULL, 0);
    mrd_instant(domain, "now", MRD_SCOPE_PROCESS, kv, 5);
    for (int i = 0; i < 2; i++)
        MRD_INSTANT(domain, "literal now", MRD_SCOPE_GLOBAL);
    mrd_flow_end(domain, "arrow", flow);
    mrd_thread_name("the main one");
    collect();
    CHECK_TEXT(events[0].name, "arrow");
    REQUIRE(find("outer", 0)->kind != 0 && find("inner", 0)->kind != 0);
    CHECK(find("outer", 0)->ts <= find("inner", 0)->ts);
    CHECK(find("outer", 0)->dur >= find("inner", 0)->dur);
    CHECK_TEXT(find("outer", 0)->domain, "test");
    REQUIRE(find("step 1", MRD_REC_SPAN)->kind != 0 && find("step 2", MRD_REC_SPAN)->kind != 0);
    CHECK_TEXT(find("step 1", 0)->args, "i=-3 u=1152921504606846976 f=0.5 b=1 t=word ");
    CHECK_TEXT(find("step 2", 0)->args, "");
    CHECK(find("pushed", MRD_REC_SPAN)->kind != 0 &&
          find("pushed inside", MRD_REC_SPAN)->kind != 0);
    CHECK_TEXT(find("pushed", 0)->args, "i=-3 ");
    REQUIRE(find("async", MRD_REC_BEGIN)->kind != 0 && find("", MRD_REC_END)->kind != 0);
    CHECK_INT(find("async", MRD_REC_BEGIN)->value, (int64_t) id);
    CHECK_INT(find("", MRD_REC_END)->value, (int64_t) id);
    REQUIRE(find("measured", 0)->kind != 0 && find("now", 0)->kind != 0);
    CHECK_INT(find("measured", 0)->dur, 5000);
    CHECK_INT(find("now", 0)->flags >> MRD_RECF_SHIFT, MRD_REC_SCOPE_PROCESS);
    CHECK_INT(count("arrow"), 3);
    CHECK_INT(count("literal now"), 2);
    CHECK_INT(find("literal now", 0)->flags >> MRD_RECF_SHIFT, MRD_REC_SCOPE_GLOBAL);
    CHECK_INT(mrd_lost(), 0);
    CHECK(mrd_ticks_ns(t0) == (int64_t) t0); /* RAW: a tick is a nanosecond */
}

/* The program writes many names to the same address, so the library must compare contents. The
 * names have every length, and many are prefixes of the next name. Annotations have any number of
 * arguments: only numbers, or numbers and texts. */
TEST(names_and_arguments_of_every_length)
{
    enum { ROUNDS = 80, LONGEST = 21, ARGS = 19 };
    char name[LONGEST + 1], key[LONGEST + 1], want_name[ROUNDS][LONGEST + 1];
    static char want[ROUNDS][256];
    mrd_kv kv[ARGS];

    start();
    for (unsigned i = 0; i < ROUNDS; i++) {
        size_t len = 1 + i * 7 % (LONGEST - 1), n = 1 + i % ARGS, at = 0;
        mrd_scope s;

        memset(name, 0, sizeof(name));
        memset(key, 0, sizeof(key));
        memset(name, i % 3 == 0 ? 'x' : 'y', len);
        memset(key, i % 2 == 0 ? 'k' : 'l', 1 + i % 9);
        name[len / 2] = (char) ('0' + i % 5);
        snprintf(want_name[i], sizeof(want_name[i]), "%s", name);
        for (size_t a = 0; a < n; a++) {
            bool text = i % 4 == 3 && a == n / 2;

            kv[a] = text ? mrd_kv_text(key, "word") : mrd_kv_u64(a % 2 == 0 ? key : "other", a + i);
            at += (size_t) (text ? snprintf(want[i] + at, sizeof(want[i]) - at, "%s=word ", key)
                                 : snprintf(want[i] + at, sizeof(want[i]) - at, "%s=%zu ",
                                            a % 2 == 0 ? key : "other", a + i));
        }
        mrd_scope_begin(&s, domain, name);
        mrd_scope_end_args(&s, kv, n);
    }
    collect();
    REQUIRE(event_count == ROUNDS);
    for (unsigned i = 0; i < ROUNDS; i++) {
        CHECK_TEXT(events[i].name, want_name[i]);
        CHECK_TEXT(events[i].args, want[i]);
    }
}

TEST(from_cpp)
{
    mrd_region region = MRD_REGION_INIT("cpp region");

    start();
    CHECK_INT(api_from_cpp(domain, &region), 1);
    collect();
    CHECK(find("cpp macro", MRD_REC_SPAN)->kind != 0 &&
          find("cpp object", MRD_REC_SPAN)->kind != 0);
    CHECK(find("cpp throws", MRD_REC_SPAN)->kind != 0);
    CHECK(find("cpp region", MRD_REC_SPAN)->kind != 0);
    REQUIRE(find("cpp instant", MRD_REC_INSTANT)->kind != 0);
    CHECK_TEXT(find("cpp instant", 0)->args, "a=-1 b=1 ");
    CHECK_INT(region.entries, 1);
}

TEST(deeper_than_the_header_shows)
{
    start();
    for (int i = 0; i < 300; i++) /* nests deeper than the maximum number of open scopes */
        mrd_push(domain, "deep");
    for (int i = 0; i < 300; i++)
        mrd_pop();
    mrd_push(domain, "after");
    mrd_pop();
    collect();
    /* the 30 scopes that fit are one span each, the others are a begin and an end */
    CHECK_INT(count("deep"), 256);
    CHECK_INT(count(""), 226);
    CHECK(find("after", MRD_REC_SPAN)->kind != 0);
}

/* C-23 ... C-28 */
TEST(objects)
{
    mrd_task *task;
    mrd_frame *frame;
    mrd_user_event *event;
    mrd_counter *counter;
    mrd_marker *marker;

    start();
    CHECK(mrd_domain_create("test") == domain);
    CHECK(mrd_domain_create("other") != domain);
    CHECK(mrd_domain_create(NULL) == NULL);
    CHECK(mrd_task_create(domain, NULL) == NULL);
    task = mrd_task_create(domain, "task");
    CHECK_INT(mrd_task_stop(task), MERIDIAN_STATE);
    CHECK_TEXT(mrd_last_error(), "task was not started in this thread");
    CHECK_INT(mrd_task_start(task), MERIDIAN_OK);
    CHECK_INT(mrd_task_start(task), MERIDIAN_OK); /* C-24: may nest */
    CHECK_INT(mrd_task_stop(task), MERIDIAN_OK);
    CHECK_INT(mrd_task_stop(task), MERIDIAN_OK);
    CHECK_INT(mrd_task_stop(task), MERIDIAN_STATE);
    CHECK_INT(mrd_task_start(NULL), MERIDIAN_INVALID);
    frame = mrd_frame_create(domain, "frame");
    CHECK_INT(mrd_frame_stop(frame), MERIDIAN_STATE);
    for (int i = 0; i < 3; i++) {
        CHECK_INT(mrd_frame_start(frame), MERIDIAN_OK);
        CHECK_INT(mrd_frame_start(frame), MERIDIAN_STATE);
        CHECK_INT(mrd_frame_stop(frame), MERIDIAN_OK);
    }
    CHECK_INT(mrd_frame_count(frame), 3); /* C-25 */
    CHECK(mrd_frame_rate(frame) > 0);
    event = mrd_event_create("event"); /* C-26 */
    CHECK_INT(mrd_event_start(event), MERIDIAN_OK);
    CHECK_INT(mrd_event_stop(event), MERIDIAN_OK);
    CHECK_INT(mrd_event_stop(event), MERIDIAN_STATE);
    counter = mrd_counter_create(domain, "counter", "bytes", 5); /* C-27 */
    CHECK_INT(mrd_counter_add(counter, -2), MERIDIAN_OK);
    CHECK_INT(mrd_counter_set(counter, UINT64_MAX), MERIDIAN_OK);
    CHECK_INT(mrd_counter_add(counter, 2), MERIDIAN_OK);
    CHECK_INT(mrd_counter_get(counter), 1);
    CHECK_INT(mrd_counter_sample(counter, 0.25), MERIDIAN_OK);
    CHECK_INT(mrd_counter_set(NULL, 1), MERIDIAN_INVALID);
    marker = mrd_marker_create(domain, "marker"); /* C-28 */
    CHECK_INT(mrd_marker_mark(marker, MRD_SCOPE_GLOBAL), MERIDIAN_OK);
    CHECK_INT(mrd_marker_mark(marker, (mrd_scope_of) 9), MERIDIAN_INVALID);
    collect();
    CHECK_INT(count("task"), 2);
    CHECK_INT(count("event"), 1);
    CHECK_INT(count("frame"), 3);
    REQUIRE(find("frame", MRD_REC_BEGIN)->kind != 0 && find("counter", MRD_REC_COUNTER)->kind != 0);
    CHECK_TEXT(find("frame", MRD_REC_BEGIN)->track, "frame");
    CHECK((find("frame", MRD_REC_BEGIN)->flags & MRD_RECF_FRAME) != 0);
    CHECK_INT(find("counter", 0)->value, 3);
    CHECK_TEXT(find("counter", 0)->track, "counter");
    CHECK_INT(count("counter"), 4);
    CHECK_INT(find("marker", 0)->flags >> MRD_RECF_SHIFT, MRD_REC_SCOPE_GLOBAL);
    mrd_task_destroy(task);
    mrd_frame_destroy(frame);
    mrd_event_destroy(event);
    mrd_counter_destroy(counter);
    mrd_marker_destroy(marker);
    mrd_task_destroy(NULL);
}

/* C-01 ... C-14 */
TEST(control)
{
    static const struct {
        const char *key, *value;
        int want;
    } rows[] = {
        { "filename", "x.json", MERIDIAN_OK },
        { "filename", "", MERIDIAN_INVALID },
        { "profile_all", "1", MERIDIAN_OK },
        { "profile_symbolic", "0", MERIDIAN_OK },
        { "profile_imperative", "maybe", MERIDIAN_INVALID },
        { "profile_memory", "true", MERIDIAN_OK },
        { "profile_api", "1", MERIDIAN_OK },
        { "continuous_dump", "0", MERIDIAN_OK },
        { "dump_period", "0", MERIDIAN_INVALID },
        { "dump_period", "0.5", MERIDIAN_OK },
        { "dump_period", "nan", MERIDIAN_INVALID },
        { "aggregate_stats", "0", MERIDIAN_OK },
        { "profile_process", "worker", MERIDIAN_OK },
        { "profile_process", "server", MERIDIAN_UNSUPPORTED },
        { "colour", "blue", MERIDIAN_INVALID },
    };

    start();
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        int got = mrd_set_config(rows[i].key, rows[i].value);

        CHECK_ROW(rows[i].key, got == rows[i].want);
        CHECK_ROW(rows[i].key, got == MERIDIAN_OK || strstr(mrd_last_error(), "'") != NULL ||
                                   strlen(mrd_last_error()) > 5);
    }
    CHECK_INT(mrd_set_config(NULL, "1"), MERIDIAN_INVALID);
    mrd_set_config("profile_imperative", "0"); /* both off: no annotations */
    mrd_instant(domain, "unwanted", MRD_SCOPE_THREAD, NULL, 0);
    mrd_set_config("profile_symbolic", "1");
    mrd_instant(domain, "wanted", MRD_SCOPE_THREAD, NULL, 0);
    CHECK_INT(mrd_pause(), MERIDIAN_OK); /* C-14 */
    CHECK_TEXT(mrd_status_text(), "paused");
    mrd_instant(domain, "unwanted", MRD_SCOPE_THREAD, NULL, 0);
    CHECK_INT(mrd_resume(), MERIDIAN_OK);
    mrd_push(domain, "begun before stop");
    CHECK_INT(mrd_set_state(0), MERIDIAN_OK); /* C-13 */
    CHECK_TEXT(mrd_status_text(), "stopped");
    mrd_instant(domain, "unwanted", MRD_SCOPE_THREAD, NULL, 0);
    mrd_pop();
    mrd_pause();
    CHECK_INT(mrd_set_state(1), MERIDIAN_OK); /* run un-pauses */
    CHECK_TEXT(mrd_status_text(), "recording");
    collect();
    CHECK_INT(count("unwanted"), 0);
    CHECK_INT(count("wanted"), 1);
    CHECK(find("begun before stop", MRD_REC_SPAN)->kind != 0);
    CHECK_TEXT(mrd_error_text(MERIDIAN_NOTFOUND), "no such thing");
    CHECK(strlen(mrd_version()) > 0);
}

/* C-16 ... C-18: known durations give known bytes. */
TEST(statistics)
{
    static const char table[] =
        "\nProfile Statistics\n\tTimes are in milliseconds. The average of a counter is weighted "
        "by "
        "time.\n\n"
        "default\n=================\n"
        "Name                          Total Count       Time (ms)   Min Time (ms)   Max Time (ms) "
        "  Avg Time (ms)\n"
        "----                          -----------       ---------   -------------   ------------- "
        "  -------------\n"
        "bare                                    1          0.0001          0.0001          0.0001 "
        "         0.0001\n\n"
        "test\n=================\n"
        "Name                          Total Count       Time (ms)   Min Time (ms)   Max Time (ms) "
        "  Avg Time (ms)\n"
        "----                          -----------       ---------   -------------   ------------- "
        "  -------------\n"
        "long                                    2          3.5000          1.0000          2.5000 "
        "         1.7500\n"
        "short                                   3          0.0030          0.0010          0.0010 "
        "         0.0010\n\n";
    static const char json[] =
        "{\"Time\":{\"default\":{\"bare\":{\"Count\":1,\"Total\":0.0001,\"Min\":0.0001,\"Max\":"
        "0.0001,\"Avg\":0.0001}},\"test\":{\"long\":{\"Count\":2,\"Total\":3.5000,\"Min\":1.0000,"
        "\"Max\":2.5000,\"Avg\":1.7500},\"short\":{\"Count\":3,\"Total\":0.0030,\"Min\":0.0010,"
        "\"Max\":0.0010,\"Avg\":0.0010}}},\"Counter\":{},\"Memory\":{},\"Scopes\":[],"
        "\"Untracked\":0,\"Missed\":0,\"Unit\":{\"Time\":\"ms\",\"Memory\":\"kB\",\"Scopes\":"
        "\"bytes\"}}";
    static const char *const orders[] = { "total", "avg", "min", "max", "count" };
    uint64_t t = mrd_now();
    char *text = NULL;

    start();
    CHECK_INT(mrd_set_config("aggregate_stats", "1"), MERIDIAN_OK); /* C-11 */
    mrd_span(NULL, "bare", t, t + 140, NULL, 0);
    mrd_span(domain, "long", t, t + 1000000, NULL, 0);
    mrd_span(domain, "long", t, t + 2500000, NULL, 0);
    for (int i = 0; i < 3; i++)
        mrd_span(domain, "short", t, t + 1000, NULL, 0);
    CHECK_INT(mrd_dumps(0, "table", "total", 0, &text), MERIDIAN_OK);
    CHECK_TEXT(text, table);
    mrd_free(text);
    CHECK_INT(mrd_dumps(0, "json", "total", 0, &text), MERIDIAN_OK);
    CHECK_TEXT(text, json);
    mrd_free(text);
    for (size_t i = 0; i < MRD_COUNT(orders); i++) /* C-16: the larger value comes first, or last */
        for (int ascending = 0; ascending < 2; ascending++) {
            bool first =
                /* the long spans are larger in every column except the number of calls */
                strcmp(orders[i], "count") != 0;

            CHECK_INT(mrd_dumps(0, ascending ? "table" : "json", orders[i], ascending, &text),
                      MERIDIAN_OK);
            CHECK_ROW(orders[i],
                      (strstr(text, "long") < strstr(text, "short")) == (first != ascending));
            mrd_free(text);
        }
    CHECK_INT(mrd_dumps(1, "json", "count", 0, &text), MERIDIAN_OK);
    mrd_free(text);
    CHECK_INT(mrd_dumps(0, "json", "total", 1, &text), MERIDIAN_OK); /* reset */
    CHECK(strncmp(text, "{\"Time\":{},", 11) == 0);
    mrd_free(text);
    CHECK_INT(mrd_dumps(0, "xml", "total", 1, &text), MERIDIAN_INVALID);
    CHECK_INT(mrd_dumps(0, "json", "colour", 1, &text), MERIDIAN_INVALID);
}

/* C-19: the mean of a counter must be weighted by time, and not be (max - min) / 2. */
TEST(counter_mean)
{
    mrd_counter *c;
    char *text = NULL, *avg;
    uint64_t set[2], cleared[2],
        read[2]; /* before and after each call, so the result is right on a slow machine too */
    double low, high, got;

    start();
    mrd_set_config("aggregate_stats", "1");
    c = mrd_counter_create(domain, "queue", "count", 0);
    set[0] = mrd_now();
    mrd_counter_set(c, 100);
    set[1] = mrd_now();
    spin_ns(30000000);
    cleared[0] = mrd_now();
    mrd_counter_set(c, 0);
    cleared[1] = mrd_now();
    spin_ns(10000000);
    read[0] = mrd_now();
    CHECK_INT(mrd_dumps(0, "json", "avg", 0, &text), MERIDIAN_OK);
    read[1] = mrd_now();
    avg = strstr(text, "\"Avg\":");
    REQUIRE(avg != NULL);
    got = strtod(avg + 6, NULL);
    high = 100.0 * (double) (cleared[1] - set[0]) / (double) (read[0] - set[1]) + 0.001;
    low = 100.0 * (double) (cleared[0] - set[1]) / (double) (read[1] - set[0]) - 0.001;
    CHECK(got <= high && got >= low);
    CHECK(strstr(text, "\"queue\":{\"Count\":2,\"Last\":0.0000,\"Min\":0.0000,\"Max\":100.0000") !=
          NULL);
    mrd_free(text);
    mrd_counter_destroy(c);
}

static mrd_region shared_region = MRD_REGION_INIT("shared");

static void *
region_thread(void *arg)
{
    (void) arg;
    for (int i = 0; i < 1000; i++) {
        mrd_region_start(&shared_region);
        mrd_region_start(&shared_region);
        mrd_region_stop(&shared_region);
        mrd_region_stop(&shared_region);
    }
    return NULL;
}

/* A new name needs memory. If memory runs out, an annotation reports no error and does not change
 * errno. */
TEST(errno_is_kept_without_memory)
{
    struct rlimit none = { 0, RLIM_INFINITY };
    char name[1000];

    start();
    mrd_instant(NULL, "first", MRD_SCOPE_THREAD, NULL, 0);
    CHECK_INT(setrlimit(RLIMIT_AS, &none), 0);
    memset(name, 'x', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    for (int i = 0; i < 200; i++) {
        name[0] = (char) ('0' + i % 10);
        name[1] = (char) ('0' + i / 10 % 10);
        name[2] = (char) ('0' + i / 100);
        errno = 4711;
        mrd_instant(NULL, name, MRD_SCOPE_THREAD, NULL, 0);
        if (errno != 4711)
            break;
    }
    CHECK_INT(errno, 4711);
}

/* Two regions of one name were started. Each stop ends the region that it was called for, in any
 * order. */
TEST(regions_of_one_name)
{
    for (size_t i = 0; i < 2; i++) {
        mrd_region set[2] = { MRD_REGION_INIT("same"), MRD_REGION_INIT("same") };

        start();
        CHECK_INT(mrd_region_start(&set[i]), MERIDIAN_OK);
        CHECK_INT(mrd_regions_stop_by_name(set, 2, "same"), MERIDIAN_OK);
        CHECK_INT(set[i].running, 0);
        CHECK_INT(mrd_regions_stop_by_name(set, 2, "same"), MERIDIAN_NOTFOUND);
    }
}

/* E-02 ... E-12 */
TEST(regions)
{
    const char *names[] = { "a", "b", NULL };
    mrd_region set[3], fixed = { "one", 3, 1234, 0, 0, 0 };
    pthread_t t[4];
    char buf[64], line[128] = "", all[512], printed[512] = "";
    FILE *f = tmpfile();
    size_t n;

    start();
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, region_thread, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    CHECK_INT(shared_region.entries, 8000);
    CHECK_INT(shared_region.running, 0);
    CHECK(shared_region.total_ns > 0);
    CHECK_INT(mrd_region_stop(&shared_region), MERIDIAN_NOTFOUND);  /* E-06 */
    CHECK_INT(mrd_regions_init(set, 3, names), MERIDIAN_OK);        /* E-10 */
    CHECK(strncmp(set[2].name, "region-", 7) == 0);                 /* E-03 */
    CHECK_INT(mrd_regions_start_by_name(set, 3, "b"), MERIDIAN_OK); /* E-08 */
    spin_ns(100000);
    CHECK_INT(mrd_regions_stop_by_name(set, 3, "b"), MERIDIAN_OK);
    CHECK_INT(mrd_regions_stop_by_name(set, 3, "b"), MERIDIAN_NOTFOUND);
    CHECK_INT(mrd_regions_start_by_name(set, 3, "z"), MERIDIAN_NOTFOUND);
    CHECK(set[1].total_ns >= 100000 && set[1].entries == 1 && set[0].entries == 0);
    CHECK_INT(mrd_region_print(&fixed, f), MERIDIAN_OK); /* E-07 */
    rewind(f);
    CHECK(fgets(line, sizeof(line), f) != NULL);
    CHECK_TEXT(line, "[prof] one: total_time: 1234 nsec nr_entries: 3\n");
    fclose(f);
    CHECK_INT(mrd_regions_print_to_buf(NULL, 0, &fixed, 1), 48); /* E-11 */
    CHECK_INT(mrd_regions_print_to_buf(buf, 10, &fixed, 1), 48);
    CHECK_TEXT(buf, "[prof] on");
    CHECK_INT(mrd_regions_print_all(set, 3, NULL), MERIDIAN_INVALID);
    f = tmpfile();
    CHECK_INT(mrd_regions_print_all(set, 3, f), MERIDIAN_OK); /* E-10 */
    n = (size_t) ftell(f);
    rewind(f);
    CHECK(n < sizeof(all) && n == mrd_regions_print_to_buf(all, sizeof(all), set, 3));
    CHECK_INT(fread(printed, 1, sizeof(printed) - 1, f), n);
    CHECK_TEXT(printed, all);
    CHECK(strstr(all, "[prof] a: total_time: 0 nsec nr_entries: 0\n[prof] b: total_time: ") == all);
    fclose(f);
    CHECK_INT(mrd_regions_clear(NULL, 1), MERIDIAN_INVALID);
    CHECK_INT(mrd_region_start(&set[0]), MERIDIAN_OK);
    CHECK_INT(mrd_regions_clear(set, 3), MERIDIAN_OK); /* E-09 */
    CHECK(set[1].total_ns == 0 && set[1].entries == 0 && set[0].entries == 1);
    CHECK_INT(mrd_regions_start_by_name(set, 3, "b"), MERIDIAN_OK);
    CHECK_INT(mrd_regions_stop_by_name(set, 3, "b"), MERIDIAN_OK);
    CHECK_INT(mrd_region_stop(&set[0]), MERIDIAN_OK);
    CHECK(set[1].entries == 1 && set[0].running == 0);
    CHECK_INT(mrd_regions_release(set, 3), MERIDIAN_OK); /* E-04 */
    CHECK(set[0].name == NULL);
    CHECK_INT(mrd_region_start(&set[0]), MERIDIAN_INVALID);
    CHECK_INT(mrd_region_release(NULL), MERIDIAN_OK);
}

/* Regions also appear as spans on the timeline. */
TEST(regions_are_spans)
{
    mrd_region outer = MRD_REGION_INIT("outer region"), inner = MRD_REGION_INIT("inner region");

    start();
    CHECK_INT(mrd_region_start(&outer), MERIDIAN_OK);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(mrd_region_start(&inner), MERIDIAN_OK);
        spin_ns(1000);
        CHECK_INT(mrd_region_stop(&inner), MERIDIAN_OK);
    }
    CHECK_INT(mrd_region_stop(&outer), MERIDIAN_OK);
    collect();
    CHECK_INT(event_count, 3);
    CHECK_INT(count("inner region"), 2);
    REQUIRE(find("outer region", MRD_REC_SPAN)->kind != 0);
    CHECK(find("outer region", 0)->dur >= 2000 && find("inner region", 0)->dur >= 1000);
    CHECK(find("inner region", 0)->ts >= find("outer region", 0)->ts);
    CHECK(inner.total_ns <= outer.total_ns && inner.total_ns >= 2000);
}

/* A region that was started before a pause ends in it. Nothing else can be stopped there. */
TEST(regions_across_a_pause)
{
    mrd_region open = MRD_REGION_INIT("open"), closed = MRD_REGION_INIT("closed");

    start();
    CHECK_INT(mrd_region_start(&closed), MERIDIAN_OK);
    CHECK_INT(mrd_region_stop(&closed), MERIDIAN_OK);
    CHECK_INT(mrd_region_start(&open), MERIDIAN_OK);
    CHECK_INT(mrd_pause(), MERIDIAN_OK);
    CHECK_INT(mrd_region_stop(&closed), MERIDIAN_OK);
    CHECK_INT(open.running, 1);
    CHECK_INT(mrd_region_stop(&open), MERIDIAN_OK);
    CHECK_INT(open.running, 0);
    CHECK(open.total_ns > 0);
    CHECK_INT(mrd_region_stop(&open), MERIDIAN_OK);
    CHECK_INT(mrd_region_stop(NULL), MERIDIAN_OK);
    CHECK_INT(mrd_resume(), MERIDIAN_OK);
    CHECK_INT(mrd_region_stop(&open), MERIDIAN_NOTFOUND);
    collect();
    CHECK_INT(event_count, 2);
}

/* D-01 ... D-06 */
TEST(counter_sessions)
{
    const char *good[] = { "mem.MemTotal_bytes", "cpu.*" }, *bad[] = { "mem.MemTotol_bytes" };
    mrd_counters *c = NULL;
    mrd_counter_value v[4096];
    int64_t at_stop = 0;
    size_t n;

    CHECK_INT(mrd_counters_create(bad, 1, -1, -1, &c), MERIDIAN_NOTFOUND);
    CHECK(strstr(mrd_last_error(), "mem.MemTotol_bytes") != NULL);
    CHECK_INT(mrd_counters_create(NULL, 1, -1, -1, &c), MERIDIAN_INVALID);
    CHECK_INT(mrd_counters_create(good, 2, -1, -1, &c), MERIDIAN_OK);
    REQUIRE(c != NULL);
    n = mrd_counters_count(c);
    CHECK(n >= 2 && n <= 4096);
    CHECK_INT(mrd_counters_poll(c, 0, 1000000000, v, 4096), MERIDIAN_STATE);
    CHECK_INT(mrd_counters_stop(c), MERIDIAN_STATE);
    CHECK_INT(mrd_counters_start(c, 1000000000), MERIDIAN_OK);
    CHECK_INT(mrd_counters_start(c, 1000000000), MERIDIAN_STATE);
    CHECK_INT(mrd_counters_poll(c, 0, 1000000000, v, 1), MERIDIAN_LIMIT);
    CHECK_INT(mrd_counters_poll(c, 0, 1000000000, v, 4096), MERIDIAN_OK);
    CHECK_TEXT(v[0].name, "mem.MemTotal_bytes");
    CHECK(v[0].valid && !v[0].is_double && v[0].value.i > 1 << 20 && v[0].raw_ns > 0);
    CHECK_INT(mrd_counters_stop(c), MERIDIAN_OK);
    for (int i = 0; i < 2; i++) { /* D-13 */
        CHECK_INT(mrd_counters_poll(c, 0, 1000000000, v, 4096), MERIDIAN_OK);
        CHECK(at_stop == 0 || v[0].raw_ns == at_stop);
        at_stop = v[0].raw_ns;
    }
    mrd_counters_destroy(c);
    CHECK_INT(mrd_counters_create(good, 1, 4711, -1, &c), MERIDIAN_NOTFOUND);
    CHECK(strstr(mrd_last_error(), "no counters on device 4711 here") != NULL);
    mrd_counters_destroy(NULL);
}

/* D-07 ... D-12 */
TEST(models)
{
    static const char abc_hash[] =
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    mrd_models *symbols = NULL, *copies = NULL;
    mrd_model_list list;
    char path[300], wanted[64];
    uint64_t load_number = 0;
    FILE *f;

    start();
    snprintf(path, sizeof(path), "%s/m.neff", test_tmp());
    f = fopen(path, "w");
    fputs("abc", f);
    fclose(f);
    CHECK_INT(mrd_model_loaded(1, NULL, "before", 6, 0, 1), MERIDIAN_OK);
    CHECK_INT(mrd_models_create((mrd_models_mode) 7, 0, &symbols), MERIDIAN_INVALID);
    CHECK_INT(mrd_models_create(MRD_MODELS_SYMBOLS, 42, &symbols), MERIDIAN_OK);
    CHECK_INT(mrd_models_create(MRD_MODELS_ALL, 0, &copies), MERIDIAN_OK);
    CHECK_INT(mrd_models_stop(symbols), MERIDIAN_STATE);
    CHECK_INT(mrd_models_start(symbols), MERIDIAN_OK); /* start + stop: a snapshot */
    CHECK_INT(mrd_models_start(symbols), MERIDIAN_STATE);
    CHECK_INT(mrd_models_stop(symbols), MERIDIAN_OK);
    CHECK_INT(mrd_models_start(copies), MERIDIAN_OK);
    CHECK_INT(mrd_model_loaded(2, NULL, "abc", 3, 1, 2), MERIDIAN_OK);
    CHECK_INT(mrd_model_loaded(3, path, NULL, 0, -1, -1), MERIDIAN_OK);
    CHECK_INT(mrd_model_unloaded(2), MERIDIAN_OK);
    CHECK_INT(mrd_model_unloaded(2), MERIDIAN_NOTFOUND);
    CHECK_INT(mrd_models_get(symbols, &list), MERIDIAN_OK);
    CHECK_INT(list.count, 1);
    CHECK_INT(list.userdata, 42);
    CHECK_INT(list.records[0].model_id, 1);
    CHECK(list.records[0].data == NULL && list.records[0].unload_ns == 0);
    CHECK_INT(mrd_models_get(copies, &list), MERIDIAN_OK);
    REQUIRE(list.count == 3);
    CHECK_INT(list.records[1].vnc_count, 2);
    CHECK_INT(list.records[1].load_number, list.records[0].load_number + 1); /* D-14 */
    load_number = list.records[1].load_number;
    CHECK(list.records[1].unload_ns >= list.records[1].load_ns);
    CHECK_TEXT(list.records[1].sha256, abc_hash);
    CHECK(strncmp(list.records[1].uri, "memory://ba7816bf", 17) == 0);
    CHECK(list.records[1].data_size == 3 && memcmp(list.records[1].data, "abc", 3) == 0);
    CHECK_TEXT(list.records[2].sha256, abc_hash);
    CHECK(strncmp(list.records[2].uri, "file:///", 8) == 0);
    CHECK(list.records[2].data_size == 3 && memcmp(list.records[2].data, "abc", 3) == 0);
    CHECK_INT(mrd_models_free(copies), MERIDIAN_OK);
    CHECK_INT(mrd_models_free(symbols), MERIDIAN_OK);
    CHECK_INT(mrd_models_get(NULL, &list), MERIDIAN_INVALID);
    collect();
    CHECK_INT(count("model ba7816bf8f01"), 3);
    REQUIRE(find("model ba7816bf8f01", MRD_REC_MODEL)->kind != 0);
    CHECK(strstr(find("model ba7816bf8f01", 0)->args, "model_id=2 size=3 vnc=1 vnc_count=2 ") !=
          NULL);
    snprintf(wanted, sizeof(wanted), "load_number=%llu", (unsigned long long) load_number);
    CHECK(strstr(find("model ba7816bf8f01", 0)->args, wanted) != NULL);
    CHECK(strstr(find("model ba7816bf8f01", 0)->args, abc_hash) != NULL);
}

/* The load of a model and its unload are joined by the argument model_id, in any order. */
TEST(models_join_in_any_order)
{
    static const uint64_t loads[] = { 11, 12, 13, 14 }, unloads[] = { 11, 13, 12, 14 };
    uint64_t number[2][15] = { { 0 } };

    start();
    for (size_t i = 0; i < MRD_COUNT(loads); i++)
        CHECK_INT(mrd_model_loaded(loads[i], NULL, "same", 4, 0, 1), MERIDIAN_OK);
    for (size_t i = 0; i < MRD_COUNT(unloads); i++)
        CHECK_INT(mrd_model_unloaded(unloads[i]), MERIDIAN_OK);
    collect();
    for (size_t i = 0; i < event_count; i++) {
        const char *id = strstr(events[i].args, "model_id=");

        if (events[i].kind == MRD_REC_MODEL && id != NULL)
            number[(events[i].flags & MRD_RECF_UNLOAD) != 0][atoi(id + 9)] = events[i].value;
    }
    for (size_t i = 0; i < MRD_COUNT(loads); i++) {
        CHECK(number[0][loads[i]] != 0);
        CHECK_INT(number[1][loads[i]], number[0][loads[i]]);
        for (size_t k = 0; k < i; k++)
            CHECK(number[0][loads[k]] != number[0][loads[i]]);
    }
}

/* The library is loaded late, as Python does, and unloaded. It stays in memory with its
 * thread-local data. */
TEST(dlopen_dlclose)
{
    char path[512];
    void (*push)(const mrd_domain *, const char *), (*pop)(const mrd_kv *, size_t);

    snprintf(path, sizeof(path), "%s/lib/libmeridian.so", getenv("MERIDIAN_BUILD"));
    start();
    for (int i = 0; i < 3; i++) {
        void *lib = dlopen(path, RTLD_NOW);
        void *found;

        REQUIRE(lib != NULL);
        found = dlsym(lib, "mrd_push_");
        memcpy(&push, &found, sizeof(push));
        found = dlsym(lib, "mrd_pop_");
        memcpy(&pop, &found, sizeof(pop));
        push(domain, "late");
        dlclose(lib);
        pop(NULL, 0);
    }
    collect();
    CHECK_INT(count("late"), 3);
}

int
main(int argc, char **argv)
{
    return api_main(argc, argv);
}
