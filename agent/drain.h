/*
 * agent/drain.h - from the rings of this node to events: finds rings, drains them fairly,
 * resolves who wrote them, turns records into mrd_event. No network: the agent puts batches behind
 * it, `meridian inspect` a local store.
 *
 * Units    ts_ns of clock MRD_DRAIN_RAW is CLOCK_MONOTONIC_RAW of this node (a process in another
 *          time namespace is shifted back). Runtime JSON comes in MRD_DRAIN_REALTIME;
 *          mrd_drain_to_raw and mrd_drain_raw_to_wall relate the two by recorded cross-reads.
 * Order    events of one thread come nearly in order of their ends; sort before use.
 * Counts   begun = events + dropped(by cause) + held, exact at every moment (mrd_drain_counts).
 *          A loss that a ring reports is both counted in dropped and given as an event of kind
 *          MRD_LOSS, which itself is not counted.
 * Threads  a drain belongs to one thread; it starts none.
 * Memory   1 MiB of scratch, and what is kept of rings: dictionaries, names, open spans, texts under way.
 *          A user gets of options.memory what is left free for others (agent/ring_memory.h).
 *
 * `meridian inspect`, whole:
 *
 *     mrd_drain_open(&options, &p, why);           // event() pushes into a mrd_stream
 *     while (child runs)
 *         if (mrd_drain_step(p) == 0) wait 1 ms;   // drains every ring once, in turn
 *     mrd_drain_finish(p);                         // what is left, then unfinished spans
 *     mrd_drain_counts(p, &counts);
 *     mrd_drain_close(p);
 */
#ifndef MRD_AGENT_DRAIN_H
#define MRD_AGENT_DRAIN_H

#include "agent/owned.h"
#include "hw/identity.h"
#include "proto/batch.h" /* mrd_cross_read */
#include "trace/model/catalog.h"

#define MRD_DRAIN_BLOB_MAX (64u << 20)
/* Rings read at one time, and half of the open files allowed; a user may have as many as are left
 * for others. More wait, and are counted. */
#define MRD_DRAIN_RINGS_MAX 65536u
#define MRD_DRAIN_TURN      (10 * MRD_MS) /* of a step: shared by users, then by their rings */

/* Same values as Mrd__ClockKind of proto/meridian.proto. */
enum { MRD_DRAIN_RAW = 0, MRD_DRAIN_REALTIME = 1 };

/* Why events were lost, as counted and as the name of the MRD_LOSS event. */
typedef enum {
    MRD_DROP_RING_FULL, /* the workload's ring was full */
    MRD_DROP_RING_BIG,  /* larger than a record may be */
    MRD_DROP_RING_OTHER, /* nested in a signal handler, no ring, dictionary full, switched off, too much open */
    MRD_DROP_BLOB,     /* runtime JSON cut short (counts chunks: what was inside is not known) */
    MRD_DROP_JSON,     /* runtime JSON that is no event */
    MRD_DROP_BAD_RING, /* a ring that contradicts itself: its counted losses; bytes are unknown */
    MRD_DROP_LIMIT, /* more open spans, arguments or text than allowed; refused by the receiver as such */
    MRD_DROP_MEMORY,   /* no memory, or another error of the receiver */
    MRD_DROP_SPOOL,    /* forced out of memory and spool, oldest first */
    MRD_DROP_REFUSED,  /* the aggregator will never store it */
    MRD_DROP_UNSENT,   /* no session wanted it */
    MRD_DROP_WINDOW,   /* a flight recorder kept it until newer ones needed the room or the time */
    MRD_DROP_RESTART,  /* in the memory of a flight recorder when the agent was killed */
    MRD_DROP_RUNTIME,  /* the runtime's own ring overwrote it: its numbers show the gap */
    MRD_DROP_RECORDER, /* of a window: forced out of a recorder before the window was asked for */
    MRD_DROP_DAMAGED, /* in a part of the spool that others cut or removed; in no session's notes */
    MRD_DROP_LATE,    /* read before the node knew of the session, which had begun */
    MRD_DROP_CAUSES
} mrd_drop_cause;

