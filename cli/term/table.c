#include "cli/term/table.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/plain.h"
#include "cli/cli.h"
#include "trace/sink/text.h"

void
mrd_text_plain(char *text)
{
    char *to = text;

    for (size_t n = strlen(text); n > 0;) {
        size_t hidden = mrd_plain_hidden(text, n), len = hidden > 0 ? hidden : 1;

        *to++ = hidden > 0 ? '?' : *text;
        text += len;
        n -= len;
    }
    *to = '\0';
}

/* Decodes a UTF-8 character of one to three bytes. */
static unsigned
code_point(const unsigned char *p, size_t len)
{
    return len == 1   ? p[0]
           : len == 2 ? (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu)
                      : (p[0] & 0x0fu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
}

void
mrd_text_show_json(mrd_str text, FILE *to)
{
    for (size_t i = 0; i < text.len;) {
        const char *p = text.p + i;
        size_t hidden = *p == '\n' || *p == '\t' ? 0 : mrd_plain_hidden(p, text.len - i);

        if (hidden == 0)
            putc(*p, to);
        else
            fprintf(to, "\\u%04x", code_point((const unsigned char *) p, hidden));
        i += hidden > 0 ? hidden : 1;
    }
}

static void
show_line(mrd_str line, FILE *to)
{
    mrd_buf plain = { 0 };

    mrd_plain_text(&plain, line);
    fwrite(plain.p, 1, plain.len, to);
    mrd_buf_fini(&plain);
}

void
mrd_text_show(FILE *from, bool json, FILE *to)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t n;

    while ((n = getline(&line, &room, from)) > 0) {
        bool whole = line[n - 1] == '\n';

        (json ? mrd_text_show_json : show_line)((mrd_str){ line, (size_t) n - whole }, to);
        if (whole)
            putc('\n', to);
    }
    free(line);
}

void
mrd_text_table_cell(mrd_text_table *texts, const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    mrd_text_plain(text);
    /* a cell that does not fit into memory is missing, and the table is printed without it */
    (void) mrd_strlist_add(&texts->cells, mrd_str_of(text));
}

void
mrd_text_table_count(mrd_text_table *texts, int64_t n)
{
    char text[MRD_COUNT_TEXT];

    mrd_text_table_cell(texts, "%s", mrd_cli_count(n, text));
}

void
mrd_text_table_dur(mrd_text_table *texts, mrd_dur_ns dur_ns)
{
    char text[MRD_DUR_TEXT];

    mrd_text_table_cell(texts, "%s", dur_ns < 0 ? "-" : mrd_dur_text(dur_ns, text));
}

/* Prints a cell with padding. The last column is not padded, because it may be a long sentence. */
static void
put_cell(const mrd_text_table *texts, size_t column, const char *text, int width, FILE *to)
{
    int pad = width - (int) mrd_text_columns(mrd_str_of(text));
    bool last = column + 1 == texts->n_columns;

    if (texts->columns[column].right)
        fprintf(to, "%*s%s", pad, "", text);
    else
        fprintf(to, "%s%*s", text, last ? 0 : pad, "");
    fputs(last ? "\n" : "  ", to);
}

void
mrd_text_table_print(const mrd_text_table *texts, FILE *to)
{
    int width[MRD_TABLE_COLUMNS];
    size_t rows = texts->cells.n / texts->n_columns;

    for (size_t c = 0; c < texts->n_columns; c++) {
        width[c] = (int) mrd_text_columns(mrd_str_of(texts->columns[c].title));
        for (size_t r = 0; r < rows; r++) {
            int w = (int) mrd_text_columns(mrd_str_of(texts->cells.v[r * texts->n_columns + c]));

            width[c] = w > width[c] ? w : width[c];
        }
    }
    for (size_t c = 0; c < texts->n_columns; c++)
        put_cell(texts, c, texts->columns[c].title, width[c], to);
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < texts->n_columns; c++)
            put_cell(texts, c, texts->cells.v[r * texts->n_columns + c], width[c], to);
    }
}

void
mrd_text_table_fini(mrd_text_table *texts)
{
    mrd_strlist_fini(&texts->cells);
}
