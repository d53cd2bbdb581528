/* Compares the spool with a model, over several runs and boots. Random operations run on a disk
 * that fills up, fails, or is stopped in a call by a kill. After each operation and each run all
 * results of the spool and its files are compared. For each frame the model knows if it was
 * committed, its answer, and its segment. For a call in which the process was killed, the model
 * knows which outcomes are allowed. MRD_SEED selects other runs. */
#include "tests/agent/spool_runs.h"

#include <fcntl.h>

#include "tests/seed.h"

/* ---- Operations ---- */

static void
step_add(model *m)
{
    uint64_t k = draw(m, m->sessions), bytes, last, last_len, whole;
    frame_model *f = &m->frames[m->n];
    session_model *q = &m->of[k];
    mrd_err err;
    uint8_t *p;

    if (m->n == FRAMES)
        return;
    *f = (frame_model){ .item = { .session = FIRST + k,
                                  .epoch = m->epoch,
                                  .seq = q->next,
                                  .type = draw(m, 4) ? MRD_FRAME_BATCH : MRD_FRAME_CLOCK_DATA,
                                  .clock = (uint8_t) draw(m, 2),
                                  .first = { 1 + (int64_t) draw(m, 100000) } } };
    f->item.last = mrd_ev_add(f->item.first, (int64_t) draw(m, 1000));
    if (!is_clock(f))
        f->item.events = draw(m, 8) ? 1 + draw(m, 100) : 20000000 + draw(m, 100);
    f->item.len = MRD_FRAME_HEADER + 8 + (uint32_t) draw(m, draw(m, 4) ? 100 : 1200);
    whole = RECORD + 8 + f->item.len;
    p = runs_bytes_of(&f->item);
    bytes = runs_bytes_on_disk(m);
    last = runs_last_file(m);
    last_len = m->files[m->n_files - 1].size;
    m->may_force = true;
    err = mrd_spool_add(m->s, (mrd_bytes){ p, f->item.len }, f->item.events, NULL);
    free(p);
    if (sim_disk_is_dead(m->disk))
        return;
    if (err == MRD_OK) {
        m->n++;
        q->next++;
        q->known = true;
        q->forgotten = false;
        runs_list_files(m);
        f->segment = runs_last_file(m);
    } else {
        CHECK((m->limited && err == MRD_FULL) || m->failed);
        CHECK(err == MRD_FULL || err == MRD_IO);
        runs_list_files(m);
        CHECK(err != MRD_FULL || m->failed || runs_is_last(m) || runs_oldest_waits(m));
    }
    runs_converge(m, bytes, last, last_len, (room){ whole, whole });
}

static void
step_commit(model *m)
{
    mrd_spool_position at[3];
    uint64_t bytes = runs_bytes_on_disk(m), last = runs_last_file(m);
    uint64_t last_len = m->files[m->n_files - 1].size, n = 1 + draw(m, 3);
    room need = { RECORD + 8 + n * 16, RECORD + 8 + n * 16 };
    mrd_err err;

    m->positions++;
    for (uint64_t i = 0; i < n; i++)
        at[i] = (mrd_spool_position){ RING + i, m->positions };
    for (uint64_t k = 0; k < m->sessions; k++)
        need.most += m->of[k].noted ? 16 + m->of[k].pending_len : 0;
    if (m->sessions <= NOTES) /* otherwise some notes of unused sessions are dropped */
        need.least = need.most;
    m->may_force = m->committing = true;
    err = mrd_spool_commit(m->s, at, n, NULL);
    if (sim_disk_is_dead(m->disk))
        return;
    if (err == MRD_OK) {
        runs_committed(m);
        runs_give_places(m);
        runs_list_files(m);
        m->positions_in = runs_last_file(m);
    } else {
        CHECK((m->limited && err == MRD_FULL) || m->failed);
    }
    runs_converge(m, bytes, last, last_len, need);
}

/* Returns true if the counts contain the answer: they have a slot for the session, and the number
 * is among the 64 from its first unanswered one, in this epoch. */
