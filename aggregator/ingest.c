#include "aggregator/ingest_int.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>

#include "base/log.h"
#include "base/obj.h"

#define GROUP_ENOUGH 8 /* frames that an agent has in flight */
#define GROUP_WAIT   (3 * MRD_MS)
#define TICK_NS      (200 * MRD_MS)
#define WATCH_NS     MRD_SEC

/* ---- Replies ---- */

void
ingest_reply(ingest *in, mrd_server_request *request, uint8_t type, const void *message)
{
    mrd_frame f = { .type = type };

    mrd_buf_reset(&in->reply);
    if (mrd_msg_pack(&f, message, &in->reply, NULL) == MRD_OK)
        mrd_server_reply(in->h->server, request, (mrd_bytes){ in->reply.p, in->reply.len });
    else
        mrd_server_drop(in->h->server, request);
}

void
ingest_ack(ingest *in, mrd_server_request *request, Mrd__AckStatus status, mrd_err err,
           const char *text, uint32_t retry_ms)
{
    char copy[MRD_WHY_MAX];
    Mrd__Ack ack = MRD__ACK__INIT;

    hub_copy(copy, sizeof(copy), text);
    ack.status = status;
    ack.err = (uint32_t) err;
    ack.sentence = copy;
    ack.retry_after_ms = retry_ms;
    ingest_reply(in, request, MRD_FRAME_ACK, &ack);
}

void
ingest_refuse(ingest *in, mrd_server_request *request, const mrd_why *why, bool final)
{
    char copy[MRD_WHY_MAX];
    Mrd__Refuse refuse = MRD__REFUSE__INIT;

    hub_copy(copy, sizeof(copy), why->text);
    refuse.err = (uint32_t) why->err;
    refuse.sentence = copy;
    refuse.final = final;
    refuse.retry_after_ms = 5000;
    ingest_reply(in, request, MRD_FRAME_REFUSE, &refuse);
    in->h->stats.hello_refused++;
    mrd_log(MRD_LOG_WARN, "AGG-HELLO-REFUSED", "Agent refused: reason=%s", why->text);
}

/* ---- Numbered frames ---- */

/* Token bucket of one second; 0 or the milliseconds to wait. Frames are never larger than the
 * bucket, because it may go below zero. */
static uint32_t
bucket_take(int64_t rate, int64_t *bytes, int64_t *at_ns, int64_t now_ns, size_t want)
{
    int64_t since = now_ns - *at_ns;

    if (rate <= 0)
        return 0;
    since = since > MRD_SEC ? MRD_SEC : since;
    *bytes += (int64_t) ((__int128) rate * since / MRD_SEC);
    *bytes = *bytes > rate ? rate : *bytes;
    *at_ns = now_ns;
    if (*bytes <= 0) {
        int64_t ms = -*bytes / (rate / 1000 + 1) + 10;

        return ms > 5000 ? 5000 : (uint32_t) ms;
    }
    *bytes -= (int64_t) want;
    return 0;
}

static void
limited(hub *h, hub_node *n, limit_kind kind)
{
    if (n->limited_by != kind || mrd_local_now().ns - n->limited_ns > 60 * MRD_SEC)
        mrd_log(MRD_LOG_INFO, "AGG-LIMIT", "Agent held back: node=%s limit=%s", n->instance_id,
                limit_text(kind));
    h->stats.limited[kind]++;
    n->slowed++;
    n->limited_by = kind;
    n->limited_ns = mrd_local_now().ns;
}

/* Both limits are for what is stored: events, clock data and artifacts. */
static uint32_t
rate_wait(hub *h, hub_node *n, size_t bytes, int64_t now_ns)
{
    uint32_t ms = bucket_take(h->limits.agent_rate, &n->bucket_bytes, &n->bucket_ns, now_ns, bytes);
    limit_kind kind = LIMIT_AGENT_RATE;

    if (ms == 0) {
        kind = LIMIT_TOTAL_RATE;
        ms = bucket_take(h->limits.total_rate, &h->bucket_bytes, &h->bucket_ns, now_ns, bytes);
    }
    if (ms > 0) {
        h->stats.slowed++;
        limited(h, n, kind);
    }
    return ms;
}

