#include "tests/hw/tree.h"

#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "agent/files.h"
#include "agent/folder.h"
#include "base/clock.h"
#include "base/out.h"
#include "tests/fake/link.h"
#include "tests/wait.h"
#include "trace/model/catalog.h"

/* A link to a fake aggregator, which answers only after the step. */
typedef struct {
    fake_aggregator g;
    mrd_files *f;
    mrd_buf answer;
    uint64_t tag;
    bool asked;
    uint64_t finished, failed;
    char last[160];
    const char *grows;                         /* a file that grows when its end frame is sent */
    unsigned unanswered;                       /* steps */
    unsigned told, replaced;                   /* complete files; versions before them */
    unsigned announced[8], chunks[8], done[8]; /* of sessions */
    int64_t only[8];                           /* process recorded by each session, 0 for all */
    const char *instance; /* name of the node; NULL if all files belong to the node */
} world;

/* When the end frame of the file is sent, the file grows. It is read again before the answer
 * arrives. */
static void
grow(world *w, mrd_bytes frame)
{
    mrd_frame f;
    int fd;

    if (w->grows == NULL || mrd_frame_get(frame, &f, NULL) != MRD_OK || f.type != MRD_FRAME_DONE)
        return;
    CHECK((fd = open(w->grows, O_WRONLY | O_APPEND)) >= 0 && write(fd, "more", 4) == 4);
    close(fd);
    w->grows = NULL;
    w->unanswered = 200;
}

static void
count(world *w, mrd_bytes frame)
{
    mrd_frame f;

    if (mrd_frame_get(frame, &f, NULL) != MRD_OK || f.session >= MRD_COUNT(w->announced))
        return;
    w->announced[f.session] += f.type == MRD_FRAME_ANNOUNCE;
    w->chunks[f.session] += f.type == MRD_FRAME_CHUNK;
    w->done[f.session] += f.type == MRD_FRAME_DONE;
}

static bool
wants(void *self, uint64_t session, const mrd_files_whose *whose)
{
    const world *w = self;

    return w->only[session] == 0 || w->only[session] == whose->pid;
}

static bool
is_ours(void *self, mrd_str instance, int64_t pid, int64_t uid)
{
    const world *w = self;

    (void) uid;
    return w->instance == NULL || mrd_str_is(instance, w->instance) || pid == 99;
}

static void
complete(void *self, const mrd_files_complete *file)
{
    world *w = self;

    w->told++;
    w->replaced += file->replaced;
}

static mrd_err
send_frame(void *self, uint64_t tag, mrd_bytes frame)
{
    world *w = self;

    fake_aggregator_take(&w->g, frame);
    mrd_buf_reset(&w->answer);
    mrd_buf_add(&w->answer, w->g.reply.p, w->g.reply.len);
    w->tag = tag;
    w->asked = true;
    count(w, frame);
    grow(w, frame);
    return MRD_OK;
}

static void
finished(void *self, const char *path, const char *sha256, const char *message)
{
    world *w = self;

    (void) path;
    (void) sha256;
    w->finished += *message == '\0';
    w->failed += *message != '\0';
    snprintf(w->last, sizeof(w->last), "%s", message);
}

/* One session takes files. */
static void
take(world *w, uint64_t session, int64_t start)
{
    mrd_files_sessions(w->f, &(mrd_files_session){ session, { start } }, 1);
}

static int stable_ms = 40;

static world *
new_world_of(uint64_t max_bytes, size_t max_files)
{
    world *w = calloc(1, sizeof(*w));
    mrd_files_options o = { .stable = stable_ms * MRD_MS,
                            .max_bytes = max_bytes,
                            .max_files = max_files,
                            .agent = 1,
                            .send = send_frame,
                            .finished = finished,
                            .complete = complete,
                            .wants = wants,
                            .is_ours = is_ours,
                            .self = w };
    char dir[512];
    mrd_files_place place = { .path = dir, .pid = 9 };

    fake_aggregator_init(&w->g);
    w->g.need_hello = false;
    CHECK_ERR("open", mrd_files_open(&o, &w->f, NULL), MRD_OK);
    snprintf(dir, sizeof(dir), "%s/cap/", test_tmp());
    CHECK_ERR("watch", mrd_files_watch(w->f, &place), MRD_OK);
    CHECK_ERR("again", mrd_files_watch(w->f, &place), MRD_OK);
    take(w, 1, 0);
    return w;
}

static world *
new_world(uint64_t max_bytes)
{
    return new_world_of(max_bytes, 0);
}

