/* Tests which events belong to a session (agent/record/record.h), for events near its start and its
 * stop, of each kind and clock. Also tests the status of a session after a commit. */
#include "agent/record/record.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/check.h"

typedef struct {
    mrd_spool *spool;
    mrd_drain *drain;
    mrd_record *record;
    mrd_drain_process process;
    mrd_track_id track;
    int64_t start_ns, off_ns; /* REALTIME - RAW */
    /* number of events given to the recorder: so far, and at the time of the last commit */
    uint64_t given, told;
} fixture;

static mrd_err
nothing(void *self, mrd_drain_process *process, unsigned clock, const mrd_event *ev)
{
    (void) self, (void) process, (void) clock, (void) ev;
    return MRD_OK;
}

static void
dropped(void *self, const mrd_spool_item *item)
{
    (void) self, (void) item;
}

/* Reports the position in the trace file for the commit: the number of events that the test gave to
 * the recorder. */
static void
tell_position(void *self, void (*call)(void *to, uint64_t key, uint64_t value), void *to)
{
    fixture *f = self;

    f->told = f->given;
    call(to, 1, f->given);
}

/* `dir` is the directory of the spool, NULL for a spool in memory. `boot` is the id of the
 * machine's boot. */
static void
setup_in(fixture *f, const char *dir, uint32_t boot)
{
    mrd_drain_options d = {
        .instance_id = "i-0", .ring_dir = test_tmp(), .only_uid = -1, .event = nothing
    };
    mrd_record_options o = { .agent = 1, .boot_id = boot == 1 ? "b" : "c", .boot = boot };
    mrd_process p;
    mrd_track t;
    size_t n;

    memset(f, 0, sizeof(*f));
    CHECK_ERR("drain", mrd_drain_open(&d, &f->drain, NULL), MRD_OK);
    CHECK_ERR("spool",
              mrd_spool_open(
                  &(mrd_spool_options){
                      .dir = dir, .max_bytes = MRD_SPOOL_MIN_BYTES, .dropped = dropped, .self = f },
                  &f->spool, NULL),
              MRD_OK);
    o.files = tell_position;
    o.files_self = f;
    o.spool = f->spool;
    o.drain = f->drain;
    CHECK_ERR("record", mrd_record_open(&o, &f->record, NULL), MRD_OK);
    f->process.catalog = mrd_catalog_new();
    mrd_ident_init(&f->process.ident);
    mrd_process_init(&p);
    p.instance_id = mrd_catalog_intern(f->process.catalog, "i-0");
    f->process.id = mrd_catalog_process(f->process.catalog, &p);
    mrd_track_init(&t, f->process.id, MRD_SRC_ANNOTATION);
    f->track = mrd_catalog_track(f->process.catalog, &t);
    f->off_ns = mrd_drain_crosses(f->drain, &n)->other.ns - mrd_drain_crosses(f->drain, &n)->raw.ns;
    f->start_ns = mrd_local_now().ns;
}

static void
setup(fixture *f)
{
    setup_in(f, NULL, 1);
}

static void
teardown(fixture *f)
{
    mrd_record_process_gone(f->record, &f->process);
    mrd_record_close(f->record);
    mrd_drain_close(f->drain);
    mrd_spool_close(f->spool);
    mrd_catalog_free(f->process.catalog);
}

static void
give(fixture *f, mrd_event_kind kind, unsigned clock, int64_t at, int64_t dur)
{
    mrd_event ev = { .kind = (uint8_t) kind, .dur_ns = dur, .track = f->track, .ivalue = 7 };

    f->given++;
    ev.ts = (mrd_ev_ns){ f->start_ns + at + (clock == MRD_DRAIN_REALTIME ? f->off_ns : 0) };
    ev.name = mrd_catalog_intern(f->process.catalog, kind == MRD_LOSS ? "runtime-ring" : "x");
    ev.flow_dir = MRD_FLOW_START;
    ev.flags = kind == MRD_COUNTER ? MRD_EV_INT : 0;
    CHECK_ERR("event", mrd_record_event(f->record, &f->process, clock, &ev), MRD_OK);
}

