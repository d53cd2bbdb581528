#include "trace/table/parquet.h"

#include <endian.h>
#include <math.h>
#include <stdlib.h>

#include "base/obj.h"
#include "base/vec.h"
#include "trace/table/pq_ints.h"
#include "trace/table/pq_texts.h"
#include "trace/table/pq_thrift.h"

enum { CODEC_ZSTD = 6 };
enum { T_BOOL = 0, T_I64 = 2, T_FLOAT = 4, T_DOUBLE = 5, T_BYTES = 6 };

#define PAGE_ROWS  MRD_PQ_PAGE_ROWS
#define PAGE_BYTES (1u << 20)
#define STAT_MAX   MRD_PQ_STAT_MAX

typedef mrd_pq_chunk chunk;

struct mrd_pq {
    mrd_out *out;
    const mrd_pq_column *columns;
    size_t n;
    int sorted_by;
    uint64_t rows;
    size_t groups;
    mrd_buf meta;  /* metadata of the finished row groups, encoded for the footer */
    mrd_buf notes; /* key-value pairs, encoded for the footer */
    size_t n_notes;
    mrd_pq_pages pages;
    mrd_pq_ints ints;
    mrd_pq_habit *habits; /* for each column: the encoding that was last chosen for its integers */
    struct {
        mrd_pq_copy pages;
        /* number of dictionary entries of the column with the stored pages, and the column's
         * index */
        size_t entries, column;
    } keeps[MRD_PQ_KEEPS];
    uint32_t *index;
    size_t cap; /* number of rows for which `index` has room */
    mrd_pq_texts texts;
    mrd_thrift group; /* metadata of the row group that is being written, encoded for the footer */
    size_t group_rows, column;
    uint64_t group_at, group_raw, group_packed;
};

static int
physical(mrd_pq_type type)
{
    return type == MRD_PQ_I64      ? T_I64
           : type == MRD_PQ_DOUBLE ? T_DOUBLE
           : type == MRD_PQ_FLOAT  ? T_FLOAT
           : type == MRD_PQ_BOOL   ? T_BOOL
                                   : T_BYTES;
}

mrd_err
mrd_pq_open(mrd_out *out, const mrd_pq_column *columns, size_t n, int sorted_by, mrd_pq **ret_pq,
            mrd_why *why)
{
    mrd_pq *pq = calloc(1, sizeof(*pq));

    if (pq != NULL) {
        *pq = (mrd_pq){ .out = out, .columns = columns, .n = n, .sorted_by = sorted_by };
        pq->habits = calloc(n, sizeof(*pq->habits));
    }
    if (pq == NULL || pq->habits == NULL || !mrd_pq_pages_init(&pq->pages, out) ||
        !mrd_pq_ints_init(&pq->ints)) {
        mrd_pq_drop(pq);
        return mrd_why_set(why, MRD_NOMEM, 0, "parquet");
    }
    mrd_out_add(out, "PAR1", 4);
    *ret_pq = pq;
    return MRD_OK;
}

void
mrd_pq_drop(mrd_pq *pq)
{
    if (pq == NULL)
        return;
    mrd_buf_fini(&pq->meta);
    mrd_buf_fini(&pq->notes);
    mrd_pq_pages_fini(&pq->pages);
    mrd_pq_ints_fini(&pq->ints);
    for (size_t i = 0; i < MRD_PQ_KEEPS; i++)
        mrd_buf_fini(&pq->keeps[i].pages.bytes);
    free(pq->habits);
    free(pq->index);
    mrd_pq_texts_fini(&pq->texts);
    free(pq);
}

void
mrd_pq_note(mrd_pq *pq, mrd_str key, mrd_str value)
{
    mrd_thrift thrift = { &pq->notes, 0 };

    mrd_thrift_text(&thrift, 1, key);
    mrd_thrift_text(&thrift, 2, value);
    mrd_thrift_end(&thrift);
    pq->n_notes++;
}

