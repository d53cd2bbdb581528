/* parquet_make SEED FILE.parquet VALUES.json small|fast: writes a random table as a Parquet file,
 * and its values as JSON lines, one per row, for tests/trace/parquet_test.py. The same seed always
 * gives the same table. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/obj.h"
#include "trace/table/parquet.h"

enum { COLUMNS = 11, GROUPS_MAX = 4, PAGE = 131072, ROWS_MAX = PAGE + 3000 };

static uint64_t state;

static uint64_t
draw(void)
{
    uint64_t z = (state += 0x9e3779b97f4a7c15u);

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Draws integers of one of the typical shapes: sorted, few, runs, anything. */
static int64_t
draw_int(unsigned shape, int64_t before)
{
    switch (shape) {
    case 0:
        return (int64_t) ((uint64_t) before + draw() % 3000);
    case 1:
        return (int64_t) (draw() % 7) - 3;
    case 2:
        return draw() % 50 == 0 ? (int64_t) (draw() % 100) : before;
    case 3:
        return (int64_t) draw();
    case 4:
        return draw() % 2 == 0 ? INT64_MIN : INT64_MAX;
    case 5: /* enough values for an index of 5 to 13 bits */
        return (int64_t) (draw() % (uint64_t) (20u << (uint64_t) before % 9)) << 40;
    case 6: /* microseconds */
        return (int64_t) ((uint64_t) before + (draw() % 3 * 1000));
    case 7: /* lengths: many small ones */
        return (int64_t) (draw() % (UINT64_C(200) << draw() % 20));
    default:
        return 42;
    }
}

static const mrd_pq_column columns[COLUMNS] = {
    { "at", MRD_PQ_I64, false },      { "a", MRD_PQ_I64, false },
    { "maybe", MRD_PQ_I64, true },    { "name", MRD_PQ_TEXT, false },
    { "label", MRD_PQ_TEXT, true },   { "text", MRD_PQ_TEXT, true },
    { "real", MRD_PQ_DOUBLE, false }, { "percent", MRD_PQ_FLOAT, true },
    { "yes", MRD_PQ_BOOL, false },    { "flows", MRD_PQ_TEXTS, true },
    { "twin", MRD_PQ_TEXT, false },
};

static int64_t at[ROWS_MAX], a[ROWS_MAX], maybe[ROWS_MAX], kept[ROWS_MAX], yes[ROWS_MAX];
static uint32_t name[ROWS_MAX], label[ROWS_MAX], ends[ROWS_MAX], counts[ROWS_MAX],
    list_ends[4 * ROWS_MAX];
static uint8_t has_maybe[ROWS_MAX], has_label[ROWS_MAX], has_text[ROWS_MAX], has_percent[ROWS_MAX];
static double real[ROWS_MAX], percent[ROWS_MAX];
static mrd_buf text, list;

static void
print_text(FILE *f, mrd_str s)
{
    mrd_buf quoted = { 0 };

    mrd_buf_byte(&quoted, '"');
    mrd_buf_str(&quoted, s);
    mrd_buf_byte(&quoted, '"');
    fputs(mrd_buf_cstr(&quoted), f);
    mrd_buf_fini(&quoted);
}

static void
print_real(FILE *f, double d)
{
    if (isfinite(d))
        fprintf(f, "%.17g", d);
    else
        fprintf(f, "\"%s\"", isnan(d) ? "nan" : d > 0 ? "inf" : "-inf");
}

