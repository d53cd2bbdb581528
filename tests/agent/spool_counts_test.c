/* Tests a spool (agent/spool/spool.h) in which segments were cut or removed. Its file "counts" must
 * still have the notes, the positions in the rings, the sessions, and the times of the lost
 * events. */
#include "tests/agent/spool_make.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/sys/file.h"
#include "base/sys/out.h"
#include "tests/trace/events.h"

/* The losses in a note were released with their rings, so a successor cannot read them there again.
 * If the segments are removed, the counts keep them, even for a session without any frame (of a
 * recorder). */
TEST(a_note_without_frames_outlives_its_segments)
{
    char dir[600];
    mrd_spool_position place = { 9, 320 };
    mrd_spool_tally t;
    mrd_spool *s;

    snprintf(dir, sizeof(dir), "%s/note", test_tmp());
    s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
    for (uint64_t session = 7; session <= 8; session++)
        CHECK_ERR("note", mrd_spool_note(s, session, "lost 5", 6), MRD_OK);
    CHECK_ERR("commit", mrd_spool_commit(s, &place, 1, NULL), MRD_OK);
    CHECK_ERR("add", add(s, 8, 100, 5), MRD_OK);
    mrd_spool_close(s);
    for (int round = 0; round < 2; round++) {
        remove_segments(dir);
        s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
        CHECK_INT(mrd_spool_resume(s, 9), 0);
        for (uint64_t session = 7; session <= 8; session++) {
            mrd_spool_get_tally(s, session, &t);
            CHECK_INT(t.note_len, 6);
            CHECK(memcmp(t.note, "lost 5", 6) == 0);
            CHECK_INT(t.damaged, session == 8 ? 5 : 0);
        }
        mrd_spool_close(s);
    }
}

/* The segment was cut before the newest commit, but the counts have the frame of that commit. The
 * note in the counts is newer. */
TEST(the_newest_note_outlives_the_cut_of_its_segment)
{
    for (int torn = 0; torn < 2; torn++) {
        char dir[600], segment[640];
        mrd_spool_tally t;
        struct stat st;
        mrd_spool *s;

        snprintf(dir, sizeof(dir), "%s/cut_note%d", test_tmp(), torn);
        snprintf(segment, sizeof(segment), "%s/spool-0000000000000001.mrs", dir);
        s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
        CHECK_ERR("note", mrd_spool_note(s, 7, "lost 5", 6), MRD_OK);
        CHECK_ERR("add", add(s, 7, 100, 1), MRD_OK);
        REQUIRE(stat(segment, &st) == 0);
        CHECK_ERR("note", mrd_spool_note(s, 7, "lost 9", 6), MRD_OK);
        CHECK_ERR("add", add(s, 7, 100, 1), MRD_OK);
        mrd_spool_close(s);
        CHECK(truncate(segment, st.st_size + 7 * torn) == 0);
        s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
        mrd_spool_get_tally(s, 7, &t);
        CHECK(t.note_len == 6 && memcmp(t.note, "lost 9", 6) == 0);
        CHECK_INT(t.damaged, 1);
        mrd_spool_close(s);
    }
}

/* The positions of the last commit are in a segment that contains nothing else needed. An agent
 * that begins its own segment and is killed before it writes the positions there keeps the old
 * segment. */
TEST(positions_outlive_the_segment_that_goes)
{
    char dir[600], segment[640];
    mrd_spool_position place = { 9, 64 };
    mrd_spool_options o = { .dir = dir, .max_bytes = MRD_SPOOL_MIN_BYTES };
    struct rlimit limit, small;
    mrd_spool_item item;
    struct stat st;
    mrd_spool *s;

    for (int ends = 0; ends < 2; ends++) {
        snprintf(dir, sizeof(dir), "%s/positions%d", test_tmp(), ends);
        snprintf(segment, sizeof(segment), "%s/spool-0000000000000002.mrs", dir);
        s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
        CHECK_ERR("add", add(s, 7, 100, 1), MRD_OK);
        CHECK_ERR("commit", mrd_spool_commit(s, &place, 1, NULL), MRD_OK);
        REQUIRE(mrd_spool_peek(s, 0, &item) && mrd_spool_done(s, item.id, true));
        mrd_spool_close(s);
        if (ends == 0) { /* length of the next segment with the positions */
            s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
            CHECK_INT(mrd_spool_resume(s, 9), 64);
            mrd_spool_close(s);
            REQUIRE(stat(segment, &st) == 0);
            continue;
        }
        CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0 && signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
        small = (struct rlimit){ (rlim_t) st.st_size - 1, limit.rlim_max };
        CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
        CHECK(mrd_spool_open(&o, &s, NULL) != MRD_OK);
        CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
        s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
        CHECK_INT(mrd_spool_resume(s, 9), 64);
        mrd_spool_close(s);
    }
}

