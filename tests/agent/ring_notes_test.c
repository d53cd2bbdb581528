/*
 * Tests the notes by which a process tells the agent of its losses (capture/ring/ring_note.h). Each
 * lost event must be counted once, even if the process or the agent is killed at any time. Notes in
 * the name of another user's process must not count.
 */
#include "tests/agent/ring_make.h"

#include <dirent.h>

#include "agent/rings/drain.h"
#include "capture/ring/ring_note.h"
#include "tests/seed.h"
#include "tests/wait.h"

typedef struct {
    mrd_drain *p;
    mrd_drain_process *process;
    uint64_t lost, notices, gone, seen;
    char job[128], notice[256];
    int64_t pid;
    uint64_t ended[64]; /* positions of the committed notes */
    size_t n_ended;
} received;

static mrd_err
take(void *self, mrd_drain_process *process, unsigned clock, const mrd_event *ev)
{
    received *h = self;

    CHECK_INT(clock, MRD_DRAIN_RAW);
    h->process = process;
    h->lost += ev->kind == MRD_LOSS ? (uint64_t) ev->ivalue : 0;
    return MRD_OK;
}

static void
notice(void *self, mrd_drain_process *process, const mrd_event *ev)
{
    received *h = self;

    h->notices++;
    snprintf(h->notice, sizeof(h->notice), "%s", mrd_catalog_text(process->catalog, ev->name).p);
}

static void
process_event(void *self, mrd_drain_process *process)
{
    received *h = self;

    h->gone += process->gone;
    h->seen += !process->gone;
    h->pid = process->ident.pid;
    snprintf(h->job, sizeof(h->job), "%s", process->ident.job);
    if (process->gone)
        h->process = NULL;
}

static uint64_t
resume(void *self, uint64_t ring)
{
    const received *h = self;

    for (size_t i = 0; i < h->n_ended; i++)
        if (h->ended[i] == ring)
            return 1;
    return 0;
}

static void
add_position(void *self, uint64_t ring, uint64_t read)
{
    received *h = self;

    CHECK_INT(read, 1);
    if (h->n_ended < MRD_COUNT(h->ended))
        h->ended[h->n_ended++] = ring;
}

static mrd_drain *
open_drain(received *h, bool hold)
{
    mrd_drain_options o = { .instance_id = "i-test",
                            .ring_dir = test_tmp(),
                            .only_uid = -1,
                            .hold = hold,
                            .event = take,
                            .process = process_event,
                            .notice = notice,
                            .resume = resume,
                            .self = h };

    CHECK_ERR("open", mrd_drain_open(&o, &h->p, NULL), MRD_OK);
    return h->p;
}

/* Reads the directory again, as the agent does after each change. */
static void
look(mrd_drain *p)
{
    mrd_drain_finish(p);
}

static void
commit_and_release(received *h)
{
    if (h->process == NULL)
        return;
    h->n_ended = 0;
    mrd_drain_positions(h->p, h->process, add_position, h);
    mrd_drain_release(h->p, h->process);
}

static mrd_ring_name
process_named(int pid, uint64_t start)
{
    mrd_ring_name name = { .pid = pid, .start_ticks = start };

    make_boot(name.boot_id);
    return name;
}

static int
add(const mrd_ring_name *process, uint64_t count, const char *ident)
{
    int64_t now = mrd_local_now().ns;
    mrd_ring_note note = { .count = count,
                           .first = { now - 1000 },
                           .last = { now },
                           .why = 28,
                           .ident = mrd_str_of(ident) };

    return mrd_ring_note_add(test_tmp(), process, &note);
}

static unsigned
files(void)
{
    DIR *dir = opendir(test_tmp());
    const struct dirent *e;
    unsigned n = 0;

    while (dir != NULL && (e = readdir(dir)) != NULL)
        n += strstr(e->d_name, ".lost") != NULL;
    if (dir != NULL)
        closedir(dir);
    return n;
}

/* The process keeps losing events. Each loss is emitted once, and its note is removed after the
 * commit. */
TEST(losses_of_a_running_process)
{
    mrd_ring_name name = process_named(getpid(), make_start_ticks(getpid()));
    received h = { 0 };
    mrd_drain *p = open_drain(&h, true);
    mrd_drain_tally tally;
    uint64_t sum = 0;

    for (uint64_t i = 1; i <= 5; i++) {
        CHECK_INT(add(&name, i, "MERIDIAN_JOB=job-7\n"), 0);
        CHECK_INT(add(&name, 100, "MERIDIAN_JOB=job-7\n"), 0);
        sum += i + 100;
        look(p);
        CHECK_INT(h.lost, sum);
        CHECK_INT(add(&name, 1000, "MERIDIAN_JOB=job-7\n"),
                  0); /* waits for the other note's commit */
        look(p);
        CHECK_INT(h.lost, sum);
        commit_and_release(&h);
        look(p);
        CHECK_INT(h.lost, sum += 1000);
        commit_and_release(&h);
        CHECK_INT(files(), 0);
    }
    CHECK_INT(h.notices, 1);
    CHECK_TEXT(h.notice, "events of this process are lost because it cannot make a ring: there is "
                         "no room (error 28)");
    CHECK_TEXT(h.job, "job-7");
    CHECK_INT(h.pid, getpid());
    CHECK_INT(h.seen, 1);
    CHECK_INT(h.gone, 0);
    mrd_drain_counts(p, &tally);
    CHECK_INT(tally.begun, sum + 1); /* and the notice */
    CHECK_INT(tally.dropped[MRD_DROP_RING_OTHER], sum);
    mrd_drain_close(p);
}

