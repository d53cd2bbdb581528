/* trace/table/rows_args.c - writes the arguments of an event as the members of a JSON object. */
#include <stdio.h>
#include <stdlib.h>

#include "base/conf/json.h"
#include "trace/table/rows_int.h"

static void
put_double(mrd_buf *to, double d)
{
    char text[40];

    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, d);
        if (strtod(text, NULL) == d)
            break;
    }
    mrd_buf_text(to, text);
    if (strpbrk(text, ".en") == NULL)
        mrd_buf_text(to, ".0");
}

static void
put_quoted(mrd_buf *to, mrd_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        if ((unsigned char) text.p[i] < 0x20 || (unsigned char) text.p[i] >= 0x7f ||
            text.p[i] == '"' || text.p[i] == '\\') {
            mrd_json_quote(to, text);
            return;
        }
    }
    mrd_buf_byte(to, '"');
    mrd_buf_str(to, text);
    mrd_buf_byte(to, '"');
}

void
mrd_rows_arg(mrd_rows *rows, const mrd_arg *arg)
{
    mrd_buf *to = &rows->text;

    mrd_buf_byte(to, to->len == 0 ? '{' : ',');
    put_quoted(to, mrd_catalog_text(rows->cat, arg->key));
    mrd_buf_byte(to, ':');
    switch ((mrd_arg_type) arg->type) {
    case MRD_ARG_INT:
        mrd_buf_i64(to, arg->v.i);
        break;
    case MRD_ARG_UINT:
        mrd_buf_u64(to, arg->v.u);
        break;
    case MRD_ARG_DOUBLE:
        put_double(to, arg->v.d);
        break;
    case MRD_ARG_STR:
        put_quoted(to, mrd_catalog_text(rows->cat, arg->v.sid));
        break;
    case MRD_ARG_TEXT:
        put_quoted(to, (mrd_str){ arg->v.text, arg->len });
        break;
    case MRD_ARG_BOOL:
        mrd_buf_text(to, arg->v.u != 0 ? "true" : "false");
        break;
    case MRD_ARG_JSON:
        mrd_buf_add(to, arg->v.text, arg->len);
        break;
    }
}
