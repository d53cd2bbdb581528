/* A heartbeat must never exceed the size that the aggregator accepts, for any contents. Without
 * heartbeats the node counts as lost. */
#include "tests/agent/ring_make.h"

#include "agent/daemon/agent_int.h"
#include "tests/agent/open_agent.h"
#include "tests/fake/link.h"

static void
add(mrd_event *ev, mrd_arg *args, mrd_catalog *cat, const char *key, const char *text, uint64_t v)
{
    mrd_arg *a = &args[ev->arg_count++];

    *a = (mrd_arg){ .key = mrd_catalog_intern(cat, key), .type = MRD_ARG_UINT, .v.u = v };
    if (text != NULL) {
        a->type = MRD_ARG_TEXT;
        a->len = (uint32_t) strlen(text) & MRD_ARG_TEXT_MAX;
        a->v.text = text;
    }
    ev->args = args;
}

/* Adds models with long paths to the process. */
static void
load_models(mrd_agent *a, mrd_drain_process *process, uint64_t n)
{
    char path[256], hash[65];

    for (uint64_t i = 1; i <= n; i++) {
        mrd_event ev = { .kind = MRD_INSTANT, .ts = { mrd_local_now().ns } };
        mrd_arg args[3];

        snprintf(path, sizeof(path), "file:///%0170" PRIu64, i);
        snprintf(hash, sizeof(hash), "%064" PRIx64, i);
        add(&ev, args, process->catalog, "model_id", NULL, i);
        add(&ev, args, process->catalog, "path", path, 0);
        add(&ev, args, process->catalog, "hash", hash, 0);
        mrd_model_table_event(a->models, process, i, true, &ev);
    }
}

static void
take_process(void *self, mrd_drain_process *process)
{
    *(mrd_drain_process **) self = process;
}

TEST(a_node_of_many_models_is_seen)
{
    mrd_agent_options o = { .ring_dir = (char *) (uintptr_t) test_tmp(),
                            .flush = 20 * MRD_MS,
                            .spool_bytes = 64 << 20,
                            .recorder_bytes = 64 << 20,
                            .stable = 30 * MRD_MS };
    maker *m = make_ring(test_tmp(), getpid(), make_start_ticks(getpid()), getpid(), 1 << 16);
    Mrd__ControlReply reply = MRD__CONTROL_REPLY__INIT;
    Mrd__Control c = MRD__CONTROL__INIT;
    mrd_drain_process *process = NULL;
    char message[MRD_WHY_MAX];
    const Mrd__Heartbeat *beat;
    fake_faults faults = { .seed = 1 };
    mrd_buf text = { 0 };
    mrd_msg msg = { 0 };
    fake_aggregator g;
    mrd_agent *a;

    fake_aggregator_init(&g);
    REQUIRE((a = open_agent(&o, fake_link(&g, &faults, 4))) != NULL);
    mrd_agent_step(a, 1);
    mrd_drain_each(a->drain, take_process, &process);
    REQUIRE(process != NULL);
    c.type = MRD__CONTROL_TYPE__CONTROL_GO;
    for (c.session = 1; c.session <= 3; c.session++)
        mrd_agent_control(a, &c, &reply, message);
    CHECK_INT(mrd_record_sessions(a->record), 3);
    load_models(a, process, 700);
    CHECK_ERR("heartbeat", mrd_agent_heartbeat(a, &text), MRD_OK);
    REQUIRE(mrd_msg_unpack((mrd_bytes){ text.p, text.len }, &msg, NULL) == MRD_OK);
    beat = msg.u.heartbeat;
    REQUIRE(beat->models != NULL && beat->n_sessions == 3);
    CHECK(beat->models->n_loads > 50);
    CHECK_INT(beat->models->n_loads + beat->models->left_out, 700);
    for (size_t i = 0; i < beat->n_sessions; i++) {
        const Mrd__ModelList *list = beat->sessions[i]->models;

        REQUIRE(list != NULL);
        CHECK(list->n_loads > 50);
        CHECK_INT(list->n_loads + list->left_out, 700);
    }
    mrd_msg_free(&msg);
    mrd_buf_fini(&text);
    mrd_agent_close(a);
    fake_aggregator_fini(&g);
    make_free(m);
}

/* A session selects some events of a process. The agent cannot count which of the events that it
 * read before the session were selected, so the cause says "at most". */
TEST(what_was_read_too_early_is_a_bound_for_who_chooses)
{
    mrd_agent_options o = { .ring_dir = (char *) (uintptr_t) test_tmp(),
                            .flush = 20 * MRD_MS,
                            .spool_bytes = 64 << 20,
                            .recorder_bytes = 64 << 20,
                            .stable = 30 * MRD_MS };
    maker *m = make_ring(test_tmp(), getpid(), make_start_ticks(getpid()), getpid(), 1 << 16);
    static char type[] = "nc_exec_running", *types[] = { type };
    static const char *const want[] = { "started-late", "started-late-at-most" };
    mrd_local_ns now = mrd_local_now();
    Mrd__Selection sel = MRD__SELECTION__INIT;
    Mrd__Control c = MRD__CONTROL__INIT;
    mrd_drain_process *process = NULL;
    fake_faults faults = { .seed = 1 };
    mrd_buf text = { 0 };
    mrd_msg msg = { 0 };
    fake_aggregator g;
    mrd_agent *a;
    mrd_event ev = { .kind = MRD_INSTANT, .ts = { now.ns - MRD_SEC } };
    mrd_track track = { .source = MRD_SRC_ANNOTATION };

    fake_aggregator_init(&g);
    REQUIRE((a = open_agent(&o, fake_link(&g, &faults, 4))) != NULL);
    mrd_agent_step(a, 1);
    mrd_drain_each(a->drain, take_process, &process);
    REQUIRE(process != NULL);
    ev.track = mrd_catalog_track(process->catalog, &track);
    CHECK_ERR("event", mrd_record_event(a->record, process, MRD_DRAIN_RAW, &ev), MRD_OK);
    sel.types = types;
    sel.n_types = 1;
    for (c.session = 1; c.session <= 2; c.session++) {
        c.select = c.session == 1 ? NULL : &sel;
        CHECK_ERR("go", mrd_record_go(a->record, &c, mrd_local_sub(now, 5 * MRD_SEC), 0, NULL),
                  MRD_OK);
    }
    CHECK_ERR("heartbeat", mrd_agent_heartbeat(a, &text), MRD_OK);
    REQUIRE(mrd_msg_unpack((mrd_bytes){ text.p, text.len }, &msg, NULL) == MRD_OK);
    REQUIRE(msg.u.heartbeat->n_sessions == 2);
    for (size_t i = 0; i < 2; i++) {
        const Mrd__Counters *counters = msg.u.heartbeat->sessions[i]->counters;

        REQUIRE(counters->n_drops == 1);
        CHECK_TEXT(counters->drops[0]->cause, want[i]);
        CHECK(counters->drops[0]->count == 1 && counters->begun == 1);
    }
    mrd_msg_free(&msg);
    mrd_buf_fini(&text);
    mrd_agent_close(a);
    fake_aggregator_fini(&g);
    make_free(m);
}

TEST_MAIN()
