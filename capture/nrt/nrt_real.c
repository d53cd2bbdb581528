/*
 * Finds the functions of the real runtime, which the hooks call.
 *
 * Usually the program or one of its libraries links libnrt. The hooks then come first in the global
 * scope, and dlsym with RTLD_NEXT finds the functions of the runtime. If Python loads a plug-in
 * with RTLD_LOCAL, the plug-in's references still bind to the hooks, but RTLD_NEXT does not search
 * the scope of the runtime. This file then looks the runtime up by its soname with RTLD_NOLOAD.
 * That finds the loaded copy and never loads another one.
 *
 * This library also replaces dlsym. A program that loads libnrt itself and looks up its functions
 * by name (as ctypes does) would otherwise bypass the hooks. All other look-ups jump to the real
 * dlsym with the caller's return address unchanged, which RTLD_NEXT needs. If the environment
 * forbids capture (MERIDIAN_ENABLE=0 or MERIDIAN_CAPTURE=none), every look-up goes to the real
 * dlsym.
 */
#include "capture/nrt/nrt_hook.h"

#include <dlfcn.h>
#include <string.h>

#include "capture/process.h"

/* The names of the hooked functions, in the order of mrd_nrt_fn. A function of the asynchronous
 * interface appears once for each version. */
static const char *const names[] = {
#define NAME_R(ret, name, params, args) #name,
#define NAME_V(name, params, args)      #name,
    NRT_FUNCTIONS(NAME_R, NAME_V) NRTA2_FUNCTIONS(NAME_R, NAME_V, nrta_)
        NRTA3_FUNCTIONS(NAME_R, NAME_V, nrta_)
#undef NAME_R
#undef NAME_V
};
static_assert(sizeof(names) / sizeof(names[0]) == MRD_NRT_COUNT, "names and numbers of functions");

static void *const hooks[MRD_NRT_COUNT] = {
#define HOOK(name) [MRD_NRT_##name] = (void *) name,
    MRD_NRT_HOOKED(HOOK)
#undef HOOK
};

static void *_Atomic real[MRD_NRT_COUNT];

typedef void *dlsym_fn(void *handle, const char *name);
/* The real dlsym, to which the assembly below jumps. Several threads may set it, but all to the
 * same value. */
__attribute__((visibility("hidden"))) dlsym_fn *mrd_nrt_real_dlsym;

/* Sanitizers are off for these functions, because the sanitizers call dlsym before their own memory
 * is initialized. */
#define EARLY __attribute__((no_sanitize("address", "thread", "undefined")))

/* Returns the symbol version with which to look up a function. NULL means the default version. */
static const char *
version_of(mrd_nrt_fn fn)
{
    static const mrd_nrt_fn first_2 = MRD_NRT_nrta2_execute_schedule,
                            first_3 = MRD_NRT_nrta3_execute_schedule;

    return fn >= first_3 ? NRTA3_VERSION : fn >= first_2 ? NRTA2_VERSION : NULL;
}

EARLY static bool
find_dlsym(void)
{
    static const char *const versions[] = { "GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17" };
    void *found = NULL;

    if (__atomic_load_n(&mrd_nrt_real_dlsym, __ATOMIC_RELAXED) != NULL)
        return true;
    for (size_t i = 0; found == NULL && i < sizeof(versions) / sizeof(versions[0]); i++)
        found = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    __atomic_store_n(&mrd_nrt_real_dlsym, (dlsym_fn *) found, __ATOMIC_RELAXED);
    return found != NULL;
}

static void *
look_up(void *handle, mrd_nrt_fn fn)
{
    const char *version = version_of(fn);

    return version == NULL ? mrd_nrt_real_dlsym(handle, names[fn])
                           : dlvsym(handle, names[fn], version);
}

/* Keeps the runtime loaded, because this library has pointers into the runtime and a thread that
 * may run in it. If the program calls dlclose and dlopen, it gets the same copy. */
