/*
 * aggregator/clock/clock_report.h - reports how well the clocks of a session's nodes are aligned.
 * For each node, boot and epoch, the report contains the estimate, its bound, its noise, the stamp
 * source and the quality. It also contains the number of packets that contradict the estimate, and
 * the state and errors of its clocks that the node itself reported. GET …/clocks and `meridian
 * clocks` show the report as a table, as JSON or as a picture.
 *
 * Threads  any thread may call the functions. Only one thread at a time may use a report.
 */
#ifndef MRD_AGGREGATOR_CLOCK_CLOCK_REPORT_H
#define MRD_AGGREGATOR_CLOCK_CLOCK_REPORT_H

#include "aggregator/clock/timeline.h"
#include "base/conf/json.h"

typedef struct {
    char *id;
    mrd_node_clock clock;
} mrd_clock_node;

typedef struct {
    mrd_clock_node *v; /* sorted by id; times are on the session's timeline */
    size_t n, cap;
    mrd_timeline timeline;
} mrd_clock_report;

/* Reads the clocks of the nodes in `only`, or of all nodes if `only` is empty, from a session's
 * directory. If the aggregator restarted on another machine or boot during the session, its clock
 * has several timelines. The shifts between these timelines come from the file that the merge of
 * the whole session saved. If there is no such file, they are computed from these nodes alone.
 * Errors: NOTFOUND if there is no node, and errors of mrd_node_clock_load. */
mrd_err mrd_clock_report_read(const char *session_dir, const mrd_strlist *only,
                              mrd_clock_report *ret_report, mrd_why *why);
void mrd_clock_report_fini(mrd_clock_report *report);
/* Appends the table, and then the assumptions and checks of each clock, to `to`. Sets to->err if
 * out of memory. */
void mrd_clock_report_text(const mrd_clock_report *report, mrd_buf *to);
/* Returns {"nodes": [...], "timeline": [...], "violations": n}. "nodes" has an entry for each node
 * and boot, and "timeline" for each timeline of the aggregator. A new timeline begins when the
 * aggregator's machine reboots or the aggregator moves to another machine. NULL if out of
 * memory. */
mrd_json *mrd_clock_report_json(const mrd_clock_report *report);
uint64_t mrd_clock_report_violations(const mrd_clock_report *report);

#endif
