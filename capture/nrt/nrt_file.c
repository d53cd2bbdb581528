#include "capture/nrt/nrt_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "capture/process.h"

void
mrd_nrt_file_path(void (*print)(const mrd_ring_name *name, char *text), char path[PATH_MAX])
{
    const mrd_ring_owner_claim *claim = mrd_proc_claim();
    mrd_ring_name name = { .pid = claim->pid, .start_ticks = claim->start_ticks };
    char file[MRD_RING_NAME_MAX];

    memcpy(name.boot_id, claim->boot_id, sizeof(name.boot_id));
    print(&name, file);
    if ((size_t) snprintf(path, PATH_MAX, "%s/%s", mrd_proc_settings.ring_dir, file) >= PATH_MAX)
        path[0] = '\0';
}

bool
mrd_nrt_file_changed(const char *path, struct stat *last)
{
    struct stat st;

    if (path[0] == '\0' || lstat(path, &st) != 0)
        st = (struct stat){ 0 };
    if (st.st_ino == last->st_ino && st.st_mtim.tv_sec == last->st_mtim.tv_sec &&
        st.st_mtim.tv_nsec == last->st_mtim.tv_nsec)
        return false;
    *last = st;
    return true;
}

mrd_nrt_file_state
mrd_nrt_file_read(const char *path, char ret_text[MRD_CONTROL_MAX + 1])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat st;
    ssize_t n = -1;

    if (fd < 0)
        return MRD_NRT_FILE_GONE;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (st.st_uid == 0 || st.st_uid == geteuid()) &&
        (st.st_mode & (S_IWGRP | S_IWOTH)) == 0)
        n = read(fd, ret_text, MRD_CONTROL_MAX);
    close(fd);
    ret_text[n < 0 ? 0 : n] = '\0';
    return n < 0 ? MRD_NRT_FILE_FOREIGN : MRD_NRT_FILE_READ;
}
