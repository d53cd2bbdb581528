#include "capture/api/record.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "capture/api/names.h"
#include "capture/api/probes.h"
#include "capture/process.h"

/* Maximum bytes of a text argument. A longer text is cut. Longer JSON is refused, because a cut
 * would make it invalid. */
#define TEXT_ITEM_MAX 32000u
#define BLOB_CHUNK    16384u
/* value of `slot` for a scope that has no slot in the ring's header; it is recorded as BEGIN and
 * END */
#define SLOT_NONE UINT32_MAX

/* For functions that handle rare cases. They stay out of line, so that the frequent functions that
 * call them need few registers and no arrays. */
#define SELDOM __attribute__((noinline, cold))

unsigned
mrd_rec_sources(void)
{
    return __atomic_load_n(&mrd_gate, __ATOMIC_RELAXED);
}

bool
mrd_rec_possible(void)
{
    return mrd_proc_possible();
}

size_t
mrd_rec_ring_room(void)
{
    return mrd_proc_ring_room();
}

void
mrd_rec_thread_ring_size(size_t bytes)
{
    mrd_proc_want_ring_size(bytes);
}

void
mrd_rec_thread_ring_rest(void)
{
    mrd_proc_want_ring_rest();
}

void
mrd_rec_thread_name(const char *name)
{
    mrd_proc_thread_name(name);
}

uint32_t
mrd_rec_name(const char *text)
{
    return text == NULL ? 0 : mrd_names_add(text);
}

uint32_t
mrd_rec_track(mrd_ring_track_kind kind, const char *name, uint32_t domain, int32_t lnc_idx,
              int32_t pcore_idx, int32_t device_idx, uint32_t unit)
{
    mrd_ring_track def = { (uint32_t) kind, lnc_idx, pcore_idx, device_idx, domain, unit };

    return mrd_names_add_track(&def, name, strlen(name));
}

/* ---- definitions in the ring's dictionary ---------------------------------------------------- */

static SELDOM bool
define_name(mrd_ring_writer *writer, uint32_t id)
{
    size_t len = 0;
    const char *text = mrd_names_text(id, &len);

    return text != NULL && mrd_ring_define_text(writer, id, text, len);
}

/* Returns `id` if the ring's dictionary has this name or can take it now, else 0. */
static inline uint32_t
known(mrd_ring_writer *writer, uint32_t id)
{
    if (__builtin_expect(id == 0 || id >= MRD_RING_NAMES_MAX, 0))
        return 0;
    if (__builtin_expect(mrd_ring_bit(writer->named, id), 1))
        return id;
    return define_name(writer, id) ? id : 0;
}

static SELDOM uint32_t
learn_track(mrd_ring_writer *writer, uint32_t id)
{
    uint32_t name = 0;
    size_t len = 0;
    const mrd_ring_track *def = mrd_names_track(id, &name);
    const char *text = mrd_names_text(name, &len);

    if (def == NULL || text == NULL)
        return 0;
    (void) known(writer, def->domain);
    (void) known(writer, def->unit);
    if (mrd_ring_define_track(writer, id, def, text, len))
        return id;
    mrd_ring_lose(writer->hdr, MRD_RING_LOST_DICT, mrd_ring_ticks(mrd_proc_clock), 0);
    return 0;
}

static inline uint32_t
known_track(mrd_ring_writer *writer, uint32_t id)
{
    if (__builtin_expect(id == 0, 1))
        return 0;
    if (id < MRD_RING_TRACKS_MAX && mrd_ring_bit(writer->tracked, id))
        return id;
    return id < MRD_RING_TRACKS_MAX ? learn_track(writer, id) : 0;
}

/* ---- items: the encoded arguments of a record ------------------------------------------------ */

static size_t
pad8(size_t n)
{
    return (n + 7) & ~(size_t) 7;
}

static bool
is_text(const mrd_rec_arg *arg)
{
    return arg->type == MRD_ITEM_TEXT || arg->type == MRD_ITEM_JSON;
}

