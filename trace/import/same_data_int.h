/* trace/import/same_data_int.h - functions that the files of trace/import/same_data.h share. They
 * collect facts about the inputs' processes, compare events, and join windows. Private to
 * same_*.c. */
#ifndef MRD_TRACE_SAME_DATA_INT_H
#define MRD_TRACE_SAME_DATA_INT_H

#include "trace/import/same_data.h"

#define MRD_NO_INPUT UINT32_MAX

/* ---- Identity (same_identity.c) ---- */

/* Words in a path before a number that identifies a process, as in "rank0.json" or "node-1/a.json".
 * They are indices of `named` below. */
enum {
    MRD_NAMED_RANK,
    MRD_NAMED_NODE,
    MRD_NAMED_WORKER,
    MRD_NAMED_HOST,
    MRD_NAMED_JOB,
    MRD_NAMED_RUN,
    MRD_NAMED
};

/* The facts that an input or a process states about its process. MRD_NONE, MRD_SID_EMPTY and a
 * `base` of 0 mean that a fact is unknown, or that it differs between the processes of an input. */
typedef struct {
    int64_t rank, pid, world_size;
    mrd_sid node, job, backend;
    mrd_dur_ns base;
    int64_t named[MRD_NAMED];
    unsigned processes;
} mrd_whose;

/* Returns the facts that a process in the catalog states about itself. */
mrd_whose mrd_whose_process(const mrd_catalog *cat, const mrd_process *process);
/* Returns an allocated array with the facts of each input in `once`. Returns NULL if out of
 * memory. */
mrd_whose *mrd_whose_new(const mrd_read_once *once, const mrd_catalog *cat);
/* Returns true if both `a` and `b` have a fact, but with different values. */
bool mrd_whose_contradict(const mrd_whose *a, const mrd_whose *b);
/* Returns true if `a` and `b` contradict each other, but only in the numbers from their paths. */
bool mrd_whose_named_apart(const mrd_whose *a, const mrd_whose *b);
/* Returns true if `a` has a fact that `b` lacks. */
bool mrd_whose_states_more(const mrd_whose *a, const mrd_whose *b);
/* Copies the facts of `from` that `to` lacks. Returns false if there are none. */
bool mrd_whose_take(mrd_whose *to, const mrd_whose *from);

/* Returns the index in `once` of the catalog's input `input`; MRD_NO_INPUT if `once` does not have
 * it. */
uint32_t mrd_read_index(const mrd_read_once *once, uint32_t input);
/* Returns the path of an input of the catalog. */
mrd_str mrd_input_path(const mrd_catalog *cat, uint32_t input);
/* Compares two lists of n numbers lexicographically. Returns <0, 0, >0. */
int mrd_numbers_order(const int64_t *a, const int64_t *b, size_t n);

/* ---- Events (same_events.c) ---- */

/* The comparison of a smaller input ("part") with a larger one ("whole"). */
typedef struct {
    const mrd_read_input *read;
    bool is_used; /* result: at least one event of the smaller input is in the larger one */
    bool differs; /* result: at least one event of the smaller input is not in the larger one */
    /* result: a process of the smaller input states a fact that the same process in the larger one
     * lacks */
    bool states_more;
    /* result: a process of the larger input states a fact that the same process in the smaller one
     * lacks */
    bool states_less;
    /* result: a span without an end in the smaller input has its end in the larger one */
    bool lacks_ends;
} mrd_events_part;

/*
 * Compares the events of `whole` with the events of each part, and sets the results in `parts`. Two
 * events are equal if everything that both files state about them is equal. If `by_name` is true,
 * only time, length, name and process are compared, because the files have different formats. An
 * unfinished span in a part equals the same finished span in the whole. Reads each stream at most
 * once. Errors: NOMEM, and errors of the store.
 */
mrd_err mrd_events_find_parts(const mrd_catalog *cat, const mrd_read_input *whole,
                              mrd_events_part *parts, size_t n, bool by_name);
/* Sets *ret_is_merged to true if each event of `whole` is in exactly one of the parts, and `whole`
 * states no fact that the parts lack. Sets the results in `parts`, too. Errors: the errors of
 * mrd_events_find_parts. */
mrd_err mrd_events_are_merged(const mrd_catalog *cat, const mrd_read_input *whole,
                              mrd_events_part *parts, size_t n, bool *ret_is_merged);

/* ---- Windows (same_windows.c) ---- */

/* Joins the processes of inputs that recorded the same process in different windows of time.
 * Errors: NOMEM and the errors of mrd_stream_push. */
mrd_err mrd_windows_join(const mrd_read_once *once, const mrd_whose *whose, mrd_catalog *cat,
                         mrd_store *store);
/* Sets the rank of processes that state none. The rank is the number after "rank" in the path of
 * their file, or else the number after "worker". Ranks are set only if all these numbers are
 * different, and differ from the ranks that other inputs state. Errors: NOMEM. */
mrd_err mrd_files_rank(const mrd_read_once *once, const mrd_whose *whose, mrd_catalog *cat);
/* If processes of several files look the same, names each one after its file. Errors: NOMEM. */
mrd_err mrd_files_name(mrd_catalog *cat);

#endif