static bool
counts_tell(model *m, const frame_model *f)
{
    uint64_t first = UINT64_MAX;

    for (size_t i = 0; i < m->n; i++) {
        const frame_model *o = &m->frames[i];

        if (o->item.session == f->item.session && o->item.epoch == m->epoch && o->fate == HELD &&
            !o->rescued && o->item.seq < first)
            first = o->item.seq;
    }
    return session_of(m, f->item.session)->placed && f->item.epoch == m->epoch &&
           (f->item.seq < first || f->item.seq - first < TOLD);
}

static void
answer(model *m, frame_model *f, fate how)
{
    session_model *q = session_of(m, f->item.session);

    f->unsure = m->starved;
    f->again = f->unsure && !f->rescued && !counts_tell(m, f);
    f->fate = how;
    q->clock += how == REFUSED && is_clock(f);
    q->clock_over +=
        f->rescued && m->starved && is_clock(f); /* the loss is subtracted when there is space */
}

/* Picks one of the first few committed frames, like a send window. */
static frame_model *
pick(model *m)
{
    uint64_t skip = draw(m, 16);
    frame_model *f = NULL;

    for (size_t i = 0; i < m->n; i++) {
        if (m->frames[i].fate != HELD || m->frames[i].commit == 0)
            continue;
        f = &m->frames[i];
        if (skip-- == 0)
            break;
    }
    return f;
}

static void
step_answer(model *m)
{
    frame_model *f = pick(m);
    uint64_t how = draw(m, 5);
    fate as = how == 0 ? REFUSED : STORED;
    bool done;

    if (f == NULL)
        return;
    /* The frame is in memory only. If the disk is too full for the record that lists it, no file shows the next run of the agent that the frame was stored before. */
    if (f->item.earlier && how >= 3 && m->of[f->item.session - FIRST].has_base &&
        !(f->rescued && (m->starved || m->what != CALM)))
        as = BEFORE;
    m->answered = f;
    m->answer = as;
    done = as == BEFORE ? mrd_spool_done_before(m->s, f->item.id)
                        : mrd_spool_done(m->s, f->item.id, as == STORED);
    if (sim_disk_is_dead(m->disk))
        return;
    CHECK(done && !mrd_spool_done(m->s, f->item.id, true));
    answer(m, f, as);
    runs_converge(m, 0, 0, 0, (room){ 0 });
}

static void
step_sent(model *m)
{
    frame_model *f = pick(m);

    if (f == NULL)
        return;
    mrd_spool_sent(m->s, f->item.id);
    f->sent = true;
}

static void
step_note(model *m)
{
    uint64_t k = draw(m, m->sessions);
    session_model *q = &m->of[k];
    uint8_t note[NOTE_MOST];

    q->pending_len = 1 + (uint32_t) draw(m, NOTE_MOST);
    q->pending = (uint8_t) draw(m, 256);
    memset(note, q->pending, sizeof(note));
    CHECK_ERR("note", mrd_spool_note(m->s, FIRST + k, note, q->pending_len), MRD_OK);
    q->noted = q->known = true;
    q->given_up = false;
}

static void
step_session(model *m)
{
    uint64_t k = draw(m, m->sessions);
    session_model *q = &m->of[k];

    switch (draw(m, 4)) {
    case 0:
        m->clock_lost = k + 1;
        mrd_spool_lose_clock(m->s, FIRST + k);
        if (sim_disk_is_dead(m->disk))
            return;
        q->known = true;
        q->clock++;
        runs_converge(m, 0, 0, 0, (room){ 0 });
        break;
    case 1:
        mrd_spool_forget(m->s, FIRST + k); /* frames, number and counts stay, but not the slot */
        q->placed = false;
        q->forgotten = true;
        for (uint64_t i = 0; i < m->sessions; i++)
            m->of[i].given_up = m->of[i].given_up || (m->of[i].forgotten && m->sessions > NOTES);
        break;
    default:
        mrd_spool_recall(m->s, FIRST + k);
        q->forgotten = false;
    }
}