/* The newest segment is cut before its last commits. These commits had no frames, so only the
 * losses in their notes are missing, and the counts file has a newer note. If the directory is
 * complete, or was cut earlier and then continued, the segments have the newest note. */
TEST(the_newest_note_outlives_a_cut_that_took_no_frame)
{
    for (unsigned how = 0; how < 5;
         how++) { /* 0-3: cut nothing, a commit, half of it, the segment. 4: cut, then continue */
        char dir[600], segment[640];
        const char *want = how == 4 ? "lost 12" : "lost 9";
        mrd_spool_tally t;
        struct stat st;
        mrd_spool *s;

        snprintf(dir, sizeof(dir), "%s/cut_commit%u", test_tmp(), how);
        snprintf(segment, sizeof(segment), "%s/spool-0000000000000001.mrs", dir);
        s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
        CHECK_ERR("note", mrd_spool_note(s, 7, "lost 5", 6), MRD_OK);
        CHECK_ERR("add", add(s, 7, 100, 1), MRD_OK);
        REQUIRE(stat(segment, &st) == 0);
        CHECK_ERR("note", mrd_spool_note(s, 7, "lost 9", 6), MRD_OK);
        CHECK_ERR("commit", mrd_spool_commit(s, NULL, 0, NULL), MRD_OK);
        mrd_spool_close(s);
        if (how == 3)
            remove_segments(dir);
        else if (how > 0)
            CHECK(truncate(segment, st.st_size + (how == 2 ? 7 : 0)) == 0);
        s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
        if (how == 4) {
            CHECK_ERR("note", mrd_spool_note(s, 7, "lost 12", 7), MRD_OK);
            CHECK_ERR("commit", mrd_spool_commit(s, NULL, 0, NULL), MRD_OK);
            mrd_spool_close(s);
            s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
        }
        mrd_spool_get_tally(s, 7, &t);
        CHECK_INT(t.note_len, strlen(want));
        CHECK(memcmp(t.note, want, t.note_len) == 0);
        CHECK_INT(t.damaged, how == 3);
        mrd_spool_close(s);
    }
}

/* The agent was killed between a commit and its counts, and the next one in its first record. The
 * segments are torn, but they still have the newer note. */
TEST(a_torn_segment_does_not_bring_an_older_note)
{
    char dir[600], counts[640], segment[640];
    mrd_spool_position place = { 9, 64 };
    mrd_buf kept = { 0 };
    mrd_spool_tally t;
    mrd_spool *s;

    snprintf(dir, sizeof(dir), "%s/torn_note", test_tmp());
    snprintf(counts, sizeof(counts), "%s/counts", dir);
    snprintf(segment, sizeof(segment), "%s/spool-0000000000000002.mrs", dir);
    s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
    CHECK_ERR("note", mrd_spool_note(s, 7, "lost 5", 6), MRD_OK);
    CHECK_ERR("add", add(s, 7, 100, 1), MRD_OK);
    CHECK_ERR("counts", mrd_file_read(counts, 1 << 20, &kept, NULL), MRD_OK);
    CHECK_ERR("note", mrd_spool_note(s, 7, "lost 9", 6), MRD_OK);
    CHECK_ERR("commit", mrd_spool_commit(s, &place, 1, NULL), MRD_OK);
    mrd_spool_close(s);
    CHECK_ERR("counts", mrd_write_file(counts, (mrd_bytes){ kept.p, kept.len }, 0600, NULL),
              MRD_OK);
    CHECK_ERR("torn", mrd_write_file(segment, (mrd_bytes){ kept.p, 20 }, 0600, NULL), MRD_OK);
    s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
    mrd_spool_get_tally(s, 7, &t);
    CHECK(t.note_len == 6 && memcmp(t.note, "lost 9", 6) == 0);
    mrd_spool_close(s);
    mrd_buf_fini(&kept);
}

