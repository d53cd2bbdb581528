#include "agent/rings/runtime_features.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/obj.h"

/* Adds the words of a comma-separated list to *to. Returns true if one of them was new. */
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
sign(const mrd_runtime_seen *seen)
{
    uint64_t h = mrd_hash64(seen->version, strlen(seen->version), 1);

    h = mrd_hash64(seen->labels, strlen(seen->labels), h);
    for (size_t i = 0; i < seen->types.n; i++)
        h = mrd_hash64(seen->types.v[i], strlen(seen->types.v[i]), h);
    for (size_t i = 0; i < seen->unknown.n; i++)
        h = mrd_hash64(seen->unknown.v[i], strlen(seen->unknown.v[i]), h ^ 2);
    return h == 0 ? 1 : h;
}

bool
mrd_runtime_notice(mrd_runtime_seen *seen, const mrd_drain_process *process, const mrd_event *ev,
                   bool *ret_new)
{
    *ret_new = false;
    if (!mrd_str_is(mrd_catalog_text(process->catalog, ev->name), "the Neuron runtime is open"))
        return false;
    for (uint32_t i = 0; i < ev->arg_count; i++) {
        mrd_str key = mrd_catalog_text(process->catalog, ev->args[i].key);
        mrd_str text = mrd_arg_text(mrd_catalog_strings(process->catalog), &ev->args[i]);

        if (mrd_str_is(key, "version"))
            snprintf(seen->version, sizeof(seen->version), MRD_STR_FMT, MRD_STR_ARG(text));
        else if (mrd_str_is(key, "labels"))
            snprintf(seen->labels, sizeof(seen->labels), MRD_STR_FMT, MRD_STR_ARG(text));
        else if (mrd_str_is(key, "event_types"))
            (void) add_words(&seen->types, text);
        else if (mrd_str_is(key, "unknown_functions"))
            *ret_new = add_words(&seen->unknown, text);
    }
    seen->signature = sign(seen);
    return true;
}

void
mrd_runtime_fini(mrd_runtime_seen *seen)
{
    mrd_strlist_fini(&seen->types);
    mrd_strlist_fini(&seen->unknown);
}
