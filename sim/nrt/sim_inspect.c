/* Simulates the runtime's profiling, which writes files to capture directories: inspect captures
 * (the runtime's own capture of a whole process), model profiles and continuous profiles. The real
 * formats are not public, so every file is a short text that says that it is simulated. */
#include "sim.h"

#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/sys/threads.h"

#define DIR_DEFAULT  "./output"
#define DIR_MAX      3000
#define ACT_SYSTEM   1u
#define ACT_DEVICE   2u
#define ACT_HOST_MEM 4u
#define ACT_CPU      8u
#define ACT_ALL      15u

static const char *const activity_names[] = { "system_profile", "device_profile", "host_memory",
                                              "cpu_util", "all" };

struct nrt_inspect_config {
    int session;
    char dir[DIR_MAX];
    sim_trace_config trace;
    unsigned activities;
    /* `by_session` writes one device profile per core for the whole session, not one per model */
    bool enable, on_fail, by_session;
    /* number of executions of a model that are not profiled before the profiled one */
    uint32_t warmup;
};

static struct {
    pthread_mutex_t lock;
    bool on;
    struct nrt_inspect_config c;
    char dir[DIR_MAX + 128]; /* directory of this process's current capture */
    uint64_t failures, execs[SIM_CORES_MAX];
    unsigned number; /* number of captures that were begun */
} ins = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- writing files of a capture -------------------------------------------------------------- */

static bool
make_dirs(const char *path)
{
    char part[DIR_MAX + 160];

    snprintf(part, sizeof(part), "%s", path);
    for (char *p = part + 1; *p != '\0'; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            return false;
        *p = '/';
    }
    return mkdir(part, 0777) == 0 || errno == EEXIST;
}

__attribute__((format(printf, 4, 5))) static NRT_STATUS
write_file(const char *path, const void *data, size_t len, const char *format, ...)
{
    FILE *file = fopen(path, "we");
    va_list args;
    bool ok;

    if (file == NULL) {
        sim_log("cannot write '%s': %s", path, strerror(errno));
        return NRT_FAILURE;
    }
    if (format != NULL) {
        fputs(SIM_LABEL "\n", file);
        va_start(args, format);
        vfprintf(file, format, args);
        va_end(args);
    }
    ok = data == NULL || fwrite(data, 1, len, file) == len;
    ok = fclose(file) == 0 && ok;
    return ok ? NRT_SUCCESS : NRT_FAILURE;
}

static void
process_dir(const char *base, char *to, size_t room)
{
    snprintf(to, room, "%s/%s_pid_%d", base, sim.instance_id, (int) getpid());
}

static NRT_STATUS
write_ntff(const char *path, const sim_model *model, uint64_t execs)
{
    /* Two real profiles are never equal. The process id and the time make simulated ones differ as
     * well. */
    return write_file(path, NULL, 0,
                      "kind=ntff\nmodel=%s\nhash=%016llx\nvnc=%u\nexecutions=%llu\nprocess=%d\n"
                      "time=%lld\n",
                      model->name, (unsigned long long) model->hash, model->core->idx,
                      (unsigned long long) execs, (int) getpid(), (long long) sim_wall(sim_raw()));
}

static void
write_neff(const char *dir, const sim_model *model)
{
    char path[DIR_MAX + 300];
    bool says = model->neff_size >= 7 && memcmp(model->neff, "SIMNEFF", 7) == 0;

    if (sim.set.layout == 0)
        snprintf(path, sizeof(path), "%s/neff_%016llx_vnc_%u.neff", dir,
                 (unsigned long long) model->hash, model->core->idx);
    else
        snprintf(path, sizeof(path), "%s/neff_%016llx.neff", dir, (unsigned long long) model->hash);
    /* The text of a simulated NEFF (compiled model file) says that it is simulated. Write this
     * label in front of any other NEFF. */
    write_file(path, model->neff, model->neff_size, says ? NULL : "kind=neff\n");
}

static unsigned
count_off(const bool *off, size_t n)
{
    unsigned count = 0;

    for (size_t i = 0; i < n; i++)
        count += off[i];
    return count;
}

