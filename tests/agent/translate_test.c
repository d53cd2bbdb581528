/*
 * Compares the translation of ring records to events with a model. Each record is random, and the
 * text of the expected event is derived from docs/reference/ring.md, not from the code.
 */
#include "tests/agent/ring_make.h"
#include "tests/wait.h"

#include <math.h>

#include "agent/rings/drain.h"
#include "agent/rings/open_spans.h"

#define LINES 8192

typedef struct {
    char *v[LINES];
    size_t n;
} lines;

typedef struct {
    lines got;
    uint64_t flows[LINES]; /* ids of flow arrows in the order in which the events arrived */
    size_t n_flows;
    unsigned notices;
} receiver;

typedef struct {
    uint64_t state;
    maker *m;
    bool simulated;
    uint32_t names[6], keys[6], tracks[4], domain;
    lines want;
    int64_t now;
    /* ids of flow arrows in the order in which the test wrote them into the ring */
    uint64_t flows[LINES];
    size_t n_flows;
    uint64_t begun, dropped, records;
} model;

static const char *const name_texts[] = { "forward", "backward", "step", "load", "idle", "x y" };
static const char *const key_texts[] = { "k0", "k1", "k2", "k3", "k4", "k5" };

static void
lines_add(lines *l, char *text)
{
    if (l->n < LINES)
        l->v[l->n++] = text;
    else
        abort();
}

static uint64_t
dice(model *d, uint64_t n)
{
    d->state = d->state * 6364136223846793005u + 1442695040888963407u;
    return (d->state >> 33) % n;
}

/* ---- Received events as text ---- */

static void
say_arg(FILE *f, const mrd_catalog *cat, const mrd_arg *a)
{
    fprintf(f, " %s=", mrd_catalog_text(cat, a->key).p);
    switch (a->type) {
    case MRD_ARG_INT:
        fprintf(f, "i%" PRId64, a->v.i);
        break;
    case MRD_ARG_UINT:
        fprintf(f, "u%" PRIu64, a->v.u);
        break;
    case MRD_ARG_DOUBLE:
        fprintf(f, "d%g", a->v.d);
        break;
    case MRD_ARG_BOOL:
        fprintf(f, "b%d", (int) a->v.u);
        break;
    case MRD_ARG_STR:
        fprintf(f, "t%s", mrd_catalog_text(cat, a->v.sid).p);
        break;
    default:
        fprintf(f, "t%.*s", (int) a->len, a->v.text);
    }
}

static mrd_err
take(void *self, mrd_drain_process *process, unsigned clock, const mrd_event *ev)
{
    receiver *r = self;
    const mrd_catalog *cat = process->catalog;
    const mrd_track *t = mrd_catalog_borrow_track(cat, ev->track);
    char *text = NULL;
    size_t len;
    FILE *f = open_memstream(&text, &len);

    CHECK(clock == MRD_DRAIN_RAW);
    fprintf(f, "%d %" PRId64 "+%" PRId64 " '%s' cat '%s' flags %d", ev->kind, ev->ts.ns, ev->dur_ns,
            mrd_catalog_text(cat, ev->name).p, mrd_catalog_text(cat, ev->category).p, ev->flags);
    fprintf(
        f,
        " on %d/%d/'%s' thread %" PRId64 " cores %" PRId64 " %" PRId64 " %" PRId64 " unit %d '%s'",
        (int) t->source, (int) t->kind, mrd_catalog_text(cat, t->name).p, t->thread_id, t->lnc_idx,
        t->pcore_idx, t->device_idx, (int) t->unit, mrd_catalog_text(cat, t->unit_name).p);
    if (ev->kind == MRD_COUNTER && (ev->flags & MRD_EV_INT) == 0)
        fprintf(f, " value %g", ev->value);
    else if (ev->kind == MRD_COUNTER)
        fprintf(f, " value %" PRId64, ev->ivalue);
    if (ev->kind == MRD_FLOW) {
        fprintf(f, " dir %d", ev->flow_dir);
        r->flows[r->n_flows++ % LINES] = ev->id;
    } else {
        fprintf(f, " id %" PRIu64, ev->id);
    }
    for (uint32_t i = 0; i < ev->arg_count; i++)
        say_arg(f, cat, &ev->args[i]);
    fclose(f);
    lines_add(&r->got, text);
    return MRD_OK;
}

