/* Tests that the events of trace files in capture directories become events of the session, each of
 * them once. */
#include "tests/agent/ring_make.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "agent/daemon/agent.h"
#include "agent/daemon/traces.h"
#include "base/sys/out.h"
#include "tests/agent/open_agent.h"
#include "tests/fake/link.h"
#include "tests/protobuf.h"
#include "tests/seed.h"
#include "tests/wait.h"

#define SESSION 77u

static char watched[512], spool_dir[512];

static mrd_agent_options
settings(bool spool)
{
    static char *dirs[1];
    mrd_agent_options o = { .ring_dir = (char *) (uintptr_t) test_tmp(),
                            .flush = 20 * MRD_MS,
                            .spool_bytes = 64 << 20,
                            .recorder_bytes = 64 << 20,
                            .artifact_max = 1 << 30,
                            .stable = 20 * MRD_MS };

    snprintf(watched, sizeof(watched), "%s/capture", test_tmp());
    snprintf(spool_dir, sizeof(spool_dir), "%s/spool", test_tmp());
    dirs[0] = watched;
    o.watch = (mrd_strlist){ dirs, 1, 1 };
    o.spool_dir = spool ? spool_dir : NULL;
    return o;
}

static void
control(mrd_agent *a, Mrd__ControlType type)
{
    Mrd__Control c = MRD__CONTROL__INIT;
    Mrd__ControlReply reply = MRD__CONTROL_REPLY__INIT;
    char message[MRD_WHY_MAX], name[] = "test";

    c.type = type;
    c.session = SESSION;
    c.name = name;
    mrd_agent_control(a, &c, &reply, message);
    CHECK_INT(reply.err, MRD_OK);
}

static void
put(const char *rel, const mrd_buf *text)
{
    char path[1024];

    snprintf(path, sizeof(path), "%s/%s", watched, rel);
    CHECK_ERR("write", mrd_write_file(path, (mrd_bytes){ text->p, text->len }, 0644, NULL), MRD_OK);
}

/* Writes `n` spans of the runtime, numbered from `from`. The last ones come first, so that sorting
 * matters. */
static void
runtime_json(mrd_buf *to, int from, int n, const char *tail)
{
    int64_t now = mrd_wall_now().ns;

    mrd_buf_text(to, "{\"data_version\": 2, \"events\": [\n");
    for (int i = from + n - 1; i >= from; i--) {
        for (int stop = 0; stop < 2; stop++)
            mrd_buf_fmt(to,
                        "{\"id\": %d, \"event_type\": \"nrt_execute\", \"phase\": \"%s\", "
                        "\"nc_idx\": 1, \"tracking_id\": %d, \"thread_id\": 9, "
                        "\"timestamp_ns\": %lld, \"data\": {\"my_id\": %d}},\n",
                        2 * i + stop, stop ? "stop" : "start", i,
                        (long long) (now + i * 1000 + stop * 500), i);
    }
    to->len -= 2;
    mrd_buf_fmt(to, "%s]}\n", tail);
}

static void
framework_json(mrd_buf *to, int from, int n)
{
    int64_t us = mrd_wall_now().ns / MRD_US;

    mrd_buf_text(to, "{\"traceEvents\": [\n");
    for (int i = from; i < from + n; i++)
        mrd_buf_fmt(to,
                    "{\"ph\": \"X\", \"name\": \"aten::mm\", \"cat\": \"cpu_op\", \"pid\": 4711, "
                    "\"tid\": 4, \"ts\": %lld, \"dur\": 1, \"args\": {\"my id\": %d}}%s\n",
                    (long long) us + i - from, i, i == from + n - 1 ? "" : ",");
    mrd_buf_text(to, "]}\n");
}

static uint64_t
stored_once(const fake_aggregator *g, int from, int n)
{
    uint64_t once = 0;

    for (int i = from; i < from + n; i++)
        once += g->seen[i] == 1;
    return once;
}

static void
check_equation(const mrd_agent *a)
{
    mrd_agent_counts c;
    uint64_t dropped = 0;

    mrd_agent_counters(a, &c);
    for (int i = 0; i < MRD_DROP_CAUSES; i++)
        dropped += c.dropped[i];
    CHECK_INT(c.begun, c.delivered + dropped + c.held);
}

