/*
 * trace/import/same_data.h - finds inputs that hold the same events, and the windows of one process.
 *
 * Each input keeps a sample of its events: those whose hash is below a limit. The hash covers the
 * time as the file has it, the length, the name and, where the format states it, the process. So the
 * shared events of two inputs are in both samples, whatever the formats and sizes of the files.
 *
 *   copy    All events of an input are in another input. The other input is used.
 *   merged  All events of an input are in several smaller inputs. The smaller inputs are used.
 *   window  Two inputs state the same process (node, job, rank, pid), their times count from the same
 *           start, and do not overlap. They become one process, with a pause between them.
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

/* Hashes that a sample has at most. */
#define MRD_SAMPLE_MOST 1024u

/* The events of one input whose hash has `shift` leading zero bits. Zeroed at first. */
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
    mrd_dur_ns base;    /* what was added to the times of the file */
    mrd_stream *stream; /* of the system profile */
    mrd_sample sample;  /* owned */
} mrd_read_input;

/* Remembers an input, and takes its sample also on failure. Errors: NOMEM. */
mrd_err mrd_same_data_add(mrd_read_once *once, const mrd_read_input *input);
/*
 * Compares all inputs that were added. Takes copies out of store and catalog, joins windows, and gives
 * processes that look alike the names of their files. Notes say what was done. To be called before the
 * streams are finished. Errors: NOMEM, those of mrd_stream_push.
 */
mrd_err mrd_same_data_resolve(mrd_read_once *once, mrd_catalog *cat, mrd_store *store);

#endif
