#include "tests/check.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "agent/spool.h"
#include "base/out.h"
#include "tests/trace/events.h"

static uint64_t lost_events, lost_frames;

static void
dropped(void *self, const mrd_spool_item *item)
{
    (void) self;
    lost_events += item->events;
    lost_frames++;
}

static mrd_spool *
open_spool(const char *dir, uint64_t max)
{
    mrd_spool *s = NULL;
    mrd_why why = { 0 };

    CHECK_ERR(
        "open",
        mrd_spool_open(&(mrd_spool_options){ .dir = dir, .max_bytes = max, .dropped = dropped }, &s,
                       &why),
        MRD_OK);
    if (s == NULL)
        fprintf(stderr, "%s\n", why.text);
    return s;
}

/* Adds a frame of `len` body bytes and `events` events to a session. */
static mrd_err
add(mrd_spool *s, uint64_t session, size_t len, uint64_t events)
{
    mrd_frame f = { .type = MRD_FRAME_CLOCK_DATA,
                    .agent = 1,
                    .epoch = mrd_spool_epoch(s),
                    .session = session,
                    .seq = mrd_spool_next_seq(s, session) };
    uint8_t *frame = malloc(MRD_FRAME_HEADER + len);
    mrd_err err;

    memset(frame + MRD_FRAME_HEADER, (int) (f.seq & 255), len);
    mrd_frame_put(&f, (mrd_bytes){ frame + MRD_FRAME_HEADER, len }, frame);
    err = mrd_spool_add(s, (mrd_bytes){ frame, MRD_FRAME_HEADER + len }, events, NULL);
    free(frame);
    return err != MRD_OK
               ? err
               : mrd_spool_commit(s, &(mrd_spool_position){ 9, f.seq * 32 + 32 }, 1, NULL);
}

static bool
whole(mrd_spool *s, const mrd_spool_item *item)
{
    mrd_buf data = { 0 };
    mrd_frame f;
    mrd_bytes body;
    bool ok = mrd_spool_read(s, item->id, &data, NULL) == MRD_OK &&
              mrd_frame_check((mrd_bytes){ data.p, data.len }, &f, &body, NULL) == MRD_OK &&
              f.seq == item->seq && f.session == item->session &&
              (body.len == 0 || body.p[body.len - 1] == (f.seq & 255));

    mrd_buf_fini(&data);
    return ok;
}

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
    /* Everything acknowledged: numbers must still not be used twice. */
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

/* What became of a session's events is known to every successor, exactly. */
TEST(tallies_go_on)
{
    mrd_spool *s = open_spool(test_tmp(), MRD_SPOOL_MIN_BYTES);
    uint64_t delivered = 0, refused = 0, added = 0, forced = 0, before, held;
    mrd_spool_item item;
    mrd_frame f = { .type = MRD_FRAME_CLOCK_DATA, .session = 7 };
    uint8_t frame[MRD_FRAME_HEADER];

    check_tally("nothing yet", s, 0, 0, "");
    for (int life = 0; life < 40; life++) {
        for (int i = 0; i < 20; i++, added += 10)
            CHECK_ERR("add", add(s, 7, 65536, 10), MRD_OK);
        for (int i = 0; i < 7 && mrd_spool_peek(s, 0, &item); i++) {
            delivered += i % 3 != 0 ? item.events : 0;
            refused += i % 3 == 0 ? item.events : 0;
            CHECK(mrd_spool_done(s, item.id, i % 3 != 0));
        }
        CHECK_ERR("note", mrd_spool_note(s, 7, life % 2 == 0 ? "even" : "odd", life % 2 ? 3 : 4),
                  MRD_OK);
        CHECK(mrd_spool_uncommitted(s));
        CHECK_ERR("commit", mrd_spool_commit(s, NULL, 0, NULL), MRD_OK);
        /* Neither counts: they are not committed. */
        f.epoch = mrd_spool_epoch(s);
        f.seq = mrd_spool_next_seq(s, 7);
        mrd_frame_put(&f, (mrd_bytes){ NULL, 0 }, frame);
        CHECK_ERR("open", mrd_spool_add(s, (mrd_bytes){ frame, sizeof(frame) }, 1, NULL), MRD_OK);
        CHECK_ERR("note", mrd_spool_note(s, 7, "never", 5), MRD_OK);
        CHECK_INT(check_tally("now", s, delivered, refused, life % 2 == 0 ? "even" : "odd"),
                  forced + lost_events);
        CHECK_INT(mrd_spool_clock_lost(s, 7) * 10, refused + forced + lost_events);
        before = mrd_spool_held(s, 7, NULL);
        mrd_spool_close(s);
        lost_events = 0;
        s = open_spool(test_tmp(), MRD_SPOOL_MIN_BYTES);
        forced = check_tally("again", s, delivered, refused, life % 2 == 0 ? "even" : "odd");
        CHECK_INT(mrd_spool_clock_lost(s, 7) * 10, refused + forced);
        CHECK_INT(mrd_spool_next_seq(s, 7), f.seq);
        /* What was kept in memory only, at most a window of frames, is gone and counted. */
        CHECK(before - 1 - mrd_spool_held(s, 7, &held) <= 16);
        CHECK_INT(held + delivered + refused + forced, added);
    }
    CHECK(forced > 0 && refused > 0);
    mrd_spool_close(s);
}

