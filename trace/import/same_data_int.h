/* trace/import/same_data_int.h - whose each input is, and windows of one process. Private to same_*.c. */
#ifndef MRD_TRACE_SAME_DATA_INT_H
#define MRD_TRACE_SAME_DATA_INT_H

#include "trace/import/same_data.h"

#define MRD_NO_INPUT UINT32_MAX

/* What an input states about its process. Unknown, or of several processes: MRD_NONE, MRD_SID_EMPTY. */
typedef struct {
    int64_t rank, pid;
    mrd_sid node, job;
    mrd_dur_ns base; /* 0: unknown */
    unsigned processes;
} mrd_whose;

/* One for each input of `once`, malloc'd. NULL: out of memory. */
mrd_whose *mrd_whose_new(const mrd_read_once *once, const mrd_catalog *cat);
/* Returns true if two inputs state different things. */
bool mrd_whose_contradict(const mrd_whose *whose, uint32_t a, uint32_t b);

/* Returns true if two inputs state the same process. */
bool mrd_whose_agree(const mrd_whose *whose, uint32_t a, uint32_t b);

/* Makes one process of the processes that are windows of it. Errors: NOMEM, those of mrd_stream_push. */
mrd_err mrd_windows_join(mrd_read_once *once, mrd_catalog *cat, mrd_store *store);
/* Names each process that looks like one of another file by its file. Errors: NOMEM. */
mrd_err mrd_files_name(mrd_catalog *cat);

#endif
