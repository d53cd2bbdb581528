/*
 * aggregator/hub.h - what the aggregator knows: nodes, sessions and the part of each node in each
 * session. Inside aggregator/ only.
 *
 * Threads  `lock` guards everything here except where a comment gives a member to one thread. It is
 *          never held over a disk sync, a survey or a merge. Journals, sequence sets and the
 * freeing of sessions belong to the ingest thread.
 */
#ifndef MRD_AGGREGATOR_HUB_H
#define MRD_AGGREGATOR_HUB_H

#include <pthread.h>

#include "aggregator/auth.h"
#include "aggregator/host_reading.h"
#include "aggregator/journal.h"
#include "aggregator/timeline.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/map.h"
#include "proto/clock_reading.h"
#include "proto/link.h"
#include "proto/wire.h"
#include "timesync/align.h"
#include "timesync/collective.h"
#include "timesync/probe.h"

#define HUB_CONTEXTS 256 /* requests that wait for one disk sync */

#define HUB_ID_MAX       129 /* instance id with its NUL */
#define HUB_TEXT_MAX     256
#define HUB_DROPS_MAX    16
#define HUB_TRIGGERS     1024  /* per session */
#define HUB_ARTIFACTS    65536 /* per session */
#define HUB_COUNTERS     64    /* patterns of counters of one session */
#define HUB_PROFILES_MAX 256   /* device profiles of one node in one session */
#define HUB_EPOCHS_MAX   64    /* restarts of one agent with a lost spool, per session */

typedef struct {
    char cause[48];
    uint64_t count;
    int64_t first_ns, last_ns;
} hub_drop;

/* begun = delivered + drops + held, as the agent counts. */
typedef struct {
    uint64_t begun, delivered, held;
    uint64_t clock_lost;           /* frames of clock data, which hold no events */
    hub_drop drops[HUB_DROPS_MAX]; /* the last one gathers what does not fit */
    unsigned n_drops;
} hub_counters;

typedef struct {
    char state[24], method[24];
    int64_t bound_ns, offset_ns; /* bound -1: unknown */
    uint64_t probes;
} hub_clock;

/* Frames against the live bound: what was sent has happened before it arrived, what was answered
 * came after. Violations must be 0. */
typedef struct {
    uint64_t checked, violations;
    int64_t worst_ns;
} hub_causality;

/* What a limit held back, for /metrics and the nodes' states. */
typedef enum {
    LIMIT_NONE,
    LIMIT_AGENT_RATE,
    LIMIT_TOTAL_RATE,
    LIMIT_CONNECTIONS,
    LIMIT_NODES,
    LIMIT_SESSIONS,
    LIMIT_OPEN_SESSIONS,
    LIMIT_SESSION_SIZE,
    LIMIT_DISK,
    LIMIT_UPLOADS,
    LIMIT_EPOCHS, /* of one agent, and gaps in its numbers */
    LIMIT_KINDS
} limit_kind;

/* One agent. While it is connected it stays; one that is gone and forgotten gives its place to
 * another when there are max_nodes. */
typedef struct {
    char instance_id[HUB_ID_MAX], host_name[HUB_TEXT_MAX], boot_id[64], release[32];
    uint64_t key, run, epoch;
    uint32_t at;          /* its index in the hub's list */
    uint32_t conn;        /* 0: not connected; hub_node_connect sets it */
    unsigned proof_epoch; /* of the hub at its hello */
    bool simulated;
    bool heard;      /* since the aggregator started; else it is known from before */
    bool forget;     /* somebody said so: it goes when no frame of it waits */
    int64_t seen_ns; /* aggregator's RAW, last frame of any kind; of before the boot below 0 */
    int64_t seen_wall_ns;
    int64_t hello_local_ns, hello_wall_ns; /* the node's own clocks at its last hello */
    char state[32];
    hub_counters counters;
    int64_t counted_ns; /* its own time of them */
    hub_clock clock;
    hub_causality causality; /* heartbeats and their answers */
    uint32_t rings, processes;
    uint64_t spool_bytes, memory_bytes;
    uint64_t frames, bytes, events; /* received and stored */
    int64_t bucket_bytes;           /* of the rate limit; may be negative */
    int64_t bucket_ns;
    uint64_t slowed;          /* frames that a limit sent back */
    limit_kind limited_by;    /* the last one, at */
    int64_t limited_ns;       /* aggregator's RAW */
    mrd_strlist labels;       /* "key=value" */
    char noted[HUB_TEXT_MAX]; /* the trigger its last heartbeat told of, "": none */
    char noted_at[24];        /* which tells it from an earlier one of the same words */
    uint8_t probe_key[MRD_PROBE_KEY_LEN];
    struct mrd_follow *follow;   /* what its probes say, NULL before the first */
    struct probe_memory *probes; /* the last ones, for frames of further sessions */
    bool has_reading;
    mrd_host_reading reading; /* the last one of its own clocks */
} hub_node;