TEST(nothing_of_before_the_session_gets_in)
{
    enum { SEC = 1000000000 };
    static const struct {
        mrd_event_kind kind;
        int64_t at, dur;
        uint64_t begun; /* expected number of events in a session of 10 s */
    } rows[] = { { MRD_SPAN, -9, 8, 0 },    { MRD_SPAN, -9, 10, 1 },  { MRD_SPAN, 11, 1, 0 },
                 { MRD_INSTANT, -1, 0, 0 }, { MRD_INSTANT, 1, 0, 1 }, { MRD_INSTANT, 11, 0, 0 },
                 { MRD_COUNTER, -1, 0, 0 }, { MRD_COUNTER, 1, 0, 1 }, { MRD_COUNTER, 11, 0, 0 },
                 { MRD_FLOW, -1, 0, 0 },    { MRD_FLOW, 1, 0, 1 },    { MRD_FLOW, 11, 0, 0 },
                 { MRD_LOSS, -9, 8, 0 },    { MRD_LOSS, -9, 10, 7 },  { MRD_LOSS, 9, 9, 7 },
                 { MRD_LOSS, 11, 5, 0 } };

    for (int recorder = 0; recorder < 2; recorder++)
        for (unsigned clock = MRD_DRAIN_RAW; clock <= MRD_DRAIN_REALTIME; clock++)
            for (size_t i = 0; i < MRD_COUNT(rows); i++) {
                Mrd__Control c = MRD__CONTROL__INIT;
                mrd_record_status st;
                fixture f;

                setup(&f);
                c.session = 5;
                c.mode =
                    recorder ? MRD__SESSION_MODE__MODE_RECORDER : MRD__SESSION_MODE__MODE_STREAM;
                /* no session takes it yet */
                give(&f, rows[i].kind, clock, rows[i].at * SEC, rows[i].dur * SEC);
                CHECK_ERR("go", mrd_record_go(f.record, &c, (mrd_local_ns){ f.start_ns }, 0, NULL),
                          MRD_OK);
                CHECK_ERR("stop",
                          mrd_record_stop(f.record, 5, (mrd_local_ns){ f.start_ns + 10ll * SEC }),
                          MRD_OK);
                give(&f, rows[i].kind, clock, rows[i].at * SEC, rows[i].dur * SEC);
                REQUIRE(mrd_record_find(f.record, 5, &st));
                CHECK_INT(st.begun, rows[i].begun);
                CHECK_INT(st.begun, st.held + st.drops[MRD_DROP_RUNTIME].count);
                if (rows[i].kind == MRD_LOSS &&
                    rows[i].begun > 0) { /* the event's times belong to the session */
                    REQUIRE(st.gaps.n == 1 && st.gaps.v[0].marked);
                    CHECK(st.gaps.v[0].first.ns >= f.start_ns);
                    CHECK(st.gaps.v[0].last.ns <= f.start_ns + 10ll * SEC);
                    CHECK(st.drops[MRD_DROP_RUNTIME].first.ns >= f.start_ns);
                }
                teardown(&f);
            }
}

/* The reported time never lies before the start of the session and never moves back. */
TEST(what_was_held_is_said_from_its_first_instant_on)
{
    fixture f;
    Mrd__Control c = MRD__CONTROL__INIT;
    mrd_record_status st;
    int64_t start, told;

    setup(&f);
    start = f.start_ns - MRD_SEC;
    c.session = 5;
    CHECK_ERR("go", mrd_record_go(f.record, &c, (mrd_local_ns){ start }, 0, NULL), MRD_OK);
    REQUIRE(mrd_record_find(f.record, 5, &st));
    told = st.reported.ns;
    CHECK(told >= f.start_ns);
    for (size_t i = 0; i < 4; i++) {
        const int64_t from[] = { INT64_MAX, start + 10, 0, start + 20 };
        const int64_t said[] = { told, start + 10, start, start };

        mrd_record_whole(f.record, 5, (mrd_local_ns){ from[i] });
        REQUIRE(mrd_record_find(f.record, 5, &st));
        CHECK_INT(st.reported.ns, said[i]);
    }
    teardown(&f);
}

