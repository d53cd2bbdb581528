/*
 * capture/ring/ring.h - layout of a ring: the file through which one workload thread passes events
 * to one reader. docs/reference/ring.md is the specification, and this header is its form in C.
 *
 * File     header (4096 bytes) | dictionary (dict_len, append-only) | data (data_len, a power of
 *          two). All numbers are little-endian, all offsets count from the start of their area.
 * Units    timestamps are ticks of the clock that the header specifies; *_ns fields are
 *          nanoseconds.
 * Writers  each field has one writer. The reader writes the cache line of `tail`, and the workload
 *          writes all other fields. Counters only grow.
 * Trust    reader and workload do not trust each other's fields. The reader loads each field once
 *          and validates it. The workload ignores a tail that is not between the old tail and head.
 */
#ifndef MRD_CAPTURE_RING_RING_H
#define MRD_CAPTURE_RING_RING_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define MRD_RING_MAGIC      "MRDRING" /* 8 bytes with the NUL */
#define MRD_RING_ABI        1u        /* incremented by any change of the layout */
#define MRD_RING_HEADER_LEN 4096u
/* Records are aligned to this number of bytes, and their sizes are multiples of it. */
#define MRD_RING_UNIT 32u

#define MRD_RING_DATA_MIN 4096u        /* minimum size of the data area in bytes */
#define MRD_RING_DATA_MAX (1ull << 30) /* maximum size of the data area in bytes */
/* minimum size of the dictionary in bytes, which must be a multiple of 4096 */
#define MRD_RING_DICT_MIN 4096u
#define MRD_RING_DICT_MAX (1u << 22)
/* maximum bytes of one record; data_len / 4 if that is less */
#define MRD_RING_REC_MAX   65536u
#define MRD_RING_NAMES_MAX (1u << 16) /* dictionary ids are below this; id 0 means "none" */
#define MRD_RING_TEXT_MAX  4096u      /* maximum bytes of one dictionary text */
#define MRD_RING_OPEN_MAX  30u        /* maximum number of open scopes that the header can show */
#define MRD_RING_IDENT_MAX 2048u
/* a time namespace with a larger offset, in nanoseconds, is invalid */
#define MRD_RING_TIMENS_MAX (INT64_MAX / 4)
#define MRD_RING_NAME_MAX   160u /* bytes of a file name, including the NUL */

/* The clock of all ticks in the ring. */
typedef enum {
    MRD_RING_CLOCK_RAW = 1, /* CLOCK_MONOTONIC_RAW; 1 tick is 1 ns */
    /* x86 time stamp counter; the mrd_ring_cal readings relate it to other clocks */
    MRD_RING_CLOCK_TSC = 2,
} mrd_ring_clock_id;

/* One reading of all clocks at the same time. raw_ns (CLOCK_MONOTONIC_RAW) was read within
 * +-width/2 ticks of `ticks`. */
typedef struct {
    uint64_t ticks;
    int64_t raw_ns;  /* CLOCK_MONOTONIC_RAW */
    int64_t wall_ns; /* CLOCK_REALTIME, read immediately after raw_ns */
    uint64_t width;  /* ticks between the two readings that bracket raw_ns */
} mrd_ring_cal;

/* Why events were lost. */
typedef enum {
    MRD_RING_LOST_FULL = 0, /* the ring has no room */
    MRD_RING_LOST_BIG = 1,  /* larger than the limit of a record */
    /* a signal handler tried to record while its thread was writing a record */
    MRD_RING_LOST_NESTED = 2,
    MRD_RING_LOST_NORING = 3, /* a thread of this process could not get a ring */
    /* a track (timeline row) could not be defined, because the dictionary is full */
    MRD_RING_LOST_DICT = 4,
    /* an event of the runtime's trace had too long a text for the ring */
    MRD_RING_LOST_BLOB = 5,
    MRD_RING_LOST_SWITCHED = 6, /* the process stopped its capture after an error */
    /* a span began while its thread had too many open scopes, or no memory for another one */
    MRD_RING_LOST_DEEP = 7,
    MRD_RING_LOST_CAUSES = 8,
} mrd_ring_lost;

