#include "tests/trace/collect.h"
#include "tests/trace/nrt_feed.h"

static const mrd_import_ops *const ops = &mrd_import_nrt;

#define SEQ(type, nc, track, seq, ts, data)                                                        \
    "{\"event_type\":\"" type "\",\"phase\":\"start\",\"nc_idx\":" nc ",\"tracking_id\":" track    \
    ",\"thread_id\":1,\"nrta_seq_id\":" seq ",\"data\":{" data "},\"timestamp_ns\":" ts "}"

/* The events of one asynchronous request (nrta_seq_id) are connected by one arrow, whatever their
 * core and type. Other events are not connected. */
TEST(one_request_is_one_arrow)
{
    collected c = { 0 };
    uint64_t first = 0;

    collect_text(
        &c, ops,
        HEAD SEQ("nrta_execute_schedule", "0", "1", "844424930131969", T0 "00100", "") "," SEQ(
            "kbl_exec_pre", "0", "2", "844424930131969", T0 "00200",
            "\"exec_id\":9") "," SEQ("nc_exec_running", "0", "3", "844424930131969", T0 "00300",
                                     "\"exec_id\":9") "," SEQ("nrta_execute_schedule", "1", "4",
                                                              "844424930131970", T0 "00400",
                                                              "") "," SEQ("nrt_tensor_free", "0",
                                                                          "5", "0", T0 "00500", "")
            TAIL);
    CHECK_ERR("run", c.err, MRD_OK);
    CHECK_INT(c.n, 5);
    for (size_t i = 0; i < c.n; i++) {
        const mrd_event *ev = &c.v[i]->ev;
        const char *name = collect_str(&c, ev->name);
        bool pair = strcmp(name, "kbl_exec_pre") == 0 || strcmp(name, "nc_exec_running") == 0;
        const mrd_flow *seq = ev->flow_count == 0 ? NULL : &ev->flows[ev->flow_count - 1];

        if (strcmp(name, "nrt_tensor_free") == 0) {
            CHECK_INT(ev->flow_count, 0);
            continue;
        }
        CHECK_INT(ev->flow_count, pair ? 2 : 1);
        REQUIRE(seq != NULL);
        CHECK_INT(seq->dir, MRD_FLOW_STEP);
        first = i == 0 ? seq->id : first;
        CHECK_INT(seq->id == first, collect_track(&c, ev)->lnc_idx == 0);
    }
    collect_free(&c);
}

/* The request of an event is found, whether nrta_seq_id comes before or after other members. */
TEST(a_request_is_found_behind_other_arguments)
{
    static const char *const orders[] = {
        "\"nrta_seq_id\":844424930131969,\"data\":{\"exec_id\":9,\"model_id\":4}",
        "\"data\":{\"exec_id\":9,\"model_id\":4},\"nrta_seq_id\":844424930131969",
    };
    uint64_t ids[MRD_COUNT(orders)] = { 0 };

    for (size_t i = 0; i < MRD_COUNT(orders); i++) {
        char text[512];
        collected c = { 0 };

        snprintf(text, sizeof(text),
                 HEAD
                 "{\"event_type\":\"nrta_execute_schedule\",\"phase\":\"instant\",\"nc_idx\":0,"
                 "\"thread_id\":1,%s,\"timestamp_ns\":" T0 "00100}" TAIL,
                 orders[i]);
        collect_text(&c, ops, text);
        CHECK_ERR("run", c.err, MRD_OK);
        REQUIRE(c.n == 1);
        CHECK(c.v[0]->ev.arg_count > 1);
        CHECK_INT(c.v[0]->ev.flow_count, 1);
        ids[i] = c.v[0]->ev.flow_count == 1 ? c.v[0]->ev.flows[0].id : i;
        collect_free(&c);
    }
    CHECK(ids[0] == ids[1]);
}

/* Calls that allocate or free device memory give series of memory in use by category. Copies give
 * size and speed. Each sample counts as a record. */
