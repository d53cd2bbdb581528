/* trace/import/same_data_int.h - finds the process of each input, and inputs that recorded the
 * same process at separate times (windows). Private to same_*.c. */
#ifndef MRD_TRACE_SAME_DATA_INT_H
#define MRD_TRACE_SAME_DATA_INT_H

#include "trace/import/same_data.h"

#define MRD_NO_INPUT UINT32_MAX

/* The process that an input states. MRD_NONE or MRD_SID_EMPTY if it is unknown or the input has
 * several processes. */
typedef struct {
    int64_t rank, pid;
    mrd_sid node, job;
    mrd_dur_ns base; /* 0 means unknown */
    unsigned processes;
} mrd_whose;

/* Returns an allocated array with one entry for each input of `once`. NULL if out of memory. */
mrd_whose *mrd_whose_new(const mrd_read_once *once, const mrd_catalog *cat);
/* Returns true if two inputs state different things. */
bool mrd_whose_contradict(const mrd_whose *whose, uint32_t a, uint32_t b);

/* Returns true if two inputs state the same process. */
bool mrd_whose_agree(const mrd_whose *whose, uint32_t a, uint32_t b);

/* Joins processes that are windows of one process. Errors: NOMEM and the errors of
 * mrd_stream_push. */
mrd_err mrd_windows_join(mrd_read_once *once, mrd_catalog *cat, mrd_store *store);
/* Names each process after its file if a process of another file looks the same. Errors: NOMEM. */
mrd_err mrd_files_name(mrd_catalog *cat);

#endif
