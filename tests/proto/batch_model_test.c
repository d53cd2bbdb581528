/*
 * Tests the reader of batches with batches that protobuf's own encoder wrote. A batch has every
 * kind of column, and one field is changed. Each row states the new value of the field and whether
 * docs/reference/wire.md allows it. The rows include both neighbours of each limit.
 */
#include "tests/check.h"

#include <math.h>

#include "proto/batch/batch.h"
#include "proto/batch/columns.h"
#include "proto/wire.h"

/* ---- A batch with everything ---- */

typedef struct {
    mrd_catalog *cat;
    mrd_codec *codec;
    mrd_frame frame;
    Mrd__BatchHead *head;
    Mrd__BatchColumns *columns;
} whole;

#define EVENTS 8u

static mrd_err
push_all(mrd_catalog *cat, mrd_batch *b, mrd_track_id spans, mrd_track_id counters)
{
    mrd_sid name = mrd_catalog_intern(cat, "name"), key = mrd_catalog_intern(cat, "key");
    const mrd_arg args[] = {
        { .key = key, .type = MRD_ARG_INT, .v.i = -3 },
        { .key = key, .type = MRD_ARG_UINT, .v.u = UINT64_MAX },
        { .key = key, .type = MRD_ARG_DOUBLE, .v.d = 0.5 },
        { .key = key, .type = MRD_ARG_STR, .v.sid = name },
        { .key = key, .type = MRD_ARG_TEXT, .len = 4, .v.text = "text" },
        { .key = key, .type = MRD_ARG_BOOL, .v.u = 1 },
        { .key = key, .type = MRD_ARG_JSON, .len = 2, .v.text = "{}" },
    };
    const mrd_flow arrows[] = { { .id = 11, .dir = MRD_FLOW_START },
                                { .id = 12, .dir = MRD_FLOW_END } };
    const mrd_event events[EVENTS] = {
        { .kind = MRD_SPAN, .ts = { 100 }, .dur_ns = 7, .track = spans, .name = name },
        { .kind = MRD_SPAN,
          .ts = { 101 },
          .dur_ns = MRD_DUR_UNFINISHED,
          .id = 9,
          .track = spans,
          .name = name },
        { .kind = MRD_SPAN,
          .ts = { 102 },
          .dur_ns = 1,
          .track = spans,
          .name = name,
          .category = key,
          .arg_count = MRD_COUNT(args),
          .args = args,
          .flow_count = 2,
          .flows = arrows },
        { .kind = MRD_INSTANT, .ts = { 103 }, .track = spans, .name = name, .bound_ns = 44 },
        { .kind = MRD_COUNTER, .ts = { 104 }, .track = counters, .value = 1.5 },
        { .kind = MRD_COUNTER,
          .ts = { 105 },
          .track = counters,
          .ivalue = -8,
          .flags = MRD_EV_INT },
        { .kind = MRD_FLOW,
          .ts = { 106 },
          .id = 77,
          .flow_dir = MRD_FLOW_STEP,
          .track = spans,
          .name = name },
        { .kind = MRD_LOSS, .ts = { 107 }, .dur_ns = 2, .ivalue = 5, .track = spans, .name = name },
    };
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < EVENTS && err == MRD_OK; i++)
        err = mrd_batch_push(b, &events[i]);
    return err;
}

