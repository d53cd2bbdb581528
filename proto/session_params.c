#include "proto/session_params.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/obj.h"

const mrd_session_param mrd_session_param_table[MRD_SESSION_PARAMS] = {
#define MRD_PARAM(ident_, kind_, request_, manifest_, ...)                                         \
    { .kind = MRD_PARAM_##kind_,                                                                   \
      .offset = offsetof(mrd_session_params, ident_),                                              \
      .request = (request_),                                                                       \
      .manifest = (manifest_),                                                                     \
      __VA_ARGS__ },
#include "proto/session_params.def"
#undef MRD_PARAM
};

const mrd_select_row mrd_select_table[] = {
#define MRD_SELECT(ident_, kind_, key_, option_, arg_, help_)                                      \
    { .key = (key_),                                                                               \
      .option = (option_),                                                                         \
      .arg = (arg_),                                                                               \
      .help = (help_),                                                                             \
      .offset = offsetof(mrd_select, ident_) },
#include "proto/session_params.def"
#undef MRD_SELECT
};
const size_t mrd_select_rows = MRD_COUNT(mrd_select_table);

static const mrd_session_param *
row_at(size_t i)
{
    return &mrd_session_param_table[i];
}

/* Returns a pointer to the parameter's value in `params`. `row->kind` determines the type of the
 * value. */
static void *
value_at(const mrd_session_param *row, const mrd_session_params *params)
{
    return (void *) ((uintptr_t) params + row->offset);
}

/* ---- Values as numbers and texts ---- */

static int64_t
number(const mrd_session_param *row, const mrd_session_params *params)
{
    const void *v = value_at(row, params);

    switch (row->kind) {
    case MRD_PARAM_CHOICE:
        return *(const int *) v;
    case MRD_PARAM_BOOL:
        return *(const bool *) v;
    case MRD_PARAM_DUR:
    case MRD_PARAM_SIZE:
        return *(const int64_t *) v;
    case MRD_PARAM_TEXT:
    case MRD_PARAM_LIST:
        break;
    }
    return 0;
}

static void
set_number(const mrd_session_param *row, mrd_session_params *params, int64_t n)
{
    void *v = value_at(row, params);

    if (row->kind == MRD_PARAM_CHOICE)
        *(int *) v = (int) n;
    else if (row->kind == MRD_PARAM_BOOL)
        *(bool *) v = n != 0;
    else
        *(int64_t *) v = n;
}

/* Returns the i-th word of a comma-separated list. Returns an empty text if the list has fewer
 * words. */
static mrd_str
word_at(const char *list, int64_t i)
{
    const char *end;

    for (; i > 0 && *list != '\0'; i--) {
        list += strcspn(list, ",");
        list += *list == ',';
    }
    end = list + strcspn(list, ",");
    return (mrd_str){ list, (size_t) (end - list) };
}

static mrd_err
choice_of(const mrd_session_param *row, mrd_str text, int64_t *ret_n)
{
    for (int64_t i = 0; word_at(row->arg, i).len > 0; i++) {
        mrd_str word = word_at(row->arg, i);

        if (word.len == text.len && memcmp(word.p, text.p, text.len) == 0) {
            *ret_n = i;
            return MRD_OK;
        }
    }
    return MRD_UNSUPPORTED;
}

static mrd_err
number_of(const mrd_session_param *row, mrd_str text, int64_t *ret_n)
{
    switch (row->kind) {
    case MRD_PARAM_CHOICE:
        return choice_of(row, text, ret_n);
    case MRD_PARAM_DUR:
        return mrd_num_dur(text, ret_n);
    case MRD_PARAM_SIZE:
        return mrd_num_size(text, ret_n);
    case MRD_PARAM_BOOL:
        *ret_n = mrd_str_is(text, "1") || mrd_str_is(text, "true");
        return *ret_n != 0 || mrd_str_is(text, "0") || mrd_str_is(text, "false") ? MRD_OK
                                                                                 : MRD_INVALID;
    case MRD_PARAM_TEXT:
    case MRD_PARAM_LIST:
        break;
    }
    return MRD_TYPE;
}

static mrd_err
set_text(const mrd_session_param *row, mrd_session_params *params, mrd_str text)
{
    char **v = value_at(row, params), *copy = mrd_str_dup(text);

    if (copy == NULL)
        return MRD_NOMEM;
    free(*v);
    *v = copy;
    return MRD_OK;
}

