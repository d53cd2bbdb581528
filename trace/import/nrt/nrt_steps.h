/*
 * trace/import/nrt/nrt_steps.h - types of the fast path for events of the runtime's trace, with
 * which nrt_layout.c reads an event in one pass. Private to import_nrt.c.
 *
 * The runtime always writes the keys of an event in the same order and with the same white space. A
 * layout is a graph of steps. A step has the text between two values (brackets, comma, white space,
 * key, colon), which is compared as a whole, and the meaning of the value after this text. If a
 * text matches no step, it is parsed once and becomes a step.
 *
 * The general reader (trace/json/json_read.h) reads an event from its beginning in these cases:
 *
 * - A string has an escape or a non-ASCII byte.
 * - A number is not a 64-bit integer.
 * - The event has null, an array, or an object other than "data".
 * - A value has the wrong type.
 * - The reader's window ends inside the event, or the event has a syntax error.
 *
 * So both paths give the same events, and only the general reader reports errors.
 * Memory: at most NRT_STEPS steps. If texts do not repeat and use up all steps, the steps are
 * discarded.
 */
#ifndef MRD_TRACE_NRT_STEPS_H
#define MRD_TRACE_NRT_STEPS_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/model/strtab.h"

#define NRT_STEPS     512u
#define NRT_STEP_TEXT 48u /* maximum length of a step's text; a multiple of 16 */
#define NRT_STEP_NEXT 26u /* maximum number of successors of a step */
/* Minimum number of events between two times that the table of steps is emptied. Learning steps
 * costs time, so it must not happen too often. */
#define NRT_FORGET 100000u

/* Meanings of the keys of an event and of its "data". Other keys (NRT_OTHER) become arguments. */
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
    /* The fields from here on are inside the event's object "data". Their values are also
     * arguments. */
    NRT_DATA_NC_TS,
    NRT_DATA_EXEC,
    NRT_DATA_PCORE,
    NRT_DATA_CPU_TS,
} nrt_field;

typedef struct {
    char text[NRT_STEP_TEXT]; /* text of the step, padded with zeros */
    /* for each 16 bytes of `text`: bit i is set if byte i belongs to the text */
    uint16_t mask[NRT_STEP_TEXT / 16];
    uint8_t len;
    uint8_t value; /* kind of the value after the text: STEP_* of nrt_layout.c */
    uint8_t needs; /* STEP_* bits that the table `begins` must have for the value's first byte */
    bool in_data;  /* the value is inside the event's object "data" */
    /* where the text may occur: before the event's first key, later in the event, or in "data" */
    uint8_t from;
    bool argument; /* true if the value is stored as an argument */
    uint8_t field; /* meaning of the value, an nrt_field */
    uint8_t n_next;
    /* If the value is a non-negative number: its largest value, and the offsets in nrt_record of
     * the members that store the number, and that it exists. */
    uint8_t number_at, has_at;
    uint64_t max;
    mrd_sid key; /* key of the argument */
    uint16_t next[NRT_STEP_NEXT];
} nrt_step;

typedef struct {
    nrt_step *steps; /* steps[0] has no text; it stands for the begin of an event */
    uint32_t n, cap;
    uint64_t events; /* events since all steps were last discarded */
    uint64_t read;   /* number of all events that the steps could read; for tests */
    bool off;        /* for tests: use only the general reader */
} nrt_layout;

#endif
