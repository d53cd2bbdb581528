/* Fuzzes the decoders of all messages of the wire. The first byte selects the type of the message,
 * and the rest is its body. A message that can be decoded is written and read again. */
#include "proto/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mrd_frame f = { 0 };
    mrd_msg msg, again;
    mrd_buf wire = { 0 };
    mrd_bytes body;

    if (size == 0)
        return 0;
    f.type = (uint8_t) (1 + data[0] % (MRD_FRAME_TYPES - 1));
    body = (mrd_bytes){ data + 1, size - 1 };
    if (mrd_msg_unpack_body(&f, body, &msg, NULL) == MRD_OK) {
        /* Unknown fields are kept. protobuf-c accepts some that it cannot read again afterwards. */
        if (mrd_msg_pack(&f, msg.u.m, &wire, NULL) == MRD_OK &&
            mrd_msg_unpack((mrd_bytes){ wire.p, wire.len }, &again, NULL) == MRD_OK)
            mrd_msg_free(&again);
        mrd_msg_free(&msg);
    }
    (void) mrd_msg_unpack((mrd_bytes){ data, size }, &msg, NULL); /* the checksums stop most */
    mrd_buf_fini(&wire);
    return 0;
}