static void
refuse_frame(ingest *in, mrd_server_request *request, mrd_err err, const char *text)
{
    in->h->stats.refused++;
    mrd_log(MRD_LOG_WARN, "AGG-FRAME-REFUSED", "Frame refused: reason=%s", text);
    ingest_ack(in, request, MRD__ACK_STATUS__ACK_REFUSED, err, text, 0);
}

/* Where a frame waits already, n_waiting: nowhere. */
static unsigned
waiting_at(const ingest *in, const hub_part *p, const mrd_frame *f)
{
    unsigned i = 0;

    while (i < in->n_waiting &&
           (in->waiting[i].part != p || in->waiting[i].frame.epoch != f->epoch ||
            in->waiting[i].frame.seq != f->seq))
        i++;
    return i;
}

static void
not_stored(ingest *in, mrd_server_request *request, const mrd_why *why)
{
    hub *h = in->h;

    h->stats.not_stored++;
    if (why->err == MRD_FULL && !h->disk_full) {
        hub_disk(h, true);
        snprintf(h->disk_sentence, sizeof(h->disk_sentence),
                 "the store is full: delete sessions or enlarge it (%.180s)", why->text);
        mrd_log(MRD_LOG_ERROR, "AGG-DISK-FULL",
                "Nothing more is acknowledged until there is room: reason=%s", why->text);
    }
    ingest_ack(in, request, MRD__ACK_STATUS__ACK_NOT_STORED, why->err, why->text, 1000);
}

/* Joins the probes and gives the frame as it is to be stored. */
static mrd_err
clock_data(ingest *in, hub_node *n, mrd_frame *f, mrd_bytes *data, mrd_why *why)
{
    mrd_msg msg = { 0 };
    mrd_err err = mrd_msg_unpack(*data, &msg, why);

    if (err != MRD_OK)
        return err;
    clocks_take(in->h, n, msg.u.clock_data, &in->joined);
    mrd_buf_reset(&in->repacked);
    err = mrd_msg_pack(f, msg.u.m, &in->repacked, why);
    *data = (mrd_bytes){ in->repacked.p, in->repacked.len };
    mrd_msg_free(&msg);
    return err;
}

/* LIMIT: its number could not be remembered. */
static mrd_err
may_count(hub_part *p, const mrd_frame *f)
{
    const part_epoch *e = part_epoch_of(p, f->epoch);

    return e == NULL && p->n_epochs == HUB_EPOCHS_MAX           ? MRD_LIMIT
           : e != NULL && mrd_seqset_is_full(e->stored, f->seq) ? MRD_LIMIT
                                                                : MRD_OK;
}

/* Its journal, open for this frame. */
static mrd_err
part_ready(ingest *in, hub_session *s, hub_part *p, const mrd_frame *f, mrd_why *why)
{
    mrd_err err = MRD_OK;

    if (part_epoch_of(p, f->epoch) == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "node %s", p->instance_id);
    if (p->journal == NULL) {
        char *dir = hub_path(in->h, s, "journal/%s", p->instance_id);

        err = dir == NULL
                  ? mrd_why_set(why, MRD_NOMEM, 0, "journal")
                  : mrd_journal_open(dir, mrd_str_of(p->instance_id), s->id, &p->journal, why);
        free(dir);
    }
    return err;
}

/* The session and part that a numbered frame belongs to; answers when there is none. */
static hub_part *
part_for(ingest *in, mrd_server_request *request, hub_node *n, const mrd_frame *f,
         hub_session **ret_session)
{
    hub_session *s = hub_session_by_id(in->h, f->session);
    char text[160], id[MRD_SESSION_TEXT];
    hub_part *p;

    mrd_session_id_text(f->session, id);
    if (s == NULL || !hub_session_open(s)) {
        snprintf(text, sizeof(text), "session %s %s", id,
                 s == NULL ? "is not known here (it may have been deleted)"
                           : "is closed and takes no more events");
        refuse_frame(in, request, s == NULL ? MRD_NOTFOUND : MRD_STATE, text);
        return NULL;
    }
    if ((p = hub_part_of(s, n->instance_id)) == NULL && (p = hub_part_add(s, n)) == NULL) {
        mrd_server_drop(in->h->server, request);
        return NULL;
    }
    *ret_session = s;
    return p;
}