static void
write_pb(const char *name, const sim_trace_totals *totals)
{
    char path[DIR_MAX + 300];

    snprintf(path, sizeof(path), "%s/%s", ins.dir, name);
    write_file(path, NULL, 0,
               "kind=%s\nsession=%d\nevents_total=%llu\nevents_stored=%llu\n"
               "events_dropped=%llu\nevents_max=%llu\ncores_off=%u\ntypes_off=%u\n",
               name, ins.c.session, (unsigned long long) totals->emitted,
               (unsigned long long) totals->stored, (unsigned long long) totals->overwritten,
               (unsigned long long) ins.c.trace.max_events,
               count_off(ins.c.trace.core_off, sim.core_count),
               count_off(ins.c.trace.type_off, SIM_EV_COUNT));
}

/* ---- device profiles of an inspect capture --------------------------------------------------- */

static void
model_profile(sim_model *model)
{
    char path[DIR_MAX + 300];

    if (model->profiled || model->inspect_execs <= ins.c.warmup)
        return;
    /* only the first execution after the warm-up is profiled, per NEFF and core */
    model->profiled = true;
    write_neff(ins.dir, model);
    if (sim.set.layout == 0)
        snprintf(path, sizeof(path), "%s/%016llx_vnc_%u.ntff", ins.dir,
                 (unsigned long long) model->hash, model->core->idx);
    else
        snprintf(path, sizeof(path), "%s/%016llx_instid_0_vnc_%u.ntff", ins.dir,
                 (unsigned long long) model->hash, model->core->idx);
    write_file(path, NULL, 0,
               "kind=ntff\nmodel=%s\nhash=%016llx\nvnc=%u\nexecutions=1\nexecution=%llu\n"
               "session=%d\nprocess=%d\ntime=%lld\n",
               model->name, (unsigned long long) model->hash, model->core->idx,
               (unsigned long long) model->inspect_execs, ins.c.session, (int) getpid(),
               (long long) sim_wall(sim_raw()));
}

bool
sim_inspect_device_on(void)
{
    bool on;

    pthread_mutex_lock(&ins.lock);
    on = ins.on && ins.c.enable && (ins.c.activities & ACT_DEVICE) != 0;
    pthread_mutex_unlock(&ins.lock);
    return on;
}

void
sim_inspect_executed(sim_model *model, NRT_STATUS status)
{
    char path[DIR_MAX + 300];

    pthread_mutex_lock(&ins.lock);
    if (ins.on) {
        if (model->inspected != ins.number) {
            model->inspected = ins.number;
            model->inspect_execs = 0;
            model->profiled = false;
        }
        model->inspect_execs++;
        ins.execs[model->core->idx]++;
        if (ins.c.enable && (ins.c.activities & ACT_DEVICE) != 0 && !ins.c.by_session)
            model_profile(model);
        else if (ins.c.enable && (ins.c.activities & ACT_DEVICE) != 0 && !model->profiled) {
            model->profiled = true;
            write_neff(ins.dir, model);
        }
        if (status != NRT_SUCCESS && ins.c.on_fail) {
            snprintf(path, sizeof(path), "%s/%016llx_vnc_%u_fail_%llu.ntff", ins.dir,
                     (unsigned long long) model->hash, model->core->idx,
                     (unsigned long long) ins.failures++);
            write_ntff(path, model, model->execs);
        }
    }
    pthread_mutex_unlock(&ins.lock);
}

/* Writes the files of the capture, as selected by `what`. The caller holds ins.lock. */
static void
dump(unsigned what)
{
    sim_trace_totals totals;
    char path[DIR_MAX + 300];

    sim_trace_sum(&totals);
    what &= ins.c.enable ? ins.c.activities : 0;
    if ((what & ACT_SYSTEM) != 0) {
        write_pb("ntrace.pb", &totals);
        write_pb("trace_info.pb", &totals);
    }
    if ((what & ACT_CPU) != 0)
        write_pb("cpu_util.pb", &totals);
    if ((what & ACT_HOST_MEM) != 0)
        write_pb("host_mem.pb", &totals);
    for (uint32_t i = 0; (what & ACT_DEVICE) != 0 && ins.c.by_session && i < sim.core_count; i++) {
        if (ins.execs[i] == 0)
            continue;
        snprintf(path, sizeof(path), "%s/profile_nc_%u_session_%d.ntff", ins.dir, i, ins.c.session);
        write_file(path, NULL, 0, "kind=ntff\nnc=%u\nsession=%d\nexecutions=%llu\n", i,
                   ins.c.session, (unsigned long long) ins.execs[i]);
    }
}

