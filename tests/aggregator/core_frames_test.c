/* Tests the frames that nodes send: which are accepted, the replies to the others, and the counts
 * of the frames that are on disk. */
#include "aggregator/core/manifest/manifest.h"
#include "tests/aggregator/core_make.h"

#define START (20 * MRD_SEC)

static mrd_frame
frame(uint64_t session, uint64_t seq)
{
    return (mrd_frame){ .type = MRD_FRAME_BATCH,
                        .agent = mrd_agent_key(MRD_STR("a")),
                        .session = session,
                        .seq = seq,
                        .body_len = 100,
                        .events = 10 };
}

/* Makes a core with node "a" and a recording session 7. */
static mrd_core *
make(mrd_core_limits limits)
{
    mrd_core *c = core_make(limits);

    (void) core_session(c, 7, 0, MRD_SESSION_RECORDING);
    core_hello(c, START, "a", 1);
    return c;
}

/* Sends the frame as `ticket`. Returns the first effect that is not a log line. */
static mrd_effect
send(mrd_core *c, int64_t at, uint64_t ticket, const mrd_frame *f)
{
    mrd_effect *e, got = { .kind = MRD_DO_KINDS };

    mrd_core_numbered(c, core_at(at), ticket, c->nodes.v[0], f, 140, (mrd_local_ns){ at });
    while ((e = mrd_core_effect(c)) != NULL)
        if (e->kind != MRD_DO_LOG && got.kind == MRD_DO_KINDS)
            got = *e;
    return got;
}

static bool
is_refused(const mrd_effect *e, mrd_err err, const char *says)
{
    return e->kind == MRD_DO_ACK && e->status == MRD__ACK_STATUS__ACK_REFUSED && e->err == err &&
           strstr(e->text, says) != NULL;
}

/* ---- Who sends ---- */

TEST(who_may_send_what)
{
    static const struct {
        const char *what;
        uint32_t conn;
        uint8_t type;
        bool own, taken, node;
        Mrd__AckStatus status;
        mrd_err err;
    } rows[] = {
        { "its own batch", 1, MRD_FRAME_BATCH, true, true, true, 0, MRD_OK },
        { "of another name", 1, MRD_FRAME_BATCH, false, false, false, MRD__ACK_STATUS__ACK_REFUSED,
          MRD_DENIED },
        { "a hello of any name", 1, MRD_FRAME_HELLO, false, true, true, 0, MRD_OK },
        { "who said no hello", 2, MRD_FRAME_BATCH, true, false, false,
          MRD__ACK_STATUS__ACK_HELLO_FIRST, MRD_STATE },
        { "who says it", 2, MRD_FRAME_HELLO, true, true, false, 0, MRD_OK },
        { "who asks the time", 2, MRD_FRAME_PROBE, true, true, false, 0, MRD_OK },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_core *c = make((mrd_core_limits){ 0 });
        mrd_frame f = { .type = rows[i].type, .agent = mrd_agent_key(MRD_STR("a")) };
        mrd_node *n = NULL;
        mrd_effect e;

        f.agent += !rows[i].own;
        c->nodes.v[0]->forget = true; /* and it still exists */
        CHECK_ROW(rows[i].what,
                  mrd_core_sender(c, core_at(START + 9), 5, rows[i].conn, &f, &n) == rows[i].taken);
        CHECK_ROW(rows[i].what, (n != NULL) == rows[i].node);
        CHECK_ROW(rows[i].what, core_find(c, MRD_DO_ACK, 5, &e) == !rows[i].taken);
        CHECK_ROW(rows[i].what, e.status == rows[i].status && e.err == rows[i].err);
        CHECK_ROW(rows[i].what, (c->nodes.v[0]->seen.ns == START + 9) == rows[i].node);
        CHECK_ROW(rows[i].what, (c->nodes.v[0]->seen_wall.ns == START + 9) == rows[i].node);
        CHECK_ROW(rows[i].what, c->nodes.v[0]->forget == !rows[i].node);
        CHECK_INT(c->stats.refused, rows[i].err == MRD_DENIED);
        mrd_core_free(c);
    }
}