/* Runs until this number of files was read, failed or ignored, and all events are flushed. */
static void
wait_for_artifacts(mrd_agent *a, fake_aggregator *g, uint64_t artifacts)
{
    mrd_agent_counts c;

    for (int i = 0; i < 60000; i++) {
        mrd_agent_step(a, 1);
        mrd_agent_counters(a, &c);
        if (g->artifacts >= artifacts)
            break;
    }
    CHECK_INT(g->artifacts, artifacts);
    control(a, MRD__CONTROL_TYPE__CONTROL_STOP);
    for (int i = 0; i < 60000 && g->phase != MRD__NODE_PHASE__NODE_FLUSHED; i++)
        mrd_agent_step(a, 1);
    CHECK_INT(g->phase, MRD__NODE_PHASE__NODE_FLUSHED);
    check_equation(a);
    CHECK_INT(g->begun, g->delivered + g->dropped + g->held);
}

TEST(trace_files_become_events_and_stay_artifacts)
{
    mrd_agent_options o = settings(false);
    fake_faults faults = { .seed = 1 };
    mrd_buf text = { 0 };
    fake_aggregator g;
    mrd_agent_counts c;
    mrd_agent *a;

    fake_aggregator_init(&g);
    REQUIRE((a = open_agent(&o, fake_link(&g, &faults, 4))) != NULL);
    control(a, MRD__CONTROL_TYPE__CONTROL_GO);
    runtime_json(&text, 1, 20000, ", {\"event_type\": \"nrt_load\", \"phase\": \"start\"}");
    put("i-test_pid_4711/1700/sys_trace.json", &text); /* the last record has no time */
    mrd_buf_reset(&text);
    framework_json(&text, 30001, 5000);
    put("i-test_pid_4711/1700/trace.json", &text);
    mrd_buf_reset(&text);
    runtime_json(&text, 40001, 100, "");
    put("i-other_pid_4711/1700/sys_trace.json", &text); /* that node takes it */
    mrd_buf_reset(&text);
    mrd_buf_text(&text, "{\"some\": \"settings\"}\n");
    put("i-test_pid_4711/config.json", &text);
    wait_for_artifacts(a, &g, 2); /* settings are no trace */
    CHECK_INT(stored_once(&g, 1, 20000), 20000);
    CHECK_INT(stored_once(&g, 30001, 5000), 5000);
    CHECK_INT(g.events, 25000);
    CHECK_INT(g.lost, 1);
    mrd_agent_counters(a, &c);
    CHECK_INT(c.traces, 2);
    CHECK_INT(c.trace_events, 25000);
    CHECK_INT(c.dropped[MRD_DROP_JSON], 1);
    CHECK_INT(c.artifacts_sent, 2);
    CHECK_INT(c.files_ignored, 1);
    CHECK_INT(c.files_elsewhere, 1);
    mrd_agent_close(a);
    mrd_buf_fini(&text);
    fake_aggregator_fini(&g);
}

/* ---- XSpaces ---- */

/* Writes a host plane with `n` events, numbered from `from` and 1 us apart. */
static void
xspace(mrd_buf *to, int from, int n)
{
    mrd_buf plane = { 0 }, line = { 0 }, inner = { 0 }, e = { 0 };

    pb_text(&plane, 2, "/host:CPU");
    pb_number(&line, 1, 583);
    pb_text(&line, 2, "python");
    pb_number(&line, 3, (uint64_t) mrd_wall_now().ns);
    for (int i = from; i < from + n; i++) {
        pb_number(&e, 1, 1);
        pb_number(&e, 2, (uint64_t) (i - from) * 1000000);
        pb_number(&e, 3, 500000);
        pb_number(&inner, 1, 7);
        pb_number(&inner, 4, (uint64_t) i);
        pb_close_into(&e, 4, &inner);
        pb_close_into(&line, 4, &e);
    }
    pb_close_into(&plane, 3, &line);
    pb_xplane_name(&plane, 4, 1, "fusion");
    pb_xplane_name(&plane, 5, 7, "my id");
    pb_close_into(to, 1, &plane);
}

/* Waits until this number of files was read, so that the next file is read after them. */
static void
wait_for_traces(mrd_agent *a, uint64_t traces)
{
    mrd_agent_counts c = { 0 };

    for (int i = 0; i < 60000 && c.traces < traces; i++) {
        mrd_agent_step(a, 1);
        mrd_agent_counters(a, &c);
    }
    CHECK_INT(c.traces, traces);
}