/* Nobody knows whether it is stored before its answer. */
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

/* What another boot wrote last may be gone from the page cache: its numbers are not given again. */
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

/* Cut at every byte, and one byte wrong at every place, of the newest segment. */
TEST(any_torn_tail_is_survived)
{
    char source[512], copy[512], path[1024];
    uint8_t data[8192], bent[8192];
    mrd_spool *s;
    uint64_t epoch;
    size_t len;
    FILE *f;

    snprintf(source, sizeof(source), "%s/a", test_tmp());
    snprintf(copy, sizeof(copy), "%s/b", test_tmp());
    s = open_spool(source, MRD_SPOOL_MIN_BYTES);
    epoch = mrd_spool_epoch(s);
    for (int i = 0; i < 8; i++)
        CHECK_ERR("add", add(s, 3, 200, 10), MRD_OK);
    mrd_spool_close(s);
    snprintf(path, sizeof(path), "%s/spool-0000000000000001.mrs", source);
    REQUIRE((f = fopen(path, "r")) != NULL);
    len = fread(data, 1, sizeof(data), f);
    fclose(f);
    REQUIRE(len > 2000 && len < sizeof(data));
    for (size_t i = 0; i < 2 * len; i++) {
        bool cut = i < len;
        size_t at = cut ? i : i - len;
        mrd_spool_item item;
        uint64_t n = 0, expect;
        bool torn;

        CHECK_ERR("dirs", mrd_make_dirs(copy, NULL), MRD_OK);
        snprintf(path, sizeof(path), "%s/spool-0000000000000001.mrs", copy);
        memcpy(bent, data, len);
        if (!cut)
            bent[at] ^= 0x40;
        CHECK_ERR("write", mrd_write_file(path, (mrd_bytes){ bent, cut ? at : len }, 0600, NULL),
                  MRD_OK);
        s = open_spool(copy, MRD_SPOOL_MIN_BYTES);
        REQUIRE(s != NULL);
        for (uint64_t from = 0; mrd_spool_peek(s, from, &item); from = item.id + 1) {
            CHECK(item.seq == n && whole(s, &item));
            n++;
        }
        /* The state record is 16 + 48 bytes, a frame's 16 + 8 + 96 + 200, its commit's 16 + 8 + 16.
         */
        expect = at < 64 ? 0 : (at - 64) / 360;
        CHECK_INT(mrd_spool_resume(s, 9), expect * 32);
        CHECK_INT(n, expect);
        /* Numbers that may have been used and are gone are not used again. */
        torn = !cut || (at > 0 && (at < 64 || ((at - 64) % 360 != 0 && (at - 64) % 360 != 320)));
        CHECK_INT(mrd_spool_next_seq(s, 3), torn ? 0 : n);
        CHECK((mrd_spool_epoch(s) == epoch) == (!torn && at > 0));
        CHECK_ERR("goes on", add(s, 3, 10, 1), MRD_OK);
        mrd_spool_close(s);
        snprintf(path, sizeof(path), "%s/spool-0000000000000002.mrs", copy);
        (void) unlink(path);
        snprintf(path, sizeof(path), "%s/spool-0000000000000001.mrs", copy);
        (void) unlink(path);
    }
}

