#include "base/conf/conf.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/conf/json.h"
#include "base/near.h"
#include "base/num.h"
#include "base/obj.h"

bool
mrd_opt_is_advanced(const mrd_opt *opt)
{
    return opt->type != MRD_OPT_HEAD &&
           strncmp(opt->name, MRD_OPT_ADVANCED, strlen(MRD_OPT_ADVANCED)) == 0;
}

bool
mrd_opt_is_listed(const mrd_opt *opt)
{
    return opt->type != MRD_OPT_HEAD && (opt->flags & MRD_OPT_HIDDEN) == 0 &&
           !mrd_opt_is_advanced(opt);
}

static void *
conf_at(const mrd_opt *opt, void *into)
{
    return (char *) into + opt->offset;
}

static mrd_err
conf_bool(mrd_str value, bool *ret)
{
    static const char *const yes[] = { "1", "yes", "true", "on" };
    static const char *const no[] = { "0", "no", "false", "off" };

    for (size_t i = 0; i < MRD_COUNT(yes); i++) {
        if (mrd_str_is(value, yes[i]) || mrd_str_is(value, no[i])) {
            *ret = mrd_str_is(value, yes[i]);
            return MRD_OK;
        }
    }
    return MRD_SYNTAX;
}

static mrd_err
conf_choice(const mrd_opt *opt, mrd_str value, int *ret)
{
    const char *p = opt->arg;

    for (int i = 0;; i++) {
        size_t n = strcspn(p, ",");

        if (n == value.len && memcmp(p, value.p, n) == 0) {
            *ret = i;
            return MRD_OK;
        }
        if (p[n] == '\0')
            return MRD_SYNTAX;
        p += n + 1;
    }
}

static mrd_err
conf_list(mrd_strlist *list, mrd_str value)
{
    while (value.len > 0) {
        const char *comma = memchr(value.p, ',', value.len);
        size_t n = comma == NULL ? value.len : (size_t) (comma - value.p);

        if (n > 0 && mrd_strlist_add(list, (mrd_str){ value.p, n }) != MRD_OK)
            return MRD_NOMEM;
        if (comma == NULL)
            break;
        value = (mrd_str){ comma + 1, value.len - n - 1 };
    }
    return MRD_OK;
}

static const char *
conf_expects(const mrd_opt *opt, char *buf, size_t size)
{
    switch (opt->type) {
    case MRD_OPT_BOOL:
        return "0 or 1";
    case MRD_OPT_SIZE:
        return "a size such as 64M or 4096";
    case MRD_OPT_DUR:
        return "a duration such as 250ms, 10s or 2min";
    case MRD_OPT_CHOICE:
        snprintf(buf, size, "one of %s", opt->arg);
        return buf;
    case MRD_OPT_INT:
    case MRD_OPT_DOUBLE:
        return "a number";
    default:
        return "a value";
    }
}

/* Writes a number as the option accepts it: in the largest unit that needs no fraction, like "8M"
 * or "250ms". */
static const char *
conf_text(const mrd_opt *opt, int64_t value, char text[32])
{
    static const struct {
        mrd_opt_type type;
        int64_t factor;
        const char *unit;
    } units[] = { { MRD_OPT_SIZE, 1ll << 40, "T" },
                  { MRD_OPT_SIZE, 1ll << 30, "G" },
                  { MRD_OPT_SIZE, 1ll << 20, "M" },
                  { MRD_OPT_SIZE, 1ll << 10, "K" },
                  { MRD_OPT_DUR, 86400 * MRD_SEC, "d" },
                  { MRD_OPT_DUR, 3600 * MRD_SEC, "h" },
                  { MRD_OPT_DUR, 60 * MRD_SEC, "min" },
                  { MRD_OPT_DUR, MRD_SEC, "s" },
                  { MRD_OPT_DUR, MRD_MS, "ms" },
                  { MRD_OPT_DUR, MRD_US, "us" },
                  { MRD_OPT_DUR, 1, "ns" } };

    for (size_t i = 0; i < MRD_COUNT(units) && value != 0; i++) {
        if (units[i].type == opt->type && value % units[i].factor == 0) {
            snprintf(text, 32, "%" PRId64 "%s", value / units[i].factor, units[i].unit);
            return text;
        }
    }
    snprintf(text, 32, "%" PRId64, value);
    return text;
}

