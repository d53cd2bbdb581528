#include "capture/nrt/nrt_call.h"

#include <signal.h>
#include <string.h>

/* The number of active hooks of this thread, and the frame address of the outermost hook. */
static _Thread_local unsigned depth __attribute__((tls_model("initial-exec")));
static _Thread_local uintptr_t outermost __attribute__((tls_model("initial-exec")));

/* ---- arguments of a recorded call ------------------------------------------------------------ */

static const char *const key_texts[MRD_NRT_KEY_COUNT] = {
#define KEY_TEXT(name) #name,
    MRD_NRT_KEYS(KEY_TEXT)
#undef KEY_TEXT
};

/* Returns the id of a name. Adds the name at its first use. Two concurrent threads get the same
 * id. */
static uint32_t
id_of(_Atomic uint32_t *id, const char *text)
{
    uint32_t v = atomic_load_explicit(id, memory_order_relaxed);

    if (__builtin_expect(v == 0, 0)) {
        v = mrd_rec_name(text);
        atomic_store_explicit(id, v, memory_order_relaxed);
    }
    return v;
}

static mrd_rec_arg
arg_of(mrd_nrt_key key, mrd_item_type type)
{
    static _Atomic uint32_t ids[MRD_NRT_KEY_COUNT];

    return (mrd_rec_arg){ .key = id_of(&ids[key], key_texts[key]),
                          .type = (uint8_t) type,
                          .key_text = key_texts[key] };
}

mrd_rec_arg
mrd_nrt_u64(mrd_nrt_key key, uint64_t v)
{
    mrd_rec_arg arg = arg_of(key, MRD_ITEM_U64);

    arg.v.u = v;
    return arg;
}

mrd_rec_arg
mrd_nrt_i64(mrd_nrt_key key, int64_t v)
{
    mrd_rec_arg arg = arg_of(key, MRD_ITEM_I64);

    arg.v.i = v;
    return arg;
}

mrd_rec_arg
mrd_nrt_text(mrd_nrt_key key, const char *v)
{
    mrd_rec_arg arg = arg_of(key, MRD_ITEM_TEXT);

    arg.v.text.p = v == NULL ? "" : v;
    arg.v.text.len = strlen(arg.v.text.p);
    return arg;
}

/* ---- detecting hooks inside of other hooks --------------------------------------------- */

/* Returns true if the program left the active hooks without a return, by siglongjmp or an
 * exception. The stack has then shrunk: `here` is not below the frame of the outermost hook. A
 * signal handler on its own stack may have any address, so this stack is not compared. */
static bool
left_behind(const void *here)
{
    stack_t stack;

    return (uintptr_t) here >= outermost &&
           (sigaltstack(NULL, &stack) != 0 || (stack.ss_flags & SS_ONSTACK) == 0);
}

bool
mrd_nrt_outermost(const void *here)
{
    return depth == 0 || left_behind(here);
}

bool
mrd_nrt_nested(void)
{
    return depth > 1;
}

void
mrd_nrt_ours_begin(void)
{
    if (depth++ == 0)
        outermost = UINTPTR_MAX;
}

void
mrd_nrt_ours_end(void)
{
    depth--;
}

mrd_nrt_aside
mrd_nrt_program_begin(void)
{
    mrd_nrt_aside before = { depth, outermost };

    depth = 0;
    return before;
}

void
mrd_nrt_program_end(mrd_nrt_aside before)
{
    depth = before.depth;
    outermost = before.outermost;
}

/* ---- recording one call ---------------------------------------------------------------------- */

static uint32_t
fn_id(mrd_nrt_fn fn)
{
    static _Atomic uint32_t names[MRD_NRT_COUNT];

    return id_of(&names[fn], mrd_nrt_name(fn));
}

void
mrd_nrt_enter(mrd_nrt_call *call, mrd_nrt_fn fn, const void *here)
{
    static _Atomic uint32_t domain;
    int saved = errno;

    call->op.index = 0;

    call->before = mrd_nrt_outermost(here) ? 0 : depth;
    depth = call->before + 1;
    if (call->before == 0)
        outermost = (uintptr_t) here;
    call->on = call->before == 0 && mrd_rec_on(MRD_CAP_API);
    if (call->on) {
        mrd_rec_what what = { .name = fn_id(fn),
                              .name_text = mrd_nrt_name(fn),
                              .domain = id_of(&domain, "nrt"),
                              .flags = MRD_RECF_API };

        mrd_rec_scope_begin(&call->scope, &what);
    }
    errno = saved;
}

void
mrd_nrt_together(mrd_nrt_call *call, mrd_nrt_fn fn, uint64_t group, uint64_t bytes)
{
    int saved = errno;

    if (call->before == 0 && mrd_rec_possible())
        mrd_rec_op_begin(&call->op, fn_id(fn), group, bytes);
    errno = saved;
}

void
mrd_nrt_leave(mrd_nrt_call *call, NRT_STATUS status, const mrd_rec_arg *extra, size_t n)
{
    mrd_rec_arg args[MRD_NRT_ARGS_MAX];
    int saved = errno;

    depth = call->before;
    mrd_rec_op_end(&call->op, status != NRT_SUCCESS);
    if (call->on) {
        for (size_t i = 0; i < n; i++)
            args[i] = extra[i];
        /* the span of a successful call has no status argument, because success is the usual
         * case */
        if (status != NRT_SUCCESS) {
            args[n++] = mrd_nrt_i64(MRD_NRT_KEY_status, status);
            args[n++] = mrd_nrt_text(MRD_NRT_KEY_status_text, mrd_nrt_status_name(status));
        }
        mrd_rec_scope_end(&call->scope, args, n);
    }
    errno = saved;
}

NRT_STATUS
mrd_nrt_missing(mrd_nrt_fn fn)
{
    static _Atomic bool told[MRD_NRT_COUNT];
    mrd_rec_arg arg = mrd_nrt_text(MRD_NRT_KEY_function, mrd_nrt_name(fn));

    if (!atomic_exchange(&told[fn], true))
        mrd_rec_notice("the Neuron runtime has no such function", &arg, 1);
    return NRT_FAILURE;
}
