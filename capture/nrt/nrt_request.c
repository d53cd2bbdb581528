/*
 * Makes the runtime write captures that a session requests.
 *
 * The agent puts a control file next to the rings of this process. The library's trace thread reads
 * the file regularly and answers with notices. The kinds of requests:
 *   model       profiles one execution of each chosen model on the chosen cores. It calls
 *               nrt_profile_start and nrt_profile_stop around that execution, in the thread that
 *               executes (nrt_request_model.c).
 *   continuous  calls nrt_profile_continuous_start at once, nrt_profile_continuous_save for each
 *               chosen core when the agent commands it, and nrt_profile_continuous_stop at the end.
 *   on-fail, inspect   call nrt_inspect_begin_with_options at once and nrt_inspect_stop at the end
 *               (nrt_request_inspect.c).
 * No other function of the runtime is called to capture. The request ends when its file is removed.
 *
 * A control file is used only if root or the user of this process owns it and no other user may
 * write it. mrd_request_lock protects the state of this file. The lock is not held while a model of
 * the application executes.
 */
#include "capture/nrt/nrt_request_int.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "capture/nrt/nrt_call.h"
#include "capture/nrt/nrt_file.h"
#include "capture/process.h"

static char path[PATH_MAX];
static struct stat last; /* state of the file when it was read; an st_ino of 0 means no file */
static nrt_profile_continuous_options_t *options;
/* True while a requested continuous or inspect capture is active. The library must end this capture
 * before the program begins its own. */
static _Atomic bool occupies;

/* ---- the control file ------------------------------------------------------------------------ */

/* Reads the control file. Returns false if the file is missing, not trusted or invalid. Reports an
 * untrusted or invalid file once. */
static bool
read_control(mrd_control *control)
{
    char text[MRD_CONTROL_MAX + 1];
    mrd_nrt_file_state state = mrd_nrt_file_read(path, text);

    if (state == MRD_NRT_FILE_READ && mrd_control_parse(text, control))
        return true;
    if (state == MRD_NRT_FILE_READ)
        mrd_rec_notice("a control file that is not understood was ignored", NULL, 0);
    else if (state == MRD_NRT_FILE_FOREIGN)
        mrd_rec_notice("a control file of another user was ignored", NULL, 0);
    return false;
}

/* ---- the directory of captures --------------------------------------------------------------- */

/* Makes the top directory of captures. Returns NULL, or the reason why the directory could not be
 * made. */
static const char *
make_top(void)
{
    static char why[MRD_REQUEST_DIR + 80];

    if ((size_t) snprintf(mrd_request_top(), MRD_REQUEST_DIR, "%s/meridian-profiles-%u",
                          mrd_proc_settings.device_profiles,
                          (unsigned) geteuid()) >= MRD_REQUEST_DIR)
        return "the path of MERIDIAN_DEVICE_PROFILES is too long";
    if (mrd_request_own_folder(mrd_request_top()))
        return NULL;
    snprintf(why, sizeof(why), "%s cannot be made, or is not this user's alone", mrd_request_top());
    return why;
}

/* ---- continuous profiles --------------------------------------------------------------------- */

static void
drop_options(void)
{
    if (options != NULL && MRD_NRT_REAL(nrt_profile_continuous_options_free) != NULL)
        MRD_NRT_REAL(nrt_profile_continuous_options_free)(options);
    options = NULL;
}

static bool
arm_continuous(void)
{
    __typeof__(nrt_profile_continuous_options_allocate) *make =
        MRD_NRT_REAL(nrt_profile_continuous_options_allocate);
    __typeof__(nrt_profile_continuous_options_set_output_dir) *set =
        MRD_NRT_REAL(nrt_profile_continuous_options_set_output_dir);
    __typeof__(nrt_profile_continuous_start) *start = MRD_NRT_REAL(nrt_profile_continuous_start);
    NRT_STATUS status;

    if (make == NULL || set == NULL || start == NULL ||
        MRD_NRT_REAL(nrt_profile_continuous_save) == NULL ||
        MRD_NRT_REAL(nrt_profile_continuous_stop) == NULL) {
        mrd_request_refuse(mrd_request_on.id, -1,
                           "this runtime library is older than continuous device profiles");
    } else if ((status = make(&options)) != NRT_SUCCESS ||
               (status = set(options, mrd_request_top())) != NRT_SUCCESS) {
        mrd_request_refuse_status(mrd_request_on.id, -1, "nrt_profile_continuous_options", status);
    } else if ((status = start(options)) != NRT_SUCCESS) {
        mrd_request_refuse(mrd_request_on.id, -1, mrd_nrt_continuous_reason(status));
    } else {
        mrd_request_say("device profiles armed", mrd_request_on.id, -1, NULL, mrd_request_top());
        return true;
    }
    drop_options();
    return false;
}

static void
save_core(int32_t core)
{
    NRT_STATUS status;

    (void) mrd_request_own_folder(mrd_request_top());
    status = MRD_NRT_REAL(nrt_profile_continuous_save)((uint32_t) core, options);
    if (status == NRT_SUCCESS)
        mrd_request_say("device profile written", mrd_request_on.id, core, NULL, mrd_request_top());
    else
        mrd_request_refuse_status(mrd_request_on.id, core, "nrt_profile_continuous_save", status);
}

