#include "trace/model/activity.h"

#include <string.h>
#include <strings.h>

#include "base/obj.h"

static bool
is_any(mrd_str text, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (mrd_str_is(text, words[i]))
            return true;
    }
    return false;
}

static bool
starts_any(mrd_str text, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(words[i]);

        if (text.len >= len && strncasecmp(text.p, words[i], len) == 0)
            return true;
    }
    return false;
}

mrd_activity
mrd_activity_of(mrd_str category)
{
    static const char *const device[] = { "kernel",          "gpu_memcpy", "gpu_memset",
                                          "Kernel",          "Memcpy",     "Memset",
                                          "mtia_ccp_events", "hpu_op",     "collective_comm" };
    static const char *const beside[] = { "gpu_user_annotation", "cuda_profiler_range",
                                          "cuda_sync",           "overhead",
                                          "gpu_pm_counter",      "mtia_counters" };
    static const char *const host[] = {
        "cpu_op",   "user_annotation", "python_function", "cpu_instant_event",
        "Operator", "Runtime",         "PythonFunction",  "UserAnnotation",
        "Trace",    "mtia_workloadd",  "mtia_insight"
    };

    if (is_any(category, device, MRD_COUNT(device)))
        return MRD_ACTIVITY_DEVICE;
    if (is_any(category, beside, MRD_COUNT(beside)))
        return MRD_ACTIVITY_BESIDE;
    if (is_any(category, host, MRD_COUNT(host)) || mrd_str_ends(category, "_runtime") ||
        mrd_str_ends(category, "_driver"))
        return MRD_ACTIVITY_HOST;
    return MRD_ACTIVITY_UNKNOWN;
}

/* Parses the decimal number at p. Returns false if there are no digits or too many. */
static bool
number_at(const char *p, const char *end, int64_t *ret_number)
{
    int64_t v = 0;
    size_t n = 0;

    for (; p < end && *p >= '0' && *p <= '9' && n < 10; p++, n++)
        v = v * 10 + (*p - '0');
    if (n == 0 || n == 10)
        return false;
    *ret_number = v;
    return true;
}

/* Returns true if the label contains a device as XLA names it, such as "/device:TPU:0". Sets
 * *ret_number to the device's number. A kind of device that ends in "CPU" does not count. */
static bool
xla_device(mrd_str label, int64_t *ret_number)
{
    static const char mark[] = "device:";
    const char *at = memmem(label.p, label.len, mark, sizeof(mark) - 1), *end, *colon;

    if (at == NULL)
        return false;
    at += sizeof(mark) - 1;
    end = label.p + label.len;
    colon = memchr(at, ':', (size_t) (end - at));
    if (colon == NULL || colon - at < 2 ||
        (colon - at >= 3 && strncasecmp(colon - 3, "CPU", 3) == 0))
        return false;
    return number_at(colon + 1, end, ret_number);
}

bool
mrd_activity_is_device(mrd_str label, int64_t *ret_number)
{
    static const char *const kinds[] = { "GPU",  "TPU", "NPU", "XPU", "HPU",    "IPU",   "MLU",
                                         "MTIA", "DCU", "GCU", "HIP", "CUDA",   "MUSA",  "ROCM",
                                         "NC",   "PPU", "VPU", "AIU", "NEURON", "DEVICE" };

    for (size_t i = 0; i < MRD_COUNT(kinds); i++) {
        size_t len = strlen(kinds[i]);

        if (label.len > len + 1 && strncasecmp(label.p, kinds[i], len) == 0 &&
            strchr(" :/#_", label.p[len]) != NULL)
            return number_at(label.p + len + 1, label.p + label.len, ret_number);
    }
    return xla_device(label, ret_number);
}

bool
mrd_activity_is_overlay(mrd_str line)
{
    static const char *const lines[] = { "Steps",         "XLA Modules",           "XLA TraceMe",
                                         "Framework Ops", "Framework Name Scope",  "Source code",
                                         "Launch Stats",  "TensorFlow Name Scope", "TensorFlow Ops",
                                         "Host Offload" };

    return starts_any(line, lines, MRD_COUNT(lines));
}
