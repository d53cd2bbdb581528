#include "tests/fake/link.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "tests/socket.h"

#define TAGS 64

struct fake_key {
    uint64_t epoch, session, seq;
};

/* ---- The aggregator ---- */

void
fake_aggregator_init(fake_aggregator *g)
{
    *g = (fake_aggregator){ .need_hello = true, .first_ns = INT64_MAX, .last_ns = INT64_MIN };
    g->seen = calloc(FAKE_IDS, 1);
    g->codec = mrd_codec_new();
    g->reader = mrd_batch_reader_new(g->codec);
    g->catalog = mrd_catalog_new();
}

void
fake_aggregator_fini(fake_aggregator *g)
{
    free(g->seen);
    free(g->keys);
    free(g->artifact);
    mrd_batch_reader_free(g->reader);
    mrd_codec_free(g->codec);
    mrd_catalog_free(g->catalog);
    mrd_buf_fini(&g->reply);
}

static void
answer(fake_aggregator *g, uint8_t type, const void *message)
{
    mrd_frame f = { .type = type };

    mrd_buf_reset(&g->reply);
    if (mrd_msg_pack(&f, message, &g->reply, NULL) != MRD_OK)
        abort();
}

static void
ack(fake_aggregator *g, Mrd__AckStatus status, uint32_t retry_ms)
{
    Mrd__Ack m = MRD__ACK__INIT;
    char none[] = "as the test wants";

    m.status = status;
    m.message = none;
    m.retry_after_ms = retry_ms;
    answer(g, MRD_FRAME_ACK, &m);
}

static bool
known(fake_aggregator *g, const mrd_frame *f)
{
    for (size_t i = g->n_keys; i-- > 0;)
        if (g->keys[i].seq == f->seq && g->keys[i].session == f->session &&
            g->keys[i].epoch == f->epoch)
            return true;
    return false;
}

static void
remember(fake_aggregator *g, const mrd_frame *f)
{
    if (g->n_keys == g->cap_keys) {
        g->cap_keys = g->cap_keys == 0 ? 256 : g->cap_keys * 2;
        g->keys = realloc(g->keys, g->cap_keys * sizeof(*g->keys));
    }
    g->keys[g->n_keys++] = (struct fake_key){ f->epoch, f->session, f->seq };
}

static void
count(fake_aggregator *g, const mrd_event *ev)
{
    uint64_t id = ev->id;

    if (ev->kind == MRD_LOSS) {
        g->losses++;
        g->lost += (uint64_t) ev->ivalue;
        return;
    }
    g->events++;
    g->no_start += (ev->flags & MRD_EV_NO_START) != 0;
    g->unfinished += ev->kind == MRD_SPAN && ev->dur_ns < 0;
    g->dur_ns += ev->kind == MRD_SPAN && ev->dur_ns > 0 ? ev->dur_ns : 0;
    for (uint32_t i = 0; i < ev->arg_count; i++)
        if (ev->args[i].type == MRD_ARG_INT)
            id = (uint64_t) ev->args[i].v.i;
    if (id == 0 || id >= FAKE_IDS)
        g->unknown++;
    else if (g->seen[id] < 255)
        g->seen[id]++;
    if (ev->ts.ns < g->first_ns)
        g->first_ns = ev->ts.ns;
    if (ev->ts.ns > g->last_ns)
        g->last_ns = ev->ts.ns;
}

static void
store(fake_aggregator *g, const mrd_frame *f, mrd_bytes body)
{
    const mrd_event *ev;
    mrd_batch_info info;

    remember(g, f);
    g->frames++;
    g->bytes += body.len;
    if (f->type != MRD_FRAME_BATCH ||
        mrd_batch_open(g->reader, f, body, g->catalog, &info, NULL) != MRD_OK)
        return;
    while (mrd_batch_next(g->reader, &ev, NULL) == MRD_MORE)
        count(g, ev);
}

