/*
 * agent/hang/stacks.h - reads the stacks that the aggregator requests after a verdict about a hang
 * (agent/stack/stack.h). A separate thread reads them, because the kernel may block.
 *
 * The aggregator repeats a request with each answer to a heartbeat until it has the text. The agent
 * reads a process once for each verdict, and keeps the text while it is requested.
 *
 * Limits   Only processes that make no progress according to mrd_ranks_stands are read.
 * Threads  The agent's loop, and the separate thread. Memory: MRD_STACKS_MAX texts.
 */
#ifndef MRD_AGENT_HANG_STACKS_H
#define MRD_AGENT_HANG_STACKS_H

#include "agent/hang/ranks.h"
#include "proto/meridian.pb-c.h"

#define MRD_STACKS_MAX  16u
#define MRD_STACKS_SENT 4u /* maximum number of stacks in one heartbeat */

typedef struct mrd_stacks mrd_stacks;

mrd_stacks *mrd_stacks_new(const char *proc_root); /* NULL if out of memory */
void mrd_stacks_free(mrd_stacks *stacks);          /* Ignores NULL. */
/* Replaces all requests for stacks by the requests in the aggregator's last answer. */
void mrd_stacks_ask(mrd_stacks *stacks, Mrd__StackRequest *const *requests, size_t n);
/* Starts to read the next requested stack, or handles a finished one. If the kernel blocks a read,
 * its thread is abandoned and a new one is started, up to a limit. Returns true if another text is
 * ready to be sent. */
bool mrd_stacks_step(mrd_stacks *stacks, const mrd_ranks *ranks, mrd_local_ns now);
/* Stores the texts of stacks that are ready in ret_v. Returns their number. The texts are valid
 * until the next call of another function. */
size_t mrd_stacks_get(const mrd_stacks *stacks, Mrd__Stack ret_v[MRD_STACKS_SENT]);

#endif
