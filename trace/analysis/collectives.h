/*
 * trace/analysis/collectives.h - decides which events are collectives. Such an event is the part
 * that one participant has in an operation of a group. The results are used to align clocks
 * (cli/view/align.h) and to find late workers. Three kinds of traces have collectives:
 *
 *   kernels  spans of communication on a device's track in a framework's trace
 *            (trace/analysis/device_work.h). Group, operation and size come from the arguments
 *            "Process Group Ranks", "Process Group Name", "Group size", "Collective name", "dtype"
 *            and "In msg nelems". The number of a collective comes from "Seq" or else "Comms Id".
 *            Without these arguments, the operation is the kernel's name, and all kernels belong to
 *            one group. This group has one member per rank of the job, if the trace contains the
 *            number of ranks.
 *   neuron   spans named cc_running. Their arguments are the group `gid`, the operation `op_id` and
 *            the `size`. All spans named cc_exec_barrier have the same group and operation.
 *
 *   host     spans of a communication library that runs on the host: "gloo:all_reduce",
 *            "mpi:barrier". They count only if the profile has no cores and no devices. Such a span
 *            lasts until the operation is complete at this rank. Nothing states its group, so it
 *            belongs to all ranks of the job. Several of them run at a time, and only their order
 *            distinguishes them. "Input type" and "Input Dims" are their type and size.
 *
 * MRD_CC_SYNC means that no participant leaves before the last one has entered: all-reduce,
 * all-gather, reduce-scatter, all-to-all, barrier. Broadcast, reduce, gather, scatter, send and
 * recv do not synchronise. Neither do an operation without data, and an all-to-all in
 * which two members exchange nothing ("In split size" contains a 0). MRD_CC_WRONG means that the
 * group's number of ranks differs from its size, or that the event's own rank is not in it. A
 * SendRecv kernel without a collective's name may be an all-to-all or two single messages. Only the
 * host's annotations ("nccl:all_to_all", "nccl:send") distinguish them, so annotations are reported
 * as well.
 *
 * The bytes of a kernel count for one participant: elements times the size of their type. For an
 * all-gather the participant's bytes are the received ones, for a reduce-scatter the contributed
 * ones (NVIDIA nccl-tests, doc/PERFORMANCE.md). The runtime's cc_running spans state neither bytes
 * nor the name of the operation, so their bandwidth is unknown.
 *
 * Groups and operations are hashes of texts. The hash has no random seed, so equal texts have equal
 * hashes in all traces of one program. Traces of different programs cannot be compared by these
 * hashes. Threads: belongs to one thread. The catalog must contain all names before the first call.
 * Source   names and arguments as PyTorch's Kineto and the Neuron runtime write them.
 */
#ifndef MRD_TRACE_COLLECTIVES_H
#define MRD_TRACE_COLLECTIVES_H

#include "trace/analysis/device_work.h"

typedef enum {
    MRD_CC_NO,    /* not a collective */
    MRD_CC_SYNC,  /* no participant leaves before all have entered */
    MRD_CC_LOOSE, /* a collective or a single message that does not synchronise its participants */
    MRD_CC_SENDRECV, /* SendRecv kernel without a collective's name */
    /* a barrier of the Neuron runtime (cc_exec_barrier); its arguments do not say which barrier it
     * is */
    MRD_CC_BARRIER,
    /* a collective with contradictory arguments, so nothing may be concluded from it */
    MRD_CC_WRONG,
    MRD_CC_SAYS_ALL,   /* host annotation: an all-to-all was called */
    MRD_CC_SAYS_SINGLE /* host annotation: a send or recv was called */
} mrd_cc_kind;

/* The share of an operation's bytes that one of the group's n members sends over its links. */
typedef enum {
    MRD_CC_TRAFFIC_UNKNOWN,
    MRD_CC_TRAFFIC_ONE,   /* all bytes: broadcast, reduce, single messages */
    MRD_CC_TRAFFIC_PARTS, /* (n - 1) / n: all-gather, reduce-scatter, all-to-all */
    MRD_CC_TRAFFIC_TWICE  /* 2 (n - 1) / n: all-reduce */
} mrd_cc_traffic;

