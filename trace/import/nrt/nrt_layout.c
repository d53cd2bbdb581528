/* trace/import/nrt/nrt_layout.c - reads an event of the runtime's trace in one pass. From the first
 * events it learns the texts between the values. In later events it only compares these texts
 * (nrt_steps.h). */
#include "trace/import/nrt/import_nrt_int.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/num.h"
#include "base/vec.h"
#include "trace/json/json_scan.h"

/* kinds of JSON values, as bits of a mask */
enum { STEP_END = 1, STEP_STRING = 2, STEP_NUMBER = 4, STEP_WORD = 8 };
enum { FROM_START, FROM_EVENT, FROM_DATA };

void
mrd_nrt_layout_fini(nrt_layout *layout)
{
    free(layout->steps);
    *layout = (nrt_layout){ .off = layout->off, .read = layout->read };
}

/* ---- Learning ---- */

/* A parser that moves through the JSON text of an event from one value to the next. */
typedef struct {
    const char *p;
    mrd_str key;
    bool in_data, fresh; /* fresh: the current object has no value yet */
    uint8_t value;
} passage;

/* Moves over a JSON key, the colon and the blanks around it, and stores the key. Returns false if
 * the key has an escape or a byte that is not ASCII. */
static bool
pass_key(passage *at)
{
    bool high = false;

    if (*at->p != '"')
        return false;
    at->key.p = ++at->p;
    at->p = mrd_scan_text(at->p, &high);
    if (*at->p != '"' || high)
        return false;
    at->key.len = (size_t) (at->p - at->key.p);
    at->p = mrd_scan_blanks(at->p + 1);
    if (*at->p != ':')
        return false;
    at->p = mrd_scan_blanks(at->p + 1);
    return true;
}

/* The STEP_* bit of a value, by its first byte. Strings are missing here, because their opening
 * quote belongs to the text before the value. */
static const uint8_t begins[256] = {
    ['-'] = STEP_NUMBER, ['0' ... '9'] = STEP_NUMBER, ['t'] = STEP_WORD, ['f'] = STEP_WORD
};

/* Moves from the event's opening bracket or the end of a value to the next value, or to the event's
 * end. Returns false if only the general reader can read this event. */
static bool
pass(passage *at)
{
    for (;;) {
        at->p = mrd_scan_blanks(at->p);
        if (*at->p == '}') {
            at->p++;
            if (!at->in_data) {
                at->value = STEP_END;
                return true;
            }
            at->in_data = at->fresh = false;
            continue;
        }
        if (!at->fresh) {
            if (*at->p != ',')
                return false;
            at->p = mrd_scan_blanks(at->p + 1);
        }
        if (!pass_key(at))
            return false;
        at->fresh = false;
        if (*at->p == '{' && !at->in_data && mrd_str_is(at->key, "data")) {
            at->p++;
            at->in_data = at->fresh = true;
            continue;
        }
        at->value = begins[(unsigned char) *at->p];
        if (*at->p == '"') {
            at->value = STEP_STRING;
            at->p++;
        }
        return at->value != 0;
    }
}

static bool
steps_room(nrt_layout *layout)
{
    return MRD_VEC_ROOM_MAX(layout->steps, layout->n, layout->cap, 1, NRT_STEPS);
}

static uint32_t
step_find(const nrt_layout *layout, const nrt_step *want)
{
    uint32_t i = 1;

    while (i < layout->n &&
           (layout->steps[i].from != want->from || layout->steps[i].value != want->value ||
            layout->steps[i].len != want->len ||
            memcmp(layout->steps[i].text, want->text, want->len) != 0))
        i++;
    return i;
}

/* Called when the table of steps is full: discards all steps, so that new ones can be learned. Does
 * so at most once in NRT_FORGET events. */
static void
forget(nrt_layout *layout)
{
    if (layout->events >= NRT_FORGET) {
        layout->n = 1;
        layout->steps[0].n_next = 0;
        layout->steps[0].next[0] = 0;
        layout->events = 0;
    }
}

/* If the step's field is a number, sets the offset at which nrt_record stores it, and its maximum.
 * Returns false if the field is no number. */