const char *mrd_drop_text(mrd_drop_cause cause); /* "ring-full", ... static */

typedef struct {
    uint64_t begun;  /* events the agent learned of, losses included */
    uint64_t events; /* handed to event() and accepted; no MRD_LOSS among them */
    uint64_t dropped[MRD_DROP_CAUSES];
    uint64_t held;       /* begun, their end not seen yet */
    uint64_t losses;     /* MRD_LOSS events given */
    uint64_t records;    /* ring records read, blob chunks included */
    uint64_t blob_bytes; /* of runtime JSON */
    uint64_t rings, rings_seen, rings_bad, rings_removed, rings_refused; /* now; ever ... */
    uint64_t files_refused; /* ever: files of a ring's name that are no ring, or not to be read */
    uint64_t processes, processes_seen;
} mrd_drain_tally;

/* A process as long as rings of it are known. */
typedef struct mrd_drain_process {
    mrd_catalog *catalog; /* the caller's, or the process's own */
    mrd_proc_id id;       /* in that catalog */
    mrd_ident ident;
    bool gone; /* the last ring of it was drained; said once, then the struct is freed */
    /* Until when an unfinished span of it is known to have been open, in the times of that clock;
     * 0: it may still be. */
    unsigned open_until_clock;
    mrd_ev_ns open_until;
    void *user; /* the caller's; NULL at first */
} mrd_drain_process;

typedef struct {
    /* The caller's, filled with processes, tracks, names and notes of all; NULL: each process gets
     * one of its own that goes with it, which bounds the memory of a daemon. */
    mrd_catalog *catalog;
    const char *instance_id; /* of this node */
    const char *job;         /* for processes that do not say theirs; NULL */
    const char *ring_dir;    /* NULL: mrd_ring_dir() */
    const char *pod_dir;     /* in which the kubelet names its pods, or NULL; not copied */
    const char *proc_root;   /* NULL: "/proc" */
    bool containers;         /* also look into /proc/<pid>/root/dev/shm of other mount namespaces */
    bool exclusive;          /* one reader of a user for the folder: stand back behind another */
    bool keep_rings;         /* do not unlink drained rings of dead processes */
    bool simulated;          /* mark processes and events as simulated */
    int64_t only_uid;        /* rings of this user only; -1 any */
    /*
     * false: the workload may overwrite what a step has read as soon as the step returns.
     * true: only after mrd_drain_release, so that a killed reader's successor finds everything
     * again that was not yet safe elsewhere.
     */
    bool hold;
    /* With hold: the file in which spans that have begun and not ended are kept for a successor of
     * the same boot; NULL: they are counted as lost if this reader dies. */
    const char *open_path, *boot_id;
    mrd_dur_ns orphan_ns; /* in which the rings of such a span's process turn up; 0: 10 s */
    uint32_t budget;      /* records per ring and step; 0: 8192 */
    size_t memory;        /* most that is kept of rings, bytes; 0: 256 MiB */
    /* With hold: how far a predecessor has made this ring's records safe, 0: not told; what lies
     * before is skipped. ring: mrd_drain_ring_hash. May be NULL. */
    uint64_t (*resume)(void *self, uint64_t ring);
    /* Takes an event; args and text live during the call. LIMIT and INVALID are counted as MRD_DROP_LIMIT,
     * any other error as MRD_DROP_MEMORY; a MRD_LOSS that is not taken is counted already. */
    mrd_err (*event)(void *self, mrd_drain_process *process, unsigned clock, const mrd_event *ev);
    /* May correct what a process says of its job, before anything else is told of it; may be NULL. */
    void (*correct)(void *self, mrd_ident *ident);
    /* Seen first, or gone (free what hangs on user); may be NULL. */
    void (*process)(void *self, mrd_drain_process *process);
    /* A notice of the workload ("cannot arm: ...", an output directory); it is also given to event
     * as an instant. May be NULL. */
    void (*notice)(void *self, mrd_drain_process *process, const mrd_event *ev);
    /* A model was loaded or unloaded: `number` of the load in its process, its arguments in *ev. It is
     * also given to event, as a span. May be NULL. */
    void (*model)(void *self, mrd_drain_process *process, uint64_t number, bool load,
                  const mrd_event *ev);
    void *self;
} mrd_drain_options;

