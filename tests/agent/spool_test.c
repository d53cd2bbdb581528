#include "tests/check.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "agent/spool.h"
#include "base/file.h"
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
        /* Neither counts: they are not committed. */
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
        if (i % 16 == 0) { /* the tail is gone for good: the next one finds nothing torn */
            mrd_spool_stats st;
            uint64_t now;

            s = open_spool(copy, MRD_SPOOL_MIN_BYTES);
            mrd_spool_get_stats(s, &st);
            now = mrd_spool_epoch(s);
            CHECK_INT(st.torn_bytes, 0);
            CHECK_INT(st.items, n + 1);
            CHECK_INT(mrd_spool_next_seq(s, 3), (torn ? 0 : n) + 1);
            mrd_spool_close(s);
            s = open_spool(copy, MRD_SPOOL_MIN_BYTES);
            CHECK(mrd_spool_epoch(s) == now);
            mrd_spool_close(s);
            snprintf(path, sizeof(path), "%s/spool-0000000000000004.mrs", copy);
            (void) unlink(path);
            snprintf(path, sizeof(path), "%s/spool-0000000000000003.mrs", copy);
            (void) unlink(path);
        }
        snprintf(path, sizeof(path), "%s/spool-0000000000000002.mrs", copy);
        (void) unlink(path);
        snprintf(path, sizeof(path), "%s/spool-0000000000000001.mrs", copy);
        (void) unlink(path);
    }
}

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

enum { CUT_SESSIONS = 5, CUT_FRAMES = 100 };

/* Events of the frames that the folder's segments still hold, a commit behind them, and that were
 * not answered; as docs have the records: magic, kind, length, checksum, payload. */
static void
left_in(const char *dir, bool answered[CUT_SESSIONS][CUT_FRAMES], uint64_t left[CUT_SESSIONS])
{
    struct dirent **names = NULL;
    int n = scandir(dir, &names, NULL, alphasort);
    uint64_t open_events[CUT_SESSIONS] = { 0 };
    static uint8_t data[1 << 18];

    memset(left, 0, CUT_SESSIONS * sizeof(*left));
    for (int i = 0; i < n; i++) {
        char path[1024];
        uint32_t head[4];
        size_t len = 0;
        FILE *f;

        snprintf(path, sizeof(path), "%s/%s", dir, names[i]->d_name);
        if (strncmp(names[i]->d_name, "spool-", 6) == 0 && (f = fopen(path, "r")) != NULL) {
            len = fread(data, 1, sizeof(data), f);
            fclose(f);
        }
        free(names[i]);
        for (size_t at = 0; at + 16 <= len; at += 16 + head[2]) {
            const uint8_t *p = data + at + 16;
            uint64_t events;
            mrd_frame frame;

            memcpy(head, data + at, 16);
            if (at + 16 + head[2] > len)
                break;
            if (head[1] == 4) {
                for (int k = 0; k < CUT_SESSIONS; k++)
                    left[k] += open_events[k];
                memset(open_events, 0, sizeof(open_events));
            }
            if (head[1] != 1 ||
                mrd_frame_get((mrd_bytes){ p + 8, head[2] - 8 }, &frame, NULL) != MRD_OK)
                continue;
            memcpy(&events, p, 8);
            if (!answered[frame.session - 7][frame.seq])
                open_events[frame.session - 7] += events;
        }
    }
    free(names);
}

/* Frames of several sessions, some answered out of order, then the segments are cut at any byte or
 * removed: what was committed is delivered, still there, or damaged; answered is never sent again,
 * and what is still there is. */
