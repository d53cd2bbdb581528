/*
 * trace/import/import.h - readers of foreign formats: one file and one row in trace/import/importers.def each.
 *
 * Detection is by content (the first MRD_PROBE_BYTES decompressed bytes), never by name alone; the
 * name may break a tie. A reader pushes events through `emit` in the source's order and times,
 * registers processes and tracks in the catalog, and reports into its mrd_input. It keeps what it
 * read before an error: it returns the error, the caller marks the input INCOMPLETE or FAILED.
 * Unknown keys become arguments (trace/json/args.h). No reader assumes sorted input or holds more than
 * its open spans. Counts obey records = events + dropped (trace/model/catalog.h); nothing vanishes.
 */
#ifndef MRD_TRACE_IMPORT_H
#define MRD_TRACE_IMPORT_H

#include "base/map.h"
#include "trace/json/in.h"
#include "trace/json/json_read.h"
#include "trace/model/catalog.h"
#include "trace/store/stream.h"

#define MRD_PROBE_BYTES (64u << 10)

/* What the place of a file says about it (folder names, options); unknown: empty, MRD_NONE. */
typedef struct {
    mrd_sid instance_id;
    int64_t process_id;             /* MRD_NONE */
    int64_t nc_idx, model, session; /* MRD_NONE */
    int64_t rank;                   /* MRD_NONE */
    mrd_sid job;
} mrd_identity;

/* Nothing is known of the place: initialises an mrd_identity. */
#define MRD_IDENTITY_UNKNOWN                                                                       \
    {                                                                                              \
        .process_id = MRD_NONE, .nc_idx = MRD_NONE, .model = MRD_NONE, .session = MRD_NONE,        \
        .rank = MRD_NONE                                                                           \
    }

#define MRD_IMPORT_REASON 160 /* bytes of a reason */

typedef struct mrd_import mrd_import;
struct mrd_import {
    mrd_in *in;
    mrd_catalog *catalog;
    mrd_identity identity;
    uint32_t input; /* index of the mrd_input to report into; also the scope of made-up ids */
    /* Where events go. profile as in mrd_store_stream: a reader of device profiles registers one
     * first. */
    mrd_err (*emit)(mrd_import *self, uint32_t profile, const mrd_event *ev);
    void *emit_self;
    size_t part_max; /* bytes of what a format holds in memory at one time; 0: its own limit */
    /* Moves all events emitted so far for this profile by delta_ns: for formats whose epoch comes
     * behind the events. At most once per profile, after its last event. */
    mrd_err (*shift)(mrd_import *self, uint32_t profile, mrd_dur_ns delta_ns);
    bool (*cancelled)(mrd_import *self); /* NULL: never. Asked about once per 4,096 events */
    /* Why records were dropped, in the order in which the reasons came; the last counts all others. */
    struct {
        char text[MRD_IMPORT_REASON];
        uint64_t count;
    } reasons[6];
};

typedef struct {
    const char *name; /* "trace-event-json" */
    const char *what;
    /* 0: not mine; 1..100: how sure. head is the start of the decompressed input; name its path. */
    int (*probe)(mrd_str head, const char *name);
    mrd_err (*run)(mrd_import *imp, mrd_why *why);
} mrd_import_ops;

#define MRD_IMPORT(ident) extern const mrd_import_ops mrd_import_##ident;
#include "trace/import/importers.def"
#undef MRD_IMPORT

/* ---- For importers ---- */

/* The input to report into; valid until another input is added. */
mrd_input *mrd_import_input(const mrd_import *imp);
/* ns of the times that files may have, from late 1896 to 2116 where they count from 1970: so that the time
 * between any two of them is a number, also after one of them was moved by its file's epoch. */
#define MRD_IMPORT_FIRST (-(INT64_C(1) << 61))
#define MRD_IMPORT_LAST  (INT64_C(1) << 62)

/* Emits and counts. An event that begins or ends at another time is dropped. Errors are the store's
 * (NOMEM, IO, FULL): return them at once; CANCELLED. */
