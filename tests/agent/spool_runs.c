/* tests/agent/spool_runs.c - compares the spool's results and its files with the model, and adopts
 * the state that a successor finds. */
#include "tests/agent/spool_runs.h"

#include <dirent.h>
#include <errno.h>

#include "base/buf.h"

/* ---- The disk ---- */

void
runs_before(void *self, const sim_disk_op *op, sim_disk_verdict *ret_verdict)
{
    model *m = self;
    bool counts = strstr(op->path, "/counts") != NULL;

    if (m->what == CALM || op->call == SIM_DISK_LIST || --m->left > 0)
        return;
    if (m->what != DIES &&
        (strstr(op->path, "/spool-") == NULL || (op->call == SIM_DISK_REMOVE && m->limited))) {
        /* fails the next call instead, because lost counts could not be recovered from other
         * files */
        m->left = 1;
        return;
    }
    if (m->what == DIES)
        *ret_verdict = (sim_disk_verdict){ .dies = true,
                                           .limited = op->call == SIM_DISK_WRITE,
                                           .at_most = op->len * m->part / 4 };
    else if (m->what == SHORT && op->call == SIM_DISK_WRITE)
        *ret_verdict =
            (sim_disk_verdict){ .limited = true, .at_most = op->len * (1 + m->part % 3) / 4 };
    else
        ret_verdict->err = m->part % 2 == 0 ? ENOSPC : EIO;
    if (m->what == DIES && counts && m->part < 3) /* a slot is written completely or not at all */
        ret_verdict->at_most = 0;
    else if (m->what == DIES && counts)
        ret_verdict->at_most = op->len;
    m->torn = m->torn || (op->call == SIM_DISK_WRITE && !counts);
    m->failed = m->starved = true;
    m->what = CALM;
}

void
runs_list_files(model *m)
{
    DIR *dir = opendir(DIR_OF);
    struct dirent *e;
    struct stat st;
    char path[400];

    m->n_files = 0;
    while (dir != NULL && (e = readdir(dir)) != NULL && m->n_files < FILES) {
        file_model *f = &m->files[m->n_files];

        if (strncmp(e->d_name, "spool-", 6) != 0)
            continue;
        snprintf(path, sizeof(path), DIR_OF "/%s", e->d_name);
        CHECK(sscanf(e->d_name, "spool-%16" SCNx64 ".mrs", &f->number) == 1);
        CHECK(stat(path, &st) == 0);
        f->size = (uint64_t) st.st_size;
        m->n_files++;
    }
    if (dir != NULL)
        closedir(dir);
    for (size_t i = 1; i < m->n_files; i++)
        for (size_t k = i; k > 0 && m->files[k - 1].number > m->files[k].number; k--) {
            file_model swap = m->files[k];

            m->files[k] = m->files[k - 1];
            m->files[k - 1] = swap;
        }
}

/* Returns NULL if the segment was removed or is empty. */
const file_model *
runs_file_of(const model *m, uint64_t number)
{
    for (size_t i = 0; i < m->n_files; i++)
        if (m->files[i].number == number && m->files[i].size > 0)
            return &m->files[i];
    return NULL;
}

uint64_t
runs_last_file(const model *m)
{
    return m->n_files == 0 ? 0 : m->files[m->n_files - 1].number;
}

uint64_t
runs_bytes_on_disk(const model *m)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < m->n_files; i++)
        sum += m->files[i].size;
    return sum;
}

/* ---- Checks against the model ---- */

uint8_t *
runs_bytes_of(const mrd_spool_item *item)
{
    size_t body = item->len - MRD_FRAME_HEADER;
    uint8_t *p = malloc(item->len);
    mrd_frame f = { .type = item->type,
                    .clock = item->clock,
                    .agent = 1,
                    .epoch = item->epoch,
                    .session = item->session,
                    .seq = item->seq,
                    .first = item->first,
                    .last = item->last };

    if (f.type == MRD_FRAME_BATCH) {
        f.events = 1 + (uint32_t) (item->events % 1000);
        f.head_len = f.head_raw = 4;
        f.cols_raw = (uint32_t) body - 4;
    }
    for (size_t i = 0; i < body; i++)
        p[MRD_FRAME_HEADER + i] = (uint8_t) (item->session * 7 + item->seq * 31 + i);
    mrd_frame_put(&f, (mrd_bytes){ p + MRD_FRAME_HEADER, body }, p);
    return p;
}

