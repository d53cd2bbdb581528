/* Simulates the machine, its cores and which process owns them. Implements nrt_init, nrt_close,
 * fork handling, and queries. */
#include "sim.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the simulated machine ------------------------------------------------------------------- */

#define GIB (1ull << 30)
static const sim_instance instances[] = {
    { "trn2.48xlarge", NRT_INSTANCE_TRN2, NRT_INSTANCE_SIZE_48XL, 16, 8, 2, "NCv3", "1", 24 * GIB },
    { "trn2.3xlarge", NRT_INSTANCE_TRN2, NRT_INSTANCE_SIZE_3XL, 1, 8, 2, "NCv3", "1", 24 * GIB },
    { "trn1.32xlarge", NRT_INSTANCE_TRN1, NRT_INSTANCE_SIZE_32XL, 16, 2, 1, "NCv2", "1", 16 * GIB },
    { "trn1.2xlarge", NRT_INSTANCE_TRN1, NRT_INSTANCE_SIZE_2XL, 1, 2, 1, "NCv2", "1", 16 * GIB },
    { "inf2.48xlarge", NRT_INSTANCE_INF2, NRT_INSTANCE_SIZE_48XL, 12, 2, 1, "NCv2", "1", 16 * GIB },
    { "inf2.xlarge", NRT_INSTANCE_INF2, NRT_INSTANCE_SIZE_1XL, 1, 2, 1, "NCv2", "1", 16 * GIB },
};

static const sim_instance *
instance_of(const char *name)
{
    for (size_t i = 0; i < SIM_COUNT(instances); i++)
        if (strcmp(instances[i].name, name) == 0)
            return &instances[i];
    sim_log("SIMNRT_INSTANCE=%s is not simulated", name);
    return NULL;
}

static NRT_STATUS
choose_lnc(const sim_instance *in, uint32_t *ret_lnc)
{
    const char *text = sim_env_text("NEURON_LOGICAL_NC_CONFIG", NULL);

    if (text == NULL)
        text = sim_env_text("NEURON_RT_VIRTUAL_CORE_SIZE", NULL);
    if (text == NULL) {
        *ret_lnc = in->default_lnc;
        return NRT_SUCCESS;
    }
    if (strcmp(text, "1") != 0 && (strcmp(text, "2") != 0 || in->default_lnc != 2)) {
        sim_log("a logical core of %s physical cores is not possible on %s", text, in->name);
        return NRT_INVALID;
    }
    *ret_lnc = (uint32_t) (text[0] - '0');
    return NRT_SUCCESS;
}

/* A file for claiming cores. A process that uses core n locks byte n. The kernel releases the lock
 * when the process exits. */
static int claim_fd = -1;

static bool
claim(uint32_t core)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = core, .l_len = 1 };

    return claim_fd < 0 || fcntl(claim_fd, F_OFD_SETLK, &lock) == 0;
}

static void
claim_open(const char *node)
{
    char path[160];

    snprintf(path, sizeof(path), "/dev/shm/simnrt.%u.%s.cores", (unsigned) getuid(), node);
    claim_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
}

static NRT_STATUS
claim_range(uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++)
        if (!claim(i) && sim.set.exclusive) {
            sim_log("core %u belongs to another process", i);
            return NRT_RESOURCE;
        }
    return NRT_SUCCESS;
}

/* Claims the first `count` consecutive free cores (NEURON_RT_NUM_CORES), and stores the first one
 * in *ret_first. */
static NRT_STATUS
claim_free(uint32_t total, uint32_t count, uint32_t *ret_first)
{
    for (uint32_t first = 0; first + count <= total; first++) {
        uint32_t got = 0;

        while (got < count && claim(first + got))
            got++;
        if (got == count) {
            *ret_first = first;
            return NRT_SUCCESS;
        }
        if (claim_fd >= 0) { /* releases the cores that were claimed before the failure */
            struct flock lock = {
                .l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = first, .l_len = got
            };

            if (got > 0)
                fcntl(claim_fd, F_OFD_SETLK, &lock);
        }
        first += got;
    }
    sim_log("NEURON_RT_NUM_CORES=%u: not that many of %u cores are free", count, total);
    return NRT_RESOURCE;
}

