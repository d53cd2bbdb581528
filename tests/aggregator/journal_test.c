#include "tests/check.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "aggregator/journal/journal.h"

/* A process with one track. Its batches have n events that begin at `first` and are `step`
 * apart. */
typedef struct {
    mrd_catalog *cat;
    mrd_proc_id process;
    mrd_track_id track;
    mrd_sid name;
    mrd_codec *codec;
} world;

static world
world_new(void)
{
    world w = { .cat = mrd_catalog_new(), .codec = mrd_codec_new() };
    mrd_process p;
    mrd_track t;

    mrd_process_init(&p);
    p.instance_id = mrd_catalog_intern(w.cat, "i-1");
    p.process_id = 10;
    w.process = mrd_catalog_process(w.cat, &p);
    mrd_track_init(&t, w.process, MRD_SRC_RUNTIME);
    w.track = mrd_catalog_track(w.cat, &t);
    w.name = mrd_catalog_intern(w.cat, "span");
    return w;
}

static void
world_free(world *w)
{
    mrd_catalog_free(w->cat);
    mrd_codec_free(w->codec);
}

/* Makes a frame of spans at times[0..n) with duration 1 and ids equal to the times. */
static mrd_buf
make_frame(world *w, uint64_t seq, const int64_t *times, uint32_t n, mrd_frame *ret_frame)
{
    mrd_batch *b = mrd_batch_new(w->cat, w->process, 0, n);
    mrd_frame f = { .agent = 1, .epoch = 2, .session = 3, .seq = seq };
    mrd_buf wire = { 0 };

    for (uint32_t i = 0; i < n; i++) {
        mrd_event ev = { .kind = MRD_SPAN,
                         .ts = { times[i] },
                         .dur_ns = 1,
                         .id = (uint64_t) times[i],
                         .track = w->track,
                         .name = w->name };

        CHECK_ERR("push", mrd_batch_push(b, &ev), MRD_OK);
    }
    CHECK_ERR("encode", mrd_batch_encode(b, w->codec, MRD_CODEC_ZSTD, &f, &wire, NULL), MRD_OK);
    mrd_batch_free(b);
    *ret_frame = f;
    return wire;
}

static mrd_err
append(world *w, mrd_journal *j, uint64_t seq, const int64_t *times, uint32_t n)
{
    mrd_frame f;
    mrd_buf wire = make_frame(w, seq, times, n, &f);
    mrd_why why = { 0 };
    mrd_err err = mrd_journal_append(j, &f, (mrd_bytes){ wire.p, wire.len }, &why);

    mrd_buf_fini(&wire);
    return err;
}

static mrd_journal *
journal(const char *dir)
{
    mrd_journal *j = NULL;
    mrd_why why = { 0 };

    if (mrd_journal_open(dir, MRD_STR("i-1"), 3, &j, &why) != MRD_OK)
        fprintf(stderr, "%s\n", why.text);
    return j;
}

static char *
slurp(const char *path, size_t *ret_len)
{
    FILE *f = fopen(path, "rb");
    char *data = malloc(4 << 20);

    *ret_len = f == NULL ? 0 : fread(data, 1, 4 << 20, f);
    if (f != NULL)
        fclose(f);
    return data;
}

static void
spit(const char *path, const char *data, size_t len)
{
    FILE *f = fopen(path, "wb");

    CHECK(f != NULL && fwrite(data, 1, len, f) == len);
    if (f != NULL)
        fclose(f);
}

