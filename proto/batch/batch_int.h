/*
 * proto/batch/batch_int.h - internals of the encoder of batches. batch.c collects events,
 * batch_columns.c sorts them and writes columns, and batch_head.c writes the dictionaries and the
 * frame.
 */
#ifndef MRD_PROTO_BATCH_BATCH_INT_H
#define MRD_PROTO_BATCH_BATCH_INT_H

#include "proto/batch/batch.h"
#include "proto/batch/codec_int.h"
#include "proto/batch/columns.h"

/* A hash table with open addressing. It maps ids of the catalog to consecutive numbers that are
 * valid only in this batch. */
typedef struct {
    uint64_t *slots; /* each slot is id << 32 | (number + 1), or 0 if it is free */
    uint32_t mask, used;
    unsigned shift; /* 32 - log2 of the number of slots; shifting a hash right by it gives a slot */
    uint32_t *order; /* order[number] is the catalog id to which the number was assigned */
    uint32_t order_cap;
} idmap;

/* The fixed-size parts of the events. Each attribute has an array of its own, so that writing a
 * column reads only that array. Entries for attributes that an event does not have are
 * undefined. */
typedef struct {
    int64_t *ts_ns, *dur_ns;
    /* `value` holds the bits of a counter's value or the count of a loss record */
    uint64_t *id, *value;
    uint32_t *track, *name, *form, *bound;
} rows;

/* Arguments and flows, which vary in number, are stored in one list per type, in the order of the
 * rows (events). A list consists of 64-bit words. A text takes two words (offset and length), a
 * flow takes two (id and direction), and all others take one. */
enum { VAL_INT, VAL_UINT, VAL_DOUBLE, VAL_STR, VAL_TEXT, VAL_FLOW, VALS };

typedef struct {
    uint64_t *v;
    uint32_t n, cap;
} values;

/* Number of arguments that are compared and stored without a branch. Most events have at most this
 * number. */
#define FORM_FEW 2

/*
 * The properties that distinguish forms, except arguments beyond the first FORM_FEW.
 *
 * words 0, 1   type << 32 | key of the first and the second argument, or 0
 * word 2       kind, flags and the numbers of flows and arguments, laid out as in mrd_event
 * word 3       the category, and bits for the optional attributes that are present
 */
typedef struct {
    uint64_t word[FORM_FEW + 2];
} form_id;

/* A form: the properties that many events share, stored once per batch. Argument keys are catalog
 * ids, and become numbers of this batch when the head is written. */
typedef struct {
    form_id id;
    uint64_t hash;
    uint32_t bits, category, args, flows;
    uint32_t keys_at; /* index of the form's first argument key in mrd_batch.keys */
    /* bit 1 << COL_ for each optional column in which an event of this form has an entry */
    uint32_t columns;
    uint32_t cost; /* estimated bytes of an encoded event, without its texts */
    /* maximum number of 64-bit words that an event of this form adds to one of the lists of
     * values */
    uint32_t words;
    /* equal to `words`, but UINT32_MAX if the fast path push_known cannot append events of this
     * form */
    uint32_t plain_words;
    /* number of words that an event of this form adds to each list (VAL_) */
    uint16_t uses[VALS];
    /* the list (VAL_) that receives the value of each of the first arguments */
    uint8_t list[FORM_FEW];
    /* true if the form has doubles, strings or texts, because their values must be checked before
     * copying */
    bool checked;
} form;

struct mrd_batch {
    const mrd_catalog *cat;
    mrd_proc_id process;
    unsigned clock;
    uint32_t max_events;
    rows rows;
    uint32_t n, rows_cap;
    /* number of rows below which the fast path push_known may append; 0 until push_any appends the
     * first event */
    uint32_t rows_ready;
    values vals[VALS];
    /* every list of values has space for this number of words plus FORM_FEW */
    uint32_t vals_room;
    uint64_t *keys; /* keys of all forms: type << 32 | key */
    uint32_t n_keys, keys_cap;
    form *forms;
    uint32_t n_forms, forms_cap;
    /* hash table of forms; a slot holds 1 + the index in `forms`, or 0 if the slot is free */
    uint32_t *form_slots;
    uint32_t form_mask;
    unsigned form_shift; /* 64 - log2 of the number of slots */
    idmap strings, tracks;
    mrd_buf text;
    size_t cost; /* estimated bytes of the encoded batch */
    mrd_ev_ns first, last, newest;
    bool sorted;
    mrd_cross_read *cross;
    size_t n_cross;
    /* how to compress each column, as learned from the columns of earlier batches */
    mrd_habit habits[COLS];
};

/* Returns the number of a string in the batch's dictionary, and adds the string if it is new. 0
 * means the empty string, and i + 1 means entry i of the dictionary. Returns UINT32_MAX if out of
 * memory. */
uint32_t mrd_batch_string(mrd_batch *batch, mrd_sid sid);

/* Appends the columns to `to`, and stores the end of each column in codec->ends. The rows and their
 * values must be in mrd_event_order. Returns false if out of memory. */
bool mrd_batch_columns(mrd_batch *batch, mrd_codec *codec, mrd_buf *to);

#endif
