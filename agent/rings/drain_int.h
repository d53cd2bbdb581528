/*
 * agent/rings/drain_int.h - internals of the drain: drain_turns.c, drain_rings.c, drain_processes.c,
 * translate.c (records to events), open_spans.c (ends that come later), clock_bridge.c (clocks)
 */
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
    uint32_t source; /* mrd_source_kind, and how the track is made: see translate.c */
    uint32_t name;   /* of counters without a track */
    mrd_track_id id;
    bool used;
} ring_track;

typedef struct {
    uint8_t *p;
    size_t len, cap;
    uint64_t pos; /* position of its first chunk in the ring */
    uint32_t number;
    bool open, apart;
    int32_t tid; /* thread that wrote the last chunk, and when; 0 means none was read */
    mrd_local_ns at;
} blob;

/* A text that a successor needs, see agent/rings/text_checkpoint.c. */
typedef struct {
    uint64_t mark, pos;
} ring_text;

typedef struct ring {
    mrd_ring_reader *reader;
    mrd_ring_map map;
    /* when it last had records (0 means long ago); when it is polled next */
    mrd_local_ns read_at, poll_at;
    unsigned dir;
    char file_name[MRD_RING_NAME_MAX];
    uint64_t device, inode;
    proc *proc;
    struct ring *next_of_proc;
    size_t at;     /* place in rings */
    unsigned user; /* place in users */
    /* Maps its dictionary ids to ids of the process's catalog. */
    mrd_sid *names;
    uint32_t n_names;
    ring_track *tracks;
    size_t n_tracks, cap_tracks;
    mrd_index by_line;        /* tracks */
    ring_track last_track[2]; /* of spans and similar records; of counters */
    blob blob;
    mrd_dur_ns poll_ns; /* poll interval, which grows while it has no records */
    bool ended;         /* END was read; waits for release and removal */
    bool waits;         /* hold: has events that were not released */
    bool caught_up;     /* no records were left at the last read */
    size_t charged;     /* bytes, see ring_memory.h */
    uint64_t safe;      /* a predecessor processed all records before it */
    uint64_t gaps_safe; /* a predecessor reported all gaps in numbers before it */
    uint64_t given_back;
    ring_text *texts;
    size_t n_texts, cap_texts;
} ring;

typedef struct ring_note ring_note; /* ring_notes.c */

/* A user with open rings. Each user has a share of the rings and of a turn's time. */
typedef struct {
    uint32_t uid;
    size_t rings;        /* 0: the place is free */
    size_t bytes;        /* see ring_memory.h */
    mrd_dur_ns spent_ns; /* in this turn */
} ring_user;

/* A ring file that is not read, see unread.c. */
#define MRD_DRAIN_UNREAD 16384u
typedef struct {
    uint64_t key; /* 0: the place is free */
    mrd_local_ns met_at;
    mrd_unread_why why;
} unread_ring;

struct proc {
    mrd_drain_process pub; /* first */
    proc *next;
    ring *rings;
    size_t n_rings, n_notes;
    uint64_t start_ticks;
    mrd_safe_open_claim first; /* of its first ring */
    uint32_t uid; /* of the process, or of its first ring's file if the process exited */
    uint64_t flow_scope;
    mrd_sid seq_key;        /* MRD_SID_EMPTY means not interned yet */
    mrd_local_ns active_at; /* when one of its rings last had records */
    bool seen_alive;        /* by this agent */
    mrd_local_ns newest;    /* RAW: latest time in its completely read rings */
    uint64_t n_left;        /* number of its open spans up to now, which have no other key */
    uint64_t left_given;
    mrd_dur_ns shift_ns; /* added to its RAW times: its time namespace relative to ours */
    mrd_open_spans open;
    uint64_t log_key;                 /* the process's key in open_log.c, which does not change */
    uint64_t reported_unsaved;        /* of its open spans, in the header of its first ring */
    uint64_t lost;                    /* events, as its rings reported */
    void *nrt;                        /* state for runtime JSON, made on first use */
    char settings[MRD_RING_NAME_MAX]; /* name of its settings file; as `control` */
    char control[MRD_RING_NAME_MAX];  /* name of its control file; "" means not searched */
    unsigned control_dir;
    bool held;              /* its rings are not read: mrd_drain_hold_process */
    mrd_drain_ops_kept ops; /* of rings that are gone */
};