/* A trigger from a process opens windows only in the flight recorders that record this process. */
TEST(a_reason_stays_with_the_sessions_of_its_process)
{
    static const struct {
        const char *row, *job, *space;
        bool recorder, told;
    } rows[] = { { "its own recorder", "train", "a", true, true },
                 { "a recorder of all", NULL, NULL, true, true },
                 { "another namespace's", "train", "b", true, false },
                 { "another job's", "other", "a", true, false },
                 { "its own stream", "train", "a", false, false } };
    fixture f;

    setup(&f);
    mrd_jobid_parse(&f.process.ident.jobid, MRD_STR("job=train\nnamespace=a\nuid=5\n"));
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        Mrd__Selection select = MRD__SELECTION__INIT;
        Mrd__Control c = MRD__CONTROL__INIT;
        char *jobs[] = { (char *) (uintptr_t) rows[i].job };
        char *spaces[] = { (char *) (uintptr_t) rows[i].space };

        select.jobs = jobs;
        select.namespaces = spaces;
        select.n_jobs = select.n_namespaces = rows[i].job != NULL;
        c.select = &select;
        c.session = i + 1;
        c.mode =
            rows[i].recorder ? MRD__SESSION_MODE__MODE_RECORDER : MRD__SESSION_MODE__MODE_STREAM;
        CHECK_ERR("go", mrd_record_go(f.record, &c, (mrd_local_ns){ f.start_ns }, 0, NULL), MRD_OK);
    }
    mrd_record_report(f.record, 0, &f.process, "slow");
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_record_status st;

        REQUIRE(mrd_record_find(f.record, i + 1, &st));
        CHECK_ROW(rows[i].row, (strcmp(st.report, "slow") == 0) == rows[i].told);
    }
    teardown(&f);
}

/* The session of job 42 counts those processes of the job's user and namespace that no session
 * records. In the end a second session records all processes, so the count must be 0. */
TEST(a_session_counts_processes_that_no_session_selected)
{
    static const struct {
        const char *row, *identity;
        unsigned counted; /* expected count of the session of job 42 */
        const char *one;
    } rows[] = { { "the job", "job=42\nuid=5\n", 0, "" },
                 { "another user's", "job=50\nuid=6\n", 0, "" },
                 { "the user's in a namespace", "job=50\nuid=5\nnamespace=n\n", 0, "" },
                 { "another number", "job=43\nuid=5\n", 1, "python, pid 7, job 43" },
                 { "no job", "uid=5\n", 1, "python, pid 7, no job" } };

    for (size_t i = 0; i < MRD_COUNT(rows) * 2; i++) {
        size_t k = i / 2;
        char job[] = "42", none[] = "";
        char *jobs[] = { job }, *spaces[] = { none };
        int64_t uid = 5;
        Mrd__Selection select = MRD__SELECTION__INIT;
        Mrd__Control c = MRD__CONTROL__INIT;
        mrd_record_status st;
        fixture f;

        setup(&f);
        mrd_jobid_parse(&f.process.ident.jobid, mrd_str_of(rows[k].identity));
        snprintf(f.process.ident.comm, sizeof(f.process.ident.comm), "python");
        f.process.ident.pid = 7;
        f.process.ident.start_ticks = 1; /* the process has rings */
        select.jobs = jobs;
        select.uids = &uid;
        select.namespaces = spaces;
        select.n_jobs = select.n_uids = select.n_namespaces = 1;
        c.session = 1;
        if (i % 2 != 0) /* the process exists before the session begins */
            CHECK_ERR("seen", mrd_record_process_seen(f.record, &f.process), MRD_OK);
        c.select = &select;
        CHECK_ERR("go", mrd_record_go(f.record, &c, (mrd_local_ns){ f.start_ns }, 0, NULL), MRD_OK);
        if (i % 2 == 0)
            CHECK_ERR("seen", mrd_record_process_seen(f.record, &f.process), MRD_OK);
        REQUIRE(mrd_record_find(f.record, 1, &st));
        CHECK_ROW(rows[k].row, st.unselected == rows[k].counted);
        CHECK_ROW(rows[k].row, strcmp(st.unselected_one, rows[k].one) == 0);
        c.session = 2;
        c.select = NULL; /* all */
        CHECK_ERR("go", mrd_record_go(f.record, &c, (mrd_local_ns){ f.start_ns }, 0, NULL), MRD_OK);
        REQUIRE(mrd_record_find(f.record, 1, &st));
        CHECK_ROW(rows[k].row, st.unselected == 0 && st.unselected_one[0] == '\0');
        REQUIRE(mrd_record_find(f.record, 2, &st));
        CHECK_ROW(rows[k].row, st.unselected == 0);
        teardown(&f);
    }
}

