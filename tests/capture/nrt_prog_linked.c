/*
 * A program that links libmeridian in front of the Neuron runtime. It turns recording on by itself
 * before or after it opens the runtime, or after a pause, or it selects the recorded kinds. With
 * ONLY_HOOKED it uses only functions that libmeridian also has, so --as-needed drops libnrt.
 */
#include <stdio.h>
#include <string.h>

#include "capture/meridian.h"
#include "capture/nrt/nrt_abi.h"

#define NEFF "SIMNEFF 1\nname=linked\nexec_us=1000\ninput=x:float32:8x8\noutput=y:float32:8x8\n"

static int
open_runtime(void)
{
    int status = (int) nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "1.0", "2.0");

    printf("nrt_init = %d\n", status);
    return status;
}

#ifdef ONLY_HOOKED
int
main(void)
{
    mrd_set_state(1);
    if (open_runtime() != 0)
        return 1;
    nrt_close();
    return 0;
}
#else
static void
turn_on(const char *mode, const char *when)
{
    if (strcmp(mode, when) != 0)
        return;
    mrd_set_state(1);
    printf("%s: %s\n", when, mrd_status_text());
}

static void
turn_off(const char *how)
{
    if (strcmp(how, "stop") == 0)
        mrd_set_state(0);
    else if (strcmp(how, "pause") == 0)
        mrd_pause();
    else
        mrd_set_config("profile_api", "0");
}

/* Turns recording off as soon as the last of some executions has returned. */
static void
execute_and_turn_off(nrt_model_t *model, nrt_tensor_set_t *in, nrt_tensor_set_t *out,
                     const char *how)
{
    int failed = 0;

    for (int i = 0; i < 50; i++)
        failed += nrt_execute(model, in, out) != NRT_SUCCESS;
    turn_off(how);
    for (int i = 0; i < 7; i++)
        failed += nrt_execute(model, in, out) != NRT_SUCCESS;
    printf("failed %d\n", failed);
}

int
main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "before";
    nrt_tensor_set_t *in = NULL, *out = NULL;
    nrt_tensor_t *x = NULL, *y = NULL;
    nrt_model_t *model = NULL, *other = NULL;

    turn_on(mode, "before");
    if (strncmp(mode, "off by ", 7) == 0)
        mrd_set_state(1);
    if (strcmp(mode, "paused") == 0) {
        mrd_set_state(1);
        mrd_pause();
    }
    if (strncmp(mode, "profile_", 8) == 0) {
        mrd_set_state(1);
        mrd_set_config(mode, "0");
    }
    if (open_runtime() != 0 || nrt_load(NEFF, strlen(NEFF), 0, -1, &model) != NRT_SUCCESS ||
        nrt_load(NEFF, strlen(NEFF), 0, -1, &other) != NRT_SUCCESS)
        return 1;
    turn_on(mode, "after");
    if (strcmp(mode, "paused") == 0)
        mrd_resume();
    if (strcmp(mode, "profile_all") == 0)
        mrd_set_config(mode, "1");
    nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 256, "x", &x);
    nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 256, "y", &y);
    nrt_allocate_tensor_set(&in);
    nrt_allocate_tensor_set(&out);
    nrt_add_tensor_to_tensor_set(in, "x", x);
    nrt_add_tensor_to_tensor_set(out, "y", y);
    if (strncmp(mode, "off by ", 7) == 0)
        execute_and_turn_off(other, in, out, mode + 7);
    else
        printf("nrt_execute = %d\n", (int) nrt_execute(other, in, out));
    nrt_unload(model); /* first in, first out */
    nrt_unload(other);
    nrt_close();
    return 0;
}
#endif
