/* trace/import/import_put.c - functions that importers call while they read: for events, dropped
 * records and notes. */
#include "trace/import/import.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/obj.h"

void
mrd_import_note_text(const mrd_import *imp, const mrd_json_reader *reader)
{
    mrd_import_note_repairs(imp, mrd_json_reader_lenient(reader), mrd_json_reader_replaced(reader));
}

void
mrd_import_note_repairs(const mrd_import *imp, uint64_t lenient, uint64_t replaced)
{
    const char *name = mrd_in_name(imp->in);

    if (lenient > 0)
        mrd_catalog_note(imp->catalog,
                         "'%s': %" PRIu64
                         " place%s accepted that JSON does not allow (words such as NaN, extra or "
                         "missing commas, a byte order mark)",
                         name, lenient, lenient == 1 ? " was" : "s were");
    if (replaced > 0)
        mrd_catalog_note(imp->catalog,
                         "'%s': %" PRIu64
                         " damaged place%s in texts: bytes that are not UTF-8, zero bytes and "
                         "broken \\u escapes were replaced by U+FFFD, control characters and "
                         "unknown escapes were kept",
                         name, replaced, mrd_plural(replaced));
}

mrd_input *
mrd_import_input(const mrd_import *imp)
{
    size_t n;
    mrd_input *inputs = mrd_catalog_inputs(imp->catalog, &n);

    MRD_ASSERT(imp->input < n);
    return &inputs[imp->input];
}

static bool
time_is_in_range(const mrd_event *ev)
{
    bool ends = (ev->kind == MRD_SPAN || ev->kind == MRD_LOSS) && ev->dur_ns >= 0;

    return ev->ts.ns >= MRD_IMPORT_FIRST && ev->ts.ns <= MRD_IMPORT_LAST &&
           (!ends || ev->dur_ns <= MRD_IMPORT_LAST - ev->ts.ns);
}

mrd_err
mrd_import_put(mrd_import *imp, uint32_t profile, const mrd_event *ev)
{
    mrd_input *input = mrd_import_input(imp);
    mrd_err err;

    if (mrd_catalog_is_full(imp->catalog, ev->track)) {
        mrd_import_drop(imp, imp->in == NULL ? 0 : mrd_in_file_bytes(imp->in),
                        "more different processes or tracks than a file may have (%zu)",
                        MRD_CATALOG_INPUT);
        return MRD_OK;
    }
    if (!time_is_in_range(ev)) {
        mrd_import_drop(imp, imp->in == NULL ? 0 : mrd_in_file_bytes(imp->in),
                        "an event before 1896 or after 2116, counted from 1970");
        return MRD_OK;
    }
    if ((err = imp->emit(imp, profile, ev)) != MRD_OK)
        return err;
    input->events++;
    if ((input->events & 4095) == 0 && imp->cancelled != NULL && imp->cancelled(imp))
        return MRD_CANCELLED;
    return MRD_OK;
}

static void
count_reason(mrd_import *imp, const char *reason)
{
    size_t i = 0;

    while (i + 1 < MRD_COUNT(imp->reasons) && imp->reasons[i].count > 0 &&
           strcmp(imp->reasons[i].text, reason) != 0)
        i++;
    if (imp->reasons[i].count++ == 0)
        snprintf(imp->reasons[i].text, sizeof(imp->reasons[i].text), "%s",
                 i + 1 < MRD_COUNT(imp->reasons) ? reason : "other reasons");
}

void
mrd_import_drop(mrd_import *imp, uint64_t offset, const char *format, ...)
{
    mrd_input *input = mrd_import_input(imp);
    char reason[MRD_IMPORT_REASON], text[320];
    va_list args;

    va_start(args, format);
    vsnprintf(reason, sizeof(reason), format, args);
    va_end(args);
    count_reason(imp, reason);
    if (input->dropped++ > 0)
        return;
    snprintf(text, sizeof(text), "byte %llu: %s", (unsigned long long) offset, reason);
    input->error = mrd_catalog_intern(imp->catalog, text);
}

void
mrd_import_note_reasons(mrd_import *imp)
{
    mrd_buf line = { 0 };

    if (imp->reasons[1].count == 0)
        return; /* input->error already states the only reason */
    for (size_t i = 0; i < MRD_COUNT(imp->reasons) && imp->reasons[i].count > 0; i++)
        mrd_buf_fmt(&line, "%s%" PRIu64 " x %s", i == 0 ? "" : "; ", imp->reasons[i].count,
                    imp->reasons[i].text);
    mrd_catalog_note(imp->catalog, "'%s': records were dropped: %s", mrd_in_name(imp->in),
                     mrd_buf_cstr(&line));
    mrd_buf_fini(&line);
}

bool
mrd_import_resume(mrd_import *imp, mrd_json_reader *reader, unsigned depth)
{
    mrd_input *input = mrd_import_input(imp);
    mrd_json_damage damage;
    bool resumed;

    if (mrd_json_reader_err(reader, NULL) == MRD_OK)
        return false;
    resumed = mrd_json_resume(reader, depth, &damage);
    input->skipped += damage.skipped;
    input->records += damage.records;
    input->dropped += damage.records;
    if (damage.records > 0)
        count_reason(imp, "damaged text");
    if (damage.records > 0 && input->dropped == damage.records)
        input->error = mrd_catalog_intern(imp->catalog, damage.why.text);
    return resumed;
}