/* ---- SIGTERM and SIGINT: write the profiles, then continue with the previous action ---------- */

static const int dump_signals[] = { SIGTERM, SIGINT };
static struct sigaction before[2];
static sem_t wanted;
static _Atomic int dump_done;
static bool handlers;

static void *
dumper(void *arg)
{
    (void) arg;
    while (sem_wait(&wanted) != 0)
        ;
    pthread_mutex_lock(&ins.lock);
    if (ins.on)
        dump(ACT_ALL);
    pthread_mutex_unlock(&ins.lock);
    atomic_store(&dump_done, 1);
    return NULL;
}

static void
on_signal(int sig, siginfo_t *info, void *context)
{
    const struct sigaction *old = &before[sig == SIGTERM ? 0 : 1];
    int saved = errno;

    sem_post(&wanted); /* the thread dumper() writes the files, because a signal handler must not */
    for (int i = 0; i < 2000 && atomic_load(&dump_done) == 0; i++) {
        struct timespec ms = { 0, 1000000 };

        nanosleep(&ms, NULL);
    }
    errno = saved;
    if ((old->sa_flags & SA_SIGINFO) != 0 && old->sa_sigaction != NULL)
        old->sa_sigaction(sig, info, context);
    else if (old->sa_handler == SIG_DFL) {
        sigaction(sig, old, NULL);
        raise(sig);
    } else if (old->sa_handler != SIG_IGN)
        old->sa_handler(sig);
}

static void
install_handlers(void)
{
    struct sigaction sa = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART };
    pthread_t thread;

    if (handlers)
        return;
    sem_init(&wanted, 0, 0);
    handlers = mrd_masked_thread(&thread, NULL, dumper, NULL) == 0;
    if (!handlers)
        return;
    pthread_detach(thread);
    for (size_t i = 0; i < SIM_COUNT(dump_signals); i++)
        sigaction(dump_signals[i], &sa, &before[i]);
}

/* ---- beginning and stopping an inspect capture ----------------------------------------------- */

static void
defaults(struct nrt_inspect_config *config)
{
    memset(config, 0, sizeof(*config));
    config->session = 1;
    snprintf(config->dir, sizeof(config->dir), DIR_DEFAULT);
    sim_trace_defaults(&config->trace);
    config->activities = ACT_ALL;
}

static bool continuous_on(void);

static NRT_STATUS
begin(const struct nrt_inspect_config *config)
{
    NRT_STATUS status = NRT_SUCCESS;
    char base[DIR_MAX + 64];

    if (!config->enable && !config->on_fail)
        return NRT_SUCCESS; /* the documentation demands success, although nothing is captured */
    if (config->enable && (config->activities & ACT_DEVICE) != 0 && continuous_on()) {
        sim_log("inspect: continuous device profiling is on");
        return NRT_FAILURE;
    }
    pthread_mutex_lock(&ins.lock);
    if (ins.on)
        status = NRT_INVALID;
    else {
        process_dir(config->dir, base, sizeof(base));
        if (sim.set.layout == 0)
            snprintf(ins.dir, sizeof(ins.dir), "%s/%lld", base, (long long) sim_wall(sim_raw()));
        else
            snprintf(ins.dir, sizeof(ins.dir), "%s", base);
        if (!make_dirs(ins.dir)) {
            sim_log("inspect: cannot make '%s': %s", ins.dir, strerror(errno));
            status = NRT_FAILURE;
        }
    }
    if (status == NRT_SUCCESS && config->enable && (config->activities & ACT_SYSTEM) != 0)
        status = sim_trace_hold(SIM_TRACE_INSPECT, &config->trace);
    if (status == NRT_SUCCESS) {
        ins.c = *config;
        ins.on = true;
        ins.number++;
        memset(ins.execs, 0, sizeof(ins.execs));
        install_handlers();
    }
    pthread_mutex_unlock(&ins.lock);
    return status;
}