static NRT_STATUS
visible_list(const char *list, uint32_t total, uint32_t *ret_first, uint32_t *ret_count)
{
    bool mask[SIM_CORES_MAX];
    uint32_t count, first = 0;

    if (!sim_env_cores(list, mask, &count)) {
        sim_log("NEURON_RT_VISIBLE_CORES=%s is not a list of cores", list);
        return NRT_INVALID;
    }
    while (!mask[first])
        first++;
    for (uint32_t i = first; i < first + count; i++)
        if (i >= total || !mask[i]) {
            sim_log("NEURON_RT_VISIBLE_CORES=%s: must be one run within %u cores", list, total);
            return NRT_INVALID;
        }
    *ret_first = first;
    *ret_count = count;
    return NRT_SUCCESS;
}

/* Stores the first core and the number of cores that this process may use, according to the
 * environment. With `take`, also claims them. Queries do not set `take`, because a process claims
 * cores only in nrt_init. */
static NRT_STATUS
visible(uint32_t total, bool take, uint32_t *ret_first, uint32_t *ret_count)
{
    const char *list = sim_env_text("NEURON_RT_VISIBLE_CORES", NULL);
    const char *number = sim_env_text("NEURON_RT_NUM_CORES", NULL);
    uint32_t first = 0, count = total;
    NRT_STATUS status = NRT_SUCCESS;

    if (list != NULL) {
        if ((status = visible_list(list, total, &first, &count)) != NRT_SUCCESS)
            return status;
    } else if (number != NULL) {
        char *end;
        unsigned long n = strtoul(number, &end, 10);

        if (*end != '\0' || n == 0 || n > total) {
            sim_log("NEURON_RT_NUM_CORES=%s is not possible with %u cores", number, total);
            return NRT_INVALID;
        }
        count = (uint32_t) n;
        if (take)
            status = claim_free(total, count, &first);
        *ret_first = first;
        *ret_count = count;
        return status;
    }
    *ret_first = first;
    *ret_count = count;
    return take ? claim_range(first, count) : NRT_SUCCESS;
}

static NRT_STATUS
count_cores(bool total_only, uint32_t *ret_count)
{
    sim_settings set;
    const sim_instance *in;
    uint32_t lnc, first, count, total;
    NRT_STATUS status;

    if (ret_count == NULL)
        return NRT_INVALID;
    if (sim.phase == SIM_OPEN) {
        *ret_count = total_only ? sim.core_total : sim.core_count;
        return NRT_SUCCESS;
    }
    if ((status = sim_env_read(&set)) != NRT_SUCCESS)
        return status;
    if ((in = instance_of(set.instance)) == NULL)
        return NRT_INVALID;
    if ((status = choose_lnc(in, &lnc)) != NRT_SUCCESS)
        return status;
    total = count = in->devices * in->cores_per_device / lnc;
    if (!total_only && (status = visible(total, false, &first, &count)) != NRT_SUCCESS)
        return status;
    *ret_count = count;
    return NRT_SUCCESS;
}

static void
core_init(sim_core *core, uint32_t idx)
{
    uint64_t node = 5381;

    for (const char *p = sim.node; *p != '\0'; p++)
        node = sim_mix(node, (uint8_t) *p);
    memset(core, 0, sizeof(*core));
    core->idx = idx;
    core->global = sim.core_first + idx;
    core->lnc = sim.lnc;
    sim.hbm_bytes[sim_hbm(core)] = sim.hbm_tensors[sim_hbm(core)] = 0;
    core->g_id = core->g_count = SIM_ANY;
    pthread_mutex_init(&core->busy, NULL);
    for (unsigned p = 0; p < core->lnc; p++) {
        /* The seed depends only on the node and the core, so that all processes of the node have
         * the same device clocks. */
        uint64_t r = sim_mix(node + (uint64_t) sim.set.seed, core->global * core->lnc + p);
        double unit = (double) (sim_mix(r, 1) >> 11) / 9007199254740992.0;

        /* ns; the device clock is up to five hours ahead of true time */
        core->origin[p] = (int64_t) (r >> 20);
        core->rate_ppt[p] = (int64_t) ((2.0 * unit - 1.0) * sim.set.device_ppm * 1e6);
    }
}

/* ---- opening and closing the runtime --------------------------------------------------------- */

/* Resets the runtime in the child of a fork, as if nrt_init had not been called. */
static void
forked(void)
{
    pthread_mutex_init(&sim.lock, NULL);
    sim.phase = SIM_NEVER;
    sim.models = NULL;
    sim.callback = NULL;
    claim_fd = -1;
    sim_trace_forked();
    sim_truth_forked();
    sim_async_forked();
    sim_coll_forked();
    sim_inspect_forked();
    sim_misc_forked();
}

