/* Code that all kinds of requested captures share: the current request and its lock, the directory
 * of captures, and the notices that answer the agent. */
#include "capture/nrt/nrt_request_int.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture/nrt/nrt_call.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
mrd_control mrd_request_on;
static char top[MRD_REQUEST_DIR];

void
mrd_request_lock(void)
{
    pthread_mutex_lock(&lock);
    mrd_nrt_ours_begin();
}

void
mrd_request_unlock(void)
{
    mrd_nrt_ours_end();
    pthread_mutex_unlock(&lock);
}

char *
mrd_request_top(void)
{
    return top;
}

bool
mrd_request_wants(const mrd_control *control, int32_t core)
{
    return control->any_core || (core >= 0 && core < MRD_CONTROL_CORES && control->core[core]);
}

/* ---- Answers ---- */

void
mrd_request_say(const char *message, uint64_t id, int32_t core, const char *why, const char *dir)
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

void
mrd_request_refuse(uint64_t id, int32_t core, const char *why)
{
    mrd_request_say("device profile refused", id, core, why, NULL);
}

void
mrd_request_refuse_status(uint64_t id, int32_t core, const char *call, NRT_STATUS status)
{
    char why[120];

    snprintf(why, sizeof(why), "%s returned %s", call, mrd_nrt_status_name(status));
    mrd_request_refuse(id, core, why);
}

/* ---- Where files go ---- */

bool
mrd_request_own_folder(const char *dir)
{
    struct stat st;

    return (mkdir(dir, 0700) == 0 || errno == EEXIST) && lstat(dir, &st) == 0 &&
           S_ISDIR(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

void
mrd_request_forked(void)
{
    pthread_mutex_init(&lock, NULL);
    mrd_request_on.id = 0;
}