/* Clock data is little, and without it the events of the whole session lose their bound: a part of
 * the disk's reserve is for it. A disk that is really full says so when it is written. */
static bool
is_spared(hub *h, const mrd_frame *f, size_t len)
{
    if (f->type != MRD_FRAME_CLOCK_DATA || (int64_t) len > h->clock_spare)
        return false;
    h->clock_spare -= (int64_t) len;
    return true;
}

static void
on_numbered(ingest *in, mrd_server_request *request, hub_node *n, mrd_frame *f, mrd_bytes data,
            int64_t received_ns)
{
    hub *h = in->h;
    hub_session *s;
    hub_part *p = part_for(in, request, n, f, &s);
    const part_epoch *e;
    char text[HUB_TEXT_MAX];
    mrd_why why = { 0 };
    uint32_t wait_ms;
    unsigned first;
    bool repeated;

    if (p == NULL)
        return;
    e = part_epoch_of(p, f->epoch);
    if (e != NULL && mrd_seqset_has(e->stored, f->seq)) {
        h->stats.duplicates++;
        ingest_ack(in, request, MRD__ACK_STATUS__ACK_DUPLICATE, MRD_OK, "", 0);
        return;
    }
    first = waiting_at(in, p, f);
    repeated = first < in->n_waiting;
    if (!repeated && (wait_ms = rate_wait(h, n, data.len, received_ns)) > 0) {
        ingest_ack(in, request, MRD__ACK_STATUS__ACK_SLOW_DOWN, MRD_LIMIT,
                   "more bytes per second than the aggregator may take", wait_ms);
        return;
    }
    if (!repeated && h->disk_full && !is_spared(h, f, data.len)) {
        mrd_why_set(&why, MRD_FULL, 0, "%s", h->disk_sentence);
        limited(h, n, LIMIT_DISK);
        not_stored(in, request, &why);
        return;
    }
    /* What can never be stored is refused at once: sent again and again, it would only hold up what
     * comes behind it. */
    if (!repeated && (why.err = may_count(p, f)) == MRD_LIMIT) {
        limited(h, n, LIMIT_EPOCHS);
        snprintf(
            text, sizeof(text),
            "node %s began more than %d epochs in one session, or leaves more gaps than can be "
            "remembered",
            p->instance_id, HUB_EPOCHS_MAX);
        refuse_frame(in, request, MRD_LIMIT, text);
        return;
    }
    if (!repeated && f->type == MRD_FRAME_CLOCK_DATA &&
        clock_data(in, n, f, &data, &why) != MRD_OK) {
        refuse_frame(in, request, why.err, why.text);
        return;
    }
    if (!repeated && f->type == MRD_FRAME_BATCH && f->clock == MRD__CLOCK_KIND__CLOCK_RAW)
        clocks_causality(h, n, &p->causality, f->last_ns, request->at_ns, false);
    /* Batches stay in their requests until the commit writes all of them together. */
    if (!repeated && (part_ready(in, s, p, f, &why) != MRD_OK ||
                      (f->type == MRD_FRAME_CLOCK_DATA &&
                       mrd_journal_append(p->journal, f, data, &why) != MRD_OK))) {
        not_stored(in, request, &why);
        return;
    }
    in->waiting[in->n_waiting++] = (pending){ .request = *request,
                                              .session = s,
                                              .part = p,
                                              .node = n,
                                              .frame = *f,
                                              .first = first,
                                              .written = f->type == MRD_FRAME_CLOCK_DATA,
                                              .received_ns = received_ns };
    *request = (mrd_server_request){ 0 };
}

