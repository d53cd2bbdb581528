/* Compares the spool with a list of frames. Operations are random: frames of several sessions,
 * commits, answers, notes and crashes, within the size limit and above it. Every few steps all
 * results of the spool are compared. */
#include "tests/check.h"

#include <dirent.h>

#include "agent/spool/spool.h"
#include "tests/trace/events.h"

enum { SESSIONS = 4, FRAMES = 4096, WINDOW = 16, RINGS = 5, FIRST_SESSION = 100 };

typedef struct {
    mrd_spool_item item; /* id: set when the frame was first seen in the queue */
    bool committed, done, sent;
} frame_model;

typedef struct {
    uint64_t next, committed; /* numbers */
    uint64_t delivered, refused, forced, clock_lost;
    uint32_t note_len, pending_len;
    uint8_t note[MRD_SPOOL_NOTE], pending[MRD_SPOOL_NOTE];
    bool saved;
} session_model;

typedef struct {
    mrd_spool *s;
    const char *dir;
    uint64_t seed, epoch;
    frame_model *frames;
    size_t n, first; /* number of frames; index of the first frame that is not answered */
    session_model sessions[SESSIONS];
    mrd_spool_position positions[RINGS];
    size_t n_positions;
    bool opening;
    uint64_t forced; /* frames */
    uint64_t biggest;
} model;

static session_model *
session_of(model *m, uint64_t session)
{
    return &m->sessions[session - FIRST_SESSION];
}

static void
force_out(model *m, frame_model *f)
{
    session_model *q = session_of(m, f->item.session);

    f->done = true;
    q->forced += f->item.events;
    q->clock_lost += f->item.type == MRD_FRAME_CLOCK_DATA;
    m->forced++;
}

/* Callback for a forced out frame: it must be the oldest one that is not in flight. */
static void
dropped(void *self, const mrd_spool_item *item)
{
    model *m = self;

    for (size_t i = m->first; i < m->n; i++) {
        frame_model *f = &m->frames[i];

        if (f->done)
            continue;
        if (f->item.session == item->session && f->item.seq == item->seq) {
            CHECK_INT(item->events, f->item.events);
            force_out(m, f);
            return;
        }
        CHECK(f->sent || m->opening);
    }
    CHECK_INT(item->seq, UINT64_MAX); /* the frame must not be in the queue */
}

static uint8_t *
bytes_of(const model *m, const mrd_spool_item *item)
{
    size_t body = item->len - MRD_FRAME_HEADER;
    uint8_t *p = malloc(item->len);
    mrd_frame f = { .type = item->type,
                    .clock = item->clock,
                    .agent = 1,
                    .epoch = m->epoch,
                    .session = item->session,
                    .seq = item->seq,
                    .first = item->first,
                    .last = item->last };

    if (f.type == MRD_FRAME_BATCH) {
        f.events = (uint32_t) item->events;
        f.head_len = f.head_raw = 4;
        f.cols_raw = (uint32_t) body - 4;
    }
    for (size_t i = 0; i < body; i++)
        p[MRD_FRAME_HEADER + i] = (uint8_t) (item->session * 7 + item->seq * 31 + i);
    mrd_frame_put(&f, (mrd_bytes){ p + MRD_FRAME_HEADER, body }, p);
    return p;
}

static void
step_add(model *m)
{
    uint64_t r = test_rand(&m->seed);
    frame_model *f = &m->frames[m->n];
    session_model *q;
    uint8_t *p;

    if (m->n == FRAMES)
        return;
    *f = (frame_model){ .item = { .session = FIRST_SESSION + r % SESSIONS,
                                  .epoch = m->epoch,
                                  .type = r >> 8 & 1 ? MRD_FRAME_BATCH : MRD_FRAME_CLOCK_DATA,
                                  .clock = (uint8_t) (r >> 9 & 1),
                                  .first = { (int64_t) (r >> 10 & 0xffff) } } };
    q = session_of(m, f->item.session);
    f->item.seq = q->next;
    f->item.last = mrd_ev_add(f->item.first, (int64_t) (r >> 26 & 0xff));
    f->item.events = f->item.type == MRD_FRAME_BATCH ? 1 + (r >> 34 & 63) : 0;
    /* a single event, or about the maximum of a batch */
    if ((r >> 58 & 3) == 0 && f->item.events > 0)
        f->item.events = f->item.events % 2 == 0 ? f->item.events * 1021 : 1;
    f->item.len = MRD_FRAME_HEADER + 8 + (uint32_t) ((r >> 40) % (r >> 60 == 0 ? 120000 : 60000));
    m->biggest = f->item.len > m->biggest ? f->item.len : m->biggest;
    p = bytes_of(m, &f->item);
    m->n++; /* before the call, because the frames forced out meanwhile are older */
    CHECK_ERR("add", mrd_spool_add(m->s, (mrd_bytes){ p, f->item.len }, f->item.events, NULL),
              MRD_OK);
    free(p);
    q->next++;
}

