/* Tests a spool (agent/spool/spool.h) with cut, damaged or removed files. The missing events must
 * be counted, with their times. */
#include "tests/agent/spool_make.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "base/sys/file.h"
#include "base/sys/out.h"
#include "tests/trace/events.h"

static bool segments_refuse;

ssize_t
pwritev(int fd, const struct iovec *iov, int n, off_t at)
{
    if (!segments_refuse)
        return syscall(SYS_pwritev, fd, iov, n, at, 0);
    errno = EIO;
    return -1;
}

/* Cuts the newest segment at every byte, and changes one byte at every position. */
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
        /* The state record has 16 + 48 bytes, a frame 16 + 8 + 96 + 200, its commit 16 + 8 + 16. */
        expect = at < 64 ? 0 : (at - 64) / 360;
        CHECK_INT(mrd_spool_resume(s, 9), expect * 32);
        CHECK_INT(n, expect);
        /* Sequence numbers that may have been used and are lost are not reused. */
        torn = !cut || (at > 0 && (at < 64 || ((at - 64) % 360 != 0 && (at - 64) % 360 != 320)));
        CHECK_INT(mrd_spool_next_seq(s, 3), torn ? 0 : n);
        CHECK((mrd_spool_epoch(s) == epoch) == (!torn && at > 0));
        CHECK_ERR("goes on", add(s, 3, 10, 1), MRD_OK);
        mrd_spool_close(s);
        if (i % 16 == 0) { /* the torn tail was removed, so the next open finds none */
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

/* Cuts the directory's segments to a part of their length, or removes them all. */
static void
damage(const char *dir, uint64_t *seed, bool all)
{
    char path[1024];
    struct dirent **names = NULL;
    int n = scandir(dir, &names, is_segment, alphasort);

    if (all)
        remove_segments(dir);
    for (int i = 0; i < n; i++) {
        struct stat st;

        snprintf(path, sizeof(path), "%s/%s", dir, names[i]->d_name);
        if (stat(path, &st) == 0)
            CHECK(truncate(path, (off_t) (test_rand(seed) % (uint64_t) st.st_size)) == 0);
        free(names[i]);
    }
    free(names);
}

enum { CUT_SESSIONS = 5, CUT_FRAMES = 100 };

/* Counts the events of committed, unanswered frames in the directory's segments. The records are
 * parsed as documented: magic, kind, length, checksum, payload. */
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

/* The spool has frames of several sessions, some of them answered out of order. Then the segments
 * are cut at a random byte or removed. Each committed frame must count as delivered, be still in
 * the queue, or count as damaged. Answered frames are never sent again. */
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

/* Adds `frames` frames of 10 events. A full disk prevents the record of the answer to the first
 * one. */
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

/* Without space for answer records, the counts have the answers of 64 numbers from the oldest
 * pending one. Later frames are sent again, and are not counted before that. */
TEST(answers_that_nothing_tells_are_not_counted)
{
    char dir[600], segment[640];
    struct rlimit limit, small;
    uint64_t held = 0, delivered = 0;
    mrd_spool_tally t;
    mrd_spool_item item;
    struct stat st;
    mrd_spool *s;

    snprintf(dir, sizeof(dir), "%s/unreported", test_tmp());
    snprintf(segment, sizeof(segment), "%s/spool-0000000000000001.mrs", dir);
    s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
    for (int i = 0; i < 100; i++)
        CHECK_ERR("add", add(s, 7, 100, 10), MRD_OK);
    REQUIRE(mrd_spool_peek(s, 0, &item) && stat(segment, &st) == 0);
    CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0 && signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    small = (struct rlimit){ (rlim_t) st.st_size, limit.rlim_max };
    CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
    for (; mrd_spool_peek(s, item.id + 1, &item) && item.seq < 80; delivered += 10)
        CHECK(mrd_spool_done(s, item.id, item.seq % 2 == 0));
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    mrd_spool_get_tally(s, 7, &t);
    CHECK_INT(t.delivered + t.refused, delivered);
    mrd_spool_close(s);
    s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
    mrd_spool_get_tally(s, 7, &t);
    (void) mrd_spool_held(s, 7, &held);
    CHECK(held > 210 && t.delivered > 0 && t.refused > 0);
    CHECK_INT(t.delivered + t.refused + held, 1000);
    mrd_spool_close(s);
}

/* Returns the path of the newest segment. */
static const char *
last_segment(const char *dir)
{
    static char path[700];
    char best[300] = "";
    DIR *d = opendir(dir);

    for (const struct dirent *e; d != NULL && (e = readdir(d)) != NULL;)
        if (strncmp(e->d_name, "spool-", 6) == 0 && strcmp(e->d_name, best) > 0)
            snprintf(best, sizeof(best), "%s", e->d_name);
    if (d != NULL)
        closedir(d);
    snprintf(path, sizeof(path), "%s/%s", dir, best);
    return path;
}

/* A frame in flight is forced out, so the segments count it as lost. Then its answer arrives, but
 * the segments have no space for the record. The counts have the answer, and a successor counts the
 * frame once. */
TEST(an_answer_of_what_was_forced_out_counts_once_without_room)
{
    /* stored, refused, and stored before a new segment */
    for (unsigned kind = 0; kind < 3; kind++) {
        char dir[600];
        struct rlimit limit, small;
        uint64_t held = 0, added = 0;
        mrd_spool_tally t;
        mrd_spool_item item;
        struct stat st;
        mrd_spool *s;

        snprintf(dir, sizeof(dir), "%s/taken-back-%u", test_tmp(), kind);
        s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
        CHECK_ERR("add", add(s, 7, 60000, 10), MRD_OK);
        CHECK_ERR("commit", mrd_spool_commit(s, NULL, 0, NULL), MRD_OK);
        REQUIRE(mrd_spool_peek(s, 0, &item));
        mrd_spool_sent(s, item.id);
        for (added = 10;; added += 10) {
            mrd_spool_get_tally(s, 7, &t);
            if (t.forced > 0)
                break;
            CHECK_ERR("add", add(s, 7, 60000, 10), MRD_OK);
            CHECK_ERR("commit", mrd_spool_commit(s, NULL, 0, NULL), MRD_OK);
        }
        REQUIRE(mrd_spool_peek(s, 0, &item) && item.seq == 0 && stat(last_segment(dir), &st) == 0);
        CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0 && signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
        small = (struct rlimit){ (rlim_t) st.st_size, limit.rlim_max };
        CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
        CHECK(mrd_spool_done(s, item.id, kind != 1));
        CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
        for (unsigned i = 0; kind == 2 && i < 40; i++, added += 10) {
            CHECK_ERR("add", add(s, 7, 60000, 10), MRD_OK);
            CHECK_ERR("commit", mrd_spool_commit(s, NULL, 0, NULL), MRD_OK);
        }
        for (unsigned run = 0; run < 3; run++) {
            mrd_spool_get_tally(s, 7, &t);
            (void) mrd_spool_held(s, 7, &held);
            CHECK_INT(t.delivered + t.refused, 10);
            CHECK_INT(t.delivered + t.refused + t.forced + t.damaged + held, added);
            mrd_spool_close(s); /* as if it was killed */
            s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
        }
        mrd_spool_close(s);
    }
}

/* A frame in flight is forced out while the segments have no space to record it, so only the counts
 * do. Its answer is recorded when there is space again. It does not subtract a loss that the
 * segments never recorded. */
TEST(what_was_forced_out_without_room_is_taken_back_once)
{
    uint64_t held = 0, added = 10;
    mrd_spool_tally t = { 0 };
    mrd_spool_item item;
    mrd_spool *s;
    char dir[600];

    snprintf(dir, sizeof(dir), "%s/forced-without-room", test_tmp());
    s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
    CHECK_ERR("add", add(s, 7, 60000, 10), MRD_OK);
    CHECK_ERR("commit", mrd_spool_commit(s, NULL, 0, NULL), MRD_OK);
    REQUIRE(mrd_spool_peek(s, 0, &item));
    mrd_spool_sent(s, item.id);
    while (t.forced == 0) {
        segments_refuse = true;
        added += add(s, 7, 60000, 10) == MRD_OK ? 10 : 0;
        segments_refuse = false;
        mrd_spool_get_tally(s, 7, &t);
        if (t.forced == 0) {
            CHECK_ERR("add", add(s, 7, 60000, 10), MRD_OK);
            CHECK_ERR("commit", mrd_spool_commit(s, NULL, 0, NULL), MRD_OK);
            added += 10;
            mrd_spool_get_tally(s, 7, &t);
            REQUIRE(t.forced == 0);
        }
    }
    REQUIRE(mrd_spool_peek(s, 0, &item) && item.seq == 0);
    CHECK(mrd_spool_done(s, item.id, true));
    for (unsigned run = 0; run < 3; run++) {
        mrd_spool_get_tally(s, 7, &t);
        (void) mrd_spool_held(s, 7, &held);
        CHECK_INT(t.delivered, 10);
        CHECK_INT(t.damaged, 0);
        /* correct, although the segment has only the record of the first frame that was forced
         * out */
        CHECK_INT(t.delivered + t.forced + held, added);
        mrd_spool_close(s); /* as if it was killed */
        s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
    }
    mrd_spool_close(s);
}

/* 64 other sessions use all slots of the counts, so the losses of this session are in the segments
 * only. First some frames are forced out and recorded there. Then a segment with one frame in
 * flight is forced out without space for a record. The answer to that frame must not subtract from
 * the first loss, and counts the rest of the second. */
TEST(a_session_without_a_place_loses_no_loss)
{
    enum { PLACES = 64 };
    struct rlimit limit, small;
    mrd_spool_tally t = { 0 }, after;
    mrd_spool_item item;
    uint64_t lost, id = 0;
    struct stat st;
    mrd_spool *s;
    char dir[600];

    snprintf(dir, sizeof(dir), "%s/no-place", test_tmp());
    s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
    for (uint64_t k = 1; k <= PLACES; k++)
        CHECK_ERR("add", add(s, 1000 + k, 10, 1), MRD_OK);
    while (t.forced == 0) { /* for good */
        CHECK_ERR("add", add(s, 7, 60000, 10), MRD_OK);
        mrd_spool_get_tally(s, 7, &t);
    }
    lost = t.forced;
    for (uint64_t from = 0; mrd_spool_peek(s, from, &item); from = item.id + 1)
        if (item.session == 7 && id == 0) {
            mrd_spool_sent(s, item.id);
            id = item.id;
        }
    CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0 && signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    while (t.forced == lost) {
        REQUIRE(stat(last_segment(dir), &st) == 0);
        small = (struct rlimit){ (rlim_t) st.st_size, limit.rlim_max };
        CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
        (void) add(s, 7, 60000, 10);
        CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
        mrd_spool_get_tally(s, 7, &t);
        if (t.forced == lost) {
            CHECK_ERR("add", add(s, 7, 60000, 10), MRD_OK);
            mrd_spool_get_tally(s, 7, &t);
            REQUIRE(t.forced == lost);
        }
    }
    CHECK(mrd_spool_done(s, id, true));
    mrd_spool_close(s); /* as if it was killed */
    s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
    mrd_spool_get_tally(s, 7, &after);
    CHECK_INT(after.delivered, 10);
    CHECK_INT(after.forced, t.forced);
    mrd_spool_close(s);
}

/* The next segment begins with the number of delivered events, so the counts have no more than the
 * segments. The frame still counts as answered. */
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

/* A spool with one answer that only the counts file has, and a copy of that file. */
typedef struct {
    char dir[600], counts[640];
    mrd_buf kept;
    mrd_spool *s;
} old_counts;

static void
keep_counts(old_counts *o, const char *name, int frames)
{
    char segment[640];

    *o = (old_counts){ 0 };
    snprintf(o->dir, sizeof(o->dir), "%s/%s", test_tmp(), name);
    snprintf(o->counts, sizeof(o->counts), "%s/counts", o->dir);
    snprintf(segment, sizeof(segment), "%s/spool-0000000000000001.mrs", o->dir);
    o->s = open_spool(o->dir, MRD_SPOOL_MIN_BYTES);
    lose_an_answer(o->s, segment, frames);
    CHECK_ERR("counts", mrd_file_read(o->counts, 1 << 20, &o->kept, NULL), MRD_OK);
}

/* Imitates a kill before the counts were written: the present spool with the old counts. Checks the
 * result and closes. */
static void
check_with_old_counts(old_counts *o, uint64_t delivered, uint64_t frames, uint64_t events)
{
    mrd_spool_tally t;
    uint64_t held = 0;

    mrd_spool_close(o->s);
    CHECK_ERR("counts",
              mrd_write_file(o->counts, (mrd_bytes){ o->kept.p, o->kept.len }, 0600, NULL), MRD_OK);
    o->s = open_spool(o->dir, MRD_SPOOL_MIN_BYTES);
    mrd_spool_get_tally(o->s, 7, &t);
    CHECK_INT(t.delivered, delivered);
    CHECK_INT(t.damaged, 0);
    CHECK_INT(mrd_spool_held(o->s, 7, &held), frames);
    CHECK_INT(held, events);
    mrd_spool_close(o->s);
    mrd_buf_fini(&o->kept);
}

/* A kill between an answer and its counts, when an earlier answer is in the counts only. */
TEST(answers_of_records_and_of_counts_add_up)
{
    mrd_spool_item item;
    old_counts o;

    keep_counts(&o, "apart", 4);
    CHECK(mrd_spool_peek(o.s, 0, &item) && mrd_spool_done(o.s, item.id, true));
    check_with_old_counts(&o, 20, 2, 20);
}

/* A kill between a commit and its counts, when an answer is not in the segments. The counts answer
 * only frames that they include, and not the new frame. */
TEST(counts_of_before_a_commit_answer_nothing_of_it)
{
    old_counts o;

    keep_counts(&o, "behind", 3);
    CHECK_ERR("add", add(o.s, 7, 100, 5), MRD_OK);
    check_with_old_counts(&o, 10, 3, 25);
}

/* A kill after the oldest frames were counted as forced out and before their segment was removed.
 * They are counted once, including the frame in flight. */
TEST(what_was_forced_out_is_not_found_again)
{
    char dir[600], segment[640], kept[640];
    mrd_spool_tally t;
    mrd_spool_item item;
    uint64_t held = 0, added = 0;
    mrd_spool *s;

    snprintf(dir, sizeof(dir), "%s/forced", test_tmp());
    snprintf(segment, sizeof(segment), "%s/spool-0000000000000001.mrs", dir);
    snprintf(kept, sizeof(kept), "%s/forced.kept", test_tmp());
    s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
    CHECK_ERR("add", add(s, 7, 40000, 10), MRD_OK);
    CHECK(link(segment, kept) == 0 && mrd_spool_peek(s, 0, &item));
    mrd_spool_sent(s, item.id);
    for (added = 10; access(segment, F_OK) == 0 && added < 10000; added += 10)
        CHECK_ERR("add", add(s, 7, 40000, 10), MRD_OK);
    mrd_spool_close(s);
    CHECK(rename(kept, segment) == 0);
    s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
    mrd_spool_get_tally(s, 7, &t);
    (void) mrd_spool_held(s, 7, &held);
    CHECK(t.forced > 10);
    CHECK_INT(t.delivered + t.refused + t.forced + held, added);
    mrd_spool_close(s);
}

/* The agent is killed after it counted the oldest frames as forced out, and before it removed their
 * segment. Here these frames are of an earlier epoch, and the counts do not have their numbers. The
 * next agent must not find the frames again. */
TEST(what_was_forced_out_of_an_earlier_epoch_is_not_found_again)
{
    char dir[600], segment[640], kept[640];
    uint64_t held = 0, added = 0, epoch;
    mrd_spool_tally t;
    struct stat st;
    mrd_spool *s;

    snprintf(dir, sizeof(dir), "%s/forced_epoch", test_tmp());
    snprintf(segment, sizeof(segment), "%s/spool-0000000000000001.mrs", dir);
    snprintf(kept, sizeof(kept), "%s/forced_epoch.kept", test_tmp());
    s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
    epoch = mrd_spool_epoch(s);
    for (; added < 30; added += 10)
        CHECK_ERR("add", add(s, 7, 40000, 10), MRD_OK);
    mrd_spool_close(s);
    REQUIRE(stat(segment, &st) == 0 && truncate(segment, st.st_size + 7) == 0); /* torn */
    s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
    CHECK(mrd_spool_epoch(s) != epoch);
    CHECK(link(segment, kept) == 0);
    for (; access(segment, F_OK) == 0 && added < 10000; added += 10)
        CHECK_ERR("add", add(s, 7, 40000, 10), MRD_OK);
    mrd_spool_close(s);
    CHECK(rename(kept, segment) == 0);
    for (int round = 0; round < 2; round++) {
        s = open_spool(dir, MRD_SPOOL_MIN_BYTES);
        mrd_spool_get_tally(s, 7, &t);
        (void) mrd_spool_held(s, 7, &held);
        CHECK_INT(t.forced, 30);
        CHECK_INT(t.delivered + t.refused + t.forced + held, added);
        mrd_spool_close(s);
    }
}

TEST_MAIN()
