#include "trace/sink/group.h"

#include "tests/check.h"

static const struct {
    const char *text;
    mrd_err want;
    size_t n;
} rows[] = {
    { "instance_id,process_id", MRD_OK, 2 },
    { "worker_gid,lnc_idx,thread_id", MRD_OK, 3 },
    { "thread_id", MRD_OK, 1 },
    { "instance_id,process_id,cpu_device,worker_gid,lnc_idx,thread_id", MRD_OK, 6 },
    { "", MRD_INVALID, 0 },
    { "lnc_idx,", MRD_INVALID, 0 },
    { "lnc_idx,lnc_idx", MRD_INVALID, 0 },
    { "pid", MRD_INVALID, 0 },
};

TEST(words_become_fields)
{
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_group group = { 0 };
        mrd_why why = { 0 };

        CHECK_ERR(rows[i].text, mrd_group_parse(mrd_str_of(rows[i].text), &group, &why),
                  rows[i].want);
        CHECK_INT(group.n, rows[i].n);
        CHECK_ROW(rows[i].text, rows[i].want == MRD_OK || strchr(why.text, '\'') != NULL);
    }
}

static const char *
label(const mrd_catalog *cat, const char *fields, mrd_track_id track, mrd_buf *buf)
{
    mrd_group group = { 0 };

    mrd_group_parse(mrd_str_of(fields), &group, NULL);
    mrd_buf_reset(buf);
    mrd_group_label(cat, &group, track, buf);
    return mrd_buf_cstr(buf);
}

TEST(labels_and_order)
{
    mrd_catalog *cat = mrd_catalog_new();
    mrd_group group = { 0 };
    mrd_process p;
    mrd_track t;
    mrd_track_id id[5];
    mrd_buf buf = { 0 };

    mrd_process_init(&p);
    p.instance_id = mrd_catalog_intern(cat, "i-0abc");
    p.process_id = 4711;
    mrd_track_init(&t, mrd_catalog_process(cat, &p), MRD_SRC_RUNTIME);
    for (int64_t i = 0; i < 3; i++) {
        t.lnc_idx = (int64_t[]){ 10, 2, MRD_NONE }[i];
        t.thread_id = i == 2 ? MRD_NONE : 5000;
        id[i] = mrd_catalog_track(cat, &t);
    }
    p.flags = MRD_PROC_NODE;
    p.process_id = 0;
    p.scope = 9;
    mrd_track_init(&t, mrd_catalog_process(cat, &p), MRD_SRC_HOST);
    id[3] = mrd_catalog_track(cat, &t);
    mrd_track_init(&t, mrd_catalog_borrow_track(cat, id[0])->process, MRD_SRC_DEVICE);
    t.lnc_idx = 10;
    id[4] = mrd_catalog_track(cat, &t);
    CHECK_TEXT(label(cat, "instance_id,process_id", id[0], &buf), "i-0abc / pid 4711");
    CHECK_TEXT(label(cat, "lnc_idx,thread_id", id[0], &buf), "NC 010 / tid 5000");
    CHECK_TEXT(label(cat, "lnc_idx", id[1], &buf), "NC 002");
    CHECK_TEXT(label(cat, "worker_gid,lnc_idx,thread_id", id[2], &buf), "-");
    CHECK_TEXT(label(cat, "instance_id,process_id", id[3], &buf), "i-0abc");
    CHECK_TEXT(label(cat, "process_id,cpu_device", id[0], &buf), "pid 4711 / CPU");
    CHECK_TEXT(label(cat, "cpu_device,lnc_idx", id[4], &buf), "device / NC 010");
    mrd_group_parse(MRD_STR("process_id,lnc_idx"), &group, NULL);
    CHECK(mrd_group_order(cat, &group, id[1], id[0]) < 0); /* 2 before 10 */
    CHECK(mrd_group_order(cat, &group, id[2], id[1]) < 0);
    CHECK(mrd_group_order(cat, &group, id[1], id[3]) < 0);
    mrd_group_parse(MRD_STR("cpu_device,process_id"), &group, NULL);
    CHECK(mrd_group_order(cat, &group, id[3], id[4]) < 0); /* the CPU before the device */
    mrd_group_parse(MRD_STR("process_id"), &group, NULL);
    CHECK_INT(mrd_group_order(cat, &group, id[0], id[2]), 0);
    mrd_buf_fini(&buf);
    mrd_catalog_free(cat);
}

TEST_MAIN()
