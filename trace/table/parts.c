#include "trace/table/parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/conf/json.h"
#include "base/obj.h"
#include "base/vec.h"
#include "trace/table/parquet.h"

#define GROUP_ROWS  131072u
#define GROUP_TEXT  (8u << 20)
#define PART_BYTES  (64u << 20)
#define COLUMNS_MAX MRD_SCHEMA_COLUMNS
#define NO_ENTRY    UINT32_MAX

/* The values of one column, collected until the row group is complete. */
typedef struct {
    union {
        int64_t *i; /* one per row; for a column of arguments, only n_elements values that exist */
        double *d;
        mrd_sid *sid;
        uint32_t *n; /* texts: where each row's text ends; flows: number of ids in each row */
        void *any;
    } v;
    mrd_buf text;       /* the bytes of all texts; for flows, of all ids */
    uint32_t *elements; /* flows: where each id ends in `text` */
    size_t n_elements, cap_elements;
    uint8_t *present; /* column of arguments: one flag per row, 1 if the row has a value */
} held;

typedef struct {
    const mrd_table_def *t;
    mrd_pq_column columns[COLUMNS_MAX];
    held held[COLUMNS_MAX];
    uint32_t *track; /* if by_track: the track of each row */
    bool by_track;
    /* Columns with a value from the event itself, not from its track. There is one array for each
     * kind of value, because this makes adding a row fast. */
    struct {
        int64_t *to; /* the same array as held[column].v */
        uint8_t column, field;
    } words[COLUMNS_MAX]; /* columns of integers and of doubles */
    struct {
        mrd_sid *to;
        uint8_t column, field;
    } sids[COLUMNS_MAX];
    struct {
        uint8_t column, field, how;
    } texts[COLUMNS_MAX];
    size_t n_words, n_sids, n_texts;
    uint8_t args
        /* columns of arguments; most rows have no value, so only existing values are stored */
        [MRD_ARG_COLUMNS];
    uint64_t args_set; /* bit mask of the arguments that have a column here */
    size_t n, cap;     /* number of rows collected, and capacity */
    /* writer of the current Parquet file (part) of the table; NULL if no file is open */
    mrd_pq *pq;
    mrd_outdir_file *file;
    char path[400];
    unsigned parts;
    uint64_t rows, part_rows;
    /* least and greatest value that the column with the rows' order has in the current file */
    int64_t part_least, part_most;
    mrd_json *list; /* JSON array that describes this table's Parquet files, for the manifest */
} table;

struct mrd_parts {
    const mrd_sink_env *env;
    const mrd_dialect *dialect;
    mrd_rows *rows;
    mrd_outdir *folder;
    table *tables;
    bool hive;
    /* Scratch space for one column of a row group, from here to `texts`. */
    /* indexed by SID; index of its text in the dictionary of this row group, or NO_ENTRY if it is
     * not there */
    uint32_t *entry;
    mrd_sid *sids;    /* the SID of each entry of the dictionary */
    uint32_t *tracks; /* the tracks that occur in the row group */
    size_t n_tracks;
    uint32_t *entry_of_track;
    uint32_t *index;  /* GROUP_ROWS elements */
    uint8_t *present; /* GROUP_ROWS elements */
    int64_t *ints;    /* sorted integers of the tracks */
    int64_t *found;   /* integer of each entry of the dictionary, in order of first occurrence */
    mrd_str *texts;   /* text of each entry of the dictionary */
    size_t cap_entries;
    uint8_t *track_null, *track_seen;
    /* Columns of this row group with pages that the writer stores (mrd_pq_values.keep). `entries`
     * has the dictionary entry of each track in `tracks`, NO_ENTRY for null. Columns about a
     * process often have equal entries, and then share their pages. */
    struct {
        uint32_t *entries;
        bool optional;
    } keeps[MRD_PQ_KEEPS];
    unsigned n_keeps;
    /* like keeps[].entries, but for the current column if all elements of `keeps` are in use */
    uint32_t *tried;
    mrd_why why;
};

static bool
is_text(mrd_col_type type)
{
    return type == MRD_COL_TEXT || type == MRD_COL_FLOWS;
}

static size_t
width_of(mrd_col_type type)
{
    return type == MRD_COL_SID || is_text(type) ? 4 : 8;
}

