/* proto/batch/batch_columns.c - sorts the rows (events) of a batch and writes them as columns,
 * because columns compress better than rows. */
#include "proto/batch/batch_int.h"

#include <stdatomic.h>
#include <stdlib.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#include "base/obj.h"

/* ---- Sorting: radix sort by time, then events with equal times, then move all rows ---- */

#define RADIX_BITS 11

static void
radix_pass(const mrd_codec_slot *from, mrd_codec_slot *to, size_t n, unsigned shift)
{
    uint32_t count[1u << RADIX_BITS] = { 0 };
    uint32_t sum = 0;

    for (size_t i = 0; i < n; i++)
        count[from[i].key >> shift & ((1u << RADIX_BITS) - 1)]++;
    for (size_t d = 0; d < MRD_COUNT(count); d++) {
        uint32_t c = count[d];

        count[d] = sum;
        sum += c;
    }
    for (size_t i = 0; i < n; i++)
        to[count[from[i].key >> shift & ((1u << RADIX_BITS) - 1)]++] = from[i];
}

static mrd_event
order_key(const mrd_batch *batch, uint32_t row)
{
    return (mrd_event){ .ts = { batch->rows.ts_ns[row] },
                        .track = batch->tracks.order[batch->rows.track[row]],
                        .dur_ns = batch->rows.dur_ns[row],
                        .kind = batch->forms[batch->rows.form[row]].bits & FORM_KIND,
                        .seq = row };
}

static int
slot_order(const void *x, const void *y, void *self)
{
    mrd_event event = order_key(self, ((const mrd_codec_slot *) x)->row);
    mrd_event q = order_key(self, ((const mrd_codec_slot *) y)->row);

    return mrd_event_order(&event, &q);
}

static void
sort_ties(mrd_batch *batch, mrd_codec_slot *slot, size_t n)
{
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && slot[end].key == slot[i].key; end++)
            ;
        if (end - i > 1)
            qsort_r(slot + i, end - i, sizeof(*slot), slot_order, batch);
    }
}

/* Returns the rows sorted by mrd_event_order, in one of the codec's two arrays. *ret_spare is the
 * other array. */
static const mrd_codec_slot *
sorted_slots(mrd_batch *batch, mrd_codec *codec, void **ret_spare)
{
    mrd_codec_slot *slot = codec->slots[0], *other = codec->slots[1];
    uint64_t range = 0;

    for (uint32_t i = 0; i < batch->n; i++) {
        slot[i] =
            (mrd_codec_slot){ (uint64_t) batch->rows.ts_ns[i] - (uint64_t) batch->first.ns, i };
        range |= slot[i].key;
    }
    for (unsigned shift = 0; shift < 64 && range >> shift != 0; shift += RADIX_BITS) {
        mrd_codec_slot *swap = slot;

        radix_pass(slot, other, batch->n, shift);
        slot = other;
        other = swap;
    }
    sort_ties(batch, slot, batch->n);
    *ret_spare = other;
    return slot;
}

static void
arrange64(uint64_t *numbers, const mrd_codec_slot *order, uint32_t n, uint64_t *spare)
{
    for (uint32_t i = 0; i < n; i++)
        spare[i] = numbers[order[i].row];
    memcpy(numbers, spare, n * sizeof(*numbers));
}

static void
arrange32(uint32_t *numbers, const mrd_codec_slot *order, uint32_t n, uint32_t *spare)
{
    for (uint32_t i = 0; i < n; i++)
        spare[i] = numbers[order[i].row];
    memcpy(numbers, spare, n * sizeof(*numbers));
}

/* Reorders one list of values (arguments or flows) to match the new order of the rows. The caller
 * must not have reordered rows.form yet. codec->packed must have space for the list. */
