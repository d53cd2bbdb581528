/* tests/aggregator/carrier.h - an agent "i-9" that sends single messages, for tests of artifacts. */
#ifndef MRD_TESTS_CARRIER_H
#define MRD_TESTS_CARRIER_H

#include <time.h>

#include "proto/link.h"
#include "proto/wire.h"
#include "tests/check.h"
#include "tests/wait.h"

typedef struct {
    mrd_link *link;
    uint64_t session, tags; /* `tags` is the number of messages sent; each has its own tag */
    unsigned late;          /* replies that arrived after the wait for them ended */
} carrier;

/* Submits a frame and returns its tag. */
static inline uint64_t
submit_frame(carrier *c, mrd_bytes wire)
{
    CHECK_ERR("submit", mrd_link_submit(c->link, ++c->tags, wire), MRD_OK);
    return c->tags;
}

static inline mrd_buf
packed(const carrier *c, uint8_t type, const void *message)
{
    mrd_frame f = { .type = type, .agent = mrd_agent_key(MRD_STR("i-9")), .session = c->session };
    mrd_buf wire = { 0 };

    CHECK_ERR("pack", mrd_msg_pack(&f, message, &wire, NULL), MRD_OK);
    return wire;
}

/* Submits one message without waiting for the reply. */
static inline void
submit(carrier *c, uint8_t type, const void *message)
{
    mrd_buf wire = packed(c, type, message);

    submit_frame(c, (mrd_bytes){ wire.p, wire.len });
    mrd_buf_fini(&wire);
}

/* Returns the reply to a frame. The frame is resent each time the link times out, because on a busy
 * machine a reply may take longer. Without a reply the case ends here, because the following checks
 * would read it. */
static inline mrd_msg
exchange_frame(carrier *c, mrd_bytes wire)
{
    uint64_t tag = submit_frame(c, wire);
    mrd_msg msg = { 0 };
    mrd_link_event ev;

    while (mrd_link_next(c->link, 60000, &ev)) {
        bool reply = ev.kind == MRD_LINK_REPLY && ev.tag == tag;

        c->late += ev.kind == MRD_LINK_REPLY && !reply;
        if (ev.kind == MRD_LINK_FAILED && ev.tag == tag)
            tag = submit_frame(c, wire);
        if (reply)
            CHECK_ERR("reply", mrd_msg_unpack(ev.data, &msg, NULL), MRD_OK);
        mrd_link_event_done(&ev);
        if (reply && msg.u.m != NULL)
            return msg;
        if (reply)
            break;
    }
    CHECK(false && "an answer");
    exit(1);
}

/* Sends one message and returns the reply. Free it with mrd_msg_free. */
static inline mrd_msg
exchange(carrier *c, uint8_t type, const void *message)
{
    mrd_buf wire = packed(c, type, message);
    mrd_msg reply = exchange_frame(c, (mrd_bytes){ wire.p, wire.len });

    mrd_buf_fini(&wire);
    return reply;
}

/* Sends a batch with an invalid body, which the aggregator never decodes. */
static inline mrd_msg
exchange_batch(carrier *c, uint64_t epoch, uint64_t seq)
{
    uint8_t wire[MRD_FRAME_HEADER + 4] = { 0 };
    mrd_frame f = { .type = MRD_FRAME_BATCH,
                    .agent = mrd_agent_key(MRD_STR("i-9")),
                    .session = c->session,
                    .epoch = epoch,
                    .seq = seq,
                    .events = 1,
                    .head_len = 2,
                    .head_raw = 2,
                    .cols_raw = 2 };

    mrd_frame_put(&f, (mrd_bytes){ wire + MRD_FRAME_HEADER, 4 }, wire);
    return exchange_frame(c, (mrd_bytes){ wire, sizeof(wire) });
}

static inline uint32_t
chunk(carrier *c, char *sha, uint64_t offset, const char *data, uint64_t *ret_offset)
{
    Mrd__ArtifactChunk m = MRD__ARTIFACT_CHUNK__INIT;
    mrd_msg reply;
    uint32_t status_;

    m.sha256 = sha;
    m.offset = offset;
    m.data = (ProtobufCBinaryData){ strlen(data), (uint8_t *) (uintptr_t) data };
    reply = exchange(c, MRD_FRAME_CHUNK, &m);
    *ret_offset = reply.u.ack->artifact_offset;
    status_ = reply.u.ack->status;
    mrd_msg_free(&reply);
    return status_;
}

/* Sends a hello until it is welcome. */
static inline void
carrier_hello(carrier *c)
{
    Mrd__Hello hello = MRD__HELLO__INIT;
    char id[] = "i-9";

    hello.wire_major = MRD_WIRE_MAJOR;
    hello.instance_id = id;
    for (int64_t end = test_deadline(); test_in_time(end); test_look_again()) {
        mrd_msg r = exchange(c, MRD_FRAME_HELLO, &hello);
        bool welcome = r.frame.type == MRD_FRAME_WELCOME;

        mrd_msg_free(&r);
        if (welcome)
            return;
    }
    CHECK(false);
}

#endif
