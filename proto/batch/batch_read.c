#include "proto/batch/batch_read_int.h"

#include <math.h>
#include <stdlib.h>

#include "base/obj.h"
#include "base/vec.h"
#include "proto/wire.h"

#define AHEAD 32 /* number of events decoded together, so that their data stays in the cache */

static const char out_of_memory[] = "out of memory";

mrd_batch_reader *
mrd_batch_reader_new(mrd_codec *codec)
{
    mrd_batch_reader *reader = calloc(1, sizeof(*reader));

    if (reader != NULL)
        reader->codec = codec;
    return reader;
}

void
mrd_batch_reader_of(mrd_batch_reader *reader, const char *instance_id)
{
    reader->node = instance_id;
}

void
mrd_batch_reader_free(mrd_batch_reader *reader)
{
    if (reader == NULL)
        return;
    free(reader->strings);
    free(reader->tracks);
    free(reader->forms);
    free(reader->keys);
    free(reader->cross);
    mrd_buf_fini(&reader->head_raw);
    mrd_buf_fini(&reader->cols);
    free(reader->chunk);
    free(reader->args);
    free(reader->flows);
    free(reader);
}

/* ---- Finding and checking the columns ---- */

/* Reads one varint at *p. Returns false if the varint does not end before `end`, or if its number
 * has more than 64 bits. */
static bool
varint_checked(const uint8_t **p, const uint8_t *end, uint64_t *ret_v)
{
    uint64_t v = 0;

    for (unsigned shift = 0; *p < end && shift < 70; shift += 7) {
        uint8_t byte = *(*p)++;

        if (shift == 63 && byte > 1)
            return false;
        v |= (uint64_t) (byte & 0x7f) << shift;
        if (byte < 0x80) {
            *ret_v = v;
            return true;
        }
    }
    return false;
}

/* Finds the columns in the decompressed protobuf message and skips unknown fields. A column that
 * is absent becomes an empty column at the end of the message, where CODEC_SLACK bytes are
 * readable. */
static bool
columns_find(mrd_batch_reader *reader, mrd_bytes data)
{
    const uint8_t *bytes = data.p, *end = data.p + data.len;

    for (unsigned c = 0; c < COLS; c++)
        reader->col[c] = (column){ end, end };
    while (bytes < end) {
        uint64_t tag, len;

        if (!varint_checked(&bytes, end, &tag))
            return false;
        switch (tag & 7) {
        case 0:
            if (!varint_checked(&bytes, end, &len))
                return false;
            continue;
        case 1:
            len = 8;
            break;
        case 2:
            if (!varint_checked(&bytes, end, &len))
                return false;
            break;
        case 5:
            len = 4;
            break;
        default:
            return false;
        }
        if (len > (uint64_t) (end - bytes))
            return false;
        if (tag >> 3 < COLS && tag >> 3 > 0) {
            column *c = &reader->col[tag >> 3];

            if ((tag & 7) != 2 || c->p != end)
                return false; /* a column must occur only once */
            *c = (column){ bytes, bytes + len };
        }
        bytes += len;
    }
    return true;
}

/* Returns the number of varints in the column, or SIZE_MAX if the last varint is incomplete. Counts
 * the bytes without the continuation bit, eight bytes at a time. */
static size_t
column_count(const column *c)
{
    const uint8_t *bytes = c->p;
    size_t count = 0, words = (size_t) (c->end - bytes) / 8;

    if (bytes == c->end)
        return 0;
    if (c->end[-1] >= 0x80)
        return SIZE_MAX;
    while (words > 0) {
        size_t some = words < 255 ? words : 255; /* each byte of `sum` counts to at most 255 */
        uint64_t sum = 0;

        for (size_t i = 0; i < some; i++, bytes += 8)
            sum += ~load64(bytes) >> 7 & 0x0101010101010101u;
        sum = (sum & 0x00ff00ff00ff00ffu) + (sum >> 8 & 0x00ff00ff00ff00ffu);
        count += (size_t) (sum * 0x0001000100010001u >> 48);
        words -= some;
    }
    for (; bytes < c->end; bytes++)
        count += *bytes < 0x80;
    return count;
}

/* Reads the next varint of a column. The number of varints in the column was checked before, so the
 * varint ends inside the column. A varint of more than ten bytes gives an arbitrary number, and the
 * caller checks the range of every number. */
static inline uint64_t
next_varint(column *c)
{
    return varint_get(&c->p);
}