TEST(memory_and_copies)
{
    static const char *const events[] = {
        EV("nrt_dma_mem_alloc", "start", "0", "1", "42", T0 "00100",
           "\"hbm_idx\":2,\"usage_type\":\"tensors\""),
        EV("nrt_dma_mem_alloc", "stop", "0", "1", "42", T0 "00150",
           "\"allocated_bytes\":64,\"total_bytes\":4096,\"usage_type_total_bytes\":1024"),
        EV("nrt_dma_mem_dealloc", "start", "0", "2", "42", T0 "00200",
           "\"hbm_idx\":2,\"usage_type\":\"tensors\""),
        EV("nrt_dma_mem_dealloc", "stop", "0", "2", "42", T0 "00260",
           "\"freed_bytes\":64,\"total_bytes\":4032,\"usage_type_total_bytes\":960"),
        EV("nrt_dma_mem_alloc", "start", "0", "3", "42", T0 "00300", "\"hbm_idx\":2"),
        EV("nrt_dma_mem_alloc", "stop", "0", "3", "42", T0 "00310", ""),
        EV("dmem_buf_copyin", "start", "0", "4", "42", T0 "01000", "\"size\":65536"),
        EV("dmem_buf_copyin", "stop", "0", "4", "42", T0 "03000", ""),
        EV("dmem_buf_copyout", "start", "0", "5", "42", T0 "04000", "\"size\":10"),
        EV("dmem_buf_copyout", "stop", "0", "5", "42", T0 "04000", ""),
    };
    collected c = { 0 };
    const mrd_event *ev;

    collect_events(&c, ops, events, MRD_COUNT(events));
    CHECK_ERR("run", c.err, MRD_OK);
    CHECK_INT(c.n, 5 + 4); /* the third allocation states no totals */
    CHECK_INT(c.input.records, 9);
    ev = collect_named(&c, "hbm.2.tensors", 1);
    REQUIRE(ev != NULL);
    CHECK_INT(ev->kind, MRD_COUNTER);
    CHECK_INT(ev->ivalue, 960);
    CHECK_INT(ev->ts.ns, NRT_T0 + 260); /* when the call was done */
    CHECK_INT(collect_track(&c, ev)->kind, MRD_TRACK_COUNTER);
    CHECK_INT(collect_track(&c, ev)->unit, MRD_UNIT_BYTES);
    CHECK_INT(collect_named(&c, "hbm.2.tensors", 0)->ivalue, 1024);
    CHECK_INT(collect_named(&c, "hbm.2.total", 0)->ivalue, 4096);
    ev = collect_named(&c, "dmem_buf_copyin", 0);
    CHECK_TEXT(collect_arg_text(&c, ev, "direction"), "host_to_device");
    CHECK_TEXT(collect_arg_text(&c, ev, "bytes_per_second"), "32768000000");
    ev = collect_named(&c, "dmem_buf_copyout", 0);
    CHECK_TEXT(collect_arg_text(&c, ev, "direction"), "device_to_host");
    CHECK_TEXT(collect_arg_text(&c, ev, "bytes_per_second"), ""); /* it took no time */
    collect_free(&c);
}

/* Memories of two devices with the same index have separate series. */
TEST(memory_of_several_devices)
{
    static const char *const events[] = {
        EV("nrt_dma_mem_alloc", "start", "0", "1", "42", T0 "00100",
           "\"hbm_idx\":1,\"mla_idx\":3,\"usage_type\":\"tensors\""),
        EV("nrt_dma_mem_alloc", "stop", "0", "1", "42", T0 "00150",
           "\"usage_type_total_bytes\":100,\"total_bytes\":110"),
        EV("nrt_dma_mem_alloc", "start", "0", "2", "42", T0 "00200",
           "\"hbm_idx\":1,\"mla_idx\":0,\"usage_type\":\"tensors\""),
        EV("nrt_dma_mem_alloc", "stop", "0", "2", "42", T0 "00250",
           "\"usage_type_total_bytes\":200,\"total_bytes\":220"),
        EV("nrt_dma_mem_alloc", "start", "0", "3", "42", T0 "00300",
           "\"hbm_idx\":1,\"usage_type\":\"tensors\""),
        EV("nrt_dma_mem_alloc", "stop", "0", "3", "42", T0 "00350",
           "\"usage_type_total_bytes\":300"),
    };
    static const int64_t devices[] = { 3, 0, MRD_NONE };
    collected c = { 0 };

    collect_events(&c, ops, events, MRD_COUNT(events));
    CHECK_ERR("run", c.err, MRD_OK);
    for (size_t i = 0; i < MRD_COUNT(devices); i++) {
        const mrd_event *ev = collect_named(&c, "hbm.1.tensors", i);

        REQUIRE(ev != NULL);
        CHECK_INT(ev->ivalue, 100 * ((int64_t) i + 1));
        CHECK_INT(collect_track(&c, ev)->device_idx, devices[i]);
    }
    CHECK_INT(collect_track(&c, collect_named(&c, "hbm.1.total", 1))->device_idx, 0);
    collect_free(&c);
}