TEST(seqset)
{
    mrd_seqset *s = mrd_seqset_new();

    CHECK(!mrd_seqset_has(s, 0) && mrd_seqset_end(s) == 0);
    for (uint64_t i = 0; i < 200; i += 2)
        CHECK_ERR("even", mrd_seqset_add(s, i), MRD_OK);
    CHECK_INT(mrd_seqset_missing(s, 199), 99);
    CHECK(mrd_seqset_has(s, 198) && !mrd_seqset_has(s, 197) && mrd_seqset_end(s) == 199);
    for (uint64_t i = 199; i-- > 0;)
        CHECK_ERR("all", mrd_seqset_add(s, i), MRD_OK);
    CHECK_INT(mrd_seqset_missing(s, 199), 0);
    CHECK_INT(mrd_seqset_missing(s, 205), 6);
    for (uint64_t i = 0; i < 199; i++)
        CHECK(mrd_seqset_has(s, i));
    CHECK(!mrd_seqset_has(s, 199));
    CHECK_ERR("range", mrd_seqset_add(s, UINT64_MAX), MRD_RANGE);
    for (uint64_t i = 0; i < 65535; i++)
        (void) mrd_seqset_add(s, 1000 + 2 * i);
    CHECK_ERR("gaps", mrd_seqset_add(s, 1u << 30), MRD_LIMIT);
    mrd_seqset_free(s);
}

enum { CUT_FRAMES = 4 };

/* A segment of four frames: the contents of its file, and the end of each frame. */
typedef struct {
    char *data;
    size_t len, ends[CUT_FRAMES + 1];
    char copy_dir[300], copy[400]; /* the copy that is scanned */
} segment;

/* Counts the frames that end at or before `at`. */
static size_t
frames_within(const segment *g, size_t at)
{
    size_t n = 0;

    while (n < CUT_FRAMES && g->ends[n + 1] <= at)
        n++;
    return n;
}

static mrd_journal_index
scan_copy(const segment *g, size_t len)
{
    mrd_journal_index x = { 0 };

    spit(g->copy, g->data, len);
    CHECK_ERR("scan", mrd_journal_scan(g->copy_dir, &x, NULL), MRD_OK);
    return x;
}

static void
check_every_cut(const segment *g)
{
    for (size_t cut = 0; cut <= g->len && test_failures == 0; cut++) {
        size_t whole = frames_within(g, cut);
        mrd_journal_index x = scan_copy(g, cut);

        if (x.n != whole)
            fprintf(stderr, "cut at %zu: %zu frames, expected %zu\n", cut, x.n, whole);
        CHECK(x.n == whole);
        CHECK(cut < MRD_SEGMENT_HEADER ? x.bad_files == 1 && x.bad_bytes == cut
                                       : x.bad_bytes == cut - g->ends[whole]);
        mrd_journal_index_fini(&x);
    }
}

static void
check_every_damaged_byte(const segment *g)
{
    for (size_t at = 0; at < g->len && test_failures == 0; at++) {
        size_t hit = frames_within(g, at);
        mrd_journal_index x;

        g->data[at] ^= 0x10;
        x = scan_copy(g, g->len);
        if (at < MRD_SEGMENT_HEADER) {
            CHECK(x.n == 0 && x.bad_files == 1);
        } else {
            CHECK(x.n == CUT_FRAMES - 1 && x.bad_bytes == g->ends[hit + 1] - g->ends[hit]);
            for (size_t i = 0; i < x.n; i++)
                CHECK(x.entries[i].frame.seq == i + (i >= hit));
        }
        g->data[at] ^= 0x10;
        mrd_journal_index_fini(&x);
        if (test_failures > 0)
            fprintf(stderr, "byte %zu\n", at);
    }
}

/* Damages the part of a closed segment after the frames. With the index or by a scan, all frames
 * are found. */
static void
check_damage_behind_the_frames(const segment *g)
{
    for (size_t at = g->ends[CUT_FRAMES]; at <= g->len; at++) {
        mrd_journal_index x = scan_copy(g, at);

        CHECK(x.n == CUT_FRAMES);
        mrd_journal_index_fini(&x);
        if (at == g->len)
            break;
        g->data[at] ^= 1;
        x = scan_copy(g, g->len);
        CHECK(x.n == CUT_FRAMES);
        mrd_journal_index_fini(&x);
        g->data[at] ^= 1;
    }
}