static bool
is_arg(const mrd_column *column)
{
    return column->field >= F_ARG_FIRST && column->field <= F_ARG_LAST &&
           column->type == MRD_COL_I64 && column->optional;
}

/* ---- From rows to columns ---- */

static mrd_err
table_grow(table *t)
{
    size_t cap = t->cap == 0 ? 256 : 2 * t->cap, tracks = t->cap;

    cap = cap > GROUP_ROWS ? GROUP_ROWS : cap;
    for (size_t i = 0; i < t->t->n; i++) {
        size_t width = width_of(t->t->columns[i].type), had = t->cap;
        void *more;

        if ((t->by_track && mrd_field_of_track(t->t->columns[i].field)) ||
            is_arg(&t->t->columns[i]))
            continue;
        if ((more = mrd_vec_grow(t->held[i].v.any, width, 0, &had, cap, GROUP_ROWS)) == NULL)
            return MRD_NOMEM;
        t->held[i].v.any = more;
    }
    if (t->by_track && !MRD_VEC_ROOM_MAX(t->track, 0, tracks, cap, GROUP_ROWS))
        return MRD_NOMEM;
    for (size_t i = 0; i < t->n_words; i++)
        t->words[i].to = t->held[t->words[i].column].v.i;
    for (size_t i = 0; i < t->n_sids; i++)
        t->sids[i].to = t->held[t->sids[i].column].v.sid;
    t->cap = cap;
    return MRD_OK;
}

static mrd_err
add_flows(held *h, const mrd_slot *slot, size_t row)
{
    for (size_t i = 0; i < slot->flows.n; i++) {
        if (!MRD_VEC_ROOM(h->elements, h->n_elements, h->cap_elements, 1))
            return MRD_NOMEM;
        mrd_buf_u64(&h->text, slot->flows.v[i].id);
        h->elements[h->n_elements++] = (uint32_t) h->text.len;
    }
    h->v.n[row] = (uint32_t) slot->flows.n;
    return h->text.err;
}

_Static_assert(F_COUNT <= UINT8_MAX, "fields are kept in a byte");

/* How `held` stores the texts of a column. */
enum { KEEP_TEXT, KEEP_FLOWS, KEEP_NO_TEXT };

static mrd_err
add_text(held *h, const mrd_slot *slot, size_t row)
{
    mrd_buf_add(&h->text, slot->text.p, slot->text.len);
    h->v.n[row] = (uint32_t) h->text.len;
    return h->text.err;
}

static mrd_err
add_args(table *t, uint64_t set, const mrd_slot slots[F_COUNT], size_t row)
{
    for (; set != 0; set &= set - 1) {
        unsigned arg = (unsigned) __builtin_ctzll(set);
        held *h = &t->held[t->args[arg]];

        if ((h->present == NULL && (h->present = calloc(GROUP_ROWS, 1)) == NULL) ||
            !MRD_VEC_ROOM_MAX(h->v.i, h->n_elements, h->cap_elements, 1, GROUP_ROWS))
            return MRD_NOMEM;
        h->v.i[h->n_elements++] = slots[F_ARG_FIRST + arg].i;
        h->present[row] = 1;
    }
    return MRD_OK;
}

static mrd_err flush_group(mrd_parts *parts, table *t);

static mrd_err
add_row(void *self, size_t number, const mrd_slot slots[F_COUNT])
{
    mrd_parts *parts = self;
    table *t = &parts->tables[number];
    size_t text = 0, row = t->n;
    mrd_err err = row == t->cap ? table_grow(t) : MRD_OK;

    if (err != MRD_OK)
        return err;
    for (size_t i = 0; i < t->n_words; i++)
        t->words[i].to[row] = slots[t->words[i].field].i;
    for (size_t i = 0; i < t->n_sids; i++)
        t->sids[i].to[row] = slots[t->sids[i].field].sid;
    for (size_t i = 0; i < t->n_texts && err == MRD_OK; i++) {
        held *h = &t->held[t->texts[i].column];
        const mrd_slot *slot = &slots[t->texts[i].field];

        switch (t->texts[i].how) {
        case KEEP_TEXT:
            err = add_text(h, slot, row);
            text = h->text.len > text ? h->text.len : text;
            break;
        case KEEP_FLOWS:
            err = add_flows(h, slot, row);
            text = h->text.len > text ? h->text.len : text;
            break;
        default:
            h->v.n[row] = 0;
        }
    }
    if (err == MRD_OK && t->args_set != 0)
        err = add_args(t, (uint64_t) slots[F_ARG_SET].i & t->args_set, slots, row);
    if (err != MRD_OK)
        return err;
    if (t->by_track)
        t->track[row] = (uint32_t) slots[F_TRACK].i;
    t->n++;
    return t->n == GROUP_ROWS || text > GROUP_TEXT ? flush_group(parts, t) : MRD_OK;
}

