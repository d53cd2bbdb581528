#include "trace/table/parquet.h"

#include <endian.h>
#include <math.h>
#include <stdlib.h>
#include <zstd.h>

#include "base/hash.h"
#include "base/obj.h"
#include "base/vec.h"
#include "trace/table/pq_thrift.h"

enum { ENC_PLAIN = 0, ENC_RLE = 3, ENC_DELTA = 5, ENC_DICT = 8, CODEC_ZSTD = 6, LEVEL = 1 };
enum { PAGE_DATA = 0, PAGE_DICT = 2 };
enum { T_BOOL = 0, T_I64 = 2, T_FLOAT = 4, T_DOUBLE = 5, T_BYTES = 6 };

#define PAGE_ROWS  32768u
#define PAGE_BYTES (1u << 20)
#define DICT_MAX   8192u /* entries of a dictionary made here */
#define DICT_SLOTS (4 * DICT_MAX)
#define STAT_MAX   64u /* bytes of text in a statistic; longer ones are left out */

/* Of one column chunk, for the footer. */
typedef struct {
    int encoding;
    uint64_t values, nulls, raw, packed; /* bytes with page headers */
    uint64_t dict_at, data_at;
    bool dict, sure;
    uint8_t least[STAT_MAX], most[STAT_MAX];
    size_t least_len, most_len;
} chunk;

struct mrd_pq {
    mrd_out *out;
    const mrd_pq_column *columns;
    size_t n;
    int sorted_by;
    uint64_t rows;
    size_t groups;
    mrd_buf meta;  /* row groups */
    mrd_buf notes; /* key-value pairs */
    size_t n_notes;
    mrd_buf page, packed, head;
    ZSTD_CCtx *zstd;
    uint32_t *scratch, *slots; /* PAGE_ROWS; DICT_SLOTS */
    int64_t *entries;          /* DICT_MAX */
    uint32_t *index;
    int64_t *kept;
    size_t cap;       /* rows of index and kept */
    mrd_thrift group; /* the row group that is being written */
    size_t group_rows, column;
    uint64_t group_at, group_raw, group_packed;
    mrd_err err;
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
        pq->zstd = ZSTD_createCCtx();
        pq->scratch = malloc(PAGE_ROWS * sizeof(*pq->scratch));
        pq->slots = malloc(DICT_SLOTS * sizeof(*pq->slots));
        pq->entries = malloc(DICT_MAX * sizeof(*pq->entries));
    }
    if (pq == NULL || pq->zstd == NULL || pq->scratch == NULL || pq->slots == NULL ||
        pq->entries == NULL) {
        mrd_pq_drop(pq);
        return mrd_why_set(why, MRD_NOMEM, 0, "parquet");
    }
    ZSTD_CCtx_setParameter(pq->zstd, ZSTD_c_compressionLevel, LEVEL);
    mrd_out_add(out, "PAR1", 4);
    *ret_pq = pq;
    return MRD_OK;
}

void
mrd_pq_drop(mrd_pq *pq)
{
    if (pq == NULL)
        return;
    ZSTD_freeCCtx(pq->zstd);
    mrd_buf_fini(&pq->meta);
    mrd_buf_fini(&pq->notes);
    mrd_buf_fini(&pq->page);
    mrd_buf_fini(&pq->packed);
    mrd_buf_fini(&pq->head);
    free(pq->scratch);
    free(pq->slots);
    free(pq->entries);
    free(pq->index);
    free(pq->kept);
    free(pq);
}

void
mrd_pq_note(mrd_pq *pq, mrd_str key, mrd_str value)
{
    mrd_thrift t = { &pq->notes, 0 };

    mrd_thrift_text(&t, 1, key);
    mrd_thrift_text(&t, 2, value);
    mrd_thrift_end(&t);
    pq->n_notes++;
}

/* ---- Pages ---- */

static void
fail(mrd_pq *pq, mrd_err err)
{
    if (pq->err == MRD_OK)
        pq->err = err;
}