/* After the sync of its journal: counts and acknowledges, or says why not. */
static void
settle(ingest *in, pending *w, const mrd_why *failed)
{
    hub *h = in->h;
    mrd_why why = failed == NULL ? (mrd_why){ 0 } : *failed;
    bool repeated = w != &in->waiting[w->first];

    if (failed == NULL && !repeated && part_stored(w->part, &w->frame) != MRD_OK)
        mrd_why_set(&why, MRD_LIMIT, 0, "node %s leaves more gaps than can be remembered",
                    w->part->instance_id);
    if (why.err != MRD_OK) {
        not_stored(in, &w->request, &why);
        return;
    }
    if (repeated) {
        h->stats.duplicates++;
        ingest_ack(in, &w->request, MRD__ACK_STATUS__ACK_DUPLICATE, MRD_OK, "", 0);
        return;
    }
    w->node->frames++;
    w->node->bytes += MRD_FRAME_HEADER + w->frame.body_len;
    w->node->events += w->frame.events;
    h->stats.frames++;
    h->stats.bytes += MRD_FRAME_HEADER + w->frame.body_len;
    h->stats.events += w->frame.events;
    w->session->dirty = true;
    ingest_ack(in, &w->request, MRD__ACK_STATUS__ACK_STORED, MRD_OK, "", 0);
}

/* The place of the journal in in->dirty, n: it is not there. */
static size_t
dirty_at(const ingest *in, size_t n, const mrd_journal *j)
{
    size_t i = 0;

    while (i < n && in->dirty[i] != j)
        i++;
    return i;
}

/* Writes what waits for a journal in one go. */
static void
write_waiting(ingest *in, mrd_journal *j, mrd_why *ret_unwritten)
{
    size_t n = 0, written;

    *ret_unwritten = (mrd_why){ 0 };
    for (unsigned i = 0; i < in->n_waiting; i++) {
        const pending *w = &in->waiting[i];

        if (w->part->journal != j || w->written || w->first != i)
            continue;
        in->pieces[n] = (mrd_journal_piece){ &w->frame, w->request.data };
        in->piece_at[n++] = i;
    }
    written = mrd_journal_append_many(j, in->pieces, n, ret_unwritten);
    for (size_t i = 0; i < written; i++)
        in->waiting[in->piece_at[i]].written = true;
}

/* Group commit: everything that waits is written to the journals and made durable, then every
 * answer is given. */
static void
commit(ingest *in)
{
    hub *h = in->h;
    size_t n = 0, calls = 0;

    pthread_mutex_lock(&h->lock);
    for (unsigned i = 0; i < in->n_waiting; i++) {
        mrd_journal *j = in->waiting[i].part->journal;

        if (dirty_at(in, n, j) < n)
            continue;
        in->whys[n] = (mrd_why){ 0 };
        in->dirty[n] = j;
        write_waiting(in, j, &in->unwritten[n++]);
    }
    pthread_mutex_unlock(&h->lock);
    if (h->sync == MRD_SYNC_GROUP)
        calls = mrd_journal_sync_many(in->syncer, in->dirty, n, in->whys);
    pthread_mutex_lock(&h->lock);
    h->stats.syncs += calls;
    for (unsigned i = 0; i < in->n_waiting; i++) {
        pending *w = &in->waiting[i];
        size_t at = dirty_at(in, n, w->part->journal);

        settle(in, w,
               !in->waiting[w->first].written ? &in->unwritten[at]
               : in->whys[at].err != MRD_OK   ? &in->whys[at]
                                              : NULL);
    }
    in->n_waiting = 0;
    pthread_mutex_unlock(&h->lock);
}

/* ---- Dispatch ---- */

static void
on_probe(ingest *in, mrd_server_request *request, const mrd_msg *msg, int64_t received_ns)
{
    Mrd__ProbeReply reply = MRD__PROBE_REPLY__INIT;

    reply.k = msg->u.probe->k;
    reply.r2 = received_ns + in->h->session_offset_ns;
    reply.boot_id = in->h->timeline;
    reply.r3 = mrd_local_now().ns + in->h->session_offset_ns;
    ingest_reply(in, request, MRD_FRAME_PROBE_REPLY, &reply);
}