static void
arrange_values(mrd_batch *batch, int kind, const mrd_codec_slot *order, mrd_codec *codec)
{
    const values *from = &batch->vals[kind];
    uint32_t *at = codec->offsets, sum = 0;
    uint64_t *to;

    to = (uint64_t *) (void *) codec->packed.p;
    for (uint32_t i = 0; i < batch->n; i++) {
        at[i] = sum;
        sum += batch->forms[batch->rows.form[i]].uses[kind];
    }
    for (uint32_t i = 0; i < batch->n; i++) {
        uint32_t row = order[i].row, n = batch->forms[batch->rows.form[row]].uses[kind];

        for (uint32_t k = 0; k < n; k++)
            *to++ = from->v[at[row] + k];
    }
    memcpy(from->v, codec->packed.p, from->n * sizeof(*from->v));
}

/* Sorts rows and values by mrd_event_order. Returns false if out of memory, and then leaves the
 * batch unchanged, because all memory is allocated before the first row moves. */
static bool
batch_sort(mrd_batch *batch, uint32_t used, mrd_codec *codec)
{
    const mrd_codec_slot *order;
    void *spare;
    rows *r = &batch->rows;
    uint32_t most = 0;

    if (batch->sorted)
        return true;
    for (int kind = 0; kind < VALS; kind++)
        most = batch->vals[kind].n > most ? batch->vals[kind].n : most;
    mrd_buf_reset(&codec->packed);
    if (!mrd_codec_slots(codec, batch->n) || !mrd_buf_room(&codec->packed, most * sizeof(uint64_t)))
        return false;
    order = sorted_slots(batch, codec, &spare);
    for (int kind = 0; kind < VALS; kind++) {
        if (batch->vals[kind].n > 0)
            arrange_values(batch, kind, order, codec);
    }
    for (uint32_t i = 0; i < batch->n; i++)
        r->ts_ns[i] = (int64_t) ((uint64_t) batch->first.ns + order[i].key);
    arrange64((uint64_t *) r->dur_ns, order, batch->n, spare);
    arrange32(r->track, order, batch->n, spare);
    arrange32(r->name, order, batch->n, spare);
    arrange32(r->form, order, batch->n, spare);
    arrange64(r->id, order, batch->n, spare);
    if ((used & (1u << COL_COUNTER_INT | 1u << COL_COUNTER_DOUBLE)) != 0)
        arrange64(r->value, order, batch->n, spare);
    if ((used & 1u << COL_BOUND) != 0)
        arrange32(r->bound, order, batch->n, spare);
    batch->sorted = true;
    return true;
}

/* ---- Writing one column ---- */

static inline uint8_t *
put_fixed64(uint8_t *p, uint64_t v)
{
    store64(p, v);
    return p + 8;
}

/*
 * A column that is being written as a protobuf field: field number, length, entries. column_begin
 * leaves four bytes for the length, which column_end fills in. Padding a length to four bytes is
 * legal in protobuf. An empty column writes nothing.
 */
typedef struct {
    mrd_buf *to;
    uint8_t *start, *p;
    unsigned field;
} column;

static bool
column_begin(column *c, mrd_buf *to, unsigned field, size_t most)
{
    if (!mrd_buf_room(to, most + 8 + VARINT_ROOM))
        return false;
    *c = (column){ to, to->p + to->len, NULL, field };
    c->p = varint_put(c->start, field << 3 | 2) + 4;
    return true;
}

static void
column_end(column *c)
{
    uint8_t *body = c->start + (c->field < 16 ? 1 : 2) + 4;
    size_t len = (size_t) (c->p - body);

    if (len == 0)
        return;
    for (int i = 0; i < 4; i++)
        body[i - 4] = (uint8_t) ((len >> 7 * i & 0x7f) | (i < 3 ? 0x80 : 0));
    c->to->len = (size_t) (c->p - c->to->p);
}

typedef struct {
    const mrd_batch *b;
    mrd_buf *to;
    mrd_varints_put *varints;
    /* One bit 1 << COL_ for each column. In `used` it means that some form has an entry in the
     * column, in `all` that every form has an entry. */
    uint32_t used, all;
} writer;

/* Returns whether row i has an entry in the optional column `field`. If `all` is set, every row has
 * an entry. */
static inline bool
has(const writer *w, bool all, uint32_t i, unsigned field)
{
    return all || (w->b->forms[w->b->rows.form[i]].columns >> field & 1) != 0;
}

