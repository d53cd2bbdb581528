#include "trace/model/catalog.h"

#include "tests/check.h"

TEST(equal_text_has_one_id)
{
    mrd_strtab *tab = mrd_strtab_new(0);
    char text[32];

    CHECK_INT(mrd_strtab_add(tab, MRD_STR("")), MRD_SID_EMPTY);
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < 5000; i++) {
            snprintf(text, sizeof(text), "name %u", i);
            CHECK_INT(mrd_strtab_addz(tab, text), i + 2);
        }
    }
    CHECK_TEXT(mrd_strtab_get(tab, 4321 + 2).p, "name 4321");
    CHECK_INT(mrd_strtab_find(tab, MRD_STR("absent")), 0);
    CHECK_INT(mrd_strtab_get(tab, 999999).len, 0);
    CHECK_INT(mrd_strtab_add(tab, MRD_STR("bad\xff")),
              mrd_strtab_add(tab, MRD_STR("bad\xef\xbf\xbd")));
    mrd_strtab_free(tab);
}

TEST(memory_is_bounded_and_refusals_counted)
{
    mrd_strtab *tab = mrd_strtab_new(1000);
    char text[32];
    uint32_t refused = 0;

    for (int i = 0; i < 100; i++) {
        snprintf(text, sizeof(text), "%d", i);
        refused += mrd_strtab_addz(tab, text) == MRD_SID_FULL;
    }
    CHECK(refused > 0 && refused < 100);
    CHECK_INT(mrd_strtab_refused(tab), refused);
    CHECK_TEXT(mrd_strtab_get(tab, MRD_SID_FULL).p, "(too many distinct names)");
    mrd_strtab_free(tab);
}

TEST(identity_decides_what_is_one_process_and_one_track)
{
    mrd_catalog *cat = mrd_catalog_new();
    mrd_process p;
    mrd_track t;
    mrd_proc_id a, b;

    mrd_process_init(&p);
    p.instance_id = mrd_catalog_intern(cat, "i-1");
    p.process_id = 7;
    a = mrd_catalog_process(cat, &p);
    p.rank = 3;
    p.name = mrd_catalog_intern(cat, "python");
    p.labels = mrd_catalog_intern(cat, "cores=0");
    CHECK_INT(mrd_catalog_process(cat, &p), a);
    CHECK_INT(mrd_catalog_borrow_process(cat, a)->rank, 3);
    p.labels = mrd_catalog_intern(cat, "cores=0,arch=NCv3");
    CHECK_INT(mrd_catalog_process(cat, &p), a);
    CHECK(mrd_catalog_borrow_process(cat, a)->labels == p.labels);
    p.labels = mrd_catalog_intern(cat, "cores=0");
    CHECK_INT(mrd_catalog_process(cat, &p), a);
    CHECK(mrd_catalog_borrow_process(cat, a)->labels != p.labels);
    p.instance_id = mrd_catalog_intern(cat, "i-2"); /* pids repeat across nodes */
    b = mrd_catalog_process(cat, &p);
    CHECK(a != b);
    for (int i = 0; i < 1000; i++) {
        mrd_track_init(&t, i % 2 ? a : b, MRD_SRC_RUNTIME);
        t.thread_id = i;
        CHECK_INT(mrd_catalog_track(cat, &t), i);
    }
    mrd_track_init(&t, b, MRD_SRC_RUNTIME);
    t.thread_id = 500;
    CHECK_INT(mrd_catalog_track(cat, &t), 500);
    CHECK_INT(mrd_catalog_tracks(cat), 1000);
    mrd_catalog_free(cat);
}

TEST(facts_replace_and_notes_do_not_repeat)
{
    mrd_catalog *cat = mrd_catalog_new();

    mrd_catalog_set(cat, "simulated", "no");
    mrd_catalog_set(cat, "simulated", "yes");
    CHECK_INT(mrd_catalog_facts(cat), 1);
    CHECK_TEXT(mrd_catalog_get(cat, "simulated"), "yes");
    CHECK(mrd_catalog_get(cat, "absent") == NULL);
    mrd_catalog_note(cat, "%d files not decoded", 2);
    mrd_catalog_note(cat, "%d files not decoded", 2);
    CHECK_INT(mrd_catalog_notes(cat), 1);
    mrd_catalog_free(cat);
}

