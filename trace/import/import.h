/*
 * trace/import/import.h - readers of foreign formats. Each has one file and one row in
 * trace/import/importers.def.
 *
 * A format is detected by content (the first MRD_PROBE_BYTES decompressed bytes). The name alone
 * never decides, but it may break a tie. A reader calls `emit` with the events in the order and the
 * times of the source, registers processes and tracks in the catalog, and reports into its
 * mrd_input. After an error everything that was read before is kept: the reader returns the error,
 * and the caller marks the input INCOMPLETE or FAILED.
 * Unknown keys become arguments (trace/json/args.h). A reader does not assume that its input is
 * sorted, and holds only its open spans in memory. All records are counted: records = events +
 * dropped (trace/model/catalog.h).
 */
#ifndef MRD_TRACE_IMPORT_H
#define MRD_TRACE_IMPORT_H

#include "base/map.h"
#include "trace/json/in.h"
#include "trace/json/json_read.h"
#include "trace/model/catalog.h"
#include "trace/store/stream.h"

#define MRD_PROBE_BYTES (64u << 10)

/* The identity of an input as its location states it (directory names, options). Unknown values are
 * empty or MRD_NONE. */
typedef struct {
    mrd_sid instance_id;
    int64_t process_id; /* pid; MRD_NONE means unknown, as for the fields below */
    int64_t nc_idx, model, session;
    int64_t rank;
    mrd_sid job;
} mrd_identity;

/* Initialises an mrd_identity with unknown values. */
#define MRD_IDENTITY_UNKNOWN                                                                       \
    {                                                                                              \
        .process_id = MRD_NONE, .nc_idx = MRD_NONE, .model = MRD_NONE, .session = MRD_NONE,        \
        .rank = MRD_NONE                                                                           \
    }

#define MRD_IMPORT_REASON 160 /* maximum length of a reason in bytes */

typedef struct mrd_import mrd_import;
struct mrd_import {
    mrd_in *in;
    mrd_catalog *catalog;
    mrd_identity identity;
    /* index of the mrd_input for which the reader reports; also makes generated ids unique */
    uint32_t input;
    /* backend of the job's collectives, as the input states it; empty means unknown */
    mrd_sid backend;
    /* Receives an event. `profile` is the profile number of mrd_store_stream. A reader of device
     * profiles registers its profile first. */
    mrd_err (*emit)(mrd_import *self, uint32_t profile, const mrd_event *ev);
    void *emit_self;
    /* maximum bytes of a part of the input that a format may hold in memory; 0 means the format's
     * own limit */
    size_t part_max;
    /* Moves all events of this profile by delta_ns. For formats that state their epoch after the
     * events. Called at most once per profile, after its last event. */
    mrd_err (*shift)(mrd_import *self, uint32_t profile, mrd_dur_ns delta_ns);
    /* Returns true to stop reading. Called about once per 4,096 events. May be NULL. */
    bool (*cancelled)(mrd_import *self);
    /* Why records were dropped, in order of first occurrence. The last entry counts all other
     * reasons. */
    struct {
        char text[MRD_IMPORT_REASON];
        uint64_t count;
    } reasons[6];
};

typedef struct {
    const char *name; /* name of the format, such as "trace-event-json" */
    const char *what;
    /* Returns how likely this format is: 0 (not this format) to 100 (certain). `head` is the start
     * of the decompressed input, `name` its path. */
    int (*probe)(mrd_str head, const char *name);
    mrd_err (*run)(mrd_import *imp, mrd_why *why);
} mrd_import_ops;

#define MRD_IMPORT(ident) extern const mrd_import_ops mrd_import_##ident;
#include "trace/import/importers.def"
#undef MRD_IMPORT

/* ---- For importers ---- */

/* Returns the mrd_input for which the reader reports. Valid until another input is added. */
mrd_input *mrd_import_input(const mrd_import *imp);
/* The range of times that files may have, in ns: from late 1896 to 2116 for times since 1970. The
 * difference of any two of them fits into 64 bits, also after one of them was moved by its file's
 * epoch. */
#define MRD_IMPORT_FIRST (-(INT64_C(1) << 61))
#define MRD_IMPORT_LAST  (INT64_C(1) << 62)

/* Emits an event and counts it. An event that begins or ends outside of this range is dropped. The
 * reader must return at once on each error: CANCELLED, NOMEM, IO, FULL. */