static size_t
text_len(const mrd_rec_arg *arg)
{
    size_t max = arg->type == MRD_ITEM_TEXT ? TEXT_ITEM_MAX : UINT16_MAX + 1;

    return arg->v.text.len < max ? arg->v.text.len : max;
}

/* Returns how many bytes a name takes inside a record. */
static size_t
inline_len(const char *text)
{
    size_t len = text == NULL ? 0 : strlen(text);

    return len < MRD_RING_TEXT_MAX ? len : MRD_RING_TEXT_MAX;
}

static const char *
key_text_of(const mrd_rec_arg *arg)
{
    size_t len;

    return arg->key_text != NULL ? arg->key_text : mrd_names_text(arg->key, &len);
}

/* Returns how many bytes name and arguments take in the body of a record. If an argument cannot be
 * encoded, returns more than any record can have. */
static size_t
body_size(mrd_ring_writer *writer, uint32_t name, const mrd_rec_what *what, const mrd_rec_arg *args,
          size_t n)
{
    size_t size = 0;

    if (name == 0 && what->name_text != NULL)
        size += sizeof(mrd_ring_item) + pad8(inline_len(what->name_text));
    for (size_t i = 0; i < n; i++) {
        size_t len = is_text(&args[i]) ? text_len(&args[i]) : 8;

        if (len > UINT16_MAX)
            return SIZE_MAX / 2;
        if (known(writer, args[i].key) == 0)
            size += sizeof(mrd_ring_item) + pad8(inline_len(key_text_of(&args[i])));
        size += sizeof(mrd_ring_item) + pad8(len);
    }
    return size;
}

static uint8_t *
put_item(uint8_t *bytes, unsigned type, unsigned flags, uint32_t key, const void *payload,
         size_t len)
{
    mrd_ring_item item = { (uint8_t) type, (uint8_t) flags, (uint16_t) len, key };

    memcpy(bytes, &item, sizeof(item));
    bytes += sizeof(item);
    if (len > 0)
        memcpy(bytes, payload, len);
    memset(bytes + len, 0, pad8(len) - len);
    return bytes + pad8(len);
}

static uint8_t *
put_arg(mrd_ring_writer *writer, uint8_t *bytes, const mrd_rec_arg *arg)
{
    uint32_t key = known(writer, arg->key);

    if (key == 0) {
        const char *text = key_text_of(arg);

        bytes = put_item(bytes, MRD_ITEM_KEY, 0, 0, text, inline_len(text));
    }
    if (!is_text(arg)) {
        mrd_ring_item item = { arg->type, 0, 8, key };

        memcpy(bytes, &item, sizeof(item));
        memcpy(bytes + sizeof(item), &arg->v, 8);
        return bytes + sizeof(item) + 8;
    }
    return put_item(bytes, arg->type, text_len(arg) < arg->v.text.len ? MRD_ITEMF_CUT : 0, key,
                    arg->v.text.p, text_len(arg));
}

static_assert(2 * sizeof(mrd_rec_numeric) == MRD_RING_UNIT, "two numbers a unit");

/* ---- writing one record ---------------------------------------------------------------------- */

/* `at` is the time with which a lost event is counted. `ticks` is the time in the record. */
typedef struct {
    uint64_t ticks, at, value;
} put_times;

/* Writes a record with a body. The caller must be between mrd_ring_enter and mrd_ring_leave.
 * Returns false if the record was counted as lost. */