static inline bool
all_have(const writer *w, unsigned field)
{
    return (w->all >> field & 1) != 0;
}

/* ---- Writing many numbers at once ---- */

#define BLOCK 64u

static uint8_t *
varints_plain(uint8_t *p, const uint64_t *numbers, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        p = varint_put(p, numbers[i]);
    return p;
}

#if defined(__x86_64__)
/* Writes the same bytes as varints_plain with a third of the instructions. The instruction PDEP
 * spreads the bits of a number to the low seven bits of each byte. */
__attribute__((target("bmi2,lzcnt"))) static uint8_t *
varints_spread(uint8_t *bytes, const uint64_t *numbers, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint64_t x = _pdep_u64(numbers[i], 0x7f7f7f7f7f7f7f7fu);
        /* number of bits in the unused high bytes */
        unsigned unused = (unsigned) _lzcnt_u64(x | 1) & 56;

        if (__builtin_expect(numbers[i] >> 56 != 0, 0)) {
            bytes = varint_put(bytes, numbers[i]);
            continue;
        }
        store64(bytes, x | 0x0080808080808080u >> unused);
        bytes += 8 - unused / 8;
    }
    return bytes;
}

/* Returns whether the processor has LZCNT. Uses CPUID directly, because __builtin_cpu_supports of
 * clang 14 does not accept "lzcnt". The answer is cached, because CPUID makes a virtual machine
 * exit to its hypervisor. */
static bool
has_lzcnt(void)
{
    enum { UNKNOWN, NO, YES };
    /* atomic to avoid a formal data race; concurrent threads compute the same answer */
    static atomic_int known;
    int has = atomic_load_explicit(&known, memory_order_relaxed);
    unsigned a, b, c, d;

    if (has == UNKNOWN) {
        has = __get_cpuid(0x80000001u, &a, &b, &c, &d) != 0 && (c & bit_LZCNT) != 0 ? YES : NO;
        atomic_store_explicit(&known, has, memory_order_relaxed);
    }
    return has == YES;
}
#endif

mrd_varints_put *
mrd_batch_varints(bool plain)
{
#if defined(__x86_64__)
    /* Exclude Zen 1 and 2, on which PDEP takes 20 to 300 cycles. */
    if (!plain && __builtin_cpu_supports("bmi2") && has_lzcnt() && !__builtin_cpu_is("amdfam17h"))
        return varints_spread;
#else
    (void) plain;
#endif
    return varints_plain;
}

/* A buffer of numbers for one column. pending_add writes the buffer to the column when it is full,
 * so that `put` always encodes many varints at once. */
typedef struct {
    mrd_varints_put *put;
    uint32_t n;
    uint64_t v[BLOCK];
} pending;

/* Adds v to the buffer if `wanted` is true, without a branch for `wanted`. Returns the column's new
 * end. */
static inline uint8_t *
pending_add(pending *q, uint8_t *p, bool wanted, uint64_t v)
{
    q->v[q->n] = v;
    q->n += wanted;
    if (q->n < BLOCK)
        return p;
    q->n = 0;
    return q->put(p, q->v, BLOCK);
}

static uint8_t *
pending_end(pending *q, uint8_t *p)
{
    return q->put(p, q->v, q->n);
}

static inline void
narrow_block(const uint32_t *restrict numbers, uint8_t *restrict to)
{
    for (unsigned i = 0; i < BLOCK; i++)
        to[i] = (uint8_t) numbers[i];
}

/* ---- Writing each kind of column ---- */

static bool
write_times(const writer *w)
{
    const int64_t *ts = w->b->rows.ts_ns;
    uint64_t last = (uint64_t) w->b->first.ns;
    pending q = { .put = w->varints };
    column c;

    if (!column_begin(&c, w->to, COL_TS, (size_t) w->b->n * 10))
        return false;
    for (uint32_t i = 0; i < w->b->n; i++) {
        c.p = pending_add(&q, c.p, true, (uint64_t) ts[i] - last);
        last = (uint64_t) ts[i];
    }
    c.p = pending_end(&q, c.p);
    column_end(&c);
    return true;
}

