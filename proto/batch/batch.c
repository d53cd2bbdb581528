#include "proto/batch/batch_int.h"

#include <math.h>
#include <stdlib.h>

#include "base/obj.h"
#include "base/vec.h"

#define BATCH_CROSS_MAX 1024
/* Estimated encoded bytes of an event's fixed columns and of one argument. A batch is full when the
 * sum of the estimates of its events would exceed MRD_BATCH_BYTES. */
#define EVENT_COST 16
#define ARG_COST   6
#define FLOW_COST  9
#define ROWS_FIRST 64

/* ---- Rows (events), and maps from catalog ids to numbers of the batch ---- */

static bool
grow_rows(mrd_batch *batch)
{
    rows *r = &batch->rows;
    uint32_t cap[8], more = batch->rows_cap == 0 ? ROWS_FIRST : 1;

    for (size_t i = 0; i < MRD_COUNT(cap); i++)
        cap[i] = batch->rows_cap;
    if (!MRD_VEC_ROOM(r->ts_ns, batch->n, cap[0], more) ||
        !MRD_VEC_ROOM(r->dur_ns, batch->n, cap[1], more) ||
        !MRD_VEC_ROOM(r->id, batch->n, cap[2], more) ||
        !MRD_VEC_ROOM(r->value, batch->n, cap[3], more) ||
        !MRD_VEC_ROOM(r->track, batch->n, cap[4], more) ||
        !MRD_VEC_ROOM(r->name, batch->n, cap[5], more) ||
        !MRD_VEC_ROOM(r->form, batch->n, cap[6], more) ||
        !MRD_VEC_ROOM(r->bound, batch->n, cap[7], more))
        return false;
    batch->rows_cap = cap[0];
    return true;
}

static inline uint32_t
idmap_slot(const idmap *map, uint32_t id)
{
    /* multiplication by the golden ratio spreads consecutive ids over the slots */
    uint32_t at = id * 0x9e3779b1u >> map->shift;

    while (map->slots[at] >> 32 != id && map->slots[at] != 0)
        at = (at + 1) & map->mask;
    return at;
}

/* Returns 1 + the number that the batch has assigned to this catalog id, or 0 if it has assigned
 * none. */
static inline uint32_t
idmap_find(const idmap *map, uint32_t id)
{
    return (uint32_t) map->slots[idmap_slot(map, id)];
}

static bool
idmap_init(idmap *map)
{
    map->shift = 32 - 7;
    map->mask = 127;
    return (map->slots = calloc((size_t) map->mask + 1, sizeof(*map->slots))) != NULL;
}

static bool
idmap_rehash(idmap *map)
{
    idmap bigger = *map;

    bigger.shift = map->shift - 1;
    bigger.mask = map->mask * 2 + 1;
    if ((bigger.slots = calloc((size_t) bigger.mask + 1, sizeof(*map->slots))) == NULL)
        return false;
    for (uint32_t i = 0; i < map->used; i++)
        bigger.slots[idmap_slot(&bigger, map->order[i])] = (uint64_t) map->order[i] << 32 | (i + 1);
    free(map->slots);
    *map = bigger;
    return true;
}

/* Assigns the next number of the batch to a catalog id that has none, and returns the number.
 * Returns UINT32_MAX if out of memory. */
static uint32_t
idmap_add(idmap *map, uint32_t id)
{
    if ((map->used + 1) * 3 > map->mask && !idmap_rehash(map))
        return UINT32_MAX;
    if (!MRD_VEC_ROOM(map->order, map->used, map->order_cap, 1))
        return UINT32_MAX;
    map->order[map->used] = id;
    map->slots[idmap_slot(map, id)] = (uint64_t) id << 32 | (map->used + 1);
    return map->used++;
}

static void
idmap_clear(idmap *map)
{
    if (map->used > 0)
        memset(map->slots, 0, ((size_t) map->mask + 1) * sizeof(*map->slots));
    map->used = 0;
}

static void
idmap_fini(idmap *map)
{
    free(map->slots);
    free(map->order);
    *map = (idmap){ 0 };
}

static uint32_t
string_add(mrd_batch *batch, mrd_sid sid)
{
    uint32_t local = idmap_add(&batch->strings, sid);

    if (local == UINT32_MAX)
        return local;
    batch->cost += mrd_catalog_text(batch->cat, sid).len + 3;
    return local + 1;
}