/* Every prefix and every single damaged byte, of an unfinished segment and of a closed one. Exactly
 * the complete frames are found, each once. */
TEST(cut_and_corrupt_everywhere)
{
    char dir[300], path[400];
    world w = world_new();
    int64_t times[3] = { 10, 20, 30 };
    segment g = { .ends = { MRD_SEGMENT_HEADER } };
    mrd_journal *j;

    snprintf(dir, sizeof(dir), "%s/j", test_tmp());
    snprintf(path, sizeof(path), "%s/000001.mrj", dir);
    snprintf(g.copy_dir, sizeof(g.copy_dir), "%s/k", test_tmp());
    snprintf(g.copy, sizeof(g.copy), "%s/000001.mrj", g.copy_dir);
    mkdir(g.copy_dir, 0700);
    REQUIRE((j = journal(dir)) != NULL);
    for (uint64_t i = 0; i < CUT_FRAMES; i++) {
        struct stat st;

        times[0] = (int64_t) i;
        CHECK_ERR("append", append(&w, j, i, times, 3), MRD_OK);
        CHECK_ERR("sync", mrd_journal_sync(j, NULL), MRD_OK);
        CHECK(stat(path, &st) == 0);
        g.ends[i + 1] = (size_t) st.st_size;
    }
    g.data = slurp(path, &g.len);
    CHECK_INT(g.len, g.ends[CUT_FRAMES]);
    check_every_cut(&g);
    check_every_damaged_byte(&g);
    CHECK_ERR("close", mrd_journal_close(j, NULL), MRD_OK);
    free(g.data);
    g.data = slurp(path, &g.len);
    check_damage_behind_the_frames(&g);
    free(g.data);
    world_free(&w);
}

TEST(duplicates_and_new_segments)
{
    char dir[300];
    world w = world_new();
    int64_t t = 5;
    mrd_journal_index x;
    mrd_journal *j;
    mrd_frame f;
    mrd_bytes body;
    mrd_buf buf = { 0 };
    mrd_why why = { 0 };

    snprintf(dir, sizeof(dir), "%s/j", test_tmp());
    REQUIRE((j = journal(dir)) != NULL);
    CHECK_ERR("a", append(&w, j, 0, &t, 1), MRD_OK);
    CHECK_ERR("b", append(&w, j, 1, &t, 1), MRD_OK);
    CHECK_ERR("close", mrd_journal_close(j, NULL), MRD_OK);
    /* the aggregator restarted, and the agent resends frame 1 */
    REQUIRE((j = journal(dir)) != NULL);
    CHECK_ERR("b", append(&w, j, 1, &t, 1), MRD_OK);
    CHECK_ERR("c", append(&w, j, 2, &t, 1), MRD_OK);
    /* the journal can be scanned while the writer has it open */
    CHECK_ERR("scan", mrd_journal_scan(dir, &x, NULL), MRD_OK);
    CHECK(x.files.n == 2 && x.n == 3 && x.duplicates == 1 && x.bad_bytes == 0);
    CHECK_INT(x.entries[1].segment,
              /* the index has the first of both copies of frame 1, although the second one is at a
               * smaller offset in its segment */
              0);
    CHECK_INT(x.entries[2].segment, 1);
    for (size_t i = 0; i < x.n; i++) {
        CHECK_ERR("read", mrd_journal_read(&x, &x.entries[i], false, &buf, &f, &body, &why),
                  MRD_OK);
        CHECK(f.seq == i);
        CHECK_ERR("head", mrd_journal_read(&x, &x.entries[i], true, &buf, &f, &body, &why), MRD_OK);
        CHECK(body.len == f.head_len);
    }
    mrd_journal_index_fini(&x);
    CHECK_ERR("missing folder", mrd_journal_scan("/nonexistent/x", &x, NULL), MRD_OK);
    CHECK(x.n == 0);
    mrd_journal_index_fini(&x);
    mrd_journal_close(j, NULL);
    mrd_buf_fini(&buf);
    world_free(&w);
}

