/* Damages one byte of a trace, at each place. Only the record with this byte, and at most the next
 * one, may be lost. */
#include "tests/trace/collect.h"

extern const mrd_import_ops mrd_import_trace_event;

#define RECORDS 8

typedef struct {
    mrd_buf text;
    size_t at[RECORDS + 1]; /* start of each record, and the end of the list */
} trace;

static int64_t
begin_of(size_t i)
{
    return (int64_t) (1750000000000000 + 100 * i) * 1000;
}

/* Makes records with typical contents: arrays, objects and objects in arrays as arguments, and
 * escapes. */
static trace
make_trace(bool in_lines)
{
    trace t = { 0 };

    mrd_buf_text(&t.text,
                 "{\"schemaVersion\": 1, \"deviceProperties\": [{\"id\": 0, \"name\": \"x\"}], "
                 "\"distributedInfo\": {\"rank\": 3}, \"traceEvents\": [");
    for (size_t i = 0; i < RECORDS; i++) {
        mrd_buf_text(&t.text, i == 0 ? "\n" : in_lines ? ",\n" : ", ");
        t.at[i] = t.text.len;
        mrd_buf_fmt(&t.text,
                    "{\"ph\": \"X\", \"name\": \"k%zu\", \"pid\": 1, \"tid\": 7, \"ts\": %" PRId64
                    ", \"dur\": %zu, \"args\": {\"dims\": [[1, 2], []], \"of\": {\"a\": \"\\\"\"}, "
                    "\"in\": [{\"b\": -1.5e3}, {}]}}",
                    i, begin_of(i) / 1000, 10 + i);
    }
    t.at[RECORDS] = t.text.len;
    mrd_buf_text(&t.text, "], \"displayTimeUnit\": \"ms\"}");
    return t;
}

/* Marks the records that were delivered unchanged. Returns the number of other events. */
static size_t
compare_events(const collected *c, bool *delivered)
{
    size_t others = 0;

    memset(delivered, 0, RECORDS * sizeof(*delivered));
    for (size_t k = 0; k < c->n; k++) {
        const mrd_event *ev = &c->v[k]->ev;
        const char *name = collect_str(c, ev->name);
        size_t i = name[0] == 'k' && name[1] >= '0' ? (size_t) (name[1] - '0') : RECORDS;

        if (i < RECORDS && name[2] == '\0' && ev->ts.ns == begin_of(i) &&
            ev->dur_ns == (int64_t) (10 + i) * 1000)
            delivered[i] = true;
        else
            others++;
    }
    return others;
}

static bool
is_told(const collected *c)
{
    return c->err != MRD_OK || c->input.dropped > 0 || c->input.error != MRD_SID_EMPTY;
}

/* Reads the trace with damage at `at`, in record `hit` (RECORDS for none). */
static bool
read_damaged(const mrd_buf *text, size_t at, size_t hit, const char *what)
{
    collected c = { 0 };
    bool delivered[RECORDS], ok = true;
    size_t others, n = 0;

    collect_bytes(&c, &mrd_import_trace_event, text->p, text->len, 0, NULL);
    others = compare_events(&c, delivered);
    for (size_t i = 0; i < RECORDS; i++) {
        n += delivered[i];
        ok = ok && (delivered[i] || i == hit || i == hit + 1);
    }
    ok =
        ok && others <= (hit < RECORDS) && c.n <= RECORDS && (n + others == RECORDS || is_told(&c));
    if (!ok)
        fprintf(stderr,
                "%s at byte %zu (record %zu): %zu whole, %zu others, %d dropped, %s\n%.*s\n", what,
                at, hit, n, others, (int) c.input.dropped,
                c.err != MRD_OK ? c.why.text : collect_str(&c, c.input.error), (int) text->len,
                (const char *) text->p);
    collect_free(&c);
    return ok;
}

static size_t
record_at(const trace *t, size_t at)
{
    size_t i = 0;

    if (at < t->at[0] || at >= t->at[RECORDS])
        return RECORDS;
    while (at >= t->at[i + 1])
        i++;
    return i;
}

/* Damage in the header may change the position of the records. Then it must only be reported. */
static void
damage_everywhere(bool in_lines)
{
    static const char put[] = "{}[],:\"\\\0x9 \n";
    trace t = make_trace(in_lines);
    mrd_buf copy = { 0 };
    bool ok = true;

    for (size_t at = t.at[0]; at < t.text.len && ok; at++) {
        size_t hit = record_at(&t, at);

        for (size_t k = 0; k < sizeof(put) - 1 && ok; k++) {
            mrd_buf_reset(&copy);
            mrd_buf_add(&copy, t.text.p, t.text.len);
            copy.p[at] = (uint8_t) put[k];
            ok = read_damaged(&copy, at, hit, "another byte");
        }
        if (ok) {
            mrd_buf_reset(&copy);
            mrd_buf_add(&copy, t.text.p, at);
            mrd_buf_add(&copy, t.text.p + at + 1, t.text.len - at - 1);
            ok = read_damaged(&copy, at, hit, "a lost byte");
        }
    }
    CHECK(ok);
    mrd_buf_fini(&copy);
    mrd_buf_fini(&t.text);
}

TEST(one_damaged_byte_costs_two_records_at_most)
{
    damage_everywhere(false);
    damage_everywhere(true);
}

/* Cuts a trace at each byte. All complete records must be delivered, and the incomplete one
 * counted. */
TEST(a_cut_costs_the_record_that_it_meets)
{
    trace t = make_trace(true);

    for (size_t at = t.at[0]; at < t.text.len; at++) {
        size_t hit = record_at(&t, at), whole = hit == RECORDS ? RECORDS : hit;
        bool in_record = hit < RECORDS && at > t.at[hit];
        collected c = { 0 };
        bool delivered[RECORDS];

        collect_bytes(&c, &mrd_import_trace_event, t.text.p, at, 0, NULL);
        CHECK_INT(compare_events(&c, delivered), 0);
        CHECK_ERR("cut", c.err, MRD_TRUNCATED);
        CHECK(c.n >= whole && c.n <= whole + 1);
        CHECK(c.n == whole + 1 || c.input.dropped == in_record);
        if (!(c.n == whole + 1 || c.input.dropped == in_record)) {
            fprintf(stderr, "YY %zu %zu %d %d: %.*s\n", at, c.n, (int) c.input.dropped, in_record,
                    (int) at, t.text.p);
            break;
        }
        collect_free(&c);
    }
    mrd_buf_fini(&t.text);
}

TEST_MAIN()