static __attribute__((noinline)) bool
put_long(mrd_ring_writer *writer, unsigned kind, const mrd_rec_what *what, put_times at,
         const mrd_rec_arg *args, size_t count)
{
    uint32_t name = known(writer, what->name);
    size_t body = body_size(writer, name, what, args, count), len;
    mrd_ring_rec *rec;
    uint8_t *bytes;

    len = (sizeof(*rec) + body + MRD_RING_UNIT - 1) & ~(size_t) (MRD_RING_UNIT - 1);
    rec = mrd_ring_reserve_len(writer, len, at.at);
    if (rec == NULL)
        return false;
    rec->kind = (uint8_t) kind;
    rec->flags = (uint8_t) (what->flags | MRD_RECF_BODY);
    rec->units = (uint16_t) (len / MRD_RING_UNIT);
    rec->name = name;
    rec->ts = at.ticks;
    rec->value = at.value;
    rec->domain = known(writer, what->domain);
    rec->track = known_track(writer, what->track);
    bytes = (uint8_t *) (rec + 1);
    if (name == 0 && what->name_text != NULL)
        bytes = put_item(bytes, MRD_ITEM_NAME, 0, 0, what->name_text, inline_len(what->name_text));
    for (size_t i = 0; i < count; i++)
        bytes = put_arg(writer, bytes, &args[i]);
    for (uint8_t *end = (uint8_t *) rec + len; bytes < end;
         bytes += 8) /* items are multiples of 8 */
        memset(bytes, 0, 8);
    mrd_ring_commit(writer, len);
    return true;
}

/* put_numbers writes a record whose arguments are all numbers, with keys that the ring's dictionary
 * already has. It copies each argument with `take`.
 *
 * It returns false if nothing was written. Either the record was counted as lost, or an argument is
 * of another kind. In the second case *ret_other is set. */
typedef bool take_number(const mrd_ring_writer *w, const void *from, size_t i, mrd_rec_numeric *to);

static inline __attribute__((always_inline)) bool
put_numbers(mrd_ring_writer *writer, unsigned kind, const mrd_rec_what *what, const put_times *at,
            take_number *take, const void *from, size_t count, bool *ret_other)
{
    size_t len = sizeof(mrd_ring_rec) + (count + count % 2) * sizeof(mrd_rec_numeric);
    uint32_t domain = known(writer, what->domain), track = known_track(writer, what->track);
    mrd_ring_rec *rec = mrd_ring_reserve_short(writer, len, at->at);
    mrd_rec_numeric *to;

    if (__builtin_expect(rec == NULL, 0))
        return false;
    to = (mrd_rec_numeric *) (void *) (rec + 1);
    for (size_t i = 0; i < count; i++)
        if (__builtin_expect(!take(writer, from, i, &to[i]), 0)) {
            *ret_other = true;
            return false;
        }
    if (count % 2 != 0)
        to[count] = (mrd_rec_numeric){ 0, 0 };
    rec->kind = (uint8_t) kind;
    rec->flags = (uint8_t) (what->flags | MRD_RECF_BODY);
    rec->units = (uint16_t) (len / MRD_RING_UNIT);
    rec->name = what->name;
    rec->ts = at->ticks;
    rec->value = at->value;
    rec->domain = domain;
    rec->track = track;
    mrd_ring_commit(writer, len);
    return true;
}

static inline bool
take_arg(const mrd_ring_writer *writer, const void *from, size_t i, mrd_rec_numeric *to)
{
    const mrd_rec_arg *arg = (const mrd_rec_arg *) from + i;

    if (is_text(arg) || arg->key - 1 >= MRD_RING_NAMES_MAX - 1 ||
        !mrd_ring_bit(writer->named, arg->key))
        return false;
    to->item = mrd_rec_numeric_item(arg->key, arg->type);
    to->value = arg->v.u;
    return true;
}

/* Copies argument i for put_numbers. Returns false if the ring's dictionary does not have its key.
 * The key needs no range check, because it comes from names.c. */
static inline bool
take_ready(const mrd_ring_writer *writer, const void *from, size_t i, mrd_rec_numeric *to)
{
    const mrd_rec_numeric *ready = (const mrd_rec_numeric *) from + i;

    to->item = ready->item;
    to->value = ready->value;
    return mrd_ring_bit(writer->named, (uint32_t) (ready->item >> 32));
}

