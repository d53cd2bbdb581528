/* Profiles one execution of each chosen model on request. Executions are counted since the request,
 * and the call of the chosen execution runs between nrt_profile_start and _stop. */
#include "capture/nrt/nrt_request_int.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "capture/nrt/models.h"
#include "capture/process.h"

/* maximum number of models in one request; a model that runs on two cores counts twice */
#define MODELS_MAX 256

typedef struct {
    /* id of the model, and the number of its executions that began since the request */
    uint64_t model, executions;
    int32_t core;
    /* `chosen`: the request selects this model. `had`: a profile of this model was started. */
    bool chosen, had;
    /* version of the request's list of models (`asked` below) for which `chosen` was computed */
    unsigned asked;
} counted;

static _Atomic bool armed; /* true while a request is active, so that executions must check it */
static counted models[MODELS_MAX];
static size_t n_models;
static unsigned asked;
static bool said_full;
/* Two directories below the top directory: `folder` belongs to this process, `stamp` in it to this
 * request. */
static char folder[96], stamp[32];

/* Makes <top>/<instance>_pid_<pid>/<time>, the layout of the vendor's tools. The agent removes
 * empty directories, so the directories are made again before each use. */
static bool
make_folder(void)
{
    const char *top = mrd_request_top();
    char dir[MRD_REQUEST_FILE + 100];

    if (!mrd_request_own_folder(top))
        return false;
    snprintf(dir, sizeof(dir), "%s/%s", top, folder);
    if (!mrd_request_own_folder(dir))
        return false;
    snprintf(dir, sizeof(dir), "%s/%s/%s", top, folder, stamp);
    return mrd_request_own_folder(dir);
}