/* ---- Opening and closing parts ---- */

static mrd_err
part_open(mrd_parts *parts, table *t)
{
    mrd_err err;

    if (parts->hive)
        snprintf(t->path, sizeof(t->path), "table=%s/date=%s/session=%s/part-%05u.parquet",
                 t->t->name, mrd_rows_date(parts->rows), mrd_rows_session(parts->rows), t->parts);
    else
        snprintf(t->path, sizeof(t->path), "%s.parquet", t->t->name);
    if ((err = mrd_outdir_open(parts->folder, t->path, &t->file, &parts->why)) != MRD_OK)
        return err;
    err = mrd_pq_open(mrd_outdir_out(t->file), t->columns, t->t->n, t->t->sorted_by, &t->pq,
                      &parts->why);
    if (err != MRD_OK)
        return err;
    mrd_pq_note(t->pq, parts->hive ? MRD_STR("meridian.table") : MRD_STR("table"),
                mrd_str_of(t->t->name));
    mrd_pq_note(t->pq, parts->hive ? MRD_STR("meridian.schema") : MRD_STR("profile_schema_version"),
                mrd_str_of(parts->dialect->version));
    mrd_pq_note(t->pq, MRD_STR("meridian.session"), mrd_str_of(mrd_rows_session(parts->rows)));
    t->parts++;
    t->part_rows = 0;
    t->part_least = INT64_MAX;
    t->part_most = INT64_MIN;
    return MRD_OK;
}

static mrd_err
part_list(table *t, const char *hex, uint64_t size)
{
    mrd_json *json = mrd_json_new_object();

    mrd_json_set(json, "path", mrd_json_new_str(t->path));
    mrd_json_set(json, "rows", mrd_json_new_int((int64_t) t->part_rows));
    mrd_json_set(json, "bytes", mrd_json_new_int((int64_t) size));
    mrd_json_set(json, "sha256", mrd_json_new_str(hex));
    if (t->part_least <= t->part_most) {
        mrd_json_set(json, "min", mrd_json_new_int(t->part_least));
        mrd_json_set(json, "max", mrd_json_new_int(t->part_most));
    }
    return mrd_json_append(t->list, json);
}

static mrd_err
part_close(mrd_parts *parts, table *t)
{
    char hex[MRD_SHA256_HEX];
    uint64_t size;
    mrd_err err;

    if (t->pq == NULL)
        return MRD_OK;
    err = mrd_pq_close(t->pq);
    t->pq = NULL;
    if (err == MRD_OK)
        err = mrd_outdir_done(t->file, hex, &size, &parts->why);
    else
        mrd_outdir_drop(t->file);
    t->file = NULL;
    return err == MRD_OK ? part_list(t, hex, size) : err;
}

/* ---- From columns to row groups ---- */

/* Returns the dictionary entry of a SID in this row group, and adds the SID to the dictionary if it
 * is new. */
static uint32_t
entry_of(mrd_parts *parts, mrd_sid sid, size_t *n)
{
    if (parts->entry[sid] == NO_ENTRY) {
        parts->entry[sid] = (uint32_t) *n;
        parts->sids[(*n)++] = sid;
    }
    return parts->entry[sid];
}

static mrd_err
room_for_entries(mrd_parts *parts)
{
    size_t sids = mrd_rows_sids(parts->rows), most = sids + mrd_rows_tracks(parts->rows) + 1;
    size_t entries = parts->cap_entries, list = entries, ints = entries, found = entries,
           texts = entries;

    if (most <= parts->cap_entries)
        return MRD_OK;
    most += most / 4 + 64;
    if (!MRD_VEC_ROOM(parts->entry, 0, entries, most) ||
        !MRD_VEC_ROOM(parts->sids, 0, list, most) || !MRD_VEC_ROOM(parts->ints, 0, ints, most) ||
        !MRD_VEC_ROOM(parts->found, 0, found, most) || !MRD_VEC_ROOM(parts->texts, 0, texts, most))
        return MRD_NOMEM;
    for (size_t i = parts->cap_entries; i < most; i++)
        parts->entry[i] = NO_ENTRY;
    parts->cap_entries = most;
    return MRD_OK;
}

