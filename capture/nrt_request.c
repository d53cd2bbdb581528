/*
 * Device profiles that a session asks for.
 *
 * The agent puts a control file beside the rings of this process; the thread of data source 1 looks at it
 * at each turn (no thread of its own), and answers by notices. What can be asked: model       the
 * first execution of each model on the chosen cores is profiled, by nrt_profile_start and _stop
 * around that very call, in the thread that makes it continuous  nrt_profile_continuous_start now,
 * _save for each chosen core when told, and _stop on-fail     nrt_inspect_begin_with_options, so
 * that the runtime writes one when an execution fails Nothing else of the runtime is called. A file
 * that vanishes is a request withdrawn.
 *
 * Trust: a control file counts only when root or the user of this process owns it and nobody else
 * may write it. Lock: `lock` guards everything here; it is not held while the application's
 * execution runs.
 */
#include "capture/nrt_hook.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "capture/nrt_control.h"
#include "capture/process.h"
#include "capture/ring_read.h"

#define MODELS_MAX  256 /* profiled by one request */
#define DIR_MAX_LEN 400
#define FILE_LEN    (DIR_MAX_LEN + 200)

typedef struct {
    uint64_t model;
    int32_t core;
    char file[FILE_LEN];
} profiled;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool armed; /* MRD_CONTROL_MODEL: executions have to look */
static mrd_control on;     /* id 0: none */
static char path[PATH_MAX], top[DIR_MAX_LEN];
static char folder[96], stamp[32]; /* of this request, below top */
static struct stat last;           /* of the file as it was read; st_ino 0: there was none */
static profiled done[MODELS_MAX];
static size_t n_done;
static nrt_profile_continuous_options_t *options;

/* ---- answers --------------------------------------------------------------------------------- */

/* core -1: of the request as a whole. */
static void
say(const char *message, uint64_t id, int32_t core, const char *why, const char *dir)
{
    mrd_rec_arg args[4];
    size_t n = 0;

    args[n++] = mrd_nrt_u64(MRD_NRT_KEY_request, id);
    if (core >= 0)
        args[n++] = mrd_nrt_i64(MRD_NRT_KEY_lnc_idx, core);
    if (why != NULL)
        args[n++] = mrd_nrt_text(MRD_NRT_KEY_why, why);
    if (dir != NULL)
        args[n++] = mrd_nrt_text(MRD_NRT_KEY_output_dir, dir);
    mrd_rec_notice(message, args, n);
}

static void
refuse(uint64_t id, int32_t core, const char *why)
{
    say("device profile refused", id, core, why, NULL);
}

static void
refuse_status(uint64_t id, int32_t core, const char *call, NRT_STATUS status)
{
    char why[120];

    snprintf(why, sizeof(why), "%s returned %s", call, mrd_nrt_status_name(status));
    refuse(id, core, why);
}

/* ---- the control file ------------------------------------------------------------------------ */

/* False: not there, not to be trusted, or nonsense; the two latter are told once per file. */
static bool
read_control(mrd_control *r)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    char text[MRD_CONTROL_MAX + 1];
    struct stat st;
    ssize_t n = -1;

    if (fd < 0)
        return false;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (st.st_uid == 0 || st.st_uid == geteuid()) &&
        (st.st_mode & (S_IWGRP | S_IWOTH)) == 0)
        n = read(fd, text, MRD_CONTROL_MAX);
    close(fd);
    if (n < 0) {
        mrd_rec_notice("a control file of another user was ignored", NULL, 0);
        return false;
    }
    text[n] = '\0';
    if (mrd_control_parse(text, r))
        return true;
    mrd_rec_notice("a control file that is not understood was ignored", NULL, 0);
    return false;
}

static void
make_path(void)
{
    const mrd_ring_owner_claim *claim = mrd_proc_claim();
    mrd_ring_name name = { .pid = claim->pid, .start_ticks = claim->start_ticks };
    char file[MRD_RING_NAME_MAX];

    memcpy(name.boot_id, claim->boot_id, sizeof(name.boot_id));
    mrd_ring_control_print(&name, file);
    if ((size_t) snprintf(path, sizeof(path), "%s/%s", mrd_proc_settings.ring_dir, file) >=
        sizeof(path))
        path[0] = '\0';
}

