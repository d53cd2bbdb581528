/*
 * agent/rings/drain.h - makes events from the rings of this node. The drain finds rings, reads them
 * fairly, identifies the processes that wrote them, and converts records to mrd_event. It has no
 * network: the agent passes the events to batches, `meridian inspect` to a local store.
 *
 * Units    Times of clock MRD_DRAIN_RAW are CLOCK_MONOTONIC_RAW of this node, also for processes in
 *          another time namespace. Runtime JSON has clock MRD_DRAIN_REALTIME. mrd_drain_to_raw and
 *          mrd_drain_raw_to_wall convert between them by recorded cross-reads.
 * Order    Events of one thread come roughly in the order of their ends. Sort them before use.
 * Counts   begun = events + dropped (by cause) + held is exact at any time (mrd_drain_counts). A
 *          loss that a ring reports is counted in dropped. It is also emitted as an event of kind
 *          MRD_LOSS, which itself is not counted.
 * Threads  A drain belongs to one thread, and starts none.
 * Memory   It uses 1 MiB of scratch, and per ring: dictionaries, names, open spans and incomplete
 *          texts. A user may use at most as much of options.memory as is still free.
 *
 * The whole loop of `meridian inspect`:
 *
 *     mrd_drain_open(&options, &p, why);           // event() pushes into a mrd_stream
 *     while (child runs)
 *         if (mrd_drain_step(p) == 0) wait 1 ms;   // drains every ring once, in turn
 *     mrd_drain_finish(p);                         // the rest, then unfinished spans
 *     mrd_drain_counts(p, &counts);
 *     mrd_drain_close(p);
 */
#ifndef MRD_AGENT_RINGS_DRAIN_H
#define MRD_AGENT_RINGS_DRAIN_H

#include "agent/guard/safe_open.h"
#include "agent/rings/rank_ops.h"
#include "base/loss_cause.h"
#include "hw/identity.h"
#include "proto/batch/batch.h" /* for mrd_cross_read */
#include "trace/model/catalog.h"

#define MRD_DRAIN_BLOB_MAX (64u << 20)
/* Maximum number of open rings, which are at most half of the files that this process may open. A
 * user may have at most as many rings as there are free slots. Further rings are counted and opened
 * later. */
#define MRD_DRAIN_RINGS_MAX 65536u
/* Time limit of one step. Each user with rings gets an equal share, and reads its rings in turn. */
#define MRD_DRAIN_TURN (10 * MRD_MS)

/* The drain's two clocks. The values are the same as in Mrd__ClockKind of proto/meridian.proto. */
enum { MRD_DRAIN_RAW = 0, MRD_DRAIN_REALTIME = 1 };

typedef struct {
    uint64_t begun;  /* events that the agent knows of, including open and lost ones */
    uint64_t events; /* events that event() accepted, without MRD_LOSS */
    uint64_t dropped[MRD_DROP_CAUSES];
    uint64_t held;       /* open spans: the start was read, but not the end */
    uint64_t losses;     /* MRD_LOSS events passed to event() */
    uint64_t records;    /* ring records that were read, including chunks of runtime JSON */
    uint64_t blob_bytes; /* bytes of runtime JSON in the records */
    /* open rings; totals of rings opened, found inconsistent, removed, with a false owner */
    uint64_t rings, rings_seen, rings_bad, rings_removed, rings_refused;
    /* number of files that are named like a ring but are no rings, or may not be read */
    uint64_t files_refused;
    uint64_t processes, processes_seen;
} mrd_drain_tally;

/* A process with known rings. */
typedef struct mrd_drain_process {
    /* catalog of the process's strings and tracks: the caller's catalog, or the process's own */
    mrd_catalog *catalog;
    mrd_proc_id id; /* id of the process in `catalog` */
    mrd_ident ident;
    /* the process ended and its last ring was drained; reported once, then the struct is freed */
    bool gone;
    /* The open spans of an exited process were certainly open until open_until, a time of the clock
     * open_until_clock. 0 means that the spans may still be open. */
    unsigned open_until_clock;
    mrd_ev_ns open_until;
    void *user; /* data of the caller; NULL at first */
} mrd_drain_process;

