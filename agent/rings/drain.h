/*
 * agent/rings/drain.h - makes events from the rings of this node: finds rings, drains them fairly,
 * identifies the processes that wrote them, and turns records into mrd_event. No network: the agent
 * passes the events to batches, `meridian inspect` to a local store.
 *
 * Units    ts_ns of clock MRD_DRAIN_RAW is CLOCK_MONOTONIC_RAW of this node. Times of a process in
 *          another time namespace are shifted. Runtime JSON has clock MRD_DRAIN_REALTIME.
 *          mrd_drain_to_raw and mrd_drain_raw_to_wall convert by recorded cross-reads.
 * Order    events of one thread come roughly in the order of their ends; sort before use.
 * Counts   begun = events + dropped (by cause) + held, exact at any time (mrd_drain_counts). A loss
 *          that a ring reports is counted in dropped and also emitted as an event of kind MRD_LOSS,
 *          which itself is not counted.
 * Threads  a drain belongs to one thread, and starts none.
 * Memory   1 MiB of scratch, and per ring: dictionaries, names, open spans, incomplete texts. A
 *          user may use the part of options.memory that other users leave free
 *          (agent/rings/ring_memory.h).
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
#include "proto/batch/batch.h" /* mrd_cross_read */
#include "trace/model/catalog.h"

#define MRD_DRAIN_BLOB_MAX (64u << 20)
/* Maximum number of open rings; also at most half of the allowed open files. A user may use all
 * slots that other users leave free. Further rings wait, and are counted. */
#define MRD_DRAIN_RINGS_MAX 65536u
#define MRD_DRAIN_TURN      (10 * MRD_MS) /* of a step, shared by users, then by their rings */

/* Same values as Mrd__ClockKind of proto/meridian.proto. */
enum { MRD_DRAIN_RAW = 0, MRD_DRAIN_REALTIME = 1 };

typedef struct {
    uint64_t begun;  /* events the agent knows of, including losses */
    uint64_t events; /* passed to event() and accepted, without MRD_LOSS */
    uint64_t dropped[MRD_DROP_CAUSES];
    uint64_t held;       /* begun without an end yet */
    uint64_t losses;     /* MRD_LOSS events given */
    uint64_t records;    /* ring records read, including blob chunks */
    uint64_t blob_bytes; /* of runtime JSON */
    uint64_t rings, rings_seen, rings_bad, rings_removed, rings_refused; /* now; ever ... */
    uint64_t files_refused; /* up to now: named like rings, but no rings, or not to be read */
    uint64_t processes, processes_seen;
} mrd_drain_tally;

/* A process with known rings. */
typedef struct mrd_drain_process {
    mrd_catalog *catalog; /* the caller's, or the process's own */
    mrd_proc_id id;       /* in that catalog */
    mrd_ident ident;
    bool gone; /* its last ring was drained; reported once, then the struct is freed */
    /* Time of that clock until which its unfinished spans were certainly open; 0 means that they
     * may still be open. */
    unsigned open_until_clock;
    mrd_ev_ns open_until;
    void *user; /* the caller's; NULL at first */
} mrd_drain_process;

typedef struct {
    /* The caller's catalog, filled with processes, tracks, names and notes of all. NULL: each
     * process gets a catalog that is freed with it, which bounds the memory of a daemon. */
    mrd_catalog *catalog;
    const char *instance_id; /* of this node */
    const char *job;         /* for processes without a job of their own; NULL */
    const char *ring_dir;    /* NULL: mrd_ring_dir() */
    const char *pod_dir;     /* where the kubelet names its pods, or NULL; not copied */
    const char *proc_root;   /* NULL: "/proc" */
    bool containers;         /* also search /proc/<pid>/root/dev/shm of other mount namespaces */
    bool exclusive;          /* wait while another agent of this user reads the directory */
    bool keep_rings;         /* do not unlink drained rings of dead processes */
    bool simulated;          /* mark processes and events as simulated */
    int64_t only_uid;        /* rings of this user only; -1 means any */
    /* The workload may overwrite records after mrd_drain_release (true), so that the successor of a
     * killed reader finds the records that were not durable, or after the step (false). */
    bool hold;
    /* With hold: the file that keeps open spans for a successor of the same boot. NULL means that
     * they count as lost if this reader is killed. */
    const char *open_path, *boot_id;
    mrd_dur_ns orphan_ns; /* time for finding rings of such a span's process; 0 means 10 s */
    uint32_t budget;      /* records per ring and step; 0 means 8192 */
    size_t memory;        /* maximum bytes of memory for rings; 0 means 256 MiB */
    /* With hold: returns how far a predecessor made this ring's records durable, 0 if unknown.
     * Earlier records are skipped. `ring` is mrd_drain_ring_hash. May be NULL. */
    uint64_t (*resume)(void *self, uint64_t ring);
    /* Takes an event. args and text are valid during the call. LIMIT and INVALID are counted as
     * MRD_DROP_LIMIT, any other error as MRD_DROP_MEMORY. A MRD_LOSS that is refused is already
     * counted. */
    mrd_err (*event)(void *self, mrd_drain_process *process, unsigned clock, const mrd_event *ev);
    /* May correct the job of a process before the process is reported; may be NULL. */
    void (*correct)(void *self, mrd_ident *ident);
    /* A process was found, or ended (free the data of `user`); may be NULL. */
    void (*process)(void *self, mrd_drain_process *process);
    /* A notice of the workload ("cannot arm: ...", an output directory). It is also passed to
     * event() as an instant. May be NULL. */
    void (*notice)(void *self, mrd_drain_process *process, const mrd_event *ev);
    /* A model was loaded or unloaded. `number` identifies the load in its process, *ev has its
     * arguments. It is also passed to event(), as a span. May be NULL. */
    void (*model)(void *self, mrd_drain_process *process, uint64_t number, bool load,
                  const mrd_event *ev);
    void *self;
} mrd_drain_options;