static whole
whole_new(void)
{
    whole w = { .cat = mrd_catalog_new(), .codec = mrd_codec_new() };
    mrd_cross_read cross = { { 1 }, { 2 }, 3 };
    mrd_process p;
    mrd_track t;
    mrd_track_id spans;
    mrd_batch *b;
    mrd_buf wire = { 0 };

    mrd_process_init(&p);
    p.instance_id = mrd_catalog_intern(w.cat, "i-1");
    p.process_id = 10;
    b = mrd_batch_new(w.cat, mrd_catalog_process(w.cat, &p), 0, 0);
    mrd_track_init(&t, 0, MRD_SRC_RUNTIME);
    t.name = mrd_catalog_intern(w.cat, "line");
    spans = mrd_catalog_track(w.cat, &t);
    t.kind = MRD_TRACK_COUNTER;
    CHECK_ERR("push", push_all(w.cat, b, spans, mrd_catalog_track(w.cat, &t)), MRD_OK);
    CHECK_ERR("cross", mrd_batch_cross(b, &cross), MRD_OK);
    w.frame = (mrd_frame){ .agent = 7, .epoch = 8, .session = 9, .seq = 10 };
    CHECK_ERR("encode", mrd_batch_encode(b, w.codec, MRD_CODEC_NONE, &w.frame, &wire, NULL),
              MRD_OK);
    w.head = mrd__batch_head__unpack(NULL, w.frame.head_len, wire.p + MRD_FRAME_HEADER);
    w.columns = mrd__batch_columns__unpack(NULL, w.frame.body_len - w.frame.head_len,
                                           wire.p + MRD_FRAME_HEADER + w.frame.head_len);
    mrd_buf_fini(&wire);
    mrd_batch_free(b);
    return w;
}

static void
whole_free(whole *w)
{
    mrd__batch_head__free_unpacked(w->head, NULL);
    mrd__batch_columns__free_unpacked(w->columns, NULL);
    mrd_codec_free(w->codec);
    mrd_catalog_free(w->cat);
}

static char said[MRD_WHY_MAX]; /* message of the reader about the last refused batch */

/* Packs the batch again with `more` after its columns, as a frame with right checksums, and reads
 * it to its end. Returns MRD_OK or the reader's error. *ret_sum: sum of the event times. */
static mrd_err
read_with(whole *w, mrd_batch_reader *r, mrd_bytes more, uint32_t *ret_n, uint64_t *ret_sum)
{
    size_t head = mrd__batch_head__get_packed_size(w->head),
           columns = mrd__batch_columns__get_packed_size(w->columns) + more.len;
    uint8_t *wire = malloc(MRD_FRAME_HEADER + head + columns);
    mrd_catalog *cat = mrd_catalog_new();
    mrd_frame f = w->frame;
    mrd_bytes body;
    mrd_batch_info info;
    const mrd_event *ev;
    mrd_why why = { 0 };
    mrd_step step = MRD_END;
    mrd_err err;

    mrd__batch_head__pack(w->head, wire + MRD_FRAME_HEADER);
    mrd__batch_columns__pack(w->columns, wire + MRD_FRAME_HEADER + head);
    if (more.len > 0)
        memcpy(wire + MRD_FRAME_HEADER + head + columns - more.len, more.p, more.len);
    f.head_len = f.head_raw = (uint32_t) head;
    f.cols_raw = (uint32_t) columns;
    mrd_frame_put(&f, (mrd_bytes){ wire + MRD_FRAME_HEADER, head + columns }, wire);
    err = mrd_frame_check((mrd_bytes){ wire, MRD_FRAME_HEADER + head + columns }, &f, &body, &why);
    CHECK_ERR(why.text, err, MRD_OK);
    err = mrd_batch_open(r, &f, body, cat, &info, &why);
    *ret_n = 0;
    *ret_sum = 0;
    while (err == MRD_OK && (step = mrd_batch_next(r, &ev, &why)) == MRD_MORE) {
        ++*ret_n;
        *ret_sum += (uint64_t) ev->ts.ns;
    }
    if (err == MRD_OK && step == MRD_BAD)
        err = why.err;
    CHECK(err == MRD_OK || why.text[0] != '\0');
    snprintf(said, sizeof(said), "%s", why.text);
    mrd_catalog_free(cat);
    free(wire);
    return err;
}

static mrd_err
read_again(whole *w, uint32_t *ret_n)
{
    mrd_batch_reader *r = mrd_batch_reader_new(w->codec);
    uint64_t sum;
    mrd_err err = read_with(w, r, (mrd_bytes){ 0 }, ret_n, &sum);

    mrd_batch_reader_free(r);
    return err;
}

