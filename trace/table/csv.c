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

/* Returns true if a spreadsheet would take it for a formula. Also after apostrophes, so that
 * removing one apostrophe restores the text. */
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
put_cell(mrd_csv *c, const mrd_column *column, const mrd_slot *slot)
{
    char text[40];

    switch (column->type) {
    case MRD_COL_I64:
    case MRD_COL_BOOL:
        if (!column->optional || slot->i != -1)
            mrd_buf_i64(&c->line, slot->i);
        break;
    case MRD_COL_DOUBLE:
    case MRD_COL_FLOAT:
        snprintf(text, sizeof(text), "%.17g", slot->d);
        mrd_buf_text(&c->line, isfinite(slot->d) ? text : "");
        break;
    case MRD_COL_SID:
        mrd_csv_text(&c->line, mrd_rows_text(c->rows, slot->sid));
        break;
    case MRD_COL_TEXT:
        mrd_csv_text(&c->line, (mrd_str){ slot->text.p, slot->text.len });
        break;
    case MRD_COL_FLOWS:
        break; /* types of the other dialect */
    }
}

static mrd_err
put_row(void *self, size_t number, const mrd_slot slots[F_COUNT])
{
    mrd_csv *c = self;
    const mrd_table_def *t = &c->dialect->tables[number];
    bool by_track = mrd_rows_by_track(t->rows);
    const mrd_slot *track =
        by_track ? mrd_rows_track(c->rows, (mrd_track_id) slots[F_TRACK].i) : NULL;

    mrd_buf_reset(&c->line);
    for (size_t i = 0; i < t->n; i++) {
        mrd_field f = t->columns[i].field;

        if (i > 0)
            mrd_buf_byte(&c->line, ',');
        put_cell(c, &t->columns[i],
                 by_track && mrd_field_of_track(f) ? &track[f - F_TRACK] : &slots[f]);
    }
    mrd_buf_byte(&c->line, '\n');
    c->tables[number].rows++;
    if (c->line.err != MRD_OK)
        return c->line.err;
    mrd_out_add(mrd_outdir_out(c->tables[number].file), c->line.p, c->line.len);
    return mrd_out_err(mrd_outdir_out(c->tables[number].file));
}

static mrd_err
open_table(mrd_csv *c, size_t number, mrd_why *why)
{
    const mrd_table_def *t = &c->dialect->tables[number];
    char path[80];
    mrd_err err;

    snprintf(path, sizeof(path), "%s.csv", t->name);
    if ((err = mrd_outdir_open(c->to, path, &c->tables[number].file, why)) != MRD_OK)
        return err;
    for (size_t i = 0; i < t->n; i++) {
        mrd_out_add(mrd_outdir_out(c->tables[number].file), ",", i > 0);
        mrd_out_add(mrd_outdir_out(c->tables[number].file), t->columns[i].name,
                    strlen(t->columns[i].name));
    }
    mrd_out_add(mrd_outdir_out(c->tables[number].file), "\n", 1);
    return MRD_OK;
}

static void
csv_free(mrd_csv *c)
{
    for (size_t i = 0; i < c->dialect->n && c->tables != NULL; i++)
        mrd_outdir_drop(c->tables[i].file);
    mrd_rows_free(c->rows);
    mrd_buf_fini(&c->line);
    free(c->tables);
    free(c);
}

