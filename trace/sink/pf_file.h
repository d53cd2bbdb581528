/*
 * trace/sink/pf_file.h - the bytes of a Perfetto trace: tags of the messages that are written, and
 * packets. Packets are collected in blocks, plain or compressed by zlib.
 *
 * Source  protos/perfetto/trace of google/perfetto. A trace is `0x0A length packet` repeated.
 */
#ifndef MRD_TRACE_PF_FILE_H
#define MRD_TRACE_PF_FILE_H

#include "base/out.h"
#include "trace/sink/pb_write.h"

#define PF_TAG(field, wire) ((uint32_t) (field) << 3 | (wire))
#define PF_VARINT           0u
#define PF_FIXED64          1u
#define PF_BYTES            2u

enum {
    PF_TRACE_PACKET = PF_TAG(1, PF_BYTES),
    /* TracePacket */
    PF_CLOCK_SNAPSHOT = PF_TAG(6, PF_BYTES),
    PF_TIMESTAMP = PF_TAG(8, PF_VARINT),
    PF_SEQUENCE_ID = PF_TAG(10, PF_VARINT),
    PF_TRACK_EVENT = PF_TAG(11, PF_BYTES),
    PF_INTERNED_DATA = PF_TAG(12, PF_BYTES),
    PF_SEQUENCE_FLAGS = PF_TAG(13, PF_VARINT),
    PF_TRACE_STATS = PF_TAG(35, PF_BYTES),
    PF_COMPRESSED = PF_TAG(50, PF_BYTES),
    PF_TIMESTAMP_CLOCK = PF_TAG(58, PF_VARINT),
    PF_DEFAULTS = PF_TAG(59, PF_BYTES),
    PF_TRACK_DESCRIPTOR = PF_TAG(60, PF_BYTES),
    PF_SERVICE_EVENT = PF_TAG(69, PF_BYTES),
    PF_TRACE_ATTRIBUTES = PF_TAG(126, PF_BYTES),
    /* ClockSnapshot, and its Clock */
    PF_SNAPSHOT_CLOCK = PF_TAG(1, PF_BYTES),
    PF_SNAPSHOT_PRIMARY = PF_TAG(2, PF_VARINT),
    PF_CLOCK_ID = PF_TAG(1, PF_VARINT),
    PF_CLOCK_TIME = PF_TAG(2, PF_VARINT),
    PF_CLOCK_INCREMENTAL = PF_TAG(3, PF_VARINT),
    /* TracingServiceEvent */
    PF_SERVICE_FLUSHED = PF_TAG(3, PF_VARINT),
    PF_SERVICE_READ = PF_TAG(4, PF_VARINT),
    /* TrackDescriptor, and its CounterDescriptor */
    PF_TRACK_UUID = PF_TAG(1, PF_VARINT),
    PF_TRACK_NAME = PF_TAG(2, PF_BYTES),
    PF_TRACK_PROCESS = PF_TAG(3, PF_BYTES),
    PF_PROCESS_PID = PF_TAG(1, PF_VARINT),
    PF_PROCESS_NAME = PF_TAG(6, PF_BYTES),
    PF_TRACK_THREAD = PF_TAG(4, PF_BYTES),
    PF_THREAD_PID = PF_TAG(1, PF_VARINT),
    PF_THREAD_TID = PF_TAG(2, PF_VARINT),
    PF_THREAD_NAME = PF_TAG(5, PF_BYTES),
    PF_TRACK_PARENT = PF_TAG(5, PF_VARINT),
    PF_TRACK_COUNTER = PF_TAG(8, PF_BYTES),
    PF_TRACK_CHILD_ORDER = PF_TAG(11, PF_VARINT),
    PF_TRACK_RANK = PF_TAG(12, PF_VARINT),
    PF_TRACK_DESCRIPTION = PF_TAG(14, PF_BYTES),
    PF_TRACK_MERGE = PF_TAG(15, PF_VARINT),
    PF_COUNTER_UNIT = PF_TAG(3, PF_VARINT),
    PF_COUNTER_UNIT_NAME = PF_TAG(6, PF_BYTES),
    /* TrackEvent */
    PF_EVENT_CATEGORY_IID = PF_TAG(3, PF_VARINT),
    PF_EVENT_ANNOTATION = PF_TAG(4, PF_BYTES),
    PF_EVENT_TYPE = PF_TAG(9, PF_VARINT),
    PF_EVENT_NAME_IID = PF_TAG(10, PF_VARINT),
    PF_EVENT_TRACK = PF_TAG(11, PF_VARINT),
    PF_EVENT_NAME = PF_TAG(23, PF_BYTES),
    PF_EVENT_COUNTER = PF_TAG(30, PF_VARINT),
    PF_EVENT_COUNTER_DOUBLE = PF_TAG(44, PF_FIXED64),
    PF_EVENT_FLOW = PF_TAG(47, PF_FIXED64),
    /* DebugAnnotation */
    PF_ARG_NAME_IID = PF_TAG(1, PF_VARINT),
    PF_ARG_BOOL = PF_TAG(2, PF_VARINT),
    PF_ARG_UINT = PF_TAG(3, PF_VARINT),
    PF_ARG_INT = PF_TAG(4, PF_VARINT),
    PF_ARG_DOUBLE = PF_TAG(5, PF_FIXED64),
    PF_ARG_STRING = PF_TAG(6, PF_BYTES),
    PF_ARG_NAME = PF_TAG(10, PF_BYTES),
    PF_ARG_STRING_IID = PF_TAG(17, PF_VARINT),
    /* InternedData, and each entry of it */
    PF_INTERN_CATEGORY = PF_TAG(1, PF_BYTES),
    PF_INTERN_NAME = PF_TAG(2, PF_BYTES),
    PF_INTERN_ARG_NAME = PF_TAG(3, PF_BYTES),
    PF_INTERN_ARG_STRING = PF_TAG(29, PF_BYTES),
    PF_INTERN_IID = PF_TAG(1, PF_VARINT),
    PF_INTERN_TEXT = PF_TAG(2, PF_BYTES),
    /* TraceAttributes, TraceStats */
    PF_ATTRIBUTE = PF_TAG(1, PF_BYTES),
    PF_ATTRIBUTE_KEY = PF_TAG(1, PF_BYTES),
    PF_ATTRIBUTE_INT = PF_TAG(2, PF_VARINT),
    PF_ATTRIBUTE_TEXT = PF_TAG(3, PF_BYTES),
    PF_STATS_BUFFER = PF_TAG(1, PF_BYTES),
    PF_STATS_WRITER = PF_TAG(18, PF_BYTES),
    PF_BUFFER_SIZE = PF_TAG(12, PF_VARINT),
    PF_BUFFER_LOST = PF_TAG(19, PF_VARINT),
    PF_WRITER_SEQUENCE = PF_TAG(1, PF_VARINT),
    PF_WRITER_BUFFER = PF_TAG(4, PF_VARINT),
};