typedef enum {
    PART_ARMED, /* ready */
    PART_RECORDING,
    PART_STOPPING,
    PART_FLUSHED,
    PART_REFUSED, /* `sentence` says why */
    PART_LOST,    /* vanished before it was flushed */
    PART_MISSING, /* meant and known, but not connected when the session began; `sentence` */
    PART_STATES
} part_state;

typedef struct {
    uint64_t epoch;
    mrd_seqset *stored;
    uint64_t end; /* the agent's last_seq, 0 unknown */
} part_epoch;

/* What of a node cannot be used as it was stored, as the last merge found it. */
typedef struct {
    uint64_t events;  /* stored, but not in the journal any more or not decodable */
    uint64_t frames;  /* the same in frames: batches and clock data */
    uint64_t foreign; /* batches whose processes claim another node: they are taken as this one's */
} hub_damage;

/* What there was to record on a node, as its agent says. */
typedef struct {
    bool known;            /* an older agent does not say */
    uint64_t before, last; /* events chosen that are no counters: of earlier runs, of this one */
    uint64_t left_out;     /* by the selection; of this run */
    unsigned processes, selected; /* the most */
} hub_tally;

/* A node's part in a session. */
typedef struct {
    char instance_id[HUB_ID_MAX], host_name[HUB_TEXT_MAX], boot_id[64];
    part_state state;
    mrd_err err;
    char sentence[HUB_TEXT_MAX];
    int64_t started_local_ns, stopped_local_ns, start_bound_ns;
    int64_t lost_wall_ns;      /* when it was last heard of, 0: not lost */
    int64_t local_ns, wall_ns; /* one reading of both clocks of the node */
    int64_t complete_local_ns;
    uint64_t events, batches, bytes; /* stored */
    int64_t first_ns, last_ns; /* local, of stored batches of the RAW clock; first > last: none */
    hub_counters counters;     /* before + last */
    hub_counters before;       /* of earlier runs of the agent that kept nothing over a restart */
    hub_counters last;         /* as its heartbeat said */
    uint64_t since;            /* Counters.since of last */
    hub_tally tally;
    hub_damage damage;
    hub_clock clock;
    hub_causality causality;
    bool has_reading;
    mrd_host_reading reading; /* the last one of the node's own clocks */
    bool simulated;
    uint64_t heard[HUB_TRIGGERS / 64]; /* a bit for each trigger that it knows */
    mrd_json *device_profiles; /* what the agent says became of those asked for; NULL: nothing */
    /* the ingest thread's */
    mrd_journal *journal;
    part_epoch epochs[HUB_EPOCHS_MAX];
    unsigned n_epochs;
} hub_part;

typedef enum {
    SESSION_ARMING,
    SESSION_RECORDING,
    SESSION_STOPPING, /* stop was said, nodes are still shipping */
    SESSION_MERGING,
    SESSION_COMPLETE,
    SESSION_FAILED, /* did not start: `sentence` */
    SESSION_STATES
} session_state;

typedef struct {
    uint64_t id;
    int64_t from_ns, to_ns; /* session time */
    char reason[HUB_TEXT_MAX];
    unsigned answered; /* nodes that know of it */
    bool sent;
} hub_trigger;

typedef struct {
    char sha256[65];
    uint64_t size;
    char name[HUB_TEXT_MAX], kind[32], instance_id[HUB_ID_MAX];
    int64_t process_id, nc_idx;
    bool complete;
    bool noted; /* on disk, in the manifest or in artifacts.log */
} hub_artifact;

/* Which events of which nodes; all lists empty: everything. */
typedef struct {
    mrd_strlist instances, jobs, ranks, processes, cores, types, sources;
} hub_select;

