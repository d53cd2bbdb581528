/*
 * agent/worker.h - a thread that does one piece of work at a time: what touches files of workloads,
 * which may be on a file system that hangs, or so many that the loop must not wait for them.
 *
 * Who posts hands over what the work touches until mrd_worker_take says that it is done. The thread
 * begins with the first post, with the rights that the poster has then.
 * Threads: the caller's, and its own.
 */
#ifndef MRD_AGENT_WORKER_H
#define MRD_AGENT_WORKER_H

#include <stdbool.h>

typedef struct mrd_worker mrd_worker;

mrd_worker *mrd_worker_new(void); /* NULL: no memory */
/* False: it hangs in a piece of work and was abandoned: what that touches must stay. NULL is fine.
 */
bool mrd_worker_free(mrd_worker *w);
/* One at a time. False: no thread could be made. */
bool mrd_worker_post(mrd_worker *w, void (*run)(void *arg), void *arg);
bool mrd_worker_busy(const mrd_worker *w); /* posted and not taken */
/* True once for each post, when it is done. */
bool mrd_worker_take(mrd_worker *w);
int mrd_worker_fd(const mrd_worker *w); /* readable when there is something to take; -1 */

#endif