/* Like put_long, but faster if all arguments are numbers. The ring's dictionary must already have
 * the name. */
static __attribute__((noinline)) bool
put_args(mrd_ring_writer *writer, unsigned kind, const mrd_rec_what *what, put_times at,
         const mrd_rec_arg *args, size_t n)
{
    bool other = n > MRD_REC_NUMBERS_MAX;

    if (!other && put_numbers(writer, kind, what, &at, take_arg, args, n, &other))
        return true;
    return other && put_long(writer, kind, what, at, args, n);
}

/* Like put_long, but also writes records without a body. It is fast for records without a body,
 * because nearly all records have none. */
static inline __attribute__((always_inline)) bool
put(mrd_ring_writer *writer, unsigned kind, const mrd_rec_what *what, put_times at,
    const mrd_rec_arg *args, size_t n)
{
    uint32_t name, domain, track;
    mrd_ring_rec *rec;

    name = known(writer, what->name);
    if (__builtin_expect(n != 0, 0))
        return name != 0 ? put_args(writer, kind, what, at, args, n)
                         : put_long(writer, kind, what, at, args, n);
    if (__builtin_expect(name == 0 && what->name_text != NULL, 0))
        return put_long(writer, kind, what, at, args, n);
    domain = known(writer, what->domain);
    track = known_track(writer, what->track);
    rec = mrd_ring_reserve(writer, at.at);
    if (__builtin_expect(rec == NULL, 0))
        return false;
    rec->kind = (uint8_t) kind;
    rec->flags = what->flags;
    rec->units = 1;
    rec->name = name;
    rec->ts = at.ticks;
    rec->value = at.value;
    rec->domain = domain;
    rec->track = track;
    mrd_ring_commit(writer, MRD_RING_UNIT);
    return true;
}

/* Returns the calling thread's writer after mrd_ring_enter. Returns NULL if the reader requested a
 * pause, or if the event was counted as lost. `at` is the time of the loss, and 0 means now. */
static inline mrd_ring_writer *
enter(uint64_t at)
{
    mrd_ring_writer *writer = mrd_proc_writer();

    if (__builtin_expect(writer == NULL, 0))
        return NULL;
    if (__builtin_expect(!mrd_ring_enter(writer), 0)) {
        mrd_ring_lose(writer->hdr, MRD_RING_LOST_NESTED,
                      at != 0 ? at : mrd_ring_ticks(mrd_proc_clock), 1);
        return NULL;
    }
    if (__builtin_expect(atomic_load_explicit(&writer->hdr->pause, memory_order_relaxed) == 1, 0)) {
        mrd_ring_leave(writer);
        return NULL;
    }
    return writer;
}

static inline __attribute__((always_inline)) void
record(unsigned kind, const mrd_rec_what *what, put_times at, const mrd_rec_arg *args, size_t n)
{
    mrd_ring_writer *writer = enter(at.at);

    if (writer == NULL)
        return;
    (void) put(writer, kind, what, at, args, n);
    mrd_ring_leave(writer);
}

/* ---- scopes ---------------------------------------------------------------------------------- */

/* Begins a scope for which the ring's header has no slot left. Records the begin and the end
 * separately (BEGIN, END). */
static SELDOM void
begin_deep(mrd_ring_writer *writer, mrd_rec_scoped *scope, const mrd_rec_what *what)
{
    scope->slot = SLOT_NONE;
    scope->id = mrd_rec_next_id(writer);
    scope->start = mrd_ring_ticks(writer->clock);
    if (!put(writer, MRD_REC_BEGIN, what, (put_times){ scope->start, scope->start, scope->id },
             NULL, 0))
        scope->start = 0;
}

