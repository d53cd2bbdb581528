#include "agent/rings/runtime_features.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/obj.h"

/* Adds the values of a comma-separated list. Returns true if one was new. */
static bool
add_words(mrd_strlist *to, mrd_str list)
{
    bool any = false;

    while (list.len > 0 && to->n < MRD_RUNTIME_NAMES) {
        const char *comma = memchr(list.p, ',', list.len);
        size_t n = comma == NULL ? list.len : (size_t) (comma - list.p);
        mrd_str word = { list.p, n };

        if (n > 0 && n < 128 && !mrd_strlist_has(to, word))
            any = mrd_strlist_add(to, word) == MRD_OK || any;
        list.p += comma == NULL ? n : n + 1;
        list.len -= comma == NULL ? n : n + 1;
    }
    return any;
}

static uint64_t
sign(const mrd_runtime_seen *o)
{
    uint64_t h = mrd_hash64(o->version, strlen(o->version), 1);

    h = mrd_hash64(o->labels, strlen(o->labels), h);
    for (size_t i = 0; i < o->types.n; i++)
        h = mrd_hash64(o->types.v[i], strlen(o->types.v[i]), h);
    for (size_t i = 0; i < o->unknown.n; i++)
        h = mrd_hash64(o->unknown.v[i], strlen(o->unknown.v[i]), h ^ 2);
    return h == 0 ? 1 : h;
}

bool
mrd_runtime_notice(mrd_runtime_seen *o, const mrd_drain_process *process, const mrd_event *ev,
                   bool *ret_new)
{
    *ret_new = false;
    if (!mrd_str_is(mrd_catalog_text(process->catalog, ev->name), "the Neuron runtime is open"))
        return false;
    for (uint32_t i = 0; i < ev->arg_count; i++) {
        mrd_str key = mrd_catalog_text(process->catalog, ev->args[i].key);
        mrd_str text = mrd_arg_text(mrd_catalog_strings(process->catalog), &ev->args[i]);

        if (mrd_str_is(key, "version"))
            snprintf(o->version, sizeof(o->version), MRD_STR_FMT, MRD_STR_ARG(text));
        else if (mrd_str_is(key, "labels"))
            snprintf(o->labels, sizeof(o->labels), MRD_STR_FMT, MRD_STR_ARG(text));
        else if (mrd_str_is(key, "event_types"))
            (void) add_words(&o->types, text);
        else if (mrd_str_is(key, "unknown_functions"))
            *ret_new = add_words(&o->unknown, text);
    }
    o->signature = sign(o);
    return true;
}

void
mrd_runtime_fini(mrd_runtime_seen *o)
{
    mrd_strlist_fini(&o->types);
    mrd_strlist_fini(&o->unknown);
}
