/* A program for the newer asynchronous interface, in which the error argument is the status of the
 * request. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "capture/nrt/nrta_abi.h"

int
main(void)
{
    static const char neff[] = "SIMNEFF 1\nexec_us=100\n";
    nrt_tensor_set_t *in = NULL, *out = NULL;
    NRT_STATUS result = NRT_QUEUE_EMPTY;
    nrt_model_t *model = NULL;
    nrta_seq_t seq;

    nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", "");
    nrt_load(neff, strlen(neff), 0, -1, &model);
    nrt_allocate_tensor_set(&in);
    nrt_allocate_tensor_set(&out);
    printf("schedule %d\n", (int) nrta_execute_schedule(model, in, out, 0, &result, &seq));
    nrt_async_drain_queued_execs(0);
    printf("result %d\n", (int) result);
    printf("handle %s\n",
           dlsym(RTLD_DEFAULT, "nrta_get_completion_handle") == NULL ? "absent" : "present");
    nrt_close();
    return 0;
}