/* Compresses pq->page and writes it as a page of `values` entries. */
static void
put_page(mrd_pq *pq, chunk *c, int type, size_t values)
{
    mrd_thrift t = { &pq->head, 0 }, sub;
    size_t len = 0;

    mrd_buf_reset(&pq->head);
    mrd_buf_reset(&pq->packed);
    if (pq->page.err == MRD_OK && mrd_buf_room(&pq->packed, ZSTD_compressBound(pq->page.len)))
        len = ZSTD_compress2(pq->zstd, pq->packed.p, pq->packed.cap, pq->page.p, pq->page.len);
    if (len == 0 || ZSTD_isError(len)) {
        fail(pq, MRD_NOMEM);
        return;
    }
    mrd_thrift_int(&t, 1, TH_I32, type);
    mrd_thrift_int(&t, 2, TH_I32, (int64_t) pq->page.len);
    mrd_thrift_int(&t, 3, TH_I32, (int64_t) len);
    mrd_thrift_int(&t, 4, TH_I32, (int32_t) mrd_crc32(0, pq->packed.p, len));
    sub = mrd_thrift_open(&t, type == PAGE_DICT ? 7 : 5);
    mrd_thrift_int(&sub, 1, TH_I32, (int64_t) values);
    mrd_thrift_int(&sub, 2, TH_I32, type == PAGE_DICT ? ENC_PLAIN : c->encoding);
    if (type == PAGE_DATA) {
        mrd_thrift_int(&sub, 3, TH_I32, ENC_RLE);
        mrd_thrift_int(&sub, 4, TH_I32, ENC_RLE);
    }
    mrd_thrift_end(&sub);
    mrd_thrift_end(&t);
    if (type == PAGE_DICT) {
        c->dict = true;
        c->dict_at = mrd_out_size(pq->out);
    } else if (c->data_at == 0) {
        c->data_at = mrd_out_size(pq->out);
    }
    mrd_out_add(pq->out, pq->head.p, pq->head.len);
    mrd_out_add(pq->out, pq->packed.p, len);
    c->raw += pq->head.len + pq->page.len;
    c->packed += pq->head.len + len;
    mrd_buf_reset(&pq->page);
}

/* Levels of [at, at + n), as v1 has them: with their length in front. */
static void
put_levels(mrd_pq *pq, const uint32_t *levels, size_t n, unsigned width)
{
    size_t at = pq->page.len;
    uint32_t le = 0;

    mrd_buf_add(&pq->page, &le, 4);
    mrd_pq_put_hybrid(&pq->page, levels, n, width);
    if (pq->page.err != MRD_OK)
        return;
    le = htole32((uint32_t) (pq->page.len - at - 4));
    memcpy(pq->page.p + at, &le, 4);
}

static void
put_presence(mrd_pq *pq, const mrd_pq_column *column, const uint8_t *present, size_t at, size_t n)
{
    if (!column->optional)
        return;
    for (size_t i = 0; i < n; i++)
        pq->scratch[i] = present == NULL || present[at + i] != 0;
    put_levels(pq, pq->scratch, n, 1);
}

/* ---- Statistics ---- */

