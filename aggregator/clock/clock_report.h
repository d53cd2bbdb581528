/*
 * aggregator/clock/clock_report.h - reports how good the estimates of the clocks of a session's
 * nodes are. For each node, boot and epoch the report has the estimate with its bound, noise, stamp
 * source and quality. It also has the packets that contradict the estimate, and the node's report
 * about its own clocks. GET …/clocks and `meridian clocks` show the report as a table, as JSON, or
 * as a picture.
 *
 * Threads  stateless; a report belongs to one thread.
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

/* Reads the nodes of a session's directory that `only` names, or all nodes if `only` is empty. The
 * timelines of the aggregator are linked as the merge of the whole session stored them. Before that
 * merge, the links are computed from these nodes only. Errors: NOTFOUND if there is no node, and
 * errors of mrd_node_clock_load. */
mrd_err mrd_clock_report_read(const char *session_dir, const mrd_strlist *only,
                              mrd_clock_report *ret_report, mrd_why *why);
void mrd_clock_report_fini(mrd_clock_report *report);
/* Appends the table, then the assumptions and checks of each clock. Sets to->err if out of
 * memory. */
void mrd_clock_report_text(const mrd_clock_report *report, mrd_buf *to);
/* Returns `{"nodes": [...], "timeline": [...], "violations": n}`, with one entry per node and boot,
 * and one per timeline of the aggregator. A new timeline begins when the aggregator's machine
 * reboots or the aggregator moves. NULL if out of memory. */
mrd_json *mrd_clock_report_json(const mrd_clock_report *report);
uint64_t mrd_clock_report_violations(const mrd_clock_report *report);

#endif
