#include "trace/table/csv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/conf/json.h"
#include "base/obj.h"
#include "trace/table/outdir.h"

typedef struct {
    mrd_outdir_file *file;
    uint64_t rows;
} table;

struct mrd_csv {
    const mrd_sink_env *env;
    const mrd_dialect *dialect;
    mrd_rows *rows;
    mrd_outdir *to;
    table *tables;
    mrd_buf line;
    mrd_why why;
};

/* Returns true if a spreadsheet would take the text for a formula. Apostrophes at the beginning do
 * not count, so '=1 gets a further apostrophe. So a reader can always remove exactly one. */
static bool
is_formula(mrd_str text)
{
    size_t i = 0;

    while (i < text.len && text.p[i] == '\'')
        i++;
    return text.len - i > 1 && memchr("=+-@\t\r", text.p[i], 6) != NULL;
}

void
mrd_csv_text(mrd_buf *to, mrd_str text)
{
    bool plain = true, formula = is_formula(text);

    for (size_t i = 0; i < text.len && plain; i++)
        plain = text.p[i] != '"' && text.p[i] != ',' && text.p[i] != '\n' && text.p[i] != '\r';
    if (plain) {
        mrd_buf_text(to, formula ? "'" : "");
        mrd_buf_str(to, text);
        return;
    }
    mrd_buf_text(to, formula ? "\"'" : "\"");
    for (size_t i = 0; i < text.len; i++) {
        if (text.p[i] == '"')
            mrd_buf_byte(to, '"');
        mrd_buf_byte(to, (uint8_t) text.p[i]);
    }
    mrd_buf_byte(to, '"');
}

static void
put_cell(mrd_csv *csv, const mrd_column *column, const mrd_slot *slot)
{
    char text[40];

    switch (column->type) {
    case MRD_COL_I64:
    case MRD_COL_BOOL:
        if (!column->optional || slot->i != -1)
            mrd_buf_i64(&csv->line, slot->i);
        break;
    case MRD_COL_DOUBLE:
    case MRD_COL_FLOAT:
        snprintf(text, sizeof(text), "%.17g", slot->d);
        mrd_buf_text(&csv->line, isfinite(slot->d) ? text : "");
        break;
    case MRD_COL_SID:
        mrd_csv_text(&csv->line, mrd_rows_text(csv->rows, slot->sid));
        break;
    case MRD_COL_TEXT:
        mrd_csv_text(&csv->line, (mrd_str){ slot->text.p, slot->text.len });
        break;
    case MRD_COL_FLOWS:
        break; /* CSV files never have columns of this type, which only the explorer dialect uses */
    }
}

static mrd_err
put_row(void *self, size_t number, const mrd_slot slots[F_COUNT])
{
    mrd_csv *csv = self;
    const mrd_table_def *def = &csv->dialect->tables[number];
    bool by_track = mrd_rows_by_track(def->rows);
    const mrd_slot *track =
        by_track ? mrd_rows_track(csv->rows, (mrd_track_id) slots[F_TRACK].i) : NULL;

    mrd_buf_reset(&csv->line);
    for (size_t i = 0; i < def->n; i++) {
        mrd_field field = def->columns[i].field;

        if (i > 0)
            mrd_buf_byte(&csv->line, ',');
        put_cell(csv, &def->columns[i],
                 by_track && mrd_field_of_track(field) ? &track[field - F_TRACK] : &slots[field]);
    }
    mrd_buf_byte(&csv->line, '\n');
    csv->tables[number].rows++;
    if (csv->line.err != MRD_OK)
        return csv->line.err;
    mrd_out_add(mrd_outdir_out(csv->tables[number].file), csv->line.p, csv->line.len);
    return mrd_out_err(mrd_outdir_out(csv->tables[number].file));
}

static mrd_err
open_table(mrd_csv *csv, size_t number, mrd_why *why)
{
    const mrd_table_def *def = &csv->dialect->tables[number];
    char path[80];
    mrd_err err;

    snprintf(path, sizeof(path), "%s.csv", def->name);
    if ((err = mrd_outdir_open(csv->to, path, &csv->tables[number].file, why)) != MRD_OK)
        return err;
    for (size_t i = 0; i < def->n; i++) {
        mrd_out_add(mrd_outdir_out(csv->tables[number].file), ",", i > 0);
        mrd_out_add(mrd_outdir_out(csv->tables[number].file), def->columns[i].name,
                    strlen(def->columns[i].name));
    }
    mrd_out_add(mrd_outdir_out(csv->tables[number].file), "\n", 1);
    return MRD_OK;
}

static void
csv_free(mrd_csv *csv)
{
    for (size_t i = 0; i < csv->dialect->n && csv->tables != NULL; i++)
        mrd_outdir_drop(csv->tables[i].file);
    mrd_rows_free(csv->rows);
    mrd_buf_fini(&csv->line);
    free(csv->tables);
    free(csv);
}