static mrd_err
count_span(void *self, mrd_drain_process *process, unsigned clock, const mrd_event *ev)
{
    (void) process, (void) clock;
    *(size_t *) self += ev->kind == MRD_SPAN;
    return MRD_OK;
}

static void
any_process(void *self, mrd_drain_process *process)
{
    (void) self, (void) process;
}

static void
no_matter(void *self, const mrd_files_complete *file, mrd_trace_end end, uint64_t events,
          const char *message)
{
    (void) self, (void) file, (void) end, (void) events, (void) message;
}

/* Reports a complete file of a host in a capture directory below `watched`. */
static void
complete_in(mrd_traces *t, const char *dir, const char *end, const mrd_buf *text)
{
    mrd_files_complete file = { .uid = MRD_OWNED_ANY, .pid = MRD_NONE };
    const char *pair = end[0] == '.' ? "plugins/profile/pair/host" : ""; /* else a name */
    char rel[80], below[120], path[1200];

    snprintf(rel, sizeof(rel), "%s%s", pair, end);
    snprintf(below, sizeof(below), "%s/%s", dir, rel);
    snprintf(path, sizeof(path), "%s/%s", watched, below);
    put(below, text);
    file.path = path;
    file.rel = rel;
    file.sha256 = end; /* other contents */
    REQUIRE((file.fd = open(path, O_RDONLY | O_CLOEXEC)) >= 0);
    mrd_traces_file(t, &file);
    close(file.fd);
}

static void
complete(mrd_traces *t, const char *end, const mrd_buf *text)
{
    complete_in(t, "i-test_pid_4711", end, text);
}

/* Two processes profile from the same second, each into its own capture directory. */
TEST(the_other_format_of_another_directory_is_another_trace)
{
    size_t events = 0;
    mrd_traces_options o = { .instance_id = "i-test",
                             .event = count_span,
                             .process = any_process,
                             .finished = no_matter,
                             .self = &events };
    mrd_buf space = { 0 }, json = { 0 };
    mrd_traces_stats st;
    mrd_traces *t;

    (void) settings(false); /* makes the directory */
    xspace(&space, 1, 50);
    framework_json(&json, 1, 60);
    CHECK_ERR("open", mrd_traces_open(&o, &t, NULL), MRD_OK);
    complete_in(t, "a", ".trace.json", &json);
    complete_in(t, "b", ".xplane.pb", &space);
    TEST_UNTIL((mrd_traces_step(t, true), mrd_traces_idle(t)));
    mrd_traces_get_stats(t, &st);
    CHECK_INT(st.files, 2);
    CHECK_INT(events, 110);
    mrd_traces_close(t);
    mrd_buf_fini(&space);
    mrd_buf_fini(&json);
}

/* The files of both formats of a trace are complete before the agent reads the first one. If the
 * first file gives no events, the agent reads the other one. Otherwise it reads only one of
 * them. */
TEST(of_two_formats_at_once_the_good_one_is_read)
{
    enum { EVENTS = 50 };
    static const struct {
        /* bad: content of the first file, NULL for a valid trace */
        const char *name, *first, *second, *bad;
    } rows[] = {
        { "bad XSpace, then JSON", ".xplane.pb", ".trace.json", "no trace at all" },
        { "XSpace, then JSON", ".xplane.pb", ".trace.json", NULL },
        { "bad JSON, then XSpace", ".trace.json", ".xplane.pb", "no trace at all" },
        { "JSON of no date, as JAX's, then XSpace", ".trace.json", ".xplane.pb",
          "{\"traceEvents\": [{\"ph\": \"X\", \"name\": \"x\", \"pid\": 1, \"tid\": 1, "
          "\"ts\": 5, \"dur\": 1}]}" },
        { "JSON, then XSpace", ".trace.json", ".xplane.pb", NULL },
    };

    (void) settings(false); /* makes the directory */
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        bool space_first = rows[i].first[1] == 'x';
        mrd_buf bad = { 0 }, space = { 0 }, json = { 0 };
        size_t events = 0;
        mrd_traces_options o = { .instance_id = "i-test",
                                 .event = count_span,
                                 .process = any_process,
                                 .finished = no_matter,
                                 .self = &events };
        mrd_traces_stats st;
        mrd_traces *t;

        mrd_buf_text(&bad, rows[i].bad == NULL ? "" : rows[i].bad);
        xspace(&space, 1, EVENTS);
        framework_json(&json, 1, EVENTS);
        CHECK_ERR(rows[i].name, mrd_traces_open(&o, &t, NULL), MRD_OK);
        complete(t, rows[i].first, rows[i].bad != NULL ? &bad : space_first ? &space : &json);
        complete(t, rows[i].second, space_first ? &json : &space);
        TEST_UNTIL((mrd_traces_step(t, true), mrd_traces_idle(t)));
        mrd_traces_get_stats(t, &st);
        CHECK_ROW(rows[i].name, events == EVENTS);
        CHECK_ROW(rows[i].name, st.files == 1 && st.left_alone == 1 && st.failed == 0);
        mrd_traces_close(t);
        mrd_buf_fini(&bad);
        mrd_buf_fini(&space);
        mrd_buf_fini(&json);
    }
}