static void
numbered(fake_aggregator *g, const mrd_frame *f, mrd_bytes body)
{
    if (known(g, f)) {
        g->duplicates++;
        ack(g, MRD__ACK_STATUS__ACK_DUPLICATE, 0);
    } else if (g->refuse > 0) {
        g->refuse--;
        ack(g, MRD__ACK_STATUS__ACK_NOT_STORED, 5);
    } else if (g->never > 0) {
        g->never--;
        ack(g, MRD__ACK_STATUS__ACK_REFUSED, 0);
    } else {
        store(g, f, body);
        ack(g, MRD__ACK_STATUS__ACK_STORED, 0);
    }
}

static void
heartbeat(fake_aggregator *g, const Mrd__Heartbeat *hb)
{
    g->heartbeats++;
    snprintf(g->state, sizeof(g->state), "%s", hb->state);
    if (hb->n_sessions > 0) {
        const Mrd__Counters *c = hb->sessions[0]->counters;

        g->phase = hb->sessions[0]->phase;
        g->begun = c->begun;
        g->delivered = c->delivered;
        g->held = c->held;
        g->dropped = 0;
        g->cut_files =
            hb->sessions[0]->unread->trace_files - hb->sessions[0]->unread->trace_files_later;
        snprintf(g->cut_file, sizeof(g->cut_file), "%s", hb->sessions[0]->unread->trace_file);
        for (size_t i = 0; i < c->n_drops; i++)
            g->dropped += c->drops[i]->count;
    }
    ack(g, MRD__ACK_STATUS__ACK_STORED, 0);
}

static void
artifact(fake_aggregator *g, const mrd_msg *msg)
{
    if (msg->frame.type == MRD_FRAME_ANNOUNCE) {
        Mrd__ArtifactRequest w = MRD__ARTIFACT_REQUEST__INIT;

        g->announces++;
        if (strcmp(g->sha256, msg->u.announce->sha256) != 0) {
            snprintf(g->sha256, sizeof(g->sha256), "%s", msg->u.announce->sha256);
            g->artifact_len = 0;
        }
        w.have = g->have_all;
        w.offset = g->artifact_len;
        if (g->no_room > 0) {
            g->no_room--;
            w.err = MRD_FULL;
            w.retry_after_ms = 1;
        }
        answer(g, MRD_FRAME_REQUEST, &w);
    } else if (msg->frame.type == MRD_FRAME_CHUNK) {
        const Mrd__ArtifactChunk *c = msg->u.chunk;
        Mrd__Ack m = MRD__ACK__INIT;

        g->chunks++;
        if (g->cut_at != 0 && c->offset >= g->cut_at) {
            g->cut_at = 0;
            mrd_buf_reset(&g->reply);
            return;
        }
        if (c->offset == g->artifact_len) {
            if (g->artifact_len + c->data.len > g->artifact_cap) {
                g->artifact_cap = (g->artifact_len + c->data.len) * 2;
                g->artifact = realloc(g->artifact, g->artifact_cap);
            }
            memcpy(g->artifact + g->artifact_len, c->data.data, c->data.len);
            g->artifact_len += c->data.len;
            g->artifact_bytes += c->data.len;
        }
        m.artifact_offset = g->artifact_len;
        answer(g, MRD_FRAME_ACK, &m);
    } else {
        mrd_sha256 *sha = mrd_sha256_new();
        char hex[MRD_SHA256_HEX];

        mrd_sha256_add(sha, g->artifact, g->artifact_len);
        mrd_sha256_hex(sha, hex);
        mrd_sha256_free(sha);
        g->artifacts += strcmp(hex, msg->u.done->sha256) == 0;
        ack(g,
            strcmp(hex, msg->u.done->sha256) == 0 ? MRD__ACK_STATUS__ACK_STORED
                                                  : MRD__ACK_STATUS__ACK_REFUSED,
            0);
    }
}