TEST(starts_and_stops_are_paired)
{
    static const char *const events[] = {
        EV("nrt_execute", "start", "1", "18446744073709551615", "42", T0 "00100",
           "\"model_id\":18446744073709551614,\"model_name\":\"m\""),
        EV("nrt_execute", "start", "0", "9", "42", T0 "00150", ""),
        EV("nrt_execute", "stop", "1", "18446744073709551615", "42", T0 "00300",
           "\"return_code\":0"),
        EV("nrt_tensor_write", "stop", "1", "8", "42", T0 "00400", ""),
        EV("hw_notify", "instant", "1", "8", "42", T0 "00500", "\"device_core_idx\":3,\"hint\":1"),
    };
    collected c = { 0 };
    const mrd_event *ev;

    collect_events(&c, ops, events, MRD_COUNT(events));
    CHECK_ERR("run", c.err, MRD_OK);
    CHECK_INT(c.n, 4);
    CHECK_INT(c.input.unfinished, 1);
    CHECK_INT(c.input.no_start, 1);
    ev = &c.v[0]->ev;
    CHECK_TEXT(collect_str(&c, ev->name), "nrt_execute");
    CHECK_INT(ev->ts.ns, NRT_T0 + 100);
    CHECK_INT(ev->dur_ns, 200);
    CHECK_INT(ev->id, 7);
    CHECK_TEXT(collect_arg_text(&c, ev, "model_id"), "18446744073709551614");
    CHECK_TEXT(collect_arg_text(&c, ev, "model_name"), "m");
    CHECK_TEXT(collect_arg_text(&c, ev, "return_code"), "0");
    CHECK_INT(ev->arg_count, 3);
    CHECK_INT(collect_track(&c, ev)->source, MRD_SRC_RUNTIME);
    CHECK_INT(collect_track(&c, ev)->lnc_idx, 1);
    CHECK_INT(collect_track(&c, ev)->thread_id, 42);
    CHECK_INT(collect_process(&c, ev)->worker_gid, 5);
    ev = &c.v[1]->ev;
    CHECK_INT(ev->kind, MRD_INSTANT);
    CHECK_INT(collect_track(&c, ev)->source, MRD_SRC_DEVICE);
    CHECK_INT(collect_track(&c, ev)->pcore_idx, 3);
    CHECK_INT(collect_track(&c, ev)->thread_id, MRD_NONE);
    CHECK_INT(c.v[2]->ev.dur_ns, MRD_DUR_UNFINISHED);
    CHECK_INT(c.v[3]->ev.flags, MRD_EV_NO_START); /* its start might be in a later text */
    collect_free(&c);
}

/* Writes the events of an execution on a logical core of two physical cores, followed by its sync
 * points. With `device_clock`, the time stamps of the hardware events are device times, else host
 * times. */
static void
execution(char *to, size_t room, bool device_clock)
{
    const char *host[] = { T0 "20000", T0 "20005", T0 "30000", T0 "30007" };
    const char *device[] = { "1000020000", "5000020005", "1000030000", "5000030007" };
    const char *const *ts = device_clock ? device : host;

    snprintf(to, room,
             HEAD EV("kbl_exec_pre", "start", "0", "1", "42", T0 "10000", "\"exec_id\":77") "," EV(
                 "kbl_exec_pre", "stop", "0", "1", "42", T0 "11000",
                 "") ",{\"event_type\":\"nc_exec_running\",\"phase\":\"start\",\"nc_idx\":0,"
                     "\"tracking_id\":2,\"timestamp_ns\":%s,\"data\":{\"device_core_idx\":0,"
                     "\"exec_id\":77,\"nc_timestamp_ns\":1000020000}},"
                     "{\"event_type\":\"nc_exec_running\",\"phase\":\"start\",\"nc_idx\":0,"
                     "\"tracking_id\":3,\"timestamp_ns\":%s,\"data\":{\"device_core_idx\":1,"
                     "\"exec_id\":77,\"nc_timestamp_ns\":5000020005}},"
                     "{\"event_type\":\"nc_exec_running\",\"phase\":\"stop\",\"nc_idx\":0,"
                     "\"tracking_id\":2,\"timestamp_ns\":%s,\"data\":{\"nc_timestamp_ns\":"
                     "1000030000}},"
                     "{\"event_type\":\"nc_exec_running\",\"phase\":\"stop\",\"nc_idx\":0,"
                     "\"tracking_id\":3,\"timestamp_ns\":%s,\"data\":{\"nc_timestamp_ns\":"
                     "5000030007}},"
                     "{\"event_type\":\"timestamp_sync_point\",\"phase\":\"instant\",\"nc_idx\":0,"
                     "\"timestamp_ns\":" T0 "40000,\"data\":{\"exec_id\":77,\"nc_timestamp_ns\":"
                     "1000040000,\"cpu_timestamp_ns\":" T0 "40000}},"
                     "{\"event_type\":\"timestamp_sync_point\",\"phase\":\"instant\",\"nc_idx\":0,"
                     "\"timestamp_ns\":" T0 "40010,\"data\":{\"exec_id\":77,\"nc_timestamp_ns\":"
                     "5000040010,\"cpu_timestamp_ns\":" T0 "40010}}" TAIL,
             ts[0], ts[1], ts[2], ts[3]);
}

