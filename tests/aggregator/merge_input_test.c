/* Tests that each field of a merge's input is copied correctly from a random session. */
#include "aggregator/merge/merge.h"
#include "base/obj.h"
#include "tests/check.h"
#include "tests/memory.h"
#include "tests/trace/events.h"

enum { PARTS = 5, STORED = 3 };

static mrd_part *
draw_part(uint64_t *seed, size_t i)
{
    static const char *const causes[] = { "ring-full", "recorder-window", "spool-full" };
    mrd_part *p = calloc(1, sizeof(*p));

    snprintf(p->instance_id, sizeof(p->instance_id), "i-%zu", i);
    snprintf(p->message, sizeof(p->message), "message %zu", i);
    snprintf(p->boot_id, sizeof(p->boot_id), "boot %d", (int) (test_rand(seed) % 2));
    p->local.ns = (int64_t) (test_rand(seed) % 1000);
    p->wall.ns = (int64_t) (test_rand(seed) % 1000);
    p->events = test_rand(seed) % 1000;
    p->simulated = test_rand(seed) % 3 == 0;
    p->revision = (uint32_t) (test_rand(seed) % 4);
    p->unchangeable = test_rand(seed) % 4 == 0;
    p->state = MRD_PART_FLUSHED;
    p->counts.delivered = p->events + i; /* the store lacks i events */
    p->n_epochs = (unsigned) (test_rand(seed) % 3);
    p->epochs = calloc(STORED, sizeof(*p->epochs));
    for (unsigned e = 0; e < STORED; e++) /* more than count */
        p->epochs[e].stored_frames = 1 + test_rand(seed) % 100;
    for (unsigned k = 0; k < MRD_COUNT(causes); k++) {
        mrd_loss *l = &p->counts.losses[p->counts.n_losses++];

        snprintf(l->cause, sizeof(l->cause), "%s", causes[k]);
        l->count = test_rand(seed) % 50;
    }
    p->counts.gaps.n = (uint32_t) (test_rand(seed) % 6);
    for (unsigned k = 0; k < p->counts.gaps.n; k++)
        p->counts.gaps.v[k] = (mrd_gap){ .first = { (int64_t) (test_rand(seed) % 100) },
                                         .last = { 200 },
                                         .count = 1 + k,
                                         .cause = (uint8_t) (k % 3),
                                         .marked = test_rand(seed) % 2 == 0 };
    p->causality.violations = test_rand(seed) % 3;
    return p;
}

static void
check_node(const merge_node *n, const mrd_part *p, const mrd_timescale *t)
{
    size_t gaps = 0;
    uint64_t frames = 0;

    CHECK_TEXT(n->instance_id, p->instance_id);
    CHECK_TEXT(n->message, p->message);
    CHECK_INT(n->local.ns, p->local.ns);
    CHECK_INT(n->wall.ns, p->wall.ns);
    CHECK_INT(n->events, p->events);
    for (unsigned e = 0; e < p->n_epochs; e++)
        frames += p->epochs[e].stored_frames;
    CHECK_INT(n->frames, frames);
    /* A simulated clock is never the aggregator's own, for any boot. */
    CHECK_INT(n->same_clock,
              !t->same_clock || p->simulated ? 0 : strcmp(p->boot_id, t->boot_id) == 0);
    CHECK_INT(n->dropped, p->counts.losses[0].count + p->counts.losses[2].count +
                              p->counts.delivered - p->events);
    for (unsigned k = 0; k < p->counts.gaps.n; k++) {
        if (p->counts.gaps.v[k].marked) /* the events contain it themselves */
            continue;
        REQUIRE(gaps < n->n_gaps);
        CHECK(memcmp(&n->gaps[gaps], &p->counts.gaps.v[k], sizeof(mrd_gap)) == 0);
        gaps++;
    }
    CHECK_INT(n->n_gaps, gaps);
    for (unsigned k = 0; k < p->counts.n_losses; k++)
        CHECK_TEXT(n->causes[k], p->counts.losses[k].cause);
}

/* Draws a pause that the agent applied, until it applied its end or the session ended. */
static void
draw_pauses(uint64_t *seed, mrd_session *s)
{
    s->stop.ns = test_rand(seed) % 2 == 0 ? 0 : 500 + (int64_t) (test_rand(seed) % 1000);
    s->changes.n_pauses = (unsigned) (test_rand(seed) % 4);
    for (unsigned i = 0; i < s->changes.n_pauses; i++)
        s->changes.pauses[i] = (mrd_pause){
            .from = { 100 + (int64_t) (test_rand(seed) % 1000) },
            .from_revision = 1 + (uint32_t) (test_rand(seed) % 3),
            .to = { test_rand(seed) % 3 == 0 ? 0 : 100 + (int64_t) (test_rand(seed) % 1000) },
            .to_revision = 1 + (uint32_t) (test_rand(seed) % 3),
        };
}

