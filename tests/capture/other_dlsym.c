/* A library that replaces dlsym, as some tracers do. In front of libmeridian it hides a program's
 * lookups by name from it. */
#include <dlfcn.h>
#include <stddef.h>

__attribute__((visibility("default"))) void *
dlsym(void *restrict handle, const char *restrict name)
{
    static void *(*real)(void *handle, const char *name);
    static const char *const versions[] = { "GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17" };

    for (size_t i = 0; real == NULL && i < sizeof(versions) / sizeof(versions[0]); i++)
        *(void **) &real =
            dlvsym(dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD), "dlsym", versions[i]);
    return real == NULL ? NULL : real(handle, name);
}
