/*
 * agent/drain_int.h - inside of the drain: drain_turns.c, drain_rings.c, drain_processes.c, translate.c
 * (records to events), open_spans.c (ends that come later), cross.c (clocks).
 */
#ifndef MRD_AGENT_DRAIN_INT_H
#define MRD_AGENT_DRAIN_INT_H

#include "agent/discover.h"
#include "agent/drain.h"
#include "agent/open_spans.h"
#include "agent/ring_map.h"
#include "base/index.h"
#include "capture/ring_read.h"
#include "trace/json/args.h"

/* ---- Rings and processes ---- */

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
    uint64_t pos; /* of its first chunk in the ring */
    uint32_t number;
    bool open, apart;
    int32_t tid; /* who put the last one there, and when; 0: none was read */
    mrd_local_ns at;
} blob;

/* A text that a successor needs, see agent/texts.c. */
typedef struct {
    uint64_t mark, pos;
} ring_text;

typedef struct ring {
    mrd_ring_reader *reader;
    mrd_ring_map map;
    mrd_local_ns read_at, poll_at; /* it brought something, 0: long ago; it is looked at next */
    unsigned dir;
    char file_name[MRD_RING_NAME_MAX];
    uint64_t device, inode;
    proc *proc;
    struct ring *next_of_proc;
    size_t at;     /* place in rings */
    unsigned user; /* place in users */
    /* What its dictionary ids are in the process's catalog. */
    mrd_sid *names;
    uint32_t n_names;
    ring_track *tracks;
    size_t n_tracks, cap_tracks;
    mrd_index by_line;        /* tracks */
    ring_track last_track[2]; /* of spans and the like; of counters */
    blob blob;
    mrd_dur_ns poll_ns; /* how long the silence is taken for */
    bool ended;         /* END was met; waits for release to be removed */
    bool waits;         /* hold: events given and not released */
    bool caught_up;     /* nothing was left when it was read last */
    size_t charged;     /* bytes, see ring_memory.h */
    uint64_t safe;      /* before it a predecessor took everything over */
    uint64_t gaps_safe; /* before it a predecessor told all gaps in numbers */
    uint64_t given_back;
    ring_text *texts;
    size_t n_texts, cap_texts;
} ring;

typedef struct ring_note ring_note; /* ring_notes.c */

/* Those whose rings are read: each has its share of the rings and of a turn's time. */
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
    mrd_owned_claim first; /* of its first ring */
    uint32_t uid;          /* the process's, else that of its first ring's file */
    uint64_t flow_scope;
    mrd_sid seq_key;        /* MRD_SID_EMPTY: not asked for yet */
    mrd_local_ns active_at; /* when a ring of it last brought something */
    bool seen_alive;        /* by this agent */
    mrd_local_ns newest;    /* RAW: of the records of its rings that were read to their ends */
    uint64_t n_left;        /* ever, of its open spans: they have no key of their own */
    uint64_t left_given;
    mrd_dur_ns shift_ns; /* added to its RAW times: its time namespace against ours */
    mrd_open_spans open;
    uint64_t log_key;                 /* the process in open_log.c, whatever number it has here */
    uint64_t reported_unsaved;        /* of its open spans, in the header of its first ring */
    uint64_t lost;                    /* events, as its rings told */
    void *nrt;                        /* runtime JSON, made on first use */
    char settings[MRD_RING_NAME_MAX]; /* of its settings file; as control */
    char control[MRD_RING_NAME_MAX];  /* name of its control file, "": none was looked for */
    unsigned control_dir;
    bool held; /* its rings are not read: mrd_drain_hold_process */
};

typedef struct mrd_open_log mrd_open_log;

struct mrd_drain {
    mrd_drain_options o;
    mrd_open_log *log; /* NULL: open spans are not kept for a successor */
    char *instance_id, *job, *proc_root;
    mrd_discover *discover;
    ring **rings;
    size_t n_rings, cap_rings, turn;
    size_t rings_max, bytes; /* bytes: see ring_memory.h */
    mrd_index by_name;       /* by folder and name */
    ring_user *users;
    unsigned n_users, users_now; /* places, those with rings */
    size_t rings_beyond;         /* found, but beyond the bound of all or of their user */
    mrd_local_ns beyond_at;      /* the last time */
    unread_ring unread[MRD_DRAIN_UNREAD];
    ring_note **notes;
    size_t n_notes, cap_notes;
    proc *procs;
    mrd_drain_tally counts;
    mrd_args *args;
    mrd_catalog *args_catalog; /* whose strings args interns into */
    uint64_t text_mark;
    bool again;           /* what is read now was taken over by a predecessor */
    bool more, held;      /* the last step stopped at a budget; mrd_drain_hold */
    mrd_dur_ns timens_ns; /* this process's own */
    uint64_t pid_ns;      /* inode of ours */
    char *ring_dir;
    int lock_fd;                    /* -1 */
    mrd_local_ns lock_at, swept_at; /* early ends were looked at */
    bool stands_back;
    uint32_t *owners;       /* by pid: the uid + 1 that was confirmed last, 0: none */
    unsigned foreign_uid;   /* rings of other users than the process they name */
    char first_bad[256];    /* why the first ring was retired */
    char last_refused[768]; /* path and reason of the last file */
    mrd_cross_read *crosses;
    bool *cross_departs; /* of each: the clock had left the line of those before, or was about to */
    size_t n_crosses;
    mrd_cross_read cross_look; /* the last look, whether recorded or not */
    mrd_cross_read cross_base; /* it and the last one recorded make the line that is expected */
    mrd_local_ns cross_at;
    mrd_dur_ns wall_offset;
};

