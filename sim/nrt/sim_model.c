/* Simulates models. Any bytes can be loaded as a NEFF (compiled model file). A simulated NEFF
 * (first line "SIMNEFF 1") describes its own properties, such as tensors and durations. */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEFF_MAGIC "SIMNEFF "

static uint64_t
fnv1a(const uint8_t *p, size_t len)
{
    uint64_t h = 0xcbf29ce484222325u;

    while (len-- > 0)
        h = (h ^ *p++) * 0x100000001b3u;
    return h;
}

static size_t
dtype_size(nrt_dtype_t type)
{
    static const uint8_t sizes[16] = { 0, 8, 1, 1, 2, 2, 2, 2, 4, 4, 4, 4, 8, 1, 1, 1 };

    return (unsigned) type < 16 ? sizes[type] : 0;
}

static nrt_dtype_t
dtype_of(const char *name)
{
    static const struct {
        const char *name;
        nrt_dtype_t type;
    } types[] = {
        { "float32", NRT_DTYPE_FLOAT32 }, { "bfloat16", NRT_DTYPE_BFLOAT16 },
        { "float16", NRT_DTYPE_FLOAT16 }, { "int32", NRT_DTYPE_INT32 },
        { "int64", NRT_DTYPE_INT64 },     { "uint8", NRT_DTYPE_UINT8 },
    };

    for (size_t i = 0; i < SIM_COUNT(types); i++)
        if (strcmp(types[i].name, name) == 0)
            return types[i].type;
    return NRT_DTYPE_UNKNOWN;
}

static void
info_free(nrt_tensor_info_array_t *info)
{
    for (uint64_t i = 0; info != NULL && i < info->tensor_count; i++)
        free(info->tensor_array[i].shape);
    free(info);
}

/* Parses a tensor description such as "name:float32:128x256", and appends the tensor to the
 * model. */
static bool
add_tensor(sim_model *model, nrt_tensor_usage_t usage, char *text)
{
    char *save = NULL, *name = strtok_r(text, ":", &save), *type = strtok_r(NULL, ":", &save);
    char *shape = strtok_r(NULL, ":", &save), *end;
    uint64_t n = model->info->tensor_count;
    nrt_tensor_info_array_t *grown;
    nrt_tensor_info_t *info;

    if (shape == NULL || dtype_of(type) == NRT_DTYPE_UNKNOWN || n == 64)
        return false;
    grown = realloc(model->info, sizeof(*grown) + (n + 1) * sizeof(grown->tensor_array[0]));
    if (grown == NULL)
        return false;
    model->info = grown;
    info = &grown->tensor_array[n];
    memset(info, 0, sizeof(*info));
    if ((info->shape = calloc(8, sizeof(*info->shape))) == NULL)
        return false;
    grown->tensor_count = n + 1;
    snprintf(info->name, sizeof(info->name), "%s", name);
    info->usage = usage;
    info->dtype = dtype_of(type);
    info->size = dtype_size(info->dtype);
    for (;; shape = end + 1) {
        unsigned long dim = strtoul(shape, &end, 10);

        if (end == shape || dim == 0 || dim > (1u << 24) || info->ndim == 8 ||
            info->size > (1ull << 34))
            return false;
        info->shape[info->ndim++] = (uint32_t) dim;
        info->size *= dim;
        if (*end != 'x')
            return *end == '\0';
    }
}

static bool
neff_line(sim_model *model, char *line)
{
    char *eq = strchr(line, '=');
    long long value;

    if (*line == '\0' || *line == '#')
        return true;
    if (eq == NULL)
        return false;
    *eq++ = '\0';
    if (strcmp(line, "name") == 0) {
        snprintf(model->name, sizeof(model->name), "%s", eq);
        return true;
    }
    if (strcmp(line, "input") == 0)
        return add_tensor(model, NRT_TENSOR_USAGE_INPUT, eq);
    if (strcmp(line, "output") == 0)
        return add_tensor(model, NRT_TENSOR_USAGE_OUTPUT, eq);
    value = atoll(eq);
    if (value < 0 || value > 3600000000LL)
        return false;
    if (strcmp(line, "exec_us") == 0)
        model->exec_ns = value * 1000;
    else if (strcmp(line, "cc") == 0)
        model->cc = value;
    else if (strcmp(line, "tensor_frees") == 0)
        model->tensor_frees = value;
    else if (strcmp(line, "copyins") == 0)
        model->copyins = value;
    else
        return false;
    return true;
}

