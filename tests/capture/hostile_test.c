/* Tests reading rings that a hostile program wrote. For each of them the reader must return an
 * error with the reason, and must not loop or crash. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "capture/identity.h"
#include "capture/meridian.h"
#include "capture/process.h"
#include "capture/ring/ring_read.h"
#include "tests/check.h"
#include "tests/seed.h"

#define DATA_LEN 8192
#define DICT_LEN 4096

static mrd_own_identity me;
static mrd_ring_writer writer;
static char path[600];
static mrd_ring_name name;

/* Makes a valid ring of this process in a new directory, with `n` spans. */
static void
make_ring(unsigned n)
{
    char file[MRD_RING_NAME_MAX];

    mrd_identity_read(&me);
    me.claim.clock = MRD_RING_CLOCK_RAW;
    mrd_ring_cal_read(me.claim.clock, &me.claim.load_cal);
    memset(&writer, 0, sizeof(writer));
    CHECK_INT(mrd_ring_create(&writer, test_tmp(), &me.claim, 77, DATA_LEN, DICT_LEN), 0);
    name = (mrd_ring_name){ .pid = me.claim.pid, .tid = 77, .serial = writer.name_serial };
    name.start_ticks = me.claim.start_ticks;
    memcpy(name.boot_id, me.claim.boot_id, 16);
    mrd_ring_name_print(&name, file);
    snprintf(path, sizeof(path), "%s/%s", test_tmp(), file);
    CHECK(mrd_ring_define_text(&writer, 1, "name", 4));
    for (unsigned i = 0; i < n; i++) {
        mrd_ring_rec *rec = mrd_ring_reserve(&writer, 1000 + i);

        if (rec == NULL)
            break;
        *rec = (mrd_ring_rec){ .kind = MRD_REC_SPAN, .units = 1, .name = 1, .ts = 1000 + i };
        mrd_ring_commit(&writer, 32);
    }
}

static mrd_err
open_ring(mrd_ring_reader **ret_reader, mrd_why *why)
{
    *ret_reader = NULL;
    return mrd_ring_open(AT_FDCWD, path, NULL, ret_reader, why);
}

static void
drop_ring(void)
{
    mrd_ring_finish(&writer);
    unlink(path);
}

static mrd_ring_rec *
record(unsigned i)
{
    return (mrd_ring_rec *) (void *) (writer.data + (size_t) i * 32);
}

/* ---- headers -----------------------------------------------------------------------------------
 */

static const struct {
    const char *name;
    size_t off;
    uint64_t value;
    unsigned len;
    mrd_err want;
} headers[] = {
    { "magic", 0, 'X', 1, MRD_CORRUPT },
    { "no magic yet", 0, 0, 8, MRD_AGAIN },
    { "abi", offsetof(mrd_ring_hdr, abi), 99, 4, MRD_VERSION },
    { "monotonic", offsetof(mrd_ring_hdr, timens_monotonic_ns), 1ull << 62, 8, MRD_CORRUPT },
    { "boottime", offsetof(mrd_ring_hdr, timens_boottime_ns), 1ull << 63, 8, MRD_CORRUPT },
    { "header_len", offsetof(mrd_ring_hdr, header_len), 8192, 4, MRD_CORRUPT },
    { "dict_len 0", offsetof(mrd_ring_hdr, dict_len), 0, 4, MRD_CORRUPT },
    { "dict_len huge", offsetof(mrd_ring_hdr, dict_len), 0xfffff000, 4, MRD_CORRUPT },
    { "dict_len longer", offsetof(mrd_ring_hdr, dict_len), 8192, 4, MRD_TRUNCATED },
    { "data_len 0", offsetof(mrd_ring_hdr, data_len), 0, 8, MRD_CORRUPT },
    { "data_len no power of two", offsetof(mrd_ring_hdr, data_len), 8200, 8, MRD_CORRUPT },
    { "data_len huge", offsetof(mrd_ring_hdr, data_len), 1ull << 62, 8, MRD_CORRUPT },
    { "data_len longer", offsetof(mrd_ring_hdr, data_len), 16384, 8, MRD_TRUNCATED },
    { "clock", offsetof(mrd_ring_hdr, clock), 7, 4, MRD_CORRUPT },
    { "clock without calibration", offsetof(mrd_ring_hdr, clock), 2, 4, MRD_CORRUPT },
    { "pid of another", offsetof(mrd_ring_hdr, pid), 1, 4, MRD_CORRUPT },
    { "pid negative", offsetof(mrd_ring_hdr, pid), 0xffffffff, 4, MRD_CORRUPT },
    { "tid of another", offsetof(mrd_ring_hdr, tid), 78, 4, MRD_CORRUPT },
    { "start of another", offsetof(mrd_ring_hdr, start_ticks), 1, 8, MRD_CORRUPT },
    { "boot of another", offsetof(mrd_ring_hdr, boot_id), 1, 8, MRD_CORRUPT },
    { "identity too long", offsetof(mrd_ring_hdr, ident_len), 2049, 4, MRD_CORRUPT },
    { "tail before head's lap", offsetof(mrd_ring_hdr, head), DATA_LEN + 32, 8, MRD_CORRUPT },
    { "tail behind head", offsetof(mrd_ring_hdr, tail), 4096, 8, MRD_CORRUPT },
    { "head not aligned", offsetof(mrd_ring_hdr, head), 65, 8, MRD_CORRUPT },
};