static const char *
text_of(const mrd_session_param *row, const mrd_session_params *params)
{
    char *const *v = value_at(row, params);

    return *v == NULL ? row->def : *v;
}

static const mrd_strlist *
list_of(const mrd_session_param *row, const mrd_session_params *params)
{
    return value_at(row, params);
}

static bool
is_default(const mrd_session_param *row, const mrd_session_params *params)
{
    int64_t n;

    if (row->kind == MRD_PARAM_TEXT)
        return strcmp(text_of(row, params), row->def) == 0;
    if (row->kind == MRD_PARAM_LIST)
        return list_of(row, params)->n == 0;
    return number_of(row, mrd_str_of(row->def), &n) == MRD_OK && n == number(row, params);
}

/* Returns whether the parameter has an effect. A parameter that depends on a list has no effect
 * while that list is empty. */
static bool
matters(const mrd_session_param *row, const mrd_session_params *params)
{
    return row->with == 0 || ((const mrd_strlist *) ((uintptr_t) params + row->with - 1))->n > 0;
}

const char *
mrd_session_param_word(const mrd_session_param *row, int choice, char text[MRD_PARAM_WORD_TEXT])
{
    mrd_str word = word_at(row->arg, choice < 0 ? INT64_MAX : choice);

    snprintf(text, MRD_PARAM_WORD_TEXT, MRD_STR_FMT, MRD_STR_ARG(word));
    return text;
}

/* ---- Messages about invalid parameters ---- */

static mrd_err
say_type(const mrd_session_param *row, mrd_why *why)
{
    static const char *const texts[] = {
        [MRD_PARAM_TEXT] = "text",
        [MRD_PARAM_CHOICE] = "text",
        [MRD_PARAM_BOOL] = "true or false",
        [MRD_PARAM_DUR] = "a duration like \"30s\" or a number of nanoseconds",
        [MRD_PARAM_SIZE] = "an integer",
        [MRD_PARAM_LIST] = "a list",
    };

    return mrd_why_set(why, MRD_TYPE, 0, "%s must be %s", row->request, texts[row->kind]);
}

static mrd_err
say_range(const mrd_session_param *row, mrd_why *why)
{
    char low[MRD_DUR_TEXT];

    if (row->kind == MRD_PARAM_SIZE)
        return mrd_why_set(why, MRD_RANGE, 0, "%s must be an integer from %" PRId64 " to %" PRId64,
                           row->request, row->min, row->max);
    return mrd_why_set(why, MRD_RANGE, 0,
                       "%s must be a duration like \"30s\" or a number of nanoseconds, at least %s "
                       "and at most %lld days",
                       row->request, mrd_dur_text(row->min, low),
                       (long long) (row->max / (86400 * MRD_SEC)));
}

static bool
in_range(const mrd_session_param *row, int64_t n)
{
    return (row->kind != MRD_PARAM_DUR && row->kind != MRD_PARAM_SIZE) ||
           (n >= row->min && n <= row->max);
}

/* Returns whether n is in the parameter's range or is its default. A default below the range means
 * that no value was given. */
static bool
is_taken(const mrd_session_param *row, int64_t n)
{
    int64_t def;

    return in_range(row, n) || (number_of(row, mrd_str_of(row->def), &def) == MRD_OK && n == def);
}

int64_t
mrd_session_param_min(const mrd_session_param *row)
{
    int64_t def = row->min;

    return number_of(row, mrd_str_of(row->def), &def) == MRD_OK && def < row->min ? def : row->min;
}

static mrd_err
say_choice(const mrd_session_param *row, mrd_str text, mrd_why *why)
{
    return mrd_why_set(why, MRD_INVALID, 0, "%s must be one of %s, not '%.*s'", row->request,
                       row->arg, (int) (text.len > 40 ? 40 : text.len), text.p);
}

static mrd_err
check_text(const mrd_session_param *row, mrd_str text, mrd_why *why)
{
    uint64_t n;

    if (row->check == MRD_PARAM_NODES && !mrd_str_is(text, "any") && !mrd_str_is(text, "all") &&
        (mrd_num_u64(text, &n) != MRD_OK || n > 1000000))
        return mrd_why_set(why, MRD_INVALID, 0, "%s must be \"all\", \"any\" or a number of nodes",
                           row->request);
    if (text.len > (size_t) row->max)
        return mrd_why_set(why, MRD_LIMIT, 0, "%s must be shorter than %" PRId64 " bytes",
                           row->request, row->max + 1);
    return MRD_OK;
}