static mrd_err
conf_range(const mrd_opt *opt, mrd_str value, int64_t v, mrd_why *why)
{
    char least[32], most[32];

    if (opt->min >= opt->max || (v >= opt->min && v <= opt->max))
        return MRD_OK;
    return mrd_why_set(why, MRD_RANGE, 0, "--%s " MRD_STR_FMT " is outside %s to %s", opt->name,
                       MRD_STR_ARG(value), conf_text(opt, opt->min, least),
                       conf_text(opt, opt->max, most));
}

/* Sets one option from a text, as from the command line. The error of an invalid text names the
 * option and the allowed range. */
static mrd_err
set_option(const mrd_opt *opt, void *into, mrd_str value, mrd_why *why)
{
    void *at = conf_at(opt, into);
    mrd_err err = MRD_OK;
    int64_t v = 0;
    char expects[160];

    switch (opt->type) {
    case MRD_OPT_BOOL:
        err = conf_bool(value, at);
        break;
    case MRD_OPT_INT:
        err = mrd_num_i64(value, &v);
        break;
    case MRD_OPT_SIZE:
        err = mrd_num_size(value, &v);
        break;
    case MRD_OPT_DUR:
        err = mrd_num_dur(value, &v);
        break;
    case MRD_OPT_DOUBLE:
        err = mrd_num_double(value, at);
        break;
    case MRD_OPT_CHOICE:
        err = conf_choice(opt, value, at);
        break;
    case MRD_OPT_LIST:
        err = conf_list(at, value);
        break;
    case MRD_OPT_PATHS:
        err = mrd_strlist_add(at, value);
        break;
    case MRD_OPT_STR: {
        char *copy = mrd_str_dup(value);

        if (copy == NULL)
            return mrd_why_set(why, MRD_NOMEM, 0, "--%s", opt->name);
        free(*(char **) at);
        *(char **) at = copy;
        break;
    }
    case MRD_OPT_HEAD:
        return MRD_OK;
    }
    if (err != MRD_OK)
        return mrd_why_set(why, err == MRD_SYNTAX ? MRD_INVALID : err, 0,
                           "--%s '" MRD_STR_FMT "': expected %s", opt->name, MRD_STR_ARG(value),
                           conf_expects(opt, expects, sizeof(expects)));
    if (opt->type == MRD_OPT_INT || opt->type == MRD_OPT_SIZE || opt->type == MRD_OPT_DUR) {
        if ((err = conf_range(opt, value, v, why)) != MRD_OK)
            return err;
        *(int64_t *) at = v;
    }
    return MRD_OK;
}

static void
conf_clear_list(const mrd_opt *opt, void *into)
{
    if (opt->type == MRD_OPT_LIST || opt->type == MRD_OPT_PATHS)
        mrd_strlist_fini(conf_at(opt, into));
}

mrd_err
mrd_conf_defaults(const mrd_opt *table, size_t n, void *into, mrd_why *why)
{
    for (size_t i = 0; i < n; i++) {
        mrd_err err;

        if (table[i].def == NULL)
            continue;
        if ((err = set_option(&table[i], into, mrd_str_of(table[i].def), why)) != MRD_OK)
            return err;
    }
    return MRD_OK;
}

mrd_err
mrd_conf_env(const mrd_opt *table, size_t n, void *into, mrd_why *why)
{
    for (size_t i = 0; i < n; i++) {
        const char *value = table[i].env == NULL ? NULL : getenv(table[i].env);
        mrd_err err;

        if (value == NULL || *value == '\0')
            continue;
        conf_clear_list(&table[i], into);
        if ((err = set_option(&table[i], into, mrd_str_of(value), why)) != MRD_OK)
            return mrd_why_prefix(why, err, "environment variable %s", table[i].env);
    }
    return MRD_OK;
}

static const mrd_opt *
conf_find(const mrd_opt *table, size_t n, mrd_str name)
{
    for (size_t i = 0; i < n; i++) {
        if (table[i].type != MRD_OPT_HEAD && mrd_str_is(name, table[i].name))
            return &table[i];
    }
    return NULL;
}

/* Options of other programs that users may type by habit (`word`), and the options of Meridian with
 * the same purpose (`name`). A table is needed, because the names are not similar. */
static const struct {
    const char *word, *name;
} called[] = {
    { "output-format", "json" },
    { "format", "json" },
    { "output", "json" },
    { "from", "start" },
    { "since", "start" },
    { "begin", "start" },
    { "to", "end" },
    { "until", "end" },
    { "pid", "process-id" },
    { "pid", "filter-process" },
    { "filter-process", "process-id" },
    { "pids", "process-id" },
    { "nc", "core" },
    { "nc", "system-trace-filter-neuron-core" },
    { "node", "instance-id" },
    { "nodes", "instance-id" },
    { "nodes", "system-trace-filter-instance-id" },
    { "hosts", "instance-id" },
    { "time", "duration" },
    { "seconds", "duration" },
    { "outdir", "output-dir" },
    { "group-by", "system-trace-primary-group" },
    { "last", "limit" },
    { "newest", "limit" },
    { "count", "limit" },
    { "max", "limit" },
    { "every", "all" },
};

