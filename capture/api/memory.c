#include "capture/api/memory.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "capture/api/names.h"
#include "capture/api/record.h"
#include "capture/lock.h"
#include "capture/process.h"

#define LIVE_FIRST 1024u /* initial number of slots */
#define HINTS      64u
#define NAME_MAX_  160u /* bytes for a scope's name in a counter's name, including the NUL */
/* Bytes of a longer name that are used. A hash of the whole name follows, so that two names with
 * the same beginning stay different. */
#define NAME_KEPT 140u

/* One allocation. */
typedef struct {
    /* `what` identifies the allocation. bytes_1 is its size + 1, or 0 if the slot is free. */
    uint64_t what, bytes_1;
    uint32_t account, of;
} live;

typedef struct {
    mrd_memory_scope s;
    /* ids of the tracks of the four counters below, 0 if a track could not be made */
    uint32_t tracks[4];
} account;

enum { CURRENT, PEAK, ALLOCATED, ALLOCATIONS };

/* All state of this file. It reads as zero in a child of fork. */
typedef struct {
    _Atomic uint32_t lock;
    _Atomic uint32_t used; /* number of slots in use */
    _Atomic uint64_t untracked;
    uint32_t slots, accounts;
    /* cache from the hash of a scope to the index of its account + 1, 0 if unknown */
    uint16_t hint[HINTS];
    live *slot;
    /* The last two accounts are named "(further scopes)", for host and device. They get the memory
     * of scopes for which the table has no room. */
    account account[MRD_MEMORY_SCOPES + 2];
} books;

static _Atomic(books *) all;
static _Atomic bool unwanted;
static _Thread_local bool busy;

void
mrd_memory_want(bool on)
{
    atomic_store_explicit(&unwanted, !on, memory_order_relaxed);
}

bool
mrd_memory_wanted(void)
{
    return !atomic_load_explicit(&unwanted, memory_order_relaxed);
}

static books *
get_books(bool make)
{
    books *b = atomic_load_explicit(&all, memory_order_acquire), *none = NULL;

    if (b != NULL || !make || (b = mrd_proc_map(sizeof(*b), true)) == NULL)
        return b;
    if (atomic_compare_exchange_strong(&all, &none, b))
        return b;
    munmap(b, sizeof(*b));
    return none;
}

/* Takes the lock. Returns false in a signal handler that interrupted its holder. */
static bool
enter(books *b)
{
    if (busy)
        return false;
    busy = true;
    mrd_ring_fence();
    mrd_lock_word(&b->lock);
    return true;
}

static void
leave(books *b)
{
    mrd_unlock_word(&b->lock);
    mrd_ring_fence();
    busy = false;
}

/* ---- the hash table of live allocations ------------------------------------------------------ */

static uint32_t
home_of(uint32_t slots, uint64_t what, uint32_t of)
{
    return (uint32_t) (((what * 2 + of) * 0x9e3779b97f4a7c15ull) >> 32) & (slots - 1);
}

/* Returns the slot of this allocation, or the free slot in which it can be stored. */
static uint32_t
slot_of(const live *v, uint32_t slots, uint64_t what, uint32_t of)
{
    uint32_t i = home_of(slots, what, of);

    while (v[i].bytes_1 != 0 && (v[i].what != what || v[i].of != of))
        i = (i + 1) & (slots - 1);
    return i;
}

static bool
room_for_one(books *b)
{
    uint32_t slots = b->slots == 0 ? LIVE_FIRST : b->slots * 2;
    live *v;

    if (b->used * 2 < b->slots)
        return true;
    if (b->used >= MRD_MEMORY_LIVE || (v = mrd_proc_map(slots * sizeof(*v), true)) == NULL)
        return false;
    for (uint32_t i = 0; i < b->slots; i++)
        if (b->slot[i].bytes_1 != 0)
            v[slot_of(v, slots, b->slot[i].what, b->slot[i].of)] = b->slot[i];
    if (b->slot != NULL)
        munmap(b->slot, b->slots * sizeof(*v));
    b->slot = v;
    b->slots = slots;
    return true;
}

/* Empties a slot of the hash table, and moves later entries of the same probe sequence into the
 * hole. */
static void
empty_slot(books *b, uint32_t at)
{
    uint32_t mask = b->slots - 1, hole = at;

    for (uint32_t i = (at + 1) & mask; b->slot[i].bytes_1 != 0; i = (i + 1) & mask) {
        uint32_t home = home_of(b->slots, b->slot[i].what, b->slot[i].of);

        if (((i - home) & mask) < ((i - hole) & mask))
            continue;
        b->slot[hole] = b->slot[i];
        hole = i;
    }
    b->slot[hole].bytes_1 = 0;
    b->used--;
}

