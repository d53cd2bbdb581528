/*
 * agent/stack/python.h - the Python frames of the threads of another process, from its memory.
 *
 * Known are CPython 3.11, 3.12 and 3.13 with a global lock. The positions of members are fixed
 * within such a release; 3.13 tells them itself. All contents are untrusted: each list has a limit,
 * and whatever does not look like a frame ends a list.
 */
#ifndef MRD_AGENT_STACK_PYTHON_H
#define MRD_AGENT_STACK_PYTHON_H

#include "agent/stack/image.h"
#include "base/buf.h"

/* The interpreter of a process. */
typedef struct {
    bool found;       /* the process has CPython */
    uint64_t runtime; /* address of _PyRuntime; 0 if its release is not known */
    uint32_t version; /* such as 0x030b07f0 for 3.11.7 */
    /* positions of members */
    uint64_t interpreters, next_interpreter, threads, next_thread, thread_id, frame;
    uint64_t c_frame; /* of the frame in the object that `frame` refers to; UINT64_MAX without it */
    uint64_t previous, instruction, code, owner;           /* in a frame */
    uint64_t filename, qualname, lines, first_line, bytes; /* in a code object */
    uint64_t ascii, wide; /* the characters of a str, if all are ASCII, and otherwise */
} mrd_python;

void mrd_python_find(mrd_space *space, mrd_python *ret_python);
/* Appends the frames of the thread with this id (in the pid namespace of the process), innermost
 * first, as lines "  FUNCTION, FILE:LINE". Returns their number. */
unsigned mrd_python_frames(const mrd_python *python, const mrd_space *space, int64_t thread_id,
                           mrd_buf *to);

#endif