static void
end_world(world *w)
{
    mrd_files_close(w->f);
    fake_aggregator_fini(&w->g);
    mrd_buf_fini(&w->answer);
    free(w);
}

static void
step(world *w)
{
    mrd_msg msg = { 0 };

    mrd_files_step(w->f, mrd_local_now());
    if (w->unanswered > 0) {
        w->unanswered--;
        mrd_files_look(w->f);
        test_pace(1000);
        return;
    }
    if (!w->asked)
        return;
    w->asked = false;
    if (w->answer.len == 0) {
        mrd_files_answer(w->f, w->tag, NULL); /* it vanished on the way */
    } else if (mrd_msg_unpack((mrd_bytes){ w->answer.p, w->answer.len }, &msg, NULL) == MRD_OK) {
        mrd_files_answer(w->f, w->tag, &msg);
        mrd_msg_free(&msg);
    }
}

/* Runs steps until `n` files are finished, for at most a minute. */
static void
until(world *w, uint64_t n)
{
    for (int64_t end = test_deadline(); w->finished + w->failed < n && test_in_time(end);) {
        step(w);
        if (!w->asked)
            test_look_again();
    }
}

/* Lets time pass in which nothing more may happen. */
static void
run_ms(world *w, int ms)
{
    for (int64_t end = test_clock_ms() + ms; test_clock_ms() < end;) {
        step(w);
        test_pace(1000);
    }
}

TEST(names_tell_kind_process_and_core)
{
    static const struct {
        const char *rel, *kind;
        int64_t pid, nc;
    } rows[] = {
        { "i-0ab_pid_77/1700000000/profile_nc_3_session_0.ntff", "NTFF", 77, 3 },
        { "i-0ab_pid_77/abc_instid_0_vnc_5.ntff", "NTFF", 77, 5 },
        { "i-0ab_pid_77/neff_abc.neff", "NEFF", 77, MRD_NONE },
        { "i-0ab_pid_77/1700000000/neffs/graph_abc.neff", "NEFF", 77, MRD_NONE },
        { "i-0ab_pid_77/1700000000/neff_abc_vnc_2.neff", "NEFF", 77, 2 },
        { "i-0ab_pid_77/ntrace.pb", "ntrace.pb", 77, MRD_NONE },
        { "trace.json", "framework-trace", MRD_NONE, MRD_NONE },
        { "i-0123abcd-77/1700/profile_nc_3_session_0.ntff", "NTFF", 77, 3 },
        { "run-12/i-0ab_pid_78/i-0ab_pid_77_nc_2.ntff", "NTFF", 77, 2 },
        { "my_pid_notes/i-0ab_pid_77/ntrace.pb", "ntrace.pb", 77, MRD_NONE },
        { "run-12/ntrace.pb", "ntrace.pb", MRD_NONE, MRD_NONE },
        { "x_pid_/y_nc_z", "file", MRD_NONE, MRD_NONE },
        { "x_pid_99999999999999999999/a", "file", MRD_NONE, MRD_NONE },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        int64_t pid, nc;

        mrd_files_names(rows[i].rel, &pid, &nc);
        CHECK_ROW(rows[i].rel, pid == rows[i].pid && nc == rows[i].nc);
        CHECK_TEXT(mrd_files_kind(rows[i].rel), rows[i].kind);
    }
}

TEST(a_file_is_shipped_when_it_stands_still)
{
    world *w = new_world(0);
    char path[600];
    int fd;

    tree_file(test_tmp(), "cap/i-0_pid_5/ntrace.pb", "first");
    snprintf(path, sizeof(path), "%s/cap/i-0_pid_5/ntrace.pb", test_tmp());
    fd = open(path, O_WRONLY | O_APPEND);
    for (int i = 0; i < 5; i++) { /* it grows: not yet */
        CHECK(write(fd, "more", 4) == 4);
        run_ms(w, 15);
    }
    CHECK_INT(w->g.announces, 0);
    run_ms(w, 80); /* it does not change, but is open for writing */
    if (getuid() == 0)
        CHECK_INT(w->g.announces, 0);
    close(fd);
    until(w, 1);
    CHECK_INT(w->finished, 1);
    CHECK_INT(w->g.artifacts, 1);
    CHECK_INT(w->g.artifact_bytes, 25);
    end_world(w);
}

