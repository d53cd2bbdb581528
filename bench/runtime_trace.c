/*
 * bench/runtime_trace.c - a preloaded library that turns on the runtime's system trace without
 * Meridian, for bench_cost.py. It starts the trace as soon as the runtime is open. With
 * RUNTIME_TRACE=on, the events stay in the runtime. With RUNTIME_TRACE=fetch, the library fetches
 * and discards them every 12 ms, which is about the rate of libmeridian.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "capture/nrt/nrt_abi.h"

#define FIND(name) __typeof__(name) *name##_of = (__typeof__(name) *) dlsym(RTLD_DEFAULT, #name)

static pthread_t thread;
static atomic_bool over;

static void
pause_ms(long ms)
{
    nanosleep(&(struct timespec){ 0, ms * 1000000 }, NULL);
}

static void *
work(void *arg)
{
    FIND(nrt_sys_trace_config_allocate);
    FIND(nrt_sys_trace_start);
    FIND(nrt_sys_trace_fetch_events);
    FIND(nrt_sys_trace_buffer_free);
    bool fetches = strcmp(arg, "fetch") == 0;
    nrt_sys_trace_config_t *config = NULL;

    if (nrt_sys_trace_config_allocate_of == NULL || nrt_sys_trace_start_of == NULL ||
        nrt_sys_trace_fetch_events_of == NULL || nrt_sys_trace_buffer_free_of == NULL)
        return NULL;
    while (!atomic_load(&over) && (nrt_sys_trace_config_allocate_of(&config) != NRT_SUCCESS ||
                                   nrt_sys_trace_start_of(config) != NRT_SUCCESS))
        pause_ms(1);
    while (!atomic_load(&over)) {
        char *text = NULL;
        size_t len = 0;

        pause_ms(12);
        if (fetches && nrt_sys_trace_fetch_events_of(&text, &len, NULL) == NRT_SUCCESS)
            nrt_sys_trace_buffer_free_of(text);
    }
    return NULL;
}

static void
finish(void)
{
    atomic_store(&over, true);
    pthread_join(thread, NULL);
}

__attribute__((constructor)) static void
begin(void)
{
    char *how = getenv("RUNTIME_TRACE");

    if (how != NULL && pthread_create(&thread, NULL, work, how) == 0)
        atexit(finish);
}
