/* A heartbeat must never exceed the size that the aggregator accepts, for any contents. Without
 * heartbeats the node counts as lost. */
#include "tests/agent/ops_make.h"

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

/* Simulates steps of a job, while the agent looks at the state of the job's ranks. Times begin at
 * *now, which is updated. */
static void
make_steps(const mrd_agent *a, maker *m, uint32_t name, mrd_local_ns *now, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        *now = mrd_local_add(*now, 40 * MRD_MS);
        ops_begin(m, 0, name, *now);
        *now = mrd_local_add(*now, 30 * MRD_MS);
        mrd_ranks_step(a->ranks, *now);
        *now = mrd_local_add(*now, 30 * MRD_MS);
        ops_end(m, 0, *now);
        mrd_ranks_step(a->ranks, *now);
    }
}

/* Stores the only rank of a new heartbeat, or all zeros if it has no list of ranks. */
static void
next_rank(mrd_agent *a, bool stored, Mrd__RankState *ret_rank, Mrd__RankOp *ret_op)
{
    Mrd__Ack ack = MRD__ACK__INIT;
    mrd_buf text = { 0 };
    mrd_msg msg = { 0 };

    memset(ret_rank, 0, sizeof(*ret_rank));
    CHECK_ERR("heartbeat", mrd_agent_heartbeat(a, &text), MRD_OK);
    REQUIRE(mrd_msg_unpack((mrd_bytes){ text.p, text.len }, &msg, NULL) == MRD_OK);
    if (msg.u.heartbeat->ranks != NULL) {
        REQUIRE(msg.u.heartbeat->ranks->n_ranks == 1);
        *ret_rank = *msg.u.heartbeat->ranks->ranks[0]; /* the pointers in it are not used */
        REQUIRE(ret_rank->n_ops == 1);
        *ret_op = *msg.u.heartbeat->ranks->ranks[0]->ops[0];
    }
    ack.status = stored ? MRD__ACK_STATUS__ACK_STORED : MRD__ACK_STATUS__ACK_REFUSED;
    mrd_agent_clock(a, mrd_local_now(), &ack, mrd_local_now());
    mrd_msg_free(&msg);
    mrd_buf_fini(&text);
}

/* The agent sends the list of ranks when the pace of a rank changes, even if its state does not. It
 * repeats the list until the aggregator has acknowledged it. */
TEST(paces_are_sent_without_a_change_of_state)
{
    mrd_agent_options o = { .ring_dir = (char *) (uintptr_t) test_tmp(),
                            .flush = 20 * MRD_MS,
                            .spool_bytes = 64 << 20,
                            .recorder_bytes = 64 << 20,
                            .stable = 30 * MRD_MS };
    maker *m = make_ring(test_tmp(), getpid(), make_start_ticks(getpid()), getpid(), 1 << 16);
    uint32_t name = make_text(m, "nrt_execute");
    mrd_local_ns now = mrd_local_now();
    fake_faults faults = { .seed = 1 };
    Mrd__RankState rank[4];
    Mrd__RankOp op[4];
    fake_aggregator g;
    uint64_t version;
    mrd_agent *a;

    make_ident(m, "MERIDIAN_JOB=train\nRANK=3\nWORLD_SIZE=8\n");
    fake_aggregator_init(&g);
    REQUIRE((a = open_agent(&o, fake_link(&g, &faults, 4))) != NULL);
    mrd_agent_step(a, 1);
    make_steps(a, m, name, &now, 50);
    version = mrd_ranks_version(a->ranks);
    next_rank(a, true, &rank[0], &op[0]);
    next_rank(a, true, &rank[1], &op[1]);
    make_steps(a, m, name, &now, 25);
    next_rank(a, false, &rank[2], &op[2]);
    next_rank(a, true, &rank[3], &op[3]);
    CHECK_INT(mrd_ranks_version(a->ranks), version);
    REQUIRE(rank[0].pace_local_ns > 0 && rank[2].pace_local_ns > rank[0].pace_local_ns);
    CHECK_INT(rank[1].process_id, 0); /* nothing new */
    CHECK_INT(rank[3].pace_local_ns, rank[2].pace_local_ns);
    CHECK_INT(rank[2].pace_lead, 0);
    CHECK_INT(rank[2].pace_local_ns - rank[0].pace_local_ns,
              (int64_t) (op[2].pace_entered - op[0].pace_entered) * 100 * MRD_MS);
    CHECK_INT(rank[2].pace_outside_ns - rank[0].pace_outside_ns,
              (int64_t) (op[2].pace_entered - op[0].pace_entered) * 40 * MRD_MS);
    CHECK_INT(op[2].pace_inside_ns - op[0].pace_inside_ns,
              (int64_t) (op[2].pace_entered - op[0].pace_entered) * 60 * MRD_MS);
    CHECK(rank[2].pace_on_cpu_ns > 0 && rank[2].pace_cpu_wait_ns >= 0);
    CHECK_INT(rank[2].pace_device_ns, -1);
    mrd_agent_close(a);
    fake_aggregator_fini(&g);
    make_free(m);
}

TEST_MAIN()