static void
put_presence(mrd_pq *pq, const mrd_pq_column *column, const uint8_t *present, size_t at, size_t n)
{
    if (column->optional && present == NULL)
        mrd_pq_put_same(&pq->pages, true, n);
    else if (column->optional)
        mrd_pq_put_presence(&pq->pages, present + at, n);
}

/* Returns how many of the n rows from row `at` on have a value in this column. */
static size_t
rows_there(const mrd_pq_column *column, const uint8_t *present, size_t at, size_t n)
{
    return column->optional && present != NULL ? mrd_pq_count(present + at, n) : n;
}

static void
put_page(mrd_pq *pq, chunk *c, int type, size_t values)
{
    mrd_pq_put_page(&pq->pages, c, type, values);
}

/* ---- Statistics of column chunks ---- */

static void
stats_i64(chunk *c, const int64_t *values, size_t n)
{
    int64_t least = INT64_MAX, most = INT64_MIN;

    if (n == 0)
        return;
    for (size_t i = 0; i < n; i++) {
        least = values[i] < least ? values[i] : least;
        most = values[i] > most ? values[i] : most;
    }
    least = (int64_t) htole64((uint64_t) least);
    most = (int64_t) htole64((uint64_t) most);
    memcpy(c->least, &least, 8);
    memcpy(c->most, &most, 8);
    c->least_len = c->most_len = 8;
    c->sure = true;
}

static int
text_order(mrd_str a, mrd_str b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int order = n == 0 ? 0 : memcmp(a.p, b.p, n);

    return order != 0 ? order : a.len < b.len ? -1 : a.len > b.len;
}

/* Sets the statistics of a text column, unless one of the two texts is longer than STAT_MAX. */
static void
stats_text(chunk *c, mrd_str least, mrd_str most)
{
    if (least.len > STAT_MAX || most.len > STAT_MAX)
        return;
    if (least.len > 0)
        memcpy(c->least, least.p, least.len);
    if (most.len > 0)
        memcpy(c->most, most.p, most.len);
    c->least_len = least.len;
    c->most_len = most.len;
    c->sure = true;
}

/* ---- Writing columns ---- */

static bool
roomy(mrd_pq *pq, size_t rows)
{
    if (MRD_VEC_ROOM(pq->index, 0, pq->cap, rows))
        return true;
    mrd_pq_fail(&pq->pages, MRD_NOMEM);
    return false;
}

/* Writes a column without any value: only the levels that mark all rows as null. */
static void
put_nulls(mrd_pq *pq, chunk *c, size_t rows)
{
    c->encoding = MRD_PQ_PLAIN;
    c->nulls = rows;
    for (size_t at = 0; at < rows; at += PAGE_ROWS) {
        size_t n = rows - at < PAGE_ROWS ? rows - at : PAGE_ROWS;

        mrd_pq_put_same(&pq->pages, false, n);
        put_page(pq, c, MRD_PQ_PAGE_DATA, n);
    }
}

/* Writes the data pages of a column that has a dictionary. `index` has no elements for null
 * rows. */
static void
put_indexes(mrd_pq *pq, chunk *c, const mrd_pq_column *column, const mrd_pq_values *values,
            const uint32_t *index, size_t rows)
{
    unsigned width = mrd_pq_index_width(values->entries);

    for (size_t at = 0; at < rows; at += PAGE_ROWS) {
        size_t n = rows - at < PAGE_ROWS ? rows - at : PAGE_ROWS, there;

        there = rows_there(column, values->present, at, n);
        put_presence(pq, column, values->present, at, n);
        mrd_buf_byte(&pq->pages.page, (uint8_t) width);
        mrd_pq_put_index(&pq->pages.page, index, there, width);
        index += there;
        put_page(pq, c, MRD_PQ_PAGE_DATA, n);
    }
}

/* Writes the data pages of a column of integers without a dictionary. `kept` has no elements for
 * null rows. */
