/* Profiles that the runtime itself writes: where they are and why they cannot be had. */
#include "capture/nrt_hook.h"

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
    bool inspect, on_fail; /* without either nothing is captured */
} options;

static options known[OPTIONS_MAX];
static size_t next_slot;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool async_seen, inspect_device;

/* With the lock. The oldest entry makes room: options are set just before they are used. NULL has
 * no entry: that is what a free one looks like. */
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

bool
mrd_nrt_options_enabled(const void *of)
{
    const options *o;
    bool enabled;

    pthread_mutex_lock(&lock);
    o = entry(of, false);
    enabled = o != NULL && (o->inspect || o->on_fail);
    pthread_mutex_unlock(&lock);
    return enabled;
}

void
mrd_nrt_async_seen(void)
{
    atomic_store_explicit(&async_seen, true, memory_order_relaxed);
}

/* Absolute, also when the folder is not there yet: the reader has another working directory. */
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

static void
say(const char *message, const char *dir, const char *file, const char *by, NRT_STATUS status)
{
    mrd_rec_arg args[5];
    char full[PATH_MAX];
    size_t n = 0;

    if (dir != NULL && *dir == '\0')
        dir = NULL; /* a folder that was not named is not this one */
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
    if (strcmp(env("NEURON_RT_INSPECT_ENABLE", "0"), "0") == 0 &&
        strcmp(env("NEURON_RT_INSPECT_ON_FAIL", "0"), "0") == 0)
        return;
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
    const char *device = env("NEURON_RT_INSPECT_DEVICE_PROFILE", "not set"), *dir = DIR_DEFAULT;
    options copy = { .inspect = by_env };
    char message[200];
    const options *o;

    pthread_mutex_lock(&lock);
    if (!by_env && (o = entry(of, false)) != NULL) {
        copy = *o;
        dir = copy.dir;
    }
    pthread_mutex_unlock(&lock);
    if (by_env)
        dir = env("NEURON_RT_INSPECT_OUTPUT_DIR", DIR_DEFAULT);
    else if (of == NULL)
        dir = NULL; /* options that are not there name no folder */
    if (status != NRT_SUCCESS)
        snprintf(message, sizeof(message), "cannot arm inspect: the runtime says %s",
                 mrd_nrt_status_name(status));
    else if (!copy.inspect && !copy.on_fail)
        snprintf(message, sizeof(message),
                 "inspect begun with options that capture nothing: neither inspect nor on-fail is "
                 "enabled");
    else
        snprintf(message, sizeof(message), "inspect begun, device profile %s",
                 by_env ? device : "as the options say");
    if (status == NRT_SUCCESS && (copy.inspect || copy.on_fail))
        atomic_store(&inspect_device, !by_env || strcmp(device, "0") != 0);
    say(message, dir, NULL, by_env ? "environment" : "api", status);
}

void
mrd_nrt_notice_inspect_end(NRT_STATUS status)
{
    atomic_store(&inspect_device, false);
    say(status == NRT_SUCCESS ? "inspect stopped, its files are written" : "inspect did not stop",
        NULL, NULL, "api", status);
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