/* Events lost for one cause. `count` is their number since the ring was made. `first` and `last`
 * are the times of the first and last event in the newest gap. */
typedef struct {
    _Atomic uint64_t count;
    _Atomic uint64_t first, last; /* times in ticks; 0 means that there was no loss */
    /* the part of `count` that was already reported by LOSS records */
    _Atomic uint64_t told;
} mrd_ring_loss;

/* A scope that has begun and not ended. Slots with an index below mrd_ring_hdr.depth are valid. */
typedef struct {
    _Atomic uint64_t ts;          /* start of the scope in ticks */
    _Atomic uint64_t name_domain; /* name id << 32 | domain id */
    _Atomic uint64_t track_flags; /* track id << 32 | flags for the scope's SPAN record */
    /* 0 unless the end of the scope is about to be counted as lost. Then it is the sum that the
     * counts of MRD_RING_LOST_FULL and MRD_RING_LOST_BIG reach when the end is counted. */
    _Atomic uint64_t ending;
} mrd_ring_scope;

/* The header has slots for operations that the ranks of a job enter together, such as barriers. */
#define MRD_RING_OPS          6u
#define MRD_RING_OP_SLOW      16u
#define MRD_RING_OPS_LEFT_OUT 1u /* `ops` lacks some calls of the thread */
#define MRD_RING_OPS_FAILED   2u /* the thread's last call of an operation in `ops` failed */
#define MRD_RING_OPS_EVICTED  4u /* operations that were entered long ago are no longer in `ops` */
#define MRD_RING_OPS_NESTED   8u /* the thread began a call of an operation inside another call */
#define MRD_RING_OP_SLOW_BITS 26 /* slow[i] counts calls of 2^(26+i) to 2^(27+i) ticks */
typedef struct {
    /* name id << 32 | number of ended calls that `slow` is based on, including fast ones */
    _Atomic uint64_t name_seen;
    _Atomic uint64_t group; /* name and group together identify the operation */
    /* 0 if the slot is free, else number << 1 | open. The number counts the process's calls of this
     * operation, from 1. `open` is 1 while the thread is inside the call. The writer stores it with
     * release order. */
    _Atomic uint64_t state;
    _Atomic uint64_t begin; /* start of this call in ticks */
    /* payload bytes of this call, and of the previous call in this slot */
    _Atomic uint64_t bytes, bytes_before;
    /* Number of calls by duration (MRD_RING_OP_SLOW_BITS), over all calls of the process. A count
     * stops at 255. */
    _Atomic uint8_t slow[MRD_RING_OP_SLOW];
} mrd_ring_op;

/* How one thread spent its time, in ticks. The end of each outermost call adds the time since the
 * end of the previous outermost call: the part before the call to `outside`, the rest to `inside`.
 * From the end of the first call on, all parts together thus grow as fast as the clock. The writer
 * first closes the call's slot in `ops`. Then it stores `outside`, `inside` and last `ended`, each
 * with release order. Calls inside another call are not counted separately. */
typedef struct {
    /* ticks in calls of the operation in ops[i], since it has this slot */
    _Atomic uint64_t inside[MRD_RING_OPS];
    _Atomic uint64_t outside; /* between calls */
    _Atomic uint64_t ended;   /* end of the newest outermost call; 0 if none */
} mrd_ring_ops_time;

typedef enum {
    MRD_RING_LIVE = 1,   /* the ring's thread is recording */
    MRD_RING_IDLE = 2,   /* the ring's thread has ended; another may take the ring */
    MRD_RING_CLOSED = 3, /* no further records will be added */
} mrd_ring_state;