static mrd_err
add_word(const mrd_session_param *row, mrd_session_params *params, mrd_str word, mrd_why *why)
{
    mrd_strlist *list = value_at(row, params);
    mrd_err err;

    if (word.len == 0 || word.len > MRD_PARAM_WORD_MAX)
        return mrd_why_set(why, MRD_TYPE, 0, "%s must be a list of names or patterns",
                           row->request);
    if (list->n >= (size_t) row->max)
        return mrd_why_set(why, MRD_LIMIT, 0, "%s must be a list of at most %" PRId64 " names",
                           row->request, row->max);
    if ((err = mrd_strlist_add(list, word)) != MRD_OK)
        return mrd_why_set(why, err, 0, "%s", row->request);
    return MRD_OK;
}

/* Sets a parameter of any kind from one text, as written in an option. */
static mrd_err
set(const mrd_session_param *row, mrd_session_params *params, mrd_str text, mrd_why *why)
{
    int64_t count = 0;
    mrd_err err;

    if (row->kind == MRD_PARAM_LIST)
        return add_word(row, params, text, why);
    if (row->kind == MRD_PARAM_TEXT) {
        if ((err = check_text(row, text, why)) == MRD_OK &&
            (err = set_text(row, params, text)) != MRD_OK)
            mrd_why_set(why, err, 0, "%s", row->request);
        return err;
    }
    err = number_of(row, text, &count);
    if (err != MRD_OK && row->kind == MRD_PARAM_CHOICE)
        return say_choice(row, text, why);
    if (err != MRD_OK && row->kind == MRD_PARAM_BOOL)
        return say_type(row, why);
    if (err != MRD_OK || !is_taken(row, count))
        return say_range(row, why);
    set_number(row, params, count);
    return MRD_OK;
}

/* ---- All parameters of a session ---- */

mrd_err
mrd_session_params_init(mrd_session_params *params)
{
    mrd_err err = MRD_OK;

    *params = (mrd_session_params){ 0 };
    for (size_t i = 0; i < MRD_SESSION_PARAMS && err == MRD_OK; i++) {
        if (row_at(i)->def != NULL)
            err = set(row_at(i), params, mrd_str_of(row_at(i)->def), NULL);
    }
    return err;
}

void
mrd_session_params_init_numbers(mrd_session_params *params)
{
    for (size_t i = 0; i < MRD_SESSION_PARAMS; i++) {
        if (row_at(i)->kind != MRD_PARAM_TEXT && row_at(i)->kind != MRD_PARAM_LIST)
            (void) set(row_at(i), params, mrd_str_of(row_at(i)->def), NULL);
    }
}

void
mrd_session_params_fini(mrd_session_params *params)
{
    for (size_t i = 0; i < MRD_SESSION_PARAMS; i++) {
        if (row_at(i)->kind == MRD_PARAM_TEXT)
            free(*(char **) value_at(row_at(i), params));
        else if (row_at(i)->kind == MRD_PARAM_LIST)
            mrd_strlist_fini(value_at(row_at(i), params));
    }
    *params = (mrd_session_params){ 0 };
}

mrd_err
mrd_session_params_copy(mrd_session_params *to, const mrd_session_params *from)
{
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < MRD_SESSION_PARAMS && err == MRD_OK; i++) {
        const mrd_session_param *row = row_at(i);

        if (row->kind == MRD_PARAM_TEXT)
            err = set_text(row, to, mrd_str_of(text_of(row, from)));
        else if (row->kind == MRD_PARAM_LIST)
            for (size_t k = 0; k < list_of(row, from)->n && err == MRD_OK; k++)
                err = mrd_strlist_add(value_at(row, to), mrd_str_of(list_of(row, from)->v[k]));
        else
            set_number(row, to, number(row, from));
    }
    return err;
}

mrd_err
mrd_session_params_set(mrd_session_params *params, const char *request, const char *text,
                       mrd_why *why)
{
    for (size_t i = 0; i < MRD_SESSION_PARAMS; i++) {
        if (strcmp(row_at(i)->request, request) == 0)
            return set(row_at(i), params, mrd_str_of(text), why);
    }
    return mrd_why_set(why, MRD_NOTFOUND, 0, "a session has no parameter '%s'", request);
}

