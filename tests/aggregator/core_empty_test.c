/* Tests the message that explains why a complete session contains nothing but counters, and when
 * there is no explanation. */
#include "aggregator/core/manifest/empty.h"
#include "aggregator/core/manifest/manifest.h"
#include "tests/aggregator/core_make.h"

/* A row of the table: how the session differs from a complete, empty session of one node, and the
 * expected explanation (`says`). */
typedef struct {
    const char *what, *says; /* `says` is NULL if the session does not count as empty */
    mrd_session_state state;
    uint64_t events, chosen, left_out, dropped, delivered;
    unsigned processes, selected;
    bool unknown; /* the agent is older and does not report these counts */
    const char *jobs[2], *ranks[2], *sources[2], *type, *core, *counter;
    int64_t from_step, to_step;
    bool recorder, triggered, nobody, artifact;
} row;

static void
choose(mrd_strlist *list, const char *const words[2])
{
    for (size_t i = 0; i < 2; i++)
        if (words[i] != NULL)
            CHECK_ERR(words[i], mrd_strlist_add(list, mrd_str_of(words[i])), MRD_OK);
}

static void
select_of(mrd_session *s, const row *r)
{
    const char *const types[2] = { r->type, NULL }, *const cores[2] = { r->core, NULL };
    const char *const counters[2] = { r->counter, NULL };

    choose(&s->select.jobs, r->jobs);
    choose(&s->select.ranks, r->ranks);
    choose(&s->select.sources, r->sources);
    choose(&s->select.types, types);
    choose(&s->select.cores, cores);
    choose(&s->params.counters, counters);
    s->params.from_step = r->from_step;
    s->params.to_step = r->to_step;
    if (r->recorder)
        s->params.mode = MRD_MODE_RECORDER;
}

static void
check(const row *r)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, r->state);
    char text[MRD_WHY_MAX] = "";
    bool empty;

    select_of(s, r);
    if (!r->nobody) {
        mrd_part *p = core_part(c, s, "i-1", MRD_PART_FLUSHED);

        p->events = r->events;
        p->counts.delivered = r->delivered;
        p->tally.known = !r->unknown;
        p->tally.before.chosen = r->chosen / 2; /* two runs of the agent */
        p->tally.last.chosen = r->chosen - r->chosen / 2;
        p->tally.last.left_out = r->left_out / 2;
        p->tally.before.left_out = r->left_out - r->left_out / 2;
        p->tally.processes = r->processes;
        p->tally.selected = r->selected;
        mrd_counts_add_loss(&p->counts, &(mrd_loss){ .cause = "not-recorded", .count = 1000 });
        mrd_counts_add_loss(&p->counts, &(mrd_loss){ .cause = "ring-full", .count = r->dropped });
        if (!r->unknown && r->processes > 0) /* another node without anything to record */
            core_part(c, s, "i-2", MRD_PART_FLUSHED)->tally.known = true;
    }
    if (r->triggered)
        CHECK_ERR("trigger", mrd_session_add_trigger(s, &(mrd_trigger){ .id = 1 }, NULL), MRD_OK);
    s->artifacts = r->artifact ? calloc(1, sizeof(*s->artifacts)) : NULL;
    s->n_artifacts = r->artifact;
    empty = mrd_session_is_empty(s, text);
    CHECK_ROW(r->what, empty == (r->says != NULL));
    if (empty && r->says != NULL && strcmp(text, r->says) != 0)
        fprintf(stderr, "%s: '%s', expected '%s'\n", r->what, text, r->says);
    CHECK_ROW(r->what, !empty || r->says == NULL || strcmp(text, r->says) == 0);
    mrd_core_free(c);
}

#define OVER  .state = MRD_SESSION_COMPLETE
#define THERE OVER, .processes = 3, .selected = 2

