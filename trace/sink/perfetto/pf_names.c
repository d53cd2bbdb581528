#include "trace/sink/perfetto/pf_names.h"

#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

static const uint32_t intern_tags[MRD_PF_KINDS] = { PF_INTERN_CATEGORY, PF_INTERN_NAME,
                                                    PF_INTERN_ARG_NAME, PF_INTERN_ARG_STRING };
static const uint32_t iid_tags[MRD_PF_KINDS] = { PF_EVENT_CATEGORY_IID, PF_EVENT_NAME_IID,
                                                 PF_ARG_NAME_IID, PF_ARG_STRING_IID };

void
mrd_pf_names_init(mrd_pf_names *names, const mrd_strtab *strings)
{
    *names = (mrd_pf_names){ .strings = strings };
}

void
mrd_pf_names_fini(mrd_pf_names *names)
{
    for (size_t kind = 0; kind < MRD_PF_KINDS; kind++)
        free(names->field[kind]);
    mrd_buf_fini(&names->fresh);
    *names = (mrd_pf_names){ 0 };
}

void
mrd_pf_names_again(mrd_pf_names *names)
{
    for (size_t kind = 0; kind < MRD_PF_KINDS; kind++) {
        if (names->n[kind] > 0)
            memset(names->field[kind], 0, names->n[kind] * sizeof(*names->field[kind]));
        names->next[kind] = 0;
    }
    mrd_buf_reset(&names->fresh);
}

/* Cuts a text to at most max bytes, at the end of a character, and counts the cut texts. */
static mrd_str
text_cut(mrd_pf_names *names, mrd_str str, size_t max)
{
    if (str.len <= max)
        return str;
    names->cut++;
    str.len = max;
    while (str.len > 0 && ((unsigned char) str.p[str.len] & 0xc0) == 0x80)
        str.len--;
    return str;
}

static bool
names_grow(mrd_pf_names *names, mrd_pf_kind kind, mrd_sid sid)
{
    size_t n = mrd_strtab_count(names->strings);
    if (MRD_VEC_REACH(names->field[kind], names->n[kind], n > sid ? n - 1 : sid))
        return true;
    names->err = MRD_NOMEM;
    return false;
}

mrd_pb_field
mrd_pf_names_add(mrd_pf_names *names, mrd_pf_kind kind, mrd_sid sid)
{
    mrd_str text = text_cut(names, mrd_strtab_get(names->strings, sid), MRD_PF_TEXT_MAX);
    size_t entry;

    if (sid >= names->n[kind] && !names_grow(names, kind, sid))
        return 0;
    names->field[kind][sid] = mrd_pb_field_of(iid_tags[kind], ++names->next[kind]);
    entry = mrd_pb_open(&names->fresh, intern_tags[kind]);
    mrd_pb_u64(&names->fresh, PF_INTERN_IID, names->next[kind]);
    mrd_pb_str(&names->fresh, PF_INTERN_TEXT, text);
    mrd_pb_close(&names->fresh, entry);
    if (names->fresh.err != MRD_OK) /* the text of this id is missing in the file */
        names->err = MRD_NOMEM;
    return names->field[kind][sid];
}

static void
arg_text(mrd_pf_names *names, mrd_buf *event, mrd_pb_field key, mrd_str text, mrd_pb_field mark)
{
    size_t body;
    uint8_t *bytes;

    if (text.len > MRD_PF_TEXT_MAX)
        mark = 0; /* the JSON was cut and is no longer valid, so write it as text */
    text = text_cut(names, text, MRD_PF_TEXT_MAX);
    body = mrd_pb_field_len(key) + mrd_pb_bytes_len(text.len) + mrd_pb_field_len(mark);
    if (!mrd_buf_room(event, body + 2 * MRD_PB_VARINT_MAX + sizeof(mark)))
        return;
    bytes = event->p + event->len;
    *bytes++ = PF_EVENT_ANNOTATION;
    bytes = mrd_pb_varint(bytes, body);
    bytes = mrd_pb_put_field(bytes, key);
    bytes = mrd_pb_put_bytes(bytes, PF_ARG_STRING, text.p, text.len);
    bytes = mrd_pb_put_field(bytes, mark);
    event->len = (size_t) (bytes - event->p);
}

