/*
 * proto/frame.h - the frame, the unit that every Meridian connection carries and the journal
 * stores: a header of 96 bytes and a body. docs/reference/wire.md section 3 is the specification.
 *
 * The header has everything that an aggregator needs to store a batch without decoding it: sender,
 * session, sequence number, local times, number of events. All integers are little-endian. Header
 * and body each have a CRC-32C. Decoding checks every field against the limits below before it
 * allocates memory. Any thread may call these functions.
 */
#ifndef MRD_PROTO_FRAME_H
#define MRD_PROTO_FRAME_H

#include "base/buf.h"
#include "base/clock.h"

#define MRD_WIRE_MAJOR 1
#define MRD_WIRE_MINOR 2
/* From this minor wire version on, agents report for each session why a trigger fired. Older agents
 * report it once for the whole node. Newer agents also select processes by namespace, cluster and
 * run. */
#define MRD_WIRE_OF_REPORTS 2

#define MRD_FRAME_HEADER 96u
#define MRD_FRAME_MAX    (4u << 20) /* maximum bytes of a frame, with header and body */
/* maximum decompressed bytes of a batch's head, and of its columns */
#define MRD_FRAME_RAW_MAX (16u << 20)
/* maximum bytes of a message other than a batch or a chunk of a file */
#define MRD_FRAME_MSG_MAX    (256u << 10)
#define MRD_FRAME_ANSWER_MAX (16u << 10) /* maximum bytes of a frame on the control channel */
#define MRD_BATCH_EVENTS     65536u      /* maximum number of events in a batch */
#define MRD_BATCH_USUAL      8192u       /* number of events in a usual full batch */
#define MRD_CHUNK_MAX        (1u << 20)  /* maximum bytes of file contents in one chunk */

/* Frame types. The values are part of the wire format. The body is the message of meridian.proto
 * with the same name. */
typedef enum {
    MRD_FRAME_HELLO = 1,
    MRD_FRAME_WELCOME = 2,
    MRD_FRAME_REFUSE = 3,
    MRD_FRAME_ACK = 4,
    MRD_FRAME_HEARTBEAT = 5,
    /* events; numbered and stored by the aggregator. The body is a BatchHead, then BatchColumns. */
    MRD_FRAME_BATCH = 6,
    MRD_FRAME_CLOCK_DATA = 7, /* numbered and stored by the aggregator, like a batch */
    MRD_FRAME_ANNOUNCE = 8,
    MRD_FRAME_REQUEST = 9,
    MRD_FRAME_CHUNK = 10,
    MRD_FRAME_DONE = 11,
    MRD_FRAME_PROBE = 12,
    MRD_FRAME_PROBE_REPLY = 13,
    MRD_FRAME_CONTROL = 14,
    MRD_FRAME_CONTROL_REPLY = 15,
    MRD_FRAME_JOB = 16,
    MRD_FRAME_JOB_REPLY = 17,
    MRD_FRAME_TYPES
} mrd_frame_type;

/* Returns the name of a frame type as a static text, such as "batch"; "unknown" for other
 * values. */
const char *mrd_frame_type_text(uint8_t type);

/* How the head and the columns of a batch are compressed. The values are part of the wire format. 1
 * was LZ4 in earlier releases and is refused. */
typedef enum { MRD_CODEC_NONE = 0, MRD_CODEC_ZSTD = 2 } mrd_codec_id;

typedef struct {
    uint8_t type;       /* mrd_frame_type */
    uint8_t codec;      /* batch: mrd_codec_id of head and columns; other types: NONE */
    uint8_t clock;      /* clock of a batch's times (Mrd__ClockKind) */
    uint32_t head_len;  /* batch: bytes of the (compressed) BatchHead at the start of the body */
    uint32_t head_raw;  /* batch: size of the BatchHead after decompression */
    uint32_t body_len;  /* bytes of the body, which follows the header; includes the BatchHead */
    uint32_t cols_raw;  /* batch: bytes of the columns after decompression */
    uint32_t events;    /* batch: number of events, including loss records */
    uint32_t body_crc;  /* CRC-32C of the body, set by mrd_frame_put */
    uint64_t agent;     /* sender: mrd_agent_key of its instance id */
    uint64_t epoch;     /* numbered frames: changes when the agent starts again at seq 0 */
    uint64_t session;   /* id of the session; 0 means none */
    uint64_t seq;       /* numbered frames: 0, 1, ... per (agent, epoch, session) */
    int64_t process_id; /* batch: process of the events */
    mrd_ev_ns first;    /* batch: start of the first event, local time of `clock` */
    /* batch: latest end of an event. For an unfinished span, its start counts. */
    mrd_ev_ns last;
    uint32_t boot; /* mrd_boot_key of the boot to which the times belong, 0 if unknown */
} mrd_frame;

/* Returns a 32-bit key of a boot id. Frames carry the key because RAW clocks of two boots are
 * unrelated. The key is 0 only for an empty text. */
uint32_t mrd_boot_key(mrd_str boot_id);
/* Returns the 64-bit key of an instance id: the first 8 bytes of its SHA-256 as a little-endian
 * number. */
uint64_t mrd_agent_key(mrd_str instance_id);

/* Sets body_crc and body_len of `frame` from `body`, and writes the header of 96 bytes to `to`. */
void mrd_frame_put(mrd_frame *frame, mrd_bytes body, uint8_t to[MRD_FRAME_HEADER]);
/* Writes the header of a frame with an unchanged body. body_crc and body_len of `frame` must be
 * set. */
void mrd_frame_stamp(const mrd_frame *frame, uint8_t to[MRD_FRAME_HEADER]);

/*
 * Reads and checks a header.
 *
 * TRUNCATED     less than 96 bytes
 * FORMAT        no magic number
 * VERSION       another major version; the message names both versions
 * CORRUPT       wrong CRC of the header, or lengths that contradict each other
 * LIMIT         a length above its limit
 * UNSUPPORTED   an unknown frame type of the same major version
 */
mrd_err mrd_frame_get(mrd_bytes data, mrd_frame *ret_frame, mrd_why *why);
/* Checks that `data` is exactly one frame and that the CRC of the body is correct. *ret_body points
 * into `data`. Errors: as mrd_frame_get, but TRUNCATED and CORRUPT can also refer to the body. */
mrd_err mrd_frame_check(mrd_bytes data, mrd_frame *ret_frame, mrd_bytes *ret_body, mrd_why *why);

/* Returns whether an instance id (the id of a node) can be a directory name. It must have 1 to 128
 * of the characters [A-Za-z0-9._-] and must not begin with a dot. */
bool mrd_instance_id_valid(mrd_str instance_id);

#endif
