/* A program for the runtime of nrt_next.c. It calls the function directly and by name, and
 * registers several callbacks in turn. */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

typedef int nrta_next_read(void *to, const void *from, uint64_t offset, uint64_t size,
                           uint64_t five, uint64_t six, uint64_t seven, uint64_t eight,
                           uint64_t nine, uint64_t *ret_sum);
nrta_next_read nrta_tensor_read;
int nrt_init(int framework, const char *fw_version, const char *fal_version);

typedef void done(void *params, uint32_t model_id, uint32_t vnc, uint64_t job_id, int status);
int nrt_register_async_exec_callback(done *callback, void *params);

static void
first(void *params, uint32_t model_id, uint32_t vnc, uint64_t job_id, int status)
{
    printf("first is told %s %d\n", (const char *) params,
           (int) (model_id + vnc + job_id) + status);
}

static void
second(void *params, uint32_t model_id, uint32_t vnc, uint64_t job_id, int status)
{
    printf("second is told %s %d\n", (const char *) params,
           (int) (model_id + vnc + job_id) + status);
}

static void
show(const char *how, nrta_next_read *call)
{
    uint64_t sum = 0;
    int status = call == NULL ? -1 : call(&sum, &sum, 1, 2, 3, 4, 5, 6, 7, &sum);

    printf("%s %d %" PRIu64 "\n", how, status, sum);
}

int
main(void)
{
    char one[] = "one", two[] = "two", three[] = "three";
    void *lib = dlopen("libnrt.so.1", RTLD_NOW | RTLD_NOLOAD);

    printf("init %d\n", nrt_init(1, "", ""));
    show("linked", nrta_tensor_read);
    show("by name", (nrta_next_read *) dlsym(lib, "nrta_tensor_read"));
    show("by name, anywhere", (nrta_next_read *) dlsym(RTLD_DEFAULT, "nrta_tensor_read"));
    nrt_register_async_exec_callback(first, one);
    nrt_register_async_exec_callback(second, two);
    nrt_register_async_exec_callback(first, three);
    nrt_register_async_exec_callback(NULL, NULL);
    nrt_register_async_exec_callback(NULL, NULL);
    return 0;
}