static void
stats_i64(chunk *c, const int64_t *v, size_t n)
{
    int64_t least = INT64_MAX, most = INT64_MIN;

    if (n == 0)
        return;
    for (size_t i = 0; i < n; i++) {
        least = v[i] < least ? v[i] : least;
        most = v[i] > most ? v[i] : most;
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

/* Of the least and the greatest text. */
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

/* ---- Columns ---- */

static bool
roomy(mrd_pq *pq, size_t rows)
{
    size_t index = pq->cap, kept = index;

    if (rows <= pq->cap)
        return true;
    if (!MRD_VEC_ROOM(pq->index, 0, index, rows) || !MRD_VEC_ROOM(pq->kept, 0, kept, rows)) {
        fail(pq, MRD_NOMEM);
        return false;
    }
    pq->cap = rows;
    return true;
}

/* A column chunk of nulls only: levels, and no values that an encoding could be of. */
static void
put_nulls(mrd_pq *pq, chunk *c, const mrd_pq_column *column, const mrd_pq_values *v, size_t rows)
{
    c->encoding = ENC_PLAIN;
    for (size_t at = 0; at < rows; at += PAGE_ROWS) {
        size_t n = rows - at < PAGE_ROWS ? rows - at : PAGE_ROWS;

        put_presence(pq, column, v->present, at, n);
        put_page(pq, c, PAGE_DATA, n);
    }
}

/* Data pages of dictionary indexes; those of nulls are not in `index`. */
static void
put_indexes(mrd_pq *pq, chunk *c, const mrd_pq_column *column, const mrd_pq_values *v,
            const uint32_t *index, size_t rows)
{
    unsigned width = mrd_pq_width(v->entries - 1);

    for (size_t at = 0; at < rows; at += PAGE_ROWS) {
        size_t n = rows - at < PAGE_ROWS ? rows - at : PAGE_ROWS, kept = n;

        put_presence(pq, column, v->present, at, n);
        if (column->optional && v->present != NULL) {
            kept = 0;
            for (size_t i = 0; i < n; i++)
                kept += v->present[at + i] != 0;
        }
        mrd_buf_byte(&pq->page, (uint8_t) width);
        mrd_pq_put_hybrid(&pq->page, index, kept, width);
        index += kept;
        put_page(pq, c, PAGE_DATA, n);
    }
}

static void
put_ints(mrd_buf *to, const int64_t *v, size_t n)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    mrd_buf_add(to, v, n * sizeof(*v));
#else
    for (size_t i = 0; i < n; i++) {
        uint64_t le = htole64((uint64_t) v[i]);

        mrd_buf_add(to, &le, 8);
    }
#endif
}

/* A dictionary of the values, at most DICT_MAX; its size, 0 when there are more. */
static size_t
make_dictionary(mrd_pq *pq, const int64_t *v, size_t n)
{
    size_t entries = 0;

    memset(pq->slots, 0, DICT_SLOTS * sizeof(*pq->slots));
    for (size_t i = 0; i < n; i++) {
        size_t at = (size_t) ((uint64_t) v[i] * 0x9e3779b97f4a7c15u >> 49);

        while (pq->slots[at] != 0 && pq->entries[pq->slots[at] - 1] != v[i])
            at = (at + 1) & (DICT_SLOTS - 1);
        if (pq->slots[at] == 0) {
            if (entries == DICT_MAX)
                return 0;
            pq->entries[entries++] = v[i];
            pq->slots[at] = (uint32_t) entries;
        }
        pq->index[i] = pq->slots[at] - 1;
    }
    return entries;
}

static void
put_deltas(mrd_pq *pq, chunk *c, const mrd_pq_column *column, const mrd_pq_values *v,
           const int64_t *kept, size_t rows)
{
    c->encoding = ENC_DELTA;
    for (size_t at = 0; at < rows; at += PAGE_ROWS) {
        size_t n = rows - at < PAGE_ROWS ? rows - at : PAGE_ROWS, here = n;

        put_presence(pq, column, v->present, at, n);
        if (column->optional && v->present != NULL) {
            here = 0;
            for (size_t i = 0; i < n; i++)
                here += v->present[at + i] != 0;
        }
        mrd_pq_put_delta(&pq->page, kept, here);
        kept += here;
        put_page(pq, c, PAGE_DATA, n);
    }
}

/* Whether indexes into so many entries take less than deltas, by the deltas of a sample of them. */
static bool
dictionary_pays(mrd_pq *pq, const int64_t *v, size_t n, size_t entries)
{
    size_t some = n < 8192 ? n : 8192, bytes;

    if (entries == 0)
        return false;
    mrd_pq_put_delta(&pq->page, v + (n - some) / 2, some);
    bytes = (size_t) ((double) pq->page.len * (double) n / (double) some);
    mrd_buf_reset(&pq->page);
    return n * mrd_pq_width(entries - 1) / 8 + entries * 4 < bytes;
}

/* The values that are there, at the front of `kept`; how many. */
static size_t
keep_present(int64_t *restrict kept, const int64_t *restrict v, const uint8_t *restrict present,
             size_t rows)
{
    size_t n = 0;

    for (size_t r = 0; r < rows; r++) {
        kept[n] = v[r]; /* stays when there is one: n is at most r */
        n += present[r] != 0;
    }
    return n;
}

static void
put_i64_column(mrd_pq *pq, chunk *c, size_t i, const mrd_pq_values *v, size_t rows)
{
    const mrd_pq_column *column = &pq->columns[i];
    const int64_t *kept = v->i64;
    mrd_pq_values made = *v;
    size_t n = rows;

    if (column->optional && v->present != NULL) {
        n = keep_present(pq->kept, v->i64, v->present, rows);
        kept = pq->kept;
    }
    if (n == 0) {
        put_nulls(pq, c, column, v, rows);
        return;
    }
    stats_i64(c, kept, n);
    made.entries = (int) i == pq->sorted_by ? 0 : make_dictionary(pq, kept, n);
    if (!dictionary_pays(pq, kept, n, made.entries)) {
        put_deltas(pq, c, column, v, kept, rows);
        return;
    }
    c->encoding = ENC_DICT;
    put_ints(&pq->page, pq->entries, made.entries);
    put_page(pq, c, PAGE_DICT, made.entries);
    put_indexes(pq, c, column, &made, pq->index, rows);
}

static void
put_text_plain(mrd_pq *pq, mrd_str text)
{
    uint32_t le = htole32((uint32_t) text.len);

    mrd_buf_add(&pq->page, &le, 4);
    mrd_buf_str(&pq->page, text);
}

static void
put_indexed_column(mrd_pq *pq, chunk *c, size_t i, const mrd_pq_values *v, size_t rows)
{
    const mrd_pq_column *column = &pq->columns[i];
    const uint32_t *index = v->index;
    size_t least = 0, most = 0;

    if (v->entries == 0) {
        put_nulls(pq, c, column, v, rows);
        return;
    }
    c->encoding = ENC_DICT;
    if (column->type == MRD_PQ_I64) {
        stats_i64(c, v->ints, v->entries);
        put_ints(&pq->page, v->ints, v->entries);
    } else {
        for (size_t e = 0; e < v->entries; e++) {
            least = text_order(v->texts[e], v->texts[least]) < 0 ? e : least;
            most = text_order(v->texts[e], v->texts[most]) > 0 ? e : most;
            put_text_plain(pq, v->texts[e]);
        }
        stats_text(c, v->texts[least], v->texts[most]);
    }
    put_page(pq, c, PAGE_DICT, v->entries);
    if (column->optional && v->present != NULL) {
        size_t n = 0;

        for (size_t r = 0; r < rows; r++) {
            pq->index[n] = v->index[r];
            n += v->present[r] != 0;
        }
        index = pq->index;
    }
    put_indexes(pq, c, column, v, index, rows);
}

static mrd_str
text_at(const mrd_pq_values *v, size_t i)
{
    uint32_t from = i == 0 ? 0 : v->ends[i - 1];

    return (mrd_str){ (const char *) v->bytes + from, v->ends[i] - from };
}

static void
put_text_column(mrd_pq *pq, chunk *c, size_t i, const mrd_pq_values *v, size_t rows)
{
    const mrd_pq_column *column = &pq->columns[i];
    mrd_str least = { 0 }, most = { 0 };
    bool any = false;

    c->encoding = ENC_PLAIN;
    for (size_t at = 0, n; at < rows; at += n) {
        size_t bytes = 0;

        for (n = 0; at + n < rows && n < PAGE_ROWS && bytes < PAGE_BYTES; n++)
            bytes += text_at(v, at + n).len;
        put_presence(pq, column, v->present, at, n);
        for (size_t r = at; r < at + n; r++) {
            mrd_str text = text_at(v, r);

            if (v->present != NULL && v->present[r] == 0)
                continue;
            least = !any || text_order(text, least) < 0 ? text : least;
            most = !any || text_order(text, most) > 0 ? text : most;
            any = true;
            put_text_plain(pq, text);
        }
        put_page(pq, c, PAGE_DATA, n);
    }
    if (any)
        stats_text(c, least, most);
}

/* One page for the group: lists are short. */
static void
put_list_column(mrd_pq *pq, chunk *c, const mrd_pq_values *v, size_t rows)
{
    uint32_t *levels;
    size_t n = 0, e = 0;

    for (size_t r = 0; r < rows; r++)
        n += v->counts[r] == 0 ? 1 : v->counts[r];
    c->encoding = ENC_PLAIN;
    c->values = n;
    if ((levels = calloc(n + 1, sizeof(*levels))) == NULL) {
        fail(pq, MRD_NOMEM);
        return;
    }
    n = 0;
    for (size_t r = 0; r < rows; r++) {
        size_t k = v->counts[r] == 0 ? 1 : v->counts[r];

        for (size_t j = 0; j < k; j++)
            levels[n++] = j > 0;
    }
    put_levels(pq, levels, n, 1);
    n = 0;
    for (size_t r = 0; r < rows; r++) {
        size_t k = v->counts[r] == 0 ? 1 : v->counts[r];

        c->nulls += v->counts[r] == 0;
        for (size_t j = 0; j < k; j++)
            levels[n++] = v->counts[r] == 0 ? 0 : 3;
    }
    put_levels(pq, levels, n, 2);
    free(levels);
    for (size_t r = 0; r < rows; r++) {
        for (uint32_t j = 0; j < v->counts[r]; j++)
            put_text_plain(pq, text_at(v, e++));
    }
    put_page(pq, c, PAGE_DATA, n);
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
        mrd_buf_add(&pq->page, &half, 4);
    } else {
        memcpy(&bits, &d, 8);
        bits = htole64(bits);
        mrd_buf_add(&pq->page, &bits, 8);
    }
}

