/* Tests the times in the header of a ring that state how long a thread was inside and outside of
 * its operations (calls of the runtime). */
#include <pthread.h>
#include <sched.h>

#include "capture/api/ops.h"
#include "capture/api/record.h"
#include "capture/process.h"
#include "capture/ring/ring_ops.h"
#include "tests/capture/api_start.h"
#include "tests/seed.h"

#define NAMES 7

static uint32_t names[NAMES];

static uint64_t
draw(uint64_t *rng)
{
    *rng ^= *rng << 13;
    *rng ^= *rng >> 7;
    *rng ^= *rng << 17;
    return *rng;
}

static void
begin_test(void)
{
    static const char *const texts[NAMES] = { "a", "b", "c", "d", "e", "f", "g" };

    start();
    for (size_t i = 0; i < NAMES; i++)
        names[i] = mrd_rec_name(texts[i]);
}

/* Returns a reader of the calling thread's own ring. */
static mrd_ring_reader *
own_ring(void)
{
    mrd_ring_opts opts = { .flags = MRD_RING_PEEK, .expect_uid = -1 };
    mrd_ring_writer *writer = mrd_proc_writer();
    mrd_ring_reader *reader = NULL;
    mrd_why why = { .text = "" };

    CHECK_ERR(why.text, mrd_ring_open_mem(writer->hdr, writer->map_len, &opts, &reader, &why),
              MRD_OK);
    return reader;
}

/* Number and time of the calls that a thread made. The test reads the clock before and after each
 * step of a call, so the true time lies between `least` and `most`. */
typedef struct {
    uint64_t calls;
    mrd_dur_ns least, most;
} truth;

static mrd_dur_ns
now(void)
{
    return (mrd_dur_ns) mrd_now();
}

/* Makes one call of the operation names[i], which takes `length` ns. Adds it to *inside. */
static void
call(size_t i, mrd_dur_ns length, truth *inside)
{
    mrd_dur_ns t[4];
    mrd_rec_op op;

    t[0] = now();
    mrd_rec_op_begin(&op, names[i], 7, 0);
    t[1] = now();
    spin_ns(length);
    t[2] = now();
    mrd_rec_op_end(&op, false);
    t[3] = now();
    inside->calls++;
    inside->least += t[2] - t[1];
    inside->most += t[3] - t[0];
}

static const mrd_ring_op_state *
find(const mrd_ring_op_state *states, size_t n, size_t i)
{
    for (size_t k = 0; k < n; k++)
        if (states[k].name == names[i])
            return &states[k];
    return NULL;
}

static mrd_dur_ns
sum_inside(const mrd_ring_op_state *states, size_t n)
{
    mrd_dur_ns sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += states[i].inside;
    return sum;
}

/* The calls are random. Each time must agree with the clock readings around the calls. All times
 * together must be exactly the time from the first begin to the last end. */
TEST(the_times_add_up)
{
    mrd_ring_op_state states[MRD_RING_OPS];
    mrd_ring_ops_thread thread = { 0 };
    truth inside[NAMES] = { 0 };
    mrd_dur_ns outside = 0;
    uint64_t rng = test_seed() * 0x9e3779b97f4a7c15u;
    mrd_ring_reader *reader;
    mrd_local_ns first = { 0 };
    size_t n = 0;

    begin_test();
    reader = own_ring();
    for (size_t k = 0; k < 300; k++) {
        size_t i = draw(&rng) % MRD_RING_OPS;
        mrd_dur_ns before = now(), after;

        outside += k > 0 ? before - thread.ended.ns : 0;
        call(i, (mrd_dur_ns) (draw(&rng) % 50000), &inside[i]);
        after = now();
        REQUIRE((n = mrd_ring_ops(reader, states, &thread)) > 0);
        if (k == 0)
            first = states[0].begin;
        CHECK(thread.steady);
        CHECK(thread.ended.ns >= before && thread.ended.ns <= after);
        CHECK_INT(sum_inside(states, n) + thread.outside, mrd_local_diff(thread.ended, first));
        spin_ns((mrd_dur_ns) (draw(&rng) % 50000));
    }
    CHECK_INT(thread.thread, gettid());
    CHECK_INT(thread.flags, 0);
    for (size_t i = 0; i < MRD_RING_OPS; i++) {
        const mrd_ring_op_state *state = find(states, n, i);

        REQUIRE(state != NULL && inside[i].calls > 0);
        CHECK_INT(state->entered, inside[i].calls);
        CHECK_INT(state->calls, inside[i].calls);
        CHECK(state->inside >= inside[i].least && state->inside <= inside[i].most);
    }
    CHECK(thread.outside >= outside);
    mrd_ring_close(reader);
}