typedef struct mrd_drain mrd_drain;

/* The ring directory need not exist yet. Errors: NOMEM. */
mrd_err mrd_drain_open(const mrd_drain_options *options, mrd_drain **ret_drain, mrd_why *why);
void mrd_drain_close(mrd_drain *p); /* drains nothing; NULL is fine */
/* Looks for rings when it is time, then reads each ring once, at most its budget. Returns the
 * records read; UINT64_MAX never. */
uint64_t mrd_drain_step(mrd_drain *p);
/* Until nothing new comes from any ring that is not held, then gives the open spans as unfinished.
 * Rings whose owner is alive stay where they are. */
void mrd_drain_finish(mrd_drain *p);
/* Nanoseconds until the next step is worth its cost, 0 while rings bring news. */
int64_t mrd_drain_wait_ns(const mrd_drain *p);
/* With hold: everything of this process that was given to event() is safe. */
void mrd_drain_release(mrd_drain *p, mrd_drain_process *process);
/* With hold: calls each ring of the process that waits for release with how far it was read. */
void mrd_drain_positions(const mrd_drain *p, const mrd_drain_process *process,
                         void (*call)(void *self, uint64_t ring, uint64_t read), void *self);
/* With hold and open_path: writes what opened and ended of the process into that file, where it counts
 * from the next commit on; to be called together with mrd_drain_positions. A commit holds, as the
 * position MRD_DRAIN_OPEN_KEY, the number (0: there is no such file), and is told when it succeeded;
 * all: every process had its part in it, which wants_all asks for now and then. */
#define MRD_DRAIN_OPEN_KEY 0x6f70656e2d6c6f67u
void mrd_drain_note_open(mrd_drain *p, mrd_drain_process *process);
bool mrd_drain_open_changed(const mrd_drain *p); /* something waits for the next commit */
bool mrd_drain_open_news(const mrd_drain *p, const mrd_drain_process *process);
uint64_t mrd_drain_open_number(const mrd_drain *p);
bool mrd_drain_open_wants_all(const mrd_drain *p);
void mrd_drain_open_committed(mrd_drain *p, bool all);
/* Losses of the process's rings that no event tells yet, each with its gap (RAW of the node). */
void mrd_drain_unreported(const mrd_drain *p, const mrd_drain_process *process,
                          void (*call)(void *self, mrd_drop_cause cause, uint64_t n,
                                       mrd_local_ns first, mrd_local_ns last),
                          void *self);
/*
 * What the process is inside of now: scopes and calls, spans whose end is to come, what the runtime has
 * begun. Each as an unfinished span with its start, whenever that was, and the argument in_flight with
 * the value `at`; each comes once more when it ends. Left out: loaded models (a state, not work), and
 * whose end may be among lost events.
 */
void mrd_drain_in_flight(mrd_drain *p, mrd_drain_process *process, const char *at,
                         void (*call)(void *self, mrd_drain_process *process, unsigned clock,
                                      const mrd_event *ev),
                         void *self);
/*
 * With hold, before what a commit says is asked for: starts of the runtime's trace whose texts a successor will
 * not find again, as mrd_drain_in_flight gives them (in_flight: "long"), once each, and from
 * mrd_drain_tell_again on once more. If this reader is killed they are there as what they are.
 */
void mrd_drain_long_open(mrd_drain *p, mrd_drain_process *process,
                         void (*call)(void *self, mrd_drain_process *process, unsigned clock,
                                      const mrd_event *ev),
                         void *self);
