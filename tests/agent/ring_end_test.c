/* Tests that the open spans and the last losses of an ended ring are reported once, even if the
 * agent is killed between the commit and the removal of the ring's file. */
#include "tests/agent/ring_make.h"

#include "agent/rings/drain.h"
#include "tests/wait.h"

typedef struct {
    uint64_t key, value;
} position;

typedef struct {
    position v[16];
    unsigned n;
} positions;

typedef struct {
    uint64_t spans, unfinished, lost;
    mrd_drain_process *process;
    const positions *left; /* by a predecessor */
} received;

static mrd_err
take(void *self, mrd_drain_process *process, unsigned clock, const mrd_event *ev)
{
    received *h = self;

    (void) clock;
    h->process = process;
    h->lost += ev->kind == MRD_LOSS ? (uint64_t) ev->ivalue : 0;
    h->spans += ev->kind == MRD_SPAN;
    h->unfinished += ev->kind == MRD_SPAN && ev->dur_ns < 0;
    return MRD_OK;
}

static void
process_event(void *self, mrd_drain_process *process)
{
    received *h = self;

    h->process = process->gone ? NULL : process;
}

static uint64_t
resume(void *self, uint64_t key)
{
    const received *h = self;

    for (unsigned i = 0; h->left != NULL && i < h->left->n; i++)
        if (h->left->v[i].key == key)
            return h->left->v[i].value;
    return 0;
}

static void
keep(void *self, uint64_t key, uint64_t value)
{
    positions *k = self;

    REQUIRE(k->n < MRD_COUNT(k->v));
    k->v[k->n++] = (position){ key, value };
}

static mrd_drain *
open_drain(received *h, uint32_t budget)
{
    mrd_drain_options o = { .instance_id = "i-test",
                            .ring_dir = test_tmp(),
                            .only_uid = -1,
                            .hold = true,
                            .budget = budget,
                            .resume = resume,
                            .event = take,
                            .process = process_event,
                            .self = h };
    mrd_drain *p = NULL;

    CHECK_ERR("drain", mrd_drain_open(&o, &p, NULL), MRD_OK);
    return p;
}

/* Makes the ring of an exited process: an ended span, an open span, and five events that found no
 * space. */
static maker *
make_ended(void)
{
    uint64_t start, now = (uint64_t) mrd_local_now().ns;
    int pid = make_dead_pid(&start);
    maker *m = make_ring(test_tmp(), pid, start, 1, 1 << 16);
    uint32_t name = make_text(m, "work");
    mrd_ring_loss *l = &m->h->lost[MRD_RING_LOST_FULL];

    make_rec(m, (mrd_ring_rec){ .kind = MRD_REC_SPAN, .name = name, .ts = now, .value = 10 }, NULL,
             0);
    atomic_store(&m->h->open[0].ts, now + 100);
    atomic_store(&m->h->open[0].name_domain, (uint64_t) name << 32);
    atomic_store(&m->h->depth, 1);
    atomic_store(&l->first, now + 200);
    atomic_store(&l->last, now + 300);
    atomic_store(&l->count, 5);
    return m;
}

/* Kills the agent after the step that reported the last loss. Either all that was read was
 * committed, or nothing. */
static void
kill_behind_the_loss(bool committed, uint32_t budget)
{
    positions left = { .n = 0 };
    received first = { .process = NULL }, next = { .left = &left };
    maker *m = make_ended();
    mrd_drain_tally c = { 0 };
    mrd_drain *p = open_drain(&first, budget);

    TEST_UNTIL((mrd_drain_step(p), first.lost == 5));
    CHECK_INT(first.spans, 1); /* open spans end with the process */
    REQUIRE(first.process != NULL);
    if (committed)
        mrd_drain_positions(p, first.process, keep, &left);
    mrd_drain_close(p); /* as if it was killed */
    CHECK(access(m->path, F_OK) == 0);
    p = open_drain(&next, budget);
    if (committed) {
        TEST_UNTIL((mrd_drain_step(p), access(m->path, F_OK) != 0 || next.lost > 0));
        mrd_drain_counts(p, &c);
        CHECK_INT(c.begun, 0);
        CHECK_INT(c.rings_removed, 1);
    } else { /* nothing of it was safe */
        TEST_UNTIL((mrd_drain_step(p), next.lost == 5));
    }
    CHECK_INT(next.lost, committed ? 0 : 5);
    CHECK_INT(next.spans, committed ? 0 : 1);
    mrd_drain_close(p);
    unlink(m->path);
    make_free(m);
}

TEST(an_end_is_told_once_over_a_kill_behind_the_commit)
{
    kill_behind_the_loss(false, 0);
    kill_behind_the_loss(true, 0);
}

/* Reads one record per step. The end is still reported in one turn, so that no commit comes between
 * the loss and the end. */
TEST(an_end_is_told_in_one_turn)
{
    kill_behind_the_loss(false, 1);
    kill_behind_the_loss(true, 1);
}

TEST_MAIN()