TEST(another_encoder_is_understood)
{
    whole w = whole_new();
    uint32_t n;

    REQUIRE(w.head != NULL && w.columns != NULL);
    CHECK_ERR("as it is", read_again(&w, &n), MRD_OK);
    CHECK_INT(n, EVENTS);
    whole_free(&w);
}

/* Fields of a later version may follow the columns. A field that is truncated, longer than 64 bits
 * or of an obsolete wire type is refused, and so is a repeated column. */
TEST(fields_of_a_later_version_are_passed_over)
{
#define FIELD(kind) 0xa0 | (kind), 0x06 /* number 100 */
#define NINES       0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff
    static const struct {
        const char *name;
        uint8_t bytes[16];
        size_t len;
        bool ok;
    } rows[] = {
        { "a number", { FIELD(0), 0x05 }, 3, true },
        { "a number of two bytes", { FIELD(0), 0x85, 0x01 }, 4, true },
        { "a number that does not end", { FIELD(0), 0x85 }, 3, false },
        { "no number", { FIELD(0) }, 2, false },
        { "the greatest number", { FIELD(0), NINES, 0x01 }, 12, true },
        { "a number of 65 bits", { FIELD(0), NINES, 0x02 }, 12, false },
        { "a number of eleven bytes", { FIELD(0), NINES, 0x81, 0x00 }, 13, false },
        { "half a tag", { 0xa0 }, 1, false },
        { "eight bytes", { FIELD(1), 1, 2, 3, 4, 5, 6, 7, 8 }, 10, true },
        { "seven bytes", { FIELD(1), 1, 2, 3, 4, 5, 6, 7 }, 9, false },
        { "four bytes", { FIELD(5), 1, 2, 3, 4 }, 6, true },
        { "three bytes", { FIELD(5), 1, 2, 3 }, 5, false },
        { "five bytes where four belong", { FIELD(5), 1, 2, 3, 4, 0x80 }, 7, false },
        { "text", { FIELD(2), 2, 'a', 'b' }, 5, true },
        { "text that ends too early", { FIELD(2), 3, 'a', 'b' }, 5, false },
        { "text without length", { FIELD(2) }, 2, false },
        { "a group", { FIELD(3) }, 2, false },
        { "the end of a group", { FIELD(4) }, 2, false },
        { "kind 6", { FIELD(6) }, 2, false },
        { "kind 7", { FIELD(7) }, 2, false },
        { "number 0, which none has, twice", { 2, 1, 'a', 2, 1, 'b' }, 6, true },
        { "two of them", { FIELD(0), 0x05, FIELD(2), 1, 'a' }, 7, true },
        { "the times once more", { COL_TS << 3 | 2, 1, 0 }, 3, false },
        { "a column of four bytes", { COL_TS << 3 | 5, 1, 2, 3, 4 }, 5, false },
        { "a column of eight bytes", { COL_TS << 3 | 1, 1, 2, 3, 4, 5, 6, 7, 8 }, 9, false },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        whole w = whole_new();
        mrd_batch_reader *r = mrd_batch_reader_new(w.codec);
        uint32_t n;
        uint64_t sum;
        mrd_err err = read_with(&w, r, (mrd_bytes){ rows[i].bytes, rows[i].len }, &n, &sum);

        CHECK_ERR(rows[i].name, err, rows[i].ok ? MRD_OK : MRD_CORRUPT);
        CHECK_ROW(rows[i].name, n == (rows[i].ok ? EVENTS : 0));
        mrd_batch_reader_free(r);
        whole_free(&w);
    }
}

