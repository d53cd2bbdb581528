/* A program that loads the runtime library with RTLD_GLOBAL, uses it, unloads it, and repeats this
 * at another address. With the argument "open", it unloads the library without a call of
 * nrt_close. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "capture/nrt/nrt_abi.h"
#include "tests/wait.h"

#define NEFF                                                                                       \
    "SIMNEFF 1\nname=prog\nexec_us=1000\ncc=2\ntensor_frees=2\ncopyins=1\n"                        \
    "input=x:float32:8x8\noutput=y:float32:8x8\n"

static void *
use(bool close_it)
{
    void *lib = dlopen(NRT_SONAME, RTLD_NOW | RTLD_GLOBAL);
    nrt_model_t *model = NULL;
    nrt_tensor_t *x = NULL;
    nrt_tensor_set_t *set = NULL, *out = NULL;

#define FIND(name) __typeof__(name) *p_##name = (__typeof__(name) *) dlsym(lib, #name)
    FIND(nrt_init);
    FIND(nrt_close);
    FIND(nrt_load);
    FIND(nrt_execute);
    FIND(nrt_tensor_allocate);
    FIND(nrt_allocate_tensor_set);
    FIND(nrt_add_tensor_to_tensor_set);
#undef FIND
    printf("the runtime is loaded for all libraries of this program and opened: nrt_init %d\n",
           (int) p_nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    printf("load %d\n", (int) p_nrt_load(NEFF, strlen(NEFF), 0, -1, &model));
    p_nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 256, "x", &x);
    p_nrt_allocate_tensor_set(&set);
    p_nrt_allocate_tensor_set(&out);
    p_nrt_add_tensor_to_tensor_set(set, "x", x);
    p_nrt_add_tensor_to_tensor_set(out, "y", x);
    for (int i = 0; i < 2; i++)
        printf("execute %d\n", (int) p_nrt_execute(model, set, out));
    if (close_it)
        p_nrt_close();
    return lib;
}

/* Maps memory at the addresses of the closed library, so that the next dlopen loads it at other
 * addresses. */
static void
fill(void)
{
    for (size_t i = 1; i < 64; i++)
        (void) mmap(NULL, i << 14, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

int
main(int argc, char **argv)
{
    bool open = argc > 1 && strcmp(argv[1], "open") == 0;

    printf("close %d\n", dlclose(use(!open)));
    if (open) /* long enough that a thread of libmeridian calls the runtime meanwhile */
        test_let_it_run(300);
    else
        fill();
    printf("the library was closed, %s\n", open ? "the runtime was not" : "and the runtime before");
    if (!open)
        printf("close %d\n", dlclose(use(true)));
    return 0;
}
