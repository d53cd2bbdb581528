#include "proto/batch.h"

#include <math.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/obj.h"
#include "proto/codec.h"
#include "proto/columns.h"
#include "proto/wire.h"

#define BATCH_CROSS_MAX 1024
/* Encoded bytes of the fixed columns and of one argument, for the estimate that closes a batch. */
#define EVENT_COST 16
#define ARG_COST   6

/* One event without its variable parts, which lie in batch.values in the order of the pushes. */
typedef struct {
    int64_t ts_ns, dur_ns;
    uint64_t id;
    uint64_t value; /* counter or loss, as bits */
    uint32_t track, name, form, bound;
} row;

/* Variable parts by kind, each kind a list of words; the last two take two words a piece: offset
 * and length, id and direction. */
enum { VAL_INT, VAL_UINT, VAL_DOUBLE, VAL_STR, VAL_TEXT, VAL_FLOW, VALS };

typedef struct {
    uint64_t *v;
    uint32_t n, cap;
} values;

/* What a form is made of; keys are catalog ids, `local` ones are looked up when it is written. */
typedef struct {
    uint64_t hash;
    uint32_t bits, category, args, flows;
    uint32_t keys_at;    /* into batch.keys: key << 3 | type */
    uint16_t uses[VALS]; /* words of each kind that an event of this form has */
} form;

/* Open addressing from a catalog id to a number of this batch. */
typedef struct {
    uint64_t *slots; /* id << 32 | local + 1; 0: free */
    uint32_t mask, used;
    uint32_t *order; /* local -> id */
    uint32_t order_cap;
} idmap;

struct mrd_batch {
    const mrd_catalog *cat;
    mrd_proc_id process;
    unsigned clock;
    uint32_t max_events;
    row *rows;
    uint32_t n, rows_cap;
    values vals[VALS];
    uint64_t *keys;
    uint32_t n_keys, keys_cap;
    form *forms;
    uint32_t n_forms, forms_cap;
    uint32_t *form_slots;
    uint32_t form_mask;
    idmap strings, tracks;
    mrd_buf text;
    size_t cost; /* estimated encoded bytes */
    int64_t first_ns, last_ns, newest_ns;
    bool sorted;
    mrd_cross_read *cross;
    size_t n_cross;
};

/* ---- Growing arrays and maps ---- */

static bool
grow(void *array, uint32_t *cap, uint32_t want, size_t size)
{
    void **p = array;
    uint32_t more = *cap < 64 ? 64 : *cap;
    void *v;

    if (want <= *cap)
        return true;
    while (more < want)
        more *= 2;
    if ((v = realloc(*p, more * size)) == NULL)
        return false;
    *p = v;
    *cap = more;
    return true;
}

static uint32_t
idmap_slot(const idmap *m, uint32_t id)
{
    uint32_t at = (id * 0x9e3779b1u >> 7) & m->mask;

    while (m->slots[at] != 0 && m->slots[at] >> 32 != id)
        at = (at + 1) & m->mask;
    return at;
}

static bool
idmap_rehash(idmap *m)
{
    idmap bigger = *m;

    bigger.mask = m->slots == NULL ? 127 : m->mask * 2 + 1;
    if ((bigger.slots = calloc((size_t) bigger.mask + 1, sizeof(*m->slots))) == NULL)
        return false;
    for (uint32_t i = 0; i < m->used; i++)
        bigger.slots[idmap_slot(&bigger, m->order[i])] = (uint64_t) m->order[i] << 32 | (i + 1);
    free(m->slots);
    *m = bigger;
    return true;
}

/* The batch's number of this id, added when new; UINT32_MAX without memory. */
static uint32_t
idmap_put(idmap *m, uint32_t id, bool *ret_new)
{
    uint32_t at;

    *ret_new = false;
    if ((m->slots == NULL || (m->used + 1) * 2 > m->mask) && !idmap_rehash(m))
        return UINT32_MAX;
    at = idmap_slot(m, id);
    if (m->slots[at] != 0)
        return (uint32_t) m->slots[at] - 1;
    if (!grow(&m->order, &m->order_cap, m->used + 1, sizeof(*m->order)))
        return UINT32_MAX;
    m->order[m->used] = id;
    m->slots[at] = (uint64_t) id << 32 | (m->used + 1);
    *ret_new = true;
    return m->used++;
}

static void
idmap_clear(idmap *m)
{
    if (m->slots != NULL && m->used > 0)
        memset(m->slots, 0, ((size_t) m->mask + 1) * sizeof(*m->slots));
    m->used = 0;
}

static void
idmap_fini(idmap *m)
{
    free(m->slots);
    free(m->order);
    *m = (idmap){ 0 };
}

/* String ids of the wire: 0 is the empty text, entry i of the dictionary is i + 1. */
static uint32_t
string_put(mrd_batch *b, mrd_sid sid)
{
    bool added;
    uint32_t local;

    if (sid == MRD_SID_EMPTY)
        return 0;
    local = idmap_put(&b->strings, sid, &added);
    if (added)
        b->cost += mrd_catalog_text(b->cat, sid).len + 3;
    return local == UINT32_MAX ? local : local + 1;
}

/* ---- Life ---- */