/* Reads the next varint of a column of small numbers. Nearly all have one byte, so that the
 * processor predicts the branch. */
static inline uint64_t
next_small(column *c)
{
    if (__builtin_expect(*c->p < 0x80, 1))
        return *c->p++;
    return varint_get(&c->p);
}

static inline uint64_t
next_fixed64(column *c)
{
    uint64_t v = load64(c->p);

    c->p += 8;
    return v;
}

/* Adds to `want` the number of entries that `times` events of a form have in each column. */
static void
form_uses(const mrd_batch_reader *reader, const form *f, uint64_t times, uint64_t want[COLS])
{
    uint32_t kind = f->bits & FORM_KIND;
    bool integer = (f->bits >> FORM_FLAGS_SHIFT & MRD_EV_INT) != 0;

    if (kind == MRD_LOSS || (kind == MRD_SPAN && (f->bits & FORM_UNFINISHED) == 0))
        want[COL_DUR] += times;
    if (kind == MRD_LOSS || (kind == MRD_COUNTER && integer))
        want[COL_COUNTER_INT] += times;
    else if (kind == MRD_COUNTER)
        want[COL_COUNTER_DOUBLE] += times;
    if ((f->bits & FORM_HAS_ID) != 0)
        want[COL_ID] += times;
    if ((f->bits & FORM_HAS_BOUND) != 0)
        want[COL_BOUND] += times;
    want[COL_FLOW_ID] += times * (f->flows + (kind == MRD_FLOW));
    want[COL_FLOW_DIR] += times * f->flows;
    for (uint32_t k = 0; k < f->args; k++)
        want[reader->keys[f->keys_at + k].column] += times;
}

/* Computes the number of entries that each column must have. Errors: CORRUPT if a form id is out of
 * range. */
static mrd_err
columns_expect(mrd_batch_reader *reader, uint64_t want[COLS])
{
    column forms = reader->col[COL_FORM];
    uint32_t *times = calloc(reader->n_forms + 1, sizeof(*times));
    bool ok = true;

    if (times == NULL)
        return MRD_NOMEM;
    for (unsigned c = COL_TS; c <= COL_NAME; c++)
        want[c] = reader->frame.events;
    for (uint32_t i = 0; i < reader->frame.events && ok; i++) {
        uint64_t f = next_small(&forms);

        if ((ok = f < reader->n_forms))
            times[f]++;
    }
    for (uint32_t f = 0; f < reader->n_forms && ok; f++) {
        if (times[f] > 0)
            form_uses(reader, &reader->forms[f], times[f], want);
    }
    free(times);
    return ok ? MRD_OK : MRD_CORRUPT;
}

static bool
text_fits(const mrd_batch_reader *reader, uint64_t n)
{
    column lens = reader->col[COL_TEXT_LEN];
    uint64_t sum = 0, have = (uint64_t) (reader->col[COL_TEXT].end - reader->col[COL_TEXT].p);

    for (uint64_t i = 0; i < n; i++) {
        uint64_t len = next_varint(&lens);

        if (len > have - sum)
            return false;
        sum += len;
    }
    return sum == have;
}

static mrd_err
columns_check(mrd_batch_reader *reader, mrd_why *why)
{
    uint64_t want[COLS] = { 0 };
    mrd_err err;

    /* Check the forms first, because they determine the length of the other columns. */
    if (column_count(&reader->col[COL_FORM]) != reader->frame.events)
        return mrd_batch_corrupt(reader, why, "its form column has another number of events");
    if ((err = columns_expect(reader, want)) == MRD_NOMEM)
        return mrd_why_set(why, err, 0, "batch of %u forms", reader->n_forms);
    if (err != MRD_OK)
        return mrd_batch_corrupt(reader, why, "an event has a form that it does not define");
    for (unsigned c = COL_TS; c < COL_TEXT; c++) {
        bool fixed = c == COL_COUNTER_DOUBLE || c == COL_FLOW_ID || c == COL_ARG_DOUBLE;
        size_t len = (size_t) (reader->col[c].end - reader->col[c].p);

        if (fixed ? len != want[c] * 8 : column_count(&reader->col[c]) != want[c])
            return mrd_why_set(
                why, MRD_CORRUPT, 0, "batch %llu: column %u does not have its %llu entries",
                (unsigned long long) reader->frame.seq, c, (unsigned long long) want[c]);
    }
    if (!text_fits(reader, want[COL_TEXT_LEN]))
        return mrd_batch_corrupt(reader, why, "its text does not have the lengths it states");
    return MRD_OK;
}

