#include "capture/nrt/nrt_types.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/event_type.h"
#include "capture/nrt/nrt_hook.h"

/* Calls leave_out for each event type of the runtime that no word in `words` selects. System trace
 * and inspect use the same names of types. */
static void
leave_others_out(const char *const *words, size_t n, const char *const *types, size_t count,
                 bool (*leave_out)(void *options, const char *type), void *options, char why[300])
{
    bool device = false;

    for (size_t i = 0; i < count; i++)
        device = device || (mrd_type_is_hardware(mrd_str_of(types[i])) &&
                            mrd_types_want(words, n, mrd_str_of(types[i])));
    for (size_t i = 0; i < count && why[0] == '\0'; i++)
        if (!mrd_types_want(words, n, mrd_str_of(types[i])) &&
            !(device && strncmp(types[i], "timestamp_sync", 14) == 0) &&
            !leave_out(options, types[i]))
            snprintf(why, 300, MRD_NRT_FILTER_TYPE ": the runtime does not leave %.80s out",
                     types[i]);
}

static const char *
choose(const char *const *words, size_t n, bool strict,
       bool (*leave_out)(void *options, const char *type), void *options, char why[300])
{
    __typeof__(nrt_sys_trace_get_event_types) *all = MRD_NRT_REAL(nrt_sys_trace_get_event_types);
    __typeof__(nrt_sys_trace_free_event_types) *drop = MRD_NRT_REAL(nrt_sys_trace_free_event_types);
    const char **types = NULL;
    mrd_why reason = { 0 };
    size_t count = 0;

    if (all == NULL || all(&types, &count) != NRT_SUCCESS)
        return MRD_NRT_FILTER_TYPE ": this runtime library cannot choose event types";
    if (strict && mrd_types_check(words, n, types, count, &reason) != MRD_OK)
        snprintf(why, 300, MRD_NRT_FILTER_TYPE ": %.240s", reason.text);
    leave_others_out(words, n, types, count, leave_out, options, why);
    if (drop != NULL)
        drop(types, count);
    return why[0] == '\0' ? NULL : why;
}

const char *
mrd_nrt_types_choose(const char *list, bool strict,
                     bool (*leave_out)(void *options, const char *type), void *options,
                     char why[300])
{
    size_t n = 0, len = list == NULL ? 0 : strlen(list);
    const char **words, *unfit;
    char *copy, *save = NULL;

    if (len == 0)
        return NULL;
    copy = strdup(list);
    words = malloc((len / 2 + 1) * sizeof(*words));
    if (copy == NULL || words == NULL) {
        free(copy);
        free(words);
        return MRD_NRT_FILTER_TYPE ": no memory to choose event types";
    }
    for (char *word = strtok_r(copy, ",", &save); word != NULL; word = strtok_r(NULL, ",", &save))
        words[n++] = word;
    unfit = n == 0 ? NULL : choose(words, n, strict, leave_out, options, why);
    free(words);
    free(copy);
    return unfit;
}
