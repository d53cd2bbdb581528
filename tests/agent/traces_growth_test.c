/* Tests trace files that grow after the agent has read them. */
#include <fcntl.h>
#include <unistd.h>

#include "agent/daemon/traces.h"
#include "base/hash.h"
#include "base/sys/out.h"
#include "tests/check.h"
#include "tests/wait.h"

#define SESSION 77u

static void
any_process(void *self, mrd_drain_process *process)
{
    (void) self, (void) process;
}

typedef struct {
    unsigned seen[1000]; /* by "my id" */
    uint64_t others, withdrawn;
    mrd_trace_end end;
} growth;

static mrd_err
see_event(void *self, mrd_drain_process *process, unsigned clock, const mrd_event *ev)
{
    growth *g = self;

    (void) process, (void) clock;
    for (uint32_t i = 0; i < ev->arg_count; i++)
        if (ev->args[i].type == MRD_ARG_INT && ev->args[i].v.i > 0 && ev->args[i].v.i < 1000) {
            g->seen[ev->args[i].v.i]++;
            return MRD_OK;
        }
    g->others++;
    return MRD_OK;
}

static void
end_growth(void *self, const mrd_files_complete *file, mrd_trace_end end, uint64_t events,
           const char *message)
{
    growth *g = self;

    (void) file, (void) events, (void) message;
    g->end = end;
}

static void
withdraw_one(void *self, const uint64_t takers[MRD_FILES_SESSIONS])
{
    growth *g = self;

    (void) takers;
    g->withdrawn++;
}

/* Writes events `from` to `from + n - 1`. Even ones are spans with a length, and odd ones, if
 * `pairs`, consist of a begin and an end. `closed`: the text is complete. */
static void
events_json(mrd_buf *to, int from, int n, bool pairs, bool closed)
{
    static const int64_t began_us = 1900000000000000;

    mrd_buf_reset(to);
    mrd_buf_text(to, "{\"traceEvents\": [\n");
    for (int i = from; i < from + n; i++) {
        long long at = (long long) began_us + 1000000 - 10LL * i; /* later ones lie before */

        if (pairs && i % 2 == 1)
            mrd_buf_fmt(to,
                        "%s{\"ph\": \"B\", \"name\": \"b\", \"pid\": 7, \"tid\": 4, \"ts\": %lld, "
                        "\"args\": {\"my id\": %d}},\n"
                        "{\"ph\": \"E\", \"name\": \"b\", \"pid\": 7, \"tid\": 4, \"ts\": %lld}",
                        i == from ? "" : ",\n", at, i, at + 2);
        else
            mrd_buf_fmt(
                to,
                "%s{\"ph\": \"X\", \"name\": \"x%d\", \"pid\": 7, \"tid\": %d, \"ts\": %lld, "
                "\"dur\": 1, \"args\": {\"my id\": %d}}",
                i == from ? "" : ",\n", i % 5, i % 3, at, i);
    }
    if (closed)
        mrd_buf_text(to, "\n], \"displayTimeUnit\": \"ns\"}\n");
}

static void
complete_again(mrd_traces *t, const mrd_buf *text, bool grown, char digit)
{
    char sha256[MRD_SHA256_HEX], path[1024];
    mrd_files_complete file = { .path = path,
                                .rel = "grows.json",
                                .sha256 = sha256,
                                .pid = 4711,
                                .uid = MRD_OWNED_ANY,
                                .grown = grown,
                                .takers = { SESSION } };

    memset(sha256, digit, sizeof(sha256) - 1);
    sha256[sizeof(sha256) - 1] = '\0';
    snprintf(path, sizeof(path), "%s/grows.json", test_tmp());
    CHECK_ERR("write", mrd_write_file(path, (mrd_bytes){ text->p, text->len }, 0644, NULL), MRD_OK);
    REQUIRE((file.fd = open(path, O_RDONLY)) >= 0);
    mrd_traces_file(t, &file);
    close(file.fd);
    TEST_UNTIL((mrd_traces_step(t, true), mrd_traces_idle(t)));
}

static void
copy_position(void *to, uint64_t key, uint64_t value)
{
    mrd_spool_position position = { .ring = key, .read = value };

    mrd_traces_resume(to, &position, 1);
}

/* A file that grows after it was read is read again. Each of its events is emitted once, or the end
 * tells that there are more. */
TEST(a_file_that_grows_after_it_was_read)
{
    static const struct {
        const char *name;
        bool closed, pairs, other, grown, restart;
        int from; /* of the second version */
        unsigned once;
        mrd_trace_end end;
        unsigned withdrawn;
    } rows[] = {
        { "left open", .grown = true, .from = 1, .once = 300, .withdrawn = 1 },
        { "left open, and the agent was restarted", .grown = true, .restart = true, .from = 1,
          .once = 300 },
        { "closed each time", .closed = true, .grown = true, .from = 1, .once = 300 },
        { "another trace", .closed = true, .from = 101, .once = 300 },
        { "spans of two records", .closed = true, .pairs = true, .grown = true, .from = 1,
          .once = 100, .end = MRD_TRACE_CUT },
        { "another begin", .closed = true, .grown = true, .from = 2, .once = 100,
          .end = MRD_TRACE_CUT },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        growth g = { 0 };
        mrd_traces_options o = { .instance_id = "i-test",
                                 .event = see_event,
                                 .process = any_process,
                                 .finished = end_growth,
                                 .withdraw = withdraw_one,
                                 .self = &g };
        mrd_buf text = { 0 };
        mrd_traces *t, *successor;
        unsigned once = 0;

        CHECK_ERR("open", mrd_traces_open(&o, &t, NULL), MRD_OK);
        events_json(&text, 1, 100, rows[i].pairs, rows[i].closed);
        complete_again(t, &text, false, 'a');
        CHECK_ROW(rows[i].name, g.end == (rows[i].closed ? MRD_TRACE_WHOLE : MRD_TRACE_CUT));
        if (rows[i].restart) {
            CHECK_ERR("open", mrd_traces_open(&o, &successor, NULL), MRD_OK);
            mrd_traces_positions(t, copy_position, successor);
            mrd_traces_close(t);
            t = successor;
        }
        events_json(&text, rows[i].from, 301 - rows[i].from, rows[i].pairs, true);
        complete_again(t, &text, rows[i].grown && !rows[i].restart, 'b');
        CHECK_ROW(rows[i].name, g.end == rows[i].end);
        CHECK_ROW(rows[i].name, g.withdrawn == rows[i].withdrawn);
        for (int k = 1; k <= 300; k++) {
            once += g.seen[k] == 1;
            CHECK_ROW(rows[i].name, g.seen[k] <= 1);
        }
        CHECK_ROW(rows[i].name, once == rows[i].once);
        CHECK_INT(g.others, 0);
        mrd_traces_close(t);
        mrd_buf_fini(&text);
    }
}

TEST_MAIN()
