/*
 * agent/guard/job_thread.h - a thread that runs one task at a time. Use it for work on files of
 * workloads, because many files or a hanging file system would block the agent's loop.
 *
 * The caller of mrd_job_thread_post must not use the task's data until mrd_job_thread_take returns
 * true. The thread starts with the first task, and has the rights (user, capabilities) that the
 * caller has at that time. Only one thread may call these functions.
 */
#ifndef MRD_AGENT_GUARD_JOB_THREAD_H
#define MRD_AGENT_GUARD_JOB_THREAD_H

#include <stdbool.h>

typedef struct mrd_job_thread mrd_job_thread;

mrd_job_thread *mrd_job_thread_new(void); /* Returns NULL if out of memory. */
/* Ends the thread and frees it. Ignores NULL. Returns false if a task hangs. The thread is then
 * abandoned, and the caller must not free the task's data. */
bool mrd_job_thread_free(mrd_job_thread *thread);
/* Starts a task. Only one task may run at a time. Returns false if no thread could be created. */
bool mrd_job_thread_post(mrd_job_thread *thread, void (*run)(void *arg), void *arg);
/* Returns true if the task is done. Returns true only once for each task. */
bool mrd_job_thread_take(mrd_job_thread *thread);
/* Returns a descriptor that is readable when a task is done; -1 if the thread was not started. */
int mrd_job_thread_fd(const mrd_job_thread *thread);

#endif