typedef struct {
    uint64_t events;
    mrd_trace_end end;
    char message[256];
} conclusion;

static void
note_conclusion(void *self, const mrd_files_complete *file, mrd_trace_end end, uint64_t events,
                const char *message)
{
    conclusion *c = self;

    (void) file;
    c->events = events;
    c->end = end;
    snprintf(c->message, sizeof(c->message), "%s", message);
}

static mrd_err
any_event(void *self, mrd_drain_process *process, unsigned clock, const mrd_event *ev)
{
    (void) self, (void) process, (void) clock, (void) ev;
    return MRD_OK;
}

/* A file without a date was read completely, so its message must not indicate damage. */
TEST(a_file_without_a_date_is_no_damaged_one)
{
    conclusion c = { 0 };
    mrd_traces_options o = { .instance_id = "i-test",
                             .event = any_event,
                             .process = any_process,
                             .finished = note_conclusion,
                             .self = &c };
    mrd_buf json = { 0 };
    mrd_traces *t;

    (void) settings(false); /* makes the directory */
    CHECK_ERR("open", mrd_traces_open(&o, &t, NULL), MRD_OK);
    mrd_buf_text(&json, "{\"traceEvents\": [{\"ph\": \"X\", \"name\": \"x\", \"pid\": 1, "
                        "\"tid\": 1, \"ts\": 5, \"dur\": 1}]}");
    complete(t, "undated.json", &json);
    TEST_UNTIL((mrd_traces_step(t, true), mrd_traces_idle(t)));
    CHECK_INT(c.events, 1);
    CHECK_INT(c.end, MRD_TRACE_UNDATED);
    CHECK_ROW(c.message, strstr(c.message, "does not say when that was") != NULL);
    mrd_buf_reset(&json);
    framework_json(&json, 1, 20);
    complete(t, "dated.json", &json);
    TEST_UNTIL((mrd_traces_step(t, true), mrd_traces_idle(t)));
    CHECK_INT(c.events, 20);
    CHECK_INT(c.end, MRD_TRACE_WHOLE);
    CHECK_ROW(c.message, c.message[0] == '\0');
    mrd_traces_close(t);
    mrd_buf_fini(&json);
}

/* The session is incomplete only if events of a file may be missing. */
TEST(the_end_of_a_file_is_reported)
{
    static const struct {
        /* `text` is the content of the file. NULL means 20 events, "" means 19 and a part of one. */
        const char *name, *file, *text;
        mrd_trace_end end;
        const char *message;
    } rows[] = {
        { "whole", "whole.json", NULL, MRD_TRACE_WHOLE, "" },
        { "cut", "cut.json", "", MRD_TRACE_CUT, ": byte " },
        { "without events", "none.json", "{\"traceEvents\": [{\"ph\": \"X\", \"na", MRD_TRACE_CUT,
          "" },
        { "another kind", "kind.json", "{\"a\": 1}", MRD_TRACE_LEFT, "not a trace" },
    };
    conclusion c = { 0 };
    mrd_traces_options o = { .instance_id = "i-test",
                             .event = any_event,
                             .process = any_process,
                             .finished = note_conclusion,
                             .self = &c };
    mrd_traces *t;

    (void) settings(false); /* makes the directory */
    CHECK_ERR("open", mrd_traces_open(&o, &t, NULL), MRD_OK);
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        bool made = rows[i].text == NULL || rows[i].text[0] == '\0';
        mrd_buf json = { 0 };

        if (made)
            framework_json(&json, 1, 20);
        else
            mrd_buf_text(&json, rows[i].text);
        json.len -= made && rows[i].text != NULL ? 60 : 0;
        complete(t, rows[i].file, &json);
        TEST_UNTIL((mrd_traces_step(t, true), mrd_traces_idle(t)));
        CHECK_ROW(rows[i].name, c.end == rows[i].end);
        CHECK_ROW(rows[i].name, strstr(c.message, rows[i].message) != NULL);
        CHECK_ROW(rows[i].name, (c.message[0] == '\0') == (c.end == MRD_TRACE_WHOLE));
        CHECK_ROW(rows[i].name, rows[i].end != MRD_TRACE_CUT || !made || c.events == 20);
        mrd_buf_fini(&json);
    }
    mrd_traces_close(t);
}