/* ---- accounts: the memory of each scope ------------------------------------------------------ */

static uint32_t
track_of(const mrd_memory_scope *memory_scope, const char *what, const char *scope)
{
    char name[NAME_MAX_ + 64];

    snprintf(name, sizeof(name), "memory.%s.%s/%s",
             memory_scope->place == MRD_MEMORY_HOST ? "host" : "device", what, scope);
    return mrd_rec_track(MRD_RING_TRACK_COUNTER, name, mrd_rec_name("memory"), -1, -1, -1,
                         mrd_rec_name(strcmp(what, "allocations") == 0 ? "count" : "bytes"));
}

static void
open_account(account *a, const char *scope)
{
    static const char *const whats[] = { "current", "peak", "allocated", "allocations" };

    for (size_t i = 0; i < sizeof(whats) / sizeof(whats[0]); i++)
        a->tracks[i] = track_of(&a->s, whats[i], scope);
}

static uint32_t
further(books *b, mrd_memory_place place)
{
    account *a = &b->account[MRD_MEMORY_SCOPES + place];

    if (a->s.name == 0) {
        a->s.place = place;
        a->s.name = mrd_rec_name("(further scopes)");
        open_account(a, "(further scopes)");
    }
    return MRD_MEMORY_SCOPES + place;
}

static bool
is_of(const account *a, const mrd_memory_scope *scope)
{
    return a->s.name == scope->name && a->s.domain == scope->domain && a->s.place == scope->place;
}

static uint32_t
hash_of(const char *text)
{
    uint32_t h = 2166136261u; /* FNV-1a */

    for (; *text != '\0'; text++)
        h = (h ^ (unsigned char) *text) * 16777619u;
    return h;
}

static void
scope_name(const mrd_memory_scope *scope, char to[NAME_MAX_])
{
    size_t len, kept = NAME_KEPT;
    const char *text = scope->name == 0 ? "(no scope)" : mrd_names_text(scope->name, &len),
               *domain = scope->domain == 0 ? NULL : mrd_names_text(scope->domain, &len);
    int n;

    text = text == NULL ? "(unnamed)" : text;
    n = snprintf(to, NAME_MAX_, "%s%s%s", domain == NULL ? "" : domain, domain == NULL ? "" : "/",
                 text);
    if (n < (int) NAME_MAX_)
        return;
    while (kept > 0 && ((unsigned char) to[kept] & 0xc0) == 0x80)
        kept--; /* do not cut within a UTF-8 character */
    snprintf(to + kept, NAME_MAX_ - kept, "...%08x",
             (unsigned) (hash_of(text) ^ (domain == NULL ? 0 : hash_of(domain) * 31)));
}

/* Returns the account (the values of one scope) of the calling thread's innermost open scope. */
static uint32_t
account_of(books *b, mrd_memory_place place)
{
    mrd_memory_scope scope = { .place = place };
    char name[NAME_MAX_];
    uint16_t *hint;

    mrd_rec_innermost(&scope.name, &scope.domain);
    hint = &b->hint[(scope.name * 31 + scope.domain * 7 + place) % HINTS];
    if (*hint != 0 && is_of(&b->account[*hint - 1], &scope))
        return *hint - 1u;
    for (uint32_t i = 0; i < b->accounts; i++)
        if (is_of(&b->account[i], &scope)) {
            *hint = (uint16_t) (i + 1);
            return i;
        }
    if (b->accounts == MRD_MEMORY_SCOPES)
        return further(b, place);
    scope_name(&scope, name);
    b->account[b->accounts].s = scope;
    open_account(&b->account[b->accounts], name);
    return b->accounts++;
}

static void
sample(const account *a, unsigned which, uint64_t value)
{
    mrd_rec_what what = { .track = a->tracks[which],
                          .flags = (uint8_t) ((unsigned) MRD_REC_U64 << MRD_RECF_SHIFT) };

    if (what.track == 0 || !mrd_rec_on(MRD_CAP_ANNOTATE) || !mrd_memory_wanted())
        return;
    what.domain = mrd_names_track(what.track, &what.name)->domain;
    mrd_rec_counter(&what, value);
}

static account *
take_out(books *b, uint32_t at)
{
    account *a = &b->account[b->slot[at].account];
    uint64_t bytes = b->slot[at].bytes_1 - 1;

    a->s.current -= bytes;
    a->s.freed += bytes;
    empty_slot(b, at);
    return a;
}