/* What held-out probes and collectives say about the clocks of a session that was merged whole. */
typedef struct {
    bool done;
    bool some; /* collectives of several clocks were matched */
    mrd_coll_check collectives;
    uint64_t held_out, held_out_violations;
    uint64_t absolute, absolute_violations; /* readings of absolute time at both ends */
    mrd_timeline timeline;      /* lives of the aggregator in it, and how they are tied */
    char sentence[MRD_WHY_MAX]; /* why collectives could not be checked, or not all; or empty */
} merge_verdict;

typedef struct hub_session {
    uint64_t id;
    char text[MRD_SESSION_TEXT];
    char name[HUB_TEXT_MAX];
    char timeline[64]; /* the hub's when it was created; "" not known */
    bool recorder;
    session_state state;
    char sentence[MRD_WHY_MAX];
    char require[16]; /* "all", "any" or a number */
    hub_select select;
    int64_t created_wall_ns;
    int64_t go_ns, stop_ns; /* session time, 0: not yet */
    int64_t duration_ns;    /* 0: until stopped */
    int64_t recorder_ns;
    uint64_t recorder_bytes;
    char device_profiles[16];  /* "model", "continuous", "on-fail", "" none */
    mrd_strlist counters;      /* patterns of counters that agents sample for this session */
    char counter_period[24];   /* nanoseconds, as agents are told */
    int64_t flush_deadline_ns; /* aggregator's RAW */
    mrd_dur_ns answer_ns;      /* how long the last node took to say that it is ready */
    bool stop_wanted, deleted, dirty, auto_merge, closed;
    int64_t full_ns, room_ns; /* wall clock: the store was full first; had room again last; 0 */
    unsigned served;          /* slices of it that are being sent: its files stay */
    bool fresh;               /* not on disk yet, so not begun and not answered */
    int64_t arm_from_ns; /* aggregator's RAW: after a restart agents may come back until here */
    hub_part **parts;
    size_t n_parts;
    mrd_map part_by_id; /* index into parts */
    hub_trigger *triggers;
    size_t n_triggers;
    int64_t noted_at_ns; /* session time when nodes' own triggers become one, 0: there are none */
    int64_t noted_last_ns;
    char noted[HUB_TEXT_MAX]; /* the first of their reasons */
    hub_artifact *artifacts;
    size_t n_artifacts;
    uint64_t artifact_bytes; /* announced, each file once */
    uint64_t folder_bytes;   /* on disk, as measured after it was closed and after each merge */
    bool measured;
    struct merge_job *job; /* the last one */
    merge_verdict verdict; /* of the last whole merge */
} hub_session;

typedef struct {
    int64_t agent_rate; /* bytes/s, 0: no limit */
    int64_t total_rate; /* bytes/s, 0: no limit */
    int64_t max_nodes, max_sessions, max_open_sessions;
    int64_t disk_reserve; /* bytes that must stay free */
    mrd_dur_ns node_timeout_ns, node_forget_ns, flush_timeout_ns, arm_timeout_ns, lead_ns;
    int64_t retain_ns;     /* 0: for ever */
    int64_t retain_bytes;  /* 0: no limit */
    int64_t session_bytes; /* 0: no limit */
} hub_limits;

/* Numbers for /metrics. */
typedef struct {
    uint64_t frames, bytes, events, duplicates, refused, slowed, not_stored, syncs, hellos,
        hello_refused, heartbeats, bad_frames;
    uint64_t artifacts, artifact_bytes, artifacts_removed;
    uint64_t limited[LIMIT_KINDS];
    /* checks of clocks, and how many contradicted a bound */
    uint64_t clock_frames, clock_frame_violations, clock_held_out, clock_held_out_violations,
        clock_absolute, clock_absolute_violations, clock_collectives, clock_collective_violations;
} hub_stats;

/* A file in <store>/artifacts that sessions list. */
typedef struct {
    mrd_map_key key; /* the first 192 bits of its hash */
    uint64_t bytes;  /* that are there */
    uint32_t listed; /* how often, by sessions whose folder is there */
    uint32_t live;   /* ... that are not deleted */
} hub_file;