bool
mrd_session_params_ask_runtime(const mrd_session_params *asked)
{
    return asked->device_profiles != MRD_PROFILES_NONE || asked->inspect.n > 0;
}

/* Returns INVALID with the message that `member` is allowed only together with `what`. */
static mrd_err
say_without(const char *member, const char *what, mrd_why *why)
{
    return mrd_why_set(why, MRD_INVALID, 0, "%s goes with %s", member, what);
}

mrd_err
mrd_session_params_check(const mrd_session_params *asked, mrd_why *why)
{
#define NAME(ident) mrd_session_param_table[MRD_PARAM_INDEX_##ident].request
    bool model = asked->device_profiles == MRD_PROFILES_MODEL;
    char word[MRD_PARAM_WORD_TEXT];

    if (!model && asked->profile_models.n > 0)
        return say_without(NAME(profile_models), "device profiles of mode model", why);
    if (!model && asked->profile_execution != 1)
        return say_without(NAME(profile_execution), "device profiles of mode model", why);
    if (!model && asked->inspect.n == 0 && asked->profile_warmup != 0)
        return say_without(NAME(profile_warmup), "device profiles of mode model, or an inspect",
                           why);
    if (asked->inspect_events != 0 &&
        !mrd_strlist_has(&asked->inspect, MRD_STR("system_profile")) &&
        !mrd_strlist_has(&asked->inspect, MRD_STR("all")))
        return say_without(NAME(inspect_events), "an inspect of system_profile", why);
    if (asked->inspect.n > 0 && (model || asked->device_profiles == MRD_PROFILES_CONTINUOUS))
        return mrd_why_set(
            why, MRD_INVALID, 0,
            "%s and %s '%s' do not go together: the runtime profiles for one of them at a time",
            NAME(inspect), NAME(device_profiles),
            mrd_session_param_word(&mrd_session_param_table[MRD_PARAM_INDEX_device_profiles],
                                   asked->device_profiles, word));
    if (asked->mode != MRD_MODE_RECORDER && asked->slow_step_percent != 0)
        return say_without(NAME(slow_step_percent), "mode recorder", why);
    if (asked->mode != MRD_MODE_RECORDER && asked->slow_collective != 0)
        return say_without(NAME(slow_collective), "mode recorder", why);
    if (asked->slow_step_percent == 0 &&
        !is_default(&mrd_session_param_table[MRD_PARAM_INDEX_step_name], asked))
        return say_without(NAME(step_name), NAME(slow_step_percent), why);
    if (asked->to_step != 0 && asked->to_step < asked->from_step)
        return mrd_why_set(why, MRD_INVALID, 0,
                           "%s %" PRId64 " lies before %s %" PRId64 ": nothing would be recorded",
                           NAME(to_step), asked->to_step, NAME(from_step), asked->from_step);
    return MRD_OK;
#undef NAME
}

/* ---- JSON ---- */

static mrd_err
list_from_json(const mrd_session_param *row, mrd_session_params *params, const mrd_json *json,
               mrd_why *why)
{
    mrd_err err = MRD_OK;

    if (mrd_json_size(json) > (size_t) row->max)
        return mrd_why_set(why, MRD_TYPE, 0, "%s must be a list of at most %" PRId64 " names",
                           row->request, row->max);
    for (size_t k = 0; k < mrd_json_size(json) && err == MRD_OK; k++) {
        const mrd_json *v = mrd_json_at(json, k);
        char scratch[64];
        mrd_str word = { "", 0 };

        if (mrd_json_type_of(v) == MRD_JSON_TEXT)
            (void) mrd_json_text(v, scratch, &word);
        err = add_word(row, params, word, why);
    }
    return err;
}

static bool
type_fits(const mrd_session_param *row, mrd_json_type type)
{
    switch (row->kind) {
    case MRD_PARAM_TEXT:
        return type == MRD_JSON_TEXT || (row->check == MRD_PARAM_NODES && type == MRD_JSON_INT);
    case MRD_PARAM_CHOICE:
        return type == MRD_JSON_TEXT;
    case MRD_PARAM_BOOL:
        return type == MRD_JSON_BOOL;
    case MRD_PARAM_DUR:
        return type == MRD_JSON_TEXT || type == MRD_JSON_INT;
    case MRD_PARAM_SIZE:
        return type == MRD_JSON_INT;
    case MRD_PARAM_LIST:
        break;
    }
    return type == MRD_JSON_ARRAY;
}