mrd_batch *
mrd_batch_new(const mrd_catalog *cat, mrd_proc_id process, unsigned clock, uint32_t max_events)
{
    mrd_batch *b = calloc(1, sizeof(*b));

    if (b == NULL)
        return NULL;
    b->cat = cat;
    b->process = process;
    b->clock = clock;
    b->max_events = max_events == 0                 ? MRD_BATCH_USUAL
                    : max_events > MRD_BATCH_EVENTS ? MRD_BATCH_EVENTS
                                                    : max_events;
    b->form_mask = 63;
    b->form_slots = calloc(64, sizeof(*b->form_slots));
    if (b->form_slots == NULL) {
        mrd_batch_free(b);
        return NULL;
    }
    mrd_batch_reset(b);
    return b;
}

void
mrd_batch_free(mrd_batch *b)
{
    if (b == NULL)
        return;
    free(b->rows);
    for (int k = 0; k < VALS; k++)
        free(b->vals[k].v);
    free(b->keys);
    free(b->forms);
    free(b->form_slots);
    free(b->cross);
    idmap_fini(&b->strings);
    idmap_fini(&b->tracks);
    mrd_buf_fini(&b->text);
    free(b);
}

void
mrd_batch_reset(mrd_batch *b)
{
    b->n = b->n_keys = b->n_forms = 0;
    for (int k = 0; k < VALS; k++)
        b->vals[k].n = 0;
    memset(b->form_slots, 0, ((size_t) b->form_mask + 1) * sizeof(*b->form_slots));
    idmap_clear(&b->strings);
    idmap_clear(&b->tracks);
    if (b->text.cap > MRD_BATCH_BYTES)
        mrd_buf_fini(&b->text);
    mrd_buf_reset(&b->text);
    b->cost = 0;
    b->sorted = true;
    b->n_cross = 0;
}

uint32_t
mrd_batch_events(const mrd_batch *b)
{
    return b->n;
}

bool
mrd_batch_is_full(const mrd_batch *b)
{
    return b->n >= b->max_events || b->cost >= MRD_BATCH_BYTES;
}

size_t
mrd_batch_bytes(const mrd_batch *b)
{
    size_t sum = sizeof(*b) + b->rows_cap * sizeof(row) + b->keys_cap * sizeof(uint64_t) +
                 b->forms_cap * sizeof(form) + b->text.cap +
                 ((size_t) b->form_mask + 1) * sizeof(uint32_t);

    for (int k = 0; k < VALS; k++)
        sum += b->vals[k].cap * sizeof(uint64_t);
    sum += b->strings.slots == NULL ? 0 : ((size_t) b->strings.mask + 1) * 12;
    sum += b->tracks.slots == NULL ? 0 : ((size_t) b->tracks.mask + 1) * 12;
    return sum;
}

bool
mrd_batch_range(const mrd_batch *b, int64_t *ret_first_ns, int64_t *ret_last_ns)
{
    if (b->n == 0)
        return false;
    *ret_first_ns = b->first_ns;
    *ret_last_ns = b->last_ns;
    return true;
}

mrd_err
mrd_batch_cross(mrd_batch *b, const mrd_cross_read *read)
{
    if (read->bracket_ns < 0)
        return MRD_INVALID;
    if (b->cross == NULL && (b->cross = calloc(BATCH_CROSS_MAX, sizeof(*b->cross))) == NULL)
        return MRD_NOMEM;
    if (b->n_cross == BATCH_CROSS_MAX)
        memmove(b->cross, b->cross + 1, --b->n_cross * sizeof(*b->cross));
    b->cross[b->n_cross++] = *read;
    return MRD_OK;
}

/* ---- Pushing ---- */

static bool
kind_ok(const mrd_event *ev)
{
    switch (ev->kind) {
    case MRD_SPAN:
        return ev->dur_ns >= 0 || ev->dur_ns == MRD_DUR_UNFINISHED;
    case MRD_LOSS:
        return ev->dur_ns >= 0;
    case MRD_COUNTER:
        return (ev->flags & MRD_EV_INT) != 0 || isfinite(ev->value);
    case MRD_FLOW:
        return ev->flow_dir >= MRD_FLOW_START && ev->flow_dir <= MRD_FLOW_END;
    default:
        return ev->kind == MRD_INSTANT;
    }
}

static uint32_t
event_bits(const mrd_event *ev)
{
    uint32_t bits = ev->kind | (uint32_t) ev->flags << FORM_FLAGS_SHIFT;

    if (ev->id != 0 && ev->kind != MRD_FLOW)
        bits |= FORM_HAS_ID;
    if (ev->bound_ns != 0 && ev->bound_ns != MRD_BOUND_UNKNOWN)
        bits |= FORM_HAS_BOUND;
    if (ev->kind == MRD_SPAN && ev->dur_ns == MRD_DUR_UNFINISHED)
        bits |= FORM_UNFINISHED;
    if (ev->kind == MRD_FLOW)
        bits |= (uint32_t) ev->flow_dir << FORM_DIR_SHIFT;
    return bits;
}

static bool
form_same(const mrd_batch *b, const form *f, const mrd_event *ev, uint32_t bits)
{
    if (f->bits != bits || f->category != ev->category || f->args != ev->arg_count ||
        f->flows != ev->flow_count)
        return false;
    for (uint32_t i = 0; i < ev->arg_count; i++) {
        if (b->keys[f->keys_at + i] != ((uint64_t) ev->args[i].key << 3 | ev->args[i].type))
            return false;
    }
    return true;
}