/* An XSpace is read like JSON, and only one of two formats of the same trace. A file that is
 * damaged, truncated or too large for the memory limit affects no other file, and its JSON variant
 * is read instead. */
TEST(xspaces_are_read_live)
{
    mrd_agent_options o = settings(false);
    fake_faults faults = { .seed = 1 };
    mrd_buf text = { 0 }, late = { 0 };
    fake_aggregator g;
    mrd_agent_counts c;
    mrd_agent *a;

    fake_aggregator_init(&g);
    REQUIRE((a = open_agent(&o, fake_link(&g, &faults, 4))) != NULL);
    control(a, MRD__CONTROL_TYPE__CONTROL_GO);
    /* The events of `late` are so early that they are within the session whenever it is stopped. */
    framework_json(&late, 30001, 2000);
    xspace(&text, 1, 9000);
    put("i-test_pid_4711/plugins/profile/one/host.xplane.pb", &text);
    wait_for_traces(a, 1);
    mrd_buf_reset(&text);
    framework_json(&text, 1, 9000); /* the same events */
    put("i-test_pid_4711/plugins/profile/one/host.trace.json", &text);
    mrd_buf_reset(&text);
    pb_varint(&text, 1 << 3 | 2);
    pb_varint(&text, 1ull << 40); /* a plane without an end */
    mrd_buf_text(&text, "and little behind it");
    put("i-test_pid_4711/plugins/profile/endless/host.xplane.pb", &text);
    mrd_buf_reset(&text);
    for (int i = 0; i < 5000; i++)
        mrd_buf_byte(&text, 0);
    put("i-test_pid_4711/plugins/profile/zeros/host.xplane.pb", &text);
    mrd_buf_reset(&text);
    xspace(&text, 40001, 100);
    pb_varint(&text, 1 << 3 | 2);
    pb_varint(&text, MRD_TRACES_PART + 1ull); /* the part before it is read */
    put("i-test_pid_4711/plugins/profile/large/host.xplane.pb", &text);
    mrd_buf_reset(&text);
    xspace(&text, 20001, 1000);
    text.len -= 100; /* within its only plane */
    put("i-test_pid_4711/plugins/profile/cut/host.xplane.pb", &text);
    for (int i = 0; i < 60000 && g.artifacts < 6; i++)
        mrd_agent_step(a, 1);
    /* the JSON variant of the endless file */
    put("i-test_pid_4711/plugins/profile/endless/host.trace.json", &late);
    wait_for_artifacts(a, &g, 7);
    for (int i = 0; i < 60000 && g.events < 11100; i++) /* a file may be sent before it is read */
        mrd_agent_step(a, 1);
    CHECK_INT(stored_once(&g, 40001, 100), 100);
    CHECK_INT(stored_once(&g, 1, 9000), 9000);
    CHECK_INT(stored_once(&g, 30001, 2000), 2000);
    CHECK_INT(g.events, 11100);
    mrd_agent_counters(a, &c);
    CHECK_INT(c.trace_events, 11100);
    mrd_agent_close(a);
    mrd_buf_fini(&text);
    mrd_buf_fini(&late);
    fake_aggregator_fini(&g);
}

/* Events of another time (an old file, or a clock other than the wall clock) do not belong to the
 * session. A truncated file gives the events before the cut, and the session names it. */
