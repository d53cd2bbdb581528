#include "tests/protobuf.h"
#include "tests/trace/collect.h"

static const mrd_import_ops *const ops = &mrd_import_xplane;

/* ---- An XSpace, written by the schema ---- */

static void
event(mrd_buf *line, uint64_t id, uint64_t offset_ps, uint64_t dur_ps)
{
    mrd_buf ev = { 0 }, stat = { 0 };

    pb_number(&ev, 1, id);
    pb_number(&ev, 2, offset_ps);
    pb_number(&ev, 3, dur_ps);
    pb_number(&stat, 1, 7);
    pb_number(&stat, 4, (uint64_t) -5);
    pb_close_into(&ev, 4, &stat);
    pb_number(&stat, 1, 8);
    pb_text(&stat, 5, "train");
    pb_close_into(&ev, 4, &stat);
    pb_number(&stat, 1, 9);
    pb_number(&stat, 7, 7); /* a reference to the name of another statistic */
    pb_close_into(&ev, 4, &stat);
    pb_close_into(line, 4, &ev);
}

/* Appends a plane with one line: two events with times, and an event that only has a count. */
static void
plane(mrd_buf *space, const char *name, const char *line_name, uint64_t start_ns)
{
    mrd_buf p = { 0 }, line = { 0 }, ev = { 0 };

    pb_text(&p, 2, name);
    pb_number(&line, 1, 583);
    pb_text(&line, 2, line_name);
    pb_number(&line, 3, start_ns);
    event(&line, 1, 1500, 2000); /* 1.5 ns to 3.5 ns */
    event(&line, 300, 7000000, 0);
    pb_number(&ev, 1, 1);
    pb_number(&ev, 5, 12);
    pb_close_into(&line, 4, &ev);
    pb_close_into(&p, 3, &line);
    pb_xplane_name(&p, 4, 1, "fusion.1"); /* the tables follow the events */
    pb_xplane_name(&p, 5, 7, "step");
    pb_xplane_name(&p, 5, 8, "phase");
    pb_xplane_name(&p, 5, 9, "kind");
    pb_close_into(space, 1, &p);
}

static void
environment(mrd_buf *space, uint64_t start_ns)
{
    mrd_buf p = { 0 }, stat = { 0 };

    pb_text(&p, 2, "Task Environment");
    pb_xplane_name(&p, 5, 1, "profile_start_time");
    pb_number(&stat, 1, 1);
    pb_number(&stat, 3, start_ns);
    pb_close_into(&p, 6, &stat);
    pb_close_into(space, 1, &p);
}

TEST(planes_lines_events_and_statistics)
{
    mrd_buf space = { 0 };
    collected c = { 0 };
    const mrd_event *ev;

    plane(&space, "/host:CPU", "python", 911061);
    plane(&space, "/device:NEURON:3", "Stream #1", 911061);
    environment(&space, 1700000000000000000u);
    CHECK(mrd_import_detect((mrd_str){ (char *) space.p, space.len }, "x") == ops);
    for (size_t chunk = 1; chunk < 400; chunk += 133) {
        collect_bytes(&c, ops, space.p, space.len, chunk, NULL);
        CHECK_ERR("run", c.err, MRD_OK);
        CHECK_INT(c.n, 4);
        CHECK_INT(c.input.dropped, 2); /* of a count only */
        ev = collect_named(&c, "fusion.1", 0);
        REQUIRE(ev != NULL);
        CHECK_INT(ev->ts.ns, 1700000000000000000 + 911061 + 1);
        CHECK_INT(ev->dur_ns, 2); /* from 1.5 ns to 3.5 ns, both rounded down */
        CHECK_TEXT(collect_arg_text(&c, ev, "step"), "-5");
        CHECK_TEXT(collect_arg_text(&c, ev, "phase"), "train");
        CHECK_TEXT(collect_arg_text(&c, ev, "kind"), "step");
        CHECK_INT(collect_track(&c, ev)->thread_id, 583);
        CHECK_INT(collect_track(&c, ev)->source, MRD_SRC_FRAMEWORK);
        ev = collect_named(&c, "fusion.1", 1);
        REQUIRE(ev != NULL);
        CHECK_INT(collect_track(&c, ev)->device_idx, 3);
        CHECK_TEXT(collect_str(&c, ev->category), "kernel");
        CHECK_TEXT(collect_str(&c, collect_track(&c, ev)->name), "/device:NEURON:3 Stream #1");
        ev = collect_named(&c, "event 300", 0); /* an event with a name that is in no table */
        REQUIRE(ev != NULL);
        CHECK_INT(ev->ts.ns, 1700000000000000000 + 911061 + 7000);
        collect_free(&c);
    }
    mrd_buf_fini(&space);
}

TEST(times_that_are_an_epoch_already_stay)
{
    mrd_buf space = { 0 };
    collected c = { 0 };

    plane(&space, "/host:CPU", "python", 1700000000000000000u);
    environment(&space, 1699999999000000000u);
    collect_bytes(&c, ops, space.p, space.len, 0, NULL);
    CHECK_ERR("run", c.err, MRD_OK);
    CHECK_INT(collect_named(&c, "fusion.1", 0)->ts.ns, 1700000000000000001);
    collect_free(&c);
    mrd_buf_fini(&space);
}

/* A file is truncated at each position, and each byte is changed. The result must be an error or
 * fewer events, never a crash or more events. */
TEST(damage)
{
    mrd_buf space = { 0 };
    unsigned truncated = 0;

    plane(&space, "/host:CPU", "python", 911061);
    plane(&space, "/device:NEURON:0", "Stream #1", 911061);
    for (size_t n = 1; n < space.len; n++) {
        collected c = { 0 };

        collect_bytes(&c, ops, space.p, n, 0, NULL);
        CHECK(c.err != MRD_OK || c.n == 2); /* no error only if the first plane is complete */
        truncated += c.err == MRD_TRUNCATED;
        collect_free(&c);
    }
    CHECK(truncated > 100);
    for (size_t i = 0; i < space.len; i++) {
        collected c = { 0 };

        space.p[i] ^= 0xff;
        collect_bytes(&c, ops, space.p, space.len, 0, NULL);
        CHECK(c.n <= 6); /* an event with a count may become one with a time */
        space.p[i] ^= 0xff;
        collect_free(&c);
    }
    mrd_buf_fini(&space);
}

TEST_MAIN()