/* ---- where files go -------------------------------------------------------------------------- */

static bool
own_folder(const char *dir)
{
    struct stat st;

    return (mkdir(dir, 0700) == 0 || errno == EEXIST) && lstat(dir, &st) == 0 &&
           S_ISDIR(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* NULL, or why there is none. */
static const char *
make_top(void)
{
    static char why[DIR_MAX_LEN + 80];

    if ((size_t) snprintf(top, sizeof(top), "%s/meridian-profiles-%u",
                          mrd_proc_settings.device_profiles, (unsigned) geteuid()) >= sizeof(top))
        return "the path of MERIDIAN_DEVICE_PROFILES is too long";
    if (own_folder(top))
        return NULL;
    snprintf(why, sizeof(why), "%s cannot be made, or is not this user's alone", top);
    return why;
}

/* ---- one execution of a model ---------------------------------------------------------------- */

static bool
wanted(const mrd_control *r, int32_t core)
{
    return r->any_core || (core >= 0 && core < MRD_CONTROL_CORES && r->core[core]);
}

/* <top>/<instance>_pid_<pid>/<time>, as the vendor's tools lay it out. The agent removes folders that are
 * empty: they are made again before they are needed. */
static bool
make_folder(void)
{
    char dir[FILE_LEN];

    if (!own_folder(top))
        return false;
    snprintf(dir, sizeof(dir), "%s/%s", top, folder);
    if (!own_folder(dir))
        return false;
    snprintf(dir, sizeof(dir), "%s/%s/%s", top, folder, stamp);
    return own_folder(dir);
}

static void
arm_model(void)
{
    struct timespec now;

    if (MRD_NRT_REAL(nrt_profile_start) == NULL || MRD_NRT_REAL(nrt_profile_stop) == NULL) {
        refuse(on.id, -1, "this runtime library has no nrt_profile_start");
        on.id = 0;
        return;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(folder, sizeof(folder), "%s_pid_%" PRIu32, on.instance, mrd_proc_pid());
    snprintf(stamp, sizeof(stamp), "%lld%09ld", (long long) now.tv_sec, now.tv_nsec);
    if (!make_folder()) {
        refuse(on.id, -1, "the folder for its files cannot be made");
        on.id = 0;
        return;
    }
    n_done = 0;
    atomic_store_explicit(&armed, true, memory_order_release);
    say("device profiles armed", on.id, -1, NULL, top);
}

/* The place of this model's one profile; NULL when it is not wanted or has had it. */
static profiled *
claim_profile(uint64_t model, int32_t core, uint64_t *ret_id)
{
    profiled *p = NULL;

    pthread_mutex_lock(&lock);
    if (on.id != 0 && on.mode == MRD_CONTROL_MODEL && wanted(&on, core) && n_done < MODELS_MAX) {
        size_t i = 0;

        while (i < n_done && (done[i].model != model || done[i].core != core))
            i++;
        if (i == n_done) {
            p = &done[n_done++];
            p->model = model;
            p->core = core;
            snprintf(p->file, sizeof(p->file), "%s/%s/%s/profile_nc_%d_session_%zu.ntff", top,
                     folder, stamp, core < 0 ? 0 : core, i);
            *ret_id = on.id;
        }
    }
    pthread_mutex_unlock(&lock);
    return p;
}

bool
mrd_nrt_request_on(void)
{
    return atomic_load_explicit(&armed, memory_order_relaxed);
}

bool
mrd_nrt_request_before(nrt_model_t *model, uint64_t id, int32_t core, mrd_nrt_profiled *ret_profile)
{
    profiled *p = claim_profile(id, core, &ret_profile->request);
    NRT_STATUS status;

    if (p == NULL)
        return false;
    ret_profile->core = core;
    snprintf(ret_profile->file, sizeof(ret_profile->file), "%s", p->file);
    status = MRD_NRT_REAL(nrt_profile_start)(model, ret_profile->file);
    if (status != NRT_SUCCESS)
        refuse_status(ret_profile->request, core, "nrt_profile_start", status);
    return status == NRT_SUCCESS;
}

void
mrd_nrt_request_after(const mrd_nrt_profiled *profile)
{
    NRT_STATUS status;

    pthread_mutex_lock(&lock);
    (void) make_folder();
    pthread_mutex_unlock(&lock);
    status = MRD_NRT_REAL(nrt_profile_stop)(profile->file);
    if (status == NRT_SUCCESS)
        say("device profile written", profile->request, profile->core < 0 ? 0 : profile->core, NULL,
            top);
    else
        refuse_status(profile->request, profile->core, "nrt_profile_stop", status);
}

/* What was asked for by number and did not come. */
static void
end_model(void)
{
    atomic_store(&armed, false);
    for (int32_t core = 0; core < MRD_CONTROL_CORES; core++) {
        bool had = false;

        for (size_t i = 0; i < n_done; i++)
            had = had || done[i].core == core;
        if (on.core[core] && !had)
            refuse(on.id, core, "no model was executed there by nrt_execute");
    }
    if (on.any_core && n_done == 0)
        refuse(on.id, -1, "no model was executed by nrt_execute");
}

/* ---- continuous ------------------------------------------------------------------------------ */

static void
drop_options(void)
{
    if (options != NULL && MRD_NRT_REAL(nrt_profile_continuous_options_free) != NULL)
        MRD_NRT_REAL(nrt_profile_continuous_options_free)(options);
    options = NULL;
}

static void
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
        refuse(on.id, -1, "this runtime library is older than continuous device profiles");
    } else if ((status = make(&options)) != NRT_SUCCESS ||
               (status = set(options, top)) != NRT_SUCCESS) {
        refuse_status(on.id, -1, "nrt_profile_continuous_options", status);
    } else if ((status = start(options)) != NRT_SUCCESS) {
        refuse(on.id, -1, mrd_nrt_continuous_reason(status));
    } else {
        say("device profiles armed", on.id, -1, NULL, top);
        return;
    }
    drop_options();
    on.id = 0;
}

static void
save_core(int32_t core)
{
    NRT_STATUS status;

    (void) own_folder(top);
    status = MRD_NRT_REAL(nrt_profile_continuous_save)((uint32_t) core, options);
    if (status == NRT_SUCCESS)
        say("device profile written", on.id, core, NULL, top);
    else
        refuse_status(on.id, core, "nrt_profile_continuous_save", status);
}

static void
save_continuous(void)
{
    bool used[MRD_CONTROL_CORES], any = false;

    mrd_nrt_model_cores(used, MRD_CONTROL_CORES);
    for (int32_t core = 0; core < MRD_CONTROL_CORES; core++) {
        if (!wanted(&on, core) || (!used[core] && on.any_core))
            continue;
        any = true;
        if (used[core])
            save_core(core);
        else
            refuse(on.id, core, "no model was loaded there by number");
    }
    if (!any)
        refuse(on.id, -1, "no model was loaded on a core by number");
}

/* ---- when an execution fails ------------------------------------------------------------------
 */

/* The options of such a request; NULL when one of them is refused. */
static nrt_inspect_config_t *
on_fail_options(void)
{
    nrt_inspect_config_t *c = NULL;
    NRT_STATUS status;

    if (MRD_NRT_REAL(nrt_inspect_config_allocate)(&c) != NRT_SUCCESS)
        return NULL;
    status = MRD_NRT_REAL(nrt_inspect_config_set_output_dir)(c, top);
    for (uint32_t core = 0; core < MRD_CONTROL_CORES && status == NRT_SUCCESS && !on.any_core;
         core++)
        if (!on.core[core])
            status = MRD_NRT_REAL(nrt_inspect_config_set_capture_enabled_for_nc)(c, core, false);
    if (status == NRT_SUCCESS)
        status = MRD_NRT_REAL(nrt_inspect_config_set_activity)(c, "all", false);
    if (status == NRT_SUCCESS)
        status = MRD_NRT_REAL(nrt_inspect_config_set_activity)(c, "device_profile", true);
    if (status == NRT_SUCCESS)
        status = MRD_NRT_REAL(nrt_inspect_config_set_enable_inspect_on_fail)(c, true);
    if (status == NRT_SUCCESS)
        return c;
    MRD_NRT_REAL(nrt_inspect_config_free)(c);
    return NULL;
}

static void
arm_on_fail(void)
{
    static const mrd_nrt_fn needed[] = { MRD_NRT_nrt_inspect_config_allocate,
                                         MRD_NRT_nrt_inspect_config_free,
                                         MRD_NRT_nrt_inspect_config_set_output_dir,
                                         MRD_NRT_nrt_inspect_config_set_capture_enabled_for_nc,
                                         MRD_NRT_nrt_inspect_config_set_activity,
                                         MRD_NRT_nrt_inspect_config_set_enable_inspect_on_fail,
                                         MRD_NRT_nrt_inspect_begin_with_options,
                                         MRD_NRT_nrt_inspect_stop };
    nrt_inspect_config_t *c;
    NRT_STATUS status;

    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
        if (mrd_nrt_real(needed[i]) == NULL) {
            refuse(on.id, -1, "this runtime library is older than inspect with options");
            on.id = 0;
            return;
        }
    if ((c = on_fail_options()) == NULL) {
        refuse(on.id, -1, "the runtime refuses the options of inspect");
        on.id = 0;
        return;
    }
    status = MRD_NRT_REAL(nrt_inspect_begin_with_options)(c);
    MRD_NRT_REAL(nrt_inspect_config_free)(c);
    if (status == NRT_SUCCESS) {
        say("device profiles armed", on.id, -1, NULL, top);
        return;
    }
    if (status == NRT_INVALID)
        refuse(on.id, -1, "inspect is in use already, by the program or its environment");
    else
        refuse_status(on.id, -1, "nrt_inspect_begin_with_options", status);
    on.id = 0;
}

/* ---- requests -------------------------------------------------------------------------------- */

/* With the lock; save: keep what there is. */
static void
end_request(bool save)
{
    uint64_t id = on.id;

    if (id == 0)
        return;
    if (on.mode == MRD_CONTROL_MODEL) {
        end_model();
    } else if (on.mode == MRD_CONTROL_ON_FAIL) {
        (void) MRD_NRT_REAL(nrt_inspect_stop)();
    } else {
        if (save)
            save_continuous();
        (void) MRD_NRT_REAL(nrt_profile_continuous_stop)();
        drop_options();
    }
    on.id = 0;
    say("device profiles ended", id, -1, NULL, NULL);
}

static void
begin_request(const mrd_control *r)
{
    const char *why;

    if (on.id == r->id) { /* an agent that was started anew */
        say("device profiles armed", on.id, -1, NULL, top);
        return;
    }
    end_request(false);
    if ((why = make_top()) != NULL) {
        refuse(r->id, -1, why);
        return;
    }
    on = *r;
    if (r->mode == MRD_CONTROL_MODEL)
        arm_model();
    else if (r->mode == MRD_CONTROL_CONTINUOUS)
        arm_continuous();
    else
        arm_on_fail();
}

static void
carry_out(const mrd_control *r)
{
    if (r->verb == MRD_CONTROL_ARM)
        begin_request(r);
    else if (r->verb == MRD_CONTROL_STOP && on.id != r->id)
        say("device profiles ended", r->id, -1, NULL, NULL);
    else if (r->verb == MRD_CONTROL_STOP)
        end_request(true);
    else if (on.id == r->id && on.mode == MRD_CONTROL_CONTINUOUS)
        save_continuous();
}

void
mrd_nrt_request_poll(void)
{
    struct stat st;
    mrd_control r;

    pthread_mutex_lock(&lock);
    if (path[0] == '\0')
        make_path();
    if (path[0] == '\0' || lstat(path, &st) != 0) {
        if (last.st_ino != 0)
            end_request(false);
        last.st_ino = 0;
    } else if (st.st_ino != last.st_ino || st.st_mtim.tv_sec != last.st_mtim.tv_sec ||
               st.st_mtim.tv_nsec != last.st_mtim.tv_nsec) {
        last = st;
        if (read_control(&r))
            carry_out(&r);
    }
    pthread_mutex_unlock(&lock);
}

void
mrd_nrt_request_end(void)
{
    pthread_mutex_lock(&lock);
    end_request(true);
    pthread_mutex_unlock(&lock);
}

void
mrd_nrt_request_forked(void)
{
    pthread_mutex_init(&lock, NULL);
    atomic_store(&armed, false);
    on.id = 0;
    path[0] = '\0';
    last.st_ino = 0;
    options = NULL; /* the parent's */
}