static inline uint32_t
string_put(mrd_batch *batch, mrd_sid sid)
{
    uint32_t known = idmap_find(&batch->strings, sid);

    return known != 0 || sid == MRD_SID_EMPTY ? known : string_add(batch, sid);
}

uint32_t
mrd_batch_string(mrd_batch *batch, mrd_sid sid)
{
    return string_put(batch, sid);
}

/* Ensures that every list of values has space for `words` more 64-bit words. Also reserves FORM_FEW
 * words, because push_known may write them beyond the end of a list. */
static bool
values_room(mrd_batch *batch, uint32_t words)
{
    uint32_t room = UINT32_MAX;

    for (int k = 0; k < VALS; k++) {
        values *v = &batch->vals[k];

        if (!MRD_VEC_ROOM(v->v, v->n, v->cap, words + FORM_FEW))
            return false;
        room = v->cap - v->n < room ? v->cap - v->n : room;
    }
    batch->vals_room = room - FORM_FEW;
    return true;
}

/* ---- Lifecycle ---- */

mrd_batch *
mrd_batch_new(const mrd_catalog *cat, mrd_proc_id process, unsigned clock, uint32_t max_events)
{
    mrd_batch *batch = calloc(1, sizeof(*batch));

    if (batch == NULL)
        return NULL;
    batch->cat = cat;
    batch->process = process;
    batch->clock = clock;
    batch->max_events = max_events == 0                 ? MRD_BATCH_USUAL
                        : max_events > MRD_BATCH_EVENTS ? MRD_BATCH_EVENTS
                                                        : max_events;
    batch->form_shift = 64 - 8;
    batch->form_mask = 255;
    batch->form_slots = calloc((size_t) batch->form_mask + 1, sizeof(*batch->form_slots));
    if (batch->form_slots == NULL || !idmap_init(&batch->strings) || !idmap_init(&batch->tracks) ||
        !values_room(batch, 1)) {
        mrd_batch_free(batch);
        return NULL;
    }
    mrd_batch_reset(batch);
    return batch;
}

void
mrd_batch_free(mrd_batch *batch)
{
    if (batch == NULL)
        return;
    free(batch->rows.ts_ns);
    free(batch->rows.dur_ns);
    free(batch->rows.id);
    free(batch->rows.value);
    free(batch->rows.track);
    free(batch->rows.name);
    free(batch->rows.form);
    free(batch->rows.bound);
    for (int k = 0; k < VALS; k++)
        free(batch->vals[k].v);
    free(batch->keys);
    free(batch->forms);
    free(batch->form_slots);
    free(batch->cross);
    idmap_fini(&batch->strings);
    idmap_fini(&batch->tracks);
    mrd_buf_fini(&batch->text);
    free(batch);
}

void
mrd_batch_reset(mrd_batch *batch)
{
    batch->n = batch->n_keys = batch->n_forms = 0;
    for (int k = 0; k < VALS; k++)
        batch->vals[k].n = 0;
    memset(batch->form_slots, 0, ((size_t) batch->form_mask + 1) * sizeof(*batch->form_slots));
    idmap_clear(&batch->strings);
    idmap_clear(&batch->tracks);
    if (batch->text.cap > MRD_BATCH_BYTES)
        mrd_buf_fini(&batch->text);
    mrd_buf_reset(&batch->text);
    batch->vals_room = batch->rows_ready = 0;
    batch->cost = 0;
    batch->sorted = true;
    batch->n_cross = 0;
}

uint32_t
mrd_batch_events(const mrd_batch *batch)
{
    return batch->n;
}

void
mrd_batch_reach(mrd_batch *batch, int64_t last_ns)
{
    if (batch->n > 0 && last_ns > batch->last.ns)
        batch->last = (mrd_ev_ns){ last_ns };
}

bool
mrd_batch_range(const mrd_batch *batch, int64_t *ret_first_ns, int64_t *ret_last_ns)
{
    if (batch->n == 0)
        return false;
    *ret_first_ns = batch->first.ns;
    *ret_last_ns = batch->last.ns;
    return true;
}