mrd_err
mrd_csv_open(const mrd_sink_env *env, mrd_csv **ret_csv, mrd_why *why)
{
    static const char *const stale[] = { "*.csv", "*.csv.*.part", NULL };
    mrd_csv *csv = calloc(1, sizeof(*csv));
    mrd_err err = MRD_OK;

    if (csv == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "csv");
    csv->env = env;
    csv->dialect = &mrd_dialect_meridian;
    if ((csv->tables = calloc(csv->dialect->n, sizeof(*csv->tables))) == NULL)
        err = mrd_why_set(why, MRD_NOMEM, 0, "csv");
    if (err == MRD_OK)
        err = mrd_rows_new(env, csv->dialect, put_row, csv, &csv->rows, why);
    if (err == MRD_OK)
        err = env->dir == NULL ? mrd_outdir_tar(env->out, &csv->to, why)
                               : mrd_outdir_dir(env->out, env->dir, stale, &csv->to, why);
    for (size_t i = 0; i < csv->dialect->n && err == MRD_OK; i++)
        err = open_table(csv, i, why);
    if (err == MRD_OK) {
        *ret_csv = csv;
        return MRD_OK;
    }
    mrd_outdir_close(csv->to, false);
    csv_free(csv);
    return err;
}

mrd_err
mrd_csv_event(mrd_csv *csv, const mrd_event *ev)
{
    return mrd_rows_event(csv->rows, ev);
}

static mrd_err
done(mrd_csv *csv, size_t i, mrd_json *list)
{
    char hex[MRD_SHA256_HEX], path[80];
    uint64_t size;
    mrd_json *json, *part, *parts;
    mrd_err err = mrd_outdir_done(csv->tables[i].file, hex, &size, &csv->why);

    csv->tables[i].file = NULL;
    if (err != MRD_OK)
        return err;
    json = mrd_json_new_object();
    part = mrd_json_new_object();
    parts = mrd_json_new_array();
    snprintf(path, sizeof(path), "%s.csv", csv->dialect->tables[i].name);
    mrd_json_set(part, "path", mrd_json_new_str(path));
    mrd_json_set(part, "rows", mrd_json_new_int((int64_t) csv->tables[i].rows));
    mrd_json_set(part, "bytes", mrd_json_new_int((int64_t) size));
    mrd_json_set(part, "sha256", mrd_json_new_str(hex));
    mrd_json_append(parts, part);
    mrd_json_set(json, "table", mrd_json_new_str(csv->dialect->tables[i].name));
    mrd_json_set(json, "rows", mrd_json_new_int((int64_t) csv->tables[i].rows));
    mrd_json_set(json, "parts", parts);
    return mrd_json_append(list, json);
}

static mrd_err
finish(mrd_csv *csv)
{
    mrd_json *doc = mrd_json_new_object(), *list = mrd_json_new_array();
    mrd_buf text = { 0 };
    mrd_outdir_file *file;
    char hex[MRD_SHA256_HEX];
    uint64_t size;
    mrd_err err = mrd_rows_finish(csv->rows);

    for (size_t i = 0; i < csv->dialect->n && err == MRD_OK; i++)
        err = done(csv, i, list);
    mrd_json_set(doc, "format", mrd_json_new_str("meridian csv"));
    mrd_json_set(doc, "version", mrd_json_new_str(csv->dialect->version));
    mrd_json_set(doc, "session", mrd_json_new_str(mrd_rows_session(csv->rows)));
    mrd_json_set(doc, "tables", list);
    mrd_json_write(doc, true, &text);
    mrd_buf_byte(&text, '\n');
    if (err == MRD_OK)
        err = text.err;
    if (err == MRD_OK && csv->env->dir != NULL) {
        mrd_out_add(csv->env->out, text.p, text.len);
    } else if (err == MRD_OK &&
               (err = mrd_outdir_open(csv->to, MRD_FOLDER_MANIFEST, &file, &csv->why)) == MRD_OK) {
        mrd_out_add(mrd_outdir_out(file), text.p, text.len);
        err = mrd_outdir_done(file, hex, &size, &csv->why);
    }
    mrd_json_free(doc);
    mrd_buf_fini(&text);
    return err;
}

mrd_err
mrd_csv_close(mrd_csv *csv, bool good, mrd_why *why)
{
    mrd_err err = good ? finish(csv) : MRD_OK;

    if (err != MRD_OK)
        mrd_why_set(why, err, csv->why.sys, "%s", csv->why.text[0] != '\0' ? csv->why.text : "csv");
    mrd_outdir_close(csv->to, good && err == MRD_OK);
    csv_free(csv);
    return err;
}