/* Frames with equal numbers in two epochs are different, in any order of arrival. */
TEST(epochs_have_numbers_of_their_own)
{
    static const struct {
        uint64_t epoch, seq;
    } came[] = { { 8, 5 }, { 2, 5 }, { 8, 5 }, { 2, 4 }, { 2, 5 }, { 8, 4 }, { 2, 4 } };
    static const uint64_t sorted[][2] = { { 2, 4 }, { 2, 5 }, { 8, 4 }, { 8, 5 } };
    mrd_journal_index x;
    char dir[300];

    snprintf(dir, sizeof(dir), "%s/epochs", test_tmp());
    for (size_t i = 0; i < MRD_COUNT(came); i++) { /* each in its own segment */
        mrd_frame f = { .type = MRD_FRAME_CLOCK_DATA,
                        .agent = 1,
                        .epoch = came[i].epoch,
                        .session = 3,
                        .seq = came[i].seq };
        uint8_t wire[MRD_FRAME_HEADER];
        mrd_journal *j = journal(dir);

        REQUIRE(j != NULL);
        mrd_frame_put(&f, (mrd_bytes){ NULL, 0 }, wire);
        CHECK_ERR("append", mrd_journal_append(j, &f, (mrd_bytes){ wire, sizeof(wire) }, NULL),
                  MRD_OK);
        CHECK_ERR("close", mrd_journal_close(j, NULL), MRD_OK);
    }
    CHECK_ERR("scan", mrd_journal_scan(dir, &x, NULL), MRD_OK);
    CHECK_INT(x.duplicates, 3);
    REQUIRE(x.n == MRD_COUNT(sorted));
    for (size_t i = 0; i < x.n; i++)
        CHECK(x.entries[i].frame.epoch == sorted[i][0] && x.entries[i].frame.seq == sorted[i][1]);
    mrd_journal_index_fini(&x);
}

/* A file size limit imitates a full disk. No frame is stored partially, and the same frame can be
 * appended when there is space again. */
TEST(no_room)
{
    char dir[300];
    struct rlimit lim, old;
    world w = world_new();
    int64_t t = 5;
    mrd_journal_index x;
    mrd_journal *j;

    signal(SIGXFSZ, SIG_IGN);
    snprintf(dir, sizeof(dir), "%s/j", test_tmp());
    REQUIRE((j = journal(dir)) != NULL);
    CHECK_ERR("first", append(&w, j, 0, &t, 1), MRD_OK);
    getrlimit(RLIMIT_FSIZE, &old);
    lim = old;
    lim.rlim_cur = MRD_SEGMENT_HEADER + mrd_journal_bytes(j) + 50;
    setrlimit(RLIMIT_FSIZE, &lim);
    CHECK_ERR("full", append(&w, j, 1, &t, 1), MRD_FULL);
    CHECK_ERR("full again", append(&w, j, 1, &t, 1), MRD_FULL);
    CHECK_ERR("sync", mrd_journal_sync(j, NULL), MRD_OK);
    setrlimit(RLIMIT_FSIZE, &old);
    CHECK_ERR("room again", append(&w, j, 1, &t, 1), MRD_OK);
    CHECK_ERR("close", mrd_journal_close(j, NULL), MRD_OK);
    CHECK_ERR("scan", mrd_journal_scan(dir, &x, NULL), MRD_OK);
    CHECK(x.n == 2 && x.bad_bytes == 0 && x.files.n == 1);
    mrd_journal_index_fini(&x);
    world_free(&w);
}

enum { GROUP = 100 }; /* more than one write accepts */

typedef struct {
    mrd_buf wires[GROUP];
    mrd_frame frames[GROUP];
    mrd_journal_chunk chunks[GROUP];
} group;

