/*
 * Simulates a future runtime, or one that was built without symbol versions. Its nrta_tensor_read
 * has unknown arguments. NEXT_VERSION is the version of the symbol. If it is not defined, there are
 * no versions.
 */
#include <stddef.h>
#include <stdint.h>

#ifdef NEXT_VERSION
#define nrta_next_read nrta_next_read_versioned
__asm__(".symver nrta_next_read_versioned, nrta_tensor_read@@" NEXT_VERSION);
#else
#define nrta_next_read nrta_tensor_read
#endif

#define PUBLIC __attribute__((visibility("default")))

PUBLIC int nrt_init(int framework, const char *fw_version, const char *fal_version);
typedef void done(void *params, uint32_t model_id, uint32_t vnc, uint64_t job_id, int status);
PUBLIC int nrt_register_async_exec_callback(done *callback, void *params);
PUBLIC int nrta_next_read(void *to, const void *from, uint64_t offset, uint64_t size, uint64_t five,
                          uint64_t six, uint64_t seven, uint64_t eight, uint64_t nine,
                          uint64_t *ret_sum);

int
nrt_init(int framework, const char *fw_version, const char *fal_version)
{
    (void) framework;
    (void) fw_version;
    (void) fal_version;
    return 0;
}

/* An execution ends while another function replaces the callback that waits for it. */
int
nrt_register_async_exec_callback(done *callback, void *params)
{
    static done *before;
    static void *with;

    if (before != NULL)
        before(with, 1, 0, 1, 0);
    before = callback;
    with = params;
    return 0;
}

int
nrta_next_read(void *to, const void *from, uint64_t offset, uint64_t size, uint64_t five,
               uint64_t six, uint64_t seven, uint64_t eight, uint64_t nine, uint64_t *ret_sum)
{
    (void) to;
    (void) from;
    *ret_sum =
        offset + 10 * (size + 10 * (five + 10 * (six + 10 * (seven + 10 * (eight + 10 * nine)))));
    return 0;
}