static bool
form_rehash(mrd_batch *b)
{
    uint32_t mask = b->form_mask * 2 + 1;
    uint32_t *slots = calloc((size_t) mask + 1, sizeof(*slots));

    if (slots == NULL)
        return false;
    for (uint32_t i = 0; i < b->n_forms; i++) {
        uint32_t at = (uint32_t) b->forms[i].hash & mask;

        while (slots[at] != 0)
            at = (at + 1) & mask;
        slots[at] = i + 1;
    }
    free(b->form_slots);
    b->form_slots = slots;
    b->form_mask = mask;
    return true;
}

static uint64_t
hash_begin(const mrd_event *ev, uint32_t bits)
{
    uint64_t h = ((uint64_t) ev->category << 32 | bits) * 0x9e3779b97f4a7c15u;

    return (h ^ h >> 29 ^ ev->arg_count ^ (uint64_t) ev->flow_count << 16) * 0xbf58476d1ce4e5b9u;
}

static inline uint64_t
hash_key(uint64_t h, const mrd_arg *a)
{
    return (h ^ h >> 31 ^ ((uint64_t) a->key << 3 | a->type)) * 0x94d049bb133111ebu;
}

/* Kind and words of each type of argument; no words: no such type. */
static const struct {
    uint8_t kind, words;
} arg_vals[16] = { [MRD_ARG_INT] = { VAL_INT, 1 },   [MRD_ARG_UINT] = { VAL_UINT, 1 },
                   [MRD_ARG_BOOL] = { VAL_UINT, 1 }, [MRD_ARG_DOUBLE] = { VAL_DOUBLE, 1 },
                   [MRD_ARG_STR] = { VAL_STR, 1 },   [MRD_ARG_TEXT] = { VAL_TEXT, 2 },
                   [MRD_ARG_JSON] = { VAL_TEXT, 2 } };

/* A new form, with its strings; UINT32_MAX without memory. */
static uint32_t
form_add(mrd_batch *b, const mrd_event *ev, uint32_t bits, uint64_t hash)
{
    form *f;

    if (!grow(&b->forms, &b->forms_cap, b->n_forms + 1, sizeof(*b->forms)) ||
        !grow(&b->keys, &b->keys_cap, b->n_keys + ev->arg_count, sizeof(*b->keys)) ||
        string_put(b, ev->category) == UINT32_MAX)
        return UINT32_MAX;
    for (uint32_t i = 0; i < ev->arg_count; i++) {
        if (string_put(b, ev->args[i].key) == UINT32_MAX)
            return UINT32_MAX;
        b->keys[b->n_keys + i] = (uint64_t) ev->args[i].key << 3 | ev->args[i].type;
    }
    f = &b->forms[b->n_forms];
    *f = (form){ hash, bits, ev->category, ev->arg_count, ev->flow_count, b->n_keys, { 0 } };
    f->uses[VAL_FLOW] = (uint16_t) (2 * ev->flow_count);
    for (uint32_t i = 0; i < ev->arg_count; i++)
        f->uses[arg_vals[ev->args[i].type].kind] += arg_vals[ev->args[i].type].words;
    b->n_keys += ev->arg_count;
    b->cost += 6 + 3 * (size_t) ev->arg_count;
    return b->n_forms++;
}

static uint32_t
form_put(mrd_batch *b, const mrd_event *ev, uint32_t bits, uint64_t hash)
{
    uint32_t at, added;

    for (at = (uint32_t) hash & b->form_mask; b->form_slots[at] != 0;
         at = (at + 1) & b->form_mask) {
        const form *f = &b->forms[b->form_slots[at] - 1];

        if (f->hash == hash && form_same(b, f, ev, bits))
            return b->form_slots[at] - 1;
    }
    added = form_add(b, ev, bits, hash);
    if (added == UINT32_MAX)
        return added;
    b->form_slots[at] = added + 1;
    if (b->n_forms * 2 > b->form_mask && !form_rehash(b)) {
        b->n_forms--; /* keep a free slot for the search to end at */
        b->form_slots[at] = 0;
        return UINT32_MAX;
    }
    return added;
}

/* Appends arrows and arguments to their lists, with the hash of the keys and the estimated cost.
 * After an error the lists are to be cut back. */
static mrd_err
values_put(mrd_batch *b, const mrd_event *ev, uint64_t *hash, size_t *cost)
{
    values *flows = &b->vals[VAL_FLOW];

    if (ev->arg_count > MRD_BATCH_ARGS)
        return MRD_LIMIT;
    if (!grow(&flows->v, &flows->cap, flows->n + 2 * ev->flow_count, sizeof(uint64_t)))
        return MRD_NOMEM;
    for (uint32_t i = 0; i < ev->flow_count; i++) {
        flows->v[flows->n++] = ev->flows[i].id;
        flows->v[flows->n++] = ev->flows[i].dir;
        *cost += 9;
    }
    for (uint32_t i = 0; i < ev->arg_count; i++) {
        const mrd_arg *a = &ev->args[i];
        values *to = &b->vals[arg_vals[a->type].kind];
        uint64_t word = a->v.u;

        if (arg_vals[a->type].words == 0 || (a->type == MRD_ARG_DOUBLE && !isfinite(a->v.d)))
            return MRD_INVALID;
        if (to->n + 2 > to->cap && !grow(&to->v, &to->cap, to->n + 2, sizeof(uint64_t)))
            return MRD_NOMEM;
        *hash = hash_key(*hash, a);
        *cost += ARG_COST;
        if (a->type == MRD_ARG_STR) {
            word = string_put(b, a->v.sid);
            if (word == UINT32_MAX)
                return MRD_NOMEM;
        } else if (arg_vals[a->type].words == 2) {
            *cost += a->len;
            if (*cost > MRD_BATCH_EVENT_MAX)
                return MRD_LIMIT;
            to->v[to->n++] = b->text.len;
            word = a->len;
            mrd_buf_add(&b->text, a->v.text, a->len);
        }
        to->v[to->n++] = word;
    }
    return b->text.err;
}

