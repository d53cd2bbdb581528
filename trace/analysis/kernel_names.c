#include "trace/analysis/kernel_names.h"

#include <ctype.h>
#include <stdlib.h>

#include "base/obj.h"
#include "base/sys/file.h"
#include "base/vec.h"

enum {
    /* Maximum size in bytes of a name in the common form (trace/analysis/kernel_names.h). Longer
     * names are cut. */
    FORM_MAX = 512,
    RULES_MAX_BYTES = 1u << 20, /* maximum size of a file of rules */
};

typedef struct {
    mrd_kernel_class class;
    char *pattern; /* pattern of a user's rule in the common form, with wildcards */
} rule;

struct mrd_kernel_rules {
    rule *v;
    size_t n, cap;
};

static const struct {
    mrd_kernel_class class;
    const char *pattern; /* pattern of the built-in table in the common form, with wildcards */
} table[] = {
#define MRD_KERNEL(class, pattern)       { MRD_CLASS_##class, "*_" pattern "_*" },
#define MRD_KERNEL_FIRST(class, pattern) { MRD_CLASS_##class, "_" pattern "_*" },
#include "trace/analysis/kernel_names.def"
#undef MRD_KERNEL
#undef MRD_KERNEL_FIRST
};

/* Names of the classes of work in a user's file of rules. */
static const struct {
    const char *word;
    mrd_kernel_class class;
} classes[] = {
    { "compute", MRD_CLASS_COMPUTE },     { "copy", MRD_CLASS_COPY },
    { "nothing", MRD_CLASS_NOTHING },     { "allreduce", MRD_CLASS_ALLREDUCE },
    { "allgather", MRD_CLASS_ALLGATHER }, { "reducescatter", MRD_CLASS_REDUCESCATTER },
    { "alltoall", MRD_CLASS_ALLTOALL },   { "barrier", MRD_CLASS_BARRIER },
    { "message", MRD_CLASS_MESSAGE },     { "communication", MRD_CLASS_COMMUNICATION },
};

/* ---- The common form of a name ---- */

/* Words that belong together. The common form writes them as one word. */
static const struct {
    const char *from, *to;
} joined[] = {
    { "_all_reduce", "_allreduce" },
    { "_all_gather", "_allgather" },
    { "_reduce_scatter", "_reducescatter" },
    { "_all_to_all", "_alltoall" },
    { "_all_toall", "_alltoall" },
    { "_allto_all", "_alltoall" },
    { "_all2_all", "_alltoall" },
    { "_all2all", "_alltoall" },
    { "_a2_a", "_alltoall" },
    { "_a2a", "_alltoall" },
    { "_send_recv", "_sendrecv" },
};

/* Appends text to a name in the common form, up to `size` bytes. Returns the new length. */
static size_t
form_add(char *form, size_t len, size_t size, mrd_str text)
{
    size_t n = text.len < size - len ? text.len : size - len;

    memcpy(form + len, text.p, n);
    return len + n;
}

/* Writes the identifiers of a mangled C++ name, without its parameter types.
 * `_ZN4vllm6reduceIfEEvPf` becomes ` vllm reduce`. */
static size_t
put_mangled(mrd_str name, char *path, size_t size)
{
    size_t at = 2, len = 0;

    while (at < name.len && strchr("NKLVSt", name.p[at]) != NULL)
        at++;
    while (at < name.len && isdigit((unsigned char) name.p[at])) {
        size_t n = 0;

        for (; at < name.len && isdigit((unsigned char) name.p[at]) && n < size; at++)
            n = 10 * n + (size_t) (name.p[at] - '0');
        n = n < name.len - at ? n : name.len - at;
        len = form_add(path, len, size, MRD_STR(" "));
        len = form_add(path, len, size, (mrd_str){ name.p + at, n });
        at += n;
    }
    return len;
}

/* Copies a C++ name to `path` without its template arguments and parameters. Returns the length. */
static size_t
put_path(mrd_str name, char *path, size_t size)
{
    static const mrd_str nameless = { "(anonymous namespace)", 21 };
    size_t depth = 0, len = 0;

    if (mrd_str_starts(name, "_ZN") || mrd_str_starts(name, "_ZL") ||
        (mrd_str_starts(name, "_Z") && name.len > 2 && isdigit((unsigned char) name.p[2])))
        return put_mangled(name, path, size);
    for (size_t i = 0; i < name.len && len < size; i++) {
        if (depth == 0 && name.len - i >= nameless.len &&
            memcmp(name.p + i, nameless.p, nameless.len) == 0)
            i += nameless.len - 1;
        else if (depth == 0 && name.p[i] == '(')
            break;
        else if (name.p[i] == '<')
            depth++;
        else if (name.p[i] == '>' && depth > 0)
            depth--;
        else if (depth == 0)
            path[len++] = name.p[i];
    }
    return len;
}

static bool
is_word(char c)
{
    return isalnum((unsigned char) c) || (unsigned char) c >= 0x80 || c == '*' || c == '?';
}

/* Returns true if byte i begins a word. In a name like "AllReduce", capital letters begin words.
 * Byte i must be part of a word. */
