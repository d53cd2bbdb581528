/* Tests which events are recognised as collectives (trace/analysis/collectives.h). Each row is an
 * event. */
#include "tests/check.h"

#include "base/obj.h"
#include "trace/analysis/collectives.h"
#include "trace/model/arg_keys.h"

typedef struct {
    const char *key, *text;
    int64_t number;
} given;

typedef struct {
    mrd_catalog *cat;
    mrd_track_id device, thread;
} fixture;

static void
start(fixture *f)
{
    mrd_process p;
    mrd_track t;

    f->cat = mrd_catalog_new();
    mrd_process_init(&p);
    p.instance_id = mrd_catalog_intern(f->cat, "i-0");
    mrd_track_init(&t, mrd_catalog_process(f->cat, &p), MRD_SRC_FRAMEWORK);
    f->thread = mrd_catalog_track(f->cat, &t);
    t.device_idx = 3;
    f->device = mrd_catalog_track(f->cat, &t);
}

#define NAMED(c)                                                                                   \
    { "Collective name", (c), 0 },                                                                 \
    {                                                                                              \
        "dtype", "Float", 0                                                                        \
    }
#define KERNEL "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)"

static const struct {
    const char *name, *event;
    bool host;
    given args[6];
    mrd_cc_kind want;
    int64_t size;
} rows[] = {
    { "all-reduce by kernel",
      "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*)",
      false,
      { { 0 } },
      MRD_CC_SYNC,
      -1 },
    { "all-gather of a newer library",
      "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage)",
      false,
      { { 0 } },
      MRD_CC_SYNC,
      -1 },
    { "reduce-scatter by kernel",
      "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(x)",
      false,
      { { 0 } },
      MRD_CC_SYNC,
      -1 },
    { "broadcast by kernel",
      "ncclKernel_Broadcast_RING_LL_Sum_int8_t(ncclDevComm*)",
      false,
      { { 0 } },
      MRD_CC_LOOSE,
      0 },
    { "reduce is not reduce-scatter",
      "ncclKernel_Reduce_RING_LL_Sum_float(x)",
      false,
      { { 0 } },
      MRD_CC_LOOSE,
      0 },
    { "bare send and receive",
      "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(x)",
      false,
      { { 0 } },
      MRD_CC_SENDRECV,
      -1 },
    { "send and receive that is an all-to-all",
      "ncclDevKernel_SendRecv(x)",
      false,
      { NAMED("all_to_allv"), { "In msg nelems", NULL, 77 } },
      MRD_CC_SYNC,
      -1 },
    { "send and receive that is a send",
      "ncclDevKernel_SendRecv(x)",
      false,
      { NAMED("send") },
      MRD_CC_LOOSE,
      0 },
    { "any kernel with a name",
      KERNEL,
      false,
      { NAMED("allreduce"), { "In msg nelems", NULL, 2873320 }, { "Group size", NULL, 8 } },
      MRD_CC_SYNC,
      2873320 },
    { "any kernel without one", KERNEL, false, { { 0 } }, MRD_CC_LOOSE, 0 },
    { "underscores before the name",
      KERNEL,
      false,
      { NAMED("_allgather_base"), { "In msg nelems", NULL, 5 } },
      MRD_CC_SYNC,
      5 },
    { "alone in its group",
      KERNEL,
      false,
      { NAMED("allreduce"), { "Group size", NULL, 1 } },
      MRD_CC_LOOSE,
      0 },
    { "an operation on nothing",
      KERNEL,
      false,
      { NAMED("allreduce"), { "In msg nelems", NULL, 0 } },
      MRD_CC_LOOSE,
      0 },
    { "an all-to-all that gives somebody nothing",
      KERNEL,
      false,
      { NAMED("all_to_allv"), { "In msg nelems", NULL, 12 }, { "In split size", "[4, 0, 8]", 0 } },
      MRD_CC_LOOSE,
      0 },
    { "an all-to-all that gives everybody something",
      KERNEL,
      false,
      { NAMED("all_to_allv"), { "In msg nelems", NULL, 12 }, { "In split size", "[4, 10, 8]", 0 } },
      MRD_CC_SYNC,
      -1 },
    { "ranks that are not as many as the size",
      KERNEL,
      false,
      { NAMED("allreduce"),
        { "Group size", NULL, 2 },
        { "Process Group Ranks", "[0, 1, 2, 3]", 0 } },
      MRD_CC_WRONG,
      0 },
    { "a size in words",
      KERNEL,
      false,
      { NAMED("allreduce"), { "In msg nelems", "many", 0 } },
      MRD_CC_SYNC,
      -1 },
    { "a size below nothing",
      KERNEL,
      false,
      { NAMED("allreduce"), { "In msg nelems", NULL, -5 } },
      MRD_CC_SYNC,
      -1 },
    { "a group's size in words",
      KERNEL,
      false,
      { NAMED("allreduce"), { "Group size", "1", 0 } },
      MRD_CC_SYNC,
      -1 },
    { "a list that was cut short",
      KERNEL,
      false,
      { NAMED("allreduce"),
        { "Group size", NULL, 64 },
        { "Process Group Ranks", "[0, 1, ...]", 0 } },
      MRD_CC_SYNC,
      -1 },
    { "the launch, not the kernel",
      "ncclKernel_AllReduce_RING_LL_Sum_float(x)",
      true,
      { { 0 } },
      MRD_CC_NO,
      0 },
    { "annotation of an all-to-all", "nccl:all_to_all", true, { { 0 } }, MRD_CC_SAYS_ALL, 0 },
    { "annotation of a receive", "nccl:recv 0<-1", true, { { 0 } }, MRD_CC_SAYS_SINGLE, 0 },
    { "annotation of an all-reduce", "nccl:all_reduce", true, { { 0 } }, MRD_CC_NO, 0 },
    { "neuron operation",
      "cc_running",
      false,
      { { "gid", NULL, 0 }, { "op_id", NULL, 4 }, { "exec_id", NULL, 9 } },
      MRD_CC_SYNC,
      -1 },
    { "neuron operation with its size",
      "cc_running",
      false,
      { { "gid", NULL, 1 }, { "op_id", NULL, 4 }, { "size", NULL, 4096 } },
      MRD_CC_SYNC,
      4096 },
    { "neuron operation of nobody knows whom",
      "cc_running",
      false,
      { { "op_id", NULL, 4 } },
      MRD_CC_LOOSE,
      0 },
    { "neuron barrier", "cc_exec_barrier", false, { { 0 } }, MRD_CC_BARRIER, -1 },
    { "something else", "nc_exec_running", false, { { 0 } }, MRD_CC_NO, 0 },
};