static void
pin(void *found)
{
    Dl_info info;

    if (dladdr(found, &info) == 0 || info.dli_fname == NULL ||
        dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) == NULL)
        /* dlerror must not report to the program an error that the dlopen above caused */
        (void) dlerror();
}

static void *
resolve(mrd_nrt_fn fn)
{
    void *found, *lib;

    if (!find_dlsym())
        return NULL;
    if ((found = look_up(RTLD_NEXT, fn)) == NULL &&
        (lib = dlopen(NRT_SONAME, RTLD_LAZY | RTLD_NOLOAD)) != NULL) {
        found = look_up(lib, fn);
        dlclose(lib);
    }
    if (found == NULL)
        return NULL;
    pin(found);
    atomic_store_explicit(&real[fn], found, memory_order_release);
    return found;
}

void *
mrd_nrt_real(mrd_nrt_fn fn)
{
    void *found = atomic_load_explicit(&real[fn], memory_order_acquire);

    return __builtin_expect(found != NULL, 1) ? found : resolve(fn);
}

const char *
mrd_nrt_version(mrd_nrt_fn fn)
{
    return version_of(fn);
}

const char *
mrd_nrt_name(mrd_nrt_fn fn)
{
    return names[fn];
}

const char *
mrd_nrt_status_name(NRT_STATUS status)
{
    __typeof__(nrt_get_status_as_str) *text;
    const char *name;

    switch (status) {
#define STATUS(name, number)                                                                       \
    case name:                                                                                     \
        return #name;
        NRT_STATUS_TABLE(STATUS)
#undef STATUS
    }
    if ((text = MRD_NRT_REAL(nrt_get_status_as_str)) != NULL && (name = text(status)) != NULL)
        return name; /* the text is static in the runtime */
    return "unknown status";
}

bool
mrd_nrt_status_known(NRT_STATUS status)
{
    switch (status) {
#define STATUS(name, number) case name:
        NRT_STATUS_TABLE(STATUS)
#undef STATUS
        return true;
    }
    /* Runtimes differ in their text for an unknown number, but all names of known numbers begin
     * with "NRT_". */
    return strncmp(mrd_nrt_status_name(status), "NRT_", 4) == 0 &&
           strstr(mrd_nrt_status_name(status), "UNKNOWN") == NULL;
}

/* ---- the replacement of dlsym ---------------------------------------------------------------- */

/* Returns the index of the next hooked function with this name after index `after`, or -1 if there
 * is none. */
static int
index_of(const char *name, int after)
{
    for (int i = after + 1; i < MRD_NRT_COUNT; i++)
        if (hooks[i] != NULL && strcmp(names[i], name) == 0)
            return i;
    return -1;
}

/* Returns the hook if `found` belongs to the runtime that the hooks call. Returns `found` itself if
 * it belongs to a second runtime in the process, because the hooks forward to one runtime only. */
static void *
hook_for(int i, void *found)
{
    static _Atomic bool told;
    void *none = NULL;

    if (atomic_compare_exchange_strong(&real[i], &none, found)) {
        pin(found);
        return hooks[i];
    }
    if (none == found)
        return hooks[i];
    if (!atomic_exchange(&told, true))
        mrd_rec_notice("a second copy of the Neuron runtime is in this process; calls that look it "
                       "up by name are not recorded",
                       NULL, 0);
    return found;
}

const char *
mrd_nrt_other_dlsym(void)
{
    Dl_info first, real_one, ours;

    if (!find_dlsym() || dladdr(mrd_nrt_real_dlsym(RTLD_DEFAULT, "dlsym"), &first) == 0 ||
        dladdr((void *) (uintptr_t) mrd_nrt_real_dlsym, &real_one) == 0 ||
        dladdr((void *) (uintptr_t) find_dlsym, &ours) == 0 || first.dli_fbase == ours.dli_fbase ||
        first.dli_fbase == real_one.dli_fbase)
        return NULL;
    return first.dli_fname;
}

