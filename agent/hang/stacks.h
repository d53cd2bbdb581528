/*
 * agent/hang/stacks.h - reads the stacks that the aggregator requests after a verdict
 * (agent/stack/stack.h), in a thread of its own, because the kernel may block.
 *
 * The aggregator repeats a request with each answer to a heartbeat until it has the text. The agent
 * reads a process once for a verdict, and keeps the text while it is requested.
 *
 * Only  processes that the hang watch of this agent sees stand still (mrd_ranks_stands).
 * Threads  the agent's loop, and its own. Memory: MRD_STACKS_MAX texts.
 */
#ifndef MRD_AGENT_HANG_STACKS_H
#define MRD_AGENT_HANG_STACKS_H

#include "agent/hang/ranks.h"
#include "proto/meridian.pb-c.h"

#define MRD_STACKS_MAX  16u
#define MRD_STACKS_SENT 4u /* in one heartbeat */

typedef struct mrd_stacks mrd_stacks;

mrd_stacks *mrd_stacks_new(const char *proc_root); /* NULL if out of memory */
void mrd_stacks_free(mrd_stacks *stacks);          /* NULL is fine. */
/* Replaces the requests by those of the aggregator's last answer. */
void mrd_stacks_ask(mrd_stacks *stacks, const mrd_ranks *ranks, Mrd__StackRequest *const *requests,
                    size_t n);
/* Starts and ends the reading. Returns true if a text became ready to be sent. */
bool mrd_stacks_step(mrd_stacks *stacks, mrd_local_ns now);
/* Fills in messages with texts that are ready. Returns their number. Texts are borrowed until the
 * next call of another function. */
size_t mrd_stacks_get(const mrd_stacks *stacks, Mrd__Stack ret_v[MRD_STACKS_SENT]);

#endif