/* The version in transfer is delivered as announced, and the whole file afterwards. */
TEST(a_file_that_grows_while_it_is_sent_is_sent_again)
{
    world *w = new_world(0);
    char path[600];

    snprintf(path, sizeof(path), "%s/cap/grows.ntff", test_tmp());
    tree_file(test_tmp(), "cap/grows.ntff", "first");
    w->grows = path;
    until(w, 1);
    CHECK(w->grows == NULL && !mrd_files_idle(w->f, 1, (mrd_local_ns){ 0 }));
    until(w, 2);
    CHECK_INT(w->finished, 2);
    CHECK_INT(w->g.artifacts, 2);
    CHECK_INT(w->g.artifact_bytes, 5 + 9);
    end_world(w);
}

/* Writes JSON of `n` numbers from `first` with this name, in place or by renaming. */
static void
put_version(int first, int n, bool rename_it)
{
    char path[600], part[600];
    mrd_buf text = { 0 };

    mrd_buf_text(&text, "{\"traceEvents\": [");
    for (int i = 0; i < n; i++)
        mrd_buf_fmt(&text, "{\"ph\": \"X\", \"ts\": %06d},\n", first + i);
    snprintf(path, sizeof(path), "%s/cap/step.json", test_tmp());
    snprintf(part, sizeof(part), "%s/cap/.step", test_tmp());
    CHECK_ERR("write",
              mrd_write_file(rename_it ? part : path, (mrd_bytes){ text.p, text.len }, 0644, NULL),
              MRD_OK);
    CHECK(!rename_it || rename(part, path) == 0);
    mrd_buf_fini(&text);
}

/* Each version is either delivered or counted as replaced. A file that only grows has one version. */
TEST(versions_that_were_replaced_are_counted)
{
    static const struct {
        const char *name;
        int first_by, n, n_by; /* from each version to the next */
        bool rename_it;
        unsigned versions;
    } rows[] = {
        { "renamed, other contents", 1000, 50, 0, true, 4 },
        { "written in place, the same size", 1000, 50, 0, false, 4 },
        { "written in place, longer", 1000, 50, 3, false, 4 },
        { "written in place, shorter", 0, 50, -3, false, 4 },
        { "renamed, long", 1000, 5000, 1, true, 4 },
        { "grows in place", 0, 50, 10, false, 1 },
        { "grows by renaming", 0, 50, 10, true, 1 },
    };

    stable_ms = 500;
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        world *w;

        tree_file(test_tmp(), "cap/.hidden", "");
        w = new_world(0);
        for (int k = 0; k < 4; k++) {
            put_version(100000 + k * rows[i].first_by, rows[i].n + k * rows[i].n_by,
                        rows[i].rename_it);
            run_ms(w, 150); /* long enough for a search */
        }
        until(w, w->finished + w->failed + 1);
        CHECK_ROW(rows[i].name, w->told + w->replaced == rows[i].versions);
        end_world(w);
    }
    stable_ms = 40;
}

/* Counts for each name how often its file was opened since the last call. */
static void
count_opened(int watch, const char *const *names, unsigned *ret_counts, size_t n)
{
    _Alignas(struct inotify_event) char events[4096];
    ssize_t len;

    memset(ret_counts, 0, n * sizeof(*ret_counts));
    while ((len = read(watch, events, sizeof(events))) > 0)
        for (ssize_t at = 0; at < len;) {
            const struct inotify_event *e = (const struct inotify_event *) (events + at);

            for (size_t i = 0; i < n; i++)
                ret_counts[i] += e->len > 0 && strcmp(e->name, names[i]) == 0;
            at += (ssize_t) (sizeof(*e) + e->len);
        }
}

/* A search opens a new trace file, to find out later whether it was replaced, and no other file. */
TEST(a_search_opens_only_trace_files)
{
    static const char *const names[] = { "a.json", "b.xplane.pb", "c.ntff", "d.neff" };
    unsigned opened[MRD_COUNT(names)];
    char path[600];
    world *w;
    int watch;

    tree_file(test_tmp(), "cap/.hidden", "");
    stable_ms = 60000;
    w = new_world(0);
    for (size_t i = 0; i < MRD_COUNT(names); i++) {
        snprintf(path, sizeof(path), "cap/%s", names[i]);
        tree_file(test_tmp(), path, "text");
    }
    snprintf(path, sizeof(path), "%s/cap", test_tmp());
    CHECK((watch = inotify_init1(IN_NONBLOCK)) >= 0);
    CHECK(inotify_add_watch(watch, path, IN_OPEN) >= 0);
    run_ms(w, 150); /* long enough for a search */
    count_opened(watch, names, opened, MRD_COUNT(names));
    CHECK(opened[0] > 0 && opened[1] > 0);
    CHECK_INT(opened[2] + opened[3], 0);
    close(watch);
    end_world(w);
    stable_ms = 40;
}