typedef struct {
    /* These fields are constant. The writer stores the magic last, with release order. A reader
     * that sees the magic can therefore read the other fields. */
    uint8_t magic[8];
    uint32_t abi;
    uint32_t header_len;
    uint32_t dict_len;
    uint32_t clock; /* mrd_ring_clock_id */
    uint64_t data_len;
    /* The owner is the process that made the ring. `pid` is its pid in its own pid namespace. */
    /* start time: field 22 of /proc/self/stat. With pid and boot id it identifies a process. */
    uint64_t start_ticks;
    int32_t pid;
    int32_t tid; /* thread that created the ring; later threads are in the dictionary */
    uint32_t uid;
    uint32_t ident_len;
    uint64_t pid_ns; /* inode of /proc/self/ns/pid, 0 if unknown */
    uint64_t mnt_ns;
    uint8_t boot_id[16];
    int64_t created_ns; /* when the ring was created, CLOCK_MONOTONIC_RAW */
    /* the first was read when the library was loaded, the second when the ring was made */
    mrd_ring_cal cal[2];
    /* 1 if readers must read this ring after all other rings of the process. */
    uint32_t rest;
    uint32_t reserved;
    /* By how much the clocks of the owner's time namespace are ahead of the machine's clocks. 0 if
     * they are equal or if this is unknown. */
    int64_t timens_monotonic_ns, timens_boottime_ns;
    uint8_t reserved0[72];

    /* Stored by the workload only. */
    _Alignas(64) _Atomic uint64_t head; /* bytes of data ever committed (release) */
    _Atomic uint64_t dict_head;         /* bytes of dictionary committed (release) */
    _Atomic uint32_t state;             /* mrd_ring_state */
    /* used slots of `open`; deeper scopes are recorded as BEGIN and END */
    _Atomic uint32_t depth;
    _Atomic uint32_t ops_flags; /* MRD_RING_OPS_* */
    /* Thread id, in the owner's pid namespace, of the thread to which ops_time belongs. 0 if the
     * ring has no ops_time. */
    _Atomic uint32_t ops_thread;
    /* outermost calls of the operation in ops[i] that this thread ended, modulo 2^32. It is stored
     * together with ops_time. */
    _Atomic uint32_t ops_calls[MRD_RING_OPS];
    uint8_t reserved1[8];

    /* Stored by the reader only. */
    _Alignas(64) _Atomic uint64_t tail; /* bytes of data ever consumed */
    _Atomic uint64_t
        tail_check; /* bitwise complement of `tail`; the writer ignores `tail` unless both match */
    /* 1 if the reader asks the workload to record nothing. Events are then not counted as lost. */
    _Atomic uint32_t pause;
    _Atomic uint32_t reader_pid; /* 0 if there is no reader */
    /* For the next reader: all records before position `done` were read. `tail` is lower if the
     * reader still needs the begin of an open span that lies between. See
     * docs/reference/ring.md. */
    uint64_t done, gaps_done;
    /* Number of open spans that began before `tail`. Only the reader still has their BEGIN
     * records. */
    uint64_t open_lost;
    int64_t open_lost_ns; /* wall clock of the oldest of these spans */
    uint8_t reserved2[8];

    /* Stored by the workload only. */
    _Alignas(64) mrd_ring_loss lost[MRD_RING_LOST_CAUSES];
    mrd_ring_op ops[MRD_RING_OPS];

    mrd_ring_scope open[MRD_RING_OPEN_MAX];
    mrd_ring_ops_time ops_time; /* of the thread ops_thread */
    uint8_t ident
        [MRD_RING_IDENT_MAX]; /* "key=value\n" lines, ident_len bytes, see docs/reference/ring.md */
} mrd_ring_hdr;