TEST(what_is_not_empty)
{
    static const row rows[] = {
        { .what = "events", .events = 1, .chosen = 1, THERE },
        { .what = "events that did not arrive", .chosen = 1, THERE },
        { .what = "it records", .state = MRD_SESSION_RECORDING },
        { .what = "it ships", .state = MRD_SESSION_STOPPING },
        { .what = "it failed", .state = MRD_SESSION_FAILED },
        { .what = "a file", .artifact = true, THERE },
        { .what = "counters by name, and there", .counter = "cpu", .events = 1, THERE },
        { .what = "counters alone", .sources = { "host" }, THERE },
        { .what = "both kinds of counters", .sources = { "host", "device_counter" }, THERE },
        { .what = "an older agent's events", .unknown = true, .events = 1, THERE },
        { .what = "a recorder's window", .recorder = true, .triggered = true, .events = 1, THERE },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++)
        check(&rows[i]);
}

TEST(why_it_is_empty)
{
    static const row rows[] = {
        { .what = "merging",
          .state = MRD_SESSION_MERGING,
          .says = "no node sent an event",
          .unknown = true },
        { .what = "nobody", OVER, .nobody = true, .says = "no node took part" },
        { .what = "nobody of a job",
          OVER,
          .nobody = true,
          .jobs = { "4711" },
          .says = "no node took part: no process of the selected job 4711 was there" },
        { .what = "nobody of jobs",
          OVER,
          .nobody = true,
          .jobs = { "1", "2" },
          .says = "no node took part: no process of the selected jobs was there" },
        { .what = "nobody of a rank",
          OVER,
          .nobody = true,
          .ranks = { "5" },
          .says = "no node took part: no process of the selected rank 5 was there" },
        { .what = "nobody of ranks",
          OVER,
          .nobody = true,
          .ranks = { "5", "6" },
          .says = "no node took part: no process of the selected ranks was there" },
        { .what = "no trigger",
          THERE,
          .recorder = true,
          .chosen = 9,
          .says = "no trigger asked for a window of this flight recorder" },
        { .what = "a window of nothing",
          THERE,
          .recorder = true,
          .triggered = true,
          .chosen = 9,
          .says = "2 processes were selected and recorded no event" },
        { .what = "lost", THERE, .dropped = 2, .says = "all events were lost: 2 events" },
        { .what = "one lost", THERE, .dropped = 1, .says = "all events were lost: 1 event" },
        { .what = "not in the store",
          THERE,
          .dropped = 2,
          .delivered = 3,
          .says = "all events were lost: 5 events" },
        { .what = "an older agent", THERE, .unknown = true, .says = "no node sent an event" },
        { .what = "counters by name, not there",
          THERE,
          .counter = "cpu",
          .says = "2 processes were selected and recorded no event" },
        { .what = "counters and more",
          THERE,
          .sources = { "host", "annotation" },
          .says = "2 processes were selected and recorded no event" },
        { .what = "no process",
          OVER,
          .says = "no process recorded: check that libmeridian.so is loaded into the programs "
                  "(LD_PRELOAD, MERIDIAN_ENABLE=1), and that they use the agent's ring directory" },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++)
        check(&rows[i]);
}

TEST(what_left_everything_out)
{
    static const row rows[] = {
        { .what = "of a job",
          OVER,
          .processes = 3,
          .jobs = { "1" },
          .ranks = { "2" },
          .says = "none of 3 processes is of the selected job" },
        { .what = "of ranks",
          OVER,
          .processes = 1,
          .ranks = { "2" },
          .sources = { "annotation" },
          .says = "none of 1 process is of the selected ranks" },
        { .what = "of sources",
          OVER,
          .processes = 3,
          .sources = { "annotation" },
          .says = "none of 3 processes is of the selected sources" },
        { .what = "of processes",
          OVER,
          .processes = 3,
          .says = "none of 3 processes is of the selected processes" },
        { .what = "types",
          THERE,
          .left_out = 5,
          .type = "t",
          .core = "1",
          .says = "none of 5 events is of the selected event types" },
        { .what = "cores",
          THERE,
          .left_out = 1,
          .core = "1",
          .from_step = 1,
          .says = "none of 1 event is of the selected cores" },
        { .what = "steps from",
          THERE,
          .left_out = 5,
          .from_step = 1,
          .jobs = { "1" },
          .says = "none of 5 events is of the selected steps" },
        { .what = "steps to",
          THERE,
          .left_out = 5,
          .to_step = 1,
          .says = "none of 5 events is of the selected steps" },
        { .what = "a job's",
          THERE,
          .left_out = 5,
          .jobs = { "1" },
          .says = "none of 5 events is of the selected job" },
        { .what = "one process, no event",
          OVER,
          .processes = 1,
          .selected = 1,
          .says = "1 process was selected and recorded no event" },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++)
        check(&rows[i]);
}