static void
count_notice(void *self, mrd_drain_process *process, const mrd_event *ev)
{
    (void) process;
    (void) ev;
    ((receiver *) self)->notices++;
}

/* ---- Expected events ---- */

/* The model's view of a track of the process. */
typedef struct {
    int source, kind;
    const char *name;
    int64_t thread;
    int64_t lnc, pcore, device;
    int unit;
    const char *unit_name;
} line;

#define THREAD_LINE(src)                                                                           \
    ((line){ (src), MRD_TRACK_LINE_KIND, "worker", 7, MRD_NONE, MRD_NONE, MRD_NONE, 0, "" })

static int MRD_TRACK_LINE_KIND; /* as set by mrd_track_init */

static const line own_lines[4] = {
    { 0, 0, "queue", MRD_NONE, 2, 5, 1, 0, "" },
    { 0, 0, "whole", MRD_NONE, MRD_NONE, MRD_NONE, MRD_NONE, 0, "" },
    { 0, 1, "memory", MRD_NONE, 0, 0, 0, MRD_UNIT_BYTES, "" },
    { 0, 1, "speed", MRD_NONE, MRD_NONE, MRD_NONE, MRD_NONE, MRD_UNIT_NONE, "furlongs" },
};

/* Draws up to two arguments of any type with keys from `first`, and the expected text. */
static size_t
draw_args(model *d, uint8_t *body, size_t at, unsigned first, char args[200])
{
    size_t n = dice(d, 3);

    args[0] = '\0';
    for (unsigned i = first; i < first + n; i++) {
        size_t len = strlen(args);
        bool spelled = dice(d, 4) == 0; /* the key as text, not from the dictionary */
        uint32_t key = spelled ? 0 : d->keys[i];
        int64_t v = (int64_t) dice(d, 1000) - 500;
        uint64_t u = UINT64_MAX - dice(d, 9), b = dice(d, 2), id = d->names[i];
        double x = (double) v / 4;

        if (spelled)
            at += make_item(body + at, MRD_ITEM_KEY, 0, key_texts[i], 2);
        switch (dice(d, 6)) {
        case 0:
            at += make_item(body + at, MRD_ITEM_I64, key, &v, 8);
            snprintf(args + len, 200 - len, " k%u=i%" PRId64, i, v);
            break;
        case 1:
            at += make_item(body + at, MRD_ITEM_U64, key, &u, 8);
            snprintf(args + len, 200 - len, " k%u=u%" PRIu64, i, u);
            break;
        case 2:
            at += make_item(body + at, MRD_ITEM_F64, key, &x, 8);
            snprintf(args + len, 200 - len, " k%u=d%g", i, x);
            break;
        case 3:
            at += make_item(body + at, MRD_ITEM_BOOL, key, &b, 8);
            snprintf(args + len, 200 - len, " k%u=b%d", i, (int) b);
            break;
        case 4:
            at += make_item(body + at, MRD_ITEM_ID, key, &id, 8);
            snprintf(args + len, 200 - len, " k%u=t%s", i, name_texts[i]);
            break;
        default:
            at += make_item(body + at, MRD_ITEM_TEXT, key, "some text", 9);
            snprintf(args + len, 200 - len, " k%u=tsome text", i);
        }
    }
    return at;
}

typedef struct {
    mrd_ring_rec rec;
    const char *name, *category;
    char args[200];
    uint8_t body[512];
    size_t len;
    int flags;
    line where; /* where: the event's track; own: this is a separate track, not the thread's */
    bool own;
} drawn;

/* Returns the expected text of an event. `rest` and `args` are appended. */
static char *
expect(int kind, int64_t ts, int64_t dur, const drawn *r, const char *rest, const char *args)
{
    const line *l = &r->where;
    char *text = NULL;
    size_t len;
    FILE *f = open_memstream(&text, &len);

    fprintf(f, "%d %" PRId64 "+%" PRId64 " '%s' cat '%s' flags %d", kind, ts, dur, r->name,
            r->category, r->flags);
    fprintf(f,
            " on %d/%d/'%s' thread %" PRId64 " cores %" PRId64 " %" PRId64 " %" PRId64
            " unit %d '%s'%s%s",
            l->source, l->kind, l->name, l->thread, l->lnc, l->pcore, l->device, l->unit,
            l->unit_name, rest, args);
    fclose(f);
    return text;
}