static void
range_add(mrd_batch *b, const mrd_event *ev)
{
    int64_t end = mrd_event_end(ev);

    if (ev->kind == MRD_SPAN && ev->dur_ns == MRD_DUR_UNFINISHED)
        end = ev->ts_ns;
    if (b->n == 0 || ev->ts_ns < b->first_ns)
        b->first_ns = ev->ts_ns;
    if (b->n == 0 || end > b->last_ns)
        b->last_ns = end;
    /* Equal times must be put into order too. */
    if (b->n > 0 && ev->ts_ns <= b->newest_ns)
        b->sorted = false;
    if (b->n == 0 || ev->ts_ns > b->newest_ns)
        b->newest_ns = ev->ts_ns;
}

/* Differences inside a batch must fit 63 bits. */
static bool
range_too_wide(const mrd_batch *b, int64_t ts_ns)
{
    int64_t d;

    return __builtin_sub_overflow(ts_ns, b->first_ns, &d) ||
           __builtin_sub_overflow(b->newest_ns > ts_ns ? b->newest_ns : ts_ns,
                                  b->first_ns < ts_ns ? b->first_ns : ts_ns, &d);
}

/* The batch's number of the event's track; checked when it is new. */
static mrd_err
track_put(mrd_batch *b, mrd_track_id id, uint32_t *ret_local)
{
    uint32_t at, local;
    bool added;

    if (b->tracks.slots != NULL && b->tracks.slots[at = idmap_slot(&b->tracks, id)] != 0) {
        *ret_local = (uint32_t) b->tracks.slots[at] - 1;
        return MRD_OK;
    }
    if (id >= mrd_catalog_tracks(b->cat) ||
        mrd_catalog_borrow_track(b->cat, id)->process != b->process)
        return MRD_INVALID;
    if (b->tracks.used >= MRD_BATCH_TRACKS)
        return MRD_FULL;
    if ((local = idmap_put(&b->tracks, id, &added)) == UINT32_MAX)
        return MRD_NOMEM;
    b->cost += 24;
    *ret_local = local;
    return MRD_OK;
}

static bool
has_room(const mrd_batch *b, const mrd_event *ev)
{
    return b->n < b->max_events &&
           (b->n == 0 || (b->strings.used + 2 + 2 * ev->arg_count <= MRD_BATCH_STRINGS &&
                          b->n_forms < MRD_BATCH_FORMS && !range_too_wide(b, ev->ts_ns)));
}

/* What a failed push appended is cut off again. */
typedef struct {
    uint32_t n[VALS];
    size_t text;
} mark;

static mrd_err
push_row(mrd_batch *b, const mrd_event *ev)
{
    uint32_t bits = event_bits(ev);
    uint64_t hash = hash_begin(ev, bits);
    size_t cost = EVENT_COST;
    uint32_t track = 0, name, f;
    mrd_err err = track_put(b, ev->track, &track);

    if (err != MRD_OK || (err = values_put(b, ev, &hash, &cost)) != MRD_OK)
        return err;
    if (b->n > 0 && b->cost + cost > MRD_BATCH_BYTES)
        return MRD_FULL;
    name = string_put(b, ev->name);
    f = form_put(b, ev, bits, hash ^ hash >> 32);
    if (name == UINT32_MAX || f == UINT32_MAX ||
        !grow(&b->rows, &b->rows_cap, b->n + 1, sizeof(*b->rows)))
        return MRD_NOMEM;
    range_add(b, ev);
    b->rows[b->n++] = (row){ .ts_ns = ev->ts_ns,
                             .dur_ns = ev->dur_ns,
                             .id = ev->id,
                             .value = (uint64_t) ev->ivalue,
                             .track = track,
                             .name = name,
                             .form = f,
                             .bound = ev->bound_ns };
    b->cost += cost;
    return MRD_OK;
}

mrd_err
mrd_batch_push(mrd_batch *b, const mrd_event *ev)
{
    mark m = { .text = b->text.len };
    mrd_err err;

    if (!kind_ok(ev))
        return MRD_INVALID;
    if (!has_room(b, ev))
        return ev->arg_count > MRD_BATCH_ARGS ? MRD_LIMIT : MRD_FULL;
    for (int k = 0; k < VALS; k++)
        m.n[k] = b->vals[k].n;
    err = push_row(b, ev);
    if (err != MRD_OK) {
        for (int k = 0; k < VALS; k++)
            b->vals[k].n = m.n[k];
        b->text.len = m.text;
        b->text.err = MRD_OK;
    }
    return err;
}

/* ---- Sorting: radix by time, then ties ---- */

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

static int
row_order(const mrd_batch *b, const row *x, const row *y)
{
    mrd_event p = { .ts_ns = x->ts_ns,
                    .track = b->tracks.order[x->track],
                    .dur_ns = x->dur_ns,
                    .kind = b->forms[x->form].bits & FORM_KIND,
                    .seq = (uint64_t) (x - b->rows) },
              q = { .ts_ns = y->ts_ns,
                    .track = b->tracks.order[y->track],
                    .dur_ns = y->dur_ns,
                    .kind = b->forms[y->form].bits & FORM_KIND,
                    .seq = (uint64_t) (y - b->rows) };

    return mrd_event_order(&p, &q);
}