mrd_err
mrd_batch_open(mrd_batch_reader *reader, const mrd_frame *frame, mrd_bytes body, mrd_catalog *cat,
               mrd_batch_info *ret_info, mrd_why *why)
{
    mrd_batch_info info;
    mrd_bytes cols;
    mrd_err err = mrd_batch_scan(reader, frame, body, cat, &info, why);

    if (err != MRD_OK)
        return err;
    if (body.len != frame->body_len)
        return mrd_why_set(why, MRD_TRUNCATED, 0, "batch with %zu of %u bytes", body.len,
                           frame->body_len);
    cols = (mrd_bytes){ body.p + frame->head_len, body.len - frame->head_len };
    err = mrd_codec_unpack(reader->codec, frame->codec, cols, frame->cols_raw, &reader->cols, &cols,
                           why);
    if (err == MRD_OK && cols.p != reader->cols.p) {
        mrd_buf_reset(&reader->cols);
        if (mrd_buf_room(&reader->cols, cols.len + CODEC_SLACK)) {
            mrd_buf_add(&reader->cols, cols.p, cols.len);
            memset(reader->cols.p + cols.len, 0, CODEC_SLACK);
        }
        err = reader->cols.err;
        cols.p = reader->cols.p;
    }
    if (err != MRD_OK)
        return err;
    if (!columns_find(reader, cols))
        return mrd_batch_corrupt(reader, why, "its columns are no message");
    if ((err = columns_check(reader, why)) != MRD_OK)
        return err;
    if (!MRD_VEC_ROOM(reader->chunk, 0, reader->chunk_cap, AHEAD) ||
        !MRD_VEC_ROOM(reader->args, 0, reader->args_cap, (AHEAD + 1) * FEW) ||
        !MRD_VEC_ROOM(reader->flows, 0, reader->flows_cap, 1))
        return mrd_why_set(why, MRD_NOMEM, 0, "batch");
    reader->decoded = 0;
    reader->ts = frame->first;
    reader->last_id = 0;
    *ret_info = info;
    return MRD_OK;
}

/* ---- Decoding the events ---- */

static mrd_step
bad(mrd_batch_reader *reader, mrd_why *why)
{
    mrd_err err = reader->wrong == out_of_memory ? MRD_NOMEM : MRD_CORRUPT;

    mrd_why_set(why, err, 0, "batch %llu, event %u: %s", (unsigned long long) reader->frame.seq,
                reader->given, reader->wrong);
    reader->decoded = reader->frame.events;
    reader->chunk_n = reader->chunk_at = 0;
    reader->wrong = NULL;
    return MRD_BAD;
}

/* Decodes an argument of any type except integers. Returns NULL, or a text that describes the
 * error. */
static const char *
decode_arg(mrd_batch_reader *reader, column *c, mrd_arg *arg)
{
    uint64_t value = arg->type == MRD_ARG_DOUBLE ? next_fixed64(c) : next_varint(c);

    arg->v.u = value;
    switch ((mrd_arg_type) arg->type) {
    case MRD_ARG_STR:
        if (value >= reader->n_strings)
            return "an argument's string is not in the dictionary";
        arg->v.sid = reader->strings[value];
        break;
    case MRD_ARG_TEXT:
    case MRD_ARG_JSON:
        if (value > MRD_ARG_TEXT_MAX)
            return "an argument's text is too long";
        arg->len = (uint32_t) value & MRD_ARG_TEXT_MAX;
        arg->v.text = (const char *) reader->col[COL_TEXT].p;
        reader->col[COL_TEXT].p += value;
        break;
    case MRD_ARG_BOOL:
        arg->v.u = value != 0;
        break;
    case MRD_ARG_DOUBLE:
        if (!isfinite(arg->v.d))
            return "an argument is not a finite number";
        break;
    default:
        break;
    }
    return NULL;
}