static void
on_offer(ingest *in, mrd_server_request *request, hub_node *n, const mrd_msg *msg)
{
    Mrd__ArtifactWant want = MRD__ARTIFACT_WANT__INIT;
    char text[HUB_TEXT_MAX] = "";

    want.err = (uint32_t) artifact_offer(in->h, n, msg, &want, text);
    if (want.err == MRD_FULL)
        limited(in->h, n, LIMIT_DISK);
    else if (want.err == MRD_AGAIN && !artifact_busy(in->h, msg->u.offer->sha256, 5 * MRD_SEC))
        limited(in->h, n, LIMIT_UPLOADS);
    if (want.err == MRD_OK && want.have) { /* said when it is noted that this session has it */
        if (artifact_settle(in->h, request, msg->u.offer->sha256, true))
            return;
        want.err = MRD_AGAIN;
        want.retry_after_ms = 500;
        want.have = false;
        hub_copy(text, sizeof(text), "other artifacts are being proven");
    }
    want.sentence = text;
    ingest_reply(in, request, MRD_FRAME_WANT, &want);
}

static void
on_piece(ingest *in, mrd_server_request *request, hub_node *n, const mrd_msg *msg, size_t len,
         int64_t received_ns)
{
    Mrd__Ack ack = MRD__ACK__INIT;
    char text[HUB_TEXT_MAX] = "";
    bool done = msg->frame.type == MRD_FRAME_DONE;
    uint32_t wait_ms = done ? 0 : rate_wait(in->h, n, len, received_ns);
    mrd_err err;

    if (wait_ms > 0) {
        ingest_ack(in, request, MRD__ACK_STATUS__ACK_SLOW_DOWN, MRD_LIMIT,
                   "more bytes per second than the aggregator may take", wait_ms);
        return;
    }
    err = done ? artifact_done(in->h, request, msg, &ack, text)
               : artifact_chunk(in->h, msg, &ack, text);
    if (done && err == MRD_OK)
        return; /* answered when it is proven */
    artifact_ack(&ack, err, text);
    ingest_reply(in, request, MRD_FRAME_ACK, &ack);
}

static void
on_message(ingest *in, mrd_server_request *request, hub_node *n, const mrd_frame *f, mrd_bytes body,
           int64_t received_ns)
{
    mrd_why why = { 0 };
    mrd_msg msg;

    if (mrd_msg_unpack_body(f, body, &msg, &why) != MRD_OK) {
        in->h->stats.bad_frames++;
        refuse_frame(in, request, why.err, why.text);
        return;
    }
    if (f->type == MRD_FRAME_HELLO)
        ingest_hello(in, request, &msg);
    else if (f->type == MRD_FRAME_PROBE)
        on_probe(in, request, &msg, received_ns);
    else if (f->type == MRD_FRAME_HEARTBEAT)
        ingest_heartbeat(in, request, n, &msg, received_ns);
    else if (f->type == MRD_FRAME_OFFER)
        on_offer(in, request, n, &msg);
    else if (f->type == MRD_FRAME_CHUNK || f->type == MRD_FRAME_DONE)
        on_piece(in, request, n, &msg, body.len, received_ns);
    else
        refuse_frame(in, request, MRD_TYPE, "frame of a type that an aggregator does not take");
    mrd_msg_free(&msg);
}