/* Not with a NaN among the values: readers differ on what that means. Zeros get the sign that includes
 * the other one. */
static void
stats_real(mrd_pq *pq, chunk *c, mrd_pq_type type, double least, double most)
{
    size_t size = type == MRD_PQ_FLOAT ? 4 : 8;

    mrd_buf_reset(&pq->page);
    put_real(pq, type, least == 0 ? -0.0 : least);
    put_real(pq, type, most == 0 ? 0.0 : most);
    if (pq->page.err == MRD_OK) {
        memcpy(c->least, pq->page.p, size);
        memcpy(c->most, pq->page.p + size, size);
        c->least_len = c->most_len = size;
        c->sure = true;
    }
    mrd_buf_reset(&pq->page);
}

static void
put_real_column(mrd_pq *pq, chunk *c, size_t i, const mrd_pq_values *v, size_t rows)
{
    const mrd_pq_column *column = &pq->columns[i];
    double least = INFINITY, most = -INFINITY;
    bool nan = false, any = false;

    c->encoding = ENC_PLAIN;
    for (size_t at = 0; at < rows; at += PAGE_ROWS) {
        size_t n = rows - at < PAGE_ROWS ? rows - at : PAGE_ROWS;

        put_presence(pq, column, v->present, at, n);
        for (size_t r = at; r < at + n; r++) {
            double d = column->type == MRD_PQ_FLOAT ? (double) (float) v->d[r] : v->d[r];

            if (v->present != NULL && v->present[r] == 0)
                continue;
            nan = nan || isnan(d);
            least = d < least ? d : least;
            most = d > most ? d : most;
            any = true;
            put_real(pq, column->type, d);
        }
        put_page(pq, c, PAGE_DATA, n);
    }
    if (any && !nan)
        stats_real(pq, c, column->type, least, most);
}