static inline const char *
decode_args(mrd_batch_reader *reader, const form *f)
{
    const form_key *key = reader->keys + f->keys_at, *end = key + f->args;
    const char *wrong;
    mrd_arg *arg;

    if (reader->n_args + f->args + FEW > reader->args_cap &&
        !MRD_VEC_ROOM(reader->args, 0, reader->args_cap, (size_t) reader->n_args + f->args + FEW))
        return out_of_memory;
    arg = reader->args + reader->n_args;
    reader->n_args += f->args;
    for (; key < end; key++, arg++) {
        arg->key = key->key;
        arg->type = key->type & 15;
        arg->len = 0;
        if (key->type == MRD_ARG_INT)
            arg->v.i = unzigzag(next_varint(&reader->col[COL_ARG_INT]));
        else if ((wrong = decode_arg(reader, &reader->col[key->column], arg)) != NULL)
            return wrong;
    }
    return NULL;
}

static const char *
decode_flows(mrd_batch_reader *reader, const form *f)
{
    if (!MRD_VEC_ROOM(reader->flows, 0, reader->flows_cap, (size_t) reader->n_flows + f->flows))
        return out_of_memory;
    for (uint32_t k = 0; k < f->flows; k++) {
        uint64_t id = next_fixed64(&reader->col[COL_FLOW_ID]),
                 dir = next_varint(&reader->col[COL_FLOW_DIR]);

        if (dir < MRD_FLOW_START || dir > MRD_FLOW_END)
            return "an arrow has an unknown direction";
        reader->flows[reader->n_flows++] = (mrd_flow){ .id = id, .dir = (mrd_flow_dir) dir };
    }
    return NULL;
}

static const char *
decode_values(mrd_batch_reader *reader, const form *f, mrd_event *ev)
{
    uint32_t bits = f->bits;

    if (ev->kind == MRD_LOSS || (ev->kind == MRD_SPAN && (bits & FORM_UNFINISHED) == 0)) {
        uint64_t dur = next_varint(&reader->col[COL_DUR]);

        if (dur > INT64_MAX)
            return "a duration is out of range";
        ev->dur_ns = (int64_t) dur;
    } else if ((bits & FORM_UNFINISHED) != 0) {
        ev->dur_ns = MRD_DUR_UNFINISHED;
    }
    if ((bits & FORM_HAS_ID) != 0)
        ev->id = reader->last_id += (uint64_t) unzigzag(next_varint(&reader->col[COL_ID]));
    if ((bits & FORM_HAS_BOUND) != 0)
        ev->bound_ns = (uint32_t) next_varint(&reader->col[COL_BOUND]);
    if (ev->kind == MRD_LOSS || (ev->kind == MRD_COUNTER && (ev->flags & MRD_EV_INT) != 0)) {
        ev->ivalue = unzigzag(next_varint(&reader->col[COL_COUNTER_INT]));
    } else if (ev->kind == MRD_COUNTER) {
        ev->ivalue = (int64_t) next_fixed64(&reader->col[COL_COUNTER_DOUBLE]);
        if (!isfinite(ev->value))
            return "a sample is not a finite number";
    } else if (ev->kind == MRD_FLOW) {
        ev->id = next_fixed64(&reader->col[COL_FLOW_ID]);
        ev->flow_dir = (uint8_t) (bits >> FORM_DIR_SHIFT & 3);
    }
    return NULL;
}

/* Decodes the next event into *ev, and appends its arguments and flows to reader->args and
 * reader->flows. Returns NULL, or a text that describes the error. */
static inline const char *
decode_event(mrd_batch_reader *reader, mrd_event *ev)
{
    uint64_t delta = next_varint(&reader->col[COL_TS]), track = next_small(&reader->col[COL_TRACK]),
             name = next_small(&reader->col[COL_NAME]);
    const form *f = &reader->forms[next_small(&reader->col[COL_FORM])];
    const char *wrong;

    if (delta > INT64_MAX || __builtin_add_overflow(reader->ts.ns, (int64_t) delta, &reader->ts.ns))
        return "its time is out of range";
    if (track >= reader->n_tracks || name >= reader->n_strings)
        return "its track or name is not in the dictionary";
    *ev = f->like;
    ev->ts = reader->ts;
    ev->seq = reader->frame.seq << 16 | reader->decoded++;
    ev->track = reader->tracks[track];
    ev->name = reader->strings[name];
    if ((wrong = decode_values(reader, f, ev)) != NULL ||
        (f->flows > 0 && (wrong = decode_flows(reader, f)) != NULL))
        return wrong;
    return f->args > 0 ? decode_args(reader, f) : NULL;
}

/* Decodes n signed integer arguments from the varints at p. `key` has the keys of the arguments.
 * Returns the end of the last varint. */