static void
put_int_pages(mrd_pq *pq, chunk *c, const mrd_pq_column *column, const mrd_pq_values *values,
              const int64_t *kept, mrd_pq_form form, size_t rows)
{
    c->encoding = form == MRD_PQ_AS_PLAIN ? MRD_PQ_PLAIN : MRD_PQ_DELTA;
    for (size_t at = 0; at < rows; at += PAGE_ROWS) {
        size_t n = rows - at < PAGE_ROWS ? rows - at : PAGE_ROWS, there;

        there = rows_there(column, values->present, at, n);
        put_presence(pq, column, values->present, at, n);
        if (form == MRD_PQ_AS_PLAIN)
            mrd_pq_put_ints(&pq->pages, kept, there);
        else
            mrd_pq_put_delta(&pq->pages.page, kept, there, form == MRD_PQ_AS_BYTE_DELTAS);
        kept += there;
        put_page(pq, c, MRD_PQ_PAGE_DATA, n);
    }
}

/* Writes a column of integers, encoded as mrd_pq_ints_form chooses. `kept` has the n values (at
 * least 1) of the rows that are not null. */
static void
put_ints_column(mrd_pq *pq, chunk *c, size_t i, const mrd_pq_values *values, const int64_t *kept,
                size_t n)
{
    const mrd_pq_column *column = &pq->columns[i];
    mrd_pq_values made = { .present = values->present, .entries = 1 };
    size_t rows = pq->group_rows;
    mrd_pq_form form;

    if (memcmp(kept, kept + 1, (n - 1) * sizeof(*kept)) == 0) { /* all n values are equal */
        stats_i64(c, kept, 1);
        mrd_pq_put_ints(&pq->pages, kept, 1);
        form = MRD_PQ_AS_INDEXES;
    } else {
        form = mrd_pq_ints_form(&pq->ints, &pq->pages, &pq->habits[i], kept, n,
                                (int) i == pq->sorted_by, pq->index);
        if (form != MRD_PQ_AS_INDEXES) {
            stats_i64(c, kept, n);
            put_int_pages(pq, c, column, values, kept, form, rows);
            return;
        }
        made.entries = pq->ints.n;
        stats_i64(c, pq->ints.entries, made.entries);
        mrd_pq_put_ints(&pq->pages, pq->ints.entries, made.entries);
    }
    c->encoding = MRD_PQ_DICT;
    put_page(pq, c, MRD_PQ_PAGE_DICT, made.entries);
    put_indexes(pq, c, column, &made, pq->index, rows);
}

static void
put_i64_column(mrd_pq *pq, chunk *c, size_t i, const mrd_pq_values *values, size_t rows)
{
    int64_t *kept;
    size_t n = 0;

    if (c->nulls == rows) {
        put_nulls(pq, c, rows);
    } else if (values->kept != NULL || c->nulls == 0) {
        put_ints_column(pq, c, i, values, values->kept != NULL ? values->kept : values->i64,
                        rows - c->nulls);
    } else if ((kept = malloc(rows * sizeof(*kept))) == NULL) {
        mrd_pq_fail(&pq->pages, MRD_NOMEM);
    } else {
        for (size_t r = 0; r < rows; r++) {
            /* Without a branch: store the value in any case, but advance n only if the row has a
             * value. */
            kept[n] = values->i64[r];
            n += values->present[r];
        }
        put_ints_column(pq, c, i, values, kept, n);
        free(kept);
    }
}

static void
put_text_plain(mrd_pq *pq, mrd_str text)
{
    uint32_t le = htole32((uint32_t) text.len);

    mrd_buf_add(&pq->pages.page, &le, 4);
    mrd_buf_str(&pq->pages.page, text);
}

/* Writes the dictionary that the caller supplied as a page, and sets the column's statistics from
 * it. */