/* A link or a FIFO replaces the counts file. Nothing is read through it, and the open does not
 * block. */
TEST(counts_that_are_no_file)
{
    char dir[300], counts[320], theirs[320];
    mrd_spool *s;

    snprintf(dir, sizeof(dir), "%s/no_file", test_tmp());
    snprintf(counts, sizeof(counts), "%s/counts", dir);
    snprintf(theirs, sizeof(theirs), "%s/theirs", dir);
    s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
    CHECK_ERR("add", add(s, 7, 100, 3), MRD_OK);
    mrd_spool_close(s);
    remove_segments(dir);
    mrd_spool_close(open_spool(dir, MRD_SPOOL_MIN_BYTES));
    CHECK_INT(mrd_spool_damage_in(dir), 3);
    CHECK(rename(counts, theirs) == 0 && symlink(theirs, counts) == 0);
    CHECK_INT(mrd_spool_damage_in(dir), 0);
    CHECK(unlink(counts) == 0 && mkfifo(counts, 0600) == 0);
    CHECK_INT(mrd_spool_damage_in(dir), 0);
}

/* A session that no request uses any more keeps its slot while events of it are missing. It loses
 * the slot when MRD_SPOOL_FORGOTTEN other sessions were forgotten after it. */
TEST(damage_of_a_session_that_is_long_forgotten)
{
    mrd_spool_tally t;
    char dir[300];
    mrd_spool *s;

    snprintf(dir, sizeof(dir), "%s/long_forgotten", test_tmp());
    s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
    CHECK_ERR("add", add(s, 7, 100, 3), MRD_OK);
    mrd_spool_close(s);
    remove_segments(dir);
    s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
    mrd_spool_forget(s, 7);
    CHECK_INT(mrd_spool_damage_in(dir), 3);
    for (uint64_t k = 0; k < MRD_SPOOL_FORGOTTEN; k++) {
        CHECK_ERR("note", mrd_spool_note(s, 1000 + k, "x", 1), MRD_OK);
        mrd_spool_forget(s, 1000 + k);
    }
    CHECK_INT(mrd_spool_damage_in(dir), 0);
    mrd_spool_close(s);
    s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
    mrd_spool_get_tally(s, 7, &t);
    CHECK_INT(t.damaged, 0);
    mrd_spool_close(s);
}

/* The counts have slots for 64 sessions. The slot of a forgotten session is free. A session that
 * was not used since the agent started loses its slot only if no other is free. */
TEST(places_of_counts_are_given_again)
{
    enum { PLACES = 64, MORE = 200 };
    char dir[300];
    mrd_spool *s;

    snprintf(dir, sizeof(dir), "%s/places", test_tmp());
    s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
    for (uint64_t k = 1; k <= MORE; k++) {
        CHECK_ERR("add", add(s, k, 100, 3), MRD_OK);
        if (k + 3 <= MORE)
            mrd_spool_forget(s, k);
    }
    mrd_spool_close(s);
    remove_segments(dir);
    s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
    /* only the three sessions that were not forgotten have damage */
    CHECK_INT(mrd_spool_damage_in(dir), 3 * 3);
    for (uint64_t k = MORE - 2; k <= MORE; k++)
        CHECK_INT(mrd_spool_next_seq(s, k), 0); /* the epoch is new, so the numbers begin again */
    mrd_spool_close(s);

    snprintf(dir, sizeof(dir), "%s/given_up", test_tmp());
    s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
    for (uint64_t k = 1; k < PLACES; k++)
        CHECK_ERR("add", add(s, k, 100, 1), MRD_OK);
    mrd_spool_close(s);
    for (uint64_t more = 1; more <= 3; more++) {
        s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
        CHECK_ERR("add", add(s, 1000 + more, 100, 100), MRD_OK);
        mrd_spool_close(s);
        if (more == 1 || more == 3) {
            char copy[300], command[700];

            snprintf(copy, sizeof(copy), "%s/copy%d", test_tmp(), (int) more);
            snprintf(command, sizeof(command), "cp -r %s %s", dir, copy);
            CHECK(system(command) == 0);
            remove_segments(copy);
            s = open_spool(copy, MRD_SPOOL_MIN_BYTES);
            /* The first new session gets a free slot. The next ones replace old sessions. */
            CHECK_INT(mrd_spool_damage_in(copy), more == 1 ? PLACES - 1 + 100 : PLACES - 3 + 300);
            mrd_spool_close(s);
        }
    }
}