static void
print_row(FILE *f, size_t r, const mrd_str *names, const mrd_str *twins, size_t *element)
{
    uint32_t from = r == 0 ? 0 : ends[r - 1];

    fprintf(f, "[%" PRId64 ",%" PRId64 ",", at[r], a[r]);
    if (has_maybe[r])
        fprintf(f, "%" PRId64 ",", maybe[r]);
    else
        fputs("null,", f);
    print_text(f, names[name[r]]);
    fputc(',', f);
    if (has_label[r])
        print_text(f, names[label[r]]);
    else
        fputs("null", f);
    fputc(',', f);
    if (has_text[r])
        print_text(f, (mrd_str){ (const char *) text.p + from, ends[r] - from });
    else
        fputs("null", f);
    fputc(',', f);
    print_real(f, real[r]);
    fputc(',', f);
    if (has_percent[r])
        print_real(f, (double) (float) percent[r]);
    else
        fputs("null", f);
    fprintf(f, ",%s,", yes[r] ? "true" : "false");
    for (uint32_t j = 0; j < counts[r]; j++, (*element)++) {
        uint32_t start = *element == 0 ? 0 : list_ends[*element - 1];

        fputc(j == 0 ? '[' : ',', f);
        print_text(f, (mrd_str){ (const char *) list.p + start, list_ends[*element] - start });
    }
    fputs(counts[r] == 0 ? "null," : "],", f);
    print_text(f, twins[name[r]]);
    fputs("]\n", f);
}

static void
draw_text(mrd_buf *to, size_t most)
{
    size_t n = draw() % (most + 1);

    for (size_t i = 0; i < n; i++)
        mrd_buf_byte(to, (uint8_t) ("abcdefghij {}:,.-_~!"[draw() % 20]));
}

/* Draws the text of a row: a new text or, in some groups often, the text of an earlier row. */
static void
draw_row_text(unsigned repeats, size_t row)
{
    size_t from = row == 0 || draw() % 3 == 0 ? row : draw() % (row < 40 ? row : 40);
    uint32_t start = from == 0 || from == row ? 0 : ends[from - 1];

    if (repeats == 3)
        return; /* '' */
    if (repeats == 0 || from == row || (repeats == 1 && draw() % 2 == 0)) {
        draw_text(&text, draw() % 100 == 0 ? 300 : 12);
        return;
    }
    from = ends[from] - start;
    if (mrd_buf_room(&text, from))
        mrd_buf_add(&text, text.p + start, from);
}

/* How the values of a group are drawn. */
typedef struct {
    unsigned shape, shape2, nulls, repeats, specials;
    size_t entries; /* of the dictionary */
} drawing;

static drawing
draw_drawing(void)
{
    drawing d;

    d.shape = (unsigned) (draw() % 9);
    d.shape2 = (unsigned) (draw() % 9);
    d.nulls = (unsigned) (draw() % 5);
    d.repeats = (unsigned) (draw() % 4);
    d.specials = (unsigned) (draw() % 3);
    d.entries = 1 + draw() % 300;
    return d;
}

static void
draw_row(const drawing *d, size_t r, size_t *elements)
{
    at[r] = draw_int(0, r == 0 ? 0 : at[r - 1]);
    a[r] = draw_int(d->shape, r == 0 ? 5 : a[r - 1]);
    maybe[r] = draw_int(d->shape2, r == 0 ? 5 : maybe[r - 1]);
    has_maybe[r] = d->nulls == 0   ? 0
                   : d->nulls == 1 ? 1
                   /* pages without nulls, and pages of nulls only */
                   : d->nulls == 4 ? r / PAGE % 2 == 0
                                   : draw() % 3 != 0;
    name[r] = (uint32_t) (draw() % 4 == 0 ? draw() % d->entries : r == 0 ? 0 : name[r - 1]);
    label[r] = (uint32_t) (draw() % d->entries);
    has_label[r] = d->nulls != 3 && draw() % 2 != 0;
    has_text[r] = d->nulls == 4 ? has_maybe[r] : draw() % 5 != 0;
    if (has_text[r])
        draw_row_text(d->repeats, r);
    ends[r] = (uint32_t) text.len;
    real[r] = d->specials == 0 && draw() % 500 == 0   ? NAN
              : d->specials == 1 && draw() % 500 == 0 ? -INFINITY
              : draw() % 10 == 0                      ? -0.0
                                                      : (double) (int64_t) draw() / 1e12;
    percent[r] = (double) (draw() % 10000) / 100;
    has_percent[r] = draw() % 4 != 0;
    yes[r] = draw() % 3 == 0;
    counts[r] = (uint32_t) (draw() % 3 == 0 ? draw() % 4 : 0);
    for (uint32_t j = 0; j < counts[r]; j++) {
        draw_text(&list, 20);
        list_ends[(*elements)++] = (uint32_t) list.len;
    }
}