/* Returns the option that the user probably means. `word` is an option of another program, or the
 * name of an advanced option without "advanced.". Returns NULL if no option fits. For the word
 * "output" the result "json" is only a guess, because "output" may also mean "output-dir". The
 * caller therefore suggests the result only if no option has a similar name. */
static const char *
conf_called(const mrd_opt *table, size_t n, const char *word)
{
    for (size_t i = 0; i < n; i++) {
        if (mrd_opt_is_advanced(&table[i]) &&
            strcmp(table[i].name + strlen(MRD_OPT_ADVANCED), word) == 0)
            return table[i].name;
    }
    for (size_t i = 0; i < MRD_COUNT(called); i++) {
        if (strcmp(called[i].word, word) == 0 &&
            conf_find(table, n, mrd_str_of(called[i].name)) != NULL)
            return called[i].name;
    }
    return NULL;
}

/* Returns the option that has `word` as one of its choices, or NULL. For example, "csv" finds an
 * option with the choices "text,csv". */
static const char *
conf_chosen(const mrd_opt *table, size_t n, const char *word)
{
    size_t len = strlen(word);

    for (size_t i = 0; i < n; i++) {
        const char *at = table[i].type == MRD_OPT_CHOICE ? table[i].arg : NULL;

        if (!mrd_opt_is_listed(&table[i]))
            continue;
        for (; at != NULL && *at != '\0'; at += strcspn(at, ","), at += *at == ',') {
            if (strcspn(at, ",") == len && strncmp(at, word, len) == 0)
                return table[i].name;
        }
    }
    return NULL;
}

/* Options that every program handles itself, before it parses its table. */
static const char *const built_in[] = { "help", "version" };

/* Reports an unknown option. `dashes` is "--", or "" for a name in a configuration file, which can
 * contain only names of the table. */
static mrd_err
conf_unknown(const mrd_opt *table, size_t n, mrd_str name, const char *dashes, mrd_why *why)
{
    const char *names[256];
    /* The message does not show the option's value, which may be a secret in the wrong place. */
    char word[65], guess[MRD_NEAR_TEXT];
    const char *is;
    size_t count = 0;

    for (size_t i = 0; i < n && count < MRD_COUNT(names); i++) {
        if (mrd_opt_is_listed(&table[i]) || mrd_opt_is_advanced(&table[i]))
            names[count++] = table[i].name;
    }
    for (size_t i = 0; i < MRD_COUNT(built_in) && *dashes != '\0' && count < MRD_COUNT(names); i++)
        names[count++] = built_in[i];
    snprintf(word, sizeof(word), MRD_STR_FMT, MRD_STR_ARG(name));
    for (size_t i = 0; i < MRD_COUNT(built_in) && *dashes != '\0'; i++) {
        if (mrd_str_is(name, built_in[i]))
            return mrd_why_set(why, MRD_INVALID, 0, "--%s has a value: expected --%s alone", word,
                               word);
    }
    mrd_near_text(word, names, count, dashes, guess);
    is = conf_called(table, n, word);
    if (is != NULL && strcmp(is, "json") == 0 && conf_find(table, n, MRD_STR("html")) != NULL)
        snprintf(guess, sizeof(guess), ": did you mean %sjson or %shtml?", dashes, dashes);
    else if (is != NULL && (strcmp(is, "json") != 0 || *guess == '\0'))
        snprintf(guess, sizeof(guess), ": did you mean %s%s?", dashes, is);
    else if (*dashes != '\0' && (is = conf_chosen(table, n, word)) != NULL)
        snprintf(guess, sizeof(guess), ": did you mean --%s %s?", is, word);
    return mrd_why_set(why, MRD_INVALID, 0, "unknown option '%s%s'%s", dashes, word,
                       *guess == '\0' ? " (--help lists them)" : guess);
}