/* Finds the properties of a model from its NEFF. A real NEFF cannot be read here, so one input and
 * one output stand for all its tensors. */
static NRT_STATUS
describe(sim_model *model)
{
    char in[] = "input0:float32:256x256", out[] = "output0:float32:256x256";
    char *text, *save = NULL, *line;
    bool ok = true;

    if ((model->info = calloc(1, sizeof(*model->info))) == NULL)
        return NRT_RESOURCE;
    if (model->neff_size < strlen(NEFF_MAGIC) ||
        memcmp(model->neff, NEFF_MAGIC, strlen(NEFF_MAGIC)) != 0)
        return add_tensor(model, NRT_TENSOR_USAGE_INPUT, in) &&
                       add_tensor(model, NRT_TENSOR_USAGE_OUTPUT, out)
                   ? NRT_SUCCESS
                   : NRT_RESOURCE;
    if ((text = strndup(model->neff, model->neff_size)) == NULL)
        return NRT_RESOURCE;
    line = strtok_r(text, "\n", &save);
    if (strcmp(line, NEFF_MAGIC "1") != 0) {
        free(text);
        return NRT_UNSUPPORTED_NEFF_VERSION;
    }
    while (ok && (line = strtok_r(NULL, "\n", &save)) != NULL)
        ok = neff_line(model, line);
    free(text);
    return ok ? NRT_SUCCESS : NRT_INVALID;
}

static void
model_free(sim_model *model)
{
    if (model == NULL)
        return;
    model->magic = 0;
    info_free(model->info);
    free(model->neff);
    free(model);
}

static NRT_STATUS
model_new(const void *neff, size_t size, sim_model **ret_model)
{
    sim_model *model = calloc(1, sizeof(*model));
    NRT_STATUS status;

    if (model == NULL || (model->neff = malloc(size)) == NULL) {
        free(model);
        return NRT_RESOURCE;
    }
    memcpy(model->neff, neff, size);
    model->neff_size = size;
    model->magic = SIM_MODEL_MAGIC;
    model->hash = fnv1a(neff, size);
    snprintf(model->name, sizeof(model->name), "model_%016llx", (unsigned long long) model->hash);
    model->exec_ns = sim.set.exec_us * 1000;
    model->cc = sim.set.cc_per_exec;
    model->tensor_frees = sim.set.free_per_exec;
    model->copyins = sim.set.copyin_per_exec;
    if ((status = describe(model)) != NRT_SUCCESS) {
        model_free(model);
        return status;
    }
    model->name_index = sim_name_of(model->name);
    *ret_model = model;
    return NRT_SUCCESS;
}

static sim_core *
free_core(void)
{
    for (uint32_t i = 0; i < sim.core_count; i++)
        if (sim.core[i].models == 0)
            return &sim.core[i];
    return NULL;
}

static NRT_STATUS
load_checked(const void *neff, size_t size, int32_t vnc, uint32_t ctx_id, uint32_t ctx_count,
             sim_model **ret_model)
{
    const sim_fault *fault;
    sim_model *model;
    NRT_STATUS status;

    if ((status = model_new(neff, size, &model)) != NRT_SUCCESS)
        return status;
    pthread_mutex_lock(&sim.lock);
    model->core = vnc < 0 ? free_core() : &sim.core[vnc];
    if (model->core == NULL) {
        pthread_mutex_unlock(&sim.lock);
        model_free(model);
        return NRT_LOAD_NOT_ENOUGH_NC;
    }
    fault = sim_fault_hit(SIM_FAULT_LOAD_ERROR, model->core->idx, ctx_id, sim.model_next);
    if (fault != NULL) {
        pthread_mutex_unlock(&sim.lock);
        model_free(model);
        return (NRT_STATUS) fault->status;
    }
    if (sim_fault_hit(SIM_FAULT_STUCK_LOAD, model->core->idx, ctx_id, sim.model_next) != NULL) {
        pthread_mutex_unlock(&sim.lock);
        sim_sleep_until(INT64_MAX);
    }
    model->id = sim.model_next++;
    model->ctx_id = ctx_id;
    model->ctx_count = ctx_count;
    model->core->models++;
    sim_hbm_add(model->core, (int64_t) size, false);
    model->next = sim.models;
    sim.models = model;
    pthread_mutex_unlock(&sim.lock);
    *ret_model = model;
    return NRT_SUCCESS;
}