typedef struct {
    /* The caller's catalog, which receives the data of all processes. If NULL, each process gets
     * its own catalog, which is freed with the process. This bounds the memory of a daemon. */
    mrd_catalog *catalog;
    const char *instance_id; /* instance id (hw/identity.h) of this node */
    const char *job;         /* job of processes without a job of their own; may be NULL */
    const char *ring_dir;    /* directory of the node's rings; NULL means mrd_ring_dir() */
    const char *pod_dir;   /* directory in which the kubelet names its pods, or NULL; not copied */
    const char *proc_root; /* root of procfs; NULL means "/proc" */
    bool containers;       /* also search /proc/<pid>/root/dev/shm of other mount namespaces */
    bool exclusive;        /* wait while another agent of this user reads the directory */
    bool keep_rings;       /* do not unlink drained rings of dead processes */
    bool simulated;        /* mark processes and events as simulated */
    int64_t only_uid;      /* read only rings of this user; -1 means any user */
    /* If true, records may be overwritten only after mrd_drain_release, so that the next agent can
     * read them after a kill. If false, they may be overwritten after the step that read them. */
    bool hold;
    /* Only with hold: path of the file that saves open spans for a later agent of the same boot. If
     * NULL, open spans count as lost when this agent is killed. */
    const char *open_path, *boot_id;
    /* Only with open_path: if no ring of a process with spans in that file is found in this time,
     * the process counts as ended. 0 means 10 s. */
    mrd_dur_ns orphan_ns;
    uint32_t budget; /* maximum number of records per ring and step; 0 means 8192 */
    size_t memory;   /* maximum bytes of memory for rings; 0 means 256 MiB */
    /* Only with hold: returns the position up to which a previous agent made this ring durable, 0
     * if unknown. Earlier records are skipped. `ring` is a mrd_drain_ring_hash. May be NULL. */
    uint64_t (*resume)(void *self, uint64_t ring);
    /* Takes an event. Its arguments and texts are valid during the call. If this function returns
     * LIMIT or INVALID, the event is counted as MRD_DROP_LIMIT; after any other error as
     * MRD_DROP_MEMORY. A refused event of kind MRD_LOSS is not counted again. */
    mrd_err (*event)(void *self, mrd_drain_process *process, unsigned clock, const mrd_event *ev);
    /* May change the job in *ident before the process is reported. May be NULL. */
    void (*correct)(void *self, mrd_ident *ident);
    /* Reports that a process was found, or that it ended (process->gone is true). When it ended,
     * the caller must free process->user. May be NULL. */
    void (*process)(void *self, mrd_drain_process *process);
    /* Passes a notice of libmeridian in the workload, such as "cannot arm: ..." or an output
     * directory. The notice is also passed to event() as an instant. May be NULL. */
    void (*notice)(void *self, mrd_drain_process *process, const mrd_event *ev);
    /* Reports that a model was loaded or unloaded. `number` identifies the load in the process, *ev
     * has its arguments. The load is also passed to event() as a span. May be NULL. */
    void (*model)(void *self, mrd_drain_process *process, uint64_t number, bool load,
                  const mrd_event *ev);
    void *self;
} mrd_drain_options;

typedef struct mrd_drain mrd_drain;

/* Creates a drain. The ring directory need not exist yet. Errors: NOMEM. */
mrd_err mrd_drain_open(const mrd_drain_options *options, mrd_drain **ret_drain, mrd_why *why);
void mrd_drain_close(mrd_drain *drain); /* does not read the rest of the rings; ignores NULL */
/* Searches for rings if a search is due, then reads each ring once, up to options.budget records.
 * Returns the number of records read; never UINT64_MAX. */
uint64_t mrd_drain_step(mrd_drain *drain);
/* Reads until no ring has new records, and then emits the open spans as unfinished. Does not read
 * the rings that mrd_drain_hold_process has stopped. Rings of running processes stay open. */
