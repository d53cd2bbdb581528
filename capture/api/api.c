/* Implements the scopes, pushes, spans, instants and flows of meridian.h. */
#include "capture/api/api.h"

#include <stdlib.h>

#include "base/err.h"
#include "capture/api/dump.h"
#include "capture/api/memory.h"
#include "capture/api/names.h"
#include "capture/process.h"

_Static_assert(sizeof(mrd_scope) >= sizeof(mrd_rec_scoped), "mrd_scope is too small");
_Static_assert(offsetof(mrd_rec_scoped, start) == 0, "mrd_scope.start must be first");
_Static_assert((int) MERIDIAN_NOMEM == (int) MRD_NOMEM && (int) MERIDIAN_IO == (int) MRD_IO &&
                   (int) MERIDIAN_NOTFOUND == (int) MRD_NOTFOUND &&
                   (int) MERIDIAN_INVALID == (int) MRD_INVALID &&
                   (int) MERIDIAN_LIMIT == (int) MRD_LIMIT &&
                   (int) MERIDIAN_TIMEOUT == (int) MRD_TIMEOUT &&
                   (int) MERIDIAN_CLOSED == (int) MRD_CLOSED &&
                   (int) MERIDIAN_UNSUPPORTED == (int) MRD_UNSUPPORTED &&
                   (int) MERIDIAN_STATE == (int) MRD_STATE,
               "codes of meridian.h are those of base/err.def");
_Static_assert(MRD_GATE_ANNOTATIONS == MRD_CAP_ANNOTATE, "gate bit");
_Static_assert((int) MRD_KV_I64 == MRD_ITEM_I64 && (int) MRD_KV_U64 == MRD_ITEM_U64 &&
                   (int) MRD_KV_F64 == MRD_ITEM_F64 && (int) MRD_KV_BOOL == MRD_ITEM_BOOL &&
                   (int) MRD_KV_TEXT == MRD_ITEM_TEXT,
               "argument types are those of the ring");

const char *
mrd_error_text(int code)
{
    return mrd_err_text((mrd_err) code);
}

const char *
mrd_last_error(void)
{
    mrd_thread *thread = mrd_thread_seen();

    return thread == NULL ? "" : thread->error;
}

const char *
mrd_version(void)
{
    return MRD_RELEASE;
}

void
mrd_free(void *p)
{
    free(p);
}

/* ---- names and arguments of annotations ------------------------------------------------------ */

uint32_t
mrd_api_name(const char *text)
{
    static uint32_t fallback;
    uint32_t id;

    if (text == NULL)
        text = "(no name)";
    if ((id = mrd_names_add(text)) != 0)
        return id;
    if ((id = __atomic_load_n(&fallback, __ATOMIC_RELAXED)) == 0) {
        id = mrd_names_reserve_fallback();
        __atomic_store_n(&fallback, id, __ATOMIC_RELAXED);
    }
    return id;
}

uint32_t
mrd_api_name_once(const char *text, uint32_t *keep)
{
    uint32_t id = mrd_api_name(text);

    if (id != MRD_RING_NAMES_MAX - 1 || mrd_names_full())
        __atomic_store_n(keep, id, __ATOMIC_RELAXED);
    return id;
}

static inline uint32_t
site_id(mrd_site *site)
{
    uint32_t id = __atomic_load_n(&site->id, __ATOMIC_RELAXED);

    return __builtin_expect(id == 0, 0) ? mrd_api_name_once(site->text, &site->id) : id;
}

/* Converts arguments of meridian.h to the ring's form and returns their number. */
static size_t
api_args(const mrd_kv *args, size_t n, mrd_rec_arg to[MRD_API_ARGS_MAX])
{
    if (n > MRD_API_ARGS_MAX)
        n = MRD_API_ARGS_MAX;
    for (size_t i = 0; i < n; i++) {
        to[i].key = mrd_names_add(args[i].key == NULL ? "" : args[i].key);
        to[i].type = (uint8_t) args[i].type;
        to[i].key_text = args[i].key;
        if (args[i].type == MRD_KV_TEXT) {
            to[i].v.text.p = args[i].v.text == NULL ? "" : args[i].v.text;
            to[i].v.text.len = strlen(to[i].v.text.p);
        } else {
            to[i].v.u = args[i].v.u;
        }
    }
    return n;
}