mrd_err
mrd_batch_cross(mrd_batch *batch, const mrd_cross_read *read)
{
    if (read->bracket_ns < 0)
        return MRD_INVALID;
    if (batch->cross == NULL &&
        (batch->cross = calloc(BATCH_CROSS_MAX, sizeof(*batch->cross))) == NULL)
        return MRD_NOMEM;
    if (batch->n_cross == BATCH_CROSS_MAX)
        memmove(batch->cross, batch->cross + 1, --batch->n_cross * sizeof(*batch->cross));
    batch->cross[batch->n_cross++] = *read;
    return MRD_OK;
}

/* ---- Forms: properties that many events share ---- */

static inline bool
has_bound(const mrd_event *ev)
{
    return ev->bound_ns != MRD_BOUND_LOCAL;
}

static inline bool
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
    if (has_bound(ev))
        bits |= FORM_HAS_BOUND;
    if (ev->kind == MRD_SPAN && ev->dur_ns == MRD_DUR_UNFINISHED)
        bits |= FORM_UNFINISHED;
    if (ev->kind == MRD_FLOW)
        bits |= (uint32_t) ev->flow_dir << FORM_DIR_SHIFT;
    return bits;
}

static uint32_t
form_columns(uint32_t bits, uint32_t flows)
{
    uint32_t kind = bits & FORM_KIND, columns = 0;
    bool integer = kind == MRD_LOSS || (bits >> FORM_FLAGS_SHIFT & MRD_EV_INT) != 0;

    if (kind == MRD_LOSS || (kind == MRD_SPAN && (bits & FORM_UNFINISHED) == 0))
        columns |= 1u << COL_DUR;
    if (kind == MRD_COUNTER || kind == MRD_LOSS)
        columns |= integer ? 1u << COL_COUNTER_INT : 1u << COL_COUNTER_DOUBLE;
    if ((bits & FORM_HAS_ID) != 0)
        columns |= 1u << COL_ID;
    if ((bits & FORM_HAS_BOUND) != 0)
        columns |= 1u << COL_BOUND;
    if (kind == MRD_FLOW || flows > 0)
        columns |= 1u << COL_FLOW_ID;
    if (flows > 0)
        columns |= 1u << COL_FLOW_DIR;
    return columns;
}

static inline uint64_t
arg_key(const mrd_arg *arg)
{
    return (uint64_t) arg->type << 32 | arg->key;
}

/* Returns the event's argument i, or an empty argument if the event has fewer. Computes the address
 * without a branch. The number of arguments is unpredictable, and a misprediction costs more than
 * reading an argument that is not needed. */
static inline const mrd_arg *
arg_or_none(const mrd_event *ev, uint32_t i)
{
    static const mrd_arg none;
    uintptr_t at = (uintptr_t) ev->args + i * sizeof(none);
    uintptr_t there = 0 - (uintptr_t) (ev->arg_count > i);

    return (const mrd_arg *) ((at & there) | ((uintptr_t) &none & ~there));
}

static inline form_id
form_id_of(const mrd_event *ev, const mrd_arg *first, const mrd_arg *second)
{
    form_id id = { { arg_key(first), arg_key(second), 0, 0 } };
    uint32_t has = (ev->id != 0) | (uint32_t) has_bound(ev) << 1 |
                   (uint32_t) (ev->dur_ns == MRD_DUR_UNFINISHED) << 2;

    /* Read kind, flags and counts one by one, because the caller has just written them one by one.
     * The processor cannot forward several narrow stores to one wide load. */
    id.word[2] = (uint64_t) ev->arg_count << 32 | (uint32_t) ev->flow_count << 24 |
                 (uint32_t) ev->flow_dir << 16 | (uint32_t) ev->flags << 8 | ev->kind;
    id.word[3] = (uint64_t) ev->category << 32 | has;
    return id;
}

/* Returns a hash of a form, the properties that several events share. The hash includes the first FORM_FEW arguments. form_hash adds
 * the other arguments. If `args` is false, the event has no arguments. */
static inline uint64_t
form_hash_few(const form_id *id, bool args)
{
    uint64_t h = id->word[2] * 0x9e3779b97f4a7c15u ^ id->word[3] * 0xd6e8feb86659fd93u;

    return args ? h ^ id->word[0] * 0x94d049bb133111ebu ^ id->word[1] * 0xbf58476d1ce4e5b9u : h;
}

