/* cli/doctor/doctor_agent.c - finds the agents that run on this node, and takes the settings of one
 * of them */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/obj.h"
#include "base/sys/file.h"
#include "cli/doctor/doctor.h"

#define TEXT_MAX  (256 << 10) /* maximum bytes of an agent's options, or of its variables */
#define WORDS_MAX 1024

bool
mrd_doctor_is_agent(const char *proc, const char *pid)
{
    char path[1024], comm[64];

    snprintf(path, sizeof(path), "%s/%s/comm", proc, pid);
    /* the kernel keeps 15 characters of a name, so "meridian-agent" (14 characters) is complete */
    return mrd_file_line(path, comm, sizeof(comm)) && strcmp(comm, "meridian-agent") == 0;
}

/* Gets the process id of the only agent that runs. Returns false if none or several run. */
static bool
find_agent(char pid[24])
{
    DIR *dir = opendir("/proc");
    const struct dirent *entry;
    unsigned count = 0;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9' ||
            !mrd_doctor_is_agent("/proc", entry->d_name))
            continue;
        snprintf(pid, 24, "%.20s", entry->d_name);
        count++;
    }
    if (dir != NULL)
        closedir(dir);
    return count == 1;
}

/* Reads texts that end with NUL, such as the file environ. */
static bool
read_texts(const char *pid, const char *name, mrd_buf *ret)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%.20s/%s", pid, name);
    return mrd_file_read(path, TEXT_MAX, ret, NULL) == MRD_OK && *mrd_buf_cstr(ret) != '\0';
}

/* Sets the agent's variables in this process. Variables that are already set keep their value. */
static void
take_variables(const mrd_buf *texts)
{
    const char *at = (const char *) texts->p, *end = at + texts->len;

    for (; at < end; at += strlen(at) + 1) {
        const char *eq = strchr(at, '=');
        char name[128];

        if (strncmp(at, "MERIDIAN_", 9) != 0 || eq == NULL || (size_t) (eq - at) >= sizeof(name))
            continue;
        snprintf(name, sizeof(name), "%.*s", (int) (eq - at), at);
        (void) setenv(name, eq + 1, 0);
    }
}

mrd_doctor_source
mrd_doctor_take(const mrd_opt *table, size_t rows, void *settings)
{
    mrd_buf options = { 0 }, variables = { 0 };
    char pid[24], cwd[64];
    char *words[WORDS_MAX];
    mrd_strlist rest = { 0 };
    mrd_why unused = { 0 };
    mrd_doctor_source source = MRD_DOCTOR_OWN;
    int n = 0;

    if (!find_agent(pid))
        return source;
    source = MRD_DOCTOR_HIDDEN;
    if (read_texts(pid, "environ", &variables) && read_texts(pid, "cmdline", &options)) {
        char *at = (char *) options.p, *end = at + options.len;

        take_variables(&variables);
        for (; at < end && n < WORDS_MAX; at += strlen(at) + 1)
            words[n++] = at;
        snprintf(cwd, sizeof(cwd), "/proc/%.20s/cwd", pid);
        /* Paths in the agent's options are relative to its working directory. */
        if (mrd_conf_env(table, rows, settings, &unused) == MRD_OK &&
            mrd_conf_args(table, rows, settings, n, words, false, &rest, &unused) == MRD_OK &&
            chdir(cwd) == 0)
            source = MRD_DOCTOR_AGENT;
    }
    mrd_strlist_fini(&rest);
    mrd_buf_fini(&options);
    mrd_buf_fini(&variables);
    return source;
}