static mrd_err
open_once(model *m)
{
    char boot[2] = { m->boot, '\0' };
    mrd_err err;

    m->opening = m->may_force = true;
    err = mrd_spool_open(&(mrd_spool_options){ .dir = DIR_OF,
                                               .max_bytes = m->max_bytes,
                                               .boot_id = boot,
                                               .dropped = runs_dropped,
                                               .self = m },
                         &m->s, NULL);
    m->opening = false;
    if (err != MRD_OK)
        m->s = NULL;
    return err;
}

static void
plan(model *m, fault what, uint64_t within)
{
    m->what = what;
    m->left = 1 + (unsigned) draw(m, within);
    m->part = (unsigned) draw(m, 5);
}

/* Returns true if the counts contain all that the segments do: each session has a slot, and each
 * frame a number near the first unanswered one, in this epoch. */
static bool
counts_know_all(model *m)
{
    for (size_t i = 0; i < m->n; i++) {
        const frame_model *f = &m->frames[i];

        if (f->commit != 0 && runs_file_of(m, f->segment) != NULL && !counts_tell(m, f))
            return false;
    }
    for (uint64_t k = 0; k < m->sessions; k++)
        if (m->of[k].has_base || (m->of[k].known && !m->of[k].placed))
            return false;
    return !m->starved;
}

/* Cuts the newest segment at a random byte, or removes all segments, as a user could. */
static void
damage(model *m)
{
    bool all = draw(m, 4) == 0;
    char path[400];

    for (size_t i = 0; i < m->n_files; i++) {
        const file_model *f = &m->files[i];
        int fd;

        snprintf(path, sizeof(path), DIR_OF "/spool-%016" PRIx64 ".mrs", f->number);
        if (all)
            CHECK(unlink(path) == 0);
        if (all || i + 1 < m->n_files)
            continue;
        fd = open(path, O_RDWR | O_CLOEXEC);
        CHECK(fd >= 0 && ftruncate(fd, (off_t) draw(m, f->size)) == 0);
        close(fd);
    }
    m->torn = true;
}

/* Kills the process and opens the directory until that succeeds. */
static void
step_die(model *m, bool damaged)
{
    bool rebooted = !damaged && draw(m, 6) == 0, killed = sim_disk_is_dead(m->disk);

    m->kills += killed;
    for (int run = 0;; run++) {
        mrd_err err;
        bool dead;

        mrd_spool_close(m->s);
        m->s = NULL;
        sim_disk_kill(m->disk);
        m->what = CALM;
        if (damaged && run == 0)
            damage(m);
        if (draw(m, 2) == 0 || run > 4) {
            sim_disk_set_quota(m->disk, 0);
            m->limited = false;
        } else if (m->limited && draw(m, 2) == 0) {
            sim_disk_set_quota(m->disk, sim_disk_used(m->disk) + draw(m, 1500));
        }
        if (run < 4 && !damaged && draw(m, 3) == 0)
            plan(m, draw(m, 3) ? DIES : FAILS, 12);
        if (rebooted && run == 0) {
            m->boot = m->boot == 'z' ? 'a' : (char) (m->boot + 1);
            m->boots++;
        }
        m->failed = false;
        err = open_once(m);
        m->what = CALM;
        dead = sim_disk_is_dead(m->disk);
        killed = killed || dead;
        if (!dead && err == MRD_OK)
            break;
        CHECK(dead || m->failed || (m->limited && err == MRD_FULL));
        CHECK(run < 8);
        if (run >= 8)
            return;
    }
    m->starved = m->starved || m->limited;
    runs_adopt(m, damaged, rebooted, killed);
    m->starved = m->limited || m->failed;
}

static void
step_disk(model *m)
{
    if (draw(m, m->hungry ? 8 : 3) == 0) {
        sim_disk_set_quota(m->disk, 0);
        m->limited = false;
    } else {
        sim_disk_set_quota(m->disk, sim_disk_used(m->disk) + draw(m, m->hungry ? 300 : 1500));
        m->limited = m->starved = true;
    }
}

