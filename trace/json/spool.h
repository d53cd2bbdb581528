/*
 * trace/json/spool.h - stores a part of a JSON document while another part is written. A spool is
 * in memory while it is small, then in an unlinked temporary file. At the end it is copied into the
 * document.
 *
 * A zeroed spool is empty and needs no memory. Threads: belongs to one thread.
 */
#ifndef MRD_TRACE_SPOOL_H
#define MRD_TRACE_SPOOL_H

#include "trace/json/json_write.h"

/* Maximum number of bytes in memory. It must be more than a mrd_out passes at once. */
#define MRD_SPOOL_MEMORY (2u << 20)

typedef struct {
    mrd_jw w;
    mrd_out *out; /* receives the text of `w`; NULL until the first use */
    mrd_buf head; /* the first bytes of the spool; the file has the others */
    int fd;       /* temporary file; valid once file_bytes > 0 */
    uint64_t file_bytes;
    uint64_t elements; /* number of elements, counted by mrd_jw_spool_writer */
    mrd_why why;
} mrd_jw_spool;

/* Returns the writer for the next element of the spool. The elements will be in an array at depth
 * `depth`. Returns NULL if out of memory. */
mrd_jw *mrd_jw_spool_writer(mrd_jw_spool *spool, const mrd_strtab *strings, bool pretty,
                            unsigned depth);
/* Writes the spool's elements into the array that is open in `to`, and empties the spool. */
mrd_err mrd_jw_spool_drain(mrd_jw_spool *spool, mrd_jw *to, mrd_why *why);
void mrd_jw_spool_fini(mrd_jw_spool *spool);

#endif