TEST(lying_headers)
{
    for (size_t i = 0; i < MRD_COUNT(headers); i++) {
        mrd_ring_reader *r;
        mrd_why why = { .text = "" };

        make_ring(3);
        memcpy((uint8_t *) writer.hdr + headers[i].off, &headers[i].value, headers[i].len);
        CHECK_ERR(headers[i].name, open_ring(&r, &why), headers[i].want);
        CHECK_ROW(headers[i].name, strlen(why.text) > strlen(path)); /* names the file, says why */
        mrd_ring_close(r);
        drop_ring();
    }
}

/* ---- records -----------------------------------------------------------------------------------
 */

static const struct {
    const char *name;
    mrd_ring_rec rec;
    mrd_ring_step want;
} records[] = {
    { "length 0", { .kind = MRD_REC_SPAN, .units = 0 }, MRD_RING_BAD },
    { "past the head", { .kind = MRD_REC_SPAN, .units = 200 }, MRD_RING_BAD },
    { "past the end of the area", { .kind = MRD_REC_SPAN, .units = 300 }, MRD_RING_BAD },
    { "longest length", { .kind = MRD_REC_SPAN, .units = 65535 }, MRD_RING_BAD },
    { "blob chunk too long",
      { .kind = MRD_REC_BLOB, .units = 1, .ts = 1, .track = 1 },
      MRD_RING_BAD },
    { "time before time", { .kind = MRD_REC_SPAN, .units = 1, .ts = 1ull << 63 }, MRD_RING_BAD },
    { "duration of centuries",
      { .kind = MRD_REC_SPAN, .units = 1, .ts = 5, .value = 1ull << 63 },
      MRD_RING_BAD },
    { "unknown kind", { .kind = 200, .units = 1 }, MRD_RING_AGAIN },
    { "kind 0", { .kind = 0, .units = 1 }, MRD_RING_AGAIN },
    { "unknown name", { .kind = MRD_REC_SPAN, .units = 1, .name = 4711, .ts = 1 }, MRD_RING_MORE },
    { "name beyond all",
      { .kind = MRD_REC_SPAN, .units = 1, .name = UINT32_MAX, .ts = 1 },
      MRD_RING_MORE },
    { "track beyond all",
      { .kind = MRD_REC_COUNTER, .units = 1, .ts = 1, .track = UINT32_MAX },
      MRD_RING_MORE },
    { "body promised, none there",
      { .kind = MRD_REC_SPAN, .flags = MRD_RECF_BODY, .units = 1, .ts = 1 },
      MRD_RING_MORE },
    { "loss of an unknown cause",
      { .kind = MRD_REC_LOSS, .units = 1, .name = 99, .ts = 1 },
      MRD_RING_LOST },
};

TEST(lying_records)
{
    for (size_t i = 0; i < MRD_COUNT(records); i++) {
        mrd_ring_reader *r;
        mrd_ring_event ev;
        mrd_ring_step step;
        mrd_why why = { .text = "" };

        make_ring(1);
        *record(0) = records[i].rec;
        CHECK_ERR(records[i].name, open_ring(&r, &why), MRD_OK);
        step = mrd_ring_next(r, &ev, &why);
        CHECK_ROW(records[i].name, step == records[i].want);
        if (step == MRD_RING_MORE || step == MRD_RING_LOST) {
            CHECK_ROW(records[i].name, mrd_ring_text(r, ev.name).len <= 4);
            CHECK_ROW(records[i].name, mrd_ring_track_of(r, ev.track) == NULL);
            CHECK_ROW(records[i].name, mrd_ring_next(r, &ev, &why) == MRD_RING_AGAIN);
        }
        if (step == MRD_RING_BAD) { /* after BAD, every further read returns BAD */
            CHECK_ROW(records[i].name, mrd_ring_next(r, &ev, &why) == MRD_RING_BAD);
            CHECK_ROW(records[i].name, strlen(why.text) > 20);
        }
        mrd_ring_close(r);
        drop_ring();
    }
}