TEST(order_of_events)
{
    mrd_event parent = { .ts = { 10 }, .dur_ns = 9, .kind = MRD_SPAN, .seq = 2 };
    mrd_event child = { .ts = { 10 }, .dur_ns = 4, .kind = MRD_SPAN, .seq = 1 };
    mrd_event open = { .ts = { 10 }, .dur_ns = MRD_DUR_UNFINISHED, .kind = MRD_SPAN, .seq = 3 };
    mrd_event flow = { .ts = { 10 }, .kind = MRD_FLOW, .seq = 4 };

    CHECK(mrd_event_order(&parent, &child) < 0);
    CHECK(mrd_event_order(&open, &parent) < 0);
    CHECK(mrd_event_order(&flow, &open) < 0);
    CHECK(mrd_event_order(&child, &child) == 0);
    CHECK(mrd_flow_id(1, 0, 5) != mrd_flow_id(2, 0, 5));
}

/* A process gets a worker_gid (the runtime's number of a worker) only if all of its cores state the
 * same one. `told` is the number that the process states. */
TEST(a_process_has_a_worker_gid_where_all_its_cores_have_it)
{
    static const struct {
        const char *row;
        int64_t told, cores[3], want;
    } rows[] = {
        { "none known", MRD_NONE, { MRD_NONE, MRD_NONE, MRD_NONE }, MRD_NONE },
        { "one", MRD_NONE, { 5, MRD_NONE, 5 }, 5 },
        { "several", MRD_NONE, { 5, 6, 5 }, MRD_NONE },
        { "several, the first again behind them", MRD_NONE, { 6, 5, 6 }, MRD_NONE },
        { "told, and its cores agree", 5, { 5, 5, 5 }, 5 },
        { "told, and a core is another", 5, { MRD_NONE, 6, MRD_NONE }, MRD_NONE },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_catalog *cat = mrd_catalog_new();
        mrd_process p;
        mrd_proc_id id;

        mrd_process_init(&p);
        p.instance_id = mrd_catalog_intern(cat, "i-0");
        p.process_id = 7;
        p.worker_gid = rows[i].told;
        id = mrd_catalog_process(cat, &p);
        for (unsigned k = 0; k < 3; k++) {
            mrd_track t;

            mrd_track_init(&t, id, MRD_SRC_DEVICE);
            t.lnc_idx = k;
            t.worker_gid = rows[i].cores[k];
            CHECK_ROW(rows[i].row,
                      mrd_catalog_borrow_track(cat, mrd_catalog_track(cat, &t))->worker_gid ==
                          rows[i].cores[k]);
        }
        CHECK_ROW(rows[i].row, mrd_catalog_borrow_process(cat, id)->worker_gid == rows[i].want);
        p.worker_gid = 9; /* another header of it */
        if (rows[i].want == MRD_NONE && rows[i].cores[1] == 6) {
            mrd_catalog_process(cat, &p);
            CHECK_ROW(rows[i].row, mrd_catalog_borrow_process(cat, id)->worker_gid == MRD_NONE);
        }
        mrd_catalog_free(cat);
    }
}

TEST(a_file_is_listed_once)
{
    mrd_catalog *cat = mrd_catalog_new();
    mrd_artifact a = { .path = mrd_catalog_intern(cat, "in/one.ntff"),
                       .kind = mrd_catalog_intern(cat, "NTFF"),
                       .sha256 = "ab",
                       .size = 5,
                       .process_id = 7,
                       .nc_idx = 0 };
    uint32_t first = mrd_catalog_add_artifact(cat, &a);
    size_t n;

    a.path = mrd_catalog_intern(cat, "/tmp/in/one.ntff"); /* as an earlier result lists it */
    CHECK_INT(mrd_catalog_add_artifact(cat, &a), first);
    a.nc_idx = 1;
    CHECK(mrd_catalog_add_artifact(cat, &a) != first);
    a.sha256[0] = '\0'; /* a file that could not be read is not known to be the same */
    mrd_catalog_add_artifact(cat, &a);
    mrd_catalog_add_artifact(cat, &a);
    (void) mrd_catalog_artifacts(cat, &n);
    CHECK_INT(n, 4);
    mrd_catalog_free(cat);
}

TEST_MAIN()
