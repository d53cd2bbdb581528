#include "trace/analysis/phases.h"

#include <ctype.h>

#include "base/obj.h"

enum { FORM = 256 };

/* Forms of names (trace/analysis/kernel_names.h) by their beginnings. The first row that matches
 * decides. */
static const struct {
    const char *begin;
    mrd_kernel_class class;
} phases[] = {
    { "_forward_backward", MRD_CLASS_NOTHING }, /* contains the phases of a whole step */
    { "_fwd_bwd", MRD_CLASS_NOTHING },          { "_forward_compute", MRD_CLASS_COMPUTE },
    { "_forward_step", MRD_CLASS_COMPUTE },     { "_forward_pass", MRD_CLASS_COMPUTE },
    { "_backward_compute", MRD_CLASS_COMPUTE }, { "_backward_step", MRD_CLASS_COMPUTE },
    { "_backward_pass", MRD_CLASS_COMPUTE },    { "_fwd_compute", MRD_CLASS_COMPUTE },
    { "_bwd_compute", MRD_CLASS_COMPUTE },      { "_optimizer", MRD_CLASS_COMPUTE },
};
/* Other names begin like these phases, too. So only numbers may follow, such as the number of a
 * microbatch. */
static const char *const alone[] = { "_forward", "_backward", "_fwd",      "_bwd",
                                     "_wgrad",   "_dgrad",    "_recompute" };

/* Returns true if the rest of a form consists of numbers, and of words for a microbatch or a step. */
static bool
only_numbers(const char *rest)
{
    static const char *const words[] = { "microbatch", "mb", "step", "chunk" };

    while (*rest != '\0') {
        const char *from = rest;

        for (size_t i = 0; i < MRD_COUNT(words); i++) {
            size_t len = strlen(words[i]);

            if (strncmp(rest, words[i], len) == 0 && !isalpha((unsigned char) rest[len]))
                rest += len;
        }
        while (*rest == '_' || isdigit((unsigned char) *rest))
            rest++;
        if (rest == from)
            return false;
    }
    return true;
}

static mrd_kernel_class
phase_of(const char *form)
{
    for (size_t i = 0; i < MRD_COUNT(phases); i++) {
        size_t len = strlen(phases[i].begin);

        if (strncmp(form, phases[i].begin, len) == 0 && !isalnum((unsigned char) form[len]))
            return phases[i].class;
    }
    for (size_t i = 0; i < MRD_COUNT(alone); i++) {
        size_t len = strlen(alone[i]);

        if (strncmp(form, alone[i], len) == 0 && only_numbers(form + len))
            return MRD_CLASS_COMPUTE;
    }
    return MRD_CLASS_UNKNOWN;
}

mrd_kernel_class
mrd_phase_class(const mrd_kernel_rules *rules, mrd_str name)
{
    static const char *const messages[] = { "_send_", "_recv_", "_sendrecv_", "_isend_",
                                            "_irecv_" };
    mrd_kernel_class class = mrd_kernel_class_of_name(rules, name);
    char text[FORM];

    if (class != MRD_CLASS_UNKNOWN)
        return class;
    (void) mrd_kernel_name_form(name, text, sizeof(text));
    for (size_t i = 0; i < MRD_COUNT(messages); i++) {
        if (strstr(text, messages[i]) != NULL)
            return MRD_CLASS_MESSAGE;
    }
    return phase_of(text);
}

bool
mrd_phase_any(const mrd_catalog *cat, const mrd_kernel_rules *rules)
{
    const mrd_strtab *strings = mrd_catalog_strings(cat);
    size_t n = mrd_strtab_count(strings);
    /* PyTorch's profiler records calls of the host. Its "Optimizer.step" is a call, too, and says
     * nothing about the rest of a worker's time. */
    bool calls = mrd_strtab_find(strings, MRD_STR("cpu_op")) != MRD_SID_EMPTY ||
                 mrd_strtab_find(strings, MRD_STR("python_function")) != MRD_SID_EMPTY;
    char text[FORM];

    for (size_t i = 1; i < n; i++) {
        mrd_str name = mrd_catalog_text(cat, (mrd_sid) i);

        (void) mrd_kernel_name_form(name, text, sizeof(text));
        if ((!calls && phase_of(text) == MRD_CLASS_COMPUTE) ||
            (mrd_kernel_rules_compute(rules, name) &&
             mrd_kernel_class_of_name(NULL, name) == MRD_CLASS_UNKNOWN))
            return true;
    }
    return false;
}

/* Returns the length of "rank 3", "rank: 3", "rank_3" or "PP 0" at offset `at`. 0 means none. */
static size_t
rank_at(mrd_str name, size_t at, bool stage_only, int64_t *ret_rank)
{
    static const char *const words[] = { "stage", "pp", "rank", "dp", "tp", "ep", "cp" };
    static const size_t stages = 2; /* the first words name a pipeline stage */
    size_t from = at;

    for (size_t i = 0; i < (stage_only ? stages : MRD_COUNT(words)); i++) {
        size_t len = strlen(words[i]);

        if (name.len - at < len || strncasecmp(name.p + at, words[i], len) != 0)
            continue;
        at += len;
        while (at < name.len && strchr(" _:=-#", name.p[at]) != NULL)
            at++;
        if (name.len - at >= 4 && strncasecmp(name.p + at, "rank", 4) == 0)
            at += 4;
        while (at < name.len && strchr(" _:=-#", name.p[at]) != NULL)
            at++;
        if (at == name.len || !isdigit((unsigned char) name.p[at]))
            return 0;
        for (*ret_rank = 0; at < name.len && isdigit((unsigned char) name.p[at]); at++)
            *ret_rank = *ret_rank > INT32_MAX ? *ret_rank : 10 * *ret_rank + (name.p[at] - '0');
        return at - from;
    }
    return 0;
}

mrd_str
mrd_phase_ranks(mrd_str thread)
{
    size_t end = 0;
    int64_t rank;

    for (size_t at = 0; at < thread.len; at++) {
        size_t len = at > 0 && isalnum((unsigned char) thread.p[at - 1])
                         ? 0
                         : rank_at(thread, at, false, &rank);

        if (len > 0)
            end = at += len;
    }
    return (mrd_str){ thread.p, end };
}

int64_t
mrd_phase_stage(mrd_str ranks)
{
    int64_t rank;

    for (size_t at = 0; at < ranks.len; at++) {
        if ((at == 0 || !isalnum((unsigned char) ranks.p[at - 1])) &&
            rank_at(ranks, at, true, &rank) > 0)
            return rank;
    }
    return MRD_NONE;
}

int
mrd_phase_ranks_order(mrd_str a, mrd_str b)
{
    size_t i = 0, k = 0;

    while (i < a.len && k < b.len) {
        uint64_t x = 0, y = 0;

        if (!isdigit((unsigned char) a.p[i]) || !isdigit((unsigned char) b.p[k])) {
            if (a.p[i] != b.p[k])
                return (unsigned char) a.p[i] < (unsigned char) b.p[k] ? -1 : 1;
            i++;
            k++;
            continue;
        }
        for (; i < a.len && isdigit((unsigned char) a.p[i]); i++)
            x = 10 * x + (uint64_t) (a.p[i] - '0');
        for (; k < b.len && isdigit((unsigned char) b.p[k]); k++)
            y = 10 * y + (uint64_t) (b.p[k] - '0');
        if (x != y)
            return x < y ? -1 : 1;
    }
    return (i < a.len) - (k < b.len);
}