TEST(what_is_cut_off_behind_its_back_is_counted)
{
    for (uint64_t start = 1; start <= 40; start++) {
        uint64_t seed = start, committed[CUT_SESSIONS] = { 0 }, delivered[CUT_SESSIONS] = { 0 };
        uint64_t left[CUT_SESSIONS], all = 0;
        bool answered[CUT_SESSIONS][CUT_FRAMES] = { { false } };
        char dir[600];
        mrd_spool_item item;
        mrd_spool_stats st;
        mrd_spool *s;

        snprintf(dir, sizeof(dir), "%s/cut%d", test_tmp(), (int) start);
        s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
        for (int i = 0; i < CUT_FRAMES; i++) {
            uint64_t session = test_rand(&seed) % CUT_SESSIONS, events = 1 + test_rand(&seed) % 50;

            CHECK_ERR("add", add(s, 7 + session, 100, events), MRD_OK);
            committed[session] += events;
            for (uint64_t from = 0; mrd_spool_peek(s, from, &item); from = item.id + 1) {
                if (test_rand(&seed) % 8 != 0)
                    continue;
                delivered[item.session - 7] += item.events;
                answered[item.session - 7][item.seq] = true;
                CHECK(mrd_spool_done(s, item.id, true));
            }
        }
        mrd_spool_close(s);
        damage(dir, &seed, start % 8 == 0);
        left_in(dir, answered, left);
        for (int k = 0; k < CUT_SESSIONS; k++)
            all += committed[k] - delivered[k];
        for (int round = 0; round < 2; round++) {
            uint64_t sum = 0;

            s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
            for (uint64_t k = 0; k < CUT_SESSIONS; k++) {
                mrd_spool_tally t;
                uint64_t held;

                mrd_spool_get_tally(s, 7 + k, &t);
                (void) mrd_spool_held(s, 7 + k, &held);
                CHECK_INT(held, left[k]);
                CHECK_INT(t.delivered, delivered[k]);
                CHECK_INT(t.delivered + t.damaged + held, committed[k]);
                sum += t.damaged;
            }
            mrd_spool_get_stats(s, &st);
            CHECK_INT(st.damaged_events, round == 0 ? sum : 0);
            CHECK(start % 8 != 0 || sum == all);
            CHECK_INT(mrd_spool_damage_in(dir), sum);
            mrd_spool_close(s);
        }
    }
}

/* A file system that is smaller than the spool may become: the oldest go, the newest stay. */
/* Adds so many frames of 10 events; a full disk keeps the answer to the first out of the segments. */
static void
lose_an_answer(mrd_spool *s, const char *segment, int frames)
{
    struct rlimit limit, small;
    mrd_spool_item item;
    struct stat st;

    for (int i = 0; i < frames; i++)
        CHECK_ERR("add", add(s, 7, 40000, 10), MRD_OK);
    REQUIRE(mrd_spool_peek(s, 0, &item) && stat(segment, &st) == 0);
    CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0 && signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    small = (struct rlimit){ (rlim_t) st.st_size, limit.rlim_max };
    CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
    CHECK(mrd_spool_done(s, item.id, true));
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

/* The next segment begins with how many events were delivered, so that the counts say no more than the
 * segments; the frame is answered all the same. */
TEST(an_answer_that_only_the_counts_have_counts_once)
{
    char dir[600], segment[640];
    mrd_spool_tally t;
    uint64_t held;
    mrd_spool *s;

    snprintf(dir, sizeof(dir), "%s/once", test_tmp());
    snprintf(segment, sizeof(segment), "%s/spool-0000000000000001.mrs", dir);
    s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
    lose_an_answer(s, segment, 3);
    for (int i = 0; i < 20; i++)
        CHECK_ERR("add", add(s, 7, 40000, 10), MRD_OK);
    mrd_spool_close(s);
    s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
    mrd_spool_get_tally(s, 7, &t);
    CHECK_INT(t.delivered, 10);
    (void) mrd_spool_held(s, 7, &held);
    CHECK_INT(held, 220);
    mrd_spool_close(s);
}

/* A kill between a commit and the counts that go with it, when an answer did not reach the segments: the
 * counts say what was answered of what they know, and nothing of the frame behind. */
TEST(counts_of_before_a_commit_answer_nothing_of_it)
{
    char dir[600], counts[640], segment[640];
    mrd_buf kept = { 0 };
    mrd_spool_tally t;
    uint64_t held;
    mrd_spool *s;

    snprintf(dir, sizeof(dir), "%s/behind", test_tmp());
    snprintf(counts, sizeof(counts), "%s/counts", dir);
    snprintf(segment, sizeof(segment), "%s/spool-0000000000000001.mrs", dir);
    s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
    lose_an_answer(s, segment, 3);
    CHECK_ERR("counts", mrd_file_read(counts, 1 << 20, &kept, NULL), MRD_OK);
    CHECK_ERR("add", add(s, 7, 100, 5), MRD_OK);
    mrd_spool_close(s);
    CHECK_ERR("counts", mrd_write_file(counts, (mrd_bytes){ kept.p, kept.len }, 0600, NULL),
              MRD_OK);
    s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
    mrd_spool_get_tally(s, 7, &t);
    CHECK_INT(t.delivered, 10);
    CHECK_INT(mrd_spool_held(s, 7, &held), 3);
    CHECK_INT(held, 25);
    mrd_spool_close(s);
    mrd_buf_fini(&kept);
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

/* No room for a new segment: the error says so, and what is there stays as it is. */
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

/* Frames of an earlier boot stay as they are; new ones have other numbers. */
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

/* A program that the agent starts inherits none of the spool's files, and a link that somebody laid
 * in their place is not followed. */
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
    CHECK_INT(found, 4); /* lock, counts, a segment of each life */
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
        CHECK_ROW(names[i], err == (i == 1 ? MRD_OK : MRD_IO)); /* it can do without counts */
        if (err == MRD_OK) {
            CHECK_ERR("add", add(s, 1, 10, 5), MRD_OK);
            mrd_spool_close(s);
        }
        CHECK(stat(target, &st) == 0 && st.st_size == 4);
    }
}

