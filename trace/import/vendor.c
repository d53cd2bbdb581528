#include "trace/import/vendor.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/obj.h"
#include "base/sys/confined.h"

static const char *const vendor_names[] = { "neuron-explorer", "neuron-profile" };

static bool
vendor_in(mrd_str dir, const char *name, mrd_buf *ret_path)
{
    mrd_buf_reset(ret_path);
    mrd_buf_str(ret_path, dir.len == 0 ? MRD_STR(".") : dir);
    mrd_buf_byte(ret_path, '/');
    mrd_buf_text(ret_path, name);
    return access(mrd_buf_cstr(ret_path), X_OK) == 0;
}

bool
mrd_vendor_find(const char *wanted, mrd_buf *ret_path)
{
    const char *path = getenv("PATH");

    if (wanted != NULL) {
        mrd_buf_reset(ret_path);
        mrd_buf_text(ret_path, wanted);
        return *wanted != '\0';
    }
    for (size_t i = 0; i < MRD_COUNT(vendor_names); i++) {
        for (const char *p = path; p != NULL && *p != '\0';) {
            size_t n = strcspn(p, ":");

            if (vendor_in((mrd_str){ p, n }, vendor_names[i], ret_path))
                return true;
            p += n + (p[n] == ':');
        }
        if (vendor_in(MRD_STR("/opt/aws/neuron/bin"), vendor_names[i], ret_path))
            return true;
    }
    return false;
}

mrd_err
mrd_vendor_convert(const char *tool, const char *dir, const char *into,
                   const mrd_vendor_limits *limits, mrd_why *why)
{
    char full[PATH_MAX], program[PATH_MAX], place[PATH_MAX];
    const char *const argv[] = { program, "view", "-d", full, "--output-format", "json", NULL };
    mrd_confined_options options = { .argv = argv,
                                     .dir = place,
                                     .time = limits->timeout_ms * MRD_MS,
                                     .memory = limits->memory,
                                     .disk = limits->disk,
                                     .remove = true };
    mrd_confined_result result;
    mrd_err err;

    /* The tool runs in another directory, so relative paths would be wrong there. */
    if (realpath(dir, full) == NULL || realpath(into, place) == NULL)
        return mrd_why_set(why, MRD_NOTFOUND, errno, "%s", dir);
    if (realpath(tool, program) == NULL)
        return mrd_why_set(why, MRD_NOTFOUND, errno, "vendor tool %s", tool);
    err = mrd_confined_run(&options, &result, why);
    return err == MRD_OK ? err : mrd_why_prefix(why, err, "converting %s", dir);
}