TEST(frames_that_are_never_taken_are_counted)
{
    mrd_core *c = make((mrd_core_limits){ 0 });
    mrd_why why = { .err = MRD_CORRUPT, .text = "torn" };
    char text[MRD_WHY_MAX];
    mrd_effect e;

    mrd_core_refuse_frame(c, core_at(START), 5, &why);
    CHECK(core_find(c, MRD_DO_ACK, 5, &e) && is_refused(&e, MRD_CORRUPT, "torn"));
    CHECK(c->stats.refused == 1 && c->stats.bad_frames == 0);
    mrd_core_bad_frame(c, core_at(START), 6, &why);
    CHECK_INT(core_logged(c, "AGG-FRAME-REFUSED", text), 1);
    CHECK(strstr(text, "reason=torn") != NULL);
    CHECK(c->stats.refused == 2 && c->stats.bad_frames == 1);
    mrd_core_free(c);
}

/* ---- Which are taken ---- */

TEST(a_session_that_takes_no_frames_says_why)
{
    mrd_core *c = make((mrd_core_limits){ 0 });
    mrd_session *over = core_session(c, 8, 0, MRD_SESSION_COMPLETE);
    mrd_frame none = frame(9, 0), closed = frame(8, 0), open = frame(7, 0);
    mrd_effect e;

    e = send(c, START, 5, &none);
    CHECK(is_refused(&e, MRD_NOTFOUND, "is not known here (it may have been deleted)"));
    /* While a session's manifest cannot be read for now, frames of this session are not refused. */
    CHECK_ERR("note", mrd_core_unreadable(c, 9, true, "cannot read x: Input/output error"), MRD_OK);
    e = send(c, START, 5, &none);
    CHECK(e.status == MRD__ACK_STATUS__ACK_NOT_STORED && e.retry_ms > 0 &&
          strstr(e.text, "cannot be read now: cannot read x") != NULL);
    CHECK_ERR("note", mrd_core_unreadable(c, 9, false, "no manifest"), MRD_OK);
    e = send(c, START, 5, &none);
    CHECK(is_refused(&e, MRD_NOTFOUND, "is not known here"));
    mrd_core_readable(c, 9);
    CHECK_INT(c->unreadable, 0);
    c->stats.refused--;
    e = send(c, START, 5, &closed);
    CHECK(is_refused(&e, MRD_STATE, "is closed and accepts no more events"));
    CHECK_INT(over->n_parts, 0);
    CHECK_INT(c->stats.refused, 2);
    e = send(c, START, 5, &open);
    CHECK(e.kind == MRD_DO_APPEND && e.ticket == 5 && e.session == c->sessions[0] &&
          e.part == c->sessions[0]->parts[0] && e.node == c->nodes.v[0] && e.frame.session == 7);
    mrd_core_free(c);
}

/* Frames above the limit of pending frames are not answered, so the transport resends them. */
TEST(as_many_frames_wait_as_may)
{
    mrd_core *c = make((mrd_core_limits){ 0 });
    mrd_frame f = frame(7, 0);

    for (; f.seq < MRD_PENDING_MAX; f.seq++)
        CHECK_INT(send(c, START, 100 + f.seq, &f).kind, MRD_DO_APPEND);
    CHECK_INT(send(c, START, 5, &f).kind, MRD_DO_DROP);
    CHECK_INT(c->n_pending, MRD_PENDING_MAX);
    mrd_core_stored(c, core_at(START), 101, NULL);
    core_drain(c);
    CHECK_INT(send(c, START, 5, &f).kind, MRD_DO_APPEND);
    mrd_core_free(c);
}

TEST(as_many_runs_of_an_agent_as_can_be_told_apart)
{
    mrd_core *c = make((mrd_core_limits){ 0 });
    mrd_frame f = frame(7, 0), last = frame(7, UINT64_MAX);
    mrd_effect e;

    for (uint64_t epoch = 1; epoch <= MRD_EPOCHS_MAX; epoch++) {
        f.epoch = epoch;
        CHECK_INT(send(c, START, epoch, &f).kind, MRD_DO_APPEND);
        mrd_core_stored(c, core_at(START), epoch, NULL);
        core_drain(c);
    }
    f.epoch = MRD_EPOCHS_MAX + 1;
    e = send(c, START, 500, &f);
    CHECK(is_refused(&e, MRD_LIMIT, "node a began more than 64 epochs in one session"));
    CHECK_INT(c->stats.limited[MRD_LIMIT_EPOCHS], 1);
    f.epoch = 1;
    f.seq = 1;
    CHECK_INT(send(c, START, 501, &f).kind, MRD_DO_APPEND); /* of a registered run */
    last.epoch = 2;
    e = send(c, START, 502, &last); /* there is no larger number */
    CHECK(is_refused(&e, MRD_LIMIT, ""));
    mrd_core_free(c);
}