static bool
step_number(nrt_step *step)
{
    static const struct {
        size_t number, has;
        uint64_t max;
    } places[] = {
#define PLACE(field, has, max) { offsetof(nrt_record, field), offsetof(nrt_record, has), max }
        [NRT_OTHER] = PLACE(ignored, has_ignored, UINT64_MAX),
        [NRT_ID] = PLACE(id, has_ignored, UINT64_MAX),
        [NRT_NC_IDX] = PLACE(nc_idx, has_ignored, INT64_MAX),
        [NRT_NC_LOCAL_ID] = PLACE(local_id, has_local, UINT64_MAX),
        [NRT_TRACKING_ID] = PLACE(tracking_id, has_tracking, UINT64_MAX),
        [NRT_THREAD_ID] = PLACE(thread_id, has_ignored, INT64_MAX),
        [NRT_WORKER_GID] = PLACE(worker_gid, has_ignored, INT64_MAX),
        [NRT_DATA] = PLACE(ignored, has_ignored, UINT64_MAX),
        [NRT_TIMESTAMP] = PLACE(ts, has_ts, INT64_MAX),
        [NRT_DATA_NC_TS] = PLACE(nc_ts, has_nc_ts, INT64_MAX),
        [NRT_DATA_EXEC] = PLACE(exec_id, has_exec, UINT64_MAX),
        [NRT_DATA_PCORE] = PLACE(pcore_idx, has_ignored, INT64_MAX),
        [NRT_DATA_CPU_TS] = PLACE(cpu_ts, has_cpu_ts, INT64_MAX),
#undef PLACE
    };

    _Static_assert(sizeof(nrt_step) == 128, "an index is a shift");
    _Static_assert(sizeof(nrt_record) < UINT8_MAX, "places fit a byte");
    step->number_at = (uint8_t) places[step->field].number;
    step->has_at = (uint8_t) places[step->field].has;
    step->max = places[step->field].max;
    return step->max > 0;
}

/* Fills `step` with the text from p to way->p, and with the meaning of the value after it. Returns
 * false if the text is too long or the value cannot be read in one pass. */
static bool
step_make(mrd_nrt *nrt, const char *p, const passage *way, nrt_step *step)
{
    if ((size_t) (way->p - p) > NRT_STEP_TEXT)
        return false;
    step->len = (uint8_t) (way->p - p);
    step->value = way->value;
    step->needs = way->value & (STEP_NUMBER | STEP_WORD);
    step->in_data = way->in_data;
    memcpy(step->text, p, step->len);
    for (unsigned i = 0; i < step->len; i++)
        step->mask[i / 16] |= (uint16_t) (1u << i % 16);
    if (step->value == STEP_END)
        return true;
    step->field = (uint8_t) mrd_nrt_field_of(nrt, way->key, way->in_data, &step->key);
    step->argument = way->in_data || step->field == NRT_OTHER || step->field == NRT_DATA;
    return step->key != MRD_SID_FULL && (step->value == STEP_STRING || step_number(step));
}

/* Parses the text between two values at p, and adds it as a step that can follow step `at`. Returns
 * the step's index. Returns 0 if the text is unusual, or if the table is full. */
static uint32_t
learn(mrd_nrt *nrt, uint32_t at, const char *p)
{
    nrt_layout *layout = &nrt->layout;
    nrt_step step = { .from = at == 0                     ? FROM_START
                              : layout->steps[at].in_data ? FROM_DATA
                                                          : FROM_EVENT };
    passage way = { .p = p, .in_data = layout->steps[at].in_data, .fresh = at == 0 };
    uint32_t i;

    if (!pass(&way) || !step_make(nrt, p, &way, &step))
        return 0;
    i = step_find(layout, &step);
    if (layout->steps[at].n_next == NRT_STEP_NEXT || (i == layout->n && !steps_room(layout))) {
        forget(layout);
        return 0;
    }
    if (i == layout->n)
        layout->steps[layout->n++] = step;
    layout->steps[at].next[layout->steps[at].n_next++] = (uint16_t) i;
    return i;
}

/* ---- Following known steps ---- */