static void
put_bool_column(mrd_pq *pq, chunk *c, size_t i, const mrd_pq_values *v, size_t rows)
{
    c->encoding = ENC_PLAIN;
    for (size_t at = 0; at < rows; at += PAGE_ROWS) {
        size_t n = rows - at < PAGE_ROWS ? rows - at : PAGE_ROWS, bits = 0;
        uint8_t byte = 0;

        put_presence(pq, &pq->columns[i], v->present, at, n);
        for (size_t r = at; r < at + n; r++) {
            if (v->present != NULL && v->present[r] == 0)
                continue;
            byte = (uint8_t) (byte | (v->i64[r] != 0) << bits % 8);
            if (++bits % 8 == 0) {
                mrd_buf_byte(&pq->page, byte);
                byte = 0;
            }
        }
        if (bits % 8 != 0)
            mrd_buf_byte(&pq->page, byte);
        put_page(pq, c, PAGE_DATA, n);
    }
}

/* ---- Footer ---- */

static void
put_schema(const mrd_pq *pq, mrd_thrift *file)
{
    mrd_thrift t, sub, type;
    size_t n = pq->n + 1;

    for (size_t i = 0; i < pq->n; i++)
        n += pq->columns[i].type == MRD_PQ_TEXTS ? 2 : 0;
    mrd_thrift_list(file, 2, TH_STRUCT, n);
    t = mrd_thrift_open(file, 0);
    mrd_thrift_text(&t, 4, MRD_STR("schema"));
    mrd_thrift_int(&t, 5, TH_I32, (int64_t) pq->n);
    mrd_thrift_end(&t);
    for (size_t i = 0; i < pq->n; i++) {
        const mrd_pq_column *c = &pq->columns[i];
        bool list = c->type == MRD_PQ_TEXTS;

        for (int level = list ? 0 : 2; level < 3; level++) { /* the group, "list", "element" */
            t = mrd_thrift_open(file, 0);
            if (level == 2)
                mrd_thrift_int(&t, 1, TH_I32, physical(c->type));
            mrd_thrift_int(&t, 3, TH_I32, level == 1 ? 2 : list || c->optional);
            mrd_thrift_text(&t, 4,
                            level == 1           ? MRD_STR("list")
                            : list && level == 2 ? MRD_STR("element")
                                                 : mrd_str_of(c->name));
            if (level < 2)
                mrd_thrift_int(&t, 5, TH_I32, 1);
            if (level == 0 || (level == 2 && physical(c->type) == T_BYTES)) {
                mrd_thrift_int(&t, 6, TH_I32, level == 0 ? 3 : 0); /* LIST, UTF8 */
                sub = mrd_thrift_open(&t, 10);
                type = mrd_thrift_open(&sub, level == 0 ? 3 : 1);
                mrd_thrift_end(&type);
                mrd_thrift_end(&sub);
            }
            mrd_thrift_end(&t);
        }
    }
}