static void
on_request(ingest *in, mrd_server_request *request)
{
    hub *h = in->h;
    int64_t now = mrd_local_now().ns;
    mrd_bytes data = request->data, body;
    mrd_why why = { 0 };
    mrd_frame f;
    hub_node *n;

    if (mrd_frame_check(data, &f, &body, &why) != MRD_OK) {
        h->stats.bad_frames++;
        if (why.err == MRD_VERSION)
            ingest_refuse(in, request, &why, true);
        else
            refuse_frame(in, request, why.err, why.text);
        return;
    }
    n = hub_node_by_conn(h, request->conn);
    if (n != NULL && n->proof_epoch != h->proof_epoch && f.type != MRD_FRAME_HELLO)
        n = NULL; /* it proves itself again before anything else counts */
    if (n == NULL && f.type != MRD_FRAME_HELLO && f.type != MRD_FRAME_PROBE) {
        ingest_ack(in, request, MRD__ACK_STATUS__ACK_HELLO_FIRST, MRD_STATE, "say hello first", 0);
        return;
    }
    if (n != NULL && f.type != MRD_FRAME_HELLO && f.agent != n->key) {
        refuse_frame(in, request, MRD_DENIED, "frame of an agent that this connection is not");
        return;
    }
    if (n != NULL) {
        n->seen_ns = now;
        n->seen_wall_ns = mrd_wall_now().ns;
        n->forget = false;
    }
    if (f.type == MRD_FRAME_CLOCK_DATA && f.session == 0) { /* between sessions: only followed */
        if (clock_data(in, n, &f, &data, &why) != MRD_OK)
            refuse_frame(in, request, why.err, why.text);
        else
            ingest_ack(in, request, MRD__ACK_STATUS__ACK_STORED, MRD_OK, "", 0);
    } else if (f.type == MRD_FRAME_BATCH || f.type == MRD_FRAME_CLOCK_DATA)
        on_numbered(in, request, n, &f, data, now);
    else
        on_message(in, request, n, &f, body, request->at_ns);
}

/* ---- Housekeeping ---- */

static void
session_journals_close(hub_session *s)
{
    for (size_t i = 0; i < s->n_parts; i++) {
        mrd_why why = { 0 };

        if (mrd_journal_close(s->parts[i]->journal, &why) != MRD_OK)
            mrd_log(MRD_LOG_WARN, "AGG-JOURNAL-CLOSE",
                    "Segment left without index: session=%s reason=%s", s->text, why.text);
        s->parts[i]->journal = NULL;
    }
}

static void
session_remove(hub *h, size_t at)
{
    hub_session *s = h->sessions[at];

    session_journals_close(s);
    keep_remove(h, s);
    mrd_log(MRD_LOG_INFO, "AGG-SESSION-DELETED", "Session deleted: id=%s", s->text);
    session_free(s);
    h->sessions[at] = h->sessions[--h->n_sessions];
}

static void
watch_disk(hub *h)
{
    struct statvfs fs;
    int64_t avail;

    if (statvfs(h->store, &fs) != 0)
        return;
    avail = (int64_t) fs.f_bavail * (int64_t) fs.f_frsize;
    if (!h->disk_full && avail < h->limits.disk_reserve) {
        hub_disk(h, true);
        snprintf(h->disk_sentence, sizeof(h->disk_sentence),
                 "the store has %" PRId64 " MB free, less than the %" PRId64
                 " MB of --disk-reserve: delete sessions or enlarge it",
                 avail >> 20, h->limits.disk_reserve >> 20);
        mrd_log(MRD_LOG_ERROR, "AGG-DISK-FULL", "Nothing more is acknowledged: reason=%s",
                h->disk_sentence);
    } else if (h->disk_full &&
               avail > h->limits.disk_reserve + h->limits.disk_reserve / 16 + MRD_FRAME_MAX) {
        hub_disk(h, false);
        mrd_log(MRD_LOG_INFO, "AGG-DISK-ROOM", "Taking events again: free_mb=%" PRId64,
                avail >> 20);
    }
}

static void
watch_nodes(hub *h)
{
    for (size_t i = 0; i < h->n_nodes; i++) {
        hub_node *n = h->nodes[i];

        if (n->conn != 0 && !mrd_server_conn_alive(h->server, n->conn)) {
            hub_node_connect(h, n, 0);
            h->known.changed = true;
            mrd_log(MRD_LOG_INFO, "AGG-NODE-DOWN", "Agent disconnected: node=%s", n->instance_id);
            pthread_cond_broadcast(&h->changed);
        }
    }
}

static void
watch_refused(ingest *in)
{
    uint64_t refused = mrd_server_refused(in->h->server);

    if (refused != in->refused)
        mrd_log(MRD_LOG_WARN, "AGG-CONNECTIONS",
                "Connections closed, more than may wait for room: closed=%" PRIu64
                " connected=%u limit=%u",
                refused, mrd_server_connections(in->h->server),
                mrd_server_max_connections(in->h->server));
    in->refused = refused;
}