static bool
begins_word(const char *path, size_t len, size_t i)
{
    bool upper = isupper((unsigned char) path[i]) != 0;

    return i == 0 || !is_word(path[i - 1]) || (upper && islower((unsigned char) path[i - 1])) ||
           (upper && i + 1 < len && islower((unsigned char) path[i + 1]) && path[i - 1] != '*' &&
            path[i - 1] != '?');
}

/* Joins word sequences such as "all reduce" (see `joined`) into single words, in place. Returns the
 * new length. */
static size_t
join_words(char *form, size_t len)
{
    for (size_t i = 0; i < MRD_COUNT(joined); i++) {
        size_t from = strlen(joined[i].from), to = strlen(joined[i].to);
        char *at = form;

        while ((at = memmem(at, len - (size_t) (at - form), joined[i].from, from)) != NULL) {
            size_t rest = len - (size_t) (at - form) - from;

            if (to > from && len + to - from > FORM_MAX)
                break;
            memmove(at + to, at + from, rest);
            memcpy(at, joined[i].to, to);
            len = len + to - from;
            at += to;
        }
    }
    return len;
}

mrd_str
mrd_kernel_name_form(mrd_str name, char *form, size_t size)
{
    char path[FORM_MAX], words[FORM_MAX + 1];
    size_t n = put_path(name, path, sizeof(path)), len = 0;

    for (size_t i = 0; i < n && len + 3 < FORM_MAX; i++) {
        if (!is_word(path[i]))
            continue;
        if (begins_word(path, n, i))
            words[len++] = '_';
        words[len++] = (char) tolower((unsigned char) path[i]);
    }
    words[len++] = '_';
    len = join_words(words, len);
    len = len < size ? len : size - 1;
    memcpy(form, words, len);
    form[len] = '\0';
    return (mrd_str){ form, len };
}

/* ---- Patterns ---- */

/* Returns true if the pattern matches the whole text. `*` stands for any text, `?` for one
 * character. */