static mrd_event
event_of(fixture *f, const char *name, bool host, const given *args, mrd_arg *to)
{
    mrd_event ev = { .kind = MRD_SPAN, .ts = { 1000 }, .dur_ns = 10, .args = to };

    ev.name = mrd_catalog_intern(f->cat, name);
    ev.track = host ? f->thread : f->device;
    for (size_t i = 0; i < 6 && args[i].key != NULL; i++) {
        to[i] = (mrd_arg){ .key = mrd_catalog_intern(f->cat, args[i].key), .type = MRD_ARG_INT };
        to[i].v.i = args[i].number;
        if (args[i].text != NULL) {
            to[i].type = MRD_ARG_STR;
            to[i].v.sid = mrd_catalog_intern(f->cat, args[i].text);
        }
        ev.arg_count++;
    }
    return ev;
}

/* Classifies one event. The object is created for each event, because all names must be in the
 * catalog before it is created. */
static mrd_cc_kind
see(fixture *f, const mrd_event *ev, mrd_cc *cc)
{
    mrd_collectives *c = mrd_collectives_new(f->cat, NULL);
    mrd_cc_kind kind = mrd_collectives_see(c, ev, cc);

    mrd_collectives_free(c);
    return kind;
}

TEST(kinds)
{
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_arg args[6];
        mrd_cc cc = { 0 };
        fixture f;
        mrd_event ev;

        start(&f);
        ev = event_of(&f, rows[i].event, rows[i].host, rows[i].args, args);
        CHECK_ROW(rows[i].name, see(&f, &ev, &cc) == rows[i].want);
        if (rows[i].want == MRD_CC_SYNC || rows[i].want == MRD_CC_SENDRECV)
            CHECK_ROW(rows[i].name, cc.size == rows[i].size);
        ev.dur_ns = MRD_DUR_UNFINISHED;
        CHECK_ROW(rows[i].name, see(&f, &ev, &cc) == MRD_CC_NO);
        mrd_catalog_free(f.cat);
    }
}

/* Pairs of events. Two events are of the same group, and of the same operation, exactly if the
 * texts that describe group and operation are equal. */