static void
name_node(void)
{
    char host[64] = "node";
    uint64_t hash;

    if (*sim.set.node != '\0')
        snprintf(sim.node, sizeof(sim.node), "%s", sim.set.node);
    else {
        gethostname(host, sizeof(host) - 1);
        snprintf(sim.node, sizeof(sim.node), "%s", host);
    }
    for (char *p = sim.node; *p != '\0'; p++)
        if (*p == '/')
            *p = '_';
    hash = 7;
    for (const char *p = sim.node; *p != '\0'; p++)
        hash = sim_mix(hash, (uint8_t) *p);
    if (*sim.set.instance_id != '\0')
        snprintf(sim.instance_id, sizeof(sim.instance_id), "%s", sim.set.instance_id);
    else
        snprintf(sim.instance_id, sizeof(sim.instance_id), "i-%017llx",
                 (unsigned long long) (hash >> 1));
    if (*sim.set.job != '\0')
        snprintf(sim.job, sizeof(sim.job), "%s", sim.set.job);
    else
        snprintf(sim.job, sizeof(sim.job), "%d", (int) getppid());
}

static NRT_STATUS
exec_timeout(void)
{
    const char *text = sim_env_text("NEURON_RT_EXEC_TIMEOUT", "30");
    char *end;
    double s = strtod(text, &end);

    if (*end != '\0' || !(s > 0.0) || s > 86400.0) {
        sim_log("NEURON_RT_EXEC_TIMEOUT=%s is not a number of seconds", text);
        return NRT_INVALID;
    }
    sim.exec_timeout_ns = (int64_t) (s * 1e9);
    return NRT_SUCCESS;
}

static NRT_STATUS
open_machine(void)
{
    const char *tag = sim_env_text("NEURON_PROCESS_TAG", "");
    NRT_STATUS status;

    if (strlen(tag) > 255) {
        sim_log("NEURON_PROCESS_TAG is longer than 255 characters");
        return NRT_INVALID;
    }
    if ((status = sim_env_read(&sim.set)) != NRT_SUCCESS ||
        (status = sim_fault_parse(sim.set.fault)) != NRT_SUCCESS ||
        (status = exec_timeout()) != NRT_SUCCESS)
        return status;
    if ((sim.instance = instance_of(sim.set.instance)) == NULL)
        return NRT_INVALID;
    if ((status = choose_lnc(sim.instance, &sim.lnc)) != NRT_SUCCESS)
        return status;
    name_node();
    sim.core_total = sim.instance->devices * sim.instance->cores_per_device / sim.lnc;
    claim_open(sim.node);
    if ((status = visible(sim.core_total, true, &sim.core_first, &sim.core_count)) != NRT_SUCCESS)
        return status;
    for (uint32_t i = 0; i < sim.core_count; i++)
        core_init(&sim.core[i], i);
    sim.model_next = 1;
    atomic_store(&sim.async_used, false);
    return NRT_SUCCESS;
}

static void
drop_claims(void)
{
    if (claim_fd >= 0)
        close(claim_fd);
    claim_fd = -1;
}

NRT_STATUS
nrt_init(nrt_framework_type_t framework, const char *fw_version, const char *fal_version)
{
    static bool hooked;
    NRT_STATUS status;

    (void) fw_version;
    (void) fal_version;
    if (framework <= NRT_FRAMEWORK_TYPE_INVALID || framework > NRT_FRAMEWORK_TYPE_PRECHECK)
        return NRT_INVALID;
    pthread_mutex_lock(&sim.lock);
    if (sim.phase == SIM_OPEN)
        status = NRT_SUCCESS; /* a second nrt_init has no effect and is no error */
    else if ((status = open_machine()) == NRT_SUCCESS) {
        if (!hooked)
            pthread_atfork(NULL, NULL, forked);
        hooked = true;
        sim_truth_open(sim.set.truth);
        atomic_store_explicit(&sim.phase, SIM_OPEN, memory_order_release);
    } else
        drop_claims();
    pthread_mutex_unlock(&sim.lock);
    if (status == NRT_SUCCESS)
        sim_inspect_from_env();
    return status;
}