static bool
matches(const char *pattern, mrd_str text)
{
    const char *star = NULL;
    size_t at = 0, resume = 0;

    while (at < text.len) {
        if (*pattern == '*') {
            star = ++pattern;
            resume = at;
        } else if (*pattern == text.p[at] || (*pattern == '?' && text.p[at] != '_')) {
            pattern++;
            at++;
        } else if (star != NULL) {
            pattern = star;
            at = ++resume;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

/* Converts a user's pattern to the common form, with wildcards around it: "nccl*" becomes
 * `*_nccl*_*`. A leading "^" binds it to the beginning of names. Returns false if it has no letter
 * or digit. */
static bool
pattern_form(mrd_str pattern, char *ret, size_t size)
{
    bool first = pattern.len > 0 && pattern.p[0] == '^';
    char form[FORM_MAX + 1];
    mrd_str words = mrd_kernel_name_form(
        first ? (mrd_str){ pattern.p + 1, pattern.len - 1 } : pattern, form, sizeof(form));
    bool any = false;

    for (size_t i = 0; i < words.len; i++)
        any = any || (is_word(words.p[i]) && words.p[i] != '*' && words.p[i] != '?');
    return any && (size_t) snprintf(ret, size, "%s%s*", first ? "" : "*", words.p) < size;
}

/* Returns the class of the first collective that a name in the common form contains. MESSAGE if it
 * contains none. */
static mrd_kernel_class
operation_in(mrd_str form)
{
    static const struct {
        const char *word;
        mrd_kernel_class class;
    } words[] = { { "_allreduce", MRD_CLASS_ALLREDUCE },
                  { "_allgather", MRD_CLASS_ALLGATHER },
                  { "_reducescatter", MRD_CLASS_REDUCESCATTER },
                  { "_alltoall", MRD_CLASS_ALLTOALL },
                  { "_barrier", MRD_CLASS_BARRIER },
                  { "_sendrecv", MRD_CLASS_SENDRECV } };
    mrd_kernel_class class = MRD_CLASS_MESSAGE;
    const char *first = form.p + form.len;

    for (size_t i = 0; i < MRD_COUNT(words); i++) {
        const char *at = memmem(form.p, form.len, words[i].word, strlen(words[i].word));

        if (at != NULL && at < first) {
            first = at;
            class = words[i].class;
        }
    }
    return class;
}

/* ---- Classes ---- */

/* Returns the class of the first user rule that matches a name in the common form, UNKNOWN if none
 * does. */
static mrd_kernel_class
rule_class(const mrd_kernel_rules *rules, mrd_str form)
{
    for (size_t i = 0; rules != NULL && i < rules->n; i++) {
        if (matches(rules->v[i].pattern, form))
            return rules->v[i].class;
    }
    return MRD_CLASS_UNKNOWN;
}

bool
mrd_kernel_rules_compute(const mrd_kernel_rules *rules, mrd_str name)
{
    char text[FORM_MAX + 1];

    return rules != NULL &&
           rule_class(rules, mrd_kernel_name_form(name, text, sizeof(text))) == MRD_CLASS_COMPUTE;
}

mrd_kernel_class
mrd_kernel_class_of_name(const mrd_kernel_rules *rules, mrd_str name)
{
    char text[FORM_MAX + 1];
    mrd_str form = mrd_kernel_name_form(name, text, sizeof(text));
    mrd_kernel_class class = rule_class(rules, form);

    for (size_t i = 0; i < MRD_COUNT(table) && class == MRD_CLASS_UNKNOWN; i++) {
        if (matches(table[i].pattern, form))
            class = table[i].class;
    }
    return class == MRD_CLASS_COMMUNICATION ? operation_in(form) : class;
}

mrd_kernel_class
mrd_kernel_class_of_operation(mrd_str text)
{
    char form[FORM_MAX + 1];

    return operation_in(mrd_kernel_name_form(text, form, sizeof(form)));
}

bool
mrd_kernel_name_suspicious(mrd_str name)
{
    static const char *const words[] = { "reduce",  "gather",    "scatter", "dispatch",
                                         "combine", "broadcast", "_send",   "_recv" };
    char text[FORM_MAX + 1];
    mrd_str form = mrd_kernel_name_form(name, text, sizeof(text));

    for (size_t i = 0; i < MRD_COUNT(words); i++) {
        if (memmem(form.p, form.len, words[i], strlen(words[i])) != NULL)
            return true;
    }
    return false;
}

/* ---- Rules of a user ---- */

/* Removes the next line from the front of the text, and returns it without blanks around it.
 * Returns false at the end of the text. */
static bool
next_line(mrd_str *text, mrd_str *ret_line)
{
    const char *end = memchr(text->p, '\n', text->len);
    size_t len = end == NULL ? text->len : (size_t) (end - text->p);
    mrd_str line = { text->p, len };

    if (text->len == 0)
        return false;
    *text = (mrd_str){ text->p + len + (end != NULL), text->len - len - (end != NULL) };
    while (line.len > 0 && isspace((unsigned char) line.p[line.len - 1]))
        line.len--;
    while (line.len > 0 && isspace((unsigned char) *line.p))
        line = (mrd_str){ line.p + 1, line.len - 1 };
    *ret_line = line;
    return true;
}

static mrd_err
add_line(mrd_kernel_rules *rules, mrd_str line)
{
    char pattern[FORM_MAX + 4];
    size_t word = 0, from = 0;

    while (word < line.len && !isspace((unsigned char) line.p[word]))
        word++;
    while (from < line.len && (from < word || isspace((unsigned char) line.p[from])))
        from++;
    for (size_t i = 0; i < MRD_COUNT(classes); i++) {
        char *copy;

        if (!mrd_str_is((mrd_str){ line.p, word }, classes[i].word))
            continue;
        if (!pattern_form((mrd_str){ line.p + from, line.len - from }, pattern, sizeof(pattern)))
            return MRD_INVALID;
        if (!MRD_VEC_ROOM(rules->v, rules->n, rules->cap, 1) ||
            (copy = mrd_str_dup(mrd_str_of(pattern))) == NULL)
            return MRD_NOMEM;
        rules->v[rules->n++] = (rule){ classes[i].class, copy };
        return MRD_OK;
    }
    return MRD_INVALID;
}

static mrd_err
say_bad_line(const char *path, size_t number, mrd_err err, mrd_why *why)
{
    mrd_buf words = { 0 };

    if (err == MRD_NOMEM)
        return mrd_why_set(why, err, 0, "'%s'", path);
    for (size_t i = 0; i < MRD_COUNT(classes); i++)
        mrd_buf_fmt(&words, "%s%s", i == 0 ? "" : ", ", classes[i].word);
    err = mrd_why_set(why, err, 0,
                      "'%s', line %zu: expected a class and a pattern, such as 'allreduce "
                      "my_fast_ar*'; the classes are %s",
                      path, number, mrd_buf_cstr(&words));
    mrd_buf_fini(&words);
    return err;
}

mrd_err
mrd_kernel_rules_load(const char *path, mrd_kernel_rules **ret_rules, mrd_why *why)
{
    mrd_kernel_rules *rules = calloc(1, sizeof(*rules));
    mrd_buf file = { 0 };
    mrd_str text, line;
    size_t number = 0;
    mrd_err err;

    if (rules == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "'%s'", path);
    if ((err = mrd_file_read(path, RULES_MAX_BYTES, &file, why)) != MRD_OK)
        goto out;
    text = (mrd_str){ (const char *) file.p, file.len };
    while (next_line(&text, &line)) {
        number++;
        if (line.len == 0 || line.p[0] == '#')
            continue;
        if ((err = add_line(rules, line)) != MRD_OK) {
            err = say_bad_line(path, number, err, why);
            goto out;
        }
    }
    *ret_rules = rules;
    rules = NULL;
out:
    mrd_buf_fini(&file);
    mrd_kernel_rules_free(rules);
    return err;
}

void
mrd_kernel_rules_free(mrd_kernel_rules *rules)
{
    if (rules == NULL)
        return;
    for (size_t i = 0; i < rules->n; i++)
        free(rules->v[i].pattern);
    free(rules->v);
    free(rules);
}
