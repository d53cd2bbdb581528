/*
 * agent/job_thread.h - a thread that does one task at a time: what touches files of workloads,
 * which may be on a file system that hangs, or so many that the loop must not wait for them.
 *
 * Who posts hands over what the work touches until mrd_job_thread_take says that it is done. The thread
 * begins with the first post, with the rights that the poster has then.
 * Threads: the caller's, and its own.
 */
#ifndef MRD_AGENT_JOB_THREAD_H
#define MRD_AGENT_JOB_THREAD_H

#include <stdbool.h>

typedef struct mrd_job_thread mrd_job_thread;

mrd_job_thread *mrd_job_thread_new(void); /* NULL: no memory */
/* False: it hangs in a task and was abandoned: what that touches must stay. NULL is fine.
 */
bool mrd_job_thread_free(mrd_job_thread *w);
/* One at a time. False: no thread could be made. */
bool mrd_job_thread_post(mrd_job_thread *w, void (*run)(void *arg), void *arg);
/* True once for each post, when it is done. */
bool mrd_job_thread_take(mrd_job_thread *w);
int mrd_job_thread_fd(const mrd_job_thread *w); /* readable when there is something to take; -1 */

#endif