static NRT_STATUS
load_args(const void *neff, size_t size, int32_t vnc, const void *model)
{
    if (neff == NULL || size == 0 || model == NULL || vnc < -1)
        return NRT_INVALID;
    if (vnc >= (int32_t) sim.core_count)
        return NRT_LOAD_NOT_ENOUGH_NC;
    return NRT_SUCCESS;
}

NRT_STATUS
nrt_load(const void *neff, size_t size, int32_t vnc, int32_t vnc_count, nrt_model_t **model)
{
    sim_core *core;
    sim_model *m = NULL;
    uint64_t t;
    NRT_STATUS status;

    (void) vnc_count; /* deprecated; the value has no effect */
    SIM_NEEDS_OPEN();
    if ((status = load_args(neff, size, vnc, model)) != NRT_SUCCESS)
        return status;
    core = &sim.core[vnc < 0 ? 0 : vnc];
    t = sim_begin(core, SIM_EV_nrt_load, NULL, 0, NULL, 0);
    sim_sleep_until(sim_raw() + sim_scaled(2 * MRD_MS, size));
    status = load_checked(neff, size, vnc, 0, 1, &m);
    sim_emit(&(sim_emit_args){ .core = core,
                               .type = SIM_EV_nrt_load,
                               .phase = SIM_STOP,
                               .raw = sim_raw(),
                               .tracking = t,
                               .model = m });
    if (status == NRT_SUCCESS)
        *model = m;
    return status;
}

NRT_STATUS
nrt_load_collectives(const void *neff, size_t size, int32_t vnc, int32_t vnc_count,
                     uint32_t ctx_device_id, uint32_t ctx_device_count, nrt_model_t **model)
{
    uint64_t arg[2] = { ctx_device_id, ctx_device_count }, t, t_cc;
    sim_core *core;
    sim_model *m = NULL;
    NRT_STATUS status;

    (void) vnc_count;
    SIM_NEEDS_OPEN();
    if ((status = load_args(neff, size, vnc, model)) != NRT_SUCCESS)
        return status;
    if (ctx_device_count == 0 || ctx_device_id >= ctx_device_count)
        return NRT_INVALID;
    core = &sim.core[vnc < 0 ? 0 : vnc];
    t = sim_begin(core, SIM_EV_nrt_load_collectives, NULL, 0, arg, 2);
    t_cc = sim_begin(core, SIM_EV_cc_load, NULL, 0, arg, 2);
    sim_sleep_until(sim_raw() + sim_scaled(3 * MRD_MS, size));
    status = load_checked(neff, size, vnc, ctx_device_id, ctx_device_count, &m);
    if (status == NRT_SUCCESS) {
        /* Without a global communicator, the arguments of this call take its place, as
         * documented. */
        if (m->core->g_id == SIM_ANY) {
            m->core->g_id = ctx_device_id;
            m->core->g_count = ctx_device_count;
        }
        m->group = m->core->g_id / ctx_device_count;
        status = sim_coll_prepare(m->core->g_id);
    }
    sim_emit(&(sim_emit_args){ .core = core,
                               .type = SIM_EV_cc_load,
                               .phase = SIM_STOP,
                               .raw = sim_raw(),
                               .tracking = t_cc,
                               .model = m });
    sim_emit(&(sim_emit_args){ .core = core,
                               .type = SIM_EV_nrt_load_collectives,
                               .phase = SIM_STOP,
                               .raw = sim_raw(),
                               .tracking = t,
                               .model = m });
    if (status == NRT_SUCCESS)
        *model = m;
    else if (m != NULL)
        nrt_unload(m);
    return status;
}