/* ---- Limits ---- */

TEST(what_holds_an_agent_back_is_said_once_a_minute)
{
    mrd_core *c = make((mrd_core_limits){ 0 });
    mrd_node *n = c->nodes.v[0];
    char text[MRD_WHY_MAX];
    static const struct {
        int64_t at_s;
        mrd_limit_kind kind;
        unsigned logged;
    } rows[] = { { 0, MRD_LIMIT_UPLOADS, 1 },   { 1, MRD_LIMIT_UPLOADS, 0 },
                 { 61, MRD_LIMIT_UPLOADS, 0 },  { 121, MRD_LIMIT_UPLOADS, 0 },
                 { 182, MRD_LIMIT_UPLOADS, 1 }, { 183, MRD_LIMIT_DISK, 1 },
                 { 184, MRD_LIMIT_UPLOADS, 1 } };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_core_limited(c, core_at(START + rows[i].at_s * MRD_SEC), n, rows[i].kind);
        CHECK_INT(core_logged(c, "AGG-LIMIT", text), rows[i].logged);
        CHECK(rows[i].logged == 0 || strstr(text, mrd_limit_text(rows[i].kind)) != NULL);
        CHECK_INT(n->slowed, i + 1);
    }
    CHECK(c->stats.limited[MRD_LIMIT_UPLOADS] == 6 && c->stats.limited[MRD_LIMIT_DISK] == 1);
    mrd_core_free(c);
}

/* If a limit delays a node, the list of nodes must name this limit for five seconds. */
TEST(a_node_says_what_holds_it_back_now)
{
    mrd_core *c = make((mrd_core_limits){ 0 });
    mrd_node *n = c->nodes.v[0];

    for (int64_t ms = 4999; ms <= 5000; ms++) {
        mrd_json *o;

        mrd_core_limited(c, core_at(START), n, MRD_LIMIT_UPLOADS);
        core_drain(c);
        n->seen.ns = START + ms * MRD_MS;
        o = mrd_node_json(n, n->seen, &c->limits);
        CHECK_TEXT(mrd_json_str(o, "limited_by", "nothing"), ms == 4999 ? "uploads" : "nothing");
        CHECK_INT(mrd_json_int(o, "slowed", 0), ms - 4998);
        mrd_json_free(o);
    }
    mrd_core_free(c);
}

TEST(the_rate_of_an_agent_and_of_all)
{
    static const struct {
        const char *what, *limit;
        int64_t agent, total;
        uint32_t want;
    } rows[] = { { "none", "none", 0, 0, 0 },
                 { "of the agent", "agent-rate", 1000, 0, 10 },
                 { "of all", "total-rate", 0, 1000, 10 },
                 { "both", "agent-rate", 1000, 1000, 10 },
                 { "of all alone", "total-rate", 1000000, 1000, 10 } };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_core *c = make((mrd_core_limits){ 0 });
        mrd_node *n = c->nodes.v[0];
        mrd_frame f = frame(7, 0);

        c->limits.agent_rate = rows[i].agent;
        c->limits.total_rate = rows[i].total;
        n->bucket = (mrd_bucket){ .at = { START } };
        c->bucket = (mrd_bucket){ .at = { START } };
        if (rows[i].agent == 1000000)
            n->bucket.bytes = 1000;
        CHECK_ROW(rows[i].what, mrd_core_rate_wait(c, core_at(START), n, 400) == rows[i].want);
        core_drain(c);
        CHECK_INT(c->stats.slowed, rows[i].want > 0);
        CHECK_ROW(rows[i].what, strcmp(mrd_limit_text(n->limited_by), rows[i].limit) == 0);
        CHECK_INT(n->bucket.bytes, rows[i].agent == 1000000 ? 1000 : 0);
        if (rows[i].want > 0) {
            mrd_effect e = send(c, START, 5, &f);

            CHECK(e.kind == MRD_DO_ACK && e.status == MRD__ACK_STATUS__ACK_SLOW_DOWN &&
                  e.err == MRD_LIMIT && e.retry_ms == 10);
        }
        mrd_core_free(c);
    }
}