/* ---- Reported first and last time of events that were lost with damaged segments ---- */

static void
add_of(mrd_spool *s, uint64_t session, uint8_t type, uint8_t clock, uint32_t events, int64_t first,
       int64_t last)
{
    uint8_t frame[MRD_FRAME_HEADER + 8] = { 0 };
    mrd_frame f = { .type = type,
                    .clock = clock,
                    .epoch = mrd_spool_epoch(s),
                    .session = session,
                    .seq = mrd_spool_next_seq(s, session),
                    .first = { first },
                    .last = { last } };

    if (type == MRD_FRAME_BATCH) {
        f.events = events == 0 ? 1 : events;
        f.head_len = f.head_raw = f.cols_raw = 4;
    }
    mrd_frame_put(&f, (mrd_bytes){ frame + MRD_FRAME_HEADER, 8 }, frame);
    CHECK_ERR("add", mrd_spool_add(s, (mrd_bytes){ frame, sizeof(frame) }, events, NULL), MRD_OK);
    CHECK_ERR("commit", mrd_spool_commit(s, NULL, 0, NULL), MRD_OK);
}

static void
add_timed(mrd_spool *s, uint8_t type, uint8_t clock, uint32_t events, int64_t first, int64_t last)
{
    add_of(s, 7, type, clock, events, first, last);
}

/* A frame with a single event gives the time as precisely as a larger frame. */
TEST(damage_begins_behind_an_answered_event)
{
    char dir[300];
    mrd_spool *s;
    mrd_spool_tally t;
    mrd_spool_item item;

    snprintf(dir, sizeof(dir), "%s/single", test_tmp());
    s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
    for (int64_t i = 1; i <= 3; i++)
        add_timed(s, MRD_FRAME_BATCH, 1, 1, 100 * i, 100 * i + 50);
    CHECK(mrd_spool_peek(s, 0, &item) && mrd_spool_done(s, item.id, true));
    mrd_spool_close(s);
    remove_segments(dir);
    s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
    mrd_spool_get_tally(s, 7, &t);
    CHECK_INT(t.damaged, 2);
    CHECK_INT(t.damaged_first.ns, 150);
    CHECK_INT(t.damaged_last.ns, 350);
    mrd_spool_close(s);
    CHECK_INT(mrd_spool_damage_in(dir), 2);
    CHECK_INT(mrd_spool_damage_in("/nowhere"), 0); /* a directory without counts */
}

/* The time range of the missing events begins after the last answered event and ends at the last
 * committed one, in the clock of the first. Later losses extend it. */