static void
save_continuous(void)
{
    bool used[MRD_CONTROL_CORES], any = false;

    mrd_nrt_model_cores(used, MRD_CONTROL_CORES);
    for (int32_t core = 0; core < MRD_CONTROL_CORES; core++) {
        if (!mrd_request_wants(&mrd_request_on, core) || (!used[core] && mrd_request_on.any_core))
            continue;
        any = true;
        if (used[core])
            save_core(core);
        else
            mrd_request_refuse(mrd_request_on.id, core, "no model was loaded there by number");
    }
    if (!any)
        mrd_request_refuse(mrd_request_on.id, -1, "no model was loaded on a core by number");
}

/* ---- beginning and ending a request ---------------------------------------------------------- */

/* Ends the current request. With `save`, the captured data is kept. `why` is the reason if the
 * library itself ends the request, else NULL. */
static void
end_request(bool save, const char *why)
{
    uint64_t id = mrd_request_on.id;

    if (id == 0)
        return;
    if (mrd_request_on.mode == MRD_CONTROL_MODEL) {
        mrd_request_model_end(&mrd_request_on);
    } else if (mrd_request_on.mode != MRD_CONTROL_CONTINUOUS) {
        mrd_request_inspect_end(&mrd_request_on);
    } else {
        if (save)
            save_continuous();
        (void) MRD_NRT_REAL(nrt_profile_continuous_stop)();
        drop_options();
    }
    mrd_request_on.id = 0;
    atomic_store(&occupies, false);
    mrd_request_say(why == NULL ? "device profiles ended" : "device profiles given up", id, -1, why,
                    NULL);
}

static bool
arm(void)
{
    switch (mrd_request_on.mode) {
    case MRD_CONTROL_MODEL:
        return mrd_request_model_arm(&mrd_request_on);
    case MRD_CONTROL_CONTINUOUS:
        return arm_continuous();
    default:
        return mrd_request_inspect_arm(&mrd_request_on);
    }
}

static void
begin_request(const mrd_control *control)
{
    const char *why;

    if (mrd_request_on.id ==
        /* the same request again: the agent was restarted, or the choice of models changed */
        control->id) {
        bool models = strcmp(mrd_request_on.models, control->models) != 0;

        memcpy(mrd_request_on.models, control->models, sizeof(mrd_request_on.models));
        if (mrd_request_on.mode == MRD_CONTROL_MODEL && models)
            mrd_request_model_chosen();
        mrd_request_say("device profiles armed", mrd_request_on.id, -1, NULL, mrd_request_top());
        return;
    }
    end_request(false, NULL);
    if ((why = make_top()) != NULL) {
        mrd_request_refuse(control->id, -1, why);
        return;
    }
    mrd_request_on = *control;
    if (!arm())
        mrd_request_on.id = 0;
    atomic_store(&occupies, mrd_request_on.id != 0 && mrd_request_on.mode != MRD_CONTROL_MODEL);
}

static void
carry_out(const mrd_control *control)
{
    if (control->verb == MRD_CONTROL_ARM)
        begin_request(control);
    else if (control->verb == MRD_CONTROL_STOP && mrd_request_on.id != control->id)
        mrd_request_say("device profiles ended", control->id, -1, NULL, NULL);
    else if (control->verb == MRD_CONTROL_STOP)
        end_request(true, NULL);
    else if (mrd_request_on.id == control->id && mrd_request_on.mode == MRD_CONTROL_CONTINUOUS)
        save_continuous();
}

void
mrd_nrt_request_poll(void)
{
    mrd_control control;

    mrd_request_lock();
    if (path[0] == '\0')
        mrd_nrt_file_path(mrd_ring_control_print, path);
    if (mrd_nrt_file_changed(path, &last)) {
        if (last.st_ino == 0)
            end_request(false, NULL);
        else if (read_control(&control))
            carry_out(&control);
    }
    mrd_request_unlock();
}

void
mrd_nrt_request_end(void)
{
    mrd_request_lock();
    end_request(true, NULL);
    mrd_request_unlock();
}

void
mrd_nrt_request_yield(const char *call)
{
    char why[160];

    if (!atomic_load_explicit(&occupies, memory_order_relaxed))
        return;
    mrd_request_lock();
    if (mrd_request_on.id != 0 && mrd_request_on.mode != MRD_CONTROL_MODEL) {
        snprintf(why, sizeof(why),
                 "the program called %s: the runtime captures for one at a time, and the program "
                 "goes before",
                 call);
        end_request(true, why);
    }
    mrd_request_unlock();
}

void
mrd_nrt_request_forked(void)
{
    mrd_request_forked();
    /* executions need no longer check for a request, because the request was for the parent */
    mrd_request_model_end(&mrd_request_on);
    atomic_store(&occupies, false);
    path[0] = '\0';
    last = (struct stat){ 0 };
    options = NULL; /* the options belong to the parent */
}
