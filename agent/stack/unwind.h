/*
 * agent/stack/unwind.h - finds the callers of a function that waits in a system call. Uses the call
 * frame information (.eh_frame) in the memory of the process.
 *
 * For a thread in a system call, the kernel shows only the stack pointer and the program counter.
 * Some frames need the value of another register. The list of callers ends there, unless an inner
 * function saved that register on the stack.
 */
#ifndef MRD_AGENT_STACK_UNWIND_H
#define MRD_AGENT_STACK_UNWIND_H

#include "agent/stack/image.h"

#define MRD_UNWIND_REGS 17 /* the registers of x86-64; the last one is the return address */

typedef struct {
    uint64_t pc, regs[MRD_UNWIND_REGS];
    uint32_t known; /* bit i is set if regs[i] has the value of register i */
} mrd_unwind;

void mrd_unwind_begin(mrd_unwind *unwind, uint64_t pc, uint64_t sp);
/* Goes to the calling function. `inner` is true for the innermost function, where the thread waits.
 * Returns false after the outermost function, or if the caller cannot be found. */
bool mrd_unwind_next(mrd_unwind *unwind, mrd_space *space, bool inner);

#endif
