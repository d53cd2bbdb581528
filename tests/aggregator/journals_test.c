/* Tests the thread that writes journals. The amount that it writes before a sync is limited, and it
 * reports a frame as stored only after its sync. */
#undef _FORTIFY_SOURCE /* its inline functions have the names defined here */
#include "tests/check.h"
#include "tests/wait.h"

#include <errno.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "aggregator/store/journals.h"

#define FRAMES 200u
#define BODY   (200u << 10)

/* State of the writer's thread. */
static uint64_t ahead, most;
static unsigned syncs, fail_at;

ssize_t
pwritev(int fd, const struct iovec *iov, int n, off_t at)
{
    ssize_t wrote = syscall(SYS_pwritev, fd, iov, n, at, 0);

    ahead += wrote > 0 ? (uint64_t) wrote : 0;
    most = ahead > most ? ahead : most;
    return wrote;
}

int
fdatasync(int fd)
{
    ahead = 0;
    if (++syncs == fail_at) {
        errno = EIO;
        return -1;
    }
    return (int) syscall(SYS_fdatasync, fd);
}

static struct {
    unsigned reported; /* atomic */
    bool stored[FRAMES];
} seen;

static void
on_stored(void *self, uint64_t ticket, const mrd_why *failed)
{
    (void) self;
    seen.stored[ticket] = failed == NULL;
    __atomic_add_fetch(&seen.reported, 1, __ATOMIC_RELEASE);
}

static void
on_closed(void *self, uint64_t session)
{
    (void) self;
    (void) session;
}

static void
append(mrd_journals *w, const char *dir, uint64_t seq)
{
    mrd_frame f = { .type = MRD_FRAME_CLOCK_DATA, .epoch = 7, .session = 5, .seq = seq };
    size_t len = MRD_FRAME_HEADER + BODY;
    uint8_t *data = malloc(len);
    mrd_journals_frame one = { .ticket = seq,
                               .session = 5,
                               .journal = 1,
                               .instance_id = "i-1",
                               .dir = seq == 0 ? strdup(dir) : NULL,
                               .data = { data, len },
                               .owned = data };

    REQUIRE(data != NULL);
    memset(data, (int) seq, len);
    mrd_frame_put(&f, (mrd_bytes){ data + MRD_FRAME_HEADER, BODY }, data);
    one.frame = f;
    CHECK_ERR("append", mrd_journals_append(w, &one), MRD_OK);
}

/* Many large frames of one node are pending together. */
static void
run(mrd_sync sync, unsigned failing, unsigned *ret_stored)
{
    char store[300], dir[400];
    mrd_journals_options o = { .stored = on_stored, .closed = on_closed };
    mrd_session_store s;
    mrd_timescale scale;
    mrd_journal_index x;
    mrd_journals *w;

    memset(&seen, 0, sizeof(seen));
    ahead = most = 0;
    syncs = 0;
    snprintf(store, sizeof(store), "%s/%d-%u", test_tmp(), (int) sync, failing);
    snprintf(dir, sizeof(dir), "%s/sessions/5/journal/i-1", store);
    CHECK_ERR("store", mrd_session_store_open(&s, store, sync, &scale, NULL), MRD_OK);
    o.store = &s;
    fail_at = failing;
    CHECK_ERR("journals", mrd_journals_open(&o, &w, NULL), MRD_OK);
    for (unsigned i = 0; i < FRAMES; i++)
        append(w, dir, i);
    TEST_UNTIL(__atomic_load_n(&seen.reported, __ATOMIC_ACQUIRE) == FRAMES);
    fail_at = 0;
    mrd_journals_close(w);
    REQUIRE(mrd_journal_scan(dir, &x, NULL) == MRD_OK);
    *ret_stored = 0;
    for (unsigned i = 0; i < FRAMES; i++) {
        bool found = false;

        for (size_t k = 0; k < x.n; k++)
            found = found || x.entries[k].frame.seq == i;
        CHECK(found || !seen.stored[i]);
        *ret_stored += seen.stored[i];
    }
    mrd_journal_index_fini(&x);
    mrd_session_store_fini(&s);
}

/* A segment never has more than MRD_JOURNAL_TAIL unsynced bytes. So an aggregator that starts after
 * a crash has to write only this much of each segment again. */
TEST(no_more_than_the_tail_is_ahead_of_a_sync)
{
    unsigned stored;

    run(MRD_SYNC_GROUP, 0, &stored);
    CHECK_INT(stored, FRAMES);
    CHECK(most <= MRD_JOURNAL_TAIL);
    CHECK(most > BODY); /* and they do share syncs */
}

TEST(a_sync_amid_a_group_that_fails_is_reported)
{
    for (unsigned at = 1; at < 4; at++) {
        unsigned stored;

        run(MRD_SYNC_GROUP, at, &stored);
        CHECK(stored < FRAMES);
    }
}

/* Without syncs there is no limit, and no sync is made because of it. */
TEST(without_syncs_nothing_is_synced_in_between)
{
    unsigned stored;

    run(MRD_SYNC_NONE, 0, &stored);
    CHECK_INT(stored, FRAMES);
    CHECK(syncs <= 1); /* at the end */
}

TEST_MAIN()