static_assert(sizeof(mrd_ring_hdr) == MRD_RING_HEADER_LEN, "ring ABI changed: bump MRD_RING_ABI");
static_assert(offsetof(mrd_ring_hdr, cal) == 96, "ring ABI changed");
static_assert(offsetof(mrd_ring_hdr, head) == 256, "ring ABI changed");
static_assert(offsetof(mrd_ring_hdr, tail) == 320, "ring ABI changed");
static_assert(offsetof(mrd_ring_hdr, done) == 344, "ring ABI changed");
static_assert(offsetof(mrd_ring_hdr, lost) == 384, "ring ABI changed");
static_assert(offsetof(mrd_ring_hdr, ops_flags) == 280, "ring ABI changed");
static_assert(offsetof(mrd_ring_hdr, ops) == 640, "ring ABI changed");
static_assert(offsetof(mrd_ring_hdr, ops_thread) == 284, "ring ABI changed");
static_assert(offsetof(mrd_ring_hdr, ops_calls) == 288, "ring ABI changed");
static_assert(offsetof(mrd_ring_hdr, open) == 1024, "ring ABI changed");
static_assert(offsetof(mrd_ring_hdr, ops_time) == 1984, "ring ABI changed");
static_assert(offsetof(mrd_ring_hdr, ident) == 2048, "ring ABI changed");
static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "shared counters must be lock-free");

/* ---- data records ---------------------------------------------------------------------------- */

typedef enum {
    MRD_REC_PAD = 1,   /* fills the end of the data area; skip it */
    MRD_REC_SPAN = 2,  /* complete span: ts is the start, value the duration in ticks */
    MRD_REC_BEGIN = 3, /* begin of a span with its end in another record; value is the span id */
    MRD_REC_END = 4, /* end of a span, maybe begun in another thread's ring; value is the span id */
    MRD_REC_INSTANT = 5, /* value is an id or 0; flags contain the mrd_scope_of */
    MRD_REC_COUNTER = 6, /* value is the sample; flags have the number type */
    /* value is the flow id; flags have the direction. The flow is tied to the span that is open at
     * ts. */
    MRD_REC_FLOW = 7,
    /* Events were lost. ts is the time of the first and value of the last of them, name is the
     * cause, extra the number. */
    MRD_REC_LOSS = 8,
    /* a reading of the clocks (mrd_ring_cal): ts is ticks, value raw_ns, extra wall_ns, name
     * width */
    MRD_REC_CLOCK = 9,
    /* chunk of a blob (a long text): value is its offset, domain the blob's number, track its
     * number of bytes */
    MRD_REC_BLOB = 10,
    /* A model was loaded or unloaded. value is the number of the load in its process, equal for
     * load and unload; the arguments describe the model. */
    MRD_REC_MODEL = 11,
    MRD_REC_NOTICE = 12, /* a message for the user; the record's name is the message */
} mrd_rec_kind;

enum {
    MRD_RECF_BODY = 1,  /* after the first 32 bytes come arguments (BLOB: raw bytes) */
    MRD_RECF_FIRST = 2, /* BLOB: first chunk */
    MRD_RECF_LAST = 4,  /* BLOB: last chunk */
    /* BLOB: the blob ends here, but is incomplete. Other kinds: arguments were cut */
    MRD_RECF_CUT = 8,
    /* BLOB, first chunk: the library left out earlier texts because no session requested them. So a
     * gap in the sequence numbers of events before this chunk does not mean a loss. */
    MRD_RECF_APART = 16,
    MRD_RECF_LOAD = 2,   /* MODEL: the model was loaded */
    MRD_RECF_UNLOAD = 4, /* MODEL: the model was unloaded */
    MRD_RECF_FRAME = 2,  /* SPAN, BEGIN: a frame (mrd_frame in meridian.h) */
    MRD_RECF_API = 16,   /* SPAN, BEGIN: a runtime call timed by the library */
    /* flags >> MRD_RECF_SHIFT is the type of a counter's value, the scope of an instant, or the
     * direction of a flow */
    MRD_RECF_SHIFT = 4,
};
typedef enum { MRD_REC_U64 = 0, MRD_REC_I64 = 1, MRD_REC_F64 = 2 } mrd_rec_number;
typedef enum {
    MRD_REC_SCOPE_THREAD = 0,
    MRD_REC_SCOPE_PROCESS = 1,
    MRD_REC_SCOPE_GLOBAL = 2,
    MRD_REC_SCOPE_TASK = 3,
} mrd_rec_scope;
typedef enum {
    MRD_REC_FLOW_START = 0,
    MRD_REC_FLOW_STEP = 1,
    MRD_REC_FLOW_END = 2
} mrd_rec_flow_dir;

