/* A program for the runtime of nrt_next.c: calls its function directly and by name. */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

typedef int next_read(void *to, const void *from, uint64_t offset, uint64_t size, uint64_t five,
                      uint64_t six, uint64_t seven, uint64_t eight, uint64_t nine,
                      uint64_t *ret_sum);
next_read nrta_tensor_read;
int nrt_init(int framework, const char *fw_version, const char *fal_version);

static void
show(const char *how, next_read *call)
{
    uint64_t sum = 0;
    int status = call == NULL ? -1 : call(&sum, &sum, 1, 2, 3, 4, 5, 6, 7, &sum);

    printf("%s %d %" PRIu64 "\n", how, status, sum);
}

int
main(void)
{
    void *lib = dlopen("libnrt.so.1", RTLD_NOW | RTLD_NOLOAD);

    printf("init %d\n", nrt_init(1, "", ""));
    show("linked", nrta_tensor_read);
    show("by name", (next_read *) dlsym(lib, "nrta_tensor_read"));
    show("by name, anywhere", (next_read *) dlsym(RTLD_DEFAULT, "nrta_tensor_read"));
    return 0;
}