/* The time of an operation belongs to its slot. Another operation that takes the slot begins at
 * 0. */
TEST(an_evicted_operation_loses_its_time)
{
    mrd_ring_op_state states[MRD_RING_OPS];
    mrd_ring_ops_thread thread = { 0 };
    truth inside[NAMES] = { 0 };
    mrd_ring_reader *reader;
    size_t n;

    begin_test();
    for (size_t i = 0; i < NAMES; i++)
        call(i, i == 0 ? 3 * MRD_MS : 1000, &inside[i]);
    reader = own_ring();
    n = mrd_ring_ops(reader, states, &thread);
    CHECK_INT(n, MRD_RING_OPS);
    CHECK((thread.flags & MRD_RING_OPS_EVICTED) != 0);
    CHECK(find(states, n, 0) == NULL);
    REQUIRE(find(states, n, 6) != NULL);
    CHECK(find(states, n, 6)->inside <= inside[6].most);
    call(0, 1000, &inside[0]); /* takes the slot of b */
    n = mrd_ring_ops(reader, states, &thread);
    REQUIRE(find(states, n, 0) != NULL);
    CHECK(find(states, n, 0)->inside < 3 * MRD_MS);
    CHECK_INT(find(states, n, 0)->entered, 2);
    CHECK_INT(find(states, n, 0)->calls, 1); /* in this slot */
    mrd_ring_close(reader);
}

/* A call inside another call belongs to the outer one. */
TEST(a_nested_call_is_not_counted_twice)
{
    mrd_ring_op_state states[MRD_RING_OPS];
    mrd_ring_ops_thread thread = { 0 };
    truth inside = { 0 };
    mrd_ring_reader *reader;
    mrd_rec_op op;
    size_t n;

    begin_test();
    mrd_rec_op_begin(&op, names[0], 7, 0);
    call(1, 100000, &inside);
    mrd_rec_op_end(&op, false);
    reader = own_ring();
    n = mrd_ring_ops(reader, states, &thread);
    REQUIRE(n == 2);
    CHECK_INT(thread.flags, MRD_RING_OPS_NESTED);
    CHECK_INT(find(states, n, 1)->inside, 0);
    CHECK(find(states, n, 1)->calls == 0 && find(states, n, 0)->calls == 1);
    CHECK_INT(find(states, n, 0)->inside, mrd_local_diff(thread.ended, find(states, n, 0)->begin));
    CHECK(find(states, n, 0)->inside >= inside.least);
    CHECK_INT(thread.outside, 0);
    mrd_ring_close(reader);
}

static void *
call_in_thread(void *arg)
{
    truth inside = { 0 };

    call(0, 1000, &inside);
    *(pid_t *) arg = gettid();
    return NULL;
}

typedef struct {
    uint32_t tid;
    mrd_ring_hdr *hdr;
} owner;

static void
find_header(void *ctx, mrd_ring_writer *writer)
{
    owner *of = ctx;

    if (writer->hdr->ops_thread == of->tid)
        of->hdr = writer->hdr;
}

/* A thread that takes over the ring of an ended thread begins with its own times. */
TEST(times_belong_to_one_thread)
{
    owner of[2] = { { 0 } };

    begin_test();
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        pid_t tid = 0;

        CHECK_INT(pthread_create(&thread, NULL, call_in_thread, &tid), 0);
        pthread_join(thread, NULL);
        of[i].tid = (uint32_t) tid;
        mrd_proc_each_ring(find_header, &of[i]);
        REQUIRE(of[i].hdr != NULL);
        CHECK_INT(of[i].hdr->ops_time.outside, 0);
        CHECK(of[i].hdr->ops_time.inside[0] > 0 && of[i].hdr->ops_time.inside[0] < MRD_SEC);
        CHECK_INT(of[i].hdr->ops[0].state >> 1, i + 1); /* the process's count goes on */
        CHECK_INT(of[i].hdr->ops_calls[0], 1);
    }
    CHECK(of[0].hdr == of[1].hdr);
}