static inline bool
step_fits(const nrt_step *step, const char *p)
{
    if (!mrd_scan_same(p, step->text, step->mask[0]))
        return false;
    for (unsigned i = 1; i * 16 < step->len; i++)
        if (!mrd_scan_same(p + i * 16, step->text + i * 16, step->mask[i]))
            return false;
    /* The same text can precede a number, and with an opening quote a string. So the first byte of
     * the value must fit, too. */
    return (begins[(unsigned char) p[step->len]] & step->needs) == step->needs;
}

/* Returns the successor of `step` with the text at p; 0 if there is none. Skips the first
 * successor, which the caller has tried. */
static uint32_t
next_other(const nrt_layout *layout, nrt_step *step, const char *p)
{
    for (uint32_t i = 1; i < step->n_next; i++) {
        uint32_t next = step->next[i];

        if (!step_fits(&layout->steps[next], p))
            continue;
        if (i > 1) { /* move frequent successors to the front */
            step->next[i] = step->next[i - 1];
            step->next[i - 1] = (uint16_t) next;
        }
        return next;
    }
    return 0;
}

static inline uint32_t
next_step(const nrt_layout *layout, nrt_step *step, const char *p)
{
    uint32_t next = step->next[0]; /* 0 if the step has no successor yet; step 0 never matches */

    return __builtin_expect(step_fits(&layout->steps[next], p), 1) ? next
                                                                   : next_other(layout, step, p);
}

/* Parses the digits [p, end), of which there are 1 to 20. Returns `end`; NULL if the number exceeds
 * 64 bits. */
static const char *
digits_slow(const char *p, const char *end, uint64_t *ret_v)
{
    size_t n = (size_t) (end - p);

    return n > 0 && n <= 20 && (n == 1 || *p != '0') &&
                   mrd_num_u64((mrd_str){ p, n }, ret_v) == MRD_OK
               ? end
               : NULL;
}

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
/* Returns how many of the 8 bytes in `w` are digits before the first other byte. */
static inline unsigned
digits_in(uint64_t w)
{
    uint64_t other = ((w + 0x4646464646464646u) | (w - 0x3030303030303030u)) & 0x8080808080808080u;

    return other == 0 ? 8 : (unsigned) __builtin_ctzll(other) / 8;
}

/* Returns the number formed by the first n (1 to 8) bytes of `w`, which all are digits. */
static inline uint64_t
digits_of(uint64_t w, unsigned n)
{
    return mrd_num_eight(w << (64 - 8 * n));
}

static inline uint64_t
digits_word(const char *p)
{
    uint64_t w;

    memcpy(&w, p, 8);
    return w;
}

/* Parses a number of at least eight digits. *ret_v already has the value of the first eight.
 * Returns the position after the number; NULL if it exceeds 64 bits. */
static inline const char *
digits_more(const char *cursor, uint64_t *ret_v)
{
    static const uint64_t tens[] = {
        1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000
    };
    const char *at = cursor + 8;

    for (int i = 0; i < 2; i++) {
        uint64_t w = digits_word(at);
        unsigned n = digits_in(w);

        if (n == 0)
            return at;
        if (i == 1 && n > 3) /* more than 19 digits may not fit into 64 bits */
            break;
        *ret_v = *ret_v * tens[n] + digits_of(w, n);
        at += n;
        if (n < 8)
            return at;
    }
    return digits_slow(cursor, mrd_scan_digits(cursor), ret_v);
}

static inline const char *
digits(const char *p, uint64_t *ret_v)
{
    uint64_t w = digits_word(p);
    unsigned n = digits_in(w);

    if (__builtin_expect(n == 0 || (n > 1 && *p == '0'), 0))
        return NULL;
    *ret_v = digits_of(w, n);
    return n < 8 ? p + n : digits_more(p, ret_v);
}
#else
static inline const char *
digits(const char *p, uint64_t *ret_v)
{
    return digits_slow(p, mrd_scan_digits(p), ret_v);
}
#endif

/* ---- Values ---- */

/* Stores the negative number -mag in the record, as mrd_nrt_take() would. Returns false if the
 * general JSON reader has to do it. */
