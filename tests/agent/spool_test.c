/* Tests the spool (agent/spool/spool.h). Frames are kept until they are answered. If the spool is
 * full, the oldest frames are forced out. Only the spool's own files are used. */
#include "tests/agent/spool_make.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/sys/file.h"
#include "base/sys/out.h"

TEST(frames_stay_until_they_are_done)
{
    mrd_spool *s = open_spool(test_tmp(), MRD_SPOOL_MIN_BYTES);
    mrd_spool_item item;
    uint64_t epoch = mrd_spool_epoch(s), second;
    mrd_spool_stats st;

    for (int i = 0; i < 5; i++)
        CHECK_ERR("add", add(s, 7, 100, 10), MRD_OK);
    CHECK_ERR("other session", add(s, 8, 100, 1), MRD_OK);
    CHECK_INT(mrd_spool_next_seq(s, 7), 5);
    CHECK(mrd_spool_peek(s, 0, &item) && item.seq == 0);
    CHECK(mrd_spool_peek(s, item.id + 1, &item) && item.seq == 1);
    second = item.id;
    CHECK(mrd_spool_done(s, second, true));
    CHECK(!mrd_spool_done(s, second, true));
    mrd_spool_close(s);
    s = open_spool(test_tmp(), MRD_SPOOL_MIN_BYTES);
    CHECK(mrd_spool_epoch(s) == epoch);
    CHECK_INT(mrd_spool_next_seq(s, 7), 5);
    CHECK_INT(mrd_spool_held(s, 7, NULL), 4);
    mrd_spool_get_stats(s, &st);
    CHECK_INT(st.recovered_events, 41);
    CHECK_INT(st.torn_bytes, 0);
    for (uint64_t from = 0; mrd_spool_peek(s, from, &item); from = item.id + 1) {
        CHECK(whole(s, &item));
        CHECK(item.seq != 1 || item.session == 8);
        CHECK(mrd_spool_done(s, item.id, true));
    }
    mrd_spool_close(s);
    /* All frames are acknowledged. Their numbers must still not be reused. */
    s = open_spool(test_tmp(), MRD_SPOOL_MIN_BYTES);
    CHECK_INT(mrd_spool_next_seq(s, 7), 5);
    CHECK(!mrd_spool_peek(s, 0, &item));
    mrd_spool_close(s);
}

static uint64_t
check_tally(const char *row, const mrd_spool *s, uint64_t delivered, uint64_t refused,
            const char *note)
{
    mrd_spool_tally t;

    mrd_spool_get_tally(s, 7, &t);
    CHECK_ROW(row, t.delivered == delivered);
    CHECK_ROW(row, t.refused == refused);
    CHECK_ROW(row, t.note_len == strlen(note) && memcmp(t.note, note, t.note_len) == 0);
    return t.forced;
}