/* Stores the texts of n dictionary entries, and clears `entry` for the next column. */
static void
take_texts(mrd_parts *parts, size_t n)
{
    for (size_t e = 0; e < n; e++) {
        parts->texts[e] = mrd_rows_text(parts->rows, parts->sids[e]);
        parts->entry[parts->sids[e]] = NO_ENTRY;
    }
}

/* Returns `present`, or NULL if all rows have a value. With NULL, the writer need not look at each
 * row. */
static const uint8_t *
present_if_any_null(const mrd_parts *parts, size_t rows)
{
    return memchr(parts->present, 0, rows) == NULL ? NULL : parts->present;
}

static void
values_sid(mrd_parts *parts, const table *t, size_t i, mrd_pq_values *values)
{
    const mrd_sid *sid = t->held[i].v.sid;
    bool optional = t->t->columns[i].optional;
    size_t n = 0;

    for (size_t r = 0; r < t->n; r++) {
        if (optional && (parts->present[r] = sid[r] != MRD_SID_EMPTY) == 0)
            continue;
        parts->index[r] = entry_of(parts, sid[r], &n);
    }
    take_texts(parts, n);
    *values = (mrd_pq_values){ .index = parts->index,
                               .texts = parts->texts,
                               .entries = n,
                               .present = optional ? present_if_any_null(parts, t->n) : NULL };
}

static void
find_tracks(mrd_parts *parts, const table *t)
{
    parts->n_tracks = 0;
    memset(parts->track_seen, 0, mrd_rows_tracks(parts->rows));
    for (size_t r = 0; r < t->n; r++) {
        if (parts->track_seen[t->track[r]] == 0) {
            parts->track_seen[t->track[r]] = 1;
            parts->tracks[parts->n_tracks++] = t->track[r];
        }
    }
}

static int
order_ints(const void *a, const void *b)
{
    int64_t x, y;

    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return x < y ? -1 : x > y;
}

/* Collects in `found` the different integers that this field has in the tracks of the row group.
 * Sets the dictionary entry of each track. Returns the number of different integers. */
static size_t
track_ints(mrd_parts *parts, mrd_field field, bool optional)
{
    size_t count = 0, kept = 0;

    for (size_t k = 0; k < parts->n_tracks; k++) {
        int64_t v = mrd_rows_track(parts->rows, parts->tracks[k])[field - F_TRACK].i;

        if (!optional || v != -1)
            parts->ints[count++] = v;
    }
    qsort(parts->ints, count, sizeof(*parts->ints), order_ints);
    for (size_t k = 0; k < count; k++) {
        if (k == 0 || parts->ints[k] != parts->ints[kept - 1])
            parts->ints[kept++] = parts->ints[k];
    }
    for (size_t k = 0; k < kept; k++)
        parts->sids[k] = NO_ENTRY;
    count = 0;
    for (size_t k = 0; k < parts->n_tracks; k++) {
        int64_t v = mrd_rows_track(parts->rows, parts->tracks[k])[field - F_TRACK].i;
        const int64_t *at =
            kept == 0 ? NULL : bsearch(&v, parts->ints, kept, sizeof(v), order_ints);

        parts->track_null[parts->tracks[k]] = at == NULL;
        parts->entry_of_track[parts->tracks[k]] = 0;
        if (at == NULL)
            continue;
        if (parts->sids[at - parts->ints] == NO_ENTRY) {
            parts->found[count] = v;
            parts->sids[at - parts->ints] = (uint32_t) count++;
        }
        parts->entry_of_track[parts->tracks[k]] = parts->sids[at - parts->ints];
    }
    return count;
}

static size_t
track_texts(mrd_parts *parts, mrd_field field, bool optional)
{
    size_t n = 0;

    for (size_t k = 0; k < parts->n_tracks; k++) {
        mrd_sid sid = mrd_rows_track(parts->rows, parts->tracks[k])[field - F_TRACK].sid;

        parts->track_null[parts->tracks[k]] = optional && sid == MRD_SID_EMPTY;
        if (!parts->track_null[parts->tracks[k]])
            parts->entry_of_track[parts->tracks[k]] = entry_of(parts, sid, &n);
        else
            parts->entry_of_track[parts->tracks[k]] = 0;
    }
    take_texts(parts, n);
    return n;
}