static void
put_statistics(mrd_thrift *t, const chunk *c)
{
    mrd_thrift sub = mrd_thrift_open(t, 12);

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
    mrd_thrift t = mrd_thrift_open(group, 0), meta;

    mrd_thrift_int(&t, 2, TH_I64, 0);
    meta = mrd_thrift_open(&t, 3);
    mrd_thrift_int(&meta, 1, TH_I32, physical(column->type));
    mrd_thrift_list(&meta, 2, TH_I32, c->dict ? 3 : 2);
    mrd_pq_put_zigzag(meta.to, c->encoding);
    mrd_pq_put_zigzag(meta.to, ENC_RLE);
    if (c->dict)
        mrd_pq_put_zigzag(meta.to, ENC_PLAIN);
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
    mrd_thrift_end(&t);
}

static void
put_column(mrd_pq *pq, chunk *c, size_t i, const mrd_pq_values *v, size_t rows)
{
    uint64_t nulls = 0;

    c->values = rows;
    for (size_t r = 0; r < rows && v->present != NULL && pq->columns[i].optional; r++)
        nulls += v->present[r] == 0;
    c->nulls = nulls;
    switch (pq->columns[i].type) {
    case MRD_PQ_I64:
        if (v->index == NULL)
            put_i64_column(pq, c, i, v, rows);
        else
            put_indexed_column(pq, c, i, v, rows);
        break;
    case MRD_PQ_DOUBLE:
    case MRD_PQ_FLOAT:
        put_real_column(pq, c, i, v, rows);
        break;
    case MRD_PQ_BOOL:
        put_bool_column(pq, c, i, v, rows);
        break;
    case MRD_PQ_TEXT:
        if (v->index == NULL)
            put_text_column(pq, c, i, v, rows);
        else
            put_indexed_column(pq, c, i, v, rows);
        break;
    case MRD_PQ_TEXTS:
        put_list_column(pq, c, v, rows);
        break;
    }
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
    if (pq->err == MRD_OK) {
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
    mrd_thrift *t = &pq->group;

    MRD_ASSERT(pq->column == pq->n);
    mrd_thrift_int(t, 2, TH_I64, (int64_t) pq->group_raw);
    mrd_thrift_int(t, 3, TH_I64, (int64_t) pq->group_rows);
    if (pq->sorted_by >= 0) {
        mrd_thrift sub;

        mrd_thrift_list(t, 4, TH_STRUCT, 1);
        sub = mrd_thrift_open(t, 0);
        mrd_thrift_int(&sub, 1, TH_I32, pq->sorted_by);
        mrd_thrift_bool(&sub, 2, false);
        mrd_thrift_bool(&sub, 3, false);
        mrd_thrift_end(&sub);
    }
    mrd_thrift_int(t, 5, TH_I64, (int64_t) pq->group_at);
    mrd_thrift_int(t, 6, TH_I64, (int64_t) pq->group_packed);
    mrd_thrift_int(t, 7, TH_I16, (int64_t) (pq->groups & INT16_MAX));
    mrd_thrift_end(t);
    pq->groups++;
    pq->rows += pq->group_rows;
    return pq->err;
}

mrd_err
mrd_pq_close(mrd_pq *pq)
{
    mrd_thrift t, sub, order;
    mrd_buf foot = { 0 };
    uint32_t le;
    mrd_err err;

    if (pq == NULL)
        return MRD_OK;
    t = (mrd_thrift){ &foot, 0 };
    mrd_thrift_int(&t, 1, TH_I32, 1);
    put_schema(pq, &t);
    mrd_thrift_int(&t, 3, TH_I64, (int64_t) pq->rows);
    mrd_thrift_list(&t, 4, TH_STRUCT, pq->groups);
    mrd_buf_add(&foot, pq->meta.p, pq->meta.len);
    if (pq->n_notes > 0) {
        mrd_thrift_list(&t, 5, TH_STRUCT, pq->n_notes);
        mrd_buf_add(&foot, pq->notes.p, pq->notes.len);
    }
    mrd_thrift_text(&t, 6, MRD_STR("meridian version " MRD_RELEASE " (build release)"));
    mrd_thrift_list(&t, 7, TH_STRUCT, pq->n);
    for (size_t i = 0; i < pq->n; i++) { /* by type: the order that is meant everywhere */
        sub = mrd_thrift_open(&t, 0);
        order = mrd_thrift_open(&sub, 1);
        mrd_thrift_end(&order);
        mrd_thrift_end(&sub);
    }
    mrd_thrift_end(&t);
    err = pq->err != MRD_OK ? pq->err : pq->meta.err != MRD_OK ? pq->meta.err : foot.err;
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