static void
step(model *m)
{
    uint64_t what = draw(m, 40);
    bool waits = m->n > 0 && m->frames[m->n - 1].commit == 0;

    m->committing = m->may_force = m->failed = false;
    m->answered = NULL;
    m->clock_lost = 0;
    m->n_forced = 0;
    if (m->hungry && draw(m, 4) == 0)
        what = draw(m, 4) == 0 ? 37 : draw(m, 3) == 0 ? 38 : 22;
    if (draw(m, 25) == 0)
        plan(m, DIES, 6);
    else if (draw(m, 40) == 0)
        plan(m, draw(m, 2) ? FAILS : SHORT, 3);
    if (what < 9)
        step_add(m);
    else if (what < 22)
        step_answer(m);
    else if (what < 25)
        step_sent(m);
    else if (what < 31 || (waits && what < 36))
        step_commit(m);
    else if (what < 33)
        step_note(m);
    else if (what < 36)
        step_session(m);
    else if (what == 37)
        step_disk(m);
    else if (what == 38 && draw(m, 4) == 0)
        step_die(m, draw(m, 3) == 0 && counts_know_all(m));
    m->what = CALM;
    if (sim_disk_is_dead(m->disk))
        step_die(m, false);
    for (uint64_t k = 0; k < m->sessions && !m->starved; k++)
        m->of[k].clock_least = m->of[k].clock;
}

/* How often each rare situation occurred. If one never occurs, the test tests less than it says. */
typedef struct {
    unsigned runs, forced, again, boots, kills, damages, over;
} counted;

static void
run(counted *totals, uint64_t seed, uint64_t sessions, uint64_t max_bytes, unsigned steps)
{
    model *m = calloc(1, sizeof(*m));
    unsigned i;

    m->frames = calloc(FRAMES, sizeof(*m->frames));
    m->rand = seed * 2654435761u + 88172645463325252u;
    m->sessions = sessions;
    m->hungry = seed % 4 == 0;
    m->max_bytes = max_bytes;
    m->boot = 'a';
    m->disk =
        sim_disk_new("runs", &(sim_disk_options){ .seed = seed, .before = runs_before, .self = m });
    CHECK_ERR("open", open_once(m), MRD_OK);
    m->epoch = mrd_spool_epoch(m->s);
    m->since = mrd_spool_since(m->s);
    runs_list_files(m);
    for (i = 0; i < steps && test_failures == 0 && m->n < FRAMES; i++) {
        step(m);
        if (m->over)
            break;
        runs_check_all(m);
    }
    if (test_failures > 0)
        fprintf(stderr, "seed %d, %d sessions: step %u\n", (int) seed, (int) sessions, i);
    mrd_spool_close(m->s);
    sim_disk_free(m->disk);
    totals->runs += m->runs;
    totals->forced += m->forced;
    totals->again += m->answers_again;
    totals->boots += m->boots;
    totals->kills += m->kills;
    totals->damages += m->damages;
    totals->over += m->over;
    free(m->frames);
    free(m);
}

TEST(few_sessions)
{
    counted totals = { 0 };
    uint64_t base = test_seed();

    for (uint64_t i = 1; i <= 600 && test_failures == 0; i++)
        run(&totals, base * 10000 + i, 1 + i % 5, MRD_SPOOL_MIN_BYTES, 400);
    CHECK(totals.runs > 1000 && totals.forced > 1000 && totals.boots > 200 && totals.kills > 1000);
    CHECK(totals.again > 0 && totals.damages > 10 && totals.over < 60);
}

/* Runs with more sessions than the file "counts" has slots. */
TEST(many_sessions)
{
    counted totals = { 0 };
    uint64_t base = test_seed();

    for (uint64_t i = 1; i <= 60 && test_failures == 0; i++)
        run(&totals, base * 10000 + i, SESSIONS - 10 * (i % 2), 4 * MRD_SPOOL_MIN_BYTES, 400);
    CHECK(totals.runs > 100 && totals.forced > 0 && totals.kills > 100);
}

TEST_MAIN()
