/* Tests answers and losses that a spool (agent/spool/spool.h) could not record because the disk was
 * full. If neither the segments nor the file "counts" have them, the next agent finds the frames
 * again. These frames must then not be included in the sums of answered or lost events that it
 * reads. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/agent/spool_make.h"
#include "tests/sim/disk.h"

/* Answers the oldest frame of the session while nothing can be appended to the segment. */
static void
answer_without_room(mrd_spool *s, uint64_t session, const char *segment)
{
    struct rlimit limit, small;
    mrd_spool_item item;
    struct stat st;

    REQUIRE(mrd_spool_peek(s, 0, &item) && stat(segment, &st) == 0);
    while (item.session != session)
        REQUIRE(mrd_spool_peek(s, item.id + 1, &item));
    CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0 && signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    small = (struct rlimit){ (rlim_t) st.st_size, limit.rlim_max };
    CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
    CHECK(mrd_spool_done(s, item.id, true));
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

static void
check_sum(const mrd_spool *s, uint64_t session, uint64_t added)
{
    mrd_spool_tally t;
    uint64_t held = 0;

    mrd_spool_get_tally(s, session, &t);
    (void) mrd_spool_held(s, session, &held);
    CHECK_INT(t.delivered + t.refused + t.forced + t.damaged + held, added);
}

/* The counts contain single answers of their own epoch only. The frame is the first in the queue,
 * and others of its segment are pending. The answer is recorded as soon as there is space. */
static void
answer_of_an_earlier_epoch(bool room)
{
    char dir[600], first[640], second[640];
    uint64_t epoch;
    mrd_spool_item item;
    mrd_spool_tally t;
    struct stat st;
    mrd_spool *s;

    snprintf(dir, sizeof(dir), "%s/epoch%d", test_tmp(), room);
    snprintf(first, sizeof(first), "%s/spool-0000000000000001.mrs", dir);
    snprintf(second, sizeof(second), "%s/spool-0000000000000002.mrs", dir);
    s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
    epoch = mrd_spool_epoch(s);
    for (int i = 0; i < 3; i++)
        CHECK_ERR("add", add(s, 7, 1000, 10), MRD_OK);
    mrd_spool_close(s);
    REQUIRE(stat(first, &st) == 0 && truncate(first, st.st_size + 7) == 0); /* torn */
    s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
    CHECK(mrd_spool_epoch(s) != epoch);
    answer_without_room(s, 7, second);
    REQUIRE(mrd_spool_peek(s, 0, &item) && item.seq == 1);
    /* the answer is recorded in the segments, or in the counts only; the counts are written in both
     * cases */
    if (room)
        CHECK(mrd_spool_done(s, item.id, true));
    else
        answer_without_room(s, 7, second);
    mrd_spool_get_tally(s, 7, &t);
    CHECK_INT(t.delivered, 20);
    for (int run = 0; run < 3; run++) {
        check_sum(s, 7, 30);
        mrd_spool_close(s); /* imitates a kill of the agent */
        s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
    }
    /* without space for the answers, all frames are sent again */
    REQUIRE(mrd_spool_peek(s, 0, &item) && item.seq == (room ? 2 : 0));
    CHECK(mrd_spool_done(s, item.id, true));
    check_sum(s, 7, 30);
    mrd_spool_close(s);
}

TEST(an_answer_of_an_earlier_epoch_without_room)
{
    answer_of_an_earlier_epoch(false);
    answer_of_an_earlier_epoch(true);
}

/* The file of counts has no free slot for the session, so it contains no counts of the session. */
TEST(an_answer_of_a_session_without_a_place_and_without_room)
{
    enum { PLACES = 64 };
    char dir[600], first[640], second[640];
    uint64_t added = 0;
    mrd_spool *s;

    snprintf(dir, sizeof(dir), "%s/no-place", test_tmp());
    snprintf(first, sizeof(first), "%s/spool-0000000000000001.mrs", dir);
    snprintf(second, sizeof(second), "%s/spool-0000000000000002.mrs", dir);
    s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
    for (uint64_t k = 1; k <= PLACES; k++)
        CHECK_ERR("add", add(s, 1000 + k, 10, 1), MRD_OK);
    for (; added < 30; added += 10)
        CHECK_ERR("add", add(s, 7, 1000, 10), MRD_OK);
    answer_without_room(s, 7, first);
    for (; access(second, F_OK) != 0 && added < 10000; added += 10) /* it begins with the sums */
        CHECK_ERR("add", add(s, 7, 40000, 10), MRD_OK);
    for (int run = 0; run < 3; run++) {
        check_sum(s, 7, added);
        mrd_spool_close(s); /* imitates a kill of the agent */
        s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
    }
    mrd_spool_close(s);
}

/* The answer to a frame is recorded, but the commit of the frame is missing. The frame is removed
 * from the queue once. */
TEST(an_answer_of_a_frame_without_its_commit)
{
    char dir[600];
    uint8_t frame[MRD_FRAME_HEADER + 4] = { 0 };
    mrd_frame f = { .type = MRD_FRAME_CLOCK_DATA, .agent = 1, .session = 7 };
    mrd_spool_stats st;
    uint64_t held = 1;
    mrd_spool *s;

    snprintf(dir, sizeof(dir), "%s/uncommitted", test_tmp());
    s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
    f.epoch = mrd_spool_epoch(s);
    mrd_frame_put(&f, (mrd_bytes){ frame + MRD_FRAME_HEADER, 4 }, frame);
    CHECK_ERR("add", mrd_spool_add(s, (mrd_bytes){ frame, sizeof(frame) }, 10, NULL), MRD_OK);
    CHECK(mrd_spool_done(s, 1, true));
    mrd_spool_close(s);
    s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
    mrd_spool_get_stats(s, &st);
    CHECK_INT(st.items, 0);
    CHECK_INT(st.events, 0);
    CHECK_INT(st.bytes, 0);
    CHECK_INT(mrd_spool_held(s, 7, &held), 0);
    mrd_spool_close(s);
}

/* ---- A failed disk call, followed by a kill in any call ---- */

typedef struct {
    unsigned answers, torn; /* number of answered frames; written quarters of the last write */
    /* numbers of the call that fails and of the call that kills; 0 for none */
    unsigned calls, fails, dies;
    unsigned more;      /* number of following calls that fail too */
    bool counts_failed; /* the failed call was writing the counts file */
} plan;

static void
before(void *self, const sim_disk_op *op, sim_disk_verdict *ret_verdict)
{
    plan *p = self;

    p->calls++;
    if (p->dies != 0 && p->calls == p->dies)
        *ret_verdict = (sim_disk_verdict){ .dies = true,
                                           .limited = op->call == SIM_DISK_WRITE,
                                           .at_most = op->len * p->torn / 4 };
    else if (p->fails != 0 && p->calls >= p->fails && p->calls <= p->fails + p->more) {
        ret_verdict->err = ENOSPC;
        p->counts_failed = p->counts_failed || strstr(op->path, "/counts") != NULL;
    }
}

#define DIR_OF "/sim/starved/spool"

/* Frames of 10 events of session 7, of an earlier epoch. Some are answered, and the others are
 * forced out by a frame of 7 events that does not fit on the disk. The different size distinguishes
 * it from a frame counted twice. Returns false if the process ended before the kill. */
static bool
starve(bool full, plan p)
{
    sim_disk *d =
        sim_disk_new("starved", &(sim_disk_options){ .seed = 1, .before = before, .self = &p });
    plan calm = { 0 };
    mrd_spool_item item;
    mrd_spool_tally t;
    uint64_t held = 0, answered = 0, sum;
    bool more, added;
    mrd_spool *s;
    int fd;

    sim_disk_set_before(d, before, &calm);
    s = open_spool(DIR_OF, MRD_SPOOL_MIN_BYTES);
    for (int i = 0; i < 3; i++)
        CHECK_ERR("add", add(s, 7, 100, 10), MRD_OK);
    mrd_spool_close(s);
    fd = open(DIR_OF "/spool-0000000000000001.mrs", O_WRONLY | O_APPEND | O_CLOEXEC);
    CHECK(fd >= 0 && write(fd, "torn", 4) == 4);
    close(fd);
    s = open_spool(DIR_OF, MRD_SPOOL_MIN_BYTES);
    if (full)
        sim_disk_set_quota(d, sim_disk_used(d));
    sim_disk_set_before(d, before, &p);
    for (unsigned k = 0; k < p.answers && mrd_spool_peek(s, 0, &item); k++)
        answered += mrd_spool_done(s, item.id, true);
    added = add(s, 7, 200, 7) == MRD_OK;
    more = p.dies != 0 && p.calls >= p.dies;
    mrd_spool_close(s);
    sim_disk_kill(d);
    sim_disk_set_quota(d, 0);
    sim_disk_set_before(d, before, &calm);
    for (int run = 0; run < 2; run++) {
        s = open_spool(DIR_OF, MRD_SPOOL_MIN_BYTES);
        mrd_spool_get_tally(s, 7, &t);
        (void) mrd_spool_held(s, 7, &held);
        sum = t.delivered + t.refused + t.forced + t.damaged + held;
        CHECK(t.damaged == 0 || p.counts_failed);
        CHECK(t.delivered + held >= 10 * answered || p.counts_failed);
        if (sum != 37 && (sum != 30 || (added && !more)))
            fprintf(stderr, "%u answers, full %d, call %u fails, killed in %u at %u: %d events\n",
                    p.answers, full, p.fails, p.dies, p.torn, (int) sum);
        CHECK(sum == 37 || (sum == 30 && !(added && !more)));
        mrd_spool_close(s);
    }
    sim_disk_free(d);
    return more;
}

TEST(killed_while_the_disk_is_full)
{
    for (unsigned answers = 0; answers < 4; answers++)
        for (unsigned torn = 0; torn <= 4; torn += 2)
            for (unsigned dies = 1;
                 starve(true, (plan){ .answers = answers, .torn = torn, .dies = dies }); dies++)
                ;
}

TEST(killed_behind_a_call_that_failed)
{
    for (unsigned at = 0; at < 4 * 3 * 2 * 25; at++) {
        plan p = { .answers = at % 4, .torn = at / 4 % 3 * 2, .fails = 1 + at / 24 };

        for (p.dies = p.fails + 1; starve(at / 12 % 2 != 0, p); p.dies++)
            ;
    }
}

/* A frame that does not fit forces out others, and the records of some of these do not fit
 * either. */
TEST(killed_behind_calls_that_failed)
{
    for (unsigned at = 0; at < 3 * 4 * 12; at++) {
        plan p = { .torn = at % 3 * 2, .more = 1 + at / 3 % 4, .fails = 1 + at / 12 };

        for (p.dies = p.fails + p.more + 1; starve(false, p); p.dies++)
            ;
    }
}

/* ---- Killed again before the frames are removed ---- */

static const plan calm;

/* Opens the directory twice without faults. Each of the `added` or `fewer` events is counted
 * once. */
static void
check_successors(const char *row, uint64_t added, uint64_t fewer)
{
    for (int run = 0; run < 2; run++) {
        mrd_spool *s = open_spool(DIR_OF, MRD_SPOOL_MIN_BYTES);
        mrd_spool_tally t;
        uint64_t held = 0, sum;

        mrd_spool_get_tally(s, 7, &t);
        (void) mrd_spool_held(s, 7, &held);
        sum = t.delivered + t.refused + t.forced + t.damaged + held;
        CHECK_ROW(row, sum == added || sum == fewer);
        mrd_spool_close(s);
    }
}

/* Frames are forced out, and the record of that is the last complete one. The process is killed
 * before it removes their segment, and its last record is torn, so its successor uses another
 * epoch. The successor has space for `room` bytes and is killed in disk call `p2.dies`. Returns
 * false if it was not killed. *ret_first: whether the first was killed. */
static bool
starve_twice(plan p1, uint64_t room, plan p2, bool *ret_first)
{
    sim_disk *d = sim_disk_new("starved", &(sim_disk_options){ .seed = 1, .before = before });
    plan none = calm;
    mrd_spool *s, *other = NULL;
    uint64_t seen;
    char row[120];
    mrd_err err;

    sim_disk_set_before(d, before, &none);
    s = open_spool(DIR_OF, MRD_SPOOL_MIN_BYTES);
    for (int i = 0; i < 3; i++)
        CHECK_ERR("add", add(s, 7, 100, 10), MRD_OK);
    mrd_spool_close(s);
    s = open_spool(DIR_OF, MRD_SPOOL_MIN_BYTES);
    CHECK_ERR("add", add(s, 7, 100, 10), MRD_OK);
    sim_disk_set_quota(d, sim_disk_used(d) + 200);
    sim_disk_set_before(d, before, &p1);
    (void) add(s, 7, 300, 7);
    *ret_first = p1.calls >= p1.dies;
    mrd_spool_close(s);
    sim_disk_kill(d);
    sim_disk_set_quota(d, sim_disk_used(d) + room);
    sim_disk_set_before(d, before, &p2);
    err = mrd_spool_open(
        &(mrd_spool_options){ .dir = DIR_OF, .max_bytes = MRD_SPOOL_MIN_BYTES, .dropped = dropped },
        &other, NULL);
    seen = p2.calls;
    mrd_spool_close(other);
    sim_disk_kill(d);
    sim_disk_set_quota(d, 0);
    sim_disk_set_before(d, before, &none);
    snprintf(row, sizeof(row), "killed in %u at %u, then with room for %u in %u: %s", p1.dies,
             p1.torn, (unsigned) room, p2.dies, mrd_err_name(err));
    check_successors(row, 47, *ret_first ? 40 : 47);
    sim_disk_free(d);
    return seen >= p2.dies;
}

TEST(killed_again_where_the_counts_alone_know)
{
    for (unsigned at = 0; at < 3 * 12; at++) {
        bool first = true;

        for (plan p1 = { .torn = at % 3 * 2, .dies = 1 }; first; p1.dies++)
            for (plan p2 = { .dies = 1 }; starve_twice(p1, 1 + at / 3 * 40, p2, &first); p2.dies++)
                ;
    }
}

/* A forced out frame waits in memory for its answer. A later frame was delivered, but its answer
 * found no space, and its segment is removed now. A successor finds neither frame, and counts the
 * second as delivered. */
TEST(an_answer_without_room_behind_a_frame_in_memory)
{
    sim_disk *d = sim_disk_new("starved", &(sim_disk_options){ .seed = 1 });
    mrd_spool_item item, second;
    mrd_spool_tally t;
    mrd_spool *s;
    int fd;

    for (int i = 0; i < 2; i++) { /* each in its own segment */
        s = open_spool(DIR_OF, MRD_SPOOL_MIN_BYTES);
        CHECK_ERR("add", add(s, 7, 100, 10), MRD_OK);
        mrd_spool_close(s);
    }
    fd = open(DIR_OF "/spool-0000000000000002.mrs", O_WRONLY | O_APPEND | O_CLOEXEC);
    CHECK(fd >= 0 && write(fd, "torn", 4) == 4); /* numbers of another epoch */
    close(fd);
    s = open_spool(DIR_OF, MRD_SPOOL_MIN_BYTES);
    sim_disk_set_quota(d, sim_disk_used(d));
    CHECK_ERR("it forces out the first", add(s, 7, 10, 7), MRD_OK);
    REQUIRE(access(DIR_OF "/spool-0000000000000001.mrs", F_OK) != 0);
    REQUIRE(access(DIR_OF "/spool-0000000000000002.mrs", F_OK) == 0);
    REQUIRE(mrd_spool_peek(s, 0, &item) && mrd_spool_peek(s, item.id + 1, &second));
    CHECK(item.events == 10 && second.events == 10);
    sim_disk_set_quota(d, sim_disk_used(d));
    CHECK(mrd_spool_done(s, second.id, true));
    CHECK(access(DIR_OF "/spool-0000000000000002.mrs", F_OK) != 0);
    mrd_spool_close(s); /* imitates a kill of the agent */
    sim_disk_set_quota(d, 0);
    for (int run = 0; run < 2; run++) {
        s = open_spool(DIR_OF, MRD_SPOOL_MIN_BYTES);
        mrd_spool_get_tally(s, 7, &t);
        CHECK_INT(t.delivered, 10);
        CHECK_INT(t.forced, 10);
        CHECK_INT(t.damaged, 0);
        check_sum(s, 7, 27);
        mrd_spool_close(s);
    }
    sim_disk_free(d);
}

/* ---- Sessions of an earlier boot ---- */

static mrd_spool *
open_in_boot(const char *boot)
{
    mrd_spool *s = NULL;

    CHECK_ERR("open",
              mrd_spool_open(&(mrd_spool_options){ .dir = DIR_OF,
                                                   .max_bytes = MRD_SPOOL_MIN_BYTES,
                                                   .boot_id = boot,
                                                   .dropped = dropped },
                             &s, NULL),
              MRD_OK);
    return s;
}

/* The state of a session has two records: its counts, and its counts at the start of the boot.
 * Together with the records of all other sessions they do not fit. Frames of 10 events of 6
 * sessions are answered, as stored or as stored before. Some of these frames follow a frame for
 * which the disk has no space. */
static void
answers_of_an_earlier_boot(bool forced, bool known, uint64_t room)
{
    enum { FIRST = 1, LAST = 6, OTHERS = 40 };
    sim_disk *d = sim_disk_new("starved", &(sim_disk_options){ .seed = 1 });
    mrd_spool_item item;
    mrd_spool *s = open_in_boot("a");
    char row[80];

    snprintf(row, sizeof(row), "%s, %s, room for %d", forced ? "forced out" : "there",
             known ? "known" : "stored", (int) room);
    for (uint64_t k = 1; k <= OTHERS; k++)
        CHECK_ERR(row, mrd_spool_note(s, 100 + k, "0123456789", 10), MRD_OK);
    CHECK_ERR(row, mrd_spool_commit(s, NULL, 0, NULL), MRD_OK);
    for (uint64_t k = FIRST; k <= LAST; k++)
        CHECK_ERR(row, add(s, k, 100, 10), MRD_OK);
    mrd_spool_close(s);
    s = open_in_boot("b");
    sim_disk_set_quota(d, sim_disk_used(d) + room);
    if (forced)
        (void) add(s, 9, 300, 7);
    for (uint64_t k = FIRST; k <= LAST; k++) {
        REQUIRE(mrd_spool_peek(s, 0, &item) && item.session == k && item.earlier);
        CHECK_ROW(row,
                  known ? mrd_spool_done_before(s, item.id) : mrd_spool_done(s, item.id, true));
    }
    mrd_spool_close(s); /* imitates a kill of the agent */
    sim_disk_set_quota(d, 0);
    s = open_in_boot("b");
    for (uint64_t k = FIRST; k <= LAST; k++) {
        const mrd_spool_base *base = mrd_spool_get_base(s, k);
        mrd_spool_tally t;
        uint64_t held;

        (void) mrd_spool_held(s, k, &held);
        mrd_spool_get_tally(s, k, &t);
        CHECK_ROW(row, base != NULL && base->begun == 10 && base->held == 10);
        CHECK_ROW(row, t.forced + t.refused + t.damaged == 0);
        CHECK_ROW(row, t.delivered + held + (base == NULL ? 0 : base->known) == 10);
        CHECK_ROW(row, !known || t.delivered == 0);
    }
    mrd_spool_close(s);
    sim_disk_free(d);
}

TEST(answers_of_an_earlier_boot_where_the_disk_is_full)
{
    for (uint64_t room = 0; room < 12000; room += 16)
        for (int how = 0; how < 4 && test_failures == 0; how++)
            answers_of_an_earlier_boot(how / 2 != 0, how % 2 != 0, room);
}

/* The disk has no space to record one answer. Later there is space, and a new segment begins with
 * the counts that the session had at the start of the boot (the base). */
TEST(an_answer_of_an_earlier_boot_behind_a_new_segment)
{
    sim_disk *d = sim_disk_new("starved", &(sim_disk_options){ .seed = 1 });
    const mrd_spool_base *base;
    mrd_spool_item item;
    mrd_spool_tally t;
    mrd_spool *s = open_in_boot("a");

    for (uint64_t k = 1; k <= 2; k++)
        CHECK_ERR("add", add(s, k, 100, 10), MRD_OK);
    mrd_spool_close(s);
    s = open_in_boot("b");
    for (int i = 0; i < 13; i++) /* the next one needs a new segment */
        CHECK_ERR("add", add(s, 9, 40000, 5), MRD_OK);
    sim_disk_set_quota(d, sim_disk_used(d));
    REQUIRE(mrd_spool_peek(s, 0, &item) && item.session == 1);
    CHECK(mrd_spool_done_before(s, item.id));
    sim_disk_set_quota(d, 0);
    CHECK(access(DIR_OF "/spool-0000000000000003.mrs", F_OK) != 0);
    CHECK_ERR("add", add(s, 9, 40000, 5), MRD_OK);
    CHECK(access(DIR_OF "/spool-0000000000000003.mrs", F_OK) == 0);
    mrd_spool_close(s);
    s = open_in_boot("b");
    base = mrd_spool_get_base(s, 1);
    mrd_spool_get_tally(s, 1, &t);
    CHECK(base != NULL && base->known == 10 && t.delivered == 0);
    CHECK_INT(mrd_spool_held(s, 1, NULL), 0);
    CHECK_INT(mrd_spool_held(s, 2, NULL), 1);
    mrd_spool_close(s);
    sim_disk_free(d);
}

/* Lets writes of the second copy of the counts fail. */
static void
no_second_place(void *self, const sim_disk_op *op, sim_disk_verdict *ret_verdict)
{
    (void) self;
    if (op->call == SIM_DISK_WRITE && strstr(op->path, "/counts") != NULL && op->at == 1280)
        ret_verdict->err = ENOSPC;
}

/* A segment is removed while one of its frames waits in memory for its answer. The sums after that
 * are valid only when all slots have them, and one slot cannot be written. The following answer is
 * in the slot of its session only. */
TEST(an_answer_behind_a_place_that_cannot_be_written)
{
    plan none = calm;
    sim_disk *d =
        sim_disk_new("starved", &(sim_disk_options){ .seed = 1, .before = before, .self = &none });
    mrd_spool_item item;
    mrd_spool_tally t;
    mrd_spool *s;
    int fd;

    s = open_spool(DIR_OF, MRD_SPOOL_MIN_BYTES);
    CHECK_ERR("add", add(s, 7, 100, 10), MRD_OK);
    mrd_spool_close(s);
    fd = open(DIR_OF "/spool-0000000000000001.mrs", O_WRONLY | O_APPEND | O_CLOEXEC);
    CHECK(fd >= 0 && write(fd, "torn", 4) == 4); /* numbers of another epoch */
    close(fd);
    s = open_spool(DIR_OF, MRD_SPOOL_MIN_BYTES);
    CHECK_ERR("add", add(s, 8, 100, 3), MRD_OK);
    sim_disk_set_before(d, no_second_place, NULL);
    sim_disk_set_quota(d, sim_disk_used(d));
    CHECK_ERR("it forces out the first", add(s, 7, 10, 7), MRD_OK);
    REQUIRE(access(DIR_OF "/spool-0000000000000001.mrs", F_OK) != 0);
    REQUIRE(mrd_spool_peek(s, 0, &item) && item.events == 10);
    CHECK(mrd_spool_done(s, item.id, true));
    mrd_spool_close(s); /* imitates a kill of the agent */
    sim_disk_set_quota(d, 0);
    sim_disk_set_before(d, before, &none);
    for (int run = 0; run < 2; run++) {
        s = open_spool(DIR_OF, MRD_SPOOL_MIN_BYTES);
        mrd_spool_get_tally(s, 7, &t);
        CHECK_INT(t.delivered, 10);
        CHECK_INT(t.forced, 0);
        CHECK_INT(t.damaged, 0);
        check_sum(s, 7, 17);
        check_sum(s, 8, 3);
        mrd_spool_close(s);
    }
    sim_disk_free(d);
}

TEST_MAIN()