typedef struct hub {
    pthread_mutex_t save_lock; /* one manifest is written at a time; taken before `lock`, never
                                  inside it */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a session's state or wish changed */
    char *store;            /* folder */
    char boot_id[64], id[40];
    char timeline[64]; /* which session_offset_ns is of: boot_id, "#n" behind it after the n-th move
                        */
    hub_limits limits;
    mrd_sync sync;
    mrd_auth *auth;         /* tokens that agents must show; NULL: none */
    bool cert_identity;     /* an agent's certificate must name its instance */
    unsigned proof_epoch;   /* of tokens and authorities: hellos of before count no more */
    struct upload *uploads; /* artifact.c */
    struct artifact_worker *artifact_worker;
    struct keeper *keeper; /* keep.c */
    hub_file *files;
    size_t n_files;
    mrd_map file_at;
    uint64_t files_bytes;      /* of the live ones */
    unsigned unreadable;       /* sessions that may list files nobody knows of */
    int64_t session_offset_ns; /* session time = RAW of this machine + this */
    mrd_server *server;
    hub_node **nodes;
    size_t n_nodes;
    mrd_map node_by_id, node_by_conn; /* index into nodes */
    struct {
        bool changed, failed; /* what nodes.json says; the last time it was written */
        int64_t opened_ns, saved_ns;
    } known;
    hub_session **sessions;
    size_t n_sessions;
    hub_stats stats;
    int64_t clock_spare; /* bytes of clock data that may still be stored while it is full */
    bool disk_full, manifest_failed; /* the latter: the last one written, so that it is said once */
    char disk_sentence[HUB_TEXT_MAX];
    bool closing;
    mrd_dur_ns save_ns; /* how long the last manifest took to be on disk */
    int64_t bucket_bytes, bucket_ns;
    struct mrd_timeserve *timeserve; /* NULL: none */
    struct mrd_hostclock *own;       /* this machine's clocks; NULL: not read */
    mrd_clock_reading own_reading;   /* the last one; raw_ns 0: none yet */
    Mrd__ClockReading *own_list[1];  /* as a message takes it */
    bool same_clock;                 /* agents share this process's machine: no probes needed */
} hub;

/* ---- hub.c ---- */

mrd_err hub_init(hub *h, const char *store, mrd_why *why);
void hub_fini(hub *h);
int64_t hub_session_now(const hub *h); /* session time */
hub_node *hub_node_by_conn(hub *h, uint32_t conn);
hub_node *hub_node_by_id(hub *h, const char *instance_id);
hub_node *hub_node_add(hub *h, const char *instance_id); /* NULL without memory */
/* Ingest thread only: those that were forgotten go. Nothing of them waits for a sync. */
void hub_nodes_drop(hub *h);
/* A place for one more: below the limit, or that of the node longest gone and forgotten. */
bool hub_node_room(hub *h);
const char *limit_text(limit_kind kind); /* "agent-rate", as its option is called */
/* The limit that held the node back in the last seconds, LIMIT_NONE: none did. */
limit_kind hub_node_limited(const hub_node *n);
/* The node speaks on this connection from now on; whoever did before does not any more. 0: none. */
void hub_node_connect(hub *h, hub_node *n, uint32_t conn);
bool hub_node_alive(const hub *h, const hub_node *n); /* connected and heard of lately */
/* Heard of within node_forget, by an earlier run too: sessions list it, missing when it is not
 * connected. */
bool hub_node_expected(const hub *h, const hub_node *n);
hub_session *hub_session_by_id(hub *h, uint64_t id);
/* The node's part, NULL when it has none. */
hub_part *hub_part_of(hub_session *s, const char *instance_id);
hub_part *hub_part_add(hub_session *s, const hub_node *n); /* NULL without memory */
/* The part's node knows of this trigger. */
void part_heard(hub_session *s, hub_part *p, size_t trigger);
bool part_has_heard(const hub_part *p, size_t trigger);
/* It took part when the trigger came and still does not know of it. */
bool part_missed(const hub_session *s, const hub_part *p, size_t trigger);
/* It refused, was lost, or is missing: something of its part is not there. */
bool part_is_without(const hub_part *p);
/* A time as a manifest says it; 0 when it is none: two of them can be subtracted. */
int64_t hub_time(int64_t ns);
/* A number that a node counted, as far as it is believed: sums over all causes and nodes stay
 * positive in a manifest, which has 63 bits. */