static bool
filter_types(const char *list, sim_trace_config *config)
{
    char *copy = strdup(list), *save = NULL;
    bool named = false, ok = copy != NULL;

    /* If the list contains a type without "^", only the listed types are on. If it has only
     * exclusions ("^type"), all other types stay on. */
    for (const char *p = list; *p != '\0'; p += strcspn(p, ",") + (p[strcspn(p, ",")] == ','))
        named = named || *p != '^';
    for (size_t i = 0; i < SIM_EV_COUNT; i++)
        config->type_off[i] = named;
    for (char *item = ok ? strtok_r(copy, ",", &save) : NULL; item != NULL;
         item = strtok_r(NULL, ",", &save)) {
        bool off = *item == '^', any = false;
        const char *name = item + off;

        for (size_t i = 0; i < SIM_EV_COUNT; i++)
            if ((strcmp(name, "hardware") == 0 && sim_type_is_hardware((sim_type) i)) ||
                (strcmp(name, "software") == 0 && !sim_type_is_hardware((sim_type) i)) ||
                sim_type_of(name) == (sim_type) i) {
                config->type_off[i] = off;
                any = true;
            }
        if (!any) {
            sim_log("NEURON_RT_INSPECT_EVENT_FILTER_TYPE: no event type '%s'", name);
            ok = false;
        }
    }
    free(copy);
    return ok;
}

static bool
filters_from_env(sim_trace_config *config)
{
    const char *nc = sim_env_text("NEURON_RT_INSPECT_EVENT_FILTER_NC", NULL);
    const char *type = sim_env_text("NEURON_RT_INSPECT_EVENT_FILTER_TYPE", NULL);
    const char *max = sim_env_text("NEURON_RT_INSPECT_SYS_TRACE_MAX_EVENTS_PER_NC", NULL);
    bool mask[SIM_CORES_MAX];
    uint32_t n;

    if (max != NULL)
        config->max_events = strtoull(max, NULL, 10);
    if (nc != NULL) {
        if (!sim_env_cores(nc, mask, &n)) {
            sim_log("NEURON_RT_INSPECT_EVENT_FILTER_NC=%s is not a list of cores", nc);
            return false;
        }
        for (size_t i = 0; i < SIM_CORES_MAX; i++)
            config->core_off[i] = !mask[i];
    }
    return type == NULL || filter_types(type, config);
}

static bool
config_from_env(struct nrt_inspect_config *config)
{
    const char *device = sim_env_text("NEURON_RT_INSPECT_DEVICE_PROFILE",
                                      sim.set.device_profile_default == 1 ? "1" : "0");

    defaults(config);
    config->enable = sim_env_flag("NEURON_RT_INSPECT_ENABLE", false);
    config->on_fail = sim_env_flag("NEURON_RT_INSPECT_ON_FAIL", false);
    snprintf(config->dir, sizeof(config->dir), "%s",
             sim_env_text("NEURON_RT_INSPECT_OUTPUT_DIR", DIR_DEFAULT));
    config->activities = (sim_env_flag("NEURON_RT_INSPECT_SYSTEM_PROFILE", true) ? ACT_SYSTEM : 0) |
                         (strcmp(device, "0") != 0 ? ACT_DEVICE : 0) |
                         (sim_env_flag("NEURON_RT_INSPECT_CPU_UTIL", true) ? ACT_CPU : 0) |
                         (sim_env_flag("NEURON_RT_INSPECT_HOST_MEMORY", true) ? ACT_HOST_MEM : 0);
    config->by_session = strcmp(device, "session") == 0;
    config->warmup = (uint32_t) strtoul(
        sim_env_text("NEURON_RT_INSPECT_DEVICE_PROFILE_NUM_WARMUP", "0"), NULL, 10);
    if (strcmp(device, "0") != 0 && strcmp(device, "1") != 0 && strcmp(device, "model") != 0 &&
        strcmp(device, "session") != 0) {
        sim_log("NEURON_RT_INSPECT_DEVICE_PROFILE=%s is none of 0, 1, model, session", device);
        return false;
    }
    return filters_from_env(&config->trace);
}

void
sim_inspect_from_env(void)
{
    struct nrt_inspect_config config;

    if (sim_env_flag("NEURON_RT_INSPECT_ENABLE", false) ||
        sim_env_flag("NEURON_RT_INSPECT_ON_FAIL", false))
        if (config_from_env(&config))
            begin(&config);
}

NRT_STATUS
nrt_inspect_begin(void)
{
    struct nrt_inspect_config config;

    SIM_NEEDS_OPEN();
    return config_from_env(&config) ? begin(&config) : NRT_INVALID;
}

