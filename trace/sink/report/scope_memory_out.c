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
    mrd_buf line = { 0 };

    mrd_text_node_process(cat, process, &line);
    mrd_text_line(to, "  ", (mrd_str){ (const char *) line.p, line.len });
    mrd_text_done(&line, to);
}

void
mrd_scope_memory_text(mrd_scope_memory *memory, const mrd_catalog *cat, size_t most,
                      const char *where, mrd_buf *to)
{
    size_t count;
    const mrd_scope_memory_row *row = mrd_scope_memory_rows(memory, &count);

    if (count == 0)
        return;
    mrd_buf_fmt(to, "\n%-*s %6s %10s %10s %10s %10s %7s\n", LABEL, "Memory by scope", "", "current",
                "peak", "allocated", "freed", "count");
    for (size_t i = 0; i < count && i < most; i++) {
        char b[4][MRD_MEMORY_TEXT];

        if (i == 0 || row[i - 1].process != row[i].process)
            put_process(cat, row[i].process, to);
        mrd_buf_text(to, "    ");
        mrd_text_cell(to, row[i].scope, LABEL - 5, true);
        mrd_buf_fmt(to, "  " MRD_STR_FMT "%*s %10s %10s %10s %10s %7" PRIu64 "\n",
                    MRD_STR_ARG(row[i].place), 6 - (int) row[i].place.len, "",
                    mrd_memory_text(row[i].current, b[0]), mrd_memory_text(row[i].peak, b[1]),
                    mrd_memory_text(row[i].allocated, b[2]), mrd_memory_text(row[i].freed, b[3]),
                    row[i].count);
    }
    if (count > most)
        mrd_text_left_out(to, count - most, "scopes", where);
}

void
mrd_scope_memory_json(mrd_scope_memory *memory, const mrd_catalog *cat, mrd_jw *jw)
{
    size_t n;
    const mrd_scope_memory_row *row = mrd_scope_memory_rows(memory, &n);

    if (n == 0)
        return;
    MRD_JW_PUT(jw, "memory_by_scope", open, '[');
    for (size_t i = 0; i < n; i++) {
        const mrd_process *process = mrd_catalog_borrow_process(cat, row[i].process);

        mrd_jw_open(jw, '{');
        MRD_JW_PUT(jw, "instance_id", sid, process->instance_id);
        MRD_JW_PUT(jw, "process_id", i64, process->process_id);
        MRD_JW_PUT(jw, "scope", str, row[i].scope);
        MRD_JW_PUT(jw, "place", str, row[i].place);
        MRD_JW_PUT(jw, "current_bytes", u64, row[i].current);
        MRD_JW_PUT(jw, "peak_bytes", u64, row[i].peak);
        MRD_JW_PUT(jw, "allocated_bytes", u64, row[i].allocated);
        MRD_JW_PUT(jw, "freed_bytes", u64, row[i].freed);
        MRD_JW_PUT(jw, "count", u64, row[i].count);
        mrd_jw_close(jw, '}');
    }
    mrd_jw_close(jw, ']');
}