typedef struct mrd_drain mrd_drain;

/* The ring directory need not exist yet. Errors: NOMEM. */
mrd_err mrd_drain_open(const mrd_drain_options *options, mrd_drain **ret_drain, mrd_why *why);
void mrd_drain_close(mrd_drain *drain); /* drains nothing; NULL is fine */
/* Searches for rings if that is due, then reads each ring once, up to its budget. Returns the
 * number of records read; never UINT64_MAX. */
uint64_t mrd_drain_step(mrd_drain *drain);
/* Reads until no ring that is not held has new records, then emits the open spans as unfinished.
 * Rings of living owners stay. */
void mrd_drain_finish(mrd_drain *drain);
/* Returns the nanoseconds until the next step is worth its cost, 0 while rings have new records. */
int64_t mrd_drain_wait_ns(const mrd_drain *drain);
/* With hold: all events of this process that were passed to event() are durable. */
void mrd_drain_release(mrd_drain *drain, mrd_drain_process *process);
/* With hold: calls back for each ring that waits for release, with its read position. */
void mrd_drain_positions(const mrd_drain *drain, const mrd_drain_process *process,
                         void (*call)(void *self, uint64_t ring, uint64_t read), void *self);
/* With hold and open_path: appends the opened and ended spans of the process to that file. They
 * count there from the next commit on. Call it together with mrd_drain_positions. A commit contains
 * the number of the file as the position MRD_DRAIN_OPEN_KEY (0 means no file), and its success is
 * reported. `all`: every process was included, which wants_all requests periodically. */
#define MRD_DRAIN_OPEN_KEY 0x6f70656e2d6c6f67u
void mrd_drain_note_open(mrd_drain *drain, mrd_drain_process *process);
bool mrd_drain_open_changed(const mrd_drain *drain); /* changes wait for the next commit */
bool mrd_drain_open_news(const mrd_drain *drain, const mrd_drain_process *process);
uint64_t mrd_drain_open_number(const mrd_drain *drain);
bool mrd_drain_open_wants_all(const mrd_drain *drain);
void mrd_drain_open_committed(mrd_drain *drain, bool all);
/* Calls back for losses of the process's rings that no event reports yet, each with its gap (RAW of
 * the node). */
void mrd_drain_unreported(const mrd_drain *drain, const mrd_drain_process *process,
                          void (*call)(void *self, mrd_drop_cause cause, uint64_t n,
                                       mrd_local_ns first, mrd_local_ns last),
                          void *self);
/* Calls back for the open spans of the process: scopes and calls, spans with a pending end, and
 * starts of the runtime. Each is passed as an unfinished span with its start and the argument
 * in_flight with the value `at`. Each is emitted again when it ends. Not included: loaded models (a
 * state, not work), and spans that may have their end among lost events. */
void mrd_drain_in_flight(mrd_drain *drain, mrd_drain_process *process, const char *at,
                         void (*call)(void *self, mrd_drain_process *process, unsigned clock,
                                      const mrd_event *ev),
                         void *self);
/* With hold, before a commit's contents are requested, passes starts of the runtime's trace with
 * texts that a successor cannot read again, in the form of mrd_drain_in_flight (in_flight: "long").
 * Each is passed once, and once more after mrd_drain_tell_again. If this reader is killed, they
 * remain as unfinished spans. */
