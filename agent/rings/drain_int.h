/* agent/rings/drain_int.h - internals of the drain (agent/rings/drain.h): its structs, and the
 * functions that its sources call in each other. */
#ifndef MRD_AGENT_RINGS_DRAIN_INT_H
#define MRD_AGENT_RINGS_DRAIN_INT_H

#include "agent/rings/discover.h"
#include "agent/rings/drain.h"
#include "agent/rings/open_spans.h"
#include "agent/rings/ring_map.h"
#include "base/index.h"
#include "capture/ring/ring_read.h"
#include "trace/json/args.h"

typedef struct proc proc;

typedef struct {
    int32_t tid;
    uint32_t track;
    uint32_t source; /* mrd_source_kind, and how the track is made (ring_tracks.h) */
    uint32_t name;   /* dictionary id of the name, for counters without a track */
    mrd_track_id id;
    bool used;
} ring_track;

typedef struct {
    uint8_t *p;
    size_t len, cap;
    uint64_t pos; /* position in the ring of the text's first chunk */
    uint32_t number;
    bool open, apart;
    int32_t tid; /* thread that wrote the text's last chunk, at time `at`; 0 if no chunk was read */
    mrd_local_ns at;
} blob;

/* A runtime JSON text in a ring that a later agent needs (agent/rings/text_checkpoint.c). */
typedef struct {
    uint64_t mark, pos;
} ring_text;

typedef struct ring {
    mrd_ring_reader *reader;
    mrd_ring_map map;
    /* when the ring last had records (0 means long ago), and when it is to be polled next */
    mrd_local_ns read_at, poll_at;
    unsigned dir;
    char file_name[MRD_RING_NAME_MAX];
    uint64_t device, inode;
    proc *proc;
    struct ring *next_of_proc;
    size_t at;     /* index of this ring in mrd_drain.rings */
    unsigned user; /* index of the ring's user in mrd_drain.users */
    /* maps the ring's dictionary ids to ids in the process's catalog */
    mrd_sid *names;
    uint32_t n_names;
    ring_track *tracks;
    size_t n_tracks, cap_tracks;
    mrd_index by_line;        /* finds a track in the array `tracks` */
    ring_track last_track[2]; /* the last used tracks: [0] for spans and others, [1] for counters */
    blob blob;
    mrd_dur_ns poll_ns; /* poll interval, which grows while the ring has no records */
    bool ended;         /* the END record was read; the ring waits for release and removal */
    bool waits;         /* with options.hold: some events of the ring were not released yet */
    bool caught_up;     /* no records were left at the last read of the ring */
    size_t charged;     /* memory charged to the ring's user, in bytes; see ring_memory.h */
    uint64_t safe;      /* a previous agent processed all records before this position */
    uint64_t gaps_safe; /* a previous agent reported all sequence gaps before this position */
    uint64_t given_back;
    ring_text *texts;
    size_t n_texts, cap_texts;
} ring;

typedef struct ring_note ring_note; /* notes of losses of a process, see ring_notes.c */

/* A user with open rings. Each user gets an equal share of the rings and of the time of a step. */
typedef struct {
    uint32_t uid;
    size_t rings;        /* number of the user's open rings; 0 means that the slot is free */
    size_t bytes;        /* memory used for the user's rings, in bytes (ring_memory.h) */
    mrd_dur_ns spent_ns; /* time spent on the user's rings in this step */
} ring_user;

/* A ring file that is not read (unread.c). The drain keeps a table with MRD_DRAIN_UNREAD slots. */
#define MRD_DRAIN_UNREAD 16384u
typedef struct {
    uint64_t key; /* hash of the directory and the file name; 0 means that the slot is free */
    mrd_local_ns met_at;
    mrd_unread_why why;
} unread_ring;