/* Draws the fields that all kinds share: time, name (from the dictionary, as text, or none),
 * category, track. */
static drawn
draw(model *d, int kind, bool with_body, bool on_track, unsigned first_key)
{
    drawn r = { .rec = { .kind = (uint8_t) kind }, .category = "" };
    uint64_t how = dice(d, with_body ? 8 : 6), which = dice(d, 6);

    d->now += (int64_t) dice(d, 1000);
    r.rec.ts = (uint64_t) d->now;
    if (how < 6) {
        r.rec.name = d->names[which];
        r.name = name_texts[which];
    } else if (how == 6) {
        r.len = make_item(r.body, MRD_ITEM_NAME, 0, "spelled", 7);
        r.name = "spelled";
    } else {
        r.name = "(unnamed)";
    }
    if (dice(d, 3) == 0) {
        r.rec.domain = d->domain;
        r.category = "model";
    }
    if (with_body)
        r.len = draw_args(d, r.body, r.len, first_key, r.args);
    r.flags = d->simulated ? MRD_EV_SIMULATED : 0;
    r.where = (line){
        MRD_SRC_ANNOTATION, MRD_TRACK_LINE_KIND, "worker", 7, MRD_NONE, MRD_NONE, MRD_NONE, 0, ""
    };
    if (on_track && dice(d, 3) == 0) {
        uint64_t t = dice(d, 2);

        r.rec.track = d->tracks[t];
        r.where = own_lines[t];
        r.where.source = MRD_SRC_ANNOTATION;
        r.where.kind = MRD_TRACK_LINE_KIND;
        r.own = true;
    }
    return r;
}

static void
api_by_chance(model *d, drawn *r)
{
    if (dice(d, 3) != 0)
        return;
    r->rec.flags |= MRD_RECF_API;
    r->where.source = MRD_SRC_API;
}

static void
write_rec(model *d, const drawn *r)
{
    CHECK(make_rec(d->m, r->rec, r->body, r->len));
    d->records++;
}

static void
want(model *d, char *text)
{
    d->begun++;
    lines_add(&d->want, text);
}

static void
a_span(model *d)
{
    drawn r = draw(d, MRD_REC_SPAN, dice(d, 2) == 0, true, 0);

    api_by_chance(d, &r);
    r.rec.value = dice(d, 5000);
    write_rec(d, &r);
    want(d, expect(MRD_SPAN, d->now, (int64_t) r.rec.value, &r, " id 0", r.args));
}

/* Adds a begin and an end in either order. One of them may be missing. */
static void
a_pair(model *d, uint64_t number, bool is_model)
{
    drawn b = draw(d, is_model ? MRD_REC_MODEL : MRD_REC_BEGIN, dice(d, 2) == 0, true, 0);
    drawn e = draw(d, is_model ? MRD_REC_MODEL : MRD_REC_END, dice(d, 2) == 0, true, 2);
    const char *again = strstr(e.args, " k2=") == NULL ? NULL : strstr(b.args, " k2=");
    uint64_t how = dice(d, 4); /* 0: end first, 1: no end, 2: no start */
    int64_t from = (int64_t) b.rec.ts, to = (int64_t) e.rec.ts;
    char rest[64], args[400];

    b.rec.value = e.rec.value = number;
    snprintf(rest, sizeof(rest), " id %" PRIu64, number);
    /* The key k2, the last one of the start, is perhaps an argument of the end, too. */
    snprintf(args, sizeof(args), "%.*s%s",
             again == NULL ? (int) strlen(b.args) : (int) (again - b.args), b.args, e.args);
    if (is_model) {
        b.rec.flags |= MRD_RECF_LOAD;
        e.rec.flags |= MRD_RECF_UNLOAD;
        b.where = e.where = (line){ MRD_SRC_API,
                                    MRD_TRACK_LINE_KIND,
                                    "loaded models",
                                    MRD_NONE,
                                    MRD_NONE,
                                    MRD_NONE,
                                    MRD_NONE,
                                    0,
                                    "" };
    } else {
        api_by_chance(d, &b);
    }
    if (how == 0 || how == 2)
        write_rec(d, &e);
    if (how != 2)
        write_rec(d, &b);
    if (how == 3)
        write_rec(d, &e);
    e.flags |= MRD_EV_NO_START;
    if (how == 1)
        want(d, expect(MRD_SPAN, from, MRD_DUR_UNFINISHED, &b, rest, b.args));
    else if (how == 2)
        want(d, expect(MRD_SPAN, to, 0, &e, rest, e.args));
    else
        want(d, expect(MRD_SPAN, from, to - from, &b, rest, args));
}

