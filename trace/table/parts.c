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

/* The values of a column until its row group is full. */
typedef struct {
    union {
        int64_t *i; /* for a column of arguments: only existing values, n_elements of them */
        double *d;
        mrd_sid *sid;
        uint32_t *n; /* ends of texts, or numbers of flows */
        void *any;
    } v;
    mrd_buf text;       /* TEXT, FLOWS */
    uint32_t *elements; /* FLOWS: ends */
    size_t n_elements, cap_elements;
    uint8_t *present; /* for a column of arguments: by row */
} held;

typedef struct {
    const mrd_table_def *t;
    mrd_pq_column columns[COLUMNS_MAX];
    held held[COLUMNS_MAX];
    uint32_t *track; /* by_track */
    bool by_track;
    /* Columns of the event itself, by kind, because each row stores a value per column. */
    struct {
        int64_t *to; /* held[column].v */
        uint8_t column, field;
    } words[COLUMNS_MAX]; /* integers and doubles */
    struct {
        mrd_sid *to;
        uint8_t column, field;
    } sids[COLUMNS_MAX];
    struct {
        uint8_t column, field, how;
    } texts[COLUMNS_MAX];
    size_t n_words, n_sids, n_texts;
    uint8_t args
        /* columns of arguments: few rows have one, and only existing values are kept */
        [MRD_ARG_COLUMNS];
    uint64_t args_set; /* a bit for each argument column of the table */
    size_t n, cap;     /* rows held */
    mrd_pq *pq;        /* the part that is open */
    mrd_outdir_file *file;
    char path[400];
    unsigned parts;
    uint64_t rows, part_rows;
    int64_t part_least, part_most; /* of the column that determines the order */
    mrd_json *list;                /* of the manifest */
} table;