/* ---- dictionary
 * ---------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    mrd_ring_dict entry;
    uint64_t head;
    mrd_ring_step want;
} dicts[] = {
    { "cut entry", { .type = MRD_DICT_TEXT, .len = 24, .id = 2 }, 16, MRD_RING_BAD },
    { "length 0", { .type = MRD_DICT_TEXT, .len = 0, .id = 2 }, 24, MRD_RING_BAD },
    { "length not aligned", { .type = MRD_DICT_TEXT, .len = 25, .id = 2 }, 32, MRD_RING_BAD },
    { "longer than committed", { .type = MRD_DICT_TEXT, .len = 4000, .id = 2 }, 24, MRD_RING_BAD },
    { "text past the entry",
      { .type = MRD_DICT_TEXT, .text_len = 60000, .len = 24, .id = 2 },
      24,
      MRD_RING_BAD },
    { "id 0", { .type = MRD_DICT_TEXT, .len = 24, .id = 0 }, 24, MRD_RING_BAD },
    { "id beyond all", { .type = MRD_DICT_TEXT, .len = 24, .id = 1u << 16 }, 24, MRD_RING_BAD },
    { "track without room", { .type = MRD_DICT_TRACK, .len = 24, .id = 2 }, 24, MRD_RING_BAD },
    { "unknown type", { .type = 99, .len = 24, .id = 2 }, 24, MRD_RING_MORE },
    { "defined again", { .type = MRD_DICT_TEXT, .len = 24, .id = 1 }, 24, MRD_RING_MORE },
    { "head past the area", { .type = MRD_DICT_TEXT, .len = 24, .id = 2 }, 5000, MRD_RING_BAD },
};

TEST(lying_dictionaries)
{
    for (size_t i = 0; i < MRD_COUNT(dicts); i++) {
        mrd_ring_reader *r;
        mrd_ring_event ev;
        mrd_why why = { .text = "" };
        uint64_t at;

        make_ring(1);
        at = writer.dict_used;
        memcpy((uint8_t *) writer.hdr + MRD_RING_HEADER_LEN + at, &dicts[i].entry,
               sizeof(dicts[i].entry));
        atomic_store(&writer.hdr->dict_head, at + dicts[i].head);
        CHECK_ERR(dicts[i].name, open_ring(&r, &why), MRD_OK);
        CHECK_ROW(dicts[i].name, mrd_ring_next(r, &ev, &why) == dicts[i].want);
        if (dicts[i].want == MRD_RING_MORE)
            CHECK(mrd_str_is(mrd_ring_text(r, 1), "name"));
        mrd_ring_close(r);
        drop_ring();
    }
}

/* ---- files
 * --------------------------------------------------------------------------------------- */

TEST(not_a_ring_file)
{
    mrd_ring_reader *r;
    mrd_why why;
    char other[640];
    mrd_ring_opts opts = MRD_RING_OPTS_DEFAULT;

    make_ring(1);
    snprintf(other, sizeof(other), "%s.moved", path);
    CHECK_ERR("name", mrd_ring_open(AT_FDCWD, other, NULL, &r, &why), MRD_INVALID);
    CHECK_INT(rename(path, other), 0);
    CHECK_ERR("absent", open_ring(&r, &why), MRD_NOTFOUND);
    CHECK_INT(symlink(other, path), 0);
    CHECK_ERR("link", open_ring(&r, &why), MRD_DENIED);
    unlink(path);
    CHECK_INT(mkfifo(path, 0600), 0); /* opening the FIFO must not block */
    CHECK_ERR("fifo", open_ring(&r, &why), MRD_DENIED);
    unlink(path);
    CHECK_INT(mkdir(path, 0700), 0);
    CHECK_ERR("folder", open_ring(&r, &why), MRD_DENIED);
    rmdir(path);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    CHECK_ERR("empty", open_ring(&r, &why), MRD_AGAIN);
    /* the ring's process (this test) is alive */
    CHECK_ERR("stale", mrd_ring_remove_stale(AT_FDCWD, path, NULL, &why), MRD_BUSY);
    CHECK_INT(truncate(path, 1000), 0);
    CHECK_ERR("short", open_ring(&r, &why), MRD_TRUNCATED);
    CHECK_INT(rename(other, path), 0);
    opts.expect_uid = (int64_t) getuid() + 1;
    CHECK_ERR("uid", mrd_ring_open(AT_FDCWD, path, &opts, &r, &why), MRD_DENIED);
    opts.expect_uid = (int64_t) getuid();
    CHECK_ERR("own uid", mrd_ring_open(AT_FDCWD, path, &opts, &r, &why), MRD_OK);
    mrd_ring_close(r);
    drop_ring();
}

