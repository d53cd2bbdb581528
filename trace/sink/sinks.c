#include "trace/sink/sinks.h"

#include <string.h>

#include "base/obj.h"

static const mrd_sink_ops *const sinks[] = {
#define MRD_SINK(ident) &mrd_sink_##ident,
#include "trace/sink/sinks.def"
#undef MRD_SINK
};

const mrd_sink_ops *
mrd_sink_find(mrd_str name)
{
    for (size_t i = 0; i < MRD_COUNT(sinks); i++) {
        if (mrd_str_is(name, sinks[i]->name))
            return sinks[i];
    }
    return NULL;
}

bool
mrd_sink_is_named(const char *list, const mrd_sink_ops *sink)
{
    for (const char *p = list == NULL ? "" : list; *p != '\0';) {
        size_t n = strcspn(p, ",");

        if (mrd_str_is((mrd_str){ p, n }, sink->name))
            return true;
        p += n + (p[n] == ',');
    }
    return false;
}

void
mrd_sink_profile_path(const mrd_sink_ops *sink, mrd_buf *to)
{
    mrd_buf_fmt(to, "profile/%s%s", sink->stem,
                sink->folder ? "/" MRD_FOLDER_MANIFEST : sink->suffix);
}

const mrd_sink_ops *const *
mrd_sinks(size_t *ret_n)
{
    *ret_n = MRD_COUNT(sinks);
    return sinks;
}

const char *
mrd_sink_media_type(mrd_str file)
{
    for (size_t i = 0; i < MRD_COUNT(sinks); i++) {
        if (mrd_str_ends(file, sinks[i]->suffix))
            return sinks[i]->media_type;
    }
    return mrd_str_is(file, "SHA256SUMS") ? "text/plain; charset=utf-8"
                                          : "application/octet-stream";
}