TEST(what_the_cluster_has_is_not_sent)
{
    world *w = new_world(0);
    mrd_files_stats st;

    w->g.have_all = true;
    tree_file(test_tmp(), "cap/a/neff_x.neff", "model");
    until(w, 1);
    mrd_files_get_stats(w->f, &st);
    CHECK_INT(st.duplicates, 1);
    CHECK_INT(w->g.chunks, 0);
    end_world(w);
}

TEST(a_cut_upload_resumes_where_it_was)
{
    world *w = new_world(0);
    char path[600];
    mrd_files_stats st;

    tree_file(test_tmp(), "cap/big.ntff", "x");
    snprintf(path, sizeof(path), "%s/cap/big.ntff", test_tmp());
    CHECK(truncate(path, 5 << 20) == 0);
    w->g.cut_at = 2 << 20;
    until(w, 1);
    mrd_files_get_stats(w->f, &st);
    CHECK_INT(w->finished, 1);
    CHECK_INT(w->g.artifacts, 1);
    CHECK_INT(w->g.artifact_bytes, 5 << 20);
    CHECK_INT(w->g.announces, 2);
    CHECK(st.bytes_sent <= (5 << 20) + (1 << 20));
    end_world(w);
}

/* The file waits for any time, without an error. */
TEST(a_full_store_is_waited_for)
{
    world *w = new_world(0);

    tree_file(test_tmp(), "cap/a.ntff", "x");
    w->g.no_room = 200;
    until(w, 1);
    CHECK_INT(w->finished, 1);
    CHECK_INT(w->g.announces, 201);
    CHECK_INT(w->g.artifacts, 1);
    end_world(w);
}

TEST(thousands_of_files)
{
    world *w = new_world(0);
    char rel[64], text[32];
    mrd_files_stats st;
    int n = 2000; /* ten thousand: e2e/files-slow */

    for (int i = 0; i < n; i++) {
        snprintf(rel, sizeof(rel), "cap/d%d/f%d.ntff", i % 20, i);
        snprintf(text, sizeof(text), "%d", i);
        tree_file(test_tmp(), rel, text);
    }
    until(w, (uint64_t) n);
    mrd_files_get_stats(w->f, &st);
    CHECK_INT(w->finished, n);
    CHECK_INT(st.found, n);
    CHECK_INT(st.waiting, 0);
    CHECK_INT(w->g.artifacts, n);
    CHECK(mrd_files_idle(w->f, 1, (mrd_local_ns){ 0 }));
    end_world(w);
}

/* Files above the limit wait until others are removed. */
TEST(files_beyond_the_limit)
{
    world *w = new_world_of(0, 10);
    char rel[64], path[600];
    mrd_files_stats st;

    for (int i = 0; i < 15; i++) {
        snprintf(rel, sizeof(rel), "cap/f%d.ntff", i);
        tree_file(test_tmp(), rel, rel);
    }
    until(w, 10);
    mrd_files_look(w->f);
    run_ms(w, 60);
    mrd_files_get_stats(w->f, &st);
    CHECK_INT(w->finished, 10);
    CHECK_INT(st.found, 10);
    CHECK_INT(st.beyond, 5);
    for (int i = 0; i < 15; i++) {
        snprintf(path, sizeof(path), "%s/cap/f%d.ntff", test_tmp(), i);
        if (i % 2 == 0)
            CHECK(unlink(path) == 0);
    }
    mrd_files_look(w->f);
    for (int i = 0; i < 10000 && (st.beyond > 0 || st.waiting > 0); i++) {
        run_ms(w, 5);
        mrd_files_get_stats(w->f, &st);
    }
    CHECK_INT(st.beyond, 0);
    CHECK_INT(st.waiting, 0);
    CHECK_INT(w->failed, 0);
    CHECK(w->finished > 10 && w->finished <= 15);
    CHECK(mrd_files_idle(w->f, 1, (mrd_local_ns){ 0 }));
    end_world(w);
}

