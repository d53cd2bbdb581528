/*
 * proto/batch_int.h - inside of the encoder: batch.c (collecting events), batch_columns.c (sorting
 * them and writing columns), batch_head.c (dictionaries, and the frame around both).
 */
#ifndef MRD_PROTO_BATCH_INT_H
#define MRD_PROTO_BATCH_INT_H

#include "proto/batch.h"
#include "proto/codec_int.h"
#include "proto/columns.h"

/* Open addressing from a catalog id to a number of this batch. */
typedef struct {
    uint64_t *slots; /* id << 32 | local + 1; 0: free */
    uint32_t mask, used;
    unsigned shift;  /* 32 - log2 of the slots */
    uint32_t *order; /* local -> id */
    uint32_t order_cap;
} idmap;

/* The events without their variable parts: one array per attribute, so that writing a column
 * touches nothing else. What an event's form does not use is not set. */
typedef struct {
    int64_t *ts_ns, *dur_ns;
    uint64_t *id, *value; /* value: counter or loss, as bits */
    uint32_t *track, *name, *form, *bound;
} rows;

/* Variable parts by kind, in the order of the rows, each kind a list of words; the last two take
 * two words each: offset and length, id and direction. */
enum { VAL_INT, VAL_UINT, VAL_DOUBLE, VAL_STR, VAL_TEXT, VAL_FLOW, VALS };

typedef struct {
    uint64_t *v;
    uint32_t n, cap;
} values;

#define FORM_FEW 2 /* arguments that most forms have at most: looked at without a branch */

/* What tells forms apart, arguments beyond the first apart: type << 32 | key of these, 0 where
 * there is none; kind, flags and numbers of arrows and arguments as they lie in the event;
 * category, and which of the optional attributes there are. */
typedef struct {
    uint64_t word[FORM_FEW + 2];
} form_id;

/* What a form is made of; keys are catalog ids, local ones are looked up when it is written. */
typedef struct {
    form_id id;
    uint64_t hash;
    uint32_t bits, category, args, flows;
    uint32_t keys_at; /* into mrd_batch.keys */
    uint32_t columns; /* of the optional ones, those with an entry for each event: 1 << COL_ */
    uint32_t cost;    /* estimated encoded bytes of an event, texts apart */
    uint32_t words;   /* most that an event adds to one list of values */
    uint32_t
        plain_words;     /* the same; UINT32_MAX: an event of this form is nothing for push_known */
    uint16_t uses[VALS]; /* words of each kind that an event of this form has */
    uint8_t list[FORM_FEW]; /* where the first arguments go */
    bool checked; /* arguments need a look before they are taken: doubles, strings, texts */
} form;

struct mrd_batch {
    const mrd_catalog *cat;
    mrd_proc_id process;
    unsigned clock;
    uint32_t max_events;
    rows rows;
    uint32_t n, rows_cap;
    uint32_t rows_ready; /* rows that push_known may fill; 0: the first event is not its own */
    values vals[VALS];
    uint32_t vals_room; /* words that every list has room for at least, FORM_FEW apart */
    uint64_t *keys;     /* type << 32 | key */
    uint32_t n_keys, keys_cap;
    form *forms;
    uint32_t n_forms, forms_cap;
    uint32_t *form_slots; /* number + 1; 0: free */
    uint32_t form_mask;
    unsigned form_shift; /* 64 - log2 of the slots */
    idmap strings, tracks;
    mrd_buf text;
    size_t cost; /* estimated encoded bytes */
    mrd_ev_ns first, last, newest;
    bool sorted;
    mrd_cross_read *cross;
    size_t n_cross;
    mrd_habit habits[COLS]; /* of packing the columns of the batches before */
};

/* The number of a string on the wire, added when new: 0 is the empty text, entry i of the
 * dictionary is i + 1. UINT32_MAX without memory. */
uint32_t mrd_batch_string(mrd_batch *b, mrd_sid sid);

/* Appends the columns, whose ends are in codec->ends then; the rows and their values are in
 * mrd_event_order. False without memory. */
bool mrd_batch_columns(mrd_batch *b, mrd_codec *codec, mrd_buf *to);

#endif