struct proc {
    mrd_drain_process pub; /* must be the first member, because pointers to pub are cast to proc */
    proc *next;
    ring *rings;
    size_t n_rings, n_notes;
    uint64_t start_ticks;
    mrd_safe_open_claim first; /* the claim in the first ring of the process */
    uint32_t uid; /* user of the process; if the process exited, owner of its first ring file */
    uint64_t flow_scope;
    mrd_sid seq_key; /* catalog id of the argument key "seq"; MRD_SID_EMPTY means not set yet */
    mrd_local_ns active_at; /* when one of its rings last had records */
    bool seen_alive;        /* this agent saw the process running */
    mrd_local_ns newest;    /* latest time (RAW) in its completely read rings */
    uint64_t n_left;        /* counts spans that were open at the exit of their owner */
    uint64_t left_given;
    mrd_dur_ns shift_ns; /* added to a time of the process's RAW clock to get the agent's */
    mrd_open_spans open;
    uint64_t log_key;          /* key of the process in open_log.c, the same in a later agent */
    uint64_t reported_unsaved; /* open spans not in the log, as written to its first ring */
    uint64_t lost;             /* number of lost events that the process's rings reported */
    void *nrt;                 /* reader of the runtime's JSON, created on first use */
    char settings[MRD_RING_NAME_MAX]; /* name of its settings file; "" means not looked up yet */
    char control[MRD_RING_NAME_MAX];  /* name of its control file; "" means not looked up yet */
    unsigned control_dir;
    bool held, unwanted;    /* set by mrd_drain_hold_process and mrd_drain_want_process */
    mrd_drain_ops_kept ops; /* operations from rings of the process that were already removed */
};

typedef struct mrd_open_log mrd_open_log;

struct mrd_drain {
    mrd_drain_options o;
    mrd_open_log *log; /* NULL means that open spans are not saved for the next agent */
    char *instance_id, *job, *proc_root;
    mrd_discover *discover;
    ring **rings;
    size_t n_rings, cap_rings, turn;
    size_t rings_max, bytes; /* `bytes` is the memory used for all rings (ring_memory.h) */
    mrd_index by_name;       /* finds a ring by its directory and file name */
    ring_user *users;
    unsigned n_users, users_now; /* allocated slots of `users`, and slots in use */
    size_t rings_beyond;         /* rings that were found, but not opened because of a limit */
    mrd_local_ns beyond_at;      /* when rings_beyond was last increased */
    unread_ring unread[MRD_DRAIN_UNREAD];
    ring_note **notes;
    size_t n_notes, cap_notes;
    proc *procs;
    mrd_drain_tally counts;
    mrd_args *args;
    mrd_catalog *args_catalog; /* the catalog with the strings of `args` */
    uint64_t text_mark;
    bool again;           /* the current records were already processed by a previous agent */
    bool more, held;      /* the last step used up its budget; mrd_drain_hold stopped reading */
    mrd_dur_ns timens_ns; /* time namespace offset of this agent */
    uint64_t pid_ns;      /* inode of the agent's pid namespace */
    char *ring_dir;
    int lock_fd;                    /* lock of the ring directory; -1 means none */
    mrd_local_ns lock_at, swept_at; /* next attempt to lock, last call of mrd_drain_sweep */
    bool stands_back;
    uint32_t *owners;       /* user of each pid, as uid + 1; 0 means not verified yet */
    unsigned foreign_uid;   /* number of rings that belong to another user than their process */
    char first_bad[256];    /* why the first inconsistent ring was retired */
    char last_refused[768]; /* path and reason of the last refused file */
    mrd_cross_read *crosses;
    bool *cross_departs; /* per cross-read: true around a deviation of the wall clock */
    size_t n_crosses;
    mrd_cross_read cross_look; /* the last reading of the clocks, even if not recorded */
    mrd_cross_read cross_base; /* first of the two cross-reads for extrapolation */
    mrd_local_ns cross_at;
    mrd_dur_ns wall_offset;
};

/* ---- unread.c ---- */

/* The first function notes that a ring file is not read, and returns true if this is new. The
 * second notes that a file was refused, the third that a file is read now. */
bool mrd_drain_unread(mrd_drain *drain, unsigned dir, const char *file_name, mrd_unread_why why);
void mrd_drain_refused(mrd_drain *drain, unsigned dir, const char *file_name, const char *reason);
void mrd_drain_is_read(mrd_drain *drain, unsigned dir, const char *file_name);

/* ---- ring_lock.c ---- */

bool mrd_drain_lock(mrd_drain *drain, mrd_local_ns now);
void mrd_drain_unlock(mrd_drain *drain);

/* ---- translate.c ---- */

/* Converts one record of the ring to zero or more events, and emits them. */
void mrd_drain_record(mrd_drain *drain, ring *r, const mrd_ring_event *ev);
/* Fast path: handles up to `most` records, until one needs mrd_drain_record. Returns the number. */
uint64_t mrd_drain_plain(mrd_drain *drain, ring *r, uint64_t most);
void mrd_drain_loss(mrd_drain *drain, ring *r, const mrd_ring_event *ev);

/* ---- open_log.c: open spans for the next agent ---- */