TEST(a_node_that_left_gaps_may_send_what_makes_no_more)
{
    mrd_core *c = make((mrd_core_limits){ .node_gaps = 1 });
    static const struct {
        uint64_t seq;
        bool taken;
    } rows[] = { { 0, true },  { 2, true }, { 4, false }, { 3, true },
                 { 5, false }, { 1, true }, { 6, true } };
    mrd_effect e;

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_frame f = frame(7, rows[i].seq);

        e = send(c, START, i + 1, &f);
        CHECK_INT(e.kind == MRD_DO_APPEND, rows[i].taken);
        CHECK(rows[i].taken ||
              is_refused(&e, MRD_LIMIT,
                         "the numbers of node a's frames have 1 gaps in all sessions"));
        if (!rows[i].taken)
            continue;
        mrd_core_stored(c, core_at(START), i + 1, NULL);
        core_drain(c);
    }
    mrd_core_free(c);
}

/* ---- Durable, or not ---- */

TEST(what_is_durable_is_counted)
{
    mrd_core *c = make((mrd_core_limits){ 0 });
    mrd_session *s = c->sessions[0];
    mrd_frame f = frame(7, 0), clock = frame(7, 1);
    uint64_t version;
    mrd_effect e;

    clock.type = MRD_FRAME_CLOCK_DATA;
    clock.events = 0;
    (void) send(c, START, 5, &f);
    (void) send(c, START, 6, &clock);
    version = s->save.version;
    CHECK(!s->parts[0]->in_journal && c->stats.frames == 0);
    mrd_core_stored(c, core_at(START), 5, NULL);
    CHECK(core_find(c, MRD_DO_ACK, 5, &e) && e.status == MRD__ACK_STATUS__ACK_STORED);
    CHECK(s->save.version > version && s->parts[0]->in_journal);
    mrd_core_stored(c, core_at(START), 6, NULL);
    core_drain(c);
    CHECK(c->stats.frames == 2 && c->stats.events == 10 &&
          c->stats.bytes == 2 * (MRD_FRAME_HEADER + 100));
    CHECK(c->nodes.v[0]->frames == 2 && c->nodes.v[0]->events == 10 &&
          c->nodes.v[0]->bytes == 2 * (MRD_FRAME_HEADER + 100));
    CHECK(s->parts[0]->events == 10 && s->parts[0]->batches == 1 &&
          s->parts[0]->bytes == 2 * (MRD_FRAME_HEADER + 100));
    CHECK(mrd_part_frames(s->parts[0]) == 2 && c->n_pending == 0);
    CHECK(send(c, START, 7, &f).status == MRD__ACK_STATUS__ACK_DUPLICATE);
    CHECK_INT(c->stats.duplicates, 1);
    mrd_core_free(c);
}

/* A part states the time range of its batches in the node's RAW clock. Batches in another clock do
 * not change it. */
TEST(the_times_of_stored_batches)
{
    static const struct {
        int64_t first, last;
        uint8_t clock;
    } rows[] = {
        { 500, 600, 0 }, { 100, 900, 1 }, { 400, 450, 0 }, { 700, 800, 0 }, { 650, 660, 0 }
    };
    mrd_core *c = make((mrd_core_limits){ 0 });
    mrd_part *p;

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_frame f = frame(7, i);

        f.first.ns = rows[i].first;
        f.last.ns = rows[i].last;
        f.clock = rows[i].clock;
        (void) send(c, START, i + 1, &f);
        mrd_core_stored(c, core_at(START), i + 1, NULL);
        core_drain(c);
    }
    p = c->sessions[0]->parts[0];
    CHECK(p->first.ns == 400 && p->last.ns == 800 && p->batches == 5);
    mrd_core_free(c);
}