/* A reader that is used for a second batch has no data of the first one. */
TEST(a_reader_reads_one_batch_after_the_other)
{
    whole w = whole_new();
    mrd_batch_reader *r = mrd_batch_reader_new(w.codec);
    uint32_t n;
    uint64_t sum, later;

    CHECK_ERR("first", read_with(&w, r, (mrd_bytes){ 0 }, &n, &sum), MRD_OK);
    CHECK_INT(sum, 100 + 101 + 102 + 103 + 104 + 105 + 106 + 107);
    w.columns->ts[1] += 10;
    CHECK_ERR("second", read_with(&w, r, (mrd_bytes){ 0 }, &n, &later), MRD_OK);
    CHECK_INT(n, EVENTS);
    CHECK_INT(later, sum + 7 * 10);
    mrd_batch_reader_free(r);
    whole_free(&w);
}

TEST(half_a_batch_and_other_frames_are_refused)
{
    whole w = whole_new();
    mrd_batch_reader *r = mrd_batch_reader_new(w.codec);
    uint8_t body[4096] = { 0 };
    size_t head = mrd__batch_head__pack(w.head, body);
    size_t all = head + mrd__batch_columns__pack(w.columns, body + head);
    mrd_frame f = w.frame;
    mrd_batch_info info;
    const mrd_event *ev;
    mrd_why why = { 0 };

    f.head_len = f.head_raw = (uint32_t) head;
    f.body_len = (uint32_t) all;
    f.cols_raw = (uint32_t) (all - head);
    CHECK_ERR("whole", mrd_batch_open(r, &f, (mrd_bytes){ body, all }, w.cat, &info, &why), MRD_OK);
    CHECK_ERR("its head", mrd_batch_scan(r, &f, (mrd_bytes){ body, head }, w.cat, &info, &why),
              MRD_OK);
    CHECK_INT(info.events, EVENTS);
    CHECK_ERR("less", mrd_batch_scan(r, &f, (mrd_bytes){ body, head - 1 }, w.cat, &info, &why),
              MRD_TRUNCATED);
    CHECK_ERR("no end", mrd_batch_open(r, &f, (mrd_bytes){ body, all - 1 }, w.cat, &info, &why),
              MRD_TRUNCATED);
    f.type = MRD_FRAME_CLOCK_DATA;
    CHECK_ERR("type", mrd_batch_open(r, &f, (mrd_bytes){ body, all }, w.cat, &info, &why),
              MRD_TYPE);
    CHECK(mrd_batch_next(r, &ev, &why) == MRD_END); /* nothing of it */
    mrd_batch_reader_free(r);
    whole_free(&w);
}

/* ---- One number of one column ---- */