static uint64_t
form_hash(const form_id *id, const mrd_event *ev)
{
    uint64_t h = form_hash_few(id, true);

    for (uint32_t i = FORM_FEW; i < ev->arg_count; i++)
        h = (h ^ h >> 31 ^ arg_key(&ev->args[i])) * 0x94d049bb133111ebu;
    return h;
}

static inline bool
form_same_few(const form_id *a, const form_id *b, bool args)
{
    uint64_t other = (a->word[2] ^ b->word[2]) | (a->word[3] ^ b->word[3]);

    if (args)
        other |= (a->word[0] ^ b->word[0]) | (a->word[1] ^ b->word[1]);
    return other == 0;
}

static bool
form_same(const mrd_batch *batch, const form *f, const form_id *id, const mrd_event *ev)
{
    if (!form_same_few(&f->id, id, true))
        return false;
    for (uint32_t i = FORM_FEW; i < ev->arg_count; i++) {
        if (batch->keys[f->keys_at + i] != arg_key(&ev->args[i]))
            return false;
    }
    return true;
}

/* Returns the index of the hash table's slot that holds the form, or of the free slot for it. */
static uint32_t
form_slot(const mrd_batch *batch, const form_id *id, const mrd_event *ev, uint64_t hash)
{
    uint32_t at = (uint32_t) (hash >> batch->form_shift), found;

    while ((found = batch->form_slots[at]) != 0 &&
           !form_same(batch, &batch->forms[found - 1], id, ev))
        at = (at + 1) & batch->form_mask;
    return at;
}

/* Finds the form of an event with at most FORM_FEW arguments. Returns its number + 1, or 0 if there
 * is none. */
static inline uint32_t
form_find_few(const mrd_batch *batch, const form_id *id, bool args)
{
    uint32_t at = (uint32_t) (form_hash_few(id, args) >> batch->form_shift), found;

    while ((found = batch->form_slots[at]) != 0 &&
           !form_same_few(&batch->forms[found - 1].id, id, args))
        at = (at + 1) & batch->form_mask;
    return found;
}

static bool
form_rehash(mrd_batch *batch)
{
    unsigned shift = batch->form_shift - 1;
    uint32_t mask = batch->form_mask * 2 + 1;
    uint32_t *slots = calloc((size_t) mask + 1, sizeof(*slots));

    if (slots == NULL)
        return false;
    for (uint32_t i = 0; i < batch->n_forms; i++) {
        uint32_t at = (uint32_t) (batch->forms[i].hash >> shift);

        while (slots[at] != 0)
            at = (at + 1) & mask;
        slots[at] = i + 1;
    }
    free(batch->form_slots);
    batch->form_slots = slots;
    batch->form_shift = shift;
    batch->form_mask = mask;
    return true;
}

/* For each type of argument: the list (VAL_) that receives its value, and the number of 64-bit
 * words that the value takes. `words` is 0 for a type that does not exist. */
static const struct {
    uint8_t kind, words;
} arg_vals[16] = { [MRD_ARG_INT] = { VAL_INT, 1 },   [MRD_ARG_UINT] = { VAL_UINT, 1 },
                   [MRD_ARG_BOOL] = { VAL_UINT, 1 }, [MRD_ARG_DOUBLE] = { VAL_DOUBLE, 1 },
                   [MRD_ARG_STR] = { VAL_STR, 1 },   [MRD_ARG_TEXT] = { VAL_TEXT, 2 },
                   [MRD_ARG_JSON] = { VAL_TEXT, 2 } };

/* Returns whether push_known, the fast path, can append events of this form. */
static bool
form_is_plain(const form *f)
{
    uint32_t kind = f->bits & FORM_KIND;

    if (f->args > FORM_FEW || f->flows > 0 || f->checked ||
        (f->bits & (FORM_HAS_BOUND | FORM_UNFINISHED)) != 0)
        return false;
    return kind == MRD_SPAN || kind == MRD_INSTANT ||
           (kind == MRD_COUNTER && (f->columns & 1u << COL_COUNTER_INT) != 0);
}

/* Adds a new form to the batch, and its category and argument keys to the dictionary of strings.
 * Errors: INVALID, NOMEM. */