static void
put_entries(mrd_pq *pq, chunk *c, const mrd_pq_column *column, const mrd_pq_values *values)
{
    size_t least = 0, most = 0;

    c->encoding = MRD_PQ_DICT;
    if (column->type == MRD_PQ_I64) {
        stats_i64(c, values->ints, values->entries);
        mrd_pq_put_ints(&pq->pages, values->ints, values->entries);
    } else {
        for (size_t e = 0; e < values->entries; e++) {
            least = text_order(values->texts[e], values->texts[least]) < 0 ? e : least;
            most = text_order(values->texts[e], values->texts[most]) > 0 ? e : most;
            put_text_plain(pq, values->texts[e]);
        }
        stats_text(c, values->texts[least], values->texts[most]);
    }
    put_page(pq, c, MRD_PQ_PAGE_DICT, values->entries);
}

static void
put_indexed_column(mrd_pq *pq, chunk *c, size_t i, const mrd_pq_values *values, size_t rows)
{
    const mrd_pq_column *column = &pq->columns[i];
    const uint32_t *index = values->index;
    size_t count = 0;

    if (values->entries == 0) {
        put_nulls(pq, c, rows);
        return;
    }
    put_entries(pq, c, column, values);
    if (values->like > 0) {
        MRD_ASSERT(pq->keeps[values->like - 1].entries == values->entries &&
                   pq->columns[pq->keeps[values->like - 1].column].optional == column->optional);
        mrd_pq_put_copy(&pq->pages, c, &pq->keeps[values->like - 1].pages);
        return;
    }
    if (column->optional && values->present != NULL) {
        for (size_t r = 0; r < rows; r++) {
            pq->index[count] = values->index[r];
            count += values->present[r];
        }
        index = pq->index;
    }
    if (values->keep > 0) {
        pq->keeps[values->keep - 1].entries = values->entries;
        pq->keeps[values->keep - 1].column = i;
        pq->pages.copy = &pq->keeps[values->keep - 1].pages;
        pq->pages.copy->raw = 0;
        mrd_buf_reset(&pq->pages.copy->bytes);
    }
    put_indexes(pq, c, column, values, index, rows);
    pq->pages.copy = NULL;
}

static mrd_pq_text_rows
texts_of(const mrd_pq_values *values)
{
    return (mrd_pq_text_rows){ values->ends, values->bytes, values->present };
}

static void
put_text_dictionary(mrd_pq *pq, chunk *c, size_t i, const mrd_pq_values *values, size_t rows)
{
    mrd_pq_text_rows of = texts_of(values);
    mrd_pq_values made = *values;
    mrd_str least = mrd_pq_text_at(&of, pq->texts.rows[0]), most = least;

    made.entries = pq->texts.n;
    c->encoding = MRD_PQ_DICT;
    for (size_t e = 0; e < made.entries; e++) {
        mrd_str text = mrd_pq_text_at(&of, pq->texts.rows[e]);

        least = text_order(text, least) < 0 ? text : least;
        most = text_order(text, most) > 0 ? text : most;
        put_text_plain(pq, text);
    }
    put_page(pq, c, MRD_PQ_PAGE_DICT, made.entries);
    put_indexes(pq, c, &pq->columns[i], &made, pq->index, rows);
    stats_text(c, least, most);
}

static void
put_text_column(mrd_pq *pq, chunk *c, size_t i, const mrd_pq_values *values, size_t rows)
{
    const mrd_pq_column *column = &pq->columns[i];
    mrd_pq_text_rows of = texts_of(values);
    mrd_str least = { 0 }, most = { 0 };
    bool any = false;

    if (!mrd_pq_texts_make(&pq->texts, &of, rows, pq->index))
        mrd_pq_fail(&pq->pages, MRD_NOMEM);
    if (pq->texts.n > 0) {
        put_text_dictionary(pq, c, i, values, rows);
        return;
    }
    c->encoding = MRD_PQ_PLAIN;
    for (size_t at = 0, count; at < rows; at += count) {
        size_t bytes = 0;

        for (count = 0; at + count < rows && count < PAGE_ROWS && bytes < PAGE_BYTES; count++)
            bytes += mrd_pq_text_at(&of, at + count).len;
        put_presence(pq, column, values->present, at, count);
        for (size_t r = at; r < at + count; r++) {
            mrd_str text = mrd_pq_text_at(&of, r);

            if (mrd_pq_is_null(&of, r))
                continue;
            least = !any || text_order(text, least) < 0 ? text : least;
            most = !any || text_order(text, most) > 0 ? text : most;
            any = true;
            put_text_plain(pq, text);
        }
        put_page(pq, c, MRD_PQ_PAGE_DATA, count);
    }
    if (any)
        stats_text(c, least, most);
}