TEST(what_cannot_be_stored_comes_again_or_never)
{
    static const struct {
        mrd_err err;
        bool again, unstored, full;
    } rows[] = { { MRD_FULL, true, false, true },     { MRD_IO, true, true, false },
                 { MRD_NOMEM, true, false, false },   { MRD_LIMIT, true, false, false },
                 { MRD_CLOSED, true, false, false },  { MRD_CORRUPT, false, false, false },
                 { MRD_INVALID, false, false, false } };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_core *c = make((mrd_core_limits){ 0 });
        mrd_why why = { .err = rows[i].err, .text = "because" };
        mrd_frame f = frame(7, 0);
        mrd_effect e;

        (void) send(c, START, 5, &f);
        CHECK_INT(send(c, START, 6, &f).kind, MRD_DO_KINDS); /* a repetition waits too */
        mrd_core_stored(c, core_at(START), 5, &why);
        REQUIRE(core_find(c, MRD_DO_ACK, 5, &e));
        CHECK(e.err == rows[i].err && strcmp(e.text, "because") == 0);
        CHECK(e.status ==
              (rows[i].again ? MRD__ACK_STATUS__ACK_NOT_STORED : MRD__ACK_STATUS__ACK_REFUSED));
        CHECK_INT(e.retry_ms, rows[i].again ? 1000 : 0);
        CHECK_INT(c->stats.not_stored, rows[i].again ? 2 : 0);
        CHECK_INT(c->stats.refused, rows[i].again ? 0 : 2);
        CHECK(rows[i].unstored == (c->sessions[0]->unstored[0] != '\0'));
        CHECK(rows[i].full == (mrd_core_store_message(c) != NULL));
        CHECK(c->n_pending == 0 && c->stats.frames == 0 &&
              !mrd_part_has(c->sessions[0]->parts[0], &f));
        mrd_core_free(c);
    }
}

/* A directory that cannot be written is reported once, until something is stored in it again. */
TEST(a_session_that_cannot_be_stored_says_so)
{
    mrd_core *c = make((mrd_core_limits){ 0 });
    mrd_session *s = c->sessions[0];
    mrd_why io = { .err = MRD_IO, .text = "no folder" };
    mrd_manifest_context x = { 0 };
    char text[MRD_WHY_MAX];
    mrd_json *o;

    for (uint64_t i = 1; i < 6; i++) {
        mrd_frame f = frame(7, i);
        bool fails = i < 3;
        uint64_t version;

        (void) send(c, START, i, &f);
        version = s->save.version;
        mrd_core_stored(c, core_at(START), i, fails ? &io : NULL);
        CHECK_INT(core_logged(c, fails ? "AGG-NOT-STORED" : "AGG-STORED-AGAIN", text),
                  i == 1 || i == 3);
        CHECK((i != 1 && i != 3) || strstr(text, s->text) != NULL);
        CHECK(i == 2 || s->save.version > version);
        o = mrd_session_json(s, &x);
        CHECK_TEXT(mrd_json_str(o, "store_message", "none"), fails ? "no folder" : "none");
        mrd_json_free(o);
    }
    mrd_core_free(c);
}

/* ---- The disk ---- */

/* The disk counts as usable again only with a margin above the reserve, so that the next frames do
 * not fill it at once. */
TEST(a_full_disk_has_room_again_with_some_to_spare)
{
    static const int64_t reserve = 16LL << 30, room = reserve + (1LL << 30) + MRD_FRAME_MAX;
    mrd_core *c = make((mrd_core_limits){ .disk_reserve = reserve });
    mrd_session *s = c->sessions[0];
    char text[MRD_WHY_MAX];

    mrd_core_disk(c, core_at(START), reserve);
    CHECK_INT(core_logged(c, "AGG-DISK-FULL", text), 0);
    CHECK(mrd_core_store_message(c) == NULL);
    mrd_core_disk(c, core_at(START + 1), reserve - 1);
    CHECK_INT(core_logged(c, "AGG-DISK-FULL", text), 1);
    CHECK(strstr(text, "16383 MB free, less than the 16384 MB") != NULL);
    CHECK_INT(c->clock_spare, 64 << 20); /* at most, of a sixteenth */
    mrd_core_disk(c, core_at(START + 2), 0);
    CHECK_INT(core_logged(c, "AGG-DISK-FULL", text), 0); /* once */
    mrd_core_disk(c, core_at(START + 3), room);
    CHECK_INT(core_logged(c, "AGG-DISK-ROOM", text), 0);
    CHECK(mrd_core_store_message(c) != NULL && s->room.ns == 0);
    mrd_core_disk(c, core_at(START + 4), room + 1);
    CHECK_INT(core_logged(c, "AGG-DISK-ROOM", text), 1);
    CHECK(mrd_core_store_message(c) == NULL && s->full.ns == START + 1 && s->room.ns == START + 4);
    mrd_core_disk(c, core_at(START + 5), 0);
    core_drain(c);
    CHECK(s->full.ns == START + 1); /* when it was full first */
    mrd_core_free(c);
}