#define ANSWER_NULL ((void *) 1)

/* For a function with several versions, returns the hook of the version that the runtime would
 * return. For an unknown version, returns the runtime's own function. */
EARLY static void *
pick_version(void *handle, const char *name, int first)
{
    void *found = mrd_nrt_real_dlsym(handle, name);
    int of = -1;

    if (found == NULL)
        return ANSWER_NULL;
    for (int i = first; i >= 0; i = index_of(name, i)) {
        void *ours = handle == RTLD_DEFAULT ? mrd_nrt_real((mrd_nrt_fn) i)
                                            : dlvsym(handle, name, version_of((mrd_nrt_fn) i));

        if (ours == found && of >= 0)
            /* more than one version matches, because the library has no symbol versions */
            return found;
        if (ours == found)
            of = i;
    }
    return of < 0 ? found : hook_for(of, found);
}

void *mrd_nrt_pick(void *handle, const char *name); /* called by the assembly below */

/* Returns what dlsym(handle, name) returns: a function, or ANSWER_NULL for NULL. Returns NULL if
 * the caller must jump to the real dlsym. */
EARLY __attribute__((visibility("hidden"), used)) void *
mrd_nrt_pick(void *handle, const char *name)
{
    void *found;
    int i;

    if (!find_dlsym())
        return ANSWER_NULL;
    if (handle == RTLD_NEXT || name == NULL || strncmp(name, "nrt", 3) != 0 ||
        !mrd_rec_possible() || (i = index_of(name, -1)) < 0)
        return NULL;
    if (version_of((mrd_nrt_fn) i) != NULL)
        return pick_version(handle, name, i);
    /* For RTLD_DEFAULT, the real dlsym would find the hook even if the runtime lacks the
     * function. */
    if (handle == RTLD_DEFAULT)
        return mrd_nrt_real((mrd_nrt_fn) i) != NULL ? hooks[i] : ANSWER_NULL;
    if ((found = mrd_nrt_real_dlsym(handle, name)) == NULL)
        return ANSWER_NULL; /* the real dlsym then also sets dlerror */
    return found == hooks[i] ? found : hook_for(i, found);
}

#if defined(__x86_64__)
__asm__(".text\n"
        ".globl dlsym\n"
        ".type dlsym, @function\n"
        "dlsym:\n"
        "    .cfi_startproc\n"
        "    endbr64\n"
        "    pushq %rdi\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    pushq %rsi\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    subq $8, %rsp\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    call mrd_nrt_pick\n"
        "    addq $8, %rsp\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %rsi\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %rdi\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    cmpq $1, %rax\n"
        "    ja 1f\n"
        "    je 2f\n"
        "    jmp *mrd_nrt_real_dlsym(%rip)\n"
        "2:  xorl %eax, %eax\n"
        "1:  ret\n"
        "    .cfi_endproc\n"
        ".size dlsym, .-dlsym\n");
#elif defined(__aarch64__)
__asm__(".text\n"
        ".globl dlsym\n"
        ".type dlsym, %function\n"
        "dlsym:\n"
        "    stp x29, x30, [sp, #-32]!\n"
        "    stp x0, x1, [sp, #16]\n"
        "    bl mrd_nrt_pick\n"
        "    mov x16, x0\n"
        "    ldp x0, x1, [sp, #16]\n"
        "    ldp x29, x30, [sp], #32\n"
        "    cmp x16, #1\n"
        "    b.hi 1f\n"
        "    b.eq 2f\n"
        "    adrp x16, mrd_nrt_real_dlsym\n"
        "    ldr x16, [x16, :lo12:mrd_nrt_real_dlsym]\n"
        "    br x16\n"
        "2:  mov x16, xzr\n"
        "1:  mov x0, x16\n"
        "    ret\n"
        ".size dlsym, .-dlsym\n");
#endif