static int
slot_order(const void *x, const void *y, void *self)
{
    const mrd_batch *b = self;

    return row_order(b, &b->rows[((const mrd_codec_slot *) x)->row],
                     &b->rows[((const mrd_codec_slot *) y)->row]);
}

static void
sort_ties(const mrd_batch *b, mrd_codec_slot *s, size_t n)
{
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && s[end].key == s[i].key; end++)
            ;
        if (end - i > 1) {
            union {
                const mrd_batch *in;
                void *out;
            } self = { b };

            qsort_r(s + i, end - i, sizeof(*s), slot_order, self.out);
        }
    }
}

/* The rows in mrd_event_order; NULL without memory. */
static const mrd_codec_slot *
batch_sort(const mrd_batch *b, mrd_codec *codec)
{
    uint64_t range = 0;
    mrd_codec_slot *s, *other;

    if (!mrd_codec_slots(codec, b->n))
        return NULL;
    s = codec->slots[0];
    other = codec->slots[1];
    for (uint32_t i = 0; i < b->n; i++) {
        s[i] = (mrd_codec_slot){ (uint64_t) b->rows[i].ts_ns - (uint64_t) b->first_ns, i };
        range |= s[i].key;
    }
    if (b->sorted)
        return s;
    for (unsigned shift = 0; shift < 64 && range >> shift != 0; shift += RADIX_BITS) {
        mrd_codec_slot *swap = s;

        radix_pass(s, other, b->n, shift);
        s = other;
        other = swap;
    }
    sort_ties(b, s, b->n);
    return s;
}

/* ---- Columns ---- */

static inline uint8_t *
put_fixed64(uint8_t *p, uint64_t v)
{
    store64(p, v);
    return p + 8;
}

/*
 * One column: field number, a length padded to four bytes (legal, and written last), entries.
 * An empty column leaves nothing.
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
    const mrd_codec_slot *order;
    uint32_t *offsets; /* scratch, one per row */
    mrd_buf *to;
} writer;

static inline const row *
row_at(const writer *w, uint32_t i)
{
    return &w->b->rows[w->order[i].row];
}

static bool
write_times(const writer *w)
{
    column c;
    uint64_t last = 0;

    if (!column_begin(&c, w->to, COL_TS, (size_t) w->b->n * 10))
        return false;
    for (uint32_t i = 0; i < w->b->n; i++) {
        c.p = varint_put(c.p, w->order[i].key - last);
        last = w->order[i].key;
    }
    column_end(&c);
    return true;
}

#define WRITE_IDS(function, column_id, member)                                                     \
    static bool function(const writer *w)                                                          \
    {                                                                                              \
        column c;                                                                                  \
                                                                                                   \
        if (!column_begin(&c, w->to, column_id, (size_t) w->b->n * 5))                             \
            return false;                                                                          \
        for (uint32_t i = 0; i < w->b->n; i++)                                                     \
            c.p = varint_put(c.p, row_at(w, i)->member);                                           \
        column_end(&c);                                                                            \
        return true;                                                                               \
    }

WRITE_IDS(write_forms, COL_FORM, form)
WRITE_IDS(write_tracks, COL_TRACK, track)
WRITE_IDS(write_names, COL_NAME, name)

static bool
write_durations(const writer *w)
{
    column c;

    if (!column_begin(&c, w->to, COL_DUR, (size_t) w->b->n * 10))
        return false;
    for (uint32_t i = 0; i < w->b->n; i++) {
        const row *r = row_at(w, i);
        uint32_t bits = w->b->forms[r->form].bits, kind = bits & FORM_KIND;

        if (kind == MRD_LOSS || (kind == MRD_SPAN && (bits & FORM_UNFINISHED) == 0))
            c.p = varint_put(c.p, (uint64_t) r->dur_ns);
    }
    column_end(&c);
    return true;
}

static bool
write_ids(const writer *w)
{
    column c;
    uint64_t last = 0;

    if (!column_begin(&c, w->to, COL_ID, (size_t) w->b->n * 10))
        return false;
    for (uint32_t i = 0; i < w->b->n; i++) {
        const row *r = row_at(w, i);

        if ((w->b->forms[r->form].bits & FORM_HAS_ID) == 0)
            continue;
        c.p = varint_put(c.p, zigzag((int64_t) (r->id - last)));
        last = r->id;
    }
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
        if ((w->b->forms[row_at(w, i)->form].bits & FORM_HAS_BOUND) != 0)
            c.p = varint_put(c.p, row_at(w, i)->bound);
    }
    column_end(&c);
    return true;
}

/* Integer samples and losses (wanted) or double samples. */
static bool
write_samples(const writer *w, bool doubles)
{
    column c;

    if (!column_begin(&c, w->to, doubles ? COL_COUNTER_DOUBLE : COL_COUNTER_INT,
                      (size_t) w->b->n * 10))
        return false;
    for (uint32_t i = 0; i < w->b->n; i++) {
        const row *r = row_at(w, i);
        uint32_t bits = w->b->forms[r->form].bits, kind = bits & FORM_KIND;
        bool integer = kind == MRD_LOSS || (bits >> FORM_FLAGS_SHIFT & MRD_EV_INT) != 0;

        if ((kind != MRD_COUNTER && kind != MRD_LOSS) || integer == doubles)
            continue;
        c.p = doubles ? put_fixed64(c.p, r->value) : varint_put(c.p, zigzag((int64_t) r->value));
    }
    column_end(&c);
    return true;
}