NRT_STATUS
sim_model_check(const nrt_model_t *model)
{
    NRT_STATUS status = NRT_INVALID_HANDLE;

    if (model == NULL)
        return NRT_INVALID;
    pthread_mutex_lock(&sim.lock);
    for (sim_model *m = sim.models; m != NULL; m = m->next)
        if (m == model)
            status = NRT_SUCCESS;
    pthread_mutex_unlock(&sim.lock);
    return status;
}

NRT_STATUS
nrt_unload(nrt_model_t *model)
{
    NRT_STATUS status;
    sim_core *core;

    SIM_NEEDS_OPEN();
    if ((status = sim_model_check(model)) != NRT_SUCCESS)
        return status;
    core = model->core;
    pthread_mutex_lock(&sim.lock);
    for (sim_model **at = &sim.models; *at != NULL; at = &(*at)->next)
        if (*at == model) {
            *at = model->next;
            break;
        }
    core->models--;
    sim_hbm_add(core, -(int64_t) model->neff_size, false);
    pthread_mutex_unlock(&sim.lock);
    pthread_mutex_lock(&core->busy); /* waits for the end of a running execution */
    if (core->last == model)
        core->last = NULL;
    pthread_mutex_unlock(&core->busy);
    model_free(model);
    return NRT_SUCCESS;
}

void
sim_models_drop(void)
{
    while (sim.models != NULL) {
        sim_model *model = sim.models;

        sim.models = model->next;
        model_free(model);
    }
}

static NRT_STATUS
model_number(const nrt_model_t *model, uint32_t value, uint32_t *ret)
{
    NRT_STATUS status;

    SIM_NEEDS_OPEN();
    if (ret == NULL)
        return NRT_INVALID;
    if ((status = sim_model_check(model)) == NRT_SUCCESS)
        *ret = value;
    return status;
}

NRT_STATUS
nrt_get_model_nc_count(const nrt_model_t *model, uint32_t *count)
{
    return model_number(model, 1, count);
}

NRT_STATUS
nrt_get_model_vnc_count(const nrt_model_t *model, uint32_t *count)
{
    return model_number(model, 1, count);
}

NRT_STATUS
nrt_get_model_instance_count(nrt_model_t *model, uint32_t *count)
{
    return model_number(model, 1, count);
}

NRT_STATUS
nrt_get_model_info(const nrt_model_t *model, nrt_model_info_t *info, size_t size_in,
                   size_t *size_out)
{
    nrt_model_info_t own;
    size_t n = size_in < sizeof(own) ? size_in : sizeof(own);
    NRT_STATUS status;

    SIM_NEEDS_OPEN();
    if (info == NULL || size_out == NULL)
        return NRT_INVALID;
    if ((status = sim_model_check(model)) != NRT_SUCCESS)
        return status;
    own.vnc = model->core->idx;
    memcpy(info, &own, n);
    *size_out = n;
    return NRT_SUCCESS;
}

NRT_STATUS
nrt_get_model_tensor_info(nrt_model_t *model, nrt_tensor_info_array_t **info)
{
    nrt_tensor_info_array_t *copy;
    NRT_STATUS status;
    size_t size;

    SIM_NEEDS_OPEN();
    if (info == NULL)
        return NRT_INVALID;
    if ((status = sim_model_check(model)) != NRT_SUCCESS)
        return status;
    size = sizeof(*copy) + model->info->tensor_count * sizeof(copy->tensor_array[0]);
    if ((copy = malloc(size)) == NULL)
        return NRT_RESOURCE;
    memcpy(copy, model->info, size);
    for (uint64_t i = 0; i < copy->tensor_count; i++) {
        nrt_tensor_info_t *t = &copy->tensor_array[i];

        t->shape = malloc(8 * sizeof(*t->shape));
        if (t->shape != NULL)
            memcpy(t->shape, model->info->tensor_array[i].shape, t->ndim * sizeof(*t->shape));
        else
            status = NRT_RESOURCE;
    }
    if (status != NRT_SUCCESS)
        info_free(copy);
    else
        *info = copy;
    return status;
}

NRT_STATUS
nrt_free_model_tensor_info(nrt_tensor_info_array_t *info)
{
    if (info == NULL)
        return NRT_INVALID;
    info_free(info);
    return NRT_SUCCESS;
}