typedef struct {
    uint64_t group, op; /* hashes of the names of the process group and the operation */
    /* size of the operation, in elements or bytes; -1 if unknown, or if it may differ between
     * participants */
    int64_t size;
    /* bytes of the participant's input or output, whichever is larger; 0 if unknown */
    uint64_t bytes;
    /* number of members of the process group, as the event states it; 0 if unknown */
    uint32_t members;
    bool world;  /* no event names the members of the group, so all ranks of the job are members */
    bool listed; /* the event names the ranks of all members */
    /* collectives of the group may run concurrently at one participant, and only their order
     * distinguishes them */
    bool ordered;
    /* Number of this collective in its group. Equal at all members, and different from the group's
     * other collectives. -1 if unknown. */
    int64_t seq;
    bool lasting; /* the argument with the number is of the class MRD_ARG_CLASS_LASTING */
    mrd_cc_traffic traffic;
} mrd_cc;

/* Returns how many bytes each of n members sends over its links in an operation. 0 if unknown. */
uint64_t mrd_cc_bus_bytes(mrd_cc_traffic traffic, uint64_t bytes, uint32_t n);

typedef struct mrd_collectives mrd_collectives;

/* Creates an object that recognises collectives. `rules` are the user's classification rules; they
 * are borrowed and may be NULL. Returns NULL if out of memory. */
mrd_collectives *mrd_collectives_new(const mrd_catalog *cat, const mrd_kernel_rules *rules);
void mrd_collectives_free(mrd_collectives *collectives); /* accepts NULL */
/*
 * Returns the kind of collective that an event is. Writes *ret_cc for SYNC, LOOSE, SENDRECV,
 * BARRIER and WRONG. Only finished spans are collectives.
 */
mrd_cc_kind mrd_collectives_see(mrd_collectives *collectives, const mrd_event *ev, mrd_cc *ret_cc);
/* Does the same as mrd_collectives_see. Also sets *ret_class: to the class of a span on a device's
 * track in a framework's trace, and to MRD_CLASS_COMPUTE for other spans. */
mrd_cc_kind mrd_collectives_see_class(mrd_collectives *collectives, const mrd_event *ev,
                                      mrd_kernel_class *ret_class, mrd_cc *ret_cc);
/* Returns the classifier of device work that `collectives` uses. Borrowed. */
mrd_device_work *mrd_collectives_work(const mrd_collectives *collectives);

/*
 * Stores readable names of the group and the operation of an event, for messages. *cc is the result
 * of mrd_collectives_see for this event. mrd_collectives_text finds the names by their hashes. Only
 * the first MRD_CC_TEXTS names are stored, and none if out of memory.
 */
#define MRD_CC_TEXTS 4096
void mrd_collectives_remember(mrd_collectives *collectives, const mrd_event *ev, const mrd_cc *cc);
/* Returns the name for a hash, such as "allreduce Float", "default_pg of ranks [0, 1]" or "gid 5".
 * Returns NULL if the name was not stored. `collectives` points to a mrd_collectives. It is a void
 * pointer so that this function can be a callback (timesync/collective/collective.h). Borrowed. */
const char *mrd_collectives_text(const void *collectives, uint64_t hash);

/* Returns true if this name alone shows that an event is a collective or the host's annotation of
 * one. Events with other names can be collectives only on a device's track in a framework's trace
 * (mrd_device_work_on). */
bool mrd_collectives_named(mrd_collectives *collectives, mrd_sid name);

/* Returns true if the profile's collectives ran on the host: it has such spans, and has neither
 * cores nor devices. */
bool mrd_collectives_on_host(const mrd_collectives *collectives);

/* Returns true if the profile's SendRecv kernels are all-to-alls. This holds if annotations of the
 * host name an all-to-all, and none names a single message. Looks at the names of the catalog once.
 * */
bool mrd_collectives_all_to_all(const mrd_catalog *cat);
/* Returns how many bytes each of n members sends over its links in this operation. */
uint64_t mrd_cc_bus_bytes(mrd_cc_traffic traffic, uint64_t bytes, uint32_t n);

#endif