static void
group_make(world *w, group *g)
{
    for (uint64_t i = 0; i < GROUP; i++) {
        int64_t times[3] = { 5, (int64_t) i + 6, 1000 };

        g->wires[i] = make_frame(w, i, times, 1 + (uint32_t) i % 3, &g->frames[i]);
        g->chunks[i] = (mrd_journal_chunk){ &g->frames[i], { g->wires[i].p, g->wires[i].len } };
    }
}

static void
group_free(group *g)
{
    for (int i = 0; i < GROUP; i++)
        mrd_buf_fini(&g->wires[i]);
}

/* Checks that the frames in `dir` are exactly the group, in order, in `files` segments. */
static void
group_check(const char *dir, size_t files)
{
    mrd_journal_index x;
    mrd_buf buf = { 0 };
    mrd_bytes body;
    mrd_frame f;

    CHECK_ERR("scan", mrd_journal_scan(dir, &x, NULL), MRD_OK);
    CHECK_INT(x.n, GROUP);
    CHECK_INT(x.files.n, files);
    CHECK_INT(x.bad_bytes + x.duplicates, 0);
    for (size_t i = 0; i < x.n; i++) {
        CHECK_ERR("read", mrd_journal_read(&x, &x.entries[i], false, &buf, &f, &body, NULL),
                  MRD_OK);
        CHECK_INT(f.seq, i);
    }
    mrd_buf_fini(&buf);
    mrd_journal_index_fini(&x);
}

/* The disk becomes full within a group of frames. The frames before that are stored, and the others
 * can be appended later. */
TEST(a_group_without_room)
{
    char dir[300];
    struct rlimit lim, old;
    static group g;
    world w = world_new();
    mrd_why why = { 0 };
    uint64_t room = 0;
    mrd_journal *j;

    signal(SIGXFSZ, SIG_IGN);
    snprintf(dir, sizeof(dir), "%s/j", test_tmp());
    REQUIRE((j = journal(dir)) != NULL);
    group_make(&w, &g);
    getrlimit(RLIMIT_FSIZE, &old);
    lim = old;
    for (int i = 0; i < 80; i++)
        room += g.wires[i].len;
    lim.rlim_cur = MRD_SEGMENT_HEADER + room + g.wires[80].len - 1;
    setrlimit(RLIMIT_FSIZE, &lim);
    CHECK_INT(mrd_journal_append_many(j, g.chunks, GROUP, &why), 80);
    CHECK_ERR("full", why.err, MRD_FULL);
    CHECK_INT(mrd_journal_append_many(j, g.chunks + 80, GROUP - 80, &why), 0);
    CHECK_INT(mrd_journal_bytes(j), room);
    CHECK_ERR("sync", mrd_journal_sync(j, NULL), MRD_OK);
    setrlimit(RLIMIT_FSIZE, &old);
    CHECK_INT(mrd_journal_append_many(j, g.chunks + 80, GROUP - 80, &why), GROUP - 80);
    CHECK_ERR("close", mrd_journal_close(j, NULL), MRD_OK);
    group_check(dir, 1);
    group_free(&g);
    world_free(&w);
}

/* A group of frames is appended at once, and the first segment becomes full within the group. The
 * rest must be in the next segment. */
TEST(a_group_in_two_segments)
{
    char dir[300];
    static group g;
    world w = world_new();
    mrd_why why = { 0 };
    mrd_journal *j;

    snprintf(dir, sizeof(dir), "%s/j", test_tmp());
    REQUIRE((j = journal(dir)) != NULL);
    group_make(&w, &g);
    /* Other frames of the maximum size fill most of the first segment. */
    for (int i = 10; i < 30; i++) {
        uint8_t *big = calloc(1, MRD_FRAME_MAX);
        mrd_frame f = g.frames[i];

        mrd_buf_fini(&g.wires[i]);
        f.codec = MRD_CODEC_NONE;
        f.body_len = MRD_FRAME_MAX - MRD_FRAME_HEADER;
        f.head_raw = f.head_len;
        f.cols_raw = f.body_len - f.head_len;
        mrd_frame_put(&f, (mrd_bytes){ big + MRD_FRAME_HEADER, f.body_len }, big);
        g.frames[i] = f;
        g.wires[i] = (mrd_buf){ .p = big, .len = MRD_FRAME_MAX, .cap = MRD_FRAME_MAX };
        g.chunks[i] = (mrd_journal_chunk){ &g.frames[i], { big, MRD_FRAME_MAX } };
    }
    CHECK_INT(mrd_journal_append_many(j, g.chunks, GROUP, &why), GROUP);
    CHECK_ERR("close", mrd_journal_close(j, NULL), MRD_OK);
    group_check(dir, 2);
    group_free(&g);
    world_free(&w);
}