/* Gives n events of 1 ms, one every 10 ms from `from` on. */
static void
give_some(fixture *f, int64_t from, int n)
{
    for (int i = 0; i < n; i++)
        give(f, MRD_SPAN, MRD_DRAIN_RAW, from + i * 10 * MRD_MS, MRD_MS);
}

static uint64_t
late_of(const fixture *f, uint64_t session)
{
    mrd_record_status st = { 0 };
    uint64_t sum;

    CHECK(mrd_record_find(f->record, session, &st));
    sum = st.delivered + st.held;
    for (int i = 0; i < MRD_DROP_CAUSES; i++)
        sum += st.drops[i].count;
    CHECK_INT(st.begun, sum);
    return st.drops[MRD_DROP_LATE].count;
}

/* Passes two answers of the aggregator, which listed all its sessions n times 3 seconds after the
 * start of the test. */
static void
known_again(const fixture *f, int n)
{
    mrd_record_sessions_known(f->record, (mrd_local_ns){ f->start_ns + n * 3 * MRD_SEC }, true);
    mrd_record_sessions_known(f->record, (mrd_local_ns){ f->start_ns + n * 3 * MRD_SEC + 1 }, true);
}

static uint64_t
late_after(fixture *f, uint64_t session, int64_t start)
{
    Mrd__Control c = MRD__CONTROL__INIT;

    c.session = session;
    CHECK_ERR("go", mrd_record_go(f->record, &c, (mrd_local_ns){ f->start_ns + start }, 0, NULL),
              MRD_OK);
    return late_of(f, session);
}

/* The node receives a session after it has read some of its events. These events are counted as
 * lost for this session, even if other sessions took them. Events that ended before the session
 * began do not belong to it. Neither do events that were read before the aggregator's
 * sessions_known. */
TEST(a_session_that_is_told_of_late_counts_what_it_missed)
{
    enum { S = 1000000000 };
    mrd_record_status st;
    char dir[600];
    fixture f;

    snprintf(dir, sizeof(dir), "%s/late", test_tmp());
    setup_in(&f, dir, 1);
    CHECK_ERR("file", mrd_record_file_seen(f.record, &f.process), MRD_OK);
    give_some(&f, -20ll * S, 100);
    give_some(&f, -10ll * S, 100);
    CHECK_INT(late_after(&f, 1, 1ll * S), 0);
    CHECK_INT(late_after(&f, 2, -15ll * S), 100);
    CHECK_INT(late_after(&f, 3, -30ll * S), 200);
    REQUIRE(mrd_record_find(f.record, 2, &st) && st.gaps.n == 1);
    CHECK(st.gaps.v[0].first.ns >= f.start_ns - 15ll * S &&
          st.gaps.v[0].first.ns <= f.start_ns - 9ll * S && !st.gaps.v[0].marked);
    /* Sessions 2 and 3 take these events. At first the batch with them is open. After the flush it
     * is closed. In both states, the events must count as lost for later sessions. */
    give_some(&f, -5ll * S, 50);
    CHECK_INT(late_after(&f, 4, -6ll * S), 50);
    mrd_record_flush(f.record);
    CHECK_INT(late_after(&f, 5, -6ll * S), 50);
    CHECK_INT(late_of(&f, 4), 50);
    known_again(&f, 1);
    /* The session may have begun when the aggregator made its list, so the events of that time still
     * count as lost. */
    CHECK_INT(late_after(&f, 6, -30ll * S), 250);
    known_again(&f, 2);
    CHECK_INT(late_after(&f, 7, -30ll * S), 0);
    mrd_record_flush(f.record);
    /* The aggregator cannot list a session at first. Its events stay known, however often the
     * aggregator answers. A session that begins later gets none of them. */
    give_some(&f, -5ll * S, 40);
    for (int i = 3; i < 9; i++)
        mrd_record_sessions_known(f.record, (mrd_local_ns){ f.start_ns + i * 3ll * S }, false);
    CHECK_INT(late_after(&f, 8, -6ll * S), 40);
    CHECK_INT(late_after(&f, 9, -1ll * S), 0);
    known_again(&f, 9);
    CHECK_INT(late_after(&f, 10, -6ll * S), 0);
    teardown(&f);
    setup_in(&f, dir, 1); /* a successor */
    CHECK_INT(late_after(&f, 2, -15ll * S), 100);
    REQUIRE(mrd_record_find(f.record, 2, &st));
    CHECK(st.drops[MRD_DROP_LATE].first.ns < f.start_ns - 9ll * S &&
          st.drops[MRD_DROP_LATE].first.ns != 0);
    teardown(&f);
}