TEST(groups_and_operations)
{
    static const struct {
        const char *name;
        given a[6], b[6];
        bool group, op;
    } pairs[] = {
        { "the same",
          { NAMED("allreduce"), { "Process Group Name", "0", 0 } },
          { NAMED("allreduce"), { "Process Group Name", "0", 0 } },
          true,
          true },
        { "another name of the group",
          { NAMED("allreduce"), { "Process Group Name", "0", 0 } },
          { NAMED("allreduce"), { "Process Group Name", "3", 0 } },
          false,
          true },
        { "other members",
          { NAMED("allreduce"), { "Process Group Ranks", "[0, 1]", 0 } },
          { NAMED("allreduce"), { "Process Group Ranks", "[2, 3]", 0 } },
          false,
          true },
        { "another group size",
          { NAMED("allreduce"), { "Group size", NULL, 2 } },
          { NAMED("allreduce"), { "Group size", NULL, 4 } },
          false,
          true },
        { "another operation", { NAMED("allreduce") }, { NAMED("allgather") }, true, false },
        { "another type",
          { NAMED("allreduce") },
          { { "Collective name", "allreduce", 0 } },
          true,
          false },
    };

    for (size_t i = 0; i < MRD_COUNT(pairs); i++) {
        mrd_arg args[2][6];
        mrd_cc a = { 0 }, b = { 0 };
        fixture f;
        mrd_event x, y;

        start(&f);
        x = event_of(&f, KERNEL, false, pairs[i].a, args[0]);
        y = event_of(&f, KERNEL, false, pairs[i].b, args[1]);
        CHECK_ROW(pairs[i].name, see(&f, &x, &a) == MRD_CC_SYNC);
        CHECK_ROW(pairs[i].name, see(&f, &y, &b) == MRD_CC_SYNC);
        CHECK_ROW(pairs[i].name, (a.group == b.group) == pairs[i].group);
        CHECK_ROW(pairs[i].name, (a.op == b.op) == pairs[i].op);
        mrd_catalog_free(f.cat);
    }
}

/* The number of a collective is "Seq", or else "Comms Id", which may be a number or a text. The
 * members of a group are certain only if all its ranks are listed. */
