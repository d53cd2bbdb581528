#include "trace/sink/report/scope_memory_out.h"

#include <inttypes.h>
#include <stdio.h>

#include "trace/sink/group.h"
#include "trace/sink/text.h"

#define LABEL 40

const char *
mrd_memory_text(uint64_t bytes, char text[MRD_MEMORY_TEXT])
{
    static const char *const unit[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    double v = (double) bytes;
    size_t i = 0;

    while (v >= 1024 && i + 1 < sizeof(unit) / sizeof(unit[0])) {
        v /= 1024;
        i++;
    }
    snprintf(text, MRD_MEMORY_TEXT, i == 0 ? "%.0f %s" : "%.2f %s", v, unit[i]);
    return text;
}

static void
put_process(const mrd_catalog *cat, mrd_proc_id process, mrd_buf *to)
{
    const mrd_process *p = mrd_catalog_borrow_process(cat, process);
    mrd_buf line = { 0 };

    mrd_buf_fmt(&line, MRD_STR_FMT " / ", MRD_STR_ARG(mrd_catalog_text(cat, p->instance_id)));
    mrd_text_process(cat, process, &line);
    mrd_text_line(to, "  ", (mrd_str){ (const char *) line.p, line.len });
    mrd_text_done(&line, to);
}

void
mrd_scope_memory_text(mrd_scope_memory *m, const mrd_catalog *cat, size_t most, const char *where,
                      mrd_buf *to)
{
    size_t n;
    const mrd_scope_memory_row *r = mrd_scope_memory_rows(m, &n);

    if (n == 0)
        return;
    mrd_buf_fmt(to, "\n%-*s %6s %10s %10s %10s %10s %7s\n", LABEL, "Memory by scope", "", "current",
                "peak", "allocated", "freed", "count");
    for (size_t i = 0; i < n && i < most; i++) {
        char b[4][MRD_MEMORY_TEXT];

        if (i == 0 || r[i - 1].process != r[i].process)
            put_process(cat, r[i].process, to);
        mrd_buf_text(to, "    ");
        mrd_text_cell(to, r[i].scope, LABEL - 5, true);
        mrd_buf_fmt(to, "  " MRD_STR_FMT "%*s %10s %10s %10s %10s %7" PRIu64 "\n",
                    MRD_STR_ARG(r[i].place), 6 - (int) r[i].place.len, "",
                    mrd_memory_text(r[i].current, b[0]), mrd_memory_text(r[i].peak, b[1]),
                    mrd_memory_text(r[i].allocated, b[2]), mrd_memory_text(r[i].freed, b[3]),
                    r[i].count);
    }
    if (n > most)
        mrd_text_left_out(to, n - most, "scopes", where);
}

static void
put_u64(mrd_jw *w, mrd_str key, uint64_t v)
{
    mrd_jw_key(w, key);
    mrd_jw_u64(w, v);
}

void
mrd_scope_memory_json(mrd_scope_memory *m, const mrd_catalog *cat, mrd_jw *w)
{
    size_t n;
    const mrd_scope_memory_row *r = mrd_scope_memory_rows(m, &n);

    if (n == 0)
        return;
    MRD_JW_KEY(w, "memory_by_scope");
    mrd_jw_open(w, '[');
    for (size_t i = 0; i < n; i++) {
        const mrd_process *p = mrd_catalog_borrow_process(cat, r[i].process);

        mrd_jw_open(w, '{');
        MRD_JW_KEY(w, "instance_id");
        mrd_jw_sid(w, p->instance_id);
        MRD_JW_KEY(w, "process_id");
        mrd_jw_i64(w, p->process_id);
        MRD_JW_KEY(w, "scope");
        mrd_jw_str(w, r[i].scope);
        MRD_JW_KEY(w, "place");
        mrd_jw_str(w, r[i].place);
        put_u64(w, MRD_STR("current_bytes"), r[i].current);
        put_u64(w, MRD_STR("peak_bytes"), r[i].peak);
        put_u64(w, MRD_STR("allocated_bytes"), r[i].allocated);
        put_u64(w, MRD_STR("freed_bytes"), r[i].freed);
        put_u64(w, MRD_STR("count"), r[i].count);
        mrd_jw_close(w, '}');
    }
    mrd_jw_close(w, ']');
}
