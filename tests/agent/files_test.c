#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "agent/files/folder.h"
#include "tests/agent/files_world.h"
#include "trace/model/catalog.h"

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
    run_ms(w, 80); /* the file does not change, but it is open for writing, so it is not complete */
    if (getuid() == 0)
        CHECK_INT(w->g.announces, 0);
    close(fd);
    until(w, 1);
    CHECK_INT(w->finished, 1);
    CHECK_INT(w->g.artifacts, 1);
    CHECK_INT(w->g.artifact_bytes, 25);
    end_world(w);
}

/* A file grows while the agent sends it. The aggregator gets the version that was announced, and
 * afterwards the whole file. */
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

/* The agent keeps the file for any time without an error. */
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
    CHECK(strstr(w->last, "--advanced.artifact-max") != NULL);
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

/* Makes this test process name the directory to the agent, as a workload does. A file that the
 * process maps plays the part of its ring. */
static void
name_directory(world *w, const char *path, bool captures)
{
    mrd_safe_open_claim claim = { .pid = getpid(), .uid = geteuid() };
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

/* The runtime creates its directory once and writes into it until the capture ends. The agent must
 * not drop or remove the directory before that. */
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
    /* The number of named files is limited, and files above the limit are reported. */
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

TEST_MAIN()
