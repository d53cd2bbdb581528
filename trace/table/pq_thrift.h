/*
 * trace/table/pq_thrift.h - writes the part of Thrift's compact protocol that headers and footers
 * of Parquet need. Fields must be written in ascending order. Threads: stateless.
 */
#ifndef MRD_TRACE_PQ_THRIFT_H
#define MRD_TRACE_PQ_THRIFT_H

#include "trace/table/pq_encode.h"

enum {
    TH_TRUE = 1,
    TH_FALSE = 2,
    TH_I16 = 4,
    TH_I32 = 5,
    TH_I64 = 6,
    TH_BINARY = 8,
    TH_LIST = 9,
    TH_STRUCT = 12
};

typedef struct {
    mrd_buf *to;
    int last; /* id of the previous field, because ids are stored as differences */
} mrd_thrift;

static inline void
mrd_thrift_field(mrd_thrift *thrift, int id, int type)
{
    if (id - thrift->last >= 1 && id - thrift->last <= 15) {
        mrd_buf_byte(thrift->to, (uint8_t) ((id - thrift->last) << 4 | type));
    } else {
        mrd_buf_byte(thrift->to, (uint8_t) type);
        mrd_pq_put_zigzag(thrift->to, id);
    }
    thrift->last = id;
}

static inline void
mrd_thrift_int(mrd_thrift *thrift, int id, int type, int64_t v)
{
    mrd_thrift_field(thrift, id, type);
    mrd_pq_put_zigzag(thrift->to, v);
}

static inline void
mrd_thrift_bool(mrd_thrift *thrift, int id, bool v)
{
    mrd_thrift_field(thrift, id, v ? TH_TRUE : TH_FALSE);
}

static inline void
mrd_thrift_binary(mrd_buf *to, const void *p, size_t len)
{
    mrd_pq_put_varint(to, len);
    mrd_buf_add(to, p, len);
}

static inline void
mrd_thrift_text(mrd_thrift *thrift, int id, mrd_str str)
{
    mrd_thrift_field(thrift, id, TH_BINARY);
    mrd_thrift_binary(thrift->to, str.p, str.len);
}

static inline void
mrd_thrift_list(mrd_thrift *thrift, int id, int type, size_t n)
{
    mrd_thrift_field(thrift, id, TH_LIST);
    if (n < 15) {
        mrd_buf_byte(thrift->to, (uint8_t) (n << 4 | (unsigned) type));
    } else {
        mrd_buf_byte(thrift->to, (uint8_t) (0xf0 | type));
        mrd_pq_put_varint(thrift->to, n);
    }
}

/* Begins a struct as field `id`. Id 0 is for list elements and for the outermost struct. Write the
 * struct's fields through the returned mrd_thrift. */
static inline mrd_thrift
mrd_thrift_open(mrd_thrift *thrift, int id)
{
    if (id > 0)
        mrd_thrift_field(thrift, id, TH_STRUCT);
    return (mrd_thrift){ thrift->to, 0 };
}

static inline void
mrd_thrift_end(mrd_thrift *thrift)
{
    mrd_buf_byte(thrift->to, 0);
}

#endif
