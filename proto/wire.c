#include "proto/wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/num.h"
#include "base/obj.h"

static const ProtobufCMessageDescriptor *const descriptors[MRD_FRAME_TYPES] = {
    [MRD_FRAME_HELLO] = &mrd__hello__descriptor,
    [MRD_FRAME_WELCOME] = &mrd__welcome__descriptor,
    [MRD_FRAME_REFUSE] = &mrd__refuse__descriptor,
    [MRD_FRAME_ACK] = &mrd__ack__descriptor,
    [MRD_FRAME_HEARTBEAT] = &mrd__heartbeat__descriptor,
    [MRD_FRAME_CLOCK_DATA] = &mrd__clock_data__descriptor,
    [MRD_FRAME_ANNOUNCE] = &mrd__artifact_announce__descriptor,
    [MRD_FRAME_REQUEST] = &mrd__artifact_request__descriptor,
    [MRD_FRAME_CHUNK] = &mrd__artifact_chunk__descriptor,
    [MRD_FRAME_DONE] = &mrd__artifact_done__descriptor,
    [MRD_FRAME_PROBE] = &mrd__probe__descriptor,
    [MRD_FRAME_PROBE_REPLY] = &mrd__probe_reply__descriptor,
    [MRD_FRAME_CONTROL] = &mrd__control__descriptor,
    [MRD_FRAME_CONTROL_REPLY] = &mrd__control_reply__descriptor,
    [MRD_FRAME_JOB] = &mrd__job__descriptor,
    [MRD_FRAME_JOB_REPLY] = &mrd__job_reply__descriptor,
};

mrd_err
mrd_msg_pack(mrd_frame *frame, const void *message, mrd_buf *to, mrd_why *why)
{
    const ProtobufCMessage *m = message;
    size_t len, start = to->len;
    uint8_t header[MRD_FRAME_HEADER];
    mrd_frame checked;
    mrd_err err;

    MRD_ASSERT(frame->type < MRD_FRAME_TYPES && m->descriptor == descriptors[frame->type]);
    len = protobuf_c_message_get_packed_size(m);
    if (!mrd_buf_room(to, MRD_FRAME_HEADER + len))
        return mrd_why_set(why, MRD_NOMEM, 0, "%s frame", mrd_frame_type_text(frame->type));
    protobuf_c_message_pack(m, to->p + start + MRD_FRAME_HEADER);
    mrd_frame_put(frame, (mrd_bytes){ to->p + start + MRD_FRAME_HEADER, len }, header);
    memcpy(to->p + start, header, sizeof(header));
    if ((err = mrd_frame_get((mrd_bytes){ header, sizeof(header) }, &checked, why)) != MRD_OK)
        return err; /* the frame is larger than the peer would accept */
    to->len += MRD_FRAME_HEADER + len;
    return MRD_OK;
}

/* Memory for one decoded message: a list of blocks that are freed together. The sum of their sizes
 * is limited. */
typedef struct arena_block {
    struct arena_block *next;
    max_align_t data[];
} arena_block;

typedef struct {
    arena_block *first;
    size_t used;                /* bytes used in all blocks */
    size_t in_block, block_cap; /* bytes used in the first block, and its size */
    bool starved;               /* an allocation failed */
} arena;

static void *
arena_alloc(void *self, size_t size)
{
    arena *a = self;
    size_t need = (size + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);

    if (need > MRD_MSG_MEMORY_MAX - a->used)
        return NULL;
    if (a->first == NULL || need > a->block_cap - a->in_block) {
        size_t cap = need > 4096 ? need : 4096;
        arena_block *block = malloc(sizeof(*block) + cap);

        if (block == NULL) {
            a->starved = true;
            return NULL;
        }
        block->next = a->first;
        a->first = block;
        a->block_cap = cap;
        a->in_block = 0;
    }
    a->used += need;
    a->in_block += need;
    return (char *) a->first->data + a->in_block - need;
}

static void
arena_free_one(void *self, void *p)
{
    (void) self;
    (void) p;
}

static void
arena_free(arena *a)
{
    while (a != NULL && a->first != NULL) {
        arena_block *next = a->first->next;

        free(a->first);
        a->first = next;
    }
    free(a);
}

mrd_err
mrd_wire_pack(const void *message, mrd_buf *to)
{
    size_t len = protobuf_c_message_get_packed_size(message);

    if (!mrd_buf_room(to, len))
        return MRD_NOMEM;
    to->len += protobuf_c_message_pack(message, to->p + to->len);
    return MRD_OK;
}

/* Unpacks a protobuf message into a new arena. Errors: CORRUPT if `data` is not such a message. */
static mrd_err
unpack(const ProtobufCMessageDescriptor *descriptor, mrd_bytes data, arena **ret_arena,
       void **ret_m)
{
    arena *a = calloc(1, sizeof(*a));
    ProtobufCAllocator allocator = { arena_alloc, arena_free_one, a };
    mrd_err err;

    if (a == NULL)
        return MRD_NOMEM;
    if ((*ret_m = protobuf_c_message_unpack(descriptor, &allocator, data.len, data.p)) == NULL) {
        err = a->starved ? MRD_NOMEM : MRD_CORRUPT;
        arena_free(a);
        return err;
    }
    *ret_arena = a;
    return MRD_OK;
}