/* The counts of a session's events are exact in every successor. */
TEST(tallies_go_on)
{
    mrd_spool *s = open_spool(test_tmp(), MRD_SPOOL_MIN_BYTES);
    uint64_t delivered = 0, refused = 0, added = 0, forced = 0, before, held;
    mrd_spool_item item;
    mrd_frame f = { .type = MRD_FRAME_CLOCK_DATA, .session = 7 };
    uint8_t frame[MRD_FRAME_HEADER];

    check_tally("nothing yet", s, 0, 0, "");
    for (int run = 0; run < 40; run++) {
        for (int i = 0; i < 20; i++, added += 10)
            CHECK_ERR("add", add(s, 7, 65536, 10), MRD_OK);
        for (int i = 0; i < 7 && mrd_spool_peek(s, 0, &item); i++) {
            delivered += i % 3 != 0 ? item.events : 0;
            refused += i % 3 == 0 ? item.events : 0;
            CHECK(mrd_spool_done(s, item.id, i % 3 != 0));
        }
        CHECK_ERR("note", mrd_spool_note(s, 7, run % 2 == 0 ? "even" : "odd", run % 2 ? 3 : 4),
                  MRD_OK);
        CHECK(mrd_spool_uncommitted(s));
        CHECK_ERR("commit", mrd_spool_commit(s, NULL, 0, NULL), MRD_OK);
        /* Adds a frame and a loss that are never committed. The next agent must count neither of
         * them. */
        f.epoch = mrd_spool_epoch(s);
        f.seq = mrd_spool_next_seq(s, 7);
        mrd_frame_put(&f, (mrd_bytes){ NULL, 0 }, frame);
        CHECK_ERR("open", mrd_spool_add(s, (mrd_bytes){ frame, sizeof(frame) }, 1, NULL), MRD_OK);
        CHECK_ERR("note", mrd_spool_note(s, 7, "never", 5), MRD_OK);
        CHECK_INT(check_tally("now", s, delivered, refused, run % 2 == 0 ? "even" : "odd"),
                  forced + lost_events);
        CHECK_INT(mrd_spool_clock_lost(s, 7) * 10, refused + forced + lost_events);
        before = mrd_spool_held(s, 7, NULL);
        mrd_spool_close(s);
        lost_events = 0;
        s = open_spool(test_tmp(), MRD_SPOOL_MIN_BYTES);
        forced = check_tally("again", s, delivered, refused, run % 2 == 0 ? "even" : "odd");
        CHECK_INT(mrd_spool_clock_lost(s, 7) * 10, refused + forced);
        CHECK_INT(mrd_spool_next_seq(s, 7), f.seq);
        /* At most 16 frames (the send window) were in memory only. They are lost and counted. */
        CHECK(before - 1 - mrd_spool_held(s, 7, &held) <= 16);
        CHECK_INT(held + delivered + refused + forced, added);
    }
    CHECK(forced > 0 && refused > 0);
    mrd_spool_close(s);
}

/* A frame in flight may be stored already, so it must not count as lost before its answer. */
TEST(what_was_sent_is_not_forced_out)
{
    mrd_spool *s = open_spool(NULL, MRD_SPOOL_MIN_BYTES);
    mrd_spool_item item;

    CHECK_ERR("add", add(s, 1, 65536, 100), MRD_OK);
    CHECK(mrd_spool_peek(s, 0, &item));
    mrd_spool_sent(s, item.id);
    for (int i = 0; i < 500; i++)
        CHECK_ERR("add", add(s, 1, 65536, 100), MRD_OK);
    CHECK(lost_frames > 300);
    CHECK(mrd_spool_peek(s, 0, &item) && item.seq == 0 && whole(s, &item));
    CHECK_INT(mrd_spool_clock_lost(s, 1), lost_frames);
    CHECK(mrd_spool_done(s, item.id, true));
    CHECK_INT(mrd_spool_clock_lost(s, 1), lost_frames);
    CHECK(mrd_spool_peek(s, 0, &item) && item.seq > 300);
    CHECK(mrd_spool_done(s, item.id, false)); /* refused for good */
    CHECK_INT(mrd_spool_clock_lost(s, 1), lost_frames + 1);
    mrd_spool_lose_clock(s, 1);
    CHECK_INT(mrd_spool_clock_lost(s, 1), lost_frames + 2);
    mrd_spool_close(s);
}

/* A successor cannot know which of the oldest frames its predecessor had sent. It keeps one window
 * of them and forces out later frames instead. */
TEST(what_a_predecessor_may_have_sent_is_not_forced_out)
{
    mrd_spool *s = open_spool(test_tmp(), MRD_SPOOL_MIN_BYTES);
    mrd_spool_item item = { 0 };

    for (int i = 0; i < 40; i++)
        CHECK_ERR("add", add(s, 1, 65536, 100), MRD_OK);
    mrd_spool_close(s);
    s = open_spool(test_tmp(), MRD_SPOOL_MIN_BYTES);
    for (int i = 0; i < 300; i++)
        CHECK_ERR("add", add(s, 1, 65536, 100), MRD_OK);
    for (uint64_t i = 0; i < 16; i++)
        CHECK(mrd_spool_peek(s, i == 0 ? 0 : item.id + 1, &item) && item.seq == i &&
              whole(s, &item));
    CHECK(mrd_spool_peek(s, item.id + 1, &item) && item.seq > 100 && whole(s, &item));
    mrd_spool_close(s);
}