NRT_STATUS
nrt_inspect_begin_with_options(nrt_inspect_config_t *options)
{
    struct nrt_inspect_config config;

    SIM_NEEDS_OPEN();
    if (options == NULL)
        defaults(&config);
    else
        config = *options;
    return begin(&config);
}

NRT_STATUS
nrt_inspect_stop(void)
{
    bool traced;

    SIM_NEEDS_OPEN();
    pthread_mutex_lock(&ins.lock);
    traced = ins.on && ins.c.enable && (ins.c.activities & ACT_SYSTEM) != 0;
    if (ins.on)
        dump(ACT_ALL);
    ins.on = false;
    pthread_mutex_unlock(&ins.lock);
    if (traced)
        sim_trace_release(SIM_TRACE_INSPECT);
    return NRT_SUCCESS;
}

NRT_STATUS
nrt_inspect_export(uint64_t types)
{
    NRT_STATUS status = NRT_FAILURE;

    SIM_NEEDS_OPEN();
    pthread_mutex_lock(&ins.lock);
    if (ins.on) {
        dump((unsigned) types);
        status = NRT_SUCCESS;
    }
    pthread_mutex_unlock(&ins.lock);
    return status;
}

/* ---- options of an inspect capture ----------------------------------------------------------- */

NRT_STATUS
nrt_inspect_config_allocate(nrt_inspect_config_t **options)
{
    if (options == NULL)
        return NRT_INVALID;
    if ((*options = malloc(sizeof(**options))) == NULL)
        return NRT_RESOURCE;
    defaults(*options);
    return NRT_SUCCESS;
}

NRT_STATUS
nrt_inspect_config_set_defaults(nrt_inspect_config_t *options)
{
    if (options == NULL)
        return NRT_INVALID;
    defaults(options);
    return NRT_SUCCESS;
}

NRT_STATUS
nrt_inspect_config_free(nrt_inspect_config_t *options)
{
    free(options);
    return options == NULL ? NRT_INVALID : NRT_SUCCESS;
}

NRT_STATUS
nrt_inspect_config_set_session_id(nrt_inspect_config_t *options, int session_id)
{
    if (options == NULL)
        return NRT_INVALID;
    options->session = session_id;
    return NRT_SUCCESS;
}

NRT_STATUS
nrt_inspect_config_set_output_dir(nrt_inspect_config_t *options, const char *dir)
{
    if (options == NULL || dir == NULL || *dir == '\0' || strlen(dir) >= sizeof(options->dir))
        return NRT_INVALID;
    snprintf(options->dir, sizeof(options->dir), "%s", dir);
    return NRT_SUCCESS;
}

NRT_STATUS
nrt_inspect_config_set_sys_trace_max_events_per_nc(nrt_inspect_config_t *options,
                                                   uint64_t max_events)
{
    if (options == NULL || max_events == 0)
        return NRT_INVALID;
    options->trace.max_events = max_events;
    return NRT_SUCCESS;
}

NRT_STATUS
nrt_inspect_config_set_capture_enabled_for_nc(nrt_inspect_config_t *options, uint32_t nc,
                                              bool enabled)
{
    if (options == NULL || nc >= (sim_check() == NRT_SUCCESS ? sim.core_count : SIM_CORES_MAX))
        return NRT_INVALID;
    options->trace.core_off[nc] = !enabled;
    return NRT_SUCCESS;
}

NRT_STATUS
nrt_inspect_config_set_capture_enabled_for_event_type_string(nrt_inspect_config_t *options,
                                                             const char *type, bool enabled)
{
    sim_type t;

    if (options == NULL || type == NULL || (t = sim_type_of(type)) == SIM_EV_COUNT)
        return NRT_INVALID;
    options->trace.type_off[t] = !enabled;
    return NRT_SUCCESS;
}

NRT_STATUS
nrt_inspect_config_set_device_profile_num_warmup(nrt_inspect_config_t *options, uint32_t num_warmup)
{
    if (options == NULL)
        return NRT_INVALID;
    options->warmup = num_warmup;
    return NRT_SUCCESS;
}

NRT_STATUS
nrt_inspect_config_set_enable_inspect(nrt_inspect_config_t *options, bool enabled)
{
    if (options == NULL)
        return NRT_INVALID;
    options->enable = enabled;
    return NRT_SUCCESS;
}

