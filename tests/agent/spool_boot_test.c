/* Tests a spool (agent/spool/spool.h) after the machine lost its power. Its files may then be older
 * than the counts that it has already reported to the aggregator. */
#include "tests/check.h"

#include <stdlib.h>
#include <unistd.h>

#include "agent/spool/spool.h"

static mrd_spool *
open_spool(const char *dir, const char *boot)
{
    mrd_spool_options o = { .dir = dir, .max_bytes = MRD_SPOOL_MIN_BYTES, .boot_id = boot };
    mrd_spool *s = NULL;
    mrd_why why = { 0 };

    CHECK_ERR("open", mrd_spool_open(&o, &s, &why), MRD_OK);
    return s;
}

/* Adds a committed frame of session 7 with `events` events. */
static void
add(mrd_spool *s, uint64_t events)
{
    mrd_frame f = { .type = MRD_FRAME_CLOCK_DATA,
                    .agent = 1,
                    .epoch = mrd_spool_epoch(s),
                    .session = 7,
                    .seq = mrd_spool_next_seq(s, 7) };
    uint8_t frame[MRD_FRAME_HEADER];

    mrd_frame_put(&f, (mrd_bytes){ NULL, 0 }, frame);
    CHECK_ERR("add", mrd_spool_add(s, (mrd_bytes){ frame, sizeof(frame) }, events, NULL), MRD_OK);
    CHECK_ERR("commit", mrd_spool_commit(s, NULL, 0, NULL), MRD_OK);
}

/* The oldest is answered. */
static void
answer(mrd_spool *s, bool earlier, bool before)
{
    mrd_spool_item item;

    REQUIRE(mrd_spool_peek(s, 0, &item));
    CHECK(item.earlier == earlier);
    CHECK(before ? mrd_spool_done_before(s, item.id) : mrd_spool_done(s, item.id, true));
}

static void
copy(const char *from, const char *to)
{
    char command[1200];

    snprintf(command, sizeof(command), "rm -rf '%s' && cp -a '%s' '%s'", to, from, to);
    REQUIRE(system(command) == 0);
}

static uint64_t
delivered(const mrd_spool *s)
{
    mrd_spool_tally t;

    mrd_spool_get_tally(s, 7, &t);
    return t.delivered;
}

static void
check_base(const char *row, const mrd_spool *s, uint64_t begun, uint64_t stored, uint64_t held)
{
    const mrd_spool_base *b = mrd_spool_get_base(s, 7);

    CHECK_ROW(row, b != NULL);
    if (b == NULL)
        return;
    CHECK_ROW(row, b->begun == begun);
    CHECK_ROW(row, b->tally.delivered == stored);
    CHECK_ROW(row, b->held == held);
}

/* 40 events were reported as delivered, but on the disk they are still held. The new replies say
 * that they were stored before, so they are never counted as delivered again, by no successor and
 * at no time. */
TEST(what_was_told_is_not_delivered_again)
{
    char dir[300], old[320];
    uint64_t since, again;
    mrd_spool *s;

    snprintf(dir, sizeof(dir), "%s/spool", test_tmp());
    snprintf(old, sizeof(old), "%s/old", test_tmp());
    s = open_spool(dir, "a");
    CHECK(mrd_spool_get_base(s, 7) == NULL);
    since = mrd_spool_since(s);
    for (int i = 0; i < 6; i++)
        add(s, 10);
    answer(s, false, false);
    copy(dir, old);
    for (int i = 0; i < 4; i++)
        answer(s, false, false);
    add(s, 10);
    CHECK_INT(delivered(s), 50);
    mrd_spool_close(s);

    copy(old, dir); /* the state of the disk */
    s = open_spool(dir, "b");
    again = mrd_spool_since(s);
    CHECK(again != since && again > 1);
    check_base("found", s, 60, 10, 50);
    for (int i = 0; i < 3; i++)
        answer(s, true, true);
    CHECK_INT(delivered(s), 10);
    add(s, 10);
    mrd_spool_close(s);
    /* three further agents in turn read these counts and continue them */
    for (int life = 0; life < 3; life++) {
        s = open_spool(dir, "b");
        CHECK(mrd_spool_since(s) == again);
        check_base("again", s, 60, 10, 50);
        CHECK_INT(delivered(s), life == 0 ? 10 : 20);
        if (life == 0)
            answer(s, true, true);
        answer(s, life == 0, false); /* the last frame of the previous boot, then the new ones */
        add(s, 10);
        mrd_spool_close(s);
        if (life == 1)
            break;
    }
    s = open_spool(dir, "b");
    CHECK_INT(delivered(s), 30);
    mrd_spool_close(s);
    s = open_spool(dir, "c"); /* the next boot begins with these counts */
    CHECK(mrd_spool_since(s) != again);
    check_base("next", s, 50, 30, 20);
    mrd_spool_close(s);
}

