#include "capture/nrt_settings.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture/process.h"
#include "capture/record.h"
#include "capture/ring_read.h"

bool
mrd_nrt_settings_parse(char *text, mrd_nrt_settings *s)
{
    char *save = NULL;

    *s = (mrd_nrt_settings){ .any_core = true, .recording = -1 };
    for (char *line = strtok_r(text, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save)) {
        char *eq = strchr(line, '=');

        if (eq == NULL)
            return false;
        *eq++ = '\0';
        if (strcmp(line, "trace_cores") == 0) {
            if (!mrd_control_cores(eq, &s->any_core, s->core))
                return false;
        } else if (strcmp(line, "trace_types") == 0) {
            if (strlen(eq) >= sizeof(s->types))
                return false;
            memcpy(s->types, eq, strlen(eq) + 1);
        } else if (strcmp(line, "recording") == 0) {
            s->recording = strcmp(eq, "on") == 0 ? 1 : strcmp(eq, "off") == 0 ? 0 : -1;
        }
    }
    return true;
}

static void
make_path(char path[PATH_MAX])
{
    const mrd_ring_owner_claim *claim = mrd_proc_claim();
    mrd_ring_name name = { .pid = claim->pid, .start_ticks = claim->start_ticks };
    char file[MRD_RING_NAME_MAX];

    memcpy(name.boot_id, claim->boot_id, sizeof(name.boot_id));
    mrd_ring_settings_print(&name, file);
    if ((size_t) snprintf(path, PATH_MAX, "%s/%s", mrd_proc_settings.ring_dir, file) >= PATH_MAX)
        path[0] = '\0';
}

static bool
read_file(const char *path, mrd_nrt_settings *s)
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
    if (n < 0)
        return false;
    text[n] = '\0';
    return mrd_nrt_settings_parse(text, s);
}

bool
mrd_nrt_settings_poll(mrd_nrt_settings_seen *seen, mrd_nrt_settings *settings)
{
    mrd_nrt_settings s = { .any_core = true, .recording = -1 };
    char path[PATH_MAX];
    struct stat st;

    make_path(path);
    if (path[0] == '\0' || lstat(path, &st) != 0)
        st = (struct stat){ 0 };
    if (st.st_ino == seen->last.st_ino && st.st_mtim.tv_sec == seen->last.st_mtim.tv_sec &&
        st.st_mtim.tv_nsec == seen->last.st_mtim.tv_nsec)
        return false;
    seen->last = st;
    if (st.st_ino != 0 && !read_file(path, &s)) {
        mrd_rec_notice("a settings file that is not the agent's, or not understood, was ignored",
                       NULL, 0);
        return false;
    }
    if (memcmp(&s, settings, sizeof(s)) == 0)
        return false;
    memcpy(settings, &s, sizeof(s));
    return true;
}