TEST(what_cannot_be_shipped_is_said)
{
    world *w = new_world(1000);
    char path[600];

    tree_file(test_tmp(), "cap/large.ntff", "x");
    snprintf(path, sizeof(path), "%s/cap/large.ntff", test_tmp());
    CHECK(truncate(path, 5000) == 0);
    snprintf(path, sizeof(path), "%s/cap/link", test_tmp());
    CHECK(symlink("/etc/passwd", path) == 0); /* links are not followed, not even found */
    snprintf(path, sizeof(path), "%s/cap/fifo", test_tmp());
    CHECK(mkfifo(path, 0600) == 0);
    until(w, 1);
    run_ms(w, 60);
    CHECK_INT(w->failed, 1);
    CHECK(strstr(w->last, "--artifact-max") != NULL);
    CHECK_INT(w->g.announces, 0);
    end_world(w);
}

/* ---- Hostile contents of a directory ---- */

static int64_t
cpu_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return ts.tv_sec * MRD_SEC + ts.tv_nsec;
}

/* Many files of known and unknown kinds: no turn takes long. Another directory's file arrives while
 * they are read. */
TEST(a_large_directory_does_not_hold_up_a_turn)
{
    world *w = new_world(0);
    mrd_files_place other = { .path = test_tmp(), .name = "own.ntff", .pid = 10 };
    int64_t worst = 0, end;
    mrd_files_stats st;
    char path[600];

    tree_file(test_tmp(), "cap/first.ntff", "x");
    for (int i = 0; i < 60000; i++) {
        int fd;

        snprintf(path, sizeof(path), "%s/cap/f%d%s", test_tmp(), i, i % 2 ? ".ntff" : "");
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
        if (fd < 0)
            abort();
        close(fd);
    }
    tree_file(test_tmp(), "own.ntff", "own");
    CHECK_ERR("other", mrd_files_watch(w->f, &other), MRD_OK);
    end = test_deadline(); /* starts here, because a busy disk takes time to create them */
    do {
        int64_t before = cpu_ns(), took;

        step(w);
        took = cpu_ns() - before;
        worst = took > worst ? took : worst;
        mrd_files_get_stats(w->f, &st);
        test_look_again();
    } while ((st.found < 30002 || st.ignored < 30000) && test_in_time(end));
    CHECK_INT(st.found, 30002);
    CHECK_INT(st.ignored, 30000);
    printf("60,000 files: longest turn %.1f ms of CPU\n", (double) worst / 1e6);
    CHECK(worst < 50 * MRD_MS);
    end_world(w);
}

TEST(only_the_file_that_was_named_is_taken)
{
    world *w = new_world(0);
    mrd_files_place one = { .path = test_tmp(), .name = "one.ntff", .pid = 10 };
    mrd_files_stats st;

    CHECK_ERR("one", mrd_files_watch(w->f, &one), MRD_OK);
    tree_file(test_tmp(), "one.ntff", "one");
    tree_file(test_tmp(), "two.ntff", "two");
    until(w, 1);
    run_ms(w, 100);
    mrd_files_get_stats(w->f, &st);
    CHECK_INT(st.found, 1);
    CHECK_INT(w->g.artifacts, 1);
    CHECK_INT(mrd_files_watch(w->f, &(mrd_files_place){ .path = "", .pid = 1 }), MRD_INVALID);
    end_world(w);
}

/* This process names the directory. A file that it maps stands for its ring. */
static void
name_directory(world *w, const char *path, bool captures)
{
    mrd_owned_claim claim = { .pid = getpid(), .uid = geteuid() };
    mrd_files_place place = {
        .path = path, .pid = getpid(), .claim = &claim, .remove = true, .captures = captures
    };
    char ring[600];
    struct stat st;
    int fd;

    tree_file(test_tmp(), "a.ring", "a ring");
    snprintf(ring, sizeof(ring), "%s/a.ring", test_tmp());
    REQUIRE((fd = open(ring, O_RDONLY | O_CLOEXEC)) >= 0 && fstat(fd, &st) == 0);
    REQUIRE(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) != MAP_FAILED);
    close(fd);
    claim.device = st.st_dev;
    claim.inode = st.st_ino;
    CHECK_ERR("name", mrd_files_watch(w->f, &place), MRD_OK);
}

