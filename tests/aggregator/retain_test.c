/* Retention by age and size, with a clock that is a number. */
#include "tests/check.h"

#include "aggregator/hub.h"

#define HOUR (3600 * MRD_SEC)

/* A session of so many bytes that began at `hour`. */
static hub_session *
session(hub *h, uint64_t id, int hour, uint64_t bytes, session_state state)
{
    hub_session *s = calloc(1, sizeof(*s)), **v;
    hub_node node = { .instance_id = "i-1" };

    s->id = id;
    mrd_session_id_text(id, s->text);
    s->created_wall_ns = hour * HOUR;
    s->state = state;
    hub_part_add(s, &node)->bytes = bytes;
    v = realloc(h->sessions, (h->n_sessions + 1) * sizeof(*v));
    h->sessions = v;
    h->sessions[h->n_sessions++] = s;
    return s;
}

static hub *
store(int64_t retain_ns, int64_t retain_bytes)
{
    hub *h = calloc(1, sizeof(*h));

    CHECK_ERR("hub", hub_init(h, test_tmp(), NULL), MRD_OK);
    h->limits.retain_ns = retain_ns;
    h->limits.retain_bytes = retain_bytes;
    return h;
}

static void
close_store(hub *h)
{
    hub_fini(h);
    free(h);
}

TEST(by_age_only_what_is_over)
{
    hub *h = store(24 * HOUR, 0);
    hub_session *old = session(h, 1, 0, 10, SESSION_COMPLETE);
    hub_session *failed = session(h, 2, 0, 10, SESSION_FAILED);
    hub_session *young = session(h, 3, 10, 10, SESSION_COMPLETE);
    hub_session *running = session(h, 4, 0, 10, SESSION_RECORDING);
    hub_session *stopping = session(h, 5, 0, 10, SESSION_STOPPING);
    hub_session *merging = session(h, 6, 0, 10, SESSION_MERGING);

    control_retain(h, 24 * HOUR);
    CHECK(!old->deleted); /* not older yet */
    control_retain(h, 24 * HOUR + 1);
    CHECK(old->deleted && failed->deleted && !young->deleted);
    control_retain(h, 1000 * HOUR);
    CHECK(young->deleted);
    CHECK(!running->deleted && !stopping->deleted && !merging->deleted);
    running->state = SESSION_COMPLETE;
    control_retain(h, 1000 * HOUR);
    CHECK(running->deleted);
    close_store(h);
}

TEST(by_size_the_oldest_first)
{
    hub *h = store(0, 100);
    hub_session *a = session(h, 1, 3, 40, SESSION_COMPLETE);
    hub_session *b = session(h, 2, 1, 40, SESSION_RECORDING); /* the oldest, but it runs */
    hub_session *c = session(h, 3, 2, 40, SESSION_COMPLETE);
    hub_session *d = session(h, 4, 4, 20, SESSION_COMPLETE);

    control_retain(h, 5 * HOUR);
    CHECK(c->deleted && !a->deleted && !b->deleted && !d->deleted);
    control_retain(h, 5 * HOUR); /* what goes is not counted again */
    CHECK(!a->deleted && !d->deleted);
    b->parts[0]->bytes = 1000; /* it alone is too much: the others go, it stays */
    control_retain(h, 5 * HOUR);
    CHECK(a->deleted && d->deleted && !b->deleted);
    close_store(h);
}

TEST(what_is_being_sent_stays_until_it_was)
{
    hub *h = store(HOUR, 1);
    hub_session *s = session(h, 1, 0, 10, SESSION_COMPLETE);

    s->served = 2;
    control_retain(h, 100 * HOUR);
    CHECK(!s->deleted);
    s->served = 0;
    control_retain(h, 100 * HOUR);
    CHECK(s->deleted);
    close_store(h);
}

TEST_MAIN()
