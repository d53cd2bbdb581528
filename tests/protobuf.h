/* Functions to build protobuf messages field by field, for tests of code that reads such
 * messages. */
#ifndef MRD_TESTS_PROTOBUF_H
#define MRD_TESTS_PROTOBUF_H

#include <string.h>

#include "base/buf.h"

static inline void
pb_varint(mrd_buf *to, uint64_t v)
{
    for (; v > 127; v >>= 7)
        mrd_buf_byte(to, (uint8_t) (v | 128));
    mrd_buf_byte(to, (uint8_t) v);
}

static inline void
pb_number(mrd_buf *to, unsigned field, uint64_t v)
{
    pb_varint(to, field << 3);
    pb_varint(to, v);
}

static inline void
pb_bytes(mrd_buf *to, unsigned field, const void *p, size_t n)
{
    pb_varint(to, field << 3 | 2);
    pb_varint(to, n);
    mrd_buf_add(to, p, n);
}

static inline void
pb_text(mrd_buf *to, unsigned field, const char *s)
{
    pb_bytes(to, field, s, strlen(s));
}

/* Adds the content of `from` as a field of `to`, and empties `from`. */
static inline void
pb_close_into(mrd_buf *to, unsigned field, mrd_buf *from)
{
    pb_bytes(to, field, from->p, from->len);
    mrd_buf_fini(from);
    *from = (mrd_buf){ 0 };
}

/* Adds an entry to a table of an XPlane: the name of an event (field 4) or of a statistic (field
 * 5). */
static inline void
pb_xplane_name(mrd_buf *plane, unsigned field, uint64_t id, const char *name)
{
    mrd_buf value = { 0 }, entry = { 0 };

    pb_number(&value, 1, id);
    pb_text(&value, 2, name);
    pb_number(&entry, 1, id);
    pb_close_into(&entry, 2, &value);
    pb_close_into(plane, field, &entry);
}

#endif