TEST(an_id_that_is_not_in_the_queue_is_not_found)
{
    mrd_spool *s = open_spool(NULL, MRD_SPOOL_MIN_BYTES);
    mrd_spool_item first, last;
    mrd_buf data = { 0 };

    CHECK(!mrd_spool_done(s, 1, true));
    for (int i = 0; i < 3; i++)
        CHECK_ERR("add", add(s, 7, 100, 10), MRD_OK);
    REQUIRE(mrd_spool_peek(s, 0, &first));
    CHECK(mrd_spool_done(s, first.id, true));
    for (uint64_t id = 0; mrd_spool_peek(s, id, &last); id = last.id + 1)
        ;
    {
        const uint64_t ids[] = { 0, first.id, last.id + 1, last.id + 1000000000, UINT64_MAX >> 8 };

        for (size_t i = 0; i < MRD_COUNT(ids); i++) {
            CHECK_ERR("read", mrd_spool_read(s, ids[i], &data, NULL), MRD_NOTFOUND);
            CHECK(!mrd_spool_done(s, ids[i], true) && !mrd_spool_done(s, ids[i], false));
            mrd_spool_sent(s, ids[i]);
        }
    }
    CHECK_INT(mrd_spool_held(s, 7, NULL), 2);
    mrd_buf_fini(&data);
    mrd_spool_close(s);
}

TEST(two_agents_do_not_share_a_folder)
{
    mrd_spool *s = open_spool(test_tmp(), MRD_SPOOL_MIN_BYTES), *other;
    mrd_why why = { 0 };

    CHECK_ERR(
        "busy",
        mrd_spool_open(&(mrd_spool_options){ .dir = test_tmp(), .max_bytes = MRD_SPOOL_MIN_BYTES },
                       &other, &why),
        MRD_BUSY);
    CHECK(strstr(why.text, "another agent") != NULL);
    CHECK_ERR("small", mrd_spool_open(&(mrd_spool_options){ .max_bytes = 1000 }, &other, &why),
              MRD_INVALID);
    mrd_spool_close(s);
}

/* The last writes of another boot may be missing in the page cache, so its numbers are not
 * reused. */
static unsigned
mode_of(const char *path)
{
    struct stat st;

    CHECK(stat(path, &st) == 0);
    return (unsigned) st.st_mode & 07777;
}

TEST(a_new_folder_is_closed_to_others)
{
    char dir[512], other[600];

    snprintf(dir, sizeof(dir), "%s/made", test_tmp());
    snprintf(other, sizeof(other), "%s/other", dir);
    CHECK(mkdir(dir, 0777) == 0 && chmod(dir, 0755) == 0);
    mrd_spool_close(open_spool(dir, MRD_SPOOL_MIN_BYTES));
    CHECK_INT(mode_of(dir), 0700);
    /* Later changes by its owner are kept. A directory that contains more than a spool is not
     * changed either. */
    CHECK(chmod(dir, 0750) == 0);
    mrd_spool_close(open_spool(dir, MRD_SPOOL_MIN_BYTES));
    CHECK_INT(mode_of(dir), 0750);
    CHECK(mkdir(other, 0777) == 0 && chmod(other, 01777) == 0);
    mrd_spool_close(open_spool(other, MRD_SPOOL_MIN_BYTES));
    CHECK_INT(mode_of(other), 01777);
}

TEST(another_boot_begins_another_epoch)
{
    static const char *const boots[] = { "a", "a", "b", NULL, "b" };
    static const bool same[] = { false, true, false, true, true };
    uint64_t epoch = 0;

    for (size_t i = 0; i < MRD_COUNT(boots); i++) {
        mrd_spool_options o = { .dir = test_tmp(),
                                .max_bytes = MRD_SPOOL_MIN_BYTES,
                                .boot_id = boots[i] };
        mrd_spool *s = NULL;

        CHECK_ERR("open", mrd_spool_open(&o, &s, NULL), MRD_OK);
        CHECK_ROW("the same epoch", (mrd_spool_epoch(s) == epoch) == same[i]);
        epoch = mrd_spool_epoch(s);
        mrd_spool_close(s);
    }
}