enum { PF_BEGIN = 1, PF_END = 2, PF_INSTANT = 3, PF_COUNTER = 4 };
enum { PF_REALTIME = 1, PF_BOOTTIME = 6, PF_OWN_CLOCK = 64 };
enum { PF_UNIT_NS = 1, PF_UNIT_COUNT = 2, PF_UNIT_BYTES = 3 };
enum { PF_ORDER_EXPLICIT = 3, PF_MERGE_NONE = 2 };

#define PF_BLOCK (128u << 10) /* bytes of packets per write or compressed packet */

typedef struct {
    mrd_out *out;
    void *deflate; /* z_stream, or NULL without compression */
    mrd_buf block, packed;
    uint64_t raw; /* bytes of packets before compression */
    mrd_err err;
} mrd_pf_file;

/* Errors: NOMEM. mrd_pf_file_fini may be called on a zeroed or failed file, and writes nothing. */
mrd_err mrd_pf_file_init(mrd_pf_file *f, mrd_out *out, bool compress);
void mrd_pf_file_fini(mrd_pf_file *f);
/* Passes the block to the output. */
void mrd_pf_file_flush(mrd_pf_file *f);

/* Returns room for `len` bytes of complete packets. NULL if out of memory, which sets f->err. */
static inline uint8_t *
mrd_pf_room(mrd_pf_file *f, size_t len)
{
    if (__builtin_expect(f->block.len + len > PF_BLOCK, 0)) {
        mrd_pf_file_flush(f);
        if (!mrd_buf_room(&f->block, len > PF_BLOCK ? len : PF_BLOCK)) {
            f->err = MRD_NOMEM;
            return NULL;
        }
    }
    return f->block.p + f->block.len;
}

static inline void
mrd_pf_did(mrd_pf_file *f, const uint8_t *end)
{
    f->block.len = (size_t) (end - f->block.p);
}

/* Writes the head of a packet. The caller then writes its body, which must have this length. Errors
 * as mrd_pf_room. */
static inline uint8_t *
mrd_pf_packet_room(mrd_pf_file *f, size_t body)
{
    uint8_t *p = mrd_pf_room(f, body + 2 * MRD_PB_VARINT_MAX);

    if (p != NULL) {
        *p++ = PF_TRACE_PACKET;
        p = mrd_pb_varint(p, body);
    }
    return p;
}

/* Adds one packet with this body. */
void mrd_pf_packet(mrd_pf_file *f, const mrd_buf *body);

#endif
