/*
 * agent/stack/python.h - finds the Python frames of the threads of another process in its memory.
 *
 * CPython 3.11, 3.12 and 3.13 with a global lock are supported. The offsets of struct members do
 * not change within such a release. CPython 3.13 stores them in its own memory, where they are
 * read. All contents are untrusted: each list has a limit, and a list ends at anything that does
 * not look like a frame.
 */
#ifndef MRD_AGENT_STACK_PYTHON_H
#define MRD_AGENT_STACK_PYTHON_H

#include "agent/stack/image.h"
#include "base/buf.h"

/* The Python interpreter of a process: where its structs are, and the offsets of their members. */
typedef struct {
    bool found;       /* the process has CPython */
    uint64_t runtime; /* address of _PyRuntime; 0 if the release is not supported */
    uint32_t version; /* such as 0x030b07f0 for 3.11.7 */
    /* offsets of members in CPython's structs, in bytes */
    uint64_t interpreters, next_interpreter, threads, next_thread, thread_id, frame;
    /* offset of the innermost frame in the object that `frame` points to; UINT64_MAX if `frame`
     * points to the frame itself */
    uint64_t c_frame;
    uint64_t previous, instruction, code, owner;           /* offsets in a frame */
    uint64_t filename, qualname, lines, first_line, bytes; /* offsets in a code object */
    /* addresses of the types of code, str and bytes objects */
    uint64_t code_type, str_type, bytes_type;
    /* offset of the characters in a str object: `ascii` if all are ASCII, otherwise `wide` */
    uint64_t ascii, wide;
} mrd_python;

void mrd_python_find(mrd_space *space, mrd_python *ret_python);
/* Appends the frames of one thread, innermost first, as lines " FUNCTION, FILE:LINE". thread_id is
 * the thread's id in the pid namespace of the process. Returns the number of frames. */
unsigned mrd_python_frames(const mrd_python *python, const mrd_space *space, int64_t thread_id,
                           mrd_buf *to);

#endif