static void
put_group(mrd_pq *pq, FILE *f, size_t rows)
{
    drawing d = draw_drawing();
    size_t elements = 0, element = 0;
    mrd_str *names = calloc(d.entries, sizeof(*names)), *twins = calloc(d.entries, sizeof(*twins));
    char(*room)[80] = calloc(d.entries, sizeof(*room));
    mrd_pq_values v[COLUMNS] = {
        { .i64 = at },
        { .i64 = a },
        { .i64 = maybe, .present = has_maybe },
        { .index = name, .texts = names, .entries = d.entries },
        { .index = label, .texts = names, .entries = d.entries, .present = has_label },
        { .ends = ends, .present = has_text },
        { .d = real },
        { .d = percent, .present = has_percent },
        { .i64 = yes },
        { .counts = counts, .ends = list_ends },
        { .index = name, .texts = twins, .entries = d.entries },
    };
    bool sparse = draw() % 2 == 0, again = draw() % 2 == 0;
    unsigned keep = 1 + (unsigned) (draw() % MRD_PQ_KEEPS);

    mrd_buf_reset(&text);
    mrd_buf_reset(&list);
    for (size_t e = 0; e < d.entries; e++) {
        snprintf(room[e], sizeof(room[e]), "%s %zu", draw() % 9 == 0 ? "" : "name",
                 e * 7919 % 1000);
        names[e] = mrd_str_of(room[e]);
    }
    for (size_t e = 0; e < d.entries; e++)
        twins[e] = names[d.entries - 1 - e];
    for (size_t r = 0; r < rows; r++)
        draw_row(&d, r, &elements);
    v[5].bytes = text.p;
    v[9].bytes = list.p;
    for (size_t r = 0; r < rows && sparse; r++) { /* like a writer that keeps existing values */
        v[2].kept = kept;
        v[2].i64 = NULL;
        if (has_maybe[r])
            kept[v[2].n_kept++] = maybe[r];
    }
    if (again) {
        v[3].keep = keep;
        v[10].like = keep;
    }
    mrd_pq_begin(pq, rows);
    for (size_t i = 0; i < COLUMNS; i++)
        mrd_pq_add(pq, &v[i]);
    MRD_ASSERT(mrd_pq_end(pq) == MRD_OK);
    for (size_t r = 0; r < rows; r++)
        print_row(f, r, names, twins, &element);
    free(names);
    free(twins);
    free(room);
}

int
main(int argc, char **argv)
{
    mrd_out *out;
    mrd_pq *pq;
    FILE *f;
    size_t groups;

    if (argc != 5 || (f = fopen(argv[3], "w")) == NULL)
        return 2;
    state = strtoull(argv[1], NULL, 10);
    MRD_ASSERT(mrd_out_file(argv[2], &out, NULL) == MRD_OK);
    MRD_ASSERT(mrd_pq_open(out, columns, COLUMNS, 0, &pq, NULL) == MRD_OK);
    mrd_pq_small(pq, strcmp(argv[4], "small") == 0);
    mrd_pq_note(pq, MRD_STR("seed"), mrd_str_of(argv[1]));
    groups = draw() % (GROUPS_MAX + 1);
    for (size_t g = 0; g < groups; g++)
        put_group(pq, f,
                  draw() % 8 != 0   ? 1 + draw() % 400
                  : draw() % 2 == 0 ? PAGE + 1 + draw() % (ROWS_MAX - PAGE)
                                    : 1 + draw() % ROWS_MAX);
    MRD_ASSERT(mrd_pq_close(pq) == MRD_OK);
    MRD_ASSERT(mrd_out_commit(out, NULL) == MRD_OK);
    mrd_buf_fini(&text);
    mrd_buf_fini(&list);
    return fclose(f) == 0 ? 0 : 1;
}
