/* Starts recording in a program that already runs: starts the system trace, and reports which calls
 * cannot be recorded.
 *
 * If this library is linked or preloaded, its hooks always intercept the runtime's functions, and
 * only the system trace has to be started. If the library is loaded later (Python's ctypes,
 * dlopen), calls of the runtime bypass the hooks. mrd_status_text then says so.
 *
 * A lock serializes opening and closing of the runtime. The lock stores the pid of its holder, so
 * that a child of fork can take a lock that its parent held. */
#include "capture/nrt/nrt_hook.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "capture/nrt/nrt_async.h"
#include "capture/nrt/nrt_text.h"
#include "capture/nrt/nrt_wait.h"
#include "capture/process.h"

/* the directory in which the package aws-neuronx-runtime-lib installs libnrt */
#define NRT_FOLDER "/opt/aws/neuron/lib/"

/* pid of the lock's holder, and pid of the process that opened the runtime */
static _Atomic uint32_t lock, opened;
/* true if the runtime's features were reported since the runtime was opened; protected by the
 * lock */
static bool noticed;
static bool opening; /* true while the runtime is being opened; protected by the lock */

static void
take_lock(void)
{
    uint32_t me = (uint32_t) getpid(), seen = 0;

    while (!atomic_compare_exchange_strong(&lock, &seen, me))
        /* Waits while a thread of this process holds the lock. A lock of the parent counts as
         * free. */
        if (seen == me) {
            sched_yield();
            seen = 0;
        }
}

static void
drop_lock(void)
{
    atomic_store(&lock, 0);
}

static void tell_lacks(void);

/* Starts the system trace if the runtime is open and recording is on. The caller holds the lock. */
static void
begin(void)
{
    if (mrd_rec_sources() == 0 || atomic_load(&opened) != (uint32_t) getpid())
        return;
    if (!noticed)
        mrd_nrt_notice_env();
    if (!noticed)
        mrd_nrt_features_report();
    noticed = true;
    /* The runtime may have numbered events before this recording began. A gap in the numbers is
     * then not a loss. */
    if (!opening)
        mrd_sys_text_apart();
    mrd_nrt_trace_begin();
}

void
mrd_nrt_opened(void)
{
    static uint32_t opener; /* protected by the lock */
    uint32_t me = (uint32_t) getpid();

    take_lock();
    if (opener != 0 && opener != me)
        mrd_nrt_models_forked();
    opener = me;
    atomic_store(&opened, me);
    noticed = false;
    opening = true;
    begin();
    opening = false;
    drop_lock();
    if (mrd_rec_sources() != 0)
        tell_lacks();
    mrd_nrt_wait_begin();
}

void
mrd_nrt_closing(void)
{
    /* must precede take_lock: this call waits for a thread that itself takes the lock */
    mrd_nrt_wait_end();
    take_lock();
    atomic_store(&opened, 0);
    mrd_nrt_trace_end();
    (void) mrd_nrt_async_poll(); /* records the ends of all requests that have ended */
    mrd_nrt_async_closed();
    /* drop the agent's request to record, because no thread is left to notice when it changes */
    (void) mrd_proc_set_asked(-1);
    drop_lock();
}

/* ---- whether the hooks intercept the runtime ------------------------------------------------- */

/* Returns true if the program's calls of the runtime reach the hooks. This is so if the dynamic
 * linker finds this library's symbol first. */
static bool
in_front(void)
{
    void *program = dlopen(NULL, RTLD_LAZY), *found;
    Dl_info theirs, ours;

    if (program == NULL)
        return true;
    found = dlsym(program, "nrt_init");
    dlclose(program);
    return found != NULL && dladdr(found, &theirs) != 0 &&
           dladdr((void *) (uintptr_t) in_front, &ours) != 0 && theirs.dli_fbase == ours.dli_fbase;
}

static bool
runtime_loaded(void)
{
    void *lib = dlopen(NRT_SONAME, RTLD_LAZY | RTLD_NOLOAD);

    if (lib != NULL)
        dlclose(lib);
    return lib != NULL;
}

static const char *
lacks(void)
{
    if (!runtime_loaded())
        return NULL;
    if (!in_front())
        return "recording, but the Neuron runtime's calls are not recorded: libmeridian was loaded "
               "after it or behind it; start the program with LD_PRELOAD=libmeridian.so, or link "
               "-lmeridian before -lnrt";
    if (mrd_nrt_other_dlsym() != NULL)
        return "recording, but the Neuron runtime's functions that the program looks up by name "
               "(dlsym, as ctypes does) are not recorded: another library answers in front of "
               "libmeridian; name libmeridian.so first in LD_PRELOAD";
    return NULL;
}

/* Reports once which calls cannot be recorded, and the path of this library. */
static void
tell_lacks(void)
{
    static _Atomic bool told;
    const char *why = lacks(), *other;
    mrd_rec_arg arg;

    if (why == NULL || atomic_exchange(&told, true))
        return;
    other = mrd_nrt_other_dlsym();
    if (other != NULL)
        arg = mrd_nrt_text(MRD_NRT_KEY_library, other);
    mrd_rec_notice(why, &arg, other != NULL);
}

/* Reports at exit that the program bypassed all hooks. Nothing reports it earlier, because no hook
 * was called. */
__attribute__((destructor)) static void
report_at_end(void)
{
    if (atomic_load(&opened) == 0 && mrd_rec_sources() != 0)
        tell_lacks();
}

static void
turned_on(void)
{
    tell_lacks();
    take_lock();
    begin();
    drop_lock();
}

__attribute__((constructor(104))) static void
register_late(void)
{
    mrd_proc_late = (mrd_proc_late_calls){ turned_on, mrd_nrt_trace_flush, lacks };
}

/* ---- loading a runtime that the linker left out ---------------------------------------------- */

void
mrd_nrt_bring(void)
{
    static _Atomic bool told;

    /* The runtime is never unloaded, because this library keeps pointers into it. */
    if (dlopen(NRT_SONAME, RTLD_LAZY) != NULL || dlopen(NRT_FOLDER NRT_SONAME, RTLD_LAZY) != NULL ||
        atomic_exchange(&told, true))
        return;
    fprintf(stderr,
            "libmeridian: nrt_init: no Neuron runtime is in this process, and " NRT_SONAME
            " is not found. Where -lnrt was given, the linker dropped it (--as-needed), because "
            "libmeridian has the same names: link with `pkg-config --libs meridian-nrt` (or "
            "-Wl,--no-as-needed -lnrt), or leave -lmeridian out and start the program with "
            "LD_PRELOAD=libmeridian.so; and let LD_LIBRARY_PATH or an rpath lead to " NRT_SONAME
            ".\n");
}
