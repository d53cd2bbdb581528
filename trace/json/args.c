#include "trace/json/args.h"

#include <math.h>
#include <stdlib.h>

#include "base/num.h"
#include "base/vec.h"

/* size of the arrays `keys` and `names`, a power of two */
#define ARGS_KEYS 256u

/* A cached result of mrd_args_key(). The cache compares texts, which is faster than hashing
 * them. */
typedef struct {
    mrd_str text; /* borrowed from the string table; empty if the element is unused */
    mrd_sid sid;
} args_name;

/* Statistics of one argument key. `seen` counts arguments with this key that were strings, and
 * `fresh` those strings that were not in the string table before. */
typedef struct {
    mrd_sid key;
    uint32_t seen, fresh;
} args_key;

struct mrd_args {
    mrd_strtab *strings;
    mrd_sid cut_key;
    mrd_arg *v;
    size_t n, cap;
    /* Bytes of TEXT and JSON arguments. An argument first has an offset into this buffer in v.u,
     * because the buffer may move. mrd_args_view() replaces it by a pointer. */
    mrd_buf text;
    size_t resolved;
    uint64_t cut;
    mrd_err err;
    args_key keys[ARGS_KEYS];
    args_name names[ARGS_KEYS];
};

mrd_args *
mrd_args_new(mrd_strtab *strings)
{
    mrd_args *args = calloc(1, sizeof(*args));

    if (args == NULL)
        return NULL;
    args->strings = strings;
    args->cap = 32;
    args->v = malloc(args->cap * sizeof(*args->v));
    if (args->v == NULL || !mrd_buf_room(&args->text, 4096)) {
        mrd_args_free(args);
        return NULL;
    }
    args->cut_key = mrd_strtab_addz(strings, MRD_ARGS_CUT_KEY);
    return args;
}

void
mrd_args_free(mrd_args *args)
{
    if (args == NULL)
        return;
    mrd_buf_fini(&args->text);
    free(args->v);
    free(args);
}

void
mrd_args_reset(mrd_args *args)
{
    args->n = args->resolved = 0;
    args->cut = 0;
    args->err = MRD_OK;
    mrd_buf_reset(&args->text);
}

/* Returns true if `count` bytes are equal. Inline, because nearly all texts are short. */
static inline bool
same_bytes(const char *a, const char *b, size_t count)
{
    if (count >= 8 &&
        count <= 16) { /* compare the first and the last eight bytes, which may overlap */
        uint64_t a0, a1, b0, b1;

        memcpy(&a0, a, 8), memcpy(&a1, a + count - 8, 8);
        memcpy(&b0, b, 8), memcpy(&b1, b + count - 8, 8);
        return ((a0 ^ b0) | (a1 ^ b1)) == 0;
    }
    if (count >= 4 && count < 8) {
        uint32_t a0, a1, b0, b1;

        memcpy(&a0, a, 4), memcpy(&a1, a + count - 4, 4);
        memcpy(&b0, b, 4), memcpy(&b1, b + count - 4, 4);
        return ((a0 ^ b0) | (a1 ^ b1)) == 0;
    }
    return memcmp(a, b, count) == 0;
}

mrd_sid
mrd_args_key(mrd_args *args, mrd_str text)
{
    args_name *name;
    size_t at;

    if (text.len == 0)
        return MRD_SID_EMPTY;
    at = text.len * 31 + (unsigned char) text.p[0] * 7u +
         (unsigned char) text.p[text.len - 1] * 17u + (unsigned char) text.p[text.len / 2];
    name = &args->names[at & (ARGS_KEYS - 1)];
    if (name->text.len == text.len && same_bytes(name->text.p, text.p, text.len))
        return name->sid;
    name->sid = mrd_strtab_add(args->strings, text);
    name->text = mrd_strtab_get(args->strings, name->sid);
    return name->sid;
}