/* Sets the dictionary entry of each row from its track. With `any_null`, also sets `present` for
 * each row. */
static void
rows_of_tracks(mrd_parts *parts, const table *t, bool any_null)
{
    const uint32_t *restrict track = t->track, *restrict entry = parts->entry_of_track;
    const uint8_t *restrict is_null = parts->track_null;
    uint32_t *restrict index = parts->index;
    uint8_t *restrict present = parts->present;
    size_t rows = t->n;

    for (size_t r = 0; r < rows; r++)
        index[r] = entry[track[r]];
    for (size_t r = 0; r < rows && any_null; r++)
        present[r] = is_null[track[r]] == 0;
}

/* If an earlier column of this row group has the same dictionary entries, its pages are used for
 * this column, too. Otherwise stores this column's entries for later columns. */
static void
share_entries(mrd_parts *parts, bool optional, mrd_pq_values *values)
{
    uint32_t *own =
        parts->n_keeps < MRD_PQ_KEEPS ? parts->keeps[parts->n_keeps].entries : parts->tried;

    for (size_t k = 0; k < parts->n_tracks; k++)
        own[k] = parts->track_null[parts->tracks[k]] != 0 ? NO_ENTRY
                                                          : parts->entry_of_track[parts->tracks[k]];
    for (unsigned i = 0; i < parts->n_keeps; i++) {
        if (parts->keeps[i].optional == optional &&
            memcmp(parts->keeps[i].entries, own, parts->n_tracks * sizeof(*own)) == 0) {
            values->like = i + 1;
            return;
        }
    }
    if (parts->n_keeps == MRD_PQ_KEEPS)
        return;
    parts->keeps[parts->n_keeps++].optional = optional;
    values->keep = parts->n_keeps;
}

static void
values_track(mrd_parts *parts, const table *t, size_t i, mrd_pq_values *values)
{
    const mrd_column *column = &t->t->columns[i];
    bool text = column->type == MRD_COL_SID;
    size_t n = text ? track_texts(parts, column->field, column->optional)
                    : track_ints(parts, column->field, column->optional);
    bool any_null = false;

    for (size_t k = 0; k < parts->n_tracks && column->optional; k++)
        any_null = any_null || parts->track_null[parts->tracks[k]] != 0;
    *values = (mrd_pq_values){ .index = parts->index,
                               .entries = n,
                               .present = any_null ? parts->present : NULL };
    if (text)
        values->texts = parts->texts;
    else
        values->ints = parts->found;
    if (n > 1)
        share_entries(parts, column->optional, values);
    if (n == 0)
        memset(parts->present, 0, t->n);
    else if (values->like == 0 || any_null)
        rows_of_tracks(parts, t, any_null);
}

/* Sets present[r] to 0 if values[r] is -1, which means unknown. A function of its own lets the
 * compiler vectorize the loop. */
static void
present_ints(uint8_t *restrict present, const int64_t *restrict values, size_t rows)
{
    for (size_t r = 0; r < rows; r++)
        present[r] = values[r] != -1;
}

static void
values_of(mrd_parts *parts, const table *t, size_t i, mrd_pq_values *values)
{
    const mrd_column *column = &t->t->columns[i];
    const held *h = &t->held[i];

    *values = (mrd_pq_values){ 0 };
    if (t->by_track && mrd_field_of_track(column->field)) {
        values_track(parts, t, i, values);
        return;
    }
    if (is_arg(column)) {
        static const int64_t none;

        values->kept = h->n_elements == 0 ? &none : h->v.i;
        values->n_kept = h->n_elements;
        values->present = h->n_elements == t->n ? NULL : h->present;
        return;
    }
    switch (column->type) {
    case MRD_COL_I64:
    case MRD_COL_BOOL:
        values->i64 = h->v.i;
        if (column->optional)
            present_ints(parts->present, h->v.i, t->n);
        values->present = column->optional ? present_if_any_null(parts, t->n) : NULL;
        break;
    case MRD_COL_DOUBLE:
    case MRD_COL_FLOAT:
        values->d = h->v.d;
        for (size_t r = 0; r < t->n && column->optional; r++)
            parts->present[r] = column->field != F_NONE && !isnan(h->v.d[r]) && h->v.d[r] != -1;
        values->present = column->optional ? present_if_any_null(parts, t->n) : NULL;
        break;
    case MRD_COL_SID:
        values_sid(parts, t, i, values);
        break;
    case MRD_COL_TEXT:
        values->ends = h->v.n;
        values->bytes = h->text.p;
        for (size_t r = 0; r < t->n && column->optional; r++)
            parts->present[r] = h->v.n[r] != (r == 0 ? 0 : h->v.n[r - 1]);
        values->present = column->optional ? parts->present : NULL;
        break;
    case MRD_COL_FLOWS:
        values->counts = h->v.n;
        values->ends = h->elements;
        values->bytes = h->text.p;
        break;
    }
}