void
mrd_api_finished(const mrd_rec_what *what, uint64_t ticks)
{
    uint32_t extra = mrd_extra_now();

    if (__builtin_expect(extra == 0, 1))
        return;
    if ((extra & MRD_EXTRA_STATS) != 0)
        mrd_stats_add(what->domain, what->name, ticks);
    if ((extra & MRD_EXTRA_DUMPS) != 0)
        mrd_dump_if_due();
}

mrd_domain *
mrd_domain_create(const char *name)
{
    static mrd_domain *domains;
    uint32_t id;
    mrd_domain *domain, *made;

    if (name == NULL || *name == '\0' || (id = mrd_rec_name(name)) == 0)
        return NULL;
    made = malloc(sizeof(*made));
    if (!mrd_proc_lock()) {
        free(made);
        return NULL;
    }
    for (domain = domains; domain != NULL && domain->id != id; domain = domain->next)
        ;
    if (domain == NULL && made != NULL) {
        *made = (mrd_domain){ id, domains };
        domain = domains = made;
        made = NULL;
    }
    mrd_proc_unlock();
    free(made);
    return domain;
}

/* ---- scopes: spans that begin and end in one thread ------------------------------------------ */

static inline void
open_scope(mrd_scope *scope, const mrd_domain *domain, uint32_t name)
{
    mrd_rec_scoped *scoped = (mrd_rec_scoped *) (void *) scope;

    scoped->what = (mrd_rec_what){ .name = name, .domain = mrd_domain_id(domain) };
    mrd_rec_scope_open(scoped);
}

void
mrd_scope_begin_site_(mrd_scope *scope, const mrd_domain *domain, mrd_site *site)
{
    open_scope(scope, domain, site_id(site));
}

void
mrd_scope_begin_text_(mrd_scope *scope, const mrd_domain *domain, const char *name)
{
    open_scope(scope, domain, mrd_api_name(name));
}

/* Ends a scope in the rarer cases: if statistics are on, if an argument is a text, or if a key is
 * new. */
static __attribute__((noinline)) void
scope_end_more(mrd_rec_scoped *scoped, const mrd_kv *args, size_t arg_count)
{
    mrd_rec_arg list[MRD_API_ARGS_MAX];

    if (mrd_extra_now() != 0 && scoped->pid == (uint32_t) mrd_proc_pid())
        mrd_api_finished(&scoped->what, mrd_rec_now() - scoped->start);
    arg_count = api_args(args, arg_count, list);
    mrd_rec_scope_end(scoped, list, arg_count);
}

/* Ends a scope that has only numbers as arguments. It is a separate function, so that a scope
 * without arguments needs no stack frame for them. */
static __attribute__((noinline)) void
scope_end_numbers(mrd_rec_scoped *scoped, const mrd_kv *args, size_t n)
{
    mrd_rec_numeric numbers[MRD_REC_NUMBERS_MAX];

    for (size_t i = 0; i < n; i++) {
        uint32_t key = args[i].key == NULL ? 0 : mrd_names_seen(args[i].key);

        if (__builtin_expect(key == 0 || args[i].type == MRD_KV_TEXT, 0)) {
            scope_end_more(scoped, args, n);
            return;
        }
        numbers[i] = (mrd_rec_numeric){ mrd_rec_numeric_item(key, args[i].type), args[i].v.u };
    }
    mrd_rec_scope_end_numbers(scoped, numbers, n);
}

void
mrd_scope_end_(mrd_scope *scope, const mrd_kv *args, size_t arg_count)
{
    mrd_rec_scoped *scoped = (mrd_rec_scoped *) (void *) scope;

    if (__builtin_expect(mrd_extra_now() != 0 || arg_count > MRD_REC_NUMBERS_MAX, 0))
        scope_end_more(scoped, args, arg_count);
    else if (__builtin_expect(arg_count == 0, 1))
        mrd_rec_scope_end(scoped, NULL, 0);
    else
        scope_end_numbers(scoped, args, arg_count);
}

void
mrd_push_(const mrd_domain *domain, const char *name)
{
    mrd_rec_what what = { .name = mrd_api_name(name), .domain = mrd_domain_id(domain) };

    (void) mrd_thread_begin(NULL, &what);
}