static void
check_item(model *m, const frame_model *f, const mrd_spool_item *item)
{
    const mrd_spool_item *want = &f->item;
    mrd_buf data = { 0 };
    uint8_t *p;

    CHECK(item->epoch == want->epoch && item->session == want->session && item->seq == want->seq);
    CHECK(item->events == want->events && item->len == want->len && item->type == want->type);
    CHECK(item->first.ns == want->first.ns && item->last.ns == want->last.ns);
    CHECK(item->clock == want->clock && item->earlier == want->earlier);
    if (draw(m, 8) != 0) /* their bytes now and then */
        return;
    CHECK_ERR("read", mrd_spool_read(m->s, item->id, &data, NULL), MRD_OK);
    p = runs_bytes_of(want);
    CHECK(data.len == want->len && memcmp(data.p, p, want->len) == 0);
    free(p);
    mrd_buf_fini(&data);
}

static void
check_queue(model *m)
{
    mrd_spool_item item;
    uint64_t from = 0;

    for (size_t i = 0; i < m->n && test_failures == 0; i++) {
        frame_model *f = &m->frames[i];

        if (f->fate != HELD || f->commit == 0)
            continue;
        REQUIRE(mrd_spool_peek(m->s, from, &item));
        check_item(m, f, &item);
        f->item.id = item.id;
        from = item.id + 1;
    }
    CHECK(!mrd_spool_peek(m->s, from, &item)); /* the remaining frames are not committed */
}

typedef struct {
    uint64_t events[MISSING + 1], begun, held, clock_lost;
} sums;

static void
add_up(const model *m, sums of[SESSIONS])
{
    memset(of, 0, SESSIONS * sizeof(*of));
    for (size_t i = 0; i < m->n; i++) {
        const frame_model *f = &m->frames[i];
        sums *sum = &of[f->item.session - FIRST];

        sum->events[f->fate] += f->item.events;
        sum->begun += f->commit != 0 ? f->item.events : 0;
        sum->held += f->fate == HELD;
    }
}

static bool
is_note(const session_model *q, const mrd_spool_tally *t)
{
    bool same = t->note_len == q->note_len;

    for (uint32_t i = 0; i < t->note_len && same; i++)
        same = t->note[i] == q->note;
    return same;
}

static void
check_base(const session_model *q, const mrd_spool_base *base, const sums *sum)
{
    CHECK((base != NULL) == q->has_base);
    if (base == NULL || !q->has_base)
        return;
    CHECK_INT(base->begun, q->base.begun);
    CHECK_INT(base->held, q->base.held);
    CHECK_INT(base->known, sum->events[BEFORE]);
    CHECK_INT(base->tally.delivered, q->base.tally.delivered);
    CHECK_INT(base->tally.refused, q->base.tally.refused);
    CHECK_INT(base->tally.forced, q->base.tally.forced);
    CHECK_INT(base->tally.damaged, q->base.tally.damaged);
}

