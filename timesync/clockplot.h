/*
 * timesync/clockplot.h - shows alignment tables to users, as a text table and as an SVG picture
 *
 * The picture is self-contained (no script, no font, no link). It has three panels over session
 * time, with axes, units and a legend. They show the offset with its bound (without the mean rate
 * of each epoch), the width of the bound, and the distance of each packet from the estimate. The
 * picture follows the viewer's light or dark scheme. Both outputs state the assumptions. Any thread
 * may call these functions.
 */
#ifndef MRD_TIMESYNC_CLOCKPLOT_H
#define MRD_TIMESYNC_CLOCKPLOT_H

#include "timesync/align.h"
#include "timesync/probe.h"

/* Appends a text table: a header, one line per node and epoch, one line per node without a bound,
 * and the assumptions. Assumptions that differ between epochs are columns. If out of memory,
 * to->err is set. */
void mrd_clock_text(const mrd_align *const *tables, size_t count, mrd_buf *to);
/* Appends a sentence that states the table's assumptions, without a line end. */
void mrd_clock_assumptions(const mrd_align *align, mrd_buf *to);
/*
 * Appends the SVG of one node. `probes` may be NULL with count 0. Errors: EMPTY for a table without
 * bins, and NOMEM.
 */
mrd_err mrd_clock_svg(const mrd_align *align, const mrd_probe *probes, size_t count, mrd_buf *to);

#endif