/* Nothing waits for a sync when this is called. */
static void
tick(ingest *in, int64_t now)
{
    hub *h = in->h;

    in->next_tick_ns = now + TICK_NS;
    pthread_mutex_lock(&h->lock);
    watch_nodes(h);
    hub_nodes_drop(h);
    watch_refused(in);
    for (size_t i = h->n_sessions; i-- > 0;) {
        hub_session *s = h->sessions[i];
        job_status job;

        if (s->state >= SESSION_MERGING && !s->closed) {
            session_journals_close(s);
            s->closed = true;
            keep_measure(h, s);
            pthread_cond_broadcast(&h->changed);
        }
        /* Not while its manifest is being written: that would make the folder again. */
        if (s->deleted && s->served == 0 &&
            (!merger_status(s, &job) || (job.state != JOB_WAITING && job.state != JOB_RUNNING)) &&
            pthread_mutex_trylock(&h->save_lock) == 0) {
            session_remove(h, i);
            pthread_mutex_unlock(&h->save_lock);
        }
    }
    if (now >= in->next_watch_ns) {
        in->next_watch_ns = now + WATCH_NS;
        watch_disk(h);
    }
    pthread_mutex_unlock(&h->lock);
}

/* How long to wait for the next request. What waits for a sync waits a little for company, because
 * a sync costs the same for one frame and for many, unless it is as much as an agent sends. */
static int
patience_ms(const ingest *in)
{
    int64_t left;

    if (in->n_waiting == 0)
        return 100;
    if (in->n_waiting >= GROUP_ENOUGH || in->h->sync != MRD_SYNC_GROUP)
        return 0;
    left = in->waiting[0].received_ns + GROUP_WAIT - mrd_local_now().ns;
    return left <= 0 ? 0 : (int) ((left + MRD_MS - 1) / MRD_MS);
}

static void *
ingest_run(void *arg)
{
    ingest *in = arg;
    hub *h = in->h;

    while (!__atomic_load_n(&h->closing, __ATOMIC_ACQUIRE)) {
        mrd_server_request request;
        int64_t now;

        /* A full group or an empty queue ends the group. */
        if (mrd_server_next(h->server, patience_ms(in), &request)) {
            pthread_mutex_lock(&h->lock);
            on_request(in, &request);
            pthread_mutex_unlock(&h->lock);
            if (in->n_waiting > 0 && in->n_waiting < PENDING_MAX)
                continue;
        }
        if (in->n_waiting > 0)
            commit(in);
        if ((now = mrd_local_now().ns) >= in->next_tick_ns)
            tick(in, now);
    }
    if (in->n_waiting > 0)
        commit(in);
    pthread_mutex_lock(&h->lock);
    for (size_t i = 0; i < h->n_sessions; i++)
        session_journals_close(h->sessions[i]);
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

mrd_err
ingest_open(hub *h, ingest **ret_ingest, mrd_why *why)
{
    ingest *in = calloc(1, sizeof(*in));

    if (in == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "ingest");
    in->h = h;
    if (mrd_journal_syncer_open(h->store, &in->syncer, why) != MRD_OK) {
        free(in);
        return MRD_IO;
    }
    if ((errno = pthread_create(&in->thread, NULL, ingest_run, in)) != 0) {
        mrd_why_set(why, MRD_IO, errno, "cannot start the ingest thread");
        mrd_journal_syncer_close(in->syncer);
        free(in);
        return MRD_IO;
    }
    *ret_ingest = in;
    return MRD_OK;
}

void
ingest_close(ingest *in)
{
    if (in == NULL)
        return;
    __atomic_store_n(&in->h->closing, true, __ATOMIC_RELEASE);
    mrd_server_wake(in->h->server);
    pthread_join(in->thread, NULL);
    mrd_journal_syncer_close(in->syncer);
    mrd_buf_fini(&in->reply);
    mrd_buf_fini(&in->repacked);
    mrd_buf_fini(&in->joined);
    free(in);
}
