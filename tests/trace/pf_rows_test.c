/* Tests the rows of a Perfetto trace and their names (trace/sink/perfetto/pf_rows.h). */
#include "tests/check.h"
#include "trace/sink/perfetto/pf_rows.h"

/* A viewer shows rows of the same name and parent as one row, so each name must be unique. */
TEST(no_two_rows_have_one_name)
{
    static const struct {
        mrd_source_kind source;
        mrd_track_kind kind;
        int64_t device, tid;
        const char *name, *row, *parent;
    } of[] = {
        { MRD_SRC_DEVCTR, MRD_TRACK_COUNTER, 0, MRD_NONE, "hbm.0.total", "hbm.0.total device 0",
          "i-a / pid 010" },
        { MRD_SRC_DEVCTR, MRD_TRACK_COUNTER, 1, MRD_NONE, "hbm.0.total", "hbm.0.total device 1",
          "i-a / pid 010" },
        { MRD_SRC_DEVCTR, MRD_TRACK_COUNTER, 1, MRD_NONE, "alone", "alone", "i-a / pid 010" },
        { MRD_SRC_RUNTIME, MRD_TRACK_SPANS, MRD_NONE, 5, "x", "x neuron_rt", "tid 005" },
        { MRD_SRC_API, MRD_TRACK_SPANS, MRD_NONE, 5, "x", "x nrt_api #1", "tid 005" },
        { MRD_SRC_API, MRD_TRACK_SPANS, MRD_NONE, 5, "x ", "x nrt_api #2", "tid 005" },
    };
    mrd_track_id id[MRD_COUNT(of)];
    mrd_catalog *cat = mrd_catalog_new();
    mrd_sink_options options = { 0 };
    mrd_pf_rows rows;
    mrd_process p;

    mrd_group_parse(MRD_STR("instance_id,process_id"), &options.primary, NULL);
    mrd_group_parse(MRD_STR("lnc_idx,thread_id"), &options.secondary, NULL);
    mrd_process_init(&p);
    p.instance_id = mrd_catalog_intern(cat, "i-a");
    p.process_id = 10;
    for (size_t i = 0; i < MRD_COUNT(of); i++) {
        mrd_track t;

        mrd_track_init(&t, mrd_catalog_process(cat, &p), of[i].source);
        t.kind = of[i].kind;
        t.device_idx = of[i].device;
        t.thread_id = of[i].tid;
        t.name = mrd_catalog_intern(cat, of[i].name);
        id[i] = mrd_catalog_track(cat, &t);
    }
    CHECK_ERR("rows", mrd_pf_rows_init(&rows, cat, 0, &options), MRD_OK);
    for (size_t i = 0; i < MRD_COUNT(of); i++) {
        const mrd_row *row = &rows.v[rows.of_track[id[i]]];
        mrd_buf name = { 0 }, parent = { 0 };

        mrd_pf_rows_name(&rows, row, &name);
        mrd_pf_rows_name(&rows, &rows.v[row->parent], &parent);
        CHECK_TEXT(mrd_buf_cstr(&name), of[i].row);
        CHECK_TEXT(mrd_buf_cstr(&parent), of[i].parent);
        mrd_buf_fini(&name);
        mrd_buf_fini(&parent);
    }
    mrd_pf_rows_fini(&rows);
    mrd_catalog_free(cat);
}

TEST_MAIN()
