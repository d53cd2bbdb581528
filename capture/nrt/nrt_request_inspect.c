/*
 * Runs the runtime's inspect (its own capture) for a session. The inspect captures either failed
 * executions or everything, from the start of the session to its stop. The session chooses the
 * activities, cores and event types, and the capture is tagged with the session's number.
 *
 * The runtime allows one inspect at a time. Before this library begins one, it finds the owner of
 * the current inspect: the environment (NEURON_RT_INSPECT_ENABLE), the program or its framework's
 * profiler, or this library.
 */
#include "capture/nrt/nrt_request_int.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture/nrt/nrt_types.h"

#define WHY_MAX 300

typedef enum { NOBODY, ENVIRONMENT, PROGRAM } holder;

static _Atomic int held_by; /* owner of the active inspect (a value of enum holder) */
/* which output the runtime keeps in the active inspect (mrd_nrt_kept) */
static _Atomic int kept;
static _Atomic bool continuous_held; /* the program makes continuous profiles */

/* ---- captures that the program itself makes -------------------------------------------------- */

void
mrd_nrt_inspect_opened(void)
{
    atomic_store(&kept, mrd_nrt_env_keeps());
    atomic_store(&held_by, mrd_nrt_env_keeps() != MRD_NRT_KEEPS_NOTHING ? ENVIRONMENT : NOBODY);
    atomic_store(&continuous_held, false);
}

void
mrd_nrt_inspect_begun(mrd_nrt_kept keeps)
{
    if (keeps == MRD_NRT_KEEPS_NOTHING)
        return;
    atomic_store(&kept, keeps);
    atomic_store(&held_by, PROGRAM);
}

mrd_nrt_kept
mrd_nrt_inspect_ended(void)
{
    atomic_store(&held_by, NOBODY);
    return (mrd_nrt_kept) atomic_exchange(&kept, MRD_NRT_KEEPS_NOTHING);
}

void
mrd_nrt_continuous_used(bool used)
{
    atomic_store(&continuous_held, used);
}

/* ---- options of a requested capture ---------------------------------------------------------- */

static bool
leave_out(void *options, const char *type)
{
    return MRD_NRT_REAL(nrt_inspect_config_set_capture_enabled_for_event_type_string)(
               options, type, false) == NRT_SUCCESS;
}

/* Writes an error message for an unknown activity, with a list of the activities that this runtime
 * has. */
static void
no_activity(const char *word, char why[WHY_MAX])
{
    __typeof__(nrt_inspect_config_get_all_activity_types) *all =
        MRD_NRT_REAL(nrt_inspect_config_get_all_activity_types);
    const char **names = NULL;
    size_t n = 0, at;

    at = (size_t) snprintf(why, WHY_MAX, "this runtime has no activity '%.60s' of inspect", word);
    if (all == NULL || all(&names, &n) != NRT_SUCCESS)
        return;
    for (size_t i = 0; i < n && at < WHY_MAX - 40; i++)
        at += (size_t) snprintf(why + at, WHY_MAX - at, "%s%.30s", i == 0 ? "; it has " : ", ",
                                names[i]);
    if (MRD_NRT_REAL(nrt_inspect_config_free_activity_types) != NULL)
        MRD_NRT_REAL(nrt_inspect_config_free_activity_types)(names, n);
}

/* Checks the requested activities. Returns false with a reason if the runtime lacks one of them. */
static bool
choose_activities(nrt_inspect_config_t *config, const char *list, char why[WHY_MAX])
{
    char copy[sizeof(((mrd_control *) 0)->activities)], *save = NULL;

    snprintf(copy, sizeof(copy), "%s", list);
    if (MRD_NRT_REAL(nrt_inspect_config_set_activity)(config, "all", false) != NRT_SUCCESS)
        return false;
    for (char *word = strtok_r(copy, ",", &save); word != NULL; word = strtok_r(NULL, ",", &save))
        if (MRD_NRT_REAL(nrt_inspect_config_set_activity)(config, word, true) != NRT_SUCCESS) {
            no_activity(word, why);
            return false;
        }
    return true;
}

/* Returns true if the list contains the word. */
static bool
lists(const char *list, const char *word)
{
    for (size_t n; *list != '\0'; list += n + (list[n] == ',')) {
        n = strcspn(list, ",");
        if (strlen(word) == n && memcmp(list, word, n) == 0)
            return true;
    }
    return false;
}

static bool
choose_warmup(nrt_inspect_config_t *config, const mrd_control *control, char why[WHY_MAX])
{
    __typeof__(nrt_inspect_config_set_device_profile_num_warmup) *set =
        MRD_NRT_REAL(nrt_inspect_config_set_device_profile_num_warmup);

    if (control->warmup == 0 ||
        (!lists(control->activities, "device_profile") && !lists(control->activities, "all")))
        return true;
    if (set == NULL) {
        snprintf(why, WHY_MAX,
                 "this runtime library is older than the warm-up of device profiles (SDK 2.33)");
        return false;
    }
    return set(config, (uint32_t) control->warmup) == NRT_SUCCESS;
}

static bool
choose_events(nrt_inspect_config_t *config, const mrd_control *control, char why[WHY_MAX])
{
    __typeof__(nrt_inspect_config_set_sys_trace_max_events_per_nc) *set =
        MRD_NRT_REAL(nrt_inspect_config_set_sys_trace_max_events_per_nc);

    if (control->events == 0)
        return true;
    if (set == NULL || set(config, control->events) != NRT_SUCCESS) {
        snprintf(why, WHY_MAX,
                 "this runtime library cannot keep %" PRIu64 " events of a core in an inspect",
                 control->events);
        return false;
    }
    return true;
}