/* Adds an argument with a value of at most ten bytes. The whole annotation is then below 128 bytes,
 * so that its length takes one byte. */
static void
arg_small(mrd_buf *event, mrd_pb_field key, uint32_t tag, uint64_t v)
{
    uint8_t *bytes, *length;

    if (!mrd_buf_room(event, 32))
        return;
    bytes = event->p + event->len;
    *bytes++ = PF_EVENT_ANNOTATION;
    length = bytes++;
    bytes = mrd_pb_put_field(bytes, key);
    bytes = mrd_pb_varint(bytes, tag);
    bytes = (tag & 7) == PF_FIXED64 ? mrd_pb_fixed64(bytes, v) : mrd_pb_varint(bytes, v);
    *length = (uint8_t) (bytes - length - 1);
    event->len = (size_t) (bytes - event->p);
}

static void
arg_interned(mrd_buf *event, mrd_pb_field key, mrd_pb_field text)
{
    mrd_pb_u64(event, PF_EVENT_ANNOTATION, mrd_pb_field_len(key) + mrd_pb_field_len(text));
    mrd_pb_field_add(event, key);
    mrd_pb_field_add(event, text);
}

static void
arg_add(mrd_pf_names *names, mrd_buf *event, const mrd_arg *arg)
{
    static const uint32_t tags[] = { [MRD_ARG_INT] = PF_ARG_INT,
                                     [MRD_ARG_UINT] = PF_ARG_UINT,
                                     [MRD_ARG_DOUBLE] = PF_ARG_DOUBLE,
                                     [MRD_ARG_BOOL] = PF_ARG_BOOL };
    mrd_pb_field key = mrd_pf_name(names, MRD_PF_ARG_NAME, arg->key), json;

    switch (arg->type) {
    case MRD_ARG_STR:
        arg_interned(event, key, mrd_pf_name(names, MRD_PF_ARG_STRING, arg->v.sid));
        break;
    case MRD_ARG_TEXT:
    /* JSON is written as text, because readers (at least up to v55) abort on [] in a JSON
     * annotation */
    case MRD_ARG_JSON:
        json = arg->type == MRD_ARG_JSON ? mrd_pb_field_of(PF_MERIDIAN_JSON, 1) : 0;
        arg_text(names, event, key, (mrd_str){ arg->v.text, arg->len }, json);
        break;
    default:
        arg_small(event, key, tags[arg->type], arg->v.u);
    }
}

void
mrd_pf_args(mrd_pf_names *names, mrd_buf *event, const mrd_arg *args, uint32_t count)
{
    size_t start = event->len;

    for (uint32_t i = 0; i < count; i++) {
        if (event->len - start + names->fresh.len > MRD_PF_ARGS_MAX) {
            mrd_pf_arg_int(event, "meridian.arguments_left_out", count - i);
            names->left_out += count - i;
            return;
        }
        if (args[i].type >= MRD_ARG_INT && args[i].type <= MRD_ARG_JSON)
            arg_add(names, event, &args[i]);
    }
}

void
mrd_pf_arg_int(mrd_buf *event, const char *name, int64_t v)
{
    size_t annotation = mrd_pb_open(event, PF_EVENT_ANNOTATION);

    mrd_pb_str(event, PF_ARG_NAME, mrd_str_of(name));
    mrd_pb_u64(event, PF_ARG_INT, (uint64_t) v);
    mrd_pb_close(event, annotation);
}

void
mrd_pf_arg_text(mrd_buf *event, const char *name, const char *text)
{
    size_t annotation = mrd_pb_open(event, PF_EVENT_ANNOTATION);

    mrd_pb_str(event, PF_ARG_NAME, mrd_str_of(name));
    mrd_pb_str(event, PF_ARG_STRING, mrd_str_of(text));
    mrd_pb_close(event, annotation);
}