/* What a commit writes: its positions, and notes that are new. */
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

/* ---- The counts beside the segments ---- */

static void
remove_segments(const char *dir)
{
    uint64_t seed = 1;

    damage(dir, &seed, true);
}

/* There is a place for 64 sessions. A forgotten one's is free again, and a session that nobody has
 * asked for since the agent began gives its place up only when there is no other. */
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
    CHECK_INT(mrd_spool_damage_in(dir), 3 * 3); /* of the three that were not forgotten */
    for (uint64_t k = MORE - 2; k <= MORE; k++)
        CHECK_INT(mrd_spool_next_seq(s, k), 0); /* of a new epoch: all numbers are gone */
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
            /* The first has a free place; then those of before lose theirs. */
            CHECK_INT(mrd_spool_damage_in(copy), more == 1 ? PLACES - 1 + 100 : PLACES - 3 + 300);
            mrd_spool_close(s);
        }
    }
}

static void
add_timed(mrd_spool *s, uint8_t type, uint8_t clock, uint32_t events, int64_t first, int64_t last)
{
    uint8_t frame[MRD_FRAME_HEADER + 8] = { 0 };
    mrd_frame f = { .type = type,
                    .clock = clock,
                    .epoch = mrd_spool_epoch(s),
                    .session = 7,
                    .seq = mrd_spool_next_seq(s, 7),
                    .first_ns = first,
                    .last_ns = last };

    if (type == MRD_FRAME_BATCH) {
        f.events = events == 0 ? 1 : events;
        f.head_len = f.head_raw = f.cols_raw = 4;
    }
    mrd_frame_put(&f, (mrd_bytes){ frame + MRD_FRAME_HEADER, 8 }, frame);
    CHECK_ERR("add", mrd_spool_add(s, (mrd_bytes){ frame, sizeof(frame) }, events, NULL), MRD_OK);
    CHECK_ERR("commit", mrd_spool_commit(s, NULL, 0, NULL), MRD_OK);
}

/* When the events were that are missing: behind the last that was answered, to the last that was
 * committed, in the clock of the first; what is lost later makes that longer. */
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
        add_timed(s, MRD_FRAME_BATCH, 1, 10, 350, 390); /* ends before the one before */
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
        CHECK_INT(t.damaged_first_ns, firsts[answers == 3 ? 2 : answers]);
        CHECK_INT(t.damaged_last_ns, 600);
        add_timed(s, MRD_FRAME_BATCH, 1, 10, 1000, 1200);
        mrd_spool_close(s);
        remove_segments(dir);
        s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
        mrd_spool_get_tally(s, 7, &t);
        CHECK_INT(t.damaged, 60 - 10 * answers);
        CHECK_INT(t.damaged_first_ns, firsts[answers == 3 ? 2 : answers]);
        CHECK_INT(t.damaged_last_ns, 1200);
        mrd_spool_close(s);
    }
}

/* Files with names that only look like a segment's are not its business. */
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
    for (int run = 0; run < 2; run++) {
        CHECK_ERR(
            "open",
            mrd_spool_open(&(mrd_spool_options){ .dir = dir, .max_bytes = MRD_SPOOL_MIN_BYTES }, &s,
                           NULL),
            MRD_OK);
        mrd_spool_get_stats(s, &st);
        CHECK(st.file_bytes < 640 << 10); /* a full segment, and one that begins with all of them */
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

/* One that has a frame to be delivered stays, forgotten as it is; the longest forgotten without
 * frames go. Of those that stay the notes go, but for the youngest. */
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
