/*
 * proto/batch_read_int.h - inside of the reader of proto/batch.h: batch_read_head.c (the head: process,
 * dictionaries, forms), batch_read.c (columns and events).
 */
#ifndef MRD_PROTO_BATCH_READ_INT_H
#define MRD_PROTO_BATCH_READ_INT_H

#include "proto/batch.h"
#include "proto/codec_int.h"
#include "proto/columns.h"

#define FEW 2 /* arguments that are decoded without asking how many there are */

/* A form as events need it: its keys are catalog ids. */
typedef struct {
    uint32_t bits, args, flows, keys_at;
    bool plain;     /* a finished span with no more than an id and signed integers as arguments */
    mrd_event like; /* what is the same in all */
} form;

typedef struct {
    mrd_sid key;
    uint32_t type, column;
} form_key;

/* A column: what is left of it. Lengths were checked at open, so reading needs no end. */
typedef struct {
    const uint8_t *p, *end;
} column;

struct mrd_batch_reader {
    mrd_codec *codec;
    mrd_catalog *cat;
    const char *node; /* whose batches these are; NULL: as they say */
    bool foreign;     /* the head read last says otherwise */
    mrd_frame frame;
    /* the dictionaries, in ids of cat */
    mrd_sid *strings; /* [0] is the empty text */
    uint32_t n_strings, strings_cap;
    mrd_track_id *tracks;
    uint32_t n_tracks, tracks_cap;
    form *forms;
    uint32_t n_forms, forms_cap;
    form_key *keys;
    uint32_t n_keys, keys_cap;
    mrd_cross_read *cross;
    uint32_t n_cross, cross_cap;
    /* the events */
    mrd_buf head_raw, cols; /* decompressed; a part that came as it is was copied */
    column col[COLS];
    uint32_t decoded, given;
    mrd_ev_ns ts;
    uint64_t last_id;
    /* decoded events, in order, waiting to be given */
    mrd_event *chunk;
    uint32_t chunk_n, chunk_at, chunk_cap;
    bool ties;         /* some have the same time */
    bool loose;        /* some do not point at their arguments and arrows yet */
    const char *wrong; /* with the event behind them; NULL: nothing */
    mrd_arg *args;
    uint32_t n_args, args_cap;
    mrd_flow *flows;
    uint32_t n_flows, flows_cap;
};

/* CORRUPT, with the number of the batch. */
mrd_err mrd_batch_corrupt(const mrd_batch_reader *r, mrd_why *why, const char *what);

#endif