mrd_err
mrd_conf_file(const mrd_opt *table, size_t n, void *into, const char *path, mrd_why *why)
{
    mrd_json *doc = NULL;
    mrd_err err = mrd_json_load(path, &doc, why);
    const char *key;
    mrd_json *value;
    void *it;

    if (err != MRD_OK)
        return err;
    if (!mrd_json_is_object(doc)) {
        err = mrd_why_set(why, MRD_TYPE, 0, "%s: expected a JSON object of options", path);
        goto out;
    }
    for (it = mrd_json_iter(doc); it != NULL; it = mrd_json_iter_next(doc, it)) {
        const mrd_opt *opt;
        size_t count;

        key = mrd_json_iter_key(it);
        value = mrd_json_iter_value(it);
        if ((opt = conf_find(table, n, mrd_str_of(key))) == NULL) {
            err = conf_unknown(table, n, mrd_str_of(key), "", why);
            mrd_why_prefix(why, err, "%s", path);
            goto out;
        }
        conf_clear_list(opt, into);
        count = mrd_json_is_array(value) ? mrd_json_size(value) : 1;
        for (size_t i = 0; i < count; i++) {
            char scratch[64];
            mrd_str text;

            err = mrd_json_text(mrd_json_is_array(value) ? mrd_json_at(value, i) : value, scratch,
                                &text);
            if (err != MRD_OK)
                mrd_why_set(why, err, 0, "%s: '%s' must be text, a number or a truth value", path,
                            key);
            else if ((err = set_option(opt, into, text, why)) != MRD_OK)
                mrd_why_prefix(why, err, "%s", path);
            if (err != MRD_OK)
                goto out;
        }
    }
out:
    mrd_json_free(doc);
    return err;
}

/* State of parsing one argv. */
typedef struct {
    const mrd_opt *table;
    size_t n;
    void *into;
    int argc;
    char *const *argv;
    int at;
    /* for each option: true after this command line has set it; only the first value clears a
     * list */
    bool seen[256];
} conf_run;

/* Returns true for an empty value, which is probably an unset shell variable ("$JOB"). Such a value
 * is refused: an empty list would select everything, and an empty path would mean the root
 * directory. */
static bool
conf_means_nothing(const mrd_opt *opt, const char *value)
{
    bool path = opt->type == MRD_OPT_STR && opt->arg != NULL &&
                (strcmp(opt->arg, "DIR") == 0 || strcmp(opt->arg, "FILE") == 0);

    return (opt->type == MRD_OPT_LIST && value[strspn(value, ",")] == '\0') ||
           ((path || opt->type == MRD_OPT_PATHS) && *value == '\0');
}

static mrd_err
conf_apply(conf_run *run, const mrd_opt *opt, const char *value, mrd_why *why)
{
    size_t row = (size_t) (opt - run->table);

    if (value == NULL && opt->type == MRD_OPT_BOOL)
        value = "1";
    if (value == NULL && (opt->flags & MRD_OPT_OPTIONAL) != 0)
        value = opt->implied == NULL ? "1" : opt->implied;
    if (value == NULL && run->at + 1 < run->argc)
        value = run->argv[++run->at];
    if (value == NULL)
        return mrd_why_set(why, MRD_INVALID, 0, "--%s needs a value: --%s %s", opt->name, opt->name,
                           opt->arg == NULL ? "VALUE" : opt->arg);
    if (conf_means_nothing(opt, value))
        return mrd_why_set(why, MRD_INVALID, 0,
                           "--%s is given and empty: give it a value (--%s %s), or leave it out",
                           opt->name, opt->name, opt->arg == NULL ? "VALUE" : opt->arg);
    if (row < MRD_COUNT(run->seen) && !run->seen[row]) {
        run->seen[row] = true;
        conf_clear_list(opt, run->into);
    }
    return set_option(opt, run->into, mrd_str_of(value), why);
}

static mrd_err
conf_long(conf_run *run, const char *word, mrd_why *why)
{
    const char *eq = strchr(word + 2, '=');
    mrd_str name = { word + 2, eq == NULL ? strlen(word + 2) : (size_t) (eq - word - 2) };
    const mrd_opt *opt = conf_find(run->table, run->n, name);

    if (opt == NULL && mrd_str_starts(name, "no-") && eq == NULL) {
        opt = conf_find(run->table, run->n, (mrd_str){ name.p + 3, name.len - 3 });
        if (opt != NULL && opt->type == MRD_OPT_BOOL)
            return conf_apply(run, opt, "0", why);
        opt = NULL;
    }
    if (opt == NULL)
        return conf_unknown(run->table, run->n, name, "--", why);
    return conf_apply(run, opt, eq == NULL ? NULL : eq + 1, why);
}

