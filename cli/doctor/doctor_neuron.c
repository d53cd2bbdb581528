/* cli/doctor/doctor_neuron.c - checks the vendor's driver, tools and runtime, and libmeridian */
#define NRT_ASYNC_ABI 0
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/obj.h"
#include "base/sys/exports.h"
#include "base/sys/file.h"
#include "capture/nrt/nrta_abi.h"
#include "cli/doctor/doctor.h"
#include "hw/child.h"

static void
say_backend(void *self, const char *name, bool present, const char *text)
{
    mrd_doctor *doctor = self;

    if (present)
        mrd_doctor_say(doctor, MRD_DOCTOR_OK, NULL, "counters of %s: %s", name, text);
}

static bool
has_devices(const mrd_doctor *doctor)
{
    char path[1024];

    return access("/dev/neuron0", F_OK) == 0 ||
           access(mrd_doctor_sys(doctor, "/devices/virtual/neuron_device/neuron0", path), F_OK) ==
               0;
}

mrd_hw_options
mrd_doctor_hw(const mrd_agent_options *agent)
{
    return (mrd_hw_options){ .proc_root = agent->proc_root,
                             .sys_root = agent->sys_root,
                             .cgroup_root = agent->cgroup_root,
                             .monitor = agent->monitor };
}

void
mrd_doctor_neuron(mrd_doctor *doctor)
{
    static const struct {
        const char *name, *what;
    } tools[] = { { "neuron-monitor", "core use, memory and errors of each runtime" },
                  { "neuron-ls", "which device has which cores" } };
    mrd_hw_options options = mrd_doctor_hw(doctor->agent);
    bool devices = has_devices(doctor);
    mrd_hw *hw = NULL;
    mrd_why why = { 0 };
    char path[1024];

    if (mrd_hw_open(&options, &hw, &why) == MRD_OK)
        mrd_hw_report(hw, say_backend, doctor);
    else
        mrd_doctor_say(doctor, MRD_DOCTOR_FAILED, NULL, "%s", why.text);
    mrd_hw_close(hw);
    if (!devices)
        mrd_doctor_say(doctor, MRD_DOCTOR_OK, NULL,
                       "no Neuron device here (or its driver, aws-neuronx-dkms, is not loaded): "
                       "only the host is measured");
    for (size_t i = 0; devices && i < MRD_COUNT(tools); i++) {
        const char *given = i == 0 ? doctor->agent->monitor : NULL;

        if (mrd_child_find(given, tools[i].name, path))
            mrd_doctor_say(doctor, MRD_DOCTOR_OK, NULL, "%s: %s", tools[i].name, path);
        else if (given == NULL || *given != '\0')
            mrd_doctor_say(doctor, MRD_DOCTOR_WARNING, "install aws-neuronx-tools",
                           "%s is not on PATH nor in /opt/aws/neuron/bin: %s stays unknown",
                           tools[i].name, tools[i].what);
    }
}

/* ---- Libraries ---- */

/* Finds the file `name` in one of the directories of a colon-separated list. Stores its path. */
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

/* ---- Compatibility of runtime and driver ----------------------------------------------------- */

typedef struct {
    unsigned major, minor;
} release;

/* Parses the first two numbers of a version like "2.35.30.0". */
static bool
release_of(const char *text, release *ret)
{
    return sscanf(text, "%5u.%5u", &ret->major, &ret->minor) == 2;
}

static bool
before(release a, unsigned major, unsigned minor)
{
    return a.major < major || (a.major == major && a.minor < minor);
}

/* Gets the runtime's version from its file name, such as libnrt.so.2.35.30.0. */
static bool
runtime_release(const char *path, char text[64], release *ret)
{
    char real[PATH_MAX];
    const char *at;

    if (realpath(path, real) == NULL || (at = strstr(real, "libnrt.so.")) == NULL)
        return false;
    snprintf(text, 64, "%.63s", at + strlen("libnrt.so."));
    return release_of(text, ret);
}

/* Reports what the release notes say about the compatibility of runtime and driver. */
static void
say_fit(mrd_doctor *doctor, const char *path)
{
    char file[1024], driver_text[64] = "", runtime_text[64] = "";
    release driver, runtime;

    if (!mrd_file_line(mrd_doctor_sys(doctor, "/module/neuron/version", file), driver_text,
                       sizeof(driver_text)) ||
        !release_of(driver_text, &driver) || !runtime_release(path, runtime_text, &runtime))
        return;
    if (!before(runtime, 2, 32) && before(driver, 2, 27))
        mrd_doctor_say(
            doctor, MRD_DOCTOR_FAILED, "update aws-neuronx-dkms",
            "runtime %s does not start on driver %s: from 2.32 on it requires driver 2.27 or newer",
            runtime_text, driver_text);
    else if (!before(driver, 2, 29) && before(runtime, 2, 33))
        mrd_doctor_say(doctor, MRD_DOCTOR_FAILED, "update aws-neuronx-runtime-lib",
                       "runtime %s does not start on driver %s: from 2.29 on the driver requires "
                       "runtime 2.33 or newer",
                       runtime_text, driver_text);
    else if (!before(runtime, 2, 35) && before(driver, 2, 31))
        mrd_doctor_say(doctor, MRD_DOCTOR_WARNING, "update aws-neuronx-dkms",
                       "runtime %s on driver %s: profiles of transfers, casts and computations of "
                       "tensors require driver 2.31",
                       runtime_text, driver_text);
    else
        mrd_doctor_say(doctor, MRD_DOCTOR_OK, NULL, "runtime %s and driver %s fit each other",
                       runtime_text, driver_text);
}