TEST(stale_files)
{
    mrd_why why;
    char file[MRD_RING_NAME_MAX];

    mrd_identity_read(&me);
    name = (mrd_ring_name){ .pid = me.claim.pid, .tid = 1, .start_ticks = 1 };
    memcpy(name.boot_id, me.claim.boot_id, 16);
    for (int other_boot = 0; other_boot < 2; other_boot++) {
        name.boot_id[3] ^= (uint8_t) other_boot;
        mrd_ring_name_print(&name, file);
        snprintf(path, sizeof(path), "%s/%s", test_tmp(), file);
        close(open(path, O_CREAT | O_WRONLY, 0600));
        CHECK_ERR(path, mrd_ring_remove_stale(AT_FDCWD, path, NULL, &why), MRD_OK);
        CHECK(access(path, F_OK) != 0);
    }
}

TEST(one_reader_at_a_time)
{
    mrd_ring_reader *first, *second;
    mrd_ring_opts peek = { MRD_RING_PEEK, -1, 0, NULL };
    mrd_ring_event ev;
    mrd_why why;

    make_ring(2);
    CHECK_ERR("first", open_ring(&first, &why), MRD_OK);
    CHECK_ERR("second", open_ring(&second, &why), MRD_BUSY);
    CHECK_ERR("peek", mrd_ring_open(AT_FDCWD, path, &peek, &second, &why), MRD_OK);
    CHECK(mrd_ring_next(second, &ev, NULL) == MRD_RING_MORE);
    CHECK_ERR("peek release", mrd_ring_release(second), MRD_OK);
    CHECK_INT(writer.hdr->tail, 0); /* viewing does not consume records */
    CHECK(mrd_ring_next(first, &ev, NULL) == MRD_RING_MORE);
    CHECK_ERR("release", mrd_ring_release(first), MRD_OK);
    CHECK_INT(writer.hdr->tail, 32);
    CHECK_INT(writer.hdr->tail_check, ~32ll);
    mrd_ring_close(first);
    CHECK_INT(writer.hdr->reader_pid, 0);
    CHECK_ERR("next reader", open_ring(&first, &why), MRD_OK);
    CHECK(mrd_ring_next(first, &ev, NULL) == MRD_RING_MORE);
    CHECK_INT(ev.ts.ns, 1001); /* the next reader continues after the first, and knows the names */
    CHECK(mrd_str_is(mrd_ring_text(first, ev.name), "name"));
    mrd_ring_close(first);
    mrd_ring_close(second);
    drop_ring();
}

/* A hostile reader stores impossible values in the tail (the position up to which it has read). The
 * writer then treats the ring as full and counts the loss, instead of overwriting records. */
TEST(lying_tails)
{
    static const uint64_t tails[][2] = {
        { 64, 64 }, { 1ull << 40, ~(1ull << 40) }, { 33, ~33ull }, { UINT64_MAX, 0 }
    };

    for (size_t i = 0; i < MRD_COUNT(tails); i++) {
        uint64_t head;

        make_ring(DATA_LEN / 32);
        head = writer.head;
        atomic_store(&writer.hdr->tail, tails[i][0]);
        atomic_store(&writer.hdr->tail_check, tails[i][1]);
        CHECK(mrd_ring_reserve(&writer, 5000) == NULL);
        CHECK_INT(writer.head, (int64_t) head);
        CHECK_INT(writer.hdr->lost[MRD_RING_LOST_FULL].count, 1);
        drop_ring();
    }
}

/* ---- changes while it is read
 * ------------------------------------------------------------------------------ */

