/* Tests the limit of a session to a range of a program's steps (agent/record/step_gate.h). */
#include "agent/record/step_gate.h"

#include "tests/check.h"

typedef struct {
    mrd_drain_process process;
    mrd_track_id annotations, calls, runtime;
} fixture;

static void
set_up(fixture *f)
{
    mrd_process p;
    mrd_track t;

    memset(f, 0, sizeof(*f));
    f->process.catalog = mrd_catalog_new();
    mrd_process_init(&p);
    p.instance_id = mrd_catalog_intern(f->process.catalog, "i-0");
    f->process.id = mrd_catalog_process(f->process.catalog, &p);
    mrd_track_init(&t, f->process.id, MRD_SRC_ANNOTATION);
    f->annotations = mrd_catalog_track(f->process.catalog, &t);
    t.source = MRD_SRC_API;
    f->calls = mrd_catalog_track(f->process.catalog, &t);
    t.source = MRD_SRC_RUNTIME;
    f->runtime = mrd_catalog_track(f->process.catalog, &t);
}

typedef struct {
    const char *name;
    const char *prefix; /* of the steps' names */
    bool numbered;      /* the names of step spans end with the step's number */
    bool argument;      /* the step's number is an argument of the span */
    bool executions;
    /* first step number of the program, its increment, and the requested range */
    int64_t first, every, from, to;
    int64_t begin, end; /* positions of the first and last complete step that passed, -1 for none */
} row;

/* Adds a span of 80 on this track that ends at 100 * (at + 1) - 10. A `step` of -1 omits the
 * argument. */
static void
see(const row *w, fixture *f, mrd_step_gate *g, mrd_track_id track, const char *name, int64_t step,
    int64_t at)
{
    mrd_arg arg = { .key = mrd_catalog_intern(f->process.catalog, "step"),
                    .type = MRD_ARG_INT,
                    .v.i = step };
    mrd_event ev = { .kind = MRD_SPAN,
                     .ts = { 100 * at + 10 },
                     .dur_ns = 80,
                     .track = track,
                     .name = mrd_catalog_intern(f->process.catalog, name),
                     .args = &arg,
                     .arg_count = step >= 0 };

    mrd_step_gate_see(g, &f->process, &ev, (mrd_local_ns){ ev.ts.ns },
                      (mrd_local_ns){ ev.ts.ns + ev.dur_ns }, w->executions, w->from, w->to);
}

#define STEPS 20

static const row rows[] = {
    { "numbered by an argument, margins on both sides", "step", false, true, false, 0, 1, 5, 8, 4,
      9 },
    { "numbered by the name", "ProfilerStep#", true, false, false, 0, 1, 5, 8, 4, 9 },
    { "numbers far from the place", "train_step ", true, false, false, 1000, 1, 1005, 1008, 4, 9 },
    { "without numbers they count from 1", "step", false, false, false, 0, 1, 5, 8, 3, 8 },
    { "executions count from 1", "nrt_execute", false, false, true, 0, 1, 5, 8, 3, 8 },
    { "one step", "step", false, true, false, 0, 1, 7, 7, 6, 8 },
    { "from the beginning", "step", false, true, false, 0, 1, 0, 3, 0, 4 },
    { "to the end", "step", false, true, false, 0, 1, 15, 0, 14, STEPS - 1 },
    { "the program is in it already", "step", false, true, false, 6, 1, 5, 9, 0, 4 },
    { "the step before is the first that is seen", "step", false, true, false, 4, 1, 5, 6, 1, 3 },
    { "numbers are skipped", "step", false, true, false, 0, 10, 45, 62, 5, 6 },
    { "never reached", "step", false, true, false, 0, 1, 500, 600, -1, -1 },
    { "no steps", "forward", false, true, false, 0, 1, 5, 8, -1, -1 },
};

TEST(what_is_taken)
{
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        const row *w = &rows[i];
        mrd_step_gate g;
        fixture f;
        int64_t begin = -1, end = -1;

        set_up(&f);
        mrd_step_gate_init(&g, 1, w->from);
        for (int64_t k = 0; k < STEPS; k++) {
            int64_t number = w->first + k * w->every;
            char name[64];

            if (w->numbered)
                snprintf(name, sizeof(name), "%s%d", w->prefix, (int) number);
            else
                snprintf(name, sizeof(name), "%s", w->prefix);
            see(w, &f, &g, w->executions ? f.calls : f.annotations, name, w->argument ? number : -1,
                k);
            /* Spans of other kinds have no effect: spans of the runtime, and open spans. */
            see(w, &f, &g, f.runtime, "step", w->to + 1, k);
            see(w, &f, &g, f.runtime, "nrt_execute", -1, k);
        }
        for (int64_t k = 0; k < STEPS; k++) {
            /* A span in the middle stands for the whole step. */
            if (!mrd_step_gate_passes(&g, (mrd_local_ns){ 100 * k + 40 },
                                      (mrd_local_ns){ 100 * k + 60 }))
                continue;
            begin = begin < 0 ? k : begin;
            CHECK_ROW(w->name, end < 0 || end == k - 1);
            end = k;
        }
        if (begin != w->begin || end != w->end)
            fprintf(stderr, "%s: %d to %d, expected %d to %d\n", w->name, (int) begin, (int) end,
                    (int) w->begin, (int) w->end);
        CHECK_ROW(w->name, begin == w->begin && end == w->end);
        mrd_catalog_free(f.process.catalog);
    }
}

TEST_MAIN()