/* A session that selects all events receives them on a fast path. Its count of the events of a
 * process must also be right after the process has exited. */
TEST(what_a_process_gave_is_known_when_it_is_gone)
{
    enum { S = 1000000000 };
    Mrd__Selection sel = MRD__SELECTION__INIT;
    Mrd__Control c = MRD__CONTROL__INIT;
    int64_t other = 4;
    fixture f;

    setup(&f);
    f.process.ident.pid = 3;
    CHECK_ERR("file", mrd_record_file_seen(f.record, &f.process), MRD_OK);
    CHECK_INT(late_after(&f, 1, -30ll * S), 0);
    give_some(&f, -5ll * S, 50);
    mrd_record_process_gone(f.record, &f.process);
    CHECK_INT(late_after(&f, 2, -6ll * S), 50);
    c.session = 3;
    c.select = &sel;
    sel.processes = &other;
    sel.n_processes = 1;
    CHECK_ERR("go", mrd_record_go(f.record, &c, (mrd_local_ns){ f.start_ns - 6ll * S }, 0, NULL),
              MRD_OK);
    CHECK_INT(late_of(&f, 3), 0);
    known_again(&f, 1);
    known_again(&f, 2);
    CHECK_INT(late_after(&f, 4, -6ll * S), 0);
    CHECK_ERR("seen", mrd_record_file_seen(f.record, &f.process), MRD_OK);
    teardown(&f);
}

/* An open batch of another session ends at its last event. Each of its events still counts by its
 * own time. */
TEST(what_another_session_took_counts_by_its_own_time)
{
    fixture f;
    uint64_t late;

    setup(&f);
    CHECK_ERR("file", mrd_record_file_seen(f.record, &f.process), MRD_OK);
    CHECK_INT(late_after(&f, 1, -30ll * MRD_SEC), 0);
    give_some(&f, -5ll * MRD_SEC, 100);
    late = late_after(&f, 2, -5ll * MRD_SEC + 500 * MRD_MS);
    CHECK(late >= 50 && late <= 50 + 7); /* a bucket covers at most 1/15 s */
    teardown(&f);
}

/* The agent is killed during a pause of the session. The next agent must not record events of the
 * pause, nor events that a later change of the session has deselected. */
