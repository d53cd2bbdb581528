/*
 * trace/sink/perfetto/pf_file.h - the packets of a Perfetto trace. They are collected in blocks,
 * plain or compressed by zlib. trace/model/pf_tags.h has the tags of the messages.
 */
#ifndef MRD_TRACE_PF_FILE_H
#define MRD_TRACE_PF_FILE_H

#include "base/sys/out.h"
#include "trace/model/pf_tags.h"
#include "trace/sink/perfetto/pb_write.h"

/* maximum bytes of packets that are collected for one write or one compressed packet */
#define PF_BLOCK (128u << 10)

typedef struct {
    mrd_out *out;
    void *deflate; /* a z_stream; NULL if packets are not compressed */
    mrd_buf block, packed;
    uint64_t raw; /* number of bytes of all packets before compression */
    mrd_err err;
} mrd_pf_file;

/* Initializes a file of packets. Errors: NOMEM. mrd_pf_file_fini may be called on a zeroed or
 * failed file, and writes nothing. */
mrd_err mrd_pf_file_init(mrd_pf_file *file, mrd_out *out, bool compress);
void mrd_pf_file_fini(mrd_pf_file *file);
/* Passes the collected block of packets to the output. */
void mrd_pf_file_flush(mrd_pf_file *file);

/* Returns room for `len` bytes of complete packets. On failure returns NULL and sets file->err. */
static inline uint8_t *
mrd_pf_room(mrd_pf_file *file, size_t len)
{
    if (__builtin_expect(file->block.len + len > PF_BLOCK, 0)) {
        mrd_pf_file_flush(file);
        if (!mrd_buf_room(&file->block, len > PF_BLOCK ? len : PF_BLOCK)) {
            file->err = MRD_NOMEM;
            return NULL;
        }
    }
    return file->block.p + file->block.len;
}

static inline void
mrd_pf_did(mrd_pf_file *file, const uint8_t *end)
{
    file->block.len = (size_t) (end - file->block.p);
}

/* Writes the head of a packet, and returns room for its body. The caller must write exactly `body`
 * bytes. Returns NULL as mrd_pf_room does. */
static inline uint8_t *
mrd_pf_packet_room(mrd_pf_file *file, size_t body)
{
    uint8_t *p = mrd_pf_room(file, body + 2 * MRD_PB_VARINT_MAX);

    if (p != NULL) {
        *p++ = PF_TRACE_PACKET;
        p = mrd_pb_varint(p, body);
    }
    return p;
}

/* Adds one packet with the given body. */
void mrd_pf_packet(mrd_pf_file *file, const mrd_buf *body);

#endif
