/*
 * A fake Neuron runtime for the tests of the hooks. It calls its own functions through the dynamic
 * linker, so the hooks see these calls, too. During a call of the program, it calls back a function
 * of the program. Its trace has one event per execution.
 */
#include <stdio.h>
#include <stdlib.h>

#include "capture/nrt/nrt_abi.h"

static NRT_ASYNC_EXEC_STATUS_CALLBACK done;
static void *with;
static bool traces;
static unsigned executions, told;

struct nrt_sys_trace_config {
    char unused;
};

NRT_STATUS
nrt_init(nrt_framework_type_t framework, const char *fw_version, const char *fal_version)
{
    (void) framework;
    (void) fw_version;
    (void) fal_version;
    return NRT_SUCCESS;
}

void
nrt_close(void)
{
}

NRT_STATUS
nrt_load(const void *neff, size_t size, int32_t vnc, int32_t vnc_count, nrt_model_t **model)
{
    static uintptr_t n;

    (void) neff;
    (void) size;
    (void) vnc;
    (void) vnc_count;
    *model = (nrt_model_t *) (0x10000 + 64 * n++); /* not an address; no function dereferences it */
    return NRT_SUCCESS;
}

/* A status that no header has yet. */
NRT_STATUS
nrt_unload(nrt_model_t *model)
{
    return model == NULL ? (NRT_STATUS) 1301 : NRT_SUCCESS;
}

const char *
nrt_get_status_as_str(NRT_STATUS status)
{
    return (int) status == 1301 ? "NRT_EXEC_OF_TOMORROW" : "NRT_UNKNOWN_STATUS";
}

NRT_STATUS
nrt_tensor_read(const nrt_tensor_t *tensor, void *buf, size_t offset, size_t size)
{
    (void) tensor;
    (void) buf;
    (void) offset;
    (void) size;
    return NRT_SUCCESS;
}

NRT_STATUS
nrt_execute(nrt_model_t *model, const nrt_tensor_set_t *input, nrt_tensor_set_t *output)
{
    (void) model;
    (void) input;
    (void) output;
    executions++;
    (void) nrt_tensor_read(NULL, NULL, 0, 1);
    if (done != NULL)
        done(with, 1, 0, executions, NRT_SUCCESS);
    (void) nrt_tensor_read(NULL, NULL, 0, 1);
    return NRT_SUCCESS;
}

NRT_STATUS
nrt_register_async_exec_callback(NRT_ASYNC_EXEC_STATUS_CALLBACK callback, void *params)
{
    done = callback;
    with = params;
    return NRT_SUCCESS;
}

NRT_STATUS
nrt_sys_trace_config_allocate(nrt_sys_trace_config_t **config)
{
    static nrt_sys_trace_config_t only;

    *config = &only;
    return NRT_SUCCESS;
}

void
nrt_sys_trace_config_free(nrt_sys_trace_config_t *config)
{
    (void) config;
}

NRT_STATUS
nrt_sys_trace_start(nrt_sys_trace_config_t *config)
{
    (void) config;
    if (traces)
        (void) nrt_sys_trace_stop();
    traces = true;
    return NRT_SUCCESS;
}

NRT_STATUS
nrt_sys_trace_stop(void)
{
    char *text = NULL;
    size_t len = 0;

    if (nrt_sys_trace_fetch_events(&text, &len, NULL) == NRT_SUCCESS)
        nrt_sys_trace_buffer_free(text);
    traces = false;
    return NRT_SUCCESS;
}

NRT_STATUS
nrt_sys_trace_fetch_events(char **buffer, size_t *written,
                           const nrt_sys_trace_fetch_options_t *options)
{
    (void) options;
    if ((*buffer = calloc(1, 4096)) == NULL)
        return NRT_RESOURCE;
    *written = (size_t) snprintf(*buffer, 4096, "{\"data_version\":2,\"events\":[");
    for (unsigned n = executions; told < n && *written < 3800; told++)
        *written += (size_t) snprintf(
            *buffer + *written, 4096 - *written,
            "%s{\"event_type\":\"nrt_execute\",\"phase\":\"instant\",\"data\":{}}",
            (*buffer)[*written - 1] == '[' ? "" : ",");
    *written += (size_t) snprintf(*buffer + *written, 4096 - *written, "]}");
    return NRT_SUCCESS;
}

void
nrt_sys_trace_buffer_free(char *buffer)
{
    free(buffer);
}

/* Sends complete at once, without a lock, so that a signal handler may send. */
NRT_STATUS
nrt_async_sendrecv_send_tensor(nrt_tensor_t *tensor, size_t offset, size_t length,
                               nrt_async_sendrecv_comm_t *comm,
                               nrt_async_sendrecv_request_t **request)
{
    (void) tensor;
    (void) offset;
    (void) comm;
    *request = (nrt_async_sendrecv_request_t *) (0x1000 + 64 * length);
    return NRT_SUCCESS;
}

NRT_STATUS
nrt_async_sendrecv_test_request(nrt_async_sendrecv_request_t *request, bool *done_at, size_t *size)
{
    (void) request;
    *done_at = true;
    *size = 1;
    return NRT_SUCCESS;
}