static void
an_instant(model *d)
{
    static const char *const scopes[] = { "worker", "process", "global", "worker" };
    drawn r = draw(d, MRD_REC_INSTANT, dice(d, 2) == 0, true, 0);
    uint64_t scope = dice(d, 4);
    char rest[64];

    r.rec.flags |= (uint8_t) (scope << MRD_RECF_SHIFT);
    r.rec.value = dice(d, 3);
    if (!r.own) {
        r.where.name = scopes[scope];
        r.where.thread = scope == 1 || scope == 2 ? MRD_NONE : 7;
    }
    snprintf(rest, sizeof(rest), " id %" PRIu64, r.rec.value);
    write_rec(d, &r);
    want(d, expect(MRD_INSTANT, d->now, 0, &r, rest, r.args));
}

static void
a_counter(model *d)
{
    drawn r = draw(d, MRD_REC_COUNTER, false, false, 0);
    uint64_t type = dice(d, 3), line_of = dice(d, 4), spelled = dice(d, 6);
    double x = (double) dice(d, 100) / 4;
    char rest[80];

    if (spelled == 0) { /* the name is in the record */
        r.rec.name = 0;
        r.len = make_item(r.body, MRD_ITEM_NAME, 0, "spelled", 7);
        r.name = "spelled";
    }
    r.where = (line){ MRD_SRC_ANNOTATION, MRD_TRACK_COUNTER, r.name, MRD_NONE, MRD_NONE,
                      MRD_NONE,           MRD_NONE,          0,      "" };
    if (line_of < 2) {
        r.rec.track = d->tracks[2 + line_of];
        r.where = own_lines[2 + line_of];
        r.where.source = MRD_SRC_ANNOTATION;
        r.where.kind = MRD_TRACK_COUNTER;
    }
    r.rec.flags |= (uint8_t) (type << MRD_RECF_SHIFT);
    if (type == MRD_REC_F64) {
        bool bad = dice(d, 4) == 0;

        x = bad ? NAN : x;
        memcpy(&r.rec.value, &x, 8);
        write_rec(d, &r);
        if (bad) { /* no number: one lost */
            d->begun++;
            d->dropped++;
            return;
        }
        snprintf(rest, sizeof(rest), " value %g id 0", x);
    } else {
        r.rec.value = (uint64_t) - (int64_t) dice(d, 50);
        r.flags |= MRD_EV_INT | (type == MRD_REC_U64 ? MRD_EV_UNSIGNED : 0);
        snprintf(rest, sizeof(rest), " value %" PRId64 " id 0", (int64_t) r.rec.value);
        write_rec(d, &r);
    }
    r.name = ""; /* the name of its track */
    want(d, expect(MRD_COUNTER, d->now, 0, &r, rest, ""));
}

static void
a_flow(model *d)
{
    static const int dirs[] = { MRD_FLOW_START, MRD_FLOW_STEP, MRD_FLOW_END };
    drawn r = draw(d, MRD_REC_FLOW, false, true, 0);
    uint64_t dir = dice(d, 3);
    char rest[64];

    r.rec.flags = (uint8_t) (dir << MRD_RECF_SHIFT);
    r.rec.value = dice(d, 64);
    d->flows[d->n_flows++ % LINES] = r.rec.value;
    snprintf(rest, sizeof(rest), " dir %d", dirs[dir]);
    write_rec(d, &r);
    want(d, expect(MRD_FLOW, d->now, 0, &r, rest, ""));
}

static void
a_notice(model *d)
{
    drawn r = draw(d, MRD_REC_NOTICE, dice(d, 2) == 0, false, 0);

    r.where.source = MRD_SRC_MERIDIAN;
    write_rec(d, &r);
    want(d, expect(MRD_INSTANT, d->now, 0, &r, " id 0", r.args));
}