/* The runtime creates its directory once and writes into it until the capture ends. */
TEST(folders_stay_while_a_capture_is_open)
{
    enum { IT_IS_SAID, PROCESS_ENDS, BEGAN_UNDER_ANOTHER_AGENT, WAYS };

    for (int way = 0; way < WAYS; way++) {
        world *w = new_world(0);
        mrd_local_ns delivered;
        char top[600], folder[700];

        snprintf(top, sizeof(top), "%s/profiles", test_tmp());
        snprintf(folder, sizeof(folder), "%s/i-0_pid_9/17", top);
        tree_file(test_tmp(), "profiles/i-0_pid_9/17/one.ntff", "one");
        tree_file(test_tmp(), "profiles/i-0_pid_9/18/two.ntff", "two");
        name_directory(w, top, way != BEGAN_UNDER_ANOTHER_AGENT);
        until(w, 2);
        delivered = mrd_local_now();
        mrd_files_look(w->f);
        TEST_UNTIL((step(w), mrd_files_idle(w->f, 1, delivered)));
        CHECK(access(folder, F_OK) == 0);
        tree_file(test_tmp(), "profiles/i-0_pid_9/17/ntrace.pb", "written at the end");
        if (way == PROCESS_ENDS)
            mrd_files_gone(w->f, getpid());
        else
            mrd_files_captured(w->f, getpid());
        until(w, 3);
        CHECK_INT(w->failed, 0);
        CHECK_INT(w->g.artifacts, 3);
        TEST_UNTIL((step(w), access(top, F_OK) != 0));
        name_directory(w, top,
                       false); /* a late announcement of an old file does not reopen the capture */
        end_world(w);
    }
}

/* The models of many processes of a user are in one directory. */
TEST(hundreds_of_files_are_named_one_by_one)
{
    enum { NAMED = 700, MORE = 400 };
    world *w = new_world(0);
    char dir[600], name[64], rel[128];
    mrd_files_place place = { .path = dir, .name = name, .pid = 9 };
    mrd_files_stats st;

    snprintf(dir, sizeof(dir), "%s/kept", test_tmp());
    for (int i = 0; i < NAMED + 100; i++) {
        snprintf(rel, sizeof(rel), "kept/neff_%d.neff", i);
        tree_file(test_tmp(), rel, rel);
    }
    for (int i = 0; i < NAMED; i++) {
        snprintf(name, sizeof(name), "neff_%d.neff", i);
        CHECK_ERR(name, mrd_files_watch(w->f, &place), MRD_OK);
    }
    TEST_UNTIL((step(w), w->finished >= NAMED));
    mrd_files_get_stats(w->f, &st);
    CHECK(st.found == NAMED && st.failed == 0);
    /* There is a limit, and files above it are reported. */
    for (int i = 0; i < MORE; i++) {
        snprintf(name, sizeof(name), "more_%d.neff", i);
        CHECK_ERR(name, mrd_files_watch(w->f, &place), MRD_OK);
    }
    TEST_UNTIL((step(w), mrd_files_get_stats(w->f, &st), st.failed > 0));
    CHECK_INT(st.failed, NAMED + MORE - MRD_FOLDER_NAMES);
    CHECK_INT(w->failed, 1);
    CHECK(strstr(w->last, "named one by one") != NULL);
    end_world(w);
}

/* One file is in the deepest directory that is read, and one is below it. The agent reports that
 * there are deeper directories. */
TEST(folders_that_lie_too_deep_are_counted)
{
    char rel[300] = "deep", path[600];
    mrd_folder_options o = { .path = path };
    mrd_folder_state st = { 0 };
    mrd_folder *f;
    uint64_t found = 0;
    size_t n;

    snprintf(path, sizeof(path), "%s/deep", test_tmp());
    for (unsigned i = 0; i <= MRD_FOLDER_DEPTH; i++) {
        char file[320];

        snprintf(rel + strlen(rel), sizeof(rel) - strlen(rel), "/d%u", i);
        snprintf(file, sizeof(file), "%s/x.ntff", rel);
        tree_file(test_tmp(), file, "x");
    }
    REQUIRE((f = mrd_folder_new(&o)) != NULL);
    for (int i = 0; i < 100 && !st.over; i++) {
        mrd_folder_slice(f, -1, &st);
        (void) mrd_folder_found(f, &n);
        found += n;
    }
    CHECK(st.over);
    CHECK_INT(found, MRD_FOLDER_DEPTH);
    CHECK_INT(st.deep, 1);
    mrd_folder_free(f, -1);
}

TEST(without_a_session_files_wait_and_old_ones_stay)
{
    world *w = new_world(0);
    mrd_files_stats st;

    mrd_files_sessions(w->f, NULL, 0);
    tree_file(test_tmp(), "cap/early.ntff", "early");
    run_ms(w, 100);
    CHECK_INT(w->g.announces, 0);
    /* File times come from the kernel's clock, which advances in ticks. The pauses separate them
     * from the start. */
    test_let_it_run(20);
    take(w, 2, mrd_wall_now().ns);
    test_let_it_run(20);
    tree_file(test_tmp(), "cap/late.ntff", "late");
    until(w, 1);
    run_ms(w, 100);
    mrd_files_get_stats(w->f, &st);
    CHECK_INT(w->g.artifacts, 1);
    CHECK_INT(w->g.artifact_len, 4);
    CHECK_INT(st.waiting, 0);
    end_world(w);
}

