/*
 * trace/analysis/collectives.h - which events are collectives: one participant's part in an operation of a
 * group, in traces of two worlds. For aligning clocks (cli/align.h) and for who-was-late reports.
 *
 *   kernels  spans on a device's line of a framework's trace that communicate
 *            (trace/analysis/device_work.h). Group, operation and
 *            size are the arguments "Process Group Ranks", "Process Group Name", "Group size",
 *            "Collective name", "dtype" and "In msg nelems" where the trace has them; else the
 *            operation is the kernel's name and all are one group, of as many members as the job has
 *            ranks where the trace says so
 *   neuron   cc_running spans: group is `gid`, operation `op_id`, size `size`; cc_exec_barrier
 *            spans: one group, one operation
 *
 * Sync means: no participant leaves before the last has entered (all-reduce, all-gather,
 * reduce-scatter, all-to-all, barrier). Broadcast, reduce, gather, scatter, send and recv are not.
 * Nor is an operation on nothing, nor an all-to-all in which somebody exchanges nothing with somebody
 * ("In split size" with a 0). WRONG: the group's ranks are not as many as its size, or its own
 * process's rank is not one of them.
 * A bare SendRecv kernel may be an all-to-all or two single messages: only the host's annotations
 * ("nccl:all_to_all", "nccl:send") tell, so they are reported as well.
 *
 * Bytes of a kernel are elements times the size of their type, of one participant: an all-gather's are
 * what it receives, a reduce-scatter's what it hands in (NVIDIA nccl-tests, doc/PERFORMANCE.md). A
 * cc_running span says neither its bytes nor its operation today.
 *
 * Hashes are equal for equal text over files and runs of one program; they are no identity across
 * programs. Threads: belongs to one thread. The catalog must hold all names before the first call.
 * Source   names and arguments as PyTorch's Kineto and the Neuron runtime write them.
 */
#ifndef MRD_TRACE_COLLECTIVES_H
#define MRD_TRACE_COLLECTIVES_H

#include "trace/analysis/device_work.h"

typedef enum {
    MRD_CC_NO,         /* not a collective */
    MRD_CC_SYNC,       /* leaves after all have entered */
    MRD_CC_LOOSE,      /* a collective or message without that promise */
    MRD_CC_SENDRECV,   /* SendRecv kernel without a collective's name */
    MRD_CC_BARRIER,    /* neuron cc_exec_barrier: sync, but all alike */
    MRD_CC_WRONG,      /* a collective that contradicts itself: nothing may be concluded from it */
    MRD_CC_SAYS_ALL,   /* host annotation: an all-to-all was called */
    MRD_CC_SAYS_SINGLE /* host annotation: a send or recv was called */
} mrd_cc_kind;

/* What one participant moves over its links, of the operation's bytes, among n members. */
typedef enum {
    MRD_CC_TRAFFIC_UNKNOWN,
    MRD_CC_TRAFFIC_ONE,   /* all of it: broadcast, reduce, single messages */
    MRD_CC_TRAFFIC_PARTS, /* (n - 1) / n: all-gather, reduce-scatter, all-to-all */
    MRD_CC_TRAFFIC_TWICE  /* 2 (n - 1) / n: all-reduce */
} mrd_cc_traffic;

typedef struct {
    uint64_t group, op; /* hashes */
    int64_t size;       /* elements or bytes; -1 unknown, or not the same at all participants */
    uint64_t bytes;     /* the larger of what goes in and what comes out; 0 unknown */
    uint32_t members;   /* of the group, as the event says; 0 unknown */
    bool world;         /* no event says who is in the group: it is taken as all ranks of the job */
    mrd_cc_traffic traffic;
} mrd_cc;

typedef struct mrd_collectives mrd_collectives;

/* The rules of a user are borrowed and may be NULL. NULL: out of memory. */
mrd_collectives *mrd_collectives_new(const mrd_catalog *cat, const mrd_kernel_rules *rules);
void mrd_collectives_free(mrd_collectives *c); /* NULL is fine */
/*
 * What this event is. *ret_cc is written for SYNC, LOOSE, SENDRECV, BARRIER and WRONG. Only finished
 * spans are collectives.
 */
mrd_cc_kind mrd_collectives_see(mrd_collectives *c, const mrd_event *ev, mrd_cc *ret_cc);
/* As mrd_collectives_see, and writes the class of a span on a framework's device to *ret_class; COMPUTE for other
 * spans. */
mrd_cc_kind mrd_collectives_see_class(mrd_collectives *c, const mrd_event *ev,
                                      mrd_kernel_class *ret_class, mrd_cc *ret_cc);
/* Returns the classes of work on devices that c uses. Borrowed. */
mrd_device_work *mrd_collectives_work(const mrd_collectives *c);

/*
 * Keeps what people call the group and the operation of an event that see has told, for messages: mrd_collectives_text finds it by
 * their hashes. Of the first MRD_CC_TEXTS of them, as far as there is memory.
 */
#define MRD_CC_TEXTS 4096
void mrd_collectives_remember(mrd_collectives *c, const mrd_event *ev, const mrd_cc *cc);
/* "allreduce Float", "default_pg of ranks [0, 1]", "gid 5"; NULL: not kept. collectives is a mrd_collectives, as a callback has it
 * (timesync/collective.h). Borrowed. */
const char *mrd_collectives_text(const void *collectives, uint64_t hash);

/* Returns false if an event of this name is a collective only on a device's line of a framework's trace
 * (mrd_device_work_on). */
bool mrd_collectives_named(mrd_collectives *c, mrd_sid name);

/* Whether the profile's SendRecv kernels are all-to-alls: the host says so somewhere, and nowhere
 * that a single message was sent. Looks at the names of the catalog once. */
bool mrd_collectives_all_to_all(const mrd_catalog *cat);

#endif