static void
set_up(model *d)
{
    static const mrd_ring_track_kind kinds[] = { MRD_RING_TRACK_SPANS, MRD_RING_TRACK_SPANS,
                                                 MRD_RING_TRACK_COUNTER, MRD_RING_TRACK_COUNTER };
    const mrd_ring_track nobodys = {
        .kind = MRD_RING_TRACK_SPANS, .lnc_idx = 7, .pcore_idx = 7, .device_idx = 7
    };
    uint32_t bytes, furlongs;

    d->m = make_ring(test_tmp(), getpid(), make_start_ticks(getpid()), 7, 1 << 20);
    (void) make_entry(d->m, MRD_DICT_THREAD, 7, NULL, 0, "worker");
    (void) make_entry(d->m, MRD_DICT_TRACK, d->m->next_id++, &nobodys, sizeof(nobodys), "nobody's");
    for (int i = 0; i < 6; i++)
        d->names[i] = make_text(d->m, name_texts[i]);
    for (uint32_t i = 0; i < 700; i++) /* more than the initial space for names */
        (void) make_text(d->m, "filler");
    for (int i = 0; i < 6; i++)
        d->keys[i] = make_text(d->m, key_texts[i]);
    d->domain = make_text(d->m, "model");
    bytes = make_text(d->m, "bytes");
    furlongs = make_text(d->m, "furlongs");
    for (int i = 0; i < 4; i++) {
        const line *l = &own_lines[i];
        mrd_ring_track t = { .kind = (uint8_t) kinds[i],
                             .lnc_idx = l->lnc == MRD_NONE ? -1 : (int32_t) l->lnc,
                             .pcore_idx = l->pcore == MRD_NONE ? -1 : (int32_t) l->pcore,
                             .device_idx = l->device == MRD_NONE ? -1 : (int32_t) l->device,
                             .unit = i == 2  ? bytes
                                     : i > 0 ? furlongs
                                             : 0 }; /* of samples only */

        d->tracks[i] = make_entry(d->m, MRD_DICT_TRACK, d->m->next_id++, &t, sizeof(t), l->name);
    }
    d->now = mrd_local_now().ns;
}

static int
by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *) a, *(char *const *) b);
}

/* Compares the lines in any order, because a pair is reported when it is complete. */
static void
compare(lines *got, lines *want_lines)
{
    size_t i = 0, k = 0;
    unsigned shown = 0;

    qsort(got->v, got->n, sizeof(*got->v), by_text);
    qsort(want_lines->v, want_lines->n, sizeof(*want_lines->v), by_text);
    while ((i < got->n || k < want_lines->n) && shown < 6) {
        int order = i == got->n ? 1 : k == want_lines->n ? -1 : strcmp(got->v[i], want_lines->v[k]);

        if (order != 0) {
            fprintf(stderr, "%s\n    %s\n",
                    order < 0 ? "came:" : "missing:", order < 0 ? got->v[i] : want_lines->v[k]);
            shown++;
        }
        i += order <= 0;
        k += order >= 0;
    }
    CHECK_INT(shown, 0);
}

/* Checks the ids of flow arrows. Each number in the ring must get a unique id, which is never 0 and
 * never the number itself. */
static void
compare_flows(const receiver *r, const model *d)
{
    CHECK_INT(r->n_flows, d->n_flows);
    for (size_t i = 0; i < d->n_flows && i < r->n_flows; i++) {
        CHECK(r->flows[i] != 0 && r->flows[i] != d->flows[i]);
        for (size_t k = 0; k < i; k++)
            REQUIRE((r->flows[i] == r->flows[k]) == (d->flows[i] == d->flows[k]));
    }
}

static void
run(uint64_t seed, bool simulated)
{
    static receiver r;
    static model d;
    mrd_drain_options o = { .instance_id = "i-test",
                            .ring_dir = test_tmp(),
                            .only_uid = -1,
                            .simulated = simulated,
                            .event = take,
                            .notice = count_notice,
                            .self = &r };
    mrd_drain_tally c;
    mrd_track plain;
    mrd_drain *p;
    unsigned notices = 0;

    fprintf(stderr, "seed %" PRIu64 "\n", seed);
    memset(&r, 0, sizeof(r));
    memset(&d, 0, sizeof(d));
    mrd_track_init(&plain, 0, MRD_SRC_ANNOTATION);
    MRD_TRACK_LINE_KIND = (int) plain.kind;
    d.state = seed;
    d.simulated = simulated;
    set_up(&d);
    REQUIRE(mrd_drain_open(&o, &p, NULL) == MRD_OK);
    for (uint64_t i = 0; i < 3000; i++) {
        switch (dice(&d, 8)) {
        case 0:
        case 1:
            a_span(&d);
            break;
        case 2:
            a_pair(&d, 100 + i, false);
            break;
        case 3:
            a_pair(&d, 100 + i, true);
            break;
        case 4:
            an_instant(&d);
            break;
        case 5:
            a_counter(&d);
            break;
        case 6:
            a_flow(&d);
            break;
        default:
            a_notice(&d);
            notices++;
        }
        if (i % 500 == 499)
            while (mrd_drain_step(p) > 0 || mrd_drain_wait_ns(p) == 0)
                ;
    }
    mrd_drain_finish(p);
    mrd_drain_counts(p, &c);
    CHECK_INT(c.records, d.records);
    CHECK_INT(c.begun, d.begun);
    CHECK_INT(c.events, d.want.n);
    CHECK_INT(c.dropped[MRD_DROP_LIMIT], d.dropped);
    CHECK_INT(c.held, 0);
    CHECK_INT(r.notices, notices);
    compare(&r.got, &d.want);
    compare_flows(&r, &d);
    mrd_drain_close(p);
    make_free(d.m);
}

