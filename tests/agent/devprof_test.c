/* Tests the captures that sessions request from the runtimes (agent/neuron/devprof.h): the status
 * of each session, for any number of sessions, and requests that a process could not read. */
#include "agent/neuron/devprof.h"

#include <stdio.h>

#include "tests/agent/ring_make.h"

typedef struct {
    mrd_spool *spool;
    mrd_drain *drain;
    mrd_record *record;
    mrd_model_table *models;
    mrd_devprof *d;
    maker *ring;
    mrd_drain_process *process;
} fixture;

static mrd_err
event(void *self, mrd_drain_process *process, unsigned clock, const mrd_event *ev)
{
    (void) self, (void) process, (void) clock, (void) ev;
    return MRD_OK;
}

static void
seen(void *self, mrd_drain_process *process)
{
    ((fixture *) self)->process = process->gone ? NULL : process;
}

static void
dropped(void *self, const mrd_spool_item *item)
{
    (void) self, (void) item;
}

static void
set_up(fixture *f)
{
    mrd_drain_options d = { .instance_id = "i-0",
                            .ring_dir = test_tmp(),
                            .only_uid = -1,
                            .event = event,
                            .process = seen,
                            .self = f };
    mrd_record_options o = { .agent = 1, .boot_id = "b", .boot = 1 };

    memset(f, 0, sizeof(*f));
    f->ring = make_ring(test_tmp(), getpid(), make_start_ticks(getpid()), getpid(), 65536);
    CHECK_ERR("drain", mrd_drain_open(&d, &f->drain, NULL), MRD_OK);
    CHECK_ERR(
        "spool",
        mrd_spool_open(&(mrd_spool_options){ .max_bytes = MRD_SPOOL_MIN_BYTES, .dropped = dropped },
                       &f->spool, NULL),
        MRD_OK);
    o.spool = f->spool;
    o.drain = f->drain;
    CHECK_ERR("record", mrd_record_open(&o, &f->record, NULL), MRD_OK);
    CHECK_ERR("models", mrd_model_table_open(NULL, "b", "/proc", f->record, &f->models, NULL),
              MRD_OK);
    CHECK_ERR("devprof", mrd_devprof_open(f->record, f->drain, f->models, "i-0", &f->d, NULL),
              MRD_OK);
    (void) mrd_drain_step(f->drain);
    MRD_ASSERT(f->process != NULL);
}

static void
tear_down(fixture *f)
{
    mrd_devprof_close(f->d);
    mrd_model_table_close(f->models);
    mrd_record_close(f->record);
    mrd_drain_close(f->drain);
    mrd_spool_close(f->spool);
    make_free(f->ring);
}

/* models: the patterns of --profile-model, "" for none. */
static void
go(fixture *f, uint64_t session, const char *models)
{
    char mode_key[] = "device_profiles", mode[] = "model", key[] = "profile_model", words[9000];
    Mrd__Label one = MRD__LABEL__INIT, label[200], *list[201] = { &one };
    Mrd__Control c = MRD__CONTROL__INIT;
    char *save = NULL;

    one.key = mode_key;
    one.value = mode;
    c.options = list;
    c.n_options = 1;
    snprintf(words, sizeof(words), "%s", models);
    for (char *w = strtok_r(words, ",", &save); w != NULL; w = strtok_r(NULL, ",", &save)) {
        Mrd__Label *l = &label[c.n_options - 1];

        mrd__label__init(l);
        l->key = key;
        l->value = w;
        list[c.n_options++] = l;
    }
    c.session = session;
    CHECK_ERR("go", mrd_record_go(f->record, &c, mrd_local_now(), 0, NULL), MRD_OK);
    mrd_devprof_step(f->d, mrd_local_now());
}