/* Opens the log and reads a previous agent's file. Errors: NOMEM. */
mrd_err mrd_drain_open_begin(mrd_drain *drain, mrd_why *why);
void mrd_drain_open_end(mrd_drain *drain);
/* Restores a process's spans that were open in a previous agent, when its first ring is found. */
void mrd_drain_open_adopt(mrd_drain *drain, proc *pr, const mrd_ring_info *info);
/* Ends the processes that are in the log but have no rings. `orphan` is called for each. It creates
 * the process with its open spans and ends it at once. */
typedef void mrd_drain_orphan(mrd_drain *p, int64_t pid, const mrd_ring_info *info, uint64_t key,
                              const void *records);
void mrd_drain_open_step(mrd_drain *drain, mrd_local_ns now, mrd_drain_orphan *orphan);
void mrd_drain_open_replay(mrd_drain *drain, proc *pr, uint64_t key, const void *records);
void mrd_drain_open_gone(mrd_drain *drain, const proc *pr);
/* Returns how many of the process's open spans the log lacks, and the oldest start of them. */
uint64_t mrd_drain_open_unsaved(const proc *pr, int64_t *ret_oldest_ns);

/* Fills in *ret_event as an unfinished span, from the record of a scope that is still open. */
void mrd_drain_scope(mrd_drain *drain, ring *r, const mrd_ring_event *rec, mrd_event *ret_event);

/* ---- clock_bridge.c ---- */

mrd_err mrd_drain_cross_init(mrd_drain *drain); /* Errors: NOMEM. Call fini even then. */
void mrd_drain_cross_fini(mrd_drain *drain);
void mrd_drain_cross_step(mrd_drain *drain, mrd_local_ns now);

/* ---- runtime.c: the runtime's JSON ---- */

/* Converts the runtime's JSON to events. `cut`: it is cut. MRD_IN_PAD zero bytes follow it. */
void mrd_drain_runtime(mrd_drain *drain, ring *r, mrd_str text, bool cut);
/* Reports runtime events as lost that have been missing for MRD_WAIT_RUNTIME_GAP. */
void mrd_drain_runtime_report_gaps(proc *pr, mrd_local_ns now);
uint64_t mrd_drain_runtime_held(const proc *pr);
void mrd_drain_runtime_flush(mrd_drain *drain, proc *pr);
void mrd_drain_runtime_free(proc *pr);
size_t mrd_drain_runtime_memory(const proc *pr);
/* Calls `call` for each start in the runtime's trace that has no end, unless the end is lost. */
void mrd_drain_runtime_in_flight(const proc *pr, mrd_err (*call)(void *self, const mrd_event *ev),
                                 void *self);
/* Calls `call` for the starts without an end in texts before the mark `before`. Each start is
 * passed once, and again after tell_again. Emits the other pending events of those texts. */
void mrd_drain_runtime_tell(mrd_drain *drain, proc *pr, uint64_t before,
                            mrd_err (*call)(void *self, const mrd_event *ev), void *self);
void mrd_drain_runtime_tell_again(proc *pr);
/* Both return the mark of the oldest text that is still needed, UINT64_MAX if there is none. The
 * first looks for texts with pending events, the second for texts after a gap in the sequence
 * numbers. *ret_before is the mark of the text before that gap. */
uint64_t mrd_drain_runtime_needs(const proc *pr, uint64_t *ret_before);
uint64_t mrd_drain_runtime_gaps(const proc *pr, uint64_t *ret_before);
uint64_t mrd_drain_runtime_waiting(const proc *pr, uint64_t before, mrd_wall_ns *ret_oldest);
void mrd_drain_runtime_flush_before(mrd_drain *drain, proc *pr, uint64_t mark);

/* ---- text_checkpoint.c: texts that are kept for the next agent ---- */

/* Notes that a text begins at position `pos`. Returns false if out of memory. */
bool mrd_drain_text_seen(mrd_drain *drain, ring *r, uint64_t pos);
/* Gets the data that a release writes for the next agent, and the read position. */
void mrd_drain_text_left(const mrd_drain *drain, ring *r, mrd_ring_left *ret_left,
                         uint64_t *ret_read);
void mrd_drain_text_release(const mrd_drain *drain, ring *r);
/* Returns the number of the first text that must stay in the ring, UINT64_MAX if there is none. */
uint64_t mrd_drain_text_first(ring *r);
/* Emits the pending events that a later agent cannot read again. Called at the end of the agent. */
void mrd_drain_text_end(mrd_drain *drain, ring *r);
/* Continues a ring that a previous agent read up to `safe` (0 means none). */
void mrd_drain_text_resume(mrd_drain *drain, ring *r, uint64_t safe);

#endif
