/*
 * trace/import/same_data.h - finds inputs that contain the same events, and the windows of one
 * process.
 *
 *   copy    All events of an input are in another input. Only the other input is used.
 *   merged  Each event of an input is in exactly one of several smaller inputs. Only the smaller
 *           inputs are used.
 *   window  Two inputs state the same process, and their times do not overlap. They become one
 *           process, with a pause between them.
 *
 * No event is dropped unless another input has it. Candidates are found by samples. A sample has
 * the events of an input with a hash below a limit, so a common event of two inputs is in both
 * samples. Then all events of the candidates are read. They are compared by time, length, name,
 * arguments, thread and process, if their files state these. Ids of arrows and names of
 * threads are not compared. Inputs of different formats are compared by time, length, name and
 * process only. If one event of an input is nowhere else, the whole input is used. A note then says
 * that its other events count twice.
 *
 * Inputs that contradict each other are never copies or windows of each other. They can contradict
 * each other in their node, job, rank, pid, world size, backend or start of the times. A number
 * after "rank", "node", "worker", "host", "job" or "run" in their paths counts too. A copy gets the
 * state MRD_INPUT_SKIPPED and loses its events. A damaged copy stays incomplete, because its
 * unreadable part is unknown. Only events of the system profile are compared.
 *
 * Time      n log n for n hashes in all samples. The events of an input are read once for each
 *           other input whose sample contains its sample.
 * Memory    At most 8 MiB for the samples of all inputs, and 24 MiB to compare them. Reading the
 *           streams needs no more memory than reading them for the output.
 * Threads   One thread.
 */
#ifndef MRD_TRACE_SAME_DATA_H
#define MRD_TRACE_SAME_DATA_H

#include "trace/import/import.h"

/* Maximum number of hashes in a sample. */
#define MRD_SAMPLE_MOST 1024u

/* A sample of an input's events: the hashes that begin with `shift` zero bits. Zeroed before
 * use. */
typedef struct {
    uint64_t *v;
    size_t n, cap;
    unsigned shift;
    uint64_t count;        /* number of all events of the input */
    mrd_ev_ns first, last; /* the earliest and the latest begin of an event */
    bool failed;           /* out of memory, so the input is not compared */
} mrd_sample;

/* Adds an event of the system profile. */
void mrd_sample_add(mrd_sample *sample, const mrd_event *ev);
void mrd_sample_fini(mrd_sample *sample);

/* An input that was read. */
typedef struct mrd_read_input {
    uint32_t input;
    mrd_identity place;
    mrd_sid backend;    /* backend of the collectives (mrd_import.backend) */
    mrd_dur_ns base;    /* offset that was added to the times of the file */
    mrd_stream *stream; /* stream with the events of the system profile */
    mrd_sample sample;  /* sample of the input's events; owned */
    bool is_dropped;    /* a copy: another input is used instead */
} mrd_read_input;

/* Adds an input. Inputs are added in the order of the catalog. Takes ownership of the sample, also
 * on failure. Errors: NOMEM. */
mrd_err mrd_same_data_add(mrd_read_once *once, const mrd_read_input *input);
/*
 * Compares all inputs that were added. Removes copies from the store and the catalog, and joins
 * windows. Processes of different files that look the same get the names of their files. Adds notes
 * about these changes to the catalog. Must be called before the streams are finished. Errors: NOMEM
 * and the errors of mrd_stream_push.
 */
mrd_err mrd_same_data_resolve(mrd_read_once *once, mrd_catalog *cat, mrd_store *store);

#endif