TEST(both_physical_cores_in_either_clock)
{
    static char text[4096];

    for (int device_clock = 0; device_clock < 2; device_clock++) {
        collected c = { 0 };
        const mrd_event *a, *b, *pre;

        execution(text, sizeof(text), device_clock != 0);
        collect_text(&c, ops, text);
        CHECK_ERR("run", c.err, MRD_OK);
        CHECK_INT(c.n, 5);
        a = collect_named(&c, "nc_exec_running", 0);
        b = collect_named(&c, "nc_exec_running", 1);
        pre = collect_named(&c, "kbl_exec_pre", 0);
        REQUIRE(a != NULL && b != NULL && pre != NULL);
        CHECK_INT(a->ts.ns, 1700000000000020000);
        CHECK_INT(a->dur_ns, 10000);
        CHECK_INT(b->ts.ns, 1700000000000020005);
        CHECK_INT(b->dur_ns, 10002);
        CHECK_INT(collect_track(&c, a)->pcore_idx, 0);
        CHECK_INT(collect_track(&c, b)->pcore_idx, 1);
        CHECK_TEXT(collect_arg_text(&c, a, "exec_id"), "77");
        CHECK_TEXT(collect_arg_text(&c, a, NRT_TIME_KEY),
                   device_clock ? "device clock, beyond the sync points" : "");
        /* A single sync point does not show the rate of the clock or the error of sync points, so
         * the bound is wide. */
        CHECK(a->bound_ns > 20000 && a->bound_ns != MRD_BOUND_UNKNOWN);
        CHECK((a->flags & MRD_EV_DEVICE_BOUND) != 0);
        CHECK_TEXT(collect_arg_text(&c, a, "nc_timestamp_ns"), "1000020000");
        CHECK_TEXT(collect_arg_text(&c, a, "end.nc_timestamp_ns"), "1000030000");
        /* One arrow leads from the submission to both executions. */
        CHECK_INT(pre->flow_count, 1);
        CHECK_INT(pre->flows[0].dir, MRD_FLOW_START);
        CHECK_INT(a->flows[0].dir, MRD_FLOW_END);
        CHECK(a->flows[0].id == pre->flows[0].id && b->flows[0].id == pre->flows[0].id);
        CHECK_INT(collect_named(&c, "timestamp_sync_point", 1)->ts.ns, 1700000000000040010);
        collect_free(&c);
    }
}