static void
check_sessions(model *m)
{
    sums of[SESSIONS];

    add_up(m, of);
    for (uint64_t k = 0; k < m->sessions && test_failures == 0; k++) {
        session_model *q = &m->of[k];
        const sums *sum = &of[k];
        mrd_spool_tally t;
        uint64_t events;

        mrd_spool_get_tally(m->s, FIRST + k, &t);
        CHECK_INT(mrd_spool_held(m->s, FIRST + k, &events), sum->held);
        CHECK_INT(events, sum->events[HELD]);
        CHECK_INT(mrd_spool_next_seq(m->s, FIRST + k), q->next);
        CHECK_INT(t.delivered, sum->events[STORED]);
        CHECK_INT(t.refused, sum->events[REFUSED]);
        CHECK_INT(t.forced, sum->events[FORCED]);
        CHECK_INT(t.damaged, sum->events[DAMAGED]);
        if (m->sessions > NOTES && (t.note_len == 0 || q->note_len == 0)) {
            /* The spool keeps at most NOTES notes of sessions that are not in use. So it may have
             * dropped the note of this session. */
            q->note_len = t.note_len;
            q->note = t.note[0];
        }
        CHECK(is_note(q, &t));
        CHECK_INT(mrd_spool_clock_lost(m->s, FIRST + k), q->clock);
        check_base(q, mrd_spool_get_base(m->s, FIRST + k), sum);
        if (test_failures > 0)
            fprintf(stderr, "session %d\n", (int) k);
    }
}

/* Checks that the directory has exactly the segments of held frames and the newest one. */
static void
check_disk(model *m)
{
    mrd_spool_stats st;
    bool oldest_holds = m->n_files <= 1;

    mrd_spool_get_stats(m->s, &st);
    if (m->starved) /* a partial record may remain where space ran out */
        CHECK(st.file_bytes <= runs_bytes_on_disk(m));
    else
        CHECK_INT(st.file_bytes, runs_bytes_on_disk(m));
    for (size_t i = 0; i < m->n; i++) {
        const frame_model *f = &m->frames[i];

        if (f->fate != HELD || f->rescued)
            continue;
        CHECK(runs_file_of(m, f->segment) != NULL);
        oldest_holds = oldest_holds || f->segment == m->files[0].number;
    }
    CHECK(oldest_holds || m->files[0].size == 0 || m->files[0].number == m->positions_in);
}

static void
check_stats(model *m)
{
    mrd_spool_stats st, want = { 0 };
    bool open = false;

    for (size_t i = 0; i < m->n; i++) {
        const frame_model *f = &m->frames[i];

        open = open || f->commit == 0;
        if (f->fate != HELD)
            continue;
        want.items++;
        want.bytes += f->item.len;
        want.events += f->item.events;
    }
    for (uint64_t k = 0; k < m->sessions; k++)
        open = open || m->of[k].noted;
    mrd_spool_get_stats(m->s, &st);
    CHECK_INT(st.items, want.items);
    CHECK_INT(st.bytes, want.bytes);
    CHECK_INT(st.events, want.events);
    CHECK(mrd_spool_uncommitted(m->s) == open);
    CHECK(mrd_spool_epoch(m->s) == m->epoch && mrd_spool_since(m->s) == m->since);
}

void
runs_check_all(model *m)
{
    check_queue(m);
    check_sessions(m);
    check_stats(m);
    check_disk(m);
}

/* ---- Frames that the spool drops because it is full (forced out) ---- */

/* Forced out frames are counted at once. During an open that may be killed, the check follows when
 * the successor is opened. */
void
runs_dropped(void *self, const mrd_spool_item *item)
{
    model *m = self;

    m->n_forced++;
    CHECK(m->may_force);
    for (size_t i = 0; i < m->n && !m->opening; i++) {
        frame_model *f = &m->frames[i];

        if (f->fate != HELD || f->item.session != item->session || f->item.seq != item->seq ||
            f->item.epoch != item->epoch)
            continue;
        CHECK((!f->sent || sim_disk_is_dead(m->disk)) && f->item.events == item->events);
        CHECK(f->commit != 0 || (m->committing && m->starved));
        f->fate = FORCED;
        session_of(m, item->session)->clock += is_clock(f);
        m->forced++;
        return;
    }
    CHECK(m->opening); /* otherwise it would be in the queue */
}

/* Returns true if only one segment has contents. Others could not be removed and were truncated. */
bool
runs_is_last(const model *m)
{
    size_t n = 0;

    for (size_t i = 0; i < m->n_files; i++)
        n += m->files[i].size > 0;
    return n == 1;
}

/* Returns true if a frame of the oldest segment is not committed, or not before this commit. Such a
 * frame is not forced out before. */