/* The file system stores whole seconds only. A file of the session's first second belongs to the
 * session. */
TEST(stamps_of_whole_seconds_may_be_of_the_session)
{
    static const struct {
        const char *name;
        int64_t sec, ns;
        bool taken;
    } rows[] = {
        { "same-second.ntff", 0, 0, true },  { "every-second.ntff", -1, 0, true },
        { "before.ntff", -2, 0, false },     { "fine.ntff", 0, 600000000, false },
        { "tick.ntff", 0, 690000000, true },
    };
    const int64_t second = 1767225600;
    world *w = new_world(0);
    mrd_files_stats st;
    int taken = 0;

    mrd_files_sessions(w->f, NULL, 0);
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        struct timespec at = { second + rows[i].sec, rows[i].ns };
        char path[500], name[80];

        snprintf(name, sizeof(name), "cap/%s", rows[i].name);
        tree_file(test_tmp(), name, rows[i].name);
        snprintf(path, sizeof(path), "%s/%s", test_tmp(), name);
        CHECK(utimensat(AT_FDCWD, path, (struct timespec[2]){ at, at }, 0) == 0);
        taken += rows[i].taken;
    }
    run_ms(w, 100);
    take(w, 2, second * MRD_SEC + 700 * MRD_MS);
    until(w, (uint64_t) taken);
    mrd_files_get_stats(w->f, &st);
    for (int64_t end = test_deadline(); st.waiting > 0 && test_in_time(end);) {
        step(w);
        mrd_files_get_stats(w->f, &st);
    }
    CHECK_INT(w->g.artifacts, taken);
    CHECK_INT(st.waiting, 0);
    /* A session that the agent receives late began earlier, and so did the previous session. */
    take(w, 2, second * MRD_SEC + 500 * MRD_MS);
    until(w, (uint64_t) taken + 1);
    CHECK_INT(w->g.artifacts, taken + 1);
    take(w, 2, second * MRD_SEC - 9 * MRD_SEC);
    until(w, MRD_COUNT(rows));
    CHECK_INT(w->g.artifacts, MRD_COUNT(rows));
    end_world(w);
}

static void
until_told(world *w, unsigned session, unsigned announced)
{
    for (int64_t end = test_deadline(); w->announced[session] < announced && test_in_time(end);)
        step(w);
    CHECK_INT(w->announced[session], announced);
}

/* Every session that records gets a file of its time. Its bytes are sent once, and it is read and
 * reported once. A session that began after the file was written does not get it. */
TEST(every_session_of_its_time_gets_a_file)
{
    world *w = new_world(0);
    mrd_files_session all[3] = { { 1, { 0 } }, { 2, { 0 } }, { 3, { INT64_MAX / 2 } } };
    mrd_files_stats st;

    mrd_files_sessions(w->f, all, 3);
    tree_file(test_tmp(), "cap/a.ntff", "for two");
    w->g.have_all = true;
    until(w, 1);
    CHECK_INT(w->announced[1], 1);
    CHECK_INT(w->announced[2], 1);
    CHECK_INT(w->announced[3], 0);
    CHECK_INT(w->told, 1);
    /* One session ends, and another one of that time replaces it. It gets the existing files. */
    all[0] = (mrd_files_session){ 4, { 0 } };
    mrd_files_sessions(w->f, all, 3);
    until_told(w, 4, 1);
    run_ms(w, 50);
    CHECK_INT(w->announced[2], 1);
    CHECK_INT(w->told, 1);
    mrd_files_get_stats(w->f, &st);
    CHECK_INT(st.waiting, 0);
    CHECK_INT(st.failed, 0);
    CHECK(mrd_files_idle(w->f, 4, (mrd_local_ns){ 0 }));
    end_world(w);
}

