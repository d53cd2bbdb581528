#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include "tests/agent/files_world.h"

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
    /* One session ends, and another session of the same time replaces it. The new session gets the
     * files that exist already. */
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