bool
runs_oldest_waits(const model *m)
{
    uint64_t oldest = UINT64_MAX;
    bool waits = false;

    for (size_t i = 0; i < m->n_files; i++)
        if (m->files[i].size > 0 && m->files[i].number < oldest)
            oldest = m->files[i].number;
    for (size_t i = 0; i < m->n; i++) {
        const frame_model *f = &m->frames[i];

        waits = waits || (f->segment == oldest &&
                          (f->commit == 0 || (m->committing && f->commit == m->positions)));
    }
    return waits;
}

/* Updates the model after an operation that the process survived. Frames in flight are now in
 * memory if their segment was removed. All others that were forced out must have been in the oldest
 * segments, now removed. */
void
runs_converge(model *m, uint64_t bytes_before, uint64_t last_before, uint64_t last_len, room need)
{
    uint64_t most = m->max_bytes + (m->committing ? m->sessions * SESSION_MOST : 0);
    bool more;

    runs_list_files(m);
    if (m->positions_in != 0 && runs_file_of(m, m->positions_in) == NULL) {
        CHECK(m->may_force); /* space was needed, and no other segment could be removed */
        m->positions_in = m->last_positions = 0;
    }
    for (size_t i = 0; i < m->n; i++) {
        frame_model *f = &m->frames[i];

        if (f->fate == HELD && !f->rescued && runs_file_of(m, f->segment) == NULL) {
            CHECK(f->sent && m->may_force);
            f->rescued = true;
            m->n_forced++;
        }
        if (f->fate == FORCED)
            CHECK(runs_file_of(m, f->segment) == NULL);
    }
    if (need.most == 0 || m->starved)
        return;
    more = runs_last_file(m) != last_before;
    CHECK(more ? last_len + need.most > m->max_bytes / 16
               : last_len + need.least <= m->max_bytes / 16);
    CHECK(runs_bytes_on_disk(m) <= most || runs_is_last(m) || /* one is always there */
          runs_oldest_waits(m));
    if (m->n_forced > 0)
        CHECK(bytes_before + need.most + (more ? m->files[m->n_files - 1].size : 0) > m->max_bytes);
}

/* Gives a slot of the counts to each session in use. */
void
runs_give_places(model *m)
{
    for (uint64_t k = 0; k < m->sessions && m->sessions <= PLACES; k++)
        m->of[k].placed = m->of[k].placed || (m->of[k].known && !m->of[k].forgotten);
}

void
runs_committed(model *m)
{
    m->last_positions = m->positions;
    for (size_t i = 0; i < m->n; i++)
        if (m->frames[i].commit == 0)
            m->frames[i].commit = m->positions;
    for (uint64_t k = 0; k < m->sessions; k++) {
        session_model *q = &m->of[k];

        q->committed = q->next;
        if (q->noted) {
            q->note_len = q->given_up ? 0 : q->pending_len;
            q->note = q->pending;
        }
        q->noted = false;
    }
}

/* ---- The state of the spool that the next agent finds after a kill ---- */

static frame_model *
find_frame(model *m, const mrd_spool_item *item)
{
    for (size_t i = m->n; i-- > 0;)
        if (m->frames[i].item.session == item->session && m->frames[i].item.seq == item->seq &&
            m->frames[i].item.epoch == item->epoch)
            return &m->frames[i];
    return NULL;
}

/* Adopts the commit that a successor finds: the commit during which the process was killed, or the
 * previous one. */
static void
adopt_commit(model *m, bool damaged)
{
    size_t n, kept = 0;
    const mrd_spool_position *p = mrd_spool_recovered(m->s, &n);
    uint64_t at = n == 0 ? 0 : p[0].read;

    CHECK(at == m->last_positions || (m->committing && at == m->positions) ||
          (at == 0 && m->may_force && (m->starved || m->n_forced > 0)) ||
          (damaged && at < m->last_positions));
    for (size_t i = 0; i < n; i++)
        CHECK(p[i].ring == RING + i && p[i].read == at && mrd_spool_resume(m->s, RING + i) == at);
    if (m->committing && at == m->positions)
        runs_committed(m);
    m->last_positions = at;
    for (size_t i = 0; i < m->n; i++) /* frames with commit 0 were never committed, so are lost */
        if (m->frames[i].commit != 0)
            m->frames[kept++] = m->frames[i];
    m->n = kept;
    for (uint64_t k = 0; k < m->sessions; k++) {
        m->of[k].next = m->of[k].committed;
        m->of[k].noted = false;
    }
}

