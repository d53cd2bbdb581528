/* Records notices (messages in the ring, which the agent passes on) with the paths of profiles that
 * the runtime itself writes, or with the reason why it writes none. */
#include "capture/nrt/nrt_hook.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPTIONS_MAX 32
#define DIR_DEFAULT "./output"

typedef struct {
    const void *of;
    char dir[PATH_MAX];
    bool inspect, on_fail; /* if both are false, nothing is captured */
} options;

static options known[OPTIONS_MAX];
static size_t next_slot;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool async_seen, inspect_device;

/* Returns the table entry for the options at address `of`, or NULL if there is none. With `make`,
 * adds a missing entry. A full table replaces its oldest entry, because programs set options just
 * before they use them. The caller holds the lock. */
static options *
entry(const void *of, bool make)
{
    for (size_t i = 0; i < OPTIONS_MAX && of != NULL; i++)
        if (known[i].of == of)
            return &known[i];
    if (!make)
        return NULL;
    options *o = &known[next_slot++ % OPTIONS_MAX];
    memset(o, 0, sizeof(*o));
    o->of = of;
    snprintf(o->dir, sizeof(o->dir), DIR_DEFAULT);
    return o;
}

void
mrd_nrt_options_dir(const void *of, const char *dir)
{
    if (of == NULL || dir == NULL)
        return;
    pthread_mutex_lock(&lock);
    snprintf(entry(of, true)->dir, PATH_MAX, "%s", dir);
    pthread_mutex_unlock(&lock);
}

void
mrd_nrt_options_enable(const void *of, bool on_fail, bool enabled)
{
    options *o;

    if (of == NULL)
        return;
    pthread_mutex_lock(&lock);
    o = entry(of, true);
    *(on_fail ? &o->on_fail : &o->inspect) = enabled;
    pthread_mutex_unlock(&lock);
}

void
mrd_nrt_options_defaults(const void *of)
{
    options *o;

    if (of == NULL)
        return;
    pthread_mutex_lock(&lock);
    o = entry(of, true);
    snprintf(o->dir, sizeof(o->dir), DIR_DEFAULT);
    o->inspect = o->on_fail = false;
    pthread_mutex_unlock(&lock);
}

/* Returns true if the options enable an activity. Also returns true if this runtime has no function
 * that lists the enabled activities. */
static bool
has_activity(const nrt_inspect_config_t *of)
{
    __typeof__(nrt_inspect_config_get_enabled_activity_types) *enabled =
        MRD_NRT_REAL(nrt_inspect_config_get_enabled_activity_types);
    __typeof__(nrt_inspect_config_free_activity_types) *drop =
        MRD_NRT_REAL(nrt_inspect_config_free_activity_types);
    const char **names = NULL;
    size_t n = 0;

    if (enabled == NULL || drop == NULL ||
        enabled((nrt_inspect_config_t *) (uintptr_t) of, &names, &n) != NRT_SUCCESS)
        return true;
    drop(names, n);
    return n > 0;
}

mrd_nrt_kept
mrd_nrt_options_keep(const nrt_inspect_config_t *of)
{
    options copy = { 0 };
    const options *o;

    pthread_mutex_lock(&lock);
    if ((o = entry(of, false)) != NULL)
        copy = *o;
    pthread_mutex_unlock(&lock);
    if (copy.inspect && has_activity(of))
        return MRD_NRT_KEEPS_ALL;
    return copy.on_fail ? MRD_NRT_KEEPS_FAILURES : MRD_NRT_KEEPS_NOTHING;
}

void
mrd_nrt_async_seen(void)
{
    atomic_store_explicit(&async_seen, true, memory_order_relaxed);
}

/* Makes the path absolute, because the program that reads the notice has another working directory.
 * The directory need not exist. */
static void
absolute(const char *dir, char to[PATH_MAX])
{
    char here[PATH_MAX];

    if (realpath(dir, to) != NULL)
        return;
    while (strncmp(dir, "./", 2) == 0)
        dir += 2;
    if (*dir == '/' || realpath(".", here) == NULL ||
        (size_t) snprintf(to, PATH_MAX, "%s/%s", here, dir) >= PATH_MAX)
        snprintf(to, PATH_MAX, "%s", dir);
}

static const char *
env(const char *name, const char *otherwise)
{
    const char *text = getenv(name);

    return text == NULL || *text == '\0' ? otherwise : text;
}

static bool
env_is_on(const char *name)
{
    const char *text = env(name, "0");

    return strcmp(text, "0") != 0 && strcmp(text, "false") != 0;
}

mrd_nrt_kept
mrd_nrt_env_keeps(void)
{
    if (env_is_on("NEURON_RT_INSPECT_ENABLE"))
        return MRD_NRT_KEEPS_ALL;
    return env_is_on("NEURON_RT_INSPECT_ON_FAIL") ? MRD_NRT_KEEPS_FAILURES : MRD_NRT_KEEPS_NOTHING;
}