TEST(strange_files_are_counted)
{
    mrd_agent_options o = settings(false);
    fake_faults faults = { .seed = 1 };
    mrd_buf text = { 0 };
    fake_aggregator g;
    mrd_agent_counts c;
    mrd_agent *a;

    fake_aggregator_init(&g);
    REQUIRE((a = open_agent(&o, fake_link(&g, &faults, 4))) != NULL);
    control(a, MRD__CONTROL_TYPE__CONTROL_GO);
    mrd_buf_text(
        &text,
        "{\"traceEvents\": [{\"ph\": \"X\", \"name\": \"x\", \"pid\": 1, \"tid\": 1, "
        "\"ts\": 5, \"dur\": 1}, {\"ph\": \"B\", \"name\": \"open\", \"pid\": 1, \"tid\": 1, "
        "\"ts\": 4}]}"); /* which never ended, and is not still open */
    put("i-test_pid_4711/boot.json", &text);
    mrd_buf_reset(&text);
    runtime_json(&text, 1, 1000, "");
    text.len -= 700;
    put("i-test_pid_4712/cut.json", &text);
    wait_for_artifacts(a, &g, 2);
    mrd_agent_counters(a, &c);
    CHECK_INT(c.traces, 2);
    CHECK_INT(c.dropped[MRD_DROP_UNSENT], 2);
    CHECK(g.events > 990 && g.events < 1000);
    /* The session's status still names the truncated file after a later complete file. */
    CHECK_INT(g.cut_files, 1);
    CHECK_ROW(g.cut_file, strstr(g.cut_file, "i-test_pid_4712/cut.json': ") != NULL &&
                              strstr(g.cut_file, "the input ends") != NULL);
    mrd_agent_close(a);
    mrd_buf_fini(&text);
    fake_aggregator_fini(&g);
}

/* A program writes each trace under the same name, sooner than a file can be complete. */
TEST(replaced_files_are_counted)
{
    enum { VERSIONS = 3 };
    mrd_agent_options o = settings(false);
    fake_faults faults = { .seed = 1 };
    fake_aggregator g;
    mrd_agent_counts c;
    mrd_agent *a;

    o.stable = 500 * MRD_MS;
    fake_aggregator_init(&g);
    REQUIRE((a = open_agent(&o, fake_link(&g, &faults, 4))) != NULL);
    control(a, MRD__CONTROL_TYPE__CONTROL_GO);
    for (int i = 0; i < VERSIONS; i++) {
        mrd_buf text = { 0 };

        framework_json(&text, 1 + 100 * i, 100);
        put("i-test_pid_4711/step.json", &text);
        mrd_buf_fini(&text);
        for (int64_t end = test_clock_ms() + 150; test_clock_ms() < end;) /* long enough to look */
            mrd_agent_step(a, 1);
    }
    wait_for_artifacts(a, &g, 1);
    mrd_agent_counters(a, &c);
    CHECK_INT(c.traces + g.cut_files, VERSIONS); /* on a slow machine, more versions are read */
    CHECK_ROW(g.cut_file,
              g.cut_files == 0 || strstr(g.cut_file, "step.json': it was replaced") != NULL);
    mrd_agent_close(a);
    fake_aggregator_fini(&g);
}

/* A program removes a trace before it is complete. */
TEST(removed_files_are_counted)
{
    mrd_agent_options o = settings(false);
    fake_faults faults = { .seed = 1 };
    mrd_buf text = { 0 };
    fake_aggregator g;
    char path[1024];
    mrd_agent *a;

    o.stable = 500 * MRD_MS;
    fake_aggregator_init(&g);
    REQUIRE((a = open_agent(&o, fake_link(&g, &faults, 4))) != NULL);
    control(a, MRD__CONTROL_TYPE__CONTROL_GO);
    framework_json(&text, 1, 100);
    put("i-test_pid_4711/gone.json", &text);
    for (int64_t end = test_clock_ms() + 150; test_clock_ms() < end;) /* long enough to look */
        mrd_agent_step(a, 1);
    snprintf(path, sizeof(path), "%s/i-test_pid_4711/gone.json", watched);
    CHECK(unlink(path) == 0);
    wait_for_artifacts(a, &g, 0);
    CHECK_INT(g.cut_files, 1);
    CHECK_ROW(g.cut_file, strstr(g.cut_file, "gone.json': it was removed") != NULL);
    mrd_agent_close(a);
    mrd_buf_fini(&text);
    fake_aggregator_fini(&g);
}