typedef struct mrd_open_log mrd_open_log;

struct mrd_drain {
    mrd_drain_options o;
    mrd_open_log *log; /* NULL means that open spans are not kept for a successor */
    char *instance_id, *job, *proc_root;
    mrd_discover *discover;
    ring **rings;
    size_t n_rings, cap_rings, turn;
    size_t rings_max, bytes; /* bytes: see ring_memory.h */
    mrd_index by_name;       /* by folder and name */
    ring_user *users;
    unsigned n_users, users_now; /* slots; slots with rings */
    size_t rings_beyond;         /* found, but beyond the limit of all or of their user */
    mrd_local_ns beyond_at;      /* the last time */
    unread_ring unread[MRD_DRAIN_UNREAD];
    ring_note **notes;
    size_t n_notes, cap_notes;
    proc *procs;
    mrd_drain_tally counts;
    mrd_args *args;
    mrd_catalog *args_catalog; /* the catalog with the strings of `args` */
    uint64_t text_mark;
    bool again;           /* the current records were already processed by a predecessor */
    bool more, held;      /* the last step used up its budget; mrd_drain_hold */
    mrd_dur_ns timens_ns; /* this process's own */
    uint64_t pid_ns;      /* inode of ours */
    char *ring_dir;
    int lock_fd;                    /* -1 */
    mrd_local_ns lock_at, swept_at; /* last check of early ends */
    bool stands_back;
    uint32_t *owners;       /* by pid: the uid + 1 that was confirmed last, 0 means none */
    unsigned foreign_uid;   /* rings of other users than the process that they name */
    char first_bad[256];    /* why the first ring was retired */
    char last_refused[768]; /* path and reason of the last file */
    mrd_cross_read *crosses;
    bool *cross_departs; /* per cross-read: the clock left its previous line, or was about to */
    size_t n_crosses;
    mrd_cross_read cross_look; /* the last reading, whether recorded or not */
    mrd_cross_read cross_base; /* with the last recorded one it defines the expected line */
    mrd_local_ns cross_at;
    mrd_dur_ns wall_offset;
};

/* ---- unread.c ---- */

/* A search found a file that is not read (true if it was new), is refused, or is read. */
bool mrd_drain_unread(mrd_drain *drain, unsigned dir, const char *file_name, mrd_unread_why why);
void mrd_drain_refused(mrd_drain *drain, unsigned dir, const char *file_name, const char *reason);
void mrd_drain_is_read(mrd_drain *drain, unsigned dir, const char *file_name);

/* ---- ring_lock.c ---- */

bool mrd_drain_lock(mrd_drain *drain, mrd_local_ns now);
void mrd_drain_unlock(mrd_drain *drain);

/* ---- translate.c ---- */

/* Turns one record of the ring into zero or more events. */
void mrd_drain_record(mrd_drain *drain, ring *r, const mrd_ring_event *ev);
/* Handles the available plain records, at most `most`. Returns their number. */
uint64_t mrd_drain_plain(mrd_drain *drain, ring *r, uint64_t most);
void mrd_drain_loss(mrd_drain *drain, ring *r, const mrd_ring_event *ev);

/* ---- open_log.c: open spans for a successor ---- */

/* Errors: NOMEM. */
mrd_err mrd_drain_open_begin(mrd_drain *drain, mrd_why *why);
void mrd_drain_open_end(mrd_drain *drain);
/* For a process's first ring: takes over the spans that are open since a predecessor. */
void mrd_drain_open_adopt(mrd_drain *drain, proc *pr, const mrd_ring_info *info);
/* Processes that did not come back have ended. `orphan` makes each of them with its open spans, and
 * ends it. */