static void
check_pauses(const merge_node *n, const mrd_part *p, const mrd_session *s)
{
    int64_t shift = mrd_part_shift(p);
    size_t want = 0;

    for (unsigned i = 0; i < s->changes.n_pauses; i++) {
        const mrd_pause *k = &s->changes.pauses[i];
        bool ends = k->to.ns != 0 && k->to_revision <= p->revision;
        int64_t end = ends && (s->stop.ns == 0 || k->to.ns < s->stop.ns) ? k->to.ns : s->stop.ns;

        if (p->unchangeable != 0 || k->from_revision > p->revision || end <= k->from.ns)
            continue; /* end: 0 if neither ended */
        REQUIRE(want < n->n_pauses);
        CHECK_INT(n->pauses[want].first.ns, k->from.ns - shift);
        CHECK_INT(n->pauses[want].last.ns, end - shift);
        want++;
    }
    CHECK_INT(n->n_pauses, want);
}

TEST(everything_is_copied)
{
    uint64_t seed = 20261122, pauses = 0;

    for (int round = 0; round < 200; round++) {
        char dir[] = "/nonexistent/store", name[32];
        mrd_session_store store = { .dir = dir };
        mrd_timescale t = { .boot_id = "boot 1", .timeline = "t", .offset = 77 + round };
        mrd_listed_artifact artifacts[2] = { { .size = 5 }, { .size = 6 } };
        mrd_session *s = calloc(1, sizeof(*s));
        mrd_part *parts[PARTS + 1] = { NULL };
        uint64_t events = 0, violations = 0;
        bool simulated = false;
        merge_input *in;

        t.same_clock = test_rand(&seed) % 2 == 0;
        snprintf(s->text, sizeof(s->text), "20261122-000000-%04x", (unsigned) round);
        snprintf(s->timeline, sizeof(s->timeline), round % 2 == 0 ? "t" : "other");
        snprintf(name, sizeof(name), "name %d", round);
        s->params.name = name;
        s->parts = parts;
        s->n_parts = test_rand(&seed) % (PARTS + 1);
        for (size_t i = 0; i < s->n_parts; i++) {
            parts[i] = draw_part(&seed, i);
            events += parts[i]->events;
            violations += parts[i]->causality.violations;
            simulated = simulated || parts[i]->simulated;
        }
        draw_pauses(&seed, s);
        s->artifacts = artifacts;
        s->n_artifacts = test_rand(&seed) % 3;
        in = mrd_merge_input_new(&store, &t, s);
        REQUIRE(in != NULL);
        CHECK(strncmp(in->dir, dir, strlen(dir)) == 0 && strstr(in->dir, s->text) != NULL);
        CHECK_TEXT(in->id, s->text);
        CHECK_TEXT(in->name, s->params.name);
        CHECK_INT(in->reference_ns, 77 + round);
        CHECK_INT(in->one_incarnation, round % 2 == 0);
        CHECK_INT(in->events, events);
        CHECK_INT(in->violations, violations);
        CHECK_INT(in->simulated, simulated);
        CHECK_INT(in->n_nodes, s->n_parts);
        for (size_t i = 0; i < in->n_nodes; i++) {
            check_node(&in->nodes[i], parts[i], &t);
            check_pauses(&in->nodes[i], parts[i], s);
            pauses += in->nodes[i].n_pauses;
        }
        CHECK_INT(in->n_artifacts, s->n_artifacts);
        for (size_t i = 0; i < in->n_artifacts; i++)
            CHECK_INT(in->artifacts[i].size, 5 + i);
        mrd_merge_input_free(in);
        memory_asked = 0;
        mrd_merge_input_free(mrd_merge_input_new(&store, &t, s));
        REQUIRE(memory_asked >= 4);
        /* fails each of its allocations */
        for (uint64_t asked = memory_asked; asked > 0; asked--) {
            memory_asked = 0;
            memory_fails_at = asked;
            in = mrd_merge_input_new(&store, &t, s);
            memory_fails_at = 0;
            CHECK(in == NULL);
        }
        for (size_t i = 0; i < s->n_parts; i++) {
            free(parts[i]->epochs);
            free(parts[i]);
        }
        free(s);
    }
    CHECK(pauses > 100);
    mrd_merge_input_free(NULL);
}

TEST_MAIN()