/* 40 batches, each with one event far in the past, exceed the limit of open batches. */
TEST(source_sorts_overlapping_batches)
{
    enum { BATCHES = 40, EVENTS = 50 };
    char dir[300];
    world w = world_new();
    mrd_journal_index x;
    mrd_journal *j;
    mrd_source *src;
    const mrd_event *ev;
    mrd_why why = { 0 };
    int64_t last = INT64_MIN, sum = 0, want = 0;
    mrd_journal_bad bad = { 0 };
    uint64_t last_seq = 0;
    mrd_buf frame = { 0 };
    size_t n = 0;

    snprintf(dir, sizeof(dir), "%s/j", test_tmp());
    REQUIRE((j = journal(dir)) != NULL);
    for (int b = 0; b < BATCHES; b++) {
        int64_t times[EVENTS];

        for (int i = 0; i < EVENTS; i++) {
            times[i] = i == 0 ? b / 2 : 1000 * (b + 1) + i * (b % 2 == 0 ? 30 : 31);
            want += times[i];
        }
        CHECK_ERR("append", append(&w, j, (uint64_t) b, times, EVENTS), MRD_OK);
    }
    CHECK_ERR("close", mrd_journal_close(j, NULL), MRD_OK);
    CHECK_ERR("scan", mrd_journal_scan(dir, &x, NULL), MRD_OK);
    CHECK_INT(x.n, BATCHES);
    for (unsigned open_max = 1; open_max <= 64; open_max *= 4) {
        mrd_journal_source_options o = { .index = &x,
                                         .process_id = 10,
                                         .start = { INT64_MIN },
                                         .end = { INT64_MAX },
                                         .open_max = open_max,
                                         .key = 9,
                                         .bad = &bad,
                                         .codec = w.codec,
                                         .frame = &frame };

        n = 0;
        sum = 0;
        last = INT64_MIN;
        REQUIRE(mrd_journal_source(&o, w.cat, &src, &why) == MRD_OK);
        while (src->next(src, &ev, &why) == MRD_MORE) {
            CHECK(ev->ts.ns > last || (ev->ts.ns == last && ev->seq > last_seq));
            CHECK(ev->id == (uint64_t) ev->ts.ns);
            last = ev->ts.ns;
            last_seq = ev->seq;
            sum += ev->ts.ns;
            n++;
        }
        CHECK_INT(n, BATCHES * EVENTS);
        CHECK_INT(sum, want);
        CHECK(src->key == 9 && bad.events == 0);
        src->close(src);
    }
    { /* a slice of time reads only the batches that overlap it */
        mrd_journal_source_options o = { .index = &x,
                                         .process_id = 10,
                                         .start = { 30000 },
                                         .end = { 30001 },
                                         .bad = &bad,
                                         .codec = w.codec,
                                         .frame = &frame };

        n = 0;
        REQUIRE(mrd_journal_source(&o, w.cat, &src, &why) == MRD_OK);
        while (src->next(src, &ev, &why) == MRD_MORE)
            n++;
        CHECK(n < BATCHES * EVENTS && n >= EVENTS && n % EVENTS == 0);
        src->close(src);
    }
    mrd_buf_fini(&frame);
    mrd_journal_index_fini(&x);
    world_free(&w);
}

TEST_MAIN()
