/* A program for an older runtime. Before it uses a newer function, it checks with dlsym if the
 * runtime has it. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "capture/nrt/nrt_abi.h"

int
main(void)
{
    static const char neff[] = "SIMNEFF 1\nexec_us=100\n";
    nrt_model_t *model = NULL;
    nrt_tensor_set_t *in = NULL, *out = NULL;

    nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", "");
    nrt_load(neff, strlen(neff), 0, -1, &model);
    nrt_allocate_tensor_set(&in);
    nrt_allocate_tensor_set(&out);
    printf("execute %d\n", (int) nrt_execute(model, in, out));
    printf("fetch %s\n",
           dlsym(RTLD_DEFAULT, "nrt_sys_trace_fetch_events") == NULL ? "absent" : "present");
    printf("inspect %s\n", dlsym(RTLD_DEFAULT, "nrt_inspect_begin") == NULL ? "absent" : "present");
    nrt_close();
    return 0;
}
