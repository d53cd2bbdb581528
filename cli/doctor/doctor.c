/* cli/doctor/doctor.c - helpers of the checks: findings, paths below the agent's roots, tests of
 * directories */
#include "cli/doctor/doctor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

static const char *const levels[MRD_DOCTOR_LEVELS] = { "ok", "warning", "failed" };

const char *
mrd_doctor_level_text(mrd_doctor_level level)
{
    return levels[level];
}

void
mrd_doctor_say(mrd_doctor *doctor, mrd_doctor_level level, const char *fix, const char *format, ...)
{
    mrd_json *json = mrd_json_new_object();
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    doctor->counts[level]++;
    mrd_json_set(json, "check", mrd_json_new_str(doctor->check));
    mrd_json_set(json, "level", mrd_json_new_str(levels[level]));
    mrd_json_set(json, "message", mrd_json_new_str(text));
    if (fix != NULL)
        mrd_json_set(json, "fix", mrd_json_new_str(fix));
    mrd_json_append(doctor->findings, json);
}

const char *
mrd_doctor_proc(const mrd_doctor *doctor, const char *rest, char to[1024])
{
    snprintf(to, 1024, "%s%s",
             doctor->agent->proc_root == NULL ? "/proc" : doctor->agent->proc_root, rest);
    return to;
}

const char *
mrd_doctor_sys(const mrd_doctor *doctor, const char *rest, char to[1024])
{
    snprintf(to, 1024, "%s%s", doctor->agent->sys_root == NULL ? "/sys" : doctor->agent->sys_root,
             rest);
    return to;
}

bool
mrd_doctor_writable(mrd_doctor *doctor, const char *what, const char *dir, int64_t *ret_free)
{
    struct statvfs fs;
    char path[1024];
    int fd;

    if (statvfs(dir, &fs) != 0) {
        mrd_doctor_say(doctor, MRD_DOCTOR_FAILED, "make it, or name another", "%s %s: %s", what,
                       dir, strerror(errno));
        return false;
    }
    *ret_free = (int64_t) fs.f_bavail * (int64_t) fs.f_frsize;
    snprintf(path, sizeof(path), "%s/.meridian-doctor-XXXXXX", dir);
    if ((fd = mkstemp(path)) < 0) {
        mrd_doctor_say(doctor, MRD_DOCTOR_FAILED,
                       "give its owner or mode to the user that the agent runs as",
                       "%s %s cannot be written to: %s", what, dir, strerror(errno));
        return false;
    }
    close(fd);
    unlink(path);
    return true;
}