TEST(device_time_without_its_sync_point)
{
    static const struct {
        const char *name, *sync, *how;
        int64_t ts_ns;
    } rows[] = {
        { "none at all",
          "{\"event_type\":\"x\",\"phase\":\"instant\",\"timestamp_ns\":" T0 "00000}",
          "device clock, no sync point", 500 },
        { "of another execution",
          "{\"event_type\":\"timestamp_sync_point\",\"phase\":\"instant\",\"nc_idx\":0,"
          "\"timestamp_ns\":" T0 "00000,\"data\":{\"exec_id\":6,\"nc_timestamp_ns\":1500,"
          "\"cpu_timestamp_ns\":" T0 "00000}}",
          "device clock, beyond the sync points", 1699999999999999000 },
        { "of another core",
          "{\"event_type\":\"timestamp_sync_point\",\"phase\":\"instant\",\"nc_idx\":1,"
          "\"timestamp_ns\":" T0 "00000,\"data\":{\"exec_id\":5,\"nc_timestamp_ns\":1500,"
          "\"cpu_timestamp_ns\":" T0 "00000}}",
          "device clock, no sync point", 500 },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        static char text[2048];
        collected c = { 0 };
        const mrd_event *ev;

        snprintf(text, sizeof(text),
                 HEAD "{\"event_type\":\"cc_running\",\"phase\":\"start\",\"nc_idx\":0,"
                      "\"tracking_id\":2,\"timestamp_ns\":500,\"data\":{\"exec_id\":5,"
                      "\"nc_timestamp_ns\":500}},"
                      "{\"event_type\":\"cc_running\",\"phase\":\"stop\",\"nc_idx\":0,"
                      "\"tracking_id\":2,\"timestamp_ns\":600,\"data\":{\"nc_timestamp_ns\":600}},"
                      "%s" TAIL,
                 rows[i].sync);
        collect_text(&c, ops, text);
        CHECK_ERR(rows[i].name, c.err, MRD_OK);
        CHECK_INT(c.input.dropped, 0);
        ev = collect_named(&c, "cc_running", 0);
        REQUIRE(ev != NULL);
        CHECK_INT(ev->ts.ns, rows[i].ts_ns);
        CHECK_INT(ev->dur_ns, 100);
        CHECK_TEXT(collect_arg_text(&c, ev, NRT_TIME_KEY), rows[i].how);
        CHECK_INT(ev->arg_count, 4);
        collect_free(&c);
    }
}

/* A device time between two sync points is converted by linear interpolation, whether or not the
 * event names its execution. */
TEST(device_time_between_two_sync_points)
{
    static const char text[] =
        HEAD "{\"event_type\":\"timestamp_sync_point\",\"phase\":\"instant\",\"nc_idx\":0,"
             "\"timestamp_ns\":" T0 "00000,\"data\":{\"exec_id\":0,\"nc_timestamp_ns\":1000,"
             "\"cpu_timestamp_ns\":" T0 "01000}},"
             "{\"event_type\":\"timestamp_sync_point\",\"phase\":\"instant\",\"nc_idx\":0,"
             "\"timestamp_ns\":" T0 "10000,\"data\":{\"exec_id\":1,\"nc_timestamp_ns\":9000,"
             "\"cpu_timestamp_ns\":" T0 "09004}},"
             "{\"event_type\":\"cc_running\",\"phase\":\"start\",\"nc_idx\":0,\"tracking_id\":2,"
             "\"timestamp_ns\":8900,\"data\":{%s\"nc_timestamp_ns\":8900}},"
             "{\"event_type\":\"cc_running\",\"phase\":\"stop\",\"nc_idx\":0,\"tracking_id\":2,"
             "\"timestamp_ns\":8950,\"data\":{\"nc_timestamp_ns\":8950}}" TAIL;
    static const char *const of[] = { "", "\"exec_id\":0,", "\"exec_id\":1," };

    for (size_t i = 0; i < MRD_COUNT(of); i++) {
        collected c = { 0 };
        const mrd_event *ev;
        char whole[2048];

        snprintf(whole, sizeof(whole), text, of[i]);
        collect_text(&c, ops, whole);
        CHECK_ERR(of[i], c.err, MRD_OK);
        REQUIRE((ev = collect_named(&c, "cc_running", 0)) != NULL);
        CHECK_INT(ev->ts.ns, 1700000000000008904);
        CHECK_TEXT(collect_arg_text(&c, ev, NRT_TIME_KEY), "device clock, between two sync points");
        collect_free(&c);
    }
}

