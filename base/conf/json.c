#include "base/conf/json.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <jansson.h>

#include "base/sys/file.h"

static mrd_err
json_check_depth(const json_t *json, int depth)
{
    size_t i;
    json_t *child;
    const char *key;

    if (depth > 64)
        return MRD_DEPTH;
    if (json_is_array(json)) {
        json_array_foreach(json, i, child)
        {
            if (json_check_depth(child, depth + 1) != MRD_OK)
                return MRD_DEPTH;
        }
    } else if (json_is_object(json)) {
        void *it = json_object_iter((json_t *) (uintptr_t) json);

        for (; it != NULL; it = json_object_iter_next((json_t *) (uintptr_t) json, it)) {
            key = json_object_iter_key(it);
            (void) key;
            if (json_check_depth(json_object_iter_value(it), depth + 1) != MRD_OK)
                return MRD_DEPTH;
        }
    }
    return MRD_OK;
}

mrd_err
mrd_json_parse(mrd_str text, const char *what, mrd_json **ret_doc, mrd_why *why)
{
    return mrd_json_parse_up_to(text, MRD_JSON_MAX, what, ret_doc, why);
}

/* Returns jansson's error message. Some of its messages name a flag of jansson's C interface, which
 * means nothing to a user. For these, returns a text of our own. */
static const char *
reason(const json_error_t *error)
{
    return json_error_code(error) == json_error_null_character ||
                   json_error_code(error) == json_error_null_byte_in_key
               ? "a text contains the character \\u0000, which is not allowed"
               : error->text;
}

mrd_err
mrd_json_parse_up_to(mrd_str text, size_t max, const char *what, mrd_json **ret_doc, mrd_why *why)
{
    json_error_t error;
    json_t *doc;

    if (text.len > max)
        return mrd_why_set(why, MRD_LIMIT, 0, "%s: %zu bytes, at most %zu are read", what, text.len,
                           max);
    doc = json_loadb(text.p, text.len, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &error);
    if (doc == NULL)
        return mrd_why_set(why, MRD_SYNTAX, 0, "%s: line %d, column %d: %s", what, error.line,
                           error.column, reason(&error));
    if (json_check_depth(doc, 0) != MRD_OK) {
        json_decref(doc);
        return mrd_why_set(why, MRD_DEPTH, 0, "%s: nested more than 64 levels", what);
    }
    *ret_doc = doc;
    return MRD_OK;
}

mrd_err
mrd_json_load(const char *path, mrd_json **ret_doc, mrd_why *why)
{
    return mrd_json_load_up_to(path, MRD_JSON_MAX, ret_doc, why);
}

mrd_err
mrd_json_load_up_to(const char *path, size_t max, mrd_json **ret_doc, mrd_why *why)
{
    mrd_buf buf = { 0 };
    mrd_err err = mrd_file_read(path, max, &buf, why);

    if (err == MRD_OK)
        err = mrd_json_parse_up_to((mrd_str){ (const char *) buf.p, buf.len }, max, path, ret_doc,
                                   why);
    mrd_buf_fini(&buf);
    return err;
}

void
mrd_json_free(mrd_json *doc)
{
    json_decref(doc);
}

bool
mrd_json_is_object(const mrd_json *json)
{
    return json_is_object(json);
}

bool
mrd_json_is_array(const mrd_json *json)
{
    return json_is_array(json);
}

mrd_json_type
mrd_json_type_of(const mrd_json *json)
{
    return json == NULL || json_is_null(json) ? MRD_JSON_NULL
           : json_is_boolean(json)            ? MRD_JSON_BOOL
           : json_is_integer(json)            ? MRD_JSON_INT
           : json_is_real(json)               ? MRD_JSON_REAL
           : json_is_string(json)             ? MRD_JSON_TEXT
           : json_is_array(json)              ? MRD_JSON_ARRAY
                                              : MRD_JSON_OBJECT;
}

int64_t
mrd_json_int_of(const mrd_json *json)
{
    return json_is_integer(json) ? (int64_t) json_integer_value(json) : 0;
}

size_t
mrd_json_size(const mrd_json *json)
{
    return json_is_array(json) ? json_array_size(json) : json_object_size(json);
}

mrd_json *
mrd_json_at(const mrd_json *array, size_t i)
{
    return json_array_get(array, i);
}

mrd_json *
mrd_json_get(const mrd_json *object, const char *key)
{
    return json_object_get(object, key);
}

void *
mrd_json_iter(mrd_json *object)
{
    return json_object_iter(object);
}

void *
mrd_json_iter_next(mrd_json *object, void *it)
{
    return json_object_iter_next(object, it);
}

const char *
mrd_json_iter_key(void *it)
{
    return json_object_iter_key(it);
}

mrd_json *
mrd_json_iter_value(void *it)
{
    return json_object_iter_value(it);
}

const char *
mrd_json_str(const mrd_json *object, const char *key, const char *def)
{
    const json_t *json = json_object_get(object, key);

    return json_is_string(json) ? json_string_value(json) : def;
}

int64_t
mrd_json_int(const mrd_json *object, const char *key, int64_t def)
{
    const json_t *json = json_object_get(object, key);

    return json_is_integer(json) ? (int64_t) json_integer_value(json) : def;
}

double
mrd_json_num(const mrd_json *object, const char *key, double def)
{
    const json_t *json = json_object_get(object, key);

    return json_is_number(json) ? json_number_value(json) : def;
}

bool
mrd_json_bool(const mrd_json *object, const char *key, bool def)
{
    const json_t *json = json_object_get(object, key);

    return json_is_boolean(json) ? json_is_true(json) : def;
}