void
mrd_rec_scope_open(mrd_rec_scoped *scope)
{
    mrd_ring_writer *writer = enter(0);
    const mrd_rec_what *what = &scope->what;
    mrd_ring_scope *ring_scope;

    scope->start = 0;
    if (__builtin_expect(writer == NULL, 0))
        return;
    scope->pid = writer->pid;
    if (__builtin_expect(writer->depth >= MRD_RING_OPEN_MAX, 0)) {
        begin_deep(writer, scope, what);
    } else {
        scope->slot = writer->depth++;
        ring_scope = &writer->hdr->open[scope->slot];
        atomic_store_explicit(&ring_scope->name_domain,
                              (uint64_t) known(writer, what->name) << 32 |
                                  known(writer, what->domain),
                              memory_order_relaxed);
        atomic_store_explicit(&ring_scope->track_flags,
                              (uint64_t) known_track(writer, what->track) << 32 | what->flags,
                              memory_order_relaxed);
        atomic_store_explicit(&ring_scope->ending, 0, memory_order_relaxed);
        scope->start = mrd_ring_ticks(writer->clock);
        atomic_store_explicit(&ring_scope->ts, scope->start, memory_order_relaxed);
        /* The release order makes the slot visible before `depth`. It pairs with next_open_scope in
         * ring_read.c. */
        atomic_store_explicit(&writer->hdr->depth, writer->depth, memory_order_release);
    }
    mrd_ring_leave(writer);
    MRD_PROBE(begin, what, 0);
}

/* Frees the scope's slot in the header. Then lowers `depth` to the highest slot that is still in
 * use. */
static inline void
leave_slot(mrd_ring_writer *writer, const mrd_rec_scoped *scope)
{
    mrd_ring_scope *open = writer->hdr->open;
    uint32_t d = writer->depth;

    if (__builtin_expect(scope->slot >= d ||
                             atomic_load_explicit(&open[scope->slot].ts, memory_order_relaxed) !=
                                 scope->start,
                         0))
        return; /* the slot was already freed when the thread ended */
    atomic_store_explicit(&open[scope->slot].ts, 0, memory_order_relaxed);
    while (d > 0 && atomic_load_explicit(&open[d - 1].ts, memory_order_relaxed) == 0)
        d--;
    if (d != writer->depth) {
        writer->depth = d;
        atomic_store_explicit(&writer->hdr->depth, d, memory_order_relaxed);
    }
}

static SELDOM void
end_deep(mrd_ring_writer *writer, const mrd_rec_scoped *scope, uint64_t now,
         const mrd_rec_arg *args, size_t arg_count)
{
    mrd_rec_what nameless = { .flags = scope->what.flags };

    (void) put(writer, MRD_REC_END, &nameless, (put_times){ now, now, scope->id }, args, arg_count);
}

/* Converts numeric arguments to mrd_rec_arg. `to` has room for MRD_REC_NUMBERS_MAX arguments. */
static void
args_of_numbers(const mrd_rec_numeric *numbers, size_t n, mrd_rec_arg *to)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (mrd_rec_arg){ .key = (uint32_t) (numbers[i].item >> 32),
                               .type = (uint8_t) numbers[i].item,
                               .v.u = numbers[i].value };
}

static SELDOM void
end_deep_numbers(mrd_ring_writer *writer, const mrd_rec_scoped *scope, uint64_t now,
                 const mrd_rec_numeric *numbers, size_t n)
{
    mrd_rec_arg args[MRD_REC_NUMBERS_MAX];

    args_of_numbers(numbers, n, args);
    end_deep(writer, scope, now, args, n);
}

/* Writes the record of a scope in two rare cases: an argument's key is new to this ring, or the
 * ring's dictionary cannot take the scope's name. */
static SELDOM void
put_new_numbers(mrd_ring_writer *writer, const mrd_rec_what *what, const put_times *at,
                const mrd_rec_numeric *numbers, size_t n)
{
    mrd_rec_arg args[MRD_REC_NUMBERS_MAX];

    args_of_numbers(numbers, n, args);
    (void) put_long(writer, MRD_REC_SPAN, what, *at, args, n);
}

