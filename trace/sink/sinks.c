#include "trace/sink/sinks.h"

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
