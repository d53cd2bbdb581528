#include "base/event_type.h"

#include <stdlib.h>

#include "base/near.h"
#include "base/obj.h"

static const struct {
    const char *name;
    bool hardware;
} types[] = {
#define EVENT_TYPE(name, hardware) { #name, hardware },
#include "base/event_type.def"
#undef EVENT_TYPE
};

static const struct {
    const char *other, *name;
} aliases[] = {
#define EVENT_TYPE(name, hardware)
#define EVENT_ALIAS(other, name) { #other, #name },
#include "base/event_type.def"
#undef EVENT_TYPE
};

static const char *const groups[] = { "hardware", "software", "all", "diagnosis" };

/* The event types that the word `diagnosis` excludes. They are 79 % of all events of a training
 * loop (docs/dev/measurements.md). */
static const char *const bulk[] = { "^nrt_tensor_free", "^dmem_buf_copyin", "^nrt_dma_mem_alloc",
                                    "^nrt_dma_mem_dealloc" };

/* Returns the name that the trace uses for an event type. `name` may be another name of the type
 * (EVENT_ALIAS in event_type.def). */
static mrd_str
usual(mrd_str name)
{
    for (size_t i = 0; i < MRD_COUNT(aliases); i++)
        if (mrd_str_is(name, aliases[i].other))
            return mrd_str_of(aliases[i].name);
    return name;
}

bool
mrd_type_is_hardware(mrd_str name)
{
    name = usual(name);
    for (size_t i = 0; i < MRD_COUNT(types); i++) {
        if (types[i].hardware && mrd_str_is(name, types[i].name))
            return true;
    }
    return false;
}

static bool
is_bulk(mrd_str name)
{
    name = usual(name);
    for (size_t i = 0; i < MRD_COUNT(bulk); i++)
        if (mrd_str_is(name, bulk[i] + 1))
            return true;
    return false;
}

static bool
word_means(const char *word, mrd_str name)
{
    if (*word == '=')
        return mrd_str_is(name, word + 1);
    if (strcmp(word, "all") == 0)
        return true;
    if (strcmp(word, "diagnosis") == 0)
        return !is_bulk(name);
    if (strcmp(word, groups[0]) == 0 || strcmp(word, groups[1]) == 0)
        return mrd_type_is_hardware(name) == (word[0] == 'h');
    return mrd_str_is(name, word) || mrd_str_is(usual(name), usual(mrd_str_of(word)).p);
}

bool
mrd_types_want(const char *const *words, size_t n, mrd_str name)
{
    bool included = false, any = false;

    for (size_t i = 0; i < n; i++) {
        bool exclude = words[i][0] == '^';
        bool means = word_means(words[i] + exclude, name);

        if (exclude && means)
            return false;
        any = any || !exclude;
        included = included || (!exclude && means);
    }
    return included || !any;
}

/* Copies the words of `from` that exclude a type ("^name"). */
static mrd_err
add_excluded(const mrd_strlist *from, mrd_strlist *to)
{
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < from->n && err == MRD_OK; i++)
        if (from->v[i][0] == '^')
            err = mrd_strlist_add(to, mrd_str_of(from->v[i]));
    return err;
}

mrd_err
mrd_types_expand(mrd_strlist *words)
{
    bool all = mrd_strlist_has(words, MRD_STR("all"));
    mrd_strlist out = { 0 };
    mrd_err err;

    if (!all && !mrd_strlist_has(words, MRD_STR("diagnosis")))
        return MRD_OK;
    err = add_excluded(words, &out);
    for (size_t i = 0; i < MRD_COUNT(bulk) && err == MRD_OK; i++)
        if (!mrd_types_want((const char *const *) words->v, words->n, mrd_str_of(bulk[i] + 1)) &&
            !mrd_strlist_has(&out, mrd_str_of(bulk[i])))
            err = mrd_strlist_add(&out, mrd_str_of(bulk[i]));
    mrd_strlist_fini(err == MRD_OK ? words : &out);
    if (err == MRD_OK)
        *words = out;
    return err;
}

const char *
mrd_types_set(const mrd_strlist *words)
{
    bool is_diagnosis = words->n == MRD_COUNT(bulk);

    for (size_t i = 0; i < MRD_COUNT(bulk); i++)
        is_diagnosis = is_diagnosis && mrd_strlist_has(words, mrd_str_of(bulk[i]));
    return words->n == 0 ? "all" : is_diagnosis ? "diagnosis" : "selected";
}

static bool
is_in(const char *word, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(names[i], word) == 0)
            return true;
    }
    return false;
}

static mrd_err
unknown(const char *word, const char *const *names, size_t n, mrd_why *why)
{
    char near[MRD_NEAR_TEXT];

    mrd_near_text(word, names, n, "", near);
    return mrd_why_set(why, MRD_INVALID, 0,
                       "'%.64s' is not an event type of the Neuron runtime%s%s =%.64s selects "
                       "events by any other name, such as a program's own spans",
                       word, near, *near == '\0' ? ";" : "", word);
}

mrd_err
mrd_types_check(const char *const *words, size_t count, const char *const *more, size_t n_more,
                mrd_why *why)
{
    size_t n_names = MRD_COUNT(groups) + MRD_COUNT(types) + MRD_COUNT(aliases) + n_more, at = 0;
    const char **names = malloc(n_names * sizeof(*names));
    mrd_err err = MRD_OK;

    if (names == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "event types");
    for (size_t i = 0; i < MRD_COUNT(groups); i++)
        names[at++] = groups[i];
    for (size_t i = 0; i < MRD_COUNT(types); i++)
        names[at++] = types[i].name;
    for (size_t i = 0; i < MRD_COUNT(aliases); i++)
        names[at++] = aliases[i].other;
    for (size_t i = 0; i < n_more; i++)
        names[at++] = more[i];
    for (size_t i = 0; i < count && err == MRD_OK; i++) {
        const char *word = words[i] + (words[i][0] == '^');

        if (*word == '\0' || strcmp(word, "=") == 0)
            err = mrd_why_set(why, MRD_INVALID, 0, "'%s' needs an event type after it", words[i]);
        else if (*word != '=' && !is_in(word, names, n_names))
            err = unknown(word, names, n_names, why);
    }
    free(names);
    return err;
}