void mrd_drain_long_open(mrd_drain *drain, mrd_drain_process *process,
                         void (*call)(void *self, mrd_drain_process *process, unsigned clock,
                                      const mrd_event *ev),
                         void *self);
void mrd_drain_tell_again(mrd_drain *drain);
/* Gets the operations of the process, also when it has ended, and returns their number. *ret_lost
 * is "" or why the counts are incomplete. *ret_partial: operations that were entered long ago may be
 * missing. */
size_t mrd_drain_ops(const mrd_drain *drain, mrd_drain_process *process,
                     mrd_drain_op ret_ops[MRD_DRAIN_OPS], const char **ret_lost, bool *ret_partial);
/* Returns the claim of the process's oldest ring, or of its first ring if none remains. */
mrd_safe_open_claim mrd_drain_claim(const mrd_drain_process *process);
/* Returns the hash of a ring's file name. */
uint64_t mrd_drain_ring_hash(const char *file_name);
/* With hold: returns the unread and unreleased part of the process's fullest ring, 0 .. 1. */
double mrd_drain_pressure(const mrd_drain *drain, const mrd_drain_process *process);
/* Returns true if another agent of this user reads the directory, so that this one does not. */
bool mrd_drain_stands_back(const mrd_drain *drain);
/* Ring files that exist and are not read, according to the last searches (at most 16,384). */
typedef enum {
    MRD_UNREAD_BEYOND,     /* more than one agent, or one user next to others, may have open */
    MRD_UNREAD_HELD,       /* another agent reads them */
    MRD_UNREAD_OTHER_BOOT, /* of another boot, which no agent can read */
    MRD_UNREAD_REFUSED,    /* not a ring, or must not be read: drain_say has the reason */
    MRD_UNREAD_WHYS
} mrd_unread_why;
void mrd_drain_get_unread(const mrd_drain *drain, unsigned ret_n[MRD_UNREAD_WHYS]);
/* Returns true if rings were left unopened recently, by the limit of all or of their user. */
bool mrd_drain_leaves_out(const mrd_drain *drain);
/* Returns true if a file with the name of a ring was ever refused. */
bool mrd_drain_has_refused(const mrd_drain *drain);
void mrd_drain_counts(const mrd_drain *drain, mrd_drain_tally *ret_counts);
/* Readable when a ring may have appeared; -1 without inotify (then step polls). */
int mrd_drain_fd(const mrd_drain *drain);
/* Returns true if rings of this process contained runtime JSON. */
bool mrd_drain_has_runtime(const mrd_drain_process *process);
/* Stops or resumes reading the process's rings. Records stay in the rings. */
void mrd_drain_hold_process(mrd_drain *drain, mrd_drain_process *process, bool hold);
/* The same for all processes, including processes that are found later. */
void mrd_drain_hold(mrd_drain *drain, bool hold);
/* Calls back for each known process. */
void mrd_drain_each(const mrd_drain *drain, void (*call)(void *self, mrd_drain_process *process),
                    void *self);
/* Makes glibc return freed memory to the system, so that the process stays within options.memory.
 * Call it once, at the start. */
void mrd_drain_memory_goes_back(void);
/* Reports data that could not be read, in messages ("rings of 3 processes: permission denied"). */
void mrd_drain_say(const mrd_drain *drain, void (*say)(void *self, const char *message),
                   void *self);

/* ---- Clocks of the node ---- */

/* Returns the cross-reads up to now, oldest first: at open, every 10 s, and before and after a
 * deviation of the wall clock from its previous line. Borrowed until the next step. At most 1024;
 * the oldest are thinned out. */
const mrd_cross_read *mrd_drain_crosses(const mrd_drain *drain, size_t *ret_n);
/* Gets the cross-reads that a batch with stamps from `since` on needs, oldest first. These are the
 * last four, and both sides of each later step or rate change of the wall clock. */
void mrd_drain_crosses_since(const mrd_drain *drain, mrd_local_ns since,
                             void (*take)(void *self, const mrd_cross_read *read), void *self);
/* Makes a cross-read now (before a batch is closed). */
void mrd_drain_cross(mrd_drain *drain);
/* Converts REALTIME to RAW by the nearest cross-reads; saturates. */
mrd_local_ns mrd_drain_to_raw(const mrd_drain *drain, mrd_wall_ns wall);
/* Converts RAW to the wall clock as it was at open. The difference is constant, so that steps of
 * the wall clock do not distort the output. */
mrd_wall_ns mrd_drain_raw_to_wall(const mrd_drain *drain, mrd_local_ns raw);

#endif