/* Adds an argument and returns it. Returns NULL if there are too many (`cut` counts them), or if
 * out of memory (see `err`). */
static inline mrd_arg *
args_add(mrd_args *args, mrd_sid key, mrd_arg_type type)
{
    mrd_arg *arg;

    if (args->n == MRD_ARGS_MAX) {
        args->cut++;
        return NULL;
    }
    if (!MRD_VEC_ROOM(args->v, args->n, args->cap, 1)) {
        args->err = MRD_NOMEM;
        return NULL;
    }
    arg = &args->v[args->n++];
    arg->key = key;
    arg->type = (unsigned) type & 0xf;
    arg->len = 0;
    return arg;
}

void
mrd_args_int(mrd_args *args, mrd_sid key, int64_t v)
{
    mrd_arg *arg = args_add(args, key, MRD_ARG_INT);

    if (arg != NULL)
        arg->v.i = v;
}

void
mrd_args_uint(mrd_args *args, mrd_sid key, uint64_t v)
{
    mrd_arg *arg;

    if (v <= INT64_MAX) {
        mrd_args_int(args, key, (int64_t) v);
        return;
    }
    if ((arg = args_add(args, key, MRD_ARG_UINT)) != NULL)
        arg->v.u = v;
}

void
mrd_args_double(mrd_args *args, mrd_sid key, double v)
{
    mrd_arg *arg;

    if (!isfinite(v)) {
        mrd_args_str(args, key,
                     isnan(v) ? MRD_STR("NaN")
                     : v > 0  ? MRD_STR("Infinity")
                              : MRD_STR("-Infinity"));
        return;
    }
    if ((arg = args_add(args, key, MRD_ARG_DOUBLE)) != NULL)
        arg->v.d = v;
}

void
mrd_args_bool(mrd_args *args, mrd_sid key, bool v)
{
    mrd_arg *arg = args_add(args, key, MRD_ARG_BOOL);

    if (arg != NULL)
        arg->v.u = v;
}

void
mrd_args_sid(mrd_args *args, mrd_sid key, mrd_sid sid)
{
    mrd_arg *arg = args_add(args, key, MRD_ARG_STR);

    if (arg != NULL)
        arg->v.sid = sid;
}

static void
args_text(mrd_args *args, mrd_sid key, mrd_arg_type type, mrd_str str)
{
    size_t at = args->text.len;
    mrd_arg *arg;

    /* mrd_args_view() has replaced offsets by pointers. Turn them into offsets again, because the
     * buffer may move when it grows. */
    while (args->resolved > 0) {
        arg = &args->v[--args->resolved];
        if (mrd_arg_has_text(arg))
            arg->v.u = (uint64_t) (arg->v.text - (const char *) args->text.p);
    }

    if (str.len > MRD_ARGS_TEXT - at) {
        args->cut++;
        return;
    }
    mrd_buf_str(&args->text, str);
    if (args->text.err != MRD_OK)
        args->err = args->text.err;
    else if ((arg = args_add(args, key, type)) != NULL) {
        arg->len = (unsigned) str.len & MRD_ARG_TEXT_MAX;
        arg->v.u = at;
    }
}

void
mrd_args_str(mrd_args *args, mrd_sid key, mrd_str str)
{
    args_key *k = &args->keys[key & (ARGS_KEYS - 1)];
    mrd_sid sid;

    if (str.len > MRD_ARGS_REPEAT) {
        args_text(args, key, MRD_ARG_TEXT, str);
        return;
    }
    if (k->key != key)
        *k = (args_key){ .key = key };
    k->seen++;
    if (k->fresh >= 256 && k->fresh > k->seen / 2) {
        args_text(args, key, MRD_ARG_TEXT, str);
        return;
    }
    sid = mrd_strtab_find(args->strings, str);
    if (sid == MRD_SID_EMPTY && str.len > 0) {
        k->fresh++;
        sid = mrd_strtab_try(args->strings, str);
    }
    if (sid == MRD_SID_FULL)
        args_text(args, key, MRD_ARG_TEXT, str);
    else
        mrd_args_sid(args, key, sid);
}