/* ---- Functions that libmeridian does not know ------------------------------------------------ */

typedef struct {
    mrd_buf names;
    unsigned n;
} unknown_list;

static void
look_at_function(void *self, const char *name, const char *version)
{
    static const struct {
        const char *name, *version;
    } known[] = {
#define ROW_R(ret, name, params, args)  { #name, NULL },
#define ROW_V(name, params, args)       { #name, NULL },
#define ROW2_R(ret, name, params, args) { #name, NRTA2_VERSION },
#define ROW2_V(name, params, args)      { #name, NRTA2_VERSION },
#define ROW3_R(ret, name, params, args) { #name, NRTA3_VERSION },
#define ROW3_V(name, params, args)      { #name, NRTA3_VERSION },
        NRT_FUNCTIONS(ROW_R, ROW_V) NRTA2_FUNCTIONS(ROW2_R, ROW2_V, nrta_)
            NRTA3_FUNCTIONS(ROW3_R, ROW3_V, nrta_)
    };
    unknown_list *list = self;

    for (size_t i = 0; i < MRD_COUNT(known); i++)
        if (strcmp(known[i].name, name) == 0 &&
            (known[i].version == NULL || strcmp(known[i].version, version) == 0))
            return;
    if (list->n++ < 64)
        mrd_buf_fmt(&list->names, "%s%s%s%s", list->names.len == 0 ? "" : ", ", name,
                    *version == '\0' || strncmp(name, "nrta_", 5) != 0 ? "" : "@",
                    strncmp(name, "nrta_", 5) != 0 ? "" : version);
}

static void
say_unknown(mrd_doctor *doctor, const char *path)
{
    unknown_list list = { 0 };

    if (mrd_exports_each(path, "nrt", look_at_function, &list, NULL) == MRD_OK && list.n > 0)
        mrd_doctor_say(
            doctor, MRD_DOCTOR_WARNING,
            "their calls run as they are, but are not recorded; a newer Meridian may know "
            "them",
            "%u functions of %s are not known here: %s%s", list.n, path, mrd_buf_cstr(&list.names),
            list.n > 64 ? ", ..." : "");
    mrd_buf_fini(&list.names);
}

void
mrd_doctor_runtime(mrd_doctor *doctor)
{
    char program[1024], folders[2200], path[1024];
    ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
    char *slash;

    if (in_folders(getenv("LD_LIBRARY_PATH"), "libnrt.so.1", path) ||
        in_folders(LIBRARY_FOLDERS, "libnrt.so.1", path)) {
        mrd_doctor_say(doctor, MRD_DOCTOR_OK, NULL, "the Neuron runtime is %s", path);
        say_fit(doctor, path);
        say_unknown(doctor, path);
    } else if (has_devices(doctor))
        mrd_doctor_say(doctor, MRD_DOCTOR_WARNING,
                       "fine when workloads bring it in their images; else install "
                       "aws-neuronx-runtime-lib",
                       "libnrt.so.1 is not in the usual folders of this node");
    else
        mrd_doctor_say(doctor, MRD_DOCTOR_OK, NULL,
                       "no Neuron runtime here: annotations are recorded");
    program[n < 0 ? 0 : n] = '\0';
    for (int i = 0; i < 2 && (slash = strrchr(program, '/')) != NULL; i++)
        /* removes the last two components of the program's path: the program's name and bin */
        *slash = '\0';
    snprintf(folders, sizeof(folders), "%.1000s/lib:%.1000s/lib/meridian:%s", program, program,
             LIBRARY_FOLDERS);
    if (in_folders(folders, "libmeridian.so", path) ||
        in_folders(folders, "libmeridian.so.0", path))
        mrd_doctor_say(doctor, MRD_DOCTOR_OK, NULL, "libmeridian.so for workloads is %s", path);
    else
        mrd_doctor_say(doctor, MRD_DOCTOR_WARNING,
                       "make install, or name it in LD_PRELOAD of the workload",
                       "libmeridian.so is not beside this program nor in the usual folders");
}
