#include "trace/analysis/phases.h"

#include <ctype.h>

#include "base/num.h"
#include "base/obj.h"

enum { FORM = 256 };

/* Beginnings of phase names, in the common form of trace/analysis/kernel_names.h. The first match
 * gives the class. */
static const struct {
    const char *begin;
    mrd_kernel_class class;
} phases[] = {
    { "_forward_backward", MRD_CLASS_NOTHING }, /* encloses all phases of a step */
    { "_fwd_bwd", MRD_CLASS_NOTHING },          { "_forward_compute", MRD_CLASS_COMPUTE },
    { "_forward_step", MRD_CLASS_COMPUTE },     { "_forward_pass", MRD_CLASS_COMPUTE },
    { "_backward_compute", MRD_CLASS_COMPUTE }, { "_backward_step", MRD_CLASS_COMPUTE },
    { "_backward_pass", MRD_CLASS_COMPUTE },    { "_fwd_compute", MRD_CLASS_COMPUTE },
    { "_bwd_compute", MRD_CLASS_COMPUTE },      { "_fwd_microstep", MRD_CLASS_COMPUTE },
    { "_bwd_microstep", MRD_CLASS_COMPUTE },    { "_bwd_inner", MRD_CLASS_COMPUTE },
    { "_step_microstep", MRD_CLASS_COMPUTE },   { "_optimizer", MRD_CLASS_COMPUTE },
    { "_all_grads_sync", MRD_CLASS_ALLREDUCE },
};
/* Names of phases that must match completely. Other work may have a name that begins with one of
 * these words. */
static const char *const alone[] = { "_forward_", "_backward_", "_fwd_",      "_bwd_",
                                     "_wgrad_",   "_dgrad_",    "_recompute_" };

/* Words that a number may follow, as in "step 7". The first STEP_WORDS of them count steps. */
static const char *const counted[] = { "step",   "iteration", "iter",  "microbatch", "micro",
                                       "batch",  "mb",        "chunk", "stage",      "rank",
                                       "worker", "pp",        "vpp",   "layer" };
enum { STEP_WORDS = 3 };

/* One word of a name in the common form. In this form, "_" precedes each word. */
typedef struct {
    size_t len; /* length, including the "_" before the word */
    /* Index in `counted` if the word is a counted word, or one followed by digits ("mb3"). Else the
     * size of `counted`. */
    size_t counted;
    bool is_number; /* the word is a number, or a counted word followed by digits: "3", "mb3" */
    uint64_t number;
} form_word;

static form_word
word_at(const char *at)
{
    form_word word = { .len = strcspn(at + 1, "_") + 1, .counted = MRD_COUNT(counted) };
    size_t from = 1;

    for (size_t i = 0; i < MRD_COUNT(counted) && word.counted == MRD_COUNT(counted); i++) {
        size_t len = strlen(counted[i]);

        if (strncmp(at + 1, counted[i], len) == 0 && !isalpha((unsigned char) at[1 + len])) {
            word.counted = i;
            from += len;
        }
    }
    word.is_number = mrd_num_digits((mrd_str){ at + from, word.len - from }, &word.number);
    return word;
}

/* Removes numbers and the counted words before them. "_forward_mb_3_" becomes "_forward_". */
static void
remove_numbers(char *form)
{
    /* begin of the counted words ("mb", "step") at the end of the output; NULL if it ends with
     * another word */
    char *to = form, *words = NULL;

    for (const char *from = form; from[1] != '\0';) {
        form_word word = word_at(from);

        if (word.is_number) {
            to = words != NULL ? words : to;
            words = NULL;
        } else {
            words = word.counted == MRD_COUNT(counted) ? NULL : words != NULL ? words : to;
            memmove(to, from, word.len);
            to += word.len;
        }
        from += word.len;
    }
    memcpy(to, "_", 2);
}

void
mrd_phase_form(mrd_str name, char *form, size_t size)
{
    (void) mrd_kernel_name_form(name, form, size);
    remove_numbers(form);
}

static mrd_kernel_class
phase_of_form(const char *form)
{
    for (size_t i = 0; i < MRD_COUNT(phases); i++) {
        size_t len = strlen(phases[i].begin);

        if (strncmp(form, phases[i].begin, len) == 0 && !isalnum((unsigned char) form[len]))
            return phases[i].class;
    }
    for (size_t i = 0; i < MRD_COUNT(alone); i++) {
        if (strcmp(form, alone[i]) == 0)
            return MRD_CLASS_COMPUTE;
    }
    return MRD_CLASS_UNKNOWN;
}