void
fake_aggregator_take(fake_aggregator *g, mrd_bytes frame)
{
    Mrd__Welcome welcome = MRD__WELCOME__INIT;
    char name[] = "fake";
    mrd_bytes body;
    mrd_frame f;
    mrd_msg msg;

    mrd_buf_reset(&g->reply);
    if (mrd_frame_check(frame, &f, &body, NULL) != MRD_OK) {
        ack(g, MRD__ACK_STATUS__ACK_REFUSED, 0);
        return;
    }
    if (f.type == MRD_FRAME_HELLO) {
        g->hellos++;
        g->need_hello = false;
        welcome.aggregator_id = welcome.boot_id = welcome.release = name;
        welcome.wire_major = MRD_WIRE_MAJOR;
        welcome.heartbeat_ms = 50;
        welcome.n_directives = g->directive != NULL;
        welcome.directives = &g->directive;
        answer(g, MRD_FRAME_WELCOME, &welcome);
        return;
    }
    if (g->need_hello) {
        ack(g, MRD__ACK_STATUS__ACK_HELLO_FIRST, 0);
        return;
    }
    if (f.type == MRD_FRAME_BATCH || f.type == MRD_FRAME_CLOCK_DATA) {
        numbered(g, &f, body);
        return;
    }
    if (mrd_msg_unpack_body(&f, body, &msg, NULL) != MRD_OK) {
        ack(g, MRD__ACK_STATUS__ACK_REFUSED, 0);
        return;
    }
    if (f.type == MRD_FRAME_HEARTBEAT)
        heartbeat(g, msg.u.heartbeat);
    else
        artifact(g, &msg);
    mrd_msg_free(&msg);
}

/* ---- In this process ---- */

typedef struct {
    bool used, answered, urgent;
    uint64_t tag;
    mrd_buf frame, reply;
    int64_t due, resend_at; /* arrival of the reply; time of the next resend */
} request;

typedef struct {
    mrd_transport pub; /* first */
    fake_aggregator *g;
    fake_faults *faults;
    unsigned window;
    request requests[TAGS];
    bool up, told;
    uint64_t random;
    mrd_buf survey;
} in_process;

static uint64_t
draw(in_process *t)
{
    t->random ^= t->random << 13;
    t->random ^= t->random >> 7;
    t->random ^= t->random << 17;
    return t->random >> 11;
}

static bool
chance(in_process *t, unsigned per_mille)
{
    return draw(t) % 1000 < per_mille;
}

static void
deliver(in_process *t, request *r)
{
    int64_t now = mrd_local_now().ns;
    unsigned times = chance(t, t->faults->twice) ? 2 : 1;

    r->resend_at = now + (t->faults->resend == 0 ? 20 * MRD_MS : t->faults->resend);
    if (t->faults->down || chance(t, t->faults->loss))
        return;
    for (unsigned i = 0; i < times; i++)
        fake_aggregator_take(t->g, (mrd_bytes){ r->frame.p, r->frame.len });
    if (t->g->reply.len == 0 || chance(t, t->faults->loss)) /* the reply may vanish too */
        return;
    mrd_buf_reset(&r->reply);
    mrd_buf_add(&r->reply, t->g->reply.p, t->g->reply.len);
    r->answered = true;
    r->due =
        now + t->faults->delay * (chance(t, t->faults->late) ? 2 + (int64_t) (draw(t) % 4) : 1);
}

static unsigned
in_use(const in_process *t)
{
    unsigned n = 0;

    for (int i = 0; i < TAGS; i++)
        n += t->requests[i].used && !t->requests[i].urgent;
    return n;
}

static mrd_err
put(in_process *t, uint64_t tag, mrd_bytes frame, bool urgent)
{
    for (int i = 0; i < TAGS; i++) {
        request *r = &t->requests[i];

        if (r->used)
            continue;
        r->used = true;
        r->urgent = urgent;
        r->answered = false;
        r->tag = tag;
        mrd_buf_reset(&r->frame);
        mrd_buf_add(&r->frame, frame.p, frame.len);
        deliver(t, r);
        return MRD_OK;
    }
    return MRD_AGAIN;
}

static mrd_err
in_submit(mrd_transport *tr, uint64_t tag, mrd_bytes frame)
{
    in_process *t = (in_process *) tr;

    return in_use(t) >= t->window ? MRD_AGAIN : put(t, tag, frame, false);
}