static void
step_commit(model *m)
{
    m->n_positions = test_rand(&m->seed) % (RINGS + 1);
    for (size_t i = 0; i < m->n_positions; i++)
        m->positions[i] = (mrd_spool_position){ 1000 + i, test_rand(&m->seed) };
    CHECK_ERR("commit", mrd_spool_commit(m->s, m->positions, m->n_positions, NULL), MRD_OK);
    for (size_t i = m->first; i < m->n; i++)
        m->frames[i].committed = true;
    for (size_t k = 0; k < SESSIONS; k++) {
        session_model *q = &m->sessions[k];

        q->committed = q->next;
        if (q->saved) {
            q->note_len = q->pending_len;
            memcpy(q->note, q->pending, q->pending_len);
            q->saved = false;
        }
    }
}

static void
step_note(model *m)
{
    session_model *q = &m->sessions[test_rand(&m->seed) % SESSIONS];

    q->pending_len = (uint32_t) (test_rand(&m->seed) % (MRD_SPOOL_NOTE + 1));
    memset(q->pending, (int) (test_rand(&m->seed) & 255), q->pending_len);
    q->saved = true;
    CHECK_ERR("note",
              mrd_spool_note(m->s, FIRST_SESSION + (uint64_t) (q - m->sessions), q->pending,
                             q->pending_len),
              MRD_OK);
}

/* Answers one of the first few frames, like a send window. */
static void
step_answer(model *m)
{
    uint64_t skip = test_rand(&m->seed) % 8;
    bool stored = test_rand(&m->seed) % 4 != 0;
    mrd_spool_item item = { 0 };
    frame_model *f = NULL;
    session_model *q;
    uint64_t from = 0;

    do {
        if (!mrd_spool_peek(m->s, from, &item))
            break;
        from = item.id + 1;
    } while (skip-- > 0);
    for (size_t i = m->first; i < m->n && from > 0; i++)
        if (m->frames[i].item.session == item.session && m->frames[i].item.seq == item.seq &&
            !m->frames[i].done)
            f = &m->frames[i];
    if (f == NULL)
        return;
    if (test_rand(&m->seed) % 2 == 0) { /* the frame is in flight and not answered yet */
        mrd_spool_sent(m->s, item.id);
        f->sent = true;
        return;
    }
    CHECK(mrd_spool_done(m->s, item.id, stored));
    CHECK(!mrd_spool_done(m->s, item.id, stored));
    f->done = true;
    q = session_of(m, item.session);
    *(stored ? &q->delivered : &q->refused) += item.events;
    q->clock_lost += !stored && item.type == MRD_FRAME_CLOCK_DATA;
}

static void
step_other(model *m)
{
    uint64_t session = FIRST_SESSION + test_rand(&m->seed) % SESSIONS;

    switch (test_rand(&m->seed) % 3) {
    case 0:
        mrd_spool_lose_clock(m->s, session);
        session_of(m, session)->clock_lost++;
        break;
    case 1:
        mrd_spool_forget(m->s, session); /* the frames, number and counts of the session stay */
        break;
    default:
        mrd_spool_recall(m->s, session);
    }
}

/* ---- Checks against the model ---- */

