/* Tests the publisher, which sends the frames of the spool to the aggregator
 * (agent/link/publish.h). The connection is simulated. The tests check when its next turn is due,
 * and what happens if the spool cannot be read. */
#include "agent/link/publish.h"

#include <errno.h>
#include <sys/syscall.h>

#include "tests/check.h"

static int fail_read; /* an errno, -1 for the end of the file */

/* Replaces the function of the C library. */
ssize_t
pread(int fd, void *to, size_t len, off_t at)
{
    if (fail_read > 0)
        errno = fail_read;
    return fail_read > 0 ? -1 : fail_read < 0 ? 0 : syscall(SYS_pread64, fd, to, len, at);
}

typedef struct {
    mrd_transport pub; /* first */
    mrd_link_event events[8];
    mrd_buf frames[8];
    size_t n, given;
    uint64_t tags[8]; /* tags of the submitted frames, without hellos and heartbeats */
    size_t sent, answered;
    unsigned window;
} played;

static played *
of(mrd_transport *t)
{
    return (played *) t;
}

static mrd_err
submit(mrd_transport *t, uint64_t tag, mrd_bytes frame)
{
    (void) frame;
    of(t)->tags[of(t)->sent++ % 8] = tag;
    return MRD_OK;
}

static mrd_err
submit_urgent(mrd_transport *t, uint64_t tag, mrd_bytes frame)
{
    (void) t, (void) tag, (void) frame;
    return MRD_OK;
}

static unsigned
free_slots(mrd_transport *t)
{
    return of(t)->window - (unsigned) (of(t)->sent - of(t)->answered);
}

static bool
next(mrd_transport *t, int timeout_ms, mrd_link_event *ret_event)
{
    (void) timeout_ms;
    if (of(t)->given == of(t)->n)
        return false;
    *ret_event = of(t)->events[of(t)->given++];
    return true;
}

static void
done(mrd_transport *t, mrd_link_event *event)
{
    (void) t, (void) event;
}

static void
arrives(played *t, mrd_link_kind kind, uint64_t tag, uint8_t type, const void *message)
{
    mrd_frame f = { .type = type };

    if (message != NULL)
        CHECK_ERR("pack", mrd_msg_pack(&f, message, &t->frames[t->n], NULL), MRD_OK);
    t->events[t->n] = (mrd_link_event){ .kind = kind,
                                        .tag = tag,
                                        .data = { t->frames[t->n].p, t->frames[t->n].len } };
    t->n++;
}

static mrd_err
pack(void *self, mrd_buf *to)
{
    (void) self;
    mrd_buf_add(to, "x", 1);
    return to->err;
}

static void
sessions_known(void *self, bool all)
{
    (void) self, (void) all;
}

static void
welcome(void *self, const Mrd__Welcome *w)
{
    (void) self, (void) w;
}

static void
add(mrd_spool *s, uint64_t seq)
{
    mrd_frame f = { .type = MRD_FRAME_CLOCK_DATA,
                    .agent = 1,
                    .epoch = mrd_spool_epoch(s),
                    .session = 5,
                    .seq = seq };
    uint8_t frame[MRD_FRAME_HEADER + 8] = { 0 };

    mrd_frame_put(&f, (mrd_bytes){ frame + MRD_FRAME_HEADER, 8 }, frame);
    CHECK_ERR("add", mrd_spool_add(s, (mrd_bytes){ frame, sizeof(frame) }, 0, NULL), MRD_OK);
    CHECK_ERR("commit", mrd_spool_commit(s, NULL, 0, NULL), MRD_OK);
}

static played
play(unsigned window)
{
    return (played){ .pub = { .submit = submit,
                              .submit_urgent = submit_urgent,
                              .free_slots = free_slots,
                              .next = next,
                              .done = done },
                     .window = window };
}

static char last_refused[MRD_WHY_MAX];
static unsigned n_refused;

static void
refused(void *self, const mrd_spool_item *item, const char *message)
{
    (void) self, (void) item;
    n_refused++;
    snprintf(last_refused, sizeof(last_refused), "%s", message);
}