mrd_err
mrd_csv_open(const mrd_sink_env *env, mrd_csv **ret_csv, mrd_why *why)
{
    static const char *const stale[] = { "*.csv", "*.csv.*.part", NULL };
    mrd_csv *c = calloc(1, sizeof(*c));
    mrd_err err = MRD_OK;

    if (c == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "csv");
    c->env = env;
    c->dialect = &mrd_dialect_meridian;
    if ((c->tables = calloc(c->dialect->n, sizeof(*c->tables))) == NULL)
        err = mrd_why_set(why, MRD_NOMEM, 0, "csv");
    if (err == MRD_OK)
        err = mrd_rows_new(env, c->dialect, put_row, c, &c->rows, why);
    if (err == MRD_OK)
        err = env->dir == NULL ? mrd_outdir_tar(env->out, &c->to, why)
                               : mrd_outdir_dir(env->dir, stale, &c->to, why);
    for (size_t i = 0; i < c->dialect->n && err == MRD_OK; i++)
        err = open_table(c, i, why);
    if (err == MRD_OK) {
        *ret_csv = c;
        return MRD_OK;
    }
    mrd_outdir_close(c->to, false);
    csv_free(c);
    return err;
}

mrd_err
mrd_csv_event(mrd_csv *c, const mrd_event *ev)
{
    return mrd_rows_event(c->rows, ev);
}

static mrd_err
done(mrd_csv *c, size_t i, mrd_json *list)
{
    char hex[MRD_SHA256_HEX], path[80];
    uint64_t size;
    mrd_json *t, *part, *parts;
    mrd_err err = mrd_outdir_done(c->tables[i].file, hex, &size, &c->why);

    c->tables[i].file = NULL;
    if (err != MRD_OK)
        return err;
    t = mrd_json_new_object();
    part = mrd_json_new_object();
    parts = mrd_json_new_array();
    snprintf(path, sizeof(path), "%s.csv", c->dialect->tables[i].name);
    mrd_json_set(part, "path", mrd_json_new_str(path));
    mrd_json_set(part, "rows", mrd_json_new_int((int64_t) c->tables[i].rows));
    mrd_json_set(part, "bytes", mrd_json_new_int((int64_t) size));
    mrd_json_set(part, "sha256", mrd_json_new_str(hex));
    mrd_json_append(parts, part);
    mrd_json_set(t, "table", mrd_json_new_str(c->dialect->tables[i].name));
    mrd_json_set(t, "rows", mrd_json_new_int((int64_t) c->tables[i].rows));
    mrd_json_set(t, "parts", parts);
    return mrd_json_append(list, t);
}

static mrd_err
finish(mrd_csv *c)
{
    mrd_json *doc = mrd_json_new_object(), *list = mrd_json_new_array();
    mrd_buf text = { 0 };
    mrd_outdir_file *file;
    char hex[MRD_SHA256_HEX];
    uint64_t size;
    mrd_err err = mrd_rows_finish(c->rows);

    for (size_t i = 0; i < c->dialect->n && err == MRD_OK; i++)
        err = done(c, i, list);
    mrd_json_set(doc, "format", mrd_json_new_str("meridian csv"));
    mrd_json_set(doc, "version", mrd_json_new_str(c->dialect->version));
    mrd_json_set(doc, "session", mrd_json_new_str(mrd_rows_session(c->rows)));
    mrd_json_set(doc, "tables", list);
    mrd_json_write(doc, true, &text);
    mrd_buf_byte(&text, '\n');
    if (err == MRD_OK)
        err = text.err;
    if (err == MRD_OK && c->env->dir != NULL) {
        mrd_out_add(c->env->out, text.p, text.len);
    } else if (err == MRD_OK &&
               (err = mrd_outdir_open(c->to, MRD_FOLDER_MANIFEST, &file, &c->why)) == MRD_OK) {
        mrd_out_add(mrd_outdir_out(file), text.p, text.len);
        err = mrd_outdir_done(file, hex, &size, &c->why);
    }
    mrd_json_free(doc);
    mrd_buf_fini(&text);
    return err;
}

mrd_err
mrd_csv_close(mrd_csv *c, bool good, mrd_why *why)
{
    mrd_err err = good ? finish(c) : MRD_OK;

    if (err != MRD_OK)
        mrd_why_set(why, err, c->why.sys, "%s", c->why.text[0] != '\0' ? c->why.text : "csv");
    mrd_outdir_close(c->to, good && err == MRD_OK);
    csv_free(c);
    return err;
}