void
mrd_pop_(const mrd_kv *args, size_t arg_count)
{
    mrd_rec_arg list[MRD_API_ARGS_MAX];
    mrd_rec_what what;
    uint64_t ticks;

    arg_count = api_args(args, arg_count, list);
    if (mrd_thread_end(NULL, list, arg_count, &ticks, &what) && what.name != 0)
        mrd_api_finished(&what, ticks);
}

/* ---- spans, instants, flows ------------------------------------------------------------------ */

uint64_t
mrd_span_begin(const mrd_domain *domain, const char *name, const mrd_kv *args, size_t arg_count)
{
    mrd_rec_what what = { .domain = mrd_domain_id(domain) };
    mrd_rec_arg list[MRD_API_ARGS_MAX];

    if (!mrd_on())
        return 0;
    what.name = mrd_api_name(name);
    arg_count = api_args(args, arg_count, list);
    return mrd_rec_begin(&what, list, arg_count);
}

void
mrd_span_end(uint64_t id, const mrd_kv *args, size_t arg_count)
{
    mrd_rec_arg list[MRD_API_ARGS_MAX];

    if (id == 0)
        return;
    arg_count = api_args(args, arg_count, list);
    mrd_rec_end(id, list, arg_count);
}

void
mrd_span(const mrd_domain *domain, const char *name, uint64_t start, uint64_t end,
         const mrd_kv *args, size_t arg_count)
{
    mrd_rec_what what = { .domain = mrd_domain_id(domain) };
    mrd_rec_arg list[MRD_API_ARGS_MAX];

    if (!mrd_on())
        return;
    what.name = mrd_api_name(name);
    arg_count = api_args(args, arg_count, list);
    mrd_rec_span(&what, start, end, list, arg_count);
    mrd_api_finished(&what, end > start ? end - start : 0);
}

uint64_t
mrd_now(void)
{
    return mrd_rec_now();
}

int64_t
mrd_ticks_ns(uint64_t ticks)
{
    return mrd_rec_raw_ns(ticks);
}

void
mrd_instant_(const mrd_domain *domain, const char *name, mrd_scope_of scope, const mrd_kv *args,
             size_t arg_count)
{
    mrd_rec_what what = { .name = mrd_api_name(name), .domain = mrd_domain_id(domain) };
    mrd_rec_arg list[MRD_API_ARGS_MAX];

    what.flags = (uint8_t) (((unsigned) scope & 3u) << MRD_RECF_SHIFT);
    arg_count = api_args(args, arg_count, list);
    mrd_rec_instant(&what, 0, list, arg_count);
    mrd_api_finished(&what, UINT64_MAX);
}

void
mrd_instant_site_(const mrd_domain *domain, mrd_site *site, mrd_scope_of scope)
{
    mrd_rec_what what = { .name = site_id(site), .domain = mrd_domain_id(domain) };

    what.flags = (uint8_t) (((unsigned) scope & 3u) << MRD_RECF_SHIFT);
    mrd_rec_instant(&what, 0, NULL, 0);
    mrd_api_finished(&what, UINT64_MAX);
}

uint64_t
mrd_flow_new(void)
{
    static uint64_t last;

    return __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
}

void
mrd_flow_(const mrd_domain *domain, const char *name, uint64_t id, mrd_flow_point at)
{
    mrd_rec_what what = { .name = mrd_api_name(name), .domain = mrd_domain_id(domain) };

    what.flags = (uint8_t) (((unsigned) at & 3u) << MRD_RECF_SHIFT);
    mrd_rec_flow(&what, id);
}

void
mrd_memory_allocated_(const void *memory, uint64_t bytes)
{
    mrd_memory_add(MRD_MEMORY_HOST, MRD_MEMORY_PROGRAM, (uintptr_t) memory, bytes);
}

void
mrd_memory_freed_(const void *memory)
{
    mrd_memory_remove(MRD_MEMORY_PROGRAM, (uintptr_t) memory);
}

void
mrd_thread_name(const char *name)
{
    if (name != NULL && mrd_on())
        mrd_rec_thread_name(name);
}

uint64_t
mrd_lost(void)
{
    return mrd_proc_lost();
}