/* Writes a column of n numbers below `entries`, the size of the dictionary to which they refer. */
static bool
write_numbers(const writer *w, unsigned field, const uint32_t *numbers, uint32_t entries)
{
    uint32_t n = w->b->n, i = 0;
    column c;

    if (!column_begin(&c, w->to, field, (size_t) n * 5))
        return false;
    for (; entries <= 0x80 && i + BLOCK <= n; i += BLOCK, c.p += BLOCK)
        narrow_block(numbers + i, c.p);
    for (; i < n; i++)
        c.p = varint_put_small(c.p, numbers[i]);
    column_end(&c);
    return true;
}

static bool
write_durations(const writer *w)
{
    const uint64_t *dur = (const uint64_t *) w->b->rows.dur_ns;
    pending q = { .put = w->varints };
    column c;

    if (!column_begin(&c, w->to, COL_DUR, (size_t) w->b->n * 10))
        return false;
    if (all_have(w, COL_DUR)) {
        c.p = w->varints(c.p, dur, w->b->n);
    } else {
        for (uint32_t i = 0; i < w->b->n; i++)
            c.p = pending_add(&q, c.p, has(w, false, i, COL_DUR), dur[i]);
        c.p = pending_end(&q, c.p);
    }
    column_end(&c);
    return true;
}

static bool
write_ids(const writer *w)
{
    const uint64_t *id = w->b->rows.id;
    bool all = all_have(w, COL_ID);
    column c;
    uint8_t *bytes;
    uint64_t last = 0;

    if (!column_begin(&c, w->to, COL_ID, (size_t) w->b->n * 10))
        return false;
    bytes = c.p;
    for (uint32_t i = 0; i < w->b->n; i++) {
        if (!has(w, all, i, COL_ID))
            continue;
        bytes = varint_put_small(bytes, zigzag((int64_t) (id[i] - last)));
        last = id[i];
    }
    c.p = bytes;
    column_end(&c);
    return true;
}

static bool
write_bounds(const writer *w)
{
    column c;

    if (!column_begin(&c, w->to, COL_BOUND, (size_t) w->b->n * 5))
        return false;
    for (uint32_t i = 0; i < w->b->n; i++) {
        if (has(w, false, i, COL_BOUND))
            c.p = varint_put(c.p, w->b->rows.bound[i]);
    }
    column_end(&c);
    return true;
}

/* Writes the column `field` with numbers of counters and loss records: either integers or
 * doubles. */
static bool
write_samples(const writer *w, unsigned field)
{
    column c;

    if (!column_begin(&c, w->to, field, (size_t) w->b->n * 10))
        return false;
    for (uint32_t i = 0; i < w->b->n; i++) {
        uint64_t v = w->b->rows.value[i];

        if (has(w, false, i, field))
            c.p = field == COL_COUNTER_DOUBLE ? put_fixed64(c.p, v)
                                              : varint_put(c.p, zigzag((int64_t) v));
    }
    column_end(&c);
    return true;
}

/* Writes the column `field` of the flows, which are the arrows of a timeline. The column has either
 * the ids of all flows, or the directions of flows that are attached to spans and other events. */
static bool
write_flows(const writer *w, unsigned field)
{
    const uint64_t *numbers = w->b->vals[VAL_FLOW].v;
    column c;

    if (!column_begin(&c, w->to, field, ((size_t) w->b->vals[VAL_FLOW].n + w->b->n) * 8))
        return false;
    for (uint32_t i = 0; i < w->b->n; i++) {
        const form *f = &w->b->forms[w->b->rows.form[i]];

        if (field == COL_FLOW_ID && (f->bits & FORM_KIND) == MRD_FLOW)
            c.p = put_fixed64(c.p, w->b->rows.id[i]);
        for (uint32_t k = 0; k < f->flows; k++, numbers += 2)
            c.p = field == COL_FLOW_ID ? put_fixed64(c.p, numbers[0]) : varint_put(c.p, numbers[1]);
    }
    column_end(&c);
    return true;
}