static mrd_err
form_add(mrd_batch *batch, const mrd_event *ev, const form_id *id, uint64_t hash)
{
    uint32_t bits = event_bits(ev);
    form f = { .id = *id,
               .hash = hash,
               .bits = bits,
               .category = ev->category,
               .args = ev->arg_count,
               .flows = ev->flow_count,
               .keys_at = batch->n_keys,
               .columns = form_columns(bits, ev->flow_count),
               .cost = EVENT_COST + ARG_COST * ev->arg_count + FLOW_COST * ev->flow_count };

    if ((batch->n_forms + 1) * 4 > batch->form_mask && !form_rehash(batch))
        return MRD_NOMEM;
    if (!MRD_VEC_ROOM(batch->forms, batch->n_forms, batch->forms_cap, 1) ||
        !MRD_VEC_ROOM(batch->keys, batch->n_keys, batch->keys_cap, ev->arg_count) ||
        string_put(batch, ev->category) == UINT32_MAX)
        return MRD_NOMEM;
    f.uses[VAL_FLOW] = (uint16_t) (2 * ev->flow_count);
    for (uint32_t i = 0; i < ev->arg_count; i++) {
        const mrd_arg *arg = &ev->args[i];

        if (arg_vals[arg->type].words == 0)
            return MRD_INVALID;
        if (string_put(batch, arg->key) == UINT32_MAX)
            return MRD_NOMEM;
        batch->keys[batch->n_keys + i] = arg_key(arg);
        f.uses[arg_vals[arg->type].kind] += arg_vals[arg->type].words;
        if (i < FORM_FEW)
            f.list[i] = arg_vals[arg->type].kind;
    }
    for (int k = 0; k < VALS; k++)
        f.words = f.uses[k] > f.words ? f.uses[k] : f.words;
    f.checked = f.uses[VAL_DOUBLE] + f.uses[VAL_STR] + f.uses[VAL_TEXT] > 0;
    f.plain_words = form_is_plain(&f) ? f.words : UINT32_MAX;
    batch->n_keys += ev->arg_count;
    batch->cost += 6 + 3 * (size_t) ev->arg_count;
    batch->forms[batch->n_forms++] = f;
    return MRD_OK;
}

/* Finds the form of the event, or adds a new form to the batch. Stores the form's number in
 * *ret_form. Errors: as form_add. */
static mrd_err
form_put(mrd_batch *batch, const mrd_event *ev, uint32_t *ret_form)
{
    form_id id = form_id_of(ev, arg_or_none(ev, 0), arg_or_none(ev, 1));
    uint64_t hash = form_hash(&id, ev);
    uint32_t at = form_slot(batch, &id, ev, hash);
    mrd_err err;

    if (batch->form_slots[at] == 0) {
        if ((err = form_add(batch, ev, &id, hash)) != MRD_OK)
            return err;
        /* searched again, because form_add may have enlarged the hash table */
        at = form_slot(batch, &id, ev, hash);
        batch->form_slots[at] = batch->n_forms;
    }
    *ret_form = batch->form_slots[at] - 1;
    return MRD_OK;
}

/* ---- Adding events ---- */

/* Checks the values of doubles and the total length of texts, and reserves space for the texts.
 * Adds the length of the texts to *cost. Errors: INVALID, LIMIT, NOMEM. */
static mrd_err
args_check(mrd_batch *batch, const mrd_event *ev, size_t *cost)
{
    size_t text = 0;

    for (uint32_t i = 0; i < ev->arg_count; i++) {
        const mrd_arg *arg = &ev->args[i];

        if (arg->type == MRD_ARG_DOUBLE && !isfinite(arg->v.d))
            return MRD_INVALID;
        if (arg->type == MRD_ARG_STR && string_put(batch, arg->v.sid) == UINT32_MAX)
            return MRD_NOMEM;
        if (mrd_arg_has_text(arg))
            text += arg->len;
    }
    *cost += text;
    if (*cost > MRD_BATCH_EVENT_MAX)
        return MRD_LIMIT;
    if (!mrd_buf_room(&batch->text, text)) {
        batch->text.err = MRD_OK;
        return MRD_NOMEM;
    }
    return MRD_OK;
}

/* Appends the event's flows and arguments to the lists of values. The caller has ensured the
 * space. */