mrd_err mrd_import_put(mrd_import *imp, uint32_t profile, const mrd_event *ev);
/* Counts a record that could not become an event. Keeps the first reason and its offset. */
void mrd_import_drop(mrd_import *imp, uint64_t offset, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Adds a note about how many records were dropped for each reason, if there are several reasons. */
void mrd_import_note_reasons(mrd_import *imp);
/*
 * Resumes after damage, as mrd_json_resume() does, and counts the skipped bytes and the dropped
 * records. Returns false if the reader cannot resume or has no error.
 */
bool mrd_import_resume(mrd_import *imp, mrd_json_reader *reader, unsigned depth);

/* Adds notes about text that was not JSON, and about damaged text. Called once, at the end. */
void mrd_import_note_text(const mrd_import *imp, const mrd_json_reader *reader);
void mrd_import_note_repairs(const mrd_import *imp, uint64_t lenient, uint64_t replaced);

/* Returns the importer for this content, by its first MRD_PROBE_BYTES. NULL if none accepts it. */
const mrd_import_ops *mrd_import_detect(mrd_str head, const char *name);

/* Returns true if this is the start of a Perfetto trace that Meridian wrote. */
bool mrd_import_is_own_perfetto(mrd_str head);

/* ---- Reading whole inputs into a store ---- */

typedef struct mrd_reading mrd_reading;

/* The files and directories that several calls have read. Zeroed before the first call. */
typedef struct {
    mrd_map seen;
    mrd_buf first; /* path of the first repeated input */
    size_t again;
    struct mrd_read_input *inputs; /* all inputs that were read (trace/import/same_data.h) */
    size_t n_inputs, cap_inputs;
    size_t samples;    /* number of hashes in the samples of all inputs */
    uint64_t compared; /* streams that were read to compare their events */
} mrd_read_once;

/* Sets *ret_again to true if the path was checked before with the same identity. `once` may be
 * NULL. */
mrd_err mrd_read_once_check(mrd_read_once *once, const char *path, const mrd_identity *identity,
                            bool *ret_again);
/*
 * Ends the reading. Adds a note about repeated inputs, removes copies of events that several inputs
 * contain, and joins the windows of a process (trace/import/same_data.h). Frees `once`. Must be
 * called before the streams of the store are finished. Errors: NOMEM and the errors of
 * mrd_stream_push.
 */
mrd_err mrd_read_once_end(mrd_read_once *once, mrd_catalog *cat, mrd_store *store);

/* A directory that a recorded process of this node uses for its profiles. */
typedef struct {
    char *path;      /* absolute path without symbolic links */
    int64_t process; /* the process that uses the directory; MRD_NONE if several do */
} mrd_read_named;

/* How far a file was read, for reading it again after it grew. */
typedef struct {
    uint64_t events;  /* hash of all events, in their order in the file; at most 63 bits */
    bool continued;   /* the events of the earlier reading came first, and are not in the store */
    uint64_t dropped; /* records that were dropped in the earlier reading */
} mrd_read_end;

typedef struct {
    mrd_catalog *catalog;
    mrd_store *store;
    const int *fd;       /* mrd_read_file: the open file. NULL means that the path is opened */
    bool system, device; /* whether the system profile, and device profiles, are wanted */
    size_t part_max;     /* maximum bytes of a part in memory (mrd_import.part_max) */
    /* Node on which files without an identity were written; empty means unknown. The catalog has
     * the recorded processes of this node. If there is only one, an XSpace, which names no process,
     * belongs to it. */
    mrd_sid node;
    /* Path of neuron-explorer or neuron-profile. NULL means to search PATH and /opt/aws/neuron/bin.
     * "" means not to convert. */
    const char *vendor_tool;
    int64_t vendor_timeout_ms;           /* limits of a conversion, 0 means none */
    uint64_t vendor_memory, vendor_disk; /* limits of a conversion in bytes, 0 means none */
    /* mrd_read_dir: entries of these names belong to an earlier run. Files in them that were last
     * changed before `earlier_than` are skipped. NULL means that all files are read. `all_earlier`
     * applies this to every name. */
    const mrd_strlist *earlier;
    bool all_earlier;
    mrd_wall_ns earlier_than;
    const mrd_read_named
        /* directories of recorded processes; a file in them that states no process belongs to
         * theirs */
        *named;
    size_t n_named;
    uint64_t had; /* mrd_read_end.events of an earlier reading of this file; 0 means none */
    mrd_read_end *ret_end; /* may be NULL; without it `had` has no effect */
    /* inputs of several calls; NULL means that repeated files are found only within one
     * directory */
    mrd_read_once *once;
    void (*progress)(void *self, const char *path, uint64_t done,
                     uint64_t total); /* done and total are in bytes; the function may be NULL */
    bool (*cancelled)(void *self);    /* may be NULL */
    void *self;
} mrd_read_options;

/*
 * Reads a file into the store with one importer: adds the mrd_input, detects the format, runs the
 * importer, sets the state of the input. Also returns MRD_OK for a bad input; the state of the
 * input shows the failure. Errors: NOMEM, and errors of our own disk.
 */
mrd_err mrd_read_file(const mrd_read_options *options, const char *path,
                      const mrd_identity *identity, mrd_why *why);
/* Reads a capture directory, or a directory of files of known formats
 * (trace/import/import_dir.c). */
mrd_err mrd_read_dir(const mrd_read_options *options, const char *path, mrd_why *why);

#endif
