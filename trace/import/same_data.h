/*
 * trace/import/same_data.h - finds input files with the same events, so that no event is shown
 * twice, and files with different times of one process.
 *
 *   copy    All events of an input are in another input. Only the other input is used.
 *   merged  Each event of an input is in exactly one of several smaller inputs. Only the smaller
 *           inputs are used.
 *   window  Two inputs are of the same process, and their times do not overlap. Their processes
 *           become one process, with a pause between the inputs' times.
 *
 * An event is dropped only if another input has it, too. Candidates are found by comparing samples.
 * A sample has the hashes of those events whose hash is below a limit. So an event that is in two
 * inputs is in both samples. Then all events of the candidates are read and compared. Time, length,
 * name, arguments, thread and process of two events must be equal, as far as the files state them.
 * Ids of flow arrows and names of threads are not compared. If the inputs have different formats,
 * only time, length, name and process are compared.
 *
 * If an input has an event that is in no other input, the whole input is used. A note then says
 * that the common events count twice.
 *
 * Inputs that contradict each other are never copies or windows of each other. A contradiction is a
 * different node, job, rank, pid, world size, backend or start of the times. Different numbers
 * after "rank", "node", "worker", "host", "job" or "run" in their paths are a contradiction, too.
 *
 * A copy gets the state MRD_INPUT_SKIPPED and loses its events. A damaged copy keeps its state,
 * because the contents of its damaged part are unknown. Only events of the system profile are
 * compared.
 *
 * Time      n log n for n hashes in all samples. The events of an input are read once for each
 *           other input whose sample contains its sample.
 * Memory    At most 8 MiB for the samples of all inputs, and 24 MiB to compare them. Reading the
 *           events needs no more memory than reading them for the output.
 * Threads   One thread.
 */
#ifndef MRD_TRACE_SAME_DATA_H
#define MRD_TRACE_SAME_DATA_H

#include "trace/import/import.h"

/* Maximum number of hashes in a sample. */
#define MRD_SAMPLE_MOST 1024u

/* A sample of an input's events: the event hashes that begin with `shift` zero bits. The caller
 * initialises it with zeros. */
typedef struct {
    uint64_t *v;
    size_t n, cap;
    unsigned shift;
    uint64_t count;        /* number of all events of the input */
    mrd_ev_ns first, last; /* the earliest and the latest start of an event */
    bool failed;           /* memory ran out, so the input is not compared */
} mrd_sample;

/* Adds an event of the system profile. */
void mrd_sample_add(mrd_sample *sample, const mrd_event *ev);
void mrd_sample_fini(mrd_sample *sample);

/* An input that was read. */
typedef struct mrd_read_input {
    uint32_t input;
    mrd_identity place;
    mrd_sid backend;    /* communication library of the collectives (mrd_import.backend) */
    mrd_dur_ns base;    /* offset that was added to the times of the file */
    mrd_stream *stream; /* stream with the events of the system profile */
    mrd_sample sample;  /* hashes of the input's events; owned */
    bool is_dropped;    /* the input is a copy, and its events were removed */
} mrd_read_input;

/* Adds an input. The caller must add the inputs in the order of the catalog. Takes ownership of the
 * sample, also on errors. Errors: NOMEM. */
mrd_err mrd_same_data_add(mrd_read_once *once, const mrd_read_input *input);
/*
 * Compares all added inputs. Removes copies from the store and the catalog, and joins the windows
 * of each process. If processes of different files look the same, names them after their files.
 * Adds notes about all this to the catalog. Must be called before the streams are finished. Errors:
 * NOMEM and the errors of mrd_stream_push.
 */
mrd_err mrd_same_data_resolve(mrd_read_once *once, mrd_catalog *cat, mrd_store *store);

#endif
