/* Reports which features the runtime of this process has. It reports once, when the runtime is open
 * and recording is on. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/sys/exports.h"
#include "capture/nrt/nrt_hook.h"

#define LIST_MAX 16384u /* maximum bytes of a list of names */

static void
add(mrd_buf *list, const char *name, const char *version)
{
    if (list->len + strlen(name) + strlen(version) + 2 < LIST_MAX)
        mrd_buf_fmt(list, "%s%s%s%s", list->len == 0 ? "" : ",", name, *version == '\0' ? "" : "@",
                    version);
}

/* Called for each function of the runtime. If this library does not know this version of the
 * function, adds the function to the list. */
static void
look(void *self, const char *name, const char *version)
{
    bool async = strncmp(name, "nrta_", 5) == 0;

    for (int i = 0; i < MRD_NRT_COUNT; i++) {
        const char *known = mrd_nrt_version((mrd_nrt_fn) i);

        if (strcmp(mrd_nrt_name((mrd_nrt_fn) i), name) == 0 &&
            (known == NULL || strcmp(known, version) == 0))
            return;
    }
    add(self, name, async ? version : "");
}

static void
add_types(mrd_buf *list)
{
    __typeof__(nrt_sys_trace_get_event_types) *all = MRD_NRT_REAL(nrt_sys_trace_get_event_types);
    __typeof__(nrt_sys_trace_free_event_types) *drop = MRD_NRT_REAL(nrt_sys_trace_free_event_types);
    const char **types = NULL;
    size_t n = 0;

    if (all == NULL || all(&types, &n) != NRT_SUCCESS)
        return;
    for (size_t i = 0; i < n; i++)
        add(list, types[i], "");
    if (drop != NULL)
        drop(types, n);
}

static void
version_text(char to[64])
{
    nrt_version_t version = { 0 };

    if (MRD_NRT_REAL(nrt_get_version) != NULL &&
        MRD_NRT_REAL(nrt_get_version)(&version, sizeof(version)) == NRT_SUCCESS)
        snprintf(to, 64, "%llu.%llu.%llu.%llu", (unsigned long long) version.rt_major,
                 (unsigned long long) version.rt_minor, (unsigned long long) version.rt_patch,
                 (unsigned long long) version.rt_maintenance);
    else
        snprintf(to, 64, "unknown");
}

/* Writes the instance type as EC2 names it, for example "trn2.48xlarge". Writes "" if the runtime
 * does not report the type, or if this list does not contain it yet. */
static void
instance_text(const nrt_instance_info_t *info, char to[64])
{
    static const char *const families[] = {
        [NRT_INSTANCE_INF1] = "inf1",           [NRT_INSTANCE_TRN1] = "trn1",
        [NRT_INSTANCE_TRN1N] = "trn1n",         [NRT_INSTANCE_INF2] = "inf2",
        [NRT_INSTANCE_TRN2] = "trn2",           [NRT_INSTANCE_TRN2N] = "trn2n",
        [NRT_INSTANCE_INF2E] = "inf2e",         [NRT_INSTANCE_TRN2P] = "trn2p",
        [NRT_INSTANCE_TRN2U] = "trn2u",         [NRT_INSTANCE_TRN2E] = "trn2e",
        [NRT_INSTANCE_TRN2EU] = "trn2eu",       [NRT_INSTANCE_TRN2AC] = "trn2ac",
        [NRT_INSTANCE_TRN2UAC] = "trn2uac",     [NRT_INSTANCE_TRN3] = "trn3",
        [NRT_INSTANCE_TRN3PDS98] = "trn3pds98",
    };
    static const char *const sizes[] = {
        [NRT_INSTANCE_SIZE_1XL] = "xlarge",    [NRT_INSTANCE_SIZE_2XL] = "2xlarge",
        [NRT_INSTANCE_SIZE_3XL] = "3xlarge",   [NRT_INSTANCE_SIZE_4XL] = "4xlarge",
        [NRT_INSTANCE_SIZE_6XL] = "6xlarge",   [NRT_INSTANCE_SIZE_8XL] = "8xlarge",
        [NRT_INSTANCE_SIZE_24XL] = "24xlarge", [NRT_INSTANCE_SIZE_32XL] = "32xlarge",
        [NRT_INSTANCE_SIZE_48XL] = "48xlarge",
    };

    to[0] = '\0';
    if (info->family < sizeof(families) / sizeof(families[0]) && families[info->family] != NULL &&
        info->size < sizeof(sizes) / sizeof(sizes[0]))
        snprintf(to, 64, "%s.%s", families[info->family], sizes[info->size]);
}

/* Writes labels with what the runtime reports about the node: instance type, architecture, and the
 * numbers of cores and logical cores. Leaves out what is unknown. */
static void
labels_text(char *to, size_t size)
{
    __typeof__(nrt_get_total_nc_count) *nc = MRD_NRT_REAL(nrt_get_total_nc_count);
    __typeof__(nrt_get_total_vnc_count) *vnc = MRD_NRT_REAL(nrt_get_total_vnc_count);
    nrt_instance_info_t info = { 0 };
    uint32_t cores = 0, logical = 0;
    char type[64];
    size_t n = 0;

    to[0] = '\0';
    if (MRD_NRT_REAL(nrt_get_instance_info) != NULL &&
        MRD_NRT_REAL(nrt_get_instance_info)(&info, sizeof(info)) == NRT_SUCCESS) {
        instance_text(&info, type);
        if (type[0] != '\0')
            n = (size_t) snprintf(to, size, "instance_type=%s,", type);
        n += (size_t) snprintf(to + n, size - n, "arch=%.15s", info.arch_name);
    }
    if (nc != NULL && vnc != NULL && nc(&cores) == NRT_SUCCESS && vnc(&logical) == NRT_SUCCESS)
        snprintf(to + n, size - n, "%score_count=%u,logical_core_count=%u", n > 0 ? "," : "", cores,
                 logical);
}

uint32_t
mrd_nrt_cores(uint32_t n)
{
    __typeof__(nrt_get_visible_nc_count) *count = MRD_NRT_REAL(nrt_get_visible_nc_count);
    uint32_t have = 0;

    return count != NULL && count(&have) == NRT_SUCCESS && have < n ? have : n;
}

void
mrd_nrt_features_report(void)
{
    void *init = mrd_nrt_real(MRD_NRT_nrt_init);
    mrd_buf types = { 0 }, unknown = { 0 };
    mrd_rec_arg args[5];
    char version[64], labels[192];
    Dl_info info;
    size_t n = 0;

    if (init == NULL || dladdr(init, &info) == 0 || info.dli_fname == NULL)
        return;
    version_text(version);
    add_types(&types);
    (void) mrd_exports_each(info.dli_fname, "nrt", look, &unknown, NULL);
    args[n++] = mrd_nrt_text(MRD_NRT_KEY_version, version);
    args[n++] = mrd_nrt_text(MRD_NRT_KEY_library, info.dli_fname);
    args[n++] = mrd_nrt_text(MRD_NRT_KEY_event_types, mrd_buf_cstr(&types));
    if (unknown.len > 0)
        args[n++] = mrd_nrt_text(MRD_NRT_KEY_unknown_functions, mrd_buf_cstr(&unknown));
    labels_text(labels, sizeof(labels));
    args[n++] = mrd_nrt_text(MRD_NRT_KEY_labels, labels);
    mrd_rec_notice("the Neuron runtime is open", args, n);
    mrd_buf_fini(&types);
    mrd_buf_fini(&unknown);
}
