#include "trace/sink/sink.h"

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