mrd_err
mrd_wire_unpack_head(mrd_bytes data, Mrd__BatchHead **ret_head, void **ret_arena, mrd_why *why)
{
    arena *a = NULL;
    void *head;
    mrd_err err = unpack(&mrd__batch_head__descriptor, data, &a, &head);

    if (err != MRD_OK)
        return mrd_why_set(why, err, 0, "batch head of %zu bytes cannot be read", data.len);
    *ret_head = head;
    *ret_arena = a;
    return MRD_OK;
}

void
mrd_wire_free(void *a)
{
    arena_free(a);
}

mrd_err
mrd_msg_unpack_body(const mrd_frame *frame, mrd_bytes body, mrd_msg *ret_msg, mrd_why *why)
{
    arena *a = NULL;
    mrd_err err;
    void *m;

    if (frame->type >= MRD_FRAME_TYPES || descriptors[frame->type] == NULL)
        return mrd_why_set(why, MRD_TYPE, 0, "%s frame where a message was expected",
                           mrd_frame_type_text(frame->type));
    if ((err = unpack(descriptors[frame->type], body, &a, &m)) != MRD_OK)
        return mrd_why_set(why, err, 0, "%s frame: its message cannot be read (%zu bytes)",
                           mrd_frame_type_text(frame->type), body.len);
    *ret_msg = (mrd_msg){ .frame = *frame, .u.m = m, .arena = a };
    return MRD_OK;
}

mrd_err
mrd_msg_unpack(mrd_bytes data, mrd_msg *ret_msg, mrd_why *why)
{
    mrd_frame frame;
    mrd_bytes body;
    mrd_err err = mrd_frame_check(data, &frame, &body, why);

    return err != MRD_OK ? err : mrd_msg_unpack_body(&frame, body, ret_msg, why);
}

void
mrd_msg_free(mrd_msg *msg)
{
    if (msg == NULL)
        return;
    arena_free(msg->arena);
    *msg = (mrd_msg){ 0 };
}

uint64_t
mrd_session_id_new(int64_t wall_ns, uint16_t random)
{
    return (uint64_t) (wall_ns / 1000000000) << 16 | random;
}

char *
mrd_session_id_text(uint64_t id, char text[MRD_SESSION_TEXT])
{
    time_t t = (time_t) (id >> 16);
    struct tm tm = { 0 };

    gmtime_r(&t, &tm);
    /* No valid id has a year before 1970 or after 9999, but its text must still be unique. */
    if (tm.tm_year < 70 || tm.tm_year > 8099)
        snprintf(text, MRD_SESSION_TEXT, "x%016" PRIx64, id);
    else
        snprintf(text, MRD_SESSION_TEXT, "%04u%02u%02u-%02u%02u%02u-%04x",
                 (unsigned) (tm.tm_year + 1900) % 10000, (unsigned) (tm.tm_mon + 1) % 100,
                 (unsigned) tm.tm_mday % 100, (unsigned) tm.tm_hour % 100,
                 (unsigned) tm.tm_min % 100, (unsigned) tm.tm_sec % 100, (unsigned) (id & 0xffff));
    return text;
}

/* Parses the digits text[from, from+n) in base 10 or 16. Returns false for other characters. */
static bool
digits(mrd_str text, size_t from, size_t n, unsigned base, uint64_t *ret_v)
{
    uint64_t v = 0;

    for (size_t i = from; i < from + n; i++) {
        char c = text.p[i];
        unsigned d = c >= '0' && c <= '9'   ? (unsigned) (c - '0')
                     : c >= 'a' && c <= 'f' ? (unsigned) (c - 'a' + 10)
                                            : 16;

        if (d >= base)
            return false;
        v = v * base + d;
    }
    *ret_v = v;
    return true;
}

mrd_err
mrd_session_id_parse(mrd_str text, uint64_t *ret_id)
{
    static const struct {
        uint8_t at, len, base;
    } part[] = { { 0, 4, 10 },  { 4, 2, 10 },  { 6, 2, 10 }, { 9, 2, 10 },
                 { 11, 2, 10 }, { 13, 2, 10 }, { 16, 4, 16 } };
    uint64_t values[MRD_COUNT(part)], id;
    char again[MRD_SESSION_TEXT];
    struct tm tm = { 0 };

    if (text.len == 17 && text.p[0] == 'x') {
        if (!digits(text, 1, 16, 16, &id))
            return MRD_SYNTAX;
    } else {
        if (text.len != 20 || text.p[8] != '-' || text.p[15] != '-')
            return MRD_SYNTAX;
        for (size_t i = 0; i < MRD_COUNT(part); i++) {
            if (!digits(text, part[i].at, part[i].len, part[i].base, &values[i]))
                return MRD_SYNTAX;
        }
        tm = (struct tm){ .tm_year = (int) values[0] - 1900,
                          .tm_mon = (int) values[1] - 1,
                          .tm_mday = (int) values[2],
                          .tm_hour = (int) values[3],
                          .tm_min = (int) values[4],
                          .tm_sec = (int) values[5] };
        id = (uint64_t) timegm(&tm) << 16 | values[6];
    }
    /* Accept only the canonical spelling of the id. */
    if (id == 0 || !mrd_str_is(text, mrd_session_id_text(id, again)))
        return MRD_SYNTAX;
    *ret_id = id;
    return MRD_OK;
}