/* ---- The tally ---- */

static void
tell(mrd_part *p, uint64_t chosen, uint64_t left_out, uint64_t in_flight, unsigned processes)
{
    Mrd__SessionTally t = MRD__SESSION_TALLY__INIT;

    t.chosen = chosen;
    t.left_out = left_out;
    t.in_flight = in_flight;
    t.processes = processes;
    t.selected = processes / 2;
    t.running = processes / 4;
    mrd_part_tally(p, &t);
}

/* An agent's count that is lower than its previous one belongs to another run of the agent, so both
 * are added. For numbers of processes, the largest count is used. */
TEST(a_tally_that_shrinks_is_of_another_run)
{
    static const uint64_t next[][3] = { { 9, 20, 30 }, { 10, 19, 30 }, { 10, 20, 29 } };

    for (size_t i = 0; i < MRD_COUNT(next); i++) {
        mrd_part p = { 0 };
        mrd_json *o;

        mrd_part_tally(&p, NULL);
        CHECK(!p.tally.known);
        tell(&p, 10, 20, 30, 8);
        tell(&p, 10, 20, 30, 8); /* the same numbers mean the same run */
        CHECK(p.tally.known && p.tally.before.chosen == 0);
        tell(&p, next[i][0], next[i][1], next[i][2], 4);
        CHECK(p.tally.before.chosen == 10 && p.tally.before.left_out == 20 &&
              p.tally.before.in_flight == 30);
        CHECK(p.tally.processes == 8 && p.tally.selected == 4 && p.tally.running == 1);
        tell(&p, 10, 20, 30, 12);
        CHECK(p.tally.before.chosen == 10 && p.tally.processes == 12 && p.tally.selected == 6);
        o = mrd_part_tally_json(&p);
        CHECK(mrd_json_int(o, "chosen", 0) == 20 && mrd_json_int(o, "left_out", 0) == 40 &&
              mrd_json_int(o, "in_flight", 0) == 60);
        CHECK_INT(mrd_json_int(mrd_json_get(o, "earlier_runs"), "in_flight", 0), 30);
        CHECK(mrd_json_int(o, "processes", 0) == 12 && mrd_json_int(o, "selected", 0) == 6 &&
              mrd_json_int(o, "running", 0) == 3);
        mrd_json_free(o);
    }
}

TEST(a_tally_of_a_manifest)
{
    static const struct {
        const char *text;
        uint64_t before, last;
    } rows[] = {
        { "{\"chosen\":9,\"left_out\":9,\"in_flight\":9}", 0, 9 },
        { "{\"chosen\":9,\"left_out\":9,\"in_flight\":9,\"earlier_runs\":{\"chosen\":4,\"left_"
          "out\":"
          "4,\"in_flight\":4}}",
          4, 5 },
        { "{\"chosen\":3,\"left_out\":3,\"in_flight\":3,\"earlier_runs\":{\"chosen\":4,\"left_"
          "out\":"
          "4,\"in_flight\":4}}",
          4, 0 },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_part p = { .tally = { .processes = 77 } };
        mrd_json *o = NULL;

        mrd_part_tally_load(&p, NULL);
        CHECK(!p.tally.known && p.tally.processes == 77);
        CHECK_ERR("json", mrd_json_parse(mrd_str_of(rows[i].text), "t", &o, NULL), MRD_OK);
        mrd_part_tally_load(&p, o);
        CHECK(p.tally.known && p.tally.processes == 0 && p.tally.selected == 0);
        CHECK(p.tally.before.chosen == rows[i].before && p.tally.last.chosen == rows[i].last);
        CHECK(p.tally.before.left_out == rows[i].before && p.tally.last.left_out == rows[i].last);
        CHECK(p.tally.before.in_flight == rows[i].before && p.tally.last.in_flight == rows[i].last);
        mrd_json_free(o);
    }
}