/* Where each row's words of one kind begin. */
static const uint32_t *
value_offsets(const writer *w, int kind)
{
    uint32_t *at = w->offsets, sum = 0;

    for (uint32_t i = 0; i < w->b->n; i++) {
        at[i] = sum;
        sum += w->b->forms[w->b->rows[i].form].uses[kind];
    }
    return at;
}

/* Flow ids (of flow points and of arrows on other events) or directions of the latter. */
static bool
write_flows(const writer *w, unsigned field)
{
    const uint32_t *at = value_offsets(w, VAL_FLOW);
    column c;

    if (!column_begin(&c, w->to, field, ((size_t) w->b->vals[VAL_FLOW].n + w->b->n) * 8))
        return false;
    for (uint32_t i = 0; i < w->b->n; i++) {
        const row *r = row_at(w, i);
        const form *f = &w->b->forms[r->form];
        const uint64_t *v = w->b->vals[VAL_FLOW].v + at[w->order[i].row];

        if (field == COL_FLOW_ID && (f->bits & FORM_KIND) == MRD_FLOW)
            c.p = put_fixed64(c.p, r->id);
        for (uint32_t k = 0; k < f->flows; k++)
            c.p = field == COL_FLOW_ID ? put_fixed64(c.p, v[2 * k]) : varint_put(c.p, v[2 * k + 1]);
    }
    column_end(&c);
    return true;
}

static inline uint8_t *
put_value(uint8_t *p, int kind, const uint64_t *v)
{
    switch (kind) {
    case VAL_INT:
        return varint_put(p, zigzag((int64_t) v[0]));
    case VAL_DOUBLE:
        return put_fixed64(p, v[0]);
    case VAL_TEXT:
        return varint_put(p, v[1]);
    default:
        return varint_put(p, v[0]);
    }
}

/* Arguments of one kind. Events that were pushed in order have them in order already. */
static bool
write_args(const writer *w, int kind, unsigned field)
{
    const values *from = &w->b->vals[kind];
    uint32_t step = kind == VAL_TEXT ? 2 : 1;
    const uint32_t *at;
    column c;

    if (!column_begin(&c, w->to, field, (size_t) from->n * 10))
        return false;
    if (w->b->sorted) {
        for (uint32_t i = 0; i < from->n; i += step)
            c.p = put_value(c.p, kind, &from->v[i]);
        column_end(&c);
        return true;
    }
    at = value_offsets(w, kind);
    for (uint32_t i = 0; i < w->b->n; i++) {
        uint32_t r = w->order[i].row, n = w->b->forms[w->b->rows[r].form].uses[kind];

        for (uint32_t k = 0; k < n; k += step)
            c.p = put_value(c.p, kind, &from->v[at[r] + k]);
    }
    column_end(&c);
    return true;
}

static bool
write_text(const writer *w)
{
    const uint32_t *at = value_offsets(w, VAL_TEXT);
    column c;

    if (!column_begin(&c, w->to, COL_TEXT, w->b->text.len))
        return false;
    for (uint32_t i = 0; i < w->b->n; i++) {
        uint32_t r = w->order[i].row, n = w->b->forms[w->b->rows[r].form].uses[VAL_TEXT];

        for (uint32_t k = 0; k < n; k += 2) {
            const uint64_t *v = &w->b->vals[VAL_TEXT].v[at[r] + k];

            if (v[1] > 0)
                memcpy(c.p, w->b->text.p + v[0], v[1]);
            c.p += v[1];
        }
    }
    column_end(&c);
    return true;
}

/* Which optional columns any form uses, one bit per column. */
static uint32_t
columns_used(const mrd_batch *b)
{
    uint32_t used = 0;

    for (uint32_t i = 0; i < b->n_forms; i++) {
        const form *f = &b->forms[i];
        uint32_t kind = f->bits & FORM_KIND;

        if (kind == MRD_SPAN || kind == MRD_LOSS)
            used |= 1u << COL_DUR;
        if (kind == MRD_COUNTER || kind == MRD_LOSS)
            used |= 1u << COL_COUNTER_INT | 1u << COL_COUNTER_DOUBLE;
        if ((f->bits & FORM_HAS_ID) != 0)
            used |= 1u << COL_ID;
        if ((f->bits & FORM_HAS_BOUND) != 0)
            used |= 1u << COL_BOUND;
        if (kind == MRD_FLOW || f->flows > 0)
            used |= 1u << COL_FLOW_ID | 1u << COL_FLOW_DIR;
    }
    return used;
}

static bool
write_optional(const writer *w, unsigned field)
{
    switch (field) {
    case COL_DUR:
        return write_durations(w);
    case COL_ID:
        return write_ids(w);
    case COL_COUNTER_INT:
    case COL_COUNTER_DOUBLE:
        return write_samples(w, field == COL_COUNTER_DOUBLE);
    case COL_BOUND:
        return write_bounds(w);
    default:
        return write_flows(w, field);
    }
}

static const uint8_t arg_columns[] = { [VAL_INT] = COL_ARG_INT,
                                       [VAL_UINT] = COL_ARG_UINT,
                                       [VAL_DOUBLE] = COL_ARG_DOUBLE,
                                       [VAL_STR] = COL_ARG_STR,
                                       [VAL_TEXT] = COL_TEXT_LEN };

