/*
 * trace/import/import.h - readers of trace formats of other tools (importers). Each format has one
 * row in trace/import/importers.def.
 *
 * A format is detected by content (the first MRD_PROBE_BYTES decompressed bytes). The name alone
 * never decides, but it may break a tie. A reader calls `emit` with the events in the order and
 * with the times of the input. It registers processes and tracks in the catalog, and counts records
 * in its mrd_input. After an error the reader returns the error, and the caller marks the input
 * INCOMPLETE or FAILED. The events before the error are kept.
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

/* Facts about the process that wrote an input, from its location (directory name, file name,
 * options). Unknown values are empty or MRD_NONE. */
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
    /* index of the mrd_input that the reader fills; also makes generated ids unique */
    uint32_t input;
    /* backend of the job's collectives, as the input states it; empty means unknown */
    mrd_sid backend;
    /* Receives an event. `profile` is 0 for the system profile, else the number of a device
     * profile, which the reader must have registered in the catalog. */
    mrd_err (*emit)(mrd_import *self, uint32_t profile, const mrd_event *ev);
    void *emit_self;
    /* Maximum number of input bytes that the reader may hold in memory at once. It is used for
     * formats with parts that must be read completely. 0 means the reader's own limit. */
    size_t part_max;
    /* Moves all events of this profile by delta_ns. Used for formats that state after the events
     * when their times begin. Called at most once per profile, after its last event. */
    mrd_err (*shift)(mrd_import *self, uint32_t profile, mrd_dur_ns delta_ns);
    /* Returns true to stop reading. Called about once per 4,096 events. May be NULL. */
    bool (*cancelled)(mrd_import *self);
    /* the reader sets it if the input describes processes or groups, and may have no events */
    bool describes;
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

/* Returns the mrd_input that the reader fills. The pointer is valid until another input is
 * added. */
mrd_input *mrd_import_input(const mrd_import *imp);
/* First and last time that an event may have, in ns. As times since 1970, they are in 1896 and
 * 2116. The difference of two times in this range fits into 64 bits, even if the epoch of a file
 * was added to one of them. */
#define MRD_IMPORT_FIRST (-(INT64_C(1) << 61))
#define MRD_IMPORT_LAST  (INT64_C(1) << 62)

/* Emits an event and counts it. Drops the event if it begins before MRD_IMPORT_FIRST, or begins or
 * ends after MRD_IMPORT_LAST. The reader must return at once on each error: CANCELLED, NOMEM, IO,
 * FULL. */
mrd_err mrd_import_put(mrd_import *imp, uint32_t profile, const mrd_event *ev);
/* Counts a dropped record, which could not become an event. The text says why. The first text and
 * its offset become the error of the input. */