static void
check_queue(model *m)
{
    mrd_spool_item item;
    mrd_buf data = { 0 };
    uint64_t from = 0;

    while (m->first < m->n && m->frames[m->first].done)
        m->first++;
    for (size_t i = m->first; i < m->n && test_failures == 0; i++) {
        frame_model *f = &m->frames[i];
        const mrd_spool_item *want = &f->item;
        uint8_t *p;

        if (f->done)
            continue;
        if (!f->committed)
            break;
        REQUIRE(mrd_spool_peek(m->s, from, &item));
        CHECK(item.id >= from);
        CHECK(item.epoch == want->epoch && item.session == want->session && item.seq == want->seq);
        CHECK(item.events == want->events && item.len == want->len && item.type == want->type);
        CHECK(item.first.ns == want->first.ns && item.last.ns == want->last.ns);
        CHECK_INT(item.clock, want->clock);
        from = item.id + 1;
        if (test_rand(&m->seed) % 8 != 0) /* their bytes now and then */
            continue;
        CHECK_ERR("read", mrd_spool_read(m->s, item.id, &data, NULL), MRD_OK);
        p = bytes_of(m, want);
        CHECK(data.len == want->len && memcmp(data.p, p, want->len) == 0);
        free(p);
    }
    CHECK(!mrd_spool_peek(m->s, from, &item)); /* the remaining frames are not committed */
    mrd_buf_fini(&data);
}

static void
check_sessions(model *m)
{
    for (uint64_t k = 0; k < SESSIONS; k++) {
        const session_model *q = &m->sessions[k];
        uint64_t held = 0, events = 0, got;
        mrd_spool_tally t;

        for (size_t i = m->first; i < m->n; i++)
            if (!m->frames[i].done && m->frames[i].item.session == FIRST_SESSION + k) {
                held++;
                events += m->frames[i].item.events;
            }
        mrd_spool_get_tally(m->s, FIRST_SESSION + k, &t);
        CHECK_INT(mrd_spool_held(m->s, FIRST_SESSION + k, &got), held);
        CHECK_INT(got, events);
        CHECK_INT(mrd_spool_next_seq(m->s, FIRST_SESSION + k), q->next);
        CHECK_INT(t.delivered, q->delivered);
        CHECK_INT(t.refused, q->refused);
        CHECK_INT(t.forced, q->forced);
        CHECK_INT(t.damaged, 0);
        CHECK(t.note_len == q->note_len && memcmp(t.note, q->note, q->note_len) == 0);
        CHECK_INT(mrd_spool_clock_lost(m->s, FIRST_SESSION + k), q->clock_lost);
    }
}

/* Compares the size of the segment files, and checks that it is allowed. */
static void
check_stats(model *m)
{
    mrd_spool_stats st, want = { 0 };
    bool open_frames = false, open_notes = false;
    uint64_t on_disk = 0;
    DIR *dir = m->dir == NULL ? NULL : opendir(m->dir);
    struct dirent *e;
    struct stat info;

    for (size_t i = m->first; i < m->n; i++) {
        const frame_model *f = &m->frames[i];

        if (f->done)
            continue;
        want.items++;
        want.bytes += f->item.len;
        want.events += f->item.events;
        open_frames = open_frames || !f->committed;
    }
    for (size_t k = 0; k < SESSIONS; k++) {
        open_notes = open_notes || m->sessions[k].saved;
        open_frames = open_frames || m->sessions[k].next != m->sessions[k].committed;
    }
    mrd_spool_get_stats(m->s, &st);
    CHECK_INT(st.items, want.items);
    CHECK_INT(st.bytes, want.bytes);
    CHECK_INT(st.events, want.events);
    CHECK(mrd_spool_uncommitted(m->s) == (open_frames || open_notes));
    while (dir != NULL && (e = readdir(dir)) != NULL)
        if (strncmp(e->d_name, "spool-", 6) == 0 && fstatat(dirfd(dir), e->d_name, &info, 0) == 0)
            on_disk += (uint64_t) info.st_size;
    if (dir != NULL) {
        CHECK_INT(st.file_bytes, on_disk);
        CHECK_INT(mrd_spool_damage_in(m->dir), 0);
        closedir(dir);
    }
    /* The spool may exceed its limit by one frame and the header of a segment until the next frame
     * is added. */
    CHECK(st.file_bytes <= MRD_SPOOL_MIN_BYTES + m->biggest + 2 * SESSIONS * 2048);
    CHECK_INT(st.damaged_events, 0);
    CHECK_INT(st.torn_bytes, 0);
}

static void
check_all(model *m)
{
    check_queue(m);
    check_sessions(m);
    check_stats(m);
}

/* ---- Lives ---- */

static void
open_model(model *m)
{
    mrd_why why = { 0 };
    mrd_err err;

    m->opening = true;
    err = mrd_spool_open(
        &(mrd_spool_options){
            .dir = m->dir, .max_bytes = MRD_SPOOL_MIN_BYTES, .dropped = dropped, .self = m },
        &m->s, &why);
    m->opening = false;
    if (err != MRD_OK)
        fprintf(stderr, "%s\n", why.text);
    CHECK_ERR("open", err, MRD_OK);
}

