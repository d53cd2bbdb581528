/* Reports the abilities of this process's runtime once, when it is open and recording is on. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/sys/exports.h"
#include "capture/nrt/nrt_hook.h"

#define LIST_MAX 16384u /* bytes of one list */

static void
add(mrd_buf *list, const char *name, const char *version)
{
    if (list->len + strlen(name) + strlen(version) + 2 < LIST_MAX)
        mrd_buf_fmt(list, "%s%s%s%s", list->len == 0 ? "" : ",", name, *version == '\0' ? "" : "@",
                    version);
}

/* Reports a function that the tables do not have, or not in this version. */
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
    nrt_version_t v = { 0 };

    if (MRD_NRT_REAL(nrt_get_version) != NULL &&
        MRD_NRT_REAL(nrt_get_version)(&v, sizeof(v)) == NRT_SUCCESS)
        snprintf(to, 64, "%llu.%llu.%llu.%llu", (unsigned long long) v.rt_major,
                 (unsigned long long) v.rt_minor, (unsigned long long) v.rt_patch,
                 (unsigned long long) v.rt_maintenance);
    else
        snprintf(to, 64, "unknown");
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
    mrd_rec_arg args[4];
    char version[64];
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
    mrd_rec_notice("the Neuron runtime is open", args, n);
    mrd_buf_fini(&types);
    mrd_buf_fini(&unknown);
}