/* Sets a parameter from a JSON value. `fits` decides whether a number is accepted. */
static mrd_err
from_json(const mrd_session_param *row, mrd_session_params *params, const mrd_json *json,
          bool (*fits)(const mrd_session_param *row, int64_t n), mrd_why *why)
{
    mrd_json_type type = mrd_json_type_of(json);
    bool number = row->kind == MRD_PARAM_DUR || row->kind == MRD_PARAM_SIZE;
    int64_t count = mrd_json_int_of(json);
    char scratch[64];
    mrd_str text = { "", 0 };

    if (!type_fits(row, type))
        return say_type(row, why);
    if (row->kind == MRD_PARAM_LIST)
        return list_from_json(row, params, json, why);
    (void) mrd_json_text(json, scratch, &text);
    /* for a choice, an empty text means the same as a missing member */
    if (row->kind == MRD_PARAM_CHOICE && text.len == 0)
        return MRD_OK;
    if (!number)
        return set(row, params, text, why);
    if (type == MRD_JSON_TEXT && number_of(row, text, &count) != MRD_OK)
        return say_range(row, why);
    if (!fits(row, count))
        return say_range(row, why);
    set_number(row, params, count);
    return MRD_OK;
}

mrd_err
mrd_session_params_from_json(mrd_session_params *params, const mrd_json *body, mrd_why *why)
{
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < MRD_SESSION_PARAMS && err == MRD_OK; i++) {
        const mrd_json *json = mrd_json_get(body, row_at(i)->request);

        if (json != NULL)
            err = from_json(row_at(i), params, json, in_range, why);
    }
    return err;
}

void
mrd_session_params_from_manifest(mrd_session_params *params, const mrd_json *manifest)
{
    for (size_t i = 0; i < MRD_SESSION_PARAMS; i++) {
        const mrd_json *json = mrd_json_get(manifest, row_at(i)->manifest);

        if (json != NULL)
            (void) from_json(row_at(i), params, json, is_taken, NULL);
    }
}

static mrd_json *
to_json(const mrd_session_param *row, const mrd_session_params *params)
{
    char word[MRD_PARAM_WORD_TEXT];
    mrd_json *json;

    switch (row->kind) {
    case MRD_PARAM_TEXT:
        return mrd_json_new_str(text_of(row, params));
    case MRD_PARAM_CHOICE:
        return mrd_json_new_str(mrd_session_param_word(row, (int) number(row, params), word));
    case MRD_PARAM_BOOL:
        return mrd_json_new_bool(number(row, params) != 0);
    case MRD_PARAM_LIST:
        json = mrd_json_new_array();
        for (size_t k = 0; k < list_of(row, params)->n; k++)
            mrd_json_append(json, mrd_json_new_str(list_of(row, params)->v[k]));
        return json;
    case MRD_PARAM_DUR:
    case MRD_PARAM_SIZE:
        break;
    }
    return mrd_json_new_int(number(row, params));
}

void
mrd_session_params_put_json(const mrd_session_params *params, mrd_json *body)
{
    for (size_t i = 0; i < MRD_SESSION_PARAMS; i++) {
        if (!is_default(row_at(i), params))
            mrd_json_set(body, row_at(i)->request, to_json(row_at(i), params));
    }
}

void
mrd_session_params_put_manifest(const mrd_session_params *params, mrd_json *manifest)
{
    for (size_t i = 0; i < MRD_SESSION_PARAMS; i++) {
        if (matters(row_at(i), params) && !(row_at(i)->sparse && is_default(row_at(i), params)))
            mrd_json_set(manifest, row_at(i)->manifest, to_json(row_at(i), params));
    }
}

/* ---- Conversion to and from the message Control ---- */

static void
put_field(const mrd_session_param *row, const mrd_session_params *params, Mrd__Control *to)
{
    void *field = (void *) ((uintptr_t) to + row->field - 1);

    if (row->kind == MRD_PARAM_TEXT)
        /* the cast is harmless, because packing only reads the text */
        *(char **) field = (char *) (uintptr_t) text_of(row, params);
    else if (row->kind == MRD_PARAM_CHOICE)
        *(int *) field = (int) number(row, params);
    else
        *(int64_t *) field = number(row, params);
}