static inline __attribute__((always_inline)) void
put_span_numbers(mrd_ring_writer *writer, const mrd_rec_what *what, const put_times *at,
                 const mrd_rec_numeric *numbers, size_t n)
{
    bool other = known(writer, what->name) == 0;

    if (__builtin_expect(!other, 1))
        (void) put_numbers(writer, MRD_REC_SPAN, what, at, take_ready, numbers, n, &other);
    if (__builtin_expect(other, 0))
        put_new_numbers(writer, what, at, numbers, n);
}

/* Ends a scope. At least one of `args` and `numbers` is NULL. */
static inline __attribute__((always_inline)) void
end_scope(mrd_rec_scoped *scope, const mrd_rec_arg *args, const mrd_rec_numeric *numbers,
          size_t count)
{
    mrd_ring_writer *writer;
    uint64_t now;

    if (scope->start == 0)
        return;
    now = mrd_ring_ticks(mrd_proc_clock);
    writer = mrd_proc_writer();
    if (__builtin_expect(writer == NULL || writer->pid != scope->pid, 0))
        return; /* the scope began before a fork, so the parent ends it */
    if (__builtin_expect(!mrd_ring_enter(writer), 0)) {
        mrd_ring_lose(writer->hdr, MRD_RING_LOST_NESTED, now, 1);
        return;
    }
    if (__builtin_expect(scope->slot == SLOT_NONE, 0)) {
        if (numbers != NULL)
            end_deep_numbers(writer, scope, now, numbers, count);
        else
            end_deep(writer, scope, now, args, count);
    } else {
        put_times at = { scope->start, now, now - scope->start };

        writer->ending = scope->slot + 1;
        if (numbers != NULL)
            put_span_numbers(writer, &scope->what, &at, numbers, count);
        else
            (void) put(writer, MRD_REC_SPAN, &scope->what, at, args, count);
        writer->ending = 0;
        leave_slot(writer, scope);
    }
    mrd_ring_leave(writer);
    MRD_PROBE(end, &scope->what, now - scope->start);
    scope->start = 0;
}

void
mrd_rec_scope_end(mrd_rec_scoped *scope, const mrd_rec_arg *args, size_t arg_count)
{
    end_scope(scope, args, NULL, arg_count);
}

void
mrd_rec_scope_end_numbers(mrd_rec_scoped *scope, const mrd_rec_numeric *numbers, size_t n)
{
    end_scope(scope, NULL, numbers, n);
}

void
mrd_rec_innermost(uint32_t *ret_name, uint32_t *ret_domain)
{
    const mrd_ring_writer *writer = mrd_tls_writer;

    *ret_name = *ret_domain = 0;
    for (uint32_t i = writer->ready ? writer->depth : 0; i > 0; i--) {
        const mrd_ring_scope *scope = &writer->hdr->open[i - 1];
        uint64_t name_domain = atomic_load_explicit(&scope->name_domain, memory_order_relaxed);

        if (atomic_load_explicit(&scope->ts, memory_order_relaxed) == 0 ||
            (atomic_load_explicit(&scope->track_flags, memory_order_relaxed) & MRD_RECF_API) != 0)
            continue;
        *ret_name = (uint32_t) (name_domain >> 32);
        *ret_domain = (uint32_t) name_domain;
        if (*ret_name == 0) /* the ring's dictionary is full */
            *ret_name = mrd_names_reserve_fallback();
        return;
    }
}

/* ---- spans, instants, counters, flows, notices and models ------------------------------------ */

void
mrd_rec_span(const mrd_rec_what *what, uint64_t start, uint64_t end, const mrd_rec_arg *args,
             size_t arg_count)
{
    record(MRD_REC_SPAN, what, (put_times){ start, end, end > start ? end - start : 0 }, args,
           arg_count);
    MRD_PROBE(span, what, end > start ? end - start : 0);
}