/* Writes a column of lists. One page holds the whole row group, because lists are short. */
static void
put_list_column(mrd_pq *pq, chunk *c, const mrd_pq_values *values, size_t rows)
{
    mrd_pq_text_rows of = texts_of(values);
    uint32_t *levels;
    size_t count = 0, e = 0;

    for (size_t r = 0; r < rows; r++)
        count += values->counts[r] == 0 ? 1 : values->counts[r];
    c->encoding = MRD_PQ_PLAIN;
    c->values = count;
    if ((levels = calloc(count + 1, sizeof(*levels))) == NULL) {
        mrd_pq_fail(&pq->pages, MRD_NOMEM);
        return;
    }
    count = 0;
    for (size_t r = 0; r < rows; r++) {
        size_t k = values->counts[r] == 0 ? 1 : values->counts[r];

        for (size_t j = 0; j < k; j++)
            levels[count++] = j > 0;
    }
    mrd_pq_put_levels(&pq->pages, levels, count, 1);
    count = 0;
    for (size_t r = 0; r < rows; r++) {
        size_t k = values->counts[r] == 0 ? 1 : values->counts[r];

        c->nulls += values->counts[r] == 0;
        for (size_t j = 0; j < k; j++)
            levels[count++] = values->counts[r] == 0 ? 0 : 3;
    }
    mrd_pq_put_levels(&pq->pages, levels, count, 2);
    free(levels);
    for (size_t r = 0; r < rows; r++) {
        for (uint32_t j = 0; j < values->counts[r]; j++)
            put_text_plain(pq, mrd_pq_text_at(&of, e++));
    }
    put_page(pq, c, MRD_PQ_PAGE_DATA, count);
}

static void
put_real(mrd_pq *pq, mrd_pq_type type, double d)
{
    uint64_t bits;
    uint32_t half;
    float f = (float) d;

    if (type == MRD_PQ_FLOAT) {
        memcpy(&half, &f, 4);
        half = htole32(half);
        mrd_buf_add(&pq->pages.page, &half, 4);
    } else {
        memcpy(&bits, &d, 8);
        bits = htole64(bits);
        mrd_buf_add(&pq->pages.page, &bits, 8);
    }
}

/* Sets the statistics of doubles. The caller has checked that no value is NaN, because readers
 * disagree on NaN. A zero gets the sign that also covers the other zero: -0 as least, +0 as
 * greatest. */
static void
stats_real(mrd_pq *pq, chunk *c, mrd_pq_type type, double least, double most)
{
    size_t size = type == MRD_PQ_FLOAT ? 4 : 8;

    mrd_buf_reset(&pq->pages.page);
    put_real(pq, type, least == 0 ? -0.0 : least);
    put_real(pq, type, most == 0 ? 0.0 : most);
    if (pq->pages.page.err == MRD_OK) {
        memcpy(c->least, pq->pages.page.p, size);
        memcpy(c->most, pq->pages.page.p + size, size);
        c->least_len = c->most_len = size;
        c->sure = true;
    }
    mrd_buf_reset(&pq->pages.page);
}

