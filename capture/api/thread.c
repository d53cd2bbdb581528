#include "capture/api/thread.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

static mrd_thread no_thread; /* ready is 0 for ever */
static _Thread_local mrd_thread *tls_thread = &no_thread;

typedef struct {
    mrd_thread *all, *idle;
} thread_lists;
static thread_lists before_init, *lists = &before_init;

static void thread_leave(void);

/* A child of fork starts with empty lists, because the other threads' slots are its parent's. */
__attribute__((constructor(102))) static void
begin(void)
{
    thread_lists *l = mrd_proc_map(sizeof(*l), true);

    if (l != NULL)
        lists = l;
    mrd_proc_thread_leaves = thread_leave;
}

static mrd_thread *
take_place(void)
{
    mrd_thread *t;

    if (!mrd_proc_lock())
        return NULL;
    t = lists->idle;
    if (t != NULL) {
        lists->idle = t->next_free;
    } else if ((t = mrd_proc_map(sizeof(*t), true)) != NULL) {
        t->next_all = lists->all;
        __atomic_store_n(&lists->all, t, __ATOMIC_RELEASE); /* pairs with mrd_thread_each */
    }
    mrd_proc_unlock();
    return t;
}

mrd_thread *
mrd_thread_get(void)
{
    mrd_thread *t = tls_thread;
    int saved = errno;

    if (__builtin_expect(t->ready, 1))
        return t;
    if ((t = take_place()) != NULL) {
        t->depth = 0;
        t->deep_others = 0;
        memset(t->deep, 0, sizeof(t->deep));
        t->error[0] = '\0';
        t->ready = 1;
        tls_thread = t;
        mrd_proc_at_thread_exit();
    }
    errno = saved;
    return t;
}

mrd_thread *
mrd_thread_seen(void)
{
    return tls_thread->ready ? tls_thread : NULL;
}

/* The thread ends: another thread may take its slot. */
static void
thread_leave(void)
{
    mrd_thread *t = mrd_thread_seen();

    if (t == NULL)
        return;
    tls_thread = &no_thread;
    if (!mrd_proc_lock())
        return;
    t->ready = 0;
    t->next_free = lists->idle;
    lists->idle = t;
    mrd_proc_unlock();
}

/* ---- more than there is room for ---------------------------------------------------------------- */

static const char gone; /* marks a slot as ended while deeper items were open */

/* Returns the counter of this owner's deep items, NULL if it has none. */
static uint64_t *
deep_of(mrd_thread *t, const void *owner)
{
    for (uint32_t i = 0; i < MRD_THREAD_DEEP_MAX; i++)
        if (t->deep[i].count > 0 && t->deep[i].owner == owner)
            return &t->deep[i].count;
    return NULL;
}

static __attribute__((noinline, cold)) void
begin_deep(mrd_thread *t, const void *owner)
{
    uint64_t *count = deep_of(t, owner);

    for (uint32_t i = 0; i < MRD_THREAD_DEEP_MAX && count == NULL; i++)
        if (t->deep[i].count == 0) {
            /* first, so that a signal handler's own begin takes another slot */
            t->deep[i].count = 1;
            mrd_ring_fence();
            t->deep[i].owner = owner;
            mrd_rec_lose(MRD_RING_LOST_DEEP);
            return;
        }
    ++*(count != NULL ? count : &t->deep_others);
    mrd_rec_lose(MRD_RING_LOST_DEEP);
}

/* Removes one deep item. Slots marked as gone are freed with the last one. */
static void
shallower(mrd_thread *t)
{
    uint32_t n = 0;

    if (t->depth == MRD_THREAD_OPEN_MAX + 1) {
        for (uint32_t i = 0; i < MRD_THREAD_OPEN_MAX; i++)
            if (t->open[i].owner != &gone)
                t->open[n++] = t->open[i];
        mrd_ring_fence(); /* until here, items of a signal handler are deep */
        t->depth = n;
    } else {
        t->depth--;
    }
}

/* Returns true if the innermost item of this owner was a deep one, which is never recorded, and
 * ends it. */
static __attribute__((noinline, cold)) bool
end_deep(mrd_thread *t, const void *owner)
{
    uint64_t *count = deep_of(t, owner);

    if (count == NULL && t->deep_others == 0)
        return false;
    --*(count != NULL ? count : &t->deep_others);
    shallower(t);
    return true;
}

bool
mrd_thread_begin(const void *owner, const mrd_rec_what *what)
{
    mrd_thread *t = mrd_thread_get();
    mrd_thread_open *o;
    uint32_t i;

    if (t == NULL) {
        mrd_rec_lose(MRD_RING_LOST_DEEP);
        return false;
    }
    /* before it is filled, so that a signal handler's own begin takes the next slot */
    i = t->depth++;
    mrd_ring_fence();
    if (i >= MRD_THREAD_OPEN_MAX) {
        begin_deep(t, owner);
        return true;
    }
    o = &t->open[i];
    o->owner = owner;
    mrd_rec_scope_begin(&o->scope, what);
    o->scope.what = *what; /* also if the ring has no room, because statistics need it */
    o->start = o->scope.start != 0 ? o->scope.start : mrd_rec_now();
    return true;
}

/* Returns the index of this owner's innermost open item, UINT32_MAX if there is none. */
static uint32_t
find_open(const mrd_thread *t, const void *owner)
{
    uint32_t i = t->depth < MRD_THREAD_OPEN_MAX ? t->depth : MRD_THREAD_OPEN_MAX;

    while (i > 0)
        if (t->open[--i].owner == owner)
            return i;
    return UINT32_MAX;
}

bool
mrd_thread_end(const void *owner, const mrd_rec_arg *args, size_t n, uint64_t *ret_ticks,
               mrd_rec_what *ret_what)
{
    mrd_thread *t = mrd_thread_seen();
    mrd_thread_open o;
    uint32_t i;

    if (t == NULL || t->depth == 0)
        return false;
    if (t->depth > MRD_THREAD_OPEN_MAX && end_deep(t, owner)) {
        *ret_ticks = 0;
        ret_what->name = 0;
        return true;
    }
    if ((i = find_open(t, owner)) == UINT32_MAX)
        return false;
    o = t->open[i];
    *ret_what = o.scope.what;
    *ret_ticks = mrd_rec_now() - o.start;
    mrd_rec_scope_end(&o.scope, args, n);
    if (__builtin_expect(t->depth > MRD_THREAD_OPEN_MAX, 0)) {
        t->open[i].owner = &gone;
        return true;
    }
    memmove(&t->open[i], &t->open[i + 1], (t->depth - 1 - i) * sizeof(o));
    mrd_ring_fence();
    t->depth--;
    return true;
}

void
mrd_thread_each(void (*fn)(void *ctx, mrd_thread *t), void *ctx)
{
    for (mrd_thread *t = __atomic_load_n(&lists->all, __ATOMIC_ACQUIRE); t != NULL; t = t->next_all)
        fn(ctx, t); /* places stay */
}

int
mrd_fail(int code, const char *format, ...)
{
    mrd_thread *t = mrd_thread_get();
    va_list ap;

    if (t != NULL) {
        va_start(ap, format);
        vsnprintf(t->error, sizeof(t->error), format, ap);
        va_end(ap);
    }
    return code;
}