static inline void
values_put(mrd_batch *batch, const mrd_event *ev)
{
    values *flows = &batch->vals[VAL_FLOW];

    for (uint32_t i = 0; i < ev->flow_count; i++) {
        flows->v[flows->n++] = ev->flows[i].id;
        flows->v[flows->n++] = ev->flows[i].dir;
    }
    for (uint32_t i = 0; i < ev->arg_count; i++) {
        const mrd_arg *arg = &ev->args[i];
        values *to = &batch->vals[arg_vals[arg->type].kind];
        uint64_t word = arg->v.u;

        if (arg->type == MRD_ARG_STR) {
            word = string_put(batch, arg->v.sid);
        } else if (mrd_arg_has_text(arg)) {
            to->v[to->n++] = batch->text.len;
            word = arg->len;
            mrd_buf_add(&batch->text, arg->v.text, arg->len);
        }
        to->v[to->n++] = word;
    }
}

static inline void
range_add(mrd_batch *batch, int64_t ts_ns, int64_t end)
{
    if (batch->n == 0) {
        batch->first = batch->newest = (mrd_ev_ns){ ts_ns };
        batch->last = (mrd_ev_ns){ end };
        return;
    }
    if (end > batch->last.ns)
        batch->last = (mrd_ev_ns){ end };
    if (ts_ns > batch->newest.ns) {
        batch->newest = (mrd_ev_ns){ ts_ns };
        return;
    }
    /* also false if two times are equal, because such events must be sorted by track */
    batch->sorted = false;
    if (ts_ns < batch->first.ns)
        batch->first = (mrd_ev_ns){ ts_ns };
}

/* Returns true if the time between ts_ns and the batch's first or newest event does not fit 63
 * bits. */
static inline bool
range_too_wide(const mrd_batch *batch, int64_t ts_ns)
{
    int64_t d;

    return __builtin_sub_overflow(ts_ns, batch->first.ns, &d) ||
           (d < 0 && __builtin_sub_overflow(batch->newest.ns, ts_ns, &d));
}

/* Assigns a number of the batch to a track that has none, and adds the track's names to the
 * dictionary of strings. Errors: INVALID, FULL, NOMEM. */
static mrd_err
track_add(mrd_batch *batch, mrd_track_id id, uint32_t *ret_local)
{
    const mrd_track *track;
    uint32_t local;

    if (id >= mrd_catalog_tracks(batch->cat))
        return MRD_INVALID;
    track = mrd_catalog_borrow_track(batch->cat, id);
    if (track->process != batch->process)
        return MRD_INVALID;
    if (batch->tracks.used >= MRD_BATCH_TRACKS)
        return MRD_FULL;
    if (string_put(batch, track->name) == UINT32_MAX ||
        string_put(batch, track->unit_name) == UINT32_MAX ||
        (local = idmap_add(&batch->tracks, id)) == UINT32_MAX)
        return MRD_NOMEM;
    batch->cost += 24;
    *ret_local = local;
    return MRD_OK;
}

static inline mrd_err
track_put(mrd_batch *batch, mrd_track_id id, uint32_t *ret_local)
{
    uint32_t known = idmap_find(&batch->tracks, id);

    if (__builtin_expect(known == 0, 0))
        return track_add(batch, id, ret_local);
    *ret_local = known - 1;
    return MRD_OK;
}

static inline bool
has_room(const mrd_batch *batch, const mrd_event *ev)
{
    return batch->n < batch->max_events &&
           (batch->n == 0 ||
            (batch->strings.used + 4 + 2 * ev->arg_count <= MRD_BATCH_STRINGS &&
             batch->n_forms < MRD_BATCH_FORMS && !range_too_wide(batch, ev->ts.ns)));
}

/* Stores the attributes of the event in the next row. The caller has ensured the space. */
static inline void
row_put(mrd_batch *batch, const mrd_event *ev, uint32_t fi, uint32_t track, uint32_t name)
{
    const form *f = &batch->forms[fi];
    uint32_t at = batch->n++;

    batch->rows.ts_ns[at] = ev->ts.ns;
    batch->rows.dur_ns[at] = ev->dur_ns;
    batch->rows.track[at] = track;
    batch->rows.name[at] = name;
    batch->rows.form[at] = fi;
    batch->rows.id[at] = ev->id;
    if ((f->columns & (1u << COL_COUNTER_INT | 1u << COL_COUNTER_DOUBLE)) != 0)
        batch->rows.value[at] = (uint64_t) ev->ivalue;
    if ((f->columns & 1u << COL_BOUND) != 0)
        batch->rows.bound[at] = ev->bound_ns;
}

