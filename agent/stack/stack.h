/*
 * agent/stack/stack.h - writes where a process waits, as text for people: the system call, the
 * native functions and the Python frames of each thread.
 *
 * The process is not stopped and receives no signal. A thread that runs has no native functions,
 * because the kernel tells its registers only in a system call.
 */
#ifndef MRD_AGENT_STACK_STACK_H
#define MRD_AGENT_STACK_STACK_H

#include "base/buf.h"
#include "base/clock.h"

#define MRD_STACK_TEXT 8000u /* longest text of a process, in bytes */
#define MRD_STACK_TIME (2 * MRD_SEC)

/* Replaces *to by the stacks of a process of user `uid`, or by one line with the reason why there
 * are none. A start_ticks of -1 stands for any. It may block for longer than MRD_STACK_TIME if the
 * kernel does, so call it in a thread of its own. */
void mrd_stack_read(const char *proc_root, int64_t pid, int64_t start_ticks, int64_t uid,
                    mrd_buf *to);

#endif