void
mrd_args_json(mrd_args *args, mrd_sid key, mrd_str str)
{
    if (str.len > MRD_ARGS_JSON)
        args->cut++;
    else
        args_text(args, key, MRD_ARG_JSON, str);
}

/* Adds a JSON number as an integer or a double. A number that neither can represent is kept as
 * text. */
static void
args_number(mrd_args *args, mrd_sid key, mrd_str str)
{
    int64_t i;
    uint64_t u;
    double d;

    if (mrd_num_digits(str, &u))
        mrd_args_uint(args, key, u);
    else if (!mrd_str_is(str, "-0") && mrd_num_i64(str, &i) == MRD_OK)
        mrd_args_int(args, key, i);
    else if (mrd_num_u64(str, &u) == MRD_OK)
        mrd_args_uint(args, key, u);
    else if ((memchr(str.p, '.', str.len) != NULL || memchr(str.p, 'e', str.len) != NULL ||
              memchr(str.p, 'E', str.len) != NULL || mrd_str_is(str, "-0")) &&
             mrd_num_double(str, &d) == MRD_OK)
        mrd_args_double(args, key, d);
    else
        args_text(args, key, MRD_ARG_JSON, str);
}

static mrd_err
args_container(mrd_args *args, mrd_sid key, mrd_json_reader *reader)
{
    mrd_str raw;
    mrd_err err = mrd_json_raw(reader, MRD_ARGS_JSON, &raw);

    if (err == MRD_LIMIT && mrd_json_reader_err(reader, NULL) == MRD_OK) {
        args->cut++;
        return MRD_OK;
    }
    if (err == MRD_OK)
        args_text(args, key, MRD_ARG_JSON, raw);
    return err;
}

mrd_err
mrd_args_value(mrd_args *args, mrd_sid key, mrd_json_reader *reader, mrd_jr_type type, mrd_str text)
{
    switch (type) {
    case MRD_JR_ERROR:
    case MRD_JR_END:
        return mrd_json_reader_err(reader, NULL);
    case MRD_JR_OBJECT:
    case MRD_JR_ARRAY:
        return args_container(args, key, reader);
    case MRD_JR_NUMBER:
        args_number(args, key, text);
        break;
    case MRD_JR_TRUE:
    case MRD_JR_FALSE:
        mrd_args_bool(args, key, type == MRD_JR_TRUE);
        break;
    case MRD_JR_NULL:
        args_text(args, key, MRD_ARG_JSON, MRD_STR("null"));
        break;
    case MRD_JR_STRING:
    case MRD_JR_WORD:
        mrd_args_str(args, key, text);
        break;
    }
    return MRD_OK;
}

const mrd_arg *
mrd_args_view(mrd_args *args, size_t *ret_n)
{
    if (args->cut > 0) {
        uint64_t cut = args->cut;

        args->cut = 0;
        if (args->n == MRD_ARGS_MAX)
            args->n--, cut++;
        mrd_args_uint(args, args->cut_key, cut);
    }
    for (; args->resolved < args->n; args->resolved++) {
        mrd_arg *arg = &args->v[args->resolved];

        if (mrd_arg_has_text(arg))
            arg->v.text = (const char *) args->text.p + arg->v.u;
    }
    *ret_n = args->n;
    return args->v;
}

const mrd_arg *
mrd_args_find(mrd_args *args, mrd_sid key)
{
    size_t n;
    const mrd_arg *arg = mrd_args_view(args, &n);

    for (size_t i = 0; i < n; i++) {
        if (arg[i].key == key)
            return &arg[i];
    }
    return NULL;
}

mrd_err
mrd_args_err(const mrd_args *args)
{
    return args->err;
}