static __attribute__((noinline)) mrd_err
push_any(mrd_batch *batch, const mrd_event *ev)
{
    uint32_t track = 0, name, fi = 0;
    const form *f;
    size_t cost;
    mrd_err err;

    if (!kind_ok(ev))
        return MRD_INVALID;
    if (ev->arg_count > MRD_BATCH_ARGS)
        return MRD_LIMIT;
    if (!has_room(batch, ev))
        return MRD_FULL;
    if ((err = track_put(batch, ev->track, &track)) != MRD_OK ||
        (err = form_put(batch, ev, &fi)) != MRD_OK)
        return err;
    f = &batch->forms[fi];
    cost = f->cost;
    if (f->checked && (err = args_check(batch, ev, &cost)) != MRD_OK)
        return err;
    if (batch->n > 0 && batch->cost + cost > MRD_BATCH_BYTES)
        return MRD_FULL;
    if ((name = string_put(batch, ev->name)) == UINT32_MAX ||
        (batch->n == batch->rows_cap && !grow_rows(batch)))
        return MRD_NOMEM;
    if (f->words > batch->vals_room && !values_room(batch, f->words))
        return MRD_NOMEM;
    batch->vals_room -= f->words;
    values_put(batch, ev);
    range_add(batch, ev->ts.ns,
              ev->kind == MRD_SPAN && ev->dur_ns == MRD_DUR_UNFINISHED ? ev->ts.ns
                                                                       : mrd_event_end(ev).ns);
    row_put(batch, ev, fi, track, name);
    batch->rows_ready = batch->rows_cap < batch->max_events ? batch->rows_cap : batch->max_events;
    batch->cost += cost;
    return MRD_OK;
}

/* Stores the first two arguments of an event with a plain form, which is one that push_known can
 * append. Always writes two values, to avoid branches. The length of a list grows only for
 * arguments that the event has. */
static inline void
few_put(mrd_batch *batch, const form *f, const mrd_event *ev, const mrd_arg *first,
        const mrd_arg *second)
{
    values *to = &batch->vals[f->list[0]];

    to->v[to->n] = first->v.u;
    to->n += ev->arg_count > 0;
    to = &batch->vals[f->list[1]];
    to->v[to->n] = second->v.u;
    to->n += ev->arg_count > 1;
    batch->vals_room -= f->plain_words;
}

/* Appends an event on the fast path. The event must have a plain form (form_is_plain), and the
 * batch must already have the form, the track and the name. Most events fulfil this. Otherwise
 * returns false and changes nothing. `args` says whether the event has arguments, and the compiler
 * makes separate code for each case. */
static inline __attribute__((always_inline)) bool
push_known(mrd_batch *batch, const mrd_event *ev, bool args)
{
    uint32_t track = idmap_find(&batch->tracks, ev->track),
             name = idmap_find(&batch->strings, ev->name);
    static const mrd_arg none;
    const mrd_arg *first = &none, *second = &none;
    int64_t end = ev->ts.ns;
    uint32_t fi;
    form_id id;
    const form *f;

    if (track == 0 || (name == 0 && ev->name != MRD_SID_EMPTY) ||
        (args && ev->arg_count > FORM_FEW))
        return false;
    if (args) {
        first = ev->args;
        second = arg_or_none(ev, 1);
    }
    id = form_id_of(ev, first, second);
    if ((fi = form_find_few(batch, &id, args)) == 0)
        return false;
    f = &batch->forms[fi - 1];
    if (f->plain_words > batch->vals_room || batch->n >= batch->rows_ready ||
        batch->cost + f->cost > MRD_BATCH_BYTES || ev->dur_ns < 0 ||
        range_too_wide(batch, ev->ts.ns))
        return false;
    if (ev->kind == MRD_SPAN && __builtin_add_overflow(ev->ts.ns, ev->dur_ns, &end))
        return false;
    if (args)
        few_put(batch, f, ev, first, second);
    range_add(batch, ev->ts.ns, end);
    row_put(batch, ev, fi - 1, track - 1, name);
    batch->cost += f->cost;
    return true;
}

mrd_err
mrd_batch_push(mrd_batch *batch, const mrd_event *ev)
{
    bool done = ev->arg_count == 0 ? push_known(batch, ev, false) : push_known(batch, ev, true);

    return done ? MRD_OK : push_any(batch, ev);
}