static inline const uint8_t *
decode_ints(const form_key *key, uint32_t n, const uint8_t *p, mrd_arg *arg)
{
    for (uint32_t i = 0; i < n; i++)
        arg[i] =
            (mrd_arg){ .key = key[i].key, .type = MRD_ARG_INT, .v.i = unzigzag(varint_get(&p)) };
    return p;
}

/* Decodes the varint at *p. If the number is not wanted and the varint is longer than four bytes,
 * returns 0 without decoding it. Such a varint may extend beyond the readable bytes. */
static inline int64_t
int_if(bool wanted, const uint8_t **p)
{
    bool is_long = (~load32(*p) & 0x80808080u) == 0;

    return __builtin_expect(is_long, 0) && !wanted ? 0 : unzigzag(varint_get(p));
}

/* Does the work of decode_ints for at most FEW arguments without a branch. It always decodes FEW
 * numbers, because the number of arguments is unpredictable and a misprediction costs more. The
 * bytes of an excess number may belong to later events, to the next column or to the slack after
 * the last column. */
static inline const uint8_t *
decode_few(const form_key *key, uint32_t n, const uint8_t *p, mrd_arg *arg)
{
    const uint8_t *one = p, *two;

    arg[0] = (mrd_arg){ .key = key[0].key, .type = MRD_ARG_INT, .v.i = int_if(n > 0, &one) };
    two = one;
    arg[1] = (mrd_arg){ .key = key[1].key, .type = MRD_ARG_INT, .v.i = int_if(n > 1, &two) };
    return n == 2 ? two : n == 1 ? one : p;
}

/* Decodes plain events (form.plain), which most events are, up to the first other event. Returns
 * false if the next event is not plain, or has a long varint or a number out of range. decode_event
 * then decodes it. */
static bool
decode_plain(mrd_batch_reader *reader)
{
    const uint8_t *ts = reader->col[COL_TS].p, *form_id = reader->col[COL_FORM].p;
    const uint8_t *track = reader->col[COL_TRACK].p, *name = reader->col[COL_NAME].p;
    const uint8_t *dur = reader->col[COL_DUR].p, *ints = reader->col[COL_ARG_INT].p;
    uint32_t n_tracks = reader->n_tracks < 0x80 ? reader->n_tracks : 0x80;
    uint32_t n_strings = reader->n_strings < 0x80 ? reader->n_strings : 0x80;
    uint32_t room_left = AHEAD - reader->chunk_n, left = reader->frame.events - reader->decoded;
    mrd_event *begin = reader->chunk + reader->chunk_n, *ev = begin;
    mrd_event *end = ev + (left < room_left ? left : room_left);
    mrd_arg *args = reader->args + reader->n_args, *args_end = reader->args + reader->args_cap;
    uint64_t seq = reader->frame.seq << 16 | reader->decoded, id = reader->last_id;
    int64_t now = reader->ts.ns;
    bool any_args = reader->n_keys > 0, ties = false;

    for (; ev < end; ev++) {
        const uint8_t *ts_next = ts, *dur_next = dur;
        const form *f = &reader->forms[*form_id & 0x7f];
        uint64_t delta, span;

        if (*form_id >= 0x80 || *track >= n_tracks || *name >= n_strings || !f->plain ||
            args_end - args < (ptrdiff_t) f->args + FEW)
            break;
        delta = varint_get(&ts_next);
        span = varint_get(&dur_next);
        if ((int64_t) (delta | span) < 0 || __builtin_add_overflow(now, (int64_t) delta, &now))
            break;
        ts = ts_next;
        dur = dur_next;
        *ev = f->like;
        ev->args = args;
        ev->ts = (mrd_ev_ns){ now };
        ev->dur_ns = (int64_t) span;
        ev->seq = seq++;
        ev->track = reader->tracks[*track++];
        ev->name = reader->strings[*name++];
        form_id++;
        ties |= delta == 0;
        if ((f->bits & FORM_HAS_ID) != 0)
            ev->id = id += (uint64_t) unzigzag(next_small(&reader->col[COL_ID]));
        if (any_args)
            ints = f->args <= FEW ? decode_few(reader->keys + f->keys_at, f->args, ints, args)
                                  : decode_ints(reader->keys + f->keys_at, f->args, ints, args);
        args += f->args;
    }
    reader->col[COL_TS].p = ts;
    reader->col[COL_FORM].p = form_id;
    reader->col[COL_TRACK].p = track;
    reader->col[COL_NAME].p = name;
    reader->col[COL_DUR].p = dur;
    reader->col[COL_ARG_INT].p = ints;
    reader->last_id = id;
    reader->n_args = (uint32_t) (args - reader->args);
    reader->chunk_n += (uint32_t) (ev - begin);
    reader->decoded += (uint32_t) (ev - begin);
    if (ev > begin)
        reader->ts = ev[-1].ts;
    reader->ties |= ties;
    return ev > begin;
}