void mrd_drain_finish(mrd_drain *drain);
/* Returns in how many nanoseconds the next step is due. 0 while rings have new records. */
int64_t mrd_drain_wait_ns(const mrd_drain *drain);
/* Only with hold: declares that all events of the process passed to event() are saved. The workload
 * may then overwrite their records. */
void mrd_drain_release(mrd_drain *drain, mrd_drain_process *process);
/* Only with hold: calls `call` for each ring that waits for release, with its read position. */
void mrd_drain_positions(const mrd_drain *drain, const mrd_drain_process *process,
                         void (*call)(void *self, uint64_t ring, uint64_t read), void *self);
/* Only with hold and open_path: appends the spans of the process that opened or ended to that file.
 * They are valid from the next commit on. Call this together with mrd_drain_positions. The commit
 * must contain mrd_drain_open_number (0 means no file) as the position MRD_DRAIN_OPEN_KEY. Report a
 * successful commit with mrd_drain_open_committed. Its argument `all` is true if the commit
 * included every process, which mrd_drain_open_wants_all requests. */
#define MRD_DRAIN_OPEN_KEY 0x6f70656e2d6c6f67u
void mrd_drain_note_open(mrd_drain *drain, mrd_drain_process *process);
bool mrd_drain_open_changed(const mrd_drain *drain); /* appended spans wait for a commit */
bool mrd_drain_open_news(const mrd_drain *drain, const mrd_drain_process *process);
uint64_t mrd_drain_open_number(const mrd_drain *drain);
bool mrd_drain_open_wants_all(const mrd_drain *drain);
void mrd_drain_open_committed(mrd_drain *drain, bool all);
/* Calls `call` for losses in the process's rings for which no loss event was emitted yet. Each loss
 * lies between `first` and `last` (RAW of the node). */
void mrd_drain_unreported(const mrd_drain *drain, const mrd_drain_process *process,
                          void (*call)(void *self, mrd_drop_cause cause, uint64_t n,
                                       mrd_local_ns first, mrd_local_ns last),
                          void *self);
/* Calls `call` for the open spans of the process: scopes, calls, spans that another record will
 * end, and starts in the runtime's trace. Each is passed as unfinished, with its start and an
 * argument in_flight with the text `at`. When the span ends, it is also emitted as complete. Two
 * kinds are left out: loaded models, because they are a state and not work, and spans that may have
 * a lost end. */
void mrd_drain_in_flight(mrd_drain *drain, mrd_drain_process *process, const char *at,
                         void (*call)(void *self, mrd_drain_process *process, unsigned clock,
                                      const mrd_event *ev),
                         void *self);
/* Only with hold: calls `call` for open starts in the runtime's trace that a later agent could not
 * read from the rings. Call this before the contents of a commit are collected. The events are like
 * those of mrd_drain_in_flight, but in_flight is "long". Each is passed once, and again after
 * mrd_drain_tell_again. If this agent is killed, they remain as unfinished spans. */
void mrd_drain_long_open(mrd_drain *drain, mrd_drain_process *process,
                         void (*call)(void *self, mrd_drain_process *process, unsigned clock,
                                      const mrd_event *ev),
                         void *self);
void mrd_drain_tell_again(mrd_drain *drain);
/* Gets the operations that the process enters together with other ranks, and the threads that do
 * so. The process may have ended. Returns why the counts are incomplete, "" if they are not. */
const char *mrd_drain_ops(const mrd_drain *drain, mrd_drain_process *process,
                          mrd_drain_ops_kept *ret_ops, mrd_drain_threads *ret_threads);