TEST(numbers_and_lists)
{
    static const struct {
        const char *name;
        given args[6];
        int64_t seq; /* -2: any number */
        bool listed, lasting;
    } cases[] = {
        { "neither", { NAMED("allreduce"), { "Group size", NULL, 2 } }, -1, false, false },
        { "a number", { NAMED("allreduce"), { "Seq", NULL, 41 } }, 41, false, true },
        { "an id", { NAMED("allreduce"), { "comms_id", NULL, 7 } }, 7, false, true },
        { "PyTorch's id", { NAMED("allreduce"), { "Comms Id", NULL, 8 } }, 8, false, true },
        { "a hash above 2^63",
          { NAMED("allreduce"), { "Comms Id", NULL, INT64_MIN + 9 } },
          9,
          false,
          true },
        { "an unknown number", { NAMED("allreduce"), { "Seq", NULL, -1 } }, -1, false, false },
        { "a negative run",
          { { "hlo_op", "all-reduce.1", 0 }, { "run_id", NULL, -5 } },
          -2,
          false,
          false },
        { "both",
          { NAMED("allreduce"), { "comms_id", NULL, 7 }, { "Seq", NULL, 3 } },
          3,
          false,
          true },
        { "a text", { NAMED("allreduce"), { "comms_id", "9f-2", 0 } }, -2, false, true },
        { "a run", { { "hlo_op", "all-reduce.1", 0 }, { "run_id", NULL, 5 } }, -2, false, false },
        { "a run with Seq",
          { { "hlo_op", "all-reduce.1", 0 }, { "run_id", NULL, 5 }, { "Seq", NULL, 3 } },
          -2,
          false,
          false },
        { "a list",
          { NAMED("allreduce"), { "Process Group Ranks", "[0, 1]", 0 } },
          -1,
          true,
          false },
        { "cut",
          { NAMED("allreduce"), { "Process Group Ranks", "[0, ...]", 0 } },
          -1,
          false,
          false },
    };

    for (size_t i = 0; i < MRD_COUNT(cases); i++) {
        mrd_arg args[6];
        mrd_cc cc = { 0 };
        fixture f;
        mrd_event ev;

        start(&f);
        cc.lasting = !cases[i].lasting;
        ev = event_of(&f, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", false, cases[i].args, args);
        CHECK_ROW(cases[i].name, see(&f, &ev, &cc) == MRD_CC_SYNC);
        CHECK_ROW(cases[i].name, cc.lasting == cases[i].lasting);
        CHECK_ROW(cases[i].name, cases[i].seq == -2 ? cc.seq >= 0 : cc.seq == cases[i].seq);
        CHECK_ROW(cases[i].name, cc.listed == cases[i].listed);
        mrd_catalog_free(f.cat);
    }
}

/* The class of a number of collectives states whether its counting may begin again (RESTARTING) or
 * not (LASTING). The test fails if a number has no row here. */
TEST(each_number_has_its_class)
{
    static const struct {
        mrd_arg_key key;
        mrd_arg_class class;
    } numbers[] = { { MRD_KEY_COLLECTIVE_SEQ, MRD_ARG_CLASS_LASTING },
                    { MRD_KEY_COMMS, MRD_ARG_CLASS_LASTING },
                    { MRD_KEY_COMMS_ID, MRD_ARG_CLASS_LASTING },
                    { MRD_KEY_HLO_RUN, MRD_ARG_CLASS_RESTARTING } };
    size_t found = 0;

    for (size_t i = 0; i < MRD_COUNT(numbers); i++)
        CHECK_ROW(mrd_arg_key_text(numbers[i].key),
                  mrd_arg_key_class(numbers[i].key) == numbers[i].class);
    for (mrd_arg_key key = 0; key < MRD_ARG_KEYS; key++) {
        mrd_arg_class class = mrd_arg_key_class(key);

        found += class == MRD_ARG_CLASS_LASTING || class == MRD_ARG_CLASS_RESTARTING;
        CHECK_ROW(mrd_arg_key_text(key), key >= MRD_ARG_COLUMNS || class == MRD_ARG_CLASS_INT);
    }
    CHECK_INT(found, MRD_COUNT(numbers));
}

/* Messages use the names of groups and operations from the events. */
TEST(what_people_call_them)
{
    static const struct {
        const char *event;
        given in[6];
        const char *group, *op;
    } of[] = {
        { KERNEL,
          { NAMED("allreduce"), { "Process Group Name", "dp", 0 } },
          "dp",
          "allreduce Float" },
        { KERNEL,
          { NAMED("allreduce"),
            { "Process Group Name", "dp", 0 },
            { "Process Group Ranks", "[0, 1]", 0 } },
          "dp of ranks [0, 1]",
          "allreduce Float" },
        { KERNEL,
          { NAMED("allreduce"),
            { "Process Group Ranks", "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]",
              0 } },
          "of ranks [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 1...",
          "allreduce Float" },
        { "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*)",
          { { 0 } },
          "of all ranks",
          "_AllReduce_RING_LL_Sum_float" },
        { "cc_running",
          { { "gid", NULL, 7 }, { "op_id", NULL, 3 }, { "size", NULL, 64 } },
          "gid 7",
          "op_id 3" },
        { "cc_exec_barrier", { { 0 } }, "of all cores", "cc_exec_barrier" },
    };

    for (size_t i = 0; i < MRD_COUNT(of); i++) {
        mrd_arg args[6];
        mrd_cc cc = { 0 };
        mrd_collectives *c;
        mrd_event ev;
        fixture f;

        start(&f);
        ev = event_of(&f, of[i].event, false, of[i].in, args);
        c = mrd_collectives_new(f.cat, NULL);
        (void) mrd_collectives_see(c, &ev, &cc);
        CHECK(mrd_collectives_text(c, cc.group) == NULL);
        mrd_collectives_remember(c, &ev, &cc);
        CHECK_TEXT(mrd_collectives_text(c, cc.group), of[i].group);
        CHECK_TEXT(mrd_collectives_text(c, cc.op), of[i].op);
        mrd_collectives_free(c);
        mrd_catalog_free(f.cat);
    }
}

/* If an event lists the ranks of its group, the rank of its process must be one of them. Otherwise
 * the event is called wrong. */
TEST(a_rank_belongs_to_its_group)
{
    static const given in[6] = { NAMED("allreduce"), { "Process Group Ranks", "[0, 12]", 0 } };
    static const struct {
        int64_t rank;
        mrd_cc_kind want;
    } of[] = { { 12, MRD_CC_SYNC }, { 1, MRD_CC_WRONG }, { MRD_NONE, MRD_CC_SYNC } };

    for (size_t i = 0; i < MRD_COUNT(of); i++) {
        mrd_arg args[6];
        mrd_cc cc = { 0 };
        mrd_event ev;
        fixture f;

        start(&f);
        mrd_catalog_borrow_process(f.cat, mrd_catalog_borrow_track(f.cat, f.device)->process)
            ->rank = of[i].rank;
        ev = event_of(&f, KERNEL, false, in, args);
        CHECK(see(&f, &ev, &cc) == of[i].want);
        mrd_catalog_free(f.cat);
    }
}

/* The size of an operation is used even if the operation is unknown. */
TEST(an_unknown_operation_has_its_size)
{
    static const given in[6] = { NAMED("allthings"), { "In msg nelems", NULL, 77 } };
    mrd_arg args[6];
    mrd_cc cc = { 0 };
    mrd_event ev;
    fixture f;

    start(&f);
    ev = event_of(&f, KERNEL, false, in, args);
    CHECK(see(&f, &ev, &cc) == MRD_CC_LOOSE);
    CHECK_INT(cc.size, 77);
    CHECK_INT(cc.bytes, 77 * 4);
    CHECK_INT(cc.traffic, MRD_CC_TRAFFIC_ONE);
    mrd_catalog_free(f.cat);
}

TEST_MAIN()