TEST(changed_while_open)
{
    static const struct {
        const char *name;
        off_t len;
    } rows[] = { { "cut to nothing", 0 },
                 { "cut in the header", 300 },
                 { "cut in the data", 9000 },
                 { "grown", 1 << 20 } };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_ring_reader *r;
        mrd_ring_event ev;
        mrd_why why = { .text = "" };
        int n = 0;

        make_ring(200);
        CHECK_ERR(rows[i].name, open_ring(&r, &why), MRD_OK);
        CHECK_INT(truncate(path, rows[i].len), 0);
        while (mrd_ring_next(r, &ev, &why) == MRD_RING_MORE && n < 1000)
            n++;
        CHECK_ROW(rows[i].name, mrd_ring_next(r, &ev, &why) == MRD_RING_BAD);
        CHECK_ROW(rows[i].name, n <= 200 && strstr(why.text, "ring meridian.") != NULL);
        /* release may fail, but must not cause SIGBUS, although the file was cut */
        (void) mrd_ring_release(r);
        mrd_ring_close(r);
        /* the writer is only unmapped, without drop_ring(), because the file was truncated */
        munmap(writer.hdr, writer.map_len);
        unlink(path);
    }
}

TEST(head_moves_backwards)
{
    mrd_ring_reader *r;
    mrd_ring_event ev;
    mrd_why why;

    make_ring(10);
    CHECK_ERR("open", open_ring(&r, &why), MRD_OK);
    for (int i = 0; i < 10; i++)
        CHECK(mrd_ring_next(r, &ev, &why) == MRD_RING_MORE);
    atomic_store(&writer.hdr->head, 96);
    CHECK(mrd_ring_next(r, &ev, &why) == MRD_RING_BAD);
    mrd_ring_close(r);
    drop_ring();
}

static _Atomic bool scribbling;

static void *
scribble(void *arg)
{
    unsigned seed = *(unsigned *) arg;
    uint8_t *p = (uint8_t *) writer.hdr;

    while (scribbling) {
        size_t at = (size_t) rand_r(&seed) % writer.map_len;

        if (at >= 256 || rand_r(&seed) % 64 == 0) /* mostly leave the constant part unchanged */
            p[at] = (uint8_t) rand_r(&seed);
        if (rand_r(&seed) % 16 == 0)
            atomic_store(&writer.hdr->head, writer.hdr->head + 32);
    }
    return NULL;
}

/* Bytes change during the read. Any result is accepted, but the reader must return. */
TEST(scribbled_while_read)
{
    unsigned seed = test_seed();

    for (int round = 0; round < 200; round++) {
        mrd_ring_reader *r = NULL;
        mrd_ring_event ev;
        mrd_why why;
        pthread_t t;

        make_ring(100);
        if (open_ring(&r, &why) != MRD_OK)
            r = NULL;
        scribbling = true;
        pthread_create(&t, NULL, scribble, &seed);
        for (int i = 0; r != NULL && i < 2000; i++) {
            mrd_ring_step step = mrd_ring_next(r, &ev, &why);
            mrd_ring_items items = { ev.body, ev.body_len };
            mrd_ring_arg arg;

            if (step == MRD_RING_BAD || step == MRD_RING_END)
                break;
            while (step == MRD_RING_MORE && ev.kind != MRD_REC_BLOB &&
                   mrd_ring_item_next(&items, &arg))
                ;
            (void) mrd_ring_release(r);
        }
        scribbling = false;
        pthread_join(t, NULL);
        mrd_ring_close(r);
        drop_ring();
        seed++;
    }
}

static bool alarms;

/* Imitates tmpfs of Linux before 6.18 for the library linked into this program: a signal during the
 * call interrupts it. */
int
fallocate(int fd, int mode, off_t at, off_t len)
{
    sigset_t now;

    pthread_sigmask(SIG_BLOCK, NULL, &now);
    if (alarms && !sigismember(&now, SIGALRM)) {
        errno = EINTR;
        return -1;
    }
    return (int) syscall(SYS_fallocate, fd, mode, at, len);
}

/* A profiler's timer interrupts the creation of a ring. The ring is created nevertheless. */
TEST(signals_while_a_ring_is_made)
{
    mrd_ring_reader *r = NULL;
    mrd_why why = { 0 };
    sigset_t before, now;

    alarms = true;
    pthread_sigmask(SIG_BLOCK, NULL, &before);
    make_ring(3);
    pthread_sigmask(SIG_BLOCK, NULL, &now);
    CHECK(sigismember(&now, SIGALRM) == sigismember(&before, SIGALRM));
    CHECK_ERR(why.text, open_ring(&r, &why), MRD_OK);
    mrd_ring_close(r);
}