mrd_err
mrd_json_text(const mrd_json *json, char scratch[64], mrd_str *ret_text)
{
    if (json_is_string(json)) {
        *ret_text = (mrd_str){ json_string_value(json), json_string_length(json) };
        return MRD_OK;
    }
    if (json_is_integer(json))
        snprintf(scratch, 64, "%" JSON_INTEGER_FORMAT, json_integer_value(json));
    else if (json_is_real(json))
        snprintf(scratch, 64, "%.17g", json_real_value(json));
    else if (json_is_boolean(json))
        snprintf(scratch, 64, "%d", json_is_true(json));
    else
        return MRD_TYPE;
    *ret_text = mrd_str_of(scratch);
    return MRD_OK;
}

mrd_json *
mrd_json_new_object(void)
{
    return json_object();
}

mrd_json *
mrd_json_new_array(void)
{
    return json_array();
}

/* Makes a JSON string from text that is not valid UTF-8. Each invalid byte becomes U+FFFD. The text
 * may be a foreign name, or may have been cut within a character. */
static json_t *
string_mended(const char *text)
{
    mrd_str rest = mrd_str_of(text);
    mrd_buf good = { 0 };
    json_t *json = NULL;
    size_t at;

    for (; !mrd_utf8_valid(rest, &at); rest = (mrd_str){ rest.p + at + 1, rest.len - at - 1 }) {
        mrd_buf_add(&good, rest.p, at);
        mrd_buf_text(&good, "\xEF\xBF\xBD");
    }
    mrd_buf_add(&good, rest.p, rest.len);
    if (good.err == MRD_OK)
        json = json_stringn((const char *) good.p, good.len);
    mrd_buf_fini(&good);
    return json;
}

mrd_json *
mrd_json_new_str(const char *text)
{
    json_t *json = text == NULL ? NULL : json_string(text);

    if (json == NULL && text != NULL)
        json = string_mended(text);
    return json == NULL ? json_null() : json;
}

mrd_json *
mrd_json_new_int(int64_t v)
{
    return json_integer(v);
}

mrd_json *
mrd_json_new_num(double v)
{
    json_t *real = json_real(v);

    return real == NULL ? json_null() : real; /* not a number */
}

mrd_json *
mrd_json_new_bool(bool v)
{
    return json_boolean(v);
}

mrd_json *
mrd_json_copy(const mrd_json *json)
{
    return json_deep_copy(json);
}

mrd_err
mrd_json_set(mrd_json *object, const char *key, mrd_json *value)
{
    return json_object_set_new(object, key, value) == 0 ? MRD_OK : MRD_NOMEM;
}

mrd_err
mrd_json_append(mrd_json *array, mrd_json *value)
{
    return json_array_append_new(array, value) == 0 ? MRD_OK : MRD_NOMEM;
}

static mrd_err
rename_here(json_t *object, const mrd_json_renamed *table, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        json_t *json = json_object_get(object, table[i].old);

        if (json == NULL || json_object_get(object, table[i].name) != NULL)
            continue;
        if (json_object_set(object, table[i].name, json) != 0)
            return MRD_NOMEM;
        (void) json_object_del(object, table[i].old);
    }
    return MRD_OK;
}

mrd_err
mrd_json_rename(mrd_json *doc, const mrd_json_renamed *table, size_t n)
{
    mrd_err err = json_is_object(doc) ? rename_here(doc, table, n) : MRD_OK;

    for (size_t i = 0; json_is_array(doc) && i < json_array_size(doc) && err == MRD_OK; i++)
        err = mrd_json_rename(json_array_get(doc, i), table, n);
    if (!json_is_object(doc))
        return err;
    for (void *it = json_object_iter(doc); it != NULL && err == MRD_OK;
         it = json_object_iter_next(doc, it))
        err = mrd_json_rename(json_object_iter_value(it), table, n);
    return err;
}

static int
json_sink(const char *data, size_t len, void *to)
{
    mrd_buf_add(to, data, len);
    return 0;
}

void
mrd_json_write(const mrd_json *doc, bool pretty, mrd_buf *to)
{
    if (json_dump_callback(doc, json_sink, to,
                           JSON_ENCODE_ANY | (pretty ? JSON_INDENT(2) : JSON_COMPACT)) != 0 &&
        to->err == MRD_OK)
        to->err = MRD_NOMEM;
}

void
mrd_json_quote(mrd_buf *to, mrd_str text)
{
    static const char hex[] = "0123456789abcdef";
    size_t at = 0, bad;

    mrd_buf_byte(to, '"');
    while (!mrd_utf8_valid((mrd_str){ text.p + at, text.len - at }, &bad)) {
        mrd_buf mark = *to;

        /* Quote the valid part by a recursive call, and remove the quotes that this call adds. */
        mrd_json_quote(to, (mrd_str){ text.p + at, bad });
        if (to->err == MRD_OK) {
            memmove(to->p + mark.len, to->p + mark.len + 1, to->len - mark.len - 1);
            to->len -= 2;
        }
        mrd_buf_text(to, "\xef\xbf\xbd");
        at += bad + 1;
    }
    for (size_t run = at; at <= text.len; at++) {
        unsigned char c = at < text.len ? (unsigned char) text.p[at] : '"';
        const char *esc;

        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        mrd_buf_add(to, text.p + run, at - run);
        run = at + 1;
        if (at == text.len)
            break;
        esc = c == '"' ? "\\\"" : c == '\\' ? "\\\\" : c == '\n' ? "\\n" : c == '\t' ? "\\t" : NULL;
        if (esc != NULL) {
            mrd_buf_text(to, esc);
        } else {
            mrd_buf_text(to, "\\u00");
            mrd_buf_byte(to, (uint8_t) hex[c >> 4]);
            mrd_buf_byte(to, (uint8_t) hex[c & 15]);
        }
    }
    mrd_buf_byte(to, '"');
}