TEST(every_record_becomes_its_event)
{
    const char *seed = getenv("MRD_SEED");

    run(seed == NULL ? 1 : strtoull(seed, NULL, 10), false);
}

TEST(simulated_events_say_so)
{
    run(2, true);
}

/* ---- Limits ---- */

static mrd_err
take_nothing(void *self, mrd_drain_process *process, unsigned clock, const mrd_event *ev)
{
    (void) process;
    (void) clock;
    *(uint64_t *) self += ev->kind == MRD_SPAN;
    return MRD_OK;
}

static mrd_drain *
count_spans(uint64_t *spans)
{
    mrd_drain_options o = { .instance_id = "i-test",
                            .ring_dir = test_tmp(),
                            .only_uid = -1,
                            .event = take_nothing,
                            .self = spans };
    mrd_drain *p = NULL;

    CHECK_ERR("open", mrd_drain_open(&o, &p, NULL), MRD_OK);
    return p;
}

static void
step_all(mrd_drain *p)
{
    while (mrd_drain_step(p) > 0 || mrd_drain_wait_ns(p) == 0)
        ;
}

/* There are more open spans than the limit. Each span above the limit is counted as lost, with its
 * cause. */
TEST(open_spans_beyond_the_limit_are_counted)
{
    enum { BEYOND = 5 };
    uint64_t spans = 0;
    mrd_drain *p = count_spans(&spans);
    maker *m = make_ring(test_tmp(), getpid(), make_start_ticks(getpid()), 7, 4 << 20);
    uint32_t name = make_text(m, "open");
    mrd_drain_tally c;

    for (uint64_t i = 0; i < MRD_OPEN_SPANS_MAX + BEYOND; i++)
        CHECK(make_rec(m,
                       (mrd_ring_rec){ .kind = MRD_REC_BEGIN,
                                       .name = name,
                                       .ts = (uint64_t) mrd_local_now().ns,
                                       .value = 1 + i },
                       NULL, 0));
    step_all(p);
    mrd_drain_counts(p, &c);
    CHECK_INT(c.begun, MRD_OPEN_SPANS_MAX + BEYOND);
    CHECK_INT(c.held, MRD_OPEN_SPANS_MAX);
    CHECK_INT(c.dropped[MRD_DROP_LIMIT], BEYOND);
    mrd_drain_finish(p);
    mrd_drain_counts(p, &c);
    CHECK_INT(c.held, 0);
    CHECK_INT(spans, MRD_OPEN_SPANS_MAX);
    mrd_drain_close(p);
    make_free(m);
}

/* A name is unknown until the dictionary contains it, and valid from then on. */
TEST(a_name_may_be_defined_later)
{
    static receiver r;
    mrd_drain_options o = {
        .instance_id = "i-test", .ring_dir = test_tmp(), .only_uid = -1, .event = take, .self = &r
    };
    maker *m = make_ring(test_tmp(), getpid(), make_start_ticks(getpid()), 7, 1 << 16);
    mrd_ring_rec rec = { .kind = MRD_REC_SPAN, .name = 1, .ts = (uint64_t) mrd_local_now().ns };
    mrd_drain *p;

    REQUIRE(mrd_drain_open(&o, &p, NULL) == MRD_OK);
    for (uint32_t i = 0; i < 3; i++) {
        static const uint32_t ids[] = { 1, MRD_RING_NAMES_MAX - 1, MRD_RING_NAMES_MAX };

        rec.name = ids[i];
        CHECK(make_rec(m, rec, NULL, 0));
    }
    step_all(p);
    REQUIRE(r.got.n == 3);
    for (int i = 0; i < 3; i++)
        CHECK(strstr(r.got.v[i], "'(unnamed)'") != NULL);
    rec.name = make_text(m, "late");
    CHECK(make_rec(m, rec, NULL, 0) && make_rec(m, rec, NULL, 0));
    mrd_drain_finish(p);
    REQUIRE(r.got.n == 5);
    CHECK(strstr(r.got.v[3], "'late'") != NULL && strstr(r.got.v[4], "'late'") != NULL);
    mrd_drain_close(p);
    make_free(m);
}

