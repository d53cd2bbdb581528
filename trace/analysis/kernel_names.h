/*
 * trace/analysis/kernel_names.h - classifies work by its name, with a table of patterns and rules
 * from a file of the user.
 *
 * Form     Names and patterns are compared in a common form: words in lower case, joined by `_`.
 *          Template arguments and parameters of C++ functions are dropped, in mangled names too. A
 *          word ends before any character that is not a letter or digit, and where lower case
 *          changes to upper case. `all reduce`, `all gather`, `reduce scatter`, `all to all`, `a2a`
 *          and `send recv` count as one word: allreduce, allgather, reducescatter, alltoall,
 *          sendrecv. For example, "void vllm::cross_device_reduce_1stage<half, 2>(T*)" becomes
 *          `_void_vllm_cross_device_reduce_1stage_`.
 * Pattern  Consecutive words anywhere in the name. `*` matches any text, and `?` matches one letter
 *          or digit. A pattern that begins with `^` matches from the first word only.
 * Order    Rules of the user come first, then the rows of trace/analysis/kernel_names.def. The
 *          first match decides.
 * Threads  Rules do not change after loading, so any number of threads may read them.
 */
#ifndef MRD_TRACE_KERNEL_NAMES_H
#define MRD_TRACE_KERNEL_NAMES_H

#include "base/buf.h"

typedef enum {
    MRD_CLASS_UNKNOWN, /* no pattern matches */
    MRD_CLASS_COMPUTE,
    MRD_CLASS_FUSED, /* computation fused with communication; counts as computation */
    MRD_CLASS_COPY,
    MRD_CLASS_NOTHING, /* no work: waiting, and annotations that lie over other spans */
    /* Communication in which all members of the group have to enter before one can leave. */
    MRD_CLASS_ALLREDUCE,
    MRD_CLASS_ALLGATHER,
    MRD_CLASS_REDUCESCATTER,
    MRD_CLASS_ALLTOALL,
    MRD_CLASS_BARRIER,
    /* Communication in which a member may leave before all have entered. */
    /* A SendRecv kernel. It counts as an all-to-all if the host's annotations say so
     * (mrd_collectives_all_to_all). */
    MRD_CLASS_SENDRECV,
    MRD_CLASS_MESSAGE, /* send, receive, broadcast, dispatch of tokens and the like */
} mrd_kernel_class;

/* Class that only rules and the table of patterns have. The work gets the class of the operation
 * that its name contains, or MESSAGE if the name contains no operation. */
#define MRD_CLASS_COMMUNICATION ((mrd_kernel_class) (MRD_CLASS_MESSAGE + 1))

static inline bool
mrd_class_communicates(mrd_kernel_class class)
{
    return class >= MRD_CLASS_ALLREDUCE;
}

typedef struct mrd_kernel_rules mrd_kernel_rules; /* rules that a user wrote */

/*
 * Reads rules from a file. Each line has a class and a pattern, such as `allreduce my_fast_ar*`.
 * Empty lines and lines that begin with `#` are ignored. Errors: errors of mrd_file_read, INVALID
 * for any other line, with its number.
 */
mrd_err mrd_kernel_rules_load(const char *path, mrd_kernel_rules **ret_rules, mrd_why *why);
void mrd_kernel_rules_free(mrd_kernel_rules *rules); /* accepts NULL */

/* Returns the class of work with this name. The rules may be NULL. */
mrd_kernel_class mrd_kernel_class_of_name(const mrd_kernel_rules *rules, mrd_str name);
/* Returns true if a rule of the user says that work with this name is computation. The rules may be
 * NULL. */
bool mrd_kernel_rules_compute(const mrd_kernel_rules *rules, mrd_str name);
/* Returns the class of an operation such as "_allgather_base": one of ALLREDUCE to SENDRECV, else
 * MESSAGE. */
mrd_kernel_class mrd_kernel_class_of_operation(mrd_str text);
/* Returns true if the name contains a word of communication, such as gather, dispatch or send. */
bool mrd_kernel_name_suspicious(mrd_str name);
/* Writes the common form of a name, cut to size - 1 bytes, into `form`. Returns the written
 * text. */
mrd_str mrd_kernel_name_form(mrd_str name, char *form, size_t size);

#endif