NRT_STATUS
nrt_inspect_config_set_enable_inspect_on_fail(nrt_inspect_config_t *options, bool enabled)
{
    if (options == NULL)
        return NRT_INVALID;
    options->on_fail = enabled;
    return NRT_SUCCESS;
}

NRT_STATUS
nrt_inspect_config_get_all_activity_types(const char ***types, size_t *count)
{
    if (types == NULL || count == NULL)
        return NRT_INVALID;
    return sim_names_copy(activity_names, 4, types, count);
}

NRT_STATUS
nrt_inspect_config_get_enabled_activity_types(nrt_inspect_config_t *options, const char ***types,
                                              size_t *count)
{
    const char *names[4];
    size_t n = 0;

    if (options == NULL || types == NULL || count == NULL)
        return NRT_INVALID;
    for (size_t i = 0; i < 4; i++)
        if ((options->activities & 1u << i) != 0)
            names[n++] = activity_names[i];
    return sim_names_copy(names, n, types, count);
}

void
nrt_inspect_config_free_activity_types(const char **types, size_t count)
{
    nrt_sys_trace_free_event_types(types, count);
}

NRT_STATUS
nrt_inspect_config_set_activity(nrt_inspect_config_t *options, const char *type, bool enabled)
{
    if (options == NULL || type == NULL)
        return NRT_INVALID;
    for (size_t i = 0; i < SIM_COUNT(activity_names); i++)
        if (strcmp(activity_names[i], type) == 0) {
            unsigned bits = i == 4 ? ACT_ALL : 1u << i;

            options->activities =
                enabled ? options->activities | bits : options->activities & ~bits;
            return NRT_SUCCESS;
        }
    return NRT_INVALID;
}

/* ---- profiles of one model, and the older trace interface ------------------------------------ */

static struct {
    char file[DIR_MAX];
    const sim_model *model;
    uint64_t from;
} armed[32];
static pthread_mutex_t prof_lock = PTHREAD_MUTEX_INITIALIZER;

NRT_STATUS
nrt_profile_start(nrt_model_t *model, const char *filename)
{
    NRT_STATUS status = NRT_RESOURCE;

    SIM_NEEDS_OPEN();
    if (filename == NULL || *filename == '\0' || strlen(filename) >= DIR_MAX)
        return NRT_INVALID;
    if ((status = sim_model_check(model)) != NRT_SUCCESS)
        return status;
    pthread_mutex_lock(&prof_lock);
    status = NRT_RESOURCE;
    for (size_t i = 0; i < SIM_COUNT(armed); i++)
        if (armed[i].model != NULL &&
            (armed[i].model == model || strcmp(armed[i].file, filename) == 0))
            status = NRT_INVALID;
    for (size_t i = 0; status == NRT_RESOURCE && i < SIM_COUNT(armed); i++)
        if (armed[i].model == NULL) {
            snprintf(armed[i].file, sizeof(armed[i].file), "%s", filename);
            armed[i].model = model;
            armed[i].from = model->execs;
            status = NRT_SUCCESS;
        }
    pthread_mutex_unlock(&prof_lock);
    return status;
}

NRT_STATUS
nrt_profile_stop(const char *filename)
{
    NRT_STATUS status = NRT_INVALID;

    SIM_NEEDS_OPEN();
    if (filename == NULL)
        return NRT_INVALID;
    pthread_mutex_lock(&prof_lock);
    for (size_t i = 0; i < SIM_COUNT(armed); i++)
        if (armed[i].model != NULL && strcmp(armed[i].file, filename) == 0) {
            status = sim_model_check(armed[i].model);
            if (status == NRT_SUCCESS)
                status =
                    write_ntff(filename, armed[i].model, armed[i].model->execs - armed[i].from);
            armed[i].model = NULL;
            break;
        }
    pthread_mutex_unlock(&prof_lock);
    return status;
}

static bool old_trace;

NRT_STATUS
nrt_trace_start(bool trace_mem)
{
    (void) trace_mem;
    SIM_NEEDS_OPEN();
    old_trace = true;
    return NRT_SUCCESS;
}

NRT_STATUS
nrt_trace_stop(const char *filename)
{
    SIM_NEEDS_OPEN();
    if (filename == NULL || *filename == '\0' || !old_trace)
        return NRT_INVALID;
    old_trace = false;
    return write_file(filename, NULL, 0, "kind=nrt_trace\n");
}

