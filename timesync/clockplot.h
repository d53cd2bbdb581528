/*
 * timesync/clockplot.h - alignment tables for people: a text table, and a picture as SVG.
 *
 * The picture stands alone (no script, no font, no link), has three panels over session time with
 * axes, units and a legend (offset with its bound after taking out each epoch's mean rate; width of
 * the bound; how far each packet lies from the estimate) and follows the viewer's light or dark
 * scheme. Both state the assumptions. Threads: stateless.
 */
#ifndef MRD_TIMESYNC_CLOCKPLOT_H
#define MRD_TIMESYNC_CLOCKPLOT_H

#include "timesync/align.h"
#include "timesync/probe.h"

/* Appends a header, one line per node and epoch, one per node without a bound, and the assumptions
 * of the others once (what differs between epochs is a column). Failures show in to->err. */
void mrd_clock_text(const mrd_align *const *tables, size_t n, mrd_buf *to);
/* The message that goes with every result, without a line end. */
void mrd_clock_assumptions(const mrd_align *align, mrd_buf *to);
/*
 * Appends the SVG of one node; probes may be NULL with n 0. Errors: EMPTY for a table without bins,
 * and of several for one of which none is aligned; NOMEM.
 */
mrd_err mrd_clock_svg(const mrd_align *align, const mrd_probe *probes, size_t n, mrd_buf *to);

#endif