/* A process writes a note and ends. The agent must count the losses and remove the note. */
TEST(losses_of_a_process_that_has_ended)
{
    for (int hold = 0; hold < 2; hold++) {
        uint64_t start;
        int pid = make_dead_pid(&start);
        mrd_ring_name name = process_named(pid, start);
        received h = { 0 };
        mrd_drain *p = open_drain(&h, hold == 1);

        CHECK_INT(add(&name, 42, "RANK=3\n"), 0);
        look(p);
        CHECK_INT(h.lost, 42);
        commit_and_release(&h);
        CHECK_INT(h.gone, 1);
        CHECK_INT(files(), 0);
        mrd_drain_close(p);
    }
}

/* The agent is killed before or after the commit. The note is read again only if it was not
 * committed. */
TEST(an_agent_is_killed)
{
    for (int committed = 0; committed < 2; committed++) {
        uint64_t start;
        int pid = make_dead_pid(&start);
        mrd_ring_name name = process_named(pid, start);
        received h = { 0 };
        mrd_drain *p = open_drain(&h, true);

        CHECK_INT(add(&name, 42, ""), 0);
        look(p);
        if (committed)
            mrd_drain_positions(p, h.process, add_position, &h);
        mrd_drain_close(p);
        CHECK_INT(files(), 1);
        h.lost = 0;
        h.process = NULL;
        p = open_drain(&h, true);
        look(p);
        CHECK_INT(h.lost, committed ? 0 : 42);
        commit_and_release(&h);
        CHECK_INT(files(), 0);
        mrd_drain_close(p);
    }
}

/* A note is the text of a symbolic link. Links with other names or texts are ignored, and nothing
 * that a link points to is changed. */
TEST(what_is_no_note_is_left_alone)
{
    static const struct {
        const char *name, *text;
    } rows[] = {
        { "empty", " " },
        { "no number", "1 x 1 1 28 0 0 0 \n" },
        { "no losses", "1 0 1 1 28 0 0 0 \n" },
        { "another version", "2 1 1 1 28 0 0 0 \n" },
        { "ends before it begins", "1 1 9 8 28 0 0 0 \n" },
        { "not all numbers", "1 1 1 1 28 0 0\n" },
        { "no line", "1 1 1 1 28 0 0 0 " },
        { "a path", "/etc/passwd" },
        { "huge", "1 99999999999999999999 1 1 28 0 0 0 \n" },
        { "no time", "1 1 1 9223372036854775807 28 0 0 0 \n" },
    };
    char path[1200], base[1200];
    received h = { 0 };
    mrd_drain *p = open_drain(&h, true);
    mrd_ring_note note;

    snprintf(base, sizeof(base), "%s/victim", test_tmp());
    close(open(base, O_CREAT | O_WRONLY, 0600));
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_ring_note_name file = { .process = process_named(getpid(), 100 + i) };

        CHECK_ROW(rows[i].name, !mrd_ring_note_read(mrd_str_of(rows[i].text), &note));
        snprintf(path, sizeof(path), "%s/", test_tmp());
        mrd_ring_note_print(&file, path + strlen(path));
        REQUIRE(symlink(rows[i].text, path) == 0);
    }
    snprintf(path, sizeof(path), "%s/meridian.x.lost", test_tmp());
    REQUIRE(symlink(base, path) == 0);
    look(p);
    CHECK_INT(h.lost, 0);
    CHECK_INT(h.seen, 0);
    CHECK_INT(access(base, F_OK), 0);
    mrd_drain_close(p);
}

/* A user writes a note in the name of another user's process. It does not count and is removed. */
TEST(another_users_process_is_not_ones_own)
{
    mrd_ring_name name = process_named(1, make_start_ticks(1));
    char path[1200];
    mrd_ring_note_name file = { .process = name };
    received h = { 0 };
    mrd_drain *p;

    if (getuid() != 0)
        SKIP("not root");
    CHECK_INT(add(&name, 7, ""), 0);
    snprintf(path, sizeof(path), "%s/", test_tmp());
    mrd_ring_note_print(&file, path + strlen(path));
    REQUIRE(lchown(path, 12345, 12345) == 0);
    p = open_drain(&h, true);
    look(p);
    CHECK_INT(h.lost, 0);
    CHECK_INT(h.seen, 0);
    CHECK_INT(files(), 0);
    mrd_drain_close(p);
}

/* A process and an agent use the same note repeatedly, and the process is killed at any instant.
 * Its losses are emitted once. */
TEST(killed_while_it_notes)
{
    uint64_t *noted = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    unsigned seed = test_seed();
    uint64_t sum = 0, unsure = 0;
    received h = { 0 };
    mrd_drain *p = open_drain(&h, true);

    REQUIRE(noted != MAP_FAILED);
    for (int round = 0; round < 200; round++) {
        pid_t pid;

        noted[0] = noted[1] = 0;
        if ((pid = fork()) == 0) {
            mrd_ring_name name = process_named(getpid(), make_start_ticks(getpid()));

            for (uint64_t i = 1;; i++) {
                noted[1] = i;
                if (add(&name, i, "RANK=1\n") == 0)
                    noted[0] += i;
                noted[1] = 0;
            }
        }
        for (int n = rand_r(&seed) % 4; n > 0; n--) {
            look(p);
            if (rand_r(&seed) % 2 == 0)
                commit_and_release(&h);
        }
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        sum += noted[0];
        /* the process was killed while it wrote this note, which may exist or not */
        unsure += noted[1];
        for (int i = 0; i < 3; i++) {
            look(p);
            commit_and_release(&h);
        }
    }
    TEST_UNTIL((mrd_drain_step(p), h.gone == h.seen));
    CHECK_INT(files(), 0);
    CHECK(h.lost >= sum && h.lost <= sum + unsure);
    mrd_drain_close(p);
}

TEST_MAIN()
