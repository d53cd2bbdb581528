/*
 * agent/stack/stack.h - writes where a process waits, as text for people: the system call, the
 * native functions and the Python frames of each thread.
 *
 * The process is not stopped and receives no signal. For a running thread there are no native
 * functions, because the kernel shows a thread's registers only while it is in a system call.
 */
#ifndef MRD_AGENT_STACK_STACK_H
#define MRD_AGENT_STACK_STACK_H

#include "base/buf.h"
#include "base/clock.h"

#define MRD_STACK_TEXT 8000u /* maximum length of the text of one process, in bytes */
#define MRD_STACK_TIME (2 * MRD_SEC)

/* Replaces *to by the stacks of a process of user `uid`, or by one line with the reason why there
 * are none. start_ticks is the start time of the process; -1 accepts any. If the kernel blocks, the
 * function takes longer than MRD_STACK_TIME, so call it in a separate thread. */
void mrd_stack_read(const char *proc_root, int64_t pid, int64_t start_ticks, int64_t uid,
                    mrd_buf *to);

#endif