/* Opens a publisher with n frames in its spool, and connects it. */
static mrd_publish *
connected(played *t, unsigned n, mrd_publish_options *o, mrd_local_ns now)
{
    Mrd__Welcome w = MRD__WELCOME__INIT;
    mrd_publish *p = NULL;

    *o = (mrd_publish_options){ .transport = &t->pub,
                                .agent = 1,
                                .hello = pack,
                                .heartbeat = pack,
                                .welcome = welcome,
                                .sessions_known = sessions_known,
                                .refused = refused };
    CHECK_ERR(
        "spool",
        mrd_spool_open(&(mrd_spool_options){ .max_bytes = MRD_SPOOL_MIN_BYTES }, &o->spool, NULL),
        MRD_OK);
    for (unsigned i = 0; i < n; i++)
        add(o->spool, i);
    CHECK_ERR("publish", mrd_publish_open(o, &p, NULL), MRD_OK);
    arrives(t, MRD_LINK_UP, 0, 0, NULL);
    mrd_publish_step(p, now);
    arrives(t, MRD_LINK_REPLY, 1ull << 61, MRD_FRAME_WELCOME, &w); /* to the hello */
    mrd_publish_step(p, now);
    return p;
}

static void
end(played *t, mrd_publish *p, const mrd_publish_options *o)
{
    mrd_publish_close(p);
    mrd_spool_close(o->spool);
    for (size_t i = 0; i < t->n; i++)
        mrd_buf_fini(&t->frames[i]);
}

/* A frame must be resent, but the connection has no free slot. Only a reply can change that, so
 * next_ns must not be in the past. Otherwise the loop would spin. */
TEST(without_a_slot_nothing_is_due)
{
    played t = play(1);
    mrd_publish_options o;
    Mrd__Ack later = MRD__ACK__INIT;
    mrd_local_ns now = mrd_local_now();
    mrd_publish *p = connected(&t, 2, &o, now);

    CHECK_INT(t.sent, 1);
    later.status = MRD__ACK_STATUS__ACK_NOT_STORED;
    later.retry_after_ms = 1;
    t.answered++;
    arrives(&t, MRD_LINK_REPLY, t.tags[0], MRD_FRAME_ACK, &later);
    mrd_publish_step(p, now);
    CHECK_INT(t.sent, 2); /* the second frame has the slot now */
    now = mrd_local_now();
    while (mrd_local_before(mrd_local_now(), mrd_local_add(now, 5 * MRD_MS)))
        ;
    now = mrd_local_now();
    mrd_publish_step(p, now);
    CHECK_INT(t.sent, 2);
    CHECK(mrd_local_after(mrd_publish_next_ns(p), now)); /* the due work was done */
    t.answered++;
    arrives(&t, MRD_LINK_REPLY, t.tags[1], MRD_FRAME_ACK, &later);
    CHECK(!mrd_local_after(mrd_publish_next_ns(p), mrd_local_now())); /* there is a slot again */
    end(&t, p, &o);
}

/* A disk error may be temporary, so the agent retries the frames. It drops a frame immediately if
 * the file was truncated, and after ten minutes if the frame is still unreadable. */
TEST(frames_that_cannot_be_read)
{
    static const struct {
        int how;
        int64_t after_s; /* when the disk is well again. 0 means never */
        unsigned sent, refused;
        const char *why;
    } rows[] = { { EIO, 300, 2, 0, "" },
                 { ENOMEM, 1, 2, 0, "" },
                 { EIO, 0, 0, 2, "Input/output error" },
                 { -1, 300, 0, 2, "ends before its frame" } };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        played t = play(4);
        mrd_publish_options o;
        mrd_local_ns now = mrd_local_now();
        mrd_publish *p;

        n_refused = 0;
        last_refused[0] = '\0';
        fail_read = rows[i].how;
        p = connected(&t, 2, &o, now);
        CHECK(n_refused == (rows[i].how < 0 ? 2 : 0));
        for (int64_t s = 1; s < 700; s++) {
            mrd_local_ns at = mrd_local_add(now, s * MRD_SEC + MRD_MS);

            if (s == rows[i].after_s)
                fail_read = 0;
            mrd_publish_step(p, at);
            CHECK(mrd_local_after(mrd_publish_next_ns(p), at) || t.sent > 0);
        }
        CHECK_INT(t.sent, rows[i].sent);
        CHECK_INT(n_refused, rows[i].refused);
        CHECK(strstr(last_refused, rows[i].why) != NULL);
        fail_read = 0;
        end(&t, p, &o);
    }
}

TEST_MAIN()