/* A program writes a trace in two parts. The session has each event once, and is complete. */
TEST(a_file_that_grows_is_whole_in_the_end)
{
    mrd_agent_options o = settings(false);
    fake_faults faults = { .seed = 1 };
    mrd_buf text = { 0 };
    fake_aggregator g;
    mrd_agent *a;
    size_t whole;

    fake_aggregator_init(&g);
    REQUIRE((a = open_agent(&o, fake_link(&g, &faults, 4))) != NULL);
    control(a, MRD__CONTROL_TYPE__CONTROL_GO);
    framework_json(&text, 1, 300);
    whole = text.len;
    text.len = whole / 2;
    put("i-test_pid_4711/parts.json", &text);
    TEST_UNTIL((mrd_agent_step(a, 1), g.cut_files == 1));
    text.len = whole;
    put("i-test_pid_4711/parts.json", &text);
    wait_for_artifacts(a, &g, 2);
    CHECK_INT(g.events, 300);
    CHECK_INT(stored_once(&g, 1, 300), 300);
    CHECK_INT(g.cut_files, 0);
    mrd_agent_close(a);
    mrd_buf_fini(&text);
    fake_aggregator_fini(&g);
}

/* The hook's events arrived through the rings. The runtime's own file repeats them. */
TEST(a_runtime_file_beside_the_rings_is_not_read_twice)
{
    mrd_agent_options o = settings(false);
    fake_faults faults = { .seed = 1 };
    mrd_buf text = { 0 };
    fake_aggregator g;
    mrd_agent_counts c;
    char rel[200];
    mrd_agent *a;
    maker *m;
    uint32_t name;

    fake_aggregator_init(&g);
    REQUIRE((a = open_agent(&o, fake_link(&g, &faults, 4))) != NULL);
    control(a, MRD__CONTROL_TYPE__CONTROL_GO);
    m = make_ring(test_tmp(), getpid(), make_start_ticks(getpid()), 1, 1 << 20);
    name = make_text(m, "nrt");
    runtime_json(&text, 1, 50, "");
    make_blob(m, name, 1, (const char *) text.p, text.len, 4000, true);
    for (int i = 0; i < 60000 && g.events < 50; i++)
        mrd_agent_step(a, 1);
    CHECK_INT(stored_once(&g, 1, 50), 50);
    snprintf(rel, sizeof(rel), "i-test_pid_%d/1700/sys_trace.json", (int) getpid());
    put(rel, &text);
    mrd_buf_reset(&text);
    framework_json(&text, 101, 50); /* has no other way */
    snprintf(rel, sizeof(rel), "i-test_pid_%d/1700/trace.json", (int) getpid());
    put(rel, &text);
    wait_for_artifacts(a, &g, 2);
    CHECK_INT(stored_once(&g, 1, 50), 50);
    CHECK_INT(stored_once(&g, 101, 50), 50);
    CHECK_INT(g.events, 100);
    mrd_agent_counters(a, &c);
    CHECK_INT(c.traces, 1);
    mrd_agent_close(a);
    make_free(m);
    mrd_buf_fini(&text);
    fake_aggregator_fini(&g);
}

/* ---- Another file replaces a file ---- */

typedef struct {
    uint64_t own, other, finished;
} swapped;

static mrd_err
count_event(void *self, mrd_drain_process *process, unsigned clock, const mrd_event *ev)
{
    swapped *s = self;
    mrd_str name = mrd_catalog_text(process->catalog, ev->name);

    (void) clock;
    s->own += mrd_str_is(name, "aten::mm");
    s->other += mrd_str_is(name, "secret");
    return MRD_OK;
}

static void
no_process(void *self, mrd_drain_process *process)
{
    (void) self;
    (void) process;
}

static void
count_finished(void *self, const mrd_files_complete *file, mrd_trace_end end, uint64_t events,
               const char *message)
{
    (void) file, (void) end, (void) events, (void) message;
    ((swapped *) self)->finished++;
}

/* The file was checked and hashed. Then its path leads to another user's trace, or to a FIFO
 * without a writer. */