static bool
take_negative(mrd_nrt *nrt, nrt_record *rec, const nrt_step *step, uint64_t mag)
{
    int64_t value = (int64_t) (0 - mag);

    /* "-0" is a double, and a number below -2^63 does not fit into int64_t */
    if (mag == 0 || mag > (uint64_t) INT64_MAX + 1)
        return false;
    switch ((nrt_field) step->field) {
    case NRT_NC_IDX:
        rec->nc_idx = MRD_NONE;
        break;
    case NRT_THREAD_ID:
        rec->thread_id = MRD_NONE;
        break;
    case NRT_WORKER_GID:
        rec->worker_gid = MRD_NONE;
        break;
    case NRT_OTHER:
    case NRT_DATA:
        mrd_args_int(nrt->args, step->key, value);
        break;
    default:
        return false;
    }
    return true;
}

static inline const char *
read_number(mrd_nrt *nrt, nrt_record *rec, const nrt_step *step, const char *cursor)
{
    bool neg = *cursor == '-';
    uint64_t v;

    cursor = digits(cursor + neg, &v);
    if (cursor == NULL)
        return NULL;
    if (__builtin_expect(neg, 0))
        return take_negative(nrt, rec, step, v) ? cursor : NULL;
    if (__builtin_expect(v > step->max, 0))
        return NULL;
    memcpy((char *) rec + step->number_at, &v, sizeof(v));
    *((bool *) rec + step->has_at) = true;
    if (step->argument)
        mrd_args_uint(nrt->args, step->key, v);
    return cursor;
}

static inline const char *
read_string(mrd_nrt *nrt, nrt_record *rec, const nrt_step *step, const char *p)
{
    bool high = false;
    const char *end = mrd_scan_text(p, &high);
    mrd_str text = { p, (size_t) (end - p) };

    if (*end != '"' || high)
        return NULL;
    if (step->field == NRT_PHASE)
        rec->phase = mrd_nrt_phase_of(text);
    else if (step->field == NRT_EVENT_TYPE && text.len > 0)
        rec->type = mrd_args_key(nrt->args, text);
    else if (mrd_nrt_take(nrt, rec, (nrt_field) step->field, step->key, MRD_JR_STRING, text) !=
             MRD_OK)
        return NULL;
    return end + 1;
}

static const char *
read_word(mrd_nrt *nrt, nrt_record *rec, const nrt_step *step, const char *p)
{
    bool yes = *p == 't';
    mrd_str text = yes ? MRD_STR("true") : MRD_STR("false");

    if (memcmp(p, text.p, text.len) != 0 ||
        mrd_nrt_take(nrt, rec, (nrt_field) step->field, step->key, yes ? MRD_JR_TRUE : MRD_JR_FALSE,
                     text) != MRD_OK)
        return NULL;
    return p + text.len;
}

static bool
begin(nrt_layout *layout)
{
    if (layout->n == 0 && steps_room(layout)) {
        layout->steps[0] = (nrt_step){ .mask = { 0xffff } };
        /* bytes that never occur, so step 0 never matches */
        memset(layout->steps[0].text, 0xff, NRT_STEP_TEXT);
        layout->n = 1;
    }
    return layout->n > 0 && !layout->off;
}

const char *
mrd_nrt_layout_event(mrd_nrt *nrt, nrt_record *rec, mrd_str text)
{
    nrt_layout *layout = &nrt->layout;
    const char *cursor = text.p;
    uint32_t at = 0;

    if (!begin(layout))
        return NULL;
    layout->events++;
    while (cursor != NULL) {
        const nrt_step *step;
        uint32_t next;

        if ((next = next_step(layout, &layout->steps[at], cursor)) == 0 &&
            (next = learn(nrt, at, cursor)) == 0)
            return NULL;
        at = next;
        step = &layout->steps[at];
        cursor += step->len;
        if (step->value == STEP_NUMBER)
            cursor = read_number(nrt, rec, step, cursor);
        else if (step->value == STEP_STRING)
            cursor = read_string(nrt, rec, step, cursor);
        else if (step->value == STEP_WORD)
            cursor = read_word(nrt, rec, step, cursor);
        else if (step->value == STEP_END)
            break;
    }
    layout->read += cursor != NULL;
    return cursor;
}