/* Committed frames that the disk lost belong to the base, and are not damage of this boot. */
TEST(what_the_disk_lost_is_told)
{
    char dir[300], command[400];
    mrd_spool_stats st;
    mrd_spool_tally t;
    mrd_spool *s;

    snprintf(dir, sizeof(dir), "%s/spool", test_tmp());
    s = open_spool(dir, "a");
    for (int i = 0; i < 6; i++)
        add(s, 10);
    answer(s, false, false);
    mrd_spool_close(s);
    snprintf(command, sizeof(command), "rm '%s'/spool-*.mrs", dir);
    REQUIRE(system(command) == 0);
    for (int life = 0; life < 2; life++) {
        s = open_spool(dir, "b");
        check_base("life", s, 60, 10, 0);
        mrd_spool_get_tally(s, 7, &t);
        mrd_spool_get_stats(s, &st);
        CHECK_INT(t.damaged, 0);
        CHECK_INT(st.damaged_events, life == 0 ? 50 : 0);
        mrd_spool_close(s);
    }
}

/* Frames that were already missing before the reboot belong to the base, and to the previous losses
 * of this agent. */
TEST(damage_of_an_earlier_boot_is_of_the_base)
{
    char dir[300], command[400];
    mrd_spool_tally t;
    mrd_spool *s;

    snprintf(dir, sizeof(dir), "%s/spool", test_tmp());
    s = open_spool(dir, "a");
    for (int i = 0; i < 6; i++)
        add(s, 10);
    answer(s, false, false);
    mrd_spool_close(s);
    snprintf(command, sizeof(command), "rm '%s'/spool-*.mrs", dir);
    REQUIRE(system(command) == 0);
    s = open_spool(dir, "a");
    mrd_spool_get_tally(s, 7, &t);
    CHECK_INT(t.damaged, 50);
    add(s, 10);
    mrd_spool_close(s);
    for (int life = 0; life < 2; life++) {
        s = open_spool(dir, "b");
        check_base("life", s, 70, 10, 10);
        CHECK_INT(mrd_spool_get_base(s, 7)->tally.damaged, 50);
        mrd_spool_close(s);
    }
}

/* The directory of an earlier release has only the boot in its lock file, and is continued. So is a
 * directory without a boot in the lock file, if its counts contain the boot. */
TEST(folders_of_earlier_releases_go_on)
{
    static const struct {
        const char *lock;
        bool same, one; /* the spool takes the boot as unchanged; the boot has the number 1 */
    } rows[] = { { "a\n", true, true },
                 { "", true, false }, /* the file of counts has the boot id, too */
                 { NULL, true, false },
                 { "b\n", false, false },
                 { "a\nrubbish\n", true, true } };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        char dir[300], path[320];
        const char *name = rows[i].lock == NULL ? "removed" : rows[i].lock;
        uint64_t epoch, since;
        mrd_spool *s;
        FILE *f;

        snprintf(dir, sizeof(dir), "%s/r%zu", test_tmp(), i);
        s = open_spool(dir, "a");
        add(s, 10);
        epoch = mrd_spool_epoch(s);
        since = mrd_spool_since(s);
        mrd_spool_close(s);
        snprintf(path, sizeof(path), "%s/lock", dir);
        if (rows[i].lock == NULL) {
            REQUIRE(unlink(path) == 0);
        } else {
            REQUIRE((f = fopen(path, "w")) != NULL);
            fputs(rows[i].lock, f);
            fclose(f);
        }
        for (int again = 0; again < 2; again++) { /* and its successor */
            s = open_spool(dir, "a");
            CHECK_ROW(name, (mrd_spool_epoch(s) == epoch) == rows[i].same);
            CHECK_ROW(name, (mrd_spool_since(s) == 1) == rows[i].one);
            CHECK_ROW(name, (mrd_spool_since(s) == since) == (rows[i].same && !rows[i].one));
            CHECK_ROW(name, (mrd_spool_get_base(s, 7) == NULL) == rows[i].same);
            CHECK_INT(mrd_spool_held(s, 7, NULL), 1);
            mrd_spool_close(s);
        }
        s = open_spool(dir, "c"); /* another boot is detected for any lock file */
        CHECK_ROW(name, mrd_spool_epoch(s) != epoch && mrd_spool_since(s) != since);
        mrd_spool_close(s);
        REQUIRE(unlink(path) == 0);
        s = open_spool(dir, "a");
        CHECK_ROW(name, mrd_spool_since(s) != since && mrd_spool_get_base(s, 7) != NULL);
        mrd_spool_close(s);
    }
}

TEST_MAIN()