static void
part_range(table *t)
{
    const int64_t *values;

    if (t->t->sorted_by < 0 || (values = t->held[t->t->sorted_by].v.i) == NULL)
        return;
    for (size_t r = 0; r < t->n; r++) {
        t->part_least = values[r] < t->part_least ? values[r] : t->part_least;
        t->part_most = values[r] > t->part_most ? values[r] : t->part_most;
    }
}

static mrd_err
flush_group(mrd_parts *parts, table *t)
{
    size_t rows = t->n;
    mrd_pq_values values;
    mrd_err err = MRD_OK;

    if (rows == 0)
        return MRD_OK;
    if (t->pq == NULL && (err = part_open(parts, t)) != MRD_OK)
        return err;
    if ((err = room_for_entries(parts)) != MRD_OK)
        return err;
    if (t->by_track)
        find_tracks(parts, t);
    parts->n_keeps = 0;
    mrd_pq_small(
        t->pq,
        t->rows <
            /* Small pages take much time, so only the first row group of a table gets them. A trace
             * of one process usually has no second row group. */
            GROUP_ROWS);
    mrd_pq_begin(t->pq, t->n);
    for (size_t i = 0; i < t->t->n; i++) {
        values_of(parts, t, i, &values);
        mrd_pq_add(t->pq, &values);
    }
    err = mrd_pq_end(t->pq);
    mrd_pq_small(t->pq, false); /* frees the compressor's memory until the next row group */
    part_range(t);
    t->rows += rows;
    t->part_rows += rows;
    t->n = 0;
    for (size_t i = 0; i < t->t->n; i++) {
        mrd_buf_reset(&t->held[i].text);
        if (t->held[i].present != NULL && t->held[i].n_elements > 0)
            memset(t->held[i].present, 0, rows);
        t->held[i].n_elements = 0;
    }
    if (err == MRD_OK && mrd_out_err(mrd_outdir_out(t->file)) != MRD_OK)
        err = mrd_out_err(mrd_outdir_out(t->file));
    if (err == MRD_OK && parts->hive && mrd_out_size(mrd_outdir_out(t->file)) >= PART_BYTES)
        err = part_close(parts, t);
    return err;
}

/* ---- Opening and closing the output ---- */

static mrd_pq_type
pq_type(mrd_col_type type)
{
    return type == MRD_COL_I64      ? MRD_PQ_I64
           : type == MRD_COL_DOUBLE ? MRD_PQ_DOUBLE
           : type == MRD_COL_FLOAT  ? MRD_PQ_FLOAT
           : type == MRD_COL_BOOL   ? MRD_PQ_BOOL
           : type == MRD_COL_FLOWS  ? MRD_PQ_TEXTS
                                    : MRD_PQ_TEXT;
}

/* Adds column c of the table to the array for columns with its kind of values. */
static void
own_column(table *t, uint8_t c)
{
    uint8_t field = (uint8_t) t->t->columns[c].field;
    mrd_col_type type = t->t->columns[c].type;
    bool no_text = field == F_NONE && (is_text(type) || type == MRD_COL_SID);

    if (is_arg(&t->t->columns[c])) {
        t->args[field - F_ARG_FIRST] = c;
        t->args_set |= UINT64_C(1) << (field - F_ARG_FIRST);
    } else if (no_text || is_text(type)) {
        t->texts[t->n_texts].column = c;
        t->texts[t->n_texts].field = field;
        t->texts[t->n_texts++].how = no_text                ? KEEP_NO_TEXT
                                     : type == MRD_COL_TEXT ? KEEP_TEXT
                                                            : KEEP_FLOWS;
    } else if (type == MRD_COL_SID) {
        t->sids[t->n_sids].column = c;
        t->sids[t->n_sids++].field = field;
    } else {
        t->words[t->n_words].column = c;
        t->words[t->n_words++].field = field;
    }
}

