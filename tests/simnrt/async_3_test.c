/* Tests explicit asynchronous execution on the simulated runtime, by the interface of SDK 2.29. In
 * this interface a request has a pointer for its status, a core, and one of three units. */
#include <poll.h>
#include <sys/eventfd.h>

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

static _Atomic int called;

static void
on_done(void *params, uint32_t model_id, uint32_t vnc, uint64_t job_id, NRT_STATUS status)
{
    (void) model_id;
    (void) job_id;
    called += params == &called && vnc == 0 && status == NRT_EXEC_COMPLETED_WITH_ERR ? 1 : 100;
}

TEST(the_status_is_written)
{
    NRT_STATUS result = NRT_QUEUE_EMPTY;
    nrta_seq_t seq, last = 0;
    struct pollfd pfd[2] = { { .events = POLLIN }, { .events = POLLIN } };
    sim_job job;

    setenv("SIMNRT_FAULT", "exec_error", 1);
    job = open_job();
    pfd[0].fd = eventfd(0, EFD_NONBLOCK);
    pfd[1].fd = eventfd(0, EFD_NONBLOCK);
    OK(nrt_register_async_exec_callback(on_done, &called));
    OK(nrta_event_register_xu_completion(0, NRTA3_XU_COMPUTE, 0, pfd[1].fd));
    OK(nrta_execute_schedule(job.model, job.in, job.out, 0, &result, &seq));
    OK(nrta_event_register_seq_id_completion(seq, pfd[0].fd));
    CHECK_INT(poll(&pfd[0], 1, 10000), 1);
    CHECK_INT(poll(&pfd[1], 1, 10000), 1);
    CHECK_INT(__atomic_load_n(&result, __ATOMIC_ACQUIRE), NRT_EXEC_COMPLETED_WITH_ERR);
    OK(nrta_get_sequence(0, NRTA3_XU_COMPUTE, 0, &last));
    CHECK_INT(last, seq);
    CHECK_INT(called, 1);
    CHECK_INT(nrta_event_register_seq_id_completion(seq + 1000, pfd[0].fd), NRT_INVALID);
}

TEST(tensors_go_by_the_core_that_is_named)
{
    NRT_STATUS status[3] = { NRT_QUEUE_EMPTY, NRT_QUEUE_EMPTY, NRT_QUEUE_EMPTY };
    char bytes[64], back[64] = { 0 };
    nrta_seq_t seq[3], last = 0;
    sim_job job = open_job();

    memset(bytes, 7, sizeof(bytes));
    OK(nrta_tensor_write(job.x, bytes, 8, 64, 1, 1, &status[0], &seq[0]));
    wait_for(seq[0]);
    OK(nrta_get_sequence(1, NRTA3_XU_TENSOR_OP, 1, &last));
    CHECK_INT(last, seq[0]);
    OK(nrta_tensor_copy(job.x, 8, job.y, 16, 64, 0, 0, &status[1], &seq[1]));
    wait_for(seq[1]);
    OK(nrta_tensor_read(back, job.y, 16, 64, 0, 1, &status[2], &seq[2]));
    wait_for(seq[2]);
    CHECK(NRTA_SEQ_GET_XU_ID(seq[0]) != NRTA_SEQ_GET_XU_ID(seq[2]));
    CHECK(status[0] == NRT_SUCCESS && status[1] == NRT_SUCCESS && status[2] == NRT_SUCCESS);
    CHECK(memcmp(bytes, back, 64) == 0);
    CHECK_INT(nrta_tensor_read(back, job.y, 0, 64, 99, 0, NULL, &seq[0]), NRT_INVALID);
    CHECK_INT(nrta_get_sequence(0, (nrta3_xu_t) 3, 0, &last), NRT_INVALID);
}

TEST_MAIN()