typedef struct {
    uint8_t kind;   /* mrd_rec_kind; a record of an unknown kind is counted and skipped */
    uint8_t flags;  /* MRD_RECF_* */
    uint16_t units; /* length in units of 32 bytes, including these 32 bytes; never 0 */
    uint32_t name;  /* dictionary id; if 0, the first item of the body (if any) has the name */
    uint64_t ts;
    uint64_t value;
    union {
        struct {
            uint32_t domain; /* dictionary id of the domain's name, 0 for none */
            uint32_t track;  /* dictionary id of a track (timeline row), 0 for the thread's own */
        };
        uint64_t extra;
    };
} mrd_ring_rec;

static_assert(sizeof(mrd_ring_rec) == MRD_RING_UNIT, "ring ABI changed");

/* ---- items: they form a record's body, 8-byte aligned, up to its end or an item of type 0
 * ----- */

typedef enum {
    MRD_ITEM_END = 0,
    MRD_ITEM_I64 = 1,
    MRD_ITEM_U64 = 2,
    MRD_ITEM_F64 = 3,
    MRD_ITEM_BOOL = 4, /* 64 bits: 0 or 1 */
    MRD_ITEM_TEXT = 5, /* text, should be UTF-8; the writer does not check this */
    MRD_ITEM_JSON = 6, /* text that is one JSON value */
    MRD_ITEM_ID = 7,   /* 64 bits: dictionary id of a text */
    MRD_ITEM_NAME = 8, /* text: name of the record; only as first item, if rec.name is 0 */
    MRD_ITEM_KEY = 9,  /* text: key of the next item, whose own `key` is 0 */
} mrd_item_type;

enum { MRD_ITEMF_CUT = 1 }; /* the text was too long and was cut */

typedef struct {
    uint8_t type;  /* items of unknown types are skipped */
    uint8_t flags; /* MRD_ITEMF_* */
    uint16_t len;  /* bytes of payload without the padding to a multiple of 8 */
    uint32_t key;  /* dictionary id */
} mrd_ring_item;   /* the payload follows */

static_assert(sizeof(mrd_ring_item) == 8, "ring ABI changed");

/* ---- dictionary entries: 8-byte aligned, append-only, valid below dict_head ------------------ */

typedef enum {
    MRD_DICT_TEXT = 1, /* a name: id, then the text */
    MRD_DICT_THREAD =
        /* A thread that used the ring. id is its tid, pos the data position of its first record,
         * and the text its name. */
    2,
    MRD_DICT_TRACK = 3, /* a track; the entry is followed by a mrd_ring_track and the name */
} mrd_dict_type;

typedef struct {
    uint8_t type; /* entries of unknown types are skipped */
    uint8_t reserved;
    uint16_t text_len; /* bytes of the text that follows, at most MRD_RING_TEXT_MAX */
    uint32_t len;      /* bytes of the whole entry, a multiple of 8 */
    uint32_t id;
    uint32_t reserved1;
    uint64_t pos;
} mrd_ring_dict;

typedef enum {
    MRD_RING_TRACK_SPANS = 1,   /* a line of its own inside the process */
    MRD_RING_TRACK_COUNTER = 2, /* values of one counter */
    MRD_RING_TRACK_FRAMES = 3,  /* the line of frames, one per process */
} mrd_ring_track_kind;

typedef struct {
    uint32_t kind;
    int32_t lnc_idx, pcore_idx, device_idx; /* -1 if unknown */
    uint32_t domain;                        /* dictionary id */
    uint32_t unit;                          /* dictionary id of the unit of measure, 0 for none */
} mrd_ring_track;

static_assert(sizeof(mrd_ring_dict) == 24 && sizeof(mrd_ring_track) == 24, "ring ABI changed");

#endif
