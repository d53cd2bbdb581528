/*
 * trace/import/same_data.h - finds inputs that contain the same events, and the windows of one
 * process.
 *
 * Each input keeps a sample of its events: the events with a hash below a limit. The hash covers
 * the time as in the file, the length, the name and, if the format states it, the process. So
 * events that two inputs share are in both samples, for all formats and file sizes.
 *
 *   copy    All events of an input are in another input. The other input is used.
 *   merged  All events of an input are in several smaller inputs. The smaller inputs are used.
 *   window  Two inputs state the same process (node, job, rank, pid), their times count from the
 *     same start, and do not overlap. They become one process, with a pause between them.
 *
 * Inputs that state different nodes, ranks, processes or epochs are never copies. A copy gets the
 * state MRD_INPUT_SKIPPED and loses its events. A damaged copy stays incomplete, because its
 * unreadable part is unknown. Only events of the system profile are compared.
 *
 * Memory    at most 8 KiB per input.
 * Threads   One thread.
 */
#ifndef MRD_TRACE_SAME_DATA_H
#define MRD_TRACE_SAME_DATA_H

#include "trace/import/import.h"

/* Maximum number of hashes in a sample. */
#define MRD_SAMPLE_MOST 1024u

/* The hashes of an input's events that have `shift` leading zero bits. Zeroed before use. */
typedef struct {
    uint64_t *v;
    size_t n, cap;
    unsigned shift;
    uint64_t count; /* of all events */
    bool failed;    /* out of memory: the input is not compared */
} mrd_sample;

/* Adds an event of the system profile. */
void mrd_sample_add(mrd_sample *sample, const mrd_catalog *cat, const mrd_event *ev);
void mrd_sample_fini(mrd_sample *sample);

/* An input that was read. */
typedef struct mrd_read_input {
    uint32_t input;
    mrd_identity place;
    mrd_dur_ns base;    /* added to the times of the file */
    mrd_stream *stream; /* of the system profile */
    mrd_sample sample;  /* owned */
} mrd_read_input;

/* Adds an input. Takes its sample also on failure. Errors: NOMEM. */
mrd_err mrd_same_data_add(mrd_read_once *once, const mrd_read_input *input);
/*
 * Compares all inputs that were added. Removes copies from store and catalog, joins windows, and
 * names processes that look alike after their files. Notes record the changes. Must be called
 * before the streams are finished. Errors: NOMEM and the errors of mrd_stream_push.
 */
mrd_err mrd_same_data_resolve(mrd_read_once *once, mrd_catalog *cat, mrd_store *store);

#endif