static const struct {
    const char *name, *text;
    mrd_err err;
    size_t events, dropped;
    const char *said; /* expected text in the error, in the input's message or in the first note */
} rows[] = {
    { "no version", "{\"events\":[" EV("a", "instant", "0", "1", "1", T0 "00000", "") "]}", MRD_OK,
      1, 0, "does not state its data_version" },
    { "version before the events",
      "{\"data_version\":3,\"events\":[" EV("a", "instant", "0", "1", "1", T0 "00000", "") "]}",
      MRD_VERSION, 0, 0, "data_version 3, and only 2 is understood" },
    { "version behind the events",
      "{\"events\":[" EV("a", "instant", "0", "1", "1", T0 "00000", "") "],\"data_version\":1}",
      MRD_VERSION, 1, 0, "read as if it were that" },
    { "several documents",
      HEAD TAIL "\n" HEAD EV("a", "instant", "0", "1", "1", T0 "00000", "") TAIL HEAD TAIL, MRD_OK,
      1, 0, "" },
    { "no events", "{\"data_version\":2}", MRD_FORMAT, 0, 0, "a document without \"events\"" },
    { "not a document", "[1]", MRD_FORMAT, 0, 0, "a document that is an array" },
    { "no type", HEAD "{\"timestamp_ns\":1}" TAIL, MRD_OK, 0, 1, "without event_type" },
    { "no time", HEAD "{\"event_type\":\"a\"}" TAIL, MRD_OK, 0, 1, "without timestamp_ns" },
    { "time too large", HEAD "{\"event_type\":\"a\",\"timestamp_ns\":9223372036854775808}" TAIL,
      MRD_OK, 0, 1, "\"timestamp_ns\" has the wrong type or range" },
    { "fraction", HEAD "{\"event_type\":\"a\",\"timestamp_ns\":1.5}" TAIL, MRD_OK, 0, 1,
      "\"timestamp_ns\"" },
    { "a time that no output has",
      HEAD "{\"event_type\":\"a\",\"timestamp_ns\":6700000000000000000}" TAIL, MRD_OK, 0, 1,
      "before 1896 or after 2116" },
    { "such a time and no type",
      HEAD "{\"event_type\":\"a\",\"timestamp_ns\":6700000000000000000},{\"timestamp_ns\":1}" TAIL,
      MRD_OK, 0, 2, "before 1896 or after 2116" },
    { "start without tracking_id",
      HEAD "{\"event_type\":\"a\",\"phase\":\"start\",\"timestamp_ns\":1}" TAIL, MRD_OK, 0, 1,
      "a start without tracking_id" },
    { "unknown phase is kept",
      HEAD "{\"event_type\":\"a\",\"phase\":\"odd\",\"timestamp_ns\":1}" TAIL, MRD_OK, 1, 0, "" },
    { "cut", HEAD EV("a", "instant", "0", "1", "1", T0 "00000", "") ",{\"event_type\"",
      MRD_TRUNCATED, 1, 1, "the input ends" },
    { "data of the wrong type", HEAD "{\"event_type\":\"a\",\"timestamp_ns\":1,\"data\":[1]}" TAIL,
      MRD_OK, 1, 0, "" },
};

TEST(documents_good_and_bad)
{
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        for (size_t chunk = 0; chunk < 3; chunk++) {
            collected c = { 0 };
            const char *said;

            collect_bytes(&c, ops, rows[i].text, strlen(rows[i].text), chunk, NULL);
            CHECK_ERR(rows[i].name, c.err, rows[i].err);
            CHECK_ROW(rows[i].name, c.n == rows[i].events);
            CHECK_ROW(rows[i].name, c.input.dropped == rows[i].dropped);
            said = c.err != MRD_OK                  ? c.why.text
                   : c.input.error != MRD_SID_EMPTY ? collect_str(&c, c.input.error)
                   : mrd_catalog_notes(c.cat) > 0   ? mrd_catalog_note_at(c.cat, 0).p
                                                    : "";
            CHECK_ROW(rows[i].name, strstr(said, rows[i].said) != NULL);
            collect_free(&c);
        }
    }
}

/* Receives the events of a reader that is given one document after the other, as in the agent. */
typedef struct {
    mrd_catalog *cat;
    size_t n;
} sink;

static mrd_err
sink_emit(void *self, const mrd_event *ev)
{
    (void) ev;
    ((sink *) self)->n++;
    return MRD_OK;
}

static mrd_err
line_emit(void *self, const mrd_event *ev) /* the event's name states the expected track */
{
    const mrd_track *t = mrd_catalog_borrow_track(((const sink *) self)->cat, ev->track);
    char want[64];

    snprintf(want, sizeof(want), "%d/%d/%d", (int) t->lnc_idx, (int) t->thread_id,
             t->worker_gid == MRD_NONE ? 5 : (int) t->worker_gid);
    CHECK_TEXT(mrd_catalog_text(((const sink *) self)->cat, ev->name).p, want);
    ((sink *) self)->n++;
    return MRD_OK;
}

/* Each event is on the track of its core, thread and worker, in any order of events. The reader
 * remembers recently used tracks, and the test uses many more tracks than it remembers. */