static mrd_err
in_urgent(mrd_transport *tr, uint64_t tag, mrd_bytes frame)
{
    return put((in_process *) tr, tag, frame, true);
}

static mrd_err
in_answer(mrd_transport *tr, uint64_t tag, mrd_bytes frame)
{
    (void) tr;
    (void) tag;
    (void) frame;
    return MRD_OK;
}

static unsigned
in_slots(mrd_transport *tr)
{
    in_process *t = (in_process *) tr;

    return t->window - in_use(t);
}

static bool
event(mrd_link_event *ev, mrd_link_kind kind, uint64_t tag, const mrd_buf *data)
{
    *ev = (mrd_link_event){ .kind = kind, .tag = tag };
    if (data != NULL) {
        uint8_t *copy = malloc(data->len + 1);

        memcpy(copy, data->p, data->len);
        ev->data = (mrd_bytes){ copy, data->len };
        ev->keep = copy;
    }
    return true;
}

static bool
in_next(mrd_transport *tr, int timeout_ms, mrd_link_event *ret_event)
{
    in_process *t = (in_process *) tr;
    int64_t now = mrd_local_now().ns;

    (void) timeout_ms;
    if (t->up == t->faults->down) {
        t->up = !t->faults->down;
        if (!t->up)
            t->g->need_hello = true; /* use a new connection next time */
        return event(ret_event, t->up ? MRD_LINK_UP : MRD_LINK_DOWN, 0, NULL);
    }
    if (t->survey.len > 0) {
        event(ret_event, MRD_LINK_CONTROL, 1, &t->survey);
        mrd_buf_reset(&t->survey);
        return true;
    }
    for (int i = 0; i < TAGS; i++) {
        request *r = &t->requests[i];

        if (r->used && r->answered && now >= r->due) {
            r->used = false;
            return event(ret_event, MRD_LINK_REPLY, r->tag, &r->reply);
        }
        if (r->used && !r->answered && now >= r->resend_at)
            deliver(t, r);
    }
    return false;
}

static void
free_event(mrd_transport *tr, mrd_link_event *ev)
{
    (void) tr;
    free(ev->keep);
    ev->keep = NULL;
}

static int
no_fd(mrd_transport *tr)
{
    (void) tr;
    return -1;
}

static void
in_close(mrd_transport *tr)
{
    in_process *t = (in_process *) tr;

    for (int i = 0; i < TAGS; i++) {
        mrd_buf_fini(&t->requests[i].frame);
        mrd_buf_fini(&t->requests[i].reply);
    }
    mrd_buf_fini(&t->survey);
    free(t);
}

mrd_transport *
fake_link(fake_aggregator *g, fake_faults *faults, unsigned window)
{
    in_process *t = calloc(1, sizeof(*t));

    t->pub = (mrd_transport){ .submit = in_submit,
                              .submit_urgent = in_urgent,
                              .answer = in_answer,
                              .free_slots = in_slots,
                              .next = in_next,
                              .done = free_event,
                              .fd = no_fd,
                              .close = in_close };
    t->g = g;
    t->faults = faults;
    t->window = window;
    t->random = faults->seed * 0x9e3779b97f4a7c15u + 1;
    return &t->pub;
}

void
fake_link_ask(mrd_transport *tr, const Mrd__Control *control)
{
    in_process *t = (in_process *) tr;
    mrd_frame f = { .type = MRD_FRAME_CONTROL, .session = control->session };

    mrd_buf_reset(&t->survey);
    if (mrd_msg_pack(&f, control, &t->survey, NULL) != MRD_OK)
        abort();
}

/* ---- Over a socket ---- */

typedef struct {
    uint64_t tag;
    uint32_t len, pad;
} wire_head;

typedef struct {
    mrd_transport pub; /* first */
    int fd;
    unsigned window, used;
    bool told;
    mrd_buf in;
} over_pipe;