TEST(damage_has_its_times)
{
    for (uint64_t answers = 0; answers <= 3; answers++) {
        static const int64_t firsts[] = { 100, 200, 400, 600 };
        char dir[300];
        mrd_spool *s;
        mrd_spool_tally t;
        mrd_spool_item item;

        snprintf(dir, sizeof(dir), "%s/times%d", test_tmp(), (int) answers);
        s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
        add_timed(s, MRD_FRAME_CLOCK_DATA, 2, 0, 1, 9000); /* no event */
        add_timed(s, MRD_FRAME_BATCH, 1, 10, 100, 200);
        add_timed(s, MRD_FRAME_BATCH, 1, 10, 300, 400);
        add_timed(s, MRD_FRAME_BATCH, 1, 10, 350, 390); /* ends before the previous frame */
        add_timed(s, MRD_FRAME_BATCH, 2, 10, 5, 8000);  /* of another clock */
        add_timed(s, MRD_FRAME_BATCH, 1, 0, 5, 7000);   /* holds losses only */
        add_timed(s, MRD_FRAME_BATCH, 1, 10, 500, 600);
        for (uint64_t i = 0; i <= answers; i++)
            CHECK(mrd_spool_peek(s, 0, &item) && mrd_spool_done(s, item.id, true));
        mrd_spool_close(s);
        remove_segments(dir);
        s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
        mrd_spool_get_tally(s, 7, &t);
        CHECK_INT(t.damaged, 50 - 10 * answers);
        CHECK_INT(t.damaged_clock, 1);
        CHECK_INT(t.damaged_first.ns, firsts[answers == 3 ? 2 : answers]);
        CHECK_INT(t.damaged_last.ns, 600);
        add_timed(s, MRD_FRAME_BATCH, 1, 10, 1000, 1200);
        mrd_spool_close(s);
        remove_segments(dir);
        s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
        mrd_spool_get_tally(s, 7, &t);
        CHECK_INT(t.damaged, 60 - 10 * answers);
        CHECK_INT(t.damaged_first.ns, firsts[answers == 3 ? 2 : answers]);
        CHECK_INT(t.damaged_last.ns, 1200);
        mrd_spool_close(s);
    }
}

/* The end of a segment is cut off. The missing events lie after the youngest remaining event of
 * their session and clock. The frames are random, mixed with frames of another session, of another
 * clock and without events. The test tracks what it added. */
TEST(what_is_left_tells_when_damage_began)
{
    enum { FRAMES = 14 };

    for (uint64_t start = 1; start <= 60; start++) {
        uint64_t seed = start, lost = 0, keep;
        int64_t left_ns = 0, last_ns = 0, last[FRAMES];
        uint32_t events[FRAMES];
        bool mine[FRAMES];
        off_t size[FRAMES];
        char dir[300], path[400];
        mrd_spool *s;
        mrd_spool_tally t;
        struct stat file;

        snprintf(dir, sizeof(dir), "%s/left%d", test_tmp(), (int) start);
        s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
        snprintf(path, sizeof(path), "%s/spool-0000000000000001.mrs", dir);
        for (int i = 0; i < FRAMES; i++) {
            uint8_t clock = (uint8_t) (i == 0 || test_rand(&seed) % 4 > 0 ? 1 : 2);
            uint64_t session = i == 0 || test_rand(&seed) % 3 > 0 ? 7 : 8;

            events[i] = i > 0 && test_rand(&seed) % 4 == 0 ? 0 : 10;
            last[i] = 1000 + (int64_t) (test_rand(&seed) % 1000);
            add_of(s, session, MRD_FRAME_BATCH, clock, events[i], last[i] - 50, last[i]);
            CHECK(stat(path, &file) == 0);
            size[i] = file.st_size;
            mine[i] = session == 7;
            if (clock != 1 || events[i] == 0)
                last[i] = 0; /* has no information about times */
        }
        mrd_spool_close(s);
        keep = test_rand(&seed) % (FRAMES - 1);
        CHECK(truncate(path, size[keep]) == 0);
        for (size_t i = 0; i < FRAMES; i++) {
            lost += mine[i] && i > keep ? events[i] : 0;
            left_ns = i <= keep && mine[i] && last[i] > left_ns ? last[i] : left_ns;
            last_ns = mine[i] && last[i] > last_ns ? last[i] : last_ns;
        }
        s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
        mrd_spool_get_tally(s, 7, &t);
        CHECK_INT(t.damaged, lost);
        if (lost > 0) {
            CHECK_INT(t.damaged_first.ns, left_ns);
            CHECK_INT(t.damaged_last.ns, last_ns);
        }
        mrd_spool_close(s);
    }
}

TEST_MAIN()
