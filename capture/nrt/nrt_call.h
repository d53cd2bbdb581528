/*
 * capture/nrt/nrt_call.h - times, forwards and records one call of the runtime through a hook.
 * Internal, for the files with hooks.
 *
 * Some builds of the runtime call their own functions through the global symbol scope and so reach
 * the hooks. Such calls are forwarded and not recorded. To detect them, each thread counts its
 * active hooks. If the runtime calls a function of the program, the calls of that function are
 * recorded as calls of the program (mrd_nrt_program_begin). Calls that the runtime makes while this
 * library itself uses the runtime are not recorded (mrd_nrt_ours_begin). The program may leave a
 * hook by siglongjmp or an exception. The hook then stops counting as active when its thread makes
 * a call from higher up in the stack. If the runtime lacks a function, its hook returns
 * NRT_FAILURE, and a notice names the function once.
 */
#ifndef MRD_CAPTURE_NRT_NRT_CALL_H
#define MRD_CAPTURE_NRT_NRT_CALL_H

#include <errno.h>

#include "capture/api/ops.h"
#include "capture/nrt/nrt_hook.h"

#define MRD_NRT_ARGS_MAX 8 /* maximum number of arguments of a call's span, including the status */

/* The frame address of a hook. Hooks called from the same frame of the program have the same
 * address. A nested call has a lower address. */
#define HERE __builtin_frame_address(0)

typedef struct {
    mrd_rec_scoped scope;
    /* the call as an operation that the ranks of a job enter together, if it is one */
    mrd_rec_op op;
    unsigned before; /* number of active hooks of the thread before this one */
    bool on;
} mrd_nrt_call;

void mrd_nrt_enter(mrd_nrt_call *call, mrd_nrt_fn fn, const void *here);
/* Call it after mrd_nrt_enter if the ranks of a job enter this call together
 * (capture/api/ops.h). */
void mrd_nrt_together(mrd_nrt_call *call, mrd_nrt_fn fn, uint64_t group, uint64_t bytes);
void mrd_nrt_leave(mrd_nrt_call *call, NRT_STATUS status, const mrd_rec_arg *extra, size_t n);
/* Records a notice once that the runtime lacks the function. Returns NRT_FAILURE for the hook's
 * caller. */
NRT_STATUS mrd_nrt_missing(mrd_nrt_fn fn);
/* Returns true if no other hook of this thread is active. Only such a call may record models,
 * notices and other data besides its span. */
bool mrd_nrt_outermost(const void *here);
/* Returns true if the active call comes from the runtime itself. Call it between mrd_nrt_enter and
 * mrd_nrt_leave. */
bool mrd_nrt_nested(void);
/* Call these functions before and after the library itself calls the runtime in a thread that is
 * not inside a hook. Pairs may be nested. */
void mrd_nrt_ours_begin(void);
void mrd_nrt_ours_end(void);
/* Call these functions before and after a callback of the program that the runtime has called.
 * `end` takes the result of `begin`. */
typedef struct {
    unsigned depth;
    uintptr_t outermost;
} mrd_nrt_aside;
mrd_nrt_aside mrd_nrt_program_begin(void);
void mrd_nrt_program_end(mrd_nrt_aside before);

#define U(key, v) mrd_nrt_u64(MRD_NRT_KEY_##key, (uint64_t) (v))
#define I(key, v) mrd_nrt_i64(MRD_NRT_KEY_##key, (int64_t) (v))
#define T(key, v) mrd_nrt_text(MRD_NRT_KEY_##key, (v))

/* Times the call in the expression `forward`, which calls the function `real`, and records the
 * arguments that follow `forward`. They are evaluated after the call, and only if the call is
 * recorded. */
#define TIMED(fn, forward, ...)                                                                    \
    TIMED_SOME(fn, forward, sizeof(extra) / sizeof(extra[0]), __VA_ARGS__)

/* Like TIMED, but records only the first `n` arguments. `n` is also evaluated after the call. */
#define TIMED_SOME(fn, forward, n, ...)                                                            \
    do {                                                                                           \
        __typeof__(fn) *real = MRD_NRT_REAL(fn);                                                   \
        mrd_nrt_call c;                                                                            \
        if (real == NULL)                                                                          \
            return mrd_nrt_missing(MRD_NRT_##fn);                                                  \
        mrd_nrt_enter(&c, MRD_NRT_##fn, HERE);                                                     \
        status = (forward);                                                                        \
        if (c.on) {                                                                                \
            const mrd_rec_arg extra[] = { __VA_ARGS__ };                                           \
            mrd_nrt_leave(&c, status, extra, n);                                                   \
        } else                                                                                     \
            mrd_nrt_leave(&c, status, NULL, 0);                                                    \
    } while (0)

/* Used as the argument `forward` of TIMED for a call that the ranks of a job enter together. */
#define TOGETHER(fn, group, bytes, forward)                                                        \
    (mrd_nrt_together(&c, MRD_NRT_##fn, group, bytes), (forward))

/* Defines a hook that times, forwards and records its call, and does nothing else. */
#define PLAIN(fn, params, args, ...)                                                               \
    NRT_STATUS fn params                                                                           \
    {                                                                                              \
        NRT_STATUS status;                                                                         \
        TIMED(fn, real args, __VA_ARGS__);                                                         \
        return status;                                                                             \
    }

#endif