/* The agent is killed and its successor opens the directory. Uncommitted frames are lost. Frames
 * that were in memory only are lost too, and count as forced out. */
static void
step_crash(model *m)
{
    mrd_spool_item item;
    mrd_spool_stats st;
    uint64_t items = 0, events = 0;
    size_t n = 0, sent = 0;
    const mrd_spool_position *p;

    mrd_spool_close(m->s);
    for (size_t i = m->first; i < m->n; i++)
        if (m->frames[i].committed)
            m->frames[m->first + n++] = m->frames[i];
    m->n = m->first + n;
    for (size_t k = 0; k < SESSIONS; k++) {
        m->sessions[k].next = m->sessions[k].committed;
        m->sessions[k].saved = false;
    }
    open_model(m);
    CHECK(mrd_spool_epoch(m->s) == m->epoch);
    if (!mrd_spool_peek(m->s, 0, &item))
        item.session = 0;
    for (size_t i = m->first; i < m->n; i++) {
        frame_model *f = &m->frames[i];

        if (f->item.session == item.session && f->item.seq == item.seq)
            break; /* all later frames are present */
        if (f->done)
            continue;
        CHECK(f->sent);
        force_out(m, f);
    }
    for (size_t i = m->first; i < m->n; i++) {
        frame_model *f = &m->frames[i];

        if (f->done)
            continue;
        f->sent = sent++ < WINDOW; /* unknown, because the predecessor may have sent them */
        items++;
        events += f->item.events;
    }
    mrd_spool_get_stats(m->s, &st);
    CHECK_INT(st.recovered_items, items);
    CHECK_INT(st.recovered_events, events);
    p = mrd_spool_recovered(m->s, &n);
    CHECK_INT(n, m->n_positions);
    CHECK(n == 0 || memcmp(p, m->positions, n * sizeof(*p)) == 0);
    for (size_t i = 0; i < n; i++)
        CHECK(mrd_spool_resume(m->s, m->positions[i].ring) == m->positions[i].read);
    CHECK_INT(mrd_spool_resume(m->s, 77), 0);
}

/* Runs `steps` random steps. Of 8 steps, `flow` add frames. */
static void
run(const char *dir, uint64_t seed, unsigned flow, unsigned steps)
{
    model m = { .dir = dir, .seed = seed * 2654435761u + 1, .frames = NULL };

    m.frames = calloc(FRAMES, sizeof(*m.frames));
    open_model(&m);
    REQUIRE(m.s != NULL);
    m.epoch = mrd_spool_epoch(m.s);
    for (unsigned i = 0; i < steps && test_failures == 0; i++) {
        uint64_t what = test_rand(&m.seed) % 16;

        if (what < flow)
            step_add(&m);
        else if (what < 13)
            step_answer(&m);
        else if (what == 13)
            step_commit(&m);
        else if (what == 14)
            test_rand(&m.seed) % 2 == 0 ? step_note(&m) : step_other(&m);
        else if (dir != NULL && test_rand(&m.seed) % 16 == 0)
            step_crash(&m);
        if (i % 40 == 0)
            check_all(&m);
    }
    check_all(&m);
    CHECK(flow < 8 || m.forced > 20);
    if (test_failures > 0)
        fprintf(stderr, "seed %d, %u of 16 steps add\n", (int) seed, flow);
    mrd_spool_close(m.s);
    free(m.frames);
}

TEST(within_the_bound)
{
    for (uint64_t seed = 1; seed <= 6 && test_failures == 0; seed++) {
        char dir[128];

        snprintf(dir, sizeof(dir), "%s/w%d", test_tmp(), (int) seed);
        run(dir, seed, 5, 1500);
    }
}

TEST(beyond_the_bound)
{
    for (uint64_t seed = 1; seed <= 4 && test_failures == 0; seed++) {
        char dir[128];

        snprintf(dir, sizeof(dir), "%s/b%d", test_tmp(), (int) seed);
        run(dir, seed, 10, 1500);
    }
}

TEST(in_memory)
{
    for (uint64_t seed = 1; seed <= 2 && test_failures == 0; seed++)
        run(NULL, seed, 10, 1500);
}

TEST_MAIN()