/* ---- unread.c ---- */

/* A look met a file that is not read (true: it was not known); that is refused; that is read. */
bool mrd_drain_unread(mrd_drain *p, unsigned dir, const char *file_name, mrd_unread_why why);
void mrd_drain_refused(mrd_drain *p, unsigned dir, const char *file_name, const char *reason);
void mrd_drain_is_read(mrd_drain *p, unsigned dir, const char *file_name);

/* ---- ring_lock.c ---- */

bool mrd_drain_lock(mrd_drain *p, mrd_local_ns now);
void mrd_drain_unlock(mrd_drain *p);

/* ---- translate.c ---- */

/* One record of the ring into zero or more events. */
void mrd_drain_record(mrd_drain *p, ring *r, const mrd_ring_event *ev);
/* The plain records at hand, at most `most`; returns how many there were. */
uint64_t mrd_drain_plain(mrd_drain *p, ring *r, uint64_t most);
void mrd_drain_loss(mrd_drain *p, ring *r, const mrd_ring_event *ev);

/* ---- open_log.c: open spans for a successor ---- */

/* Errors: NOMEM. */
mrd_err mrd_drain_open_begin(mrd_drain *p, mrd_why *why);
void mrd_drain_open_end(mrd_drain *p);
/* A process's first ring: what a predecessor left open of it. */
void mrd_drain_open_adopt(mrd_drain *p, proc *pr, const mrd_ring_info *info);
/* Processes that did not come back are gone: `orphan` makes each with what it had open, and ends it. */
typedef void mrd_drain_orphan(mrd_drain *p, int64_t pid, const mrd_ring_info *info, uint64_t key,
                              const void *records);
void mrd_drain_open_step(mrd_drain *p, mrd_local_ns now, mrd_drain_orphan *orphan);
void mrd_drain_open_replay(mrd_drain *p, proc *pr, uint64_t key, const void *records);
void mrd_drain_open_gone(mrd_drain *p, const proc *pr);
/* Open ones that are not in the file, and the oldest begin. */
uint64_t mrd_drain_open_unsaved(const proc *pr, int64_t *ret_oldest_ns);

/* An open scope as the span it is to be. */
void mrd_drain_scope(mrd_drain *p, ring *r, const mrd_ring_event *rec, mrd_event *ret_event);

/* ---- cross.c ---- */

mrd_err mrd_drain_cross_init(mrd_drain *p); /* NOMEM; fini also then */
void mrd_drain_cross_fini(mrd_drain *p);
void mrd_drain_cross_step(mrd_drain *p, mrd_local_ns now);

/* ---- runtime.c: the runtime's JSON ---- */

/* The ring's blob of JSON text is complete (or cut); MRD_IN_PAD zero bytes follow it. */
void mrd_drain_runtime(mrd_drain *p, ring *r, mrd_str text, bool cut);
/* Events that are missing for long are lost. */
void mrd_drain_runtime_report_gaps(proc *pr, mrd_local_ns now);
uint64_t mrd_drain_runtime_held(const proc *pr);
void mrd_drain_runtime_flush(mrd_drain *p, proc *pr);
void mrd_drain_runtime_free(proc *pr);
size_t mrd_drain_runtime_memory(const proc *pr);
/* What the runtime has begun: starts whose end is not known to be lost. */
void mrd_drain_runtime_in_flight(const proc *pr, mrd_err (*call)(void *self, const mrd_event *ev),
                                 void *self);
/* Those of texts before a mark, once each until tell_again; what else waits of those texts is given. */
void mrd_drain_runtime_tell(mrd_drain *p, proc *pr, uint64_t before,
                            mrd_err (*call)(void *self, const mrd_event *ev), void *self);
void mrd_drain_runtime_tell_again(proc *pr);
/* Marks of the oldest text of which something waits, and of the one before the oldest gap. */
uint64_t mrd_drain_runtime_needs(const proc *pr, uint64_t *ret_before);
uint64_t mrd_drain_runtime_gaps(const proc *pr, uint64_t *ret_before);
uint64_t mrd_drain_runtime_waiting(const proc *pr, uint64_t before, mrd_wall_ns *ret_oldest);
void mrd_drain_runtime_flush_before(mrd_drain *p, proc *pr, uint64_t mark);

/* ---- texts.c: what of them is kept for a successor ---- */

/* A text begins at that position; false without memory. */
bool mrd_drain_text_seen(mrd_drain *p, ring *r, uint64_t pos);
/* What the ring is given back with, and how far it was read. */
void mrd_drain_text_left(const mrd_drain *p, ring *r, mrd_ring_left *ret_left, uint64_t *ret_read);
void mrd_drain_text_release(const mrd_drain *p, ring *r);
/* The mark of the first text that the ring keeps for a successor; UINT64_MAX: of none. */
uint64_t mrd_drain_text_first(ring *r);
/* The agent ends: what a successor will not find is given as it is. */
void mrd_drain_text_end(mrd_drain *p, ring *r);
/* A ring that a predecessor read, up to `safe` by its own account (0: none). */
void mrd_drain_text_resume(mrd_drain *p, ring *r, uint64_t safe);

#endif