uint64_t
mrd_rec_begin(const mrd_rec_what *what, const mrd_rec_arg *args, size_t arg_count)
{
    uint64_t now = mrd_ring_ticks(mrd_proc_clock), id;
    mrd_ring_writer *writer = enter(now);

    if (writer == NULL)
        return 0;
    id = mrd_rec_next_id(writer);
    if (!put(writer, MRD_REC_BEGIN, what, (put_times){ now, now, id }, args, arg_count))
        id = 0;
    mrd_ring_leave(writer);
    return id;
}

void
mrd_rec_end(uint64_t id, const mrd_rec_arg *args, size_t arg_count)
{
    mrd_rec_what nameless = { 0 };
    uint64_t now = mrd_ring_ticks(mrd_proc_clock);
    mrd_ring_writer *writer = id == 0 ? NULL : enter(now);

    if (writer == NULL)
        return;
    if (__builtin_expect(id >= writer->ids_from,
                         /* an id below this belongs to a span from before a fork, which the parent
                          * ends */
                         1))
        (void) put(writer, MRD_REC_END, &nameless, (put_times){ now, now, id }, args, arg_count);
    mrd_ring_leave(writer);
}

void
mrd_rec_instant(const mrd_rec_what *what, uint64_t id, const mrd_rec_arg *args, size_t arg_count)
{
    uint64_t now = mrd_ring_ticks(mrd_proc_clock);

    record(MRD_REC_INSTANT, what, (put_times){ now, now, id }, args, arg_count);
    MRD_PROBE(instant, what, 0);
}

void
mrd_rec_counter(const mrd_rec_what *what, uint64_t value)
{
    uint64_t now = mrd_ring_ticks(mrd_proc_clock);

    record(MRD_REC_COUNTER, what, (put_times){ now, now, value }, NULL, 0);
    MRD_PROBE(counter, what, value);
}

void
mrd_rec_lose(mrd_ring_lost cause)
{
    uint64_t now = mrd_ring_ticks(mrd_proc_clock);
    mrd_ring_writer *writer = enter(now);

    if (writer == NULL)
        return;
    mrd_ring_lose(writer->hdr, cause, now, 1);
    mrd_ring_leave(writer);
}

void
mrd_rec_flow(const mrd_rec_what *what, uint64_t id)
{
    uint64_t now = mrd_ring_ticks(mrd_proc_clock);

    record(MRD_REC_FLOW, what, (put_times){ now, now, id }, NULL, 0);
}

void
mrd_rec_notice(const char *text, const mrd_rec_arg *args, size_t arg_count)
{
    mrd_rec_what what = { .name_text = text };
    uint64_t now = mrd_ring_ticks(mrd_proc_clock);

    record(MRD_REC_NOTICE, &what, (put_times){ now, now, 0 }, args, arg_count);
}

void
mrd_rec_model(bool load, uint64_t number, const char *name, const mrd_rec_arg *args,
              size_t arg_count)
{
    mrd_rec_what what = { .name = mrd_rec_name(name), .name_text = name };
    uint64_t now = mrd_ring_ticks(mrd_proc_clock);

    what.flags = load ? MRD_RECF_LOAD : MRD_RECF_UNLOAD;
    record(MRD_REC_MODEL, &what, (put_times){ now, now, number }, args, arg_count);
}

/* ---- blobs: long texts, written in chunks ---------------------------------------------------- */