static void
put_label(const mrd_session_param *row, const char *value, mrd_session_labels *room,
          Mrd__Control *to)
{
    Mrd__Label *label = &room->labels[to->n_options];

    if (to->n_options == MRD_SESSION_LABELS)
        return;
    mrd__label__init(label);
    label->key = (char *) (uintptr_t) row->label;
    label->value = (char *) (uintptr_t) value;
    room->list[to->n_options++] = label;
}

static void
put_labels(const mrd_session_param *row, const mrd_session_params *params, mrd_session_labels *room,
           Mrd__Control *to)
{
    char *text = room->numbers[row - mrd_session_param_table];

    if (row->kind == MRD_PARAM_LIST) {
        for (size_t k = 0; k < list_of(row, params)->n && k < (size_t) row->max; k++)
            put_label(row, list_of(row, params)->v[k], room, to);
        return;
    }
    if (row->kind == MRD_PARAM_CHOICE)
        mrd_session_param_word(row, (int) number(row, params), text);
    else
        snprintf(text, sizeof(room->numbers[0]), "%" PRId64, number(row, params));
    put_label(row, row->kind == MRD_PARAM_TEXT ? text_of(row, params) : text, room, to);
}

void
mrd_session_params_put_wire(const mrd_session_params *params, mrd_session_labels *room,
                            Mrd__Control *to)
{
    to->options = room->list; /* cppcheck-suppress ctuuninitvar ; room is written here */
    to->n_options = 0;
    for (size_t i = 0; i < MRD_SESSION_PARAMS; i++) {
        if (row_at(i)->field != 0)
            put_field(row_at(i), params, to);
        else if (row_at(i)->label != NULL && matters(row_at(i), params) &&
                 !is_default(row_at(i), params))
            put_labels(row_at(i), params, room, to);
    }
}

static mrd_err
from_field(const mrd_session_param *row, mrd_session_params *params, const Mrd__Control *from,
           mrd_why *why)
{
    const void *field = (const void *) ((uintptr_t) from + row->field - 1);
    int64_t n;

    if (row->kind == MRD_PARAM_TEXT)
        return set(row, params, mrd_str_of(*(char *const *) field), why);
    n = row->kind == MRD_PARAM_CHOICE ? *(const int *) field : *(const int64_t *) field;
    if (row->kind == MRD_PARAM_CHOICE && word_at(row->arg, n < 0 ? INT64_MAX : n).len == 0)
        return mrd_why_set(why, MRD_UNSUPPORTED, 0,
                           "%s number %" PRId64 ": this agent (release %s) knows %s", row->request,
                           n, MRD_RELEASE, row->arg);
    /* 0 means that the sender gave no value, so the default stays */
    if (n != 0 && !is_taken(row, n))
        return say_range(row, why);
    set_number(row, params, n);
    return MRD_OK;
}

static mrd_err
from_label(const mrd_session_param *row, mrd_session_params *params, mrd_str value, mrd_why *why)
{
    int64_t n;

    if (row->kind == MRD_PARAM_CHOICE && choice_of(row, value, &n) != MRD_OK)
        return mrd_why_set(why, MRD_UNSUPPORTED, 0, "%s '%.*s': this agent (release %s) knows %s",
                           row->request, (int) (value.len > 20 ? 20 : value.len), value.p,
                           MRD_RELEASE, row->arg);
    if (row->kind != MRD_PARAM_DUR && row->kind != MRD_PARAM_SIZE)
        return set(row, params, value, why);
    if (mrd_num_i64(value, &n) != MRD_OK || !is_taken(row, n))
        return say_range(row, why);
    set_number(row, params, n);
    return MRD_OK;
}

mrd_err
mrd_session_params_from_wire(mrd_session_params *params, const Mrd__Control *from, mrd_why *why)
{
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < MRD_SESSION_PARAMS && err == MRD_OK; i++) {
        if (row_at(i)->field != 0)
            err = from_field(row_at(i), params, from, why);
    }
    for (size_t k = 0; k < from->n_options && err == MRD_OK; k++) {
        for (size_t i = 0; i < MRD_SESSION_PARAMS; i++) {
            if (row_at(i)->label == NULL || strcmp(row_at(i)->label, from->options[k]->key) != 0)
                continue;
            err = from_label(row_at(i), params, mrd_str_of(from->options[k]->value), why);
            break;
        }
    }
    return err;
}