/* A signal handler records while its thread holds the lock and before there is a ring. Its event
 * has no ring, and the next event does not wait for it. */
TEST(a_handler_under_the_lock)
{
    snprintf(mrd_proc_settings.ring_dir, sizeof(mrd_proc_settings.ring_dir), "%s", test_tmp());
    REQUIRE(mrd_proc_lock());
    CHECK(mrd_proc_attach() == NULL);
    mrd_proc_unlock();
    CHECK_INT(mrd_proc_lost(), 1);
    CHECK(mrd_proc_attach() != NULL);
    CHECK_INT(mrd_proc_lost(), 1);
}

static void *
lose_in_a_full_ring(void *arg)
{
    mrd_ring_writer *w = mrd_proc_attach();

    (void) arg;
    if (w != NULL) {
        mrd_ring_lose(w->hdr, MRD_RING_LOST_FULL, 1, 1000);
        w->dict_used = w->dict_len;
    }
    return w;
}

static void *
attach(void *arg)
{
    (void) arg;
    return mrd_proc_attach();
}

/* A ring with a full dictionary is not reused by a second thread. Its losses stay counted, also for
 * a handler that may not access the rings. */
TEST(losses_of_a_ring_that_is_gone)
{
    uint64_t before;
    pthread_t t;
    void *had;

    snprintf(mrd_proc_settings.ring_dir, sizeof(mrd_proc_settings.ring_dir), "%s", test_tmp());
    REQUIRE(mrd_proc_writer() != NULL);
    before = mrd_proc_lost();
    REQUIRE(pthread_create(&t, NULL, lose_in_a_full_ring, NULL) == 0);
    pthread_join(t, &had);
    REQUIRE(had != NULL);
    CHECK_INT(mrd_proc_lost(), before + 1000);
    REQUIRE(pthread_create(&t, NULL, attach, NULL) == 0);
    pthread_join(t, &had);
    CHECK(had != NULL);
    CHECK_INT(mrd_proc_lost(), before + 1000);
    REQUIRE(mrd_proc_lock());
    CHECK_INT(mrd_proc_lost(), before + 1000);
    mrd_proc_unlock();
}

/* After a fork, the child cannot end spans of its parent, and its own spans have other ids. */
TEST(a_child_of_fork_ends_its_own)
{
    mrd_frame *frame = mrd_frame_create(NULL, "frame"), *other = mrd_frame_create(NULL, "other");
    uint64_t id, own, head;
    int status = -1;
    pid_t pid;

    snprintf(mrd_proc_settings.ring_dir, sizeof(mrd_proc_settings.ring_dir), "%s", test_tmp());
    CHECK_INT(mrd_set_state(1), MERIDIAN_OK);
    CHECK((id = mrd_span_begin(NULL, "begun before", NULL, 0)) != 0);
    CHECK_INT(mrd_frame_start(frame), MERIDIAN_OK);
    CHECK_INT(mrd_frame_start(other), MERIDIAN_OK);
    REQUIRE((pid = fork()) >= 0);
    if (pid == 0) {
        test_failures = 0;
        own = mrd_span_begin(NULL, "begun in the child", NULL, 0);
        CHECK(own != 0 && own != id);
        head = mrd_tls_writer->head;
        mrd_span_end(id, NULL, 0);
        CHECK_INT(mrd_tls_writer->head, head);
        CHECK_INT(mrd_frame_stop(frame), MERIDIAN_STATE);
        CHECK_INT(mrd_tls_writer->head, head);
        CHECK_INT(mrd_frame_count(frame), 0);
        CHECK_INT(mrd_frame_start(other), MERIDIAN_OK);
        CHECK_INT(mrd_frame_start(other), MERIDIAN_STATE);
        CHECK_INT(mrd_frame_stop(other), MERIDIAN_OK);
        head = mrd_tls_writer->head;
        mrd_span_end(own, NULL, 0);
        CHECK(mrd_tls_writer->head > head);
        _exit(test_failures != 0);
    }
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK_INT(status, 0);
    CHECK_INT(mrd_frame_stop(frame), MERIDIAN_OK);
    CHECK_INT(mrd_frame_stop(other), MERIDIAN_OK);
    head = mrd_tls_writer->head;
    mrd_span_end(id, NULL, 0);
    CHECK(mrd_tls_writer->head > head);
    CHECK_INT(mrd_set_state(0), MERIDIAN_OK);
    mrd_frame_destroy(frame);
    mrd_frame_destroy(other);
}

TEST_MAIN()
