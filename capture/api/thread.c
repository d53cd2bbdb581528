#include "capture/api/thread.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

/* state of threads that have none of their own yet; its `ready` is always 0 */
static mrd_thread no_thread;
static _Thread_local mrd_thread *tls_thread = &no_thread;

typedef struct {
    mrd_thread *all, *idle;
} thread_lists;
static thread_lists before_init, *lists = &before_init;

static void thread_leave(void);

/* The lists read as zero in a child of fork, because their slots belong to threads of the
 * parent. */
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
    mrd_thread *thread;

    if (!mrd_proc_lock())
        return NULL;
    thread = lists->idle;
    if (thread != NULL) {
        lists->idle = thread->next_free;
    } else if ((thread = mrd_proc_map(sizeof(*thread), true)) != NULL) {
        thread->next_all = lists->all;
        /* pairs with the acquire in mrd_thread_each */
        __atomic_store_n(&lists->all, thread, __ATOMIC_RELEASE);
    }
    mrd_proc_unlock();
    return thread;
}

mrd_thread *
mrd_thread_get(void)
{
    mrd_thread *thread = tls_thread;
    int saved = errno;

    if (__builtin_expect(thread->ready, 1))
        return thread;
    if ((thread = take_place()) != NULL) {
        thread->depth = 0;
        thread->deep_others = 0;
        memset(thread->deep, 0, sizeof(thread->deep));
        thread->error[0] = '\0';
        thread->ready = 1;
        tls_thread = thread;
        mrd_proc_at_thread_exit();
    }
    errno = saved;
    return thread;
}

mrd_thread *
mrd_thread_seen(void)
{
    return tls_thread->ready ? tls_thread : NULL;
}

/* Called when a thread ends. Makes its slot available to another thread. */
static void
thread_leave(void)
{
    mrd_thread *thread = mrd_thread_seen();

    if (thread == NULL)
        return;
    tls_thread = &no_thread;
    if (!mrd_proc_lock())
        return;
    thread->ready = 0;
    thread->next_free = lists->idle;
    lists->idle = thread;
    mrd_proc_unlock();
}

/* ---- items nested deeper than MRD_THREAD_OPEN_MAX -------------------------------------------- */

/* Stored as the owner of an item that ended before the items nested in it. */
static const char gone;

/* Returns the number of this owner's open items that are nested too deep for a slot. Returns NULL
 * if there are none. */
static uint64_t *
deep_of(mrd_thread *thread, const void *owner)
{
    for (uint32_t i = 0; i < MRD_THREAD_DEEP_MAX; i++)
        if (thread->deep[i].count > 0 && thread->deep[i].owner == owner)
            return &thread->deep[i].count;
    return NULL;
}

static __attribute__((noinline, cold)) void
begin_deep(mrd_thread *thread, const void *owner)
{
    uint64_t *count = deep_of(thread, owner);

    for (uint32_t i = 0; i < MRD_THREAD_DEEP_MAX && count == NULL; i++)
        if (thread->deep[i].count == 0) {
            /* Set the count first, so that a begin in a signal handler sees that the entry is
             * taken. */
            thread->deep[i].count = 1;
            mrd_ring_fence();
            thread->deep[i].owner = owner;
            mrd_rec_lose(MRD_RING_LOST_DEEP);
            return;
        }
    ++*(count != NULL ? count : &thread->deep_others);
    mrd_rec_lose(MRD_RING_LOST_DEEP);
}

/* Ends one item that was nested too deep for a slot. After the last such item has ended, removes
 * from `open` the items that ended in the meantime (their owner is &gone). */
static void
shallower(mrd_thread *thread)
{
    uint32_t n = 0;

    if (thread->depth == MRD_THREAD_OPEN_MAX + 1) {
        for (uint32_t i = 0; i < MRD_THREAD_OPEN_MAX; i++)
            if (thread->open[i].owner != &gone)
                thread->open[n++] = thread->open[i];
        /* An item that a signal handler begins before this line still counts as too deep. */
        mrd_ring_fence();
        thread->depth = n;
    } else {
        thread->depth--;
    }
}

/* Ends this owner's innermost item if it was nested too deep for a slot. Such an item has no
 * record. Returns false if the owner has no such item. */
static __attribute__((noinline, cold)) bool
end_deep(mrd_thread *thread, const void *owner)
{
    uint64_t *count = deep_of(thread, owner);

    if (count == NULL && thread->deep_others == 0)
        return false;
    --*(count != NULL ? count : &thread->deep_others);
    shallower(thread);
    return true;
}

bool
mrd_thread_begin(const void *owner, const mrd_rec_what *what)
{
    mrd_thread *thread = mrd_thread_get();
    mrd_thread_open *open;
    uint32_t i;

    if (thread == NULL) {
        mrd_rec_lose(MRD_RING_LOST_DEEP);
        return false;
    }
    /* The depth grows before the slot is filled, so that a begin in a signal handler takes the next
     * slot. */
    i = thread->depth++;
    mrd_ring_fence();
    if (i >= MRD_THREAD_OPEN_MAX) {
        begin_deep(thread, owner);
        return true;
    }
    open = &thread->open[i];
    open->owner = owner;
    mrd_rec_scope_begin(&open->scope, what);
    /* `what` is also set if the ring has no room, because statistics need the name */
    open->scope.what = *what;
    open->start = open->scope.start != 0 ? open->scope.start : mrd_rec_now();
    return true;
}

/* Returns the index of this owner's innermost open item, or UINT32_MAX if there is none. */
static uint32_t
find_open(const mrd_thread *thread, const void *owner)
{
    uint32_t i = thread->depth < MRD_THREAD_OPEN_MAX ? thread->depth : MRD_THREAD_OPEN_MAX;

    while (i > 0)
        if (thread->open[--i].owner == owner)
            return i;
    return UINT32_MAX;
}

bool
mrd_thread_end(const void *owner, const mrd_rec_arg *args, size_t count, uint64_t *ret_ticks,
               mrd_rec_what *ret_what)
{
    mrd_thread *thread = mrd_thread_seen();
    mrd_thread_open open;
    uint32_t i;

    if (thread == NULL || thread->depth == 0)
        return false;
    if (thread->depth > MRD_THREAD_OPEN_MAX && end_deep(thread, owner)) {
        *ret_ticks = 0;
        ret_what->name = 0;
        return true;
    }
    if ((i = find_open(thread, owner)) == UINT32_MAX)
        return false;
    open = thread->open[i];
    *ret_what = open.scope.what;
    *ret_ticks = mrd_rec_now() - open.start;
    mrd_rec_scope_end(&open.scope, args, count);
    if (__builtin_expect(thread->depth > MRD_THREAD_OPEN_MAX, 0)) {
        thread->open[i].owner = &gone;
        return true;
    }
    memmove(&thread->open[i], &thread->open[i + 1], (thread->depth - 1 - i) * sizeof(open));
    mrd_ring_fence();
    thread->depth--;
    return true;
}

void
mrd_thread_each(void (*fn)(void *ctx, mrd_thread *thread), void *ctx)
{
    for (mrd_thread *thread = __atomic_load_n(&lists->all, __ATOMIC_ACQUIRE); thread != NULL;
         thread = thread->next_all)
        fn(ctx, thread); /* no lock is needed, because slots are never freed */
}

int
mrd_fail(int code, const char *format, ...)
{
    mrd_thread *thread = mrd_thread_get();
    va_list ap;

    if (thread != NULL) {
        va_start(ap, format);
        vsnprintf(thread->error, sizeof(thread->error), format, ap);
        va_end(ap);
    }
    return code;
}