#define HUB_COUNT_MAX (1ull << 45)
uint64_t hub_count(uint64_t n);
/* The session time at which its recording began, 0: it did not. */
int64_t part_began(const hub_part *p);
/* The store is full, or has room again: open sessions note when. Lock held. */
void hub_disk(hub *h, bool full);
bool hub_session_open(const hub_session *s); /* takes frames */
/* <store>/sessions/<id> and below; appended to a fresh buffer, NUL-terminated. NULL without memory;
 * free it. */
char *hub_path(const hub *h, const hub_session *s, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void hub_copy(char *to, size_t size, const char *from); /* cuts */
/* Room for one more behind n members of a list that only grows by this, in steps that double. NULL
 * without memory; the list is then as it was. */
void *hub_grow(void *list, size_t n, size_t member_size);
void hub_counters_add(hub_counters *to, const hub_counters *from);
void hub_counters_take(hub_counters *to, const Mrd__Counters *from);
void hub_clock_take(hub_clock *to, const Mrd__ClockQuality *from);
const char *session_state_text(session_state s);
const char *part_state_text(part_state s);
uint64_t hub_dropped(const hub_counters *c);
/* Those of them that nobody had asked for: no session wanted them, or a flight recorder made room.
 */
uint64_t hub_unwanted(const hub_counters *c);
/* Follows what the agent counts in a session, over restarts of it. */
void part_count(hub_part *p, const Mrd__Counters *c);
/* The numbers stored in one epoch; NULL without memory or with too many epochs. */
part_epoch *part_epoch_of(hub_part *p, uint64_t epoch);
/* How many different frames of it were stored, clock data included. */
uint64_t part_frames(const hub_part *p);
/* What a merge found: a whole one replaces what is known, a slice saw a part. */
void part_damaged(hub_session *s, hub_part *p, const hub_damage *found, bool whole);
/* Notes a frame of the journal: number, counts, range. Errors: NOMEM, LIMIT. */
mrd_err part_stored(hub_part *p, const mrd_frame *f);

/* ---- known.c: <store>/nodes.json, the nodes that are known over restarts. Lock held ---- */

/* Those heard of within node_forget, the last max_nodes of them. A file that cannot be read is said
 * and passed over. Before any thread runs. */
void known_load(hub *h);
/* Writes the list when it is time, at most once per call: after changes, and every 30 s for when
 * nodes were heard of last; with `last` in any case. The lock is given up meanwhile. */
void known_save(hub *h, bool last);
/* Nobody expects the node any more, until it says hello. Errors: NOTFOUND; STATE: it is connected.
 */
mrd_err known_forget(hub *h, mrd_str instance_id, mrd_why *why);

/* ---- session.c ---- */

typedef struct {
    const char *name;
    bool recorder;
    const char *require;
    int64_t duration_ns, recorder_ns;
    uint64_t recorder_bytes;
    const char *device_profiles; /* likewise; NULL: none */
    mrd_strlist counters;        /* taken, as select is */
    int64_t counter_period_ns;   /* 0: 1 s */
    bool auto_merge;
    hub_select select; /* taken */
} session_wish;

void session_wish_fini(session_wish *w); /* what was not taken */
/* A new session in ARMING, on disk when this returns. Lock not held. wish->select and counters are
 * taken on success. Errors: LIMIT, NOMEM, IO, FULL. */
mrd_err session_create(hub *h, const session_wish *wish, uint64_t *ret_id, mrd_why *why);
void session_free(hub_session *s);
mrd_json *session_json(const hub *h, const hub_session *s); /* the manifest; NULL without memory */
/* Writes the manifest as it stands now; durable on return, unless --sync none. Lock not held: no
 * disk is waited for under it. A session that is not there is MRD_OK. */
mrd_err session_save(hub *h, uint64_t id, mrd_why *why);
/* Reads the manifests of the store. Sessions that were recording go on; their journals are scanned
 * for what was stored. */
mrd_err session_recover(hub *h, mrd_why *why);
mrd_json *node_json(const hub *h, const hub_node *n);
mrd_json *artifact_json(const hub_artifact *a); /* as in the manifest */
void select_fini(hub_select *s);
/* From {"instance_id": ["i-1"], "rank": [0, 1], ...}. Errors: TYPE, NOMEM; *s is then partly
 * filled. */
mrd_err select_from_json(hub_select *s, const mrd_json *o, mrd_why *why);
/* Of a new session: the words of s, read from o, can mean something. Errors: INVALID, naming the
 * word and the nearest. */
mrd_err select_check(const hub_select *s, const mrd_json *o, mrd_why *why);
/* "counters": ["neuron*.…"]. Errors: TYPE, LIMIT, NOMEM. */
mrd_err counters_from_json(mrd_strlist *list, const mrd_json *o, mrd_why *why);
/* empty.c */
void part_tally(hub_part *p, const Mrd__SessionTally *tally); /* NULL: not told */
mrd_json *part_tally_json(const hub_part *p);                 /* NULL: not known */
void part_tally_load(hub_part *p, const mrd_json *o);
/* Of a session that is over: why nothing was recorded but counters; false: something was. */
bool session_empty(const hub_session *s, char text[MRD_WHY_MAX]);
bool select_matches(const hub_select *s, const hub_node *n);

/* ---- session_clocks.c ---- */

mrd_json *clock_json(const hub_clock *c);
mrd_json *part_clock_json(const hub_part *p);
/* What contradicts its clocks: frames on arrival and, once it was merged, all the rest. */
uint64_t session_violations(const hub_session *s);
uint64_t verdict_violations(const merge_verdict *v);
mrd_json *session_clocks_json(const hub_session *s);
void part_clock_recover(hub_part *p, const mrd_json *o); /* o may be NULL */
void session_clocks_recover(hub_session *s, const mrd_json *o);

/* ---- control.c ---- */

typedef struct control control;

mrd_err control_open(hub *h, control **ret_control, mrd_why *why);
void control_close(control *c);
/* Asks for a stop at the next occasion; the wish is on disk when this returns. */
mrd_err control_stop(hub *h, uint64_t id, mrd_why *why);
/* Freezes the last `last_ns` of a recorder session (id 0: of all of them) on all nodes, soon.
 * On disk when this returns. Errors: STATE (none is running), LIMIT, NOMEM, IO, FULL. */
mrd_err control_trigger(hub *h, uint64_t id, mrd_dur_ns last_ns, const char *reason,
                        uint64_t *ret_trigger, mrd_why *why);
/* A node saw something to keep. Lock held. Reasons of half a second, from all nodes, become one
 * trigger of every flight recorder the node is in, at most one in a second; none is hidden, because
 * the window ends after the last of them. */
void control_noted(hub *h, const hub_node *n, const char *reason);
/* What a node should be told about its sessions: up to `max` messages, whose strings borrow from
 * the hub, so keep the lock until they are packed. hb: what the node says itself, NULL at hello. */
typedef struct {
    Mrd__Control control;
    Mrd__Selection select;
    Mrd__Trigger trigger;
    Mrd__Label labels[HUB_COUNTERS + 2], *options[HUB_COUNTERS + 2];
    int64_t *numbers[2];
} control_message; /* points into itself: not to be copied */
/* The node of this part knows of these triggers, in the order in which it heard of them. Lock held.
 */
void control_heard(hub_session *s, hub_part *p, const uint64_t *ids, size_t n);
unsigned control_directives(hub *h, const hub_node *n, const Mrd__Heartbeat *hb,
                            control_message *to, unsigned max);
void control_message_fini(control_message *m);

/* ---- artifact.c (ingest thread, lock held), artifact_job.c (its own thread) ---- */

mrd_err artifact_open(hub *h, mrd_why *why);
void artifact_close(hub *h); /* answers or drops what waits */
void artifact_fini(hub *h);
mrd_err artifact_offer(hub *h, hub_node *n, const mrd_msg *msg, Mrd__ArtifactWant *want,
                       char text[HUB_TEXT_MAX]);
mrd_err artifact_chunk(hub *h, const mrd_msg *msg, Mrd__Ack *ack, char text[HUB_TEXT_MAX]);
/* On MRD_OK the request was taken and is answered when the file is proven and on disk. */
mrd_err artifact_done(hub *h, mrd_server_request *request, const mrd_msg *msg, Mrd__Ack *ack,
                      char text[HUB_TEXT_MAX]);
/* The answer to a chunk or the end; text is borrowed. */
void artifact_ack(Mrd__Ack *ack, mrd_err err, char *text);
/* Takes the request; it is answered when the file is whole and every session that lists it has
 * noted so on disk. False: too many wait, ask again. */
bool artifact_settle(hub *h, mrd_server_request *request, const char *sha256, bool offer);
/* It is being proven, or pieces of it came lately. */
bool artifact_busy(const hub *h, const char *sha256, mrd_dur_ns lately_ns);
/* Its bytes are gone: who sent them offers again. */
void artifact_forget(hub *h, const char *sha256);
/* A relative path of plain components. */
bool artifact_name_ok(const char *name);

/* ---- keep.c: what lies in the store. Lock held, except to open, close and sweep ---- */

mrd_err keep_open(hub *h, mrd_why *why);
void keep_close(hub *h);
void keep_fini(hub *h);
bool keep_hash_ok(const char *hex); /* a SHA-256 in lower case */
/* A session lists the file once more. Errors: NOMEM. */
mrd_err keep_list(hub *h, const char *sha256);
void keep_grown(hub *h, const char *sha256, uint64_t bytes); /* so much of it is there now */
/* The session is deleted; the ingest thread removes it when nobody reads it any more. */
void keep_retire(hub *h, hub_session *s);
/* Its folder goes, and what it alone lists. save_lock held too; free the session afterwards. */
void keep_remove(hub *h, hub_session *s);
void keep_forget(hub *h, hub_session *s);  /* it lists nothing any more; its folder stays */
void keep_measure(hub *h, hub_session *s); /* its files changed */
/* What its folder occupies; while it is open, what its journals hold. Artifacts not included. */
uint64_t keep_bytes(const hub_session *s);
uint64_t keep_total(const hub *h); /* of all sessions with their artifacts, each once */
/* Retires sessions by age and size as of now_wall_ns; each is said with its reason. One that runs,
 * is being merged or is being sent stays. Called every 10 s. */
void keep_retain(hub *h, int64_t now_wall_ns);
/* Removes what no session lists and nobody is sending from <store>/artifacts, unless there are
 * sessions that could not be read. */
void keep_sweep(hub *h);

/* ---- clocks.c ---- */

/* Opens the time server on the host of the data address. Errors: those of mrd_timeserve_open. */
mrd_err clocks_open(hub *h, const char *data_url, uint16_t port, mrd_why *why);
void clocks_close(hub *h);
uint16_t clocks_port(const hub *h);     /* 0: no time server */
void clocks_hello(hub *h, hub_node *n); /* a new key for its probes */
void clocks_forget(hub_node *n);
/* Joins the agent halves in *data with what the time server saw, follows the node's clock with them
 * and leaves the whole probes in data->joined, which borrows from *room; beside the node's readings
 * come our own, which are the hub's until the next call. */
void clocks_take(hub *h, hub_node *n, Mrd__ClockData *data, mrd_buf *room);
/* Checks a frame that left the node after local_ns and came here at received_ns (our RAW), or, with
 * `answer`, one that left here at received_ns and was there before local_ns. */
void clocks_causality(hub *h, hub_node *n, hub_causality *to, int64_t local_ns, int64_t received_ns,
                    bool answer);
/* What is believed about the node's clock now; false when nothing is. text holds the state. */
bool clocks_live(hub *h, hub_node *n, int64_t local_ns, Mrd__ClockEstimate *ret, char text[24]);

/* ---- ingest.c ---- */

typedef struct ingest ingest;

mrd_err ingest_open(hub *h, ingest **ret_ingest, mrd_why *why);
void ingest_close(ingest *i); /* syncs, answers, closes journals */

/* ---- merge.c ---- */

typedef struct merge_job merge_job;

typedef enum { JOB_WAITING, JOB_RUNNING, JOB_DONE, JOB_FAILED, JOB_CANCELLED } job_state;

typedef struct {
    job_state state;
    uint64_t events, total;
    mrd_why why;
} job_status;

typedef struct merger merger;

mrd_err merger_open(hub *h, merger **ret_merger, mrd_why *why);
void merger_close(merger *m);
/* Queues the merge of a whole session into <session>/profile. Lock held. */
mrd_err merger_start(hub *h, hub_session *s, mrd_why *why);
void merger_cancel(hub_session *s);
bool merger_status(const hub_session *s, job_status *ret_status); /* false: there was no job */
void merger_drop(hub_session *s); /* forgets a job that does not run */

#endif
