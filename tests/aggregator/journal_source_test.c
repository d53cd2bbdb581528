/* Tests the source that returns the events of a journal's batches in the order of time. The result
 * is compared with a sorted list of all events. The batches are random: they overlap, have equal
 * times, come in any order and exceed the limit of open batches. The source is read completely, in
 * slices, and with frames that are damaged before or during the read. */
#include <fcntl.h>
#include <unistd.h>

#include "aggregator/journal/journal.h"
#include "tests/check.h"
#include "tests/trace/events.h"

enum { BATCHES = 26, MOST = 70, ALL = BATCHES * MOST };

typedef struct {
    int64_t at;
    uint64_t batch, number; /* batch of the event, and its number in the batch */
} one;

typedef struct {
    mrd_catalog *cat;
    mrd_codec *codec;
    mrd_proc_id process;
    mrd_track_id track;
    mrd_sid name, key;
    one v[ALL];
    size_t n;
    struct {
        int64_t first, last;
        size_t n;
        bool bad;
    } batch[BATCHES];
    size_t batches;
    mrd_journal_index x;
} recording;

static int
by_time(const void *a, const void *b)
{
    const one *x = a, *y = b;

    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    if (x->batch != y->batch)
        return x->batch < y->batch ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

static void
append(recording *r, mrd_journal *j, uint64_t seq, uint64_t *seed)
{
    size_t n = 1 + test_rand(seed) % MOST, begin = r->n;
    mrd_batch *b = mrd_batch_new(r->cat, r->process, 0, (uint32_t) n);
    mrd_frame f = { .agent = 1, .epoch = 2, .session = 3, .seq = seq };
    int64_t from = 1 + (int64_t) (test_rand(seed) % 300),
            wide = 1 + (int64_t) (test_rand(seed) % 200);
    mrd_buf wire = { 0 };

    for (size_t i = 0; i < n; i++) {
        one *o = &r->v[r->n++];
        mrd_arg arg = { .key = r->key, .type = MRD_ARG_UINT, .v.u = seq * 1000 + i };
        mrd_event ev = { .kind = MRD_INSTANT,
                         .ts = { from + (int64_t) (test_rand(seed) % (uint64_t) wide) },
                         .id = seq * 1000 + i,
                         .track = r->track,
                         .name = r->name,
                         .args = &arg,
                         .arg_count = 1 };

        *o = (one){ ev.ts.ns, seq, i };
        CHECK_ERR("push", mrd_batch_push(b, &ev), MRD_OK);
    }
    CHECK_ERR("encode", mrd_batch_encode(b, r->codec, MRD_CODEC_ZSTD, &f, &wire, NULL), MRD_OK);
    CHECK_ERR("append", mrd_journal_append(j, &f, (mrd_bytes){ wire.p, wire.len }, NULL), MRD_OK);
    qsort(r->v + begin, n, sizeof(*r->v), by_time);
    r->batch[seq].first = r->v[begin].at;
    r->batch[seq].last = r->v[r->n - 1].at;
    r->batch[seq].n = n;
    mrd_buf_fini(&wire);
    mrd_batch_free(b);
}

static recording *
record(uint64_t seed, const char *dir)
{
    recording *r = calloc(1, sizeof(*r));
    mrd_journal *j = NULL;
    mrd_process p;
    mrd_track t;

    r->cat = mrd_catalog_new();
    r->codec = mrd_codec_new();
    mrd_process_init(&p);
    p.instance_id = mrd_catalog_intern(r->cat, "i-1");
    p.process_id = 10;
    r->process = mrd_catalog_process(r->cat, &p);
    mrd_track_init(&t, r->process, MRD_SRC_RUNTIME);
    r->track = mrd_catalog_track(r->cat, &t);
    r->name = mrd_catalog_intern(r->cat, "event");
    r->key = mrd_catalog_intern(r->cat, "number");
    CHECK_ERR("open", mrd_journal_open(dir, MRD_STR("i-1"), 3, &j, NULL), MRD_OK);
    r->batches = 1 + test_rand(&seed) % BATCHES;
    for (uint64_t b = 0; b < r->batches; b++)
        append(r, j, b, &seed);
    CHECK_ERR("close", mrd_journal_close(j, NULL), MRD_OK);
    CHECK_ERR("scan", mrd_journal_scan(dir, &r->x, NULL), MRD_OK);
    CHECK_INT(r->x.n, r->batches);
    qsort(r->v, r->n, sizeof(*r->v), by_time);
    return r;
}

static void
record_free(recording *r)
{
    mrd_journal_index_fini(&r->x);
    mrd_catalog_free(r->cat);
    mrd_codec_free(r->codec);
    free(r);
}

static void
damage(const recording *r, size_t batch)
{
    const mrd_journal_entry *e = &r->x.entries[batch];
    int fd = open(r->x.files.v[e->segment], O_RDWR | O_CLOEXEC);
    off_t at = (off_t) (e->offset + MRD_FRAME_HEADER + e->frame.body_len / 2);
    uint8_t byte = 0;

    CHECK(fd >= 0 && pread(fd, &byte, 1, at) == 1);
    byte ^= 0x55;
    CHECK(pwrite(fd, &byte, 1, at) == 1);
    close(fd);
}

static mrd_source *
source_of(const recording *r, unsigned open_max, int64_t start, int64_t end, mrd_journal_bad *bad,
          mrd_buf *frame)
{
    mrd_journal_source_options o = { .index = &r->x,
                                     .process_id = 10,
                                     .start = { start },
                                     .end = { end },
                                     .open_max = open_max,
                                     .key = 9,
                                     .bad = bad,
                                     .codec = r->codec,
                                     .frame = frame };
    mrd_source *src = NULL;

    CHECK_ERR("source", mrd_journal_source(&o, r->cat, &src, NULL), MRD_OK);
    return src;
}

static bool
is_event(const mrd_event *ev, const one *want)
{
    return ev->ts.ns == want->at && ev->id == want->batch * 1000 + want->number &&
           ev->arg_count == 1 && ev->args[0].v.u == ev->id;
}

/* Reads all events of requested, undamaged batches in order, in runs or one by one. */
static void
check(const recording *r, unsigned open_max, int64_t start, int64_t end, bool in_runs)
{
    mrd_journal_bad bad = { 0 };
    mrd_buf frame = { 0 };
    mrd_source *src = source_of(r, open_max, start, end, &bad, &frame);
    uint64_t lost = 0, lost_batches = 0;
    const mrd_event *ev;
    mrd_event *run;
    mrd_why why = { 0 };
    size_t n = 0, wrong = 0;
    bool more = true;

    for (size_t i = 0; i < r->n; i++) {
        size_t b = r->v[i].batch;

        if (r->batch[b].bad || r->batch[b].last < start || r->batch[b].first >= end)
            continue;
        if (in_runs && n == 0) {
            more = src->run(src, &run, &n, &why) == MRD_MORE;
            ev = run;
        } else if (in_runs) {
            ev = run;
        } else {
            more = src->next(src, &ev, &why) == MRD_MORE;
        }
        REQUIRE(more);
        wrong += !is_event(ev, &r->v[i]);
        if (in_runs) {
            n--;
            run++;
        }
    }
    CHECK_INT(wrong, 0);
    CHECK_INT(n, 0);
    CHECK(src->next(src, &ev, &why) == MRD_END);
    for (size_t b = 0; b < r->batches; b++)
        if (r->batch[b].bad && r->batch[b].last >= start && r->batch[b].first < end) {
            lost += r->batch[b].n;
            lost_batches++;
        }
    CHECK_INT(bad.events, lost);
    CHECK_INT(bad.batches, lost_batches);
    CHECK_INT(bad.first.err != MRD_OK, lost > 0);
    src->close(src);
    mrd_buf_fini(&frame);
}

TEST(events_come_in_order)
{
    for (uint64_t seed = 1; seed <= 12; seed++) {
        char dir[300];
        recording *r;

        snprintf(dir, sizeof(dir), "%s/j%d", test_tmp(), (int) seed);
        r = record(seed, dir);
        for (unsigned open_max = 0; open_max <= 9; open_max += open_max < 3 ? 1 : 3)
            for (int in_runs = 0; in_runs < 2; in_runs++) {
                check(r, open_max, INT64_MIN, INT64_MAX, in_runs != 0);
                check(r, open_max, 120, 260, in_runs != 0);
                check(r, open_max, r->batch[0].last, r->batch[0].last + 1, in_runs != 0);
                check(r, open_max, r->batch[0].last + 1, INT64_MAX, in_runs != 0);
                check(r, open_max, INT64_MIN, r->batch[0].first, in_runs != 0);
            }
        for (size_t b = 0; b < r->batches; b += 3) {
            damage(r, b);
            r->batch[b].bad = true;
        }
        for (unsigned open_max = 1; open_max <= 9; open_max *= 3)
            check(r, open_max, INT64_MIN, INT64_MAX, open_max == 3);
        record_free(r);
    }
}

/* Batches that are damaged between their closing and reopening give the events read before, and the
 * rest is counted. */
TEST(what_turns_bad_while_it_is_read_is_counted)
{
    uint64_t cut = 0;

    for (uint64_t seed = 1; seed <= 12; seed++)
        for (unsigned open_max = 1; open_max <= 4; open_max++) {
            mrd_journal_bad bad = { 0 };
            mrd_buf frame = { 0 };
            uint64_t given[BATCHES] = { 0 }, total = 0, lost = 0;
            int64_t last = INT64_MIN;
            const mrd_event *ev;
            mrd_why why = { 0 };
            mrd_source *src;
            char dir[300];
            recording *r;
            size_t n = 0;

            snprintf(dir, sizeof(dir), "%s/k%d-%u", test_tmp(), (int) seed, open_max);
            r = record(seed, dir);
            src = source_of(r, open_max, INT64_MIN, INT64_MAX, &bad, &frame);
            while (src->next(src, &ev, &why) == MRD_MORE) {
                REQUIRE(ev->ts.ns >= last && ev->id / 1000 < r->batches);
                last = ev->ts.ns;
                given[ev->id / 1000]++;
                if (++n == r->n / 3)
                    for (size_t b = 0; b < r->batches; b += 2)
                        damage(r, b);
            }
            for (size_t b = 0; b < r->batches; b++) {
                CHECK(given[b] <= r->batch[b].n && (b % 2 == 0 || given[b] == r->batch[b].n));
                total += given[b];
                lost += r->batch[b].n - given[b];
                cut += given[b] > 0 && given[b] < r->batch[b].n;
            }
            CHECK_INT(total, n);
            CHECK_INT(bad.events, lost);
            CHECK_INT(bad.first.err != MRD_OK, lost > 0);
            src->close(src);
            mrd_buf_fini(&frame);
            record_free(r);
        }
    CHECK(cut > 20); /* number of batches that failed after some of their events were read */
}

TEST_MAIN()
