#include "trace/sink/report/report_text.h"

#include <inttypes.h>

#include "base/obj.h"
#include "base/plain.h"
#include "trace/sink/text.h"

/* Writes the label of a row. A label that is too long for `width` gets a line of its own, because
 * cutting it would hide node or pid. */
void
mrd_report_text_cell(mrd_report_text *text, mrd_str label, size_t width)
{
    mrd_text_cell(&text->text, label, MRD_TEXT_WIDTH - 2, false);
    if (mrd_text_columns(label) > width)
        mrd_buf_fmt(&text->text, "\n  %*s", (int) width, "");
    for (size_t n = mrd_text_columns(label); n < width; n++)
        mrd_buf_byte(&text->text, ' ');
}

void
mrd_report_text_label(const mrd_report_text *text, const mrd_report_worker *worker, mrd_buf *to)
{
    const mrd_catalog *cat = text->common.env->catalog;
    const mrd_process *process = mrd_catalog_borrow_process(cat, worker->process);

    if (process->rank != MRD_NONE)
        mrd_buf_fmt(to, "rank %" PRId64 " ", process->rank);
    if (worker->lnc_idx != MRD_NONE || worker->device_idx != MRD_NONE)
        mrd_buf_fmt(to, "%s %" PRId64 " ", worker->lnc_idx != MRD_NONE ? "NC" : "device",
                    worker->lnc_idx != MRD_NONE ? worker->lnc_idx : worker->device_idx);
    if (worker->ranks.len > 0)
        mrd_buf_fmt(to, MRD_STR_FMT " ", MRD_STR_ARG(worker->ranks));
    if (!text->one_node)
        mrd_buf_fmt(to, MRD_STR_FMT " ", MRD_STR_ARG(mrd_catalog_text(cat, process->instance_id)));
    if (process->flags & MRD_PROC_NO_PID)
        mrd_buf_str(to, mrd_catalog_text(cat, process->name));
    else
        mrd_buf_fmt(to, "pid %" PRId64 " ", process->process_id);
    if ((process->flags & (MRD_PROC_ALIKE | MRD_PROC_NO_PID)) == MRD_PROC_ALIKE)
        mrd_buf_str(to, mrd_catalog_text(cat, process->name));
    /* drops spaces at the end, which a process without a name leaves */
    while (to->len > 0 && to->p[to->len - 1] == ' ')
        to->len--;
}

void
mrd_report_text_worker(mrd_report_text *text, const mrd_report_worker *worker)
{
    mrd_buf label = { 0 };

    mrd_report_text_label(text, worker, &label);
    mrd_buf_text(&text->text, "  ");
    mrd_report_text_cell(text, (mrd_str){ (const char *) label.p, label.len },
                         MRD_REPORT_TEXT_LABEL);
    mrd_text_done(&label, &text->text);
}

/* Returns true if a line may end at this position. That is at a space, except between a number and
 * its unit. */
static bool
may_break(mrd_str str, size_t at)
{
    static const char *const units[] = { "%", "ns", "us", "ms", "s", "min", "h" };
    size_t n = 0;

    if (str.p[at] != ' ')
        return false;
    if (at == 0 || str.p[at - 1] < '0' || str.p[at - 1] > '9')
        return true;
    while (at + 1 + n < str.len &&
           (str.p[at + 1 + n] == '%' || (str.p[at + 1 + n] >= 'a' && str.p[at + 1 + n] <= 'z')))
        n++;
    for (size_t i = 0; i < MRD_COUNT(units); i++) {
        if (mrd_str_is((mrd_str){ str.p + at + 1, n }, units[i]))
            return false;
    }
    return true;
}

/* Writes a text in lines broken at spaces. `head` is in the first line, and the text is indented by
 * `indent` columns. */
static void
put_wrapped(mrd_buf *to, size_t indent, const char *head, mrd_str text)
{
    mrd_buf plain = { 0 };
    size_t at = 0;
    mrd_str str;

    mrd_plain_text(&plain, text);
    str = mrd_str_of(mrd_buf_cstr(&plain));
    while (str.len > 0 && str.p[str.len - 1] == ' ')
        str.len--;
    mrd_buf_fmt(to, "%-*s", (int) indent, head);
    while (at < str.len) {
        size_t take = str.len - at, room = MRD_TEXT_WIDTH - indent;

        if (take > room) {
            for (take = room; take > 0 && !may_break(str, at + take); take--)
                ;
            take = take == 0 ? room : take;
            /* do not cut inside a UTF-8 character */
            while (take > 1 && ((unsigned char) str.p[at + take] & 0xc0) == 0x80)
                take--;
        }
        mrd_buf_fmt(to, "%*s%.*s\n", at == 0 ? 0 : (int) indent, "", (int) take, str.p + at);
        for (at += take; at < str.len && str.p[at] == ' '; at++)
            ;
    }
    mrd_text_done(&plain, to);
}

void
mrd_report_text_wrapped(mrd_buf *to, const char *head, mrd_str str)
{
    put_wrapped(to, 11, head, str);
}

void
mrd_report_text_note(mrd_buf *to, const char *text)
{
    put_wrapped(to, 2, "", mrd_str_of(text));
}
