#include "agent/hang/stacks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/guard/job_thread.h"
#include "agent/stack/stack.h"
#include "base/obj.h"

/* If reading a stack takes longer than this, the kernel blocks the thread. Otherwise the reading
 * ends after MRD_STACK_TIME. */
#define BLOCKED (2 * MRD_STACK_TIME)
/* maximum number of abandoned threads, which the kernel may block forever */
#define ABANDONED_MAX 4u

typedef enum { ASKED, READING, READY } stack_state;

typedef struct {
    uint64_t verdict;
    int64_t pid, start_ticks;
    stack_state state;
    char *text; /* text of the stack, "" if out of memory; NULL unless the state is READY */
} stack;

/* Input and result of the thread that reads stacks. The agent's loop does not access them while the
 * thread reads. */
typedef struct {
    char proc_root[256];
    int64_t pid, start_ticks, uid;
    mrd_buf text;
} stack_work;

struct mrd_stacks {
    stack v[MRD_STACKS_MAX];
    size_t n;
    mrd_job_thread *thread;
    stack_work *work;
    bool busy; /* the thread is reading a stack */
    unsigned abandoned;
    mrd_local_ns began;
};

/* Makes a thread for reading stacks, and the memory for its input and result. Returns false if out
 * of memory. */
static bool
make_thread(mrd_stacks *stacks, const char *proc_root)
{
    stacks->thread = mrd_job_thread_new();
    stacks->work = calloc(1, sizeof(*stacks->work));
    if (stacks->thread == NULL || stacks->work == NULL)
        return false;
    snprintf(stacks->work->proc_root, sizeof(stacks->work->proc_root), "%s", proc_root);
    return true;
}

/* Frees the thread and its data. If the kernel blocks the thread, the data is not freed, because
 * the thread still uses it. */
static void
free_thread(mrd_stacks *stacks)
{
    if (mrd_job_thread_free(stacks->thread) && stacks->work != NULL) {
        mrd_buf_fini(&stacks->work->text);
        free(stacks->work);
    }
    stacks->thread = NULL;
    stacks->work = NULL;
}

mrd_stacks *
mrd_stacks_new(const char *proc_root)
{
    mrd_stacks *stacks = calloc(1, sizeof(*stacks));

    if (stacks == NULL || !make_thread(stacks, proc_root != NULL ? proc_root : "/proc")) {
        mrd_stacks_free(stacks);
        return NULL;
    }
    return stacks;
}

void
mrd_stacks_free(mrd_stacks *stacks)
{
    if (stacks == NULL)
        return;
    for (size_t i = 0; i < stacks->n; i++)
        free(stacks->v[i].text);
    free_thread(stacks);
    free(stacks);
}

static bool
is_for(const stack *s, const Mrd__StackRequest *request)
{
    return s->verdict == request->verdict && s->pid == request->process_id &&
           s->start_ticks == request->start_ticks;
}

static void
answer(stack *s, const char *text)
{
    s->text = mrd_str_dup(mrd_str_of(text));
    s->state = READY;
}

void
mrd_stacks_ask(mrd_stacks *stacks, Mrd__StackRequest *const *requests, size_t n)
{
    size_t kept = 0;

    for (size_t i = 0; i < stacks->n; i++) {
        bool wanted = false;

        for (size_t k = 0; k < n && !wanted; k++)
            wanted = is_for(&stacks->v[i], requests[k]);
        if (wanted)
            stacks->v[kept++] = stacks->v[i];
        else
            free(stacks->v[i].text);
    }
    stacks->n = kept;
    for (size_t k = 0; k < n; k++) {
        bool known = false;

        for (size_t i = 0; i < stacks->n && !known; i++)
            known = is_for(&stacks->v[i], requests[k]);
        if (known || stacks->n == MRD_STACKS_MAX)
            continue; /* no slot for this request; the aggregator repeats it */
        stacks->v[stacks->n] = (stack){ .verdict = requests[k]->verdict,
                                        .pid = requests[k]->process_id,
                                        .start_ticks = requests[k]->start_ticks };
        stacks->n++;
    }
}

static void
read_stack(void *arg)
{
    stack_work *work = arg;

    mrd_stack_read(work->proc_root, work->pid, work->start_ticks, work->uid, &work->text);
}

static void
begin(mrd_stacks *stacks, const mrd_ranks *ranks, stack *s, mrd_local_ns now)
{
    int64_t ticks, uid;

    if (!mrd_ranks_stands(ranks, s->pid, s->start_ticks, &ticks, &uid)) {
        answer(s, "not shown: the process went on, or ended\n");
        return;
    }
    stacks->work->pid = s->pid;
    stacks->work->start_ticks = ticks;
    stacks->work->uid = uid;
    if (!mrd_job_thread_post(stacks->thread, read_stack, stacks->work)) {
        answer(s, "not shown: no thread can be started\n");
        return;
    }
    s->state = READING;
    stacks->busy = true;
    stacks->began = now;
}

/* Abandons a blocked thread and starts a new one, so that one process does not prevent reading the
 * others. Returns false if too many threads are abandoned, or if out of memory. */
static bool
replace_thread(mrd_stacks *stacks)
{
    mrd_stacks old = { .thread = stacks->thread, .work = stacks->work };

    if (stacks->abandoned == ABANDONED_MAX)
        return false;
    if (!make_thread(stacks, old.work->proc_root)) {
        free_thread(stacks);
        stacks->thread = old.thread;
        stacks->work = old.work;
        return false;
    }
    stacks->abandoned++;
    free_thread(&old);
    return true;
}

bool
mrd_stacks_step(mrd_stacks *stacks, const mrd_ranks *ranks, mrd_local_ns now)
{
    bool ready = false, ended = stacks->busy && mrd_job_thread_take(stacks->thread);
    bool blocked = stacks->busy && !ended && mrd_local_diff(now, stacks->began) > BLOCKED;
    bool replaced = blocked && replace_thread(stacks);

    stacks->busy = stacks->busy && !ended && !replaced;
    for (size_t i = 0; i < stacks->n; i++) {
        stack *s = &stacks->v[i];

        if (s->state == READING && ended) {
            answer(s, mrd_buf_cstr(&stacks->work->text));
            ready = true;
        } else if (blocked && (s->state == READING || (s->state == ASKED && !replaced))) {
            answer(s, "not shown: the kernel does not answer about a process of this node\n");
            ready = true;
        } else if (s->state == ASKED && !stacks->busy) {
            begin(stacks, ranks, s, now);
        }
    }
    return ready;
}

size_t
mrd_stacks_get(const mrd_stacks *stacks, Mrd__Stack ret_v[MRD_STACKS_SENT])
{
    static char nothing[] = "";
    size_t n = 0;

    for (size_t i = 0; i < stacks->n && n < MRD_STACKS_SENT; i++) {
        const stack *s = &stacks->v[i];

        if (s->state != READY)
            continue;
        mrd__stack__init(&ret_v[n]);
        ret_v[n].verdict = s->verdict;
        ret_v[n].process_id = s->pid;
        ret_v[n].start_ticks = s->start_ticks;
        ret_v[n].text = s->text != NULL ? s->text : nothing;
        n++;
    }
    return n;
}