TEST(a_successor_knows_what_was_changed)
{
    char state[300], core[] = "3", type[] = "nrt_execute", *cores[] = { core }, *types[] = { type };
    mrd_record_options o = { .agent = 1, .boot_id = "b", .boot = 1, .state_path = state };
    Mrd__Selection all = MRD__SELECTION__INIT, sel = MRD__SELECTION__INIT;
    Mrd__Control c = MRD__CONTROL__INIT;
    const mrd_strlist *said_cores, *said_types;
    mrd_record_pause pauses[2];
    mrd_record *before, *after;
    mrd_record_status st;
    int64_t job = 77;
    fixture f;

    setup(&f);
    snprintf(state, sizeof(state), "%s/state", test_tmp());
    o.spool = f.spool;
    o.drain = f.drain;
    pauses[0] = (mrd_record_pause){ { f.start_ns }, { f.start_ns + 5 } };
    pauses[1] = (mrd_record_pause){ { f.start_ns + 10 }, { INT64_MAX } };
    sel.cores = cores;
    sel.types = types;
    sel.n_cores = sel.n_types = 1;
    all.ranks = &job;
    all.n_ranks = 1;
    c.select = &all;
    CHECK_ERR("open", mrd_record_open(&o, &before, NULL), MRD_OK);
    for (c.session = 4; c.session < 7; c.session++)
        CHECK_ERR("go", mrd_record_go(before, &c, (mrd_local_ns){ f.start_ns }, 0, NULL), MRD_OK);
    CHECK_ERR("change", mrd_record_change(before, 5, 3, pauses, 2, &sel), MRD_OK);
    mrd_record_close(before); /* like a kill: nothing is written at the end */
    CHECK_ERR("open again", mrd_record_open(&o, &after, NULL), MRD_OK);
    CHECK_INT(mrd_record_sessions(after), 3);
    CHECK(mrd_record_is_paused(after, 5, (mrd_local_ns){ f.start_ns + 20 }));
    CHECK(!mrd_record_is_paused(after, 5, (mrd_local_ns){ f.start_ns + 7 }));
    CHECK(!mrd_record_is_paused(after, 4, (mrd_local_ns){ f.start_ns + 20 }));
    CHECK(!mrd_record_is_paused(after, 6, (mrd_local_ns){ f.start_ns + 20 }));
    REQUIRE(mrd_record_find(after, 5, &st));
    CHECK(st.revision == 3 && st.phase == MRD__NODE_PHASE__NODE_RECORDING);
    mrd_record_choice(after, 5, &said_cores, &said_types);
    REQUIRE(said_cores->n == 1 && said_types->n == 1);
    CHECK_TEXT(said_cores->v[0], "3");
    CHECK_TEXT(said_types->v[0], "nrt_execute");
    f.process.ident.rank = 78; /* the selection of the start still applies */
    CHECK(!mrd_record_selects(after, 5, &f.process));
    mrd_record_close(after);
    teardown(&f);
}

/* A session with too long a list of names is refused. It never records only a part of its
 * selection. */
TEST(a_selection_is_taken_whole_or_refused)
{
    char job[] = "job", *jobs[MRD_SELECT_WORDS + 1];
    Mrd__Selection sel = MRD__SELECTION__INIT;
    Mrd__Control c = MRD__CONTROL__INIT;
    mrd_record_status st;
    fixture f;

    setup(&f);
    for (size_t i = 0; i < MRD_COUNT(jobs); i++)
        jobs[i] = job;
    c.select = &sel;
    for (size_t kind = 0; kind < 2; kind++) {
        sel.jobs = kind == 0 ? jobs : NULL;
        sel.cores = kind == 1 ? jobs : NULL;
        for (size_t more = 0; more < 2; more++) {
            c.session = 10 + 2 * kind + more;
            sel.n_jobs = kind == 0 ? MRD_SELECT_WORDS + more : 0;
            sel.n_cores = kind == 1 ? MRD_SELECT_WORDS + more : 0;
            CHECK_ERR("arm", mrd_record_arm(f.record, &c, NULL), more == 0 ? MRD_OK : MRD_LIMIT);
            CHECK(mrd_record_find(f.record, c.session, &st) == (more == 0));
        }
    }
    CHECK_ERR("go", mrd_record_go(f.record, &c, (mrd_local_ns){ f.start_ns }, 0, NULL), MRD_LIMIT);
    c.session = 10;
    CHECK_ERR("go", mrd_record_go(f.record, &c, (mrd_local_ns){ f.start_ns }, 0, NULL), MRD_OK);
    CHECK_ERR("change", mrd_record_change(f.record, 10, 1, NULL, 0, &sel), MRD_LIMIT);
    teardown(&f);
}