/* ---- continuous profiles --------------------------------------------------------------------- */

struct nrt_profile_continuous_options {
    char dir[DIR_MAX];
};

static bool continuous;
static uint64_t saved;

static bool
continuous_on(void)
{
    bool on;

    pthread_mutex_lock(&prof_lock);
    on = continuous;
    pthread_mutex_unlock(&prof_lock);
    return on;
}

NRT_STATUS
nrt_profile_continuous_options_allocate(nrt_profile_continuous_options_t **options)
{
    if (options == NULL)
        return NRT_INVALID;
    if ((*options = malloc(sizeof(**options))) == NULL)
        return NRT_RESOURCE;
    snprintf((*options)->dir, sizeof((*options)->dir), DIR_DEFAULT);
    return NRT_SUCCESS;
}

NRT_STATUS
nrt_profile_continuous_options_free(nrt_profile_continuous_options_t *options)
{
    free(options);
    return options == NULL ? NRT_INVALID : NRT_SUCCESS;
}

NRT_STATUS
nrt_profile_continuous_options_set_output_dir(nrt_profile_continuous_options_t *options,
                                              const char *dir)
{
    if (options == NULL || dir == NULL || *dir == '\0' || strlen(dir) >= sizeof(options->dir))
        return NRT_INVALID;
    snprintf(options->dir, sizeof(options->dir), "%s", dir);
    return NRT_SUCCESS;
}

static bool
async_on(void)
{
    return atomic_load(&sim.async_used) ||
           sim_env_text("NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS", NULL) != NULL;
}

NRT_STATUS
nrt_profile_continuous_start(nrt_profile_continuous_options_t *options)
{
    SIM_NEEDS_OPEN();
    if (options == NULL)
        return NRT_INVALID;
    if (sim_inspect_device_on() || async_on()) {
        sim_log("continuous profiling refused: %s is on",
                sim_inspect_device_on() ? "inspect device profiling" : "asynchronous execution");
        return NRT_FAILURE;
    }
    pthread_mutex_lock(&prof_lock);
    continuous = true;
    pthread_mutex_unlock(&prof_lock);
    return NRT_SUCCESS;
}

NRT_STATUS
nrt_profile_continuous_save(uint32_t vnc, nrt_profile_continuous_options_t *options)
{
    char dir[DIR_MAX + 64], path[DIR_MAX + 200];
    const sim_model *model;
    NRT_STATUS status = NRT_FAILURE;

    SIM_NEEDS_OPEN();
    if (options == NULL || vnc >= sim.core_count)
        return NRT_INVALID;
    process_dir(options->dir, dir, sizeof(dir));
    pthread_mutex_lock(&prof_lock);
    model = sim.core[vnc].last;
    if (continuous && model != NULL && sim_model_check(model) == NRT_SUCCESS && make_dirs(dir)) {
        snprintf(path, sizeof(path), "%s/%016llx_vnc_%u_%llu.ntff", dir,
                 (unsigned long long) model->hash, vnc, (unsigned long long) saved++);
        status = write_ntff(path, model, 1);
        if (status == NRT_SUCCESS)
            write_neff(dir, model);
    }
    pthread_mutex_unlock(&prof_lock);
    return status;
}

NRT_STATUS
nrt_profile_continuous_stop(void)
{
    NRT_STATUS status;

    SIM_NEEDS_OPEN();
    pthread_mutex_lock(&prof_lock);
    status = continuous ? NRT_SUCCESS : NRT_FAILURE;
    continuous = false;
    pthread_mutex_unlock(&prof_lock);
    return status;
}

void
sim_inspect_forked(void)
{
    pthread_mutex_init(&ins.lock, NULL);
    pthread_mutex_init(&prof_lock, NULL);
    ins.on = continuous = old_trace = false;
    memset(armed, 0, sizeof(armed));
    /* the child has no dumper() thread, so it restores the previous signal handlers */
    if (handlers)
        for (size_t i = 0; i < SIM_COUNT(dump_signals); i++)
            sigaction(dump_signals[i], &before[i], NULL);
    handlers = false;
}

void
sim_profile_close(void)
{
    nrt_inspect_stop();
    pthread_mutex_lock(&prof_lock);
    continuous = old_trace = false;
    memset(armed, 0, sizeof(armed));
    pthread_mutex_unlock(&prof_lock);
}