TEST(what_is_read_is_the_file_that_was_hashed)
{
    for (int fifo = 0; fifo < 2; fifo++) {
        swapped s = { 0 };
        mrd_traces_options o = { .instance_id = "i-test",
                                 .event = count_event,
                                 .process = no_process,
                                 .finished = count_finished,
                                 .self = &s };
        mrd_files_complete file = { .rel = "trace.json", .sha256 = "0", .pid = 5, .uid = -1 };
        mrd_buf text = { 0 };
        mrd_traces *t = NULL;
        char path[1100], secret[1100];

        snprintf(watched, sizeof(watched), "%s/swap%d", test_tmp(), fifo);
        snprintf(path, sizeof(path), "%s/trace.json", watched);
        snprintf(secret, sizeof(secret), "%s/secret.json", watched);
        CHECK(mkdir(watched, 0700) == 0);
        framework_json(&text, 1, 100);
        put("trace.json", &text);
        mrd_buf_reset(&text);
        mrd_buf_text(&text, "{\"traceEvents\": [{\"ph\": \"X\", \"name\": \"secret\", \"pid\": 1, "
                            "\"tid\": 1, \"ts\": 5, \"dur\": 1}]}");
        put("secret.json", &text);
        file.path = path;
        REQUIRE((file.fd = open(path, O_RDONLY | O_CLOEXEC)) >= 0);
        CHECK_ERR("open", mrd_traces_open(&o, &t, NULL), MRD_OK);
        mrd_traces_file(t, &file);
        close(file.fd);
        CHECK(unlink(path) == 0 && (fifo ? mkfifo(path, 0600) : symlink(secret, path)) == 0);
        TEST_UNTIL((mrd_traces_step(t, true), mrd_traces_idle(t)));
        CHECK_INT(s.finished, 1);
        CHECK_INT(s.own, 100);
        CHECK_INT(s.other, 0);
        mrd_traces_close(t);
        mrd_buf_fini(&text);
    }
}

/* ---- SIGKILL in the middle of a file ---- */

static int
start_child(int *ret_fd, const mrd_agent_options *o, bool first)
{
    int ends[2], pid;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        abort();
    if ((pid = fork()) == 0) {
        mrd_agent *a;

        close(ends[0]);
        if ((a = open_agent(o, fake_pipe(ends[1], 4))) == NULL)
            _exit(3);
        if (first)
            control(a, MRD__CONTROL_TYPE__CONTROL_GO);
        for (;;)
            mrd_agent_step(a, 2);
    }
    close(ends[1]);
    *ret_fd = ends[0];
    return pid;
}

TEST(killed_in_the_middle_of_a_file)
{
    mrd_agent_options o = settings(true);
    unsigned seed = test_seed();
    mrd_buf pending = { 0 }, text = { 0 };
    const int n = 300000;
    fake_aggregator g;
    int fd, pid, rounds = 0;

    o.flush = 2 * MRD_MS;
    fake_aggregator_init(&g);
    pid = start_child(&fd, &o, true);
    for (int i = 0; i < 20000 && g.phase != MRD__NODE_PHASE__NODE_RECORDING; i++)
        fake_serve(&g, fd, &pending);
    runtime_json(&text, 1, n, "");
    put("i-test_pid_4711/1700/sys_trace.json", &text);
    for (; rounds < 30 && g.events < (uint64_t) n; rounds++) {
        uint64_t want = g.events + (uint64_t) (rand_r(&seed) % (n / 4)) + 1;

        for (int64_t end = mrd_local_now().ns + 60 * MRD_SEC;
             g.events < want && g.events < (uint64_t) n && mrd_local_now().ns < end;)
            if (!fake_serve(&g, fd, &pending))
                break;
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        close(fd);
        mrd_buf_reset(&pending);
        g.need_hello = true;
        pid = start_child(&fd, &o, false);
    }
    for (int64_t end = mrd_local_now().ns + 60 * MRD_SEC;
         stored_once(&g, 1, n) < (uint64_t) n && mrd_local_now().ns < end;)
        for (int i = 0; i < 200; i++)
            fake_serve(&g, fd, &pending);
    for (uint64_t seen = g.heartbeats; g.heartbeats < seen + 3;) /* nothing comes again */
        if (!fake_serve(&g, fd, &pending))
            break;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(fd);
    fprintf(stderr, "%d kills, %" PRIu64 " events\n", rounds, g.events);
    CHECK_INT(stored_once(&g, 1, n), n);
    CHECK_INT(g.events, n);
    mrd_buf_fini(&pending);
    mrd_buf_fini(&text);
    fake_aggregator_fini(&g);
}

TEST_MAIN()