/* Adopts the frames that a successor finds. Answered frames are not among them, unless the answer
 * could not be recorded. */
static void
adopt_frames(model *m)
{
    mrd_spool_item item;
    size_t last = 0, sent = 0;

    for (size_t i = 0; i < m->n; i++)
        m->frames[i].seen = false;
    for (uint64_t from = 0; mrd_spool_peek(m->s, from, &item); from = item.id + 1) {
        frame_model *f = find_frame(m, &item);

        REQUIRE(f != NULL);
        CHECK(!f->seen && (size_t) (f - m->frames) >= last); /* once, in order */
        CHECK(f->fate == HELD || (f->fate == FORCED && f->segment != 0) || f->again);
        CHECK(f->commit <= m->last_positions || m->last_positions == 0);
        m->answers_again += f->again;
        last = (size_t) (f - m->frames);
        f->seen = true;
        f->fate = HELD;
        f->item.id = item.id;
        f->sent = sent++ < 16; /* unknown, because the predecessor may have sent them */
        f->rescued = runs_file_of(m, f->segment) == NULL; /* room was needed at once */
        CHECK(!f->rescued || f->sent);
    }
}

/* The missing frames were forced out, or their part of the segments was cut off. */
static void
adopt_missing(model *m, bool damaged, bool rebooted)
{
    frame_model *answered = m->answered;
    uint64_t oldest = UINT64_MAX;

    for (size_t i = 0; i < m->n; i++)
        if (m->frames[i].seen && m->frames[i].segment < oldest)
            oldest = m->frames[i].segment;
    for (size_t i = 0; i < m->n; i++) {
        frame_model *f = &m->frames[i];
        session_model *q = session_of(m, f->item.session);

        f->unsure = f->again = false;
        if (f->fate == FORCED)
            /* The successor recorded that this frame was forced out. The frame's segment may still
             * exist with other held frames, but the frame does not return from it. */
            f->segment = 0;
        if (f->fate != HELD || f->seen)
            continue;
        if (f == answered && !f->rescued) {
            f->fate = m->answer;
            q->clock += m->answer == REFUSED && is_clock(f);
        } else if (damaged && !f->rescued) {
            f->fate = rebooted ? MISSING : DAMAGED;
            m->damages++;
        } else {
            CHECK(f->rescued || m->may_force);
            CHECK(f->rescued || f->segment <= oldest);
            f->fate = FORCED;
            f->segment = 0;
            q->clock += is_clock(f);
            m->forced++;
        }
        f->rescued = false;
    }
}

/* Compares the lost frames of clock data: all that were counted, unless the disk had no space for
 * the count. */
static void
adopt_clock(model *m, bool damaged, bool killed)
{
    for (uint64_t k = 0; k < m->sessions; k++) {
        session_model *q = &m->of[k];
        uint64_t got = mrd_spool_clock_lost(m->s, FIRST + k);
        bool more;

        more = m->clock_lost == k + 1 || (m->answered != NULL && is_clock(m->answered) &&
                                          m->answered->item.session == FIRST + k);
        /* A lost frame is counted before its answer is recorded, so the count may be ahead. */
        CHECK(got <= q->clock + q->clock_over + more);
        if (!damaged)
            CHECK(got >= (m->starved || killed ? q->clock_least : q->clock));
        q->clock = q->clock_least = got;
        q->clock_over = 0;
    }
}

/* The process was killed during the answer to a frame without a segment. The frame is delivered if
 * the counts contain it. */