void mrd_drain_tell_again(mrd_drain *p);
/* Whose the process is: its oldest ring, or its first when none is left. */
mrd_owned_claim mrd_drain_claim(const mrd_drain_process *process);
/* Names a ring by its file's name. */
uint64_t mrd_drain_ring_hash(const char *file_name);
/* With hold: how full the fullest ring of this process is, unread and unreleased, 0 .. 1. */
double mrd_drain_pressure(const mrd_drain *p, const mrd_drain_process *process);
/* Another agent of this user reads the folder: no ring of it is opened here. */
bool mrd_drain_stands_back(const mrd_drain *p);
/* Ring files that are there and not read, as far as the last looks met them (at most 16,384). */
typedef enum {
    MRD_UNREAD_BEYOND,     /* more than one agent, or a user beside others, may have open */
    MRD_UNREAD_HELD,       /* another agent reads them */
    MRD_UNREAD_OTHER_BOOT, /* of another boot: nobody can */
    MRD_UNREAD_REFUSED,    /* no ring, or one that must not be read: drain_say has the reason */
    MRD_UNREAD_WHYS
} mrd_unread_why;
void mrd_drain_get_unread(const mrd_drain *p, unsigned ret_n[MRD_UNREAD_WHYS]);
/* Rings were left unopened a moment ago, by the bound of all or of their user: nothing of them is read. */
bool mrd_drain_leaves_out(const mrd_drain *p);
/* Files with the name of a ring were refused, ever. */
bool mrd_drain_has_refused(const mrd_drain *p);
void mrd_drain_counts(const mrd_drain *p, mrd_drain_tally *ret_counts);
/* Readable when a ring may have appeared; -1 without inotify (then step polls by itself). */
int mrd_drain_fd(const mrd_drain *p);
/* True when runtime JSON came through rings of this process. */
bool mrd_drain_has_runtime(const mrd_drain_process *process);
/* Its rings are not read until it is let go: what they hold stays in them. */
void mrd_drain_hold_process(mrd_drain *p, mrd_drain_process *process, bool hold);
/* The same of all, those that are found later included. */
void mrd_drain_hold(mrd_drain *p, bool hold);
/* Calls each process now known. */
void mrd_drain_each(const mrd_drain *p, void (*call)(void *self, mrd_drain_process *process),
                    void *self);
/* Makes freed memory go back to the system, where glibc keeps blocks of up to 32 MiB and the process
 * would hold more than options.memory. Called once, at the start of a process that drains. */
void mrd_drain_memory_goes_back(void);
/* What this reader could not see, in messages ("rings of 3 processes: permission denied"). */
void mrd_drain_say(const mrd_drain *p, void (*say)(void *self, const char *message), void *self);

/* ---- Clocks of the node ---- */

/* The cross-reads taken so far (at open, every 10 s, and before and behind where the wall clock left
 * the line of those before), oldest first; borrowed until the next step. At most 1024, thinned from
 * the oldest. */
const mrd_cross_read *mrd_drain_crosses(const mrd_drain *p, size_t *ret_n);
/* Gives those that a batch with stamps from `since` on needs, oldest first: the last four, and
 * since then both sides of where the wall clock was set or changed its rate. */
void mrd_drain_crosses_since(const mrd_drain *p, mrd_local_ns since,
                             void (*take)(void *self, const mrd_cross_read *read), void *self);
/* Takes one now (before a batch is closed). */
void mrd_drain_cross(mrd_drain *p);
/* REALTIME to RAW by the nearest cross-reads; saturates. */
mrd_local_ns mrd_drain_to_raw(const mrd_drain *p, mrd_wall_ns wall);
/* RAW to the wall clock as it stood at open: one constant, so that steps of the wall clock do not
 * tear the picture. */
mrd_wall_ns mrd_drain_raw_to_wall(const mrd_drain *p, mrd_local_ns raw);

#endif
