#include "trace/sink/text.h"

#include "base/plain.h"

#include <inttypes.h>
#include <stdio.h>

const char *
mrd_text_dur(uint64_t ns, char text[MRD_DUR_TEXT])
{
    if (ns < 60 * (uint64_t) MRD_SEC)
        return mrd_dur_text((int64_t) ns, text);
    snprintf(text, MRD_DUR_TEXT, "%llu.%llu s", (unsigned long long) (ns / MRD_SEC),
             (unsigned long long) (ns % MRD_SEC / (MRD_SEC / 10)));
    return text;
}

const char *
mrd_text_long(uint64_t ns, char text[MRD_DUR_TEXT])
{
    return ns < 3600 * (uint64_t) MRD_SEC || ns > INT64_MAX ? mrd_text_dur(ns, text)
                                                            : mrd_dur_text((int64_t) ns, text);
}

const char *
mrd_text_share(uint64_t part, uint64_t whole, char text[MRD_TEXT_SHARE])
{
    double share = whole == 0 ? 0 : 100.0 * (double) part / (double) whole;

    snprintf(text, MRD_TEXT_SHARE, whole == 0 ? "-" : "%.1f %%", share);
    return text;
}

size_t
mrd_text_columns(mrd_str str)
{
    size_t n = 0;

    for (size_t i = 0; i < str.len; i++)
        n += ((unsigned char) str.p[i] & 0xc0) != 0x80;
    return n;
}

void
mrd_text_cell(mrd_buf *to, mrd_str str, size_t width, bool pad)
{
    size_t have = mrd_text_columns(str), keep = have > width ? width - 3 : have, at = 0, hidden;

    for (size_t n = 0; at < str.len; at++) {
        unsigned char c = (unsigned char) str.p[at];

        if ((c & 0xc0) != 0x80 && n++ == keep)
            break;
        hidden = mrd_plain_hidden(str.p + at, str.len - at);
        mrd_buf_byte(to, hidden > 0 ? ' ' : c);
        at += hidden > 0 ? hidden - 1 : 0;
    }
    if (have > width)
        mrd_buf_text(to, "...");
    for (size_t n = have; pad && n < width; n++)
        mrd_buf_byte(to, ' ');
}

void
mrd_text_line(mrd_buf *to, const char *indent, mrd_str str)
{
    mrd_buf_text(to, indent);
    mrd_text_cell(to, str, MRD_TEXT_WIDTH - strlen(indent), false);
    mrd_buf_byte(to, '\n');
}

void
mrd_text_left_out(mrd_buf *to, size_t n, const char *what, const char *where)
{
    if (n > 0)
        mrd_buf_fmt(to, "  ... and %zu more %s (all are in %s)\n", n, what, where);
}

void
mrd_text_process(const mrd_catalog *cat, mrd_proc_id process, mrd_buf *to)
{
    const mrd_process *p = mrd_catalog_borrow_process(cat, process);

    if (p->flags & MRD_PROC_NODE)
        mrd_buf_text(to, "host");
    else if (p->flags & MRD_PROC_NO_PID)
        mrd_buf_str(to, mrd_catalog_text(cat, p->name));
    else
        mrd_buf_fmt(to, "pid %" PRId64, p->process_id);
    if (p->rank != MRD_NONE)
        mrd_buf_fmt(to, " rank %" PRId64, p->rank);
    if (p->name != MRD_SID_EMPTY && !(p->flags & MRD_PROC_NO_PID))
        mrd_buf_fmt(to, " " MRD_STR_FMT, MRD_STR_ARG(mrd_catalog_text(cat, p->name)));
}

void
mrd_text_node_process(const mrd_catalog *cat, mrd_proc_id process, mrd_buf *to)
{
    mrd_str node = mrd_catalog_text(cat, mrd_catalog_borrow_process(cat, process)->instance_id);

    mrd_buf_fmt(to, MRD_STR_FMT " / ", MRD_STR_ARG(node));
    mrd_text_process(cat, process, to);
}