static void
put_real_column(mrd_pq *pq, chunk *c, size_t i, const mrd_pq_values *values, size_t rows)
{
    const mrd_pq_column *column = &pq->columns[i];
    double least = INFINITY, most = -INFINITY;
    bool nan = false, any = false;

    c->encoding = MRD_PQ_PLAIN;
    for (size_t at = 0; at < rows; at += PAGE_ROWS) {
        size_t n = rows - at < PAGE_ROWS ? rows - at : PAGE_ROWS;

        put_presence(pq, column, values->present, at, n);
        for (size_t r = at; r < at + n; r++) {
            double d = column->type == MRD_PQ_FLOAT ? (double) (float) values->d[r] : values->d[r];

            if (values->present != NULL && values->present[r] == 0)
                continue;
            nan = nan || isnan(d);
            least = d < least ? d : least;
            most = d > most ? d : most;
            any = true;
            put_real(pq, column->type, d);
        }
        put_page(pq, c, MRD_PQ_PAGE_DATA, n);
    }
    if (any && !nan)
        stats_real(pq, c, column->type, least, most);
}

static void
put_bool_column(mrd_pq *pq, chunk *c, size_t i, const mrd_pq_values *values, size_t rows)
{
    c->encoding = MRD_PQ_PLAIN;
    for (size_t at = 0; at < rows; at += PAGE_ROWS) {
        size_t n = rows - at < PAGE_ROWS ? rows - at : PAGE_ROWS, bits = 0;
        uint8_t byte = 0;

        put_presence(pq, &pq->columns[i], values->present, at, n);
        for (size_t r = at; r < at + n; r++) {
            if (values->present != NULL && values->present[r] == 0)
                continue;
            byte = (uint8_t) (byte | (values->i64[r] != 0) << bits % 8);
            if (++bits % 8 == 0) {
                mrd_buf_byte(&pq->pages.page, byte);
                byte = 0;
            }
        }
        if (bits % 8 != 0)
            mrd_buf_byte(&pq->pages.page, byte);
        put_page(pq, c, MRD_PQ_PAGE_DATA, n);
    }
}

/* ---- Writing the footer ---- */

static void
put_schema(const mrd_pq *pq, mrd_thrift *file)
{
    mrd_thrift thrift, sub, type;
    size_t n = pq->n + 1;

    for (size_t i = 0; i < pq->n; i++)
        n += pq->columns[i].type == MRD_PQ_TEXTS ? 2 : 0;
    mrd_thrift_list(file, 2, TH_STRUCT, n);
    thrift = mrd_thrift_open(file, 0);
    mrd_thrift_text(&thrift, 4, MRD_STR("schema"));
    mrd_thrift_int(&thrift, 5, TH_I32, (int64_t) pq->n);
    mrd_thrift_end(&thrift);
    for (size_t i = 0; i < pq->n; i++) {
        const mrd_pq_column *column = &pq->columns[i];
        bool list = column->type == MRD_PQ_TEXTS;

        /* a list has three levels in the schema: the group, "list", "element" */
        for (int level = list ? 0 : 2; level < 3; level++) {
            thrift = mrd_thrift_open(file, 0);
            if (level == 2)
                mrd_thrift_int(&thrift, 1, TH_I32, physical(column->type));
            mrd_thrift_int(&thrift, 3, TH_I32, level == 1 ? 2 : list || column->optional);
            mrd_thrift_text(&thrift, 4,
                            level == 1           ? MRD_STR("list")
                            : list && level == 2 ? MRD_STR("element")
                                                 : mrd_str_of(column->name));
            if (level < 2)
                mrd_thrift_int(&thrift, 5, TH_I32, 1);
            if (level == 0 || (level == 2 && physical(column->type) == T_BYTES)) {
                /* the converted type: LIST for the group, UTF8 for a text */
                mrd_thrift_int(&thrift, 6, TH_I32, level == 0 ? 3 : 0);
                sub = mrd_thrift_open(&thrift, 10);
                type = mrd_thrift_open(&sub, level == 0 ? 3 : 1);
                mrd_thrift_end(&type);
                mrd_thrift_end(&sub);
            }
            mrd_thrift_end(&thrift);
        }
    }
}