void mrd_import_drop(mrd_import *imp, uint64_t offset, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Adds a note with the reasons for dropped records and their numbers. Does nothing if there are
 * fewer than two different reasons. */
void mrd_import_note_reasons(mrd_import *imp);
/*
 * Resumes after damage, as mrd_json_resume() does, and counts the skipped bytes and the dropped
 * records. Returns false if the reader cannot resume or has no error.
 */
bool mrd_import_resume(mrd_import *imp, mrd_json_reader *reader, unsigned depth);

/* These two functions add notes about accepted text that is not strict JSON, and about damaged
 * places in strings. The reader calls one of them once, at the end of the input. */
void mrd_import_note_text(const mrd_import *imp, const mrd_json_reader *reader);
void mrd_import_note_repairs(const mrd_import *imp, uint64_t lenient, uint64_t replaced);

/* Returns the importer for the format of `head`, the first MRD_PROBE_BYTES of the content. Returns
 * NULL if no importer accepts it. */
const mrd_import_ops *mrd_import_detect(mrd_str head, const char *name);

/* Returns true if this is the start of a Perfetto trace that Meridian wrote. */
bool mrd_import_is_own_perfetto(mrd_str head);

/* ---- Reading whole inputs into a store ---- */

typedef struct mrd_reading mrd_reading;

/* The input files and directories that a series of calls of mrd_read_file() and mrd_read_dir() has
 * read. It prevents that an input is used twice. Zeroed before the first call. */
typedef struct {
    mrd_map seen;
    mrd_buf first; /* path of the first repeated input */
    size_t again;
    struct mrd_read_input *inputs; /* all inputs that were read (trace/import/same_data.h) */
    size_t n_inputs, cap_inputs;
    size_t samples;    /* total number of hashes in mrd_read_input.sample of all inputs */
    uint64_t compared; /* number of streams that were read to compare their events */
} mrd_read_once;

/* Sets *ret_again to true if an earlier call had the same file or directory and the same identity.
 * Sets it to false if `once` is NULL. */
mrd_err mrd_read_once_check(mrd_read_once *once, const char *path, const mrd_identity *identity,
                            bool *ret_again);
/*
 * Finishes a series of reads and frees `once`. Adds a note about repeated inputs, removes copies of
 * events that several inputs contain, and joins recordings of one process
 * (trace/import/same_data.h). Must be called before the streams of the store are finished. Errors:
 * NOMEM and the errors of mrd_stream_push.
 */
mrd_err mrd_read_once_end(mrd_read_once *once, mrd_catalog *cat, mrd_store *store);

/* A directory in which a process that Meridian records writes its profiles. */
typedef struct {
    char *path;      /* absolute path without symbolic links */
    int64_t process; /* the process that uses the directory; MRD_NONE if several do */
} mrd_read_named;

/* The state of a file at the end of a read. It is used to read the file again after it grew. */
typedef struct {
    uint64_t events; /* hash of all events, in their order in the file; at most 63 bits */
    /* true if the file begins with the events of the earlier reading; these are not stored again */
    bool continued;
    uint64_t dropped; /* records that were dropped in the earlier reading */
} mrd_read_end;

typedef struct {
    mrd_catalog *catalog;
    mrd_store *store;
    const int *fd;       /* mrd_read_file: the open file. NULL means that the path is opened */
    bool system, device; /* whether the system profile, and device profiles, are wanted */
    size_t part_max;     /* mrd_import.part_max for all inputs */
    /* Node that wrote the files without an instance in their names; empty means unknown. The
     * recorded processes of this node are in the catalog. An XSpace contains no pid, so it belongs
     * to the recorded process if there is only one. */
    mrd_sid node;
    /* Path of neuron-explorer or neuron-profile, which converts formats that are not public. NULL
     * means to search PATH and /opt/aws/neuron/bin. "" means not to convert. */
    const char *vendor_tool;
    int64_t vendor_timeout_ms;           /* limits of a conversion, 0 means none */
    uint64_t vendor_memory, vendor_disk; /* limits of a conversion in bytes, 0 means none */
    /* mrd_read_dir: names of entries in the directory that may be from an earlier run. Files in
     * these entries are skipped if their last change was before `earlier_than`. NULL means that no
     * file is skipped. `all_earlier` means that each entry may be from an earlier run. */
    const mrd_strlist *earlier;
    bool all_earlier;
    mrd_wall_ns earlier_than;
    /* Directories of recorded processes. A file in one of them that states no process belongs to
     * the process of the directory. */
    const mrd_read_named *named;
    size_t n_named;
    uint64_t had; /* mrd_read_end.events of an earlier reading of this file; 0 means none */
    mrd_read_end *ret_end; /* may be NULL; without it `had` has no effect */
    /* Files that earlier calls have read. NULL means that repeated files are found only within one
     * directory. */
    mrd_read_once *once;
    void (*progress)(void *self, const char *path, uint64_t done,
                     uint64_t total); /* called during the read with sizes in bytes; may be NULL */
    bool (*cancelled)(void *self);    /* may be NULL */
    void *self;
} mrd_read_options;

/*
 * Reads a file into the store with one importer: adds the mrd_input, detects the format, runs the
 * importer, and sets the state of the input. For a bad input it returns MRD_OK, too; the state of
 * the input shows the failure. Errors: NOMEM, and errors of our own disk.
 */
mrd_err mrd_read_file(const mrd_read_options *options, const char *path,
                      const mrd_identity *identity, mrd_why *why);
/* Reads a directory and its subdirectories: files of known formats, and the files that the Neuron
 * runtime captured (trace/import/import_dir.c). */
mrd_err mrd_read_dir(const mrd_read_options *options, const char *path, mrd_why *why);

#endif
