#include "agent/rings/control_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/guard/safe_create.h"
#include "agent/rings/drain_int.h"
#include "base/hash.h"
#include "capture/nrt/nrt_control.h"

typedef enum { CONTROL, SETTINGS } what;

/* Opens the directory with the process's rings, and gets the name of its control or settings file.
 * Returns -1 if the process never had a ring. Directory and file names are stored in `pr`, because
 * the rings may be removed before the process ends. */
static int
place(const mrd_drain *drain, mrd_drain_process *process, what kind, const char **ret_file)
{
    proc *pr = (proc *) (void *) process; /* pub is the first member of proc */
    mrd_ring_name name;

    if (pr->control[0] == '\0' && pr->rings != NULL &&
        mrd_ring_name_parse(pr->rings->file_name, &name)) {
        mrd_ring_control_print(&name, pr->control);
        mrd_ring_settings_print(&name, pr->settings);
        pr->control_dir = pr->rings->dir;
    }
    *ret_file = kind == CONTROL ? pr->control : pr->settings;
    return pr->control[0] == '\0' ? -1 : mrd_discover_dir_fd(drain->discover, pr->control_dir);
}

static bool
write_whole(int fd, const char *text)
{
    size_t n = strlen(text);

    return write(fd, text, n) == (ssize_t) n && fchmod(fd, 0644) == 0;
}

static mrd_err
put(mrd_drain *drain, mrd_drain_process *process, what kind, const char *text, mrd_why *why)
{
    char fresh[MRD_RING_NAME_MAX + 32];
    const char *file;
    uint64_t number;
    int dir = place(drain, process, kind, &file), fd;
    bool good;

    if (dir < 0)
        return mrd_why_set(why, MRD_NOTFOUND, 0, "its rings are gone");
    if (strlen(text) > MRD_CONTROL_MAX)
        return mrd_why_set(why, MRD_LIMIT, 0, "it would be longer than %d bytes", MRD_CONTROL_MAX);
    /* a random name, because another user could create a directory with a predictable name */
    mrd_random(&number, sizeof(number));
    snprintf(fresh, sizeof(fresh), "%s.%016" PRIx64 ".new", file, number);
    fd = openat(dir, fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return mrd_why_set(why, MRD_IO, errno, "its control file cannot be made");
    good = write_whole(fd, text);
    close(fd);
    if (good && mrd_safe_create_replace(dir, fresh, file))
        return MRD_OK;
    mrd_why_set(why, MRD_IO, errno, "its control file %s cannot be written", file);
    (void) unlinkat(dir, fresh, 0);
    return MRD_IO;
}

mrd_err
mrd_control_file_put(mrd_drain *drain, mrd_drain_process *process, const char *text, mrd_why *why)
{
    return put(drain, process, CONTROL, text, why);
}

mrd_err
mrd_settings_file_put(mrd_drain *drain, mrd_drain_process *process, const char *text, mrd_why *why)
{
    return put(drain, process, SETTINGS, text, why);
}

static void
drop(mrd_drain *drain, mrd_drain_process *process, what kind)
{
    const char *file;
    int dir = place(drain, process, kind, &file);

    if (dir >= 0)
        (void) unlinkat(dir, file, 0);
}

void
mrd_control_file_drop(mrd_drain *drain, mrd_drain_process *process)
{
    drop(drain, process, CONTROL);
}

void
mrd_settings_file_drop(mrd_drain *drain, mrd_drain_process *process)
{
    drop(drain, process, SETTINGS);
}
