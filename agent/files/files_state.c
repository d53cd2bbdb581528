/* agent/files/files_state.c - keeps track of pending work: files that are not sent yet, and
 * searches of directories. */
#include <string.h>

#include "agent/files/files_int.h"
#include "trace/import/capture_names.h"
#include "trace/model/catalog.h" /* for MRD_NONE */

bool
mrd_files_owner(const char *rel, mrd_str *ret_instance, int64_t *ret_pid)
{
    mrd_str path = mrd_str_of(rel), rest;

    for (;;) {
        const char *slash = memrchr(path.p, '/', path.len);
        size_t start = slash == NULL ? 0 : (size_t) (slash - path.p) + 1;

        if (mrd_capture_split((mrd_str){ path.p + start, path.len - start }, ret_instance, ret_pid,
                              &rest))
            return true;
        if (start == 0)
            return false;
        path.len = start - 1;
    }
}

void
mrd_files_names(const char *rel, int64_t *ret_pid, int64_t *ret_nc)
{
    const char *base = strrchr(rel, '/');
    mrd_str instance;

    base = base == NULL ? rel : base + 1;
    *ret_pid = MRD_NONE;
    (void) mrd_files_owner(rel, &instance, ret_pid);
    *ret_nc = mrd_capture_number(mrd_str_of(base), "_vnc_");
    if (*ret_nc == MRD_NONE)
        *ret_nc = mrd_capture_number(mrd_str_of(base), "_nc_");
}

void
mrd_files_wait(mrd_files *files, file *one)
{
    files->stats.waiting++;
    files->dirs[one->dir].waiting++;
    files->pick_at = (mrd_local_ns){ 0 };
}

void
mrd_files_finish(mrd_files *files, file *one, file_state state)
{
    one->state = state;
    files->stats.waiting--;
    files->dirs[one->dir].waiting--;
}

bool
mrd_files_lost(mrd_files *files, file *one)
{
    mrd_files_finish(files, one, one->had ? IGNORED : GIVEN_UP);
    files->stats.failed += !one->had;
    return !one->had;
}

bool
mrd_files_is_unread(const file *one)
{
    return one->is_trace && !one->told;
}

void
mrd_files_judge_again(mrd_files *files)
{
    for (size_t i = 0; i < files->n; i++) {
        if (files->files[i].state != EARLIER && files->files[i].state != DONE &&
            files->files[i].state != REFUSED)
            continue;
        files->files[i].state = SEEN;
        mrd_files_wait(files, &files->files[i]);
    }
}

void
mrd_files_look(mrd_files *files)
{
    for (unsigned i = 0; i < MRD_FILES_DIRS; i++)
        files->dirs[i].look_at = (mrd_local_ns){ 0 };
}