typedef void mrd_drain_orphan(mrd_drain *p, int64_t pid, const mrd_ring_info *info, uint64_t key,
                              const void *records);
void mrd_drain_open_step(mrd_drain *drain, mrd_local_ns now, mrd_drain_orphan *orphan);
void mrd_drain_open_replay(mrd_drain *drain, proc *pr, uint64_t key, const void *records);
void mrd_drain_open_gone(mrd_drain *drain, const proc *pr);
/* Returns the number of open spans that are not in the file, and the oldest start. */
uint64_t mrd_drain_open_unsaved(const proc *pr, int64_t *ret_oldest_ns);

/* Makes the span of an open scope. */
void mrd_drain_scope(mrd_drain *drain, ring *r, const mrd_ring_event *rec, mrd_event *ret_event);

/* ---- clock_bridge.c ---- */

mrd_err mrd_drain_cross_init(mrd_drain *drain); /* NOMEM; fini also then */
void mrd_drain_cross_fini(mrd_drain *drain);
void mrd_drain_cross_step(mrd_drain *drain, mrd_local_ns now);

/* ---- runtime.c: the runtime's JSON ---- */

/* The ring's JSON text is complete (or cut). MRD_IN_PAD zero bytes follow it. */
void mrd_drain_runtime(mrd_drain *drain, ring *r, mrd_str text, bool cut);
/* Reports events as lost that have been missing for long. */
void mrd_drain_runtime_report_gaps(proc *pr, mrd_local_ns now);
uint64_t mrd_drain_runtime_held(const proc *pr);
void mrd_drain_runtime_flush(mrd_drain *drain, proc *pr);
void mrd_drain_runtime_free(proc *pr);
size_t mrd_drain_runtime_memory(const proc *pr);
/* Calls back for starts of the runtime without an end, unless their end is certainly lost. */
void mrd_drain_runtime_in_flight(const proc *pr, mrd_err (*call)(void *self, const mrd_event *ev),
                                 void *self);
/* Calls back for such starts in texts before a mark, once each until tell_again. Emits the other
 * pending events of those texts. */
void mrd_drain_runtime_tell(mrd_drain *drain, proc *pr, uint64_t before,
                            mrd_err (*call)(void *self, const mrd_event *ev), void *self);
void mrd_drain_runtime_tell_again(proc *pr);
/* Returns the mark of the oldest text with a pending event, and of the text before the oldest gap. */
uint64_t mrd_drain_runtime_needs(const proc *pr, uint64_t *ret_before);
uint64_t mrd_drain_runtime_gaps(const proc *pr, uint64_t *ret_before);
uint64_t mrd_drain_runtime_waiting(const proc *pr, uint64_t before, mrd_wall_ns *ret_oldest);
void mrd_drain_runtime_flush_before(mrd_drain *drain, proc *pr, uint64_t mark);

/* ---- text_checkpoint.c: texts that are kept for a successor ---- */

/* A text begins at that position. Returns false if out of memory. */
bool mrd_drain_text_seen(mrd_drain *drain, ring *r, uint64_t pos);
/* Gets the data that is returned with the ring, and the read position. */
void mrd_drain_text_left(const mrd_drain *drain, ring *r, mrd_ring_left *ret_left,
                         uint64_t *ret_read);
void mrd_drain_text_release(const mrd_drain *drain, ring *r);
/* Returns the mark of the first text that the ring keeps for a successor; UINT64_MAX if it keeps
 * none. */
uint64_t mrd_drain_text_first(ring *r);
/* The agent ends: emits the pending events that a successor cannot read again. */
void mrd_drain_text_end(mrd_drain *drain, ring *r);
/* Takes over a ring that a predecessor read up to `safe` (0 means none). */
void mrd_drain_text_resume(mrd_drain *drain, ring *r, uint64_t safe);

#endif