/* A span that began in an earlier run of its process and never ended is not open forever. */
TEST(an_unfinished_span_reaches_until_its_process_ended)
{
    enum { SEC = 1000000000 };
    static const struct {
        int64_t until; /* 0: it lives */
        uint64_t begun;
    } rows[] = { { 0, 1 }, { -5, 0 }, { -90, 0 }, { 1, 1 }, { 90, 1 } };

    for (unsigned clock = MRD_DRAIN_RAW; clock <= MRD_DRAIN_REALTIME; clock++)
        for (size_t i = 0; i < MRD_COUNT(rows); i++) {
            Mrd__Control c = MRD__CONTROL__INIT;
            mrd_record_status st;
            fixture f;

            setup(&f);
            c.session = 5;
            CHECK_ERR("go", mrd_record_go(f.record, &c, (mrd_local_ns){ f.start_ns }, 0, NULL),
                      MRD_OK);
            if (rows[i].until != 0) {
                f.process.open_until_clock = clock;
                f.process.open_until = (mrd_ev_ns){ f.start_ns + rows[i].until * SEC +
                                                    (clock == MRD_DRAIN_REALTIME ? f.off_ns : 0) };
            }
            give(&f, MRD_SPAN, clock, -9ll * SEC, MRD_DUR_UNFINISHED);
            REQUIRE(mrd_record_find(f.record, 5, &st));
            CHECK_INT(st.begun, rows[i].begun);
            CHECK_INT(st.held, rows[i].begun);
            give(&f, MRD_SPAN, clock, 2ll * SEC, MRD_DUR_UNFINISHED); /* it began in the session */
            REQUIRE(mrd_record_find(f.record, 5, &st));
            CHECK_INT(st.begun, rows[i].begun + 1);
            teardown(&f);
        }
}

/* The spool refuses a batch of wall-clock events (of the runtime trace) because its file may not
 * grow. The time of the loss is in RAW, like all other losses. */
TEST(a_batch_that_the_spool_refuses_is_lost_at_its_raw_time)
{
    for (unsigned clock = MRD_DRAIN_RAW; clock <= MRD_DRAIN_REALTIME; clock++) {
        struct rlimit old, none = { 0 };
        Mrd__Control c = MRD__CONTROL__INIT;
        const mrd_record_drop *d;
        mrd_record_status st;
        char dir[600];
        fixture f;

        snprintf(dir, sizeof(dir), "%s/full%u", test_tmp(), clock);
        setup_in(&f, dir, 1);
        c.session = 5;
        CHECK_ERR("go", mrd_record_go(f.record, &c, (mrd_local_ns){ f.start_ns }, 0, NULL), MRD_OK);
        give(&f, MRD_SPAN, clock, 2 * MRD_SEC, MRD_SEC);
        REQUIRE(getrlimit(RLIMIT_FSIZE, &old) == 0);
        none.rlim_max = old.rlim_max;
        signal(SIGXFSZ, SIG_IGN);
        REQUIRE(setrlimit(RLIMIT_FSIZE, &none) == 0);
        mrd_record_flush(f.record);
        REQUIRE(setrlimit(RLIMIT_FSIZE, &old) == 0);
        REQUIRE(mrd_record_find(f.record, 5, &st));
        d = &st.drops[MRD_DROP_SPOOL];
        CHECK_INT(d->count, 1);
        CHECK(llabs(d->first.ns - (f.start_ns + 2 * MRD_SEC)) < 100 * MRD_MS);
        CHECK(llabs(d->last.ns - (f.start_ns + 3 * MRD_SEC)) < 100 * MRD_MS);
        REQUIRE(st.gaps.n == 1);
        CHECK_INT(st.gaps.v[0].first.ns, d->first.ns);
        teardown(&f);
    }
}

/* The time of a loss belongs to the clock of its boot. After another boot the session still counts
 * the loss, but without a time, because it would be wrong there. */