static bool
write_columns(const writer *w)
{
    uint32_t used = columns_used(w->b);
    bool ok = write_times(w) && write_forms(w) && write_tracks(w) && write_names(w);

    for (unsigned field = COL_DUR; ok && field <= COL_FLOW_DIR; field++) {
        if ((used & 1u << field) != 0)
            ok = write_optional(w, field);
    }
    for (unsigned i = 0; ok && i < MRD_COUNT(arg_columns); i++) {
        if (w->b->vals[i].n > 0)
            ok = write_args(w, (int) i, arg_columns[i]);
    }
    return ok && (w->b->vals[VAL_TEXT].n == 0 || write_text(w));
}

/* ---- The head ---- */

static char *
text_of(const mrd_catalog *cat, mrd_sid sid)
{
    union {
        const char *in;
        char *out;
    } text = { mrd_catalog_text(cat, sid).p }; /* protobuf-c only reads it */

    return text.out;
}

static void
head_process(const mrd_batch *b, Mrd__Process *p)
{
    const mrd_process *from = mrd_catalog_borrow_process(b->cat, b->process);

    p->instance_id = text_of(b->cat, from->instance_id);
    p->process_id = from->process_id;
    p->container_pid = from->container_pid;
    p->name = text_of(b->cat, from->name);
    p->job = text_of(b->cat, from->job);
    p->pod = text_of(b->cat, from->pod);
    p->labels = text_of(b->cat, from->labels);
    p->rank = from->rank;
    p->world_size = from->world_size;
    p->worker_gid = from->worker_gid;
    p->sort_index = from->sort_index;
    p->flags = from->flags;
    p->scope = from->scope;
}

/* Numbers of the head's columns, all of one allocation. */
typedef struct {
    int64_t *i64;
    uint64_t *u64;
    uint32_t *u32;
    ProtobufCBinaryData *strings;
} head_room;

static bool
head_alloc(const mrd_batch *b, head_room *room)
{
    size_t tracks = b->tracks.used, forms = b->n_forms;
    size_t i64 = 6 * tracks + 2 * b->n_cross, u64 = b->n_cross;
    size_t u32 = 5 * tracks + 4 * forms + 2 * (size_t) b->n_keys;
    char *block =
        malloc((i64 + u64) * 8 + b->strings.used * sizeof(ProtobufCBinaryData) + u32 * 4 + 1);

    if (block == NULL)
        return false;
    room->i64 = (void *) block;
    room->u64 = (void *) (block + i64 * 8);
    room->strings = (void *) (block + (i64 + u64) * 8);
    room->u32 = (void *) (block + (i64 + u64) * 8 + b->strings.used * sizeof(ProtobufCBinaryData));
    return true;
}

/* A column of n numbers from room, counted in the message. */
#define HEAD_COLUMN(member, pool, count)                                                           \
    do {                                                                                           \
        h->n_##member = (count);                                                                   \
        h->member = (pool);                                                                        \
        (pool) += (count);                                                                         \
    } while (0)

static void
head_tracks(const mrd_batch *b, Mrd__BatchHead *h, head_room *room)
{
    uint32_t n = b->tracks.used;

    HEAD_COLUMN(track_source, room->u32, n);
    HEAD_COLUMN(track_kind, room->u32, n);
    HEAD_COLUMN(track_name, room->u32, n);
    HEAD_COLUMN(track_unit, room->u32, n);
    HEAD_COLUMN(track_unit_name, room->u32, n);
    HEAD_COLUMN(track_lnc, room->i64, n);
    HEAD_COLUMN(track_pcore, room->i64, n);
    HEAD_COLUMN(track_device, room->i64, n);
    HEAD_COLUMN(track_thread, room->i64, n);
    HEAD_COLUMN(track_sort, room->i64, n);
    HEAD_COLUMN(track_worker, room->i64, n);
}

static void
head_fill_tracks(mrd_batch *b, Mrd__BatchHead *h)
{
    for (uint32_t i = 0; i < b->tracks.used; i++) {
        const mrd_track *t = mrd_catalog_borrow_track(b->cat, b->tracks.order[i]);

        h->track_source[i] = t->source;
        h->track_kind[i] = t->kind;
        h->track_lnc[i] = t->lnc_idx;
        h->track_pcore[i] = t->pcore_idx;
        h->track_device[i] = t->device_idx;
        h->track_thread[i] = t->thread_id;
        h->track_name[i] = string_put(b, t->name);
        h->track_unit[i] = t->unit;
        h->track_unit_name[i] = string_put(b, t->unit_name);
        h->track_sort[i] = t->sort_index;
        h->track_worker[i] = t->worker_gid;
    }
}

static void
head_forms(mrd_batch *b, Mrd__BatchHead *h, head_room *room)
{
    uint32_t n = b->n_forms;

    HEAD_COLUMN(form_bits, room->u32, n);
    HEAD_COLUMN(form_category, room->u32, n);
    HEAD_COLUMN(form_args, room->u32, n);
    HEAD_COLUMN(form_flows, room->u32, n);
    HEAD_COLUMN(form_key, room->u32, b->n_keys);
    HEAD_COLUMN(form_type, room->u32, b->n_keys);
    for (uint32_t i = 0; i < n; i++) {
        h->form_bits[i] = b->forms[i].bits;
        h->form_category[i] = string_put(b, b->forms[i].category);
        h->form_args[i] = b->forms[i].args;
        h->form_flows[i] = b->forms[i].flows;
    }
    for (uint32_t i = 0; i < b->n_keys; i++) {
        h->form_key[i] = string_put(b, (mrd_sid) (b->keys[i] >> 3));
        h->form_type[i] = (uint32_t) (b->keys[i] & 7);
    }
}