static mrd_err
tables_make(mrd_parts *parts)
{
    size_t tracks;

    if ((parts->tables = calloc(parts->dialect->n, sizeof(*parts->tables))) == NULL)
        return MRD_NOMEM;
    for (size_t i = 0; i < parts->dialect->n; i++) {
        table *t = &parts->tables[i];

        t->t = &parts->dialect->tables[i];
        t->by_track = mrd_rows_by_track(t->t->rows);
        MRD_ASSERT(t->t->n <= COLUMNS_MAX);
        for (size_t c = 0; c < t->t->n; c++)
            t->columns[c] = (mrd_pq_column){ t->t->columns[c].name, pq_type(t->t->columns[c].type),
                                             t->t->columns[c].optional };
        for (size_t c = 0; c < t->t->n; c++)
            if (!t->by_track || !mrd_field_of_track(t->t->columns[c].field))
                own_column(t, (uint8_t) c);
        if ((t->list = mrd_json_new_array()) == NULL)
            return MRD_NOMEM;
    }
    tracks = mrd_rows_tracks(parts->rows) + 1;
    parts->tracks = calloc(tracks, sizeof(*parts->tracks));
    parts->entry_of_track = calloc(tracks, sizeof(*parts->entry_of_track));
    parts->track_null = calloc(tracks, 1);
    parts->track_seen = calloc(tracks, 1);
    parts->tried = calloc(tracks, sizeof(*parts->tried));
    for (size_t i = 0; i < MRD_PQ_KEEPS; i++) {
        if ((parts->keeps[i].entries = calloc(tracks, sizeof(uint32_t))) == NULL)
            return MRD_NOMEM;
    }
    parts->index = calloc(GROUP_ROWS, sizeof(*parts->index));
    parts->present = calloc(GROUP_ROWS, 1);
    return parts->tracks == NULL || parts->entry_of_track == NULL || parts->track_null == NULL ||
                   parts->track_seen == NULL || parts->tried == NULL || parts->index == NULL ||
                   parts->present == NULL
               ? MRD_NOMEM
               : room_for_entries(parts);
}

static mrd_err
folder_make(mrd_parts *parts, mrd_why *why)
{
    char stale[256];
    const char *hive[] = { stale, NULL };
    static const char *const flat[] = { "*.parquet", "*.parquet.*.part", NULL };

    if (parts->env->dir == NULL)
        return mrd_outdir_tar(parts->env->out, &parts->folder, why);
    /* The name of a profile of files changes with the files. A second import into the same
     * directory replaces the first one nevertheless. */
    snprintf(stale, sizeof(stale), "table=*/date=*/session=%s/part-*",
             strncmp(mrd_rows_session(parts->rows), "s-files", 7) == 0
                 ? "s-files*"
                 : mrd_rows_session(parts->rows));
    return mrd_outdir_dir(parts->env->out, parts->env->dir, parts->hive ? hive : flat,
                          &parts->folder, why);
}

static void
parts_free(mrd_parts *parts)
{
    for (size_t i = 0; parts->tables != NULL && i < parts->dialect->n; i++) {
        table *t = &parts->tables[i];

        mrd_pq_drop(t->pq);
        mrd_outdir_drop(t->file);
        for (size_t c = 0; t->t != NULL && c < t->t->n; c++) {
            free(t->held[c].v.any);
            free(t->held[c].elements);
            free(t->held[c].present);
            mrd_buf_fini(&t->held[c].text);
        }
        free(t->track);
        mrd_json_free(t->list);
    }
    mrd_rows_free(parts->rows);
    free(parts->tables);
    free(parts->entry);
    free(parts->sids);
    free(parts->tracks);
    free(parts->entry_of_track);
    free(parts->index);
    free(parts->present);
    free(parts->ints);
    free(parts->found);
    free(parts->texts);
    free(parts->track_null);
    free(parts->track_seen);
    free(parts->tried);
    for (size_t i = 0; i < MRD_PQ_KEEPS; i++)
        free(parts->keeps[i].entries);
    free(parts);
}

