/*
 * proto/batch/batch_read_int.h - internals of the reader of batches (proto/batch/batch.h).
 * batch_read_head.c reads the head (process, dictionaries, forms), and batch_read.c reads the
 * columns and events.
 */
#ifndef MRD_PROTO_BATCH_BATCH_READ_INT_H
#define MRD_PROTO_BATCH_BATCH_READ_INT_H

#include "proto/batch/batch.h"
#include "proto/batch/codec_int.h"
#include "proto/batch/columns.h"

#define FEW 2 /* number of arguments that decode_few decodes without a loop */

/* A form (the properties that many events share), prepared for decoding. Its keys are catalog
 * ids. */
typedef struct {
    uint32_t bits, args, flows, keys_at;
    /* each event of this form is a finished span; its only optional parts are an id and signed
     * integer arguments */
    bool plain;
    mrd_event like; /* an event with the values that all events of the form share */
} form;

typedef struct {
    mrd_sid key;
    uint32_t type, column;
} form_key;

/* The part of a column that was not read yet. mrd_batch_open checked the number of entries, so
 * reading an entry does not compare p with `end`. */
typedef struct {
    const uint8_t *p, *end;
} column;

struct mrd_batch_reader {
    mrd_codec *codec;
    mrd_catalog *cat;
    const char *node; /* the node set by mrd_batch_reader_of, or NULL */
    bool foreign;     /* true if the newest batch head names another node than `node` */
    mrd_frame frame;
    /* The dictionaries of the batch, as ids of the catalog `cat`. */
    mrd_sid *strings; /* strings[0] is the empty text */
    uint32_t n_strings, strings_cap;
    mrd_track_id *tracks;
    uint32_t n_tracks, tracks_cap;
    form *forms;
    uint32_t n_forms, forms_cap;
    form_key *keys;
    uint32_t n_keys, keys_cap;
    mrd_cross_read *cross;
    uint32_t n_cross, cross_cap;
    /* The encoded events of the batch. */
    mrd_buf head_raw, cols; /* The head and the columns, decompressed or copied. */
    column col[COLS];
    uint32_t decoded, given;
    mrd_ev_ns ts;
    uint64_t last_id;
    /* decoded events in order; chunk_at is the index of the first event that was not returned
     * yet */
    mrd_event *chunk;
    uint32_t chunk_n, chunk_at, chunk_cap;
    bool ties;         /* some events of `chunk` have the same time */
    bool loose;        /* some events of `chunk` do not yet point to their arguments and flows */
    const char *wrong; /* the error in the event that follows the decoded events, or NULL */
    mrd_arg *args;
    uint32_t n_args, args_cap;
    mrd_flow *flows;
    uint32_t n_flows, flows_cap;
};

/* Sets the message "batch NUMBER: `what`" and returns CORRUPT. */
mrd_err mrd_batch_corrupt(const mrd_batch_reader *reader, mrd_why *why, const char *what);

#endif