/* A sixteenth of the reserve is for clock data, without which events have no bound. */
TEST(clock_data_has_a_part_of_the_reserve)
{
    mrd_core *c = make((mrd_core_limits){ .disk_reserve = 16 * 300 });
    mrd_frame f = frame(7, 0);

    f.type = MRD_FRAME_CLOCK_DATA;
    mrd_core_disk(c, core_at(START), 0);
    core_drain(c);
    for (; f.seq < 3; f.seq++) /* 140 bytes each */
        CHECK_INT(send(c, START, 10 + f.seq, &f).kind, f.seq < 2 ? MRD_DO_APPEND : MRD_DO_ACK);
    mrd_core_free(c);
}

TEST(a_store_that_is_gone_takes_nothing)
{
    mrd_core *c = make((mrd_core_limits){ .disk_reserve = 1 << 20 });
    mrd_session *over = core_session(c, 8, 0, MRD_SESSION_COMPLETE);
    mrd_why gone = { .err = MRD_IO, .text = "the folder was removed" };
    mrd_frame f = frame(7, 0), clock = frame(7, 1);
    char text[MRD_WHY_MAX];
    uint64_t version = c->sessions[0]->save.version, before = over->save.version;
    mrd_effect e;

    clock.type = MRD_FRAME_CLOCK_DATA;
    for (int i = 0; i < 2; i++) {
        mrd_core_store_gone(c, core_at(START), &gone);
        CHECK_INT(core_logged(c, "AGG-STORE-GONE", text), i == 0);
        CHECK_TEXT(mrd_core_store_message(c), "the folder was removed");
        CHECK_INT(c->sessions[0]->save.version,
                  version + 1); /* the manifests of open sessions contain this change */
    }
    CHECK_INT(over->save.version, before);
    e = send(c, START, 5, &f);
    CHECK(e.kind == MRD_DO_ACK && e.status == MRD__ACK_STATUS__ACK_NOT_STORED && e.err == MRD_IO);
    CHECK_TEXT(e.text, "the folder was removed");
    e = send(c, START, 6, &clock); /* nothing is spared for it */
    CHECK(e.status == MRD__ACK_STATUS__ACK_NOT_STORED && e.err == MRD_IO);
    CHECK(c->stats.limited[MRD_LIMIT_DISK] == 2 && c->stats.not_stored == 2);
    version = c->sessions[0]->save.version;
    mrd_core_disk(c, core_at(START + 1), INT64_MAX);
    CHECK_INT(core_logged(c, "AGG-STORE-BACK", text), 1);
    CHECK(mrd_core_store_message(c) == NULL && c->sessions[0]->save.version == version + 1);
    CHECK_INT(send(c, START + 1, 7, &f).kind, MRD_DO_APPEND);
    mrd_core_free(c);
}

TEST(a_disk_that_refused_a_frame_says_what_to_do)
{
    mrd_core *c = make((mrd_core_limits){ .disk_reserve = 1 << 20 });
    mrd_why full = { .err = MRD_FULL, .text = "quota" };
    mrd_frame f = frame(7, 0), second = frame(7, 1), batch = frame(7, 2);
    char text[MRD_WHY_MAX];

    (void) send(c, START, 5, &f);
    (void) send(c, START, 6, &second);
    mrd_core_stored(c, core_at(START), 5, &full);
    CHECK_INT(core_logged(c, "AGG-DISK-FULL", text), 1);
    CHECK(strstr(text, "reason=quota") != NULL);
    CHECK_TEXT(mrd_core_store_message(c),
               "the store is full: delete sessions or enlarge it (quota)");
    mrd_core_stored(c, core_at(START), 6, &full);
    CHECK_INT(core_logged(c, "AGG-DISK-FULL", text), 0);
    CHECK(send(c, START, 7, &batch).status == MRD__ACK_STATUS__ACK_NOT_STORED);
    CHECK_INT(c->sessions[0]->full.ns, START);
    mrd_core_free(c);
}

TEST_MAIN()