static void
say(const char *message, const char *dir, const char *file, const char *by, NRT_STATUS status)
{
    mrd_rec_arg args[5];
    char full[PATH_MAX];
    size_t n = 0;

    if (dir != NULL && *dir == '\0')
        dir = NULL; /* an empty name must not become the working directory */
    if (file != NULL && *file == '\0')
        file = NULL;
    if (dir != NULL || file != NULL)
        absolute(dir != NULL ? dir : file, full);
    if (dir != NULL || file != NULL)
        args[n++] = mrd_nrt_text(dir != NULL ? MRD_NRT_KEY_output_dir : MRD_NRT_KEY_file, full);
    if (by != NULL)
        args[n++] = mrd_nrt_text(MRD_NRT_KEY_by, by);
    args[n++] = mrd_nrt_i64(MRD_NRT_KEY_status, status);
    if (status != NRT_SUCCESS)
        args[n++] = mrd_nrt_text(MRD_NRT_KEY_status_text, mrd_nrt_status_name(status));
    mrd_rec_notice(message, args, n);
}

void
mrd_nrt_notice_env(void)
{
    if (mrd_nrt_env_keeps() != MRD_NRT_KEEPS_NOTHING)
        mrd_nrt_notice_inspect(true, NULL, NRT_SUCCESS);
}

void
mrd_nrt_notice_profile(const char *what, const char *file, NRT_STATUS status)
{
    char message[160];

    if (status == NRT_SUCCESS)
        snprintf(message, sizeof(message), "model profile: %s", what);
    else
        snprintf(message, sizeof(message), "cannot %s a model profile: the runtime says %s", what,
                 mrd_nrt_status_name(status));
    say(message, NULL, file, "api", status);
}

void
mrd_nrt_notice_trace(const char *file, NRT_STATUS status)
{
    say(status == NRT_SUCCESS ? "runtime trace: written" : "the runtime trace was not written",
        NULL, file, "api", status);
}

void
mrd_nrt_notice_inspect(bool by_env, const nrt_inspect_config_t *of, NRT_STATUS status)
{
    const char *device = env("NEURON_RT_INSPECT_DEVICE_PROFILE", "not set");
    mrd_nrt_kept kept = by_env ? mrd_nrt_env_keeps() : mrd_nrt_options_keep(of);
    char message[200], dir[PATH_MAX] = "";
    const options *o;

    if (by_env) {
        snprintf(dir, sizeof(dir), "%s", env("NEURON_RT_INSPECT_OUTPUT_DIR", DIR_DEFAULT));
    } else if (of != NULL) { /* NULL options have no directory */
        pthread_mutex_lock(&lock);
        o = entry(of, false);
        snprintf(dir, sizeof(dir), "%s", o != NULL ? o->dir : DIR_DEFAULT);
        pthread_mutex_unlock(&lock);
    }
    if (status != NRT_SUCCESS)
        snprintf(message, sizeof(message), "cannot arm inspect: the runtime says %s",
                 mrd_nrt_status_name(status));
    else if (kept == MRD_NRT_KEEPS_NOTHING)
        snprintf(message, sizeof(message),
                 by_env ? "inspect begun by an environment that captures nothing: neither "
                          "NEURON_RT_INSPECT_ENABLE nor NEURON_RT_INSPECT_ON_FAIL is set"
                        : "inspect begun with options that capture nothing: neither inspect with "
                          "an activity nor on-fail is enabled");
    else
        snprintf(message, sizeof(message), "inspect begun, device profile %s",
                 by_env ? device : "as the options say");
    if (status == NRT_SUCCESS && kept != MRD_NRT_KEEPS_NOTHING)
        atomic_store(&inspect_device, !by_env || strcmp(device, "0") != 0);
    say(message, dir, NULL, by_env ? "environment" : "api", status);
}

void
mrd_nrt_notice_inspect_end(mrd_nrt_kept kept, NRT_STATUS status)
{
    static const char *const messages[] = {
        [MRD_NRT_KEEPS_NOTHING] = "inspect stopped: nothing was captured, and no file is written",
        [MRD_NRT_KEEPS_FAILURES] = "inspect stopped: a file is written for each failed execution",
        [MRD_NRT_KEEPS_ALL] = "inspect stopped, its files are written"
    };

    atomic_store(&inspect_device, false);
    say(status == NRT_SUCCESS ? messages[kept] : "inspect did not stop", NULL, NULL, "api", status);
}

const char *
mrd_nrt_continuous_reason(NRT_STATUS status)
{
    if (atomic_load(&inspect_device))
        return "inspect device profiling is on, and the runtime refuses both together";
    if (atomic_load(&async_seen))
        return "asynchronous execution is on, and the runtime refuses both together";
    return mrd_nrt_status_name(status);
}

void
mrd_nrt_notice_continuous(const char *what, const void *of, NRT_STATUS status)
{
    char message[240], dir[PATH_MAX] = DIR_DEFAULT;
    const char *why =
        strcmp(what, "arm") == 0 ? mrd_nrt_continuous_reason(status) : mrd_nrt_status_name(status);
    const options *o;

    pthread_mutex_lock(&lock);
    if ((o = entry(of, false)) != NULL)
        memcpy(dir, o->dir, sizeof(dir));
    pthread_mutex_unlock(&lock);
    if (status == NRT_SUCCESS)
        snprintf(message, sizeof(message), "continuous device profile: %s", what);
    else
        snprintf(message, sizeof(message), "cannot %s continuous device profiling: %s", what, why);
    say(message, of != NULL ? dir : NULL, NULL, "api", status);
}
