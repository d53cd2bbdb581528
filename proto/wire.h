/*
 * proto/wire.h - packs the messages of meridian.proto into frames and unpacks them.
 *
 * protobuf-c generates the structs (for example Mrd__Hello, initialised with MRD__HELLO__INIT).
 * Only proto/wire.c calls protobuf-c. The total memory of a decoded message is limited, and
 * mrd_msg_free frees it. Any thread may call these functions.
 */
#ifndef MRD_PROTO_WIRE_H
#define MRD_PROTO_WIRE_H

#include "proto/frame.h"
#include "proto/meridian.pb-c.h"

#define MRD_MSG_MEMORY_MAX (16u << 20) /* maximum memory of a decoded message with all its parts */

/* A decoded message of any type except batches. `m` points to the struct of frame.type. */
typedef struct {
    mrd_frame frame;
    union {
        void *m;
        Mrd__Hello *hello;
        Mrd__Welcome *welcome;
        Mrd__Refuse *refuse;
        Mrd__Ack *ack;
        Mrd__Heartbeat *heartbeat;
        Mrd__ClockData *clock_data;
        Mrd__ArtifactAnnounce *announce;
        Mrd__ArtifactRequest *request;
        Mrd__ArtifactChunk *chunk;
        Mrd__ArtifactDone *done;
        Mrd__Probe *probe;
        Mrd__ProbeReply *probe_reply;
        Mrd__Control *control;
        Mrd__ControlReply *control_reply;
        Mrd__Job *job;
        Mrd__JobReply *job_reply;
    } u;
    void *arena;
} mrd_msg;

/*
 * Appends a frame, which consists of a header and the packed message. `message` must be the struct
 * of frame->type. The caller sets type, agent, epoch, session and seq in *frame. Errors: NOMEM,
 * LIMIT (larger than its type allows).
 */
mrd_err mrd_msg_pack(mrd_frame *frame, const void *message, mrd_buf *to, mrd_why *why);

/*
 * Checks and unpacks a frame. The caller frees *ret_msg with mrd_msg_free. Errors: as
 * mrd_frame_check, TYPE for a batch, CORRUPT, LIMIT.
 */
mrd_err mrd_msg_unpack(mrd_bytes data, mrd_msg *ret_msg, mrd_why *why);
/* Does the work of mrd_msg_unpack for the body of a frame that the caller has already checked. */
mrd_err mrd_msg_unpack_body(const mrd_frame *frame, mrd_bytes body, mrd_msg *ret_msg, mrd_why *why);
/* mrd_wire_pack appends the packed message, for the head or the columns of a batch.
 * mrd_wire_unpack_head unpacks a batch head into new memory, which mrd_wire_free frees. */
mrd_err mrd_wire_pack(const void *message, mrd_buf *to);
mrd_err mrd_wire_unpack_head(mrd_bytes data, Mrd__BatchHead **ret_head, void **ret_arena,
                             mrd_why *why);
void mrd_wire_free(void *arena);
void mrd_msg_free(mrd_msg *msg); /* ignores NULL and a zeroed message */

/* Value of Job.request if the job requests no session. A user can still start a session that waits
 * for the job. */
#define MRD_JOB_UNASKED "-"

/* Returns a new session id. An id has 64 bits on the wire and is never 0. Its text, which people
 * see and which names directories, is for example "20260301-120000-3f2a". It consists of the UTC
 * second of creation and 16 random bits. */
#define MRD_SESSION_TEXT 24
uint64_t mrd_session_id_new(int64_t wall_ns, uint16_t random);
char *mrd_session_id_text(uint64_t id, char text[MRD_SESSION_TEXT]);
mrd_err mrd_session_id_parse(mrd_str text, uint64_t *ret_id); /* Errors: SYNTAX */

#endif