/* Passes a notice of libmeridian to the agent. A `core` of -1 means the whole request. */
static void
answer(fixture *f, uint64_t session, const char *what, int core)
{
    mrd_catalog *cat = f->process->catalog;
    mrd_arg args[2] = {
        { .key = mrd_catalog_intern(cat, "request"), .type = MRD_ARG_UINT, .v.u = session },
        { .key = mrd_catalog_intern(cat, "lnc_idx"), .type = MRD_ARG_INT, .v.i = core }
    };
    mrd_event ev = { .kind = MRD_INSTANT,
                     .name = mrd_catalog_intern(cat, what),
                     .args = args,
                     .arg_count = core < 0 ? 1 : 2 };

    CHECK(mrd_devprof_notice(f->d, f->process, &ev, mrd_local_now()));
}

static void
end(fixture *f, uint64_t session)
{
    CHECK_ERR("stop", mrd_record_stop(f->record, session, mrd_local_now()), MRD_OK);
    mrd_devprof_step(f->d, mrd_local_add(mrd_local_now(), MRD_MS));
    answer(f, session, "device profiles ended", -1);
}

static size_t
results(const fixture *f, uint64_t session, size_t *ret_written)
{
    mrd_devprof_result r;
    size_t n = 0;

    for (*ret_written = 0; mrd_devprof_get(f->d, session, n, &r); n++)
        *ret_written += r.count;
    return n;
}

/* Several sessions follow each other within a minute, on a node with many cores. The results of
 * each session must be kept, up to MRD_DEVPROF_RESULTS per session. */
TEST(each_session_has_room_for_its_own_answers)
{
    size_t written;
    fixture f;

    set_up(&f);
    for (uint64_t session = 1; session <= 3; session++) {
        go(&f, session, "");
        answer(&f, session, "device profiles armed", -1);
        for (int core = 0; core < 200; core++)
            answer(&f, session, "device profile written", core);
        end(&f, session);
    }
    for (uint64_t session = 1; session <= 3; session++) {
        CHECK_INT(results(&f, session, &written), 201);
        CHECK_INT(written, 200);
    }
    go(&f, 4, "");
    for (int core = 0; core < 1000; core++)
        answer(&f, 4, "device profile written", core);
    CHECK_INT(results(&f, 4, &written), MRD_DEVPROF_RESULTS);
    CHECK_INT(results(&f, 2, &written), 201);
    tear_down(&f);
}

/* Many sessions begin and end during a long session. Their results must not replace the time at
 * which the newest device profile of the long session was written. */
TEST(when_the_newest_file_came_stays_known_of_a_long_session)
{
    int64_t since;
    fixture f;

    set_up(&f);
    go(&f, 1, "");
    answer(&f, 1, "device profile written", 0);
    answer(&f, 1, "device profiles given up", -1); /* the program had priority */
    CHECK(!mrd_devprof_pending(f.d, 1, &since) && since > 0);
    for (uint64_t session = 2; session < 60; session++) {
        go(&f, session, "");
        answer(&f, session, "device profile written", 0);
        end(&f, session);
        mrd_record_cancel(f.record, session);
        mrd_devprof_step(f.d, mrd_local_now());
        (void) mrd_devprof_pending(f.d, 1, &since);
        CHECK(since > 0);
    }
    tear_down(&f);
}

/* The request lists more hashes of 64 digits than libmeridian accepts. libmeridian would not answer
 * such a request, so the agent must not write it. */
TEST(a_request_that_a_process_cannot_read_is_refused_with_the_reason)
{
    static char hashes[20 * 65 + 1];
    mrd_devprof_result r;
    fixture f;

    for (int i = 0; i < 20; i++)
        snprintf(hashes + i * 65, 66, "%064x,", i);
    set_up(&f);
    go(&f, 1, hashes);
    REQUIRE(mrd_devprof_get(f.d, 1, 0, &r));
    CHECK_TEXT(r.state, "refused");
    CHECK(strstr(r.message, "choose fewer") != NULL);
    hashes[10 * 65] = '\0';
    go(&f, 2, hashes);
    REQUIRE(mrd_devprof_get(f.d, 2, 0, &r));
    CHECK_TEXT(r.state, "asked");
    tear_down(&f);
}

TEST_MAIN()
