/*
 * cli/term/table.h - tables on a terminal. The caller adds cells row by row, and printing aligns
 * them.
 */
#ifndef MRD_CLI_TERM_TABLE_H
#define MRD_CLI_TERM_TABLE_H

#include <stdint.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/conf/conf.h"

#define MRD_TABLE_COLUMNS 16

typedef struct {
    const char *title;
    bool right; /* align the column to the right, for numbers */
} mrd_text_table_column;

/* A table of cells, which are added row by row. It starts as zero bytes with `columns` set. */
typedef struct {
    const mrd_text_table_column *columns;
    size_t n_columns;
    mrd_strlist cells;
} mrd_text_table;

void mrd_text_table_cell(mrd_text_table *texts, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void mrd_text_table_count(mrd_text_table *texts, int64_t n); /* adds a cell like "1,234,567" */
/* Adds a duration as a cell, or "-" for a negative value, which means unknown. */
void mrd_text_table_dur(mrd_text_table *texts, mrd_dur_ns dur_ns);
/* prints all rows, aligned, below the titles */
void mrd_text_table_print(const mrd_text_table *texts, FILE *to);
void mrd_text_table_fini(mrd_text_table *texts);
/* Replaces control characters by '?', in place. */
void mrd_text_plain(char *text);
/* Copy a text to `to`. Control characters of terminals become \xNN, or \uNNNN in JSON. */
void mrd_text_show(FILE *from, bool json, FILE *to);
void mrd_text_show_json(mrd_str text, FILE *to);

#endif