static mrd_err
pipe_submit(mrd_transport *tr, uint64_t tag, mrd_bytes frame)
{
    over_pipe *t = (over_pipe *) tr;
    wire_head head = { tag, (uint32_t) frame.len, 0 };

    if (t->used >= t->window)
        return MRD_AGAIN;
    if (!test_send_all(t->fd, &head, sizeof(head)) || !test_send_all(t->fd, frame.p, frame.len))
        _exit(0); /* the parent process of the test has exited */
    t->used++;
    return MRD_OK;
}

static mrd_err
pipe_urgent(mrd_transport *tr, uint64_t tag, mrd_bytes frame)
{
    over_pipe *t = (over_pipe *) tr;
    unsigned used = t->used;
    mrd_err err;

    t->used = 0;
    err = pipe_submit(tr, tag, frame);
    t->used = used + 1;
    return err;
}

static unsigned
pipe_slots(mrd_transport *tr)
{
    over_pipe *t = (over_pipe *) tr;

    return t->used >= t->window ? 0 : t->window - t->used;
}

static bool
whole_message(const mrd_buf *in, wire_head *ret_head)
{
    if (in->len < sizeof(*ret_head))
        return false;
    memcpy(ret_head, in->p, sizeof(*ret_head));
    return in->len - sizeof(*ret_head) >= ret_head->len;
}

static void
cut_front(mrd_buf *in, size_t n)
{
    memmove(in->p, in->p + n, in->len - n);
    in->len -= n;
}

/* Reads the available bytes. Returns false at the end of the stream. */
static bool
fill(int fd, mrd_buf *in, int timeout_ms)
{
    struct pollfd p = { fd, POLLIN, 0 };
    ssize_t n;

    if (poll(&p, 1, timeout_ms) <= 0)
        return true;
    if (!mrd_buf_room(in, 65536))
        abort();
    n = recv(fd, in->p + in->len, 65536, MSG_DONTWAIT);
    if (n > 0)
        in->len += (size_t) n;
    return n > 0 || (n < 0 && errno == EAGAIN);
}

static bool
pipe_next(mrd_transport *tr, int timeout_ms, mrd_link_event *ret_event)
{
    over_pipe *t = (over_pipe *) tr;
    wire_head head;
    mrd_buf data;

    if (!t->told) {
        t->told = true;
        return event(ret_event, MRD_LINK_UP, 0, NULL);
    }
    if (!whole_message(&t->in, &head) && !fill(t->fd, &t->in, timeout_ms))
        _exit(0);
    if (!whole_message(&t->in, &head))
        return false;
    data = (mrd_buf){ .p = t->in.p + sizeof(head), .len = head.len };
    event(ret_event, MRD_LINK_REPLY, head.tag, &data);
    cut_front(&t->in, sizeof(head) + head.len);
    t->used--;
    return true;
}

static int
pipe_fd(mrd_transport *tr)
{
    return ((over_pipe *) tr)->fd;
}

static void
pipe_close(mrd_transport *tr)
{
    over_pipe *t = (over_pipe *) tr;

    close(t->fd);
    mrd_buf_fini(&t->in);
    free(t);
}

mrd_transport *
fake_pipe(int fd, unsigned window)
{
    over_pipe *t = calloc(1, sizeof(*t));

    t->pub = (mrd_transport){ .submit = pipe_submit,
                              .submit_urgent = pipe_urgent,
                              .answer = in_answer,
                              .free_slots = pipe_slots,
                              .next = pipe_next,
                              .done = free_event,
                              .fd = pipe_fd,
                              .close = pipe_close };
    t->fd = fd;
    t->window = window;
    return &t->pub;
}

bool
fake_serve(fake_aggregator *g, int fd, mrd_buf *pending)
{
    wire_head head;

    if (!fill(fd, pending, 1))
        return false;
    while (whole_message(pending, &head)) {
        fake_aggregator_take(g, (mrd_bytes){ pending->p + sizeof(head), head.len });
        cut_front(pending, sizeof(head) + head.len);
        head.len = (uint32_t) g->reply.len;
        if (!test_send_all(fd, &head, sizeof(head)) || !test_send_all(fd, g->reply.p, g->reply.len))
            return false;
    }
    return true;
}
