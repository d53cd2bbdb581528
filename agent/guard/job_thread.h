/*
 * agent/guard/job_thread.h - a thread that runs one task at a time. It is for tasks on files of
 * workloads, which may be on a file system that hangs, or too many for the loop to wait for.
 *
 * The caller of post must not use the task's data until mrd_job_thread_take reports the end. The
 * thread starts with the first post, with the caller's rights at that time. Threads: the caller's,
 * and its own.
 */
#ifndef MRD_AGENT_GUARD_JOB_THREAD_H
#define MRD_AGENT_GUARD_JOB_THREAD_H

#include <stdbool.h>

typedef struct mrd_job_thread mrd_job_thread;

mrd_job_thread *mrd_job_thread_new(void); /* Returns NULL if out of memory. */
/* Returns false if a task hangs and was abandoned, so that its data must stay. NULL is fine. */
bool mrd_job_thread_free(mrd_job_thread *thread);
/* Starts a task. Only one may run at a time. Returns false if no thread could be created. */
bool mrd_job_thread_post(mrd_job_thread *thread, void (*run)(void *arg), void *arg);
/* Returns true once for each task, when it is done. */
bool mrd_job_thread_take(mrd_job_thread *thread);
/* Returns a descriptor that is readable when a task is done; -1 if there is none. */
int mrd_job_thread_fd(const mrd_job_thread *thread);

#endif