/* 2^32 + 5 is not 5. */
TEST(a_tally_of_numbers_that_are_too_large)
{
    static const char text[] = "{\"processes\":4294967301,\"selected\":4294967301,"
                               "\"unselected\":{\"processes\":4294967301}}";
    mrd_part p = { .tally = { .processes = 77 } };
    mrd_json *o = NULL;

    CHECK_ERR("json", mrd_json_parse(mrd_str_of(text), "t", &o, NULL), MRD_OK);
    mrd_part_tally_load(&p, o);
    CHECK(p.tally.known && p.tally.processes == 0 && p.tally.selected == 0);
    CHECK_INT(p.tally.unselected_before, 0);
    mrd_json_free(o);
}

/* Earlier runs are mentioned if one of them had something to record. */
TEST(earlier_runs_are_said_where_there_were_any)
{
    for (int i = 0; i < 3; i++) {
        mrd_part p = { .tally = { .before = { .chosen = i == 1, .left_out = i == 2 } } };
        mrd_json *o = mrd_part_tally_json(&p);

        CHECK_INT(mrd_json_get(o, "earlier_runs") != NULL, i > 0);
        mrd_json_free(o);
    }
}

/* If a node of the job had a process that no session selected, the session names it, also after
 * restarts of aggregator and agent. */
TEST(a_session_names_a_process_that_no_session_selected)
{
    static const struct {
        unsigned count;
        const char *one, *message; /* NULL: there is none */
    } rows[] = {
        { 0, "", NULL },
        { 1, "python, pid 7, job 43",
          "but perhaps not all of the job: a: 1 process ran there that no session selected, such "
          "as python, pid 7, job 43" },
        { 2, "",
          "but perhaps not all of the job: a: 2 processes ran there that no session selected" },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_core *c = core_make((mrd_core_limits){ 0 });
        mrd_session *s = core_session(c, 7, 0, MRD_SESSION_COMPLETE);
        mrd_part *p = core_part(c, s, "a", MRD_PART_FLUSHED);
        Mrd__SessionTally tally = MRD__SESSION_TALLY__INIT, none = tally;
        mrd_manifest_context x = mrd_core_manifest_context(c);
        const char *message;
        mrd_json *o;

        tally.left_out = 5;
        tally.unselected = 9; /* a later session selected some */
        mrd_part_tally(p, &tally);
        tally.unselected = rows[i].count;
        tally.unselected_one = (char *) (uintptr_t) rows[i].one;
        mrd_part_tally(p, &tally);
        o = mrd_part_tally_json(p);
        p->tally = (mrd_tally){ .known = false };
        mrd_part_tally_load(p, o);
        mrd_json_free(o);
        mrd_part_tally(p, &none); /* another run of the agent, after the process has exited */
        o = mrd_session_json(s, &x);
        message = mrd_json_str(o, "message", NULL);
        CHECK((message == NULL) == (rows[i].message == NULL));
        if (message != NULL && rows[i].message != NULL)
            CHECK_ROW(message, strcmp(message, rows[i].message) == 0);
        mrd_json_free(o);
        mrd_core_free(c);
    }
}

TEST_MAIN()