mrd_err mrd_import_put(mrd_import *imp, uint32_t profile, const mrd_event *ev);
/* Counts a record that could not become an event; the first reason is kept, with its offset. */
void mrd_import_drop(mrd_import *imp, uint64_t offset, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Notes how many records were dropped for each reason, if there are several reasons. */
void mrd_import_note_reasons(mrd_import *imp);
/*
 * Resumes after damage, as mrd_json_resume(), and counts the skipped bytes and the dropped records.
 * Returns false if the reader cannot resume or has no error.
 */
bool mrd_import_resume(mrd_import *imp, mrd_json_reader *r, unsigned depth);

/* Notes what of the text was no JSON and what was damaged; once, at the end. */
void mrd_import_note_text(const mrd_import *imp, const mrd_json_reader *r);
void mrd_import_note_repairs(const mrd_import *imp, uint64_t lenient, uint64_t replaced);

/* The importer for this content, NULL when none claims it. */
const mrd_import_ops *mrd_import_detect(mrd_str head, const char *name);

/* ---- Reading whole inputs into a store ---- */

typedef struct mrd_reading mrd_reading;

/* The files and folders that were read, over several calls; zeroed at first. */
typedef struct {
    mrd_map seen;
    mrd_buf first; /* of those that were met again */
    size_t again;
    struct mrd_read_input *inputs; /* trace/import/same_data.h */
    size_t n_inputs, cap_inputs;
} mrd_read_once;

/* Sets *ret_again when path was checked before with this identity. once may be NULL. */
mrd_err mrd_read_once_check(mrd_read_once *once, const char *path, const mrd_identity *identity,
                            bool *ret_again);
/*
 * Notes how many were met again, uses events that several inputs hold once, and joins the windows of a
 * process (trace/import/same_data.h). Frees `once`. To be called before the streams of the store are
 * finished. Errors: NOMEM, those of mrd_stream_push.
 */
mrd_err mrd_read_once_end(mrd_read_once *once, mrd_catalog *cat, mrd_store *store);

/* A folder that a recorded process of the node said it has its profiles written to. */
typedef struct {
    char *path;      /* absolute, without links */
    int64_t process; /* MRD_NONE: several did */
} mrd_read_named;

typedef struct {
    mrd_catalog *catalog;
    mrd_store *store;
    const int *fd;       /* of mrd_read_file: the file, open already; NULL: its path is opened */
    bool system, device; /* which halves are wanted */
    size_t part_max;     /* see mrd_import */
    /* Files that do not say whose they are were written on this node, by processes of which the catalog has
     * those that were recorded; an XSpace, which names no process, by the only one. Empty: it is not known where. */
    mrd_sid node;
    const char *vendor_tool; /* path of neuron-explorer / neuron-profile; NULL: look on PATH and in
                                /opt/aws/neuron/bin; "": never */
    int64_t vendor_timeout_ms;           /* per conversion, as the two below; 0: no limit */
    uint64_t vendor_memory, vendor_disk; /* bytes */
    /* Of a folder: what lay in it under these names and was last changed before then is of somebody
     * else and left alone. NULL: all is read; all_earlier: under any name. */
    const mrd_strlist *earlier;
    bool all_earlier;
    mrd_wall_ns earlier_than;
    const mrd_read_named
        *named; /* what lies there and does not say whose it is, is the process's */
    size_t n_named;
    mrd_read_once *once; /* NULL: of a folder what it holds, of a file nothing */
    void (*progress)(void *self, const char *path, uint64_t done,
                     uint64_t total); /* bytes; may be NULL */
    bool (*cancelled)(void *self);    /* may be NULL */
    void *self;
} mrd_read_options;

/*
 * Reads a file (one importer) into the store: adds the mrd_input, detects, runs, sets its state.
 * Returns MRD_OK also when the input was bad: the input's state tells; errors are only our own
 * (NOMEM, disk).
 */
mrd_err mrd_read_file(const mrd_read_options *options, const char *path,
                      const mrd_identity *identity, mrd_why *why);
/* A capture directory, or a folder of files of any known kind (trace/import/import_dir.c). */
mrd_err mrd_read_dir(const mrd_read_options *options, const char *path, mrd_why *why);

#endif