/* Returns the class of a name. If the name as a whole has no class, its last part is tried:
 * "backward" of "Trainer.backward". */
static mrd_kernel_class
phase_of(mrd_str name)
{
    char form[FORM];
    mrd_kernel_class class;
    const char *bracket = memchr(name.p, '(', name.len);
    size_t end = bracket == NULL ? name.len : (size_t) (bracket - name.p), from = end;

    mrd_phase_form(name, form, sizeof(form));
    if ((class = phase_of_form(form)) != MRD_CLASS_UNKNOWN)
        return class;
    while (from > 0 && strchr("./:", name.p[from - 1]) == NULL)
        from--;
    mrd_phase_form((mrd_str){ name.p + from, end - from }, form, sizeof(form));
    return from == 0 ? MRD_CLASS_UNKNOWN : phase_of_form(form);
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
    return phase_of(name);
}

bool
mrd_phase_any(const mrd_catalog *cat, const mrd_kernel_rules *rules)
{
    const mrd_strtab *strings = mrd_catalog_strings(cat);
    size_t n = mrd_strtab_count(strings);
    /* Traces of PyTorch's profiler record calls on the host. One of them, "Optimizer.step", looks
     * like a phase, but no phase would cover the rest of the worker's time. */
    bool calls = mrd_strtab_find(strings, MRD_STR("cpu_op")) != MRD_SID_EMPTY ||
                 mrd_strtab_find(strings, MRD_STR("python_function")) != MRD_SID_EMPTY;

    for (size_t i = 1; i < n; i++) {
        mrd_str name = mrd_catalog_text(cat, (mrd_sid) i);

        if ((!calls && phase_of(name) == MRD_CLASS_COMPUTE) ||
            (mrd_kernel_rules_compute(rules, name) &&
             mrd_kernel_class_of_name(NULL, name) == MRD_CLASS_UNKNOWN))
            return true;
    }
    return false;
}

/* Returns the length of a rank in a name, such as "rank 3", "rank: 3", "rank_3" or "PP 0" at offset
 * `at`. 0 if there is none. With `stage_only`, only ranks of pipeline stages count. */
static size_t
rank_at(mrd_str name, size_t at, bool stage_only, int64_t *ret_rank)
{
    static const char *const words[] = { "stage", "pp", "rank", "dp", "tp", "ep", "cp", "worker" };
    static const size_t stages = 2; /* the first two of `words` name pipeline stages */
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
mrd_phase_ranks(mrd_str name)
{
    size_t from = 0, end = 0;
    int64_t rank;

    for (size_t at = 0; at < name.len; at++) {
        size_t len =
            at > 0 && isalnum((unsigned char) name.p[at - 1]) ? 0 : rank_at(name, at, false, &rank);

        if (len > 0)
            end = at += len;
    }
    while (from < end && !isalnum((unsigned char) name.p[from]))
        from++;
    return (mrd_str){ name.p + from, end - from };
}

/* Returns true for a word that makes a following "step" a phase: "forward_step" is no training
 * step. */
static bool
names_phase(const char *at, size_t len)
{
    static const char *const words[] = { "_forward", "_backward", "_fwd", "_bwd", "_micro" };

    for (size_t i = 0; i < MRD_COUNT(words); i++) {
        if (strlen(words[i]) == len && memcmp(at, words[i], len) == 0)
            return true;
    }
    return false;
}

bool
mrd_phase_step(mrd_str name, uint64_t *ret_number)
{
    bool is_step = false, after_phase = false, found = false;
    char text[FORM], form[FORM];
    size_t len = name.len < FORM ? name.len : FORM;

    /* The common form drops text in brackets, so brackets are replaced by blanks first. */
    for (size_t i = 0; i < len; i++)
        text[i] = strchr("()<>", name.p[i]) != NULL ? ' ' : name.p[i];
    (void) mrd_kernel_name_form((mrd_str){ text, len }, form, sizeof(form));
    for (const char *at = form; at[1] != '\0';) {
        form_word word = word_at(at);

        if (word.counted < MRD_COUNT(counted))
            is_step = word.counted < STEP_WORDS && !after_phase;
        if (word.is_number && is_step) {
            *ret_number = word.number;
            found = true;
        }
        is_step = is_step && !word.is_number && word.counted < MRD_COUNT(counted);
        after_phase = names_phase(at, word.len);
        at += word.len;
    }
    return found;
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