TEST(losses_of_an_earlier_boot_have_no_time)
{
    enum { SEC = 1000000000 };

    for (uint32_t boot = 1; boot <= 2; boot++) {
        Mrd__Control c = MRD__CONTROL__INIT;
        mrd_record_status st;
        int64_t first;
        char dir[600];
        fixture f;

        snprintf(dir, sizeof(dir), "%s/boots%u", test_tmp(), (unsigned) boot);
        setup_in(&f, dir, 1);
        c.session = 5;
        CHECK_ERR("go", mrd_record_go(f.record, &c, (mrd_local_ns){ f.start_ns }, 0, NULL), MRD_OK);
        give(&f, MRD_LOSS, MRD_DRAIN_RAW, 2ll * SEC, 1ll * SEC);
        mrd_record_flush(f.record);
        first = f.start_ns + 2ll * SEC;
        teardown(&f);
        setup_in(&f, dir, boot);
        CHECK_ERR("go", mrd_record_go(f.record, &c, (mrd_local_ns){ f.start_ns }, 0, NULL), MRD_OK);
        REQUIRE(mrd_record_find(f.record, 5, &st));
        CHECK_INT(st.drops[MRD_DROP_RUNTIME].count, 7);
        CHECK_INT(st.gaps.n, boot == 1);
        CHECK_INT(st.drops[MRD_DROP_RUNTIME].first.ns, boot == 1 ? first : 0);
        CHECK_INT(st.drops[MRD_DROP_RUNTIME].last.ns, boot == 1 ? first + SEC : 0);
        give(&f, MRD_LOSS, MRD_DRAIN_RAW, 4ll * SEC, 1ll * SEC);
        REQUIRE(mrd_record_find(f.record, 5, &st));
        CHECK_INT(st.drops[MRD_DROP_RUNTIME].count, 14);
        CHECK_INT(st.drops[MRD_DROP_RUNTIME].first.ns, boot == 1 ? first : f.start_ns + 4ll * SEC);
        CHECK_INT(st.gaps.n, boot == 1 ? 2 : 1);
        teardown(&f);
    }
}

/* A commit that only writes a note of losses also records how much of the trace file was given.
 * Otherwise its events in an open batch would be lost if the agent is killed. */
TEST(a_note_of_losses_takes_the_files_events_along)
{
    Mrd__Control c = MRD__CONTROL__INIT;
    uint64_t events = 0;
    fixture f;

    setup_in(&f, test_tmp(), 1);
    c.session = 5;
    CHECK_ERR("file", mrd_record_file_seen(f.record, &f.process), MRD_OK);
    CHECK_ERR("go", mrd_record_go(f.record, &c, (mrd_local_ns){ f.start_ns }, 0, NULL), MRD_OK);
    give(&f, MRD_SPAN, MRD_DRAIN_RAW, MRD_MS, MRD_MS);
    give(&f, MRD_LOSS, MRD_DRAIN_RAW, 2 * MRD_MS, MRD_MS);
    mrd_record_step(f.record, mrd_local_now());
    CHECK_INT(f.told, 2);
    CHECK(!mrd_spool_uncommitted(f.spool));
    (void) mrd_spool_held(f.spool, 5, &events);
    CHECK_INT(events, 1);
    teardown(&f);
}

/* A recorder has not shipped any frame. Its counted losses and kept events are in a note without a
 * frame, and the rings are released. The losses still count after the agent is killed and its
 * segments are removed. */
TEST(losses_of_a_recorder_outlive_its_segments)
{
    char dir[600], segment[700];
    Mrd__Control c = MRD__CONTROL__INIT;
    mrd_record_status st;
    fixture f;

    snprintf(dir, sizeof(dir), "%s/recorder", test_tmp());
    snprintf(segment, sizeof(segment), "%s/spool-0000000000000001.mrs", dir);
    setup_in(&f, dir, 1);
    c.session = 5;
    c.mode = MRD__SESSION_MODE__MODE_RECORDER;
    CHECK_ERR("go", mrd_record_go(f.record, &c, (mrd_local_ns){ f.start_ns }, 0, NULL), MRD_OK);
    give(&f, MRD_LOSS, MRD_DRAIN_RAW, MRD_MS, MRD_MS); /* of 7 events */
    give(&f, MRD_SPAN, MRD_DRAIN_RAW, 2 * MRD_MS, MRD_MS);
    mrd_record_flush(f.record);
    CHECK_INT(mrd_spool_next_seq(f.spool, 5), 0);
    CHECK(!mrd_spool_uncommitted(f.spool));
    teardown(&f);
    CHECK(unlink(segment) == 0);
    setup_in(&f, dir, 1);
    CHECK_ERR("go", mrd_record_go(f.record, &c, (mrd_local_ns){ f.start_ns }, 0, NULL), MRD_OK);
    REQUIRE(mrd_record_find(f.record, 5, &st));
    CHECK_INT(st.drops[MRD_DROP_RUNTIME].count, 7);
    CHECK_INT(st.drops[MRD_DROP_RESTART].count, 1);
    CHECK_INT(st.begun, 8);
    teardown(&f);
}

TEST_MAIN()