TEST(the_oldest_are_forced_out_and_counted)
{
    mrd_spool *s = open_spool(NULL, MRD_SPOOL_MIN_BYTES);
    mrd_spool_stats st;
    mrd_spool_item item;

    for (int i = 0; i < 1000; i++)
        CHECK_ERR("add", add(s, 1, 65536, 100), MRD_OK);
    mrd_spool_get_stats(s, &st);
    CHECK(st.file_bytes <= MRD_SPOOL_MIN_BYTES + 65536);
    CHECK_INT(st.events + lost_events, 100000);
    CHECK_INT(st.items + lost_frames, 1000);
    CHECK(lost_frames > 800);
    CHECK(mrd_spool_peek(s, 0, &item) && item.seq == lost_frames && whole(s, &item));
    mrd_spool_close(s);
}

TEST(a_full_disk_forces_out_the_oldest)
{
    char dir[512];
    mrd_spool_stats st;
    mrd_spool_item item;
    mrd_spool *s;
    int failed = 0;

    snprintf(dir, sizeof(dir), "%s/small", test_tmp());
    CHECK_ERR("dir", mrd_make_dirs(dir, NULL), MRD_OK);
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", dir, "tmpfs", 0, "size=4m") != 0)
        SKIP("no file system can be mounted here");
    s = open_spool(dir, 16 << 20);
    for (int i = 0; i < 300; i++)
        failed += add(s, 1, 65536, 100) != MRD_OK;
    mrd_spool_get_stats(s, &st);
    CHECK_INT(failed, 0);
    CHECK(lost_frames > 200);
    CHECK_INT(st.items + lost_frames, 300);
    CHECK(mrd_spool_peek(s, 0, &item) && item.seq == lost_frames && whole(s, &item));
    mrd_spool_close(s);
}

static size_t
files_in(const char *dir)
{
    DIR *d = opendir(dir);
    size_t n = 0;

    while (d != NULL && readdir(d) != NULL)
        n++;
    if (d != NULL)
        closedir(d);
    return n;
}

/* There is no space for a new segment. The error names the reason, and the existing data stays
 * unchanged. */
TEST(a_disk_that_is_full_at_the_start)
{
    char dir[512], path[600];
    uint8_t block[65536] = { 1 };
    mrd_spool *s;
    mrd_why why = { 0 };
    uint64_t epoch;
    size_t files;
    FILE *f;

    snprintf(dir, sizeof(dir), "%s/tiny", test_tmp());
    CHECK_ERR("dir", mrd_make_dirs(dir, NULL), MRD_OK);
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", dir, "tmpfs", 0, "size=1m") != 0)
        SKIP("no file system can be mounted here");
    s = open_spool(dir, 16 << 20);
    CHECK_ERR("add", add(s, 1, 1000, 5), MRD_OK);
    epoch = mrd_spool_epoch(s);
    mrd_spool_close(s);
    snprintf(path, sizeof(path), "%s/filler", dir);
    REQUIRE((f = fopen(path, "w")) != NULL);
    while (fwrite(block, 1, sizeof(block), f) == sizeof(block) && fflush(f) == 0)
        continue;
    fclose(f);
    files = files_in(dir);
    CHECK_ERR("full",
              mrd_spool_open(&(mrd_spool_options){ .dir = dir, .max_bytes = 16 << 20 }, &s, &why),
              MRD_FULL);
    CHECK(strstr(why.text, dir) != NULL);
    CHECK_INT(files_in(dir), files);
    unlink(path);
    s = open_spool(dir, 16 << 20);
    CHECK(mrd_spool_epoch(s) == epoch);
    CHECK_INT(mrd_spool_next_seq(s, 1), 1);
    CHECK_INT(mrd_spool_held(s, 1, NULL), 1);
    mrd_spool_close(s);
}