static int
chunk_order(const void *a, const void *b)
{
    return mrd_event_order(a, b);
}

/* Sorts events with equal times by mrd_event_order, which compares track ids. The sender sorted
 * them, but by the ids of its own catalog. */
static void
chunk_sort_ties(mrd_batch_reader *reader)
{
    for (uint32_t i = 0, end; i < reader->chunk_n; i = end) {
        for (end = i + 1;
             end < reader->chunk_n && reader->chunk[end].ts.ns == reader->chunk[i].ts.ns; end++)
            ;
        if (end - i > 1)
            qsort(reader->chunk + i, end - i, sizeof(*reader->chunk), chunk_order);
    }
}

/* Sets each event's pointers to its arguments and flows. Their arrays do not move any more. */
static void
chunk_point(mrd_batch_reader *reader)
{
    const mrd_arg *args = reader->args;
    const mrd_flow *flows = reader->flows;

    for (uint32_t i = 0; i < reader->chunk_n; i++) {
        mrd_event *ev = &reader->chunk[i];

        ev->args = args;
        ev->flows = flows;
        args += ev->arg_count;
        flows += ev->flow_count;
    }
}

/* Decodes about AHEAD events, and all further events with the time of the last one. An error in an
 * event is reported after the events before it were returned. */
static void
chunk_fill(mrd_batch_reader *reader)
{
    reader->ties = reader->loose = false;
    reader->chunk_n = reader->chunk_at = reader->n_args = reader->n_flows = 0;
    while (reader->decoded < reader->frame.events && reader->wrong == NULL) {
        bool tie = reader->chunk_n > 0 && *reader->col[COL_TS].p == 0;

        if (reader->chunk_n < AHEAD && decode_plain(reader))
            continue;
        if (reader->chunk_n >= AHEAD && !tie)
            break;
        reader->ties |= tie;
        if (!MRD_VEC_ROOM(reader->chunk, 0, reader->chunk_cap, (size_t) reader->chunk_n + 1))
            reader->wrong = out_of_memory;
        else if ((reader->wrong = decode_event(reader, &reader->chunk[reader->chunk_n])) == NULL)
            reader->chunk_n++;
        /* the pointers to arguments are set later, because the array may still move */
        reader->loose = true;
    }
    if (reader->loose)
        chunk_point(reader);
    if (reader->ties)
        chunk_sort_ties(reader);
    /* Prefetch the next bytes of the columns. Callers that merge many batches read from each in
     * turn, and the processor does not predict such accesses. */
    for (unsigned c = COL_TS; c <= COL_DUR; c++)
        __builtin_prefetch(reader->col[c].p + 64);
    __builtin_prefetch(reader->col[COL_TS].p + 128);
}

mrd_step
mrd_batch_peek(mrd_batch_reader *reader, mrd_event **ret_events, uint32_t *ret_n, mrd_why *why)
{
    if (__builtin_expect(reader->chunk_at == reader->chunk_n, 0)) {
        if (reader->wrong == NULL)
            chunk_fill(reader);
        if (reader->chunk_n == reader->chunk_at)
            return reader->wrong == NULL ? MRD_END : bad(reader, why);
    }
    *ret_events = &reader->chunk[reader->chunk_at];
    *ret_n = reader->chunk_n - reader->chunk_at;
    return MRD_MORE;
}

void
mrd_batch_take(mrd_batch_reader *reader, uint32_t n)
{
    reader->chunk_at += n;
    reader->given += n;
}

mrd_step
mrd_batch_next(mrd_batch_reader *reader, const mrd_event **ret_event, mrd_why *why)
{
    mrd_event *ev;
    uint32_t n;
    mrd_step step = mrd_batch_peek(reader, &ev, &n, why);

    if (step != MRD_MORE)
        return step;
    mrd_batch_take(reader, 1);
    *ret_event = ev;
    return MRD_MORE;
}