/* These macros find the i-th value of a field of the batch, which has 32 or 64 bits. */
#define HEAD32(field) offsetof(Mrd__BatchHead, field), offsetof(Mrd__BatchHead, n_##field), 4, true
#define HEAD64(field) offsetof(Mrd__BatchHead, field), offsetof(Mrd__BatchHead, n_##field), 8, true
#define COLUMN32(field)                                                                            \
    offsetof(Mrd__BatchColumns, field), offsetof(Mrd__BatchColumns, n_##field), 4, false
#define COLUMN64(field)                                                                            \
    offsetof(Mrd__BatchColumns, field), offsetof(Mrd__BatchColumns, n_##field), 8, false

typedef struct {
    const char *name;
    size_t at, count_at;
    unsigned width;
    bool head;
} field;

static const field fields[] = {
    { "track_source", HEAD32(track_source) },
    { "track_kind", HEAD32(track_kind) },
    { "track_lnc", HEAD64(track_lnc) },
    { "track_pcore", HEAD64(track_pcore) },
    { "track_device", HEAD64(track_device) },
    { "track_thread", HEAD64(track_thread) },
    { "track_name", HEAD32(track_name) },
    { "track_unit", HEAD32(track_unit) },
    { "track_unit_name", HEAD32(track_unit_name) },
    { "track_sort", HEAD64(track_sort) },
    { "track_worker", HEAD64(track_worker) },
    { "form_bits", HEAD32(form_bits) },
    { "form_category", HEAD32(form_category) },
    { "form_args", HEAD32(form_args) },
    { "form_flows", HEAD32(form_flows) },
    { "form_key", HEAD32(form_key) },
    { "form_type", HEAD32(form_type) },
    { "ts", COLUMN64(ts) },
    { "form", COLUMN32(form) },
    { "track", COLUMN32(track) },
    { "name", COLUMN32(name) },
    { "dur", COLUMN64(dur) },
    { "id", COLUMN64(id) },
    { "counter_int", COLUMN64(counter_int) },
    { "counter_double", COLUMN64(counter_double) },
    { "bound", COLUMN32(bound) },
    { "flow_id", COLUMN64(flow_id) },
    { "flow_dir", COLUMN32(flow_dir) },
    { "arg_int", COLUMN64(arg_int) },
    { "arg_uint", COLUMN64(arg_uint) },
    { "arg_double", COLUMN64(arg_double) },
    { "arg_str", COLUMN32(arg_str) },
    { "text_len", COLUMN32(text_len) },
};

static const field *
field_of(const char *name)
{
    for (size_t i = 0; i < MRD_COUNT(fields); i++)
        if (strcmp(fields[i].name, name) == 0)
            return &fields[i];
    abort();
}

static uint8_t *
message_of(const whole *w, const field *f)
{
    return f->head ? (uint8_t *) w->head : (uint8_t *) w->columns;
}

static size_t *
count_of(const whole *w, const field *f)
{
    return (size_t *) (void *) (message_of(w, f) + f->count_at);
}

static void
set(const whole *w, const field *f, size_t i, uint64_t value)
{
    uint8_t *values;
    uint32_t narrow = (uint32_t) value;

    memcpy(&values, message_of(w, f) + f->at, sizeof(values));
    REQUIRE(i < *count_of(w, f));
    memcpy(values + i * f->width, f->width == 4 ? (const void *) &narrow : &value, f->width);
}

/* The message about an invalid event contains its position in the batch. The events before it were
 * returned. */
TEST(the_event_that_is_wrong_is_named)
{
    for (uint32_t i = 0; i < EVENTS; i++) {
        whole w = whole_new();
        char want[32];
        uint32_t n;

        w.columns->name[i] = (uint32_t) w.head->n_strings + 1;
        CHECK_ERR("name", read_again(&w, &n), MRD_CORRUPT);
        CHECK_INT(n, i);
        snprintf(want, sizeof(want), "batch 10, event %u:", i);
        CHECK(mrd_str_starts(mrd_str_of(said), want));
        whole_free(&w);
    }
    mrd_batch_reader_free(NULL); /* nothing */
}

/* No column may be shorter or longer than the events and forms need. The column of forms determines
 * the lengths of the others, so its error is reported, and no form after its end is read. */
TEST(a_column_of_another_length_is_refused)
{
    for (size_t i = 0; i < MRD_COUNT(fields); i++) {
        bool forms = strcmp(fields[i].name, "form") == 0;
        whole w = whole_new();
        uint8_t *values, *longer = calloc(1000, sizeof(uint64_t));
        size_t count = *count_of(&w, &fields[i]);
        uint32_t n;

        REQUIRE(longer != NULL && count > 0 && count < 1000);
        --*count_of(&w, &fields[i]);
        CHECK_ROW(fields[i].name, read_again(&w, &n) != MRD_OK);
        CHECK_ROW(fields[i].name, (strstr(said, "its form column has another") != NULL) == forms);
        memcpy(&values, message_of(&w, &fields[i]) + fields[i].at, sizeof(values));
        memcpy(longer, values, count * fields[i].width);
        memcpy(longer + count * fields[i].width, values, fields[i].width);
        memcpy(message_of(&w, &fields[i]) + fields[i].at, &longer, sizeof(longer));
        *count_of(&w, &fields[i]) = count + 1;
        CHECK_ROW(fields[i].name, read_again(&w, &n) != MRD_OK);
        CHECK_ROW(fields[i].name, (strstr(said, "its form column has another") != NULL) == forms);
        memcpy(message_of(&w, &fields[i]) + fields[i].at, &values, sizeof(values));
        *count_of(&w, &fields[i]) = count;
        free(longer);
        CHECK_ERR(fields[i].name, read_again(&w, &n), MRD_OK);
        whole_free(&w);
    }
}

typedef struct {
    const char *name;
    size_t i;
    uint64_t value; /* ignored for a double */
    bool fine;
} number_row;

/* Sets one number of a batch at a time. A double is set to each of bad_doubles, of which only the
 * last is valid. */
static void
check_numbers(const number_row *rows, size_t n_rows)
{
    static const double bad_doubles[] = { NAN, INFINITY, -INFINITY, 1e300 };

    for (size_t i = 0; i < n_rows; i++) {
        bool is_double = strstr(rows[i].name, "_double") != NULL;

        for (size_t k = 0; k < (is_double ? MRD_COUNT(bad_doubles) : 1); k++) {
            whole w = whole_new();
            uint64_t value = rows[i].value;
            uint32_t n;
            char row[80];
            mrd_err err;

            if (is_double)
                memcpy(&value, &bad_doubles[k], sizeof(value));
            set(&w, field_of(rows[i].name), rows[i].i, value);
            snprintf(row, sizeof(row), "%s[%zu] = %" PRIu64, rows[i].name, rows[i].i, value);
            err = read_again(&w, &n);
            CHECK_ROW(row, (err == MRD_OK) == (is_double ? k == 3 : rows[i].fine));
            CHECK_ROW(row, err != MRD_OK || n == EVENTS);
            whole_free(&w);
        }
    }
}

TEST(a_number_of_the_head_out_of_range_is_refused)
{
    whole w = whole_new();
    uint32_t strings = (uint32_t) w.head->n_strings;
    const number_row rows[] = {
        { "track_source", 0, MRD_SRC_MERIDIAN, true },
        { "track_source", 0, MRD_SRC_MERIDIAN + 1, false },
        { "track_kind", 0, MRD_TRACK_COUNTER + 1, false },
        { "track_kind", 1, 0, true },
        { "track_unit", 0, MRD_UNIT_PERCENT, true },
        { "track_unit", 0, MRD_UNIT_PERCENT + 1, false },
        { "track_name", 1, strings, true },
        { "track_name", 1, strings + 1, false },
        { "track_unit_name", 0, strings, true },
        { "track_unit_name", 0, strings + 1, false },
        { "track_lnc", 0, (uint64_t) -1, true },
        { "track_lnc", 0, (uint64_t) -2, false },
        { "track_pcore", 0, (uint64_t) -2, false },
        { "track_device", 0, (uint64_t) -2, false },
        { "track_thread", 0, (uint64_t) -2, false },
        { "track_worker", 0, (uint64_t) -2, false },
        { "track_worker", 0, 0, true },
        { "form_bits", 0, 0, false },
        { "form_bits", 0, MRD_LOSS + 1, false },
        { "form_bits", 0, FORM_BITS_END | MRD_SPAN, false },
        { "form_bits", 0, MRD_SPAN | 1u << FORM_DIR_SHIFT, false },
        { "form_bits", 3, MRD_INSTANT | FORM_HAS_BOUND | FORM_UNFINISHED, false },
        { "form_bits", 6, MRD_FLOW, false },
        { "form_bits", 6, MRD_FLOW | 1u << FORM_DIR_SHIFT, true },
        { "form_bits", 6, MRD_FLOW | 3u << FORM_DIR_SHIFT, true },
        { "form_bits", 6, MRD_FLOW | 1u << FORM_DIR_SHIFT | FORM_HAS_ID, false },
        { "form_category", 0, strings, true },
        { "form_category", 0, strings + 1, false },
        { "form_args", 0, 1, false },
        { "form_args", 2, 6, false },
        { "form_args", 2, 8, false },
        { "form_flows", 2, 1, false },
        { "form_flows", 2, 3, false },
        { "form_flows", 2, 256, false },
        { "form_key", 0, strings, true },
        { "form_key", 0, strings + 1, false },
        { "form_type", 0, 0, false },
        { "form_type", 0, MRD_ARG_JSON + 1, false },
        { "form_type", 1, MRD_ARG_BOOL, true },
    };

    whole_free(&w);
    check_numbers(rows, MRD_COUNT(rows));
}

TEST(a_number_of_a_column_out_of_range_is_refused)
{
    whole w = whole_new();
    uint32_t strings = (uint32_t) w.head->n_strings, forms = (uint32_t) w.head->n_form_bits;
    const number_row rows[] = {
        { "ts", 1, 1000, true },
        { "ts", 1, (uint64_t) INT64_MAX - 100, false }, /* the following times overflow */
        { "ts", 7, (uint64_t) INT64_MAX - 106, true },
        { "ts", 7, (uint64_t) INT64_MAX - 105, false },
        { "ts", 7, (uint64_t) INT64_MAX + 1, false },
        { "form", 0, forms - 1, false }, /* needs other columns than were sent */
        { "form", 0, forms, false },
        { "track", 0, 1, true },
        { "track", 0, 2, false },
        { "name", 0, strings, true },
        { "name", 0, strings + 1, false },
        { "dur", 0, INT64_MAX, true },
        { "dur", 0, (uint64_t) INT64_MAX + 1, false },
        { "bound", 0, UINT32_MAX, true },
        { "flow_dir", 0, 0, false },
        { "flow_dir", 0, MRD_FLOW_STEP, true },
        { "flow_dir", 0, MRD_FLOW_END + 1, false },
        { "flow_dir", 1, MRD_FLOW_START, true },
        { "arg_str", 0, strings, true },
        { "arg_str", 0, strings + 1, false },
        { "text_len", 0, 3, false }, /* bytes that belong to no text */
        { "text_len", 0, 5, false },
        { "text_len", 1, UINT32_MAX, false },
        { "arg_double", 0, 0, false },
        { "counter_double", 0, 0, false },
    };

    whole_free(&w);
    check_numbers(rows, MRD_COUNT(rows));
}

/* The process must be present and equal to the process of the frame. None of its attributes may be
 * below -1, which means unknown. */
TEST(a_process_that_cannot_be_is_refused)
{
    for (int i = 0; i < 11; i++) {
        whole w = whole_new();
        Mrd__Process *p = w.head->process, kept = *p;
        int64_t *const attributes[] = { &p->container_pid, &p->rank, &p->world_size,
                                        &p->worker_gid };
        bool fine = i >= 4 && i < 8;
        uint32_t n;

        if (i < 8)
            *attributes[i % 4] = fine ? -1 : -2;
        if (i == 8)
            w.head->process = NULL;
        if (i == 9)
            p->process_id++;
        if (i == 10)
            p->process_id = 0;
        CHECK((read_again(&w, &n) == MRD_OK) == fine);
        if (i < 4)
            CHECK(strstr(said, "its process has a negative attribute") != NULL);
        if (i >= 8)
            CHECK(strstr(said, "its process is not the one of its header") != NULL);
        w.head->process = p;
        *p = kept;
        whole_free(&w);
    }
}

TEST(a_head_that_contradicts_its_frame_is_refused)
{
    for (int i = 0; i < 7; i++) {
        whole w = whole_new();
        Mrd__CrossReads *c = w.head->cross;
        uint32_t n;

        REQUIRE(c != NULL && c->n_raw_ns == 1);
        w.head->events += i == 0;
        w.head->base_ns += i == 1;
        w.head->clock = i == 2 ? MRD__CLOCK_KIND__CLOCK_REALTIME : w.head->clock;
        c->n_raw_ns -= i == 3;
        c->n_other_ns -= i == 4;
        c->n_bracket_ns -= i == 5;
        c->bracket_ns[0] = i == 6 ? (uint64_t) INT64_MAX + 1 : c->bracket_ns[0];
        CHECK(read_again(&w, &n) != MRD_OK);
        c->n_raw_ns = c->n_other_ns = c->n_bracket_ns = 1;
        whole_free(&w);
    }
}

TEST_MAIN()