/* Frames of an earlier boot stay unchanged, and new frames have other numbers. */
TEST(frames_of_another_boot_stay)
{
    static const char *const boots[] = { "a", "b", "b" };
    mrd_spool_item item;
    uint64_t first = 0;

    for (uint64_t life = 0; life < 3; life++) {
        mrd_spool_options o = { .dir = test_tmp(),
                                .max_bytes = MRD_SPOOL_MIN_BYTES,
                                .boot_id = boots[life] };
        mrd_spool *s = NULL;

        CHECK_ERR("open", mrd_spool_open(&o, &s, NULL), MRD_OK);
        first = life == 0 ? mrd_spool_epoch(s) : first;
        CHECK_INT(mrd_spool_next_seq(s, 1), life == 2);
        CHECK_INT(mrd_spool_held(s, 1, NULL), life);
        CHECK(life == 0 || (mrd_spool_peek(s, 0, &item) && item.epoch == first && whole(s, &item)));
        if (life < 2)
            CHECK_ERR("add", add(s, 1, 1000, 5), MRD_OK);
        mrd_spool_close(s);
    }
}

/* A program that the agent starts inherits no descriptor of the spool. A link with the name of a
 * spool file is not followed. */
TEST(files_are_its_own)
{
    static const char *const names[] = { "lock", "counts", "spool-0000000000000001.mrs" };
    char dir[300], path[512], target[512], link_path[64];
    mrd_spool *s;
    int found = 0;

    snprintf(dir, sizeof(dir), "%s/own", test_tmp());
    s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
    CHECK_ERR("add", add(s, 1, 1000, 5), MRD_OK);
    mrd_spool_close(s);
    s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
    for (int fd = 3; fd < 64; fd++) {
        ssize_t n;

        snprintf(link_path, sizeof(link_path), "/proc/self/fd/%d", fd);
        n = readlink(link_path, path, sizeof(path) - 1);
        path[n < 0 ? 0 : n] = '\0';
        if (strncmp(path, dir, strlen(dir)) != 0)
            continue;
        found++;
        CHECK_ROW(path, (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    }
    CHECK_INT(found, 4); /* lock, counts, and a segment of each run */
    mrd_spool_close(s);
    for (size_t i = 0; i < MRD_COUNT(names); i++) {
        mrd_why why = { 0 };
        struct stat st;
        mrd_err err;

        snprintf(dir, sizeof(dir), "%s/link%zu", test_tmp(), i);
        CHECK_ERR("dirs", mrd_make_dirs(dir, NULL), MRD_OK);
        snprintf(target, sizeof(target), "%s/elsewhere%zu", test_tmp(), i);
        CHECK_ERR("write",
                  mrd_write_file(target, (mrd_bytes){ (const uint8_t *) "mine", 4 }, 0600, NULL),
                  MRD_OK);
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        CHECK(symlink(target, path) == 0);
        err = mrd_spool_open(&(mrd_spool_options){ .dir = dir, .max_bytes = MRD_SPOOL_MIN_BYTES },
                             &s, &why);
        CHECK_ROW(names[i], err == (i == 1 ? MRD_OK : MRD_IO)); /* the spool works without counts */
        if (err == MRD_OK) {
            CHECK_ERR("add", add(s, 1, 10, 5), MRD_OK);
            mrd_spool_close(s);
        }
        CHECK(stat(target, &st) == 0 && st.st_size == 4);
    }
}

/* A commit writes its positions and new notes only. */
TEST(a_note_is_written_once)
{
    mrd_spool *s = open_spool(test_tmp(), MRD_SPOOL_MIN_BYTES);
    uint64_t before;
    mrd_spool_stats st;

    CHECK_ERR("note", mrd_spool_note(s, 1, "counts", 6), MRD_OK);
    for (int i = 0; i < 3; i++) {
        mrd_spool_get_stats(s, &st);
        before = st.file_bytes;
        CHECK_ERR("commit", mrd_spool_commit(s, &(mrd_spool_position){ 1, 2 }, 1, NULL), MRD_OK);
        mrd_spool_get_stats(s, &st);
        CHECK_INT(st.file_bytes - before, 16 + 8 + 16 + (i == 0 ? 16 + 6 : 0));
        CHECK(!mrd_spool_uncommitted(s));
    }
    CHECK_ERR("long", mrd_spool_note(s, 1, "", MRD_SPOOL_NOTE + 1), MRD_LIMIT);
    CHECK_ERR("positions", mrd_spool_commit(s, NULL, MRD_SPOOL_POSITIONS + 1, NULL), MRD_LIMIT);
    mrd_spool_close(s);
}

/* Commits need space like frames. An agent that only commits positions and notes forever stays
 * within the limit, and a successor finds the last ones. */
TEST(commits_without_frames_stay_within_the_bound)
{
    enum { RINGS = 1000, COMMITS = 1200 }; /* 16 kB each, more than twice the limit */
    static mrd_spool_position positions[RINGS];
    char dir[600];
    mrd_spool *s;
    mrd_spool_stats st;

    snprintf(dir, sizeof(dir), "%s/commits", test_tmp());
    s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
    REQUIRE(s != NULL);
    for (uint64_t i = 1; i <= COMMITS; i++) {
        for (uint64_t k = 0; k < RINGS; k++)
            positions[k] = (mrd_spool_position){ k + 1, i * 32 };
        CHECK_ERR("note", mrd_spool_note(s, 7, &i, sizeof(i)), MRD_OK);
        CHECK_ERR("commit", mrd_spool_commit(s, positions, RINGS, NULL), MRD_OK);
        mrd_spool_get_stats(s, &st);
        CHECK(st.file_bytes <= MRD_SPOOL_MIN_BYTES);
    }
    mrd_spool_close(s);
    s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
    REQUIRE(s != NULL);
    CHECK_INT(mrd_spool_resume(s, RINGS), COMMITS * 32);
    mrd_spool_close(s);
}

/* Files are ignored if their names only resemble a segment's. */
TEST(other_names_are_left_alone)
{
    static const char *const names[] = { "spool-.mrs", "spool-000000000000000g.mrs",
                                         "spool-00000000000000001.mrs", "spool-1.mrs",
                                         "spool-0000000000000001.mrs~" };
    char dir[300], path[400];
    mrd_spool *s;
    mrd_spool_stats st;

    snprintf(dir, sizeof(dir), "%s/names", test_tmp());
    s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
    CHECK_ERR("add", add(s, 1, 1000, 5), MRD_OK);
    mrd_spool_close(s);
    for (size_t i = 0; i < MRD_COUNT(names); i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        CHECK_ERR("write",
                  mrd_write_file(path, (mrd_bytes){ (const uint8_t *) "mine", 4 }, 0600, NULL),
                  MRD_OK);
    }
    s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
    mrd_spool_get_stats(s, &st);
    CHECK_INT(st.torn_bytes, 0);
    CHECK_INT(st.items, 1);
    mrd_spool_close(s);
    for (size_t i = 0; i < MRD_COUNT(names); i++) {
        struct stat info;

        snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        CHECK_ROW(path, stat(path, &info) == 0 && info.st_size == 4);
    }
}

/* A frame that is too large is not written at all, whatever its header contains. */
TEST(a_frame_that_is_too_large_is_refused)
{
    mrd_spool *s = open_spool(NULL, MRD_SPOOL_MIN_BYTES);
    uint8_t *frame = calloc(1, MRD_FRAME_MAX + 1);
    mrd_frame f = { .type = MRD_FRAME_CLOCK_DATA, .session = 7 };
    mrd_why why = { 0 };

    REQUIRE(s != NULL && frame != NULL);
    f.epoch = mrd_spool_epoch(s);
    f.seq = mrd_spool_next_seq(s, 7);
    mrd_frame_put(&f, (mrd_bytes){ frame + MRD_FRAME_HEADER, 100 }, frame);
    CHECK_ERR("add", mrd_spool_add(s, (mrd_bytes){ frame, MRD_FRAME_MAX + 1 }, 1, &why), MRD_LIMIT);
    CHECK(strstr(why.text, "4194305 bytes") != NULL);
    CHECK_INT(mrd_spool_next_seq(s, 7), f.seq);
    mrd_spool_close(s);
    free(frame);
}

TEST(wrong_numbers_are_refused)
{
    mrd_spool *s = open_spool(NULL, MRD_SPOOL_MIN_BYTES);
    mrd_frame f = {
        .type = MRD_FRAME_CLOCK_DATA, .epoch = mrd_spool_epoch(s), .session = 1, .seq = 5
    };
    uint8_t frame[MRD_FRAME_HEADER];

    mrd_frame_put(&f, (mrd_bytes){ NULL, 0 }, frame);
    CHECK_ERR("gap", mrd_spool_add(s, (mrd_bytes){ frame, sizeof(frame) }, 0, NULL), MRD_STATE);
    CHECK_ERR("junk", mrd_spool_add(s, (mrd_bytes){ (const uint8_t *) "x", 1 }, 0, NULL),
              MRD_TRUNCATED);
    mrd_spool_close(s);
}

/* Forgotten sessions need little space, and their number is limited. */
TEST(forgotten_sessions_are_bounded_and_keep_their_numbers)
{
    enum { N = 1000 };
    char dir[600];
    mrd_spool *s = NULL;
    mrd_spool_stats st;
    uint8_t note[1000] = { 1 };

    snprintf(dir, sizeof(dir), "%s/forgotten", test_tmp());
    for (int run = 0; run < 2; run++) {
        CHECK_ERR(
            "open",
            mrd_spool_open(&(mrd_spool_options){ .dir = dir, .max_bytes = MRD_SPOOL_MIN_BYTES }, &s,
                           NULL),
            MRD_OK);
        mrd_spool_get_stats(s, &st);
        /* The files are one full segment, and one that begins with a record of each session. */
        CHECK(st.file_bytes < 640 << 10);
        for (uint64_t k = 1; k <= N && run == 0; k++) {
            mrd_spool_item item;

            CHECK_ERR("note", mrd_spool_note(s, k, note, sizeof(note)), MRD_OK);
            CHECK_ERR("add", add(s, k, 100, 3), MRD_OK);
            CHECK_ERR("add", add(s, k, 100, 3), MRD_OK);
            while (k != N && mrd_spool_peek(s, 0, &item))
                CHECK(mrd_spool_done(s, item.id, true));
            mrd_spool_forget(s, k);
        }
        CHECK_INT(mrd_spool_next_seq(s, N), 2);
        CHECK_INT(mrd_spool_next_seq(s, N - MRD_SPOOL_FORGOTTEN / 2), 2);
        CHECK_INT(mrd_spool_next_seq(s, 1), 0);
        CHECK_INT(mrd_spool_held(s, N, NULL), 2);
        mrd_spool_close(s);
    }
}

/* A forgotten session with a pending frame is kept. Those without frames are removed, the longest
 * forgotten first. Among the kept sessions, only the most recently forgotten keep their notes. */
TEST(a_frame_keeps_a_forgotten_session)
{
    enum { N = 2 * MRD_SPOOL_FORGOTTEN, HELD = 5000 };
    mrd_spool *s = open_spool(test_tmp(), MRD_SPOOL_MIN_BYTES);
    mrd_spool_tally t;
    mrd_spool_item item;
    uint64_t first = 0, saved = 0;

    CHECK_ERR("add", add(s, HELD, 100, 3), MRD_OK);
    mrd_spool_forget(s, HELD);
    CHECK(mrd_spool_peek(s, 0, &item));
    for (uint64_t k = 1; k <= N; k++) {
        CHECK_ERR("note", mrd_spool_note(s, k, "counts", 6), MRD_OK);
        CHECK_ERR("add", add(s, k, 100, 3), MRD_OK);
        CHECK(mrd_spool_done(s, item.id + k, true));
        mrd_spool_forget(s, k);
    }
    CHECK_INT(mrd_spool_next_seq(s, HELD), 1);
    CHECK_INT(mrd_spool_held(s, HELD, NULL), 1);
    for (uint64_t k = 1; k <= N; k++) {
        mrd_spool_get_tally(s, k, &t);
        CHECK(mrd_spool_next_seq(s, k) == (first != 0));
        if (first == 0 && mrd_spool_next_seq(s, k + 1) == 1)
            first = k + 1;
        saved += t.note_len == 6;
        CHECK(t.note_len == 0 || k > N - 32);
    }
    CHECK_INT(N + 1 - first, MRD_SPOOL_FORGOTTEN);
    CHECK_INT(saved, 16);
    mrd_spool_close(s);
}

TEST_MAIN()
