/* Fuzzes an agent with control messages of an aggregator. Each message of the input has two bytes
 * of length and the body of a Control. The agent carries them out in turn. It must not have a
 * session twice, nor more sessions than the limit. */
#include <stdlib.h>

#include "agent/record/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
carry_out(mrd_record *r, const Mrd__Control *c)
{
    mrd_record_status st;

    switch (c->type) {
    case MRD__CONTROL_TYPE__CONTROL_ARM:
        (void) mrd_record_arm(r, c, NULL);
        break;
    case MRD__CONTROL_TYPE__CONTROL_GO:
        (void) mrd_record_go(r, c, (mrd_local_ns){ c->at_session_ns }, -1, NULL);
        break;
    case MRD__CONTROL_TYPE__CONTROL_STOP:
        (void) mrd_record_stop(r, c->session, (mrd_local_ns){ c->at_session_ns });
        break;
    case MRD__CONTROL_TYPE__CONTROL_TRIGGER:
        if (c->trigger != NULL)
            (void) mrd_record_trigger(r, c->session, c->trigger->id,
                                      (mrd_local_ns){ c->trigger->from_wall_ns },
                                      (mrd_local_ns){ c->trigger->to_wall_ns });
        break;
    default:
        mrd_record_cancel(r, c->session);
        if (mrd_record_find(r, c->session, &st))
            abort();
    }
    if (mrd_record_sessions(r) > MRD_RECORD_SESSIONS)
        abort();
    mrd_record_step(r, mrd_local_now());
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mrd_drain_options po = { .instance_id = "i-1",
                             .ring_dir = "/nonexistent",
                             .proc_root = "/nonexistent" };
    mrd_record_options ro = { .recorder_max = 1 << 20 };
    mrd_frame f = { .type = MRD_FRAME_CONTROL };
    mrd_record *r = NULL;

    if (mrd_spool_open(&(mrd_spool_options){ .max_bytes = MRD_SPOOL_MIN_BYTES }, &ro.spool, NULL) !=
            MRD_OK ||
        mrd_drain_open(&po, &ro.drain, NULL) != MRD_OK || mrd_record_open(&ro, &r, NULL) != MRD_OK)
        abort();
    while (size >= 2) {
        size_t len = (size_t) data[0] << 8 | data[1];
        mrd_msg msg;

        len = len > size - 2 ? size - 2 : len;
        if (mrd_msg_unpack_body(&f, (mrd_bytes){ data + 2, len }, &msg, NULL) == MRD_OK) {
            carry_out(r, msg.u.control);
            mrd_msg_free(&msg);
        }
        data += 2 + len;
        size -= 2 + len;
    }
    mrd_record_close(r);
    mrd_drain_close(ro.drain);
    mrd_spool_close(ro.spool);
    return 0;
}
