/* Tests the syncer, which makes the files of all journals durable. It may use one call for all
 * files only if this is safe, and it chooses the cheaper way. */
#include "tests/aggregator/journal_disk.h"

#include <errno.h>
#include <linux/magic.h>

/* ---- Many concurrent journals ---- */

enum { MANY = 6 };

static mrd_journal *many[MANY + 4];

static void
many_open(const char *what, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char dir[300];

        snprintf(dir, sizeof(dir), "%s/%s%zu", test_tmp(), what, i);
        many[i] = journal_in(dir);
        CHECK(many[i] != NULL);
    }
}

static void
many_dirty(size_t n, uint64_t seq)
{
    for (size_t i = 0; i < n; i++)
        CHECK_ERR("put", put(many[i], seq, 10), MRD_OK);
}

static void
many_close(size_t n)
{
    for (size_t i = 0; i < n; i++)
        CHECK_ERR("close", mrd_journal_close(many[i], NULL), MRD_OK);
}

/* Syncs the n dirty journals and returns the number of calls. */
static size_t
sync_all(mrd_journal_syncer *s, size_t n, mrd_err want)
{
    mrd_why whys[MANY + 4];
    size_t calls;

    memset(whys, 0, sizeof(whys));
    calls = mrd_journal_sync_many(s, many, n, whys);
    for (size_t i = 0; i < n; i++) {
        CHECK_ERR("each", whys[i].err, want);
        CHECK(!mrd_journal_is_dirty(many[i]));
    }
    return calls;
}

TEST(syncfs_stands_for_all_only_where_it_is_sound)
{
    static const struct {
        const char *release;
        long fs;
        bool no_uname, no_statfs, sound;
    } rows[] = {
        { "5.8.0", EXT4_SUPER_MAGIC, false, false, true },
        { "5.10.1-x", BTRFS_SUPER_MAGIC, false, false, true },
        { "6.0", 0x58465342, false, false, true },
        { "7.1", EXT4_SUPER_MAGIC, false, false, true },
        { "5.7.99", EXT4_SUPER_MAGIC, false, false, false },
        { "4.19", EXT4_SUPER_MAGIC, false, false, false },
        { "5", EXT4_SUPER_MAGIC, false, false, false },
        { "linux", EXT4_SUPER_MAGIC, false, false, false },
        { "6.1", TMPFS_MAGIC, false, false, false },
        { "6.1", EXT4_SUPER_MAGIC, true, false, false },
        { "6.1", EXT4_SUPER_MAGIC, false, true, false },
    };

    many_open("k", MANY);
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_journal_syncer *s;

        disk_watch();
        disk.now = 1000 * MRD_SEC;
        kernel_release = rows[i].release;
        file_system = rows[i].fs;
        no_uname = rows[i].no_uname;
        no_statfs = rows[i].no_statfs;
        REQUIRE(mrd_journal_syncer_open(test_tmp(), &s, NULL) == MRD_OK);
        many_dirty(MANY, i);
        CHECK_ROW(rows[i].release, sync_all(s, MANY, MRD_OK) == (rows[i].sound ? 1 : MANY));
        CHECK_ROW(rows[i].release, (strstr(disk.log, "syncfs") != NULL) == rows[i].sound);
        CHECK_ROW(rows[i].release, (strstr(disk.log, "data") != NULL) == !rows[i].sound);
        mrd_journal_syncer_close(s);
    }
    mrd_journal_syncer_close(NULL);
    many_close(MANY);
}

static mrd_journal_syncer *
sound_syncer(int64_t data_cost, int64_t all_cost)
{
    mrd_journal_syncer *s = NULL;

    disk_watch();
    disk.now = 1000 * MRD_SEC;
    disk.data_cost = data_cost;
    disk.all_cost = all_cost;
    kernel_release = "6.1";
    file_system = EXT4_SUPER_MAGIC;
    no_uname = no_statfs = false;
    CHECK_ERR("syncer", mrd_journal_syncer_open(test_tmp(), &s, NULL), MRD_OK);
    return s;
}

static size_t
turn(mrd_journal_syncer *s, size_t n)
{
    static uint64_t seq = 1000;

    many_dirty(n, seq++);
    return sync_all(s, n, MRD_OK);
}

/* The syncer measures the cost per file with few files. Then it takes the cheaper way. A cost that
 * was not measured for a minute is measured again. */
TEST(the_cheaper_way_is_learned)
{
    mrd_journal_syncer *s;

    many_open("c", MANY);
    /* To sync a single file takes 10 ms, and one syncfs for all files takes 35 ms. */
    REQUIRE((s = sound_syncer(10 * MRD_MS, 35 * MRD_MS)) != NULL);
    CHECK_INT(turn(s, 4), 4); /* few: one by one */
    CHECK_INT(turn(s, 5), 1); /* the cost of syncfs is unknown, so it is tried */
    CHECK_INT(turn(s, 4), 1); /* 35 < 40 */
    CHECK_INT(turn(s, 3), 3); /* 35 > 30 */
    CHECK_INT(turn(s, 1), 1);
    CHECK(strstr(disk.log, "data 000001.mrj\n") != NULL);
    forget_log();
    CHECK_INT(turn(s, 1), 1); /* a single file never uses syncfs */
    CHECK_TEXT(disk.log, "data 000001.mrj\n");
    /* syncfs now takes 99 ms. The estimate moves by a quarter of the difference with each call:
     * (3 * 35 + 99) / 4 = 51, and so on. */
    disk.all_cost = 99 * MRD_MS;
    CHECK_INT(turn(s, 6), 1); /* 35 < 60 */
    CHECK_INT(turn(s, 6), 1); /* 51 < 60; then 63 */
    CHECK_INT(turn(s, 6), 6); /* 63 > 60 */
    disk.now += 59 * MRD_SEC;
    CHECK_INT(turn(s, 6), 6); /* not yet forgotten */
    disk.now += 2 * MRD_SEC;
    CHECK_INT(turn(s, 6), 1); /* forgotten: tried again */
    disk.now += 61 * MRD_SEC;
    /* both measured costs have expired, so files are synced one by one, as at the start */
    CHECK_INT(turn(s, 4), 4);
    mrd_journal_syncer_close(s);
    many_close(MANY);
}

TEST(a_failed_syncfs_is_every_journals_error)
{
    mrd_journal_syncer *s = sound_syncer(10 * MRD_MS, 10 * MRD_MS);

    REQUIRE(s != NULL);
    many_open("e", MANY);
    many_dirty(MANY, 0);
    disk_fail(OP_ALL, 1, 1, ENOSPC);
    CHECK_INT(sync_all(s, MANY, MRD_FULL), 1);
    many_dirty(MANY, 0);
    forget_log();
    CHECK_INT(sync_all(s, MANY, MRD_OK), 1);
    CHECK_TEXT(disk.log, "syncfs \n");
    many_dirty(MANY, 1);
    CHECK_INT(sync_all(s, MANY, MRD_OK), 1);
    mrd_journal_syncer_close(s);
    many_close(MANY);
}

TEST(a_syncer_of_no_folder_says_so)
{
    mrd_journal_syncer *s = NULL;
    mrd_why why = { 0 };

    CHECK_ERR("none", mrd_journal_syncer_open("/nowhere/at/all", &s, &why), MRD_IO);
    CHECK(s == NULL && why.sys == ENOENT);
}

TEST_MAIN()
