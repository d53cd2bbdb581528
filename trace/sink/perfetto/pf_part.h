/*
 * trace/sink/perfetto/pf_part.h - begins and ends each file of a Perfetto trace. At the begin it
 * writes clocks, information about the trace, rows, and repeated data of earlier files. At the end
 * it writes totals. trace/sink/perfetto/pf_parts.h opens and names the files.
 */
#ifndef MRD_TRACE_PF_PART_H
#define MRD_TRACE_PF_PART_H

#include "trace/sink/perfetto/pf_state.h"

/* Sets pf->out, the output of the first file. pf->env must be set. Errors: NOMEM, IO. */
mrd_err mrd_pf_part_init(mrd_pf *pf);
/* Begins the first file at trace time pf->now, which is `session` in session time. */
void mrd_pf_part_begin(mrd_pf *pf, mrd_ev_ns session);
/* Ends the current file and begins the next. The next file's first event is at trace time `at`,
 * which is `session` in session time. The caller has written all events and ends before `at`.
 * Errors are stored in pf->err and pf->why. */
void mrd_pf_part_cut(mrd_pf *pf, mrd_ev_ns session, mrd_ev_ns at);
/* Completes the last file. Errors: NOMEM, IO. */
mrd_err mrd_pf_part_finish(mrd_pf *pf);
/* Frees the memory of mrd_pf_part_init. With `whole`, renames the index and the second and later
 * files to their final names. Otherwise removes these files. Errors: IO, FULL. */
mrd_err mrd_pf_part_fini(mrd_pf *pf, bool whole);
/* Begins in pf->event the BEGIN of a span that shows lost events, including its name. */
void mrd_pf_begin_loss(mrd_pf *pf, const mrd_pf_begun *loss);

#endif