bool
mrd_request_model_arm(const mrd_control *control)
{
    struct timespec now;

    if (MRD_NRT_REAL(nrt_profile_start) == NULL || MRD_NRT_REAL(nrt_profile_stop) == NULL) {
        mrd_request_refuse(control->id, -1, "this runtime library has no nrt_profile_start");
        return false;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(folder, sizeof(folder), "%s_pid_%" PRIu32, control->instance, mrd_proc_pid());
    snprintf(stamp, sizeof(stamp), "%lld%09ld", (long long) now.tv_sec, now.tv_nsec);
    if (!make_folder()) {
        mrd_request_refuse(control->id, -1, "the folder for its files cannot be made");
        return false;
    }
    n_models = 0;
    said_full = false;
    asked++;
    atomic_store_explicit(&armed, true, memory_order_release);
    mrd_request_say("device profiles armed", control->id, -1, NULL, mrd_request_top());
    return true;
}

void
mrd_request_model_chosen(void)
{
    asked++;
}

bool
mrd_nrt_request_on(void)
{
    return atomic_load_explicit(&armed, memory_order_relaxed);
}

static bool
is_chosen(const mrd_control *control, uint64_t model)
{
    char hash[MRD_MODEL_HASH] = "";

    mrd_model_hash(model, hash);
    return mrd_control_chooses(control, model, hash);
}

/* Returns the counters of this model on this core. Returns NULL if the request does not select the
 * core, or if the table of models is full. */
static counted *
count_of(const mrd_control *control, uint64_t model, int32_t core)
{
    counted *m = NULL;

    if (control->id == 0 || control->mode != MRD_CONTROL_MODEL || !mrd_request_wants(control, core))
        return NULL;
    for (size_t i = 0; i < n_models && m == NULL; i++)
        if (models[i].model == model && models[i].core == core)
            m = &models[i];
    if (m == NULL && n_models < MODELS_MAX) {
        m = &models[n_models++];
        *m = (counted){ .model = model, .core = core };
    } else if (m == NULL && !said_full) {
        said_full = true;
        mrd_request_refuse(control->id, core,
                           "more models are executed than are counted for one request: 256");
    }
    if (m != NULL && m->asked != asked) {
        m->asked = asked;
        m->chosen = is_chosen(control, model);
    }
    return m;
}

/* Returns true if this call contains the execution to be profiled. If that execution was already
 * over when its model was chosen, the next execution is profiled instead. */
static bool
claim(uint64_t model, int32_t core, int times, mrd_nrt_profiled *profiled)
{
    const mrd_control *control = &mrd_request_on;
    counted *m = count_of(control, model, core);
    uint64_t before;

    if (m == NULL)
        return false;
    before = m->executions;
    m->executions += (uint64_t) times;
    if (m->had || !m->chosen || m->executions < control->warmup + control->execution)
        return false;
    m->had = true;
    profiled->request = control->id;
    profiled->core = core;
    profiled->execution = before + 1 > control->warmup + control->execution
                              ? before + 1
                              : control->warmup + control->execution;
    snprintf(profiled->file, sizeof(profiled->file), "%s/%s/%s/profile_nc_%d_session_%zu.ntff",
             mrd_request_top(), folder, stamp, core < 0 ? 0 : core, (size_t) (m - models));
    profiled->name = profiled->file + strlen(mrd_request_top()) + 1 + strlen(folder) + 1;
    return true;
}

bool
mrd_nrt_request_before(nrt_model_t *model, uint64_t id, int32_t core, int times,
                       mrd_nrt_profiled *ret_profile)
{
    NRT_STATUS status;
    bool mine;

    mrd_request_lock();
    mine = claim(id, core, times, ret_profile);
    mrd_request_unlock();
    if (!mine)
        return false;
    status = MRD_NRT_REAL(nrt_profile_start)(model, ret_profile->file);
    if (status != NRT_SUCCESS)
        mrd_request_refuse_status(ret_profile->request, core, "nrt_profile_start", status);
    return status == NRT_SUCCESS;
}

bool
mrd_nrt_request_after(const mrd_nrt_profiled *profile)
{
    mrd_rec_arg args[] = { mrd_nrt_u64(MRD_NRT_KEY_request, profile->request),
                           mrd_nrt_i64(MRD_NRT_KEY_lnc_idx, profile->core < 0 ? 0 : profile->core),
                           mrd_nrt_u64(MRD_NRT_KEY_execution, profile->execution),
                           mrd_nrt_text(MRD_NRT_KEY_output_dir, mrd_request_top()) };
    NRT_STATUS status;

    mrd_request_lock();
    (void) make_folder();
    mrd_request_unlock();
    status = MRD_NRT_REAL(nrt_profile_stop)(profile->file);
    if (status == NRT_SUCCESS)
        mrd_rec_notice("device profile written", args, sizeof(args) / sizeof(args[0]));
    else
        mrd_request_refuse_status(profile->request, profile->core, "nrt_profile_stop", status);
    return status == NRT_SUCCESS;
}

/* Writes to `why` the reason why there is no profile of the core. A core of -1 means any core. */
static void
explain(const mrd_control *control, int32_t core, char why[160])
{
    uint64_t most = 0;
    bool chosen = false;

    for (size_t i = 0; i < n_models; i++) {
        if (core >= 0 && models[i].core != core)
            continue;
        chosen = chosen || models[i].chosen;
        if (models[i].chosen && models[i].executions > most)
            most = models[i].executions;
    }
    if (chosen && most < control->warmup + control->execution)
        snprintf(why, 160,
                 "nrt_execute executed it %" PRIu64 " times%s, and the profile was to be of "
                 "execution %" PRIu64 " behind a warm-up of %" PRIu64,
                 most, core >= 0 ? " there" : "", control->execution, control->warmup);
    else
        snprintf(why, 160, "no %smodel was executed %sby nrt_execute",
                 control->any_model ? "" : "chosen ", core >= 0 ? "there " : "");
}

/* Ends the request. Reports the requested executions that have not happened. */
void
mrd_request_model_end(const mrd_control *control)
{
    bool any = false;
    char why[160];

    atomic_store(&armed, false);
    for (int32_t core = 0; core < MRD_CONTROL_CORES && control->id != 0; core++) {
        bool had = false;

        for (size_t i = 0; i < n_models; i++)
            had = had || (models[i].core == core && models[i].had);
        if (control->core[core] && !had) {
            explain(control, core, why);
            mrd_request_refuse(control->id, core, why);
        }
    }
    for (size_t i = 0; i < n_models; i++)
        any = any || models[i].had;
    if (control->id != 0 && control->any_core && !any) {
        explain(control, -1, why);
        mrd_request_refuse(control->id, -1, why);
    }
    n_models = 0;
}