/* ---- Runtime JSON in chunks ---- */

#define EVENT(phase, ts)                                                                           \
    "{\"event_type\":\"nrt_execute\",\"phase\":\"" phase "\",\"id\":1,\"nc_idx\":0,"               \
    "\"tracking_id\":1,\"thread_id\":9,\"worker_gid\":0,\"data\":{},\"timestamp_ns\":" ts "}"

static const char document[] = "{\"data_version\":2,\"events\":[" EVENT(
    "start", "1700000000000000000") "," EVENT("stop", "1700000000000000500") "]}";

typedef struct {
    unsigned number;
    size_t from, to;
    uint8_t flags;
} chunk;

#define HALF (sizeof(document) / 2)
#define ALL  (sizeof(document) - 1)

/* A document of the runtime is written in chunks. The rows are sequences of chunks that do or do
 * not form a complete document. Incomplete documents give no events and are not counted, because
 * their writer has counted them. */
TEST(chunks_make_a_document_only_in_a_row)
{
    static const struct {
        const char *name;
        chunk chunks[5];
        unsigned spans;
    } rows[] = {
        { "whole", { { 1, 0, ALL, MRD_RECF_FIRST | MRD_RECF_LAST } }, 1 },
        { "in two", { { 1, 0, HALF, MRD_RECF_FIRST }, { 1, HALF, ALL, MRD_RECF_LAST } }, 1 },
        { "in three",
          { { 1, 0, 9, MRD_RECF_FIRST }, { 1, 9, HALF, 0 }, { 1, HALF, ALL, MRD_RECF_LAST } },
          1 },
        { "without its middle",
          { { 1, 0, 9, MRD_RECF_FIRST }, { 1, HALF, ALL, MRD_RECF_LAST } },
          0 },
        { "the middle twice",
          { { 1, 0, 9, MRD_RECF_FIRST },
            { 1, 9, 20, 0 },
            { 1, 9, 20, 0 },
            { 1, 20, ALL, MRD_RECF_LAST } },
          0 },
        { "without its begin", { { 1, 9, ALL, MRD_RECF_LAST } }, 0 },
        { "of two numbers", { { 1, 0, 9, MRD_RECF_FIRST }, { 2, 9, ALL, MRD_RECF_LAST } }, 0 },
        { "another begins",
          { { 1, 0, 9, MRD_RECF_FIRST },
            { 2, 0, HALF, MRD_RECF_FIRST },
            { 2, HALF, ALL, MRD_RECF_LAST } },
          1 },
        { "the same begins again",
          { { 1, 0, 9, MRD_RECF_FIRST }, { 1, 0, ALL, MRD_RECF_FIRST | MRD_RECF_LAST } },
          1 },
        { "cut, then whole",
          { { 1, 0, 9, MRD_RECF_FIRST | MRD_RECF_CUT },
            { 2, 0, ALL, MRD_RECF_FIRST | MRD_RECF_LAST } },
          1 },
        { "nothing behind the end",
          { { 1, 0, ALL, MRD_RECF_FIRST | MRD_RECF_LAST }, { 1, ALL - 9, ALL, MRD_RECF_LAST } },
          1 },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        uint64_t spans = 0, bytes = 0, records = 0;
        mrd_drain *p = count_spans(&spans);
        maker *m =
            make_ring(test_tmp(), getpid(), make_start_ticks(getpid()), 10 + (int) i, 1 << 16);
        uint32_t name = make_text(m, "systrace");
        mrd_drain_tally c;

        for (const chunk *x = rows[i].chunks; x < rows[i].chunks + 5 && x->to > 0; x++) {
            make_rec(m,
                     (mrd_ring_rec){ .kind = MRD_REC_BLOB,
                                     .flags = x->flags,
                                     .name = name,
                                     .ts = (uint64_t) mrd_local_now().ns,
                                     .value = x->from,
                                     .domain = x->number,
                                     .track = (uint32_t) (x->to - x->from) },
                     document + x->from, x->to - x->from);
            bytes += x->to - x->from;
            records++;
        }
        mrd_drain_finish(p);
        mrd_drain_counts(p, &c);
        CHECK_ROW(rows[i].name, spans == rows[i].spans);
        CHECK_ROW(rows[i].name, c.dropped[MRD_DROP_JSON] == 0);
        CHECK_ROW(rows[i].name, c.blob_bytes == bytes && c.records == records);
        CHECK_ROW(rows[i].name, c.begun == c.events && c.events == rows[i].spans);
        mrd_drain_close(p);
        unlink(m->path);
        make_free(m);
    }
}

