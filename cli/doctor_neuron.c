/* cli/doctor_neuron.c - the vendor's side: driver, tools, runtime, and our library beside it. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/obj.h"
#include "cli/doctor.h"
#include "hw/child.h"

static void
say_backend(void *self, const char *name, bool present, const char *text)
{
    mrd_doctor *d = self;

    if (strcmp(name, "fake") == 0 && !present)
        return;
    if (present)
        mrd_doctor_say(d, MRD_DOCTOR_OK, NULL, "counters of %s: %s", name, text);
}

static bool
has_devices(const mrd_doctor *d)
{
    char path[1024];

    return access("/dev/neuron0", F_OK) == 0 ||
           access(mrd_doctor_sys(d, "/devices/virtual/neuron_device/neuron0", path), F_OK) == 0;
}

void
mrd_doctor_neuron(mrd_doctor *d)
{
    static const struct {
        const char *name, *what;
    } tools[] = { { "neuron-monitor", "core use, memory and errors of each runtime" },
                  { "neuron-ls", "which device has which cores" } };
    mrd_hw_options options = { .proc_root = d->agent->proc_root,
                               .sys_root = d->agent->sys_root,
                               .cgroup_root = d->agent->cgroup_root,
                               .monitor = d->agent->monitor };
    bool devices = has_devices(d);
    mrd_hw *hw = NULL;
    mrd_why why = { 0 };
    char path[1024];

    if (mrd_hw_open(&options, &hw, &why) == MRD_OK)
        mrd_hw_report(hw, say_backend, d);
    else
        mrd_doctor_say(d, MRD_DOCTOR_FAILED, NULL, "%s", why.text);
    mrd_hw_close(hw);
    if (!devices)
        mrd_doctor_say(d, MRD_DOCTOR_OK, NULL,
                       "no Neuron device here (or its driver, aws-neuronx-dkms, is not loaded): "
                       "only the host is measured");
    for (size_t i = 0; devices && i < MRD_COUNT(tools); i++) {
        const char *given = i == 0 ? d->agent->monitor : NULL;

        if (mrd_child_find(given, tools[i].name, path))
            mrd_doctor_say(d, MRD_DOCTOR_OK, NULL, "%s: %s", tools[i].name, path);
        else if (given == NULL || *given != '\0')
            mrd_doctor_say(d, MRD_DOCTOR_WARNING, "install aws-neuronx-tools",
                           "%s is not on PATH nor in /opt/aws/neuron/bin: %s stays unknown",
                           tools[i].name, tools[i].what);
    }
}

/* ---- Libraries ---- */

/* The file in one of the folders of a colon list. */
static bool
in_folders(const char *list, const char *name, char path[1024])
{
    while (list != NULL && *list != '\0') {
        size_t n = strcspn(list, ":");

        if (n > 0 && snprintf(path, 1024, "%.*s/%s", (int) n, list, name) < 1024 &&
            access(path, R_OK) == 0)
            return true;
        list += n + (list[n] == ':');
    }
    return false;
}

#define LIBRARY_FOLDERS                                                                            \
    "/opt/aws/neuron/lib:/usr/local/lib:/usr/lib:/usr/lib64:/lib:/usr/lib/x86_64-linux-gnu:/usr/"  \
    "lib/aarch64-linux-gnu"

void
mrd_doctor_runtime(mrd_doctor *d)
{
    char program[1024], folders[2200], path[1024];
    ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
    char *slash;

    if (in_folders(getenv("LD_LIBRARY_PATH"), "libnrt.so.1", path) ||
        in_folders(LIBRARY_FOLDERS, "libnrt.so.1", path))
        mrd_doctor_say(d, MRD_DOCTOR_OK, NULL, "the Neuron runtime is %s", path);
    else if (has_devices(d))
        mrd_doctor_say(d, MRD_DOCTOR_WARNING,
                       "fine when workloads bring it in their images; else install "
                       "aws-neuronx-runtime-lib",
                       "libnrt.so.1 is not in the usual folders of this node");
    else
        mrd_doctor_say(d, MRD_DOCTOR_OK, NULL, "no Neuron runtime here: annotations are recorded");
    program[n < 0 ? 0 : n] = '\0';
    for (int i = 0; i < 2 && (slash = strrchr(program, '/')) != NULL; i++)
        *slash = '\0'; /* …/bin/meridian to … */
    snprintf(folders, sizeof(folders), "%.1000s/lib:%.1000s/lib/meridian:%s", program, program,
             LIBRARY_FOLDERS);
    if (in_folders(folders, "libmeridian.so", path))
        mrd_doctor_say(d, MRD_DOCTOR_OK, NULL, "libmeridian.so for workloads is %s", path);
    else
        mrd_doctor_say(d, MRD_DOCTOR_WARNING,
                       "make install, or name it in LD_PRELOAD of the workload",
                       "libmeridian.so is not beside this program nor in the usual folders");
}
