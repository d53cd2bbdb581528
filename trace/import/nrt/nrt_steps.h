/*
 * trace/import/nrt/nrt_steps.h - the fast path for events of the runtime's trace: nrt_layout.c
 * reads an event in one pass by the layout of earlier ones. Private to import_nrt.c.
 *
 * The runtime writes the keys of an event always in the same order and with the same white space. A
 * layout is a graph of steps. A step is the text between two values (brackets, comma, white space,
 * key, colon), which is compared as a whole, and the meaning of the value after it. Text that
 * matches no step is checked against the grammar once and becomes a step.
 *
 * The reader of trace/json/json_read.h reads an event from its beginning in these cases:
 *
 * - A string has an escape or a non-ASCII byte.
 * - A number is not a 64-bit integer.
 * - The event has null, an array, or an object other than "data".
 * - A value has the wrong type.
 * - The event ends beyond the window, or has an error.
 *
 * So both paths give the same events, and only the reader reports errors.
 * Memory: at most NRT_STEPS steps. When they are used up by texts that do not repeat, they are
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
/* minimum number of events before all steps may be discarded for new ones */
#define NRT_FORGET 100000u

/* Keys of the event and of its data that have a meaning; all others are arguments. */
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
    NRT_DATA_NC_TS, /* from here keys inside "data"; their values are arguments, too */
    NRT_DATA_EXEC,
    NRT_DATA_PCORE,
    NRT_DATA_CPU_TS,
} nrt_field;

typedef struct {
    char text[NRT_STEP_TEXT];          /* text of the step, padded with zeros */
    uint16_t mask[NRT_STEP_TEXT / 16]; /* bit mask of the bytes that are text, per 16 bytes */
    uint8_t len;
    uint8_t value; /* kind of the value after the text: STEP_* of nrt_layout.c */
    uint8_t needs; /* STEP_* bits that the value's first byte must have */
    bool in_data;  /* the value is inside "data" */
    uint8_t from;  /* position of the text: before the first key, in the event, in "data" */
    bool argument; /* the value is stored as an argument, even if it also has a meaning */
    uint8_t field; /* meaning of the value, an nrt_field */
    uint8_t n_next;
    /* If the value is a non-negative number: offsets of its targets in nrt_record, and its largest
     * value. */
    uint8_t number_at, has_at;
    uint64_t max;
    mrd_sid key; /* key of the argument */
    uint16_t next[NRT_STEP_NEXT];
} nrt_step;

typedef struct {
    nrt_step *steps; /* steps[0] has no text; it stands for the begin of an event */
    uint32_t n, cap;
    uint64_t events; /* events since all steps were last discarded */
    uint64_t read;   /* total number of events read by steps; for tests */
    bool off;        /* for tests: use only the general reader */
} nrt_layout;

#endif