static void
put_statistics(mrd_thrift *thrift, const chunk *c)
{
    mrd_thrift sub = mrd_thrift_open(thrift, 12);

    mrd_thrift_int(&sub, 3, TH_I64, (int64_t) c->nulls);
    if (c->sure) {
        mrd_thrift_text(&sub, 5, (mrd_str){ (const char *) c->most, c->most_len });
        mrd_thrift_text(&sub, 6, (mrd_str){ (const char *) c->least, c->least_len });
    }
    mrd_thrift_end(&sub);
}

static void
put_chunk(mrd_pq *pq, mrd_thrift *group, size_t i, const chunk *c)
{
    const mrd_pq_column *column = &pq->columns[i];
    mrd_thrift thrift = mrd_thrift_open(group, 0), meta;

    mrd_thrift_int(&thrift, 2, TH_I64, 0);
    meta = mrd_thrift_open(&thrift, 3);
    mrd_thrift_int(&meta, 1, TH_I32, physical(column->type));
    mrd_thrift_list(&meta, 2, TH_I32, c->dict ? 3 : 2);
    mrd_pq_put_zigzag(meta.to, c->encoding);
    mrd_pq_put_zigzag(meta.to, MRD_PQ_RLE);
    if (c->dict)
        mrd_pq_put_zigzag(meta.to, MRD_PQ_PLAIN);
    mrd_thrift_list(&meta, 3, TH_BINARY, column->type == MRD_PQ_TEXTS ? 3 : 1);
    mrd_thrift_binary(meta.to, column->name, strlen(column->name));
    if (column->type == MRD_PQ_TEXTS) {
        mrd_thrift_binary(meta.to, "list", 4);
        mrd_thrift_binary(meta.to, "element", 7);
    }
    mrd_thrift_int(&meta, 4, TH_I32, CODEC_ZSTD);
    mrd_thrift_int(&meta, 5, TH_I64, (int64_t) c->values);
    mrd_thrift_int(&meta, 6, TH_I64, (int64_t) c->raw);
    mrd_thrift_int(&meta, 7, TH_I64, (int64_t) c->packed);
    mrd_thrift_int(&meta, 9, TH_I64, (int64_t) c->data_at);
    if (c->dict)
        mrd_thrift_int(&meta, 11, TH_I64, (int64_t) c->dict_at);
    put_statistics(&meta, c);
    mrd_thrift_end(&meta);
    mrd_thrift_end(&thrift);
}

static void
put_column(mrd_pq *pq, chunk *c, size_t i, const mrd_pq_values *values, size_t rows)
{
    c->values = rows;
    c->nulls =
        rows - (values->kept != NULL ? values->n_kept
                                     : rows_there(&pq->columns[i], values->present, 0, rows));
    switch (pq->columns[i].type) {
    case MRD_PQ_I64:
        if (values->index == NULL)
            put_i64_column(pq, c, i, values, rows);
        else
            put_indexed_column(pq, c, i, values, rows);
        break;
    case MRD_PQ_DOUBLE:
    case MRD_PQ_FLOAT:
        put_real_column(pq, c, i, values, rows);
        break;
    case MRD_PQ_BOOL:
        put_bool_column(pq, c, i, values, rows);
        break;
    case MRD_PQ_TEXT:
        if (values->index == NULL)
            put_text_column(pq, c, i, values, rows);
        else
            put_indexed_column(pq, c, i, values, rows);
        break;
    case MRD_PQ_TEXTS:
        put_list_column(pq, c, values, rows);
        break;
    }
}

void
mrd_pq_small(mrd_pq *pq, bool small)
{
    mrd_pq_pages_small(&pq->pages, small);
}

void
mrd_pq_begin(mrd_pq *pq, size_t rows)
{
    MRD_ASSERT(rows > 0);
    (void) roomy(pq, rows);
    pq->group = (mrd_thrift){ &pq->meta, 0 };
    pq->group_rows = rows;
    pq->group_at = mrd_out_size(pq->out);
    pq->group_raw = pq->group_packed = 0;
    pq->column = 0;
    mrd_thrift_list(&pq->group, 1, TH_STRUCT, pq->n);
}