/* Writes the next chunk of the blob. Returns false if the ring has no room now. */
static bool
put_chunk(mrd_ring_writer *writer, mrd_rec_blob *blob)
{
    size_t max = mrd_ring_rec_max(writer) - sizeof(mrd_ring_rec), count = blob->len - blob->at, len;
    uint64_t now = mrd_ring_ticks(mrd_proc_clock);
    mrd_ring_rec *rec;

    max = max < BLOB_CHUNK ? max : BLOB_CHUNK;
    count = count < max ? count : max;
    len = (sizeof(*rec) + count + MRD_RING_UNIT - 1) & ~(size_t) (MRD_RING_UNIT - 1);
    if ((rec = mrd_ring_reserve_slow(writer, len, now, true)) == NULL)
        return false;
    rec->kind = MRD_REC_BLOB;
    rec->flags =
        (uint8_t) ((blob->at == 0 ? MRD_RECF_FIRST | (blob->apart ? MRD_RECF_APART : 0) : 0) |
                   (blob->at + count == blob->len ? MRD_RECF_LAST : 0) | MRD_RECF_BODY);
    rec->units = (uint16_t) (len / MRD_RING_UNIT);
    rec->name = known(writer, blob->name);
    rec->ts = now;
    rec->value = blob->at;
    rec->domain = blob->seq;
    rec->track = (uint32_t) count;
    memcpy(rec + 1, (const uint8_t *) blob->data + blob->at, count);
    memset((uint8_t *) (rec + 1) + count, 0, len - sizeof(*rec) - count);
    mrd_ring_commit(writer, len);
    blob->at += count;
    return true;
}

mrd_blob_step
mrd_rec_blob_put(mrd_rec_blob *blob)
{
    int saved = errno;
    mrd_ring_writer *writer = enter(mrd_ring_ticks(mrd_proc_clock));

    if (writer == NULL)
        return MRD_BLOB_SILENT;
    if (blob->at == 0)
        blob->seq = ++writer->blob_seq;
    while (blob->at < blob->len && put_chunk(writer, blob))
        ;
    if (blob->at == 0)
        writer->blob_seq--;
    mrd_ring_leave(writer);
    errno = saved;
    return blob->at < blob->len ? MRD_BLOB_ROOM : MRD_BLOB_DONE;
}

/* Returns how many bytes of the ring a text of `len` bytes needs at most. They include the PAD
 * record at the end of the data area and the LOSS and CLOCK records that the writer may add. */
static size_t
blob_need(const mrd_ring_writer *writer, size_t len)
{
    size_t max = mrd_ring_rec_max(writer), chunk = max < BLOB_CHUNK ? max : BLOB_CHUNK;

    return len + (len / (chunk - sizeof(mrd_ring_rec)) + 1) * 3 * MRD_RING_UNIT + 2 * chunk;
}

bool
mrd_rec_blob_fits(size_t len)
{
    mrd_ring_writer *writer = mrd_proc_writer();

    return writer != NULL && mrd_ring_room(writer) >= blob_need(writer, len);
}

size_t
mrd_rec_blob_max(void)
{
    mrd_ring_writer *writer = mrd_proc_writer();

    return writer == NULL ? 0 : (size_t) (writer->mask + 1) / 2;
}

/* Converts a wall-clock time to ticks. Uses the tick rate measured from the library's load until
 * `now`. */
static uint64_t
ticks_of_wall(const mrd_ring_cal *now, int64_t wall_ns)
{
    int64_t ago = now->wall_ns - wall_ns, second = mrd_proc_ticks_ns(1 << 30, now);
    __int128 ticks = second <= 0 ? ago : ((__int128) ago << 30) / second;

    return ticks <= 0                               ? now->ticks
           : (unsigned __int128) ticks > now->ticks ? 0
                                                    : now->ticks - (uint64_t) ticks;
}

void
mrd_rec_blob_lose(uint64_t count, int64_t first_wall_ns, int64_t last_wall_ns)
{
    mrd_ring_writer *writer = mrd_proc_writer();
    mrd_ring_cal now;

    if (writer == NULL || count == 0)
        return;
    mrd_ring_cal_read(writer->clock, &now);
    mrd_ring_lose(writer->hdr, MRD_RING_LOST_BLOB, ticks_of_wall(&now, first_wall_ns), count);
    mrd_ring_lose(writer->hdr, MRD_RING_LOST_BLOB, ticks_of_wall(&now, last_wall_ns), 0);
    writer->limit = 0; /* the next record takes the slow path, which reports the loss */
}