static void
put_in(books *b, live *to, account *a, uint64_t bytes)
{
    to->bytes_1 = bytes + 1;
    to->account = (uint32_t) (a - b->account);
    b->used++;
    a->s.current += bytes;
    a->s.allocated += bytes;
    a->s.count++;
    sample(a, CURRENT, a->s.current);
    if (a->s.current > a->s.peak) {
        a->s.peak = a->s.current;
        sample(a, PEAK, a->s.peak);
    }
    sample(a, ALLOCATED, a->s.allocated);
    sample(a, ALLOCATIONS, a->s.count);
}

/* Removes an allocation from its account. Ignores an unknown allocation. */
static void
forget(books *b, uint64_t what, mrd_memory_of of)
{
    const account *a;
    uint32_t at;

    if (b->slots == 0 || b->slot[at = slot_of(b->slot, b->slots, what, of)].bytes_1 == 0)
        return;
    a = take_out(b, at);
    sample(a, CURRENT, a->s.current);
}

/* ---- the functions of memory.h --------------------------------------------------------------- */

void
mrd_memory_add(mrd_memory_place place, mrd_memory_of of, uint64_t what, uint64_t bytes)
{
    int saved = errno;
    books *b;
    uint32_t at;

    if (!mrd_rec_on(MRD_CAP_ANNOTATE) || !mrd_memory_wanted() || bytes == UINT64_MAX ||
        (b = get_books(true)) == NULL)
        return;
    if (!enter(b)) {
        atomic_fetch_add_explicit(&b->untracked, 1, memory_order_relaxed);
        return;
    }
    forget(b, what, of);
    if (room_for_one(b)) {
        at = slot_of(b->slot, b->slots, what, of);
        b->slot[at].what = what;
        b->slot[at].of = of;
        put_in(b, &b->slot[at], &b->account[account_of(b, place)], bytes);
    } else {
        atomic_fetch_add_explicit(&b->untracked, 1, memory_order_relaxed);
    }
    leave(b);
    errno = saved;
}

void
mrd_memory_remove(mrd_memory_of of, uint64_t what)
{
    books *b = get_books(false);
    int saved = errno;

    if (b == NULL || atomic_load_explicit(&b->used, memory_order_relaxed) == 0)
        return;
    if (!enter(b)) {
        atomic_fetch_add_explicit(&b->untracked, 1, memory_order_relaxed);
        return;
    }
    forget(b, what, of);
    leave(b);
    errno = saved;
}

void
mrd_memory_remove_all(mrd_memory_of of)
{
    bool changed[sizeof(((books *) 0)->account) / sizeof(account)] = { false };
    books *b = get_books(false);
    int saved = errno;

    if (b == NULL || atomic_load_explicit(&b->used, memory_order_relaxed) == 0)
        return;
    if (!enter(b)) {
        atomic_fetch_add_explicit(&b->untracked, 1, memory_order_relaxed);
        return;
    }
    /* `while`, because forget() may move another entry into this slot */
    for (uint32_t at = 0; at < b->slots; at++)
        while (b->slot[at].bytes_1 != 0 && b->slot[at].of == (uint32_t) of)
            changed[take_out(b, at) - b->account] = true;
    for (size_t i = 0; i < sizeof(changed) / sizeof(changed[0]); i++)
        if (changed[i])
            sample(&b->account[i], CURRENT, b->account[i].s.current);
    leave(b);
    errno = saved;
}

void
mrd_memory_each(void (*fn)(void *ctx, const mrd_memory_scope *scope), void *ctx)
{
    books *b = get_books(false);

    if (b == NULL || !enter(b))
        return;
    for (uint32_t i = 0; i < MRD_MEMORY_SCOPES + 2; i++)
        if (i < b->accounts || (i >= MRD_MEMORY_SCOPES && b->account[i].s.name != 0))
            fn(ctx, &b->account[i].s);
    leave(b);
}

uint64_t
mrd_memory_untracked(void)
{
    books *b = get_books(false);

    return b == NULL ? 0 : atomic_load_explicit(&b->untracked, memory_order_relaxed);
}

void
mrd_memory_reset(void)
{
    books *b = get_books(false);

    if (b == NULL || !enter(b))
        return;
    for (uint32_t i = 0; i < MRD_MEMORY_SCOPES + 2; i++) {
        mrd_memory_scope *scope = &b->account[i].s;

        scope->peak = scope->allocated = scope->current;
        scope->freed = scope->count = 0;
    }
    for (uint32_t i = 0; i < b->slots; i++)
        if (b->slot[i].bytes_1 != 0)
            b->account[b->slot[i].account].s.count++;
    atomic_store_explicit(&b->untracked, 0, memory_order_relaxed);
    leave(b);
}