static void
head_cross(const mrd_batch *b, Mrd__CrossReads *h, head_room *room)
{
    HEAD_COLUMN(raw_ns, room->i64, b->n_cross);
    HEAD_COLUMN(other_ns, room->i64, b->n_cross);
    HEAD_COLUMN(bracket_ns, room->u64, b->n_cross);
    for (size_t i = 0; i < b->n_cross; i++) {
        h->raw_ns[i] = b->cross[i].raw_ns;
        h->other_ns[i] = b->cross[i].other_ns;
        h->bracket_ns[i] = (uint64_t) b->cross[i].bracket_ns;
    }
}

static void
head_strings(const mrd_batch *b, Mrd__BatchHead *h, head_room *room)
{
    h->n_strings = b->strings.used;
    h->strings = room->strings;
    for (uint32_t i = 0; i < b->strings.used; i++) {
        mrd_str text = mrd_catalog_text(b->cat, b->strings.order[i]);
        union {
            const char *in;
            uint8_t *out;
        } p = { text.p };

        h->strings[i] = (ProtobufCBinaryData){ text.len, p.out };
    }
}

/* Names of tracks join the dictionary before anything is sized by it. */
static bool
track_names(mrd_batch *b)
{
    for (uint32_t i = 0; i < b->tracks.used; i++) {
        const mrd_track *t = mrd_catalog_borrow_track(b->cat, b->tracks.order[i]);

        if (string_put(b, t->name) == UINT32_MAX || string_put(b, t->unit_name) == UINT32_MAX)
            return false;
    }
    return true;
}

static mrd_err
write_head(mrd_batch *b, mrd_buf *to)
{
    Mrd__BatchHead head = MRD__BATCH_HEAD__INIT;
    Mrd__Process process = MRD__PROCESS__INIT;
    Mrd__CrossReads cross = MRD__CROSS_READS__INIT;
    head_room room;
    void *block;
    mrd_err err = MRD_OK;

    if (!track_names(b) || !head_alloc(b, &room))
        return MRD_NOMEM;
    block = room.i64;
    head_process(b, &process);
    head.process = &process;
    head.clock = (Mrd__ClockKind) b->clock;
    head.base_ns = b->first_ns;
    head.events = b->n;
    if (b->n_cross > 0) {
        head_cross(b, &cross, &room);
        head.cross = &cross;
    }
    head_tracks(b, &head, &room);
    head_fill_tracks(b, &head);
    head_forms(b, &head, &room);
    head_strings(b, &head, &room);
    err = mrd_wire_pack(&head, to);
    free(block);
    return err;
}

/* ---- The frame ---- */

mrd_err
mrd_batch_encode(mrd_batch *b, mrd_codec *codec, mrd_codec_id codec_id, mrd_frame *ids, mrd_buf *to,
                 mrd_why *why)
{
    writer w = { .b = b, .to = &codec->cols };
    size_t start = to->len;
    mrd_frame f = *ids, checked;
    mrd_err err;

    if (b->n == 0)
        return mrd_why_set(why, MRD_EMPTY, 0, "batch without events");
    mrd_buf_reset(&codec->head);
    mrd_buf_reset(&codec->cols);
    if ((w.order = batch_sort(b, codec)) == NULL || (w.offsets = codec->offsets) == NULL ||
        !write_columns(&w) || write_head(b, &codec->head) != MRD_OK ||
        !mrd_buf_room(to, MRD_FRAME_HEADER))
        return mrd_why_set(why, MRD_NOMEM, 0, "batch of %u events", b->n);
    f.type = MRD_FRAME_BATCH;
    f.codec = b->n < MRD_BATCH_COMPRESS_MIN ? MRD_CODEC_NONE : (uint8_t) codec_id;
    f.clock = (uint8_t) b->clock;
    f.events = b->n;
    f.process_id = mrd_catalog_borrow_process(b->cat, b->process)->process_id;
    f.first_ns = b->first_ns;
    f.last_ns = b->last_ns;
    f.head_raw = (uint32_t) codec->head.len;
    f.cols_raw = (uint32_t) codec->cols.len;
    to->len += MRD_FRAME_HEADER;
    err = mrd_codec_pack(codec, f.codec, (mrd_bytes){ codec->head.p, codec->head.len }, to);
    f.head_len = (uint32_t) (to->len - start - MRD_FRAME_HEADER);
    if (err == MRD_OK)
        err = mrd_codec_pack(codec, f.codec, (mrd_bytes){ codec->cols.p, codec->cols.len }, to);
    if (err != MRD_OK) {
        to->len = start;
        return mrd_why_set(why, err, 0, "batch of %u events", b->n);
    }
    mrd_frame_put(
        &f, (mrd_bytes){ to->p + start + MRD_FRAME_HEADER, to->len - start - MRD_FRAME_HEADER },
        to->p + start);
    if ((err = mrd_frame_get((mrd_bytes){ to->p + start, MRD_FRAME_HEADER }, &checked, why)) !=
        MRD_OK) {
        to->len = start; /* larger than a peer would take */
        return err;
    }
    *ids = f;
    mrd_batch_reset(b);
    return MRD_OK;
}
