/*
 * trace/import/nrt_steps.h - private to import_nrt.c: what nrt_layout.c keeps, which reads an event of the runtime's trace in one pass,
 * by the layout of those before it.
 *
 * The runtime writes the keys of an event always in the same order and with the same blanks. So a
 * layout is a graph of steps: the text between two values (brackets, comma, blanks, key, colon),
 * which is compared as a whole, and what the value behind it means. Text that no step expects is
 * checked against the grammar once and becomes a step.
 *
 * Whatever is not plain is left to the reader of trace/json/json_read.h, from the beginning of the
 * event: an escape or a byte beyond ASCII in a string, a number that is no integer of 64 bits,
 * null, arrays and objects other than "data", values of the wrong type, an event that meets the end
 * of the window, and every error. So both give the same events, and only the reader speaks of
 * errors. Memory: at most NRT_STEPS steps; when they are full of texts that do not come back, they
 * are forgotten.
 */
#ifndef MRD_TRACE_NRT_STEPS_H
#define MRD_TRACE_NRT_STEPS_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/model/strtab.h"

#define NRT_STEPS     512u
#define NRT_STEP_TEXT 48u     /* a longer text is no step; a multiple of 16 */
#define NRT_STEP_NEXT 26u     /* steps that may follow one */
#define NRT_FORGET    100000u /* events before steps may be forgotten for new ones */

/* Keys of the event and of its data that mean something here; all others are arguments. */
typedef enum {
    NRT_OTHER,
    NRT_EVENT_TYPE,
    NRT_PHASE,
    NRT_ID,
    NRT_NC_IDX,
    NRT_NC_LOCAL_ID,
    NRT_TRACKING_ID,
    NRT_THREAD_ID,
    NRT_WORKER_GID,
    NRT_DATA,
    NRT_TIMESTAMP,
    NRT_DATA_NC_TS, /* inside "data"; these are arguments as well */
    NRT_DATA_EXEC,
    NRT_DATA_PCORE,
    NRT_DATA_CPU_TS,
} nrt_field;

typedef struct {
    char text[NRT_STEP_TEXT];          /* zeros behind */
    uint16_t mask[NRT_STEP_TEXT / 16]; /* which bytes of each 16 are text */
    uint8_t len;
    uint8_t value; /* what follows: STEP_* of nrt_layout.c */
    uint8_t needs; /* what of `value` its first byte must say */
    bool in_data;  /* where the value is */
    uint8_t from;  /* where the text begins: before the first key, in the event, in "data" */
    bool argument; /* the value is one, whatever else it means */
    uint8_t field; /* nrt_field */
    uint8_t n_next;
    /* A number that is not negative: its places in nrt_record, and how large it may be. */
    uint8_t number_at, has_at;
    uint64_t max;
    mrd_sid key; /* of the argument */
    uint16_t next[NRT_STEP_NEXT];
} nrt_step;

typedef struct {
    nrt_step *steps; /* [0] has no text: it stands before the event */
    uint32_t n, cap;
    uint64_t events; /* met since the steps were forgotten */
    uint64_t read;   /* ever; for tests */
    bool off;        /* for tests: leave all to the reader */
} nrt_layout;

#endif