TEST(nodes_that_share_a_directory_take_their_own_files)
{
    world *nodes[2] = { new_world(0), new_world(0) };
    mrd_files_stats st;
    char path[600];

    nodes[0]->instance = "i-a";
    nodes[1]->instance = "i-b";
    tree_file(test_tmp(), "cap/i-a_pid_77/1700/profile_nc_0.ntff", "of the first");
    tree_file(test_tmp(), "cap/run-3/i-b_pid_77/profile_nc_0.ntff", "of the second");
    tree_file(test_tmp(), "cap/i-b_pid_78_nc_0.ntff", "of the second, too");
    tree_file(test_tmp(), "cap/i-0123abcd-79/1700/ntrace.pb", "of a third");
    tree_file(test_tmp(), "cap/host_pid_99/ntrace.pb", "of a process that is known on both");
    for (unsigned i = 0; i < 2; i++) {
        until(nodes[i], 2 + i);
        mrd_files_get_stats(nodes[i]->f, &st);
        CHECK_INT(st.found, 2 + i);
        CHECK_INT(st.elsewhere, 3 - i);
        CHECK_INT(nodes[i]->g.artifacts, 2 + i);
    }
    snprintf(path, sizeof(path), "%s/cap/i-b_pid_78_nc_0.ntff", test_tmp());
    CHECK(unlink(path) == 0); /* the agent removes a file after its delivery */
    mrd_files_look(nodes[0]->f);
    TEST_UNTIL((step(nodes[0]), mrd_files_get_stats(nodes[0]->f, &st), st.elsewhere == 2));
    CHECK_INT(st.failed, 0);
    CHECK_INT(st.waiting, 0);
    end_world(nodes[0]);
    end_world(nodes[1]);
}

/* Two jobs run on a node. The session of one job gets no files of the other job. */
TEST(a_session_gets_files_of_its_own_processes_only)
{
    world *w = new_world(0);
    mrd_files_session all[2] = { { 1, { 0 } }, { 2, { 0 } } };
    mrd_files_stats st;

    w->only[1] = 9; /* the process of new_world's directory */
    w->only[2] = 77;
    mrd_files_sessions(w->f, all, 2);
    tree_file(test_tmp(), "cap/own.ntff", "of process 9");
    tree_file(test_tmp(), "cap/i-0_pid_77/profile_nc_0.ntff", "of process 77");
    tree_file(test_tmp(), "cap/i-0_pid_78/profile_nc_0.ntff", "of nobody");
    until(w, 2);
    for (int64_t end = test_deadline();
         mrd_files_get_stats(w->f, &st), st.waiting > 0 && test_in_time(end);)
        step(w);
    run_ms(w, 50);
    CHECK_INT(w->announced[1], 1);
    CHECK_INT(w->announced[2], 1);
    CHECK_INT(w->finished, 2);
    CHECK_INT(st.waiting, 0);
    end_world(w);
}

/* A session ends at a random time while a large file is sent to it. The other session gets the
 * whole file, and no file is damaged. */
TEST(a_session_that_ends_does_not_take_a_file_along)
{
    for (unsigned at = 0; at < 12; at++) {
        world *w = new_world(0);
        mrd_files_session both[2] = { { 1, { 0 } }, { 2, { 0 } } };
        char path[600];

        mrd_files_sessions(w->f, both, 2);
        tree_file(test_tmp(), "cap/big.ntff", "x");
        snprintf(path, sizeof(path), "%s/cap/big.ntff", test_tmp());
        CHECK(truncate(path, (5 << 20) + at) == 0);
        for (int64_t end = test_deadline();
             w->announced[1] + w->chunks[1] < 1 + at && test_in_time(end);)
            step(w);
        mrd_files_sessions(w->f, &both[1], 1);
        until(w, 1);
        CHECK_INT(w->announced[2] > 0 && w->done[2] == 1, 1);
        CHECK_INT(w->failed, 0);
        CHECK_INT(w->g.artifact_len, (5 << 20) + at);
        CHECK(w->g.artifacts >= 1);
        CHECK_INT(w->told, 1);
        end_world(w);
    }
}

/* If no session is left, the file waits for the next session of its time. */
TEST(a_file_whose_session_ends_while_it_is_sent_waits)
{
    world *w = new_world(0);
    char path[600];

    tree_file(test_tmp(), "cap/big.ntff", "x");
    snprintf(path, sizeof(path), "%s/cap/big.ntff", test_tmp());
    CHECK(truncate(path, 5 << 20) == 0);
    for (int64_t end = test_deadline(); w->chunks[1] < 3 && test_in_time(end);)
        step(w);
    mrd_files_sessions(w->f, NULL, 0);
    run_ms(w, 100);
    CHECK_INT(w->finished + w->failed, 0);
    take(w, 2, 0);
    until(w, 1);
    CHECK_INT(w->done[1], 0);
    CHECK_INT(w->done[2], 1);
    CHECK_INT(w->told, 1);
    end_world(w);
}

TEST_MAIN()
