/* Tests explicit asynchronous execution on the simulated runtime, by the interface until SDK 2.28.
 * async_3_test.c tests the newer interface. */
#define NRT_ASYNC_ABI 2
#include <poll.h>

#include "tests/simnrt/sim_help.h"
#include "tests/wait.h"

static void
wait_for(nrta_seq_t seq)
{
    bool done = false;

    TEST_UNTIL(nrta_is_completed(seq, &done) != NRT_SUCCESS || done);
    CHECK(done);
}

static sim_job
open_job(void)
{
    sim_settings_small();
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    return sim_job_load(0, 0, 1);
}

TEST(requests_complete_in_order)
{
    sim_job job = open_job();
    nrta_error_tracker_t *tracker = NULL;
    const nrta_error_t *list;
    nrta_seq_t seq[3], last, op;
    char bytes[256], back[256];
    size_t errors = 7;
    struct pollfd pfd = { .events = POLLIN };

    OK(nrta_error_tracker_create(0, &tracker));
    for (int i = 0; i < 3; i++)
        OK(nrta_execute_schedule(job.model, job.in, job.out, 0, tracker, &seq[i]));
    CHECK(seq[0] < seq[1] && seq[1] < seq[2]);
    CHECK_INT(NRTA_SEQ_GET_XU_ID(seq[0]), NRTA_SEQ_GET_XU_ID(seq[2]));
    OK(nrta_get_completion_handle(seq[2], &pfd.fd));
    CHECK_INT(poll(&pfd, 1, 10000), 1);
    close(pfd.fd);
    wait_for(seq[1]);
    OK(nrta_get_sequence(0, NRTA_XU_COMPUTE, 0, &last));
    CHECK_INT(last, seq[2]);
    OK(nrt_tensor_check_output_completion(job.y, 1000000, 3));
    memset(bytes, 5, sizeof(bytes));
    OK(nrta_tensor_write(job.x, bytes, 0, 256, 1, tracker, &op));
    wait_for(op);
    OK(nrta_tensor_copy(job.x, 0, job.y, 0, 256, 0, tracker, &op));
    wait_for(op);
    OK(nrta_tensor_read(back, job.y, 0, 256, 0, tracker, &op));
    wait_for(op);
    CHECK(memcmp(bytes, back, 256) == 0);
    OK(nrta_error_tracker_get_list(tracker, &list, &errors));
    CHECK_INT(errors, 0);
    CHECK_INT(nrta_execute_schedule(job.model, job.in, job.out, 1, tracker, &op), NRT_INVALID);
    CHECK_INT(nrta_tensor_write(job.x, bytes, 200, 100, 0, tracker, &op), NRT_INVALID);
    nrta_error_tracker_destroy(tracker);
}

TEST(full_queue_is_back_pressure)
{
    sim_job job;
    nrta_seq_t seq;
    int taken = 0;

    setenv("SIMNRT_QUEUE_DEPTH", "4", 1);
    job = open_job();
    while (nrta_execute_schedule(job.model, job.in, job.out, 0, NULL, &seq) == NRT_SUCCESS)
        taken++;
    CHECK(taken >= 4 && taken < 8);
    CHECK_INT(nrta_execute_schedule(job.model, job.in, job.out, 0, NULL, &seq), NRT_QUEUE_FULL);
    OK(nrt_async_drain_queued_execs(0));
    OK(nrta_execute_schedule(job.model, job.in, job.out, 0, NULL, &seq));
    OK(nrt_async_drain_queued_execs(0));
}

TEST(errors_are_tracked)
{
    nrta_error_tracker_t *tracker = NULL;
    const nrta_error_t *list;
    nrta_seq_t seq[2];
    size_t n = 0;
    sim_job job;

    setenv("SIMNRT_FAULT", "exec_error:exec=2", 1);
    job = open_job();
    OK(nrta_error_tracker_create(0, &tracker));
    for (int i = 0; i < 2; i++)
        OK(nrta_execute_schedule(job.model, job.in, job.out, 0, tracker, &seq[i]));
    wait_for(seq[1]);
    OK(nrta_error_tracker_get_list(tracker, &list, &n));
    REQUIRE(n == 1);
    CHECK_INT(list[0].seq_id, seq[1]);
    CHECK_INT(list[0].error_code, NRT_EXEC_COMPLETED_WITH_ERR);
    nrta_error_tracker_destroy(tracker);
}

TEST(collective_on_its_own_queue)
{
    uint32_t group[1] = { 0 };
    nrt_cc_comm_t comm = { .replica_group = group, .rank = 0, .rank_n = 1, .ctx_device_count = 1 };
    sim_job job = open_job();
    nrt_tensor_list_t list = { &job.x, 1 };
    nrt_cc_context_t *ctx = NULL;
    nrta_seq_t seq;

    OK(nrta_cc_prepare(&comm, &list, &list, NRT_DTYPE_FLOAT32, NRT_OP_ADD, NRT_CC_ALLREDUCE, &ctx));
    CHECK_INT(nrta_cc_schedule(&ctx, 1, NULL, &seq), NRT_INVALID);
    OK(nrta_cc_schedule(&ctx, 0, NULL, &seq));
    wait_for(seq);
    comm.rank = 1;
    CHECK_INT(
        nrta_cc_prepare(&comm, &list, &list, NRT_DTYPE_FLOAT32, NRT_OP_ADD, NRT_CC_ALLREDUCE, &ctx),
        NRT_INVALID);
}

TEST_MAIN()