/* A process exited within a document. The complete events that were read are reported. A ring that
 * ends after a complete document gives the same result: the span, and the fact that the runtime's
 * later events are missing. */
TEST(a_document_that_its_process_died_in_is_read_as_far_as_it_is)
{
    for (size_t len = ALL - 2; len <= ALL; len += 2) {
        uint64_t spans = 0, start;
        mrd_drain *p = count_spans(&spans);
        int pid = make_dead_pid(&start);
        maker *m = make_ring(test_tmp(), pid, start, 40 + (int) len, 1 << 16);
        uint32_t name = make_text(m, "systrace");
        mrd_ring_rec rec = { .kind = MRD_REC_BLOB,
                             .flags = (uint8_t) (MRD_RECF_FIRST | (len == ALL ? MRD_RECF_LAST : 0)),
                             .name = name,
                             .ts = (uint64_t) mrd_local_now().ns,
                             .domain = 1,
                             .track = (uint32_t) len };
        mrd_drain_tally c;

        CHECK(make_rec(m, rec, document, len));
        TEST_UNTIL((mrd_drain_step(p), mrd_drain_counts(p, &c), c.rings_seen == 1 && c.rings == 0));
        CHECK_INT(spans, 1);
        CHECK_INT(c.begun, 2);
        CHECK_INT(c.events, 2);
        mrd_drain_close(p);
        unlink(m->path);
        make_free(m);
    }
}

/* A document above the size limit is dropped as a whole and counted once. The next document is
 * read. */
TEST(a_document_that_does_not_end_is_counted)
{
    enum { CHUNK = 32 << 10, AT_ONCE = 100 };
    static char text[CHUNK];
    uint64_t spans = 0;
    mrd_drain *p = count_spans(&spans);
    maker *m = make_ring(test_tmp(), getpid(), make_start_ticks(getpid()), 30, 1 << 22);
    uint32_t name = make_text(m, "systrace");
    mrd_drain_tally c;

    memset(text, ' ', sizeof(text));
    for (uint64_t at = 0; at <= MRD_DRAIN_BLOB_MAX; at += CHUNK) {
        CHECK(make_rec(m,
                       (mrd_ring_rec){ .kind = MRD_REC_BLOB,
                                       .flags = at == 0 ? MRD_RECF_FIRST : 0,
                                       .name = name,
                                       .ts = (uint64_t) mrd_local_now().ns,
                                       .value = at,
                                       .domain = 1,
                                       .track = CHUNK },
                       text, CHUNK));
        if (at / CHUNK % AT_ONCE == 0) /* before the ring is full */
            TEST_UNTIL((mrd_drain_step(p), mrd_drain_counts(p, &c), c.blob_bytes == at + CHUNK));
    }
    step_all(p);
    TEST_UNTIL((mrd_drain_step(p), mrd_drain_counts(p, &c), c.blob_bytes > MRD_DRAIN_BLOB_MAX));
    mrd_drain_counts(p, &c);
    CHECK_INT(c.dropped[MRD_DROP_BLOB], 1);
    make_blob(m, name, 2, document, ALL, 200, true);
    mrd_drain_finish(p);
    mrd_drain_counts(p, &c);
    CHECK_INT(c.dropped[MRD_DROP_BLOB], 1);
    CHECK_INT(spans, 1);
    mrd_drain_close(p);
    unlink(m->path);
    make_free(m);
}

TEST_MAIN()