/* Reports an error if a long option has only one dash, like "-output-dir x". */
static mrd_err
conf_one_dash(const conf_run *run, const char *word, mrd_why *why)
{
    mrd_str name = { word + 1, strcspn(word + 1, "=") };

    bool known = conf_find(run->table, run->n, name) != NULL;

    for (size_t i = 0; i < MRD_COUNT(built_in); i++)
        known = known || mrd_str_is(name, built_in[i]);
    if (name.len < 3 || !known)
        return MRD_OK;
    return mrd_why_set(why, MRD_INVALID, 0, "unknown option '-%.*s': did you mean --%.*s?",
                       (int) name.len, name.p, (int) name.len, name.p);
}

static mrd_err
conf_short(conf_run *run, const char *word, mrd_why *why)
{
    if (conf_one_dash(run, word, why) != MRD_OK)
        return MRD_INVALID;
    for (const char *c = word + 1; *c != '\0'; c++) {
        const mrd_opt *opt = NULL;
        mrd_err err;

        for (size_t i = 0; i < run->n && opt == NULL; i++) {
            if (run->table[i].letter == *c)
                opt = &run->table[i];
        }
        if (opt == NULL && strlen(word + 1) >= 3)
            return conf_unknown(run->table, run->n, (mrd_str){ word + 1, strcspn(word + 1, "=") },
                                "--", why);
        if (opt == NULL)
            return mrd_why_set(why, MRD_INVALID, 0, "unknown option '-%c' (--help lists them)", *c);
        if (opt->type == MRD_OPT_BOOL) {
            if ((err = conf_apply(run, opt, NULL, why)) != MRD_OK)
                return err;
            continue;
        }
        return conf_apply(run, opt, c[1] == '\0' ? NULL : c[1] == '=' ? c + 2 : c + 1, why);
    }
    return MRD_OK;
}

mrd_err
mrd_conf_args(const mrd_opt *table, size_t n, void *into, int argc, char *const *argv,
              bool stop_at_word, mrd_strlist *ret_rest, mrd_why *why)
{
    conf_run run = { table, n, into, argc, argv, 1, { false } };
    bool words = false;

    for (; run.at < argc; run.at++) {
        const char *word = argv[run.at];
        mrd_err err;

        if (!words && strcmp(word, "--") == 0) {
            words = true;
            continue;
        }
        if (words || word[0] != '-' || word[1] == '\0') {
            words = words || stop_at_word;
            err = mrd_strlist_add(ret_rest, mrd_str_of(word));
        } else if (word[1] == '-') {
            err = conf_long(&run, word, why);
        } else {
            err = conf_short(&run, word, why);
        }
        if (err != MRD_OK)
            return err;
    }
    return MRD_OK;
}

static mrd_err
env_and_args(const mrd_opt *table, size_t n, void *into, int argc, char *const *argv, mrd_why *why)
{
    mrd_strlist words = { 0 };
    mrd_err err = mrd_conf_env(table, n, into, why);

    if (err == MRD_OK)
        err = mrd_conf_args(table, n, into, argc, argv, false, &words, why);
    if (err == MRD_OK && words.n > 0)
        err = mrd_why_set(why, MRD_INVALID, 0,
                          "unexpected argument '%s' (--help lists the options)", words.v[0]);
    mrd_strlist_fini(&words);
    return err;
}

mrd_err
mrd_conf_program(const mrd_opt *table, size_t n, void *into, int argc, char *const *argv,
                 mrd_why *why)
{
    const mrd_opt *config = conf_find(table, n, MRD_STR("config"));
    mrd_err err = mrd_conf_defaults(table, n, into, why);
    char *path;

    if (err == MRD_OK)
        err = env_and_args(table, n, into, argc, argv, why);
    if (err != MRD_OK || config == NULL || *(char **) conf_at(config, into) == NULL)
        return err;
    /* the environment and the command line override the file, so apply them again */
    if ((path = mrd_str_dup(mrd_str_of(*(char **) conf_at(config, into)))) == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "--config");
    if ((err = mrd_conf_file(table, n, into, path, why)) == MRD_OK)
        err = env_and_args(table, n, into, argc, argv, why);
    free(path);
    return err;
}

void
mrd_conf_fini(const mrd_opt *table, size_t n, void *into)
{
    for (size_t i = 0; i < n; i++) {
        if (table[i].type == MRD_OPT_STR) {
            free(*(char **) conf_at(&table[i], into));
            *(char **) conf_at(&table[i], into) = NULL;
        }
        conf_clear_list(&table[i], into);
    }
}