static bool
choose_cores(nrt_inspect_config_t *config, const mrd_control *control)
{
    uint32_t n = control->any_core ? 0 : mrd_nrt_cores(MRD_CONTROL_CORES);

    for (uint32_t core = 0; core < n; core++)
        if (!control->core[core] && MRD_NRT_REAL(nrt_inspect_config_set_capture_enabled_for_nc)(
                                        config, core, false) != NRT_SUCCESS)
            return false;
    return true;
}

static bool
choose(nrt_inspect_config_t *config, const mrd_control *control, char why[WHY_MAX])
{
    bool inspect = control->mode == MRD_CONTROL_INSPECT;
    __typeof__(nrt_inspect_config_set_session_id) *tag =
        MRD_NRT_REAL(nrt_inspect_config_set_session_id);

    if (MRD_NRT_REAL(nrt_inspect_config_set_output_dir)(config, mrd_request_top()) != NRT_SUCCESS ||
        !choose_cores(config, control) ||
        !choose_activities(config, inspect ? control->activities : "device_profile", why))
        return false;
    if (tag != NULL && tag(config, control->tag) != NRT_SUCCESS)
        return false;
    if (!choose_warmup(config, control, why) || !choose_events(config, control, why))
        return false;
    if (inspect && control->types[0] != '\0' &&
        MRD_NRT_REAL(nrt_inspect_config_set_capture_enabled_for_event_type_string) == NULL) {
        snprintf(why, WHY_MAX, "this runtime library cannot choose event types of an inspect");
        return false;
    }
    if (inspect && mrd_nrt_types_choose(control->types, false, leave_out, config, why) != NULL)
        return false;
    return (!inspect ||
            MRD_NRT_REAL(nrt_inspect_config_set_enable_inspect)(config, true) == NRT_SUCCESS) &&
           ((inspect && !control->on_fail) ||
            MRD_NRT_REAL(nrt_inspect_config_set_enable_inspect_on_fail)(config, true) ==
                NRT_SUCCESS);
}

/* ---- beginning and ending a requested capture ------------------------------------------------ */

/* Returns NULL if an inspect may begin. Otherwise returns the reason: the runtime lacks functions,
 * or the environment or the program already began an inspect. */
static const char *
taken(void)
{
    static const mrd_nrt_fn needed[] = { MRD_NRT_nrt_inspect_config_allocate,
                                         MRD_NRT_nrt_inspect_config_free,
                                         MRD_NRT_nrt_inspect_config_set_output_dir,
                                         MRD_NRT_nrt_inspect_config_set_capture_enabled_for_nc,
                                         MRD_NRT_nrt_inspect_config_set_activity,
                                         MRD_NRT_nrt_inspect_config_set_enable_inspect,
                                         MRD_NRT_nrt_inspect_config_set_enable_inspect_on_fail,
                                         MRD_NRT_nrt_inspect_begin_with_options,
                                         MRD_NRT_nrt_inspect_stop };

    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
        if (mrd_nrt_real(needed[i]) == NULL)
            return "this runtime library is older than inspect with options";
    if (atomic_load(&held_by) == ENVIRONMENT)
        return "inspect is on already, by the environment of the program "
               "(NEURON_RT_INSPECT_ENABLE, NEURON_RT_INSPECT_ON_FAIL)";
    if (atomic_load(&held_by) == PROGRAM)
        return "inspect is on already, begun by the program or its framework's profiler";
    return NULL;
}

bool
mrd_request_inspect_arm(const mrd_control *control)
{
    nrt_inspect_config_t *config = NULL;
    const char *unfit = taken();
    char why[WHY_MAX] = "";
    NRT_STATUS status;

    if (unfit == NULL && MRD_NRT_REAL(nrt_inspect_config_allocate)(&config) != NRT_SUCCESS)
        unfit = "the runtime has no options of inspect to give";
    if (unfit == NULL && !choose(config, control, why))
        unfit = why[0] != '\0' ? why : "the runtime refuses the options of inspect";
    status = unfit == NULL ? MRD_NRT_REAL(nrt_inspect_begin_with_options)(config) : NRT_INVALID;
    if (config != NULL)
        MRD_NRT_REAL(nrt_inspect_config_free)(config);
    if (unfit != NULL)
        mrd_request_refuse(control->id, -1, unfit);
    else if (status != NRT_SUCCESS && atomic_load(&continuous_held))
        mrd_request_refuse(control->id, -1,
                           "continuous device profiling of the program is on, and the runtime "
                           "refuses both together");
    else if (status == NRT_INVALID)
        mrd_request_refuse(control->id, -1,
                           "inspect is in use already, by the program or its environment");
    else if (status != NRT_SUCCESS)
        mrd_request_refuse_status(control->id, -1, "nrt_inspect_begin_with_options", status);
    else
        mrd_request_say("device profiles armed", control->id, -1, NULL, mrd_request_top());
    return unfit == NULL && status == NRT_SUCCESS;
}

void
mrd_request_inspect_end(const mrd_control *control)
{
    NRT_STATUS status;

    (void) mrd_request_own_folder(mrd_request_top());
    status = MRD_NRT_REAL(nrt_inspect_stop)();
    if (status != NRT_SUCCESS)
        mrd_request_refuse_status(control->id, -1, "nrt_inspect_stop", status);
    else if (control->mode == MRD_CONTROL_INSPECT)
        mrd_request_say("device profile written", control->id, -1, NULL, mrd_request_top());
}