/* A file system that is smaller than the spool may become: the oldest go, the newest stay. */
/* Cuts the folder's youngest segment to a part of its length, or removes all. */
static void
damage(const char *dir, uint64_t *seed, bool all)
{
    char path[1024];
    struct dirent **names = NULL;
    int n = scandir(dir, &names, NULL, alphasort);

    for (int i = 0; i < n; i++) {
        struct stat st;

        snprintf(path, sizeof(path), "%s/%s", dir, names[i]->d_name);
        if (strncmp(names[i]->d_name, "spool-", 6) == 0 && stat(path, &st) == 0) {
            CHECK(all ? unlink(path) == 0
                      : truncate(path, (off_t) (test_rand(seed) % (uint64_t) st.st_size)) == 0);
        }
        free(names[i]);
    }
    free(names);
}

/* Frames of two sessions, some answered out of order, then the segments are cut at any byte or
 * removed: what was committed is delivered, still there, or damaged; answered is never sent again. */
TEST(what_is_cut_off_behind_its_back_is_counted)
{
    for (uint64_t start = 1; start <= 40; start++) {
        uint64_t seed = start, committed[2] = { 0 }, delivered[2] = { 0 };
        char dir[600];
        mrd_spool_item item;
        mrd_spool_stats st;
        mrd_spool *s;

        snprintf(dir, sizeof(dir), "%s/cut%d", test_tmp(), (int) start);
        s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
        for (int i = 0; i < 100; i++) {
            uint64_t session = test_rand(&seed) % 2, events = 1 + test_rand(&seed) % 50;

            CHECK_ERR("add", add(s, 7 + session, 100, events), MRD_OK);
            committed[session] += events;
            for (uint64_t from = 0; mrd_spool_peek(s, from, &item); from = item.id + 1) {
                if (test_rand(&seed) % 8 != 0)
                    continue;
                delivered[item.session - 7] += item.events;
                CHECK(mrd_spool_done(s, item.id, true));
            }
        }
        mrd_spool_close(s);
        damage(dir, &seed, start % 8 == 0);
        for (int round = 0; round < 2; round++) {
            uint64_t sum = 0;

            s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
            for (uint64_t k = 0; k < 2; k++) {
                mrd_spool_tally t;
                uint64_t held;

                mrd_spool_get_tally(s, 7 + k, &t);
                (void) mrd_spool_held(s, 7 + k, &held);
                CHECK_INT(t.delivered, delivered[k]);
                CHECK_INT(t.delivered + t.damaged + held, committed[k]);
                sum += t.damaged;
            }
            mrd_spool_get_stats(s, &st);
            CHECK_INT(st.damaged_events, round == 0 ? sum : 0);
            CHECK(start % 8 != 0 ||
                  sum == committed[0] + committed[1] - delivered[0] - delivered[1]);
            mrd_spool_close(s);
        }
    }
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

/* Forgotten sessions cost little, and only so many are remembered. */
TEST(forgotten_sessions_are_bounded_and_keep_their_numbers)
{
    enum { N = 1000 };
    char dir[600];
    mrd_spool *s = NULL;
    mrd_spool_stats st;
    uint8_t note[1000] = { 1 };

    snprintf(dir, sizeof(dir), "%s/forgotten", test_tmp());
    for (int life = 0; life < 2; life++) {
        CHECK_ERR(
            "open",
            mrd_spool_open(&(mrd_spool_options){ .dir = dir, .max_bytes = MRD_SPOOL_MIN_BYTES }, &s,
                           NULL),
            MRD_OK);
        mrd_spool_get_stats(s, &st);
        CHECK(st.file_bytes < 640 << 10); /* a full segment, and one that begins with all of them */
        for (uint64_t k = 1; k <= N && life == 0; k++) {
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

TEST_MAIN()