static void
adopt_answer(model *m)
{
    frame_model *f = m->answered;
    mrd_spool_tally t;
    sums of[SESSIONS];
    uint64_t k;

    if (f == NULL || f->fate != FORCED)
        return;
    k = f->item.session - FIRST;
    add_up(m, of);
    mrd_spool_get_tally(m->s, FIRST + k, &t);
    if (t.forced == of[k].events[FORCED])
        return;
    CHECK_INT(t.forced + f->item.events, of[k].events[FORCED]);
    f->fate = m->answer;
}

/* Returns true if all answers are recorded. Without a slot in the counts and without space for a
 * record, an answer is recorded only when the segment of its frames is removed. For a frame in
 * memory it is never recorded, so a killed process leaves fewer answers. */
static bool
is_told(model *m)
{
    sums of[SESSIONS];
    bool told = true;

    add_up(m, of);
    for (uint64_t k = 0; k < m->sessions; k++) {
        mrd_spool_tally t;

        mrd_spool_get_tally(m->s, FIRST + k, &t);
        told = told && (m->of[k].placed || (t.delivered >= of[k].events[STORED] &&
                                            t.refused >= of[k].events[REFUSED]));
    }
    return told;
}

static void
adopt_base(model *m, bool rebooted)
{
    sums of[SESSIONS];

    add_up(m, of);
    for (uint64_t k = 0; k < m->sessions && rebooted; k++) {
        session_model *q = &m->of[k];
        const sums *sum = &of[k];

        q->has_base = mrd_spool_get_base(m->s, FIRST + k) != NULL;
        CHECK(q->has_base || (sum->begun == 0 && q->note_len == 0));
        /* these events belong to the boot that began them */
        q->base.begun = sum->begun - sum->events[BEFORE];
        q->base.held = sum->events[HELD];
        q->base.tally.delivered = sum->events[STORED];
        q->base.tally.refused = sum->events[REFUSED];
        q->base.tally.forced = sum->events[FORCED];
        q->base.tally.damaged = sum->events[DAMAGED];
    }
    for (size_t i = 0; i < m->n && rebooted; i++)
        m->frames[i].item.earlier = m->frames[i].item.earlier || m->frames[i].fate == HELD;
}

void
runs_adopt(model *m, bool damaged, bool rebooted, bool killed)
{
    mrd_spool_stats st;
    uint64_t held = 0;

    for (size_t i = 0; i < m->n; i++)
        m->over = m->over || (m->frames[i].commit == 0 && m->frames[i].fate == FORCED);
    if (m->over)
        return;
    runs_list_files(m);
    mrd_spool_get_stats(m->s, &st);
    CHECK((mrd_spool_since(m->s) != m->since) == rebooted);
    CHECK(mrd_spool_epoch(m->s) == m->epoch || m->torn || m->starved || rebooted);
    CHECK(mrd_spool_epoch(m->s) != m->epoch || !rebooted);
    adopt_commit(m, damaged);
    if (mrd_spool_epoch(m->s) != m->epoch)
        for (uint64_t k = 0; k < m->sessions; k++)
            m->of[k].next = m->of[k].committed = 0;
    m->epoch = mrd_spool_epoch(m->s);
    m->since = mrd_spool_since(m->s);
    adopt_frames(m);
    adopt_missing(m, damaged, rebooted);
    if (m->starved && !is_told(m)) {
        m->over = true;
        return;
    }
    adopt_answer(m);
    adopt_clock(m, damaged, killed);
    adopt_base(m, rebooted);
    for (size_t i = 0; i < m->n; i++)
        held += m->frames[i].fate == HELD;
    CHECK_INT(st.recovered_items, held);
    for (uint64_t k = 0; k < m->sessions; k++)
        m->of[k].forgotten = false;
    runs_give_places(m);
    for (uint64_t k = 0; k < m->sessions; k++)
        m->of[k].forgotten = true; /* until the session is used again */
    m->positions_in = m->last_positions == 0 ? 0 : runs_last_file(m);
    m->torn = false;
    m->runs++;
}
