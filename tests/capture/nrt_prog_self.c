/* A program for the runtime of nrt_self.c. It makes calls inside a callback of the runtime, and
 * after it left a callback by siglongjmp. It also receives a new status. */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

#include "capture/nrt/nrt_abi.h"

static sigjmp_buf out;
static bool leaves;
static nrt_model_t *model, *second;

static void
done(void *params, uint32_t model_id, uint32_t vnc, uint64_t job_id, NRT_STATUS status)
{
    (void) params;
    printf("done %u %u %d\n", model_id, vnc, (int) status);
    printf("read %d\n", (int) nrt_tensor_read(NULL, NULL, 0, 100 + job_id));
    if (job_id == 1)
        printf("load %d\n", (int) nrt_load("second", 6, 1, 1, &second));
    if (leaves)
        siglongjmp(out, 1);
}

/* Loads many models. Half of them are unloaded, and the others end when the runtime is closed. */
static int
many_models(void)
{
    static nrt_model_t *models[5000];
    const size_t n = sizeof(models) / sizeof(models[0]);
    int sum = 0;

    for (size_t i = 0; i < n; i++) {
        char neff[32];

        sum += (int) nrt_load(neff, (size_t) snprintf(neff, sizeof(neff), "model %zu", i),
                              (int32_t) (i % 8), 1, &models[i]);
    }
    for (size_t i = 0; i < n; i++)
        sum += (int) nrt_execute(models[i], NULL, NULL);
    for (size_t i = 0; i < n; i += 2)
        sum += (int) nrt_unload(models[i]);
    nrt_close();
    printf("the statuses of %zu loads and executions and of %zu unloads are together %d\n", n,
           n / 2, sum);
    printf("and opened again: init %d load %d\n", (int) nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""),
           (int) nrt_load("again", 5, 0, 1, &models[0]));
    return 0;
}

static volatile sig_atomic_t in_handler;

static int
send_one(size_t length)
{
    nrt_async_sendrecv_request_t *request = NULL;
    bool is_done = false;
    size_t size = 0;
    int sum = (int) nrt_async_sendrecv_send_tensor(NULL, 0, length, NULL, &request);

    return sum + (int) nrt_async_sendrecv_test_request(request, &is_done, &size) + !is_done;
}

static void
on_alarm(int sig)
{
    (void) sig;
    in_handler += send_one(2) == 0;
}

/* Sends asynchronous requests while a signal handler interrupts the calls and sends requests, too. */
static int
sends_in_handlers(void)
{
    const struct itimerval often = { { 0, 20 }, { 0, 20 } }, never = { { 0, 0 }, { 0, 0 } };
    int sum = 0;

    signal(SIGALRM, on_alarm);
    (void) setitimer(ITIMER_REAL, &often, NULL);
    for (int n = 0; n < 300 || in_handler < 300;
         n++) /* on a busy machine the handler uses all the time */
        sum += send_one(1);
    (void) setitimer(ITIMER_REAL, &never, NULL);
    for (int n = 0; n < 300; n++)
        (void) raise(SIGALRM);
    printf("the statuses of all sends, and of all questions whether they were done, are together "
           "%d, in "
           "and out of the handler\n",
           sum);
    nrt_close();
    return 0;
}

int
main(int argc, char **argv)
{
    leaves = argc > 1 && strcmp(argv[1], "leaves") == 0;
    printf("init %d\n", (int) nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    if (argc > 1 && strcmp(argv[1], "models") == 0)
        return many_models();
    if (argc > 1 && strcmp(argv[1], "sends") == 0)
        return sends_in_handlers();
    if (argc > 1 && strcmp(argv[1], "statuses") == 0) {
        printf("the unload of a model that does not exist, of which this runtime says something "
               "that no header has a name for: %d\n",
               (int) nrt_unload(NULL));
        nrt_close();
        return 0;
    }
    printf("load %d\n", (int) nrt_load("first", 5, 0, 1, &model));
    printf("register %d\n", (int) nrt_register_async_exec_callback(done, NULL));
    for (volatile int i = 0; i < 3; i++)
        if (sigsetjmp(out, 1) == 0)
            printf("execute %d\n", (int) nrt_execute(model, NULL, NULL));
    leaves = false;
    printf("execute %d\n", (int) nrt_execute(second, NULL, NULL));
    printf("read %d\n", (int) nrt_tensor_read(NULL, NULL, 0, 7));
    nrt_close();
    return 0;
}