void
mrd_pq_add(mrd_pq *pq, const mrd_pq_values *values)
{
    chunk c = { 0 };

    MRD_ASSERT(pq->column < pq->n);
    if (pq->pages.err == MRD_OK) {
        put_column(pq, &c, pq->column, values, pq->group_rows);
        put_chunk(pq, &pq->group, pq->column, &c);
        pq->group_raw += c.raw;
        pq->group_packed += c.packed;
    }
    pq->column++;
}

mrd_err
mrd_pq_end(mrd_pq *pq)
{
    mrd_thrift *thrift = &pq->group;

    MRD_ASSERT(pq->column == pq->n);
    mrd_thrift_int(thrift, 2, TH_I64, (int64_t) pq->group_raw);
    mrd_thrift_int(thrift, 3, TH_I64, (int64_t) pq->group_rows);
    if (pq->sorted_by >= 0) {
        mrd_thrift sub;

        mrd_thrift_list(thrift, 4, TH_STRUCT, 1);
        sub = mrd_thrift_open(thrift, 0);
        mrd_thrift_int(&sub, 1, TH_I32, pq->sorted_by);
        mrd_thrift_bool(&sub, 2, false);
        mrd_thrift_bool(&sub, 3, false);
        mrd_thrift_end(&sub);
    }
    mrd_thrift_int(thrift, 5, TH_I64, (int64_t) pq->group_at);
    mrd_thrift_int(thrift, 6, TH_I64, (int64_t) pq->group_packed);
    mrd_thrift_int(thrift, 7, TH_I16, (int64_t) (pq->groups & INT16_MAX));
    mrd_thrift_end(thrift);
    pq->groups++;
    pq->rows += pq->group_rows;
    return pq->pages.err;
}

mrd_err
mrd_pq_close(mrd_pq *pq)
{
    mrd_thrift thrift, sub, order;
    mrd_buf foot = { 0 };
    uint32_t le;
    mrd_err err;

    if (pq == NULL)
        return MRD_OK;
    thrift = (mrd_thrift){ &foot, 0 };
    mrd_thrift_int(&thrift, 1, TH_I32, 1);
    put_schema(pq, &thrift);
    mrd_thrift_int(&thrift, 3, TH_I64, (int64_t) pq->rows);
    mrd_thrift_list(&thrift, 4, TH_STRUCT, pq->groups);
    mrd_buf_add(&foot, pq->meta.p, pq->meta.len);
    if (pq->n_notes > 0) {
        mrd_thrift_list(&thrift, 5, TH_STRUCT, pq->n_notes);
        mrd_buf_add(&foot, pq->notes.p, pq->notes.len);
    }
    mrd_thrift_text(&thrift, 6, MRD_STR("meridian version " MRD_RELEASE " (build release)"));
    mrd_thrift_list(&thrift, 7, TH_STRUCT, pq->n);
    /* the order of each column's values: TYPE_ORDER, which is defined for all types used here */
    for (size_t i = 0; i < pq->n; i++) {
        sub = mrd_thrift_open(&thrift, 0);
        order = mrd_thrift_open(&sub, 1);
        mrd_thrift_end(&order);
        mrd_thrift_end(&sub);
    }
    mrd_thrift_end(&thrift);
    err = pq->pages.err != MRD_OK  ? pq->pages.err
          : pq->meta.err != MRD_OK ? pq->meta.err
                                   : foot.err;
    if (err == MRD_OK && pq->notes.err != MRD_OK)
        err = pq->notes.err;
    if (err == MRD_OK) {
        le = htole32((uint32_t) foot.len);
        mrd_out_add(pq->out, foot.p, foot.len);
        mrd_out_add(pq->out, &le, 4);
        mrd_out_add(pq->out, "PAR1", 4);
    }
    mrd_buf_fini(&foot);
    mrd_pq_drop(pq);
    return err;
}