void
nrt_close(void)
{
    if (sim_check() != NRT_SUCCESS)
        return;
    sim_async_close();
    sim_profile_close();
    sim_trace_release(SIM_TRACE_API);
    sim_misc_close();
    sim_coll_close();
    pthread_mutex_lock(&sim.lock);
    atomic_store_explicit(&sim.phase, SIM_CLOSED, memory_order_release);
    sim_models_drop();
    sim_truth_close();
    drop_claims();
    pthread_mutex_unlock(&sim.lock);
}

/* Writes the captures of a process that exits without nrt_close. */
__attribute__((destructor)) static void
unloaded(void)
{
    nrt_close();
}

/* ---- queries about the runtime and its cores ------------------------------------------------- */

NRT_STATUS
nrt_get_version(nrt_version_t *ver, size_t size)
{
    nrt_version_t own = { .rt_major = 2, .rt_minor = 34, .rt_patch = 10 };

    if (ver == NULL || size == 0)
        return NRT_INVALID;
    snprintf(own.rt_detail, sizeof(own.rt_detail), "2.34.10.0 simulated by Meridian");
    snprintf(own.git_hash, sizeof(own.git_hash), "simulated");
    memcpy(ver, &own, size < sizeof(own) ? size : sizeof(own));
    return NRT_SUCCESS;
}

NRT_STATUS
nrt_get_instance_info(nrt_instance_info_t *info, size_t size)
{
    nrt_instance_info_t own = { 0 };
    const sim_instance *in = sim.instance;
    sim_settings set;

    if (info == NULL || size == 0)
        return NRT_INVALID;
    if (in == NULL &&
        (sim_env_read(&set) != NRT_SUCCESS || (in = instance_of(set.instance)) == NULL))
        return NRT_INVALID;
    own.family = in->family;
    own.size = in->size;
    snprintf(own.arch_name, sizeof(own.arch_name), "%s", in->arch);
    snprintf(own.device_revision, sizeof(own.device_revision), "%s", in->revision);
    memcpy(info, &own, size < sizeof(own) ? size : sizeof(own));
    return NRT_SUCCESS;
}

const char *
nrt_get_status_as_str(NRT_STATUS status)
{
    switch (status) {
#define STATUS_TEXT(name, number)                                                                  \
    case name:                                                                                     \
        return #name;
        NRT_STATUS_TABLE(STATUS_TEXT)
#undef STATUS_TEXT
    }
    return "NRT_UNKNOWN_STATUS";
}

NRT_STATUS
nrt_get_total_nc_count(uint32_t *count)
{
    return count_cores(true, count);
}

NRT_STATUS
nrt_get_total_vnc_count(uint32_t *count)
{
    return count_cores(true, count);
}

NRT_STATUS
nrt_get_visible_nc_count(uint32_t *count)
{
    return count_cores(false, count);
}

NRT_STATUS
nrt_get_visible_vnc_count(uint32_t *count)
{
    return count_cores(false, count);
}

NRT_STATUS
nrt_get_vnc_memory_stats(uint32_t vnc, nrt_vnc_memory_stats_t *stats, size_t size_in,
                         size_t *size_out)
{
    nrt_vnc_memory_stats_t own;
    size_t n = size_in < sizeof(own) ? size_in : sizeof(own);

    SIM_NEEDS_OPEN();
    if (stats == NULL || size_out == NULL || vnc >= sim.core_count)
        return NRT_INVALID;
    own.bytes_used = atomic_load(&sim.core[vnc].bytes);
    own.bytes_limit = sim.instance->hbm_bytes * sim.lnc / sim.instance->default_lnc;
    memcpy(stats, &own, n);
    *size_out = n;
    return NRT_SUCCESS;
}

NRT_STATUS
nrt_host_device_id_get(int neuron_dev, uint32_t *host_device_id)
{
    SIM_NEEDS_OPEN();
    if (host_device_id == NULL || neuron_dev < 0 || (uint32_t) neuron_dev >= sim.instance->devices)
        return NRT_INVALID;
    *host_device_id = (uint32_t) neuron_dev;
    return NRT_SUCCESS;
}

NRT_STATUS
nrt_host_device_id_rid_map_get(uint32_t *count, uint32_t *map)
{
    SIM_NEEDS_OPEN();
    if (count == NULL || map == NULL || *count < sim.instance->devices)
        return NRT_INVALID;
    *count = sim.instance->devices;
    for (uint32_t i = 0; i < *count; i++)
        map[i] = i;
    return NRT_SUCCESS;
}