mrd_err
mrd_parts_open(const mrd_sink_env *env, const mrd_dialect *dialect, mrd_parts **ret_parts,
               mrd_why *why)
{
    mrd_parts *parts = calloc(1, sizeof(*parts));
    mrd_err err;

    if (parts == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "tables");
    parts->env = env;
    parts->dialect = dialect;
    parts->hive = dialect == &mrd_dialect_meridian;
    err = mrd_rows_new(env, dialect, add_row, parts, &parts->rows, why);
    if (err == MRD_OK && (err = tables_make(parts)) != MRD_OK)
        mrd_why_set(why, err, 0, "tables");
    if (err == MRD_OK)
        err = folder_make(parts, why);
    if (err == MRD_OK)
        *ret_parts = parts;
    else
        parts_free(parts);
    return err;
}

mrd_err
mrd_parts_event(mrd_parts *parts, const mrd_event *ev)
{
    return mrd_rows_event(parts->rows, ev);
}

/* Writes the manifest: the list of files, and whether the output is complete. */
static mrd_err
put_manifest(mrd_parts *parts, mrd_out *to)
{
    mrd_json *doc = mrd_json_new_object(), *tables = mrd_json_new_array();
    mrd_buf text = { 0 };
    mrd_err err;

    mrd_json_set(doc, "format", mrd_json_new_str("meridian tables"));
    mrd_json_set(doc, "dialect", mrd_json_new_str(parts->dialect->name));
    mrd_json_set(doc, "version", mrd_json_new_str(parts->dialect->version));
    mrd_json_set(doc, "session", mrd_json_new_str(mrd_rows_session(parts->rows)));
    mrd_json_set(doc, "date", mrd_json_new_str(mrd_rows_date(parts->rows)));
    for (size_t i = 0; i < parts->dialect->n; i++) {
        mrd_json *json = mrd_json_new_object();

        mrd_json_set(json, "table", mrd_json_new_str(parts->tables[i].t->name));
        mrd_json_set(json, "rows", mrd_json_new_int((int64_t) parts->tables[i].rows));
        if (parts->tables[i].t->sorted_by >= 0)
            mrd_json_set(
                json, "sorted_by",
                mrd_json_new_str(parts->tables[i].t->columns[parts->tables[i].t->sorted_by].name));
        mrd_json_set(json, "parts", parts->tables[i].list);
        parts->tables[i].list = NULL;
        mrd_json_append(tables, json);
    }
    err = mrd_json_set(doc, "tables", tables);
    mrd_json_write(doc, true, &text);
    mrd_buf_byte(&text, '\n');
    if (err == MRD_OK && text.err != MRD_OK)
        err = text.err;
    if (err == MRD_OK)
        mrd_out_add(to, text.p, text.len);
    mrd_json_free(doc);
    mrd_buf_fini(&text);
    return err;
}

static mrd_err
finish(mrd_parts *parts)
{
    char hex[MRD_SHA256_HEX];
    mrd_outdir_file *file;
    uint64_t size;
    mrd_err err = mrd_rows_finish(parts->rows);

    for (size_t i = 0; i < parts->dialect->n && err == MRD_OK; i++) {
        table *t = &parts->tables[i];

        err = flush_group(parts, t);
        if (err == MRD_OK && parts->hive && t->parts == 0)
            err = part_open(parts, t); /* a table without rows gets one empty part */
        if (err == MRD_OK)
            err = part_close(parts, t);
    }
    if (err != MRD_OK || parts->env->dir != NULL)
        return err == MRD_OK ? put_manifest(parts, parts->env->out) : err;
    if ((err = mrd_outdir_open(parts->folder, "_manifest.json", &file, &parts->why)) != MRD_OK)
        return err;
    if ((err = put_manifest(parts, mrd_outdir_out(file))) != MRD_OK) {
        mrd_outdir_drop(file);
        return err;
    }
    return mrd_outdir_done(file, hex, &size, &parts->why);
}

mrd_err
mrd_parts_close(mrd_parts *parts, bool good, mrd_why *why)
{
    mrd_err err = good ? finish(parts) : MRD_OK;

    if (err != MRD_OK)
        mrd_why_set(why, err, parts->why.sys, "%s",
                    parts->why.text[0] != '\0' ? parts->why.text : "tables");
    mrd_outdir_close(parts->folder, good && err == MRD_OK);
    parts_free(parts);
    return err;
}
