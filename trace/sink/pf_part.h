/*
 * trace/sink/pf_part.h - begin and end of each file of a Perfetto trace: clocks, what it says about itself, rows, what is
 * repeated of earlier files, totals. Which files there are: trace/sink/pf_parts.h.
 */
#ifndef MRD_TRACE_PF_PART_H
#define MRD_TRACE_PF_PART_H

#include "trace/sink/pf_state.h"

/* s->env is set; sets s->out, where the file goes. Errors: NOMEM, IO. */
mrd_err mrd_pf_part_init(mrd_pf *s);
/* The first file, at s->now; `session` is that time. */
void mrd_pf_part_begin(mrd_pf *s, mrd_ev_ns session);
/* Goes on in another file, with the event of this time, which is behind all others; ends up to it were written.
 * Failures are in s->err and s->why. */
void mrd_pf_part_cut(mrd_pf *s, mrd_ev_ns session, mrd_ev_ns at);
/* The last file is whole. Errors: NOMEM, IO. */
mrd_err mrd_pf_part_finish(mrd_pf *s);
/* whole: the files behind the first appear, with their index; else they go. Frees what init made. Errors: IO, FULL. */
mrd_err mrd_pf_part_fini(mrd_pf *s, bool whole);
/* Begins the event of a loss, with its name. */
void mrd_pf_begin_loss(mrd_pf *s, const mrd_pf_begun *loss);

#endif
