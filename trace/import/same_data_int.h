/* trace/import/same_data_int.h - the parts of trace/import/same_data.h: what inputs state about
 * their process, the comparison of events, and windows. Private to same_*.c. */
#ifndef MRD_TRACE_SAME_DATA_INT_H
#define MRD_TRACE_SAME_DATA_INT_H

#include "trace/import/same_data.h"

#define MRD_NO_INPUT UINT32_MAX

/* ---- Identity (same_identity.c) ---- */

/* Words after which a number in a path has a meaning, as in "rank0.json" and "node-1/a.json". */
enum {
    MRD_NAMED_RANK,
    MRD_NAMED_NODE,
    MRD_NAMED_WORKER,
    MRD_NAMED_HOST,
    MRD_NAMED_JOB,
    MRD_NAMED_RUN,
    MRD_NAMED
};

/* Statements of an input or a process about itself. MRD_NONE, MRD_SID_EMPTY and a base of 0 mean
 * that a value is unknown, or differs between the processes of the input. */
typedef struct {
    int64_t rank, pid, world_size;
    mrd_sid node, job, backend;
    mrd_dur_ns base;
    int64_t named[MRD_NAMED];
    unsigned processes;
} mrd_whose;

/* Returns what a process states about itself. */
mrd_whose mrd_whose_process(const mrd_catalog *cat, const mrd_process *process);
/* Returns an allocated array with one entry for each input of `once`. NULL if out of memory. */
mrd_whose *mrd_whose_new(const mrd_read_once *once, const mrd_catalog *cat);
/* Returns true if `a` and `b` state different values of the same member. */
bool mrd_whose_contradict(const mrd_whose *a, const mrd_whose *b);
/* Returns true if `a` and `b` contradict each other, but only in numbers from their paths. */
bool mrd_whose_named_apart(const mrd_whose *a, const mrd_whose *b);
/* Returns true if `a` states something that `b` does not. */
bool mrd_whose_states_more(const mrd_whose *a, const mrd_whose *b);
/* Copies the members that `from` states, but `to` does not. Returns false if there are none. */
bool mrd_whose_take(mrd_whose *to, const mrd_whose *from);

/* Returns the index in `once` of the catalog's input `input`; MRD_NO_INPUT if `once` does not have
 * it. */
uint32_t mrd_read_index(const mrd_read_once *once, uint32_t input);
/* Returns the path of an input of the catalog. */
mrd_str mrd_input_path(const mrd_catalog *cat, uint32_t input);
/* Compares two lists of n numbers lexicographically. Returns <0, 0, >0. */
int mrd_numbers_order(const int64_t *a, const int64_t *b, size_t n);

/* ---- Events (same_events.c) ---- */

/* A part that is compared with a whole. */
typedef struct {
    const mrd_read_input *read;
    bool is_used; /* result: at least one event of the part is in the whole */
    bool differs; /* result: at least one event of the part is not in the whole */
    /* result: processes of the part state something that processes of the whole do not */
    bool states_more;
    /* result: processes of the whole state something that processes of the part do not */
    bool states_less;
    bool lacks_ends; /* result: an unfinished span of the part is finished in the whole */
} mrd_events_part;

/*
 * Compares the events of `whole` with the events of each part, and sets the results in `parts`. Two
 * events are equal if everything that their files state about them is equal. With `by_name`, only
 * time, length and name count, which all formats state. An unfinished span is also equal to the
 * same span with an end. Reads each stream at most once. Errors: NOMEM, and errors of the store.
 */
mrd_err mrd_events_find_parts(const mrd_catalog *cat, const mrd_read_input *whole,
                              mrd_events_part *parts, size_t n, bool by_name);
/* Sets *ret_is_merged if each event of the whole is in exactly one of the parts, and the whole
 * states nothing that the parts lack. Changes the results in `parts`. Errors: the errors of
 * mrd_events_find_parts. */
mrd_err mrd_events_are_merged(const mrd_catalog *cat, const mrd_read_input *whole,
                              mrd_events_part *parts, size_t n, bool *ret_is_merged);

/* ---- Windows (same_windows.c) ---- */

/* Joins processes that were recorded in several windows of time. Errors: NOMEM and the errors of
 * mrd_stream_push. */
mrd_err mrd_windows_join(const mrd_read_once *once, const mrd_whose *whose, mrd_catalog *cat,
                         mrd_store *store);
/* Sets the rank of processes without a rank to the number after "rank" in the path of their file,
 * else to the number after "worker". Does so only if these numbers differ, and no other input
 * states one of them as its rank. Errors: NOMEM. */
mrd_err mrd_files_rank(const mrd_read_once *once, const mrd_whose *whose, mrd_catalog *cat);
/* Names each process after its file if processes of several files look the same. Errors: NOMEM. */
mrd_err mrd_files_name(mrd_catalog *cat);

#endif