/* What the child of fork does. `op` is the parent's call during which it forked. */
static int
count_in_child(mrd_rec_op *op, bool ends)
{
    mrd_ring_op_state states[MRD_RING_OPS];
    mrd_ring_ops_thread thread = { 0 };
    mrd_ring_reader *reader;
    truth inside = { 0 };

    test_failures = 0;
    mrd_rec_ops_forked(); /* the hooks of the runtime call it */
    if (ends)
        mrd_rec_op_end(op, false);
    call(0, 1000, &inside);
    call(0, 1000, &inside);
    reader = own_ring();
    CHECK_INT(mrd_ring_ops(reader, states, &thread), 1);
    CHECK_INT(states[0].entered, 2);
    CHECK_INT(thread.thread, getpid());
    CHECK_INT(thread.flags, 0);
    CHECK(states[0].inside >= inside.least && states[0].inside <= inside.most);
    mrd_ring_close(reader);
    return test_failures > 0;
}

/* A child of fork counts its own time only, also when the fork happened inside a call. */
TEST(a_child_of_fork_begins_again)
{
    begin_test();
    for (int ends = 0; ends < 2; ends++) {
        truth inside = { 0 };
        mrd_rec_op op;
        int status = 0;
        pid_t pid;

        call(0, MRD_MS, &inside);
        mrd_rec_op_begin(&op, names[0], 7, 0);
        if ((pid = fork()) == 0)
            _exit(count_in_child(&op, ends == 1));
        CHECK_INT(waitpid(pid, &status, 0), pid);
        CHECK_INT(status, 0);
        mrd_rec_op_end(&op, false);
    }
}

static _Atomic bool stop;
static _Atomic int64_t first_begin;
static mrd_ring_writer *_Atomic often; /* writer of the thread that runs call_often */

static void *
call_often(void *arg)
{
    uint64_t rng = test_seed() * 0x9e3779b97f4a7c15u;
    mrd_rec_op op;

    (void) arg;
    often = mrd_proc_writer();
    for (bool first = true; !stop; first = false) {
        size_t i = draw(&rng) % 4;

        mrd_rec_op_begin(&op, names[i], 7, 0);
        if (first)
            first_begin = (int64_t) op.begin;
        spin_ns((mrd_dur_ns) (draw(&rng) % 300));
        mrd_rec_op_end(&op, false);
    }
    return NULL;
}

/* Returns true if the newest call is still open, or its end is completely stored. */
static bool
is_complete(const mrd_ring_op_state *states, size_t n, const mrd_ring_ops_thread *thread)
{
    if (!thread->steady || thread->ended.ns == 0)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!states[i].open && mrd_local_before(thread->ended, states[i].begin))
            return false;
    return true;
}

/* Returns true if a call is open that began before the newest end, so that the operations are older
 * than the times. */
static bool
is_behind(const mrd_ring_op_state *states, size_t n, const mrd_ring_ops_thread *thread)
{
    for (size_t i = 0; i < n; i++)
        if (states[i].open && mrd_local_before(states[i].begin, thread->ended))
            return true;
    return false;
}

/* A reader in another thread gets times that add up and belong to the operations, whenever it says
 * that they are steady. */
TEST(a_reader_sees_exact_times)
{
    mrd_ring_opts opts = { .flags = MRD_RING_PEEK, .expect_uid = -1 };
    mrd_ring_reader *reader = NULL;
    mrd_ring_op_state states[MRD_RING_OPS];
    mrd_ring_ops_thread thread = { 0 };
    size_t complete = 0, wrong = 0;
    pthread_t other;

    begin_test();
    CHECK_INT(pthread_create(&other, NULL, call_often, NULL), 0);
    while (often == NULL || first_begin == 0)
        sched_yield();
    CHECK_ERR("open", mrd_ring_open_mem(often->hdr, often->map_len, &opts, &reader, NULL), MRD_OK);
    for (mrd_dur_ns until = now() + 20 * MRD_SEC; complete < 20000 && now() < until;) {
        size_t n = mrd_ring_ops(reader, states, &thread);

        if (n == 0 || !is_complete(states, n, &thread))
            continue;
        complete++;
        wrong += sum_inside(states, n) + thread.outside != thread.ended.ns - first_begin ||
                 is_behind(states, n, &thread);
    }
    stop = true;
    pthread_join(other, NULL);
    CHECK_INT(wrong, 0);
    CHECK_INT(complete, 20000);
    mrd_ring_close(reader);
}

int
main(int argc, char **argv)
{
    return api_main(argc, argv);
}