TEST(every_event_is_on_its_own_line)
{
    enum { N = 20000 };
    sink s = { .cat = mrd_catalog_new() };
    mrd_nrt_options o = { .catalog = s.cat, .emit = line_emit, .self = &s };
    mrd_nrt *nrt = nrt_open(&o);
    uint64_t seed = 5;
    mrd_buf text = { 0 };

    mrd_buf_text(&text, HEAD);
    for (int i = 0; i < N; i++) {
        int core = i == 0 ? 0 : (int) (test_rand(&seed) % 3), worker = 5 + core;
        int thread = (int) (test_rand(&seed) % 400);

        mrd_buf_fmt(&text,
                    "%s{\"event_type\":\"%d/%d/%d\",\"phase\":\"instant\",\"nc_idx\":%d,"
                    "\"thread_id\":%d,\"worker_gid\":%d,\"timestamp_ns\":%lld,\"data\":{}}",
                    i == 0 ? "" : ",", core, thread, worker, core, thread, worker, NRT_T0 + i);
    }
    mrd_buf_text(&text, TAIL);
    nrt_feed(nrt, mrd_buf_cstr(&text));
    CHECK_INT(s.n, N);
    mrd_nrt_free(nrt);
    mrd_catalog_free(s.cat);
    mrd_buf_fini(&text);
}

/* The simulated runtime writes "simulated": true into its documents. The process is then marked as
 * simulated, and its events are read as usual. */
TEST(a_simulated_runtime_is_marked)
{
    static const struct {
        const char *said;
        bool simulated;
    } said[] = { { "", false },
                 { "\"simulated\":false,", false },
                 { "\"simulated\":true,", true } };

    for (size_t i = 0; i < MRD_COUNT(said); i++) {
        sink s = { .cat = mrd_catalog_new() };
        mrd_nrt_options o = { .catalog = s.cat, .emit = sink_emit, .self = &s };
        mrd_nrt *nrt = nrt_open(&o);
        mrd_process *p = mrd_catalog_borrow_process(s.cat, o.process);
        char text[600];

        p->flags = MRD_PROC_NO_PID;
        snprintf(text, sizeof(text), "{%s\"data_version\":2,\"events\":[%s]}", said[i].said,
                 EV("a", "start", "0", "1", "1", T0 "00100", ""));
        nrt_feed(nrt, text);
        p = mrd_catalog_borrow_process(s.cat, o.process);
        CHECK_INT(p->flags, MRD_PROC_NO_PID | (said[i].simulated ? MRD_PROC_SIMULATED : 0));
        mrd_nrt_free(nrt);
        mrd_catalog_free(s.cat);
    }
}

TEST(many_pairs_in_many_orders)
{
    enum { PAIRS = 20000 };
    mrd_buf text = { 0 };
    collected c = { 0 };
    int64_t sum = 0;

    mrd_buf_text(&text, HEAD);
    for (int i = 0; i < 2 * PAIRS; i++) {
        bool start = i < PAIRS;
        int k = start ? i : (int) ((int64_t) (i - PAIRS) * 7919 % PAIRS);

        mrd_buf_fmt(&text,
                    "%s{\"event_type\":\"t\",\"phase\":\"%s\",\"nc_idx\":%d,\"tracking_id\":%d,"
                    "\"timestamp_ns\":%lld}",
                    i == 0 ? "" : ",", start ? "start" : "stop", k % 4, k / 4, NRT_T0 + i);
    }
    mrd_buf_text(&text, TAIL);
    collect_bytes(&c, ops, text.p, text.len, 0, NULL);
    CHECK_INT(c.n, PAIRS);
    for (size_t i = 0; i < c.n; i++)
        sum += c.v[i]->ev.dur_ns;
    CHECK_INT(sum, (int64_t) PAIRS * PAIRS); /* on average all stops are PAIRS after all starts */
    CHECK_INT(c.input.unfinished, 0);
    collect_free(&c);
    mrd_buf_fini(&text);
}

TEST(detection_is_by_content)
{
    CHECK(mrd_import_detect(MRD_STR(HEAD EV("a", "start", "0", "1", "1", "1", "") TAIL), "x") ==
          ops);
    CHECK(mrd_import_detect(MRD_STR("{\"events\":[],\"data_version\":2}"), "x") == ops);
    CHECK(mrd_import_detect(MRD_STR("{\"events\":[]}"), "nrt.json") == NULL);
}

TEST_MAIN()