/* Returns the identity that the process's oldest ring claims, or its first ring if none is left. */
mrd_safe_open_claim mrd_drain_claim(const mrd_drain_process *process);
uint64_t mrd_drain_ring_hash(const char *file_name); /* returns a hash that identifies a ring */
/* Only with hold: returns the unread or unreleased part of the process's fullest ring, 0 .. 1. */
double mrd_drain_pressure(const mrd_drain *drain, const mrd_drain_process *process);
/* Returns true if this agent waits because another agent of this user reads the directory. */
bool mrd_drain_stands_back(const mrd_drain *drain);
/* Why an existing ring file is not read, according to the last searches (at most 16,384 files). */
typedef enum {
    MRD_UNREAD_BEYOND,     /* the file is beyond the limit of rings of this agent or of one user */
    MRD_UNREAD_HELD,       /* another agent reads the rings in this directory */
    MRD_UNREAD_OTHER_BOOT, /* the file is of an earlier boot, so no agent can read it */
    /* the file is not a ring, or must not be read; mrd_drain_say reports the reason */
    MRD_UNREAD_REFUSED,
    MRD_UNREAD_WHYS
} mrd_unread_why;
void mrd_drain_get_unread(const mrd_drain *drain, unsigned ret_n[MRD_UNREAD_WHYS]);
/* Returns true if rings were recently left unopened, because of a limit of all rings or a user. */
bool mrd_drain_leaves_out(const mrd_drain *drain);
bool mrd_drain_has_refused(const mrd_drain *drain); /* a file named like a ring */
void mrd_drain_counts(const mrd_drain *drain, mrd_drain_tally *ret_counts);
/* Returns an inotify descriptor that is readable when a ring may have appeared. Returns -1 without
 * inotify; mrd_drain_step then polls. */
int mrd_drain_fd(const mrd_drain *drain);
bool mrd_drain_has_runtime(const mrd_drain_process *process); /* its rings had runtime JSON */
/* Stops or resumes reading the rings of one process, or of all processes, including later ones.
 * Records stay in the rings. */
void mrd_drain_hold_process(mrd_drain *drain, mrd_drain_process *process, bool hold);
void mrd_drain_hold(mrd_drain *drain, bool hold);
bool mrd_drain_is_held(const mrd_drain *drain, const mrd_drain_process *process);
/* Sets whether a session wants events of the process. If no session does, the process's rings are
 * read only rarely, but before they are full. */
void mrd_drain_want_process(mrd_drain *drain, mrd_drain_process *process, bool want);
/* Returns true if no session wants events of the process and none of its rings has ended. */
bool mrd_drain_is_unwanted(const mrd_drain_process *process);
void mrd_drain_each(const mrd_drain *drain, void (*call)(void *self, mrd_drain_process *process),
                    void *self);
/* Makes glibc return freed memory to the system, so that the process stays within options.memory.
 * Call it once, at the start. */
void mrd_drain_memory_goes_back(void);
/* Passes to `say` one message for each kind of data that could not be read, such as "rings of 3
 * processes: permission denied". */
void mrd_drain_say(const mrd_drain *drain, void (*say)(void *self, const char *message),
                   void *self);

/* ---- Clocks of the node ---- */

/* Returns the recorded cross-reads, oldest first. A cross-read is one reading of both RAW and the
 * wall clock. Cross-reads are made at open, every 10 s, and before and after the wall clock
 * deviates from its previous rate. There are at most 1024; old ones are thinned out. The array is
 * valid until the next step. */
const mrd_cross_read *mrd_drain_crosses(const mrd_drain *drain, size_t *ret_n);
/* Calls `take` for the cross-reads that are needed to convert times from `since` on, oldest first.
 * These are the last four, and those before and after each step or rate change of the wall clock
 * since then. */
void mrd_drain_crosses_since(const mrd_drain *drain, mrd_local_ns since,
                             void (*take)(void *self, const mrd_cross_read *read), void *self);
/* Makes a cross-read now. Call it before a batch is closed. */
void mrd_drain_cross(mrd_drain *drain);
/* Converts REALTIME to RAW by the nearest cross-reads. The result saturates. */
mrd_local_ns mrd_drain_to_raw(const mrd_drain *drain, mrd_wall_ns wall);
/* Converts RAW to the wall clock. Always uses the difference between the clocks when the drain was
 * opened, so that later steps of the wall clock do not distort the output. */
mrd_wall_ns mrd_drain_raw_to_wall(const mrd_drain *drain, mrd_local_ns raw);

#endif