struct mrd_parts {
    const mrd_sink_env *env;
    const mrd_dialect *dialect;
    mrd_rows *rows;
    mrd_outdir *folder;
    table *tables;
    bool hive;
    /* For one row group: */
    uint32_t *entry; /* by SID or by track: its dictionary entry, NO_ENTRY for none */
    size_t n_entry;
    mrd_sid *sids;    /* by entry */
    uint32_t *tracks; /* those in the group */
    size_t n_tracks;
    uint32_t *entry_of_track;
    uint32_t *index;  /* GROUP_ROWS */
    uint8_t *present; /* GROUP_ROWS */
    int64_t *ints;    /* of tracks, ascending */
    int64_t *found;   /* by entry */
    mrd_str *texts;   /* by entry */
    size_t cap_entries;
    uint8_t *track_null, *track_seen;
    /* Columns of this row group with kept data pages: the entry by index among `tracks`, NO_ENTRY
     * for null. Several columns often have equal entries, such as a process, its number and its
     * rank. */
    struct {
        uint32_t *entries;
        bool optional;
    } keeps[MRD_PQ_KEEPS];
    unsigned n_keeps;
    uint32_t *tried; /* used for the comparison when no more columns are kept */
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
is_arg(const mrd_column *c)
{
    return c->field >= F_ARG_FIRST && c->field <= F_ARG_LAST && c->type == MRD_COL_I64 &&
           c->optional;
}

/* ---- Rows to columns ---- */

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

/* How a text is kept. */
_Static_assert(F_COUNT <= UINT8_MAX, "fields are kept in a byte");

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

static mrd_err flush_group(mrd_parts *p, table *t);

static mrd_err
add_row(void *self, size_t number, const mrd_slot slots[F_COUNT])
{
    mrd_parts *p = self;
    table *t = &p->tables[number];
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
    return t->n == GROUP_ROWS || text > GROUP_TEXT ? flush_group(p, t) : MRD_OK;
}

/* ---- Parts ---- */

static mrd_err
part_open(mrd_parts *p, table *t)
{
    mrd_err err;

    if (p->hive)
        snprintf(t->path, sizeof(t->path), "table=%s/date=%s/session=%s/part-%05u.parquet",
                 t->t->name, mrd_rows_date(p->rows), mrd_rows_session(p->rows), t->parts);
    else
        snprintf(t->path, sizeof(t->path), "%s.parquet", t->t->name);
    if ((err = mrd_outdir_open(p->folder, t->path, &t->file, &p->why)) != MRD_OK)
        return err;
    err =
        mrd_pq_open(mrd_outdir_out(t->file), t->columns, t->t->n, t->t->sorted_by, &t->pq, &p->why);
    if (err != MRD_OK)
        return err;
    mrd_pq_note(t->pq, p->hive ? MRD_STR("meridian.table") : MRD_STR("table"),
                mrd_str_of(t->t->name));
    mrd_pq_note(t->pq, p->hive ? MRD_STR("meridian.schema") : MRD_STR("profile_schema_version"),
                mrd_str_of(p->dialect->version));
    mrd_pq_note(t->pq, MRD_STR("meridian.session"), mrd_str_of(mrd_rows_session(p->rows)));
    t->parts++;
    t->part_rows = 0;
    t->part_least = INT64_MAX;
    t->part_most = INT64_MIN;
    return MRD_OK;
}

static mrd_err
part_list(table *t, const char *hex, uint64_t size)
{
    mrd_json *o = mrd_json_new_object();

    mrd_json_set(o, "path", mrd_json_new_str(t->path));
    mrd_json_set(o, "rows", mrd_json_new_int((int64_t) t->part_rows));
    mrd_json_set(o, "bytes", mrd_json_new_int((int64_t) size));
    mrd_json_set(o, "sha256", mrd_json_new_str(hex));
    if (t->part_least <= t->part_most) {
        mrd_json_set(o, "min", mrd_json_new_int(t->part_least));
        mrd_json_set(o, "max", mrd_json_new_int(t->part_most));
    }
    return mrd_json_append(t->list, o);
}

static mrd_err
part_close(mrd_parts *p, table *t)
{
    char hex[MRD_SHA256_HEX];
    uint64_t size;
    mrd_err err;

    if (t->pq == NULL)
        return MRD_OK;
    err = mrd_pq_close(t->pq);
    t->pq = NULL;
    if (err == MRD_OK)
        err = mrd_outdir_done(t->file, hex, &size, &p->why);
    else
        mrd_outdir_drop(t->file);
    t->file = NULL;
    return err == MRD_OK ? part_list(t, hex, size) : err;
}

/* ---- Columns to row groups ---- */

/* Returns the entry of a SID in the group's dictionary, which is added if new. */
static uint32_t
entry_of(mrd_parts *p, mrd_sid sid, size_t *n)
{
    if (p->entry[sid] == NO_ENTRY) {
        p->entry[sid] = (uint32_t) *n;
        p->sids[(*n)++] = sid;
    }
    return p->entry[sid];
}

static mrd_err
room_for_entries(mrd_parts *p)
{
    size_t sids = mrd_rows_sids(p->rows), most = sids + mrd_rows_tracks(p->rows) + 1;
    size_t entries = p->cap_entries, list = entries, ints = entries, found = entries,
           texts = entries;

    if (most <= p->cap_entries)
        return MRD_OK;
    most += most / 4 + 64;
    if (!MRD_VEC_ROOM(p->entry, 0, entries, most) || !MRD_VEC_ROOM(p->sids, 0, list, most) ||
        !MRD_VEC_ROOM(p->ints, 0, ints, most) || !MRD_VEC_ROOM(p->found, 0, found, most) ||
        !MRD_VEC_ROOM(p->texts, 0, texts, most))
        return MRD_NOMEM;
    for (size_t i = p->cap_entries; i < most; i++)
        p->entry[i] = NO_ENTRY;
    p->cap_entries = most;
    return MRD_OK;
}

/* Takes the texts of the entries, and clears the entries of SIDs. */
static void
take_texts(mrd_parts *p, size_t n)
{
    for (size_t e = 0; e < n; e++) {
        p->texts[e] = mrd_rows_text(p->rows, p->sids[e]);
        p->entry[p->sids[e]] = NO_ENTRY;
    }
}

/* If every row has a value, rows need not be checked one by one. */
static const uint8_t *
present_if_any_null(const mrd_parts *p, size_t rows)
{
    return memchr(p->present, 0, rows) == NULL ? NULL : p->present;
}

static void
values_sid(mrd_parts *p, const table *t, size_t i, mrd_pq_values *v)
{
    const mrd_sid *sid = t->held[i].v.sid;
    bool optional = t->t->columns[i].optional;
    size_t n = 0;

    for (size_t r = 0; r < t->n; r++) {
        if (optional && (p->present[r] = sid[r] != MRD_SID_EMPTY) == 0)
            continue;
        p->index[r] = entry_of(p, sid[r], &n);
    }
    take_texts(p, n);
    *v = (mrd_pq_values){ .index = p->index,
                          .texts = p->texts,
                          .entries = n,
                          .present = optional ? present_if_any_null(p, t->n) : NULL };
}

static void
find_tracks(mrd_parts *p, const table *t)
{
    p->n_tracks = 0;
    memset(p->track_seen, 0, mrd_rows_tracks(p->rows));
    for (size_t r = 0; r < t->n; r++) {
        if (p->track_seen[t->track[r]] == 0) {
            p->track_seen[t->track[r]] = 1;
            p->tracks[p->n_tracks++] = t->track[r];
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

/* Collects the integers of the group's tracks, in the order of the tracks as for texts. */
static size_t
track_ints(mrd_parts *p, mrd_field field, bool optional)
{
    size_t n = 0, kept = 0;

    for (size_t k = 0; k < p->n_tracks; k++) {
        int64_t v = mrd_rows_track(p->rows, p->tracks[k])[field - F_TRACK].i;

        if (!optional || v != -1)
            p->ints[n++] = v;
    }
    qsort(p->ints, n, sizeof(*p->ints), order_ints);
    for (size_t k = 0; k < n; k++) {
        if (k == 0 || p->ints[k] != p->ints[kept - 1])
            p->ints[kept++] = p->ints[k];
    }
    for (size_t k = 0; k < kept; k++)
        p->sids[k] = NO_ENTRY;
    n = 0;
    for (size_t k = 0; k < p->n_tracks; k++) {
        int64_t v = mrd_rows_track(p->rows, p->tracks[k])[field - F_TRACK].i;
        const int64_t *at = kept == 0 ? NULL : bsearch(&v, p->ints, kept, sizeof(v), order_ints);

        p->track_null[p->tracks[k]] = at == NULL;
        p->entry_of_track[p->tracks[k]] = 0;
        if (at == NULL)
            continue;
        if (p->sids[at - p->ints] == NO_ENTRY) {
            p->found[n] = v;
            p->sids[at - p->ints] = (uint32_t) n++;
        }
        p->entry_of_track[p->tracks[k]] = p->sids[at - p->ints];
    }
    return n;
}

static size_t
track_texts(mrd_parts *p, mrd_field field, bool optional)
{
    size_t n = 0;

    for (size_t k = 0; k < p->n_tracks; k++) {
        mrd_sid sid = mrd_rows_track(p->rows, p->tracks[k])[field - F_TRACK].sid;

        p->track_null[p->tracks[k]] = optional && sid == MRD_SID_EMPTY;
        if (!p->track_null[p->tracks[k]])
            p->entry_of_track[p->tracks[k]] = entry_of(p, sid, &n);
        else
            p->entry_of_track[p->tracks[k]] = 0;
    }
    take_texts(p, n);
    return n;
}

/* Gets the entry of each row from its track, and whether it has one. */
static void
rows_of_tracks(mrd_parts *p, const table *t, bool any_null)
{
    const uint32_t *restrict track = t->track, *restrict entry = p->entry_of_track;
    const uint8_t *restrict is_null = p->track_null;
    uint32_t *restrict index = p->index;
    uint8_t *restrict present = p->present;
    size_t rows = t->n;

    for (size_t r = 0; r < rows; r++)
        index[r] = entry[track[r]];
    for (size_t r = 0; r < rows && any_null; r++)
        present[r] = is_null[track[r]] == 0;
}

/* Uses the entries of an earlier column of this row group if they are equal, or keeps these for
 * later columns. */
static void
share_entries(mrd_parts *p, bool optional, mrd_pq_values *v)
{
    uint32_t *own = p->n_keeps < MRD_PQ_KEEPS ? p->keeps[p->n_keeps].entries : p->tried;

    for (size_t k = 0; k < p->n_tracks; k++)
        own[k] = p->track_null[p->tracks[k]] != 0 ? NO_ENTRY : p->entry_of_track[p->tracks[k]];
    for (unsigned i = 0; i < p->n_keeps; i++) {
        if (p->keeps[i].optional == optional &&
            memcmp(p->keeps[i].entries, own, p->n_tracks * sizeof(*own)) == 0) {
            v->like = i + 1;
            return;
        }
    }
    if (p->n_keeps == MRD_PQ_KEEPS)
        return;
    p->keeps[p->n_keeps++].optional = optional;
    v->keep = p->n_keeps;
}

static void
values_track(mrd_parts *p, const table *t, size_t i, mrd_pq_values *v)
{
    const mrd_column *c = &t->t->columns[i];
    bool text = c->type == MRD_COL_SID;
    size_t n = text ? track_texts(p, c->field, c->optional) : track_ints(p, c->field, c->optional);
    bool any_null = false;

    for (size_t k = 0; k < p->n_tracks && c->optional; k++)
        any_null = any_null || p->track_null[p->tracks[k]] != 0;
    *v =
        (mrd_pq_values){ .index = p->index, .entries = n, .present = any_null ? p->present : NULL };
    if (text)
        v->texts = p->texts;
    else
        v->ints = p->found;
    if (n > 1)
        share_entries(p, c->optional, v);
    if (n == 0)
        memset(p->present, 0, t->n);
    else if (v->like == 0 || any_null)
        rows_of_tracks(p, t, any_null);
}

/* Separate from the structures, so that the compiler can vectorize the loop. */
static void
present_ints(uint8_t *restrict present, const int64_t *restrict v, size_t rows)
{
    for (size_t r = 0; r < rows; r++)
        present[r] = v[r] != -1;
}

static void
values_of(mrd_parts *p, const table *t, size_t i, mrd_pq_values *v)
{
    const mrd_column *c = &t->t->columns[i];
    const held *h = &t->held[i];

    *v = (mrd_pq_values){ 0 };
    if (t->by_track && mrd_field_of_track(c->field)) {
        values_track(p, t, i, v);
        return;
    }
    if (is_arg(c)) {
        static const int64_t none;

        v->kept = h->n_elements == 0 ? &none : h->v.i;
        v->n_kept = h->n_elements;
        v->present = h->n_elements == t->n ? NULL : h->present;
        return;
    }
    switch (c->type) {
    case MRD_COL_I64:
    case MRD_COL_BOOL:
        v->i64 = h->v.i;
        if (c->optional)
            present_ints(p->present, h->v.i, t->n);
        v->present = c->optional ? present_if_any_null(p, t->n) : NULL;
        break;
    case MRD_COL_DOUBLE:
    case MRD_COL_FLOAT:
        v->d = h->v.d;
        for (size_t r = 0; r < t->n && c->optional; r++)
            p->present[r] = c->field != F_NONE && !isnan(h->v.d[r]) && h->v.d[r] != -1;
        v->present = c->optional ? present_if_any_null(p, t->n) : NULL;
        break;
    case MRD_COL_SID:
        values_sid(p, t, i, v);
        break;
    case MRD_COL_TEXT:
        v->ends = h->v.n;
        v->bytes = h->text.p;
        for (size_t r = 0; r < t->n && c->optional; r++)
            p->present[r] = h->v.n[r] != (r == 0 ? 0 : h->v.n[r - 1]);
        v->present = c->optional ? p->present : NULL;
        break;
    case MRD_COL_FLOWS:
        v->counts = h->v.n;
        v->ends = h->elements;
        v->bytes = h->text.p;
        break;
    }
}

static void
part_range(table *t)
{
    const int64_t *v;

    if (t->t->sorted_by < 0 || (v = t->held[t->t->sorted_by].v.i) == NULL)
        return;
    for (size_t r = 0; r < t->n; r++) {
        t->part_least = v[r] < t->part_least ? v[r] : t->part_least;
        t->part_most = v[r] > t->part_most ? v[r] : t->part_most;
    }
}

static mrd_err
flush_group(mrd_parts *p, table *t)
{
    size_t rows = t->n;
    mrd_pq_values v;
    mrd_err err = MRD_OK;

    if (rows == 0)
        return MRD_OK;
    if (t->pq == NULL && (err = part_open(p, t)) != MRD_OK)
        return err;
    if ((err = room_for_entries(p)) != MRD_OK)
        return err;
    if (t->by_track)
        find_tracks(p, t);
    p->n_keeps = 0;
    mrd_pq_small(
        t->pq,
        t->rows <
            /* traces of one process usually end before this; most rows of a long session come
             * later */
            GROUP_ROWS);
    mrd_pq_begin(t->pq, t->n);
    for (size_t i = 0; i < t->t->n; i++) {
        values_of(p, t, i, &v);
        mrd_pq_add(t->pq, &v);
    }
    err = mrd_pq_end(t->pq);
    mrd_pq_small(t->pq, false); /* releases its memory until the next one */
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
    if (err == MRD_OK && p->hive && mrd_out_size(mrd_outdir_out(t->file)) >= PART_BYTES)
        err = part_close(p, t);
    return err;
}

/* ---- Lifecycle ---- */

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

/* Sets where a column of the table's own values is stored. */
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
tables_make(mrd_parts *p)
{
    size_t tracks;

    if ((p->tables = calloc(p->dialect->n, sizeof(*p->tables))) == NULL)
        return MRD_NOMEM;
    for (size_t i = 0; i < p->dialect->n; i++) {
        table *t = &p->tables[i];

        t->t = &p->dialect->tables[i];
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
    tracks = mrd_rows_tracks(p->rows) + 1;
    p->tracks = calloc(tracks, sizeof(*p->tracks));
    p->entry_of_track = calloc(tracks, sizeof(*p->entry_of_track));
    p->track_null = calloc(tracks, 1);
    p->track_seen = calloc(tracks, 1);
    p->tried = calloc(tracks, sizeof(*p->tried));
    for (size_t i = 0; i < MRD_PQ_KEEPS; i++) {
        if ((p->keeps[i].entries = calloc(tracks, sizeof(uint32_t))) == NULL)
            return MRD_NOMEM;
    }
    p->index = calloc(GROUP_ROWS, sizeof(*p->index));
    p->present = calloc(GROUP_ROWS, 1);
    return p->tracks == NULL || p->entry_of_track == NULL || p->track_null == NULL ||
                   p->track_seen == NULL || p->tried == NULL || p->index == NULL ||
                   p->present == NULL
               ? MRD_NOMEM
               : room_for_entries(p);
}

static mrd_err
folder_make(mrd_parts *p, mrd_why *why)
{
    char stale[256];
    const char *hive[] = { stale, NULL };
    static const char *const flat[] = { "*.parquet", "*.parquet.*.part", NULL };

    if (p->env->dir == NULL)
        return mrd_outdir_tar(p->env->out, &p->folder, why);
    snprintf(stale, sizeof(stale), "table=*/date=*/session=%s/part-*", mrd_rows_session(p->rows));
    return mrd_outdir_dir(p->env->dir, p->hive ? hive : flat, &p->folder, why);
}

static void
parts_free(mrd_parts *p)
{
    for (size_t i = 0; p->tables != NULL && i < p->dialect->n; i++) {
        table *t = &p->tables[i];

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
    mrd_rows_free(p->rows);
    free(p->tables);
    free(p->entry);
    free(p->sids);
    free(p->tracks);
    free(p->entry_of_track);
    free(p->index);
    free(p->present);
    free(p->ints);
    free(p->found);
    free(p->texts);
    free(p->track_null);
    free(p->track_seen);
    free(p->tried);
    for (size_t i = 0; i < MRD_PQ_KEEPS; i++)
        free(p->keeps[i].entries);
    free(p);
}

mrd_err
mrd_parts_open(const mrd_sink_env *env, const mrd_dialect *dialect, mrd_parts **ret_parts,
               mrd_why *why)
{
    mrd_parts *p = calloc(1, sizeof(*p));
    mrd_err err;

    if (p == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "tables");
    p->env = env;
    p->dialect = dialect;
    p->hive = dialect == &mrd_dialect_meridian;
    err = mrd_rows_new(env, dialect, add_row, p, &p->rows, why);
    if (err == MRD_OK && (err = tables_make(p)) != MRD_OK)
        mrd_why_set(why, err, 0, "tables");
    if (err == MRD_OK)
        err = folder_make(p, why);
    if (err == MRD_OK)
        *ret_parts = p;
    else
        parts_free(p);
    return err;
}

mrd_err
mrd_parts_event(mrd_parts *p, const mrd_event *ev)
{
    return mrd_rows_event(p->rows, ev);
}

/* Writes the manifest: the list of files, and whether it is complete. */
static mrd_err
put_manifest(mrd_parts *p, mrd_out *to)
{
    mrd_json *doc = mrd_json_new_object(), *tables = mrd_json_new_array();
    mrd_buf text = { 0 };
    mrd_err err;

    mrd_json_set(doc, "format", mrd_json_new_str("meridian tables"));
    mrd_json_set(doc, "dialect", mrd_json_new_str(p->dialect->name));
    mrd_json_set(doc, "version", mrd_json_new_str(p->dialect->version));
    mrd_json_set(doc, "session", mrd_json_new_str(mrd_rows_session(p->rows)));
    mrd_json_set(doc, "date", mrd_json_new_str(mrd_rows_date(p->rows)));
    for (size_t i = 0; i < p->dialect->n; i++) {
        mrd_json *t = mrd_json_new_object();

        mrd_json_set(t, "table", mrd_json_new_str(p->tables[i].t->name));
        mrd_json_set(t, "rows", mrd_json_new_int((int64_t) p->tables[i].rows));
        if (p->tables[i].t->sorted_by >= 0)
            mrd_json_set(t, "sorted_by",
                         mrd_json_new_str(p->tables[i].t->columns[p->tables[i].t->sorted_by].name));
        mrd_json_set(t, "parts", p->tables[i].list);
        p->tables[i].list = NULL;
        mrd_json_append(tables, t);
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
finish(mrd_parts *p)
{
    char hex[MRD_SHA256_HEX];
    mrd_outdir_file *file;
    uint64_t size;
    mrd_err err = mrd_rows_finish(p->rows);

    for (size_t i = 0; i < p->dialect->n && err == MRD_OK; i++) {
        table *t = &p->tables[i];

        err = flush_group(p, t);
        if (err == MRD_OK && p->hive && t->parts == 0)
            err = part_open(p, t); /* a table without rows gets one file without rows */
        if (err == MRD_OK)
            err = part_close(p, t);
    }
    if (err != MRD_OK || p->env->dir != NULL)
        return err == MRD_OK ? put_manifest(p, p->env->out) : err;
    if ((err = mrd_outdir_open(p->folder, "_manifest.json", &file, &p->why)) != MRD_OK)
        return err;
    if ((err = put_manifest(p, mrd_outdir_out(file))) != MRD_OK) {
        mrd_outdir_drop(file);
        return err;
    }
    return mrd_outdir_done(file, hex, &size, &p->why);
}

mrd_err
mrd_parts_close(mrd_parts *p, bool good, mrd_why *why)
{
    mrd_err err = good ? finish(p) : MRD_OK;

    if (err != MRD_OK)
        mrd_why_set(why, err, p->why.sys, "%s", p->why.text[0] != '\0' ? p->why.text : "tables");
    mrd_outdir_close(p->folder, good && err == MRD_OK);
    parts_free(p);
    return err;
}
