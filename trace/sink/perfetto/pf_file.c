#include "trace/sink/perfetto/pf_file.h"

#include <stdlib.h>
#include <zlib.h>

/* Measured sizes: level 1 gives 12.0 bytes per span, 2 gives 11.4 at 1.1 times the time, 4 gives
 * 10.7 at 1.5 times, 6 gives 10 at 3 times. Reading costs the same for all levels. */
#define PF_LEVEL 2

mrd_err
mrd_pf_file_init(mrd_pf_file *f, mrd_out *out, bool compress)
{
    z_stream *z;

    *f = (mrd_pf_file){ .out = out };
    if (!mrd_buf_room(&f->block, PF_BLOCK))
        return MRD_NOMEM;
    if (!compress)
        return MRD_OK;
    if ((z = calloc(1, sizeof(*z))) == NULL)
        return MRD_NOMEM;
    if (deflateInit(z, PF_LEVEL) != Z_OK) {
        free(z);
        return MRD_NOMEM;
    }
    f->deflate = z;
    return MRD_OK;
}

void
mrd_pf_file_fini(mrd_pf_file *f)
{
    if (f->deflate != NULL)
        deflateEnd(f->deflate);
    free(f->deflate);
    mrd_buf_fini(&f->block);
    mrd_buf_fini(&f->packed);
    f->deflate = NULL;
}

/* Writes the block as one packet that contains packets. */
static void
file_flush_packed(mrd_pf_file *f)
{
    z_stream *z = f->deflate;
    size_t bound = deflateBound(z, f->block.len);
    uint8_t head[2 * MRD_PB_VARINT_MAX + 2], *p = head, length[MRD_PB_VARINT_MAX];
    size_t inner;

    mrd_buf_reset(&f->packed);
    if (!mrd_buf_room(&f->packed, bound)) {
        f->err = MRD_NOMEM;
        return;
    }
    deflateReset(z);
    z->next_in = f->block.p;
    z->avail_in = (uInt) f->block.len;
    z->next_out = f->packed.p;
    z->avail_out = (uInt) bound;
    if (deflate(z, Z_FINISH) != Z_STREAM_END) {
        f->err = MRD_IO;
        return;
    }
    f->packed.len = bound - z->avail_out;
    inner = (size_t) (mrd_pb_varint(length, f->packed.len) - length) + f->packed.len +
            (PF_COMPRESSED >= 0x80 ? 2 : 1);
    p = mrd_pb_varint(p, PF_TRACE_PACKET);
    p = mrd_pb_varint(p, inner);
    p = mrd_pb_varint(p, PF_COMPRESSED);
    p = mrd_pb_varint(p, f->packed.len);
    mrd_out_add(f->out, head, (size_t) (p - head));
    mrd_out_add(f->out, f->packed.p, f->packed.len);
}

void
mrd_pf_file_flush(mrd_pf_file *f)
{
    if (f->block.len == 0)
        return;
    f->raw += f->block.len;
    if (f->deflate != NULL)
        file_flush_packed(f);
    else
        mrd_out_add(f->out, f->block.p, f->block.len);
    mrd_buf_reset(&f->block);
}

void
mrd_pf_packet(mrd_pf_file *f, const mrd_buf *body)
{
    uint8_t *p = mrd_pf_packet_room(f, body->len);

    if (body->err != MRD_OK)
        f->err = body->err;
    if (p == NULL || body->err != MRD_OK)
        return;
    memcpy(p, body->p, body->len);
    mrd_pf_did(f, p + body->len);
}
