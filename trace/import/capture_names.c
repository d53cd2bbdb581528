#include "trace/import/capture_names.h"

#include <string.h>

#include "base/num.h"
#include "base/obj.h"
#include "trace/model/catalog.h"

int64_t
mrd_capture_number(mrd_str name, const char *word)
{
    const char *at = memmem(name.p, name.len, word, strlen(word));
    size_t start, end;
    int64_t v;

    if (at == NULL)
        return MRD_NONE;
    start = end = (size_t) (at - name.p) + strlen(word);
    while (end < name.len && name.p[end] >= '0' && name.p[end] <= '9')
        end++;
    return mrd_num_i64((mrd_str){ name.p + start, end - start }, &v) == MRD_OK ? v : MRD_NONE;
}

const char *
mrd_capture_kind(mrd_str name)
{
    static const struct {
        const char *suffix, *kind;
    } rows[] = {
        { ".ntff", "NTFF" },
        { ".neff", "NEFF" },
        { "ntrace.pb", "ntrace.pb" },
        { "trace_info.pb", "trace_info.pb" },
        { "cpu_util.pb", "cpu_util.pb" },
        { "host_mem.pb", "host_mem.pb" },
        { ".xplane.pb", "XSpace" },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++)
        if (mrd_str_ends(name, rows[i].suffix))
            return rows[i].kind;
    return NULL;
}
