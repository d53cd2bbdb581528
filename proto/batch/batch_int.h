/*
 * proto/batch/batch_int.h - internals of the encoder: batch.c collects events, batch_columns.c sorts them
 * and writes columns, batch_head.c writes dictionaries and the frame.
 */
#ifndef MRD_PROTO_BATCH_BATCH_INT_H
#define MRD_PROTO_BATCH_BATCH_INT_H

#include "proto/batch/batch.h"
#include "proto/batch/codec_int.h"
#include "proto/batch/columns.h"

/* A hash table from catalog ids to numbers of this batch, with open addressing. */
typedef struct {
    uint64_t *slots; /* id << 32 | number + 1; 0 if free */
    uint32_t mask, used;
    unsigned shift;  /* 32 - log2 of the slots */
    uint32_t *order; /* order[number] is the catalog id of that number */
    uint32_t order_cap;
} idmap;

/* The fixed-size parts of the events. Each attribute has its own array, so that writing a column
 * reads only that array. Attributes that an event's form does not have are undefined. */
typedef struct {
    int64_t *ts_ns, *dur_ns;
    uint64_t *id, *value; /* `value` holds the bits of a counter's value or a loss's count */
    uint32_t *track, *name, *form, *bound;
} rows;

/* The variable parts of the events by kind, in the order of the rows. Each kind is a list of words.
 * TEXT takes two words (offset and length), and FLOW takes two (id and direction). */
enum { VAL_INT, VAL_UINT, VAL_DOUBLE, VAL_STR, VAL_TEXT, VAL_FLOW, VALS };

typedef struct {
    uint64_t *v;
    uint32_t n, cap;
} values;

/* most forms have at most this number of arguments; these are compared without a branch */
#define FORM_FEW 2

/* The properties that distinguish forms, except arguments beyond the first FORM_FEW. Each of the
 * first words holds type << 32 | key of one argument, or 0. The next holds kind, flags and the
 * numbers of flows and arguments, laid out as in the event. The last holds the category and the set
 * of optional attributes. */
typedef struct {
    uint64_t word[FORM_FEW + 2];
} form_id;

/* The contents of a form. Keys are catalog ids, which are translated when the form is written. */
typedef struct {
    form_id id;
    uint64_t hash;
    uint32_t bits, category, args, flows;
    uint32_t keys_at; /* index of the form's first key in mrd_batch.keys */
    uint32_t columns; /* bits 1 << COL_ of the optional columns that have an entry for each event */
    uint32_t cost;    /* estimated encoded bytes per event, without texts */
    uint32_t words;   /* maximum number of words that an event adds to one list */
    /* As `words`, for push_known. UINT32_MAX if push_known cannot take events of this form. */
    uint32_t plain_words;
    uint16_t uses[VALS];    /* number of words of each kind in an event of this form */
    uint8_t list[FORM_FEW]; /* the list (VAL_) of each of the first arguments */
    /* The form has doubles, strings or texts, and their values must be checked before copying. */
    bool checked;
} form;

struct mrd_batch {
    const mrd_catalog *cat;
    mrd_proc_id process;
    unsigned clock;
    uint32_t max_events;
    rows rows;
    uint32_t n, rows_cap;
    /* number of rows that push_known may fill, 0 if the first event needs the general path */
    uint32_t rows_ready;
    values vals[VALS];
    /* Every list has space for this number of words, and for FORM_FEW words more. */
    uint32_t vals_room;
    uint64_t *keys; /* keys of all forms: type << 32 | key */
    uint32_t n_keys, keys_cap;
    form *forms;
    uint32_t n_forms, forms_cap;
    /* Hash table. A slot holds the number of the form + 1, or 0 if the slot is free. */
    uint32_t *form_slots;
    uint32_t form_mask;
    unsigned form_shift; /* 64 - log2 of the slots */
    idmap strings, tracks;
    mrd_buf text;
    size_t cost; /* estimated encoded bytes */
    mrd_ev_ns first, last, newest;
    bool sorted;
    mrd_cross_read *cross;
    size_t n_cross;
    mrd_habit habits[COLS]; /* how the columns of earlier batches were compressed best */
};

/* Returns the number of a string on the wire, and adds it to the dictionary if it is new. 0 is the
 * empty string, and entry i of the dictionary is i + 1. UINT32_MAX if out of memory. */
uint32_t mrd_batch_string(mrd_batch *batch, mrd_sid sid);

/* Appends the columns, and stores their ends in codec->ends. The rows and their values must be in
 * mrd_event_order. False if out of memory. */
bool mrd_batch_columns(mrd_batch *batch, mrd_codec *codec, mrd_buf *to);

#endif