static uint8_t *
put_values(const writer *w, uint8_t *bytes, int kind, const uint64_t *numbers, uint32_t count)
{
    pending q = { .put = w->varints };

    switch (kind) {
    case VAL_INT:
        for (uint32_t i = 0; i < count; i++)
            bytes = pending_add(&q, bytes, true, zigzag((int64_t) numbers[i]));
        return pending_end(&q, bytes);
    case VAL_DOUBLE:
        for (uint32_t i = 0; i < count; i++)
            bytes = put_fixed64(bytes, numbers[i]);
        return bytes;
    case VAL_TEXT: /* a text takes two 64-bit words: its offset and its length */
        for (uint32_t i = 0; i < count; i += 2)
            bytes = varint_put(bytes, numbers[i + 1]);
        return bytes;
    default:
        return w->varints(bytes, numbers, count);
    }
}

/* Writes the column with the arguments of one kind. */
static bool
write_args(const writer *w, int kind, unsigned field)
{
    const values *from = &w->b->vals[kind];
    column c;

    if (!column_begin(&c, w->to, field, (size_t) from->n * 10))
        return false;
    c.p = put_values(w, c.p, kind, from->v, from->n);
    column_end(&c);
    return true;
}

static bool
write_text(const writer *w)
{
    const values *from = &w->b->vals[VAL_TEXT];
    column c;

    if (!column_begin(&c, w->to, COL_TEXT, w->b->text.len))
        return false;
    for (uint32_t i = 0; i < from->n; i += 2) {
        if (from->v[i + 1] > 0)
            memcpy(c.p, w->b->text.p + from->v[i], from->v[i + 1]);
        c.p += from->v[i + 1];
    }
    column_end(&c);
    return true;
}

/* Returns the list of values (VAL_) with the entries of a column. Returns VALS if no list has
 * them. */
static int
values_of(unsigned field)
{
    switch (field) {
    case COL_ARG_INT:
        return VAL_INT;
    case COL_ARG_UINT:
        return VAL_UINT;
    case COL_ARG_DOUBLE:
        return VAL_DOUBLE;
    case COL_ARG_STR:
        return VAL_STR;
    case COL_TEXT_LEN:
    case COL_TEXT:
        return VAL_TEXT;
    default:
        return VALS;
    }
}

static bool
write_column(const writer *w, unsigned field)
{
    const mrd_batch *batch = w->b;
    int kind = values_of(field);

    if (kind < VALS ? batch->vals[kind].n == 0 : field >= COL_DUR && (w->used & 1u << field) == 0)
        return true;
    switch (field) {
    case COL_TS:
        return write_times(w);
    case COL_FORM:
        return write_numbers(w, field, batch->rows.form, batch->n_forms);
    case COL_TRACK:
        return write_numbers(w, field, batch->rows.track, batch->tracks.used);
    case COL_NAME:
        return write_numbers(w, field, batch->rows.name, batch->strings.used + 1);
    case COL_DUR:
        return write_durations(w);
    case COL_ID:
        return write_ids(w);
    case COL_COUNTER_INT:
    case COL_COUNTER_DOUBLE:
        return write_samples(w, field);
    case COL_BOUND:
        return write_bounds(w);
    case COL_FLOW_ID:
    case COL_FLOW_DIR:
        return write_flows(w, field);
    case COL_TEXT:
        return write_text(w);
    default:
        return write_args(w, kind, field);
    }
}

bool
mrd_batch_columns(mrd_batch *batch, mrd_codec *codec, mrd_buf *to)
{
    writer w = { .b = batch, .to = to, .varints = mrd_batch_varints(false), .all = UINT32_MAX };

    for (uint32_t i = 0; i < batch->n_forms; i++) {
        w.used |= batch->forms[i].columns;
        w.all &= batch->forms[i].columns;
    }
    if (!batch_sort(batch, w.used, codec))
        return false;
    for (unsigned field = COL_TS; field < COLS; field++) {
        if (!write_column(&w, field))
            return false;
        codec->ends[field] = to->len;
    }
    return true;
}
