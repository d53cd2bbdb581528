/*
 * trace/import/pb_read.h - reads protobuf messages field by field, without a schema. The values
 * point into the bytes of the message.
 */
#ifndef MRD_TRACE_PB_READ_H
#define MRD_TRACE_PB_READ_H

#include "base/buf.h"

enum { MRD_PB_VARINT = 0, MRD_PB_FIXED64 = 1, MRD_PB_BYTES = 2, MRD_PB_FIXED32 = 5 };

/* One field of a message. */
typedef struct {
    uint32_t number, wire, tag; /* tag: number << 3 | wire */
    uint64_t v;                 /* value of a varint or fixed field */
    mrd_bytes bytes;            /* value of a field of type MRD_PB_BYTES */
} mrd_pb_item;

static inline bool
mrd_pb_take_varint(mrd_bytes *from, uint64_t *ret)
{
    uint64_t v = 0;

    for (unsigned i = 0; i < 10 && i < from->len; i++) {
        v |= (uint64_t) (from->p[i] & 127) << (7 * i);
        if (from->p[i] < 128) {
            from->p += i + 1;
            from->len -= i + 1;
            *ret = v;
            return true;
        }
    }
    return false;
}

static inline bool
mrd_pb_take_fixed(mrd_bytes *from, size_t n, uint64_t *ret)
{
    *ret = 0;
    if (from->len < n)
        return false;
    memcpy(ret, from->p, n); /* protobuf and all supported machines are little-endian */
    from->p += n;
    from->len -= n;
    return true;
}

/* Reads the next field, and advances `from` past it. Returns false at the end of the message and
 * for an invalid field. At the end, from->len is 0. */
static inline bool
mrd_pb_take(mrd_bytes *from, mrd_pb_item *item)
{
    mrd_bytes rest = *from;
    uint64_t tag, n;

    if (rest.len == 0 || !mrd_pb_take_varint(&rest, &tag) || tag >> 3 == 0 || tag >> 32 != 0)
        return false;
    *item = (mrd_pb_item){ .number = (uint32_t) (tag >> 3),
                           .wire = (uint32_t) (tag & 7),
                           .tag = (uint32_t) tag };
    if (item->wire == MRD_PB_BYTES) {
        if (!mrd_pb_take_varint(&rest, &n) || n > rest.len)
            return false;
        item->bytes = (mrd_bytes){ rest.p, (size_t) n };
        rest.p += n;
        rest.len -= (size_t) n;
    } else if (item->wire == MRD_PB_VARINT ? !mrd_pb_take_varint(&rest, &item->v)
               : item->wire == MRD_PB_FIXED64
                   ? !mrd_pb_take_fixed(&rest, 8, &item->v)
                   : item->wire != MRD_PB_FIXED32 || !mrd_pb_take_fixed(&rest, 4, &item->v)) {
        return false;
    }
    *from = rest;
    return true;
}

static inline mrd_str
mrd_pb_text(mrd_bytes bytes)
{
    return (mrd_str){ (const char *) bytes.p, bytes.len };
}

#endif
